"""Several axes: M-RoPE, vision towers, video, learned frequencies."""
import math

import numpy as np
import torch


def _angles(a):
    """(S, P) or (B, S, P) -> broadcastable to (B, H, S, P)."""
    return a[:, None] if a.ndim == 3 else a


# ---- M-RoPE ------------------------------------------------------------------------------
def mrope_slice_bound(x, positions, mrope_section=(24, 20, 20)):
    """Interleaved M-RoPE of Qwen3-VL: T H W T H W ... T T."""
    P = x.shape[-1] // 2
    inv = torch.tensor(5e6, dtype=torch.float64) ** (-torch.arange(P, dtype=torch.float64) / P)
    freqs = positions.double()[..., None] * inv  # (3, ..., S, P)
    t = freqs[0].clone()
    for dim in (1, 2):
        idx = slice(dim, mrope_section[dim], 3)
        t[..., idx] = freqs[dim][..., idx]
    t = _angles(t)
    cos, sin = t.cos().to(x.dtype), t.sin().to(x.dtype)
    a, b = x[..., :P], x[..., P:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def mrope_text_shortcut(x, positions):
    """Text has three equal axes: then the plain table is enough."""
    p = np.asarray(positions, np.float64)
    P = x.shape[-1] // 2
    inv = 1e6 ** (-np.arange(P) / P)
    if np.array_equal(p[0], p[1]):
        ang = p[0][..., None] * inv
    else:
        axis = np.repeat([0, 1, 2], [16, 24, 24])
        ang = np.moveaxis(p, 0, -1)[..., axis] * inv
    ang = _angles(ang)
    a, b = x[..., :P], x[..., P:]
    return np.concatenate([a * np.cos(ang) - b * np.sin(ang), b * np.cos(ang) + a * np.sin(ang)], -1).astype(x.dtype)


MROPE_SECTION = np.array([16, 24, 24])


def mrope_doubled_sections(x, positions):
    """Chunked M-RoPE over cos and sin of full width, as in the first Qwen2-VL code."""
    p = np.asarray(positions, np.float64)
    P = x.shape[-1] // 2
    f = p[..., None] * 1e6 ** (-np.arange(P) / P)
    emb = np.concatenate([f, f], -1)
    section = MROPE_SECTION * 2
    cuts = np.cumsum(section)[:-1]
    pick = lambda t: np.concatenate([c[i % 3] for i, c in enumerate(np.split(t, cuts, -1))], -1)
    cos, sin = _angles(pick(np.cos(emb))), _angles(pick(np.sin(emb)))
    rot = np.concatenate([-x[..., P:], x[..., :P]], -1)
    return (x * cos + rot * sin).astype(x.dtype)


def mrope_first_row(x, positions):
    """GLM-4.1V: sections (8, 12, 12), half of a 128-wide head, adjacent pairs."""
    p = np.asarray(positions, np.float64)
    if p.ndim == 3:
        p = p[:, 0]  # every sample of a batch has the same layout
    axis = np.repeat(np.arange(3), (8, 12, 12))
    a = p[axis].T * 10000.0 ** (-np.arange(32) / 32)
    z = np.exp(1j * a)
    y = x.copy()
    w = (x[..., 0:64:2] + 1j * x[..., 1:64:2]) * z
    y[..., 0:64:2], y[..., 1:64:2] = w.real, w.imag
    return y


# ---- vision towers ----------------------------------------------------------------------------
def _vision(x, row, col, base=10000.0):
    q = x.shape[-1] // 4
    inv = base ** (-np.arange(q) / q)
    a = np.concatenate([np.outer(row, inv), np.outer(col, inv)], -1)
    u, v = x[..., : 2 * q], x[..., 2 * q:]
    return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype)


def grid_stride(x, height, width):
    n = np.arange(height * width)
    return _vision(x, n // height, n % height)


def patch_windows(x, height, width):
    """Vision tower with 2 x 2 merge blocks: tokens of a block are neighbours in the sequence."""
    n = np.arange(height * width)
    r, c = n // width, n % width
    order = np.lexsort((c % 2, r % 2, c // 2, r // 2))
    return _vision(x, r[order], c[order])


def pixtral_shared(x, positions):
    """Pixtral: rows take the even slots of inv_freq, columns the odd ones."""
    p = torch.as_tensor(positions).double()
    d = x.shape[-1]
    freqs = 1.0 / 10000.0 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    rows, cols = p[0][..., None] * freqs[::2], p[1][..., None] * freqs[::2]
    a = _angles(torch.cat((rows, cols), -1))
    u, v = x.chunk(2, -1)
    c, s = a.cos().to(x.dtype), a.sin().to(x.dtype)
    return torch.cat((u * c - v * s, v * c + u * s), -1)




def dino_linspace(x, positions):
    """DINOv3: coordinates in [-1, 1], periods from 1 to the base, 2 pi per period."""
    p = np.asarray(positions, np.float64)
    n = x.shape[-1] // 4
    periods = 100.0 ** np.linspace(0.0, 1.0, n)
    ang = 2 * math.pi * np.concatenate([p[i][..., None] / periods for i in (0, 1)], -1)
    ang = _angles(ang)
    u, v = np.split(x, 2, -1)
    return np.concatenate([u * np.cos(ang) - v * np.sin(ang), v * np.cos(ang) + u * np.sin(ang)], -1).astype(x.dtype)




def wan_thirds(x, positions):
    """Wan video, 128-wide heads: every axis gets an even third."""
    p = np.asarray(positions, np.float64)
    dim = 2 * (x.shape[-1] // 6)
    inv = 10000.0 ** (-np.arange(0, dim, 2) / dim)
    ang = _angles(np.concatenate([p[i][..., None] * inv for i in range(3)], -1))
    n = 3 * dim
    y = x.copy()
    e, o = x[..., 0:n:2], x[..., 1:n:2]
    y[..., 0:n:2] = e * np.cos(ang) - o * np.sin(ang)
    y[..., 1:n:2] = o * np.cos(ang) + e * np.sin(ang)
    return y


def gemma_vision_global_half(x, positions):
    """Gemma 4 vision: cos and sin of both axes side by side, then rotate_half."""
    p = np.asarray(positions, np.float64)
    n = x.shape[-1] // 4
    inv = 100.0 ** (-np.arange(n) / n)
    ang = _angles(np.concatenate([p[0][..., None] * inv, p[1][..., None] * inv], -1))
    ang = np.concatenate([ang, ang], -1)
    half = x.shape[-1] // 2
    rot = np.concatenate([-x[..., half:], x[..., :half]], -1)
    return (x * np.cos(ang) + rot * np.sin(ang)).astype(x.dtype)


def ernie_width_first(x, positions):
    """Ernie 4.5 VL: height and width alternate over 22 + 22 pairs, the last 20 are time."""
    t, h, w = np.asarray(positions, np.float64)
    inv = 500000.0 ** (-np.arange(64) / 64)
    per_pair = np.empty(t.shape + (64,))
    per_pair[..., 0:44:2] = w[..., None]
    per_pair[..., 1:44:2] = h[..., None]
    per_pair[..., 44:] = t[..., None]
    a = _angles(per_pair * inv)
    y = np.empty_like(x)
    y[..., ::2] = x[..., ::2] * np.cos(a) - x[..., 1::2] * np.sin(a)
    y[..., 1::2] = x[..., 1::2] * np.cos(a) + x[..., ::2] * np.sin(a)
    return y


# ---- learned frequencies -----------------------------------------------------------------------------
W_MIXED = np.array([[[0.9, 0.4, 0.15, 0.05], [0.3, -0.7, 0.2, 0.02]],
                    [[-0.6, 0.8, 0.1, 0.03], [0.5, 0.25, -0.35, 0.04]]])  # (H, A, P)
PARAM = np.ascontiguousarray(W_MIXED.transpose(1, 0, 2))  # the checkpoint has (A, H, P)


def mixed_reshaped(x, positions):
    A, H, P = PARAM.shape
    w = PARAM.reshape(H, A, P)
    p = np.asarray(positions, np.float64)  # (A, S) or (A, B, S)
    ang = np.einsum("a...s,hap->...hsp", p, w)
    c, s = np.cos(ang), np.sin(ang)
    y = np.empty_like(x)
    y[..., ::2] = x[..., ::2] * c - x[..., 1::2] * s
    y[..., 1::2] = x[..., 1::2] * c + x[..., ::2] * s
    return y


W_SHARED = np.array([[1.1, 0.6, 0.2, 0.07], [0.4, -0.5, 0.3, 0.01]])


def mixed_xy(x, positions):
    """t_x, t_y as in the ViT code: row of the weight 0 is x, the column."""
    p = torch.as_tensor(positions).double()
    w = torch.as_tensor(W_SHARED)
    t_y, t_x = p[0], p[1]
    ang = _angles(t_x[..., None] * w[0] + t_y[..., None] * w[1])
    z = torch.polar(torch.ones_like(ang), ang)
    v = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(v * z).flatten(-2).to(x.dtype)
