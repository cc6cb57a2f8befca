"""Rotations of one axis, torch."""
import torch
from torch import nn


class BF16Positions(nn.Module):
    def __init__(self, dim=128, base=10000.0):
        super().__init__()
        self.dim, self.base = dim, base

    def tables(self, positions):
        t = positions.to(torch.bfloat16)
        inv = 1.0 / self.base ** (torch.arange(0, self.dim, 2, dtype=torch.float64) / self.dim)
        f = t[..., None].double() * inv
        emb = torch.cat((f, f), -1)
        return emb.cos(), emb.sin()

    def forward(self, x, positions):
        cos, sin = self.tables(positions)
        if cos.dim() == 3:
            cos, sin = cos[:, None], sin[:, None]
        x1, x2 = x.chunk(2, -1)
        return (x * cos + torch.cat((-x2, x1), -1) * sin).to(x.dtype)


_bf16 = BF16Positions()


def module_half(x, positions):
    return _bf16(x, positions)


def freqs_cis_apply(x, positions):
    b, h, s, d = x.shape
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = positions.double()[..., None] * inv
    cis = torch.polar(torch.ones_like(ang), ang)
    cis = cis.view(-1, s, 1, d // 2)
    z = torch.view_as_complex(x.double().reshape(b, s, h, d // 2, 2).contiguous())
    y = torch.view_as_real(z * cis).flatten(3)
    return y.reshape(b, h, s, d).to(x.dtype)


def decode_qk(q, k, q_positions, k_positions):
    d = q.shape[-1]
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    longest = int(max(k_positions.max(), q.shape[-2] - 1)) + 1
    ang = torch.outer(torch.arange(longest, dtype=torch.float64), inv)
    cos, sin = ang.cos(), ang.sin()

    def turn(x, c, s):
        if c.dim() == 3:
            c, s = c[:, None], s[:, None]
        a, b = x.double().chunk(2, -1)
        return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)

    n = q.shape[-2]
    return turn(q, cos[:n], sin[:n]), turn(k, cos[k_positions], sin[k_positions])


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return _Rotate.kernel(x, cos, sin)

    @staticmethod
    def kernel(x, cos, sin):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    @staticmethod
    def backward(ctx, dy):
        cos, sin = ctx.saved_tensors
        return _Rotate.kernel(dy, cos, sin), None, None


def rotary_backward(x, positions, dy):
    d = x.shape[-1]
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = positions.double()[..., None] * inv
    if ang.dim() == 3:
        ang = ang[:, None]
    x = x.detach().double().requires_grad_(True)
    y = _Rotate.apply(x, ang.cos(), ang.sin())
    (dx,) = torch.autograd.grad(y, x, dy.double())
    return dx.to(dy.dtype)


def yarn_backward(x, positions, dy):
    d = 64
    m = 0.1 * torch.log(torch.tensor(4.0, dtype=torch.float64)) + 1
    k = torch.arange(d // 2, dtype=torch.float64)
    f = 10000.0 ** (-2 * k / d)
    import math
    corr = lambda r: d * math.log(4096 / (2 * math.pi * r)) / (2 * math.log(10000.0))
    lo, hi = max(math.floor(corr(32.0)), 0), min(math.ceil(corr(1.0)), d - 1)
    w = ((k - lo) / (hi - lo)).clamp(0, 1)
    ang = positions.double()[..., None] * (f * (1 - w) + f / 4.0 * w)
    if ang.dim() == 3:
        ang = ang[:, None]
    c, s = ang.cos() / m, ang.sin() / m
    g1, g2 = dy.double().chunk(2, -1)
    return torch.cat((g1 * c + g2 * s, g2 * c - g1 * s), -1).to(dy.dtype)


def offset_max(x, offset):
    b, h, s, d = x.shape
    start = int(torch.as_tensor(offset).max())
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = torch.arange(start, start + s, dtype=torch.float64)[:, None] * inv
    c, n = ang.cos(), ang.sin()
    a, e = x.double().unflatten(-1, (2, -1)).unbind(-2)
    return torch.cat((a * c - e * n, e * c + a * n), -1).to(x.dtype)


def offset_rows(x, offset):
    b, h, s, d = x.shape
    offset = torch.as_tensor(offset)
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    if s == 1:
        ang = (offset[:1].double()[:, None] * inv)[None, None]
    else:
        p = offset[:, None] + torch.arange(s)
        ang = (p.double()[..., None] * inv)[:, None]
    c, n = ang.cos(), ang.sin()
    z = x.double().unflatten(-1, (-1, 2))
    y = torch.stack((z[..., 0] * c - z[..., 1] * n, z[..., 1] * c + z[..., 0] * n), -1)
    return y.flatten(-2).to(x.dtype)


def normed_query(x, weight, positions):
    d = x.shape[-1]
    v = x.double()
    v = v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = positions.double()[..., None] * inv
    if ang.dim() == 3:
        ang = ang[:, None]
    c, s = ang.cos(), ang.sin()
    a, b = v.chunk(2, -1)
    y = torch.cat((a * c - b * s, b * c + a * s), -1)
    return (y * weight.double()).to(x.dtype)


def permute(w, n_heads):
    rows = w.shape[0]
    rest = w.shape[1:]
    return w.reshape(n_heads, rows // n_heads // 2, 2, *rest).transpose(1, 2).reshape(rows, *rest)


def shift_kv(rotated_k, delta):
    d = rotated_k.shape[-1]
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = float(delta) * inv
    c, s = ang.cos(), ang.sin()
    a, b = rotated_k.double().chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(rotated_k.dtype)


def evict(rotated_k, kept, dropped):
    d = rotated_k.shape[-1]
    k = torch.cat((rotated_k[..., :kept, :], rotated_k[..., kept + dropped:, :]), -2).double()
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = -dropped * inv
    c, s = ang.cos(), ang.sin()
    a, b = k.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(rotated_k.dtype)
