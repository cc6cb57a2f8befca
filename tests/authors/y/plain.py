"""Plain rotations: x (B, H, S, D), positions (S,) or (B, S)."""
import math

import numpy as np
import torch


def a9_001(x, positions):
    half = x.shape[-1] // 2
    # from frequency 1 down to 1/10000
    inv = 10000.0 ** -np.linspace(0.0, 1.0, half)
    ang = np.asarray(positions)[..., None] * inv
    if ang.ndim == 3:
        ang = ang[:, None]
    c, s = np.cos(ang).astype(x.dtype), np.sin(ang).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate((a * c - b * s, b * c + a * s), -1)


def a9_002(x, positions):
    d = x.shape[-1]
    ang = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    R = np.empty(ang.shape + (2, 2))
    R[..., 0, 0] = R[..., 1, 1] = np.cos(ang)
    R[..., 1, 0] = np.sin(ang)
    R[..., 0, 1] = -R[..., 1, 0]
    if R.ndim == 5:
        R = R[:, None]
    pairs = x.reshape(x.shape[:-1] + (d // 2, 2))
    return np.einsum("...i,...ij->...j", pairs, R).reshape(x.shape).astype(x.dtype)


class _ClampedTable:
    """cos and sin of the trained length, made once."""

    MAX = 2048

    def __init__(self, d=64, base=10000.0):
        inv = 1.0 / base ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
        f = torch.outer(torch.arange(self.MAX, dtype=torch.float64), inv)
        self.cos, self.sin = f.cos().float(), f.sin().float()

    def lookup(self, idx):
        idx = idx.clamp(0, self.MAX - 1)  # never index out of bounds in the graph
        return self.cos[idx], self.sin[idx]


_TABLE = _ClampedTable()


def a9_003(x, positions):
    c, s = _TABLE.lookup(torch.as_tensor(positions).long())
    if c.dim() == 3:
        c, s = c.unsqueeze(1), s.unsqueeze(1)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


class _HalfModule(torch.nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim))

    def forward(self, x, positions):
        # the buffer may be half after model.half(); the product is float32 in any case
        freqs = torch.as_tensor(positions).float()[..., None] * self.inv_freq.float()
        emb = torch.cat((freqs, freqs), -1)
        if emb.dim() == 3:
            emb = emb[:, None]
        x1, x2 = x.chunk(2, -1)
        return (x * emb.cos() + torch.cat((-x2, x1), -1) * emb.sin()).to(x.dtype)


_HALF = _HalfModule(64).half()


def a9_004(x, positions):
    return _HALF(x, positions)


def a9_005(x, positions):
    """Kernel with eight heads in a block, emulated block by block."""
    B, H, S, D = x.shape
    pos = np.broadcast_to(np.asarray(positions), (B, S))
    inv = 10000.0 ** (-np.arange(D // 2) * 2.0 / D)
    y = x.copy()
    grid = max(H // 8, 1)
    for b in range(B):
        ang = pos[b][:, None] * inv
        c, s = np.cos(ang).astype(x.dtype), np.sin(ang).astype(x.dtype)
        for blk in range(grid):
            hs = slice(8 * blk, min(8 * blk + 8, H))
            lo, hi = x[b, hs, :, 0::2], x[b, hs, :, 1::2]
            y[b, hs, :, 0::2] = lo * c - hi * s
            y[b, hs, :, 1::2] = lo * s + hi * c
    return y


def a9_006(x, positions, block=16):
    """One program per block of tokens; the block loads one position."""
    D, S = x.shape[-1], x.shape[-2]
    positions = np.asarray(positions)
    inv = 500000.0 ** (-np.arange(0, D, 2) / D)
    out = np.empty_like(x)
    for t in range(0, S, block):
        n = min(block, S - t)
        p = positions[..., t : t + 1] + np.arange(n)
        a = p[..., None] * inv
        if a.ndim == 3:
            a = a[:, None]
        c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
        u, v = x[..., t : t + n, : D // 2], x[..., t : t + n, D // 2 :]
        out[..., t : t + n, : D // 2] = u * c - v * s
        out[..., t : t + n, D // 2 :] = v * c + u * s
    return out


def a9_007(x, positions):
    """position_ids (B, S): all rows of a batch are aligned."""
    pos = torch.as_tensor(positions)
    if pos.dim() == 2:
        pos = pos[0]
    d = x.shape[-1]
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    z = torch.polar(torch.ones(1, dtype=torch.float64), pos.double()[:, None] * inv)
    xc = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(xc * z).flatten(-2).to(x.dtype)


def a9_008(x, positions):
    """GPT-NeoX style partial rotary; both conventions of the paper's eq. 34."""
    rot = 32
    D = x.shape[-1]
    inv = 1.0 / 10000.0 ** (np.arange(0, rot, 2) / D)
    a = np.asarray(positions)[..., None] * inv
    if a.ndim == 3:
        a = a[:, None]
    c, s = np.repeat(np.cos(a), 2, -1), np.repeat(np.sin(a), 2, -1)
    r, rest = x[..., :rot], x[..., rot:]
    turned = np.stack((-r[..., 1::2], r[..., 0::2]), -1).reshape(r.shape)
    return np.concatenate((r * c + turned * s, rest), -1).astype(x.dtype)


def a9_009(q, k, q_positions, k_positions):
    d = q.shape[-1]
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)

    def tables(p, n):
        p = torch.as_tensor(p).double()[..., -n:]
        a = p[..., None] * inv
        a = torch.cat((a, a), -1)
        return (a.cos().float(), a.sin().float()) if a.dim() == 2 else (a.cos().float()[:, None], a.sin().float()[:, None])

    def rot(x, c, s):
        x1, x2 = x.chunk(2, -1)
        return x * c + torch.cat((-x2, x1), -1) * s

    # the queries are the last tokens of the keys
    cq, sq = tables(k_positions, q.shape[-2])
    ck, sk = tables(k_positions, k.shape[-2])
    return rot(q, cq, sq), rot(k, ck, sk)


def a9_010(x, positions):
    """Loops, every number by math."""
    y = np.array(x, copy=True)
    pos = np.broadcast_to(np.asarray(positions), (x.shape[0], x.shape[2]))
    n = x.shape[-1] // 2
    for b in range(x.shape[0]):
        for t in range(x.shape[2]):
            for i in range(n):
                a = float(pos[b, t]) * math.exp(-math.log(10000.0) * i / n)
                c, s = math.cos(a), math.sin(a)
                u, v = x[b, :, t, i].astype(float), x[b, :, t, i + n].astype(float)
                y[b, :, t, i] = c * u - s * v
                y[b, :, t, i + n] = s * u + c * v
    return y


def a9_011(x, positions):
    """Complex numbers on a channels-first copy; the result is a transposed view."""
    d = x.shape[-1]
    w = 10000.0 ** (-2.0 * np.arange(d // 2) / d)
    z = np.exp(1j * np.multiply.outer(np.asarray(positions, float), w))
    if z.ndim == 3:
        z = z[:, None]
    xc = x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)
    r = xc * z
    first = np.stack((np.moveaxis(r.real, -1, 0), np.moveaxis(r.imag, -1, 0)), 1)
    first = first.reshape((d,) + x.shape[:-1]).astype(x.dtype)
    return np.moveaxis(first, 0, -1)


def a9_012(x, positions):
    """Angle addition: two small tables, p = 1024 a + b."""
    p = torch.as_tensor(positions).double()
    d = x.shape[-1]
    w = torch.exp(torch.arange(0, d, 2, dtype=torch.float64) * (-math.log(1e6) / d))
    hi = torch.floor(p / 1024) * 1024
    lo = p - hi
    A, B = hi[..., None] * w, lo[..., None] * w
    c = A.cos() * B.cos() - A.sin() * B.sin()
    s = A.sin() * B.cos() + A.cos() * B.sin()
    if c.dim() == 3:
        c, s = c[:, None], s[:, None]
    # three-shear form is unstable near pi; use tensors of float64 and one rounding
    x1, x2 = x.double().tensor_split(2, dim=-1)
    return torch.cat((torch.addcmul(x1 * c, x2, -s), torch.addcmul(x2 * c, x1, s)), -1).to(x.dtype)
