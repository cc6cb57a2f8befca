"""A run counts what it judges, and a judge that cannot fail is found out."""

import numpy as np
import pytest

from posenc_ref import ALiBi, RoPE, Sinusoidal, T5Bias
from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance import check
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import exactly, identical
from posenc_ref.conformance.rotary import judge as judge_apply
from tests.conformance.handwritten import HEAD_DIM, inv_freq, rope, run_of, sinusoid

ENCODING = RoPE(HEAD_DIM, layout="half")
T5 = T5Bias(np.random.default_rng(0).standard_normal((32, 2)).astype(np.float32))


def cos_sin(p):
    angle = np.asarray(p, np.float32)[:, None] * inv_freq()
    return np.cos(angle), np.sin(angle)


def t5_bias(q_len, k_len):
    return T5.bias(np.arange(k_len - q_len, k_len), range(k_len)).astype(np.float32)


def alibi(q_len, k_len):
    return ALiBi(4).bias(np.arange(k_len - q_len, k_len), range(k_len)).astype(np.float32)


RIGHT = {
    "apply": (rope(), ENCODING),
    "cos_sin": (cos_sin, ENCODING),
    "frequencies": (inv_freq, ENCODING),
    "table": (sinusoid(), Sinusoidal(HEAD_DIM)),
    "slopes": (lambda n: ALiBi(n).slopes().astype(np.float32), ALiBi(4)),
    "bias": (alibi, ALiBi(4)),
    "bias of T5": (t5_bias, T5),
    "bucket": (T5.bucket, T5),
}


@pytest.fixture(params=RIGHT)
def judged(request):
    fn, encoding = RIGHT[request.param]
    return lambda: check(fn, encoding, request.param.split()[0])


def test_what_is_right_conforms_and_is_counted(judged):
    report = judged()
    assert report.verdict == "conforms", report
    assert report.required
    assert report.missing == []
    assert all(report.executed[name] > 0 for name in report.required)
    assert report.controls
    assert all(report.controls.values())


def test_a_score_that_is_always_0_is_an_error(judged, monkeypatch):
    monkeypatch.setattr(Truth, "score", lambda self, actual, **kwargs: np.zeros(self.value.shape))
    report = judged()
    assert report.verdict == "error", report
    assert not report.passed


def test_an_infinite_budget_is_an_error(judged, monkeypatch):
    monkeypatch.setattr(Run, "budget", np.inf)
    assert judged().verdict == "error"


def test_a_judge_that_compares_nothing_is_an_error(judged, monkeypatch):
    def only_count(self, check, case, actual, truth, mask=None, at=None):
        self.count(check)
        return True

    monkeypatch.setattr(Run, "judge", only_count)
    report = judged()
    assert report.verdict == "error", report


def test_a_judge_that_judges_nothing_is_inconclusive(judged, monkeypatch):
    monkeypatch.setattr(Run, "judge", lambda *args, **kwargs: True)
    monkeypatch.setattr(Run, "control", lambda self: None)
    monkeypatch.setattr(Run, "count", lambda *args, **kwargs: None)
    report = judged()
    assert report.verdict == "inconclusive", report
    assert report.missing
    assert not report.passed


def test_a_required_check_that_is_left_out_is_inconclusive(monkeypatch):
    monkeypatch.setattr(judge_apply, "_values", lambda run, access, dim: (0, False))
    report = check(rope(), ENCODING, "apply")
    assert (report.verdict, report.missing) == ("inconclusive", ["values"])
    assert "missing   required and not executed: values" in str(report)
    with pytest.raises(AssertionError, match="INCONCLUSIVE"):
        report.raise_if_failed()


def test_a_table_too_short_for_its_properties_is_inconclusive():
    def short(p):
        if np.max(p, initial=0) >= 9:
            raise IndexError("9 rows")
        return sinusoid()(p)

    report = check(short, Sinusoidal(HEAD_DIM), "table")
    assert (report.verdict, report.missing) == (
        "inconclusive",
        ["properties", "positions up to 31"],
    )
    assert report.accuracy.highest == 8


# --- one case ------------------------------------------------------------------------------------


def test_the_worst_case_is_kept_with_its_place():
    run = run_of(None)
    truth = exactly(np.array([[1.0, 2.0], [4.0, 8.0]]))
    off = truth.value + 3 * truth.unit("float32") * [[0, 0], [1, 0]]
    assert run.judge("values", "near", off, truth)
    assert run.ledger.worst == 3
    assert run.ledger.where.startswith("case 'near' at index (1, 0): 4.0000")
    assert run.judge("values", "exact", truth.value, truth)
    assert run.ledger.worst == 3
    assert run.report.executed == {"values": 2}
    assert run.failures == []


@pytest.mark.parametrize("dtype", ROUNDOFF)
def test_the_budget_is_the_limit(dtype):
    run = run_of(None, dtype=dtype)
    truth = exactly(np.array([1.0]))
    unit = truth.unit(dtype)
    assert run.judge("values", "at the budget", truth.value + run.budget * unit, truth)
    assert not run.judge("values", "past it", truth.value + 2 * run.budget * unit, truth)
    assert [f.case for f in run.failures] == ["past it"]
    assert run.failures[0].score == 2 * run.budget


def test_a_mask_leaves_out_and_a_shape_does_not():
    run = run_of(None)
    truth = exactly(np.array([1.0, 2.0]))
    wrong = np.array([1.0, 9.0])
    assert run.judge("values", "masked", wrong, truth, mask=np.array([True, False]))
    assert not run.judge("values", "open", wrong, truth)
    assert not run.judge("values", "cut", wrong[:1], truth)
    assert run.failures[1].score == np.inf


def test_integers_must_be_equal():
    run = run_of(None)
    truth = identical(np.array([0, 1, 31]))
    assert run.judge("values", "same", truth.value, truth)
    assert not run.judge("values", "other", np.array([0, 1, 30]), truth)
    assert run.ledger.worst == np.inf


def test_nan_fails_and_nothing_at_all_passes():
    run = run_of(None)
    truth = exactly(np.array([1.0]))
    assert not run.judge("values", "NaN", np.array([np.nan]), truth)
    assert run.judge("values", "empty", np.zeros(0), exactly(np.zeros(0)))


def test_one_finding_per_code():
    run = run_of(None)
    run.add("sign", "first")
    run.add("sign", "second")
    run.limit("a")
    run.limit("a")
    assert [f.message for f in run.report.findings] == ["first"]
    assert run.report.limits == ["a"]


def test_what_explains_others_is_listed_before_them():
    run = run_of(None)
    for code in ("base", "state", "layout", "shape"):
        run.add(code, code)
    assert run.finish().codes == ["shape", "state", "base", "layout"]


def test_an_unexplained_failure_is_reported_with_its_worst_case():
    run = run_of(None)
    run.failed("values", "small", 200.0, "here")
    run.failed("values", "large", 300.0, "there")
    finding = run.finish().findings[0]
    assert finding.code == "inaccurate"
    assert "2 cases are off by up to 300 error units" in finding.message
    assert finding.evidence == "values: there"


def test_a_failure_without_units_has_no_number():
    run = run_of(None)
    run.failed("properties", "equal rows", np.inf, "there")
    assert run.finish().findings[0].message.startswith("1 case is wrong, and no named cause")
    run = run_of(None)
    run.failed("properties", "equal rows", np.inf, "there")
    run.failed("values", "large", 300.0, "here")
    finding = run.finish().findings[0]
    assert "2 cases are off by up to 300 error units" in finding.message
    assert finding.evidence == "values: here"


def test_the_narrowest_dtype_that_comes_out_judges():
    run = run_of(lambda x: x.astype(np.float16), dtype="float32")
    assert run.budget == 128
    run.driver.array(run.driver.call(np.ones(3)))
    assert (run.dtype, run.budget) == ("float16", 8)
    assert run.finish().codes == ["dtype"]


def test_a_declared_precision_is_the_coarsest_rounding():
    run = run_of(None, precision="bfloat16")
    assert (run.dtype, run.coarse, run.budget) == ("float32", "bfloat16", 8)


def test_results_that_are_not_floating_are_a_finding():
    report = check(lambda x, p: x.astype(np.int32), ENCODING, "apply")
    assert report.codes[0] == "dtype"
