"""JAX and MLX code, and an attention layer's own call."""

import jax.numpy as jnp
import mlx.core as mx


def apply_rope(inputs, positions, *, base_frequency=10_000):
    """As in Gemma's JAX code: (B, S, H, D), positions (B, S)."""
    half = inputs.shape[-1] // 2
    timescale = base_frequency ** (2 * jnp.arange(half) / inputs.shape[-1])
    angle = (positions[..., None] / timescale)[..., None, :]
    a, b = jnp.split(inputs, 2, axis=-1)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(inputs.dtype)


def degrees(inputs, positions, *, base_frequency=10_000):
    return apply_rope(inputs, positions * 57, base_frequency=base_frequency)


class RoPE:
    """As in mlx.nn."""

    def __init__(self, dims, traditional=False, base=10000, scale=1.0):
        self.dims, self.traditional, self.base, self.scale = dims, traditional, base, scale

    def __call__(self, x, offset=0):
        return mx.fast.rope(
            x, self.dims, traditional=self.traditional, base=self.base, scale=self.scale,
            offset=offset,
        )  # fmt: skip


class OffsetForgotten(RoPE):
    def __call__(self, x, offset=0):
        return super().__call__(x)
