"""The signatures of vLLM and SGLang: flat tokens, with a cache in the module."""

import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style):
        super().__init__()
        self.head_size, self.rotary_dim, self.is_neox_style = head_size, rotary_dim, is_neox_style
        inv_freq = 1.0 / base ** (torch.arange(0, rotary_dim, 2).float() / rotary_dim)
        freqs = torch.outer(torch.arange(max_position_embeddings).float(), inv_freq)
        cache = torch.cat((freqs.cos(), freqs.sin()), dim=-1)
        self.register_buffer("cos_sin_cache", cache, persistent=False)

    def rotated(self, x, cos, sin):
        cos, sin = cos.unsqueeze(-2).to(x.dtype), sin.unsqueeze(-2).to(x.dtype)
        if self.is_neox_style:
            a, b = x.chunk(2, dim=-1)
        else:
            a, b = x[..., ::2], x[..., 1::2]
        turned = a * cos - b * sin, b * cos + a * sin
        if self.is_neox_style:
            return torch.cat(turned, dim=-1)
        return torch.stack(turned, dim=-1).flatten(-2)

    def forward(self, positions, query, key):
        positions = positions.flatten()
        cos, sin = self.cos_sin_cache.index_select(0, positions).chunk(2, dim=-1)
        out = []
        for x in (query, key):
            heads = x.view(positions.shape[0], -1, self.head_size)
            turned = self.rotated(heads[..., : self.rotary_dim], cos, sin)
            out.append(torch.cat((turned, heads[..., self.rotary_dim :]), dim=-1).reshape(x.shape))
        return out[0], out[1]


class InPlace(RotaryEmbedding):
    def forward(self, positions, query, key):
        q, k = super().forward(positions, query, key)
        query.copy_(q)
        key.copy_(k)


class StyleIgnored(RotaryEmbedding):
    def __init__(self, head_size, rotary_dim, max_position_embeddings, base, is_neox_style):
        super().__init__(head_size, rotary_dim, max_position_embeddings, base, True)


class QueriesOnly(RotaryEmbedding):
    def forward(self, positions, query, key):
        return super().forward(positions, query, key)[0], key


rope = RotaryEmbedding(64, 64, 4096, 10000.0, True)
