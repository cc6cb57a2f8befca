"""Several axes, learned frequencies, heads with maps of their own: `apply`."""
import math
import numpy as np
import jax
import jax.numpy as jnp
import torch


def _axes(positions, count):
    """-> (A, 1 or B, S) float64"""
    p = np.asarray(positions).astype(np.float64)
    if p.ndim == 1:
        p = np.broadcast_to(p, (count, *p.shape))
    return p[:, None] if p.ndim == 2 else p


# ------------------------------------------------------------------ 13
def qwen2_vl(x, positions):
    """apply_multimodal_rotary_pos_emb: cos and sin (3, B, S, d), split into 6 pieces."""
    sections = [6, 5, 5]
    d = x.shape[-1]
    inv = 1.0 / 1000000.0 ** (np.arange(0, d, 2) / d)
    freqs = _axes(positions, 3)[..., None] * inv
    emb = np.concatenate([freqs, freqs], -1)
    edges = np.cumsum(sections * 2)[:-1]

    def pick(t):
        return np.concatenate([m[i // 2] for i, m in enumerate(np.split(t, edges, -1))], -1)[:, None]

    cos, sin = pick(np.cos(emb)), pick(np.sin(emb))
    h = d // 2
    turned = np.concatenate([-x[..., h:], x[..., :h]], -1)
    return (x * cos + turned * sin).astype(x.dtype)


# ------------------------------------------------------------------ 14
def qwen3_vl_interleaved(x, positions):
    """Interleaved M-RoPE in JAX: pair j follows axis j mod 3."""
    d = x.shape[-1]
    p = jnp.asarray(positions).astype(jnp.float32)
    if p.ndim == 1:
        p = jnp.broadcast_to(p, (3, p.shape[0]))
    if p.ndim == 2:
        p = p[:, None]
    inv = jnp.asarray(10000.0 ** (-np.arange(0, d, 2) / d), jnp.float32)
    axis = jnp.arange(d // 2) % 3
    ang = (jnp.moveaxis(p[axis], 0, -1) * inv)[:, None]
    c, s = jnp.cos(ang), jnp.sin(ang)
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ------------------------------------------------------------------ 15
def _riflex_1d(dim, k, frames):
    freqs = 256.0 ** (-np.arange(0, dim, 2) / dim)
    freqs[k - 1] = 2 * np.pi / frames
    return freqs


def hunyuan_riflex(x, positions):
    """get_nd_rotary_pos_embed with RIFLEx (k=3, 132 latent frames), axes of 8, 12 and 12 channels."""
    p = _axes(positions, 3)
    parts, at = [], 0
    for axis, dim in enumerate((8, 12, 12)):
        ang = (p[axis][..., None] * _riflex_1d(dim, 3, 132))[:, None]
        e, o = x[..., at:at + dim:2], x[..., at + 1:at + dim:2]
        c, s = np.cos(ang), np.sin(ang)
        block = np.stack([e * c - o * s, o * c + e * s], -1)
        parts.append(block.reshape(*block.shape[:-2], dim))
        at += dim
    return np.concatenate(parts, -1).astype(x.dtype)


# ------------------------------------------------------------------ 16
_MOCHI = np.round(0.4 * np.random.default_rng(18).standard_normal((3, 4, 8)), 4)  # (axes, heads, pairs)


def mochi_reshaped(x, positions):
    """The checkpoint has pos_frequencies (3, heads, pairs); heads first for the kernel."""
    w = _MOCHI.reshape(4, 3, 8)
    p = _axes(positions, 3)
    ang = np.einsum("abs,hap->bhsp", p, w)
    c, s = np.cos(ang), np.sin(ang)
    e, o = x[..., 0::2], x[..., 1::2]
    return np.stack([e * c - o * s, o * c + e * s], -1).reshape(x.shape).astype(x.dtype)


# ------------------------------------------------------------------ 17
_rng = np.random.default_rng(1818)
_FOPE_COS = np.round(np.eye(6) + 0.25 * _rng.standard_normal((3, 6, 6)), 4)
_FOPE_SIN = np.round(np.eye(6) + 0.25 * _rng.standard_normal((3, 6, 6)), 4)


def intern_fope(x, positions):
    """FoPE with 6 kept pairs of 8; the others have C = 1 and S = 0."""
    p = np.asarray(positions).astype(np.float64)
    ang = p[..., None] * 10000.0 ** (-2 * np.arange(6) / 16)
    sub = "sk,hkd->hsd" if p.ndim == 1 else "bsk,hkd->bhsd"
    c, s = np.einsum(sub, np.cos(ang), _FOPE_COS), np.einsum(sub, np.sin(ang), _FOPE_COS)
    pad = [(0, 0)] * (c.ndim - 1) + [(0, 2)]
    c, s = np.pad(c, pad, constant_values=1.0), np.pad(s, pad)
    r = x.shape[1] // c.shape[-3]
    c, s = np.repeat(c, r, axis=-3), np.repeat(s, r, axis=-3)
    a, b = x[..., :8], x[..., 8:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ------------------------------------------------------------------ 18 (two)
def vision_axial(x, positions):
    """Two blocks of channels, one for rows and one for columns, half-split pairs."""
    p = _axes(positions, 2)
    n = x.shape[-1] // 4
    inv = 100.0 ** (-np.arange(n) / n)
    y, xx = p[1], p[0]
    ang = np.concatenate([y[..., None] * inv, xx[..., None] * inv], -1)[:, None]
    c, s = np.cos(ang), np.sin(ang)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# ------------------------------------------------------------------ 5, 6 in torch
def _torch_tables(positions, d, base, device):
    p = torch.as_tensor(positions, device=device).to(torch.float64)
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    ang = p[..., None] * inv
    if ang.ndim == 3:
        ang = ang[:, None]
    return ang.cos(), ang.sin()


def few_heads(x, positions):
    """Warps of the kernel take heads 0 .. 7; the launch has one block in y."""
    cos, sin = _torch_tables(positions, x.shape[-1], 10000.0, x.device)
    out = x.clone()
    n = min(x.shape[1], 8)
    a, b = x[:, :n].double().chunk(2, dim=-1)
    out[:, :n] = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)
    return out


def tiled_tokens(x, positions):
    """Full tiles of 32 tokens in a main loop, the rest of the tokens in a tail."""
    cos, sin = _torch_tables(positions, x.shape[-1], 10000.0, x.device)
    S, T = x.shape[-2], 32
    out = torch.empty_like(x)

    def one(lo, hi, row):
        c, s = cos[..., row:row + hi - lo, :], sin[..., row:row + hi - lo, :]
        e, o = x[..., lo:hi, 0::2].double(), x[..., lo:hi, 1::2].double()
        out[..., lo:hi, 0::2] = (e * c - o * s).to(x.dtype)
        out[..., lo:hi, 1::2] = (o * c + e * s).to(x.dtype)

    full = S // T * T
    for lo in range(0, full, T):
        one(lo, lo + T, lo)
    if full < S:
        one(full, S, 0)
    return out


# ------------------------------------------------------------------ right ones
def mrope_vmap(x, positions):
    """Chunked M-RoPE in JAX: one pair at a time under vmap, the axis chosen by a one-hot product."""
    d = x.shape[-1]
    p = jnp.asarray(positions).astype(jnp.float32)
    if p.ndim == 1:
        p = jnp.stack([p, p, p])
    if p.ndim == 2:
        p = p[:, None]
    inv = jnp.asarray(1e6 ** (-np.arange(0, d, 2) / d), jnp.float32)
    axis = jnp.asarray(np.repeat(np.arange(3), [6, 5, 5]))

    def turn(f, a, u, v):
        t = (jnp.where(a == 0, p[0], jnp.where(a == 1, p[1], p[2])) * f)[:, None]
        return u * jnp.cos(t) - v * jnp.sin(t), v * jnp.cos(t) + u * jnp.sin(t)

    u, v = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    u, v = jax.vmap(turn, in_axes=(0, 0, -1, -1), out_axes=-1)(inv, axis, u, v)
    return jnp.concatenate([u, v], -1).astype(x.dtype)


def ltx_complex(x, positions):
    """LTX-Video: ascending frequencies pi/2 .. 10000 pi/2, t h w t h w ..., two idle channels in front."""
    p = _axes(positions, 3)
    freqs = 10000.0 ** np.linspace(0.0, 1.0, 5) * (math.pi / 2)
    ang = (p[..., None] * freqs).transpose(1, 2, 3, 0).reshape(*p.shape[1:], 15)[:, None]
    z = x[..., 2::2].astype(np.float64) + 1j * x[..., 3::2].astype(np.float64)
    z = z * (np.cos(ang) + 1j * np.sin(ang))
    y = x.copy()
    y[..., 2::2], y[..., 3::2] = z.real.astype(x.dtype), z.imag.astype(x.dtype)
    return y
