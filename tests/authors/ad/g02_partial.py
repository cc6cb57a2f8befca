"""Partial rotary: leading slices, trailing slices, latent attention."""
import numpy as np


def _cs(positions, dim, base):
    p = np.asarray(positions, dtype=np.float64)
    p = p if p.ndim == 1 else p[:, None, :]
    ang = np.multiply.outer(p, base ** (-2.0 * np.arange(dim // 2) / dim))
    return np.cos(ang), np.sin(ang)


def _neox(v, c, s):
    a, b = np.split(v, 2, axis=-1)
    return np.concatenate((a * c - b * s, a * s + b * c), axis=-1)


def deepseek_trailing(x, positions, nope=128, base=10000.0):
    """DeepSeek: interleaved in, half out, only the last 64 channels."""
    y = x[..., nope:]
    y = y.reshape(*y.shape[:-1], y.shape[-1] // 2, 2).swapaxes(-1, -2).reshape(y.shape)
    c, s = _cs(positions, y.shape[-1], base)
    return np.concatenate([x[..., :nope], _neox(y, c, s).astype(x.dtype)], -1)


# ------------------------------------------------------------------------------------------------


def across_head(x, positions, rot=32):
    c, s = _cs(positions, rot, 10000.0)
    n, h = rot // 2, x.shape[-1] // 2
    y = np.array(x)
    y[..., :n] = x[..., :n] * c - x[..., h:h + n] * s
    y[..., h:h + n] = x[..., h:h + n] * c + x[..., :n] * s
    return y


def inverse_shuffle(x, positions, nope=128):
    y = x[..., nope:]
    y = y.reshape(*y.shape[:-1], 2, y.shape[-1] // 2).swapaxes(-1, -2).reshape(y.shape)
    c, s = _cs(positions, y.shape[-1], 10000.0)
    return np.concatenate([x[..., :nope], _neox(y, c, s).astype(x.dtype)], -1)


def rest_takes_factor(x, positions, rot=32, s_=8.0, L0=4096):
    """YaRN on a partial rotary head, factor applied to the output."""
    k = np.arange(rot // 2)
    f = 10000.0 ** (-2.0 * k / rot)
    corr = lambda r: rot * np.log(L0 / (r * 2 * np.pi)) / (2 * np.log(10000.0))
    lo, hi = max(np.floor(corr(32)), 0), min(np.ceil(corr(1)), rot - 1)
    w = np.clip((k - lo) / (hi - lo), 0, 1)
    f = f * (1 - w) + f / s_ * w
    p = np.asarray(positions, np.float64)
    p = p if p.ndim == 1 else p[:, None, :]
    ang = p[..., None] * f
    y = np.concatenate([_neox(x[..., :rot], np.cos(ang), np.sin(ang)), x[..., rot:]], -1)
    return (y * (0.1 * np.log(s_) + 1.0)).astype(x.dtype)


def two_partial(x, positions, rot=32):
    c, s = _cs(positions, rot, 100000.0)
    n = rot // 2
    y = np.array(x)
    a, b = x[..., 0:rot:2], x[..., 1:rot:2]
    y[..., 0:rot:2] = a * c - b * s
    y[..., 1:rot:2] = b * c + a * s
    return y
