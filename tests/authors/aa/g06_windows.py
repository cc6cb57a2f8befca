import itertools
import math

import numpy as np
import torch
from torch import nn

_g = lambda s, *shape, lo=-64, hi=65: np.random.default_rng(s).integers(lo, hi, shape) / 64
SWIN, BEIT, LEVIT = _g(30, 77, 3), _g(31, 48, 2), _g(32, 15, 3)
SQUARE = _g(80, 81, 3)
CH, CB, CO = _g(33, 12, 2), _g(34, 12), _g(35, 3, 12)
RH, RW = _g(36, 7, 8), _g(37, 11, 8)
VW, VB = _g(38, 3, 3), _g(39, 3)


def _cut(full, q_len, k_len):
    return full[..., k_len - q_len : k_len, :k_len]


class WindowBias(nn.Module):
    def __init__(self, window_size=(5, 5), num_heads=3):
        super().__init__()
        h, w = window_size
        self.num_heads = num_heads
        self.relative_position_bias_table = torch.from_numpy(SQUARE)
        coords = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(h), indexing="xy")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        rel[:, :, 0] += h - 1
        rel[:, :, 1] += w - 1
        rel[:, :, 0] *= 2 * w - 1
        self.register_buffer("relative_position_index", rel.sum(-1))

    def forward(self):
        n = self.relative_position_index.shape[0]
        b = self.relative_position_bias_table[self.relative_position_index.view(-1)].view(n, n, self.num_heads)
        return b.permute(2, 0, 1).contiguous()


def window_bias(q_len, k_len, _module=WindowBias()):
    return _cut(_module(), q_len, k_len)


def shifted_window_bias(q_len, k_len):
    h, w = 4, 6
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = y[None, :] - y[:, None], x[None, :] - x[:, None]
    return _cut(np.moveaxis(SWIN[(dy + h - 1) * (2 * w - 1) + dx + w - 1], -1, 0), q_len, k_len)


def window_index(window):
    h, w = window
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
    rel = coords[:, :, None] - coords[:, None, :]
    return (rel[0] + h - 1) * (2 * h - 1) + rel[1] + w - 1


def pair_index(window):
    h, w = window
    seen, out = {}, np.empty((h * w, h * w), np.int64)
    for (a, p), (b, q) in itertools.product(enumerate(np.ndindex(h, w)), repeat=2):
        out[a, b] = seen.setdefault((p[0] - q[0], p[1] - q[1]), len(seen))
    return out


def strided_index(window):
    h, w = window
    n = np.arange(h * w)
    code = n // w * (2 * w) + n % w
    return code[:, None] - code[None, :] + (h * w * 2)


def _beit_index(h, w):
    rows = (2 * h - 1) * (2 * w - 1) + 3
    y, x = np.divmod(np.arange(h * w), w)
    idx = np.zeros((h * w + 1, h * w + 1), int)
    idx[1:, 1:] = (y[:, None] - y + h - 1) * (2 * w - 1) + x[:, None] - x + w - 1
    return idx, rows


def beit_bias(q_len, k_len):
    idx, rows = _beit_index(3, 5)
    idx[0, 0:] = rows - 3
    idx[0, 0] = rows - 1
    idx[0:, 0] = rows - 2
    return _cut(BEIT[idx].transpose(2, 0, 1), q_len, k_len)


def cls_window_bias(q_len, k_len):
    idx, rows = _beit_index(3, 5)
    idx[0:, 0] = rows - 3
    idx[0, 0:] = rows - 2
    idx[0, 0] = rows - 1
    return _cut(BEIT[idx].transpose(2, 0, 1), q_len, k_len)


def beit_onehot(q_len, k_len):
    idx, rows = _beit_index(3, 5)
    idx[0], idx[:, 0], idx[0, 0] = rows - 3, rows - 2, rows - 1
    idx[0, 1:] = rows - 3
    hot = np.eye(rows)[idx[k_len - q_len : k_len, :k_len]]
    return np.tensordot(BEIT, hot, axes=(0, 2))


class AttentionBiases(nn.Module):
    def __init__(self, resolution=(3, 5)):
        super().__init__()
        points = list(itertools.product(range(resolution[1]), range(resolution[0])))
        offsets, idxs = {}, []
        for p1 in points:
            for p2 in points:
                o = (abs(p1[0] - p2[0]), abs(p1[1] - p2[1]))
                idxs.append(offsets.setdefault(o, len(offsets)))
        self.attention_biases = nn.Parameter(torch.from_numpy(LEVIT.T.copy()))
        self.idxs = torch.tensor(idxs).view(len(points), len(points))


def levit_bias(q_len, k_len, _m=AttentionBiases()):
    return _cut(_m.attention_biases.detach()[:, _m.idxs], q_len, k_len)


def _cpb(dy, dx, hidden=CH):
    x = np.stack([dy, dx], -1)
    h = np.maximum(x @ hidden.T + CB, 0) @ CO.T
    return np.moveaxis(h, -1, 0)


def _grid_offsets(h=4, w=6):
    y, x = np.divmod(np.arange(h * w), w)
    return (y[:, None] - y).astype(float), (x[:, None] - x).astype(float)


def cpb_bias(q_len, k_len):
    dy, dx = _grid_offsets()
    dy, dx = dy / 3 * 8, dx / 5 * 8
    s = lambda c: np.sign(c) * np.log(np.abs(c) + 1.0) / np.log2(8)
    return _cut(16 / (1 + np.exp(-_cpb(s(dy), s(dx)))), q_len, k_len)


def swin2_bias(q_len, k_len):
    dy, dx = _grid_offsets()
    s = lambda c, n: np.sign(c) * np.log2(np.abs(c) / n * 8 + 1) / np.log2(8)
    return _cut(16 / (1 + np.exp(-_cpb(s(dy, 4), s(dx, 6)))), q_len, k_len)


def pretrained_cpb_bias(q_len, k_len):
    h, w, ph, pw = 4, 6, 3, 4
    ry, rx = torch.arange(-(h - 1), h, dtype=torch.float64), torch.arange(-(w - 1), w, dtype=torch.float64)
    table = torch.stack(torch.meshgrid(ry, rx, indexing="ij"), -1)
    table[..., 0] /= ph - 1
    table[..., 1] /= pw - 1
    table = torch.clamp(table, -1, 1) * 8
    table = torch.sign(table) * torch.log2(table.abs() + 1) / math.log2(8)
    out = torch.relu(table @ torch.from_numpy(CH).T + torch.from_numpy(CB)) @ torch.from_numpy(CO).T
    dy, dx = _grid_offsets()
    idx = torch.from_numpy(((dy + h - 1) * (2 * w - 1) + dx + w - 1).astype(int))
    return _cut(16 * torch.sigmoid(out.view(-1, 3)[idx].permute(2, 0, 1)), q_len, k_len)


def cpb_pairs(q_len, k_len):
    out = np.empty((3, q_len, k_len))
    for i in range(k_len - q_len, k_len):
        for j in range(k_len):
            v = [math.copysign(math.log1p(4.0 * abs(d)) / math.log(8), d) if n == 3 else
                 math.copysign(math.log1p(8 * abs(d) / (n - 1)) / math.log(8), d)
                 for d, n in ((i // 6 - j // 6, 3), (i % 6 - j % 6, 4))]
            h = np.maximum(CH @ v + CB, 0)
            out[:, i - (k_len - q_len), j] = 8 * (1 + np.tanh(CO @ h / 2))
    return out


def _dec(q, k, rq, iy, ix):
    s = np.einsum("bhid,bhjd->bhij", q, k, dtype=np.float64) / np.sqrt(q.shape[-1])
    return (s + np.einsum("bhid,ijd->bhij", rq, RH[iy]) + np.einsum("bhid,ijd->bhij", rq, RW[ix])).astype(q.dtype)


def vitdet_scores(q, k):
    p, Q, K = np.arange(24), q.shape[2], k.shape[2]
    iy, ix = p[:, None] // 6 - p // 6 + 3, p[:, None] % 6 - p % 6 + 5
    return _dec(q, k, q * q.shape[-1] ** -0.5, _cut(iy, Q, K), _cut(ix, Q, K))


def sam_scores(q, k):
    p, Q, K = np.arange(24), q.shape[2], k.shape[2]
    iy, ix = p // 6 - p[:, None] // 6 + 3, p % 6 - p[:, None] % 6 + 5
    return _dec(q, k, q, _cut(iy, Q, K), _cut(ix, Q, K))


def mvit_scores(q, k):
    p, Q, K = np.arange(24), q.shape[2], k.shape[2]
    y, x = p % 4, p // 4
    return _dec(q, k, q, _cut(y[:, None] - y + 3, Q, K), _cut(x[:, None] - x + 5, Q, K))


def gpsa_bias(q_len, k_len):
    h, w = 4, 6
    p = torch.arange(h * w)
    dx = (p[None, :] % w - p[:, None] % w).double()
    dy = (p[None, :] // w - p[:, None] // w).double()
    rel = torch.stack([dx, dy, (dx**2 + dy**2).sqrt()], -1)
    return _cut((rel @ torch.from_numpy(VW).T + torch.from_numpy(VB)).permute(2, 0, 1), q_len, k_len)


def convit_bias(q_len, k_len):
    n = 24
    rel = np.zeros((n, n, 3))
    side = int(n**0.5)
    x = np.arange(n) % side
    y = np.arange(n) // side
    rel[..., 0] = x - x[:, None]
    rel[..., 1] = y - y[:, None]
    rel[..., 2] = rel[..., 0] ** 2 + rel[..., 1] ** 2
    return _cut(np.einsum("hc,ijc->hij", VW, rel) + VB[:, None, None], q_len, k_len)
