"""What reports say to do about a changed step of a formula."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Bias, T5Bias
from posenc_ref.conformance import check
from posenc_ref.conformance.bias.formulas import formula_of, step_changes
from posenc_ref.conformance.diagnosis.rounding import significant
from posenc_ref.conformance.diagnosis.steps import Steps, changes, computed, plain_steps
from posenc_ref.conformance.registry import entries

BIASES = [
    next(iter(entry.examples.values())) for entry in entries() if issubclass(entry.encoding, Bias)
]
TABLE = np.random.default_rng(3).standard_normal((32, 4)).astype(np.float32)


@pytest.mark.parametrize("declared", BIASES, ids=lambda e: type(e).__name__)
def test_every_changed_step_says_what_to_do(declared):
    found = list(step_changes(declared))
    assert found or formula_of(declared) is None
    for _, message, remedy, _ in found:
        assert remedy.endswith("."), message
        assert "{" not in remedy, message


@pytest.mark.parametrize(
    ("words", "by"),
    [("is 1 too large", 1), ("is 1 too small", -1)],
)
def test_a_number_off_by_one_is_corrected_the_other_way(words, by):
    def formula(s: Steps):
        return s.number("n", 7)

    remedies = {
        message: (remedy, computed(formula, change))
        for _, message, remedy, change in changes(plain_steps(formula))
    }
    remedy, value = remedies[f"n {words}"]
    assert value == 7 + by
    assert remedy == ("Subtract 1 from n (declared: 7)." if by > 0 else "Add 1 to n (declared: 7).")


def bucket(rounding=np.floor, last=15, distance=lambda n: n, top=128):
    """T5's rule for 32 buckets of both directions, written again."""

    def fn(r):
        n = np.abs(r)
        with np.errstate(divide="ignore"):
            far = 8 + rounding(8 * np.log(distance(n) / 8) / np.log(top / 8) + 1e-9)
        return np.where(n < 8, n, np.clip(far, 8, last)).astype(np.int64) + 16 * (r > 0)

    return fn


@pytest.mark.parametrize(
    ("fn", "words", "remedy"),
    [
        (bucket(np.rint), "rounded to the nearest integer, not down", "down (floor)"),
        (bucket(lambda v: np.ceil(v - 2e-9)), "is rounded up, not down", "down (floor)"),
        (bucket(last=16), "is clamped to 8 .. 16, not to 8 .. 15", "to 8 .. 15"),
        (bucket(last=31), "clamped to 31 before the half is chosen", "to 15, and add 16"),
        (bucket(distance=lambda n: np.maximum(n - 1, 1)), "1 too small", "Add 1 to the distance"),
        (bucket(top=64), "max_distance is 64", "log(128 / 8)"),
    ],
)
def test_the_rule_of_buckets_is_named(fn, words, remedy):
    declared = T5Bias(TABLE)
    report = check(fn, declared, "bucket")
    assert words in report.findings[0].message, report
    assert remedy in report.findings[0].remedy, report


def test_the_plain_rule_of_buckets_is_right():
    assert check(bucket(), T5Bias(TABLE), "bucket").passed


@pytest.mark.parametrize(
    ("slopes", "words"),
    [
        (lambda n, t: t[np.minimum(np.arange(n), 15)], "heads 16-31 have the slope of head 15"),
        (lambda n, t: np.r_[t[1:], t[-1:]], "heads 0-30 have the slopes of heads 1-31"),
    ],
)
def test_slopes_of_other_heads_are_named(slopes, words):
    def fn(n):
        true = ALiBi(n).slopes()
        return slopes(n, true) if n == 32 else true

    assert words in check(fn, ALiBi(32), "slopes").findings[0].message


@pytest.mark.nightly
def test_distances_cut_to_bfloat16_are_named():
    """Up to 256 they are exact."""
    declared = ALiBi(4)

    def fn(q_len, k_len):
        distance = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
        distance = significant(np.maximum(distance, 0), 8, cut=True)
        return (-declared.slopes()[:, None, None] * distance).astype(np.float32)

    found = check(fn, declared, "bias").findings[0]
    assert found.code == "position-precision"
    assert found.message == "the offset query - key is cut, not rounded, to bfloat16"
    assert "float32" in found.remedy
