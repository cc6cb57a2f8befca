"""Positions from a depthwise 3 x 3 convolution (PEG, Twins)."""

import numpy as np

_V = np.random.default_rng(121).standard_normal((8, 1, 3, 3)).astype(np.float32)
_B = np.random.default_rng(122).standard_normal((8,)).astype(np.float32)


def peg_with_flipped_kernel(x, height, width):
    """scipy-like convolve2d: the kernel is mirrored; layers of networks correlate."""
    b, n, c = x.shape
    img = np.zeros((b, height + 2, width + 2, c), np.float64)
    img[:, 1:-1, 1:-1] = x.reshape(b, height, width, c)
    y = np.zeros((b, height, width, c))
    for i in range(3):
        for j in range(3):
            y += img[:, i : i + height, j : j + width] * _V[:, 0, 2 - i, 2 - j].astype(np.float64)
    return (x + (y + _B).reshape(b, n, c)).astype(x.dtype)
