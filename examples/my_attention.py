"""Attention as in DeepSeek-V4 and a cache with attention sinks, without posenc_ref.

Judge one of them::

    posenc check examples/my_attention.py:right --surface attention --encoding @FILE

where FILE is examples/my_attention.json.
"""

import numpy as np

ROTATED = 8  # the last channels of a head


def turn(x, positions, sign=1):
    """Rotate neighbouring pairs of the last channels by sign * positions; x is (B, H, S, D)."""
    angle = sign * positions[:, None] * 10000.0 ** (-np.arange(0, ROTATED, 2) / ROTATED)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    one, two = x[..., -ROTATED::2], x[..., 1 - ROTATED :: 2]
    tail = np.stack([one * cos - two * sin, two * cos + one * sin], axis=-1)
    return np.concatenate([x[..., :-ROTATED], tail.reshape(*x.shape[:-1], ROTATED)], axis=-1)


def weighted(q, kv, sinks):
    """Return softmax(q . kv) kv of the keys up to each query, with a sink for each head."""
    n_q, n_k = q.shape[-2], kv.shape[-2]
    logits = np.einsum("bhqd,bkd->bhqk", q, kv[:, 0]) / np.sqrt(np.float32(q.shape[-1]))
    logits = np.where(np.tri(n_q, n_k, n_k - n_q, dtype=bool), logits, -np.inf)
    top = np.maximum(logits.max(axis=-1, keepdims=True), sinks[:, None, None])
    weights = np.exp(logits - top)
    total = weights.sum(axis=-1, keepdims=True) + np.exp(sinks[:, None, None] - top)
    return np.einsum("bhqk,bkd->bhqd", weights / total, kv[:, 0])


def right(q, k, v, q_positions, k_positions, sinks):
    """One tensor is key and value; the output is rotated back."""
    out = weighted(turn(q, q_positions), turn(k, k_positions), sinks)
    return turn(out, q_positions, sign=-1)


def not_rotated_back(q, k, v, q_positions, k_positions, sinks):
    """Mistake: the output keeps the rotation of the values."""
    return weighted(turn(q, q_positions), turn(k, k_positions), sinks)


def evict(rotated_k, kept, dropped):
    """Mistake: the keys after the gap keep their positions in the text."""
    return np.concatenate([rotated_k[:, :, :kept], rotated_k[:, :, kept + dropped :]], axis=2)
