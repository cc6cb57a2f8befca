"""Several axes of positions: M-RoPE, images, videos, RoPE-Mixed.  positions (S,), (A, S) or (A, B, S)."""
import numpy as np


def axes_of(positions, count):
    """(A, B or 1, 1, S)"""
    p = np.asarray(positions, np.float64)
    if p.ndim == 1:
        p = np.broadcast_to(p, (count, p.size))
    if p.ndim == 2:
        p = p[:, None]
    return p[:, :, None, :]


def theta(n, d, base=10000.0):
    return base ** (-2.0 * np.arange(n) / d)


def half(x, a):
    c, s = np.cos(a), np.sin(a)
    n = c.shape[-1]
    u, v = x[..., :n].astype(np.float64), x[..., n:2 * n].astype(np.float64)
    return np.concatenate((u * c - v * s, v * c + u * s, x[..., 2 * n:]), -1).astype(x.dtype)


def adjacent(x, a):
    c, s = np.cos(a), np.sin(a)
    u, v = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    y = np.empty(x.shape, np.float64)
    y[..., 0::2], y[..., 1::2] = u * c - v * s, v * c + u * s
    return y.astype(x.dtype)


def pick(p, axis):
    """Position of every pair: (B, 1, S, P)."""
    return np.moveaxis(p[np.asarray(axis)], 0, -1)


# ------------------------------------------------------------------ M-RoPE
QWEN2 = np.repeat([0, 1, 2], [16, 24, 24])


def mrope_hw_exchanged(x, positions):
    p = axes_of(positions, 3)
    return half(x, pick(p, np.array([0, 2, 1])[QWEN2]) * theta(64, 128, 1e6))


def mrope_text_shortcut(x, positions):
    """Text has equal positions on all axes: then one axis suffices."""
    p = axes_of(positions, 3)
    w = theta(64, 128, 1e6)
    if (p[:, 0] == p[:1, 0]).all():
        return half(x, p[0][..., None] * w)
    return half(x, pick(p, QWEN2) * w)


def mrope_split_of_both_halves(x, positions):
    """The table of 2 x 64 columns is cut by sections * 2; part i takes axis i % 3."""
    p = axes_of(positions, 3)
    w = theta(64, 128, 1e6)
    emb = np.concatenate((p[..., None] * w,) * 2, -1)
    parts, at = [], 0
    for i, n in enumerate((16, 24, 24) * 2):
        parts.append(emb[i % 3, ..., at:at + n])
        at += n
    a = np.concatenate(parts, -1)
    y = x.astype(np.float64)
    r = np.concatenate((-y[..., 64:], y[..., :64]), -1)
    return (y * np.cos(a) + r * np.sin(a)).astype(x.dtype)


def mrope_no_end(x, positions):
    """Qwen3-VL: h and w take every third pair."""
    p = axes_of(positions, 3)
    w = theta(64, 128, 1e4)
    a = p[0][..., None] * w
    a = np.array(a)
    for i in (1, 2):
        a[..., i::3] = (p[i][..., None] * w)[..., i::3]
    return half(x, a)


def mrope_one_hot(x, positions):
    """The axis of a pair as a matrix (3, 64)."""
    p = axes_of(positions, 3)
    j = np.arange(64)
    axis = np.where((j % 3 == 1) & (j < 60), 1, np.where((j % 3 == 2) & (j < 60), 2, 0))
    m = np.eye(3)[axis].T * theta(64, 128, 5e6)
    return half(x, np.einsum("abos,ap->bosp", p, m))


# ------------------------------------------------------------------ images


def gemma_vision_whole_head(x, positions):
    p = axes_of(positions, 2)
    w = np.tile(theta(16, 32, 100.0), 2)
    return half(x, pick(p, np.repeat([0, 1], 16)) * w)


def flux_first_of_batch(x, positions):
    p = axes_of(positions, 3)[:, :1]
    w = np.concatenate([theta(n, 2 * n) for n in (8, 28, 28)])
    return adjacent(x, pick(p, np.repeat([0, 1, 2], [8, 28, 28])) * w)


def shared_axis_table(x, positions):
    """Width shares the table of time where the two have the same number of rows."""
    p = axes_of(positions, 3)
    w = np.concatenate([theta(n, 2 * n, 256.0) for n in (8, 28, 28)])
    axis = np.repeat([0, 1, 2], [8, 28, 28])
    if p.size and p[0].max() == p[2].max():
        axis = np.where(axis == 2, 0, axis)
    return adjacent(x, pick(p, axis) * w)


def blocks_one_by_one(x, positions):
    """Gemma 4: every axis turns its own block, one after the other."""
    p = axes_of(positions, 2)
    w = theta(16, 32, 100.0)
    y = [half(x[..., 32 * i:32 * i + 32], p[i][..., None] * w) for i in range(2)]
    return np.concatenate(y, -1)


# ------------------------------------------------------------------ RoPE-Mixed
W2 = np.array([[1.0, 0.5, 0.25, 0.125], [0.75, -0.5, 0.3, 0.1]])  # (A, P)
W3 = np.array([[[1.0, 0.5, 0.2], [0.9, -0.4, 0.1]], [[0.8, 0.3, -0.6], [0.7, 0.25, 0.05]],
               [[0.6, -0.2, 0.15], [0.35, 0.45, 0.55]]])  # (H, A, P)


def mixed_last_axis(x, positions):
    """Turned by the rows, then by the columns."""
    p = axes_of(positions, 2)
    y = x.copy()
    for a in range(2):
        y = adjacent(x, p[a][..., None] * W2[a])
    return y


def mixed_heads_first(x, positions):
    """The parameter as (A, H, P)."""
    p = axes_of(positions, 2)
    w = W3.reshape(2, 3, 3)
    return half(x, p[0][..., None] * w[0][:, None] + p[1][..., None] * w[1][:, None])


def mixed_in_turn(x, positions):
    """Columns first, then rows, head by head."""
    p = axes_of(positions, 2)
    y = x.astype(np.float64)
    for a in (1, 0):
        for h in (2, 0, 1):
            y[:, h:h + 1] = half(y[:, h:h + 1], p[a][..., None] * W3[h, a])
    return y.astype(x.dtype)
