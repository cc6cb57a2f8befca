"""Unusual but right rotations: other algorithms, orders, buffers."""

import math

import numpy as np


# ---------------------------------------------------------------------------------------------
def ggml_theta_scale(x, positions, freq_base=10000.0):
    """One multiplication per pair: theta *= theta_scale, over a flat loop of rows."""
    b, h, s, d = x.shape
    theta_scale = freq_base ** (-2.0 / d)
    pos = np.broadcast_to(np.asarray(positions, dtype=np.float64), (b, s))
    out = np.empty_like(x)
    theta = pos.copy()
    for i in range(d // 2):
        c, sn = np.cos(theta)[:, None, :], np.sin(theta)[:, None, :]
        x0, x1 = x[..., i].astype(np.float64), x[..., i + d // 2].astype(np.float64)
        out[..., i] = x0 * c - x1 * sn
        out[..., i + d // 2] = x0 * sn + x1 * c
        theta = theta * theta_scale
    return out


# ---------------------------------------------------------------------------------------------
def three_shears(x, positions, base=10000.0):
    """A rotation as three shears (lifting): no cosine is multiplied with x."""
    d = x.shape[-1]
    ang = np.asarray(positions, dtype=np.float64)[..., None] * base ** -(np.arange(0, d, 2) / d)
    ang = np.remainder(ang + math.pi, 2 * math.pi) - math.pi
    flip = np.abs(ang) > math.pi / 2
    ang = np.where(flip, ang - np.sign(ang) * math.pi, ang)
    t, s = np.tan(ang / 2), np.sin(ang)
    if t.ndim == 3:
        t, s, flip = t[:, None], s[:, None], flip[:, None]
    a, b = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    a = a - t * b
    b = b + s * a
    a = a - t * b
    sign = np.where(flip, -1.0, 1.0)
    out = np.empty(x.shape, x.dtype)
    out[..., 0::2], out[..., 1::2] = sign * a, sign * b
    return out


# ---------------------------------------------------------------------------------------------
class TwoLevelTable:
    """cos and sin of p = 256 * high + low from two small tables, by the addition theorem."""

    def __init__(self, dim, base):
        self.inv = np.exp(-np.arange(0, dim, 2) / dim * math.log(base))
        self.low = np.exp(1j * np.arange(256)[:, None] * self.inv)
        self.high = {}

    def _high(self, k):
        if k not in self.high:
            self.high[k] = np.exp(1j * (256.0 * k) * self.inv)
        return self.high[k]

    def __call__(self, x, positions):
        p = np.asarray(positions)
        if not np.issubdtype(p.dtype, np.integer):
            whole = np.floor(p)
            rest = np.exp(1j * (p - whole)[..., None] * self.inv)
            p = whole.astype(np.int64)
        else:
            p, rest = p.astype(np.int64), 1.0
        hi, lo = np.divmod(p, 256)
        upper = np.array([self._high(int(k)) for k in hi.ravel()]).reshape(*p.shape, len(self.inv))
        z = upper * self.low[lo] * rest
        z = z[:, None] if z.ndim == 3 else z
        h = x.shape[-1] // 2
        w = (x[..., :h] + 1j * x[..., h:]) * z
        return np.concatenate([w.real, w.imag], axis=-1).astype(x.dtype)


two_level = TwoLevelTable(128, 500000.0)


# ---------------------------------------------------------------------------------------------
def block_matrices(x, positions, base=10000.0):
    """The paper's equation 15: a block-diagonal matrix for every position, by einsum."""
    d = x.shape[-1]
    p = np.asarray(positions, dtype=np.float64)
    theta = base ** (-2.0 * np.arange(d // 2) / d)
    R = np.zeros((*p.shape, d, d))
    k = np.arange(d // 2)
    R[..., 2 * k, 2 * k] = R[..., 2 * k + 1, 2 * k + 1] = np.cos(p[..., None] * theta)
    R[..., 2 * k + 1, 2 * k] = np.sin(p[..., None] * theta)
    R[..., 2 * k, 2 * k + 1] = -np.sin(p[..., None] * theta)
    spec = "sij,bhsj->bhsi" if p.ndim == 1 else "bsij,bhsj->bhsi"
    return np.einsum(spec, R, x.astype(np.float64)).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def fortran_result(x, positions, base=10000.0):
    """The result is a transposed view: not contiguous in C order."""
    b, h, s, d = x.shape
    y = np.empty((b, s, d, h), x.dtype)
    xt = x.transpose(0, 2, 3, 1)
    p = np.broadcast_to(np.asarray(positions, float), (b, s))
    ang = (p[..., None] * base ** -(np.arange(0, d, 2) / d))[..., None]
    c, sn = np.cos(ang), np.sin(ang)
    y[:, :, : d // 2] = xt[:, :, : d // 2] * c - xt[:, :, d // 2 :] * sn
    y[:, :, d // 2 :] = xt[:, :, d // 2 :] * c + xt[:, :, : d // 2] * sn
    return y.transpose(0, 3, 1, 2)


# ---------------------------------------------------------------------------------------------
def mla_trailing(q, positions, nope=128):
    """Trailing slice, by permuting to halves, rotating and permuting back."""
    n = q.shape[-1] - nope
    order = np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)])
    pe = q[..., nope:][..., order].astype(np.float64)
    ang = np.asarray(positions, float)[..., None] / 10000.0 ** (np.arange(0, n, 2) / n)
    ang = np.concatenate([ang, ang], -1)
    ang = ang if ang.ndim == 2 else ang[:, None]
    turned = pe * np.cos(ang) + np.concatenate([-pe[..., n // 2 :], pe[..., : n // 2]], -1) * np.sin(ang)
    out = q.copy()
    out[..., nope:] = turned[..., np.argsort(order)]
    return out


# ---------------------------------------------------------------------------------------------
def llama3_clip(x, positions):
    """Llama 3.2 1B, as one clip of the number of turns (no branches)."""
    f = np.power(500000.0, np.arange(0, -64, -2) / 64)
    turns = 8192 * f / (2 * np.pi)
    t = np.minimum(np.maximum((turns - 1.0) / 3.0, 0.0), 1.0)
    ang = np.asarray(positions, float)[..., None] * (f * t + f * (1 - t) / 32.0)
    c, s = np.cos(ang), np.sin(ang)
    if ang.ndim == 3:
        c, s = c[:, None], s[:, None]
    a, b = x[..., :32], x[..., 32:]
    return np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def yarn_by_periods(x, positions):
    """mlx-lm blends reciprocals of frequencies; m is multiplied into the rotated x."""
    d, s, base, L0 = 64, 16.0, 10000.0, 4096
    extra = base ** (np.arange(0, d, 2) / d)
    inter = s * extra

    def at(r):
        return d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))

    lo, hi = max(math.floor(at(32)), 0), min(math.ceil(at(1)), d - 1)
    mask = 1.0 - np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    periods = (inter * extra) / (inter * mask + extra * (1 - mask))
    ang = np.asarray(positions, float)[..., None] / periods
    if ang.ndim == 3:
        ang = ang[:, None]
    m = 0.1 * math.log(s) + 1
    z = np.exp(1j * ang) * m * (x[..., :32] + 1j * x[..., 32:])
    return np.concatenate([z.real, z.imag], -1).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def proportional_infinite_periods(x, positions):
    """Gemma 4 in mlx-lm: periods, infinite for pairs that do not turn."""
    d, p, base = 64, 0.25, 1e6
    n = int(p * d // 2)
    periods = np.concatenate([base ** (np.arange(n) * 2 / d), np.full(d // 2 - n, np.inf)])
    ang = np.asarray(positions, float)[..., None] / periods
    ang = ang[:, None] if ang.ndim == 3 else ang
    c, s = np.cos(ang), np.sin(ang)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def mrope_gather(x, positions, theta=1e6):
    """M-RoPE: one angle per pair by fancy indexing of the axes."""
    p = np.asarray(positions, dtype=np.float64)
    if p.ndim == 1:
        p = np.stack([p] * 3)
    half = x.shape[-1] // 2
    axis = np.searchsorted([16, 40], np.arange(half), side="right")
    ang = np.moveaxis(p[axis], 0, -1) / theta ** (np.arange(half) / half)
    ang = ang if ang.ndim == 2 else ang[:, None]
    z = (x[..., :half] + 1j * x[..., half:].astype(np.float64)) * np.exp(1j * ang)
    return np.concatenate([z.real, z.imag], -1).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def dynamic_with_reset(x, positions, seq_len=None):
    """Dynamic NTK by the slowest pair: theta_k = base^(-2k/d) * alpha^(-2k/(d-2))."""
    d, s, trained = x.shape[-1], 2.0, 64
    if seq_len is None:
        seq_len = int(np.max(positions)) + 1 if np.size(positions) else 0
    n = seq_len
    alpha = 1.0 + s * max(n - trained, 0) / trained
    k2 = np.arange(0, d, 2)
    f = np.exp(-k2 / d * np.log(10000.0) - k2 / (d - 2) * np.log(alpha))
    ang = np.asarray(positions, float)[..., None] * f
    ang = ang[:, None] if ang.ndim == 3 else ang
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate([a * np.cos(ang) - b * np.sin(ang), a * np.sin(ang) + b * np.cos(ang)],
                          -1).astype(x.dtype)
