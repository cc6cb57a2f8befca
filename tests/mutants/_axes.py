"""Correct pieces of multi-axis rotary encodings, and the declarations of models.

Positions are (A, B, S) for x (B, H, S, D).
"""

from itertools import pairwise

import numpy as np

from ._case import multi_axis
from ._parts import turn_half

QWEN2_VL = multi_axis(128, (16, 24, 24), base=1e6)
QWEN3_VL = multi_axis(128, (24, 20, 20), base=5e6, arrangement="interleaved")
QWEN2_VISION = multi_axis(80, (20, 20), spacing="restart")
PIXTRAL = multi_axis(64, (16, 16), spacing="strided")
GEMMA4_VISION = multi_axis(64, (16, 16), "blockwise", base=100.0, spacing="restart")
FLUX = multi_axis(128, (8, 28, 28), "interleaved", spacing="restart")
WAN = multi_axis(128, (22, 21, 21), "interleaved", spacing="restart")
LLAMA4_VISION = multi_axis(88, (22, 22), "interleaved", spacing="restart", offset=1.0)
GLM_V = multi_axis(128, (8, 12, 12), "interleaved")
HUNYUAN_VL = multi_axis(128, (16, 16, 16, 16))
# Positions in the order (t, h, w): h and w alternate, time has the slowest 20 pairs.
ERNIE_MAP = [1, 2] * 22 + [0] * 20
ERNIE = multi_axis(128, (20, 22, 22), "interleaved", base=5e5, arrangement=ERNIE_MAP)
KIMI_VISION = multi_axis(72, (18, 18), spacing="restart", arrangement=[0, 1] * 18)


def chunked(sections):
    """The axis of each pair, one axis after another."""
    return np.repeat(np.arange(len(sections)), sections)


def interleaved(sections):
    """The axis of each pair: axis a > 0 takes pairs a, a + A, a + 2A, ..., axis 0 the rest."""
    axis = np.zeros(sum(sections), int)
    for a in range(1, len(sections)):
        axis[a : len(sections) * sections[a] : len(sections)] = a
    return axis


def globally(pairs, base=10000.0):
    """One series of frequencies over all pairs."""
    return base ** (-np.arange(pairs, dtype=np.float32) / pairs)


def restarting(sections, base=10000.0):
    """A series of its own for each axis."""
    return np.concatenate([globally(n, base) for n in sections])


def angles(positions, axis, w):
    """Angles (B, 1, S, P) of pairs that each follow one axis."""
    p = np.moveaxis(np.asarray(positions, np.float32)[np.asarray(axis)], 0, -1)
    return (p * w)[:, None]


def turn_blocks(x, a, sections):
    """Rotate half-split pairs inside the block of channels of each axis."""
    edges = np.cumsum((0, *sections))
    parts = [turn_half(x[..., 2 * i : 2 * j], a[..., i:j]) for i, j in pairwise(edges)]
    return np.concatenate(parts, axis=-1)
