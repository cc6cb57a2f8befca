"""Call a rotation that takes positions, offsets, tables or nothing besides its vectors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref._namespace import namespace, to_host
from posenc_ref.conformance.harness.foreign import NotTried

from .axes_tables import EACH, AxesSource
from .facts import Facts
from .grids import Grid, whole
from .positions import FLAT, ONE_ROW, every_axis, formed, require_indices, window_start
from .roles import role_of
from .signatures import signature_of
from .tables import ONE_TABLE, Rows, Source

#: Roles of a single parameter that holds a whole table.
TABLES = ("turns", "cos_sin", "sin_cos", "table")
#: Roles of vectors and of what determines their positions.
VECTORS = ("query", "key", "value", "x", "packed")
#: Settings that a function gets from the declaration.
SETTINGS = ("interleaved", "neox", "head_dim", "rotary_dim", "base", "scale", "factor")
#: The form of a function that rotates the flat vectors of one token at a position.
ONE_TOKEN = "one token"


@dataclass(frozen=True)
class Rotation:
    """A rotation, and one way of calling it; x, q and k are in ``layout``."""

    function: Callable[..., Any]
    order: Mapping[str, str]  #: the role of each parameter that is passed, by name
    facts: Facts
    layout: str
    positions: str = ""  #: one of FORMS, "offset", or "" if only a table, or nothing, is passed
    shape: str = ""  #: one of SHAPES, if a table is passed
    source: Source | None = None
    axes: int = 1  #: the number of position axes, if it is known to be more than one
    part: tuple[int, int] | None = None  #: the first channel that is passed, and the end
    inplace: bool = False  #: whether it returns None, and overwrites its vectors
    limit: int | None = None  #: the number of positions that its object was made for
    width: int | None = None  #: the only number of channels of flat vectors that it takes, if any
    judged: bool = False  #: whether values are looked at, which no trial does
    grid: Grid | None = None  #: the grids that it takes instead of positions
    #: makes the function for the sizes of a grid, if its object is made for one
    again: Callable[[tuple[int, ...]], Callable[..., Any]] | None = None

    def __call__(self, x: Any, positions: Any) -> Any:
        """Return x rotated; both halves of a pair get x."""
        same = {"x": x, "query": x, "key": _copy(x), "value": _copy(x)}
        result = self._rotate(same, positions)
        return result[0] if isinstance(result, tuple) else result

    def both(self, q: Any, k: Any, q_positions: Any, k_positions: Any) -> tuple[Any, Any]:
        """Return q and k rotated; their positions must be equal."""
        if q_positions.shape != k_positions.shape or bool((q_positions != k_positions).any()):
            raise NotTried("q and k at different positions: the function takes one set")
        if not self.is_pair:
            return self(q, q_positions), self(k, k_positions)
        result = self._rotate({"query": q, "key": k, "value": _copy(k)}, q_positions)
        if not isinstance(result, tuple) or len(result) < 2:
            raise ValueError(f"expected (q, k), got {type(result).__name__}")
        return result[0], result[1]

    @property
    def is_pair(self) -> bool:
        """Return whether the function takes queries and keys."""
        roles = set(self.order.values())
        return {"query", "key"} <= roles or "packed" in roles

    @property
    def _takes_one_row(self) -> bool:
        """Return whether the function or its table takes the positions of one row of the batch."""
        one_table = self.source is not None and self.source.kind == "(S, A)"
        several = self.axes > 1 and (one_table or self.shape in ONE_TABLE)
        return several or self.positions in ONE_ROW

    def _rotate(self, vectors: dict[str, Any], positions: Any) -> Any:
        """Rotate vectors; tokens without a batch axis one sequence at a time if need be."""
        if self.limit is not None and np.max(to_host(positions), initial=0) >= self.limit:
            raise NotTried(f"its tables are made with {self.limit} rows")
        if self.grid is not None:
            return whole(self.grid, self._in_grid, vectors, positions, self.layout)
        if self.axes > 1:
            positions = every_axis(positions, self.axes)
        several = len(positions.shape) == 3 and positions.shape[1] > 1
        if several and (self._takes_one_row or self._differ(positions)):
            batch = 1 if self.layout == "sbhd" else 0
            rows = [
                self._once(
                    {r: _row(v, n, batch) for r, v in vectors.items()}, positions[:, n : n + 1]
                )
                for n in range(positions.shape[1])
            ]
            return _joined(rows, batch)
        if self.width is not None:
            return self._by_width(vectors, positions, self.width)
        if self.positions == ONE_TOKEN:
            tokens = [
                self._once({r: v[n] for r, v in vectors.items()}, positions[n])
                for n in range(positions.shape[-1])
            ]
            return None if tokens[0] is None else _joined([*map(_with_axis, tokens)])
        if self.layout in FLAT and self.positions in ("", "offset") and self.source is None:
            ends = [0, *_restarts(positions), positions.shape[-1]]
            if len(ends) > 2:
                parts = [
                    self._once({r: v[a:b] for r, v in vectors.items()}, positions[a:b])
                    for a, b in itertools.pairwise(ends)
                ]
                return _joined(parts)
        return self._once(vectors, positions)

    def _by_width(self, vectors: dict[str, Any], positions: Any, width: int) -> Any:
        """Rotate flat vectors in parts of ``width`` channels; zeros fill the last part."""
        parts = {role: _filled(v, width) for role, v in vectors.items()}
        once = [self._once(dict(zip(parts, part, strict=True)), positions)
                for part in zip(*parts.values(), strict=True)]  # fmt: skip
        channels = next(iter(vectors.values())).shape[-1]
        whole = _joined(once, axis=-1)
        if isinstance(whole, tuple):
            return tuple(part[..., :channels] for part in whole)
        return whole[..., :channels]

    def _differ(self, positions: Any) -> bool:
        """Return whether rows of a batch need other rows of a table that has no batch axis."""
        return isinstance(self.source, AxesSource) and bool((positions != positions[:, :1]).any())

    def _in_grid(self, vectors: dict[str, Any], sizes: tuple[int, ...]) -> Any:
        """Rotate the vectors of whole grids."""
        way = self if self.again is None else replace(self, function=self.again(sizes))
        return way._once(vectors, sizes)

    def _once(self, vectors: dict[str, Any], positions: Any) -> Any:
        if "packed" in self.order.values():  # (B, S, 3, H, D)
            if vectors["query"].shape != vectors["key"].shape:
                raise ValueError("queries and keys must have equal shapes: one array holds both")
            three = [vectors["query"], vectors["key"], vectors["key"]]
            vectors = {"packed": namespace(three[0]).stack(three, axis=2)}
        whole = {role: v for role, v in vectors.items() if role in self.order.values()}
        roles = {role: self._cut(v) for role, v in whole.items()}
        if self.inplace:
            roles = {role: _copy(v) for role, v in roles.items()}
        first = next(iter(roles.values()))
        roles |= self._where(first, positions)
        arguments = {name: roles[role] for name, role in self.order.items() if role in roles}
        result = self._called(arguments)
        in_order = [role for role in self.order.values() if role in whole]
        if isinstance(result, Mapping):
            result = self._by_key(result, in_order)
        if self.inplace and result is None:
            result = tuple(roles[role] for role in in_order)
        if "packed" in whole:
            result = result[0] if isinstance(result, tuple) else result
            self._require_same(result[:, :, 2], whole["packed"][:, :, 2])
            return result[:, :, 0], result[:, :, 1]
        parts = tuple(result) if isinstance(result, tuple | list) else (result,)
        if result is None or len(parts) < len(set(in_order) - {"value"}):
            return result
        named = dict(zip(in_order, parts, strict=False))  # results follow the parameters
        if "value" in named:
            self._require_same(named.pop("value"), whole["value"])
        if self.part is not None:
            named = {role: self._between(part, whole[role]) for role, part in named.items()}
        found = tuple(named[role] for role in ("query", "key", "x") if role in named)
        return found[0] if len(found) == 1 else found

    def _by_key(self, result: Mapping[str, Any], in_order: list[str]) -> tuple[Any, ...]:
        """Return the values of a result by the roles of its keys, or in order if these say none."""
        roles = {self.order.get(key, role_of(str(key))): key for key in result}
        named = tuple(result[roles[role]] for role in in_order if role in roles)
        return named if {"query", "key"} <= roles.keys() else tuple(result.values())

    def _require_same(self, after: Any, before: Any) -> None:
        """Raise ValueError if the values, which no rotation may change, have changed."""
        if self.judged and not np.array_equal(to_host(after), to_host(before), equal_nan=True):
            raise ValueError("the values (v) are changed: only queries and keys are rotated")

    def _called(self, arguments: dict[str, Any]) -> Any:
        """Call the function: by position where the parameter has no name, else by name."""
        parameters = signature_of(self.function).parameters
        placed = [
            arguments.pop(name)
            for name, p in parameters.items()
            if name in arguments and (p.kind is p.POSITIONAL_ONLY
            or (p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty))
        ]  # fmt: skip
        return self.function(*placed, **arguments)

    def _where(self, x: Any, positions: Any) -> dict[str, Any]:
        """Return the arguments that say where the vectors stand."""
        if self.grid is not None:
            batch = {"thd": 1, "t(hd)": 1}.get(self.layout, x.shape[self.layout == "sbhd"])
            where = self.grid.arguments(positions, x, batch)
            return {**where, "positions": namespace(x).asarray(self.grid.places(positions, batch))}
        found: dict[str, Any] = {}
        wants = set(self.order.values())
        if self.source is not None and self.positions and self.axes == 1:  # it selects rows
            require_indices(positions)
            last = int(np.max(to_host(positions), initial=0))
            rows = Rows(self.source.every_row(x, last + 1), batched=False)
            found |= self._tabled(rows, wants)
        elif self.source is not None:
            found |= self._tabled(self.source.rows(x, positions), wants)
        if self.positions == ONE_TOKEN:
            if to_host(positions).dtype.kind not in "iu":
                raise ValueError("positions must be integers: the function takes one number")
            found |= dict.fromkeys(("positions", "offset"), int(positions))
        elif self.positions == "offset":
            found["offset"] = window_start(positions)
        elif self.positions.startswith("each"):
            at = formed(self.positions, x, positions, self.layout)
            found |= dict(zip(EACH[-len(at) :], at, strict=True))
        elif self.positions:
            found["positions"] = formed(self.positions, x, positions, self.layout)
        elif self.source is None and window_start(positions) != 0:
            raise ValueError("positions must start at 0: the function takes no positions")
        return found

    def _tabled(self, rows: Any, wants: set[str]) -> dict[str, Any]:
        assert self.source is not None
        templates = self.source.templates
        if {"cos", "sin"} & wants:
            rows = self.source.cos_sin(rows)
            templates = templates if len(templates) == 2 else templates * 2
            if self.shape == "as returned" and self.source.form in ("cos|sin", "sin|cos"):
                templates = tuple((*t[:-1], t[-1] // 2) for t in templates)
            cos, sin = rows.shaped(self.shape, templates)
            return {"cos": cos, "sin": sin}
        parts = rows.shaped(self.shape, templates)
        if self.source.stacked:
            table: Any = namespace(parts[0]).stack(parts)
        else:
            table = parts if len(parts) > 1 else parts[0]
        return dict.fromkeys(TABLES, table)

    def _cut(self, x: Any) -> Any:
        return x if self.part is None else x[..., self.part[0] : self.part[1]]

    def _between(self, part: Any, x: Any) -> Any:
        start, stop = self.part or (0, 0)
        xp = namespace(x)
        return xp.concat([x[..., :start], part, x[..., stop:]], axis=-1)


def _restarts(positions: Any) -> list[int]:
    """Return the tokens at which another sequence begins: their positions do not go on."""
    at = to_host(positions)
    return [int(n) for n in np.flatnonzero(np.diff(at) != 1) + 1]


def _with_axis(token: Any) -> Any:
    """Return the results of one token with an axis for tokens in front."""
    if isinstance(token, tuple | list):
        return tuple(part[None] for part in token)
    return token[None]


def _row(x: Any, row: int, batch: int) -> Any:
    """Return one row of the batch, which is axis ``batch``."""
    return x[:, row : row + 1] if batch else x[row : row + 1]


def _joined(parts: list[Any], axis: int = 0) -> Any:
    """Return the results of several calls as one result: by default, token after token."""
    if isinstance(parts[0], tuple | list):
        return tuple(_joined(list(side), axis) for side in zip(*parts, strict=True))
    return namespace(parts[0]).concat(parts, axis=axis)


def _filled(x: Any, width: int) -> list[Any]:
    """Split the last axis of x into parts of size ``width``; zeros fill the last part."""
    xp = namespace(x)
    missing = xp.zeros_like(x[..., :1])
    whole = xp.concat([x, *[missing] * (-x.shape[-1] % width)], axis=-1)
    return [whole[..., n : n + width] for n in range(0, whole.shape[-1], width)]


def _copy(x: Any) -> Any:
    """Return a copy, so that a function in place does not rotate the same array twice."""
    return x.clone() if hasattr(x, "clone") else x.copy() if hasattr(x, "copy") else x
