"""Logits (B, H, Q, K) before the mask; queries are the last Q of the K tokens."""

import math

import numpy as np
import torch


def weights(seed, *shape, size=0.5):
    return (size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def offsets(q, k):
    """Position of the query minus position of the key, (Q, K)."""
    n_q, n_k = q.shape[2], k.shape[2]
    return np.arange(n_k - n_q, n_k)[:, None] - np.arange(n_k)


def wide(*arrays):
    return [np.asarray(a, np.float64) for a in arrays]


# ------------------------------------------------------------------ Transformer-XL, Conformer


XL_W, XL_U, XL_V = weights(101, 4, 8, 24, size=0.3), weights(102, 4, 8), weights(103, 4, 8)


def waves(p, width, layout):
    angle = np.asarray(p, np.float64)[..., None] / 10000.0 ** (np.arange(0, width, 2) / width)
    if layout == "concat":
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(*angle.shape[:-1], width)


def xl_biases_exchanged(q, k):
    """r_r_bias and r_w_bias come in this order in the authors' forward()."""
    r_r_bias, r_w_bias = wide(XL_U, XL_V)
    q64, k64, w = wide(q, k, XL_W)
    r = np.einsum("ijD,hdD->hijd", waves(offsets(q, k), 24, "concat"), w)
    ac = np.einsum("bhid,bhjd->bhij", q64 + r_w_bias[:, None], k64)
    bd = np.einsum("bhid,hijd->bhij", q64 + r_r_bias[:, None], r)
    return ((ac + bd) / math.sqrt(8)).astype(q.dtype)


CF_W, CF_U, CF_V = weights(104, 2, 8, 16, size=0.3), weights(105, 2, 8), weights(106, 2, 8)


def conformer_pad_reshape(q, k):
    """Wav2Vec2-Conformer's relative attention: K + Q - 1 offsets, zero-padded and reshaped."""
    b, h, n_q, d = q.shape
    n_k = k.shape[2]
    q64, k64, w, u, v = wide(q, k, CF_W, CF_U, CF_V)
    rows = waves(np.arange(n_k - 1, -n_q, -1), 16, "interleaved") @ w.transpose(0, 2, 1)
    bd = (q64 + v[:, None]) @ rows.transpose(0, 2, 1)
    bd = np.concatenate([np.zeros((b, h, n_q, 1)), bd], axis=-1)
    bd = bd.reshape(b, h, n_k + n_q, n_q)[:, :, 1:].reshape(b, h, n_q, n_k + n_q - 1)
    bd = bd[..., :n_k]
    ac = (q64 + u[:, None]) @ k64.transpose(0, 1, 3, 2)
    return ((ac + bd) * d**-0.5).astype(np.float32)


# ------------------------------------------------------------------ Shaw


SHAW = weights(107, 2 * 9 + 1, 16)


def shaw_one_row_short(q, k):
    """max_relative_position = 9."""
    q64, k64, table = wide(q, k, SHAW)
    at = np.clip(-offsets(q, k), -9, 9 - 1) + 9
    a = table[at]
    return ((q64 @ k64.swapaxes(-1, -2) + np.einsum("bhid,ijd->bhij", q64, a)) / 4).astype(q.dtype)


MUSIC = weights(108, 4, 32, 8)


def music_transformer(q, k):
    """before = 31, after = 0; a table for each head."""
    q64, k64, table = wide(q, k, MUSIC)
    at = np.clip(-offsets(q, k), -31, 0) + 31
    by_row = q64 @ table.transpose(0, 2, 1)
    srel = np.take_along_axis(by_row, np.broadcast_to(at, (*q.shape[:3], k.shape[2])), axis=-1)
    return (q64 @ k64.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + srel).astype(q.dtype)


# ------------------------------------------------------------------ DeBERTa


V1_K, V1_Q = weights(109, 2, 24, 8), weights(110, 2, 24, 8)


def deberta_two_terms(q, k):
    """pos_att_type = ["c2p", "p2c"]; key minus query."""
    q64, k64, kr, qr = wide(q, k, V1_K, V1_Q)
    scale = math.sqrt(q.shape[-1] * 2)
    at = np.clip(-offsets(q, k) + 12, 0, 23)
    c2p = np.einsum("bhid,hijd->bhij", q64, kr[:, at])
    p2c = np.einsum("bhjd,hijd->bhij", k64, qr[:, at])
    return ((q64 @ k64.swapaxes(-1, -2) + c2p + p2c) / scale).astype(q.dtype)


V3_K, V3_Q = weights(111, 2, 32, 8), weights(112, 2, 32, 8)


def make_log_bucket_position(rel, bucket_size, max_position):
    mid = bucket_size // 2
    size = np.where(np.abs(rel) < mid, mid - 1, np.minimum(np.abs(rel), max_position - 1))
    log_pos = np.floor(np.log(size / mid) / np.log((max_position - 1) / mid) * (mid - 1) + 1e-9) + mid
    return np.where(np.abs(rel) <= mid, rel, log_pos * np.sign(rel)).astype(np.int64)


def deberta_v3_floor(q, k):
    q64, k64, kr, qr = wide(q, k, V3_K, V3_Q)
    at = np.clip(make_log_bucket_position(offsets(q, k), 16, 64) + 16, 0, 31)
    c2p = np.einsum("bhid,hijd->bhij", q64, kr[:, at])
    p2c = np.einsum("bhjd,hijd->bhij", k64, qr[:, at])
    return ((q64 @ k64.swapaxes(-1, -2) + c2p + p2c) / math.sqrt(24)).astype(q.dtype)


# ------------------------------------------------------------------ SAM


SAM_H, SAM_W = weights(113, 2 * 4 - 1, 16), weights(114, 2 * 6 - 1, 16)


def sam_scaled_queries(q, k):
    """attn = (q * scale) @ k.T; add_decomposed_rel_pos(attn, q, ...)."""
    q, k64, rh, rw = wide(q, k, SAM_H, SAM_W)
    n_q, n_k = q.shape[2], k64.shape[2]
    q = q * q.shape[-1] ** -0.5
    i, j = np.arange(n_k - n_q, n_k)[:, None], np.arange(n_k)
    attn = q @ k64.swapaxes(-1, -2)
    attn = attn + np.einsum("bhid,ijd->bhij", q, rh[i // 6 - j // 6 + 3])
    attn = attn + np.einsum("bhid,ijd->bhij", q, rw[i % 6 - j % 6 + 5])
    return attn.astype(np.float32)


# ------------------------------------------------------------------ TUPE


TUPE_Q, TUPE_K = weights(115, 48, 4, 8), weights(116, 48, 4, 8)


def tupe_usual_scale(q, k):
    """The content has its usual 1 / sqrt(d), the positions 1 / sqrt(2d)."""
    q64, k64, pq, pk = wide(q, k, TUPE_Q, TUPE_K)
    n_q, n_k, d = q.shape[2], k.shape[2], q.shape[-1]
    positions = np.einsum("ihd,jhd->hij", pq[n_k - n_q : n_k], pk[:n_k]) / math.sqrt(2 * d)
    return (q64 @ k64.swapaxes(-1, -2) / math.sqrt(d) + positions).astype(q.dtype)


# ------------------------------------------------------------------ CoPE


COPE = weights(117, 12, 16)
COPE_T = torch.from_numpy(COPE)


def cope_gathered(q, k):
    """The listing of the paper, in torch: flip, cumsum, two gathers and a lerp."""
    n_q, n_k = q.shape[2], k.shape[2]
    q, k, e = q.double(), k.double(), COPE_T.double()
    logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    later = torch.arange(n_k) > torch.arange(n_k - n_q, n_k)[:, None]
    gates = torch.sigmoid(logits.masked_fill(later, float("-inf")))
    pos = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=len(e) - 1)
    floor, ceil = pos.floor().long(), pos.ceil().long()
    by_row = q @ e.T
    w = pos - floor
    return (logits + by_row.gather(-1, ceil) * w + by_row.gather(-1, floor) * (1 - w)).float()


def cope_counted_from_start(q, k):
    q64, k64, e = wide(q, k, COPE)
    logits = q64 @ k64.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    gates = np.where(offsets(q, k) >= 0, 1 / (1 + np.exp(-logits)), 0.0)
    pos = np.minimum(np.cumsum(gates, axis=-1), len(e) - 1)
    low = np.floor(pos).astype(int)
    high = np.minimum(low + 1, len(e) - 1)
    by_row = q64 @ e.T
    first, second = (np.take_along_axis(by_row, m, axis=-1) for m in (low, high))
    return (logits + first + (second - first) * (pos - low)).astype(q.dtype)


# ------------------------------------------------------------------ WavLM


WAVLM_T = weights(118, 16, 4)  # 16 buckets, up to 40
WAVLM_W, WAVLM_C, WAVLM_S = weights(119, 2, 8), weights(120, 2), 1 + weights(121, 4, size=0.3)


def wavlm_bucket(r, nb=8, far=40):
    n = np.abs(r)
    large = 4 + np.floor(np.log(np.maximum(n, 1) / 4) / np.log(far / 4) * 4 + 1e-9).astype(int)
    return np.where(n < 4, n, np.minimum(large, nb - 1)) + nb * (r > 0)


def wavlm_gates_exchanged(q, k):
    """gate_a, gate_b = chunk(sigmoid(...)), multiplied the other way round."""
    q64, k64 = wide(q, k)
    gate_b, gate_a = (1 / (1 + np.exp(-(q64 @ WAVLM_W[n] + WAVLM_C[n]))) for n in (0, 1))
    gate = gate_a * (gate_b * WAVLM_S[:, None] - 1.0) + 2.0
    bias = np.moveaxis(WAVLM_T[wavlm_bucket(-offsets(q, k))], -1, 0)
    return (q64 @ k64.swapaxes(-1, -2) / math.sqrt(8) + gate[..., None] * bias).astype(q.dtype)


# ------------------------------------------------------------------ PRoPE


def cameras():
    """Three cameras with a focal length, a turn and a place of their own."""
    out = []
    for n in range(3):
        a = 0.4 * n - 0.3
        view = np.eye(4)
        view[:3, :3] = [[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]]
        view[:3, 3] = 0.3 * n, -0.2 * n, 0.5
        lens = np.diag([1.1 + 0.1 * n, 1.3 - 0.1 * n, 1.0, 1.0])
        out.append(lens @ view)
    return np.array(out)


CAMERAS = cameras()


def _turn(x, at, base=100.0):
    half = x.shape[-1] // 2
    angle = at[:, None] * base ** (-np.arange(half) / half)
    c, s = np.cos(angle), np.sin(angle)
    x1, x2 = x[..., :half], x[..., half:]
    return np.concatenate([x1 * c + x2 * s, x2 * c - x1 * s], axis=-1)


def prope_patches_y_first(q, k, rows=3, columns=4):
    def encode(x, at, matrices):
        d = x.shape[-1]
        camera, place = at // (rows * columns), at % (rows * columns)
        part = x[..., : d // 2].reshape(*x.shape[:-1], d // 8, 4)
        part = np.einsum("sij,bhsnj->bhsni", matrices[camera], part)
        y, x_ = place // columns, place % columns
        return np.concatenate(
            [
                part.reshape(*x.shape[:-1], d // 2),
                _turn(x[..., d // 2 : 3 * d // 4], y),
                _turn(x[..., 3 * d // 4 :], x_),
            ],
            axis=-1,
        )

    q64, k64 = wide(q, k)
    n_q, n_k = q.shape[2], k.shape[2]
    of_q = encode(q64, np.arange(n_k - n_q, n_k), CAMERAS.transpose(0, 2, 1))
    of_k = encode(k64, np.arange(n_k), np.linalg.inv(CAMERAS))
    return (of_q @ of_k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])).astype(q.dtype)


# ------------------------------------------------------------------ PaTH


PATH_V, PATH_B = weights(122, 2, 48, 8, size=0.35), 2 / (1 + np.exp(-weights(123, 2, 48, size=1.0)))


def path_not_normalised(q, k):
    """naive.py of fla-core, one token after the other; w comes as the projection gives it."""
    q64, k64 = wide(q, k)
    n_q, n_k = q.shape[2], k.shape[2]
    w = PATH_V.astype(np.float64)
    out = np.zeros((*q.shape[:3], n_k))
    for n in range(n_q):
        i = n_k - n_q + n
        x = q64[:, :, n]
        for j in range(n_k - 1, -1, -1):
            if j <= i:
                out[:, :, n, j] = (x * k64[:, :, j]).sum(-1)
                x = x - PATH_B[:, j, None] * w[:, j] * (x * w[:, j]).sum(-1, keepdims=True)
    return (out / math.sqrt(q.shape[-1])).astype(q.dtype)


# ------------------------------------------------------------------ T5


T5 = weights(124, 32, 8)


def t5_by_parts(q, k):
    """The bias as a product of one-hot buckets and the table; nothing is divided."""
    n_q, n_k = q.shape[2], k.shape[2]
    edges = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91])
    r = -offsets(q, k)
    bucket = np.digitize(np.abs(r), edges) + 16 * (r > 0)
    one_hot = (bucket[..., None] == np.arange(32)).astype(np.float64)
    bias = np.tensordot(one_hot, T5.astype(np.float64), axes=1).transpose(2, 0, 1)
    return (np.einsum("bhid,bhjd->bhij", *wide(q, k)) + bias).astype(np.float32)


# ------------------------------------------------------------------ Falcon-RW


def falcon_alibi_outside(q, k):
    """softmax(q . k / sqrt(d) + alibi), as in BLOOM."""
    q64, k64 = wide(q, k)
    slopes = 2.0 ** -np.arange(1.0, 9.0)[:, None, None]
    return (q64 @ k64.swapaxes(-1, -2) * q.shape[-1] ** -0.5 - slopes * np.abs(offsets(q, k))).astype(q.dtype)
