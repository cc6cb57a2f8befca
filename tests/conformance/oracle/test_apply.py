"""Truths carry the right coefficients A and B: worked out by hand, for each family."""

import numpy as np
import pytest

from posenc_ref import ALiBi, DynamicNTK, RoPE, Sinusoidal, T5Bias, YaRN
from posenc_ref.conformance.oracle.apply import apply_truth, bias_truth, cos_sin_truth

W = np.array([1.0, 0.1])  # base 100, four channels


def test_tables():
    positions = np.array([0.0, 5.0])
    encoding = Sinusoidal(4, base=100.0, offset=2, scale=3.0)
    truth = encoding.truth(positions)
    assert np.array_equal(truth.angle, np.repeat((positions + 2)[:, None] * W, 2, axis=1) * 3)
    assert np.array_equal(truth.terms, np.abs(truth.value))
    assert (truth.amplitude == 3).all()
    padded = Sinusoidal(5, odd="zero-pad").truth(positions)
    assert (padded.angle[:, -1] == 0).all()
    assert (padded.amplitude == [1, 1, 1, 1, 0]).all()


def test_rotations():
    x = np.array([[[[1.0, 2.0, -3.0, 4.0]]]])
    encoding = RoPE(4, layout="half", base=100.0)
    truth = apply_truth(encoding, x, np.array([-2]))
    cos, sin = encoding.cos_sin([-2])
    first, second = x[..., :2], x[..., 2:]
    terms = [np.abs(first * cos) + np.abs(second * sin), np.abs(second * cos) + np.abs(first * sin)]
    assert np.array_equal(truth.terms, np.concatenate(terms, axis=-1))
    pair = np.hypot(first, second)
    assert np.array_equal(truth.angle, np.tile(2 * W * pair, 2))
    assert np.array_equal(truth.amplitude, np.tile(pair, 2))
    passed = apply_truth(RoPE(4, layout="half", rotary_dim=2), x, np.array([9]))
    assert (passed.terms[..., 2:] == 0).all()
    assert (passed.angle[..., 2:] == 0).all()


def test_cos_and_sin():
    for truth in cos_sin_truth(RoPE(4, layout="half", base=100.0), np.array([3, 7])):
        assert np.array_equal(truth.angle, np.array([3, 7])[:, None] * W)
        assert np.array_equal(truth.terms, np.abs(truth.value))


def test_every_row_at_the_length_of_its_call():
    encoding = RoPE(8, layout="half", scaling=DynamicNTK(2.0, 8))
    x = np.random.default_rng(0).standard_normal((2, 3, 3, 8))
    positions = np.array([20, 21, 40])
    truth = apply_truth(encoding, x, positions, positions + 1)
    for i, position in enumerate(positions):
        row, here = x[..., i : i + 1, :], truth.value[..., i : i + 1, :]
        told = encoding.apply(row, np.array([position]), seq_len=int(position) + 1)
        assert np.array_equal(here, told)


def test_causal_biases_are_judged_up_to_the_own_key():
    table = np.arange(64.0).reshape(32, 2)
    for encoding in (T5Bias(table, bidirectional=False), ALiBi(2)):
        value = encoding.bias(np.arange(2, 5), range(5))
        truth, moved, judged = bias_truth(encoding, 3, 5, np.asarray(value))
        assert np.array_equal(judged[0], np.tril(np.ones((3, 5), dtype=bool), 2))
        assert np.array_equal(moved[judged], truth.value[judged])
    _, _, judged = bias_truth(T5Bias(table), 3, 5, np.zeros((2, 3, 5)))
    assert judged.all()


@pytest.mark.parametrize(
    "encoding",
    [
        RoPE(8, layout="half"),
        RoPE(8, layout="interleaved", rotary_dim=4, sign=-1),
        RoPE(8, layout="interleaved", output_layout="half"),
        RoPE(8, layout="half", scaling=YaRN(8.0, 4096)),
    ],
)
def test_the_value_is_that_of_the_encoding_bit_for_bit(encoding):
    """The reference rotates x itself, to compute cos and sin once."""
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 8))
    for positions in (np.arange(5) * 1001, np.arange(10).reshape(2, 5)):
        value = apply_truth(encoding, x, positions).value
        np.testing.assert_array_equal(value, encoding.apply(x, positions))
