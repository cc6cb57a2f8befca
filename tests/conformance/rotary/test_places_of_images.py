"""Places in an image that are counted from the tokens, and calls that are taken for text."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE
from posenc_ref.conformance import check

TWO = MultiAxisRoPE(16, sections=(4, 4), layout="half")
THREE = MultiAxisRoPE(16, sections=(2, 3, 3), layout="half")


def turned(x, positions, encoding):
    p = np.asarray(positions)
    p = np.broadcast_to(p, (encoding.num_axes, p.size)) if p.ndim == 1 else p
    p = p[:, None] if p.ndim == 2 else p
    p = np.broadcast_to(p, (p.shape[0], x.shape[0], p.shape[-1]))
    return p, lambda p: np.asarray(encoding.apply(x, np.ascontiguousarray(p)))


def in_a_square(x, positions):
    side, i = int(np.sqrt(x.shape[2])) or 1, np.arange(x.shape[2])
    return np.asarray(TWO.apply(x, np.stack([i // side, i % side])[:, None]))


def in_rows_of_14(x, positions):
    i = np.arange(x.shape[2])
    return np.asarray(TWO.apply(x, np.stack([i // 14, i % 14])[:, None]))


def text_by_the_first_token(x, positions):
    p, rotate = turned(x, positions, THREE)
    return rotate(np.broadcast_to(p[:1], p.shape) if (p[:, 0, 0] == p[0, 0, 0]).all() else p)


def text_by_the_first_token_of_each_row(x, positions):
    p, rotate = turned(x, positions, TWO)
    return rotate(np.where((p[..., :1] == p[:1, :, :1]).all(axis=0), p[:1], p))


def text_by_the_last_tokens(x, positions):
    p, rotate = turned(x, positions, TWO)
    return rotate(np.broadcast_to(p[:1], p.shape) if (p[..., -1] == p[:1, :, -1]).all() else p)


def second_axis_left_out_by_the_first_tokens(x, positions):
    p, rotate = turned(x, positions, TWO)
    p = np.array(p)
    if (p[0, :, 0] == p[1, :, 0]).all():
        p[1] = 0
    return rotate(p)


def text_by_the_largest_positions(x, positions):
    p, rotate = turned(x, positions, TWO)
    return rotate(np.broadcast_to(p[:1], p.shape) if p[0].max() == p[1].max() else p)


WIDE = "grid that is sqrt(S) wide, rounded down"
SAME = "has the same position on all axes"
PLACES = {
    in_a_square: f"axis 0 is the row of a {WIDE}; the position used on axis 1 is the column of a "
    f"{WIDE}",
    in_rows_of_14: "axis 0 is the index in the call // 14; the position used on axis 1 is the "
    "index in the call modulo 14",
    text_by_the_first_token: "axis 1 is the position on axis 0, where the first token of row 0 "
    f"{SAME}; the position used on axis 2 is the position on axis 0, where the first token of row "
    f"0 {SAME}",
    text_by_the_first_token_of_each_row: "axis 1 is the position on axis 0, where the first token "
    f"of the row {SAME}",
    text_by_the_last_tokens: "axis 1 is the position on axis 0, where every row's last token "
    f"{SAME}",
    second_axis_left_out_by_the_first_tokens: f"axis 1 is 0, where every row's first token {SAME}",
    text_by_the_largest_positions: "axis 1 is the position on axis 0, where the largest position "
    "is the same on all axes",
}


@pytest.mark.parametrize("fn", PLACES, ids=lambda fn: fn.__name__)
def test_the_rule_of_every_axis_is_named(fn):
    encoding = THREE if fn is text_by_the_first_token else TWO
    message = check(fn, encoding, "apply").findings[0].message
    assert message == f"the position used on {PLACES[fn]}"


def test_other_places_are_not_called_unfilled():
    def fn(x, positions):
        p, rotate = turned(x, positions, TWO)
        side, i = int(np.sqrt(x.shape[2])) or 1, np.arange(x.shape[2])
        return rotate(np.stack([i // side, i % side])[:, None] + p[..., :1])

    found = check(fn, TWO, "apply").findings[0]
    assert found.code == "wrong-row"
    assert found.message.startswith("angles are not proportional to the position")


def test_axes_whose_pairs_turn_slowly():
    """One position more turns the fastest pair of the last axis by 2e-4 only."""
    slow = MultiAxisRoPE(64, sections=(8, 12, 12), layout="half", base=1e6)

    def fn(x, positions):
        p, rotate = turned(x, positions, slow)
        return rotate(np.broadcast_to(p[:1], p.shape) if (p[..., 0] == p[:1, :, 0]).all() else p)

    [finding] = check(fn, slow, "apply").findings
    assert f"where every row's first token {SAME}" in finding.message


@pytest.mark.parametrize("right", [True, False])
def test_positions_of_text_without_axes(right):
    """Height and width of a text token equal its time; zeros in their place get a note."""

    def fn(x, positions):
        if positions.ndim == 1 and not right:
            positions = np.stack([positions, 0 * positions, 0 * positions])[:, None]
        return THREE.apply(x, positions)

    report = check(fn, THREE, "apply")
    assert report.passed
    notes = ["positions (S,) for all axes are accepted and answered wrongly: refuse them, or "
             "answer them right"]  # fmt: skip
    assert [f.message for f in report.findings] == ([] if right else notes)
