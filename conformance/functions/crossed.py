"""Calls of functions of positions in which every two of their factors meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.harness.crossing import Crossing, Row


def packed_crossing() -> Crossing:
    """Return the factors of packed documents: their number, their lengths, and empty ones."""
    return Crossing({
        "documents": (1, 2, 3, 6),
        "lengths": ("equal", "growing", "of one token", "long"),
        "empty documents": ("none", "first", "last", "between", "two in a row"),
    }, optional=("empty documents",))  # fmt: skip


def packed_row(row: Row) -> tuple[Any, ...]:
    """Return the lengths of documents."""
    count = row["documents"]
    sizes = {
        "equal": [4] * count,
        "growing": [2 + 3 * i for i in range(count)],
        "of one token": [1] * count,
        "long": [70 + 65 * (i % 2) for i in range(count)],
    }[row["lengths"]]
    at = (count + 1) // 2
    where = {"none": [], "first": [0], "last": [count], "between": [at], "two in a row": [at, at]}
    return (np.insert(np.array(sizes, np.int64), where[row["empty documents"]], 0),)


def _padded(row: Row) -> bool:
    """Return whether a row has tokens enough for its padding."""
    return bool(row.get("tokens", 9) > 3 or row.get("padding", "nowhere") == "nowhere")


def mask_crossing() -> Crossing:
    """Return the factors of a mask: its rows, its tokens, and where padding is."""
    return Crossing({
        "rows": (1, 2, 5, 9),
        "tokens": (1, 4, 5, 9, 33, 130),  # also as many as rows
        "padding": ("nowhere", "on the left", "on the right", "between", "on both sides"),
    }, _padded, optional=("padding",))  # fmt: skip


def mask_row(row: Row) -> tuple[Any, ...]:
    """Return a mask; rows have different padding."""
    b, n, where = row["rows"], row["tokens"], row["padding"]
    index = np.arange(n)
    mask = np.ones((b, n), np.int64)
    for i in range(b if where != "nowhere" else 0):
        left, right = 1 + i % (n // 2), n - 1 - (2 * i) % (n // 2)
        mask[i] = {
            "on the left": index >= left,
            "on the right": index < right,
            "between": (index < left) | (index >= min(left + 1 + i % 2, n - 1)),
            "on both sides": (index >= left) & (index < right),
        }[where]
    return (mask,)
