"""The error unit and its budgets.  No other module holds a tolerance.

Each element of a truth ``f`` carries two coefficients:

``A``  the sum of the absolute values of the terms added to form it (0 for a channel passed
       through, which must be bit-equal);
``B``  the sum over axes of ``|position * frequency|`` times the amplitude of the pair: how much
       the element moves when the angle is rounded.

    unit  = u_out * A + u_angle * B
    score = |actual - truth| / unit          (0 / 0 is 0; anything else over a unit of 0 is inf)

``u_out`` is the roundoff of the output dtype (or of ``precision``, if coarser).  ``u_angle`` is
2**-24 whatever the output dtype, because float32 angles are common practice; 2**-53 for float64
outputs and ``angles="float64"``; with ``angles="exact"`` the angle term is the oracle's own bound,
whatever the position.  In the corpus of ``tests/mutants`` correct float32 code measures at most
13 units, correct bfloat16 arithmetic 4, and the mildest wrong values 660: the budgets stand
between, nearer to the correct ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .angles import ERROR_BOUND

#: Roundoff (half a unit in the last place of 1.0) of each floating dtype.
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
#: Largest score that passes, by output dtype.
BUDGET = {"float64": 128.0, "float32": 128.0, "float16": 8.0, "bfloat16": 8.0}
#: Smallest positive normal number of each dtype; below it the spacing is constant.  (float64: twice
#: that, because half of its spacing is no number.)
TINY = {"float64": 2.0**-1021, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
#: What a fitted amplitude may be off by, beside its standard errors.
FACTOR_SLACK = 1e-3
#: An absolute error of one bfloat16 rounding of 1.0: the report says where it is first exceeded.
VISIBLE = 2.0**-9
#: The ways an implementation may hold its angles.
ANGLES = ("float32", "float64", "exact")


@dataclass(frozen=True)
class Truth:
    """Reference values with A, B and the amplitude of the error unit, per element."""

    value: np.ndarray
    terms: np.ndarray  # A
    angle: np.ndarray  # B
    amplitude: np.ndarray = field(default_factory=lambda: np.zeros(()))

    def unit(self, dtype: str, *, angles: str | None = None, precision: str | None = None) -> Any:
        """Return the unit of every element for outputs of ``dtype``."""
        if dtype not in ROUNDOFF:
            raise ValueError(f"dtype must be one of {', '.join(ROUNDOFF)}, got {dtype!r}")
        u_out = max(ROUNDOFF[dtype], ROUNDOFF[precision or dtype])
        angles = angles or ("float64" if dtype == "float64" else "float32")
        if angles not in ANGLES:
            raise ValueError(f"angles must be one of {', '.join(ANGLES)}, got {angles!r}")
        # Below the smallest normal number the roundoff stays what it is there.
        rounding = u_out * np.where(self.terms > 0, np.maximum(self.terms, TINY[dtype]), 0.0)
        if angles == "exact":
            return rounding + ERROR_BOUND * self.amplitude
        return rounding + ROUNDOFF[angles] * self.angle

    def score(
        self,
        actual: np.ndarray,
        *,
        angles: str | None = None,
        precision: str | None = None,
        dtype: str | None = None,
    ) -> np.ndarray:
        """Return ``|actual - truth| / unit`` per element; NaN scores inf where truth is finite."""
        name = dtype or str(actual.dtype)
        error = np.abs(actual.astype(np.float64) - self.value)
        unit = np.broadcast_to(self.unit(name, angles=angles, precision=precision), error.shape)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(error == 0, 0.0, error / unit)
        return np.where(np.isnan(score), np.inf, score)


def budget(dtype: str, precision: str | None = None) -> float:
    """Return the largest passing score for outputs of ``dtype`` computed in ``precision``."""
    return min(BUDGET[dtype], BUDGET[precision or dtype])
