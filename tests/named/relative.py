"""Relative terms: Swin's index, the shift by reshaping, and what is relative by name only."""

import numpy as np

from ._case import right, wrong

COLLIDING, SHIFT = "colliding Swin index", "relative shift without a causal mask"
SIGN = "sign of the offsets"
SYMMETRIC, ABSOLUTE = "symmetric 'relative' terms", "absolute 'relative' terms"

RNG = np.random.default_rng(6)
WINDOW = RNG.standard_normal((45, 3)).astype(np.float32)
SWIN = {"encoding": "SwinBias", "table": WINDOW, "window": [3, 5]}
SQUARE = {"encoding": "SwinBias", "table": RNG.standard_normal((49, 2)).astype(np.float32),
          "window": [4, 4]}  # fmt: skip
KEYS = RNG.standard_normal((9, 16)).astype(np.float32)
SHAW = {"encoding": "Shaw", "keys": KEYS, "before": 4}
PROJECTION, U, V = (
    RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 8, 16), (2, 8), (2, 8))
)
XL = {"encoding": "TransformerXL", "projection": PROJECTION, "content_bias": U, "position_bias": V,
      "sinusoid": {"encoding": "Sinusoidal", "dim": 16, "layout": "concat"}}  # fmt: skip


def offsets(h, w):
    y, x = np.divmod(np.arange(h * w), w)
    return y[:, None] - y, x[:, None] - x


# --- Swin ----------------------------------------------------------------------------------------


@wrong(COLLIDING, "index-collision", "share an index", surface="relative_index", encoding=None)
def index_times_height(window):
    dy, dx = offsets(*window)
    return (dy + window[0] - 1) * (2 * window[0] - 1) + dx + window[1] - 1


@wrong(COLLIDING, "index-collision", "share an index", surface="relative_index", encoding=None)
def index_times_width(window):
    dy, dx = offsets(*window)
    return (dy + window[0] - 1) * window[1] + dx + window[1] - 1


@wrong(COLLIDING, "index-collision", "share an index", surface="relative_index", encoding=None)
def index_is_a_sum(window):
    dy, dx = offsets(*window)
    return dy + window[0] - 1 + dx + window[1] - 1


@wrong(COLLIDING, "index-collision", "share an index", surface="relative_index", encoding=None)
def index_times_width_minus_one(window):
    dy, dx = offsets(*window)
    return (dy + window[0] - 1) * (2 * window[1] - 2) + dx + window[1] - 1


@wrong(COLLIDING, "index-collision", "dy", surface="bias", encoding=SWIN)
def swin_bias_times_height(q_len, k_len):
    dy, dx = offsets(3, 5)
    return np.moveaxis(WINDOW[(dy + 2) * 5 + dx + 4], -1, 0)


@wrong(COLLIDING, "index-collision", "dy", surface="bias", encoding=SWIN)
def swin_bias_of_a_sum(q_len, k_len):
    dy, dx = offsets(3, 5)
    return np.moveaxis(WINDOW[dy + 2 + dx + 4], -1, 0)


@wrong(COLLIDING, "index-collision", "dy", surface="bias", encoding=SQUARE)
def swin_bias_times_width(q_len, k_len):
    dy, dx = offsets(4, 4)
    return np.moveaxis(SQUARE["table"][(dy + 3) * 4 + dx + 3], -1, 0)


@right(COLLIDING, surface="bias", encoding=SWIN)
def swin_bias(q_len, k_len):
    dy, dx = offsets(3, 5)
    return np.moveaxis(WINDOW[(dy + 2) * 9 + dx + 4], -1, 0)


# --- the shift -----------------------------------------------------------------------------------


def shifted(x):
    """A column of zeros in front, reshaped; the first row dropped."""
    *some, q, k = x.shape
    padded = np.concatenate([np.zeros((*some, q, 1), x.dtype), x], axis=-1)
    return padded.reshape(*some, k + 1, q)[..., 1:, :].reshape(x.shape)


@wrong(SHIFT, "relative-shift", "causal attention", surface="relative_scores", encoding=None)
def shift_over_the_past_alone(q, rel):
    return shifted(q @ rel[: len(q)].T)


@wrong(SHIFT, "relative-shift", "causal attention", surface="relative_scores", encoding=None,
       backend="torch")  # fmt: skip
def shift_over_the_past_in_torch(q, rel):
    import torch

    n = q.shape[0]
    x = torch.nn.functional.pad(q @ rel[:n].T, (1, 0))
    return x.view(n + 1, n)[1:].view(n, n)


@wrong(SHIFT, "relative-shift", "causal attention", surface="relative_scores", encoding=None)
def shift_with_skewing(q, rel):
    n = len(q)
    x = np.pad(q @ rel[:n].T, ((0, 0), (1, 0))).reshape(-1)
    return x[n:].reshape(n, n)


def content(q, k):
    return np.einsum("bhid,bhjd->bhij", q + U[:, None], k)


def rows(at):
    a = np.asarray(at, np.float32)[:, None] * (10000.0 ** (-np.arange(8) / 8)).astype(np.float32)
    return np.concatenate([np.sin(a), np.cos(a)], axis=-1)


@wrong(SHIFT, "relative-shift", "without a causal mask", surface="scores", encoding=XL)
def transformer_xl_without_a_mask(q, k):
    r = np.einsum("rw,hdw->hrd", rows(np.arange(k.shape[2] - 1, -1, -1)), PROJECTION)
    bd = np.einsum("bhid,hrd->bhir", q + V[:, None], r)
    return (content(q, k) + shifted(bd)) / np.sqrt(np.float32(8))


@wrong(
    SHIFT, "relative-shift", "without a causal mask", surface="scores", encoding=XL, backend="torch"
)
def transformer_xl_without_a_mask_in_torch(q, k):
    import torch

    return torch.tensor(transformer_xl_without_a_mask(q.numpy(), k.numpy()))


@right(SHIFT, surface="relative_scores", encoding=None)
def shift_over_both_directions(q, rel):
    n = len(q)
    x = np.concatenate([np.zeros((n, 1), q.dtype), q @ rel.T], axis=1).reshape(2 * n, n)
    return x[1:].reshape(n, 2 * n - 1)[:, :n]


# --- relative by name ----------------------------------------------------------------------------


def by_row(q, rel, row):
    i, j = np.arange(len(q))[:, None], np.arange(len(q))
    return np.einsum("id,ijd->ij", q, rel[row(i, j, len(q))])


@wrong(SYMMETRIC, "relative-symmetric", "a later key gets the row", surface="relative_scores",
       encoding=None)  # fmt: skip
def scores_by_absolute_distance(q, rel):
    return by_row(q, rel, lambda i, j, n: n - 1 - np.abs(i - j))


@wrong(SYMMETRIC, "relative-symmetric", "an offset and its opposite", surface="relative_index",
       encoding=None)  # fmt: skip
def index_of_absolute_offsets(window):
    dy, dx = offsets(*window)
    return np.abs(dy) * window[1] + np.abs(dx)


@wrong(SYMMETRIC, "relative-symmetric", "r and -r", surface="scores",
       encoding=SHAW)  # fmt: skip
def shaw_by_absolute_distance(q, k):
    i, j = np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None], np.arange(k.shape[2])
    row = np.minimum(np.abs(j - i), 4) + 4
    return (q @ k.swapaxes(-1, -2) + np.einsum("bhid,ijd->bhij", q, KEYS[row])) / np.float32(4)


@wrong(SYMMETRIC, "relative-symmetric", "r and -r", surface="scores",
       encoding=XL)  # fmt: skip
def transformer_xl_by_absolute_distance(q, k):
    i, j = np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None], np.arange(k.shape[2])
    r = rows(np.abs(i - j).ravel()).reshape(*np.broadcast_shapes(i.shape, j.shape), 16)
    bd = np.einsum("bhid,hdw,ijw->bhij", q + V[:, None], PROJECTION, r)
    return ((content(q, k) + bd) / np.sqrt(np.float32(8))).astype(np.float32)


@wrong(SYMMETRIC, "relative-symmetric", "offsets of opposite sign", surface="bias",
       encoding=SWIN)  # fmt: skip
def swin_bias_by_absolute_offsets(q_len, k_len):
    dy, dx = offsets(3, 5)
    return np.moveaxis(WINDOW[(np.abs(dy) + 2) * 9 + np.abs(dx) + 4], -1, 0)


@right(SYMMETRIC, surface="scores", encoding=SHAW)
def shaw_by_signed_distance(q, k):
    i, j = np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None], np.arange(k.shape[2])
    row = np.clip(j - i, -4, 4) + 4
    return (q @ k.swapaxes(-1, -2) + np.einsum("bhid,ijd->bhij", q, KEYS[row])) / np.float32(4)


@wrong(ABSOLUTE, "relative-absolute", "key's own position", surface="relative_scores",
       encoding=None)  # fmt: skip
def scores_by_the_key(q, rel):
    return q @ rel[: len(q)].T


@wrong(ABSOLUTE, "relative-absolute", "query's own position", surface="relative_scores",
       encoding=None)  # fmt: skip
def scores_by_the_query(q, rel):
    return np.repeat(np.einsum("id,id->i", q, rel[: len(q)])[:, None], len(q), axis=1)


@wrong(ABSOLUTE, "relative-absolute", "key's own position", surface="scores", encoding=XL)
def transformer_xl_without_the_shift(q, k):
    r = np.einsum("rw,hdw->hrd", rows(np.arange(k.shape[2])), PROJECTION)
    bd = np.einsum("bhid,hrd->bhir", q + V[:, None], r)
    return (content(q, k) + bd) / np.sqrt(np.float32(8))


@wrong(ABSOLUTE, "relative-absolute", "key's position relative to", surface="scores", encoding=XL)
def transformer_xl_reversed_without_the_shift(q, k):
    r = np.einsum("rw,hdw->hrd", rows(np.arange(k.shape[2] - 1, -1, -1)), PROJECTION)
    bd = np.einsum("bhid,hrd->bhir", q + V[:, None], r)
    return (content(q, k) + bd) / np.sqrt(np.float32(8))


@wrong(ABSOLUTE, "relative-absolute", "key's own position", surface="scores", encoding=SHAW)
def shaw_by_the_key(q, k):
    row = np.minimum(np.arange(k.shape[2]), 4) + 4
    return (q @ k.swapaxes(-1, -2) + np.einsum("bhid,jd->bhij", q, KEYS[row])) / np.float32(4)


@wrong(SIGN, "bucket-sign", "have the opposite sign", surface="scores", encoding=SHAW)
def shaw_by_query_minus_key(q, k):
    i, j = np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None], np.arange(k.shape[2])
    row = np.clip(i - j, -4, 4) + 4
    return (q @ k.swapaxes(-1, -2) + np.einsum("bhid,ijd->bhij", q, KEYS[row])) / np.float32(4)


@wrong(SIGN, "bucket-sign", "have the opposite sign", surface="bias", encoding=SWIN)
def swin_bias_by_key_minus_query(q_len, k_len):
    dy, dx = offsets(3, 5)
    return np.moveaxis(WINDOW[(2 - dy) * 9 + 4 - dx], -1, 0)


@right(SIGN, surface="bias", encoding=SWIN)
def swin_bias_by_query_minus_key(q_len, k_len):
    return swin_bias(q_len, k_len)


MORE_KEYS = RNG.standard_normal((33, 12)).astype(np.float32)
LONG_SHAW = {"encoding": "Shaw", "keys": MORE_KEYS, "before": 16}


def shaw_with(q, k, row):
    r = MORE_KEYS[np.broadcast_to(np.clip(row, 0, 32), (q.shape[2], k.shape[2]))]
    return (q @ k.swapaxes(-1, -2) + np.einsum("bhid,ijd->bhij", q, r)) / np.sqrt(np.float32(12))


@wrong(ABSOLUTE, "relative-absolute", "key's own position", surface="scores", encoding=LONG_SHAW)
def shaw_by_the_row_of_the_key(q, k):
    return shaw_with(q, k, np.arange(k.shape[2]))


@wrong(ABSOLUTE, "relative-absolute", "key's position relative to", surface="scores",
       encoding=LONG_SHAW)  # fmt: skip
def shaw_by_the_row_of_the_key_after_the_cache(q, k):
    return shaw_with(q, k, np.arange(k.shape[2]) - (k.shape[2] - q.shape[2]))


@wrong(ABSOLUTE, "relative-absolute", "query's own position", surface="scores",
       encoding=LONG_SHAW)  # fmt: skip
def shaw_by_the_row_of_the_query(q, k):
    return shaw_with(q, k, np.arange(k.shape[2] - q.shape[2], k.shape[2])[:, None])


@wrong(ABSOLUTE, "relative-absolute", "query's position relative to", surface="scores",
       encoding={**LONG_SHAW, "counted": "query-key"})  # fmt: skip
def shaw_by_the_row_of_the_query_counted_backwards(q, k):
    return shaw_with(q, k, np.arange(q.shape[2])[:, None])


@wrong(ABSOLUTE, "relative-absolute", "query's own position", surface="scores", encoding=XL)
def transformer_xl_by_the_query(q, k):
    r = np.einsum("rw,hdw->hrd", rows(np.arange(k.shape[2] - q.shape[2], k.shape[2])), PROJECTION)
    bd = np.einsum("bhid,hid->bhi", q + V[:, None], r)[..., None]
    return (content(q, k) + bd) / np.sqrt(np.float32(8))


WIDE = RNG.standard_normal((117, 2)).astype(np.float32)
WIDE_SWIN = {"encoding": "SwinBias", "table": WIDE, "window": [5, 7]}


@wrong(ABSOLUTE, "relative-absolute", "key's own position", surface="bias", encoding=WIDE_SWIN)
def swin_bias_of_the_key(q_len, k_len):
    return np.broadcast_to(WIDE[:35].T[:, None], (2, 35, 35)).copy()


@wrong(ABSOLUTE, "relative-absolute", "query's own position", surface="bias", encoding=SWIN)
def swin_bias_of_the_query(q_len, k_len):
    return np.broadcast_to(WINDOW[:15].T[:, :, None], (3, 15, 15)).copy()


@wrong(ABSOLUTE, "relative-absolute", "key's own position in", surface="bias", encoding=WIDE_SWIN)
def swin_bias_of_the_place_of_the_key(q_len, k_len):
    y, x = np.divmod(np.arange(35), 7)
    return np.broadcast_to(WIDE[(y + 4) * 13 + x + 6].T[:, None], (2, 35, 35)).copy()


@wrong(ABSOLUTE, "relative-absolute", "pair", surface="relative_index", encoding=None)
def index_of_the_pair(window):
    n = window[0] * window[1]
    return np.arange(n * n).reshape(n, n)


@right(ABSOLUTE, surface="relative_scores", encoding=None)
def scores_by_the_offset(q, rel):
    return by_row(q, rel, lambda i, j, n: n - 1 - i + j)
