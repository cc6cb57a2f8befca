import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

def sc(a, cos_first=False):
    return np.concatenate([np.cos(a), np.sin(a)] if cos_first else [np.sin(a), np.cos(a)], -1)
def om(n, half, base=10000.0):
    return base ** (-np.arange(half) / n)

def make(bug):
    def grid(height, width):
        gh, gw = np.arange(height, dtype=float), np.arange(width, dtype=float)
        g = np.stack(np.meshgrid(gh, gw) if bug else np.meshgrid(gw, gh)[::-1])
        y, x = g[0].reshape(-1), g[1].reshape(-1)
        w = om(16, 16)
        return np.concatenate([sc(x[:, None] * w), sc(y[:, None] * w)], 1)
    return grid
case("o018", make, P.Sinusoidal2D(64, axis_order="wh"), "grid", "np.meshgrid(rows, columns) with its default 'xy' indexing lists the patches column by column", "meshgrid-xy", "meshgrid(columns, rows)")

def make(bug):
    def grid(height, width):
        y = np.linspace(0, 16.0, height, endpoint=bug); x = np.linspace(0, 16.0, width, endpoint=bug)
        w = om(8, 8)
        ey = sc(np.repeat(y, width)[:, None] * w); ex = sc(np.tile(x, height)[:, None] * w)
        return np.hstack([ey, ex]).astype(np.float32)
    return grid
case("o019", make, P.Sinusoidal2D(32, extent=16.0), "grid", "the coordinates of the patches include the end of the extent: i*extent/(n-1) instead of i*extent/n", "extent-endpoint", "endpoint=False")

def make(bug):
    w = om(10, 10)
    def table(p):
        y, x = np.asarray(p[0], float)[..., None] * w, np.asarray(p[1], float)[..., None] * w
        s = [np.sin(x), np.sin(y)] if bug else [np.sin(y), np.sin(x)]
        return np.concatenate([np.cos(y), np.cos(x), *s], -1)
    return table
case("o020", make, P.Sinusoidal2D(40, layout="grouped", first="cos"), "table", "the cosines of (y, x) are followed by the sines of (x, y)", "grouped-sines-reversed", "the same order of axes in both halves")

def make(bug):
    w = om(4, 4)
    def grid(height, width):
        y = np.tile(np.arange(height), width); x = np.repeat(np.arange(width), width if bug else height)
        n = height * width
        y, x = np.resize(y, n), np.resize(x, n)
        a = np.stack([y, x])[..., None] * w
        t = np.stack([np.sin(a), np.cos(a)], -1).reshape(2, n, 8)
        return np.concatenate(list(t), -1)
    return grid
case("o021", make, P.Sinusoidal2D(16, layout="interleaved", flatten="columns"), "grid", "column by column, each column number is repeated width times instead of height times (only right for squares)", "repeat-width", "repeat height times")

def make(bug):
    sec = (16, 24, 24)
    def table(p):
        out = []
        for ax, s in enumerate(sec):
            n = sec[0] / 2 if bug else s / 2
            a = np.asarray(p[ax], float)[..., None] * om(n, s // 2)
            out.append(sc(a))
        return np.concatenate(out, -1)
    return table
case("o022", make, P.Sinusoidal3D((16, 24, 24)), "table", "the exponent of all axes is divided by half the columns of the time axis", "width-of-first-axis", "divide by the columns of the axis itself")

def make(bug):
    sec = (8, 12, 20); order = (0, 2, 1)
    def table(p):
        parts = []
        for col, ax in enumerate(order):
            s = sec[col] if bug else sec[ax]
            a = np.asarray(p[ax], float)[..., None] * om(s / 2 - 1, s // 2)
            parts.append(np.stack([np.sin(a), np.cos(a)], -1).reshape(a.shape[:-1] + (s,)))
        return np.concatenate(parts, axis=-1)
    return table
case("o023", make, P.Sinusoidal3D((8, 12, 20), axis_order="twh", layout="interleaved", denominator="half-1"), "table", "the numbers of columns are taken in the order of the columns (t, w, h) though they are given for (t, h, w)", "sections-by-slot", "sections[axis]")

TWO_PI = 2 * math.pi
def detr(y, x, F, T=10000.0, Tw=None):
    k = np.arange(F); t = T ** (2 * (k // 2) / F); u = (Tw or T) ** (2 * (k // 2) / F)
    py, px = y.reshape(-1, 1) / t, x.reshape(-1, 1) / u
    f = lambda p: np.stack([np.sin(p[:, 0::2]), np.cos(p[:, 1::2])], 2).reshape(len(p), -1)
    return np.concatenate([f(py), f(px)], 1)

def make(bug):
    def grid(height, width):
        m = np.ones((height, width)); y, x = m.cumsum(0), m.cumsum(1)
        if bug:
            y = y / (y[-1:, :] + 1e-6) * TWO_PI - 0.5; x = x / (x[:, -1:] + 1e-6) * TWO_PI - 0.5
        else:
            y = (y - 0.5) / (y[-1:, :] + 1e-6) * TWO_PI; x = (x - 0.5) / (x[:, -1:] + 1e-6) * TWO_PI
        return detr(y, x, 16)
    return grid
case("o024", make, P.DETRSine(32, shift=-0.5), "grid", "the half pixel of Deformable DETR is subtracted after the normalisation, in radians", "shift-after-normalise", "shift before the division")

def make(bug):
    def grid(height, width):
        m = np.ones((height, width)); y, x = m.cumsum(0), m.cumsum(1)
        y = y / (y[-1:, :] + 1e-6) * TWO_PI
        x = x / ((x[-1:, :] if bug else x[:, -1:]) + 1e-6) * TWO_PI
        return detr(y, x, 16, 20.0)
    return grid
case("o025", make, P.DETRSine(32, base=20.0), "grid", "x is divided by the last row of the cumulative sums, which is x itself, not by the last column", "last-row-for-x", "x[:, -1:]")

def make(bug):
    def grid(height, width):
        y = (np.arange(height) + 1.0) / (height + 1e-6) * TWO_PI; x = (np.arange(width) + 1.0) / (width + 1e-6) * TWO_PI
        F = 12; k = np.arange(F); e = k / F if bug else 2 * (k // 2) / F
        t = 10000.0 ** e
        out = np.empty((height, width, 2 * F))
        for blk, c in ((0, np.broadcast_to(y[:, None], (height, width))), (F, np.broadcast_to(x, (height, width)))):
            a = c[..., None] / t
            out[..., blk:blk + F:2] = np.sin(a[..., ::2]); out[..., blk + 1:blk + F:2] = np.cos(a[..., 1::2])
        return out.reshape(-1, 2 * F)
    return grid
case("o026", make, P.DETRSine(24), "grid", "the exponent is k/F for every column, without 2*(k//2): sine and cosine of a pair have different frequencies", "no-floor-pair", "2 * (k // 2) / F")

def make(bug):
    def grid(height, width):
        m = np.ones((height, width)); y, x = m.cumsum(0) / (height + 1e-6) * TWO_PI, m.cumsum(1) / (width + 1e-6) * TWO_PI
        return detr(y, x, 8, 20.0, 50.0) if not bug else detr(y, x, 8, 50.0, 20.0)
    return grid
case("o027", make, P.DETRSine(16, base=20.0, width_base=50.0), "grid", "temperatureH and temperatureW are exchanged", "temperatures-swapped", "base is for y, width_base for x")

def make(bug):
    def table(p):
        x, y, w, h = (np.asarray(c, float) for c in p)
        F = 16; t = 10000.0 ** (2 * (np.arange(F) // 2) / F)
        def s(c):
            a = c[..., None] * TWO_PI / t
            return np.stack([np.sin(a[..., 0::2]), np.cos(a[..., 1::2])], -1).reshape(c.shape + (F,))
        return np.concatenate([s(y), s(x), s(h), s(w)] if bug else [s(y), s(x), s(w), s(h)], -1)
    return table
case("o028", make, P.BoxSine(64), "table", "sizes are put in the order (h, w) like the centres (y, x); the columns of w come before those of h", "hw-like-yx", "y, x, w, h")

def make(bug):
    def table(p):
        F = 64; k = np.arange(128)[:F] if bug else np.arange(F)
        t = 10000.0 ** (2 * (k // 2) / (128 if bug else F)); out = []
        for c in (p[1], p[0]):
            a = np.asarray(c, float)[..., None] * TWO_PI / t
            b = np.empty_like(a); b[..., ::2] = np.sin(a[..., ::2]); b[..., 1::2] = np.cos(a[..., ::2]); out.append(b)
        return np.concatenate(out, -1)
    return table
case("o029", make, P.BoxSine(128, axes="xy", axis_order="yx"), "table", "the divisor of the exponent is 128 columns per coordinate, hard-coded as in Conditional DETR, though this model has 64", "hard-coded-128", "divide by the columns of the coordinate")

def make(bug):
    def table(p):
        p = np.asarray(p, float)
        scale = np.array([TWO_PI, TWO_PI, 1.0, 1.0]) if bug else np.full(4, TWO_PI)
        a = np.einsum("c...,c,k->...ck", p, scale, om(4, 4, 20.0))
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(p.shape[1:] + (32,))
    return table
case("o030", make, P.BoxSine(32, axis_order="xywh", base=20.0), "table", "the factor 2 pi is left out for width and height of a box", "scale-centres-only", "scale all coordinates")

def make(bug):
    w = om(8, 8) * TWO_PI
    def table(p):
        p = np.asarray(p, float)[[1, 0, 2, 3]]
        z = np.exp(1j * (np.moveaxis(p, 0, -1)[..., None] * w))
        return np.ascontiguousarray(1j * z.conj()).view(float).reshape(p.shape[1:] + (64,))
    return table
case("o031", make, P.BoxSine(64), "table", "i * conj(exp(i a)) = sin a + i cos a, whose float view is already interleaved", "right")

def make(bug):
    def grid(height, width):
        t, base = np.divmod(np.arange(height * width), width), om(8, 8)
        flat = np.concatenate([np.outer(t[0] + 1, base), np.outer(t[1] + 1, base)], 1)
        out = np.empty((height * width, 32)); out[:, 0::2] = np.sin(flat); out[:, 1::2] = np.cos(flat)
        return out
    return grid
case("o032", make, P.DETRSine(32, normalize=False), "grid", "divmod of token numbers; positions count from 1, as DETR's cumulative sums do", "right")

def make(bug):
    cache = {}
    def axis(n):
        if n not in cache:
            cache[n] = sc((np.arange(n) * 32.0 / n)[:, None] * om(6, 6))
        return cache[n]
    def grid(height, width):
        eh = axis(height)
        ew = axis(max(height, width))[:width] if bug else axis(width)
        return np.concatenate([np.broadcast_to(eh[:, None], (height, width, 12)), np.broadcast_to(ew[None], (height, width, 12))], -1).reshape(-1, 24)
    return grid
case("o033", make, P.Sinusoidal2D(24, extent=32.0), "grid", "the table of the longer axis serves for the columns too: where height > width, columns are spaced by extent/height", "longer-axis-table", "one table for each axis length")

def make(bug):
    memo = functools.lru_cache(None)(lambda n, *_: tuple(map(tuple, sc(np.arange(n)[:, None] * om(4, 4)))))
    seen = {}
    def grid(height, width):
        key = height * width if bug else (height, width)
        if key not in seen:
            ey, ex = np.array(memo(height)), np.array(memo(width))
            seen[key] = np.block([[np.tile(ey[r], (width, 1)), ex] for r in range(height)])
        return seen[key].copy()
    return grid
case("o034", make, P.Sinusoidal2D(16), "grid", "tables are kept under the number of patches, so a 3x5 grid is returned for 5x3", "key-by-area", "keep them under (height, width)")
