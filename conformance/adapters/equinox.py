"""The rotary layer of Equinox."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import RoPE
from posenc_ref.conformance.calling.positions import window_start
from posenc_ref.conformance.harness.implementation import Implementation

from .library import LibraryFunction, functions_of

#: The tokens of every call: the layer rotates a sequence from position 0 on.
_LENGTH = 4096


def functions() -> list[LibraryFunction]:
    """Return the layer, alone and after another one of the same size."""
    function = functions_of("equinox", "nn/_embedding.py: ")
    rotary = "RotaryPositionalEmbedding"
    return [
        function(rotary, rotary, partial(_rotary, 10000.0), RoPE(64, layout="half")),
        function(f"{rotary}, theta", rotary, partial(_rotary, 500000.0, size=128),
                 RoPE(128, layout="half", base=500000.0)),
        function(f"{rotary}, two layers", rotary, partial(_rotary, 500000.0, first=10000.0),
                 RoPE(64, layout="half", base=500000.0),
                 says="a layer with theta=10000 was called before, as the local layers of Gemma 3"),
    ]  # fmt: skip


def _rotary(theta: float, first: float | None = None, size: int = 64) -> Implementation:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    if first is not None:
        eqx.nn.RotaryPositionalEmbedding(size, theta=first)(jnp.zeros((_LENGTH, size)))
    layer = eqx.nn.RotaryPositionalEmbedding(size, theta=theta)
    heads = jax.jit(jax.vmap(jax.vmap(layer)))

    def apply(x: Any, positions: Any) -> Any:
        start = window_start(positions)
        end = start + x.shape[2]
        if end > _LENGTH:
            raise ValueError(f"positions must be below {_LENGTH}: a call rotates all from 0 on")
        whole = jnp.zeros((*x.shape[:2], _LENGTH, size), x.dtype)
        return heads(whole.at[:, :, start:end].set(x))[:, :, start:end]

    return Implementation(apply, "apply", "equinox", backend="jax", head_dim=size)
