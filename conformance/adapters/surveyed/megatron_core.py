"""Rotary encodings and the T5 bias of Megatron Core, without a GPU."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from posenc_ref import LinearScaling, Llama3Scaling, MultiAxisRoPE, RoPE, T5Bias, YaRN
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.calling.positions import require_indices, window_start
from posenc_ref.conformance.harness.implementation import Implementation

_LIBRARY = "megatron-core"
_HALF = partial(RoPE, 64, layout="half")
_APPLY = partial(Implementation, surface="apply", name=_LIBRARY, backend="torch", head_dim=64,
                 tensor_layout="sbhd")  # fmt: skip
_YARN = {"scaling_factor": 32.0, "original_max_position_embeddings": 4096,
         "rotary_base": 150000.0, "correction_range_round_to_int": False}  # fmt: skip


def functions() -> list[LibraryFunction]:
    """Return the rotary classes with their settings, both ways to apply them, and the bias."""
    function = functions_of(_LIBRARY, "models/common/embeddings/")
    rotary = "rotary_pos_embedding.py: RotaryEmbedding; rope_utils.py: _apply_rotary_pos_emb_bshd"
    yarn = ("yarn_rotary_pos_embedding.py: YarnRotaryEmbedding; "
            "rope_utils.py: _apply_rotary_pos_emb_bshd")  # fmt: skip
    mrope = "rotary_pos_embedding.py: MultimodalRotaryEmbedding"
    bias = "relative_pos_embedding.py: RelativePositionEmbedding"
    scaled = YaRN(32.0, 4096, truncate=False, mscale=1.0, mscale_all_dim=0.0)
    sections = partial(MultiAxisRoPE, 64, sections=(8, 12, 12))
    t5, vectors = T5Bias(np.zeros((32, 1))), ("float32", "bfloat16")
    return [
        function("RotaryEmbedding", rotary, _rotary, _HALF(), dtypes=vectors),
        function("RotaryEmbedding, interleaved", rotary, partial(_rotary, rotary_interleaved=True),
                 RoPE(64, layout="interleaved"), dtypes=vectors),
        function("RotaryEmbedding, half of the head", rotary, partial(_rotary, rotary_percent=0.5),
                 _HALF(rotary_dim=32), dtypes=("float32",)),
        function("RotaryEmbedding, interpolated", rotary,
                 partial(_rotary, seq_len_interpolation_factor=4.0),
                 _HALF(scaling=LinearScaling(4.0)), dtypes=("float32",)),
        function("RotaryEmbedding, Llama 3.1", rotary,
                 partial(_rotary, rotary_base=500000, rope_scaling=True),
                 _HALF(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
                 dtypes=("float32",)),
        function("RotaryEmbedding, multi-latent attention", rotary,
                 partial(_rotary, latent=True),
                 RoPE(64, layout="interleaved", output_layout="half"), dtypes=("float32",)),
        function("apply_rotary_pos_emb_with_cos_sin", "rotary_pos_embedding.py: "
                 "RotaryEmbedding.get_cos_sin; rope_utils.py: apply_rotary_pos_emb_with_cos_sin",
                 _with_tables, _HALF(), dtypes=("float32",),
                 says="flash_decode=True, where flash_attn.layers.rotary cannot be imported"),
        function("YarnRotaryEmbedding", yarn, partial(_yarn, **_YARN),
                 _HALF(base=150000.0, scaling=scaled), dtypes=vectors),
        function("YarnRotaryEmbedding, half of the head", yarn,
                 partial(_yarn, rotary_percent=0.5, **_YARN),
                 _HALF(rotary_dim=32, base=150000.0, scaling=scaled), dtypes=("float32",)),
        function("MultimodalRotaryEmbedding", mrope, _mrope, sections(layout="half"),
                 dtypes=vectors),
        function("MultimodalRotaryEmbedding, interleaved", mrope,
                 partial(_mrope, rotary_interleaved=True), sections(layout="interleaved"),
                 dtypes=("float32",), says="rotary_interleaved=True"),
        function("RelativePositionEmbedding, buckets", f"{bias}._relative_position_bucket",
                 partial(_bias, "bucket"), t5, dtypes=("float32",)),
        function("RelativePositionEmbedding", f"{bias}.forward", _bias, t5, dtypes=("float32",),
                 says="queries begin at position 0"),
    ]  # fmt: skip


def _on_cpu(cls: Any, **settings: Any) -> Any:
    """Return a module without a GPU; it asks for the current one even if it is told not to."""
    import torch

    with mock.patch.object(torch.cuda, "current_device", return_value="cpu"):
        return cls(**settings)


def _angles(module: Any, length: int) -> Any:
    import torch

    with mock.patch.object(torch.cuda, "current_device", return_value="cpu"):
        return module.get_emb(length)


def _apply_bshd(angles: Any, **settings: Any) -> Implementation:
    """Adapt the rotation of x (S, B, H, D) with a table of angles (P, 1, 1, D)."""
    from megatron.core.models.common.embeddings.rope_utils import _apply_rotary_pos_emb_bshd

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = positions if positions.ndim > 1 else positions[None]
        return _apply_rotary_pos_emb_bshd(x, angles[rows.T][:, :, 0], **settings)

    return _APPLY(apply)


def _rotary(latent: bool = False, rotary_percent: float = 1.0, **settings: Any) -> Implementation:
    from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding

    module = _on_cpu(
        RotaryEmbedding, kv_channels=64, rotary_percent=rotary_percent,
        use_cpu_initialization=True, **settings,
    )  # fmt: skip
    paired = settings.get("rotary_interleaved", False)
    return _apply_bshd(
        _angles(module, 131072), rotary_interleaved=paired, multi_latent_attention=latent
    )


def _with_tables() -> Implementation:
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.models.common.embeddings.rotary_pos_embedding import RotaryEmbedding

    if rope_utils.apply_rotary_emb_flash is not None:
        raise RuntimeError("flash_attn is installed, whose kernel replaces this function")
    module = _on_cpu(
        RotaryEmbedding, kv_channels=64, rotary_percent=1.0, use_cpu_initialization=True
    )
    cos, sin = module.get_cos_sin(131072)

    def apply(x: Any, positions: Any) -> Any:
        start = window_start(positions)
        rows = slice(start, start + len(x))
        return rope_utils.apply_rotary_pos_emb_with_cos_sin(x, cos[rows], sin[rows])

    return _APPLY(apply)


def _yarn(**settings: Any) -> Implementation:
    from megatron.core.models.common.embeddings.yarn_rotary_pos_embedding import (
        YarnRotaryEmbedding,
    )

    module = _on_cpu(YarnRotaryEmbedding, kv_channels=64, use_cpu_initialization=True, **settings)
    angles, factor = _angles(module, 131072)
    return _apply_bshd(angles, mscale=factor)


def _mrope(rotary_interleaved: bool = False) -> Implementation:
    from megatron.core.models.common.embeddings.rope_utils import _apply_rotary_pos_emb_bshd
    from megatron.core.models.common.embeddings.rotary_pos_embedding import (
        MultimodalRotaryEmbedding,
    )

    module = _on_cpu(
        MultimodalRotaryEmbedding, kv_channels=64, rotary_percent=1.0,
        rotary_interleaved=rotary_interleaved,
    )  # fmt: skip

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim > 2 else positions[:, None]
        angles = module(rows, [8, 12, 12])
        return _apply_rotary_pos_emb_bshd(x, angles, rotary_interleaved=rotary_interleaved)

    return _APPLY(apply, axes=3)


def _bias(surface: str = "bias") -> Implementation:
    import torch
    from megatron.core.models.common.embeddings.relative_pos_embedding import (
        RelativePositionEmbedding,
    )

    module = RelativePositionEmbedding(True, torch.nn.init.normal_, 4)
    table = module.relative_attention_bias.weight.detach().numpy()

    def bias(q_len: int, k_len: int) -> Any:
        if q_len != k_len:
            raise ValueError("q_len must be k_len: queries begin at position 0")
        with torch.no_grad():
            return module(q_len, k_len)

    call = module._relative_position_bucket if surface == "bucket" else bias
    return Implementation(call, surface, _LIBRARY, T5Bias(table), backend="torch", num_heads=4)
