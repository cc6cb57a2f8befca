"""identify of functions of boxes, and of a number of columns with the size of a grid."""

import numpy as np
import pytest

from posenc_ref import BoxSine, Sinusoidal2D
from posenc_ref.conformance.identify.function import identify
from posenc_ref.conformance.identify.natural.foreign import foreigners
from posenc_ref.conformance.identify.natural.points import coordinates

BOX = BoxSine(32)


@pytest.mark.nightly
def test_boxes_are_rows_of_four_numbers():
    def sines(b):
        if b.shape[-1] != 4:
            raise ValueError("expected boxes (..., 4)")
        return BOX.table(b.reshape(-1, 4).T).astype(np.float32)

    (fn,) = foreigners(sines, 64)
    found = next(coordinates(fn))
    assert found.how == "4 coordinates (N, 4)"
    card = identify(found, "table", axes=4)
    assert card.encoding == BOX, str(card)
    assert card.exact


def test_a_number_of_columns_and_the_side_of_a_grid():
    def get_2d_sincos_pos_embed(embed_dim, grid_size):
        assert embed_dim < 2**10  # not asked for a table of thousands of columns
        side = int(grid_size)
        return Sinusoidal2D(embed_dim).grid(side, side)

    card = identify(get_2d_sincos_pos_embed)
    assert card.encoding == Sinusoidal2D(64), str(card)
    assert not card.broken
