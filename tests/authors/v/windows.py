"""Swin, BEiT, LeViT, Swin v2, ConViT, decomposed positions."""
import math

import numpy as np
import torch

H2, W2 = 3, 4


def _table(rows, heads):
    return np.round(np.sin(0.7 * np.arange(rows * heads).reshape(rows, heads) + 0.3), 3)


SWIN = _table((2 * H2 - 1) * (2 * W2 - 1), 2)
BEIT = _table((2 * H2 - 1) * (2 * W2 - 1) + 3, 2)
LEVIT = _table(H2 * W2, 2)
CPB_HIDDEN = [[0.5, -1.0], [1.5, 0.25], [-0.75, 2.0], [1.0, 1.0], [-1.25, -0.5]]
CPB_BIAS = [0.1, -0.2, 0.3, 0.05, 0.4]
CPB_OUT = [[0.5, -0.25, 0.75, -1.0, 0.3], [-0.4, 0.6, 0.2, 0.9, -0.7]]
CONVIT_W = [[0.5, -1.0, -0.25], [-0.75, 0.25, -0.5]]
CONVIT_B = [0.0, 0.0]


# ---- w01 (wrong): the row stride is 2h - 1
def index_by_height(window):
    h, w = (window, window) if np.isscalar(window) else window
    coords = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij"))
    flat = torch.flatten(coords, 1)
    rel = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
    rel[:, :, 0] += h - 1
    rel[:, :, 1] += w - 1
    rel[:, :, 0] *= 2 * h - 1
    return rel.sum(-1)


# ---- w03 (wrong): the buffer is stored as uint8 to save memory: overflow from 9 x 9 on
class CompactIndex:
    def __init__(self, h, w):
        y, x = np.divmod(np.arange(h * w), w)
        rows = (y[:, None] - y + h - 1) * (2 * w - 1) + (x[:, None] - x) + w - 1
        self.buffer = rows.astype(np.uint8)

    def expand(self):
        return self.buffer.astype(np.int64)


def index_uint8(window):
    h, w = (window, window) if np.isscalar(window) else window
    return CompactIndex(h, w).expand()



# ---- w04 (wrong): meshgrid default "xy" of NumPy: the coordinates are those of a w x h window
def index_meshgrid_xy(window):
    h, w = (window, window) if np.isscalar(window) else window
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w))).reshape(2, -1)
    rel = coords[:, :, None] - coords[:, None, :]
    return (rel[0] + h - 1) * (2 * w - 1) + rel[1] + w - 1


def _swin_rows():
    y, x = np.divmod(np.arange(H2 * W2), W2)
    return (y[:, None] - y + H2 - 1) * (2 * W2 - 1) + x[:, None] - x + W2 - 1


# ---- w05 (wrong): view(H, N, N) instead of permute(2, 0, 1)
def swin_view_for_permute(q_len, k_len):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    n = H2 * W2
    b = torch.tensor(SWIN)[torch.tensor(_swin_rows()).view(-1)].view(-1, n, n)
    return b[:, q_positions][:, :, k_positions]


# ---- w02 (wrong): key minus query
def swin_key_minus_query(q_len, k_len):
    q, k = np.arange(k_len - q_len, k_len), np.arange(k_len)
    dy = k[None, :] // W2 - q[:, None] // W2 + H2 - 1
    dx = k[None, :] % W2 - q[:, None] % W2 + W2 - 1
    return SWIN[dy * (2 * W2 - 1) + dx].transpose(2, 0, 1)


# ---- w06 (wrong): [CLS]: the rows of (0, j) and (i, 0) are exchanged
def beit_cls_swapped(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    n = len(BEIT)
    index = np.zeros((H2 * W2 + 1,) * 2, np.int64)
    index[1:, 1:] = _swin_rows()
    index[0:, 0] = n - 3
    index[0, 0:] = n - 2
    index[0, 0] = n - 1
    return np.moveaxis(BEIT[index[np.ix_(q_positions, k_positions)]], -1, 0)


# ---- w07 (wrong): the order of the assignments: (0, 0) gets the row of (i, 0)
def beit_corner_overwritten(q_len, k_len):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    n = len(BEIT)
    index = torch.zeros((H2 * W2 + 1,) * 2, dtype=torch.long)
    index[1:, 1:] = torch.as_tensor(_swin_rows())
    index[0, 0] = n - 1
    index[0, 0:] = n - 3
    index[0:, 0] = n - 2
    table = torch.tensor(BEIT)
    return table[index][q_positions][:, k_positions].permute(2, 0, 1)


# ---- w08 (wrong): LeViT: |dy| * h + |dx| for a window wider than high
def levit_height_stride(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    i, j = np.asarray(q_positions)[:, None], np.asarray(k_positions)[None, :]
    dy, dx = np.abs(i // W2 - j // W2), np.abs(i % W2 - j % W2)
    return LEVIT[dy * H2 + dx].transpose(2, 0, 1)


def _cpb(dy, dx):
    x = np.stack([dy, dx], -1)
    h = np.maximum(x @ np.array(CPB_HIDDEN).T + CPB_BIAS, 0)
    return np.moveaxis(h @ np.array(CPB_OUT).T, -1, 0)


def _offsets(q_positions, k_positions, w):
    i, j = np.asarray(q_positions)[:, None], np.asarray(k_positions)[None, :]
    return (i // w - j // w).astype(float), (i % w - j % w).astype(float)


# ---- w09 (wrong): natural logarithm above, log2(8) below
def cpb_mixed_logs(q_len, k_len, window=(4, 6)):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    parts = []
    for d, n in zip(_offsets(q_positions, k_positions, window[1]), window):
        d = d * 8 / (n - 1)
        parts.append(np.sign(d) * np.log(np.abs(d) + 1.0) / np.log2(8))
    return 16 / (1 + np.exp(-_cpb(*parts)))


# ---- w10 (wrong): the pretrained window of the checkpoint is ignored
def cpb_own_window(q_len, k_len, window=(4, 6)):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    dy, dx = _offsets(q_positions, k_positions, window[1])
    dy, dx = dy / (window[0] - 1) * 8, dx / (window[1] - 1) * 8
    s = lambda d: np.sign(d) * np.log2(np.abs(d) + 1.0) / 3
    return 16 * (1 / (1 + np.exp(-_cpb(s(dy), s(dx)))))


# ---- w11 (wrong, two): no sign on the log distances, and no 16 * sigmoid
def cpb_two(q_len, k_len, window=(4, 6)):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    dy, dx = _offsets(q_positions, k_positions, window[1])
    s = lambda d, n: np.log2(np.abs(d) * 8 / (n - 1) + 1.0) / np.log2(8)
    return _cpb(s(dy, window[0]), s(dx, window[1]))


# ---- w12 (wrong): ConViT: query minus key
def convit_query_minus_key(q_len, k_len, w=4):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    i, j = q_positions[:, None], k_positions[None, :]
    dx = (i % w - j % w).double()
    dy = (torch.div(i, w, rounding_mode="floor") - torch.div(j, w, rounding_mode="floor")).double()
    feats = torch.stack([dx, dy, dx ** 2 + dy ** 2], -1)
    return (feats @ torch.tensor(CONVIT_W, dtype=torch.float64).T).permute(2, 0, 1)


# ---- right -----------------------------------------------------------------------------------
# w13: LeViT's dictionary of offsets in the order of their first appearance
class LeViTDictionary:
    def __init__(self):
        points = [(y, x) for y in range(H2) for x in range(W2)]
        offsets, index = {}, []
        for p1 in points:
            for p2 in points:
                key = (abs(p1[0] - p2[0]), abs(p1[1] - p2[1]))
                offsets.setdefault(key, len(offsets))
                index.append(offsets[key])
        self.biases = LEVIT.T.copy()  # (H, h w), as attention_biases
        self.index = np.array(index).reshape(len(points), len(points))

    def __call__(self, q_len, k_len):
        q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
        return self.biases[:, self.index][:, q_positions, :][:, :, k_positions]


right_levit_dictionary = LeViTDictionary()


# w14: relative_index as a difference of flattened codes
def right_index_codes(window):
    h, w = (window, window) if np.isscalar(window) else window
    code = (np.arange(h)[:, None] * (2 * w - 1) + np.arange(w)).ravel()
    return np.subtract.outer(code, code) + (h - 1) * (2 * w - 1) + w - 1
