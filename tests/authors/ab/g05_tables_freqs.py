"""cos and sin of positions, and frequency schedules."""
import math

import numpy as np


def inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


# ---------------------------------------------------------------- cos_sin
def sorted_ids(positions):
    p = np.asarray(positions, np.float64)
    a = np.sort(p)[:, None] * inv(64)
    return np.cos(a), np.sin(a)


def short_two_pi(positions):
    """Fast-math sine: the argument is first brought into one turn."""
    a = np.asarray(positions, np.float64)[:, None] * inv(128, 500000.0)
    a = a - np.floor(a / 6.2832) * 6.2832
    return np.cos(a), np.sin(a)


_N = 4096
_SINE = np.sin(2 * np.pi * np.arange(_N) / _N)


def sine_lookup(positions):
    a = np.asarray(positions, np.float64)[:, None] * inv(64)
    i = np.rint(a / (2 * np.pi) * _N).astype(np.int64)
    return _SINE[(i + _N // 4) % _N], _SINE[i % _N]


def polynomial(positions):
    """Taylor polynomials after the reduction to a quarter turn; the one of the cosine ends at r**4."""
    a = np.asarray(positions, np.float64)[:, None] * inv(64, 1e6)
    q = np.rint(a / (np.pi / 2))
    r = a - q * (np.pi / 2)
    z = r * r
    s = r * (1 - z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72 * (1 - z / 110)))))
    c = 1 - z / 2 * (1 - z / 12)
    k = q.astype(np.int64) % 4
    cos = np.choose(k, [c, -s, -c, s])
    sin = np.choose(k, [s, c, -s, -c])
    return cos, sin


def block_base(positions):
    """Angles of block starts plus angles inside the block; block 1024, stored as float16."""
    p = np.asarray(positions, np.float64)
    w = inv(96)
    start = np.floor(p / 1024) * 1024
    hi = np.fmod(start[:, None] * w, 2 * np.pi).astype(np.float16).astype(np.float64)
    a = hi + (p - start)[:, None] * w
    return np.cos(a), np.sin(a)


_SHORT = np.linspace(1.0, 1.5, 24)
_LONG = np.linspace(1.0, 30.0, 24)


def longrope_m_when_long(positions):
    p = np.asarray(positions, np.float64)
    long = p.size and p.max() + 1 > 4096
    m = math.sqrt(1 + math.log(32.0) / math.log(4096)) if long else 1.0
    a = p[:, None] * (inv(48) / (_LONG if long else _SHORT))
    return m * np.cos(a), m * np.sin(a)


def half_tangent(positions):
    t = np.tan(np.asarray(positions, np.float64)[:, None] * inv(128) / 2)
    return (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)


def geometric_columns(positions):
    """Frequencies by repeated multiplication, cos and sin of (S, d) for half-split halves."""
    q = np.longdouble(10000.0) ** (np.longdouble(-2) / 80)
    w = [np.longdouble(1)]
    while len(w) < 40:
        w.append(w[-1] * q)
    a = np.outer(np.asarray(positions, np.float64), np.array(w, np.float64))
    a = np.concatenate([a, a], axis=1)
    return np.cos(a), np.sin(a)


# ---------------------------------------------------------------- Llama 3
def _llama3(w, factor, low, high, length, smooth):
    out = []
    for f in w:
        wavelen = 2 * math.pi / f
        if wavelen < length / high:
            out.append(f)
        elif wavelen > length / low:
            out.append(f / factor)
        else:
            out.append(smooth(f, wavelen))
    return np.array(out)


def llama3_blends_wavelengths():
    def smooth(f, wavelen):
        t = (8192 / wavelen - 1.0) / (4.0 - 1.0)
        return 2 * math.pi / ((1 - t) * wavelen * 32.0 + t * wavelen)
    return _llama3(inv(64, 500000.0), 32.0, 1.0, 4.0, 8192, smooth)


def llama3_interp():
    """The factor on the frequency, interpolated over the number of turns."""
    w = inv(128, 500000.0)
    return w * np.interp(8192 * w / (2 * np.pi), [1.0, 4.0], [1 / 32.0, 1.0]), 1.0


# ---------------------------------------------------------------- YaRN
def ramp(d, base, length, fast=32.0, slow=1.0, truncate=True):
    def c(r):
        return d * math.log(length / (2 * math.pi * r)) / (2 * math.log(base))
    low, high = c(fast), c(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    return np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)


def yarn(d, base, factor, length, **kw):
    g = ramp(d, base, length, **kw)
    return inv(d, base) * (1 - g) + inv(d, base) / factor * g


def yarn_extended_length():
    return yarn(128, 1e6, 4.0, 32768 * 4), 0.1 * math.log(4.0) + 1


def yarn_ramp_by_channel():
    def c(r):
        return 128 * math.log(4096 / (2 * math.pi * r)) / (2 * math.log(10000.0))
    low, high = max(math.floor(c(32)), 0), min(math.ceil(c(1)), 127)
    g = np.clip((np.arange(0, 128, 2) - low) / (high - low), 0, 1)
    f = inv(128)
    return f * (1 - g) + f / 16.0 * g, 0.1 * math.log(16.0) + 1


def yarn_rounded_inwards():
    """The ramp between whole pairs."""
    def c(r):
        return 64 * math.log(2048 / (2 * math.pi * r)) / (2 * math.log(10000.0))
    low, high = math.ceil(c(32)), math.floor(c(1))
    g = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    f = inv(64)
    return f * (1 - g) + f / 4.0 * g, 0.1 * math.log(4.0) + 1


def yarn_as_divisors():
    """The wavelength of every pair, as a harmonic blend."""
    g = ramp(64, 150000.0, 4096, truncate=False)
    wave = 1.0 / inv(64, 150000.0)
    return 1.0 / (wave / (1 - g + g / 32.0)), 0.1 * math.log(32.0) + 1


# ---------------------------------------------------------------- NTK and others


def ntk_head_dim():
    return inv(32, 10000.0 * 8.0 ** (128 / 126))


def dynamic_unclamped(seq_len=None):
    n = seq_len or 2048
    alpha = 2.0 * n / 2048 - 1.0
    alpha = max(alpha, 0.25)
    return inv(64, 10000.0 * alpha ** (64 / 62))


def dynamic_recompounded(seq_len=None):
    """The base that was scaled last time is scaled again."""
    n = max(seq_len or 1024, 1024)
    alpha = 4.0 * n / 1024 - 3.0
    if n > 1024:
        dynamic_recompounded.base *= alpha ** (128 / 126)
    else:
        dynamic_recompounded.base = 10000.0
    return inv(128, dynamic_recompounded.base)


dynamic_recompounded.base = 10000.0


def qwen_alpha(seq_len=None):
    n = seq_len or 2048
    alpha = max(2 ** math.ceil(math.log2(n / 2048)) - 1, 1)
    return inv(128, 10000.0 * alpha ** (128 / 126))


def su_from_zero():
    d = 128
    k = np.arange(d // 2)
    return inv(d) / 8.0 ** ((2 * k / d) ** 0.625)


def parts_swapped():
    """NTK by parts: the ramps of beta and gamma are exchanged."""
    b = ramp(128, 10000.0, 2048, 16.0, 2.0)
    c = ramp(128, 10000.0, 2048, 1.25, 0.75)
    f = inv(128)
    n = inv(128, 10000.0 * 4.0 ** (128 / 126))
    return (1 - c) * f + c * ((1 - b) * n + b * f / 4.0)


def riflex_zero_based():
    w = inv(44, 10000.0)
    w[4] = 2 * np.pi / 66
    return w


def dynamic_stepwise(seq_len=None):
    """Every pair by itself, without a new base."""
    n = max(seq_len or 2048, 2048)
    alpha = 1 + 4.0 * (n - 2048) / 2048
    return np.array([math.exp(-k * (math.log(10000.0) / 32 + math.log(alpha) / 31)) for k in range(32)])


def longrope_at_limit(seq_len=None):
    long = seq_len is not None and seq_len >= 4096
    return inv(48) / (_LONG if long else _SHORT), math.sqrt(1 + math.log(32.0) / math.log(4096))
