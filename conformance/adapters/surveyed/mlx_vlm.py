"""Rotary classes and position ids of MLX-VLM."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import (
    DynamicNTK,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    MultiAxisRoPE,
    NTKScaling,
    Proportional,
    RoPE,
    Sinusoidal,
    Sinusoidal2D,
    YaRN,
    mrope_rule,
)
from posenc_ref.conformance.adapters.library import LibraryFunction, functions_of
from posenc_ref.conformance.adapters.transformers_rotary import LONG, SHORT
from posenc_ref.conformance.calling.grids import Grid, whole
from posenc_ref.conformance.calling.positions import require_indices, window_start
from posenc_ref.conformance.harness.implementation import Implementation
from posenc_ref.conformance.harness.rope_index import SURFACE, TOKEN_IDS, token_ids

LIBRARY = "mlx-vlm"
_function = functions_of(LIBRARY, "models/")
_HALF = partial(RoPE, 64, layout="half")
_INTERLEAVED = partial(RoPE, 64, layout="interleaved")
_SIDE = 14
_DEEPSEEK = {"scaling_factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 1.0,
             "mscale_all_dim": 1.0}  # fmt: skip


def functions() -> list[LibraryFunction]:
    """Return the layers of language models, of vision towers, and tables."""
    return [*_text(), *_vision()]


def _text() -> list[LibraryFunction]:
    def scaled(name: str, config: dict[str, Any], expected: RoPE, **more: Any) -> LibraryFunction:
        build = partial(_initialize_rope, config, expected)
        return _function(name, "rope_utils.py: initialize_rope", build, expected, **more)

    yarn = {"rope_type": "yarn", "original_max_position_embeddings": 4096}
    intern = "DynamicNTKScalingRoPE, Attention"
    deepseek = YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    return [
        scaled("initialize_rope", {}, _HALF()),
        scaled("initialize_rope, linear", {"rope_type": "linear", "factor": 4.0},
               _HALF(scaling=LinearScaling(4.0))),
        scaled("Llama3RoPE",
               {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
               _HALF(base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))),
        scaled("YarnRoPE, DeepSeek-V3",
               yarn | {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0},
               _INTERLEAVED(scaling=deepseek)),
        scaled("YarnRoPE, gpt-oss",
               yarn | {"factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
               _HALF(base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)),
               says="the configuration of gpt-oss has truncate: false"),
        scaled("SuScaledRoPE, Phi-3",
               {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG,
                "original_max_position_embeddings": 4096},
               RoPE(96, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, factor=32.0))),
        scaled("ProportionalRoPE", {"rope_type": "proportional", "partial_rotary_factor": 0.25},
               RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25))),
        _function("InternLM2", f"internlm2/language.py: {intern}", partial(_internlm, "internlm2"),
                  _HALF(base=1e6, scaling=DynamicNTK(8.0, 32768)),
                  says="dynamic; the factor is 8, because layers have a 2 of their own"),
        _function("InternLM3", f"internlm3/language.py: {intern}", partial(_internlm, "internlm3"),
                  _HALF(base=1e6, scaling=DynamicNTK(8.0, 32768))),
        _function("Hunyuan", "hunyuan/language.py: DynamicNTKAlphaRoPE",
                  partial(_layer, "hunyuan.language.DynamicNTKAlphaRoPE", 64, 10000.0, 1000.0),
                  _HALF(scaling=NTKScaling(1000.0))),
        _function("DeepSeek-V2", "deepseek_v2/language.py: DeepseekV2YarnRotaryEmbedding",
                  partial(_layer, "deepseek_v2.language.DeepseekV2YarnRotaryEmbedding", 64,
                          **_DEEPSEEK), _INTERLEAVED(scaling=deepseek)),
        _function("Kimi-VL, text", "kimi_vl/language.py: DeepseekV3YarnRotaryEmbedding",
                  partial(_layer, "kimi_vl.language.DeepseekV3YarnRotaryEmbedding", 64,
                          **_DEEPSEEK), _INTERLEAVED(scaling=deepseek)),
        _function("Qwen2-VL, text", "rope_utils.py: MRoPERotaryEmbedding (style='chunked')",
                  partial(_mrope, "chunked", (16, 24, 24)),
                  MultiAxisRoPE(128, sections=(16, 24, 24), layout="half")),
        _function("Qwen3-VL, text", "rope_utils.py: MRoPERotaryEmbedding (style='interleaved')",
                  partial(_mrope, "interleaved", (24, 20, 20)),
                  MultiAxisRoPE(128, sections=(24, 20, 20), layout="half",
                                arrangement="interleaved")),
    ]  # fmt: skip


def _vision() -> list[LibraryFunction]:
    halves = MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart")
    tower = "VisionRotaryEmbedding, apply_rotary_pos_emb_vision"
    return [
        *(_function(f"{name}, vision", f"{file}/vision.py: {tower}", partial(_tower, file), halves)
          for name, file in (("Qwen2-VL", "qwen2_vl"), ("Qwen2.5-VL", "qwen2_5_vl"),
                             ("Qwen3-VL", "qwen3_vl"))),
        _function("Pixtral", "pixtral/vision.py: PixtralRotaryEmbedding, apply_rotary_pos_emb",
                  _pixtral, MultiAxisRoPE(64, sections=(16, 16), layout="half",
                                          spacing="strided")),
        _function("Kimi-VL, vision", "kimi_vl/vision.py: Rope2DPosEmb, apply_rope", _kimi,
                  MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart",
                                arrangement=(1, 0) * 16), says="the column comes first"),
        _function("Step-3.7", "step3p7/vision.py: EncoderRope2D", _step,
                  MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart",
                                arrangement=(1,) * 16 + (0,) * 16),
                  says="the column comes first"),
        _function("SAM 3D Body", "sam3d_body/rope.py: DINOv3RoPE, apply_rope", _dinov3,
                  halves.replace(base=100.0, position_scale=4 * np.pi / _SIDE,
                                 offset=0.5 - _SIDE / 2)),
        _function("RT-DETR v2", "rt_detr_v2/vision.py: SinePositionEmbedding", _rt_detr,
                  Sinusoidal2D(64)),
        _positions("Qwen2-VL", "qwen2_vl", mrope_rule("qwen2_vl")),
        _positions("Qwen2.5-VL", "qwen2_5_vl", mrope_rule("qwen2_5_vl")),
        _function("Qwen3-Omni, audio", "qwen3_omni_moe/audio.py: SinusoidsPositionEmbedding",
                  _sinusoids, Sinusoidal(64, layout="concat", denominator="half-1")),
    ]  # fmt: skip


def _positions(name: str, model: str, rule: Any) -> LibraryFunction:
    return _function(f"{name}, get_rope_index", f"{model}/language.py: LanguageModel."
                     "get_rope_index", partial(_get_rope_index, model), rule,
                     says="generated tokens follow by the rope deltas")  # fmt: skip


def _of(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"mlx_vlm.models.{module}"), name)


def _offset(call: Any, head_dim: int) -> Implementation:
    """Adapt ``call(x, offset=)`` for x (B, H, S, D)."""
    import mlx.core as mx

    def apply(x: Any, positions: Any) -> Any:
        given = mx.array(np.ascontiguousarray(x))  # MLX takes no negative strides
        return np.array(call(given, offset=window_start(positions)))

    return Implementation(apply, "apply", LIBRARY, head_dim=head_dim)


def _layer(path: str, *args: Any, **settings: Any) -> Implementation:
    return _offset(_of(path)(*args, **settings), args[0])


def _initialize_rope(config: dict[str, Any], expected: RoPE) -> Implementation:
    traditional = expected.layout == "interleaved"
    rope = _of("rope_utils.initialize_rope")(
        expected.head_dim, expected.base, traditional, config or None, 131072
    )
    return _offset(rope, expected.head_dim)


def _internlm(model: str) -> Implementation:
    """Adapt the layer of an attention with the released settings, but another factor."""
    kind = {"type": "dynamic", "rope_type": "dynamic", "factor": 8.0}
    args = _of(f"{model}.config.ModelConfig").from_dict({
        "model_type": model, "hidden_size": 64, "num_hidden_layers": 1, "intermediate_size": 8,
        "num_attention_heads": 1, "num_key_value_heads": 1, "rms_norm_eps": 1e-6, "vocab_size": 9,
        "max_position_embeddings": 32768, "rope_theta": 1e6, "rope_scaling": kind,
        "bias": False, "qkv_bias": False, "head_dim": 64,
    })  # fmt: skip
    return _offset(_of(f"{model}.language.Attention")(args).rope, 64)


def _mrope(style: str, sections: tuple[int, ...]) -> Implementation:
    import mlx.core as mx

    layer = _of("rope_utils.MRoPERotaryEmbedding")(128, mrope_section=sections, style=style)

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim == 3 else positions[:, None]
        rows = np.broadcast_to(rows, (3, len(x), rows.shape[-1]))
        y = mx.array(np.ascontiguousarray(x))
        return np.array(layer.apply_rotary(y, y, mx.array(np.ascontiguousarray(rows)))[0])

    return Implementation(apply, "apply", LIBRARY, head_dim=128, axes=3)


def _on_grids(call: Any, grid: Grid | None = None) -> Implementation:
    """Adapt ``call(x (B, H, N, D) of MLX, sizes)``, which rotates the patches of a grid."""
    import mlx.core as mx

    grid = grid or Grid(2)

    def apply(x: Any, positions: Any) -> Any:
        rows = positions if positions.ndim == 3 else positions[:, None]
        rows = np.broadcast_to(rows, (2, len(x), rows.shape[-1]))

        def turned(given: dict[str, Any], sizes: tuple[int, ...]) -> Any:
            return np.array(call(mx.array(np.ascontiguousarray(given["x"])), sizes))

        return whole(grid, turned, {"x": x}, rows, "bhsd")

    return Implementation(apply, "apply", LIBRARY, head_dim=64, axes=2, how=grid.words)


def _tower(model: str) -> Implementation:
    import mlx.core as mx

    module = _of(f"{model}.vision.VisionRotaryEmbedding")(32)
    rotate = _of(f"{model}.vision.apply_rotary_pos_emb_vision")

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        longest = max(sizes)
        table = module(longest if model == "qwen3_vl" else mx.array(longest))
        row, column = (mx.array(n.reshape(-1)) for n in np.indices(sizes))
        angles = mx.concatenate([table[row], table[column]], axis=-1)
        each = [rotate(one.transpose(1, 0, 2), angles)[0] for one in x]
        return mx.stack(each).transpose(0, 2, 1, 3)

    return _on_grids(call)


def _pixtral() -> Implementation:
    import types

    import mlx.core as mx

    settings = {"head_dim": 64, "rope_theta": 10000.0, "image_size": 64 * 16, "patch_size": 16}
    module = _of("pixtral.vision.PixtralRotaryEmbedding")(types.SimpleNamespace(**settings))
    number = _of("pixtral.vision.position_ids_in_meshgrid")
    rotate = _of("pixtral.vision.apply_rotary_pos_emb")

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        if max(sizes) > 64:
            raise ValueError("the sides of a grid must be at most 64 patches")
        cos, sin = module(x, number([mx.zeros(sizes)], 64))
        return rotate(x, x, cos[None], sin[None])[0]

    return _on_grids(call)


def _kimi() -> Implementation:
    import mlx.core as mx

    module = _of("kimi_vl.vision.Rope2DPosEmb")(64, 64, 64)
    rotate = _of("kimi_vl.vision.apply_rope")

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        if max(sizes) > 64:
            raise ValueError("the sides of a grid must be at most 64 patches")
        table = module.get_freqs_cis(mx.array([sizes]))
        each = [rotate(y, y, table)[0] for y in x.transpose(0, 2, 1, 3)]
        return mx.stack(each).transpose(0, 2, 1, 3)

    return _on_grids(call)


def _step() -> Implementation:
    module = _of("step3p7.vision.EncoderRope2D")(64, 64, 64)
    return _on_grids(lambda x, sizes: module(x, x, sizes)[0])


def _dinov3() -> Implementation:
    module, rotate = _of("sam3d_body.rope.DINOv3RoPE")(64), _of("sam3d_body.rope.apply_rope")

    def call(x: Any, sizes: tuple[int, ...]) -> Any:
        sin, cos = module(*sizes)
        return rotate(x, x, sin, cos, 0)[0]

    return _on_grids(call, Grid(2, own=(_SIDE, _SIDE)))


def _get_rope_index(model: str) -> Implementation:
    import types

    import mlx.core as mx

    vision = types.SimpleNamespace(spatial_merge_size=2, tokens_per_second=2)
    config = types.SimpleNamespace(vision_config=vision, **TOKEN_IDS)
    holder = types.SimpleNamespace(config=config)
    call = _of(f"{model}.language.LanguageModel").get_rope_index

    def ids(
        token_types: Any, image_grids: Any, video_grids: Any, seconds: Any, mask: Any, n_steps: int
    ) -> Any:
        types_, kept = np.asarray(token_types), np.asarray(mask)
        tokens = mx.array(token_ids(types_, kept, TOKEN_IDS))
        grids = [mx.array(np.asarray(g)) if len(g) else None for g in (image_grids, video_grids)]
        found, deltas = call(holder, tokens, *grids, mx.array(kept))
        prompt = np.array(found).astype(np.int64)
        prompt = np.broadcast_to(prompt, (3, *types_.shape))
        # A cache of a batch counts the tokens of a row without its padding.
        offsets = (kept == 1).sum(axis=1, keepdims=True) + np.array(deltas).reshape(-1, 1)
        later = offsets + np.arange(n_steps)
        return np.concatenate([prompt, np.broadcast_to(later, (3, *later.shape))], axis=2)

    return Implementation(ids, SURFACE, LIBRARY)


def _rt_detr() -> Implementation:
    module = _of("rt_detr_v2.vision.SinePositionEmbedding")(64)
    return Implementation(lambda h, w: np.array(module(h, w))[0], "grid", LIBRARY)


def _sinusoids() -> Implementation:
    module = _of("qwen3_omni_moe.audio.SinusoidsPositionEmbedding")(4096, 64)

    def rows(positions: Any) -> Any:
        require_indices(positions)
        return np.array(module(4096))[positions]

    return Implementation(rows, "table", LIBRARY)
