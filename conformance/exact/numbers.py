"""Expected values in 50-digit mpmath, with the coefficients A and B of their rounding error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .digits import DIGITS, mpmath
from .output import Output

#: The smallest positive float32.  A = 0 would demand equality to the last bit.
LEAST = 2.0**-149

Array = Any
Number = Any  # a 50-digit mpmath number


@dataclass(frozen=True)
class Real:
    """Expected values, and the coefficients A and B of the rounding error of each value.

    The arrays have equal shapes and hold 50-digit numbers.
    """

    value: Array
    terms: Array  #: A
    angle: Array  #: B
    judged: Array | None = None  #: booleans: False excludes an element
    relative_to: Array | None = None  #: (Q,) reference columns, if rows may differ by a constant
    amplitude: Array | None = None  #: of the sines and cosines, for certificates

    def output(self) -> Output:
        """Return the values as float64 numbers hi + lo, and A and B rounded to float32."""
        hi = self.value.astype(np.float64)
        with mpmath().mp.workdps(DIGITS):
            lo = np.asarray(self.value - hi).astype(np.float64)
        a, b = (part.astype(np.float64) for part in (self.terms, self.angle))
        a = np.where((a > 0) & (b == 0), np.maximum(a, LEAST), a)  # where B > 0 the unit is never 0
        a, b = (part.astype(np.float32).astype(np.float64) for part in (a, b))
        more = {} if self.amplitude is None else {"amplitude": self.amplitude.astype(np.float64)}
        return Output(hi, lo, a, b, judged=self.judged, relative_to=self.relative_to, **more)


def objects(shape: tuple[int, ...]) -> Array:
    """Return an object array of exact zeros."""
    made = np.empty(shape, dtype=object)
    made.fill(mpmath().mp.mpf(0))
    return made


def sizes(values: Array) -> Array:
    """Return the absolute value of every element."""
    return np.asarray(np.frompyfunc(abs, 1, 1)(values), dtype=object)


def computed(real: Real) -> Real:
    """Return ``real`` with A = |value| where A = 0 would demand a bit-equal copy of a channel."""
    terms = np.where(real.terms == 0, sizes(real.value), real.terms)
    return Real(real.value, terms, real.angle)


def exactly(values: Array) -> Real:
    """Return values computed without an angle: A = |value|, B = 0."""
    value = np.asarray(values, dtype=object)
    return Real(value, sizes(value), objects(value.shape))


def identical(values: Array) -> Real:
    """Return values that are only moved: A = B = 0, so only equality passes."""
    value = np.frompyfunc(mpmath().mp.mpf, 1, 1)(np.asarray(values, dtype=np.float64))
    value = np.asarray(value, dtype=object)
    return Real(value, objects(value.shape), objects(value.shape))
