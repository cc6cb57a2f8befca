"""`from_transformers` on the conventions that differ: no line of it knows a model by name."""

import importlib
from types import SimpleNamespace

import numpy as np
import pytest

from posenc_ref import accuracy

torch = pytest.importorskip("torch", reason="PyTorch runs the modules that are judged")
pytest.importorskip("transformers", reason="transformers is what is judged")

from posenc_ref.conformance.adapters import rotary_search, rotary_table  # noqa: E402
from posenc_ref.conformance.adapters.transformers import from_transformers  # noqa: E402

PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
SMALL = {"hidden_size": 64, "num_attention_heads": 4}
MLA = SMALL | {"qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16}
S = 9


def make(model, name, config=None, **settings):
    """An instance of a class of a model's file, with a small configuration."""
    modeling = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    configuration = importlib.import_module(f"transformers.models.{model}.configuration_{model}")
    value = getattr(configuration, config)(**settings)
    return getattr(modeling, name)(value)


def turned(x, angle, one, two, out=None):
    """Rotate channels (one, two) of (..., S, D) by angle (S, pairs), written to `out`, exactly."""
    value, terms, moved = x.copy(), np.zeros_like(x), np.zeros_like(x)
    a, b, (to_one, to_two) = x[..., one], x[..., two], out or (one, two)
    cos, sin = np.cos(angle), np.sin(angle)
    value[..., to_one], value[..., to_two] = a * cos - b * sin, a * sin + b * cos
    terms[..., to_one] = abs(a * cos) + abs(b * sin)
    terms[..., to_two] = abs(a * sin) + abs(b * cos)
    moved[..., to_one] = moved[..., to_two] = abs(angle) * np.hypot(a, b)
    return accuracy.Truth(value, terms, moved)


def half(d, start=0):
    return np.arange(d // 2) + start, np.arange(d // 2) + d // 2 + start


def interleaved(d, start=0):
    return np.arange(0, d, 2) + start, np.arange(1, d, 2) + start


def angles(d, base=10000.0, positions=None):
    positions = np.arange(S) if positions is None else positions
    return positions[:, None] * base ** (-np.arange(0, d, 2) / d)


def require_close(y, truth):
    assert truth.score(y.double().numpy(), dtype="float32").max() <= accuracy.budget("float32")


# model, class, config class, settings, expected: (head_dim, tensor layout, channels in and out, d)
ONE_AXIS = {
    "complex, bhsd": (
        ("deepseek_v2", "DeepseekV2RotaryEmbedding", "DeepseekV2Config", MLA),
        (8, "bhsd", interleaved(8), None, 8),
    ),
    "complex, bshd": (
        (
            "llama4",
            "Llama4TextRotaryEmbedding",
            "Llama4TextConfig",
            SMALL | {"head_dim": 16, "rope_parameters": PLAIN},
        ),
        (16, "bshd", interleaved(16), None, 16),
    ),
    "interleaved in, half out": (
        ("deepseek_v3", "DeepseekV3RotaryEmbedding", "DeepseekV3Config", MLA),
        (8, "bhsd", interleaved(8), half(8), 8),
    ),
    "the same module without rope_interleave": (
        (
            "deepseek_v3",
            "DeepseekV3RotaryEmbedding",
            "DeepseekV3Config",
            MLA | {"rope_interleave": False},
        ),
        (8, "bhsd", half(8), None, 8),
    ),
    "split by attention": (
        ("stablelm", "StableLmRotaryEmbedding", "StableLmConfig", SMALL),
        (16, "bhsd", half(4), None, 4),
    ),
    "split by the function, interleaved": (
        ("glm", "GlmRotaryEmbedding", "GlmConfig", SMALL | {"head_dim": 16}),
        (16, "bhsd", interleaved(8), None, 8),
    ),
    "sin|cos from an embedding, static method": (
        (
            "roformer",
            "RoFormerModel",
            "RoFormerConfig",
            SMALL | {"num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 9},
        ),
        (16, "bhsd", interleaved(16), None, 16),
    ),
    "sin|cos from a buffer": (
        (
            "gptj",
            "GPTJAttention",
            "GPTJConfig",
            {"n_embd": 64, "n_head": 4, "rotary_dim": 8, "n_positions": 64},
        ),
        (16, "bshd", interleaved(8), None, 8),
    ),
    "method of attention, length only": (
        (
            "wav2vec2_conformer",
            "Wav2Vec2ConformerEncoder",
            "Wav2Vec2ConformerConfig",
            SMALL
            | {
                "position_embeddings_type": "rotary",
                "num_hidden_layers": 1,
                "intermediate_size": 8,
            },
        ),
        (16, "bs(hd)", half(16), None, 16),
    ),
}


@pytest.mark.parametrize("case", ONE_AXIS.values(), ids=ONE_AXIS)
def test_one_axis(case):
    (model, name, config, settings), (head_dim, layout, channels, out, d) = case
    implementation = from_transformers(make(model, name, config, **settings))
    assert (implementation.head_dim, implementation.tensor_layout) == (head_dim, layout)
    assert implementation.encoding is None  # nothing says how channels are paired
    heads = implementation.num_heads
    x = torch.randn(2, heads, S, head_dim, generator=torch.Generator().manual_seed(0))
    positions = torch.arange(S)
    if layout == "bhsd":
        y = implementation(x, positions)
    elif layout == "bshd":
        y = implementation(x.transpose(1, 2), positions).transpose(1, 2)
    else:
        flat = x.transpose(1, 2).reshape(2, S, heads * head_dim)
        y = implementation(flat, positions).reshape(2, S, heads, head_dim).transpose(1, 2)
    require_close(y, turned(x.double().numpy(), angles(d), *channels, out))


STARTS_AT_ZERO = ["sin|cos from a buffer", "method of attention, length only"]


@pytest.mark.parametrize("name", STARTS_AT_ZERO)
def test_negative_positions_do_not_wrap(name):
    """The attention's own gather refuses them; indexing would take the last row."""
    (model, cls, config, settings), (_, layout, *_) = ONE_AXIS[name]
    implementation = from_transformers(make(model, cls, config, **settings))
    heads, head_dim = implementation.num_heads, implementation.head_dim
    x = torch.zeros((1, 2, heads, head_dim) if layout == "bshd" else (1, 2, heads * head_dim))
    with pytest.raises((ValueError, RuntimeError, IndexError), match=r"out of bounds|from 0:"):
        implementation(x, torch.tensor([-1, 0]))


def test_two_axes():
    """A tower has one row of patches: the rows of a batch are rotated one by one."""
    module = make(
        "qwen2_vl", "Qwen2VLVisionRotaryEmbedding", "Qwen2VLVisionConfig", embed_dim=64, num_heads=4
    )
    implementation = from_transformers(module)
    assert (implementation.head_dim, implementation.tensor_layout) == (16, "bshd")
    assert implementation.axes == 2
    rows, columns = np.arange(S), np.arange(S)[::-1] * 2
    x = torch.randn(2, S, 3, 16, generator=torch.Generator().manual_seed(0))
    positions = torch.from_numpy(np.stack([[rows, columns], [columns, rows]]))
    y = implementation(x, positions).transpose(1, 2)
    for b, axes in enumerate([(rows, columns), (columns, rows)]):
        angle = np.concatenate([angles(8, positions=p) for p in axes], -1)
        require_close(y[b], turned(x[b].transpose(0, 1).double().numpy(), angle, *half(16)))


def test_two_axes_as_last_axis():
    """Blocks of channels per axis; positions (B, S, A) look like (S, A) until a batch is probed."""
    config = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16}
    module = make("gemma4", "Gemma4VisionRotaryEmbedding", "Gemma4VisionConfig", **config)
    implementation = from_transformers(module)
    assert (implementation.head_dim, implementation.tensor_layout) == (16, "bshd")
    rows, columns = np.arange(S), np.arange(S)[::-1] * 2
    x = torch.randn(2, S, 3, 16, generator=torch.Generator().manual_seed(0))
    positions = torch.from_numpy(np.stack([[rows, columns], [columns, rows]]))  # (A, B, S)
    y = implementation(x, positions).transpose(1, 2)
    exact = x.transpose(1, 2).double().numpy()
    for b, axes in enumerate([(rows, columns), (columns, rows)]):
        angle = np.concatenate([angles(8, base=100.0, positions=p) for p in axes], -1)
        channels = tuple(np.concatenate([h, h + 8]) for h in half(8))
        truth = turned(exact[b], angle, *channels)
        require_close(y[b], truth)


def test_probes_have_distinct_sizes():
    assert len({1, *rotary_search.SIZES, *rotary_table.AXES}) == 7


def test_layer_types_have_tables_of_their_own():
    settings = SMALL | {
        "head_dim": 16,
        "num_hidden_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    module = make("gemma3", "Gemma3RotaryEmbedding", "Gemma3TextConfig", **settings)
    bases = {}
    for layer_type in settings["layer_types"]:
        implementation = from_transformers(module, layer_type=layer_type, layout="half")
        assert layer_type in implementation.name
        bases[layer_type] = implementation.encoding.base
        x = torch.randn(1, 4, S, 16, generator=torch.Generator().manual_seed(0))
        exact = turned(x.double().numpy(), angles(16, implementation.encoding.base), *half(16))
        require_close(implementation(x, torch.arange(S)), exact)
    assert bases == {"sliding_attention": 10_000.0, "full_attention": 1_000_000.0}


def llama(**more):
    return make("llama", "LlamaRotaryEmbedding", "LlamaConfig", **SMALL, **more)


def test_other_surfaces_of_a_rotary_module():
    module = llama()
    frequencies = from_transformers(module, surface="frequencies")()
    assert frequencies.shape == (8,)
    cos, sin = from_transformers(module, surface="cos_sin")(torch.arange(S))
    assert cos.shape == sin.shape == (S, 16)
    x = torch.randn(2, 4, S, 16)
    q, k = from_transformers(module, surface="apply_qk")(x, x, torch.arange(S), torch.arange(S))
    apply = from_transformers(module)
    assert torch.equal(q, apply(x, torch.arange(S)))
    assert torch.equal(q, k)


def test_probing_leaves_no_trace():
    """A module that adapts to the length must not have seen the probe, nor its fresh instances."""
    scaling = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    module = llama(max_position_embeddings=4, rope_parameters=scaling)
    before = module.inv_freq.clone()
    from_transformers(module)
    assert torch.equal(module.inv_freq, before)
    implementation = from_transformers(module, surface="frequencies")
    assert torch.equal(implementation(), before)
    longer = implementation(64).clone()
    assert not torch.equal(longer, before)
    assert torch.equal(module.inv_freq, longer)  # it is the caller's module that is judged
    fresh = implementation.factory()
    assert torch.equal(fresh(), before)
    fresh(64)
    assert torch.equal(fresh.factory()(), before)


def test_a_factory_keeps_what_was_done_to_the_module():
    module = llama().to(torch.bfloat16)
    x = torch.ones(1, 1, S, 16)
    implementation = from_transformers(module)
    assert module.inv_freq.dtype == torch.bfloat16
    fresh = implementation.factory()
    assert torch.equal(fresh(x, torch.arange(S)), implementation(x, torch.arange(S)))


def test_a_learned_table_starts_where_the_module_says():
    settings = {"d_model": 16, "encoder_layers": 1, "encoder_attention_heads": 2}
    module = make("bart", "BartEncoder", "BartConfig", **settings, encoder_ffn_dim=8)
    implementation = from_transformers(module)
    assert implementation.surface == "table"
    rows = implementation(torch.arange(3, 7)).detach().numpy()
    assert implementation.encoding.offset == 2
    assert np.array_equal(rows, implementation.encoding.weight[5:9])


def concat_table(positions, dim, n):
    """Sines, then cosines, of p * 10000 ** (-k/n)."""
    angle = positions[:, None] * 10000.0 ** (-np.arange(dim // 2) / n)
    exact = np.concatenate([np.sin(angle), np.cos(angle)], -1)
    return accuracy.Truth(exact, abs(exact), np.concatenate([angle, angle], -1))


FAIRSEQ = {
    "from embeddings": ("m2m_100", "M2M100SinusoidalPositionalEmbedding"),
    "from tokens": ("speech_to_text", "Speech2TextSinusoidalPositionalEmbedding"),
}


@pytest.mark.parametrize("case", FAIRSEQ.values(), ids=FAIRSEQ)
def test_fairseq_positions_start_after_the_padding_row(case):
    model, name = case
    module = getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)
    implementation = from_transformers(module(32, 16, 1))
    rows = implementation(torch.arange(3, 8))
    require_close(rows, concat_table(np.arange(3, 8) + 2, 16, 7))
    with pytest.raises(ValueError, match="contiguous"):
        implementation(torch.tensor([3, 5]))


def test_positions_may_be_wanted_as_a_column():
    from transformers.models.pegasus_x.modeling_pegasus_x import (
        PegasusXSinusoidalPositionalEmbedding,
    )

    implementation = from_transformers(PegasusXSinusoidalPositionalEmbedding(16))
    rows = implementation(torch.tensor([3, 50, 7]))
    require_close(rows, concat_table(np.array([3, 50, 7]), 16, 7))


def test_a_model_may_have_a_choice_of_surfaces():
    settings = {"hidden_size": 48, "num_attention_heads": 12, "num_hidden_layers": 1}
    model = make("falcon", "FalconModel", "FalconConfig", **settings, vocab_size=9)
    assert from_transformers(model).surface == "apply"
    bias = from_transformers(model, surface="bias")
    assert bias(3, 5).shape == (12, 1, 5)
    assert bias.encoding.num_heads == 12


@pytest.mark.parametrize(
    ("target", "settings", "message"),
    [
        (lambda: 3, {}, "neither a torch module nor a function"),
        (lambda: len, {}, "len takes obj"),
        (lambda: torch.nn.Linear(2, 2), {}, "nothing in Linear gives"),
        (llama, {"layer_type": "full_attention"}, "one table for all layer types"),
        (llama, {"surface": "bucket"}, "nothing in LlamaRotaryEmbedding gives bucket"),
        (
            lambda: make("musicflamingo", "MusicFlamingoRotaryEmbedding", "MusicFlamingoConfig"),
            {},
            "takes timestamps.*takes no positions",
        ),
    ],
)
def test_refusals_say_what_is_missing(target, settings, message):
    with pytest.raises(ValueError, match=message):
        from_transformers(target(), **settings)


class Named(torch.nn.Module):
    """A rotary module of nobody's: one table for each layer type that it is told."""

    def __init__(self, types, config=None):
        super().__init__()
        self.layer_types, self.config = types, config

    def forward(self, x, position_ids, layer_type=None):
        base = {"global": 1e6, "local": 1e4}[layer_type]
        w = base ** (-torch.arange(0, 16, 2) / 16)
        angle = position_ids[..., None].float() * torch.cat([w, w])
        return angle.cos(), angle.sin()


Named.__name__ = "NamedRotaryEmbedding"
Named.__module__ = "transformers.models.llama.modeling_llama"


def test_a_module_with_two_tables_says_which_it_has():
    importlib.import_module(Named.__module__)
    listed = Named(["global", "local"])
    assert from_transformers(listed, surface="cos_sin").name.endswith("(global)")
    assert from_transformers(listed, surface="cos_sin", layer_type="local").name.endswith("(local)")
    with pytest.raises(ValueError, match=r"must be one of .*, global, local; got 'loca'; did you"):
        from_transformers(listed, surface="cos_sin", layer_type="loca")
    unlisted = Named(None)
    with pytest.raises(ValueError, match=r"neither it nor a configuration lists them: pass layer"):
        from_transformers(unlisted, surface="cos_sin")
    found = from_transformers(unlisted, surface="cos_sin", layer_type="global")
    cos, _ = found.call(torch.tensor([1]))
    assert torch.equal(cos[0], torch.cat([1e6 ** (-torch.arange(0, 16, 2) / 16)] * 2).cos())
    with pytest.raises(ValueError, match="one table for all layer types: leave out layer_type='x'"):
        from_transformers(make("llama", "LlamaRotaryEmbedding", "LlamaConfig", **SMALL),
                          layer_type="x")  # fmt: skip


def test_no_base_is_declared_that_nobody_stated():
    module = make("llama", "LlamaRotaryEmbedding", "LlamaConfig", **SMALL)
    assert from_transformers(module, layout="half").encoding.base == 10000.0
    module.config = SimpleNamespace(
        **SMALL, to_dict=lambda: SMALL | {"model_type": "model_of_nobody"}
    )
    with pytest.raises(ValueError, match="model_of_nobody states no base"):
        from_transformers(module, layout="half")
    module.config = None
    with pytest.raises(ValueError, match="layout='half' declares the encoding of a configuration"):
        from_transformers(module, layout="half")
    assert from_transformers(module).encoding is None
