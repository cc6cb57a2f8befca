"""50-digit arithmetic with mpmath: positions near quarter turns, ALiBi slopes, T5 buckets."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from posenc_ref.angles import MAX_POSITION

DIGITS = 50


def mpmath() -> Any:
    """Return the package mpmath, or raise an ImportError that says how to install it."""
    try:
        import mpmath as package
    except ImportError as error:
        raise ImportError(
            f'50-digit arithmetic needs mpmath ({error}): pip install "posenc-ref[cli]"'
        ) from error
    return package


def nearest_quarter_turns(frequency: Any, largest: int = MAX_POSITION) -> list[int]:
    """Return integer positions with angles very close to a multiple of pi/4.

    There cos or sin is almost 0, or the range reduction switches to the next quarter.
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


def slope(num_heads: int, head: int, max_bias: float) -> Any:
    """Return the ALiBi slope of a head, counted from 0.

    Let n be the largest power of two up to ``num_heads``. The slope is ``2 ** (-max_bias x)``, with
    ``x = (head + 1) / n`` for the first n heads, and ``x = (2 (head - n) + 1) / 2n`` for others.
    """
    mp, n = mpmath().mp, 1 << (num_heads.bit_length() - 1)
    step, of = (head + 1, n) if head < n else (2 * (head - n) + 1, 2 * n)
    return mp.power(2, -mp.mpf(max_bias) * step / of)


def exact_bucket(r: int, num_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Return the T5 bucket of ``r = key - query``.

    Near the edge of a bucket, rounded logarithms could give the wrong one: integers decide there.
    """
    mp = mpmath().mp
    nb = num_buckets // 2 if bidirectional else num_buckets
    first = nb if bidirectional and r > 0 else 0
    n, me = abs(r) if bidirectional else max(-r, 0), nb // 2
    if n < me:
        return first + n
    with mp.workdps(DIGITS):
        ratio = mp.log(mp.mpf(n) / me) / mp.log(mp.mpf(max_distance) / me) * (nb - me)
        t = int(mp.nint(ratio))
        if abs(ratio - t) > mp.mpf(10) ** (10 - DIGITS):  # not near an edge
            t = int(mp.floor(ratio))
        elif Fraction(n, me) ** (nb - me) < Fraction(max_distance, me) ** t:
            t -= 1
    return first + min(me + t, nb - 1)
