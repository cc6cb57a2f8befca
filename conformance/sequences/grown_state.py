"""Find kept values that are changed again with every use: scaled twice, or multiplied in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.match import failed, fits, worst
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.run import Run

from .cache_mistakes import scaled_again

#: The most times that a factor is applied again.
_MOST = 40


def name_growth(run: Run, calls: Sequence[JudgedCall]) -> bool:
    """Report a factor that kept values get again and again; return whether every call shows it."""
    wrong = failed(run, calls)
    return bool(wrong) and (_amplitude(run, wrong) or _scaled(run, wrong))


def _amplitude(run: Run, wrong: Sequence[JudgedCall]) -> bool:
    """Report results that have the attention factor several times, each token its own number."""
    m = wrong[0].facts.encoding.attention_factor()
    if m == 1.0 or m <= 0:
        return False
    most = 0
    for one in wrong:
        truth = one.truth
        rotated = truth.terms > 0
        sizes = [
            np.sqrt(np.sum(np.where(rotated, v, 0.0) ** 2, -1)) for v in (one.actual, truth.value)
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.rint(np.log(sizes[0] / sizes[1]) / np.log(m))
        if not np.isfinite(times).all() or np.abs(times).max() > _MOST:
            return False
        if not fits(run, one, scaled_again(truth, 1 + times[..., None], m)):
            return False
        most = max(most, int(times.max()))
    if not most:
        return False
    at = worst(run, wrong[0])
    run.add(
        "state",
        f"the attention factor {m:.6g} is multiplied into kept cos and sin again: tokens have it "
        f"up to {most + 1} times",
        f"{wrong[0].case}, index {at}: {wrong[0].actual[at]:.9g}, declared "
        f"{wrong[0].truth.value[at]:.9g}; so in all {len(wrong)} wrong results",
        remedy="Multiply by the factor once: when the kept cos and sin are built, or a copy of "
        "them in every call. Do not multiply the kept ones in place.",
        by=None,
    )
    return True


def _scaled(run: Run, wrong: Sequence[JudgedCall]) -> bool:
    """Report frequencies that are divided by the declared scaling's factor again."""
    scaling: Any = getattr(wrong[0].facts.encoding, "scaling", None)
    factor = getattr(scaling, "factor", None)
    if not isinstance(factor, int | float) or factor in (0, 1):
        return False
    powers = []
    for one in wrong:
        found = (
            j for j in (1, 2, 3, 4, 5, 6, -1)
            if fits(run, one, one.facts.at(one.facts.positions[:, None] * float(factor) ** -j))
        )  # fmt: skip
        j = next(found, None)
        if j is None:
            return False
        powers.append(j)
    often = plural(max(map(abs, powers)), "time", "times")
    done = "divided" if min(powers) > 0 else "multiplied"
    run.add(
        "state",
        f"the frequencies are {done} by the scaling's factor {factor:g} again after earlier calls, "
        f"up to {often} too often",
        f"{wrong[0].case}: {factor:g}**{powers[0]}; {wrong[-1].case}: {factor:g}**{powers[-1]}; so "
        f"in all {len(wrong)} wrong results",
        remedy="Scale the original frequencies once: keep them unscaled, and never overwrite them "
        "with scaled ones.",
        by=None,
    )
    return True
