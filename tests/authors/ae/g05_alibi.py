"""ALiBi: slopes, shards of heads, biases, logits, attention."""

import math

import numpy as np


def _slopes(n):
    c = 2 ** math.floor(math.log2(n))
    m = [2.0 ** (-8.0 * (h + 1) / c) for h in range(c)]
    m += [2.0 ** (-4.0 * (2 * h + 1) / c) for h in range(n - c)]
    return np.array(m)


# --- right -------------------------------------------------------------------------------


def recursive_slopes(num_heads):
    """Press's get_slopes: a recursion for other numbers of heads."""

    def power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    def get(n):
        if math.log2(n).is_integer():
            return power_of_2(n)
        closest = 2 ** math.floor(math.log2(n))
        return power_of_2(closest) + get(2 * closest)[0::2][: n - closest]

    return np.array(get(num_heads), np.float32)


def slice_of_rank(num_heads, tp_size, tp_rank):
    """Slopes of all heads in closed form, then the contiguous slice of the rank."""
    c = 1 << (int(num_heads).bit_length() - 1)
    h = np.arange(num_heads)
    exponent = np.where(h < c, 8.0 * (h + 1) / c, 4.0 * (2 * (h - c) + 1) / c)
    per = num_heads // tp_size
    return np.exp2(-exponent)[tp_rank * per : (tp_rank + 1) * per].astype(np.float32)


def falcon_row_bias(q_len, k_len):
    """m_h j for every query alike, (H, 1, K): a constant per query away from -m_h (i - j)."""
    return (_slopes(12)[:, None, None] * np.arange(k_len)).astype(np.float32)


def flash_attention(q, k, v, q_positions, k_positions):
    """Online softmax over key blocks of 48, grouped heads without a copy of k and v."""
    b, h, n_q, d = q.shape
    g, n_k = k.shape[1], k.shape[2]
    r = h // g
    m = _slopes(h).reshape(g, r, 1, 1)
    qg = q.reshape(b, g, r, n_q, d).astype(np.float64) / math.sqrt(d)
    at_q, at_k = np.asarray(q_positions), np.asarray(k_positions)
    row = np.arange(n_k - n_q, n_k)[:, None]
    top = np.full((b, g, r, n_q, 1), -np.inf)
    total, out = np.zeros(top.shape), np.zeros((b, g, r, n_q, v.shape[-1]))
    for s in range(0, n_k, 48):
        e = min(s + 48, n_k)
        x = np.einsum("bgrid,bgjd->bgrij", qg, k[:, :, s:e].astype(np.float64))
        dist = np.abs(at_q[..., :, None] - at_k[..., None, s:e]).astype(np.float64)
        if dist.ndim == 3:
            dist = dist[:, None, None]
        x = x - m * dist
        x = np.where(np.arange(s, e) <= row, x, -np.inf)
        new = np.maximum(top, x.max(-1, keepdims=True))
        safe = np.where(np.isfinite(new), new, 0.0)
        w = np.exp(x - safe)
        fix = np.exp(np.where(np.isfinite(top), top - safe, -np.inf))
        total = total * fix + w.sum(-1, keepdims=True)
        out = out * fix + np.einsum("bgrij,bgjd->bgrid", w, v[:, :, s:e].astype(np.float64))
        top = new
    return (out / total).reshape(b, h, n_q, -1).astype(q.dtype)


# --- wrong -------------------------------------------------------------------------------


def sorted_slopes(num_heads):
    return np.sort(_slopes(num_heads))[::-1].astype(np.float32)


def extra_slopes_full_step(num_heads):
    """llama.cpp: m0 = 2^(-8/c), m1 = 2^(-4/c); here m1 is m0."""
    c = 2 ** math.floor(math.log2(num_heads))
    m0 = m1 = 2.0 ** (-8.0 / c)
    return np.array([m0 ** (h + 1) if h < c else m1 ** (2 * (h - c) + 1) for h in range(num_heads)], np.float32)


def slopes_of_local_heads(num_heads, tp_size, tp_rank):
    return _slopes(num_heads // tp_size).astype(np.float32)


def strided_rank(num_heads, tp_size, tp_rank):
    return _slopes(num_heads)[tp_rank::tp_size].astype(np.float32)


def half_precision_bias(q_len, k_len):
    i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
    m = _slopes(8)[:, None, None]
    return (-m * np.abs(i - j)).astype(np.float16).astype(np.float32)


def queries_from_zero_bias(q_len, k_len):
    i, j = np.arange(q_len)[:, None], np.arange(k_len)
    return (-_slopes(8)[:, None, None] * np.abs(i - j)).astype(np.float32)


def encoder_bias_without_future(q_len, k_len):
    """causal=False is declared: later keys must be penalised too."""
    i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
    return (-_slopes(6)[:, None, None] * np.maximum(i - j, 0)).astype(np.float32)


def dropped_tail_attention(q, k, v, q_positions, k_positions):
    """n_k // 64 blocks of keys, and each query's own key: a last block that is not full is lost."""
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    k, v = (np.repeat(t, h // t.shape[1], axis=1) for t in (k, v))
    at_q, at_k = np.asarray(q_positions), np.asarray(k_positions)
    dist = np.abs(at_q[..., :, None] - at_k[..., None, :]).astype(np.float64)
    dist = dist[:, None] if dist.ndim == 3 else dist
    x = (q.astype(np.float64) @ k.swapaxes(-1, -2)) / math.sqrt(d) - _slopes(h)[:, None, None] * dist
    i, j = np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)
    whole = n_k // 64 * 64 if n_k >= 64 else n_k
    seen = (j <= i) & ((j < whole) | (j == i))
    x = np.where(seen, x, -np.inf)
    w = np.exp(x - x.max(-1, keepdims=True))
    return ((w / w.sum(-1, keepdims=True)) @ v).astype(q.dtype)


def slopes_by_key_head_attention(q, k, v, q_positions, k_positions):
    """The slopes of H_kv heads, repeated for the group; and the mask of a square matrix."""
    b, h, n_q, d = q.shape
    g, n_k = k.shape[1], k.shape[2]
    k, v = (np.repeat(t, h // g, axis=1) for t in (k, v))
    m = np.repeat(_slopes(g), h // g)[:, None, None]
    at_q, at_k = np.asarray(q_positions), np.asarray(k_positions)
    dist = np.abs(at_q[..., :, None] - at_k[..., None, :]).astype(np.float64)
    dist = dist[:, None] if dist.ndim == 3 else dist
    x = (q.astype(np.float64) @ k.swapaxes(-1, -2)) / math.sqrt(d) - m * dist
    x = np.where(np.tril(np.ones((n_q, n_k), bool)), x, -np.inf)
    w = np.exp(x - x.max(-1, keepdims=True))
    return ((w / w.sum(-1, keepdims=True)) @ v).astype(q.dtype)
