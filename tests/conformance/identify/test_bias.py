"""identify of slopes, biases and buckets: the rule, its direction, and what they do not tell."""

import ml_dtypes
import numpy as np
import pytest

from posenc_ref import ALiBi, T5Bias
from posenc_ref.conformance import identify

RANDOM = np.random.default_rng(3)


def kind_of(dtype):
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype


def bias_card(encoding, dtype="float32"):
    def fn(q_len, k_len):
        rows = encoding.bias(np.arange(k_len - q_len, k_len), np.arange(k_len))
        return rows.astype(kind_of(dtype))

    return identify(fn, "bias", dtype=dtype)


SLOPES = [ALiBi(3), ALiBi(1), ALiBi(2, max_bias=16.0), ALiBi(3, max_bias=4.0)]
TABLES = [
    T5Bias(RANDOM.normal(size=(32, 2)).astype(np.float32)),
    T5Bias(RANDOM.normal(size=(32, 3)).astype(np.float32), bidirectional=False),
    T5Bias(RANDOM.normal(size=(16, 2)).astype(np.float32), num_buckets=16, max_distance=64),
]


@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [
        (SLOPES[0], "float32"),
        pytest.param(SLOPES[1], "float64", marks=pytest.mark.nightly),
        (SLOPES[2], "bfloat16"),
        pytest.param(SLOPES[3], "bfloat16", marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_a_linear_bias_is_itself(encoding, dtype):
    card = bias_card(encoding, dtype)
    # Keys after the query are biased by distance as well, which is causal=False.
    assert card.encoding == encoding.replace(causal=False), str(card)
    assert card.exact, str(card)


def test_keys_after_the_query_are_masked():
    slopes = ALiBi(2).slopes()[:, None, None]

    def fn(q_len, k_len):
        distance = np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]
        return np.where(distance > 0, -np.inf, slopes * distance).astype(np.float32)

    card = identify(fn, "bias")
    assert card.encoding == ALiBi(2), str(card)
    assert card.facts["later keys"] == "masked"


@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [
        (TABLES[0], "float32"),
        *(pytest.param(e, "float32", marks=pytest.mark.nightly) for e in TABLES[1:]),
        pytest.param(TABLES[0], "float64", marks=pytest.mark.nightly),
        (TABLES[1], "bfloat16"),
    ],
    ids=str,
)
def test_a_bucketed_bias_is_itself(encoding, dtype):
    card = bias_card(encoding, dtype)
    same = encoding.replace(table=card.encoding.table)
    assert card.encoding == same, str(card)
    told = np.array(encoding.table.astype(kind_of(dtype)), np.float64)
    read = np.array(card.encoding.table, np.float64)
    unused = [encoding.num_buckets // 2] if encoding.bidirectional else []
    assert np.array_equal(np.delete(read, unused, 0), np.delete(told, unused, 0))
    assert card.exact, str(card)


def test_a_bias_that_grows_with_the_distance_is_named():
    plain = ALiBi(2, causal=False)
    card = identify(
        lambda q, k: -plain.bias(np.arange(k - q, k), np.arange(k)).astype(np.float32), "bias"
    )
    assert card.facts["distance"] == "the bias grows with the distance"
    assert [f.code for f in card.deviations] == ["bias-sign"]


def test_queries_at_the_start_of_the_keys_are_named():
    plain = ALiBi(2, causal=False)
    card = identify(lambda q, k: plain.bias(range(q), range(k)).astype(np.float32), "bias")
    assert "query i has position i" in card.facts["Toeplitz"]
    assert not card.exact


@pytest.mark.nightly
def test_a_bias_of_each_key_is_not_toeplitz():
    noise = np.random.default_rng(4).normal(size=(2, 4096))
    card = identify(
        lambda q, k: np.broadcast_to(noise[:, None, :k], (2, q, k)).astype(np.float32), "bias"
    )
    assert card.encoding is None
    assert card.facts["Toeplitz"].startswith("the bias differs")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("top", [8.0, 4.0])
def test_slopes_are_themselves(top, dtype):
    card = identify(
        lambda n: ALiBi(n, max_bias=top).slopes().astype(kind_of(dtype)), "slopes", dtype=dtype
    )
    assert card.encoding == ALiBi(12, max_bias=top), str(card)
    assert card.exact, str(card)


def test_nothing_but_a_mask_is_no_bias():
    card = identify(lambda q, k: np.full((2, q, k), -np.inf, np.float32), "bias")
    assert card.encoding is None
    assert "every key is masked" in card.unknown[0]


def test_slopes_of_uneven_numbers_of_heads_by_another_rule():
    def fn(n):
        return np.array([2 ** (-8 * (h + 1) / n) for h in range(n)], np.float32)

    card = identify(fn, "slopes")
    assert [f.code for f in card.deviations] == ["slopes"], str(card)


@pytest.mark.parametrize("encoding", TABLES, ids=str)
def test_buckets_are_those_of(encoding):
    card = identify(encoding.bucket, "bucket")
    assert card.encoding.replace(table=encoding.table) == encoding, str(card)
    assert any("the table" in text for text in card.unknown)
    assert card.exact


def test_a_range_of_distances_is_a_relation():
    card = identify(TABLES[2].bucket, "bucket")
    (relation,) = card.relations
    low, high = (int(w) for w in relation.split() if w.isdigit())

    def same(distance):
        r = np.arange(-200, 200)
        other = TABLES[2].replace(max_distance=distance)
        return np.array_equal(other.bucket(r), TABLES[2].bucket(r))

    assert low <= 64 <= high
    assert [same(d) for d in (low - 1, low, high, high + 1)] == [False, True, True, False]


def test_buckets_towards_later_keys_are_named():
    card = identify(lambda r: TABLES[1].bucket(-r), "bucket")
    assert "query minus key" in card.facts["direction"]
    assert not card.exact


def test_buckets_without_a_rule():
    card = identify(lambda r: np.abs(r) // 7 + 1, "bucket")
    assert card.encoding is None
    assert "T5's rule does not give these buckets" in card.unknown[0]
