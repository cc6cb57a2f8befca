"""`identify` of Fourier features: sines and cosines of a linear map of real coordinates."""

import numpy as np
import pytest

from posenc_ref import FourierFeatures
from posenc_ref.conformance import identify

RNG = np.random.default_rng(0)
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
    "gaussian": FourierFeatures(RNG.standard_normal((5, 2)), unit="turn", first="cos"),
    "sam": FourierFeatures(
        RNG.standard_normal((5, 2)), unit="turn", position_scale=2.0, offset=-0.5
    ),
}


@pytest.mark.parametrize("encoding", EXACT.values(), ids=EXACT)
def test_features_with_a_rule_are_found(encoding):
    card = identify(encoding.table, "table", axes=encoding.num_axes)
    assert isinstance(card.encoding, FourierFeatures), card
    assert np.abs(card.encoding.matrix - encoding.matrix).max() < 1e-6, card
    assert card.encoding.replace(matrix=encoding.matrix) == encoding
    assert card.exact


@pytest.mark.parametrize("encoding", MEASURED.values(), ids=MEASURED)
def test_a_learned_matrix_is_measured(encoding):
    card = identify(encoding.table, "table", axes=2)
    assert isinstance(card.encoding, FourierFeatures), card
    assert card.exact, card
    v = RNG.uniform(0, 1, (2, 50))
    assert np.abs(card.encoding.table(v) - encoding.table(v)).max() < 2.0**-18


def test_sines_of_squares_are_no_features():
    """Angles that are not linear in the coordinate."""
    w = np.linspace(1.0, 5.0, 6)

    def table(positions):
        angle = np.asarray(positions, np.float64)[:, None] ** 2 * w
        return np.concatenate([np.sin(angle), np.cos(angle)], -1).astype(np.float32)

    assert identify(table, "table").encoding is None
