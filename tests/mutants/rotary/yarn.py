"""Wrong YaRN frequencies: factor, bounds of the ramp, and the rule itself."""

import numpy as np

from tests.mutants._case import wrong
from tests.mutants._parts import inv_freq, phase, turn_half, turn_pairs
from tests.mutants._scaled import (
    DEEPSEEK,
    GPT_OSS,
    QWEN,
    blend,
    bounds,
    deepseek,
    magnitude,
    ntk_base,
    qwen,
    ramp,
    rotate_oss,
    rotate_qwen,
    seq_len,
    yarn,
)

# --- missing, or with another factor -------------------------------------------------------------


@wrong("scaling-missing", encoding=QWEN, thread="class: rope_scaling of the config not read")
def yarn_dropped(x, positions):
    """Rotates with the unscaled frequencies, factor one."""
    return turn_half(x, phase(positions, inv_freq(128, 1e6)))


@wrong(
    "scaling-missing",
    surface="frequencies",
    encoding=GPT_OSS,
    thread="class: rope_scaling of the config not read",
    held_out=True,
)
def yarn_dropped_from_the_frequencies():
    """Stores the unscaled frequencies of gpt-oss."""
    return inv_freq(64, 150000.0)


@wrong(
    "scaling-missing",
    "scaling-formula",
    encoding=DEEPSEEK,
    thread="trap: the reference code scales only when built for more than the original length",
)
def yarn_only_past_the_original_length(x, positions):
    """Short calls get plain frequencies, calls past 4096 the scaled ones."""
    w = deepseek() if seq_len(positions) > 4096 else inv_freq(64)
    return turn_pairs(x, phase(positions, w))


@wrong("scaling-parameter", encoding=QWEN, thread="class: factor applied twice")
def yarn_factor_applied_twice(x, positions):
    """Divides the slow frequencies by the factor twice."""
    w = blend(inv_freq(128, 1e6), 16.0, ramp(*bounds(128, 1e6, 32768), 64))
    return rotate_qwen(x, positions, w)


@wrong(
    "scaling-parameter",
    surface="frequencies",
    encoding=DEEPSEEK,
    thread="class: factor applied twice",
    held_out=True,
)
def yarn_factor_squared_in_the_frequencies():
    """Interpolates the slow pairs by 1600 instead of 40."""
    return yarn(64, 10000.0, 1600.0, 4096)


@wrong(
    "position-scale",
    "scaling-parameter",
    "scaling-formula",
    encoding=QWEN,
    thread="class: positions interpolated as well",
)
def yarn_on_interpolated_positions(x, positions):
    """Divides the positions by the factor and scales the frequencies too."""
    return rotate_qwen(x, np.asarray(positions) / 4.0, qwen())


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=GPT_OSS,
    thread="class: multiplied by the factor instead of divided",
    held_out=True,
)
def yarn_factor_inverted(x, positions):
    """Speeds the slow pairs up by the factor."""
    return rotate_oss(x, positions, yarn(64, 150000.0, 1 / 32.0, 4096, truncate=False))


# --- another rule --------------------------------------------------------------------------------


@wrong("scaling-formula", encoding=DEEPSEEK, thread="trap: ramp polarity")
def yarn_ramp_reversed(x, positions):
    """Divides the fast frequencies and leaves the slow ones."""
    r = 1 - ramp(*bounds(64, 10000.0, 4096), 32)
    return turn_pairs(x, phase(positions, blend(inv_freq(64), 40.0, r)))


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=GPT_OSS,
    thread="trap: ramp polarity",
    held_out=True,
)
def yarn_ramp_reversed_without_truncation(x, positions):
    """The reversed ramp, which without truncation equals swapped betas."""
    r = 1 - ramp(*bounds(64, 150000.0, 4096, truncate=False), 32)
    return rotate_oss(x, positions, blend(inv_freq(64, 150000.0), 32.0, r))


@wrong("scaling-formula", encoding=QWEN, thread="class: every rope_type treated as linear")
def yarn_as_linear(x, positions):
    """Interpolates every pair."""
    return rotate_qwen(x, positions, inv_freq(128, 1e6) / 4)


@wrong("scaling-formula", "base", encoding=GPT_OSS, thread="class: NTK-aware base for YaRN")
def yarn_as_ntk(x, positions):
    """Raises the base instead of blending."""
    return rotate_oss(x, positions, inv_freq(64, ntk_base(150000.0, 32.0, 64)))


@wrong("scaling-formula", encoding=QWEN, thread="trap: logarithmic blend (Grok)")
def yarn_geometric_blend(x, positions):
    """Blends the logarithms of the frequencies."""
    r = ramp(*bounds(128, 1e6, 32768), 64)
    return rotate_qwen(x, positions, inv_freq(128, 1e6) * np.float32(4.0) ** -r)


@wrong(
    "scaling-formula",
    surface="frequencies",
    encoding=GPT_OSS,
    thread="class: periods blended for frequencies",
    held_out=True,
)
def yarn_blends_periods():
    """Blends the wavelengths linearly, which is a harmonic blend of frequencies."""
    r = ramp(*bounds(64, 150000.0, 4096, truncate=False), 32)
    return 1 / blend(1 / inv_freq(64, 150000.0), 1 / 32.0, r)


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=QWEN,
    thread="class: a step where the ramp should be",
)
def yarn_hard_switch(x, positions):
    """Interpolates from the middle of the ramp on, without a ramp."""
    r = ramp(*bounds(128, 1e6, 32768), 64)
    return rotate_qwen(x, positions, blend(inv_freq(128, 1e6), 4.0, (r > 0.5).astype(np.float32)))


@wrong("scaling-formula", encoding=DEEPSEEK, thread="class: smoothstep ramp", held_out=True)
def yarn_smoothstep(x, positions):
    """Eases the ramp in and out."""
    r = ramp(*bounds(64, 10000.0, 4096), 32)
    return turn_pairs(x, phase(positions, blend(inv_freq(64), 40.0, r * r * (3 - 2 * r))))


@wrong(
    "not-a-rotation",
    "scaling-formula",
    "amplitude",
    encoding=DEEPSEEK,
    thread="class: the tables blended instead of the angles",
)
def yarn_blends_the_tables(x, positions):
    """Blends the cosines and sines of the two angles."""
    r = np.repeat(ramp(*bounds(64, 10000.0, 4096), 32), 2)
    fast = turn_pairs(x, phase(positions, inv_freq(64)))
    return fast * (1 - r) + turn_pairs(x, phase(positions, inv_freq(64) / 40)) * r


@wrong(
    "layout",
    "scaling-parameter",
    encoding=GPT_OSS,
    thread="NVIDIA/TensorRT-LLM#16378",
    held_out=True,
)
def gpt_oss_in_adjacent_pairs_and_truncated(x, positions):
    """Two independent bugs: is_neox is false, and truncate is ignored."""
    return turn_pairs(x, phase(positions, yarn(64, 150000.0, 32.0, 4096))) * magnitude(32.0)
