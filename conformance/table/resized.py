"""Find from which small table a learned table was resized, and resize it in other ways.

A table that was enlarged has fewer independent rows than rows, which shows the size of the small
one. The matrix of each way of resizing spans other tables, which shows the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from posenc_ref import resize_matrix

#: What a table of independent rows may lack: the rounding of float32, with a margin.
_NEAR = 1e-5
#: The most rows of a table, and of one axis; longer ones take seconds.
_MOST, _LONGEST = 2**13, 128
#: The most rows of an axis of few columns whose small table is sought.
_SOUGHT = 48
#: The bicubic kernel of TensorFlow and PIL; PyTorch's has a = -3/4.
_SOFT = "bicubic, a = -1/2"
#: How many times as long as the other an axis of a grid of patches may be.
_SLIM = 8


@dataclass(frozen=True)
class Way:
    """A way of resizing, as PyTorch's ``interpolate`` names it."""

    mode: str
    antialias: bool = False
    align_corners: bool = False
    more: bool = False  #: whether scale_factor is (new + 0.1) / old, as DINO passes it
    wrong: str = ""  #: a mistake in the weights, in words

    def __str__(self) -> str:
        if self.mode == _SOFT:
            return 'mode="bicubic" of the kernel with a = -1/2, as TensorFlow has it'
        words = f'mode="{self.mode}"'
        words += ", antialias=True" * self.antialias + ", align_corners=True" * self.align_corners
        words += ", scale_factor=(new + 0.1) / old" * self.more
        return f"{words}, but {self.wrong}" if self.wrong else words

    def matrix(self, old: int, new: int) -> np.ndarray:
        """Return the weights (new, old) of the old points of one axis."""
        return _matrix(self, old, new)


@cache
def _matrix(way: Way, old: int, new: int) -> np.ndarray:
    if way.wrong:
        return _mistaken(way, old, new)
    if way.mode == _SOFT:
        return _of_soft_cubics(old, new)
    if way.mode == "nearest-exact":
        at = ((np.arange(new) + 0.5) * old / new).astype(int)
        return np.asarray(np.eye(old)[np.minimum(at, old - 1)])
    options: dict[str, Any] = {"antialias": way.antialias, "align_corners": way.align_corners}
    scale = (new + 0.1) / old if way.more else None
    return resize_matrix(old, new, mode=way.mode, scale=scale, **options)


def _of_soft_cubics(old: int, new: int) -> np.ndarray:
    """Return the weights of Keys' kernel with a = -1/2, the ends repeated."""
    found = np.zeros((new, old))
    for i, at in enumerate((np.arange(new) + 0.5) * old / new - 0.5):
        for j in range(int(np.floor(at)) - 1, int(np.floor(at)) + 3):
            t = abs(at - j)
            near, far = 1.5 * t**3 - 2.5 * t**2 + 1, -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
            found[i, min(max(j, 0), old - 1)] += near if t <= 1 else far if t < 2 else 0.0
    return found


#: Mistakes in the weights of all ways with a kernel.
_UNSHIFTED = "with point i at i * old / new: the shift by half a pixel is missing"
_ZEROS = "with zeros beyond the ends, in place of the first and the last row"
_UNDIVIDED = "with weights that are not divided by their sum at the ends"


def _mistaken(way: Way, old: int, new: int) -> np.ndarray:
    """Return the weights of the kernel of a way with a mistake."""
    found = np.zeros((new, old))
    stretch = max(old / new, 1.0) if way.antialias else 1.0
    a = -0.75 if way.mode == "bicubic" and not way.antialias else -0.5
    reach = (1 if way.mode == "bilinear" else 2) * stretch
    for i in range(new):
        at = i * old / new if way.wrong == _UNSHIFTED else (i + 0.5) * old / new - 0.5
        if way.mode == "bilinear" and not way.antialias:
            at = max(at, 0.0)
        for j in range(int(np.floor(at - reach)), int(np.ceil(at + reach)) + 1):
            weight = _kernel(way.mode, abs(at - j) / stretch, a) / stretch
            if 0 <= j < old or way.wrong == _UNSHIFTED:
                found[i, min(max(j, 0), old - 1)] += weight
    return found


def _kernel(mode: str, t: float, a: float) -> float:
    """Return the weight at distance t."""
    if mode == "bilinear":
        return max(1 - t, 0.0)
    near, far = (a + 2) * t**3 - (a + 3) * t**2 + 1, a * (t**3 - 5 * t**2 + 8 * t - 4)
    return near if t <= 1 else far if t < 2 else 0.0


#: Ways with a mistake in their weights, which no table is declared with.
MISTAKEN = (
    *(Way(mode, wrong=_UNSHIFTED) for mode in ("bicubic", "bilinear")),
    Way("bicubic", wrong=_ZEROS),
    *(Way(mode, antialias=True, wrong=_UNDIVIDED) for mode in ("bicubic", "bilinear")),
)
WAYS = (
    Way("bicubic"), Way("bilinear"), Way("nearest"), Way("nearest-exact"),
    Way("bicubic", align_corners=True), Way("bilinear", align_corners=True),
    Way("bicubic", antialias=True), Way(_SOFT),
    Way("bicubic", more=True), Way("bilinear", more=True),
)  # fmt: skip


@dataclass(frozen=True)
class Resized:
    """A table as another way of resizing makes it."""

    words: str  #: what was done, after "the table is"
    remedy: str
    rows: np.ndarray
    terms: np.ndarray  #: the sum of the sizes of the terms of every number
    declared: Way
    way: Way | None = None  #: None: the declared one, of another grid


def resized_otherwise(
    table: np.ndarray, kept: tuple[int, ...] = (0, 1, 2), grid: tuple[int, int] | None = None
) -> Iterator[Resized]:
    """Yield other tables from the small one from which ``table`` (N, C) was enlarged, if it was.

    ``kept`` are numbers of leading rows that may belong to no patch. ``grid`` is the height and the
    width of the others, if they are known.
    """
    table = np.asarray(table, np.float64)
    found = _found(table, kept, grid)
    if found is None:
        return
    first, (h, w), (h0, w0), way = found
    ys, xs = way.matrix(h0, h), way.matrix(w0, w)
    back = np.linalg.pinv(ys), np.linalg.pinv(xs)
    patches = table[first:].reshape(h, w, -1)
    small, sizes = _along(patches, *back), _along(np.abs(patches), *map(np.abs, back))
    right = f"Resize the table of {h0} x {w0} to {h} x {w} with {way}."

    def made(
        words: str, one: np.ndarray, other: np.ndarray, by: Way | None = None, *,
        turned: bool = False, of: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Resized:  # fmt: skip
        values, terms = of or (small, sizes)
        each = [_along(a, m, n) for a, m, n in (
            (values, one, other), (terms, np.abs(one), np.abs(other)))]  # fmt: skip
        each = [a.swapaxes(0, 1) if turned else a for a in each]
        rows, terms = (a.reshape(h * w, -1) for a in each)
        rows = np.concatenate([table[:first], rows])
        terms = np.concatenate([np.abs(table[:first]), terms])
        return Resized(words, right, rows, terms, way, by)

    for other in (*WAYS, *MISTAKEN):
        if other != way:
            words = f"resized from {h0} x {w0} to {h} x {w} with {other}, not with {way}"
            yield made(words, other.matrix(h0, h), other.matrix(w0, w), other)
    for words, patches_of in (
        (f"with its rows read as {w0} rows of {h0}, transposed to {h0} x {w0}", _turned),
        (f"with its rows transposed, then read as {h0} rows of {w0}", _mixed),
    ):
        if min(h0, w0) > 1 and h0 != w0:
            small_, sizes_ = patches_of(small), patches_of(sizes)
            yield made(f"resized {words}", ys, xs, of=(small_, sizes_))
    down, across = way.matrix(h0, w), way.matrix(w0, h)
    words = f"resized to {w} x {h}, not to {h} x {w}: height and width are exchanged"
    if h != w:
        yield made(words, down, across)
    words = f"{words}, and then transposed" if h != w else "transposed after it was resized"
    yield made(words, down, across, turned=True)


def _turned(patches: np.ndarray) -> np.ndarray:
    h, w, channels = patches.shape
    return patches.reshape(w, h, channels).swapaxes(0, 1)


def _mixed(patches: np.ndarray) -> np.ndarray:
    return patches.swapaxes(0, 1).reshape(patches.shape)


def _along(patches: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return patches (h, w, C) with a matrix applied to both axes."""
    return np.asarray(np.einsum("ai,bj,ijc->abc", rows, columns, patches, optimize=True))


def _found(
    table: np.ndarray, kept: tuple[int, ...], grid: tuple[int, int] | None
) -> tuple[int, tuple[int, int], tuple[int, int], Way] | None:
    """Return the rows that belong to no patch, the new and the old grid, and the way."""
    if len(table) > _MOST or not np.isfinite(table).all():
        return None
    found: list[tuple[int, tuple[int, int], tuple[int, int], Way]] = []
    for first in kept:
        for h, w in [grid] if grid else _grids(len(table) - first):
            if len(table) - first != h * w:
                continue
            patches = table[first:].reshape(h, w, -1)
            axes = patches.reshape(h, -1), patches.swapaxes(0, 1).reshape(w, -1)
            size = float(np.abs(patches).max())
            ranks = [_rank(rows) for rows in axes]
            for way in WAYS:
                made = [
                    _source(rows, way, size) if rank is None else rank
                    for rows, rank in zip(axes, ranks, strict=True)
                ]
                old = made[0], made[1]
                if old == (h, w) or 0 in old or (h > 1) + (w > 1) > (old[0] > 1) + (old[1] > 1):
                    continue
                each = [way.matrix(n, m) for n, m in zip(old, (h, w), strict=True)]
                if any(np.linalg.matrix_rank(m) < m.shape[1] for m in each):
                    continue
                spanned = _along(patches, *(m @ np.linalg.pinv(m) for m in each))
                if np.abs(spanned - patches).max() <= _NEAR * size:
                    found.append((first, (h, w), old, way))
                    if None not in ranks and 2 * old[0] * old[1] <= h * w:
                        return found[-1]  # without the slow search of tables of few columns
    # A part of the rows may come from fewer rows in several ways: of the smallest table all do.
    return min(found, key=lambda one: one[2][0] * one[2][1], default=None)


def _grids(rows: int) -> list[tuple[int, int]]:
    """Return the grids of as many patches, the squarest first; a sequence is the last one."""
    sides = [n for n in range(2, int(max(rows, 0) ** 0.5) + 1) if rows % n == 0]
    found = [(n, rows // n) for n in reversed(sides) if rows // n <= min(_SLIM * n, _LONGEST)]
    both = [grid for one in found for grid in dict.fromkeys((one, one[::-1]))]
    return [*both, *([(rows, 1)] if 1 < rows <= _LONGEST else [])]


def _rank(rows: np.ndarray) -> int | None:
    """Return the number of independent rows, but for rounding: of how many they are made.

    None for rows of few columns, which depend on each other anyway.
    """
    values = np.linalg.eigvalsh(rows @ rows.T)
    found = int((values > _NEAR**2 * max(values[-1], 0)).sum())
    return None if found == rows.shape[1] else found


def _source(rows: np.ndarray, way: Way, size: float) -> int:
    """Return of how few rows ``way`` can have made these, or as many as there are."""
    for n in range(2, len(rows)) if len(rows) <= _SOUGHT else ():
        if np.abs(_onto(way, n, len(rows)) @ rows - rows).max() <= _NEAR * size:
            return n
    return len(rows)


@cache
def _onto(way: Way, old: int, new: int) -> np.ndarray:
    """Return the projection (new, new) onto the rows that ``way`` makes of ``old`` ones."""
    matrix = way.matrix(old, new)
    return np.asarray(matrix @ np.linalg.pinv(matrix))
