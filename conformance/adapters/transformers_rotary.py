"""Rotary functions of ``transformers``: at least one for each of its conventions.

Settings are those of released checkpoints; sizes that do not affect positions are small.
"""

from __future__ import annotations

import inspect
import math
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

from .library import VECTORS, LibraryFunction, functions_of
from .transformers import from_transformers
from .transformers_config import configured, file_of

#: Configurations with four heads of 64, 96 or 128 channels.
_64, _96, _128 = (
    {"hidden_size": 4 * d, "num_attention_heads": 4, "num_key_value_heads": 4}
    for d in (64, 96, 128)
)
#: The same, for configurations that require the head size.
_HEAD_64, _HEAD_128 = _64 | {"head_dim": 64}, _128 | {"head_dim": 128}


def _parameters(base: float, rope_type: str = "default", **settings: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": base, **settings}}


_LLAMA3 = _parameters(
    500000.0, "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=8192,
)  # fmt: skip
_DEEPSEEK = _parameters(
    10000.0, "yarn", factor=40.0, mscale=1.0, mscale_all_dim=1.0, beta_fast=32, beta_slow=1,
    original_max_position_embeddings=4096,
)  # fmt: skip
_GPT_OSS = _parameters(
    150000.0, "yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
    original_max_position_embeddings=4096,
)  # fmt: skip
#: LongRoPE factors like Phi-3's: 48 numbers with two decimals.
SHORT = tuple((100 + 5 * k) / 100 for k in range(48))
LONG = tuple((100 + 3 * k * k) / 100 for k in range(48))
_PHI3 = _parameters(
    10000.0, "longrope", short_factor=list(SHORT), long_factor=list(LONG),
    original_max_position_embeddings=4096,
)  # fmt: skip
_GEMMA3 = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
}
_MROPE = _parameters(1000000.0, mrope_section=[16, 24, 24])
_QWEN3_VL = _parameters(5000000.0, mrope_section=[24, 20, 20], mrope_interleaved=True)
_APPLY = "apply_rotary_pos_emb"
#: The patches per side of an image; DINOv3 puts patch i at (2 i + 1) / 160 - 1.
_SIDE = 160


def _build(
    model: str, module: str, config: str, settings: dict[str, Any], layer_type: str | None,
    surface: str | None,
) -> Implementation:  # fmt: skip
    """Build a module inside a container that also has its configuration, like a model."""
    import torch

    box = torch.nn.Module()
    box.config = configured(model, config, settings)
    cls = getattr(file_of(model), module)
    # Before transformers 4.48 it is not the first parameter.
    named = "config" in inspect.signature(cls).parameters
    box.inside = cls(config=box.config) if named else cls(box.config)
    return from_transformers(box.eval(), layer_type=layer_type, surface=surface)


def _function(
    name: str,
    model: str,
    prefix: str,  #: the prefix of the class names of the module and its configuration
    settings: dict[str, Any],
    expected: RoPE | MultiAxisRoPE,
    functions: str = f"{{module}}, {_APPLY}",
    *,
    module: str = "RotaryEmbedding",
    config: str = "Config",
    layer_type: str | None = None,
    surface: str | None = None,
    **more: Any,
) -> LibraryFunction:
    cls = prefix + module
    build = partial(_build, model, cls, prefix + config, settings, layer_type, surface)
    function = functions_of("transformers", f"models/{model}/modeling_{model}.py: ")
    return function(name, functions.format(module=cls), build, expected, **more)


def functions() -> list[LibraryFunction]:
    """Return rotary functions of text models, then of images and videos."""
    return [*_text(), *_scaled(), *_several_axes()]


def _text() -> list[LibraryFunction]:
    sinusoids = f"create_sinusoidal_positions, {_APPLY}, {{module}}.forward"
    half = "the default of partial_rotary_factor is 0.5"
    gemma = ("gemma3", "Gemma3", _HEAD_64 | {"rope_parameters": _GEMMA3})
    return [
        _function("Llama", "llama", "Llama", _128, RoPE(128, layout="half"), fast=True,
                  dtypes=VECTORS),
        _function("Llama, its table", "llama", "Llama", _64, RoPE(64, layout="half"),
                  "{module}.forward", surface="cos_sin"),
        _function("GPT-NeoX, a quarter of the head", "gpt_neox", "GPTNeoX",
                  _64 | _parameters(10000.0, partial_rotary_factor=0.25),
                  RoPE(64, layout="half", rotary_dim=16), dtypes=VECTORS),
        _function("GPT-J", "gptj", "GPTJ",
                  {"n_embd": 512, "n_head": 2, "rotary_dim": 64, "n_positions": 2048},
                  RoPE(256, layout="interleaved", rotary_dim=64), sinusoids, module="Attention",
                  dtypes=VECTORS),
        _function("CodeGen", "codegen", "CodeGen",
                  {"n_embd": 512, "n_head": 8, "rotary_dim": 32, "n_positions": 2048},
                  RoPE(64, layout="interleaved", rotary_dim=32), sinusoids, module="Attention"),
        _function("GLM", "glm", "Glm", _HEAD_128, RoPE(128, layout="interleaved", rotary_dim=64),
                  says=half),
        _function("Cohere", "cohere", "Cohere", _128 | _parameters(4000000.0),
                  RoPE(128, layout="interleaved", base=4e6), f"{{module}}, {_APPLY}, rotate_half",
                  dtypes=VECTORS),
        _function("Gemma 3, layers with a window", *gemma, RoPE(64, layout="half"),
                  config="TextConfig", layer_type="sliding_attention"),
        _function("Gemma 3, layers without", *gemma,
                  RoPE(64, layout="half", base=1e6, scaling=LinearScaling(8.0)),
                  config="TextConfig", layer_type="full_attention", dtypes=VECTORS),
        _function("Nemotron", "nemotron", "Nemotron", _HEAD_64,
                  RoPE(64, layout="half", rotary_dim=32), says=half),
        _function("Falcon", "falcon", "Falcon", {"hidden_size": 256, "num_attention_heads": 4},
                  RoPE(64, layout="half")),
        _function("Llama 4", "llama4", "Llama4Text", _HEAD_128 | _parameters(500000.0),
                  RoPE(128, layout="interleaved", base=500000.0), "{module}, apply_rotary_emb",
                  says="complex numbers"),
        _function("RoFormer", "roformer", "RoFormer",
                  {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 1,
                   "intermediate_size": 8, "vocab_size": 9, "max_position_embeddings": 1536},
                  RoPE(64, layout="interleaved"),
                  "RoFormerSinusoidalPositionalEmbedding, RoFormerSelfAttention.apply_rotary_...",
                  module="Model"),
        _function("ESM", "esm", "Esm", {"hidden_size": 256, "num_attention_heads": 4,
                                        "position_embedding_type": "rotary"},
                  RoPE(64, layout="half")),
    ]  # fmt: skip


def _scaled() -> list[LibraryFunction]:
    def rule(name: str) -> str:
        return f"{{module}}, {_APPLY}; modeling_rope_utils.py: _compute_{name}_parameters"

    return [
        _function("Llama 3.1", "llama", "Llama", _128 | _LLAMA3,
                  RoPE(128, layout="half", base=500000.0,
                       scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), rule("llama3")),
        _function("Llama, dynamic NTK", "llama", "Llama",
                  _64 | {"max_position_embeddings": 2048}
                  | _parameters(10000.0, "dynamic", factor=2.0),
                  RoPE(64, layout="half", scaling=DynamicNTK(2.0, 2048)), rule("dynamic_ntk"),
                  deviations=("state",),
                  remark="The frequencies are those of the longest call so far, even of another "
                         "request. A call no longer than the original length resets them "
                         "(dynamic_rope_update; huggingface/transformers#27227)."),
        _function("Phi-3, LongRoPE", "phi3", "Phi3",
                  _96 | {"max_position_embeddings": 131072,
                         "original_max_position_embeddings": 4096} | _PHI3,
                  RoPE(96, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, factor=32.0)),
                  rule("longrope")),
        _function("gpt-oss, YaRN", "gpt_oss", "GptOss", _HEAD_64 | _GPT_OSS,
                  RoPE(64, layout="half", base=150000.0,
                       scaling=YaRN(32.0, 4096, truncate=False)), rule("yarn")),
        # transformers 4 takes the factor from the two lengths.
        _function("DeepSeek-V3, YaRN", "deepseek_v3", "DeepseekV3",
                  {"max_position_embeddings": 163840} | _DEEPSEEK,
                  RoPE(64, layout="interleaved", output_layout="half",
                       scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)),
                  rule("yarn").replace(_APPLY, f"{_APPLY}_interleave"),
                  says="the input pairs channels (2k, 2k+1), the output (k, k + d/2); mscale and "
                       "mscale_all_dim cancel"),
        _function("Gemma 4, proportional", "gemma4", "Gemma4Text", {},
                  RoPE(512, layout="half", base=1e6, scaling=Proportional(0.25)),
                  rule("proportional_rope"), layer_type="full_attention"),
    ]  # fmt: skip


def _several_axes() -> list[LibraryFunction]:
    vision = partial(_function, config="VisionConfig")
    return [
        _function("Qwen2-VL, M-RoPE", "qwen2_vl", "Qwen2VL", _128 | _MROPE,
                  MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6),
                  "{module}, apply_multimodal_rotary_pos_emb", config="TextConfig"),
        _function("Qwen3-VL, interleaved M-RoPE", "qwen3_vl", "Qwen3VLText", _HEAD_128 | _QWEN3_VL,
                  MultiAxisRoPE(128, sections=(24, 20, 20), layout="half",
                                arrangement="interleaved", base=5e6),
                  f"{{module}}.recomposition_frequencies, {_APPLY}"),
        vision("Qwen2-VL, vision tower", "qwen2_vl", "Qwen2VL", {"embed_dim": 320, "num_heads": 4},
               MultiAxisRoPE(80, sections=(20, 20), layout="half", spacing="restart"),
               "{module}, apply_rotary_pos_emb_vision", module="VisionRotaryEmbedding"),
        vision("Pixtral, vision tower", "pixtral", "Pixtral",
               {"hidden_size": 256, "num_attention_heads": 4},
               MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="strided"),
               module="VisionRotaryEmbedding"),
        _function("DINOv3, vision tower", "dinov3_vit", "DINOv3ViT",
                  {"hidden_size": 384, "num_attention_heads": 6},
                  MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart", base=100.0,
                                offset=(1 - _SIDE) / 2, position_scale=2 * math.pi * 2 / _SIDE),
                  f"{{module}}, get_patches_center_coordinates, {_APPLY}",
                  module="RopePositionEmbedding",
                  says="positions are the centres of patches, from -1 to 1; the image has "
                       "160 x 160 patches"),
        # Axis 0 is the row, axis 1 the column; the first pairs encode columns.
        vision("Llama 4, vision tower", "llama4", "Llama4",
               {"hidden_size": 256, "num_attention_heads": 4, "image_size": _SIDE * 14},
               MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart",
                             arrangement=(1,) * 16 + (0,) * 16, offset=1.0),
               "{module}, vision_apply_rotary_emb", module="VisionRotaryEmbedding",
               says="positions start at 1; the first half of the pairs encodes the column"),
    ]  # fmt: skip
