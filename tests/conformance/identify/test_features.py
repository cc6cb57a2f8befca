"""`identify` of Fourier features: sines and cosines of a linear map of real coordinates."""

import numpy as np
import pytest

from posenc_ref import FourierFeatures
from posenc_ref.conformance import identify
from tests.conformance.identify.near import near

MATRIX = np.random.default_rng(0).standard_normal((5, 2))
EXACT = {
    "perceiver, one axis": FourierFeatures(
        np.linspace(1.0, 5.0, 6)[:, None], unit="half-turn", include_input=True
    ),
    "perceiver": FourierFeatures.perceiver(5, (18, 26)),
    "nerf": FourierFeatures.nerf(4, include_input=True, unit="radian"),
    "nerf, paper": FourierFeatures.nerf(4, num_axes=2, include_input=False),
}
#: A Gaussian matrix has no short numbers, in any unit.
MEASURED = {
    "gaussian": FourierFeatures(MATRIX, unit="turn", first="cos"),
    "sam": FourierFeatures(MATRIX, unit="turn", position_scale=2.0, offset=-0.5),
}


@pytest.mark.parametrize("encoding", EXACT.values(), ids=EXACT)
def test_features_with_a_rule_are_found(encoding):
    card = identify(encoding.table, "table", axes=encoding.num_axes)
    assert isinstance(card.encoding, FourierFeatures), card
    assert near(card.encoding.matrix, encoding.matrix), card
    assert card.encoding.replace(matrix=encoding.matrix) == encoding
    assert card.exact


@pytest.mark.parametrize("encoding", MEASURED.values(), ids=MEASURED)
def test_a_learned_matrix_is_measured(encoding, rng):
    card = identify(encoding.table, "table", axes=2)
    assert isinstance(card.encoding, FourierFeatures), card
    assert card.exact, card
    v = rng.uniform(0, 1, (2, 50))
    assert near(card.encoding.table(v), encoding.table(v))


def test_sines_of_squares_are_no_features():
    """Angles that are not linear in the coordinate."""
    w = np.linspace(1.0, 5.0, 6)

    def table(positions):
        angle = np.asarray(positions, np.float64)[:, None] ** 2 * w
        return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)

    assert identify(table, "table").encoding is None
