"""Biases: slopes, buckets, biases of sequences and of windows, relative matrices."""

import math

import numpy as np

from posenc_ref import (
    FIRE,
    ALiBi,
    BEiTBias,
    ConViTBias,
    DynamicBias,
    DynamicWindowBias,
    ForgettingBias,
    Kerple,
    LeViTBias,
    LogCPB,
    Sandwich,
    T5Bias,
)

CASES = []
RNG = np.random.default_rng(7)


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


def _f32(*shape, size=1.0):
    return RNG.normal(0, size, shape).astype(np.float32)


def _slopes(n, stride=2, first=1, top=8.0):
    def power_of_two(m):
        return [2.0 ** (-top * (h + first - 1) / m) for h in range(1, m + 1)]

    c = 2 ** math.floor(math.log2(n))
    more = power_of_two(2 * c)[::stride][: n - c] if c != n else []
    return np.array(power_of_two(c) + more)


def _offsets(q_len, k_len, shift=True):
    i = np.arange(q_len) + (k_len - q_len if shift else 0)
    return np.arange(k_len)[None, :] - i[:, None]  # key minus query


# -- slopes -------------------------------------------------------------------------------------

_case(
    "c161",
    "slopes",
    lambda n: _slopes(n, stride=1),
    ALiBi(12),
    "extra-slopes-consecutive",
    "for head counts that are no power of two, the extra slopes are the first n - c of those for 2c heads "
    "instead of every second one",
    "[0::2]",
    lambda n: _slopes(n),
)


def _rank(local):
    def tp_slopes(num_heads, tp_size, tp_rank):
        n = num_heads // tp_size
        if local:
            return _slopes(n)
        return _slopes(num_heads)[tp_rank * n : (tp_rank + 1) * n]

    return tp_slopes


_case(
    "c163",
    "rank_slopes",
    _rank(True),
    ALiBi(16),
    "slopes-of-local-heads",
    "each tensor-parallel rank computes the slopes of its number of local heads instead of its part of all "
    "slopes",
    "slice the slopes of all heads",
    _rank(False),
)


def _strided(num_heads, tp_size, tp_rank):
    return _slopes(num_heads)[tp_rank::tp_size]


# -- sequences ----------------------------------------------------------------------------------


def _alibi(kind, heads=8):
    def build(q_len, k_len):
        m = _slopes(heads)[:, None, None]
        r = _offsets(q_len, k_len, kind != "unshifted").astype(np.float64)
        if kind == "future-up":
            return m * r
        if kind == "half":
            return -(m.astype(np.float16) * np.abs(r).astype(np.float16)).astype(np.float64)
        if kind == "tile":
            tile = np.arange(k_len) // 64 * 64
            return -m * np.abs(np.where(tile > 0, r - tile, r))
        if kind == "last-head":
            m = m.copy()
            m[-1] = m[-2]
        return -m * np.abs(r)

    return build


_BOTH = ALiBi(8, causal=False)
_case(
    "c165",
    "bias",
    _alibi("unshifted"),
    _BOTH,
    "queries-from-zero",
    "with fewer queries than keys (a cache), query i is at i instead of K - Q + i; the encoder's bias on both "
    "sides moves away from the diagonal",
    "add K - Q",
    _alibi("right"),
)
_case(
    "c166",
    "bias",
    _alibi("future-up"),
    _BOTH,
    "later-keys-rewarded",
    "without the absolute value, keys after the query get a positive bias that grows with the distance",
    "-m |i - j|",
    _alibi("right"),
)
_case(
    "c169",
    "bias",
    _alibi("half"),
    ALiBi(8),
    "float16-distances",
    "distances and slopes are multiplied in float16: from 2048 on not every distance exists, and products are "
    "rounded to 11 bits",
    "compute in float32",
    _alibi("right"),
)


def keys_only(q_len, k_len):
    return (_slopes(12)[:, None, None] * np.arange(k_len)).astype(np.float32)


_right(
    "c170",
    "bias",
    keys_only,
    ALiBi(12),
    "m times the key's position, broadcast over queries (BLOOM): a constant "
    "per query more than the formula, which softmax ignores",
)

_R1, _R2 = [0.5, 1.0, 2.0, 0.25], [1.5, 0.3, 0.9, 0.6]


def _kerple(form):
    def bias(q_len, k_len):
        a, b = (np.array(v)[:, None, None] for v in (_R1, _R2))
        d = np.abs(_offsets(q_len, k_len)).astype(np.float64)
        if form == "outside":
            return -a * b * np.log1p(d)
        if form == "log":
            return -a * np.log1p(b * d)
        if form == "swapped":
            return -b * d**a
        return -a * d**b

    return bias


_case(
    "c171",
    "bias",
    _kerple("outside"),
    Kerple(_R1, _R2),
    "r2-outside-log",
    "r2 multiplies the logarithm, -r1 r2 log(1 + d), instead of the distance inside it",
    "log1p(r2 * d)",
    _kerple("log"),
)
_case(
    "c172",
    "bias",
    _kerple("swapped"),
    Kerple(_R1, _R2, form="power"),
    "r1-r2-exchanged",
    "factor and exponent are exchanged: -r2 d**r1",
    "-r1 * d**r2",
    _kerple("power"),
)


def _sandwich(k):
    def bias(q_len, k_len):
        r = np.abs(_offsets(q_len, k_len)).astype(np.float64)
        total = np.cos(r[..., None] * 10000.0 ** (-2.0 * k / 32)).sum(-1) - 16
        return total[None] / (8.0 * np.arange(1, 5)[:, None, None] / 4)

    return bias


_case(
    "c173",
    "bias",
    _sandwich(np.arange(16)),
    Sandwich(4, 32),
    "waves-from-zero",
    "the waves are k = 0 .. 15 like the Transformer's sinusoids instead of k = 1 .. 16",
    "start at k = 1",
    _sandwich(np.arange(1, 17)),
)

_FH, _FB, _FO, _FC = _f32(8, 1), _f32(8), _f32(4, 8), _f32(4)


def _fire(kind):
    def bias(q_len, k_len):
        i = (np.arange(q_len) + k_len - q_len)[:, None].astype(np.float64)
        j = np.arange(k_len)[None, :].astype(np.float64)
        d = np.maximum(i - j, 0)
        norm = {
            "key": np.maximum(j, 16.0) + 0 * i,
            "right": np.maximum(i, 16.0),
            "outside": np.maximum(i, 16.0),
        }[kind]
        below = 0.1 * np.log1p(norm) if kind == "outside" else np.log1p(0.1 * norm)
        x = np.log1p(0.1 * d) / (below + 1e-6)
        y = (
            np.maximum(np.broadcast_to(x, d.shape)[..., None] * _FH[:, 0] + _FB, 0)
            @ _FO.T.astype(np.float64)
            + _FC
        )
        return np.moveaxis(y, -1, 0)

    return bias


_FIRE = FIRE(_FH, _FB, _FO, _FC, c=0.1, length=16.0)
_case(
    "c174",
    "bias",
    _fire("key"),
    _FIRE,
    "normalised-by-key",
    "the distance is normalised by the key's position max(j, L) instead of the query's",
    "max(i, L)",
    _fire("right"),
)

_GATES = -np.abs(_f32(3, 64))


def _fox(own):
    def bias(q_len, k_len):
        out = np.zeros((3, q_len, k_len))
        for a in range(q_len):
            i = k_len - q_len + a
            for j in range(i + 1):
                span = slice(j, i) if own else slice(j + 1, i + 1)
                out[:, a, j] = _GATES[:, span].astype(np.float64).sum(-1)
        return out

    return bias


_case(
    "c176",
    "bias",
    _fox(True),
    ForgettingBias(_GATES),
    "own-gate-of-key",
    "the sum of log gates runs over t = j .. i - 1 (the key's gate, not the query's) instead of j + 1 .. i",
    "cumsum[i] - cumsum[j], cumsum inclusive",
    _fox(False),
)

_DW, _DB = (
    (_f32(8, 1, size=0.3), _f32(8, 8, size=0.3), _f32(4, 8, size=0.3)),
    (_f32(8), _f32(8), _f32(4)),
)


def _dynamic(sign):
    def bias(q_len, k_len):
        r = -_offsets(q_len, k_len).astype(np.float64)
        x = (sign(r) * np.log1p(np.abs(r)))[..., None]
        for n, (w, b) in enumerate(zip(_DW, _DB)):
            x = x @ w.T.astype(np.float64) + b
            x = x / (1 + np.exp(-x)) if n < 2 else x
        return np.moveaxis(x, -1, 0)

    return bias


_case(
    "c177",
    "bias",
    _dynamic(lambda r: 1.0),
    DynamicBias(_DW, _DB, log_distance=True),
    "sign-of-offset-lost",
    "the log distance has no sign: keys after the query get the bias of keys at the same distance before it",
    "sign(r) * log1p(|r|)",
    _dynamic(np.sign),
)

# -- T5 -----------------------------------------------------------------------------------------


def _bucket(r, both, rounding=np.floor, last=None, me_of=None, sign=1, nb=32, far=128):
    r = sign * np.asarray(r)
    out = np.zeros(r.shape, np.int64)
    if both:
        nb //= 2
        out = nb * (r > 0)
        n = np.abs(r)
    else:
        n = np.maximum(-r, 0)
    me = nb // 2
    size = np.log(np.maximum(n, 1) / me) / np.log(far / (me_of or me)) * (nb - me)
    large = me + rounding(size + 1e-9).astype(np.int64)
    return out + np.where(n < me, n, np.minimum(large, nb - 1 if last is None else last))


def _b(both, **more):
    return lambda relative_position: _bucket(relative_position, both, **more)


_T5E, _T5D = T5Bias(_f32(32, 6)), T5Bias(_f32(32, 6), bidirectional=False)
_case(
    "c178",
    "bucket",
    _b(True, rounding=np.round),
    _T5E,
    "bucket-rounded",
    "the logarithmic buckets are rounded to the nearest integer instead of down, so each starts too early",
    "floor (truncate)",
    _b(True),
)
_case(
    "c179",
    "bucket",
    _b(True, last=16),
    _T5E,
    "clamped-at-nb",
    "far distances are clamped to bucket 16 instead of 15: far earlier keys share the first bucket of the "
    "later keys, and far later keys get bucket 32, outside the table",
    "min(..., nb - 1)",
    _b(True),
)
_case(
    "c180",
    "bucket",
    _b(False, me_of=1),
    _T5D,
    "log-of-max-distance",
    "the denominator is log(max_distance) instead of log(max_distance / max_exact), so the logarithmic "
    "buckets are too wide",
    "divide max_distance by max_exact",
    _b(False),
)


def _t5(both, table, **more):
    def compute_bias(q_len, k_len):
        return np.moveaxis(table[_bucket(_offsets(q_len, k_len), both, **more)], -1, 0)

    return compute_bias


_case(
    "c182",
    "bias",
    _t5(False, _T5E.table),
    _T5E,
    "decoder-buckets-in-encoder",
    "the encoder's bias uses the causal buckets: all later keys share bucket 0, earlier ones have 32 buckets",
    "bidirectional=True",
    _t5(True, _T5E.table),
)
_case(
    "c183",
    "bias",
    _t5(True, _T5E.table.reshape(6, 32).T),
    _T5E,
    "table-reshaped",
    "the table (32, 6) is read as (6, 32) and transposed, so entries of buckets and heads are mixed up",
    "table[bucket]",
    _t5(True, _T5E.table),
)


def t5_by_thresholds(relative_position):
    r = np.asarray(relative_position)
    starts = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
    return np.searchsorted(starts, np.abs(r), side="right") + 16 * (r > 0)


_right(
    "c184",
    "bucket",
    t5_by_thresholds,
    _T5E,
    "a sorted list of the first distance of each bucket, searched by bisection",
)

# -- windows ------------------------------------------------------------------------------------


def _yx(h, w):
    y, x = np.divmod(np.arange(h * w), w)
    return y[:, None] - y, x[:, None] - x


_ST = _f32(5 * 9, 4)


def _swin(sy, sx):
    def bias(q_len, k_len):
        dy, dx = _yx(3, 5)
        return np.moveaxis(_ST[(sy * dy + 2) * 9 + sx * dx + 4], -1, 0)

    return bias


_BT = _f32(7 * 5 + 3, 4)


def _beit(order):
    def bias(q_len, k_len):
        dy, dx = _yx(4, 3)
        index = np.zeros((13, 13), np.int64)
        index[1:, 1:] = (dy + 3) * 5 + dx + 2
        index[0, :], index[:, 0], index[0, 0] = (len(_BT) - n for n in order)
        return np.moveaxis(_BT[index], -1, 0)

    return bias


_case(
    "c186",
    "bias",
    _beit((2, 3, 1)),
    BEiTBias(_BT, window=(4, 3)),
    "cls-rows-exchanged",
    "the rows of [CLS]-to-patch (n - 3) and patch-to-[CLS] (n - 2) are exchanged",
    "row 0 has n - 3",
    _beit((3, 2, 1)),
)

_LT = _f32(3 * 5, 4)


def _levit(size):
    def bias(q_len, k_len):
        dy, dx = _yx(3, 5)
        return np.moveaxis(_LT[np.abs(dy) * 5 + size(dx)], -1, 0)

    return bias


_case(
    "c187",
    "bias",
    _levit(lambda dx: dx),
    LeViTBias(_LT, window=(3, 5)),
    "dx-without-abs",
    "the index is |dy| w + dx without the absolute value of dx: if the key is to the right of the query, the "
    "entry of another offset is taken (the index may wrap to the end of the table)",
    "|dx|",
    _levit(np.abs),
)

_CH, _CB, _CO = _f32(16, 2, size=0.5), _f32(16), _f32(4, 16, size=0.3)


def _cpb(div):
    def bias(q_len, k_len):
        dy, dx = _yx(4, 6)
        s = []
        for d, n in ((dy, 4), (dx, 6)):
            u = 8.0 * d / div(n)
            s.append(np.sign(u) * np.log2(1 + np.abs(u)) / np.log2(8))
        y = np.maximum(np.stack(s, -1) @ _CH.T.astype(np.float64) + _CB, 0) @ _CO.T
        return np.moveaxis(16 / (1 + np.exp(-y)), -1, 0)

    return bias


_case(
    "c188",
    "bias",
    _cpb(lambda n: n),
    LogCPB(_CH, _CB, _CO, window=(4, 6)),
    "divided-by-window",
    "offsets are divided by the size of the window instead of the size minus 1",
    "n - 1",
    _cpb(lambda n: n - 1),
)

_VW, _VB, _VG = _f32(4, 3), _f32(4), _f32(4)


def _convit(swap):
    def bias(q_len, k_len):
        dy, dx = _yx(3, 4)
        rel = np.stack([-dy, -dx, dx**2 + dy**2] if swap else [-dx, -dy, dx**2 + dy**2], -1)
        return np.moveaxis(rel @ _VW.T.astype(np.float64) + _VB, -1, 0)

    return bias


_case(
    "c190",
    "bias",
    _convit(True),
    ConViTBias(_VW, _VB, _VG, window=(3, 4)),
    "y-before-x",
    "the first two inputs are (dy, dx) instead of (dx, dy), so their weights are exchanged",
    "x first",
    _convit(False),
)

_NW = (_f32(8, 2, size=0.4), _f32(8, 8, size=0.4), _f32(4, 8, size=0.4))
_NB = (_f32(8), _f32(8), _f32(4))


def _crossformer(relu):
    def bias(q_len, k_len):
        dy, dx = _yx(3, 4)
        x = np.stack([dy, dx], -1).astype(np.float64)
        for n in range(3):
            x = x @ _NW[n].T.astype(np.float64) + _NB[n]
            if n < 2:
                x = relu(x, n)
        return np.moveaxis(x, -1, 0)

    return bias


_case(
    "c191",
    "bias",
    _crossformer(lambda x, n: np.maximum(x, 0) if n else x),
    DynamicWindowBias(_NW, _NB, window=(3, 4)),
    "activation-missing",
    "there is no ReLU after the first layer",
    "ReLU after every hidden layer",
    _crossformer(lambda x, n: np.maximum(x, 0)),
)

# -- relative matrices ----------------------------------------------------------------------------


def _index(factor):
    def window_index(window):
        h, w = window
        dy, dx = _yx(h, w)
        return (dy + h - 1) * (2 * (h if factor == "h" else w) - 1) + dx + w - 1

    return window_index


_case(
    "c192",
    "relative_index",
    _index("h"),
    None,
    "stride-of-height",
    "the row of an offset is (dy + h - 1)(2h - 1) + ..., with the height: in windows wider than high different "
    "offsets share a row",
    "2w - 1",
    _index("w"),
)


def index_of_columns(window):
    h, w = window
    dy, dx = _yx(h, w)
    return 1000 + 3 * ((w - 1 - dx) * (2 * h - 1) + dy + h - 1)


_right(
    "c193",
    "relative_index",
    index_of_columns,
    None,
    "columns of the window first, mirrored, times 3 plus 1000: "
    "other numbers, equal for equal offsets only",
)


def _shift(drop):
    def rel_shift(x):
        q, k = x.shape
        padded = np.concatenate([np.zeros((q, 1), x.dtype), x], 1).reshape(k + 1, q)
        return (padded[:-1] if drop == "last" else padded[1:]).reshape(q, k)

    return rel_shift


_case(
    "c194",
    "relative_shift",
    _shift("last"),
    None,
    "last-row-dropped",
    "after the reshape to (K + 1, Q) the last row is dropped instead of the first, so nothing is shifted right",
    "x_padded[1:]",
    _shift("first"),
)


def _gather(extra):
    def shift_by_index(x):
        q, k = x.shape
        c = (k if extra else q) - 1 - np.arange(q)[:, None] + np.arange(k)
        return np.take_along_axis(x, np.minimum(c, k - 1), 1)

    return shift_by_index


_case(
    "c195",
    "relative_shift",
    _gather(True),
    None,
    "queries-at-start",
    "with a memory (K > Q) the columns are aligned as if query i were at i instead of K - Q + i",
    "start at Q - 1",
    _gather(False),
)


def _rel(flip):
    def rel_scores(q, rel):
        s = len(q)
        by = q.astype(np.float64) @ rel.T
        i, j = np.arange(s)[:, None], np.arange(s)
        return np.take_along_axis(by, (s - 1 + i - j) if flip else (s - 1 - i + j), 1)

    return rel_scores


_case(
    "c196",
    "relative_scores",
    _rel(True),
    None,
    "table-reversed",
    "row m is taken for the offset m - (S - 1) instead of S - 1 - m: the table is read backwards",
    "index S - 1 - i + j",
    _rel(False),
)


def rel_by_strides(q, rel):
    s = len(q)
    by = np.ascontiguousarray(q.astype(np.float64) @ rel.T)
    a, b = by.strides
    return np.lib.stride_tricks.as_strided(by[:, s - 1 :], (s, s), (a - b, b)).copy()


_right(
    "c197",
    "relative_scores",
    rel_by_strides,
    None,
    "a diagonal view by strides: each row starts one element earlier",
)
