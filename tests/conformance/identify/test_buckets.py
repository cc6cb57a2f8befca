"""T5's max_distance from the distances at which buckets start."""

import pytest

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
