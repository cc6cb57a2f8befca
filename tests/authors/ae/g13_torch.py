"""The same kinds of functions in PyTorch (a NumPy argument gives a NumPy result)."""

import math

import numpy as np
import torch


def _in(x):
    return torch.as_tensor(x), not isinstance(x, torch.Tensor)


def _out(y, numpy):
    return y.numpy() if numpy else y


def _slopes(n):
    c = 2 ** math.floor(math.log2(n))
    m = [2.0 ** (-8.0 * (h + 1) / c) for h in range(c)]
    return torch.tensor(m + [2.0 ** (-4.0 * (2 * h + 1) / c) for h in range(n - c)], dtype=torch.float64)


# --- right -------------------------------------------------------------------------------


def complex_table(positions):
    """Rows by torch.polar in complex128, its parts exchanged by flip."""
    p, numpy = _in(positions)
    w = torch.exp(torch.arange(32, dtype=torch.float64) * (-math.log(10000.0) / 32))
    angle = p.to(torch.float64)[..., None] * w
    z = torch.view_as_real(torch.polar(torch.ones_like(angle), angle))
    return _out(z.flip(-1).flatten(-2).to(torch.float32), numpy)


# --- wrong -------------------------------------------------------------------------------


class PositionalEncoding(torch.nn.Module):
    """The module of the PyTorch tutorial, whose x is (S, B, D)."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)].to(x.dtype)


_MODULE = PositionalEncoding(64)


def batch_first_add(x):
    x, numpy = _in(x)
    return _out(_MODULE(x), numpy)


def slots_attention(q, k, v, q_positions, k_positions):
    """Distances of places in the cache; gaps in the positions do not count."""
    (q, numpy), k, v = _in(q), torch.as_tensor(k), torch.as_tensor(v)
    h, n_q, d = q.shape[1:]
    n_k = k.shape[2]
    k, v = (t.repeat_interleave(h // t.shape[1], dim=1) for t in (k, v))
    i, j = torch.arange(n_k - n_q, n_k)[:, None], torch.arange(n_k)
    x = (q.double() @ k.double().transpose(-1, -2)) / math.sqrt(d) - _slopes(h)[:, None, None] * (i - j)
    w = torch.softmax(x.masked_fill(j > i, -torch.inf), dim=-1)
    return _out((w @ v.double()).to(q.dtype), numpy)


_TABLE = np.random.default_rng(71).standard_normal((32, 8)).astype(np.float32)
_STARTS = torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91])


def divided_scores(q, k):
    """T5 does not divide q . k by sqrt(d)."""
    (q, numpy), k = _in(q), torch.as_tensor(k)
    n_q, n_k = q.shape[2], k.shape[2]
    r = torch.arange(n_k) - torch.arange(n_k - n_q, n_k)[:, None]
    bucket = torch.bucketize(r.abs(), _STARTS, right=True) + 16 * (r > 0)
    bias = torch.nn.functional.embedding(bucket, torch.from_numpy(_TABLE)).permute(2, 0, 1)
    return _out(torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(q.shape[-1]) + bias.to(q.dtype), numpy)
