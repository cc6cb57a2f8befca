"""Wrong positions of the shards of context parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def chunks_of(bounds: Any, size: int, rank: int, which: Any, chunks: Sequence[int]) -> np.ndarray:
    """Return the positions of a rank; its first or second ``chunks`` start by another length."""
    lengths = np.diff(bounds) // (2 * size)
    parts = []
    for chunk in lengths:
        for i, number in enumerate((rank, 2 * size - 1 - rank)):
            start = number * (int(which(lengths)) if i in chunks else chunk)
            parts.append(start + np.arange(chunk))
    return np.concatenate(parts)
