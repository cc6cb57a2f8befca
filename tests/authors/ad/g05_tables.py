"""cos/sin tables and inverse frequencies."""
import math

import numpy as np


def _f(d, base):
    return base ** (-np.arange(d // 2) * 2.0 / d)


def coarse_fine(positions):
    """Angle addition: p = 256 a + b, two small tables in float64."""
    p = np.asarray(positions, np.float64)
    b = np.mod(p, 256.0)
    a = (p - b) / 256.0
    w = _f(64, 500000.0)
    ca, sa = np.cos(a[:, None] * (256.0 * w)), np.sin(a[:, None] * (256.0 * w))
    cb, sb = np.cos(b[:, None] * w), np.sin(b[:, None] * w)
    return (ca * cb - sa * sb).astype(np.float32), (sa * cb + ca * sb).astype(np.float32)


def byparts_frequencies():
    """NTK-by-parts(4, 4096), d 64."""
    d, s, L0, base = 64, 4.0, 4096, 10000.0
    k = np.arange(d // 2)
    c = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
    def mask(lo, hi):
        lo, hi = max(math.floor(c(lo)), 0), min(math.ceil(c(hi)), d - 1)
        return 1 - np.clip((k - lo) / (hi - lo), 0, 1)
    f, lin = _f(d, base), _f(d, base) / s
    ntk = _f(d, base * s ** (d / (d - 2)))
    b, g = mask(1.25, 0.75), mask(16.0, 2.0)
    return (lin * (1 - b) + ntk * b) * (1 - g) + f * g


# -- cos_sin -------------------------------------------------------------------------------------


def yarn_log10(positions, s=16.0, L0=4096, d=64):
    k = np.arange(d // 2)
    c = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(10000.0))
    lo, hi = max(math.floor(c(32)), 0), min(math.ceil(c(1)), d - 1)
    w = np.clip((k - lo) / (hi - lo), 0, 1)
    a = np.asarray(positions, np.float64)[:, None] * ((1 - w) * _f(d, 10000.0) + w * _f(d, 10000.0) / s)
    m = 0.1 * math.log10(s) + 1
    return m * np.cos(a), m * np.sin(a)


def sine_by_root(positions):
    """Only the cosine is evaluated; the sine comes from 1 - cos^2 with the sign of the half turn."""
    a = np.asarray(positions, np.float64)[:, None] * _f(64, 10000.0)
    c = np.cos(a)
    s = np.sqrt(np.maximum(1 - c * c, 0))
    return c, np.where(np.mod(np.abs(a), np.pi) < np.pi / 2, s, -s)


def quantised_lut(positions, N=4096):
    """Sine and cosine from a table of one turn, nearest entry."""
    a = np.asarray(positions, np.float64)[:, None] * _f(64, 10000.0)
    i = np.rint(np.mod(a / (2 * np.pi), 1.0) * N).astype(int) % N
    t = 2 * np.pi * np.arange(N) / N
    return np.cos(t)[i], np.sin(t)[i]


def longrope_table_two(positions):
    """Two faults: see cases."""
    short, long = 1 + 0.1 * np.arange(16), 1 + np.arange(16)
    p = np.asarray(positions, np.float64)
    n = float(p.max()) if p.size else 0.0
    lam = long if n > 2048 else short
    a = p[:, None] * _f(32, 10000.0) / lam
    m = math.sqrt(1 + math.log(2048) / math.log(32768))
    return m * np.cos(a), m * np.sin(a)


# -- frequencies ---------------------------------------------------------------------------------


def ntk_head_dim():
    """Partial rotary: 32 of 128 channels, the exponent d/(d-2) of the head."""
    return _f(32, 10000.0 * 8.0 ** (128 / 126))


def dynamic_without_subtraction(seq_len, factor=2.0, L0=2048):
    n = max(seq_len, L0)
    alpha = factor * n / L0 if n > L0 else 1.0
    return _f(64, 10000.0 * alpha ** (64 / 62))


def yarn_clamped_at_pairs(s=4.0, L0=131072, d=64):
    k = np.arange(d // 2)
    c = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(10000.0))
    lo, hi = max(math.floor(c(32)), 0), min(math.ceil(c(1)), d // 2 - 1)
    w = np.clip((k - lo) / (hi - lo), 0, 1)
    f = _f(d, 10000.0)
    return (1 - w) * f + w * f / s, 0.1 * math.log(s) + 1


def yarn_new_length(s=4.0, L0=32768, d=128):
    k = np.arange(d // 2)
    c = lambda r: d * math.log(s * L0 / (2 * math.pi * r)) / (2 * math.log(1e6))
    lo, hi = max(math.floor(c(32)), 0), min(math.ceil(c(1)), d - 1)
    w = np.clip((k - lo) / (hi - lo), 0, 1)
    f = _f(d, 1e6)
    return (1 - w) * f + w * f / s, 0.1 * math.log(s) + 1


def _llama3(wavelength=lambda f: 2 * math.pi / f, smooth=lambda r, lo, hi: (r - lo) / (hi - lo), blend=None, s=8.0, L0=8192):
    lo, hi, out = 1.0, 4.0, []
    for f in _f(128, 500000.0):
        wl = wavelength(f)
        if wl < L0 / hi:
            out.append(f)
        elif wl > L0 / lo:
            out.append(f / s)
        else:
            t = smooth(L0 / wl, lo, hi)
            out.append(blend(t, f, s) if blend else (1 - t) * f / s + t * f)
    return np.array(out)


def llama3_wavelength_ramp():
    return _llama3(smooth=lambda r, lo, hi: 1 - (1 / r - 1 / hi) / (1 / lo - 1 / hi))


def byparts_exchanged():
    d, s, L0, base = 64, 4.0, 4096, 10000.0
    k = np.arange(d // 2)
    c = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
    def mask(lo, hi):
        lo, hi = max(math.floor(c(lo)), 0), min(math.ceil(c(hi)), d - 1)
        return 1 - np.clip((k - lo) / (hi - lo), 0, 1)
    f, lin = _f(d, base), _f(d, base) / s
    ntk = _f(d, base * s ** (d / (d - 2)))
    b, g = mask(16.0, 2.0), mask(1.25, 0.75)
    return (lin * (1 - b) + ntk * b) * (1 - g) + f * g


def llama3_two():
    """Two faults: see cases."""
    lo, hi, s, L0 = 1.0, 4.0, 8.0, 8192
    f = _f(64, 10000.0)                      # Llama 3.2 1B: base 500000, factor 32
    t = np.clip((L0 * f / (2 * np.pi) - lo) / (hi - lo), 0, 1)
    return f * ((1 - t) / s + t)
