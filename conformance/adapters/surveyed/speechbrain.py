"""Encodings of SpeechBrain: rotary attention, relative attention and sinusoids."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import RoPE, Sinusoidal, TransformerXL
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import captured, from_zero, require_equal_lengths, rows_of

_HEADS, _DIM = 2, 16


def functions() -> list[LibraryFunction]:
    """Return the rotation of RoPEMHA, the logits of RelPosMHAXL, and the table of sinusoids."""
    attention = functions_of("speechbrain", "nnet/attention.py: ")
    transformer = functions_of("speechbrain", "lobes/models/transformer/Transformer.py: ")
    return [
        attention("RoPEMHA", "_rope_rotate", _rope, RoPE(64, layout="interleaved"),
                  dtypes=("float32", "bfloat16")),
        attention("RelPosMHAXL", "RelPosEncXL.make_pe, RelPosMHAXL.forward", _relative,
                  TransformerXL(*_weights(), sinusoid=Sinusoidal(_HEADS * _DIM)),
                  dtypes=("float32",),
                  says="logits are divided by the square root of embed_dim, where the paper and "
                       "SpeechBrain's other attention divide by that of the head size; they are "
                       "multiplied by the difference here"),
        transformer("PositionalEncoding", "PositionalEncoding", _table, Sinusoidal(64),
                    dtypes=("float32",), says="2500 rows"),
    ]  # fmt: skip


def _rope() -> Implementation:
    from speechbrain.nnet.attention import _rope_rotate

    apply = from_zero(lambda x: _rope_rotate(x.transpose(1, 2)).transpose(1, 2))
    return Implementation(apply, "apply", "speechbrain", backend="torch", head_dim=64)


def _weights() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the projection (H, d, H d) of the positions, and the two biases (H, d)."""
    values = np.random.default_rng(0)
    width = _HEADS * _DIM
    projection = values.standard_normal((_HEADS, _DIM, width)) / width**0.5
    return projection, *values.standard_normal((2, _HEADS, _DIM))


def _relative() -> Implementation:
    """Adapt a layer whose projections of q and k are the identity."""
    import torch
    from speechbrain.nnet import attention

    width = _HEADS * _DIM
    layer = attention.RelPosMHAXL(width, _HEADS).eval()
    sinusoids = attention.RelPosEncXL(width)
    projection, content, position = map(torch.from_numpy, _weights())
    state = {
        "in_proj_weight": torch.eye(width).repeat(3, 1),
        "linear_pos.weight": projection.reshape(width, width),
        # The layer views both, (d, H) by their names, as (H, d).
        "pos_bias_u": content.reshape(_DIM, _HEADS),
        "pos_bias_v": position.reshape(_DIM, _HEADS),
    }
    layer.load_state_dict(state, strict=False)

    def logits(q: Any, k: Any) -> Any:
        require_equal_lengths(q, k)
        flat = [x.transpose(1, 2).reshape(x.shape[0], x.shape[2], width) for x in (q, k)]
        with torch.no_grad(), captured(attention.F, "softmax", argument=0) as seen:
            layer(*flat, torch.zeros_like(flat[1]), sinusoids(flat[0]))
        return seen[0] * _HEADS**0.5

    return Implementation(
        logits, "scores", "speechbrain", backend="torch", head_dim=_DIM, num_heads=_HEADS
    )


def _table() -> Implementation:
    from speechbrain.lobes.models.transformer.Transformer import PositionalEncoding

    table = PositionalEncoding(64).pe[0]
    return Implementation(rows_of(table), "table", "speechbrain", backend="torch")
