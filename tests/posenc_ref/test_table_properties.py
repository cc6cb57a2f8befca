"""What tables declare holds, and what they do not declare does not."""

import numpy as np
import pytest

from posenc_ref import (
    AxialLearned,
    BoxSine,
    DETRSine,
    FourierFeatures,
    Hybrid,
    Learned,
    Sinusoidal,
    Sinusoidal2D,
    Sinusoidal3D,
    StandardizedSinusoidal,
    Time2Vec,
)
from posenc_ref.accuracy import Truth, budget

RNG = np.random.default_rng(6)
WEIGHT = RNG.standard_normal((64, 6))
TABLES = [
    Sinusoidal(8),
    Sinusoidal(9, odd="zero-pad", scale=0.5),
    Sinusoidal(9, odd="extra-sin"),
    Sinusoidal2D(8, layout="grouped"),
    Sinusoidal3D((4, 4, 2)),
    DETRSine(8),
    BoxSine(8, axes="xy", axis_order="yx"),
    StandardizedSinusoidal(8, 12),
    FourierFeatures(RNG.standard_normal((4, 2)), unit="radian"),
    FourierFeatures(RNG.standard_normal((4, 2)), unit="radian", include_input=True),
    Time2Vec(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 0.125])),
    Learned(WEIGHT),
    AxialLearned((WEIGHT, WEIGHT)),
    Hybrid((Sinusoidal(4), Sinusoidal(6, layout="concat")), combine="concat"),
    Hybrid((Sinusoidal(6), Sinusoidal(6, layout="concat"))),
    Hybrid((Sinusoidal(6), Learned(WEIGHT)), combine="concat"),
]
SHIFT = 7


def rows(encoding):
    """20 positions, and the same ones shifted on every axis."""
    count = (encoding.num_axes, 20)
    p = np.random.default_rng(7).integers(0, 40 if encoding.integers else 20000, count)
    p = p[0] if encoding.num_axes == 1 else p
    return encoding.table(p), encoding.table(p + SHIFT)


def same(actual, want, size):
    truth = Truth(want, np.full((), float(size)), np.zeros(()), np.full((), float(size)))
    return truth.score(actual, angles="exact").max() <= budget("float64")


def constant_norm(one, two):
    norms = np.sum(np.concatenate([one, two]) ** 2, axis=1)
    return same(norms, np.full_like(norms, norms[0]), 10 * norms[0])


def relative_gram(one, two):
    return same(two @ two.T, one @ one.T, 10 * np.abs(one @ one.T).max())


def linear_shift(one, two):
    """The best matrix that leads from 20 rows to their shifted ones leaves nothing over."""
    matrix, *_ = np.linalg.lstsq(one, two, rcond=None)
    condition = np.abs(np.linalg.pinv(one)).sum() * np.abs(one).sum()
    return same(one @ matrix, two, condition)


CHECKS = {
    "constant-norm": constant_norm,
    "relative-gram": relative_gram,
    "linear-shift": linear_shift,
}


@pytest.mark.parametrize("encoding", TABLES, ids=repr)
@pytest.mark.parametrize("name", CHECKS)
def test_a_property_is_declared_exactly_where_it_holds(encoding, name):
    assert CHECKS[name](*rows(encoding)) == (name in encoding.properties)


def test_no_table_declares_decay():
    assert not any("decay" in name for e in TABLES for name in e.properties)
    gram = Sinusoidal(64).table(range(30)) @ Sinusoidal(64).table([0])[0]
    assert (np.diff(gram) > 0).any()
