"""Slopes of ranks with two mistakes: the part that a rank takes, and the series."""

import numpy as np
import pytest

from posenc_ref import ALiBi
from posenc_ref.conformance import check


def series(n):
    return 2.0 ** (-8.0 * np.arange(1, n + 1) / n)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda n, size, rank: series(n)[: n // size], "every rank gets the slopes of rank 0"),
        (lambda n, size, rank: series(n // size),
         "slopes are those of a model with as many heads as the rank holds"),
        (lambda n, size, rank: series(n)[rank::size],
         "heads are distributed to the ranks one by one"),
    ],
)  # fmt: skip
def test_both_mistakes_are_named_with_what_repairs_both(fn, words):
    (finding,) = check(fn, ALiBi(8), "rank_slopes").findings
    assert finding.message == f"{words}, and 2 ** (-8 h / n) is taken for any number of heads"
    assert "largest power of two" in finding.remedy
    assert "from r * (n // size) on" in finding.remedy
