"""Unusual but right implementations."""
import math

import numpy as np
import torch

from posenc_ref import (DynamicNTK, Llama3Scaling, LongRoPE, MixedRoPE, MRoPEPositions, MultiAxisRoPE, NTKScaling, Proportional, RoPE, XPos, YaRN, preset)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def right(id, fn, encoding, surface, what, **settings):
    case(id, lambda bug: fn, encoding, surface, "right: " + what, "right", **settings)


def inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def up(a):
    return a[:, None] if a.ndim == 3 else a


# ---- h151: dense block-diagonal matrices
def apply(x, positions):
    D = x.shape[-1]
    a = up(np.asarray(positions)[..., None] * inv(D))
    R = np.zeros(a.shape[:-1] + (D, D))
    k = np.arange(D // 2)
    R[..., k, k] = R[..., k + D // 2, k + D // 2] = np.cos(a)
    R[..., k, k + D // 2] = -np.sin(a)
    R[..., k + D // 2, k] = np.sin(a)
    return (R @ x[..., None].astype(np.float64))[..., 0].astype(x.dtype)
right("h151", apply, RoPE(16, layout="half"), "apply", "dense rotation matrices, one matmul per token")


# ---- h152: three shears
def apply(x, positions):
    a = up(np.asarray(positions)[..., None] * inv(x.shape[-1]))
    a = np.remainder(a + np.pi, 2 * np.pi) - np.pi
    flip = np.abs(a) > np.pi / 2                       # keep |tan(a/2)| <= 1
    a = np.where(flip, a - np.sign(a) * np.pi, a)
    t, s = np.tan(a / 2), np.sin(a)
    u, v = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    u = u - t * v
    v = v + s * u
    u = u - t * v
    sign = np.where(flip, -1.0, 1.0)
    return np.stack([sign * u, sign * v], -1).reshape(x.shape).astype(x.dtype)
right("h152", apply, RoPE(64, layout="interleaved"), "apply", "lifting: a rotation as three shears after reduction to a half plane")


# ---- h153: two reflections
def apply(x, positions):
    n = x.shape[-1] // 2
    a = up(np.asarray(positions)[..., None] * inv(2 * n, 500000.0)) / 2
    u, v = x[..., :n].astype(np.float64), -x[..., n:].astype(np.float64)   # reflection on the first axis
    nx, ny = -np.sin(a), np.cos(a)                                        # reflection on the line at angle a
    dot = 2 * (u * nx + v * ny)
    return np.concatenate([u - dot * nx, v - dot * ny], -1).astype(x.dtype)
right("h153", apply, RoPE(32, layout="half", base=500000.0), "apply", "a rotation as two Householder reflections")


# ---- h154: powers of one complex step by squaring
def apply(x, positions):
    p = np.asarray(positions)
    if p.dtype.kind != "i":
        z = np.exp(1j * p[..., None] * inv(x.shape[-1]))
    else:
        step = np.exp(1j * inv(x.shape[-1]))
        z = np.ones(p.shape + step.shape, complex)
        n, power = np.abs(p), step
        for bit in range(40):
            use = (n >> bit) & 1
            if not (n >> bit).any():
                break
            z = np.where(use[..., None] == 1, z * power, z)
            power = np.exp(1j * np.fmod(2.0 ** (bit + 1) * inv(x.shape[-1]), 2 * np.pi))
        z = np.where((p < 0)[..., None], z.conj(), z)
    z = up(z)
    w = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * z
    return w.view(np.float64).reshape(x.shape).astype(x.dtype)
right("h154", apply, RoPE(64, layout="interleaved"), "apply", "product of binary powers of the complex step")


# ---- h155: two-level tables, addition theorem
def two_level():
    cache = {}

    def apply(x, positions):
        D = x.shape[-1]
        p = np.asarray(positions, np.float64)
        hi = np.floor(p / 512)
        lo = p - 512 * hi
        w = inv(D)
        h, l = hi[..., None] * (512 * w), lo[..., None] * w
        c = np.cos(h) * np.cos(l) - np.sin(h) * np.sin(l)
        s = np.sin(h) * np.cos(l) + np.cos(h) * np.sin(l)
        c, s = up(c).astype(np.float32), up(s).astype(np.float32)
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
    return apply
right("h155", two_level(), RoPE(64, layout="half"), "apply", "coarse and fine angles joined by the addition theorem, float32 tables")


# ---- h156: half-angle formulas
def apply(x, positions):
    t = np.tan(up(np.asarray(positions, np.float64)[..., None] * inv(x.shape[-1])) / 2)
    q = 1 / (1 + t * t)
    c, s = (1 - t * t) * q, 2 * t * q
    e, o = x[..., ::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., ::2], out[..., 1::2] = e * c - o * s, e * s + o * c
    return out
right("h156", apply, RoPE(48, layout="interleaved"), "apply", "cos and sin by tan of the half angle")


# ---- h157: lazily grown float32 table, doubling, negative positions by symmetry
class Grown:
    def __init__(self, d):
        self.w, self.n = inv(d), 0
        self.c = self.s = np.zeros((0, d // 2), np.float32)

    def need(self, n):
        if n > self.n:
            size = max(16, self.n)
            while size < n:
                size *= 2
            a = np.arange(self.n, size)[:, None] * self.w
            self.c = np.concatenate([self.c, np.cos(a).astype(np.float32)])
            self.s = np.concatenate([self.s, np.sin(a).astype(np.float32)])
            self.n = size

    def __call__(self, x, positions):
        p = np.asarray(positions)
        if p.dtype.kind == "i":
            m = np.abs(p)
            self.need(int(m.max(initial=0)) + 1)
            c, s = self.c[m], self.s[m] * np.sign(p)[..., None].astype(np.float32)
        else:
            c, s = np.cos(p[..., None] * self.w), np.sin(p[..., None] * self.w)
        c, s = up(c), up(s)
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
right("h157", Grown(8), RoPE(8, layout="half"), "apply", "float32 table that grows by doubling")


# ---- h158: python loops over pairs, in place on a copy
def apply(x, positions):
    y = x.copy()
    p = np.asarray(positions, np.float64)
    for k in range(10):
        a = p * 10000.0 ** (-k / 10)
        a = a[:, None] if a.ndim == 2 else a
        c, s = np.cos(a), np.sin(a)
        y[..., k], y[..., k + 10] = x[..., k] * c - x[..., k + 10] * s, x[..., k + 10] * c + x[..., k] * s
    return y
right("h158", apply, RoPE(80, layout="half", rotary_dim=20), "apply", "a loop over the pairs of partial rotary")


# ---- h159: bfloat16 through float32
def apply(x, positions):
    f = positions[..., None].double() * torch.tensor(inv(64, 1e6))
    f = f[:, None] if f.ndim == 3 else f
    c, s = f.cos().float(), f.sin().float()
    a, b = x.float().chunk(2, -1)
    return torch.cat([torch.addcmul(a * c, b, s, value=-1), torch.addcmul(b * c, a, s)], -1).bfloat16()
right("h159", apply, RoPE(64, layout="half", base=1e6), "apply", "bfloat16 vectors rotated in float32", backend="torch", dtype="bfloat16")


# ---- h160: float16, einsum with 2 x 2 matrices
def apply(x, positions):
    f = positions[..., None].double() * torch.tensor(inv(x.shape[-1]))
    f = f[:, None] if f.ndim == 3 else f
    R = torch.stack([f.cos(), -f.sin(), f.sin(), f.cos()], -1).unflatten(-1, (2, 2)).float()
    pairs = x.float().unflatten(-1, (-1, 2))
    return torch.einsum("...ij,...j->...i", R.expand(*pairs.shape[:-1], 2, 2), pairs).flatten(-2).half()
right("h160", apply, RoPE(32, layout="interleaved"), "apply", "float16 by einsum with a 2 x 2 matrix for each pair", backend="torch", dtype="float16")


# ---- h161: sbhd layout by complex numbers
def apply(x, positions):  # (S, B, H, D)
    p = positions if positions.ndim == 2 else positions[None]
    z = torch.polar(torch.ones(1, dtype=torch.float64), p.T[..., None].double() * torch.tensor(inv(x.shape[-1])))
    xc = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(xc * z[:, :, None]).flatten(-2).to(x.dtype)
right("h161", apply, RoPE(64, layout="interleaved"), "apply", "Megatron's (S, B, H, D) with complex numbers", backend="torch", tensor_layout="sbhd")


# ---- h162: thd in masked tiles of tokens
def apply(x, positions):
    T, H, D = x.shape
    y = np.zeros((-(-T // 16) * 16, H, D), x.dtype)
    p = np.zeros(len(y))
    p[:T] = positions
    y[:T] = x
    for a in range(0, len(y), 16):
        ang = p[a:a + 16, None, None] * inv(D)
        u, v = y[a:a + 16, :, :D // 2].copy(), y[a:a + 16, :, D // 2:].copy()
        y[a:a + 16, :, :D // 2] = u * np.cos(ang) - v * np.sin(ang)
        y[a:a + 16, :, D // 2:] = v * np.cos(ang) + u * np.sin(ang)
    return y[:T]
right("h162", apply, RoPE(64, layout="half"), "apply", "packed tokens padded to tiles of 16", tensor_layout="thd")


# ---- h163: DeepSeek by strides, output half-split
def apply(x, positions):
    a = up(np.asarray(positions)[..., None] * inv(64))
    z = np.ascontiguousarray(x[..., 128:], np.float64).view(complex) * np.exp(1j * a)
    return np.concatenate([x[..., :128], z.real.astype(x.dtype), z.imag.astype(x.dtype)], -1)
right("h163", apply, RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128, output_layout="half"), "apply",
      "view as complex, real parts then imaginary parts")


# ---- h164: YaRN, factor multiplied onto x beforehand
def yarn(d, base, s, L0, beta=(32, 1)):
    f = inv(d, base)
    lo, hi = (d * math.log(L0 / (2 * math.pi * b)) / (2 * math.log(base)) for b in beta)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    r = np.interp(np.arange(d // 2), [lo, max(hi, lo + 0.001)], [0.0, 1.0])
    return f * (1 - r + r / s)


def apply(x, positions):
    w = yarn(64, 10000.0, 40.0, 4096)
    a = up(np.asarray(positions)[..., None] * w)
    big = x * (1 + 0.1 * math.log(40.0))
    return (np.concatenate([big, big], -1)[..., :64] * np.cos(np.concatenate([a, a], -1))
            + np.concatenate([-big[..., 32:], big[..., :32]], -1) * np.sin(np.concatenate([a, a], -1))).astype(x.dtype)
right("h164", apply, RoPE(64, layout="half", scaling=YaRN(40.0, 4096)), "apply", "the attention factor multiplied onto x before the rotation, ramp by np.interp")


# ---- h165: Llama 3 by interp in the number of turns
def freqs():
    f = inv(128, 500000.0)
    t = np.interp(8192 * f / (2 * np.pi), [1.0, 4.0], [0.0, 1.0])
    return list(f / (8.0 / (1 + 7.0 * t)))
right("h165", freqs, RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), "frequencies",
      "division by 8 / (1 + 7 t), t by np.interp; a list is returned")


# ---- h166: frequencies as a geometric series
def freqs():
    r, out = 1e6 ** (-1 / 64), [1.0]
    while len(out) < 64:
        out.append(out[-1] * r)
    return torch.tensor(out, dtype=torch.float64)
right("h166", freqs, RoPE(128, layout="half", base=1e6), "frequencies", "geometric series by repeated multiplication in float64", backend="torch")


# ---- h167: LongRoPE, both tables kept
SHORT, LONG = list(np.linspace(1, 1.5, 16)), list(np.geomspace(1, 40, 16))


class Both:
    def __init__(self):
        w = inv(32)
        self.m = math.sqrt(1 + math.log(16.0, 2048))
        self.w = {False: w / np.array(SHORT), True: w / np.array(LONG)}

    def __call__(self, positions):
        p = np.asarray(positions, np.float64)
        a = np.multiply.outer(p, self.w[bool(p.size and int(p.max()) >= 2048)])
        z = self.m * np.exp(1j * a)
        return z.real, z.imag
right("h167", Both(), RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 2048, factor=16.0)), "cos_sin", "LongRoPE, log with base L0 in the factor")


# ---- h168: sine of the shifted angle, duplicated columns
def tables(positions):
    a = positions[:, None].double() * torch.tensor(inv(64))
    e = torch.cat([a, a], -1)
    return torch.sin(e + math.pi / 2), torch.sin(e)
right("h168", tables, RoPE(64, layout="half"), "cos_sin", "cos as sin of the angle plus pi/2; (S, d)", backend="torch")


# ---- h169: NTK by dividing frequencies
def freqs(n):
    L, s, d = 256, 2.0, 64
    alpha = 1 + s * max(n - L, 0) / L
    return inv(d) * np.exp(-np.log(alpha) * np.arange(0, d, 2) / (d - 2))
right("h169", freqs, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 256)), "frequencies", "dynamic NTK as a power of alpha instead of another base")


# ---- h170: offsets by composition of two rotations
def apply_offset(x, offset):
    B, H, S, D = x.shape
    w = inv(D)
    token = np.exp(1j * np.arange(S)[:, None] * w)
    row = np.exp(1j * np.asarray(offset, np.float64)[:, None] * w)
    z = (x[..., :D // 2] + 1j * x[..., D // 2:].astype(np.float64)) * token * row[:, None, None]
    return np.concatenate([z.real, z.imag], -1).astype(x.dtype)
right("h170", apply_offset, RoPE(64, layout="half"), "apply_offset", "rotation by the token, then by the row's offset")


# ---- h171: calls with an LRU of tables
def make_calls():
    import functools

    @functools.lru_cache(maxsize=3)
    def table(start, n, d):
        a = (start + np.arange(n))[:, None] * inv(d)
        return np.cos(a), np.sin(a)

    def calls(pairs):
        out = []
        for x, o in pairs:
            c, s = table(int(o), x.shape[2], x.shape[3])
            a, b = np.split(x, 2, -1)
            out.append(np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype))
        return out
    return calls
right("h171", make_calls(), RoPE(64, layout="half"), "calls", "tables in an LRU cache by offset and length")


# ---- h172: calls, dynamic NTK that grows and resets as HF
def calls(pairs):
    L, s, d, cached, w = 64, 4.0, 32, 64, inv(32)
    out = []
    for x, o in pairs:
        n = o + x.shape[2]
        if n > cached or cached > L:
            cached = max(n, L)
            w = inv(d, 10000.0 * (s * cached / L - (s - 1)) ** (d / (d - 2)))
        a = (o + np.arange(x.shape[2]))[:, None] * w
        u, v = np.split(x, 2, -1)
        out.append(np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype))
    return out
right("h172", calls, RoPE(32, layout="half", scaling=DynamicNTK(4.0, 64)), "calls", "frequencies recomputed only when the length changes them")


# ---- h173: decode by a running complex phase for each pair, renewed exactly each chunk
def decode(x, chunks):
    D = x.shape[-1]
    w, past, out = inv(D), 0, []
    for n in chunks:
        part = x[:, :, past:past + n].astype(np.float64)
        phase = np.exp(1j * past * w)
        local = np.exp(1j * np.arange(n)[:, None] * w)
        z = (part[..., 0::2] + 1j * part[..., 1::2]) * local * phase
        out.append(np.stack([z.real, z.imag], -1).reshape(part.shape).astype(x.dtype))
        past += n
    return np.concatenate(out, 2)
right("h173", decode, RoPE(32, layout="interleaved"), "decode", "phase of the past times phase inside the chunk")


# ---- h174: key cache re-rotated from old to new frequencies
def key_cache(k, chunks):
    d, L, s = 32, 32, 2.0
    n, w, z = 0, None, np.zeros((*k.shape[:2], 0, d // 2), complex)
    for c in chunks:
        total = max(n + c, L)
        new = inv(d, 10000.0 * (s * total / L - (s - 1)) ** (d / (d - 2)))
        if w is not None:
            z = z * np.exp(1j * np.arange(n)[:, None] * (new - w))
        fresh = k[:, :, n:n + c, :d // 2] + 1j * k[:, :, n:n + c, d // 2:].astype(np.float64)
        z = np.concatenate([z, fresh * np.exp(1j * np.arange(n, n + c)[:, None] * new)], 2)
        n, w = n + c, new
    return np.concatenate([z.real, z.imag], -1).astype(k.dtype)
right("h174", key_cache, RoPE(32, layout="half", scaling=DynamicNTK(2.0, 32)), "key_cache", "rotated keys turned on by the difference of the frequencies, in complex128")


# ---- h175: shift by binary powers
def shift(k, delta):
    y = k.astype(np.float64)
    n, sign, bit = abs(int(delta)), 1 if delta >= 0 else -1, 0
    w = inv(k.shape[-1])
    while n >> bit:
        if n >> bit & 1:
            a = sign * 2 ** bit * w
            u, v = y[..., ::2], y[..., 1::2]
            y = np.stack([u * np.cos(a) - v * np.sin(a), u * np.sin(a) + v * np.cos(a)], -1).reshape(k.shape)
        bit += 1
    return y.astype(k.dtype)
right("h175", shift, RoPE(64, layout="interleaved"), "shift_keys", "shifts by powers of two, one after the other")


# ---- h176: eviction by per-key delta through a mask
def evict(k, kept, dropped):
    S, D = k.shape[2], k.shape[3]
    keep = np.ones(S, bool)
    keep[kept:kept + dropped] = False
    old = np.flatnonzero(keep)
    delta = (np.arange(old.size) - old)[:, None] * inv(D)
    t = k[:, :, keep]
    a, b = np.split(t, 2, -1)
    return np.concatenate([a * np.cos(delta) - b * np.sin(delta), b * np.cos(delta) + a * np.sin(delta)], -1).astype(k.dtype)
right("h176", evict, RoPE(64, layout="half"), "evict_keys", "each key turned by new place minus old place")


# ---- h177: gradient by autograd of the forward pass
def vjp(x, positions, dy):
    x = x.detach().clone().requires_grad_(True)
    f = positions[..., None].double() * torch.tensor(inv(20))
    f = f[:, None] if f.ndim == 3 else f
    a, b = x[..., :10].double(), x[..., 10:20].double()
    y = torch.cat([(a * f.cos() - b * f.sin()).to(x.dtype), (b * f.cos() + a * f.sin()).to(x.dtype), x[..., 20:]], -1)
    return torch.autograd.grad(y, x, dy)[0]
right("h177", vjp, RoPE(80, layout="half", rotary_dim=20), "apply_vjp", "torch autograd through partial rotary", backend="torch")


# ---- h178: gradient as the conjugate
def vjp(x, positions, dy):
    w = yarn(64, 1e6, 4.0, 32768)
    g = (dy[..., 0::2] + 1j * dy[..., 1::2].astype(np.float64)) * np.conj(np.exp(1j * up(np.asarray(positions)[..., None] * w)))
    g *= 0.1 * math.log(4) + 1
    return np.stack((g.real, g.imag), -1).reshape(dy.shape).astype(dy.dtype)
right("h178", vjp, RoPE(64, layout="interleaved", base=1e6, scaling=YaRN(4.0, 32768)), "apply_vjp", "complex conjugate times the attention factor")


# ---- h179: q and k flattened into one list of tokens
def apply_qk(q, k, qp, kp):
    def flat(t, p):
        B, H, S, D = t.shape
        p = np.broadcast_to(np.asarray(p, np.float64), (B, S))
        return t.transpose(0, 2, 1, 3).reshape(B * S * H, D), np.repeat(p.ravel(), H)
    (fq, pq), (fk, pk) = flat(q, qp), flat(k, kp)
    rows, pos = np.concatenate([fq, fk]), np.concatenate([pq, pk])
    D = q.shape[-1]
    a = pos[:, None] * inv(D)
    u, v = rows[:, :D // 2], rows[:, D // 2:]
    y = np.hstack([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)]).astype(q.dtype)

    def back(y, t):
        B, H, S, D = t.shape
        return y.reshape(B, S, H, D).transpose(0, 2, 1, 3)
    return back(y[:len(fq)], q), back(y[len(fq):], k)
right("h179", apply_qk, RoPE(64, layout="half"), "apply_qk", "q and k rotated as one list of rows; results are transposed views")


# ---- h180: XPos as one complex exponential
def apply_qk(q, k, qp, kp):
    d = q.shape[-1]
    rate = 1j * inv(d)
    decay = np.log((np.arange(0, d, 2) / d + 0.4) / 1.4) / 512

    def one(x, p, sign):
        z = up(np.exp(np.asarray(p, np.float64)[..., None] * (rate + sign * decay)))
        y = (x[..., :d // 2] + 1j * x[..., d // 2:].astype(np.float64)) * z
        return np.concatenate([y.real, y.imag], -1).astype(x.dtype)
    return one(q, qp, 1), one(k, kp, -1)
right("h180", apply_qk, XPos(64, layout="half"), "apply_qk", "angle and decay in one complex exponent")


# ---- h181: axes by a matrix of frequencies
def apply(x, positions):
    p = np.asarray(positions, np.float64)
    p = np.stack([p] * 3) if p.ndim == 1 else p
    p = p[:, None] if p.ndim == 2 else p
    F = np.zeros((3, 64))
    F[np.repeat([0, 1, 2], [16, 24, 24]), np.arange(64)] = inv(128, 1e6)
    a = np.tensordot(p, F, (0, 0))[:, None]
    u, v = np.split(x, 2, -1)
    return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype)
right("h181", apply, preset("qwen2-vl").only, "apply", "M-RoPE as a product of positions with a sparse matrix of frequencies")


# ---- h182: Qwen3-VL interleaving by reshape
def apply(x, positions):
    p = positions.double()
    p = p.expand(3, -1) if p.ndim == 1 else p
    p = p[:, None] if p.ndim == 2 else p
    f = p[..., None] * torch.tensor(inv(128, 5e6))
    body = f[..., :60].unflatten(-1, (20, 3))
    a = torch.cat([torch.stack([body[i, ..., i] for i in range(3)], -1).flatten(-2), f[0][..., 60:]], -1)[:, None]
    u, v = x.double().chunk(2, -1)
    return torch.cat([u * a.cos() - v * a.sin(), v * a.cos() + u * a.sin()], -1).to(x.dtype)
right("h182", apply, MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6), "apply",
      "20 triples and 4 pairs of time", backend="torch")


# ---- h183: MixedRoPE, one rotation after another for each axis and head
W = np.random.default_rng(3).normal(size=(3, 2, 6))


def apply(x, positions):
    p = np.asarray(positions, np.float64)
    p = np.stack([p] * 2) if p.ndim == 1 else p
    p = p[:, None] if p.ndim == 2 else p
    z = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64))
    for h in range(3):
        for a in range(2):
            z[:, h] = z[:, h] * np.exp(1j * p[a][..., None] * W[h, a])
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
right("h183", apply, MixedRoPE(12, W, layout="interleaved"), "apply", "loops over heads and axes")


# ---- h184: norm after the rotation of the weighted vector
def normed(x, weight, positions):
    x64 = x.astype(np.float64)
    y = x64 * weight
    a = up(np.asarray(positions)[..., None] * inv(x.shape[-1]))
    u, v = np.split(y, 2, -1)
    r = np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1)
    return (r / np.sqrt(np.einsum("...d,...d->...", x64, x64)[..., None] / x.shape[-1] + 1e-6)).astype(x.dtype)
right("h184", normed, RoPE(64, layout="half"), "normed_apply", "weight, rotation, then division by the norm of the raw x")


# ---- h185: permutation by sorting keys
def permute(w, n_heads):
    n = w.shape[0]
    d = n // n_heads
    i = np.arange(n)
    head, c = i // d, i % d
    return w[np.lexsort((c // (d // 2), c % (d // 2), head))]
right("h185", permute, RoPE(32, layout="half"), "permute_weights", "rows sorted by head, pair, half")


# ---- h186: packed by maximum.accumulate
def packed(lengths):
    n = np.asarray(lengths, np.int64)
    total = int(n.sum())
    mark = np.zeros(total, np.int64)
    start = np.cumsum(n) - n
    np.maximum.at(mark, start[start < total], start[start < total])
    return np.arange(total) - np.maximum.accumulate(mark) if total else mark
right("h186", packed, None, "packed", "running maximum of the starts")


# ---- h187: shards by a mask of chunk numbers
def shard(cu, size, rank):
    cu = np.asarray(cu, np.int64)
    n = np.diff(cu)
    pos = np.arange(cu[-1]) - np.repeat(cu[:-1], n)
    chunk = pos // np.repeat(np.maximum(n // (2 * size), 1), n)
    return pos[(chunk == rank) | (chunk == 2 * size - 1 - rank)]
right("h187", shard, None, "shard_positions", "tokens selected by their chunk number")


# ---- h188: position ids by counting in a loop, int32
def ids(mask):
    out = np.full(np.shape(mask), 0, np.int32)
    for b, row in enumerate(np.asarray(mask).tolist()):
        n = 0
        for s, real in enumerate(row):
            if real:
                out[b, s] = n
                n += 1
            else:
                out[b, s] = 1
    return out
right("h188", ids, None, "position_ids", "a loop; int32; padding gets 1, as transformers 4")


# ---- h189: M-RoPE by unravel_index, decoding by delta
def mrope(types, images, videos, seconds, mask, steps):
    types, mask = np.asarray(types), np.asarray(mask)
    queue = {1: list(np.asarray(images).reshape(-1, 3)), 2: list(np.asarray(videos).reshape(-1, 3))}
    B, S = types.shape
    out = np.ones((3, B, S + steps), np.int64)
    for b in range(B):
        cols = np.flatnonzero(mask[b])
        kinds = types[b, cols]
        i = c = 0
        while i < cols.size:
            if kinds[i]:
                t, h, w = (int(v) for v in queue[int(kinds[i])].pop(0) // np.array([1, 2, 2]))
                n = t * h * w
                out[:, b, cols[i:i + n]] = c + np.stack(np.unravel_index(np.arange(n), (t, h, w)))
                i, c = i + n, c + max(t, h, w)
            else:
                out[:, b, cols[i]] = c
                i, c = i + 1, c + 1
        delta = c - cols.size
        out[:, b, S:] = cols.size + delta + np.arange(steps)
    return out
right("h189", mrope, MRoPEPositions(), "mrope_position_ids", "unravel_index; decoding by the rope delta; padding is 1")


# ---- h190: scores in relative form
def scores(q, k):
    Q, K, d = q.shape[2], k.shape[2], q.shape[3]
    k = np.repeat(k, q.shape[1] // k.shape[1], 1)
    n = d // 2
    qc = q[..., :n] + 1j * q[..., n:].astype(np.float64)
    kc = k[..., :n] + 1j * k[..., n:].astype(np.float64)
    qp = np.arange(K - Q, K)
    # Re(q conj(k) e^{i (i - j) w}), the middle of the keys as origin
    mid = K // 2
    qz = qc * np.exp(1j * (qp - mid)[:, None] * inv(d))
    kz = kc * np.exp(1j * (np.arange(K) - mid)[:, None] * inv(d))
    return (np.einsum("bhqp,bhkp->bhqk", qz, kz.conj()).real / math.sqrt(d)).astype(q.dtype)
right("h190", scores, RoPE(64, layout="half"), "scores", "complex scores with the middle of the keys as origin")


# ---- h191: sign -1 by swapping the roles of the channels
def apply(x, positions):
    a = up(np.asarray(positions)[..., None] * inv(x.shape[-1]))
    v, u = np.split(x, 2, -1)
    c, s = np.cos(a), np.sin(a)
    new_u, new_v = u * c - v * s, v * c + u * s
    return np.concatenate([new_v, new_u], -1).astype(x.dtype)
right("h191", apply, RoPE(64, layout="half", sign=-1), "apply", "the opposite direction by swapping first and second channel")


# ---- h192: p-RoPE with the identity for slow pairs
def apply(x, positions):
    d, n = x.shape[-1], 16
    a = up(np.asarray(positions)[..., None] * (1e6 ** (-2 * np.arange(n) / d)))
    y = x.copy()
    for lo, other, sg in ((0, 64, -1), (64, 0, 1)):
        y[..., lo:lo + n] = x[..., lo:lo + n] * np.cos(a) + sg * x[..., other:other + n] * np.sin(a)
    return y
right("h192", apply, RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25)), "apply", "only the turning pairs are touched")


# ---- h193: JAX, complex numbers
def jax_apply():
    import jax.numpy as jnp
    from jax import lax

    def apply(x, positions):
        n = x.shape[-1] // 2
        a = up(np.asarray(positions, np.float64)[..., None] * inv(2 * n, 500000.0))
        z = lax.complex(x[..., :n], x[..., n:]) * jnp.asarray(np.exp(1j * a), jnp.complex64)
        return jnp.concatenate([jnp.real(z), jnp.imag(z)], axis=-1)
    return apply
right("h193", jax_apply(), RoPE(32, layout="half", base=500000.0), "apply", "complex64 with factors computed in complex128", backend="jax")
