"""Sinusoidal rows in 50 digits, element by element; nothing here calls the encodings."""

from fractions import Fraction

import numpy as np

from posenc_ref.conformance.exact.digits import DIGITS, mpmath
from tests.conformance.exact.fixed_point import BITS, Exact

mp = mpmath().mp


def waves(base, n, pairs):
    """``base ** (-k/n)`` for k below ``pairs``."""
    n = Fraction(n)
    with mp.workdps(DIGITS):
        exponents = [Fraction(k) / n for k in range(pairs)]
        return [mp.mpf(base) ** (-mp.mpf(e.numerator) / e.denominator) for e in exponents]


def fixed(number):
    """An mpmath number as an integer times 2**-BITS."""
    return int(number * mp.mpf(2) ** BITS)


def rows(angles, order, scale=1.0):
    """``order(sines, cosines)`` of the angles of each row, times ``scale``, for :func:`judge`."""
    found = []
    with mp.workdps(DIGITS):
        for of_row in angles():
            sines = [mp.mpf(scale) * mp.sin(a) for a in of_row]
            cosines = [mp.mpf(scale) * mp.cos(a) for a in of_row]
            found.append([fixed(mp.mpf(v)) for v in order(sines, cosines)])
    return Exact(np.array(found, dtype=object))


def judge(exact, table, amplitude=1.0):
    """The worst score of a float64 table in units of the certificate."""
    return exact.worst(table, np.abs(exact.hi), np.abs(amplitude))[1]
