"""Numbers that carry the coefficients of their error unit through a formula.

A :class:`Counted` holds a value and two coefficients, A and B. The error unit of a result is
``u_out * A + u_angle * B``, where ``u_out`` is the roundoff of the result's dtype and ``u_angle``
that of the angles. Values are 50-digit mpmath numbers; A and B, which are kept in float32, are
computed in float64. The rules for A and B are:

- A given number x, such as a field of an encoding, has A = ``|x|`` and B = 0.
- A sum has the sum of the A of its terms as A, and the sum of their B as B.
- A product of x and y has A = ``A_x A_y`` and B = ``B_x A_y + A_x B_y``.
- ``sin(x)`` has A = ``|sin(x)|`` and B = ``A_x``; ``cos(x)`` likewise.
- Any other function f has A = ``|f(x)| + |f'(x)| A_x``, because its argument is rounded first.
- The denominator of a quotient counts as exact.

A sum p that implementations compute exactly, such as a shifted position, is a given number:
``Counted(p)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .digits import mpmath

Number = Any  # a 50-digit mpmath number, or an int or float that equals one


@dataclass(eq=False, slots=True)  # a million are made: frozen, each would take four times as long
class Counted:
    """A value with the coefficients A and B of its rounding error."""

    value: Number
    terms: Any = None  #: A, a float; by default that of a given number
    angle: float = 0.0  #: B
    amplitude: float = 0.0  #: of its sines and cosines
    given: bool = False  #: looked up in an array: results must be bit-equal

    def __post_init__(self) -> None:
        mpf = mpmath().mp.mpf
        if not isinstance(self.value, mpf):
            self.value = mpf(self.value)
        if self.terms is None:
            self.terms = abs(float(self.value))

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
        angle = amplitude = 0.0
        if self.amplitude or o.amplitude:  # both are 0 for numbers without sines and cosines
            angle = self.angle * o.terms + self.terms * o.angle
            amplitude = self.amplitude * o.terms + self.terms * o.amplitude
        return Counted(self.value * o.value, self.terms * o.terms, angle, amplitude)

    def __truediv__(self, other: Any) -> Counted:
        return self * Counted(1 / counted(other).value)

    def __pow__(self, exponent: Any) -> Counted:
        """Return ``self ** exponent`` for a base >= 0; A includes the rounding of the exponent."""
        e = counted(exponent)
        if self.value == 0:
            return Counted(0 if e.value else 1)
        value = self.value**e.value
        steep = abs(float(mpmath().mp.log(self.value)))
        return Counted(value, abs(float(value)) * (1 + steep * e.terms))

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
    """Return a :class:`Counted` unchanged, and any other number as a given number."""
    return number if isinstance(number, Counted) else Counted(number)


def given(numbers: Any) -> Any:
    """Return a learned array as nested lists of :class:`Counted` with ``given=True``."""
    made: Any = np.frompyfunc(lambda n: Counted(n, given=True), 1, 1)(numbers)
    return made.tolist()


def total(numbers: Iterable[Any]) -> Counted:
    """Return the sum of the numbers."""
    return sum(numbers, start=Counted(0))


def dot(a: Iterable[Any], b: Iterable[Any]) -> Counted:
    """Return the dot product of two sequences of equal length."""
    return total(counted(x) * y for x, y in zip(a, b, strict=True))


def sin(x: Any) -> Counted:
    """Return the sine of an angle."""
    x = counted(x)
    return Counted((value := mpmath().mp.sin(x.value)), abs(float(value)), x.terms, 1.0)


def cos(x: Any) -> Counted:
    """Return the cosine of an angle."""
    x = counted(x)
    return Counted((value := mpmath().mp.cos(x.value)), abs(float(value)), x.terms, 1.0)


def smooth(x: Any, f: Callable[[Any], Any], slope: Callable[[Any, Any], Any]) -> Counted:
    """Return y = f(x); ``slope(x, y)`` is the derivative of f."""
    x = counted(x)
    y = f(x.value)
    return Counted(y, abs(float(y)) + abs(float(slope(x.value, y))) * x.terms)


def exp(x: Any) -> Counted:
    """Return e to the power of x."""
    return smooth(x, mpmath().mp.exp, lambda x, y: y)


def log(x: Any) -> Counted:
    """Return the natural logarithm of x."""
    return smooth(x, mpmath().mp.log, lambda x, y: 1 / x)


def sigmoid(x: Any) -> Counted:
    """Return ``1 / (1 + exp(-x))``."""
    return smooth(x, lambda x: 1 / (1 + mpmath().mp.exp(-x)), lambda x, y: y * (1 - y))


def softplus(x: Any) -> Counted:
    """Return ``log(1 + exp(x))``."""
    mp = mpmath().mp
    return smooth(x, lambda x: mp.log1p(mp.exp(x)), lambda x, y: 1 / (1 + mp.exp(-x)))


def relu(x: Any) -> Counted:
    """Return max(x, 0); its A is that of x, because rounding can change the sign of x."""
    x = counted(x)
    return x if x.value > 0 else Counted(0, x.terms, x.angle, x.amplitude)


def root(number: Any) -> Counted:
    """Return the square root of an int, float or mpmath number, as a given number."""
    return Counted(mpmath().mp.sqrt(number))


def power(base: Any, numerator: Any, denominator: Any) -> Number:
    """Return ``base ** (numerator / denominator)`` of plain numbers in 50 digits."""
    return _power(base, numerator, denominator, mpmath().mp.prec)


@functools.lru_cache(maxsize=4096)
def _power(base: Any, numerator: Any, denominator: Any, precision: int) -> Number:
    mpf = mpmath().mp.mpf
    return mpf(base) ** (mpf(numerator) / denominator)


def pi() -> Number:
    """Return pi in 50 digits."""
    return +mpmath().mp.pi
