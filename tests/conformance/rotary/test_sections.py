"""Pairs that follow other position axes than declared are listed with their axes."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance import check

M = MultiAxisRoPE(32, sections=(4, 6, 6), layout="half")


def by_axes(axes):
    """Return a function whose pair k turns by the position on ``axes[k]``."""
    w = 10000.0 ** (-np.arange(16) / 16)

    def fn(x, positions):
        p = np.asarray(positions)
        p = p if p.ndim > 1 else np.broadcast_to(p, (3, p.size))
        angle = np.moveaxis(p[np.array(axes)], 0, -1) * w
        angle = angle[:, None] if angle.ndim == 3 else angle
        a, b = np.split(x.astype(np.float64), 2, axis=-1)
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)

    return fn


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ([0] * 6 + [1] * 5 + [2] * 5, "sections are chunked (6, 5, 5), declared chunked (4, 6, 6)"),
        (
            [0] * 5 + [2] * 6 + [1] * 5,
            "sections are chunked: 5 pairs of axis 0, 6 pairs of axis 2, 5 pairs of axis 1; "
            "declared chunked (4, 6, 6)",
        ),
        (
            [0] * 4 + [1] * 3 + [2] + [1] * 2 + [2] * 5 + [0],
            "pairs follow other axes than declared: pair 7 follows axis 2, not axis 1; pair 15 "
            "follows axis 0, not axis 2",
        ),
    ],
)
def test_pairs_and_axes_are_named(axes, message):
    assert check(by_axes(axes), M, "apply").findings[0].message == message


def test_the_channels_of_a_pair_follow_different_axes():
    """A table of both halves is split by sections that were doubled."""
    w, of_channel = np.tile(10000.0 ** (-np.arange(16) / 16), 2), np.repeat([0, 1, 2], [8, 12, 12])

    def fn(x, positions):
        p = np.broadcast_to(positions, (3, x.shape[0], x.shape[2]))
        angle = (np.moveaxis(p[of_channel], 0, -1) * w)[:, None]
        other = np.concatenate([-x[..., 16:], x[..., :16]], axis=-1)
        return (x * np.cos(angle) + other * np.sin(angle)).astype(x.dtype)

    found = check(fn, M, "apply").findings[0]
    assert found.code == "sections"
    assert found.message.startswith("the two channels of a pair follow different axes: the first")
