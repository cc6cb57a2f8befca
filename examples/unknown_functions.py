"""Functions whose encoding is not known: docs/identify.md identifies them."""

import numpy as np


def patches(height, width):
    """Return the table of image patches, as in Masked Autoencoders."""
    y, x = np.divmod(np.arange(height * width), width)
    omega = 10000.0 ** (-np.arange(16) / 16)
    angles = [np.outer(p, omega) for p in (x, y)]
    parts = [f(a) for a in angles for f in (np.sin, np.cos)]
    return np.concatenate(parts, axis=1).astype(np.float32)


def rotate_chunks(x, chunks):
    """Rotate x (B, H, S, D) chunk by chunk; the position is kept from chunk to chunk."""
    omega = 500000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    parts, start = [], 0
    for length in chunks:
        angle = (np.arange(length) + start)[:, None] * omega
        a, b = np.split(x[..., start : start + length, :], 2, axis=-1)
        cos, sin = np.cos(angle), np.sin(angle)
        parts.append(np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1))
        start += length
    return np.concatenate(parts, axis=-2).astype(x.dtype)


def document_positions(lengths):
    """Return the positions of packed documents, without a new start for each."""
    return np.arange(int(lengths.sum()))


def rounded_frequencies(positions):
    """Return cos and sin, with frequencies that were stored in half precision."""
    omega = (10000.0 ** (-np.arange(32) / 32)).astype(np.float16).astype(np.float32)
    angle = np.asarray(positions, np.float32)[:, None] * omega
    return np.cos(angle), np.sin(angle)


def feature_map(x):
    """Return the rows of the patches of an image (B, C, H, W), as (1, dim, H, W)."""
    height, width = x.shape[-2:]
    return patches(height, width).T.reshape(1, -1, height, width)


def attention(q, k, v, q_positions, k_positions):
    """Return softmax(logits) v, with logits that fall with the distance of the key."""
    heads = q.shape[1]
    slopes = 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)
    distance = np.asarray(q_positions)[:, None] - np.asarray(k_positions)
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    logits = np.where(distance >= 0, logits - slopes[:, None, None] * distance, -np.inf)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True) @ v).astype(q.dtype)
