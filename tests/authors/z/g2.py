"""Biases: ALiBi, T5, KERPLE, FIRE, Sandwich, windows."""
import itertools
import math
import os

import numpy as np
import torch

W = dict(np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "w.npz")))


def bloom_slopes(num_heads):
    closest = 2 ** math.floor(math.log2(num_heads))
    base = 2 ** (-(2 ** -(math.log2(closest) - 3)))
    slopes = np.power(base, np.arange(1, 1 + closest))
    if closest != num_heads:
        extra_base = 2 ** (-(2 ** -(math.log2(2 * closest) - 3)))
        remaining = min(closest, num_heads - closest)
        slopes = np.concatenate([slopes, np.power(extra_base, np.arange(1, 1 + remaining))])
    return slopes


def alibi_from_zero(q_len, k_len):
    h = 8
    m = 0.5 ** np.arange(1, h + 1)
    context = np.arange(q_len)[:, None]
    memory = np.arange(k_len)[None, :]
    return -np.abs(memory - context)[None] * m[:, None, None]


def _t5_bucket(rp, nb=32, md=128):
    nb //= 2
    ret = (rp > 0).long() * nb
    n = rp.abs()
    me = nb // 2
    starts = torch.tensor([8, 12, 16, 23, 32, 46, 64, 91])
    big = me - 1 + torch.bucketize(n, starts, right=True)
    return ret + torch.where(n < me, n, big)


class T5Relative:
    def __init__(self, table):
        self.table = table
        self.cached = None

    def __call__(self, q_len, k_len):
        if self.cached is None or self.cached.shape[-1] < k_len:
            pos = torch.arange(k_len)
            b = self.table[_t5_bucket(pos[None, :] - pos[:, None])]
            self.cached = b.permute(2, 0, 1)
        return self.cached[:, -q_len:, :k_len]


_t5 = T5Relative(torch.from_numpy(W["t5"]))


def t5_cached(q_len, k_len):
    return _t5(int(q_len), int(k_len))


def t5_bucket_order(relative_position, num_buckets=32, max_distance=128):
    max_exact = num_buckets // 2
    rp = np.asarray(relative_position)
    num_buckets //= 2
    out = (rp > 0).astype(np.int64) * num_buckets
    rp = np.abs(rp)
    large = max_exact + (
        np.log(np.maximum(rp, 1) / max_exact) / math.log(max_distance / max_exact) * (num_buckets - max_exact)
    ).astype(np.int64)
    large = np.minimum(large, num_buckets - 1)
    return out + np.where(rp < max_exact, rp, large)


def t5_decoder_round(q_len, k_len, nb=16, md=64):
    q = np.arange(k_len - q_len, k_len)[:, None]
    n = np.maximum(q - np.arange(k_len)[None], 0)
    me = nb // 2
    f = me + np.log(np.maximum(n, me) / me) / np.log(md / me) * (nb - me)
    large = np.minimum(np.rint(f).astype(int), nb - 1)
    return W["t5d"][np.where(n < me, n, large)].transpose(2, 0, 1)


def t5_decoder_defaults(q_len, k_len, num_buckets=16, max_distance=128):
    emb = torch.from_numpy(W["t5d"])
    rp = torch.arange(k_len)[None, :] - torch.arange(q_len)[:, None]
    n = -torch.min(rp, torch.zeros_like(rp))
    me = num_buckets // 2
    large = me + (
        torch.log(n.clamp(min=1).double() / me) / math.log(max_distance / me) * (num_buckets - me) + 1e-9
    ).long()
    large = large.clamp(max=num_buckets - 1)
    return emb[torch.where(n < me, n, large)].permute(2, 0, 1)


def kerple_log(q_len, k_len):
    bias_p, bias_a = W["kr"].astype(float), W["kr2"].astype(float)
    diff = np.abs(np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len))
    return -bias_a[:, None, None] * np.log1p(bias_p[:, None, None] * diff)


def kerple_power(q_len, k_len):
    p = torch.from_numpy(W["kr"]).double()[:, None, None]
    a = torch.from_numpy(W["kr2"]).double()[:, None, None]
    i = torch.arange(k_len, dtype=torch.float64)
    d = (i[k_len - q_len:, None] - i[None]).abs()
    return -((p * d) ** a)


def fire_bias(q_len, k_len):
    c, L, eps = 0.1, 64.0, 1e-6
    w1, b1, w2, b2 = [torch.from_numpy(W[n]).double() for n in ("fh", "fb", "fo", "fob")]
    pos = torch.arange(k_len, dtype=torch.float64)
    rel = (pos[k_len - q_len:, None] - pos[None, :]).clamp(min=0)
    norm = torch.log(torch.tensor(1 + c * max(float(k_len - 1), L), dtype=torch.float64)) + eps
    x = torch.log(1 + c * rel) / norm
    h = torch.relu(x[..., None] @ w1.T + b1)
    return (h @ w2.T + b2).permute(2, 0, 1)


def sandwich(q_len, k_len):
    heads, dim = 8, 64
    rel = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)[None, :]
    freq = 10000.0 ** (-2 * np.arange(dim // 2) / dim)
    s = np.zeros(rel.shape)
    for f in freq:
        s += np.cos(rel * f)
    comp = np.arange(1, heads + 1) / heads
    return (s - dim / 2)[None] / comp[:, None, None]


def _last(b, q_len, k_len):
    return b[:, k_len - q_len:k_len, :k_len]


def swin_key_minus_query(q_len, k_len):
    h, w = 5, 7
    coords = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")).flatten(1)
    rel = (coords[:, None, :] - coords[:, :, None]).permute(1, 2, 0).contiguous()
    rel[:, :, 0] += h - 1
    rel[:, :, 1] += w - 1
    rel[:, :, 0] *= 2 * w - 1
    b = torch.from_numpy(W["swin"])[rel.sum(-1).view(-1)].view(h * w, h * w, -1).permute(2, 0, 1)
    return _last(b, q_len, k_len)


def swin_xy(q_len, k_len):
    h, w = 5, 7
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w))).reshape(2, -1)
    rel = coords[:, :, None] - coords[:, None, :]
    idx = (rel[0] + h - 1) * (2 * w - 1) + rel[1] + w - 1
    return _last(W["swin"][idx].transpose(2, 0, 1), q_len, k_len)


def beit_cls(q_len, k_len):
    h, w = 3, 5
    n = (2 * h - 1) * (2 * w - 1) + 3
    y, x = np.divmod(np.arange(h * w), w)
    idx = np.zeros((h * w + 1,) * 2, int)
    idx[1:, 1:] = (y[:, None] - y + h - 1) * (2 * w - 1) + x[:, None] - x + w - 1
    idx[0, 0] = n - 1
    idx[0, 1:] = n - 3
    idx[:, 0] = n - 2
    return _last(np.moveaxis(W["beit"][idx], -1, 0), q_len, k_len)


def log_cpb(q_len, k_len):
    h, w = 4, 6
    a = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij"), -1).reshape(-1, 2)
    d = (a[:, None] - a[None]).astype(float)
    d /= np.array([h - 1, w - 1])
    d *= 8
    d = np.sign(d) * np.log2(np.abs(d) + 1) / np.log2(8)
    z = np.maximum(d @ W["ch"].T.astype(float) + W["cb"], 0) @ W["co"].T.astype(float)
    return _last((16 / (1 + np.exp(-z))).transpose(2, 0, 1), q_len, k_len)


def swin_index(window):
    h, w = window
    coords = np.indices((h, w)).reshape(2, -1)
    rel = coords[:, :, None] - coords[:, None, :]
    return (rel[0] + h - 1) * (2 * h - 1) + (rel[1] + w - 1)


# ---- right ----

def alibi_strided(q_len, k_len):
    line = np.concatenate([np.arange(k_len - 1, 0, -1), np.arange(k_len)]).astype(np.float64)
    win = np.lib.stride_tricks.sliding_window_view(-line, k_len)[::-1]
    m = 2.0 ** -np.arange(1.0, 9.0)
    return m[:, None, None] * win[k_len - q_len:k_len][None]


def t5_bucket_table(relative_position):
    starts = np.array([8, 12, 16, 23, 32, 46, 64, 91])
    n = np.abs(relative_position)
    return np.where(n < 8, n, 7 + np.searchsorted(starts, n, side="right")) + 16 * (np.asarray(relative_position) > 0)


def one_key_index(window):
    h, w = window
    key = (np.arange(h)[:, None] * (2 * w - 1) + np.arange(w)).ravel()
    return np.subtract.outer(key, key) + key[-1]


def levit_dict(q_len, k_len):
    points = list(itertools.product(range(3), range(4)))
    offsets, idx = {}, []
    for a in points:
        for b in points:
            o = (abs(a[0] - b[0]), abs(a[1] - b[1]))
            idx.append(offsets.setdefault(o, len(offsets)))
    table = torch.from_numpy(W["levit"]).T
    return _last(table[:, torch.tensor(idx).view(12, 12)], q_len, k_len)
