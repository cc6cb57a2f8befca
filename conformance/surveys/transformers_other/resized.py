"""A learned grid of image positions as models use it at every size: resized to the image."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from posenc_ref import Table, resize_matrix
from posenc_ref.accuracy import Truth


@dataclass(frozen=True, eq=False, repr=False)
class Resized(Table, abstract=True):
    """``resize_table`` of a grid (h * w, dim) to the grid that is asked for.

    A sums the absolute products; B is the place on each axis times what is reached there, because
    libraries compute places in float32.  At its own size nothing is computed, and rows are
    bit-equal, unless ``always``.
    """

    weight: np.ndarray
    own: tuple[int, int]
    _: KW_ONLY
    mode: str = "bicubic"
    antialias: bool = False
    align_corners: bool = False
    always: bool = False

    num_axes = 2
    integers = True

    @property
    def dim(self) -> int:  # type: ignore[override]
        """Size of a row."""
        return int(self.weight.shape[1])

    def truth(self, positions: Any) -> Truth:
        """The rows of a whole grid, (2, height * width): the last place tells its size."""
        rows, columns = np.asarray(positions)
        size = int(rows.max()) + 1, int(columns.max()) + 1
        table = self.weight.astype(np.float64)
        if size == self.own and not self.always:
            found = Truth(table, np.zeros_like(table), np.zeros_like(table))
        else:
            found = self._resized(table.reshape(*self.own, -1), size)
        at = rows * size[1] + columns
        return Truth(found.value[at], found.terms[at], found.angle[at])

    def _resized(self, table: np.ndarray, size: tuple[int, int]) -> Truth:
        h, w = (
            resize_matrix(
                n, m, mode=self.mode, antialias=self.antialias, align_corners=self.align_corners
            )
            for n, m in zip(self.own, size, strict=True)
        )

        def mix(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            mixed = np.einsum("ah,bw,hwd->abd", a, b, np.abs(table))
            return np.asarray(mixed.reshape(-1, self.dim))

        value = np.einsum("ah,bw,hwd->abd", h, w, table).reshape(-1, self.dim)
        places = [(np.arange(m) + 1) * n / m + 1 for n, m in zip(self.own, size, strict=True)]
        near = (_beside(h != 0), _beside(w != 0))  # a place that moves reaches the next as well
        moved = np.add.outer(*places).reshape(-1, 1) * (self.mode != "nearest")
        return Truth(value, mix(abs(h), abs(w)), mix(*near) * moved)


def _beside(taps: np.ndarray) -> np.ndarray:
    """The taps, and the points beside them."""
    wide = np.pad(taps, ((0, 0), (1, 1)))
    return np.asarray(wide[:, :-2] | wide[:, 1:-1] | wide[:, 2:])
