"""Every error of a report is shown by a check; one fails whenever the exit code is not 0."""

import itertools

import pytest

from posenc_ref.conformance import ExpectedFailure, Finding, Report
from posenc_ref.conformance.harness.by_check import by_check

CONTROLS = ({}, {"moved": True}, {"moved": True, "NaN": False})
EXECUTED = ({}, {"values": 3}, {"values": 3, "state": 2})
BASE = ExpectedFailure("base", "issue 12")
CODES = {"values": ["base"], "calls": ["dtype"], "state": ["state"]}


def made(**fields):
    return Report("fn", "apply", "R", "numpy", "float32", **{"required": ("values",), **fields})


def every_report():
    """Reports with each combination of errors, judged checks, controls and expectation."""
    for size in range(3):
        for names in itertools.combinations(CODES, size):
            failed = {name: CODES[name] for name in names}
            findings = [Finding(code, "m") for codes in failed.values() for code in codes]
            for controls, executed, known in itertools.product(CONTROLS, EXECUTED, (None, BASE)):
                for attributed in (failed, {}):
                    yield made(findings=findings, controls=controls, executed=executed,
                               failed=attributed, expected=known)  # fmt: skip


def test_a_check_fails_if_and_only_if_the_exit_code_is_not_0():
    reports = list(every_report())
    assert {report.exit_code for report in reports} == {0, 1, 3}
    for report in reports:
        failing = [result for result in by_check(report) if result.outcome == "failed"]
        assert bool(failing) == bool(report.exit_code), report


def test_every_error_is_shown():
    for report in every_report():
        shown = "\n".join(result.text for result in by_check(report))
        assert [f.code for f in report.findings if str(f) not in shown] == [], report


def test_a_check_shows_only_its_own_findings():
    report = made(findings=[Finding("base", "wrong base"), Finding("dtype", "wrong dtype")],
                  failed={"values": ["base"], "calls": ["dtype"]}, controls={"moved": True},
                  executed={"values": 3, "state": 2})  # fmt: skip
    found = {result.name: result for result in by_check(report)}
    assert list(found) == ["values", "state", "calls", "controls"]
    assert "wrong base" in found["values"].text
    assert "wrong dtype" not in found["values"].text
    assert found["calls"].title == "dtype: wrong dtype"
    assert (found["state"].outcome, found["state"].executed) == ("passed", 2)


def test_an_expected_failure_is_no_failure_where_nothing_else_is_wrong():
    both = {"findings": [Finding("base", "m"), Finding("dtype", "m")], "controls": {"moved": True},
            "executed": {"values": 3}, "expected": BASE}  # fmt: skip
    found = by_check(made(failed={"values": ["base", "dtype"]}, **both))
    assert [r.outcome for r in found if r.name in ("values", "expected deviation")] == [
        "failed",
        "failed",
    ]
    found = by_check(made(failed={"values": ["base"], "calls": ["dtype"]}, **both))
    assert [(r.name, r.outcome) for r in found] == [
        ("values", "expected"),
        ("calls", "failed"),
        ("controls", "passed"),
        ("expected deviation", "failed"),
    ]
    assert "issue 12" in found[0].title


def test_what_was_not_judged_says_why():
    refused = made(findings=[Finding("raises", "m")], failed={"calls": ["raises"]})
    found = {result.name: result for result in by_check(refused, ["optional inputs"])}
    assert (found["values"].outcome, found["values"].title) == (
        "skipped",
        "not judged, because of raises",
    )
    optional = made(executed={"values": 1}, controls={"moved": True}, limits=["no rows"])
    (result,) = [r for r in by_check(optional, ["optional inputs"]) if r.name == "optional inputs"]
    assert (result.outcome, result.title) == ("skipped", "no rows")
    missing = made(controls={"moved": True})
    assert by_check(missing)[0].title == "required, and no case was judged"


@pytest.mark.parametrize(
    ("codes", "executed", "exit_code", "words"),
    [
        (["base"], 3, 0, None),
        (["base", "sign"], 3, 1, "fails with sign"),
        (["sign"], 3, 1, "does not fail with base any more"),
        ([], 3, 1, "unexpected pass: base is gone"),
        (["base"], 0, 1, "too little was judged"),
    ],
)
def test_the_exit_code_of_an_expected_failure(codes, executed, exit_code, words):
    report = made(findings=[Finding(code, "m") for code in codes], controls={"moved": True},
                  executed={"values": executed}, expected=BASE)  # fmt: skip
    assert report.exit_code == exit_code
    assert "expected  base, because: issue 12" in str(report)
    assert ("problem   " in str(report)) == bool(words)
    assert (words or "") in str(report)
