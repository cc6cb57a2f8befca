"""Wrong implementations: rotation, amplitude, precision, and how arrays come and go."""

import numpy as np

from ._case import rope, sinusoidal, wrong
from ._parts import (
    bf16,
    fp16,
    inv_freq,
    over_heads,
    phase,
    swap_half,
    turn_half,
    turn_pairs,
)

# --- not a rotation ------------------------------------------------------------------------------


@wrong("not-a-rotation", encoding=rope(64, "half"), thread="class: minus lost in rotate_half")
def minus_missing(x, positions):
    """rotate_half without its minus."""
    x1, x2 = np.split(x, 2, axis=-1)
    a = phase(positions, inv_freq(64))
    a = np.concatenate([a, a], axis=-1)
    return x * np.cos(a) + np.concatenate([x2, x1], axis=-1) * np.sin(a)


@wrong(
    "not-a-rotation",
    encoding=rope(64, "interleaved"),
    thread="class: cosine used where the sine belongs",
)
def cosine_used_twice(x, positions):
    """The cross terms are multiplied by the cosine."""
    a = phase(positions, inv_freq(64))
    cos = np.cos(a)
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * cos, odd * cos + even * cos], axis=-1).reshape(x.shape)


@wrong(
    "not-a-rotation",
    encoding=rope(128, "half", base=500000.0),
    thread="class: cosine rebuilt from the sine without its sign",
    held_out=True,
)
def cosine_always_positive(x, positions):
    """cos = sqrt(1 - sin^2)."""
    sin = np.sin(phase(positions, inv_freq(128, 500000.0)))
    cos = np.sqrt(1.0 - sin * sin)
    x1, x2 = np.split(x, 2, axis=-1)
    return np.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


@wrong(
    "not-a-rotation",
    encoding=rope(64, "half", rotary_dim=32),
    thread="class: second channel computed from the updated first",
)
def second_channel_uses_the_new_first(x, positions):
    """The in-order update of a copy reads a channel already rotated."""
    a = phase(positions, inv_freq(32))
    cos, sin = np.cos(a), np.sin(a)
    y = x.copy()
    y[..., :16] = y[..., :16] * cos - y[..., 16:32] * sin
    y[..., 16:32] = y[..., 16:32] * cos + y[..., :16] * sin
    return y


@wrong(
    "not-a-rotation",
    encoding=rope(64, "interleaved"),
    thread="class: reflection instead of rotation",
    held_out=True,
)
def reflects_the_pair(x, positions):
    """(x1 cos + x2 sin, x1 sin - x2 cos): norms are kept, orientation is not."""
    a = phase(positions, inv_freq(64))
    cos, sin = np.cos(a), np.sin(a)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return np.stack([x1 * cos + x2 * sin, x1 * sin - x2 * cos], axis=-1).reshape(x.shape)


@wrong(
    "not-a-rotation",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="class: cosine rebuilt from the sine without its sign",
)
def absolute_cosine(positions):
    """The cosine table has lost its sign."""
    a = np.asarray(positions, np.float32)[:, None] * inv_freq(64)
    return np.abs(np.cos(a)), np.sin(a)


@wrong(
    "not-linear",
    "not-a-rotation",
    "amplitude",
    encoding=rope(64, "half"),
    thread="class: normalisation fused into the rotary kernel",
    held_out=True,
)
def normalises_long_vectors(x, positions):
    """Vectors longer than 20 are shortened to 20 before the rotation."""
    norm = np.sqrt(np.sum(x * x, axis=-1, keepdims=True))
    return turn_half(
        x * np.minimum(1.0, 20.0 / np.maximum(norm, 1e-6)), phase(positions, inv_freq(64))
    )


# --- amplitude -----------------------------------------------------------------------------------


@wrong(
    "amplitude",
    "attention-factor",
    "softmax-scale",
    encoding=rope(64, "half"),
    thread="class: softmax scale folded into the query twice",
)
def query_scale_folded_in(x, positions):
    """The output carries 1/sqrt(d)."""
    return turn_half(x, phase(positions, inv_freq(64))) / np.float32(8.0)


@wrong(
    "attention-factor",
    "amplitude",
    encoding=rope(128, "interleaved", base=1000000.0, scaling=4.0),
    thread="vllm-project/vllm#48351",
)
def attention_factor_without_yarn(x, positions):
    """cos and sin carry 0.1 ln(4) + 1 although only linear scaling is declared."""
    m = np.float32(0.1 * np.log(4.0) + 1.0)
    return turn_pairs(x, phase(positions, inv_freq(128, 1000000.0) / 4.0)) * m


@wrong(
    "amplitude",
    "attention-factor",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="kekzl/imp#880",
)
def inflated_tables(positions):
    """Both tables are 1.261 times too large."""
    a = np.asarray(positions, np.float32)[:, None] * inv_freq(64)
    return np.float32(1.261) * np.cos(a), np.float32(1.261) * np.sin(a)


@wrong(
    "amplitude",
    "attention-factor",
    encoding=rope(96, "half", rotary_dim=48),
    thread="class: factor applied to pass-through channels as well",
    held_out=True,
)
def whole_head_scaled(x, positions):
    """One per cent on all channels, the unrotated ones included."""
    y = np.concatenate([turn_half(x[..., :48], phase(positions, inv_freq(48))), x[..., 48:]], -1)
    return y * np.float32(1.01)


@wrong(
    "amplitude",
    "not-a-rotation",
    encoding=rope(64, "interleaved"),
    thread="class: decay of another encoding left in (xPos on queries)",
    held_out=True,
)
def decays_with_position(x, positions):
    """Each pair shrinks slowly with the position."""
    zeta = (np.arange(0, 64, 2, dtype=np.float32) + 0.4 * 64) / (1.4 * 64)
    p = np.asarray(positions, np.float32)[..., None]
    scale = over_heads(np.repeat(zeta ** (p / 512.0), 2, axis=-1))
    return turn_pairs(x, phase(positions, inv_freq(64))) * scale


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
    held_out=True,
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


# --- uninitialised -------------------------------------------------------------------------------


@wrong(
    "uninitialised",
    "frequency-spacing",
    encoding=rope(64, "half"),
    thread="huggingface/transformers#34234",
)
class FrequencyBufferNeverFilled:
    """The frequency buffer holds what the allocator left there."""

    def __init__(self):
        self.w = np.random.default_rng(34234).standard_normal(32).astype(np.float32)

    def __call__(self, x, positions):
        return turn_half(x, phase(positions, self.w))


@wrong(
    "uninitialised",
    "frequency-spacing",
    "rotary-dim",
    surface="frequencies",
    encoding=rope(64, "interleaved"),
    thread="huggingface/transformers#45902",
)
def frequency_buffer_of_zeros():
    """A zero-filled buffer was never rebuilt."""
    return np.zeros(32, np.float32)


@wrong(
    "uninitialised",
    "not-a-rotation",
    "rotary-dim",
    "frequency-spacing",
    encoding=rope(128, "half"),
    thread="huggingface/transformers#45902",
)
def zero_frequencies_rotate_nothing(x, positions):
    """All frequencies are zero, so the input comes back."""
    return turn_half(x, phase(positions, np.zeros(64, np.float32)))


# --- arrays that come and go ---------------------------------------------------------------------


@wrong("mutates-input", encoding=rope(64, "half"), thread="class: in-place kernel")
def rotates_in_place(x, positions):
    """Writes the result into x and returns x."""
    x[...] = turn_half(x, phase(positions, inv_freq(64)))
    return x


@wrong(
    "mutates-input",
    encoding=rope(64, "interleaved"),
    thread="class: scratch written into the argument",
    held_out=True,
)
def scratches_on_the_input(x, positions):
    """Returns a right copy, having overwritten x."""
    y = turn_pairs(x, phase(positions, inv_freq(64)))
    x[..., 1::2] *= -1.0
    return y


@wrong(
    "mutates-input",
    encoding=rope(64, "half", scaling=4.0),
    thread="ml-explore/mlx-lm#1699",
    held_out=True,
)
def advances_the_positions(x, positions):
    """Returns the right output and adds the sequence length to the caller's positions."""
    y = turn_half(x, phase(np.asarray(positions) / 4.0, inv_freq(64)))
    positions += x.shape[2]
    return y


@wrong("shape", encoding=rope(64, "half"), thread="zhenye234/X-Codec-2.0#36")
def heads_and_sequence_come_back_swapped(x, positions):
    """Returns (B, S, H, D)."""
    return turn_half(x, phase(positions, inv_freq(64))).swapaxes(1, 2)


@wrong("shape", encoding=rope(32, "interleaved"), thread="class: heads merged on return")
def heads_come_back_merged(x, positions):
    """Returns (B, S, H * D)."""
    y = turn_pairs(x, phase(positions, inv_freq(32))).swapaxes(1, 2)
    return y.reshape(*y.shape[:2], -1)


@wrong(
    "shape",
    encoding=rope(64, "half"),
    thread="class: squeeze() on a batch of one",
    held_out=True,
)
def single_row_batch_squeezed(x, positions):
    """Loses the batch axis when the batch has one row."""
    y = turn_half(x, phase(positions, inv_freq(64)))
    return y[0] if len(y) == 1 else y


@wrong("dtype", encoding=rope(64, "half"), thread="class: hard-coded half()")
def returns_float16(x, positions):
    """Returns float16 for float32 input."""
    return turn_half(x, phase(positions, inv_freq(64))).astype(np.float16)


@wrong(
    "dtype",
    "table-precision",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="class: tables truncated to integers",
    held_out=True,
)
def integer_tables(positions):
    """Tables take the dtype of the positions, so they hold -1, 0 and 1."""
    positions = np.asarray(positions)
    a = positions[:, None] * inv_freq(64)
    return np.cos(a).astype(positions.dtype), np.sin(a).astype(positions.dtype)


@wrong("nonfinite", encoding=rope(64, "half"), thread="class: cosine from the double angle")
def nan_at_position_zero(x, positions):
    """cos a = sin 2a / (2 sin a) is 0/0 at position zero."""
    a = phase(positions, inv_freq(64))
    with np.errstate(invalid="ignore", divide="ignore"):
        sin = np.sin(a)
        cos = np.where(a == 0.0, sin / sin, np.cos(a))
    return x * np.concatenate([cos, cos], -1) + swap_half(x) * np.concatenate([sin, sin], -1)


@wrong(
    "nonfinite",
    encoding=rope(64, "interleaved"),
    thread="class: norm restored after the rotation",
    held_out=True,
)
def nan_for_zero_vectors(x, positions):
    """Rescales to the old norm, which is 0/0 for a zero vector."""
    y = turn_pairs(x, phase(positions, inv_freq(64))).astype(np.float64)
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.linalg.norm(x, axis=-1, keepdims=True) / np.linalg.norm(
            y, axis=-1, keepdims=True
        )
        return (y * ratio).astype(np.float32)


@wrong(
    "nonfinite",
    encoding=rope(64, "half"),
    thread="class: gather as a one-hot matrix product",
    held_out=True,
)
def nan_leaves_its_token(x, positions):
    """Reads tokens through a one-hot product, so one NaN token poisons the others."""
    eye = np.eye(x.shape[2], dtype=x.dtype)
    with np.errstate(invalid="ignore"):
        x = np.einsum("st,bhtd->bhsd", eye, x)
    return turn_half(x, phase(positions, inv_freq(64)))


@wrong(
    "nonfinite",
    "overflow",
    "angle-precision",
    encoding=rope(64, "half"),
    thread="tinygrad/tinygrad#4587",
)
def angle_overflows_fp16(x, positions):
    """The float16 angle of a position past 65504 is infinite."""
    with np.errstate(invalid="ignore"):
        return turn_half(x, fp16(phase(positions, inv_freq(64))))


@wrong("raises", encoding=rope(64, "half"), thread="class: single-token call not supported")
def refuses_a_single_token(x, positions):
    """Raises for a sequence of one token."""
    if x.shape[2] == 1:
        raise ValueError("sequence length must exceed one")
    return turn_half(x, phase(positions, inv_freq(64)))


@wrong("raises", encoding=rope(64, "interleaved"), thread="class: table without a head axis")
def table_does_not_broadcast(x, positions):
    """Adds the (S, d/2) table to (B, S, H, d/2), which fails unless S equals H."""
    a = np.asarray(positions, np.float32)[..., None] * inv_freq(64)
    x = x.swapaxes(1, 2)
    return turn_pairs(x, a).swapaxes(1, 2)


@wrong(
    "raises",
    surface="table",
    encoding=sinusoidal(64),
    thread="class: float positions required",
    held_out=True,
)
def refuses_integer_positions(positions):
    """Raises for int64 positions, the required kind."""
    if positions.dtype.kind != "f":
        raise TypeError("positions must be floating point")
    a = positions[:, None] * inv_freq(64)
    return np.stack([np.sin(a), np.cos(a)], axis=-1).reshape(len(a), 64)
