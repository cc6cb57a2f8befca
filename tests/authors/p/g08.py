"""Attention whose logits depend on the length."""
import math

import numpy as np


def _rope(x, p, base=10000.0):
    d = x.shape[-1]
    a = np.asarray(p, np.float64)[..., None] * base ** (-np.arange(0, d, 2) / d)
    if a.ndim == 3:
        a = a[:, None]
    u, v = np.split(x.astype(np.float64), 2, -1)
    return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1)


def _attend(q, k, v, factor, scale=None):
    g = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, g, 1).astype(np.float64), np.repeat(v, g, 1).astype(np.float64)
    logits = q @ np.swapaxes(k, -1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    f = np.asarray(factor, np.float64)
    logits = logits * (f[:, None, :, None] if f.ndim == 2 else f[:, None])
    n, m = logits.shape[-2:]
    logits = np.where(np.tri(n, m, m - n, dtype=bool), logits, -np.inf)
    w = np.exp(logits - logits.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True) @ v


def ministral(q, k, v, q_positions, k_positions):
    t = 1 + 0.1 * np.log(1 + np.asarray(q_positions, np.float64) / 64)
    return _attend(_rope(q, q_positions), _rope(k, k_positions), v, t).astype(q.dtype)


def llama4_nope(q, k, v, q_positions, k_positions):
    p = np.arange(q.shape[-2])
    t = 1 + 0.1 * np.log1p(np.floor((p + 1.0) / 64))
    return _attend(q, k, v, t).astype(q.dtype)


def qwen_logn(q, k, v, q_positions, k_positions):
    i = np.asarray(q_positions, np.float64)
    t = np.log(i + 1) / math.log(64)
    return _attend(_rope(q, q_positions), _rope(k, k_positions), v, t).astype(q.dtype)


def softmax_scale():
    qk_nope_head_dim, qk_rope_head_dim = 128, 64
    mscale = 0.1 * 1.0 * math.log(40.0) + 1.0
    return (qk_nope_head_dim + qk_rope_head_dim) ** -0.5 * mscale
