"""Tables that are added to embeddings."""
import json
import math
from pathlib import Path

import numpy as np
import torch

WEIGHT = np.array(json.loads((Path(__file__).parent / "opt.json").read_text())["weight"])


def channels(positions):
    d = 64
    i = np.arange(d)
    a = np.asarray(positions, np.float64)[:, None] / 10000.0 ** (i / d)
    pe = np.empty_like(a)
    pe[:, 0::2] = np.sin(a[:, 0::2])
    pe[:, 1::2] = np.cos(a[:, 1::2])
    return pe


def timing_signal(positions):
    dim = 512
    n = dim // 2
    inc = math.log(10000.0) / n
    scaled = np.asarray(positions, np.float64)[:, None] * np.exp(-inc * np.arange(n))
    return np.concatenate([np.sin(scaled), np.cos(scaled)], 1)


def div_term_table(positions):
    d = 128
    div = np.exp(np.arange(0, d, 2) * (-np.log10(10000.0) / d))
    a = np.asarray(positions, np.float64)[:, None] * div
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(len(a), d)


def fairseq_rows(seq_len):
    dim = 256
    half = dim // 2
    f = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / (half - 1)))
    a = torch.arange(seq_len, dtype=torch.float64)[:, None] * f
    return torch.cat([a.sin(), a.cos()], dim=1)


def odd_width(positions):
    d = 33
    n = (d + 1) // 2
    f = np.exp(np.arange(n) * -(math.log(10000.0) / (d // 2 - 1)))
    a = np.asarray(positions, np.float64)[:, None] * f
    return np.concatenate([np.sin(a), np.cos(a)], 1)[:, :d]


class PositionalEncoding(torch.nn.Module):
    def __init__(self, d_model=64, max_len=5000):
        super().__init__()
        p = torch.arange(max_len, dtype=torch.float64).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model, dtype=torch.float64)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(p * div), torch.cos(p * div)
        self.register_buffer("pe", pe.unsqueeze(1))

    def forward(self, x):
        return (x + self.pe[: x.size(0)]).to(x.dtype)


_pe = PositionalEncoding()


def add_positions(x):
    return _pe(x)


def standardized(positions):
    d, n = 16, 42

    def sincos(p):
        a = np.asarray(p, np.float64)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
        pe = np.zeros((len(a), d))
        pe[:, 0::2], pe[:, 1::2] = np.sin(a), np.cos(a)
        return pe

    table = sincos(np.arange(n))
    return (sincos(positions) - table.mean()) / (table.std() * 10)


def detr_grid(height, width):
    feats, t = 64, 10000.0
    ones = torch.ones(1, height, width, dtype=torch.float64)
    y, x = ones.cumsum(1), ones.cumsum(2)
    y = y / (y[:, :, -1:] + 1e-6) * 2 * math.pi
    x = x / (x[:, -1:, :] + 1e-6) * 2 * math.pi
    k = torch.arange(feats, dtype=torch.float64)
    dim_t = t ** (2 * (k // 2) / feats)
    px, py = x[..., None] / dim_t, y[..., None] / dim_t
    px = torch.stack((px[..., 0::2].sin(), px[..., 1::2].cos()), 4).flatten(3)
    py = torch.stack((py[..., 0::2].sin(), py[..., 1::2].cos()), 4).flatten(3)
    return torch.cat((py, px), 3).reshape(height * width, 2 * feats)


def detr_arange(height, width):
    feats, t = 64, 10000.0
    y = np.arange(height) / (height + 1e-6) * 2 * np.pi
    x = np.arange(width) / (width + 1e-6) * 2 * np.pi
    dim_t = t ** (2 * (np.arange(feats) // 2) / feats)

    def emb(c):
        a = c[:, None] / dim_t
        return np.stack([np.sin(a[:, 0::2]), np.cos(a[:, 1::2])], 2).reshape(len(c), feats)

    ey = np.repeat(emb(y), width, axis=0)
    ex = np.tile(emb(x), (height, 1))
    return np.concatenate([ey, ex], 1)


def deformable(height, width):
    feats = 128
    y = (np.arange(1, height + 1)) / (height + 1e-6) * 2 * np.pi
    x = (np.arange(1, width + 1) - 0.5) / (width + 1e-6) * 2 * np.pi
    w = 10000.0 ** (-2 * (np.arange(feats) // 2) / feats)
    ay, ax = y[:, None] * w, x[:, None] * w
    phase = np.where(np.arange(feats) % 2, np.pi / 2, 0.0)
    ey, ex = np.sin(ay + phase), np.sin(ax + phase)
    out = np.empty((height, width, 2 * feats))
    out[..., :feats] = ey[:, None]
    out[..., feats:] = ex[None]
    return out.reshape(-1, 2 * feats)


class LearnedPositionalEmbedding(torch.nn.Embedding):
    def __init__(self, weight, offset=2):
        super().__init__(*weight.shape, dtype=torch.float64)
        self.offset = offset
        self.weight.data.copy_(torch.from_numpy(weight))

    def forward(self, positions):
        return super().forward(positions + self.offset)


_opt = LearnedPositionalEmbedding(WEIGHT)


def opt_table(positions):
    ids = torch.as_tensor(positions).long()
    return _opt(ids + 2).detach()


def opt_add(x):
    b, s, d = x.shape
    return (x + torch.from_numpy(WEIGHT)[:s]).to(x.dtype)
