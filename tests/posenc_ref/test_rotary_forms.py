"""Forms beside plain RoPE: slices, output layouts, mixed axes; adjoint, shifts, lengths."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import (
    DynamicNTK,
    LongRoPE,
    MixedRoPE,
    MultiAxisRoPE,
    RoPE,
    YaRN,
    from_dict,
    layout_permutation,
    scores,
)
from posenc_ref.accuracy import Truth, budget

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 5, 24))
AT = np.array([3, 0, 77, 1021, 12])


def near(actual, expected, size=None):
    size = np.abs(expected) + np.abs(X).max() if size is None else size
    truth = Truth(expected, size * np.ones_like(expected), np.zeros_like(expected))
    assert truth.score(actual).max() <= budget("float64")


def test_a_trailing_slice_is_the_slice_alone():
    """Latent attention: [nope | rope]; what is before passes bit for bit."""
    whole = RoPE(24, layout="interleaved", rotary_dim=8, rotary_start=16)
    alone = RoPE(8, layout="interleaved")
    y = whole.apply(X, AT)
    assert (y[..., :16] == X[..., :16]).all()
    assert (y[..., 16:] == alone.apply(X[..., 16:], AT)).all()
    middle = RoPE(24, layout="half", rotary_dim=8, rotary_start=5).apply(X, AT)
    assert (middle[..., 5:13] == RoPE(8, layout="half").apply(X[..., 5:13], AT)).all()
    assert (np.delete(middle, range(5, 13), -1) == np.delete(X, range(5, 13), -1)).all()


def test_an_output_layout_is_a_permutation_of_the_plain_output():
    """DeepSeek-V3 as Hugging Face has it: logits do not see it, tensors do."""
    moved = RoPE(24, layout="interleaved", output_layout="half")
    plain = RoPE(24, layout="interleaved")
    y = plain.apply(X, AT)
    z = y[..., np.r_[0:24:2, 1:24:2]]
    assert (moved.apply(X, AT) == z).all()
    assert (
        layout_permutation(24, source="interleaved", target="half") == np.r_[0:24:2, 1:24:2]
    ).all()
    near(moved.inverse(z, AT), X)
    near(scores(moved, X, X, AT, AT), scores(plain, X, X, AT, AT), 100.0)
    assert RoPE(24, layout="half", output_layout="half") == RoPE(24, layout="half")
    assert from_dict(moved.to_dict()) == moved


def test_a_shift_moves_what_was_written():
    moved = RoPE(24, layout="interleaved", output_layout="half")
    near(moved.shift(moved.apply(X, AT), 9), moved.apply(X, AT + 9))


FORMS = [
    RoPE(24, layout="half"),
    RoPE(24, layout="half", scaling=YaRN(32, 4096), base=150000.0),
    RoPE(24, layout="interleaved", output_layout="half", scaling=YaRN(4, 64), rotary_dim=16),
    MultiAxisRoPE(24, sections=(3, 4, 5), layout="half", scaling=YaRN(4, 4096)),
    MixedRoPE(24, RNG.standard_normal((2, 12)), layout="interleaved"),
]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_inverse_undoes_and_adjoint_transposes(form, rng):
    """They differ by m squared: a gradient through the inverse is wrong where m is not 1."""
    m = form.attention_factor()
    matrix = form.matrix([7.0] * form.num_axes if form.num_axes > 1 else 7.0)
    x = X[0, 0, :1]
    near(form.adjoint(x, [7])[0], matrix.T @ x[0], 30.0)
    near(form.inverse(x, [7])[0], np.linalg.inv(matrix) @ x[0], 30.0)
    both = form.inverse(x, [7])[0], form.adjoint(x, [7])[0]
    turned = np.isin(np.arange(24), np.concatenate(form.pairs()))
    near(both[1], np.where(turned, both[0] * m * m, both[0]), 30.0)
    y, dy = form.apply(X, AT), rng.standard_normal(X.shape)
    lhs, rhs = np.sum(y * dy), np.sum(X * form.adjoint(dy, AT))
    near(np.array(rhs), np.array(lhs), np.sum(np.abs(y * dy)) + np.sum(np.abs(X * dy)))


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_rotations_times_m_on_what_is_rotated(form):
    """R^T R is m^2 where pairs are turned and 1 elsewhere: m = 1 means a rotation."""
    position = [7.0] * form.num_axes if form.num_axes > 1 else 7.0
    matrix, m = form.matrix(position), form.attention_factor()
    turned = np.isin(np.arange(24), np.concatenate(form.pairs()))
    near(matrix.T @ matrix, np.diag(np.where(turned, m * m, 1.0)), 30.0)


@given(st.integers(0, 99))
def test_mixed_angles_are_sums(seed):
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((3, 4))
    mixed = MixedRoPE(10, weight, layout="half")
    p = rng.integers(-50, 51, (3, 5))
    angle = p.T @ weight
    z = (X[0, 0, :, :4] + 1j * X[0, 0, :, 4:8]) * np.exp(1j * angle)
    truth = np.concatenate([z.real, z.imag, X[0, 0, :, 8:10]], -1)
    moved = np.zeros(truth.shape)
    moved[:, :8] = np.tile(np.abs(p.T) @ np.abs(weight), 2) * np.tile(np.abs(z), 2)
    score = Truth(truth, np.abs(X[0, 0]).sum(-1, keepdims=True) + 0 * truth, moved)
    assert score.score(mixed.apply(X[0, 0, :, :10], p)).max() <= budget("float64")
    assert from_dict(mixed.to_dict()) == mixed


def test_one_axis_of_a_mixed_encoding_is_rope():
    rope = RoPE(24, layout="half")
    one = MixedRoPE(24, rope.frequencies()[None], layout="half")
    assert one.num_axes == 1
    near(one.apply(X, range(5)), rope.apply(X, range(5)))


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([[1.0]], r"weight must be an array \(A, P\) or \(H, A, P\), got list"),
        (np.ones(3), r"weight must have shape \(A, P\) or \(H, A, P\)"),
        (np.ones((2, 13)), r"1 <= P <= head_dim / 2 = 12, got \(2, 13\)"),
        (np.full((2, 2), np.nan), r"weight must be finite"),
    ],
)
def test_errors_of_mixed_rope(weight, message):
    with pytest.raises((TypeError, ValueError), match=message):
        MixedRoPE(24, weight, layout="half")


LONG = RoPE(
    24,
    layout="half",
    scaling=LongRoPE(np.ones(12), np.linspace(1, 9, 12), 64, attention_factor=1.25),
)
DYNAMIC = RoPE(24, layout="half", scaling=DynamicNTK(2.0, 64))


@pytest.mark.parametrize("form", [LONG, DYNAMIC], ids=["LongRoPE", "DynamicNTK"])
def test_the_length_is_the_largest_position_plus_one(form):
    for largest in (62, 63, 64, 200):
        at = np.array([3, 0, largest, 5, 12])
        assert (form.apply(X, at) == form.apply(X, at, seq_len=largest + 1)).all()
        assert (form.cos_sin(at)[0] == form.cos_sin(at, seq_len=largest + 1)[0]).all()
    early = form.apply(X, [3, 0, 63, 5, 12])  # a call of length 64 is short
    assert (early == form.apply(X, [3, 0, 63, 5, 12], seq_len=1)).all()
    late = form.apply(X, [3, 0, 64, 5, 12])
    assert (early[..., 0, :] != late[..., 0, :]).any()  # and one more token changes every row


@pytest.mark.parametrize("form", [LONG, DYNAMIC], ids=["LongRoPE", "DynamicNTK"])
def test_inverse_and_adjoint_see_the_same_length(form):
    at = np.array([3, 0, 99, 5, 12])
    near(form.inverse(form.apply(X, at), at), X)
    lhs = np.sum(form.apply(X, at) * X)
    near(np.array(np.sum(X * form.adjoint(X, at))), np.array(lhs), np.sum(X * X) * 4)


@pytest.mark.parametrize("form", [LONG, DYNAMIC], ids=["LongRoPE", "DynamicNTK"])
def test_keys_of_one_length_cannot_be_shifted_to_another(form):
    with pytest.raises(ValueError, match="seq_len must be given to shift keys"):
        form.shift(X, 3)
    short = form.apply(X, AT % 60, seq_len=60)
    near(form.shift(short, 7, seq_len=60), form.apply(X, AT % 60 + 7, seq_len=60))


def test_scores_rotate_queries_and_keys_alike():
    """A decoding step: one query far out, keys from 0 on; all as at the longer length."""
    q, k = X[:, :, :1], X
    at = [200]
    together = scores(LONG, q, k, at, range(5), scale=1.0)
    turned = LONG.apply(k, range(5), seq_len=201)
    expected = LONG.apply(q, at) @ np.swapaxes(turned, -1, -2)
    near(together, expected, 100.0)


def test_traced_positions_need_the_length():
    dask = pytest.importorskip("dask.array", reason="Dask's arrays are what is tried")
    lazy = dask.from_array(np.arange(5), chunks=5)
    x = dask.from_array(X, chunks=(2, 3, 5, 24))
    with pytest.raises(ValueError, match="seq_len must be given where the frequencies depend"):
        LONG.apply(x, lazy)
    given_length = LONG.apply(x, lazy, seq_len=5).compute()
    near(given_length, LONG.apply(X, range(5)))


@pytest.mark.parametrize("form", [*FORMS, LONG], ids=repr)
def test_values_can_be_pickled_and_copied_after_use(form):
    form.apply(X, range(5))
    for other in (pickle.loads(pickle.dumps(form)), copy.deepcopy(form)):
        assert other == form
        assert (other.apply(X, range(5)) == form.apply(X, range(5))).all()


def test_no_length_fills_the_memory():
    for n in range(1, 400):
        DYNAMIC.cos_sin(np.arange(2), seq_len=n)
    assert len(DYNAMIC._kept_turns) <= 64


def test_the_length_of_fractional_positions():
    """The largest position plus one, rounded down: 63.5 belongs to a call of 64."""
    at = np.array([0.5, 63.5, 3.0, 5.0, 12.0])
    assert (LONG.apply(X, at) == LONG.apply(X, at, seq_len=64)).all()
    assert (LONG.apply(X, at) != LONG.apply(X, at, seq_len=65)).any()


def test_scores_where_keys_reach_further_than_queries():
    q, k = X[:, :, :1], X
    at = [3, 0, 200, 5, 12]
    together = scores(LONG, q, k, [1], at, scale=1.0)
    expected = LONG.apply(q, [1], seq_len=201) @ np.swapaxes(LONG.apply(k, at), -1, -2)
    near(together, expected, 100.0)


def test_the_length_is_of_every_axis():
    form = MultiAxisRoPE(24, sections=(3, 4, 5), layout="half", scaling=DynamicNTK(2.0, 64))
    for axis in range(3):
        at = np.zeros((3, 5), dtype=int)
        at[axis, 2] = 200
        assert (form.apply(X, at) == form.apply(X, at, seq_len=201)).all()
