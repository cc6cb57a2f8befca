"""Tensor layouts and positions of recordings, and what a recording cannot show."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check_recorded
from tests.conformance.handwritten import rope

DIM = 16
HALF = RoPE(DIM, layout="half")
S = 20
P = np.arange(S)
X = np.random.default_rng(0).standard_normal((2, 3, S, DIM)).astype(np.float32)
TWO = np.random.default_rng(1).standard_normal((1, S, S, DIM)).astype(np.float32)

#: From (B, H, S, D) to each layout.
WRITE = {
    "bhsd": lambda x: x,
    "bshd": lambda x: x.transpose(0, 2, 1, 3),
    "sbhd": lambda x: x.transpose(2, 0, 1, 3),
    "bs(hd)": lambda x: x.transpose(0, 2, 1, 3).reshape(len(x), S, -1),
    "thd": lambda x: x[0].transpose(1, 0, 2),
    "hsd": lambda x: x[0],
    "t(hd)": lambda x: x[0].transpose(1, 0, 2).reshape(S, -1),
}


@pytest.mark.parametrize("layout", WRITE)
@pytest.mark.parametrize("positions", [P, None])
def test_the_tensor_layout_is_found(layout, positions):
    write = WRITE[layout]
    right, wrong = (rope(base=base)(X, P) for base in (1e4, 5e5))
    assert check_recorded(write(X), write(right), positions, HALF).verdict == "conforms"
    assert check_recorded(write(X), write(wrong), positions, HALF).codes == ["base"]


@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_equal_sizes_are_read_as_the_rotation_fits(layout):
    write = WRITE[layout]
    for base, codes in ((1e4, []), (5e5, ["base"])):
        y = rope(base=base)(TWO, P)
        report = check_recorded(write(TWO), write(y), P, HALF)
        assert report.codes == codes
        assert any(f"read as {layout}, which fits best" in text for text in report.limits)


def test_a_given_layout_is_not_changed():
    y = rope()(TWO, P)
    write = WRITE["bshd"]
    given = check_recorded(write(TWO), write(y), P, HALF, tensor_layout="bhsd")
    assert given.codes == ["position-axis"]
    assert not any("fits best" in text for text in given.limits)


@pytest.mark.parametrize("positions", [P + 5, np.tile(P + 5, (2, 1)), P[None] + 5, np.array(5)])
def test_forms_of_positions(positions):
    assert check_recorded(X, rope()(X, P + 5), positions, HALF).verdict == "conforms"
    assert check_recorded(X, rope()(X, P), positions, HALF).codes == ["decode-offset"]


def test_tokens_of_all_sequences_have_their_own_positions():
    packed = np.r_[P[:7], P[:13]]
    x, y = (WRITE["thd"](t) for t in (X, rope()(X, packed)))
    assert check_recorded(x, y, packed, HALF).verdict == "conforms"
    assert check_recorded(x, y, P, HALF).verdict == "deviates"


@pytest.mark.parametrize(
    ("before", "after", "positions", "words"),
    [
        (X, X[:, :1], P, "the same shape, got"),
        (X[..., :8], X[..., :8], P, r"no tensor layout fits the shapes .* and head_dim 16"),
        (X, X, P[:7], r"q_before \(2, 3, 20, 16\).*positions \(7,\).*\(S,\), \(B, S\) or one"),
        (X.astype(int), X.astype(int), P, "must have a floating dtype, got int64"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(before, after, positions, words):
    with pytest.raises(ValueError, match=words):
        check_recorded(before, after, positions, HALF)
    with pytest.raises(ValueError, match="tensor_layout must be one of bhsd, "):
        check_recorded(X, X, P, HALF, tensor_layout="dshb")


@pytest.mark.parametrize(
    ("before", "positions", "words"),
    [
        (X, 0 * P, "changes no element by more than the tolerance"),
        (0 * X, P, "every input is 0 or not finite"),
        (X * np.nan, P, "every input is 0 or not finite"),
    ],
)
def test_what_shows_no_rotation_is_inconclusive(before, positions, words):
    report = check_recorded(before, before.copy(), positions, HALF)
    assert report.verdict == "inconclusive"
    assert report.exit_code == 3
    assert any(words in text for text in report.limits)


def test_tokens_without_a_finite_input_are_left_out():
    x, y = X.copy(), rope()(X, P)
    x[0, :, 3], y[0, :, 3] = np.nan, 1.0
    report = check_recorded(x, y, P, HALF)
    assert report.verdict == "conforms"
    assert any("1 of 40 tokens" in text for text in report.limits)
    x[0, :, 4] = 0  # its result must be 0
    assert check_recorded(x, y, P, HALF).verdict == "deviates"


def test_limits_say_what_is_unknown():
    def limits(x, positions, base=1e4):
        return " ".join(
            check_recorded(x, rope(base=base)(x, P * 0 + positions), positions, HALF).limits
        )

    one = check_recorded(X, rope()(X, P * 0 + 40), P * 0 + 40, HALF).limits
    assert any("every token has position 40" in text for text in one)
    four = check_recorded(X, rope()(X, 4 * P), 4 * P, HALF).limits
    assert any("multiples of 2 pi / 4 " in text for text in four)
    none = check_recorded(X, rope()(X, P), None, HALF).limits
    assert any("0, 1, 2, ... assumed" in text for text in none)
    assert any("only q was recorded before and after the rotation: k" in text for text in none)
    half = X.astype(np.float16)
    slow = check_recorded(half, rope()(half, P), P, HALF).limits
    assert any("slow pairs (from pair" in text for text in slow)
