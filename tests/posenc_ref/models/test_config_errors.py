"""What from_config refuses, and that it says the key, what came and what is allowed."""

import pytest

from posenc_ref import from_config

LLAMA = {"model_type": "llama", "head_dim": 64}


def scaled(model_type="llama", **scaling):
    return {"model_type": model_type, "head_dim": 64, "rope_scaling": scaling}


REFUSED = [
    ({}, r"must name its model_type, such as 'llama'; got None"),
    ({"model_type": "lama"}, r"'lama' is not known; did you mean 'llama'\? .*layout=\"half\""),
    ({"model_type": "electra"}, r"'electra' has a learned encoding, .*transformers 5"),
    ({"model_type": "bert"},
     r"but a learned weight, .*position_embeddings.*preset\('bert', weight=\.\.\.\)"),
    ({"model_type": "vjepa2"}, r"'vjepa2' .*is no rotation"),
    ({"model_type": "lightglue"}, r"'lightglue' .*weights"),
    (scaled(rope_type="yarnn", factor=2.0),
     r"rope_type must be one of 'default', 'linear', .*, got 'yarnn'"),
    (scaled(type="su", factor=2.0), r"got 'su'; use 'longrope', which some libraries call 'su'"),
    (scaled(rope_type=3), r"rope_type must be a string, got 3"),
    (scaled(rope_type="linear", type="yarn", factor=2.0), r"disagree: 'linear' and 'yarn'"),
    (scaled(rope_type="linear"), r"rope_type 'linear' needs 'factor'; got the keys rope_type"),
    (scaled(rope_type="linear", faktor=2.0),
     r"unknown key 'faktor' \(= 2.0\) .*did you mean 'factor'\?; allowed: "),
    (scaled(rope_type="linear", factor=0.5), r"factor must be at least 1, got 0.5"),
    (scaled(rope_type="linear", factor="2"), r"factor must be a real number, got '2'"),
    (scaled(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0),
     r"needs 'original_max_position_embeddings'"),
    (scaled(rope_type="longrope", short_factor=[1.0], long_factor=[1.0]),
     r"needs 'original_max_position_embeddings'"),
    (scaled(rope_type="longrope", short_factor=[1.0], long_factor=[1.0, 2.0], factor=2.0,
            original_max_position_embeddings=4096), r"long_factor"),
    (scaled(rope_type="longrope", short_factor=[1.0], long_factor=[2.0], factor=2.0,
            original_max_position_embeddings=4096), r"short_factor .*32 channel pairs .*got 1"),
    (scaled(rope_type="longrope", short_factor=[1.0] * 32, long_factor=[2.0] * 32,
            original_max_position_embeddings=4096),
     r"no factor, and max_position_embeddings = 2048 is less than orig.* = 4096"),
    (scaled("phimoe", rope_type="longrope", short_factor=[1.0] * 32, long_factor=[1.0] * 32,
            original_max_position_embeddings=4096, short_mscale=1.0),
     r"short_mscale and long_mscale must both be given, got 1.0 and None"),
    (scaled("recurrent_gemma", rope_type="linear", factor=2.0),
     r"rope_type must be one of 'default', got 'linear'"),
    ({**LLAMA, "rope_scaling": "linear"}, r"rope_scaling must be a mapping or null, got 'linear'"),
    ({**LLAMA, "rope_theta": 1.0}, r"config: rope_theta: base must be greater than 1, got 1.0"),
    ({**LLAMA, "rope_theta": 1e4, "rope_parameters": {"rope_theta": 1e6}},
     r"two different bases: rope_parameters: rope_theta = 1000000.0 and config: rope_theta"),
    ({**LLAMA, "partial_rotary_factor": 0.5}, r"is 0.5, but this model rotates the whole head"),
    ({**LLAMA, "rope_parameters": {"full_attention": {}}}, r"is nested by layer type"),
    ({**LLAMA, "max_position_embeddings": 8192, "original_max_position_embeddings": 2048,
      "rope_scaling": {"rope_type": "yarn", "factor": 2.0,
                       "original_max_position_embeddings": 4096}},
     r"two different original_max_position_embeddings: 4096 in rope_scaling and 2048"),
    ({**LLAMA, "head_dim": 63}, r"even number from 2 to the head's size 63, got 63"),
    ({**LLAMA, "head_dim": 64.0}, r"head_dim must be an integer, got 64.0"),
    ({"model_type": "gptj", "rotary_dim": 64, "rope_theta": 5e5},
     r"config: rope_theta = 500000.0, but this model's base is 10000.0"),
    ({"model_type": "gpt_neox", "hidden_size": 64, "num_attention_heads": 1, "rotary_pct": 0.3},
     r"got 19 = int\(64 \* 0.3\)"),
    ({"model_type": "cohere2", "head_dim": 64},
     r"head_dim must be hidden_size // num_attention_heads = 128 for this model, got 64"),
    ({"model_type": "deepseek_v3", "rope_parameters": {"partial_rotary_factor": 0.5}},
     r"is 0.5, but qk_rope_head_dim states that 64 of 192 channels rotate"),
    ({"model_type": "qwen2_vl_text", "rope_scaling": {"mrope_section": [16, 24, 25]}},
     r"mrope_section must add up to the 64 pairs .*got \(16, 24, 25\), 65 in all"),
    ({"model_type": "qwen2_vl_text", "rope_scaling": {"mrope_section": [16.5, 23.5, 24]}},
     r"must list whole numbers"),
    ({"model_type": "qwen2_vl_text", "rope_scaling": {"mrope_section": 64}},
     r"must list the number of pairs of each axis, got 64"),
    ({"model_type": "qwen2_vl_text", "rope_scaling": {
        "mrope_section": [16, 24, 24], "mrope_interleaved": True}},
     r"mrope_interleaved must be False, because .* is 'chunked', got True"),
    ({"model_type": "ernie4_5_vl_moe_text", "rope_scaling": {"mrope_section": [20, 24, 20]}},
     r"the first two sections must be equal"),
    ({"model_type": "hunyuan_vl_text"}, r"needs 'mrope_section'"),
    ({"model_type": "hunyuan_vl_text", "rope_scaling": {
        "mrope_section": [16] * 4, "xdrope_section": [8, 8, 24, 24]}}, r"disagree"),
    ({"model_type": "laguna", "rope_scaling": {"rope_type": "linear", "factor": 2.0}},
     r"must be nested by layer type, with entries such as 'full_attention'"),
    ({"model_type": "gemma3_text", "rope_parameters": {"full_attention": {}}},
     r"has no entry for 'sliding_attention', only for full_attention"),
    ({"model_type": "gemma3_text", "rope_parameters": {
        "full_attention": {}, "sliding_attention": {}, "truncate": False}},
     r"must have only layer types \(full_attention, sliding_attention\), got truncate"),
    ({"model_type": "gemma3_text", "rope_parameters": {
        "full_attention": {}, "sliding_attention": 3}}, r"must be a mapping or null, got 3"),
    ({"model_type": "esm"},
     r"no rotary encoding: position_embedding_type is 'absolute', where 'rotary' means"),
    ({"model_type": "gptj", "n_embd": 64, "hidden_size": 128}, r"hidden_size and n_embd disagree"),
    ({"model_type": "gemma2", "query_pre_attn_scalar": 0.0},
     r"query_pre_attn_scalar must be greater than 0"),
    ({"model_type": "dia"}, r"has several parts: pass part=, one of 'decoder_config', 'enc"),
    ({"model_type": "granitemoehybrid", "layer_types": ["mamba"], "num_hidden_layers": 1},
     r"none of its layers has attention"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "message"), REFUSED, ids=lambda c: str(c)[:50])
def test_refused(config, message):
    with pytest.raises(ValueError, match=message):
        from_config(config)


def test_types_and_paths(tmp_path):
    with pytest.raises(TypeError, match="config must be a mapping or a path, got 3"):
        from_config(3)
    with pytest.raises(ValueError, match="there is no"):
        from_config(tmp_path / "none.json")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json is not JSON: "):
        from_config(tmp_path)
    with pytest.raises(
        ValueError, match=r"layout must be one of .*use 'half', which some libraries call 'neox'"
    ):
        from_config({"model_type": "mine"}, layout="neox")
    with pytest.raises(ValueError, match="text_config must name its model_type"):
        from_config({"model_type": "mine", "text_config": {}})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "gemma3_text", "layer_types": ["full_attention", "foo"]}, "got 'foo'"),
        ({"model_type": "llama", "rope_theta": 10**400}, "must be an integer of at most 64 bits"),
        ({"model_type": "deepseek_v3", "rope_interleave": "false"}, "must be true or false"),
        ({"model_type": "cohere2", "sliding_window_pattern": 0}, "must be at least 1"),
        (
            {"model_type": "smollm3", "num_hidden_layers": 3, "no_rope_layers": [1, 0]},
            "an entry for each of the 3 layers",
        ),
    ],
)
def test_configurations_that_once_passed_are_refused(config, said):
    with pytest.raises(ValueError, match=said):
        from_config(config)


def test_a_class_default_of_the_base_is_used():
    """BailingHybridConfig has rope_theta 6,000,000, whatever all classes share."""
    assert from_config({"model_type": "bailing_hybrid"}).only.base == 6e6
