"""Partial rotary, trailing slices, scaled rotations and gradients."""
import math

import numpy as np


def ang(positions, w):
    p = np.asarray(positions, np.float64)
    a = p[..., None] * w
    return a[:, None] if p.ndim == 2 else a


def pw(d, base=10000.0):
    return np.power(base, -np.arange(d // 2) * 2.0 / d)


def rot(u, v, a, m=1.0):
    c, s = m * np.cos(a), m * np.sin(a)
    return u * c - v * s, v * c + u * s


def dynamic_by_rows(x, positions):
    """Dynamic NTK; every row of the batch has the frequencies of its own length."""
    p = np.asarray(positions, np.float64)
    rows = p if p.ndim == 2 else np.broadcast_to(p, (x.shape[0], p.size))
    out = np.empty_like(x)
    for b, q in enumerate(rows):
        n = max(int(q.max()) + 1, 512) if q.size else 512
        alpha = 1 + 2.0 * (n - 512) / 512
        a = q[:, None] * pw(64, 1e4 * alpha ** (64 / 62))
        u, v = rot(x[b, ..., :32].astype(float), x[b, ..., 32:].astype(float), a)
        out[b] = np.concatenate([u, v], -1)
    return out


def linear_rounds(x, positions):
    """Interpolated positions are kept as integers."""
    p = np.asarray(positions)
    a = ang(np.floor_divide(p, 4), pw(128))
    u, v = rot(x[..., :64].astype(float), x[..., 64:].astype(float), a)
    return np.concatenate([u, v], -1).astype(x.dtype)


def longrope_own_list(x, positions):
    """Every token takes the list of its own position."""
    m = math.sqrt(1 + math.log(16.0) / math.log(1024))
    short, long = pw(64) / np.linspace(1.0, 1.3, 32), pw(64) / np.linspace(1.0, 12.0, 32)
    p = np.asarray(positions, np.float64)
    a = np.where((p >= 1024)[..., None], p[..., None] * long, p[..., None] * short)
    a = a[:, None] if p.ndim == 2 else a
    u, v = rot(x[..., :32].astype(float), x[..., 32:].astype(float), a, m)
    return np.concatenate([u, v], -1).astype(x.dtype)


def llama3_two_parts(x, positions):
    """Two mistakes: factor 32 for 8, and the second head half uses the plain pairs' sine."""
    w = pw(128, 500000.0)
    turns = 8192 * w / (2 * np.pi)
    t = np.clip((turns - 1) / 3, 0, 1)
    a = ang(positions, w * ((1 - t) / 32.0 + t))
    plain = np.sin(ang(positions, w))
    u, v = x[..., :64].astype(float), x[..., 64:].astype(float)
    c, s = np.cos(a), np.sin(a)
    return np.concatenate([u * c - v * s, v * c + u * plain], -1).astype(x.dtype)


def base_and_last_head(x, positions):
    """Two mistakes: base 10000 for 1000000, and of more than two heads the last is left as it is."""
    u, v = rot(x[..., :32].astype(float), x[..., 32:].astype(float), ang(positions, pw(64)))
    y = np.concatenate([u, v], -1).astype(x.dtype)
    if x.shape[1] > 2:
        y[:, -1] = x[:, -1]
    return y


def row_and_denominator(x, positions):
    """Two mistakes: ids of the first row, and exponents over d - 2."""
    p = np.asarray(positions)
    p = p[0] if p.ndim == 2 else p
    w = 10000.0 ** (-2.0 * np.arange(16) / 30)
    u, v = rot(x[..., :16].astype(float), x[..., 16:32].astype(float), ang(p, w))
    return np.concatenate([u, v, x[..., 32:]], -1).astype(x.dtype)


def gradient_as_inverse(x, positions, dy):
    """YaRN: undoes the rotation."""
    f = pw(64, 1e6)

    def c(r):
        return 64 * math.log(8192 / (2 * math.pi * r)) / (2 * math.log(1e6))
    low, high = max(math.floor(c(32)), 0), min(math.ceil(c(1)), 63)
    g = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    a = ang(positions, f * (1 - g) + f / 8.0 * g)
    m = 0.1 * math.log(8.0) + 1
    u, v = rot(dy[..., :32].astype(float), dy[..., 32:].astype(float), -a)
    return np.concatenate([u / m, v / m], -1).astype(dy.dtype)


def gradient_partial_dropped(x, positions, dy):
    """Gradient of the slice that turns; the buffer of the others is not written."""
    dx = np.zeros_like(dy)
    u, v = rot(dy[..., :16].astype(float), dy[..., 16:32].astype(float), -ang(positions, pw(32)))
    dx[..., :16], dx[..., 16:32] = u, v
    return dx


def norm_of_pairs(x, weight, positions):
    """Norm and rotation in one pass over the pairs, interleaved; the norm is one factor per token."""
    r = 1.0 / np.sqrt(np.einsum("...d,...d->...", x, x, dtype=float) / 64 + 1e-6)[..., None]
    g = (x.astype(float) * weight).reshape(*x.shape[:-1], 32, 2)
    u, v = rot(g[..., 0] * r, g[..., 1] * r, ang(positions, pw(64)))
    return np.stack([u, v], -1).reshape(x.shape).astype(x.dtype)


def norm_over_rotated(x, weight, positions):
    """The mean square is taken over all heads of a token."""
    y = x.astype(float)
    y = y / np.sqrt((y * y).mean((1, 3), keepdims=True) + 1e-6) * weight
    u, v = rot(y[..., :32], y[..., 32:], ang(positions, pw(64)))
    return np.concatenate([u, v], -1).astype(x.dtype)


def yarn_split_temperature(x, positions):
    """YaRN written as a plain rotation of the fast pairs and a second rotation by the difference."""
    f = pw(64, 150000.0)
    c = [64 * math.log(4096 / (2 * math.pi * r)) / (2 * math.log(150000.0)) for r in (32.0, 1.0)]
    g = np.clip((np.arange(32) - max(c[0], 0)) / (min(c[1], 63) - max(c[0], 0)), 0, 1)
    m = 1 + math.log(32.0) / 10
    u, v = rot(x[..., :32].astype(float), x[..., 32:].astype(float), ang(positions, f))
    u, v = rot(u, v, -ang(positions, f * g * (31.0 / 32.0)), m)
    return np.concatenate([u, v], -1).astype(x.dtype)
