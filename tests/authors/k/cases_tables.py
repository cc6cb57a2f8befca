"""Author K: tables (sinusoidal, learned, boxes, Fourier)."""
import math

import numpy as np
import torch

from posenc_ref import (
    AxialLearned, BoxSine, DETRSine, FourierFeatures, Hybrid, Learned, Sinusoidal, Sinusoidal2D,
    Sinusoidal3D, StandardizedSinusoidal, Time2Vec,
)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def whole(positions):
    p = np.asarray(positions)
    if p.dtype.kind not in "iu":
        raise ValueError("integer positions only")
    p = p.astype(np.int64)
    if p.size and p.min() < 0:
        raise ValueError("positions from 0 only")
    return p


# ---- k001: a buffer that grows
def make(bug):
    class Grown:
        d = 64

        def __init__(self):
            self.w = np.exp(np.arange(0, self.d, 2) * (-math.log(10000.0) / self.d))
            self.rows = self.build(0, 128)

        def build(self, a, b):
            t = np.zeros((b - a, self.d), np.float32)
            ang = np.arange(a, b)[:, None] * self.w
            t[:, 0::2], t[:, 1::2] = np.sin(ang), np.cos(ang)
            return t

        def __call__(self, positions):
            p = whole(positions)
            n = int(p.max()) + 1 if p.size else 0
            if n > 1 << 17:
                raise ValueError("longer than any model of ours")
            old = len(self.rows)
            if n > old:
                fresh = self.build(0, n - old) if bug else self.build(old, n)
                self.rows = np.concatenate([self.rows, fresh])
            return self.rows[p]

    return Grown()


case("k001", make, Sinusoidal(64), "table",
     "when the cached table grows, the new rows are computed from position 0 instead of from the old length, so rows past the first 128 repeat early rows",
     "cache-growth-restarts", "compute the new rows from the old length")


# ---- k002: tensor2tensor timing signal
def make(bug):
    def table(positions):
        half = 128 // 2
        inc = math.log(10000.0) / (half if bug else half - 1)
        w = np.exp(-inc * np.arange(half))
        ang = np.asarray(positions, np.float64)[..., None] * w
        return np.concatenate([np.sin(ang), np.cos(ang)], -1).astype(np.float32)

    return table


case("k002", make, Sinusoidal(128, denominator="half-1", layout="concat"), "table",
     "the log timescale increment is log(10000)/(d/2) where the model has log(10000)/(d/2 - 1)",
     "denominator", "divide by d/2 - 1")


# ---- k003: odd width
def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)
        half = 33 // 2
        w = np.exp(-np.arange(half) * math.log(10000.0) / (half - 1))
        ang = np.multiply.outer(p, w)
        pad = np.zeros((*p.shape, 1))
        parts = [np.sin(ang), pad, np.cos(ang)] if bug else [np.sin(ang), np.cos(ang), pad]
        return np.concatenate(parts, axis=-1)

    return table


case("k003", make, Sinusoidal(33, denominator="half-1", layout="concat", odd="zero-pad"), "table",
     "for the odd width the column of zeros is put between the sines and the cosines instead of at the end",
     "zero-column-place", "append the zeros as the last column")


# ---- k004: odd width, extra sine
def make(bug):
    def table(positions):
        d = 27
        p = np.asarray(positions, np.float64)[..., None]
        div = np.exp(np.arange(0, d, 2) * -(math.log(10000.0) / d))
        out = np.zeros((*p.shape[:-1], d), np.float32)
        out[..., 0::2] = np.sin(p * div)
        out[..., 1::2] = np.cos(p * (div[1:] if bug else div[:-1]))
        return out

    return table


case("k004", make, Sinusoidal(27, odd="extra-sin"), "table",
     "the cosines of the odd-width table use div_term[1:] instead of div_term[:-1], so each cosine has the frequency of the next pair",
     "odd-dim-shifted-cosines", "drop the last frequency for the cosines, not the first")


# ---- k005: positions in bfloat16
def make(bug):
    def table(positions):
        p = torch.as_tensor(positions)
        p = p.to(torch.bfloat16).float() if bug else p.double()
        w = 10000.0 ** (-torch.arange(0, 96, 2, dtype=torch.float64) / 96)
        ang = p.double()[..., None] * w
        return torch.stack([ang.sin(), ang.cos()], -1).flatten(-2).float()

    return table


case("k005", make, Sinusoidal(96), "table",
     "the positions are cast to bfloat16 with the model before the angles are computed, so positions above 256 are rounded",
     "positions-bfloat16", "keep positions in float32 or integers", backend="torch")


# ---- k006: frequencies in half precision
def make(bug):
    def table(positions):
        w = (1.0 / 10000.0 ** (np.arange(0, 64, 2) / 64)).astype(np.float32)
        if bug:
            w = w.astype(np.float16).astype(np.float32)
        ang = np.asarray(positions, np.float32)[..., None] * w
        return np.stack([np.sin(ang), np.cos(ang)], axis=-1).reshape(*ang.shape[:-1], 64)

    return table


case("k006", make, Sinusoidal(64), "table",
     "the buffer of inverse frequencies was rounded to float16 (model.half()) and only then widened",
     "frequencies-float16", "compute the frequencies in float32 and do not cast the buffer")


# ---- k008: the tutorial's buffer for (S, B, d)
def make(bug):
    n, d = 4096, 48
    a = np.arange(n)[:, None] * np.exp(np.arange(0, d, 2) * (-math.log(10000.0) / d))
    pe = np.zeros((n, d), np.float32)
    pe[:, 0::2], pe[:, 1::2] = np.sin(a), np.cos(a)

    def add(x):
        if bug:
            return (x + pe[: x.shape[0], None]).astype(x.dtype)
        return (x + pe[None, : x.shape[1]]).astype(x.dtype)

    return add


case("k008", make, Sinusoidal(48), "add",
     "the buffer is cut and broadcast for inputs (S, B, d) while x is (B, S, d): every token gets the row of its batch row",
     "batch-axis-for-tokens", "take pe[:S] along the second axis")


# ---- k010: buffer of 512 rows, last row reused
def make(bug):
    d, n = 32, 512
    a = np.arange(n)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    buf = np.stack([np.sin(a), np.cos(a)], -1).reshape(n, d)

    def table(positions):
        p = whole(positions)
        if bug:
            return buf[np.minimum(p, n - 1)]
        a = p[..., None] * 10000.0 ** (-np.arange(0, d, 2) / d)
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(*p.shape, d)

    return table


case("k010", make, Sinusoidal(32), "table",
     "positions are clamped to the last of the 512 precomputed rows",
     "positions-clamped", "compute rows past the buffer")


# ---- k011: standardised with numpy's std
def make(bug):
    def full(p):
        a = np.asarray(p, np.float64)[..., None] * 10000.0 ** (-np.arange(0, 32, 2) / 32)
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], 32)

    ref = full(np.arange(42))
    mean, std = ref.mean(), ref.std(ddof=0 if bug else 1)

    def table(positions):
        return (full(positions) - mean) / (10 * std)

    return table


case("k011", make, StandardizedSinusoidal(32, 42), "table",
     "the standard deviation divides by n (numpy) instead of n - 1 (torch)",
     "std-ddof", "use ddof=1")


# ---- k013: sum under autocast
def make(bug):
    def add(x):
        d = x.shape[-1]
        w = torch.exp(torch.arange(0, d, 2, dtype=torch.float64) * (-math.log(10000.0) / d))
        a = torch.arange(x.shape[-2])[:, None] * w
        t = torch.stack([a.sin(), a.cos()], -1).flatten(-2)
        if bug:
            return (x.to(torch.bfloat16) + t.to(torch.bfloat16)).to(x.dtype)
        return (x.double() + t).to(x.dtype)

    return add


case("k013", make, Sinusoidal(64), "add",
     "under autocast the sum of embedding and table is formed in bfloat16 although x is float32",
     "sum-bfloat16", "add in the dtype of x", backend="torch")


# ---- k014: three-term recurrence
def make(bug):
    kind = np.float32 if bug else np.float64
    w = 10000.0 ** (-np.arange(0, 64, 2) / 64)
    two = (2 * np.cos(w)).astype(kind)
    n = 8192
    s, c = np.zeros((n, 32), kind), np.ones((n, 32), kind)
    s[1], c[1] = np.sin(w), np.cos(w)
    for i in range(2, n):
        s[i] = two * s[i - 1] - s[i - 2]
        c[i] = two * c[i - 1] - c[i - 2]
    rows = np.stack([s, c], -1).reshape(n, 64).astype(np.float32)

    def table(positions):
        p = whole(positions)
        if p.size and p.max() >= n:
            raise ValueError("table has 8192 rows")
        return rows[p]

    return table


case("k014", make, Sinusoidal(64), "table",
     "the rows are made by the recurrence s[n] = 2 cos(w) s[n-1] - s[n-2] in float32, where 2 cos(w) loses the small frequencies, so slow columns turn at a wrong rate",
     "recurrence-float32", "compute every angle directly or keep the recurrence in float64")


# ---- k015: non-square image
def make(bug):
    def grid(height, width):
        d = 64
        rows, cols = np.divmod(np.arange(height * width), height if bug else width)
        w = 10000.0 ** (-np.arange(d // 4) / (d // 4))
        a, b = cols[:, None] * w, rows[:, None] * w
        return np.concatenate([np.sin(a), np.cos(a), np.sin(b), np.cos(b)], 1)

    return grid


case("k015", make, Sinusoidal2D(64, axis_order="wh"), "grid",
     "a token's row and column are its number divided by the height instead of the width, which shows in non-square images only",
     "grid-divided-by-height", "divide by the width")


# ---- k016: timm's grouped columns
def make(bug):
    def table(positions):
        y, x = np.asarray(positions, np.float64)
        w = 1.0 / 10000.0 ** (np.arange(12) / 12)
        y, x = y[..., None] * w, x[..., None] * w
        cols = ([np.sin(y), np.cos(y), np.sin(x), np.cos(x)] if bug
                else [np.sin(y), np.sin(x), np.cos(y), np.cos(x)])
        return np.concatenate(cols, axis=-1)

    return table


case("k016", make, Sinusoidal2D(48, layout="grouped"), "table",
     "the columns are sin y, cos y, sin x, cos x where the checkpoint has sin y, sin x, cos y, cos x",
     "column-order", "stack the sines of both axes first")


# ---- k017: extent with the end point
def make(bug):
    def grid(height, width):
        ext, d = 16.0, 32
        ys = np.linspace(0, ext, height, endpoint=bug)
        xs = np.linspace(0, ext, width, endpoint=bug)
        w = 10000.0 ** (-np.arange(d // 4) / (d // 4))
        out = []
        for y in ys:
            for x in xs:
                out.append(np.r_[np.sin(x * w), np.cos(x * w), np.sin(y * w), np.cos(y * w)])
        return np.array(out)

    return grid


case("k017", make, Sinusoidal2D(32, axis_order="wh", extent=16.0), "grid",
     "the scaled coordinates run to the extent inclusive (linspace with end point, step extent/(n-1)) instead of steps of extent/n",
     "linspace-endpoint", "use endpoint=False")


# ---- k018: extent divided by one side only
def make(bug):
    def grid(height, width):
        d = 32
        by = (height, height) if bug else (height, width)
        y, x = np.meshgrid(np.arange(height) * 24.0 / by[0], np.arange(width) * 24.0 / by[1], indexing="ij")
        w = 10000.0 ** (-np.arange(d // 4) / (d // 4))
        parts = []
        for c in (y, x):
            a = c.reshape(-1, 1) * w
            parts += [np.sin(a), np.cos(a)]
        return np.hstack(parts).astype(np.float32)

    return grid


case("k018", make, Sinusoidal2D(32, extent=24.0), "grid",
     "columns are scaled by extent/height as well, instead of extent/width, so non-square images have wrong x positions",
     "width-scaled-by-height", "divide the columns by the width")


# ---- k021: boxes, order of width and height
def make(bug):
    def table(positions):
        x, y, w, h = (np.asarray(c, np.float64) * 2 * math.pi for c in positions)
        f = 10000.0 ** (2 * (np.arange(16) // 2) / 16)
        out = []
        for c in ((y, x, h, w) if bug else (y, x, w, h)):
            a = c[..., None] / f
            out.append(np.stack([np.sin(a[..., 0::2]), np.cos(a[..., 1::2])], -1).reshape(a.shape))
        return np.concatenate(out, -1)

    return table


case("k021", make, BoxSine(64), "table",
     "the columns of the box height come before those of the width (y, x, h, w), where the model has y, x, w, h",
     "box-order", "put w before h")


# ---- k023: Reformer's flat axial index
def make(bug):
    rng = np.random.default_rng(23)
    e0, e1 = rng.normal(size=(12, 16)).astype(np.float32), rng.normal(size=(20, 8)).astype(np.float32)

    def table(positions):
        p = whole(positions)
        a, b = (p % 12, p // 12) if bug else (p // 20, p % 20)
        return np.concatenate([e0[a], e1[b]], -1)

    make.enc = AxialLearned((e0, e1), flat=True)
    return table


make(False)
case("k023", make, make.enc, "table",
     "the flat position is split with the first axis running fastest (p % rows_0, p // rows_0) instead of the last",
     "axial-split", "use p // rows_1 and p % rows_1")


# ---- k025: OPT's offset forgotten in the decoding path
def make(bug):
    weight = np.random.default_rng(25).normal(size=(514, 32)).astype(np.float32)

    def table(positions):
        p = whole(positions)
        if bug and p.size == 1:
            return weight[p]
        return weight[p + 2]

    make.enc = Learned(weight, offset=2)
    return table


make(False)
case("k025", make, make.enc, "table",
     "the path for a single token forgets the offset of 2 rows that the other path adds",
     "offset-missing-one-token", "add the offset in both paths")


# ---- k026: table went through float16
def make(bug):
    weight = np.random.default_rng(26).normal(size=(256, 48)).astype(np.float32)
    held = weight.astype(np.float16).astype(np.float32) if bug else weight.copy()

    def table(positions):
        p = whole(positions)
        return held[p.ravel()].reshape(*p.shape, 48)

    make.enc = Learned(weight)
    return table


make(False)
case("k026", make, make.enc, "table",
     "the learned table was stored in float16 by the conversion, so its rows are rounded",
     "table-float16", "convert the checkpoint in float32")


# ---- k027: RoBERTa, first row
def make(bug):
    weight = np.random.default_rng(27).normal(size=(130, 24)).astype(np.float32)

    def table(positions):
        return np.take(weight, whole(positions) + (1 if bug else 2), axis=0)

    make.enc = Learned(weight, offset=2, padding_idx=1)
    return table


make(False)
case("k027", make, make.enc, "table",
     "positions are shifted by padding_idx instead of padding_idx + 1, so the first token gets the padding row",
     "offset-by-one", "add padding_idx + 1")


# ---- k028: NeRF, bands by coordinate
def make(bug):
    def table(positions):
        v = np.stack([np.asarray(c, np.float64) for c in positions], -1)
        f = 2.0 ** np.arange(6) * np.pi
        if bug:
            a = v[..., :, None] * f
            out = np.concatenate([np.sin(a), np.cos(a)], -1).reshape(*v.shape[:-1], 36)
        else:
            out = np.concatenate([g(v * w) for w in f for g in (np.sin, np.cos)], -1)
        return out

    return table


case("k028", make, FourierFeatures.nerf(6, include_input=False), "table",
     "the features are grouped by coordinate (all bands of x, then of y, then of z) instead of by band",
     "nerf-group-order", "put the coordinates of one band together")


# ---- k029: Perceiver's highest frequency
def make(bug):
    def table(positions):
        v = np.stack([np.asarray(c, np.float64) for c in positions], -1)
        parts = []
        for axis, size in enumerate((32, 48)):
            f = np.linspace(1.0, size if bug else size / 2, 8)
            parts.append(np.pi * v[..., axis, None] * f)
        a = np.concatenate(parts, -1)
        return np.concatenate([v, np.sin(a), np.cos(a)], -1)

    return table


case("k029", make, FourierFeatures.perceiver(8, (32, 48)), "table",
     "the frequency bands run up to the resolution instead of half of it (the Nyquist frequency)",
     "max-frequency", "end the bands at size/2")


# ---- k030: SAM without the shift to -1 .. 1
def make(bug):
    m = np.random.default_rng(30).normal(size=(16, 2))

    def table(positions):
        v = np.stack([np.asarray(c, np.float64) for c in positions], -1)
        u = 2 * v if bug else 2 * v - 1
        a = 2 * np.pi * (u @ m.T)
        return np.concatenate([np.sin(a), np.cos(a)], -1).astype(np.float32)

    make.enc = FourierFeatures(m, unit="turn", position_scale=2, offset=-0.5)
    return table


make(False)
case("k030", make, make.enc, "table",
     "coordinates are doubled but not shifted to -1 .. 1: 2v instead of 2v - 1",
     "coordinate-shift", "subtract 1 after doubling")


# ---- k031: Gaussian matrix reshaped instead of transposed
def make(bug):
    m = np.random.default_rng(31).normal(size=(12, 3))
    stored = m.reshape(3, 12) if bug else m.T.copy()

    def table(positions):
        v = np.moveaxis(np.asarray(positions, np.float64), 0, -1)
        a = 2 * np.pi * np.matmul(v, stored)
        return np.concatenate([np.cos(a), np.sin(a)], axis=-1)

    make.enc = FourierFeatures(m, unit="turn", first="cos")
    return table


make(False)
case("k031", make, make.enc, "table",
     "the Gaussian matrix (pairs, n) was brought to (n, pairs) by reshape instead of transpose, so its entries are permuted",
     "matrix-reshaped", "transpose the matrix")


# ---- k032: learnable Fourier factor
def make(bug):
    m = np.random.default_rng(32).normal(size=(16, 2)) * 0.3

    def table(positions):
        v = np.stack([np.asarray(c, np.float64) for c in positions], -1)
        a = np.einsum("...n,pn->...p", v, m)
        return np.concatenate([np.cos(a), np.sin(a)], -1) / math.sqrt(16 if bug else 32)

    make.enc = FourierFeatures(m, unit="radian", first="cos", scale=32 ** -0.5)
    return table


make(False)
case("k032", make, make.enc, "table",
     "the features are divided by sqrt(number of pairs) instead of sqrt(number of columns)",
     "feature-scale", "divide by sqrt(2 * pairs)")


# ---- k034: Time2Vec, weights rolled by the place of the line
def make(bug):
    rng = np.random.default_rng(34)
    w, b = rng.normal(size=12) * 0.1, rng.normal(size=12)

    def table(positions):
        t = np.asarray(positions, np.float64)[..., None]
        if bug:
            line, wave = t * w[-1:] + b[-1:], np.cos(t * w[:-1] + b[:-1])
        else:
            line, wave = t * w[:1] + b[:1], np.cos(t * w[1:] + b[1:])
        return np.concatenate([wave, line], -1)

    make.enc = Time2Vec(w, b, function="cos", linear="last")
    return table


make(False)
case("k034", make, make.enc, "table",
     "the linear column, which is the last one, takes the last weight and bias instead of the first (w_0, b_0)",
     "time2vec-line-weight", "use w_0 and b_0 for the linear column")


# ================================================================ right ones
# ---- k036: complex powers
def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)
        z = np.exp(1j * p[..., None] * 10000.0 ** (-np.arange(24) / 24))
        return np.ascontiguousarray(1j * z.conj()).view(np.float64).astype(np.float32)

    return table


case("k036", make, Sinusoidal(48), "table", "right: i times the conjugate of complex exponentials, viewed as real pairs", "right")


# ---- k037: lazily grown by doubling, float32
def make(bug):
    class Cache:
        def __init__(self):
            self.t = np.zeros((0, 64), np.float32)

        def __call__(self, positions):
            p = whole(positions)
            top = int(p.max(initial=-1)) + 1
            if top > 1 << 18:
                raise NotImplementedError("too long")
            while len(self.t) < top:
                n = len(self.t)
                m = max(16, n)
                a = np.arange(n, n + m)[:, None] * np.exp(-math.log(1e4) / 31 * np.arange(32))
                self.t = np.vstack([self.t, np.hstack([np.sin(a), np.cos(a)]).astype(np.float32)])
            return self.t[p]

    return Cache()


case("k037", make, Sinusoidal(64, denominator="half-1", layout="concat"), "table",
     "right: a table that doubles when it is too short", "right")


# ---- k038: coarse and fine rows by the addition theorem
def make(bug):
    w = 10000.0 ** (-np.arange(16) / 16)
    fine = np.exp(1j * np.arange(256)[:, None] * w)

    def table(positions):
        p = whole(positions)
        z = np.exp(1j * (p // 256 * 256)[..., None] * w) * fine[p % 256]
        return np.concatenate([z.imag, z.real], -1)

    return table


case("k038", make, Sinusoidal(32, layout="concat"), "table",
     "right: product of a coarse and a fine rotation", "right")


# ---- k039: cosine as a shifted sine
def make(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)[..., None]
        j = np.arange(40)
        return np.sin(p / 10000.0 ** ((j - j % 2) / 40) + (j % 2) * (np.pi / 2))

    return table


case("k039", make, Sinusoidal(40), "table", "right: cosines as sines shifted by pi/2, in float64", "right")


# ---- k040: separable image table by broadcasting
def make(bug):
    def grid(height, width):
        d = 64
        w = np.power(10000.0, -np.arange(d // 4) / (d // 4))

        def one(n):
            a = np.arange(n)[:, None] * w
            return np.concatenate([np.sin(a), np.cos(a)], 1)

        out = np.empty((height, width, d))
        out[..., : d // 2] = one(width)[None]
        out[..., d // 2:] = one(height)[:, None]
        return out.reshape(-1, d)

    return grid


case("k040", make, Sinusoidal2D(64, axis_order="wh"), "grid", "right: broadcast of two 1-D tables", "right")


# ---- k041: one-hot product
def make(bug):
    weight = np.random.default_rng(41).normal(size=(96, 16)).astype(np.float32)

    def table(positions):
        p = whole(positions)
        if p.size and p.max() >= 96:
            raise ValueError("no such row")
        hot = (p[..., None] == np.arange(96)).astype(np.float32)
        return hot @ weight

    make.enc = Learned(weight)
    return table


make(False)
case("k041", make, make.enc, "table", "right: product with one-hot rows", "right")


# ---- k042: NeRF by doubling of angles
def make(bug):
    def table(positions):
        v = np.stack([np.asarray(c, np.float64) for c in positions], -1)
        s, c = np.sin(v), np.cos(v)
        out = [v]
        for _ in range(5):
            out += [s, c]
            s, c = 2 * s * c, (c - s) * (c + s)
        return np.concatenate(out, -1).astype(np.float32)

    return table


case("k042", make, FourierFeatures.nerf(5, unit="radian", include_input=True), "table",
     "right: each band from the one before by the double-angle formulas, float64", "right")


# ---- k043: boxes in torch, stack/flatten
def make(bug):
    def table(positions):
        p = torch.as_tensor(positions).double()
        t = 10000 ** (2 * torch.div(torch.arange(32), 2, rounding_mode="floor") / 32)
        e = [c[..., None] * (2 * math.pi) / t for c in (p[1], p[0], p[2], p[3])]
        e = [torch.stack((v[..., 0::2].sin(), v[..., 1::2].cos()), dim=-1).flatten(-2) for v in e]
        return torch.cat(e, dim=-1).float()

    return table


case("k043", make, BoxSine(128), "table", "right: Conditional DETR's code in torch", "right", backend="torch")
