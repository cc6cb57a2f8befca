"""Wrong factors on cos and sin: right frequencies, wrong amplitude (YaRN and its relatives)."""

import math

import numpy as np

from tests.mutants._case import rope, schedule, wrong
from tests.mutants._parts import phase, turn_half, turn_pairs
from tests.mutants._scaled import (
    DEEPSEEK,
    GPT_OSS,
    QWEN,
    deepseek,
    gpt_oss,
    magnitude,
    qwen,
    seq_len,
    yarn,
)

DEEPSEEK_V2 = rope(
    64,
    "interleaved",
    scaling=schedule(
        "YaRN", factor=40.0, original_max_position=4096, mscale=0.707, mscale_all_dim=0.707
    ),
)
MINISTRAL = rope(
    128,
    base=1e6,
    scaling=schedule(
        "YaRN", factor=16.0, original_max_position=16384, mscale=1.0, mscale_all_dim=1.0
    ),
)
EXPLICIT_ONE = rope(
    128,
    base=1e6,
    scaling=schedule("YaRN", factor=64.0, original_max_position=4096, attention_factor=1.0),
)
# What a model with mscale = mscale_all_dim = 1 wants where the pair means DeepSeek's own rule.
EXPLICIT_YARN = rope(
    64,
    "interleaved",
    scaling=schedule(
        "YaRN", factor=40.0, original_max_position=4096, attention_factor=1.3688879454113936
    ),
)
PARTIAL = rope(
    128,
    rotary_dim=64,
    scaling=schedule("YaRN", factor=8.0, original_max_position=8192),
)

# --- not applied, or not where it belongs --------------------------------------------------------


@wrong("attention-factor", encoding=QWEN, thread="class: attention factor computed, never applied")
def attention_factor_ignored(x, positions):
    """Right frequencies, cos and sin of amplitude one."""
    return turn_half(x, phase(positions, qwen()))


@wrong(
    "attention-factor",
    surface="cos_sin",
    encoding=GPT_OSS,
    thread="class: attention factor computed, never applied",
    held_out=True,
)
def attention_factor_missing_from_the_tables(positions):
    """gpt-oss tables of amplitude one."""
    a = np.asarray(positions, np.float32)[:, None] * gpt_oss()
    return np.cos(a), np.sin(a)


@wrong("attention-factor", encoding=GPT_OSS, thread="class: applied to the tables and to q and k")
def attention_factor_squared(x, positions):
    """Multiplies the tables and x."""
    m = magnitude(32.0)
    a = phase(positions, gpt_oss())
    cos, sin = m * np.cos(a), m * np.sin(a)
    x1, x2 = np.split(x * m, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@wrong(
    "attention-factor",
    surface="frequencies",
    encoding=GPT_OSS,
    thread="ggml-org/llama.cpp#17945",
)
def attention_factor_counted_by_caller_and_kernel():
    """The kernel multiplies its own factor onto the one it is given."""
    return gpt_oss(), magnitude(32.0) * (1 + 0.1 * math.log(32.0))


@wrong(
    "attention-factor",
    "not-a-rotation",
    "amplitude",
    encoding=QWEN,
    thread="class: factor on one table only",
)
def attention_factor_on_the_cosine_only(x, positions):
    """Multiplies cos and forgets sin."""
    a = phase(positions, qwen())
    cos, sin = np.cos(a) * magnitude(4.0), np.sin(a)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@wrong(
    "attention-factor",
    "not-a-rotation",
    "amplitude",
    surface="cos_sin",
    encoding=GPT_OSS,
    thread="class: factor on one table only",
    held_out=True,
)
def attention_factor_on_the_sine_only(positions):
    """Multiplies sin and forgets cos."""
    a = np.asarray(positions, np.float32)[:, None] * gpt_oss()
    return np.cos(a), np.sin(a) * magnitude(32.0)


@wrong(
    "attention-factor",
    "amplitude",
    "rotary-dim",
    encoding=PARTIAL,
    thread="trap: factor on the channels that pass through",
)
def attention_factor_on_the_whole_head(x, positions):
    """Multiplies the channels outside the slice as well."""
    y = turn_half(x[..., :64], phase(positions, yarn(64, 10000.0, 8.0, 8192)))
    return np.concatenate([y, x[..., 64:]], axis=-1) * magnitude(8.0)


@wrong(
    "attention-factor",
    "scaling-parameter",
    encoding=QWEN,
    thread="class: factor only for calls past the original length",
    held_out=True,
)
def attention_factor_only_past_the_original_length(x, positions):
    """Amplitude one up to 32768 tokens."""
    m = magnitude(4.0) if seq_len(positions) > 32768 else 1.0
    return turn_half(x, phase(positions, qwen())) * m


# --- another value -------------------------------------------------------------------------------


@wrong("attention-factor", encoding=DEEPSEEK_V2, thread="class: mscale read for attention_factor")
def mscale_for_the_attention_factor(x, positions):
    """Multiplies by 0.707, where the two mscales cancel to one."""
    return turn_pairs(x, phase(positions, deepseek())) * 0.707


@wrong("attention-factor", encoding=DEEPSEEK_V2, thread="kekzl/imp#880")
def mscale_all_dim_alone(x, positions):
    """Multiplies by 1.261, the factor of mscale_all_dim without the ratio."""
    return turn_pairs(x, phase(positions, deepseek())) * magnitude(40.0, 0.707)


@wrong(
    "attention-factor",
    surface="cos_sin",
    encoding=DEEPSEEK,
    thread="kekzl/imp#880",
    held_out=True,
)
def mscale_without_the_ratio_in_the_tables(positions):
    """DeepSeek-V3 tables of amplitude 1.369 instead of one."""
    a = np.asarray(positions, np.float32)[:, None] * deepseek()
    return np.cos(a) * magnitude(40.0), np.sin(a) * magnitude(40.0)


@wrong("attention-factor", encoding=MINISTRAL, thread="vllm-project/vllm#48623")
def both_mscales_ignored(x, positions):
    """Falls back to 0.1 ln(16) + 1 = 1.2773 where the mscales say one."""
    return turn_half(x, phase(positions, yarn(128, 1e6, 16.0, 16384))) * magnitude(16.0)


@wrong("attention-factor", encoding=EXPLICIT_ONE, thread="vllm-project/vllm#48351")
def explicit_factor_ignored(x, positions):
    """Computes 1.4159 where the config says one."""
    return turn_half(x, phase(positions, yarn(128, 1e6, 64.0, 4096))) * magnitude(64.0)


@wrong(
    "attention-factor",
    surface="frequencies",
    encoding=EXPLICIT_ONE,
    thread="ml-explore/mlx-lm#1507",
    held_out=True,
)
def explicit_factor_ignored_beside_the_frequencies():
    """Returns the default factor beside the right frequencies."""
    return yarn(128, 1e6, 64.0, 4096), magnitude(64.0)


@wrong("attention-factor", encoding=EXPLICIT_YARN, thread="turboderp-org/exllamav3#259")
def factor_collapsed_to_one(x, positions):
    """The ratio of two equal mscales is one, where the model wants 1.369."""
    return turn_pairs(x, phase(positions, deepseek())) * (magnitude(40.0) / magnitude(40.0))


@wrong("attention-factor", encoding=GPT_OSS, thread="class: log10 for ln")
def factor_by_log10(x, positions):
    """0.1 log10(s) + 1."""
    return turn_half(x, phase(positions, gpt_oss())) * (0.1 * math.log10(32.0) + 1)


@wrong("attention-factor", encoding=GPT_OSS, thread="trap: TeleChat3's 0.07 for 0.1", held_out=True)
def factor_of_another_model(x, positions):
    """0.07 ln(s) + 1."""
    return turn_half(x, phase(positions, gpt_oss())) * (0.07 * math.log(32.0) + 1)


@wrong("attention-factor", encoding=QWEN, thread="class: logarithm of the length for the factor")
def factor_from_the_original_length(x, positions):
    """0.1 ln(32768) + 1."""
    return turn_half(x, phase(positions, qwen())) * magnitude(32768.0)


@wrong(
    "attention-factor",
    encoding=QWEN,
    thread="class: the paper's sqrt(1/t) taken of the finished factor",
    held_out=True,
)
def square_root_of_the_attention_factor(x, positions):
    """sqrt(0.1 ln(s) + 1), as if the factor belonged on the logits."""
    return turn_half(x, phase(positions, qwen())) * math.sqrt(magnitude(4.0))


@wrong("attention-factor", encoding=GPT_OSS, thread="class: LongRoPE's factor with YaRN's schedule")
def factor_of_longrope(x, positions):
    """sqrt(1 + ln(s) / ln(L0))."""
    m = math.sqrt(1 + math.log(32.0) / math.log(4096))
    return turn_half(x, phase(positions, gpt_oss())) * m


@wrong(
    "attention-factor",
    encoding=PARTIAL,
    thread="class: divided by the factor for multiplied",
    held_out=True,
)
def factor_divided(x, positions):
    """Divides the rotated slice by the factor."""
    y = turn_half(x[..., :64], phase(positions, yarn(64, 10000.0, 8.0, 8192)))
    return np.concatenate([y / np.float32(magnitude(8.0)), x[..., 64:]], axis=-1)
