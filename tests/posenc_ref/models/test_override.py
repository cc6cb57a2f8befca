"""Serving overrides, and the names of models on the Hub."""

import pytest

from posenc_ref import LinearScaling, Llama3Scaling, RoPE, YaRN, from_config, preset, presets
from posenc_ref.models.config_facts import table
from posenc_ref.models.override import override
from posenc_ref.models.presets import described_preset, needs, resolve

V4 = {"model_type": "llama", "head_dim": 64, "rope_theta": 5e5, "rope_scaling": {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192}}  # fmt: skip
V5 = {"model_type": "llama", "head_dim": 64,
      "rope_parameters": {"rope_theta": 5e5, **V4["rope_scaling"]}}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}


@pytest.mark.parametrize("config", [V4, V5])
@pytest.mark.parametrize("change", [
    YARN, {"rope_scaling": YARN}, {"rope_parameters": YARN},
    {"rope_scaling": {**YARN, "type": None}},
])  # fmt: skip
def test_another_type_of_scaling_keeps_the_base(config, change):
    found = from_config(config, override=change).only
    assert found == RoPE(64, layout="half", base=5e5, scaling=YaRN(4.0, 8192))


@pytest.mark.parametrize("config", [V4, V5])
def test_one_parameter_keeps_the_others(config):
    for spelling in ("rope_scaling", "rope_parameters"):
        found = from_config(config, override={spelling: {"factor": 32.0}}).only
        assert found.scaling == Llama3Scaling(32.0, 1.0, 4.0, 8192)
        assert found.base == 5e5


@pytest.mark.parametrize("config", [V4, V5])
def test_null_removes_the_scaling(config):
    for spelling in ("rope_scaling", "rope_parameters"):
        found = from_config(config, override={spelling: None}).only
        assert found == RoPE(64, layout="half", base=5e5)


def test_a_base_among_the_parameters_replaces_that_at_the_top_level():
    found = from_config(V4, override={"rope_parameters": {"rope_theta": 1e6}}).only
    assert (found.base, found.scaling) == (1e6, Llama3Scaling(8.0, 1.0, 4.0, 8192))
    # transformers reads the base among the parameters and ignores the other: refused.
    with pytest.raises(ValueError, match="two different bases"):
        from_config(V5, override={"rope_theta": 1e6})


def test_parameters_by_layer_type():
    gemma = {"model_type": "gemma3_text", "head_dim": 64, "num_hidden_layers": 6,
             "rope_parameters": {
                 "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                 "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}  # fmt: skip
    change = {"rope_parameters": {"full_attention": {"factor": 2.0}}}
    found = from_config(gemma, override=change).encodings
    assert found["full_attention"].scaling == LinearScaling(2.0)
    assert found["full_attention"].base == 1e6
    assert found["sliding_attention"] == RoPE(64, layout="half")
    outer = {"model_type": "gemma3", "text_config": gemma}
    assert from_config(outer, override={"text_config": change}).encodings == found
    with pytest.raises(ValueError, match=r"rope_parameters = .* outside text_config"):
        from_config(outer, override=change)


def test_neither_mapping_is_changed():
    config = {"a": {"b": 1}, "rope_scaling": {"type": "linear", "factor": 2.0}}
    change = {"a": {"c": 2}, "rope_scaling": {"factor": 4.0}}
    assert override(config, change)["a"] == {"b": 1, "c": 2}
    assert config == {"a": {"b": 1}, "rope_scaling": {"type": "linear", "factor": 2.0}}
    assert change == {"a": {"c": 2}, "rope_scaling": {"factor": 4.0}}
    with pytest.raises(TypeError, match="override must be a mapping such as"):
        override(config, ["rope_theta"])


def test_a_preset_takes_an_override_and_says_so():
    made = preset("qwen2.5-7b", override={"rope_scaling": YARN})
    assert made.only == RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 8192))
    assert made.provenance["scaling"] == "override: rope_scaling"
    assert made.provenance["base"].startswith("litgpt")
    with pytest.raises(ValueError, match=r"preset 'gpt-2' has no configuration .*weight=\.\.\."):
        preset("gpt-2", weight=[[0.0]], override={"rope_theta": 1.0})


def test_names_on_the_hub():
    ids = table("hub_ids")["ids"]
    assert set(ids.values()) <= set(presets())
    assert preset("Qwen/Qwen2.5-7B-Instruct").name == "qwen2.5-7b"
    assert preset("https://huggingface.co/openai/gpt-oss-20b/") == preset("gpt-oss-20b")
    assert resolve("deepseek-ai/DeepSeek-V4-Flash") == "deepseek-v4-flash"
    assert resolve("genmo/mochi-1-preview") == "mochi-1"
    assert resolve("Wan-AI/Wan2.1-T2V-14B") == "wan-2.1"
    assert resolve("tencent/HunyuanVideo") == "hunyuan-video"
    assert resolve("internlm/Intern-S1-Pro") == "intern-s1-pro"
    with pytest.raises(ValueError, match=r"did you mean 'meta-llama/Llama-3.1-8B'"):
        preset("meta-llama/Llama-3.1-9B")
    with pytest.raises(ValueError, match=r"'nobody/nothing' is not known; presets\(\)"):
        preset("nobody/nothing")


def test_lengths_are_those_of_complete_presets():
    for name, length in table("hub_ids")["lengths"].items():
        assert name in presets()
        if not needs(name):
            assert described_preset(name).length == length
    given = described_preset("llama-3-8b", override={"max_position_embeddings": 65536})
    assert (given.length, given.source) == (65536, "override: max_position_embeddings")
