"""Encodings of x-transformers, each with what it declares."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import ALiBi, LinearScaling, RoPE, Sinusoidal, T5Bias
from posenc_ref.conformance.harness.implementation import Implementation

from .library import TABLES, VECTORS, LibraryFunction, functions_of


def functions() -> list[LibraryFunction]:
    """Return rotations, a table, ALiBi and T5's buckets."""
    function = functions_of("x-transformers", "x_transformers.py: ")
    rope = partial(RoPE, 64, layout="interleaved")
    apply, bucket = (
        "RotaryEmbedding, apply_rotary_pos_emb",
        "RelativePositionBias._relative_position_bucket",
    )
    t5 = T5Bias(np.zeros((32, 1)))
    return [
        function("RotaryEmbedding", apply, rotary, rope(), fast=True, dtypes=VECTORS),
        function("RotaryEmbedding, half of the head", apply, partial(rotary, rotary_dim=32),
                 rope(rotary_dim=32), dtypes=VECTORS),
        function("RotaryEmbedding, interpolated", apply, partial(rotary, interpolation_factor=4.0),
                 rope(scaling=LinearScaling(4.0))),
        function("RotaryEmbedding, xPos", apply, _xpos, None, unknown="as in xPos",
                 says="queries times scale ** ((p - max // 2) / 512): no rotation, and centred by "
                      "the longest position of the call"),
        function("ScaledSinusoidalEmbedding", "ScaledSinusoidalEmbedding", sinusoidal,
                 Sinusoidal(64, layout="concat", scale=64**-0.5), dtypes=TABLES),
        function("AlibiPositionalBias, slopes", "AlibiPositionalBias._get_slopes",
                 partial(alibi, surface="slopes"), ALiBi(12), dtypes=TABLES),
        function("AlibiPositionalBias", "AlibiPositionalBias.forward", alibi,
                 ALiBi(12, causal=False), dtypes=TABLES),
        function("RelativePositionBias, buckets", bucket, relative, t5, dtypes=TABLES),
        function("RelativePositionBias, causal buckets", bucket, partial(relative, causal=True),
                 t5.replace(bidirectional=False), dtypes=TABLES),
        function("RelativePositionBias", "RelativePositionBias.forward",
                 partial(relative, surface="bias"), t5, dtypes=TABLES),
    ]  # fmt: skip


def rotary(*, rotary_dim: int | None = None, interpolation_factor: float = 1.0) -> Implementation:
    """Return `RotaryEmbedding` with `apply_rotary_pos_emb`: interleaved, leading channels."""
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    module = RotaryEmbedding(rotary_dim or 64, interpolation_factor=interpolation_factor)

    def apply(x: Any, positions: Any) -> Any:
        freqs, scale = module(positions)
        return apply_rotary_pos_emb(x, freqs, scale)

    again = partial(rotary, rotary_dim=rotary_dim, interpolation_factor=interpolation_factor)
    scaling = LinearScaling(interpolation_factor) if interpolation_factor != 1.0 else None
    return Implementation(
        call=apply,
        surface="apply",
        name="x-transformers RotaryEmbedding",
        encoding=RoPE(64, layout="interleaved", rotary_dim=rotary_dim, scaling=scaling),
        backend="torch",
        head_dim=64,
        factory=again,
    )


def _xpos() -> Implementation:
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    module = RotaryEmbedding(64, use_xpos=True)

    def queries(x: Any, positions: Any) -> Any:
        angles, scale = module(positions)
        return apply_rotary_pos_emb(x, angles, scale)

    return Implementation(queries, "apply", "x-transformers xPos", backend="torch", head_dim=64)


def sinusoidal() -> Implementation:
    """Return `ScaledSinusoidalEmbedding` as built: sines, then cosines, times dim ** -0.5."""
    import torch
    from x_transformers.x_transformers import ScaledSinusoidalEmbedding

    module = ScaledSinusoidalEmbedding(64)

    def table(positions: Any) -> Any:
        with torch.no_grad():
            # Its own positions are integers too, and meet float32 frequencies.
            return module(torch.zeros(1, len(positions), 64), pos=positions)

    return Implementation(
        call=table,
        surface="table",
        name="x-transformers ScaledSinusoidalEmbedding",
        encoding=Sinusoidal(64, layout="concat", scale=64**-0.5),
        backend="torch",
        head_dim=64,
        factory=sinusoidal,
    )


def alibi(surface: str = "bias") -> Implementation:
    """Return `AlibiPositionalBias`: -slope * |i - j|, queries at the end of the keys."""
    from x_transformers.x_transformers import AlibiPositionalBias

    module = AlibiPositionalBias(heads=12)

    def slopes(num_heads: int) -> Any:
        return AlibiPositionalBias(heads=num_heads).slopes.flatten()

    return Implementation(
        call=slopes if surface == "slopes" else lambda q_len, k_len: module(q_len, k_len),
        surface=surface,
        name="x-transformers AlibiPositionalBias",
        encoding=ALiBi(12, causal=False),
        backend="torch",
        num_heads=12,
        factory=partial(alibi, surface),
    )


def relative(*, surface: str = "bucket", causal: bool = False) -> Implementation:
    """Return `RelativePositionBias`, whose table is T5's times 8, the root of the head size."""
    import torch
    from x_transformers.x_transformers import RelativePositionBias

    module = RelativePositionBias(8.0, causal, 32, 128, 4)

    def bucket(relative_position: Any) -> Any:
        return module._relative_position_bucket(
            relative_position, causal=causal, num_buckets=32, max_distance=128
        )

    def bias(q_len: int, k_len: int) -> Any:
        with torch.no_grad():
            return module(q_len, k_len)

    table = module.relative_attention_bias.weight.detach().numpy() * 8.0
    return Implementation(
        call=bucket if surface == "bucket" else bias,
        surface=surface,
        name="x-transformers RelativePositionBias",
        encoding=T5Bias(table, bidirectional=not causal),
        backend="torch",
        num_heads=4,
    )
