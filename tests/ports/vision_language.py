"""The signature of Qwen2-VL: three position axes, and sections of the head."""

import torch
from torch import nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Qwen2VLRotaryEmbedding(nn.Module):
    def __init__(self, config, device=None):
        super().__init__()
        steps = torch.arange(0, config.head_dim, 2).float() / config.head_dim
        self.register_buffer("inv_freq", 1.0 / config.rope_theta**steps)

    @torch.no_grad()
    def forward(self, x, position_ids):
        freqs = position_ids[..., None].float() * self.inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(x.dtype), emb.sin().to(x.dtype)


def apply_multimodal_rotary_pos_emb(q, k, cos, sin, mrope_section, unsqueeze_dim=1):
    sizes = mrope_section * 2
    cos, sin = (
        torch.cat([part[i % 3] for i, part in enumerate(t.split(sizes, dim=-1))], dim=-1)
        for t in (cos, sin)
    )
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def sections_backwards(q, k, cos, sin, mrope_section, unsqueeze_dim=1):
    return apply_multimodal_rotary_pos_emb(q, k, cos, sin, mrope_section[::-1], unsqueeze_dim)
