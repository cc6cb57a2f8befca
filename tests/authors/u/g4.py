"""Several position axes. x (B, H, S, D); positions (A, S), (A, B, S), or (S,) for text."""

import numpy as np


def _three(positions, axes):
    p = np.asarray(positions, dtype=np.float64)
    return np.broadcast_to(p, (axes, *p.shape)) if p.ndim == 1 else p


def _head_axis(t):
    return t[:, None] if t.ndim == 3 else t


def _halves(x, ang):
    ang = _head_axis(ang)
    c, s = np.cos(ang), np.sin(ang)
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)


def _neighbours(x, ang):
    ang = _head_axis(ang)
    n = 2 * ang.shape[-1]
    z = (x[..., 0:n:2] + 1j * x[..., 1:n:2]) * np.exp(1j * ang)
    y = np.stack([z.real, z.imag], -1).reshape(*x.shape[:-1], n)
    return np.concatenate([y, x[..., n:]], -1).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def qwen3vl_as_qwen2vl(x, positions, mrope_section=(24, 20, 20), theta=5e6):
    """Text tower of Qwen3-VL, from our Qwen2-VL code."""
    p = _three(positions, 3)
    freqs = p[..., None] * theta ** (-np.arange(64) / 64)
    parts = np.split(freqs, np.cumsum(mrope_section)[:-1], axis=-1)
    return _halves(x, np.concatenate([part[i] for i, part in enumerate(parts)], axis=-1))


# ---------------------------------------------------------------------------------------------
def small_vl_open_slices(x, positions, theta=1e4):
    """apply_interleaved_mrope: T T T ... becomes T H W T H W ..."""
    p = _three(positions, 3)
    freqs = p[..., None] * theta ** (-np.arange(32) / 32)
    t = freqs[0].copy()
    for dim, offset in ((1, 1), (2, 2)):
        t[..., offset::3] = freqs[dim][..., offset::3]
    return _halves(x, t)


# ---------------------------------------------------------------------------------------------
def flux_one_table(x, ids, axes_dim=(16, 56, 56), theta=10000.0):
    """One omega for the whole head, cut into the axes."""
    p = _three(ids, 3)
    omega = theta ** -(np.arange(0, sum(axes_dim), 2) / sum(axes_dim))
    out, start = [], 0
    for axis, d in enumerate(axes_dim):
        out.append(p[axis][..., None] * omega[start : start + d // 2])
        start += d // 2
    return _neighbours(x, np.concatenate(out, axis=-1))


# ---------------------------------------------------------------------------------------------
def vision_tower_xy(x, positions, theta=10000.0):
    """Qwen2-VL vision: the columns first, as in x, y."""
    p = _three(positions, 2)
    row, col = p
    d = x.shape[-1] // 2
    inv = theta ** -(np.arange(0, d, 2) / d)
    return _halves(x, np.concatenate([col[..., None] * inv, row[..., None] * inv], axis=-1))


# ---------------------------------------------------------------------------------------------
def pixtral_shared(x, positions, theta=10000.0):
    p = _three(positions, 2)
    dim = x.shape[-1]
    freqs = theta ** -(np.arange(0, dim, 2) / dim)
    freqs_h = p[0][..., None] * freqs[::2]
    freqs_w = p[1][..., None] * freqs[::2]
    return _halves(x, np.concatenate([freqs_h, freqs_w], axis=-1))


# ---------------------------------------------------------------------------------------------
def gemma4_vision(x, positions, base=100.0):
    """(x, y) of each patch."""
    p = _three(positions, 2)
    d = x.shape[-1] // 2
    inv = base ** -(np.arange(0, d, 2) / d)
    ang = np.concatenate([p[0][..., None] * inv, p[1][..., None] * inv], axis=-1)
    return _halves(x, ang)


# ---------------------------------------------------------------------------------------------
def qwen2vl_numpy_sections(x, positions, theta=1e6):
    p = _three(positions, 3)
    half = x.shape[-1] // 2
    ang = p[..., None] * theta ** (-np.arange(half) / half)
    emb = np.concatenate([ang, ang], axis=-1)
    mrope_section = np.array([16, 24, 24])
    cuts = np.cumsum(mrope_section * 2)[:-1]
    cos = np.concatenate([m[i % 3] for i, m in enumerate(np.split(np.cos(emb), cuts, -1))], -1)
    sin = np.concatenate([m[i % 3] for i, m in enumerate(np.split(np.sin(emb), cuts, -1))], -1)
    cos, sin = _head_axis(cos), _head_axis(sin)
    rotated = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return (x * cos + rotated * sin).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
class ImageTable:
    """Qwen-Image: a table per axis, looked up by position; computed for what is not in it."""

    def __init__(self, axes_dim=(16, 56, 56), theta=10000.0, rows=4096):
        self.omegas = [theta ** -(np.arange(0, d, 2) / d) for d in axes_dim]
        t = np.arange(rows, dtype=np.float64)[:, None]
        self.rows, self.tables = rows, [np.exp(1j * t * w) for w in self.omegas]

    def axis(self, a, p):
        if np.issubdtype(p.dtype, np.integer) and p.size and p.max() < self.rows:
            return self.tables[a][p]
        return np.exp(1j * p[..., None] * self.omegas[a])

    def __call__(self, x, positions):
        p = np.asarray(positions)
        if p.ndim == 1:
            p = np.stack([p, p, p])
        cis = _head_axis(np.concatenate([self.axis(a, p[a]) for a in range(3)], -1))
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * cis
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


image_table = ImageTable()


# ---------------------------------------------------------------------------------------------
def mrope_text_is_time(x, positions, theta=1e6):
    """Text has only a time."""
    p = np.asarray(positions, dtype=np.float64)
    if p.ndim == 1:
        p = np.stack([p, np.zeros_like(p), np.zeros_like(p)])
    half = x.shape[-1] // 2
    inv = theta ** (-np.arange(half) / half)
    axis = np.repeat([0, 1, 2], [16, 24, 24])
    return _halves(x, np.moveaxis(p[axis], 0, -1) * inv)


# ---------------------------------------------------------------------------------------------
def _riflex(dim, theta, k, length):
    freqs = theta ** -(np.arange(0, dim, 2) / dim)
    freqs[k - 1] = 2 * np.pi / length
    return freqs


def hunyuan_riflex(x, ids, axes_dim=(16, 56, 56), theta=256.0, k=4, length=66):
    """Passes k and the number of latent frames down to get_1d_rotary_pos_embed."""
    p = _three(ids, 3)
    ang = [p[a][..., None] * _riflex(d, theta, k, length) for a, d in enumerate(axes_dim)]
    return _neighbours(x, np.concatenate(ang, -1))


def hunyuan_riflex_zero_based(x, ids, axes_dim=(16, 56, 56), theta=256.0, k=4, length=66):
    p = _three(ids, 3)
    omegas = [theta ** -(np.arange(0, d, 2) / d) for d in axes_dim]
    omegas[0][k] = 2 * np.pi / length
    return _neighbours(x, np.concatenate([q[..., None] * w for q, w in zip(p, omegas)], -1))


# ---------------------------------------------------------------------------------------------
def dinov3(x, coords, base=100.0):
    """Coordinates of patch centres in -1 .. 1."""
    p = _three(coords, 2)
    d = x.shape[-1] // 2
    periods = base ** (np.arange(0, d, 2) / d)
    ang = np.concatenate([p[0][..., None] / periods, p[1][..., None] / periods], -1)
    return _halves(x, ang)


# ---------------------------------------------------------------------------------------------
MIXED = np.array([[0.9, 0.31, 0.11, 0.04], [-0.2, 0.47, 0.07, -0.13]])


def mixed_products(x, positions):
    """RoPE-Mixed: cos and sin of both axes are combined."""
    p = _three(positions, 2)
    ax, ay = p[0][..., None] * MIXED[0], p[1][..., None] * MIXED[1]
    cos, sin = _head_axis(np.cos(ax) * np.cos(ay)), _head_axis(np.sin(ax) * np.sin(ay))
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape).astype(x.dtype)


HEADS = np.array([[[0.9, 0.3], [-0.2, 0.5]], [[0.1, 0.7], [0.6, -0.4]]])  # (heads, axes, pairs)


def mochi_layout(x, positions):
    """Mochi's parameter is (axes, heads, pairs)."""
    p = _three(positions, 2)
    ang = np.einsum("a...s,ahp->...hsp", p, HEADS)
    c, s = np.cos(ang), np.sin(ang)
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * c - b * s, b * c + a * s], -1).reshape(x.shape).astype(x.dtype)
