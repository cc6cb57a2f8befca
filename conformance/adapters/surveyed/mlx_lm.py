"""Rotations that single models of mlx-lm define for themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import MultiAxisRoPE, NTKScaling, RoPE, YaRN
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.mlx import adapt_offset
from posenc_ref.conformance.calling.positions import require_indices
from posenc_ref.conformance.harness.implementation import Implementation

_SIDE = 64


def functions() -> list[LibraryFunction]:
    """Return the rotations of DeepSeek-V2, Hunyuan, nanochat, Talkie and Muse's vision tower."""
    function = functions_of("mlx-lm", "models/")
    dtypes = ("float32",)
    return [
        function("DeepseekV2YarnRotaryEmbedding", "deepseek_v2.py: DeepseekV2YarnRotaryEmbedding",
                 _deepseek,
                 RoPE(64, layout="interleaved",
                      scaling=YaRN(40.0, 4096, mscale=0.707, mscale_all_dim=0.707)),
                 dtypes=dtypes),
        function("DynamicNTKAlphaRoPE", "hunyuan.py: DynamicNTKAlphaRoPE", _hunyuan,
                 RoPE(64, layout="half", scaling=NTKScaling(1000.0)), dtypes=dtypes),
        function("nanochat", "nanochat.py: apply_rotary_emb", _nanochat,
                 RoPE(64, layout="half", sign=-1), dtypes=dtypes,
                 says="nanochat turns the other way"),
        function("Talkie", "talkie.py: Attention._rope", _talkie,
                 RoPE(64, layout="half", sign=-1), dtypes=dtypes,
                 says="Talkie turns the other way"),
        function("VisionRoPE2D", "muse_spark.py: VisionRoPE2D, _apply_vision_rope", _muse,
                 MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart",
                               arrangement=(1,) * 16 + (0,) * 16, offset=1.0), dtypes=dtypes,
                 says="the column turns the first pairs; rows and columns are counted from 1"),
    ]  # fmt: skip


def _deepseek() -> Implementation:
    from mlx_lm.models.deepseek_v2 import DeepseekV2YarnRotaryEmbedding

    module = DeepseekV2YarnRotaryEmbedding(
        64, scaling_factor=40.0, mscale=0.707, mscale_all_dim=0.707
    )
    return adapt_offset(module)


def _hunyuan() -> Implementation:
    from mlx_lm.models.hunyuan import DynamicNTKAlphaRoPE

    return adapt_offset(DynamicNTKAlphaRoPE(64, scaling_alpha=1000.0))


def _nanochat() -> Implementation:
    from mlx_lm.models.nanochat import apply_rotary_emb

    return adapt_offset(lambda x, offset: apply_rotary_emb(x, offset, 10000.0))


def _talkie() -> Implementation:
    from types import SimpleNamespace

    from mlx_lm.models.talkie import Attention

    config = SimpleNamespace(
        hidden_size=64, num_attention_heads=1, head_dim=64, rms_norm_eps=1e-5, rope_theta=10000.0
    )
    layer = Attention(config)
    return adapt_offset(lambda x, offset: layer._rope(x, offset))


def _muse() -> Implementation:
    import mlx.core as mx
    from mlx_lm.models.muse_spark import VisionRoPE2D, _apply_vision_rope

    cos, sin = (
        np.array(part).reshape(_SIDE, _SIDE, -1)
        for part in VisionRoPE2D(head_dim=64)(grid_h=_SIDE, grid_w=_SIDE)
    )

    def apply(x: Any, positions: Any) -> Any:
        require_indices(positions)
        rows = positions if positions.ndim > 2 else positions[:, None]
        if rows.size and rows.max() >= _SIDE:
            raise ValueError(f"positions must be below {_SIDE}: the table is that of one grid")
        at = [mx.array(part[rows[0], rows[1]][:, :, None]) for part in (cos, sin)]
        return np.array(_apply_vision_rope(mx.array(x), cos=at[0], sin=at[1]))

    return Implementation(apply, "apply", "mlx-lm", tensor_layout="bshd", head_dim=64, axes=2)
