"""``parametrize_with_conformance`` and the plugin: an id for each check, and what each shows."""

from pathlib import Path

import pytest

import posenc_ref
from posenc_ref import ALiBi, RoPE
from posenc_ref.conformance import Finding, HarnessError, Implementation, Report, check
from posenc_ref.conformance import pytest as conformance_pytest
from posenc_ref.conformance.pytest import parametrize_with_conformance
from tests.conformance.handwritten import HEAD_DIM, rope
from tests.mutants import CORRECT
from tests.night import by_day

ROOT = Path(__file__).resolve().parents[2]
HALF = RoPE(HEAD_DIM, layout="half")
BASE = {"code": "base", "reason": "issue 12"}
FEW = {"max_position": 128}
MINE = rope()
#: A correct case of each surface.
EXAMPLES = {case.surface: case for case in reversed(CORRECT)}
#: Checks that depend on the function, not only on its surface and encoding.
OF_THE_FUNCTION = {"arrangement", "logits"}


def parts(*arguments, **settings):
    """Return the calls that the decorator passes to a test, by id."""
    names, values = parametrize_with_conformance(*arguments, **settings).args
    assert names == "check"
    return {value.id: value.values[0] for value in values}


def shown(part):
    """Return the outcome of a test with this argument, and its message."""
    try:
        part()
    except (pytest.fail.Exception, pytest.xfail.Exception, pytest.skip.Exception) as found:
        return type(found).__name__, str(found)
    return "passed", ""


def outcomes(found):
    return {name: shown(part)[0] for name, part in found.items()}


def reported(monkeypatch, **fields):
    """Replace the check of the function by one that returns this report."""
    done = {"executed": {"values": 3}, "required": ("values",), "controls": {"moved": True}}
    report = Report("fn", "apply", "R", "numpy", "float32", **done | fields)
    plain = conformance_pytest.check

    def fake(fn, *arguments, **settings):
        return report if fn is MINE else plain(fn, *arguments, **settings)

    monkeypatch.setattr(conformance_pytest, "check", fake)


# --- the ids --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "surface", by_day(EXAMPLES, {"apply", "apply_qk", "cos_sin", "bias", "slopes", "position_ids"})
)
def test_the_ids_are_the_checks_of_the_surface(surface):
    case = EXAMPLES[surface]
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    settings = {**case.kwargs, **FEW} if surface != "position_ids" else case.kwargs
    report = check(case.make(), encoding, surface, factory=case.make, **settings)
    ids = list(parts(case.make(), encoding, surface, **case.kwargs))
    assert {*ids} >= {*report.executed, *report.required} - OF_THE_FUNCTION
    assert {*ids} <= {*report.executed, *report.required, "calls", "controls"}
    assert ids[-2:] == ["calls", "controls"]


def test_nothing_is_judged_before_a_test_runs():
    def never(x, positions):
        raise AssertionError("called")

    assert {"required inputs", "values"} <= {*parts(never, HALF, "apply")}


def test_a_function_is_called_as_people_write_it():
    def apply_rotary_emb(x, input_pos):  # (B, S, H, D), as in torchtune
        return rope()(x.swapaxes(1, 2), input_pos).swapaxes(1, 2)

    found = parts(apply_rotary_emb, HALF, **FEW)
    assert {"required inputs", "values"} <= {*found}
    assert set(outcomes(found).values()) == {"passed"}


def test_properties_alone_and_implementations():
    assert "values" not in parts(rope(), None, "apply", head_dim=HEAD_DIM)
    bound = Implementation(rope(), "apply", "mine", encoding=HALF)
    assert {*parts(bound)} == {*parts(rope(), HALF, "apply")}


@pytest.mark.parametrize(
    ("arguments", "settings", "error", "words"),
    [
        ((lambda: None, HALF), {}, ValueError, "convention"),
        ((rope(), HALF, "aply"), {}, ValueError, "got 'aply'"),
        ((rope(), ALiBi(8), "apply"), {}, (TypeError, ValueError), "apply"),
        ((rope(), HALF, "apply"), {"expected_failure": {"code": "base"}}, TypeError, "reason"),
    ],
)
def test_wrong_arguments_fail_at_collection(arguments, settings, error, words):
    with pytest.raises(error, match=words):
        parametrize_with_conformance(*arguments, **settings)


# --- what a test shows ----------------------------------------------------------------------------


def test_a_conforming_function_passes_everywhere_in_one_run():
    calls = []

    def counted(x, positions):
        calls.append(1)
        return rope()(x, positions)

    found = parts(counted, HALF, "apply", **FEW)
    assert not calls
    (first, *others) = found.values()
    first()
    many = len(calls)
    assert [shown(part)[0] for part in others] == ["passed"] * len(others)
    assert len(calls) == many > 0


def test_a_test_that_fails_shows_its_own_findings():
    def overwriting(x, positions):
        y = rope(base=500.0)(x, positions)
        x[...] = 0
        return y

    found = {name: shown(part) for name, part in parts(overwriting, HALF, "apply", **FEW).items()}
    assert found["values"][0] == found["calls"][0] == "Failed"
    assert "base: the base is 500" in found["values"][1]
    assert "mutates-input" not in found["values"][1]
    assert "mutates-input" in found["calls"][1]
    assert "the base is 500" not in found["calls"][1]
    assert found["controls"] == ("passed", "")


def test_expected_failures_are_shown_with_their_reason():
    found = parts(rope(base=500.0), HALF, "apply", expected_failure=BASE, **FEW)
    assert [*found][-1] == "expected deviation"
    kind, words = shown(found["values"])
    assert (kind, "issue 12" in words) == ("XFailed", True)
    assert set(outcomes(found).values()) == {"passed", "XFailed"}
    assert outcomes(found)["expected deviation"] == "passed"


def test_an_unexpected_pass_fails():
    found = parts(rope(), HALF, "apply", expected_failure=BASE, **FEW)
    assert {name for name, kind in outcomes(found).items() if kind != "passed"} == {
        "expected deviation"
    }
    assert "unexpected pass: base is gone" in shown(found["expected deviation"])[1]


def test_another_error_than_expected_fails():
    found = parts(rope(layout="interleaved"), HALF, "apply", expected_failure=BASE, **FEW)
    assert outcomes(found)["values"] == outcomes(found)["expected deviation"] == "Failed"


def test_a_check_without_an_id_is_shown_with_the_calls(monkeypatch):
    failed = {"failed": {"arrangement": ["layout"]}, "findings": [Finding("layout", "odd order")]}
    reported(monkeypatch, **failed)
    found = parts(MINE, HALF, "apply")
    assert {name for name, kind in outcomes(found).items() if kind == "Failed"} == {"calls"}
    assert "arrangement: error: layout: odd order" in shown(found["calls"])[1]


def test_what_was_not_judged_is_skipped_or_fails(monkeypatch):
    reported(monkeypatch, limits=["per-row positions are refused"])
    found = parts(MINE, HALF, "apply")
    assert shown(found["optional inputs"]) == ("Skipped", "per-row positions are refused")
    reported(monkeypatch, executed={})
    found = parts(MINE, HALF, "apply")
    assert shown(found["values"]) == ("Failed", "values: required, and no case was judged")
    reported(monkeypatch, controls={"moved": False})
    assert "a perturbed output was accepted" in shown(parts(MINE, HALF, "apply")["controls"])[1]


def test_a_run_that_breaks_off_is_not_repeated(monkeypatch):
    runs = []

    def broken(*arguments, **settings):
        runs.append(1)
        raise HarnessError("no answer")

    found = parts(rope(), HALF, "apply")
    run = found["values"].run
    monkeypatch.setattr(run, "judge", broken)
    for part in found.values():
        with pytest.raises(HarnessError, match="no answer"):
            part()
    assert runs == [1]


# --- the plugin -----------------------------------------------------------------------------------
