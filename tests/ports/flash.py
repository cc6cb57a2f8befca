"""The signatures of FlashAttention: tables (S, D / 2), and a flag for the layout."""

import torch


def cos_sin(seqlen, rotary_dim, base=10000.0):
    inv_freq = 1.0 / base ** (torch.arange(0, rotary_dim, 2).float() / rotary_dim)
    freqs = torch.outer(torch.arange(seqlen).float(), inv_freq)
    return freqs.cos(), freqs.sin()


def apply_rotary_emb(x, cos, sin, interleaved=False):
    width = cos.shape[-1] * 2
    cos, sin = cos[:, None], sin[:, None]
    if interleaved:
        a, b = x[..., :width:2], x[..., 1:width:2]
    else:
        a, b = x[..., : width // 2], x[..., width // 2 : width]
    turned = a * cos - b * sin, b * cos + a * sin
    y = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return torch.cat((y, x[..., width:]), dim=-1)


def flag_ignored(x, cos, sin, interleaved=False):
    return apply_rotary_emb(x, cos, sin)


def apply_rotary_emb_qkv(qkv, cos, sin):
    q, k = apply_rotary_emb(qkv[:, :, 0], cos, sin), apply_rotary_emb(qkv[:, :, 1], cos, sin)
    return torch.stack((q, k, qkv[:, :, 2]), dim=2)


def keys_left_out(qkv, cos, sin):
    return torch.stack((apply_rotary_emb(qkv[:, :, 0], cos, sin), *qkv.unbind(2)[1:]), dim=2)
