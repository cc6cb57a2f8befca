"""Rotations of x: surface apply, RoPE and its partial and scaled forms. Wrong ones."""
import math

import numpy as np
import torch

from posenc_ref import (DynamicNTK, LinearScaling, Proportional, RoPE, YaRN)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def over_heads(t, x):
    """cos or sin (S, P) or (B, S, P) -> broadcast to x (B, H, S, .)."""
    return t[:, None] if t.ndim == 3 else t


# ---- h001: tiles of 32 pairs
def make(bug):
    def apply(x, positions):
        half = x.shape[-1] // 2
        ang = np.asarray(positions, np.float64)[..., None] * inv(2 * half)
        c, s = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        out = x.copy()
        TILE = 32
        n = half // TILE if bug else -(-half // TILE)
        for i in range(n):
            a, b = i * TILE, min((i + 1) * TILE, half)
            x1, x2 = x[..., a:b].astype(np.float64), x[..., half + a:half + b].astype(np.float64)
            out[..., a:b] = x1 * c[..., a:b] - x2 * s[..., a:b]
            out[..., half + a:half + b] = x2 * c[..., a:b] + x1 * s[..., a:b]
        return out
    return apply
case("h001", make, RoPE(80, layout="half"), "apply",
     "The kernel walks over the pairs in tiles of 32 and drops the incomplete last tile, so pairs 32 .. 39 of 40 are copied without rotation.",
     "tail-tile-pairs", "round the number of tiles up and mask the last one")


# ---- h002: tiles of 64 tokens, last one moved back
def make(bug):
    BLOCK = 64

    def apply(x, positions):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions), (B, S)) if np.ndim(positions) == 1 else np.asarray(positions)
        w = inv(D)
        out = np.empty_like(x)
        for lo in range(0, S, BLOCK):
            # the last block is moved back so that it is full
            start = min(lo, max(S - BLOCK, 0))
            stop = min(start + BLOCK, S)
            pos = p[:, lo:lo + (stop - start)] if bug else p[:, start:stop]
            if pos.shape[1] < stop - start:  # the loads past the end repeat the last position
                pos = np.concatenate([pos, np.repeat(pos[:, -1:], stop - start - pos.shape[1], 1)], 1)
            ang = pos[:, None, :, None] * w
            xe, xo = x[:, :, start:stop, 0::2], x[:, :, start:stop, 1::2]
            out[:, :, start:stop, 0::2] = xe * np.cos(ang) - xo * np.sin(ang)
            out[:, :, start:stop, 1::2] = xe * np.sin(ang) + xo * np.cos(ang)
        return out
    return apply
case("h002", make, RoPE(64, layout="interleaved"), "apply",
     "The last block of 64 tokens is moved back to be full, but its positions are still loaded from the unmoved start, so for more than 64 tokens that are no multiple of 64 the last 64 tokens are rotated by the positions of later tokens (clamped at the end).",
     "tail-tile-tokens", "load the positions from the same start as the tokens")


# ---- h003: the positions of row 0 for every row
def make(bug):
    def apply(x, positions):
        pos = np.asarray(positions)
        if pos.ndim == 2:
            pos = pos[0] if bug else pos[:, None, :]
        th = pos[..., None].astype(np.float64) * inv(x.shape[-1])
        cos = np.concatenate([np.cos(th)] * 2, -1)
        sin = np.concatenate([np.sin(th)] * 2, -1)
        x1, x2 = np.split(x, 2, -1)
        return (x * cos + np.concatenate([-x2, x1], -1) * sin).astype(x.dtype)
    return apply
case("h003", make, RoPE(64, layout="half"), "apply",
     "Of per-row positions (B, S) the function reads row 0 only and rotates every row of the batch with it.",
     "first-row", "index the positions by the batch row")


# ---- h004: flat (B*H, S) kernel, positions tiled in the wrong order
def make(bug):
    def apply(x, positions):
        x = torch.as_tensor(x)
        B, H, S, D = x.shape
        pos = torch.as_tensor(positions)
        if pos.ndim == 1:
            pos = pos.expand(B, S)
        flat_pos = pos.repeat(H, 1) if bug else pos.repeat_interleave(H, 0)
        w = 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
        z = torch.polar(torch.ones((), dtype=torch.float64), flat_pos[:, :, None].double() * w)
        xc = torch.view_as_complex(x.double().reshape(B * H, S, D // 2, 2).contiguous())
        return torch.view_as_real(xc * z).reshape(B, H, S, D).to(x.dtype)
    return apply
case("h004", make, RoPE(64, layout="interleaved"), "apply",
     "x is flattened to (B*H, S, D), but the positions are repeated as H copies of the whole batch instead of H copies of each row, so with per-row positions flat row b*H+h gets the positions of row (b*H+h) mod B.",
     "row-tiling", "repeat_interleave the positions over the heads", backend="torch")


# ---- h005: inv_freq buffer in bfloat16
def make(bug):
    class Rotary(torch.nn.Module):
        def __init__(self, d, base):
            super().__init__()
            self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, d, 2).double() / d))
            if bug:
                self.to(torch.bfloat16)

        def forward(self, x, positions):
            f = positions[..., None].double() * self.inv_freq.double()
            if f.ndim == 3:
                f = f[:, None]
            e = torch.cat([f, f], -1)
            c, s = e.cos().to(x.dtype), e.sin().to(x.dtype)
            h = x.shape[-1] // 2
            return x * c + torch.cat([-x[..., h:], x[..., :h]], -1) * s
    return Rotary(64, 10000.0)
case("h005", make, RoPE(64, layout="half"), "apply",
     "The module was cast to bfloat16, which rounded its inv_freq buffer: every frequency has 8 significant bits.",
     "low-precision-frequencies", "keep inv_freq in float32", backend="torch")


# ---- h006: positions in the dtype of x
def make(bug):
    inv_freq = 1.0 / 500000.0 ** (torch.arange(0, 64, 2).double() / 64)

    def apply(x, positions):
        t = positions.to(x.dtype) if bug else positions
        f = t.double().unsqueeze(-1) * inv_freq
        f = f.unsqueeze(1) if f.ndim == 3 else f
        c, s = f.cos(), f.sin()
        a, b = x.double().chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)
    return apply
case("h006", make, RoPE(64, layout="half", base=500000.0), "apply",
     "Positions are cast to the dtype of x, bfloat16, before they are multiplied by the frequencies, so positions above 256 are rounded to multiples of 2, 4, 8, ...",
     "low-precision-positions", "keep positions integer or float32", backend="torch", dtype="bfloat16")


# ---- h007: int16 positions
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions)
        if p.dtype.kind == "i":
            p = p.astype(np.int16 if bug else np.int64)
        z = np.exp(1j * p[..., None] * inv(x.shape[-1]))
        z = z[:, None] if z.ndim == 3 else z
        zc = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * z
        return np.stack([zc.real, zc.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("h007", make, RoPE(32, layout="interleaved"), "apply",
     "Integer positions are stored in int16, so positions from 32768 on wrap around to negative ones.",
     "int16-positions", "use int32 or int64 positions")


# ---- h008: table of 8192 rows, index modulo its length
def make(bug):
    class Cache:
        rows = 0

        def grow(self, n, d):
            ang = np.arange(n)[:, None] * inv(d)
            self.cos, self.sin, self.rows = np.cos(ang), np.sin(ang), n

        def __call__(self, x, positions):
            p = np.asarray(positions)
            if p.dtype.kind != "i" or p.min(initial=0) < 0:
                raise ValueError("positions must be non-negative integers")
            if bug:
                if not self.rows:
                    self.grow(8192, x.shape[-1])
            elif p.max(initial=0) >= self.rows:
                self.grow(int(p.max()) + 1, x.shape[-1])
            c, s = self.cos[p % self.rows], self.sin[p % self.rows]
            c, s = over_heads(c, x), over_heads(s, x)
            h = x.shape[-1] // 2
            a, b = x[..., :h], x[..., h:]
            return np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)
    return Cache()
case("h008", make, RoPE(16, layout="half"), "apply",
     "The cos and sin cache has 8192 rows and is indexed by position modulo 8192, so position 8192 is rotated like position 0.",
     "table-wraps", "grow the cache, or refuse positions beyond it")


# ---- h009: JAX gather clamps
def make(bug):
    import jax.numpy as jnp
    n = 4096 if bug else None
    w = inv(32)

    def apply(x, positions):
        p = np.asarray(positions)
        if bug and p.dtype.kind == "i" and p.min(initial=0) >= 0:
            ang = np.arange(n)[:, None] * w
            c, s = jnp.asarray(np.cos(ang), jnp.float32), jnp.asarray(np.sin(ang), jnp.float32)
            c, s = jnp.take(c, p, axis=0, mode="clip"), jnp.take(s, p, axis=0, mode="clip")
        else:
            ang = p[..., None] * w
            c, s = jnp.asarray(np.cos(ang), jnp.float32), jnp.asarray(np.sin(ang), jnp.float32)
        if c.ndim == 3:
            c, s = c[:, None], s[:, None]
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)
    return apply
case("h009", make, RoPE(32, layout="half"), "apply",
     "The tables of 4096 rows are gathered with clipping, so every position from 4096 on is rotated like position 4095.",
     "table-clips", "make the table as long as the context, or refuse longer ones", backend="jax")


# ---- h010: partial rotary with the exponent of the whole head
def make(bug):
    def apply(x, positions):
        r = 32
        d = x.shape[-1] if bug else r
        w = 10000.0 ** (-np.arange(0, r, 2) / d)
        ang = np.asarray(positions)[..., None] * w
        c, s = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        a, b, rest = x[..., :16], x[..., 16:32], x[..., 32:]
        return np.concatenate([(a * c - b * s).astype(x.dtype), (b * c + a * s).astype(x.dtype), rest], -1)
    return apply
case("h010", make, RoPE(80, layout="half", rotary_dim=32), "apply",
     "The exponents of the frequencies are divided by head_dim (80) instead of rotary_dim (32).",
     "partial-denominator", "divide by rotary_dim")


# ---- h011: trailing slice of latent attention, leading one rotated
def make(bug):
    def apply(x, positions):
        r = 64
        w = torch.tensor(inv(r))
        f = positions[..., None].double() * w
        f = f[:, None] if f.ndim == 3 else f
        rot = x[..., :r] if bug else x[..., -r:]
        keep = x[..., r:] if bug else x[..., :-r]
        e, o = rot[..., ::2].double(), rot[..., 1::2].double()
        y = torch.stack([e * f.cos() - o * f.sin(), o * f.cos() + e * f.sin()], -1).flatten(-2).to(x.dtype)
        return torch.cat([y, keep], -1) if bug else torch.cat([keep, y], -1)
    return apply
case("h011", make, RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128), "apply",
     "The first 64 channels of the head are rotated instead of the last 64.",
     "wrong-slice", "split the head into nope first, rope last", backend="torch")


# ---- h012: halves of the whole head in partial rotary
def make(bug):
    def apply(x, positions):
        D, r = x.shape[-1], 24
        k = np.arange(r // 2)
        mate = k + (D // 2 if bug else r // 2)
        ang = np.asarray(positions)[..., None] * inv(r)
        c, s = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        y = np.array(x)
        y[..., k] = x[..., k] * c - x[..., mate] * s
        y[..., mate] = x[..., mate] * c + x[..., k] * s
        return y
    return apply
case("h012", make, RoPE(96, layout="half", rotary_dim=24), "apply",
     "Pair k is formed of channels k and k + head_dim/2 = k + 48 instead of k and k + rotary_dim/2 = k + 12.",
     "partial-half", "split the rotated slice in halves, not the head")


# ---- h013: interleaved rotation with half-split tables
def make(bug):
    def apply(x, positions):
        f = positions[..., None].double() * torch.tensor(inv(x.shape[-1]))
        e = torch.cat([f, f], -1) if bug else f.repeat_interleave(2, -1)
        e = e[:, None] if e.ndim == 3 else e
        x1, x2 = x[..., ::2], x[..., 1::2]
        rotated = torch.stack([-x2, x1], -1).flatten(-2)
        return (x * e.cos() + rotated * e.sin()).to(x.dtype)
    return apply
case("h013", make, RoPE(64, layout="interleaved"), "apply",
     "rotate_every_two is combined with a cos and sin table that is the frequencies concatenated twice, so channels c and c+1 of a pair get the angles of different frequencies.",
     "table-order", "repeat_interleave the frequencies", backend="torch")


# ---- h014: aliased in-place update
def make(bug):
    def apply(x, positions):
        y = x.astype(np.float64)
        h = y.shape[-1] // 2
        ang = np.asarray(positions)[..., None] * inv(2 * h)
        c, s = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        first = y[..., :h] if bug else y[..., :h].copy()
        second = y[..., h:]
        y[..., :h] = first * c - second * s
        y[..., h:] = second * c + first * s
        return y.astype(x.dtype)
    return apply
case("h014", make, RoPE(64, layout="half"), "apply",
     "The first half is overwritten in place before the second half is computed from it, so the second channel of each pair uses the rotated first one.",
     "aliasing", "copy the first half before it is overwritten")


# ---- h015: writes into the caller's tensor
def make(bug):
    def apply(x, positions):
        r = 16
        y = x if bug else x.clone()
        f = positions[..., None].double() * torch.tensor(inv(r))
        f = f[:, None] if f.ndim == 3 else f
        c, s = f.cos().to(x.dtype), f.sin().to(x.dtype)
        a, b = x[..., :8].clone(), x[..., 8:16].clone()
        y[..., :8] = a * c - b * s
        y[..., 8:16] = b * c + a * s
        return y.clone()
    return apply
case("h015", make, RoPE(64, layout="half", rotary_dim=16), "apply",
     "The rotation is written into the caller's x, so x itself is changed.",
     "mutates", "write into a copy", backend="torch")


# ---- h016: result stays float32
def make(bug):
    def apply(x, positions):
        x1, x2 = x.float().chunk(2, -1)
        f = positions[..., None].double() * torch.tensor(inv(x.shape[-1]))
        f = f[:, None] if f.ndim == 3 else f
        c, s = f.cos().float(), f.sin().float()
        y = torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1)
        return y if bug else y.type_as(x)
    return apply
case("h016", make, RoPE(64, layout="half"), "apply",
     "x is widened to float32 for the rotation and the result is not cast back to float16.",
     "dtype", "cast the result to the dtype of x", backend="torch", dtype="float16")


# ---- h017: YaRN: m also on channels that pass through
def yarn_freqs(d, base, s, L0, fast=32.0, slow=1.0):
    f = base ** (-np.arange(0, d, 2) / d)
    corr = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
    lo, hi = max(math.floor(corr(fast)), 0), min(math.ceil(corr(slow)), d - 1)
    w = np.clip((np.arange(d // 2) - lo) / max(hi - lo, 0.001), 0, 1)
    return f * (1 - w) + f / s * w


def make(bug):
    m = 0.1 * math.log(8.0) + 1
    w = yarn_freqs(64, 10000.0, 8.0, 4096)

    def apply(x, positions):
        c, s = (over_heads(g(np.asarray(positions)[..., None] * w), x) for g in (np.cos, np.sin))
        z = x * m if bug else x.copy()
        a, b = x[..., :32] * m, x[..., 32:64] * m
        z[..., :32], z[..., 32:64] = a * c - b * s, b * c + a * s
        return z.astype(x.dtype)
    return apply
case("h017", make, RoPE(128, layout="half", rotary_dim=64, scaling=YaRN(8.0, 4096)), "apply",
     "YaRN's attention factor multiplies the whole head, also the 64 channels that are not rotated.",
     "factor-on-passed", "multiply cos and sin only")


# ---- h018: YaRN factor twice
def make(bug):
    m = 0.1 * math.log(16.0) + 1
    w = yarn_freqs(64, 1e6, 16.0, 16384)

    def tables(p):
        ang = np.asarray(p)[..., None] * w
        return np.cos(ang) * m, np.sin(ang) * m

    def apply(x, positions):
        c, s = tables(positions)
        c, s = over_heads(c, x), over_heads(s, x)
        a, b = np.split(x.astype(np.float64), 2, -1)
        y = np.concatenate([a * c - b * s, b * c + a * s], -1)
        return (y * m if bug else y).astype(x.dtype)
    return apply
case("h018", make, RoPE(64, layout="half", base=1e6, scaling=YaRN(16.0, 16384)), "apply",
     "YaRN's attention factor is in cos and sin and multiplied onto the result once more, so outputs have m squared.",
     "factor-twice", "apply the factor once")


# ---- h019: linear scaling by integer division of the positions
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions)
        t = p // 8 if bug else p / 8.0
        ang = t[..., None] * inv(x.shape[-1])
        c, s = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        y = np.empty_like(x)
        y[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
        y[..., 1::2] = x[..., 1::2] * c + x[..., 0::2] * s
        return y
    return apply
case("h019", make, RoPE(64, layout="interleaved", scaling=LinearScaling(8.0)), "apply",
     "Positions are divided by the factor 8 with integer division, so eight neighbouring tokens have one position.",
     "integer-division", "divide in floating point")


# ---- h020: dynamic NTK by number of tokens instead of by the largest position
def make(bug):
    d, base, L, s = 64, 10000.0, 256, 2.0

    def apply(x, positions):
        p = np.asarray(positions)
        n = x.shape[-2] if bug else (int(p.max()) + 1 if p.size else 1)
        n = max(n, L)
        alpha = s * n / L - (s - 1)
        b = base * alpha ** (d / (d - 2))
        ang = p[..., None] * inv(d, b)
        c, sn = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        u, v = np.split(x, 2, -1)
        return np.concatenate([u * c - v * sn, v * c + u * sn], -1).astype(x.dtype)
    return apply
case("h020", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 256)), "apply",
     "Dynamic NTK takes the number of tokens in the call as the length, not the largest position plus one, so a decoding step far beyond the trained length has plain frequencies.",
     "length-of-call", "pass the largest position plus one")


# ---- h021: dynamic NTK without the +1
def make(bug):
    d, base, L, s = 32, 10000.0, 64, 4.0

    def apply(x, positions):
        p = positions
        n = p.max().item() + (0 if bug else 1) if p.numel() else 1
        n = max(int(n), L)
        alpha = s * n / L - (s - 1)
        w = torch.tensor(inv(d, base * alpha ** (d / (d - 2))))
        f = p[..., None].double() * w
        f = f[:, None] if f.ndim == 3 else f
        u, v = x.double().chunk(2, -1)
        return torch.cat([u * f.cos() - v * f.sin(), v * f.cos() + u * f.sin()], -1).to(x.dtype)
    return apply
case("h021", make, RoPE(32, layout="half", scaling=DynamicNTK(4.0, 64)), "apply",
     "Dynamic NTK takes the largest position itself as the length, which is one too short.",
     "length-minus-one", "add 1 to the largest position", backend="torch")


# ---- h022: p-RoPE as partial rotary of one block
def make(bug):
    d, frac = 64, 0.25

    def apply(x, positions):
        n = int(frac * d // 2)
        w = 10000.0 ** (-2 * np.arange(n) / d)
        first = np.arange(n)
        second = first + (n if bug else d // 2)
        ang = np.asarray(positions)[..., None] * w
        c, s = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        y = x.copy()
        y[..., first] = x[..., first] * c - x[..., second] * s
        y[..., second] = x[..., second] * c + x[..., first] * s
        return y
    return apply
case("h022", make, RoPE(64, layout="half", scaling=Proportional(0.25)), "apply",
     "The rotated pairs of proportional RoPE are formed inside the first 16 channels (k, k + 8) as in partial rotary, instead of (k, k + head_dim/2).",
     "proportional-as-partial", "pair channels k and k + head_dim/2")


# ---- h023: odd number of heads: last head not rotated (kernel does two heads at once)
def make(bug):
    def apply(x, positions):
        B, H, S, D = x.shape
        ang = np.asarray(positions)[..., None] * inv(D)
        c, s = (t if t.ndim == 2 else t for t in (np.cos(ang), np.sin(ang)))
        if c.ndim == 2:
            c, s = c[None], s[None]
        out = x.copy()
        groups = H // 2 if bug and H > 1 else (H + 1) // 2
        for g in range(groups):
            for h in (2 * g, 2 * g + 1):
                if h < H:
                    a, b = x[:, h, :, :D // 2], x[:, h, :, D // 2:]
                    out[:, h, :, :D // 2] = a * c - b * s
                    out[:, h, :, D // 2:] = b * c + a * s
        return out
    return apply
case("h023", make, RoPE(64, layout="half"), "apply",
     "The kernel rotates two heads at once and rounds the number of head groups down, so the last head of an odd number greater than one is copied without rotation.",
     "odd-head", "round the number of groups up")


# ---- h024: fast path for one token uses position 0 .. of row 0
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions)
        D = x.shape[-1]
        w = inv(D)
        if x.shape[-2] == 1:  # decoding: one rotation for the batch
            t = p.reshape(-1)[:1] if bug else p.reshape(-1, 1)
            ang = np.atleast_2d(t)[..., None] * w if bug else t[..., None] * w
            ang = ang.reshape(-1, 1, 1, D // 2)
        else:
            ang = p[..., None] * w
            ang = ang[:, None] if ang.ndim == 3 else ang
        a, b = x[..., 0::2], x[..., 1::2]
        z = (a + 1j * b.astype(np.float64)) * np.exp(1j * ang)
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("h024", make, RoPE(64, layout="interleaved"), "apply",
     "The path for a single token per row rotates the whole batch by the position of its first row.",
     "decode-first-row", "use each row's own position in the one-token path")


# ---- h025: range reduction by a short pi
def make(bug):
    TWO_PI = 2 * 3.14159 if bug else 2 * math.pi

    def apply(x, positions):
        ang = np.asarray(positions, np.float64)[..., None] * inv(x.shape[-1])
        ang = ang - TWO_PI * np.floor(ang / TWO_PI)
        c, s = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
    return apply
case("h025", make, RoPE(64, layout="half"), "apply",
     "Angles are reduced to one turn by a pi of 3.14159, so the reduced angle is off by 5.3e-6 for each whole turn.",
     "range-reduction", "use pi in full precision")


# ---- h026: sine from a table of 1024 entries without interpolation
def make(bug):
    N = 1024
    lut = np.sin(2 * np.pi * np.arange(N) / N)

    def apply(x, positions):
        ang = np.asarray(positions, np.float64)[..., None] * inv(x.shape[-1])
        if bug:
            idx = np.rint(ang / (2 * np.pi) * N).astype(np.int64)
            s, c = lut[idx % N], lut[(idx + N // 4) % N]
        else:
            s, c = np.sin(ang), np.cos(ang)
        c, s = over_heads(c, x), over_heads(s, x)
        a, b = x[..., 0::2], x[..., 1::2]
        return np.stack([a * c - b * s, b * c + a * s], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("h026", make, RoPE(64, layout="interleaved"), "apply",
     "cos and sin are read from a table of 1024 angles of the circle without interpolation, so angles are rounded to 2 pi / 1024.",
     "lookup-table", "compute cos and sin, or interpolate")


# ---- h027: thd: positions restart for tokens past the first 512 block? -> flat tokens, heads and tokens swapped in a flat index
def make(bug):
    def apply(x, positions):  # x (T, H, D)
        T, H, D = x.shape
        w = inv(D)
        rows = x.reshape(T * H, D)
        p = np.asarray(positions)
        token = (np.arange(T * H) % T) if bug else (np.arange(T * H) // H)
        ang = p[token][:, None] * w
        c, s = np.cos(ang), np.sin(ang)
        a, b = rows[:, :D // 2], rows[:, D // 2:]
        return np.hstack([a * c - b * s, b * c + a * s]).reshape(x.shape).astype(x.dtype)
    return apply
case("h027", make, RoPE(64, layout="half"), "apply",
     "The flat rows t*H + h of the packed (T, H, D) tensor take the position of token (t*H + h) mod T instead of t: the index is decoded as if heads came before tokens.",
     "flat-index", "divide the flat row by the number of heads", tensor_layout="thd")


# ---- h028: sign of the angle for the second channel only
def make(bug):
    def apply(x, positions):
        f = np.asarray(positions)[..., None] * inv(x.shape[-1])
        f = over_heads(f, x)
        a, b = np.split(x, 2, -1)
        c, s = np.cos(f), np.sin(f)
        second = (b * c - a * s) if bug else (b * c + a * s)
        return np.concatenate([a * c - b * s, second], -1).astype(x.dtype)
    return apply
case("h028", make, RoPE(64, layout="half"), "apply",
     "The second channel of each pair is x2 cos - x1 sin instead of x2 cos + x1 sin, so the map is no rotation.",
     "sign-of-one-term", "x2 cos + x1 sin")


# ---- h029: bshd strides: rotation over axis 1 as heads
def make(bug):
    def apply(x, positions):  # x (B, S, H, D)
        p = positions
        f = p[..., None].double() * torch.tensor(inv(x.shape[-1]))
        if f.ndim == 2:
            f = f[None]
        B, S, H, D = x.shape
        # (B, S, 1, P); the buggy path takes the (B, H, S, D) branch whenever both fit
        if bug and H == S:
            f = f[:, None]
        else:
            f = f[:, :, None]
        u, v = x.double().chunk(2, -1)
        return torch.cat([u * f.cos() - v * f.sin(), v * f.cos() + u * f.sin()], -1).to(x.dtype)
    return apply
case("h029", make, RoPE(32, layout="half"), "apply",
     "The axis of tokens is guessed by comparing sizes: with as many heads as tokens, heads are taken for tokens, and head h is rotated by position h.",
     "guessed-axis", "fix the axis of tokens instead of guessing", backend="torch", tensor_layout="bshd")


# ---- h030: wrong base for the position beyond trained length: frequencies off by integer pow of float32 base (pow in float32 of large base fine) -> use exponent with integer division
def make(bug):
    def apply(x, positions):
        d = x.shape[-1]
        k = np.arange(d)
        e = (k // 2) / d if bug else 2 * (k // 2) / d
        w = 10000.0 ** -e
        ang = np.asarray(positions)[..., None] * w
        c, s = over_heads(np.cos(ang), x), over_heads(np.sin(ang), x)
        y = np.empty(x.shape, x.dtype)
        y[..., 0::2] = x[..., 0::2] * c[..., 0::2] - x[..., 1::2] * s[..., 0::2]
        y[..., 1::2] = x[..., 1::2] * c[..., 1::2] + x[..., 0::2] * s[..., 1::2]
        return y
    return apply
case("h030", make, RoPE(64, layout="interleaved"), "apply",
     "The exponent is k/d instead of 2k/d, so the frequencies fall half as fast in the logarithm.",
     "exponent-half", "use 2k/d")


# ---- h142: tables stored in float16
def make(bug):
    class Tables:
        kind = np.float16 if bug else np.float32

        def __call__(self, x, positions):
            ang = np.asarray(positions)[..., None] * inv(x.shape[-1], 1e6)
            c, s = np.cos(ang).astype(self.kind), np.sin(ang).astype(self.kind)
            c, s = over_heads(c, x), over_heads(s, x)
            a, b = np.split(x, 2, -1)
            return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
    return Tables()
case("h142", make, RoPE(128, layout="half", base=1e6), "apply",
     "cos and sin are stored in float16, so float32 vectors are rotated with tables of 11 significant bits.",
     "low-precision-tables", "store the tables in float32")


# ---- h143: float32 positions in seconds-like product: position * (1/2pi turns) in float32 with base^k by float32 cumprod
def make(bug):
    def frequencies():
        d, base = 128, 500000.0
        ratio = base ** (-2 / d)
        if bug:
            r = np.float16(ratio)
            return np.cumprod(np.r_[1.0, np.full(d // 2 - 1, float(r))])
        return np.cumprod(np.r_[1.0, np.full(d // 2 - 1, ratio)])
    return frequencies
case("h143", make, RoPE(128, layout="half", base=500000.0), "frequencies",
     "The frequencies are powers of a ratio rounded to float16, so the relative error grows with the pair, up to about a percent in the last one.",
     "ratio-rounded", "keep the ratio in float64")


# ---- h144: rotation applied to the second half of the batch only once, first batch row twice when B > 1 (double call of in-place hook)
def make(bug):
    def apply(x, positions):
        D = x.shape[-1]
        ang = np.asarray(positions)[..., None] * inv(D)
        ang = ang[:, None] if ang.ndim == 3 else ang
        z = np.exp(1j * ang)

        def turn(t):
            w = (t[..., :D // 2] + 1j * t[..., D // 2:]) * z
            return np.concatenate([w.real, w.imag], -1)
        y = turn(x.astype(np.float64))
        if bug and x.shape[-2] == 1:
            y = turn(y)
        return y.astype(x.dtype)
    return apply
case("h144", make, RoPE(64, layout="half"), "apply",
     "With a single token (decoding) the vector is rotated twice, once by the cache update and once by the attention, so its angle is doubled.",
     "rotated-twice", "rotate once")


# ---- h145: negative: sorted positions
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions)
        if bug and p.ndim == 1 and p.size > 1 and p.dtype.kind == "i":
            p = p[0] + np.arange(p.size)          # "positions are always consecutive"
        ang = p[..., None] * inv(x.shape[-1])
        ang = ang[:, None] if ang.ndim == 3 else ang
        a, b = x[..., ::2], x[..., 1::2]
        y = np.stack([a * np.cos(ang) - b * np.sin(ang), a * np.sin(ang) + b * np.cos(ang)], -1)
        return y.reshape(x.shape).astype(x.dtype)
    return apply
case("h145", make, RoPE(64, layout="interleaved"), "apply",
     "Of shared positions (S,) only the first is read; the others are assumed to follow it one by one, so packed, tree or permuted positions are ignored.",
     "consecutive", "use every position")
