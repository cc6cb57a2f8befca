"""Tables, sums, grids, lookups and positions."""

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
RNG = np.random.default_rng(5)


def _case(id, surface, fn, encoding, key, cause, remedy, mended, **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


def _right(id, surface, fn, encoding, cause, **settings):
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


def _waves(p, freqs):
    return np.asarray(p, np.float64)[..., None] * np.asarray(freqs)


# -- table --------------------------------------------------------------------------------------


def _paper(two):
    def positional_encoding(positions):
        pe = np.zeros((len(positions), 64))
        for c in range(64):
            exponent = (2 * (c // 2) if two else c) / 64
            angle = np.asarray(positions, np.float64) / 10000.0**exponent
            pe[:, c] = np.sin(angle) if c % 2 == 0 else np.cos(angle)
        return pe

    return positional_encoding


_case(
    "c111",
    "table",
    _paper(False),
    Sinusoidal(64),
    "column-for-pair",
    "the exponent is c/d with c the column, so the cosine of each pair has a lower frequency than its sine",
    "use 2 * (c // 2)",
    _paper(True),
)


def _concat(n, offset, pad_last=True, first="sin"):
    def get_embedding(positions):
        half = 63 // 2
        f = np.exp(-math.log(10000.0) / n * np.arange(half))
        a = _waves(np.asarray(positions, np.float64) + offset, f)
        pad = np.zeros((*a.shape[:-1], 1))
        return np.concatenate(
            [np.sin(a), np.cos(a), pad] if pad_last else [np.sin(a), pad, np.cos(a)], -1
        )

    return get_embedding


_FSEQ = Sinusoidal(63, layout="concat", denominator="half-1", offset=2, odd="zero-pad")
_case(
    "c112",
    "table",
    _concat(31, 2),
    _FSEQ,
    "half-for-half-minus-1",
    "the exponents divide by dim // 2 = 31 (the paper) instead of dim // 2 - 1 = 30 (fairseq)",
    "divide by half_dim - 1",
    _concat(30, 2),
)
_case(
    "c114",
    "table",
    _concat(30, 2, False),
    _FSEQ,
    "pad-in-the-middle",
    "the column of zeros for the odd dimension stands between the sines and the cosines instead of at the "
    "end",
    "append it last",
    _concat(30, 2),
)


def _scaled(on_cos):
    def sinusoid_scaled(positions):
        a = _waves(positions, 10000.0 ** (-np.arange(16) / 16))
        return np.concatenate([np.sin(a) * 32**-0.5, np.cos(a) * (32**-0.5 if on_cos else 1.0)], -1)

    return sinusoid_scaled


_case(
    "c115",
    "table",
    _scaled(False),
    Sinusoidal(32, layout="concat", scale=32**-0.5),
    "scale-on-sines-only",
    "the factor 1/sqrt(d) multiplies the sines but not the cosines",
    "scale both",
    _scaled(True),
)


def _timestep(max_period_first):
    def timestep_embedding(positions):
        f = np.exp(-math.log(10000.0) * np.arange(32) / 32)
        a = _waves(positions, f)
        return np.concatenate(
            [np.sin(a), np.cos(a)] if max_period_first else [np.cos(a), np.sin(a)], -1
        )

    return timestep_embedding


def _patchtst(ddof):
    def sincos(positions):
        def raw(p):
            a = _waves(p, 10000.0 ** (-np.arange(8) / 8))
            return np.stack([np.sin(a), np.cos(a)], -1).reshape(len(p), 16)

        every = raw(np.arange(12))
        return (raw(positions) - every.mean()) / (every.std(ddof=ddof) * 10)

    return sincos


_case(
    "c117",
    "table",
    _patchtst(0),
    StandardizedSinusoidal(16, 12),
    "std-by-n",
    "the standard deviation divides by n (numpy.std) instead of n - 1 (torch.std): rows are 0.26 % too large",
    "ddof=1",
    _patchtst(1),
)

_W, _B = RNG.normal(0, 1, 12), RNG.normal(0, 1, 12)


def _t2v(phase_inside):
    def time2vec(positions):
        t = np.asarray(positions, np.float64)[:, None]
        line = t * _W[:1] + _B[:1]
        wave = np.sin(t * _W[1:] + _B[1:]) if phase_inside else np.sin(t * _W[1:]) + _B[1:]
        return np.concatenate([wave, line], -1)

    return time2vec


_case(
    "c118",
    "table",
    _t2v(False),
    Time2Vec(_W, _B, linear="last"),
    "phase-outside",
    "the phases are added to the sines instead of to their arguments",
    "sin(w t + b)",
    _t2v(True),
)

_GAUSS = RNG.normal(0, 1, (16, 2))


def _sam(centre):
    def pe_encoding(positions):
        c = np.moveaxis(np.asarray(positions, np.float64), 0, -1)
        c = 2 * c - 1 if centre else 2 * c
        a = 2 * np.pi * (c @ _GAUSS.T)
        return np.concatenate([np.sin(a), np.cos(a)], -1)

    return pe_encoding


_case(
    "c119",
    "table",
    _sam(False),
    FourierFeatures(_GAUSS, unit="turn", offset=-0.5, position_scale=2.0),
    "coordinates-not-centred",
    "coordinates are doubled but 1 is not subtracted: 0 .. 2 instead of -1 .. 1",
    "2 * c - 1",
    _sam(True),
)


def _nerf(by_axis):
    def embed(positions):
        x = np.asarray(positions, np.float64)
        out = []
        if by_axis:
            for axis in range(3):
                for f in (np.sin, np.cos):
                    out += [f(np.pi * 2.0**level * x[axis]) for level in range(4)]
        else:
            for level in range(4):
                for f in (np.sin, np.cos):
                    out += [f(np.pi * 2.0**level * x[axis]) for axis in range(3)]
        return np.stack(out, -1)

    return embed


_case(
    "c120",
    "table",
    _nerf(True),
    FourierFeatures.nerf(4, include_input=False),
    "grouped-by-axis",
    "columns are grouped by axis (all bands of x, then y, then z) instead of by frequency band",
    "loop over the bands outside",
    _nerf(False),
)


def _perceiver(space):
    def fourier_position(positions):
        x = np.moveaxis(np.asarray(positions, np.float64), 0, -1)
        a = np.concatenate(
            [np.pi * x[..., i : i + 1] * space(n / 2) for i, n in enumerate((32, 48))], -1
        )
        return np.concatenate([x, np.sin(a), np.cos(a)], -1)

    return fourier_position


_case(
    "c121",
    "table",
    _perceiver(lambda top: np.geomspace(1.0, top, 6)),
    FourierFeatures.perceiver(6, (32, 48)),
    "geometric-bands",
    "the bands are spaced geometrically from 1 to half the resolution instead of linearly",
    "np.linspace",
    _perceiver(lambda top: np.linspace(1.0, top, 6)),
)

_TABLE = RNG.normal(0, 1, (42, 24)).astype(np.float32)


def _lookup(rows):
    def embed_positions(positions):
        return np.take(_TABLE, np.minimum(np.asarray(positions) + 2, rows - 1), axis=0)

    return embed_positions


_case(
    "c122",
    "table",
    _lookup(41),
    Learned(_TABLE, offset=2),
    "last-row-clamped",
    "the index is clamped to row 40 of 0 .. 41, so the last position gets the row before it",
    "clamp at 41, or not at all",
    _lookup(42),
)

_E0, _E1 = (RNG.normal(0, 1, s).astype(np.float32) for s in ((6, 8), (6, 16)))


def _axial(swap):
    def axial_position(positions):
        p = np.asarray(positions)
        slow, fast = p // 6, p % 6
        if swap:
            slow, fast = fast, slow
        return np.concatenate([_E0[slow], _E1[fast]], -1)

    return axial_position


_case(
    "c123",
    "table",
    _axial(True),
    AxialLearned((_E0, _E1), flat=True),
    "fast-axis-first",
    "the first table is indexed by p % 6 and the second by p // 6: the axis that runs fastest is the last",
    "exchange quotient and remainder",
    _axial(False),
)


def _box(order, f):
    def gen_sineembed(positions):
        c = np.asarray(positions, np.float64) * 2 * np.pi
        k = np.arange(32)
        parts = []
        for axis in order:
            a = c[axis][..., None] / 10000.0 ** (2 * (k // 2) / 32)
            parts.append(np.where(k % 2 == 0, np.sin(a), np.cos(a)))
        return np.concatenate(parts, -1)

    return gen_sineembed


_case(
    "c124",
    "table",
    _box((1, 0, 3, 2), 0),
    BoxSine(128),
    "height-before-width",
    "the columns are y, x, h, w: only x and y are exchanged in this function, the width stands before the "
    "height",
    "order y, x, w, h",
    _box((1, 0, 2, 3), 0),
)


def _detr(bases):
    def sine_hw(positions):
        y, x = np.asarray(positions, np.float64)
        out = []
        for c, t in zip((y, x), bases):
            a = c[..., None] / t ** (np.arange(0, 32, 2) / 32)
            out.append(np.stack([np.sin(a), np.cos(a)], -1).reshape(*c.shape, 32))
        return np.concatenate(out, -1)

    return sine_hw


_case(
    "c125",
    "table",
    _detr((20.0, 20.0)),
    DETRSine(64, base=20.0, width_base=40.0),
    "one-temperature",
    "x has the temperature 20 of y; its own is 40",
    "use temperatureW for x",
    _detr((20.0, 40.0)),
)

_SMALL = RNG.normal(0, 1, (20, 16)).astype(np.float32)
_HYBRID = Hybrid((Learned(_SMALL), Sinusoidal(16)))


def _hybrid(factor):
    def learned_plus_sinusoid(positions):
        a = _waves(positions, 10000.0 ** (-np.arange(8) / 8))
        s = np.stack([np.sin(a), np.cos(a)], -1).reshape(len(a), 16)
        return (_SMALL[np.asarray(positions)] + s) * factor

    return learned_plus_sinusoid


def _cogvideo(sections):
    def video(positions):
        out = []
        for c, width in zip(np.asarray(positions, np.float64), sections):
            a = _waves(c, 10000.0 ** (-np.arange(width // 2) / (width / 2)))
            out += [np.sin(a), np.cos(a)]
        return np.concatenate(out, -1)

    return video


_case(
    "c127",
    "table",
    _cogvideo((24, 24, 16)),
    Sinusoidal3D((16, 24, 24)),
    "sections-in-wrong-order",
    "time has 24 columns and width 16: the narrow section belongs to time",
    "sections (16, 24, 24)",
    _cogvideo((16, 24, 24)),
)


def sinusoid_by_recurrence(positions):
    f = 10000.0 ** (-np.arange(8) / 8)
    out = np.empty((len(positions), 16))
    for row, p in enumerate(np.asarray(positions).tolist()):
        for k in range(8):
            out[row, 2 * k] = math.sin(p * f[k])
            out[row, 2 * k + 1] = math.sin(p * f[k] + math.pi / 2)
    return out.astype(np.float32)


_right(
    "c128",
    "table",
    sinusoid_by_recurrence,
    Sinusoidal(16),
    "cosines as sines of the angle plus a quarter turn, in Python floats",
)
_right(
    "c129",
    "table",
    lambda p: np.eye(42, dtype=np.float32)[np.asarray(p) + 2] @ _TABLE,
    Learned(_TABLE, offset=2),
    "lookup as a product with one-hot rows",
)

# -- add ----------------------------------------------------------------------------------------


def _pe(n, dim=32):
    a = _waves(np.arange(n), 10000.0 ** (-np.arange(0, dim, 2) / dim))
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(n, dim)


def _forward(kind):
    def forward(x):
        pe = _pe(max(x.shape[0], x.shape[1]))
        if kind == "seq-first":
            return (x + pe[: x.shape[0]][:, None]).astype(x.dtype)
        if kind == "sqrt":
            return (x * np.sqrt(32.0) + pe[: x.shape[1]]).astype(x.dtype)
        if kind == "tile":
            return (x + pe[np.arange(x.shape[1]) % 64]).astype(x.dtype)
        return (x + pe[: x.shape[1]]).astype(x.dtype)

    return forward


_case(
    "c130",
    "add",
    _forward("seq-first"),
    Sinusoidal(32),
    "batch-row-as-position",
    "rows are taken by the index in the batch, pe[:x.size(0)], as for (S, B, dim): all tokens of batch row b "
    "get position b",
    "pe[:x.size(1)]",
    _forward("right"),
)

# -- grids --------------------------------------------------------------------------------------


def _grid(meshed, layout="concat", fr=None):
    def grid_embedding(h, w):
        y, x = np.meshgrid(np.arange(h), np.arange(w), indexing=meshed)
        f = 10000.0 ** (-np.arange(8) / 8) if fr is None else fr
        a, b = _waves(y.ravel(), f), _waves(x.ravel(), f)
        if layout == "grouped":
            return np.concatenate([np.sin(a), np.sin(b), np.cos(a), np.cos(b)], -1)
        return np.concatenate([np.sin(a), np.cos(a), np.sin(b), np.cos(b)], -1)

    return grid_embedding


_case(
    "c133",
    "grid",
    _grid("xy"),
    Sinusoidal2D(32),
    "column-major-patches",
    "meshgrid without indexing='ij' lists the patches column by column: token n gets (n % h, n // h)",
    "indexing='ij'",
    _grid("ij"),
)
_case(
    "c134",
    "grid",
    _grid("ij"),
    Sinusoidal2D(32, layout="grouped"),
    "axis-blocks-for-grouped",
    "each axis has its own block of sines and cosines; timm has the sines of both axes before the cosines of "
    "both",
    "concatenate sin y, sin x, cos y, cos x",
    _grid("ij", "grouped"),
)


def _extent(span):
    def dit_grid(h, w):
        y = np.arange(h) * (16.0 / max(h - span, 1))
        x = np.arange(w) * (16.0 / max(w - span, 1))
        f = 10000.0 ** (-np.arange(8) / 8)
        a, b = _waves(np.repeat(y, w), f), _waves(np.tile(x, h), f)
        return np.concatenate([np.sin(b), np.cos(b), np.sin(a), np.cos(a)], -1)

    return dit_grid


_case(
    "c135",
    "grid",
    _extent(1),
    Sinusoidal2D(32, axis_order="wh", extent=16.0),
    "extent-over-n-minus-1",
    "patch i is at i * 16 / (n - 1), so the last patch is at 16, instead of i * 16 / n",
    "divide by n",
    _extent(0),
)

_ROW, _COL = (RNG.normal(0, 1, (50, 8)).astype(np.float32) for _ in range(2))


def _detr_learned(tile):
    def position_embedding_learned(h, w):
        if tile:
            y, x = np.tile(np.arange(h), w), np.tile(np.arange(w), h)
        else:
            y, x = np.repeat(np.arange(h), w), np.tile(np.arange(w), h)
        return np.concatenate([_COL[x], _ROW[y]], -1)

    return position_embedding_learned


def patches_one_by_one(h, w):
    rows = []
    for n in range(h * w):
        y, x = divmod(n, w)
        row = []
        for c in (x, y):
            row += [g(c / 10000 ** (k / 3)) for g in (math.sin, math.cos) for k in range(4)]
        rows.append(row)
    return np.array(rows, np.float32)


_right(
    "c138",
    "grid",
    patches_one_by_one,
    Sinusoidal2D(16, axis_order="wh", denominator="half-1"),
    "patch by patch in Python, width columns first",
)

# -- lookups and positions ----------------------------------------------------------------------

_PAD = Learned(RNG.normal(0, 1, (30, 8)).astype(np.float32), padding_idx=1)


def _make_positions(kind):
    def make_positions(input_ids):
        mask = (input_ids != 1).astype(np.int64)
        if kind == "counted":
            return np.where(mask == 1, np.arange(1, mask.shape[-1] + 1), 0) + 1
        return np.cumsum(mask, -1) * mask + (0 if kind == "zero" else 1)

    return make_positions


_case(
    "c139",
    "ids_from_tokens",
    _make_positions("counted"),
    _PAD,
    "padding-counted",
    "tokens are numbered by their index, so padding before or between tokens is counted",
    "cumsum of the mask",
    _make_positions("right"),
)


def _rows(start):
    def position_rows(seq_len):
        return _TABLE[start : start + seq_len]

    return position_rows


def _ids(kind):
    def from_mask(attention_mask):
        mask = np.asarray(attention_mask)
        if kind == "first":
            return np.maximum(np.arange(mask.shape[1]) - mask.argmax(1)[:, None], 0)
        return np.cumsum(mask, 1) - 1 + (mask == 0)

    return from_mask


_case(
    "c142",
    "position_ids",
    _ids("first"),
    None,
    "only-left-padding-removed",
    "only the padding before the first real token is subtracted; padding between real tokens is counted",
    "cumsum of the mask minus 1",
    _ids("right"),
)


def _packed(restart):
    def from_lengths(lengths):
        out, p = [], 0
        for n, length in enumerate(np.asarray(lengths).tolist()):
            p = restart if n else 0
            for _ in range(length):
                out.append(p)
                p += 1
        return np.array(out, np.int64)

    return from_lengths


def _starts(empty):
    def by_marks(lengths):
        lengths = np.asarray(lengths)
        total = int(lengths.sum())
        jump = np.ones(total, np.int64)
        ends = np.cumsum(lengths)[:-1]
        if empty:
            jump[0:1] = 0
            for e, n in zip(ends, lengths[:-1]):
                if e < total:
                    jump[e] = (
                        1 - n
                    )  # a document without tokens overwrites the jump of the one before
            return np.cumsum(jump)
        return np.arange(total) - np.repeat(np.cumsum(lengths) - lengths, lengths)

    return by_marks


_case(
    "c144",
    "packed",
    _starts(True),
    None,
    "empty-document",
    "an empty document overwrites the reset of the document before it, so the next one counts on from it",
    "skip documents of length 0",
    _starts(False),
)


def _steps(batch):
    def decode(prompt_len, n_steps):
        p = np.asarray(prompt_len)
        if batch and p.ndim:
            return np.broadcast_to(p.max() + np.arange(n_steps), (len(p), n_steps))
        return p[..., None] + np.arange(n_steps)

    return decode


_case(
    "c145",
    "decode_positions",
    _steps(True),
    None,
    "longest-prompt-for-all",
    "every row continues after the longest prompt of the batch instead of after its own",
    "use each row's length",
    _steps(False),
)


def _shards(mirror, own):
    def positions(cu_seqlens, cp_size, cp_rank):
        out = []
        for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
            c = (b - a) // (2 * cp_size)
            last = 2 * cp_size - 1 - cp_rank if mirror else cp_size + cp_rank
            for which in (cp_rank, last):
                out.append((0 if own else a) + which * c + np.arange(c))
        return np.concatenate(out)

    return positions


_case(
    "c146",
    "shard_positions",
    _shards(False, True),
    None,
    "second-chunk-not-mirrored",
    "the second chunk of rank r is cp_size + r instead of its mirror image 2 cp_size - 1 - r",
    "mirror the second chunk",
    _shards(True, True),
)
_right(
    "c148",
    "packed",
    lambda n: np.concatenate([np.r_[0:k] for k in np.asarray(n).tolist()] or [[]]).astype(np.int32),
    None,
    "concatenated ranges in int32",
)
