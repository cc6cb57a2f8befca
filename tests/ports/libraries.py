"""The signatures of torchtune, rotary-embedding-torch, Megatron-LM, diffusers, timm, ChatGLM."""

import torch
from torch import nn


def _inv_freq(dim, base):
    return 1.0 / base ** (torch.arange(0, dim, 2).float() / dim)


def _every_two(x):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((-b, a), dim=-1).flatten(-2)


def _half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class RotaryPositionalEmbeddings(nn.Module):
    """As in torchtune."""

    def __init__(self, dim: int, max_seq_len: int = 4096, base: int = 10_000):
        super().__init__()
        freqs = torch.outer(torch.arange(max_seq_len).float(), _inv_freq(dim, base))
        self.register_buffer("cache", torch.stack((freqs.cos(), freqs.sin()), dim=-1))

    def forward(self, x, *, input_pos=None):
        cache = self.cache[: x.size(1)] if input_pos is None else self.cache[input_pos]
        pairs = x.float().reshape(*x.shape[:-1], -1, 2)
        cache = cache.view(-1, pairs.size(1), 1, pairs.size(3), 2)
        a, b, cos, sin = pairs[..., 0], pairs[..., 1], cache[..., 0], cache[..., 1]
        return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(3).type_as(x)


class AtTheStart(RotaryPositionalEmbeddings):
    """The positions are ignored."""

    def forward(self, x, *, input_pos=None):
        return super().forward(x)


class RotaryEmbedding(nn.Module):
    """As in rotary-embedding-torch."""

    def __init__(self, dim, theta=10000):
        super().__init__()
        self.freqs = nn.Parameter(_inv_freq(dim, theta))

    def forward(self, t):
        return (t[..., None].type(self.freqs.dtype) * self.freqs).repeat_interleave(2, dim=-1)

    @torch.no_grad()
    def rotate_queries_or_keys(self, t, seq_dim=None, offset=0):
        freqs = self.forward(torch.arange(t.shape[-2]) + offset)
        return t * freqs.cos() + _every_two(t) * freqs.sin()

    @torch.no_grad()
    def rotate_without_offset(self, t, seq_dim=None, offset=0):
        return self.rotate_queries_or_keys(t)


class MegatronRotaryEmbedding(nn.Module):
    def __init__(self, kv_channels, rotary_percent=1.0, rotary_base=10000):
        super().__init__()
        self.inv_freq = _inv_freq(int(kv_channels * rotary_percent), rotary_base)

    def forward(self, max_seq_len, offset=0):
        freqs = torch.outer(torch.arange(max_seq_len).float() + offset, self.inv_freq)
        return torch.cat((freqs, freqs), dim=-1)[:, None, None, :]


def apply_rotary_pos_emb_megatron(t, freqs):
    width = freqs.shape[-1]
    head, rest = t[..., :width], t[..., width:]
    head = head * freqs.cos().to(t.dtype) + _half(head) * freqs.sin().to(t.dtype)
    return torch.cat((head, rest), dim=-1)


def megatron_in_half_precision(t, freqs):
    return apply_rotary_pos_emb_megatron(t, freqs.bfloat16().float())
