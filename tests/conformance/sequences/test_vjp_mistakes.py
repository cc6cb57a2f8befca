"""Gradients that are made from x, or that leave tokens out, are named."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

ROPE = RoPE(16, layout="half")


def back(x, positions):
    return ROPE.apply(x, -np.asarray(positions))


def without_last(x, positions, dy):
    dx = np.array(back(dy, positions))
    if dx.shape[2] > 1:
        dx[:, :, -1] = 0
    return dx


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda x, positions, dy: back(x, positions), "x is rotated by -angle, in place of dy"),
        (lambda x, positions, dy: ROPE.apply(x, positions),
         "x is rotated by +angle, as in the forward pass: dy is not used"),
        (without_last, "the gradient of the last token of a call of several is 0"),
    ],
)  # fmt: skip
def test_a_wrong_gradient_is_named(fn, words):
    (finding,) = check(fn, ROPE, "apply_vjp").findings
    assert finding.message == words
    assert "gradient" in finding.remedy


def test_a_right_gradient_conforms():
    assert not check(lambda x, positions, dy: back(dy, positions), ROPE, "apply_vjp").codes
