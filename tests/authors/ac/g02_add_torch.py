"""PositionalEncoding modules, PyTorch."""
import math

import torch
from torch import nn


def _pe(length, d, start=0):
    p = torch.arange(start, start + length, dtype=torch.float64)[:, None]
    div = torch.exp(torch.arange(0, d, 2, dtype=torch.float64) * (-math.log(10000.0) / d))
    pe = torch.zeros(length, d, dtype=torch.float64)
    pe[:, 0::2] = torch.sin(p * div)
    pe[:, 1::2] = torch.cos(p * div)
    return pe


# ---------------------------------------------------------------- right
class Lazy(nn.Module):
    """Grows by doubling; computes in float64; adds in x's dtype after rounding once."""

    def __init__(self, d):
        super().__init__()
        self.d, self.pe = d, _pe(16, d)

    def forward(self, x):
        while self.pe.shape[0] < x.shape[1]:
            n = self.pe.shape[0]
            self.pe = torch.cat([self.pe, _pe(n, self.d, start=n)])
        return (x.double() + self.pe[: x.shape[1]]).to(x.dtype)


_lazy = Lazy(96)


def add_lazy(x):
    return _lazy(x)


class FairseqSinusoid(nn.Module):
    """padding_idx = 1, so token 0 has row 2; weights are rebuilt when the sequence is longer."""

    def __init__(self, dim, padding_idx=1):
        super().__init__()
        self.dim, self.padding_idx, self.weights = dim, padding_idx, None

    def get_embedding(self, n):
        half = self.dim // 2
        emb = math.log(10000) / (half - 1)
        emb = torch.exp(torch.arange(half, dtype=torch.float64) * -emb)
        emb = torch.arange(n, dtype=torch.float64).unsqueeze(1) * emb.unsqueeze(0)
        emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=1)
        emb[self.padding_idx] = 0
        return emb.float()

    def forward(self, seq_len):
        top = self.padding_idx + 1 + seq_len
        if self.weights is None or top > self.weights.shape[0]:
            self.weights = self.get_embedding(top)
        index = torch.arange(self.padding_idx + 1, top)
        return self.weights.index_select(0, index)


_fairseq = FairseqSinusoid(48)


def rows_fairseq(seq_len):
    return _fairseq(int(seq_len))


def add_einsum_onehot(x):
    """The table by a product of one-hot digits: position = 32 a + b."""
    b, s, d = x.shape
    w = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    low = torch.polar(torch.ones(32, d // 2, dtype=torch.float64),
                      torch.arange(32, dtype=torch.float64)[:, None] * w)
    high_n = -(-s // 32)
    high = torch.polar(torch.ones(high_n, d // 2, dtype=torch.float64),
                       32 * torch.arange(high_n, dtype=torch.float64)[:, None] * w)
    z = torch.einsum("ak,bk->abk", high, low).reshape(-1, d // 2)[:s]
    table = torch.stack([z.imag, z.real], -1).flatten(-2)
    return torch.cat([(row[None].double() + table).to(x.dtype) for row in x])


# ---------------------------------------------------------------- wrong
def _sum(x, rows):
    return (x.double() + rows.double()).to(x.dtype)


_buffer = _pe(5000, 64)


def _upto(n):
    global _buffer
    if n > _buffer.shape[0]:
        _buffer = _pe(n, 64)
    return _buffer


def sequence_first(x):
    """The tutorial's x + pe[:x.size(0)] with pe (L, 1, d), for x (B, S, d)."""
    pe = _upto(x.size(0)).unsqueeze(1)
    return _sum(x, pe[: x.size(0)])


def embedding_scaled(x):
    return _sum(x.double() * math.sqrt(x.shape[-1]), _upto(x.shape[1])[: x.shape[1]]).to(x.dtype)


class Streaming(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        s = x.shape[1]
        rows = _pe(s, 64, start=self.seen)
        self.seen += s  # never reset between sequences
        return _sum(x, rows)


_streaming = Streaming()


def offset_kept(x):
    return _streaming(x)


def dropout_on(x):
    y = _sum(x, _upto(x.shape[1])[: x.shape[1]])
    return nn.functional.dropout(y, 0.1, training=True)


def first_row_only(x):
    """y[0] instead of y[:] in a port that had no batch."""
    y = x.clone()
    y[0] = _sum(x[0], _upto(x.shape[1])[: x.shape[1]])
    return y


_cached = {}


def stale_cache(x):
    """The table is cached by width alone, and padded with zeros for longer inputs."""
    d = x.shape[-1]
    if d not in _cached:
        _cached[d] = _pe(256, d)
    pe = _cached[d]
    s = x.shape[1]
    if s > pe.shape[0]:
        pe = nn.functional.pad(pe, (0, 0, 0, s - pe.shape[0]))
    return _sum(x, pe[:s])


def bf16_table(x):
    """The module was cast to bfloat16 with its buffer; the sum is float32 again."""
    s = x.shape[1]
    return _sum(x, _upto(s)[:s].to(torch.bfloat16))


