"""Two models compared: the words, and the effect against matrices and mpmath written here."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf

from posenc_ref import ALiBi, ModelEncoding, QueryTemperature, RoPE, YaRN, from_config, preset
from posenc_ref.conformance.configurations.diff import diff
from posenc_ref.models.config import described_config
from posenc_ref.models.context import Described
from tests.conformance.configurations.close import close

LLAMA = {"model_type": "llama", "head_dim": 64, "num_hidden_layers": 4,
         "max_position_embeddings": 4096, "rope_theta": 10000.0}  # fmt: skip
GEMMA = {"model_type": "gemma3_text", "head_dim": 64, "num_hidden_layers": 12}


def compare(a, b, converted="", rules=False):
    """The difference of two configurations, or of two models."""
    made = [m if isinstance(m, Described) else described_config(m) for m in (a, b)]
    return diff(*made, names=("a", "b"), converted=converted, rules=rules)


def one(encoding, **more):
    return Described(ModelEncoding("m", encodings={"x": encoding}, **more), 4096)


def words(found):
    return [*found.others, *(said for row in found.rows for said in row.differences)]


CHANGES = [
    ({"rope_theta": 500000.0}, ["base: 10000 against 500000"]),
    ({"head_dim": 128}, ["head_dim: 64 against 128"]),
    ({"num_hidden_layers": 6}, ["layers: 4 against 6"]),
    ({"model_type": "ernie4_5"},
     ["layout: 'half' against 'interleaved'; logits agree only if the weights of queries and keys "
      "are permuted alike"]),
    ({"model_type": "phi", "partial_rotary_factor": 0.5, "hidden_size": 256,
      "num_attention_heads": 4, "head_dim": None}, ["rotary_dim: 64 against 32"]),
    ({"model_type": "granite", "attention_multiplier": 0.5},
     ["softmax scale times sqrt(head_dim): 1 against 4"]),
    ({"rope_scaling": {"type": "linear", "factor": 4.0}},
     ["scaling: none against LinearScaling(4.0)"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_what_differs_in_words(change, said):
    found = compare(LLAMA, {**LLAMA, **change})
    assert words(found) == said
    assert (found.verdict, found.exit_code) == ("differ", 1)
    same = compare(LLAMA, {**LLAMA})
    assert (words(same), same.verdict, same.exit_code) == ([], "same", 0)


def test_spellings_mean_the_same():
    scaling = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 8192}  # fmt: skip
    v4 = {**LLAMA, "rope_scaling": {"type": "llama3", **scaling}}
    v5 = {k: v for k, v in LLAMA.items() if k != "rope_theta"}
    v5["rope_parameters"] = {"rope_type": "llama3", "rope_theta": 10000.0, **scaling}
    assert compare(v4, v5).verdict == "same"
    v5["rope_parameters"]["high_freq_factor"] = 5.0
    assert words(compare(v4, v5)) == ["Llama3Scaling.high_freq_factor: 4 against 5"]


def test_layers_are_named_by_number():
    other = {**GEMMA, "rope_local_base_freq": 50000.0}
    found = compare(GEMMA, other)
    assert [row.layers for row in found.rows if row.differences] == [
        "layers 0-4, 6-10 (sliding_attention)"
    ]
    assert [row.layers for row in found.rows if not row.differences] == [
        "layers 5, 11 (full_attention)"
    ]
    moved = compare(GEMMA, {**GEMMA, "sliding_window_pattern": 4})
    assert "layers 3, 7 (sliding_attention against full_attention):" in str(moved)
    assert "differs   layer type: full_attention against sliding_attention" in str(moved)
    mistral = {**LLAMA, "model_type": "mistral"}
    found = compare({**mistral, "sliding_window": None}, {**mistral, "sliding_window": 4096})
    assert words(found) == ["window: all against 4096 keys"]
    assert words(compare({**GEMMA, "sliding_window": 512}, {**GEMMA, "sliding_window": 1024})) == [
        "window: 512 against 1024 keys"
    ]


def test_layers_without_encoding():
    smollm = {"model_type": "smollm3", "head_dim": 64, "num_hidden_layers": 4}
    found = compare(smollm, {**smollm, "no_rope_layers": [1, 1, 1, 1]})
    assert words(found) == ["encoding: no positional encoding against RoPE"]
    assert found.rows[-1].effect.first == 1


def test_factors_on_queries():
    scale = QueryTemperature(0.5, 1024)
    found = compare(
        one(RoPE(8, layout="half")), one(RoPE(8, layout="half"), query_scale={"x": scale})
    )
    assert words(found) == ["query scale: none against QueryTemperature(0.5, 1024)"]
    # The logits of the last query of 4096 are multiplied by 1 + 0.5 ln(1 + 3).
    assert close(found.rows[0].effect.errors[4096], 0.5 * math.log(4), terms=2.0)


def test_a_factor_on_cos_and_sin_counts_twice_in_logits():
    plain, larger = (
        one(RoPE(64, layout="half", scaling=YaRN(4.0, 4096, attention_factor=m)))
        for m in (1.0, 1.1)
    )
    found = compare(plain, larger)
    assert words(found) == ["YaRN.attention_factor: 1 against 1.1"]
    assert found.rows[0].effect.first == 0
    assert all(close(e, 1.1**2 - 1, terms=2.0) for e in found.rows[0].effect.errors.values())


def test_a_factor_on_all_logits():
    granite = {**LLAMA, "model_type": "granite", "attention_multiplier": 0.5}
    effect = compare(LLAMA, granite).rows[0].effect
    assert effect.first is None  # 0.5 is 4 / sqrt(64)
    assert all(close(error, 3.0, terms=5.0) for error in effect.errors.values())


def test_a_model_with_axes_against_text():
    axes = from_config({"model_type": "qwen2_vl_text", "hidden_size": 512, "num_attention_heads": 4,
                        "num_hidden_layers": 1, "rope_theta": 1e4, "rope_scaling": {
                            "type": "mrope", "mrope_section": [16, 24, 24]}})  # fmt: skip
    found = compare(Described(axes, 4096), one(RoPE(128, layout="half")))
    assert words(found) == ["position axes: 3 (of (16, 24, 24) pairs) against one"]
    assert found.rows[0].effect.first is None
    assert "for text" in found.rows[0].effect.tried
    other = axes.only.replace(sections=(24, 24, 16))
    moved = compare(one(axes.only), one(other))
    assert moved.rows[0].effect.first == 1  # along one axis


def test_biases():
    found = compare(one(ALiBi(8)), one(ALiBi(8, max_bias=16.0)))
    assert words(found) == ["max_bias: 8 against 16"]
    # Slopes are 2 ** -h against 4 ** -h: at distance 1 the first head differs by 1/4.
    assert found.rows[0].effect.first == 1
    assert found.rows[0].effect.errors[4096] == 4095 / 4


def test_learned_numbers_are_not_compared():
    found = compare(Described(preset("gpt-2", weight=np.zeros((4, 2)))),
                    Described(preset("opt", weight=np.ones((4, 2)))))  # fmt: skip
    assert words(found) == ["offset: 0 against 2"]
    assert "weight: learned numbers, which were not compared" in str(found)


def test_sizes_of_learned_tables():
    gpt2 = {"model_type": "gpt2", "n_positions": 64, "n_embd": 8}
    short, long = (described_config({**gpt2, "n_positions": n}, learned=True) for n in (64, 128))
    assert words(compare(short, long)) == ["weight: 64 x 8 against 128 x 8 numbers"]
    unknown = Described(preset("gpt-2", weight=np.zeros((1024, 1))))
    assert compare(short, unknown).verdict == "same"
    t5 = {"model_type": "t5", "num_heads": 4}
    found = compare(*(described_config({**t5, "relative_attention_max_distance": n}, learned=True)
                      for n in (128, 256)))  # fmt: skip
    assert words(found) == ["max_distance: 128 against 256"] * 2


def test_drafts_share_rules():
    draft = {**LLAMA, "head_dim": 32, "num_hidden_layers": 1}
    assert compare(draft, LLAMA, rules=True).verdict == "same"
    other = compare({**draft, "rope_theta": 1e6}, LLAMA, rules=True)
    assert words(other) == ["base: 1000000 against 10000"]
    partial = {**draft, "model_type": "glm4_moe", "partial_rotary_factor": 0.5}
    assert words(compare(partial, LLAMA, rules=True)) == [
        "rotated fraction of a head: 0.5 against 1"
    ]


def test_the_converter_of_gguf_permutes_weights():
    half, interleaved = (one(RoPE(64, layout=name)) for name in ("half", "interleaved"))
    found = compare(half, interleaved, converted="B")
    assert (found.verdict, found.rows[0].effect.first) == ("same", None)
    assert max(found.rows[0].effect.errors.values()) == 0
    assert "llama.cpp's converter permutes the weights" in str(found)
    assert compare(interleaved, half, converted="A").verdict == "same"
    assert compare(half, interleaved).verdict == "differ"
    assert compare(half, interleaved, converted="A").verdict == "differ"


# -- the effect, computed here -----------------------------------------------------------------


def plain(base, dim):
    return [mpf(base) ** (-mpf(2 * k) / dim) for k in range(dim // 2)]


def llama3(base, dim):
    found = []
    for w in plain(base, dim):
        turns = 8192 * w / (2 * mp.pi)
        t = min(max((turns - 1) / 3, 0), 1)
        found.append(w * ((1 - t) / 8 + t))
    return found


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip


@pytest.mark.parametrize(("base", "scaling", "frequencies"), [
    (10100.0, None, plain), (10001.0, None, plain), (10000.0, LLAMA3, llama3),
])  # fmt: skip
def test_first_position_and_logits_against_mpmath(base, scaling, frequencies):
    found = compare(LLAMA, {**LLAMA, "rope_theta": base, "rope_scaling": scaling})
    effect = found.rows[0].effect
    assert found.verdict == "differ"
    with mp.workdps(40):
        pairs = list(zip(plain(10000, 64), frequencies(base, 64), strict=True))

        def off(p):
            """The largest change of an element (cos, sin) + i ... of a rotation to p."""
            return max(abs(mp.expj(p * a) - mp.expj(p * b)) for a, b in pairs)

        first = next(p for p in range(4096) if off(p) > mpf(2) ** -9)
        assert effect.first == first
        assert effect.tried == "every position below 4096"
        for length, error in effect.errors.items():
            assert close(error, off(length - 1), terms=2.0, angle=float(length))


def rotation(layout, dim, rotary, base, n):
    """The matrix that rotates to position n."""
    matrix = np.eye(dim)
    for k in range(rotary // 2):
        a, b = (k, k + rotary // 2) if layout == "half" else (2 * k, 2 * k + 1)
        angle = n * base ** (-2 * k / rotary)
        matrix[a, a] = matrix[b, b] = math.cos(angle)
        matrix[a, b], matrix[b, a] = -math.sin(angle), math.sin(angle)
    return matrix


@pytest.mark.parametrize("more", [
    {"layout": "interleaved"}, {"layout": "half", "rotary_dim": 16},
    {"layout": "half", "base": 20000.0},
])  # fmt: skip
def test_errors_of_logits_are_spectral_norms(more):
    found = compare(one(RoPE(32, layout="half")), one(RoPE(32, **more)))
    kind = {"layout": "half", "rotary_dim": 32, "base": 10000.0, **more}
    for length, error in found.rows[0].effect.errors.items():
        ours = rotation("half", 32, 32, 10000.0, length - 1)
        other = rotation(kind["layout"], 32, kind["rotary_dim"], kind["base"], length - 1)
        size = np.linalg.norm(ours - other, 2)
        assert close(error, size, terms=2.0, angle=float(length))
    assert found.rows[0].effect.first == 1


def test_frequencies_that_depend_on_the_length():
    dynamic = {**LLAMA, "max_position_embeddings": 8192,
               "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}  # fmt: skip
    longer = {**LLAMA, "max_position_embeddings": 8192}
    found = compare(dynamic, longer).rows[0].effect
    assert (found.first, found.tried) == (None, "every position below 8192")
    found = compare({**dynamic, "max_position_embeddings": 4096}, {**longer}).rows[0].effect
    assert found.first is None  # the shorter context ends where the scaling begins
    wide = described_config({**dynamic, "max_position_embeddings": 1000})._replace(length=8192)
    effect = compare(wide, longer).rows[0].effect
    assert 1000 <= effect.first <= 1010
    assert "below 1000, and then positions 1 % apart" in effect.tried
