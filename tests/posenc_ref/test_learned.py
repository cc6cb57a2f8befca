"""Learned tables: rows bit for bit, position ids against a plain loop, nothing clamped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from posenc_ref import Learned

WEIGHT = np.random.default_rng(0).standard_normal((12, 5))


def bits(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


@given(
    positions=hnp.arrays(
        st.sampled_from([np.int64, np.int32, np.int8]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
        elements=st.integers(-2, 9),
    ),
    dtype=st.sampled_from([np.float64, np.float32, np.float16]),
)
def test_rows_are_gathered_bit_for_bit(positions, dtype):
    weight = WEIGHT.astype(dtype)
    weight[3, 1], weight[4, 2] = np.nan, -0.0
    table = Learned(weight, offset=2).table(positions)
    assert table.shape == (*positions.shape, 5)
    assert table.dtype == dtype
    want = [weight[int(p) + 2] for p in positions.ravel()]
    want = np.array(want, dtype=dtype).reshape(table.shape)
    assert (bits(table) == bits(want)).all()


def test_the_table_is_kept_as_given():
    weight = WEIGHT.copy()
    encoding = Learned(weight)
    assert encoding.weight is weight
    assert (encoding.rows, encoding.dim) == WEIGHT.shape
    rows = encoding.table(range(3))
    rows[:] = 0  # results are copies
    assert (weight == WEIGHT).all()


@pytest.mark.parametrize("offset", [0, 2, -3])
@pytest.mark.parametrize("beside", [-1, 12])
def test_a_position_beside_the_table_is_an_error(offset, beside):
    encoding = Learned(WEIGHT, offset=offset)
    encoding.table([-offset, 11 - offset])
    with pytest.raises(ValueError, match=rf"positions \+ offset must lie in 0 \.\. 11.*{beside}"):
        encoding.table([0 - offset, beside - offset])


def test_add_takes_per_row_positions():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    encoding = Learned(WEIGHT.astype(np.float32), offset=1)
    positions = np.array([[0, 1, 2, 3], [9, 0, 0, 4]])
    y = encoding.add(x, positions)
    assert y.dtype == np.float32
    for b, h, s in np.ndindex(2, 3, 4):
        row = encoding.weight[positions[b, s] + 1].astype(np.float64)
        assert (y[b, h, s] == (x[b, h, s] + row).astype(np.float32)).all()


def naive_ids(tokens, padding_idx):
    """fairseq's make_positions, one token after the other."""
    ids = []
    for row in tokens:
        count = 0
        out = []
        for token in row:
            count += int(token != padding_idx)
            out.append(padding_idx + count if token != padding_idx else padding_idx)
        ids.append(out)
    return np.array(ids, dtype=np.int64).reshape(np.shape(tokens))


@given(
    tokens=hnp.arrays(
        np.int64,
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=7),
        elements=st.integers(0, 3),
    ),
    padding_idx=st.integers(0, 3),
    offset=st.integers(-2, 2),
)
def test_ids_from_tokens(tokens, padding_idx, offset):
    encoding = Learned(WEIGHT, offset=offset, padding_idx=padding_idx)
    positions = encoding.ids_from_tokens(tokens)
    assert positions.dtype == np.int64
    rows = naive_ids(tokens, padding_idx)
    assert (positions + offset == rows).all()
    assert (encoding.table(positions) == WEIGHT[rows]).all()


def test_padding_is_not_merely_the_position():
    """Left padding moves the positions of the tokens, right padding does not."""
    encoding = Learned(WEIGHT, padding_idx=1)
    right, left = [[5, 6, 7, 1, 1]], [[1, 1, 5, 6, 7]]
    assert encoding.ids_from_tokens(np.array(right)).tolist() == [[2, 3, 4, 1, 1]]
    assert encoding.ids_from_tokens(np.array(left)).tolist() == [[1, 1, 2, 3, 4]]


def test_dtype_is_a_cast_of_the_rows():
    encoding = Learned(WEIGHT)
    table = encoding.table(range(4), dtype=np.float16)
    assert (table == WEIGHT[:4].astype(np.float16)).all()
