"""Queries and keys in one call: wrong and right functions of the surface `apply_qk`."""

import math

import numpy as np

from tests.mutants._axes import QWEN3_VL, angles, globally, interleaved
from tests.mutants._case import correct, rope, schedule, wrong
from tests.mutants._parts import inv_freq, phase, turn_half, turn_pairs

YARN = rope(64, scaling=schedule("YaRN", factor=8.0, original_max_position=4096))
XPOS = {"encoding": "XPos", "head_dim": 64, "layout": "interleaved"}


def half(x, positions):
    """A plain half-split rotation."""
    return turn_half(x, phase(positions, inv_freq(64)))


def yarn_table():
    """YaRN's frequencies and factor for 64 channels, factor 8 from 4096."""
    k = np.arange(32)
    w = 10000.0 ** (-k / 32)
    low, high = (32 * math.log(4096 / (2 * math.pi * r)) / math.log(10000) for r in (32, 1))
    low, high = math.floor(low), math.ceil(high)
    keep = 1 - np.clip((k - low) / (high - low), 0, 1)
    return (w * keep + w / 8 * (1 - keep)).astype(np.float32), 1 + 0.1 * math.log(8)


def decay(positions, scale_base=512.0):
    """zeta ** (p / 512) for every pair."""
    zeta = (2 * np.arange(32) / 64 + 0.4) / 1.4
    p = np.asarray(positions, np.float64)[..., None]
    size = zeta ** (p / scale_base)
    return size[:, None] if size.ndim == 3 else size


def xpos(x, positions, size):
    """Interleaved pairs rotated, and multiplied by `size`."""
    y = turn_pairs(x, phase(positions, inv_freq(64)))
    return (y * np.repeat(size, 2, axis=-1)).astype(np.float32)


# --- wrong ---------------------------------------------------------------------------------------


@wrong("wrong-row", surface="apply_qk", encoding=rope(64), thread="class: one table for q and k")
def qk_keys_at_the_positions_of_queries(q, k, q_positions, k_positions):
    """One table is looked up, for both; its rows are cut where there are fewer keys."""
    if np.shape(q_positions) != np.shape(k_positions):
        raise ValueError("queries and keys have other numbers of tokens")
    return half(q, q_positions), half(k, q_positions)


@wrong("decode-offset", surface="apply_qk", encoding=rope(64), thread="RobertCsordas/moeut#6")
def qk_offset_before_the_cache_is_joined(q, k, q_positions, k_positions):
    """The queries' offset is worked out before the cached keys are counted: they start at 0."""
    return half(q, np.arange(q.shape[2])), half(k, k_positions)


@wrong("sign", surface="apply_qk", encoding=rope(64), thread="class: relative angle on one side")
def qk_keys_turn_back(q, k, q_positions, k_positions):
    """Keys are rotated by -angle, as if the logit took the angle's difference itself."""
    return half(q, q_positions), half(k, -np.asarray(k_positions))


@wrong(
    "frequency-spacing",
    surface="apply_qk",
    encoding=rope(64),
    thread="class: keys cached before the rotation",
)
def qk_keys_stay_raw(q, k, q_positions, k_positions):
    """Only queries are rotated."""
    return half(q, q_positions), k.copy()


@wrong(
    "attention-factor", surface="apply_qk", encoding=YARN, thread="class: factor on one side only"
)
def qk_factor_on_queries_only(q, k, q_positions, k_positions):
    """YaRN's factor multiplies the queries' table and not the keys'."""
    w, m = yarn_table()
    return np.float32(m) * turn_half(q, phase(q_positions, w)), turn_half(k, phase(k_positions, w))


@wrong("position-axis", surface="apply_qk", encoding=rope(64), thread="mlfoundations/open_lm#4")
def qk_key_heads_for_positions(q, k, q_positions, k_positions):
    """Keys come as (B, S, H, D) where (B, H, S, D) is expected: heads are counted."""
    return half(q, q_positions), half(k.swapaxes(1, 2), np.arange(k.shape[1])).swapaxes(1, 2)


@wrong("layout", surface="apply_qk", encoding=rope(64), thread="1bit-MONSTER/1bit-MONSTER#2418")
def qk_keys_in_the_other_layout(q, k, q_positions, k_positions):
    """The keys of the indexer are rotated in interleaved pairs."""
    return half(q, q_positions), turn_pairs(k, phase(k_positions, inv_freq(64)))


@wrong("position-scale", surface="apply_qk", encoding=rope(64), thread="NVIDIA/TensorRT-LLM#16378")
def qk_rotated_twice(q, k, q_positions, k_positions):
    """Rotated by the caller, and once more by the kernel."""
    return half(half(q, q_positions), q_positions), half(half(k, k_positions), k_positions)


@wrong("sections", surface="apply_qk", encoding=QWEN3_VL, thread="kekzl/imp#1174")
def qk_keys_by_time_alone(q, k, q_positions, k_positions):
    """Queries follow three axes, keys the first of them."""
    w = globally(64, 5e6)
    axis = interleaved((24, 20, 20))
    return turn_half(q, angles(q_positions, axis, w)), turn_half(
        k, angles(k_positions, axis * 0, w)
    )


@wrong(
    "decode-offset",
    "amplitude",
    surface="apply_qk",
    encoding=XPOS,
    thread="lucidrains/rotary-embedding-torch#27",
)
def xpos_decay_without_offset(q, k, q_positions, k_positions):
    """Angles follow the positions, the decay the index in the call."""
    q_at, k_at = np.arange(q.shape[2]), np.arange(k.shape[2])
    return xpos(q, q_positions, decay(q_at)), xpos(k, k_positions, 1 / decay(k_at))


@wrong("amplitude", surface="apply_qk", encoding=XPOS, thread="class: decay the same way round")
def xpos_keys_decay_as_queries(q, k, q_positions, k_positions):
    """Keys are multiplied by zeta ** n too."""
    return xpos(q, q_positions, decay(q_positions)), xpos(k, k_positions, decay(k_positions))


@wrong("amplitude", surface="apply_qk", encoding=XPOS, thread="class: decay forgotten")
def xpos_without_decay(q, k, q_positions, k_positions):
    """A plain rotation."""
    one = np.ones(32)
    return xpos(q, q_positions, one), xpos(k, k_positions, one)


# --- correct -------------------------------------------------------------------------------------


@correct(surface="apply_qk", encoding=rope(64), thread="vllm-project/vllm#26995")
def qk_written_in_halves(q, k, q_positions, k_positions):
    """Pairs are read half-split and written interleaved, in queries and keys alike."""

    def written(y):
        return y.reshape(*y.shape[:-1], 2, 32).swapaxes(-1, -2).reshape(y.shape)

    return written(half(q, q_positions)), written(half(k, k_positions))


@correct(surface="apply_qk", encoding=rope(64), thread="class: first position 1 for both sides")
def qk_counted_from_one(q, k, q_positions, k_positions):
    """Positions of queries and keys count from 1: logits see differences only."""
    return half(q, np.asarray(q_positions) + 1), half(k, np.asarray(k_positions) + 1)


@correct(surface="apply_qk", encoding=YARN, thread="class: factor squared on queries")
def qk_whole_factor_on_queries(q, k, q_positions, k_positions):
    """Queries are multiplied by the square of YaRN's factor, keys by nothing."""
    w, m = yarn_table()
    return np.float32(m * m) * turn_half(q, phase(q_positions, w)), turn_half(
        k, phase(k_positions, w)
    )


@correct(surface="apply_qk", encoding=rope(64), thread="class: one table, shared positions")
def qk_one_table(q, k, q_positions, k_positions):
    """Refuses queries and keys at other positions, and fewer key heads."""
    if not np.array_equal(q_positions, k_positions) or q.shape != k.shape:
        raise ValueError("queries and keys share their positions and shapes")
    y = half(np.concatenate([q, k]), q_positions) if np.ndim(q_positions) == 1 else None
    if y is None:
        raise ValueError("positions must be one-dimensional")
    return y[: len(q)], y[len(q) :]


@correct(surface="apply_qk", encoding=XPOS, thread="class: decay around a fixed centre")
def xpos_centred(q, k, q_positions, k_positions):
    """The decay is 1 at position 64, whatever the call."""
    q_at, k_at = np.asarray(q_positions) - 64, np.asarray(k_positions) - 64
    return xpos(q, q_positions, decay(q_at)), xpos(k, k_positions, 1 / decay(k_at))
