"""Loops that Numba compiles, used only if the caller has imported Numba.

NumPy makes a table of phasors in three passes: complex products of 16 bytes each, a cast of the
real parts, and a cast of the imaginary parts.  To copy a bias, NumPy starts a loop for each row.  A
compiled loop writes each number once and reads no memory of the result.

Compiling takes about half a second, and importing Numba as long.  So the loops run only if Numba is
already imported.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .threads import share

#: Below this many numbers, NumPy takes less time than compiling a loop would.
LEAST = 2**22
#: The rows whose indices are made at one time.
_ROWS = 2**13


class Columns(NamedTuple):
    """Some columns of a contiguous array (rows, width)."""

    array: np.ndarray
    at: slice

    @property
    def range(self) -> range:
        """The indices of the columns."""
        return range(self.array.shape[1])[self.at]


def writes_phasors(real: Columns, imag: Columns) -> bool:
    """Return whether a compiled loop exists for these columns and saves time."""
    large = real.array.shape[0] * len(real.range) >= LEAST
    return large and _supports(real.array) and _loop(real, imag) is not None


def writes_toeplitz(out: np.ndarray) -> bool:
    """Return whether the compiled loop saves time for a bias ``out`` (H, Q, K)."""
    return out.size >= 2 * LEAST and _supports(out)


def _supports(out: np.ndarray) -> bool:
    known = out.dtype in (np.float32, np.float64) and out.flags.c_contiguous
    return known and imported()


def imported() -> bool:
    """Return whether the program has imported Numba, and has not switched its compiler off."""
    config = getattr(sys.modules.get("numba"), "config", None)
    return config is not None and not config.DISABLE_JIT


def write_toeplitz(rows: np.ndarray, out: np.ndarray, shares: list[slice]) -> None:
    """Write ``out[h, i, j] = rows[h, i % w, j + n - K - w (i // w)]`` of ``rows`` (H, w, n).

    Each of the ``shares`` is a slice of the rows ``h Q + i`` of ``out`` (H, Q, K).
    """
    loop = _compiled(_toeplitz)
    share(lambda at: loop(rows, out, at.start, at.stop), shares)


def write_phasors(
    part: Callable[[slice], tuple[np.ndarray, np.ndarray]],
    fine: np.ndarray,
    real: Columns,
    imag: Columns,
    shares: list[slice],
) -> None:
    """Write the real and imaginary parts of phasors; one thread writes each of the ``shares``.

    Row r is ``coarse[index // len(fine)] * fine[index % len(fine)]``; ``part`` returns a coarse
    table, and the indices of a slice of the rows.
    """
    loop = _loop(real, imag)
    assert loop is not None
    c, d = np.ascontiguousarray(fine.real), np.ascontiguousarray(fine.imag)
    one, two = real.range, imag.range
    compiled = _compiled(loop)

    def rows_of(share: slice) -> None:
        last = None
        for start in range(share.start, share.stop, _ROWS):
            at = slice(start, min(start + _ROWS, share.stop))
            coarse, index = part(at)
            if coarse is not last:
                a, b = np.ascontiguousarray(coarse.real), np.ascontiguousarray(coarse.imag)
                last = coarse
            re, im = real.array[at], imag.array[at]
            compiled(a, b, c, d, index, re, one.start, len(one), im, two.start, len(two))

    share(rows_of, shares)


def side_by_side(real: Columns, imag: Columns) -> bool:
    """Return whether each imaginary part follows its real part in memory."""
    one, two = real.range, imag.range
    alternate = one.step == two.step == 2 and len(one) == len(two) and real.array is imag.array
    return alternate and two.start == one.start + 1


def _loop(real: Columns, imag: Columns) -> Callable[..., None] | None:
    one, two = real.range, imag.range
    if one.step == two.step == 1:
        if real.array is imag.array or len(one) != len(two):
            return _separate
        from .numba_tables import apart

        return apart
    return _adjacent if side_by_side(real, imag) else None


def _separate(
    a: Any, b: Any, c: Any, d: Any, index: Any, re: Any, i: int, n: int, im: Any, j: int, m: int
) -> None:
    """Write ``(a + b 1j) * (c + d 1j)`` with real and imaginary parts in separate columns.

    ``re`` gets n real parts from column i on; ``im`` gets m imaginary parts from column j on.  The
    numbers n and m differ if a table has a sine without a cosine.
    """
    few = c.shape[0]
    for r in range(index.shape[0]):
        high, low = index[r] // few, index[r] % few
        # The compiler vectorises only if each row is a separate array.
        ar, br, cr, dr = a[high], b[high], c[low], d[low]
        real, imag = re[r, i : i + n], im[r, j : j + m]
        for k in range(n):
            real[k] = ar[k] * cr[k] - br[k] * dr[k]
        for k in range(m):
            imag[k] = ar[k] * dr[k] + br[k] * cr[k]


def _adjacent(
    a: Any, b: Any, c: Any, d: Any, index: Any, re: Any, i: int, n: int, im: Any, j: int, m: int
) -> None:
    """Write ``(a + b 1j) * (c + d 1j)`` to ``re`` from column i on.

    Each of the n imaginary parts follows its real part.
    """
    few = c.shape[0]
    for r in range(index.shape[0]):
        high, low = index[r] // few, index[r] % few
        ar, br, cr, dr = a[high], b[high], c[low], d[low]
        row = re[r, i : i + 2 * n]
        for k in range(n):
            row[2 * k] = ar[k] * cr[k] - br[k] * dr[k]
            row[2 * k + 1] = ar[k] * dr[k] + br[k] * cr[k]


def _toeplitz(rows: Any, out: Any, start: int, stop: int) -> None:
    queries, keys = out.shape[1:]
    w, last = rows.shape[1], rows.shape[2] - keys
    for r in range(start, stop):
        h, i = r // queries, r % queries
        numbers, goal = rows[h, i % w, last - i // w * w :], out[h, i]
        for j in range(keys):
            goal[j] = numbers[j]


@functools.cache
def _compiled(loop: Callable[..., None]) -> Callable[..., None]:
    # A fused multiply-add rounds once, and takes half the instructions.
    return jit(loop, fastmath={"contract"})


def jit(loop: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a loop that is compiled at its first call, and kept on disk if possible."""
    import numba

    try:
        return numba.njit(nogil=True, cache=True, **options)(loop)  # type: ignore[no-any-return]
    except RuntimeError:  # no folder for the cache can be written
        return numba.njit(nogil=True, **options)(loop)  # type: ignore[no-any-return]
