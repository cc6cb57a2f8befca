"""Rotary functions for inference in NumPy, written by hand: pairs, slices, sequences."""

import numpy as np


def _angles(positions, dim, base=10000.0):
    freqs = 1.0 / base ** (np.arange(0, dim, 2, dtype=np.float64) / dim)
    ang = np.asarray(positions, dtype=np.float64)[..., None] * freqs
    return ang[:, None] if ang.ndim == 3 else ang


# ---------------------------------------------------------------------------------------------
def esm_refactored(x, positions):
    """x (B, H, S, D)."""
    ang = _angles(positions, x.shape[-1])
    emb = np.repeat(ang, 2, axis=-1)
    cos, sin = np.cos(emb), np.sin(emb)
    half = x.shape[-1] // 2
    rotated = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return (x * cos + rotated * sin).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def gptj_every_two(x, positions):
    ang = np.repeat(_angles(positions, x.shape[-1]), 2, axis=-1)
    even, odd = x[..., 0::2], x[..., 1::2]
    swapped = np.stack([odd, -even], axis=-1).reshape(x.shape)
    return (x * np.cos(ang) + swapped * np.sin(ang)).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
class NeoXPartial:
    """Rotates the first rotary_ndims channels of each head."""

    def __init__(self, head_size=128, pct=0.25, base=10000.0):
        self.head_size = head_size
        self.rotary_ndims = int(head_size * pct)
        self.inv_freq = base ** -(np.arange(0, self.rotary_ndims, 2) / head_size)

    def __call__(self, x, positions):
        ang = np.asarray(positions, float)[..., None] * self.inv_freq
        if ang.ndim == 3:
            ang = ang[:, None]
        rot, keep = x[..., : self.rotary_ndims], x[..., self.rotary_ndims :]
        a, b = np.split(rot, 2, axis=-1)
        c, s = np.cos(ang).astype(x.dtype), np.sin(ang).astype(x.dtype)
        return np.concatenate([a * c - b * s, b * c + a * s, keep], axis=-1)


neox_partial = NeoXPartial()


# ---------------------------------------------------------------------------------------------
def partial_by_mask(x, positions, rotary_dim=64):
    """Partial rotary with full-width cos and sin: 1 and 0 where nothing turns."""
    dim = x.shape[-1]
    ang = _angles(positions, rotary_dim)
    pad = [(0, 0)] * (ang.ndim - 1) + [(0, (dim - rotary_dim) // 2)]
    cos = np.pad(np.cos(ang), pad, constant_values=1.0)
    sin = np.pad(np.sin(ang), pad)
    cos, sin = np.concatenate([cos, cos], -1), np.concatenate([sin, sin], -1)
    half = dim // 2
    rotated = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return (x * cos + rotated * sin).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
QK_ROPE_HEAD_DIM = 64


def mla_query(q, positions):
    """DeepSeek: 128 channels without positions, 64 with; interleaved."""
    q_pe, q_nope = q[..., :QK_ROPE_HEAD_DIM], q[..., QK_ROPE_HEAD_DIM:]
    z = q_pe[..., 0::2] + 1j * q_pe[..., 1::2]
    z = z * np.exp(1j * _angles(positions, QK_ROPE_HEAD_DIM))
    q_pe = np.stack([z.real, z.imag], axis=-1).reshape(q_pe.shape)
    return np.concatenate([q_pe, q_nope], axis=-1).astype(q.dtype)


# ---------------------------------------------------------------------------------------------
def stablelm_aligned(x, positions):
    """head_dim 80, rotary_pct 0.25; the slice is padded to the vector width."""
    n = int(x.shape[-1] * 0.25)
    n = (n + 7) // 8 * 8
    ang = _angles(positions, n)
    out = x.copy()
    h = n // 2
    out[..., :h] = x[..., :h] * np.cos(ang) - x[..., h:n] * np.sin(ang)
    out[..., h:n] = x[..., h:n] * np.cos(ang) + x[..., :h] * np.sin(ang)
    return out


# ---------------------------------------------------------------------------------------------
def bshd_habit(x, positions):
    """Written for (B, S, H, D)."""
    seq = x.shape[1]
    start = int(np.min(positions)) if np.size(positions) else 0
    t = np.arange(start, start + seq)
    ang = _angles(t, x.shape[-1])[None, :, None, :]
    a, b = np.split(x, 2, axis=-1)
    c, s = np.cos(ang), np.sin(ang)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def kernel_wants_bshd(x, positions):
    """Calls a routine for (tokens, heads, dim), then brings the result back."""
    b, h, s, d = x.shape
    pos = np.broadcast_to(np.asarray(positions), (b, s)).reshape(-1)
    flat = x.reshape(b, s, h, d).reshape(b * s, h, d)
    ang = (pos[:, None].astype(float) * 10000.0 ** (-np.arange(0, d, 2) / d))[:, None, :]
    c, sn = np.cos(ang), np.sin(ang)
    a, e = flat[..., : d // 2], flat[..., d // 2 :]
    out = np.concatenate([a * c - e * sn, e * c + a * sn], -1)
    return out.reshape(b, s, h, d).reshape(b, h, s, d).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
def inplace_halves(x, positions):
    """One buffer, no temporaries."""
    y = np.array(x, copy=True)
    ang = _angles(positions, x.shape[-1])
    c, s = np.cos(ang).astype(x.dtype), np.sin(ang).astype(x.dtype)
    lo, hi = y[..., : x.shape[-1] // 2], y[..., x.shape[-1] // 2 :]
    lo[...] = lo * c - hi * s
    hi[...] = hi * c + lo * s
    return y


# ---------------------------------------------------------------------------------------------
def folded_heads(x, positions):
    """Folds heads into the batch, so that positions need no extra axis."""
    b, h, s, d = x.shape
    pos = np.asarray(positions)
    if pos.ndim == 1:
        pos = np.tile(pos, (b, 1))
    pos = np.tile(pos, (h, 1))                      # (b*h, s)
    flat = x.reshape(b * h, s, d)
    ang = pos[..., None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    z = (flat[..., 0::2] + 1j * flat[..., 1::2]) * np.exp(1j * ang)
    out = np.empty(flat.shape, x.dtype)
    out[..., 0::2], out[..., 1::2] = z.real, z.imag
    return out.reshape(b, h, s, d)
