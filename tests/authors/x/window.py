"""Biases of windows of patches and of residues."""
import os

import numpy as np
import torch

W = np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.npz"))


# 042: surface relative_index
def relative_position_index(window):
    h, w = window
    coords = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="xy"))
    flat = coords.flatten(1)
    rel = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
    rel[:, :, 0] += h - 1
    rel[:, :, 1] += w - 1
    rel[:, :, 0] *= 2 * w - 1
    return rel.sum(-1).numpy()


def _swin_index(h, w, factor=None):
    y, x = np.divmod(np.arange(h * w), w)
    dy, dx = y[:, None] - y[None], x[:, None] - x[None]
    return (dy + h - 1) * (factor or 2 * w - 1) + dx + w - 1


# 046: beit: window (3, 4) and [CLS], surface bias
def beit_bias(q_len, k_len, h=3, w=4):
    table = torch.tensor(W["beit"])
    n = table.shape[0]
    idx = np.zeros((h * w + 1, h * w + 1), int)
    idx[1:, 1:] = _swin_index(h, w)
    idx[0:, 0] = n - 3
    idx[0, 0:] = n - 2
    idx[0, 0] = n - 1
    full = table[torch.tensor(idx)].permute(2, 0, 1)
    return full[:, k_len - q_len : k_len, :k_len]


# 050: logcpb: window (4, 6), pretrained (8, 12), surface bias
def swinv2_bias(q_len, k_len, window=(4, 6), pretrained=(8, 12)):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    c = np.stack([y[:, None] - y, x[:, None] - x], -1).astype(np.float64)
    c /= np.array(window) - 1
    c *= 8
    c = np.sign(c) * np.log2(np.abs(c) + 1.0) / np.log2(8)
    z = np.maximum(c @ W["cp_h"].T + W["cp_b"], 0) @ W["cp_o"].T
    b = 16 / (1 + np.exp(-z))
    return b.transpose(2, 0, 1)[:, k_len - q_len : k_len, :k_len]


# 061: levit: window (3, 5), surface bias
def levit_bias(q_len, k_len, h=3, w=5):
    table = W["levit"]
    out = np.empty((table.shape[1], q_len, k_len), np.float32)
    for a in range(q_len):
        yi, xi = divmod(k_len - q_len + a, w)
        for j in range(k_len):
            yj, xj = divmod(j, w)
            out[:, a, j] = table[abs(yi - yj) * w + (xi - xj)]
    return out


# 062: dyn: DynamicBias with LayerNorms, surface bias
def _ln(x, g, b, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, ddof=1, keepdims=True) + eps) * g + b


def dynamic_bias(q_len, k_len):
    x = np.arange(-k_len, k_len + 1, dtype=np.float64)[:, None]
    for n in range(2):
        x = _ln(x @ W[f"db{n}"].T + W[f"dbb{n}"], W[f"dbg{n}"], W[f"dbs{n}"])
        x = x / (1 + np.exp(-x))
    x = x @ W["db2"].T + W["dbb2"]
    rel = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
    return x[rel + k_len].transpose(2, 0, 1)


# 063: residue: ResidueBias, r = 6, cyclic with 20 residues, surface bias
def cyclic_relpos(q_len, k_len, r=6, period=20):
    i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
    d = (i - j) % period
    d = np.minimum(d, period - d)  # the shorter way round
    return W["res"][np.clip(d, -r, r) + r].transpose(2, 0, 1)


# 064 (two): swin: window (3, 5), surface bias
def swin_bias(q_len, k_len, h=3, w=5):
    c = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")).flatten(1)
    rel = c[:, None, :] - c[:, :, None]
    idx = (rel[0] + h - 1) * (2 * h - 1) + rel[1] + w - 1
    b = torch.tensor(W["swin"])[idx].permute(2, 0, 1)
    return b[:, k_len - q_len : k_len, :k_len]
