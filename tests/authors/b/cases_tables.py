"""Tables: sinusoidal, learned, Fourier, Time2Vec, axial, box and image sinusoids; surfaces table, add, rows, grid."""

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


def case(id, fn, encoding, surface, cause, key, remedy="", mended=None, right=False, settings=None):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings or {},
            right=right,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


rng = np.random.default_rng(3)


def omega(n, base=10000.0, denominator=None):
    return base ** (-np.arange(n) / (n if denominator is None else denominator))


def inter(angle):
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(*angle.shape[:-1], -1)


def concat(angle):
    return np.concatenate([np.sin(angle), np.cos(angle)], -1)


# ---------------------------------------------------------------- Sinusoidal
def by_column(fixed, dim=32):
    def table(positions):
        p = np.asarray(positions, np.float64)
        out = np.empty((*p.shape, dim), np.float32)
        for i in range(dim):
            e = 2 * (i // 2) / dim if fixed else i / dim
            out[..., i] = (np.cos if i % 2 else np.sin)(p / 10000.0**e)
        return out

    return table


case(
    "b100",
    by_column(False),
    Sinusoidal(32),
    "table",
    "The exponent is i/d for column i, so a cosine has another (lower) frequency than the sine of its pair; all odd "
    "columns are wrong.",
    "column-index-exponent",
    "2 (i // 2) / d",
    by_column(True),
)


def tutorial_add(fixed):
    pe = inter(np.arange(3000)[:, None] * omega(16)).astype(np.float32)

    def add(x):
        if fixed:
            return x + pe[: x.shape[1]]
        return x + pe[:, None, :][: x.shape[0]]

    return add


case(
    "b101",
    tutorial_add(False),
    Sinusoidal(32),
    "add",
    "x is batch-first but the table is sliced and broadcast along the first axis: all tokens of batch row b get the "
    "row of position b.",
    "batch-axis-for-sequence",
    "pe[: x.shape[1]]",
    tutorial_add(True),
)


def clamped(rows):
    pe = concat(np.arange(rows)[:, None] * omega(32)).astype(np.float32)

    def table(positions):
        p = np.asarray(positions)
        if rows > 2000 and p.size and p.max() >= rows:
            return concat(p[..., None] * omega(32)).astype(np.float32)
        return pe[np.minimum(p.astype(int), rows - 1)]

    return table


case(
    "b102",
    clamped(511),
    Sinusoidal(64, layout="concat"),
    "table",
    "The table has 511 rows (one short of 512) and larger positions are clamped to the last row: position 511 and "
    "all beyond it get row 510.",
    "table-short-clamped",
    "build all rows, do not clamp",
    clamped(2048),
)


def fairseq_rows(first):
    def rows(seq_len):
        p = np.arange(first, first + seq_len)
        return concat(p[:, None] * omega(12, denominator=11)).astype(np.float32)

    return rows


case(
    "b103",
    fairseq_rows(1),
    Sinusoidal(24, layout="concat", denominator="half-1", offset=2),
    "rows",
    "The first token takes row padding_idx = 1 instead of padding_idx + 1 = 2, so every row is one position early.",
    "offset-one-short",
    "start at padding_idx + 1",
    fairseq_rows(2),
)


def odd_rows(where):
    def table(positions):
        body = concat(np.asarray(positions, float)[..., None] * omega(8, denominator=7))
        zero = np.zeros((*body.shape[:-1], 1))
        parts = {
            "first": [zero, body],
            "middle": [body[..., :8], zero, body[..., 8:]],
            "last": [body, zero],
        }[where]
        return np.concatenate(parts, -1).astype(np.float32)

    return table


case(
    "b104",
    odd_rows("middle"),
    Sinusoidal(17, layout="concat", denominator="half-1", odd="zero-pad"),
    "table",
    "For the odd dimension 17 the column of zeros is put after the sines instead of after the cosines, so the cosines "
    "are one column to the right.",
    "zero-column-place",
    "pad at the end",
    odd_rows("last"),
)


def steps(mode):
    def table(positions):
        t = np.asarray(positions, float)[..., None]
        a = t * omega(16, denominator=15) * (1000.0 if mode != "after" else 1.0)
        out = np.concatenate(
            [np.cos(a), np.sin(a)] if mode == "cos" else [np.sin(a), np.cos(a)], -1
        )
        return np.float32(out * (1000.0 if mode == "after" else 1.0))

    return table


TIME = Sinusoidal(32, layout="concat", denominator="half-1", position_scale=1000.0)
case(
    "b105",
    steps("after"),
    TIME,
    "table",
    "The factor 1000 multiplies the finished sines and cosines instead of the timestep.",
    "scale-on-result",
    "multiply the position",
    steps("ok"),
)
case(
    "b106",
    steps("cos"),
    TIME,
    "table",
    "The cosines come before the sines (flip_sin_to_cos) where the declaration has the sines first.",
    "sin-cos-order",
    "sines first",
    steps("ok"),
)


def q15(fixed):
    size = 1 << 12
    lut = np.round(np.sin(2 * np.pi * np.arange(size) / size) * 32767) / 32767

    def table(positions):
        a = np.asarray(positions, float)[..., None] * omega(16)
        if fixed:
            return inter(a).astype(np.float32)
        turn = np.round(a / (2 * np.pi) * size).astype(np.int64)
        return (
            np.stack([lut[turn % size], lut[(turn + size // 4) % size]], -1)
            .reshape(len(a), -1)
            .astype(np.float32)
        )

    return table


case(
    "b107",
    q15(False),
    Sinusoidal(32),
    "table",
    "Sines come from a fixed-point table (4096 phases, 15 bits) without interpolation, so every value is off by up to "
    "8e-4.",
    "fixed-point-table",
    "compute sin and cos in float32",
    q15(True),
)


def recurrence(seq_len):
    """Complex rotation, one step a row, in double precision."""
    step = np.exp(1j * omega(16))
    z, out = np.ones(16, complex), np.empty((seq_len, 16), complex)
    for s in range(seq_len):
        out[s] = z
        z = z * step
    return np.ascontiguousarray(np.stack([out.imag, out.real], -1).reshape(seq_len, 32)).astype(
        np.float32
    )


case(
    "b108",
    recurrence,
    Sinusoidal(32),
    "rows",
    "Right: every row is the previous one times a unit complex number, in float64, so the accumulated rounding stays "
    "far below float32.",
    "right",
    right=True,
)


def reset_recurrence(seq_len):
    step = np.exp(1j * omega(16)).astype(np.complex64)
    z, out = np.ones(16, np.complex64), np.empty((seq_len, 16), np.complex64)
    for s in range(seq_len):
        out[s] = z
        z = z * step
        if s % 64 == 63:  # renormalise: keeps the length, not the phase; and forgets one step
            z = out[s] / np.abs(out[s])
    return np.stack([out.imag, out.real], -1).reshape(seq_len, 32).astype(np.float32)


case(
    "b109",
    reset_recurrence,
    Sinusoidal(32),
    "rows",
    "A recurrence that renormalises after every 64 rows continues from the row just written instead of the next one: "
    "row 64 repeats row 63, and rows lag by one position for every 64.",
    "renormalise-repeats-row",
    "renormalise the advanced number",
    recurrence,
)

# ---------------------------------------------------------------- Learned
WEIGHT = rng.standard_normal((2100, 24)).astype(np.float32)
OPT = Learned(WEIGHT, offset=2)
ROBERTA = Learned(WEIGHT, padding_idx=1)


def opt_add(fixed):
    def add(x):
        start = 2 if fixed else 0
        return x + WEIGHT[start : start + x.shape[1]][None]

    return add


case(
    "b110",
    opt_add(False),
    OPT,
    "add",
    "The first S rows of the table are added although position 0 of OPT is row 2: the offset is left out.",
    "offset-missing",
    "slice from row 2",
    opt_add(True),
)


def ids(mode):
    def from_tokens(input_ids):
        t = np.asarray(input_ids)
        real = (t != 1).astype(np.int64)
        if mode == "padding-left":
            return np.where(real == 1, np.arange(t.shape[-1]) + 2, 1)
        if mode == "loop":
            out = np.full(t.shape, 1, np.int64)
            for row, line in zip(out.reshape(-1, t.shape[-1]), t.reshape(-1, t.shape[-1])):
                n = 1
                for s, token in enumerate(line):
                    if token != 1:
                        n += 1
                        row[s] = n
            return out
        return np.cumsum(real, -1) * real + 1

    return from_tokens


case(
    "b111",
    ids("padding-left"),
    ROBERTA,
    "ids_from_tokens",
    "Real tokens get their index in the row plus 2, so padding before or between tokens is counted; right for rows "
    "that are padded on the right.",
    "padding-counted",
    "cumulative sum of the mask",
    ids("ok"),
)
case(
    "b112",
    ids("loop"),
    ROBERTA,
    "ids_from_tokens",
    "Right: a counter that runs over the tokens of each row.",
    "right",
    right=True,
)


def wrapped(fixed):
    def table(positions):
        p = np.asarray(positions)
        return WEIGHT[p if fixed else p - 1]

    return table


case(
    "b113",
    wrapped(False),
    Learned(WEIGHT),
    "table",
    "Positions are taken to count from 1, so row p - 1 is read, and position 0 gets the last row by a negative index.",
    "row-off-by-one",
    "row p",
    wrapped(True),
)

# ---------------------------------------------------------------- Fourier features
B2 = rng.standard_normal((8, 2))
SAM_FF = FourierFeatures(B2, unit="turn", offset=-0.5, position_scale=2.0)
PI64 = FourierFeatures(B2, unit="half-turn")


def sam_pe(mode):
    def table(positions):
        v = np.moveaxis(np.asarray(positions, float), 0, -1)
        if mode == "yx":
            v = v[..., ::-1]
        u = 2 * v - 1 if mode != "half" else 2 * v - 0.5
        return concat(2 * np.pi * u @ B2.T).astype(np.float32)

    return table


case(
    "b114",
    sam_pe("yx"),
    SAM_FF,
    "table",
    "The coordinates are multiplied as (y, x) although the columns of the Gaussian matrix belong to (x, y).",
    "coordinates-exchanged",
    "keep (x, y)",
    sam_pe("ok"),
)
case(
    "b115",
    sam_pe("half"),
    SAM_FF,
    "table",
    "The shift of -0.5 is applied after the doubling (2v - 0.5) instead of before it (2 (v - 0.5) = 2v - 1).",
    "shift-after-scale",
    "2 v - 1",
    sam_pe("ok"),
)


def short_pi(pi):
    def table(positions):
        v = np.asarray(positions, float)
        return concat(pi * np.einsum("a...,ka->...k", v, B2))

    return table


case(
    "b116",
    short_pi(3.1416),
    PI64,
    "table",
    "pi is written as 3.1416, a relative error of 2e-6 in every angle, in float64.",
    "few-digits-pi",
    "np.pi",
    short_pi(np.pi),
    settings=dict(dtype="float64"),
)
NERF = FourierFeatures.nerf(6, num_axes=3, include_input=False)


def nerf(first):
    def table(positions):
        v = np.moveaxis(np.asarray(positions, float), 0, -1)
        parts = []
        for k in range(first, first + 6):
            parts += [np.sin(2.0**k * np.pi * v), np.cos(2.0**k * np.pi * v)]
        return np.concatenate(parts, -1).astype(np.float32)

    return table


case(
    "b117",
    nerf(1),
    NERF,
    "table",
    "The bands are 2^1 .. 2^L instead of 2^0 .. 2^(L-1): every frequency is doubled.",
    "band-start",
    "start at k = 0",
    nerf(0),
)

TW, TB = rng.standard_normal(10), rng.standard_normal(10)
T2V = Time2Vec(TW, TB)


def t2v(mode):
    def table(positions):
        t = np.asarray(positions, float)[..., None]
        a = t * TW + TB
        out = np.sin(t * TW) + TB if mode == "outside" else np.sin(a)
        out[..., 0] = a[..., 0]
        if mode == "all":
            out = np.sin(a)
        return out.astype(np.float32)

    return table


case(
    "b118",
    t2v("outside"),
    T2V,
    "table",
    "In the periodic components the phase is added to the sine instead of to its argument: sin(w t) + b.",
    "phase-outside",
    "sin(w t + b)",
    t2v("ok"),
)
case(
    "b119",
    t2v("all"),
    T2V,
    "table",
    "The linear component 0 goes through the sine as well.",
    "linear-missing",
    "leave component 0 linear",
    t2v("ok"),
)

# ---------------------------------------------------------------- axial, hybrid, standardised
E0, E1 = rng.standard_normal((16, 8)), rng.standard_normal((40, 12))
REFORMER = AxialLearned((E0, E1), flat=True)
DETR_L = AxialLearned((rng.standard_normal((50, 8)), rng.standard_normal((50, 8))), order=(1, 0))


def reformer(side):
    def table(positions):
        p = np.asarray(positions)
        return np.concatenate([E0[(p // side) % 16], E1[p % side]], -1)

    return table


case(
    "b120",
    reformer(16),
    REFORMER,
    "table",
    "The flat position is divided by the number of rows of the first table (16) instead of the last (40).",
    "divisor-of-other-axis",
    "divmod by the rows of the last axis",
    reformer(40),
)


def detr_learned(fixed):
    def grid(height, width):
        rows, cols = DETR_L.tables
        y = np.repeat(rows[:height], width, axis=0)
        x = np.tile(cols[:width], (height, 1))
        return np.concatenate([x, y] if fixed else [y, x], 1)

    return grid


case(
    "b121",
    detr_learned(False),
    DETR_L,
    "grid",
    "The columns of the row embedding come first; in DETR's learned table those of x come first.",
    "axis-column-order",
    "concatenate x, then y",
    detr_learned(True),
)
MIX = Hybrid((Sinusoidal(24), Learned(WEIGHT)))


def mix(factor):
    def add(x):
        S = x.shape[1]
        return (
            x
            + np.float32(inter(np.arange(S)[:, None] * omega(12))) * np.float32(factor)
            + WEIGHT[:S]
        )

    return add


case(
    "b122",
    mix(24**0.5),
    MIX,
    "add",
    "The sinusoidal part is multiplied by sqrt(dim) (the factor that belongs to the embedding), the learned part is "
    "not.",
    "factor-on-one-part",
    "no factor",
    mix(1.0),
)
PATCH = StandardizedSinusoidal(16, 42)


def patchtst(ddof):
    def table(positions):
        S = inter(np.arange(42)[:, None] * omega(8))
        z = (S - S.mean()) / (S.std(ddof=ddof) * 10)
        return z[np.asarray(positions)].astype(np.float32)

    return table


case(
    "b123",
    patchtst(0),
    PATCH,
    "table",
    "The standard deviation divides by n instead of n - 1 (numpy's default in place of torch's), 0.07 % too small.",
    "std-ddof",
    "ddof=1",
    patchtst(1),
)

# ---------------------------------------------------------------- images
MOCO = Sinusoidal2D(32, axis_order="wh", denominator="half-1")
DIT = Sinusoidal2D(32, axis_order="wh", extent=16.0)


def moco(mode):
    def grid(height, width):
        p = np.arange(height * width)
        side = height if mode == "height" else width
        y, x = p // side, p % side
        w = omega(8, denominator=7)
        return np.concatenate([concat(x[:, None] * w), concat(y[:, None] * w)], 1).astype(
            np.float32
        )

    return grid


case(
    "b124",
    moco("height"),
    MOCO,
    "grid",
    "The number of a patch is split by the height of the grid instead of its width, wrong for images that are not "
    "square.",
    "divisor-of-other-axis",
    "divmod by width",
    moco("ok"),
)


def dit(mode):
    def grid(height, width):
        n = (height, width) if mode != "ends" else (max(height - 1, 1), max(width - 1, 1))
        y, x = np.meshgrid(
            np.arange(height) * 16.0 / n[0], np.arange(width) * 16.0 / n[1], indexing="ij"
        )
        w = omega(8)
        return np.concatenate([concat(c.ravel()[:, None] * w) for c in (x, y)], 1).astype(
            np.float32
        )

    return grid


case(
    "b125",
    dit("ends"),
    DIT,
    "grid",
    "Patch i of n is put at i extent / (n - 1), so that the last patch is at the end, instead of i extent / n.",
    "divisor-off-by-one",
    "divide by n",
    dit("ok"),
)
VIDEO = Sinusoidal3D((8, 12, 12))


def video(mode):
    def table(positions):
        t, y, x = np.asarray(positions, float)
        parts = []
        for p, s in ((t, 8), (y, 12), (x, 12)):
            n = 32 / 6 if mode == "third" else s / 2
            parts.append(concat(p[:, None] * omega(s // 2, denominator=n)))
        return np.concatenate(parts, 1).astype(np.float32)

    return table


case(
    "b126",
    video("third"),
    VIDEO,
    "table",
    "The exponents of every axis are divided by a third of the width (32/6 pairs) instead of the axis's own number of "
    "pairs (4, 6, 6).",
    "denominator-of-whole",
    "k / (s/2) with the axis's own s",
    video("ok"),
)
BOX = BoxSine(64)


def box(order):
    def table(positions):
        c = dict(zip("xywh", np.asarray(positions, float)))
        w = 10000.0 ** (-2 * np.arange(8) / 16)
        return np.concatenate([inter(2 * np.pi * c[a][..., None] * w) for a in order], -1).astype(
            np.float32
        )

    return table


case(
    "b127",
    box("yxhw"),
    BOX,
    "table",
    "The columns of h come before those of w; DAB-DETR exchanges x and y only.",
    "box-size-order",
    "y, x, w, h",
    box("yxwh"),
)
DEFORM = DETRSine(32, shift=-0.5)


def deformable(mode):
    def grid(height, width):
        def norm(c, last):
            if mode == "after":
                return (c / (last + 1e-6) - 0.5) * 2 * np.pi
            return (c - 0.5) / (last + 1e-6) * 2 * np.pi

        y, x = norm(np.arange(1, height + 1.0), height), norm(np.arange(1, width + 1.0), width)
        w = 10000.0 ** (-2 * np.arange(8) / 16)
        a, b = inter(y[:, None] * w), inter(x[:, None] * w)
        return np.concatenate([np.repeat(a, width, 0), np.tile(b, (height, 1))], 1).astype(
            np.float32
        )

    return grid


case(
    "b128",
    deformable("after"),
    DEFORM,
    "grid",
    "The shift of -0.5 is subtracted from the normalised coordinate (half the image) instead of from the pixel count "
    "(half a pixel).",
    "shift-after-normalise",
    "(count - 0.5) / last",
    deformable("ok"),
)


def complex_view(positions):
    z = 1j * np.conj(
        np.exp(1j * (np.asarray(positions, float)[..., None] * omega(16)))
    )  # sin + i cos
    return z.view(np.float64).astype(np.float32)


case(
    "b129",
    complex_view,
    Sinusoidal(32),
    "table",
    "Right: i conj(exp(i angle)) = sin + i cos, whose memory is the interleaved table.",
    "right",
    right=True,
)


def timm(height, width):
    w = omega(8)
    gy, gx = np.indices((height, width)).reshape(2, -1)
    a = np.stack([gy, gx], 1)[:, :, None] * w
    return np.concatenate([np.sin(a).reshape(len(a), -1), np.cos(a).reshape(len(a), -1)], 1).astype(
        np.float32
    )


case(
    "b130",
    timm,
    Sinusoidal2D(32, layout="grouped"),
    "grid",
    "Right: the sines of both axes before the cosines of both, by one outer product.",
    "right",
    right=True,
)


def nerf_doubling(positions):
    v = np.moveaxis(np.asarray(positions, float), 0, -1)
    s, c = np.sin(np.pi * v), np.cos(np.pi * v)
    parts = []
    for _ in range(6):
        parts += [s, c]
        s, c = 2 * s * c, c * c - s * s
    return np.concatenate(parts, -1).astype(np.float32)


case(
    "b131",
    nerf_doubling,
    NERF,
    "table",
    "Right: the bands follow from each other by the double-angle formulas in float64.",
    "right",
    right=True,
)


def sin_phase(fixed):
    """sin of (angle + pi/2) for cosines, in float32."""

    def table(positions):
        p = np.asarray(positions, np.float32)[..., None]
        w = omega(32).astype(np.float32)
        a = p * w
        half = np.float32(np.pi / 2)
        if fixed:
            return concat(a.astype(np.float64)).astype(np.float32)
        return np.concatenate([np.sin(a), np.sin(np.round((a + half) * 1024) / 1024)], -1).astype(
            np.float32
        )

    return table


case(
    "b132",
    sin_phase(False),
    Sinusoidal(64, layout="concat"),
    "table",
    "Cosines are sines of angle + pi/2 rounded to multiples of 1/1024 radian; the sine columns are exact.",
    "cosine-phase-rounded",
    "np.cos(angle)",
    sin_phase(True),
)
