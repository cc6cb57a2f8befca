"""Tables that a call returns for a length, a grid or coordinates, as functions of a surface."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from posenc_ref.conformance.calling.roles import role_of
from posenc_ref.conformance.calling.signatures import signature_of
from posenc_ref.conformance.harness.foreign import NotTried, Refused
from posenc_ref.conformance.harness.implementation import Implementation

from .foreign import Foreign
from .rows import Turn, tokens_first, turned, turns

#: A grid with sides that no other axis has, and a square for functions of one side.
_GRID, _SQUARE = (5, 7), (6, 6)
#: The grids to measure if rows depend on the size of the grid.
_LARGE = ((16, 16), (14, 14), (12, 12))
#: The number of rows of a trial call, and the most rows that are asked for.
_ROWS, _MOST = 11, 2**14
#: The channels of images in calls, the usual ones first.
_CHANNELS = (64, 32, 16, 128, 256, 3, 768)
#: The sides of grids that a function may have without being asked for any.
_OWN = (*((n, n) for n in range(2, 65)),)
Parts = tuple[np.ndarray, ...]
#: Returns the arrays of a call for a grid, in any shape.
GridCall = Callable[[int, int], Parts]
#: Returns the arrays for the sizes of a grid, or for coordinates (A, S), as (tokens, ...).
Table = Callable[..., Parts]
_NO_LAYOUT = (
    "one column per pair does not show which channels form a pair: half-split pairs are taken"
)


def grids(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of a whole grid as a table of its patches, or as a rotation."""
    yield from _of_grid(fn, _grid_calls(fn))


def patches(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of the patches of a square as a table of a grid, or as a rotation."""
    yield from _of_grid(fn, _patch_calls(fn))


def _of_grid(fn: Foreign, calls: Iterator[tuple[str, GridCall]]) -> Iterator[Implementation]:
    answered = _answered(list(calls))
    if answered is None:
        return
    words, ask, sizes, parts = answered

    @functools.lru_cache(maxsize=8)
    def table(height: int, width: int) -> Parts:
        return _tokens(ask(height, width), (height, width))

    if parts[0].dtype.kind in "iu" and len(parts) == 1:
        yield from _indices(fn, table, sizes, words, parts[0])
        return
    if len(parts) == 1 and parts[0].ndim == 2 and parts[0].dtype.kind == "f":
        if parts[0].shape[1] != int(np.prod(sizes)):
            yield Implementation(lambda h, w: table(h, w)[0], "grid", fn.name, how=words)
    turn = turns(parts)
    if turn is None:
        return
    only = _one_size(table, sizes)
    words += f"; a grid of {only[0]} x {only[1]}" if only else ""

    def at(positions: np.ndarray) -> Parts:
        if positions.dtype.kind not in "iu" or positions.min(initial=0) < 0:
            raise ValueError("positions must be cells of a grid: integers from 0")
        ends = tuple(max(int(axis.max(initial=0)) + 1, 2) for axis in positions)
        for height, width in [only] if only else _around(ends, sizes):
            if height < ends[0] or width < ends[1]:
                continue
            try:
                found = table(height, width)
            except (Refused, ValueError):
                continue
            return tuple(part[positions[0] * width + positions[1]] for part in found)
        raise ValueError(f"no grid with the cell {tuple(end - 1 for end in ends)} is taken")

    yield rotation(fn, at, turn, parts, 2, words)


def points(fn: Foreign, axes: int) -> Iterator[Implementation]:
    """Yield a function of coordinates on several axes as the rotation by its cos and sin."""
    given = np.stack([(np.arange(_ROWS) * (a + 1)) % _ROWS for a in range(axes)])
    for words, ask in _point_calls(fn):
        try:
            parts = _tokens(ask(given), (_ROWS,))
        except (Refused, ValueError):
            continue
        turn = turns(parts)
        if turn is None:
            continue

        def at(positions: np.ndarray, ask: Any = ask) -> Parts:
            return _tokens(ask(positions), (positions.shape[1],))

        yield rotation(fn, at, turn, parts, axes, words)
        return


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
    for words, ask in _row_calls(fn):
        try:
            found = ask(np.arange(_ROWS))
        except (Refused, ValueError):
            continue
        rows = _ROWS
        if not any(_ROWS in part.shape for part in found):
            rows = 2 * _ROWS - 1
            words += "; row S-1-p is that of the relative position p, from S-1 to -(S-1)"
        try:
            parts = _tokens(found, (rows,))
        except ValueError:
            continue
        if any(part.ndim < 2 or part.shape[1] in (_ROWS, rows) for part in parts):
            continue
        if all((part == part[:1]).all() for part in parts):
            continue

        def table(positions: np.ndarray, ask: Any = ask, relative: bool = rows != _ROWS) -> Parts:
            if not relative:
                return _tokens(ask(positions), (len(positions),))
            _whole(positions, relative=True)
            n = max(int(np.abs(positions).max(initial=0)) + 1, _ROWS)
            every = _tokens(ask(np.arange(n)), (2 * n - 1,))
            return tuple(part[n - 1 - positions] for part in every)

        turn = turns(parts)
        if len(parts) == 1 and parts[0].ndim == 2 and parts[0].dtype.kind == "f":
            yield Implementation(lambda p: table(p)[0], "table", fn.name, how=words)
        if turn is not None:

            def cos_sin(positions: np.ndarray) -> Parts:
                cos, sin = turn.read(table(positions))
                join = {"half": _halves, "interleaved": _adjacent}.get(turn.layout)
                return (cos, sin) if join is None else (join(cos), join(sin))

            yield Implementation(cos_sin, "cos_sin", fn.name, how=words)
        return


def _halves(part: np.ndarray) -> np.ndarray:
    return np.concatenate([part, part], axis=1)


def _adjacent(part: np.ndarray) -> np.ndarray:
    return np.repeat(part, 2, axis=1)


def _whole(positions: np.ndarray, *, relative: bool = False) -> None:
    if positions.dtype.kind not in "iu" or (positions.min(initial=0) < 0 and not relative):
        raise ValueError("positions must be integers from 0: the function takes a length")
    if np.abs(positions).max(initial=0) >= _MOST:
        raise NotTried(f"the suite makes no table longer than {_MOST} rows")


def _tokens(parts: Parts, sizes: tuple[int, ...]) -> Parts:
    found = []
    for part in parts:
        try:
            found.append(tokens_first(part, sizes))
        except ValueError:
            if not found:  # some return a scale as well
                raise
    return tuple(found)


def _row_calls(fn: Foreign) -> Iterator[tuple[str, Callable[[np.ndarray], Parts]]]:
    """Yield the ways to ask for rows at positions (S,)."""

    def indexed(call: Callable[[int], Parts]) -> Callable[[np.ndarray], Parts]:
        def ask(positions: np.ndarray) -> Parts:
            _whole(positions)
            n = max(int(positions.max(initial=0)) + 1, _ROWS)
            if np.array_equal(positions, np.arange(n)):
                return call(n)
            return tuple(p[positions] for p in _tokens(call(n), (n,)))

        return ask

    roles = {role_of(name) for name in signature_of(fn.function).parameters}
    if "positions" in roles:
        yield from _at_positions(fn)
    yield "the number of rows", indexed(lambda n: fn(n, length=n))
    for channels in _CHANNELS:
        for shape in ((1, -1, channels), (1, 1, -1, channels), (-1, channels)):

            def of_x(n: int, shape: tuple[int, ...] = shape) -> Parts:
                x = np.zeros([n if side == -1 else side for side in shape])
                return fn(x, x=x)

            yield f"x of shape {shape}, where -1 stands for S", indexed(of_x)
    yield "tokens (1, S)", indexed(lambda n: fn(np.full((1, n), 2), tokens=np.full((1, n), 2),
                                                x=np.full((1, n), 2)))  # fmt: skip
    if "positions" not in roles:
        yield from _at_positions(fn)


def _at_positions(fn: Foreign) -> Iterator[tuple[str, Callable[[np.ndarray], Parts]]]:
    for words, form in (("(S,)", lambda p: p), ("(1, S)", lambda p: p[None])):
        for channels in (None, 64, 32):
            x = {} if channels is None else {"x": np.zeros((1, 1, 1, channels))}
            yield (
                f"positions {words}",
                lambda p, form=form, x=x: fn(form(p), positions=form(p), **x),
            )


def _point_calls(fn: Foreign) -> Iterator[tuple[str, Callable[[np.ndarray], Parts]]]:
    """Yield the ways to ask for rows at coordinates (A, S)."""
    forms: tuple[tuple[str, Callable[[np.ndarray], Any]], ...] = (
        ("(1, S, A)", lambda p: p.T[None]),
        ("(S, A)", lambda p: p.T),
        ("(A, S)", lambda p: p),
        ("(A, 1, S)", lambda p: p[:, None]),
    )
    for words, form in forms:
        yield (
            f"coordinates {words}",
            lambda p, form=form: fn(form(p), positions=form(p), x=np.zeros((1, 1, 64))),
        )


def _grid_calls(fn: Foreign) -> Iterator[tuple[str, GridCall]]:
    """Yield the ways to ask for the table of a grid."""
    yield "height and width", lambda h, w: fn(grid_height=h, grid_width=w, side=h)
    for kind in (tuple, list):
        yield (
            "one pair (height, width)",
            lambda h, w, kind=kind: fn(kind((h, w)), grid=kind((h, w)), image_size=kind((h, w))),
        )

    def square(h: int, w: int) -> Parts:
        if h != w:
            raise ValueError("the function takes one side")
        return fn(h, grid=h, image_size=h, side=h)

    yield "the side of a square", square
    for channels in _CHANNELS:
        for shape in ((1, channels, "h", "w"), (1, "h", "w", channels)):

            def image(h: int, w: int, shape: tuple[Any, ...] = shape) -> Parts:
                side = {"h": h * fn.patch, "w": w * fn.patch}
                x = np.zeros([side.get(n, n) for n in shape])
                return fn(x, x=x, image=x)

            yield f"an image {shape}".replace("'", ""), image


def _patch_calls(fn: Foreign) -> Iterator[tuple[str, GridCall]]:
    """Yield the ways to ask for the table of a square by its patches."""
    for channels in _CHANNELS[:3]:

        def flat(h: int, w: int, channels: int = channels) -> Parts:
            if h != w:
                raise ValueError("the function takes the patches of a square")
            x = np.zeros((1, h * w, channels))
            return fn(x, x=x)

        yield f"the patches of a square (1, S, {channels})", flat


def _answered(
    calls: list[tuple[str, GridCall]],
) -> tuple[str, GridCall, tuple[int, int], Parts] | None:
    """Return the first call that gives rows for a grid, the grid, and its arrays (tokens, ...)."""
    shapes: dict[str, set[tuple[tuple[int, ...], ...]]] = {words: set() for words, _ in calls}
    for at, sizes in enumerate((_GRID, _SQUARE, *_OWN)):
        for words, ask in calls:
            if at > 1 and len(shapes[words]) != 1:
                continue  # refused, or its result depends on the grid in no known way
            try:
                found = ask(*sizes)
            except (Refused, ValueError):
                continue
            shapes[words].add(tuple(part.shape for part in found))
            try:
                parts = _tokens(found, sizes)
            except ValueError:
                continue
            if not all((part == part[:1]).all() for part in parts):
                return words, ask, sizes, parts
    return None


def _one_size(table: Table, sizes: tuple[int, int]) -> tuple[int, int] | None:
    """Return one grid if the rows of a cell depend on the size of the grid, else None."""
    for other in _LARGE:
        try:
            a, b = table(*sizes), table(*other)
        except (Refused, ValueError):
            continue
        one, two = sizes[1] + 1, other[1] + 1  # row 1, column 1
        same = all(np.array_equal(x[one], y[two]) for x, y in zip(a, b, strict=True))
        return None if same else other
    return None


def _around(ends: tuple[int, ...], own: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield grids that have all cells: of unequal sides, a square, and the only one."""
    height, width = ends
    if height <= own[0] and width <= own[1]:
        yield own
    yield height, width + (height == width)
    yield max(ends), max(ends)


def _indices(
    fn: Foreign, table: Table, sizes: tuple[int, int], words: str, found: np.ndarray
) -> Iterator[Implementation]:
    """Yield a function of integers as one of window offsets, or of the positions of a grid."""
    count = int(np.prod(sizes))
    if found.shape == (count, count):
        yield Implementation(
            lambda window: table(*window)[0], "relative_index", fn.name, how=words
        )
    elif found.shape == (count, 2):

        def positions(height: int, width: int, merge: int) -> np.ndarray:
            if merge != 1:
                raise ValueError("the function takes no merge size")
            return np.asarray(table(height, width)[0].T)

        yield Implementation(positions, "grid_positions", fn.name, how=words)
