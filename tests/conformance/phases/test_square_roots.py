"""Sines and cosines that are square roots of one another."""

import numpy as np
import pytest

from posenc_ref import RoPE
from posenc_ref.conformance import check

HALF = RoPE(32, layout="half")
PAIRS = 10000.0 ** (-np.arange(16) / 16)
ONE = np.float32(1)


def rotated(x, positions, tables):
    angle = np.asarray(positions, np.float64)[..., None] * PAIRS
    cos, sin = (t.astype(x.dtype) for t in tables(angle))
    cos, sin = (t[:, None] if t.ndim == 3 else t for t in (cos, sin))
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def of_cos(angle):
    cos = np.cos(angle).astype(np.float32)
    return cos, np.copysign(np.sqrt(ONE - cos * cos), np.sin(angle))


def of_factors(angle):
    cos = np.cos(angle).astype(np.float32)
    return cos, np.copysign(np.sqrt((ONE - cos) * (ONE + cos)), np.sin(angle))


def of_sin(angle):
    sin = np.sin(angle).astype(np.float32)
    return np.copysign(np.sqrt(ONE - sin * sin), np.cos(angle)), sin


def of_double_angle(angle):
    angle = angle.astype(np.float32)
    half = (1 - np.cos(2 * angle)) / 2
    return np.cos(angle), np.copysign(np.sqrt(half), np.sin(angle))


ROOTS = {
    of_cos: "sin is sqrt(1 - cos ** 2) in float32: it is off by up to",
    of_factors: "sin is sqrt((1 - cos) (1 + cos)) in float32: it is off by up to",
    of_sin: "cos is sqrt(1 - sin ** 2) in float32: it is off by up to",
    of_double_angle: "and its square is right to rounding; cos is right: consistent with a square",
}


@pytest.mark.parametrize("tables", ROOTS, ids=lambda tables: tables.__name__)
def test_the_root_is_named(tables):
    finding = check(lambda x, p: rotated(x, p, tables), HALF, "apply").findings[0]
    assert finding.code == "table-precision"
    assert ROOTS[tables] in finding.message


def test_a_root_in_float64_conforms():
    def tables(angle):
        cos = np.cos(angle)
        return cos, np.copysign(np.sqrt(1 - cos * cos), np.sin(angle))

    assert check(lambda x, p: rotated(x, p, tables), HALF, "apply").verdict == "conforms"
