"""q and k together: fn(q, k, q_positions, k_positions); gradients: fn(x, positions, dy)."""
import math

import numpy as np
import torch
import jax.numpy as jnp


def _wide(t):
    t = np.asarray(t, np.float64)
    return t[:, None, :, None] if t.ndim == 2 else t[:, None]


# ----------------------------------------------------------------------------- apply_qk
def _inplace(buf, pos):
    d = buf.shape[-1]
    ang = _wide(pos) * 10000.0 ** (-np.arange(0, d, 2) / d)
    cos, sin = np.cos(ang), np.sin(ang)
    re, im = buf[..., 0::2], buf[..., 1::2]
    re[...] = re * cos - im * sin
    im[...] = im * cos + re * sin
    return buf


def rope_inplace_views(q, k, q_positions, k_positions):
    return _inplace(q.copy(), q_positions), _inplace(k.copy(), k_positions)


def _xpos_half(x, pos, power):
    pos = np.asarray(pos, np.float64)
    d = x.shape[-1]
    step = np.arange(0, d, 2) / d
    zeta = (step + 0.4) / 1.4
    centre = (pos.max(-1, keepdims=True) + pos.min(-1, keepdims=True)) // 2
    scale = zeta ** (_wide(pos - centre) / 512.0 * power)
    ang = _wide(pos) * 10000.0 ** -step
    cos, sin = np.cos(ang) * scale, np.sin(ang) * scale
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def xpos_centred_calls(q, k, q_positions, k_positions):
    return _xpos_half(q, q_positions, 1.0), _xpos_half(k, k_positions, -1.0)


class SharedTable:
    """One table for the keys; the queries are its last rows."""

    def __init__(self, dim, base):
        self.inv = base ** (-np.arange(0, dim, 2) / dim)

    def table(self, pos):
        ang = np.asarray(pos, np.float64)[..., None] * self.inv
        return np.cos(ang), np.sin(ang)

    @staticmethod
    def rotate(x, cos, sin):
        if cos.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1).astype(x.dtype)

    def __call__(self, q, k, q_positions, k_positions):
        cos, sin = self.table(k_positions)
        n = q.shape[2]
        same_rows = np.ndim(q_positions) <= np.ndim(k_positions)
        if n <= k.shape[2] and same_rows:
            qc, qs = cos[..., -n:, :], sin[..., -n:, :]
        else:
            qc, qs = self.table(q_positions)
        return self.rotate(q, qc, qs), self.rotate(k, cos, sin)


suffix_queries = SharedTable(64, 500000.0)


def _yarn(d, base, s, l0, fast=32, slow=1):
    k = np.arange(d // 2)
    f = base ** (-2 * k / d)
    find = lambda r: d * math.log(l0 / (r * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(math.floor(find(fast)), 0), min(math.ceil(find(slow)), d - 1)
    mask = 1 - np.clip((k - low) / (high - low), 0, 1)
    return f / s * (1 - mask) + f * mask


def yarn_factor_on_queries(q, k, q_positions, k_positions):
    inv = torch.from_numpy(_yarn(64, 10000.0, 8.0, 4096))
    m = 0.1 * math.log(8.0) + 1.0

    def turn(x, pos):
        ang = torch.as_tensor(pos).double()[..., None] * inv
        ang = torch.cat([ang, ang], -1)
        ang = ang[:, None] if ang.dim() == 3 else ang
        x = x.double()
        return x * ang.cos() + torch.cat([-x[..., 32:], x[..., :32]], -1) * ang.sin()

    return (m * turn(q, q_positions)).to(q.dtype), turn(k, k_positions).to(k.dtype)


def split_pe_nope(q, k, q_positions, k_positions):
    inv = 10000.0 ** (-np.arange(32) / 32)

    def turn(part, pos):
        ang = _wide(pos) * inv
        a, b = part[..., :32], part[..., 32:]
        c, s = np.cos(ang), np.sin(ang)
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(part.dtype)

    q_pe, q_nope = q[..., :64], q[..., 64:]
    k_nope, k_pe = k[..., :64], k[..., 64:]
    return (np.concatenate([turn(q_pe, q_positions), q_nope], -1),
            np.concatenate([k_nope, turn(k_pe, k_positions)], -1))


def _either_layout(x, pos):
    """Accepts (B, H, S, D) and (B, S, H, D)."""
    pos = np.asarray(pos, np.float64)
    n = pos.shape[-1]
    swap = x.shape[1] == n
    if swap:
        x = np.swapaxes(x, 1, 2)
    ang = _wide(pos) * 10000.0 ** (-np.arange(16) / 16)
    z = np.exp(1j * ang)
    y = (x[..., 0::2] + 1j * x[..., 1::2]) * z
    y = np.stack([y.real, y.imag], -1).reshape(x.shape).astype(x.dtype)
    return np.swapaxes(y, 1, 2) if swap else y


def guessed_tensor_layout(q, k, q_positions, k_positions):
    return _either_layout(q, q_positions), _either_layout(k, k_positions)


def xpos_tiled(q, k, q_positions, k_positions):
    def one(x, pos):
        p = _wide(pos)
        k_ = np.arange(0, 64, 2)
        ang = np.repeat(p * 10000.0 ** (-k_ / 64), 2, axis=-1)
        scale = ((k_ + 0.4 * 64) / (1.4 * 64)) ** (p / 512)
        scale = np.concatenate([scale, scale], -1)
        rot = np.empty_like(x)
        rot[..., 0::2], rot[..., 1::2] = -x[..., 1::2], x[..., 0::2]
        return (x * np.cos(ang) * scale + rot * np.sin(ang) * scale).astype(x.dtype)
    return one(q, q_positions), one(k, k_positions)


def xpos_complex_exponent(q, k, q_positions, k_positions):
    """Rotation and decay are one exponential (right)."""
    step = np.arange(32) / 32
    rate = np.log((step + 0.4) / 1.4) / 512.0
    theta = 10000.0 ** -step

    def one(x, pos, sign):
        z = np.exp(_wide(pos) * (sign * rate + 1j * theta))
        pair = x.astype(np.float64).reshape(x.shape[:-1] + (32, 2))
        y = (pair[..., 0] + 1j * pair[..., 1]) * z
        return np.stack((y.real, y.imag), axis=-1).reshape(x.shape).astype(x.dtype)

    return one(q, q_positions, 1.0), one(k, k_positions, -1.0)


def glm_tokens_flat(q, k, q_positions, k_positions):
    """Tokens of all rows in one list, as in a varlen kernel; half of the head turns (right)."""
    inv = 10000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)

    def one(x, pos):
        b, h, s, d = x.shape
        p = torch.as_tensor(pos).double().expand(b, s).reshape(-1)
        flat = x.permute(0, 2, 1, 3).reshape(b * s, h, d)
        table = torch.outer(p, inv).repeat_interleave(2, -1)[:, None]
        head, rest = flat[..., :32].double(), flat[..., 32:]
        partner = torch.stack([-head[..., 1::2], head[..., ::2]], -1).flatten(-2)
        y = torch.cat([(head * table.cos() + partner * table.sin()).to(x.dtype), rest], -1)
        return y.reshape(b, s, h, d).permute(0, 2, 1, 3).contiguous()

    return one(q, q_positions), one(k, k_positions)


# ---------------------------------------------------------------------------- apply_vjp
def yarn_backward_by_inverse(x, positions, dy):
    inv = _yarn(64, 10000.0, 4.0, 4096)
    m = 0.1 * math.log(4.0) + 1.0
    ang = _wide(positions) * inv
    c, s = np.cos(ang) / m, np.sin(ang) / m
    g1, g2 = dy[..., :32], dy[..., 32:]
    return np.concatenate([g1 * c + g2 * s, g2 * c - g1 * s], -1).astype(dy.dtype)


def partial_backward_zeros(x, positions, dy):
    ang = _wide(positions) * 10000.0 ** (-np.arange(32) / 32)
    c, s = np.cos(ang), np.sin(ang)
    dx = np.zeros_like(dy)
    g1, g2 = dy[..., 0:64:2], dy[..., 1:64:2]
    dx[..., 0:64:2] = g1 * c + g2 * s
    dx[..., 1:64:2] = g2 * c - g1 * s
    return dx


def deepseek_backward(x, positions, dy):
    """The forward function with -sin: reads interleaved pairs, writes halves."""
    ang = jnp.asarray(positions).astype(jnp.float32)[..., None] * jnp.asarray(
        10000.0 ** (-np.arange(32) / 32), jnp.float32)
    if ang.ndim == 3:
        ang = ang[:, None]
    c, s = jnp.cos(ang), -jnp.sin(ang)
    a, b = dy[..., 0::2], dy[..., 1::2]
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1).astype(dy.dtype)


def mrope_backward_sign(x, positions, dy):
    p = np.asarray(positions, np.float64)
    if p.ndim == 1:
        p = np.stack([p] * 3)
    axis = np.repeat([0, 1, 2], [4, 6, 6])
    ang = np.moveaxis(p[axis], 0, -1) * 10000.0 ** (-np.arange(16) / 16)
    if ang.ndim == 3:
        ang = ang[:, None]
    c, s = np.cos(ang), np.sin(ang)
    g1, g2 = dy[..., :16], dy[..., 16:]
    return np.concatenate([g1 * c + g2 * s, g2 * c + g1 * s], -1).astype(dy.dtype)


def qwen3vl_autograd(x, positions, dy):
    """Backpropagation through the forward function (right)."""
    p = torch.as_tensor(positions).double()
    if p.dim() == 1:
        p = p.expand(3, -1)
    inv = 5000000.0 ** (-torch.arange(0, 128, 2, dtype=torch.float64) / 128)
    freqs = p[..., None] * inv
    mixed = freqs[0].clone()
    for a in (1, 2):
        mixed[..., a:60:3] = freqs[a][..., a:60:3]
    if mixed.dim() == 3:
        mixed = mixed[:, None]
    leaf = x.detach().double().requires_grad_(True)
    with torch.enable_grad():
        a, b = leaf[..., :64], leaf[..., 64:]
        y = torch.cat([a * mixed.cos() - b * mixed.sin(), b * mixed.cos() + a * mixed.sin()], -1)
        (grad,) = torch.autograd.grad(y, leaf, dy.double())
    return grad.to(dy.dtype)
