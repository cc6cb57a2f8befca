"""Wrong T5 buckets and biases."""

import numpy as np

from tests.mutants._case import t5, wrong
from tests.mutants._parts import NO_TABLE, T5_TABLE, bf16, distances, t5_bucket

# --- T5 buckets ----------------------------------------------------------------------------------


@wrong(
    "bucket-direction",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="lucidrains/x-transformers#10",
)
def causal_buckets_for_an_encoder(relative):
    """All 32 buckets for the past, none for the future."""
    return t5_bucket(relative, bidirectional=False)


@wrong(
    "bucket-direction",
    surface="bucket",
    encoding=t5(NO_TABLE, bidirectional=False),
    thread="lucidrains/x-transformers#10",
)
def encoder_buckets_for_a_decoder(relative):
    """Half of the buckets go to keys a decoder never sees."""
    return t5_bucket(relative)


@wrong(
    "bucket-sign",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="dmlc/gluon-nlp#1470",
)
def query_minus_key(relative):
    """Takes the relative position with the opposite sign."""
    return t5_bucket(-np.asarray(relative))


@wrong(
    "bucket-sign",
    surface="bucket",
    encoding=t5(NO_TABLE, bidirectional=False),
    thread="dmlc/gluon-nlp#1470",
)
def decoder_buckets_for_the_future(relative):
    """A causal bucket of the negated relative position: the past is bucket 0."""
    return t5_bucket(-np.asarray(relative), bidirectional=False)


@wrong(
    "bucket-sign",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="class: r >= 0 for r > 0",
    held_out=True,
)
def zero_counts_as_future(relative):
    """The half is chosen by r >= 0, so a token's own bucket is 16."""
    relative = np.asarray(relative)
    return t5_bucket(relative) + 16 * (relative == 0)


@wrong(
    "bucket-clamp",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="class: minimum with the last bucket forgotten",
)
def last_bucket_not_clamped(relative):
    """Distances past 128 run on into buckets that do not exist."""
    relative = np.asarray(relative)
    n = np.abs(relative).astype(np.float32)
    with np.errstate(divide="ignore"):
        large = 8 + (np.log(n / 8) / np.log(128 / 8) * 8)
    return np.where(n < 8, n, large).astype(np.int64) + 16 * (relative > 0)


@wrong(
    "bucket-clamp",
    surface="bucket",
    encoding=t5(NO_TABLE, bidirectional=False),
    thread="class: clamped to num_buckets - 2",
)
def last_bucket_never_used(relative):
    """Clamps one bucket early."""
    return np.minimum(t5_bucket(relative, bidirectional=False), 30)


@wrong(
    "bucket-clamp",
    "bucket-spacing",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="class: max_distance not read",
)
def max_distance_64(relative):
    """Logarithmic buckets end at 64 instead of 128."""
    return t5_bucket(relative, max_distance=64)


@wrong(
    "bucket-spacing",
    surface="bucket",
    encoding=t5(NO_TABLE, max_distance=256),
    thread="class: linear buckets past the exact ones",
)
def linear_buckets(relative):
    """Far distances are spaced evenly."""
    relative = np.asarray(relative)
    n = np.abs(relative)
    far = np.minimum(8 + (n - 8) * 8 // (256 - 8), 15)
    return np.where(n < 8, n, far) + 16 * (relative > 0)


@wrong(
    "bucket-spacing",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="class: ceiling of the logarithm (DeBERTa) for the floor",
)
def ceiling_of_the_logarithm(relative):
    """Rounds the logarithmic bucket up."""
    relative = np.asarray(relative)
    n = np.maximum(np.abs(relative), 1)
    far = np.minimum(8 + np.ceil(np.log(n / 8) / np.log(16) * 8), 15)
    return np.where(n < 8, np.abs(relative), far).astype(np.int64) + 16 * (relative > 0)


@wrong(
    "bucket-spacing",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="class: logarithm in the model dtype (ties and near ties move)",
    held_out=True,
)
def logarithm_in_bf16(relative):
    """Evaluates the logarithmic bucket in bfloat16."""
    relative = np.asarray(relative)
    n = np.abs(relative)
    ratio = bf16(bf16(np.log(bf16(bf16(np.maximum(n, 1)) / 8))) / bf16(np.log(16.0)))
    far = np.minimum(8 + bf16(ratio * 8).astype(np.int64), 15)
    return np.where(n < 8, n, far) + 16 * (relative > 0)


@wrong(
    "bucket-spacing",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="class: log(n/me) * (K / log(md/me)) re-associated in float64",
    held_out=True,
)
def ties_lost_to_reassociation(relative):
    """A re-associated float64 logarithm puts distance 64 one bucket low."""
    relative = np.asarray(relative)
    n = np.abs(relative)
    far = 8 + (np.log(np.maximum(n, 1) / 8) * (8 / np.log(128 / 8))).astype(np.int64)
    return np.where(n < 8, n, np.minimum(far, 15)) + 16 * (relative > 0)


@wrong(
    "bucket-spacing",
    surface="bucket",
    encoding=t5(NO_TABLE, bidirectional=False),
    thread="class: exact range of the bidirectional form kept",
)
def exact_range_halved(relative):
    """A causal map with 8 exact buckets instead of 16."""
    n = np.maximum(-np.asarray(relative), 0)
    far = 8 + np.log(np.maximum(n, 1) / 8) / np.log(128 / 8) * 24
    return np.where(n < 8, n, np.minimum(far, 31)).astype(np.int64)


@wrong(
    "dtype",
    surface="bucket",
    encoding=t5(NO_TABLE),
    thread="class: bucket never cast to an integer",
)
def buckets_are_floats(relative):
    """Returns float32 values with fractions."""
    relative = np.asarray(relative)
    n = np.abs(relative).astype(np.float32)
    far = np.minimum(8 + np.log(np.maximum(n, 1) / 8) / np.log(16) * 8, 15)
    return (np.where(n < 8, n, far) + 16 * (relative > 0)).astype(np.float32)


# --- T5 biases -----------------------------------------------------------------------------------


@wrong(
    "bucket-clamp",
    "bucket-spacing",
    "position-range",
    surface="bias",
    encoding=t5(T5_TABLE),
    thread="class: relative positions from a ring buffer",
)
def t5_distances_wrap(q_len, k_len):
    """Distances start again at 0 after 256 tokens, so far keys get the bias of near ones."""
    r = -distances(q_len, k_len)
    return np.moveaxis(T5_TABLE[t5_bucket(np.sign(r) * (np.abs(r) % 256))], -1, 0)


@wrong("bias-alignment", surface="bias", encoding=t5(T5_TABLE), thread="huggingface/candle#899")
def t5_query_at_zero(q_len, k_len):
    """Query i sits at i although k_len - q_len keys came before."""
    r = np.arange(k_len)[None] - np.arange(q_len)[:, None]
    return T5_TABLE[t5_bucket(r)].transpose(2, 0, 1)


@wrong(
    "bucket-direction",
    surface="bias",
    encoding=t5(T5_TABLE, bidirectional=False),
    thread="lucidrains/x-transformers#10",
    held_out=True,
)
def t5_decoder_with_encoder_buckets(q_len, k_len):
    """The decoder bias reads bidirectional buckets."""
    return np.moveaxis(T5_TABLE[t5_bucket(-distances(q_len, k_len))], -1, 0)


@wrong(
    "bucket-sign",
    surface="bias",
    encoding=t5(T5_TABLE),
    thread="dmlc/gluon-nlp#1470",
)
def t5_transposed(q_len, k_len):
    """The bias of key and query exchanged."""
    return np.moveaxis(T5_TABLE[t5_bucket(distances(q_len, k_len))], -1, 0)


@wrong(
    "bias-scale",
    surface="bias",
    encoding=t5(T5_TABLE),
    thread="class: bias times sqrt(d) (GPT-NeoX style) where it is not declared",
)
def t5_times_sqrt_head_dim(q_len, k_len):
    """The bias is multiplied by sqrt(64)."""
    return 8.0 * np.moveaxis(T5_TABLE[t5_bucket(-distances(q_len, k_len))], -1, 0)


@wrong(
    "bucket-clamp",
    "bucket-spacing",
    surface="bias",
    encoding=t5(T5_TABLE, bidirectional=False),
    thread="class: max_distance not read",
    held_out=True,
)
def t5_decoder_max_distance_64(q_len, k_len):
    """The causal bias saturates at 64."""
    bucket = t5_bucket(-distances(q_len, k_len), bidirectional=False, max_distance=64)
    return np.moveaxis(T5_TABLE[bucket], -1, 0)
