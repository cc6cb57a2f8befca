"""Biases whose size follows what the tokens hold: WavLM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import GatedBias, T5Bias
from posenc_ref.conformance.exact.digits import exact_bucket
from posenc_ref.conformance.exact.error_numbers import dot, root, sigmoid

from . import numbers, register

_BUCKETS = T5Bias(numbers("gated-buckets", 8, 2), num_buckets=8, max_distance=16)


@register(
    GatedBias,
    spec="Chen et al. 2021, WavLM, arXiv:2110.13900, section III",
    examples={
        "wavlm": GatedBias(
            _BUCKETS,
            numbers("gated-weight", 2, 4) * 0.25,
            numbers("gated-offset", 2) * 0.25,
            numbers("gated-scale", 2),
        )
    },
)
def gated(e: GatedBias, h: int, q: Any, keys: Any, i: Any, at: Any) -> Sequence[Any]:
    """A number for each bucket, times two gates of the query."""
    a, r = (
        sigmoid(dot(row, q) + c)
        for row, c in zip(e.weight.tolist(), e.linear_bias.tolist(), strict=True)
    )
    gate = 2 + a * (e.scale.tolist()[h] * r - 1)
    buckets = (exact_bucket(j - i, e.bias.num_buckets, e.bias.max_distance, True) for j in at)
    table = e.bias.table.tolist()
    scale = 1 / root(e.head_dim)
    return [
        dot(q, k) * scale + gate * table[bucket][h] for k, bucket in zip(keys, buckets, strict=True)
    ]
