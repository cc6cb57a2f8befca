"""cos and sin of positions, and frequencies."""
import math

import numpy as np
import torch


# ------------------------------------------------------------------------------ cos_sin
def gpt_oss_cos_sin(positions):
    """NTK-by-parts of gpt-oss."""
    d, base, s, l0 = 64, 150000.0, 32.0, 4096
    freq = base ** (np.arange(0, d, 2) / d)
    find = lambda r: (d / 2) * math.log(l0 / (r * 2 * math.pi)) / math.log(base)
    low, high = math.floor(find(32.0)), math.ceil(find(1.0))
    ramp = (np.arange(d // 2) - low) / (high - low)
    mask = 1 - ramp.clip(0, 1)
    inv = (1.0 / (s * freq)) * (1 - mask) + (1.0 / freq) * mask
    m = 0.1 * math.log(s) + 1.0
    ang = np.asarray(positions, np.float64)[:, None] * inv
    return np.cos(ang) * m, np.sin(ang) * m


def _bf16(a):
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def autocast_outer(positions):
    """The outer product ran under autocast."""
    inv = (10000.0 ** (-np.arange(0, 128, 2) / 128)).astype(np.float32)
    ang = _bf16(np.outer(np.asarray(positions, np.float32), inv))
    return np.cos(ang), np.sin(ang)


class SineTable:
    """Port of firmware: one table of a full turn, the nearest entry."""
    SIZE = 4096

    def __init__(self):
        self.table = np.sin(2 * np.pi * np.arange(self.SIZE) / self.SIZE)
        self.turns = 10000.0 ** (-np.arange(32) / 32) / (2 * np.pi) / 2.0   # linear, factor 2

    def __call__(self, positions):
        t = np.asarray(positions, np.float64)[:, None] * self.turns
        i = np.rint((t - np.floor(t)) * self.SIZE).astype(np.int64) % self.SIZE
        return self.table[(i + self.SIZE // 4) % self.SIZE], self.table[i]


sine_table = SineTable()

_LONG = [1.0, 1.2, 1.9, 3.1, 6.0, 12.0, 21.0, 33.0]


def phi_cos_sin(positions):
    m = math.sqrt(1 + math.log(131072 / 4096) / math.log(4096))
    ang = np.asarray(positions, np.float64)[:, None] * (10000.0 ** (-np.arange(8) / 8) / np.array(_LONG))
    sin, cos = np.sin(ang), np.cos(ang)
    return cos * m, sin


def llama32_cos_sin(positions, theta=10000.0, scale=8.0):
    """Written for another checkpoint of the family."""
    inv = theta ** (-np.arange(0, 64, 2) / 64)
    wavelen = 2 * math.pi / inv
    low, high, old = 1.0, 4.0, 8192
    out = []
    for f, wl in zip(inv, wavelen):
        if wl < old / high:
            out.append(f)
        elif wl > old / low:
            out.append(f / scale)
        else:
            smooth = (old / wl - low) / (high - low)
            out.append((1 - smooth) * f / scale + smooth * f)
    ang = np.outer(np.asarray(positions, np.float64), out)
    return np.cos(ang), np.sin(ang)


def su_doubled(positions):
    """(S, d): both halves; the turn is reduced in extended precision (right)."""
    k = np.arange(16, dtype=np.longdouble)
    theta = np.longdouble(10000.0) ** (-k / 16) / np.longdouble(8.0) ** (((k + 1) / 16) ** np.longdouble(0.625))
    ang = np.asarray(positions, np.longdouble)[:, None] * theta
    two_pi = 8 * np.arctan(np.longdouble(1))
    ang = (ang - two_pi * np.rint(ang / two_pi)).astype(np.float64)
    emb = np.concatenate([ang, ang], axis=-1)
    return np.cos(emb), np.sin(emb)


_PHASE_STEP = [round(10000.0 ** (-k / 32) / (2 * math.pi) * 2.0 ** 64) for k in range(32)]


def fixed_point_phase(positions):
    """Phases are 64-bit integers: products wrap at whole turns by themselves (right)."""
    p = np.asarray(positions)
    if p.size and not (p == np.floor(p)).all():
        ang = p.astype(np.float64)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    else:
        step = np.array([s % 2 ** 64 for s in _PHASE_STEP], dtype=np.uint64)
        with np.errstate(over="ignore"):
            turn = p.astype(np.int64).astype(np.uint64)[:, None] * step
        ang = turn.view(np.int64).astype(np.float64) * (2 * math.pi / 2.0 ** 64)
    return np.cos(ang).astype(np.float32), np.sin(ang).astype(np.float32)


# -------------------------------------------------------------------------- frequencies
def llama31_by_wavelength():
    """Smooth between the two wavelengths."""
    inv = 500000.0 ** (-np.arange(0, 128, 2) / 128)
    factor, low, high, old = 8.0, 1.0, 4.0, 8192.0
    wl = 2 * np.pi / inv
    long_wl, short_wl = old / low, old / high
    t = np.clip((long_wl - wl) / (long_wl - short_wl), 0.0, 1.0)
    return (1 - t) * inv / factor + t * inv


def ntk_head_dim(head_dim=128, rotary_dim=32, alpha=8.0, base=10000.0):
    base = base * alpha ** (head_dim / (head_dim - 2))
    return base ** (-np.arange(0, rotary_dim, 2) / rotary_dim)


def yarn_new_length(dim=128, base=1000000.0, scale=4.0, original=32768):
    max_position = int(original * scale)

    def correction(rotations):
        return dim * math.log(max_position / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(correction(32)), 0), min(math.ceil(correction(1)), dim - 1)
    ramp = torch.clamp((torch.arange(dim // 2, dtype=torch.float64) - low) / (high - low), 0, 1)
    extra = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return extra / scale * ramp + extra * (1 - ramp)


_SHORT_LIST = [1.0, 1.0, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0]
_LONG_LIST = [1.1, 1.4, 2.2, 4.5, 8.0, 15.0, 26.0, 41.0]


def longrope_at_boundary(seq_len, original=64):
    lam = _SHORT_LIST if seq_len < original else _LONG_LIST
    return np.array([10000.0 ** (-k / 8) / v for k, v in enumerate(lam)])


def qwen_step(seq_len, trained=2048, dim=128):
    alpha = 2 ** int(math.log2(seq_len / trained) + 1) - 1 if seq_len > trained else 1
    base = 10000.0 * max(alpha, 1) ** (dim / (dim - 2))
    return base ** (-np.arange(0, dim, 2) / dim)


def hunyuan_video_riflex():
    """Time axis of HunyuanVideo: k = 4, 66 latent frames, 0.9 of a period."""
    def axis(dim):
        return 256.0 ** (-np.arange(0, dim, 2) / dim)

    time = axis(16)
    k = 4
    time[k] = 0.9 * 2 * np.pi / 66
    return np.concatenate([time, axis(56), axis(56)])


def su_mixed(dim=64, base=10000.0, factor=16.0, b=0.625):
    k = np.arange(dim // 2)
    a = math.log(factor) / (dim / 2) ** b
    return base ** (-2 * k / dim) * np.exp(-a * k ** b)


def grok_yarn_log():
    d, base, s, l0 = 64, 10000.0, 16.0, 131072
    find = lambda r: d * math.log(l0 / (r * 2 * math.pi)) / (2 * math.log(base))
    low = max(math.floor(find(8.0)), 0)
    high = min(math.ceil(find(1.0)), d // 2 - 1)
    w = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    f = base ** (-np.arange(0, d, 2) / d)
    return f * (1 - w) + f / s * w


def ntk_by_parts():
    """bloc97's function, as three tables and two ramps (right)."""
    dim, base, scale, length = 128, 10000.0, 4.0, 2048
    k = torch.arange(0, dim, 2, dtype=torch.float64)

    def ramp(first, last):
        lo, hi = (dim * math.log(length / (r * 2 * math.pi)) / (2 * math.log(base)) for r in (first, last))
        lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), dim - 1)
        if lo == hi:
            hi += 0.001
        return ((torch.arange(dim // 2, dtype=torch.float64) - lo) / (hi - lo)).clamp(0, 1)

    plain = torch.exp(-math.log(base) * k / dim)
    linear = plain / scale
    ntk = (base * scale ** (dim / (dim - 2))) ** (-k / dim)
    mixed = torch.lerp(ntk, linear, ramp(1.25, 0.75))
    return torch.lerp(plain, mixed, ramp(16.0, 2.0)).numpy()


def deepseek_like():
    """(frequencies, factor); the ramp by np.interp (right)."""
    d, base, s, l0 = 64, 10000.0, 40.0, 4096
    index = lambda r: d / 2 * np.emath.logn(base, l0 / (2 * np.pi * r))
    low, high = np.floor(index(32.0)), np.ceil(index(1.0))
    weight = np.interp(np.arange(d // 2), [low, high], [0.0, 1.0])
    slow = np.power(base, -np.linspace(0, 1, d // 2, endpoint=False))
    g = lambda u: 0.1 * u * np.log(s) + 1.0
    return slow * (1 - weight * (1 - 1 / s)), float(g(0.707) / g(1.0))
