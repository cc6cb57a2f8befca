"""ALiBi: slopes for every head count against the authors' recipe in fractions, and the bias."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_ref import ALiBi
from posenc_ref.conformance.exact.digits import DIGITS, mpmath
from tests.conformance.exact.fixed_point import BITS, Exact, slope_exponents

mp = mpmath().mp


@cache
def true_slope(exponent):
    """``2 ** -exponent`` as an integer times 2**-BITS; many head counts share an exponent."""
    with mp.workdps(DIGITS):
        return int(mp.mpf(2) ** (BITS - mp.mpf(exponent.numerator) / exponent.denominator))


def true_slopes(num_heads, max_bias=8.0):
    return [true_slope(e) for e in slope_exponents(num_heads, max_bias)]


@pytest.mark.parametrize("max_bias", [8.0, 4.0, 10.5])
def test_slopes_of_every_head_count_are_correctly_rounded(max_bias):
    most = 129 if max_bias == 8.0 else 40
    for heads in range(1, most):
        want = Exact(np.array(true_slopes(heads, max_bias), dtype=object)).hi
        slopes = ALiBi(heads, max_bias=max_bias).slopes()
        assert slopes.dtype == np.float64
        assert (slopes == want).all(), heads


def test_slopes_by_hand():
    assert ALiBi(1).slopes().tolist() == [2.0**-8]
    assert ALiBi(2).slopes().tolist() == [2.0**-4, 2.0**-8]
    assert ALiBi(3).slopes().tolist() == [2.0**-4, 2.0**-8, 2.0**-2]
    assert ALiBi(8).slopes().tolist() == [2.0**-h for h in range(1, 9)]
    assert slope_exponents(12) == [*range(1, 9), *(Fraction(n, 2) for n in (1, 3, 5, 7))]


def test_slopes_of_different_head_counts():
    for heads in (*range(1, 34), 48, 64, 71, 96, 112, 128):
        slopes = ALiBi(heads).slopes()
        assert len(set(slopes.tolist())) == heads
        assert ((slopes > 0) & (slopes < 1)).all()
        if heads & (heads - 1) == 0:
            assert (ALiBi(2 * heads).slopes()[1::2] == slopes).all()
        else:
            c = 2 ** (heads.bit_length() - 1)
            assert (slopes[:c] == ALiBi(c).slopes()).all()
            assert (slopes[c:] == ALiBi(2 * c).slopes()[0::2][: heads - c]).all()


def test_the_naive_slopes_of_many_ports_differ():
    """2**(-8h/n) for every n, and an exponent that starts at 0."""
    h = np.arange(1, 13)
    assert not np.isin(2.0 ** (-8 * h / 12), ALiBi(12).slopes()).all()
    assert (2.0 ** -(np.arange(8.0)) != ALiBi(8).slopes()).all()


positions = st.lists(st.integers(-(2**40), 2**40), max_size=4)
fractions = st.lists(st.integers(-4096, 4096).map(lambda n: n / 8), max_size=4)


@given(st.integers(1, 20), positions | fractions, positions | fractions, st.booleans())
def test_bias_is_minus_slope_times_distance(heads, q, k, causal):
    bias = ALiBi(heads, causal=causal).bias(q, k)
    assert bias.shape == (heads, len(q), len(k))
    assert bias.dtype == np.float64
    want = np.zeros(bias.shape, dtype=object)
    for h, slope in enumerate(true_slopes(heads)):
        for i, j in np.ndindex(len(q), len(k)):
            want[h, i, j] = -slope * abs(Fraction(k[j]) - Fraction(q[i]))
            want[h, i, j] = int(want[h, i, j])
    exact = Exact(want)
    # The slope is rounded, and its product with the distance, which is exact.
    assert exact.worst(bias, np.abs(exact.hi))[1] < 2


@given(st.integers(1, 9), st.integers(1, 12), st.integers(1, 12))
def test_toeplitz_holds_the_whole_bias(heads, q_len, k_len):
    encoding = ALiBi(heads)
    t = encoding.toeplitz(q_len, k_len)
    assert t.shape == (heads, q_len + k_len - 1)
    bias = encoding.bias(range(k_len - q_len, k_len), range(k_len))
    for h, i, j in np.ndindex(bias.shape):
        assert bias[h, i, j] == t[h, j - i + q_len - 1]


def test_decoding_is_the_last_row():
    encoding = ALiBi(6)
    whole = encoding.bias(range(50), range(50))
    assert (encoding.bias(49, range(50))[:, 0] == whole[:, -1]).all()
    assert (encoding.toeplitz(1, 50) == whole[:, -1]).all()
    # Two chunks against the keys so far.
    for start, stop in ((0, 20), (20, 50)):
        chunk = encoding.bias(range(start, stop), range(stop))
        assert (chunk == whole[:, start:stop, :stop]).all()


def test_bias_depends_on_the_offset_alone():
    encoding = ALiBi(8)
    here = encoding.bias(range(10), range(10))
    assert (encoding.bias(range(1000, 1010), range(1000, 1010)) == here).all()
    assert (here == here.swapaxes(1, 2)).all()
    assert (np.diagonal(here, axis1=1, axis2=2) == 0).all()
    assert (here <= 0).all()
    second = here[:, -1, 2:] - 2 * here[:, -1, 1:-1] + here[:, -1, :-2]
    assert (second == 0).all()


def test_ranks_take_their_own_heads():
    """Tensor parallelism: a rank's slopes are its rows of the whole, not those of fewer heads."""
    whole = ALiBi(12).bias(range(6), range(6))
    assert (whole[3:6] == -ALiBi(12).slopes()[3:6, None, None] * np.abs(np.subtract.outer(
        np.arange(6), np.arange(6)))).all()  # fmt: skip
    assert (whole[3:6] != ALiBi(3).bias(range(6), range(6))).any()


def test_batches_of_positions():
    encoding = ALiBi(3)
    q, k = np.array([[3, 4], [10, 0]]), np.array([[0, 1, 2], [5, 6, 7]])
    bias = encoding.bias(q, k)
    assert bias.shape == (2, 3, 2, 3)
    for b in range(2):
        assert (bias[b] == encoding.bias(q[b], k[b])).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_results_are_the_rounded_bias(dtype):
    bias = ALiBi(12).bias(range(40), range(40), dtype=dtype)
    assert bias.dtype == dtype
    assert (bias == ALiBi(12).bias(range(40), range(40)).astype(dtype)).all()
