"""Long-context frequency scalings, on vectors."""
import math

import numpy as np


def _turn(x, positions, inv, m=1.0, layout="half"):
    p = np.asarray(positions, dtype=np.float64)
    a = p[..., None] * inv
    if p.ndim == 2:
        a = a[:, None]
    c, s = np.cos(a) * m, np.sin(a) * m
    if layout == "half":
        u, v = np.split(x.astype(np.float64), 2, axis=-1)
        return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)
    u, v = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    return np.stack([u * c - v * s, v * c + u * s], -1).reshape(x.shape).astype(x.dtype)


def _base(d, base=10000.0):
    return np.power(base, -np.arange(0, d, 2) / d)


def _yarn(d, factor, L0, base=10000.0, fast=32.0, slow=1.0, rounding=(math.floor, math.ceil), top=None, mask=None):
    def dim_of(rot):
        return d * math.log(L0 / (rot * 2 * math.pi)) / (2 * math.log(base))
    low, high = rounding[0](dim_of(fast)), rounding[1](dim_of(slow))
    low, high = max(low, 0), min(high, (d - 1) if top is None else top)
    if low == high:
        high += 0.001
    ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    keep = 1 - ramp if mask is None else mask(ramp)
    f = _base(d, base)
    return f / factor * (1 - keep) + f * keep


def yarn_apply(x, positions):
    """YaRN(8, 4096), HF naming, factor in the table."""
    return _turn(x, positions, _yarn(64, 8.0, 4096), 0.1 * math.log(8.0) + 1)


def dynamic_apply(x, positions, factor=4.0, L0=512):
    p = np.asarray(positions)
    n = max(int(p.max()) + 1 if p.size else 0, L0)
    b = 10000.0 * ((factor * n / L0) - (factor - 1)) ** (64 / 62)
    return _turn(x, positions, _base(64, b))


_SHORT = 1.0 + 0.05 * np.arange(32)
_LONG = 1.0 + 0.75 * np.arange(32)


def _su(x, positions, switch, m=None, power=-1.0, L0=1024, factor=16.0, m_short=None):
    p = np.asarray(positions)
    n = int(p.max()) + 1 if p.size else 0
    long = switch(n, L0)
    lam = _LONG if long else _SHORT
    m = math.sqrt(1 + math.log(factor) / math.log(L0)) if m is None else m(n, L0)
    return _turn(x, positions, _base(64) * lam ** power, m)


# ------------------------------------------------------------------------------------------------


def dynamic_by_tokens(x, positions, factor=4.0, L0=512):
    n = max(x.shape[2], L0)
    b = 10000.0 * ((factor * n / L0) - (factor - 1)) ** (64 / 62)
    return _turn(x, positions, _base(64, b))


def dynamic_by_row(x, positions, factor=4.0, L0=512):
    """Each row of the batch takes its own length."""
    p = np.asarray(positions)
    if p.ndim == 1:
        return dynamic_apply(x, positions, factor, L0)
    return np.concatenate([dynamic_apply(x[b:b + 1], p[b], factor, L0) for b in range(p.shape[0])] or [x], 0)


def dynamic_largest_only(x, positions, factor=4.0, L0=512):
    """Length from the largest position, without the + 1."""
    p = np.asarray(positions)
    n = max(int(p.max()) if p.size else 0, L0)
    b = 10000.0 * ((factor * n / L0) - (factor - 1)) ** (64 / 62)
    return _turn(x, positions, _base(64, b))


def yarn_blend_of_wavelengths(x, positions):
    k = np.arange(32)
    f = _base(64)
    def dim_of(rot):
        return 64 * math.log(4096 / (rot * 2 * math.pi)) / (2 * math.log(10000.0))
    low, high = max(math.floor(dim_of(32)), 0), min(math.ceil(dim_of(1)), 63)
    w = np.clip((k - low) / (high - low), 0, 1)
    return _turn(x, positions, 1 / ((1 - w) / f + w * 8.0 / f), 0.1 * math.log(8.0) + 1)


def yarn_factor_on_key_only_table(x, positions):
    """The factor is on the cosine only."""
    p = np.asarray(positions, dtype=np.float64)
    a = p[..., None] * _yarn(64, 8.0, 4096)
    if p.ndim == 2:
        a = a[:, None]
    c, s = np.cos(a) * (0.1 * math.log(8.0) + 1), np.sin(a)
    u, v = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)


def yarn_base_hard_coded(x, positions):
    """base 1e6 in the powers, but 10000 inside find_correction_dim."""
    d, L0, s = 128, 32768, 4.0
    def dim_of(rot, base=10000.0):
        return d * math.log(L0 / (rot * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(math.floor(dim_of(32)), 0), min(math.ceil(dim_of(1)), d - 1)
    w = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
    f = _base(d, 1e6)
    return _turn(x, positions, f * (1 - w) + f / s * w, 0.1 * math.log(s) + 1)


def longrope_from_exactly(x, positions):
    return _su(x, positions, lambda n, L0: n >= L0)


def longrope_by_token(x, positions, L0=1024):
    """Tokens before L0 take the short list, later tokens of the same call the long one."""
    p = np.asarray(positions, dtype=np.float64)
    inv = np.where((p >= L0)[..., None], _base(64) / _LONG, _base(64) / _SHORT)
    a = p[..., None] * inv
    if p.ndim == 2:
        a = a[:, None]
    m = math.sqrt(1 + math.log(16.0) / math.log(L0))
    c, s = np.cos(a) * m, np.sin(a) * m
    u, v = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)


def proportional_slow_end(x, positions, fraction=0.25):
    f = _base(64, 1e6)
    n = int(fraction * 64 // 2)
    f[: 32 - n] = 0
    return _turn(x, positions, f)


def qwen_floor(x, positions, train=512):
    p = np.asarray(positions)
    n = max(int(p.max()) + 1 if p.size else 1, 1)
    alpha = max(2 ** math.floor(math.log2(n / train) + 1) - 1, 1)
    return _turn(x, positions, _base(64, 10000.0 * alpha ** (64 / 62)))


def yarn_two(x, positions):
    """Two faults: see cases."""
    return _turn(x, positions, _yarn(64, 16.0, 8192, rounding=(lambda v: v, lambda v: v)), (0.1 * math.log(16.0) + 1) ** 2)
