"""Tables of ``cos + i sin`` by the addition theorem: few cosines, one product per entry.

``e^(i (mK + k) w) = e^(i mK w) e^(i k w)``: of S positions only K + S/K are looked up with the
specification's exact angles, in float64, and each entry is one product of two of those.  One
product, never a chain of them, so that nothing adds up: the error stays below 8 * 2**-53.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref import Rotary
from posenc_ref.angles import Turns, cos_sin

#: Bytes of a block that stays in the second-level cache.
_BLOCK = 1024 * 1024
#: An upper bound of the error of an entry of amplitude 1, in float64.
ERROR_BOUND = 8 * 2.0**-53


def factor_and_sign(encoding: Rotary, length: int | None, back: bool) -> tuple[float, int]:
    """What a rotation multiplies by and which way it turns; ``back`` undoes it."""
    m = float(encoding.attention_factor(length))
    return (1.0 / m, -encoding.sign) if back else (m, encoding.sign)


def rotary_phasors(
    encoding: Rotary,
    values: np.ndarray,
    length: int | None,
    *,
    dtype: np.dtype,
    axes: np.ndarray | None,
    back: bool,
) -> np.ndarray:
    """:func:`phasors` of a rotary encoding at float64 positions, its factor and sign in them."""
    amplitude, sign = factor_and_sign(encoding, length, back)
    return phasors(
        values,
        encoding._turns(length),
        dtype=dtype,
        offset=encoding.offset,
        axes=axes,
        amplitude=amplitude,
        conjugate=sign < 0,
    )


def phasors(
    positions: np.ndarray,
    turns: Turns,
    *,
    dtype: np.dtype,
    offset: float = 0.0,
    axes: np.ndarray | None = None,
    amplitude: float = 1.0,
    conjugate: bool = False,
) -> np.ndarray:
    """``amplitude * e^(i (p + offset) w)``: float64 positions (...) to complex (..., pairs).

    ``dtype`` is complex64 or complex128.  With ``axes``, positions are (A, ...), and pair k goes
    by ``positions[axes[k]]``.
    """
    shape = positions.shape if axes is None else positions.shape[1:]
    out = np.empty((int(np.prod(shape)), turns.t1.size), dtype)
    if axes is None:
        for rows, block in blocks(positions.reshape(-1), turns, offset, amplitude):
            out[rows] = block
    else:
        for axis in np.unique(axes):
            columns = np.flatnonzero(axes == axis)
            t1, t2, t3 = (t[columns] for t in (turns.t1, turns.t2, turns.t3))
            part = Turns(t1, t2, t3, turns.fastest)
            for rows, block in blocks(positions[axis].reshape(-1), part, offset, amplitude):
                out[rows, columns] = block
    if conjugate:
        np.conjugate(out, out=out)
    return out.reshape(*shape, turns.t1.size)


def blocks(
    p: np.ndarray, turns: Turns, offset: float = 0.0, amplitude: float = 1.0
) -> Iterator[tuple[slice, np.ndarray]]:
    """The same a few rows at a time: positions (n,) to complex128 (rows, pairs), overwritten."""
    n, pairs = p.size, turns.t1.size
    if n == 0 or pairs == 0:
        return iter(())
    rows = max(16, _BLOCK // (16 * pairs))
    low, high = float(p.min()), float(p.max())
    span = high - low + 1
    whole = bool((p == np.floor(p)).all())
    if whole and span == n and n > 2 * rows and bool((np.diff(p) == 1).all()):
        return _consecutive(low, n, rows, turns, offset, amplitude)
    step = 1 << max(6, int(np.log2(span)) // 2)
    if whole and 2 * (step + span / step) < n:
        return _gathered(p - low, low, step, rows, turns, offset, amplitude)
    cuts = (slice(a, min(a + rows, n)) for a in range(0, n, rows))
    return ((cut, _exact(p[cut], turns, offset, amplitude)) for cut in cuts)


def _exact(p: np.ndarray, turns: Turns, offset: float, amplitude: float) -> np.ndarray:
    """Every entry by the specification's own angles, complex128."""
    found = np.empty((p.size, turns.t1.size), np.complex128)
    cos, sin = cos_sin(p, turns, np, None, offset)
    np.multiply(cos, amplitude, out=found.real)
    np.multiply(sin, amplitude, out=found.imag)
    return found


def _consecutive(
    low: float, n: int, rows: int, turns: Turns, offset: float, amplitude: float
) -> Iterator[tuple[slice, np.ndarray]]:
    fine = _exact(np.arange(rows, dtype=np.float64), turns, 0.0, amplitude)
    coarse = _exact(low + np.arange(0, n, rows, dtype=np.float64), turns, offset, 1.0)
    block = np.empty_like(fine)
    for m, a in enumerate(range(0, n, rows)):
        cut = slice(a, min(a + rows, n))
        here = block[: cut.stop - a]
        np.multiply(fine[: cut.stop - a], coarse[m], out=here)
        yield cut, here


def _gathered(
    p: np.ndarray, low: float, step: int, rows: int, turns: Turns, offset: float, amplitude: float
) -> Iterator[tuple[slice, np.ndarray]]:
    """Positions in any order: the two factors are looked up by row."""
    index = p.astype(np.int64)
    fine = _exact(np.arange(step, dtype=np.float64), turns, 0.0, amplitude)
    many = int(index.max()) // step + 1
    coarse = _exact(low + step * np.arange(many, dtype=np.float64), turns, offset, 1.0)
    for a in range(0, p.size, rows):
        part = index[a : a + rows]
        yield slice(a, a + part.size), fine[part % step] * coarse[part // step]
