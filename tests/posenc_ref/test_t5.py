"""T5 buckets against a 50-digit logarithm whose ties are decided in integers; and the bias."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from posenc_ref import T5Bias
from posenc_ref.conformance.exact.digits import exact_bucket

CONFIGS = [  # num_buckets, max_distance, bidirectional
    (32, 128, True),
    (32, 128, False),
    (320, 800, True),
    (320, 800, False),
    (64, 256, True),
    (64, 256, False),
    (512, 2048, True),
    (512, 2048, False),
]


def biased(num_buckets, max_distance, bidirectional, heads=1):
    table = np.random.default_rng(0).standard_normal((num_buckets, heads)).astype(np.float32)
    return T5Bias(
        table, num_buckets=num_buckets, max_distance=max_distance, bidirectional=bidirectional
    )


@pytest.mark.parametrize("config", CONFIGS)
def test_buckets_up_to_three_thousand(config):
    r = np.arange(-3000, 3001)
    bucket = biased(*config).bucket(r)
    assert bucket.dtype == np.int64
    want = np.array([exact_bucket(int(n), *config) for n in r])
    assert (bucket == want).all(), r[bucket != want]


@given(st.integers(2, 80), st.integers(2, 3000), st.booleans(), st.integers(-5000, 5000))
def test_any_configuration(num_buckets, max_distance, bidirectional, r):
    assume(not bidirectional or (num_buckets % 2 == 0 and num_buckets >= 4))
    exact = (num_buckets // 2 if bidirectional else num_buckets) // 2
    assume(max_distance > exact)
    config = (num_buckets, max_distance, bidirectional)
    assert int(biased(*config).bucket(r)) == exact_bucket(r, *config)


def test_first_distance_of_each_bucket():
    """Worked out by hand for 32 buckets and distance 128; 16, 32 and 64 are exact ties."""
    both = biased(32, 128, True)
    assert both.thresholds == (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)
    causal = biased(32, 128, False)
    far = (16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)
    assert causal.thresholds == (*range(1, 16), *far)


def test_properties_of_buckets():
    for config in CONFIGS:
        encoding, r = biased(*config), np.arange(-3000, 3001)
        bucket = encoding.bucket(r)
        before, after = bucket[r <= 0][::-1], bucket[r > 0]
        assert bucket.min() == 0
        assert bucket.max() == config[0] - 1
        assert bucket[3000] == 0
        assert (np.diff(before) >= 0).all()
        if config[2]:
            assert (after == before[1:] + config[0] // 2).all()
            # Number num_buckets / 2 is never used.
            assert set(bucket.tolist()) == set(range(config[0])) - {config[0] // 2}
        else:
            assert (after == 0).all()


def log(x):
    """The correctly rounded logarithm: another libm may round a tie the other way."""
    return float(Decimal(x).ln())


def reassociated(n, num_buckets, max_distance):
    """log(n/me) * ((nb-me) / log(max_distance/me)), the form that goes wrong at ties."""
    nb = num_buckets // 2
    me = nb // 2
    factor = (nb - me) / log(max_distance / me)
    return n if n < me else min(me + int(log(n / me) * factor), nb - 1)


def test_the_reassociated_logarithm_is_not_the_formula():
    encoding = biased(32, 128, True)
    wrong = [n for n in range(1, 129) if reassociated(n, 32, 128) != int(encoding.bucket(-n))]
    assert wrong == [64]


@given(
    st.sampled_from(CONFIGS[:2]),
    st.lists(st.integers(-4000, 2**40), max_size=4),
    st.lists(st.integers(-4000, 2**40), max_size=4),
)
def test_bias_is_the_entry_of_the_bucket(config, q, k):
    encoding = biased(*config, heads=3)
    bias = encoding.bias(np.array(q, np.int64), np.array(k, np.int64))
    assert bias.shape == (3, len(q), len(k))
    assert bias.dtype == np.float32
    for h, i, j in np.ndindex(bias.shape):
        assert bias[h, i, j] == encoding.table[exact_bucket(k[j] - q[i], *config), h]


@given(st.integers(1, 12), st.integers(1, 200), st.booleans())
def test_toeplitz_holds_the_whole_bias(q_len, k_len, bidirectional):
    encoding = biased(32, 128, bidirectional, heads=2)
    t = encoding.toeplitz(q_len, k_len)
    assert t.shape == (2, q_len + k_len - 1)
    bias = encoding.bias(range(k_len - q_len, k_len), range(k_len))
    i, j = np.arange(q_len)[:, None], np.arange(k_len)
    assert (bias == t[:, j - i + q_len - 1]).all()


def test_batches_and_decoding():
    encoding = biased(32, 128, False, heads=3)
    q, k = np.array([[3, 40], [100, 0]]), np.array([[0, 1, 2], [5, 6, 7]])
    bias = encoding.bias(q, k)
    assert bias.shape == (2, 3, 2, 3)
    for b in range(2):
        assert (bias[b] == encoding.bias(q[b], k[b])).all()
    whole = encoding.bias(range(300), range(300))
    assert (encoding.bias(299, range(300))[:, 0] == whole[:, -1]).all()


def test_the_table_is_kept_as_given():
    encoding = biased(32, 128, True, heads=4)
    assert encoding.num_heads == 4
    kept = encoding.table.copy()
    bias = encoding.bias(range(4), range(4))
    bias[:] = 0
    assert (encoding.table == kept).all()
    assert encoding.bias([0], [1], dtype=np.float64).dtype == np.float64
