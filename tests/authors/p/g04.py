"""Llama 3, LongRoPE, proportional and xPos."""
import math

import torch


def inv_freq(dim, base):
    return 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)


def llama3_inv_freq():
    inv = inv_freq(128, 500000.0)
    low_wavelen, high_wavelen = 8192 / 1.0, 8192 / 4.0
    out = []
    for f in inv.tolist():
        wavelen = 1.0 / f
        if wavelen < high_wavelen:
            out.append(f)
        elif wavelen > low_wavelen:
            out.append(f / 8.0)
        else:
            smooth = (8192 / wavelen - 1.0) / (4.0 - 1.0)
            out.append((1 - smooth) * f / 8.0 + smooth * f)
    return torch.tensor(out, dtype=torch.float64)


def llama3_smooth():
    inv = inv_freq(128, 500000.0)
    wavelen = 2 * math.pi / inv
    scaled = torch.where(wavelen > 8192 / 1.0, inv / 8.0, inv)
    smooth = (8192 / wavelen - 1.0) / (4.0 - 1.0)
    middle = (1 - smooth) * inv + smooth * inv / 8.0
    is_medium = ~(wavelen < 8192 / 4.0) & ~(wavelen > 8192 / 1.0)
    return torch.where(is_medium, middle, scaled)


class Llama32Rope:
    def __init__(self, dim=64, base=500000.0, scale_factor=8, low=1, high=4, old_len=8192):
        inv = inv_freq(dim, base)
        turns = old_len * inv / (2 * math.pi)
        t = ((turns - low) / (high - low)).clamp(0, 1)
        self.inv = inv * ((1 - t) / scale_factor + t)

    def __call__(self, positions):
        a = positions.double()[:, None] * self.inv
        return a.cos(), a.sin()


_l32 = Llama32Rope()


def llama32_cos_sin(positions):
    return _l32(positions)


SHORT = torch.tensor([1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75], dtype=torch.float64)
LONG = torch.tensor([1.0, 1.3, 1.9, 3.2, 6.0, 12.0, 24.0, 32.0], dtype=torch.float64)


def _turn(x, angle, m):
    if angle.dim() == 3:
        angle = angle[:, None]
    c, s = angle.cos() * m, angle.sin() * m
    a, b = x.double().chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)


def phi3_rope(x, positions):
    seq_len = int(positions.max()) + 1
    ext = LONG if seq_len >= 4096 else SHORT
    inv = inv_freq(16, 10000.0) / ext
    m = math.sqrt(1 + math.log(32.0) / math.log(4096))
    return _turn(x, positions.double()[..., None] * inv, m)


def phi3_scaled(x, positions):
    seq_len = int(positions.max()) + 1
    inv = inv_freq(16, 10000.0)
    if seq_len > 4096:
        inv, m = inv / LONG, math.sqrt(1 + math.log(32.0) / math.log(4096))
    else:
        inv, m = inv / SHORT, 1.0
    return _turn(x, positions.double()[..., None] * inv, m)


class Phi3Cache:
    def __init__(self):
        self.keys = []
        self.length = 0

    def append(self, k):
        n = k.shape[-2]
        p = torch.arange(self.length, self.length + n)
        self.length += n
        ext = LONG if self.length > 4096 else SHORT
        m = math.sqrt(1 + math.log(32.0) / math.log(4096))
        self.keys.append(_turn(k, p.double()[:, None] * inv_freq(16, 10000.0) / ext, m))
        return torch.cat(self.keys, -2)


def phi3_keys(k, chunks):
    cache, out = Phi3Cache(), k[..., :0, :]
    for piece in k.split(list(chunks), dim=-2):
        out = cache.append(piece)
    return out


def proportional(x, positions):
    d = x.shape[-1]
    n = int(0.25 * d // 2)
    inv = torch.zeros(d // 2, dtype=torch.float64)
    inv[:n] = 1000000.0 ** (-torch.arange(n, dtype=torch.float64) / n)
    return _turn(x, positions.double()[..., None] * inv, 1.0)


def _xpos(x, p, power, zeta, inv):
    n = p.double()[..., None] / 512.0
    a = p.double()[..., None] * inv
    scale = zeta ** (power * n)
    if a.dim() == 3:
        a, scale = a[:, None], scale[:, None]
    z = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    z = z * torch.polar(scale, a)
    return torch.view_as_real(z).flatten(-2).to(x.dtype)


def xpos_qk(q, k, q_positions, k_positions):
    d = q.shape[-1]
    zeta = (torch.arange(0, d, 2, dtype=torch.float64) + 0.4 * d) / (1.4 * d)
    inv = inv_freq(d, 10000.0)
    return _xpos(q, q_positions, 1, zeta, inv), _xpos(k, k_positions, 1, zeta, inv)


def xpos_gamma(q, k, q_positions, k_positions):
    d = q.shape[-1]
    zeta = (torch.arange(0, d // 2, dtype=torch.float64) + 0.4 * d) / (1.4 * d)
    inv = inv_freq(d, 10000.0)
    return _xpos(q, q_positions, 1, zeta, inv), _xpos(k, k_positions, -1, zeta, inv)


def xpos_centred(q, k, q_positions, k_positions):
    d = q.shape[-1]
    zeta = (torch.arange(0, d, 2, dtype=torch.float64) + 0.4 * d) / (1.4 * d)
    inv = inv_freq(d, 10000.0)

    def one(x, p, sign):
        power = sign * (p - p.shape[-1] // 2).double()[..., None] / 512.0
        a = p.double()[..., None] * inv
        s = zeta ** power
        if a.dim() == 3:
            a, s = a[:, None], s[:, None]
        u, v = x.double().chunk(2, -1)
        return torch.cat((u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()), -1).mul(torch.cat((s, s), -1)).to(x.dtype)

    return one(q, q_positions, 1), one(k, k_positions, -1)
