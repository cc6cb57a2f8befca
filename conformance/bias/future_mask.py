"""Keys after the query that are masked, as the caller of an encoding would do it.

An encoding that declares later keys its own (``ALiBi(causal=False)``, a bidirectional T5) has a
value there, and a mask in its place is an error on every surface.  What is defined for any two
positions and declares nothing, a rotation or a table, is judged at the other keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from posenc_ref.conformance.harness.run import Run

from .cases import BiasCase, right

#: How it is said.
MASKED = "keys after the query are masked"
#: Numbers below stand for minus infinity; the mildest mask in use adds -10000 to a logit.
_MASK = -5e3


def masked(values: np.ndarray, later: np.ndarray) -> bool:
    """Whether the ``later`` keys (Q, K) of values (..., Q, K) are masked, and no others."""
    return bool(later.any() and ((values < _MASK) == later).all())


def without_masked(run: Run, cases: Sequence[BiasCase]) -> list[BiasCase]:
    """Keys after the query that are masked although they were declared; the others are left."""
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
    """Whether nothing is wrong but a mask."""
    if not any(f.message == MASKED for f in run.report.findings):
        return False
    return all(right(run, case) for case in cases)
