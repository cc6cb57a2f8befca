"""Tables of phasors, ``cos + i sin``, by angle addition: few cosines and one product per entry.

``e^(i (mK + k) w) = e^(i mK w) e^(i k w)``: for S positions only K + S/K phasors are computed, in
float64, and each entry of the table is the product of two of them.  The K phasors ``e^(i k w)`` are
cos and sin of exact angles.  Each of the S/K phasors ``e^(i mK w)`` is itself the product of two
such phasors.  So an entry has three factors and two products.  Rounding a factor causes a relative
error of at most 2 sqrt(2) * 2**-53.  Rounding a product causes a relative error of at most
sqrt(5) * 2**-53.  The sum for three factors and two products is less than 13 * 2**-53.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.angles import Turns, cos_sin

from . import numba_loops
from .caches import second_level
from .numba_loops import Columns
from .threads import count, cuts, share

#: The most bytes of the small table of neighbouring positions.
_BLOCK = 2 * 1024 * 1024
#: Entries of a block of exact angles: its thirty intermediate arrays fit in that cache too.
_FEW = 8192
#: An upper bound of the error of a float64 entry of amplitude 1.
ERROR_BOUND = 13 * 2.0**-53


def factor_and_sign(encoding: Rotary, length: int | None, inverse: bool) -> tuple[float, int]:
    """Return the attention factor and the sign of a rotation, or of its inverse."""
    m = float(encoding.attention_factor(length))
    return (1.0 / m, -encoding.sign) if inverse else (m, encoding.sign)


def rotary_phasors(
    encoding: Rotary,
    values: np.ndarray,
    length: int | None,
    *,
    dtype: np.dtype,
    axes: np.ndarray | None,
    inverse: bool,
    threads: int | None = None,
) -> np.ndarray:
    """Return the :func:`phasors` of a rotary encoding, including its factor and sign."""
    amplitude, sign = factor_and_sign(encoding, length, inverse)
    return phasors(
        values,
        encoding._turns(length),
        dtype=dtype,
        offset=encoding.offset,
        axes=axes,
        amplitude=amplitude,
        sign=sign,
        threads=threads,
    )


def phasors(
    positions: np.ndarray,
    turns: Turns,
    *,
    dtype: np.dtype,
    offset: float = 0.0,
    axes: np.ndarray | None = None,
    amplitude: float = 1.0,
    sign: int = 1,
    threads: int | None = None,
) -> np.ndarray:
    """Return ``amplitude * e^(i sign (p + offset) w)`` (..., pairs) for float64 positions p (...).

    ``dtype`` is complex64 or complex128.  With ``axes``, positions are (A, ...), and pair k uses
    ``positions[axes[k]]``.
    """
    shape = positions.shape if axes is None else positions.shape[1:]
    out = np.empty((int(np.prod(shape)), turns.t1.size), dtype)
    numbers = out.view(out.real.dtype)
    cos, sin = (Columns(numbers, slice(part, None, 2)) for part in (0, 1))
    write_axes(
        positions, turns, cos, sin, axes,
        offset=offset, amplitude=amplitude, sign=sign, threads=threads,
    )  # fmt: skip
    return out.reshape(*shape, turns.t1.size)


def write_axes(
    positions: np.ndarray,
    turns: Turns,
    cos: Columns,
    sin: Columns,
    axes: np.ndarray | None,
    *,
    offset: float,
    amplitude: float,
    sign: int = 1,
    threads: int | None = None,
) -> str:
    """Call :func:`write` for positions (...), or (A, ...) where pair k uses ``axes[k]``."""
    if axes is None:
        flat = positions.reshape(-1)
        return write(
            flat, turns, cos, sin, offset=offset, amplitude=amplitude, sign=sign, threads=threads
        )
    cosines, sines = cos.array[:, cos.at], sin.array[:, sin.at]
    for axis in np.unique(axes):
        columns = np.flatnonzero(axes == axis)
        t1, t2, t3 = (t[columns] for t in (turns.t1, turns.t2, turns.t3))
        part = Turns(t1, t2, t3, turns.fastest)
        p = positions[axis].reshape(-1)
        found = _factors(p, part, offset, amplitude, sign)

        def rows_of(
            at: slice, p: Any = p, part: Any = part, columns: Any = columns, found: Any = found
        ) -> None:
            for rows, block in _blocks(p, part, offset, amplitude, sign, found, at):
                cosines[rows, columns], sines[rows, columns] = block.real, block.imag

        share(rows_of, _shares(p, part, found, threads, cosines.itemsize))
    return "numpy"


def write(
    p: np.ndarray,
    turns: Turns,
    cos: Columns,
    sin: Columns,
    *,
    offset: float,
    amplitude: float,
    sign: int = 1,
    threads: int | None = None,
) -> str:
    """Write cos and sin of float64 positions (n,) and return the library that wrote them.

    If there are fewer columns than pairs, the last pairs are not written.
    """
    found = _factors(p, turns, offset, amplitude, sign)
    shares = _shares(p, turns, found, threads, cos.array.itemsize)
    if found is not None and numba_loops.writes_phasors(cos, sin):
        numba_loops.write_phasors(found.coarse, found.fine, found.rows, cos, sin, shares)
        return "numba"
    cosines, sines = cos.array[:, cos.at], sin.array[:, sin.at]

    def rows_of(at: slice) -> None:
        for rows, block in _blocks(p, turns, offset, amplitude, sign, found, at):
            cosines[rows] = block.real[:, : cosines.shape[1]]
            sines[rows] = block.imag[:, : sines.shape[1]]

    share(rows_of, shares)
    return "numpy"


def _shares(
    p: np.ndarray, turns: Turns, found: _Factors | None, threads: int | None, itemsize: int
) -> list[slice]:
    """Return the rows of each thread, which begin at multiples of the rows of the fine table."""
    step = 1 if found is None else len(found.fine)
    return cuts(p.size, count(threads, 2 * p.size * turns.t1.size * itemsize), step)


@dataclass(frozen=True)
class _Factors:
    """Two small tables, whose products are the rows of the table of phasors.

    Row r of that table is ``coarse[index[r] // len(fine)] * fine[index[r] % len(fine)]``; index is
    None if it is 0, 1, 2, ...
    """

    coarse: np.ndarray
    fine: np.ndarray
    index: np.ndarray | None

    def rows(self, at: slice) -> np.ndarray:
        """Return the indices of some rows."""
        return np.arange(at.start, at.stop) if self.index is None else self.index[at]


def _factors(
    p: np.ndarray, turns: Turns, offset: float, amplitude: float, sign: int
) -> _Factors | None:
    """Return the two small tables, or None if angle addition does not save cosines."""
    n, pairs = p.size, turns.t1.size
    if n == 0 or pairs == 0:
        return None
    step = min(_rows(pairs), max(16, isqrt(n)))
    # For fewer rows exact angles are as fast, and the rows do not depend on the other positions.
    consecutive = n > _rows(pairs) and _consecutive(p)
    if not consecutive:
        if not bool((p == np.floor(p)).all()):
            return None
        low, high = float(p.min()), float(p.max())
        span = high - low + 1
        step = 1 << max(6, int(np.log2(span)) // 2)
        if 2 * (step + span / step) >= n:
            return None
    else:
        low, high = float(p[0]), float(p[-1])
    many = int(high - low) // step + 1
    fine = _exact(np.arange(step, dtype=np.float64), turns, 0.0, amplitude, sign)
    inner = 1 << many.bit_length() // 2
    one = _exact(step * np.arange(inner, dtype=np.float64), turns, 0.0, 1.0, sign)
    outer = low + step * inner * np.arange(-(-many // inner), dtype=np.float64)
    two = _exact(outer, turns, offset, 1.0, sign)
    coarse = (two[:, None] * one).reshape(-1, pairs)[:many]
    return _Factors(coarse, fine, None if consecutive else (p - low).astype(np.int64))


def _consecutive(p: np.ndarray) -> bool:
    """Return whether ``p`` holds consecutive integers, without temporary arrays of its size."""
    if p[0] != np.floor(p[0]) or p[-1] - p[0] != p.size - 1:
        return False
    parts = range(0, p.size, 2 * _FEW)
    return all(bool((np.diff(p[a : a + 2 * _FEW + 1]) == 1).all()) for a in parts)


def _blocks(
    p: np.ndarray,
    turns: Turns,
    offset: float,
    amplitude: float,
    sign: int,
    found: _Factors | None,
    at: slice,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a few of the rows ``at``, complex128 (rows, pairs); the next block overwrites them."""
    pairs = turns.t1.size
    if at.start == at.stop or pairs == 0:
        return
    rows = max(1, second_level() // 4 // (16 * pairs))
    few = 1 if found is None else len(found.fine)
    block = np.empty((rows, pairs), np.complex128)
    cut = slice(at.start, at.start)
    while (a := cut.stop) < at.stop:
        cut = slice(a, min(a + rows, at.stop))
        if found is not None and found.index is None:  # one row of the coarse table
            cut = slice(a, min(cut.stop, a - a % few + few))
        here = block[: cut.stop - a]
        if found is None:
            here[...] = _exact(p[cut], turns, offset, amplitude, sign)
        elif found.index is None:
            np.multiply(found.fine[a % few :][: len(here)], found.coarse[a // few], out=here)
        else:
            high, low = np.divmod(found.rows(cut), few)
            np.multiply(found.fine[low], found.coarse[high], out=here)
        yield cut, here


def _rows(pairs: int) -> int:
    return max(16, _BLOCK // (16 * pairs))


def _exact(p: np.ndarray, turns: Turns, offset: float, amplitude: float, sign: int) -> np.ndarray:
    """Return the phasors (complex128) of positions ``p``, each from its exact angle."""
    found = np.empty((p.size, turns.t1.size), np.complex128)
    rows = max(1, _FEW // turns.t1.size)
    for cut in (slice(a, a + rows) for a in range(0, p.size, rows)):
        cos, sin = cos_sin(p[cut], turns, np, None, offset)
        np.multiply(cos, amplitude, out=found[cut].real)
        np.multiply(sin, sign * amplitude, out=found[cut].imag)
    return found
