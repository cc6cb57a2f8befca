import math

import numpy as np
import torch
from torch import nn

R1 = [0.5, 1.25, 2.0]
R2 = [0.25, 1.0, 1.75]
_g = lambda s, *shape: np.random.default_rng(s).integers(-64, 65, shape) / 64
W1, B1, W2, B2 = _g(7, 16, 1), _g(8, 16), _g(9, 4, 16), _g(10, 4)


class KerpleLog(nn.Module):
    def __init__(self, r1, r2):
        super().__init__()
        self.p = nn.Parameter(torch.tensor(r1)[:, None, None])
        self.a = nn.Parameter(torch.tensor(r2)[:, None, None])

    def forward(self, q_len, k_len):
        p = self.p.clamp(min=1e-2)
        a = self.a.clamp(min=1e-2, max=1.0)
        dist = (torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)[None]).abs()
        return -p * torch.log(1 + a * dist)


_kerple = KerpleLog(R1, R2)


def kerple_log(q_len, k_len):
    with torch.no_grad():
        return _kerple(q_len, k_len)


def kerple_power(q_len, k_len):
    i = np.arange(k_len - q_len, k_len)[:, None]
    j = np.arange(k_len)[None, :]
    dist = np.abs(i - j).astype(np.float64)
    return np.stack([-((a * dist) ** b) for a, b in zip(R1, R2)])


def kerple_numpy(q_len, k_len):
    r1 = np.array(R1).reshape(-1, 1, 1)
    r2 = np.array(R2).reshape(-1, 1, 1)
    dist = np.abs(np.subtract.outer(np.arange(q_len), np.arange(k_len)) + k_len - q_len)
    return -r1 * np.log1p(r2) * dist


def _mlp(x):
    return np.einsum("hw,wqk->hqk", W2, np.maximum(W1[:, 0, None, None] * x + B1[:, None, None], 0)) + B2[:, None, None]


def fire_bias(q_len, k_len):
    c, length, eps = 0.1, 24.0, 1e-6
    i = np.arange(k_len - q_len, k_len)[:, None]
    j = np.arange(k_len)[None, :]
    dist = np.maximum(i - j, 0)
    scale = np.log1p(c * max(k_len - 1, length)) + eps
    return _mlp(np.log1p(c * dist) / scale)


class FIRE(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 4)).double()
        with torch.no_grad():
            for p, v in zip(self.mlp.parameters(), (W1, B1, W2, B2)):
                p.copy_(torch.from_numpy(v))
        self.c = 0.1
        self.threshold = 24.0
        self.eps = 1e-6

    def forward(self, q_len, k_len):
        pos = torch.arange(k_len - q_len, k_len, dtype=torch.float64)
        rel = (pos[:, None] - torch.arange(k_len)[None, :]).clamp(min=0)
        norm = torch.clamp(pos + 1, min=self.threshold)[:, None]
        rel = torch.log(self.c * rel + 1)
        norm = torch.log(self.c * norm + 1) + self.eps
        return self.mlp((rel / norm).unsqueeze(-1)).permute(2, 0, 1)


_fire = FIRE()


@torch.no_grad()
def fire_module(q_len, k_len):
    return _fire(q_len, k_len)


def fire_numpy(q_len, k_len):
    psi = lambda x: np.log(1 + 0.1 * x)
    i = np.arange(k_len - q_len, k_len)[:, None].astype(float)
    j = np.arange(k_len)[None, :]
    ratio = np.maximum(i - j, 0) / np.maximum(i, 24.0)
    return _mlp(psi(ratio))


def fire_rows(q_len, k_len):
    out = np.empty((4, q_len, k_len))
    psi = lambda x: math.log1p(0.1 * x)
    for row in range(q_len):
        i = row + k_len - q_len
        den = max(psi(i), psi(24.0)) + 1e-6
        x = np.array([psi(max(i - j, 0)) / den for j in range(k_len)])
        h = np.maximum(x[:, None] * W1[:, 0] + B1, 0)
        out[:, row] = W2 @ h.T + B2[:, None]
    return out


def sandwich(q_len, k_len):
    heads, dim = 8, 128
    rel = np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len)[None, :]
    inv = 10000.0 ** (-np.arange(0, dim, 2) / dim)
    g = np.cos(rel[..., None] * inv).sum(-1) - dim / 2
    return g * (heads / (8.0 * np.arange(1, heads + 1)))[:, None, None]


def sandwich_bias(q_len, k_len):
    heads, dim = 8, 128
    rel = torch.arange(k_len - q_len, k_len).view(-1, 1) - torch.arange(k_len).view(1, -1)
    inv = 10000.0 ** (-2.0 * torch.arange(1, dim // 2 + 1, dtype=torch.float64) / dim)
    g = torch.cos(rel[..., None] * inv).sum(-1) - dim // 2
    slopes = 8.0 * torch.arange(1, heads + 1) / heads
    return g * slopes[:, None, None]


def sandwich_products(q_len, k_len):
    heads, dim, base = 6, 64, 10000.0
    k = np.arange(1, dim // 2 + 1)
    ang = np.arange(k_len)[:, None] / base ** (2 * k / dim)
    table = np.concatenate([np.sin(ang), np.cos(ang)], axis=1)
    gram = np.einsum("id,jd->ij", table[k_len - q_len :], table) - dim / 2
    return np.multiply.outer(heads / (8.0 * np.arange(1, heads + 1)), gram)


def sandwich_torch(q_len, k_len):
    heads, dim = 4, 64
    pairs = dim // 2
    pos = torch.arange(k_len, dtype=torch.float64)
    inv = torch.exp(-math.log(10000.0) * 2 * torch.arange(1, pairs + 1, dtype=torch.float64) / pairs)
    angle = (pos[-q_len:, None] - pos[None, :])[..., None] * inv
    ratio = 8 * torch.arange(heads, 0, -1) / heads
    return (angle.cos().sum(-1) - pairs)[None] / ratio[:, None, None]


_FOX = -(np.random.default_rng(29).integers(1, 64, (3, 48)) / 128)


def forget_bias(q_len, k_len):
    f = np.cumsum(_FOX[:, :k_len], axis=1)
    start = np.pad(f, ((0, 0), (1, 0)))[:, :k_len]
    return f[:, k_len - q_len :, None] - start[:, None, :]


def forget_scores(q, k):
    f = torch.from_numpy(_FOX)
    total = f.flip(-1).cumsum(-1).flip(-1)[:, : k.shape[2]]
    bias = total[:, None, :] - total[:, k.shape[2] - q.shape[2] :, None]
    s = q.double() @ k.double().transpose(-1, -2) / math.sqrt(q.shape[-1])
    return (s + bias).to(q.dtype)


def decay_bias(q_len, k_len):
    g = torch.from_numpy(_FOX)[:, :k_len].exp()
    out = torch.zeros(3, q_len, k_len, dtype=torch.float64)
    for row in range(q_len):
        i = row + k_len - q_len
        for j in range(i):
            out[:, row, j] = g[:, j + 1 : i + 1].prod(-1).log()
    return out


def gate_bias(q_len, k_len):
    c = torch.from_numpy(_FOX)[:, :k_len].bfloat16().cumsum(1)
    return (c[:, k_len - q_len :, None] - c[:, None, :]).float()
