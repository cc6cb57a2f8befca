"""Rotary encodings of local-attention, alone and inside its attention over windows."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import RoPE, XPos
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import captured, from_zero, require_equal_lengths

_LIBRARY = "local-attention"
_HALF = RoPE(64, layout="half")


def functions() -> list[LibraryFunction]:
    """Return the rotation, xPos, and the logits inside one window of the layer."""
    rotary = functions_of(_LIBRARY, "rotary.py: ")
    layer = functions_of(_LIBRARY, "local_attention.py: ")
    inside = "LocalAttention.forward, look_around; rotary.py: apply_rotary_pos_emb"
    return [
        rotary("apply_rotary_pos_emb", "SinusoidalEmbeddings, apply_rotary_pos_emb", _apply, _HALF,
               dtypes=("float32", "bfloat16")),
        rotary("apply_rotary_pos_emb, xPos", "SinusoidalEmbeddings, apply_rotary_pos_emb", _xpos,
               XPos(64, layout="half"), dtypes=("float32",)),
        layer("LocalAttention, causal", inside, partial(_window, causal=True), _HALF,
              dtypes=("float32",), says="causal=True, look_backward=1"),
        layer("LocalAttention", inside, _window, _HALF, dtypes=("float32",),
              says="causal=False; look_forward is then 1"),
        functions_of(_LIBRARY, "transformer.py: ")(
            "DynamicPositionBias", "DynamicPositionBias", _network, None, unknown="bias",
            says="a network maps the distance of two tokens to a bias for each head"),
    ]  # fmt: skip


def _apply() -> Implementation:
    import torch
    from local_attention.rotary import SinusoidalEmbeddings, apply_rotary_pos_emb

    module = SinusoidalEmbeddings(64)

    def rotate(x: Any) -> Any:
        angles, _ = module(x)
        return apply_rotary_pos_emb(x, x, angles, torch.ones(1))[0].to(x.dtype)

    return Implementation(from_zero(rotate), "apply", _LIBRARY, backend="torch", head_dim=64)


def _xpos() -> Implementation:
    from local_attention.rotary import SinusoidalEmbeddings, apply_rotary_pos_emb

    module = SinusoidalEmbeddings(64, use_xpos=True, scale_base=512)

    def logits(q: Any, k: Any) -> Any:
        q, k = apply_rotary_pos_emb(q, k, *module(k))
        return q @ k.transpose(-1, -2) / 8

    return Implementation(logits, "scores", _LIBRARY, backend="torch", head_dim=64)


def _window(causal: bool = False) -> Implementation:
    """Adapt the layer for one window, whose neighbours are padding."""
    from local_attention import local_attention

    def logits(q: Any, k: Any) -> Any:
        require_equal_lengths(q, k)
        n = q.shape[-2]
        layer = local_attention.LocalAttention(n, dim=64, causal=causal, look_backward=1)
        with captured(local_attention, "einsum") as seen:
            layer(q, k, k)
        return seen[0].reshape(*q.shape[:-1], -1)[..., n : 2 * n]  # the window itself

    return Implementation(logits, "scores", _LIBRARY, backend="torch", head_dim=64)


def _network() -> Implementation:
    from local_attention.transformer import DynamicPositionBias

    return Implementation(DynamicPositionBias(16, 4), "bias", _LIBRARY, backend="torch")
