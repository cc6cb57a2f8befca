"""Slopes, biases, buckets and tables under their usual names."""

import math

import numpy as np
import torch
from torch import nn


def get_alibi_slopes(num_heads):
    n = 2 ** math.floor(math.log2(num_heads))
    first = [2 ** (-8 * (h + 1) / n) for h in range(n)]
    return first + [2 ** (-4 * (2 * h + 1) / n) for h in range(num_heads - n)]


def naive_slopes(num_heads):
    return [2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]


def build_alibi_tensor(attention_mask, num_heads, dtype):
    slopes = torch.tensor(get_alibi_slopes(num_heads), dtype=torch.float32)
    at = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    alibi = slopes[:, None, None] * at[:, None]
    return alibi.reshape(-1, 1, attention_mask.shape[1]).to(dtype)


def alibi_bias(num_heads, seq_len):
    slopes = np.array(get_alibi_slopes(num_heads))
    at = np.arange(seq_len)
    return slopes[:, None, None] * (at[None, :] - at[:, None])


def alibi_bias_backwards(num_heads, seq_len):
    return -alibi_bias(num_heads, seq_len)


def _relative_position_bucket(
    relative_position, bidirectional=True, num_buckets=32, max_distance=128
):
    buckets = 0
    if bidirectional:
        num_buckets //= 2
        buckets += (relative_position > 0).to(torch.long) * num_buckets
        relative_position = relative_position.abs()
    else:
        relative_position = -relative_position.clamp(max=0)
    exact = num_buckets // 2
    scale = (num_buckets - exact) / math.log(max_distance / exact)
    large = exact + (torch.log(relative_position.float() / exact) * scale).to(torch.long)
    large = large.clamp(max=num_buckets - 1)
    return buckets + torch.where(relative_position < exact, relative_position, large)


def bucket_of_the_past(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    return _relative_position_bucket(-relative_position, bidirectional, num_buckets, max_distance)


def sinusoid_table(n_position, d_hid):
    angle = np.arange(n_position)[:, None] / 10000 ** (2 * (np.arange(d_hid) // 2) / d_hid)
    angle[:, 0::2], angle[:, 1::2] = np.sin(angle[:, 0::2]), np.cos(angle[:, 1::2])
    return angle


def get_timestep_embedding(timesteps, embedding_dim):
    half = embedding_dim // 2
    frequencies = torch.exp(-math.log(10000) * torch.arange(half) / (half - 1))
    angle = timesteps[:, None].float() * frequencies
    return torch.cat((angle.sin(), angle.cos()), dim=-1)


class PositionalEncoding(nn.Module):
    """As in the tutorial of PyTorch, for x (S, B, dim)."""

    def __init__(self, d_model, max_len=5000):
        super().__init__()
        at = torch.arange(max_len)[:, None]
        angle = at * torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2], pe[:, 0, 1::2] = torch.sin(angle), torch.cos(angle)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(0)]


class StartsAtOne(PositionalEncoding):
    def forward(self, x):
        return x + self.pe[1 : x.size(0) + 1]
