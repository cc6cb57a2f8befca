"""identify of functions of boxes, and of a number of columns with the size of a grid."""

import numpy as np
import pytest

from posenc_ref import BoxSine, MultiAxisRoPE, Sinusoidal2D
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.identify.function import identify
from posenc_ref.conformance.identify.natural.foreign import foreigners
from posenc_ref.conformance.identify.natural.owners import owners
from posenc_ref.conformance.identify.natural.points import coordinates

BOX = BoxSine(32)


@pytest.mark.nightly
def test_boxes_are_rows_of_four_numbers():
    def sines(b):
        if b.shape[-1] != 4:
            raise ValueError("expected boxes (..., 4)")
        return BOX.table(b.reshape(-1, 4).T).astype(np.float32)

    (fn,) = foreigners(next(owners(sines, 64)))
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


def _found(function, number=0):
    """Return the card of a function of coordinates, seen as its implementation of that number."""
    (fn,) = foreigners(next(owners(function, 8)))
    return identify([*coordinates(fn)][number])


def test_boxes_whose_logits_are_passed():
    box = BoxSine(16, axis_order="xywh")

    def get_proposal_pos_embed(proposals):  # (N, 4), as in Deformable DETR
        return box.table(1 / (1 + np.exp(-proposals.T.astype(np.float64)))).astype(np.float32)

    with np.errstate(over="ignore"):
        card = _found(get_proposal_pos_embed, 1)
    assert card.encoding == box, str(card)
    assert card.exact
    assert "takes their sigmoid" in card.facts["called"]


@pytest.mark.parametrize("axes", ["xyz", "xyzwhd"])
def test_points_and_boxes_in_space(axes):
    box = BoxSine(4 * len(axes), axes=axes, axis_order=axes[::-1])

    def pos2posemb3d(pos):
        if pos.shape[-1] != len(axes):
            raise ValueError("expected another number of coordinates")
        return box.table(pos.T).astype(np.float32)

    card = _found(pos2posemb3d)
    assert card.encoding == box, str(card)
    assert card.exact


def test_a_number_of_columns_and_the_coordinates_of_a_grid():
    table = Sinusoidal2D(16)

    def get_2d_sincos_pos_embed_from_grid(embed_dim, grid):  # (2, 1, h, w), as in MAE
        return table.table(np.stack([axis.reshape(-1) for axis in grid]))

    card = _found(get_2d_sincos_pos_embed_from_grid)
    assert card.encoding == table, str(card)
    assert card.exact


def test_ids_of_three_axes_turn_their_parts_of_a_head():
    declared = MultiAxisRoPE(16, sections=(2, 3, 3), layout="half", spacing="restart")

    def embed(ids):  # (S, 3), as in Flux
        angles = np.concatenate(
            [ids[:, a, None] * 1e4 ** (-np.arange(n) / n) for a, n in enumerate((2, 3, 3))], axis=1
        )
        return np.cos(angles), np.sin(angles)

    (fn,) = foreigners(next(owners(embed, 16)))
    found = next(coordinates(fn))
    assert (found.surface, found.axes) == ("apply", 3)
    at = np.array([[[3]], [[1]], [[2]]])
    x = np.ones((1, 1, 1, 16))
    slack = BUDGET["float32"] * ROUNDOFF["float32"]
    assert np.abs(found.call(x, at) - declared.apply(x, at)).max() <= slack
