"""Classes that take a configuration object, as in torchtitan and transformers; NumPy arrays."""

from __future__ import annotations

import dataclasses

import numpy as np


class RoPE:
    """The configuration is a class of its own: sizes have no default, settings have."""

    @dataclasses.dataclass(kw_only=True)
    class Config:
        dim: int
        max_seq_len: int
        theta: float = 500000.0

    def __init__(self, config: Config):
        self.config = config
        k = np.arange(config.dim // 2)
        angles = np.outer(np.arange(config.max_seq_len), self.base() ** (-k / k.size))
        self.cache = np.cos(angles) + 1j * np.sin(angles)

    def base(self):
        return self.config.theta

    def __call__(self, *args, **kwargs):
        return self.call_native(*args, **kwargs)

    def call_native(self, query, key, positions):
        return self.turned(query, positions), self.turned(key, positions)

    def turned(self, x, positions):  # (B, S, H, D)
        pairs = x.astype(np.float64).reshape(*x.shape[:-1], -1, 2).view(np.complex128)[..., 0]
        turned = pairs * self.cache[positions][..., None, :]
        return np.stack([turned.real, turned.imag], -1).reshape(x.shape).astype(x.dtype)


class DefaultBase(RoPE):
    def base(self):
        return 500000.0


def cos_sin_or_complex(dim, pos, theta=10000.0, use_real=False):
    k = np.arange(dim // 2)
    angles = np.outer(np.arange(pos) if isinstance(pos, int) else pos, theta ** (-k / k.size))
    if use_real:
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    return np.exp(1j * angles)


def apply_rotary_emb(x, freqs_cis, use_real=True):
    """The same switch as above, with the opposite default."""
    a, b = np.split(x, 2, axis=-1)
    if use_real:
        cos, sin = freqs_cis
    else:
        cos, sin = freqs_cis.real, freqs_cis.imag
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def conjugated(x, freqs_cis, use_real=True):
    cos, sin = freqs_cis if use_real else (freqs_cis.real, freqs_cis.imag)
    return apply_rotary_emb(x, (cos, -sin))
