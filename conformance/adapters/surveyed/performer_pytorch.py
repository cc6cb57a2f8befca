"""Rotary and sinusoidal encodings of performer-pytorch."""

from __future__ import annotations

from typing import Any

from posenc_ref import RoPE, Sinusoidal
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import from_zero, rows_of

_LIBRARY = "performer-pytorch"


def functions() -> list[LibraryFunction]:
    """Return the rotation and the table, which share a class."""
    function = functions_of(_LIBRARY, "performer_pytorch.py: ")
    return [
        function("apply_rotary_pos_emb", "FixedPositionalEmbedding, apply_rotary_pos_emb", _rotary,
                 RoPE(64, layout="interleaved"), dtypes=("float32", "bfloat16")),
        function("FixedPositionalEmbedding", "FixedPositionalEmbedding", _table,
                 Sinusoidal(64, layout="concat"), dtypes=("float32",)),
    ]  # fmt: skip


def _table(length: int = 8192) -> Implementation:
    from performer_pytorch.performer_pytorch import FixedPositionalEmbedding

    table = FixedPositionalEmbedding(64, length).emb
    return Implementation(rows_of(table), "table", _LIBRARY, backend="torch")


def _rotary() -> Implementation:
    from performer_pytorch import performer_pytorch as library

    module = library.FixedPositionalEmbedding(64, 8192)

    def rotate(x: Any) -> Any:
        # As PerformerLM calls it: the table is made for a tensor (B, S, dim).
        return library.apply_rotary_pos_emb(x, x, module(x[:, 0]))[0]

    return Implementation(from_zero(rotate), "apply", _LIBRARY, backend="torch", head_dim=64)
