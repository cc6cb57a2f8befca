"""Frequency scalings."""
import math

import numpy as np
import torch


def a9_027():
    """YaRN(4, 131072) of 64 channels."""
    d, base, L0, s = 64, 10000.0, 131072, 4.0

    def find(r):
        return d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(find(32)), 0), min(math.ceil(find(1)), d // 2 - 1)
    ramp = ((torch.arange(d // 2).double() - low) / (high - low)).clamp(0, 1)
    f = base ** (-torch.arange(0, d, 2).double() / d)
    return f / s * ramp + f * (1 - ramp), 0.1 * math.log(s) + 1


def a9_028():
    out = []
    for i in range(64):
        f = 500000.0 ** (-2 * i / 128)
        wavelen = 2 * math.pi / f
        if wavelen < 8192 / 4.0:
            out.append(f)
        elif wavelen > 8192 / 1.0:
            out.append(f / 8)
        else:
            smooth = (8192 / wavelen - 1.0) / (4.0 - 1.0)
            out.append(2 * math.pi / ((1 - smooth) * wavelen * 8 + smooth * wavelen))
    return np.array(out)


LONG = [1.0, 1.2, 1.5, 2.0, 3.0, 4.5, 6.0, 8.0]
SHORT = [1.0, 1.0, 1.0, 1.05, 1.05, 1.1, 1.1, 1.15]


def a9_029(seq_len):
    ext = torch.tensor(LONG if seq_len >= 4096 else SHORT, dtype=torch.float64)
    inv = 1.0 / (ext * 10000.0 ** (torch.arange(0, 16, 2).double() / 16))
    return inv, math.sqrt(1 + math.log(32.0) / math.log(4096))


def a9_030(positions):
    """LongRoPE, long list always: 131072 tokens, trained with 4096."""
    inv = 1.0 / (np.array(LONG) * 10000.0 ** (np.arange(0, 16, 2) / 16))
    scale = 131072 / 4096
    m = math.sqrt(1 + math.log(scale) / math.log(131072))
    a = np.outer(positions, inv)
    return np.cos(a) * m, np.sin(a) * m


class NTKEmbedding(torch.nn.Module):
    def __init__(self, head_dim=128, rotary_pct=0.25, base=10000.0, alpha=4.0):
        super().__init__()
        self.rotary_dim = int(head_dim * rotary_pct)
        base = base * alpha ** (head_dim / (head_dim - 2))
        self.inv = 1.0 / base ** (torch.arange(0, self.rotary_dim, 2).double() / self.rotary_dim)

    def forward(self, x, positions):
        a = torch.as_tensor(positions).double()[..., None] * self.inv
        if a.dim() == 3:
            a = a.unsqueeze(1)
        c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)
        x1, x2, rest = x.split((self.rotary_dim // 2, self.rotary_dim // 2, x.shape[-1] - self.rotary_dim), -1)
        return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s, rest), -1)


_ntk = NTKEmbedding()


def a9_031(x, positions):
    return _ntk(x, positions)


def a9_032():
    """p-RoPE: a quarter of the pairs of 128 channels, the rest is zero."""
    head_dim, frac = 128, 0.25
    rot = int(head_dim * frac)
    inv = 1.0 / 1e6 ** (torch.arange(0, rot, 2).double() / rot)
    return torch.nn.functional.pad(inv, (0, head_dim // 2 - rot // 2))


def a9_033(x, positions, scale=4):
    positions = np.asarray(positions) // scale  # interpolated positions
    h = x.shape[-1] // 2
    a = positions[..., None] * 10000.0 ** (-np.arange(h) / h)
    a = a if a.ndim == 2 else a[:, None]
    c, s = np.cos(a), np.sin(a)
    return np.concatenate((x[..., :h] * c - x[..., h:] * s, x[..., h:] * c + x[..., :h] * s), -1).astype(x.dtype)


def a9_034(x, positions):
    """YaRN(16, 4096), first 64 of 96 channels; mscale goes with the tensor (mlx-lm style)."""
    d, base, s, L0 = 64, 150000.0, 16.0, 4096
    dim = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
    lo, hi = math.floor(dim(32.0)), math.ceil(dim(1.0))
    keep = 1 - np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = base ** (-np.arange(0, d, 2) / d)
    inv = f / s * (1 - keep) + f * keep
    x = x * x.dtype.type(0.1 * math.log(s) + 1)
    a = np.asarray(positions)[..., None] * inv
    a = a if a.ndim == 2 else a[:, None]
    c, sn = np.cos(a), np.sin(a)
    u, v = x[..., 0:d:2], x[..., 1:d:2]
    y = x.copy()
    y[..., 0:d:2], y[..., 1:d:2] = u * c - v * sn, u * sn + v * c
    return y


def a9_035():
    """NTK-RoPE-mixed, a = ln s / (d/2)^b."""
    d, s, b = 128, 8.0, 0.625
    a = math.log(s) / (d / 2) ** b
    i = torch.arange(0, d // 2, dtype=torch.float64)
    return 10000.0 ** (-2 * i / d) / torch.exp(a * i**b)


def a9_036():
    k, L = 4, 200
    inv = 10000.0 ** (-np.arange(0, 64, 2) / 64)
    inv[k] = min(inv[k], 2 * np.pi / L)
    return inv


def a9_037(seq_len):
    ntk = max(2 ** (int(math.log2(seq_len / 2048)) + 1) - 1, 1) if seq_len > 2048 else 1
    base = 10000.0 * ntk ** (128 / 126)
    return [base ** (-i / 128) for i in range(0, 128, 2)]


def a9_038(positions):
    """YaRN of gpt-oss."""
    d, base, s, L0 = 64, 150000.0, 32.0, 4096
    low = d / 2 * math.log(L0 / (32.0 * 2 * math.pi)) / math.log(base)
    high = d / 2 * math.log(L0 / (1.0 * 2 * math.pi)) / math.log(base)
    low, high = math.floor(low), math.ceil(high)
    f = base ** (torch.arange(0, d, 2).double() / d)
    ramp = ((torch.arange(d // 2).double() - low) / (high - low)).clamp(0, 1)
    inv = 1.0 / (s * f) * ramp + 1.0 / f * (1 - ramp)
    a = torch.outer(torch.as_tensor(positions).double(), inv)
    return a.cos(), a.sin()


def _llama3(dim, theta=10000.0, factor=8.0):
    f = theta ** (-np.arange(0, dim, 2) / dim)
    turns = 8192 * f / (2 * np.pi)
    t = np.clip((turns - 1) / 3, 0, 1)
    return f * ((1 - t) / factor + t)


def a9_039(x, positions):
    """Llama 3.2 (base 500000, factor 32)."""
    h = x.shape[-1] // 2
    a = np.asarray(positions)[..., None] * _llama3(x.shape[-1])
    a = a if a.ndim == 2 else a[:, None]
    c, s = np.cos(a), np.sin(a)
    u, v = x[..., :h], x[..., h:]
    return np.concatenate((u * c - v * s, v * c + u * s), -1).astype(x.dtype)


def a9_040():
    """The ramp as a median of three; weights of reciprocal frequencies (mlx-lm's way)."""
    d, base, s, L0 = 128, 1e6, 4.0, 32768
    per = [base ** (2 * j / d) for j in range(d // 2)]
    edge = lambda r: d * (math.log2(L0) - math.log2(2 * math.pi * r)) / (2 * math.log2(base))
    lo, hi = max(math.floor(edge(32)), 0), min(math.ceil(edge(1)), d - 1)
    out = []
    for j, p in enumerate(per):
        keep = 1.0 - sorted((0.0, (j - lo) / (hi - lo), 1.0))[1]
        out.append(1.0 / ((p * s * p) / (p * (1 - keep) + s * p * keep)))
    return torch.tensor(out, dtype=torch.float64), math.log(s) / 10 + 1


def a9_041(x, positions):
    """Llama 3.1; three branches on the wavelength, rotation by tangent of the half angle."""
    d = x.shape[-1]
    inv = np.empty(d // 2)
    for i in range(d // 2):
        f = math.exp(-2 * i / d * math.log(500000.0))
        w = 2 * math.pi / f
        if w < 2048:
            inv[i] = f
        elif w > 8192:
            inv[i] = f / 8
        else:
            t = (8192 / w - 1) / 3
            inv[i] = (1 - t) * f / 8 + t * f
    half = np.asarray(positions, np.float64)[..., None] * inv
    half = np.arctan2(np.sin(half), np.cos(half)) / 2
    half = half if half.ndim == 2 else half[:, None]
    t = np.tan(half)
    c, s = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
    h = d // 2
    a, b = x[..., :h].astype(float), x[..., h:].astype(float)
    return np.concatenate((a * c - b * s, b * c + a * s), -1).astype(x.dtype)
