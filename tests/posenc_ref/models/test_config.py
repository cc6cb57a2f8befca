"""Configurations as they are published, against encodings written by hand."""

import json
import math

import pytest

import posenc_ref as pr
from posenc_ref import (
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    MultiAxisRoPE,
    RoPE,
    YaRN,
    from_config,
)

LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
DEEPSEEK = {
    "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
    "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
}  # fmt: skip
OURS = YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
G = 0.1 * math.log(40) + 1

ONE_TABLE = [
    (
        {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32},
        RoPE(128, layout="half"),
    ),
    (
        {"model_type": "llama", "head_dim": 64, "rope_theta": 500000.0, "rope_scaling": LLAMA3},
        RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
    ),
    (
        {"model_type": "gpt_neox", "hidden_size": 6144, "num_attention_heads": 64,
         "rotary_pct": 0.25, "rotary_emb_base": 10000},
        RoPE(96, layout="half", rotary_dim=24),
    ),
    (
        {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "rotary_dim": 64},
        RoPE(256, layout="interleaved", rotary_dim=64),
    ),
    (
        {"model_type": "phi", "hidden_size": 2560, "num_attention_heads": 32,
         "partial_rotary_factor": 0.4},
        RoPE(80, layout="half", rotary_dim=32),
    ),
    (
        {"model_type": "mimo_v2_flash", "head_dim": 192, "num_hidden_layers": 1,
         "rope_parameters": {
             "full_attention": {"rope_theta": 5e6, "partial_rotary_factor": 0.334}}},
        RoPE(192, layout="half", base=5e6, rotary_dim=64),  # int(64.128), truncated
    ),
    (
        {"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28, "rope_theta": 1e6,
         "rope_scaling": {"type": "yarn", "factor": 4.0,
                          "original_max_position_embeddings": 32768}},
        RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768)),
    ),
    (
        {"model_type": "phi3", "hidden_size": 16, "num_attention_heads": 2, "rope_theta": 10000.0,
         "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
         "rope_scaling": {"type": "su", "short_factor": [1.0, 1.1, 1.2, 1.3],
                          "long_factor": [1.0, 2.0, 3.0, 4.0]}},
        RoPE(8, layout="half", scaling=LongRoPE(
            (1.0, 1.1, 1.2, 1.3), (1.0, 2.0, 3.0, 4.0), 4096, factor=32.0)),
    ),
    (
        {"model_type": "glm4", "head_dim": 128, "partial_rotary_factor": 0.5},
        RoPE(128, layout="interleaved", rotary_dim=64),
    ),
    (
        {"model_type": "gpt_oss", "head_dim": 64, "rope_theta": 150000,
         "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                          "truncate": False, "original_max_position_embeddings": 4096}},
        RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)),
    ),
    (
        {"model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_theta": 10000.0,
         "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32,
                          "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}},
        RoPE(128, layout="half", scaling=pr.NTKScaling(1000.0)),
    ),
    (
        {"model_type": "internlm3", "head_dim": 128, "max_position_embeddings": 32768,
         "rope_scaling": {"rope_type": "dynamic", "factor": 6.0}, "rope_theta": 5e7},
        RoPE(128, layout="half", base=5e7, scaling=pr.DynamicNTK(6.0, 32768)),
    ),
    (
        {"model_type": "nanochat", "hidden_size": 768, "num_attention_heads": 6},
        RoPE(128, layout="half", sign=-1),
    ),
    (
        {"model_type": "minimax_m2", "head_dim": 128, "rotary_dim": 64, "rope_theta": 5000000},
        RoPE(128, layout="half", base=5e6, rotary_dim=64),
    ),
    (
        {"model_type": "minicpm3", "qk_nope_head_dim": 64, "qk_rope_head_dim": 32},
        RoPE(96, layout="half", rotary_dim=32, rotary_start=64),
    ),
    (
        {"model_type": "qwen2_5_omni_dit", "head_dim": 64},
        RoPE(64, layout="interleaved", output_layout="half"),
    ),
    (
        {"model_type": "qwen2_vl", "hidden_size": 3584, "num_attention_heads": 28,
         "rope_theta": 1000000.0, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
         "vision_config": {"model_type": "qwen2_vl", "embed_dim": 1280}},
        MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6),
    ),
    (
        {"model_type": "qwen3_vl", "text_config": {
            "model_type": "qwen3_vl_text", "head_dim": 128, "rope_theta": 5000000,
            "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20],
                             "rope_type": "default"}}},
        MultiAxisRoPE(128, sections=(24, 20, 20), arrangement="interleaved", layout="half",
                      base=5e6),
    ),
    (
        {"model_type": "glm4v", "text_config": {
            "head_dim": 128, "partial_rotary_factor": 0.5,
            "rope_scaling": {"rope_type": "default", "mrope_section": [8, 12, 12]}}},
        MultiAxisRoPE(128, sections=(8, 12, 12), layout="interleaved"),
    ),
    (
        {"model_type": "ernie4_5_vl_moe_text", "hidden_size": 2560, "num_attention_heads": 20,
         "rope_theta": 500000.0, "rope_parameters": {"mrope_section": [22, 22, 20]}},
        MultiAxisRoPE(128, sections=(20, 22, 22), arrangement=(1, 2) * 22 + (0,) * 20,
                      layout="interleaved", base=500000.0),
    ),
    (
        {"model_type": "hunyuan_vl_text", "head_dim": 128,
         "rope_scaling": {"type": "xdrope", "alpha": 1000.0, "factor": 1.0,
                          "xdrope_section": [16, 16, 16, 16]}},
        MultiAxisRoPE(128, sections=(16, 16, 16, 16), layout="half",
                      scaling=pr.NTKScaling(1000.0)),
    ),
    (
        {"model_type": "zamba2", "hidden_size": 2560, "num_attention_heads": 32,
         "use_mem_rope": True},
        RoPE(160, layout="half"),
    ),
    (
        {"model_type": "esm", "hidden_size": 1280, "num_attention_heads": 20,
         "position_embedding_type": "rotary"},
        RoPE(64, layout="half"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "encoding"), ONE_TABLE, ids=lambda c: str(c)[:40])
def test_one_table(config, encoding):
    before = json.dumps(config)
    model = from_config(config)
    assert model.only == encoding
    assert json.dumps(config) == before, "the configuration was changed"
    assert pr.from_dict(json.loads(json.dumps(model.to_dict()))) == model
    assert model.provenance["layout"].startswith("transformers 5.")


SEVERAL = [
    (
        {"model_type": "gemma3_text", "head_dim": 256, "num_hidden_layers": 12,
         "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "query_pre_attn_scalar": 256},
        {"sliding_attention": RoPE(256, layout="half"),
         "full_attention": RoPE(256, layout="half", base=1e6, scaling=LinearScaling(8.0))},
        {"full_attention": (5, 11)}, None,
    ),
    (
        {"model_type": "gemma3_text", "head_dim": 128, "num_hidden_layers": 6,
         "query_pre_attn_scalar": 168},
        {"sliding_attention": RoPE(128, layout="half"),
         "full_attention": RoPE(128, layout="half", base=1e6)},
        {"full_attention": (5,)}, 168**-0.5,
    ),
    (
        {"model_type": "gemma4_text", "num_hidden_layers": 6, "head_dim": 256,
         "global_head_dim": 512},
        {"sliding_attention": RoPE(256, layout="half"),
         "full_attention": RoPE(512, layout="half", base=1e6, scaling=pr.Proportional(0.25))},
        {"full_attention": (5,)}, 1.0,
    ),
    (
        {"model_type": "modernbert", "hidden_size": 768, "num_attention_heads": 12,
         "num_hidden_layers": 4, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0},
        {"full_attention": RoPE(64, layout="half", base=160000.0),
         "sliding_attention": RoPE(64, layout="half")},
        {"full_attention": (0, 3)}, None,
    ),
    (
        {"model_type": "olmo3", "head_dim": 128, "num_hidden_layers": 4, "rope_theta": 500000,
         "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "attention_factor": 1.2,
                          "original_max_position_embeddings": 8192}},
        {"sliding_attention": RoPE(128, layout="half", base=5e5),
         "full_attention": RoPE(128, layout="half", base=5e5,
                                scaling=YaRN(8.0, 8192, attention_factor=1.2))},
        {"full_attention": (3,)}, None,
    ),
    (
        {"model_type": "cohere2", "hidden_size": 4096, "num_attention_heads": 32,
         "num_hidden_layers": 4, "rope_theta": 50000},
        {"sliding_attention": RoPE(128, layout="interleaved", base=50000.0),
         "full_attention": None},
        {"full_attention": (3,)}, None,
    ),
    (
        {"model_type": "smollm3", "hidden_size": 2048, "num_attention_heads": 16,
         "num_hidden_layers": 4, "rope_theta": 5000000.0, "no_rope_layers": [1, 1, 1, 0]},
        {"full_attention": RoPE(128, layout="half", base=5e6), "full_attention_nope": None},
        {"full_attention_nope": (3,)}, None,
    ),
    (
        {"model_type": "granite_swa", "hidden_size": 64, "num_attention_heads": 1,
         "num_hidden_layers": 4, "attention_multiplier": 0.0625,
         "layer_rope_theta": [0, 10000.0, 10000.0, 500000.0]},
        {"full_attention": None, "sliding_attention_10000": RoPE(64, layout="half"),
         "sliding_attention_500000": RoPE(64, layout="half", base=5e5)},
        {"full_attention": (0,), "sliding_attention_10000": (1, 2)}, 0.0625,
    ),
    (
        {"model_type": "molmo2_text", "head_dim": 128, "num_hidden_layers": 3,
         "rope_scaling_layers": [1], "rope_theta": 1e6,
         "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
        {"full_attention": RoPE(128, layout="half", base=1e6, scaling=LinearScaling(2.0)),
         "full_attention_unscaled": RoPE(128, layout="half", base=1e6)},
        {"full_attention_unscaled": (0, 2)}, None,
    ),
    (
        {"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 2,
         "layer_types": ["sliding_attention", "compressed_sparse_attention"],
         "qk_rope_head_dim": 64, "rope_theta": 10000.0, "compress_rope_theta": 160000.0,
         "rope_scaling": {"type": "yarn", "factor": 16.0,
                          "original_max_position_embeddings": 65536}},
        {"main": RoPE(512, layout="interleaved", rotary_dim=64, rotary_start=448),
         "compress": RoPE(512, layout="interleaved", base=160000.0, rotary_dim=64,
                          rotary_start=448, scaling=YaRN(16.0, 65536, attention_factor=1.0))},
        {"main": (0,), "compress": (1,)}, None,
    ),
    (
        {"model_type": "neomme", "head_dim": 64, "num_hidden_layers": 6},
        {"sliding_attention": MultiAxisRoPE(64, sections=(16, 16), layout="half",
                                            arrangement="interleaved"),
         "full_attention": MultiAxisRoPE(64, sections=(4, 4), layout="half", base=1e6,
                                         arrangement="interleaved")},
        {"full_attention": (5,)}, None,
    ),
    (
        {"model_type": "qwen3_next", "head_dim": 256, "num_hidden_layers": 8, "rope_theta": 1e7,
         "partial_rotary_factor": 0.25},
        {"full_attention": RoPE(256, layout="half", base=1e7, rotary_dim=64)},
        {"linear_attention": (0, 1, 2, 4, 5, 6)}, None,
    ),
    (
        {"model_type": "deepseek_v3", "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
         "num_hidden_layers": 2, "rope_theta": 10000, "rope_scaling": DEEPSEEK},
        {"full_attention": RoPE(192, layout="interleaved", output_layout="half", rotary_dim=64,
                                rotary_start=128, scaling=OURS)},
        {"full_attention": (0, 1)}, 192**-0.5 * G * G,
    ),
    (
        {"model_type": "deepseek_v3", "rope_interleave": False, "num_hidden_layers": 1},
        {"full_attention": RoPE(192, layout="half", rotary_dim=64, rotary_start=128)},
        {}, None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("config", "encodings", "layers", "scale"), SEVERAL)
def test_several_tables(config, encodings, layers, scale):
    model = from_config(config)
    assert dict(model.encodings) == encodings
    assert len(model.layer_types) == config["num_hidden_layers"]
    assert {kind: model.layers(kind) for kind in layers} == layers
    assert model.softmax_scale == scale


def test_query_temperatures():
    llama4 = from_config({"model_type": "llama4_text", "num_hidden_layers": 4})
    assert dict(llama4.encodings) == {
        "chunked_attention": RoPE(128, layout="interleaved", base=500000.0),
        "full_attention": None,
    }
    assert dict(llama4.query_scale) == {"full_attention": pr.QueryTemperature(0.1, 8192, offset=1)}
    plain = {"model_type": "llama4_text", "attn_temperature_tuning": False}
    assert not from_config(plain).query_scale
    small = from_config({"model_type": "mistral4"})
    assert dict(small.query_scale) == {"full_attention": pr.QueryTemperature(0.1, 8192)}
    beam = from_config({"model_type": "beam"})
    assert dict(beam.query_scale) == {"full_attention": pr.PowerTemperature(0.1, 2048)}


def test_models_without_positions_say_so():
    model = from_config({"model_type": "zamba2"})
    assert set(model.encodings.values()) == {None}
    with pytest.raises(ValueError, match="no positional encoding"):
        _ = model.only


def test_a_class_default_is_said_to_be_one():
    model = from_config({"model_type": "qwen3"})
    assert model.provenance["base"] == "default of Qwen3Config in transformers 5.23.0"
    assert from_config({"model_type": "qwen3", "rope_theta": 1e6}).provenance["base"] == (
        "config: rope_theta"
    )


def test_paths_and_objects(tmp_path):
    config = {"model_type": "llama", "rope_theta": 5e5}
    (tmp_path / "config.json").write_text(json.dumps(config))
    want = from_config(config)
    assert from_config(tmp_path) == want
    assert from_config(tmp_path / "config.json") == want
    assert from_config(str(tmp_path)) == want

    class Config:
        def to_dict(self):
            return config

    assert from_config(Config()) == want


def test_a_layout_of_the_caller():
    other = from_config({"model_type": "llama"}, layout="interleaved")
    assert other.only.layout == "interleaved"
    assert other.provenance["layout"] == "the caller"
    unknown = {"model_type": "mine", "head_dim": 64, "partial_rotary_factor": 0.5}
    assert from_config(unknown, layout="half").only == RoPE(64, layout="half", rotary_dim=32)
