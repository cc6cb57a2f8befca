"""Biases and scores: ALiBi, T5, KERPLE, Sandwich, FIRE, windows, DeBERTa, Transformer-XL, Shaw, CoPE, ..."""

import math

import numpy as np

from posenc_ref import (
    FIRE,
    TUPE,
    ALiBi,
    BEiTBias,
    CoPE,
    DeBERTa,
    DecomposedRelative,
    DynamicBias,
    GatedBias,
    Kerple,
    LeViTBias,
    LogCPB,
    PoPE,
    Sandwich,
    Shaw,
    Sinusoidal,
    SwinBias,
    T5Bias,
    TransformerXL,
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


RNG = np.random.default_rng(23)


def normal(*shape, scale=1.0):
    return RNG.normal(size=shape) * scale


def grid(Q, K):
    """Query and key positions as a column and a row."""
    return np.arange(K - Q, K)[:, None], np.arange(K)[None, :]


def qk(q, k, scale=None):
    q, k = q.astype(np.float64), k.astype(np.float64)
    return q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)


# --- slopes and linear biases -----------------------------------------------------------------
def slope_list(n):
    c = 2 ** math.floor(math.log2(n))
    return np.array(
        [2.0 ** (-8 * h / c) for h in range(1, c + 1)]
        + [2.0 ** (-4 * h / c) for h in range(1, 2 * (n - c), 2)]
    )


def slopes_sorted(bug):
    return lambda n: np.sort(slope_list(n))[::-1] if bug else slope_list(n)


wrong(
    "a135",
    slopes_sorted,
    ALiBi(12),
    "slopes",
    "For head counts that are no power of two the slopes are sorted in descending order, so the additional slopes are interleaved "
    "instead of coming after those of the largest power of two",
    "slopes-sorted",
    "append the additional slopes at the end",
)


def slopes_next(bug):
    def fn(n):
        c = 2 ** math.floor(math.log2(n))
        if not bug or c == n:
            return slope_list(n)
        return np.concatenate([slope_list(c), slope_list(2 * c)[: n - c]])

    return fn


wrong(
    "a136",
    slopes_next,
    ALiBi(20),
    "slopes",
    "The slopes beyond the largest power of two are the first n - c slopes of 2c heads instead of every second one (1, 3, 5, ...)",
    "extra-slopes-not-strided",
    "take slopes[0::2] of 2c heads",
)


def tp_slopes(bug):
    def fn(n, size, rank):
        each = n // size
        if bug:
            return slope_list(each)
        return slope_list(n)[rank * each : (rank + 1) * each]

    return fn


wrong(
    "a137",
    tp_slopes,
    ALiBi(16),
    "rank_slopes",
    "Each tensor-parallel rank computes slopes for its own number of heads, so all ranks have the same, too steep slopes instead of "
    "their part of the slopes of 16 heads",
    "slopes-per-rank",
    "compute slopes for all heads, then slice by rank",
)


def alibi_enc(bug):
    m = slope_list(8)[:, None, None]

    def fn(Q, K):
        i, j = grid(Q, K)
        return -m * (i - j if bug else np.abs(i - j))

    return fn


wrong(
    "a138",
    alibi_enc,
    ALiBi(8, causal=False),
    "bias",
    "The signed distance is used instead of its absolute value: keys after the query get a positive bias that grows with the "
    "distance",
    "signed-distance",
    "take the absolute value in bidirectional attention",
)


def alibi_len(bug):
    m = slope_list(6)

    def fn(Q, K):
        i, j = grid(Q, K)
        if bug:
            i = np.arange(Q)[:, None]
        return np.stack([-s * np.abs(i - j) for s in m])

    return fn


wrong(
    "a139",
    alibi_len,
    ALiBi(6, causal=False),
    "bias",
    "Queries are counted from 0 instead of from K - Q: with cached keys (Q < K) the distances are too small by K - Q on one side",
    "queries-from-zero",
    "add K - Q to the query index",
)
good(
    "a140",
    lambda Q, K: slope_list(14)[:, None, None] * np.arange(K)[None, None, :],
    ALiBi(14),
    "bias",
    "BLOOM's form m j, which differs by a constant for each query; allowed for causal attention",
)

# --- T5 ---------------------------------------------------------------------------------------
TABLE = normal(32, 6)


def t5_bucket(r, bug="", bidirectional=True, nb=32, far=128):
    r = np.asarray(r).astype(np.int64)
    out = np.zeros_like(r)
    if bidirectional:
        nb //= 2
        out = nb * ((r >= 0) if bug == "zero" else (r < 0) if bug == "dir" else (r > 0))
        n = np.abs(r)
    else:
        n = np.maximum(r if bug == "future" else -r, 0)
    me = nb // 2
    starts = list(range(1, me + 1))
    for t in range(1, nb - me):
        v = starts[-1]
        while v ** (nb - me) * me**t < far**t * me ** (nb - me):
            v += 1
        starts.append(v + (1 if bug == "late" else 0))
    if bug == "ceil":
        x = me + np.ceil(
            np.log(np.maximum(n, 1) / me) / math.log(far / me) * (nb - me) - 1e-12
        ).astype(int)
        return out + np.where(n < me, n, np.minimum(x, nb - 1))
    return out + sum((n >= s).astype(np.int64) for s in starts)


def bucket_case(kind, **kw):
    return lambda bug: lambda r: t5_bucket(r, kind if bug else "", **kw)


wrong(
    "a141",
    bucket_case("ceil"),
    T5Bias(TABLE),
    "bucket",
    "The logarithmic part is rounded up instead of down: distances from 9 on are one bucket too far, except at exact bucket starts "
    "and in the last bucket",
    "ceil-for-floor",
    "truncate the logarithm",
)
wrong(
    "a142",
    bucket_case("late", nb=32, far=256),
    T5Bias(TABLE, max_distance=256),
    "bucket",
    "Every logarithmic bucket after the first (which starts at 8) starts one distance too late: n > start instead of n >= start",
    "bucket-start-strict",
    "compare with >=",
)
wrong(
    "a143",
    bucket_case("future", bidirectional=False),
    T5Bias(TABLE, bidirectional=False),
    "bucket",
    "In the causal bucket, distance is max(key - query, 0) instead of max(query - key, 0): all past keys share bucket 0",
    "future-for-past",
    "negate the relative position before the maximum",
)


def t5_scores(bug):
    def fn(q, k):
        i, j = grid(q.shape[-2], k.shape[-2])
        b = TABLE[t5_bucket(j - i)].transpose(2, 0, 1)
        return (qk(q, k, q.shape[-1] ** -0.5 if bug else 1.0) + b).astype(q.dtype)

    return fn


wrong(
    "a144",
    t5_scores,
    T5Bias(TABLE),
    "scores",
    "q . k is divided by sqrt(d); T5 does not scale, its weights contain the factor",
    "t5-scaled",
    "use scale 1",
)


def t5_rows(bug):
    def fn(Q, K):
        i, j = grid(Q, K)
        r = i - j if bug else j - i
        return TABLE[t5_bucket(r)].transpose(2, 0, 1)

    return fn


wrong(
    "a145",
    t5_rows,
    T5Bias(TABLE),
    "bias",
    "The relative position is query minus key instead of key minus query: the buckets of earlier and later keys are exchanged",
    "t5-direction",
    "use key - query",
)
good(
    "a146",
    lambda r: t5_bucket(r, bidirectional=False),
    T5Bias(TABLE, bidirectional=False),
    "bucket",
    "thresholds found by comparing integer powers, then counted",
)

# --- other biases of the distance -------------------------------------------------------------
R1, R2 = np.abs(normal(4)) + 0.3, np.abs(normal(4)) + 0.2


def kerple(bug):
    def fn(Q, K):
        i, j = grid(Q, K)
        d = np.abs(i - j)
        a, b = R1[:, None, None], R2[:, None, None]
        return -a * np.log(1 + d) * b if bug else -a * np.log1p(b * d)

    return fn


wrong(
    "a147",
    kerple,
    Kerple(R1, R2),
    "bias",
    "r2 multiplies the logarithm instead of the distance inside it: -r1 r2 log(1 + d) for -r1 log(1 + r2 d)",
    "r2-outside-log",
    "put r2 inside the logarithm",
)


def kerple_power(bug):
    p = R2 / (1 + R2)

    def fn(Q, K):
        i, j = grid(Q, K)
        d = np.abs(i - j).astype(np.float64)
        out = -R1[:, None, None] * d ** p[:, None, None]
        if bug:
            out[1:] = -R1[1:, None, None] * d ** p[0]
        return out

    return fn


wrong(
    "a148",
    kerple_power,
    Kerple(R1, R2 / (1 + R2), form="power"),
    "bias",
    "All heads use the exponent r2 of head 0; head 0 is right",
    "exponent-of-head-0",
    "use r2[h] for head h",
)


def sandwich(bug):
    w = 10000.0 ** (-2 * (np.arange(32) + (0 if bug else 1)) / 64)

    def fn(Q, K):
        i, j = grid(Q, K)
        s = np.cos((i - j)[..., None] * w).sum(-1) - 32
        return s / (8 * np.arange(1, 5)[:, None, None] / 4)

    return fn


wrong(
    "a149",
    sandwich,
    Sandwich(4, 64),
    "bias",
    "The sum over frequencies starts at k = 0 like the Transformer's sinusoids instead of at k = 1: it has frequency 1 in place of "
    "the lowest, 1e-4",
    "sandwich-k-from-0",
    "sum over k = 1 .. dim/2",
)
FH, FB, FO, FC = normal(16, 1), normal(16), normal(3, 16), normal(3)


def fire(bug):
    def fn(Q, K):
        i, j = grid(Q, K)
        d = np.maximum(i - j, 0)
        top = np.full_like(i, 64) if bug else np.maximum(i, 64)
        x = np.log1p(0.1 * d) / (np.log1p(0.1 * top) + 1e-6)
        h = np.maximum(x[..., None] * FH[:, 0] + FB, 0)
        return (h @ FO.T + FC).transpose(2, 0, 1)

    return fn


wrong(
    "a150",
    fire,
    FIRE(FH, FB, FO, FC, c=0.1, length=64.0),
    "bias",
    "The denominator is always psi(length) instead of psi(max(i, length)): queries beyond position 64 are normalised by too small a "
    "number",
    "fire-max-missing",
    "take the larger of query position and length",
)
DW, DB = (normal(8, 1), normal(8, 8), normal(3, 8)), (normal(8), normal(8), normal(3))


def dynamic(bug):
    def fn(Q, K):
        i, j = grid(Q, K)
        r = (i - j).astype(np.float64)
        x = (np.sign(r) * np.log(np.abs(r) + (1e-6 if bug else 1)) * (r != 0))[..., None]
        for n in range(3):
            x = x @ DW[n].T + DB[n]
            x = x / (1 + np.exp(-np.clip(x, -700, 700))) if n < 2 else x
        return x.transpose(2, 0, 1)

    return fn


wrong(
    "a151",
    dynamic,
    DynamicBias(DW, DB, log_distance=True),
    "bias",
    "The input is sign(r) log(|r| + 1e-6) instead of sign(r) log(1 + |r|): all inputs are too small, and the offsets -1 and 1 have input 0 like offset 0",
    "log-without-one",
    "use log(1 + |r|)",
)

# --- windows ----------------------------------------------------------------------------------


def offsets(h, w):
    n = np.arange(h * w)
    return n[:, None] // w - n[None] // w, n[:, None] % w - n[None] % w


def rel_index(bug):
    def fn(window):
        h, w = window
        dy, dx = offsets(h, w)
        return (dy + h - 1) * ((2 * h if bug else 2 * w) - 1) + dx + w - 1

    return fn


wrong(
    "a152",
    rel_index,
    None,
    "relative_index",
    "The factor of the row offset is 2h - 1 instead of 2w - 1: in windows that are wider than high, different offsets share a row",
    "factor-of-height",
    "multiply by 2w - 1",
)
ST = normal(5 * 9, 3)


def cut(full):
    return lambda Q, K: full[:, K - Q : K, :K]


def swin(bug):
    dy, dx = offsets(3, 5)
    if bug:
        dy = -dy
    return cut(ST[(dy + 2) * 9 + dx + 4].transpose(2, 0, 1))


wrong(
    "a153",
    swin,
    SwinBias(ST, window=(3, 5)),
    "bias",
    "The row offset is key minus query while the column offset is query minus key: biases of tokens above and below are "
    "exchanged; tokens of one row are right",
    "row-offset-sign",
    "use query minus key on both axes",
)
BT = normal(5 * 7 + 3, 2)


def beit(bug):
    h, w = 3, 4
    dy, dx = offsets(h, w)
    ix = np.zeros((h * w + 1,) * 2, int)
    ix[1:, 1:] = (dy + h - 1) * (2 * w - 1) + dx + w - 1
    n = len(BT)
    ix[0, :], ix[:, 0], ix[0, 0] = (n - 2, n - 3, n - 1) if bug else (n - 3, n - 2, n - 1)
    return cut(BT[ix].transpose(2, 0, 1))


wrong(
    "a154",
    beit,
    BEiTBias(BT, window=(3, 4)),
    "bias",
    "The rows for [CLS] to patches and patches to [CLS] are exchanged; all other pairs are right",
    "cls-rows-exchanged",
    "token 0 as query takes row n - 3, as key row n - 2",
)
LT = normal(12, 4)


def levit(bug):
    dy, dx = (np.abs(v) for v in offsets(3, 4))
    return cut(LT[dx * 3 + dy if bug else dy * 4 + dx].transpose(2, 0, 1))


wrong(
    "a155",
    levit,
    LeViTBias(LT, window=(3, 4)),
    "bias",
    "The table is indexed by |dx| h + |dy| instead of |dy| w + |dx|: it is read transposed",
    "levit-transposed",
    "index by rows first",
)
CH, CB, CO = normal(16, 2), normal(16), normal(3, 16)


def cpb(bug):
    dy, dx = offsets(4, 4)
    x = np.stack([dy / 3, dx / 3], -1)
    x = np.sign(x) * (np.log1p(8 * np.abs(x)) if bug else np.log2(1 + 8 * np.abs(x))) / 3
    f = np.maximum(x @ CH.T + CB, 0) @ CO.T
    return cut((16 / (1 + np.exp(-f))).transpose(2, 0, 1))


wrong(
    "a156",
    cpb,
    LogCPB(CH, CB, CO, window=(4, 4)),
    "bias",
    "The logarithm is natural but is divided by log2(8) = 3, so both inputs of the network are too small by the factor ln 2 = 0.69",
    "natural-log",
    "use log2, or divide by ln(8)",
)


def swin_loops(Q, K):
    out = np.empty((3, 15, 15))
    for i in range(15):
        for j in range(15):
            out[:, i, j] = ST[(i // 5 - j // 5 + 2) * 9 + (i % 5 - j % 5 + 4)]
    return out[:, K - Q : K, :K]


good(
    "a157",
    swin_loops,
    SwinBias(ST, window=(3, 5)),
    "bias",
    "two loops over the tokens of a window that is not square",
)

# --- relative positions in the scores ---------------------------------------------------------
KR, QR = normal(2, 16, 8), normal(2, 16, 8)


def take(by_row, row):
    return np.take_along_axis(by_row, np.broadcast_to(row, (*by_row.shape[:-2], *row.shape)), -1)


def deberta(bug, kind):
    span = 8

    def fn(q, k):
        i, j = grid(q.shape[-2], k.shape[-2])
        row = np.clip(i - j + span, 0, 2 * span - 1)
        back = np.clip(j - i + span, 0, 2 * span - 1) if bug and kind == "p2c" else row
        n = 1 if bug and kind == "scale" else 3
        q64, k64 = q.astype(np.float64), k.astype(np.float64)
        c2p = take(q64 @ KR.swapaxes(-1, -2), row)
        p2c = take(k64 @ QR.swapaxes(-1, -2), back.T).swapaxes(-1, -2)
        s = (q.shape[-1] * 3) ** -0.5
        s0 = (q.shape[-1] * n) ** -0.5
        return (qk(q, k, s0) + (c2p + p2c) * s).astype(q.dtype)

    return fn


wrong(
    "a158",
    lambda b: deberta(b, "p2c"),
    DeBERTa(KR, QR),
    "scores",
    "The position-to-content term takes the row of key minus query (as printed in the paper) instead of query minus key (the code, "
    "as declared)",
    "p2c-direction",
    "use the same row for both terms",
)
wrong(
    "a159",
    lambda b: deberta(b, "scale"),
    DeBERTa(KR, QR),
    "scores",
    "The content term is scaled by 1/sqrt(d) and only the position terms by 1/sqrt(3d)",
    "content-term-scale",
    "scale all three terms by 1/sqrt(3d)",
)
SK = normal(17, 8)


def shaw(bug):
    def fn(q, k):
        i, j = grid(q.shape[-2], k.shape[-2])
        row = np.clip(j - i, -7 if bug else -8, 7 if bug else 8) + 8
        return (qk(q, k) + take(q.astype(np.float64) @ SK.T, row) * 8**-0.5).astype(q.dtype)

    return fn


wrong(
    "a160",
    shaw,
    Shaw(SK, before=8),
    "scores",
    "Offsets are clipped to -7 .. 7 instead of -8 .. 8: keys at a distance of 8 or more take the row of distance 7",
    "clip-one-short",
    "clip to the table's K = 8",
)
PJ, U, V = normal(2, 8, 16, scale=0.3), normal(2, 8), normal(2, 8)


def txl(bug, kind):
    sin = Sinusoidal(16, layout="concat")

    def fn(q, k):
        i, j = grid(q.shape[-2], k.shape[-2])
        R = np.einsum("hdD,ijD->hijd", PJ, sin.table(i - j))
        u, v = (V, U) if bug and kind == "uv" else (U, V)
        if bug and kind == "nov":
            v = np.zeros_like(V)
        q64 = q.astype(np.float64)
        bd = np.einsum("bhid,hijd->bhij", q64 + v[:, None], R)
        return ((qk(q64 + u[:, None], k, 1.0) + bd) * 8**-0.5).astype(q.dtype)

    return fn


TX = TransformerXL(PJ, U, V, sinusoid=Sinusoidal(16, layout="concat"))
wrong(
    "a161",
    lambda b: txl(b, "uv"),
    TX,
    "scores",
    "The two biases are exchanged: v is added to queries in the content term and u in the position term",
    "u-v-exchanged",
    "add u (r_w_bias) for keys and v (r_r_bias) for positions",
)
wrong(
    "a162",
    lambda b: txl(b, "nov"),
    TX,
    "scores",
    "The term v . W R is missing: the position bias is not added to the queries of the position term",
    "v-missing",
    "add the position bias",
)
CE = normal(6, 8)


def cope(bug):
    def fn(q, k):
        i, j = grid(q.shape[-2], k.shape[-2])
        s = qk(q, k)
        g = 1 / (1 + np.exp(-s))
        if not bug:
            g = g * (j <= i)
        p = np.minimum(np.flip(np.cumsum(np.flip(g, -1), -1), -1), 5.0)
        lo = np.floor(p).astype(int)
        hi = np.ceil(p).astype(int)
        by = q.astype(np.float64) @ CE.T
        a, b = np.take_along_axis(by, lo, -1), np.take_along_axis(by, hi, -1)
        return (s + a * (1 - (p - lo)) + b * (p - lo)).astype(q.dtype)

    return fn


wrong(
    "a163",
    cope,
    CoPE(CE),
    "scores",
    "The gates of keys after the query are not masked, so they are counted in the positions of all earlier keys; the last query is "
    "right",
    "cope-future-gates",
    "mask the logits before the sigmoid",
)
TQ, TK = normal(64, 2, 8), normal(64, 2, 8)


def tupe(bug):
    def fn(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        pq, pk = TQ[K - Q : K].transpose(1, 0, 2), TK[:K].transpose(1, 0, 2)
        return (qk(q, k, 16**-0.5) + qk(pq, pk, (8 if bug else 16) ** -0.5)).astype(q.dtype)

    return fn


wrong(
    "a164",
    tupe,
    TUPE(TQ, TK),
    "scores",
    "The position-position term is scaled by 1/sqrt(d) instead of 1/sqrt(2d); the content term is right",
    "position-term-scale",
    "scale both terms by 1/sqrt(2d)",
)
HT, WT = normal(7, 8), normal(9, 8)


def decomposed(bug):
    def fn(q, k):
        i, j = grid(q.shape[-2], k.shape[-2])
        q64 = q.astype(np.float64) * (8**-0.5 if bug else 1)
        h = take(q64 @ HT.T, i // 5 - j // 5 + 3)
        w = take(q64 @ WT.T, i % 5 - j % 5 + 4)
        return (qk(q, k) + h + w).astype(q.dtype)

    return fn


wrong(
    "a165",
    decomposed,
    DecomposedRelative(HT, WT, grid=(4, 5)),
    "scores",
    "The position terms use the query already divided by sqrt(d); they should use the unscaled query",
    "scaled-query-in-position-term",
    "compute the position terms before scaling q",
)


def pope(bug):
    n = 8
    th = 10000.0 ** (-(2 if bug else 1) * np.arange(n) / n)

    def fn(q, k):
        i, j = grid(q.shape[-2], k.shape[-2])
        sq, sk = (np.logaddexp(0, v.astype(np.float64)) for v in (q, k))
        t = [
            np.arange(x.shape[-2])[:, None] + o for x, o in ((q, k.shape[-2] - q.shape[-2]), (k, 0))
        ]
        a, b = (
            np.concatenate([s * np.cos(p * th), s * np.sin(p * th)], -1)
            for s, p in zip((sq, sk), t)
        )
        return (a @ b.swapaxes(-1, -2) * n**-0.5).astype(q.dtype)

    return fn


wrong(
    "a166",
    pope,
    PoPE(8),
    "scores",
    "Frequencies are base ** (-2c/d), RoPE's exponents for d/2 pairs, instead of base ** (-c/d) for d channels",
    "pope-exponent-doubled",
    "use c/d for channel c",
)
GB, GW, GL, GS = T5Bias(normal(32, 2)), normal(2, 8), normal(2), np.abs(normal(2))


def gated(bug):
    def fn(q, k):
        i, j = grid(q.shape[-2], k.shape[-2])
        g = 1 / (1 + np.exp(-(q.astype(np.float64) @ GW.T + GL)))
        a, r = (g[..., 1], g[..., 0]) if bug else (g[..., 0], g[..., 1])
        gate = 2 + a * (GS[:, None] * r - 1)
        return (
            qk(q, k) + gate[..., None] * np.asarray(GB.table)[t5_bucket(j - i)].transpose(2, 0, 1)
        ).astype(q.dtype)

    return fn


wrong(
    "a167",
    gated,
    GatedBias(GB, GW, GL, GS),
    "scores",
    "The two gates are exchanged: the first output is taken as r and the second as a",
    "gates-exchanged",
    "the first half is a, the second r",
)


def rel_shift(bug):
    def fn(x):
        Q, K = x.shape
        z = np.concatenate([np.zeros((Q, 1), x.dtype), x], 1).reshape(K + 1, Q)
        return (z[:-1] if bug else z[1:]).reshape(Q, K)

    return fn


wrong(
    "a168",
    rel_shift,
    None,
    "relative_shift",
    "The padded and reshaped scores lose the last row instead of the first, so every row is shifted to the wrong distances",
    "drop-last-row",
    "drop the first row",
)


def rel_scores(bug):
    def fn(q, rel):
        S = len(q)
        n = np.arange(S)
        m = S - 1 - (n[:, None] - n[None])
        r = rel[::-1] if bug else rel
        return np.take_along_axis(q @ r.T, m, 1)

    return fn


wrong(
    "a169",
    rel_scores,
    None,
    "relative_scores",
    "The relative table is read in reversed order: row m is taken for offset -(S-1) + m instead of S - 1 - m",
    "table-reversed",
    "flip the table, or the index",
)
good(
    "a170",
    lambda x: np.stack(
        [
            np.concatenate([r[len(x) - 1 - i :], np.zeros(len(x) - 1 - i, x.dtype)])
            for i, r in enumerate(x)
        ]
    ),
    None,
    "relative_shift",
    "each row is sliced by itself, zeros at keys after the query",
)
good(
    "a171", lambda q, k: txl(False, "")(q, k), TX, "scores", "einsum over all distances, no reshape"
)


def sandwich_right(Q, K):
    w = 10000.0 ** (-2 * np.arange(1, 33) / 64)
    e = np.exp(1j * np.arange(K)[:, None] * w)
    s = (e[K - Q :] @ e.conj().T).real
    return s[None] / (2 * np.arange(1, 5))[:, None, None]


good(
    "a172",
    sandwich_right,
    Sandwich(4, 64),
    "bias",
    "inner product of complex sinusoids, without the constant dim/2 (allowed: softmax ignores it)",
)
good(
    "a173",
    lambda window: (lambda dy, dx: (dx + 64) * 1000 - dy)(*offsets(*window)),
    None,
    "relative_index",
    "another numbering: column offset times 1000 minus the row offset; equal exactly where the offsets are",
)


def key_tiles(bug, T=32):
    m = slope_list(8)

    def fn(Q, K):
        out = np.zeros((8, Q, K))
        i = np.arange(K - Q, K)[:, None]
        for s in range(0, K, T):
            j = np.arange(s, min(s + T, K))[None]
            if bug and s:
                j = j - 1  # tile origin is off by one after the first
            out[:, :, s : s + T] = -m[:, None, None] * np.abs(i - j)
        return out

    return fn


wrong(
    "a211",
    key_tiles,
    ALiBi(8),
    "bias",
    "From key 32 on (second tile of keys and later), the distance is that of the key before: one too large for past keys",
    "key-tile-origin",
    "start tile n at n * 32",
)


def heads_past(bug):
    def fn(n):
        s = slope_list(n).copy()
        if bug and n > 16:
            s[16:] = s[15]
        return s

    return fn


wrong(
    "a212",
    heads_past,
    ALiBi(32),
    "slopes",
    "Heads from 16 on have the slope of head 15 (a constant array of 16 slopes, its index clamped)",
    "slopes-past-16-clamped",
    "compute the slopes of all heads",
)
