"""Logits that are a sum of terms, with learned tables: wrong and right functions of `scores`."""

import math

import numpy as np

from tests.mutants._case import correct, wrong

D, H = 16, 2


def table(*shape, seed):
    """A learned table in float32."""
    n = math.prod(shape)
    return np.sin(np.arange(n) * (1.3 + seed) + seed).reshape(shape).astype(np.float32)


def offsets(q, k):
    """Query position minus key position, queries at the end."""
    n_q, n_k = q.shape[2], k.shape[2]
    return (n_k - n_q + np.arange(n_q))[:, None] - np.arange(n_k)


def dot(a, b):
    """a . b for each pair."""
    return a @ b.swapaxes(-1, -2)


def pick(by_row, row):
    """by_row[..., i, row[i, j]]."""
    return np.take_along_axis(by_row, np.broadcast_to(row, (*by_row.shape[:-1], row.shape[-1])), -1)


# --- DeBERTa -------------------------------------------------------------------------------------

SPAN = 32
C2P, P2C = table(H, 2 * SPAN, D, seed=0.1), table(H, 2 * SPAN, D, seed=0.2)
DEBERTA = {"encoding": "DeBERTa", "relative_keys": C2P, "relative_queries": P2C}
DEBERTA2 = {**DEBERTA, "buckets": SPAN, "max_position": 128}


def log_bucket(r):
    """Buckets of DeBERTa-v2 in float64, mid = 16."""
    with np.errstate(divide="ignore"):
        far = np.ceil(np.log(np.abs(r) / 16) / np.log(127 / 16) * 15) + 16
    return np.where(np.abs(r) <= 16, r, np.sign(r) * far).astype(np.int64)


def disentangled(q, k, r, back=None, parts=3):
    """All three terms for r = query - key; `back` is the offset of the last one."""
    row = np.clip(r + SPAN, 0, 2 * SPAN - 1)
    other = row if back is None else np.clip(back + SPAN, 0, 2 * SPAN - 1)
    c2p = pick(dot(q, C2P), row)
    p2c = pick(dot(k, P2C), other.T).swapaxes(-1, -2)
    return (dot(q, k) + c2p + p2c) / np.float32(math.sqrt(parts * D))


@wrong(
    "bucket-sign",
    surface="scores",
    encoding=DEBERTA,
    thread="microsoft/DeBERTa#162 (class: the paper's equation (4))",
)
def deberta_position_to_content_mirrored(q, k):
    """Q_r by key minus query, as the paper writes it, for a checkpoint of the code."""
    r = offsets(q, k)
    return disentangled(q, k, r, -r)


@wrong("bucket-sign", surface="scores", encoding=DEBERTA2, thread="nntrainer/nntrainer#3982")
def deberta_offsets_key_minus_query(q, k):
    """Both terms by key minus query."""
    return disentangled(q, k, log_bucket(-offsets(q, k)))


@wrong("softmax-scale", surface="scores", encoding=DEBERTA, thread="class: plain 1/sqrt(d)")
def deberta_scaled_by_sqrt_d(q, k):
    """1/sqrt(d), whatever the number of terms."""
    return disentangled(q, k, offsets(q, k), parts=1)


@wrong("score-term", surface="scores", encoding=DEBERTA, thread="class: c2p alone")
def deberta_without_position_to_content(q, k):
    """The third term is forgotten, its share of the scale is not."""
    row = np.clip(offsets(q, k) + SPAN, 0, 2 * SPAN - 1)
    return (dot(q, k) + pick(dot(q, C2P), row)) / np.float32(math.sqrt(3 * D))


@wrong("bucket-spacing", surface="scores", encoding=DEBERTA2, thread="class: v1 clipping in v2")
def deberta_without_buckets(q, k):
    """Offsets are clipped, not put into logarithmic buckets."""
    return disentangled(q, k, offsets(q, k))


@correct(surface="scores", encoding=DEBERTA2, thread="class: a double gather")
def deberta_scores(q, k):
    """All rows of both tables are gathered, then multiplied."""
    row = np.clip(log_bucket(offsets(q, k)) + SPAN, 0, 2 * SPAN - 1)
    scale = np.float32(1 / math.sqrt(3 * D))
    c2p = np.einsum("bhid,hijd->bhij", q * scale, C2P[:, row])
    p2c = np.einsum("bhjd,hijd->bhij", k * scale, P2C[:, row])
    return dot(q * scale, k) + c2p + p2c


# --- Shaw ----------------------------------------------------------------------------------------

ROWS = table(25, D, seed=0.3)
SHAW = {"encoding": "Shaw", "keys": ROWS, "before": 16}


def clipped(q, k, r, before=16):
    """q . (k + a) for r = key - query."""
    row = np.clip(r, -before, 24 - before) + before
    return (dot(q, k) + pick(dot(q, ROWS), row)) / np.float32(math.sqrt(D))


@wrong("bucket-sign", surface="scores", encoding=SHAW, thread="class: query minus key")
def shaw_query_minus_key(q, k):
    """The offset is i - j."""
    return clipped(q, k, offsets(q, k))


@wrong("table-offset", surface="scores", encoding=SHAW, thread="class: offset 0 in the middle")
def shaw_symmetric_clip(q, k):
    """As many rows before as after, although 16 and 8 are declared."""
    return clipped(q, k, -offsets(q, k), before=12)


@wrong("score-term", surface="scores", encoding=SHAW, thread="class: position term unscaled")
def shaw_position_term_unscaled(q, k):
    """Only q . k is divided by sqrt(d)."""
    row = np.clip(-offsets(q, k), -16, 8) + 16
    return dot(q, k) / np.float32(math.sqrt(D)) + pick(dot(q, ROWS), row)


@correct(surface="scores", encoding=SHAW, thread="class: einsum over gathered rows")
def shaw_scores(q, k):
    """The definition: keys plus their vectors."""
    row = np.clip(-offsets(q, k), -16, 8) + 16
    whole = k[:, :, None, :, :] + ROWS[row]
    return np.einsum("bhid,bhijd->bhij", q, whole) / np.float32(math.sqrt(D))
