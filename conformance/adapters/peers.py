"""Implementations from `x-transformers` and `rotary-embedding-torch`, with what they declare."""

from __future__ import annotations

from typing import Any

import posenc_ref
from posenc_ref.conformance.harness.implementation import Implementation


def x_transformers_rotary(
    head_dim: int = 64,
    *,
    rotary_dim: int | None = None,
    base: float = 10000.0,
    interpolation_factor: float = 1.0,
) -> Implementation:
    """Return `RotaryEmbedding` with `apply_rotary_pos_emb`: interleaved, leading channels."""
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    width = head_dim if rotary_dim is None else rotary_dim
    module = RotaryEmbedding(width, base=base, interpolation_factor=interpolation_factor)

    def apply(x: Any, positions: Any) -> Any:
        freqs, scale = module(positions)
        return apply_rotary_pos_emb(x, freqs, scale)

    scaled = interpolation_factor != 1.0
    return Implementation(
        call=apply,
        surface="apply",
        name="x-transformers RotaryEmbedding",
        encoding=posenc_ref.RoPE(
            head_dim,
            layout="interleaved",
            base=base,
            rotary_dim=rotary_dim,
            scaling=posenc_ref.LinearScaling(interpolation_factor) if scaled else None,
        ),
        backend="torch",
        head_dim=head_dim,
        factory=lambda: x_transformers_rotary(
            head_dim, rotary_dim=rotary_dim, base=base, interpolation_factor=interpolation_factor
        ),
    )


def x_transformers_sinusoidal(dim: int = 64, *, theta: float = 10000.0) -> Implementation:
    """Return `ScaledSinusoidalEmbedding` as built: sines, then cosines, times dim ** -0.5."""
    import torch
    from x_transformers.x_transformers import ScaledSinusoidalEmbedding

    module = ScaledSinusoidalEmbedding(dim, theta=theta)

    def table(positions: Any) -> Any:
        with torch.no_grad():
            # Its own positions are integers too, and meet float32 frequencies.
            return module(torch.zeros(1, len(positions), dim), pos=positions)

    return Implementation(
        call=table,
        surface="table",
        name="x-transformers ScaledSinusoidalEmbedding",
        encoding=posenc_ref.Sinusoidal(dim, base=theta, layout="concat", scale=dim**-0.5),
        backend="torch",
        head_dim=dim,
        factory=lambda: x_transformers_sinusoidal(dim, theta=theta),
    )


def x_transformers_alibi(num_heads: int = 12, *, surface: str = "bias") -> Implementation:
    """Return `AlibiPositionalBias`: -slope * |i - j|, queries at the end of the keys."""
    from x_transformers.x_transformers import AlibiPositionalBias

    module = AlibiPositionalBias(heads=num_heads)

    def slopes(num_heads: int) -> Any:
        return AlibiPositionalBias(heads=num_heads).slopes.flatten()

    return Implementation(
        call=slopes if surface == "slopes" else lambda q_len, k_len: module(q_len, k_len),
        surface=surface,
        name="x-transformers AlibiPositionalBias",
        encoding=posenc_ref.ALiBi(num_heads, causal=False),
        backend="torch",
        num_heads=num_heads,
        factory=lambda: x_transformers_alibi(num_heads, surface=surface),
    )


def x_transformers_relative(
    num_heads: int = 4,
    *,
    surface: str = "bucket",
    causal: bool = False,
    num_buckets: int = 32,
    max_distance: int = 128,
    scale: float = 8.0,
) -> Implementation:
    """Return `RelativePositionBias`, whose table is T5's times `scale` (the root of head_dim)."""
    import torch
    from x_transformers.x_transformers import RelativePositionBias

    module = RelativePositionBias(scale, causal, num_buckets, max_distance, num_heads)
    settings = {"num_buckets": num_buckets, "max_distance": max_distance}

    def bucket(relative_position: Any) -> Any:
        return module._relative_position_bucket(relative_position, causal=causal, **settings)

    def bias(q_len: int, k_len: int) -> Any:
        with torch.no_grad():
            return module(q_len, k_len)

    table = module.relative_attention_bias.weight.detach().numpy() * scale
    return Implementation(
        call=bucket if surface == "bucket" else bias,
        surface=surface,
        name="x-transformers RelativePositionBias",
        encoding=posenc_ref.T5Bias(
            table,
            num_buckets=num_buckets,
            max_distance=max_distance,
            bidirectional=not causal,
        ),
        backend="torch",
        num_heads=num_heads,
    )


def rotary_embedding_torch(
    head_dim: int = 64,
    *,
    rotary_dim: int | None = None,
    theta: float = 10000.0,
    interpolate_factor: float = 1.0,
) -> Implementation:
    """Return `RotaryEmbedding.rotate_queries_or_keys`, as it is.

    It takes an offset, never positions: anything but one contiguous window of non-negative
    integers is refused with a ValueError. Positions, and a cache of angles that outlives the
    call, are built in the precision of the first queries that reach so far.
    """
    from rotary_embedding_torch import RotaryEmbedding

    width = head_dim if rotary_dim is None else rotary_dim
    module = RotaryEmbedding(width, theta=theta, interpolate_factor=interpolate_factor)

    def apply(x: Any, positions: Any) -> Any:
        return module.rotate_queries_or_keys(x, offset=window_start(positions))

    scaled = interpolate_factor != 1.0
    return Implementation(
        call=apply,
        surface="apply",
        name="rotary-embedding-torch RotaryEmbedding",
        encoding=posenc_ref.RoPE(
            head_dim,
            layout="interleaved",
            base=theta,
            rotary_dim=rotary_dim,
            scaling=posenc_ref.LinearScaling(interpolate_factor) if scaled else None,
        ),
        backend="torch",
        head_dim=head_dim,
        factory=lambda: rotary_embedding_torch(
            head_dim, rotary_dim=rotary_dim, theta=theta, interpolate_factor=interpolate_factor
        ),
    )


def window_start(positions: Any) -> int:
    """Return where a contiguous window of positions starts, or raise ValueError.

    Rows of positions are one window if they are all the same.
    """
    rows = positions.tolist()
    if rows and isinstance(rows[0], list):
        if any(row != rows[0] for row in rows):
            raise ValueError("takes an offset: the rows of a batch share their positions")
        rows = rows[0]
    start = rows[0] if rows else 0
    if start != int(start) or start < 0 or rows != list(range(int(start), int(start) + len(rows))):
        raise ValueError("takes an offset: positions are contiguous integers, not below 0")
    return int(start)
