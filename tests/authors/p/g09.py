"""More encodings by hand."""
import math

import numpy as np
import torch


class LlamaRotaryEmbedding(torch.nn.Module):
    def __init__(self, dim=128, max_position_embeddings=8192, base=10000):
        super().__init__()
        inv = 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, position_ids):
        f = position_ids.double()[..., None] * self.inv_freq
        emb = torch.cat((f, f), -1)
        return emb.cos(), emb.sin()


_llama = LlamaRotaryEmbedding()


def llama_apply(x, positions):
    cos, sin = _llama(positions)
    if cos.dim() == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    h = x.shape[-1] // 2
    rotated = torch.cat((x[..., h:], -x[..., :h]), -1)
    return (x * cos + rotated * sin).to(x.dtype)


def gpt_oss_cos_sin(positions):
    d, base, s, length = 64, 150000.0, 32.0, 4096
    inv = base ** (-np.arange(0, d, 2) / d)
    c = lambda r: d * math.log(length / (r * 2 * math.pi)) / (2 * math.log(base))
    lo, hi = max(math.floor(c(32.0)), 0), min(math.ceil(c(1.0)), d - 1)
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    a = np.multiply.outer(np.asarray(positions, np.float64), inv * (1 - w) + inv / s * w)
    return np.cos(a), np.sin(a)


def timestep_table(positions):
    dim = 320
    half = dim // 2
    f = np.exp(-math.log(10000.0) * np.arange(half) / (half - 1))
    a = np.asarray(positions, np.float64)[:, None] * f
    return np.concatenate([np.sin(a), np.cos(a)], -1)


class PartialDecoder:
    def __init__(self, head_dim, rotary_dim):
        self.rd = rotary_dim
        self.inv = 10000.0 ** (-np.arange(0, rotary_dim, 2) / head_dim)
        self.pos, self.cached = 0, False

    def step(self, x):
        n = x.shape[-2]
        a = np.outer(np.arange(self.pos, self.pos + n), self.inv)
        self.pos = self.pos + n if self.cached else n - 1
        self.cached = True
        r, keep = x[..., : self.rd], x[..., self.rd:]
        r1, r2 = np.split(r, 2, -1)
        y = np.concatenate([r1 * np.cos(a) - r2 * np.sin(a), r2 * np.cos(a) + r1 * np.sin(a)], -1)
        return np.concatenate([y.astype(x.dtype), keep], -1)


def partial_decode(x, chunks):
    d = PartialDecoder(80, 32)
    edges = np.cumsum([0, *chunks])
    return np.concatenate([d.step(x[..., a:b, :]) for a, b in zip(edges[:-1], edges[1:])], -2)


def llama32_frequencies():
    inv = 500000.0 ** (-np.arange(0, 64, 2) / 64)
    factor, low, high, old = 8.0, 1.0, 4.0, 131072
    turns = old * inv / (2 * np.pi)
    t = np.clip((turns - low) / (high - low), 0, 1)
    return inv * ((1 - t) / factor + t)


def detr_position(height, width):
    n = 64
    w = 10000.0 ** (-2 * np.arange(n // 2) / n)

    def side(c, last):
        a = (c / (last + 1e-6) * 2 * np.pi)[:, None] * w
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(len(c), n)

    ey = side(np.arange(height, dtype=np.float64), height)
    ex = side(np.arange(width, dtype=np.float64), width)
    out = np.concatenate([np.broadcast_to(ex[None], (height, width, n)), np.broadcast_to(ey[:, None], (height, width, n))], -1)
    return out.reshape(height * width, 2 * n)


def temperature(q, k, v, q_positions, k_positions):
    p = np.asarray(q_positions, np.float64)
    t = 1 + 0.1 * np.log(1 + p / 64)
    g = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, g, axis=1), np.repeat(v, g, axis=1)
    t = t[:, None, :, None] if t.ndim == 2 else t[:, None]
    s = np.einsum("bhqd,bhkd->bhqk", q * t, k) / math.sqrt(q.shape[-1])
    n, m = s.shape[-2:]
    s = np.where(np.arange(m) <= np.arange(n)[:, None] + m - n, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkd->bhqd", e / e.sum(-1, keepdims=True), v).astype(q.dtype)


def xpos_pair(q, k, q_positions, k_positions):
    d = q.shape[-1]
    inv = 10000.0 ** (-np.arange(0, d, 2) / d)
    zeta = (np.arange(0, d, 2) / d + 0.4) / 1.4

    def turn(x, p, sign):
        p = np.asarray(p, np.float64)[..., None]
        a = np.tile(p * inv, 2)
        s = np.tile(zeta ** (sign * p), 2)
        if a.ndim == 3:
            a, s = a[:, None], s[:, None]
        u, v = np.split(x, 2, -1)
        return ((x * np.cos(a) + np.concatenate([v, -u], -1) * np.sin(a)) * s).astype(x.dtype)

    return turn(q, q_positions, 1 / 512), turn(k, k_positions, -1 / 256)
