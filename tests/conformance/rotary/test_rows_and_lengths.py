"""Rows rotated by the positions of another row, and frequencies for the length of another row."""

import numpy as np
import pytest

from posenc_ref import LongRoPE, RoPE
from posenc_ref.conformance import check

SCALING = LongRoPE(tuple(np.linspace(1, 3, 16)), tuple(np.linspace(1, 60, 16)), 4096, factor=32.0)
ENCODING = RoPE(32, layout="half", scaling=SCALING)


def rotated(x, positions, largest):
    """Return x (B, H, S, 32) at positions (S,) or (B, S), with the frequencies of a length."""
    length = int(largest.max()) + 1 if largest.size else 1
    angle = positions[..., :, None] * ENCODING.frequencies(length)
    if angle.ndim > 2:
        angle = angle[:, None]
    factor = ENCODING.attention_factor(length)
    cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
    first, last = np.split(x.astype(float), 2, axis=-1)
    return np.concatenate([first * cos - last * sin, last * cos + first * sin], -1).astype(x.dtype)


def of_first_row(x, positions):
    """OmniGen's table in diffusers: `emb[0]` for all rows of the batch."""
    row = positions[0] if positions.ndim > 1 else positions
    return rotated(x, row, positions)


def for_length_of_first_row(x, positions):
    row = positions[0] if positions.ndim > 1 else positions
    return rotated(x, positions, row)


def right(x, positions):
    return rotated(x, positions, positions)


@pytest.mark.parametrize(
    ("call", "codes"),
    [(of_first_row, ["row-offset"]), (for_length_of_first_row, ["scaling-formula"]), (right, [])],
)
def test_wrong_rows_are_no_wrong_length(call, codes):
    report = check(call, ENCODING, surface="apply")
    assert [f.code for f in report.findings if f.severity == "error"] == codes


def test_right_early_tokens_show_right_frequencies():
    """The last token of a long call is wrong, not in row 0 of (B, S): no rule of lengths is."""
    scaling = LongRoPE((1.0, 1.05, 1.2, 1.5), (1.0, 3.0, 8.0, 20.0), 64, factor=32)
    encoding = RoPE(8, layout="half", scaling=scaling)

    def clamped(x, positions):
        used = positions.copy()
        later = used[1:] if used.ndim > 1 else used
        later[:] = np.minimum(later, 511)
        y = encoding.apply(x, used, seq_len=int(positions.max(initial=0)) + 1)
        return y.astype(x.dtype)

    (found,) = (f for f in check(clamped, encoding, "apply").findings if f.severity == "error")
    assert found.code == "wrong-row"
    assert "the last token of some calls is wrong" in found.message
    assert "so the frequencies are too" in found.message
