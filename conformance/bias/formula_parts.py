"""Parts of the formulas of biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.steps import Steps


def of_heads(values: Any) -> np.ndarray:
    """Return one number for each head as (H, 1, 1)."""
    return np.asarray(values, np.float64)[:, None, None]


def distances(s: Steps, r: Any) -> np.ndarray:
    """Return the distances |r| of offsets r (Q, K)."""
    d = np.abs(r)
    names = [
        k for k in ("int8", "uint8", "int16") if max(s.sizes.bounds, default=0) >= np.iinfo(k).max
    ]
    narrow = (
        (
            "position-range",
            f"is stored in {k}, which wraps round",
            np.asarray(d).astype(k).astype(np.int64),
        )
        for k in names
    )
    return np.asarray(s.pick(
        "the distance", d, *narrow,
        right="Hold the distance in integers of at least 32 bits."), np.float64)  # fmt: skip


def looked_up(s: Steps, table: Any, row: Any) -> np.ndarray:
    """Return the bias (H, Q, K) of rows (Q, K) of a table; rows wrap round."""
    rows = s.array("the table", table, ("row", "head"))
    return np.moveaxis(rows[np.asarray(row).astype(int) % len(rows)], -1, 0)
