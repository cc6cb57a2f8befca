"""The signature of OpenAI's gpt-oss: the module rotates flat queries and keys by itself."""

import math

import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(
        self,
        head_dim,
        base,
        dtype,
        initial_context_length=4096,
        scaling_factor=1.0,
        ntk_alpha=1.0,
        ntk_beta=32.0,
        device=None,
    ):
        super().__init__()
        self.head_dim, self.base = head_dim, base
        self.length, self.factor = initial_context_length, scaling_factor
        self.alpha, self.beta = ntk_alpha, ntk_beta

    def tables(self, num_tokens):
        freq = self.base ** (torch.arange(0, self.head_dim, 2, dtype=torch.float) / self.head_dim)
        mscale = 0.1 * math.log(self.factor) + 1.0
        half = self.head_dim / 2
        low, high = (
            half * math.log(self.length / (turns * 2 * math.pi)) / math.log(self.base)
            for turns in (self.beta, self.alpha)
        )
        ramp = self.ramp(low, high)
        inv_freq = (ramp / self.factor + 1 - ramp) / freq
        angle = torch.outer(torch.arange(num_tokens).float(), inv_freq)
        return angle.cos() * mscale, angle.sin() * mscale

    def ramp(self, low, high):
        return ((torch.arange(self.head_dim // 2).float() - low) / (high - low)).clamp(0, 1)

    def forward(self, query, key):
        cos, sin = self.tables(query.shape[0])
        return self.turned(query, cos, sin), self.turned(key, cos, sin)

    def turned(self, x, cos, sin):
        heads = x.view(x.shape[0], -1, self.head_dim)
        a, b = heads.chunk(2, dim=-1)
        cos, sin = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).reshape(x.shape)


class Truncated(RotaryEmbedding):
    def ramp(self, low, high):
        return super().ramp(math.floor(low), math.ceil(high))
