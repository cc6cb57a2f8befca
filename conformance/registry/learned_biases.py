"""ALiBi, and learned biases: T5, WavLM, and the windows of vision models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posenc_ref import (
    ALiBi,
    BEiTBias,
    ConViTBias,
    GatedBias,
    LeViTBias,
    LogCPB,
    SwinBias,
    T5Bias,
)
from posenc_ref.conformance.exact.digits import exact_bucket, slope
from posenc_ref.conformance.exact.error_numbers import Counted, counted, dot, log, root, sigmoid

from . import each_key, numbers, register
from .dynamic import network


@register(
    ALiBi,
    spec="Press, Smith, Lewis 2021, Train Short, Test Long, arXiv:2108.12409, section 3",
    examples={"alibi-6": ALiBi(6), "alibi-3-encoder-16": ALiBi(3, causal=False, max_bias=16.0)},
)
def alibi(e: ALiBi, i: Any, j: Any) -> Sequence[Any]:
    """Return minus the slope times the distance."""
    slopes = (slope(e.num_heads, h, e.max_bias) for h in range(e.num_heads))
    return [Counted(-m * abs(i - j)) for m in slopes]


_BUCKETS = numbers("t5-few-buckets", 8, 2)


@register(
    T5Bias,
    spec="Raffel et al. 2019, arXiv:1910.10683, section 2.1; mesh_tensorflow, "
    "_relative_position_bucket",
    examples={
        "t5-8": T5Bias(_BUCKETS, num_buckets=8, max_distance=16),
        "t5-8-decoder": T5Bias(_BUCKETS, num_buckets=8, max_distance=20, bidirectional=False),
    },
)
def t5(e: T5Bias, i: Any, j: Any) -> Sequence[Any]:
    """Return the table's row for the bucket of the distance."""
    bucket = exact_bucket(j - i, e.num_buckets, e.max_distance, e.bidirectional)
    return list(e.table.tolist()[bucket])


@register(
    SwinBias,
    spec="Liu et al. 2021, Swin Transformer, arXiv:2103.14030, equation (4); its code",
    examples={"swin-2-by-3": SwinBias(numbers("swin", 3 * 5, 2), window=(2, 3))},
)
def swin(e: SwinBias, i: Any, j: Any) -> Sequence[Any]:
    """Return the learned numbers for the offsets in rows and in columns of a window (h, w)."""
    h, w = e.window
    grid = e.table.reshape(2 * h - 1, 2 * w - 1, -1).tolist()
    return list(grid[i // w - j // w + h - 1][i % w - j % w + w - 1])


@register(
    BEiTBias,
    spec="Bao et al. 2021, BEiT, arXiv:2106.08254; its code",
    examples={"beit-2-by-3": BEiTBias(numbers("beit", 3 * 5 + 3, 2), window=(2, 3))},
)
def beit(e: BEiTBias, i: Any, j: Any) -> Sequence[Any]:
    """Return the row of the table for tokens i and j; for two patches, the same row as Swin.

    The last three rows of the table are for [CLS]: to patch, from patch, to itself.
    """
    h, w = e.window
    rows: list[list[float]] = e.table.tolist()
    if 0 in (i, j):
        return rows[-1] if i == j else rows[-3] if i == 0 else rows[-2]
    (y, x), (v, u) = divmod(i - 1, w), divmod(j - 1, w)
    return rows[(y - v + h - 1) * (2 * w - 1) + x - u + w - 1]


@register(
    LeViTBias,
    spec="Graham et al. 2021, LeViT, arXiv:2104.01136, equation (3); its code",
    examples={"levit-2-by-3": LeViTBias(numbers("levit", 2 * 3, 2), window=(2, 3))},
)
def levit(e: LeViTBias, i: Any, j: Any) -> Sequence[Any]:
    """Return the learned numbers for the distances in rows and in columns."""
    h, w = e.window
    grid = e.table.reshape(h, w, -1).tolist()
    return list(grid[abs(i // w - j // w)][abs(i % w - j % w)])


_LAYERS = (
    numbers("log-cpb-hidden", 4, 2) * 0.25,
    numbers("log-cpb-hidden-bias", 4) * 0.25,
    numbers("log-cpb-output", 2, 4) * 0.25,
)


@register(
    LogCPB,
    spec="Liu et al. 2021, Swin Transformer V2, arXiv:2111.09883, equations (3) and (4); its code",
    examples={
        "log-cpb-2-by-3": LogCPB(*_LAYERS, window=(2, 3)),
        "log-cpb-2-by-3-pretrained": LogCPB(*_LAYERS, window=(2, 3), pretrained_window=(4, 8)),
    },
)
def log_cpb(e: LogCPB, i: Any, j: Any) -> Sequence[Any]:
    """Return 16 times the sigmoid of an MLP of log-spaced offsets."""
    (_, w), sides = e.window, e.pretrained_window or e.window

    def spaced(offset: int, n: int) -> Counted:
        size = log(1 + counted(8 * abs(offset)) / (n - 1)) / log(8)
        return size if offset >= 0 else -size

    x = [spaced(i // w - j // w, sides[0]), spaced(i % w - j % w, sides[1])]
    values = network(x, (e.hidden, e.output), (e.hidden_bias, None))
    return [16 * sigmoid(y) for y in values]


@register(
    ConViTBias,
    spec="d'Ascoli et al. 2021, ConViT, arXiv:2103.10697, section 3; its code, GPSA",
    examples={
        "convit-3-by-2": ConViTBias(
            numbers("convit-weight", 2, 3),
            numbers("convit-offset", 2),
            numbers("convit-gate", 2),
            window=(3, 2),
        )
    },
)
def convit(e: ConViTBias, i: Any, j: Any) -> Sequence[Any]:
    """Return ``w1 dx + w2 dy + w3 (dx**2 + dy**2) + b`` with the weights of each head."""
    w = e.window[1]
    dx, dy = j % w - i % w, j // w - i // w
    parts = (dx, dy, dx**2 + dy**2)
    return [
        dot(row, parts) + c for row, c in zip(e.weight.tolist(), e.proj_bias.tolist(), strict=True)
    ]


_GATED_BUCKETS = T5Bias(numbers("gated-buckets", 8, 2), num_buckets=8, max_distance=16)


@register(
    GatedBias,
    spec="Chen et al. 2021, WavLM, arXiv:2110.13900, section III",
    examples={
        "wavlm": GatedBias(
            _GATED_BUCKETS,
            numbers("gated-weight", 2, 4) * 0.25,
            numbers("gated-offset", 2) * 0.25,
            numbers("gated-scale", 2),
        )
    },
)
@each_key
def gated(e: GatedBias, h: int, q: Any, k: Any, i: int, j: int) -> Any:
    """Return the logit plus the learned number of the bucket times a gate.

    The gate is computed from the query.
    """
    a, r = (
        sigmoid(dot(row, q) + c)
        for row, c in zip(e.weight.tolist(), e.linear_bias.tolist(), strict=True)
    )
    gate = a * (e.scale.tolist()[h] * r - 1) + 2
    return dot(q, k) / root(e.head_dim) + gate * t5(e.bias, i, j)[h]
