"""Correct frequency schedules, and the declarations of models.

Arithmetic is float32 where models do it in float32. The factor lists of LongRoPE are made up, in
the shape of published ones: they grow from one, the long ones further.
"""

import math

import numpy as np

from ._case import rope, schedule
from ._parts import inv_freq, phase, turn_half

# --- models --------------------------------------------------------------------------------------

GPT_OSS = rope(
    64,
    base=150000.0,
    scaling=schedule("YaRN", factor=32.0, original_max_position=4096, truncate=False),
)
QWEN = rope(
    128, base=1e6, scaling=schedule("YaRN", factor=4.0, original_max_position=32768)
)  # Qwen2.5 with its long-context setting
DEEPSEEK = rope(
    64,
    "interleaved",
    scaling=schedule(
        "YaRN", factor=40.0, original_max_position=4096, mscale=1.0, mscale_all_dim=1.0
    ),
)
LLAMA_31 = rope(
    128,
    base=5e5,
    scaling=schedule(
        "Llama3Scaling",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position=8192,
    ),
)
LLAMA_32 = rope(
    64,
    base=5e5,
    scaling=schedule(
        "Llama3Scaling",
        factor=32.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position=8192,
    ),
)
SHORT = [round(1.0 + 0.3 * (j / 47) ** 2, 2) for j in range(48)]
LONG = [round(1.0 + 0.1 * j + 58.0 * (j / 47) ** 3, 2) for j in range(48)]
PHI = rope(
    96,
    scaling=schedule(
        "LongRoPE",
        short_factor=SHORT,
        long_factor=LONG,
        original_max_position=4096,
        factor=32.0,
    ),
)

# --- YaRN ----------------------------------------------------------------------------------------


def turns(rotations, dim, base, length):
    """The (fractional) pair that turns `rotations` times within `length` positions."""
    return dim * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))


def bounds(dim, base, length, fast=32.0, slow=1.0, truncate=True):
    """Where the ramp of YaRN starts and ends."""
    low, high = turns(fast, dim, base, length), turns(slow, dim, base, length)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    return max(low, 0), min(high, dim - 1)


def ramp(low, high, pairs):
    """0 up to `low`, 1 from `high`, linear between."""
    return np.clip((np.arange(pairs, dtype=np.float32) - low) / (high - low), 0, 1)


def blend(w, factor, r):
    """w where r is 0, w/factor where it is 1."""
    return w * (1 - r) + w / factor * r


def yarn(dim, base, factor, length, fast=32.0, slow=1.0, truncate=True):
    """The frequencies of YaRN."""
    r = ramp(*bounds(dim, base, length, fast, slow, truncate), dim // 2)
    return blend(inv_freq(dim, base), factor, r)


def magnitude(factor, mscale=1.0):
    """YaRN's factor on cos and sin."""
    return 0.1 * mscale * math.log(factor) + 1.0


def gpt_oss():
    """The frequencies of gpt-oss."""
    return yarn(64, 150000.0, 32.0, 4096, truncate=False)


def qwen():
    """The frequencies of Qwen2.5 with YaRN."""
    return yarn(128, 1e6, 4.0, 32768)


def deepseek():
    """The frequencies of DeepSeek-V3."""
    return yarn(64, 10000.0, 40.0, 4096)


def rotate_oss(x, positions, w):
    """Rotate as gpt-oss does, by the frequencies w."""
    return turn_half(x, phase(positions, w)) * magnitude(32.0)


def rotate_qwen(x, positions, w):
    """Rotate as Qwen2.5 does, by the frequencies w."""
    return turn_half(x, phase(positions, w)) * magnitude(4.0)


# --- the other schedules -------------------------------------------------------------------------


def llama3(dim, base, factor, low=1.0, high=4.0, length=8192):
    """Llama 3.1's frequencies, the band by a clipped ramp."""
    w = inv_freq(dim, base)
    t = np.clip((length * w / (2 * math.pi) - low) / (high - low), 0, 1)
    return w * ((1 - t) / factor + t)


def ntk_base(base, factor, dim):
    """The base of NTK-aware scaling."""
    return base * factor ** (dim / (dim - 2))


def dynamic_base(base, factor, limit, length, dim):
    """The base of dynamic NTK for a sequence of `length`."""
    length = max(length, limit)
    return base * (factor * length / limit - (factor - 1)) ** (dim / (dim - 2))


def longrope(dim, base, factors):
    """Frequencies divided by one factor each."""
    return inv_freq(dim, base) / np.asarray(factors, np.float32)


def longrope_magnitude(factor, length):
    """LongRoPE's factor on cos and sin."""
    return math.sqrt(1 + math.log(factor) / math.log(length))


def seq_len(positions):
    """Largest position of the call plus one."""
    return int(np.max(positions, initial=-1)) + 1
