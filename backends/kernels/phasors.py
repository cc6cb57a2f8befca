"""Tables of phasors, ``cos + i sin``, by angle addition: few cosines and one product per entry.

``e^(i (mK + k) w) = e^(i mK w) e^(i k w)``: for S positions only K + S/K phasors are computed, in
float64, and each entry of the table is the product of two of them.  The K phasors ``e^(i k w)`` are
cos and sin of exact angles.  Each of the S/K phasors ``e^(i mK w)`` is itself the product of two
such phasors.  So an entry has three factors and two products.  Rounding a factor causes a relative
error of at most 2 sqrt(2) * 2**-53.  Rounding a product causes a relative error of at most
sqrt(5) * 2**-53.  The sum for three factors and two products is less than 13 * 2**-53.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.angles import Turns

from . import numba_loops, phasor_factors
from .caches import second_level
from .numba_loops import Columns
from .phasor_factors import WIDE, Factors, Wave, exact, factors, repeats_of
from .threads import count, cuts, share

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
        t1, t2, t3, f = (t[columns] for t in (turns.t1, turns.t2, turns.t3, turns.frequencies))
        wave = Wave(Turns(t1, t2, t3, f, turns.fastest), offset, amplitude, sign)

        def store(rows: slice, block: np.ndarray, columns: Any = columns) -> None:
            cosines[rows, columns], sines[rows, columns] = block.real, block.imag

        p = positions[axis].reshape(-1)
        found = factors(p, wave, second_level() // 4)
        _fill(p, wave, found, store, _shares(p, wave, found, threads, cosines.itemsize))
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
    wave, one, two = Wave(turns, offset, amplitude, sign), cos, sin
    if cos.array is sin.array and cos.range.start > sin.range.start:
        # sin + i cos = i e^(-i angle).  Then the parts are written in the order of the memory.
        wave, one, two = Wave(turns, offset, amplitude, -sign, turned=True), sin, cos
    compiled = numba_loops.writes_phasors(one, two)
    found = factors(p, wave, phasor_factors.BLOCK if compiled else second_level() // 4)
    shares = _shares(p, wave, found, threads, cos.array.itemsize)
    if compiled and found is not None:
        numba_loops.write_phasors(found.part, found.fine, one, two, shares)
        return "numba"
    real, imag = one.array[:, one.at], two.array[:, two.at]
    both = _as_complex(one, two)

    def store(rows: slice, block: np.ndarray) -> None:
        if both is not None:
            both[rows] = block
            return
        real[rows] = block.real[:, : real.shape[1]]
        imag[rows] = block.imag[:, : imag.shape[1]]

    _fill(p, wave, found, store, shares)
    return "numpy"


def _as_complex(real: Columns, imag: Columns) -> np.ndarray | None:
    """Return the columns as one complex array, or None if they do not lie side by side."""
    one, kind = real.range, real.array.dtype
    if not (numba_loops.side_by_side(real, imag) and kind in (np.float32, np.float64)):
        return None
    columns = real.array[:, one.start : one.start + 2 * len(one)]
    return columns.view(np.result_type(kind, np.complex64))


def _shares(
    p: np.ndarray, wave: Wave, found: Factors | None, threads: int | None, itemsize: int
) -> list[slice]:
    """Return the rows of each thread, which begin at multiples of the rows of the fine table."""
    step = 1 if found is None else len(found.fine)
    return cuts(p.size, count(threads, 2 * p.size * wave.turns.t1.size * itemsize), step)


def _fill(
    p: np.ndarray,
    wave: Wave,
    found: Factors | None,
    store: Callable[[slice, np.ndarray], None],
    shares: list[slice],
) -> None:
    """Call ``store`` with all rows, a few at a time."""

    def rows_of(at: slice) -> None:
        with np.errstate():  # which also sets the length of the buffers back
            np.setbufsize(WIDE)
            for rows, block in _blocks(p, wave, found, at):
                store(rows, block)

    share(rows_of, shares)


def _blocks(
    p: np.ndarray, wave: Wave, found: Factors | None, at: slice
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield a few of the rows ``at``, complex128 (rows, pairs); the next block overwrites them."""
    pairs = wave.turns.t1.size
    if at.start == at.stop or pairs == 0:
        return
    if found is not None and found.index is None:
        yield from _products(found, at)
        return
    rows = max(1, second_level() // 4 // (16 * pairs))
    for cut in (slice(a, min(a + rows, at.stop)) for a in range(at.start, at.stop, rows)):
        if found is None:
            yield cut, exact(p[cut], wave)
        else:
            coarse, index = found.part(cut)
            high, low = np.divmod(index, len(found.fine))
            yield cut, found.fine[low] * coarse[high]


def _products(found: Factors, at: slice) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield the same for consecutive positions; ``some`` rows of the coarse table make a block."""
    few, pairs = found.fine.shape
    fine = found.fine.reshape(-1, repeats_of(pairs) * pairs)
    some = max(1, second_level() // 4 // fine.nbytes)
    block = np.empty((some, *fine.shape), np.complex128)
    end = -(-at.stop // few)
    for first in range(at.start // few, end, 16 * some):
        coarse = found.coarse(np.arange(first, min(first + 16 * some, end)))
        coarse = np.repeat(coarse[:, None], repeats_of(pairs), axis=1).reshape(len(coarse), 1, -1)
        for k in range(0, len(coarse), some):
            here = block[: len(coarse) - k]
            np.multiply(fine, coarse[k : k + some], out=here)
            start = (first + k) * few
            rows = slice(start, min(start + len(here) * few, at.stop))
            yield rows, here.reshape(-1, pairs)[: rows.stop - start]
