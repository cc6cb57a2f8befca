"""Scores from content: Shaw, Transformer-XL, DeBERTa, CoPE, TUPE, decomposed; shifts."""
import math

import numpy as np
import torch

D, H = 8, 2


def _wave(*shape, phase=0.0):
    n = math.prod(shape)
    return np.round(np.sin(1.3 * np.arange(n) + phase).reshape(shape), 2)


SHAW = _wave(2 * 5 + 1, D)
XL_W = _wave(H, D, 12, phase=0.4)
XL_U = _wave(H, D, phase=1.1)
XL_V = _wave(H, D, phase=2.3)
DEB_K = _wave(H, 16, D, phase=0.2)
DEB_Q = _wave(H, 16, D, phase=0.9)
COPE_E = _wave(12, D, phase=0.6)
REL_H = _wave(5, D, phase=0.1)
REL_W = _wave(7, D, phase=1.9)


def _f(x):
    return np.asarray(x, np.float64)


# ---- c01 (wrong): query minus key
def shaw_sign(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    r = np.clip(_f(q_positions)[:, None] - _f(k_positions), -5, 5).astype(int) + 5
    content = np.einsum("bhqd,bhkd->bhqk", _f(q), _f(k))
    rel = np.einsum("bhqd,qkd->bhqk", _f(q), SHAW[r])
    return ((content + rel) / math.sqrt(D)).astype(q.dtype)


# ---- c02 (wrong): q . a is added after the scaling
def shaw_unscaled_term(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    r = (k_positions[None, :] - q_positions[:, None]).clamp(-5, 5) + 5
    a = torch.tensor(SHAW, dtype=torch.float64)[r]
    s = torch.matmul(q.double(), k.double().transpose(-1, -2)) / math.sqrt(D)
    return (s + torch.einsum("bhqd,qkd->bhqk", q.double(), a)).to(q.dtype)


# ---- c03 (wrong): the upper clip is K - 1, as for a table of 2K rows
def shaw_even_table(q, k, K=5):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    r = np.asarray(k_positions)[None, :] - np.asarray(q_positions)[:, None]
    row = np.minimum(np.maximum(r, -K), K - 1) + K
    by_row = _f(q) @ SHAW.T  # (B, H, Q, 2K + 1)
    rel = np.take_along_axis(by_row, np.broadcast_to(row, (*by_row.shape[:-1], row.shape[1])), -1)
    return ((_f(q) @ _f(k).swapaxes(-1, -2) + rel) * D ** -0.5).astype(q.dtype)


# ---- c04 (wrong): cached decoding: the query's position is taken from its index (#19045)
def shaw_query_index(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    nq, nk = q.shape[-2], k.shape[-2]
    r = torch.clamp(torch.arange(nk)[None, :] - torch.arange(nq)[:, None], -5, 5) + 5
    a = torch.tensor(SHAW, dtype=torch.float64)[r]
    return ((torch.einsum("bhqd,bhkd->bhqk", q.double(), k.double())
             + torch.einsum("bhqd,qkd->bhqk", q.double(), a)) / D ** 0.5).to(q.dtype)


def _xl_r(rel):
    w = 10000.0 ** (-np.arange(6) / 6)
    a = rel[..., None] * w
    return np.concatenate([np.sin(a), np.cos(a)], -1)


# ---- c05 (wrong): u and v exchanged
def xl_biases_swapped(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    rel = _f(q_positions)[:, None] - _f(k_positions)
    wr = np.einsum("hdr,qkr->hqkd", XL_W, _xl_r(rel))
    ac = np.einsum("bhqd,bhkd->bhqk", _f(q) + XL_V[:, None], _f(k))
    bd = np.einsum("bhqd,hqkd->bhqk", _f(q) + XL_U[:, None], wr)
    return ((ac + bd) / math.sqrt(D)).astype(q.dtype)


# ---- c06 (wrong): WeNet: no shift, the key's position instead of the distance
def xl_no_shift(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    r = torch.tensor(_xl_r(_f(k_positions)))
    wr = torch.einsum("hdr,kr->hkd", torch.tensor(XL_W), r)
    u, v = torch.tensor(XL_U)[:, None], torch.tensor(XL_V)[:, None]
    ac = (q.double() + u) @ k.double().transpose(-2, -1)
    bd = (q.double() + v) @ wr.transpose(-2, -1)
    return ((ac + bd) / math.sqrt(D)).to(q.dtype)


# ---- c07 (wrong): W is applied with its head and channel axes mixed (view for permute)
def xl_projection_view(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    weight = XL_W.reshape(H * D, 12)  # r_net.weight
    rel = _f(q_positions)[:, None] - _f(k_positions)
    r = _xl_r(rel) @ weight.T
    r = r.reshape(*rel.shape, D, H)
    ac = np.einsum("bhqd,bhkd->bhqk", _f(q) + XL_U[:, None], _f(k))
    bd = np.einsum("bhqd,qkdh->bhqk", _f(q) + XL_V[:, None], r)
    return ((ac + bd) * D ** -0.5).astype(q.dtype)


# ---- c08 (wrong): p2c is gathered by query rows, the transpose is forgotten (nntrainer#3982)
def deberta_no_transpose(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    span = 8
    rel = np.asarray(q_positions)[:, None] - np.asarray(k_positions)[None]
    row = np.clip(rel + span, 0, 2 * span - 1)
    c2p = np.einsum("bhqd,hqkd->bhqk", _f(q), DEB_K[:, row])
    p2c = np.einsum("bhkd,hqkd->bhqk", _f(k), DEB_Q[:, np.clip(-rel + span, 0, 2 * span - 1)])
    c2c = np.einsum("bhqd,bhkd->bhqk", _f(q), _f(k))
    return ((c2c + c2p + p2c) / math.sqrt(3 * D)).astype(q.dtype)


# ---- c09 (wrong): 1/sqrt(3d) although only c2p is on
def deberta_scale_three(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    span = 8
    rel = q_positions[:, None] - k_positions[None, :]
    row = torch.clamp(rel + span, 0, 2 * span - 1)
    c2p = torch.einsum("bhqd,hqkd->bhqk", q.double(), torch.tensor(DEB_K)[:, row])
    return ((q.double() @ k.double().mT + c2p) / math.sqrt(D * 3)).to(q.dtype)


# ---- c10 (wrong): log buckets: max_position in place of max_position - 1
def deberta_bucket_log(q, k, bucket_size=8, max_position=32):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    rel = np.asarray(q_positions)[:, None] - np.asarray(k_positions)[None]
    mid = bucket_size // 2
    a = np.where(np.abs(rel) <= mid, mid, np.abs(rel))
    log = np.ceil(np.log(a / mid) / np.log(max_position / mid) * (mid - 1)) + mid
    b = np.where(np.abs(rel) <= mid, rel, np.sign(rel) * log).astype(int)
    row = np.clip(b + 8, 0, 15)
    total = (np.einsum("bhqd,bhkd->bhqk", _f(q), _f(k))
             + np.einsum("bhqd,hqkd->bhqk", _f(q), DEB_K[:, row])
             + np.einsum("bhkd,hqkd->bhqk", _f(k), DEB_Q[:, row]))
    return (total / math.sqrt(3 * D)).astype(q.dtype)


# ---- c11 (wrong): the sum of gates runs from the first key (no flip)
def cope_forward_sum(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    logits = np.einsum("bhqd,bhkd->bhqk", _f(q), _f(k)) / math.sqrt(D)
    seen = np.asarray(k_positions)[None] <= np.asarray(q_positions)[:, None]
    gates = np.where(seen, 1 / (1 + np.exp(-logits)), 0.0)
    pos = np.minimum(np.cumsum(gates, -1), len(COPE_E) - 1)
    lo, hi = np.floor(pos).astype(int), np.ceil(pos).astype(int)
    by = _f(q) @ COPE_E.T
    w = pos - lo
    out = logits + np.take_along_axis(by, hi, -1) * w + np.take_along_axis(by, lo, -1) * (1 - w)
    return out.astype(q.dtype)


# ---- c12 (wrong): the mask comes after the gates: later keys are counted
def cope_mask_late(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    logits = q.double() @ k.double().transpose(-1, -2) / math.sqrt(D)
    pos = torch.sigmoid(logits).flip(-1).cumsum(-1).flip(-1).clamp(max=len(COPE_E) - 1)
    by = q.double() @ torch.tensor(COPE_E).T
    lo, hi = pos.floor().long(), pos.ceil().long()
    w = pos - lo
    return (logits + by.gather(-1, hi) * w + by.gather(-1, lo) * (1 - w)).to(q.dtype)


# ---- c13 (wrong): no interpolation: the nearest embedding
def cope_rounded(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    logits = np.einsum("bhqd,bhkd->bhqk", _f(q), _f(k)) * D ** -0.5
    seen = np.asarray(k_positions)[None] <= np.asarray(q_positions)[:, None]
    gates = np.where(seen, 1 / (1 + np.exp(-logits)), 0.0)
    pos = np.cumsum(gates[..., ::-1], -1)[..., ::-1]
    pos = np.rint(np.clip(pos, 0, len(COPE_E) - 1)).astype(int)
    return (logits + np.take_along_axis(_f(q) @ COPE_E.T, pos, -1)).astype(q.dtype)


# ---- c14 (wrong): SAM: the position terms use the scaled query
def decomposed_scaled_query(q, k, grid=(3, 4)):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    h, w = grid
    q64 = _f(q) * D ** -0.5
    i, j = np.asarray(q_positions)[:, None], np.asarray(k_positions)[None]
    rh = REL_H[i // w - j // w + h - 1]
    rw = REL_W[i % w - j % w + w - 1]
    s = q64 @ _f(k).swapaxes(-1, -2)
    s += np.einsum("bhqd,qkd->bhqk", q64, rh) + np.einsum("bhqd,qkd->bhqk", q64, rw)
    return s.astype(q.dtype)


# ---- c15 (wrong, two): rows and columns of the grid exchanged (p % h, p // h), key minus query
def decomposed_two(q, k, grid=(3, 4)):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    h, w = grid
    i, j = q_positions[:, None], k_positions[None]
    yi, xi = i % h, torch.div(i, h, rounding_mode="floor")
    yj, xj = j % h, torch.div(j, h, rounding_mode="floor")
    rh = torch.tensor(REL_H)[yj - yi + h - 1]
    rw = torch.tensor(REL_W)[xj - xi + w - 1]
    s = q.double() @ k.double().mT * D ** -0.5
    s = s + torch.einsum("bhqd,qkd->bhqk", q.double(), rh)
    return (s + torch.einsum("bhqd,qkd->bhqk", q.double(), rw)).to(q.dtype)


# ---- relative_shift -------------------------------------------------------------------------
# ---- c16 (wrong): the last row is dropped, not the first (labml#185)
def shift_last_row(x):
    *lead, n_q, n_k = x.shape
    pad = torch.zeros(*lead, n_q, 1, dtype=x.dtype)
    y = torch.cat([pad, x], -1).view(*lead, n_k + 1, n_q)
    return torch.tril(y[..., :-1, :].reshape(*lead, n_q, n_k), n_k - n_q)


# ---- c17 (wrong): the causal mask after the shift is that of K = Q, a memory (K > Q) is cut off
def shift_square_mask(x):
    *lead, n_q, n_k = x.shape
    y = np.concatenate([np.zeros((*lead, n_q, 1), x.dtype), x], -1).reshape(*lead, n_k + 1, n_q)
    y = y[..., 1:, :].reshape(*lead, n_q, n_k)
    return np.tril(y)


# ---- right -----------------------------------------------------------------------------------
# c18: roll each row
def right_shift_roll(x):
    out = np.zeros_like(x)
    n_q, n_k = x.shape[-2:]
    for i in range(n_q):
        cut = n_q - 1 - i
        out[..., i, : n_k - cut] = x[..., i, cut:]
    return out


# c19: Transformer-XL with the addition theorem: sin and cos of i and j separately
def right_xl_addition(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    w = 10000.0 ** (-np.arange(6) / 6)
    si, ci = np.sin(_f(q_positions)[:, None] * w), np.cos(_f(q_positions)[:, None] * w)
    sj, cj = np.sin(_f(k_positions)[:, None] * w), np.cos(_f(k_positions)[:, None] * w)
    qr = np.einsum("bhqd,hdr->bhqr", _f(q) + XL_V[:, None], XL_W)
    qs, qc = qr[..., :6], qr[..., 6:]
    bd = (qs * si + qc * ci) @ cj.T + (qc * si - qs * ci) @ sj.T
    ac = (_f(q) + XL_U[:, None]) @ _f(k).swapaxes(-1, -2)
    return ((ac + bd) / math.sqrt(D)).astype(q.dtype)


# c20: Shaw as one-hot products, torch, heads looped
def right_shaw_one_hot(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    r = (k_positions[None, :] - q_positions[:, None]).clamp(-5, 5) + 5
    hot = torch.nn.functional.one_hot(r.long(), 11).double()
    a = torch.tensor(SHAW, dtype=torch.float64)
    heads = []
    for h in range(q.shape[1]):
        qh, kh = q[:, h].double(), k[:, h].double()
        rel = torch.einsum("bqr,qkr->bqk", qh @ a.T, hot)
        heads.append((torch.bmm(qh, kh.transpose(1, 2)) + rel) / math.sqrt(D))
    return torch.stack(heads, 1).to(q.dtype)
