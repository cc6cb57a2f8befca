"""Tables that are asked in other ways than by (B, S): their rows against the formula."""

import numpy as np
import pytest

from posenc_ref import MultiAxisRoPE, Sinusoidal
from posenc_ref.conformance.calling import bind
from posenc_ref.conformance.calling.facts import Facts
from posenc_ref.conformance.calling.rotations import Rotation
from posenc_ref.conformance.calling.table_search import NoTable, find_source
from posenc_ref.conformance.calling.trial import ALIKE, MOVES, driver_of, score

NOTHING = Facts({}, {}, {})
W = 10.0 ** -np.arange(4)
LIKE = np.zeros((1, 1, 1, 8), np.float32)


def angles(positions):
    return np.asarray(positions)[..., None] * W


def of_axes(positions):
    """Positions (..., A): the angle is the sum of p[0] and 100 p[1]."""
    return angles(positions[..., 0] + 100 * positions[..., 1])


def by_column(positions):
    if positions.ndim != 2 or positions.shape[1] != 1:
        raise ValueError("positions must be a column")
    return positions * W


def by_window(input_ids, past_key_values_length=0):
    count = input_ids.shape[1]
    return angles(np.arange(past_key_values_length, past_key_values_length + count))[None]


def by_books(input_ids, past_key_values_length=0):
    _, _, count = input_ids.shape
    return angles(np.arange(past_key_values_length, past_key_values_length + count))


def from_zero(input_ids):
    return angles(np.arange(input_ids.shape[1]))


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (by_column, "column of positions"),
        (by_window, "window (1, n)"),
        (by_books, "window (1, 1, n)"),
    ],
)
def test_rows_of_one_axis(call, kind):
    source = find_source(call, NOTHING, "table", LIKE)
    assert source.kind == kind
    assert np.array_equal(source.rows(LIKE, np.arange(3, 7)).parts[0], angles(np.arange(3, 7)))


def test_a_window_is_contiguous_and_starts_where_its_function_can():
    with pytest.raises(ValueError, match="contiguous"):
        find_source(by_window, NOTHING, "table", LIKE).rows(LIKE, np.array([3, 5]))
    with pytest.raises(ValueError, match="positions of table must start at 0, got 3"):
        find_source(from_zero, NOTHING, "table", LIKE).rows(LIKE, np.arange(3, 7))


def streams(positions):
    if positions.ndim != 3 or positions.shape[0] != 2:
        raise ValueError("positions must be (2, B, S)")
    return of_axes(np.moveaxis(positions, 0, -1))


def last_axis(positions):
    if positions.ndim != 3 or positions.shape[2] != 2:
        raise ValueError("positions must be (B, S, 2)")
    return of_axes(positions)


def one_row(positions):
    if positions.ndim != 2 or positions.shape[1] != 2:
        raise ValueError("positions must be (S, 2)")
    return of_axes(positions)


@pytest.mark.parametrize(
    ("call", "kind"), [(streams, "(A, B, S)"), (last_axis, "(B, S, A)"), (one_row, "(S, A)")]
)
def test_rows_of_two_axes(call, kind):
    source = find_source(call, NOTHING, "table", LIKE, (2, 3))
    assert (source.kind, source.axes) == (kind, 2)
    at = np.array([[[3, 1, 4, 1]], [[5, 9, 2, 6]]])  # (A, B, S)
    assert np.array_equal(source.rows(LIKE, at).parts[0], angles(at[0] + 100 * at[1]))
    text = source.rows(LIKE, np.arange(3)).parts[0]  # every axis has the same positions
    assert np.array_equal(text, angles(101 * np.arange(3))[None])


def test_rows_of_a_batch_are_asked_one_by_one():
    def rotate(x, freqs):
        return x * np.repeat(np.cos(freqs), 2, axis=-1)

    source = find_source(one_row, NOTHING, "table", LIKE, (2,))
    order = {"x": "x", "freqs": "table"}
    way = Rotation(rotate, order, NOTHING, "bhsd", "", "(1, 1, S, W)", source, axes=2)
    at = np.array([[[3, 1], [2, 7]], [[5, 9], [0, 4]]])
    y = way(np.ones((2, 3, 2, 8)), at)
    assert np.array_equal(y[:, 1, :, ::2], np.cos(angles(at[0] + 100 * at[1])))
    with pytest.raises(ValueError, match="table takes one row of positions"):
        source.rows(LIKE, at)


def test_a_table_that_ignores_an_axis_has_not_this_axis():
    def first_axis(positions):
        if positions.ndim != 3:
            raise ValueError("positions must be (2, B, S)")
        return angles(positions[0])

    with pytest.raises(NoTable, match="ignores the positions of axis 1 of 2"):
        find_source(first_axis, NOTHING, "table", LIKE, (2,))


def test_one_table_serves_a_batch_with_equal_rows_only():
    def rotate(x, freqs):
        assert freqs.shape == (3, 4)
        return x * np.repeat(np.cos(freqs), 2, axis=-1)

    source = find_source(lambda positions: angles(positions), NOTHING, "table", LIKE)
    order = {"x": "x", "freqs": "table"}
    way = Rotation(rotate, order, NOTHING, "bhsd", "", "(S, W)", source)
    x, at = np.ones((2, 1, 3, 8)), np.tile(np.arange(3), (2, 1))
    assert np.array_equal(way(x, at)[1, 0, :, ::2], np.cos(angles(np.arange(3))))
    with pytest.raises(ValueError, match="rows of a batch must have equal positions"):
        way(x, at + np.array([[0], [1]]))


def test_a_function_of_rows_is_told_from_one_of_a_sequence():
    """cos (B, S, W) broadcasts to x (B, H, S, D) for positions (S,), and to nothing for (B, S)."""

    def rotate(x, cos, sin):
        half = x.shape[-1] // 2
        turned = np.concatenate([-x[..., half:], x[..., :half]], -1)
        return x * cos + turned * sin

    def table(positions):
        angle = np.concatenate([angles(positions)] * 2, -1)
        return np.cos(angle), np.sin(angle)

    source = find_source(table, NOTHING, "table", LIKE)
    order = {"x": "x", "cos": "cos", "sin": "sin"}
    scores = {}
    for shape in ("(1, S, W)", "(1, 1, S, W)"):
        way = Rotation(rotate, order, NOTHING, "bhsd", "", shape, source)
        driver = driver_of(way, "numpy", "float32", "bhsd", 1)
        scores[shape] = [score(driver, 8, (2, 3, 5), rows=rows)[0] for rows in (False, True)]
    assert scores["(1, S, W)"][0] >= ALIKE + MOVES
    assert scores["(1, S, W)"][1] == 0
    assert scores["(1, 1, S, W)"][1] >= ALIKE + MOVES


def test_a_method_with_fixed_heads_gets_them_in_parts():
    class Attention:
        num_heads = 2

        def rotate(self, x):
            heads = x.reshape(*x.shape[:2], self.num_heads, 4)
            return (heads * np.arange(x.shape[1])[:, None, None]).reshape(x.shape)

    way = Rotation(Attention().rotate, {"x": "x"}, NOTHING, "bs(hd)", width=8)
    x = np.random.default_rng(0).standard_normal((2, 5, 12))  # three heads
    assert np.array_equal(way(x, np.arange(5)), x * np.arange(5)[:, None])


def test_the_whole_table_of_a_source_by_positions():
    """A function that selects rows gets all of them, and no position below 0."""

    def rotate(x, freqs, position_ids):
        assert freqs.shape == (8, 4)
        return x * np.repeat(np.cos(freqs[position_ids]), 2, axis=-1)

    source = find_source(lambda positions: angles(positions), NOTHING, "table", LIKE)
    order = {"x": "x", "freqs": "table", "position_ids": "positions"}
    way = Rotation(rotate, order, NOTHING, "bhsd", "as given", "(S, W)", source)
    at = np.array([7, 0, 3])
    assert np.array_equal(way(np.ones((1, 1, 3, 8)), at)[0, 0, :, ::2], np.cos(angles(at)))
    with pytest.raises(ValueError, match="positions must be integers from 0"):
        way(np.ones((1, 1, 3, 8)), at - 1)


def test_rows_of_positions_must_give_what_one_row_gives():
    def rotate(x, positions):
        at = positions if positions.ndim == 1 else positions.sum(0)
        one, two = x[..., :4], x[..., 4:]
        cos, sin = np.cos(angles(at)), np.sin(angles(at))
        return np.concatenate([one * cos - two * sin, two * cos + one * sin], -1)

    driver = driver_of(rotate, "numpy", "float32", "bhsd", 1)
    assert score(driver, 8, (2, 3, 5))[0] >= ALIKE + MOVES
    assert score(driver, 8, (2, 3, 5), rows=True) == (
        0,
        "positions (B, S) give another result than (S,)",
    )


def test_a_window_of_tokens_is_bound_as_a_table():
    found = bind(by_window, Sinusoidal(4), "table")
    assert found.how == "by_window(input_ids, past_key_values_length)"
    assert np.array_equal(found.call(np.arange(3, 7)), angles(np.arange(3, 7)))


class LastAxis:
    """A module of two axes that takes positions (B, S, 2) only."""

    def forward(self, x, position_ids):
        if position_ids.ndim != 3 or position_ids.shape[2] != 2:
            raise ValueError("positions must be (B, S, 2)")
        angle = np.concatenate([angles(position_ids[..., axis]) for axis in (0, 1)] * 2, -1)
        return np.cos(angle), np.sin(angle)


def apply_rotary_pos_emb(q, k, cos, sin):
    def turned(x):
        half = x.shape[-1] // 2
        return x * cos[:, None] + np.concatenate([-x[..., half:], x[..., :half]], -1) * sin[:, None]

    return turned(q), turned(k)


def test_a_module_of_positions_in_the_last_axis_is_bound():
    encoding = MultiAxisRoPE(16, sections=(4, 4), layout="half", spacing="restart")
    found = bind(apply_rotary_pos_emb, encoding, table=LastAxis())
    at = np.array([[[3, 1, 4], [1, 5, 9]], [[2, 6, 5], [3, 5, 8]]])  # (A, B, S)
    x = np.random.default_rng(0).standard_normal((2, 3, 3, 16))
    y, _ = found.call(x, x, at, at)
    angle = np.concatenate([angles(at[0]), angles(at[1])], -1)[:, None]
    one, two = x[..., :8], x[..., 8:]
    assert np.array_equal(y[..., :8], one * np.cos(angle) - two * np.sin(angle))
    assert np.array_equal(y[..., 8:], two * np.cos(angle) + one * np.sin(angle))


def test_positions_as_a_tuple_of_axes_keep_their_batch():
    def rotate(x, positions):
        rows, columns = positions
        return x * (rows + 100 * columns)[..., None]

    order = {"x": "x", "positions": "positions"}
    way = Rotation(rotate, order, NOTHING, "bhsd", "tuple of (B, 1, S)", axes=2)
    at = np.array([[[3, 1], [2, 7]], [[5, 9], [0, 4]]])  # (A, B, S)
    y = way(np.ones((2, 3, 2, 8)), at)
    assert np.array_equal(y[:, 2, :, 5], at[0] + 100 * at[1])
    assert way(np.ones((0, 3, 2, 8)), at[:, :0]).shape == (0, 3, 2, 8)
