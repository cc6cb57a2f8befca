import math
import functools
import itertools

import numpy as np

import posenc_ref as P

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- m001 the last odd pair table: exponent uses 2k of the doubled index (tutorial bug)
def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)
        d = 64
        out = np.empty((p.size, d))
        for c in range(0, d, 2):
            w = 10000.0 ** (-c / d)
            out[:, c] = np.sin(p * w)
            v = 10000.0 ** (-(c + 1) / d) if bug else w
            out[:, c + 1] = np.cos(p * v)
        return out
    return table
case("m001", make, P.Sinusoidal(64), "table",
     "The cosine columns take their exponent from their own column number 2k+1 instead of 2k, so the cosine of every pair turns slower than its sine.",
     "cosine-exponent-own-column", "use the exponent 2k/d for the cosine too")


# ---- m002 tutorial: 2 * i with i already stepping by 2
def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)[:, None]
        i = np.arange(0, 48, 2)
        w = np.exp(-math.log(10000.0) * ((2 * i) if bug else i) / 48)
        return np.stack([np.sin(p * w), np.cos(p * w)], -1).reshape(len(p), 48)
    return table
case("m002", make, P.Sinusoidal(48), "table",
     "The exponent doubles the column number, which already steps by two: frequencies are 10000**(-4k/d) instead of 10000**(-2k/d).",
     "exponent-doubled", "do not multiply arange(0, d, 2) by 2 again")


# ---- m003 table cached lazily with growth, cache not regrown by enough: stale rows
class _Grown:
    def __init__(self, bug):
        self.bug, self.t = bug, None

    def rows(self, n):
        p = np.arange(n, dtype=np.float64)[:, None]
        w = 10000.0 ** (-np.arange(32) / 31.0)
        return np.concatenate([np.sin(p * w), np.cos(p * w)], 1)

    def __call__(self, positions):
        p = np.asarray(positions)
        n = int(p.max()) + 1
        if self.t is None:
            self.t = self.rows(max(n, 512))
        elif n > len(self.t):
            if self.bug:  # appends rows computed from 0 instead of from len(t)
                self.t = np.concatenate([self.t, self.rows(n - len(self.t))])
            else:
                self.t = self.rows(n)
        return self.t[p]
def make(bug):
    g = _Grown(bug)
    def table(positions):
        p = np.asarray(positions)
        if p.dtype.kind != "i" or (p < 0).any() or (p.size and p.max() > 200000):
            raise ValueError("only row numbers")
        return g(p) if p.size else np.zeros((0, 64))
    return table
case("m003", make, P.Sinusoidal(64, layout="concat", denominator="half-1"), "table",
     "When a longer sequence makes the cached table grow, the appended rows are computed for positions 0, 1, ... instead of from the old length on, so rows beyond the first length are wrong.",
     "grown-cache-restarts", "compute the appended rows from position len(cache)")


# ---- m004 fairseq: padding_idx + 1 offset
def make(bug):
    def table(positions):
        pos = np.asarray(positions, np.float64) + (1 if bug else 2)
        half = 20
        f = np.exp(np.arange(half) * -(math.log(10000) / (half - 1)))
        a = np.outer(pos, f)
        return np.hstack([np.sin(a), np.cos(a)])
    return table
case("m004", make, P.Sinusoidal(40, layout="concat", denominator="half-1", offset=2), "table",
     "Rows are offset by padding_idx = 1 instead of padding_idx + 1 = 2, so every position gets the row of the one before.",
     "offset-padding-idx", "add padding_idx + 1")


# ---- m005 float16 exponent table
def make(bug):
    def table(positions):
        inv = 1.0 / 10000.0 ** (np.arange(0, 128, 2) / 128)
        if bug:
            inv = inv.astype(np.float16)
        a = np.multiply.outer(np.asarray(positions, np.float64), inv.astype(np.float64))
        return np.stack((np.sin(a), np.cos(a)), axis=2).reshape(-1, 128)
    return table
case("m005", make, P.Sinusoidal(128), "table",
     "The inverse frequencies are stored in float16 (a module cast with .half()), so all angles have relative errors of up to 2**-11.",
     "frequencies-float16", "keep the inverse frequencies in float32 or better")


# ---- m006 odd dim: zero pad placed in front
def make(bug):
    def table(positions):
        a = np.asarray(positions, np.float64)[:, None] * np.exp(-math.log(1e4) / 15 * np.arange(16))
        z = np.zeros((len(a), 1))
        parts = [np.sin(a), z, np.cos(a)] if bug else [np.sin(a), np.cos(a), z]
        return np.concatenate(parts, axis=1)
    return table
case("m006", make, P.Sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad"), "table",
     "For an odd dim the column of zeros is put between the sines and the cosines instead of at the end.",
     "zero-column-place", "append the zero column last")


# ---- m007 diffusion timestep embedding: downscale_freq_shift
def make(bug):
    def table(positions):
        half = 32
        exponent = -math.log(10000) * np.arange(half, dtype=np.float64) / (half - (1 if bug else 0))
        emb = np.asarray(positions, np.float64)[:, None] * np.exp(exponent)[None]
        emb = np.concatenate([np.sin(emb), np.cos(emb)], -1)
        return np.concatenate([emb[:, half:], emb[:, :half]], -1)
    return table
case("m007", make, P.Sinusoidal(64, layout="concat", first="cos", denominator=32), "table",
     "The exponent is divided by half - 1 (downscale_freq_shift 1, the default of the helper) instead of half (shift 0).",
     "freq-shift-1", "pass downscale_freq_shift = 0")


# ---- m008 flip_sin_to_cos only swaps first halves for even number of rows
def make(bug):
    def table(positions):
        a = np.asarray(positions, np.float64)[:, None] * 10000.0 ** -(np.arange(24) / 24)
        c, s = np.cos(a), np.sin(a)
        return np.concatenate([s, c] if bug else [c, s], axis=-1)
    return table
case("m008", make, P.Sinusoidal(48, layout="concat", first="cos"), "table",
     "flip_sin_to_cos is ignored: the sines come before the cosines though cosines are first.",
     "flip-ignored", "put the cosines first")


# ---- m009 add with a stale cache keyed by batch
def make(bug):
    store = {}
    def add(x):
        b, s, d = x.shape
        key = 0 if bug else s
        if key not in store or (bug and store[key].shape[0] < s):
            p = np.arange(s)[:, None] * (1.0 / 10000.0 ** (np.arange(0, d, 2) / d))
            t = np.zeros((s, d))
            t[:, 0::2], t[:, 1::2] = np.sin(p), np.cos(p)
            store[key] = t[::1]
        t = store[key]
        if bug:
            t = t[len(t) - s:]      # the last s rows of the longest table so far
        return (x + t.astype(x.dtype)).astype(x.dtype)
    return add
case("m009", make, P.Sinusoidal(32), "add",
     "A cached table longer than the sequence is cut to its last S rows instead of its first S rows, so a call after a longer one gets the rows of later positions.",
     "cached-tail-rows", "slice the cached table as table[:S]")


# ---- m010 add: scale by sqrt(d) forgotten? transformer: x * sqrt(d) wrong side -> the table multiplied
def make(bug):
    def add(x):
        s, d = x.shape[1:]
        ang = np.arange(s)[:, None] / np.power(10000, 2 * (np.arange(d)[None] // 2) / d)
        pe = np.where(np.arange(d) % 2 == 0, np.sin(ang), np.cos(ang))
        y = x.astype(np.float64)
        if bug:
            y = y + pe[:, None] if x.shape[0] == s else y + pe
        else:
            y = y + pe
        return y.astype(x.dtype)
    return add
case("m010", make, P.Sinusoidal(16), "add",
     "If the batch is as large as the sequence is long, the input is taken for (S, B, dim) and the rows are added along the batch axis instead of the token axis.",
     "batch-as-tokens", "always add the rows along axis 1")


# ---- m011 rows: bf16 positions
def _bf16(v):
    u = np.asarray(v, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
def make(bug):
    def rows(n):
        t = np.arange(n, dtype=np.float32)
        if bug:
            t = _bf16(t)
        f = 10000.0 ** (-np.arange(0, 80, 2) / 80)
        a = t.astype(np.float64)[:, None] * f
        o = np.empty((n, 80))
        o[:, ::2] = np.sin(a)
        o[:, 1::2] = np.cos(a)
        return o.astype(np.float32)
    return rows
case("m011", make, P.Sinusoidal(80), "rows",
     "The positions are made in bfloat16, so positions above 256 are rounded to multiples of 2, 4, ... and neighbours share a row.",
     "positions-bf16", "make the positions in float32 or as integers")


# ---- m012 rows: linspace endpoint
def make(bug):
    def rows(n):
        p = np.linspace(0, n, n) if bug else np.linspace(0, n, n, endpoint=False)
        w = np.logspace(0, -4, 30)
        return np.block([np.sin(np.outer(p, w)), np.cos(np.outer(p, w))])
    return rows
case("m012", make, P.Sinusoidal(60, layout="concat", denominator="half-1"), "rows",
     "The positions come from linspace(0, n, n) with its endpoint, so they are stretched by n/(n-1) and the last row is that of position n instead of n - 1.",
     "linspace-endpoint", "use arange(n) or endpoint=False")


# ---- m013 right: recurrence by angle addition in blocks
def make(bug):
    def rows(n):
        w = 10000.0 ** (-np.arange(32) / 32)
        z = np.ones((n, 32), complex)
        fill = 1
        while fill < n:  # doubling: z[fill:2 fill] = z[:fill] * exp(i fill w)
            m = min(fill, n - fill)
            z[fill:fill + m] = z[:m] * np.exp(1j * fill * w)
            fill += m
        return np.stack([z.imag, z.real], -1).reshape(n, 64)
    return rows
case("m013", make, P.Sinusoidal(64), "rows", "Right: table by doubling with complex angle addition.", "right")


# ---- m014 right: cosine as shifted sine
def make(bug):
    def table(positions):
        c = np.arange(96)
        w = 10000.0 ** (-(2 * (c // 2)) / 96)
        return np.sin(np.asarray(positions, np.float64)[..., None] * w + (c % 2) * (np.pi / 2))
    return table
case("m014", make, P.Sinusoidal(96), "table", "Right: one sine call with a phase of pi/2 in the odd columns, float64.", "right")
