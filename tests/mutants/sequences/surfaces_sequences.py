"""Calls of one instance, keys that are moved, gradients: `calls`, `shift_keys`, `apply_vjp`."""

import math

import numpy as np

from tests.mutants._case import correct, rope, schedule, wrong
from tests.mutants._parts import inv_freq, phase, swap_half, swap_pairs, turn_half, turn_pairs

DYNAMIC = rope(64, scaling=schedule("DynamicNTK", factor=2.0, max_position=512))
YARN = rope(64, scaling=schedule("YaRN", factor=8.0, original_max_position=4096))
PARTIAL = rope(64, rotary_dim=32)
FACTOR = 1 + 0.1 * math.log(8)


def half(x, positions, w=None):
    """Half-split pairs at positions (S,) or (B, S)."""
    return turn_half(x, phase(positions, inv_freq(64) if w is None else w))


def span(x, offset):
    """The positions of the tokens of x."""
    return offset + np.arange(x.shape[2])


def dynamic(length):
    """Dynamic NTK frequencies at a length."""
    n = max(int(length), 512)
    return inv_freq(64, 10000.0 * (2.0 * n / 512 - 1) ** (64 / 62))


def yarn():
    """YaRN's frequencies for 64 channels, factor 8 from 4096."""
    k = np.arange(32)
    w = 10000.0 ** (-k / 32)
    low, high = (32 * math.log(4096 / (2 * math.pi * r)) / math.log(10000) for r in (32, 1))
    keep = 1 - np.clip((k - math.floor(low)) / (math.ceil(high) - math.floor(low)), 0, 1)
    return (w * keep + w / 8 * (1 - keep)).astype(np.float32)


# --- calls ---------------------------------------------------------------------------------------


@wrong("state", surface="calls", encoding=rope(64), thread="lucidrains/rotary-embedding-torch#11")
class CallsKeyedByLength:
    """The cached angles depend on the number of tokens only."""

    def __init__(self):
        self.kept = {}

    def __call__(self, calls):
        outputs = []
        for x, offset in calls:
            outputs.append(half(x, self.kept.setdefault(x.shape[2], span(x, offset))))
        return outputs


@wrong("state", surface="calls", encoding=DYNAMIC, thread="huggingface/transformers#25306")
def calls_keep_the_longest_base(calls):
    """The base of the longest call so far stays."""
    longest, outputs = 0, []
    for x, offset in calls:
        longest = max(longest, offset + x.shape[2])
        outputs.append(half(x, span(x, offset), dynamic(longest)))
    return outputs


@wrong("state", surface="calls", encoding=rope(64), thread="vllm-project/vllm#37884")
def calls_accumulate_in_place(calls):
    """A persistent position buffer is added to by every call."""
    buffer, outputs = np.zeros(4096, np.int64), []
    for x, offset in calls:
        n = x.shape[2]
        outputs.append(half(x, buffer[:n] + span(x, offset)))
        buffer += n
    return outputs


@wrong("decode-offset", surface="calls", encoding=rope(64), thread="keras-team/keras-hub#1544")
def calls_without_their_offset(calls):
    """The start index is dropped."""
    return [half(x, np.arange(x.shape[2])) for x, _ in calls]


@wrong("state", surface="calls", encoding=rope(64), thread="class: one output buffer")
def calls_share_an_output(calls):
    """Calls of one shape return the same array."""
    kept, outputs = {}, []
    for x, offset in calls:
        out = kept.setdefault(x.shape, np.empty_like(x))
        out[...] = half(x, span(x, offset))
        outputs.append(out)
    return outputs


@wrong("state", surface="calls", encoding=rope(64), thread="class: table grown from its old end")
def calls_grow_a_table_wrongly(calls):
    """Rows that are appended when the table grows are numbered from zero."""
    table, outputs = np.empty((0, 32), np.float32), []
    for x, offset in calls:
        need = offset + x.shape[2]
        if need > len(table):
            new = np.arange(need - len(table), dtype=np.float32)[:, None] * inv_freq(64)
            table = np.concatenate([table, new])
        outputs.append(turn_half(x, table[offset:need]))
    return outputs


@correct(surface="calls", encoding=rope(64), thread="class: one growing table")
class CallsOfOneTable:
    """A table that is right however it grew."""

    def __init__(self):
        self.table = np.empty((0, 32), np.float32)

    def __call__(self, calls):
        outputs = []
        for x, offset in calls:
            need = offset + x.shape[2]
            if need > 2**18:
                raise IndexError("past the longest table")
            if need > len(self.table):
                new = np.arange(len(self.table), 2 * need, dtype=np.float32)
                self.table = np.concatenate([self.table, new[:, None] * inv_freq(64)])
            outputs.append(turn_half(x, self.table[offset:need]))
        return outputs


@correct(surface="calls", encoding=DYNAMIC, thread="huggingface/transformers#25306")
def calls_with_their_own_base(calls):
    """Each call has the base of its own length."""
    return [half(x, span(x, o), dynamic(o + x.shape[2])) for x, o in calls]


# --- shift_keys ----------------------------------------------------------------------------------


@wrong("rotary-dim", surface="shift_keys", encoding=PARTIAL, thread="ggml-org/llama.cpp#4889")
def shift_turns_the_whole_head(k, delta):
    """The shift rotates head_dim channels, the model rotated rotary_dim."""
    return half(k, np.full(k.shape[2], delta))


@wrong("sign", surface="shift_keys", encoding=rope(64), thread="class: shift backwards")
def shift_moves_keys_the_other_way(k, delta):
    """The number of tokens that were dropped is added instead of subtracted."""
    return half(k, np.full(k.shape[2], -delta))


@wrong("stale-cache", surface="shift_keys", encoding=rope(64), thread="class: rotated again")
def shift_rotates_anew(k, delta):
    """Keys that are rotated already are rotated to their new positions."""
    return half(k, delta + np.arange(k.shape[2]))


@wrong("attention-factor", surface="shift_keys", encoding=YARN, thread="class: factor once more")
def shift_applies_the_factor_again(k, delta):
    """The table that the model rotates with has YaRN's factor in it."""
    return np.float32(FACTOR) * half(k, np.full(k.shape[2], delta), yarn())


@wrong("base", surface="shift_keys", encoding=rope(64, base=1e6), thread="class: default base")
def shift_with_the_default_base(k, delta):
    """The shift does not know the model's base."""
    return half(k, np.full(k.shape[2], delta))


@wrong("scaling-missing", surface="shift_keys", encoding=YARN, thread="class: unscaled shift")
def shift_without_scaling(k, delta):
    """The shift turns by unscaled frequencies."""
    return half(k, np.full(k.shape[2], delta))


@correct(surface="shift_keys", encoding=PARTIAL, thread="ggml-org/llama.cpp#4889")
def shift_turns_the_rotated_channels(k, delta):
    """Channels that were not rotated stay as they are."""
    turned = turn_half(k[..., :32], phase(np.full(k.shape[2], delta), inv_freq(32)))
    return np.concatenate([turned, k[..., 32:]], axis=-1)


@correct(surface="shift_keys", encoding=YARN, thread="class: shift by a matrix")
def shift_by_one_matrix(k, delta):
    """One matrix turns all keys; it has no factor in it."""
    a = delta * yarn().astype(np.float64)
    c, s = np.diag(np.cos(a)), np.diag(np.sin(a))
    return (k @ np.block([[c, -s], [s, c]]).T).astype(np.float32)


# --- apply_vjp -----------------------------------------------------------------------------------


@wrong("attention-factor", surface="apply_vjp", encoding=YARN, thread="class: inverse for adjoint")
def vjp_inverse(x, positions, dy):
    """Undoes the forward pass, so that YaRN's factor divides."""
    return half(dy, -np.asarray(positions), yarn()) / np.float32(FACTOR)


@wrong("attention-factor", surface="apply_vjp", encoding=YARN, thread="class: factor forgotten")
def vjp_without_the_factor(x, positions, dy):
    """The backward kernel builds its own table, without YaRN's factor."""
    return half(dy, -np.asarray(positions), yarn())


@wrong("sign", surface="apply_vjp", encoding=rope(64), thread="class: forward kernel reused")
def vjp_turns_forwards(x, positions, dy):
    """The forward kernel is used for the gradient as it is."""
    return half(dy, positions)


@wrong("rotary-dim", surface="apply_vjp", encoding=PARTIAL, thread="class: gradient of the rest")
def vjp_loses_passed_channels(x, positions, dy):
    """Channels that are passed through get no gradient."""
    turned = turn_half(dy[..., :32], phase(-np.asarray(positions), inv_freq(32)))
    return np.concatenate([turned, np.zeros_like(dy[..., 32:])], axis=-1)


@wrong(
    "not-linear",
    "not-a-rotation",
    surface="apply_vjp",
    encoding=rope(64),
    thread="class: rotate_half again",
)
def vjp_of_rotate_half_by_hand(x, positions, dy):
    """Every element of rotate_half loses its sign, so that dx is not linear in dy."""
    a = phase(positions, inv_freq(64))
    a = np.concatenate([a, a], axis=-1)
    return dy * np.cos(a) + np.abs(swap_half(dy)) * np.sin(a)


@wrong("layout", surface="apply_vjp", encoding=rope(64), thread="1bit-MONSTER/1bit-MONSTER#2418")
def vjp_in_the_other_layout(x, positions, dy):
    """Forward half-split, backward interleaved."""
    return turn_pairs(dy, phase(-np.asarray(positions), inv_freq(64)))


@wrong("not-linear", surface="apply_vjp", encoding=rope(64), thread="class: x saved in place of dy")
def vjp_of_the_saved_x(x, positions, dy):
    """The norm of the saved x rescales the gradient."""
    size = np.linalg.norm(x, axis=-1, keepdims=True)
    return half(dy, -np.asarray(positions)) * size / np.maximum(size, 1) * np.float32(1)


@correct(surface="apply_vjp", encoding=rope(64, "interleaved"), thread="class: transpose by hand")
def vjp_of_rotate_pairs(x, positions, dy):
    """cos dy minus sin times the swapped pair."""
    a = np.repeat(phase(positions, inv_freq(64)), 2, axis=-1)
    return dy * np.cos(a) - swap_pairs(dy) * np.sin(a)


@correct(surface="apply_vjp", encoding=YARN, thread="class: forward kernel with -sin")
def vjp_with_the_factor(x, positions, dy):
    """m R(-p): the forward table with the sign of sin turned."""
    return np.float32(FACTOR) * half(dy, -np.asarray(positions), yarn())
