"""Tables of several position axes: rows of a whole grid, or rows at given coordinates.

Every trial call uses a number of rows that no other axis has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref._namespace import namespace, to_host
from posenc_ref.conformance.harness.foreign import Refused, refusals

from .facts import Facts
from .grid_search import grids_of
from .grids import SIZES, Grid
from .roles import role_of
from .signatures import signature_of
from .table_search import ROWS, NoTable, form_of, template_of
from .tables import Rows, Source, trail

#: How positions (A, S) of a row of the batch are passed to what makes a table.
ARRANGEMENTS = ("(A, S)", "(S, A)", "(1, S, A)", "(A, 1, S)", "each (S,)", "tuple of (S,)")
#: The roles of the positions of one axis, the last axis last.
EACH = ("position_frame", "position_row", "position_column")


@dataclass(frozen=True)
class AxesSource(Source):
    """A callable that gives rows for positions on several axes, (A, S).

    With ``grid``, ``called(sizes)`` returns the callable for a grid, whose rows are selected.
    """

    grid: Grid | None = None
    called: Callable[[tuple[int, ...]], Callable[..., Any]] | None = None
    last: dict[Any, Any] = field(default_factory=dict, compare=False)

    def rows(self, x: Any, positions: Any) -> Rows:
        """Return the rows at ``positions`` (A, S), or (A, B, S) with equal rows of the batch."""
        if 0 in positions.shape:
            raise ValueError("positions must be those of at least one token")
        row = positions[:, 0] if positions.ndim == 3 else positions
        if self.grid is None:
            parts = self._parts(self._asked(x, row))
            each = zip(parts, self.templates, strict=True)
            return Rows(tuple(p.reshape((row.shape[1], *trail(p, t))) for p, t in each), False)
        at = to_host(row)
        sizes = self.grid.sizes(at)
        index = self.grid.cells(at, sizes)
        key = (sizes, str(x.dtype), str(getattr(x, "device", "")))
        if key not in self.last:  # a trial asks for the same grid many times
            self.last.clear()
            self.last[key] = self.whole(x, sizes)
        xp = namespace(x)
        found = []
        for part in self.last[key]:
            if isinstance(part, np.ndarray) and not isinstance(x, np.ndarray):
                part = xp.asarray(part, dtype=x.dtype) if part.dtype.kind == "f" else part
            found.append(part[index] if isinstance(part, np.ndarray) else part[xp.asarray(index)])
        return Rows(tuple(found), False)

    def every_row(self, x: Any, length: int) -> tuple[Any, ...]:
        """Refuse: no row belongs to one position."""
        raise ValueError("a table of several position axes has no row for one position")

    def whole(self, x: Any, sizes: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the rows of a whole grid, each part as (tokens, ...)."""
        parts = self._parts(self._in_grid(x, sizes))
        tokens = int(np.prod(sizes))
        return tuple(
            p.reshape((tokens, *trail(p, t))) for p, t in zip(parts, self.templates, strict=True)
        )

    def _in_grid(self, x: Any, sizes: tuple[int, ...]) -> Any:
        """Return the result of a call for a grid, its axes merged into one axis of tokens."""
        assert self.grid is not None
        call = self.call if self.called is None else self.called(sizes)
        xp = namespace(x)
        also = self._also(x) | self.grid.arguments(sizes, x)
        also["x"] = xp.zeros((1, 1, int(np.prod(sizes)), x.shape[-1]), dtype=x.dtype)
        raw = call(**self.facts.arguments(call, also))
        if isinstance(raw, tuple | list):
            return tuple(_merged(part, sizes) for part in raw)
        return _merged(raw, sizes)

    def _asked(self, x: Any, row: Any) -> Any:
        """Return the result of a call at positions (A, S)."""
        also = self._also(x)
        kind = self.kind
        if kind == "each (S,)":
            also |= dict(zip(EACH[-row.shape[0] :], row, strict=True))
        else:
            value = self._arranged(row)
            also["positions"] = value
            also["x"] = x
            if "positions" not in {role_of(n) for n in signature_of(self.call).parameters}:
                also["x"] = value
        return self.call(**self.facts.arguments(self.call, also))

    def _arranged(self, row: Any) -> Any:
        """Return positions (A, S) in the form that the callable takes."""
        xp = namespace(row)
        if self.kind == "(A, 1, S)":
            return row[:, None]
        if self.kind in ("(S, A)", "(1, S, A)"):
            turned = xp.moveaxis(row, 0, -1)
            return turned if self.kind == "(S, A)" else turned[None]
        return tuple(row) if self.kind == "tuple of (S,)" else row

    def _also(self, x: Any) -> dict[str, Any]:
        also = {"dtype": x.dtype, "device": getattr(x, "device", None)}
        return {role: value for role, value in also.items() if value is not None}


def axes_sources(
    call: Callable[..., Any],
    facts: Facts,
    words: str,
    like: Any,
    axes: int,
    owner: Any = None,
    grid: Grid | None = None,
    called: Callable[[tuple[int, ...]], Callable[..., Any]] | None = None,
) -> Iterator[AxesSource]:
    """Yield the tables of several axes that a callable gives; see :class:`AxesSource`.

    ``owner`` is the object that ``call`` belongs to.  With ``grid`` its constructor takes the size
    of a grid, and ``called`` returns the call of an object for another grid.

    Raises
    ------
    NoTable
        No way of calling it gives an array with an axis of rows.
    """
    roles = {role_of(name) for name in signature_of(call).parameters if name not in facts.by_name}
    tried = []
    for trial in _trials(call, facts, words, axes, owner, grid, called, roles):
        try:
            with refusals():
                found = _measured(trial, like, axes)
        except Refused as error:
            tried.append(str(error))
            continue
        yield found
        return
    raise NoTable(f"{words} makes no table of {axes} axes: {'; '.join(tried[:2])}")


def _trials(
    call: Any, facts: Facts, words: str, axes: int, owner: Any, grid: Grid | None, called: Any,
    roles: set[str | None],
) -> Iterator[AxesSource]:  # fmt: skip
    if roles & set(EACH):
        yield AxesSource(call, facts, words, "each (S,)")
    if {"positions", "x"} & roles:
        for kind in ARRANGEMENTS[:4] + ARRANGEMENTS[5:]:
            yield AxesSource(call, facts, words, kind)
    grids = [grid] if grid is not None else []
    if not grids and (roles & set(SIZES) or not {"positions", "length"} & roles):
        every = grids_of(call, owner, facts, axes)
        grids = [each for each in every if not each.before]
    for each in grids:
        yield AxesSource(call, facts, words, "grid", grid=each, called=called)


def _measured(trial: AxesSource, like: Any, axes: int) -> AxesSource:
    """Return the source with the shape and form of its table, or raise an exception."""
    xp = namespace(like)
    if trial.grid is None:
        at = np.stack([(np.arange(ROWS) * (a + 1)) % ROWS for a in range(axes)])
        rows = ROWS
        raw = trial._asked(like, xp.asarray(at))
    else:
        sizes = trial.grid.sizes(np.array([[4], [4], [6]][-axes:]))
        rows = int(np.prod(sizes))
        raw = trial._in_grid(like, sizes)
    parts = trial._parts(raw)
    if not parts or not all(hasattr(part, "shape") for part in parts):
        raise ValueError("no array")
    if len(parts) == 1 and parts[0].ndim > 2 and parts[0].shape[0] == 2:
        trial = replace(trial, stacked=True, last={})
        parts = (parts[0][0], parts[0][1])
    templates = tuple(template_of(tuple(part.shape), rows) for part in parts)
    if any(
        int(np.prod(trail(p, t))) > 2 * like.shape[-1]
        for p, t in zip(parts, templates, strict=True)
    ):
        raise ValueError(f"a table of shape {tuple(parts[0].shape)} has no row of channels")
    found = replace(trial, templates=templates, last={})
    spots = np.array([[0, 1, 2], [0, 2, 1], [0, 1, 1]])[:axes]
    first = found.rows(like, xp.asarray(spots)).parts
    host = [to_host(part) for part in first]
    if all((part == part[:1]).all() for part in host):
        raise ValueError("all rows are equal")
    return replace(found, form=form_of(first), last={})


def _merged(part: Any, sizes: tuple[int, ...]) -> Any:
    """Return an array with the axes of a grid merged into one axis of tokens, if it has them."""
    shape = tuple(getattr(part, "shape", ()))
    count = len(sizes)
    for at in range(len(shape) - count):
        if shape[at : at + count] == tuple(sizes):
            return part.reshape((*shape[:at], int(np.prod(sizes)), *shape[at + count :]))
    return part
