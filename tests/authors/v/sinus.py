"""Sinusoidal tables, timesteps and their addition, as library authors write them."""
import math

import numpy as np
import torch
from torch import nn


# ---- s01 (wrong): logspace has its endpoint, so the last frequency is exactly 1e-4
def table_logspace(positions):
    d = 64
    inv_freq = torch.logspace(0.0, -4.0, d // 2, dtype=torch.float64)
    ang = positions.to(torch.float64)[..., None] * inv_freq
    out = torch.empty(*positions.shape, d, dtype=torch.float64)
    out[..., 0::2] = ang.sin()
    out[..., 1::2] = ang.cos()
    return out


# ---- s02 (wrong): the Keras/Kyubyong port, one exponent for each column
def table_per_column(positions):
    d = 48
    positions = np.asarray(positions, dtype=np.float64)
    enc = positions[..., None] / np.power(10000.0, np.arange(d) / d)
    enc[..., 0::2] = np.sin(enc[..., 0::2])
    enc[..., 1::2] = np.cos(enc[..., 1::2])
    return enc


# ---- s03 (wrong): positions are moved to the activation dtype before the outer product
class ModuleWithBf16Positions(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        exponent = torch.arange(0, dim, 2).float() / dim
        self.register_buffer("inv_freq", base ** -exponent, persistent=False)

    def forward(self, positions, dtype=torch.bfloat16):
        # keep the module usable under autocast
        t = positions.to(dtype).float()
        ang = torch.einsum("...s,f->...sf", t, self.inv_freq)
        return torch.stack((ang.sin(), ang.cos()), dim=-1).flatten(-2)


_bf16_module = ModuleWithBf16Positions(64)


def table_bf16_positions(positions):
    return _bf16_module(positions)


# ---- s04 (wrong): a registered buffer of max_len rows; longer inputs are clamped so as not to crash
class BufferTable:
    def __init__(self, dim, max_len=512):
        pos = np.arange(max_len)[:, None]
        div = np.exp(np.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe = np.zeros((max_len, dim))
        pe[:, 0::2] = np.sin(pos * div)
        pe[:, 1::2] = np.cos(pos * div)
        self.pe = pe

    def __call__(self, positions):
        return self.pe[np.clip(positions, 0, len(self.pe) - 1)]


table_clamped_buffer = BufferTable(64)


# ---- s05 (wrong): memoised by the number of tokens
_by_length = {}


def table_cached_by_length(positions):
    d = 32
    n = positions.shape[-1]
    if n not in _by_length:
        half = d // 2
        freq = torch.pow(10000.0, -torch.arange(half, dtype=torch.float64) / half)
        ang = positions.double().unsqueeze(-1) * freq
        _by_length[n] = torch.cat([ang.sin(), ang.cos()], dim=-1)
    return _by_length[n]


# ---- s06 (wrong): fairseq's make_positions adds padding_idx + 1; this port adds padding_idx = 1
def table_fairseq_offset(positions, padding_idx=1):
    d = 128
    half = d // 2
    emb = math.log(10000) / (half - 1)
    emb = np.exp(np.arange(half, dtype=np.float64) * -emb)
    p = np.asarray(positions, np.float64) + padding_idx
    ang = p[..., None] * emb[None, :]
    return np.concatenate([np.sin(ang), np.cos(ang)], axis=-1)


# ---- s07 (wrong): stack on the wrong axis: the reshape gives [sin | cos], not pairs
def table_stack_axis(positions):
    d = 40
    w = 10000.0 ** (-2.0 * np.arange(d // 2) / d)
    ang = np.multiply.outer(np.asarray(positions, np.float64), w)
    return np.stack([np.sin(ang), np.cos(ang)], axis=-2).reshape(*ang.shape[:-1], d)


# ---- s08 (wrong): odd width: rounds the width up and cuts the last column, so frequencies change
def table_odd_truncated(positions):
    d = 33
    wide = d + d % 2
    half = wide // 2
    freq = np.exp(-math.log(10000.0) * np.arange(half) / (half - 1))
    ang = np.asarray(positions, np.float64)[..., None] * freq
    return np.concatenate([np.sin(ang), np.cos(ang)], -1)[..., :d]


# ---- s09 (wrong): timesteps are cast to integers (schedulers used to give integers)
def timestep_long(timesteps):
    dim = 320
    half = dim // 2
    timesteps = timesteps.long()
    freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
    args = timesteps[..., None].float() * freqs
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


# ---- s10 (wrong, two): diffusers' defaults (sin first, downscale_freq_shift=1) for a DiT
def timestep_defaults(timesteps):
    embedding_dim, flip_sin_to_cos, downscale_freq_shift, max_period = 256, False, 1.0, 10000
    half = embedding_dim // 2
    exponent = -math.log(max_period) * torch.arange(half, dtype=torch.float32)
    exponent = exponent / (half - downscale_freq_shift)
    emb = timesteps[..., None].float() * torch.exp(exponent)
    emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)
    if flip_sin_to_cos:
        emb = torch.cat([emb[..., half:], emb[..., :half]], dim=-1)
    return emb


# ---- s11 (wrong): negative offsets of a relative table are looked up by their absolute value
def table_relative_abs(positions):
    d = 64
    rel = np.abs(np.asarray(positions, np.float64))
    w = 1.0 / 10000.0 ** (np.arange(0, d, 2.0) / d)
    ang = rel[..., None] * w
    return np.concatenate((np.sin(ang), np.cos(ang)), axis=-1)


# ---- s12 (wrong): a table that grows: new rows are numbered from 0 again
class GrowingTable:
    def __init__(self, dim=64, block=64):
        self.dim, self.block = dim, block
        self.rows = self._compute(0, block)

    def _compute(self, start, stop):
        # called with the number of missing rows
        pos = np.arange(stop - start, dtype=np.float64)[:, None]
        w = 10000.0 ** (-np.arange(0, self.dim, 2) / self.dim)
        out = np.empty((stop - start, self.dim))
        out[:, ::2], out[:, 1::2] = np.sin(pos * w), np.cos(pos * w)
        return out

    def __call__(self, positions):
        if np.min(positions, initial=0) < 0:
            raise ValueError("positions must not be negative")
        need = int(np.max(positions, initial=0)) + 1
        if need > len(self.rows):
            self.rows = np.concatenate([self.rows, self._compute(len(self.rows), need)])
        return self.rows[positions]


table_growing = GrowingTable()


# ---- s13 (wrong): emulated kernel, tiles of 128 rows: the tail starts at the wrong row
def table_tiled(positions):
    d, tile = 64, 128
    flat = np.asarray(positions, np.float64).reshape(-1)
    w = 10000.0 ** (-np.arange(0, d, 2) / d)
    out = np.zeros((flat.size, d))
    full = flat.size // tile
    for b in range(full):
        at = flat[b * tile:(b + 1) * tile, None] * w
        out[b * tile:(b + 1) * tile, 0::2] = np.sin(at)
        out[b * tile:(b + 1) * tile, 1::2] = np.cos(at)
    rest = flat.size - full * tile
    if rest:  # the last, partial tile
        at = flat[:rest, None] * w
        out[full * tile:, 0::2] = np.sin(at)
        out[full * tile:, 1::2] = np.cos(at)
    return out.reshape(*np.shape(positions), d)


# ---- s14 (wrong): the flow model's time is in 0 .. 1; the factor 1000 of the config is dropped
def timestep_without_scale(t):
    half = 32
    k = torch.arange(half, dtype=torch.float64)
    freq = torch.exp(-k * (math.log(10000.0) / half))
    arg = t.to(torch.float64)[..., None] * freq
    return torch.cat([arg.cos(), arg.sin()], -1)


# ---- s15 (wrong): Canary/NeMo: the table is divided by sqrt(d); this port divides by d
def table_over_d(positions):
    d = 64
    inc = math.log(10000.0) / d
    out = np.zeros((*np.shape(positions), d))
    for k in range(d // 2):
        arg = np.asarray(positions, np.float64) * math.exp(-2 * k * inc)
        out[..., 2 * k] = np.sin(arg)
        out[..., 2 * k + 1] = np.cos(arg)
    return out / d


# ---- add ------------------------------------------------------------------------------------
def _pe(n, d):
    pos = torch.arange(n, dtype=torch.float64)[:, None]
    div = torch.exp(torch.arange(0, d, 2, dtype=torch.float64) * (-math.log(10000.0) / d))
    pe = torch.zeros(n, d, dtype=torch.float64)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    return pe


# ---- s16 (wrong): the tutorial's module (S, B, D) with batch_first tensors
class PositionalEncodingSeqFirst(nn.Module):
    def __init__(self, d_model=64, max_len=4096):
        super().__init__()
        self.register_buffer("pe", _pe(max_len, d_model).unsqueeze(1))

    def forward(self, x):
        return (x + self.pe[: x.size(0)]).to(x.dtype)


add_seq_first = PositionalEncodingSeqFirst()


# ---- s17 (wrong): sqrt(d) of the embeddings is applied here as well
def add_scaled_x(x):
    d = x.shape[-1]
    pe = _pe(x.shape[-2], d)
    return (x.double() * math.sqrt(d) + pe).to(x.dtype)


# ---- right ---------------------------------------------------------------------------------
# s20: complex exponential, viewed as pairs (imaginary part first)
def right_complex(positions):
    d = 64
    w = np.exp(np.log(10000.0) * (-np.arange(d // 2) / (d // 2)))
    z = np.exp(1j * np.multiply.outer(np.asarray(positions, np.float64), w))
    return (1j * np.conj(z)).view(np.float64)  # i conj(z) = sin + i cos


# s21: cosines as shifted sines
def right_phase(positions):
    d = 50
    col = torch.arange(d)
    w = torch.pow(torch.tensor(10000.0, dtype=torch.float64), -(2 * (col // 2)).double() / d)
    return torch.sin(positions.double()[..., None] * w + (col % 2) * (math.pi / 2))


# s22: table grown by doubling, with the formula where a lookup is impossible; result is a
# transposed (d, S) array, not contiguous
class LazyColumns:
    def __init__(self, d=48):
        self.d, self.cols = d, np.zeros((d, 0))

    def _formula(self, p):
        k = np.arange(self.d // 2)
        w = 10000.0 ** (-k / (self.d // 2 - 1))
        ang = w.reshape(-1, *([1] * p.ndim)) * p
        return np.concatenate([np.sin(ang), np.cos(ang)])

    def __call__(self, positions):
        p = np.asarray(positions, np.float64)
        whole = p.size > 0 and (p == np.floor(p)).all() and p.min() >= 0 and p.max() < 65536
        if not whole:
            return np.moveaxis(self._formula(p), 0, -1)
        need = int(p.max()) + 1
        if need > self.cols.shape[1]:
            self.cols = self._formula(np.arange(max(need, 2 * self.cols.shape[1], 16.0)))
        return np.moveaxis(self.cols[:, p.astype(np.intp)], 0, -1)


right_lazy_columns = LazyColumns()


# s23: scalar loops, keyword names of diffusers, float64, shift and flip as the checkpoint has them
def right_timestep_scalar(timesteps, embedding_dim=64, flip_sin_to_cos=True,
                          downscale_freq_shift=0):
    t = timesteps.detach().double().reshape(-1).tolist()
    half = embedding_dim // 2
    rows = []
    for p in t:
        a = [p * math.exp(-math.log(10000.0) * i / (half - downscale_freq_shift))
             for i in range(half)]
        s, c = [math.sin(v) for v in a], [math.cos(v) for v in a]
        rows.append(c + s if flip_sin_to_cos else s + c)
    out = torch.tensor(rows, dtype=torch.float64)
    return out.reshape(*timesteps.shape, embedding_dim)


# s24: add in float64, rounded once, even and odd columns by where
def right_add(x):
    d = x.shape[-1]
    p = np.arange(x.shape[-2], dtype=np.float64)
    w = 10000.0 ** (-(np.arange(d) // 2 * 2) / d)
    arg = p[..., None] * w
    pe = np.where(np.arange(d) % 2 == 0, np.sin(arg), np.cos(arg))
    return np.add(x, pe, dtype=np.float64).astype(x.dtype)


# ---- s19 (wrong): a slice is a view: the factor is applied to the buffer, once more in each call
class ScaledPositionalEncoding:
    def __init__(self, d=64, n=4096, alpha=0.5):
        w = 10000.0 ** (-np.arange(0, d, 2) / d)
        ang = np.arange(n)[:, None] * w
        self.pe = np.stack([np.sin(ang), np.cos(ang)], -1).reshape(n, d)
        self.alpha = alpha

    def __call__(self, x):
        pe = self.pe[: x.shape[-2]]
        pe *= self.alpha
        return (x + pe).astype(x.dtype)


add_scaled_view = ScaledPositionalEncoding()
