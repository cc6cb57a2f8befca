"""Pieces that implementations in the wild share; each is right on its own.

Arithmetic is float32 throughout, as in most model code.
"""

import ml_dtypes
import numpy as np


def bf16(a):
    """Round to bfloat16 and return float32."""
    return np.asarray(a).astype(ml_dtypes.bfloat16).astype(np.float32)


def fp16(a):
    """Round to float16 and return float32."""
    with np.errstate(over="ignore"):
        return np.asarray(a).astype(np.float16).astype(np.float32)


def inv_freq(dim, base=10000.0):
    """The geometric frequencies base^(-2j/dim)."""
    return 1.0 / base ** (np.arange(0, dim, 2, dtype=np.float32) / dim)


def over_heads(a):
    """Give per-row values (B, S, P) the head axis of (B, H, S, P); leave (S, P) alone."""
    return a[:, None] if a.ndim == 3 else a


def phase(positions, w):
    """Angles position * w, ready to broadcast against (B, H, S, P)."""
    return over_heads(np.asarray(positions, np.float32)[..., None] * w)


def turn_half(x, a):
    """Rotate the pairs (j, j + d/2) by the angles a."""
    cos, sin = np.cos(a), np.sin(a)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def turn_pairs(x, a):
    """Rotate the pairs (2j, 2j + 1) by the angles a."""
    cos, sin = np.cos(a), np.sin(a)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return np.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], axis=-1).reshape(x.shape)


def swap_half(x):
    """(-x2, x1) with x split in the middle."""
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([-x2, x1], axis=-1)


def swap_pairs(x):
    """(-x1, x0, -x3, x2, ...)."""
    return np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)


def whole(positions):
    """Refuse positions that no table row stands for."""
    positions = np.asarray(positions)
    if positions.dtype.kind not in "iu" or (positions.size and positions.min() < 0):
        raise ValueError("positions must be non-negative integers")
    return positions
