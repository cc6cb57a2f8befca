"""Parts of the formulas of biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.steps import Steps


def of_heads(values: Any) -> np.ndarray:
    """Return one number for each head as (H, 1, 1)."""
    return np.asarray(values, np.float64)[:, None, None]


def looked_up(s: Steps, table: Any, row: Any) -> np.ndarray:
    """Return the bias (H, Q, K) of rows (Q, K) of a table; rows wrap round."""
    rows = s.array("the table", table, ("row", "head"))
    return np.moveaxis(rows[np.asarray(row).astype(int) % len(rows)], -1, 0)
