"""Correct ALiBi slopes and biases."""

import math

import numpy as np

from tests.mutants._case import alibi, correct

# --- slopes --------------------------------------------------------------------------------------


@correct(surface="slopes", encoding=alibi(12), thread="class: Press recipe, recursive")
def slopes_by_recursion(num_heads):
    """Powers of a start value, topped up recursively from twice the heads."""

    def series(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(num_heads).is_integer():
        return np.array(series(num_heads))
    c = 2 ** math.floor(math.log2(num_heads))
    return np.array(series(c) + list(slopes_by_recursion(2 * c)[0::2][: num_heads - c]))


@correct(surface="slopes", encoding=alibi(40), thread="class: BLOOM, float32")
def slopes_by_powers(num_heads):
    """base ** [1, 2, ...] and extra_base ** [1, 3, ...] in float32."""
    c = 2 ** math.floor(math.log2(num_heads))
    base = np.float32(2 ** (-(2 ** -(math.log2(c) - 3))))
    slopes = base ** np.arange(1, 1 + c, dtype=np.float32)
    if c != num_heads:
        extra = np.float32(2 ** (-(2 ** -(math.log2(2 * c) - 3))))
        count = min(c, num_heads - c)
        powers = np.arange(1, 1 + 2 * count, 2, dtype=np.float32)
        slopes = np.concatenate([slopes, extra**powers])
    return slopes


@correct(surface="slopes", encoding=alibi(24, max_bias=16.0), thread="class: ggml, two bases")
def slopes_by_two_bases(num_heads):
    """m0^(h+1) for the first heads, m1^(2(h-c)+1) for the others."""
    c = 1 << (num_heads.bit_length() - 1)
    m0, m1 = 2.0 ** (-16.0 / c), 2.0 ** (-8.0 / c)
    return np.array(
        [m0 ** (h + 1) if h < c else m1 ** (2 * (h - c) + 1) for h in range(num_heads)],
        dtype=np.float32,
    )


@correct(surface="slopes", encoding=alibi(6), thread="class: MPT, slopes reordered from 2^k")
def slopes_by_reordering(num_heads):
    """Slopes of the next power of two: odd places first, then even ones, cut to n."""
    c = 2 ** math.ceil(math.log2(num_heads))
    m = 2.0 ** (-np.arange(1, c + 1) * (8.0 / c))
    return m if c == num_heads else np.concatenate([m[1::2], m[::2]])[:num_heads]


# --- ALiBi biases --------------------------------------------------------------------------------


def _slopes(n):
    return slopes_by_reordering(n)


@correct(surface="bias", encoding=alibi(8), thread="class: Press, +m j (row constant)")
def key_position_form(q_len, k_len):
    """m j, shape (H, 1, K): equal to -m (i - j) up to a constant in each row."""
    return _slopes(8)[:, None, None] * np.arange(k_len)[None, None, :]


@correct(surface="bias", encoding=alibi(12), thread="class: BLOOM, (1, H, 1, K) float32")
def cumulative_mask_form(q_len, k_len):
    """Key positions from the cumulated attention mask, with a batch axis."""
    mask = np.ones((1, k_len), np.int64)
    positions = (np.cumsum(mask, axis=-1) - 1) * mask
    return (_slopes(12)[:, None].astype(np.float32) * positions.astype(np.float32))[
        None, :, None, :
    ]


@correct(surface="bias", encoding=alibi(16), thread="mosaicml/llm-foundry#186")
def distance_from_the_last_key(q_len, k_len):
    """m (j - (K - 1)), never positive."""
    return _slopes(16)[:, None, None] * np.arange(1 - k_len, 1)


@correct(surface="bias", encoding=alibi(8), thread="class: dense, signed distance")
def dense_signed_distance(q_len, k_len):
    """m (j - i) for all keys; future ones are masked by the caller."""
    i = np.arange(k_len - q_len, k_len)[:, None]
    return (_slopes(8)[:, None, None] * (np.arange(k_len) - i)).astype(np.float32)


@correct(surface="bias", encoding=alibi(12), thread="class: dense, mask included")
def dense_with_mask(q_len, k_len):
    """-m |i - j| with minus infinity on future keys."""
    d = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
    return np.where(d < 0, -np.inf, -_slopes(12)[:, None, None] * np.abs(d))


@correct(surface="bias", encoding=alibi(32), thread="class: slope times mask (ggml)")
def slope_times_mask(q_len, k_len):
    """The mask holds -|i - j| or minus infinity and is scaled by a slope per head."""
    mask = np.full((q_len, k_len), -np.inf, np.float32)
    for i in range(q_len):
        p = k_len - q_len + i
        for j in range(p + 1):
            mask[i, j] = -abs(p - j)
    return _slopes(32).astype(np.float32)[:, None, None] * mask


@correct(surface="bias", encoding=alibi(8), thread="class: off-by-one constant (paged attention)")
def token_minus_context_length(q_len, k_len):
    """m (j - context + 1) with the context of each query: another row constant."""
    context = np.arange(k_len - q_len, k_len)[:, None] + 2
    return _slopes(8)[:, None, None] * (np.arange(k_len) - context + 1)


@correct(
    surface="bias",
    encoding=alibi(12, causal=False),
    thread="class: symmetric (JinaBERT, MosaicBERT)",
)
def symmetric_distance(q_len, k_len):
    """-m |i - j|."""
    i = np.arange(k_len - q_len, k_len)
    return -np.abs(i[:, None] - np.arange(k_len)[None, :]) * _slopes(12)[:, None, None]


@correct(
    surface="bias",
    encoding=alibi(4, causal=False, max_bias=4.0),
    thread="class: symmetric, Toeplitz view",
)
def symmetric_toeplitz(q_len, k_len):
    """Read-only windows into one line of -m |distance| per head."""
    m = 2.0 ** (-np.arange(1, 5, dtype=np.float64))
    line = -m[:, None] * np.abs(np.arange(1 - k_len, k_len))
    windows = np.lib.stride_tricks.sliding_window_view(line, k_len, axis=-1)
    return windows[:, ::-1][:, k_len - q_len :]
