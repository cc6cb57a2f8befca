"""The search for the first difference, against every position in turn."""

import numpy as np
import pytest

from posenc_ref import DynamicNTK, RoPE
from posenc_ref.conformance.configurations.effect import Scored, effect

FIRST = 4096


def cos_sin(factor, p):
    """The frequencies of a call of p + 1 tokens (Hugging Face's dynamic NTK), at position p."""
    alpha = factor * (p + 1) / FIRST - (factor - 1)
    k = np.arange(16)
    angle = p * (10000.0 * alpha ** (32 / 30)) ** (-k / 16)
    return np.concatenate([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize("other", [2.0003, 2.001])
def test_a_late_difference_is_found_within_one_percent(other):
    ropes = [RoPE(32, layout="half", scaling=DynamicNTK(f, FIRST)) for f in (2.0, other)]
    found = effect(Scored(ropes[0]), Scored(ropes[1]), 32, (16384,))
    gap = (
        (p, np.abs(cos_sin(2.0, p) - cos_sin(other, p)).max() > 2**-9) for p in range(FIRST, 16384)
    )
    exact = next(p for p, apart in gap if apart)
    assert exact > 1.005 * FIRST  # or the first one tried would do
    assert exact <= found.first <= 1.01 * exact + 1
    assert "positions 1 % apart" in found.tried
