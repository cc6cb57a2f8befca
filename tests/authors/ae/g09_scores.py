"""Logits that depend on content: CoPE, Transformer-XL, Shaw, DeBERTa, WavLM, ViTDet, FoX, PaTH."""

import math

import numpy as np


def _w(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _at(q, k):
    n_q, n_k = q.shape[2], k.shape[2]
    return np.arange(n_k - n_q, n_k), np.arange(n_k)


_COPE = _w(91, 12, 16)
_XW, _XU, _XV = _w(92, 4, 16, 32) * np.float32(0.2), _w(93, 4, 16), _w(94, 4, 16)
_SHAW = _w(95, 17, 16)
_KR, _QR = _w(96, 3, 64, 16), _w(97, 3, 64, 16)
_GT, _GW, _GC, _GS = _w(98, 32, 4), _w(99, 2, 16), _w(100, 2), _w(101, 4)
_RH, _RW = _w(102, 11, 16), _w(103, 17, 16)
_FOX = -np.abs(_w(104, 5, 120))
_PV, _PB = _w(105, 2, 72, 16), (2 * _sigmoid(_w(106, 2, 72))).astype(np.float32)
_START = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91])


# --- right -------------------------------------------------------------------------------


def xl_both_directions(q, k):
    """2K - 1 rows from K - 1 down to 1 - K, scores by row, the shift as one gather."""
    at_q, at_k = _at(q, k)
    n = k.shape[2]
    p = np.arange(n - 1, -n, -1, dtype=np.float64)
    a = p[:, None] * 10000.0 ** (-np.arange(16) / 16)
    r = np.concatenate([np.sin(a), np.cos(a)], -1)
    rows = np.einsum("hdm,pm->hpd", _XW.astype(np.float64), r)
    q64, k64 = q.astype(np.float64), k.astype(np.float64)
    ac = np.einsum("bhid,bhjd->bhij", q64 + _XU[:, None], k64)
    by_row = np.einsum("bhid,hpd->bhip", q64 + _XV[:, None], rows)
    index = n - 1 - (at_q[:, None] - at_k)
    bd = np.take_along_axis(by_row, np.broadcast_to(index, (*q.shape[:2], *index.shape)), -1)
    return ((ac + bd) / 4.0).astype(q.dtype)


def decomposed_einsum(q, k):
    """ViTDet's add_decomposed_rel_pos for queries of any part of the 6 x 9 grid."""
    at_q, at_k = _at(q, k)
    rh = _RH[(at_q // 9)[:, None] - np.arange(6) + 5].astype(np.float64)
    rw = _RW[(at_q % 9)[:, None] - np.arange(9) + 8].astype(np.float64)
    q64 = q.astype(np.float64)
    rel_h = np.einsum("bhid,iyd->bhiy", q64, rh)
    rel_w = np.einsum("bhid,ixd->bhix", q64, rw)
    whole = (rel_h[..., :, None] + rel_w[..., None, :]).reshape(*q.shape[:3], 54)
    return (np.einsum("bhid,bhjd->bhij", q64 * 0.25, k.astype(np.float64)) + whole[..., at_k]).astype(q.dtype)


def path_by_moving_keys(q, k):
    """As in decoding: each step reflects all earlier keys by the matrix of the new token."""
    at_q, at_k = _at(q, k)
    w = _PV.astype(np.float64)
    w = w / np.linalg.norm(w, axis=-1, keepdims=True)
    held = k.astype(np.float64).copy()
    out = np.zeros((*q.shape[:3], k.shape[2]))
    for t in at_k:
        old = held[:, :, :t]
        dot = np.einsum("bhjd,hd->bhj", old, w[:, t])
        old -= (_PB[:, t, None] * dot)[..., None] * w[:, None, t]
        i = t - at_q[0]
        if i >= 0:
            out[:, :, i] = np.einsum("bhd,bhjd->bhj", q[:, :, i].astype(np.float64), held)
    return (out / 4.0).astype(q.dtype)


# --- wrong -------------------------------------------------------------------------------


def _cope(q, k, count, swap=False):
    at_q, at_k = _at(q, k)
    logits = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k.astype(np.float64)) / 4.0
    g = _sigmoid(logits) * (at_k <= at_q[:, None])
    p = np.minimum(count(g), len(_COPE) - 1.0)
    lo, hi = np.floor(p).astype(int), np.ceil(p).astype(int)
    e = np.einsum("bhid,pd->bhip", q.astype(np.float64), _COPE.astype(np.float64))
    low, high = np.take_along_axis(e, lo, -1), np.take_along_axis(e, hi, -1)
    f = p - lo
    mixed = low * f + high * (1 - f) if swap else low * (1 - f) + high * f
    return (logits + mixed).astype(q.dtype)


def cope_from_the_left(q, k):
    return _cope(q, k, lambda g: np.cumsum(g, axis=-1))


def cope_weights_exchanged(q, k):
    return _cope(q, k, lambda g: np.flip(np.cumsum(np.flip(g, -1), -1), -1), swap=True)


def _xl(q, k, weight, offsets):
    a = offsets[..., None] * 10000.0 ** (-np.arange(16) / 16)
    r = np.concatenate([np.sin(a), np.cos(a)], -1)
    q64, k64 = q.astype(np.float64), k.astype(np.float64)
    rows = np.einsum("hdm,ijm->hijd", weight.astype(np.float64), r)
    x = np.einsum("bhid,bhjd->bhij", q64 + _XU[:, None], k64)
    return ((x + np.einsum("bhid,hijd->bhij", q64 + _XV[:, None], rows)) / 4.0).astype(q.dtype)


def xl_distances(q, k):
    """|i - j|: right in causal attention, wrong in a bidirectional encoder."""
    at_q, at_k = _at(q, k)
    return _xl(q, k, _XW, np.abs(at_q[:, None] - at_k).astype(np.float64))


def xl_heads_last(q, k):
    """The output channels of r_net are cut into (d, H) and not into (H, d)."""
    at_q, at_k = _at(q, k)
    weight = np.moveaxis(_XW.reshape(64, 32).reshape(16, 4, 32), 1, 0)
    return _xl(q, k, weight, (at_q[:, None] - at_k).astype(np.float64))


def shaw_unscaled_rows(q, k):
    at_q, at_k = _at(q, k)
    a = _SHAW[np.clip(at_k - at_q[:, None], -8, 8) + 8]
    return (np.einsum("bhid,bhjd->bhij", q, k) / 4 + np.einsum("bhid,ijd->bhij", q, a)).astype(q.dtype)


def _deberta(q, k, rounded):
    at_q, at_k = _at(q, k)
    r = at_q[:, None] - at_k
    n = np.abs(r)
    x = np.log(np.maximum(n, 1) / 16) / math.log(127 / 16) * 15
    b = np.where(n <= 16, r, np.sign(r) * (16 + rounded(x)))
    row = np.clip(b.astype(int) + 32, 0, 63)
    q64, k64 = q.astype(np.float64), k.astype(np.float64)
    c2p = np.einsum("bhid,hijd->bhij", q64, _KR[:, row])
    p2c = np.einsum("bhjd,hijd->bhij", k64, _QR[:, row])
    return ((np.einsum("bhid,bhjd->bhij", q64, k64) + c2p + p2c) / math.sqrt(48)).astype(q.dtype)


def deberta_floor(q, k):
    return _deberta(q, k, lambda x: np.floor(x + 1e-9))


def deberta_scale_of_one_term(q, k):
    """sqrt(d) for c2c, sqrt(3 d) for the other two: the query is scaled once too often."""
    at_q, at_k = _at(q, k)
    exact = _deberta(q, k, lambda x: np.ceil(x - 1e-9)).astype(np.float64)
    product = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k.astype(np.float64))
    return (exact + product * (1 / 4.0 - 1 / math.sqrt(48))).astype(q.dtype)


def wavlm_gates_exchanged(q, k):
    at_q, at_k = _at(q, k)
    r = at_k - at_q[:, None]
    bucket = np.searchsorted(_START, np.abs(r), side="right") + 16 * (r > 0)
    b = np.moveaxis(_GT[bucket], -1, 0)
    z = np.einsum("bhid,nd->nbhi", q, _GW) + _GC[:, None, None, None]
    a, s = _sigmoid(z[1]), _sigmoid(z[0])  # chunk(2): the second gate is taken for the first
    gate = 2 + a * (_GS[:, None] * s - 1)
    return (np.einsum("bhid,bhjd->bhij", q, k) / 4 + gate[..., None] * b).astype(q.dtype)


def fox_with_the_key(q_len, k_len):
    """cumsum up to i minus an *exclusive* cumsum up to j: the key's own gate counts."""
    c = np.cumsum(_FOX.astype(np.float64), axis=-1)
    before = c - _FOX
    return (c[:, k_len - q_len : k_len, None] - before[:, None, :k_len]).astype(np.float32)


def path_in_token_order(q, k):
    """The query meets the matrix of token j + 1 first and its own last."""
    at_q, at_k = _at(q, k)
    w = _PV.astype(np.float64)
    w = w / np.linalg.norm(w, axis=-1, keepdims=True)
    b = _PB.astype(np.float64)
    out = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k.astype(np.float64))
    for j in at_k:
        x = q.astype(np.float64)  # H_i ... H_(j+1) q_i
        for t in range(j + 1, int(at_k[-1]) + 1):
            dot = np.einsum("bhid,hd->bhi", x, w[:, t])
            moved = x - (b[:, t, None] * dot)[..., None] * w[:, None, t]
            x = np.where((at_q >= t)[:, None], moved, x)
        value = np.einsum("bhid,bhd->bhi", x, k[:, :, j].astype(np.float64))
        out[..., j] = np.where(at_q > j, value, out[..., j])
    return (out / 4.0).astype(q.dtype)
