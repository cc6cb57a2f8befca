"""The factor m on cos and sin, which no encoding sets yet: a rotary form made for this test."""

from dataclasses import dataclass

import numpy as np
import pytest

from posenc_ref import Rotary
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.schedules.scaling import standard_schedule

M = 1.25
SLACK = BUDGET["float64"] * ROUNDOFF["float64"]


@dataclass(frozen=True, eq=False, repr=False)
class Scaled(Rotary):
    """Half-split pairs with m = 1.25."""

    head_dim: int
    sign: int = 1

    def pairs(self):
        k = np.arange(self.head_dim // 2)
        return k, k + self.head_dim // 2

    def decimal_frequencies(self, seq_len=None):
        return standard_schedule(10000.0, self.head_dim)

    def attention_factor(self, seq_len=None):
        return M


ROPE = Scaled(8)
AT = np.arange(5) + 3
X = np.random.default_rng(0).standard_normal((2, 3, 5, 8))


def rotated(x, positions, m):
    angle = positions[:, None] * 10000.0 ** (-np.arange(4) / 4)
    z = (x[..., :4] + 1j * x[..., 4:]) * m * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag], -1)


def near(actual, expected):
    assert np.abs(actual - expected).max() <= SLACK * np.abs(X).max()


def test_apply_multiplies_once():
    near(ROPE.apply(X, AT), rotated(X, AT, M))


def test_inverse_divides_once():
    near(ROPE.inverse(ROPE.apply(X, AT), AT), X)
    near(ROPE.inverse(X, AT), rotated(X, -AT, 1 / M))


def test_shift_keeps_the_factor_once():
    near(ROPE.shift(ROPE.apply(X, AT), 7), rotated(X, AT + 7, M))


def test_cos_sin_and_matrix_carry_it():
    cos, sin = ROPE.cos_sin(AT)
    near(np.hypot(cos, sin), np.full(cos.shape, M))
    near(ROPE.matrix(3) @ X[0, 0, 0], rotated(X[0, 0, :1], AT[:1], M)[0])


@pytest.mark.parametrize("dtype", [np.int64, "int32", bool])
def test_results_are_floating(dtype):
    with pytest.raises(TypeError, match=r"^dtype must be one of float64, float32"):
        ROPE.cos_sin(AT, dtype=dtype)
