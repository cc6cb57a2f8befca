"""Identify logits over the patches of a whole image: MViTv2, SAM and biases of windows."""

from __future__ import annotations

import numpy as np

from posenc_ref import DecomposedRelative
from posenc_ref.conformance.bias.cases import Ruler
from posenc_ref.relative import relative_index

from .windows import entries, sides


def decomposed(vectors: np.ndarray, dtype: str, ruler: Ruler) -> DecomposedRelative | None:
    """Return the tables whose sum each pair of patches has, or None if there are none.

    ``vectors`` (d, N, N) hold the factor on every channel of the query.
    """
    kind = np.float64 if dtype == "float64" else np.float32
    for h, w in sides(vectors.shape[1]):
        table = entries(vectors, np.asarray(relative_index((h, w))), ruler)
        if table is None:
            continue
        plane = table.reshape(2 * h - 1, 2 * w - 1, -1)
        # Logits do not show a constant that one table has more and the other less.
        half = plane[h - 1, w - 1] / 2
        rows, columns = plane[:, w - 1] - half, plane[h - 1] - half
        sizes = np.abs(rows[:, None]) + np.abs(columns) + np.abs(half)
        if not ruler.differ(plane, rows[:, None] + columns, sizes).any():
            return DecomposedRelative(rows.astype(kind), columns.astype(kind), grid=(h, w))
    return None
