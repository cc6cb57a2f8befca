"""RIFLEx in HunyuanVideo: base 256, 8 temporal pairs, pair 4 slowed for 66 latent frames."""

import numpy as np

from tests.mutants._axes import angles, chunked
from tests.mutants._case import correct, multi_axis, wrong
from tests.mutants._parts import turn_pairs

SECTIONS, K, FRAMES = (8, 28, 28), 4, 66
RIFLEX = multi_axis(
    128,
    SECTIONS,
    "interleaved",
    spacing="restart",
    base=256.0,
    scaling={"scaling": "RIFLEx", "pair": K, "length": FRAMES, "periods": 0.9},
    scaled_axes=[0],
)


def slowed(n, k=K, part=0.9):
    """1D frequencies of n pairs, with one replaced."""
    freqs = 256.0 ** (-np.arange(n) / n)
    if k:
        freqs[k - 1] = part * 2 * np.pi / FRAMES
    return freqs.astype(np.float32)


def rotated(x, positions, *parts):
    """One list of frequencies for each axis."""
    return turn_pairs(x, angles(positions, chunked(SECTIONS), np.concatenate(parts)))


@wrong("scaling-formula", encoding=RIFLEX, thread="kijai/ComfyUI-HunyuanVideoWrapper#411")
def riflex_on_every_axis(x, positions):
    """Rows and columns are slowed too, whatever their period."""
    return rotated(x, positions, slowed(8), slowed(28), slowed(28))


@wrong("scaling-parameter", encoding=RIFLEX, thread="class: k counted from 0")
def riflex_of_the_next_pair(x, positions):
    """freqs[k] in place of freqs[k - 1]."""
    return rotated(x, positions, slowed(8, K + 1), slowed(28, 0), slowed(28, 0))


@wrong("scaling-parameter", encoding=RIFLEX, thread="thu-ml/RIFLEx: the factor 0.9 of its code")
def riflex_of_the_paper(x, positions):
    """2 pi / (L s), without the 0.9 of the released code."""
    return rotated(x, positions, slowed(8, part=1.0), slowed(28, 0), slowed(28, 0))


@wrong("scaling-missing", encoding=RIFLEX, thread="kijai/ComfyUI-WanVideoWrapper#94")
def riflex_after_the_outer_product(x, positions):
    """Row k - 1 of the temporal angles is replaced, not a frequency."""
    axis = chunked(SECTIONS)
    phase = angles(positions, axis, np.concatenate([slowed(n, 0) for n in SECTIONS]))
    frame = np.asarray(positions)[0][:, None, :, None] == K - 1
    return turn_pairs(x, np.where(frame & (axis == 0), 0.9 * 2 * np.pi / FRAMES, phase))


@correct(encoding=RIFLEX, thread="thu-ml/RIFLEx, multimodal_models/HunyuanVideo")
def riflex_on_time_alone(x, positions):
    """One frequency of the first section."""
    return rotated(x, positions, slowed(8), slowed(28, 0), slowed(28, 0))
