"""Wrong rotary encodings: which position each token gets."""

import numpy as np

from tests.mutants._case import rope, wrong
from tests.mutants._parts import inv_freq, over_heads, phase, turn_half, turn_pairs

# --- origin --------------------------------------------------------------------------------------


@wrong("position-origin", encoding=rope(64, "half"), thread="class: positions counted from one")
def first_token_at_one(x, positions):
    """Adds one to every position."""
    return turn_half(x, phase(np.asarray(positions) + 1, inv_freq(64)))


@wrong(
    "position-origin",
    surface="cos_sin",
    encoding=rope(96, "interleaved", base=500000.0),
    thread="class: table built from arange(1, n + 1)",
)
class TableFromOne:
    """A gather from a table whose first row is position one."""

    def __init__(self):
        a = np.arange(1, 4097, dtype=np.float32)[:, None] * inv_freq(96, 500000.0)
        self.cos, self.sin = np.cos(a), np.sin(a)

    def __call__(self, positions):
        if positions.size and not 0 <= positions.min() <= positions.max() < 4096:
            raise IndexError("position outside the table")
        return self.cos[positions], self.sin[positions]


@wrong(
    "position-origin",
    encoding=rope(64, "interleaved", rotary_dim=32),
    thread="RobertCsordas/moeut#6",
)
def query_offset_taken_before_the_append(x, positions):
    """Every position is one behind, the first token at -1."""
    y = turn_pairs(x[..., :32], phase(np.asarray(positions) - 1, inv_freq(32)))
    return np.concatenate([y, x[..., 32:]], axis=-1)


@wrong(
    "position-origin",
    encoding=rope(64, "half", scaling=4.0),
    thread="class: pixel-centre positions p + 0.5",
)
def half_a_step_late(x, positions):
    """Positions are cell centres."""
    return turn_half(x, phase((np.asarray(positions) + 0.5) / 4.0, inv_freq(64)))


@wrong(
    "decode-offset",
    "position-origin",
    "position-axis",
    "row-offset",
    encoding=rope(64, "half"),
    thread="keras-team/keras-hub#1544",
)
def start_index_ignored(x, positions):
    """Numbers the tokens of each call from zero, whatever positions says."""
    return turn_half(x, phase(np.arange(x.shape[-2]), inv_freq(64)))


@wrong(
    "decode-offset",
    "position-origin",
    "row-offset",
    "wrong-row",
    encoding=rope(128, "half"),
    thread="RobertCsordas/moeut#6",
    held_out=True,
)
def single_token_sits_at_zero(x, positions):
    """A call with one token takes the prefill path and rotates it by position zero."""
    positions = np.asarray(positions)
    if x.shape[-2] == 1:
        positions = np.zeros_like(positions)
    return turn_half(x, phase(positions, inv_freq(128)))


# --- axes ----------------------------------------------------------------------------------------


@wrong("position-axis", encoding=rope(64, "half"), thread="mlfoundations/open_lm#4")
def head_index_is_the_position(x, positions):
    """Expects (B, S, H, D), so the head axis is taken for the sequence."""
    return turn_half(x, phase(np.arange(x.shape[1]), inv_freq(64))[:, None, :])


@wrong(
    "position-axis",
    encoding=rope(64, "interleaved"),
    thread="zhenye234/X-Codec-2.0#36",
    tensor_layout="bshd",
)
def heads_for_sequence_in_bshd(x, positions):
    """Takes axis 2 of (B, S, H, D) for the sequence."""
    return turn_pairs(x, phase(np.arange(x.shape[2]), inv_freq(64)))


@wrong("position-axis", encoding=rope(128, "half"), thread="PaddlePaddle/PaddleFleet#91")
def batch_index_is_the_position(x, positions):
    """Takes the batch axis for the sequence; batch 1 is never rotated."""
    return turn_half(x, phase(np.arange(x.shape[0]), inv_freq(128))[:, None, None, :])


@wrong(
    "position-axis",
    encoding=rope(64, "half"),
    thread="class: positions broadcast over flattened (head, sequence)",
    held_out=True,
)
def position_grows_with_the_head(x, positions):
    """Head h is rotated by position + h."""
    positions = np.asarray(positions)
    heads = np.arange(x.shape[1])[:, None]
    spread = positions[..., None, :] + heads
    return turn_half(x, spread[..., None].astype(np.float32) * inv_freq(64))


@wrong(
    "position-axis",
    "row-offset",
    "rotary-dim",
    encoding=rope(64, "interleaved"),
    thread="class: rotation applied before the heads are split (only head 0 rotated)",
)
def only_the_first_head_rotates(x, positions):
    """Heads after the first pass through."""
    y = x.copy()
    y[:, :1] = turn_pairs(x[:, :1], phase(positions, inv_freq(64)))
    return y


@wrong(
    "position-axis",
    "row-offset",
    "position-origin",
    encoding=rope(64, "half"),
    thread="class: last tile of a kernel reads the next position",
    held_out=True,
)
def last_of_several_heads_one_ahead(x, positions):
    """The last head, if there are several, is rotated by position + 1."""
    y = turn_half(x, phase(positions, inv_freq(64)))
    if x.shape[1] > 1:
        y[:, -1:] = turn_half(x[:, -1:], phase(np.asarray(positions) + 1, inv_freq(64)))
    return y


# --- rows ----------------------------------------------------------------------------------------


@wrong("row-offset", encoding=rope(64, "half"), thread="unslothai/unsloth#4078")
def first_row_positions_for_all(x, positions):
    """Uses the positions of batch row 0 for every row."""
    positions = np.asarray(positions)
    return turn_half(x, phase(positions[0] if positions.ndim == 2 else positions, inv_freq(64)))


@wrong(
    "row-offset",
    "position-axis",
    "decode-offset",
    encoding=rope(64, "interleaved", base=500000.0),
    thread="ml-explore/mlx#3494",
    held_out=True,
)
def later_rows_untouched_when_decoding(x, positions):
    """With one token per row only batch row 0 is rotated."""
    y = turn_pairs(x, phase(positions, inv_freq(64, 500000.0)))
    if x.shape[2] == 1:
        y[1:] = x[1:]
    return y


@wrong(
    "row-offset",
    "position-axis",
    encoding=rope(64, "half"),
    thread="class: batch row 1 read one token late",
    held_out=True,
)
def second_batch_row_one_behind(x, positions):
    """Batch row 1 is rotated by position - 1, the other rows are right."""
    a = over_heads(
        np.broadcast_to(
            np.asarray(positions, np.float32)[..., None] * inv_freq(64),
            (x.shape[0], x.shape[2], 32),
        )
    ).copy()
    a[1:2] -= inv_freq(64)
    return turn_half(x, a)


@wrong(
    "row-offset",
    encoding=rope(64, "half"),
    thread="class: rows of a packed batch matched in the wrong order",
)
def rows_paired_backwards(x, positions):
    """Per-row positions are used in reverse row order."""
    positions = np.asarray(positions)
    return turn_half(x, phase(positions[::-1] if positions.ndim == 2 else positions, inv_freq(64)))


# --- range ---------------------------------------------------------------------------------------


@wrong("position-range", encoding=rope(64, "half"), thread="class: clamped gather (JAX take)")
def clamped_at_2048(x, positions):
    """Positions past the table read its last row."""
    return turn_half(x, phase(np.clip(positions, None, 2047), inv_freq(64)))


@wrong(
    "position-range",
    encoding=rope(128, "interleaved"),
    thread="class: ring buffer index used as position",
)
def modulo_1024(x, positions):
    """Positions wrap with the sliding-window cache."""
    return turn_pairs(x, phase(np.fmod(positions, 1024), inv_freq(128)))


@wrong(
    "position-range",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="class: positions kept in eight bits",
)
def modulo_256(positions):
    """Integer positions wrap at 256."""
    positions = np.asarray(positions)
    if positions.dtype.kind in "iu":
        positions = positions % 256
    a = positions.astype(np.float32)[:, None] * inv_freq(64)
    return np.cos(a), np.sin(a)


@wrong(
    "position-range",
    encoding=rope(64, "half", base=1000000.0),
    thread="class: positions kept in sixteen bits",
    held_out=True,
)
def sixteen_bit_positions(x, positions):
    """Positions past 32767 turn negative."""
    positions = np.asarray(positions)
    if positions.dtype.kind in "iu":
        positions = positions.astype(np.int16)
    return turn_half(x, phase(positions, inv_freq(64, 1000000.0)))


@wrong(
    "wrong-row",
    "position-range",
    encoding=rope(64, "half"),
    thread="class: second table page starts one row late",
    held_out=True,
)
def one_ahead_past_a_thousand(x, positions):
    """Positions above 1000 are rotated by position + 1."""
    positions = np.asarray(positions)
    return turn_half(x, phase(positions + (positions > 1000), inv_freq(64)))


@wrong(
    "wrong-row",
    "sign",
    encoding=rope(64, "interleaved"),
    thread="class: conjugate taken on alternate rows",
    held_out=True,
)
def odd_positions_turn_backwards(x, positions):
    """Even positions are right, odd ones are rotated by -position."""
    positions = np.asarray(positions)
    return turn_pairs(x, phase(np.where(positions % 2 == 1, -positions, positions), inv_freq(64)))


@wrong(
    "wrong-row",
    "position-precision",
    surface="cos_sin",
    encoding=rope(64, "half"),
    thread="class: table indexed with a doubled stride",
)
def odd_rows_repeat_the_even_ones(positions):
    """Integer positions are rounded down to even ones."""
    positions = np.asarray(positions)
    if positions.dtype.kind in "iu":
        positions = positions - positions % 2
    a = positions.astype(np.float32)[:, None] * inv_freq(64)
    return np.cos(a), np.sin(a)
