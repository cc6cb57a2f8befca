"""Rotations by learned frequencies, which follow no rule, and two ports of the same module.

No encoding can be declared for them, but one function can be the declaration of another::

    posenc compare examples/learned_rope.py:port examples/learned_rope.py:original
"""

import numpy as np

#: Radians per position, as a training run may leave them.
FREQUENCIES = np.array([1.31, 0.652, 0.407, 0.119, 0.0543, 0.0292, 0.00711, 0.000913])
#: What a port read from a file with three decimals.
ROUNDED = FREQUENCIES.round(3)


def turn(x, positions, frequencies):
    """Rotate half-split pairs: x is (B, H, S, 16), positions (S,) or (B, S)."""
    angle = positions[..., None] * frequencies
    angle = angle if positions.ndim == 1 else angle[:, None]
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def original(x, positions):
    """The function that a checkpoint was trained with."""
    return turn(x, positions, FREQUENCIES)


def port(x, positions):
    """Mistake: the frequencies were rounded."""
    return turn(x, positions, ROUNDED)


def side_by_side(x, positions):
    """Another convention: both channels of a pair are written next to each other."""
    y = turn(x, positions, FREQUENCIES)
    return np.stack(np.split(y, 2, axis=-1), axis=-1).reshape(x.shape)
