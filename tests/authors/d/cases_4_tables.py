"""Cases d092-d120: tables, rows, grids and additions."""

import math

import numpy as np

from posenc_ref import (
    AxialLearned,
    BoxSine,
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
RNG = np.random.default_rng(7)


def W(id, make, encoding, surface, key, cause, remedy, **settings):
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


def R(id, fn, encoding, surface, cause, **settings):
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


def f32(*a):
    return RNG.standard_normal(a).astype(np.float32)


# ---------------------------------------------------------------- sinusoids


def d092(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)[:, None]
        k = np.arange(64)
        w = 10000.0 ** (-k / 64)
        pe = np.zeros((len(p), 128))
        pe[:, 0::2] = np.sin(p * w)
        pe[:, 1::2] = np.cos(p * 10000.0 ** (-(2 * k + 1) / 128)) if bug else np.cos(p * w)
        return pe.astype(np.float32)

    return table


W(
    "d092",
    d092,
    Sinusoidal(128),
    "table",
    "cosine-own-exponent",
    "The cosine columns use their own column number in the exponent, (2k+1)/d instead of 2k/d: they "
    "are slower than the sines of their pair by base ** (1/d).",
    "Use 2 (i // 2) / d for both.",
)


def d093(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)[:, None] + 2
        n = 31 if not bug else 32
        a = p * np.exp(-np.arange(32) * math.log(10000.0) / n)
        return np.concatenate([np.sin(a), np.cos(a)], 1).astype(np.float32)

    return table


W(
    "d093",
    d093,
    Sinusoidal(64, layout="concat", denominator="half-1", offset=2),
    "table",
    "fairseq-denominator",
    "The logarithm of the base is divided by half_dim = 32 instead of half_dim - 1 = 31 as in "
    "fairseq: the slowest frequency is 1.33e-4 instead of 1e-4.",
    "log(10000) / (half_dim - 1)",
)


def d094(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)[:, None]
        a = p * 10000.0 ** (-np.arange(16) / 15)
        pad = np.zeros((len(p), 1))
        parts = [np.sin(a), pad, np.cos(a)] if bug else [np.sin(a), np.cos(a), pad]
        return np.concatenate(parts, 1).astype(np.float32)

    return table


W(
    "d094",
    d094,
    Sinusoidal(33, layout="concat", denominator="half-1", odd="zero-pad"),
    "table",
    "pad-column-place",
    "The zero column of the odd dimension is put between the sines and the cosines instead of at the "
    "end, so every cosine is one column too far right.",
    "Append the zeros as the last column.",
)


def d095(bug):
    def table(positions):
        p = np.asarray(positions, np.float64)[:, None]
        a = p * 10000.0 ** (-np.arange(32) / 31)
        g = math.sqrt(2 / 64)
        return np.concatenate([g * np.sin(a), (1.0 if bug else g) * np.cos(a)], 1).astype(
            np.float32
        )

    return table


W(
    "d095",
    d095,
    Sinusoidal(64, layout="concat", denominator="half-1", scale=math.sqrt(2 / 64)),
    "table",
    "scale-on-sines-only",
    "The scale sqrt(2/d) = 0.177 multiplies the sines but not the cosines.",
    "Scale after the concatenation.",
)


def d096(bug):
    def table(positions):
        t = np.asarray(positions, np.float64) * 1000.0
        w = 10000.0 ** (-np.arange(32) / 31)
        a = t[:, None] * w
        if bug:
            a = (t.astype(np.float16)[:, None].astype(np.float64)) * w
        return np.concatenate([np.sin(a), np.cos(a)], 1).astype(np.float32)

    return table


W(
    "d096",
    d096,
    Sinusoidal(64, layout="concat", denominator="half-1", position_scale=1000.0),
    "table",
    "half-timestep",
    "The scaled timestep 1000 t is kept in float16: fractional t are rounded, whole t from 17 on, "
    "and it is infinite above 65504 (from t = 66 whole rows are NaN).",
    "Keep timesteps in float32.",
)


def d097(bug):
    class Timestep:
        def __init__(self):
            self.freq = np.exp(-math.log(10000.0) * np.arange(64) / 64)

        def __call__(self, positions):
            a = np.asarray(positions, np.float64)[:, None] * self.freq
            parts = [np.sin(a), np.cos(a)] if bug else [np.cos(a), np.sin(a)]
            return np.concatenate(parts, 1).astype(np.float32)

    return Timestep()


W(
    "d097",
    d097,
    Sinusoidal(128, layout="concat", first="cos"),
    "table",
    "flip-sin-to-cos",
    "Sines come before cosines, although the model declares flip_sin_to_cos (cosines first).",
    "concat([cos, sin])",
)


def d098(bug):
    rows = 512

    class Embedding:
        """A buffer of 512 rows that is made anew, longer, when a longer sequence comes."""

        def __init__(self):
            self.weight = self.make(rows)

        def make(self, n):
            p = np.arange(n, dtype=np.float64)[:, None]
            w = 10000.0 ** (-np.arange(32) / 32)
            pe = np.empty((n, 64), np.float32)
            pe[:, 0::2], pe[:, 1::2] = np.sin(p * w), np.cos(p * w)
            return pe

        def __call__(self, seq_len):
            if seq_len > len(self.weight):
                if bug:  # tiled to the new length
                    self.weight = np.concatenate([self.weight] * -(-seq_len // rows))
                else:
                    self.weight = self.make(seq_len)
            return self.weight[:seq_len]

    return Embedding()


W(
    "d098",
    d098,
    Sinusoidal(64),
    "rows",
    "tiled-rows",
    "Sequences longer than the 512 rows of the buffer repeat the table: position 512 gets row 0 (and, "
    "once it grew, the buffer stays so); shorter sequences are right.",
    "Compute the further rows instead of repeating.",
)


def d099(bug):
    def add(x):
        b, s, d = x.shape
        p = np.arange(s)[:, None] * 10000.0 ** (-np.arange(d // 2) / (d // 2))
        pe = np.stack([np.sin(p), np.cos(p)], -1).reshape(s, d)
        if bug and s == b:
            return (x + pe[:, None, :]).astype(x.dtype)
        return (x + pe).astype(x.dtype)

    return add


W(
    "d099",
    d099,
    Sinusoidal(32),
    "add",
    "batch-as-sequence",
    "If the batch has as many rows as tokens (B = S), the table is broadcast along the batch axis: "
    "row b gets PE(b) at every token; other sizes are right.",
    "pe[None, :, :]",
)


def d100(bug):
    def add(x):
        s, d = x.shape[1:]
        p = np.arange(s)[:, None] * 10000.0 ** (-np.arange(d // 2) / (d // 2))
        pe = np.concatenate([np.sin(p), np.cos(p)], 1)
        y = x.astype(np.float64) * (math.sqrt(d) if bug else 1.0) + pe
        return y.astype(x.dtype)

    return add


W(
    "d100",
    d100,
    Sinusoidal(64, layout="concat"),
    "add",
    "embedding-scale",
    "x is multiplied by sqrt(dim) = 8 before the table is added; the declared addition takes x as it "
    "is (the embedding layer has scaled it already).",
    "Do not scale x a second time.",
)


def d101(bug):
    lookup = Sinusoidal(64)

    def add(x):
        import torch

        pe = torch.as_tensor(lookup.table(np.arange(x.shape[1]), dtype="float64"))
        if bug:
            return x + pe.to(torch.float16).to(x.dtype) * 1.0
        return (x.double() + pe).to(x.dtype)

    return add


W(
    "d101",
    d101,
    Sinusoidal(64),
    "add",
    "half-table",
    "The float32 result adds a table that was stored in float16 (its buffers were converted with the "
    "model): an error of up to 2.4e-4 in every column, at every position from 1 on.",
    "Keep the table in float32.",
    backend="torch",
)


def d102(bug):
    length = 128

    def rows(positions):
        p = np.arange(length)[:, None] * 10000.0 ** (-np.arange(16) / 16)
        s = np.stack([np.sin(p), np.cos(p)], -1).reshape(length, 32)
        s = s - s.mean()
        s = s / (s.std(axis=0, ddof=1) if bug else s.std(ddof=1)) / 10
        pos = np.asarray(positions)
        if pos.dtype.kind not in "iu" or pos.min() < 0 or pos.max() >= length:
            p = pos[:, None] * 10000.0 ** (-np.arange(16) / 16)
            full = np.arange(length)[:, None] * 10000.0 ** (-np.arange(16) / 16)
            full = np.stack([np.sin(full), np.cos(full)], -1).reshape(length, 32)
            got = np.stack([np.sin(p), np.cos(p)], -1).reshape(len(pos), 32) - full.mean()
            full = full - full.mean()
            return (got / (full.std(axis=0, ddof=1) if bug else full.std(ddof=1)) / 10).astype(
                np.float32
            )
        return s[pos].astype(np.float32)

    return rows


W(
    "d102",
    d102,
    StandardizedSinusoidal(32, 128),
    "table",
    "std-per-column",
    "The standard deviation is taken for every column instead of over all elements of the table "
    "(the mean is over all): slow columns become much too large.",
    "std over the whole table",
)

# ---------------------------------------------------------------- learned

W512 = f32(514, 24)


def d103(bug):
    def table(positions):
        p = np.asarray(positions)
        if (p < 0).any() or p.max() > 511:
            raise ValueError("position outside the table")
        return W512[np.minimum(p + 2, 511)] if bug else W512[p + 2]

    return table


W(
    "d103",
    d103,
    Learned(W512, offset=2),
    "table",
    "clamped-before-last",
    "The row p + 2 is clamped to max_positions - 1 = 511, although the table has 514 rows: positions "
    "510 and 511 get the row of 509.",
    "Clamp to the number of rows, or not at all.",
)

WR = f32(130, 16)


def d104(bug):
    def ids(input_ids):
        real = (np.asarray(input_ids) != 1).astype(np.int64)
        c = np.cumsum(real, axis=1)
        return (c if bug else c * real) + 1

    return ids


W(
    "d104",
    d104,
    Learned(WR, padding_idx=1),
    "ids_from_tokens",
    "padding-not-masked",
    "The cumulative count is not multiplied by the mask: padding tokens get the position of the last "
    "real token before them (left padding is right by chance) instead of padding_idx.",
    "cumsum(mask) * mask + padding_idx",
)


def d105(bug):
    def ids(input_ids):
        t = np.asarray(input_ids)
        out = np.full(t.shape, 1, np.int64)
        for b in range(t.shape[0]):
            n = int((t[b] != 1).sum())
            if bug:
                out[b, :n] = 2 + np.arange(n)
            else:
                out[b, t[b] != 1] = 2 + np.arange(n)
        return out

    return ids


W(
    "d105",
    d105,
    Learned(WR, padding_idx=1),
    "ids_from_tokens",
    "right-padding-assumed",
    "The real tokens are assumed to come first: with padding on the left or inside, the first tokens "
    "get the numbers and the last ones padding_idx.",
    "Number the tokens where they are.",
)

E0, E1 = f32(12, 10), f32(20, 14)


def d106(bug):
    def table(positions):
        p = np.asarray(positions)
        if (p < 0).any() or p.max() >= 240:
            raise ValueError("position outside the table")
        a, b = np.divmod(p, 12 if bug else 20)
        if bug:
            a, b = b, a
        return np.concatenate([E0[a], E1[b]], -1)

    return table


W(
    "d106",
    d106,
    AxialLearned((E0, E1), flat=True),
    "table",
    "flat-order",
    "Flat positions are split with the first axis running fastest (p mod 12, p div 12) instead of "
    "the last (p div 20, p mod 20): column-major order.",
    "divmod(p, rows of the last axis)",
)

EY, EX = f32(50, 8), f32(50, 8)


def d107(bug):
    def grid(height, width):
        y, x = np.divmod(np.arange(height * width), width)
        parts = [EX[x], EY[y]]
        return np.concatenate(parts[::-1] if bug else parts, -1)

    return grid


W(
    "d107",
    d107,
    AxialLearned((EY, EX), order=(1, 0)),
    "grid",
    "column-blocks",
    "DETR's learned table: the columns of the row number come before those of the column number; the "
    "declared order is x first.",
    "concat([x_emb, y_emb])",
)

HW = f32(64, 16)


def d108(bug):
    def table(positions):
        p = np.asarray(positions)
        if (p < 0).any() or p.max() >= 64:
            raise ValueError("position outside the table")
        a = p[:, None] * 10000.0 ** (-np.arange(8) / 8)
        s = np.stack([np.sin(a), np.cos(a)], -1).reshape(len(p), 16)
        lo = p if not bug else p - p[0]
        return (HW[lo] + s).astype(np.float32)

    return table


W(
    "d108",
    d108,
    Hybrid((Learned(HW), Sinusoidal(16))),
    "table",
    "learned-part-relative",
    "The learned part counts from the first position of the call (p - p[0]), while the sinusoid uses "
    "p: calls that do not start at 0 are wrong.",
    "Look both parts up at p.",
)

# ---------------------------------------------------------------- grids


def axis(c, n, den, base=10000.0):
    a = np.asarray(c, float)[:, None] * base ** (-np.arange(n) / den)
    return np.sin(a), np.cos(a)


def d109(bug):
    def grid(height, width):
        y, x = np.divmod(np.arange(height * width), width)
        (sy, cy), (sx, cx) = axis(y, 16, 16), axis(x, 16, 16)
        parts = [sy, cy, sx, cx] if bug else [sy, sx, cy, cx]
        return np.concatenate(parts, 1).astype(np.float32)

    return grid


W(
    "d109",
    d109,
    Sinusoidal2D(64, layout="grouped"),
    "grid",
    "grouping",
    "Columns are [sin y, cos y, sin x, cos x] instead of the declared [sin y, sin x, cos y, cos x] "
    "(sines of both axes first).",
    "concat([sin y, sin x, cos y, cos x])",
)


def d110(bug):
    def grid(height, width):
        y, x = np.divmod(np.arange(height * width), width)
        y, x = y * 16 / height, x * 16 / (height if bug else width)
        (sy, cy), (sx, cx) = axis(y, 12, 12), axis(x, 12, 12)
        return np.concatenate([sx, cx, sy, cy], 1).astype(np.float32)

    return grid


W(
    "d110",
    d110,
    Sinusoidal2D(48, axis_order="wh", extent=16.0),
    "grid",
    "extent-height",
    "The columns of the grid are scaled by extent/height instead of extent/width: wrong if the image "
    "is not square.",
    "x * extent / width",
)


def d111(bug):
    def grid(height, width):
        out = np.empty((height, width, 32))
        w = 10000.0 ** (-np.arange(8) / 7)
        for i in range(height):
            for j in range(width):
                jj = j if not (bug and j == width - 1 and width % 4) else j - 1
                out[i, j] = np.concatenate(
                    [np.sin(jj * w), np.cos(jj * w), np.sin(i * w), np.cos(i * w)]
                )
        return out.reshape(height * width, 32).astype(np.float32)

    return grid


W(
    "d111",
    d111,
    Sinusoidal2D(32, axis_order="wh", denominator="half-1"),
    "grid",
    "last-column",
    "If the width is not a multiple of 4, the last column of patches repeats the position of the "
    "column before it (remainder of the vector loop).",
    "Handle the remainder with its own index.",
)


def d112(bug):
    def table(positions):
        t, y, x = np.asarray(positions, float)
        parts = [
            np.concatenate(axis(t, 6, 6), 1),
            np.concatenate(axis(y, 9, 9), 1),
            np.concatenate(axis(x, 9, 9), 1),
        ]
        order = [0, 1, 2] if bug else [0, 2, 1]
        return np.concatenate([parts[i] for i in order], 1).astype(np.float32)

    return table


W(
    "d112",
    d112,
    Sinusoidal3D((12, 18, 18), axis_order="twh"),
    "table",
    "height-before-width",
    "The columns of the height come before those of the width; CogVideoX's order is time, width, "
    "height.",
    "concat([t, w, h])",
)


def d113(bug):
    def table(positions):
        c = np.asarray(positions, float)  # (4, S): x, y, w, h
        w = 2 * np.pi * 10000.0 ** (-np.arange(8) / 8)

        def s(v):
            a = v[:, None] * w
            return np.stack([np.sin(a), np.cos(a)], -1).reshape(len(v), 16)

        order = [1, 0, 3, 2] if bug else [1, 0, 2, 3]
        return np.concatenate([s(c[i]) for i in order], 1).astype(np.float32)

    return table


W(
    "d113",
    d113,
    BoxSine(64),
    "table",
    "box-h-before-w",
    "The columns of h come before those of w, as if (w, h) were swapped like (x, y): the declared "
    "order is y, x, w, h.",
    "concat([y, x, w, h])",
)

# ---------------------------------------------------------------- features of coordinates

B = RNG.standard_normal((24, 2)) * 3


def d114(bug):
    def table(positions):
        v = np.asarray(positions, float).T
        a = (v @ B.T) * (np.pi if bug else 2 * np.pi)
        return np.concatenate([np.cos(a), np.sin(a)], -1).astype(np.float32)

    return table


W(
    "d114",
    d114,
    FourierFeatures(B, unit="turn", first="cos"),
    "table",
    "half-turn-unit",
    "The projected coordinates are multiplied by pi instead of 2 pi: all frequencies are half of the "
    "declared ones.",
    "2 pi B v",
)

PERC = np.linspace(1.0, 16.0, 8)[:, None]


def d115(bug):
    def table(positions):
        v = np.asarray(positions, float)
        a = np.pi * v[:, None] * PERC[:, 0]
        raw = [] if bug else [v[:, None]]
        tail = [v[:, None]] if bug else []
        return np.concatenate([*raw, np.sin(a), np.cos(a), *tail], 1).astype(np.float32)

    return table


W(
    "d115",
    d115,
    FourierFeatures(PERC, unit="half-turn", include_input=True),
    "table",
    "input-column-last",
    "The raw coordinate is appended as the last column instead of being the first (the order of "
    "Perceiver's code, not of the declared features).",
    "concat([v, sin, cos])",
)

TW, TB = RNG.standard_normal(12), RNG.standard_normal(12)


def d116(bug):
    def table(positions):
        t = np.asarray(positions, float)[:, None]
        lin = TW[:1] * t + (0 if bug else TB[:1])
        per = np.sin(TW[1:] * t + TB[1:])
        return np.concatenate([lin, per], 1).astype(np.float32)

    return table


W(
    "d116",
    d116,
    Time2Vec(TW, TB),
    "table",
    "linear-bias-missing",
    "The linear component is w_0 t without its bias b_0; the sines have theirs.",
    "w_0 t + b_0",
)

# ---------------------------------------------------------------- right ones


def d117(seq_len):
    out = np.zeros((seq_len, 64))
    w = 10000.0 ** (-np.arange(32) / 32)
    block = 128
    fine = np.exp(1j * np.outer(np.arange(block), w))
    for s0 in range(0, seq_len, block):
        n = min(block, seq_len - s0)
        z = fine[:n] * np.exp(1j * s0 * w)
        out[s0 : s0 + n, 0::2], out[s0 : s0 + n, 1::2] = z.imag, z.real
    return out.astype(np.float32)


R(
    "d117",
    d117,
    Sinusoidal(64),
    "rows",
    "Blocks of 128 rows, each the first block turned by a phasor in float64.",
)


def d118(height, width):
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    (sy, cy), (sx, cx) = axis(y.ravel(), 16, 15), axis(x.ravel(), 16, 15)
    return np.concatenate([sx, cx, sy, cy], 1).astype(np.float32)


R(
    "d118",
    d118,
    Sinusoidal2D(64, axis_order="wh", denominator="half-1"),
    "grid",
    "MoCo v3's table by meshgrid; width columns first.",
)


def d119(positions):
    p = np.asarray(positions)
    if p.dtype.kind not in "iu" or (p < 0).any() or (p > 511).any():
        raise IndexError("position outside the table")
    onehot = (p[:, None] + 2 == np.arange(514)).astype(np.float32)
    return onehot @ W512


R(
    "d119",
    d119,
    Learned(W512, offset=2),
    "table",
    "The lookup is a product with a one-hot matrix, exact because all other terms are zero.",
)


def d120(positions):
    t = np.asarray(positions, float)
    out = np.sin(np.multiply.outer(t, TW) + TB)
    out[..., 0] = t * TW[0] + TB[0]
    return np.roll(out, -1, axis=-1).astype(np.float32)


R(
    "d120",
    d120,
    Time2Vec(np.array(TW), TB, linear="last"),
    "table",
    "Linear component moved to the last column by a roll.",
)

# More cases than asked for; chosen by their nature, before any run of the judge.
SURPLUS = set("d093 d097 d100 d105 d107 d115 d116".split())
EXTRA = [c for c in CASES if c["id"] in SURPLUS]
CASES = [c for c in CASES if c["id"] not in SURPLUS]
