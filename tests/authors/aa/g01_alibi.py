import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import torch


def alibi_head_slopes(num_heads):
    closest = 2 ** round(math.log2(num_heads))
    base = 2.0 ** (-(2.0 ** -(math.log2(closest) - 3)))
    slopes = [base**k for k in range(1, min(closest, num_heads) + 1)]
    if closest < num_heads:
        extra_base = 2.0 ** (-(2.0 ** -(math.log2(2 * closest) - 3)))
        slopes += [extra_base**k for k in range(1, 2 * (num_heads - closest) + 1, 2)]
    return np.asarray(slopes)


def get_slopes(n):
    def power_of_two(m):
        start = 2 ** (-(2 ** -(math.log2(m) - 3)))
        return [start * start**i for i in range(m)]

    if math.log2(n).is_integer():
        return power_of_two(n)
    c = 2 ** math.floor(math.log2(n))
    return power_of_two(c) + power_of_two(2 * c)[: n - c]


def build_slopes(n_head):
    max_bias = 8.0
    n_head_log2 = 1 << int(math.floor(math.log2(n_head)))
    m0 = 2.0 ** (-max_bias / n_head_log2)
    m1 = 2.0 ** (-(max_bias / 2.0) / n_head_log2)
    out = np.empty(n_head, np.float32)
    for h in range(n_head):
        out[h] = m0 ** (h + 1) if h < n_head_log2 else m1 ** (2 * (h - n_head_log2) + 2)
    return out


def tp_slopes(num_heads, tp_size, tp_rank):
    c = 2 ** int(math.log2(num_heads))
    s = [2 ** (-8 * h / c) for h in range(1, c + 1)]
    s += [2 ** (-4 * h / c) for h in range(1, 2 * (num_heads - c), 2)]
    return np.array(s)[tp_rank::tp_size]


def shard_slopes(num_heads, tp_size, tp_rank):
    per_rank = num_heads // tp_size
    c = 2 ** int(math.log2(per_rank))
    s = [2 ** (-8 * h / c) for h in range(1, c + 1)]
    s += [2 ** (-4 * h / c) for h in range(1, 2 * (per_rank - c), 2)]
    return np.array(s)


def attention_bias(q_len, k_len):
    slopes = torch.tensor([2.0 ** -(h + 1) for h in range(8)])
    q = torch.arange(q_len)[:, None]
    k = torch.arange(k_len)[None, :]
    return -slopes[:, None, None] * (q - k).abs()


class _Distances:
    def __init__(self, heads=8):
        self.slopes = 2.0 ** -torch.arange(1, heads + 1, dtype=torch.float64)
        self.rel = {}

    def __call__(self, q_len, k_len):
        if k_len not in self.rel:
            pos = torch.arange(k_len, dtype=torch.float64)
            self.rel[k_len] = (pos[:, None] - pos[None, :]).abs()
        rel = self.rel[k_len][k_len - q_len :]
        return rel.neg_() * self.slopes[:, None, None]


bias_module = _Distances()


def encoder_bias(q_len, k_len):
    i = np.arange(k_len - q_len, k_len)[:, None]
    j = np.arange(k_len)[None, :]
    m = 2.0 ** -np.arange(1.0, 9.0)
    return m[:, None, None] * np.minimum(j - i, 0)


def falcon_scores(q, k):
    d = q.shape[-1]
    s = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(d)
    m = np.array([2.0 ** (-2.0 * h) for h in range(1, 5)])
    i = np.arange(k.shape[2] - q.shape[2], k.shape[2])
    rel = np.arange(k.shape[2])[None, :] - i[:, None]
    return (s + m[:, None, None] * rel).astype(q.dtype)


def bidirectional_alibi(q_len, k_len):
    n_heads = 12
    slopes = torch.pow(2.0, -8.0 * torch.arange(1, n_heads + 1) / n_heads)
    context = torch.arange(k_len - q_len, k_len).view(-1, 1)
    memory = torch.arange(k_len).view(1, -1)
    return slopes.view(-1, 1, 1) * (memory - context)


@lru_cache(maxsize=None)
def exact_slopes(num_heads):
    c = 1
    while 2 * c <= num_heads:
        c *= 2
    exps = [Fraction(8 * h, c) for h in range(1, c + 1)]
    exps += [Fraction(8 * (2 * h + 1), 2 * c) for h in range(num_heads - c)]
    return tuple(math.ldexp(2.0 ** -float(e - e.__floor__()), -e.__floor__()) for e in exps)


def alibi_attention(q, k, v, q_positions, k_positions):
    heads, d = q.shape[1], q.shape[-1]
    group = heads // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    m = np.array([2.0 ** (-8.0 * h / heads) for h in range(1, heads + 1)])
    kp = np.asarray(k_positions, np.float64)
    qp = np.asarray(q_positions, np.float64)
    row = m[:, None, None] * (kp - kp.max())[..., None, None, :]
    s = q.astype(np.float64) @ np.swapaxes(k, -1, -2).astype(np.float64) / math.sqrt(d) + row
    seen = kp[..., None, :] <= qp[..., :, None]
    s = np.where(seen if seen.ndim == 2 else seen[:, None], s, -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    return (s / s.sum(-1, keepdims=True) @ v).astype(q.dtype)


def tiled_bias(q_len, k_len, *, block=16):
    heads = 6
    m = [2.0 ** (-2 * h) for h in (1, 2, 3, 4)] + [2.0**-1, 2.0**-3]
    out = torch.zeros(heads, q_len, k_len)
    ramp = torch.arange(block)
    for qs in range(0, q_len, block):
        for ks in range(0, k_len, block):
            a, b = min(block, q_len - qs), min(block, k_len - ks)
            shift = ks - (qs + k_len - q_len)
            tile = (ramp[None, :b] - ramp[:a, None] + shift).abs().neg()
            for h in range(heads):
                out[h, qs : qs + a, ks : ks + b] = tile * m[h]
    return out


def chunked_scores(q, k):
    heads, d = q.shape[1], q.shape[3]
    q_len, k_len = q.shape[2], k.shape[2]
    m = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], device=q.device)
    i = torch.arange(q_len, device=q.device)[:, None] + (k_len - q_len)
    j = torch.arange(k_len, device=q.device)[None, :]
    bias = (-m[:, None, None] * (i - j).abs()).half().float()
    return ((q.float() @ k.float().mT) / math.sqrt(d) + bias).to(q.dtype)
