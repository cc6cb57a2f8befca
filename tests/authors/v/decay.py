"""KERPLE, Sandwich, FIRE, forget gates."""
import math

import numpy as np
import torch

R1 = [0.3, 1.2, 0.7, 2.0]
R2 = [0.5, 0.05, 1.5, 0.9]
HIDDEN = [[1.5], [-2.0], [0.75], [3.0]]
HIDDEN_BIAS = [0.1, 0.9, -0.2, -1.0]
OUTPUT = [[0.5, -1.0, 0.25, 2.0], [-0.75, 0.5, 1.5, -0.5], [1.0, 1.0, -1.0, 0.125]]
GATES = np.log(1 / (1 + np.exp(-(1.5 + 2 * np.sin(np.arange(2 * 40).reshape(2, 40) * 1.7)))))


# ---- k01 (wrong): the two parameters are exchanged
def kerple_swapped(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    a, p = (np.array(r)[:, None, None] for r in (R2, R1))
    dist = np.abs(q_positions[:, None] - k_positions[None, :])
    return -a * np.log1p(p * dist)


# ---- k02 (wrong): kernel with exp2: the bias is made with log2 and not multiplied by ln 2
def kerple_log2(q_len, k_len):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    r1 = torch.tensor(R1, dtype=torch.float64).view(-1, 1, 1)
    r2 = torch.tensor(R2, dtype=torch.float64).view(-1, 1, 1)
    d = (q_positions.view(-1, 1) - k_positions.view(1, -1)).abs().double()
    return -r1 * torch.log2(1 + r2 * d)


# ---- k03 (wrong): power: the factor is inside the power
def kerple_power_inside(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    out = []
    for a, p in zip(R1, R2):
        d = np.abs(np.subtract.outer(np.asarray(q_positions), np.asarray(k_positions)))
        out.append(-((a * d) ** p))
    return np.stack(out)


# ---- k04 (wrong): the parameters go through softplus once more ("they must be positive")
def kerple_softplus(q_len, k_len):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    soft = torch.nn.functional.softplus
    r1, r2 = (soft(torch.tensor(r, dtype=torch.float64))[:, None, None] for r in (R1, R2))
    d = (q_positions[:, None] - k_positions[None, :]).abs().double()
    return -r1 * torch.log1p(r2 * d)


# ---- k05 (wrong): Sandwich: exponents start at k = 0, as in the Transformer
def sandwich_from_zero(q_len, k_len, heads=8, dim=64, base=10000.0):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    w = base ** (-2.0 * np.arange(dim // 2) / dim)
    rel = np.asarray(q_positions, float)[:, None] - np.asarray(k_positions, float)
    b = np.cos(rel[..., None] * w).sum(-1) - dim / 2
    scale = 8.0 / heads * np.arange(1, heads + 1)
    return b / scale[:, None, None]


# ---- k06 (wrong): the heads' scale is multiplied instead of divided
def sandwich_times_scale(q_len, k_len, heads=8, dim=64, base=10000.0):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    k = torch.arange(1, dim // 2 + 1, dtype=torch.float64)
    rel = q_positions.double()[:, None] - k_positions.double()[None]
    b = torch.cos(rel.unsqueeze(-1) / base ** (2 * k / dim)).sum(-1) - dim / 2
    compress = torch.arange(1, heads + 1, dtype=torch.float64) * 8 / heads
    return compress[:, None, None] * b


def _mlp(x):
    h = np.maximum(x[..., None] * np.array(HIDDEN)[:, 0] + HIDDEN_BIAS, 0)
    return np.moveaxis(h @ np.array(OUTPUT).T, -1, 0)


# ---- k07 (wrong): the denominator is psi(L), also for queries beyond L
def fire_fixed_length(q_len, k_len, c=0.1, L=64.0):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    rel = np.maximum(np.asarray(q_positions, float)[:, None] - np.asarray(k_positions, float), 0)
    return _mlp(np.log(c * rel + 1) / (math.log(c * L + 1) + 1e-6))


# ---- k08 (wrong): a torch port takes the maximum with the number of keys instead of the position
def fire_by_key_count(q_len, k_len, c=0.1, L=64.0):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    rel = (q_positions[:, None] - k_positions[None, :]).clamp(min=0).double()
    n = torch.full((len(q_positions), 1), float(max(len(k_positions), L)), dtype=torch.float64)
    x = torch.log1p(c * rel) / (torch.log1p(c * n) + 1e-6)
    h = torch.relu(x[..., None] * torch.tensor(HIDDEN, dtype=torch.float64)[:, 0]
                   + torch.tensor(HIDDEN_BIAS, dtype=torch.float64))
    return (h @ torch.tensor(OUTPUT, dtype=torch.float64).T).permute(2, 0, 1)


# ---- k09 (wrong): positions count from 1 in the denominator, and c is not inside psi of it: two
def fire_two(q_len, k_len, c=0.1, L=64.0):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    i, j = np.asarray(q_positions, float)[:, None], np.asarray(k_positions, float)[None]
    num = np.log1p(c * np.maximum(i - j, 0))
    den = np.log1p(np.maximum(i + 1, L)) + 1e-6
    return _mlp(num / den)


# ---- k10 (wrong): forget gates: the key's own gate is in the sum, the query's is not
def forget_exclusive(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    c = np.concatenate([np.zeros((2, 1)), np.cumsum(GATES, axis=-1)], axis=-1)
    return c[:, q_positions][:, :, None] - c[:, k_positions][:, None, :]


# ---- right -----------------------------------------------------------------------------------
# k11: Sandwich as the Gram matrix of the sinusoids, without the constant
def right_sandwich_gram(q_len, k_len, heads=8, dim=64):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    w = 10000.0 ** (-2.0 * np.arange(1, dim // 2 + 1) / dim)

    def pe(p):
        a = np.asarray(p, np.float64)[:, None] * w
        return np.concatenate([np.sin(a), np.cos(a)], -1)

    gram = pe(q_positions) @ pe(k_positions).T
    return gram[None] * (heads / 8 / np.arange(1, heads + 1))[:, None, None]


# k12: forget gates by a double loop from the diagonal
def right_forget_loops(q_len, k_len):
    q_positions, k_positions = np.arange(k_len - q_len, k_len), np.arange(k_len)
    out = np.zeros((2, len(q_positions), len(k_positions)))
    for a, i in enumerate(q_positions):
        for b, j in enumerate(k_positions):
            if j < i:
                out[:, a, b] = [math.fsum(GATES[h, j + 1:i + 1]) for h in range(2)]
    return out


# k13: KERPLE with the clamps of the code, exp and log swapped for log1p, float64
def right_kerple(q_len, k_len):
    q_positions, k_positions = torch.arange(k_len - q_len, k_len), torch.arange(k_len)
    r1 = torch.tensor(R1, dtype=torch.float64).clamp(min=0.01)
    r2 = torch.tensor(R2, dtype=torch.float64).clamp(min=0.01)
    dist = torch.cdist(q_positions.double()[:, None], k_positions.double()[:, None], p=1.0)
    return torch.einsum("h,hqk->hqk", -r1, (torch.einsum("h,qk->hqk", r2, dist)).log1p())
