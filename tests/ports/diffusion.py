"""The signatures of diffusers and timm: real or complex tables, sin and cos in one array."""

import torch
from torch import nn


def get_1d_rotary_pos_embed(dim, pos, theta=10000.0, use_real=False):
    freqs = torch.outer(pos, 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim))
    if not use_real:
        return torch.polar(torch.ones_like(freqs), freqs)
    return freqs.cos().repeat_interleave(2, dim=1), freqs.sin().repeat_interleave(2, dim=1)


def real_tables(dim, pos, theta=10000.0):
    return get_1d_rotary_pos_embed(dim, pos, theta, use_real=True)


def apply_rotary_emb(x, freqs_cis):
    cos, sin = freqs_cis
    a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
    turned = torch.stack((-b, a), dim=-1).flatten(3)
    return (x.float() * cos + turned.float() * sin).to(x.dtype)


def complex_apply(x, freqs_cis):
    y = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(y * freqs_cis[None, :, None]).flatten(3).type_as(x)


def wrong_sign(x, freqs_cis):
    return apply_rotary_emb(x, (freqs_cis[0], -freqs_cis[1]))


class RotaryEmbeddingCat(nn.Module):
    def __init__(self, dim, temperature=10000.0):
        super().__init__()
        self.bands = 1.0 / temperature ** (torch.arange(0, dim, 2).float() / dim)

    def get_embed(self, length):
        freqs = torch.outer(torch.arange(length).float(), self.bands)
        return torch.cat((freqs.sin(), freqs.cos()), dim=-1).repeat_interleave(2, dim=-1)


def apply_rot_embed_cat(x, emb):
    sin, cos = emb.chunk(2, dim=-1)
    a, b = x[..., ::2], x[..., 1::2]
    return x * cos + torch.stack((-b, a), dim=-1).flatten(-2) * sin
