"""Slopes and buckets in 50-digit mpmath, from the fields of an encoding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .digits import exact_bucket, mpmath
from .numbers import Number, Real, exactly

Inputs = Mapping[str, Any]


def slope(num_heads: int, head: int, max_bias: float) -> Number:
    """The slope of head 0, 1, ...

    The series of the power of two below, then every second one of the series above it.
    """
    mp = mpmath().mp
    below = 1
    while 2 * below <= num_heads:
        below *= 2
    if head < below:
        return mp.power(2, -mp.mpf(max_bias) * (head + 1) / below)
    return mp.power(2, -mp.mpf(max_bias) * (2 * (head - below) + 1) / (2 * below))


def slopes(e: Any, inputs: Inputs) -> Real:
    """The slopes of ``num_heads`` heads."""
    n = inputs["num_heads"]
    return exactly([slope(n, h, e.max_bias) for h in range(n)])


def _bucket(e: Any, r: int) -> int:
    return exact_bucket(r, e.num_buckets, e.max_distance, e.bidirectional)


def bucket(e: Any, inputs: Inputs) -> np.ndarray:
    """The bucket of every relative position."""
    r = inputs["relative_position"]
    return np.array([_bucket(e, n) for n in r.ravel().tolist()]).reshape(r.shape)
