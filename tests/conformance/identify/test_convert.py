"""identify(..., to=): who follows the advice conforms to the target; or is told why not."""

import json

import numpy as np
import pytest

from posenc_ref import (
    ALiBi,
    DynamicNTK,
    GivenFrequencies,
    Learned,
    LinearScaling,
    MultiAxisRoPE,
    NTKScaling,
    RoPE,
    Sinusoidal,
    XPos,
    YaRN,
    permute_weights,
    scores,
)
from posenc_ref.conformance import check, identify
from posenc_ref.conformance.cli import app
from posenc_ref.conformance.identify.convert.convert import convert
from tests.conformance.handwritten import rope
from tests.night import by_day

HALF = RoPE(16, layout="half")
NEAR = {"max_position": 1024}


def followed(card, fn):
    """The function that the lines of the card define."""
    scope = {"fn": fn}
    exec(card.converted, scope)
    return scope["converted"]


PAIRS = {
    "layout": (RoPE(16, layout="interleaved"), HALF, "source='half', target='interleaved'"),
    "and back": (HALF, RoPE(16, layout="interleaved"), "source='interleaved', target='half'"),
    "part": (
        RoPE(16, layout="interleaved", rotary_dim=8),
        RoPE(16, layout="half", rotary_dim=8),
        "rotary_dim=8",
    ),
    "slice": (
        RoPE(16, layout="half", rotary_dim=8, rotary_start=8),
        RoPE(16, layout="interleaved", rotary_dim=8),
        "permute the rows of the q and k projections",
    ),
    "sign": (RoPE(16, layout="half", sign=-1), HALF, "rotates in the other direction"),
    "output": (RoPE(16, layout="half", output_layout="interleaved"), HALF, "logits need no change"),
    "faster positions": (
        RoPE(16, layout="half", scaling=LinearScaling(4.0)),
        HALF,
        "multiply positions by 4",
    ),
    "slower positions": (
        HALF,
        RoPE(16, layout="half", scaling=LinearScaling(4.0)),
        "multiply positions by 0.25, if the function takes fractional positions",
    ),
    "factor": (
        RoPE(16, layout="half", scaling=YaRN(16.0, 2048, attention_factor=1.0)),
        RoPE(16, layout="half", scaling=YaRN(16.0, 2048)),
        "multiply the softmax scale by the square",
    ),
    "factor of a part": (
        RoPE(16, layout="half", rotary_dim=8, scaling=YaRN(16.0, 2048)),
        RoPE(16, layout="half", rotary_dim=8, scaling=YaRN(16.0, 2048, attention_factor=1.0)),
        "only the rotated channels",
    ),
    "all at once": (
        RoPE(16, layout="interleaved", sign=-1, scaling=LinearScaling(2.0)),
        HALF,
        "multiply positions by 2",
    ),
    "the target": (HALF, RoPE(16, layout="half", scaling=LinearScaling(1.0)), "nothing to do"),
    "axes": (
        MultiAxisRoPE(24, sections=(6, 6), layout="interleaved"),
        MultiAxisRoPE(24, sections=(6, 6), layout="half"),
        "permute the rows",
    ),
}


@pytest.mark.parametrize("name", by_day(PAIRS, list(PAIRS)[::3]))
def test_who_follows_the_advice_conforms(name):
    found, target, words = PAIRS[name]
    options = {"head_dim": found.head_dim, "axes": found.num_axes}
    card = identify(found.apply, to=target, **options, **NEAR)
    assert any(words in step for step in card.conversion), str(card)
    if not card.converted:
        assert check(found.apply, target, "apply", strict=True, **NEAR).passed
        return
    assert not check(found.apply, target, "apply", strict=True, **NEAR).passed
    report = check(followed(card, found.apply), target, "apply", strict=True, **NEAR)
    assert report.passed, f"{card.converted}\n{report}"


def test_an_origin_is_moved_back():
    fn = rope(positions=lambda p: p + 3)
    card = identify(fn, head_dim=16, to=HALF, **NEAR)
    assert any("add -3 to positions" in step for step in card.conversion), str(card)
    assert not any("fix the deviations" in step for step in card.conversion)
    assert check(followed(card, fn), HALF, "apply", **NEAR).passed


def test_what_deviates_is_mended_first():
    fn = rope(positions=lambda p: np.minimum(p, 512))
    card = identify(fn, head_dim=16, to=RoPE(16, layout="interleaved"), max_position=2048)
    assert card.conversion[0] == "fix the deviations first: position-range"


@pytest.mark.parametrize("part", [{}, {"rotary_dim": 8, "rotary_start": 8}])
def test_permuted_weights_give_the_logits_of_the_target(part):
    """The advice for the rows of the projections, followed word for word."""
    found, target = RoPE(16, layout="interleaved", **part), HALF.replace(**part)
    (step, _) = identify(found.apply, head_dim=16, to=target, **NEAR).conversion
    call = step[step.index("permute_weights") : step.index(";")]
    known = {"permute_weights": permute_weights, "w": np.eye(16), "n_heads": 1}
    w = eval(call, known)

    def logits(q, k):
        n = k.shape[2]
        at = np.arange(n - q.shape[2], n), np.arange(n)
        return scores(found, (q @ w.T).astype(q.dtype), (k @ w.T).astype(k.dtype), *at)

    assert check(logits, target, "scores").passed
    raw = identify(logits, "scores", head_dim=16)
    assert raw.encoding == target


IMPOSSIBLE = {
    "base": (HALF, RoPE(16, layout="half", base=500000.0), "build the function with base=500000.0"),
    "scaling": (HALF, RoPE(16, layout="half", scaling=NTKScaling(4.0)), "scaling=NTKScaling(4.0)"),
    "part": (HALF, RoPE(16, layout="half", rotary_dim=8), "rotates 8 pairs, the target 4"),
    "size": (HALF, RoPE(32, layout="half"), "head_dim=16, the target 32"),
    "length": (
        HALF,
        RoPE(16, layout="half", scaling=DynamicNTK(2.0, 2048)),
        "frequencies of the target depend on the length",
    ),
    "axes": (HALF, MultiAxisRoPE(16, sections=(4, 4), layout="half"), "1 position axes"),
    "xpos": (HALF, XPos(16, layout="half"), "has no conversion"),
    "another kind": (HALF, ALiBi(8), "added to scores"),
    "no rule": (
        RoPE(8, layout="half", scaling=GivenFrequencies((0.9, 0.5, 0.3, 0.01))),
        RoPE(8, layout="half"),
        "frequencies differ",
    ),
}


@pytest.mark.parametrize("name", by_day(IMPOSSIBLE, list(IMPOSSIBLE)[::3]))
def test_what_cannot_be_converted_says_why(name):
    found, target, words = IMPOSSIBLE[name]
    card = identify(found.apply, head_dim=found.head_dim, to=target, **NEAR)
    (step,) = card.conversion
    assert step.startswith("cannot be converted: ")
    assert words in step
    assert card.converted == ""
    assert f"convert      {step[:40]}" in str(card)


TABLES = {
    "columns": (Sinusoidal(8), Sinusoidal(8, layout="concat"), "reorder the columns"),
    "cosine first": (Sinusoidal(8, layout="concat", first="cos"), Sinusoidal(8), "reorder"),
    "offset": (Sinusoidal(8), Sinusoidal(8, offset=2), "add 2 to positions"),
    "size": (Sinusoidal(8, scale=0.5), Sinusoidal(8), "multiply the table by 2"),
    "speed": (Sinusoidal(8, position_scale=0.5), Sinusoidal(8, offset=1), "positions by 2"),
}


@pytest.mark.parametrize(("found", "target", "words"), TABLES.values(), ids=list(TABLES))
def test_tables_are_converted(found, target, words):
    card = identify(found.table, "table", to=target, dtype="float64", **NEAR)
    assert any(words in step for step in card.conversion), str(card)
    options = {"dtype": "float64", "angles": "float32"}
    assert not check(found.table, target, "table", **options, **NEAR).passed
    report = check(followed(card, found.table), target, "table", **options, **NEAR)
    assert report.passed, f"{card.converted}\n{report}"


def test_tables_that_cannot_be_converted():
    to = Sinusoidal(8, denominator="half-1")
    (step,) = identify(Sinusoidal(8).table, "table", to=to, dtype="float64", **NEAR).conversion
    assert "build the function with base=10000, denominator='half-1'" in step
    rows = Learned(np.ones((4, 8), np.float32))
    (step,) = identify(Sinusoidal(8).table, "table", to=rows, dtype="float64", **NEAR).conversion
    assert "the function is Sinusoidal (added to embeddings), the target is Learned" in step


def test_cos_and_sin_are_converted():
    slow = RoPE(16, layout="half", scaling=LinearScaling(4.0)).cos_sin

    def fn(positions):
        cos, sin = slow(positions)
        return 2 * cos, -2 * sin

    card = identify(fn, "cos_sin", to=HALF, dtype="float64", **NEAR)
    options = {"dtype": "float64", "angles": "float32"}
    assert not check(fn, HALF, "cos_sin", **options, **NEAR).passed
    assert "negate sin" in str(card)
    report = check(followed(card, fn), HALF, "cos_sin", **options, **NEAR)
    assert report.passed, f"{card.converted}\n{report}"


def bias_of(encoding):
    return lambda q, k: encoding.bias(np.arange(k - q, k), np.arange(k)).astype(np.float32)


def test_a_bias_is_converted_head_by_head():
    fn, target = bias_of(ALiBi(2, causal=False)), ALiBi(2, causal=False, max_bias=4.0)
    card = identify(fn, "bias", to=target)
    assert "multiply the bias head by head, by 4, 16" in card.conversion
    assert check(followed(card, fn), target, "bias").passed


def logits_of(encoding, scale=None):
    def fn(q, k):
        n = k.shape[2]
        return scores(encoding, q, k, np.arange(n - q.shape[2], n), np.arange(n), scale=scale)

    return fn


@pytest.mark.parametrize(
    ("found", "scale", "target"),
    [
        (RoPE(16, layout="interleaved"), None, HALF),
        (RoPE(16, layout="half", sign=-1), 1.0, HALF),
        (HALF, 0.2, RoPE(16, layout="interleaved")),
    ],
    ids=str,
)
def test_logits_are_converted(found, scale, target):
    fn = logits_of(found, scale)
    card = identify(fn, "scores", head_dim=16, to=target)
    report = check(followed(card, fn), target, "scores")
    assert report.passed, f"{card}\n{report}"


def test_logits_count_their_own_positions():
    fn = logits_of(RoPE(16, layout="half", scaling=LinearScaling(4.0)))
    (step,) = identify(fn, "scores", head_dim=16, to=HALF).conversion
    assert step.startswith("cannot be converted: positions would have to be multiplied by 4")


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("gpt-j-6b", "head_dim=16, the target 256"),
        (json.dumps(RoPE(16, layout="interleaved").to_dict()), "permute_weights("),
    ],
    ids=["preset", "JSON"],
)
def test_the_command_takes_a_preset_or_json(to, words, tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("from posenc_ref import RoPE\napply = RoPE(16, layout='half').apply\n")
    with pytest.raises(SystemExit) as ended:
        app(["identify", f"{path}:apply", "--head-dim", "16", "--max-position", "1024", "--to", to])
    assert ended.value.code == 0
    assert words in " ".join(capsys.readouterr().out.split())


def test_the_command_says_what_a_target_may_be(tmp_path, capsys):
    path = tmp_path / "mine.py"
    path.write_text("from posenc_ref import RoPE\napply = RoPE(16, layout='half').apply\n")
    with pytest.raises(SystemExit) as ended:
        app(["identify", f"{path}:apply", "--head-dim", "16", "--to", "llama-3.1-8x"])
    assert ended.value.code == 2
    assert "llama-3.1-8b" in capsys.readouterr().err


@pytest.mark.parametrize("scaling", [None, LinearScaling(2.0)])
def test_a_function_of_queries_and_keys_is_called_with_both(scaling):
    own, target = RoPE(16, layout="interleaved", scaling=scaling), HALF
    q, k = np.random.default_rng(0).random((2, 1, 2, 5, 16))

    def fn(q, k, q_at, k_at):
        return own.apply(q, q_at), own.apply(k, k_at)

    scope = {"fn": fn}
    exec(convert(own, target, "apply_qk").code, scope)
    q_at, k_at = np.arange(5) + 2, np.arange(5)
    found = scope["converted"](q, k, q_at, k_at)
    for y, x, at in zip(found, (q, k), (q_at, k_at), strict=True):
        assert np.array_equal(np.round(y, 9), np.round(target.apply(x, at), 9))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (lambda x, at: x, "keys are not rotated"),
        pytest.param(
            lambda x, at: HALF.apply(x, -at),
            "queries and keys turn opposite ways: keys by -angle",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            lambda x, at: HALF.replace(base=500.0).apply(x, at), "keys: ", marks=pytest.mark.nightly
        ),
    ],
    ids=["still", "back", "base"],
)
def test_keys_are_looked_at_as_well(keys, message):
    def rotate(q, k, positions):
        return HALF.apply(q, positions), keys(k, positions)

    card = identify(rotate, head_dim=16, **NEAR)
    assert card.encoding == HALF
    assert not card.exact
    (finding,) = card.deviations
    assert finding.message.startswith(message)
    assert "printed pairs" not in finding.remedy
