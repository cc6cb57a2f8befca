"""The older signatures of transformers: tables of a length, indexed by position ids."""

import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, dim, max_position_embeddings=2048, base=10000, device=None):
        super().__init__()
        inv_freq = 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv_freq)
        self.longest = 0

    def forward(self, x, seq_len=None):
        if seq_len > self.longest:
            self.longest = seq_len
            freqs = torch.outer(torch.arange(seq_len).float(), self.inv_freq)
            emb = torch.cat((freqs, freqs), dim=-1)
            self.cos_cached = emb.cos()[None, None]
            self.sin_cached = emb.sin()[None, None]
        return self.cos_cached[:, :, :seq_len], self.sin_cached[:, :, :seq_len]


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids):
    cos = cos.squeeze(1).squeeze(0)[position_ids].unsqueeze(1)
    sin = sin.squeeze(1).squeeze(0)[position_ids].unsqueeze(1)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def one_position_late(q, k, cos, sin, position_ids):
    return apply_rotary_pos_emb(q, k, cos, sin, (position_ids - 1).clamp(min=0))


def create_sinusoidal_positions(num_pos, dim):
    freqs = torch.outer(torch.arange(num_pos).float(), 10000 ** (-torch.arange(0, dim, 2) / dim))
    return torch.cat((freqs.sin(), freqs.cos()), dim=1)


def apply_gptj(tensor, sin, cos):
    sin = sin[:, :, None, :].repeat_interleave(2, 3)
    cos = cos[:, :, None, :].repeat_interleave(2, 3)
    a, b = tensor[..., ::2], tensor[..., 1::2]
    return tensor * cos + torch.stack((-b, a), dim=-1).flatten(-2) * sin


def apply_gptj_swapped(tensor, sin, cos):
    return apply_gptj(tensor, cos, sin)
