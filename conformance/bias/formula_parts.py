"""Parts of the formulas of biases."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.steps import Steps


def of_heads(values: Any) -> np.ndarray:
    """Return one number for each head as (H, 1, 1)."""
    return np.asarray(values, np.float64)[:, None, None]


def offset(s: Steps, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return the offsets (Q, K) of queries (Q, 1) and keys (1, K)."""
    r = s.number("the offset query - key", q - k)
    n_q, n_k, code = max(q.size, 1), max(k.size, 1), "position-scale"
    return np.asarray(s.pick(
        "the offset in a call with Q queries and K keys",
        r,
        (code, "is divided by K - 1", r / max(n_k - 1, 1)),
        (code, "is divided by K", r / n_k),
        (code, "is divided by Q", r / n_q),
        (code, "is divided by Q - 1", r / max(n_q - 1, 1)),
        (code, "is divided by the largest offset of the call",
         r / max(np.abs(r).max(initial=0), 1)),
        right="Use the plain offset query - key: it does not depend on the size of the call."),
    )  # fmt: skip


def distances(s: Steps, r: Any) -> np.ndarray:
    """Return the distances |r| of offsets r (Q, K)."""
    d = np.abs(r)
    largest = max(s.sizes.bounds, default=0)
    narrow = (
        (
            "position-range",
            f"is stored in {kind}, which wraps round",
            lambda kind=kind: np.asarray(d).astype(kind).astype(np.int64),
        )
        for kind in ("int8", "uint8", "int16")
        if largest >= np.iinfo(kind).max
    )
    return np.asarray(s.pick(
        "the distance", d, *narrow,
        right="Hold the distance in integers of at least 32 bits."), np.float64)  # fmt: skip


def looked_up(s: Steps, table: Any, row: Any) -> np.ndarray:
    """Return the bias (H, Q, K) of rows (Q, K) of a table; negative rows count from its end.

    A row past the end, or before the first, gives NaN.
    """
    rows = s.array("the table", table, ("row", "head"))
    at = np.asarray(row).astype(int)
    inside = (at >= -len(rows)) & (at < len(rows))
    return np.moveaxis(np.where(inside[..., None], rows[at % len(rows)], np.nan), -1, 0)
