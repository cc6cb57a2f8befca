"""Queries and keys together: `apply_qk`, and backward passes: `apply_vjp`."""
import math
import numpy as np
import jax
import jax.numpy as jnp
import torch


def _p(positions):
    return np.asarray(positions).astype(np.float64)


def _lift(t):
    return t[:, None] if t.ndim == 3 else t


def _half(x, ang, m=1.0):
    c, s = m * np.cos(ang), m * np.sin(ang)
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


def _pairs(x, ang, m=1.0):
    c, s = m * np.cos(ang), m * np.sin(ang)
    e, o = x[..., 0::2], x[..., 1::2]
    return np.stack([e * c - o * s, o * c + e * s], -1).reshape(x.shape).astype(x.dtype)


# ---------------------------------------------------------------- apply_qk, wrong
def keys_from_zero(q, k, q_positions, k_positions):
    """The key cache is rotated when it is read: row j of the cache is position j."""
    inv = 10000.0 ** (-np.arange(0, q.shape[-1], 2) / q.shape[-1])
    qa = _lift(_p(q_positions)[..., None] * inv)
    ka = np.arange(k.shape[-2])[:, None] * inv
    return _half(q, qa), _half(k, ka)


def decode_shortcut(q, k, q_positions, k_positions):
    """One query: it is the newest token, so it stands at the end of the keys."""
    d = q.shape[-1]
    inv = 500000.0 ** (-np.arange(0, d, 2) / d)
    if q.shape[-2] == 1:
        qa = np.float64(k.shape[-2] - 1) * inv[None, :]
    else:
        qa = _lift(_p(q_positions)[..., None] * inv)
    return _pairs(q, qa), _pairs(k, _lift(_p(k_positions)[..., None] * inv))


def xpos_same_power(q, k, q_positions, k_positions):
    """torchscale's XPOS without the argument downscale."""
    d = q.shape[-1]
    i = np.arange(0, d, 2)
    zeta = (i + 0.4 * d) / (1.4 * d)

    def one(x, positions):
        p = _p(positions)[..., None]
        size = _lift(zeta ** (p / 512.0))
        return _pairs(x, _lift(p * 10000.0 ** (-i / d)), size)

    return one(q, q_positions), one(k, k_positions)


def xpos_call_centre(q, k, q_positions, k_positions):
    """min_pos = -length // 2 of each tensor, as in torchscale, so that nothing overflows."""
    d = q.shape[-1]
    j = np.arange(d // 2) * 2.0
    scale = (j / d + 0.4) / 1.4
    theta = 10000.0 ** (-j / d)

    def one(x, positions, sign):
        p = _p(positions)[..., None]
        n = (p - x.shape[-2] // 2) / 256.0
        return _half(x, _lift(p * theta), _lift(np.exp(sign * n * np.log(scale))))

    return one(q, q_positions, 1.0), one(k, k_positions, -1.0)


def _yarn(dim, base, factor, original, fast=32.0, slow=1.0):
    def c(r):
        return dim * math.log(original / (r * 2 * math.pi)) / (2 * math.log(base))
    lo, hi = max(math.floor(c(fast)), 0), min(math.ceil(c(slow)), dim - 1)
    f = base ** (-np.arange(0, dim, 2) / dim)
    w = np.clip((np.arange(dim // 2) - lo) / max(hi - lo, 0.001), 0, 1)
    return f * (1 - w) + f / factor * w


def factor_on_queries(q, k, q_positions, k_positions):
    """YaRN, with the temperature applied where mlx applies it, to the queries."""
    inv = _yarn(q.shape[-1], 1000000.0, 4.0, 32768)
    qa, ka = (_lift(_p(p)[..., None] * inv) for p in (q_positions, k_positions))
    return _half(q, qa, 0.1 * math.log(4.0) + 1.0), _half(k, ka)


def keys_other_layout(q, k, q_positions, k_positions):
    """q weights were permuted for the interleaved kernel; k still goes through rotate_half."""
    d = q.shape[-1]
    inv = 10000.0 ** (-np.arange(0, d, 2) / d)
    qa, ka = (_lift(_p(p)[..., None] * inv) for p in (q_positions, k_positions))
    return _pairs(q, qa), _half(k, ka)


def scaled_and_reversed(q, k, q_positions, k_positions):
    """Fused prologue: queries leave with the softmax scale; keys are multiplied by the conjugate."""
    d = q.shape[-1]
    inv = 10000.0 ** (-np.arange(0, d, 2) / d)
    qa, ka = (_lift(_p(p)[..., None] * inv) for p in (q_positions, k_positions))
    return _half(q, qa, 1 / math.sqrt(d)), _half(k, -ka)


def time_axis_keys(q, k, q_positions, k_positions):
    """M-RoPE; the cache stores one position for each key."""
    sections, d = (4, 6, 6), q.shape[-1]
    inv = 10000.0 ** (-np.arange(0, d, 2) / d)
    axis = np.repeat(np.arange(3), sections)

    def angles(positions, keep):
        p = _p(positions)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        each = p[keep]                                # (P, ..., S)
        ang = np.moveaxis(each, 0, -1) * inv
        return _lift(ang)

    return _half(q, angles(q_positions, axis)), _half(k, angles(k_positions, 0 * axis))


# ---------------------------------------------------------------- apply_qk, right
def joined_tokens(q, k, q_positions, k_positions):
    """One launch for both: the tokens of q and k in one tensor, heads filled up with zeros."""
    inv = 10000.0 ** (-2 * np.arange(12) / 24)
    heads = max(q.shape[1], k.shape[1])

    def fill(x):
        return np.pad(x, [(0, 0), (0, heads - x.shape[1]), (0, 0), (0, 0)])

    x = np.concatenate([fill(q), fill(k)], axis=2)
    pq, pk = _p(q_positions), _p(k_positions)
    if pq.ndim != pk.ndim:
        pq, pk = np.atleast_2d(pq), np.atleast_2d(pk)
        rows = max(len(pq), len(pk))
        pq, pk = np.broadcast_to(pq, (rows, pq.shape[1])), np.broadcast_to(pk, (rows, pk.shape[1]))
    ang = _lift(np.concatenate([pq, pk], -1)[..., None] * inv)
    y = np.array(x)
    y[..., 8:32] = _half(x[..., 8:32], ang)
    n = q.shape[2]
    return y[:, : q.shape[1], :n].copy(), y[:, : k.shape[1], n:].copy()


def xpos_logs(q, k, q_positions, k_positions):
    """xPos by one complex exponent: log zeta n + i angle."""
    d = q.shape[-1]
    j = np.arange(0, d, 2)
    log_zeta = np.log((j / d + 0.4) / 1.4)
    theta = 10000.0 ** (-j / d)

    def one(x, positions, sign):
        p = _lift(_p(positions)[..., None])
        w = np.exp(p * (sign * log_zeta / 512.0 + 1j * theta))
        z = (x[..., : d // 2] + 1j * x[..., d // 2:].astype(np.float64)) * w
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)

    return one(q, q_positions, +1), one(k, k_positions, -1)


# ---------------------------------------------------------------- apply_vjp, wrong
def vjp_forward(x, positions, dy):
    """The backward pass calls the same kernel again."""
    inv = 10000.0 ** (-np.arange(0, dy.shape[-1], 2) / dy.shape[-1])
    return _half(dy, _lift(_p(positions)[..., None] * inv)).astype(x.dtype)


def vjp_inverse(x, positions, dy):
    """Undo the rotation: the matrix is orthogonal, so its transpose is its inverse."""
    inv = _yarn(dy.shape[-1], 10000.0, 16.0, 4096)
    m = 0.1 * math.log(16.0) + 1.0
    ang = _lift(_p(positions)[..., None] * inv)
    c, s = np.cos(ang) / m, np.sin(ang) / m
    a, b = np.split(dy, 2, -1)
    return np.concatenate([a * c + b * s, b * c - a * s], -1).astype(x.dtype)


def vjp_deepseek(x, positions, dy):
    """Forward: view(d/2, 2).transpose and then rotate_half. Backward: the kernel for pairs."""
    n = 24
    inv = 10000.0 ** (-torch.arange(0, n, 2, dtype=torch.float64) / n)
    p = torch.as_tensor(positions).to(torch.float64)
    ang = p[..., None] * inv
    ang = ang[:, None] if ang.ndim == 3 else ang
    c, s = ang.cos(), ang.sin()
    g = dy.double()
    e, o = g[..., 8::2], g[..., 9::2]
    out = g.clone()
    out[..., 8::2] = e * c + o * s
    out[..., 9::2] = o * c - e * s
    return out.to(x.dtype)


def vjp_only_rotary(x, positions, dy):
    """dx is allocated with zeros, and the kernel writes the rotary slice."""
    n = 16
    inv = 10000.0 ** (-np.arange(0, n, 2) / n)
    ang = _lift(_p(positions)[..., None] * inv)
    dx = np.zeros_like(x)
    dx[..., :n] = _pairs(dy[..., :n], -ang)
    return dx


# ---------------------------------------------------------------- apply_vjp, right
def vjp_autograd(x, positions, dy):
    """torch.autograd on the forward pass of a partial rotation with YaRN's factor."""
    n, m = 16, 0.1 * math.log(8.0) + 1.0
    inv = torch.from_numpy(_yarn(n, 10000.0, 8.0, 2048))
    p = torch.as_tensor(positions).to(torch.float64)
    ang = p[..., None] * inv
    ang = ang[:, None] if ang.ndim == 3 else ang
    with torch.enable_grad():
        leaf = x.detach().double().requires_grad_(True)
        e, o = leaf[..., 0:n:2], leaf[..., 1:n:2]
        c, s = m * ang.cos(), m * ang.sin()
        y = torch.stack([e * c - o * s, o * c + e * s], -1).flatten(-2)
        y = torch.cat([y, leaf[..., n:]], -1)
        (dx,) = torch.autograd.grad(y, leaf, dy.detach().double())
    return dx.to(x.dtype)


def vjp_jax(x, positions, dy):
    """jax.vjp of a rotation written as x * cos + (x @ J) * sin."""
    d = x.shape[-1]
    J = np.zeros((d, d), np.float32)
    k = np.arange(d // 2)
    J[k + d // 2, k], J[k, k + d // 2] = -1.0, 1.0
    p = jnp.asarray(positions).astype(jnp.float32)
    inv = np.tile(500000.0 ** (-2 * k / d), 2).astype(np.float32)
    ang = p[..., None] * inv
    ang = ang[:, None] if ang.ndim == 3 else ang

    def forward(v):
        # the permutation has one entry for each column: no rounding at any precision
        turned = jnp.concatenate([-v[..., d // 2:], v[..., : d // 2]], -1) if d > 64 else jnp.matmul(
            v, J, precision=jax.lax.Precision.HIGHEST)
        return v * jnp.cos(ang) + turned * jnp.sin(ang)

    _, back = jax.vjp(forward, x.astype(jnp.float32))
    return back(dy.astype(jnp.float32))[0].astype(x.dtype)
