"""The error unit and the largest scores that pass. No other module defines a tolerance.

Each element of a reference (class ``Truth``) has two error coefficients:

``A``  the sum of the absolute values of its terms (0 for an unrotated channel, which must be
       bit-equal);
``B``  the sum over axes of ``|position * frequency|`` times the amplitude of the pair: how much
       rounding the angle changes the element.

    unit  = u_out * A + u_angle * B
    score = |actual - truth| / unit          (0 / 0 counts as 0, x / 0 as inf)

``u_out`` is the roundoff of the output dtype (or of ``precision``, if coarser).  ``u_angle`` is
2**-24 for every output dtype, because float32 angles are common practice, but 2**-53 for float64
outputs and for ``angles="float64"``; with ``angles="exact"`` the angle term is the reference's own
error bound, at every position.  In the corpus of ``tests/mutants`` correct float32 code measures at
most 13 units, correct bfloat16 arithmetic 4, and the smallest error of a wrong implementation 660:
the budgets lie between, nearer to the correct ones.
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
#: Smallest positive normal number of each dtype; below it the spacing is constant. (float64: twice
#: that, because half the spacing of subnormal numbers underflows to 0.)
TINY = {"float64": 2.0**-1021, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
#: The allowed error of a fitted amplitude, in addition to its standard errors.
FACTOR_SLACK = 1e-3
#: The error of rounding 1.0 to bfloat16: the report gives the first position that exceeds it.
VISIBLE = 2.0**-9
#: The precisions in which an implementation may compute its angles.
ANGLES = ("float32", "float64", "exact")


@dataclass(frozen=True)
class Truth:
    """Reference values, with A and B of the error unit for each element."""

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
        # Below the smallest normal number the roundoff is constant.
        rounding = np.maximum(self.terms, TINY[dtype] * (self.terms > 0)) * u_out
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
        """Return ``|actual - truth| / unit`` per element: inf for a NaN where truth is finite."""
        name = dtype or str(actual.dtype)
        error = np.abs(actual.astype(np.float64, copy=False) - self.value)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.asarray(error / self.unit(name, angles=angles, precision=precision))
        undefined = np.isnan(score)
        if undefined.any():
            score[undefined] = np.where(error[undefined] == 0, 0.0, np.inf)
        return score


def budget(dtype: str, precision: str | None = None) -> float:
    """Return the largest passing score for outputs of ``dtype`` computed in ``precision``."""
    return min(BUDGET[dtype], BUDGET[precision or dtype])
