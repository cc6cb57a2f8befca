"""Identify tables over the patches of an image: ``fn(height, width)``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import AxialLearned, DETRSine, Encoding, Learned, Sinusoidal2D
from posenc_ref.accuracy import BUDGET, FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.bias.cases import Ruler
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify import sinusoid
from posenc_ref.conformance.identify.card import Card, Unidentified, require_finite, require_same
from posenc_ref.conformance.identify.fit.measurement import nice

from .axis_tables import Axes, Sinusoids, sinusoids, spaced

#: Grids to try, those with different sides first: a side of 1 or 2 shows too few positions.
_GRIDS = (
    (14, 17), (5, 7), (7, 5), (4, 6), (6, 4), (3, 2), (14, 14), (16, 16), (7, 7), (8, 8), (24, 24),
    (32, 32), (37, 37), (12, 12), (10, 10), (20, 20), (27, 27), (28, 28), (56, 56), (64, 64),
    (4, 4), (2, 2), *((n, n) for n in range(3, 34)),
)  # fmt: skip
#: The most rows of a learned table.
_LARGEST = 2**14
#: The most grids to measure.
_ENOUGH = 4


@dataclass(frozen=True)
class Grid:
    """The table of one image, (height, width, dim)."""

    table: np.ndarray

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.table.shape[0], self.table.shape[1]

    def axes(self, run: Run) -> Axes:
        """Return access to the rows along the first column and along the first row."""

        def rows(axis: int, at: np.ndarray) -> np.ndarray:
            if at.dtype.kind not in "iu":
                raise Refused(ValueError("a grid has whole positions"))
            if at.max(initial=0) >= self.size[axis]:
                raise Refused(ValueError("past the end of the grid"))
            return np.asarray(self.table[at, 0] if axis == 0 else self.table[0, at])

        return Axes(run, 2, self.table.shape[2], rows, min(self.size))


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(height, width) -> (height * width, dim)``."""
    grids, refused = [], ""
    for h, w in dict.fromkeys(_GRIDS):
        try:
            grids.append(Grid(_rows(run, h, w).reshape(h, w, -1)))
        except (Refused, Malformed) as error:
            refused = str(error)
            continue
        if len(grids) == _ENOUGH:
            break
    if not grids:
        raise Unidentified(f"every grid is refused: {refused}")
    first = grids[0]
    require_same(first.table.reshape(-1, first.table.shape[2]), _rows(run, *first.size))
    sizes = ", ".join(f"{h} x {w}" for h, w in (g.size for g in grids))
    card.facts["grids"] = f"{sizes}; {first.table.shape[2]} columns"
    if refused:
        kept = f"only grids of {sizes} are accepted" if len(grids) < _ENOUGH else "some are refused"
        card.limits.append(f"{kept}: others are refused ({refused})")
    run.reached(first.size[0] * first.size[1] - 1)
    card.encoding = _found(run, grids, card)


def _rows(run: Run, h: int, w: int) -> np.ndarray:
    table = run.driver.array(run.driver.call(h, w))
    while table.ndim > 2 and table.shape[0] == 1:
        table = table[0]
    if table.ndim != 2 or table.shape[0] != h * w or not table.shape[1]:
        raise Malformed(f"expected shape ({h * w}, dim), got {table.shape}")
    require_finite(table)
    return table


def _found(run: Run, grids: list[Grid], card: Card) -> Encoding | None:
    """Return the encoding: sinusoids of two axes, of the patch number, or learned rows."""
    largest = max(grids, key=lambda g: (min(g.size), g.table.size))
    for flatten in ("rows", "columns"):
        grid = largest if flatten == "rows" else Grid(_by_columns(largest))
        found = sinusoids(grid.axes(run))
        if found is not None:
            return _sinusoids(run, grids, grid, found, card, flatten)
    if all(_prefix(g, largest) for g in grids):
        numbered = _numbered(run, largest, card)
        if numbered is not None:
            return numbered
    return _learned(run, grids, largest, card)


def _by_columns(grid: Grid) -> np.ndarray:
    """Return the table of a grid whose tokens are listed column by column."""
    h, w = grid.size
    return grid.table.reshape(w, h, -1).swapaxes(0, 1)


def _prefix(one: Grid, other: Grid) -> bool:
    """Return whether patch n has the same row in both grids."""
    a, b = (g.table.reshape(-1, g.table.shape[2]) for g in (one, other))
    n = min(len(a), len(b))
    return bool(np.array_equal(a[:n], b[:n]))


def _sinusoids(
    run: Run, grids: list[Grid], grid: Grid, found: Sinusoids, card: Card, flatten: str
) -> Encoding:
    """Return the encoding of sinusoids of rows and columns, normalised by the grid or not."""
    other = next((g for g in grids if min(g.size) > 2 and g.size != grid.size), None)
    by_size = _changes(run, grid, other, found, flatten)
    if by_size and flatten == "rows":
        found_detr = _detr(run, grid, found)
        if found_detr is not None:
            card.facts["positions"] = "divided by the size of the grid"
            return found_detr
    if by_size:  # measured in sides of the image
        found = replace(
            found,
            phases=tuple(
                replace(p, frequencies=n * p.frequencies, sigma=n * p.sigma)
                for n, p in zip(grid.size, found.phases, strict=True)
            ),
        )
    settings = spaced(found, grid.axes(run), card)
    extent = settings.pop("position_scale", 1.0) if by_size else None
    e = found.shell.replace(**settings)
    if flatten == "columns":
        e = e.replace(flatten="columns")
    if by_size:
        card.facts["positions"] = "divided by the size of the grid"
        e = e.replace(extent=extent)
    elif other is None:
        card.unknown.append("whether positions depend on the size of the grid: one is accepted")
    return e


def _changes(run: Run, grid: Grid, other: Grid | None, found: Sinusoids, flatten: str) -> bool:
    """Return whether a grid of another size has other frequencies."""
    if other is None:
        return False
    if flatten == "columns":
        other = Grid(_by_columns(other))
    n = min(grid.size[0], other.size[0])
    off = np.abs(grid.table[:n, 0] - other.table[:n, 0])
    return bool(off.max() > FACTOR_SLACK)


def _detr(run: Run, grid: Grid, found: Sinusoids) -> DETRSine | None:
    """Return DETR's table with the measured scale, shift and bases, or None."""
    e = found.shell
    if not isinstance(e, Sinusoidal2D) or e.layout != "interleaved" or e.first != "sin":
        return None
    h, w = grid.size
    (a, b), n = found.phases, found.phases[0].frequencies.size
    if n < 2:
        return None
    bases = [
        nice(float((p.frequencies[0] / p.frequencies[-1]) ** (n / (n - 1))), 1e-4) for p in (a, b)
    ]
    shift = float(a.start[0] / a.frequencies[0]) - 1
    shift = nice(shift, 1e-3) if abs(shift) > 1e-3 else 0.0
    scale = float(a.frequencies[0] * h)
    for eps in (1e-6, 0.0):
        for scale_ in (2 * np.pi, nice(scale, 1e-4)):
            with suppress(ValueError):
                tried = DETRSine(
                    e.dim, base=bases[0], width_base=None if bases[0] == bases[1] else bases[1],
                    scale=scale_, shift=shift, eps=eps, axis_order=e.axis_order,
                )  # fmt: skip
                rows = tried.table(tried.grid_positions(h, w)).reshape(h, w, -1)
                if (
                    np.abs(rows - grid.table).max()
                    <= 2**10 * BUDGET["float32"] * ROUNDOFF[run.coarse]
                ):
                    return tried
    return None


def _numbered(run: Run, grid: Grid, card: Card) -> Encoding | None:
    """Return the sinusoidal table of one axis whose position is the number of the patch."""
    rows = grid.table.reshape(-1, grid.table.shape[2])

    def numbered(positions: Any) -> Any:
        at = np.asarray(run.driver.backend.asnumpy(positions))
        if at.dtype.kind not in "iu" or at.min(initial=0) < 0 or at.max(initial=0) >= len(rows):
            raise ValueError(f"the grid has patches 0 to {len(rows) - 1}")
        return rows[at]

    view = replace(run, driver=replace(run.driver, fn=numbered, factory=None))
    before = list(card.unknown)
    trial = Card(card.subject, "table", card.backend, card.dtype)
    trial.fill(sinusoid.identify, view)
    card.unknown = before
    if trial.encoding is None or isinstance(trial.encoding, Learned):
        return None
    for name in ("frequencies", "uncertainty", "relations", "aliases"):
        setattr(card, name, getattr(trial, name))
    card.facts |= trial.facts
    card.facts["positions"] = "the number of the patch, row by row"
    return trial.encoding


def _learned(run: Run, grids: list[Grid], largest: Grid, card: Card) -> Encoding | None:
    """Return learned rows: one for each patch, or one for each row and column of patches."""
    kind = "float64" if run.dtype == "float64" else "float32"
    h, w = largest.size
    rows = largest.table.reshape(h * w, -1)
    if (rows == rows[0]).all():
        raise Unidentified("all patches have the same row")
    moving = largest.axes(run).moving()
    if not (moving.sum(axis=0) > 1).any() and moving.any(axis=0).all():
        table = _concatenated(_wider(run, largest), kind)
        if table is not None:
            card.facts["learned"] = "a table for the rows of patches, and one for their columns"
            return table
    summed = _summed(run, largest, kind)
    if summed is not None:
        card.facts["learned"] = (
            "the sum of a table for the rows of patches and one for their columns"
        )
        return summed
    if len(grids) > 1 and not all(_prefix(g, largest) for g in grids):
        raise Unidentified(
            "the columns form no sinusoids of two axes, and the rows depend on the size of the grid"
        )
    card.facts["learned"] = "the columns form no sinusoids; the encoding holds all rows"
    longest = _most(lambda n: _rows(run, 1, n), h * w) if len(grids) > 1 else None
    return Learned((rows if longest is None else longest).astype(kind))


def _most(call: Callable[[int], np.ndarray], low: int) -> np.ndarray | None:
    """Return the result of the largest accepted call above ``low``, or None if none is."""
    found: np.ndarray | None = None
    high = _LARGEST + 1
    while high - low > 1:
        middle = min(2 * low, (low + high) // 2)
        try:
            found, low = call(middle), middle
        except (Refused, Malformed, Unidentified):  # MLX returns any numbers past its tables
            high = middle
    return found


def _wider(run: Run, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows along both axes, as many as are accepted."""
    h, w = grid.size
    down, right = _most(lambda n: _rows(run, n, 1), h), _most(lambda n: _rows(run, 1, n), w)
    return (
        grid.table[:, 0] if down is None else down,
        grid.table[0] if right is None else right,
    )


def _summed(run: Run, grid: Grid, kind: str) -> AxialLearned | None:
    """Return the sum of two tables that gives every patch, or None."""
    down, right = _wider(run, grid)
    if min(grid.size) < 3:
        return None
    tables = (down.astype(kind), (right - right[:1]).astype(kind))
    whole = down[: grid.size[0], None] + (right - right[:1])[None, : grid.size[1]]
    terms = np.abs(down).max() + 2 * np.abs(right).max()
    if Ruler.of(run).differ(grid.table, whole, terms).any():
        return None
    return AxialLearned(tables, combine="sum")


def _concatenated(parts: tuple[np.ndarray, np.ndarray], kind: str) -> Encoding | None:
    """Return the table whose columns belong to one axis each, if they are contiguous."""
    moving = np.array([(part != part[:1]).any(axis=0) for part in parts])
    edge = int(moving[0].sum())
    dim = moving.shape[1]
    for order, first in (((0, 1), moving[0]), ((1, 0), moving[1])):
        size = edge if order == (0, 1) else dim - edge
        if 0 < size < dim and first[:size].all() and not first[size:].any():
            cut = {order[0]: slice(None, size), order[1]: slice(size, None)}
            tables = tuple(parts[a][:, cut[a]].astype(kind) for a in (0, 1))
            return AxialLearned(tables, order=None if order == (0, 1) else order)
    return None
