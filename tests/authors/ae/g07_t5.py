"""T5's buckets and biases (and its relatives)."""

import math

import numpy as np


def _w(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


_TABLE = _w(71, 32, 8)
_STARTS = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91])


def _buckets(r):
    r = np.asarray(r)
    return np.searchsorted(_STARTS, np.abs(r), side="right") + 16 * (r > 0)


def _log_part(n, me, nb, last):
    ratio = np.log(np.maximum(n, 1).astype(np.float32) / np.float32(me)) / np.float32(math.log(last / me))
    return me + (ratio * np.float32(nb - me) + np.float32(1e-5)).astype(np.int64)


# --- right -------------------------------------------------------------------------------


def integer_buckets(relative_position):
    """n^8 against powers: floor(8 log(n/8) / log(16)) = floor(log2((n/8)^2)); no rounding."""
    r = np.asarray(relative_position).astype(np.int64)
    n = np.abs(r)
    square = np.minimum(n, 1 << 20) ** 2 // 64
    large = 8 + sum((square >= 1 << t).astype(np.int64) for t in range(1, 8))
    return np.where(n < 8, n, large) + np.where(r > 0, 16, 0)


def diagonal_bias(q_len, k_len):
    """One lookup for each of the q_len + k_len - 1 offsets, gathered by flipped windows."""
    line = _TABLE.T[:, _buckets(np.arange(1 - k_len, q_len))]
    windows = np.lib.stride_tricks.sliding_window_view(line, k_len, axis=1)  # (H, Q, K)
    return np.ascontiguousarray(windows[:, ::-1])


# --- wrong -------------------------------------------------------------------------------


def max_exact_of_all(relative_position):
    r = np.asarray(relative_position).astype(np.int64)
    num_buckets = 32
    max_exact = num_buckets // 2  # taken before the halving for two directions
    num_buckets //= 2
    n = np.abs(r)
    far = np.minimum(max_exact + (np.log(np.maximum(n, 1) / max_exact) / math.log(128 / max_exact)).astype(np.int64), num_buckets - 1)
    return np.where(n < max_exact, n, far) + num_buckets * (r > 0)


def zero_counts_as_later(relative_position):
    r = np.asarray(relative_position).astype(np.int64)
    n = np.abs(r)
    far = np.minimum(_log_part(n, 8, 16, 128), 15)
    return np.where(n < 8, n, far) + 16 * (r >= 0)


def int16_offsets(relative_position):
    r = np.asarray(relative_position).astype(np.int16)
    n = np.abs(r.astype(np.int64))
    far = np.minimum(_log_part(n, 8, 16, 128), 15)
    return np.where(n < 8, n, far) + 16 * (r > 0)


def decoder_mirrored(relative_position):
    """bidirectional=False, 32 buckets: keys after the query are not sent to bucket 0."""
    n = np.abs(np.asarray(relative_position).astype(np.int64))
    far = np.minimum(_log_part(n, 16, 32, 128), 31)
    return np.where(n < 16, n, far)


def bucket_two_faults(relative_position):
    """query minus key, and the logarithm is rounded up as in DeBERTa."""
    r = -np.asarray(relative_position).astype(np.int64)
    n = np.abs(r)
    ratio = np.log(np.maximum(n, 1) / 8) / math.log(128 / 8)
    far = np.minimum(8 + np.ceil(ratio * 8 - 1e-9).astype(np.int64), 15)
    return np.where(n < 8, n, far) + 16 * (r > 0)


def reshaped_table_bias(q_len, k_len):
    r = np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]
    return _TABLE.reshape(8, 32)[:, _buckets(r)]  # a view, not a transpose


def _make_sliced_cache():
    held = np.zeros((8, 0, 0), np.float32)

    def bias(q_len, k_len):
        nonlocal held
        if held.shape[1] < q_len or held.shape[2] < k_len:
            n_q, n_k = max(q_len, held.shape[1]), max(k_len, held.shape[2], q_len, held.shape[1])
            r = np.arange(n_k) - np.arange(n_k - n_q, n_k)[:, None]
            held = np.moveaxis(_TABLE[_buckets(r)], -1, 0)
        return held[:, -q_len:, :k_len]

    return bias


sliced_cache_bias = _make_sliced_cache()
