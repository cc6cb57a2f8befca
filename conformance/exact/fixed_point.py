"""Arithmetic that shares no code with the specification: what the certificate compares with.

Angles are taken in 50-digit mpmath, bias slopes by the published recipe, buckets by a logarithm
whose ties are decided in integers.  Truths are integers times ``2**-BITS`` until the comparison,
which rounds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.angles import MAX_POSITION

DIGITS = 50
#: Fixed-point numbers here are Python integers times 2**-BITS.
BITS = 150

Array = Any


def mpmath() -> Any:
    """The package mpmath, or an ImportError that says how to get it."""
    try:
        import mpmath as package
    except ImportError as error:
        raise ImportError(
            f'50-digit arithmetic needs mpmath ({error}): pip install "posenc-ref[cli]"'
        ) from error
    return package


def geometric(base: float, exponents: Sequence[Fraction], factor: float = 1.0) -> list[Any]:
    """``base ** -e / factor`` for each exponent, 50-digit mpmath numbers."""
    mp = mpmath().mp
    with mp.workdps(DIGITS):
        return [
            mp.mpf(base) ** (-mp.mpf(e.numerator) / e.denominator) / mp.mpf(factor)
            for e in map(Fraction, exponents)
        ]


def exact_cos_sin(
    positions: Sequence[float], frequencies: Sequence[Any], phases: Sequence[Any] = ()
) -> tuple[Array, Array]:
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


def consecutive_cos_sin(count: int, frequencies: Sequence[Any]) -> tuple[Array, Array]:
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


def to_fixed(values: Array) -> Array:
    """Floats of modest size as integers times 2**-BITS (exact if they have that few bits)."""
    fix = np.frompyfunc(lambda v: int(math.ldexp(v, BITS)), 1, 1)
    return np.asarray(fix(np.asarray(values, dtype=np.float64)))


def to_float(fixed: Array) -> np.ndarray:
    """Integers times 2**-BITS, correctly rounded to float64."""
    return np.asarray(np.frompyfunc(lambda n: n / (1 << BITS), 1, 1)(fixed), dtype=np.float64)


class Exact:
    """True values as the unevaluated sum ``hi + lo``, so that one rounding can be measured."""

    def __init__(self, fixed: Array) -> None:
        self.hi = to_float(fixed)
        self.lo = to_float(fixed - to_fixed(self.hi))

    def error(self, actual: Array) -> np.ndarray:
        """``|actual - truth|``, good to far less than a rounding of ``actual``."""
        return np.asarray(np.abs((np.asarray(actual).astype(np.float64) - self.hi) - self.lo))

    def worst(
        self, actual: Array, terms: Any, amplitude: Any = 0.0, dtype: str | None = None
    ) -> tuple[float, float]:
        """The largest error, and the largest score for ``angles="exact"``.

        ``terms`` and ``amplitude`` are what :class:`posenc_ref.accuracy.Truth` says.  NaN is inf.
        """
        truth = Truth(self.hi, np.asarray(terms), np.zeros(()), np.asarray(amplitude))
        unit = truth.unit(dtype or str(actual.dtype), angles="exact")
        error = np.nan_to_num(self.error(actual), nan=np.inf, posinf=np.inf)
        unit = np.broadcast_to(unit, error.shape)
        score = np.divide(error, unit, out=np.where(error > 0, np.inf, 0.0), where=unit > 0)
        return float(np.max(error, initial=0.0)), float(np.max(score, initial=0.0))


def nearest_quarter_turns(frequency: Any, largest: int = MAX_POSITION) -> list[int]:
    """Integer positions whose angle comes closest to a multiple of pi/4, by continued fractions.

    There cos or sin vanish, or the quarter that is taken off changes.
    """
    mp = mpmath().mp
    found, before, k = [], 0, 1
    with mp.workdps(DIGITS):
        rest = 4 * frequency / mp.pi
        while k <= largest:
            found.append(k)
            rest = 1 / (rest - mp.floor(rest))
            before, k = k, int(mp.floor(rest)) * k + before
    return found


def slope_exponents(num_heads: int, max_bias: float = 8.0) -> list[Fraction]:
    """Exponents e of the ALiBi slopes ``2**-e``, by the authors' recursion (``get_slopes``)."""
    if num_heads & (num_heads - 1) == 0:
        return [Fraction(max_bias) * h / num_heads for h in range(1, num_heads + 1)]
    closest = 2 ** math.floor(math.log2(num_heads))
    more = slope_exponents(2 * closest, max_bias)[0::2]
    return slope_exponents(closest, max_bias) + more[: num_heads - closest]


def exact_bucket(r: int, num_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """The T5 bucket of ``r = key - query`` by a 50-digit logarithm, ties decided in integers."""
    mp = mpmath().mp
    nb = num_buckets // 2 if bidirectional else num_buckets
    first = nb if bidirectional and r > 0 else 0
    n, me = abs(r) if bidirectional else max(-r, 0), nb // 2
    if n < me:
        return first + n
    with mp.workdps(DIGITS):
        ratio = mp.log(mp.mpf(n) / me) / mp.log(mp.mpf(max_distance) / me) * (nb - me)
        t = int(mp.nint(ratio))
        if abs(ratio - t) > mp.mpf(10) ** (10 - DIGITS):  # far from a tie
            t = int(mp.floor(ratio))
        elif Fraction(n, me) ** (nb - me) < Fraction(max_distance, me) ** t:
            t -= 1
    return first + min(me + t, nb - 1)
