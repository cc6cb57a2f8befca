"""Unusual, but meant to be right."""
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import torch


def _b(a):
    return a[:, None] if a.ndim == 3 else a


def block_matrices(x, positions):
    """One 2 x 2 matrix for each pair, contracted by einsum."""
    d = x.shape[-1]
    a = _b(np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(0, d, 2) / d))
    R = np.stack([np.stack([np.cos(a), -np.sin(a)], -1), np.stack([np.sin(a), np.cos(a)], -1)], -2)
    v = x.astype(np.float64).reshape(*x.shape[:-1], d // 2, 2)
    R = np.broadcast_to(R, v.shape + (2,))
    return np.einsum("...ij,...j->...i", R, v).reshape(x.shape).astype(x.dtype)


def signed_permutation(x, positions):
    """x cos + (x J) sin with a constant matrix J; result is a transposed view."""
    x = torch.as_tensor(x)
    d = x.shape[-1]
    J = torch.zeros(d, d, dtype=x.dtype)
    i = torch.arange(d // 2)
    J[i + d // 2, i], J[i, i + d // 2] = -1.0, 1.0
    k = torch.arange(d // 2, dtype=torch.float64).repeat(2)
    a = torch.as_tensor(positions).double()[..., None] * 500000.0 ** (-2 * k / d)
    a = a[:, None] if a.dim() == 3 else a
    y = torch.addcmul(x * a.cos().to(x.dtype), x @ J, a.sin().to(x.dtype))
    return y.transpose(1, 2).contiguous().transpose(1, 2)


def turns_modulo_one(x, positions):
    """Angles as fractions of a turn, reduced exactly before sin and cos."""
    d = x.shape[-1]
    p = np.asarray(positions, np.longdouble)
    turn = np.longdouble(10000.0) ** (-np.arange(0, d, 2).astype(np.longdouble) / d) / (2 * np.arctan2(np.longdouble(0), np.longdouble(-1)))
    t = p[..., None] * turn
    t = _b((t - np.rint(t)).astype(np.float64)) * (2 * np.pi)
    u, v = np.array_split(x, 2, axis=-1)
    c, s = np.cos(t), np.sin(t)
    return np.concatenate([c * u - s * v, s * u + c * v], -1).astype(x.dtype)


def shears(x, positions):
    """Lifting: three shears make a rotation; tan(a / 2) after reduction to [-pi, pi]."""
    d = x.shape[-1]
    a = _b(np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(0, d, 2) / d))
    a = np.remainder(a + np.pi, 2 * np.pi) - np.pi
    big = np.abs(a) > np.pi / 2  # turn by pi first
    sgn = np.where(big, -1.0, 1.0)
    a = np.where(big, a - np.copysign(np.pi, a), a)
    t, s = np.tan(a / 2), np.sin(a)
    e, o = sgn * x[..., 0::2], sgn * x[..., 1::2]
    e = e - t * o
    o = o + s * e
    e = e - t * o
    y = np.empty(x.shape, x.dtype)
    y[..., 0::2], y[..., 1::2] = e, o
    return y


class TwoTables:
    """cos(256 h + l) from two small tables and the addition theorem; float64 inside."""

    def __init__(self, d, base):
        self.inv = base ** (-np.arange(0, d, 2) / d)
        self.low = np.exp(1j * np.outer(np.arange(256), self.inv))

    def __call__(self, pos):
        h, l = np.divmod(np.asarray(pos).astype(np.int64), 256)
        return np.exp(1j * (256 * h)[..., None] * self.inv) * self.low[l]


def two_tables_cos_sin(positions, _t=TwoTables(128, 1e6)):
    z = _t(positions)
    return z.real, z.imag


def trailing_mla(x, positions):
    """Latent attention: 128 + 64; angles through einsum, pairs through unflatten."""
    x = torch.as_tensor(x)
    nope, pe = torch.split(x, (128, 64), dim=-1)
    inv = torch.exp(torch.arange(32, dtype=torch.float64) * (-math.log(10000.0) / 32))
    a = torch.einsum("...s,k->...sk", torch.as_tensor(positions).double(), inv)
    a = a.unsqueeze(-3) if a.dim() == 3 else a
    ev, od = pe.unflatten(-1, (32, 2)).double().unbind(-1)
    rot = torch.stack((ev * a.cos() - od * a.sin(), ev * a.sin() + od * a.cos()), dim=-1).flatten(-2)
    return torch.cat((nope, rot.to(x.dtype)), dim=-1)


def yarn_lerp():
    """gpt-oss: torch.lerp between both frequency sets, ramp written with where."""
    d, base, s, L0 = 64, 150000.0, 32.0, 4096
    k = torch.arange(d // 2, dtype=torch.float64)
    f = torch.exp(-k * (2.0 / d) * math.log(base))
    low, high = (d / 2 * math.log(L0 / (b * 2 * math.pi)) / math.log(base) for b in (32, 1))
    w = torch.where(k <= low, 0.0, torch.where(k >= high, 1.0, (k - low) / (high - low)))
    return torch.lerp(f, f / s, w), 1 + math.log(s) / 10


def dynamic_divided(x, positions):
    """Dynamic NTK as a divisor of each frequency instead of another base."""
    d, limit, factor = 64, 2048, 2.0
    p = np.asarray(positions, np.float64)
    n = max(p.max() + 1, limit)
    alpha = factor * n / limit - factor + 1
    k = np.arange(d // 2)
    a = _b(p[..., None] * 10000.0 ** (-2 * k / d) / alpha ** (2 * k / (d - 2)))
    w = (x[..., :32] + 1j * x[..., 32:]) * np.exp(1j * a)
    return np.concatenate((w.real, w.imag), -1).astype(x.dtype)


def longrope_log_ratio(seq_len):
    """m as sqrt(ln Lmax / ln L0)."""
    short = [1.0, 1.02, 1.03, 1.05, 1.08, 1.1, 1.2, 1.25]
    long = [1.1, 1.3, 2.0, 3.5, 6.0, 10.0, 20.0, 32.0]
    ext = long if seq_len > 64 else short
    return np.array([1 / (e * 10000.0 ** (j / 8)) for j, e in enumerate(ext)]), math.sqrt(math.log(2048) / math.log(64))


def llama3_clip(positions):
    inv = 500000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    t = torch.clamp((8192 * inv / (2 * math.pi) - 1) / 3, 0, 1)
    inv = inv / 32 + t * (inv - inv / 32)
    a = torch.as_tensor(positions).double().unsqueeze(-1) @ inv.unsqueeze(0)
    return torch.cos(torch.cat((a, a), -1)), torch.sin(torch.cat((a, a), -1))


def gated_proportional(x, positions):
    """p-RoPE by rotating only what turns; nothing is multiplied by cos 0."""
    d = x.shape[-1]
    n = int(0.25 * d // 2)
    a = _b(np.asarray(positions, np.float64)[..., None] * 1e6 ** (-2.0 * np.arange(n) / d))
    y = x.copy()
    u, v = x[..., :n], x[..., d // 2: d // 2 + n]
    y[..., :n] = u * np.cos(a) - v * np.sin(a)
    y[..., d // 2: d // 2 + n] = v * np.cos(a) + u * np.sin(a)
    return y


def mrope_index_table(x, positions):
    """Qwen3-VL: the axis of every pair is looked up once, then gathered."""
    axis = [0] * 64
    for a, n in ((1, 20), (2, 20)):
        for i in range(n):
            axis[3 * i + a] = a
    p = torch.as_tensor(positions).double().movedim(0, -1)[..., axis]
    a = p * 5e6 ** (-torch.arange(64, dtype=torch.float64) / 64)
    a = a.unsqueeze(1) if a.dim() == 3 else a
    u, v = x[..., :64], x[..., 64:]
    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)
    return torch.cat((u * c - v * s, v * c + u * s), -1)


def vision_grid_broadcast(x, height, width):
    """Row and column rotations by broadcasting over the grid, no position ids."""
    B, H, N, D = x.shape
    q = D // 4
    inv = 10000.0 ** (-np.arange(q) / q)
    y = x.astype(np.float64).reshape(B, H, height, width, 2, 2, q)  # half of pair, axis, pair
    z = y[..., 0, :, :] + 1j * y[..., 1, :, :]
    z[..., 0, :] *= np.exp(1j * np.arange(height)[:, None, None] * inv)
    z[..., 1, :] *= np.exp(1j * np.arange(width)[:, None] * inv)
    return np.stack([z.real, z.imag], -3).reshape(B, H, N, D).astype(x.dtype)


def mixed_axis_after_axis(x, positions):
    """Rotations of a pair commute, so one axis is applied after the other."""
    w = np.array([[1.1, 0.6, 0.2, 0.07], [0.4, -0.5, 0.3, 0.01]])
    z = x[..., 0::2].astype(np.complex128) + 1j * x[..., 1::2]
    for p, f in zip(np.asarray(positions, np.float64), w):
        z = z * np.exp(1j * _b(p[..., None] * f))
    return np.ascontiguousarray(np.stack([z.real, z.imag], -1)).reshape(x.shape).astype(x.dtype)


def xpos_exponent(q, k, q_positions, k_positions):
    """Decay and rotation in one complex exponential."""
    d = q.shape[-1]
    j = np.arange(d // 2)
    rate = np.log((2 * j / d + 0.4) / 1.4) / 512

    def go(t, p, sign):
        p = np.asarray(p, np.float64)[..., None]
        z = np.exp(p * (sign * rate + 1j * 10000.0 ** (-2 * j / d)))
        z = z[:, None] if z.ndim == 3 else z
        v = t[..., 0::2] * z + 1j * t[..., 1::2] * z
        return np.dstack([v.real.reshape(-1, d // 2, 1), v.imag.reshape(-1, d // 2, 1)]).reshape(t.shape).astype(t.dtype)

    return go(q, q_positions, +1), go(k, k_positions, -1)


def raw_key_cache(k, chunks):
    """Dynamic NTK: keys are cached unrotated, and all are rotated for the current length."""
    n = sum(int(c) for c in chunks)
    d = k.shape[-1]
    base = 10000.0 * max(4.0 * max(n, 64) / 64 - 3.0, 1.0) ** (d / (d - 2))
    a = np.arange(n)[:, None] / base ** (np.arange(0, d, 2) / d)
    u, v = k[..., :n, : d // 2], k[..., :n, d // 2:]
    return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(k.dtype)


class Phases:
    """Decodes with a running phase in float64 and exact restarts at every chunk."""

    @staticmethod
    @lru_cache(maxsize=4)
    def freq(d):
        return tuple(10000.0 ** (-i / d) for i in range(0, d, 2))

    def __init__(self):
        self.done = 0

    def step(self, x):
        f = torch.tensor(self.freq(x.shape[-1]), dtype=torch.float64)
        z = torch.polar(torch.ones_like(f), f * self.done)
        w = torch.polar(torch.ones_like(f), f)
        rows = []
        for i in range(x.shape[-2]):
            v = torch.view_as_complex(x[..., i, :].double().reshape(*x.shape[:-2], -1, 2)) * z
            rows.append(torch.view_as_real(v).flatten(-2))
            z = z * w
        self.done += x.shape[-2]
        return torch.stack(rows, -2).to(x.dtype)


def running_phase(x, chunks):
    rope = Phases()
    return torch.cat([rope.step(part) for part in torch.split(x, [int(c) for c in chunks], dim=-2)], -2)


def autograd_vjp(x, positions, dy):
    """Gradient by autograd through the scaled rotation."""
    leaf = torch.as_tensor(x).detach().clone().requires_grad_(True)
    s, L0, d, base = 8.0, 8192, 64, 500000.0
    k = torch.arange(d // 2, dtype=torch.float64)
    f = base ** (-2 * k / d)
    lo = max(math.floor(d * math.log(L0 / (64 * math.pi)) / (2 * math.log(base))), 0)
    hi = min(math.ceil(d * math.log(L0 / (2 * math.pi)) / (2 * math.log(base))), d - 1)
    r = ((k - lo) / (hi - lo)).clamp(0, 1)
    a = torch.as_tensor(positions).double()[..., None] * (f * (1 - r) + f / s * r)
    a = a[:, None] if a.dim() == 3 else a
    m = 0.1 * math.log(s) + 1
    u, v = leaf.double().chunk(2, -1)
    y = torch.cat((u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()), -1) * m
    (g,) = torch.autograd.grad(y, leaf, torch.as_tensor(dy).double())
    return g


def zigzag(cu_seqlens, cp_size, cp_rank):
    """Reshapes every sequence to (2, cp, n) and mirrors the second half."""
    out = []
    for a, b in zip(cu_seqlens, cu_seqlens[1:]):
        g = np.arange(int(b) - int(a)).reshape(2, cp_size, -1)
        out.append(g[0, cp_rank])
        out.append(g[1, ::-1][cp_rank])
    return np.concatenate(out).astype(np.int32)


def grid_by_count(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Qwen2-VL ids, token by token: a counter inside the block gives t, h, w by divmod."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask)
    B, S = types.shape
    out = np.zeros((3, B, S + n_steps), np.int64)
    grids = {1: iter(np.asarray(image_grids).reshape(-1, 3)), 2: iter(np.asarray(video_grids).reshape(-1, 3))}
    for b in range(B):
        free, base, left = 0, 0, 0
        for s in np.flatnonzero(mask[b]):
            kind = int(types[b, s])
            if kind in grids:
                if left == 0:
                    t, h, w = (int(v) for v in next(grids[kind]))
                    h, w = h // 2, w // 2
                    left, total, base = t * h * w, t * h * w, free
                rest, col = divmod(total - left, w)
                frame, row = divmod(rest, h)
                out[:, b, s] = base + frame, base + row, base + col
                left -= 1
                free = base + max(t, h, w) if left == 0 else free
            else:
                out[:, b, s] = free
                free += 1
        out[:, b, S:] = free + np.arange(n_steps)
    return out
