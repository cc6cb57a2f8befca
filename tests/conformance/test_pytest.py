"""``parametrize_with_conformance`` and the plugin: an id for each check, and what each shows."""

import subprocess
import sys
from pathlib import Path

import pytest

import posenc_ref
from posenc_ref import ALiBi, RoPE
from posenc_ref.conformance import Finding, HarnessError, Implementation, Report, check
from posenc_ref.conformance import pytest as conformance_pytest
from posenc_ref.conformance.pytest import parametrize_with_conformance
from posenc_ref.conformance.surveys.ndjson import read_ndjson
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

MODULE = """
import numpy as np

from posenc_ref import ALiBi, RoPE
from posenc_ref.conformance import assert_conforms
from posenc_ref.conformance.pytest import parametrize_with_conformance

HALF = RoPE(8, layout="half")
KNOWN = {"code": "base", "reason": "issue 12"}


@parametrize_with_conformance(HALF.apply, HALF, "apply", max_position=128)
def test_right(check):
    check()


other = HALF.replace(base=500.0).apply


@parametrize_with_conformance(other, HALF, "apply", expected_failure=KNOWN, max_position=128)
def test_known(check):
    check()


def test_plain():
    assert_conforms(lambda n: ALiBi(n).slopes(), ALiBi(8), "slopes")


def test_wrong():
    assert_conforms(lambda n: 2 * ALiBi(n).slopes(), ALiBi(8), "slopes")
"""


def run_pytest(folder, *arguments):
    command = [sys.executable, "-m", "pytest", "-p", "posenc_ref_pytest", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "-p", "no:randomly", "test_mine.py", *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("workers", by_day([0, 2], {0}))
def test_a_run_of_pytest(tmp_path, workers):
    (tmp_path / "test_mine.py").write_text(MODULE, encoding="utf-8")
    options = ["-n", str(workers)] if workers else []
    run = run_pytest(tmp_path, *options, "-rx", "-v", "--posenc-ndjson", "r.ndjson")
    assert run.returncode == 1, run.stdout
    assert "test_mine.py::test_right[required inputs]" in run.stdout
    assert "1 failed" in run.stdout
    assert "4 xfailed" in run.stdout
    assert "XFAIL test_mine.py::test_known[values] - issue 12 (base: the base is 500" in run.stdout
    line = (
        f"posenc-ref {posenc_ref.__version__}: 2 conforming, 1 deviating as expected, 1 deviating"
    )
    assert line in run.stdout.splitlines()
    recorded = read_ndjson(tmp_path / "r.ndjson")
    assert recorded.header["source"] == "pytest"
    found = {one.name: one.verdict for one in recorded.result.checked}
    assert found == {
        "test_mine.py::test_right": "conforms",
        "test_mine.py::test_known": "expected",
        "test_mine.py::test_plain": "conforms",
        "test_mine.py::test_wrong": "deviates",
    }


@pytest.mark.nightly
def test_expected_failures_fail_with_runxfail(tmp_path):
    (tmp_path / "test_mine.py").write_text(MODULE, encoding="utf-8")
    run = run_pytest(tmp_path, "--runxfail", "-k", "known")
    assert "4 failed" in run.stdout, run.stdout


def test_a_run_that_judges_nothing_says_nothing(tmp_path):
    (tmp_path / "test_mine.py").write_text("def test():\n    assert True\n", encoding="utf-8")
    run = run_pytest(tmp_path)
    assert run.returncode == 0, run.stderr
    assert "posenc_ref" not in run.stdout  # the list of plugins has posenc-ref


def test_the_plugin_loads_nothing():
    lines = (
        "import pytest, sys",
        "before = set(sys.modules)",
        "import posenc_ref_pytest",
        "print(*sorted(set(sys.modules) - before))",
    )
    code = "\n".join(lines)
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout.split() == ["posenc_ref_pytest"], run.stderr


def test_the_module_imports_pytest_only_when_it_is_used():
    code = "import sys, posenc_ref.conformance.pytest; print('pytest' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.stdout == "False\n", run.stderr
