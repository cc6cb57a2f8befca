"""Wrong YaRN frequencies: where the ramp starts and ends."""

import math

import numpy as np

from tests.mutants._case import rope, schedule, wrong
from tests.mutants._parts import inv_freq, phase, turn_half, turn_pairs
from tests.mutants._scaled import (
    DEEPSEEK,
    GPT_OSS,
    QWEN,
    blend,
    bounds,
    magnitude,
    ramp,
    rotate_oss,
    rotate_qwen,
    turns,
    yarn,
)

# --- betas and truncation ------------------------------------------------------------------------


@wrong("scaling-parameter", encoding=QWEN, thread="pytorch/torchtitan#3787")
def yarn_betas_swapped(x, positions):
    """beta_fast and beta_slow have each other's meaning, so the ramp falls."""
    return rotate_qwen(x, positions, yarn(128, 1e6, 4.0, 32768, fast=1.0, slow=32.0))


@wrong(
    "scaling-parameter",
    "scaling-formula",
    surface="frequencies",
    encoding=GPT_OSS,
    thread="pytorch/torchtitan#3787",
    held_out=True,
)
def yarn_betas_swapped_without_truncation():
    """Swapped betas, which without truncation is the reversed ramp to the last bit."""
    return yarn(64, 150000.0, 32.0, 4096, fast=1.0, slow=32.0, truncate=False)


@wrong(
    "scaling-parameter",
    encoding=rope(
        64,
        "interleaved",
        scaling=schedule(
            "YaRN",
            factor=16.0,
            original_max_position=4096,
            beta_fast=4.0,
            beta_slow=2.0,
            attention_factor=1.0,
        ),
    ),
    thread="class: the config's betas not read",
)
def yarn_default_betas(x, positions):
    """Uses 32 and 1 although the model says 4 and 2."""
    return turn_pairs(x, phase(positions, yarn(64, 10000.0, 16.0, 4096)))


@wrong("scaling-parameter", encoding=GPT_OSS, thread="vllm-project/vllm#27722")
def yarn_truncates_gpt_oss(x, positions):
    """Rounds the bounds to whole pairs although truncate is false."""
    return rotate_oss(x, positions, yarn(64, 150000.0, 32.0, 4096))


@wrong("scaling-parameter", surface="cos_sin", encoding=GPT_OSS, thread="sgl-project/sglang#14270")
class YarnTruncatedTable:
    """The cached table has whole-pair bounds."""

    def __init__(self):
        a = np.arange(8192, dtype=np.float32)[:, None] * yarn(64, 150000.0, 32.0, 4096)
        self.cos, self.sin = np.cos(a) * magnitude(32.0), np.sin(a) * magnitude(32.0)

    def __call__(self, positions):
        if positions.size and not 0 <= positions.min() <= positions.max() < 8192:
            raise IndexError("position outside the table")
        return self.cos[positions], self.sin[positions]


@wrong("scaling-parameter", encoding=QWEN, thread="keras-team/keras-hub#2981")
def yarn_never_truncates(x, positions):
    """Leaves the bounds fractional although truncate is true."""
    return rotate_qwen(x, positions, yarn(128, 1e6, 4.0, 32768, truncate=False))


@wrong(
    "scaling-parameter",
    surface="frequencies",
    encoding=DEEPSEEK,
    thread="pytorch/torchtitan#3787",
    held_out=True,
)
def yarn_fractional_bounds_in_the_frequencies():
    """Leaves DeepSeek's bounds fractional."""
    return yarn(64, 10000.0, 40.0, 4096, truncate=False)


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=QWEN,
    thread="trap: both bounds rounded to the nearest (MaxText)",
)
def yarn_bounds_rounded(x, positions):
    """Rounds both bounds to the nearest pair instead of outwards."""
    low, high = bounds(128, 1e6, 32768, truncate=False)
    w = blend(inv_freq(128, 1e6), 4.0, ramp(round(low), round(high), 64))
    return rotate_qwen(x, positions, w)


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=DEEPSEEK,
    thread="class: int() for both bounds",
    held_out=True,
)
def yarn_both_bounds_floored(x, positions):
    """Cuts the upper bound down as well as the lower."""
    low, high = bounds(64, 10000.0, 4096, truncate=False)
    w = blend(inv_freq(64), 40.0, ramp(int(low), int(high), 32))
    return turn_pairs(x, phase(positions, w))


# --- the bounds ----------------------------------------------------------------------------------


@wrong("scaling-parameter", encoding=QWEN, thread="microsoft/onnxruntime-genai#2311")
def yarn_extended_length(x, positions):
    """Takes max_position_embeddings, 131072, for the original length."""
    return rotate_qwen(x, positions, yarn(128, 1e6, 4.0, 131072))


@wrong(
    "scaling-parameter",
    surface="frequencies",
    encoding=GPT_OSS,
    thread="microsoft/onnxruntime-genai#2311",
    held_out=True,
)
def yarn_extended_length_in_the_frequencies():
    """Takes factor * 4096 for the original length of gpt-oss."""
    return yarn(64, 150000.0, 32.0, 131072, truncate=False), magnitude(32.0)


@wrong("scaling-parameter", encoding=QWEN, thread="class: library default for a missing key")
def yarn_default_length(x, positions):
    """Takes 4096 for the original length, 32768."""
    return rotate_qwen(x, positions, yarn(128, 1e6, 4.0, 4096))


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=rope(
        64,
        scaling=schedule(
            "YaRN", factor=8.0, original_max_position=131072, beta_fast=64.0, beta_slow=1.0
        ),
    ),
    thread="keras-team/keras-hub#2981",
)
def yarn_upper_bound_clamped_to_the_pairs(x, positions):
    """Clamps the upper bound to d/2 - 1, where it should run past the last pair."""
    low, high = bounds(64, 10000.0, 131072, fast=64.0)
    w = blend(inv_freq(64), 8.0, ramp(low, min(high, 31), 32))
    return turn_half(x, phase(positions, w)) * magnitude(8.0)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=GPT_OSS,
    thread="trap: base hard-coded in the correction range",
)
def yarn_base_hard_coded_in_the_ramp(x, positions):
    """The bounds are those of base 10000."""
    r = ramp(*bounds(64, 10000.0, 4096, truncate=False), 32)
    return rotate_oss(x, positions, blend(inv_freq(64, 150000.0), 32.0, r))


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=rope(
        128,
        base=1e6,
        rotary_dim=64,
        scaling=schedule("YaRN", factor=4.0, original_max_position=32768),
    ),
    thread="trap: head_dim for rotary_dim in the correction range",
)
def yarn_ramp_over_the_whole_head(x, positions):
    """Computes the bounds with head_dim in a model that rotates half of it."""
    r = ramp(*bounds(128, 1e6, 32768), 32)
    y = turn_half(x[..., :64], phase(positions, blend(inv_freq(64, 1e6), 4.0, r)))
    return np.concatenate([y * magnitude(4.0), x[..., 64:]], axis=-1)


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=QWEN,
    thread="class: log10 where the base has a natural logarithm",
    held_out=True,
)
def yarn_log10_in_the_bounds(x, positions):
    """Divides a decimal logarithm by a natural one."""
    low, high = bounds(128, 1e6, 32768, truncate=False)
    low, high = math.floor(low / math.log(10)), math.ceil(high / math.log(10))
    return rotate_qwen(x, positions, blend(inv_freq(128, 1e6), 4.0, ramp(low, high, 64)))


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=GPT_OSS,
    thread="class: 2 pi lost from the correction range",
)
def yarn_two_pi_forgotten(x, positions):
    """Counts radians for rotations, as if the original length were 2 pi times larger."""
    w = yarn(64, 150000.0, 32.0, 4096 * 2 * math.pi, truncate=False)
    return rotate_oss(x, positions, w)


@wrong(
    "scaling-formula",
    "scaling-parameter",
    encoding=QWEN,
    thread="class: logarithm of a product for that of a quotient",
    held_out=True,
)
def yarn_rotations_multiplied(x, positions):
    """Takes ln(L0 r / 2 pi), so more rotations mean a later pair."""
    low, high = (turns(1 / r, 128, 1e6, 32768) for r in (32.0, 1.0))
    r = ramp(math.floor(low), math.ceil(high), 64)
    return rotate_qwen(x, positions, blend(inv_freq(128, 1e6), 4.0, r))


@wrong(
    "scaling-parameter",
    "scaling-formula",
    encoding=DEEPSEEK,
    thread="class: the ramp indexed by channel",
    held_out=True,
)
def yarn_ramp_over_channels(x, positions):
    """Runs the ramp over the channel 2j instead of the pair j."""
    r = ramp(*bounds(64, 10000.0, 4096), 64)[::2]
    return turn_pairs(x, phase(positions, blend(inv_freq(64), 40.0, r)))
