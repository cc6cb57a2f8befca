"""T5's buckets: direction, sign, spacing; as the function of buckets and as the bias."""

import math

import numpy as np

from ._case import right, wrong

DIRECTION, SIGN, LINEAR = "T5 direction", "T5 sign", "linear buckets"

TABLE = np.random.default_rng(3).standard_normal((32, 4)).astype(np.float32)
SMALL = np.random.default_rng(4).standard_normal((16, 2)).astype(np.float32)
ENCODER = {"encoding": "T5Bias", "table": TABLE}
DECODER = {"encoding": "T5Bias", "table": TABLE, "bidirectional": False}
SMALL_ENCODER = {"encoding": "T5Bias", "table": SMALL, "num_buckets": 16, "max_distance": 64}
SMALL_DECODER = {**SMALL_ENCODER, "bidirectional": False}


def bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    """As the paper's code has it, in float64 in its order of operations."""
    ret = np.zeros_like(relative_position)
    n = -relative_position
    if bidirectional:
        num_buckets //= 2
        ret = ret + (n < 0) * num_buckets
        n = np.abs(n)
    else:
        n = np.maximum(n, 0)
    exact = num_buckets // 2
    far = np.log(np.maximum(n, 1) / exact) / math.log(max_distance / exact)
    far = np.minimum(exact + (far * (num_buckets - exact)).astype(np.int64), num_buckets - 1)
    return ret + np.where(n < exact, n, far)


def linear(relative_position, bidirectional, num_buckets, step=1):
    """Steps of equal width, up to the last bucket."""
    n = -relative_position
    ret = np.zeros_like(n)
    if bidirectional:
        num_buckets //= 2
        ret = (n < 0) * num_buckets
    n = np.abs(n) if bidirectional else np.maximum(n, 0)
    return ret + np.minimum(n // step, num_buckets - 1)


def relative(q_len, k_len):
    return np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]


def looked_up(table, index):
    return np.moveaxis(table[index], -1, 0)


# --- direction -----------------------------------------------------------------------------------


@wrong(DIRECTION, "bucket-direction", "declared bidirectional", surface="bucket",
       encoding=ENCODER)  # fmt: skip
def decoder_buckets_in_an_encoder(relative_position):
    return bucket(relative_position, bidirectional=False)


@wrong(DIRECTION, "bucket-direction", "declared causal", surface="bucket", encoding=DECODER)
def encoder_buckets_in_a_decoder(relative_position):
    return bucket(relative_position)


@wrong(DIRECTION, "bucket-direction", "declared causal", surface="bias", encoding=SMALL_DECODER)
def encoder_bias_in_a_small_decoder(q_len, k_len):
    return looked_up(SMALL, bucket(relative(q_len, k_len), True, 16, 64))


@wrong(DIRECTION, "bucket-direction", "declared bidirectional", surface="bias", encoding=ENCODER)
def decoder_bias_in_an_encoder(q_len, k_len):
    return looked_up(TABLE, bucket(relative(q_len, k_len), bidirectional=False))


@wrong(DIRECTION, "bucket-direction", "bidirectional", surface="scores", encoding=DECODER)
def decoder_logits_with_encoder_buckets(q, k):
    bias = looked_up(TABLE, bucket(relative(q.shape[2], k.shape[2])))
    return q @ k.swapaxes(-1, -2) + bias


@wrong(DIRECTION, "bucket-direction", "declared causal", surface="bias", encoding=SMALL_DECODER,
       backend="torch", dtype="bfloat16", precision="bfloat16")  # fmt: skip
def encoder_bias_in_bfloat16(q_len, k_len):
    import torch

    return torch.tensor(encoder_bias_in_a_small_decoder(q_len, k_len)).to(torch.bfloat16)


@right(DIRECTION, surface="bucket", encoding=DECODER)
def decoder_buckets(relative_position):
    return bucket(relative_position, bidirectional=False)


# --- sign ----------------------------------------------------------------------------------------


@wrong(SIGN, "bucket-sign", "opposite sign", surface="bucket", encoding=ENCODER)
def buckets_of_query_minus_key(relative_position):
    return bucket(-relative_position)


@wrong(SIGN, "bucket-sign", "opposite sign", surface="bucket", encoding=SMALL_DECODER)
def small_decoder_buckets_of_query_minus_key(relative_position):
    return bucket(-relative_position, False, 16, 64)


@wrong(SIGN, "bucket-sign", "opposite sign", surface="bias", encoding=ENCODER)
def bias_by_query_minus_key(q_len, k_len):
    return looked_up(TABLE, bucket(-relative(q_len, k_len)))


@wrong(SIGN, "bucket-sign", "opposite sign", surface="bias", encoding=DECODER, max_position=None)
def decoder_bias_by_query_minus_key(q_len, k_len):
    return looked_up(TABLE, bucket(-relative(q_len, k_len), bidirectional=False))


@wrong(SIGN, "bucket-sign", "opposite sign", surface="bias", encoding=DECODER)
def decoder_bias_by_query_minus_key_in_short_calls(q_len, k_len):
    return decoder_bias_by_query_minus_key(q_len, k_len)


@wrong(SIGN, "bucket-sign", "opposite sign", surface="bias", encoding=SMALL_DECODER)
def small_decoder_bias_by_query_minus_key(q_len, k_len):
    return looked_up(SMALL, bucket(-relative(q_len, k_len), False, 16, 64))


@wrong(SIGN, "bucket-sign", "opposite sign", surface="scores", encoding=SMALL_ENCODER)
def logits_by_query_minus_key(q, k):
    bias = looked_up(SMALL, bucket(-relative(q.shape[2], k.shape[2]), True, 16, 64))
    return q @ k.swapaxes(-1, -2) + bias


@wrong(SIGN, "bucket-sign", "opposite sign", surface="bucket", encoding=ENCODER)
def earlier_keys_in_the_upper_half(relative_position):
    n = np.abs(relative_position)
    return bucket(-n) + 16 * (relative_position < 0)


@right(SIGN, surface="bias", encoding=ENCODER)
def bias_by_key_minus_query(q_len, k_len):
    return looked_up(TABLE, bucket(relative(q_len, k_len)))


# --- spacing -------------------------------------------------------------------------------------


@wrong(LINEAR, "bucket-spacing", "linear", surface="bucket", encoding=ENCODER)
def a_bucket_for_each_distance(relative_position):
    return linear(relative_position, True, 32)


@wrong(LINEAR, "bucket-spacing", "linear", surface="bucket", encoding=DECODER)
def a_bucket_for_each_four_distances(relative_position):
    return linear(relative_position, False, 32, step=4)


@wrong(LINEAR, "bucket-spacing", "linear", surface="bucket", encoding=SMALL_DECODER)
def small_linear_buckets(relative_position):
    return linear(relative_position, False, 16)


@wrong(LINEAR, "bucket-spacing", "linear", surface="bias", encoding=ENCODER)
def bias_of_linear_buckets(q_len, k_len):
    return looked_up(TABLE, linear(relative(q_len, k_len), True, 32))


@wrong(LINEAR, "bucket-spacing", "linear", surface="bias", encoding=SMALL_ENCODER)
def bias_of_wide_linear_buckets(q_len, k_len):
    return looked_up(SMALL, linear(relative(q_len, k_len), True, 16, step=8))


@wrong(LINEAR, "bucket-spacing", "linear", surface="scores", encoding=DECODER)
def logits_of_linear_buckets(q, k):
    bias = looked_up(TABLE, linear(relative(q.shape[2], k.shape[2]), False, 32))
    return q @ k.swapaxes(-1, -2) + bias


@right(LINEAR, surface="bucket", encoding=SMALL_ENCODER)
def logarithmic_buckets(relative_position):
    return bucket(relative_position, True, 16, 64)
