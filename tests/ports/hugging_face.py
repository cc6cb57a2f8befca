"""Rotary code with the signatures of transformers: q, k, cos, sin, and a module for the tables."""

import torch
from torch import nn


def rotate_half(x):
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-b, a), dim=-1)


def rotate_every_two(x):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((-b, a), dim=-1).flatten(-2)


class LlamaRotaryEmbedding(nn.Module):
    def __init__(self, config, device=None):
        super().__init__()
        dim = int(config.head_dim * config.partial_rotary_factor)
        inv_freq = 1.0 / config.rope_theta ** (torch.arange(0, dim, 2).float() / dim)
        scaling = config.rope_scaling
        if scaling is not None and scaling["rope_type"] == "llama3":
            inv_freq = llama3(inv_freq, scaling)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    @torch.no_grad()
    def forward(self, x, position_ids):
        freqs = position_ids[:, :, None].float() * self.inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


def llama3(inv_freq, scaling):
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * inv_freq / (2 * torch.pi)
    smooth = ((turns - low) / (high - low)).clamp(0, 1)
    return inv_freq * (smooth + (1 - smooth) / scaling["factor"])


def apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def keys_turn_back(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos - rotate_half(k) * sin


def interleaved_with_half_tables(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_every_two(q) * sin, k * cos + rotate_every_two(k) * sin


def _compute_default_rope_parameters(config=None, device=None, seq_len=None):
    dim = int(config.head_dim * config.partial_rotary_factor)
    return 1.0 / config.rope_theta ** (torch.arange(0, dim, 2).float() / dim), 1.0


def parameters_over_the_head(config=None, device=None, seq_len=None):
    dim = int(config.head_dim * config.partial_rotary_factor)
    steps = torch.arange(0, dim, 2).float()
    return 1.0 / config.rope_theta ** (steps / config.head_dim), 1.0


def partial(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    width = cos.shape[-1]
    out = []
    for x in (q, k):
        head, rest = x[..., :width], x[..., width:]
        out.append(torch.cat((head * cos + rotate_half(head) * sin, rest), dim=-1))
    return out[0], out[1]
