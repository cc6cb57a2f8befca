"""check_recorded: recordings with several axes of positions, and their sections."""

import numpy as np
import pytest

from posenc_ref import MixedRoPE, MultiAxisRoPE
from posenc_ref.conformance import check_recorded
from tests.conformance.handwritten import inv_freq
from tests.conformance.recordings.test_judge import DIM, P, draw

MROPE = MultiAxisRoPE(DIM, layout="half", sections=(4, 6, 6))
GRID = np.stack(
    [
        np.r_[P[:10], np.full(40, 10), P[18:28]],
        np.r_[P[:10], 10 + np.repeat(P[:5], 8), P[18:28]],
        np.r_[P[:10], 10 + np.tile(P[:8], 5), P[18:28]],
    ]
)[:, None]


def multimodal(axes, positions=None, base=10000.0):
    """Return an ``apply`` for positions (3, B, S); pair k follows axis ``axes[k]``."""

    def apply(x, p):
        p = p if positions is None else positions(p)
        cos, sin = (
            np.stack([f(p[a] * w) for a, w in zip(axes, inv_freq(DIM, base), strict=True)], -1)
            for f in (np.cos, np.sin)
        )
        x1, x2 = np.split(x, 2, axis=-1)
        cos, sin = cos[:, None].astype(np.float32), sin[:, None].astype(np.float32)
        return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)

    return apply


CHUNKED = np.repeat([0, 1, 2], [4, 6, 6])


@pytest.mark.parametrize(
    ("apply", "code", "words"),
    [
        (multimodal(CHUNKED), None, ""),
        (multimodal(np.repeat([0, 2, 1], [4, 6, 6])), "axis-order", "(0, 2, 1)"),
        (multimodal(np.repeat([0, 1, 2], [6, 4, 6])), "sections", "chunked (6, 4, 6)"),
        (multimodal(0 * CHUNKED), "sections", "every pair follows axis 0"),
        (multimodal(CHUNKED, base=5e5), "base", "the base is 500000"),
        (multimodal(CHUNKED, lambda p: 0 * p + P), "decode-offset", "on every axis"),
    ],
)
def test_positions_of_three_axes(apply, code, words):
    x = draw(1, 2, 60, DIM)
    report = check_recorded(x, apply(x, GRID), GRID, MROPE)
    assert report.codes[:1] == ([code] if code else []), report
    assert not code or words in report.findings[0].message


def test_pairs_that_follow_all_axes():
    weight = np.random.default_rng(2).standard_normal((2, DIM // 2))
    x, at = draw(1, 2, 60, DIM), np.stack([P // 6, P % 6])
    angle = at.T @ weight
    x1, x2 = np.split(x, 2, axis=-1)
    cos, sin = np.cos(angle), np.sin(angle)
    y = np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).astype(np.float32)
    encoding = MixedRoPE(DIM, weight, layout="half")
    assert check_recorded(x, y, at, encoding).verdict == "conforms"
    assert check_recorded(x, y, at[::-1], encoding).codes == ["axis-order"]
    assert check_recorded(x, y, at, encoding.replace(weight=2 * weight)).codes == ["inaccurate"]


def test_text_positions_say_nothing_about_sections():
    x, text = draw(1, 2, 60, DIM), np.broadcast_to(P, (3, 1, 60))
    report = check_recorded(x, multimodal(0 * CHUNKED)(x, text), text, MROPE)
    assert report.verdict == "conforms"
    assert any("text only" in limit for limit in report.limits)
