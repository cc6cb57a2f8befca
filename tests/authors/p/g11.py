"""Rotations with state or gradients (torch), tables and ids."""
import json
import math
from pathlib import Path

import numpy as np
import torch

OPT = torch.tensor(json.loads((Path(__file__).parent / "opt.json").read_text())["weight"], dtype=torch.float64)


def autograd_vjp(x, positions, dy):
    x = x.detach().double().requires_grad_(True)
    w = 10000.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    a = positions.double()[..., None] * w
    if a.dim() == 3:
        a = a[:, None]
    e, o = x[..., 0::2], x[..., 1::2]
    y = torch.stack((e * a.cos() - o * a.sin(), o * a.cos() + e * a.sin()), -1).flatten(-2)
    y.backward(dy.double())
    return x.grad.to(dy.dtype)


class Stream(torch.nn.Module):
    def __init__(self, d, base=10000.0):
        super().__init__()
        w = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        self.register_buffer("w", w)
        self.register_buffer("phase", torch.zeros(d // 2, dtype=torch.float64))
        self.n = 0

    def forward(self, x):
        s = x.shape[-2]
        a = torch.arange(s, dtype=torch.float64)[:, None] * self.w + self.phase
        self.n += s
        self.phase = self.n * self.w
        c, n = torch.cos(a), torch.sin(a)
        u, v = x.double().tensor_split(2, -1)
        return torch.addcmul(torch.cat((u, v), -1) * torch.cat((c, c), -1), torch.cat((-v, u), -1), torch.cat((n, n), -1)).to(x.dtype)


def stream_decode(x, chunks):
    m = Stream(x.shape[-1])
    return torch.cat([m(t) for t in torch.split(x, list(chunks), dim=-2)], dim=-2)


def raw_cache(k, chunks):
    raw = [p for p in k.split(list(chunks), -2)]
    k = torch.cat(raw, -2)
    n, d = k.shape[-2], k.shape[-1]
    alpha = max(2.0 * n / 2048 - 1.0, 1.0)
    w = (10000.0 * alpha ** (d / (d - 2))) ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    a = torch.arange(n, dtype=torch.float64)[:, None] * w
    u, v = k.double().chunk(2, -1)
    return torch.cat((u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()), -1).to(k.dtype)


def dynamic_requests(requests):
    tables = {}
    out = []
    for x, offset in requests:
        end, d = int(offset) + x.shape[-2], x.shape[-1]
        length = max(end, 2048)
        if length not in tables:
            alpha = 2.0 * length / 2048 - 1.0
            tables[length] = (10000.0 * alpha ** (d / (d - 2))) ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        a = torch.arange(int(offset), end, dtype=torch.float64)[:, None] * tables[length]
        u, v = x.double().chunk(2, -1)
        out.append(torch.cat((u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()), -1).to(x.dtype))
    return out


def drop_keys(rotated_k, kept, dropped):
    d = rotated_k.shape[-1]
    w = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    s = rotated_k.shape[-2]
    keep = torch.cat((torch.arange(kept), torch.arange(kept + dropped, s)))
    back = torch.where(keep < kept, 0, dropped).double()
    a = back[:, None] * w
    k = rotated_k.index_select(-2, keep)
    z = torch.complex(k[..., : d // 2].double(), k[..., d // 2:].double()) * torch.exp(-1j * a)
    return torch.cat((z.real, z.imag), -1).to(k.dtype)


def norm_then_turn(x, weight, positions):
    d = x.shape[-1]
    v = x.double()
    norm = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    v = v / torch.sqrt(norm.square() / d + 1e-6)
    w = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    a = positions.double()[..., None] * w
    if a.dim() == 3:
        a = a[:, None]
    g1, g2 = weight.double().chunk(2)
    u, t = v.chunk(2, -1)
    return torch.cat((u * (g1 * a.cos()) - t * (g2 * a.sin()), t * (g2 * a.cos()) + u * (g1 * a.sin())), -1).to(x.dtype)


def tensor2tensor(positions):
    dim = 512
    i = np.arange(dim)
    k = i % (dim // 2)
    rate = np.power(10000.0, -k / (dim // 2 - 1))
    return np.sin(np.asarray(positions, np.float64)[:, None] * rate + (i >= dim // 2) * (np.pi / 2))


def sine_extra(positions):
    d = 33
    rate = 10000.0 ** (-2 * np.arange(17) / d)
    a = np.asarray(positions, np.float64)[:, None] * rate
    out = np.zeros((len(a), d))
    out[:, ::2] = np.sin(a)
    out[:, 1::2] = np.cos(a[:, :16])
    return out


def fairseq_add(x):
    b, s, d = x.shape
    p = torch.arange(2, s + 2, dtype=torch.float64)
    f = torch.logspace(0, -4, d // 2, dtype=torch.float64)
    a = torch.outer(p, f)
    return (x + torch.cat((a.sin(), a.cos()), 1).expand(b, s, d)).to(x.dtype)


def detr_cumsum(height, width):
    mask = torch.zeros(height, width, dtype=torch.bool)
    y, x = (~mask).double().cumsum(0), (~mask).double().cumsum(1)
    two_pi = 2 * math.pi
    y, x = y * two_pi / (y[-1:] + 1e-6), x * two_pi / (x[:, -1:] + 1e-6)
    w = torch.exp(-math.log(10000.0) * torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    z = torch.stack((y, x), -1)[..., None] * w
    return torch.stack((z.sin(), z.cos()), -1).reshape(-1, 128)


def opt_rows(seq_len):
    return OPT.narrow(0, 2, seq_len)


def opt_onehot(positions):
    p = torch.as_tensor(positions).long()
    return torch.nn.functional.one_hot(p + 2, len(OPT)).double() @ OPT


def roberta_loop(input_ids):
    ids = np.full(np.shape(input_ids), 1, dtype=np.int64)
    for b, row in enumerate(np.asarray(input_ids)):
        n = 1
        for s, t in enumerate(row):
            if t != 1:
                n += 1
                ids[b, s] = n
    return ids


def mask_positions(attention_mask):
    m = torch.as_tensor(attention_mask).bool()
    order = torch.tril(torch.ones(m.shape[-1], m.shape[-1], dtype=torch.int64))
    count = (m.long()[:, None, :] * order).sum(-1)
    return torch.where(m, count - 1, torch.ones_like(count))


def packed_repeat(lengths):
    n = np.asarray(lengths, dtype=np.int64)
    return np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)


def llama4_logits(q, k, v, q_positions, k_positions):
    p = np.asarray(q_positions, np.int64)
    t = 1 + 0.1 * np.log(1.0 + (p + 1) // 64)
    b, h, n, d = q.shape
    g = h // k.shape[1]
    q6 = q.astype(np.float64).reshape(b, k.shape[1], g, n, d)
    s = np.einsum("bkgqd,bkmd->bkgqm", q6, k.astype(np.float64)) / math.sqrt(d)
    s = s * (t[:, None, None, :, None] if t.ndim == 2 else t[:, None])
    m = s.shape[-1]
    s[..., ~np.tri(n, m, m - n, dtype=bool)] = -np.inf
    w = np.exp(s - np.max(s, -1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    return np.einsum("bkgqm,bkmd->bkgqd", w, v.astype(np.float64)).reshape(b, h, n, -1).astype(q.dtype)
