"""Absolute tables: sinusoids, images, boxes, timesteps, learned rows."""
import math
import os

import numpy as np
import torch
from torch import nn

W = dict(np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "w.npz")))


def pe_double_exponent(positions):
    d = 64
    pos = np.asarray(positions, dtype=np.float64)
    out = np.zeros((len(pos), d))
    for i in range(0, d, 2):
        rate = 10000 ** (2 * i / d)
        out[:, i] = np.sin(pos / rate)
        out[:, i + 1] = np.cos(pos / rate)
    return out


class PositionalEncoding(nn.Module):
    def __init__(self, d_model=64, max_len=5000):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)].to(x.dtype)


_pe = PositionalEncoding()


def add_seq_first(x):
    return _pe(x)


def fairseq_rows(positions, padding_idx=1):
    half = 48 // 2
    step = math.log(10000) / (half - 1)
    freq = np.exp(np.arange(half) * -step)
    p = np.asarray(positions) + padding_idx
    ang = p[:, None] * freq[None]
    return np.concatenate([np.sin(ang), np.cos(ang)], axis=1)


def timestep_half_freqs(timesteps):
    half_dim = 64
    exponent = -math.log(10000) * torch.arange(half_dim, dtype=torch.float32) / half_dim
    emb = torch.exp(exponent).to(torch.float16)
    emb = timesteps[:, None].float() * emb[None, :].float()
    emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)
    return torch.cat([emb[:, half_dim:], emb[:, :half_dim]], dim=-1)


def timestep_odd(timesteps, dim=33, max_period=10000):
    half = dim // 2
    freqs = np.exp(-math.log(max_period) * np.arange(half) / (dim / 2))
    args = np.asarray(timesteps, np.float64)[:, None] * freqs
    emb = np.concatenate([np.cos(args), np.sin(args)], -1)
    if dim % 2:
        emb = np.concatenate([emb, np.zeros_like(emb[:, :1])], -1)
    return emb


class GrowingTable:
    def __init__(self, dim):
        self.inv = 10000.0 ** (-np.arange(0, dim, 2) / dim)
        self.rows = np.empty((0, dim))

    def __call__(self, seq_len):
        missing = seq_len - len(self.rows)
        if missing > 0:
            ang = np.arange(missing)[:, None] * self.inv
            new = np.stack([np.sin(ang), np.cos(ang)], -1).reshape(missing, -1)
            self.rows = np.concatenate([self.rows, new])
        return self.rows[:seq_len]


_growing = GrowingTable(32)


def growing_rows(seq_len):
    return _growing(seq_len)


def rtdetr_grid(height, width):
    embed_dim = 64
    grid_w = torch.arange(int(width), dtype=torch.float64)
    grid_h = torch.arange(int(height), dtype=torch.float64)
    grid_w, grid_h = torch.meshgrid(grid_w, grid_h, indexing="ij")
    pos_dim = embed_dim // 4
    omega = 1.0 / (10000.0 ** (torch.arange(pos_dim, dtype=torch.float64) / pos_dim))
    out_w = grid_w.flatten()[..., None] @ omega[None]
    out_h = grid_h.flatten()[..., None] @ omega[None]
    return torch.cat([out_w.sin(), out_w.cos(), out_h.sin(), out_h.cos()], dim=1)


def video_table(positions):
    t, h, w = np.asarray(positions, np.float64)
    dim_t, dim_s = 16, 24

    def one(p, n):
        omega = 1.0 / 10000 ** (np.arange(n // 2) / (dim_t / 2))
        a = np.einsum("m,d->md", p, omega)
        return np.hstack([np.sin(a), np.cos(a)])

    return np.hstack([one(t, dim_t), one(h, dim_s), one(w, dim_s)])


def detr_norm_grid(height, width):
    mask = np.ones((1, height, width))
    y_embed = mask.cumsum(1)
    x_embed = mask.cumsum(2)
    eps, scale, feats = 1e-6, 2 * math.pi, 32
    y_embed = y_embed / (y_embed[:, -1:, :] + eps) * scale
    x_embed = x_embed / (height + eps) * scale
    dim_t = np.arange(feats)
    dim_t = 10000.0 ** (2 * (dim_t // 2) / feats)

    def enc(e):
        p = e[..., None] / dim_t
        return np.stack((np.sin(p[..., 0::2]), np.cos(p[..., 1::2])), -1).reshape(*e.shape, feats)

    return np.concatenate([enc(y_embed), enc(x_embed)], -1).reshape(height * width, -1)


def deformable_grid(height, width):
    feats, scale, eps = 32, 2 * math.pi, 1e-6
    y = torch.arange(1, height + 1, dtype=torch.float64)
    x = torch.arange(1, width + 1, dtype=torch.float64)
    y = y / (y[-1] + eps) * scale - 0.5
    x = x / (x[-1] + eps) * scale - 0.5
    dim_t = 10000.0 ** (2 * (torch.arange(feats) // 2).double() / feats)

    def enc(c):
        p = c[:, None] / dim_t
        return torch.stack((p[:, 0::2].sin(), p[:, 1::2].cos()), dim=2).flatten(1)

    ey = enc(y)[:, None].expand(-1, width, -1)
    ex = enc(x)[None].expand(height, -1, -1)
    return torch.cat([ey, ex], -1).flatten(0, 1)


def box_embedding(boxes):
    x, y, w, h = [torch.as_tensor(b).double() * 2 * math.pi for b in boxes]
    feats = 16
    dim_t = 10000.0 ** (2 * torch.div(torch.arange(feats), 2, rounding_mode="floor") / feats).double()

    def s(c):
        p = c[:, None] / dim_t
        return torch.stack((p[:, 0::2].sin(), p[:, 1::2].cos()), dim=2).flatten(1)

    return torch.cat((s(y), s(x), s(h), s(w)), dim=1)


def pos2posemb3d(pos):
    x, y, z = np.asarray(pos, np.float64)
    xy = np.stack([x, y]) * 2 * np.pi
    n = 32
    i = np.arange(n)
    dim_t = 10000 ** (2 * (i // 2) / n)

    def s(c):
        p = c[:, None] / dim_t
        e = np.empty_like(p)
        e[:, ::2], e[:, 1::2] = np.sin(p[:, ::2]), np.cos(p[:, 1::2])
        return e

    return np.concatenate([s(xy[1]), s(xy[0]), s(z)], 1)


def roberta_ids(input_ids, padding_idx=1):
    ids = np.asarray(input_ids)
    mask = (ids > padding_idx).astype(np.int64)
    return np.cumsum(mask, axis=-1) * mask + padding_idx


class DETRLearned(nn.Module):
    def __init__(self):
        super().__init__()
        self.row_embed = nn.Embedding.from_pretrained(torch.from_numpy(W["ax_h"]))
        self.col_embed = nn.Embedding.from_pretrained(torch.from_numpy(W["ax_w"]))

    def forward(self, h, w):
        x_emb = self.col_embed(torch.arange(w))
        y_emb = self.row_embed(torch.arange(h))
        pos = torch.cat([y_emb.unsqueeze(1).repeat(1, w, 1), x_emb.unsqueeze(0).repeat(h, 1, 1)], -1)
        return pos.reshape(h * w, -1)


_learned = DETRLearned()


def detr_learned_grid(height, width):
    return _learned(int(height), int(width))


# ---- right ----

def complex_view_table(positions):
    theta = np.multiply.outer(np.asarray(positions, np.float64), 10000.0 ** (-np.arange(32) / 32))
    return np.ascontiguousarray(1j * np.exp(-1j * theta)).view(np.float64)


def transposed_grid(height, width):
    d4 = 12
    om = 1e4 ** (-np.arange(d4) / d4)
    out = np.empty((4 * d4, height, width))
    ys = np.outer(om, np.arange(height))
    xs = np.outer(om, np.arange(width))
    out[:d4] = np.sin(xs)[:, None, :]
    out[d4:2 * d4] = np.cos(xs)[:, None, :]
    out[2 * d4:3 * d4] = np.sin(ys)[:, :, None]
    out[3 * d4:] = np.cos(ys)[:, :, None]
    return out.reshape(4 * d4, -1).T


def detr_closed_form_grid(height, width):
    rows = []
    for i in range(1, height + 1):
        for j in range(1, width + 1):
            r = []
            for c, n in ((i, height), (j, width)):
                a = 2 * math.pi * c / (n + 1e-6)
                for k in range(16):
                    r += [math.sin(a * 10000.0 ** (-k / 16)), math.cos(a * 10000.0 ** (-k / 16))]
            rows.append(r)
    return np.array(rows)
