"""The signatures of Meta's Llama: complex tables for (B, S, H, D)."""

import torch


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim)
    angles = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


def broadcast(freqs_cis, x):
    assert freqs_cis.shape == (x.shape[1], x.shape[-1])
    return freqs_cis[None, :, None]


def apply_rotary_emb(xq: torch.Tensor, xk: torch.Tensor, freqs_cis: torch.Tensor):
    q = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    k = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs = broadcast(freqs_cis, q)
    q, k = torch.view_as_real(q * freqs).flatten(3), torch.view_as_real(k * freqs).flatten(3)
    return q.type_as(xq), k.type_as(xk)


def conjugated(xq: torch.Tensor, xk: torch.Tensor, freqs_cis: torch.Tensor):
    return apply_rotary_emb(xq, xk, freqs_cis.conj())


def apply_one(x: torch.Tensor, freqs_cis: torch.Tensor):
    y = torch.view_as_complex(x.float().view(*x.shape[:-1], -1, 2))
    y = torch.view_as_real(y * freqs_cis.view(1, y.size(1), 1, y.size(-1))).flatten(3)
    return y.to(x.dtype)


def apply_freqs_cos_sin(xq, xk, freqs_cos, freqs_sin):
    q_r, q_i = xq.float().reshape(*xq.shape[:-1], -1, 2).unbind(-1)
    k_r, k_i = xk.float().reshape(*xk.shape[:-1], -1, 2).unbind(-1)
    cos, sin = freqs_cos[None, :, None], freqs_sin[None, :, None]
    q = torch.stack((q_r * cos - q_i * sin, q_r * sin + q_i * cos), dim=-1).flatten(3)
    k = torch.stack((k_r * cos - k_i * sin, k_r * sin + k_i * cos), dim=-1).flatten(3)
    return q.type_as(xq), k.type_as(xk)
