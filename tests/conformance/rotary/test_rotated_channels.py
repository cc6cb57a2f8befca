"""A message about rotated channels lists exactly those that are rotated."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from posenc_ref.conformance.check import check_reduced
from posenc_ref.conformance.rotary.several.slices import _span

HALF = RoPE(16, layout="half", rotary_dim=8)


@pytest.mark.parametrize(
    ("channels", "text"),
    [
        (range(8), "0..7"),
        ({4}, "4"),
        ((), "none"),
        ([*range(31), *range(32, 63)], "0-30, 32-62"),
        (range(0, 20, 2), "0, 2, 4, 6, 8, 10, ..."),
    ],
)
def test_channels_between_that_are_left_out_are_not_listed(channels, text):
    assert _span(channels) == text


def test_the_last_channels_are_others_than_the_first():
    def last(x, p):
        return np.concatenate([x[..., :8], RoPE(8, layout="half").apply(x[..., 8:], p)], -1)

    (finding,) = check_reduced(last, HALF, "apply").findings
    assert "8 other channels are rotated (8..15), declared 8 (0..7) of 16" in str(finding)


@pytest.mark.parametrize(
    ("base", "words"),
    [
        (10000.0**2, "; pair k turns by 10000 ** (-2k/8), as declared, up to k = 7"),
        (10000.0, "channels passed through: 0"),
    ],
)
def test_more_pairs_that_turn_by_the_declared_formula(base, words):
    """The base of all 16 channels that gives the same frequencies was said to be wrong."""
    every = RoPE(16, layout="half", base=base)
    (finding,) = check_reduced(every.apply, HALF, "apply").findings
    assert finding.code == "rotary-dim"
    assert finding.evidence.endswith(words)
    assert "Rotate the declared pairs: channel k with channel k + 4." in finding.remedy


@pytest.mark.parametrize(("cut", "how"), [(np.floor, "down"), (np.rint, "to the nearest step")])
def test_pairs_that_turn_at_farther_positions_only_are_rotated(cut, how):
    """An array of angles with the dtype of the positions: slow pairs turn after 1000 positions."""

    def fn(x, positions):
        angle = cut(positions[..., None] * RoPE(64, layout="half").frequencies())
        cos, sin = (f(angle if angle.ndim == 2 else angle[:, None]) for f in (np.cos, np.sin))
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)

    (finding,) = check(fn, RoPE(64, layout="half"), "apply").findings
    assert finding.message == (
        f"angles are rounded {how}, in steps of 1 rad, without interpolation"
    )
