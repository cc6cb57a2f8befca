"""Zeros at position 0, and factors that are a power of the width, are named as such."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check
from tests.conformance.handwritten import HEAD_DIM, rope

HALF = RoPE(HEAD_DIM, layout="half")


def test_zeros_at_position_0_are_named():
    def masked(y, p):
        return np.where((p == 0)[..., None] if p.ndim == 1 else (p == 0)[:, None, :, None], 0, y)

    (found,) = check(rope(after=masked), HALF, "apply").findings
    assert found.code == "not-a-rotation"
    assert found.message == "every token at position 0 is returned as zeros; the others are right"


@pytest.mark.parametrize(
    ("factor", "text"), [(HEAD_DIM**-0.5, "0.353553 = 1/sqrt(8)"), (0.3, "0.3")]
)
def test_a_power_of_the_width_is_named(factor, text):
    (found,) = check(rope(after=lambda y, p: np.float32(factor) * y), HALF, "apply").findings
    assert found.code == "amplitude"
    assert found.message == f"cos and sin are multiplied by {text}, declared 1"
