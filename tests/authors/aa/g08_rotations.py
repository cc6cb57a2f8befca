import math

import numpy as np
import torch
from torch import nn

_g = lambda s, *shape, lo=-64, hi=65: np.random.default_rng(s).integers(lo, hi, shape) / 64
FREQS = _g(69, 2, 8)
HEAD_FREQS = _g(70, 3, 2, 8)


def _axes(positions):
    p = np.asarray(positions, np.float64)
    return p[:, None] if p.ndim == 2 else p


def _pairs(x, angle):
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * np.exp(1j * angle)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


def _halves(x, angle):
    n = x.shape[-1] // 2
    c, s = np.cos(angle), np.sin(angle)
    a, b = x[..., :n], x[..., n:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


def mrope(x, positions):
    p = _axes(positions)
    inv = 1.0 / 1000000.0 ** (np.arange(0, 64, 2) / 64)
    ang = p[..., None] * inv
    out, start = [], 0
    for axis, n in enumerate((8, 12, 12)):
        out.append(ang[axis][..., :n])
        start += n
    return _halves(x, np.concatenate(out, -1)[:, None])


def interleaved_mrope(x, positions):
    p = torch.as_tensor(np.asarray(positions), dtype=torch.float64)
    p = p[:, None] if p.ndim == 2 else p
    freqs = p[..., None] * 10000.0 ** -(torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    f = freqs[0].clone()
    for dim, offset in enumerate((1, 2), start=1):
        f[..., offset:32:3] = freqs[dim, ..., offset:32:3]
    emb = torch.cat([f, f], -1)[:, None]
    xd = x.double()
    rot = torch.cat([-xd[..., 32:], xd[..., :32]], -1)
    return (xd * emb.cos() + rot * emb.sin()).to(x.dtype)


def sectioned_rope(x, positions):
    p = _axes(positions)
    inv = 10000.0 ** (-np.arange(32) / 32)
    cos, sin = np.cos(p[..., None] * inv), np.sin(p[..., None] * inv)
    cos, sin = np.concatenate([cos, cos], -1), np.concatenate([sin, sin], -1)
    sizes = [16, 24, 24]
    cut = np.cumsum(sizes)[:-1]
    c = np.concatenate([part[i] for i, part in enumerate(np.split(cos, cut, -1))], -1)[:, None]
    s = np.concatenate([part[i] for i, part in enumerate(np.split(sin, cut, -1))], -1)[:, None]
    rot = np.concatenate([-x[..., 32:], x[..., :32]], -1)
    return (x * c + rot * s).astype(x.dtype)


class VisionRotary(nn.Module):
    def __init__(self, dim=32, theta=10000.0):
        super().__init__()
        self.inv_freq = 1.0 / theta ** (torch.arange(0, dim // 2, 2, dtype=torch.float64) / (dim // 2))

    def forward(self, x, positions):
        p = torch.as_tensor(positions).double()
        p = p[:, None] if p.dim() == 2 else p
        f = torch.cat([p[0][..., None] * self.inv_freq, p[1][..., None] * self.inv_freq], -1)[:, None]
        cos, sin = f.cos().repeat_interleave(2, -1), f.sin().repeat_interleave(2, -1)
        y = x.double()
        rot = torch.cat([-y[..., 16:], y[..., :16]], -1)
        return (y * cos + rot * sin).to(x.dtype)


def vision_rotary(x, positions, _m=VisionRotary()):
    return _m(x, positions)


def axial_rope(x, positions):
    p = _axes(positions)
    inv = 10000.0 ** (-np.arange(0, 32, 2) / 32)
    return _pairs(x, np.concatenate([p[0][..., None] * inv[:8], p[1][..., None] * inv[8:]], -1)[:, None])


def axial_cis(x, positions):
    p = _axes(positions)
    f = 10000.0 ** (-np.arange(0, 32, 4)[:8] / 32)
    cis = np.concatenate([np.exp(1j * p[1][..., None] * f), np.exp(1j * p[0][..., None] * f)], -1)
    z = np.ascontiguousarray(x.astype(np.float64)).view(np.complex128) * cis[:, None]
    return z.view(np.float64).astype(x.dtype)


def pixtral_rope(x, positions):
    p = _axes(positions)
    freqs = 10000.0 ** (-np.arange(0, 32, 2) / 32)
    ang = np.concatenate([p[0][..., None] * freqs[0::2], p[1][..., None] * freqs[0::2]], -1)
    return _halves(x, ang[:, None])


def flux_rope(x, positions):
    p = torch.as_tensor(positions).double()
    p = p[:, None] if p.dim() == 2 else p
    mats = []
    for i, dim in enumerate((8, 12, 12)):
        omega = 10000.0 ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        a = p[i][..., None] * omega
        mats.append(torch.stack([a.cos(), -a.sin(), a.sin(), a.cos()], -1).unflatten(-1, (2, 2)))
    m = torch.cat(mats, -3)[:, None]
    y = x.double().unflatten(-1, (-1, 1, 2))
    return (m[..., 0] * y[..., 0] + m[..., 1] * y[..., 1]).flatten(-2).to(x.dtype)


def dino_rope(x, positions):
    p = _axes(positions)
    periods = 100.0 ** (2 * np.arange(8) / 16)
    a = 2 * np.pi * p[..., None] / periods
    a = np.concatenate([a[0], a[1]], -1)
    return _halves(x, np.concatenate([a], -1)[:, None])


def llama4_vision_rope(x, positions):
    p = _axes(positions)
    f = 10000.0 ** (-np.arange(0, 16, 2) / 16)
    fx, fy = p[1][..., None] * f, (p[0] + 1)[..., None] * f
    ang = np.stack([fx, fy], -1).reshape(*fx.shape[:-1], 16)
    return _pairs(x, ang[:, None])


def video_rope(x, positions):
    p = _axes(positions)
    t, h, w = p
    f = lambda c, n: c[..., None] * 10000.0 ** (-np.arange(n) / n)
    ang = np.concatenate([f(t, 8), f(h, 12), f(w, 12)], -1)[:, None]
    y = x.astype(np.float64)
    y[..., 0::2], y[..., 1::2] = (
        y[..., 0::2] * np.cos(ang) - y[..., 1::2] * np.sin(ang),
        y[..., 1::2] * np.cos(ang) - y[..., 0::2] * np.sin(ang),
    )
    return y.astype(x.dtype)


def wan_rope(x, positions):
    p = _axes(positions)
    d = x.shape[-1]
    n = d // 2
    parts = [n // 3, n // 3, n - 2 * (n // 3)]
    a = [p[i][..., None] * 10000.0 ** (-np.arange(m) / m) for i, m in enumerate(parts)]
    return _pairs(x, np.concatenate(a, -1)[:, None])


def mixed_rope(x, positions):
    p = _axes(positions)
    return _pairs(x, p[0][:, None, :, None] * FREQS[1] + p[1][:, None, :, None] * FREQS[0])


def rope_mixed(x, positions):
    p = torch.as_tensor(positions).double()
    p = p[:, None] if p.dim() == 2 else p
    w = torch.from_numpy(FREQS)
    cy = torch.polar(torch.ones(1, dtype=torch.float64), p[0][:, None, :, None] * w[0])
    cx = torch.polar(torch.ones(1, dtype=torch.float64), p[1][:, None, :, None] * w[1])
    z = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * (cx + cy)).flatten(-2).to(x.dtype)


def mochi_rope(x, positions):
    p = _axes(positions)
    w = HEAD_FREQS.transpose(1, 0, 2).reshape(3, 2, 8)
    return _halves(x, np.einsum("abs,hap->bhsp", p, w))


def per_head_rope(x, positions):
    p = _axes(positions)
    ang = np.zeros((x.shape[0], 3, x.shape[2], 8))
    for b, h in np.ndindex(x.shape[0], 3):
        pb = p[:, b if p.shape[1] > 1 else 0]
        ang[b, h] = pb.T @ HEAD_FREQS[h]
    return _halves(x, ang)
