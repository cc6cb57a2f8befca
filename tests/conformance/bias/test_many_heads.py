"""Slopes of more heads than most models have: kept tables end, and recipes change there."""

import numpy as np
import pytest

from posenc_ref import ALiBi
from posenc_ref.conformance import check

DECLARED = ALiBi(12)


def past(last):
    """Slopes that are right up to so many heads, and one plain series past them."""

    def slopes(n):
        if n <= last:
            return ALiBi(n).slopes().astype(np.float32)
        return (2.0 ** (-8 * np.arange(1, n + 1) / n)).astype(np.float32)

    return slopes


@pytest.mark.parametrize("last", [16, 32, 64, 96, 112, 128, 160, 256])
def test_a_series_past_many_heads_is_seen(last):
    assert check(past(last), DECLARED, "slopes").codes == ["slopes"]


@pytest.mark.parametrize("last", [40, 112, 144])
def test_a_series_past_many_heads_of_a_rank_is_seen(last):
    slopes = past(last)

    def rank_slopes(num_heads, tp_size, tp_rank):
        held = num_heads // tp_size
        return slopes(num_heads)[tp_rank * held : (tp_rank + 1) * held]

    assert check(rank_slopes, DECLARED, "rank_slopes").verdict == "deviates"


def test_right_ones_pass_and_so_do_refusals():
    assert check(past(1000), DECLARED, "slopes").passed

    def few(n):
        if n > 64:
            raise ValueError("at most 64 heads")
        return past(1000)(n)

    report = check(few, DECLARED, "slopes")
    assert report.passed, report
    assert any("heads are refused" in limit for limit in report.limits)
