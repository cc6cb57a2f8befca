"""The row whose positions all rows get is named: first, last, smallest and largest differ."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(8, layout="half")
ROWS = {
    "every row starts at the largest offset": np.max,
    "every row starts at the smallest offset": np.min,
    "every row starts where the last one does": lambda o: o[-1],
    "every row starts where the first one does": lambda o: o[0],
}


@pytest.mark.parametrize("message", ROWS)
def test_the_row_of_all_offsets_is_named(message):
    def fn(x, offset):
        at = ROWS[message](offset) + np.arange(x.shape[2])
        return ROPE.apply(x, at).astype(x.dtype)

    (found,) = check(fn, ROPE, "apply_offset").findings
    assert found.message == message


@pytest.mark.parametrize(
    ("row", "words"),
    [
        pytest.param(np.argmax, "the row with the largest first position",
                     marks=pytest.mark.nightly),
        pytest.param(np.argmin, "the row with the smallest first position",
                     marks=pytest.mark.nightly),
        pytest.param(lambda first: -1, "the last row", marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_the_row_of_all_positions_is_named(row, words):
    def fn(x, positions):
        one = positions if positions.ndim == 1 else positions[row(positions[:, 0])]
        return ROPE.apply(x, one).astype(x.dtype)

    (found,) = check(fn, ROPE, "apply").findings
    assert found.message == f"the position used is the position of the same token of {words}"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (lambda mask: 0, "the first row"),
        (lambda mask: np.argmin(mask.sum(1)), "the row with most padding"),
    ],
)
@pytest.mark.parametrize("counted", [True, False])
def test_the_row_of_all_position_ids_is_named(row, words, counted):
    def fn(mask):
        one = mask[row(mask)]
        at = np.cumsum(one) - 1 if counted else np.arange(one.size) - np.argmax(one)
        return np.broadcast_to(np.maximum(at, 0), mask.shape).copy()

    (found,) = check(fn, None, "position_ids").findings
    assert words in found.message
    assert "Do so for every row on its own." in found.remedy
