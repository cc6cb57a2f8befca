"""The rotation of TimesFM 2.5, in PyTorch."""

from __future__ import annotations

from typing import Any

from posenc_ref import RoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.harness.implementation import Implementation


def functions() -> list[LibraryFunction]:
    """Return the rotation."""
    function = functions_of("timesfm", "torch/transformer.py: ")
    return [
        function("RotaryPositionalEmbedding", "RotaryPositionalEmbedding", _rotary,
                 RoPE(64, layout="half"), dtypes=("float32",),
                 says="positions are divided by timescales 10000 ** (2k/d); bfloat16 vectors "
                      "give float32 results"),
    ]  # fmt: skip


def _rotary() -> Implementation:
    from timesfm.torch.transformer import RotaryPositionalEmbedding

    module = RotaryPositionalEmbedding(64)

    def apply(x: Any, positions: Any) -> Any:
        return module(x, positions if positions.ndim > 1 else positions[None])

    return Implementation(
        apply, "apply", "timesfm", backend="torch", tensor_layout="bshd", head_dim=64
    )
