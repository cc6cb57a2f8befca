"""cos and sin, frequencies, partial rotary, head norms."""
import math

import numpy as np
import torch
from torch import nn


class AutocastRotary(nn.Module):
    """As in a transformers module; the whole model was cast by model.half()."""

    def __init__(self, dim=64, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim),
                             persistent=False)

    @torch.no_grad()
    def forward(self, position_ids, dtype=torch.float16):
        pos = position_ids.to(dtype)  # the hidden states' dtype
        freqs = pos[:, None].double() * self.inv_freq
        return freqs.cos().float(), freqs.sin().float()


_auto = AutocastRotary()


def half_positions(positions):
    return _auto(torch.as_tensor(positions))


def bf16_buffer():
    """inv_freq as it comes back from a checkpoint that was saved after model.bfloat16()."""
    dim, base = 128, 1000000.0
    inv = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
    state = {"rotary.inv_freq": inv.to(torch.bfloat16)}
    return state["rotary.inv_freq"].float()


def phase_recurrence(positions):
    """One complex multiplication per row in place of sin and cos, complex64 like the kernel."""
    pos = np.asarray(positions).astype(np.int64)
    d = 64
    step = np.exp(1j * 10000.0 ** (-np.arange(0, d, 2) / d)).astype(np.complex64)
    n = int(pos.max()) + 1
    rows = np.empty((n, d // 2), np.complex64)
    cur = np.ones(d // 2, np.complex64)
    for i in range(n):
        rows[i] = cur
        cur = cur * step
    return rows[pos].real.astype(np.float32), rows[pos].imag.astype(np.float32)




# ---- partial rotary ---------------------------------------------------------------------------
class PartialRotary(nn.Module):
    """Quarter of a 256-wide head, as in the hybrid linear-attention models."""

    def __init__(self, head_dim=256, partial_rotary_factor=0.25, theta=1e7):
        super().__init__()
        self.rotary_dim = int(head_dim * partial_rotary_factor)
        k = torch.arange(0, self.rotary_dim, 2, dtype=torch.float64)
        self.inv_freq = theta ** (-k / head_dim)

    def forward(self, x, positions):
        ang = positions.double()[..., None] * self.inv_freq
        if ang.dim() == 3:
            ang = ang.unsqueeze(1)
        cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
        rot, rest = x[..., : self.rotary_dim], x[..., self.rotary_dim:]
        a, b = rot.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


_partial = PartialRotary()


def partial_quarter(x, positions):
    return _partial(x, positions)






def partial_scaled_whole(x, positions):
    """YaRN with partial rotary; the attention factor is applied to q and k at the end."""
    d, base, s, L0 = 64, 10000.0, 4.0, 4096
    f = base ** (-np.arange(0, d, 2) / d)
    corr = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
    lo, hi = max(math.floor(corr(32)), 0), min(math.ceil(corr(1)), d - 1)
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    a = np.asarray(positions, np.float64)[..., None] * (f * (1 - w) + f / s * w)
    if a.ndim == 3:
        a = a[:, None]
    c, n = np.cos(a), np.sin(a)
    x1, x2, keep = x[..., :32], x[..., 32:64], x[..., 64:]
    m = 0.1 * math.log(s) + 1.0
    return (np.concatenate([x1 * c - x2 * n, x2 * c + x1 * n, keep], -1) * m).astype(x.dtype)


# ---- norm of the head, then rotation -------------------------------------------------------------
def _rot_half(x, positions, base=1e6):
    d = x.shape[-1]
    a = np.asarray(positions, np.float64)[..., None] * base ** (-np.arange(0, d, 2) / d)
    if a.ndim == 3:
        a = a[:, None]
    u, v = x[..., : d // 2], x[..., d // 2:]
    return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1)


def norm_over_all_heads(x, weight, positions):
    """qk-norm on the flat projection, before the heads are split (OLMo style)."""
    B, H, S, D = x.shape
    flat = x.transpose(0, 2, 1, 3).reshape(B, S, H * D).astype(np.float64)
    flat = flat / np.sqrt((flat ** 2).mean(-1, keepdims=True) + 1e-6)
    y = flat.reshape(B, S, H, D).transpose(0, 2, 1, 3) * weight
    return _rot_half(y, positions).astype(x.dtype)




