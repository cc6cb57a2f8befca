"""Findings name who else follows the convention that a function was found to have."""

import inspect
import json

import numpy as np
import pytest

import posenc_ref
from posenc_ref import (
    ALiBi,
    DynamicNTK,
    LongRoPE,
    MultiAxisRoPE,
    NTKScaling,
    Proportional,
    RoPE,
    Sinusoidal,
    YaRN,
)
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.conventions import CONVENTIONS, known
from posenc_ref.conformance.harness.report import Finding
from posenc_ref.conformance.phases.formula_mistakes import NTK_SHAPES, YARN_SHAPES
from posenc_ref.conformance.surveys.ndjson import read_ndjson
from posenc_ref.conformance.surveys.ndjson_markdown import markdown
from tests.conformance.recorded import record
from tests.night import by_day


def rope(layout="half", **fields):
    return RoPE(64, layout=layout, **fields)


def sinusoid(**fields):
    return Sinusoidal(64, **fields)


def axes(arrangement):
    return MultiAxisRoPE(64, sections=[12, 10, 10], arrangement=arrangement, layout="half")


def distance(q_len, k_len):
    return np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)


def unscaled(q, k):
    turned = [rope().apply(t, np.arange(t.shape[2])) for t in (q, k)]
    return turned[0] @ np.swapaxes(turned[1], -1, -2)


#: How a function of a value is called, by surface.
CALLS = {
    "apply": lambda e: e.apply,
    "table": lambda e: lambda p: np.asarray(e.table(p), np.float32),
    "frequencies": lambda e: e.frequencies,
}
YARN = {"factor": 32.0, "original_max_position": 4096, "truncate": False}
LATE = YaRN(8.0, 131072, beta_fast=64.0)
LONG = LongRoPE([1.0] * 32, [4.0] * 32, 4096, factor=32.0)
#: A convention: (surface, what follows it, what is declared).
EXAMPLES = {
    "interleaved pairs": ("apply", rope("interleaved"), rope()),
    "half-split pairs": ("apply", rope(), rope("interleaved")),
    "pairs inside a leading slice": (
        "apply",
        rope(rotary_dim=16),
        rope(scaling=Proportional(0.25)),
    ),
    "pairs across the whole head": (
        "apply",
        rope(scaling=Proportional(0.25)),
        rope(rotary_dim=16),
    ),
    "read interleaved, written half-split": (
        "apply",
        rope("interleaved", output_layout="half"),
        rope("interleaved"),
    ),
    "negative angles": ("apply", rope(sign=-1), rope()),
    "chunked sections": ("apply", axes("chunked"), axes("interleaved")),
    "interleaved sections": ("apply", axes("interleaved"), axes("chunked")),
    "no factor on cos and sin": (
        "apply",
        rope(scaling=YaRN(**YARN, attention_factor=1.0)),
        rope(scaling=YaRN(**YARN)),
    ),
    "no YaRN truncation": (
        "frequencies",
        rope(scaling=YaRN(**YARN)),
        rope(scaling=YaRN(**YARN | {"truncate": True})),
    ),
    "YaRN truncation": (
        "frequencies",
        rope(scaling=YaRN(**YARN | {"truncate": True})),
        rope(scaling=YaRN(**YARN)),
    ),
    "ramp up to d/2 - 1": (
        "frequencies",
        lambda: YARN_SHAPES["the end of the ramp is clamped to d/2 - 1"](rope(), LATE),
        rope(scaling=LATE),
    ),
    "geometric blend": (
        "frequencies",
        rope(scaling=YaRN(**YARN, blend="geometric")),
        rope(scaling=YaRN(**YARN)),
    ),
    "base times factor": (
        "frequencies",
        lambda: next(iter(NTK_SHAPES.values()))(rope(), NTKScaling(4.0)),
        rope(scaling=NTKScaling(4.0)),
    ),
    "static dynamic NTK": (
        "frequencies",
        rope(scaling=DynamicNTK(2.0, 512, policy="static")),
        rope(scaling=DynamicNTK(2.0, 512)),
    ),
    "always the long factors": (
        "frequencies",
        rope(scaling=LONG.replace(policy="long")),
        rope(scaling=LONG),
    ),
    "interleaved columns, sine first": ("table", sinusoid(), sinusoid(layout="concat")),
    "sines, then cosines": ("table", sinusoid(layout="concat"), sinusoid()),
    "cosines, then sines": (
        "table",
        sinusoid(layout="concat", first="cos"),
        sinusoid(layout="concat"),
    ),
    "sine first": ("table", sinusoid(layout="concat"), sinusoid(layout="concat", first="cos")),
    "denominator dim/2 - 1": ("table", sinusoid(denominator="half-1"), sinusoid()),
    "denominator dim/2": ("table", sinusoid(), sinusoid(denominator="half-1")),
    "one series of slopes": ("slopes", lambda n: 2.0 ** (-8 * np.arange(1, n + 1) / n), ALiBi(12)),
    "ALiBi inside the scale": (
        "bias",
        lambda q, k: -ALiBi(8).slopes()[:, None, None] * np.maximum(distance(q, k), 0) / 8,
        ALiBi(8),
    ),
    "signed ALiBi without a mask": (
        "bias",
        lambda q, k: -ALiBi(8).slopes()[:, None, None] * distance(q, k),
        ALiBi(8, causal=False),
    ),
    "ALiBi with the other sign": (
        "bias",
        lambda q, k: ALiBi(8).slopes()[:, None, None] * distance(q, k),
        ALiBi(8),
    ),
    "logits without a scale": ("scores", unscaled, rope()),
    "positions from 1": ("apply", lambda x, p: rope().apply(x, p + 1), rope()),
}


def judged(name):
    surface, follows, declared = EXAMPLES[name]
    fn = follows
    if isinstance(follows, posenc_ref.Encoding):
        fn = CALLS[surface](follows)
    short = {"max_position": 4095} if surface == "apply" else {}
    return check(fn, declared, surface, **short)


#: Their causes are among the dearest to find.
NIGHT = (
    "signed ALiBi without a mask",
    "ALiBi inside the scale",
    "ALiBi with the other sign",
    "interleaved sections",
    "chunked sections",
    "interleaved pairs",
    "read interleaved, written half-split",
    "no factor on cos and sin",
)
BY_DAY = by_day(CONVENTIONS, [one for one in CONVENTIONS if one.name not in NIGHT])


@pytest.mark.parametrize("one", BY_DAY, ids=lambda one: one.name)
def test_a_finding_names_who_follows_its_convention(one):
    report = judged(one.name)
    found = [f for f in report.findings if f.code in one.codes]
    assert found, report
    assert set(one.known) <= set(found[0].known), report
    assert f"  as in     {', '.join(found[0].known)}" in str(report)
    told = {f["code"]: f["known"] for f in json.loads(report.to_json())["findings"]}
    assert told[found[0].code] == list(found[0].known)


def test_the_declared_convention_with_other_sizes_is_no_other_models():
    """Qwen2-VL declares (16, 24, 24): other chunked sections are not its own."""
    wrong = MultiAxisRoPE(128, sections=[24, 24, 16], layout="half", base=1e6)
    declared = posenc_ref.preset("qwen2-vl").only
    report = check(wrong.apply, declared, "apply", max_position=1023)
    assert report.codes[0] == "sections"
    assert "sections are chunked (24, 24, 16), declared chunked" in report.findings[0].message
    assert report.findings[0].known == ()


def test_a_recorded_report_keeps_who_it_is(tmp_path):
    report = judged("interleaved pairs")
    recorded = read_ndjson(record(tmp_path / "a", report))
    finding = recorded.report().findings[0]
    assert finding.known == report.findings[0].known
    assert "  - models with this convention: GPT-J, RoFormer, Cohere, GLM-4, " in markdown(
        [recorded]
    )


def test_every_convention_has_an_example_and_somebody_who_follows_it():
    assert EXAMPLES.keys() == {one.name for one in CONVENTIONS}
    assert all(one.known for one in CONVENTIONS)


def test_nobody_is_named_where_nothing_is_known():
    assert known("layout", "pairs are neither layout's, declared half") == ()
    assert Finding("base", "the base is 10000, declared 500000").known == ()
    assert "as in" not in str(Finding("base", "the base is 10000, declared 500000"))


# --- models: what their presets say --------------------------------------------------------------


def encodings(name):
    """The encodings of a preset; what it does not state is filled in."""
    dummy = {"base": 10000.0, "dim": 64, "head_dim": 64, "num_heads": 8, "scaling": None}
    try:
        model = posenc_ref.preset(name)
    except ValueError as error:
        needed = {key: value for key, value in dummy.items() if f"{key}=" in str(error)}
        model = posenc_ref.preset(name, **needed)
    return [e for e in model.encodings.values() if e is not None]


#: What has to hold of an encoding for its model to follow a convention.
HOLDS = {
    "interleaved pairs": lambda e: e.layout == "interleaved" and e.output_layout is None,
    "half-split pairs": lambda e: e.layout == "half",
    "pairs inside a leading slice": lambda e: e.rotary_dim < e.head_dim and not e.rotary_start,
    "pairs across the whole head": lambda e: isinstance(e.scaling, Proportional),
    "read interleaved, written half-split": (
        lambda e: (e.layout, e.output_layout) == ("interleaved", "half")
    ),
    "chunked sections": lambda e: e.arrangement == "chunked" and e.num_axes == 3,
    "interleaved sections": lambda e: e.arrangement == "interleaved" and e.num_axes == 3,
    "no YaRN truncation": lambda e: isinstance(e.scaling, YaRN) and not e.scaling.truncate,
    "interleaved columns, sine first": lambda e: (e.layout, e.first) == ("interleaved", "sin"),
    "sines, then cosines": lambda e: (e.layout, e.first) == ("concat", "sin"),
    "cosines, then sines": lambda e: (e.layout, e.first) == ("concat", "cos"),
    "sine first": lambda e: e.first == "sin",
    "denominator dim/2 - 1": lambda e: e.denominator == "half-1",
    "denominator dim/2": lambda e: e.denominator == "dim",
    "positions from 1": lambda e: e.offset == 1,
}
MODELS = [(one, preset) for one in CONVENTIONS for preset in one.models.values()]


@pytest.mark.parametrize(
    ("one", "preset"), MODELS, ids=[f"{preset}-{one.name}" for one, preset in MODELS]
)
def test_a_models_preset_says_so(one, preset):
    assert any(HOLDS[one.name](e) for e in encodings(preset)), encodings(preset)


def test_t5_does_not_scale_its_logits():
    table = np.zeros((32, 4), np.float32)
    assert posenc_ref.T5Bias(table).own_scale(64) == 1.0


def test_the_time_angles_of_music_flamingo_are_negative():
    pytest.importorskip("transformers", reason="transformers is what is compared with")
    from transformers.models.musicflamingo import modeling_musicflamingo

    assert "-timestamps * 2 * pi" in inspect.getsource(modeling_musicflamingo)
