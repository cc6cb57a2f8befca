"""Rows 0 .. S - 1 of tables, and modules that add them to embeddings."""

import math

import numpy as np
import torch


def weights(seed, *shape, size=0.5):
    return (size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


# ------------------------------------------------------------------ rows


class DoublingTable:
    """Whisper's sinusoids; the buffer doubles until it is long enough, and is never shrunk."""

    def __init__(self, channels=48):
        step = math.log(10000) / (channels // 2 - 1)
        self.inv = np.exp(-step * np.arange(channels // 2))
        self.buffer = np.zeros((0, channels), np.float32)

    def _fill(self, n):
        t = np.arange(n)[:, None] * self.inv[None, :]
        self.buffer = np.concatenate([np.sin(t), np.cos(t)], axis=1).astype(np.float32)

    def __call__(self, seq_len):
        if seq_len > len(self.buffer):
            self._fill(max(seq_len, 2 * len(self.buffer), 8))
        return self.buffer[:seq_len].copy()


whisper_rows = DoublingTable()


class ExtendedTable:
    """The paper's table with 32 rows at first; longer inputs append what is missing."""

    def __init__(self, dim=48, rows=32):
        self.dim = dim
        self.table = self._make(rows)

    def _make(self, count):
        p = np.arange(count, dtype=np.float64)
        inv = 10000.0 ** (-np.arange(0, self.dim, 2) / self.dim)
        out = np.zeros((count, self.dim))
        out[:, 0::2] = np.sin(p[:, None] * inv)
        out[:, 1::2] = np.cos(p[:, None] * inv)
        return out

    def __call__(self, seq_len):
        missing = seq_len - len(self.table)
        if missing > 0:
            self.table = np.concatenate([self.table, self._make(missing)])
        return self.table[:seq_len]


appended_rows = ExtendedTable()


def xlm_odd_rows(seq_len, dim=33):
    """XLM: an odd width has one sine more than cosines."""
    pairs = dim // 2
    inv = np.array([10000.0 ** (-k / pairs) for k in range(pairs + 1)])
    angle = np.arange(seq_len)[:, None] * inv
    out = np.zeros((seq_len, dim))
    out[:, 0::2] = np.sin(angle)
    out[:, 1::2] = np.cos(angle[:, :pairs])
    return out


def patchtst_rows(seq_len):
    d = 32
    angle = np.arange(seq_len)[:, None] / 10000.0 ** (np.arange(0, d, 2) / d)
    pe = np.zeros((seq_len, d))
    pe[:, 0::2], pe[:, 1::2] = np.sin(angle), np.cos(angle)
    return (pe - pe.mean()) / (10 * pe.std(ddof=1))


OPT = weights(21, 130, 16)


def opt_rows(seq_len):
    """OPTLearnedPositionalEmbedding; the mask of a whole sequence is ones."""
    ids = np.cumsum(np.ones(seq_len, np.int64)) - 1
    return OPT[ids]


AXES = weights(22, 8, 20), weights(23, 16, 20)


def axial_by_outer_sum(seq_len):
    first, second = AXES
    whole = (first[:, None, :] + second[None, :, :]).reshape(-1, first.shape[1])
    return whole[:seq_len]


# ------------------------------------------------------------------ add


class PositionalEncoding(torch.nn.Module):
    def __init__(self, d_model=32):
        super().__init__()
        div = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float64) * (-math.log(1e4) / d_model))
        self.register_buffer("div", div, persistent=False)

    def forward(self, x):
        angle = torch.arange(x.size(1), dtype=torch.float64)[:, None] * self.div
        pe = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)
        return x + pe.to(x.dtype)


_module = PositionalEncoding().eval()


def torch_module_add(x):
    with torch.no_grad():
        return _module(x)


def paper_pe(count, dim, base=10000.0):
    angle = np.arange(count)[:, None] / base ** (np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(count, dim)


def embeddings_then_add(x):
    """The Annotated Transformer has Embeddings (times sqrt(d)) and PositionalEncoding in a row."""
    d = x.shape[-1]
    return (x * math.sqrt(d) + paper_pe(x.shape[1], d)).astype(x.dtype)


def sequence_first_add(x):
    """pe is (max_len, 1, d) in PyTorch's tutorial; pe[: x.size(0)]."""
    pe = paper_pe(4096, x.shape[-1])[:, None, :]
    return (x + pe[: x.shape[0]]).astype(x.dtype)


LEARNED = weights(24, 40, 16)


def resized_learned_add(x):
    """Fit the table to the length, as the ViT code does with its grid."""
    old, s = len(LEARNED), x.shape[1]
    at = np.clip((np.arange(s) + 0.5) * old / s - 0.5, 0, old - 1)
    low = np.floor(at).astype(int)
    high = np.minimum(low + 1, old - 1)
    part = (at - low)[:, None].astype(np.float32)
    return x + (LEARNED[low] * (1 - part) + LEARNED[high] * part)


_half_table = {}


def half_buffer_add(x):
    """model.half() has rounded the buffer; activations are float32 again after it."""
    s, d = x.shape[1:]
    if (s, d) not in _half_table:
        _half_table[s, d] = paper_pe(s, d).astype(np.float16)
    return x + _half_table[s, d].astype(x.dtype)


MIXED = weights(25, 48, 24)


def one_hot_hybrid_add(x):
    """Learned rows picked by a one-hot product, plus the fixed ones."""
    b, s, d = x.shape
    pick = np.eye(len(MIXED))[:s]
    both = pick @ MIXED.astype(np.float64) + paper_pe(s, d)
    return (x.astype(np.float64) + np.broadcast_to(both, x.shape)).astype(x.dtype)
