"""Find the grids to try for a function: those it takes sizes for, or the only one it is made for.

A rotation, and its table, show the sides of their grid: each channel depends on the row of a patch,
or on its column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref._namespace import to_host
from posenc_ref.conformance.harness.foreign import Refused, refusals

from .facts import Facts
from .grids import PAIRS, SIZES, Grid
from .roles import role_of
from .signatures import signature_of
from .size_order import width_first

#: The sides of square grids to try for objects that do not state theirs.
_SIDES = (14, 16, 7, 8, 24, 32, 12, 10, 18, 20, 27, 28, 37, 48, 64)
#: The sides of other grids to try; trial calls have positions below 5.
_UNEQUAL = range(5, 21)
#: The most numbers of a table whose grid is searched.
_MOST = 2**20
#: How much two values of a table in half precision may differ.
_SLACK = 2.0**-7


def grids_of(call: Callable[..., Any], owner: Any, facts: Facts, axes: int) -> Iterator[Grid]:
    """Yield the grids to try for a call, or for what a class makes, by its parameters."""
    if not rows_and_columns(facts):
        return
    merge = _merge(call, owner, facts)
    names = [name for name in signature_of(call).parameters if name not in facts.by_name]
    stated = {role_of(name) for name in names} & set(SIZES)
    pair = next((name for name in names if role_of(name) in PAIRS), "")
    found: list[Grid] = []
    if stated:
        turned = width_first(call, pair) if pair else False
        some = Grid(axes, merge=merge, pair=pair, turned=turned)
        if "side" not in stated and stated != {"grid_tokens"} and turned is not None:
            found.append(some)
        found.append(replace(some, square=True))
        if pair:
            found.append(replace(some, one_number=True, square=True))
    found += dict.fromkeys(_own(call, owner, facts, merge)) if axes == 2 else ()
    if not found and axes == 2:
        found.append(Grid(axes, square=True, merge=merge))
        found += (Grid(axes, own=(side, side), merge=merge) for side in _SIDES)
    yield from found
    yield from (replace(grid, before=1) for grid in found if not grid.before)


def rows_and_columns(facts: Facts) -> bool:
    """Return whether positions may be the rows and columns of a grid: no encoding scales them."""
    return bool(facts.fields.get("position_scale", 1.0) == 1.0)


def _own(call: Callable[..., Any], owner: Any, facts: Facts, merge: int) -> Iterator[Grid]:
    """Yield the grids that an object was made for: those it states, then those of its tables."""
    values = {**getattr(owner, "__dict__", {}), **facts.by_name}
    by_role = {role_of(name): value for name, value in values.items()}
    patch = by_role.get("patch", 1)
    if {"grid_height", "grid_width"} <= by_role.keys():
        both = (by_role["grid_height"], by_role["grid_width"])
        yield from (Grid(2, own=sizes, merge=merge) for sizes in _pair(both, 1))
    for role in ("grid", "side", "image_size"):
        for name in [name for name in values if role_of(name) == role][-1:]:
            turned = width_first(type(owner) if owner is not None else call, name)
            for sizes in _pair(values[name], patch if role == "image_size" else 1):
                known = Grid(2, own=sizes[::-1] if turned else sizes, merge=merge)
                square = sizes[0] == sizes[1]
                yield known if square else replace(known, pair=name, turned=turned)
    arrays = [v for v in (*values.values(), *getattr(owner, "_buffers", {}).values())
              if hasattr(v, "shape")]  # fmt: skip
    for array in arrays:
        yield from _of_table(array, merge)
    for array in arrays:
        shape = tuple(getattr(array, "shape", ()))
        for rows in shape[:-1]:
            if rows >= 25 and math.isqrt(rows) ** 2 == rows:
                yield Grid(2, own=(math.isqrt(rows), math.isqrt(rows)), merge=merge)


def _pair(value: Any, patch: Any) -> Iterator[tuple[int, ...]]:
    both = value if isinstance(value, tuple | list) else (value, value)
    if len(both) == 2 and all(isinstance(n, int) for n in (*both, patch)):
        yield (both[0] // patch, both[1] // patch)


def _merge(call: Callable[..., Any], owner: Any, facts: Facts) -> int:
    """Return the side of merged blocks: what is given, the object's, or the call's default."""
    defaults = {name: p.default for name, p in signature_of(call).parameters.items()}
    values = {**defaults, **getattr(owner, "__dict__", {}), **facts.by_name}
    found = (v for n, v in values.items() if role_of(n) == "merge" and isinstance(v, int))
    return next(found, 1)


def sides_of(rows: np.ndarray) -> list[tuple[int, int]]:
    """Return the sides of grids whose patches may have these values (patches, ...).

    Every number of a patch depends on its row alone or on its column alone, and both occur.
    """
    count = len(rows)
    values = rows.reshape(count, -1)
    if values.dtype.kind == "c":
        values = np.concatenate([values.real, values.imag], axis=-1)
    values = values.astype(np.float64)
    found = []
    for height in range(2, count // 2 + 1):
        if count % height or not values.size:
            continue
        grid = values.reshape(height, count // height, -1)
        in_row = (np.abs(grid - grid[:, :1]) <= _SLACK).all(axis=(0, 1))
        in_column = (np.abs(grid - grid[:1]) <= _SLACK).all(axis=(0, 1))
        one_of_both = (in_row | in_column).all()
        if one_of_both and (in_row & ~in_column).any() and (in_column & ~in_row).any():
            found.append((height, count // height))
    return found


def sides_by_trial(tokens: Callable[[int], np.ndarray | None]) -> tuple[int, int] | None:
    """Return the sides of the only grid that a function takes, or None.

    ``tokens(count)`` returns the results for equal vectors (count, ...), None if it is refused.
    """
    for count in sorted({height * width for height in _UNEQUAL for width in _UNEQUAL}):
        rows = tokens(count)
        if rows is not None:
            return next(iter(sides_of(rows)), None)
    return None


def _of_table(array: Any, merge: int) -> Iterator[Grid]:
    """Yield the grids that a table of patches shows, with or without a row for a class token."""
    try:
        with refusals():
            values = to_host(array)
    except Refused:
        return
    if values.dtype.kind not in "fc" or values.size > _MOST:
        return
    for axis, rows in enumerate(values.shape[:-1]):
        patches = np.moveaxis(values, axis, 0)
        for before in (0, 1):
            if rows - before >= 4:
                for sides in sides_of(patches[before:]):
                    yield Grid(2, own=sides, merge=merge, before=before)
