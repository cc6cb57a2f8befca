"""Pieces that published implementations share; each is correct.

Arithmetic is float32 throughout, as in most model code.
"""

import math

import ml_dtypes
import numpy as np

T5_TABLE = (np.sin(np.arange(32 * 4, dtype=np.float64) * 1.7).reshape(32, 4) * 3).astype(np.float32)
NO_TABLE = np.zeros((32, 2), np.float32)


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


def press_slopes(n, max_bias=8.0):
    """The published recipe: a geometric series, topped up from the next power of two."""
    c = 2 ** int(math.log2(n))
    slopes = [2.0 ** (-max_bias * (h + 1) / c) for h in range(c)]
    slopes += [2.0 ** (-max_bias * (h + 1) / (2 * c)) for h in range(0, 2 * (n - c), 2)]
    return np.array(slopes, np.float32)


def distances(q_len, k_len):
    """Query position minus key position, queries at the end."""
    return (k_len - q_len + np.arange(q_len))[:, None] - np.arange(k_len)


def t5_bucket(relative, bidirectional=True, num_buckets=32, max_distance=128):
    """Buckets by comparing powers of integers."""
    relative = np.asarray(relative, np.int64)
    size = num_buckets // 2 if bidirectional else num_buckets
    exact = size // 2
    n = np.abs(relative) if bidirectional else np.maximum(-relative, 0)
    first = [
        next(m for m in range(exact, max_distance + 1) if _reaches(m, k, exact, size, max_distance))
        for k in range(1, size - exact)
    ]
    bucket = np.where(n < exact, n, exact + np.searchsorted(np.array(first), n, side="right"))
    return bucket + size * (relative > 0) if bidirectional else bucket


def _reaches(n, k, exact, size, max_distance):
    """(n/exact)^(size - exact) >= (max_distance/exact)^k in integers."""
    steps = size - exact
    return n**steps * exact**k >= max_distance**k * exact**steps


def vector(positions):
    """Refuse anything but one position per token."""
    positions = np.asarray(positions)
    if positions.ndim != 1:
        raise ValueError("positions must be one-dimensional")
    return positions


def rows_of(positions, n):
    """Refuse what is not a row of an n-row table."""
    positions = np.asarray(positions)
    if positions.dtype.kind not in "iu":
        raise IndexError("positions must be integers")
    if positions.size and (positions.min() < 0 or positions.max() >= n):
        raise IndexError(f"position outside 0..{n - 1}")
    return positions


def angles(positions, w):
    """Angles (S, P) of a table."""
    return np.asarray(positions, np.float32)[:, None] * w


def interleave(first, second):
    """Columns of both, alternating."""
    return np.stack([first, second], axis=-1).reshape(len(first), -1)


def sines_then_cosines(a):
    """[sin | cos]."""
    return np.concatenate([np.sin(a), np.cos(a)], axis=-1)
