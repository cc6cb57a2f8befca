"""Truths as integers times ``2**-BITS``, so that nothing is rounded before the comparison."""

import math
from fractions import Fraction

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.exact.digits import DIGITS, mpmath

#: Fixed-point numbers are Python integers times 2**-BITS.
BITS = 150


def geometric(base, exponents, factor=1.0):
    """``base ** -e / factor`` for each exponent, 50-digit mpmath numbers."""
    mp = mpmath().mp
    with mp.workdps(DIGITS):
        return [
            mp.mpf(base) ** (-mp.mpf(e.numerator) / e.denominator) / mp.mpf(factor)
            for e in map(Fraction, exponents)
        ]


def exact_cos_sin(positions, frequencies, phases=()):
    """cos and sin of ``p * w + phase``, (S, pairs) each, as integers times 2**-BITS."""
    mp = mpmath().mp
    offsets = list(phases) or [0] * len(frequencies)
    cos, sin = (np.zeros((len(positions), len(frequencies)), dtype=object) for _ in range(2))
    with mp.workdps(DIGITS):
        one = mp.mpf(2) ** BITS
        for i, position in enumerate(positions):
            p = mp.mpf(position)
            for j, (w, phase) in enumerate(zip(frequencies, offsets, strict=True)):
                c, s = mp.cos_sin(p * w + phase)
                cos[i, j], sin[i, j] = int(c * one), int(s * one)
    return cos, sin


def consecutive_cos_sin(count, frequencies):
    """The same for positions 0 .. count - 1, by multiplying with exp(i w) again and again.

    No angle is ever reduced: this agrees with `exact_cos_sin` to ``count * 2**-BITS`` or so, and
    is the second, faster route.
    """
    cos, sin = (np.zeros((count, len(frequencies)), dtype=object) for _ in range(2))
    step_cos, step_sin = (row[0] for row in exact_cos_sin([1], frequencies))
    c, s = np.full(len(frequencies), 1 << BITS, dtype=object), 0 * step_sin
    for p in range(count):
        cos[p], sin[p] = c, s
        c, s = c * step_cos - s * step_sin >> BITS, c * step_sin + s * step_cos >> BITS
    return cos, sin


def to_fixed(values):
    """Floats of modest size as integers times 2**-BITS (exact if they have that few bits)."""
    fix = np.frompyfunc(lambda v: int(math.ldexp(v, BITS)), 1, 1)
    return np.asarray(fix(np.asarray(values, dtype=np.float64)))


def to_float(fixed):
    """Integers times 2**-BITS, correctly rounded to float64."""
    return np.asarray(np.frompyfunc(lambda n: n / (1 << BITS), 1, 1)(fixed), dtype=np.float64)


class Exact:
    """True values as the unevaluated sum ``hi + lo``, so that one rounding can be measured."""

    def __init__(self, fixed):
        self.hi = to_float(fixed)
        self.lo = to_float(fixed - to_fixed(self.hi))

    def error(self, actual):
        """``|actual - truth|``, good to far less than a rounding of ``actual``."""
        return np.asarray(np.abs((np.asarray(actual).astype(np.float64) - self.hi) - self.lo))

    def worst(self, actual, terms, amplitude=0.0, dtype=None):
        """The largest error, and the largest score for ``angles="exact"``.

        ``terms`` and ``amplitude`` are what :class:`posenc_ref.accuracy.Truth` says.  NaN is inf.
        """
        truth = Truth(self.hi, np.asarray(terms), np.zeros(()), np.asarray(amplitude))
        unit = truth.unit(dtype or str(actual.dtype), angles="exact")
        error = np.nan_to_num(self.error(actual), nan=np.inf, posinf=np.inf)
        unit = np.broadcast_to(unit, error.shape)
        score = np.divide(error, unit, out=np.where(error > 0, np.inf, 0.0), where=unit > 0)
        return float(np.max(error, initial=0.0)), float(np.max(score, initial=0.0))


def slope_exponents(num_heads, max_bias=8.0):
    """Exponents e of the ALiBi slopes ``2**-e``, by the authors' recursion (``get_slopes``)."""
    if num_heads & (num_heads - 1) == 0:
        return [Fraction(max_bias) * h / num_heads for h in range(1, num_heads + 1)]
    closest = 2 ** math.floor(math.log2(num_heads))
    more = slope_exponents(2 * closest, max_bias)[0::2]
    return slope_exponents(closest, max_bias) + more[: num_heads - closest]
