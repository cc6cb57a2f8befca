"""Presets: values against published tables, provenance, and what is not known."""

import difflib
import json
import math
from decimal import Decimal

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref import LinearScaling, Llama3Scaling, MultiAxisRoPE, RoPE, YaRN, preset, presets
from posenc_ref.models.config_facts import table
from posenc_ref.models.presets import needs

COMPLETE = [name for name in presets() if not needs(name)]
INCOMPLETE = [name for name in presets() if needs(name)]
# A value for every fact that some preset needs.
FACTS = {
    "base": 10000.0, "head_dim": 128, "layout": "half", "rotary_dim": 64, "num_heads": 8,
    "scaling": None, "beta_fast": 32.0, "original_max_position": 8192, "attention_factor": 1.2,
    "sections": (32, 32), "dim": 64, "weight": np.ones((9, 4)), "table": np.ones((32, 8)),
    "cos_coef": np.ones((4, 45, 45)), "sin_coef": np.ones((4, 45, 45)),
    "relative_keys": np.ones((2, 512, 4)), "relative_queries": np.ones((2, 512, 4)),
}  # fmt: skip


def test_paper_and_code_are_both_named():
    sides = {name: FACTS[name] for name in ("relative_keys", "relative_queries")}
    code, paper = (preset(n, **sides).only for n in ("deberta-v1", "deberta-v1-paper"))
    assert (code.p2c, paper.p2c) == ("code", "paper")
    assert code.replace(p2c="paper") == paper
    assert preset("deberta-v3", **sides).only.bucket(np.array([500])) == 254
    rows, columns = (preset(n, dim=16).only for n in ("vit-mae", "vit-mae-released"))
    assert rows.replace(axis_order="wh") == columns
    inside, beside = (preset(n, num_heads=8).only for n in ("falcon-rw", "bloom"))
    assert inside.replace(bias_inside_scale=False) == beside == preset("mpt", num_heads=8).only


@pytest.mark.parametrize("name", COMPLETE)
def test_every_complete_preset(name):
    model = preset(name)
    assert model.name == name
    assert any(encoding is not None for encoding in model.encodings.values())
    assert pr.from_dict(json.loads(json.dumps(model.to_dict()))) == model
    for fact, source in model.provenance.items():
        assert source, fact
        assert "config:" not in source, f"{fact}: {source}"
    facts = {fact.rpartition(": ")[2] for fact in model.provenance}
    assert {"base", "layout"} <= facts
    assert facts & {"head_dim", "dim"}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_every_incomplete_preset_says_what_it_needs_and_takes_it(name):
    with pytest.raises(ValueError, match="is not complete, pass ") as caught:
        preset(name)
    facts = {}
    for fact, why in needs(name):
        assert f"{fact}= ({why})" in str(caught.value)
        facts[fact] = FACTS.get(fact)
    pairs = 48  # of Phi-3 and Phi-4-mini; 64 of Phi-3.5-MoE
    pairs = 64 if name == "phi-3.5-moe" else pairs
    for fact in ("short_factor", "long_factor"):
        if fact in facts:
            facts[fact] = [1.0] * pairs
    if name == "mochi-1":
        facts["weight"] = np.ones((24, 3, 64))
    model = preset(name, **facts)
    assert {model.provenance[fact] for fact in facts} == {"the caller"}
    if facts.get("base"):
        bases = {e.base for e in model.encodings.values() if e is not None}
        assert bases == {10000.0}
    if "head_dim" in facts:
        assert {e.head_dim for e in model.encodings.values() if e is not None} == {128}


KNOWN = [
    ("llama-2-7b", RoPE(128, layout="half")),
    ("llama-3-8b", RoPE(128, layout="half", base=500000.0)),
    ("llama-3.1-8b",
     RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))),
    ("llama-3.2-1b",
     RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192))),
    ("llama-2-7b-32k", RoPE(128, layout="half", scaling=LinearScaling(8.0))),
    ("gpt-j-6b", RoPE(256, layout="interleaved", rotary_dim=64)),
    ("gpt-neox-20b", RoPE(96, layout="half", rotary_dim=24)),
    ("pythia-2.8b", RoPE(80, layout="half", rotary_dim=20)),
    ("phi-2", RoPE(80, layout="half", rotary_dim=32)),
    ("falcon3-7b", RoPE(256, layout="half", base=1000042.0)),
    ("qwen2.5-7b", RoPE(128, layout="half", base=1e6)),
    ("qwen3-30b-a3b-2507", RoPE(128, layout="half", base=1e7)),
    ("minimax-m2", RoPE(128, layout="half", base=5e6, rotary_dim=64)),
    ("gpt-oss-20b",
     RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False))),
    ("deepseek-v2",
     RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128,
          scaling=YaRN(40.0, 4096, mscale=0.707, mscale_all_dim=0.707))),
    ("nomic-embed-text-v1.5", RoPE(64, layout="half", base=1000.0)),
    ("helium-1", RoPE(128, layout="interleaved", base=100000.0)),
    ("qwen2-vl", MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6)),
    ("flux.1", MultiAxisRoPE(128, sections=(8, 28, 28), layout="interleaved",
                             spacing="restart")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "encoding"), KNOWN, ids=lambda x: str(x)[:30])
def test_values(name, encoding):
    assert preset(name).only == encoding


def test_numbers_of_the_issues():
    """Softmax factors that onnxruntime/mobius#548 and vllm#27722 quote, to their last digit."""

    def rounded(x, digits):
        return str(Decimal(x).quantize(Decimal(1).scaleb(-digits)))

    v3, v2 = preset("deepseek-v3"), preset("deepseek-v2")
    assert rounded(v3.softmax_scale * math.sqrt(192), 5) == "1.87385"
    assert rounded(v2.softmax_scale * math.sqrt(192), 5) == "1.58963"
    assert v3.only.attention_factor() == v2.only.attention_factor() == 1.0
    assert rounded(preset("gpt-oss-120b").only.attention_factor(), 5) == "1.34657"
    frequencies = preset("llama-3.1-8b").only.frequencies()
    plain = preset("llama-3-8b").only.frequencies()
    assert np.array_equal(frequencies[:29], plain[:29])
    assert np.array_equal(frequencies[35:], plain[35:] / 8)


def test_layers_of_several_kinds():
    gemma = preset("gemma-3-27b")
    assert gemma.softmax_scale == 168**-0.5
    assert gemma.layers("full_attention") == tuple(range(5, 62, 6))
    assert preset("gemma-3-1b").encodings["full_attention"].scaling is None
    assert preset("qwen3-next-80b-a3b").layers("full_attention") == tuple(range(3, 48, 4))
    assert preset("modernbert-base").encodings["sliding_attention"].base == 10000.0


def test_facts_of_the_caller():
    longer = preset("qwen2.5-7b", scaling=YaRN(4.0, 32768))
    assert longer.only.scaling == YaRN(4.0, 32768)
    assert longer.provenance["scaling"] == "the caller"
    assert longer.layer_types == preset("qwen2.5-7b").layer_types
    palm = preset("palm", head_dim=256, base=10000.0, layout="interleaved")
    assert palm.only == RoPE(256, layout="interleaved")
    with pytest.raises(ValueError, match=r"fact must be one of 'head_dim', .*got 'bass'"):
        preset("llama-3-8b", bass=1e6)
    with pytest.raises(TypeError, match="scaling must be a schedule"):
        preset("llama-3-8b", scaling="yarn")
    with pytest.raises(ValueError, match="base must be greater than 1"):
        preset("yi-6b", base=1.0)


def test_names():
    with pytest.raises(ValueError, match=r"did you mean 'llama-3.1-8b'"):
        preset("llama3.1-8b")
    assert preset("Llama-3.1-8B") == preset("meta-llama/Llama-3.1-8B") == preset("llama-3.1-8b")
    with pytest.raises(ValueError, match=r"did you mean .*'qwen3-8b'"):
        preset("qwen3")
    with pytest.raises(ValueError, match=r"'zzz' is not known; presets\(\) lists all"):
        preset("zzz")
    with pytest.raises(TypeError, match="name must be a string"):
        preset(3)
    assert list(presets()) == sorted(presets())
    assert all(name == name.lower() and " " not in name for name in presets())


def test_no_fact_without_a_source():
    entries, sources = table("presets")["presets"], table("presets")["sources"]
    assert {entry["source"] for entry in entries.values()} == set(sources)
    for name, entry in entries.items():
        if entry["source"] == "none":
            assert entry["needs"], name
        # What is known by hearsay is not in what is shipped.
        assert "hearsay" not in json.dumps(entry.get("config", {}))


def test_the_table_of_the_text_has_no_two_spellings_of_one_model():
    close = [
        (a, b)
        for i, a in enumerate(presets())
        for b in presets()[i + 1 :]
        if a.replace("-", "") == b.replace("-", "")
    ]
    assert close == []
    assert difflib.get_close_matches("llama3.1-8b", presets())[0] == "llama-3.1-8b"


def test_mochi_refuses_the_axes_of_its_checkpoint():
    """pos_frequencies is (axes, heads, pairs); as a weight it would mean 3 heads with 24 axes."""
    with pytest.raises(ValueError, match=r"shape \(24, 3, 64\), got \(3, 24, 64\): .*exchanged"):
        preset("mochi-1", weight=np.ones((3, 24, 64)))
