"""j120-j143: unusual but right implementations of apply."""
import math

import numpy as np
import torch

from posenc_ref import (DynamicNTK, GivenFrequencies, Llama3Scaling, LongRoPE, MixedRoPE, MultiAxisRoPE, Proportional,
                        QwenNTK, RoPE, YaRN)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def plain(base, d):
    return float(base) ** (-np.arange(0, d, 2, dtype=np.float64) / d)


# ---- j120: binary decomposition of the position
def make(bug):
    w = plain(10000.0, 64)
    power = np.exp(1j * (2.0 ** np.arange(41))[:, None] * w)

    def turn_of(p):
        n = np.abs(p).astype(np.int64)
        z = np.ones(p.shape + (32,), complex)
        for b in range(41):
            on = (n >> b) & 1 == 1
            if on.any():
                z[on] *= power[b]
        z = np.where((p < 0)[..., None], z.conj(), z)
        frac = p - np.sign(p) * n
        if frac.any():
            z = z * np.exp(1j * frac[..., None] * w)
        return z

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        z = turn_of(p)
        z = z if p.ndim == 1 else z[:, None]
        v = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * z
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    return apply


case("j120", make, RoPE(64, layout="half"), "apply",
     "right: the rotation of a position is the product of the rotations of its binary digits", "right")


# ---- j121: lazily grown float32 table, symmetric for negative positions
def make(bug):
    w = plain(500000.0, 64)
    cache = {"n": 0}

    def grow(n):
        if n > cache["n"]:
            m = max(n, 2 * cache["n"], 16)
            a = np.arange(m, dtype=np.float64)[:, None] * w
            cache.update(n=m, c=np.cos(a).astype(np.float32), s=np.sin(a).astype(np.float32))

    def apply(x, positions):
        p = np.asarray(positions)
        if p.dtype.kind == "f" or x.dtype == np.float64 or (p.size and np.abs(p).max() > 20000):
            a = p.astype(np.float64)[..., None] * w
            c, s = np.cos(a), np.sin(a)
        else:
            grow(int(np.abs(p).max(initial=0)) + 1)
            c, s = cache["c"][np.abs(p)], cache["s"][np.abs(p)] * np.where(p < 0, -1, 1)[..., None].astype(np.float32)
        if p.ndim == 2:
            c, s = c[:, None], s[:, None]
        y = np.empty(x.shape, np.result_type(x, np.float32))
        np.multiply(x[..., :32], c, out=y[..., :32])
        y[..., :32] -= x[..., 32:] * s
        np.multiply(x[..., 32:], c, out=y[..., 32:])
        y[..., 32:] += x[..., :32] * s
        return y.astype(x.dtype)

    return apply


case("j121", make, RoPE(64, layout="half", base=500000.0), "apply",
     "right: a float32 table that grows lazily by doubling, with the sign of sin turned for negative positions", "right")


# ---- j122: own sine with a two-step reduction
def make(bug):
    w = plain(10000.0, 48)
    hi = 6.28318530717958623200
    lo = 2.44929359829470635446e-16

    def sincos(a):
        k = np.rint(a / (hi / 4))
        r = a - k * (hi / 4) - k * (lo / 4)
        z = r * r
        s = np.zeros_like(r)
        c = np.zeros_like(r)
        for n in range(10, -1, -1):
            s = s * z + (-1) ** n / math.factorial(2 * n + 1)
            c = c * z + (-1) ** n / math.factorial(2 * n)
        s *= r
        q = k.astype(np.int64) & 3
        return np.choose(q, [s, c, -s, -c]), np.choose(q, [c, -s, -c, s])

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        s, c = sincos(a)
        v = x.reshape(*x.shape[:-1], 24, 2).astype(np.float64)
        y = np.stack([v[..., 0] * c - v[..., 1] * s, v[..., 1] * c + v[..., 0] * s], -1)
        return y.reshape(x.shape).astype(x.dtype)

    return apply


case("j122", make, RoPE(48, layout="interleaved"), "apply",
     "right: an own polynomial sine and cosine on [-pi/4, pi/4] with quadrants", "right")


# ---- j123: one matrix for every token
def make(bug):
    w = plain(10000.0, 16)
    G = np.zeros((8, 16, 16))
    I = np.zeros((8, 16, 16))
    for k in range(8):
        I[k, k, k] = I[k, k + 8, k + 8] = 1
        G[k, k, k + 8], G[k, k + 8, k] = -1, 1

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = p[..., None] * w
        R = np.tensordot(np.cos(a), I, 1) + np.tensordot(np.sin(a), G, 1)
        R = R if p.ndim == 1 else R[:, None]
        return (R @ x[..., None].astype(np.float64))[..., 0].astype(x.dtype)

    return apply


case("j123", make, RoPE(16, layout="half"), "apply",
     "right: a dense 16 x 16 rotation matrix for every token", "right")


# ---- j124: half angles
def make(bug):
    w = np.exp2(-np.log2(10000.0) * np.arange(40) / 40)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = 0.5 * p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        sh, ch = np.sin(a), np.cos(a)
        c, s = 1 - 2 * sh * sh, 2 * sh * ch
        x1, x2 = x[..., :40], x[..., 40:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j124", make, RoPE(80, layout="half"), "apply",
     "right: cos and sin from the half angle, frequencies by exp2", "right")


# ---- j125: usual float32 angles in torch
def make(bug):
    inv = 1.0 / (10000.0 ** (torch.arange(0, 128, 2, dtype=torch.int64).float() / 128))

    def apply(x, positions):
        t = torch.from_numpy(np.array(x))
        p = torch.from_numpy(np.array(positions)).float()
        f = p[..., None] * inv
        emb = torch.cat((f, f), dim=-1)
        cos, sin = emb.cos().to(t.dtype), emb.sin().to(t.dtype)
        if p.dim() == 2:
            cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        rot = torch.cat((-t[..., 64:], t[..., :64]), dim=-1)
        return (t * cos + rot * sin).numpy()

    return apply


case("j125", make, RoPE(128, layout="half"), "apply",
     "right: the usual float32 code of transformers, in PyTorch", "right")


# ---- j126: frequencies of zero for the channels that pass
def make(bug):
    w = np.concatenate([plain(10000.0, 32), np.zeros(16)])
    order = np.concatenate([np.arange(16), np.arange(32, 48), np.arange(16, 32), np.arange(48, 64)])
    back = np.argsort(order)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        v = x[..., order].astype(np.float64)
        c, s = np.cos(a), np.sin(a)
        x1, x2 = v[..., :32], v[..., 32:]
        y = np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)
        y[..., 16:32], y[..., 48:] = x[..., 32:48], x[..., 48:]
        return y[..., back]

    return apply


case("j126", make, RoPE(64, layout="half", rotary_dim=32), "apply",
     "right: partial rotary as a full rotation of permuted channels whose other half has the frequency 0", "right")


# ---- j127: rotate backwards with negative frequencies
def make(bug):
    w = -plain(1e6, 64)

    def apply(x, positions):
        p = -np.asarray(positions, np.float64)
        out = np.array(x)
        for s in range(x.shape[2])[::-1]:
            q = p[s] if p.ndim == 1 else p[:, s][:, None, None]
            a = q * w
            c, sn = np.cos(a), np.sin(a)
            e, o = x[:, :, s, ::2], x[:, :, s, 1::2]
            out[:, :, s, ::2] = c * e - sn * o
            out[:, :, s, 1::2] = sn * e + c * o
        return out

    return apply


case("j127", make, RoPE(64, layout="interleaved", base=1e6), "apply",
     "right: negative frequencies at negative positions, the tokens from last to first", "right")


# ---- j128: YaRN, m on x first
def make(bug):
    d, base, s, L0 = 128, 10000.0, 16.0, 4096
    at = lambda r: d * math.log(L0 / (2 * math.pi * r)) / math.log(base) / 2
    lo, hi = max(math.floor(at(32)), 0), min(math.ceil(at(1)), d - 1)
    keep = 1 - np.clip((np.arange(64) - lo) / (hi - lo), 0, 1)
    f = plain(base, d)
    w = f / s + keep * (f - f / s)
    m = 1 + 0.1 * math.log(s)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        z = np.exp(1j * p[..., None] * w)
        z = z if p.ndim == 1 else z[:, None]
        v = x.astype(np.float64) * m
        v = (v[..., :64] + 1j * v[..., 64:]) * z
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    return apply


case("j128", make, RoPE(128, layout="half", scaling=YaRN(16.0, 4096)), "apply",
     "right: YaRN's m multiplies x before the rotation", "right")


# ---- j129: transformers' Llama 3 code in float32
def make(bug):
    inv = 1.0 / (500000.0 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64))
    wl = 2 * math.pi / inv
    new = torch.where(wl > 8192, inv / 8, inv)
    t = (8192 / wl - 1) / 3
    mid = ~(wl < 8192 / 4) * ~(wl > 8192)
    inv = torch.where(mid, (1 - t) * new / 8 + t * new, new).float()

    def apply(x, positions):
        v = torch.from_numpy(np.array(x))
        p = torch.from_numpy(np.array(positions)).float()
        f = p[..., None] * inv
        f = f if p.dim() == 1 else f[:, None]
        a, b = v.chunk(2, -1)
        c, s = f.cos().to(v.dtype), f.sin().to(v.dtype)
        return torch.cat([a * c - b * s, b * c + a * s], -1).numpy()

    return apply


case("j129", make, RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), "apply",
     "right: the branches of transformers' Llama 3 scaling, float32 angles", "right")


SHORT = [1.0 + 0.02 * k for k in range(24)]
LONG = [1.0 + 0.7 * k for k in range(24)]


# ---- j130: both tables, chosen by a mask
def make(bug):
    f = plain(10000.0, 48)
    tables = np.stack([f / np.array(SHORT), f / np.array(LONG)])
    m = math.sqrt(1 + math.log(8.0) / math.log(128.0))

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        long = int(p.size > 0 and math.floor(p.max()) + 1 > 128)
        a = np.multiply.outer(p, tables)[..., long, :]
        a = a if p.ndim == 1 else a[:, None]
        c, s = np.cos(a) * m, np.sin(a) * m
        v = x.astype(np.float64)
        y = v.copy()
        y[..., 0::2] = v[..., 0::2] * c - v[..., 1::2] * s
        y[..., 1::2] = v[..., 1::2] * c + v[..., 0::2] * s
        return y.astype(x.dtype)

    return apply


case("j130", make, RoPE(48, layout="interleaved", scaling=LongRoPE(SHORT, LONG, 128, factor=8.0)), "apply",
     "right: LongRoPE with both lists at hand, one chosen in each call", "right")


# ---- j131: dynamic NTK by dividing the plain frequencies
def make(bug):
    f = plain(10000.0, 64)
    kept = {}

    def theta(n):
        if n not in kept:
            alpha = 1 + 2.0 * (max(n, 64) - 64) / 64
            kept[n] = f / alpha ** (np.arange(32) / 31.0)
        return kept[n]

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        w = theta(max(int(p.max()) + 1, 1) if p.size else 64)
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        x1, x2 = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
        return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x1 * np.sin(a) + x2 * np.cos(a)], -1).astype(x.dtype)

    return apply


case("j131", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 64)), "apply",
     "right: dynamic NTK as plain frequencies divided by alpha ** (k / (d/2 - 1)), cached by length", "right")


# ---- j132: M-RoPE by a matrix of frequencies
def make(bug):
    w = plain(1e6, 128)
    M = np.zeros((3, 64))
    for a, (i, j) in enumerate([(0, 16), (16, 40), (40, 64)]):
        M[a, i:j] = w[i:j]

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = p[None].repeat(3, 0)
        a = np.moveaxis(p, 0, -1) @ M
        a = a if p.ndim == 2 else a[:, None]
        c, s = np.cos(a), np.sin(a)
        x1, x2 = np.split(x, 2, -1)
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j132", make, MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6), "apply",
     "right: M-RoPE as a product of the positions with a 3 x 64 matrix of frequencies", "right")


# ---- j133: Qwen3-VL's overwriting of slices
def make(bug):
    w = plain(5e6, 128)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        f = p[..., None] * w
        a = f[0].copy()
        for axis, offset in ((1, 1), (2, 2)):
            idx = slice(offset, 20 * 3, 3)
            a[..., idx] = f[axis][..., idx]
        a = a if a.ndim == 2 else a[:, None]
        emb = np.concatenate([a, a], -1)
        rot = np.concatenate([-x[..., 64:], x[..., :64]], -1)
        return (x * np.cos(emb) + rot * np.sin(emb)).astype(x.dtype)

    return apply


case("j133", make, MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6),
     "apply", "right: the slices of the time angles are overwritten by those of height and width", "right")


W = np.random.default_rng(134).normal(size=(3, 2, 12)) * 0.4


# ---- j134: products of exponentials
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p])
        z = 1.0
        for a in range(2):
            q = p[a][..., None, :, None]
            z = z * np.exp(1j * q * W[:, a, None, :])
        v = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * z
        y = np.empty(x.shape, np.float64)
        y[..., 0::2], y[..., 1::2] = v.real, v.imag
        return y.astype(x.dtype)

    return apply


case("j134", make, MixedRoPE(24, W, layout="interleaved"), "apply",
     "right: frequencies of each head, the rotation as a product of one exponential for each axis", "right")


# ---- j135: vision, rotations of two blocks one after the other on tiles
def make(bug):
    n = 16
    w = 100.0 ** (-np.arange(n) / n)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = np.stack([p, p]) if p.ndim == 1 else p
        y = np.array(x)
        for i in range(0, x.shape[2], 7):
            for a in range(2):
                q = p[a][..., i:i + 7]
                ang = 2 * math.pi * q[..., None] * w
                ang = ang if q.ndim == 1 else ang[:, None]
                c, s = np.cos(ang), np.sin(ang)
                u, v = x[:, :, i:i + 7, n * a:n * a + n], x[:, :, i:i + 7, 32 + n * a:32 + n * a + n]
                y[:, :, i:i + 7, n * a:n * a + n] = u * c - v * s
                y[:, :, i:i + 7, 32 + n * a:32 + n * a + n] = v * c + u * s
        return y

    return apply


case("j135", make, MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart", base=100.0,
                                 position_scale=2 * math.pi), "apply",
     "right: tiles of 7 tokens, each axis rotated on its own", "right")


# ---- j136: proportional as an early exit
def make(bug):
    k = np.arange(8)
    w = np.power(1e6, -k / 32)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        y = x.copy()
        y[..., :8] = x[..., :8] * np.cos(a) - x[..., 32:40] * np.sin(a)
        y[..., 32:40] = x[..., 32:40] * np.cos(a) + x[..., :8] * np.sin(a)
        return y

    return apply


case("j136", make, RoPE(64, layout="half", base=1e6, scaling=Proportional(0.25)), "apply",
     "right: only the 8 turning pairs of proportional RoPE are touched", "right")


# ---- j137: sorted unique positions
def make(bug):
    w = plain(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        u, inv = np.unique(p, return_inverse=True)
        z = np.exp(1j * np.outer(u, w))[inv.reshape(p.shape)]
        z = z if p.ndim == 1 else z[:, None]
        v = np.ascontiguousarray(x.astype(np.float64)).view(np.complex128) * z
        return v.view(np.float64).astype(x.dtype)

    return apply


case("j137", make, RoPE(64, layout="interleaved"), "apply",
     "right: tables for the distinct positions only, gathered by the inverse index", "right")


# ---- j138: Qwen's alpha by repeated doubling
def make(bug):
    d = 64

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        n = int(p.max()) + 1 if p.size else 1
        cover, alpha = 128, 1
        while cover < n:
            cover *= 2
            alpha = 2 * alpha + 1
        w = (10000.0 * alpha ** (d / (d - 2))) ** (-np.arange(d // 2) * 2 / d)
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        x1, x2 = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
        return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x1 * np.sin(a) + x2 * np.cos(a)], -1).astype(x.dtype)

    return apply


case("j138", make, RoPE(64, layout="half", scaling=QwenNTK(128)), "apply",
     "right: Qwen's alpha by doubling the covered length, no logarithm", "right")


# ---- j139: interleaved read, halves written (DeepSeek)
def make(bug):
    w = plain(10000.0, 16)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        pe = x[..., 32:].reshape(x.shape[:-1] + (8, 2)).swapaxes(-1, -2).reshape(x.shape[:-1] + (16,))
        emb = np.concatenate([a, a], -1)
        rot = np.concatenate([-pe[..., 8:], pe[..., :8]], -1)
        return np.concatenate([x[..., :32], (pe * np.cos(emb) + rot * np.sin(emb)).astype(x.dtype)], -1)

    return apply


case("j139", make, RoPE(48, layout="interleaved", rotary_dim=16, rotary_start=32, output_layout="half"), "apply",
     "right: DeepSeek's trailing slice, read interleaved and written in halves", "right")


# ---- j140: decode steps from a kept power
def make(bug):
    w = plain(10000.0, 64)
    state = {}

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.shape == (1,):
            if state.get("p") is not None and p[0] == state["p"] + 1 and state["n"] < 64:
                z, n = state["z"] * np.exp(1j * w), state["n"] + 1
            else:
                z, n = np.exp(1j * p[0] * w), 0
            state.update(p=p[0], z=z, n=n)
            z = z[None]
        else:
            z = np.exp(1j * p[..., None] * w)
            z = z if p.ndim == 1 else z[:, None]
        v = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * z
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    return apply


case("j140", make, RoPE(64, layout="half"), "apply",
     "right: a decode step multiplies the rotation of the step before by one step, refreshed after 64 steps", "right")


# ---- j141: given frequencies, heads in a loop, flattened rows
def make(bug):
    w = [0.9, 0.5, -0.7, 0.0, 0.3, 0.001]

    def apply(x, positions):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions, np.float64), (B, S))
        rows = x.transpose(0, 2, 1, 3).reshape(B * S, H, D).astype(np.float64)
        out = rows.copy()
        for k, f in enumerate(w):
            c, s = np.cos(p.ravel() * f)[:, None], np.sin(p.ravel() * f)[:, None]
            out[:, :, k] = rows[:, :, k] * c - rows[:, :, k + 6] * s
            out[:, :, k + 6] = rows[:, :, k + 6] * c + rows[:, :, k] * s
        return out.reshape(B, S, H, D).transpose(0, 2, 1, 3).astype(x.dtype)

    return apply


case("j141", make, RoPE(12, layout="half", scaling=GivenFrequencies([0.9, 0.5, -0.7, 0.0, 0.3, 0.001])), "apply",
     "right: tokens flattened batch-major, one loop over the learned frequencies (one negative, one 0)", "right")
