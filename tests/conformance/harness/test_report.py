"""A report says what was found, in words and as data, and passes only for a reason."""

import json
from dataclasses import replace

import numpy as np
import pytest

from posenc_ref import SPEC_VERSION, ALiBi, RoPE
from posenc_ref.conformance import CODES, Accuracy, Finding, Report, check
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.report import NOTE
from tests.conformance.handwritten import HEAD_DIM, rope

DONE = {"executed": {"values": 3}, "required": ("values",), "controls": {"moved": True}}


def report(**kwargs):
    return Report("fn", "apply", "RoPE(8)", "numpy", "float32", **{**DONE, **kwargs})


def strict(text):
    """The parsed JSON; NaN and Infinity, which JSON does not have, raise."""

    def refuse(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def test_a_report_without_a_judged_value_says_so():
    """An error of 0 units would read as perfect."""
    text = str(check(lambda x, p: x[..., :-1], RoPE(8, layout="half"), "apply"))
    assert "accuracy  not measured: no value was judged" in text
    assert "executed  0 cases\n" in text
    assert "worst" not in text


def test_a_limit_is_listed_once():
    def shared(x, positions):
        assert positions.ndim == 1, "one row"
        return RoPE(8, layout="half").apply(x, positions)

    found = check(shared, RoPE(8, layout="half"), "apply", max_position=255)
    assert found.passed
    (limit,) = found.limits
    assert limit.startswith("per-row positions (B, S): refused")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [(1, "1 of 8 slopes is wrong"), (2, "2 of 8 slopes are wrong"), (8, "8 of 8 slopes are")],
)
def test_a_count_agrees_with_its_verb(wrong, words):
    def slopes(num_heads):
        found = ALiBi(num_heads).slopes()
        found[:wrong] *= 1.5
        return found

    assert words in check(slopes, ALiBi(8), "slopes").findings[0].message


def test_one_case_is_off():
    words = [plural(n, "case is", "cases are") for n in (0, 1, 2)]
    assert words == ["0 cases are", "1 case is", "2 cases are"]
    of_one = [plural(1, "row is", "rows are", n) for n in (1, 2)]
    assert of_one == ["1 of 1 row is", "1 of 2 rows is"]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "conforms"),
        ({"findings": [Finding("sign", "m")]}, "deviates"),
        ({"findings": [Finding("sign", "m", severity=NOTE)]}, "conforms"),
        ({"executed": {}}, "inconclusive"),
        ({"executed": {"values": 0}}, "inconclusive"),
        ({"executed": {"other": 3}}, "inconclusive"),
        ({"controls": {}}, "inconclusive"),
        ({"executed": {}, "findings": [Finding("sign", "m")]}, "deviates"),
        ({"controls": {"moved": True, "NaN": False}}, "error"),
        ({"controls": {"NaN": False}, "findings": [Finding("sign", "m")]}, "error"),
    ],
)
def test_verdict(changes, verdict):
    r = report(**changes)
    assert r.verdict == verdict
    assert r.passed == (verdict == "conforms")
    assert str(r).startswith(verdict.upper())
    assert strict(r.to_json())["verdict"] == verdict
    assert r.exit_code == {"conforms": 0, "deviates": 1}.get(verdict, 3)
    if r.passed:
        r.raise_if_failed()
    else:
        with pytest.raises(AssertionError, match=verdict.upper()):
            r.raise_if_failed()


def test_codes_are_those_of_errors():
    findings = [Finding("sign", "m"), Finding("base", "m", severity=NOTE), Finding("layout", "m")]
    assert report(findings=findings).codes == ["sign", "layout"]


def test_a_finding_has_a_known_code_and_its_remedy():
    with pytest.raises(ValueError, match="code must be a key of CODES, got 'sing'"):
        Finding("sing", "m")
    assert Finding("sign", "m").remedy == CODES["sign"].remedy
    assert Finding("sign", "m", remedy="turn round").remedy == "turn round"


def test_a_finding_in_words():
    text = str(
        Finding("sign", "what", "where", equivalent=("base",), reproduce="import numpy\nprint(1)")
    )
    assert text.splitlines() == [
        "error: sign: what",
        "  evidence  where",
        f"  remedy    {CODES['sign'].remedy}",
        "  same as   base",
        "  reproduce",
        "    import numpy",
        "    print(1)",
    ]
    assert str(Finding("sign", "what", severity=NOTE)) == "note: sign: what"


def test_every_code_is_explained():
    for name, code in CODES.items():
        assert code.name == name
        assert code.meaning.endswith(".")
        assert code.remedy.endswith(".")
        assert code.trigger
        assert not code.trigger.endswith(".")
        assert len(code.meaning) <= 100, "one sentence"


@pytest.mark.parametrize(
    ("dtype", "over"),
    [
        ("float32", "2**-9"),
        ("bfloat16", "2**-9 + 2**-8 (the rounding of bfloat16)"),
        ("float16", "2**-9 + 2**-11 (the rounding of float16)"),
    ],
)
def test_the_first_error_of_half_precision_results_is_beyond_their_rounding(dtype, over):
    """Rounding alone exceeds 2**-9 at position 365; brute force finds 113387 for the sum."""
    a = Accuracy(
        2.67, 8.0, "case 'x'", degrades_at=113387, degrades_first=True, errors={4096: 2e-3}
    )
    lines = str(replace(report(accuracy=a), dtype=dtype)).splitlines()
    assert f"          first error over {over} at position 113387" in lines


def test_accuracy_in_words():
    a = Accuracy(3.14159, 128.0, "case 'x'", "float32 angles", {4096: 2e-4, 2**20: 0.5}, 777, 2048)
    lines = str(report(accuracy=a)).splitlines()
    assert "accuracy  worst 3.14 units (budget 128), case 'x'" in lines
    assert "precision float32 angles" in lines
    assert any(line.endswith("4Ki: 2.0e-04, 1Mi: 5.0e-01") for line in lines)
    assert "          first error over 2**-9 no later than at position 777" in lines
    assert (
        "          first error over 2**-9 at position 777"
        in str(report(accuracy=replace(a, degrades_first=True))).splitlines()
    )
    assert "judged    up to position 2048" in lines


def test_errors_of_several_axes_say_which_positions_they_are_of():
    """They contradicted the verdict: equal positions on all axes hide exchanged axes."""
    a = Accuracy(3.0, 128.0, "case 'x'", errors={4096: 3e-8})
    one, more = report(accuracy=a), replace(report(accuracy=a), encoding="MultiAxisRoPE(8, ...)")
    assert "errors    absolute, at the end" in str(one)
    assert "errors    absolute, with equal positions on every axis, at the end" in str(more)


def test_integers_that_differ_are_not_called_infinite():
    a = Accuracy(float("inf"), 128.0, "case 'x': 20, truth 4")
    assert "not in units: not finite, or unequal where no rounding is allowed, case" in str(
        report(accuracy=a)
    )
    whole = replace(report(accuracy=a), surface="bucket")
    assert "not in units: integers must be equal, case 'x': 20, truth 4" in str(whole)


@pytest.mark.parametrize(("highest", "said"), [(1023, True), (1024, False)])
def test_a_pass_below_1024_says_so(highest, said):
    text = str(report(accuracy=Accuracy(0.0, 128.0, "x", highest=highest)))
    assert ("a pass below 1024 says little about long context" in text) == said


def test_json_is_strict():
    wild = Finding("base", "m", values={"declared": np.float32(1.5), "measured": float("nan")})
    a = Accuracy(float("inf"), 128.0, "x", errors={4096: float("inf"), 8: np.float64(0.25)})
    body = strict(report(findings=[wild], accuracy=a, measured="x").to_json(indent=1))
    assert body["accuracy"]["worst"] is None
    assert body["accuracy"]["errors"] == {"4096": None, "8": 0.25}
    assert body["findings"][0]["values"] == {"declared": 1.5, "measured": None}
    assert body["spec_version"] == SPEC_VERSION
    assert body["passed"] is False


# --- of real functions ---------------------------------------------------------------------------

ENCODING = RoPE(HEAD_DIM, layout="half")


def test_a_pass():
    r = check(rope(), ENCODING, "apply", name="mine")
    text = str(r)
    assert text.startswith(
        "CONFORMS  mine  (apply, numpy, float32)\ndeclared  RoPE(8, layout='half')"
    )
    assert "measured  4 half-split pairs, frequencies 1 .. 0.001" in text
    assert "precision float32 angles" in text
    assert "limit" not in text
    assert f"controls  {len(r.controls)} of {len(r.controls)} perturbed outputs rejected" in text
    assert f"executed  {sum(r.executed.values())} cases (" in text
    assert r.accuracy.worst <= r.accuracy.budget
    assert set(r.accuracy.errors) == {2**12, 2**15, 2**17, 2**20}
    assert r.accuracy.degrades_at > 1024
    assert strict(r.to_json())["passed"] is True


def test_a_failure_with_infinite_scores():
    r = check(lambda x, p: x * np.where(np.max(p, initial=0) > 3000, np.nan, 1), ENCODING, "apply")
    assert r.verdict == "deviates"
    body = strict(r.to_json())
    assert body["accuracy"]["worst"] is None
    errors = [f["code"] for f in body["findings"] if f["severity"] == "error"]
    assert errors == r.codes


def test_float64_angles_are_named():
    def float64(x, p):
        return ENCODING.apply(x, p)

    r = check(float64, ENCODING, "apply", angles="exact")
    assert r.passed, r
    assert r.accuracy.precision.startswith("float64 angles")
    assert r.accuracy.degrades_at is None
    assert check(rope(), ENCODING, "apply", angles="exact").verdict == "deviates"
