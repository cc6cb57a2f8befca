"""Words for numbers."""

import pytest

from posenc_ref.conformance.harness.plural import ranges


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([4], "4"), ([0, 1, 2, 3, 5], "0-3, 5"), ([1, 3, 4], "1, 3-4"), ([2, 4], "2, 4")],
)
def test_ranges(numbers, text):
    assert ranges(numbers) == text
