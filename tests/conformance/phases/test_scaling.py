"""Scaled and multi-axis encodings: each check is the only one to catch something, and is named."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import posenc_ref as pr
from posenc_ref.accuracy import Truth, budget
from posenc_ref.conformance import check, cli
from posenc_ref.conformance.check import complete, make_run
from posenc_ref.conformance.phases.formula_mistakes import LLAMA3_SHAPES, NTK_SHAPES, YARN_SHAPES
from posenc_ref.conformance.phases.schedule_mistakes import scaling_mistakes
from posenc_ref.conformance.rotary.judge_length import lengths_of
from tests.mutants import WRONG
from tests.night import by_day

EXAMPLE = Path(__file__).parents[3] / "examples" / "long_context_mistakes.py"


def failed_checks(run):
    """Which checks fail, and the report."""
    report = complete(run)
    return {failure.check for failure in run.failures}, report


def test_only_one_check_catches_a_length():
    case = next(c for c in WRONG if c.name == "longrope-switches-early-at-three-thousand")
    run = make_run(case.make(), pr.from_dict(case.encoding), case.surface, **case.kwargs)
    failed, report = failed_checks(run)
    assert failed == {"lengths"}
    assert report.verdict == "deviates"


@pytest.mark.parametrize("row", [0, -1])
def test_only_one_check_catches_a_batch_with_text_in_one_row(row):
    q2 = pr.MultiAxisRoPE(32, sections=(6, 5, 5), layout="half")

    def fn(x, positions):
        p = np.broadcast_to(positions, (3, x.shape[0], x.shape[2]))
        return q2.apply(x, p[:1].repeat(3, axis=0) if (p[:, row] == p[:1, row]).all() else p)

    failed, report = failed_checks(make_run(fn, q2, "apply"))
    assert failed == {"axes"}
    assert report.verdict == "deviates"


def test_required_checks_of_axes_and_lengths_are_counted():
    q3 = pr.MultiAxisRoPE(32, sections=(6, 5, 5), layout="half", arrangement="interleaved")
    report = check(q3.apply, q3, "apply")
    assert report.passed
    assert report.executed["axes"] >= 6
    dynamic = pr.RoPE(32, layout="half", scaling=pr.DynamicNTK(2.0, 512))
    report = check(dynamic.apply, dynamic, "apply")
    assert report.passed
    assert report.executed["lengths"] == len(lengths_of(dynamic)) + 3  # and whose length it is


def test_axes_that_are_refused_are_an_error():
    q2 = pr.MultiAxisRoPE(32, sections=(6, 5, 5), layout="half")
    text = pr.RoPE(32, layout="half")

    def text_only(x, positions):
        if (positions != positions[:1]).any():
            raise NotImplementedError("images")
        return text.apply(x, positions[0])

    report = check(text_only, q2, "apply")
    assert report.codes[0] == "raises"


SCHEDULES = [
    (pr.YaRN(32, 4096, truncate=False), YARN_SHAPES, 150000.0),
    (pr.YaRN(4, 32768), YARN_SHAPES, 1e6),
    (pr.Llama3Scaling(8, 1, 4, 8192), LLAMA3_SHAPES, 5e5),
]


@pytest.mark.parametrize(
    ("scaling", "shapes", "base"), SCHEDULES, ids=["gpt-oss", "Qwen2.5", "Llama 3.1"]
)
def test_shapes_are_the_declared_formula_but_for_one_thing(scaling, shapes, base):
    encoding = pr.RoPE(128, layout="half", base=base, scaling=scaling)
    w = encoding.frequencies()
    truth = Truth(w, w, np.zeros_like(w))
    # base ** x in float64 is off by ln(base) roundings of its exponent.
    assert truth.score(shapes["as declared"](encoding, scaling)).max() <= budget("float64")
    for what, shape in shapes.items():
        if what == "as declared":
            continue
        score = truth.score(shape(encoding, scaling)).max()
        same = {
            "head_dim is used in place of rotary_dim in the ramp",
            "frequencies are blended linearly",
            "the end of the ramp is clamped",
        }
        if not any(what.startswith(s) for s in same):
            assert score > budget("float64"), what


@pytest.mark.parametrize("what", NTK_SHAPES)
def test_ntk_shapes_differ(what):
    encoding = pr.RoPE(128, layout="half", rotary_dim=64, scaling=pr.NTKScaling(4.0))
    w = encoding.frequencies()
    score = Truth(w, w, 0 * w).score(NTK_SHAPES[what](encoding, encoding.scaling))
    assert score.max() > budget("float64")


@pytest.mark.parametrize(
    "scaling",
    [
        pr.YaRN(40, 4096, mscale=1, mscale_all_dim=1),
        pr.Llama3Scaling(32, 1, 4, 8192),
        pr.NTKScaling(4),
        pr.DynamicNTK(2, 4096),
        pr.NTKByParts(4, 2048),
        pr.Proportional(0.25, factor=2.0),
        pr.LongRoPE(np.linspace(1, 2, 32), np.linspace(1, 30, 32), 4096, factor=8.0),
        None,
    ],
    ids=repr,
)
def test_alternatives_are_complete_and_finite(scaling):
    encoding = pr.RoPE(64, layout="half", base=5e5, scaling=scaling)
    found = list(scaling_mistakes(encoding))
    assert len(found) >= 3
    for explanation in found:
        assert explanation.predicted.shape == (32,), explanation.message
        assert np.isfinite(explanation.predicted).all(), explanation.message
        assert "nan" not in explanation.message


def example():
    spec = importlib.util.spec_from_file_location("long_context_mistakes", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMMANDS = {
    "yarn_right": ("gpt-oss-20b", None),
    "yarn_factor_twice": ("gpt-oss-20b", "scaling-parameter"),
    "yarn_without_attention_factor": ("gpt-oss-20b", "attention-factor"),
    "yarn_truncated": ("gpt-oss-20b", "scaling-parameter"),
    "llama3_unscaled": ("llama-3.1-8b", "scaling-missing"),
    "partial_rotary_over_the_head": ("gpt-neox-20b", "denominator"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_names_the_mistake(name):
    preset, code = COMMANDS[name]
    chosen = ["--layer-type", "full_attention"] if preset == "gpt-oss-20b" else []
    result = CliRunner().invoke(
        cli.app, ["check", f"{EXAMPLE}:{name}", "--preset", preset, *chosen]
    )
    assert result.exit_code == (1 if code else 0), result.output
    assert (f"error: {code}:" in result.output) == bool(code)


#: Right functions, and a wrong one for each of several codes; the dearest are tried by night.
COARSE = {
    "yarn_right",
    "yarn_truncated",
    "yarn_without_attention_factor",
    "partial_rotary_over_the_head",
    "partial_rotary_of_the_whole_head",
    "mrope_right",
}


@pytest.mark.parametrize("name", by_day([f.__name__ for f in example().EXPECTED], COARSE))
def test_the_right_code_in_bfloat16_too(name):
    """Where results are coarse, the fitted parameters decide."""
    module = example()
    encoding, code = module.EXPECTED[getattr(module, name)]

    def fn(x, positions):
        # ml_dtypes' bfloat16 comes in; the arithmetic is float32, one rounding at the end.
        return getattr(module, name)(x.astype(np.float32), positions).astype(x.dtype)

    report = check(fn, encoding, "apply", dtype="bfloat16")
    assert report.codes[:1] == ([code] if code else []), str(report)


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("length", [64, 512])
def test_lengths_below_those_that_coarse_results_are_measured_at(dtype, length):
    """Frequencies are fitted over a thousand positions, where they are those of that length."""
    declared = pr.RoPE(32, layout="half", scaling=pr.DynamicNTK(2.0, length))
    assert check(declared.apply, declared, "apply", dtype=dtype).passed
    other = pr.RoPE(32, layout="half", base=10100.0, scaling=pr.DynamicNTK(2.0, length))
    assert not check(other.apply, declared, "apply", dtype=dtype).passed


def test_a_wrong_axis_of_a_grid_from_the_command_line():
    vision = pr.MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")

    def exchanged(x, positions):
        return vision.apply(x, positions[::-1])

    report = check(exchanged, vision, "apply")
    assert report.codes == ["axis-order"]
    assert report.findings[0].values == {"declared": [0, 1], "measured": [1, 0]}


DYNAMIC = pr.RoPE(32, layout="half", scaling=pr.DynamicNTK(4.0, 2048))
MROPE = pr.MultiAxisRoPE(32, sections=(6, 5, 5), layout="half", scaling=pr.DynamicNTK(4.0, 2048))


def of_the_last_token(x, positions):
    return DYNAMIC.apply(x, positions, seq_len=int(positions[..., -1].max()) + 1)


def of_the_first_row(x, positions):
    row = positions if positions.ndim == 1 else positions[0]
    return DYNAMIC.apply(x, positions, seq_len=int(row.max()) + 1)


def of_each_row(x, positions):
    if positions.ndim == 1:
        return DYNAMIC.apply(x, positions)
    return np.concatenate([DYNAMIC.apply(x[[b]], p) for b, p in enumerate(positions)])


def of_the_first_axis(x, positions):
    return MROPE.apply(x, positions, seq_len=int(positions[0].max()) + 1)


@pytest.mark.parametrize(
    ("wrong", "declared", "where"),
    [
        pytest.param(
            of_the_last_token,
            DYNAMIC,
            "if that position is in another token than the last",
            marks=pytest.mark.nightly,
        ),
        (of_the_first_row, DYNAMIC, "if that position is in the last row of a batch"),
        (
            of_each_row,
            DYNAMIC,
            "the frequencies of its own length, its largest position plus 1, "
            "not those of the longest row",
        ),
        (of_the_first_axis, MROPE, "if that position is in axis 1, axis 2"),
    ],
)
def test_whose_length_it_is(wrong, declared, where):
    """The ladder of lengths ends with the largest position: these pass all of it."""
    report = check(wrong, declared, "apply")
    assert report.codes == ["scaling-formula"]
    assert report.findings[0].message.endswith(where)


PROPORTIONAL = pr.RoPE(64, layout="half", base=1e6, scaling=pr.Proportional(0.25))
LONG = pr.RoPE(
    32,
    layout="half",
    scaling=pr.LongRoPE(np.linspace(1, 1.5, 16), np.linspace(1, 20, 16), 4096, factor=8.0),
)
YARN = pr.RoPE(32, layout="half", base=150000.0, scaling=pr.YaRN(32, 4096, truncate=False))
MROPE_YARN = pr.MultiAxisRoPE(
    64, sections=(8, 12, 12), layout="half", base=1e6, scaling=pr.YaRN(4, 32768)
)
FLUX = pr.MultiAxisRoPE(32, sections=(4, 6, 6), layout="interleaved", spacing="restart")


def factor_on_cos_alone(x, positions):
    cos, sin = YARN.cos_sin(positions)
    sin = sin / YARN.attention_factor()
    cos, sin = (t[:, None] if t.ndim == 3 else t for t in (cos, sin))
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(x.dtype)


def long_factor(encoding, factors):
    scaling = encoding.scaling.replace(attention_factor=factors)
    return encoding.replace(scaling=scaling).apply


@pytest.mark.parametrize(
    ("wrong", "declared", "code", "said"),
    [
        (PROPORTIONAL.replace(scaling=None).apply, PROPORTIONAL, "scaling-missing", "every pair"),
        (PROPORTIONAL.replace(layout="interleaved").apply, PROPORTIONAL, "layout", "interleaved"),
        (long_factor(LONG, (LONG.attention_factor(), 1.5)), LONG, "attention-factor", "1.5 in"),
        (factor_on_cos_alone, YARN, "attention-factor", "only cos is multiplied by"),
        (
            MROPE_YARN.replace(scaling=pr.YaRN(4, 32768, truncate=False)).apply,
            MROPE_YARN,
            "scaling-parameter",
            "truncate is False",
        ),
        (MROPE_YARN.replace(scaling=None).apply, MROPE_YARN, "scaling-missing", "YaRN"),
        (FLUX.replace(base=256.0).apply, FLUX, "base", "256"),
    ],
)
def test_what_it_is_called(wrong, declared, code, said):
    report = check(wrong, declared, "apply")
    assert report.codes[0] == code, str(report)
    assert said in report.findings[0].message


LLAMA3 = pr.RoPE(128, layout="half", base=5e5, scaling=pr.Llama3Scaling(8, 1, 4, 8192))
WAVELENGTH = 2 * np.pi / (5e5 ** (-np.arange(64) / 64))


@pytest.mark.parametrize(
    ("frequencies", "code", "said"),
    [
        (2 * np.pi / WAVELENGTH / np.where(WAVELENGTH > 2048, 8, 1), "scaling-formula", "divided"),
        (
            2 * np.pi / WAVELENGTH / np.where(WAVELENGTH > 8192, 8, 1),
            "scaling-formula",
            "not scaled at all",
        ),
        (1e6 ** (-np.arange(64) / 64), "base", "and the declared scaling is missing"),
        (1e6 ** (-np.arange(64) / 64) / 8, "base", "1000000"),
        (0.7 * 3e6 ** (-np.arange(64) / 61), "frequency-spacing", "64 of 64"),
    ],
)
def test_nothing_is_said_of_the_base_that_is_not_so(frequencies, code, said):
    report = check(lambda: frequencies.astype(np.float32), LLAMA3, "frequencies")
    assert report.codes[0] == code
    assert said in report.findings[0].message
    assert "the base is right" not in report.findings[0].message


def test_the_ramp_of_yarn_without_its_lower_bound():
    encoding = pr.RoPE(64, layout="half", scaling=pr.YaRN(4.0, 4096))
    plain = 10000.0 ** (-np.arange(32) / 32)
    ends = [32 * np.log(4096 / (2 * np.pi * r)) / np.log(10000.0) for r in (32, 1)]
    low, high = np.floor(ends[0]), np.ceil(ends[1])
    ramp = np.minimum((np.arange(32) - low) / (high - low), 1)
    frequencies = (1 - ramp) * plain + ramp * plain / 4
    wrong = encoding.replace(
        scaling=pr.GivenFrequencies(frequencies, attention_factor=encoding.attention_factor())
    )
    [finding] = check(wrong.apply, encoding, "apply").findings
    assert "the ramp is not clamped to at least 0" in finding.message
