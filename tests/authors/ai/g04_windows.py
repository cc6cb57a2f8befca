"""Biases in windows of image patches, and relative positions as index matrices."""
import itertools

import numpy as np

_r = np.random.default_rng(1904)
SWIN = _r.standard_normal((9 * 13, 4)).astype(np.float32)  # window 5 x 7
CPB_W1 = _r.standard_normal((24, 2)).astype(np.float32)
CPB_B1 = _r.standard_normal(24).astype(np.float32)
CPB_W2 = (0.5 * _r.standard_normal((3, 24))).astype(np.float32)
BEIT = _r.standard_normal((5 * 7 + 3, 4)).astype(np.float32)  # window 3 x 4
LEVIT = _r.standard_normal((15, 4)).astype(np.float32)  # window 3 x 5
DPB_W = [_r.standard_normal(s).astype(np.float32) for s in ((8, 2), (8, 8), (8, 8), (4, 8))]
DPB_B = [_r.standard_normal(s).astype(np.float32) for s in (8, 8, 8, 4)]
DPB_G = [(1 + 0.2 * _r.standard_normal(8)).astype(np.float32) for _ in range(3)]
DPB_S = [(0.2 * _r.standard_normal(8)).astype(np.float32) for _ in range(3)]
CONVIT_W = _r.standard_normal((4, 3)).astype(np.float32)
CONVIT_B = _r.standard_normal(4).astype(np.float32)
CONVIT_G = _r.standard_normal(4).astype(np.float32)


def _cut(whole, q_len, k_len):
    """The last q_len of k_len tokens, and the first k_len tokens, of (H, N, N)."""
    if k_len > whole.shape[-1] or q_len > k_len:
        raise ValueError("more tokens than the window has")
    return whole[:, k_len - q_len : k_len, :k_len]


def swin(q_len, k_len):
    h, w = 5, 7
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
    rel = coords[:, None, :] - coords[:, :, None]
    rel = rel.transpose(1, 2, 0).copy()
    rel[:, :, 0] += h - 1
    rel[:, :, 1] += w - 1
    rel[:, :, 0] *= 2 * w - 1
    index = rel.sum(-1)
    bias = SWIN[index.reshape(-1)].reshape(h * w, h * w, -1).transpose(2, 0, 1)
    return _cut(bias, q_len, k_len)


def swin_v2(q_len, k_len):
    """Log-spaced continuous position bias, window 4 x 6, pretrained with 8 x 8."""
    window, pretrained = (4, 6), (8, 8)
    ch = np.arange(-(window[0] - 1), window[0], dtype=np.float64)
    cw = np.arange(-(window[1] - 1), window[1], dtype=np.float64)
    table = np.stack(np.meshgrid(ch, cw, indexing="ij"), axis=-1)
    table[..., 0] /= window[0] - 1
    table[..., 1] /= window[1] - 1
    table *= 8
    table = np.sign(table) * np.log2(np.abs(table) + 1.0) / np.log2(8)
    hidden = np.maximum(table @ CPB_W1.T.astype(np.float64) + CPB_B1, 0)
    out = (hidden @ CPB_W2.T.astype(np.float64)).reshape(-1, 3)
    y, x = np.divmod(np.arange(24), 6)
    index = (y[:, None] - y + 3) * 11 + x[:, None] - x + 5
    return _cut(16 / (1 + np.exp(-out[index].transpose(2, 0, 1))), q_len, k_len)


def beit(q_len, k_len):
    """Window 3 x 4 and [CLS]; the last three rows of the table are those of [CLS]."""
    h, w = 3, 4
    n = (2 * h - 1) * (2 * w - 1) + 3
    y, x = np.divmod(np.arange(h * w), w)
    index = np.zeros((h * w + 1,) * 2, dtype=int)
    index[1:, 1:] = (y[:, None] - y + h - 1) * (2 * w - 1) + (x[:, None] - x + w - 1)
    index[0, 0:] = n - 2
    index[0:, 0] = n - 3
    index[0, 0] = n - 1
    return _cut(BEIT[index].transpose(2, 0, 1), q_len, k_len)


def levit(q_len, k_len):
    """Rows of the table are numbered in the order in which offsets occur."""
    points = list(itertools.product(range(5), range(3)))
    offsets, idxs = {}, []
    for p1 in points:
        for p2 in points:
            offset = (abs(p1[0] - p2[0]), abs(p1[1] - p2[1]))
            if offset not in offsets:
                offsets[offset] = len(offsets)
            idxs.append(offsets[offset])
    whole = LEVIT.T[:, idxs].reshape(4, 15, 15)
    return _cut(whole, q_len, k_len)


def crossformer(q_len, k_len):
    """DynamicPosBias of a 4 x 5 group: Linear, then three times LayerNorm, ReLU, Linear."""
    gy, gx = np.meshgrid(np.arange(1 - 4, 4), np.arange(1 - 5, 5), indexing="ij")
    pos = np.stack([gy.ravel(), gx.ravel()], axis=1).astype(np.float64)
    x = pos @ DPB_W[0].T + DPB_B[0]
    for n in range(3):
        mean = x.mean(-1, keepdims=True)
        var = x.var(-1, ddof=1, keepdims=True)
        x = (x - mean) / np.sqrt(var + 1e-5) * DPB_G[n] + DPB_S[n]
        x = np.maximum(x, 0) @ DPB_W[n + 1].T.astype(np.float64) + DPB_B[n + 1]
    y, c = np.divmod(np.arange(20), 5)
    index = (y[:, None] - y + 3) * 9 + (c[:, None] - c + 4)
    return _cut(np.moveaxis(x[index], -1, 0), q_len, k_len)


def convit_quadratic(q_len, k_len):
    """ConViT's positional logits as separate sums over x and over y, from completed squares."""
    h, w = 4, 5
    weight = CONVIT_W.astype(np.float64)
    dx = np.arange(w)[None, :] - np.arange(w)[:, None]  # key minus query
    dy = np.arange(h)[None, :] - np.arange(h)[:, None]
    along_x = weight[:, 0, None, None] * dx + weight[:, 2, None, None] * dx**2
    along_y = weight[:, 1, None, None] * dy + weight[:, 2, None, None] * dy**2
    whole = along_y[:, :, None, :, None] + along_x[:, None, :, None, :]  # (H, yi, xi, yj, xj)
    whole = whole.reshape(4, h * w, h * w) + CONVIT_B[:, None, None].astype(np.float64)
    return _cut(whole, q_len, k_len)


# ---- index matrices


def index_height_factor(window):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    dy = y[:, None] - y[None, :] + (h - 1)
    dx = x[:, None] - x[None, :] + (w - 1)
    return dy * (2 * h - 1) + dx


def index_absolute(window):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    dy = np.abs(y[:, None] - y[None, :])
    dx = x[:, None] - x[None, :] + w - 1
    return dy * (2 * w - 1) + dx


def index_meshgrid(window):
    """Since NumPy has no torch.meshgrid, its own is used."""
    h, w = window
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w)))
    flat = coords.reshape(2, -1)
    rel = flat[:, :, None] - flat[:, None, :]
    return (rel[0] + h - 1) * (2 * w - 1) + (rel[1] + w - 1)


def index_first_seen(window):
    """Numbers in the order of first occurrence; only equality counts."""
    h, w = window
    tokens = [complex(x, y) for y in range(h) for x in range(w)]
    seen = {}
    return np.array([[seen.setdefault(a - b, len(seen)) for b in tokens] for a in tokens])


# ---- shifts and scores by offset


def shift_last_row(x):
    q, k = x.shape
    padded = np.concatenate([np.zeros((q, 1), x.dtype), x], axis=1)
    return padded.reshape(k + 1, q)[:-1].reshape(q, k)


def shift_right_pad(x):
    q, k = x.shape
    padded = np.concatenate([x, np.zeros((q, 1), x.dtype)], axis=1)
    return padded.reshape(-1)[q:].reshape(q, k)


def shift_rolls(x):
    """Row i is moved to the left by Q - 1 - i places."""
    q, k = x.shape
    out = np.zeros_like(x)
    for i in range(q):
        move = q - 1 - i
        out[i, : k - move] = x[i, move:]
    return out


def scores_flipped(q, rel):
    s = q.shape[0]
    i, j = np.arange(s)[:, None], np.arange(s)[None, :]
    vectors = rel[s - 1 + (i - j)]
    return np.einsum("id,ijd->ij", q, vectors)


def scores_causal_shift(q, rel):
    """Transformer-XL's shift of the S distances S - 1 .. 0."""
    s = q.shape[0]
    x = q @ rel[:s].T
    padded = np.concatenate([np.zeros((s, 1), x.dtype), x], axis=1)
    return padded.reshape(s + 1, s)[1:].reshape(s, s)


def scores_strided(q, rel):
    """One matrix product, and a view in which each row starts one column earlier."""
    s = q.shape[0]
    x = np.ascontiguousarray(q.astype(np.float64) @ rel.astype(np.float64).T)
    row, column = x.strides
    if s == 0:
        return x[:, :0].astype(q.dtype)
    view = np.lib.stride_tricks.as_strided(x[0, s - 1 :], (s, s), (row - column, column))
    return view.astype(q.dtype)
