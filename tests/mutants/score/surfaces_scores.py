"""Logits of queries and keys, for every family: wrong and right functions of `scores`."""

import math

import numpy as np

from tests.mutants._case import alibi, correct, rope, schedule, sinusoidal, t5, wrong
from tests.mutants._parts import (
    T5_TABLE,
    distances,
    interleave,
    inv_freq,
    phase,
    press_slopes,
    t5_bucket,
    turn_half,
    turn_pairs,
)

from .surfaces_models import MLA

YARN = rope(64, scaling=schedule("YaRN", factor=8.0, original_max_position=4096))
FACTOR = 1 + 0.1 * math.log(8)
XPOS = {"encoding": "XPos", "head_dim": 64, "layout": "interleaved"}


def dot(q, k, scale=None):
    """q . k over sqrt(d)."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return (q @ k.swapaxes(-1, -2)) * np.float32(scale)


def half(x, positions, w=None):
    """Half-split pairs."""
    return turn_half(x, phase(positions, inv_freq(64) if w is None else w))


def places(q, k):
    """Where queries and keys stand: queries at the end."""
    return np.arange(k.shape[2] - q.shape[2], k.shape[2]), np.arange(k.shape[2])


def yarn():
    """YaRN's frequencies for 64 channels, factor 8 from 4096."""
    k = np.arange(32)
    w = 10000.0 ** (-k / 32)
    low, high = (32 * math.log(4096 / (2 * math.pi * r)) / math.log(10000) for r in (32, 1))
    keep = 1 - np.clip((k - math.floor(low)) / (math.ceil(high) - math.floor(low)), 0, 1)
    return (w * keep + w / 8 * (1 - keep)).astype(np.float32)


# --- rotary --------------------------------------------------------------------------------------


@wrong("softmax-scale", surface="scores", encoding=rope(64), thread="class: unscaled logits")
def scores_unscaled(q, k):
    """q' . k' as it is."""
    q_at, k_at = places(q, k)
    return dot(half(q, q_at), half(k, k_at), 1.0)


@wrong("softmax-scale", surface="scores", encoding=rope(64), thread="class: scaled in two places")
def scores_scaled_twice(q, k):
    """Queries are divided by sqrt(d), and logits again."""
    q_at, k_at = places(q, k)
    return dot(half(q, q_at), half(k, k_at), 1 / 64)


@wrong("decode-offset", surface="scores", encoding=rope(64), thread="RobertCsordas/moeut#6")
def scores_queries_from_zero(q, k):
    """A cached query is rotated to 0."""
    return dot(half(q, np.arange(q.shape[2])), half(k, np.arange(k.shape[2])))


@wrong("layout", surface="scores", encoding=rope(64), thread="1bit-MONSTER/1bit-MONSTER#2418")
def scores_of_the_other_layout(q, k):
    """Interleaved pairs in both."""
    q_at, k_at = places(q, k)
    return dot(turn_pairs(q, phase(q_at, inv_freq(64))), turn_pairs(k, phase(k_at, inv_freq(64))))


@wrong("attention-factor", surface="scores", encoding=YARN, thread="vllm-project/vllm#48351")
def scores_with_the_factor_once(q, k):
    """The factor is on queries alone."""
    q_at, k_at = places(q, k)
    return dot(np.float32(FACTOR) * half(q, q_at, yarn()), half(k, k_at, yarn()))


@wrong("softmax-scale", surface="scores", encoding=MLA, thread="kekzl/imp#880")
def scores_without_mscale_of_the_model(q, k):
    """The plain 1/sqrt(192), without YaRN's mscale squared."""
    j = np.arange(32)
    w = 10000.0 ** (-j / 32)
    low, high = (32 * math.log(4096 / (2 * math.pi * r)) / math.log(10000) for r in (32, 1))
    keep = 1 - np.clip((j - math.floor(low)) / (math.ceil(high) - math.floor(low)), 0, 1)
    w = (w * keep + w / 40 * (1 - keep)).astype(np.float32)
    q_at, k_at = places(q, k)
    return dot(turn_pairs(q, phase(q_at, w)), turn_pairs(k, phase(k_at, w)), 192**-0.5)


@wrong("base", surface="scores", encoding=rope(64, base=1e6), thread="class: default base")
def scores_with_the_default_base(q, k):
    """theta 10000."""
    q_at, k_at = places(q, k)
    return dot(half(q, q_at), half(k, k_at))


# --- xPos ----------------------------------------------------------------------------------------


def decayed(x, positions, power, centre=0.0):
    """Interleaved pairs times zeta ** (power * n)."""
    zeta = (2 * np.arange(32) / 64 + 0.4) / 1.4
    n = (np.asarray(positions, np.float64)[:, None] - centre) / 512
    size = np.repeat(zeta ** (power * n), 2, axis=-1)
    return (turn_pairs(x, phase(positions, inv_freq(64))) * size).astype(np.float32)


@wrong("amplitude", surface="scores", encoding=XPOS, thread="class: decay forgotten")
def xpos_scores_without_decay(q, k):
    """A plain rotation."""
    q_at, k_at = places(q, k)
    return dot(decayed(q, q_at, 0), decayed(k, k_at, 0))


@wrong("amplitude", surface="scores", encoding=XPOS, thread="class: decay the wrong way round")
def xpos_scores_that_grow(q, k):
    """Queries have the keys' decay and the reverse."""
    q_at, k_at = places(q, k)
    return dot(decayed(q, q_at, -1), decayed(k, k_at, 1))


@correct(surface="scores", encoding=XPOS, thread="lucidrains/rotary-embedding-torch#27")
def xpos_scores_around_the_middle(q, k):
    """The decay is counted from the middle of the keys, for both."""
    q_at, k_at = places(q, k)
    centre = k.shape[2] // 2
    return dot(decayed(q, q_at, 1, centre), decayed(k, k_at, -1, centre))


# --- tables --------------------------------------------------------------------------------------


def sines(n):
    """A sinusoidal table of 32 columns."""
    a = np.arange(n, dtype=np.float32)[:, None] * inv_freq(32)
    return interleave(np.sin(a), np.cos(a))


@wrong(
    "phase-order",
    surface="scores",
    encoding=sinusoidal(32, layout="concat"),
    thread="huggingface/diffusers#1369",
)
def table_scores_cosines_first(q, k):
    """[cos | sin]."""
    a = np.arange(k.shape[2], dtype=np.float32)[:, None] * inv_freq(32)
    pe = np.concatenate([np.cos(a), np.sin(a)], axis=-1)
    q_at, k_at = places(q, k)
    return dot(q + pe[q_at], k + pe[k_at])


@correct(surface="scores", encoding=sinusoidal(32), thread="class: added to both")
def table_scores(q, k):
    """x + PE on both sides."""
    pe = sines(k.shape[2])
    q_at, k_at = places(q, k)
    return dot(q + pe[q_at], k + pe[k_at])


# --- biases --------------------------------------------------------------------------------------


def linear(q, k, slopes):
    """-slope times distance."""
    return -slopes[:, None, None] * np.abs(distances(q.shape[2], k.shape[2]))


@wrong("bias-scale", surface="scores", encoding=alibi(12), thread="class: bias inside the scale")
def alibi_scores_inside_the_scale(q, k):
    """(q . k + bias) / sqrt(d), as Falcon does."""
    return (dot(q, k, 1.0) + linear(q, k, press_slopes(12))) / np.float32(8)


@wrong(
    "bias-scale",
    surface="scores",
    encoding=alibi(8, bias_inside_scale=True),
    thread="NVIDIA/TensorRT-Model-Connect#32",
)
def alibi_scores_after_the_scale(q, k):
    """q . k / sqrt(d) + bias, declared as Falcon has it."""
    return dot(q, k) + linear(q, k, press_slopes(8))


@correct(
    surface="scores",
    encoding=alibi(8, bias_inside_scale=True),
    thread="class: Falcon with sdpa, the bias divided beforehand",
)
def alibi_scores_divided_beforehand(q, k):
    """q . k / sqrt(d) + bias / sqrt(d)."""
    return dot(q, k) + linear(q, k, press_slopes(8)) / np.float32(8)


@wrong("bias-sign", surface="scores", encoding=alibi(8), thread="meta-pytorch/attention-gym#86")
def alibi_scores_rewarding_distance(q, k):
    """query - key for key - query."""
    return dot(q, k) - linear(q, k, press_slopes(8))


@wrong("slopes", surface="scores", encoding=alibi(12), thread="ml-explore/mlx#3071")
def alibi_scores_naive_slopes(q, k):
    """2 ** (-8h/n) for 12 heads."""
    slopes = (2.0 ** (-8 * np.arange(1, 13) / 12)).astype(np.float32)
    return dot(q, k) + linear(q, k, slopes)


@wrong(
    "softmax-scale", surface="scores", encoding=t5(T5_TABLE), thread="class: T5 divided by sqrt(d)"
)
def t5_scores_scaled(q, k):
    """T5's logits are not divided by sqrt(d)."""
    bucket = t5_bucket(-distances(q.shape[2], k.shape[2]))
    return dot(q, k) + np.moveaxis(T5_TABLE[bucket], -1, 0)


@wrong(
    "bias-scale",
    surface="scores",
    encoding=t5(T5_TABLE, scaled=True, bias_inside_scale=True),
    thread="class: LayoutLMv3's bias beside the scale",
)
def t5_bias_beside_the_scale(q, k):
    """q . k / sqrt(d) + bias, declared inside the scale."""
    return t5_scores_scaled(q, k)


@wrong("bucket-sign", surface="scores", encoding=t5(T5_TABLE), thread="dmlc/gluon-nlp#1470")
def t5_scores_query_minus_key(q, k):
    """The relative position is query minus key."""
    bucket = t5_bucket(distances(q.shape[2], k.shape[2]))
    return dot(q, k, 1.0) + np.moveaxis(T5_TABLE[bucket], -1, 0)


@wrong(
    "bias-alignment",
    surface="scores",
    encoding=t5(T5_TABLE),
    thread="huggingface/candle#899",
)
def t5_scores_query_at_zero(q, k):
    """With a cache, the query is placed at 0."""
    relative = np.arange(k.shape[2]) - np.arange(q.shape[2])[:, None]
    return dot(q, k, 1.0) + np.moveaxis(T5_TABLE[t5_bucket(relative)], -1, 0)


@correct(surface="scores", encoding=alibi(12), thread="mosaicml/llm-foundry#186")
def alibi_scores_by_key_position(q, k):
    """slope times key position: the same up to a constant for each row."""
    return dot(q, k) + press_slopes(12)[:, None, None] * np.arange(k.shape[2], dtype=np.float32)


@correct(surface="scores", encoding=rope(64), thread="class: masked by attention itself")
def scores_masked(q, k):
    """Later keys are at minus infinity."""
    q_at, k_at = places(q, k)
    return np.where(k_at <= q_at[:, None], dot(half(q, q_at), half(k, k_at)), -np.inf)


@correct(surface="scores", encoding=rope(64), thread="class: relative angle")
def scores_by_difference(q, k):
    """Keys are rotated by their offset to each query."""
    q_at, k_at = places(q, k)
    rows = [dot(q[:, :, i : i + 1], half(k, k_at - p)) for i, p in enumerate(q_at)]
    return np.concatenate(rows, axis=2)
