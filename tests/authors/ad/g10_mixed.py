"""RoPE-Mixed, Mochi, LTX."""
import numpy as np
import torch

# (A, P) and (A, H, P); the declared encodings are made from the same expressions
_W = np.round(0.3 * np.cos(np.arange(2 * 16).reshape(2, 16)), 3)
_WM = np.round(0.2 * np.sin(1.0 + np.arange(2 * 4 * 8).reshape(2, 4, 8)), 3)


def _axes(positions, A):
    p = np.asarray(positions, np.float64)
    return np.broadcast_to(p, (A, *p.shape)) if p.ndim == 1 else p


def _pairs(x, c, s):
    y = np.empty_like(x)
    u, v = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    y[..., ::2], y[..., 1::2] = u * c - v * s, u * s + v * c
    return y


def mochi_torch(x, positions):
    p = torch.as_tensor(positions).double()
    p = p.expand(2, *p.shape) if p.ndim == 1 else p
    p = p[:, None] if p.ndim == 2 else p                       # (A, 1 or B, S)
    a = torch.einsum("abs,ahp->bhsp", p, torch.from_numpy(_WM))
    z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], x.shape[-1] // 2, 2).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(a), a)).flatten(-2).to(x.dtype)


def mixed_product(x, positions):
    """The tables of both axes are multiplied, cosine by cosine and sine by sine."""
    p = _axes(positions, 2)
    a, b = p[0][..., None] * _W[0], p[1][..., None] * _W[1]
    c, s = np.cos(a) * np.cos(b), np.sin(a) * np.sin(b)
    if c.ndim == 3:
        c, s = c[:, None], s[:, None]
    return _pairs(x, c, s)


def mochi_reshaped(x, positions):
    """(A, H, P) becomes (H, A, P) by reshape, not by a transposition."""
    w = _WM.reshape(4, 2, 8)
    a = np.einsum("a...s,hap->...hsp", _axes(positions, 2), w)
    return _pairs(x, np.cos(a), np.sin(a))


def _ltx(x, positions, rising, first=None):
    n = len(rising)
    p = _axes(positions, 3)
    a = (p[..., None] * rising)                                  # (3, ..., n)
    a = np.moveaxis(a, 0, -1).reshape(*p.shape[1:], 3 * n)       # pair 3 i + axis
    a = a if a.ndim == 2 else a[:, None]
    lead = x.shape[-1] - 6 * n
    y = np.array(x)
    y[..., lead:] = _pairs(x[..., lead:], np.cos(a), np.sin(a))
    return y


def ltx_right(x, positions):
    return _ltx(x, positions, np.pi / 2 * 10000.0 ** np.linspace(0, 1, 21))


