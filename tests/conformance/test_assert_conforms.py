"""``assert_conforms``: what passes, and each reason to fail."""

import sys
import unittest

import pytest

from posenc_ref import ALiBi, RoPE
from posenc_ref.conformance import (
    ExpectedFailure,
    Finding,
    HarnessError,
    Report,
    assert_conforms,
    assertions,
    check,
    from_command,
)
from tests.conformance.handwritten import HEAD_DIM, rope

HALF = RoPE(HEAD_DIM, layout="half")
BASE = {"code": "base", "reason": "the checkpoint is converted next week, #12"}


def overwriting(fn):
    """Return fn, changed to overwrite x."""

    def apply(x, positions):
        y = fn(x, positions)
        x[...] = 0
        return y

    return apply


def refusing(x, positions):
    raise NotImplementedError("no kernel for this device")


def failing(*arguments, **settings):
    """Return the message of the AssertionError, which must be raised."""
    with pytest.raises(AssertionError) as caught:
        assert_conforms(*arguments, **settings)
    return str(caught.value)


def test_a_conforming_function_passes_and_its_report_is_returned():
    report = assert_conforms(rope(), HALF, "apply", name="mine", seed=1)
    assert isinstance(report, Report)
    assert report.passed
    assert report.subject == "mine"
    assert report.accuracy.degrades_at > 1024


def test_a_deviation_fails_with_the_whole_report_as_message():
    wrong = rope(base=500.0)
    text = failing(wrong, HALF, "apply", name="mine")
    assert text.splitlines()[:3] == [
        "mine does not conform to its declaration",
        "",
        "DEVIATES  mine  (apply, numpy, float32)",
    ]
    assert str(check(wrong, HALF, "apply", name="mine")) in text


def test_an_expected_failure_passes_in_both_spellings():
    wrong = rope(base=500.0)
    assert assert_conforms(wrong, HALF, "apply", expected_failure=BASE).codes == ["base"]
    value = ExpectedFailure("base", reason="#12")
    assert assert_conforms(wrong, HALF, "apply", expected_failure=value).codes == ["base"]


def test_an_unexpected_pass_fails():
    text = failing(rope(), HALF, "apply", expected_failure=BASE)
    assert text.startswith("unexpected pass: base is gone (expected because: the checkpoint is")
    assert "remove the expectation" in text
    assert "CONFORMS" in text


def test_another_code_fails():
    text = failing(rope(layout="interleaved"), HALF, "apply", expected_failure=BASE)
    assert "fails with layout, which is not expected (expected because: the checkpoint" in text
    assert "does not fail with base any more" in text


def test_one_more_code_than_expected_fails():
    both = overwriting(rope(base=500.0))
    assert check(both, HALF, "apply").codes == ["mutates-input", "base"]
    text = failing(both, HALF, "apply", expected_failure=BASE)
    assert "fails with mutates-input, which is not expected" in text
    assert "any more" not in text


def test_one_expected_code_less_fails():
    known = ExpectedFailure(("base", "mutates-input"), reason="#12 and #13")
    both = overwriting(rope(base=500.0))
    assert set(assert_conforms(both, HALF, "apply", expected_failure=known).codes) == {*known.code}
    text = failing(overwriting(rope()), HALF, "apply", expected_failure=known)
    assert text.startswith("does not fail with base any more (expected because: #12 and #13)")
    assert "fails with" not in text


def test_a_note_is_not_a_failure():
    def widened(x, positions):
        return rope()(x.astype("float64"), positions)

    assert check(widened, HALF, "apply").findings[0].severity == "note"
    assert_conforms(widened, HALF, "apply")
    text = failing(widened, HALF, "apply", expected_failure={"code": "dtype", "reason": "#14"})
    assert text.startswith("unexpected pass: dtype is gone")


@pytest.mark.parametrize(
    ("expected", "error", "words"),
    [
        ({"code": "base"}, TypeError, 'needs "code" and "reason", and no more; got code'),
        ({"reason": "#12"}, TypeError, "got reason"),
        ({}, TypeError, "got nothing"),
        (BASE | {"until": "2.0"}, TypeError, "got code, reason, until"),
        ("base", TypeError, "must be an ExpectedFailure or"),
        ({"code": "base", "reason": None}, TypeError, "reason must be a text"),
        ({"code": "base", "reason": " "}, ValueError, "reason must say why"),
        ({"code": "bass", "reason": "#12"}, ValueError, "got 'bass'; did you mean base"),
        ({"code": (), "reason": "#12"}, ValueError, "at least one finding"),
    ],
)
def test_an_invalid_expectation_is_refused_before_the_check(expected, error, words):
    with pytest.raises(error, match=words):
        assert_conforms(refusing, HALF, "apply", expected_failure=expected)


def test_an_expected_failure_needs_a_reason():
    with pytest.raises(TypeError, match="reason"):
        ExpectedFailure("base")


# --- too little was judged ----------------------------------------------------------------


def test_a_function_that_raises_in_every_call_is_an_expected_failure():
    """The expected error leaves no case to judge; another one, or more that is asked for, fails."""
    known = {"code": "raises", "reason": "no kernel yet"}
    report = assert_conforms(refusing, HALF, "apply", expected_failure=known)
    assert report.codes == ["raises"]
    assert not report.executed
    text = failing(refusing, HALF, "apply", expected_failure=BASE)
    assert "too little was judged: 0 cases, at least 1 must be" in text
    assert "skip the test" in text
    for asked in ({"minimum_executed": 2}, {"required": ("values",)}):
        assert failing(refusing, HALF, "apply", expected_failure=known, **asked)


def test_too_few_cases_fail():
    count = sum(check(rope(), HALF, "apply").executed.values())
    assert_conforms(rope(), HALF, "apply", minimum_executed=count)
    text = failing(rope(), HALF, "apply", minimum_executed=count + 1)
    assert text.startswith(f"too little was judged: {count} cases, at least {count + 1}")


def test_too_few_cases_fail_in_an_expected_failure():
    text = failing(rope(base=500.0), HALF, "apply", expected_failure=BASE, minimum_executed=10**6)
    assert text.startswith("too little was judged")


def test_a_required_check_that_did_not_run_fails():
    assert_conforms(rope(), HALF, "apply", required=("values", "optional inputs"))

    def one_row_only(x, positions):
        if x.dtype != "float32" or positions.ndim > 1 or positions.dtype != "int64" or not x.size:
            raise ValueError("no")
        return rope()(x, positions)

    assert check(one_row_only, HALF, "apply").passed
    text = failing(one_row_only, HALF, "apply", required=("values", "gradients"))
    assert text.startswith("required and not judged: gradients; judged: required inputs, ")


def test_minimum_executed_and_required_are_validated():
    for minimum in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            assert_conforms(rope(), HALF, "apply", minimum_executed=minimum)
    for minimum in (True, 1.5, "all"):
        with pytest.raises(TypeError, match="must be an integer"):
            assert_conforms(rope(), HALF, "apply", minimum_executed=minimum)
    with pytest.raises(TypeError, match="sequence of names"):
        assert_conforms(rope(), HALF, "apply", required="values")


# --- negative controls ----------------------------------------------------------------------------

DONE = {"executed": {"values": 3}, "required": ("values",)}
FAILED = {"findings": [Finding("base", "m")]}


def made(monkeypatch, **fields):
    """Replace the check by one that returns this report."""
    report = Report("fn", "apply", "RoPE(8)", "numpy", "float32", **DONE | fields)
    monkeypatch.setattr(assertions, "check", lambda *arguments, **settings: report)


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, None), (FAILED, BASE)], ids=["pass", "expected failure"]
)
def test_an_accepted_control_fails(monkeypatch, fields, expected):
    made(monkeypatch, controls={"moved": True, "NaN": True}, **fields)
    assert_conforms(rope(), HALF, "apply", expected_failure=expected)
    made(monkeypatch, controls={"moved": True, "NaN": False}, **fields)
    text = failing(rope(), HALF, "apply", expected_failure=expected)
    assert text.startswith("the check is vacuous: a perturbed output was accepted (NaN)")
    made(monkeypatch, controls={}, **fields)
    text = failing(rope(), HALF, "apply", expected_failure=expected)
    assert text.startswith("the check is vacuous: no perturbed output was judged")


def test_an_inconclusive_run_fails(monkeypatch):
    made(monkeypatch, controls={"moved": True}, required=("values", "state"))
    assert failing(rope(), HALF, "apply").startswith("fn does not conform to its declaration")
    assert "any more" in failing(rope(), HALF, "apply", expected_failure=BASE)


def test_every_run_has_controls():
    for fn, encoding, surface in (
        (rope(), HALF, "apply"),
        (rope(base=500.0), HALF, "apply"),
        (rope(), None, "apply"),
        (lambda n: ALiBi(n).slopes(), ALiBi(8), "slopes"),
    ):
        controls = check(fn, encoding, surface, head_dim=HEAD_DIM).controls
        assert controls
        assert all(controls.values())


# --- test runners ---------------------------------------------------------------------------------


def test_unittest_is_supported():
    class Suite(unittest.TestCase):
        def test_right(self):
            assert_conforms(rope(), HALF, "apply")

        def test_wrong(self):
            assert_conforms(rope(base=500.0), HALF, "apply")

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Suite).run(result)
    assert result.testsRun == 2
    assert result.errors == []
    ((case, text),) = result.failures
    assert "test_wrong" in str(case)
    assert "error: base" in text


def test_a_program_without_answers_is_an_error_not_a_failure():
    with pytest.raises(HarnessError, match="instead of answering hello"):
        assert_conforms(from_command([sys.executable, "-c", "pass"], "apply", HALF))
