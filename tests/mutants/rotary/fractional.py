"""LTX-Video's rotation of 32 channels: 5 rising frequencies on three axes, 2 channels in front."""

import numpy as np

from tests.mutants._case import correct, wrong

N = 5


def rising(last=N - 1):
    """pi/2 theta ** (i / (n - 1))."""
    return np.pi / 2 * 10000.0 ** (np.arange(N) / last)


WEIGHT = np.zeros((3, 3 * N))
for _axis in range(3):
    WEIGHT[_axis, _axis::3] = rising()
LTX = {
    "encoding": "MixedRoPE",
    "head_dim": 32,
    "weight": WEIGHT,
    "layout": "interleaved",
    "rotary_start": 2,
}


def turned(x, positions, frequencies=None, start=2):
    """Angles (B, S, n, 3), flattened: the axes of one frequency are neighbours."""
    w = rising() if frequencies is None else frequencies
    u = np.moveaxis(np.asarray(positions, np.float64), 0, -1)  # (B, S, 3)
    angle = (u[..., None, :] * w[:, None]).reshape(*u.shape[:-1], -1)[:, None]
    c, s = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    y = x.copy()
    a, b = x[..., start : start + 6 * N : 2], x[..., start + 1 : start + 6 * N : 2]
    y[..., start : start + 6 * N : 2] = a * c - b * s
    y[..., start + 1 : start + 6 * N : 2] = b * c + a * s
    return y


@wrong("rotary-dim", encoding=LTX, thread="class: identity channels at the end")
def ltx_padded_behind(x, positions):
    """The channels that do not turn come last."""
    return turned(x, positions, start=0)


@wrong("position-scale", encoding=LTX, thread="class: c in place of 2 c - 1")
def ltx_from_zero_to_one(x, positions):
    """Fractions that are not centred."""
    return turned(x, (np.asarray(positions) + 1) / 2)


@wrong("denominator", encoding=LTX, thread="class: linspace without its end")
def ltx_without_the_last_frequency(x, positions):
    """theta ** (i / n)."""
    return turned(x, positions, rising(N))


@wrong("frequency-spacing", encoding=LTX, thread="class: RoPE's order")
def ltx_with_falling_frequencies(x, positions):
    """From the fastest to the slowest."""
    return turned(x, positions, rising()[::-1])


@correct(encoding=LTX, thread="diffusers, LTXVideoRotaryPosEmbed")
def ltx_of_flattened_angles(x, positions):
    """One product of fractions and rising frequencies."""
    return turned(x, positions)
