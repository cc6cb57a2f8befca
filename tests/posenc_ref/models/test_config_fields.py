"""No entry of a configuration that changes positions is ignored.

Every entry of every configuration class that could concern positions is changed, one at a time:
the encoding must change, or the configuration must be refused, or the entry is listed here as
harmless with a reason.
"""

import functools
import importlib
import re

import pytest

from posenc_ref import from_config
from posenc_ref.models.config_facts import table
from posenc_ref.models.config_keys import misspelt
from tests.night import by_day
from tests.posenc_ref.models.test_config_modules import CLASSES, SETTINGS, TEXT, VISION

MODELS = {**TEXT, **VISION}

CONCERNS = re.compile(
    "rope|rotary|alibi|posit|chunk|scal|theta|ntk|yarn|logn|temperature|interleav|sliding|window|"
    "layer_types|pattern|bucket|nope|head_dim|kv_chan|seq_len|interval|period|section|axes|attn_",
    re.IGNORECASE,
)

#: Entries that change no position, by reason.
HARMLESS = {
    "part of another layer: MLP, convolution, linear attention, sampling, normalisation": """
        activation_sparsity_pattern altup_correct_scale attn_config attn_pdrop chunk_size
        chunk_size_feed_forward cross_attn_all_layers cross_attn_k cross_layer_interval
        expert_layer_period final_w_init_variance_scale w_init_variance_scale
        full_attn_alpha_factor full_attn_beta_factor linear_attn_alpha_factor
        linear_attn_beta_factor linear_head_dim linear_key_head_dim linear_value_head_dim
        interleave_moe_layer_step layer_scale_init_value layer_scale_initial_scale layerscale_value
        linear_dt_init_floor mamba_chunk_size mamba_head_dim mlp_layer_types mtp_layer_types
        mtp_mlp_layer_types mtp_loss_scaling_factor moe_layer_interval moe_routed_scaling_factor
        moe_router_scaling_factor routed_scaling_factor router_scaling_factor num_upscale_blocks
        route_scale rescale_prenorm_residual residual_gate_temperature residual_scale
        perceiver_resampler_attention_head_dim memory_fuser_layer_scale_init_value
        sigmoid_scale_for_mem_enc enc_res2net_scale duration_delta_max_period duration_delta_scale
        coarse_matching_temperature fine_matching_regress_temperature
        contrastive_logits_temperature dropout_positions time_step_floor infer_is_positive""",
    "a number of heads, whose size head_dim states": "num_sliding_attention_heads",
    "a factor on embeddings, values or the logits of words": """
        embedding_scale logit_scale logits_scaling scale_depth scale_emb scale_embedding
        attention_value_scale""",
    "a factor on normalised queries, part of the queries": "qk_scale_factor",
    "limits the size of attention logits": "attn_logit_softcapping",
    "hides distant keys and moves none": """
        attention_chunk_size attention_window_size keep_window_size sliding_window window_size
        global_attn_indexes""",
    "states the layer types again, which layer_types lists": """
        _sliding_window_pattern full_attn_idxs global_attn_every_n_layers max_window_layers
        no_rope_layer_interval prefix_dense_sliding_window_pattern sliding_window_pattern
        use_sliding_window""",
    "the layers of the tower have one encoding": "layer_types",
    "the number of rows of a learned table, or of a precomputed one": """
        left_max_position_embeddings right_max_position_embeddings max_position_embeddings
        max_source_positions n_positions num_position_embeddings position_embedding_size
        t2u_max_position_embeddings max_seq_len""",
    "read by scalings only, of which the default configuration has none": """
        original_max_position_embeddings""",
    "the positions that callers compute; the encoding takes any": """
        memory_attention_rope_feat_sizes memory_attention_rope_k_sizes position_id_per_seconds
        seconds_per_chunk""",
    "used in training only": "memory_attention_rope_dropout pos_embed_rescale",
    "latent attention has its own sizes": "head_dim qk_head_dim v_head_dim",
    "the size of the index of sparse attention, or of cross-attention": """
        index_head_dim indexer_head_dim cross_head_dim""",
    "appends zeros to the heads": "pad_head_dim_to_multiple_of",
    "the model's code does not read it": "kv_channels rotary_dim",
    "no layer of this model rotates": "qk_nope_head_dim qk_rope_head_dim",
}
REASONS = {name: reason for reason, names in HARMLESS.items() for name in names.split()}
#: Entries that are harmless in some models only.
ONLY = {
    "head_dim": "latent",
    "layer_types": "vision",
    "kv_channels": {"zamba2"},
    "rotary_dim": {"minimax_m3_vl_text"},
    "qk_nope_head_dim": {"kimi_linear"},
    "qk_rope_head_dim": {"kimi_linear"},
    "original_max_position_embeddings": {"phi3", "phi4_multimodal"},
}
DAY = {"llama", "gpt_neox", "gemma3_text", "deepseek_v4", "qwen2_vl_text", "falcon", "llama4_text"}


def changed(value):
    """Other values of an entry."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 2, value // 2, value + 1]
    if isinstance(value, str):
        return ["other"]
    if isinstance(value, list):
        return [value[::-1], value[1:], [v * 2 if isinstance(v, int) else "other" for v in value]]
    if isinstance(value, dict):
        return [{**value, "unheard_of": 1}]
    return [1, 2, 64, 0.5, True, "x", [1], {"x": 1}]


def read(config):
    model = from_config(config)
    return dict(model.encodings), model.layer_types, model.softmax_scale, dict(model.query_scale)


def is_read(config, key):
    before = read(config)
    for value in changed(config[key]):
        try:
            if read({**config, key: value}) != before:
                return True
        except (TypeError, ValueError, OverflowError):
            return True
    return False


def excused(model_type, key):
    where = ONLY.get(key)
    if where == "latent":
        return MODELS[model_type].get("head") == "latent"
    if where == "vision":
        return model_type in VISION
    return key in REASONS and (where is None or model_type in where)


@functools.cache
def default(model_type):
    file = MODELS[model_type].get("file", model_type)
    module = importlib.import_module(f"transformers.models.{file}.configuration_{file}")
    config_class = getattr(module, CLASSES[model_type])
    config = config_class(**SETTINGS.get(model_type, {})).to_dict()
    return {**config, "model_type": model_type}


@pytest.mark.parametrize("model_type", by_day(sorted(MODELS), DAY))
def test_every_entry_of_the_class_is_read_or_harmless(model_type):
    config = default(model_type)
    concerns = [key for key in config if CONCERNS.search(key)]
    assert concerns
    ignored = [k for k in concerns if not excused(model_type, k) and not is_read(config, k)]
    assert not ignored, f"read them in from_config, or say in HARMLESS why not: {ignored}"


LLAMA = {"model_type": "llama", "head_dim": 64, "num_hidden_layers": 4}
KEYS = table("config_keys")["keys"]
#: A value that is not neutral, where it is not clear from the kind of the neutral value.
VALUES = {
    "dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192},
    "position_embedding_type": "alibi",
    "mrope_section": [16, 8, 8],
}


def other(key):
    fact = KEYS[key]
    if key in VALUES or fact.get("layout"):
        return VALUES.get(key, True)
    neutral = fact["neutral"]
    return not neutral[0] if neutral and isinstance(neutral[0], bool) else 0.37


@pytest.mark.parametrize("key", sorted(KEYS))
def test_known_entries_are_refused_where_the_model_has_no_such_entry(key):
    more = {KEYS[key]["needs"]: True} if "needs" in KEYS[key] else {}
    with pytest.raises(ValueError, match=f"the entry {key if not more else ''}.*changes"):
        from_config({**LLAMA, **more, key: other(key)})
    for value in (*KEYS[key]["neutral"], None):
        assert read({**LLAMA, key: value}) == read(LLAMA)


def test_a_model_without_entry_in_the_tables_is_treated_alike():
    ours = {"model_type": "my_model", "head_dim": 64}
    assert from_config(ours, layout="half").only.rotary_dim == 64
    with pytest.raises(ValueError, match=r"rotary_pct \(= 0.25\) changes the fraction"):
        from_config({**ours, "rotary_pct": 0.25}, layout="half")


def test_an_unknown_entry_with_a_positional_name_is_refused():
    with pytest.raises(ValueError, match=r"rope_wobble .* looks like a positional setting"):
        from_config({**LLAMA, "rope_wobble": 3})
    assert read({**LLAMA, "rope_wobble": False, "use_flash_rotary": True}) == read(LLAMA)


def test_a_switch_of_the_layout_may_agree_with_the_model():
    assert read({**LLAMA, "rotary_emb_interleaved": False}) == read(LLAMA)
    gptj = {"model_type": "gptj"}
    assert read({**gptj, "rotary_emb_interleaved": True}) == read(gptj)


def test_other_names_of_the_base():
    neox = {"model_type": "gpt_neox", "hidden_size": 256, "num_attention_heads": 4}
    assert from_config({**neox, "rope_theta": 5.0}).only.base == 5.0
    assert from_config({**neox, "rotary_emb_base": 5.0}).only.base == 5.0
    with pytest.raises(ValueError, match="two different bases"):
        from_config({**neox, "rotary_emb_base": 5.0, "rope_theta": 7.0})
    bert = {"model_type": "modernbert", "num_hidden_layers": 3}
    with pytest.raises(ValueError, match=r"rope_theta is not read; .* global_rope_theta, local"):
        from_config({**bert, "rope_theta": 5.0})


@pytest.mark.parametrize(("config", "rotary_dim"), [
    ({"model_type": "bamba", "attn_rotary_emb": 32, "attn_layer_indices": [0]}, 32),
    ({"model_type": "nemotron", "rope_percent": 0.25}, 16),
    ({"model_type": "cohere2", "rotary_pct": 1.0, "position_embedding_type": "rope_gptj"}, 64),
    ({"model_type": "hunyuan_v1_dense", "use_rotary_pos_emb": True}, 64),
])  # fmt: skip
def test_entries_of_published_configurations(config, rotary_dim):
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 1}
    found = from_config({**sizes, **config}).encodings.values()
    assert {e.rotary_dim for e in found if e is not None} == {rotary_dim}


def test_entries_outside_the_part_that_is_read():
    outer = {"model_type": "gemma3", "text_config": {"head_dim": 64, "num_hidden_layers": 6}}
    with pytest.raises(ValueError, match=r"rope_theta = 5\.0 outside text_config"):
        from_config({**outer, "rope_theta": 5.0})
    outer["text_config"]["rope_theta"] = 5.0
    assert from_config({**outer, "rope_theta": 5.0}).encodings["full_attention"].base == 5.0


@pytest.mark.parametrize(("count", "accepted"), [(64, True), (32, False)])
def test_a_number_of_rotated_channels_must_agree_with_the_fraction(count, accepted):
    """transformers folds qk_rope_head_dim of DeepSeek-V4 into partial_rotary_factor."""
    config = {"model_type": "deepseek_v4", "head_dim": 512, "num_hidden_layers": 3,
              "layer_types": ["sliding_attention"] * 3, "qk_rope_head_dim": count}  # fmt: skip
    assert from_config(config).encodings["main"].rotary_dim == count
    both = {**config, "partial_rotary_factor": 0.125}
    if accepted:
        assert from_config(both).encodings["main"].rotary_dim == 64
        return
    with pytest.raises(ValueError, match="qk_rope_head_dim = 32, but partial_rotary_factor"):
        from_config(both)


#: A configuration, an entry of it with a misspelt name, and the name that was meant.
MISSPELT = [
    (LLAMA, "rop_theta", 5e5, "rope_theta"),
    (LLAMA, "rope_thet", 5e5, "rope_theta"),
    (LLAMA, "rop_scaling", {"rope_type": "linear", "factor": 2.0}, "rope_scaling"),
    (LLAMA, "partial_rotry_factor", 0.5, "partial_rotary_factor"),
    ({"model_type": "llama"}, "head_dm", 64, "head_dim"),
    ({**LLAMA, "model_type": "qwen2"}, "dual_chunk_attn_config", {"chunk_size": 1},
     "dual_chunk_attention_config"),
    ({"model_type": "deepseek_v4"}, "compress_ratio", [4], "compress_ratios"),
    ({"model_type": "t5"}, "relative_attention_num_bucket", 8, "relative_attention_num_buckets"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "key", "value", "meant"), MISSPELT)
def test_a_misspelt_entry_is_refused(config, key, value, meant):
    with pytest.raises(ValueError, match=rf"{key} \(= .*did you mean '{meant}'\?"):
        from_config({**config, key: value})


def test_names_of_other_things_are_no_misspellings():
    assert from_config({**LLAMA, "v_head_dim": 32, "key": None, "rop_theta": None})
    for name in table("config_keys")["harmless"]:
        assert misspelt(name, [*table("config_keys")["keys"], "hidden_size"]) is None


@pytest.mark.nightly
def test_no_default_configuration_has_a_misspelt_entry():
    from transformers import CONFIG_MAPPING

    refused = []
    for model_type in CONFIG_MAPPING:
        try:
            config = CONFIG_MAPPING[model_type]().to_dict()
        except Exception:  # Nougat, and others whose parts have no default
            continue
        for one in (config, *(v for k, v in config.items() if k.endswith("_config") and v)):
            for layout in (None, "half"):
                try:
                    from_config({"model_type": model_type, **one}, layout=layout)
                except (TypeError, ValueError) as error:
                    refused += [str(error)] if "is not known; did you mean" in str(error) else []
    assert not [text for text in refused if "the entry" in text]
