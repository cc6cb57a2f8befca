"""Biases (H, Q, K) of q_len queries, the last ones, and k_len keys."""

import math

import numpy as np
import torch


def weights(seed, *shape, size=0.5):
    return (size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def ends(q_len, k_len):
    return np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)[None, :]


def published_slopes(heads):
    n = 2 ** math.floor(math.log2(heads))
    out = [2.0 ** (-8.0 * (h + 1) / n) for h in range(n)]
    return np.array(out + [2.0 ** (-4.0 * (2 * h + 1) / n) for h in range(heads - n)])


# ------------------------------------------------------------------ ALiBi


def bloom_alibi(q_len, k_len):
    """build_alibi_tensor: slope times the key's position, one row for all queries."""
    return (published_slopes(8)[:, None, None] * np.arange(k_len)).astype(np.float32)


def alibi_sorted(q_len, k_len):
    i, j = ends(q_len, k_len)
    slopes = np.sort(published_slopes(12))[::-1]  # steep heads first
    return -slopes[:, None, None] * np.abs(i - j)


def alibi_queries_from_zero(q_len, k_len):
    context, memory = np.arange(q_len)[:, None], np.arange(k_len)[None, :]
    return -published_slopes(16)[:, None, None] * np.abs(memory - context)


# ------------------------------------------------------------------ Kerple, FIRE, Sandwich


R1, R2 = [0.6, 1.1, 1.7, 0.25], [0.5, 0.9, 1.3, 1.6]


def kerple_power(q_len, k_len):
    i, j = ends(q_len, k_len)
    r1, r2 = (np.array(r)[:, None, None] for r in (R1, R2))
    return -((r1 * np.abs(i - j)) ** r2)


FIRE_IN, FIRE_B, FIRE_OUT = weights(51, 32, 1, size=1.5), weights(52, 32), weights(53, 8, 32)


def fire_rows(q_len, k_len):
    """Query by query, with the two layers written as sums over the hidden units."""
    out = np.zeros((8, q_len, k_len))
    w, b, o = (a.astype(np.float64) for a in (FIRE_IN[:, 0], FIRE_B, FIRE_OUT))
    for n in range(q_len):
        i = k_len - q_len + n
        distance = np.clip(i - np.arange(k_len), 0, None)
        x = np.log(1 + 0.1 * distance) / (math.log(1 + 0.1 * max(i, 64.0)) + 1e-6)
        for unit in range(32):
            out[:, n] += np.outer(o[:, unit], np.maximum(w[unit] * x + b[unit], 0))
    return out.astype(np.float32)


def fire_no_threshold(q_len, k_len, c=0.1, eps=1e-6):
    i, j = ends(q_len, k_len)
    x = np.log1p(c * np.maximum(i - j, 0)) / (np.log1p(c * i) + eps)
    hidden = np.maximum(x[..., None] * FIRE_IN[:, 0].astype(np.float64) + FIRE_B, 0)
    return np.moveaxis(hidden @ FIRE_OUT.T, -1, 0)


def sandwich_from_zero(q_len, k_len, heads=8, dim=128):
    i, j = ends(q_len, k_len)
    omega = 1.0 / 10000.0 ** (2 * np.arange(dim // 2) / dim)
    total = np.cos((i - j)[..., None] * omega).sum(-1) - dim / 2
    return total / (8.0 * np.arange(1, heads + 1) / heads)[:, None, None]


# ------------------------------------------------------------------ T5


T5_TABLE = weights(54, 32, 6)


def t5_head_major(q_len, k_len):
    """A GGUF port: data[h * n_buckets + b], for a tensor (buckets, heads)."""
    data = T5_TABLE.ravel()
    out = np.zeros((6, q_len, k_len), np.float32)
    for n in range(q_len):
        for j in range(k_len):
            r = j - (k_len - q_len + n)
            d = abs(r)
            if d >= 8:
                d = min(8 + int(math.log(d / 8) / math.log(16) * 8 + 1e-9), 15)
            bucket = d + (16 if r > 0 else 0)
            for h in range(6):
                out[h, n, j] = data[h * 32 + bucket]
    return out


# ------------------------------------------------------------------ windows


def tokens(q_len, k_len, w):
    i, j = ends(q_len, k_len)
    return i // w - j // w, i % w - j % w


SWIN = weights(55, 5 * 9, 4)  # window (3, 5)


def swin_viewed(q_len, k_len):
    dy, dx = tokens(q_len, k_len, 5)
    index = (dy + 2) * 9 + dx + 4
    return SWIN[index.reshape(-1)].reshape(4, q_len, k_len)


BEIT = weights(56, 7 * 7 + 3, 4)  # window (4, 4)


def beit_cls(q_len, k_len):
    n = len(BEIT)
    index = np.zeros((17, 17), np.int64)
    y, x = np.divmod(np.arange(16), 4)
    index[1:, 1:] = (y[:, None] - y + 3) * 7 + x[:, None] - x + 3
    index[:, 0] = n - 3
    index[0, :] = n - 2
    index[0, 0] = n - 1
    return np.moveaxis(BEIT[index], -1, 0)[:, k_len - q_len : k_len, :k_len]


LEVIT = weights(57, 6 * 4, 4)  # window (6, 4)


def levit_square(q_len, k_len):
    resolution = 6
    i, j = ends(q_len, k_len)
    dy = np.abs(i // resolution - j // resolution)
    dx = np.abs(i % resolution - j % resolution)
    return np.moveaxis(LEVIT[dy * 4 + dx], -1, 0)


CPB_IN, CPB_B, CPB_OUT = weights(58, 24, 2, size=1.0), weights(59, 24), weights(60, 4, 24)


def swin_v2_plain(q_len, k_len, window=(4, 6)):
    """The window is (4, 6); the checkpoint was trained with (8, 12)."""
    dy, dx = tokens(q_len, k_len, window[1])
    x = np.stack([dy / (window[0] - 1), dx / (window[1] - 1)], axis=-1) * 8
    x = np.sign(x) * np.log2(np.abs(x) + 1) / np.log2(8)
    y = np.maximum(x @ CPB_IN.T.astype(np.float64) + CPB_B, 0) @ CPB_OUT.T
    return np.moveaxis(1 / (1 + np.exp(-y)), -1, 0)


DPB_W = weights(61, 6, 2), weights(62, 6, 6), weights(63, 6, 6), weights(64, 4, 6)
DPB_B = weights(65, 6), weights(66, 6), weights(67, 6), weights(68, 4)
DPB_G = tuple(1 + weights(s, 6, size=0.2) for s in (69, 70, 71))
DPB_S = tuple(weights(s, 6, size=0.2) for s in (72, 73, 74))


def crossformer_all_offsets(q_len, k_len, h=4, w=5):
    """The network runs once on every offset of the window; pairs pick their own."""
    t = [torch.tensor(a, dtype=torch.float64) for a in (*DPB_W, *DPB_B, *DPB_G, *DPB_S)]
    w_, b_, g_, s_ = t[:4], t[4:8], t[8:11], t[11:]
    grid = torch.cartesian_prod(torch.arange(1 - h, h), torch.arange(1 - w, w)).double()
    y = torch.nn.functional.linear(grid, w_[0], b_[0])
    for n in range(3):
        y = torch.nn.functional.layer_norm(y, (6,), g_[n], s_[n], eps=1e-5)
        y = torch.nn.functional.linear(torch.relu(y), w_[n + 1], b_[n + 1])
    i = torch.arange(k_len - q_len, k_len)[:, None]
    j = torch.arange(k_len)[None, :]
    dy, dx = i // w - j // w, i % w - j % w
    return y[(dy + h - 1) * (2 * w - 1) + dx + w - 1].permute(2, 0, 1).float()


# ------------------------------------------------------------------ other networks


DYN_W = weights(75, 12, 1, size=1.0), weights(76, 12, 12), weights(77, 4, 12)
DYN_B = weights(78, 12), weights(79, 12), weights(80, 4)


def dynamic_log_unsigned(q_len, k_len):
    i, j = ends(q_len, k_len)
    x = np.log(np.abs(i - j) + 1.0)[..., None]
    for n in range(2):
        x = x @ DYN_W[n].T.astype(np.float64) + DYN_B[n]
        x = x / (1 + np.exp(-x))
    return np.moveaxis(x @ DYN_W[2].T.astype(np.float64) + DYN_B[2], -1, 0)


CONVIT_W, CONVIT_B, CONVIT_G = weights(81, 4, 3), weights(82, 4), weights(83, 4)


def convit_distance(q_len, k_len, side=5):
    """rel_indices: x, y and the distance."""
    i, j = ends(q_len, k_len)
    dx, dy = j % side - i % side, j // side - i // side
    d = np.sqrt(dx**2 + dy**2)
    features = np.stack([dx, dy, d], axis=-1)
    return np.moveaxis(features @ CONVIT_W.T.astype(np.float64) + CONVIT_B, -1, 0)


LOG_GATES = -np.abs(weights(84, 4, 160, size=0.3))


def forgetting_inclusive(q_len, k_len):
    c = np.cumsum(LOG_GATES.astype(np.float64), axis=1)
    before = np.concatenate([np.zeros((4, 1)), c[:, :-1]], axis=1)
    return c[:, k_len - q_len : k_len, None] - before[:, None, :k_len]


# ------------------------------------------------------------------ proteins


RESIDUES = weights(85, 9, 6)  # r = 4


def residue_clip_first(q_len, k_len, r=4, period=20):
    i, j = ends(q_len, k_len)
    d = np.clip(i - j, -r, r)
    d = d - period * np.round(d / period).astype(np.int64)
    return np.moveaxis(RESIDUES[d + r], -1, 0)


# four chains: A (with a ligand that has one token for each atom), a copy of A, B, B
RESIDUE = [1, 2, 3, 4, 4, 4, 4, 5, 1, 2, 3, 4, 5, 1, 2, 2, 2, 3, 4, 1, 2, 3, 4, 5]
TOKEN = list(range(24))
ASYM = [0] * 8 + [1] * 5 + [2] * 6 + [3] * 5
ENTITY = [0] * 8 + [0] * 5 + [1] * 6 + [1] * 5
SYM = [0] * 8 + [1] * 5 + [0] * 6 + [1] * 5
CHAIN_R, CHAIN_S = 6, 2
CHAIN_W = weights(86, 8, 2 * (2 * CHAIN_R + 2) + 1 + 2 * CHAIN_S + 2)


def alphafold3_tokens(q_len, k_len):
    residue, token, asym, entity, sym = map(np.array, (RESIDUE, TOKEN, ASYM, ENTITY, SYM))
    r, s = CHAIN_R, CHAIN_S
    i, j = ends(q_len, k_len)
    same_chain, same_entity = asym[i] == asym[j], entity[i] == entity[j]
    a = np.where(same_chain, np.clip(residue[i] - residue[j] + r, 0, 2 * r), 2 * r + 1)
    b = np.where(same_chain, np.clip(token[i] - token[j] + r, 0, 2 * r), 2 * r + 1)
    c = np.where(same_entity, np.clip(sym[i] - sym[j] + s, 0, 2 * s), 2 * s + 1)
    eye = np.eye(2 * r + 2)
    features = np.concatenate(
        [eye[a], eye[b], same_entity[..., None] * 1.0, np.eye(2 * s + 2)[c]], axis=-1
    )
    return np.moveaxis(features @ CHAIN_W.T.astype(np.float64), -1, 0)
