"""Small tables of phasors, whose products are the rows of a large one; see :mod:`.phasors`."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any, NamedTuple

import numpy as np

from posenc_ref.angles import Turns, cos_sin

#: Consecutive positions whose phasors take fewer bytes are made from exact angles: that is as fast,
#: and a row does not depend on the other positions.  Compiled loops have fine tables of this size.
BLOCK = 2 * 1024 * 1024
#: Entries of a block of exact angles: its thirty intermediate arrays fit in that cache too.
_FEW = 8192
#: The least width of products, and the length of the buffers of NumPy's loops.  Into longer buffers
#: NumPy copies a row of the coarse table again and again, which takes half as long as a product.
WIDE = 512


class Wave(NamedTuple):
    """Phasors ``amplitude * e^(i sign (p + offset) w)``, times i if ``turned``."""

    turns: Turns
    offset: float
    amplitude: float
    sign: int
    turned: bool = False


@dataclass(frozen=True)
class Factors:
    """Small tables, whose products are the rows of the table of phasors.

    Row r of that table is ``coarse(index[r] // len(fine)) * fine[index[r] % len(fine)]``; index is
    None if it is 0, 1, 2, ...  The rows of the coarse table are products too, of ``outer`` and
    ``inner``; if inner is None, outer has all of them.
    """

    outer: np.ndarray
    inner: np.ndarray | None
    fine: np.ndarray
    index: np.ndarray | None

    def coarse(self, m: Any) -> np.ndarray:
        """Return row m, or rows, of the coarse table."""
        if self.inner is None:
            rows: np.ndarray = self.outer[m]
        else:
            rows = self.outer[m // len(self.inner)] * self.inner[m % len(self.inner)]
        return rows

    def part(self, at: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the coarse rows that some rows of the table need, and the indices with these."""
        if self.index is not None:
            return self.outer, self.index[at]
        few = len(self.fine)
        first = at.start // few
        index = np.arange(at.start - first * few, at.stop - first * few)
        return self.coarse(np.arange(first, -(-at.stop // few))), index


def factors(p: np.ndarray, wave: Wave, size: int) -> Factors | None:
    """Return the small tables, or None if angle addition does not save cosines.

    For consecutive positions, the fine table takes about ``size`` bytes.
    """
    n, pairs = p.size, wave.turns.t1.size
    if n == 0 or pairs == 0:
        return None
    consecutive = 16 * n * pairs > BLOCK and n > 16 and _consecutive(p)
    if consecutive:
        low, high = float(p[0]), float(p[-1])
        most = max(16, size // (16 * pairs))
        repeats = repeats_of(pairs)
        step = repeats * -(-min(most, max(16, isqrt(n))) // repeats)
    else:
        if not bool((p == np.floor(p)).all()):
            return None
        low, high = float(p.min()), float(p.max())
        span = high - low + 1
        step = 1 << max(6, int(np.log2(span)) // 2)
        if 2 * (step + span / step) >= n:
            return None
    many = int(high - low) // step + 1
    factor = wave._replace(offset=0.0, amplitude=1.0, turned=False)
    fine = exact(np.arange(step, dtype=np.float64), wave._replace(offset=0.0))
    count_inner = 1 << many.bit_length() // 2
    inner = exact(step * np.arange(count_inner, dtype=np.float64), factor)
    starts = low + step * count_inner * np.arange(-(-many // count_inner), dtype=np.float64)
    outer = exact(starts, factor._replace(offset=wave.offset))
    found = Factors(outer, inner, fine, None)
    if consecutive:
        return found
    return Factors(found.coarse(np.arange(many)), None, fine, (p - low).astype(np.int64))


def repeats_of(pairs: int) -> int:
    """Return how many rows are multiplied as one, so that NumPy's inner loops are long."""
    return -(-WIDE // pairs)


def _consecutive(p: np.ndarray) -> bool:
    """Return whether ``p`` holds consecutive integers, without temporary arrays of its size."""
    if p[0] != np.floor(p[0]) or p[-1] - p[0] != p.size - 1:
        return False
    parts = range(0, p.size, 2 * _FEW)
    return all(bool((np.diff(p[a : a + 2 * _FEW + 1]) == 1).all()) for a in parts)


def exact(p: np.ndarray, wave: Wave) -> np.ndarray:
    """Return the phasors (complex128) of positions ``p``, each from its exact angle."""
    turns, offset, amplitude, sign, turned = wave
    found = np.empty((p.size, turns.t1.size), np.complex128)
    rows = max(1, _FEW // turns.t1.size)
    for cut in (slice(a, a + rows) for a in range(0, p.size, rows)):
        cos, sin = cos_sin(p[cut], turns, np, None, offset)
        np.multiply(cos, amplitude, out=found[cut].real)
        np.multiply(sin, sign * amplitude, out=found[cut].imag)
    return found * 1j if turned else found
