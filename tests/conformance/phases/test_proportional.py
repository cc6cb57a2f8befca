"""Angles that are not proportional to the position, and positions held in short integers."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

THETA = 10000.0 ** (-np.arange(16) / 16)


def first(positions):
    """Return the first finding about cos and sin at changed positions."""

    def fn(p):
        angle = positions(np.asarray(p, np.int64))[..., None] * THETA
        return tuple(np.tile(t, 2).astype(np.float32) for t in (np.cos(angle), np.sin(angle)))

    return check(fn, RoPE(32, layout="half"), "cos_sin").findings[0]


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (lambda p: p + p**2 / 1e6, "the angles are those of p + p ** 2 / 1000000, "),
        (lambda p: p - p**2 / 3e5, "the angles are those of p - p ** 2 / 300000, "),
        (lambda p: p**1.00001, "the angles are not proportional to the position"),
        (lambda p: p * 1.00002, "every frequency is 1.00002 times the declared one"),
    ],
)
def test_a_factor_is_named_only_if_angles_are_proportional_to_the_position(positions, message):
    assert first(positions).message.startswith(message)


@pytest.mark.parametrize(
    ("positions", "message", "remedy"),
    [
        (lambda p: p.astype(np.int8), "wrap round modulo 256, as int8 does", "up to 127"),
        pytest.param(lambda p: p.astype(np.int16), "wrap round modulo 65536, as int16 does",
                     "up to 32767", marks=pytest.mark.nightly),
        pytest.param(lambda p: p.astype(np.uint16), "wrap round modulo 65536, as uint16 does",
                     "up to 65535", marks=pytest.mark.nightly),
        pytest.param(lambda p: np.where(p < 32768, p, p - 65536),
                     "positions from 32768 on are used minus 65536, as int16 does up to 98303",
                     "up to 32767", marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_the_integers_that_wrap_round_are_told_apart(positions, message, remedy):
    found = first(positions)
    assert message in found.message
    assert remedy in found.remedy
