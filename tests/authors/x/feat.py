"""Fourier features, Time2Vec, standardised and learned tables, ids of RoBERTa."""
import os

import numpy as np
import torch

W = np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.npz"))


# 026: sam: coordinates (x, y) in 0..1
class PositionEmbeddingRandom:
    def __init__(self, gaussian):
        self.gaussian = torch.as_tensor(gaussian).T  # (2, pairs)

    def __call__(self, positions):
        coords = torch.as_tensor(np.asarray(positions)).float().T  # (S, 2)
        coords = 2 * coords @ self.gaussian - 1
        coords = 2 * np.pi * coords
        return torch.cat([coords.sin(), coords.cos()], dim=-1)


sam_embed = PositionEmbeddingRandom(W["B"])


# 027: time2vec
class SineActivation(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(W["tw"]))
        self.b = torch.nn.Parameter(torch.tensor(W["tb"]))

    @torch.no_grad()
    def forward(self, positions):
        tau = torch.as_tensor(np.asarray(positions)).float().unsqueeze(-1)
        return torch.sin(tau * self.w + self.b)


_t2v = SineActivation()


def time2vec(positions):
    return _t2v(positions)


# 028: StandardizedSinusoidal(16, 12): PatchTST in NumPy
def patchtst(positions, d=16, q_len=12):
    p = np.arange(q_len)[:, None]
    div = np.exp(np.arange(0, d, 2) * -(np.log(10000.0) / d))
    pe = np.zeros((q_len, d))
    pe[:, 0::2], pe[:, 1::2] = np.sin(p * div), np.cos(p * div)
    pe = pe - pe.mean()
    pe = pe / (pe.std() * 10)
    return pe[np.asarray(positions)]


# 029: emb: Learned(weight)
class LearnedPE(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = torch.nn.Embedding(80, 16, padding_idx=0)
        with torch.no_grad():
            self.emb.weight.copy_(torch.tensor(W["emb"]))
            self.emb.weight[self.emb.padding_idx].fill_(0)

    @torch.no_grad()
    def forward(self, positions):
        return self.emb(torch.as_tensor(np.asarray(positions)).long())


_lp = LearnedPE()


def learned(positions):
    return _lp(positions)


# 030: opt: Learned(weight, offset=2), surface rows: OPT's table cut by a checkpoint converter
_OPT = np.concatenate([W["opt"][2:], W["opt"][:2]])  # the two rows of padding go to the end


def opt_rows(seq_len):
    return _OPT[np.arange(seq_len) + 2]


# 031: rob: ids_from_tokens with padding_idx 1
def roberta_ids(input_ids):
    ids = torch.as_tensor(np.asarray(input_ids))
    mask = ids.ne(1).to(torch.uint8)
    return (torch.cumsum(mask, dim=-1).type_as(mask) * mask).long() + 1


# 032: rob: a persistent buffer, filled anew in each call
class IdBuffer:
    def __init__(self, n=4096, pad=1):
        self.pad, self.buf = pad, np.zeros(n, np.int64)

    def __call__(self, input_ids):
        t = np.asarray(input_ids)
        m = t != self.pad
        flat = self.buf[: t.size].reshape(t.shape) if t.size <= self.buf.size else np.zeros(t.shape, np.int64)
        np.add(flat, np.cumsum(m, -1) * m, out=flat)
        out = flat + self.pad
        return out


buffered_ids = IdBuffer()


# 033: axial: Reformer, tables (6, 8) and (9, 8), flat positions
def reformer(positions):
    p = np.asarray(positions)
    a, b = W["ax0"], W["ax1"]
    return np.concatenate([a[p % len(a)], b[p // len(a)]], axis=-1)


