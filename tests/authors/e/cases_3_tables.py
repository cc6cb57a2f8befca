"""Tables: table, add, grid, rows, and the token functions."""

import math

import numpy as np

from posenc_ref import (
    AxialLearned,
    DETRSine,
    FourierFeatures,
    Learned,
    Sinusoidal,
    Sinusoidal2D,
    StandardizedSinusoidal,
    Time2Vec,
    BoxSine,
)

_rng = np.random.default_rng(33)


# --- e047: exponents of the cosine columns -------------------------------------------------------
def _tutorial(own):
    def table(positions):
        p = np.asarray(positions, np.float64)
        pe = np.zeros((*p.shape, 64))
        for c in range(0, 64, 2):
            pe[..., c] = np.sin(p / 10000 ** (c / 64))
            pe[..., c + 1] = np.cos(p / 10000 ** ((c + 1 if own else c) / 64))
        return pe.astype(np.float32)

    return table


# --- e048: fairseq's offset, doubled past the padded row ------------------------------------------
def _fairseq(once):
    def table(positions):
        half = 16
        w = np.exp(-np.arange(half) * (math.log(10000.0) / (half - 1)))
        p = np.asarray(positions, np.float64) + 2
        e = p[..., None] * w if once else p[..., None] * w + 2.0 * (1 - w)
        pe = np.concatenate([np.sin(e), np.cos(e)], -1)
        return np.concatenate([pe, np.zeros((*p.shape, 1))], -1).astype(np.float32)

    return table


# --- e049: add, rows of the batch are counted on ---------------------------------------------------
def _add_flat(count_on):
    w = 10000.0 ** (-np.arange(0, 32, 2) / 32)

    def add(x):
        b, s, d = x.shape
        token = np.arange(b * s) if count_on else np.tile(np.arange(s), b)
        e = token[:, None] * w
        pe = np.stack([np.sin(e), np.cos(e)], -1).reshape(b, s, d)
        return (x + pe).astype(x.dtype)

    return add


# --- e050: OPT, the offset twice for later tokens (learned) ------------------------------------------
_OPT = _rng.standard_normal((600, 24)).astype(np.float32)


class Opt:
    def __init__(self, twice):
        self.weight = _OPT[2:] if twice else _OPT

    def __call__(self, x):
        rows = np.arange(x.shape[1]) + 2
        return x + self.weight[rows]


# --- e051: a grid kept by its number of patches ---------------------------------------------------------
class Grids:
    def __init__(self, by_count):
        self.kept, self.by_count = {}, by_count

    def __call__(self, height, width):
        key = height * width if self.by_count else (height, width)
        if key not in self.kept:
            w = 10000.0 ** (-np.arange(16) / 16)
            y, x = np.divmod(np.arange(height * width), width)
            ey, ex = y[:, None] * w, x[:, None] * w
            self.kept[key] = np.concatenate([np.sin(ey), np.cos(ey), np.sin(ex), np.cos(ex)], 1)
        return self.kept[key]


# --- e052: extent divided by n - 1 ---------------------------------------------------------------------
def _extent(less):
    w = 10000.0 ** (-np.arange(8) / 8)

    def one(n):
        return np.arange(n) * 16.0 / max(n - less, 1)

    def grid(height, width):
        gx, gy = np.meshgrid(one(width), one(height))
        parts = []
        for c in (gx.ravel(), gy.ravel()):  # the columns of the width first, as in MAE's code
            parts += [np.sin(np.outer(c, w)), np.cos(np.outer(c, w))]
        return np.concatenate(parts, 1).astype(np.float32)

    return grid


# --- e053: pi cut off after four decimals --------------------------------------------------------------------------
_B = _rng.normal(0, 2.0, (12, 2))


def _fourier(pi):
    def table(positions):
        xy = np.asarray(positions, np.float64)
        u = 2.0 * (xy - 0.5)
        e = 2 * pi * np.tensordot(_B, u, axes=(1, 0))
        e = np.moveaxis(e, 0, -1)
        return np.concatenate([np.sin(e), np.cos(e)], -1).astype(np.float32)

    return table


# --- e054: Time2Vec, bias outside the sine ------------------------------------------------------------
_TW, _TB = _rng.normal(0, 0.3, 16), _rng.normal(0, 1.0, 16)


def _time2vec(outside):
    def table(positions):
        t = np.asarray(positions, np.float64)[..., None]
        out = np.empty((*t.shape[:-1], 16))
        out[..., :1] = _TW[0] * t + _TB[0]
        if outside:
            out[..., 1:] = np.sin(_TW[1:] * t) + _TB[1:]
        else:
            out[..., 1:] = np.sin(_TW[1:] * t + _TB[1:])
        return out.astype(np.float32)

    return table


# --- e055: standard deviation with n ---------------------------------------------------------------------
def _patchtst(ddof):
    def table(positions):
        w = np.exp(np.arange(0, 16, 2) * -(math.log(10000.0) / 16))

        def sines(p):
            e = np.asarray(p, np.float64)[..., None] * w
            return np.stack([np.sin(e), np.cos(e)], -1).reshape(*e.shape[:-1], 16)

        whole = sines(np.arange(12))
        return ((sines(positions) - whole.mean()) / (whole.std(ddof=ddof) * 10)).astype(np.float32)

    return table


# --- e056: DETR, x divided by the height ------------------------------------------------------------------
def _detr(wrong_side):
    def grid(height, width):
        dim_t = 10000.0 ** (2 * (np.arange(16) // 2) / 16)
        y = np.cumsum(np.ones((height, width)), 0)
        x = np.cumsum(np.ones((height, width)), 1)
        y = y / (height + 1e-6) * 2 * math.pi
        x = x / ((height if wrong_side else width) + 1e-6) * 2 * math.pi
        out = []
        for c in (y, x):
            e = c[..., None] / dim_t
            out.append(np.stack([np.sin(e[..., 0::2]), np.cos(e[..., 1::2])], -1).reshape(height, width, 16))
        return np.concatenate(out, -1).reshape(height * width, 32).astype(np.float32)

    return grid


# --- e057 (right) and e058: coarse and fine tables ------------------------------------------------------
def _two_level(inclusive):
    w = 10000.0 ** (-np.arange(32) / 32)
    fine = np.exp(1j * np.outer(np.linspace(0, 64, 64) if inclusive else np.arange(64), w))

    def table(positions):
        p = np.asarray(positions)
        whole = np.floor(p).astype(np.int64)
        rest = np.asarray(p - whole, np.float64)[..., None]
        block = (whole // 64)[..., None] * 64.0
        z = fine[whole % 64] * np.exp(1j * block * w) * np.exp(1j * rest * w)
        return np.concatenate([z.imag, z.real], -1).astype(np.float32)

    return table


# --- e059: rows of OPT's table from row 0 -----------------------------------------------------------------
_BART = _rng.standard_normal((514, 20)).astype(np.float32)


def _rows(first):
    def rows(seq_len):
        if seq_len > 512:
            raise ValueError("the table has 512 positions")
        return _BART[first : first + seq_len]

    return rows


# --- e060: DETR's learned grid, columns of y first; e061 right: sum -----------------------------------------
_EY, _EX = (_rng.standard_normal((300, 12)).astype(np.float32) for _ in range(2))


def _axial(x_first):
    def grid(height, width):
        rows = np.repeat(_EY[:height, None], width, 1)
        cols = np.repeat(_EX[None, :width], height, 0)
        pair = (cols, rows) if x_first else (rows, cols)
        return np.concatenate(pair, -1).reshape(height * width, 24)

    return grid


def axial_sum(height, width):
    out = np.empty((height * width, 12), np.float32)
    for n in range(height * width):
        np.add(_EY[n // width], _EX[n % width], out=out[n])
    return out


# --- e062: boxes, half precision angles ------------------------------------------------------------------
def _boxes(narrow):
    def table(positions):
        x, y, w, h = np.asarray(positions, np.float64)
        t = 10000.0 ** (2 * np.arange(8) / 16)
        out = []
        for n, c in enumerate((y, x, w, h)):
            e = (c * 2 * math.pi)[..., None] / t
            if narrow and n >= 2:
                e = e.astype(np.float16).astype(np.float64)
            out.append(np.stack([np.sin(e), np.cos(e)], -1).reshape(*c.shape, 16))
        return np.concatenate(out, -1).astype(np.float32)

    return table


# --- e063: learned table, negative rows wrap: the last row of a chunk ----------------------------------------
_GPT = _rng.standard_normal((1024, 16)).astype(np.float32)


def _chunked_rows(short):
    def table(positions):
        p = np.asarray(positions)
        if p.size and (p.min() < 0 or p.max() >= 1024):
            raise IndexError("position outside the table")
        out = np.zeros((*p.shape, 16), np.float32)
        for start in range(0, 1024, 128):  # the rows live on eight devices
            stop = start + 128 - short
            held = (p >= start) & (p < stop)
            out[held] = _GPT[p[held]]
        return out

    return table


# --- token functions ---------------------------------------------------------------------------------------
def _position_ids(left_only):
    def position_ids(attention_mask):
        m = np.asarray(attention_mask).astype(np.int64)
        if left_only:
            first = m.argmax(-1)
            return np.maximum(np.arange(m.shape[-1]) - first[..., None], 0)
        return np.maximum(np.cumsum(m, -1) - 1, 0)

    return position_ids


def _packed(scatter):
    def packed(lengths):
        n = np.asarray(lengths, np.int64)
        total = int(n.sum())
        if scatter:  # ones, with a step back at every start, summed up
            step = np.ones(total, np.int64)
            starts = np.cumsum(n)[:-1]
            if total:
                step[0] = 0
            inside = starts < total
            step[starts[inside]] = 1 - n[:-1][inside]
            return np.cumsum(step)
        return np.concatenate([np.zeros(0, np.int64), *[np.arange(k) for k in n]])

    return packed


def _decode_positions(longest):
    def decode_positions(prompt_len, n_steps):
        n = np.asarray(prompt_len)
        if longest and n.ndim:
            n = np.full_like(n, n.max())
        return n[..., None] + np.arange(n_steps)

    return decode_positions


def _shards(restart):
    def shard_positions(cu_seqlens, cp_size, cp_rank):
        cu, out = np.asarray(cu_seqlens).tolist(), []
        for a, b in zip(cu[:-1], cu[1:]):
            c = (b - a) // (2 * cp_size)
            for which in (cp_rank, 2 * cp_size - 1 - cp_rank):
                out.append(np.arange(which * c, (which + 1) * c) + (0 if restart else a))
        return np.concatenate([np.zeros(0, np.int64), *out])

    return shard_positions


def _roberta(masked):
    def ids_from_tokens(input_ids):
        real = (np.asarray(input_ids) != 1).astype(np.int64)
        if masked:
            return np.cumsum(real, 1) * real + 1
        return np.cumsum(real, 1) + 1

    return ids_from_tokens


CASES = [
    dict(id="e047", fn=_tutorial(True), encoding=Sinusoidal(64), surface="table", settings={}, right=False, cause="The cosine in column 2k+1 has the exponent (2k+1)/d instead of 2k/d: every cosine has a lower frequency than the sine beside it.", cause_key="cos-own-exponent", remedy="use 2k/d for both columns of a pair", mended=_tutorial(False)),
    dict(id="e048", fn=_fairseq(False), encoding=Sinusoidal(33, layout="concat", denominator="half-1", offset=2, odd="zero-pad"), surface="table", settings={}, right=False, cause="The offset 2 is added to the angle instead of to the position (p omega + 2 instead of (p + 2) omega), a constant phase that is wrong in every pair but the first.", cause_key="offset-on-angle", remedy="add 2 to the position before multiplying", mended=_fairseq(True)),
    dict(id="e049", fn=_add_flat(True), encoding=Sinusoidal(32), surface="add", settings={}, right=False, cause="Tokens are counted through the flattened batch, so batch row b starts at position b S; only row 0 is right.", cause_key="batch-flattened-positions", remedy="restart the count in every row", mended=_add_flat(False)),
    dict(id="e050", fn=Opt(True), encoding=Learned(_OPT, offset=2), surface="add", settings={}, right=False, cause="The offset 2 is applied twice: the two padding rows are cut off the table and 2 is added to the positions as well, so position p gets row p + 4.", cause_key="learned-offset-twice", remedy="index the whole table with p + 2", mended=Opt(False)),
    dict(id="e051", fn=Grids(True), encoding=Sinusoidal2D(64), surface="grid", settings={}, right=False, cause="Grids are cached by their number of patches: a grid of another shape with the same product (6 x 4 after 4 x 6) gets the table of the first one.", cause_key="grid-cache-by-count", remedy="use (height, width) as the key", mended=Grids(False)),
    dict(id="e052", fn=_extent(1), encoding=Sinusoidal2D(32, axis_order="wh", extent=16.0), surface="grid", settings={}, right=False, cause="Patch i of n is placed at i extent/(n-1) instead of i extent/n, on both axes.", cause_key="extent-n-minus-one", remedy="divide by n", mended=_extent(0)),
    dict(id="e053", fn=_fourier(3.1415), encoding=FourierFeatures(_B, unit="turn", offset=-0.5, position_scale=2.0), surface="table", settings={}, right=False, cause="2 pi is computed with pi = 3.1415 (cut off, not rounded): every angle is too small by a relative 2.9e-5.", cause_key="pi-cut-off", remedy="use math.pi", mended=_fourier(math.pi)),
    dict(id="e054", fn=_time2vec(True), encoding=Time2Vec(_TW, _TB), surface="table", settings={}, right=False, cause="In the periodic components the bias is added to the sine, sin(w t) + b, instead of to its argument, sin(w t + b); the linear component is right.", cause_key="time2vec-bias-outside", remedy="put the bias inside the sine", mended=_time2vec(False)),
    dict(id="e055", fn=_patchtst(0), encoding=StandardizedSinusoidal(16, 12), surface="table", settings={}, right=False, cause="The standard deviation divides by n (numpy's default) instead of n - 1 = 191: every number is 0.26 % too large.", cause_key="std-ddof", remedy="std(ddof=1)", mended=_patchtst(1)),
    dict(id="e056", fn=_detr(True), encoding=DETRSine(32), surface="grid", settings={}, right=False, cause="x is normalised by the last y (the height) instead of by the last x (the width); square images are right.", cause_key="detr-x-by-height", remedy="divide x by width + eps", mended=_detr(False)),
    dict(id="e057", fn=_two_level(False), encoding=Sinusoidal(64, layout="concat"), surface="table", settings={}, right=True, cause="Angle addition: a fine table of 64 complex rows times the turn of the block of 64.", cause_key="right-two-level", remedy="", mended=None),
    dict(id="e058", fn=_two_level(True), encoding=Sinusoidal(64, layout="concat"), surface="table", settings={}, right=False, cause="The fine table of 64 rows is made with linspace(0, 64, 64), whose step is 64/63: within each block of 64 positions the position p mod 64 is stretched by 64/63, and only multiples of 64 are right.", cause_key="linspace-inclusive", remedy="arange(64)", mended=_two_level(False)),
    dict(id="e059", fn=_rows(0), encoding=Learned(_BART, offset=2), surface="rows", settings={}, right=False, cause="The rows of a sequence start at row 0 of the table instead of row 2: the first two are the padding rows.", cause_key="rows-without-offset", remedy="start at row 2", mended=_rows(2)),
    dict(id="e060", fn=_axial(False), encoding=AxialLearned((_EY, _EX), order=(1, 0)), surface="grid", settings={}, right=False, cause="The columns of the row embedding (y) come first; declared is x first, as in DETR's learned table.", cause_key="axial-column-order", remedy="concatenate (columns, rows)", mended=_axial(True)),
    dict(id="e061", fn=axial_sum, encoding=AxialLearned((_EY, _EX), combine="sum"), surface="grid", settings={}, right=True, cause="A loop over patches that adds one row of each table in place.", cause_key="right-axial-sum", remedy="", mended=None),
    dict(id="e062", fn=_boxes(True), encoding=BoxSine(64), surface="table", settings={}, right=False, cause="The angles of the coordinates w and h (columns 32 .. 63) are rounded to float16; those of y and x are right.", cause_key="box-half-angles", remedy="keep the angles of all coordinates in float32", mended=_boxes(False)),
    dict(id="e063", fn=_chunked_rows(1), encoding=Learned(_GPT), surface="table", settings={}, right=False, cause="The table is held in eight shards of 128 rows whose last row is excluded (p < start + 127): positions 127, 255, 383, ... get zeros.", cause_key="shard-last-row-zero", remedy="stop at start + 128", mended=_chunked_rows(0)),
    dict(id="e064", fn=_position_ids(True), encoding=None, surface="position_ids", settings={}, right=False, cause="Positions count every token after the first real one, also masked ones: right for left padding, but tokens after a hole in the mask are too large by the size of the hole.", cause_key="position-ids-holes", remedy="cumsum(mask) - 1", mended=_position_ids(False)),
    dict(id="e065", fn=_packed(True), encoding=None, surface="packed", settings={}, right=False, cause="Positions are the cumulative sum of steps with 1 - length at every start; an empty document writes to the start of its successor and overwrites the step back, so after a document of length 0 counting goes wrong.", cause_key="packed-empty-document", remedy="accumulate the steps (np.add.at) or concatenate aranges", mended=_packed(False)),
    dict(id="e066", fn=_decode_positions(True), encoding=None, surface="decode_positions", settings={}, right=False, cause="In a batch, every row continues at the longest prompt's length instead of at its own.", cause_key="decode-longest-prompt", remedy="use each row's prompt length", mended=_decode_positions(False)),
    dict(id="e067", fn=_shards(False), encoding=None, surface="shard_positions", settings={}, right=False, cause="Positions are indices in the packed batch: from the second sequence on they do not restart at 0.", cause_key="shard-not-restarted", remedy="subtract the start of the sequence", mended=_shards(True)),
    dict(id="e068", fn=_roberta(False), encoding=Learned(_GPT, padding_idx=1), surface="ids_from_tokens", settings={}, right=False, cause="Padding tokens get the running count plus 1 instead of padding_idx: the product with the mask is missing; other tokens are right.", cause_key="roberta-padding-ids", remedy="multiply the cumulative sum by the mask before adding padding_idx", mended=_roberta(True)),
]
