"""Logits whose position terms depend on the content: DeBERTa, Transformer-XL, Shaw, CoPE, PaTH..."""
import math

import numpy as np

_r = np.random.default_rng(1905)


def _w(*shape, scale=1.0):
    return (scale * _r.standard_normal(shape)).astype(np.float32)


DEB1_K, DEB1_Q = _w(3, 24, 8), _w(3, 24, 8)  # DeBERTa v1, span 12
DEB2_K, DEB2_Q = _w(3, 32, 8), _w(3, 32, 8)  # DeBERTa v2, 16 buckets, max_position 64
XL_W, XL_U, XL_V = _w(3, 8, 16, scale=0.4), _w(3, 8), _w(3, 8)
ESP_W, ESP_U, ESP_V = _w(2, 8, 16, scale=0.4), _w(2, 8), _w(2, 8)
SHAW = _w(17, 8)  # before = after = 8
MUSIC = _w(2, 33, 8)  # before = 32, after = 0
COPE = _w(12, 8)
DEC_H, DEC_W = _w(7, 8), _w(9, 8)  # grid 4 x 5
TUPE_Q, TUPE_K = _w(64, 3, 8), _w(64, 3, 8)
TUPE_ROW, TUPE_COL = _w(3), _w(3)
PATH_V = _w(2, 48, 8)
PATH_BETA = (2 / (1 + np.exp(-_r.standard_normal((2, 48))))).astype(np.float32)
CAMERAS = np.tile(np.eye(4), (3, 1, 1))
CAMERAS[:, :3, :3] += 0.3 * _r.standard_normal((3, 3, 3))
CAMERAS[:, :3, 3] = 0.7 * _r.standard_normal((3, 3))
CAMERAS = np.round(CAMERAS, 6)
WAVLM, WAVLM_W, WAVLM_C, WAVLM_S = _w(16, 3), _w(2, 8, scale=0.5), _w(2), 1 + _w(3, scale=0.2)


def _offsets(q, k):
    """Query minus key, (Q, K)."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    return np.arange(n_k - n_q, n_k)[:, None] - np.arange(n_k)[None, :]


def _wide(*arrays):
    return [np.asarray(a, np.float64) for a in arrays]


def deberta_v1(q, k):
    """Disentangled attention with plain offsets, span 12."""
    Q, K = _wide(q, k)
    span = 12
    delta = _offsets(q, k)
    scale = 1 / math.sqrt(3 * Q.shape[-1])
    row = np.clip(delta, -(span - 1), span - 1) + span
    c2p = np.take_along_axis(
        Q @ DEB1_K.swapaxes(-1, -2), np.broadcast_to(row, (*Q.shape[:2], *row.shape)), axis=-1
    )
    p2c = np.take_along_axis(
        K @ DEB1_Q.swapaxes(-1, -2), np.broadcast_to(row.T, (*Q.shape[:2], *row.T.shape)), axis=-1
    ).swapaxes(-1, -2)
    return ((Q @ K.swapaxes(-1, -2) + c2p + p2c) * scale).astype(q.dtype)


def deberta_v3(q, k):
    """16 buckets, max_relative_positions 64, both terms."""
    Q, K = _wide(q, k)
    mid, span, max_position = 8, 16, 64

    def bucket(x):
        size = np.maximum(np.abs(x), mid)
        log_pos = mid + np.ceil(
            np.log(size / mid) / np.log((max_position - 1) / mid) * (mid - 1) - 1e-9
        )
        return np.where(np.abs(x) <= mid, x, np.sign(x) * log_pos).astype(int)

    rel = bucket(_offsets(q, k))
    c2p_pos = np.clip(rel + span, 0, 2 * span - 1)
    p2c_pos = np.clip(-rel + span, 0, 2 * span - 1)
    scale_factor = 1 + 1
    h = np.arange(3)[:, None, None]
    c2p = np.einsum("bhid,hijd->bhij", Q, DEB2_K[h, c2p_pos])
    p2c = np.einsum("bhjd,hijd->bhij", K, DEB2_Q[h, p2c_pos])
    total = np.einsum("bhid,bhjd->bhij", Q, K) + c2p + p2c
    return (total / math.sqrt(Q.shape[-1] * scale_factor)).astype(q.dtype)


def transformer_xl(q, k):
    """Both biases, R = [sin | cos] of 16 columns; every offset once."""
    Q, K = _wide(q, k)
    r_w_bias, r_r_bias = XL_U.astype(np.float64)[:, None], XL_V.astype(np.float64)[:, None]
    n_q, n_k = Q.shape[-2], K.shape[-2]
    pos_seq = np.arange(n_k - 1, -n_q, -1)
    a = np.outer(pos_seq, 10000.0 ** (-np.arange(8) / 8))
    r = np.concatenate([np.sin(a), np.cos(a)], -1)
    r_head = np.einsum("pn,hdn->hpd", r, XL_W)
    rw, rr = Q + r_w_bias, Q + r_w_bias
    ac = rw @ K.swapaxes(-1, -2)
    bd = rr @ r_head.swapaxes(-1, -2)
    column = n_q - 1 - np.arange(n_q)[:, None] + np.arange(n_k)
    bd = np.take_along_axis(bd, np.broadcast_to(column, ac.shape), axis=-1)
    return ((ac + bd) / math.sqrt(8)).astype(q.dtype)


def conformer_shift(q, k):
    """Conformer: all 2S - 1 offsets, padded, reshaped and cut; queries may be fewer than keys."""
    Q, K = _wide(q, k)
    b, h, n_q, _ = Q.shape
    n_k = K.shape[-2]
    offsets = np.arange(n_k - 1, -n_q, -1)  # Q + K - 1 columns, from far past to future
    a = np.outer(offsets, 10000.0 ** (-np.arange(0, 16, 2) / 16))
    r = np.concatenate([np.sin(a), np.cos(a)], axis=1) @ XL_W.reshape(24, 16).T.astype(np.float64)
    r = r.reshape(-1, 3, 8).transpose(1, 2, 0)
    ac = (Q + XL_U[:, None]) @ K.swapaxes(-1, -2)
    bd = (Q + XL_V[:, None]) @ r  # (B, H, Q, Q + K - 1)
    width = bd.shape[-1]
    bd = np.pad(bd, ((0, 0), (0, 0), (0, 0), (1, 0)))
    bd = bd.reshape(b, h, width + 1, n_q)[:, :, 1:].reshape(b, h, n_q, width)[..., :n_k]
    return ((ac + bd) * 8**-0.5).astype(q.dtype)


def xlnet(q, k):
    """rel_attn_core, attn_type "bi", without segments."""
    Q, K = _wide(q, k)
    b, h, qlen, d = Q.shape
    klen = K.shape[-2]
    pos_seq = np.arange(klen - 1, -qlen - 1, -1.0)
    angle = pos_seq[:, None] / 10000.0 ** (np.arange(0, 16, 2) / 16)
    pos_emb = np.concatenate([np.sin(angle), np.cos(angle)], -1)
    k_head_r = np.einsum("ih,ndh->nid", pos_emb, XL_W)
    ac = np.einsum("bnid,bnjd->bnij", Q + XL_U[:, None], K)
    bd = np.einsum("bnid,njd->bnij", Q + XL_V[:, None], k_head_r)
    x = bd.reshape(b, h, bd.shape[3], qlen)[:, :, 1:, :]
    x = x.reshape(b, h, qlen, -1)[..., :klen]
    return ((ac + x) / math.sqrt(d)).astype(q.dtype)


def espnet_legacy(q, k):
    """LegacyRelPositionMultiHeadedAttention; a table of 40 rows, last position first."""
    Q, K = _wide(q, k)
    b, h, n_q, d = Q.shape
    n_k = K.shape[-2]
    rows = 40
    position = np.arange(rows - 1, rows - 1 - n_k, -1.0)
    angle = position[:, None] * 10000.0 ** (-np.arange(0, 16, 2) / 16)
    pe = np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(n_k, 16)
    p = np.einsum("pn,hdn->hpd", pe, ESP_W)
    ac = (Q + ESP_U[:, None]) @ K.swapaxes(-1, -2)
    bd = (Q + ESP_V[:, None]) @ p.swapaxes(-1, -2)
    padded = np.concatenate([np.zeros((b, h, n_q, 1)), bd], axis=-1)
    bd = padded.reshape(b, h, n_k + 1, n_q)[:, :, 1:].reshape(b, h, n_q, n_k)
    return ((ac + bd) / math.sqrt(d)).astype(q.dtype)


def shaw(q, k):
    """Clipping distance 8, shared by the heads."""
    Q, K = _wide(q, k)
    row = np.clip(-_offsets(q, k), -8, 8) + 8
    a = SHAW.astype(np.float64)[row]  # (Q, K, d)
    dots = np.einsum("bhid,bhjd->bhij", Q, K) / math.sqrt(8)
    rel = np.einsum("bhid,ijd->bhij", Q, a)
    return (dots + rel).astype(q.dtype)


def music_transformer(q, k):
    """A table for each head; the scores of every row of the table, then a one-hot product."""
    Q, K = _wide(q, k)
    distance = np.clip(_offsets(q, k), 0, 32)
    by_row = Q @ MUSIC.astype(np.float64).swapaxes(-1, -2)  # (B, H, Q, rows)
    rel = np.empty((*Q.shape[:3], K.shape[2]))
    for i, row in enumerate(32 - distance):
        rel[:, :, i] = by_row[:, :, i] @ (np.arange(33)[:, None] == row).astype(np.float64)
    return ((Q @ K.swapaxes(-1, -2) + rel) / math.sqrt(Q.shape[-1])).astype(q.dtype)


def cope(q, k):
    """The code of the paper (appendix B), 12 positions."""
    Q, K = _wide(q, k)
    attn_logits = Q @ K.swapaxes(-1, -2) / math.sqrt(8)
    gates = 1 / (1 + np.exp(-attn_logits)) * (_offsets(q, k) >= 0)
    pos = np.flip(np.cumsum(np.flip(gates, -1), axis=-1), -1)
    pos = np.minimum(pos, 12 - 1)
    pos_ceil, pos_floor = np.ceil(pos).astype(int), np.floor(pos).astype(int)
    logits_int = Q @ COPE.astype(np.float64).T
    logits_ceil = np.take_along_axis(logits_int, pos_ceil, axis=-1)
    logits_floor = np.take_along_axis(logits_int, pos_floor, axis=-1)
    w = pos - pos_floor
    return (attn_logits + logits_ceil * (1 - w) + logits_floor * w).astype(q.dtype)


def decomposed(q, k):
    """add_decomposed_rel_pos of SAM, for a grid of 4 x 5 tokens."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_k > 20:
        raise ValueError("more tokens than the grid has")
    Q, K = _wide(q, k)
    Q = Q * 8**-0.5
    (yq, xq), (yk, xk) = np.divmod(np.arange(n_k - n_q, n_k), 5), np.divmod(np.arange(n_k), 5)
    rh = DEC_H.astype(np.float64)[yq[:, None] - yk + 3]
    rw = DEC_W.astype(np.float64)[xq[:, None] - xk + 4]
    r_q = Q
    out = Q @ K.swapaxes(-1, -2)
    out = out + np.einsum("bhid,ijd->bhij", r_q, rh) + np.einsum("bhid,ijd->bhij", r_q, rw)
    return out.astype(q.dtype)


def tupe(q, k):
    """TUPE-A, 64 positions, with untied [CLS]."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_k > 64:
        raise ValueError("more tokens than positions")
    Q, K = _wide(q, k)
    pq, pk = (t.astype(np.float64).transpose(1, 0, 2) for t in (TUPE_Q, TUPE_K))
    at = np.arange(n_k - n_q, n_k)
    pos = pq[:, at] @ pk[:, :n_k].swapaxes(-1, -2) / math.sqrt(2 * 8)
    pos[:, :, 0] = TUPE_COL[:, None]
    pos[:, at == 0, :] = TUPE_ROW[:, None, None]
    return (Q @ K.swapaxes(-1, -2) / math.sqrt(8) + pos).astype(q.dtype)


def path_matrices(q, k):
    """PaTH: for every key, the product of the matrices up to each query."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_k > 48:
        raise ValueError("more tokens than directions")
    Q, K = _wide(q, k)
    w = PATH_V / np.linalg.norm(PATH_V.astype(np.float64), axis=-1, keepdims=True)
    house = np.eye(8) - PATH_BETA[..., None, None] * w[..., :, None] * w[..., None, :]
    first = n_k - n_q
    out = Q @ K.swapaxes(-1, -2)
    for j in range(n_k):
        m = np.broadcast_to(np.eye(8), (2, 8, 8))
        for i in range(j + 1, n_k):
            m = house[:, i] @ m
            if i >= first:
                turned = np.einsum("hde,bhe->bhd", m, Q[:, :, i - first])
                out[:, :, i - first, j] = np.sum(K[:, :, j] * turned, axis=-1)
    return (out / math.sqrt(8)).astype(q.dtype)


def path_decoding(q, k):
    """PaTH as it decodes: every step reflects all keys that are in the cache, then adds its own."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_k > 48:
        raise ValueError("more tokens than directions")
    out = np.zeros((*q.shape[:2], n_q, n_k))
    cache = np.zeros((*k.shape[:2], n_k, 8))
    for t in range(n_k):
        v = PATH_V[:, t].astype(np.float64)
        w = (v / np.sqrt((v * v).sum(-1, keepdims=True)))[:, None]  # (H, 1, d)
        held = cache[:, :, :t]
        shadow = (held * w).sum(-1, keepdims=True)
        cache[:, :, :t] = held - PATH_BETA[:, t, None, None] * shadow * w
        cache[:, :, t] = k[:, :, t]
        i = t - (n_k - n_q)
        if i >= 0:
            out[:, :, i, : t + 1] = np.einsum("bhd,bhkd->bhk", q[:, :, i], cache[:, :, : t + 1])
    return (out * 8**-0.5).astype(q.dtype)


def prope(q, k):
    """3 cameras of 2 x 3 patches, heads of 16 channels."""
    n_q, n_k = q.shape[-2], k.shape[-2]
    if n_k > 18:
        raise ValueError("more tokens than patches")
    Q, K = _wide(q, k)
    inv = np.linalg.inv(CAMERAS)

    def rope(x, at):
        a = at[:, None] * 100.0 ** (-np.arange(2) / 2)
        c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., :2], x[..., 2:]
        return np.concatenate([c * x1 + s * x2, c * x2 - s * x1], -1)

    def tiles(x, matrices):  # (B, H, N, 8): two groups of four channels
        parts = x.reshape(*x.shape[:-1], 2, 4)
        return np.einsum("nij,bhngj->bhngi", matrices, parts).reshape(x.shape)

    def turn(x, matrices, at):
        camera, patch = np.divmod(at, 6)
        row, column = np.divmod(patch, 3)
        return np.concatenate(
            [tiles(x[..., :8], matrices[camera]), rope(x[..., 8:12], row), rope(x[..., 12:], column)],
            axis=-1,
        )

    qt = turn(Q, CAMERAS.transpose(0, 2, 1), np.arange(n_k - n_q, n_k))
    kt = turn(K, inv, np.arange(n_k))
    return (qt @ kt.swapaxes(-1, -2) / 4.0).astype(q.dtype)


def wavlm(q, k):
    """Gates from the query; 16 buckets, max_distance 40."""
    Q, K = _wide(q, k)
    r = -_offsets(q, k)
    n = np.abs(r)
    far = 4 + np.floor(np.log(np.maximum(n, 1) / 4) / np.log(40 / 4) * 4 + 1e-9).astype(int)
    bucket = 8 * (r > 0) + np.where(n < 4, n, np.minimum(far, 7))
    position_bias = WAVLM.astype(np.float64)[bucket].transpose(2, 0, 1)
    gates = 1 / (1 + np.exp(-(Q @ WAVLM_W.astype(np.float64).T + WAVLM_C)))
    gate_b, gate_a = gates[..., 0], gates[..., 1]
    gate = gate_a * (gate_b * WAVLM_S[:, None] - 1.0) + 2.0
    return (Q @ K.swapaxes(-1, -2) / math.sqrt(8) + gate[..., None] * position_bias).astype(q.dtype)


def falcon_channels(q, k):
    """Falcon-RW, 16 heads: the bias m (j - i) is the product of two more channels of q and k."""
    Q, K = _wide(q, k)
    n_q, n_k = Q.shape[-2], K.shape[-2]
    slopes = np.ldexp(1.0, -1) ** (0.5 * np.arange(1, 17))
    i, j = np.arange(n_k - n_q, n_k, dtype=float), np.arange(n_k, dtype=float)
    to_q = np.stack([slopes[:, None] * np.ones(n_q), -slopes[:, None] * i], axis=-1)
    to_k = np.stack([j, np.ones(n_k)], axis=-1)
    q2 = np.concatenate([Q, np.broadcast_to(to_q, (len(Q), 16, n_q, 2))], axis=-1)
    k2 = np.concatenate([K, np.broadcast_to(to_k, (len(K), 16, n_k, 2))], axis=-1)
    return (q2 @ k2.swapaxes(-1, -2) / math.sqrt(Q.shape[-1])).astype(q.dtype)
