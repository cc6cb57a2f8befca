"""Frequencies stretched for long contexts."""
import math

import numpy as np


def _rot(x, angle, m=1.0):
    a = angle if angle.ndim == 2 else angle[:, None]
    cos, sin = m * np.cos(a), m * np.sin(a)
    h = angle.shape[-1]
    lo, hi, rest = x[..., :h], x[..., h:2 * h], x[..., 2 * h:]
    return np.concatenate([lo * cos - hi * sin, hi * cos + lo * sin, rest], -1).astype(x.dtype)


def _inv(dim, base=10000.0):
    return base ** (-np.arange(0, dim, 2) / dim)


def interpolated(x, positions):
    p = np.asarray(positions).astype(np.int64) // 4
    return _rot(x, p[..., None] * _inv(x.shape[-1]))


def ntk_base(x, positions):
    alpha = 4.0
    return _rot(x, np.asarray(positions)[..., None] * _inv(x.shape[-1], 10000.0 * alpha))


def ntk_partial(x, positions):
    head_dim, rotary_dim, alpha = x.shape[-1], 32, 8.0
    base = 10000.0 * alpha ** (head_dim / (head_dim - 2))
    return _rot(x, np.asarray(positions)[..., None] * _inv(rotary_dim, base))


def dynamic_by_tokens(x, positions):
    d, max_pos, factor = x.shape[-1], 2048, 2.0
    seq_len = x.shape[-2]
    base = 10000.0
    if seq_len > max_pos:
        base *= (factor * seq_len / max_pos - (factor - 1)) ** (d / (d - 2))
    return _rot(x, np.asarray(positions)[..., None] * _inv(d, base))


def dynamic_by_position(x, positions):
    d, max_pos, factor = x.shape[-1], 2048, 4.0
    p = np.asarray(positions, np.float64)
    seq_len = max(p.max(), max_pos)
    base = 10000.0 * ((factor * seq_len / max_pos) - (factor - 1)) ** (d / (d - 2))
    return _rot(x, p[..., None] * _inv(d, base))


def dynamic_frequencies(seq_len):
    d, trained = 64, 2048
    base = 10000.0 * (seq_len / trained) ** (d / (d - 2))
    return _inv(d, base)


class DynamicCache:
    def __init__(self, d=64, trained=2048, factor=2.0):
        self.d, self.trained, self.factor = d, trained, factor
        self.inv, self.longest = _inv(d), trained

    def __call__(self, x, offset):
        end = offset + x.shape[-2]
        if end > self.longest:
            self.longest = end
            scale = self.factor * end / self.trained - (self.factor - 1)
            self.inv = _inv(self.d, 10000.0 * scale ** (self.d / (self.d - 2)))
        return _rot(x, np.arange(offset, end)[:, None] * self.inv)


def dynamic_calls(requests):
    rope = DynamicCache()
    return [rope(x, int(o)) for x, o in requests]


def _corr(turns, dim, base, length):
    return dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))


def _ramp(lo, hi, n):
    return np.clip((np.arange(n) - lo) / ((hi - lo) if hi != lo else 0.001), 0, 1)


def yarn_mask(positions):
    d, s, length = 128, 4.0, 32768
    base = 1000000.0
    inv = _inv(d, base)
    lo = max(math.floor(_corr(32, d, base, length)), 0)
    hi = min(math.ceil(_corr(1, d, base, length)), d - 1)
    mask = 1 - _ramp(lo, hi, d // 2)
    f = inv / s * mask + inv * (1 - mask)
    a = np.asarray(positions)[:, None] * f
    m = 0.1 * math.log(s) + 1
    return m * np.cos(a), m * np.sin(a)


def yarn_exact_range(positions):
    d, s, length = 64, 32.0, 4096
    base = 150000.0
    inv = _inv(d, base)
    lo, hi = max(_corr(32, d, base, length), 0), min(_corr(1, d, base, length), d - 1)
    w = _ramp(lo, hi, d // 2)
    a = np.asarray(positions)[:, None] * (inv * (1 - w) + inv / s * w)
    m = 0.1 * math.log(s) + 1
    return m * np.cos(a), m * np.sin(a)


def yarn_long_trained():
    d, s, length, base = 128, 8.0, 131072, 10000.0
    inv = _inv(d, base)
    lo = max(math.floor(_corr(32, d, base, length)), 0)
    hi = min(math.ceil(_corr(1, d, base, length)), d // 2 - 1)
    w = _ramp(lo, hi, d // 2)
    return inv * (1 - w) + inv / s * w, 0.1 * math.log(s) + 1


def yarn_with_factor(positions, attention_factor=1.0):
    d, s, length, base = 64, 16.0, 65536, 160000.0
    inv = _inv(d, base)
    lo = max(math.floor(_corr(32, d, base, length)), 0)
    hi = min(math.ceil(_corr(1, d, base, length)), d - 1)
    w = _ramp(lo, hi, d // 2)
    a = np.asarray(positions)[:, None] * (inv * (1 - w) + inv / s * w)
    m = attention_factor * (0.1 * math.log(s) + 1)
    return m * np.cos(a), m * np.sin(a)


def yarn_partial(x, positions):
    d, s, length, base = 32, 4.0, 8192, 10000.0
    inv = _inv(d, base)
    lo = max(math.floor(_corr(32, d, base, length)), 0)
    hi = min(math.ceil(_corr(1, d, base, length)), d - 1)
    w = _ramp(lo, hi, d // 2)
    f = inv * (1 - w) + inv / s * w
    m = 0.1 * math.log(s) + 1
    return _rot(x * m, np.asarray(positions)[..., None] * f).astype(x.dtype)


def find_correction_dim(num_rotations, dim, base=10000, max_position_embeddings=2048):
    return dim * math.log(max_position_embeddings / (num_rotations * 2 * math.pi)) / (2 * math.log(base))


def yarn_qwen(x, positions):
    d, s, base = x.shape[-1], 4.0, 1000000.0
    inv = _inv(d, base)
    lo = max(math.floor(find_correction_dim(32, d, max_position_embeddings=32768)), 0)
    hi = min(math.ceil(find_correction_dim(1, d, max_position_embeddings=32768)), d - 1)
    w = _ramp(lo, hi, d // 2)
    return _rot(x, np.asarray(positions)[..., None] * (inv * (1 - w) + inv / s * w), 0.1 * math.log(s) + 1)


def deepseek_mscale(positions):
    d, s, length, base = 64, 40.0, 4096, 10000.0
    inv = _inv(d, base)
    lo = max(math.floor(_corr(32, d, base, length)), 0)
    hi = min(math.ceil(_corr(1, d, base, length)), d - 1)
    w = _ramp(lo, hi, d // 2)
    a = np.asarray(positions)[:, None] * (inv * (1 - w) + inv / s * w)
    get = lambda mscale: 0.1 * mscale * math.log(s) + 1
    m = get(1.0)
    return m * np.cos(a), m * np.sin(a)


def yarn_shift(rotated_k, delta):
    d, s, length, base = 64, 4.0, 4096, 10000.0
    inv = _inv(d, base)
    lo = max(math.floor(_corr(32, d, base, length)), 0)
    hi = min(math.ceil(_corr(1, d, base, length)), d - 1)
    w = _ramp(lo, hi, d // 2)
    f = inv * (1 - w) + inv / s * w
    return _rot(rotated_k, np.array([float(delta)])[:, None] * f, 0.1 * math.log(s) + 1)
