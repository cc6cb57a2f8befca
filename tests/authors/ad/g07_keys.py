"""Rotated keys that move, weights, gradients of nothing, norms."""
import numpy as np
import torch


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def _half(x, ang, m=1.0):
    c, s = m * np.cos(ang), m * np.sin(ang)
    h = x.shape[-1] // 2
    a, b = x[..., :h].astype(np.float64), x[..., h:].astype(np.float64)
    return np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)


def _adj(x, ang):
    z = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(1j * ang)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


# -- shift_keys ----------------------------------------------------------------------------------

def shift_complex(rotated_k, delta):
    """K-shift: one phase factor for all cells."""
    return _adj(rotated_k, float(delta) * _inv(rotated_k.shape[-1]))


def shift_factor_again(rotated_k, delta, m=1.2):
    return _half(rotated_k, float(delta) * _inv(64), m)


def shift_unscaled(rotated_k, delta):
    """LinearScaling(8): the shift has the frequencies of the file, not the scaled ones."""
    return _half(rotated_k, float(delta) * _inv(64))


def shift_reads_input_layout(rotated_k, delta):
    """Keys were read interleaved and written half; the shift looks for interleaved pairs."""
    return _adj(rotated_k, float(delta) * _inv(64))


# -- evict_keys ----------------------------------------------------------------------------------


def evict_by_sum(rotated_k, kept, dropped):
    tail = _half(rotated_k[:, :, kept + dropped:], -float(kept + dropped) * _inv(64))
    return np.concatenate([rotated_k[:, :, :kept], tail], 2)


def evict_oldest_first(rotated_k, kept, dropped):
    """A deque: the sinks leave first, then all others move back."""
    return _half(rotated_k[:, :, dropped:], -float(dropped) * _inv(64))


# -- permute_weights -----------------------------------------------------------------------------

def permute_view(w, n_heads):
    r, c = w.shape
    return w.reshape(n_heads, 2, r // n_heads // 2, c).swapaxes(1, 2).reshape(r, c)


def permute_head_axis(w, n_heads):
    """Rows are split (D/2, 2, heads) where they are (heads, 2, D/2)."""
    r, c = w.shape
    return w.reshape(2, r // n_heads // 2, n_heads, c).swapaxes(0, 1).reshape(r, c)


# -- normed_apply --------------------------------------------------------------------------------

def _pos(positions, d, base=1e6):
    p = np.asarray(positions, np.float64)
    a = p[..., None] * _inv(d, base)
    return a if p.ndim == 1 else a[:, None]


def qwen3_norm(x, weight, positions):
    """Torch, float32 inside, any dtype outside."""
    v = x.float()
    v = v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()
    p = torch.as_tensor(positions).double()
    a = p[..., None] * 1e6 ** (-torch.arange(0, 128, 2, dtype=torch.float64) / 128)
    a = a if p.ndim == 1 else a[:, None]
    c, s = a.cos().float(), a.sin().float()
    u, w = v.chunk(2, -1)
    return torch.cat([u * c - w * s, w * c + u * s], -1).to(x.dtype)


def norm_all_heads(x, weight, positions):
    v = x.astype(np.float64)
    v = weight * (v / np.sqrt((v * v).mean((1, 3), keepdims=True) + 1e-6))
    return _half(v, _pos(positions, 128)).astype(x.dtype)


def norm_two(x, weight, positions):
    """Two faults: see cases."""
    v = x.astype(np.float64)
    v = v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-6)
    h = 64
    w = np.concatenate([weight[h:], weight[:h]])
    return _half(v * w, -_pos(positions, 128)).astype(x.dtype)
