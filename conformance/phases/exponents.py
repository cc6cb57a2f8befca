"""Find another base that gives the same frequencies with another denominator of the exponents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .frequencies import PUBLISHED_BASES

#: The relative difference of a denominator from a whole or half number.
_WHOLE = 1.5e-7
#: The most digits of a base that somebody chooses.
_DIGITS = 3


def other_exponents(base: float, n: float) -> Iterator[tuple[float, float]]:
    """Yield published bases b and denominators q with ``b ** (-k/q) = base ** (-k/n)``.

    There are none for a base that is published itself, or that has few digits.
    """
    if base <= 1 or base in PUBLISHED_BASES or float(f"{base:.{_DIGITS}g}") == base:
        return
    for known in PUBLISHED_BASES:
        other = n * np.log(known) / np.log(base)
        whole = float(np.rint(2 * other)) / 2
        if 0 < whole != n and abs(other / whole - 1) < _WHOLE:
            yield known, whole


def is_rounded(base: float, n: float) -> bool:
    """Return whether a fitted base has all the digits that were measured, and no rule gives it.

    Its last digits are then not those of the function.
    """
    if base in PUBLISHED_BASES or float(f"{base:.5g}") == base:
        return False
    return all(known ** (n / whole) != base for known, whole in other_exponents(base, n))
