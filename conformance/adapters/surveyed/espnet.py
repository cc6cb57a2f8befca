"""Encodings of ESPnet: sinusoids and relative attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import ESPnetLegacy, Sinusoidal, TransformerXL
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import captured, require_equal_lengths

_HEADS, _DIM = 2, 16
_WIDTH = _HEADS * _DIM


def functions() -> list[LibraryFunction]:
    """Return the tables, what a half-precision call leaves, and both relative attentions."""
    table = functions_of("espnet", "nets/pytorch_backend/transformer/embedding.py: ")
    attention = functions_of("espnet", "nets/pytorch_backend/transformer/attention.py: ")
    sines, dtypes = Sinusoidal(_WIDTH), ("float32",)
    weights = _weights()
    return [
        table("PositionalEncoding", "PositionalEncoding", _table, sines, dtypes=dtypes,
              says="x is multiplied by the square root of its width before; it is 0 here"),
        table("ScaledPositionalEncoding", "ScaledPositionalEncoding",
              partial(_table, "ScaledPositionalEncoding"), sines, dtypes=dtypes,
              says="alpha is 1 before training"),
        table("PositionalEncoding, after a call in bfloat16", "PositionalEncoding.extend_pe",
              partial(_table, first="bfloat16"), sines, dtypes=dtypes,
              says="the table is converted to the dtype of x, and kept"),
        attention("RelPositionMultiHeadedAttention", "RelPositionMultiHeadedAttention.forward; "
                  "embedding.py: RelPositionalEncoding", _relative,
                  TransformerXL(*weights, sinusoid=sines), dtypes=dtypes),
        attention("LegacyRelPositionMultiHeadedAttention",
                  "LegacyRelPositionMultiHeadedAttention.forward; "
                  "embedding.py: LegacyRelPositionalEncoding", partial(_relative, "Legacy"),
                  ESPnetLegacy(*weights, sinusoid=sines), dtypes=dtypes),
    ]  # fmt: skip


def _table(name: str = "PositionalEncoding", first: str = "") -> Implementation:
    import torch
    from espnet.nets.pytorch_backend.transformer import embedding

    module = getattr(embedding, name)(_WIDTH, 0.0).eval()
    if first:
        module(torch.zeros(1, 1, _WIDTH, dtype=getattr(torch, first)))

    def rows(positions: Any) -> Any:
        require_indices(positions)
        end = int(positions.max()) + 1 if len(positions) else 1
        if end > 32768:
            raise ValueError("positions must be below 32768: a call returns all rows from 0 on")
        with torch.no_grad():
            return module(torch.zeros(1, end, _WIDTH))[0][positions]

    return Implementation(rows, "table", "espnet", backend="torch")


def _weights() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the projection (H, d, H d) of the positions, and the two biases (H, d)."""
    values = np.random.default_rng(0)
    projection = values.standard_normal((_HEADS, _DIM, _WIDTH)) / _WIDTH**0.5
    return projection, *values.standard_normal((2, _HEADS, _DIM))


def _relative(kind: str = "") -> Implementation:
    """Adapt a layer whose projections of q and k are the identity."""
    import torch
    from espnet.nets.pytorch_backend.transformer import attention, embedding

    layer = getattr(attention, f"{kind}RelPositionMultiHeadedAttention")(_HEADS, _WIDTH, 0.0)
    sinusoids = getattr(embedding, f"{kind}RelPositionalEncoding")(_WIDTH, 0.0).eval()
    projection, content, position = (torch.from_numpy(part).float() for part in _weights())
    state = {f"linear_{name}.weight": torch.eye(_WIDTH) for name in "qk"}
    state |= {f"linear_{name}.bias": torch.zeros(_WIDTH) for name in "qk"}
    state |= {
        "linear_pos.weight": projection.reshape(_WIDTH, _WIDTH),
        "pos_bias_u": content,
        "pos_bias_v": position,
    }
    layer.load_state_dict(state, strict=False)

    def logits(q: Any, k: Any) -> Any:
        require_equal_lengths(q, k)
        flat = [x.transpose(1, 2).reshape(x.shape[0], x.shape[2], _WIDTH) for x in (q, k)]
        with torch.no_grad(), captured(torch, "softmax", argument=0) as seen:
            layer.eval()(*flat, flat[1], sinusoids(flat[0])[1], None)
        return seen[0]

    return Implementation(
        logits, "scores", "espnet", backend="torch", head_dim=_DIM, num_heads=_HEADS
    )
