"""Rotary modules for PyTorch, x (B, H, S, D)."""
import math

import torch


def _t(positions):
    return torch.as_tensor(positions).to(torch.float64)


def _lift(a, positions):
    return a[:, None] if torch.as_tensor(positions).dim() == 2 else a[None, None]


def _inv(d, base=10000.0):
    return 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rotate_every_two(x):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((-b, a), dim=-1).flatten(-2)


def gptj_with_neox_table(x, positions):
    f = _lift(_t(positions)[..., None] * _inv(64), positions)
    emb = torch.cat((f, f), dim=-1)
    y = x.double()
    return (y * emb.cos() + rotate_every_two(y) * emb.sin()).to(x.dtype)


def autocast_ids(x, positions):
    t = torch.as_tensor(positions).to(torch.bfloat16).double()
    f = _lift(t[..., None] * _inv(64), positions)
    emb = torch.cat((f, f), dim=-1)
    y = x.double()
    return (y * emb.cos() + rotate_half(y) * emb.sin()).to(x.dtype)


def partial_full_roll(x, positions):
    rot, d = 64, x.shape[-1]
    f = _lift(_t(positions)[..., None] * _inv(rot), positions)
    cos = torch.cat((f.cos(), f.cos(), torch.ones(*f.shape[:-1], d - rot, dtype=torch.float64)), -1)
    sin = torch.cat((f.sin(), f.sin(), torch.zeros(*f.shape[:-1], d - rot, dtype=torch.float64)), -1)
    y = x.double()
    return (y * cos + rotate_half(y) * sin).to(x.dtype)


def _yarn(d, base, factor, length, fast=32.0, slow=1.0):
    def at(r):
        return d * math.log(length / (2 * math.pi * r)) / (2 * math.log(base))
    low, high = max(math.floor(at(fast)), 0), min(math.ceil(at(slow)), d - 1)
    k = torch.arange(d // 2, dtype=torch.float64)
    ramp = ((k - low) / (high - low)).clamp(0, 1)
    f = _inv(d, base)
    return f * (1 - ramp) + f / factor * ramp, 0.1 * math.log(factor) + 1


def yarn_cos_only(x, positions):
    inv, m = _yarn(128, 1e6, 4.0, 32768)
    f = _lift(_t(positions)[..., None] * inv, positions)
    cos, sin = f.cos() * m, f.sin()
    y = x.double()
    a, b = y.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


def yarn_scales_all(x, positions):
    inv, m = _yarn(64, 10000.0, 40.0, 4096)
    f = _lift(_t(positions)[..., None] * inv, positions)
    nope, pe = x[..., :64].double(), x[..., 64:].double()
    a, b = pe[..., ::2], pe[..., 1::2]
    pe = torch.stack((a * f.cos() - b * f.sin(), b * f.cos() + a * f.sin()), -1).flatten(-2)
    return (torch.cat((nope, pe), -1) * m).to(x.dtype)


def block_of_heads(x, positions):
    f = _lift(_t(positions)[..., None] * _inv(x.shape[-1]), positions)
    cos, sin = f.cos(), f.sin()
    out = torch.empty_like(x)
    for h in range(0, x.shape[1], 4):
        u, v = x[:, h:h + 4].double().chunk(2, -1)
        out[:, h:h + 4, :, x.shape[-1] // 2:] = v * cos + u * sin
        out[:, h:h + 4, :, :x.shape[-1] // 2] = u * cos + v * sin.neg_()
    return out


class _Grown(torch.nn.Module):
    def __init__(self, dim, n):
        super().__init__()
        self.inv = _inv(dim)
        self.build(n)

    def build(self, n):
        f = torch.outer(torch.arange(n, dtype=torch.float64), self.inv)
        self.n, self.cos, self.sin = n, f.cos(), f.sin()

    def forward(self, x, positions):
        if x.shape[-2] > self.n:
            self.build(x.shape[-2])
        ids = torch.as_tensor(positions).long().clamp(max=self.n - 1)
        c, s = _lift(self.cos[ids], positions), _lift(self.sin[ids], positions)
        u, v = x.double().chunk(2, -1)
        return torch.cat((u * c - v * s, v * c + u * s), -1).to(x.dtype)


def clamped_table(x, positions):
    if not hasattr(clamped_table, "m"):
        clamped_table.m = _Grown(64, 2048)
    return clamped_table.m(x, positions)


def polar(x, positions):
    a = _t(positions)[..., None] * _inv(128, 500000.0)
    z = _lift(torch.polar(torch.ones_like(a), a), positions)
    y = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(y * z).flatten(-2).to(x.dtype)


class _Lazy:
    """A table that doubles when a larger position arrives; fractions are computed directly."""

    def __init__(self, dim):
        self.inv, self.z = _inv(dim), torch.zeros(0, dim // 2, dtype=torch.complex128)

    def __call__(self, p):
        ids = torch.as_tensor(p)
        if ids.is_floating_point() or ids.numel() == 0 or int(ids.min()) < 0:
            a = ids.double()[..., None] * self.inv
            return torch.complex(a.cos(), a.sin())
        n = int(ids.max()) + 1
        if n > 1 << 17:
            a = ids.double()[..., None] * self.inv
            return torch.complex(a.cos(), a.sin())
        if n > len(self.z):
            old, new = len(self.z), max(n, 2 * len(self.z), 16)
            a = torch.arange(old, new, dtype=torch.float64)[:, None] * self.inv
            self.z = torch.cat((self.z, torch.complex(a.cos(), a.sin())))
        return self.z[ids.long()]


_lazy = _Lazy(64)


def lazy_table(x, positions):
    z = _lift(_lazy(positions), positions)
    u, v = x.double().chunk(2, -1)
    out = torch.addcmul(u * z.real, v, z.imag, value=-1), torch.addcmul(v * z.real, u, z.imag)
    return torch.cat(out, -1).to(x.dtype)


def partial_by_padding(x, positions):
    """Partial rotary with frequency 0 for the channels that stay."""
    rot, d = 32, x.shape[-1]
    f = _lift(_t(positions)[..., None] * _inv(rot), positions)
    index = torch.arange(d)
    index[: rot // 2] += rot // 2
    index[rot // 2: rot] -= rot // 2
    zero = torch.zeros(*f.shape[:-1], d - rot, dtype=torch.float64)
    cos = torch.cat((f.cos(), f.cos(), zero + 1), -1)
    sin = torch.cat((-f.sin(), f.sin(), zero), -1)
    y = x.double()
    return (y * cos + y[..., index] * sin).to(x.dtype)
