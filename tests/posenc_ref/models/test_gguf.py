"""GGUF metadata, against values worked out by hand from llama.cpp's code."""

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from posenc_ref import GivenFrequencies, LinearScaling, LongRoPE, MultiAxisRoPE, RoPE, YaRN
from posenc_ref.accuracy import BUDGET, Truth
from posenc_ref.models.gguf_metadata import from_gguf_metadata

DIVISORS = np.array([1] * 20 + [1.5, 2.25] + [8] * 10, np.float32)


def metadata(architecture, **entries):
    usual = {"block_count": 4, "embedding_length": 256, "attention.head_count": 4,
             "context_length": 8192}  # fmt: skip
    keys = {key.replace("__", "."): value for key, value in entries.items()}
    body = {f"{architecture}.{key}": value for key, value in {**usual, **keys}.items()}
    return {"general.architecture": architecture} | body


ONE = [
    # Llama at Hugging Face is half-split; the converter permutes it.
    (metadata("llama", rope__freq_base=500000.0), RoPE(64, layout="interleaved", base=500000.0)),
    (metadata("qwen2", rope__freq_base=1e6), RoPE(64, layout="half", base=1e6)),
    (metadata("llama", attention__key_length=128), RoPE(128, layout="interleaved")),
    (metadata("gptneox", rope__dimension_count=16), RoPE(64, layout="half", rotary_dim=16)),
    # A factor without a type is linear; so is the old key.
    (metadata("llama", rope__scaling__factor=4.0),
     RoPE(64, layout="interleaved", scaling=LinearScaling(4.0))),
    (metadata("llama", rope__scale_linear=4.0),
     RoPE(64, layout="interleaved", scaling=LinearScaling(4.0))),
    (metadata("llama", rope__scaling__type="none", rope__scaling__factor=4.0),
     RoPE(64, layout="interleaved")),
    # ggml multiplies by 1 + 0.1 ln(factor) itself.
    (metadata("qwen2", rope__scaling__type="yarn", rope__scaling__factor=4.0,
              rope__scaling__original_context_length=32768),
     RoPE(64, layout="half",
          scaling=YaRN(4.0, 32768, attention_factor=1.0 + 0.1 * math.log(4.0)))),
    (metadata("qwen2", rope__scaling__type="yarn", rope__scaling__factor=4.0,
              rope__scaling__yarn_ext_factor=0.0),
     RoPE(64, layout="half", scaling=LinearScaling(4.0))),
    (metadata("qwen2vl", attention__key_length=128, rope__dimension_sections=[16, 24, 24, 0]),
     MultiAxisRoPE(128, sections=(16, 24, 24), layout="half")),
    (metadata("qwen35", attention__key_length=256, rope__dimension_count=64,
              rope__dimension_sections=[11, 11, 10, 0]),
     MultiAxisRoPE(256, sections=(11, 11, 10), layout="half", arrangement="interleaved")),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "encoding"), ONE)
def test_one_table(entries, encoding):
    model = from_gguf_metadata(entries)
    assert model.only == encoding
    assert len(model.layer_types) == 4
    assert "llama.cpp" in model.provenance["layout"]


def test_llama3_frequencies_are_a_tensor_of_divisors():
    model = from_gguf_metadata(
        metadata("llama", rope__freq_base=500000.0), {"rope_freqs.weight": DIVISORS}
    )
    scaling = model.only.scaling
    assert isinstance(scaling, GivenFrequencies)
    with mp.workdps(50):
        want = [
            float(mpf(500000) ** (-mpf(2 * k) / 64) / mpf(float(d))) for k, d in enumerate(DIVISORS)
        ]
    assert list(scaling.frequencies) == want
    factor = from_gguf_metadata(
        metadata("llama", rope__freq_base=500000.0, rope__scaling__factor=2.0),
        {"rope_freqs.weight": DIVISORS},
    )
    assert factor.only.frequencies()[5] == want[5] / 2


def test_longrope_has_two_tensors():
    short, long = np.full(32, 1.25, np.float32), np.full(32, 4.0, np.float32)
    entries = metadata(
        "phi3", rope__scaling__attn_factor=1.25, rope__scaling__original_context_length=4096
    )
    tensors = {"rope_factors_short.weight": short, "rope_factors_long.weight": long}
    want = LongRoPE([1.25] * 32, [4.0] * 32, 4096, attention_factor=1.25)
    assert from_gguf_metadata(entries, tensors).only == RoPE(64, layout="half", scaling=want)
    with pytest.raises(ValueError, match=r"must contain 'rope_factors_short.weight'"):
        from_gguf_metadata(entries, {"rope_factors_long.weight": long})


def test_latent_attention():
    """DeepSeek: the trailing slice, m = 1, and the rest in the softmax scale."""
    entries = metadata(
        "deepseek2", attention__key_length=576, attention__key_length_mla=192,
        rope__dimension_count=64, rope__scaling__type="yarn", rope__scaling__factor=40.0,
        rope__scaling__original_context_length=4096, rope__scaling__yarn_log_multiplier=0.1,
    )  # fmt: skip
    model = from_gguf_metadata(entries)
    assert model.only == RoPE(
        192, layout="interleaved", rotary_dim=64, rotary_start=128,
        scaling=YaRN(40.0, 4096, attention_factor=1.0),
    )  # fmt: skip
    want = np.array(float(Fraction(192)) ** -0.5 * (0.1 * math.log(40) + 1) ** 2)
    truth = Truth(want, want, np.zeros(()))
    assert truth.score(np.array(model.softmax_scale)).max() <= BUDGET["float64"]


def test_layers_of_gemma3():
    entries = metadata(
        "gemma3", block_count=62, embedding_length=5376, attention__head_count=32,
        attention__key_length=128, attention__sliding_window=1024, rope__freq_base=1e6,
        rope__scaling__type="linear", rope__scaling__factor=8.0,
    )  # fmt: skip
    model = from_gguf_metadata(entries)
    assert dict(model.encodings) == {
        "sliding_attention": RoPE(128, layout="half"),
        "full_attention": RoPE(128, layout="half", base=1e6, scaling=LinearScaling(8.0)),
    }
    assert model.layers("full_attention") == tuple(range(5, 62, 6))
    assert model.softmax_scale == 168**-0.5


def test_layers_without_positions():
    llama4 = from_gguf_metadata(metadata("llama4", rope__freq_base=5e5))
    assert llama4.encodings["full_attention"] is None
    assert set(llama4.query_scale) == {"full_attention"}
    smol = from_gguf_metadata(metadata("smollm3", rope__freq_base=5e6))
    assert smol.layers("full_attention_nope") == (3,)
    cohere = from_gguf_metadata(metadata("cohere2", attention__sliding_window=4096))
    assert cohere.layer_types == (*["sliding_attention"] * 3, "full_attention")
    granite = from_gguf_metadata(metadata("granite", rope__scaling__finetuned=False))
    assert set(granite.encodings.values()) == {None}
    hybrid = from_gguf_metadata(metadata("lfm2", attention__head_count_kv=[0, 0, 8, 0]))
    assert hybrid.layers("full_attention") == (2,)
    assert set(hybrid.encodings) == {"full_attention"}


def test_gpt_oss_is_not_truncated():
    entries = metadata("gpt-oss", rope__scaling__type="yarn", rope__scaling__factor=32.0,
                       rope__scaling__original_context_length=4096)  # fmt: skip
    assert from_gguf_metadata(entries).only.scaling.truncate is False


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "metadata must have general.architecture"),
        (metadata("bloom"), "'bloom': it has no rotary encoding"),
        (metadata("mine"), r"channel layout is unknown: pass layout=\"interleaved\""),
        (metadata("llama", rope__scaling__type="ntk"), "must be one of none, linear, yarn"),
        (metadata("llama", rope__scaling__facto=2.0), r"'llama.rope.scaling.facto' \(= 2.0\)"),
        (metadata("llama", rope__scaling__alpha=1000.0), "rope.scaling.alpha"),
        (metadata("llama", attention__head_count=None), "'llama.attention.head_count' is missing"),
        (metadata("llama", rope__freq_base=0.5), "llama.rope.freq_base must be greater than 1"),
        (metadata("qwen2", rope__scaling__type="yarn", rope__scaling__yarn_ext_factor=0.5),
         "yarn_ext_factor must be 0 or 1, got 0.5"),
        (metadata("qwen2vl", rope__dimension_sections=[16, 24, 24, 0]),
         r"must add up to the 32 rotated pairs, got \(16, 24, 24\)"),
        (metadata("llama", rope__dimension_count=63), "rotary_dim must be even"),
    ],
)  # fmt: skip
def test_refused(entries, message):
    with pytest.raises(ValueError, match=message):
        from_gguf_metadata(entries)


def test_refused_tensors_and_types():
    with pytest.raises(ValueError, match="one divisor for each of the 32 rotated pairs, got 8"):
        from_gguf_metadata(metadata("llama"), {"rope_freqs.weight": np.ones(8)})
    with pytest.raises(TypeError, match="metadata must be a mapping"):
        from_gguf_metadata("model.gguf")
    assert from_gguf_metadata(metadata("mine"), layout="half").only == RoPE(64, layout="half")
