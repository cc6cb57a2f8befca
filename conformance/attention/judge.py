"""Judge ``attention``: outputs of queries, keys and values, in short and long calls, and state.

The error unit is that of :class:`posenc_ref.Attention`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import TINY, Truth
from posenc_ref.conformance.diagnosis.match import failed, fits
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS
from posenc_ref.conformance.functions.function import Arguments, Plain
from posenc_ref.conformance.functions.judge import judge as judge_function
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.attention import attended, attention_of
from posenc_ref.conformance.score.far import require, rules_of

from .calls import calls, far_lengths, late_positions
from .mistakes import attention_mistakes, rarer_mistakes
from .tails import near_masks
from .together import two_of_attention

#: The most roundings that an error is, and the share of the errors that no factor explains.
_ROUNDINGS, _SCATTERED = 4, 0.9


def _last(arguments: tuple[Any, ...]) -> int:
    """Return the last position of a call."""
    return int(np.max(arguments[4], initial=0))


def _truth(declared: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    truth = attended(declared, *arguments).truth()
    assert truth is not None
    return Truth(value, truth.terms, truth.angle)


def _remedy(declared: Any) -> str:
    of = attention_of(declared)
    if of.values == "plain":
        return "Compute softmax(logits) v for each head, with the declared logits."
    return (
        "Rotate queries, keys and values to their positions, compute softmax(logits) v, and rotate "
        "the output back by the positions of the queries."
    )


def _closer(run: Run, calls: list[JudgedCall]) -> None:
    """Report results of earlier positions, or ones that overflow."""
    wrong = failed(run, calls)
    first: dict[tuple[int, int], JudgedCall] = {}
    for one in calls:
        first.setdefault(_counts(one), one)
    if all(_at_positions_of(run, one, first[_counts(one)]) for one in wrong):
        one = wrong[0]
        run.add(
            "state",
            "a call has the positions of the first call with as many queries and keys: consistent "
            "with values that are kept by Q and K alone",
            f"{one.case}: the result at the positions of {first[_counts(one)].case}",
            remedy="Make the positions a part of the key of what is kept, or keep nothing.",
        )
        return
    if all("negative logits" in one.case for one in wrong):
        _below(run, wrong)
        return
    # Exponentials of large logits overflow; those of logits far below 0 are 0, and so is their sum.
    large = [one for one in wrong if "large" in one.case]
    others = all(any(one is w for w in large) or "negative logits" in one.case for one in wrong)
    if large and others and all(not np.isfinite(one.actual).all() for one in wrong):
        run.add(
            "softmax-scale",
            "exponentials overflow where logits are large: consistent with a softmax that does not "
            "subtract the largest logit",
            f"{wrong[0].case}: not finite",
            remedy="Subtract the largest logit of each row before exp.",
        )
        return
    _narrow(run, wrong)


def _narrow(run: Run, wrong: list[JudgedCall]) -> None:
    """Report errors that are as large as a few roundings of a narrow format, and follow no rule."""
    parts = []
    for one in wrong:
        q, k, v, *rest = one.facts.arguments
        size = attended(run.encoding, q, k, np.abs(v), *rest).truth()
        if size is None or not np.isfinite(one.actual).all():
            return
        off = one.actual - one.truth.value
        parts.append(np.stack([off, one.truth.value, np.abs(size.value)]).reshape(3, -1))
    off, value, size_of = np.concatenate(parts, axis=1)
    factor = (off * value).sum() / max((value * value).sum(), TINY["float64"])
    scattered = np.square(off - factor * value).sum() >= _SCATTERED * np.square(off).sum()
    largest = float((np.abs(off) / np.maximum(size_of, TINY["float64"])).max())
    for name, bits in sorted(SIGNIFICANT_BITS.items(), key=lambda item: -item[1]):
        if scattered and 2.0**-bits / 4 < largest <= _ROUNDINGS * 2.0**-bits:
            run.add(
                "table-precision",
                f"errors follow no rule, and are at most {largest * 2.0**bits:.2g} roundings to "
                f"{name} of the sum of weights times |v|: consistent with a softmax in {name}",
                f"{off.size} outputs of {len(wrong)} wrong calls",
                remedy=f"Compute the softmax in float32: exponentials, their sum and the quotient "
                f"lose digits in {name}.",
            )
            return


def _below(run: Run, wrong: list[JudgedCall]) -> None:
    """Report what is wrong only where all logits of a query are far below 0."""
    for one in near_masks(run.encoding):
        if all(fits(run, call, one.predict(call.facts)) for call in wrong):
            run.add(one.code, one.message, wrong[0].case, remedy=one.remedy)
            return
    lost = [~np.isfinite(one.actual) | (one.actual == 0) for one in wrong]
    kept = [replace(w, mask=~gone) for w, gone in zip(wrong, lost, strict=True)]
    if all(fits(run, one, one.truth) for one in kept):
        run.add(
            "softmax-scale",
            "outputs are 0 or NaN where all logits of a query are far below 0: consistent with a "
            "largest logit that starts at 0, not at -inf, so that exponentials underflow",
            f"{wrong[0].case}: {int(lost[0].sum())} outputs are 0 or NaN",
            remedy="Start the largest logit of a row at -inf, and subtract it before exp.",
        )


def _counts(one: JudgedCall) -> tuple[int, int]:
    q, k, *_ = one.facts.arguments
    return q.shape[2], k.shape[2]


def _at_positions_of(run: Run, one: JudgedCall, other: JudgedCall) -> bool:
    """Return whether a result is that at the positions of another call."""
    own, places = one.facts.arguments, other.facts.arguments[3:5]
    if one is other or any(a.shape != b.shape for a, b in zip(own[3:5], places, strict=True)):
        return False
    return fits(run, one, attended(run.encoding, *own[:3], *places, *own[5:]).truth())


ROW = Plain(
    calls, attention_mistakes, "inaccurate", integers=False, rarer=rarer_mistakes, truth=_truth,
    remedy=_remedy, closer=_closer, together=two_of_attention,
)  # fmt: skip


def judge(run: Run) -> None:
    """Judge ``fn(q, k, v, q_positions, k_positions)``, with the sinks if they are declared."""

    def allowed(*of: Any) -> Iterator[Arguments]:
        return (c for c in calls(*of) if c.required or run.settings.allows(_last(c.arguments)))

    judged = judge_function(run, replace(ROW, probes=allowed))
    if not judged:
        return
    lengths = {one.facts.arguments[1].shape[2] for one in judged}
    late = [n for n in far_lengths(run.encoding) if n not in lengths]
    require(run, "", late, " keys", rules_of(attention_of(run.encoding).encoding))
    reached = max(_last(one.facts.arguments) for one in judged)
    for at, rules in late_positions(run.encoding).items():
        require(run, "positions up to ", [at] if at > reached else [], "", rules)
