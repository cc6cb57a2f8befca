import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

rng = np.random.default_rng(81)
def om(half, base=10000.0): return base ** (-np.arange(half) / half)
def rel(q, k): return np.arange(k)[None, :] - (np.arange(q) + (k - q))[:, None]
def inter(p, half):
    a = np.asarray(p, float)[..., None] * om(half)
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(a.shape[:-1] + (2 * half,))

def make(bug):
    t = inter(np.arange(512), 16)
    def add(x):
        S = x.shape[1]
        pe = t[np.minimum(np.arange(S), 511)] if bug or S <= 512 else inter(np.arange(S), 16)
        return (x + pe).astype(x.dtype)
    return add
case("o138", make, P.Sinusoidal(32), "add", "the kept table has 512 rows and longer inputs repeat its last row", "clamped-to-table", "compute rows beyond the table")

def make(bug):
    t = np.complex64 if bug else np.complex128
    def rows(n):
        step = np.exp(1j * om(16)).astype(t); z = np.ones(16, t); out = np.empty((n, 32), np.float32)
        for i in range(n):
            out[i, :16], out[i, 16:] = z.imag, z.real
            z = z * step
        return out
    return rows
case("o139", make, P.Sinusoidal(32, layout="concat"), "rows", "rows come from a complex64 recurrence, whose error grows with the position", "complex64-recurrence", "complex128")

def make(bug):
    def table(p):
        p = np.asarray(p)
        return inter(p.astype(np.int64) if bug else p, 20).astype(np.float32)
    return table
case("o140", make, P.Sinusoidal(40), "table", "positions are cast to integers, so fractional ones lose their fraction", "integer-cast", "keep fractions")

def make(bug):
    def table(p):
        p = np.asarray(p, float); q = np.mod(p, 65536.0) if bug else p
        return inter(q, 20)
    return table
case("o141", make, P.Sinusoidal(40), "table", "positions are taken modulo 65536, as if in uint16", "uint16-positions", "no modulus")

TB = rng.standard_normal((32, 6)).astype(np.float32)
ENC = P.T5Bias(TB)
def starts(nb, md):
    me = nb // 2; s = nb - me; out = list(range(1, me + 1)); n = me
    for t in range(1, s):
        while n ** s < md ** t * me ** (s - t): n += 1
        out.append(n)
    return np.array(out)
BI = starts(16, 128)
def bucket(r): return np.searchsorted(BI, np.abs(r), side="right") + 16 * (r > 0)

def make(bug):
    def bias(q, k):
        if q == 1:
            r = np.arange(k) - (k if bug else k - 1)
            return TB[bucket(r)].T[:, None, :]
        return np.moveaxis(TB[bucket(rel(q, k))], -1, 0)
    return bias
case("o142", make, ENC, "bias", "the fast path of one query puts the query at k_len instead of k_len - 1", "decode-off-by-one", "k_len - 1")

def make(bug):
    T = TB.reshape(6, 32) if bug else TB.T
    return lambda q, k: np.stack([row[bucket(rel(q, k))] for row in T])
case("o143", make, ENC, "bias", "the table (buckets, heads) is reshaped to (heads, buckets) instead of transposed", "table-reshaped", "transpose")

R1, R2 = np.array([0.7, 1.3, 0.2]), np.array([0.5, 1.7, 0.05])
def make(bug):
    def bias(q, k):
        d = np.abs(rel(q, k)).astype(np.float16 if bug else np.float32).astype(float)
        return -R1[:, None, None] * np.log1p(R2[:, None, None] * d)
    return bias
case("o144", make, P.Kerple(R1, R2, causal=False), "bias", "distances are stored in float16, exact up to 2048 only", "float16-distance", "float32 distances")

FH, FB, FO = rng.standard_normal((12, 1)), rng.standard_normal(12) * 0.3, rng.standard_normal((3, 12))
def make(bug):
    kept = {}
    def bias(q, k):
        i = np.arange(k - q, k)[:, None].astype(float)
        key = q if bug else (q, k)
        if key not in kept: kept[key] = np.log1p(0.5 * np.maximum(i, 30.0)) + 1e-6
        x = np.log1p(0.5 * np.maximum(i - np.arange(k), 0)) / kept[key]
        return np.moveaxis(np.maximum(x[..., None] * FH[:, 0] + FB, 0) @ FO.T, -1, 0)
    return bias
case("o145", make, P.FIRE(FH, FB, FO, c=0.5, length=30.0), "bias", "normalisers are kept under q_len alone: later decode steps use that of the first", "normaliser-key", "keep them under (q_len, k_len)")

def make(bug):
    lut = np.searchsorted(BI, np.arange(64 if bug else 128), side="right")
    def f(r):
        r = np.asarray(r).astype(np.int64)
        return lut[np.minimum(np.abs(r), len(lut) - 1)] + (r > 0) * 16
    return f
case("o146", make, ENC, "bucket", "the lookup table has 64 distances, so the bucket that begins at 91 is never reached", "lut-too-short", "max_distance entries")

UN = starts(32, 128)
def make(bug):
    def f(r):
        r = np.asarray(r).astype(np.int64)
        n = np.abs(r) if bug else np.where(r < 0, -r, 0)
        return (n[..., None] >= UN).sum(-1)
    return f
case("o147", make, P.T5Bias(TB, bidirectional=False), "bucket", "later keys get the bucket of their distance instead of bucket 0", "abs-in-decoder", "max(-r, 0)")

def make(bug):
    def f(n):
        c = 2 ** int(math.log2(n))
        if bug: c = max(c, 2)
        a = 2.0 ** (-8.0 * np.arange(1, c + 1) / c); b = 2.0 ** (-4.0 * np.arange(1, 2 * c + 1, 2) / c)
        return np.concatenate([a, b])[:n]
    return f
case("o148", make, P.ALiBi(8), "slopes", "the largest power of two is at least 2, so one head gets 2**-4 instead of 2**-8", "one-head", "c = 1 for one head")

def S(n):
    c = 2 ** int(math.log2(n))
    return np.concatenate([2.0 ** (-8.0 * np.arange(1, c + 1) / c), 2.0 ** (-4.0 * np.arange(1, 2 * c + 1, 2) / c)])[:n]
def make(bug):
    kept = {}
    def f(n, tp, r):
        key = (n, tp) if bug else (n, tp, r)
        if key not in kept: kept[key] = np.split(S(n), tp)[r]
        return kept[key]
    return f
case("o149", make, P.ALiBi(8), "rank_slopes", "slopes are kept under (num_heads, tp_size): a second rank in the same process gets those of the first", "key-without-rank", "the rank in the key")

def make(bug):
    def grid(height, width):
        n = max(height, width)
        y = (np.arange(height) + 1.0) / ((n if bug else height) + 1e-6) * 2 * np.pi
        x = (np.arange(width) + 1.0) / ((n if bug else width) + 1e-6) * 2 * np.pi
        ey, ex = inter(y, 6), inter(x, 6)
        return np.concatenate([np.repeat(ey, width, 0), np.tile(ex, (height, 1))], 1)
    return grid
case("o150", make, P.DETRSine(24), "grid", "both axes are normalised by the longer side of the image", "normalise-longer-side", "each axis by its own size")

WS, BS = rng.standard_normal((5, 1, 7)), rng.standard_normal(5)
CV = P.ConvPositions((WS,), (BS,), groups=5, activation="silu")
def silu(x): return x / (1 + np.exp(-x))
def make(bug):
    def f(x):
        B, n, C = x.shape; y = np.zeros((B, n, C))
        for b in range(B):
            for c in range(C):
                v = x[b, :, c].astype(float)
                if bug: y[b, :, c] = np.convolve(v, WS[c, 0, ::-1], "same")[:n]
                else: y[b, :, c] = np.convolve(v, WS[c, 0, ::-1], "full")[3:3 + n]
        return silu(y + BS).astype(x.dtype)
    return f
case("o151", make, CV, "convolve", "np.convolve(mode='same') returns the length of the longer argument, so inputs shorter than the kernel are shifted", "numpy-same-short", "cut the full convolution")

WG, BG = rng.standard_normal((6, 1, 3, 3)), rng.standard_normal(6)
def make(bug):
    buf = [np.zeros((0, 0, 0, 0))]
    def f(x, height, width):
        B, N, C = x.shape; v = x.astype(float).reshape(B, height, width, C)
        if bug:
            need = (B, height + 2, width + 2)
            if any(a > b for a, b in zip(need, buf[0].shape)): buf[0] = np.zeros(tuple(max(a, b) for a, b in zip(need, buf[0].shape)) + (C,))
            p = buf[0][:B, : height + 2, : width + 2]
        else: p = np.zeros((B, height + 2, width + 2, C))
        p[:, 1:-1, 1:-1] = v
        y = BG + sum(p[:, a:a + height, c:c + width] * WG[:, 0, a, c] for a in range(3) for c in range(3))
        return (y + v).reshape(B, N, C).astype(x.dtype)
    return f
case("o152", make, P.ConvPositions((WG,), (BG,), groups=6, activation="none", residual=True), "convolve_grid", "the padded buffer is kept between calls: after a larger image the border of a smaller one holds its old patches", "stale-halo", "zero the border in every call")

def make(bug):
    def index(window):
        h, w = window; sep = "" if bug else ","; names = {}
        pts = [(i // w, i % w) for i in range(h * w)]
        return np.array([[names.setdefault(f"{a - c + h}{sep}{b - d + w}", len(names)) for c, d in pts] for a, b in pts])
    return index
case("o153", make, None, "relative_index", "offsets are named by two numbers without a separator: (1, 11) and (11, 1) share a name", "names-collide", "a separator")

# ---- right
def make(bug):
    def add(x):
        B, n, D = x.shape; out = np.empty_like(x)
        for s in range(0, n, 13):
            e = min(n, s + 13)
            pe = inter(np.arange(s, e), D // 2)
            for b in range(B): out[b, s:e] = x[b, s:e].astype(float) + pe
        return out
    return add
case("o154", make, P.Sinusoidal(24), "add", "tiles of 13 tokens, each row of the batch by itself, rounded on assignment", "right")

def make(bug):
    m = S(12)
    def bias(q, k):
        # key form: the constant m*(k_len - 1) for each query does not matter to softmax
        return m[:, None, None] * (np.cumsum(np.ones((1, 1, k)), -1) - k)
    return bias
case("o155", make, P.ALiBi(12), "bias", "the form m_h (j + 1 - k_len), the same for all queries, by a cumulative sum; it differs from -m|i-j| by a constant per query", "right")

def make(bug):
    def bias(q, k):
        r = np.arange(-(k - 1), q)
        line = np.ascontiguousarray(TB[bucket(r)].T)
        out = np.lib.stride_tricks.sliding_window_view(line, k, axis=1)[:, ::-1]
        return out[:, :q]
    return bias
case("o156", make, ENC, "bias", "a reversed sliding window over the offsets: a view with negative strides, without a copy", "right")

def make(bug):
    def bias(q, k):
        a = np.abs(rel(q, k))
        t = np.array([[-r1 * math.log1p(r2 * d) for d in range(k)] for r1, r2 in zip(R1, R2)])
        return t[:, a].astype(np.float32)
    return bias
case("o157", make, P.Kerple(R1, R2), "bias", "scalar logarithms of each distance below k_len, then a gather", "right")

ST = rng.standard_normal((5 * 9, 3)).astype(np.float32)
def make(bug):
    T = ST.reshape(5, 9, 3)[::-1, ::-1]
    win = np.lib.stride_tricks.sliding_window_view(T, (3, 5), axis=(0, 1))    # (3, 5, H, 3, 5)
    full = win[::-1, ::-1].transpose(2, 0, 1, 3, 4).reshape(3, 15, 15)
    return lambda q, k: full[:, k - q:k, :k]
case("o158", make, P.SwinBias(ST, window=(3, 5)), "bias", "windows slide over the table reversed on both axes, then run backwards", "right")

def make(bug):
    def f(n, tp, r):
        m = n // tp; c = 1 << (n.bit_length() - 1)
        h = np.arange(r * m, (r + 1) * m)
        e = np.where(h < c, h + 1, h - c + 0.5) / c
        return np.exp2(-8 * e)
    return f
case("o159", make, P.ALiBi(12), "rank_slopes", "one formula for all heads: the exponent of the extra heads is (h - c + 1/2)/c", "right")

def make(bug):
    w6, b6 = WS[:, 0], BS
    def f(x):
        B, n, C = x.shape; ring = np.zeros((B, 7, C)); out = np.empty((B, n, C))
        for t in range(n + 3):
            ring[:, t % 7] = x[:, t].astype(float) if t < n else 0.0
            if t >= 3:
                order = [(t - 6 + i) % 7 for i in range(7)]
                out[:, t - 3] = np.einsum("bkc,ck->bc", ring[:, order], w6) + b6
        return silu(out).astype(x.dtype)
    return f
case("o160", make, CV, "convolve", "a streaming form with a ring buffer of 7 tokens that starts with zeros and is flushed with zeros", "right")

def make(bug):
    def table(p):
        x = np.moveaxis(np.asarray(p, float), 0, -1); s, c = np.sin(x), np.cos(x); cols = []
        for _ in range(5):
            cols += [s, c]
            s, c = 2 * s * c, (c - s) * (c + s)
        return np.concatenate(cols, -1).astype(np.float32)
    return table
case("o161", make, P.FourierFeatures.nerf(5, num_axes=2, unit="radian", include_input=False), "table", "octaves come from the double-angle formulas in float64", "right")
