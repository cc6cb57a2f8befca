"""Scores that depend on queries and keys, and the shift of Transformer-XL."""
import math
import os

import numpy as np
import torch

W = np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.npz"))


def _sinusoid(pos, dim=16, interleaved=False):
    w = 1.0 / 10000.0 ** (np.arange(0, dim, 2) / dim)
    a = np.asarray(pos, float)[..., None] * w
    if interleaved:
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], dim)
    return np.concatenate([np.sin(a), np.cos(a)], -1)


# 004: conformer, surface scores: "the left shift of Transformer-XL, no mask needed in an encoder"
def conformer_scores(q, k):
    q, k = torch.as_tensor(q).double(), torch.as_tensor(k).double()
    B, H, Q, d = q.shape
    K = k.shape[2]
    R = torch.tensor(_sinusoid(np.arange(K - 1, -1, -1), interleaved=True))
    p = torch.einsum("hdD,rD->hrd", torch.tensor(W["W"]).double(), R)
    ac = (q + torch.tensor(W["u"])[:, None]) @ k.transpose(-1, -2)
    bd = (q + torch.tensor(W["v"])[:, None]) @ p.transpose(-1, -2)
    bd = torch.cat([bd.new_zeros(B, H, Q, 1), bd], dim=-1)
    bd = bd.view(B, H, K + 1, Q)[:, :, 1:].reshape(B, H, Q, K)
    return ((ac + bd) / math.sqrt(d)).float()


def _four_terms(q, k, proj, u, v, offsets, interleaved=False):
    R = _sinusoid(offsets, interleaved=interleaved)  # (Q, K, D)
    p = np.einsum("hdD,ijD->hijd", proj, R)
    s = np.einsum("bhid,bhjd->bhij", q + u[:, None], k)
    s = s + np.einsum("bhid,hijd->bhij", q + v[:, None], p)
    return (s / np.sqrt(q.shape[-1])).astype(q.dtype)


def _offsets(q, k):
    Q, K = q.shape[-2], k.shape[-2]
    return np.arange(K - Q, K)[:, None] - np.arange(K)


# 009: xl, surface scores: W is a linear layer 16 -> 2 * 8, its output cut into heads
_LINEAR = W["W"].reshape(16, 16)  # rows: head * 8 + channel


def xl_scores(q, k):
    proj = _LINEAR.reshape(8, 2, 16).transpose(1, 0, 2)
    return _four_terms(q, k, proj, W["u"], W["v"], _offsets(q, k))


# 010: xlclamp (clamp 6), surface scores
def xl_clamped(q, k, clamp_len=6):
    pos = np.minimum(_offsets(q, k), clamp_len)
    return _four_terms(q, k, W["W"], W["u"], W["v"], pos)


# 013: shawa, surface scores: left 6, right 2
class RelativeKey(torch.nn.Module):
    left, right = 6, 2

    @torch.no_grad()
    def forward(self, q, k):
        table = torch.tensor(W["shawa"]).to(q.dtype)
        Q, K = q.shape[-2], k.shape[-2]
        dist = torch.arange(K)[None] - torch.arange(K - Q, K)[:, None]
        dist = dist.clamp(-self.right, self.left) + self.right
        rel = torch.einsum("bhld,lrd->bhlr", q, table[dist])
        return (q @ k.transpose(-1, -2) + rel) / math.sqrt(q.shape[-1])


_rk = RelativeKey()


def relative_key(q, k):
    return _rk(torch.as_tensor(q), torch.as_tensor(k))


# 018: cope, surface scores
def cope_scores(q, k):
    q, k = torch.as_tensor(q).double(), torch.as_tensor(k).double()
    Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
    emb = torch.tensor(W["cope"]).double()
    logits = q @ k.transpose(-1, -2) / math.sqrt(d)
    later = torch.arange(K)[None] > torch.arange(K - Q, K)[:, None]
    gates = torch.sigmoid(logits.masked_fill(later, -torch.inf))
    pos = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=len(emb) - 1)
    lo, hi = pos.floor().long(), pos.ceil().long()
    li = q @ emb.T
    a, b = li.gather(-1, hi), li.gather(-1, lo)
    w = pos - lo
    return (logits + a * (1 - w) + b * w).float()


# 025: tupe, surface scores
def tupe_scores(q, k):
    Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
    pq, pk = W["tq"][K - Q : K], W["tk"][:K]
    scale = 1 / np.sqrt(2 * d)
    v = np.einsum("ihd,jhd->hij", pq, pk).astype(np.float64) * scale
    if K == Q:
        v[:, 0, :] = W["c2o"][:, None]
    v[:, :, 0] = W["o2c"][:, None]
    return (np.einsum("bhid,bhjd->bhij", q, k) * scale + v).astype(q.dtype)


# 034 (two): shaw, surface scores
def shaw_scores(q, k, K=4):
    out = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1])
    idx = np.clip(_offsets(q, k), -K, K) + K
    for i in range(q.shape[2]):
        a = W["shaw"][idx[i]]  # (keys, d)
        out[:, :, i] += q[:, :, i] @ a.T
    return out.astype(q.dtype)


# 041: surface relative_shift
def rel_shift(x):
    Q, K = x.shape
    padded = np.pad(np.asarray(x), ((0, 0), (0, 1)))
    return padded.reshape(K + 1, Q)[1:].reshape(Q, K)


# 065: deco: DecomposedRelative, grid (4, 6), surface scores
def sam_scores(q, k, h=4, w=6):
    q, k = torch.as_tensor(q), torch.as_tensor(k)
    Q, K = q.shape[-2], k.shape[-2]
    q = q * q.shape[-1] ** -0.5
    pi, pj = torch.arange(K - Q, K), torch.arange(K)
    rh = torch.tensor(W["dh"])[(pi // w)[:, None] - (pj // w)[None] + h - 1]
    rw = torch.tensor(W["dw"])[(pi % w)[:, None] - (pj % w)[None] + w - 1]
    rel = torch.einsum("bhid,ijd->bhij", q, (rh + rw).to(q.dtype))
    return q @ k.transpose(-1, -2) + rel
