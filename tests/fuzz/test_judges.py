"""No judge fails, whatever a function returns: it raises nothing, and breaks off nowhere.

By day a few cases of cheap surfaces; ``POSENC_FUZZ_SECONDS`` and ``POSENC_FUZZ_SEED`` as for
test_fuzz.py.
"""

import importlib
import itertools
import os
import time
from datetime import UTC, datetime

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.conformance import check, identify
from posenc_ref.conformance.harness.signatures import SURFACES
from tests.fuzz import judged
from tests.fuzz.judged import CALLS, CHANGES, failure

CHEAP = ("slopes", "bucket", "frequencies", "softmax_scale", "ids_from_tokens", "rank_slopes")
DAY = 25


@pytest.mark.filterwarnings("ignore")
def test_changed_results_are_judged():
    for n, case in enumerate(itertools.islice(judged.cases(0, CHEAP), DAY)):
        assert not failure(case), f"case {n}: {case}"


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("surface", SURFACES)
def test_many_changed_results_are_judged(surface):
    seconds = float(os.environ.get("POSENC_FUZZ_SECONDS", "60")) / 4 / len(SURFACES)
    seed = int(os.environ.get("POSENC_FUZZ_SEED", f"{datetime.now(UTC):%Y%m%d}"))
    begin, broken = time.monotonic(), []
    for n, case in enumerate(judged.cases(seed, [surface])):
        if time.monotonic() - begin > seconds and n > 2:
            break
        broken += [f"seed {seed}, case {n}: {case}: {why}" for why in [failure(case)] if why]
    assert not broken, "\n".join(broken)


#: An encoding, a surface, what judges, a change and the calls: each once failed inside a judge.
ONCE = [
    (pr.ALiBi(6), "slopes", "check", "bytes", "every call"),
    (pr.FourierFeatures, "rows", "check", "huge", "the first call"),
    (pr.RoPE(16, layout="half"), "cos_sin", "identify", "constant", "every call"),
    (pr.RoPE(16, layout="half"), "cos_sin", "identify", "zeros", "every call"),
    (pr.RoPE(16, layout="half"), "cos_sin", "identify", "complex", "every call"),
    (pr.RoPE(16, layout="half"), "frequencies", "identify", "powers", "every call"),
    (pr.RoPE(16, layout="half"), "frequencies", "identify", "complex", "later calls"),
    pytest.param(
        (pr.Sandwich(2), "bias", "identify", "huge", "every call"), marks=pytest.mark.nightly
    ),
    (pr.Sandwich(3, 16), "scores", "check", "one -inf", "calls of one token"),
    (pr.Sandwich(3, 16), "scores", "check", "booleans", "every call"),
]


def _case(declared, surface, judge, change, calls):
    if isinstance(declared, type):
        declared = next(e for _, e, s in judged.declarations()
                        if type(e) is declared and s == surface)  # fmt: skip
    return "", declared, surface, judge, "float32", change, calls


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("once", ONCE, ids=lambda once: " ".join(map(str, once[1:])))
def test_results_at_which_a_judge_once_failed(once):
    assert failure(_case(*once)) == ""


def test_every_change_changes_something():
    rng = np.random.default_rng(0)
    given = (np.arange(12.0).reshape(3, 4) + 0.25,) * 2
    for name, change in CHANGES.items():
        if name != "an exception":
            got = change(given, rng)
            assert name in ("the other order", "float64") or repr(got) != repr(given), name
    assert [n for n, which in CALLS.items() if which(0, 1)] == [
        "every call", "the first call", "calls of one token",
    ]  # fmt: skip


def test_a_fault_of_a_judge_is_no_verdict(monkeypatch):
    """Neither an exception nor a pass: what was found before stands."""

    def fail(*_):
        raise LookupError("of the judge")

    e = pr.RoPE(16, layout="half")
    monkeypatch.setattr("posenc_ref.conformance.table.judge.measure_accuracy", fail)
    report = check(e.cos_sin, e, "cos_sin")
    assert report.verdict == "inconclusive"
    assert report.missing == ["the whole judging"]
    assert report.limits == ["the judging broke off (LookupError: of the judge); please report"]
    wrong = check(e.replace(base=500.0).cos_sin, e, "cos_sin")
    assert wrong.verdict == "deviates"
    # ``identify`` of the package is the function.
    module = importlib.import_module("posenc_ref.conformance.identify.table")
    monkeypatch.setattr(module, "open_table", fail)
    card = identify(e.cos_sin, "cos_sin")
    assert card.encoding is None
    assert len(card.broken) == 1  # an unknown line, because the test itself raised
    assert "(LookupError: of the judge); please report" in card.broken[0]
    assert "the measurement as 'cos_sin' broke off" in str(card).replace("\n" + " " * 13, " ")


@pytest.mark.parametrize(
    ("model", "surface", "message"),
    [
        (pr.preset("smollm3-3b", base=2e6), "layers", "models with layer_types"),
        (pr.preset("gemma-3-4b"), "scores", "2 encodings, by layer type"),
    ],
)
def test_models_that_lack_what_a_surface_needs_are_refused(model, surface, message):
    with pytest.raises(ValueError, match=message):
        check(lambda *args: 0, model, surface)


def test_pairs_that_never_turn_have_no_error_of_angles():
    e = pr.RoPE(8, layout="half", scaling=pr.GivenFrequencies((1.0, 0.5, 0.0, 0.0)))
    report = check(e.cos_sin, e, "cos_sin", max_position=2048)
    assert report.passed, str(report)
    moved = lambda p: tuple(t + 0.01 * (np.arange(4) == 3) for t in e.cos_sin(p))  # noqa: E731
    assert check(moved, e, "cos_sin", max_position=2048).verdict == "deviates"


STILL = pr.RoPE(8, layout="half", scaling=pr.GivenFrequencies((0.0,) * 4))


@pytest.mark.parametrize("surface", ["apply", "apply_vjp", "apply_offset", "calls", "shift_keys"])
def test_a_declaration_without_a_turning_pair_is_judged(surface):
    """Functions that rotate nothing were accused, and the judging of others broke off."""
    right, wrong = (
        check(SURFACES[surface].own(e, "float32"), STILL, surface, max_position=2048)
        for e in (STILL, STILL.replace(scaling=None))
    )
    assert right.verdict == "conforms", str(right)
    assert wrong.findings[0].message == "8 channels are rotated (0..7), declared 0 (none) of 8"
    assert not [text for text in wrong.limits if "please report" in text]


def test_frequencies_declared_zero_leave_no_other_pairs():
    report = check(STILL.replace(scaling=None).frequencies, STILL, "frequencies")
    said = "pairs 0-3 turn, declared none: the others have frequency 0"
    assert report.findings[0].message == said
    assert report.findings[0].remedy.endswith("no pair turns.")


@pytest.mark.parametrize("rows", [1, 3])
def test_a_table_too_small_for_any_grid_has_no_verdict(rows):
    e = pr.Learned(np.ones((rows, 4)))
    report = check(SURFACES["grid"].own(e, "float32"), e, "grid")
    assert report.verdict == "inconclusive"
    assert report.limits[0] == f"no grid is judged: each that is tried has more than {rows} rows"
