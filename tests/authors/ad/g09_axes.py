"""M-RoPE and axial rotary embeddings, on vectors and keys."""
import math

import numpy as np


def _axes(positions, A):
    """-> (A, S) or (A, B, S) float64"""
    p = np.asarray(positions, np.float64)
    return np.broadcast_to(p, (A, *p.shape)) if p.ndim == 1 else p


def _angles(positions, A, axis_of, freq):
    p = _axes(positions, A)[np.asarray(axis_of)]              # (P, S) or (P, B, S)
    a = np.moveaxis(p, 0, -1) * freq
    return a if a.ndim == 2 else a[:, None]


def _half(x, a, m=1.0):
    c, s = np.cos(a) * m, np.sin(a) * m
    P = a.shape[-1]
    u, v = x[..., :P].astype(np.float64), x[..., P:2 * P].astype(np.float64)
    return np.concatenate([u * c - v * s, u * s + v * c, x[..., 2 * P:]], -1).astype(x.dtype)


def _pairs(x, a):
    c, s = np.cos(a), np.sin(a)
    y = np.array(x)
    P = a.shape[-1]
    u, v = x[..., 0:2 * P:2].astype(np.float64), x[..., 1:2 * P:2].astype(np.float64)
    y[..., 0:2 * P:2], y[..., 1:2 * P:2] = u * c - v * s, u * s + v * c
    return y


def _geo(n, base=10000.0):
    return base ** (-np.arange(n) / n)


def qwen2vl_split(x, positions, sections=(16, 24, 24)):
    """Hugging Face: doubled sections, split and chosen by i % 3."""
    p = _axes(positions, 3)
    f = p[..., None] * _geo(64, 1e6)
    emb = np.concatenate([f, f], -1)
    cuts = np.cumsum(list(sections) * 2)[:-1]
    cos = np.concatenate([m[i % 3] for i, m in enumerate(np.split(np.cos(emb), cuts, -1))], -1)
    sin = np.concatenate([m[i % 3] for i, m in enumerate(np.split(np.sin(emb), cuts, -1))], -1)
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    r = np.concatenate([-x[..., 64:], x[..., :64]], -1)
    return (x * cos + r * sin).astype(x.dtype)


def qwen3vl_interleaved(x, positions, sections=(24, 20, 20)):
    """Overwrites the time frequencies in place, slice by slice."""
    p = _axes(positions, 3)
    f = p[..., None] * _geo(64, 5e6)
    t = f[0].copy()
    for a in (1, 2):
        idx = slice(a, sections[a] * 3, 3)
        t[..., idx] = f[a][..., idx]
    return _half(x, t if t.ndim == 2 else t[:, None])


def flux_axes(x, positions, dims=(16, 56, 56)):
    """FLUX: a table of 2x2 matrices for each axis, concatenated."""
    p = _axes(positions, 3)
    a = np.concatenate([p[i][..., None] * _geo(d // 2) for i, d in enumerate(dims)], -1)
    a = a if a.ndim == 2 else a[:, None]
    M = np.stack([np.cos(a), -np.sin(a), np.sin(a), np.cos(a)], -1).reshape(*a.shape, 2, 2)
    v = x.astype(np.float64).reshape(*x.shape[:-1], x.shape[-1] // 2, 1, 2)
    return (M[..., 0] * v[..., 0] + M[..., 1] * v[..., 1]).reshape(x.shape).astype(x.dtype)


# ------------------------------------------------------------------------------------------------

_MS = np.repeat([0, 1, 2], [16, 24, 24])


def mrope_elementwise_doubled(x, positions, sections=(16, 24, 24)):
    p = _axes(positions, 3)
    f = p[..., None] * _geo(64, 1e6)
    emb = np.concatenate([f, f], -1)
    cuts = np.cumsum([2 * s for s in sections])[:-1]
    cos = np.concatenate([m[i] for i, m in enumerate(np.split(np.cos(emb), cuts, -1))], -1)
    sin = np.concatenate([m[i] for i, m in enumerate(np.split(np.sin(emb), cuts, -1))], -1)
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    r = np.concatenate([-x[..., 64:], x[..., :64]], -1)
    return (x * cos + r * sin).astype(x.dtype)


def interleaved_to_the_end(x, positions):
    return _half(x, _angles(positions, 3, np.arange(64) % 3, _geo(64, 5e6)))


def axes_guessed_last(x, positions):
    """(A, B, S) is read as (B, A, S) if the second axis has 3 entries."""
    p = np.asarray(positions, np.float64)
    if p.ndim == 3 and p.shape[1] == 3:
        p = np.moveaxis(p, 1, 0)
    return _half(x, _angles(p, 3, _MS, _geo(64, 1e6)))


def axial_denominator(x, positions):
    """Every axis begins at 1, but the exponent is divided by the pairs of the head, not of the axis."""
    f = 10000.0 ** (-np.arange(16) / 32)
    return _half(x, _angles(positions, 2, np.repeat([0, 1], 16), np.tile(f, 2)))


def pixtral_same(x, positions):
    """strided: both axes take the even frequencies."""
    f = _geo(32)[0::2]
    return _half(x, _angles(positions, 2, np.repeat([0, 1], 16), np.tile(f, 2)))


def bases_exchanged(x, positions):
    f = np.concatenate([_geo(8, 10000.0), _geo(12, 256.0), _geo(12, 256.0)])
    return _pairs(x, _angles(positions, 3, np.repeat([0, 1, 2], [8, 12, 12]), f))


def riflex_everywhere(x, positions, pair=4, length=66):
    out = []
    for n in (8, 28, 28):
        f = _geo(n, 256.0)
        f[pair - 1] = 0.9 * 2 * math.pi / length
        out.append(f)
    return _pairs(x, _angles(positions, 3, np.repeat([0, 1, 2], [8, 28, 28]), np.concatenate(out)))


def axes_two(x, positions):
    """Two faults: see cases."""
    f = np.tile(_geo(16, 10000.0), 2)
    return _half(x, _angles(positions, 2, np.repeat([1, 0], 16), f))


