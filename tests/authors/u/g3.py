"""Rotary modules in PyTorch: caches, number formats, buffers, kernels by tiles."""

import torch
from torch import nn


def _expand(t):
    """(S, P) stays; (B, S, P) gets a head axis."""
    return t.unsqueeze(1) if t.dim() == 3 else t


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


# ---------------------------------------------------------------------------------------------
class MistralRotary(nn.Module):
    """Everything in the dtype of the model."""

    def __init__(self, dim=64, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).double() / dim))

    def forward(self, x, positions):
        t = positions.to(x.dtype)
        freqs = t[..., None] * self.inv_freq.to(x.dtype)
        emb = _expand(torch.cat((freqs, freqs), dim=-1))
        return x * emb.cos() + rotate_half(x) * emb.sin()


mistral_rotary = MistralRotary()


# ---------------------------------------------------------------------------------------------
class HalfBuffers(nn.Module):
    """`model.half()` converts buffers, too."""

    def __init__(self, dim=128, base=500000.0):
        super().__init__()
        inv = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, x, positions):
        freqs = positions.float()[..., None] * self.inv_freq.float()
        emb = _expand(torch.cat((freqs, freqs), dim=-1))
        cos, sin = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
        return x * cos + rotate_half(x) * sin


half_buffers = HalfBuffers().half()


# ---------------------------------------------------------------------------------------------
class CachedByLength(nn.Module):
    """Keeps cos and sin of the last calls."""

    def __init__(self, dim=64, base=10000.0):
        super().__init__()
        self.inv = 1.0 / base ** (torch.arange(0, dim, 2).double() / dim)
        self.kept = {}

    def tables(self, positions, dtype):
        key = (tuple(positions.shape), dtype)
        if key not in self.kept:
            ang = positions.double()[..., None] * self.inv
            self.kept[key] = (ang.cos().to(dtype), ang.sin().to(dtype))
        return self.kept[key]

    def forward(self, x, positions):
        cos, sin = (_expand(t) for t in self.tables(positions, x.dtype))
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


cached_by_length = CachedByLength()


# ---------------------------------------------------------------------------------------------
class GrowingTable(nn.Module):
    """A table that grows by blocks when a larger position arrives."""

    def __init__(self, dim=64, base=10000.0, start=512):
        super().__init__()
        self.inv = 1.0 / base ** (torch.arange(0, dim, 2).double() / dim)
        self.table = self.rows(start)

    def rows(self, n):
        ang = torch.outer(torch.arange(n).double(), self.inv)
        return torch.polar(torch.ones_like(ang), ang)

    def forward(self, x, positions):
        need = int(positions.max()) + 1
        have = self.table.shape[0]
        if need > have:
            self.table = torch.cat([self.table, self.rows(need - have)])
        cis = _expand(self.table[positions])
        z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(z * cis).flatten(-2).to(x.dtype)


growing_table = GrowingTable()


# ---------------------------------------------------------------------------------------------
class ClampedTable(nn.Module):
    """Padding tokens may have any position: clamp them into the table."""

    def __init__(self, dim=64, base=10000.0, max_position=8192):
        super().__init__()
        inv = 1.0 / base ** (torch.arange(0, dim, 2).double() / dim)
        ang = torch.outer(torch.arange(max_position).double(), inv)
        self.register_buffer("cos", ang.cos().float())
        self.register_buffer("sin", ang.sin().float())

    def forward(self, x, positions):
        at = positions.clamp(0, self.cos.shape[0] - 1)
        cos, sin = _expand(self.cos[at]), _expand(self.sin[at])
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)


clamped_table = ClampedTable()


# ---------------------------------------------------------------------------------------------
def tiled_tokens(x, positions, base=10000.0, BLOCK=16):
    """A kernel for blocks of 16 tokens, on the CPU."""
    dim = x.shape[-1]
    out = x.clone()
    inv = 1.0 / base ** (torch.arange(0, dim, 2).double() / dim)
    for first in range(0, x.shape[-2] - BLOCK + 1, BLOCK):
        sl = slice(first, first + BLOCK)
        ang = positions[..., sl].double()[..., None] * inv
        cos, sin = _expand(ang.cos()).to(x.dtype), _expand(ang.sin()).to(x.dtype)
        a, b = x[..., sl, : dim // 2], x[..., sl, dim // 2 :]
        out[..., sl, : dim // 2] = a * cos - b * sin
        out[..., sl, dim // 2 :] = b * cos + a * sin
    return out


# ---------------------------------------------------------------------------------------------
def grouped_heads(x, positions, base=10000.0, GROUP=4):
    """Liger style: one program for 4 heads, which share cos and sin."""
    b, h, s, d = x.shape
    out = torch.zeros_like(x).copy_(x)
    inv = base ** (-torch.arange(0, d, 2).double() / d)
    ang = positions.double()[..., None] * inv
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    if cos.dim() == 3:
        cos, sin = cos[:, None], sin[:, None]
    for g in range(max(h // GROUP, 1)):
        heads = slice(g * GROUP, (g + 1) * GROUP)
        a, e = x[:, heads, :, : d // 2], x[:, heads, :, d // 2 :]
        out[:, heads, :, : d // 2] = a * cos - e * sin
        out[:, heads, :, d // 2 :] = e * cos + a * sin
    return out


# ---------------------------------------------------------------------------------------------
def first_row_positions(x, position_ids):
    """All rows of a batch are aligned, so one row of position ids is enough."""
    if position_ids.dim() == 2:
        position_ids = position_ids[0]
    d = x.shape[-1]
    inv = 10000.0 ** (-torch.arange(0, d, 2).double() / d)
    emb = torch.outer(position_ids.double(), inv)
    emb = torch.cat((emb, emb), -1)
    return (x * emb.cos() + rotate_half(x) * emb.sin()).to(x.dtype)


# ---------------------------------------------------------------------------------------------
class StartIndex(nn.Module):
    """Keras style: a start index and consecutive tokens."""

    def __init__(self, max_wavelength=10000.0):
        super().__init__()
        self.max_wavelength = max_wavelength

    def forward(self, x, positions):
        start_index = positions[..., :1]
        t = start_index + torch.arange(x.shape[-2])
        d = x.shape[-1]
        inv = self.max_wavelength ** (-torch.arange(0, d, 2).double() / d)
        emb = _expand(t.double()[..., None] * inv)
        emb = torch.cat((emb, emb), -1)
        return (x * emb.cos() + rotate_half(x) * emb.sin()).to(x.dtype)


start_index = StartIndex()


# ---------------------------------------------------------------------------------------------
class SingleTokenFastPath(nn.Module):
    """Decoding has one token: a path without broadcasting over the batch."""

    def __init__(self, dim=64, base=10000.0):
        super().__init__()
        self.inv = base ** (-torch.arange(0, dim, 2).double() / dim)

    def forward(self, x, positions):
        ang = positions.double()[..., None] * self.inv
        if x.shape[-2] == 1:                      # every row is at the same step
            out = x.clone()
            cos, sin = ang.reshape(-1, ang.shape[-1])[0].cos(), ang.reshape(-1, ang.shape[-1])[0].sin()
            a, b = x[0].double().chunk(2, dim=-1)
            out[0] = torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)
            return out
        cos, sin = _expand(ang.cos()), _expand(ang.sin())
        a, b = x.double().chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


single_token = SingleTokenFastPath()
