"""Encodings of TransformerLens: its own rotations, and its copies of ALiBi."""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_ref import ALiBi, DynamicNTK, LinearScaling, Llama3Scaling, RoPE
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

_LIBRARY = "transformer-lens"
_PAIRS = partial(RoPE, 64, layout="interleaved")
_LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
           "original_max_position_embeddings": 8192}  # fmt: skip


def functions() -> list[LibraryFunction]:
    """Return NativeRotary with every scaling, and the slopes and biases of the bridges."""
    native = functions_of(_LIBRARY, "model_bridge/sources/native/model.py: ")
    bridge = functions_of(_LIBRARY, "model_bridge/generalized_components/")
    rotary = "NativeRotary, _resolve_rope_scaling"
    vectors = ("float32", "bfloat16")
    return [
        native("NativeRotary", rotary, _rotary, _PAIRS(), dtypes=vectors),
        native("NativeRotary, half of the head", rotary, partial(_rotary, rotary_dim=32),
               _PAIRS(rotary_dim=32), dtypes=("float32",)),
        native("NativeRotary, linear", rotary,
               partial(_rotary, scaling={"rope_type": "linear", "factor": 4.0}),
               _PAIRS(scaling=LinearScaling(4.0)), dtypes=("float32",)),
        native("NativeRotary, llama3", rotary, partial(_rotary, scaling=_LLAMA3, base=500000.0),
               _PAIRS(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
               dtypes=("float32",)),
        native("NativeRotary, dynamic", rotary,
               partial(_rotary, scaling={"rope_type": "dynamic", "factor": 2.0}, length=2048),
               _PAIRS(scaling=DynamicNTK(2.0, 2048)), dtypes=("float32",),
               says="n_ctx is the original length, and no call is longer"),
        bridge("build_alibi_slopes", "alibi_utils.py: build_alibi_slopes", _slopes, ALiBi(12),
               dtypes=("float32",)),
        bridge("build_alibi_tensor", "alibi_utils.py: build_alibi_tensor", _bias, ALiBi(12),
               dtypes=("float32",), says="Bloom and Falcon; biases grow with the key's position"),
        bridge("_build_mpt_alibi_tensor", "mpt_alibi_attention.py: _build_mpt_alibi_tensor",
               partial(_bias, mpt=True), ALiBi(12), dtypes=("float32",)),
    ]  # fmt: skip


def _rotary(
    base: float = 10000.0, rotary_dim: int = 64, length: int = 131072, scaling: Any = None
) -> Implementation:
    from types import SimpleNamespace

    from transformer_lens.model_bridge.sources.native.model import NativeRotary

    config = SimpleNamespace(
        rotary_dim=rotary_dim, d_head=64, n_ctx=length, rotary_base=base, rope_scaling=scaling
    )
    module = NativeRotary(config)

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = positions if positions.ndim > 1 else positions[None]
        return module.apply_rope(x, x, position_ids=rows)[0]

    return Implementation(apply, "apply", _LIBRARY, backend="torch", head_dim=64)


def _slopes() -> Implementation:
    import torch
    from transformer_lens.model_bridge.generalized_components.alibi_utils import build_alibi_slopes

    def slopes(num_heads: int) -> Any:
        return build_alibi_slopes(num_heads, torch.device("cpu"))

    return Implementation(slopes, "slopes", _LIBRARY, backend="torch")


def _bias(mpt: bool = False) -> Implementation:
    import torch
    from transformer_lens.model_bridge.generalized_components import (
        alibi_utils,
        mpt_alibi_attention,
    )

    def bias(q_len: int, k_len: int) -> Any:
        if mpt:
            return mpt_alibi_attention._build_mpt_alibi_tensor(12, k_len)
        mask = torch.ones(1, k_len, dtype=torch.long)
        return alibi_utils.build_alibi_tensor(mask, 12, torch.float32)[0]

    return Implementation(bias, "bias", _LIBRARY, backend="torch", num_heads=12)
