"""identify of functions of relative positions in a grid, and of builders of biases."""

import numpy as np
import pytest

import posenc_ref as pr
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.calling import NoConvention, bind
from posenc_ref.conformance.identify.function import identify
from posenc_ref.conformance.identify.natural.biases import matrices
from posenc_ref.conformance.identify.natural.foreign import foreigners
from posenc_ref.conformance.identify.natural.owners import owners
from posenc_ref.conformance.identify.natural.relative import decomposed, indices
from posenc_ref.conformance.identify.natural.tables import grids


def _card(maker, function):
    (fn,) = foreigners(next(owners(function, 64)))
    return identify(next(maker(fn)))


def test_the_index_of_beit_has_three_rows_of_the_class_token():
    def gen_relative_position_index(window_size):
        h, w = window_size
        found = pr.relative_index((h, w), cls_token=True)
        n = (2 * h - 1) * (2 * w - 1) + 3
        assert (found[0, 1:] == n - 3).all()
        assert (found[1:, 0] == n - 2).all()
        assert found[0, 0] == n - 1
        return found

    card = _card(indices, gen_relative_position_index)
    assert card.function == "posenc_ref.relative_index(window, cls_token=True)", str(card)
    assert card.exact
    assert card.facts["numbers"].startswith("(dy + h - 1)")


def _rows(q_size, k_size, rel_pos):
    at = np.arange(q_size)[:, None] - np.arange(k_size) + k_size - 1
    return rel_pos[at]


def test_rows_of_a_table_for_two_lengths_are_an_index():
    def get_rel_pos(q_size, k_size, rel_pos):
        return _rows(q_size, k_size, rel_pos)

    card = _card(indices, get_rel_pos)
    assert card.function == "posenc_ref.relative_index(window)", str(card)
    assert card.exact


def test_decomposed_scores_of_a_query_and_two_tables():
    def add_decomposed_rel_pos(attn, q, rel_pos_h, rel_pos_w, q_size, k_size):
        (h, w), dim = q_size, q.shape[-1]
        r = q.reshape(-1, h, w, dim)
        rows = np.einsum("bhwc,hkc->bhwk", r, _rows(h, k_size[0], rel_pos_h))
        columns = np.einsum("bhwc,wkc->bhwk", r, _rows(w, k_size[1], rel_pos_w))
        both = rows[..., :, None] + columns[..., None, :]
        return attn + both.reshape(attn.shape)

    (fn,) = foreigners(next(owners(add_decomposed_rel_pos, 64)))
    found = next(decomposed(fn))
    rng = np.random.default_rng(1)
    q, k = rng.standard_normal((2, 1, 2, 15, 64))
    tables = np.random.default_rng(0)
    rows, columns = (tables.standard_normal((2 * n - 1, 64)).astype(np.float32) for n in (3, 5))
    declared = pr.DecomposedRelative(rows, columns, grid=(3, 5))
    wanted = declared.scores(q, k, range(15), range(15))
    slack = BUDGET["float32"] * ROUNDOFF["float32"] * np.abs(wanted).max()
    assert np.abs(found.call(q, k) - wanted).max() <= slack


def test_a_number_of_heads_and_a_mask_give_a_bias():
    slopes = pr.ALiBi(8).slopes()

    def get_alibi_biases(n_heads, mask):  # labml: (1, keys, heads)
        assert n_heads == 8
        return (np.arange(mask.shape[1])[:, None] * slopes)[None]

    (fn,) = foreigners(next(owners(get_alibi_biases, 64)))
    found = next(matrices(fn))
    assert found.surface == "bias"
    assert np.array_equal(found.call(5, 11), np.arange(11) * slopes[:, None, None])
    with pytest.raises(NoConvention):  # not as the angles of a rotation
        bind(get_alibi_biases, None, "cos_sin", head_dim=64)


def test_repeated_columns_are_a_rotation_and_no_learned_table():
    def embed(feat_shape):  # timm: sin | cos, each twice
        h, w = feat_shape
        y, x = np.divmod(np.arange(h * w), w)
        theta = 100.0 ** (-np.arange(2) / 2)
        angle = np.concatenate([y[:, None] * theta, x[:, None] * theta], 1).repeat(2, axis=1)
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)

    (fn,) = foreigners(next(owners(embed, 64)))
    found = next(grids(fn))
    assert (found.surface, found.axes, found.head_dim) == ("apply", 2, 8)


def test_whole_numbers_are_positions_and_no_angles():
    def get_meshgrid_nd(shape):
        return np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")).astype(np.float32)

    (fn,) = foreigners(next(owners(get_meshgrid_nd, 64)))
    assert [found.surface for found in grids(fn)] == ["grid_positions"]
