"""Wrong implementations: how arrays come and go."""

import numpy as np

from tests.mutants._case import rope, sinusoidal, wrong
from tests.mutants._parts import fp16, inv_freq, phase, swap_half, turn_half, turn_pairs

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
        x = eye @ x
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
