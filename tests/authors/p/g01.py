"""Rotations of one axis, NumPy."""
import numpy as np


def _angles(positions, dim, base=10000.0):
    inv = base ** (-np.arange(0, dim, 2) / dim)
    return np.asarray(positions, np.float64)[..., None] * inv


def _lift(a):
    # (S, w) stays, (B, S, w) gets an axis for the heads
    return a if a.ndim == 2 else a[:, None]


def rotate_neox(x, positions):
    a = _lift(_angles(positions, x.shape[-1]))
    cos, sin = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
    cos = np.concatenate([cos, cos], -1)
    sin = np.concatenate([sin, sin], -1)
    h = x.shape[-1] // 2
    turned = np.concatenate([x[..., h:], -x[..., :h]], -1)
    return x * cos + turned * sin


def apply_rotary_emb(x, positions):
    a = _lift(_angles(positions, x.shape[-1]))
    a = np.repeat(a, 2, axis=-1)
    cos, sin = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
    x1, x2 = np.split(x, 2, -1)
    return x * cos + np.concatenate([-x2, x1], -1) * sin


def rope_timescale(x, positions):
    half = x.shape[-1] // 2
    fraction = np.linspace(0.0, 1.0, half)
    timescale = 10000.0 ** fraction
    a = _lift(np.asarray(positions, np.float64)[..., None] / timescale)
    sin, cos = np.sin(a), np.cos(a)
    first, second = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1).astype(x.dtype)


def rope_pairs(x, positions):
    d = x.shape[-1]
    theta = 10000.0 ** (-np.arange(d // 2) / d)
    a = _lift(np.asarray(positions, np.float64)[..., None] * theta)
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * np.exp(1j * a)
    out = np.empty_like(x)
    out[..., 0::2] = z.real
    out[..., 1::2] = z.imag
    return out


ROT = 32


def phi_rotary(x, positions):
    head = x.shape[-1]
    inv = 1.0 / 10000.0 ** (np.arange(0, ROT, 2) / head)
    a = _lift(np.asarray(positions, np.float64)[..., None] * inv)
    cos, sin = np.cos(a), np.sin(a)
    r, keep = x[..., :ROT], x[..., ROT:]
    r1, r2 = r[..., : ROT // 2], r[..., ROT // 2:]
    out = np.concatenate([r1 * cos - r2 * sin, r2 * cos + r1 * sin], -1)
    return np.concatenate([out.astype(x.dtype), keep], -1)


def neox_partial(x, positions):
    n = 24
    a = _lift(_angles(positions, n))
    cos, sin = np.cos(a), np.sin(a)
    passed, r = x[..., : x.shape[-1] - n], x[..., -n:]
    r1, r2 = np.split(r, 2, -1)
    y = np.concatenate([r1 * cos - r2 * sin, r2 * cos + r1 * sin], -1)
    return np.concatenate([passed, y.astype(x.dtype)], -1)


def stablelm_rotary(x, positions):
    n = 16
    a = _lift(_angles(positions, n))
    cos, sin = np.cos(a), np.sin(a)
    lo, hi = np.split(x.astype(np.float64), 2, axis=-1)
    k = n // 2
    a_lo, a_hi = lo[..., :k], hi[..., :k]
    lo = np.concatenate([a_lo * cos - a_hi * sin, lo[..., k:]], -1)
    hi = np.concatenate([a_hi * cos + a_lo * sin, hi[..., k:]], -1)
    return np.concatenate([lo, hi], -1).astype(x.dtype)


class _Table:
    def __init__(self, dim, max_len=4096, base=10000.0):
        a = _angles(np.arange(max_len), dim, base)
        self.cos, self.sin = np.cos(a), np.sin(a)

    def __call__(self, positions):
        p = np.asarray(positions).astype(np.int64)
        return (_lift(np.take(self.cos, p, axis=0, mode="clip")),
                _lift(np.take(self.sin, p, axis=0, mode="clip")))


_table64 = _Table(64)


def lookup(x, positions):
    cos, sin = _table64(positions)
    x1, x2 = np.split(x, 2, -1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1).astype(x.dtype)


def rotate_rows(x, positions):
    p = np.asarray(positions)
    if p.ndim > 1:
        p = p[0]
    a = _angles(p, x.shape[-1])
    cos, sin = np.cos(a), np.sin(a)
    x1, x2 = np.split(x, 2, -1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1).astype(x.dtype)


def flat_tokens(x, positions):
    b, h, s, d = x.shape
    tokens = x.transpose(0, 2, 1, 3).reshape(b * s, h, d)
    p = np.asarray(positions)
    p = p.reshape(-1) if p.ndim == 2 else np.repeat(p, b)
    a = _angles(p, d)[:, None]
    cos, sin = np.cos(a), np.sin(a)
    t1, t2 = tokens[..., : d // 2], tokens[..., d // 2:]
    out = np.concatenate([t1 * cos - t2 * sin, t2 * cos + t1 * sin], -1).astype(x.dtype)
    return out.reshape(b, s, h, d).transpose(0, 2, 1, 3)


def inplace_halves(x, positions):
    a = _lift(_angles(positions, x.shape[-1]))
    cos, sin = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
    y = x.copy()
    h = x.shape[-1] // 2
    lo, hi = y[..., :h], y[..., h:]
    y[..., :h] = lo * cos - hi * sin
    y[..., h:] = hi * cos + lo * sin
    return y


def tiled(x, positions):
    BLOCK = 128
    d = x.shape[-1]
    s = x.shape[2]
    a = _lift(_angles(positions, d))
    cos, sin = np.cos(a), np.sin(a)
    out = x.astype(np.float64)
    starts = list(range(0, s, BLOCK))
    for t in starts:
        if t + BLOCK > s and s >= BLOCK:
            t = s - BLOCK
        w = slice(t, min(t + BLOCK, s))
        c, n = cos[..., w, :], sin[..., w, :]
        lo = out[:, :, w, : d // 2].copy()
        hi = out[:, :, w, d // 2:].copy()
        out[:, :, w, : d // 2] = lo * c - hi * n
        out[:, :, w, d // 2:] = hi * c + lo * n
    return out.astype(x.dtype)


def head_groups(x, positions):
    GROUP = 8
    b, h, s, d = x.shape
    a = _lift(_angles(positions, d))
    cos, sin = np.cos(a), np.sin(a)
    out = x.copy()
    for g in range(max(h // GROUP, 1)):
        rows = slice(g * GROUP, (g + 1) * GROUP)
        z = x[:, rows]
        out[:, rows, :, 0::2] = z[..., 0::2] * cos - z[..., 1::2] * sin
        out[:, rows, :, 1::2] = z[..., 0::2] * sin + z[..., 1::2] * cos
    return out


def vector_lanes(x, positions):
    LANES, n = 4, 20
    pairs = n // 2
    a = _lift(_angles(positions, n))
    cos, sin = np.cos(a), np.sin(a)
    out = x.copy()
    for k in range(0, pairs // LANES * LANES, LANES):
        i = slice(k, k + LANES)
        j = slice(k + pairs, k + pairs + LANES)
        out[..., i] = x[..., i] * cos[..., i] - x[..., j] * sin[..., i]
        out[..., j] = x[..., j] * cos[..., i] + x[..., i] * sin[..., i]
    return out
