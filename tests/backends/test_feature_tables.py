"""Feature tables on each declared library, device and dtype."""

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
    resize_table,
)
from posenc_ref.accuracy import Truth, budget

RNG = np.random.default_rng(12)
# Multiples of 1/64 with seven bits: exact in every dtype.
ROWS, COLUMNS = (RNG.integers(-127, 128, (n, 8)) / 64 for n in (9, 7))
PLACES = np.array([[0, 3, 8, 5], [6, 0, 2, 1]])
GAUSS = RNG.integers(-127, 128, (4, 2)) / 64

TABLES = {
    "Sinusoidal2D": (Sinusoidal2D(16, layout="grouped", axis_order="wh"), PLACES),
    "Sinusoidal3D": (Sinusoidal3D((4, 6, 6)), np.stack([*PLACES, PLACES[0]])),
    "DETRSine": (DETRSine(16), PLACES),
    "BoxSine": (BoxSine(16, base=20.0), np.concatenate([PLACES, PLACES[::-1]])),
    "StandardizedSinusoidal": (StandardizedSinusoidal(8, 9), PLACES[0]),
    "FourierFeatures": (FourierFeatures(GAUSS, unit="turn", include_input=True), PLACES),
    "FourierFeatures, one axis": (FourierFeatures(GAUSS[:, :1], unit="radian"), PLACES[0]),
    "Time2Vec": (Time2Vec(ROWS[0], ROWS[1]), PLACES[0]),
}
LEARNED = {
    "AxialLearned": (lambda a, b: AxialLearned((a, b)), PLACES),
    "AxialLearned, sum": (lambda a, b: AxialLearned((a, b), combine="sum"), PLACES),
    "AxialLearned, flat": (
        lambda a, b: AxialLearned((a, b), flat=True), PLACES[0] * 7 + PLACES[1],
    ),
    "Hybrid": (lambda a, b: Hybrid((Learned(a), Sinusoidal(8))), PLACES[0]),
    "Hybrid, beside": (
        lambda a, b: Hybrid((Sinusoidal(6), Learned(a)), combine="concat"), PLACES[0],
    ),
}  # fmt: skip


def fits(place, truth, result, dtype=None):
    """Assert that the error is within the tolerance of the dtype; a learned table is exact."""
    dtype = dtype or place.dtype
    got = place.at_home(result, dtype)
    assert truth.score(got.astype(np.float64), dtype=dtype).max(initial=0) <= budget(dtype)


@pytest.mark.parametrize("name", TABLES)
def test_tables(place, name):
    encoding, positions = TABLES[name]
    truth = encoding.truth(positions)
    for dtype in dict.fromkeys((None, place.dtype)):
        kind = dtype or place.working
        fits(place, truth, encoding.table(place.integers(positions), dtype=dtype), kind)
        there = {"xp": place.module, "device": place.home}
        fits(place, truth, encoding.table(positions, dtype=dtype, **there), kind)
    x = np.zeros((2, 4, encoding.dim))
    for where in place.ways(positions):
        y = place.at_home(encoding.add(place.array(x), where))
        assert truth.score(y[1].astype(np.float64), dtype=place.dtype).max() <= budget(place.dtype)
        assert (y[0] == y[1]).all()


@pytest.mark.parametrize("name", LEARNED)
def test_learned_tables(place, name):
    make, positions = LEARNED[name]
    truth = make(ROWS, COLUMNS).truth(positions)
    encoding = make(place.array(ROWS), place.array(COLUMNS))
    for where in place.ways(positions):
        fits(place, truth, encoding.table(where, dtype=place.dtype))
        fits(place, truth, encoding.add(place.array(np.zeros((4, encoding.dim))), where))


@pytest.mark.parametrize("dtype", ["bool", "int64", "own"])
def test_positions_of_a_mask(place, dtype):
    """Positions count the valid pixels of a row or column; they are 0 if all are padding."""
    valid = np.arange(4)[:, None] < np.array([[3, 4, 0, 2, 1], [4, 4, 4, 4, 4]])[:, None]
    encoding = DETRSine(8, scale=3.0, shift=-0.5, eps=0.0)
    want = np.zeros((2, *valid.shape))
    for b, h, w in np.ndindex(valid.shape):
        for axis, line, at in ((0, valid[b, :, w], h), (1, valid[b, h], w)):
            if line.any():
                want[axis, b, h, w] = 3.0 * (sum(line[: at + 1]) - 0.5) / sum(line)
    mask = place.array(valid) if dtype == "own" else place.integers(valid)
    mask = mask == 1 if dtype == "bool" else mask
    found = encoding.positions(mask)
    fits(place, Truth(want, np.abs(want), np.zeros(())), found, place.working)
    fits(place, encoding.truth(want), encoding.table(found, dtype=place.dtype))
    assert (encoding.positions(valid.tolist()) == encoding.positions(valid)).all()


def test_resized(place, rng):
    """Bilinear halving gives the means of four pixels, which these numbers represent exactly."""
    weight = rng.integers(-31, 32, (1 + 4 * 6, 3)) / 32
    new = resize_table(place.array(weight), (4, 6), (2, 3), kept=1, mode="bilinear")
    got = place.at_home(new)
    means = weight[1:].reshape(2, 2, 3, 2, 3).mean(axis=(1, 3)).reshape(-1, 3)
    rounded = place.host(place.array(np.concatenate([weight[:1], means])))
    assert (got == rounded).all()
