"""Biases in 50-digit mpmath, entry by entry, from the JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from posenc_ref.conformance.exact import exact_bucket, mpmath

from .bits import read_array
from .exact_numbers import Json, Number, Real, exactly, objects, sizes

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


def slopes(e: Json, inputs: Inputs) -> Real:
    """The slopes of ``num_heads`` heads."""
    n = inputs["num_heads"]
    return exactly([slope(n, h, e["max_bias"]) for h in range(n)])


def bias(e: Json, inputs: Inputs) -> Real:
    """A = |value|; causal ALiBi is judged up to a constant per row, relative to the query's key."""
    q_len, k_len = inputs["q_len"], inputs["k_len"]
    rows = range(k_len - q_len, k_len)
    alibi = e["encoding"] == "ALiBi"
    heads = e["num_heads"] if alibi else e["table"]["shape"][1]
    value = objects((heads, q_len, k_len))
    for h in range(heads):
        m = slope(heads, h, e["max_bias"]) if alibi else 0
        for i, at in enumerate(rows):
            for j in range(k_len):
                value[h, i, j] = -m * abs(at - j) if alibi else _t5(e, j - at, h)
    causal = e["causal"] if alibi else not e["bidirectional"]
    judged = np.array([[j <= at or not causal for j in range(k_len)] for at in rows])
    own = np.array(list(rows)) if alibi and causal else None
    return Real(value, sizes(value), objects(value.shape), judged, own)


def _t5(e: Json, r: int, head: int) -> Number:
    return mpmath().mp.mpf(read_array(e["table"])[_bucket(e, r), head].item())


def _bucket(e: Json, r: int) -> int:
    return exact_bucket(r, e["num_buckets"], e["max_distance"], e["bidirectional"])


def bucket(e: Json, inputs: Inputs) -> np.ndarray:
    """The bucket of every relative position."""
    r = inputs["relative_position"]
    return np.array([_bucket(e, n) for n in r.ravel().tolist()]).reshape(r.shape)
