"""ALiBi: slopes, shards, biases; NumPy and PyTorch."""
import math

import numpy as np
import torch


def _slopes(n, max_bias=8.0):
    c = 2 ** int(math.floor(math.log2(n)))
    first = [2.0 ** (-max_bias * h / c) for h in range(1, c + 1)]
    more = [2.0 ** (-max_bias * h / (2 * c)) for h in range(1, 2 * c, 2)]
    return np.array((first + more)[:n])


def _offsets(q_len, k_len):
    i = np.arange(k_len - q_len, k_len)[:, None]
    return np.arange(k_len)[None, :] - i


# ---------------------------------------------------------------- right
def slopes_mpt(num_heads):
    """MPT's gen_slopes: all slopes of the next power of two, odd ones first."""
    n = 1 << (num_heads - 1).bit_length()
    m = 2.0 ** (-np.arange(1, n + 1) * (8 / n))
    if n != num_heads:
        m = np.concatenate([m[1::2], m[::2]])[:num_heads]
    return m


def rank_slopes_direct(num_heads, tp_size, tp_rank):
    """Only the rank's own heads, each in closed form."""
    per = num_heads // tp_size
    c = 1 << (num_heads.bit_length() - 1)
    out = []
    for h in range(tp_rank * per, (tp_rank + 1) * per):
        e = -8 * (h + 1) / c if h < c else -4 * (2 * (h - c) + 1) / c
        out.append(math.ldexp(2 ** (e - math.floor(e)), math.floor(e)))
    return np.array(out, np.float32)


def bias_bloom(q_len, k_len):
    """BLOOM: slope times the key's position; equal up to a constant for each query."""
    return (_slopes(16)[:, None] * np.arange(k_len))[:, None, :]


def bias_cumsum(q_len, k_len):
    """Symmetric (causal=False): distances by two cumulative sums of triangular ones."""
    total = torch.ones(k_len, k_len, dtype=torch.float64)
    below = torch.tril(total, -1).flip(-1).cumsum(-1).flip(-1)
    above = torch.triu(total, 1).cumsum(-1)
    d = (below.tril(-1) + above.triu(1))[k_len - q_len :]
    return -torch.as_tensor(_slopes(8))[:, None, None] * d


# ---------------------------------------------------------------- wrong: slopes
def slopes_plain_formula(num_heads):
    return 2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)


def slopes_even_extras(num_heads):
    c = 2 ** math.floor(math.log2(num_heads))
    base = 2.0 ** (-8 * np.arange(1, c + 1) / c)
    extra = 2.0 ** (-4 * np.arange(1, 2 * c + 1) / c)[1::2][: num_heads - c]
    return np.concatenate([base, extra])


def slopes_sorted(num_heads):
    return np.sort(_slopes(num_heads))[::-1].copy()


def slopes_fp16_power(num_heads):
    """Powers of the ratio by repeated products in float16."""

    def powers(n):
        out, r, x = [], np.float16(2.0 ** (-8 / n)), np.float16(1)
        for _ in range(n):
            x = np.float16(x * r)
            out.append(float(x))
        return out

    c = 2 ** math.floor(math.log2(num_heads))
    return np.array((powers(c) + powers(2 * c)[::2])[:num_heads])


# ---------------------------------------------------------------- wrong: shards
def rank_local_count(num_heads, tp_size, tp_rank):
    return _slopes(num_heads // tp_size)


def rank_strided(num_heads, tp_size, tp_rank):
    return _slopes(num_heads)[tp_rank::tp_size]


def rank_padded_heads(num_heads, tp_size, tp_rank):
    """Slopes of the head count rounded up to a power of two, cut to the rank."""
    per = num_heads // tp_size
    padded = 1 << (num_heads - 1).bit_length()
    return _slopes(padded)[tp_rank * per : (tp_rank + 1) * per]


# ---------------------------------------------------------------- wrong: bias
def bias_positive(q_len, k_len):
    return _slopes(8)[:, None, None] * np.abs(_offsets(q_len, k_len))


def bias_no_cache_offset(q_len, k_len):
    i, j = np.arange(q_len)[:, None], np.arange(k_len)[None, :]
    return -_slopes(8)[:, None, None] * np.abs(j - i)


def bias_bf16_range(q_len, k_len):
    j = torch.arange(k_len).to(torch.bfloat16)
    i = torch.arange(k_len - q_len, k_len).to(torch.bfloat16)
    d = (i[:, None] - j[None, :]).abs().double()
    return -torch.as_tensor(_slopes(8))[:, None, None] * d


def bias_clamped(q_len, k_len):
    d = np.minimum(np.abs(_offsets(q_len, k_len)), 512)
    return -_slopes(8)[:, None, None] * d


def bias_signed(q_len, k_len):
    """Declared bidirectional; later keys get a reward."""
    return _slopes(8)[:, None, None] * _offsets(q_len, k_len)


def bias_kv_slopes(q_len, k_len):
    """The slopes of 2 key heads, repeated for the 8 query heads."""
    s = np.repeat(_slopes(2), 4)
    return -s[:, None, None] * np.abs(_offsets(q_len, k_len))


def bias_last_tile_uninitialised(q_len, k_len):
    """Kernel in tiles of 64 keys; the remainder after the last whole tile is never written."""
    s = _slopes(12)
    out = np.zeros((12, q_len, k_len))
    off = np.abs(_offsets(q_len, k_len))
    for t in range(max(1, k_len // 64)):
        sl = slice(64 * t, min(64 * (t + 1), k_len))
        out[:, :, sl] = -s[:, None, None] * off[None, :, sl]
    return out


def bias_two(q_len, k_len):
    """Two mistakes: plain 8h/n slopes for 12 heads, and distances clamped at 256."""
    s = 2.0 ** (-8.0 * np.arange(1, 13) / 12)
    return -s[:, None, None] * np.minimum(np.abs(_offsets(q_len, k_len)), 256)
