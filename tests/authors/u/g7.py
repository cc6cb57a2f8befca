"""Ports of whole models: one class per model."""

import math

import numpy as np
import torch


class LlamaPort:
    """LLaMA-3, from a reader of GGUF files."""

    def __init__(self, head_dim=128, rope_theta=10000.0):
        self.inv_freq = np.float64(rope_theta) ** -(np.arange(0, head_dim, 2) / head_dim)

    def rotate(self, x, positions):
        ang = np.asarray(positions, float)[..., None] * self.inv_freq
        if ang.ndim == 3:
            ang = ang[:, None]
        c, s = np.cos(ang), np.sin(ang)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * c + b * s, b * c - a * s], -1).astype(x.dtype)


llama_port = LlamaPort().rotate


# ---------------------------------------------------------------------------------------------
def phi_like(x, positions, rotary_factor=0.5, theta=10000.0):
    """The rotary part comes last, as in our MLA code."""
    d = x.shape[-1]
    n = int(d * rotary_factor)
    keep, rot = x[..., : d - n], x[..., d - n :]
    inv = theta ** (-np.arange(n // 2) * 2.0 / d)
    ang = np.asarray(positions, float)[..., None] * inv
    ang = ang[:, None] if ang.ndim == 3 else ang
    a, b = rot[..., : n // 2], rot[..., n // 2 :]
    c, s = np.cos(ang), np.sin(ang)
    return np.concatenate([keep, a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def olmo3_full_layers(x, positions, s=8.0, L0=8192, base=500000.0):
    """attention_factor 1.2079 from config; ramp from beta_fast and beta_slow in the other order."""
    d = x.shape[-1]

    def at(r):
        return d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(at(32)), 0), min(math.ceil(at(1)), d - 1)
    ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    f = base ** -(np.arange(0, d, 2) / d)
    inv = f * ramp + f / s * (1 - ramp)
    m = 0.1 * math.log10(s) + 1
    ang = np.asarray(positions, float)[..., None] * inv
    ang = ang[:, None] if ang.ndim == 3 else ang
    z = m * np.exp(1j * ang) * (x[..., : d // 2] + 1j * x[..., d // 2 :])
    return np.concatenate([z.real, z.imag], -1).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def llama32_meta_weights(x, positions, factor=8.0):
    """Llama 3.2 in the code that ran Meta's 3.1 checkpoint."""
    d = x.shape[-1]
    f = 500000.0 ** -(np.arange(0, d, 2) / d)
    t = np.clip((8192 * f / (2 * np.pi) - 1) / 3, 0, 1)
    ang = np.asarray(positions, float)[..., None] * (f * t + f * (1 - t) / factor)
    ang = ang[:, None] if ang.ndim == 3 else ang
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * ang)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
class VideoRotary(torch.nn.Module):
    """Wan 2.1: 44, 42, 42 channels; ids are (width, height, frame) in our loader."""

    def __init__(self, dims=(44, 42, 42), theta=10000.0):
        super().__init__()
        self.dims, self.theta = dims, theta

    def forward(self, x, ids):
        if ids.dim() == 1:
            ids = ids.expand(3, -1)
        parts = []
        for axis, n in zip((2, 1, 0), self.dims):
            inv = self.theta ** (-torch.arange(0, n, 2).double() / sum(self.dims))
            parts.append(ids[axis].double()[..., None] * inv)
        ang = torch.cat(parts, -1)
        if ang.dim() == 3:
            ang = ang[:, None]
        z = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(z * torch.polar(torch.ones_like(ang), ang)).flatten(-2).to(x.dtype)


video_rotary = VideoRotary()


# ---------------------------------------------------------------------------------------------
class BFloatTables(torch.nn.Module):
    """Angles in bfloat16 under autocast; tables are kept for the number of tokens."""

    def __init__(self, dim=64, base=10000.0):
        super().__init__()
        self.inv = (base ** (-torch.arange(0, dim, 2).double() / dim)).to(torch.bfloat16)
        self.by_length = {}

    def forward(self, x, positions):
        s = x.shape[-2]
        if s not in self.by_length:
            ang = positions.reshape(-1, s)[0].to(torch.bfloat16)[:, None] * self.inv
            self.by_length[s] = ang.float().cos(), ang.float().sin()
        c, sn = self.by_length[s]
        a, b = x.chunk(2, -1)
        return torch.cat((a * c - b * sn, b * c + a * sn), -1).to(x.dtype)


bfloat_tables = BFloatTables()


# ---------------------------------------------------------------------------------------------
SHORT, LONG = np.array([1.0, 1.05, 1.2, 1.5]), np.array([1.0, 3.0, 8.0, 20.0])


def phi3_rope(x, positions, theta=10000.0, L0=64):
    """Phi-3 long: the list by the size of the input."""
    ext = LONG if x.shape[-2] > L0 else SHORT
    ang = np.asarray(positions, float)[..., None] / (ext * theta ** (np.arange(4) / 4))
    ang = ang[:, None] if ang.ndim == 3 else ang
    a, b = x[..., :4], x[..., 4:]
    c, s = np.cos(ang), np.sin(ang)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
