"""Factorised learned tables: one small table for each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._arrays import check_numbers, check_place, lookup
from ._namespace import (
    Array,
    astype,
    dtype_name,
    library,
    namespace,
    widen,
)
from ._positions import Positions, as_positions
from ._text import shown
from .accuracy import Truth
from .table import LearnedTable, of_axis


@dataclass(frozen=True, eq=False, repr=False)
class AxialLearned(LearnedTable):
    """Learned position embedding made of one table for each axis.

    Formula
        ``PE(p_0, p_1, ...) = [E_0[p_0], E_1[p_1], ...]`` or their sum.
    Source
        Kitaev et al. 2020, *Reformer*, arXiv:2001.04451 (``flat=True``).  DETR's learned encoding
        (Carion et al. 2020, arXiv:2005.12872) has 50 rows for each axis and ``order=(1, 0)``: the
        columns of x come first, although in DETR's sinusoids the columns of y come first.  ViViT,
        MViT and VideoPrism add the rows of the axes (``combine="sum"``).
    Error unit (see :mod:`posenc_ref.accuracy`)
        "concat": A = B = 0, because the numbers are copied from the tables.  "sum": A = the sum of
        the absolute values of the added numbers, B = 0.

    Parameters
    ----------
    tables : sequence of arrays, shapes (rows of the axis, columns of the axis)
        One table for each position axis, in the order of the axes. All share a library and a dtype.
        Stored without a copy.
    combine : {"concat", "sum"}
    order : sequence of int, optional
        The axis numbers in the order in which the rows are concatenated. Default: 0, 1, ...
    flat : bool
        Positions are single integers, ``p = (p_0 * rows_1 + p_1) * rows_2 + ...``: the last axis
        runs fastest.

    Raises
    ------
    TypeError
        Positions are not integers, or tables are not real floating arrays.
    ValueError
        A position is outside its table: nothing is clamped or wrapped round.
    """

    tables: tuple[Array, ...]
    _: KW_ONLY
    combine: str = "concat"
    order: tuple[int, ...] | None = None
    flat: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.tables, tuple | list) or len(self.tables) < 2:
            raise TypeError(f"tables must be two or more arrays, got {shown(self.tables)}")
        tables = tuple(self.tables)
        for axis, table in enumerate(tables):
            check_numbers(f"tables[{axis}]", table, "rows", "columns")
        kinds = {(library(t), dtype_name(t)) for t in tables}
        if len(kinds) > 1:
            raise TypeError(f"tables must share a library and a dtype, got {sorted(kinds)}")
        combine = validate.choice("combine", self.combine, ("concat", "sum"))
        widths = [t.shape[1] for t in tables]
        if combine == "sum" and len(set(widths)) > 1:
            raise ValueError(f"tables must have equal numbers of columns to be added, got {widths}")
        axes = range(len(tables))
        given = axes if self.order is None else self.order
        whole = isinstance(given, Sequence) and all(type(n) is int for n in given)
        order = tuple(given) if whole else ()
        if sorted(order) != list(axes):
            raise ValueError(f"order must be a permutation of the axes, got {shown(self.order)}")
        self._set(
            tables=tables,
            combine=combine,
            order=order,
            flat=validate.boolean("flat", self.flat),
        )

    @property
    def num_axes(self) -> int:  # type: ignore[override]
        """Number of position axes: 1 if ``flat``."""
        return 1 if self.flat else len(self.tables)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The number of columns of the combined table."""
        widths = [int(t.shape[1]) for t in self.tables]
        return sum(widths) if self.combine == "concat" else widths[0]

    @property
    def rows(self) -> int:
        """The number of flat positions: the product of the row counts of all tables."""
        return math.prod(int(t.shape[0]) for t in self.tables)

    def truth(self, positions: Any) -> Truth:
        """Return ``table`` with the coefficients A and B of its rounding error."""
        p = self._positions(np.asarray(positions))
        parts = [np.asarray(astype(part, "float64")) for part in self._parts(p)]
        if self.combine == "concat":
            value = np.concatenate(parts, axis=-1)
            return Truth(value, np.zeros_like(value), np.zeros_like(value))
        total = np.sum(parts, axis=0)
        return Truth(total, np.sum(np.abs(parts), axis=0), np.zeros_like(total))

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        p = as_positions(positions, x=x, integers=True)
        return p if self.flat else self._of_axes(p)

    def _parts(self, p: Positions) -> list[Array]:
        """Return the table rows of each axis, in ``order``."""
        check_place("positions", p.values, "the table", self.tables[0])
        if self.flat:
            at, left = [], p.values
            for table in reversed(self.tables[1:]):
                at.append(left % table.shape[0])
                left = left // table.shape[0]
            index = [left, *reversed(at)]
        else:
            index = [of_axis(p, axis).values for axis in range(self.num_axes)]
        assert self.order is not None
        return [lookup(f"positions of axis {a}", self.tables[a], index[a]) for a in self.order]

    def _lookup(self, p: Positions) -> Array:
        parts = self._parts(p)
        xp: Any = namespace(parts[0])
        if self.combine == "concat":
            return xp.concat(parts, axis=-1)
        total = widen(parts[0])
        for part in parts[1:]:
            total = total + astype(part, total.dtype)
        return astype(total, parts[0].dtype)
