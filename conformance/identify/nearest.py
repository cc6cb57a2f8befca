"""Find the frequency schedule nearest to frequencies that match none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import posenc_ref as pr
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES

from .fit.measurement import PLAIN, Fit, Measurement, decimals, fitted_base, predict
from .names import known


def nearest(m: Measurement) -> str:
    """Describe the rule that matches most pairs (at least half), or has the smallest error."""
    if m.w.size < 2 or not (m.w > 0).all():
        return ""
    rated = []
    for n, found in enumerate(_candidates(m)):
        off = np.abs(np.log(m.w / predict(found.base, found.scaling, m.rotary_dim)))
        left = int((off > m.error).sum())
        rated.append((left if 2 * left < off.size else off.size, float(off.max()), n, found, off))
    _, worst, _, found, off = min(rated)
    rule = "" if found.scaling is None else f" with {found.scaling!r}"
    at, apart = int(np.argmax(off)), off > m.error
    first = int(np.argmax(apart))
    return (
        f"base={found.base:g}{rule}, which {int((~apart).sum())} of {m.w.size} pairs follow; the "
        f"first that does not is pair {first} ({100 * np.expm1(off[first]):.3g} % off), the worst "
        f"is pair {at} ({100 * np.expm1(worst):.3g} % off)"
    )


def _candidates(m: Measurement) -> Iterator[Fit]:
    """Yield published bases with usual factors, and the best fitted base."""
    fitted = fitted_base(m, 1.0)
    near = () if fitted is None else tuple(decimals(fitted, digits=3))
    for base in (*PUBLISHED_BASES, *near):
        if base <= 1.0:
            continue
        yield Fit(base, None)
        for factor in PLAIN:
            yield Fit(base, pr.LinearScaling(factor))
            if m.rotary_dim > 2:
                yield Fit(base, pr.NTKScaling(factor))
    for _, e in known():
        if (
            isinstance(e, pr.RoPE)
            and isinstance(e.scaling, pr.YaRN | pr.Llama3Scaling)
            and (e.rotary_dim or e.head_dim) == m.rotary_dim
        ):
            yield Fit(e.base, e.scaling)
