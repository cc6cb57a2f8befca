"""Masks on keys after the query, which usually the caller of an encoding applies.

A mask is an error if the encoding defines a bias for later keys, as ``ALiBi(causal=False)`` and a
bidirectional ``T5Bias`` do. Other encodings define nothing there; then only keys up to the query
are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from posenc_ref.conformance.harness.run import Run

from .cases import BiasCase, right

MASKED = "keys after the query are masked"
#: Smaller numbers count as minus infinity; the mildest mask in use adds -10000 to a logit.
_MASK = -5e3


def masked(values: np.ndarray, later: np.ndarray) -> bool:
    """Return whether exactly the ``later`` keys (Q, K) of values (..., Q, K) are masked."""
    return bool(later.any() and ((values < _MASK) == later).all())


def without_masked(run: Run, cases: Sequence[BiasCase]) -> list[BiasCase]:
    """Report masks on keys that the encoding defines; return the cases without masked keys."""
    kept = []
    for case in cases:
        later = case.offsets > 0
        if not (run.encoding.sees_future and masked(case.actual, later)):
            kept.append(case)
            continue
        first = tuple(int(n) for n in np.argwhere(later)[0])
        where = f"{case.actual[0][first]:.6g} at query {first[0]}, key {first[1]} of {case.name}"
        finite = np.isfinite(case.actual).all()
        run.add("future-keys", MASKED, where, by=None if finite else "nonfinite")
        kept.append(replace(case, judged=~later))
    return kept


def mask_alone(run: Run, cases: Sequence[BiasCase]) -> bool:
    """Return whether a wrong mask is the only error."""
    if not any(f.message == MASKED for f in run.report.findings):
        return False
    return all(right(run, case) for case in cases)
