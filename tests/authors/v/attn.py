"""Attention with biases: groups, masks, sinks."""
import math

import numpy as np
import torch


def _slopes(h):
    return 2.0 ** (-8.0 * np.arange(1, h + 1) / h)


def _alibi(q_positions, k_positions, h):
    d = np.abs(np.asarray(q_positions, float)[:, None] - np.asarray(k_positions, float)[None])
    return -_slopes(h)[:, None, None] * d


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _causal(n_q, n_k):
    return np.arange(n_k)[None] <= np.arange(n_k - n_q, n_k)[:, None]


# ---- n01 (wrong): groups: keys are tiled (repeat), head h reads key head h % H_kv
def attention_tiled_groups(q, k, v, q_positions, k_positions):
    h, g = q.shape[1], k.shape[1]
    k, v = (x.double().repeat(1, h // g, 1, 1) for x in (k, v))
    s = q.double() @ k.mT / math.sqrt(q.shape[-1])
    s = s + torch.tensor(_alibi(q_positions, k_positions, h))
    s = s.masked_fill(~torch.tensor(_causal(q.shape[2], k.shape[2])), float("-inf"))
    return (torch.softmax(s, -1) @ v).to(q.dtype)


# ---- n02 (wrong): tril(ones(Q, K)): the mask is aligned at the top left
def attention_top_left(q, k, v, q_positions, k_positions):
    h, g = q.shape[1], k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), h // g, axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + _alibi(q_positions, k_positions, h)
    s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -1e30)
    return (_softmax(s) @ v).astype(q.dtype)


# ---- n03 (wrong): "softmax off by one": the sink's logit is taken as 0
def attention_sink_zero(q, k, v, q_positions, k_positions, sinks=None):
    h, g = q.shape[1], k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), h // g, axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + _alibi(q_positions, k_positions, h)
    s = np.where(_causal(*s.shape[-2:]), s, -np.inf)
    top = np.maximum(s.max(-1, keepdims=True), 0)
    e = np.exp(s - top)
    return (e / (e.sum(-1, keepdims=True) + np.exp(-top)) @ v).astype(q.dtype)


# ---- n04 (wrong): the bias is added after the softmax's scale of the kernel: scale * (qk + b)
def attention_sdpa_inside(q, k, v, q_positions, k_positions):
    h, g, d = q.shape[1], k.shape[1], q.shape[-1]
    k, v = (x.double().repeat_interleave(h // g, 1) for x in (k, v))
    bias = torch.tensor(_alibi(q_positions, k_positions, h))
    mask = torch.zeros_like(bias).masked_fill(
        ~torch.tensor(_causal(q.shape[2], k.shape[2])), float("-inf"))
    s = (q.double() @ k.mT + bias + mask) * d ** -0.5
    return (s.softmax(-1) @ v).to(q.dtype)


# ---- n05 (wrong, two): slopes per key head (repeated over the group), and a mask without diagonal
def attention_two(q, k, v, q_positions, k_positions):
    h, g = q.shape[1], k.shape[1]
    kk, vv = (np.repeat(x.astype(np.float64), h // g, axis=1) for x in (k, v))
    bias = np.repeat(_alibi(q_positions, k_positions, g), h // g, axis=0)
    s = q @ kk.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias
    n_q, n_k = s.shape[-2:]
    seen = np.arange(n_k)[None] < np.maximum(np.arange(n_k - n_q, n_k), 1)[:, None]
    return (_softmax(np.where(seen, s, -np.inf)) @ vv).astype(q.dtype)


# ---- n06 (right): online softmax over blocks of keys
def right_online(q, k, v, q_positions, k_positions):
    h, g, d = q.shape[1], k.shape[1], q.shape[-1]
    n_q, n_k, block = q.shape[2], k.shape[2], 5
    q64 = q.astype(np.float64).reshape(q.shape[0], g, h // g, n_q, d)
    bias = _alibi(q_positions, k_positions, h).reshape(g, h // g, n_q, n_k)
    seen = _causal(n_q, n_k)
    top = np.full((*q64.shape[:-1], 1), -np.inf)
    total = np.zeros_like(top)
    acc = np.zeros((*q64.shape[:-1], v.shape[-1]))
    for a in range(0, n_k, block):
        ks, vs = (x[:, :, None, a:a + block].astype(np.float64) for x in (k, v))
        s = q64 @ ks.swapaxes(-1, -2) / math.sqrt(d) + bias[..., a:a + block]
        s = np.where(seen[:, a:a + block], s, -np.inf)
        new = np.maximum(top, s.max(-1, keepdims=True))
        safe = np.where(np.isfinite(new), new, 0)
        shrink, e = np.exp(top - safe), np.exp(s - safe)
        total = total * shrink + e.sum(-1, keepdims=True)
        acc = acc * shrink + e @ vs
        top = new
    return (acc / total).reshape(q.shape[0], h, n_q, -1).astype(q.dtype)
