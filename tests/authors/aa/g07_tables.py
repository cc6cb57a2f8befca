import math

import numpy as np
import torch
from torch import nn

_g = lambda s, *shape, lo=-64, hi=65: np.random.default_rng(s).integers(lo, hi, shape) / 64
GAUSS = _g(60, 8, 2, lo=-128, hi=128)
T2V_W, T2V_B = _g(61, 8), _g(62, 8)
AX0, AX1 = _g(63, 8, 6), _g(64, 12, 10)
ROW, COL = _g(65, 50, 8), _g(66, 50, 8)


def _sc(pos, dim, base=10000.0):
    omega = 1.0 / base ** (np.arange(dim // 2, dtype=np.float64) / (dim / 2.0))
    out = np.einsum("m,d->md", np.asarray(pos, np.float64).reshape(-1), omega)
    return np.concatenate([np.sin(out), np.cos(out)], axis=1)


def get_2d_sincos_pos_embed(height, width):
    grid = np.stack(np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)), axis=0)
    return np.concatenate([_sc(grid[1], 32), _sc(grid[0], 32)], axis=1)


def build_2d_sincos_position_embedding(height, width):
    gw = torch.arange(width, dtype=torch.float64)
    gh = torch.arange(height, dtype=torch.float64)
    gw, gh = torch.meshgrid(gw, gh, indexing="ij")
    omega = 1 / 10000 ** (torch.arange(16, dtype=torch.float64) / 16)
    ow, oh = gw.flatten()[:, None] * omega, gh.flatten()[:, None] * omega
    return torch.cat([oh.sin(), oh.cos(), ow.sin(), ow.cos()], 1)


def posemb_sincos_2d(height, width):
    y, x = np.mgrid[:height, :width]
    omega = 1.0 / 10000 ** (np.arange(16) / 16)
    a, b = y.reshape(-1, 1) * omega, x.reshape(-1, 1) * omega
    return np.concatenate([np.sin(b), np.cos(b), np.sin(a), np.cos(a)], 1)


def scaled_grid_embed(height, width, base_size=16):
    gh = np.arange(height) / (height / base_size)
    gw = np.arange(width) / (height / base_size)
    w, h = np.meshgrid(gw, gh)
    return np.concatenate([_sc(w, 32), _sc(h, 32)], axis=1)


def grouped_embed(height, width):
    p = np.exp(1j * np.arange(max(height, width))[:, None] * 10000.0 ** (-np.arange(16) / 16))
    z = np.concatenate([np.repeat(p[:height], width, 0), np.tile(p[:width], (height, 1))], 1)
    return np.ascontiguousarray(np.concatenate([z.imag, z.real], 1)[::-1])[::-1]


def video_embed(positions):
    t, h, w = np.asarray(positions).reshape(3, -1)
    return np.concatenate([_sc(t, 24), _sc(w, 24), _sc(h, 24)], axis=1)


def sincos_3d(positions):
    p = np.asarray(positions)
    dim = 64
    parts = []
    for axis, d in zip((0, 2, 1), (dim // 4, 3 * dim // 8, 3 * dim // 8)):
        omega = 10000.0 ** (-np.arange(d // 2) / (dim // 2))
        a = p[axis].reshape(-1, 1) * omega
        parts += [np.sin(a), np.cos(a)]
    return np.concatenate(parts, axis=1)


class PositionEmbeddingSine(nn.Module):
    def __init__(self, num_pos_feats=16, temperature=10000, scale=2 * math.pi):
        super().__init__()
        self.num_pos_feats, self.temperature, self.scale = num_pos_feats, temperature, scale

    def forward(self, mask):
        y, x = mask.cumsum(1, dtype=torch.float64), mask.cumsum(2, dtype=torch.float64)
        y = (y - 0.5) / (y[:, -1:, :] + 1e-6) * self.scale
        x = (x - 0.5) / (x[:, :, -1:] + 1e-6) * self.scale
        k = torch.arange(self.num_pos_feats, dtype=torch.float64)
        dim_t = self.temperature ** (2 * torch.div(k, 2, rounding_mode="floor") / self.num_pos_feats)
        px, py = x[..., None] / dim_t, y[..., None] / dim_t
        px = torch.stack((px[..., 0::2].sin(), px[..., 1::2].cos()), dim=4).flatten(3)
        py = torch.stack((py[..., 0::2].sin(), py[..., 1::2].cos()), dim=4).flatten(3)
        return torch.cat((px, py), dim=3)


def detr_sine(height, width):
    return PositionEmbeddingSine()(torch.ones(1, height, width)).flatten(0, 2)


def deformable_sine(height, width):
    m = np.ones((height, width))
    y, x = m.cumsum(0), m.cumsum(1)
    n = max(height, width)
    y, x = (y - 0.5) / (n + 1e-6) * 2 * np.pi, (x - 0.5) / (n + 1e-6) * 2 * np.pi
    t = 10000.0 ** (np.arange(8) / 8)
    f = lambda c: np.stack([np.sin(c[..., None] / t), np.cos(c[..., None] / t)], -1).reshape(-1, 16)
    return np.concatenate([f(y), f(x)], 1)


def dab_sine(height, width):
    def axis(n, base):
        c = np.arange(1, n + 1) / (n + 1e-6) * 2 * np.pi
        a = c[:, None] / base ** (np.arange(8) / 8)
        return np.dstack([np.sin(a), np.cos(a)]).reshape(n, 16)

    y, x = axis(height, 20.0), axis(width, 10.0)
    return np.concatenate(np.broadcast_arrays(y[:, None], x[None]), -1).reshape(height * width, 32)


def gen_sineembed_for_position(positions):
    pos = torch.as_tensor(np.asarray(positions, np.float64))
    x, y, w, h = pos * 2 * math.pi
    dim_t = torch.arange(16, dtype=torch.float64)
    dim_t = 10000 ** (2 * (dim_t // 2) / 16)
    f = lambda c: torch.stack(((c[:, None] / dim_t)[:, 0::2].sin(), (c[:, None] / dim_t)[:, 1::2].cos()), -1).flatten(1)
    return torch.cat((f(y), f(x), f(h), f(w)), 1)


def box_embedding(positions):
    x, y, w, h = np.asarray(positions, np.float64)
    t = 10000.0 ** (2 * (np.arange(16) // 2) / 16)
    out = np.stack([y, x, w, h], -1)[..., None] / t * (2 * np.pi)
    even = np.arange(16) % 2 == 0
    return np.where(even, np.sin(out), np.cos(out)).reshape(len(x), 64)


def point_embedding(positions):
    x, y = np.asarray(positions, np.float64)
    t = 10000.0 ** (2 * np.arange(16) / 16)
    s = lambda c: np.stack([np.sin(2 * np.pi * c / t[0::2]), np.cos(2 * np.pi * c / t[1::2])], -1).reshape(len(x), 16)
    return np.concatenate([s(y[:, None]), s(x[:, None])], 1)


def sam_point_embedding(positions):
    c = np.asarray(positions, np.float64).T
    c = 2 * c - 1
    c = np.pi * (c @ GAUSS.T)
    return np.concatenate([np.sin(c), np.cos(c)], -1)


def gaussian_features(positions):
    v = torch.as_tensor(np.asarray(positions, np.float64)).T.flip(-1)
    proj = 2 * math.pi * v @ torch.from_numpy(GAUSS).T
    return torch.cat([proj.sin(), proj.cos()], -1)


def random_fourier(positions):
    x, y = np.asarray(positions, np.float64)
    z = np.exp(2j * np.pi * np.outer(x, GAUSS[:, 0])) * np.exp(2j * np.pi * np.outer(y, GAUSS[:, 1]))
    return z.view(np.float64).reshape(len(x), 8, 2).transpose(0, 2, 1).reshape(len(x), 16)


def patchtst_table(positions):
    dim, q_len = 16, 42
    pe = torch.zeros(q_len, dim)
    position = torch.arange(0, q_len).unsqueeze(1)
    div = torch.exp(torch.arange(0, dim, 2) * -(math.log(10000.0) / dim))
    pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div), torch.cos(position * div)
    pe = pe - pe.mean(0)
    pe = pe / (pe.std() * 10)
    return pe[torch.as_tensor(positions).long()]


def normalised_table(positions):
    a = np.outer(np.arange(42), 10000.0 ** (-np.arange(8) / 8))
    pe = np.empty((42, 16))
    pe[:, ::2], pe[:, 1::2] = np.sin(a), np.cos(a)
    pe -= pe.mean()
    return (pe / (10 * pe.std()))[np.asarray(positions, int)]


def time2vec(positions):
    t = np.asarray(positions, np.float64).reshape(-1, 1)
    v = np.sin(t * T2V_W[1:] + T2V_B[1:])
    return np.concatenate([v, t * T2V_W[:1] + T2V_B[:1]], 1)


def axial_table(positions):
    p = np.asarray(positions, int)
    return np.concatenate([AX0[p % 8], AX1[p // 8]], -1)


def row_col_embed(height, width):
    r, c = torch.from_numpy(ROW[:height]), torch.from_numpy(COL[:width])
    pos = torch.cat([r.unsqueeze(1).repeat(1, width, 1), c.unsqueeze(0).repeat(height, 1, 1)], -1)
    return pos.flatten(0, 1)
