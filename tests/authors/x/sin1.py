"""Sinusoidal tables of one axis, as people write them."""
import math

import numpy as np
import torch


# 001: Sinusoidal(64): positions are kept in half precision "to save memory of the buffer"
def half_positions(positions):
    pos = torch.as_tensor(np.asarray(positions)).to(torch.float16).unsqueeze(-1)
    div = torch.exp(torch.arange(0, 64, 2).float() * (-math.log(10000.0) / 64))
    ang = pos.float() * div
    return torch.stack([ang.sin(), ang.cos()], dim=-1).flatten(-2)


# 002: Sinusoidal(32, layout="concat"): buffer that grows when a longer sequence arrives
def _build(n, dim=32):
    w = 10000.0 ** (-np.arange(dim // 2) / (dim // 2))
    a = np.arange(n)[:, None] * w
    return np.concatenate([np.sin(a), np.cos(a)], 1)


class GrowingTable:
    def __init__(self):
        self.buf = _build(16)

    def __call__(self, seq_len):
        have = self.buf.shape[0]
        if seq_len > have:  # append the missing rows
            self.buf = np.concatenate([self.buf, _build(seq_len - have)])
        return self.buf[:seq_len].astype(np.float32)


growing_rows = GrowingTable()


# 003: Sinusoidal(48): the seq-first module of the PyTorch tutorial, used with (B, S, D)
class TutorialPE(torch.nn.Module):
    def __init__(self, d_model=48, max_len=5000):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


_tut = TutorialPE()


def tutorial_add(x):
    return _tut(x)


# 005: Sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad")
def odd_dim(positions, dim=33):
    half = (dim + 1) // 2
    e = math.log(10000) / (half - 1)
    w = np.exp(np.arange(half) * -e)
    a = np.outer(np.asarray(positions, np.float64), w)
    out = np.concatenate([np.sin(a), np.cos(a)], axis=1)
    return out[:, :dim].astype(np.float32)


# 006: Sinusoidal(64): lru_cache replaced by a dictionary on the shape
_CACHE = {}


def cached_by_shape(positions):
    p = np.asarray(positions)
    key = (p.shape, "float32")
    if key not in _CACHE:
        w = 1.0 / 10000 ** (np.arange(0, 64, 2) / 64)
        a = p[..., None] * w
        t = np.empty(p.shape + (64,), np.float32)
        t[..., 0::2], t[..., 1::2] = np.sin(a), np.cos(a)
        _CACHE[key] = t
    return _CACHE[key].copy()


# 007: Sinusoidal(24): adds in place to save an allocation
def add_inplace(x):
    s, d = x.shape[1:]
    a = np.arange(s)[:, None] / 10000 ** (np.arange(0, d, 2) / d)
    x[:, :, 0::2] += np.sin(a).astype(x.dtype)
    x[:, :, 1::2] += np.cos(a).astype(x.dtype)
    return x


# 008: Sinusoidal(64, layout="concat"): a kernel that writes tiles of rows, emulated
def _kernel(out, block, BLOCK, dim):
    pid_rows = block * BLOCK + np.arange(BLOCK)
    k = np.arange(dim // 2)
    a = pid_rows[:, None] * np.exp2(-k / (dim // 2) * np.log2(10000.0))
    mask = pid_rows < out.shape[0]
    out[pid_rows[mask], : dim // 2] = np.sin(a)[mask]
    out[pid_rows[mask], dim // 2 :] = np.cos(a)[mask]


def tiled_rows(seq_len, dim=64, BLOCK=16):
    out = np.zeros((seq_len, dim), np.float32)
    for block in range(max(seq_len // BLOCK, 1)):
        _kernel(out, block, BLOCK, dim)
    return out


# 011: Sinusoidal(32, layout="concat", first="cos", denominator=16): timesteps of a diffusion model (flip, shift 0)
class Timesteps(torch.nn.Module):
    def __init__(self, num_channels=32, flip_sin_to_cos=True, downscale_freq_shift=1.0):
        super().__init__()
        self.n, self.flip, self.shift = num_channels, flip_sin_to_cos, downscale_freq_shift

    def forward(self, timesteps):
        half = self.n // 2
        exponent = -math.log(10000) * torch.arange(half, dtype=torch.float32) / (half - self.shift)
        emb = timesteps[:, None].float() * torch.exp(exponent)[None, :]
        emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=-1)
        return torch.cat([emb[:, half:], emb[:, :half]], dim=-1) if self.flip else emb


_time = Timesteps()


def time_proj(positions):
    return _time(torch.as_tensor(np.asarray(positions)))


# 012 (two): Sinusoidal(32, layout="concat", denominator="half-1", offset=2): fairseq, padding_idx 1
def fairseq_port(positions, padding_idx=1):
    half = 16
    emb = math.log(10000) / (half - 1)
    emb = np.exp(np.arange(half) * -emb)
    p = np.asarray(positions) + padding_idx  # symbols count from padding_idx
    emb = p[:, None] * emb[None]
    return np.hstack([np.cos(emb), np.sin(emb)]).astype(np.float32)


