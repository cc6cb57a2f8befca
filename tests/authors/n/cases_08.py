import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

# ---- more of several kinds -------------------------------------------------------------------

def make(bug):
    n = 7                                                    # 44 // 6
    def apply(x, positions):
        p = np.asarray(positions, float)
        p = p if p.ndim > 1 else np.stack([p] * 3)
        p = p if p.ndim == 3 else p[:, None]
        g = np.pi / 2 * 10000.0 ** (np.arange(n) / n if bug else np.linspace(0, 1, n))
        a = np.stack([p[i][..., None] * g for i in range(3)], -1).reshape(p.shape[1:] + (3 * n,))[:, None]
        y = x.copy()
        u, v = x[..., 2::2].astype(float), x[..., 3::2].astype(float)
        y[..., 2::2], y[..., 3::2] = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)
        return y
    return apply
case("n115", make, P.MixedRoPE.fractional(44), "apply",
     "LTX: the exponents of the rising frequencies are i/n (linspace without its end), not i/(n-1).",
     "ltx-open-end", "linspace(0, 1, n)")

def make(bug):
    n = 7
    def apply(x, positions):
        p = np.asarray(positions, float)
        p = p if p.ndim > 1 else np.stack([p] * 3)
        p = p if p.ndim == 3 else p[:, None]
        g = np.pi / 2 * 10000.0 ** np.linspace(0, 1, n)
        a = np.stack([p[i][..., None] * g for i in range(3)], -1).reshape(p.shape[1:] + (3 * n,))[:, None]
        lo = 0 if bug else 2
        y = x.copy()
        w = x[..., lo:lo + 42].astype(float)
        u, v = w[..., ::2], w[..., 1::2]
        y[..., lo:lo + 42] = np.stack([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).reshape(w.shape)
        return y
    return apply
case("n116", make, P.MixedRoPE.fractional(44), "apply",
     "LTX: the two channels that do not turn are put last; they come first.",
     "ltx-padding-last", "pad in front")

ERNIE = (1, 2) * 5 + (0,) * 6
def make(bug):
    f = 500000.0 ** (-np.arange(16) / 16)
    def apply(x, positions):
        p = np.asarray(positions, float)
        p = p if p.ndim > 1 else np.stack([p] * 3)
        p = p if p.ndim == 3 else p[:, None]
        t, h, w = p[..., None] * f
        a = np.empty_like(t)
        a[..., 0:10:2], a[..., 1:10:2] = h[..., 0:10:2], w[..., 0:10:2] if bug else w[..., 1:10:2]
        a[..., 10:] = t[..., 10:]
        a = a[:, None]
        z = (x[..., ::2].astype(float) + 1j * x[..., 1::2].astype(float)) * np.exp(1j * a)
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("n117", make, P.MultiAxisRoPE(32, sections=(6, 5, 5), layout="interleaved", arrangement=ERNIE, base=500000.0), "apply",
     "Ernie 4.5 VL: the width pairs take the frequencies of the even pairs, those of the height, not their own.",
     "width-takes-even-frequencies", "w[..., 1:10:2]")

def make(bug):
    def bf16(a):
        i = np.asarray(a, np.float32).view(np.uint32)
        return ((i + 0x7FFF + ((i >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32).astype(float)
    f = 10000.0 ** (-np.arange(32) / 32)
    def apply(x, positions):
        a = np.asarray(positions, float)[..., None] * f
        a = a if a.ndim == 2 else a[:, None]
        c, s = np.cos(a), np.sin(a)
        if bug:
            s = bf16(s)                                       # cos is kept, sin goes through a bfloat16 buffer
        u, v = x[..., :32].astype(float), x[..., 32:].astype(float)
        return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)
    return apply
case("n118", make, P.RoPE(64, layout="half"), "apply",
     "The sine passes through a bfloat16 buffer, the cosine does not.",
     "sine-bf16", "keep the sine in float32")

def make(bug):
    lo = max(math.floor(32 * math.log(4096 / (64 * math.pi)) / (2 * math.log(10000.0))), 0)
    hi = math.ceil(32 * math.log(4096 / (2 * math.pi)) / (2 * math.log(10000.0)))
    t = np.clip((np.arange(16) - lo) / (hi - lo), 0, 1)
    f = 10000.0 ** (-np.arange(16) / 16) * (1 - t + t / 4.0)
    m = 0.1 * math.log(4.0) + 1
    def apply(x, positions):
        a = np.asarray(positions, float)[..., None] * f
        a = a if a.ndim == 2 else a[:, None]
        w = x.astype(float) * m
        u, v = w[..., :16], w[..., 16:32]
        rest = w[..., 32:].astype(x.dtype) if bug else x[..., 32:]
        return np.concatenate([(u * np.cos(a) - v * np.sin(a)).astype(x.dtype), (v * np.cos(a) + u * np.sin(a)).astype(x.dtype), rest], -1)
    return apply
case("n119", make, P.RoPE(48, layout="half", rotary_dim=32, scaling=P.YaRN(4.0, 4096)), "apply",
     "x as a whole is multiplied by the attention factor, also the channels that are not rotated.",
     "factor-on-passthrough", "multiply the rotated channels")

INC = np.abs(np.random.default_rng(71).normal(size=(2, 30, 4)))
def make(bug):
    A = np.cumsum(INC, 1)
    if bug:
        A = A - INC[:, :1]                                    # "angles start at 0"
    def apply(x, positions):
        a = A[:, np.asarray(positions)]
        y = x.copy()
        u, v = x[..., :8:2].astype(float), x[..., 1:8:2].astype(float)
        y[..., :8:2], y[..., 1:8:2] = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)
        return y
    return apply
case("n146", make, P.SelectiveRoPE(10, INC, layout="interleaved"), "apply",
     "The first token's increment is subtracted from all angles so that they start at 0; logits stay, vectors do not.",
     "first-increment-removed", "the sum includes the first increment")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    lz = np.log((np.arange(16) / 16 + 0.4) / 1.4)
    def one(x, p, sign):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(p, float), (B, S))
        out = np.empty_like(x)
        for b in range(B):
            size = np.exp(sign * (p[0 if bug else b][:, None] / 512) * lz)
            a = p[b][:, None] * f
            u, v = x[b, ..., :16].astype(float), x[b, ..., 16:].astype(float)
            out[b] = np.concatenate([(u * np.cos(a) - v * np.sin(a)) * size, (v * np.cos(a) + u * np.sin(a)) * size], -1)
        return out
    def apply_qk(q, k, q_positions, k_positions):
        return one(q, q_positions, 1), one(k, k_positions, -1)
    return apply_qk
case("n147", make, P.XPos(32, layout="half"), "apply_qk",
     "xPos: the decays of all batch rows are those of row 0; the rotation is right.",
     "decay-row0", "the positions of the row")

def make(bug):
    f = 500000.0 ** (-np.arange(32) / 32)
    inc = np.rint(f / (2 * np.pi) * 2.0 ** 32).astype(np.int64)
    def apply(x, positions):
        p = np.asarray(positions)
        if bug and p.dtype.kind in "iu":
            phase = (p.astype(np.int64)[..., None] * inc) & 0xFFFFFFFF       # 32-bit phase accumulator
            a = phase * (2 * np.pi / 2.0 ** 32)
        else:
            a = p.astype(float)[..., None] * f
        a = a if a.ndim == 2 else a[:, None]
        u, v = x[..., :32].astype(float), x[..., 32:].astype(float)
        return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype)
    return apply
case("n148", make, P.RoPE(64, layout="half", base=500000.0), "apply",
     "Frequencies are whole numbers of 2**-32 turns, as for a 32-bit phase accumulator; slow pairs are off, which shows at long positions only.",
     "phase-accumulator-32", "float64 frequencies")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def apply_offset(x, offset):
        B, H, S, D = x.shape
        o = np.asarray(offset)
        pos = np.concatenate([np.arange(b, b + S) for b in o])               # packed: all rows end to end
        cu = np.arange(B + 1) * S
        out = np.empty_like(x)
        for b in range(B):
            at = pos[cu[b]:cu[b + 1]] if not bug or b == 0 else pos[cu[b] - 1:cu[b + 1] - 1]
            a = at[:, None] * f
            u, v = x[b, ..., :16].astype(float), x[b, ..., 16:].astype(float)
            out[b, ..., :16], out[b, ..., 16:] = u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)
        return out
    return apply_offset
case("n149", make, P.RoPE(32, layout="half"), "apply_offset",
     "Packed rows: the borders of rows after the first are one token too early, so their first token gets the last position of the row before.",
     "packed-border", "cu[b] : cu[b + 1]")

def make(bug):
    f = 10000.0 ** (-np.arange(8) / 8)
    def cos_sin(positions):
        p = np.asarray(positions, float)
        if p.ndim == 1:
            p = np.stack([p, p])
        a = np.concatenate([p[0][:, None] * f, p[1][:, None] * f], 1)
        if bug:
            a = a.reshape(-1, 8, 2).transpose(0, 2, 1).reshape(-1, 16)
        return np.cos(a), np.sin(a)
    return cos_sin
case("n150", make, P.MultiAxisRoPE(32, sections=(8, 8), layout="half", spacing="restart"), "cos_sin",
     "The columns of both axes are brought to another order (taken as alternating) though they are already one after the other.",
     "columns-deinterleaved", "leave the columns")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    class Rope:
        def __init__(self):
            self.last = None
        def __call__(self, x, offset):
            S = x.shape[-2]
            if self.last is not None and self.last[0] == offset and self.last[1].shape[0] >= S:
                a = self.last[1][:S]                              # the same start, not longer
            elif bug and self.last is not None and S == 1:
                a = self.last[1][-1:] + f                         # decoding: one step past the last row
                self.last = (self.last[0], a)
            else:
                a = np.arange(offset, offset + S)[:, None] * f
                self.last = (offset, a)
            u, v = x[..., :16].astype(float), x[..., 16:].astype(float)
            return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype)
    def calls(sequence):
        r = Rope()
        return [r(x, int(o)) for x, o in sequence]
    return calls
case("n151", make, P.RoPE(32, layout="half"), "calls",
     "A single token after another call gets the position after that call's last row, whatever its offset: calls are independent.",
     "assumes-next-token", "use the offset")
