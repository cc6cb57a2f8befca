"""Single lines of the judges whose mutants survived every other test.

tools/mutate.py breaks them; docs/generated/mutation-testing.md has what it found.
"""

import numpy as np
import pytest

from posenc_ref import GivenFrequencies, Proportional, RoPE, Sinusoidal, T5Bias, YaRN
from posenc_ref.accuracy import Truth
from posenc_ref.conformance import check
from posenc_ref.conformance.oracle.apply import exactly
from posenc_ref.conformance.phases.properties import orthogonality
from posenc_ref.conformance.table.judge_grid_add import Added
from tests.conformance.handwritten import HEAD_DIM, inv_freq, rope, run_of

HALF = RoPE(HEAD_DIM, layout="half")
RIGHT = rope()


def test_as_many_rows_as_heads_are_still_rows():
    def guesses(x, p):
        if p.ndim == 2 and p.shape[0] == x.shape[1]:  # takes them for the positions of heads
            return np.swapaxes(RIGHT(np.swapaxes(x, 0, 1), p), 0, 1)
        return RIGHT(x, p)

    report = check(guesses, HALF, "apply")
    assert report.verdict == "deviates", report
    assert "B = H" in str(report)


def test_short_chunks_are_judged_too():
    def restarts(x, chunks):
        if len(chunks) == 1 or sum(chunks) > 60:
            return RIGHT(x, np.arange(x.shape[2]))
        return RIGHT(x, np.concatenate([np.arange(n) for n in chunks]))

    report = check(restarts, HALF, "decode")
    assert report.verdict == "deviates", report


def test_tables_have_no_sign():
    def cos_sin(p):
        angle = np.asarray(p, np.float32)[:, None] * inv_freq()
        return np.cos(angle), np.sin(angle)

    for sign in (1, -1):
        report = check(cos_sin, RoPE(HEAD_DIM, layout="half", sign=sign), "cos_sin")
        assert report.verdict == "conforms", report


def test_a_wrong_answer_to_an_optional_input_is_a_note():
    run = run_of(None)
    run.report.controls["moved"] = True
    run.note("negative positions", np.array([2.0]), exactly(np.array([1.0])))
    (note,) = run.finish().findings
    assert (note.code, note.severity) == ("position-range", "note")
    assert note.message.startswith("negative positions are accepted and answered wrongly")
    assert note.evidence == "index (0,): 2, truth 1"


def test_all_inputs_that_are_answered_wrongly_are_in_the_note():
    run = run_of(None)
    run.report.controls["moved"] = True
    for case in ("int32 positions", "negative positions", "fractional positions"):
        run.note(case, np.array([2.0]), exactly(np.array([1.0])))
    (note,) = run.finish().findings
    cases = "int32 positions, negative positions, and fractional positions, are accepted"
    assert note.message.startswith(cases)
    assert note.evidence.count("index (0,): 2, truth 1") == 3


def test_the_unit_of_a_sum_counts_both_terms():
    x, value = np.array([[[1.0, -2.0]]]), np.array([[[0.5, 4.0]]])
    added = Added(Sinusoidal(2), x, lambda p: Truth(value, np.abs(value), 7 * np.ones_like(value)))
    truth = added.truth(x=-3.0, pe=2.0)
    assert truth.value.tolist() == [[[-2.0, 14.0]]]
    assert truth.terms.tolist() == [[[4.0, 14.0]]]
    assert truth.angle.tolist() == [[[14.0, 14.0]]]


def test_pairs_of_frequency_zero_do_not_hide_wrong_pairs():
    declared = RoPE(16, layout="half", scaling=Proportional(0.5))
    theta = declared.frequencies()
    assert (theta == 0).any()
    turning = RoPE(16, layout="half", base=500000.0, scaling=Proportional(0.5)).frequencies()
    assert check(lambda: theta.astype(np.float32), declared, "frequencies").passed
    report = check(lambda: turning.astype(np.float32), declared, "frequencies")
    assert report.codes == ["base"], report
    still = np.where(theta == 0, 0.5, theta)
    report = check(lambda: still.astype(np.float32), declared, "frequencies")
    assert report.codes == ["proportional"], report


def test_one_position_per_call_is_judged_to_the_end_of_long_contexts():
    def clamped(x, p):
        if p.size > 1:
            raise ValueError("one position, please")
        return RIGHT(x, np.minimum(p, 300000))

    report = check(clamped, HALF, "apply")
    assert report.verdict == "deviates", report


def test_patches_in_a_random_order_are_named():
    declared = Sinusoidal(16)

    def shuffled(height, width):
        rows = declared.table(range(height * width)).astype(np.float32)
        return rows[np.random.default_rng(height * width).permutation(len(rows))]

    report = check(shuffled, declared, "grid")
    assert report.codes == ["token-order"], report


def test_the_unit_of_a_gram_matrix_is_that_of_its_products():
    blocks = np.array([[[[1.0, -2.0], [3.0, 4.0]]]])
    gram, truth = orthogonality(blocks, np.array([3.0]))
    assert gram.tolist() == [[[[10.0, 10.0], [10.0, 20.0]]]]
    assert truth.value.tolist() == [[[[9.0, 0.0], [0.0, 9.0]]]]
    assert truth.terms.tolist() == [[[[20.0, 28.0], [28.0, 40.0]]]]


def test_bucket_numbers_as_floats_are_a_dtype_error():
    t5 = T5Bias(np.zeros((32, 2)))
    report = check(lambda r: t5.bucket(r).astype(np.float32), t5, "bucket")
    assert report.codes == ["dtype"], report
    assert report.findings[0].message.endswith("not integers")


@pytest.mark.parametrize(
    ("x", "pe", "message"),
    [
        (4.0, 1.0, "x is multiplied by sqrt(dim)"),
        (0.25, 1.0, "x is divided by sqrt(dim)"),
        (1.0, 4.0, "the encoding is multiplied by sqrt(dim)"),
        (1.0, 0.25, "the encoding is divided by sqrt(dim)"),
        (4.0, 4.0, "the sum is multiplied by sqrt(dim)"),
        (1.0, 2.0, "the encoding is added twice"),
        (1.0, -1.0, "the encoding is subtracted"),
        (1.0, 0.0, "nothing is added"),
        (0.0, 1.0, "x is missing: only the encoding is returned"),
        (2.0, 1.0, "x is added twice"),
        (0.5**0.5, 0.5**0.5, "the sum is multiplied by 0.707107 = 1/sqrt(2)"),
        (1.0, 0.3, "the encoding is multiplied by 0.3"),
        (1.25, 0.7, "x is multiplied by 1.25, the encoding is multiplied by 0.7"),
    ],
)
def test_a_factor_in_a_sum_is_named(x, pe, message):
    declared = Sinusoidal(16)

    def added(values):
        rows = declared.table(range(values.shape[1])).astype(np.float32)
        return np.float32(x) * values + np.float32(pe) * rows

    first = check(added, declared, "add").findings[0]
    assert (first.code, first.message) == ("amplitude", message)


def test_fitted_parameters_show_what_bfloat16_elements_hide():
    scaling = YaRN(4.0, 4096)
    declared = RoPE(64, layout="half", scaling=scaling)
    other = scaling.replace(attention_factor=1.006 * scaling.magnitude(None))
    slightly_larger = declared.replace(scaling=other)
    for encoding, verdict in ((declared, "conforms"), (slightly_larger, "deviates")):
        report = check(encoding.apply, declared, "apply", dtype="bfloat16")
        assert report.verdict == verdict, report
    assert report.codes[0] == "attention-factor", report
    assert report.accuracy.worst < report.accuracy.budget  # no element shows it


def test_a_pair_may_turn_by_more_than_half_a_turn_per_token():
    """At whole positions 4.37 rad and 4.37 - 2 pi rad per token are the same rotation."""
    pytest.importorskip("torch", reason="bfloat16")
    scaling = GivenFrequencies((4.37, 1.0, 0.1, 0.01))
    declared = RoPE(8, layout="half", scaling=scaling)
    report = check(declared.apply, declared, "apply", backend="torch", dtype="bfloat16")
    assert report.passed, report
