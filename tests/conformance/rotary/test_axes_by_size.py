"""Positions along an axis that is found by its length, where another one is as long."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

HALF = RoPE(16, layout="half")


def turned(x, positions, axis):
    """Rotate x by positions (S,) along an axis of (B, H, S)."""
    p = np.asarray(positions)
    if p.ndim == 2:
        return np.asarray(HALF.apply(x, p))
    moved = np.moveaxis(x, axis, 2)
    return np.moveaxis(np.asarray(HALF.apply(np.ascontiguousarray(moved), p)), 2, axis)


def first_axis_of_this_length(x, positions):
    return turned(x, positions, list(x.shape[:3]).index(np.shape(positions)[-1]))


def heads_where_as_many(x, positions):
    return turned(x, positions, 1 if x.shape[1] == np.shape(positions)[-1] else 2)


def rows_where_as_many(x, positions):
    return turned(x, positions, 0 if x.shape[0] == np.shape(positions)[-1] else 2)


TOKENS = {
    first_axis_of_this_length: "b if S = B, h if S = H, else s (the axis of tokens is found by its "
    "length), where positions are (S,)",
    heads_where_as_many: "h, the number of the head, where the length of the call equals the "
    "number of heads and positions are (S,)",
    rows_where_as_many: "b, the number of the row, where the length of the call equals the number "
    "of batch rows and positions are (S,)",
}


@pytest.mark.parametrize("fn", TOKENS, ids=lambda fn: fn.__name__)
def test_the_axis_is_named(fn):
    finding = check(fn, HALF, "apply").findings[0]
    assert finding.code == ("position-axis" if fn is heads_where_as_many else "wrong-row")
    assert finding.message == f"the position used is the position of token {TOKENS[fn]}"
