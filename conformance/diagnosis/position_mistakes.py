"""Known mistakes about positions, as the maps that several families share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: Where queries are put by mistake: the message, and their positions from (q_len, k_len).
QUERIES: tuple[tuple[str, Callable[[int, int], np.ndarray]], ...] = (
    (
        "queries are not aligned with the last keys: query i sits at key i",
        lambda q_len, k_len: np.arange(q_len),
    ),
    (
        "queries are not aligned with the last keys: every query sits at the last key",
        lambda q_len, k_len: np.full(q_len, k_len - 1),
    ),
)
REVERSED_KEYS = "keys stand in the reverse order"


def heads(x: np.ndarray) -> np.ndarray:
    """Return the head index of every token of x (B, H, S, D), taken for its position."""
    return np.broadcast_to(np.arange(x.shape[1])[:, None], x.shape[:-1])


def rows(x: np.ndarray) -> np.ndarray:
    """Return the batch index of every token of x (B, H, S, D), taken for its position."""
    return np.broadcast_to(np.arange(x.shape[0])[:, None, None], x.shape[:-1])
