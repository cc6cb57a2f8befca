"""Tables that a call returns for a length, a grid or coordinates, as functions of a surface."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from posenc_ref.conformance.calling.grid_search import sides_of
from posenc_ref.conformance.calling.grids import MOST_TOKENS
from posenc_ref.conformance.calling.roles import Unbound
from posenc_ref.conformance.harness.foreign import OwnLimit, Refused
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.identify.images.windows import TOKENS

from .calls import (
    PAIRS,
    ROWS,
    RowCall,
    channels_of,
    grid_calls,
    patch_calls,
    require_rows,
    row_calls,
    volume_calls,
)
from .foreign import Foreign
from .rows import Parts, Turn, same, tokens_of, turned, turns, whole

#: A grid with sides that no other axis has, and a square for functions of one side.
_GRID, _SQUARE = (5, 7), (6, 6)
#: Videos of such grids.
_VIDEOS = ((3, *_GRID), (3, *_SQUARE))
#: The grids to measure if rows depend on the size of the grid.
_LARGE = ((16, 16), (14, 14), (12, 12))
#: The sides of grids that a function may have without being asked for any.
_OWN = tuple((n, n) for n in (*range(2, 33), 37, 48, 64))
#: What a function raises that minds another thing than the number of tokens.
_NO_SIZE = (Unbound, TypeError, AttributeError, IndexError, KeyError)
#: Returns the arrays for the sizes of a grid, or for coordinates (A, S), as (tokens, ...).
Table = Callable[..., Parts]
#: A call for the sizes of a grid of two axes, or of three.
Call = Callable[..., Parts]
_NO_LAYOUT = (
    "one column per pair does not show which channels form a pair: half-split pairs are taken"
)


def grids(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of a whole grid as a table of its patches, or as a rotation."""
    yield from _of_grid(fn, grid_calls(fn))


def volumes(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of the sizes of a video or volume as a table of axes, or as a rotation."""
    yield from _of_grid(fn, volume_calls(fn), _VIDEOS)


def turned_grids(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of a pair of sizes in the other order than its names say."""
    if fn.roles & {*PAIRS}:
        yield from volumes(replace(fn, turned=True))
        yield from grids(replace(fn, turned=True))


def patches(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of the patches of a square as a table of a grid, or as a rotation."""
    yield from _of_grid(fn, patch_calls(fn))


def own_grids(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of one grid, which its result shows, as a table or as a rotation."""
    yield from _of_grid(fn, filter(_fixed, grid_calls(fn)), _OWN)


def _fixed(call: tuple[str, Call]) -> bool:
    """Return whether the shape of the result is the same for every grid."""
    shapes = []
    for sizes in (_GRID, _SQUARE):
        with suppress(Refused, ValueError):
            shapes.append([part.shape for part in call[1](*sizes)])
    return bool(shapes) and all(shape == shapes[0] for shape in shapes)


def _of_grid(
    fn: Foreign,
    calls: Iterator[tuple[str, Call]],
    sizes_to_try: tuple[tuple[int, ...], ...] = (_GRID, _SQUARE),
) -> Iterator[Implementation]:
    """Yield what gives rows for the cells of a grid of two or three axes."""
    answered = _answered(list(calls), sizes_to_try)
    if answered is None:
        return
    words, ask, sizes, parts = answered

    @functools.lru_cache(maxsize=8)
    def table(*sizes: int) -> Parts:
        return tokens_of(ask(*sizes), sizes)

    axes = len(sizes)
    if len(parts) == 1 and axes == 2 and whole(parts[0]):
        yield from _indices(fn, table, sizes, words, parts[0])
        return
    only = _one_size(table, sizes)

    def at(positions: np.ndarray) -> Parts:
        if positions.dtype.kind not in "iu" or positions.min(initial=0) < 0:
            raise ValueError("positions must be cells of a grid: integers from 0")
        ends = tuple(max(int(axis.max(initial=0)) + 1, 2) for axis in positions)
        for shape in [only] if only else _around(ends, sizes):
            if any(map(operator.lt, shape, ends)) or math.prod(shape) > MOST_TOKENS:
                continue
            try:
                found = table(*shape)
            except (Refused, ValueError):
                continue
            cells = np.ravel_multi_index(tuple(positions), shape)
            return tuple(part[cells] for part in found)
        cell = tuple(end - 1 for end in ends)
        if math.prod(ends) > MOST_TOKENS:
            raise OwnLimit(
                f"positions must be in a grid of at most {MOST_TOKENS} tokens, not {cell}"
            )
        raise ValueError(f"no grid with the cell {cell} is taken")

    found = []
    one = parts[0] if len(parts) == 1 and parts[0].dtype.kind == "f" else np.zeros(0)
    if one.ndim == 2 and one.shape[1] != math.prod(sizes):
        found.append(
            Implementation(
                lambda h, w: table(h, w)[0], "grid", fn.name, how=words, limits=_limits(fn)
            )
            if axes == 2
            else Implementation(lambda p: at(p)[0], "table", fn.name, axes=axes, how=words)
        )
    turn = _turn(fn, parts)
    if turn is not None:
        words += f"; a grid of {' x '.join(map(str, only))}" if only else ""
        turning = rotation(fn, at, turn, parts, axes, words)
        # Repeated columns are those of a rotation; others may be sinusoids that are added.
        found.insert(0 if turn.layout else len(found), turning)
    yield from found


def rotation(
    fn: Foreign, at: Table, turn: Turn, parts: Parts, axes: int, words: str
) -> Implementation:
    """Return the rotation by the rows ``at(positions (A, S))``."""
    layout = turn.layout or "half"

    def apply(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
        p = np.asarray(positions)
        p = p if p.ndim == 3 else np.broadcast_to(p, (axes, x.shape[0], x.shape[2]))
        rows = [turn.read(at(p[:, b])) for b in range(p.shape[1])]
        cos, sin = (np.stack(side) for side in zip(*rows, strict=True))
        return turned(x, cos, sin, layout)

    return Implementation(
        apply, "apply", fn.name, head_dim=2 * turn.read(parts)[0].shape[1], axes=axes,
        how=f"{words}; its cos and sin rotate {layout} pairs",
        limits=() if turn.layout else (_NO_LAYOUT,),
    )  # fmt: skip


def lengths(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of a length, or of positions, as a table, or as cos and sin."""
    for words, ask in row_calls(fn):
        try:
            found = ask(np.arange(ROWS))
        except (Refused, ValueError):
            continue
        found = tuple(part for part in found if part.any()) or found  # without x, which is 0
        relative = not any(ROWS in part.shape for part in found)
        try:
            parts = tokens_of(found, (2 * ROWS - 1 if relative else ROWS,))
        except ValueError:
            continue
        if any(part.ndim < 2 or part.shape[1] in (ROWS, 2 * ROWS - 1) for part in parts):
            continue
        if all((part == part[:1]).all() for part in parts):
            continue
        if relative:
            words += "; row S-1-p is that of the relative position p, from S-1 to -(S-1)"
        yield from _of_rows(fn, words, _rows_by(ask, relative), parts)
        return


def one_length(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of x (1, S, dim) that takes one S as the table that it has or adds."""
    for channels, tokens in itertools.product(channels_of(fn), TOKENS):
        x = np.zeros((1, tokens, channels))
        try:
            found = fn(x, x=x)
        except Refused as error:
            if isinstance(error.cause, _NO_SIZE):
                return
            continue
        try:
            one = tokens_of(found, (tokens,))[0]
        except ValueError:
            return
        if (
            not same(fn(x, x=x), fn(x, x=x))
            or one.ndim != 2
            or one.dtype.kind != "f"
            or (one == one[:1]).all()
        ):
            return

        def rows(positions: np.ndarray, one: np.ndarray = one) -> Parts:
            require_rows(positions)
            if positions.max(initial=0) >= len(one):
                raise ValueError(f"positions must be below {len(one)}, the only number of tokens")
            return (one[positions],)

        words = f"x of 0 of shape (1, {tokens}, {channels})"
        yield Implementation(lambda p: rows(p)[0], "table", fn.name, how=words)
        return


def _limits(fn: Foreign) -> tuple[str, ...]:
    """Return what is not known about the end of a table."""
    text = "MLX returns any numbers past the end of a learned table: its last rows are not known"
    return (text,) if fn.library.name == "mlx" else ()


def _rows_by(ask: RowCall, relative: bool) -> Table:
    """Return the function of positions (S,) whose rows a call returns."""

    def rows(positions: np.ndarray) -> Parts:
        if not relative:
            return tokens_of(ask(positions), (len(positions),))
        require_rows(positions, relative=True)
        n = max(int(np.abs(positions).max(initial=0)) + 1, ROWS)
        every = tokens_of(ask(np.arange(n)), (2 * n - 1,))
        return tuple(part[n - 1 - positions] for part in every)

    return rows


def _of_rows(fn: Foreign, words: str, rows: Table, parts: Parts) -> Iterator[Implementation]:
    if len(parts) == 1 and parts[0].ndim == 2 and parts[0].dtype.kind == "f":
        yield Implementation(lambda p: rows(p)[0], "table", fn.name, how=words, limits=_limits(fn))
    turn = _turn(fn, parts)
    if turn is None:
        return

    def cos_sin(positions: np.ndarray) -> Parts:
        cos, sin = turn.read(rows(positions))
        if turn.layout != "interleaved":
            twice = 2 if turn.layout == "half" else 1
            return np.tile(cos, twice), np.tile(sin, twice)
        return np.repeat(cos, 2, axis=1), np.repeat(sin, 2, axis=1)

    yield Implementation(cos_sin, "cos_sin", fn.name, how=words)


def _turn(fn: Foreign, parts: Parts) -> Turn | None:
    """Return how the arrays hold cos and sin; columns for a number of heads are no angles.

    Columns of one array that are not repeated may be any sines and cosines: those of a rotation
    begin with the angle 0.
    """
    turn = turns(parts)
    if turn is None or (turn.form == "angles" and "num_heads" in fn.roles):
        return None
    begins = turn.form != "joined" or turn.layout or not turn.read(parts)[1][0].any()
    return turn if begins else None


def _answered(
    calls: list[tuple[str, Call]], every: tuple[tuple[int, ...], ...]
) -> tuple[str, Call, tuple[int, ...], Parts] | None:
    """Return the first call that gives rows for a grid, the grid, and its arrays (tokens, ...)."""
    for sizes in every:
        for words, ask in calls:
            try:
                found = ask(*sizes)
                parts = tokens_of(found, sizes)
            except (Refused, ValueError):
                continue
            if every is _OWN and sizes not in sides_of(parts[0]):
                continue
            if not all((part == part[:1]).all() for part in parts) and same(found, ask(*sizes)):
                return words, ask, sizes, parts
    return None


def _one_size(table: Table, sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return one grid if the rows of a cell depend on the size of the grid, else None."""
    for sides in _LARGE:
        other = (*sizes[:-2], *sides)
        try:
            a, b = table(*sizes), table(*other)
        except (Refused, ValueError):
            continue
        one, two = sizes[-1] + 1, other[-1] + 1  # row 1, column 1
        same = all(np.array_equal(x[one], y[two]) for x, y in zip(a, b, strict=True))
        return None if same else other
    return None


def _around(ends: tuple[int, ...], own: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield grids that have all cells: of unequal sides, a square, and the only one."""
    *frames, height, width = ends
    if all(map(operator.le, ends, own)):
        yield own
    yield *frames, height, width + (height == width)
    yield *frames, max(height, width), max(height, width)


def _indices(
    fn: Foreign, table: Table, sizes: tuple[int, ...], words: str, found: np.ndarray
) -> Iterator[Implementation]:
    """Yield a function of whole numbers as one of the positions of a grid."""
    count = int(np.prod(sizes))
    if found.shape == (count, 2):

        def positions(height: int, width: int, merge: int) -> np.ndarray:
            if merge != 1:
                raise ValueError("the function takes no merge size")
            return np.asarray(table(height, width)[0].T, np.int64)

        yield Implementation(positions, "grid_positions", fn.name, how=words)
