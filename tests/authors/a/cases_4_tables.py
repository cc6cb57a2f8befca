"""Tables that are added to embeddings: sinusoids, learned rows, grids, features of coordinates."""

import math

import numpy as np

from posenc_ref import (
    AxialLearned,
    BoxSine,
    DETRSine,
    FourierFeatures,
    Hybrid,
    Learned,
    Sinusoidal,
    Sinusoidal2D,
    Sinusoidal3D,
    StandardizedSinusoidal,
    Time2Vec,
)

CASES = []


def wrong(id, make, encoding, surface, cause, key, remedy, **settings):
    CASES.append(
        dict(
            id=id,
            fn=make(True),
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=make(False),
        )
    )


def good(id, fn, encoding, surface, cause, **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=True,
            cause=cause,
            cause_key="right",
            remedy="",
            mended=None,
        )
    )


RNG = np.random.default_rng(11)


def sincos(p, w, layout="interleaved", scale=1.0):
    t = np.asarray(p, np.float64)[..., None] * w
    if layout == "concat":
        return scale * np.concatenate([np.sin(t), np.cos(t)], -1)
    return scale * np.stack([np.sin(t), np.cos(t)], -1).reshape(*t.shape[:-1], -1)


def rows_of(t, p):
    p = np.asarray(p)
    if p.size and p.min() < 0:
        raise IndexError("negative position")
    return t[p]


def omega(n, d=None, base=10000.0):
    return base ** (-np.arange(n) / (n if d is None else d))


# --- sinusoids --------------------------------------------------------------------------------
def keras_exponent(bug):
    d = 64
    i = np.arange(d)
    e = i / d if bug else 2 * (i // 2) / d

    def fn(positions):
        t = np.asarray(positions, np.float64)[:, None] * 10000.0**-e
        t[:, 0::2], t[:, 1::2] = np.sin(t[:, 0::2]), np.cos(t[:, 1::2])
        return t

    return fn


wrong(
    "a103",
    keras_exponent,
    Sinusoidal(64),
    "table",
    "The exponent is i/d with the column number i, so each cosine column has a lower frequency (by base ** (1/d)) than the sine of "
    "its pair; it should be 2 (i // 2) / d. The sines are right",
    "cos-own-frequency",
    "use the pair's exponent for both columns",
)


def t2t(bug):
    n = 32

    def fn(positions):
        return sincos(positions, omega(n, n if bug else n - 1), "concat")

    return fn


wrong(
    "a104",
    t2t,
    Sinusoidal(64, layout="concat", denominator="half-1"),
    "table",
    "The exponent of pair k is k/32 (the paper) instead of k/31 (tensor2tensor): the last pair has frequency 1.33e-4 instead of "
    "1e-4",
    "denominator-dim",
    "divide by dim/2 - 1",
)


def odd_last(bug):
    def fn(positions):
        t = sincos(positions, omega(16, 15), "concat")
        extra = (
            np.sin(np.asarray(positions, np.float64)[:, None] * 10000.0 ** -(16 / 15))
            if bug
            else np.zeros((len(t), 1))
        )
        return np.concatenate([t, extra], 1)

    return fn


wrong(
    "a105",
    odd_last,
    Sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad"),
    "table",
    "The last column of the odd width 33 holds the sine of a 17th frequency instead of zeros",
    "odd-column-sine",
    "pad the odd column with zeros",
)


def modulo_rows(bug):
    rows = sincos(np.arange(1024), omega(32))

    def fn(positions):
        p = np.asarray(positions)
        inside = (p >= 0) & (p < 1024) & (p == np.floor(p))
        out = sincos(p, omega(32))
        if bug:
            far = p >= 1024
            out[far] = rows[p[far].astype(np.int64) % 1024]
        out[inside] = rows[p[inside].astype(np.int64)]
        return out

    return fn


wrong(
    "a106",
    modulo_rows,
    Sinusoidal(64),
    "table",
    "Positions wrap round the buffer of 1024 rows: position p >= 1024 gets the row of p mod 1024",
    "wrap-around",
    "extend the table, or compute the rows",
)


def batch_first(bug):
    pe = sincos(np.arange(4096), omega(32))

    def fn(x):
        B, S, D = x.shape
        if bug:
            return (x + pe[:B, None, :]).astype(x.dtype)
        return (x + pe[None, :S]).astype(x.dtype)

    return fn


wrong(
    "a107",
    batch_first,
    Sinusoidal(64),
    "add",
    "The table is indexed by the batch row instead of by the token (written for x of shape (S, B, dim)): every token of row b gets "
    "the encoding of position b",
    "axis-batch-for-token",
    "add pe[:S] along the second axis",
)


def last_block(bug, T=32):
    pe = sincos(np.arange(4096), omega(24), "concat")

    def fn(x):
        y = x.astype(np.float64)
        S = x.shape[1]
        for s in range(0, S, T):
            e = min(s + T, S)
            if e - s < T and bug and s:
                y[:, s:e] += pe[S - T :][: e - s]
            else:
                y[:, s:e] += pe[s:e]
        return y.astype(x.dtype)

    return fn


wrong(
    "a108",
    last_block,
    Sinusoidal(48, layout="concat"),
    "add",
    "In a last, partial block of 32 tokens, the table is read from S - 32 (the block shifted back to be full) while x is read "
    "from the block's own start, so these tokens get rows of earlier positions; lengths that are multiples of 32 are right",
    "block-shifted-back",
    "shift both reads, or neither",
)


def fairseq(bug):
    def fn(positions):
        return sincos(np.asarray(positions) + (1 if bug else 2), omega(32, 31), "concat")

    return fn


wrong(
    "a109",
    fairseq,
    Sinusoidal(64, layout="concat", denominator="half-1", offset=2),
    "table",
    "Positions start at padding_idx = 1 instead of padding_idx + 1 = 2: every row is that of the position before",
    "padding-offset-one-short",
    "add padding_idx + 1",
)


def scaled_once(bug):
    s = math.sqrt(48)

    def fn(positions):
        t = sincos(positions, omega(24), scale=s)
        if bug:
            t[:, 1::2] /= s
        return t

    return fn


wrong(
    "a110",
    scaled_once,
    Sinusoidal(48, scale=math.sqrt(48)),
    "table",
    "The factor sqrt(48) is on the sine columns only; cosines have amplitude 1",
    "scale-on-sines",
    "multiply both by the scale",
)


def timestep(bug):
    w = omega(64, 64.0)

    def fn(positions):
        t = np.asarray(positions, np.float64)[:, None] * w
        return np.concatenate([np.sin(t), np.cos(t)] if bug else [np.cos(t), np.sin(t)], 1)

    return fn


wrong(
    "a111",
    timestep,
    Sinusoidal(128, layout="concat", first="cos", denominator=64.0),
    "table",
    "Sines come before cosines (flip_sin_to_cos is not applied): the two halves of the columns are exchanged",
    "halves-exchanged",
    "put the cosines first",
)


def drift(bug):
    def fn(positions):
        p = np.asarray(positions)
        if not bug or p.dtype.kind not in "iu":
            return sincos(p, omega(16))
        w = omega(16)
        c, s = np.ones(16, np.float32), np.zeros(16, np.float32)
        cw, sw, rows, top = (
            np.cos(w).astype(np.float32),
            np.sin(w).astype(np.float32),
            {},
            min(int(p.max(initial=0)), 4096),
        )
        for i in range(top + 1):
            rows[i] = np.stack([s, c], -1).reshape(-1)
            c, s = c * cw - s * sw, s * cw + c * sw
        out = sincos(p, w)
        for i, v in enumerate(p):
            if int(v) in rows:
                out[i] = rows[int(v)]
        return out

    return fn


wrong(
    "a112",
    drift,
    Sinusoidal(32),
    "table",
    "Rows 0 to 4096 come from a float32 recurrence (each row turns the one before by theta), whose rounding errors add up: about "
    "1e-5 to 1e-4 at position 1000",
    "recurrence-drift",
    "compute every row from its own angle",
)
good(
    "a113",
    lambda p: (
        np.exp(1j * (np.asarray(p, np.float64)[:, None] * omega(32)))
        .view(np.float64)
        .reshape(len(p), -1, 2)[..., ::-1]
        .reshape(len(p), -1)
    ),
    Sinusoidal(64),
    "table",
    "complex exponentials viewed as pairs, real and imaginary part exchanged",
)


good(
    "a114",
    lambda p: np.concatenate(
        [
            sincos(p, omega(16, 16.5)),
            np.sin(np.asarray(p, np.float64)[:, None] * 1e4 ** (-32 / 33)),
        ],
        1,
    ),
    Sinusoidal(33, odd="extra-sin"),
    "table",
    "odd width with one sine column more than cosines",
)


# --- learned rows -----------------------------------------------------------------------------
W = RNG.normal(size=(514, 24)).astype(np.float32)


def opt_rows(bug):
    return lambda n: W[:n] if bug else W[2 : n + 2]


wrong(
    "a115",
    opt_rows,
    Learned(W, offset=2),
    "rows",
    "Row 0 of the table is taken for position 0; the first two rows are reserved, position 0 is row 2",
    "offset-two-missing",
    "slice weight[2 : n + 2]",
)


def roberta_ids(bug):
    def fn(ids):
        m = (np.asarray(ids) != 1).astype(np.int64)
        c = np.cumsum(m, -1)
        return c + 1 if bug else c * m + 1

    return fn


wrong(
    "a116",
    roberta_ids,
    Learned(RNG.normal(size=(130, 8)).astype(np.float32), padding_idx=1),
    "ids_from_tokens",
    "Padding tokens are not reset to padding_idx: they repeat the position of the real token before them",
    "padding-not-reset",
    "multiply the cumulative sum by the mask before adding padding_idx",
)


def learned_half(bug):
    def fn(p):
        t = W.astype(np.float16).astype(np.float32) if bug else W
        return rows_of(t, p)

    return fn


wrong(
    "a117",
    learned_half,
    Learned(W),
    "table",
    "The learned rows went through float16: every entry is rounded to 11 bits instead of copied",
    "learned-float16",
    "keep the table's dtype",
)
good(
    "a118",
    lambda p: rows_of(np.eye(514, dtype=np.float32), p) @ W,
    Learned(W),
    "table",
    "the rows are selected by a one-hot product, as on TPUs; exact because all other products are 0",
)

E0, E1 = RNG.normal(size=(16, 8)).astype(np.float32), RNG.normal(size=(24, 12)).astype(np.float32)


def reformer(bug):
    def fn(p):
        p = np.asarray(p)
        n = 16 if bug else 24
        return np.concatenate([rows_of(E0, p // n % 16 if bug else p // n), E1[p % n]], -1)

    return fn


wrong(
    "a119",
    reformer,
    AxialLearned((E0, E1), flat=True),
    "table",
    "Flat positions are split by 16, the rows of the first table, instead of by 24, the rows of the last one: p = (p // 16, p % 16)",
    "split-by-wrong-axis",
    "divide by the length of the last axis",
)


# --- grids ------------------------------------------------------------------------------------
def grid2(bug, kind):
    w = omega(16)

    def fn(h, wd):
        y, x = np.repeat(np.arange(h), wd), np.tile(np.arange(wd), h)
        if kind == "flat" and bug:
            y, x = np.tile(np.arange(h), wd), np.repeat(np.arange(wd), h)
        if kind == "extent":
            a, b = (max(h - 1, 1), max(wd - 1, 1)) if bug else (h, wd)
            y, x = y * 16.0 / a, x * 16.0 / b
        ty, tx = sincos(y, w, "concat"), sincos(x, w, "concat")
        first, second = (
            (tx, ty)
            if kind in ("axes", "flat", "extent") and not (bug and kind == "axes")
            else (ty, tx)
        )
        return np.concatenate([first, second], 1)

    return fn


wrong(
    "a120",
    lambda b: grid2(b, "axes"),
    Sinusoidal2D(64, axis_order="wh"),
    "grid",
    "The first half of the columns encodes the row instead of the column of the patch, and the second half the column: the axes "
    "are exchanged with respect to MAE",
    "halves-of-axes",
    "put the encoding of the width first",
)
wrong(
    "a121",
    lambda b: grid2(b, "flat"),
    Sinusoidal2D(64, axis_order="wh"),
    "grid",
    "The grid is flattened column by column instead of row by row: token n gets the position (n mod h, n div h)",
    "flattened-by-columns",
    "make the last axis run fastest",
)
wrong(
    "a122",
    lambda b: grid2(b, "extent"),
    Sinusoidal2D(64, axis_order="wh", extent=16.0),
    "grid",
    "Positions are i * 16 / (n - 1), so the last patch is at 16, instead of i * 16 / n: rows and columns are stretched by "
    "n / (n - 1)",
    "align-corners",
    "divide by n",
)


def divide_by_h(bug):
    w = omega(8)

    def fn(h, wd):
        n = np.arange(h * wd)
        d = h if bug else wd
        t = [
            np.stack([np.sin(np.outer(v, w)), np.cos(np.outer(v, w))], -1).reshape(len(n), -1)
            for v in (n // d, n % d)
        ]
        return np.concatenate(t, 1)

    return fn


wrong(
    "a123",
    divide_by_h,
    Sinusoidal2D(32, axis_order="hw", layout="interleaved"),
    "grid",
    "Row and column are token // height and token % height instead of being divided by the width: square grids are right",
    "divide-by-height",
    "divide the token's number by the width",
)


def video(bug):
    def fn(positions):
        p = np.asarray(positions)
        p = np.stack([p] * 3) if p.ndim == 1 else p
        order = (0, 1, 2) if bug else (0, 2, 1)
        return np.concatenate(
            [sincos(p[a], omega(s // 2), "concat") for a, s in zip(order, (16, 24, 24))], -1
        )

    return fn


wrong(
    "a124",
    video,
    Sinusoidal3D((16, 24, 24), axis_order="twh"),
    "table",
    "After the columns of time come those of the height, then the width; CogVideoX has width before height",
    "video-hw-order",
    "order the columns t, w, h",
)


def detr(bug):
    w = omega(16)

    def fn(h, wd):
        y, x = np.repeat(np.arange(1, h + 1), wd), np.tile(np.arange(1, wd + 1), h)
        ny, nx = (wd, h) if bug else (h, wd)
        t = [sincos(v / (n + 1e-6) * 2 * np.pi, w) for v, n in ((y, ny), (x, nx))]
        return np.concatenate(t, 1)

    return fn


wrong(
    "a125",
    detr,
    DETRSine(64),
    "grid",
    "Rows are divided by the image's width and columns by its height; square images are right",
    "normalised-by-other-side",
    "divide y by the last row's count and x by the last column's",
)


def grid_right(h, w):
    out = []
    for y in range(h):
        for x in range(w):
            row = []
            for v in (y, x):
                for f in (math.sin, math.cos):
                    row += [f(v * 10000 ** (-k / 8)) for k in range(8)]
            out.append(row)
    return np.array(out)


good("a126", grid_right, Sinusoidal2D(32), "grid", "four nested loops with math.sin")

# --- features of coordinates ------------------------------------------------------------------
M = RNG.normal(size=(10, 2)) * 3


def coords(p, n):
    p = np.asarray(p, np.float64)
    return np.stack([p] * n) if p.ndim == 1 else p


def rff(bug):
    def fn(positions):
        t = np.moveaxis(coords(positions, 2), 0, -1) @ M.T * (math.pi if bug else 2 * math.pi)
        return np.concatenate([np.cos(t), np.sin(t)], -1)

    return fn


wrong(
    "a127",
    rff,
    FourierFeatures(M, unit="turn", first="cos"),
    "table",
    "The projection is multiplied by pi instead of 2 pi, so every angle is half as large",
    "half-turn-for-turn",
    "multiply by 2 pi",
)


def nerf_order(bug):
    def fn(positions):
        v = coords(positions, 3)
        out = []
        if bug:
            for f in (np.sin, np.cos):
                out += [f(2.0**lv * np.pi * v[a]) for lv in range(4) for a in range(3)]
        else:
            out = [
                f(2.0**lv * np.pi * v[a])
                for lv in range(4)
                for f in (np.sin, np.cos)
                for a in range(3)
            ]
        return np.stack(out, -1)

    return fn


wrong(
    "a128",
    nerf_order,
    FourierFeatures.nerf(4, include_input=False),
    "table",
    "All sines come before all cosines instead of sines and cosines alternating by frequency band, as NeRF has them",
    "bands-not-grouped",
    "loop over bands outside and over sin and cos inside",
)


def sam(bug):
    def fn(positions):
        v = coords(positions, 2)
        v = np.stack([2 * v[0] - 1, v[1] if bug else 2 * v[1] - 1])
        t = 2 * np.pi * np.moveaxis(v, 0, -1) @ M.T
        return np.concatenate([np.sin(t), np.cos(t)], -1)

    return fn


wrong(
    "a129",
    sam,
    FourierFeatures(M, unit="turn", offset=-0.5, position_scale=2.0),
    "table",
    "Only x is mapped from 0 .. 1 to -1 .. 1; y stays in 0 .. 1",
    "one-coordinate-unscaled",
    "map both coordinates",
)
TW, TB = RNG.normal(size=12) * 0.3, RNG.normal(size=12)


def t2v(bug):
    def fn(t):
        a = np.asarray(t, np.float64)[:, None] * TW + TB
        return np.concatenate([np.sin(a[:, :1]) if bug else a[:, :1], np.sin(a[:, 1:])], 1)

    return fn


wrong(
    "a130",
    t2v,
    Time2Vec(TW, TB),
    "table",
    "The linear component goes through the sine like the others",
    "linear-through-sine",
    "leave column 0 linear",
)


def box(bug):
    def fn(positions):
        c = coords(positions, 4)
        order = (1, 0, 3, 2) if bug else (1, 0, 2, 3)
        return np.concatenate([sincos(2 * np.pi * c[a], omega(8)) for a in order], -1)

    return fn


wrong(
    "a131",
    box,
    BoxSine(64),
    "table",
    "Height columns come before width columns (y, x, h, w); the models have y, x, w, h",
    "box-wh-order",
    "order the columns y, x, w, h",
)


def standard(bug):
    s = sincos(np.arange(12), omega(4))
    s = (s - s.mean()) / (10 * s.std(ddof=0 if bug else 1))

    return lambda p: (
        s[np.asarray(p)]
        if np.asarray(p).dtype.kind in "iu"
        and np.max(p, initial=0) < 12
        and np.min(p, initial=0) >= 0
        else StandardizedSinusoidal(8, 12).table(p)
    )


wrong(
    "a132",
    standard,
    StandardizedSinusoidal(8, 12),
    "table",
    "The standard deviation divides by n instead of n - 1, so rows 0 to 11 are 0.5 % too large",
    "std-ddof",
    "use ddof=1 (torch.std)",
)
LW = RNG.normal(size=(64, 16)) * 0.1


def hybrid(bug):
    def fn(p):
        t = sincos(p, omega(8))
        return (t / 4 if bug else t) + rows_of(LW, p)

    return fn


wrong(
    "a133",
    hybrid,
    Hybrid((Sinusoidal(16), Learned(LW))),
    "table",
    "The sinusoid is divided by sqrt(16) before the learned rows are added; both parts should be added as they are",
    "part-scaled",
    "add the sinusoid unscaled",
)
good(
    "a134",
    lambda p: np.concatenate(
        [rows_of(t, c.astype(int)) for t, c in zip((E0, E1), coords(p, 2))], -1
    ),
    AxialLearned((E0, E1)),
    "table",
    "two gathers, joined; takes (2, S) or (S,) positions",
)
