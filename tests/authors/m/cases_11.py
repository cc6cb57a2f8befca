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


# ---- m161 softmax scale: mscale once
_DS = P.preset("deepseek-v3")
def make(bug):
    def scale():
        m = 0.1 * 1.0 * math.log(40) + 1.0
        return 192 ** -0.5 * (m if bug else m * m)
    return scale
case("m161", make, _DS, "softmax_scale",
     "YaRN's mscale multiplies the scale once instead of twice (squared).", "mscale-once", "multiply by mscale ** 2")


# ---- m162 softmax scale: nope dim
def make(bug):
    def scale():
        return (128 if bug else 192) ** -0.5 * (0.1 * math.log(40) + 1) ** 2
    return scale
case("m162", make, _DS, "softmax_scale",
     "The scale is that of the 128 channels without rotation instead of all 192 channels of a query head.", "scale-nope-dim", "1/sqrt(qk_nope_head_dim + qk_rope_head_dim)")


# ---- m163 gemma 3 27b query_pre_attn_scalar
def make(bug):
    return lambda: (128 if bug else 168) ** -0.5
case("m163", make, P.preset("gemma-3-27b"), "softmax_scale",
     "1/sqrt(head_dim) = 1/sqrt(128) is used instead of 1/sqrt(query_pre_attn_scalar) = 1/sqrt(168).", "pre-attn-scalar-ignored", "use query_pre_attn_scalar")


# ---- m164 right
def make(bug):
    return lambda: np.float64(1.0) / np.sqrt(168.0)
case("m164", make, P.preset("gemma-3-27b"), "softmax_scale", "Right: NumPy scalar.", "right")


# ---- m165 StandardizedSinusoidal: population std
def _sin(p, d=24):
    a = np.asarray(p, float)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(len(a), d)
def make(bug):
    t = _sin(range(16))
    mu, sd = t.mean(), (t.std() if bug else t.std(ddof=1)) * 10
    return lambda positions: (_sin(positions) - mu) / sd
case("m165", make, P.StandardizedSinusoidal(24, 16), "table",
     "The standard deviation divides by n (numpy's default) instead of n - 1 (torch.std).", "std-population", "use ddof=1")


# ---- m166 StandardizedSinusoidal: per column
def make(bug):
    t = _sin(range(16))
    ax = 0 if bug else None
    mu, sd = t.mean(ax), np.maximum(t.std(ax, ddof=1), 1e-3) * 10
    return lambda positions: (_sin(positions) - mu) / sd
case("m166", make, P.StandardizedSinusoidal(24, 16), "table",
     "Mean and deviation are taken of each column instead of the whole table.", "standardized-per-column", "use the mean and deviation of all elements")


# ---- m167 DETR sine grid: eps / shift -0.5
def make(bug):
    def grid(height, width):
        y, x = np.indices((height, width)).reshape(2, -1) + 1.0
        off = 0.0 if bug else -0.5
        y = (y + off) / (height + 1e-6) * 2 * np.pi
        x = (x + off) / (width + 1e-6) * 2 * np.pi
        w = 10000.0 ** (2 * (np.arange(16) // 2) / 16)
        f = lambda c: np.stack([np.sin(c[:, None] / w[::2]), np.cos(c[:, None] / w[1::2])], 2).reshape(-1, 16)
        return np.concatenate([f(y), f(x)], 1)
    return grid
case("m167", make, P.DETRSine(32, shift=-0.5), "grid",
     "Half a pixel is not subtracted before the normalisation (DETR's form instead of Deformable DETR's).", "half-pixel-missing", "subtract 0.5 before dividing")


# ---- m168 DETR: normalised by size - 1 / count from 0
def make(bug):
    def grid(height, width):
        yy, xx = (np.arange(n, dtype=float) + (0 if bug else 1) for n in (height, width))
        yy, xx = yy / (height + 1e-6) * 2 * np.pi, xx / (width + 1e-6) * 2 * np.pi
        w = 20.0 ** (-np.arange(8) / 8)
        f = lambda c: np.stack([np.sin(np.outer(c, w)), np.cos(np.outer(c, w))], -1).reshape(len(c), 16)
        return np.concatenate([np.repeat(f(yy), width, 0), np.tile(f(xx), (height, 1))], 1)
    return grid
case("m168", make, P.DETRSine(32, base=20.0), "grid",
     "Pixels are counted from 0 (arange) instead of from 1 (the cumulative sum of the mask).", "detr-count-from-0", "count from 1")


# ---- m169 DETR: interleave per axis x first
def make(bug):
    def grid(height, width):
        pos = [(np.arange(n) + 1.0) / (n + 1e-6) * 2 * math.pi for n in ((width, width) if bug else (height, width))]
        w = np.exp(-np.log(1e4) * np.arange(6) / 6)
        y = pos[0][np.arange(height)] if len(pos[0]) >= height else np.resize(pos[0], height)
        out = []
        for a in y:
            for b in pos[1]:
                out.append(np.ravel([[np.sin(a * f), np.cos(a * f)] for f in w] + [[np.sin(b * f), np.cos(b * f)] for f in w]))
        return np.array(out)
    return grid
case("m169", make, P.DETRSine(24), "grid",
     "The rows are normalised by the width of the image instead of its height.", "detr-rows-by-width", "divide y by the last y")


# ---- m170 fourier features: 2 pi
_FM = np.random.default_rng(91).standard_normal((12, 2)) * 3
def make(bug):
    def table(positions):
        v = np.asarray(positions, float).T * 2 - 1
        a = v @ _FM.T * (math.pi if bug else 2 * math.pi)
        return np.concatenate([np.sin(a), np.cos(a)], -1)
    return table
case("m170", make, P.FourierFeatures(_FM, unit="turn", position_scale=2.0, offset=-0.5), "table",
     "The angles are pi times the projection instead of 2 pi.", "fourier-half-turn", "multiply by 2 pi")


# ---- m171 fourier: offset after scale
def make(bug):
    def table(positions):
        v = np.asarray(positions, float).T
        u = (2 * v - 0.5) if bug else 2 * (v - 0.5)
        a = 2 * np.pi * np.einsum("sn,fn->sf", u, _FM)
        return np.hstack((np.sin(a), np.cos(a)))
    return table
case("m171", make, P.FourierFeatures(_FM, unit="turn", position_scale=2.0, offset=-0.5), "table",
     "The offset -0.5 is added after the factor 2 instead of before it: coordinates run from -0.5 to 1.5 instead of -1 to 1.",
     "fourier-offset-order", "2 * (v - 0.5)")


# ---- m172 hybrid: sum of sinusoid and learned: learned added from 0 offset
_HW = np.random.default_rng(92).standard_normal((64, 16))
def make(bug):
    def table(positions):
        p = np.asarray(positions)
        if p.dtype.kind not in "iu" or (p < 0).any() or (p >= 64).any():
            raise ValueError("outside the table")
        s = _sin(p, 16)
        return s + (_HW[p] if not bug else _HW[np.arange(len(p))])
    return table
case("m172", make, P.Hybrid((P.Sinusoidal(16), P.Learned(_HW))), "table",
     "The learned part is taken for rows 0, 1, ... of the call instead of for the given positions.", "hybrid-learned-arange", "index with the positions")


# ---- m173 hybrid concat order
def make(bug):
    def table(positions):
        p = np.asarray(positions)
        if p.dtype.kind not in "iu" or (p < 0).any() or (p >= 64).any():
            raise ValueError("outside the table")
        parts = [_sin(p, 8), _HW[p]]
        return np.concatenate(parts[::-1] if bug else parts, 1)
    return table
case("m173", make, P.Hybrid((P.Sinusoidal(8), P.Learned(_HW)), combine="concat"), "table",
     "The learned columns come before the sinusoidal ones.", "hybrid-order", "concatenate sinusoids first")


# ---- m174 right: StandardizedSinusoidal with Welford
def make(bug):
    n, mu, m2 = 0, 0.0, 0.0
    for v in _sin(range(16)).ravel():
        n += 1
        d = v - mu
        mu += d / n
        m2 += d * (v - mu)
    sd = math.sqrt(m2 / (n - 1)) * 10
    return lambda positions: (_sin(positions) - mu) / sd
case("m174", make, P.StandardizedSinusoidal(24, 16), "table", "Right: Welford's running mean and deviation.", "right")


# ---- m175 right: DETR by mask cumsum
def make(bug):
    def grid(height, width):
        m = np.ones((height, width))
        y, x = m.cumsum(0), m.cumsum(1)
        y, x = y / (y[-1:] + 1e-6) * 2 * math.pi, x / (x[:, -1:] + 1e-6) * 2 * math.pi
        z = np.exp(1j * np.stack([y, x], -1)[..., None] * 10000.0 ** (-np.arange(8) / 8))
        return np.stack([z.imag, z.real], -1).reshape(height * width, 32)
    return grid
case("m175", make, P.DETRSine(32), "grid", "Right: cumulative sums of a mask, complex exponentials.", "right")
