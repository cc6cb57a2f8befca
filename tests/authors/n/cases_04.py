import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

# ---- apply_qk, apply_vjp, apply_offset -------------------------------------------------------

def angles(p, f):
    """(B or nothing, 1, S, P)"""
    a = np.asarray(p, np.float64)[..., None] * f
    return a[:, None] if a.ndim == 3 else a

def half(x, c, s):
    n = c.shape[-1]
    u, v = x[..., :n].astype(np.float64), x[..., n:2 * n].astype(np.float64)
    return np.concatenate([(u * c - v * s).astype(x.dtype), (v * c + u * s).astype(x.dtype), x[..., 2 * n:]], -1)

def inter(x, c, s):
    n = c.shape[-1]
    u, v = x[..., :2 * n:2].astype(np.float64), x[..., 1:2 * n:2].astype(np.float64)
    y = np.array(x)
    y[..., :2 * n:2], y[..., 1:2 * n:2] = u * c - v * s, v * c + u * s
    return y

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def one(x, p, halves):
        a = angles(p, f)
        c, s = np.cos(a), np.sin(a)
        pe = x[..., 32:].astype(float)
        y1, y2 = pe[..., ::2] * c - pe[..., 1::2] * s, pe[..., 1::2] * c + pe[..., ::2] * s
        y = np.concatenate([y1, y2], -1) if halves else np.stack([y1, y2], -1).reshape(pe.shape)
        return np.concatenate([x[..., :32], y.astype(x.dtype)], -1)
    def apply_qk(q, k, q_positions, k_positions):
        return one(q, q_positions, True), one(k, k_positions, not bug)
    return apply_qk
case("n057", make, P.RoPE(64, layout="interleaved", rotary_dim=32, rotary_start=32, output_layout="half"), "apply_qk",
     "Queries are written in half-split order as declared, keys stay interleaved.",
     "key-output-layout", "same output layout for both")

def make(bug):
    f = 10000.0 ** (-np.arange(32) / 32)
    def apply_qk(q, k, q_positions, k_positions):
        a = angles(q_positions, f)
        c, s = np.cos(a), np.sin(a)
        q2 = half(q, c, s)
        if not (bug and q.shape == k.shape):
            a = angles(k_positions, f)
            c, s = np.cos(a), np.sin(a)
        return q2, half(k, c, s)
    return apply_qk
case("n058", make, P.RoPE(64, layout="half"), "apply_qk",
     "If q and k have equal shapes the tables of q are used for k too, though k_positions differ.",
     "tables-shared-by-shape", "compare the positions, or compute both")

def make(bug):
    d, gamma, sb = 32, 0.4, 512.0
    f = 10000.0 ** (-np.arange(16) / 16)
    zeta = (np.arange(0, d, 2) + gamma * d) / ((1 + gamma) * d)
    def one(x, p, power):
        a = angles(p, f)
        n = np.asarray(p, float)
        n = (n[:, None] if n.ndim == 2 else n)[..., None] * power / sb
        size = zeta ** n
        full = np.concatenate([size, size], -1) if bug else np.repeat(size, 2, -1)
        w = x.astype(np.float64)
        c, s = np.repeat(np.cos(a), 2, -1), np.repeat(np.sin(a), 2, -1)
        rot = np.stack([-w[..., 1::2], w[..., ::2]], -1).reshape(w.shape)
        return ((w * c + rot * s) * full).astype(x.dtype)
    def apply_qk(q, k, q_positions, k_positions):
        return one(q, q_positions, 1), one(k, k_positions, -1)
    return apply_qk
case("n059", make, P.XPos(32, layout="interleaved"), "apply_qk",
     "xPos: rotation is interleaved but the decays are doubled by concatenation, so channels get decays of other pairs.",
     "xpos-scale-concat", "repeat each decay twice")

def make(bug):
    d, gamma, sb = 64, 0.4, 256.0
    f = 10000.0 ** (-np.arange(32) / 32)
    zeta = (2 * np.arange(32) / d + gamma) / (1 + gamma)
    def one(x, p, power):
        p = np.asarray(p)
        n = p // 256 if bug else p / sb
        n = n[:, None, :, None] if n.ndim == 2 else n[:, None]
        a = angles(p, f)
        return half(x, np.cos(a) * zeta ** (power * n), np.sin(a) * zeta ** (power * n))
    def apply_qk(q, k, q_positions, k_positions):
        return one(q, q_positions, 1.0), one(k, k_positions, -1.0)
    return apply_qk
case("n060", make, P.XPos(64, layout="half", scale_base=256.0), "apply_qk",
     "xPos: the exponent is the position divided by scale_base in integer arithmetic, so the decay changes in steps of 256.",
     "xpos-floor-exponent", "true division")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    zeta = (np.arange(16) / 16 + 0.5) / (1.4 if bug else 1.5)
    def one(x, p, power):
        a = angles(p, f)
        n = (np.asarray(p, float) - 100.0) / 512
        n = n[:, None, :, None] if n.ndim == 2 else n[:, None]
        z = np.exp(power * n * np.log(zeta) + 1j * a)
        return half(x, z.real, z.imag)
    def apply_qk(q, k, q_positions, k_positions):
        return one(q, q_positions, 1), one(k, k_positions, -1)
    return apply_qk
case("n061", make, P.XPos(32, layout="half", gamma=0.5, centre=100.0), "apply_qk",
     "xPos: the denominator 1.4 = 1 + 0.4 is hard-coded although gamma is 0.5.",
     "xpos-hard-coded-denominator", "1 + gamma")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    zeta = (np.arange(16) / 16 + 0.4) / 1.4
    def one(x, p, power):
        a = angles(p, f)
        n = np.asarray(p, float)
        n = (n[:, None] if n.ndim == 2 else n)[..., None] / 512
        size = zeta ** (power * n)
        if bug and power < 0:                   # "k / scale", but scale multiplies cos only
            return inter(x, np.cos(a) * size, np.sin(a) / size)
        return inter(x, np.cos(a) * size, np.sin(a) * size)
    def apply_qk(q, k, q_positions, k_positions):
        return one(q, q_positions, 1), one(k, k_positions, -1)
    return apply_qk
case("n062", make, P.XPos(32, layout="interleaved"), "apply_qk",
     "xPos keys: cos gets the inverse decay, sin the decay of queries.",
     "xpos-key-sin-scale", "the inverse for both")

def make(bug):
    f = 500000.0 ** (-np.arange(16) / 16)
    def apply_qk(q, k, q_positions, k_positions):
        B = q.shape[0]
        if q.shape != k.shape:
            return (half(q, *(t(angles(q_positions, f)) for t in (np.cos, np.sin))),
                    half(k, *(t(angles(k_positions, f)) for t in (np.cos, np.sin))))
        qp, kp = np.asarray(q_positions, float), np.asarray(k_positions, float)
        both = np.concatenate([q, k])                       # one launch for both
        if qp.ndim == 1 and kp.ndim == 1:
            p = np.stack([qp, kp])
            p = np.tile(p, (B, 1)) if bug else np.repeat(p, B, 0)
        else:
            p = np.concatenate([np.broadcast_to(t, (B, q.shape[2])) for t in (qp, kp)])
        a = angles(p, f)
        y = half(both, np.cos(a), np.sin(a))
        return y[:B], y[B:]
    return apply_qk
case("n063", make, P.RoPE(32, layout="half", base=500000.0), "apply_qk",
     "q and k are stacked on the batch axis, but positions alternate (tile) instead of coming in two blocks (repeat); needs B > 1.",
     "stacked-tile-repeat", "np.repeat(p, B, 0)")

def make(bug):
    L0, s, d = 2048, 8.0, 64
    c = lambda r: d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(10000.0))
    lo, hi = math.floor(c(32)), math.ceil(c(1))
    t = np.clip((np.arange(32) - lo) / (hi - lo), 0, 1)
    f = 10000.0 ** (-np.arange(32) / 32) * (1 - t + t / s)
    m = 0.1 * math.log(s) + 1
    def apply_qk(q, k, q_positions, k_positions):
        a, b = angles(q_positions, f), angles(k_positions, f)
        mq, mk = (1.0, m * m) if bug else (m, m)
        return half(q, mq * np.cos(a), mq * np.sin(a)), half(k, mk * np.cos(b), mk * np.sin(b))
    return apply_qk
case("n064", make, P.RoPE(64, layout="half", scaling=P.YaRN(8.0, 2048)), "apply_qk",
     "The attention factor is folded into the keys (m squared) and left out of the queries; logits agree, the vectors do not.",
     "factor-folded-into-keys", "m on both")

def make(bug):
    f = 10000.0 ** (-np.arange(8) / 8)
    def apply_qk(q, k, q_positions, k_positions):
        a, b = angles(q_positions, f), angles(k_positions, f)
        q2 = inter(q, np.cos(a), np.sin(a))
        k2 = k if bug else k.copy()
        e, o = k[..., ::2].astype(float), k[..., 1::2].astype(float)
        k2[..., ::2] = e * np.cos(b) - o * np.sin(b)
        k2[..., 1::2] = o * np.cos(b) + e * np.sin(b)
        return q2, k2
    return apply_qk
case("n065", make, P.RoPE(16, layout="interleaved"), "apply_qk",
     "Keys are rotated in place: the caller's k is overwritten.",
     "key-in-place", "copy k")

def make(bug):
    s, L0, d = 4.0, 4096, 32
    c = lambda r: d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(10000.0))
    lo, hi = max(math.floor(c(32)), 0), math.ceil(c(1))
    t = np.clip((np.arange(16) - lo) / (hi - lo), 0, 1)
    f = 10000.0 ** (-np.arange(16) / 16) * (1 - t + t / s)
    m = 0.1 * math.log(s) + 1
    def vjp(x, positions, dy):
        a = angles(positions, f)
        g = 1 / m if bug else m
        return half(dy, g * np.cos(a), -g * np.sin(a))
    return vjp
case("n066", make, P.RoPE(32, layout="half", scaling=P.YaRN(4.0, 4096)), "apply_vjp",
     "The backward pass undoes the rotation (divides by m) where the transpose multiplies by m.",
     "inverse-for-transpose", "m R(-p)")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def vjp(x, positions, dy):
        a = angles(positions, f)
        c, s = np.cos(a), np.sin(a)
        g = dy.astype(float)
        g1, g2 = (g[..., ::2], g[..., 1::2]) if bug else (g[..., :16], g[..., 16:])
        return np.stack([g1 * c + g2 * s, g2 * c - g1 * s], -1).reshape(dy.shape).astype(dy.dtype)
    return vjp
case("n067", make, P.RoPE(32, layout="interleaved", output_layout="half"), "apply_vjp",
     "The forward pass writes half-split pairs, but the backward pass reads dy as interleaved.",
     "vjp-reads-input-layout", "read dy in the output layout")

def make(bug):
    f = 10000.0 ** (-np.arange(8) / 8)
    def vjp(x, positions, dy):
        a = angles(positions, f)
        dx = np.zeros_like(dy) if bug else dy.copy()
        g1, g2 = dy[..., :8].astype(float), dy[..., 8:16].astype(float)
        dx[..., :8] = g1 * np.cos(a) + g2 * np.sin(a)
        dx[..., 8:16] = g2 * np.cos(a) - g1 * np.sin(a)
        return dx
    return vjp
case("n068", make, P.RoPE(40, layout="half", rotary_dim=16), "apply_vjp",
     "Gradients of the channels that pass through are left at zero.",
     "vjp-passthrough-zero", "copy dy there")

def make(bug):
    saved = {}
    f = 10000.0 ** (-np.arange(16) / 16)
    def vjp(x, positions, dy):
        p = np.asarray(positions)
        key = x.shape if bug else (p.shape, str(p.dtype), p.tobytes())
        if key not in saved:
            saved[key] = angles(p, f)
        a = saved[key]
        return inter(dy, np.cos(a), -np.sin(a))
    return vjp
case("n069", make, P.RoPE(32, layout="interleaved"), "apply_vjp",
     "The backward pass takes the angles saved by the first call with x of this shape, whatever the positions are now.",
     "vjp-stale-context", "save them with the positions")

def make(bug):
    W = np.random.default_rng(31).normal(size=(2, 2, 6))
    def vjp(x, positions, dy):
        p = np.asarray(positions, float)
        p = np.broadcast_to(p, (2,) + p.shape[-1:]) if p.ndim == 1 else p
        p = p[:, None] if p.ndim == 2 else p
        dx = np.empty_like(dy)
        for h in range(2):
            w = W[0 if bug else h]
            a = p[0][..., None] * w[0] + p[1][..., None] * w[1]
            g1, g2 = dy[:, h, :, :6].astype(float), dy[:, h, :, 6:].astype(float)
            dx[:, h, :, :6] = g1 * np.cos(a) + g2 * np.sin(a)
            dx[:, h, :, 6:] = g2 * np.cos(a) - g1 * np.sin(a)
        return dx
    return vjp
case("n070", make, P.MixedRoPE(12, np.random.default_rng(31).normal(size=(2, 2, 6)), layout="half"), "apply_vjp",
     "In the backward pass every head uses the frequencies of head 0.",
     "vjp-first-head", "weight[h]")

SHORT, LONG = tuple(np.linspace(1, 1.5, 16)), tuple(np.linspace(1, 30, 16))
def make(bug):
    def vjp(x, positions, dy):
        p = np.asarray(positions, float)
        n = x.shape[-2] if bug else int(p.max()) + 1
        f = 10000.0 ** (-np.arange(16) / 16) / np.array(LONG if n > 1024 else SHORT)
        m = math.sqrt(1 + math.log(8) / math.log(1024))
        a = angles(p, f)
        return half(dy, m * np.cos(a), -m * np.sin(a))
    return vjp
case("n071", make, P.RoPE(32, layout="half", scaling=P.LongRoPE(SHORT, LONG, 1024, factor=8.0)), "apply_vjp",
     "The backward pass picks LongRoPE's list by the number of tokens in the call, the forward pass by the largest position.",
     "vjp-length-by-count", "largest position plus one")

def make(bug):
    f = 10000.0 ** (-np.arange(32) / 32)
    N = 4096
    T = np.arange(N)[:, None] * f
    def apply_offset(x, offset):
        nonlocal T
        S = x.shape[-2]
        o = np.asarray(offset, np.int64)
        rows = []
        for b in o.tolist():
            if bug:
                start = max(0, min(b, N - S))               # dynamic_slice clamps the start
                rows.append(T[start:start + S] if S <= N else np.arange(S)[:, None] * f)
            else:
                rows.append(np.arange(b, b + S)[:, None] * f)
        a = np.stack(rows)[:, None]
        return half(x, np.cos(a), np.sin(a))
    return apply_offset
case("n072", make, P.RoPE(64, layout="half"), "apply_offset",
     "Rows of a table of 4096 are sliced with a start that is clamped so that the slice fits, so later offsets are moved back.",
     "dynamic-slice-clamps", "compute, or enlarge the table")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def apply_offset(x, offset):
        o = np.asarray(offset).ravel()
        order = np.argsort(o, kind="stable")
        parts = []
        for b in order:                                     # rows with equal offsets next to each other
            a = (o[b] + np.arange(x.shape[-2], dtype=float))[:, None] * f
            parts.append(inter(x[b], np.cos(a), np.sin(a)))
        y = np.stack(parts)
        return y if bug else y[np.argsort(order)]
    return apply_offset
case("n073", make, P.RoPE(32, layout="interleaved"), "apply_offset",
     "Rows are processed in the order of their offsets and returned in that order.",
     "rows-left-sorted", "undo the sorting")

def make(bug):
    s = 8.0
    L0, d = 2048, 32
    c = lambda r: d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(10000.0))
    lo, hi = max(math.floor(c(32)), 0), math.ceil(c(1))
    t = np.clip((np.arange(16) - lo) / (hi - lo), 0, 1)
    f = 10000.0 ** (-np.arange(16) / 16) * (1 - t + t / s)
    m = 0.1 * math.log(s) + 1
    def apply_offset(x, offset):
        start = m * np.exp(1j * np.asarray(offset, float)[:, None, None, None] * f)
        step = np.exp(1j * np.arange(x.shape[-2])[:, None] * f)
        if bug:
            step = m * step
        z = start * step
        return half(x, z.real, z.imag)
    return apply_offset
case("n074", make, P.RoPE(32, layout="half", scaling=P.YaRN(8.0, 2048)), "apply_offset",
     "The rotation is split into offset and step, and the factor m is in both, so m squared is applied.",
     "factor-twice", "m in one of them")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def apply_offset(x, offset):
        S = x.shape[-2]
        o = np.asarray(offset, float)
        if bug and S > 1:                                   # "prefill"
            o = np.zeros_like(o)
        a = (o[:, None] + np.arange(S))[:, None, :, None] * f
        return half(x, np.cos(a), np.sin(a))
    return apply_offset
case("n075", make, P.RoPE(32, layout="half"), "apply_offset",
     "More than one token counts as the prompt and starts at 0: chunked prefill with an offset is wrong, single tokens are right.",
     "prefill-ignores-offset", "use the offset always")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def apply_offset(x, offset):
        B, H, S, D = x.shape
        o = np.asarray(offset, float)
        p = o[:, None] + np.arange(S)
        flat = x.transpose(0, 2, 1, 3).reshape(B * S, H, D)         # token-major, as paged kernels have it
        at = (p.T if bug else p).reshape(-1)
        a = at[:, None, None] * f
        y = half(flat, np.cos(a), np.sin(a))
        return y.reshape(B, S, H, D).transpose(0, 2, 1, 3)
    return apply_offset
case("n076", make, P.RoPE(32, layout="half"), "apply_offset",
     "Tokens are flattened row by row, their positions column by column (of the transposed matrix).",
     "flattened-transposed", "flatten both in the same order")
