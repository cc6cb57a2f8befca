"""Queries placed by lengths that are rounded to tiles, and slopes of heads in a wrong order."""

import numpy as np
import pytest

from posenc_ref import ALiBi, Kerple, T5Bias
from posenc_ref.conformance import check

TABLE = np.random.default_rng(6).standard_normal((32, 2)).astype(np.float32)
ENCODINGS = (ALiBi(6, causal=False), T5Bias(TABLE), Kerple([1.0, 2.0], [0.3, 0.5]))
FIRST = {
    "k_len is rounded up": lambda q, k, n: k + -k % n - q,
    "q_len is rounded up": lambda q, k, n: k - q - -q % n,
    "q_len and k_len are rounded up": lambda q, k, n: k + -k % n - q - -q % n,
    "k_len is rounded down": lambda q, k, n: k - k % n - q,
}


def series(n):
    return 2.0 ** (-8 / n * (1 + np.arange(n)))


def right(n, c):
    return np.r_[series(c), series(2 * c)[::2][: n - c]]


ORDERS = {
    "[0::2] before [1::2], cut to 20": lambda n, c: np.r_[series(2 * c)[::2], series(c)][:n],
    "the slopes are sorted, the largest first": lambda n, c: -np.sort(-right(n, c)),
    "the slopes are sorted, the smallest first": lambda n, c: np.sort(right(n, c)),
    "the other 4 slopes come before the first 16": lambda n, c: np.roll(right(n, c), n - c),
    "the slopes are the first 20 of the series of 32 heads": lambda n, c: series(2 * c)[:n],
    "the slopes are the last 20 of the series of 32 heads": lambda n, c: series(2 * c)[-n:],
}


@pytest.mark.parametrize("words", FIRST)
@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: type(e).__name__)
def test_a_tile_of_the_lengths_is_named(encoding, words):
    def bias(q, k):
        return encoding.bias(np.arange(q) + FIRST[words](q, k, 16), np.arange(k)).astype("f4")

    (finding,) = check(bias, encoding, "bias").findings
    assert finding.code == "bias-alignment"
    assert finding.message.endswith(f": {words} to a multiple of 16")


@pytest.mark.parametrize("words", ORDERS)
def test_the_order_of_slopes_is_named(words):
    def slopes(num_heads):
        c = 2 ** int(np.log2(num_heads))
        return series(c) if c == num_heads else ORDERS[words](num_heads, c)

    (finding,) = check(slopes, ALiBi(20), "slopes").findings
    assert words in finding.message


def test_a_series_that_other_head_counts_follow_is_preferred():
    def slopes(num_heads):  # of 3 heads, these are also the other one before the first two
        c = 2 ** int(np.log2(num_heads))
        return series(c) if c == num_heads else -np.sort(-right(num_heads, c))

    (finding,) = check(slopes, ALiBi(3), "slopes").findings
    assert finding.message.startswith("the slopes are sorted, the largest first")
