"""Calls that are computed in another way because of their positions on several axes."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.conformance import check

TWO = MultiAxisRoPE(16, sections=[4, 4], layout="half", base=100.0)
THREE = MultiAxisRoPE(24, sections=[4, 4, 4], layout="half", base=5000.0)


def shortcut(encoding, where, other):
    """Return a function that uses ``other(positions)`` where ``where(positions)`` is true."""

    def fn(x, positions):
        p = np.broadcast_to(positions, (len(positions), x.shape[0], x.shape[2]))
        return encoding.apply(x, np.where(where(p), other(p), p))

    return fn


@pytest.mark.parametrize(
    ("encoding", "where", "other", "message"),
    [
        (THREE, lambda p: (p[1] == p[2]).all(axis=-1, keepdims=True), lambda p: p[1:2],
         "the position on axis 1 is used on every axis, in batch rows with the same position on "
         "axes 1 and 2"),
        (THREE, lambda p: (p[0, 0, 0] == 0), lambda p: p[1:2],
         "the position on axis 1 is used on every axis, in calls whose first token has position 0 "
         "on axis 0"),
        (THREE, lambda p: p[0].max() == p[2].max(), lambda p: p[[0, 1, 0]],
         "the position on axis 0 is used on axis 2 too, in calls with the same largest position on "
         "axes 0 and 2"),
        (THREE, lambda p: (p[:, 0] == p[:1, 0]).all(), lambda p: p[:1],
         "the position on axis 0 is used on every axis, in calls whose row 0 has the same position "
         "on all axes"),
        (THREE, lambda p: (p[:, -1] == p[:1, -1]).all(), lambda p: p[:1],
         "the position on axis 0 is used on every axis, in calls whose last row has the same "
         "position on all axes"),
        (TWO, lambda p: p[1, :, :1] == 0, lambda p: 0 * p,
         "nothing is rotated, in batch rows whose first token has position 0 on axis 1"),
        (TWO, lambda p: p[0, :, -1:] == 0, lambda p: 0 * p,
         "nothing is rotated, in batch rows whose last token has position 0 on axis 0"),
        (TWO, lambda p: (np.diff(p[0]) == 1).all() and p.shape[-1] > 1,
         lambda p: np.arange(p.shape[-1]),
         "the index in the call is used on every axis, in calls with consecutive positions on "
         "axis 0"),
        (TWO, lambda p: (np.diff(p) == 1).all() and p.shape[-1] > 1,
         lambda p: np.arange(p.shape[-1]),
         "the index in the call is used on every axis, in calls with consecutive positions on "
         "all axes"),
    ],
)  # fmt: skip
def test_positions_decide_how_a_call_is_computed(encoding, where, other, message):
    (found,) = check(shortcut(encoding, where, other), encoding, "apply").findings
    assert found.message == message
    assert "further calls agree" in found.evidence
    assert "do not choose the computation by the positions" in found.remedy


def test_text_whose_axes_are_equal_may_be_computed_in_another_way():
    def fn(x, positions):
        p = np.broadcast_to(positions, (3, x.shape[0], x.shape[2]))
        return THREE.apply(x, p[:1].repeat(3, axis=0) if (p == p[0]).all() else p)

    assert check(fn, THREE, "apply").verdict == "conforms"


def test_positions_without_gaps_are_replaced_by_the_index():
    encoding = RoPE(16, layout="half")

    def fn(x, positions):
        p, index = np.asarray(positions), np.arange(x.shape[2])
        near = (np.diff(p) == 1).all() and index.size > 1
        return encoding.apply(x, 0 * p + index if near else p)

    (found,) = check(fn, encoding, "apply").findings
    assert found.message == (
        "the position used is the index in the call, where the length of the call is at least 2 "
        "and the number of gaps in the positions is 0"
    )
