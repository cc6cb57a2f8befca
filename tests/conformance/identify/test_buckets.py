"""T5's max_distance from the distances at which buckets start."""

import numpy as np
import pytest

from posenc_ref import DeBERTa, T5Bias
from posenc_ref.conformance import identify
from posenc_ref.conformance.bias.bucket_model import starts
from posenc_ref.conformance.identify.buckets import _max_distance


@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("usual", [64, 128, 256])
def test_the_usual_distance_is_told_where_others_give_the_same_buckets(size, usual):
    seen = starts(size, size // 2, usual)
    found, low, high = _max_distance(seen, size)
    assert found == usual
    assert low <= usual <= high
    for distance in (low - 1, high + 1):
        assert starts(size, size // 2, distance) != seen


def test_one_bucket_for_each_distance_has_any_larger_distance():
    assert _max_distance((1,), 2) == (128, 2, 2**31)


def log_bucket(relative_pos, bucket_size=16, max_position=40):
    table = np.zeros((1, 2 * bucket_size, 1))
    return DeBERTa(table, None, buckets=bucket_size, max_position=max_position).bucket(relative_pos)


def log_buckets(query_size, key_size, bucket_size=16, max_position=40):
    apart = np.arange(query_size)[:, None] - np.arange(key_size)
    return log_bucket(apart, bucket_size, max_position)[None]


@pytest.mark.parametrize("fn", [log_bucket, log_buckets])
def test_the_default_of_max_position_is_kept(fn):
    """It was replaced by the length of tables; the matrix was taken for a bias."""
    card = identify(fn)
    assert "buckets=16 and max_position=40" in card.function, str(card)


def test_the_settings_of_t5_are_assumed_if_nothing_states_them():
    def bucket(relative_position, bidirectional, num_buckets, max_distance):
        e = T5Bias(
            np.zeros((num_buckets, 1)), num_buckets=num_buckets, max_distance=max_distance,
            bidirectional=bidirectional,
        )  # fmt: skip
        return e.bucket(relative_position)

    card = identify(bucket)
    assert card.encoding == T5Bias(np.zeros((32, 1)), bidirectional=True), str(card)
    assert "num_buckets=32" in card.facts["called"]


def test_slopes_are_no_frequencies():
    def get_slopes(n_heads: int):
        return 2.0 ** (-8 * np.arange(1, n_heads + 1) / n_heads)

    assert identify(get_slopes).surface == "slopes"
