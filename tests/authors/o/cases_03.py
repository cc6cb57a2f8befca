import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

rng = np.random.default_rng(31)
def sincos(p, half, n=None, base=10000.0):
    a = np.asarray(p, float)[..., None] * base ** (-np.arange(half) / (n or half))
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(a.shape[:-1] + (2 * half,))
G = rng.standard_normal((16, 2))
W2 = rng.standard_normal((40, 24)).astype(np.float32)
EH, EW = rng.standard_normal((9, 8)).astype(np.float32), rng.standard_normal((9, 8)).astype(np.float32)
T3 = tuple(rng.standard_normal((n, 6)).astype(np.float32) for n in (3, 4, 5))
SH, SW = rng.standard_normal((12, 10)).astype(np.float32), rng.standard_normal((16, 10)).astype(np.float32)

def make(bug):
    M = G.reshape(2, 16) if bug else G.T
    def table(p):
        a = 2 * np.pi * (np.moveaxis(np.asarray(p, float), 0, -1) @ M)
        return np.concatenate([np.cos(a), np.sin(a)], -1)
    return table
case("o035", make, P.FourierFeatures(G, unit="turn", first="cos"), "table", "the matrix (pairs, n) is reshaped to (n, pairs) instead of transposed", "reshape-for-transpose", "matrix.T")

def make(bug):
    def table(p):
        c = np.moveaxis(np.asarray(p, float), 0, -1)
        c = 2 * c - 0.5 if bug else 2 * c - 1
        a = c @ G.T * (2 * np.pi)
        return np.concatenate([np.sin(a), np.cos(a)], -1)
    return table
case("o036", make, P.FourierFeatures(G, unit="turn", position_scale=2.0, offset=-0.5), "table", "coordinates become 2v - 0.5 instead of 2v - 1 = 2 (v - 0.5): every angle has a constant phase", "half-not-doubled", "subtract 1")

def make(bug):
    def table(p):
        x = np.moveaxis(np.asarray(p, float), 0, -1)
        a = x[..., None, :] * (2.0 ** np.arange(6) * np.pi)[:, None]       # (..., L, 3)
        sc = np.stack([np.sin(a), np.cos(a)], -2)                           # (..., L, 2, 3)
        if bug: sc = np.moveaxis(sc, -1, -3)                                # (..., 3, L, 2)
        return np.concatenate([x, sc.reshape(x.shape[:-1] + (36,))], -1)
    return table
case("o037", make, P.FourierFeatures.nerf(6, include_input=True), "table", "columns are grouped by coordinate (x: all frequencies, then y, z), not by frequency", "grouped-by-coordinate", "keep the axis of coordinates last")

def make(bug):
    res = (32, 48); B = 6
    def table(p):
        f = [np.linspace(1.0, (res[0] if bug else r) / 2, B) for r in res]
        a = np.concatenate([np.asarray(c, float)[..., None] * w for c, w in zip(p, f)], -1) * math.pi
        return np.concatenate([np.moveaxis(np.asarray(p, float), 0, -1), np.sin(a), np.cos(a)], -1)
    return table
case("o038", make, P.FourierFeatures.perceiver(6, (32, 48)), "table", "the bands of the second axis reach half the resolution of the first axis", "resolution-of-first-axis", "resolution[axis] / 2")

def make(bug):
    def table(p):
        a = np.tensordot(G, np.asarray(p, float), 1); a = np.moveaxis(a, 0, -1)
        return np.concatenate([np.cos(a), np.sin(a)], -1) / math.sqrt(G.shape[0] if bug else 2 * G.shape[0])
    return table
case("o039", make, P.FourierFeatures(G, unit="radian", first="cos", scale=32 ** -0.5), "table", "the amplitude is 1/sqrt(number of pairs), not 1/sqrt(dim) with dim = 2 pairs", "sqrt-of-pairs", "divide by the root of all columns")

def make(bug):
    def table(p):
        v = np.moveaxis(np.asarray(p, float), 0, -1); u = 3.0 * (v + 0.25)
        a = u @ G.T * np.pi
        b = np.stack([np.sin(a), np.cos(a)], -1).reshape(a.shape[:-1] + (32,))
        return np.concatenate([v if bug else u, b], -1)
    return table
case("o040", make, P.FourierFeatures(G, unit="half-turn", layout="interleaved", include_input=True, offset=0.25, position_scale=3.0), "table", "the input columns hold the raw coordinates, not the shifted and scaled ones", "raw-input-columns", "include u")

def make(bug):
    W = W2[2:] if bug else W2
    def table(p):
        p = np.asarray(p)
        return W[p] if bug else W[p + 2]
    return table
case("o041", make, P.Learned(W2, offset=2), "table", "the first two rows are cut off beforehand; the allowed positions -2 and -1 then wrap round to the last rows", "cut-then-negative", "index with p + offset")

def make(bug):
    store = np.ascontiguousarray(W2.T)                     # a checkpoint with (dim, rows)
    W = store.reshape(40, 24) if bug else store.T
    def rows(n): return np.take(W, np.arange(n), axis=0)
    return rows
case("o042", make, P.Learned(W2), "rows", "a weight stored as (dim, rows) is reshaped to (rows, dim) instead of transposed", "stored-transposed", "transpose")

def make(bug):
    def add(x):
        pe = W2[1: 1 + x.shape[1]]
        if bug:
            x += pe.astype(x.dtype)
            return x
        return (x + pe).astype(x.dtype)
    return add
case("o043", make, P.Learned(W2, offset=1), "add", "+= changes the caller's embeddings in place", "inplace-add", "make a new array")

def make(bug):
    def table(p):
        y, x = np.asarray(p)
        return np.concatenate([EW[y], EH[x]], -1) if bug else np.concatenate([EW[x], EH[y]], -1)
    return table
case("o044", make, P.AxialLearned((EH, EW), order=(1, 0)), "table", "the table of columns is looked up with the row number and the table of rows with the column number", "tables-crossed", "EW[x], EH[y]")

def make(bug):
    def table(p):
        p = np.asarray(p)
        k = p % 5; j = p // 5 % (5 if bug else 4); i = p // 20
        return np.concatenate([T3[0][i], T3[1][np.minimum(j, 3)], T3[2][k]], -1)
    return table
case("o045", make, P.AxialLearned(T3, flat=True), "table", "the middle digit of the flat position is taken modulo the rows of the last table", "wrong-digit-base", "modulo the rows of the middle table")

def make(bug):
    def grid(height, width):
        a, b = SH[:height], SW[:width]
        if bug: t = np.tile(a, (width, 1)) + np.tile(b, (height, 1))
        else: t = np.repeat(a, width, axis=0) + np.tile(b, (height, 1))
        return t
    return grid
case("o046", make, P.AxialLearned((SH, SW), combine="sum"), "grid", "both tables are tiled: the rows of the image run as fast as its columns", "tile-tile", "repeat the table of rows")

def make(bug):
    def rows(n):
        full = sincos(np.arange(32), 8); m, s = full.mean(), full.std(ddof=1)
        t = sincos(np.arange(n), 8)
        if bug: m, s = t.mean(), t.std(ddof=1)
        return (t - m) / (10 * s)
    return rows
case("o047", make, P.StandardizedSinusoidal(16, 32), "rows", "mean and deviation are those of the rows asked for, not of the rows of the declared length", "moments-of-request", "moments of the declared length")

def make(bug):
    Wl = W2[:, :8]
    def table(p):
        p = np.asarray(p)
        q = p + 3
        return np.concatenate([sincos(q if bug else p, 8), Wl[q].astype(float)], -1)
    return table
case("o048", make, P.Hybrid((P.Sinusoidal(16), P.Learned(np.ascontiguousarray(W2[:, :8]), offset=3)), combine="concat"), "table", "the offset of the learned part is applied to the sinusoid too", "offset-for-both", "offset in the lookup only")

tw, tb = rng.standard_normal(12), rng.standard_normal(12)
def make(bug):
    def table(p):
        v = np.asarray(p, float)[..., None] * tw + tb
        if bug: return np.concatenate([np.sin(v[..., :-1]), v[..., -1:]], -1)
        return np.concatenate([np.sin(v[..., 1:]), v[..., :1]], -1)
    return table
case("o049", make, P.Time2Vec(tw, tb, linear="last"), "table", "the linear column takes the last weight and bias, though the stored weight 0 is the linear one", "linear-takes-last-weight", "weights 1 .. for the sines")

# ---- resized tables
W1 = np.round(rng.standard_normal((12, 8)) * 64).astype(np.float32)
def keys(t, a):
    t = abs(t)
    return ((a + 2) * t - (a + 3)) * t * t + 1 if t <= 1 else (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0
def make(bug):
    def rows(n):
        m = 24; out = np.zeros((m, 8))
        for i in range(m):
            c = (i + 0.5) * 12 / m - 0.5; f = math.floor(c)
            for j in range(f - 1, f + 3):
                jj = min(max(j, 0), 11)
                if bug and j != jj: continue
                out[i] += keys(c - j, -0.75) * W1[jj].astype(float)
        return out[:n].astype(np.float32)
    return rows
case("o050", make, P.Learned(P.resize_table(W1, (12,), (24,))), "rows", "taps of the bicubic kernel outside the table are left out (zero padding) instead of clamped to the border row", "resize-zero-border", "clamp the index")

WC = np.round(rng.standard_normal((1 + 24, 6)) * 64).astype(np.float32)
def make(bug):
    def rows(n):
        g = WC[1:].astype(float)
        g = g.reshape(6, 4, 6).swapaxes(0, 1) if bug else g.reshape(4, 6, 6)
        for ax, m in ((0, 8), (1, 12)):
            k = g.shape[ax]; c = np.maximum((np.arange(m) + 0.5) * k / m - 0.5, 0); j = np.floor(c).astype(int); f = c - j
            a, b = np.take(g, j, ax), np.take(g, np.minimum(j + 1, k - 1), ax)
            f = f.reshape([-1 if d == ax else 1 for d in range(3)]); g = a * (1 - f) + b * f
        return np.concatenate([WC[:1], g.reshape(-1, 6).astype(np.float32)])[:n]
    return rows
case("o051", make, P.Learned(P.resize_table(WC, (4, 6), (8, 12), kept=1, mode="bilinear")), "rows", "the patches of a 4x6 grid are read as 6 rows of 4 before resizing", "grid-read-transposed", "reshape to (height, width)")

def make(bug):
    def table(p):
        m = 24; c = np.arange(m) * 0.5 if bug else np.maximum(np.arange(m) * 0.5 - 0.25, 0)
        j = np.minimum(c.astype(int), 11); f = (c - j)[:, None]; W = W1.astype(float)
        return (W[j] * (1 - f) + W[np.minimum(j + 1, 11)] * f).astype(np.float32)[np.asarray(p)]
    return table
case("o052", make, P.Learned(P.resize_table(W1, (12,), (24,), mode="bilinear")), "table", "new points lie at i*size/new_size without the half-pixel shift", "no-half-pixel", "(i + 1/2) r - 1/2")

def make(bug):
    R = np.zeros((6, 12))
    for i in range(6):
        c = (i + 0.5) * 2 - 0.5
        w = np.array([keys((c - j) / 2, -0.5) for j in range(12)])
        R[i] = w / 2 if bug else w / w.sum()
    M = R @ W1.astype(float)
    return lambda n: M.astype(np.float32)[:n]
case("o053", make, P.Learned(P.resize_table(W1, (12,), (6,), antialias=True)), "rows", "antialiased weights are divided by the stretch, not by their sum, so border rows lose the part outside the table", "antialias-not-normalised", "divide by the sum of the weights")

def make(bug):
    onehot = np.eye(40)
    def add(x): return (np.einsum("sr,rd->sd", onehot[: x.shape[1]], W2.astype(float))[None] + x).astype(x.dtype)
    return add
case("o054", make, P.Learned(W2), "add", "the lookup is a product with one-hot rows in float64", "right")

def make(bug):
    ph = np.exp(1j * tb[1:])
    def table(p):
        t = np.asarray(p, float)
        z = np.exp(1j * np.multiply.outer(t, tw[1:])) * ph
        return np.concatenate([(tw[0] * t + tb[0])[..., None], z.real], -1)
    return table
case("o055", make, P.Time2Vec(tw, tb, function="cos"), "table", "phases are multiplied on as complex numbers after the exponential", "right")
