"""The loop that writes cosines and sines to two arrays at once.

Imported only if the program has imported Numba.
"""

from __future__ import annotations

from typing import Any

from .numba_memory import pointer, read, write


def apart(
    a: Any, b: Any, c: Any, d: Any, index: Any, re: Any, i: int, n: int, im: Any, j: int, m: int
) -> None:
    """Write ``(a + b 1j) * (c + d 1j)`` to n columns of ``re`` from i on, and of ``im`` from j on.

    The two arrays share no memory.
    """
    few = c.shape[0]
    for r in range(index.shape[0]):
        high, low = index[r] // few, index[r] % few
        ar = pointer(a.ctypes.data + high * a.strides[0], a)
        br = pointer(b.ctypes.data + high * b.strides[0], b)
        cr = pointer(c.ctypes.data + low * c.strides[0], c)
        dr = pointer(d.ctypes.data + low * d.strides[0], d)
        real = pointer(re.ctypes.data + r * re.strides[0] + i * re.itemsize, re)
        imag = pointer(im.ctypes.data + r * im.strides[0] + j * im.itemsize, im)
        for k in range(n):
            p, q, u, v = read(ar, k), read(br, k), read(cr, k), read(dr, k)
            write(real, k, p * u - q * v)
            write(imag, k, p * v + q * u)
