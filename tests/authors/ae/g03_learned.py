"""Learned tables: lookups, token ids, axes, resizing."""

import numpy as np


def _w(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


_BART = _w(31, 258, 24)  # offset 2
_OPT = _w(32, 514, 16)  # offset 2
_ROWS, _COLS = _w(33, 50, 12), _w(34, 50, 12)  # DETR, x first
_E0, _E1 = _w(35, 16, 8), _w(36, 32, 8)  # Reformer, flat
_VIT = _w(37, 1 + 8 * 6, 16)  # CLS and 8 x 6 patches
_DINO = _w(38, 1 + 10 * 10, 8)


# --- right -------------------------------------------------------------------------------


def onehot_rows(seq_len):
    """BART: a matrix product with a one-hot matrix, as on accelerators without gather."""
    picks = np.zeros((seq_len, len(_BART)), np.float32)
    picks[np.arange(seq_len), 2 + np.arange(seq_len)] = 1
    return picks @ _BART


def ids_by_loop(input_ids):
    """fairseq's make_positions, token by token; padding_idx = 1."""
    ids = np.asarray(input_ids)
    flat = ids.reshape(-1, ids.shape[-1]) if ids.ndim else ids.reshape(1, 1)
    out = np.full(flat.shape, 1, np.int64)
    for b, row in enumerate(flat):
        n = 1
        for s, token in enumerate(row):
            if token != 1:
                n += 1
                out[b, s] = n
    return out.reshape(ids.shape)


# --- wrong -------------------------------------------------------------------------------


def opt_decode_without_offset(positions):
    p = np.asarray(positions)
    if p.shape[-1] == 1:  # a step of decoding: the cache holds the length
        return _OPT[p]
    return _OPT[p + 2]


def ids_running_through_padding(input_ids):
    ids = np.asarray(input_ids)
    mask = ids != 1
    return np.cumsum(mask, axis=-1) + 1


def ids_uint8_cumsum(input_ids):
    mask = (np.asarray(input_ids) != 1).astype(np.uint8)
    return np.cumsum(mask, axis=-1, dtype=np.uint8).astype(np.int64) * mask + 1


def detr_tables_exchanged(height, width):
    """col_embed is indexed by the row and row_embed by the column."""
    i, j = np.arange(height), np.arange(width)
    x = np.broadcast_to(_COLS[i][:, None], (height, width, 12))
    y = np.broadcast_to(_ROWS[j][None], (height, width, 12))
    return np.concatenate([x, y], -1).reshape(height * width, 24)


def reformer_wrong_divisor(positions):
    p = np.asarray(positions)
    n = len(_E0)
    return np.concatenate([_E0[(p // n) % len(_E0)], _E1[p % n]], axis=-1)


def _cubic(t, a):
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def _axis(n, m, a=-0.75, ratio=None):
    out = np.zeros((m, n))
    r = n / m if ratio is None else ratio
    for i in range(m):
        c = (i + 0.5) * r - 0.5
        f = int(np.floor(c))
        for j in range(f - 1, f + 3):
            out[i, min(max(j, 0), n - 1)] += _cubic(c - j, a)
    return out


def _resized(weight, grid, new, a=-0.75, ratio=(None, None)):
    g = weight.astype(np.float64).reshape(*grid, -1)
    g = np.einsum("ai,bj,ijd->abd", _axis(grid[0], new[0], a, ratio[0]), _axis(grid[1], new[1], a, ratio[1]), g)
    return g.reshape(new[0] * new[1], -1).astype(np.float32)


def resized_with_pil_kernel(seq_len):
    """8 x 6 patches to 12 x 9, with the bicubic kernel of Pillow (a = -1/2)."""
    table = np.concatenate([_VIT[:1], _resized(_VIT[1:], (8, 6), (12, 9), a=-0.5)])
    return table[:seq_len]


def resized_transposed(positions):
    """The grid of 8 rows and 6 columns is read as 6 x 8, and resized to 9 x 12."""
    table = np.concatenate([_VIT[:1], _resized(_VIT[1:], (6, 8), (9, 12))])
    return table[np.asarray(positions)]


def resized_two_faults(positions):
    """DINO's + 0.1 in the scale is not declared; the CLS row ends up behind the patches."""
    r = 10 / (14 + 0.1)
    table = np.concatenate([_resized(_DINO[1:], (10, 10), (14, 14), ratio=(r, r)), _DINO[:1]])
    return table[np.asarray(positions)]
