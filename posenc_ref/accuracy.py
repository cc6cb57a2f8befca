"""The error unit and the budgets. No other module defines a tolerance.

The score of an element is its error, divided by the error unit of the element.  The budget is the
largest score that passes.  The unit follows from two error coefficients A and B; each encoding
class states them in its docstring, and ``Truth`` holds them for each element of a reference::

    unit  = u_out * A + u_angle * B
    score = |actual - truth| / unit          (0 / 0 counts as 0, x / 0 as inf)

Where the unit is 0 in a channel that turns, as for the sine of the angle 0, an error of at most
``2**-53`` times the amplitude of the pair counts as 0, unless the outputs are float64: sines may be
computed as cosines of ``angle - pi/2`` in float64.

``A``        The sum of the absolute values of the terms in the element's formula.  It is 0 for an
             unrotated channel, which must be bit-equal.
``B``        The sum over position axes of ``|position * frequency|``, times the amplitude of the
             channel pair.  The product of B and a relative error of the angle bounds the error of
             the element.
``u_out``    The roundoff of the output dtype, or of ``precision``, the dtype of the arithmetic, if
             that dtype is coarser.
``u_angle``  The roundoff of ``angles``: 2**-24 for "float32", 2**-53 for "float64".  The default
             is "float64" for float64 outputs, and "float32" for all other dtypes, because float32
             angles are common practice.

With ``angles="exact"`` the term ``u_angle * B`` is replaced by the error bound of the reference,
which is the same at every position.

The correct float32 implementations in ``tests/mutants`` have scores up to 13, correct bfloat16
arithmetic up to 4.  The smallest score of a wrong implementation is 660.  The budgets lie between
these scores, nearer to those of correct implementations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._text import shown
from .angles import ERROR_BOUND

#: Roundoff (half a unit in the last place of 1.0) of each floating dtype.
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
#: Largest score that passes, by output dtype.
BUDGET = {"float64": 128.0, "float32": 128.0, "float16": 8.0, "bfloat16": 8.0}
#: Smallest positive normal number of each dtype; below it the spacing is constant. (float64: twice
#: that, because half the spacing of subnormal numbers underflows to 0.)
TINY = {"float64": 2.0**-1021, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
#: Largest number of each dtype; beyond it the right result is infinity.
LARGEST = {
    "float64": (2 - 2.0**-52) * 2.0**1023,
    "float32": (2 - 2.0**-23) * 2.0**127,
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
}
#: The allowed error of a fitted amplitude, in addition to its standard errors.
FACTOR_SLACK = 1e-3
#: The error of rounding 1.0 to bfloat16: the report gives the first position that exceeds it.
VISIBLE = 2.0**-9
#: Frequencies with a smaller relative difference count as the same: files have float32 factors.
SAME_FREQUENCY = 2.0**-22
#: The precisions in which an implementation may compute its angles.
ANGLES = ("float32", "float64", "exact")


@dataclass(frozen=True)
class Truth:
    """Reference values, with the coefficients A and B of the rounding error of each element."""

    value: np.ndarray
    terms: np.ndarray  # A
    angle: np.ndarray  # B
    amplitude: np.ndarray = field(default_factory=lambda: np.zeros(()))

    def unit(self, dtype: str, *, angles: str | None = None, precision: str | None = None) -> Any:
        """Return the error unit of each element for outputs of ``dtype``."""
        if dtype not in ROUNDOFF:
            raise ValueError(f"dtype must be one of {', '.join(ROUNDOFF)}, got {shown(dtype)}")
        u_out = max(ROUNDOFF[dtype], ROUNDOFF[precision or dtype])
        angles = angles or ("float64" if dtype == "float64" else "float32")
        if angles not in ANGLES:
            raise ValueError(f"angles must be one of {', '.join(ANGLES)}, got {shown(angles)}")
        # Below the smallest normal number the roundoff is constant.
        unit = np.asarray(np.maximum(self.terms, TINY[dtype]))
        unit *= u_out
        live = np.greater(self.terms, 0)
        if not live.all():
            unit[~live] = 0.0
        if angles == "exact":
            return unit + ERROR_BOUND * self.amplitude
        if np.shape(self.angle) in ((), unit.shape) and not np.any(self.angle):
            return unit  # the same numbers, without another pass
        return unit + ROUNDOFF[angles] * self.angle

    def score(
        self,
        actual: np.ndarray,
        *,
        angles: str | None = None,
        precision: str | None = None,
        dtype: str | None = None,
    ) -> np.ndarray:
        """Return ``|actual - truth| / unit`` per element; a NaN in ``actual`` scores inf.

        Infinity of the right sign scores 0 where the truth is beyond the largest number.
        """
        name = dtype or str(actual.dtype)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.asarray(actual - self.value, dtype=np.float64)
            np.abs(score, out=score)
            score /= self.unit(name, angles=angles, precision=precision)
        if np.isfinite(score).all():
            return score
        infinite = np.isinf(score)
        if infinite.any():
            size = np.abs(self.value)
            over = (size > LARGEST[name]) & (size < np.inf)
            score[infinite & over & (actual == np.copysign(np.inf, self.value))] = 0.0
            if name != "float64":
                with np.errstate(invalid="ignore"):  # infinity in both
                    off = np.abs(actual - self.value)
                score[infinite & (off <= ROUNDOFF["float64"] * self.amplitude)] = 0.0
        undefined = np.isnan(score)
        if undefined.any():
            exact = (actual == self.value) & np.isfinite(self.value)
            exact = np.broadcast_to(exact, score.shape)
            score[undefined] = np.where(exact[undefined], 0.0, np.inf)
        return score


def budget(dtype: str, precision: str | None = None) -> float:
    """Return the largest passing score for outputs of ``dtype`` computed in ``precision``."""
    return min(BUDGET[dtype], BUDGET[precision or dtype])
