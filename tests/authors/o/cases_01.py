import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

def om(n, half, base=10000.0):
    return base ** (-np.arange(half) / n)

def make(bug):
    w = om(32, 32); lo_a = np.outer(np.arange(64), w)
    cl, sl = np.cos(lo_a), np.sin(lo_a)
    def table(positions):
        p = np.asarray(positions)
        whole = np.floor(p); frac = p - whole
        hi = np.trunc(whole / 64) if bug else np.floor(whole / 64)
        lo = np.mod(whole, 64).astype(np.int64)
        a = (64 * hi + frac)[..., None] * w
        c, s = np.cos(a), np.sin(a)
        out = np.empty(p.shape + (64,))
        out[..., 0::2] = s * cl[lo] + c * sl[lo]
        out[..., 1::2] = c * cl[lo] - s * sl[lo]
        return out
    return table
case("o001", make, P.Sinusoidal(64), "table", "position split into 64*hi+lo for the addition theorem: hi truncates toward zero (C division), lo is the non-negative remainder, so negative positions are wrong by 64",
     "trunc-negative", "floor instead of trunc")

def make(bug):
    half = 24
    def table(positions):
        e = np.linspace(0.0, 1.0, half, endpoint=not bug)
        a = np.asarray(positions, np.float64)[..., None] * np.power(10000.0, -e)
        return np.concatenate([np.sin(a), np.cos(a)], -1).astype(np.float32)
    return table
case("o002", make, P.Sinusoidal(48, denominator="half-1", layout="concat"), "table", "linspace of exponents leaves the end point out, so the denominator is half instead of half-1",
     "linspace-endpoint", "endpoint=True")

def make(bug):
    class Rows:
        def __init__(self): self.t = np.zeros((0, 32))
        def make(self, a, n):
            ang = np.arange(a, n)[:, None] * om(16, 16)
            return np.stack([np.sin(ang), np.cos(ang)], -1).reshape(n - a, 32)
        def __call__(self, seq_len):
            have = len(self.t)
            if seq_len > have:
                new = self.make(0, seq_len - have) if bug else self.make(have, seq_len)
                self.t = np.concatenate([self.t, new])
            return self.t[:seq_len].copy()
    return Rows()
case("o003", make, P.Sinusoidal(32), "rows", "when the kept table grows, the new rows are computed from position 0 instead of from its old length",
     "grown-from-zero", "start at the old length")

def bf16(x):
    b = np.ascontiguousarray(x, np.float32).view(np.uint32)
    b = (b + 0x7FFF + ((b >> 16) & 1)) & np.uint32(0xFFFF0000)
    return b.astype(np.uint32).view(np.float32)

def make(bug):
    kept = {}
    def rows(n):
        if n in kept: return np.array(kept[n], np.float32)
        a = np.arange(n)[:, None] * om(16, 16)
        t = np.concatenate([np.sin(a), np.cos(a)], 1).astype(np.float32)
        kept[n] = bf16(t) if bug else t
        return t
    return rows
case("o004", make, P.Sinusoidal(32, layout="concat"), "rows", "the first call returns float32 rows but keeps them rounded to bfloat16; a second call of the same length returns the rounded ones",
     "bf16-kept-copy", "keep the float32 table")

def make(bug):
    def add(x):
        B, S, D = x.shape
        ids = np.arange(B * S) if bug else np.tile(np.arange(S), B)
        a = ids[:, None] * om(D / 2, D // 2)
        pe = np.stack([np.sin(a), np.cos(a)], -1).reshape(B, S, D)
        return (x + pe).astype(x.dtype)
    return add
case("o005", make, P.Sinusoidal(32), "add", "positions count on through the flattened batch: row b starts at b*S", "flat-batch-ids", "tile the positions of a row")

def make(bug):
    sc = 0.25
    def add(x):
        B, S, D = x.shape
        a = np.arange(S)[:, None] / 500.0 ** (np.arange(0, D, 2) / D)
        pe = np.zeros((S, D)); pe[:, : D // 2] = np.cos(a); pe[:, D // 2:] = np.sin(a)
        y = (x + pe) * sc if bug else x + pe * sc
        return y.astype(x.dtype)
    return add
case("o006", make, P.Sinusoidal(40, layout="concat", first="cos", base=500.0, scale=0.25), "add", "the factor scale multiplies x plus the table, not the table alone",
     "scale-on-sum", "scale the table before adding")

def make(bug):
    def table(p):
        p = np.asarray(p, float); h = 10
        a = p[..., None] * om(10.5, h)
        z = np.zeros(p.shape + (1,))
        return np.concatenate([np.sin(a), z, np.cos(a)] if bug else [np.sin(a), np.cos(a), z], -1)
    return table
case("o007", make, P.Sinusoidal(21, layout="concat", odd="zero-pad"), "table", "the column of zeros of an odd dim stands between sines and cosines, not last", "zero-column-middle", "pad after the concatenation")

def make(bug):
    D = 33
    def table(p):
        p = np.asarray(p, float); div = 10000.0 ** (-np.arange(0, D, 2) / (D + 1 if bug else D))
        out = np.zeros(p.shape + (D,)); a = p[..., None] * div
        out[..., 0::2] = np.sin(a); out[..., 1::2] = np.cos(a[..., : D // 2])
        return out
    return table
case("o008", make, P.Sinusoidal(33, odd="extra-sin"), "table", "an odd dim is rounded up to 34 in the exponent of the frequencies", "odd-exponent-rounded-up", "divide by dim itself")

def make(bug):
    def table(p):
        p = np.asarray(p, float)
        t = 0.5 * p + 3 if bug else 0.5 * (p + 3)
        a = np.multiply.outer(t, om(12, 12))
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(p.shape + (24,))
    return table
case("o009", make, P.Sinusoidal(24, offset=3, position_scale=0.5), "table", "the offset is added after position_scale instead of before", "offset-after-scale", "position_scale * (p + offset)")

def make(bug):
    w = om(32, 32)
    def table(p):
        p = np.asarray(p, np.float64)
        f = w.astype(np.float32) if bug else w
        z = np.exp(1j * (p[..., None] * f.astype(np.float64)))
        return np.concatenate([z.imag, z.real], -1).astype(np.float32)
    return table
case("o010", make, P.Sinusoidal(64, layout="concat"), "table", "frequencies are rounded to float32 before the product with float64 positions, so angles are wrong by 6e-8 of themselves", "float32-frequencies", "keep frequencies in float64")

def make(bug):
    def table(p):
        p = np.asarray(p, float); a = p[..., None] * om(16, 16)
        out = np.empty(p.shape + (32,)); out[..., 0::2] = np.sin(a); out[..., 1::2] = np.cos(a)
        even, odd = out[..., 0::2], out[..., 1::2]
        if not bug: even, odd = even.copy(), odd.copy()
        out[..., 0::2], out[..., 1::2] = odd, even
        return out
    return table
case("o011", make, P.Sinusoidal(32, first="cos"), "table", "sines and cosines are exchanged through views of the same array: the first assignment overwrites what the second reads, so all columns are cosines",
     "view-swap", "copy before the exchange")

def make(bug):
    def rows(n):
        a = np.einsum("s,k->sk", np.arange(n, dtype=float), om(16, 16))
        t = np.concatenate((np.sin(a), np.cos(a)), 1)
        return t.squeeze() if bug else t
    return rows
case("o012", make, P.Sinusoidal(32, layout="concat"), "rows", "squeeze() drops the axis of tokens where seq_len is 1", "squeeze-one", "no squeeze")

def make(bug):
    def table(p):
        p = np.asarray(p, float); u, inv = np.unique(p, return_inverse=True)
        a = u[:, None] * om(8, 8, 100.0)
        t = np.stack([np.sin(a), np.cos(a)], 2).reshape(-1, 16)
        return t if bug and len(u) == p.size else t[inv.reshape(p.shape)]
    return table
case("o013", make, P.Sinusoidal(16, base=100.0), "table", "a shortcut returns the rows of np.unique unchanged when no position repeats: unsorted positions get the rows in sorted order", "unique-sorted", "always index with the inverse")

def make(bug):
    t = np.float32 if bug else np.longdouble
    r = t(10000.0) ** (t(-1) / t(128)); w = np.empty(128, t); w[0] = 1
    for k in range(1, 128): w[k] = w[k - 1] * r
    def table(p):
        a = np.asarray(p, float)[..., None] * w.astype(float)
        return np.concatenate([np.sin(a), np.cos(a)], -1).astype(np.float32)
    return table
case("o014", make, P.Sinusoidal(256, layout="concat"), "table", "frequencies come from repeated float32 products, whose errors add up to 1e-6", "float32-geometric", "products in long double")

def make(bug):
    w = om(16, 16); step = np.exp(1j * w)
    def rows(n):
        out = np.empty((n, 32), np.float32); z = np.ones(16, complex)
        for i in range(n):
            if i % 32 == 0 and i: z = np.exp(1j * w * (i - 1 if bug and i % 128 == 0 else i))
            out[i, 0::2], out[i, 1::2] = z.imag, z.real
            z = z * step
        return out
    return rows
case("o015", make, P.Sinusoidal(32), "rows", "a recurrence of rotations is re-anchored every 32 rows; at multiples of 128 the anchor is one position too early, until the next anchor", "anchor-off-by-one", "anchor at i")

def make(bug):
    w = om(32, 32)
    def table(p):
        flat = np.asarray(p, float).reshape(-1); out = np.zeros((flat.size, 64), np.float32)
        for i, t in enumerate(flat.tolist()):
            for k in range(32):
                a = t * float(w[k]); out[i, 2 * k] = math.sin(a); out[i, 2 * k + 1] = math.sin(a + math.pi / 2) if abs(a) < 1e3 else math.cos(a)
        return out.reshape(np.shape(p) + (64,))
    return table
case("o016", make, P.Sinusoidal(64), "table", "scalar loops; cosines of small angles are sin(a + pi/2)", "right")

def make(bug):
    state = {"n": 0, "t": None}
    def rows(n):
        if state["n"] < n:
            m = 1 << max(n - 1, 1).bit_length()
            a = np.arange(m)[:, None] * np.exp(np.arange(12) * (-math.log(10000.0) / 11))
            state.update(n=m, t=np.concatenate([np.cos(a), np.sin(a)], 1))
        return state["t"][:n]
    return rows
case("o017", make, P.Sinusoidal(24, denominator="half-1", layout="concat", first="cos"), "rows", "a table kept between calls that grows to a power of two; calls return a view of its first rows", "right")
