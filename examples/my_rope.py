"""A rotary embedding as somebody might write it, and the same with one mistake at a time.

Nothing in this file knows about posenc_ref:

    posenc check examples/my_rope.py:apply --encoding @examples/my_rope.json
"""

import numpy as np


def angles(positions, dim, base):
    """Angles in radians as float32, (S, dim/2); (B, 1, S, dim/2) for positions (B, S)."""
    frequencies = (base ** (-np.arange(0, dim, 2) / dim)).astype(np.float32)
    angle = positions[..., None].astype(np.float32) * frequencies
    return angle if positions.ndim == 1 else angle[:, None]


def turn(x, cos, sin):
    """Turn the pairs (k, k + dim/2) of the last axis."""
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def apply(x, positions):
    """Half-split pairs, base 500000: x is (B, H, S, 64), positions (S,) or (B, S)."""
    angle = angles(positions, x.shape[-1], base=500000.0)
    return turn(x, np.cos(angle), np.sin(angle))


def other_way_round(x, positions):
    """Mistake: minus the angle."""
    angle = angles(positions, x.shape[-1], base=500000.0)
    return turn(x, np.cos(angle), -np.sin(angle))


def default_base(x, positions):
    """Mistake: the base of the configuration did not arrive."""
    angle = angles(positions, x.shape[-1], base=10000.0)
    return turn(x, np.cos(angle), np.sin(angle))


def neighbours(x, positions):
    """Mistake: pairs (2k, 2k + 1), as the paper has them, for weights that want halves."""
    angle = angles(positions, x.shape[-1], base=500000.0)
    cos, sin = np.cos(angle), np.sin(angle)
    x1, x2 = x[..., ::2], x[..., 1::2]
    return np.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).reshape(x.shape)


def half_precision_frequencies(x, positions):
    """Mistake: the frequencies went through bfloat16, as with `model.to(torch.bfloat16)`."""
    dim = x.shape[-1]
    frequencies = (500000.0 ** (-np.arange(0, dim, 2) / dim)).astype(np.float32)
    bits = frequencies.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)
    angle = positions[:, None].astype(np.float32) * rounded
    return turn(x, np.cos(angle), np.sin(angle))
