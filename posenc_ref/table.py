"""Table encodings: one vector per position, added to the embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ._arrays import dot
from ._namespace import Array, DType, Namespace, astype, device_of, finish, namespace, widen
from ._positions import (
    Positions,
    as_positions,
    broadcast_axes,
    cut_like,
    require_tokens,
    target,
)
from ._validate import check_x
from .accuracy import Truth
from .encoding import Encoding
from .vision_positions import grid_positions


class Table(Encoding, abstract=True):
    """Base class of table encodings; a subclass defines ``dim``, ``table`` and ``_rows``.

    Positions have any shape for one position axis.  For A axes, the first axis of the array has
    length A, with height before width.
    """

    family = "table"
    integers = False  # whether positions must be integers
    num_axes = 1  # A
    dim: int

    @property
    def properties(self) -> frozenset[str]:
        """The names of the properties that the table has at all positions.

        ``constant-norm``  ``|PE(p)|`` is the same everywhere
        ``linear-shift``   ``PE(p + k) = M(k) PE(p)`` with one matrix for each k
        ``relative-gram``  ``PE(p) . PE(q)`` depends on ``p - q`` alone

        "``PE(p) . PE(q)`` decreases with the distance" is not a property here: sinusoidal tables,
        of which this is often said, do not have it.
        """
        return frozenset()

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        """Return the rows (..., dim) of checked positions, as an array of ``xp`` on ``device``."""
        raise NotImplementedError(f"{type(self).__name__} defines no rows")

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        return as_positions(positions, x=x, integers=self.integers)

    def _of_axes(self, p: Positions) -> Positions:
        """Check that positions have shape (A, ...) for A axes."""
        if p.ndim < 2 or p.shape[0] != self.num_axes:
            raise ValueError(
                f"positions must have shape (A, S) or (A, B, S) with A = {self.num_axes} axes, "
                f"got {p.shape}"
            )
        return p

    def grid_positions(self, height: int, width: int) -> np.ndarray:
        """Return positions of the patches of an image, (S,) or (A, S), in the order of the tokens.

        Patches are listed row by row.  With one position axis, they have positions
        ``0 .. height * width - 1``; with two, position (row, column).
        """
        rows_and_columns = grid_positions(height, width)
        if self.num_axes == 2:
            return rows_and_columns
        if self.num_axes != 1:
            raise ValueError(f"a grid has 1 or 2 axes, {type(self).__name__} has {self.num_axes}")
        return np.arange(rows_and_columns.shape[1])

    def grid(self, height: int, width: int, *, dtype: DType = None) -> Array:
        """Return the rows of all patches of an image, (height * width, dim), on the host."""
        table: Any = self
        return table.table(self.grid_positions(height, width), dtype=dtype)

    def truth(self, positions: Any) -> Truth:
        """Return the float64 rows at host ``positions``, with A and B of their rounding error.

        By default A = B = 0: a looked-up row must equal the row of the table bit for bit.
        """
        table: Any = self
        value = np.asarray(table.table(np.asarray(positions)), dtype=np.float64)
        return Truth(value, np.zeros_like(value), np.zeros_like(value))

    def add(self, x: Array, positions: Any) -> Array:
        """Return ``x + table(positions)`` for x (..., S, dim), rounded to x's dtype at the end.

        positions have the shape (S,), or (B, S) if B is x's first axis, or ``x.shape[:-1]``.  For
        A > 1 position axes, a first axis of length A precedes that shape.
        """
        check_x(x, self.dim, "dim")
        require_tokens(positions, x)
        p = self._positions(positions, x)
        index = broadcast_axes(p if self.num_axes == 1 else of_axis(p, 0), x)
        wide = widen(x)
        if not self.integers:  # rows that are looked up are checked on the host
            p = cut_like(p, x, self.num_axes)
        rows = astype(self._rows(p, namespace(x), device_of(x)), wide.dtype)
        return astype(wide + (rows[index] if index else rows), x.dtype)

    def _logits(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float
    ) -> Array:
        """Return ``(q + PE) . (k + PE) * scale``: q and k are embeddings, without projections."""
        return dot(self.add(q, q_positions), self.add(k, k_positions), scale)


class ComputedTable(Table, abstract=True):
    """Base class of tables that are computed by a formula."""

    def table(
        self, positions: Any, *, dtype: DType = None, device: Any = None, xp: Namespace = None
    ) -> Array:
        """Return the rows of positions (...), or (A, ...) for A axes: (..., dim).

        The rows have the library and device of ``positions`` unless ``xp=`` or ``device=`` is
        given, and are float64 unless ``dtype=`` is given.  Raises ValueError for a position that is
        not finite or is beyond 2**40.
        """
        p = self._positions(positions)
        return finish(self._rows(p, *target(p, xp, device)), dtype)


class LearnedTable(Table, abstract=True):
    """Base class of tables that are looked up; a subclass defines ``_lookup``."""

    integers = True

    def table(self, positions: Any, *, dtype: DType = None) -> Array:
        """Return the rows of integer positions (...), or (A, ...) for A axes: (..., dim)."""
        return finish(self._lookup(self._positions(positions)), dtype)

    def _lookup(self, p: Positions) -> Array:
        """Return the rows of checked positions, in the library of the learned arrays."""
        raise NotImplementedError(f"{type(self).__name__} defines no lookup")

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        rows = self._lookup(p)
        if namespace(rows) is not xp:
            raise TypeError(
                f"x must be an array of the table's library, "
                f"{namespace(rows).__name__}, got {xp.__name__}"
            )
        return rows


#: The properties of a table with columns in pairs of sine and cosine.
PAIRED = frozenset({"constant-norm", "linear-shift", "relative-gram"})


def of_axis(p: Positions, axis: int) -> Positions:
    """Return the positions of one axis out of (A, ...)."""
    return replace(p, values=p.values[axis, ...])
