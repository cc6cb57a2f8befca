"""Learned tables, standardised sinusoids, T5 biases and logits, TUPE, residues."""
import math

import numpy as np
import torch
from torch import nn


def _wave(*shape, phase=0.0):
    n = math.prod(shape)
    return np.round(np.sin(1.3 * np.arange(n) + phase).reshape(shape), 2)


LEARNED = _wave(40, 6)
ROWS, COLS = _wave(6, 4, phase=0.5), _wave(9, 4, phase=1.5)
T5 = _wave(32, 3, phase=0.8)
RESIDUE = _wave(11, 3, phase=0.3)
TUPE_Q, TUPE_K = _wave(24, 2, 8, phase=0.2), _wave(24, 2, 8, phase=1.0)
TUPE_ROW, TUPE_COL = [0.5, -1.0], [1.5, 0.25]


# ---- l01 (wrong): OPT's two rows for padding are not skipped
class OPTEmbedding(nn.Embedding):
    def __init__(self):
        super().__init__(*LEARNED.shape, dtype=torch.float64)
        self.offset = 2
        with torch.no_grad():
            self.weight.copy_(torch.tensor(LEARNED))
        self.weight.requires_grad_(False)

    def forward(self, positions):
        return super().forward(positions)


learned_no_offset = OPTEmbedding()


# ---- l02 (wrong): the row of padding is set to zero in the table, although the checkpoint has one
def learned_zero_padding(positions):
    weight = LEARNED.copy()
    weight[1] = 0.0
    return np.take(weight, np.asarray(positions), axis=0)


# ---- l03 (wrong): Reformer: the first axis runs fastest
def axial_first_fastest(positions):
    p = np.asarray(positions)
    return np.concatenate([ROWS[p % len(ROWS)], COLS[p // len(ROWS)]], -1)


# ---- l04 (wrong): DETR's learned table: columns of y first, as in its sinusoids
def axial_y_first(positions):
    y, x = positions[0], positions[1]
    row = torch.tensor(ROWS)[y.long()]
    col = torch.tensor(COLS)[x.long()]
    return torch.cat([row, col], dim=-1)


# ---- l05 (wrong): PatchTST in NumPy: the standard deviation divides by n
def patchtst_numpy_std(positions, length=12, d=16):
    pos = np.arange(length)[:, None]
    div = np.exp(np.arange(0, d, 2) * -(math.log(10000.0) / d))
    pe = np.zeros((length, d))
    pe[:, 0::2], pe[:, 1::2] = np.sin(pos * div), np.cos(pos * div)
    mean, std = pe.mean(), pe.std()
    p = np.asarray(positions, np.float64)[..., None] * div
    full = np.stack([np.sin(p), np.cos(p)], -1).reshape(*p.shape[:-1], d)
    return (full - mean) / (std * 10)


# ---- l06 (wrong): the mean and the deviation of each column
def patchtst_per_column(positions, length=12, d=16):
    w = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)

    def rows(p):
        a = p.double()[..., None] * w
        return torch.stack([a.sin(), a.cos()], -1).flatten(-2)

    pe = rows(torch.arange(length))
    return (rows(positions) - pe.mean(0)) / (pe.std(0) * 10 + 1e-9)


def _t5_bucket(r, bidirectional=True):
    nb = 16 if bidirectional else 32
    me = nb // 2
    n = np.abs(r) if bidirectional else np.maximum(-r, 0)
    far = me + (np.log(np.maximum(n, 1).astype(np.float32) / me) / math.log(128 / me)
                * (nb - me)).astype(np.int64)
    out = np.where(n < me, n, np.minimum(far, nb - 1))
    return out + (nb * (r > 0) if bidirectional else 0)


# ---- l07 (wrong): the table (buckets, H) is reshaped, not transposed, to (H, buckets)
def t5_reshaped_table(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    r = np.asarray(k_positions)[None] - np.asarray(q_positions)[:, None]
    return T5.reshape(3, 32)[:, _t5_bucket(r)]


# ---- l09 (wrong): decoding step: the query is at 0 (candle#899)
def t5_query_at_zero(q_len, k_len):
    i = torch.arange(q_len)[:, None]
    j = torch.arange(k_len)[None]
    b = torch.as_tensor(_t5_bucket((j - i).numpy(), bidirectional=False))
    return torch.tensor(T5)[b].permute(2, 0, 1)


# ---- l10 (wrong): T5 does not divide by sqrt(d)
def t5_scaled_logits(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    r = np.asarray(k_positions)[None] - np.asarray(q_positions)[:, None]
    bias = np.moveaxis(T5[_t5_bucket(r)], -1, 0)
    s = np.matmul(q.astype(np.float64), np.swapaxes(k, -1, -2)) / math.sqrt(q.shape[-1])
    return (s + bias).astype(q.dtype)


# ---- l11 (wrong, two): LayoutLMv3: the bias is not divided, and i - j selects the bucket
def t5_layoutlmv3(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    r = q_positions[:, None] - k_positions[None, :]
    bias = torch.tensor(T5)[torch.as_tensor(_t5_bucket(r.numpy()))].permute(2, 0, 1)
    s = torch.matmul(q.double() / math.sqrt(q.shape[-1]), k.double().transpose(-1, -2))
    return (s + bias).to(q.dtype)


# ---- l12 (wrong): TUPE: 1/sqrt(d) on the content, 1/sqrt(2d) on the positions only
def tupe_content_scale(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    d = q.shape[-1]
    c = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k.astype(np.float64)) / math.sqrt(d)
    p = np.einsum("qhd,khd->hqk", TUPE_Q[q_positions], TUPE_K[k_positions]) / math.sqrt(2 * d)
    return (c + p).astype(q.dtype)


# ---- l13 (wrong): TUPE: the row and the column of [CLS] are exchanged
def tupe_cls_exchanged(q, k):
    q_len, k_len = q.shape[-2], k.shape[-2]
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    d = q.shape[-1]
    pq, pk = torch.tensor(TUPE_Q)[q_positions], torch.tensor(TUPE_K)[k_positions]
    p = torch.einsum("qhd,khd->hqk", pq, pk) / math.sqrt(2 * d)
    row, col = torch.tensor(TUPE_ROW).double(), torch.tensor(TUPE_COL).double()
    p = torch.where((q_positions == 0)[None, :, None], col[:, None, None], p)
    p = torch.where((k_positions == 0)[None, None, :] & (q_positions != 0)[None, :, None],
                    row[:, None, None], p)
    return (q.double() @ k.double().mT / math.sqrt(2 * d) + p).to(q.dtype)


# ---- l14 (wrong): AlphaFold: column minus row
def residue_column_minus_row(q_len, k_len, r=5):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    d = np.clip(np.asarray(k_positions)[None] - np.asarray(q_positions)[:, None], -r, r) + r
    return np.eye(2 * r + 1)[d].dot(RESIDUE).transpose(2, 0, 1)


# ---- l15 (wrong): cyclic chain: the absolute value of the shorter way round
def residue_cyclic_unsigned(q_len, k_len, r=5, period=12):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    d = np.asarray(q_positions)[:, None] - np.asarray(k_positions)[None]
    d = np.minimum(np.abs(d) % period, period - np.abs(d) % period)
    return RESIDUE[np.clip(d, -r, r) + r].transpose(2, 0, 1)


# ---- right -----------------------------------------------------------------------------------
# l16: lookup by one-hot rows
def right_one_hot(positions):
    p = np.asarray(positions) + 2
    return (p[..., None] == np.arange(len(LEARNED))) @ LEARNED


# l17: T5's bias from one row of offsets, filled diagonal by diagonal
def right_t5_diagonals(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    q, k = np.asarray(q_positions), np.asarray(k_positions)
    r = k[None, :] - q[:, None]
    out = np.empty((T5.shape[1], len(q), len(k)))
    for offset in np.unique(r):
        out[:, r == offset] = T5[int(_t5_bucket(np.array(offset)))][:, None]
    return out
