"""Rotations, written differently (NumPy)."""
import math

import numpy as np


def complex_view(x, positions):
    d = x.shape[-1]
    z = np.ascontiguousarray(x, dtype=np.float64).view(np.complex128)
    w = np.exp(np.arange(d // 2) * (-2 * math.log(10000.0) / d))
    a = np.multiply.outer(np.asarray(positions, np.float64), w)
    e = np.cos(a) + 1j * np.sin(a)
    if e.ndim == 3:
        e = np.expand_dims(e, 1)
    return (z * e).view(np.float64).astype(x.dtype)


def by_matrices(x, positions):
    d = x.shape[-1]
    h = d // 2
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(h) / h)
    eye = np.eye(h)
    spec = "sij,bhsj->bhsi" if a.ndim == 2 else "bsij,bhsj->bhsi"
    parts = []
    for t in range(0, x.shape[2], 256):
        w = a[..., t:t + 256, :, None]
        c, s = np.cos(w) * eye, np.sin(w) * eye
        r = np.block([[c, -s], [s, c]])
        parts.append(np.einsum(spec, r, x[:, :, t:t + 256].astype(np.float64), optimize=True))
    return np.concatenate(parts, 2).astype(x.dtype) if parts else x.copy()


def two_level(x, positions):
    d = x.shape[-1]
    w = 500000.0 ** (-np.arange(0, d, 2) / d)
    p = np.asarray(positions)
    low = np.mod(p, 1024)
    high = p - low
    aL, aH = low[..., None] * w, high[..., None] * w
    cos = np.cos(aH) * np.cos(aL) - np.sin(aH) * np.sin(aL)
    sin = np.sin(aH) * np.cos(aL) + np.cos(aH) * np.sin(aL)
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    y = np.zeros((2, *x.shape[:-1], d // 2))
    y[0] = x[..., : d // 2] * cos - x[..., d // 2:] * sin
    y[1] = x[..., d // 2:] * cos + x[..., : d // 2] * sin
    return np.moveaxis(y, 0, -2).reshape(x.shape).astype(x.dtype)


def three_shears(x, positions):
    h = x.shape[-1] // 2
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(h) / h)
    a = np.remainder(a + np.pi, 2 * np.pi) - np.pi
    if a.ndim == 3:
        a = a[:, None]
    flip = np.abs(a) > np.pi / 2
    a = np.where(flip, a - np.sign(a) * np.pi, a)
    t, s = -np.tan(a / 2), np.sin(a)
    u, v = x[..., :h].astype(np.float64), x[..., h:].astype(np.float64)
    u = u + t * v
    v = v + s * u
    u = u + t * v
    sign = np.where(flip, -1.0, 1.0)
    return np.concatenate([sign * u, sign * v], -1).astype(x.dtype)


def trailing_slice(x, positions):
    start, n = 128, 64
    y = np.array(x, order="F")
    a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(0, n, 2) / n)
    if a.ndim == 3:
        a = a[:, None]
    e, o = x[..., start::2].astype(np.float64), x[..., start + 1::2].astype(np.float64)
    y[..., start::2] = e * np.cos(a) - o * np.sin(a)
    y[..., start + 1::2] = e * np.sin(a) + o * np.cos(a)
    return y


def heads_loop(x, positions):
    y = np.transpose(np.empty((x.shape[2], x.shape[0], x.shape[3], x.shape[1]), x.dtype), (1, 3, 0, 2))
    n = 24
    w = [10000.0 ** (-2 * k / n) for k in range(n // 2)]
    p = np.asarray(positions, np.float64)
    y[...] = x
    for k in range(n // 2):
        c, s = np.cos(p * w[k]), np.sin(p * w[k])
        if p.ndim == 2:
            c, s = c[:, None], s[:, None]
        a, b = x[..., k], x[..., k + n // 2]
        y[..., k] = a * c - b * s
        y[..., k + n // 2] = a * s + b * c
    return y


def yarn_reciprocal(positions):
    d, s, length, base = 128, 4.0, 32768, 1000000.0
    period = base ** (np.arange(0, d, 2) / d)
    corr = lambda r: d * (math.log(length) - math.log(2 * math.pi * r)) / math.log(base) / 2
    lo, hi = math.floor(corr(32)), math.ceil(corr(1))
    keep = 1 - np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    w = (period * s) ** -1 * (1 - keep) + keep / period
    a = np.einsum("s,k->sk", np.asarray(positions, np.float64), w)
    m = 1 + math.log(s) / 10
    cos, sin = m * np.cos(a), m * np.sin(a)
    return np.concatenate([cos, cos], -1), np.concatenate([sin, sin], -1)


def llama3_branches():
    out = []
    for k in range(64):
        f = 500000.0 ** (-k / 64)
        wave = 2 * math.pi / f
        if wave > 8192:
            f /= 8
        elif wave >= 2048:
            smooth = (8192 / wave - 1) / 3
            f = f / 8 + smooth * (f - f / 8)
        out.append(f)
    return np.array(out)


def ntk_frequencies(seq_len):
    d, trained, s = 64, 2048, 2.0
    k = np.arange(d // 2)
    alpha = max(1.0, 1 + s * (seq_len - trained) / trained)
    return 10000.0 ** (-2 * k / d) * alpha ** (-2 * k / (d - 2))


def long_factors(x, positions):
    short = [1.0, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75]
    long = [1.0, 1.3, 1.9, 3.2, 6.0, 12.0, 24.0, 32.0]
    p = np.asarray(positions, np.float64)
    lam = short if p.max() < 4096 else long
    f = np.array([10000.0 ** (-k / 8) / lam[k] for k in range(8)])
    a = p[..., None] * f
    if a.ndim == 3:
        a = a[:, None]
    m = math.sqrt(1 + 5 / 12)
    z = (x[..., :8] + 1j * x[..., 8:].astype(np.float64)) * (m * np.exp(1j * a))
    return np.concatenate([z.real, z.imag], -1).astype(x.dtype)


def xpos_log(q, k, q_positions, k_positions):
    d = q.shape[-1]
    h = d // 2
    w = 10000.0 ** (-np.arange(h) / h)
    lz = np.log((np.arange(h) / h + 0.4) / 1.4)

    def rot(x, p, sign):
        p = np.asarray(p, np.float64)[..., None]
        e = np.exp(sign * p / 512 * lz + 1j * p * w)
        if e.ndim == 3:
            e = e[:, None]
        z = (x[..., 0::2].astype(np.float64) + 1j * x[..., 1::2]) * e
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

    return rot(q, q_positions, 1.0), rot(k, k_positions, -1.0)
