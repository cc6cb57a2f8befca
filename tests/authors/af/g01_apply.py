"""Rotations of x (B, H, S, D) to positions: fn(x, positions)."""
import math

import numpy as np
import torch
import jax
import jax.numpy as jnp


# --------------------------------------------------------------------------------------
# numpy, one table per call: positions are taken to be consecutive
# --------------------------------------------------------------------------------------
def rope_from_first(x, positions):
    positions = np.asarray(positions)
    s, d = x.shape[-2], x.shape[-1]
    first = positions[..., :1]                      # (1,) or (B, 1)
    t = first + np.arange(s)
    inv = 10000.0 ** (-np.arange(0, d, 2) / d)
    ang = t[..., None] * inv
    if ang.ndim == 3:
        ang = ang[:, None]
    c, s_ = np.cos(ang), np.sin(ang)
    e, o = x[..., 0::2], x[..., 1::2]
    out = np.empty(np.broadcast_shapes(x.shape), x.dtype)
    out[..., 0::2] = e * c - o * s_
    out[..., 1::2] = e * s_ + o * c
    return out


# --------------------------------------------------------------------------------------
# M-RoPE of Qwen2-VL, chunked sections, half-split
# --------------------------------------------------------------------------------------
SECTIONS = np.array([16, 24, 24])


def _axes_first(positions, n_axes):
    p = np.asarray(positions, dtype=np.float64)
    if p.ndim == 1:
        p = np.broadcast_to(p, (n_axes,) + p.shape)
    return p                                        # (A, S) or (A, B, S)


def qwen2vl_mrope(x, positions):
    p = _axes_first(positions, 3)
    inv = 1.0 / 1000000.0 ** (np.arange(0, 128, 2) / 128.0)
    freqs = p[..., None] * inv                      # (3, [B,] S, 64)
    emb = np.concatenate([freqs, freqs], -1)        # (3, [B,] S, 128)
    cos, sin = np.cos(emb), np.sin(emb)
    bounds = np.cumsum(SECTIONS * 2)[:-1]           # the sections of both halves
    cos = np.concatenate([m[i % 3] for i, m in enumerate(np.split(cos, bounds, -1))], -1)
    sin = np.concatenate([m[i % 3] for i, m in enumerate(np.split(sin, bounds, -1))], -1)
    if cos.ndim == 3:
        cos, sin = cos[:, None], sin[:, None]
    rot = np.concatenate([-x[..., 64:], x[..., :64]], -1)
    return (x * cos + rot * sin).astype(x.dtype)


# --------------------------------------------------------------------------------------
# Mochi: frequencies per head; the parameter is stored (axes, heads, pairs)
# --------------------------------------------------------------------------------------
POS_FREQUENCIES = np.round(0.4 * np.cos(1.0 + 1.7 * np.arange(3 * 4 * 8)), 4).reshape(3, 4, 8)


def mochi_heads(x, positions):
    p = _axes_first(positions, 3)
    if p.ndim == 2:
        p = p[:, None]                              # (3, 1, S)
    weight = POS_FREQUENCIES.reshape(4, 3, 8)       # heads first
    ang = np.einsum("abs,haf->bhsf", p, weight)
    c, s = np.cos(ang), np.sin(ang)
    pair = x.reshape(x.shape[:-1] + (8, 2))
    y = np.stack([pair[..., 0] * c - pair[..., 1] * s, pair[..., 0] * s + pair[..., 1] * c], -1)
    return y.reshape(x.shape).astype(x.dtype)


def mochi_heads_loop(x, positions):
    """Every head on its own, by the addition of the phases of the axes (right)."""
    p = _axes_first(positions, 3)
    out = np.array(x, copy=True)
    for h in range(4):
        z = np.ones(p.shape[1:] + (8,), np.complex128)
        for a in range(3):
            z *= np.exp(1j * p[a][..., None] * POS_FREQUENCIES[a, h])
        even, odd = x[:, h, :, 0::2], x[:, h, :, 1::2]
        out[:, h, :, 0::2] = even * z.real - odd * z.imag
        out[:, h, :, 1::2] = even * z.imag + odd * z.real
    return out


# --------------------------------------------------------------------------------------
# port of a SIMD kernel: eight tokens at a time, then the rest
# --------------------------------------------------------------------------------------
LANES = 8


class SimdKernel:
    def __init__(self, dim, base):
        self.half = dim // 2
        self.inv = base ** (-np.arange(self.half) / self.half)

    def _rows(self, pos):
        a = pos[..., None] * self.inv
        return np.cos(a), np.sin(a)

    def _turn(self, dst, src, cos, sin):
        h = self.half
        a, b = src[..., :h], src[..., h:]
        dst[..., :h] = a * cos - b * sin
        dst[..., h:] = b * cos + a * sin

    def __call__(self, x, positions):
        pos = np.asarray(positions, np.float64)
        if pos.ndim == 2:
            pos = pos[:, None]
        out = np.empty_like(x)
        n = x.shape[2]
        main = n - n % LANES
        for i in range(0, main, LANES):
            cos, sin = self._rows(pos[..., i:i + LANES])
            self._turn(out[:, :, i:i + LANES], x[:, :, i:i + LANES], cos, sin)
        if main < n:
            cos, sin = self._rows(pos[..., main:main + 1])   # the row stays loaded in the tail
            for i in range(main, n):
                self._turn(out[:, :, i:i + 1], x[:, :, i:i + 1], cos, sin)
        return out


simd_rope = SimdKernel(64, 10000.0)


# --------------------------------------------------------------------------------------
# torch module whose buffers follow .to(bfloat16)
# --------------------------------------------------------------------------------------
class RotaryModule(torch.nn.Module):
    def __init__(self, dim, base):
        super().__init__()
        inv = 1.0 / base ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, x, positions):
        pos = torch.as_tensor(positions).to(torch.float32)
        freqs = pos[..., None] * self.inv_freq.to(torch.float32)
        emb = torch.cat([freqs, freqs], -1)
        if emb.dim() == 3:
            emb = emb.unsqueeze(1)
        cos, sin = emb.cos(), emb.sin()
        half = x.shape[-1] // 2
        rot = torch.cat([-x[..., half:], x[..., :half]], -1)
        return (x * cos + rot * sin).to(x.dtype)


_module = RotaryModule(80, 10000.0).to(torch.bfloat16)


def rope_bf16_model(x, positions):
    with torch.no_grad():
        return _module(x, positions)


# --------------------------------------------------------------------------------------
# jax: gathered table
# --------------------------------------------------------------------------------------
_ROWS = 4096
_ang = np.arange(_ROWS)[:, None] * 500000.0 ** (-np.arange(32) / 32)
_COS, _SIN = (jnp.asarray(f(_ang), jnp.float32) for f in (np.cos, np.sin))


@jax.jit
def rope_jax_gather(x, positions):
    idx = jnp.asarray(positions).astype(jnp.int32)
    cos = jnp.take(_COS, idx, axis=0, mode="clip")
    sin = jnp.take(_SIN, idx, axis=0, mode="clip")
    if idx.ndim == 2:
        cos, sin = cos[:, None], sin[:, None]
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], -1).astype(x.dtype)


# --------------------------------------------------------------------------------------
# Pixtral
# --------------------------------------------------------------------------------------
def pixtral(x, positions):
    p = _axes_first(positions, 2)
    freqs = 1.0 / 10000.0 ** (np.arange(0, 64, 2) / 64.0)
    h = p[0][..., None] * freqs[::2]
    w = p[1][..., None] * freqs[::2]
    ang = np.concatenate([h, w], -1)
    if ang.ndim == 3:
        ang = ang[:, None]
    cos, sin = np.cos(ang), np.sin(ang)
    a, b = x[..., :32], x[..., 32:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


# --------------------------------------------------------------------------------------
# p-RoPE (Gemma 4, full attention): a quarter of the pairs turn
# --------------------------------------------------------------------------------------
def p_rope(x, positions, head_dim=64, fraction=0.25, base=1000000.0):
    turning = int(fraction * head_dim // 2)
    n = 2 * turning
    inv = np.zeros(head_dim // 2)
    inv[:turning] = base ** (-np.arange(0, n, 2) / n)
    ang = np.asarray(positions, np.float64)[..., None] * inv
    ang = ang[:, None] if ang.ndim == 3 else ang
    z = np.exp(1j * ang)
    y = (x[..., :head_dim // 2] + 1j * x[..., head_dim // 2:]) * z
    return np.concatenate([y.real, y.imag], -1).astype(x.dtype)


# --------------------------------------------------------------------------------------
# FLUX: three axes, interleaved pairs
# --------------------------------------------------------------------------------------
def flux(x, positions, axes_dim=(16, 56, 56), theta=10000.0):
    ids = _axes_first(positions, 3)
    total = sum(axes_dim)
    parts = []
    for a, dim in enumerate(axes_dim):
        omega = 1.0 / theta ** (np.arange(0, dim, 2) / total)
        source = (0, 2, 1)[a]
        parts.append(np.einsum("...n,d->...nd", ids[source], omega))
    ang = np.concatenate(parts, -1)
    if ang.ndim == 3:
        ang = ang[:, None]
    m = np.stack([np.cos(ang), -np.sin(ang), np.sin(ang), np.cos(ang)], -1)
    m = m.reshape(ang.shape + (2, 2))
    xr = x.reshape(x.shape[:-1] + (-1, 1, 2))
    y = m[..., 0] * xr[..., 0] + m[..., 1] * xr[..., 1]
    return y.reshape(x.shape).astype(x.dtype)


# --------------------------------------------------------------------------------------
# right ones
# --------------------------------------------------------------------------------------
def latent_slice_complex(x, positions):
    """The last 32 of 96 channels, as complex numbers in memory."""
    p = np.asarray(positions, np.float64)
    z = np.ascontiguousarray(x[..., 64:], dtype=np.float64).view(np.complex128)
    phase = np.exp(1j * np.multiply.outer(p, 10000.0 ** (-np.arange(16) / 16)))
    if p.ndim == 2:
        phase = phase[:, np.newaxis]
    turned = np.ascontiguousarray(z * phase).view(np.float64)
    return np.concatenate([x[..., :64], turned.astype(x.dtype)], axis=-1)


def _yarn_table():
    d, base, s, l0 = 64, 10000.0, 4.0, 2048
    f = [base ** (-2 * k / d) for k in range(d // 2)]
    c = lambda r: d * math.log(l0 / (2 * math.pi * r)) / (2 * math.log(base))
    low, high = max(math.floor(c(32)), 0), min(math.ceil(c(1)), d - 1)
    g = [min(max((k - low) / (high - low), 0.0), 1.0) for k in range(d // 2)]
    return torch.tensor([a * (1 - w) + a / s * w for a, w in zip(f, g)], dtype=torch.float64), 0.1 * math.log(s) + 1


_YARN_FREQ, _YARN_M = _yarn_table()
_SWAP = torch.cat([torch.arange(32, 64), torch.arange(0, 32)])
_SIGN = torch.cat([-torch.ones(32), torch.ones(32)]).double()


def yarn_gathered_partner(x, positions):
    pos = torch.as_tensor(positions).double()
    ang = pos[..., None] * torch.cat([_YARN_FREQ, _YARN_FREQ])
    if ang.dim() == 3:
        ang = ang[:, None]
    wide = x.double()
    y = torch.addcmul(wide * ang.cos(), wide.index_select(-1, _SWAP), ang.sin() * _SIGN)
    return (y * _YARN_M).to(x.dtype)


class TwoDigits:
    """exp(i p theta) as the product of two table entries, p = 1024 high + low."""

    def __init__(self, dim, base):
        self.theta = np.array([base ** (-2.0 * k / dim) for k in range(dim // 2)])
        digits = np.arange(1024.0)[:, None]
        self.low = np.exp(1j * digits * self.theta)
        self.high = np.exp(1j * 1024.0 * digits * self.theta)

    def phase(self, p):
        if p.size and (p == np.floor(p)).all() and p.min() >= 0 and p.max() < 1 << 20:
            n = p.astype(np.int64)
            return self.high[n >> 10] * self.low[n & 1023]
        return np.exp(1j * p[..., None] * self.theta)

    def __call__(self, x, positions):
        z = self.phase(np.asarray(positions, dtype=np.float64))
        if z.ndim == 3:
            z = np.expand_dims(z, 1)
        half = x.shape[-1] // 2
        v = x[..., :half].astype(np.float64) + 1j * x[..., half:].astype(np.float64)
        v = v * z
        return np.concatenate((v.real, v.imag), -1).astype(x.dtype)


two_digit_rope = TwoDigits(64, 1000000.0)
