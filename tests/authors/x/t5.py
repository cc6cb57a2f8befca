"""Bucketed biases and DeBERTa's buckets."""
import math
import os

import numpy as np
import torch

W = np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.npz"))


def _bucket(rel, nb=32, md=128, bidirectional=True):
    rel = torch.as_tensor(np.asarray(rel)).long()
    ret = torch.zeros_like(rel)
    if bidirectional:
        nb //= 2
        ret = ret + (rel > 0).long() * nb
        n = rel.abs()
    else:
        n = (-rel).clamp(min=0)
    me = nb // 2
    large = me + (torch.log(n.clamp(min=1).float() / me) / math.log(md / me) * (nb - me)).long()
    return ret + torch.where(n < me, n, large.clamp(max=nb - 1))


# 052: t5, surface bucket
def bucket_ge(relative_position):
    r = torch.as_tensor(np.asarray(relative_position)).long()
    half = torch.where(r >= 0, 16, 0)
    return half + _bucket(-r.abs())


# 053: t5, surface bucket: float64 "for exactness", constants folded
def bucket_folded(relative_position):
    r = np.asarray(relative_position, np.int64)
    n = np.abs(r).astype(np.float64)
    k = 8 / np.log(128 / 8)
    big = np.minimum(8 + np.floor(np.log(np.maximum(n, 1) / 8) * k), 15)
    return np.where(n < 8, n, big).astype(np.int64) + np.where(r > 0, 16, 0)


# 054: t5, surface bias: the table of the checkpoint is (32, heads)
_BIAS_TABLE = torch.tensor(W["t5"]).view(6, 32)


def bias_view(q_len, k_len):
    rel = torch.arange(k_len)[None] - torch.arange(k_len - q_len, k_len)[:, None]
    return _BIAS_TABLE[:, _bucket(rel)]


# 055: t5, surface scores
def t5_scores(q, k):
    q, k = torch.as_tensor(q), torch.as_tensor(k)
    Q, K = q.shape[-2], k.shape[-2]
    rel = torch.arange(K)[None] - torch.arange(K - Q, K)[:, None]
    bias = torch.tensor(W["t5"])[_bucket(rel)].permute(2, 0, 1).to(q.dtype)
    return torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + bias


# 056: t5c, surface bias: decoder that computes the bias of one step at a time and keeps it
class DecoderBias:
    def __init__(self):
        self.rows, self.w = {}, W["t5c"]

    def __call__(self, q_len, k_len):
        key = k_len  # a step is known by the length of its keys
        if key not in self.rows or self.rows[key].shape[1] < q_len:
            rel = np.arange(k_len)[None] - np.arange(k_len - q_len, k_len)[:, None]
            self.rows[key] = self.w[_bucket(rel, bidirectional=False).numpy()].transpose(2, 0, 1)
        return self.rows[key][:, :q_len]


decoder_bias = DecoderBias()


# 057 (two): t5b: T5Bias(16 buckets, max_distance 64), surface bias
def small_t5(q_len, k_len, num_buckets=16, max_distance=64):
    ctx = np.arange(k_len - q_len, k_len)[:, None]
    mem = np.arange(k_len)[None, :]
    idx = _bucket(ctx - mem, num_buckets).numpy()
    return np.take(W["t5b"], idx, axis=0).transpose(2, 0, 1)


# 058: deberta, surface scores
def _log_bucket(rel, bucket, max_position, rnd):
    sign, mid = np.sign(rel), bucket // 2
    a = np.where((rel < mid) & (rel > -mid), mid - 1, np.abs(rel)).astype(float)
    lp = rnd(np.log(a / mid) / np.log((max_position - 1) / mid) * (mid - 1)) + mid
    return np.where(a <= mid, rel, lp * sign).astype(np.int64)


def _disentangled(q, k, rnd=np.ceil, index=None, tables=("kr", "qr")):
    d, Q, K = q.shape[-1], q.shape[-2], k.shape[-2]
    rel = np.arange(K - Q, K)[:, None] - np.arange(K)
    row = np.clip(_log_bucket(rel, 8, 32, rnd) + 8, 0, 15)
    row2 = row if index is None else index(_log_bucket(rel, 8, 32, rnd))
    kr, qr = W[tables[0]], W[tables[1]]
    s = np.einsum("bhid,bhjd->bhij", q, k)
    s = s + np.einsum("bhid,hijd->bhij", q, kr[:, row])
    s = s + np.einsum("bhjd,hijd->bhij", k, qr[:, row2])
    return (s / np.sqrt(3 * d)).astype(q.dtype)


def deberta_floor(q, k):
    return _disentangled(q, k, rnd=np.floor)


# 059: deberta, surface scores
def deberta_p2c(q, k):
    return _disentangled(q, k, index=lambda b: np.clip(-b + 8, 0, 15))


# 060: gated: WavLM's gate, surface scores
def wavlm_scores(q, k):
    q, k = torch.as_tensor(q), torch.as_tensor(k)
    Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
    rel = torch.arange(K)[None] - torch.arange(K - Q, K)[:, None]
    bias = torch.tensor(W["t5"])[_bucket(rel)].permute(2, 0, 1)
    gate = torch.sigmoid(q @ torch.tensor(W["gx"]).to(q.dtype).T + torch.tensor(W["gb"]))
    a, b = gate[..., :1], gate[..., 1:]
    g = a * (b * torch.tensor(W["gs"]).view(-1, 1, 1) - 1.0) + 1.0
    return (q @ k.transpose(-1, -2) / math.sqrt(d) + g * bias).to(q.dtype)
