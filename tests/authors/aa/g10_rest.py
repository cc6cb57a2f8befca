import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

_g = lambda s, *shape, lo=-64, hi=65: np.random.default_rng(s).integers(lo, hi, shape) / 64
RES = _g(57, 17, 3)
CHAIN = _g(58, 3, 43)
DW, DB = [_g(41, 8, 1), _g(42, 8, 8), _g(43, 3, 8)], [_g(44, 8), _g(45, 8), _g(46, 3)]
XW, XB = [_g(47, 8, 2), _g(48, 8, 8), _g(49, 3, 8)], [_g(50, 8), _g(51, 8), _g(52, 3)]
XG, XS = [_g(53, 8, lo=32, hi=97), _g(54, 8, lo=32, hi=97)], [_g(55, 8), _g(56, 8)]
CONV_V, CONV_B, CONV_G = _g(71, 8, 4, 6), _g(72, 8), _g(73, 6, lo=32, hi=128)
PEG_W, PEG_B = _g(74, 6, 1, 3, 3), _g(75, 6)
OPT = _g(67, 66, 8)

RESIDUE = np.array(list(range(8)) * 2 + [0, 1, 2, 3, 3, 3, 3, 4, 5, 6])
ASYM = np.repeat([0, 1, 2], [8, 8, 10])
ENTITY = np.repeat([0, 1], [16, 10])
SYM = np.repeat([0, 1, 0], [8, 8, 10])
TOKEN = np.arange(26)


def relpos(q_len, k_len):
    d = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
    onehot = np.abs(np.clip(d, -8, 8)[..., None] - np.arange(-8, 9)) == 0
    return np.einsum("ijb,bc->cij", onehot, RES[::-1])


def cyclic_relpos(q_len, k_len):
    P = 21
    d = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)
    d = torch.minimum(d.abs(), P - d.abs()).clamp(-8, 8)
    return torch.from_numpy(RES)[d + 8].permute(2, 0, 1)


def cyclic_bias(q_len, k_len):
    d = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)
    c = (d + 10) % 21 - 10
    out = np.take(RES, np.clip(c, -8, 8) + 8, axis=0)
    return out.transpose(2, 0, 1)


def _onehot(x, n):
    return np.eye(n)[x]


def _relative_encoding(same_chain, same_entity, far_chain, token_same, residue):
    r, s = 8, 2
    d = lambda v: v[:, None] - v[None, :]
    res = np.where(same_chain, np.clip(d(residue) + r, 0, 2 * r), 2 * r + 1)
    tok = np.where(token_same, np.clip(d(TOKEN) + r, 0, 2 * r), 2 * r + 1)
    ch = np.where(far_chain, 2 * s + 1, np.clip(d(SYM) + s, 0, 2 * s))
    feat = np.concatenate([_onehot(res, 18), _onehot(tok, 18), same_entity[..., None], _onehot(ch, 6)], -1)
    return np.einsum("cf,ijf->cij", CHAIN, feat)


def af3_encoding(q_len, k_len):
    eq = lambda v: v[:, None] == v[None, :]
    full = _relative_encoding(eq(ASYM), eq(ENTITY), eq(ASYM), eq(RESIDUE) & eq(ASYM), RESIDUE)
    return full[:, k_len - q_len : k_len, :k_len]


def multimer_encoding(q_len, k_len):
    eq = lambda v: v[:, None] == v[None, :]
    full = _relative_encoding(eq(ENTITY), eq(ENTITY), ~eq(ENTITY), eq(RESIDUE) & eq(ASYM), RESIDUE)
    return full[:, k_len - q_len : k_len, :k_len]


def pair_encoding(q_len, k_len):
    out = np.zeros((3, q_len, k_len))
    for i in range(k_len - q_len, k_len):
        for j in range(k_len):
            chain, entity = ASYM[i] == ASYM[j], ENTITY[i] == ENTITY[j]
            v = CHAIN[:, min(max(RESIDUE[i] - RESIDUE[j] + 8, 0), 16) if chain else 17].copy()
            v += CHAIN[:, 18 + (min(max(i - j + 8, 0), 16) if chain and RESIDUE[i] == RESIDUE[j] else 17)]
            v += CHAIN[:, 36] * entity
            v += CHAIN[:, 37 + (min(max(SYM[i] - SYM[j] + 2, 0), 4) if entity else 5)]
            out[:, i - (k_len - q_len), j] = v
    return out


def _mlp(x, act=F.silu):
    for n, (w, b) in enumerate(zip(DW, DB)):
        x = x @ torch.from_numpy(w).T + torch.from_numpy(b)
        x = act(x) if n < 2 else x
    return x


def dynamic_bias(q_len, k_len):
    pos = torch.arange(-(k_len - 1), k_len, dtype=torch.float64)
    pos = pos.sign() * torch.log(1 + pos.abs())
    table = _mlp(pos[:, None])
    i = torch.arange(k_len - q_len, k_len)[:, None]
    j = torch.arange(k_len)[None, :]
    return table[(i - j).abs() + k_len - 1].permute(2, 0, 1)


def dynamic_log_bias(q_len, k_len):
    d = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)).double()
    d = torch.sign(d) * torch.log2(d.abs() + 1)
    return _mlp(d[..., None], F.gelu).permute(2, 0, 1)


def _ln(x, g, b):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(v + 1e-5) * g + b


def window_mlp_bias(q_len, k_len):
    y, x = np.divmod(np.arange(24), 6)
    p = np.stack([y[:, None] - y, x[:, None] - x], -1).astype(float)
    p = p @ XW[0].T + XB[0]
    for n in (0, 1):
        p = _ln(np.maximum(p, 0), XG[n], XS[n]) @ XW[n + 1].T + XB[n + 1]
    return np.moveaxis(p, -1, 0)[:, k_len - q_len : k_len, :k_len]


def crossformer_bias(q_len, k_len):
    by, bx = np.meshgrid(np.arange(-3, 4), np.arange(-5, 6), indexing="ij")
    p = np.stack([by, bx], -1).reshape(-1, 2) @ XW[0].T + XB[0]
    for n in (0, 1):
        p = np.maximum(_ln(p, XG[n], XS[n]), 0) @ XW[n + 1].T + XB[n + 1]
    t = np.arange(24)
    idx = (t[:, None] // 6 - t // 6 + 3) * 11 + t[:, None] % 6 - t % 6 + 5
    return p.T[:, idx][:, k_len - q_len : k_len, :k_len]


def conv_positions(x):
    v, g = torch.from_numpy(CONV_V), torch.from_numpy(CONV_G)
    w = v * (g / v.norm(dim=(0, 1)))
    y = F.conv1d(x.double().mT, w, torch.from_numpy(CONV_B), padding=3, groups=2)
    return F.gelu(y[..., 1:]).mT.to(x.dtype)


def conv_pos_embed(x):
    v, g = torch.from_numpy(CONV_V), torch.from_numpy(CONV_G)
    w = v * (g / v.flatten(1).norm(dim=1).mean())
    y = F.conv1d(x.double().mT, w, torch.from_numpy(CONV_B), padding=3, groups=2)
    return F.gelu(y[..., :-1], approximate="tanh").mT.to(x.dtype)


def peg(x, height, width):
    w, b = torch.from_numpy(PEG_W).to(x.dtype), torch.from_numpy(PEG_B).to(x.dtype)
    z = x.mT.reshape(x.shape[0], x.shape[2], width, height)
    return (F.conv2d(z, w, b, padding=1, groups=6) + z).flatten(2).mT


def rel_shift(x):
    zeros = np.zeros((x.shape[0], 1), x.dtype)
    padded = np.concatenate([zeros, x], 1).reshape(x.shape[1] + 1, x.shape[0])
    return padded[:-1].reshape(x.shape)


def skew(x):
    q, k = x.shape
    out = np.zeros_like(x)
    for i in range(q):
        n = k - q + i + 1
        out[i, :n] = x[i, k - n :]
    return out


def relative_logits(q, rel):
    s = q.shape[0]
    x = np.pad(q @ rel.T, ((0, 0), (0, 1))).reshape(-1)
    return np.pad(x, (0, s - 1)).reshape(s + 1, 2 * s - 1)[:s, s - 1 :]


def offset_logits(q, rel):
    s = q.shape[0]
    idx = np.arange(s)[:, None] - np.arange(s) + s - 1
    return np.take_along_axis(q @ rel.T, idx, 1)


class OPTPositions(nn.Embedding):
    def __init__(self):
        super().__init__(66, 8)
        self.offset = 2
        self.weight.data = torch.from_numpy(OPT)

    def forward(self, positions):
        return super().forward(positions.clamp(max=63 - self.offset) + self.offset)


_opt = OPTPositions()


@torch.no_grad()
def opt_table(positions):
    return _opt(torch.as_tensor(positions).long())
