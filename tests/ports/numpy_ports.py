"""NumPy code as people write it: no framework, names of their own."""

import numpy as np


def get_cos_sin(seq_len, head_dim, theta=10000.0):
    inv_freq = theta ** (-np.arange(0, head_dim, 2) / head_dim)
    angles = np.outer(np.arange(seq_len), inv_freq)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rope(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def rope_minus(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1)


def rotate(vectors, where):
    """Tensors (B, S, H, D)."""
    k = np.arange(vectors.shape[-1] // 2)
    angle = where[:, None, None] * 10000.0 ** (-k / k.size)
    cos, sin = np.cos(angle).astype(vectors.dtype), np.sin(angle).astype(vectors.dtype)
    a, b = np.split(vectors, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def with_offset(x, offset=0):
    return rotate(x.swapaxes(1, 2), np.arange(x.shape[2]) + offset).swapaxes(1, 2)


def with_offset_twice(x, offset=0):
    return with_offset(x, 2 * offset)


def numbers_the_tokens(q, k):
    return with_offset(q), with_offset(k)


def starts_at_one(q, k):
    return with_offset(q, 1), with_offset(k, 1)


def turn_in_place(x, positions):
    k = np.arange(x.shape[-1] // 2)
    angle = positions[:, None] * 500000.0 ** (-k / k.size)
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = x[..., : k.size].copy(), x[..., k.size :].copy()
    x[..., : k.size], x[..., k.size :] = a * cos - b * sin, b * cos + a * sin


def rope_of_a_token(q, k, pos, head_size):
    """As in llama2.c: the flat vectors of one token, in place, in adjacent pairs."""
    for vector in (q, k):
        for i in range(0, vector.shape[0], 2):
            angle = pos * 10000.0 ** (-(i % head_size) / head_size)
            a, b, cos, sin = vector[i], vector[i + 1], np.cos(angle), np.sin(angle)
            vector[i], vector[i + 1] = a * cos - b * sin, a * sin + b * cos


def rope_over_all_heads(q, k, pos, head_size):
    """The frequencies go on from head to head."""
    for vector in (q, k):
        for i in range(0, vector.shape[0], 2):
            angle = pos * 10000.0 ** (-i / head_size)
            a, b, cos, sin = vector[i], vector[i + 1], np.cos(angle), np.sin(angle)
            vector[i], vector[i + 1] = a * cos - b * sin, a * sin + b * cos


def inv_freq(dim, base=10000.0):
    return base ** (-np.arange(0, dim, 2) / dim)


def inv_freq_of_pairs(dim, base=10000.0):
    return base ** (-np.arange(dim // 2) / dim)


class Rotary:
    """A plain class with its own call."""

    def __init__(self, head_dim, rope_theta=10000.0):
        self.frequencies = rope_theta ** (-np.arange(0, head_dim, 2) / head_dim)

    def __call__(self, x, position_ids):
        angle = np.atleast_2d(position_ids)[:, None, :, None] * self.frequencies
        return rope(x, np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype))


class BaseForgotten(Rotary):
    def __init__(self, head_dim, rope_theta=10000.0):
        super().__init__(head_dim)
