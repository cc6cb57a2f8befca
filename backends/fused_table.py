"""Make sinusoidal tables block by block, in little extra memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import Sinusoidal

from .kernels.numba_loops import Columns
from .kernels.output import checked_shape, empty_floats, foreign_library
from .kernels.phasors import write


class FusedTable:
    """A sinusoidal encoding whose tables are made fast; see :func:`posenc_ref.backends.fused`."""

    def __init__(self, encoding: Sinusoidal, threads: int | None = None) -> None:
        self.encoding = encoding
        self.threads = threads

    def __repr__(self) -> str:
        threads = "" if self.threads is None else f", threads={self.threads}"
        return f"fused({self.encoding!r}{threads})"

    def __call__(
        self,
        positions: Any,
        *,
        dtype: Any = None,
        out: np.ndarray | None = None,
        explain: bool = False,
    ) -> Any:
        """Return ``encoding.table(positions)``: float64, or in ``dtype``, or written to ``out``.

        Host positions give a NumPy array.  For positions of another library, ``encoding.table``
        makes the table in that library.
        """
        encoding = self.encoding
        p = encoding._positions(positions)
        if where := foreign_library(positions, out):
            made = encoding.table(positions, dtype=dtype)
            path = f"no fast path: positions are arrays of {where}"
            return (made, path) if explain else made
        values = np.asarray(p.values, dtype=np.float64)
        shape = (*values.shape, encoding.dim)
        out = empty_floats(shape, dtype) if out is None else checked_shape(out, shape, dtype)
        if not out.flags.c_contiguous:
            raise ValueError("out must be contiguous, got other strides")
        flat = out.reshape(-1, encoding.dim)
        sin_at, cos_at = (_slice(c) for c in encoding.columns())
        by = write(
            values.reshape(-1),
            encoding._turns,
            Columns(flat, cos_at),
            Columns(flat, sin_at),
            offset=encoding.offset,
            amplitude=encoding.scale,
            threads=self.threads,
        )
        if encoding.odd == "zero-pad" and encoding.dim % 2:
            flat[:, -1] = 0
        path = f"{by}: angle addition, {out.dtype}"
        return (out, path) if explain else out


def _slice(columns: np.ndarray) -> slice:
    """Return column numbers with a constant step (1 or 2) as a slice."""
    if columns.size == 0:
        return slice(0, 0)
    step = int(columns[1] - columns[0]) if columns.size > 1 else 1
    return slice(int(columns[0]), int(columns[-1]) + 1, step)
