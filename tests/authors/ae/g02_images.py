"""Tables of several axes: images, boxes, videos."""

import math

import numpy as np

TWO_PI = 2 * math.pi


def _sincos(p, d, base=10000.0, n=None):
    """[sin | cos] of positions (...), d columns."""
    k = np.arange(d // 2, dtype=np.float64)
    a = np.asarray(p, np.float64)[..., None] * base ** (-k / (n or d / 2))
    return np.concatenate([np.sin(a), np.cos(a)], axis=-1)


# --- right -------------------------------------------------------------------------------


def separable_grid(height, width):
    """Two one-axis tables, broadcast over the image; nothing is computed per patch."""
    y, x = _sincos(np.arange(height), 48), _sincos(np.arange(width), 48)
    out = np.empty((height, width, 96), np.float32)
    out[..., :48] = y[:, None]
    out[..., 48:] = x[None, :]
    return out.reshape(height * width, 96)


def diffusers_grid(height, width):
    """get_2d_sincos_pos_embed with base_size 16; the first half holds the width."""
    gh = np.arange(height, dtype=np.float32) / (height / 16)
    gw = np.arange(width, dtype=np.float32) / (width / 16)
    grid = np.stack(np.meshgrid(gw, gh), axis=0)  # here w goes first
    emb = []
    for axis in grid.reshape(2, -1):
        omega = 1.0 / 10000 ** (np.arange(16, dtype=np.float64) / 16)
        out = np.einsum("m,d->md", axis.astype(np.float64), omega)
        emb.append(np.concatenate([np.sin(out), np.cos(out)], axis=1))
    return np.concatenate(emb, axis=1).astype(np.float32)


def box_table(positions):
    """gen_sineembed_for_position with flattened pairs, dim 64."""
    pos = np.moveaxis(np.asarray(positions, np.float64), 0, -1)
    i = np.arange(16)
    dim_t = 10000.0 ** (2 * (i // 2) / 16)
    parts = []
    for c in (1, 0, 2, 3):
        a = pos[..., c, None] * TWO_PI / dim_t
        parts.append(np.stack([np.sin(a[..., 0::2]), np.cos(a[..., 1::2])], -1).reshape(*a.shape))
    return np.concatenate(parts, -1).astype(np.float32)


# --- wrong -------------------------------------------------------------------------------


def xy_meshgrid_grid(height, width):
    """timm-like: grid = stack(meshgrid(h, w)) without indexing, i.e. numpy's default."""
    gy, gx = np.meshgrid(np.arange(height), np.arange(width))  # (width, height)
    return np.concatenate([_sincos(gy.ravel(), 32), _sincos(gx.ravel(), 32)], -1).astype(np.float32)


def inclusive_extent_grid(height, width):
    y = np.linspace(0, 16, height)
    x = np.linspace(0, 16, width)
    yy, xx = np.meshgrid(y, x, indexing="ij")
    return np.concatenate([_sincos(xx.ravel(), 32), _sincos(yy.ravel(), 32)], -1).astype(np.float32)


def detr_shift_last_grid(height, width):
    """Deformable DETR: shift -0.5, added to the normalised position."""
    mask = np.ones((height, width))
    y, x = mask.cumsum(0), mask.cumsum(1)
    y = (y / (y[-1:, :] + 1e-6) - 0.5) * TWO_PI
    x = (x / (x[:, -1:] + 1e-6) - 0.5) * TWO_PI
    dim_t = 10000.0 ** (np.arange(16) / 16.0)

    def pairs(c):
        a = c[..., None] / dim_t
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(height, width, 32)

    return np.concatenate([pairs(y), pairs(x)], -1).reshape(-1, 64).astype(np.float32)


def detr_crossed_sizes_grid(height, width):
    mask = np.ones((height, width))
    y, x = mask.cumsum(0), mask.cumsum(1)
    y = TWO_PI * y / (x[:, -1:] + 1e-6)
    x = TWO_PI * x / (y.shape[0] + 1e-6)
    a = np.stack([y, x])[..., None] / 20.0 ** (np.arange(16) / 16.0)
    e = np.stack([np.sin(a), np.cos(a)], -1).reshape(2, height * width, 32)
    return np.concatenate([e[0], e[1]], -1).astype(np.float32)


def box_h_before_w(positions):
    pos = np.asarray(positions, np.float64)
    dim_t = 10000.0 ** (np.arange(8) / 8.0)

    def embed(c):
        a = c[..., None] * TWO_PI / dim_t
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(*c.shape, 16)

    x, y, w, h = pos
    return np.concatenate([embed(y), embed(x), embed(h), embed(w)], -1).astype(np.float32)


def video_equal_exponents(positions):
    """CogVideoX: columns d/4, 3d/8, 3d/8; one omega, of the time axis, is cut for all."""
    t, h, w = np.asarray(positions, np.float64)
    omega = 10000.0 ** (-np.arange(12) / 12.0)

    def emb(p, d):
        a = p[..., None] * omega[: d // 2]
        return np.concatenate([np.sin(a), np.cos(a)], -1)

    return np.concatenate([emb(t, 16), emb(h, 24), emb(w, 24)], -1).astype(np.float32)


def two_faults_grid(height, width):
    """MoCo v3: dim/4 - 1 in the exponent, columns of the width first."""
    omega = 1.0 / 10000.0 ** (np.arange(16) / 16.0)
    yy, xx = np.mgrid[:height, :width]
    y, x = np.outer(yy, omega), np.outer(xx, omega)
    return np.concatenate([np.sin(y), np.cos(y), np.sin(x), np.cos(x)], 1).astype(np.float32)
