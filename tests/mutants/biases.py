"""Wrong ALiBi slopes and biases, wrong T5 buckets and biases."""

import math

import numpy as np

from ._case import alibi, t5, wrong
from ._parts import bf16

T5_TABLE = (np.sin(np.arange(32 * 4, dtype=np.float64) * 1.7).reshape(32, 4) * 3).astype(np.float32)
NO_TABLE = np.zeros((32, 2), np.float32)


def press_slopes(n, max_bias=8.0):
    """The published recipe: a geometric series, topped up from the next power of two."""
    c = 2 ** int(math.log2(n))
    slopes = [2.0 ** (-max_bias * (h + 1) / c) for h in range(c)]
    slopes += [2.0 ** (-max_bias * (h + 1) / (2 * c)) for h in range(0, 2 * (n - c), 2)]
    return np.array(slopes, np.float32)


def distances(q_len, k_len):
    """Query position minus key position, queries at the end."""
    return (k_len - q_len + np.arange(q_len))[:, None] - np.arange(k_len)


def t5_bucket(relative, bidirectional=True, num_buckets=32, max_distance=128):
    """Buckets by comparing powers of integers."""
    relative = np.asarray(relative, np.int64)
    size = num_buckets // 2 if bidirectional else num_buckets
    exact = size // 2
    n = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    first = [
        next(m for m in range(exact, max_distance + 1) if _reaches(m, k, exact, size, max_distance))
        for k in range(1, size - exact)
    ]
    bucket = np.where(n < exact, n, exact + np.searchsorted(np.array(first), n, side="right"))
    return bucket + size * (relative > 0) if bidirectional else bucket


def _reaches(n, k, exact, size, max_distance):
    """(n/exact)^(size - exact) >= (max_distance/exact)^k in integers."""
    steps = size - exact
    return n**steps * exact**k >= max_distance**k * exact**steps


# --- slopes --------------------------------------------------------------------------------------


@wrong("slopes", surface="slopes", encoding=alibi(12), thread="ml-explore/mlx#3071")
def one_series_for_every_head_count(num_heads):
    """2^(-8h/n) even when n is no power of two."""
    return 2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)


@wrong("slopes", "bias-scale", surface="slopes", encoding=alibi(8), thread="paiml/aprender#2143")
def exponent_from_zero(num_heads):
    """2^(-8h/n) with h from zero, so the first slope is one."""
    return 2.0 ** (-8.0 * np.arange(num_heads) / num_heads)


@wrong(
    "slopes",
    surface="slopes",
    encoding=alibi(12),
    thread="class: slopes sorted by size",
    held_out=True,
)
def sorted_slopes(num_heads):
    """The right set of slopes in descending order."""
    return np.sort(press_slopes(num_heads))[::-1]


@wrong(
    "slopes",
    surface="slopes",
    encoding=alibi(16, max_bias=16.0),
    thread="class: alibi_bias_max not read",
)
def max_bias_ignored(num_heads):
    """Exponents reach 8 although 16 is declared."""
    return press_slopes(num_heads)


@wrong(
    "slopes",
    surface="slopes",
    encoding=alibi(20),
    thread="ml-explore/mlx#3071",
    held_out=True,
)
def top_up_taken_without_the_stride(num_heads):
    """Extra heads take the first slopes of the longer series instead of every second one."""
    c = 2 ** int(math.log2(num_heads))
    extra = [2.0 ** (-4.0 * (h + 1) / c) for h in range(num_heads - c)]
    return np.array([2.0 ** (-8.0 * (h + 1) / c) for h in range(c)] + extra)


@wrong("slopes", surface="slopes", encoding=alibi(6), thread="ml-explore/mlx#3071")
def rounded_up_to_a_power_of_two(num_heads):
    """The first n slopes of the next power of two."""
    c = 2 ** math.ceil(math.log2(num_heads))
    return np.array([2.0 ** (-8.0 * (h + 1) / c) for h in range(num_heads)])


@wrong(
    "state",
    surface="slopes",
    encoding=alibi(8),
    thread="class: slopes rescaled in place at every call (NeMo)",
    held_out=True,
)
class SlopesShrinkWithEveryCall:
    """The buffer is divided by the interpolation factor each time it is read."""

    def __init__(self):
        self.factor = np.float32(1.0)

    def __call__(self, num_heads):
        slopes = press_slopes(num_heads) * self.factor
        self.factor *= np.float32(0.5)
        return slopes


@wrong(
    "slopes",
    "bias-scale",
    surface="bias",
    encoding=alibi(12),
    thread="ml-explore/mlx#3071",
)
def bias_with_one_series(q_len, k_len):
    """A right bias on naive slopes for 12 heads."""
    m = 2.0 ** (-8.0 * np.arange(1, 13) / 12)
    return (-m[:, None, None] * distances(q_len, k_len)).astype(np.float32)


@wrong(
    "table-precision",
    "slopes",
    surface="slopes",
    encoding=alibi(12),
    thread="mosaicml/llm-foundry#329",
    held_out=True,
)
def slopes_in_bf16(num_heads):
    """Slopes rounded to bfloat16, which moves the four extra heads of twelve."""
    return bf16(press_slopes(num_heads))


# --- ALiBi biases --------------------------------------------------------------------------------


@wrong("bias-sign", surface="bias", encoding=alibi(8), thread="meta-pytorch/attention-gym#86")
def distance_rewarded(q_len, k_len):
    """+m (i - j): far keys win."""
    return press_slopes(8)[:, None, None] * distances(q_len, k_len)


@wrong(
    "bias-sign",
    "future-keys",
    surface="bias",
    encoding=alibi(8, causal=False),
    thread="class: signed distance without a causal mask (jaketae/alibi)",
)
def future_rewarded(q_len, k_len):
    """m (j - i) without an absolute value, declared bidirectional."""
    return press_slopes(8)[:, None, None] * -distances(q_len, k_len)


@wrong(
    "future-keys",
    "bias-sign",
    surface="bias",
    encoding=alibi(12, causal=False),
    thread="mosaicml/llm-foundry#186",
    held_out=True,
)
def causal_row_form_in_an_encoder(q_len, k_len):
    """+m j, right up to a row constant for past keys only, declared bidirectional."""
    return press_slopes(12)[:, None, None] * np.arange(k_len)[None, None, :]


@wrong(
    "future-keys",
    "bias-sign",
    surface="bias",
    encoding=alibi(4, causal=False),
    thread="class: distance clamped at zero",
)
def future_keys_are_free(q_len, k_len):
    """-m max(i - j, 0), declared bidirectional: no penalty to the right."""
    return -press_slopes(4)[:, None, None] * np.maximum(distances(q_len, k_len), 0)


@wrong(
    "bias-alignment",
    surface="bias",
    encoding=alibi(8),
    thread="class: queries aligned with the first keys (top-left)",
)
def queries_at_the_front(q_len, k_len):
    """-m |i - j| with query i at position i, whatever came before."""
    d = np.arange(q_len)[:, None] - np.arange(k_len)
    return -press_slopes(8)[:, None, None] * np.abs(d)


@wrong(
    "bias-alignment",
    surface="bias",
    encoding=alibi(16),
    thread="huggingface/candle#899",
    held_out=True,
)
def decoded_query_at_zero(q_len, k_len):
    """A single query is placed at zero; longer calls are right."""
    d = distances(q_len, k_len) if q_len > 1 else -np.arange(k_len)[None]
    return -press_slopes(16)[:, None, None] * np.abs(d)


@wrong(
    "bias-alignment",
    surface="bias",
    encoding=alibi(8, causal=False),
    thread="class: off by one in the key count",
    held_out=True,
)
def queries_one_step_late(q_len, k_len):
    """-m |i + 1 - j|: the nearest key is the next one."""
    return -press_slopes(8)[:, None, None] * np.abs(distances(q_len, k_len) + 1)


@wrong("bias-scale", surface="bias", encoding=alibi(8), thread="class: factor two on the bias")
def twice_the_penalty(q_len, k_len):
    """-2 m (i - j)."""
    return -2.0 * press_slopes(8)[:, None, None] * distances(q_len, k_len)


@wrong(
    "bias-scale",
    surface="bias",
    encoding=alibi(12),
    thread="NVIDIA/TensorRT-Model-Connect#32 (class: bias inside 1/sqrt(d))",
    held_out=True,
)
def divided_by_sqrt_head_dim(q_len, k_len):
    """The bias is divided by sqrt(64), as in (qk + b)/sqrt(d)."""
    return -press_slopes(12)[:, None, None] * distances(q_len, k_len) / np.float32(8.0)


@wrong(
    "table-precision",
    "position-precision",
    surface="bias",
    encoding=alibi(8),
    thread="mosaicml/llm-foundry#329",
)
def bias_in_bf16(q_len, k_len):
    """m j is rounded to bfloat16, so distant keys merge; the array is float32."""
    return bf16(press_slopes(8)[:, None, None] * np.arange(k_len)[None, None, :])


@wrong(
    "shape",
    surface="bias",
    encoding=alibi(8),
    thread="class: heads last",
)
def heads_come_last(q_len, k_len):
    """Returns (Q, K, H)."""
    return -press_slopes(8) * distances(q_len, k_len)[..., None]


@wrong(
    "nonfinite",
    surface="bias",
    encoding=alibi(8),
    thread="class: 0 * inf in a mask added to a bias",
)
def mask_multiplied_by_zero(q_len, k_len):
    """Adds 0 * inf on visible keys."""
    d = distances(q_len, k_len)
    with np.errstate(invalid="ignore"):
        mask = np.where(d < 0, 1.0, 0.0) * -np.inf
    return (-press_slopes(8)[:, None, None] * d + mask).astype(np.float32)


@wrong(
    "state",
    "bias-alignment",
    surface="bias",
    encoding=alibi(8),
    thread="class: bias cached for the first key length of a query length",
    held_out=True,
)
class BiasCachedByQueryLength:
    """The bias of the longest call so far is cut from the front, as if queries began at zero."""

    def __init__(self):
        self.full = np.empty((8, 0, 0), np.float32)

    def __call__(self, q_len, k_len):
        if self.full.shape[1] < q_len or self.full.shape[2] < k_len:
            self.full = -press_slopes(8)[:, None, None] * np.abs(distances(q_len, k_len))
        return self.full[:, :q_len, :k_len]


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
    held_out=True,
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
    held_out=True,
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
    held_out=True,
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
)
def t5_decoder_with_encoder_buckets(q_len, k_len):
    """The decoder bias reads bidirectional buckets."""
    return np.moveaxis(T5_TABLE[t5_bucket(-distances(q_len, k_len))], -1, 0)


@wrong(
    "bucket-sign",
    surface="bias",
    encoding=t5(T5_TABLE),
    thread="dmlc/gluon-nlp#1470",
    held_out=True,
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
