"""Functions of x-transformers."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import ALiBi, LinearScaling, RoPE, Sinusoidal, T5Bias
from posenc_ref.conformance.harness.implementation import Implementation

from .library import TABLES, VECTORS, LibraryFunction, functions_of


def functions() -> list[LibraryFunction]:
    """Return rotations, a sinusoidal table, ALiBi and T5's buckets and bias."""
    function = functions_of("x-transformers", "x_transformers.py: ")
    rope = partial(RoPE, 64, layout="interleaved")
    apply = "RotaryEmbedding, apply_rotary_pos_emb"
    bucket = "RelativePositionBias._relative_position_bucket"
    t5 = T5Bias(np.zeros((32, 1)))
    return [
        function("RotaryEmbedding", apply, _rotary, rope(), fast=True, dtypes=VECTORS),
        function("RotaryEmbedding, half of the head", apply, partial(_rotary, rotary_dim=32),
                 rope(rotary_dim=32), dtypes=VECTORS),
        function("RotaryEmbedding, interpolated", apply, partial(_rotary, interpolation_factor=4.0),
                 rope(scaling=LinearScaling(4.0))),
        function("RotaryEmbedding, xPos", apply,
                 partial(_rotary, use_xpos=True), None, unknown="as in xPos",
                 says="queries are multiplied by scale ** ((p - m // 2) / 512), which is no "
                      "rotation; m is the largest position of the call"),
        function("ScaledSinusoidalEmbedding", "ScaledSinusoidalEmbedding", _sinusoidal,
                 Sinusoidal(64, layout="concat", scale=64**-0.5), dtypes=TABLES),
        function("AlibiPositionalBias, slopes", "AlibiPositionalBias._get_slopes",
                 partial(_alibi, "slopes"), ALiBi(12), dtypes=TABLES),
        function("AlibiPositionalBias", "AlibiPositionalBias.forward", _alibi,
                 ALiBi(12, causal=False), dtypes=TABLES),
        function("RelativePositionBias, buckets", bucket, _relative, t5, dtypes=TABLES),
        function("RelativePositionBias, causal buckets", bucket, partial(_relative, causal=True),
                 t5.replace(bidirectional=False), dtypes=TABLES),
        function("RelativePositionBias", "RelativePositionBias.forward",
                 partial(_relative, surface="bias"), t5, dtypes=TABLES),
    ]  # fmt: skip


def _rotary(*, rotary_dim: int = 64, **settings: Any) -> Implementation:
    """Adapt `RotaryEmbedding`: interleaved pairs in the first `rotary_dim` channels."""
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    module = RotaryEmbedding(rotary_dim, **settings)

    def apply(x: Any, positions: Any) -> Any:
        angles, scale = module(positions)
        return apply_rotary_pos_emb(x, angles, scale)

    again = partial(_rotary, rotary_dim=rotary_dim, **settings)
    return Implementation(
        apply, "apply", "x-transformers", backend="torch", head_dim=64, factory=again
    )


def _sinusoidal() -> Implementation:
    """Adapt an untrained `ScaledSinusoidalEmbedding`: sines, then cosines, times dim ** -0.5."""
    import torch
    from x_transformers.x_transformers import ScaledSinusoidalEmbedding

    module = ScaledSinusoidalEmbedding(64)

    def table(positions: Any) -> Any:
        with torch.no_grad():
            return module(torch.zeros(1, len(positions), 64), pos=positions)

    return Implementation(
        table, "table", "x-transformers", backend="torch", head_dim=64, factory=_sinusoidal
    )


def _alibi(surface: str = "bias") -> Implementation:
    """Adapt `AlibiPositionalBias`: -slope * |i - j|, queries at the end of the keys."""
    from x_transformers.x_transformers import AlibiPositionalBias

    module = AlibiPositionalBias(heads=12)
    slopes = lambda num_heads: AlibiPositionalBias(heads=num_heads).slopes.flatten()  # noqa: E731
    return Implementation(
        slopes if surface == "slopes" else lambda q_len, k_len: module(q_len, k_len),
        surface, "x-transformers", ALiBi(12, causal=False), backend="torch", num_heads=12,
        factory=partial(_alibi, surface),
    )  # fmt: skip


def _relative(*, surface: str = "bucket", causal: bool = False) -> Implementation:
    """Adapt `RelativePositionBias`: T5's bias times 8, the square root of head_dim 64."""
    import torch
    from x_transformers.x_transformers import RelativePositionBias

    module = RelativePositionBias(8.0, causal, 32, 128, 4)
    bucket = partial(
        module._relative_position_bucket, causal=causal, num_buckets=32, max_distance=128
    )

    def bias(q_len: int, k_len: int) -> Any:
        with torch.no_grad():
            return module(q_len, k_len)

    table = module.relative_attention_bias.weight.detach().numpy() * 8.0
    return Implementation(
        bucket if surface == "bucket" else bias, surface, "x-transformers",
        T5Bias(table, bidirectional=not causal), backend="torch", num_heads=4,
    )  # fmt: skip
