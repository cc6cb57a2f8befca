"""Torch ports: Hugging Face style modules as closures, autocast habits."""
import torch


def _make(dim, base=10000.0):
    inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))

    def rotary(position_ids, dtype, freq_dtype=torch.float32, table_dtype=None):
        p = position_ids if position_ids.ndim == 2 else position_ids[None]
        freqs = p[..., None].to(freq_dtype) * inv_freq.to(freq_dtype)
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos().to(table_dtype or dtype)[:, None], emb.sin().to(table_dtype or dtype)[:, None]

    return rotary


def _rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


_llama = _make(64)


def hf_llama(x, positions):
    cos, sin = _llama(torch.as_tensor(positions), torch.float32)
    y = x.float() * cos + _rotate_half(x.float()) * sin
    return y.to(x.dtype)


_grown = {"cos": torch.zeros(0, 32), "sin": torch.zeros(0, 32)}


def grown_cache(x, positions):
    """A table that grows to the largest position; refuses what a table cannot hold."""
    p = torch.as_tensor(positions)
    if p.is_floating_point() or (p.numel() and int(p.min()) < 0):
        raise ValueError("positions must be integers from 0 on")
    p = p.long()
    need = int(p.max()) + 1 if p.numel() else 0
    if need > _grown["cos"].shape[0]:
        t = torch.arange(max(need, 2048), dtype=torch.float64)
        a = torch.outer(t, 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64))
        _grown["cos"], _grown["sin"] = a.cos().float(), a.sin().float()
    c, s = _grown["cos"][p], _grown["sin"][p]
    if p.ndim == 2:
        c, s = c[:, None], s[:, None]
    xe, xo = x[..., 0::2], x[..., 1::2]
    return torch.stack((xe * c - xo * s, xo * c + xe * s), -1).flatten(-2).to(x.dtype)


def bf16_tables(x, positions):
    cos, sin = _llama(torch.as_tensor(positions), x.dtype, table_dtype=torch.bfloat16)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return x * cos + _rotate_half(x) * sin


def bf16_outer_only(x, positions):
    """Frequencies exact; positions go through bfloat16 before the outer product."""
    p = torch.as_tensor(positions).to(torch.bfloat16).double()
    a = p[..., None] * 500000.0 ** (-torch.arange(0, 128, 2, dtype=torch.float64) / 128)
    a = a if p.ndim == 1 else a[:, None]
    a = torch.cat((a, a), -1)
    return (x.double() * a.cos() + _rotate_half(x.double()) * a.sin()).to(x.dtype)


def reshaped_heads(x, positions):
    """(B, H, S, D) viewed as (B, S, H, D) around a bshd kernel, without the transpose."""
    B, H, S, D = x.shape
    p = torch.as_tensor(positions).double()
    p = p.expand(B, S)
    a = p[:, :, None, None] * 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    v = x.reshape(B, S, H, D)
    a = torch.cat((a, a), -1)
    return (v * a.cos() + _rotate_half(v) * a.sin()).to(x.dtype).reshape(B, H, S, D)


def bshd_right(x, positions):
    """x (B, S, H, D), einops-free."""
    B, S, H, D = x.shape
    p = torch.as_tensor(positions).double().expand(B, S)
    z = torch.view_as_complex(x.double().reshape(B, S, H, D // 2, 2).contiguous())
    a = p[:, :, None, None] * 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    return torch.view_as_real(z * torch.polar(torch.ones_like(a), a)).flatten(-2).to(x.dtype)


def bshd_sliced(x, positions):
    """x (B, S, H, D): the cos table is broadcast so that heads, not tokens, count from positions[0]."""
    B, S, H, D = x.shape
    p = torch.as_tensor(positions).double().expand(B, S)
    start = p[:, :1] if S else torch.zeros(B, 1, dtype=torch.float64)
    p = start + torch.arange(H, dtype=torch.float64)[None]
    a = p[:, None, :, None] * 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    z = torch.view_as_complex(x.double().reshape(B, S, H, D // 2, 2).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(a), a)).flatten(-2).to(x.dtype)


def autograd_vjp(x, positions, dy):
    leaf = x.detach().clone().requires_grad_(True)
    p = torch.as_tensor(positions).double()
    a = p[..., None] * 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    a = a if p.ndim == 1 else a[:, None]
    a = torch.cat((a, a), -1)
    y = leaf.double() * a.cos() + _rotate_half(leaf.double()) * a.sin()
    (g,) = torch.autograd.grad(y, leaf, dy.double())
    return g


def _ang(positions, dim, base=10000.0):
    p = torch.as_tensor(positions).double()
    a = p[..., None] * base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return a if p.ndim == 1 else a[:, None]


def rest_without_gradient(x, positions, dy, rot=32):
    a = _ang(positions, rot)
    g, d = torch.zeros_like(dy), dy[..., :rot]
    a = torch.cat((a, a), -1)
    g[..., :rot] = (d * a.cos() - _rotate_half(d) * a.sin()).to(x.dtype)
    return g


def shuffle_not_transposed(x, positions, dy):
    """Forward: interleaved in, half out. Backward leaves the gradient in half order."""
    a = _ang(positions, 64)
    a = torch.cat((a, a), -1)
    return (dy * a.cos() - _rotate_half(dy) * a.sin()).to(x.dtype)
