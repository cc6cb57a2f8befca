"""Logits of Transformer-XL, TUPE, CoPE and of images: wrong and right functions of `scores`."""

import math

import numpy as np

from tests.mutants._case import correct, sinusoidal, wrong
from tests.mutants._parts import inv_freq

from .score_terms import D, H, dot, offsets, pick, table

# --- Transformer-XL ------------------------------------------------------------------------------

WIDE = 32
W, U, V = table(H, D, WIDE, seed=0.4), table(H, D, seed=0.5), table(H, D, seed=0.6)
XL = {
    "encoding": "TransformerXL",
    "projection": W,
    "content_bias": U,
    "position_bias": V,
    "sinusoid": sinusoidal(WIDE, layout="concat"),
}


def waves(p):
    """[sin | cos] of the positions p."""
    a = np.asarray(p, np.float32)[..., None] * inv_freq(WIDE)
    return np.concatenate([np.sin(a), np.cos(a)], axis=-1)


def paired(p):
    """sin and cos alternating."""
    rows = waves(p)
    return np.stack(np.split(rows, 2, axis=-1), axis=-1).reshape(rows.shape)


def relative(q, k, rows):
    """All four terms with R(i - j) given, (Q, K, WIDE)."""
    ac = dot(q + U[:, None], k)
    bd = np.einsum("bhid,hdm,ijm->bhij", q + V[:, None], W, rows, optimize=True)
    return ((ac + bd) / np.float32(math.sqrt(D))).astype(np.float32)


@wrong("relative-absolute", surface="scores", encoding=XL, thread="wenet-e2e/wenet (no shift)")
def xl_without_the_shift(q, k):
    """R of the key's own position: the shift is left out as useless."""
    return relative(q, k, waves(0 * offsets(q, k) + np.arange(k.shape[2])))


@wrong("bucket-sign", surface="scores", encoding=XL, thread="class: key minus query")
def xl_key_minus_query(q, k):
    """R(j - i)."""
    return relative(q, k, waves(-offsets(q, k)))


@wrong("score-term", surface="scores", encoding=XL, thread="class: v forgotten")
def xl_without_the_position_bias(q, k):
    """q alone meets W R."""
    bd = np.einsum("bhid,hdm,ijm->bhij", q, W, waves(offsets(q, k)), optimize=True)
    return (dot(q + U[:, None], k) + bd) / np.float32(math.sqrt(D))


@wrong("layout", surface="scores", encoding=XL, thread="class: Conformer's table")
def xl_with_interleaved_sinusoids(q, k):
    """R as Conformer has it."""
    return relative(q, k, paired(offsets(q, k)))


@wrong("relative-shift", surface="scores", encoding=XL, thread="espnet/espnet#2816")
def xl_causal_shift_in_an_encoder(q, k):
    """K distances, shifted by reshaping: later keys get the next query's scores."""
    n_q, n_k = q.shape[2], k.shape[2]
    rows = waves(np.arange(n_k - 1, -1, -1))
    by_distance = np.einsum("bhid,hdm,cm->bhic", q + V[:, None], W, rows, optimize=True)
    padded = np.concatenate([np.zeros_like(by_distance[..., :1]), by_distance], axis=-1)
    turned = padded.reshape(*q.shape[:2], n_k + 1, n_q)[:, :, 1:]
    bd = turned.reshape(by_distance.shape)
    return ((dot(q + U[:, None], k) + bd) / np.float32(math.sqrt(D))).astype(np.float32)


@correct(surface="scores", encoding=XL, thread="class: XLNet's shift, both signs")
def xl_shift_of_both_signs(q, k):
    """Distances K .. 1 - Q, shifted by reshaping, the first column dropped."""
    n_q, n_k = q.shape[2], k.shape[2]
    rows = waves(np.arange(n_k, -n_q, -1))
    by_distance = np.einsum("bhid,hdm,cm->bhic", q + V[:, None], W, rows, optimize=True)
    # Queries stand at the end: the first of them is at n_k - n_q.
    start = n_k - n_q
    columns = np.arange(n_k) - np.arange(n_q)[:, None] + n_k - start
    bd = pick(by_distance, columns)
    return ((dot(q + U[:, None], k) + bd) / np.float32(math.sqrt(D))).astype(np.float32)


# --- TUPE ----------------------------------------------------------------------------------------

PQ, PK = table(40, H, D, seed=0.7), table(40, H, D, seed=0.8)
FIRST, LAST = table(H, seed=0.9), table(H, seed=1.1)
TUPE = {
    "encoding": "TUPE",
    "position_queries": PQ,
    "position_keys": PK,
    "cls_to_others": FIRST,
    "others_to_cls": LAST,
}


def untied(q, k, parts=2, reset=True):
    """Content and positions, each by itself."""
    n_q, n_k = q.shape[2], k.shape[2]
    at = np.arange(n_k - n_q, n_k)
    if n_k > 40:
        raise ValueError("40 positions")
    scale = np.float32(1 / math.sqrt(parts * D))
    v = np.einsum("ihd,jhd->hij", PQ[at], PK[:n_k]) * scale
    if reset:
        v[:, :, 0] = LAST[:, None]
        v[:, at == 0] = FIRST[:, None, None]
    return (dot(q, k) * scale + v).astype(np.float32)


@wrong("score-term", "softmax-scale", surface="scores", encoding=TUPE, thread="class: one sqrt(d)")
def tupe_scaled_by_sqrt_d(q, k):
    """1/sqrt(d) on both products; what stands for [CLS] is right."""
    return untied(q, k, parts=1)


@wrong("score-term", surface="scores", encoding=TUPE, thread="guolinke/TUPE#12 (class: no reset)")
def tupe_without_the_reset(q, k):
    """[CLS] is tied to its position."""
    return untied(q, k, reset=False)


@correct(surface="scores", encoding=TUPE, thread="class: one matrix for all layers")
def tupe_scores(q, k):
    """As the paper has it."""
    return untied(q, k)


# --- CoPE ----------------------------------------------------------------------------------------

E = table(12, D, seed=1.2)
COPE = {"encoding": "CoPE", "embedding": E}


def contextual(q, k, gates_of):
    """Gates counted from the last key backwards, positions interpolated."""
    logits = dot(q, k) / np.float32(math.sqrt(D))
    gates = gates_of(logits, offsets(q, k) >= 0)
    p = np.minimum(np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1], 11)
    low, high = np.floor(p).astype(int), np.ceil(p).astype(int)
    by_row = dot(q, E)
    share = p - low
    at_low, at_high = (np.take_along_axis(by_row, m, axis=-1) for m in (low, high))
    return (logits + at_high * share + at_low * (1 - share)).astype(np.float32)


def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


@wrong("future-keys", surface="scores", encoding=COPE, thread="class: gates before the mask")
def cope_gates_without_the_mask(q, k):
    """Keys after the query are counted."""
    return contextual(q, k, lambda logits, visible: sigmoid(logits))


@wrong("softmax-scale", surface="scores", encoding=COPE, thread="class: gates of raw logits")
def cope_gates_of_raw_logits(q, k):
    """sigmoid(q . k)."""
    return contextual(q, k, lambda x, visible: sigmoid(x * np.float32(math.sqrt(D))) * visible)


@correct(surface="scores", encoding=COPE, thread="class: the paper's listing")
def cope_scores(q, k):
    """Masked gates, two gathers."""
    return contextual(q, k, lambda logits, visible: sigmoid(logits) * visible)


# --- images --------------------------------------------------------------------------------------

TALL, LONG = table(11, D, seed=1.3), table(11, D, seed=1.4)
IMAGE = {"encoding": "DecomposedRelative", "height_table": TALL, "width_table": LONG,
         "grid": [6, 6]}  # fmt: skip


def decomposed(q, k, tall=TALL, long=LONG, scaled=False):
    """q . R_h + q . R_w over a 6 x 6 grid."""
    n_q, n_k = q.shape[2], k.shape[2]
    if n_k > 36:
        raise ValueError("36 tokens")
    i, j = np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)
    extra = pick(dot(q, tall), i // 6 - j // 6 + 5) + pick(dot(q, long), i % 6 - j % 6 + 5)
    scale = np.float32(1 / math.sqrt(D))
    return dot(q, k) * scale + extra * (scale if scaled else np.float32(1))


@wrong("axis-order", surface="scores", encoding=IMAGE, thread="class: height and width exchanged")
def image_scores_with_axes_exchanged(q, k):
    """The width's table for the height."""
    return decomposed(q, k, LONG, TALL)


@wrong("score-term", surface="scores", encoding=IMAGE, thread="class: scaled query")
def image_scores_of_scaled_queries(q, k):
    """Position terms take the query after the scale."""
    return decomposed(q, k, scaled=True)


@wrong("bucket-sign", surface="scores", encoding=IMAGE, thread="class: key minus query")
def image_scores_key_minus_query(q, k):
    """Both offsets the other way round."""
    return decomposed(q, k, TALL[::-1], LONG[::-1])


@correct(surface="scores", encoding=IMAGE, thread="class: SAM, ViTDet: whole grids only")
def image_scores_of_whole_grids(q, k):
    """Refuses a part of the grid."""
    if q.shape[2] != 36:
        raise ValueError("the 36 tokens of the grid only")
    return decomposed(q, k)


@correct(surface="scores", encoding=IMAGE, thread="class: gathered rows")
def image_scores(q, k):
    """Two gathers."""
    return decomposed(q, k)
