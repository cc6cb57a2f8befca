"""Tables: table, add, grid, rows, convolve (f097 - f120)."""
import numpy as np

from posenc_ref import (AxialLearned, BoxSine, ConvPositions, DETRSine, FourierFeatures, Hybrid, Learned, Sinusoidal,
                        Sinusoidal2D, Sinusoidal3D, StandardizedSinusoidal, Time2Vec)

CASES = []


def case(id, make, encoding, surface, cause, key="", remedy="", right=False, **settings):
    CASES.append(dict(id=id, fn=make if right else make(True), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def waves(p, n, base=10000.0, count=None):
    """p (...) -> (..., count): p * base ** (-k/n)."""
    k = np.arange(count or int(n))
    return np.asarray(p, np.float64)[..., None] * base ** (-k / n)


# -- f097: cosine columns with their own exponent ---------------------------------------------------
def make(bug):
    def table(positions):
        p, out = np.asarray(positions, np.float64), np.zeros((len(positions), 64), np.float32)
        for i in range(64):
            e = i if bug else i // 2 * 2
            a = p / 10000.0 ** (e / 64)
            out[:, i] = np.cos(a) if i % 2 else np.sin(a)
        return out
    return table


case("f097", make, Sinusoidal(64), "table",
     "The exponent is i/d with the column number i also in cosine columns, which should have the exponent (i-1)/d of their "
     "sine.", "cos-exponent", "Use 2*(i//2)/d.")


# -- f098: odd dim, zero column in front ----------------------------------------------------------------
def make(bug):
    def table(positions):
        a = waves(positions, 16.5, count=16)
        z = np.zeros((*a.shape[:-1], 1))
        cols = [np.sin(a), z, np.cos(a)] if bug else [np.sin(a), np.cos(a), z]
        return np.concatenate(cols, -1).astype(np.float32)
    return table


case("f098", make, Sinusoidal(33, layout="concat", odd="zero-pad"), "table",
     "For the odd size 33 the column of zeros stands between sines and cosines instead of at the end.", "zero-column",
     "Append the zeros after the cosines.")


# -- f099: Whisper: denominator d/2 -------------------------------------------------------------------------
def make(bug):
    def sinusoids(positions):
        n = 40
        step = np.log(10000.0) / (n if bug else n - 1)
        a = np.asarray(positions, np.float64)[:, None] * np.exp(-step * np.arange(n))[None]
        return np.hstack([np.sin(a), np.cos(a)]).astype(np.float32)
    return sinusoids


case("f099", make, Sinusoidal(80, layout="concat", denominator="half-1"), "table",
     "The timescales are spaced by log(base)/(d/2) instead of log(base)/(d/2 - 1).", "denominator", "Divide by n - 1.")


# -- f100: fairseq offset --------------------------------------------------------------------------------------
def make(bug):
    def table(positions):
        p = np.asarray(positions) + (1 if bug else 2)
        a = waves(p, 15, count=16)
        return np.concatenate([np.sin(a), np.cos(a)], -1)
    return table


case("f100", make, Sinusoidal(32, layout="concat", denominator="half-1", offset=2), "table",
     "Positions start at padding_idx = 1 instead of padding_idx + 1 = 2.", "table-offset", "Add 2.")


# -- f101: bf16-like rows: positions in float16 tables ---------------------------------------------------------
def make(bug):
    def table(positions):
        freq = 10000.0 ** (-np.arange(32) / 32)
        if bug:
            freq = np.round(freq, 4)
        a = np.asarray(positions, np.float64)[:, None] * freq
        out = np.empty((a.shape[0], 64))
        out[:, ::2], out[:, 1::2] = np.sin(a), np.cos(a)
        return out.astype(np.float32)
    return table


case("f101", make, Sinusoidal(64), "table",
     "The frequencies are constants with four decimal places: the slowest (0.000133, 0.000178) are 0.0001 and 0.0002.",
     "rounded-frequencies", "Compute the frequencies in double precision.")


# -- f102 right: Horner-free complex powers by blocks ------------------------------------------------------------
def complex_rows(positions):
    p = np.asarray(positions, np.float64)
    z = np.exp(1j * waves(p, 32, count=32))
    return np.ascontiguousarray(np.stack([z.imag, z.real], -1).reshape(*p.shape, 64))


case("f102", complex_rows, Sinusoidal(64), "table", "Right: imaginary and real part of e^(i angle), float64 result.", right=True)


# -- f103: add: rows of the flattened batch ------------------------------------------------------------------------
def make(bug):
    def add(x):
        b, s, d = x.shape
        p = np.arange(b * s) if bug else np.tile(np.arange(s), b)
        a = waves(p, d / 2, count=d // 2)
        pe = np.stack([np.sin(a), np.cos(a)], -1).reshape(b, s, d)
        return (x + pe).astype(x.dtype)
    return add


case("f103", make, Sinusoidal(64), "add",
     "Positions run on through the flattened batch: row b starts at b*S instead of 0.", "batch-continues",
     "Restart at 0 in every row.")


# -- f104: add: x scaled ------------------------------------------------------------------------------------------------
def make(bug):
    def add(x):
        d = x.shape[-1]
        a = waves(np.arange(x.shape[1]), d // 2 - 1, count=d // 2)
        pe = np.concatenate([np.sin(a), np.cos(a)], -1)
        return ((x * np.sqrt(d) if bug else x) + pe).astype(x.dtype)
    return add


case("f104", make, Sinusoidal(32, layout="concat", denominator="half-1"), "add",
     "x is multiplied by sqrt(d) before the table is added.", "embedding-scale", "Leave x as it is: the caller scales it.")


# -- f105: add: blocks of 128 tokens, last row of a block repeated ------------------------------------------------------------
def make(bug):
    t = np.random.default_rng(105).normal(size=(4096, 16)).astype(np.float32)

    def add(x):
        y = x.copy()
        for at in range(0, x.shape[1], 32):
            n = min(32, x.shape[1] - at)
            start = at - 1 if bug and at else at
            y[:, at:at + n] += t[start:start + n]
        return y
    add.table = t
    return add


case("f105", make, Learned(make(False).table), "add",
     "Blocks of 32 tokens after the first start one row early (row 31 is used for tokens 31 and 32): from token 32 on each gets "
     "the row before.", "block-start", "Start block n at row 32 n.")


# -- f106: grid: column by column -------------------------------------------------------------------------------------------------
def sin2(y, x, d, n=None, layout="concat"):
    q = d // 4
    a, b = waves(y, n or q, count=q), waves(x, n or q, count=q)
    return np.concatenate([np.sin(a), np.cos(a), np.sin(b), np.cos(b)], -1)


def make(bug):
    def grid(height, width):
        i = np.arange(height * width)
        y, x = (i // height, i % height) if bug else (i // width, i % width)
        return sin2(y, x, 32).astype(np.float32)
    return grid


case("f106", make, Sinusoidal2D(32), "grid",
     "Row and column of token i are i // height and i % height; on images that are not square the width is meant.",
     "divided-by-height", "Divide by the width.")


# -- f107: grid: extent with end point --------------------------------------------------------------------------------------------------
def make(bug):
    def grid(height, width):
        y = np.linspace(0, 16, height, endpoint=bool(bug))
        x = np.linspace(0, 16, width, endpoint=bool(bug))
        g, h = np.meshgrid(y, x, indexing="ij")
        return sin2(h.ravel(), g.ravel(), 32)
    return grid


case("f107", make, Sinusoidal2D(32, axis_order="wh", extent=16.0), "grid",
     "Positions are linspace(0, extent, n) with the end point (i extent/(n-1)) instead of i extent/n.", "extent-endpoint",
     "Use endpoint=False.")


# -- f108: grid: grouped instead of concat ------------------------------------------------------------------------------------------------
def make(bug):
    def grid(height, width):
        y, x = np.divmod(np.arange(height * width), width)
        t = sin2(y, x, 32)
        order = np.r_[0:8, 16:24, 8:16, 24:32]
        return t if bug else t[:, order]
    return grid


case("f108", make, Sinusoidal2D(32, layout="grouped"), "grid",
     "The columns are ordered by axis (sin y, cos y, sin x, cos x), not grouped as sines of both axes before cosines of both.",
     "column-order", "Put sin y, sin x, cos y, cos x.")


# -- f109: video: sections ---------------------------------------------------------------------------------------------------------------------
def make(bug):
    def table(positions):
        t, h, w = np.asarray(positions, np.float64)
        out = []
        for p, s in ((t, 8), (h, 12), (w, 12)):
            n = 16 / 2 if bug and s == 12 else s / 2
            a = waves(p, n, count=s // 2)
            out += [np.sin(a), np.cos(a)]
        return np.concatenate(out, -1)
    return table


case("f109", make, Sinusoidal3D((8, 12, 12)), "table",
     "The exponents of height and width are k/8, as for 16 columns, instead of k/6 for their 12 columns; time is right.",
     "section-denominator", "Divide by half of the axis's own number of columns.")


# -- f110: NeRF without pi -----------------------------------------------------------------------------------------------------------------------
def make(bug):
    def table(positions):
        v = np.asarray(positions, np.float64)                 # (3, S)
        out = []
        for level in range(6):
            a = 2.0 ** level * v.T * (1 if bug else np.pi)
            out += [np.sin(a), np.cos(a)]
        return np.concatenate(out, -1)
    return table


case("f110", make, FourierFeatures.nerf(6, include_input=False), "table",
     "The angles are 2^l x without the factor pi.", "nerf-pi", "Multiply by pi.")

# -- f111: SAM coordinates not mapped to -1 .. 1 -------------------------------------------------------------------------------------------------
G = np.random.default_rng(111).normal(size=(16, 2))


def make(bug):
    def table(positions):
        u = np.asarray(positions, np.float64) * 2 - (0 if bug else 1)
        a = 2 * np.pi * (G @ u.reshape(2, -1)).T
        return np.concatenate([np.sin(a), np.cos(a)], -1).reshape(*np.shape(positions)[1:], 32)
    return table


case("f111", make, FourierFeatures(G, unit="turn", offset=-0.5, position_scale=2.0), "table",
     "Coordinates are doubled but not moved by -1: 0 .. 1 becomes 0 .. 2 instead of -1 .. 1.", "centred-coordinates",
     "Use 2 v - 1.")


# -- f112: Perceiver with geometric bands ----------------------------------------------------------------------------------------------------------
def make(bug):
    def bands(size):
        return np.geomspace(1.0, size / 2, 8) if bug else np.linspace(1.0, size / 2, 8)

    def table(positions):
        v = np.asarray(positions, np.float64)
        a = np.concatenate([np.pi * v[i][..., None] * bands(s) for i, s in enumerate((32, 64))], -1)
        return np.concatenate([np.moveaxis(v, 0, -1), np.sin(a), np.cos(a)], -1)
    return table


case("f112", make, FourierFeatures.perceiver(8, (32, 64)), "table",
     "The 8 bands are spaced geometrically between 1 and half the resolution instead of evenly.", "band-spacing",
     "Use linspace.")

# -- f113: Time2Vec phase -----------------------------------------------------------------------------------------------------------------------------
TW, TB = np.random.default_rng(113).normal(size=(2, 12))


def make(bug):
    def table(positions):
        t = np.asarray(positions, np.float64)[..., None]
        line = t * TW[:1] + TB[:1]
        wave = np.sin(t * TW[1:]) + TB[1:] if bug else np.sin(t * TW[1:] + TB[1:])
        return np.concatenate([line, wave], -1)
    return table


case("f113", make, Time2Vec(TW, TB), "table",
     "The biases of the periodic components are added to the sine, not inside its argument.", "phase-outside",
     "Compute sin(w t + b).")

# -- f114: axial table with exchanged strides -----------------------------------------------------------------------------------------------------------------
E0, E1 = (np.random.default_rng(s).normal(size=n).astype(np.float32) for s, n in ((1, (24, 8)), (2, (40, 8))))


def make(bug):
    def table(positions):
        p = np.asarray(positions)
        a, b = (p % 24, p // 24) if bug else (p // 40, p % 40)
        return np.concatenate([E0[a], E1[b]], -1)
    return table


case("f114", make, AxialLearned((E0, E1), flat=True), "table",
     "A flat position is split as (p % 24, p // 24), with axis 0 running fastest, instead of (p // 40, p % 40).",
     "axial-order", "Let the last axis run fastest.")


# -- f115: PatchTST: deviation with n ---------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def make_rows():
        a = waves(np.arange(12), 4, count=4)
        t = np.stack([np.sin(a), np.cos(a)], -1).reshape(12, 8)
        return t.mean(), t.std(ddof=0 if bug else 1)

    def table(positions):
        mean, std = make_rows()
        a = waves(positions, 4, count=4)
        t = np.stack([np.sin(a), np.cos(a)], -1).reshape(*np.shape(positions), 8)
        return (t - mean) / (10 * std)
    return table


case("f115", make, StandardizedSinusoidal(8, 12), "table",
     "The standard deviation divides by n (numpy.std) instead of n - 1.", "ddof", "Use ddof=1.")


# -- f116: boxes: h before w --------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def table(positions):
        x, y, w, h = np.asarray(positions, np.float64)
        out = []
        for c in (y, x, h, w) if bug else (y, x, w, h):
            a = 2 * np.pi * waves(c, 4, count=4)
            out.append(np.stack([np.sin(a), np.cos(a)], -1).reshape(*c.shape, 8))
        return np.concatenate(out, -1)
    return table


case("f116", make, BoxSine(32), "table",
     "The columns of the box's height come before those of its width.", "box-order", "Use the order y, x, w, h.")


# -- f117: rows: learned table with two padding rows ------------------------------------------------------------------------------------------------------------------
OPT = np.random.default_rng(117).normal(size=(514, 12)).astype(np.float32)


def make(bug):
    def rows(seq_len):
        at = np.arange(seq_len) + 2
        if bug:
            at = np.minimum(at, 256)
        return OPT[at]
    return rows


case("f117", make, Learned(OPT, offset=2), "rows",
     "Row numbers are clamped to 256: from position 254 on all tokens share one row.", "row-clamp",
     "Clamp to the last row of the table or not at all.")


# -- f118: wav2vec: the first token is dropped ------------------------------------------------------------------------------------------------------------------------------
CW = np.random.default_rng(118).normal(size=(8, 4, 6)).astype(np.float32) * 0.3
CB = np.random.default_rng(119).normal(size=8).astype(np.float32)


def make(bug):
    def convolve(x):
        b, s, d = x.shape
        pad = np.pad(x.astype(np.float64), ((0, 0), (3, 3), (0, 0)))
        out = np.zeros((b, s + 1, 8)) + CB
        for k in range(6):
            for g in range(2):
                out[..., 4 * g:4 * g + 4] += pad[:, k:k + s + 1, 4 * g:4 * g + 4] @ CW[4 * g:4 * g + 4, :, k].T
        return (out[:, 1:] if bug else out[:, :-1]).astype(x.dtype)
    return convolve


case("f118", make, ConvPositions((CW,), (CB,), groups=2, activation="none"), "convolve",
     "The even kernel makes one token too many and the first is dropped instead of the last: everything is one token early.",
     "even-kernel", "Drop the last token.")


# -- f119: DETR: normalised by the size of the padded image plus one -------------------------------------------------------------------------------------------------------------
def make(bug):
    def grid(height, width):
        y, x = np.divmod(np.arange(height * width), width)
        a = (y + 1.0) / (max(height, width) + 1e-6 if bug else height + 1e-6) * 2 * np.pi
        b = (x + 1.0) / (max(height, width) + 1e-6 if bug else width + 1e-6) * 2 * np.pi
        both = [waves(c, 8, count=8) for c in (a, b)]
        return np.concatenate([np.stack([np.sin(w), np.cos(w)], -1).reshape(-1, 16) for w in both], -1)
    return grid


case("f119", make, DETRSine(32), "grid",
     "Both axes are normalised by the longer side of the image instead of each by its own last value.", "normalise-longest",
     "Divide y by the height and x by the width.")


# -- f120 right: image table from outer sums ------------------------------------------------------------------------------------------------------------------------------------------
def grid_blocks(height, width):
    a = waves(np.arange(max(height, width)), 7, count=8)
    t = np.concatenate([np.sin(a), np.cos(a)], -1)
    out = np.empty((height, width, 32))
    out[..., :16], out[..., 16:] = t[None, :width], t[:height, None]
    return out.reshape(-1, 32)


case("f120", grid_blocks, Sinusoidal2D(32, axis_order="wh", denominator="half-1"), "grid",
     "Right: one 1-D table, broadcast along rows and columns of the grid.", right=True)
