"""Calls that start at an offset: wrong and right functions of `apply_offset`."""

import numpy as np

from tests.mutants._axes import QWEN2_VL, globally
from tests.mutants._case import correct, rope, schedule, wrong
from tests.mutants._parts import bf16, inv_freq, over_heads, phase, turn_half

DYNAMIC = rope(64, scaling=schedule("DynamicNTK", factor=2.0, max_position=512))


def at(x, positions):
    """Half-split pairs at positions (S,) or (B, S)."""
    return turn_half(x, phase(positions, inv_freq(64)))


def rows(x, offset):
    """The positions (B, S) of rows that start at their offsets."""
    return np.asarray(offset)[:, None] + np.arange(x.shape[2])


def dynamic(length):
    """Dynamic NTK frequencies at a length."""
    n = max(int(length), 512)
    return inv_freq(64, 10000.0 * (2.0 * n / 512 - 1) ** (64 / 62))


# --- wrong ---------------------------------------------------------------------------------------


@wrong(
    "decode-offset", surface="apply_offset", encoding=rope(64), thread="keras-team/keras-hub#1544"
)
def offset_start_index_ignored(x, offset):
    """The start index is not handed on."""
    return at(x, np.arange(x.shape[2]))


@wrong("row-offset", surface="apply_offset", encoding=rope(64), thread="unslothai/unsloth#4078")
def offset_of_the_first_row_for_all(x, offset):
    """One cache position for the whole batch."""
    return at(x, offset[0] + np.arange(x.shape[2]))


@wrong("row-offset", surface="apply_offset", encoding=rope(64), thread="ml-explore/mlx#3494")
def offset_single_token_rows_left_out(x, offset):
    """The grid of the one-token path has no batch dimension: other rows are never written."""
    y = at(x, rows(x, offset))
    if x.shape[2] == 1:
        y[1:] = 0
    return y


@wrong("decode-offset", surface="apply_offset", encoding=rope(64), thread="ml-explore/mlx-lm#1699")
def offset_advanced_in_place_first(x, offset):
    """The cache advances the aliased offset before the queries use it."""
    return at(x, rows(x, np.asarray(offset) + x.shape[2]))


@wrong(
    "position-precision",
    surface="apply_offset",
    encoding=rope(64),
    thread="keras-team/keras-hub#1544",
)
def offset_cast_to_bfloat16(x, offset):
    """The start index is cast to the compute dtype."""
    return at(x, bf16(offset)[:, None] + np.arange(x.shape[2]))


@wrong("position-axis", surface="apply_offset", encoding=rope(64), thread="mlfoundations/open_lm#4")
def offset_plus_head(x, offset):
    """The head axis is counted from the offset on."""
    p = np.asarray(offset)[:, None] + np.arange(x.shape[1])
    return at(x.swapaxes(1, 2), p).swapaxes(1, 2)


@wrong(
    "base", surface="apply_offset", encoding=rope(64, base=500000.0), thread="class: default base"
)
def offset_with_the_default_base(x, offset):
    """Offsets are right, the base is not."""
    return at(x, rows(x, offset))


@wrong(
    "scaling-parameter",
    "scaling-missing",
    "scaling-formula",
    "decode-offset",
    surface="apply_offset",
    encoding=DYNAMIC,
    thread="class: scaling sees the length of the call",
)
def offset_length_of_the_call(x, offset):
    """The length that the base grows with is x.shape[2], without the offset."""
    return turn_half(x, phase(rows(x, offset), dynamic(x.shape[2])))


@wrong(
    "decode-offset", surface="apply_offset", encoding=QWEN2_VL, thread="class: text after M-RoPE"
)
def offset_ignored_after_mrope(x, offset):
    """Text positions of a multimodal model start again at 0."""
    p = np.broadcast_to(np.arange(x.shape[2]), (x.shape[0], x.shape[2]))
    return turn_half(x, over_heads(p[..., None].astype(np.float32) * globally(64, 1e6)))


# --- correct -------------------------------------------------------------------------------------


@correct(surface="apply_offset", encoding=rope(64, "interleaved"), thread="class: complex table")
class OffsetRowsOfAComplexTable:
    """Rows of a table of unit complex numbers, gathered with (B, S) indices."""

    def __init__(self):
        w = 10000.0 ** (-np.arange(32) / 32)
        self.table = np.exp(1j * np.outer(np.arange(2**16), w))

    def __call__(self, x, offset):
        p = rows(x, offset)
        if p.size and p.max() >= len(self.table):
            raise IndexError("past the table")
        z = x[..., 0::2] + 1j * x[..., 1::2]
        y = z * self.table[p][:, None]
        return np.stack([y.real, y.imag], axis=-1).reshape(x.shape).astype(np.float32)


@correct(surface="apply_offset", encoding=rope(64), thread="ml-explore/mlx#3494")
def offset_one_for_the_batch(x, offset):
    """Refuses rows with different offsets."""
    if len(set(map(int, offset))) > 1:
        raise ValueError("one offset for the whole batch")
    return at(x, int(offset[0]) + np.arange(x.shape[2])) if len(offset) else x.copy()


@correct(surface="apply_offset", encoding=DYNAMIC, thread="huggingface/transformers#25306")
def offset_dynamic_length(x, offset):
    """The base grows with the longest row of the call."""
    end = int(np.max(offset, initial=0)) + x.shape[2]
    return turn_half(x, phase(rows(x, offset), dynamic(end)))


@correct(surface="apply_offset", encoding=rope(64, "interleaved"), thread="class: recurrence")
def offset_by_addition_theorem(x, offset):
    """cos and sin of offset + index from those of each, in float64."""
    w = 10000.0 ** (-np.arange(32) / 32)
    start, index = np.outer(offset, w)[:, None], np.outer(np.arange(x.shape[2]), w)
    cos = np.cos(start) * np.cos(index) - np.sin(start) * np.sin(index)
    sin = np.sin(start) * np.cos(index) + np.cos(start) * np.sin(index)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    c, s = cos[:, None], sin[:, None]
    y = np.stack([x1 * c - x2 * s, x1 * s + x2 * c], axis=-1)
    return y.reshape(x.shape).astype(np.float32)
