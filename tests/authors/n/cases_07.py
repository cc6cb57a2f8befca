import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

# ---- right ones ------------------------------------------------------------------------------

def make(bug):
    f = 10000.0 ** (-np.arange(32) / 32)
    even = np.arange(64) % 2 == 0
    def apply(x, positions):
        w = x.astype(np.float64)
        a = np.repeat(np.asarray(positions, np.float64)[..., None] * f, 2, -1)
        a = a if a.ndim == 2 else a[:, None]
        other = np.where(even, -np.roll(w, -1, -1), np.roll(w, 1, -1))      # wraps around, but never across pairs
        return (w * np.cos(a) + other * np.sin(a)).astype(x.dtype)
    return apply
case("n120", make, P.RoPE(64, layout="interleaved"), "apply",
     "Partners are fetched by rolling the head by one channel in both directions; the wrapped channels are never used.", "right")

def make(bug):
    COARSE = 1024
    f = 10000.0 ** (-np.arange(16) / 16)
    fine = np.exp(1j * np.arange(COARSE)[:, None] * f)
    coarse = {}
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        hi = np.floor(p / COARSE)
        rest = p - hi * COARSE
        lo = np.floor(rest)
        z = fine[lo.astype(int)] * np.exp(1j * (rest - lo)[..., None] * f)
        for h in np.unique(hi):
            if h not in coarse:
                if len(coarse) > 500:
                    coarse.clear()
                coarse[h] = np.exp(1j * (h * COARSE) * f)
            z[hi == h] *= coarse[h]
        z = z if z.ndim == 2 else z[:, None]
        u, v = x[..., :16].astype(float), x[..., 16:].astype(float)
        return np.concatenate([u * z.real - v * z.imag, v * z.real + u * z.imag], -1).astype(x.dtype)
    return apply
case("n121", make, P.RoPE(32, layout="half"), "apply",
     "Two tables (multiples of 1024, kept between calls, and the rest) joined by angle addition; floor handles negative and fractional places.",
     "right")

def make(bug):
    f = 500000.0 ** (-np.arange(24) / 24)
    def apply(x, positions):
        a = np.asarray(positions, np.float64)[..., None] * f / 2
        a = a if a.ndim == 2 else a[:, None]
        h = np.sin(a)
        u, v = x[..., :24].astype(float), x[..., 24:48].astype(float)
        c, s = 1 - 2 * h * h, 2 * h * np.cos(a)
        y = x.copy()
        y[..., :24], y[..., 24:48] = u * c - v * s, v * c + u * s
        return y
    return apply
case("n122", make, P.RoPE(64, layout="half", base=500000.0, rotary_dim=48), "apply",
     "cos and sin of the full angle from those of half of it (double-angle formulas in float64).", "right")

def make(bug):
    f = 10000.0 ** (-np.arange(8) / 8)
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = p[:, None] if p.ndim == 2 else p
        g = np.zeros((8, 16, 16))
        for k in range(8):
            g[k, 2 * k, 2 * k + 1], g[k, 2 * k + 1, 2 * k] = 1.0, -1.0
        # x R with the transposed generator equals R x: row vectors on the left
        a = p[..., None] * f
        eye = np.abs(g)
        plane = np.einsum("kij,kjl->kil", eye, eye)
        R = np.tensordot(np.cos(a), plane, 1) + np.tensordot(np.sin(a), g, 1)
        return np.einsum("...i,...ij->...j", x.astype(float), R).astype(x.dtype)
    return apply
case("n123", make, P.RoPE(16, layout="interleaved"), "apply",
     "Whole block-diagonal matrices, multiplied from the right onto row vectors with the transposed generator.", "right")

def make(bug):
    inv = {}
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        n = int(p.max()) + 1 if p.size else 1
        L = max(n, 256)
        if L not in inv:                                    # one table of frequencies for every length
            if len(inv) > 100:
                inv.clear()
            alpha = (4.0 * L - 3.0 * 256) / 256
            inv[L] = (10000.0 * alpha ** (48 / 46)) ** (-np.arange(24) / 24)
        a = p[..., None] * inv[L]
        a = a if a.ndim == 2 else a[:, None]
        u, v = x[..., :24].astype(float), x[..., 24:].astype(float)
        return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype)
    return apply
case("n124", make, P.RoPE(48, layout="half", scaling=P.DynamicNTK(4.0, 256)), "apply",
     "Frequencies are cached, but by the length of each call, so nothing is left over from longer calls.", "right")

def make(bug):
    f = 1e6 ** (-np.arange(32) / 32)
    axis = np.array([0] * 8 + [1] * 12 + [2] * 12)
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = p if p.ndim > 1 else np.stack([p, p, p])
        onehot = np.eye(3)[axis]                            # (pairs, axes)
        a = np.einsum("a...,ja->...j", p, onehot) * f
        a = a if a.ndim == 2 else a[:, None]
        z = (x[..., :32].astype(float) + 1j * x[..., 32:].astype(float)) * np.exp(1j * a)
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)
    return apply
case("n125", make, P.MultiAxisRoPE(64, sections=(8, 12, 12), layout="half", base=1e6), "apply",
     "The axis of each pair is chosen by a product with one-hot rows.", "right")

def make(bug):
    s = 2 * math.pi
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = p if p.ndim > 1 else np.broadcast_to(p, (2,) + p.shape)
        y = np.array(x)
        for axis, (lo, n, base) in enumerate(((0, 6, 100.0), (12, 10, 300.0))):
            for i in range(n):
                a = p[axis] * (s * base ** (-i / n))
                a = a if a.ndim == 1 else a[:, None]
                u, v = x[..., lo + i].astype(float), x[..., lo + n + i].astype(float)
                y[..., lo + i], y[..., lo + n + i] = u * np.cos(a) + v * np.sin(a), v * np.cos(a) - u * np.sin(a)
        return y
    return apply
case("n126", make, P.MultiAxisRoPE(36, sections=(6, 10), layout="blockwise", spacing="restart", base=(100.0, 300.0),
                                   position_scale=2 * math.pi, sign=-1), "apply",
     "Loops over channels of unequal blocks, turning backwards as the declared sign says.", "right")

WR = np.random.default_rng(61).normal(size=(2, 2, 9))
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = p if p.ndim > 1 else np.stack([p, p])
        p = p[:, None] if p.ndim == 2 else p
        z = np.ones((p.shape[1], 2, p.shape[2], 9), complex)
        for a in (1, 0):                                    # rotations of one pair commute: any order of axes
            z = z * np.exp(1j * p[a][:, None, :, None] * WR[:, a][:, None])
        e, o = x[..., 2:20:2].astype(float), x[..., 3:20:2].astype(float)
        y = x.copy()
        y[..., 2:20:2] = e * z.real - o * z.imag
        y[..., 3:20:2] = e * z.imag + o * z.real
        return y
    return apply
case("n127", make, P.MixedRoPE(22, WR, layout="interleaved", rotary_start=2), "apply",
     "The axes are applied one after the other, the last one first; in a pair the order does not matter.", "right")

GR = np.random.default_rng(62).normal(size=(2, 2, 3, 3, 3))
CR = np.random.default_rng(63).uniform(-1, 1, (15, 2))
def make(bug):
    # Rodrigues' formula: in blocks of three channels the exponential has a closed form
    def apply(x, positions):
        K = np.einsum("sa,ahbij->hsbij", CR[np.asarray(positions)], np.triu(GR, 1) - np.triu(GR, 1).swapaxes(-1, -2))
        t = np.sqrt((K * K).sum((-1, -2), keepdims=True) / 2)
        t = np.where(t == 0, 1e-300, t)
        R = np.eye(3) + np.sin(t) / t * K + 2 * (np.sin(t / 2) / t) ** 2 * (K @ K)
        w = x[..., :9].astype(float).reshape(*x.shape[:-1], 3, 3, 1)
        y = (R @ w).reshape(*x.shape[:-1], 9)
        return np.concatenate([y.astype(x.dtype), x[..., 9:]], -1)
    return apply
case("n128", make, P.LieRE(11, GR, CR), "apply",
     "Blocks of three channels by Rodrigues' formula instead of a matrix exponential.", "right")

CF = np.random.default_rng(64).normal(size=(2, 6, 7)) * 0.4
SFO = np.random.default_rng(65).normal(size=(2, 6, 7)) * 0.4
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = p if p.ndim == 2 else p[None]
        z = np.exp(-1j * p[..., None] * 10000.0 ** (-np.arange(6) / 9))
        rows = [(z.real @ CF[h], -z.imag @ SFO[h]) for h in range(2)]
        y = np.empty_like(x)
        N = x.shape[1]
        for n in range(N):
            C, S_ = rows[n * 2 // N]
            u, v = x[:, n, :, :9].astype(float), x[:, n, :, 9:].astype(float)
            y[:, n, :, :7], y[:, n, :, 9:16] = u[..., :7] * C - v[..., :7] * S_, v[..., :7] * C + u[..., :7] * S_
            y[:, n, :, 7:9], y[:, n, :, 16:] = u[..., 7:] - v[..., 7:], v[..., 7:] + u[..., 7:]
        return y
    return apply
case("n129", make, P.FoPE(18, CF, SFO, dropped_sin=1), "apply",
     "Conjugate phases and a sign; dropped pairs (C = S = 1, as declared) are written as difference and sum; 2k/18 is k/9.", "right")

def make(bug):
    def frequencies():
        d, base, L0, s = 128, 10000.0, 4096, 16.0
        turns = L0 * base ** (-np.arange(64) / 64) / (2 * np.pi)
        k_of = lambda r: np.interp(-np.log(r), -np.log(turns), np.arange(64.0))      # inverse by interpolation, exact: log-linear
        low, high = np.floor(k_of(32.0)), np.ceil(k_of(1.0))
        w = np.interp(np.arange(64), [low, high], [0, 1])
        return base ** (-np.arange(64) / 64) * np.where(w < 1, 1 - w * (1 - 1 / s), 1 / s), np.log(s) / 10 + 1
    return frequencies
case("n130", make, P.RoPE(128, layout="half", scaling=P.YaRN(16.0, 4096)), "frequencies",
     "The ends of YaRN's ramp are found by inverting the table of turns by interpolation, which is exact as it is linear in the logarithm.",
     "right")

def make(bug):
    def frequencies():
        f = 500000.0 ** (-np.arange(32) / 32)
        with np.errstate(divide="ignore"):
            t = np.clip((8192 * f / (2 * np.pi) - 2.0) / np.float64(2.0 - 2.0), 0, 1)       # +-inf, clipped to a step
        return 1 / ((1 - t) * 8.0 / f + t / f)
    return frequencies
case("n131", make, P.RoPE(64, layout="half", base=500000.0, scaling=P.Llama3Scaling(8.0, 2.0, 2.0, 8192)), "frequencies",
     "low = high: the weight divides by zero and is clipped from infinity to the step that is asked for; then a blend of wavelengths, "
     "equal because the weight is 0 or 1.", "right")

def make(bug):
    def frequencies(seq_len=None):
        L = max(2048 if seq_len is None else seq_len, 1)
        alpha, room = 1, 2048
        while room < L:
            alpha, room = 2 * alpha + 1, 2 * room
        return (10000.0 * alpha ** (64 / 62)) ** (-np.arange(32) / 32)
    return frequencies
case("n132", make, P.RoPE(64, layout="half", scaling=P.QwenNTK(2048)), "frequencies",
     "Qwen's alpha by a loop that doubles the room instead of a logarithm.", "right")

def make(bug):
    def cos_sin(positions):
        p = np.asarray(positions, np.float64)
        u, where = np.unique(p, return_inverse=True)
        t = np.tan(u[:, None] / 2 * 10000.0 ** (-np.arange(16) / 16))
        c, s = (1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)
        return c[where.reshape(p.shape)], s[where.reshape(p.shape)]
    return cos_sin
case("n133", make, P.RoPE(32, layout="half"), "cos_sin",
     "Rational formulas in the tangent of half the angle, computed once for each distinct position.", "right")

def make(bug):
    def cos_sin(positions):
        k = np.arange(24)
        f = (10000.0 * 8.0) ** (-k / 24) / 8.0 ** (1 / 24)
        p = np.asarray(positions, float)
        turns = np.outer(p, f) / (2 * np.pi)
        rest = 2 * np.pi * (turns - np.rint(turns))
        return np.sin(rest + np.pi / 2), np.cos(rest - np.pi / 2)
    return cos_sin
case("n134", make, P.RoPE(48, layout="interleaved", scaling=P.SuNTK(8.0)), "cos_sin",
     "Su's NTK as (base factor)**(-2k/d) / factor**(2/d), and sin and cos exchanged by quarter turns.", "right")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    zeta = np.log1p(-(1 - (np.arange(16) / 16 + 0.4) / 1.4)) / 512
    def apply_qk(q, k, q_positions, k_positions):
        out = []
        for x, p, rate in ((q, q_positions, zeta + 1j * f), (k, k_positions, -zeta + 1j * f)):
            p = np.asarray(p, float)
            z = np.exp((p if p.ndim == 1 else p[:, None])[..., None] * rate)
            w = (x[..., 0::2].astype(float) + 1j * x[..., 1::2].astype(float)) * z
            out.append(np.ascontiguousarray(np.stack([w.real, w.imag], -1)).reshape(x.shape).astype(x.dtype))
        return tuple(out)
    return apply_qk
case("n135", make, P.XPos(32, layout="interleaved"), "apply_qk",
     "xPos as one complex exponential whose exponent has the decay as real and the frequency as imaginary part.", "right")

def make(bug):
    lo = max(math.floor(32 * math.log(4096 / (64 * math.pi)) / (2 * math.log(10000.0))), 0)
    hi = math.ceil(32 * math.log(4096 / (2 * math.pi)) / (2 * math.log(10000.0)))
    t = np.clip((np.arange(16) - lo) / (hi - lo), 0, 1)
    f = 10000.0 ** (-np.arange(16) / 16) * (1 - t + t / 4.0)
    m = 0.1 * math.log(4.0) + 1
    def vjp(x, positions, dy):
        # explicit Jacobian of the forward function, transposed
        p = np.asarray(positions, float)
        c, s = m * np.cos(p[..., None] * f), m * np.sin(p[..., None] * f)
        J = np.zeros(p.shape + (32, 32))
        i = np.arange(16)
        J[..., i, i] = J[..., i + 16, i + 16] = c
        J[..., i, i + 16], J[..., i + 16, i] = -s, s
        J = np.swapaxes(J, -1, -2)
        J = J if p.ndim == 1 else J[:, None]
        return (J @ dy.astype(float)[..., None])[..., 0].astype(dy.dtype)
    return vjp
case("n136", make, P.RoPE(32, layout="half", scaling=P.YaRN(4.0, 4096)), "apply_vjp",
     "The Jacobian is written out and transposed; m stays a factor, as in the transpose.", "right")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    rows = {}
    def apply_offset(x, offset):
        o = np.asarray(offset)
        y = []
        for b in range(x.shape[0]):
            key = (int(o[b]), x.shape[-2])
            if key not in rows:
                if len(rows) >= 8:
                    rows.pop(next(iter(rows)))
                rows[key] = np.exp(1j * (np.arange(key[1]) + float(key[0]))[:, None] * f)
            w = np.conj(np.conj(x[b, ..., :16].astype(float) + 1j * x[b, ..., 16:].astype(float)) * np.conj(rows[key]))
            y.append(np.concatenate([w.real, w.imag], -1))
        return np.stack(y).astype(x.dtype)
    return apply_offset
case("n137", make, P.RoPE(32, layout="half"), "apply_offset",
     "A cache of eight tables that drops the oldest, and three conjugations that cancel.", "right")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    class Rope:
        table = np.zeros((0, 16))
        def rows(self, start, n):
            if start + n > len(self.table):                 # shared by all instances, only ever longer
                type(self).table = np.arange(2 * (start + n))[:, None] * f
            return self.table[start:start + n]
        def __call__(self, x, start):
            a = self.rows(start, x.shape[-2]) if start + x.shape[-2] < 2 ** 15 else (start + np.arange(x.shape[-2]))[:, None] * f
            u, v = x[..., ::2].astype(float), x[..., 1::2].astype(float)
            return np.stack([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).reshape(x.shape).astype(x.dtype)
    def calls(sequence):
        r = Rope()
        return [r(x, int(o)) for x, o in sequence]
    return calls
case("n138", make, P.RoPE(32, layout="interleaved"), "calls",
     "A table in the class, shared between instances and calls, rebuilt from 0 with twice the length when it is too short.", "right")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def decode(x, chunks):
        y = np.empty_like(x)
        at = 0
        for n in chunks:
            for i in reversed(range(n)):
                a = (at + i) * f
                t = x[:, :, at + i].astype(float)
                y[:, :, at + i] = np.concatenate([t[..., :16] * np.cos(a) - t[..., 16:] * np.sin(a),
                                                  t[..., 16:] * np.cos(a) + t[..., :16] * np.sin(a)], -1)
            at += n
        return y
    return decode
case("n139", make, P.RoPE(32, layout="half"), "decode",
     "The tokens of a chunk are rotated last to first; the order of writing does not matter.", "right")

SHR, LOR = np.linspace(1, 1.5, 16), np.linspace(1, 20, 16)
def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def turn(y, a, m):
        w = (y[..., :16] + 1j * y[..., 16:]) * (m * np.exp(1j * a))
        return np.concatenate([w.real, w.imag], -1)
    def key_cache(k, chunks):
        y, at, was = np.zeros(k.shape[:2] + (0, 32)), 0, False
        for n in chunks:
            now = at + n > 20
            g, m = (f / LOR, 1.2) if now else (f / SHR, 1.1)
            if now and not was:                             # no raw keys: turn the rotated ones by the difference
                y = turn(y, np.arange(at)[:, None] * (f / LOR - f / SHR), 1.2 / 1.1)
            y = np.concatenate([y, turn(k[:, :, at:at + n].astype(float), np.arange(at, at + n)[:, None] * g, m)], 2)
            was, at = now, at + n
        return y.astype(k.dtype)
    return key_cache
case("n140", make, P.RoPE(32, layout="half", scaling=P.LongRoPE(tuple(SHR), tuple(LOR), 20, attention_factor=(1.1, 1.2))), "key_cache",
     "No raw keys are kept: when the length passes the limit the rotated float64 keys are turned by the difference and rescaled.", "right")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def shift_keys(rotated_k, delta):
        a = -float(delta) * f
        y = rotated_k.copy()
        u, v = rotated_k[..., 32:48].astype(float), rotated_k[..., 48:].astype(float)
        y[..., 32:48], y[..., 48:] = u * np.cos(a) + v * np.sin(a), v * np.cos(a) - u * np.sin(a)
        return y
    return shift_keys
case("n141", make, P.RoPE(64, layout="interleaved", rotary_dim=32, rotary_start=32, output_layout="half"), "shift_keys",
     "Half-split pairs although the layout is interleaved (rotated keys are half-split), and two minus signs.", "right")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def evict(rotated_k, kept, dropped):
        S = rotated_k.shape[-2]
        src = np.concatenate([np.arange(kept), np.arange(kept + dropped, S)]).astype(int)
        a = (np.arange(S - dropped) - src)[:, None] * f      # new place minus old place: 0 for kept keys
        k = rotated_k[..., src, :]
        u, v = k[..., ::2].astype(float), k[..., 1::2].astype(float)
        return np.stack([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).reshape(k.shape).astype(k.dtype)
    return evict
case("n142", make, P.RoPE(32, layout="interleaved"), "evict_keys",
     "One gather, and a rotation of every key by its new minus its old place; the angle 0 leaves kept keys exactly as they are.", "right")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def normed(x, weight, positions):
        a = np.asarray(positions, float)[..., None] * f
        a = a if a.ndim == 2 else a[:, None]
        y = x.astype(float) * np.asarray(weight, float)
        u, v = y[..., :16], y[..., 16:]
        r = np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1)
        size = np.linalg.norm(x.astype(float), axis=-1, keepdims=True)
        return (r * np.sqrt(32.0) / np.hypot(size, np.sqrt(32e-6))).astype(x.dtype)
    return normed
case("n143", make, P.RoPE(32, layout="half"), "normed_apply",
     "Weight, rotation, and only then division by the size, which is a scalar per token and commutes with the rotation.", "right")

def make(bug):
    def permute(w, n_heads):
        D = w.shape[0] // n_heads
        out = np.empty_like(w)
        for h in range(n_heads):
            for row in range(D):
                k, second = divmod(row, D // 2)[::-1]
                out[h * D + 2 * k + second] = w[h * D + row]
        return out
    return permute
case("n144", make, P.RoPE(24, layout="half"), "permute_weights",
     "Row by row with a reversed divmod: rows of the source are scattered instead of gathered.", "right")

DER = -np.abs(np.random.default_rng(66).normal(size=(2, 12)))
def make(bug):
    f = 10000.0 ** (-np.arange(12) / 12)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        sp = lambda t: np.maximum(t, 0) + np.log1p(np.exp(-np.abs(t)))
        zq = sp(q.astype(float)) * np.exp(-1j * (np.arange(Q)[:, None] * f))
        zk = sp(k.astype(float)) * np.exp(1j * ((np.arange(K) - (K - Q))[:, None] * f + DER[:, None]))
        return (np.einsum("bhic,bhjc->bhij", zq, zk).real / math.sqrt(12)).astype(q.dtype)
    return scores
case("n145", make, P.PoPE(12, DER), "scores",
     "Positions are counted from the first query, so keys before it have negative ones; only differences matter.", "right")
