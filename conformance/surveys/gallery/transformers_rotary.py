"""Rotary functions of ``transformers``: one or more of every convention that it has.

Settings are those of released checkpoints; sizes that have nothing to do with positions are small.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

from posenc_ref import (
    DynamicNTK,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    MultiAxisRoPE,
    Proportional,
    RoPE,
    YaRN,
)
from posenc_ref.conformance.harness.implementation import Implementation

from .entry import Entry

LIBRARY = "transformers"
#: Four heads of 64 or of 128 channels.
_64 = {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 4}
_128 = {"hidden_size": 512, "num_attention_heads": 4, "num_key_value_heads": 4}
_LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
_DEEPSEEK = {
    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "mscale": 1.0,
    "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
    "original_max_position_embeddings": 4096,
}  # fmt: skip
_GPT_OSS = {
    "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0, "beta_fast": 32.0,
    "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096,
}  # fmt: skip
#: As long as Phi-3's, 48 numbers of two decimals, and as far apart.
SHORT = tuple((100 + 5 * k) / 100 for k in range(48))
LONG = tuple((100 + 3 * k * k) / 100 for k in range(48))
_PHI3 = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": list(SHORT),
    "long_factor": list(LONG), "original_max_position_embeddings": 4096,
}  # fmt: skip
_PHI3_SIZES = {"hidden_size": 384, "num_attention_heads": 4, "num_key_value_heads": 4}
_GEMMA3 = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
}
_MROPE = {"rope_type": "default", "rope_theta": 1000000.0, "mrope_section": [16, 24, 24]}
_QWEN3_VL = {
    "rope_type": "default", "rope_theta": 5000000.0, "mrope_section": [24, 20, 20],
    "mrope_interleaved": True,
}  # fmt: skip


def _build(
    model: str,
    module: str,
    config: str,
    settings: dict[str, Any],
    layer_type: str | None = None,
    surface: str | None = None,
) -> Implementation:
    """A module in a container that has its configuration, as a model has."""
    import torch

    from posenc_ref.conformance.adapters import from_transformers

    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    configuration = importlib.import_module(f"transformers.models.{model}.configuration_{model}")
    box = torch.nn.Module()
    box.config = getattr(configuration, config)(**settings)
    box.inside = getattr(modeling, module)(box.config)
    return from_transformers(box.eval(), layer_type=layer_type, surface=surface)


def _entry(
    name: str,
    functions: str,
    built: tuple[str, str, str, dict[str, Any]],
    expected: Any,
    layer_type: str | None = None,
    surface: str | None = None,
    **more: Any,
) -> Entry:
    source = f"models/{built[0]}/modeling_{built[0]}.py: {functions}"
    build = partial(_build, *built, layer_type, surface)
    return Entry(f"transformers {name}", LIBRARY, source, build, expected, **more)


def entries() -> list[Entry]:
    """Rotary functions of text models, then of images and videos."""
    return [*_text(), *_scaled(), *_several_axes()]


def _text() -> list[Entry]:
    llama = ("llama", "LlamaRotaryEmbedding", "LlamaConfig")
    gemma = ("gemma3", "Gemma3RotaryEmbedding", "Gemma3TextConfig",
             _64 | {"head_dim": 64, "rope_parameters": _GEMMA3})  # fmt: skip
    apply = "apply_rotary_pos_emb"
    return [
        _entry(
            "Llama",
            f"LlamaRotaryEmbedding, {apply}",
            (*llama, _128),
            RoPE(128, layout="half"),
            fast=True,
        ),
        _entry(
            "Llama, its table",
            "LlamaRotaryEmbedding.forward",
            (*llama, _64),
            RoPE(64, layout="half"),
            surface="cos_sin",
        ),
        _entry(
            "GPT-NeoX, a quarter of the head",
            f"GPTNeoXRotaryEmbedding, {apply}",
            (
                "gpt_neox", "GPTNeoXRotaryEmbedding", "GPTNeoXConfig",
                _64 | {"rope_parameters": {
                    "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                }},
            ),
            RoPE(64, layout="half", rotary_dim=16),
        ),
        _entry(
            "GPT-J",
            f"create_sinusoidal_positions, {apply}, GPTJAttention.forward",
            ("gptj", "GPTJAttention", "GPTJConfig",
             {"n_embd": 512, "n_head": 2, "rotary_dim": 64, "n_positions": 2048}),
            RoPE(256, layout="interleaved", rotary_dim=64),
        ),
        _entry(
            "CodeGen",
            f"create_sinusoidal_positions, {apply}, CodeGenAttention.forward",
            ("codegen", "CodeGenAttention", "CodeGenConfig",
             {"n_embd": 512, "n_head": 8, "rotary_dim": 32, "n_positions": 2048}),
            RoPE(64, layout="interleaved", rotary_dim=32),
        ),
        _entry(
            "GLM",
            f"GlmRotaryEmbedding, {apply}",
            ("glm", "GlmRotaryEmbedding", "GlmConfig", _128 | {"head_dim": 128}),
            RoPE(128, layout="interleaved", rotary_dim=64),
            says="partial_rotary_factor is 0.5 unless configured",
        ),
        _entry(
            "Cohere",
            f"CohereRotaryEmbedding, {apply}, rotate_half",
            ("cohere", "CohereRotaryEmbedding", "CohereConfig", _128 | {"rope_parameters": {
                "rope_type": "default", "rope_theta": 4000000.0}}),
            RoPE(128, layout="interleaved", base=4e6),
        ),
        _entry(
            "Gemma 3, layers with a window",
            f"Gemma3RotaryEmbedding, {apply}",
            gemma,
            RoPE(64, layout="half"),
            layer_type="sliding_attention",
        ),
        _entry(
            "Gemma 3, layers without",
            f"Gemma3RotaryEmbedding, {apply}",
            gemma,
            RoPE(64, layout="half", base=1e6, scaling=LinearScaling(8.0)),
            layer_type="full_attention",
        ),
        _entry(
            "Nemotron",
            f"NemotronRotaryEmbedding, {apply}",
            ("nemotron", "NemotronRotaryEmbedding", "NemotronConfig", _64 | {"head_dim": 64}),
            RoPE(64, layout="half", rotary_dim=32),
            says="partial_rotary_factor is 0.5 unless configured",
        ),
        _entry(
            "Falcon",
            f"FalconRotaryEmbedding, {apply}",
            ("falcon", "FalconRotaryEmbedding", "FalconConfig",
             {"hidden_size": 256, "num_attention_heads": 4}),
            RoPE(64, layout="half"),
        ),
        _entry(
            "Llama 4",
            "Llama4TextRotaryEmbedding, apply_rotary_emb",
            ("llama4", "Llama4TextRotaryEmbedding", "Llama4TextConfig",
             _128 | {"head_dim": 128, "rope_parameters": {
                 "rope_type": "default", "rope_theta": 500000.0}}),
            RoPE(128, layout="interleaved", base=500000.0),
            says="complex numbers",
        ),
        _entry(
            "RoFormer",
            "RoFormerSinusoidalPositionalEmbedding, RoFormerSelfAttention.apply_rotary_...",
            ("roformer", "RoFormerModel", "RoFormerConfig",
             {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 1,
              "intermediate_size": 8, "vocab_size": 9, "max_position_embeddings": 1536}),
            RoPE(64, layout="interleaved"),
        ),
        _entry(
            "ESM",
            f"EsmRotaryEmbedding, {apply}",
            ("esm", "EsmRotaryEmbedding", "EsmConfig",
             {"hidden_size": 256, "num_attention_heads": 4,
              "position_embedding_type": "rotary"}),
            RoPE(64, layout="half"),
        ),
    ]  # fmt: skip


def _scaled() -> list[Entry]:
    llama = ("llama", "LlamaRotaryEmbedding", "LlamaConfig")
    apply = "apply_rotary_pos_emb"
    rules = "; modeling_rope_utils.py: "
    return [
        _entry(
            "Llama 3.1",
            f"LlamaRotaryEmbedding, {apply}{rules}_compute_llama3_parameters",
            (*llama, _128 | {"rope_parameters": _LLAMA3}),
            RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
        ),
        _entry(
            "Llama, dynamic NTK",
            f"LlamaRotaryEmbedding, {apply}{rules}_compute_dynamic_ntk_parameters",
            (*llama, _64 | {"max_position_embeddings": 2048, "rope_parameters": _DYNAMIC}),
            RoPE(64, layout="half", scaling=DynamicNTK(2.0, 2048)),
            deviations=("state",),
            remark="A call between the original length and the longest one so far gets the "
                   "frequencies of that longest call, of another request too "
                   "(dynamic_rope_update; huggingface/transformers#27227).",
        ),
        _entry(
            "Phi-3, LongRoPE",
            f"Phi3RotaryEmbedding, {apply}{rules}_compute_longrope_parameters",
            ("phi3", "Phi3RotaryEmbedding", "Phi3Config", _PHI3_SIZES | {
                "max_position_embeddings": 131072,
                "original_max_position_embeddings": 4096, "rope_parameters": _PHI3}),
            RoPE(96, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, factor=32.0)),
        ),
        _entry(
            "gpt-oss, YaRN",
            f"GptOssRotaryEmbedding, {apply}{rules}_compute_yarn_parameters",
            ("gpt_oss", "GptOssRotaryEmbedding", "GptOssConfig",
             _64 | {"head_dim": 64, "rope_parameters": _GPT_OSS}),
            RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)),
        ),
        _entry(
            "DeepSeek-V3, YaRN",
            f"DeepseekV3RotaryEmbedding, apply_rotary_pos_emb_interleave{rules}"
            "_compute_yarn_parameters",
            ("deepseek_v3", "DeepseekV3RotaryEmbedding", "DeepseekV3Config",
             {"rope_parameters": _DEEPSEEK}),
            RoPE(64, layout="interleaved", output_layout="half",
                 scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)),
            says="reads pairs (2k, 2k+1) and writes halves; the two mscales cancel",
        ),
        _entry(
            "Gemma 4, proportional",
            f"Gemma4TextRotaryEmbedding, {apply}{rules}_compute_proportional_rope_parameters",
            ("gemma4", "Gemma4TextRotaryEmbedding", "Gemma4TextConfig", {}),
            RoPE(512, layout="half", base=1e6, scaling=Proportional(0.25)),
            layer_type="full_attention",
        ),
    ]  # fmt: skip


def _several_axes() -> list[Entry]:
    apply = "apply_rotary_pos_emb"
    return [
        _entry(
            "Qwen2-VL, M-RoPE",
            "Qwen2VLRotaryEmbedding, apply_multimodal_rotary_pos_emb",
            ("qwen2_vl", "Qwen2VLRotaryEmbedding", "Qwen2VLTextConfig",
             _128 | {"rope_parameters": _MROPE}),
            MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6),
        ),
        _entry(
            "Qwen3-VL, interleaved M-RoPE",
            f"Qwen3VLTextRotaryEmbedding.recomposition_frequencies, {apply}",
            ("qwen3_vl", "Qwen3VLTextRotaryEmbedding", "Qwen3VLTextConfig",
             _128 | {"head_dim": 128, "rope_parameters": _QWEN3_VL}),
            MultiAxisRoPE(
                128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6),
        ),
        _entry(
            "Qwen2-VL, vision tower",
            "Qwen2VLVisionRotaryEmbedding, apply_rotary_pos_emb_vision",
            ("qwen2_vl", "Qwen2VLVisionRotaryEmbedding", "Qwen2VLVisionConfig",
             {"embed_dim": 320, "num_heads": 4}),
            MultiAxisRoPE(80, sections=(20, 20), layout="half", spacing="restart"),
        ),
        _entry(
            "Pixtral, vision tower",
            f"PixtralVisionRotaryEmbedding, {apply}",
            ("pixtral", "PixtralVisionRotaryEmbedding", "PixtralVisionConfig",
             {"hidden_size": 256, "num_attention_heads": 4}),
            MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="strided"),
        ),
        _entry(
            "DINOv3, vision tower",
            f"DINOv3ViTRopePositionEmbedding, get_patches_center_coordinates, {apply}",
            ("dinov3_vit", "DINOv3ViTRopePositionEmbedding", "DINOv3ViTConfig",
             {"hidden_size": 384, "num_attention_heads": 6}),
            # 160 x 160 patches: patch i is centred at (2 i + 1) / 160 - 1.
            MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart", base=100.0,
                          offset=-79.5, position_scale=_DINOV3),
            says="positions are centres of patches in [-1, 1], here of an image of 160 x 160",
        ),
        _entry(
            "Llama 4, vision tower",
            "Llama4VisionRotaryEmbedding, vision_apply_rotary_emb",
            ("llama4", "Llama4VisionRotaryEmbedding", "Llama4VisionConfig",
             {"hidden_size": 256, "num_attention_heads": 4, "image_size": 160 * 14}),
            # Axis 0 is the row, axis 1 the column, and columns have the first pairs.
            MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart",
                          arrangement=(1,) * 16 + (0,) * 16, offset=1.0),
            says="counts from 1; the first half of the pairs follows the column",
        ),
    ]  # fmt: skip


_DINOV3 = 2 * 3.141592653589793 * 2 / 160
