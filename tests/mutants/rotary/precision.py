"""Wrong rotary encodings: number formats."""

import numpy as np

from tests.mutants._case import rope, wrong
from tests.mutants._parts import bf16, fp16, inv_freq, phase, turn_half, turn_pairs

# --- precision -----------------------------------------------------------------------------------


@wrong("angle-precision", encoding=rope(64, "half"), thread="vllm-project/vllm#1004")
def bf16_frequencies(x, positions):
    """The frequency buffer was cast with the model."""
    return turn_half(x, phase(positions, bf16(inv_freq(64))))


@wrong(
    "angle-precision",
    surface="frequencies",
    encoding=rope(128, "half", base=500000.0),
    thread="tinygrad/tinygrad#4587",
)
def fp16_frequencies():
    """Frequencies stored in half precision."""
    return fp16(inv_freq(128, 500000.0))


@wrong("angle-precision", encoding=rope(128, "interleaved"), thread="class: autocast outer product")
def bf16_angles(x, positions):
    """The product of position and frequency is rounded to bfloat16."""
    return turn_pairs(x, bf16(phase(positions, inv_freq(128))))


@wrong(
    "angle-precision",
    encoding=rope(64, "half", base=1000000.0),
    thread="class: model dtype for everything before the cosine",
    dtype="bfloat16",
    held_out=True,
)
def bf16_frequencies_behind_a_bf16_output(x, positions):
    """bfloat16 frequencies whose error hides behind bfloat16 outputs at small positions."""
    a = phase(positions, bf16(inv_freq(64, 1000000.0)))
    return turn_half(x.astype(np.float32), a).astype(x.dtype)


@wrong(
    "angle-precision",
    surface="cos_sin",
    encoding=rope(64, "interleaved"),
    thread="tinygrad/tinygrad#4587",
    held_out=True,
)
def fp16_product(positions):
    """The angle is rounded to float16; positions past 32768 are refused."""
    if np.size(positions) and np.max(np.abs(positions)) > 32768:
        raise IndexError("position outside the table")
    a = fp16(np.asarray(positions, np.float32)[:, None] * inv_freq(64))
    return np.cos(a), np.sin(a)


@wrong(
    "position-precision",
    "angle-precision",
    encoding=rope(64, "half"),
    thread="class: arange in the model dtype (bf16 has no 257)",
)
def bf16_positions(x, positions):
    """Positions are rounded to bfloat16 before the product."""
    return turn_half(x, phase(bf16(positions), inv_freq(64)))


@wrong(
    "position-precision",
    "angle-precision",
    encoding=rope(128, "half", base=500000.0),
    thread="class: arange in the model dtype (bf16 has no 257)",
    dtype="bfloat16",
    held_out=True,
)
def bf16_positions_behind_a_bf16_output(x, positions):
    """Positions rounded to bfloat16, outputs bfloat16 as declared."""
    a = phase(bf16(positions), inv_freq(128, 500000.0))
    return turn_half(x.astype(np.float32), a).astype(x.dtype)


@wrong(
    "position-precision",
    "angle-precision",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="tinygrad/tinygrad#4587",
)
def fp16_positions(positions):
    """Positions are rounded to float16 (2049 becomes 2048); past 65504 they are refused."""
    if np.size(positions) and np.max(np.abs(positions)) > 65504:
        raise IndexError("position outside the table")
    a = fp16(positions)[:, None] * inv_freq(64)
    return np.cos(a), np.sin(a)


@wrong(
    "base",
    encoding=rope(64, "interleaved"),
    thread="class: one per cent in the base, hidden by bfloat16 outputs",
    dtype="bfloat16",
    held_out=True,
)
def base_one_per_cent_off_in_bf16(x, positions):
    """Base 10100 behind a bfloat16 output."""
    return turn_pairs(x.astype(np.float32), phase(positions, inv_freq(64, 10100.0))).astype(x.dtype)


@wrong(
    "range-reduction",
    "angle-precision",
    encoding=rope(64, "half"),
    thread="class: hand-written range reduction with a short 2 pi (cf. kekzl/imp#1316)",
    held_out=True,
)
def short_two_pi(x, positions):
    """Reduces the angle with 6.283, which is harmless below one turn."""
    a = phase(positions, inv_freq(64))
    two_pi = np.float32(6.283)
    return turn_half(x, np.where(np.abs(a) > two_pi, a - np.round(a / two_pi) * two_pi, a))


@wrong(
    "overflow",
    "angle-precision",
    encoding=rope(128, "half", base=1000000.0),
    thread="vllm-project/vllm#1004",
)
def power_overflows_fp16(x, positions):
    """base^(2j/d) is infinite in float16, so the slow channels never turn."""
    power = fp16(1000000.0 ** (np.arange(0, 128, 2) / 128))
    return turn_half(x, phase(positions, fp16(1.0 / power)))


@wrong(
    "table-precision",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="KellerJordan/modded-nanogpt#39",
)
def bf16_tables(positions):
    """float32 tables whose values were rounded to bfloat16."""
    a = np.asarray(positions, np.float32)[:, None] * inv_freq(64)
    return bf16(np.cos(a)), bf16(np.sin(a))


@wrong(
    "table-precision",
    encoding=rope(64, "interleaved", rotary_dim=32),
    thread="KellerJordan/modded-nanogpt#39",
    held_out=True,
)
def fp16_tables_in_a_float32_rotation(x, positions):
    """cos and sin are stored in float16, the rest is float32."""
    a = phase(positions, inv_freq(32))
    cos, sin = fp16(np.cos(a)), fp16(np.sin(a))
    y = x.copy()
    y[..., 0:32:2] = x[..., 0:32:2] * cos - x[..., 1:32:2] * sin
    y[..., 1:32:2] = x[..., 1:32:2] * cos + x[..., 0:32:2] * sin
    return y
