"""Attention outputs (B, H, Q, D_v). Key heads may be fewer than query heads."""

import math

import numpy as np
import torch


def weights(seed, *shape, size=0.5):
    return (size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def spread(x, heads):
    return np.repeat(x, heads // x.shape[1], axis=1)


def distance(q_positions, k_positions):
    """(1 or B, 1, Q, K)"""
    i, j = np.asarray(q_positions), np.asarray(k_positions)
    d = i[..., :, None] - j[..., None, :]
    return d[None, None] if d.ndim == 2 else d[:, None]


def causal(n_q, n_k):
    return np.arange(n_k) <= np.arange(n_k - n_q, n_k)[:, None]


def slopes(heads):
    n = 2 ** math.floor(math.log2(heads))
    out = [2.0 ** (-8.0 * (h + 1) / n) for h in range(n)]
    return np.array(out + [2.0 ** (-4.0 * (2 * h + 1) / n) for h in range(heads - n)])


def flash_alibi(q, k, v, q_positions, k_positions, block=7):
    """Blocks of keys with a running maximum and a running sum."""
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    q64, k64, v64 = (np.asarray(a, np.float64) for a in (q, spread(k, h), spread(v, h)))
    far, seen = np.abs(distance(q_positions, k_positions)), causal(n_q, n_k)
    top = np.full((b, h, n_q, 1), -np.inf)
    total, acc = np.zeros((b, h, n_q, 1)), np.zeros((b, h, n_q, v.shape[-1]))
    for start in range(0, n_k, block):
        part = slice(start, start + block)
        s = q64 @ k64[:, :, part].swapaxes(-1, -2) / math.sqrt(d)
        s = s - slopes(12)[:, None, None] * far[..., part]
        s = np.where(seen[:, part], s, -np.inf)
        new = np.maximum(top, s.max(-1, keepdims=True))
        safe = np.where(np.isfinite(new), new, 0.0)
        p, keep = np.exp(s - safe), np.exp(np.where(np.isfinite(top), top - safe, -np.inf))
        total = total * keep + p.sum(-1, keepdims=True)
        acc = acc * keep + p @ v64[:, :, part]
        top = new
    return (acc / total).astype(q.dtype)


KERPLE_1, KERPLE_2 = [0.4, 0.9, 1.5, 2.2], [1.2, 0.7, 0.3, 0.1]


def sdpa_kerple(q, k, v, q_positions, k_positions):
    """The bias and the mask go to scaled_dot_product_attention as one float mask."""
    h, n_q, n_k = q.shape[1], q.shape[2], k.shape[2]
    i, j = (torch.as_tensor(np.asarray(p)).double() for p in (q_positions, k_positions))
    d = (i[..., :, None] - j[..., None, :]).abs()
    d = d[None, None] if d.ndim == 2 else d[:, None]
    r1, r2 = (torch.tensor(r, dtype=torch.float64)[:, None, None] for r in (KERPLE_1, KERPLE_2))
    bias = -r1 * torch.log1p(r2 * d)
    later = torch.ones(n_q, n_k, dtype=torch.bool).triu(n_k - n_q + 1)
    bias = bias.masked_fill(later, float("-inf"))
    k, v = (x.repeat_interleave(h // x.shape[1], dim=1).double() for x in (k, v))
    bias = bias.expand(q.shape[0], h, n_q, n_k)
    return torch.nn.functional.scaled_dot_product_attention(q.double(), k, v, bias).to(q.dtype)


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


GATES = -np.abs(weights(141, 4, 400, size=0.9))


def fox_as_decays(q, k, v, q_positions, k_positions):
    """exp(c_i) / exp(c_j) in float32, as linear attention has its decays."""
    h, n_q, n_k = q.shape[1], q.shape[2], k.shape[2]
    decay = np.exp(np.cumsum(GATES, axis=1, dtype=np.float64)).astype(np.float32)
    at_q, at_k = (decay[:, np.asarray(p)] for p in (q_positions, k_positions))
    if at_q.ndim == 3:
        at_q, at_k = at_q.swapaxes(0, 1), at_k.swapaxes(0, 1)
    tiny = np.float32(1e-30)
    ratio = (at_q[..., :, None] + tiny) / (at_k[..., None, :] + tiny)
    s = q @ spread(k, h).swapaxes(-1, -2) / np.float32(math.sqrt(q.shape[-1]))
    s = np.where(causal(n_q, n_k), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True)) * ratio
    return (p / p.sum(-1, keepdims=True) @ spread(v, h)).astype(q.dtype)


def sandwich_square_mask(q, k, v, q_positions, k_positions, dim=64):
    h, n_q, n_k = q.shape[1], q.shape[2], k.shape[2]
    omega = 10000.0 ** (-2 * np.arange(1, dim // 2 + 1) / dim)
    total = np.cos(distance(q_positions, k_positions)[..., None] * omega).sum(-1) - dim / 2
    s = q.astype(np.float64) @ spread(k, h).swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = s + total / (8.0 * np.arange(1, h + 1) / h)[:, None, None]
    s = np.where(np.tril(np.ones((n_q, n_k), bool)), s, -np.inf)
    return (softmax(s) @ spread(v, h)).astype(q.dtype)


def kerple_plain_exp(q, k, v, q_positions, k_positions):
    h, n_q, n_k = q.shape[1], q.shape[2], k.shape[2]
    r1, r2 = (np.array(r)[:, None, None] for r in (KERPLE_1, KERPLE_2))
    bias = (-r1 * np.log1p(r2 * np.abs(distance(q_positions, k_positions)))).astype(np.float32)
    s = (q @ spread(k, h).swapaxes(-1, -2)).astype(np.float32) / np.float32(math.sqrt(q.shape[-1]))
    e = np.where(causal(n_q, n_k), np.exp(s + bias), np.float32(0))
    return (e / e.sum(-1, keepdims=True) @ spread(v, h)).astype(q.dtype)


T5 = weights(142, 32, 8, size=1.0)


def t5_decoder_groups(q, k, v, q_positions, k_positions):
    """A decoder's self-attention with fewer key heads: key heads are tiled; a usual softmax scale."""
    h, n_q, n_k, d = q.shape[1], q.shape[2], k.shape[2], q.shape[-1]
    k, v = (np.tile(x, (1, h // x.shape[1], 1, 1)).astype(np.float64) for x in (k, v))
    n = np.maximum(distance(q_positions, k_positions)[:, 0], 0)
    large = 16 + np.floor(np.log(np.maximum(n, 1) / 16) / math.log(8) * 16 + 1e-9).astype(int)
    bias = np.moveaxis(T5[np.where(n < 16, n, np.minimum(large, 31))], -1, 1)
    s = q.astype(np.float64) @ k.swapaxes(-1, -2) / math.sqrt(d) + bias
    s = np.where(causal(n_q, n_k), s, -np.inf)
    return (softmax(s) @ v).astype(q.dtype)
