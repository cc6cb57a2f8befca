"""Several axes, M-RoPE, MixedRoPE, xPos: positions (A, S)."""
import math

import numpy as np
import torch


def _angles(positions, axis, inv):
    """positions (A, S) or (A, B, S) -> (S, P) or (B, 1, S, P)"""
    p = np.asarray(positions, np.float64)[np.asarray(axis)]
    a = np.moveaxis(p, 0, -1) * inv
    return a if a.ndim == 2 else a[:, None]


def _rot_half(x, a):
    n = x.shape[-1] // 2
    u, v = x[..., :n], x[..., n:]
    c, s = np.cos(a), np.sin(a)
    return np.concatenate((u * c - v * s, v * c + u * s), -1).astype(x.dtype)


def _rot_inter(x, a):
    u, v = x[..., 0::2], x[..., 1::2]
    c, s = np.cos(a), np.sin(a)
    return np.stack((u * c - v * s, v * c + u * s), -1).reshape(x.shape).astype(x.dtype)


def a9_042(x, positions):
    """M-RoPE of Qwen2-VL, sections 16 24 24 of 64 pairs."""
    p = torch.as_tensor(positions).double()
    inv = 1e6 ** (-torch.arange(0, 128, 2).double() / 128)
    a = p[..., None] * inv
    a = torch.cat((a, a), -1)  # (3, ..., 128)
    sections = [32, 48, 48]  # a section counts channels of cos and sin
    parts = a.split(sections, dim=-1)
    a = torch.cat([m[i % 3] for i, m in enumerate(parts)], -1)
    if a.dim() == 3:
        a = a[:, None]
    x1, x2 = x.chunk(2, -1)
    return (x * a.cos() + torch.cat((-x2, x1), -1) * a.sin()).to(x.dtype)


def a9_043(x, positions):
    """Qwen3-VL: t h w t h w ..., sections 32 16 16."""
    P = x.shape[-1] // 2
    axis = np.zeros(P, int)
    axis[1::3] = 1
    axis[2::3] = 2
    return _rot_half(x, _angles(positions, axis, 10000.0 ** (-np.arange(P) / P)))


def a9_044(x, positions):
    """Pixtral: even slots of the frequencies for rows, odd slots for columns."""
    P = x.shape[-1] // 2
    f = 10000.0 ** (-np.arange(P) / P)
    inv = np.concatenate((f[::2], f[::2]))
    return _rot_half(x, _angles(positions, [0] * (P // 2) + [1] * (P // 2), inv))


def a9_045(x, positions):
    """Gemma 4's vision tower: x for the first half of the channels, y for the second."""
    D = x.shape[-1]
    p = torch.as_tensor(positions).double()
    inv = 100.0 ** (-torch.arange(0, D // 2, 2).double() / (D // 2))
    a = torch.cat((p[0][..., None] * inv, p[1][..., None] * inv), -1)
    a = torch.cat((a, a), -1)
    if a.dim() == 3:
        a = a[:, None]
    x1, x2 = x[..., : D // 2], x[..., D // 2 :]
    return (x * a.cos() + torch.cat((-x2, x1), -1) * a.sin()).to(x.dtype)


# learned, (heads, axes, pairs)
WEIGHT = np.array([[[1.0, 0.5, 0.25, 0.125], [0.3, 0.2, 0.1, 0.05]], [[0.7, -0.4, 0.2, 0.9], [0.15, 0.6, -0.35, 0.01]]])


def a9_046(x, positions):
    """Mochi keeps its frequencies as (axes, heads, pairs)."""
    w = WEIGHT.reshape(2, 2, 4)
    p = np.asarray(positions, np.float64)
    a = np.einsum("a...s,ahp->...hsp", p, w)
    return _rot_inter(x, a)


def a9_047(x, positions):
    """RoPE-Mixed over the pixel grid of a ViT."""
    w = torch.from_numpy(WEIGHT[0])
    t = torch.as_tensor(positions).long()
    a = t[0][..., None].double() * w[0] + t[1][..., None].double() * w[1]
    if a.dim() == 3:
        a = a[:, None]
    z = torch.polar(torch.ones_like(a), a)
    xc = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(xc * z).flatten(-2).to(x.dtype)


class XPos:
    def __init__(self, dim, base=10000.0, scale_base=512.0):
        self.inv = base ** (-np.arange(0, dim, 2) / dim)
        self.zeta = (np.arange(0, dim, 2) + 0.4 * dim) / (1.4 * dim)
        self.scale_base = scale_base

    def turn(self, x, p, power):
        a = np.asarray(p, np.float64)[..., None] * self.inv
        power = np.asarray(power, np.float64)[..., None]
        z = self.zeta**power
        if a.ndim == 3:
            a, z = a[:, None], z[:, None]
        return _rot_inter_scaled(x, a, z)


def _rot_inter_scaled(x, a, z):
    u, v = x[..., 0::2], x[..., 1::2]
    c, s = np.cos(a) * z, np.sin(a) * z
    return np.stack((u * c - v * s, v * c + u * s), -1).reshape(x.shape).astype(x.dtype)


def a9_048(q, k, q_positions, k_positions):
    """The exponent is centred on the middle of the sequence, against overflow."""
    f = XPos(q.shape[-1])
    qp, kp = np.asarray(q_positions), np.asarray(k_positions)
    q_pow = (qp - qp.shape[-1] // 2) / f.scale_base
    k_pow = (kp - kp.shape[-1] // 2) / f.scale_base
    return f.turn(q, qp, q_pow), f.turn(k, kp, -k_pow)


def a9_049(q, k, q_positions, k_positions):
    d = q.shape[-1]
    zeta = (torch.arange(d // 2).double() + 0.4 * d) / (1.4 * d)
    inv = 10000.0 ** (-torch.arange(0, d, 2).double() / d)

    def one(x, p, sign):
        p = torch.as_tensor(p).double()[..., None]
        a, z = p * inv, zeta ** (sign * p / 512)
        if a.dim() == 3:
            a, z = a[:, None], z[:, None]
        x1, x2 = x.chunk(2, -1)
        c, s = a.cos() * z, a.sin() * z
        return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1).to(x.dtype)

    return one(q, q_positions, 1), one(k, k_positions, -1)


def a9_050(lengths):
    """Positions of packed documents by one cumulative sum."""
    lengths = np.asarray(lengths)
    step = np.ones(int(lengths.sum()), np.int64)
    if not step.size:
        return step
    starts = np.cumsum(lengths)[:-1]
    step[0] = 0
    starts = starts[starts < len(step)]
    step[starts] = 1 - lengths[:-1][: len(starts)]
    return np.cumsum(step)


def a9_051(cu_seqlens, cp_size, cp_rank):
    """Zigzag: the rank's chunk of the first and of the second half of the packed row."""
    cu = np.asarray(cu_seqlens)
    pos = np.concatenate([np.arange(b - a) for a, b in zip(cu[:-1], cu[1:])])
    chunks = pos.reshape(2 * cp_size, -1)
    return np.concatenate((chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]))


def a9_052(x, positions):
    """Axial rotation of an image tower: (h, w), each with its own frequencies."""
    row, col = np.asarray(positions)
    P = x.shape[-1] // 2
    f = 10000.0 ** (-np.arange(P) / P)
    a = np.concatenate((col[..., None] * f[: P // 2], row[..., None] * f[P // 2 :]), -1)
    return _rot_half(x, a if a.ndim == 2 else a[:, None])


def a9_053(x, positions):
    """M-RoPE, chunked, by one gather and one complex product."""
    p = torch.as_tensor(positions).double()
    axis = torch.repeat_interleave(torch.arange(3), torch.tensor([16, 24, 24]))
    inv = torch.exp(-torch.arange(64).double() * (math.log(1e6) / 64))
    a = p.movedim(0, -1)[..., axis].mul(inv)
    if a.dim() == 3:
        a = a.unsqueeze(1)
    z = torch.complex(x[..., :64].double(), x[..., 64:].double()) * torch.exp(1j * a)
    return torch.cat((z.real, z.imag), -1).to(x.dtype)


def a9_054(x, positions):
    """Blockwise: every axis calls the one-axis function on its own channels."""
    if len(np.asarray(positions)) == 1:
        a = np.asarray(positions, float)[0][..., None] * 100.0 ** (-np.arange(x.shape[-1] // 2) / (x.shape[-1] // 2))
        return _rot_half(x, a if a.ndim == 2 else a[:, None])
    h = x.shape[-1] // 2
    out = np.empty(x.shape[:-1] + (2, h), x.dtype)
    for i in (1, 0):
        out[..., i, :] = a9_054(x[..., i * h : (i + 1) * h], np.asarray(positions)[i : i + 1])
    return out.reshape(x.shape)


def a9_055(x, positions):
    """Two rotations one after the other, an axis each: angles add."""
    p = np.asarray(positions, float)
    y = x.astype(float)
    for axis in range(2):
        a = np.stack([p[axis][..., None] * WEIGHT[h, axis] for h in range(2)], -3)
        y = _rot_inter(y, a)
    return y.astype(x.dtype)


def a9_056(q, k, q_positions, k_positions):
    """xPos as the power of one complex number per pair, log-polar."""
    d = q.shape[-1]
    j = np.arange(d // 2)
    log_zeta = np.log1p((2 * j / d - 1) / 1.4)
    inv = 10000.0 ** (-2 * j / d)

    def one(x, p, sign):
        z = np.exp(np.asarray(p, float)[..., None] * (sign * log_zeta / 512 + 1j * inv))
        if z.ndim == 3:
            z = z[:, None]
        w = (x[..., 0::2] + 1j * x[..., 1::2].astype(float)) * z
        return w.view(float).astype(x.dtype)

    return one(q, q_positions, +1), one(k, k_positions, -1)
