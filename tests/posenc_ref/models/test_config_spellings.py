"""However a configuration spells its rotary parameters, they mean the same, or it is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import RoPE, from_config
from posenc_ref.models.config_rope import KEYS

LENGTHS = st.integers(64, 2**17)
FACTORS = st.floats(1, 64)


@st.composite
def rotary(draw):
    """A rope type with parameters of its own."""
    kind = draw(st.sampled_from(["default", "linear", "dynamic", "yarn", "llama3", "longrope"]))
    if kind == "default":
        return kind, {}
    if kind in ("linear", "dynamic"):
        return kind, {"factor": draw(FACTORS)}
    keys = {"original_max_position_embeddings": draw(LENGTHS)}
    if kind == "longrope":
        lists = st.lists(st.floats(1, 64), min_size=16, max_size=16)
        return kind, keys | {"short_factor": draw(lists), "long_factor": draw(lists)}
    keys["factor"] = draw(FACTORS)
    if kind == "llama3":
        low = draw(st.floats(0.5, 4))
        high = low * draw(st.floats(2, 8))
        return kind, keys | {"low_freq_factor": low, "high_freq_factor": high}
    optional = {
        "beta_fast": draw(st.floats(8, 64)),
        "beta_slow": draw(st.floats(0.5, 4)),
        "truncate": draw(st.booleans()),
        "attention_factor": draw(st.floats(0.5, 2)),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(optional))))
    both = draw(st.sampled_from([{}, {"mscale": 0.7, "mscale_all_dim": 0.9}]))
    return kind, keys | {key: optional[key] for key in chosen} | both


@st.composite
def spelled(draw):
    """The same configuration twice, each in a spelling of its own."""
    kind, keys = draw(rotary())
    base = draw(st.sampled_from([1e4, 5e5, 1e6]))

    def once():
        inside = dict(keys)
        config = {"model_type": "llama", "head_dim": 32, "max_position_embeddings": 2**17}
        names = draw(st.sampled_from([("rope_type",), ("type",), ("rope_type", "type")]))
        if kind != "default" or draw(st.booleans()):
            inside |= dict.fromkeys(names, kind)
        places = draw(st.sampled_from([("in",), ("out",), ("in", "out")]))
        if "in" in places:
            inside["rope_theta"] = base
        if "out" in places:
            config["rope_theta"] = base
        for key in ("attention_factor", "mscale", "partial_rotary_factor"):
            if key not in inside and kind == "yarn" and draw(st.booleans()):
                inside[key] = None  # null is as good as missing
        words = draw(st.sampled_from([("rope_scaling",), ("rope_parameters",)]))
        if draw(st.booleans()):
            words = ("rope_scaling", "rope_parameters")
        return config | {word: dict(inside) for word in words}

    return base, once(), once()


@given(spelled())
def test_all_spellings_mean_the_same(both):
    base, one, other = both
    model = from_config(one)
    assert dict(model.encodings) == dict(from_config(other).encodings)
    assert model.only.base == base


@given(spelled(), st.data())
def test_what_disagrees_is_refused(both, data):
    base, config, _ = both
    word = data.draw(st.sampled_from(["rope_scaling", "rope_parameters"]))
    inside = dict(config.get(word) or config.get("rope_parameters") or config["rope_scaling"])
    other = dict(inside)
    numbers = [k for k, v in inside.items() if isinstance(v, float) and k != "rope_theta"]
    key = data.draw(st.sampled_from([*numbers, "rope_theta"]))
    other[key] = 3.25 * inside.get(key, base)
    wrong = config | {"rope_scaling": inside, "rope_parameters": other, "rope_theta": base}
    with pytest.raises(ValueError, match=r"disagree|two different bases"):
        from_config(wrong)


@given(rotary(), st.data())
def test_a_key_of_another_type_is_refused(kind_and_keys, data):
    kind, keys = kind_and_keys
    known = {key for needed, optional in KEYS.values() for key in (*needed, *optional)}
    mine = {*KEYS[kind][0], *KEYS[kind][1]}
    foreign = data.draw(st.sampled_from(sorted(known - mine)))
    config = {"model_type": "llama", "rope_scaling": {"rope_type": kind, **keys, foreign: 1.0}}
    with pytest.raises(ValueError, match=f"unknown key {foreign!r} .* for rope_type {kind!r}"):
        from_config(config)


@given(st.sampled_from(["qwen2_vl_text", "qwen2_5_vl_text"]), st.booleans())
def test_mrope_is_the_default_type_with_sections(model_type, saved_again):
    kinds = {"type": "mrope"} | ({"rope_type": "default"} if saved_again else {})
    config = {"model_type": model_type, "head_dim": 128}
    scaling = {"mrope_section": [16, 24, 24], **kinds}
    assert from_config(config | {"rope_scaling": scaling}).only.scaling is None


def test_partial_factors_inside_or_beside():
    want = RoPE(80, layout="half", rotary_dim=20)
    size = {"model_type": "stablelm", "hidden_size": 2560, "num_attention_heads": 32}
    assert from_config(size).only == want  # the default of its class
    assert from_config({**size, "partial_rotary_factor": 0.25}).only == want
    inside = {**size, "rope_parameters": {"partial_rotary_factor": 0.25}}
    assert from_config(inside).only == want
    with pytest.raises(ValueError, match="two different partial rotary factors"):
        from_config({**inside, "partial_rotary_factor": 0.5})
    neox = {"model_type": "gpt_neox", "hidden_size": 2560, "num_attention_heads": 32}
    assert from_config({**neox, "rotary_pct": 0.25}).only == want


def test_nested_by_layer_type():
    size = {"model_type": "olmo3", "head_dim": 64, "num_hidden_layers": 4}
    flat = {**size, "rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}
    linear = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}
    nested = {
        **size,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e6},
            "full_attention": linear,
        },
    }
    assert dict(from_config(flat).encodings) == dict(from_config(nested).encodings)
    # Hugging Face reads truncate beside the layer types and so never sees this one.
    yarn = {
        "rope_type": "yarn",
        "factor": 32.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    }
    nested["rope_parameters"]["full_attention"] = yarn
    assert from_config(nested).encodings["full_attention"].scaling.truncate is False
    # null: no encoding in these layers
    nested["rope_parameters"]["full_attention"] = None
    assert from_config(nested).encodings["full_attention"] is None


def test_phimoe_has_two_attention_factors():
    """short_mscale up to the original length, long_mscale beyond it."""
    config = {
        "model_type": "phimoe",
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0] * 32,
            "long_factor": [2.0] * 32,
            "original_max_position_embeddings": 4096,
            "short_mscale": 1.25,
            "long_mscale": 1.5,
        },
    }
    encoding = from_config(config).only
    assert encoding.attention_factor(4096) == 1.25
    assert encoding.attention_factor(4097) == 1.5


def test_yarn_without_its_original_length_says_what_was_taken():
    config = {
        "model_type": "llama",
        "head_dim": 64,
        "max_position_embeddings": 131072,
        "rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    }
    assert "is missing: max_position_embeddings" in from_config(config).provenance["scaling"]
    config["rope_scaling"]["original_max_position_embeddings"] = 32768
    assert from_config(config).provenance["scaling"] == "config: rope_scaling"
