"""ALiBi, Kerple, Sandwich, FIRE, forgetting gates."""
import math
import os

import numpy as np
import torch

W = np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.npz"))


# 035: ALiBi(12), surface slopes
def get_slopes(num_heads):
    def pow2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(num_heads).is_integer():
        return np.array(pow2(num_heads))
    c = 2 ** math.floor(math.log2(num_heads))
    return np.array(pow2(c) + pow2(2 * c)[1::2][: num_heads - c])


# 036: Sandwich(4, 16), surface bias: inner product of two tables, rows 1.. of the exponents
def sandwich(q_len, k_len, heads=4, dim=16, base=1e4):
    freq = base ** (-np.arange(1, dim // 2 + 1) / dim)
    ang = np.arange(k_len)[:, None] * freq
    tab = np.concatenate([np.sin(ang), np.cos(ang)], 1)
    gram = tab[k_len - q_len :] @ tab.T - dim / 2
    return gram[None] / (8 * np.arange(1, heads + 1) / heads)[:, None, None]


# 037: ALiBi(8, causal=False), surface bias
def encoder_bias(q_len, k_len):
    m = 2.0 ** -np.arange(1, 9)
    i, j = np.arange(q_len)[:, None], np.arange(k_len)[None, :]
    return (-m[:, None, None] * np.abs(i - j)).astype(np.float32)


# 038: ALiBi(8), surface bias: tensor parallel on two ranks, results gathered
def parallel_bias(q_len, k_len, tp=2, n=8):
    dist = torch.arange(k_len)[None, :] - (torch.arange(q_len)[:, None] + k_len - q_len)
    parts = []
    for rank in range(tp):
        local = n // tp
        m = 2.0 ** (-8.0 * (torch.arange(local) + 1 ) / local)
        parts.append(-m[:, None, None] * dist.abs())
    return torch.cat(parts)


# 039: ALiBi(8, causal=False), surface bias
class Slopes:
    def __init__(self, n=8):
        self.slopes = torch.tensor([2.0 ** (-8 * (h + 1) / n) for h in range(n)])

    def __call__(self, q_len, k_len):
        ctx = torch.arange(k_len - q_len, k_len)[:, None]
        mem = torch.arange(k_len)[None, :]
        rel = (mem - ctx).abs().float()
        return self.slopes.neg_().view(-1, 1, 1) * rel


stateful_alibi = Slopes()


# 040: ALiBi(4), surface bias: "bias has the dtype of the activations"
def bf16_bias(q_len, k_len):
    m = torch.tensor([2.0 ** (-2 * (h + 1)) for h in range(4)])
    d = torch.arange(k_len - q_len, k_len)[:, None] - torch.arange(k_len)[None]
    b = -(m[:, None, None] * d.abs()).to(torch.bfloat16)
    return b.float()


# 043 (two): ALiBi(6, causal=False), surface bias
def alibi_two(q_len, k_len, heads=6):
    m = np.array([2 ** (-8 * (h + 1) / heads) for h in range(heads)])
    rel = np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]
    return m[:, None, None] * np.tile(rel, (heads, 1, 1))


# 044: Kerple([1.5, 0.7, 0.2], [0.3, 1.1, 0.9], form="power"), surface bias
def kerple_power(q_len, k_len):
    a, p = np.array([1.5, 0.7, 0.2]), np.array([0.3, 1.1, 0.9])
    d = np.abs(np.subtract.outer(np.arange(k_len - q_len, k_len), np.arange(k_len))).astype(float)
    return -((a[:, None, None] * d) ** p[:, None, None])


# 045: Kerple([0.5, 1.2, 2.0, 0.05], [0.04, 0.4, 3.0, 1.0]), surface bias: parameters are clamped as in the authors' code
def kerple_log(q_len, k_len, eps=1e-2):
    r1 = torch.tensor([0.5, 1.2, 2.0, 0.05]).clamp(eps, 1.0)
    r2 = torch.tensor([0.04, 0.4, 3.0, 1.0]).clamp(min=eps)
    diff = torch.tril(
        torch.arange(k_len - q_len, k_len).view(-1, 1) - torch.arange(k_len).view(1, -1),
        diagonal=k_len - q_len,
    )
    diff = diff.float()
    return -r1.view(-1, 1, 1) * torch.log(1 + r2.view(-1, 1, 1) * diff)


# 047: fire, surface bias
def fire_threshold(q_len, k_len, L=16.0, c=0.1, eps=1e-6):
    i = np.arange(k_len - q_len, k_len, dtype=np.float64)[:, None]
    j = np.arange(k_len, dtype=np.float64)[None]
    rel = np.maximum(i - j, 0)
    norm = np.maximum(rel, L)
    x = np.log(1 + c * rel) / (np.log(1 + c * norm) + eps)
    h = np.maximum(x[..., None] * W["fi_h"][:, 0] + W["fi_b"], 0)
    return np.moveaxis(h @ W["fi_o"].T + W["fi_ob"], -1, 0)


# 048: fire, surface bias: normalised by the length of the sequence
class FIREModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
        with torch.no_grad():
            for p, n in zip(self.mlp.parameters(), ("fi_h", "fi_b", "fi_o", "fi_ob")):
                p.copy_(torch.tensor(W[n]))
        self.c, self.init_L = 0.1, 16.0

    @torch.no_grad()
    def forward(self, q_len, k_len):
        pos = torch.arange(k_len, dtype=torch.float32)
        rel = (pos[k_len - q_len :, None] - pos[None]).clamp(min=0)
        top = pos.max().clamp(min=self.init_L)
        x = torch.log1p(self.c * rel) / (torch.log1p(self.c * top) + 1e-6)
        return self.mlp(x.unsqueeze(-1)).permute(2, 0, 1)


_fire = FIREModule()


def fire_seq_len(q_len, k_len):
    return _fire(q_len, k_len)


# 049: forget, surface bias: gates of 64 tokens
def fox_bias(q_len, k_len):
    g = W["gates"].astype(np.float64)
    excl = np.cumsum(g, -1) - g  # exclusive sums
    qi = np.arange(k_len - q_len, k_len)
    return excl[:, qi, None] - excl[:, None, :k_len]
