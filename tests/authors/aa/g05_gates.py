import math

import numpy as np
import torch
from torch import nn

_g = lambda s, *shape, lo=-64, hi=65: np.random.default_rng(s).integers(lo, hi, shape) / 64
PQ, PK, THETA1, THETA2 = _g(20, 40, 2, 8), _g(21, 40, 2, 8), _g(22, 2), _g(23, 2)
E = _g(24, 6, 8)
GT5, GW, GC, GS = _g(25, 32, 3), _g(26, 2, 8), _g(27, 2), _g(28, 3, lo=32, hi=128)


def _tupe_position(q_len, k_len, scale):
    return np.einsum("ihd,jhd->hij", PQ[k_len - q_len : k_len], PK[:k_len]) * scale


def untied_scores(q, k):
    scale = 1 / math.sqrt(q.shape[-1])
    s = np.einsum("bhid,bhjd->bhij", q, k) * scale
    return (s + _tupe_position(q.shape[2], k.shape[2], scale)).astype(q.dtype)


def tupe_absolute(q, k):
    d = q.shape[-1]
    s = np.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(2 * d)
    return (s + _tupe_position(q.shape[2], k.shape[2], 1.0)).astype(q.dtype)


def tupe_reset(q, k):
    d, Q, K = q.shape[-1], q.shape[2], k.shape[2]
    scale = 1 / math.sqrt(2 * d)
    v = torch.from_numpy(_tupe_position(Q, K, scale))
    v[:, :, 0] = torch.from_numpy(THETA2)[:, None]
    v[:, 0, :] = torch.from_numpy(THETA1)[:, None]
    return (q.double() @ k.double().mT * scale + v).to(q.dtype)


def tupe_cls(q, k):
    d, Q, K = q.shape[-1], q.shape[2], k.shape[2]
    scale = (2 * d) ** -0.5
    i = np.arange(K - Q, K)[:, None]
    j = np.arange(K)[None, :]
    v = _tupe_position(Q, K, scale)
    v = np.where(i == 0, THETA1[:, None, None], v)
    v = np.where(j == 0, THETA2[:, None, None], v)
    return (np.matmul(q, np.swapaxes(k, 2, 3)) * scale + v).astype(q.dtype)


def tupe_masked(q, k):
    d, Q, K = q.shape[-1], q.shape[2], k.shape[2]
    scale = (2 * d) ** -0.5
    v = _tupe_position(Q, K, scale)
    cls_q = (np.arange(K - Q, K) == 0)[:, None]
    cls_k = (np.arange(K) == 0)[None, :] & ~cls_q
    v = v * ~(cls_q | cls_k) + THETA1[:, None, None] * cls_q + THETA2[:, None, None] * cls_k
    return (np.einsum("bhid,bhjd->bhij", q * scale, k) + v).astype(q.dtype)


def _interpolate(logits_int, pos):
    low, high = pos.floor().long(), pos.ceil().long()
    w = pos - low
    return logits_int.gather(-1, high) * w + logits_int.gather(-1, low) * (1 - w)


def _causal(Q, K):
    return torch.ones(Q, K, dtype=torch.bool).tril(K - Q)


class CoPE(nn.Module):
    def __init__(self, npos_max, head_dim):
        super().__init__()
        self.npos_max = npos_max
        self.pos_emb = nn.Parameter(torch.from_numpy(E))

    def forward(self, query, attn_logits, gate_logits=None):
        gates = torch.sigmoid(attn_logits if gate_logits is None else gate_logits)
        pos = gates.flip(-1).cumsum(dim=-1).flip(-1).clamp(max=self.npos_max - 1)
        return _interpolate(query @ self.pos_emb.mT, pos)


_cope = CoPE(6, 8)


@torch.no_grad()
def cope_scores(q, k):
    q64, k64 = q.double(), k.double()
    qk = q64 @ k64.mT
    masked = qk.masked_fill(~_causal(q.shape[2], k.shape[2]), float("-inf"))
    return (qk / math.sqrt(q.shape[-1]) + _cope(q64, masked)).to(q.dtype)


@torch.no_grad()
def contextual_scores(q, k):
    q64 = q.double()
    qk = q64 @ k.double().mT / math.sqrt(q.shape[-1])
    gates = torch.sigmoid(qk.masked_fill(~_causal(q.shape[2], k.shape[2]), float("-inf")))
    pos = gates.cumsum(-1).clamp(max=5)
    return (qk + _interpolate(q64 @ torch.from_numpy(E).mT, pos)).to(q.dtype)


@torch.no_grad()
def cope_interpolated(q, k):
    q64 = q.double()
    qk = q64 @ k.double().mT / math.sqrt(q.shape[-1])
    gates = torch.sigmoid(qk) * _causal(q.shape[2], k.shape[2])
    total = gates.sum(-1, keepdim=True)
    pos = (total - gates.cumsum(-1)).clamp(0, 5)
    return (qk + _interpolate(q64 @ torch.from_numpy(E).mT, pos)).to(q.dtype)


def cope_numpy(q, k):
    d, Q, K = q.shape[-1], q.shape[2], k.shape[2]
    s = np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64) / np.sqrt(d)
    g = 1 / (1 + np.exp(-s)) * np.tri(Q, K, K - Q)
    p = np.minimum(np.cumsum(g[..., ::-1], -1)[..., ::-1], 5)
    return (s + np.einsum("bhid,bhijd->bhij", q, E[np.rint(p).astype(int)])).astype(q.dtype)


def cope_loops(q, k):
    B, H, Q, d = q.shape
    K = k.shape[2]
    s = np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64) / math.sqrt(d)
    out = s.copy()
    qe = np.einsum("bhid,pd->bhip", q, E, dtype=np.float64)
    for i in range(Q):
        p = np.zeros((B, H))
        for j in range(i + K - Q, -1, -1):
            p = p + 1 / (1 + np.exp(-s[:, :, i, j]))
            c = np.minimum(p, 5.0)
            lo = np.minimum(c.astype(int), 4)
            a = np.take_along_axis(qe[:, :, i], lo[..., None], -1)[..., 0]
            b = np.take_along_axis(qe[:, :, i], lo[..., None] + 1, -1)[..., 0]
            out[:, :, i, j] += a + (c - lo) * (b - a)
        for j in range(i + K - Q + 1, K):
            out[:, :, i, j] += qe[:, :, i, 0]
    return out.astype(q.dtype)


def _t5(Q, K):
    r = np.arange(K)[None, :] - np.arange(K - Q, K)[:, None]
    b = np.searchsorted(np.array(list(range(1, 9)) + [12, 16, 23, 32, 46, 64, 91]), np.abs(r), side="right")
    return np.moveaxis(GT5[b + 16 * (r > 0)], -1, 0)


def _sig(x):
    return 1 / (1 + np.exp(-x))


def wavlm_scores(q, k):
    z = np.einsum("bhid,nd->bhin", q, GW) + GC
    b, a = _sig(z[..., 0]), _sig(z[..., 1])
    gate = a * (b * GS[None, :, None] - 1.0) + 2.0
    s = np.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[-1])
    return (s + gate[..., None] * _t5(q.shape[2], k.shape[2])).astype(q.dtype)


def gated_scores(q, k):
    x = q * (q.shape[-1] ** -0.5)
    z = torch.sigmoid(x.double() @ torch.from_numpy(GW).T + torch.from_numpy(GC))
    a, r = z.unbind(-1)
    gate = a * (r * torch.from_numpy(GS)[:, None] - 1) + 2
    bias = torch.from_numpy(np.ascontiguousarray(_t5(q.shape[2], k.shape[2])))
    return (x.double() @ k.double().mT + gate[..., None] * bias).to(q.dtype)


def gru_bias_scores(q, k):
    z = np.einsum("nd,bhid->nbhi", GW, q) + GC[:, None, None, None]
    u = _sig(-z[0])
    gate = 1 + u + (1 - u) * GS[None, :, None] * _sig(z[1])
    s = np.einsum("bhid,bhjd->bhij", q / math.sqrt(q.shape[-1]), k)
    return (s + np.einsum("bhi,hij->bhij", gate, _t5(q.shape[2], k.shape[2]))).astype(q.dtype)
