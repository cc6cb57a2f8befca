"""A rotary embedding without posenc_ref, and copies with one mistake each.

Judge one of them::

    posenc check examples/my_rope.py:apply --encoding @examples/my_rope.json
"""

import numpy as np


def angles(positions, dim, base):
    """Return angles in radians as float32: (S, dim/2), or (B, 1, S, dim/2) for positions (B, S)."""
    frequencies = (base ** (-np.arange(0, dim, 2) / dim)).astype(np.float32)
    angle = positions[..., None].astype(np.float32) * frequencies
    return angle if positions.ndim == 1 else angle[:, None]


def turn(x, cos, sin):
    """Rotate the pairs (k, k + dim/2) of the last axis."""
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def apply(x, positions):
    """Rotate half-split pairs, base 500000: x is (B, H, S, 64), positions (S,) or (B, S)."""
    angle = angles(positions, x.shape[-1], base=500000.0)
    return turn(x, np.cos(angle), np.sin(angle))


def other_way_round(x, positions):
    """Mistake: the angle has the opposite sign."""
    angle = angles(positions, x.shape[-1], base=500000.0)
    return turn(x, np.cos(angle), -np.sin(angle))


def default_base(x, positions):
    """Mistake: the base of the configuration is ignored."""
    angle = angles(positions, x.shape[-1], base=10000.0)
    return turn(x, np.cos(angle), np.sin(angle))


def neighbours(x, positions):
    """Mistake: the paper's pairs (2k, 2k + 1), for weights that need halves."""
    angle = angles(positions, x.shape[-1], base=500000.0)
    cos, sin = np.cos(angle), np.sin(angle)
    x1, x2 = x[..., ::2], x[..., 1::2]
    return np.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1).reshape(x.shape)


def half_precision_frequencies(x, positions):
    """Mistake: frequencies are rounded to bfloat16, as by `model.to(torch.bfloat16)`."""
    dim = x.shape[-1]
    frequencies = (500000.0 ** (-np.arange(0, dim, 2) / dim)).astype(np.float32)
    bits = frequencies.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).view(np.float32)
    angle = positions[:, None].astype(np.float32) * rounded
    return turn(x, np.cos(angle), np.sin(angle))


def unrolled(x, positions):
    """Mistake: a loop over four tokens at a time leaves out the rest of a call."""
    y, rest = apply(x, positions), x.shape[2] % 4
    y[:, :, x.shape[2] - rest :] = x[:, :, x.shape[2] - rest :]
    return y


def decoding_with_one_position(x, positions):
    """Mistake: in a step of decoding, all rows of the batch get the position of the first."""
    step = positions.ndim == 2 and x.shape[2] == 1
    return apply(x, positions[0] if step else positions)


def written_in_pairs(x, positions):
    """No mistake: results in another order, (2k, 2k + 1), of queries and keys alike."""
    y1, y2 = np.split(apply(x, positions), 2, axis=-1)
    return np.stack([y1, y2], axis=-1).reshape(x.shape)
