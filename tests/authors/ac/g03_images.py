"""Tables of images, boxes, videos, coordinates."""
import math

import numpy as np


def _sc(p, width, n=None, base=10000.0):
    half = width // 2
    w = base ** (-np.arange(half) / (half if n is None else n))
    a = np.multiply.outer(np.asarray(p, np.float64), w)
    return np.sin(a), np.cos(a)


# ---------------------------------------------------------------- right


def detr_half_pixel(height, width):
    """Deformable DETR: shift -0.5, cumulative sums of a mask, sine and cosine stacked."""
    ones = np.ones((height, width))
    y, x = ones.cumsum(0), ones.cumsum(1)
    y = (y - 0.5) / (y[-1:] + 1e-6) * (2 * math.pi)
    x = (x - 0.5) / (x[:, -1:] + 1e-6) * (2 * math.pi)
    t = 10000.0 ** (2 * (np.arange(32) // 2) / 32)
    out = []
    for c in (y, x):
        a = c[..., None] / t
        out.append(np.stack([np.sin(a[..., 0::2]), np.cos(a[..., 1::2])], -1).reshape(height, width, 32))
    return np.concatenate(out, -1).reshape(height * width, 64)


def dab_detr_boxes(positions):
    """gen_sineembed_for_position of DAB-DETR, by one complex exponential for all coordinates."""
    c = np.asarray(positions, np.float64)[[1, 0, 2, 3]]
    w = 2 * math.pi / 10000.0 ** (np.arange(8) / 8)
    z = np.exp(1j * c[..., None] * w)
    pairs = np.stack([z.imag, z.real], -1)
    pairs = pairs.reshape(*c.shape, 16)
    return np.concatenate(list(pairs), axis=-1)


def patchtst(positions):
    """The statistics of the 42 rows from closed sums of float64, then only the asked rows."""
    d, length = 16, 42

    def raw(p):
        s, c = _sc(p, d)
        return np.stack([s, c], -1).reshape(*np.shape(p), d)

    all_rows = raw(np.arange(length))
    n = all_rows.size
    mean = math.fsum(all_rows.ravel()) / n
    var = math.fsum(((all_rows - mean) ** 2).ravel()) / (n - 1)
    return (raw(np.asarray(positions)) - mean) / (10 * math.sqrt(var))


# ---------------------------------------------------------------- wrong


def mae_divmod_height(height, width):
    """Rows and columns by divmod with the height: right for square images."""
    y, x = np.divmod(np.arange(height * width), height)
    return np.concatenate([*_sc(x, 32), *_sc(y, 32)], axis=1)


def dit_one_extent(height, width):
    """Both axes are divided by the height."""
    y = np.repeat(np.arange(height), width) * 16.0 / height
    x = np.tile(np.arange(width), height) * 16.0 / height
    return np.concatenate([*_sc(x, 32), *_sc(y, 32)], axis=1)


def detr_true_division(height, width):
    """dim_t = T ** (2 (i / 2) / F): the floor of i // 2 was lost in an upgrade."""
    ones = np.ones((height, width))
    y, x = ones.cumsum(0), ones.cumsum(1)
    y = y / (y[-1:] + 1e-6) * 2 * math.pi
    x = x / (x[:, -1:] + 1e-6) * 2 * math.pi
    t = 20.0 ** (2 * (np.arange(32) / 2) / 32)
    px, py = x[..., None] / t, y[..., None] / t
    px = np.stack([np.sin(px[..., 0::2]), np.cos(px[..., 1::2])], -1).reshape(height, width, -1)
    py = np.stack([np.sin(py[..., 0::2]), np.cos(py[..., 1::2])], -1).reshape(height, width, -1)
    return np.concatenate([py, px], -1).reshape(-1, 64)


def boxes_wh_unscaled(positions):
    """2 pi multiplies the centre only."""
    c = np.asarray(positions, np.float64)
    x, y = c[0] * 2 * math.pi, c[1] * 2 * math.pi
    out = []
    for v in (y, x, c[2], c[3]):
        s, co = _sc(v, 16)
        out.append(np.stack([s, co], -1).reshape(*v.shape, 16))
    return np.concatenate(out, -1)


def video_shared_spectrum(positions):
    """One inverse-frequency vector (of the time axis) for all axes, extended for the others."""
    p = np.asarray(positions, np.float64)
    out = []
    for axis, width in enumerate((16, 24, 24)):
        out += _sc(p[axis], width, n=8)
    return np.concatenate(out, -1)


def patchtst_ddof0(positions):
    d, length = 8, 12
    t = np.stack(_sc(np.arange(length), d), -1).reshape(length, d)
    mean, std = t.mean(), t.std()  # torch's std divides by n - 1
    rows = np.stack(_sc(np.asarray(positions), d), -1).reshape(-1, d)
    return (rows - mean) / (10 * std)


def patchtst_own_rows(positions):
    """Mean and std over the rows that were asked for."""
    d = 16
    rows = np.stack(_sc(np.asarray(positions), d), -1).reshape(-1, d)
    return (rows - rows.mean()) / (10 * rows.std(ddof=1))


def perceiver_endpoint(positions):
    """linspace without its end point."""
    p = np.asarray(positions, np.float64)
    f = np.concatenate([np.multiply.outer(p[a], np.linspace(1.0, r / 2, 8, endpoint=False))
                        for a, r in enumerate((32, 48))], -1) * math.pi
    return np.concatenate([p.T, np.sin(f), np.cos(f)], -1)


def moco_two(height, width):
    """Two mistakes: n = dim/4 and the axes swapped."""
    y, x = np.divmod(np.arange(height * width), width)
    return np.concatenate([*_sc(y, 32), *_sc(x, 32)], axis=1)
