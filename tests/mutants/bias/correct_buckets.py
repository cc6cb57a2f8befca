"""Correct T5 buckets and biases."""

import math

import numpy as np

from tests.mutants._case import correct, t5

TABLE = (np.cos(np.arange(32 * 6, dtype=np.float64) * 0.9).reshape(32, 6) * 2).astype(np.float32)
ZEROS = np.zeros((32, 2), np.float32)


# --- T5 buckets ----------------------------------------------------------------------------------


def _log_buckets(relative, bidirectional, num_buckets=32, max_distance=128, dtype=np.float32):
    """T5's own order of operations."""
    relative = np.asarray(relative)
    result = np.zeros(relative.shape, np.int64)
    if bidirectional:
        num_buckets //= 2
        result += (relative > 0).astype(np.int64) * num_buckets
        n = np.abs(relative)
    else:
        n = -np.minimum(relative, 0)
    exact = num_buckets // 2
    ratio = np.log(np.maximum(n, 1).astype(dtype) / exact) / dtype(math.log(max_distance / exact))
    far = exact + (ratio * (num_buckets - exact)).astype(np.int64)
    return result + np.where(n < exact, n, np.minimum(far, num_buckets - 1))


@correct(surface="bucket", encoding=t5(ZEROS), thread="class: T5, float32 logarithm")
def t5_order_of_operations(relative):
    """log(n/me) / log(md/me) * (nb - me), truncated, bidirectional."""
    return _log_buckets(relative, True)


@correct(
    surface="bucket",
    encoding=t5(ZEROS, bidirectional=False),
    thread="class: T5 decoder, float64 logarithm, int32 result",
)
def t5_decoder_in_float64(relative):
    """The causal form in float64."""
    return _log_buckets(relative, False, dtype=np.float64).astype(np.int32)


@correct(surface="bucket", encoding=t5(ZEROS), thread="class: thresholds and searchsorted")
def by_thresholds(relative):
    """A sorted table of first distances."""
    first = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91])
    relative = np.asarray(relative)
    return np.searchsorted(first, np.abs(relative), side="right") + 16 * (relative > 0)


@correct(
    surface="bucket",
    encoding=t5(ZEROS, bidirectional=False, max_distance=256),
    thread="class: Python integers only",
)
def by_integer_powers(relative):
    """Compares n^16 with 16^(16 + k), since 256 / 16 is 16, one element at a time."""

    def bucket(n):
        if n < 16:
            return n
        k = sum(n**16 >= 16**16 * 16**step for step in range(1, 16))
        return 16 + k

    flat = [bucket(max(-int(r), 0)) for r in np.ravel(relative)]
    return np.array(flat, dtype=np.int64).reshape(np.shape(relative))


@correct(
    surface="bucket",
    encoding=t5(np.zeros((64, 2), np.float32), num_buckets=64, max_distance=256),
    thread="class: LayoutLM settings",
)
def layout_buckets(relative):
    """64 buckets up to 256, bidirectional, sign taken from the negated distance."""
    n = -np.asarray(relative)
    half = (n < 0).astype(np.int64) * 32
    n = np.abs(n)
    with np.errstate(divide="ignore"):
        far = 16 + (np.log(n.astype(np.float32) / 16) / math.log(256 / 16) * 16).clip(-16)
    return half + np.where(n < 16, n, np.minimum(far.astype(np.int64), 31))


# --- T5 biases -----------------------------------------------------------------------------------


@correct(surface="bias", encoding=t5(TABLE), thread="class: T5 encoder, gather")
def encoder_bias_by_gather(q_len, k_len):
    """Embedding lookup of the buckets, heads moved to the front."""
    memory = np.arange(k_len)[None, :]
    context = np.arange(k_len)[:, None]
    buckets = _log_buckets(memory - context, True)
    return TABLE[buckets].transpose(2, 0, 1)[:, k_len - q_len :, :]


@correct(
    surface="bias",
    encoding=t5(TABLE, bidirectional=False),
    thread="class: T5 decoder, batch axis, last queries cut out",
)
def decoder_bias_with_a_batch_axis(q_len, k_len):
    """(1, H, Q, K) through a one-hot product with the table."""
    r = np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]
    one_hot = np.eye(32, dtype=np.float32)[_log_buckets(r, False)]
    return np.einsum("qkn,nh->hqk", one_hot, TABLE)[None]


@correct(surface="bias", encoding=t5(TABLE), thread="class: Toeplitz row of buckets")
def encoder_bias_by_distance(q_len, k_len):
    """One bias per distance, spread by an index matrix."""
    line = TABLE[_log_buckets(np.arange(-k_len - q_len, k_len + q_len), True)].T
    index = np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]
    return line[:, index + k_len + q_len]
