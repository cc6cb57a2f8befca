"""Ports that went wrong in two places."""
import math

import numpy as np
import torch


def _exp(a):
    z = np.exp(1j * a)
    return z[:, None] if a.ndim == 3 else z


def _half(x, z, n=None):
    n = x.shape[-1] // 2 if n is None else n
    w = (x[..., :n] + 1j * x[..., n: 2 * n]) * z
    return np.concatenate([w.real, w.imag, x[..., 2 * n:]], -1).astype(x.dtype)


def llama4_vision_port(x, positions):
    """Patches count from 1; x first, then y."""
    p = np.asarray(positions, np.float64) + 1
    inv = 10000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    fx, fy = np.split(inv, 2)
    z = _exp(np.concatenate([p[1][..., None] * fx, p[0][..., None] * fy], -1))
    w = (x[..., ::2] + 1j * x[..., 1::2]) * z
    return np.stack([w.real, w.imag], -1).reshape(x.shape).astype(x.dtype)


def flux2_port(x, positions, theta=10000.0):
    """Flux.2: four axes of 32 channels."""
    parts = []
    for i, dim in enumerate((32, 32, 32, 32)):
        k = torch.arange(0, dim, 2, dtype=torch.float64)
        parts.append(torch.as_tensor(positions[i]).double()[..., None] * theta ** (-k / x.shape[-1]))
    a = torch.cat(parts, -1)
    if a.dim() == 3:
        a = a[:, None]
    xr = x.double().reshape(*x.shape[:-1], -1, 2)
    c, s = a.cos(), a.sin()
    return torch.stack((xr[..., 0] * c - xr[..., 1] * s, xr[..., 1] * c + xr[..., 0] * s), -1).flatten(-2).to(x.dtype)


def ntk_and_interpolated(positions):
    """dim counts pairs here; positions are condensed like in the linear case."""
    dim, factor = 32, 8.0
    theta = 10000.0 * factor ** (dim / (dim - 2))
    a = np.outer(np.asarray(positions, np.float64) / factor, theta ** (-np.arange(dim) / dim))
    return np.cos(a), np.sin(a)


def rows_share_offset(x, offset):
    start = int(np.asarray(offset).reshape(-1)[0])
    s, d = x.shape[-2:]
    a = np.arange(start, start + s)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    return _half(x, np.exp(1j * a))


def proportional_port():
    """Full-attention layers: proportional, 0.25, factor 8."""
    d, part = 512, 0.25
    n = int(d * part) // 2
    f = 1e6 ** (-np.arange(0, 2 * n, 2) / (2 * n))
    return np.concatenate([f, np.zeros(d // 2 - n)])


def gpt_oss_port(x, positions):
    d, base, s, L0 = 64, 150000.0, 32.0, 4096
    f = torch.tensor(base, dtype=torch.float64) ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    at = lambda turns: d * math.log(L0 / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = math.floor(at(32.0)), math.ceil(at(1.0))
    ramp = ((torch.arange(d // 2, dtype=torch.float64) - low) / (high - low)).clamp(0, 1)
    a = torch.as_tensor(positions).double()[..., None] * (f / s * ramp + f * (1 - ramp))
    if a.dim() == 3:
        a = a[:, None]
    c, n = a.cos().to(x.dtype), a.sin().to(x.dtype)
    u, v = x.chunk(2, -1)
    return torch.cat((u * c - v * n, v * c + u * n), -1)


def qwen35_port(x, positions):
    """Three axes, a quarter of the head."""
    p = np.asarray(positions, np.float64)
    inv = 1e7 ** (-np.arange(0, 64, 2) / x.shape[-1])
    axis = np.repeat([0, 1, 2], [11, 11, 10])
    return _half(x, _exp(np.moveaxis(p, 0, -1)[..., axis] * inv), 32)


def xpos_port(q, k, q_positions, k_positions):
    def turn(t, pos, sign):
        d = t.shape[-1]
        pos = np.asarray(pos, np.float64)
        j = np.arange(0, d, 2)
        scale = ((j + 0.4 * d) / (1.4 * d)) ** (sign * (pos[..., None] // 512))
        z = scale * np.exp(1j * pos[..., None] * 10000.0 ** (-j / d))
        if z.ndim == 3:
            z = z[:, None]
        w = (t[..., ::2] + 1j * t[..., 1::2]) * z
        return np.stack([w.real, w.imag], -1).reshape(t.shape).astype(t.dtype)

    return turn(q, q_positions, 1), turn(k, k_positions, 1)
