"""`permute_weights`, `normed_apply`, and factors and layers of whole models."""
import math
import numpy as np


# ---------------------------------------------------------------- permute_weights
def permute_back(w, n_heads):
    """permute() of convert_llama_weights_to_hf.py."""
    dim1, rest = w.shape[0], w.shape[1:]
    return w.reshape(n_heads, dim1 // n_heads // 2, 2, *rest).swapaxes(1, 2).reshape(w.shape)


def permute_whole_head(w, n_heads):
    """llama.cpp's permute for a model with partial rotary factor 0.5."""
    rest = w.shape[1:]
    return w.reshape(n_heads, 2, w.shape[0] // n_heads // 2, *rest).swapaxes(1, 2).reshape(w.shape)


def permute_rows(w, n_heads):
    """Row by row: row 2k of a head comes from k, row 2k + 1 from k + d/2."""
    d = w.shape[0] // n_heads
    out = np.zeros_like(w)
    for h in range(n_heads):
        for r in range(d):
            out[h * d + r] = w[h * d + r // 2 + (r & 1) * (d // 2)]
    return out


# ---------------------------------------------------------------- normed_apply
def _ang(positions, inv):
    t = np.asarray(positions).astype(np.float64)[..., None] * inv
    return t[:, None] if t.ndim == 3 else t


def _half(x, ang):
    c, s = np.cos(ang), np.sin(ang)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def norm_after(x, weight, positions):
    """q_norm and k_norm on the rotated states."""
    d = x.shape[-1]
    y = _half(x.astype(np.float64), _ang(positions, 1e6 ** (-np.arange(0, d, 2) / d)))
    y = y / np.sqrt(np.mean(y * y, -1, keepdims=True) + 1e-6)
    return (y * weight).astype(x.dtype)


def norm_of_slice(x, weight, positions):
    """The fused kernel reduces over the channels that it rotates."""
    n = 16
    v = x.astype(np.float64)
    v = v / np.sqrt(np.mean(v[..., :n] ** 2, -1, keepdims=True) + 1e-6) * weight
    ang = _ang(positions, 10000.0 ** (-np.arange(0, n, 2) / n))
    return np.concatenate([_half(v[..., :n], ang), v[..., n:]], -1).astype(x.dtype)


def norm_gemma_pairs(x, weight, positions):
    """Gemma's RMSNorm, then rope(traditional=True)."""
    d = x.shape[-1]
    v = x.astype(np.float64)
    v = v / np.sqrt(np.mean(np.square(v), -1, keepdims=True) + 1e-6) * (1.0 + np.asarray(weight, np.float64))
    ang = _ang(positions, 10000.0 ** (-np.arange(0, d, 2) / d))
    c, s = np.cos(ang), np.sin(ang)
    e, o = v[..., 0::2], v[..., 1::2]
    return np.stack([e * c - o * s, o * c + e * s], -1).reshape(x.shape).astype(x.dtype)


def norm_last(x, weight, positions):
    """Norms do not change in a rotation: the root mean square may be divided out at the end."""
    d = x.shape[-1]
    v = x.astype(np.float64)
    ms = np.einsum("...c,...c->...", v, v)[..., None] / d
    y = _half(v * weight, _ang(positions, 1e6 ** (-np.arange(0, d, 2) / d)))
    return (y * (ms + 1e-6) ** -0.5).astype(x.dtype)


# ---------------------------------------------------------------- softmax_scale
def deepseek_scale():
    """q_head_dim ** -0.5, and mscale as in the rotary embedding."""
    mscale = 0.1 * 1.0 * math.log(40) + 1.0
    return (128 + 64) ** -0.5 * mscale


def mla_scale():
    """Kimi-like model: heads of 128 channels without and 64 with positions."""
    qk_nope_head_dim, qk_rope_head_dim = 128, 64
    return 1.0 / math.sqrt(qk_nope_head_dim)


# ---------------------------------------------------------------- layers
def smollm_no_rope(n_layers):
    """no_rope_layers of the configuration: 1, 1, 1, 0, ..."""
    no_rope_layers = [int((i + 1) % 4 != 0) for i in range(n_layers)]
    return [not flag for flag in no_rope_layers]


def pipeline_stages(n_layers):
    """Two pipeline stages build their own layers; every fourth is without RoPE."""
    flags = []
    for stage in range(2):
        for i in range(n_layers // 2 + (n_layers % 2 if stage else 0)):
            flags.append((i + 1) % 4 != 0)
    return flags


def hybrid_layers(n_layers):
    """One letter for each layer: m (linear attention), r (rotary), n (NoPE)."""
    letters = ("mmr" * n_layers)[: n_layers - 1] + "n"
    return np.array([c == "r" for c in letters])
