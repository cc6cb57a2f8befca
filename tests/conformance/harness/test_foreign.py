"""What functions return, read without trust."""

import pytest

from posenc_ref.conformance.harness.foreign import _list_shape


@pytest.mark.parametrize(
    ("value", "shape"),
    [([], (0,)), ([[], []], (2, 0)), ([[1, 2, 3]], (1, 3)), ((4.0,), (1,)), (7, ())],
)
def test_the_shape_of_lists(value, shape):
    assert _list_shape(value) == shape
