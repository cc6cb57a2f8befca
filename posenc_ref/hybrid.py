"""Several tables combined: added or concatenated."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from . import _validate as validate
from ._namespace import Array, DType, Namespace, astype, device_of, finish, namespace, send, widen
from ._positions import Positions, as_positions
from ._text import shown
from .accuracy import Truth
from .table import Table


@dataclass(frozen=True, eq=False, repr=False)
class Hybrid(Table):
    """The sum or concatenation of several table encodings.

    Formula
        ``PE(p) = PE_1(p) + PE_2(p) + ...`` or ``[PE_1(p), PE_2(p), ...]``.
    Source
        SpeechT5's encoder prenet adds a sinusoid to the output of a convolution.  No known model
        concatenates learned and fixed columns.
    Error unit (see :mod:`posenc_ref.accuracy`)
        "sum": A = the sum of the A of all parts, B = the sum of their B; here a learned part has
        A = |value|.  "concat": each column has the A and B of its part.

    Parameters
    ----------
    parts : sequence of table encodings
        All parts take the same positions.  For "sum" they must have the same ``dim``.
    combine : {"sum", "concat"}

    Raises
    ------
    TypeError, ValueError
        A part is not a table, the parts differ in position axes or (for "sum") in ``dim``, or a
        part refuses the positions.
    """

    parts: tuple[Table, ...]
    _: KW_ONLY
    combine: str = "sum"

    def __post_init__(self) -> None:
        parts = tuple(self.parts) if isinstance(self.parts, tuple | list) else ()
        if len(parts) < 2 or not all(isinstance(part, Table) for part in parts):
            raise TypeError(f"parts must be two or more table encodings, got {shown(self.parts)}")
        combine = validate.choice("combine", self.combine, ("sum", "concat"))
        dims = [part.dim for part in parts]
        if combine == "sum" and len(set(dims)) > 1:
            raise ValueError(f"parts must have the same dim to be added, got {dims}")
        if len({part.num_axes for part in parts}) > 1:
            raise ValueError(
                f"parts must have the same position axes, got {[part.num_axes for part in parts]}"
            )
        self._set(parts=parts, combine=combine)

    @property
    def num_axes(self) -> int:  # type: ignore[override]
        """Number of position axes."""
        return self.parts[0].num_axes

    @property
    def integers(self) -> bool:  # type: ignore[override]
        """Whether positions must be integers: True if one part is a lookup."""
        return any(part.integers for part in self.parts)

    @property
    def dim(self) -> int:  # type: ignore[override]
        """The number of columns of the combined table."""
        dims = [part.dim for part in self.parts]
        return sum(dims) if self.combine == "concat" else dims[0]

    @property
    def properties(self) -> frozenset[str]:
        """The properties listed in :attr:`Table.properties` that hold.

        For "concat" these are the properties that all parts share; for "sum" there are none.
        """
        return (
            frozenset.intersection(*(part.properties for part in self.parts))
            if self.combine == "concat"
            else frozenset()
        )

    def table(self, positions: Any, *, dtype: DType = None) -> Array:
        """Return the rows PE(p) (..., dim), float64 unless ``dtype=`` is given.

        They have the library and device of the first part that returns no NumPy array, such as a
        learned table on a GPU.
        """
        parts: list[Any] = list(self.parts)
        rows = [part.table(positions) for part in parts]
        home = next((r for r in rows if not isinstance(r, np.ndarray)), rows[0])
        there = [send(r, namespace(home), device_of(home)) for r in rows]
        return finish(self._combined(there), dtype)

    def grid_positions(self, height: int, width: int) -> np.ndarray:
        """Return the positions of the patches of an image, as the first part defines them."""
        return self.parts[0].grid_positions(height, width)

    def truth(self, positions: Any) -> Truth:
        """Return the table with the coefficients A and B of its rounding error."""
        truths = [part.truth(positions) for part in self.parts]
        if self.combine == "concat":
            value, terms, angle = (
                np.concatenate([getattr(t, name) for t in truths], axis=-1)
                for name in ("value", "terms", "angle")
            )
            sizes = [
                np.broadcast_to(t.amplitude, part.dim)
                for t, part in zip(truths, self.parts, strict=True)
            ]
            return Truth(value, terms, angle, np.concatenate(sizes))
        counted = [np.maximum(t.terms, np.abs(t.value)) for t in truths]
        return Truth(
            np.sum([t.value for t in truths], axis=0),
            np.sum(counted, axis=0),
            np.sum([t.angle for t in truths], axis=0),
            np.asarray(sum(t.amplitude for t in truths)),
        )

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        for part in self.parts:
            part._positions(positions, x)
        return as_positions(positions, x=x, integers=self.integers)

    def _combined(self, rows: list[Array]) -> Array:
        first = widen(rows[0])
        rest = [astype(part, first.dtype) for part in rows[1:]]
        if self.combine == "concat":
            xp: Any = namespace(first)
            return xp.concat([first, *rest], axis=-1)
        return sum(rest, start=first)

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        # Each part converts positions by itself: integers may have stayed on a device without
        # float64.
        own = [part._positions(p.values) for part in self.parts]
        rows = [part._rows(at, xp, device) for part, at in zip(self.parts, own, strict=True)]
        return self._combined(rows)
