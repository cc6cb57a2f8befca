"""Parts of the formulas of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.oracle.scores import Scored

#: The terms of logits by name.
Terms = dict[str, np.ndarray]


def content(call: Scored) -> np.ndarray:
    """Return ``q . k * scale`` (B, H, Q, K)."""
    return np.asarray(call.q @ np.swapaxes(call.k, -1, -2) * call.scale)


def of_rows(table: np.ndarray) -> np.ndarray:
    """Return a table (rows, d) or (H, rows, d) transposed for ``x (B, H, S, d) @ table``."""
    return np.swapaxes(table, -1, -2)


def at_rows(by_row: np.ndarray, row: Any) -> np.ndarray:
    """Return ``by_row[..., i, row[i, j]]`` for rows (Q, K).

    Negative rows count from the end. A row past the end, or before the first, gives NaN.
    """
    n = by_row.shape[-1]
    at = np.asarray(row).astype(int)
    rows = np.broadcast_to(at % n, (by_row.shape[-2], at.shape[-1]))
    found = np.take_along_axis(
        by_row, np.broadcast_to(rows, (*by_row.shape[:-1], rows.shape[-1])), -1
    )
    return np.where((at >= -n) & (at < n), found, np.nan)


def offsets(call: Scored, s: Steps, name: str = "the offset query - key") -> Any:
    """Return query - key (Q, K)."""
    q_at, k_at = call.grid
    r = s.number(name, q_at - k_at)
    return s.pick(
        "the order of the offsets", r,
        ("wrong-row", "is the opposite one: offset r is taken for K - 1 - r, as where a table of "
         "distances ascends, not descends", call.k.shape[2] - 1 - r),
        right="Build the distances from K - 1 down to 0.",
    )  # fmt: skip
