import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

rng = np.random.default_rng(91)
def om(half, base=10000.0): return base ** (-np.arange(half) / half)
def inter(p, half):
    a = np.asarray(p, float)[..., None] * om(half)
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(a.shape[:-1] + (2 * half,))

RES = (0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 0, 1, 2, 5, 9, 10); ASY = (0,) * 6 + (1,) * 6 + (2,) * 6
ENT = (0,) * 12 + (1,) * 6; SYM = (0,) * 6 + (1,) * 6 + (0,) * 6; CYC = (0,) * 6 + (7,) * 6 + (0,) * 6
CW, CBI = rng.standard_normal((5, 8 + 1 + 6)), rng.standard_normal(5)
R, A, E, S_, C = map(np.array, (RES, ASY, ENT, SYM, CYC)); f2 = lambda v: v[:, None] - v[None]
KW = dict(residue_index=RES, asym_id=ASY, entity_id=ENT, sym_id=SYM, max_offset=3)
def chain(order_bug=False, high=6, cyc=None, lin=True, ent_from=None):
    d = f2(R)
    if cyc is not None:
        p = np.broadcast_to(cyc, d.shape); m = np.maximum(p, 1)
        d = np.where(p > 0, (d + m // 2) % m - m // 2, d)
    a = np.where(f2(A) == 0, np.clip(d + 3, 0, high), 7)
    ent = (f2(E) == 0) if ent_from is None else ent_from
    c = np.where(f2(E) == 0, np.clip(f2(S_) + 2, 0, 4), 5)
    eye = lambda n: np.eye(n)
    parts = [eye(8)[a], ent[..., None].astype(float), eye(6)[c]]
    if order_bug: parts = [parts[0], parts[2], parts[1]]
    out = np.concatenate(parts, -1) @ CW.T + (CBI if lin else 0)
    return np.moveaxis(out, -1, 0)
def cut(full, q, k): return full[:, k - q:k, :k]

def make(bug):
    full = chain(order_bug=bug)
    return lambda q, k: cut(full, q, k)
case("o162", make, P.ChainBias(CW, CBI, **KW), "bias", "the features are concatenated as residue, chain, same entity; the weight has same entity before chain", "feature-order", "residue, same entity, chain")

def make(bug):
    full = chain(high=7 if bug else 6)
    return lambda q, k: cut(full, q, k)
case("o163", make, P.ChainBias(CW, CBI, **KW), "bias", "offsets are clipped to 0 .. 2r + 1, so far residues of one chain share the bin of other chains", "clip-into-other-chain-bin", "clip to 2r")

def make(bug):
    full = chain(cyc=C[:, None])
    return lambda q, k: cut(full, q, k)
case("o164", make, P.ChainBias(CW, CBI, cyclic_period=CYC, **KW), "bias", "the period is that of token i, not j: the same within a chain, and other pairs do not use it; an odd period", "right")

def make(bug):
    full = chain(ent_from=(f2(E) == 0) & (f2(A) == 0) if bug else None)
    return lambda q, k: cut(full, q, k)
case("o165", make, P.ChainBias(CW, CBI, **KW), "bias", "the same-entity column is 1 for pairs of one chain only, not for copies of the chain", "entity-is-chain", "compare entity_id")

WL = rng.standard_normal((40, 16))
def make(bug):
    def table(p):
        t = np.stack([inter(p, 8), WL[np.asarray(p)]])
        return t.mean(0) if bug else t.sum(0)
    return table
case("o166", make, P.Hybrid((P.Sinusoidal(16), P.Learned(WL))), "table", "the parts are averaged instead of added", "mean-of-parts", "sum")

def make(bug):
    two_pi = float(np.float32(2 * np.pi)) if bug else None
    def table(p):
        a = np.asarray(p, float)[..., None] * om(24)
        if bug: a = a - np.round(a / two_pi) * two_pi
        return np.concatenate([np.sin(a), np.cos(a)], -1).astype(np.float32)
    return table
case("o167", make, P.Sinusoidal(48, layout="concat"), "table", "angles are reduced by multiples of 2 pi rounded to float32, an error of 1.7e-7 per turn", "reduction-float32-2pi", "no reduction, or 2 pi in float64")

def make(bug):
    def rows(n):
        m = -(-n // 8) * 8 if bug else n
        return inter(np.arange(m), 12)
    return rows
case("o168", make, P.Sinusoidal(24), "rows", "the number of rows is rounded up to a multiple of 8 and not cut again", "padded-to-eight", "cut to seq_len")

G = rng.standard_normal((6, 2))
def make(bug):
    def table(p):
        a = np.pi * np.einsum("pc,c...->...p", G, np.asarray(p, float))
        return np.stack([np.sin(a), np.cos(a)], -2 if bug else -1).reshape(a.shape[:-1] + (12,))
    return table
case("o169", make, P.FourierFeatures(G, unit="half-turn", layout="interleaved"), "table", "sine and cosine are stacked before the pairs' axis, so the reshape gives all sines first", "stack-axis", "stack on the last axis")

# resized: two-step history
W = np.round(rng.standard_normal((9, 5)) * 64).astype(np.float32)
def lin(W, m):
    k = len(W); c = np.maximum((np.arange(m) + 0.5) * k / m - 0.5, 0); j = c.astype(int); f = (c - j)[:, None]
    return W[j] * (1 - f) + W[np.minimum(j + 1, k - 1)] * f
def make(bug):
    def rows(n): return (lin(W.astype(float), n if bug else 36)[:n]).astype(np.float32)
    return rows
case("o170", make, P.Learned(P.resize_table(W, (9,), (36,), mode="bilinear")), "rows", "the table is resized to the length of the request, not to the length of the model", "resize-to-request", "resize to 36 rows, then cut")

def make(bug):
    def rows(n):
        g = lin(W.astype(float), 36)
        if not bug: return g.astype(np.float32)[:n]
        c = np.arange(36) * 8 / 35; j = np.minimum(c.astype(int), 7); f = (c - j)[:, None]
        return (W[j] * (1 - f) + W[j + 1] * f).astype(np.float32)[:n]
    return rows
case("o171", make, P.Learned(P.resize_table(W, (9,), (36,), mode="bilinear")), "rows", "the corners of old and new table are aligned (align_corners=True)", "align-corners", "half-pixel centres")

def make(bug):
    D = 20
    def add(x):
        a = np.arange(x.shape[1])[:, None] * om(D // 2)
        pe = np.concatenate([np.sin(a), np.cos(a)], 1)
        if bug: pe = pe.astype(np.float16)
        return x + pe.astype(x.dtype)
    return add
case("o172", make, P.Sinusoidal(20, layout="concat"), "add", "the table is kept in float16", "float16-table", "the dtype of x or wider")

def make(bug):
    def add(x):
        pe = inter(np.arange(x.shape[1] if not bug else x.shape[0]), x.shape[2] // 2)
        if bug: return (x + pe[:, None]).astype(x.dtype)
        return (x + pe[None]).astype(x.dtype)
    return add
case("o173", make, P.Sinusoidal(16), "add", "the first axis is taken as time, as with (S, B, dim) inputs: all tokens of batch row b get position b", "batch-as-time", "positions along axis 1")

WK, BK = rng.standard_normal((8, 4, 4)), rng.standard_normal(8)
def make(bug):
    def f(x):
        B, n, Cc = x.shape; m = n // 2
        v = np.pad(x.astype(float), ((0, 0), (2, 2), (0, 0))); y = np.zeros((B, m, 8))
        for t in range(m):
            for g in range(2):
                y[:, t, 4 * g:4 * g + 4] = np.einsum("bki,oik->bo", v[:, 2 * t:2 * t + 4, 4 * g:4 * g + 4], WK[4 * g:4 * g + 4])
        z = y if bug else y + BK
        e = np.vectorize(math.erf, otypes=[float])
        r = z * (1 + (e(z / math.sqrt(2)) if z.size else z)) / 2 + (BK if bug else 0)
        return r.astype(x.dtype)
    return f
case("o174", make, P.ConvPositions((WK,), (BK,), groups=2, stride=2), "convolve", "the bias of the convolution is added after the activation", "bias-after-gelu", "bias, then GELU")

BT = rng.standard_normal((5 * 7 + 3, 3))
def make(bug):
    h, w = 3, 4; n = len(BT)
    y, x = np.divmod(np.arange(h * w), w)
    row = (y * (2 * w - 1) + x); idx = row[:, None] - row + (h - 1) * (2 * w - 1) + w - 1
    full = np.pad(idx, ((1, 0), (1, 0)), constant_values=((n - 3, 0), (n - 2, 0)))
    full[0, 0] = n - 1
    full[0, 1:] = n - 3
    oh = np.eye(n)[full]
    b = np.einsum("ijn,nh->hij", oh, BT)
    return lambda q, k: b[:, k - q:k, :k]
case("o175", make, P.BEiTBias(BT, window=(3, 4)), "bias", "np.pad adds the [CLS] rows to the index and the lookup is a product with one-hot rows", "right")

def make(bug):
    def grid(height, width):
        m = np.ones((height, width), np.float32)
        y, x = m.cumsum(0), m.cumsum(1)                       # exact in float32
        y = (y - 0.5).astype(float) / (y[-1:].astype(float) + 1e-6) * (2 * math.pi)
        x = (x - 0.5).astype(float) / (x[:, -1:].astype(float) + 1e-6) * (2 * math.pi)
        t = np.repeat(om(6, 20.0), 2)
        ph = np.tile([0.0, math.pi / 2], 6)
        f = lambda c: np.sin(c.reshape(-1, 1) * t + ph)
        return np.concatenate([f(y), f(x)], 1).astype(np.float32)
    return grid
case("o176", make, P.DETRSine(24, base=20.0, shift=-0.5), "grid", "cosines are sines with a phase of pi/2, counts in float32", "right")
