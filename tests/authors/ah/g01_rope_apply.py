"""RoPE on one axis, `apply`: ports of Llama, NeoX, Phi-3, Gemma and some kernels."""
import math
import numpy as np


def _spread(t):
    """(S, n) or (B, S, n) -> broadcastable with (B, H, S, n)."""
    return t[:, None] if t.ndim == 3 else t


def _pos(positions):
    return np.asarray(positions).astype(np.float64)


# ------------------------------------------------------------------ 1
def rotate_half(x):
    h = x.shape[-1] // 2
    return np.concatenate([-x[..., h:], x[..., :h]], axis=-1)


def llama_repeat(x, positions):
    """Port of apply_rotary_pos_emb; cos/sin come from the table writer of the other repo."""
    d = x.shape[-1]
    inv_freq = 1.0 / 500000.0 ** (np.arange(0, d, 2) / d)
    emb = np.repeat(_pos(positions)[..., None] * inv_freq, 2, axis=-1)
    cos, sin = _spread(np.cos(emb)), _spread(np.sin(emb))
    return (x * cos + rotate_half(x) * sin).astype(x.dtype)


# ------------------------------------------------------------------ 2
class NeoXAttentionRotary:
    def __init__(self, hidden, heads, rotary_pct, base):
        self.head_dim = hidden // heads
        self.rotary_ndims = int(self.head_dim * rotary_pct)
        k = np.arange(self.rotary_ndims // 2)
        self.inv_freq = base ** (-2.0 * k / self.head_dim)

    def __call__(self, x, positions):
        n = self.rotary_ndims
        rot, rest = x[..., :n], x[..., n:]
        ang = _spread(_pos(positions)[..., None] * self.inv_freq)
        c, s = np.cos(ang), np.sin(ang)
        a, b = rot[..., : n // 2], rot[..., n // 2:]
        out = np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)
        return np.concatenate([out, rest], -1)


_neox = NeoXAttentionRotary(hidden=512, heads=8, rotary_pct=0.25, base=10000.0)


def neox_partial(x, positions):
    return _neox(x, positions)


# ------------------------------------------------------------------ 3
def _yarn_inv_freq(dim, base, factor, original, fast=32.0, slow=1.0):
    def corr(rot):
        return dim * math.log(original / (rot * 2 * math.pi)) / (2 * math.log(base))
    lo, hi = max(math.floor(corr(fast)), 0), min(math.ceil(corr(slow)), dim - 1)
    if lo == hi:
        hi += 0.001
    extra = 1.0 / base ** (np.arange(0, dim, 2) / dim)
    ramp = np.clip((np.arange(dim // 2) - lo) / (hi - lo), 0, 1)
    return extra / factor * ramp + extra * (1 - ramp)


def yarn_partial_scaled(x, positions):
    """Partial YaRN; the attention scaling is one multiplication at the end."""
    n = 32
    f = _yarn_inv_freq(n, 10000.0, 8.0, 1024)
    ang = _spread(_pos(positions)[..., None] * f)
    c, s = np.cos(ang), np.sin(ang)
    x1, x2 = x[..., 0:n:2], x[..., 1:n:2]
    y = np.array(x, dtype=np.float64)
    y[..., 0:n:2] = x1 * c - x2 * s
    y[..., 1:n:2] = x2 * c + x1 * s
    mscale = 0.1 * math.log(8.0) + 1.0
    return (y * mscale).astype(x.dtype)


# ------------------------------------------------------------------ 4
def inplace_kernel(x, positions):
    """Ported from a CUDA kernel that reads and writes the same registers."""
    out = x.astype(np.float64)
    half = out.shape[-1] // 2
    pos = _pos(positions)
    for i in range(half):
        theta = pos * 10000.0 ** (-i / half)
        c, s = np.cos(theta), np.sin(theta)
        if c.ndim == 2:
            c, s = c[:, None], s[:, None]
        lo, hi = out[..., i], out[..., i + half]
        lo[...] = lo * c - hi * s
        hi[...] = hi * c + lo * s
    return out.astype(x.dtype)


# ------------------------------------------------------------------ 7
class RollingTable:
    """cos/sin of the 4096 slots of a sliding-window cache, built once."""
    SLOTS = 4096

    def __init__(self, dim, base):
        t = np.arange(self.SLOTS)[:, None] * base ** (-np.arange(0, dim, 2) / dim)
        self.cis = np.exp(1j * t)

    def __call__(self, x, positions):
        p = np.asarray(positions)
        q = p.astype(np.int64)
        if (q != p).any() or (q < 0).any():
            raise ValueError("positions must be whole and not negative")
        w = _spread(self.cis[q % self.SLOTS])
        z = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * w
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


_rolling = RollingTable(32, 10000.0)


def rolling_window(x, positions):
    return _rolling(x, positions)


# ------------------------------------------------------------------ 8
def llama31(x, positions):
    """apply_scaling of llama-models, one frequency after the other."""
    d = x.shape[-1]
    scale, low, high, old = 8, 1, 4, 8192
    freqs = []
    for k in range(d // 2):
        f = 500000.0 ** (-2 * k / d)
        wavelen = 2 * math.pi / f
        if wavelen < old / high:
            freqs.append(f)
        elif wavelen > old / low:
            freqs.append(f / scale)
        else:
            smooth = (old / wavelen - low) / (high - low)
            freqs.append((1 - smooth) * f + smooth * f / scale)
    ang = _spread(_pos(positions)[..., None] * np.array(freqs))
    a, b = np.split(x, 2, -1)
    c, s = np.cos(ang), np.sin(ang)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ------------------------------------------------------------------ 9
_SHORT = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.8, 2.0])
_LONG = np.array([1.0, 1.4, 2.0, 3.5, 7.0, 13.0, 26.0, 32.0])


def phi3_su(x, positions):
    """Phi3SuScaledRotaryEmbedding."""
    seq_len = x.shape[-2]
    ext = _LONG if seq_len > 256 else _SHORT
    d = x.shape[-1]
    inv = 1.0 / (ext * 10000.0 ** (np.arange(0, d, 2) / d))
    m = math.sqrt(1 + math.log(16.0) / math.log(256))
    ang = _spread(_pos(positions)[..., None] * inv)
    c, s = m * np.cos(ang), m * np.sin(ang)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ------------------------------------------------------------------ 10
def dynamic_ntk(x, positions):
    d, base, factor, trained = 32, 10000.0, 4.0, 64
    p = _pos(positions)
    seq_len = max(p.max(initial=0), trained)
    base = base * ((factor * seq_len / trained) - (factor - 1)) ** (d / (d - 2))
    ang = _spread(p[..., None] / base ** (np.arange(0, d, 2) / d))
    c, s = np.cos(ang), np.sin(ang)
    a, b = x[..., : d // 2], x[..., d // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ------------------------------------------------------------------ 11
def gemma_proportional(x, positions):
    """p-RoPE, fraction 0.25: only the first quarter of the head turns."""
    d = x.shape[-1]
    n = int(0.25 * d)
    inv = 1e6 ** (-np.arange(0, n, 2) / d)
    ang = _spread(_pos(positions)[..., None] * inv)
    head, tail = x[..., :n], x[..., n:]
    a, b = np.split(head, 2, -1)
    c, s = np.cos(ang), np.sin(ang)
    turned = np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
    return np.concatenate([turned, tail], -1)


# ------------------------------------------------------------------ 12 (two)
def meta_conjugate(x, positions):
    """freqs_cis as in Meta's code."""
    d = x.shape[-1]
    freqs = 1.0 / 10000.0 ** (np.arange(0, d, 2)[: d // 2] / d)
    freqs_cis = _spread(np.exp(-1j * _pos(positions)[..., None] * freqs))
    x_ = np.ascontiguousarray(x.astype(np.float64)).view(np.complex128)
    return (x_ * freqs_cis).view(np.float64).astype(x.dtype)


# ------------------------------------------------------------------ right ones
_FINE, _COARSE = 1024, 1024


class TwoLevelTable:
    """cos and sin of 2**20 positions out of two tables of 1024 rows (addition theorem)."""

    def __init__(self, dim, base):
        f = base ** (-np.arange(0, dim, 2) / dim)
        self.f = f
        self.fine = np.exp(1j * np.arange(_FINE)[:, None] * f)
        self.coarse = np.exp(1j * (np.arange(_COARSE) * _FINE)[:, None] * f)

    def rows(self, p):
        whole = np.asarray(p)
        n = whole.astype(np.int64)
        if (n != whole).any() or (n < 0).any() or (n >= _FINE * _COARSE).any():
            return np.exp(1j * whole.astype(np.float64)[..., None] * self.f)
        return self.coarse[n // _FINE] * self.fine[n % _FINE]


_two_level = TwoLevelTable(64, 1e6)


def two_level(x, positions):
    w = _spread(_two_level.rows(positions))
    a, b = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
    y = np.empty(x.shape, np.float64)
    y[..., :32] = a * w.real - b * w.imag
    y[..., 32:] = a * w.imag + b * w.real
    return y.astype(x.dtype)


def block_matrix(x, positions):
    """The (D, D) matrix of every token, as the paper writes it, and one einsum."""
    d = x.shape[-1]
    p = _pos(positions)
    k = np.arange(d // 2)
    ang = p[..., None] * 10000.0 ** (-2.0 * k / d)
    R = np.zeros((*p.shape, d, d))
    R[..., 2 * k, 2 * k] = R[..., 2 * k + 1, 2 * k + 1] = np.cos(ang)
    R[..., 2 * k, 2 * k + 1] = -np.sin(ang)
    R[..., 2 * k + 1, 2 * k] = np.sin(ang)
    if p.ndim == 1:
        return np.einsum("sij,bhsj->bhsi", R, x).astype(x.dtype)
    return np.einsum("bsij,bhsj->bhsi", np.broadcast_to(R, (x.shape[0], *R.shape[1:])), x).astype(x.dtype)


def yarn_premultiplied(x, positions):
    """Partial YaRN in which the factor goes into the rotated channels before they turn."""
    n, start = 32, 16
    f = _yarn_inv_freq(n, 10000.0, 8.0, 1024)
    m = 1.0 + math.log(8.0) / 10
    mid = m * x[..., start:start + n].astype(np.float64)
    order = np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)])  # to half-split and back
    h = mid[..., order]
    ang = _spread(_pos(positions)[..., None] * f)
    c, s = np.concatenate([np.cos(ang)] * 2, -1), np.concatenate([np.sin(ang)] * 2, -1)
    turned = (h * c + rotate_half(h) * s)[..., np.argsort(order)]
    return np.concatenate([x[..., :start], turned.astype(x.dtype), x[..., start + n:]], -1)
