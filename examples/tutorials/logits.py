"""The logits of a small Llama port: a first version, and two corrections."""

import numpy as np

FREQUENCIES = 500000.0 ** (-np.arange(32, dtype=np.float32) / 32)


def rotate_neighbours(x, positions):
    angle = positions[:, None].astype(np.float32) * FREQUENCIES
    cos, sin = np.cos(angle), np.sin(angle)
    x1, x2 = x[..., ::2], x[..., 1::2]
    return np.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).reshape(x.shape)


def rotate_halves(x, positions):
    angle = positions[:, None].astype(np.float32) * FREQUENCIES
    cos, sin = np.cos(angle), np.sin(angle)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def first(q, k):
    """Queries and keys are counted from 0."""
    q = rotate_neighbours(q, np.arange(q.shape[2]))
    k = rotate_neighbours(k, np.arange(k.shape[2]))
    return q @ k.swapaxes(-1, -2) / np.float32(8)


def second(q, k):
    """The pairs are halves."""
    q = rotate_halves(q, np.arange(q.shape[2]))
    k = rotate_halves(k, np.arange(k.shape[2]))
    return q @ k.swapaxes(-1, -2) / np.float32(8)


def third(q, k):
    """The last query has the position of the last key."""
    past = k.shape[2] - q.shape[2]
    q = rotate_halves(q, np.arange(past, k.shape[2]))
    k = rotate_halves(k, np.arange(k.shape[2]))
    return q @ k.swapaxes(-1, -2) / np.float32(8)
