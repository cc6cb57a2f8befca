"""The rotation of Chronos-2."""

from __future__ import annotations

from typing import Any

from posenc_ref import RoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation

_LIBRARY = "chronos-forecasting"


def functions() -> list[LibraryFunction]:
    """Return the rotation; Chronos and Chronos-Bolt have the T5 bias of transformers."""
    function = functions_of(_LIBRARY, "chronos2/layers.py: ")
    return [
        function("Chronos2RotaryEmbedding", "Chronos2RotaryEmbedding", _rotary,
                 RoPE(64, layout="half"), dtypes=("float32", "bfloat16")),
    ]  # fmt: skip


def _rotary() -> Implementation:
    from types import SimpleNamespace

    from chronos.chronos2.layers import Chronos2RotaryEmbedding

    module = Chronos2RotaryEmbedding(SimpleNamespace(rope_theta=10000.0, d_kv=64))

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim > 1 else positions[None]
        return module.apply_rotary_pos_emb(x, x, *module(x, rows))[0]

    return Implementation(apply, "apply", _LIBRARY, backend="torch", head_dim=64)
