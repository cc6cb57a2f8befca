"""Learned tables, Fourier features, boxes, and the ids that index tables."""
import math

import numpy as np
import torch

_r = np.random.default_rng(1902)
OPT = _r.standard_normal((130, 8)).astype(np.float32)  # 2 + 128 rows
BERT = _r.standard_normal((96, 12)).astype(np.float32)
AX0 = _r.standard_normal((8, 6)).astype(np.float32)
AX1 = _r.standard_normal((16, 10)).astype(np.float32)
ROWS = _r.standard_normal((24, 8)).astype(np.float32)
COLS = _r.standard_normal((24, 8)).astype(np.float32)
T2V_W = (0.5 * _r.standard_normal(10)).astype(np.float32)
T2V_B = _r.standard_normal(10).astype(np.float32)
SPEECH = (0.1 * _r.standard_normal((512, 16))).astype(np.float32)
ROBERTA = _r.standard_normal((66, 4)).astype(np.float32)


def opt_rows(positions):
    """Two rows for padding come first; a call that continues a cache starts later."""
    positions = np.asarray(positions)
    if not np.issubdtype(positions.dtype, np.integer):
        raise TypeError("integer positions only")
    if positions.size and (positions.min() < 0 or positions.max() >= 128):
        raise IndexError("position outside the table")
    past = int(positions[0]) if positions.size else 0
    ids = positions + 2
    if past > 0:
        ids = positions
    return OPT[ids]


def bert_one_hot(positions):
    """TPU style: the lookup is a product with a one-hot matrix."""
    positions = np.asarray(positions)
    if not np.issubdtype(positions.dtype, np.integer):
        raise TypeError("integer positions only")
    if positions.size and (positions.min() < 0 or positions.max() >= 96):
        raise IndexError("position outside the table")
    one_hot = (positions[:, None] == np.arange(96)).astype(np.float32)
    return one_hot @ BERT


def nerf_bands(positions):
    """NeRF, six bands, with the input: x (3, S)."""
    x = np.asarray(positions, np.float64).T  # (S, 3)
    bands = np.linspace(2.0**0, 2.0**5, 6)
    parts = [x]
    for f in bands:
        parts.append(np.sin(x * f))
        parts.append(np.cos(x * f))
    return np.concatenate(parts, axis=-1)


def nerf_doubling(positions):
    """NeRF by the formulas of double angles: one sine and one cosine for each coordinate."""
    x = np.asarray(positions, np.float64).T
    s, c = np.sin(x), np.cos(x)
    parts = [x]
    for _ in range(6):
        parts += [s, c]
        s, c = 2 * s * c, (c - s) * (c + s)
    return np.concatenate(parts, axis=-1)


def dab_boxes(positions):
    """gen_sineembed_for_position for (x, y, w, h): 16 columns for each."""
    x, y, w, h = np.asarray(positions, np.float64)
    dim_t = 10000.0 ** (2 * (np.arange(16) // 2) / 16)

    def sine(c):
        a = (c * 2 * math.pi)[:, None] / dim_t
        return np.stack([np.sin(a[:, 0::2]), np.cos(a[:, 1::2])], axis=2).reshape(len(c), -1)

    return np.concatenate([sine(y), sine(x), sine(h), sine(w)], axis=1)


def reformer_rows(positions):
    """Axial positions of Reformer: axial_pos_shape (8, 16), widths 6 and 10."""
    positions = np.asarray(positions)
    if not np.issubdtype(positions.dtype, np.integer):
        raise TypeError("integer positions only")
    if positions.size and (positions.min() < 0 or positions.max() >= 128):
        raise IndexError("position outside the table")
    first, second = positions % 8, positions // 8
    return np.concatenate([AX0[first], AX1[second]], axis=-1)


def time2vec(positions):
    t = np.asarray(positions, np.float64)[:, None]
    w, b = T2V_W.astype(np.float64), T2V_B.astype(np.float64)
    v = np.sin(t * w) + b
    v[:, 0] = t[:, 0] * w[0] + b[0]
    return v


def detr_learned(height, width):
    """PositionEmbeddingLearned: the columns of x come first."""
    x_emb = COLS[np.arange(width)]
    y_emb = COLS[np.arange(height)]
    pos = np.concatenate(
        [
            np.repeat(x_emb[None], height, axis=0),
            np.repeat(y_emb[:, None], width, axis=1),
        ],
        axis=-1,
    )
    return pos.reshape(height * width, -1)


def speech_add(x):
    """A sinusoid and a learned table, added; jax."""
    import jax
    import jax.numpy as jnp

    s, d = x.shape[1], x.shape[2]
    a = np.arange(s)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    fixed = np.stack([np.sin(a), np.cos(a)], -1).reshape(s, d)
    if s > len(SPEECH):
        raise IndexError("longer than the learned table")
    both = jnp.asarray(fixed + SPEECH[:s].astype(np.float64), dtype=x.dtype)
    return jax.vmap(lambda row: row + both)(x)


# ---- ids, RoBERTa (padding_idx = 1)


def ids_zero_based(input_ids):
    mask = (input_ids != 1).astype(np.int64)
    return (np.cumsum(mask, axis=1) - 1) * mask + 1


def ids_from_embeds(input_ids):
    """create_position_ids_from_inputs_embeds: there are no token ids to look at."""
    s = input_ids.shape[-1]
    position_ids = np.arange(1 + 1, s + 1 + 1)
    return np.broadcast_to(position_ids, input_ids.shape).copy()


def ids_flat_batch(input_ids):
    """The kernel works on the flattened batch."""
    flat = np.ravel(input_ids)
    real = flat != 1
    count = np.add.accumulate(real.astype(np.int64))
    return np.where(real, count + 1, 1).reshape(input_ids.shape)


def ids_by_loop(input_ids):
    """Counts from right to left: what is left of a row is known from its total."""
    ids = np.asarray(input_ids)
    flat = ids.reshape(-1, ids.shape[-1])
    out = np.full(flat.shape, 1, dtype=np.int64)
    for b, row in enumerate(flat.tolist()):
        left = sum(t != 1 for t in row)
        for s in range(len(row) - 1, -1, -1):
            if row[s] != 1:
                out[b, s] = left + 1
                left -= 1
    return out.reshape(ids.shape)
