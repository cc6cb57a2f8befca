"""Layer schedules against transformers: its configuration classes, and models that run."""

import importlib
import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import config_layer_types, config_rope_layers
from posenc_ref.models.layer_defaults import _WINDOW_FROM

transformers = pytest.importorskip("transformers", reason="transformers is what is compared with")


def classes():
    """Every configuration class with layer types, by model type."""
    found = {}
    root = Path(transformers.__file__).parent / "models"
    for path in sorted(root.glob("*/configuration_*.py")):
        if "layer_types" not in path.read_text(encoding="utf-8"):
            continue
        module = importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}")
        for cls in vars(module).values():
            if (
                inspect.isclass(cls)
                and issubclass(cls, transformers.PreTrainedConfig)
                and cls.__module__ == module.__name__
                and (hasattr(cls, "layer_types") or "layer_types" in cls.__annotations__)
            ):
                found[cls.model_type] = cls
    return found


CLASSES = classes()
#: Not decoders or encoders with positions per layer: convolutions, state spaces, vision backbones.
FOREIGN = {
    "",  # Qwen3-Omni's waveform decoder, always given its types
    "bit",
    "d_fine",
    "deimv2",
    "falcon_mamba",
    "mamba",
    "mamba2",
    "pp_doclayout_v2",
    "pp_doclayout_v3",
    "regnet",
    "resnet",
    "rt_detr",
    "rt_detr_resnet",
    "rt_detr_v2",
    # vision towers and drafts of models above, with types of their own
    "lfm3_vl_vision",
    "muse_glimmer_assistant",
    "muse_glimmer_vision",
    "muse_spark_vision",
    "unlimited_ocr_text",
}
#: Schedules that need layer_types: we raise, and do not guess.
UNREAD = {
    "deepseek_v4",
    "dots3_note_text",
    "granitemoehybrid",
    "inkling2_text",
    "inkling_text",
    "kimi_linear",
    "lfm2",
    "lfm2_moe",
    "lfm3",
}
#: An olmo_hybrid of fewer than four layers makes its last one full.
DEPTH = {"olmo_hybrid": 4}


def test_the_installed_transformers_has_what_is_compared():
    assert set(CLASSES) >= FOREIGN | UNREAD


@pytest.mark.parametrize("model_type", sorted(set(CLASSES) - FOREIGN))
def test_default_schedules_are_those_of_transformers(model_type):
    for num_layers in (*range(DEPTH.get(model_type, 1), 13), 24, 25):
        config = {"model_type": model_type, "num_hidden_layers": num_layers}
        if model_type in UNREAD:
            with pytest.raises(ValueError, match="layer_types must be given"):
                config_layer_types(config)
        else:
            theirs = CLASSES[model_type](num_hidden_layers=num_layers).layer_types
            assert config_layer_types(config) == tuple(theirs)


PERIODS = {
    "afmoe": "global_attn_every_n_layers",
    "bailing_hybrid": "layer_group_size",
    "cohere2": "sliding_window_pattern",
    "cohere2_moe": "sliding_window_pattern",
    "embedding_gemma2_text": "sliding_window_pattern",
    "exaone4": "sliding_window_pattern",
    "exaone_moe": "sliding_window_pattern",
    "gemma3_text": "sliding_window_pattern",
    "modernbert": "global_attn_every_n_layers",
    "modernbert-decoder": "global_attn_every_n_layers",
    "qwen3_5_moe_text": "full_attention_interval",
    "qwen3_5_text": "full_attention_interval",
    "qwen3_next": "full_attention_interval",
    "qwen4_exp_text": "full_attention_interval",
    "t5gemma2_decoder": "sliding_window_pattern",
    "t5gemma2_text": "sliding_window_pattern",
}


@pytest.mark.parametrize("model_type", sorted(PERIODS))
@given(num_layers=st.integers(1, 30), n=st.integers(1, 8))
def test_periods_are_read_as_transformers_reads_them(model_type, num_layers, n):
    facts = {"num_hidden_layers": num_layers, PERIODS[model_type]: n}
    theirs = CLASSES[model_type](**facts).layer_types
    assert config_layer_types({"model_type": model_type, **facts}) == tuple(theirs)


@pytest.mark.parametrize(
    "model_type",
    [
        "dots1",
        "qwen2",
        "qwen2_5_omni_text",
        "qwen2_5_vl_text",
        "qwen2_moe",
        "qwen2_vl_text",
        "qwen3",
    ],
)
@given(
    num_layers=st.integers(1, 12),
    first=st.integers(0, 12),
    used=st.booleans(),
    window=st.sampled_from([64, None]),
)
def test_max_window_layers(model_type, num_layers, first, used, window):
    facts = {"num_hidden_layers": num_layers, "max_window_layers": first, "sliding_window": window}
    if model_type != "dots1":
        facts["use_sliding_window"] = used
    theirs = CLASSES[model_type](**facts).layer_types
    assert config_layer_types({"model_type": model_type, **facts}) == tuple(theirs)


@given(
    num_layers=st.integers(1, 12),
    dense=st.integers(0, 4),
    prefix=st.integers(1, 3),
    n=st.integers(1, 5),
)
def test_the_dense_prefix_of_cohere2_moe(num_layers, dense, prefix, n):
    facts = {
        "num_hidden_layers": num_layers,
        "first_k_dense_replace": min(dense, num_layers),
        "prefix_dense_sliding_window_pattern": prefix,
        "sliding_window_pattern": n,
    }
    theirs = CLASSES["cohere2_moe"](**facts).layer_types
    assert config_layer_types({"model_type": "cohere2_moe", **facts}) == tuple(theirs)


@pytest.mark.parametrize("model_type", ["llama4_text", "mistral_large4_text", "smollm3"])
@given(
    num_layers=st.integers(1, 16),
    interval=st.none() | st.integers(1, 7),
    flags=st.none() | st.lists(st.integers(0, 1), min_size=16, max_size=16),
)
def test_no_rope_layers_against_transformers(model_type, num_layers, interval, flags):
    facts = {"num_hidden_layers": num_layers}
    facts |= {} if interval is None else {"no_rope_layer_interval": interval}
    facts |= {} if flags is None else {"no_rope_layers": flags[:num_layers]}
    theirs = CLASSES[model_type](**facts)
    ours = {"model_type": model_type, **facts}
    # Their attention layers read this very list (`self.use_rope`).
    assert config_rope_layers(ours) == tuple(map(bool, theirs.no_rope_layers))
    assert config_layer_types(ours) == tuple(theirs.layer_types)


def test_an_empty_list_means_the_default_in_llama4_only():
    facts = {"num_hidden_layers": 4, "no_rope_layers": []}
    theirs = CLASSES["llama4_text"](**facts).no_rope_layers
    assert config_rope_layers({"model_type": "llama4_text", **facts}) == tuple(map(bool, theirs))
    with pytest.raises(ValueError, match="an entry for each of the 4 layers, got 0"):
        config_rope_layers({"model_type": "smollm3", **facts})


@pytest.mark.parametrize("model_type", ["muse_spark_text", "muse_glimmer_text", "granite_swa"])
@pytest.mark.parametrize("num_layers", [1, 5, 6, 8, 9])
def test_bases_per_layer_against_transformers(model_type, num_layers):
    theirs = CLASSES[model_type](num_hidden_layers=num_layers)
    want = tuple(base != 0 for base in theirs.layer_rope_theta)
    config = {"model_type": model_type, "num_hidden_layers": num_layers}
    assert config_rope_layers(config) == want
    assert config_rope_layers({**config, "layer_rope_theta": theirs.layer_rope_theta}) == want


TINY = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 7,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
#: model type -> more of its configuration; the text part of each is itself a configuration.
DRIVEN = {
    "afmoe": {"num_dense_layers": 7, "moe_intermediate_size": 16},
    "beam": {"mlp_layer_types": ["dense"] * 7},
    "cohere2": {},
    # A dense layer rotates, whether it slides or not (3 does not); not with another prefix pattern.
    "cohere2_moe": {"mlp_layer_types": ["sparse", "dense"] * 3 + ["sparse"], "num_experts": 2},
    "cohere2_moe with a prefix": {
        "mlp_layer_types": ["sparse", "dense"] * 3 + ["sparse"],
        "num_experts": 2,
        "prefix_dense_sliding_window_pattern": 2,
    },
    "exaone4": {},
    "exaone4 without a window": {"sliding_window": None, "layer_types": ["full_attention"] * 7},
    "flint": {"mlp_only_layers": list(range(7))},
    "gemma3_text": {},
    "granite_swa": {"layer_rope_theta": [1e4, 0, 0, 1e4, 5e5, 0, 1e4]},
    "kolibri1": {},
    "llama4_text": {"interleave_moe_layer_step": 100, "intermediate_size_mlp": 32},
    "muse_glimmer_text": {},
    "smollm3": {},
}


def layers_that_rotate(model_type, facts):
    """Run the model, and see in which of its layers the rotation is called."""
    torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
    config = CLASSES[model_type](**facts)
    model = transformers.AutoModel.from_config(config).eval()
    module = importlib.import_module(type(model).__module__)
    name = "apply_rotary_emb" if model_type == "llama4_text" else "apply_rotary_pos_emb"
    rotate, current, seen = getattr(module, name), [None], set()

    def watched(*args, **kwargs):
        seen.add(current[0])
        return rotate(*args, **kwargs)

    for i, layer in enumerate(model.layers):
        layer.register_forward_pre_hook(lambda *_, i=i: current.__setitem__(0, i))
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(module, name, watched)
        model(input_ids=torch.arange(8)[None], use_cache=False)
    assert None not in seen
    return tuple(i in seen for i in range(config.num_hidden_layers))


@pytest.mark.parametrize("name", sorted(DRIVEN))
def test_the_layers_that_rotate_in_a_running_model(name):
    model_type = name.partition(" ")[0]
    facts = {**TINY, **DRIVEN[name]}
    want = layers_that_rotate(model_type, facts)
    assert config_rope_layers({"model_type": model_type, **facts}) == want


@pytest.mark.parametrize("model", _WINDOW_FROM)
def test_the_first_layer_with_a_window_by_default(model):
    config = CLASSES[model]()
    assert _WINDOW_FROM[model] == (
        config.max_window_layers, getattr(config, "use_sliding_window", True)
    )  # fmt: skip
