"""Whole grids of patches, for functions that take the size of an image and no positions.

Such a function numbers the patches of a grid row by row.  A call with any distinct positions is
made by putting its tokens into the cells of a grid, with zeros in all other cells; positions are
the row and the column of a cell, after the number of the frame if there are three axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref._namespace import namespace, to_host
from posenc_ref.conformance.harness.foreign import OwnLimit

from .facts import Facts
from .roles import role_of

#: The roles of parameters that state the size of a grid.
SIZES = ("frames", "grid_height", "grid_width", "grid", "grid_thw", "grid_of_each", "side",
         "image_size", "grid_tokens")  # fmt: skip
#: Those of one parameter that gets height and width.
PAIRS = ("grid", "image_size")
#: The most tokens of a grid, and the most numbers of all grids in a call.
MOST_TOKENS, MOST_NUMBERS = 2**12, 2**22


@dataclass(frozen=True)
class Grid:
    """The grids that a function can be called for, and how it takes their size."""

    axes: int
    one_number: bool = False  #: whether one number states the size of a square
    square: bool = False  #: whether height and width must be equal
    own: tuple[int, ...] = ()  #: the only grid, if there is only one
    merge: int = 1  #: the side of the blocks of patches that come one after the other
    pair: str = ""  #: the name of the parameter that gets both sizes, if there is one
    turned: bool | None = False  #: whether the pair is (width, height); None if nothing says it
    before: int = 0  #: the number of tokens, such as a class token, that come before the patches

    @property
    def words(self) -> str:
        """Return which grids are passed, for reports."""
        if self.own:
            what = f"the whole grid of {_by(self.own)}"
        else:
            what = "whole square grids" if self.square else "whole grids"
        order = "row by row" if self.merge == 1 else f"in blocks of {self.merge} x {self.merge}"
        names = "frame, row and column" if self.axes == 3 else "row and column"
        if self.pair and not self.one_number:
            sizes = "(width, height)" if self.turned else "(height, width)"
            what += "" if self.square else f", {self.pair} = {sizes}"
            if self.turned is None:
                why = f"whether height or width is first in {self.pair} is not known"
                what += f" ({why}{'' if self.square else ': height is taken'})"
        if self.before:
            what += " after a class token"
        return f"{what}, {order}; positions are {names}"

    @property
    def limits(self) -> tuple[str, ...]:
        """Return what is not judged, in words."""
        text = "grids of unequal sides are not judged: the function states one side"
        return (text,) if self.square else ()

    def _stated(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return (*sizes[:-2], sizes[-1], sizes[-2]) if self.turned else sizes

    def sizes(self, positions: np.ndarray) -> tuple[int, ...]:
        """Return the sizes of a grid that has positions (A, ...).

        Raises
        ------
        ValueError
            The positions are not in a grid of the function, or in none that the suite makes.
        """
        allowed = f"positions must be cells of a grid of {_by(self.own) if self.own else 'patches'}"
        whole = positions.dtype.kind in "iu" and not (positions < 0).any()
        if positions.shape[0] != self.axes or positions.size == 0 or not whole:
            raise ValueError(f"{allowed}: integers >= 0, for at least one token")
        ends = [int(axis.max()) + 1 for axis in positions]
        ends[-2:] = [max(end, 2) for end in ends[-2:]] if not self.own else ends[-2:]
        if self.own:
            if any(end > size for end, size in zip(ends, self.own, strict=True)):
                raise ValueError(f"{allowed}, the only one that the function takes")
            return self.own
        m = self.merge
        height, width = (-(-end // m) * m for end in ends[-2:])
        if self.square:
            height = width = max(height, width)
        elif height == width and height * (width + m) * math.prod(ends[:-2]) <= MOST_TOKENS:
            width += m  # unequal sizes show which one is used
        found = (*ends[:-2], height, width)
        if math.prod(found) > MOST_TOKENS:
            raise OwnLimit(
                f"positions must be in a grid of at most {MOST_TOKENS} tokens, the largest that "
                "the suite makes"
            )
        return found

    def cells(self, positions: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
        """Return the index of every position (A, ...) among the tokens of a grid."""
        *frame, row, column = positions
        height, width = sizes[-2:]
        m = self.merge
        block = row // m * (width // m) + column // m
        cell = (block * m + row % m) * m + column % m
        return np.asarray(cell + (frame[0] * height * width if frame else 0))

    def places(self, sizes: tuple[int, ...], batch: int) -> np.ndarray:
        """Return the positions (A, B, S) of all tokens of ``batch`` grids."""
        every = np.indices(sizes).reshape(self.axes, -1)
        found = np.empty_like(every)
        found[:, self.cells(every, sizes)] = every
        return np.repeat(found[:, None], batch, axis=1)

    def facts(self, facts: Facts, sizes: tuple[int, ...]) -> Facts:
        """Return the facts about a grid of these sizes besides those that are known."""
        height, width = sizes[-2:]
        patch = next((v for n, v in facts.by_name.items() if role_of(n) == "patch"), 1)
        stated = self._stated(sizes)
        each = tuple(n * patch for n in stated)
        known: dict[str, Any] = {
            "frames": sizes[0] if self.axes == 3 else 1,
            "grid_height": height,
            "grid_width": width,
            "side": height,
            "grid": height if self.one_number else stated,
            "image_size": each[-1] if self.one_number else each,
            "patch": patch,
            "grid_tokens": height * width,
        }
        return replace(facts, by_role={**facts.by_role, **known})

    def arguments(self, sizes: tuple[int, ...], like: Any, batch: int = 1) -> dict[str, Any]:
        """Return values by role for the parameters of a call with arrays such as ``like``.

        ``batch`` is the number of grids in the call.
        """
        height, width = sizes[-2:]
        xp, frames = namespace(like), sizes[0] if self.axes == 3 else 1
        return {
            "frames": frames,
            "grid_height": height,
            "grid_width": width,
            "side": height,
            "grid": height if self.one_number else self._stated(sizes),
            "image_size": height if self.one_number else self._stated(sizes),
            "grid_tokens": height * width,
            "grid_thw": xp.asarray([[frames, height, width]], dtype=xp.int64),
            "grid_of_each": xp.asarray([[frames, height, width]] * batch, dtype=xp.int64),
        }


def whole(
    grid: Grid,
    call: Callable[[dict[str, Any], tuple[int, ...]], Any],
    vectors: Mapping[str, Any],
    positions: Any,
    layout: str,
) -> Any:
    """Return the result of ``call`` for tokens at any positions (A, B, S), or (A, T) if flat.

    ``call(vectors, sizes)`` gets the vectors of whole grids, in the same layout.
    """
    at = to_host(positions)
    sizes = grid.sizes(at)
    flat = layout in ("thd", "t(hd)")
    cells, tokens = grid.before + grid.cells(at, sizes).reshape(-1), grid.before + math.prod(sizes)
    batch = 1 if flat else at.shape[1]
    row = np.zeros_like(cells) if flat else np.repeat(np.arange(batch), at.shape[2])
    row = row + batch * _occurrences(row * tokens + cells)  # each cell has one token
    place = row * tokens + cells
    rows = int(row.max()) + 1
    source = np.full(rows * tokens, place.size)
    source[place] = np.arange(place.size)
    given = {}
    for role, x in vectors.items():
        xp, each = namespace(x), _tokens(x, layout)
        if rows * tokens * math.prod(each.shape[1:]) > MOST_NUMBERS:
            raise OwnLimit(
                f"positions must be in grids of at most {MOST_NUMBERS} numbers, the most that the "
                "suite passes"
            )
        padded = xp.concat([each, xp.zeros_like(each[:1])], axis=0)
        given[role] = _taken(padded, source)
    if flat:
        ends = [slice(r * tokens, (r + 1) * tokens) for r in range(rows)]
        parts = [call({role: x[end] for role, x in given.items()}, sizes) for end in ends]
        return _each(parts, lambda results: _taken(namespace(results[0]).concat(results), place))
    shaped = {
        role: _in_layout(x.reshape((rows, tokens, *x.shape[1:])), layout)
        for role, x in given.items()
    }

    def back(results: list[Any]) -> Any:
        y = _taken(_tokens(results[0], layout), place)
        return _in_layout(y.reshape((batch, at.shape[2], *y.shape[1:])), layout)

    return _each([call(shaped, sizes)], back)


def _tokens(x: Any, layout: str) -> Any:
    """Return x as (tokens, ...), row after row of the batch."""
    if layout in ("thd", "t(hd)"):
        return x
    xp = namespace(x)
    x = {"bhsd": lambda: xp.moveaxis(x, 1, 2), "sbhd": lambda: xp.moveaxis(x, 0, 1)}.get(
        layout, lambda: x
    )()
    return x.reshape((x.shape[0] * x.shape[1], *x.shape[2:]))


def _in_layout(x: Any, layout: str) -> Any:
    """Return x (B, S, ...) in a layout."""
    if layout in ("bhsd", "sbhd"):
        return namespace(x).moveaxis(x, *((1, 2) if layout == "bhsd" else (0, 1)))
    return x


def _taken(x: Any, index: np.ndarray) -> Any:
    xp = namespace(x)
    where = {"device": x.device} if hasattr(x, "device") and not isinstance(x, np.ndarray) else {}
    return xp.take(x, xp.asarray(index, **where), axis=0)


def _each(parts: list[Any], joined: Callable[[list[Any]], Any]) -> Any:
    """Return the results of calls with ``joined`` applied, to each of several results."""
    if parts[0] is None:
        return None
    if isinstance(parts[0], tuple | list):
        return tuple(joined(list(side)) for side in zip(*parts, strict=True))
    return joined(parts)


def _occurrences(values: np.ndarray) -> np.ndarray:
    """Return, for each value, how many times it occurred before."""
    seen: dict[int, int] = {}
    found = np.zeros(values.size, dtype=np.int64)
    for n, value in enumerate(values.tolist()):
        found[n] = seen.get(value, 0)
        seen[value] = seen.get(value, 0) + 1
    return found


def _by(sizes: tuple[int, ...]) -> str:
    return " x ".join(map(str, sizes))
