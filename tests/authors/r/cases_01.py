import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- r001 partial rotary, channels put back in the wrong order
def make(bug):
    rot, base = 32, 10000.0
    inv_freq = 1.0 / base ** (np.arange(0, rot, 2, dtype=np.float64) / rot)

    def rotate_half(x):
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate((-x2, x1), axis=-1)

    def apply_rotary(x, positions):
        freqs = np.asarray(positions, np.float64)[..., None] * inv_freq
        emb = np.concatenate((freqs, freqs), axis=-1)
        if emb.ndim == 3:
            emb = emb[:, None]
        cos, sin = np.cos(emb).astype(np.float32), np.sin(emb).astype(np.float32)
        x_rot, x_pass = x[..., :rot], x[..., rot:]
        x_rot = (x_rot * cos + rotate_half(x_rot) * sin).astype(x.dtype)
        parts = (x_pass, x_rot) if bug else (x_rot, x_pass)
        return np.concatenate(parts, axis=-1)
    return apply_rotary

case("r001", make, P.RoPE(80, layout="half", rotary_dim=32), "apply",
     "The rotated channels are joined after the channels that pass through, although they were the first of the head.",
     "partial-concat-order", "Concatenate (x_rot, x_pass), in the order in which the head was split.")


# ---- r002 YaRN without rounding of the correction range
def make(bug):
    dim, base, factor, orig, fast, slow = 64, 1e6, 4.0, 32768, 32.0, 1.0

    def correction_dim(n):
        return dim * math.log(orig / (n * 2 * math.pi)) / (2 * math.log(base))

    low, high = correction_dim(fast), correction_dim(slow)
    if not bug:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    pos_freqs = base ** (np.arange(0, dim, 2) / dim)
    ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
    inv_freq = 1 / (factor * pos_freqs) * ramp + 1 / pos_freqs * (1 - ramp)
    mscale = 0.1 * math.log(factor) + 1.0

    def forward(x, positions):
        p = np.asarray(positions, float)
        ang = np.einsum("...s,k->...sk", p, inv_freq)
        ang = ang if p.ndim == 1 else ang[:, None]
        c, s = np.cos(ang) * mscale, np.sin(ang) * mscale
        a, b = x[..., : dim // 2], x[..., dim // 2:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
    return forward

case("r002", make, P.RoPE(64, layout="half", base=1e6, scaling=P.YaRN(4.0, 32768)), "apply",
     "YaRN's correction range is not rounded to whole pairs (floor and ceil are missing).",
     "yarn-no-truncate", "Take floor of the lower and ceil of the upper end, unless the model has truncate=False.")


# ---- r003 YaRN's factor on cos only
def make(bug):
    dim, base, factor, orig = 128, 10000.0, 16.0, 4096

    @functools.lru_cache(maxsize=None)
    def tables():
        f = base ** (-np.arange(0, dim, 2) / dim)
        c = lambda r: dim * math.log(orig / (2 * math.pi * r)) / 2 / math.log(base)
        lo, hi = max(math.floor(c(32)), 0), min(math.ceil(c(1)), dim - 1)
        w = np.minimum(np.maximum((np.arange(dim // 2) - lo) / (hi - lo), 0), 1)
        return f * (1 - w) + f / factor * w, 0.1 * math.log(factor) + 1

    def rope(x, positions):
        f, m = tables()
        t = np.multiply.outer(np.asarray(positions, np.float64), f)
        if t.ndim > 2:
            t = np.expand_dims(t, 1)
        cos, sin = m * np.cos(t), np.sin(t) * (1 if bug else m)
        out = np.empty(x.shape, np.float64)
        even, odd = x[..., ::2], x[..., 1::2]
        out[..., ::2] = even * cos - odd * sin
        out[..., 1::2] = even * sin + odd * cos
        return out.astype(x.dtype)
    return rope

case("r003", make, P.RoPE(128, layout="interleaved", scaling=P.YaRN(16.0, 4096)), "apply",
     "YaRN's attention factor multiplies the cosines and not the sines.",
     "mscale-cos-only", "Multiply cos and sin by the attention factor.")


# ---- r004 LongRoPE: switch by the largest position, not by the length
SHORT = tuple(1.0 + 0.01 * k for k in range(24))
LONG = tuple(1.0 + 0.9 * k for k in range(24))

def make(bug):
    class SuScaledRotary:
        def __init__(self, dim=48, orig=256, maxpos=4096, base=10000.0):
            self.dim, self.orig, self.base = dim, orig, base
            self.factor = math.sqrt(1 + math.log(maxpos / orig) / math.log(orig))
            self.short, self.long = np.array(SHORT), np.array(LONG)

        def __call__(self, x, position_ids):
            p = np.asarray(position_ids)
            last = p.max() if p.size else 0
            seq_len = last if bug else np.floor(last) + 1
            ext = self.long if seq_len > self.orig else self.short
            inv = 1.0 / (ext * self.base ** (np.arange(0, self.dim, 2) / self.dim))
            ang = p[..., None] * inv
            ang = np.concatenate([ang, ang], -1)
            if ang.ndim == 3:
                ang = ang[:, None, :, :]
            cos, sin = np.cos(ang) * self.factor, np.sin(ang) * self.factor
            h = self.dim // 2
            rot = np.concatenate([-x[..., h:], x[..., :h]], -1)
            return (x * cos + rot * sin).astype(x.dtype)
    return SuScaledRotary()

case("r004", make, P.RoPE(48, layout="half", scaling=P.LongRoPE(SHORT, LONG, 256, factor=16.0)), "apply",
     "The list of factors is chosen by the largest position instead of the length, which is one more: a sequence of exactly L0 + 1 tokens still has the short factors.",
     "longrope-switch-off-by-one", "Compare max(position) + 1 with the trained length.")


# ---- r005 interleaved M-RoPE without the end of each section
def make(bug):
    sections, half = (10, 6, 4), 20
    inv_freq = 1e6 ** (-np.arange(half) / half)

    def interleave(freqs):                     # (3, ..., S, half)
        out = freqs[0].copy()
        for dim, offset in enumerate((1, 2), start=1):
            stop = None if bug else sections[dim] * 3
            idx = slice(offset, stop, 3)
            out[..., idx] = freqs[dim][..., idx]
        return out

    def forward(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.broadcast_to(p, (3,) + p.shape)
        f = interleave(p[..., None] * inv_freq)
        f = f[:, None] if f.ndim == 3 else f
        emb = np.concatenate([f, f], -1)
        x1, x2 = x[..., :half], x[..., half:]
        return (x * np.cos(emb) + np.concatenate([-x2, x1], -1) * np.sin(emb)).astype(x.dtype)
    return forward

case("r005", make, P.MultiAxisRoPE(40, sections=(10, 6, 4), layout="half", arrangement="interleaved", base=1e6), "apply",
     "Height and width take every third pair up to the end of the head: the slices do not stop at three times their section.",
     "mrope-interleave-no-stop", "Slice offset : 3 * section : 3, so that the last pairs stay with time.")


# ---- r006 axial: column first
def make(bug):
    head_dim = 64
    n = head_dim // 4
    freqs = 100.0 ** -(np.arange(n) / n)

    def table(y, x):
        ay, ax = y[..., None] * freqs, x[..., None] * freqs
        return np.exp(1j * np.concatenate([ay, ax], axis=-1))

    def apply_2d(x, positions):
        p = np.asarray(positions, float)
        y, xx = (p, p) if p.ndim == 1 else (p[0], p[1])
        cis = table(xx, y) if bug else table(y, xx)
        if cis.ndim == 3:
            cis = cis[:, None]
        z = x.astype(np.float64).reshape(*x.shape[:-1], -1, 2)
        z = (z[..., 0] + 1j * z[..., 1]) * cis
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply_2d

case("r006", make, P.MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart", base=100.0), "apply",
     "Rows and columns are passed in the wrong order: the first half of the head turns by the column of a patch.",
     "axial-xy-swapped", "The first pairs belong to the row (axis 0).")


# ---- r007 RoPE-Mixed: (A, H, P) read as (H, A, P)
MIX = np.round(np.random.default_rng(7).normal(size=(4, 2, 16)) * 0.3, 4)

def make(bug):
    params = np.ascontiguousarray(MIX.transpose(1, 0, 2))        # checkpoint: (axes, heads, pairs)
    weight = params.reshape(4, 2, 16) if bug else params.transpose(1, 0, 2)

    def forward(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p])
        if p.ndim == 2:
            angle = np.einsum("as,haj->hsj", p, weight)[None]
        else:
            angle = np.einsum("abs,haj->bhsj", p, weight)
        c, s = np.cos(angle), np.sin(angle)
        u, v = x[..., 0:32:2], x[..., 1:32:2]
        y = np.stack([u * c - v * s, u * s + v * c], axis=-1)
        return y.reshape(x.shape).astype(x.dtype)
    return forward

case("r007", make, P.MixedRoPE(32, MIX, layout="interleaved"), "apply",
     "The learned frequencies (axes, heads, pairs) are reshaped to (heads, axes, pairs) instead of transposed, so heads get each other's numbers.",
     "mixed-reshape-not-transpose", "Use transpose(1, 0, 2).")


# ---- r008 in-place aliasing
def make(bug):
    inv = 1.0 / (500000.0 ** (np.arange(0, 64, 2) / 64))

    def apply_(x, positions):
        y = x.astype(np.float64)               # a fresh buffer, worked on in place
        ang = np.asarray(positions, np.float64)[..., None] * inv
        if ang.ndim == 3:
            ang = ang[:, None]
        cos, sin = np.cos(ang), np.sin(ang)
        a, b = y[..., 0::2], y[..., 1::2]
        if not bug:
            a_old = a.copy()
        else:
            a_old = a                           # a view, overwritten below
        a[...] = a * cos - b * sin
        b[...] = b * cos + a_old * sin
        return y.astype(x.dtype)
    return apply_

case("r008", make, P.RoPE(64, layout="interleaved", base=500000.0), "apply",
     "The rotation works in place, and the second channel of a pair is computed from the first one after that was overwritten.",
     "inplace-alias", "Keep a copy of the first channels until both are computed.")


# ---- r009 latent attention: leading instead of trailing channels
def make(bug):
    nope, rope = 32, 16
    theta = 10000.0 ** (-np.arange(rope // 2) * 2 / rope)

    def rot(z, positions):
        t = np.asarray(positions, np.float64)[..., None] * theta
        t = t if t.ndim == 2 else t[:, None]
        z = z.reshape(*z.shape[:-1], rope // 2, 2)
        out = np.empty(z.shape)
        out[..., 0] = z[..., 0] * np.cos(t) - z[..., 1] * np.sin(t)
        out[..., 1] = z[..., 0] * np.sin(t) + z[..., 1] * np.cos(t)
        return out.reshape(*z.shape[:-2], rope)

    def apply(x, positions):
        if bug:
            pe, rest = np.split(x, [rope], axis=-1)
            return np.concatenate([rot(pe, positions).astype(x.dtype), rest], -1)
        rest, pe = np.split(x, [nope], axis=-1)
        return np.concatenate([rest, rot(pe, positions).astype(x.dtype)], -1)
    return apply

case("r009", make, P.RoPE(48, layout="interleaved", rotary_dim=16, rotary_start=32), "apply",
     "The head is split as (rope, nope) although the channels without position come first: the leading channels are rotated.",
     "mla-split-order", "Split at the number of channels without position and rotate the trailing ones.")


# ---- r010 DeepSeek de-interleaving with the axes the wrong way round
def make(bug):
    d = 64
    inv = 1.0 / 10000.0 ** (np.arange(0, d, 2) / d)

    def apply(q, positions):
        b, h, s, _ = q.shape
        if bug:
            z = q.reshape(b, h, s, 2, d // 2).transpose(0, 1, 2, 4, 3).reshape(b, h, s, d)
        else:
            z = q.reshape(b, h, s, d // 2, 2).transpose(0, 1, 2, 4, 3).reshape(b, h, s, d)
        f = np.asarray(positions, np.float64)[..., None] * inv
        emb = np.concatenate((f, f), axis=-1)
        emb = emb if emb.ndim == 2 else emb[:, None]
        half = np.concatenate((-z[..., d // 2:], z[..., : d // 2]), axis=-1)
        return (z * np.cos(emb) + half * np.sin(emb)).astype(q.dtype)
    return apply

case("r010", make, P.RoPE(64, layout="interleaved", output_layout="half"), "apply",
     "Before rotate_half, the channels are viewed as (2, d/2) instead of (d/2, 2), so they are interleaved once more and not separated.",
     "deinterleave-view", "View as (d/2, 2), transpose, then reshape.")


# ---- r011 position interpolation with integer division
def make(bug):
    scale = 4

    def apply(x, positions):
        d = x.shape[-1]
        p = np.asarray(positions)
        t = p // scale if bug else p / scale
        inv_freq = 10000.0 ** (-np.arange(0, d, 2) / d)
        freqs = np.multiply.outer(t.astype(np.float64), inv_freq)
        if p.ndim == 2:
            freqs = freqs[:, None]
        cos, sin = np.cos(freqs), np.sin(freqs)
        l, r = np.split(x, 2, -1)
        return np.concatenate((l * cos - r * sin, r * cos + l * sin), -1).astype(x.dtype)
    return apply

case("r011", make, P.RoPE(64, layout="half", scaling=P.LinearScaling(4.0)), "apply",
     "Interpolated positions are rounded down to whole numbers: four neighbouring tokens share one position.",
     "linear-floor-division", "Divide with /, not //.")


# ---- r012 positions of the first row for the whole batch
def make(bug):
    class Rotary:
        def __init__(self, dim):
            self.inv_freq = 1.0 / (10000 ** (np.arange(0, dim, 2).astype(np.float64) / dim))

        def forward(self, x, position_ids):
            p = np.asarray(position_ids)
            if p.ndim == 2:
                p = p[:1] if bug else p
            else:
                p = p[None]
            freqs = np.einsum("bi,j->bij", p.astype(np.float64), self.inv_freq)
            emb = np.concatenate([freqs, freqs], axis=-1)[:, None]
            h = x.shape[-1] // 2
            return (x * np.cos(emb) + np.concatenate([-x[..., h:], x[..., :h]], -1) * np.sin(emb)).astype(x.dtype)
    r = Rotary(64)
    return lambda x, positions: r.forward(x, positions)

case("r012", make, P.RoPE(64, layout="half"), "apply",
     "Only the positions of the first row of the batch are used, for every row.",
     "first-row-positions", "Compute cos and sin for each row of position_ids.")


# ---- r013 video: each axis with the exponents of the whole head
def make(bug):
    d = 96
    parts = (16, 16, 16)                       # pairs of time, height, width

    def axis_freqs(n):
        k = np.arange(n)
        return 10000.0 ** (-2 * k / d) if bug else 10000.0 ** (-k / n)

    fr = [axis_freqs(n) for n in parts]

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        t, h, w = (p, p, p) if p.ndim == 1 else p
        ang = np.concatenate([a[..., None] * f for a, f in zip((t, h, w), fr)], -1)
        ang = ang[:, None] if ang.ndim == 3 else ang
        xc = x[..., 0::2].astype(np.float64) + 1j * x[..., 1::2]
        yc = xc * (np.cos(ang) + 1j * np.sin(ang))
        out = np.empty_like(x)
        out[..., 0::2], out[..., 1::2] = yc.real, yc.imag
        return out
    return apply

case("r013", make, P.MultiAxisRoPE(96, sections=(16, 16, 16), layout="interleaved", spacing="restart"), "apply",
     "The exponents of every axis are divided by the size of the whole head instead of the channels of that axis.",
     "axis-dim-head-dim", "Use the number of channels of the axis in its exponents.")


# ---- r014 blockwise: rotate_half over the whole head
def make(bug):
    d, n = 64, 16
    f = 100.0 ** (-np.arange(n) / n)

    def rotate_half(v):
        m = v.shape[-1] // 2
        return np.concatenate([-v[..., m:], v[..., :m]], -1)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = np.stack([p, p]) if p.ndim == 1 else p
        emb = []
        for axis in p:
            a = axis[..., None] * f
            emb.append(np.concatenate([a, a], -1))
        if bug:
            e = np.concatenate(emb, -1)
            e = e[:, None] if e.ndim == 3 else e
            return (x * np.cos(e) + rotate_half(x) * np.sin(e)).astype(x.dtype)
        out = []
        for block, e in zip(np.split(x, 2, -1), emb):
            e = e[:, None] if e.ndim == 3 else e
            out.append(block * np.cos(e) + rotate_half(block) * np.sin(e))
        return np.concatenate(out, -1).astype(x.dtype)
    return apply

case("r014", make, P.MultiAxisRoPE(64, sections=(16, 16), layout="blockwise", spacing="restart", base=100.0), "apply",
     "rotate_half is applied to the whole head instead of the block of each axis, so a channel of the rows is paired with one of the columns.",
     "blockwise-whole-head", "Split the head into the blocks of the axes first, and rotate each block.")


# ---- r015 table clamped
def make(bug):
    dim, max_pos = 64, 4096
    inv = 10000.0 ** (-np.arange(0, dim, 2) / dim)
    t = np.arange(max_pos)[:, None] * inv
    COS, SIN = np.cos(t), np.sin(t)

    def apply(x, positions):
        p = np.asarray(positions)
        if bug:
            i = np.clip(p, 0, max_pos - 1).astype(int)
            c, s = COS[i], SIN[i]
        else:
            c, s = np.cos(p[..., None] * inv), np.sin(p[..., None] * inv)
        if p.ndim == 2:
            c, s = c[:, None], s[:, None]
        a, b = x[..., : dim // 2], x[..., dim // 2:]
        return np.concatenate([a * c - b * s, a * s + b * c], -1).astype(x.dtype)
    return apply

case("r015", make, P.RoPE(64, layout="half"), "apply",
     "cos and sin come from a table of 4096 rows, and later positions are clipped to its last row.",
     "table-clip", "Build the table for the longest position, or compute missing rows.")


# ---- right: complex numbers
def make(bug):
    def precompute_freqs_cis(pos, dim, theta=500000.0):
        freqs = 1.0 / theta ** (np.arange(0, dim, 2)[: dim // 2] / dim)
        ang = np.multiply.outer(np.asarray(pos, np.float64), freqs)
        return np.cos(ang) + 1j * np.sin(ang)

    def apply_rotary_emb(x, positions):
        xq_ = np.ascontiguousarray(x, dtype=np.float64).view(np.complex128)
        cis = precompute_freqs_cis(positions, x.shape[-1])
        if cis.ndim == 3:
            cis = cis[:, None]
        return (xq_ * cis).view(np.float64).astype(x.dtype)
    return apply_rotary_emb

case("r076", make, P.RoPE(128, layout="interleaved", base=500000.0), "apply",
     "Channels are viewed as complex128 numbers and multiplied.", "right")


# ---- right: two levels, addition theorems
def make(bug):
    d = 64
    f = 1e4 ** (-np.arange(0, d, 2) / d)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        hi = np.floor(p / 256) * 256
        lo = p - hi
        ch, sh = np.cos(hi[..., None] * f), np.sin(hi[..., None] * f)
        cl, sl = np.cos(lo[..., None] * f), np.sin(lo[..., None] * f)
        c, s = ch * cl - sh * sl, sh * cl + ch * sl
        if p.ndim == 2:
            c, s = c[:, None], s[:, None]
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)
    return apply

case("r077", make, P.RoPE(64, layout="half"), "apply",
     "The angle is split into a coarse and a fine part, joined by the addition theorems.", "right")


# ---- right: 2 x 2 matrices
def make(bug):
    d = 32
    f = 1e4 ** (-np.arange(d // 2) / (d // 2)) / 8.0

    def apply(x, positions):
        a = np.asarray(positions, np.float64)[..., None] * f
        R = np.empty(a.shape + (2, 2))
        R[..., 0, 0] = R[..., 1, 1] = np.cos(a)
        R[..., 1, 0] = np.sin(a)
        R[..., 0, 1] = -R[..., 1, 0]
        pairs = x.reshape(*x.shape[:-1], 2, d // 2)          # (.., 2, P): half-split
        eq = "skij,bhsjk->bhsik" if a.ndim == 2 else "bskij,bhsjk->bhsik"
        return np.einsum(eq, R, pairs).reshape(x.shape).astype(x.dtype)
    return apply

case("r078", make, P.RoPE(32, layout="half", scaling=P.LinearScaling(8.0)), "apply",
     "Each pair is multiplied by its own 2 x 2 matrix with einsum.", "right")


# ---- right: roll with a signed sine
def make(bug):
    rot = 48
    f = 1e4 ** (-np.arange(0, rot, 2) / rot)

    def apply(x, positions):
        a = np.asarray(positions, np.float64)[..., None] * f
        cos = np.concatenate([np.cos(a)] * 2, -1)
        sin = np.concatenate([-np.sin(a), np.sin(a)], -1)
        if a.ndim == 3:
            cos, sin = cos[:, None], sin[:, None]
        y = x.copy()
        head = x[..., :rot].astype(np.float64)
        y[..., :rot] = head * cos + np.roll(head, rot // 2, axis=-1) * sin
        return y
    return apply

case("r079", make, P.RoPE(64, layout="half", rotary_dim=48), "apply",
     "rotate_half is a roll by half of the rotated channels, with the sign in the table of sines.", "right")
