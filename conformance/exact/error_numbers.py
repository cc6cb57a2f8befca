"""Numbers that carry their error unit: a formula written in them gives the value, A and B.

Values are 50-digit mpmath numbers.  The coefficients follow the formula by these rules, from which
every family's stated unit comes: a given number has A = its size; sums add the coefficients;
products multiply A, and B of one factor goes with A of the other; ``sin`` and ``cos`` of x have
A = their size and B = A of x; any other function f has A = ``|f(x)| + |f'(x)| A``, as its argument
is rounded before.  The denominator of a quotient counts as exact.

``Counted(p)`` makes one number of a sum that implementations do not round, such as a shifted
position.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .digits import mpmath

Number = Any  # a 50-digit mpmath number, or an int or float that equals one


@dataclass(frozen=True, eq=False)
class Counted:
    """A value with A (``terms``), B (``angle``) and the amplitude of its sines and cosines."""

    value: Number
    terms: Number = None
    angle: Number = 0
    amplitude: Number = 0
    given: bool = False  #: looked up in an array: results must be bit-equal

    def __post_init__(self) -> None:
        mpf = mpmath().mp.mpf
        if not isinstance(self.value, mpf):
            object.__setattr__(self, "value", mpf(self.value))
        if self.terms is None:
            object.__setattr__(self, "terms", abs(self.value))

    def __add__(self, other: Any) -> Counted:
        o = counted(other)
        return Counted(
            self.value + o.value,
            self.terms + o.terms,
            self.angle + o.angle,
            self.amplitude + o.amplitude,
        )

    def __mul__(self, other: Any) -> Counted:
        o = counted(other)
        angle = amplitude = 0
        if self.amplitude or o.amplitude:  # both are 0 for numbers without sines and cosines
            angle = self.angle * o.terms + self.terms * o.angle
            amplitude = self.amplitude * o.terms + self.terms * o.amplitude
        return Counted(self.value * o.value, self.terms * o.terms, angle, amplitude)

    def __truediv__(self, other: Any) -> Counted:
        return self * Counted(1 / counted(other).value)

    def __pow__(self, exponent: Any) -> Counted:
        """Return ``self ** exponent`` for a base >= 0; A includes the rounded exponent."""
        e = counted(exponent)
        if self.value == 0:
            return Counted(0 if e.value else 1)
        value = self.value**e.value
        return Counted(value, abs(value) * (1 + abs(mpmath().mp.log(self.value)) * e.terms))

    def __neg__(self) -> Counted:
        return Counted(-self.value, self.terms, self.angle, self.amplitude)

    def __abs__(self) -> Counted:
        return self if self.value >= 0 else -self

    def __sub__(self, other: Any) -> Counted:
        return self + -counted(other)

    def __rsub__(self, other: Any) -> Counted:
        return counted(other) - self

    def __rtruediv__(self, other: Any) -> Counted:
        return counted(other) / self

    __radd__, __rmul__ = __add__, __mul__


def counted(number: Any) -> Counted:
    """Return a plain number with A = its size, and a :class:`Counted` unchanged."""
    return number if isinstance(number, Counted) else Counted(number)


def given(numbers: Any) -> Any:
    """Return the entries of a learned array, equally nested, as numbers that are looked up."""
    if hasattr(numbers, "tolist"):
        numbers = numbers.tolist()
    return (
        [given(n) for n in numbers] if isinstance(numbers, list) else Counted(numbers, given=True)
    )


def total(numbers: Iterable[Any]) -> Counted:
    """Return the sum of the numbers."""
    return sum(numbers, start=Counted(0))


def dot(a: Iterable[Any], b: Iterable[Any]) -> Counted:
    """Return the dot product of two sequences of equal length."""
    return total(counted(x) * y for x, y in zip(a, b, strict=True))


def sin(x: Any) -> Counted:
    """Return the sine of an angle."""
    x = counted(x)
    return Counted((value := mpmath().mp.sin(x.value)), abs(value), x.terms, 1)


def cos(x: Any) -> Counted:
    """Return the cosine of an angle."""
    x = counted(x)
    return Counted((value := mpmath().mp.cos(x.value)), abs(value), x.terms, 1)


def exp(x: Any) -> Counted:
    """Return e to the power of x."""
    x = counted(x)
    value = mpmath().mp.exp(x.value)
    return Counted(value, value * (1 + x.terms))


def log(x: Any) -> Counted:
    """Return the natural logarithm of x."""
    x = counted(x)
    value = mpmath().mp.log(x.value)
    return Counted(value, abs(value) + x.terms / abs(x.value))


def sigmoid(x: Any) -> Counted:
    """Return ``1 / (1 + exp(-x))``."""
    x = counted(x)
    s = 1 / (1 + mpmath().mp.exp(-x.value))
    return Counted(s, s + s * (1 - s) * x.terms)


def softplus(x: Any) -> Counted:
    """Return ``log(1 + exp(x))``."""
    x, mp = counted(x), mpmath().mp
    value = mp.log1p(mp.exp(x.value))
    return Counted(value, value + x.terms / (1 + mp.exp(-x.value)))


def relu(x: Any) -> Counted:
    """Return max(x, 0) with the A of x, because a rounded x may have the other sign."""
    x = counted(x)
    return x if x.value > 0 else Counted(0, x.terms, x.angle, x.amplitude)


def root(number: Any) -> Counted:
    """Return the square root of a plain number; it counts as exact."""
    return Counted(mpmath().mp.sqrt(number))


def power(base: Any, exponent: Any) -> Number:
    """Return ``base ** exponent`` of plain numbers in 50 digits, such as a frequency."""
    return _power(base, exponent, mpmath().mp.prec)


@functools.lru_cache(maxsize=4096)
def _power(base: Any, exponent: Any, precision: int) -> Number:
    return mpmath().mp.mpf(base) ** exponent


def pi() -> Number:
    """Return pi in 50 digits."""
    return +mpmath().mp.pi


def fraction(numerator: Any, denominator: Any) -> Number:
    """Return the quotient of two plain numbers in 50 digits."""
    return mpmath().mp.mpf(numerator) / denominator
