"""Wrong functions that a single probe catches, and right ones that a single rule spares."""

import numpy as np
import pytest

from posenc_ref import DynamicNTK, RoPE
from posenc_ref.conformance import check

ROPE = RoPE(8, layout="half")


@pytest.mark.parametrize("row", [0, 1])
def test_a_nan_that_is_lost_in_one_row_of_the_batch(row):
    """Infinity stays, so that only the NaN in this row shows it."""

    def lost(x, p):
        x = np.array(x)
        if x.shape[0] > row and np.isnan(x[row]).any():
            x[row] = np.where(np.isnan(x[row]), 0, x[row])
        return ROPE.apply(x, p)

    report = check(lost, ROPE, "apply")
    assert report.codes == ["nonfinite"]
    assert report.findings[0].message == "a NaN in x gives only finite results"


@pytest.mark.parametrize("row", [0, 1])
def test_a_nan_that_spreads_from_one_row_of_the_batch(row):
    def spreads(x, p):
        y = np.array(ROPE.apply(x, p))
        if x.shape[0] > row and np.isnan(x[row]).any():
            y[:] = np.nan
        return y

    report = check(spreads, ROPE, "apply")
    assert report.codes == ["nonfinite"]
    assert report.findings[0].message == "a NaN in one token changes other tokens"


def test_short_calls_keep_the_length_that_frequencies_depend_on():
    """Ten tokens a call: each has the largest position, or its frequencies are those of another."""
    encoding = RoPE(8, layout="half", scaling=DynamicNTK(2.0, 64))
    longest = []

    def short(x, p):
        if x.shape[2] > 10:
            raise ValueError("at most ten tokens a call")
        longest.append(int(np.max(p, initial=0)))
        return encoding.apply(x, p)

    report = check(short, encoding, "apply")
    assert report.passed, report
    assert any("calls of more than 10 tokens are refused" in limit for limit in report.limits)
    # A function without that rule is judged in pieces without a common position.
    plain = []

    def fixed(x, p):
        if x.shape[2] > 10:
            raise ValueError("at most ten tokens a call")
        plain.append(int(np.max(p, initial=0)))
        return ROPE.apply(x, p)

    assert check(fixed, ROPE, "apply").passed
    assert longest.count(131071) > plain.count(131071)


@pytest.mark.parametrize("most", [5000, 50000, None])
def test_the_highest_shift_is_the_largest_that_was_judged(most):
    def shift(x, delta):
        if most is not None and abs(delta) > most:
            raise ValueError(f"at most {most}")
        return ROPE.shift(x, delta)

    report = check(shift, ROPE, "shift_keys")
    assert report.passed, report
    assert report.accuracy.highest == {5000: 5000, 50000: 8191, None: 100003}[most]


def test_no_shift_is_larger_than_it_may_be():
    asked = []

    def shift(x, delta):
        asked.append(abs(delta))
        return ROPE.shift(x, delta)

    report = check(shift, ROPE, "shift_keys", max_position=600)
    assert report.passed, report
    assert report.accuracy.highest == max(asked) == 600
