"""Table encodings: one vector per position, added to the embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._namespace import Array, Namespace, astype, device_of, namespace
from ._positions import Positions, as_positions, broadcast_axes
from ._validate import check_x
from .accuracy import Truth
from .encoding import Encoding
from .scoring import dot, widen


class Table(Encoding, abstract=True):
    """What every table encoding can do; a form supplies ``dim`` and ``_rows``."""

    family = "table"
    integers = False  # whether positions must be integers
    dim: int

    def _rows(self, p: Positions, xp: Namespace, device: Any) -> Array:
        """The vectors of checked positions, (..., dim), as an array of ``xp`` on ``device``."""
        raise NotImplementedError(f"{type(self).__name__} defines no rows")

    def _positions(self, positions: Any, x: Array | None = None) -> Positions:
        return as_positions(positions, x=x, integers=self.integers)

    def truth(self, positions: Any) -> Truth:
        """The table at host ``positions`` with A and B of the error unit, NumPy float64.

        By default A = 0 and B = 0: rows that are looked up are bit-equal.
        """
        table: Any = self
        value = np.asarray(table.table(np.asarray(positions)), dtype=np.float64)
        return Truth(value, np.zeros_like(value), np.zeros_like(value))

    def add(self, x: Array, positions: Any) -> Array:
        """``x + table(positions)`` for x (..., S, dim), rounded to x's dtype at the end.

        positions are (S,), (B, S) with B on x's first axis, or have the axes ``x.shape[:-1]``.
        """
        check_x(x, self.dim, "dim")
        p = self._positions(positions, x)
        index = broadcast_axes(p, x)
        wide = widen(x)
        rows = astype(self._rows(p, namespace(x), device_of(x)), wide.dtype)
        return astype(wide + (rows[index] if index else rows), x.dtype)

    def scores(
        self, q: Array, k: Array, q_positions: Any, k_positions: Any, scale: float | None = None
    ) -> Array:
        """``(q + PE) . (k + PE) * scale``: q and k are embeddings, projections the identity."""
        scale = self.dim**-0.5 if scale is None else scale
        return dot(self.add(q, q_positions), self.add(k, k_positions), scale)
