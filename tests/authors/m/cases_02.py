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


def _axis(p, n, base=10000.0, shift=0):
    w = base ** (-np.arange(n) / (n - shift))
    a = np.asarray(p, np.float64)[..., None] * w
    return np.sin(a), np.cos(a)


# ---- m015 MAE grid: meshgrid order
def make(bug):
    def grid(height, width):
        gh, gw = np.arange(height, dtype=float), np.arange(width, dtype=float)
        if bug:
            x, y = np.meshgrid(gw, gh, indexing="ij")
        else:
            x, y = np.meshgrid(gw, gh)
        parts = [*_axis(x.ravel(), 16), *_axis(y.ravel(), 16)]
        return np.concatenate(parts, 1)
    return grid
case("m015", make, P.Sinusoidal2D(64, axis_order="wh"), "grid",
     "meshgrid is called with indexing='ij' on (width, height), so the tokens are ordered column by column instead of row by row.",
     "meshgrid-ij", "use the default indexing 'xy', or meshgrid(h, w, indexing='ij')")


# ---- m016 grid: number of rows decides the divisor
def make(bug):
    def grid(height, width):
        n = height * width
        i = np.arange(n)
        y, x = (i // height, i % height) if bug else (i // width, i % width)
        sy, cy = _axis(y, 8)
        sx, cx = _axis(x, 8)
        return np.hstack([sy, cy, sx, cx])
    return grid
case("m016", make, P.Sinusoidal2D(32), "grid",
     "Row and column are taken by division of the token number by the height instead of the width, which is wrong on all grids that are not square.",
     "divmod-by-height", "divide by the width")


# ---- m017 grid: extent: linspace to extent inclusive
def make(bug):
    def grid(height, width):
        E = 16.0
        y = np.linspace(0, E, height) if bug else np.arange(height) / height * E
        x = np.linspace(0, E, width) if bug else np.arange(width) / width * E
        Y, X = np.repeat(y, width), np.tile(x, height)
        return np.concatenate([*_axis(X, 12), *_axis(Y, 12)], -1)
    return grid
case("m017", make, P.Sinusoidal2D(48, axis_order="wh", extent=16.0), "grid",
     "The positions of the patches run from 0 to extent with both ends (linspace) instead of i * extent / n, so the last patch is at extent.",
     "extent-inclusive", "use arange(n) / n * extent")


# ---- m018 grid: extent: both axes scaled with the height
def make(bug):
    def grid(height, width):
        y, x = np.indices((height, width), dtype=float).reshape(2, -1)
        y *= 32.0 / height
        x *= 32.0 / (height if bug else width)
        return np.concatenate([*_axis(x, 8), *_axis(y, 8)], -1)
    return grid
case("m018", make, P.Sinusoidal2D(32, axis_order="wh", extent=32.0), "grid",
     "The columns are scaled to the extent with the number of rows: x = i * extent / height instead of i * extent / width.",
     "extent-height-for-width", "divide the column by the width")


# ---- m019 timm grouped layout
def make(bug):
    def table(positions):
        y, x = np.asarray(positions, float)
        sy, cy = _axis(y, 10)
        sx, cx = _axis(x, 10)
        return np.concatenate([sy, cy, sx, cx] if bug else [sy, sx, cy, cx], axis=-1)
    return table
case("m019", make, P.Sinusoidal2D(40, layout="grouped"), "table",
     "The columns are [sin y, cos y, sin x, cos x] instead of the grouped [sin y, sin x, cos y, cos x].",
     "grouped-order", "put the sines of both axes before the cosines")


# ---- m020 moco: half-1 forgotten for one axis
def make(bug):
    def table(positions):
        y, x = np.asarray(positions, float)
        sx, cx = _axis(x, 9, shift=1)
        sy, cy = _axis(y, 9, shift=0 if bug else 1)
        return np.concatenate([sx, cx, sy, cy], axis=-1)
    return table
case("m020", make, P.Sinusoidal2D(36, axis_order="wh", denominator="half-1"), "table",
     "The frequencies of the height have the exponent k/n with n = dim/4, while those of the width have the declared n = dim/4 - 1.",
     "denominator-one-axis", "use n = dim/4 - 1 for both axes")


# ---- m021 2D table each axis with dim/2 exponents (uses full dim)
def make(bug):
    def table(positions):
        p = np.asarray(positions, float)
        k = np.arange(16)
        w = 10000.0 ** (-2 * k / (64 if bug else 32))
        out = np.empty((p.shape[1], 64))
        for axis in range(2):
            a = p[axis][:, None] * w
            out[:, 32 * axis:32 * axis + 32:2] = np.sin(a)
            out[:, 32 * axis + 1:32 * axis + 32:2] = np.cos(a)
        return out
    return table
case("m021", make, P.Sinusoidal2D(64, layout="interleaved"), "table",
     "The exponent of each axis is divided by the whole dim instead of the dim/2 columns of the axis, so the frequencies end at 1/100 instead of about 1/10000.",
     "exponent-full-dim", "divide 2k by dim/2")


# ---- m022 3D CogVideoX: spatial and temporal order
def make(bug):
    def table(positions):
        t, h, w = np.asarray(positions, float)
        T, H, W = (np.concatenate(_axis(v, n), -1) for v, n in ((t, 8), (h, 12), (w, 12)))
        return np.concatenate([T, H, W] if bug else [T, W, H], -1)
    return table
case("m022", make, P.Sinusoidal3D((16, 24, 24), axis_order="twh"), "table",
     "The columns of the height come before those of the width, but the table has the order time, width, height.",
     "3d-axis-order", "concatenate time, width, height")


# ---- m023 3D: every axis uses the size of the time section in the exponent
def make(bug):
    def table(positions):
        p = np.asarray(positions, float)
        out = []
        for v, s in zip(p, (8, 12, 12)):
            n = 4 if bug else s // 2
            out.append(np.concatenate([f(v[:, None] * 10000.0 ** (-np.arange(s // 2) / n)) for f in (np.sin, np.cos)], -1))
        return np.hstack(out)
    return table
case("m023", make, P.Sinusoidal3D((8, 12, 12)), "table",
     "The frequencies of height and width divide the exponent by the number of pairs of the time section (4) instead of their own (6).",
     "3d-section-exponent", "use the size of each axis' own section")


# ---- m024 learned: clamp to last row
_W = np.random.default_rng(1).standard_normal((64, 12)).astype(np.float32)
def make(bug):
    def table(positions):
        p = np.asarray(positions)
        if p.dtype.kind not in "iu":
            raise TypeError("integers")
        q = p + 2
        if (q < 0).any() or (q >= (65 if bug else 64)).any():
            raise IndexError("outside")
        return _W[np.minimum(q, 62) if bug else q]
    return table
case("m024", make, P.Learned(_W, offset=2), "table",
     "Positions are clamped to max_positions - 1 counted without the offset's last row: the last position gets the row before it (row 62 instead of 63).",
     "clamp-one-early", "clamp at rows - 1, or raise")


# ---- m025 learned offset forgotten when fewer than... : decode of one token
def make(bug):
    def table(positions):
        p = np.asarray(positions)
        if p.dtype.kind not in "iu" or (p < 0).any() or (p + 2 >= len(_W)).any():
            raise ValueError("bad positions")
        off = 0 if (bug and p.size == 1) else 2
        return np.take(_W, p + off, axis=0)
    return table
case("m025", make, P.Learned(_W, offset=2), "table",
     "A call with one position (a decoding step) omits the offset of 2 rows.",
     "offset-missing-decode", "add the offset in the one-token branch too")


# ---- m026 axial learned (DETR order)
_R, _C = (np.random.default_rng(s).standard_normal((50, 6)).astype(np.float32) for s in (2, 3))
def make(bug):
    def table(positions):
        y, x = np.asarray(positions)
        if y.dtype.kind not in "iu" or min(y.min(initial=0), x.min(initial=0)) < 0:
            raise ValueError("rows")
        return np.concatenate([_R[x], _C[y]] if bug else [_C[x], _R[y]], axis=-1)
    return table
case("m026", make, P.AxialLearned((_R, _C), order=(1, 0)), "table",
     "The row table is indexed with x and the column table with y (the two embeddings are swapped).",
     "row-col-tables-swapped", "col_embed takes x, row_embed takes y")


# ---- m027 axial flat (Reformer): divides by the wrong axis
_A0, _A1 = np.random.default_rng(4).standard_normal((8, 5)).astype(np.float32), np.random.default_rng(5).standard_normal((12, 7)).astype(np.float32)
def make(bug):
    def table(positions):
        p = np.asarray(positions)
        if p.dtype.kind not in "iu" or (p < 0).any() or (p >= 96).any():
            raise ValueError("outside")
        i, j = (p % 8, p // 8) if bug else (p // 12, p % 12)
        return np.concatenate([_A0[i], _A1[j]], -1)
    return table
case("m027", make, P.AxialLearned((_A0, _A1), flat=True), "table",
     "The flat position is split with the first axis running fastest (p % 8, p // 8) instead of the last (p // 12, p % 12).",
     "axial-fast-axis", "the last axis runs fastest")


# ---- m028 time2vec: linear term bias forgotten
_tw, _tb = np.random.default_rng(6).uniform(-1, 1, 9), np.random.default_rng(7).uniform(-3, 3, 9)
def make(bug):
    def table(positions):
        t = np.asarray(positions, np.float64)[:, None]
        z = t @ _tw[None, :] + _tb
        return np.concatenate([z[:, :1] - (_tb[0] if bug else 0), np.sin(z[:, 1:])], 1)
    return table
case("m028", make, P.Time2Vec(_tw, _tb), "table",
     "The linear component omits its bias b_0.", "linear-bias-missing", "add b_0 to w_0 t")


# ---- m029 time2vec: linear last: sine applied to all but takes first weight
def make(bug):
    def table(positions):
        t = np.asarray(positions, np.float64).reshape(-1, 1)
        lin = t * _tw[0] + _tb[0]
        per = np.cos(t * _tw[1:] + _tb[1:])
        if bug:
            lin, per = t * _tw[-1] + _tb[-1], np.cos(t * _tw[:-1] + _tb[:-1])
        return np.hstack([per, lin])
    return table
case("m029", make, P.Time2Vec(_tw, _tb, function="cos", linear="last"), "table",
     "With the linear column last, the last weight and bias are used for the linear component instead of the first, so every column has the parameters of its neighbour.",
     "time2vec-weight-rolled", "w[0], b[0] belong to the linear component")


# ---- m030 box sine: divides by 2 pi missing in w, h
def make(bug):
    def table(positions):
        pos = np.asarray(positions, np.float64)
        w = 10000.0 ** (-2 * (np.arange(8) // 2) / 8)
        out = []
        for name in "yxwh":
            c = pos["xywh".index(name)]
            a = c[:, None] * w * (1.0 if bug and name in "wh" else 2 * math.pi)
            out.append(np.stack([np.sin(a[:, 0::2]), np.cos(a[:, 1::2])], -1).reshape(len(a), 8))
        return np.concatenate(out, 1)
    return table
case("m030", make, P.BoxSine(32), "table",
     "The width and the height of a box are not multiplied by 2 pi, as x and y are.",
     "box-size-scale", "multiply all four coordinates by the scale")


# ---- m031 right: 2D by outer sum of phases on the grid
def make(bug):
    def grid(height, width):
        w = np.exp(-np.log(1e4) * np.arange(16) / 16)
        ey = np.exp(1j * np.arange(height)[:, None, None] * w)
        ex = np.exp(1j * np.arange(width)[None, :, None] * w)
        full = [np.broadcast_to(v, (height, width, 16)) for v in (ey.imag, ey.real, ex.imag, ex.real)]
        return np.concatenate(full, -1).reshape(height * width, 64)
    return grid
case("m031", make, P.Sinusoidal2D(64), "grid", "Right: complex exponentials of each axis, broadcast to the grid.", "right")


# ---- m032 right: learned as one-hot product
def make(bug):
    def table(positions):
        p = np.asarray(positions)
        if p.dtype.kind not in "iu" or (p < 0).any() or (p >= 62).any():
            raise ValueError("outside")
        one = (p[:, None] + 2 == np.arange(64)).astype(np.float32)
        return one @ _W
    return table
case("m032", make, P.Learned(_W, offset=2), "table", "Right: one-hot matrix times the weight, exact in float32.", "right")
