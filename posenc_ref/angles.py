"""cos and sin of ``position * frequency``, with an error below 2 * 2**-53 up to position 2**40.

The definition is one line::

    angles = positions[..., None] * frequencies;  cos(angles), sin(angles)

In float64, rounding the angle alone gives that line an error of up to ``2**-53 * angle``: too much
for a reference at large positions.  This module keeps the angle *in turns*, where dropping whole
turns is exact. Frequencies are 50-digit decimals, so neither ``base ** (-2k/d)`` nor 2 pi is
rounded to float64.

``tests/posenc_ref/test_angles.py`` and ``posenc accuracy`` verify the error bound: they compare
these cosines and sines with those of mpmath at 50 digits.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np

from ._namespace import (
    Array,
    DType,
    Namespace,
    astype,
    device_of,
    from_host,
    has_float64,
    library,
    namespace,
)
from .limits import POSITION

#: Digits of the decimal arithmetic in which frequencies are computed.
DIGITS = 50
#: The largest |position| (times max(1, largest frequency)) for which the error bound is proved.
MAX_POSITION = POSITION
#: Largest absolute error of cos and sin inside the domain.
ERROR_BOUND = 2 * 2.0**-53

#: 2 pi, in more than 50 digits.
TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194989")


def decimal_context() -> Any:
    """Return a context manager for decimal arithmetic in ``DIGITS`` digits and two guard digits."""
    return localcontext(Context(prec=DIGITS + 2))


def geometric(base: float | Decimal, exponents: Sequence[Decimal | int]) -> tuple[Decimal, ...]:
    """Return ``base ** -exponent`` for each exponent, 50-digit decimals in radians per position."""
    return _powers(Decimal(base), tuple(map(Decimal, exponents)))


@functools.lru_cache(maxsize=512)
def _powers(base: Decimal, exponents: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    with decimal_context():
        return tuple(base**-e for e in exponents)


def check_domain(name: str, fastest: float, offset: float = 0.0) -> None:
    """Raise ValueError if no position but 0 is in the domain, or if the offset is outside it.

    ``fastest`` is the largest |frequency|, in radians per position; ``name`` is what states it.
    """
    if fastest > MAX_POSITION:
        raise ValueError(
            f"{name} must give frequencies of at most 2**40 radians per position, got {fastest:g}"
        )
    if abs(offset) * max(1.0, fastest) > MAX_POSITION:
        raise ValueError(
            "offset, and offset * the largest frequency, must be within -2**40 .. 2**40, got "
            f"offset = {offset:g} and the frequency {fastest:g}"
        )


@dataclass(frozen=True)
class Turns:
    """Frequencies in turns, split into parts so that products with a position are exact.

    ``frequency / (2 pi) = t1 + t2 + t3`` with 24, 24 and 53 significant bits.  Arrays of shape
    (pairs,), NumPy float64.
    """

    t1: np.ndarray
    t2: np.ndarray
    t3: np.ndarray
    frequencies: np.ndarray  # in radians per position, correctly rounded
    fastest: float  # the largest |frequency|


@functools.lru_cache(maxsize=256)
def turns(frequencies: tuple[Decimal, ...]) -> Turns:
    """Return 50-digit frequencies (radians per position) as :class:`Turns`."""

    def cut(x: Decimal, bits: int) -> float:
        mantissa, exponent = np.frexp(float(x))
        return float(np.ldexp(np.rint(np.ldexp(mantissa, bits)), int(exponent) - bits))

    rows = []
    with decimal_context():
        for frequency in frequencies:
            t = frequency / TWO_PI
            t1 = cut(t, 24)
            t2 = cut(t - Decimal(t1), 24)
            rows.append((t1, t2, float(t - Decimal(t1) - Decimal(t2))))
    columns = [np.array(column) for column in np.reshape(rows, (-1, 3)).T]
    columns.append(np.array([float(w) for w in frequencies]))
    for column in columns:
        column.setflags(write=False)
    fastest = float(np.abs(columns[3]).max(initial=0.0))
    return Turns(columns[0], columns[1], columns[2], columns[3], fastest)


def cos_sin(
    positions: Array,
    turns: Turns,
    xp: Namespace,
    device: Any = None,
    offset: float = 0.0,
    axes: np.ndarray | None = None,
) -> tuple[Array, Array]:
    """Return cos and sin (..., pairs) of ``(positions + offset) * frequencies``, positions (...).

    With ``axes``, positions are (A, ...) and pair k uses ``positions[axes[k]]``.
    ``positions`` is a float64 array of ``xp`` on ``device``.  The steps, each exact unless stated:

    1. Split every position into a high and a low half of at most 26 bits each (Veltkamp).
    2. Multiply each half by each 24-bit frequency part: four products of at most 50 bits.
    3. Drop whole turns from each product. Add the products: this gives the total, and two-sum gives
       the rounding error of each addition.
    4. Add these errors, ``position * t3`` and the rounding error of ``+ offset`` in plain float64:
       this gives the tail. All are tiny, so rounding the tail costs far less than 2**-53.
    5. Subtract the nearest multiple of a quarter turn from the total, then add the tail. The
       remainder lies in [-1/8, 1/8] turns; there the conversion to radians and the library's cos
       and sin add an error of about 2**-53.
    """
    at = positions[..., None] if axes is None else _per_pair(positions, axes, xp, device)
    if library(at) == "dask":
        return _per_chunk(at, turns, offset)
    return _cos_sin(at, turns, xp, device, offset)


def _per_chunk(at: Array, turns: Turns, offset: float) -> tuple[Array, Array]:
    """Return :func:`cos_sin` of a Dask array (..., 1) or (..., pairs): one task for each chunk.

    An operation of Dask for each step would cost a hundred times the arithmetic of small chunks.
    """
    pairs, axes = len(turns.t1), at.ndim
    at = at.rechunk({axes - 1: -1})
    both = sys.modules["dask.array"].map_blocks(
        _of_chunk, at, turns, offset,
        chunks=(*at.chunks[:-1], (pairs,), (2,)), new_axis=axes, dtype=np.dtype(np.float64),
        meta=at._meta[..., None], name=None,
    )  # fmt: skip
    return both[..., 0], both[..., 1]


def _of_chunk(at: Array, turns: Turns, offset: float) -> Array:
    xp = namespace(at)
    return xp.stack(_cos_sin(at, turns, xp, device_of(at), offset), axis=-1)


def _cos_sin(
    at: Array, turns: Turns, xp: Namespace, device: Any, offset: float
) -> tuple[Array, Array]:
    """Return :func:`cos_sin` of the positions (..., 1) or (..., pairs) of the pairs."""
    t1, t2, t3 = (from_host(part, xp, device) for part in (turns.t1, turns.t2, turns.t3))
    p = at + offset
    added = p - at
    lost = (at - (p - added)) + (offset - added)  # two-sum: p + lost is exact
    c = p * 134217729.0  # 2**27 + 1
    high = c - (c - p)
    low = p - high

    total = xp.zeros_like(p * t1)
    tail = p * t3 + lost * (t1 + t2)
    for product in (high * t1, low * t1, high * t2, low * t2):
        turn = product - xp.round(product)
        new = total + turn
        back = new - total
        tail = tail + ((total - (new - back)) + (turn - back))
        total = new - xp.round(new)

    quarter = xp.round(4.0 * total)
    rest = (total - 0.25 * quarter) + tail
    theta = rest * 6.283185307179586 + rest * 2.4492935982947064e-16
    c, s = xp.cos(theta), xp.sin(theta)
    quarter = quarter - 4.0 * xp.floor(0.25 * quarter)  # 0, 1, 2, 3
    odd = (quarter == 1.0) | (quarter == 3.0)
    upper = quarter >= 2.0
    cosine, sine = xp.where(odd, -s, c), xp.where(odd, c, s)
    return xp.where(upper, -cosine, cosine), xp.where(upper, -sine, sine)


def _per_pair(positions: Array, axes: np.ndarray, xp: Namespace, device: Any) -> Array:
    """Return positions (A, ...) as (..., pairs): each pair gets the positions of its axis."""
    gathered = xp.take(positions, from_host(axes, xp, device), axis=0)
    return xp.moveaxis(gathered, 0, -1)


def tables(
    positions: Array,
    turns: Turns,
    *,
    xp: Namespace,
    device: Any = None,
    dtype: DType = None,
    offset: float = 0.0,
    axes: np.ndarray | None = None,
) -> tuple[Array, Array]:
    """Return :func:`cos_sin` of positions on the host or on ``device``, in ``dtype`` of ``xp``.

    ``dtype=None`` is float64, or float32 on a device without float64.  For host positions, NumPy
    computes the tables, which are then copied to ``device``.  If ``device`` has no float64, the
    caller must copy the positions to the host.
    """
    if dtype is None:
        dtype = xp.float64 if has_float64(xp, device) else xp.float32
    if isinstance(positions, np.ndarray):
        c, s = cos_sin(positions.astype(np.float64), turns, np, None, offset, axes)
        if xp is np:
            return astype(c, dtype), astype(s, dtype)
        return tuple(
            astype(
                from_host(t if has_float64(xp, device) else t.astype(np.float32), xp, device), dtype
            )
            for t in (c, s)
        )
    c, s = cos_sin(astype(positions, xp.float64), turns, xp, device, offset, axes)
    return astype(c, dtype), astype(s, dtype)
