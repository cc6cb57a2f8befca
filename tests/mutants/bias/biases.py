"""Wrong ALiBi slopes and biases."""

import math

import numpy as np

from tests.mutants._case import alibi, wrong
from tests.mutants._parts import bf16, distances, press_slopes

# --- slopes --------------------------------------------------------------------------------------


@wrong("slopes", surface="slopes", encoding=alibi(12), thread="ml-explore/mlx#3071")
def one_series_for_every_head_count(num_heads):
    """2^(-8h/n) even when n is no power of two."""
    return 2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)


@wrong("slopes", "bias-scale", surface="slopes", encoding=alibi(8), thread="paiml/aprender#2143")
def exponent_from_zero(num_heads):
    """2^(-8h/n) with h from zero, so the first slope is one."""
    return 2.0 ** (-8.0 * np.arange(num_heads) / num_heads)


@wrong("bias-sign", surface="slopes", encoding=alibi(8), thread="class: sign put into the slopes")
def negative_slopes(num_heads):
    """Slopes that are meant to be added, not subtracted."""
    return -press_slopes(num_heads)


@wrong(
    "slopes",
    surface="slopes",
    encoding=alibi(12),
    thread="class: slopes sorted by size",
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
    held_out=True,
)
def future_rewarded(q_len, k_len):
    """m (j - i) without an absolute value, declared bidirectional."""
    return press_slopes(8)[:, None, None] * -distances(q_len, k_len)


@wrong(
    "bias-sign",
    "future-keys",
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
    surface="bias",
    encoding=alibi(8),
    thread="class: cached bias rescaled in place at every call (NeMo)",
    held_out=True,
)
class CachedBiasShrinks:
    """The first call of a size is right; each later one divides the cached array again."""

    def __init__(self):
        self.cache = {}

    def __call__(self, q_len, k_len):
        if (q_len, k_len) in self.cache:
            self.cache[q_len, k_len] /= 2.0
        else:
            d = distances(q_len, k_len)
            self.cache[q_len, k_len] = -press_slopes(8)[:, None, None] * d
        return self.cache[q_len, k_len].copy()
