"""Rotation of NumPy arrays in one pass through memory, by a loop that Numba compiles.

Imported only if the program has imported Numba.  float16 and bfloat16 are widened to float32 and
rounded once.  Every product and sum is rounded by itself, as in :mod:`.numpy_rotary`: from the same
tables, halves get the same numbers there and here.  Only the bits of NaN may differ.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.extending import overload

from .caches import second_level
from .numba_loops import jit
from .numba_memory import pointer, read, write

#: How the numbers of a dtype are stored for the loop: :func:`_widen` tells them by the type.
STORED = {
    "float32": np.float32, "float64": np.float64, "bfloat16": np.uint16, "float16": np.int16,
}  # fmt: skip


def _widen(number: Any) -> Any:
    """Return a stored number in the dtype of the arithmetic."""


def _narrow(number: Any, like: Any) -> Any:
    """Return a number rounded to nearest, ties to even, as ``like`` is stored."""


@overload(_widen)  # type: ignore[untyped-decorator,unused-ignore]
def _widening(number: Any) -> Any:
    # Numba compares the names and the types in the signatures.
    def as_stored(number: Any) -> Any:
        return number

    def of_bfloat16(number: Any) -> Any:
        return np.uint32(np.uint32(number) << 16).view(np.float32)

    def of_float16(number: Any) -> Any:
        size = np.uint32(number & 0x7FFF)
        # The exponent of float32 is 112 more; that of infinities and NaN as much again.
        e = np.uint32(0x70000000 if size >= 0x7C00 else 0x38000000)
        # A subnormal number has no leading 1: give it one, and subtract it.
        e = np.uint32(e + (0x800000 if size < 0x400 else 0))
        f = np.uint32((size << 13) + e).view(np.float32)
        f = np.float32(f - np.float32(0.00006103515625 if size < 0x400 else 0.0))
        sign = np.uint32(np.uint32(number & 0x8000) << 16)
        return np.uint32(f.view(np.uint32) | sign).view(np.float32)

    return {numba.types.uint16: of_bfloat16, numba.types.int16: of_float16}.get(number, as_stored)


@overload(_narrow)  # type: ignore[untyped-decorator,unused-ignore]
def _narrowing(number: Any, like: Any) -> Any:
    def as_stored(number: Any, like: Any) -> Any:
        return number

    def to_bfloat16(number: Any, like: Any) -> Any:
        b = np.float32(number).view(np.uint32)
        rounded = np.uint32(b + 0x7FFF + ((b >> 16) & 1))
        quiet = np.uint32(b | 0x400000)
        return np.uint16((rounded if (b & 0x7FFFFFFF) <= 0x7F800000 else quiet) >> 16)

    def to_float16(number: Any, like: Any) -> Any:
        b = np.float32(number).view(np.uint32)
        size = np.uint32(b & 0x7FFFFFFF)
        normal = np.uint32((size - 0x38000000 + 0xFFF + ((size >> 13) & 1)) >> 13)
        # Adding 1/2 moves the ten bits of a subnormal number to the end, and rounds.
        moved = np.float32(size.view(np.float32) + np.float32(0.5)).view(np.uint32)
        found = normal if size >= 0x38800000 else np.uint32(moved - 0x3F000000)
        found = np.uint32(0x7C00) if size >= 0x47800000 else found
        found = np.uint32(0x7E00) if size > 0x7F800000 else found
        return np.int16(found | np.uint32((b >> 16) & 0x8000))

    return {numba.types.uint16: to_bfloat16, numba.types.int16: to_float16}.get(like, as_stored)


@jit
def _rotate(
    interleaved: Any, in_place: Any, scratch: Any, spare: Any, like: Any, lengths: Any, block: Any,
    x: Any, out: Any, cos: Any, sin: Any, x_strides: Any, out_strides: Any, strides: Any,
) -> None:  # fmt: skip
    """Rotate all rows: ``lengths`` are those of three axes, the last one cut into blocks.

    ``x``, ``out``, ``cos`` and ``sin`` are addresses, and strides are in bytes.  ``scratch`` has
    the width and the stored dtype of x, ``like`` the dtype of the tables.
    """
    width = scratch.shape[0]
    pairs, middle = width // 2, width // 2 * scratch.itemsize
    for start in range(0, lengths[2], block):
        for i in range(lengths[0]):
            for j in range(lengths[1]):
                for k in range(start, min(start + block, lengths[2])):
                    at = i * strides[0] + j * strides[1] + k * strides[2]
                    row = x + i * x_strides[0] + j * x_strides[1] + k * x_strides[2]
                    into = out + i * out_strides[0] + j * out_strides[1] + k * out_strides[2]
                    if in_place:  # what is read must be no memory that is written
                        whole = numba.carray(pointer(row, scratch), width)
                        for n in range(width):
                            scratch[n] = whole[n]
                        row = spare
                    if interleaved:
                        u, v = pointer(row, scratch), pointer(into, scratch)
                        c = pointer(cos + at, like)
                        for n in range(pairs):
                            p, q = _widen(read(u, 2 * n)), _widen(read(u, 2 * n + 1))
                            a, b = read(c, 2 * n), read(c, 2 * n + 1)
                            write(v, 2 * n, _narrow(p * a - q * b, scratch[0]))
                            write(v, 2 * n + 1, _narrow(p * b + q * a, scratch[0]))
                    else:
                        u1, u2 = pointer(row, scratch), pointer(row + middle, scratch)
                        v1, v2 = pointer(into, scratch), pointer(into + middle, scratch)
                        c, s = pointer(cos + at, like), pointer(sin + at, like)
                        for n in range(pairs):
                            p, q = _widen(read(u1, n)), _widen(read(u2, n))
                            a, b = read(c, n), read(s, n)
                            write(v1, n, _narrow(p * a - q * b, scratch[0]))
                            write(v2, n, _narrow(q * a + p * b, scratch[0]))


def rotate(x: np.ndarray, factors: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    """Rotate ``x`` (..., S, width) into ``out``; ``out`` is x itself or does not overlap x.

    ``factors`` are those of :class:`.numpy_rotary.NumpyTables` for one run of pairs.
    """
    if not x.size:
        return
    interleaved = len(factors) == 1
    cos = factors[0].view(factors[0].real.dtype) if interleaved else factors[0]
    # The second table of halves has the sines first.
    sin = cos if interleaved else factors[1]
    scratch, like = np.empty(x.shape[-1], STORED[x.dtype.name]), np.empty(0, cos.dtype)
    in_place = x.ctypes.data == out.ctypes.data
    # All heads use as many positions as have table rows in the cache, before the next ones.  Long
    # runs of memory matter more than this cache.
    block = max(1, second_level() // (scratch.size * like.itemsize))
    tables = [np.broadcast_to(t, (*x.shape[:-1], t.shape[-1])) for t in (cos, sin)]
    while x.ndim < 4:
        x, out, *tables = (a[None] for a in (x, out, *tables))
    for at in np.ndindex(x.shape[:-4]):
        one, into, c, s = (a[at] for a in (x, out, *tables))
        # The axis of the smallest stride is the innermost, so that memory is read in its order.
        inner = abs(one.strides[1]) < abs(one.strides[2]) and one.shape[1] > 1
        order = (0, 2, 1) if inner else (0, 1, 2)
        _rotate(
            interleaved,
            in_place,
            scratch,
            scratch.ctypes.data,
            like,
            tuple(one.shape[a] for a in order),
            one.shape[1] if inner else block,
            *(a.ctypes.data for a in (one, into, c, s)),
            *(tuple(a.strides[axis] for axis in order) for a in (one, into, c)),
        )
