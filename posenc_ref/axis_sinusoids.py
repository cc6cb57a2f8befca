"""Sinusoidal tables over several position axes: one table per axis, concatenated."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from . import _validate as validate
from ._cached import cached_property
from ._namespace import Array, Namespace, from_host
from ._positions import Positions, as_positions
from .accuracy import Truth
from .angles import MAX_POSITION
from .sinusoidal import Sinusoidal
from .table import PAIRED, ComputedTable, of_axis

LAYOUTS = ("concat", "interleaved", "grouped")
_LAYOUTS = {"half": "concat", "split": "concat"}
_ORDERS = {"yx": "hw", "xy": "wh", "zyx": "thw"}


class AxisSinusoids(ComputedTable, abstract=True):
    """Base class of the sinusoidal tables of several axes.

    A subclass defines

    * ``axes``: one letter for each axis, in the order of the coordinates in positions (A, ...);
    * ``axis_order``: the same letters in the order of the columns of the table;
    * ``_sections``: the number of columns of each axis;
    * ``layout``, ``first``, ``base`` and ``denominator``, as in :class:`Sinusoidal`.

    Each axis has its own :class:`Sinusoidal` table, which gives the error coefficients A and B of
    its columns.
    """

    axes: str
    axis_order: str
    layout: str
    first: str
    base: float
    denominator: str | float

    def _sections(self) -> tuple[int, ...]:
        """Return the number of columns of each axis, in the order of ``axes``."""
        raise NotImplementedError(f"{type(self).__name__} defines no sections")

    def _of_axis(self) -> dict[str, Any]:
        """Return other :class:`Sinusoidal` fields for the tables of all axes; none by default."""
        return {}

    def _base(self, axis: int) -> float:
        """Return the base of one axis."""
        return self.base

    @property
    def num_axes(self) -> int:  # type: ignore[override]
        """Number of position axes."""
        return len(self.axes)

    @property
    def properties(self) -> frozenset[str]:
        """The properties listed in :attr:`Table.properties` that hold for sinusoidal tables."""
        return PAIRED

    def parts(self) -> tuple[tuple[int, Sinusoidal], ...]:
        """Return pairs (axis, its table), in the order of ``axis_order``."""
        return self._parts

    @cached_property
    def _parts(self) -> tuple[tuple[int, Sinusoidal], ...]:
        layout = "interleaved" if self.layout == "interleaved" else "concat"
        more: dict[str, Any] = {"layout": layout, "first": self.first, **self._of_axis()}
        more["denominator"] = self.denominator
        widths = self._sections()
        return tuple(
            (axis, Sinusoidal(widths[axis], base=self._base(axis), **more))
            for axis in map(self.axes.index, self.axis_order)
        )

    def columns(self) -> np.ndarray:
        """Return the order of the columns: ``table = concatenated[..., columns()]``.

        ``concatenated`` is the concatenation of the tables of :meth:`parts`.  The layout "grouped"
        puts the sines of all axes before the cosines of all axes, or the cosines first with
        ``first="cos"``; the other layouts keep the order.
        """
        order = np.arange(self.dim)
        if self.layout != "grouped":
            return order
        widths = [part.dim for _, part in self.parts()]
        starts = np.cumsum([0, *widths[:-1]])
        halves = [
            order[start + half * width // 2 :][: width // 2]
            for half in (0, 1)
            for start, width in zip(starts, widths, strict=True)
        ]
        return np.concatenate(halves)

    def frequencies(self) -> tuple[np.ndarray, ...]:
        """Return the frequencies (radians per position) of each axis in ``axis_order``."""
        return tuple(part.frequencies() for _, part in self.parts())

    def truth(self, positions: Any) -> Truth:
        """Return the table with the coefficients A and B of its rounding error."""
        positions = np.asarray(positions)
        truths = [part.truth(positions[axis]) for axis, part in self.parts()]
        order = self.columns()
        value, terms, angle = (
            np.concatenate([getattr(t, name) for t in truths], axis=-1)[..., order]
            for name in ("value", "terms", "angle")
        )
        amplitude = np.concatenate([t.amplitude for t in truths])[order]
        return Truth(value, terms, angle, amplitude)

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        fastest = max(abs(part.position_scale) for _, part in self.parts())
        return self._of_axes(as_positions(positions, x=x, largest=MAX_POSITION / max(1.0, fastest)))

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        parts = [part._rows(of_axis(p, axis), xp, device) for axis, part in self.parts()]
        rows = xp.concat(parts, axis=-1)
        if self.layout != "grouped":
            return rows
        return xp.take(rows, from_host(self.columns(), xp, device), axis=-1)

    def _check(self) -> None:
        """Check and store the fields that all subclasses have."""
        orders = tuple(map("".join, permutations(self.axes)))
        self._set(
            axis_order=validate.choice("axis_order", self.axis_order, orders, _ORDERS),
            layout=validate.choice("layout", self.layout, LAYOUTS, _LAYOUTS),
        )
        one = dict(self.parts())[0]
        self._set(first=one.first, base=one.base, denominator=one.denominator)
