"""Rows of projections, and RMSNorm before the rotation."""
import math

import numpy as np
import torch


# ---------------------------------------------------------------------- permute_weights
def permute_like_hf(w, n_heads):
    """From convert_llama_weights_to_hf.py."""
    rows, hidden = w.shape
    return w.reshape(n_heads, rows // n_heads // 2, 2, hidden).transpose(0, 2, 1, 3).reshape(rows, hidden)


def permute_whole_matrix(w, n_heads):
    half = w.shape[0] // 2
    out = np.empty_like(w)
    out[0::2], out[1::2] = w[:half], w[half:]
    return out


def permute_partial_head(w, n_heads):
    d = w.shape[0] // n_heads
    index = [h * d + k + j * (d // 2) for h in range(n_heads) for k in range(d // 2) for j in (0, 1)]
    return w[index]


def permute_einops_style(w, n_heads):
    """'(h two d) c -> (d two h) c', both halves."""
    rows, hidden = w.shape
    d = rows // n_heads
    cube = w.reshape(n_heads, 2, d // 2, hidden)[:, ::-1]
    return np.ascontiguousarray(cube.transpose(2, 1, 0, 3)).reshape(rows, hidden)


def permute_in_cycles(w, n_heads):
    """Port of C that follows the cycles of the permutation with one spare row (right)."""
    out = np.array(w, copy=True)
    d = out.shape[0] // n_heads
    source = lambda i: (i >> 1) + (i & 1) * (d // 2)
    for h in range(n_heads):
        block = out[h * d:(h + 1) * d]
        done = [False] * d
        for start in range(d):
            if done[start]:
                continue
            spare, i = block[start].copy(), start
            while True:
                done[i] = True
                j = source(i)
                if j == start:
                    block[i] = spare
                    break
                block[i] = block[j]
                i = j
    return out


# ------------------------------------------------------------------------- normed_apply
def _phase(positions, n, base, dim):
    p = np.asarray(positions, np.float64)
    z = np.exp(1j * p[..., None] * base ** (-2.0 * np.arange(n) / dim))
    return z[:, None] if z.ndim == 3 else z


def rotate_then_norm(x, weight, positions):
    z = _phase(positions, 32, 1000000.0, 64)
    v = (x[..., :32] + 1j * x[..., 32:]) * z
    y = np.concatenate([v.real, v.imag], -1)
    y = y / np.sqrt(np.mean(y * y, -1, keepdims=True) + 1e-6)
    return (y * weight).astype(x.dtype)


def gemma_norm(x, weight, positions):
    pos = torch.as_tensor(positions).double()
    ang = pos[..., None] * (1000000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64) / 8.0)
    ang = ang[:, None] if ang.dim() == 3 else ang
    y = x.double()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + weight.double())
    a, b = y[..., :32], y[..., 32:]
    return torch.cat([a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()], -1).to(x.dtype)


def olmo2_norm(x, weight, positions):
    """The norm of the projection, before it is cut into heads."""
    wide = x.astype(np.float64)
    size = np.sqrt((wide ** 2).mean(axis=(1, 3), keepdims=True) + 1e-6)
    y = wide / size * weight
    z = _phase(positions, 32, 500000.0, 64)
    v = (y[..., :32] + 1j * y[..., 32:]) * z
    return np.concatenate([v.real, v.imag], -1).astype(x.dtype)


def layer_norm_partial(x, weight, positions):
    """Half of the channels turn, in interleaved pairs."""
    n, d = 16, 64
    wide = x.astype(np.float64)
    wide = wide - wide.mean(-1, keepdims=True)
    wide = wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    head = wide[..., : 2 * n] * weight[: 2 * n]
    v = (head[..., 0::2] + 1j * head[..., 1::2]) * _phase(positions, n, 10000.0, 2 * n)
    head = np.stack([v.real, v.imag], -1).reshape(head.shape)
    return np.concatenate([head, wide[..., 2 * n:]], -1).astype(x.dtype)


def norm_folded_into_tables(x, weight, positions):
    """The weight is part of four tables, and the sum of squares is scaled (right)."""
    z = _phase(positions, 32, 1000000.0, 64)
    w = np.asarray(weight, np.float64)
    wide = x.astype(np.float64)
    e, o = wide[..., 0::2], wide[..., 1::2]
    peak = np.abs(wide).max(-1, keepdims=True)
    peak = np.where(peak > 0, peak, 1.0)
    square = np.einsum("...d,...d->...", wide / peak, wide / peak)[..., None] * peak ** 2
    inv = 1.0 / np.sqrt(square / x.shape[-1] + 1e-6)
    ce, so = z.real * w[0::2], z.imag * w[1::2]
    se, co = z.imag * w[0::2], z.real * w[1::2]
    out = np.empty_like(x)
    out[..., 0::2] = (e * ce - o * so) * inv
    out[..., 1::2] = (o * co + e * se) * inv
    return out
