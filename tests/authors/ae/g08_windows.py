"""Windows of image patches, networks over offsets, residues."""

import numpy as np


def _w(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


_SWIN = _w(81, 9 * 13, 4)  # window 5 x 7
_BEIT = _w(82, 9 * 9 + 3, 3)  # window 5 x 5
_LEVIT = _w(83, 6 * 4, 5)  # window 6 x 4
_CH, _CB, _CO = _w(84, 24, 2), _w(85, 24), _w(86, 3, 24) * np.float32(0.3)
_GW, _GB = _w(87, 4, 3) * np.float32(0.2), _w(88, 4)
_RES = _w(89, 17, 6)  # r = 8


# --- right -------------------------------------------------------------------------------


def unshifted_index(window):
    """Key minus query, not shifted to be positive: negative numbers, but one for each offset."""
    h, w = window
    y, x = np.indices((h, w)).reshape(2, -1)
    return (y[None, :] - y[:, None]) * (2 * w - 1) + (x[None, :] - x[:, None])


def levit_by_dictionary(q_len, k_len):
    """LeViT's own code: offsets are numbered as they are met, in a dictionary."""
    points = [(i, j) for i in range(6) for j in range(4)]
    seen, index = {}, []
    for p in points:
        for o in points:
            off = (abs(p[0] - o[0]), abs(p[1] - o[1]))
            index.append(seen.setdefault(off, len(seen)))
    index = np.array(index).reshape(24, 24)
    return _LEVIT.T[:, index[k_len - q_len : k_len, :k_len]]


# --- wrong -------------------------------------------------------------------------------


def index_of_plain_stride(window):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = y[:, None] - y + h - 1, x[:, None] - x + w - 1
    return dy * w + dx


def index_in_bytes(window):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = y[:, None] - y + h - 1, x[:, None] - x + w - 1
    return (dy * (2 * w - 1) + dx).astype(np.uint8)


def index_of_columns(window):
    h, w = window
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w))).reshape(2, -1)  # no indexing="ij"
    dy, dx = coords[:, :, None] - coords[:, None, :]
    return (dy + h - 1) * (2 * w - 1) + dx + w - 1


def swin_heads_by_view(q_len, k_len):
    y, x = np.divmod(np.arange(k_len), 7)
    i = slice(k_len - q_len, k_len)
    row = (y[i, None] - y + 4) * 13 + x[i, None] - x + 6
    return _SWIN[row.reshape(-1)].reshape(4, q_len, k_len)  # (Q K, H) viewed as (H, Q, K)


def beit_cls_exchanged(q_len, k_len):
    t = np.arange(k_len)
    y, x = np.divmod(t - 1, 5)
    row = (y[:, None] - y + 4) * 9 + x[:, None] - x + 4
    row[0, :], row[:, 0], row[0, 0] = 82, 81, 83
    return np.moveaxis(_BEIT[row], -1, 0)[:, k_len - q_len :]


def _cpb(inputs):
    hidden = np.maximum(inputs @ _CH.T.astype(np.float64) + _CB.astype(np.float64), 0)
    return np.moveaxis(16 / (1 + np.exp(-(hidden @ _CO.T.astype(np.float64)))), -1, 0).astype(np.float32)


def _log(d):
    return np.sign(d) * np.log2(1 + np.abs(d)) / np.log2(8)


def cpb_of_this_window(q_len, k_len):
    """pretrained_window=(8, 8) is declared; the offsets are divided by 12 - 1."""
    y, x = np.divmod(np.arange(k_len), 12)
    i = slice(k_len - q_len, k_len)
    dy, dx = (y[i, None] - y) / 11.0, (x[i, None] - x) / 11.0
    return _cpb(np.stack([_log(8 * dy), _log(8 * dx)], -1))


def cpb_two_faults(q_len, k_len):
    """x before y, and n in the place of n - 1 (window 6 x 9)."""
    y, x = np.divmod(np.arange(k_len), 9)
    i = slice(k_len - q_len, k_len)
    dy, dx = (y[i, None] - y) / 6.0, (x[i, None] - x) / 9.0
    return _cpb(np.stack([_log(8 * dx), _log(8 * dy)], -1))


def convit_plain_distance(q_len, k_len):
    y, x = np.divmod(np.arange(k_len), 8)
    i = slice(k_len - q_len, k_len)
    dy, dx = (y - y[i, None]).astype(np.float64), (x - x[i, None]).astype(np.float64)
    rel = np.stack([dx, dy, np.sqrt(dx**2 + dy**2)], -1)
    return np.moveaxis(rel @ _GW.T.astype(np.float64) + _GB, -1, 0).astype(np.float32)


def ring_after_clip(q_len, k_len):
    """The offset is clipped first; then the shorter way round a ring of 40 residues is taken."""
    d = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
    d = np.clip(d, -8, 8)
    d = np.where(2 * np.abs(d) > 40, d - np.sign(d) * 40, d)
    return np.moveaxis(_RES[d + 8], -1, 0)
