"""Author K: scores that depend on queries and keys."""
import math

import numpy as np
import torch

from posenc_ref import (
    CoPE, DeBERTa, DecomposedRelative, ESPnetLegacy, GatedBias, Shaw, Sinusoidal, T5Bias, TransformerXL,
    TUPE, XLNet, ALiBi,
)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    if surface == "scores":
        inner = make

        def make(bug):
            kernel = inner(bug)

            def scores(q, k):
                n, m = q.shape[-2], k.shape[-2]
                return kernel(q, k, np.arange(m - n, m), np.arange(m))

            return scores

    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def T(x):
    return np.swapaxes(x, -1, -2)


def f64(*xs):
    return [np.asarray(x, np.float64) for x in xs]


def diff(a, b):
    """a_i - b_j, (Q, K); rows of batches are refused"""
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError("positions (Q,) and (K,) only")
    return a[:, None] - b[None, :]


def pick(x, index):
    """x (..., Q, R), index (Q, K) -> (..., Q, K)"""
    return np.take_along_axis(x, np.broadcast_to(index, (*x.shape[:-1], index.shape[-1])), axis=-1)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


# ---- k101: CoPE gates without the mask
def make(bug):
    emb = np.random.default_rng(101).normal(size=(12, 16)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        s = q @ T(k) / 4.0
        see = diff(q_positions, k_positions) >= 0
        g = sigmoid(s) * (1.0 if bug else see)
        p = np.flip(np.cumsum(np.flip(g, -1), -1), -1)
        p = np.minimum(p, 11)
        lo, hi = np.floor(p).astype(int), np.ceil(p).astype(int)
        by = q @ emb.T.astype(float)
        f = p - lo
        a, b = np.take_along_axis(by, lo, -1), np.take_along_axis(by, hi, -1)
        return (s + a * (1 - f) + b * f).astype(dt)

    make.enc = CoPE(emb)
    return scores


make(False)
case("k101", make, make.enc, "scores",
     "the gates of keys after the query are counted because the mask is applied after the gates are summed",
     "cope-unmasked-gates", "mask the logits before the sigmoid")


# ---- k102: CoPE interpolation weights exchanged
def make(bug):
    emb = np.random.default_rng(102).normal(size=(8, 8)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        s = q @ T(k) / math.sqrt(8)
        g = sigmoid(s) * (diff(q_positions, k_positions) >= 0)
        p = np.minimum(g[..., ::-1].cumsum(-1)[..., ::-1], 7)
        lo = np.floor(p)
        w = p - lo
        by = q @ emb.T.astype(float)
        e0 = np.take_along_axis(by, lo.astype(int), -1)
        e1 = np.take_along_axis(by, np.minimum(lo + 1, 7).astype(int), -1)
        mix = e0 * w + e1 * (1 - w) if bug else e0 * (1 - w) + e1 * w
        return (s + mix).astype(dt)

    make.enc = CoPE(emb)
    return scores


make(False)
case("k102", make, make.enc, "scores",
     "the weights of the two interpolated rows are exchanged: floor gets the fraction, ceil gets 1 - fraction",
     "cope-interpolation", "give the fraction to the upper row")


# ---- k103: CoPE gates of unscaled logits
def make(bug):
    emb = np.random.default_rng(103).normal(size=(16, 32)).astype(np.float32) * 0.3

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        raw = q @ T(k)
        s = raw / math.sqrt(32)
        g = sigmoid(raw if bug else s) * (diff(q_positions, k_positions) >= 0)
        p = np.minimum(np.flip(np.flip(g, -1).cumsum(-1), -1), 15)
        by = q @ emb.T.astype(float)
        out = s.copy()
        for m in range(16):
            out += np.maximum(1 - np.abs(p - m), 0) * by[..., m:m + 1]
        return out.astype(dt)

    make.enc = CoPE(emb)
    return scores


make(False)
case("k103", make, make.enc, "scores",
     "the gates are computed from q.k before it is divided by sqrt(d)", "cope-gate-scale",
     "apply the sigmoid to the scaled logits")


def deberta_row(r, span, mid=None, top=None, up=True, base=None):
    if mid is None:
        return np.clip(r + span, 0, 2 * span - 1)
    a = np.abs(r)
    z = np.log(np.maximum(a, 1) / mid) / math.log((top if base is None else base) / mid) * (mid - 1)
    z = np.ceil(z - 1e-9) if up else np.floor(z)
    b = np.where(a <= mid, r, np.sign(r) * (mid + z)).astype(int)
    return np.clip(b + span, 0, 2 * span - 1)


def deberta_scores(q, k, i, j, kr, qr, rows, p2c_rows=None, terms=3, swap=False):
    dt = q.dtype
    q, k = f64(q, k)
    r = diff(i, j)
    out = q @ T(k)
    if kr is not None:
        out = out + pick(q @ T(kr.astype(float)), rows(r))
    if qr is not None:
        back = (p2c_rows or rows)(r)
        if swap:
            part = pick(k @ T(qr.astype(float)), back) if back.shape[0] == back.shape[1] else None
        else:
            part = T(pick(k @ T(qr.astype(float)), T(back)))
        out = out + part
    return (out / math.sqrt(terms * q.shape[-1])).astype(dt)


def deberta_tables(seed, h, span, d):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(h, 2 * span, d)).astype(np.float32) for _ in range(2))


# ---- k104: DeBERTa scale of one term
def make(bug):
    kr, qr = deberta_tables(104, 2, 8, 16)

    def scores(q, k, q_positions, k_positions):
        return deberta_scores(q, k, q_positions, k_positions, kr, None, lambda r: deberta_row(r, 8),
                              terms=3 if bug else 2)

    make.enc = DeBERTa(kr, None)
    return scores


make(False)
case("k104", make, make.enc, "scores",
     "the scale is 1/sqrt(3d) although only c2p is enabled, where the factor counts the terms that exist (2)",
     "scale-terms", "count the enabled terms")


# ---- k105: p2c with the opposite offset
def make(bug):
    kr, qr = deberta_tables(105, 3, 6, 8)

    def scores(q, k, q_positions, k_positions):
        return deberta_scores(q, k, q_positions, k_positions, kr, qr, lambda r: deberta_row(r, 6),
                              (lambda r: deberta_row(-r, 6)) if bug else None)

    make.enc = DeBERTa(kr, qr)
    return scores


make(False)
case("k105", make, make.enc, "scores",
     "the position-to-content term takes the row of j - i (the paper's equation) where the released weights need the row of i - j",
     "p2c-sign", "use the same row index i - j for both terms")


# ---- k106: DeBERTa v2 bucket base
def make(bug):
    kr, qr = deberta_tables(106, 2, 16, 8)

    def scores(q, k, q_positions, k_positions):
        rows = lambda r: deberta_row(r, 16, 8, 63, up=not bug)
        return deberta_scores(q, k, q_positions, k_positions, kr, qr, rows)

    make.enc = DeBERTa(kr, qr, buckets=16, max_position=64)
    return scores


make(False)
case("k106", make, make.enc, "scores",
     "the logarithmic part of the bucket is rounded down (T5's floor) instead of up (ceil)",
     "bucket-floor", "use ceil")


# ---- k108: DeBERTa: the two tables exchanged
def make(bug):
    kr, qr = deberta_tables(108, 2, 5, 12)

    def scores(q, k, q_positions, k_positions):
        a, b = (qr, kr) if bug else (kr, qr)
        return deberta_scores(q, k, q_positions, k_positions, a, b, lambda r: deberta_row(r, 5))

    make.enc = DeBERTa(kr, qr)
    return scores


make(False)
case("k108", make, make.enc, "scores",
     "pos_key_proj and pos_query_proj are exchanged: queries meet Qr and keys meet Kr", "tables-exchanged",
     "multiply queries with Kr and keys with Qr")


# ---- k109: DeBERTa: p2c gathered but not transposed
def make(bug):
    kr, qr = deberta_tables(109, 2, 6, 8)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        r = diff(q_positions, k_positions)
        row = deberta_row(r, 6)
        out = q @ T(k) + pick(q @ T(kr.astype(float)), row)
        side = k @ T(qr.astype(float))
        if bug and side.shape[-2] == row.shape[0]:
            out = out + pick(side, row)
        else:
            out = out + T(pick(side, T(row)))
        return (out / math.sqrt(3 * 8)).astype(dt)

    make.enc = DeBERTa(kr, qr)
    return scores


make(False)
case("k109", make, make.enc, "scores",
     "where there are as many queries as keys, the position-to-content scores are added as (key, query) without the transpose",
     "p2c-transpose", "transpose the gathered p2c scores")


def xl(seed, h=2, d=8, D=16):
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(h, d, D)).astype(np.float32) * 0.3
    u, v = (rng.normal(size=(h, d)).astype(np.float32) for _ in range(2))
    return W, u, v


def sine_rows(at, D, layout):
    a = np.asarray(at, float)[..., None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
    s, c = np.sin(a), np.cos(a)
    return np.concatenate([s, c], -1) if layout == "concat" else np.stack([s, c], -1).reshape(*a.shape[:-1], D)


def xl_scores(q, k, r, W, u, v, layout="concat", scale=None, vscale=1.0):
    dt, d = q.dtype, q.shape[-1]
    q, k, W, u, v = f64(q, k, W, u, v)
    rows = sine_rows(r, W.shape[-1], layout)
    proj = np.einsum("qkD,hcD->hqkc", rows, W)
    ac = np.einsum("...hqc,...hkc->...hqk", q + u[:, None], k)
    bd = np.einsum("...hqc,hqkc->...hqk", q + v[:, None] * vscale, proj)
    return ((ac + bd) / math.sqrt(d)).astype(dt)


# ---- k110: u and v exchanged
def make(bug):
    W, u, v = xl(110)

    def scores(q, k, q_positions, k_positions):
        a, b = (v, u) if bug else (u, v)
        return xl_scores(q, k, diff(q_positions, k_positions), W, a, b)

    make.enc = TransformerXL(W, u, v, sinusoid=Sinusoidal(16, layout="concat"))
    return scores


make(False)
case("k110", make, make.enc, "scores",
     "the biases r_w_bias (u) and r_r_bias (v) are exchanged", "biases-exchanged",
     "add u to the content term and v to the position term")


# ---- k111: clamp on one side only
def make(bug):
    W, u, v = xl(111)

    def scores(q, k, q_positions, k_positions):
        r = diff(q_positions, k_positions)
        r = np.minimum(r, 6) if bug else np.clip(r, -6, 6)
        return xl_scores(q, k, r, W, u, v)

    make.enc = TransformerXL(W, u, v, sinusoid=Sinusoidal(16, layout="concat"), clamp=6)
    return scores


make(False)
case("k111", make, make.enc, "scores",
     "clamp_len limits distances to the left only; offsets to later keys are not clamped", "clamp-one-side",
     "clamp at both ends")


# ---- k112: bidirectional relative shift as for causal attention
def make(bug):
    W, u, v = xl(112, 2, 6, 12)

    def scores(q, k, q_positions, k_positions):
        r = diff(q_positions, k_positions)
        return xl_scores(q, k, np.abs(r) if bug else r, W, u, v, "interleaved")

    make.enc = TransformerXL(W, u, v, sinusoid=Sinusoidal(12))
    return scores


make(False)
case("k112", make, make.enc, "scores",
     "keys after the query get the row of the absolute distance |i - j|, so the sines have the wrong sign there",
     "offset-absolute", "compute the rows for negative offsets too")


# ---- k114: XLNet, the bias v only in the content stream
def make(bug):
    W, u, v = xl(114)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q64, k64, W64, u64, v64 = f64(q, k, W, u, v)
        if bug:
            q64 = q64 / math.sqrt(8)
        R = sine_rows(diff(q_positions, k_positions), 16, "concat")
        kr = np.einsum("ijD,hcD->hijc", R, W64)
        out = np.einsum("...hic,...hjc->...hij", q64 + u64[:, None], k64) + np.einsum(
            "...hic,hijc->...hij", q64 + v64[:, None], kr)
        return (out * (1.0 if bug else 8 ** -0.5)).astype(dt)

    make.enc = XLNet(W, u, v, sinusoid=Sinusoidal(16, layout="concat"))
    return scores


make(False)
case("k114", make, make.enc, "scores",
     "the queries are scaled by 1/sqrt(d) before the biases u and v are added, so the bias terms are not scaled",
     "bias-after-scale", "add u and v first, then scale")


# ---- k115: ESPnet legacy: table length
def make(bug):
    W, u, v = xl(115, 2, 4, 8)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q64, k64, W64, u64, v64 = f64(q, k, W, u, v)
        r = diff(q_positions, k_positions)
        n_k = k.shape[-2]
        L = n_k if bug else max(64, n_k)
        place = np.where(r >= 0, r + L - n_k, r + L + 1)
        P = np.einsum("ijD,hcD->hijc", sine_rows(place, 8, "interleaved"), W64)
        nxt = np.concatenate([q64[..., 1:, :], np.zeros_like(q64[..., :1, :])], -2)
        own = np.einsum("...hic,hijc->...hij", q64 + v64[:, None], P)
        fol = np.einsum("...hic,hijc->...hij", nxt + v64[:, None], P)
        bd = own * (r >= 0) + fol * (r < -1)
        ac = (q64 + u64[:, None]) @ T(k64)
        return ((ac + bd) / 2.0).astype(dt)

    make.enc = ESPnetLegacy(W, u, v, sinusoid=Sinusoidal(8), max_len=64)
    return scores


make(False)
case("k115", make, make.enc, "scores",
     "the table of positions is taken as long as the utterance instead of max_len, so rows begin at 0 instead of max_len - K",
     "espnet-table-length", "take the last K rows of the table of max_len")


# ---- k116: left and right limits exchanged
def make(bug):
    a = np.random.default_rng(116).normal(size=(11, 12)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        r = -diff(q_positions, k_positions)
        row = np.clip(r, -2, 8) + 2 if bug else np.clip(r, -8, 2) + 8
        return ((q @ T(k) + pick(q @ a.T.astype(float), row)) / math.sqrt(12)).astype(dt)

    make.enc = Shaw(a, before=8)
    return scores


make(False)
case("k116", make, make.enc, "scores",
     "left_max_position_embeddings and right_max_position_embeddings are exchanged: 2 rows before and 8 after instead of 8 and 2",
     "left-right-exchanged", "clip to -8 .. 2 and add 8")


# ---- k117: Shaw: position term divided twice
def make(bug):
    a = np.random.default_rng(117).normal(size=(9, 16)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        q = q / 4.0
        row = np.clip(-diff(q_positions, k_positions), -4, 4) + 4
        rel = pick(q @ a.T.astype(float), row)
        return (q @ T(k) + (rel / 4.0 if bug else rel)).astype(dt)

    make.enc = Shaw(a, before=4)
    return scores


make(False)
case("k117", make, make.enc, "scores",
     "the relative term is divided by sqrt(d) twice, because the query is already scaled", "scale-twice",
     "scale the query once")


# ---- k118: Shaw with a table per head: heads share row 0's table
def make(bug):
    a = np.random.default_rng(118).normal(size=(4, 7, 8)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        t = a.astype(float)
        if bug:
            t = np.roll(t, 0, 0)[[0, 0, 1, 1]]
        row = np.clip(-diff(q_positions, k_positions), -6, 0) + 6
        return ((q @ T(k) + pick(q @ T(t), row)) * 8 ** -0.5).astype(dt)

    make.enc = Shaw(a, before=6)
    return scores


make(False)
case("k118", make, make.enc, "scores",
     "query heads 2g and 2g+1 share the relative table of head g (the grouping of keys), although every query head has its own table",
     "table-of-kv-head", "index the tables by query head")


# ---- k119: Shaw: position counted from the shorter side with a cache
def make(bug):
    a = np.random.default_rng(119).normal(size=(17, 8)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        i, j = np.asarray(q_positions), np.asarray(k_positions)
        if bug and i.shape[0] == 1:
            i = j[:1]
        row = np.clip(-diff(i, j), -8, 8) + 8
        return ((q @ T(k) + pick(q @ a.T.astype(float), row)) * 8 ** -0.5).astype(dt)

    make.enc = Shaw(a, before=8)
    return scores


make(False)
case("k119", make, make.enc, "scores",
     "with one query (a decoding step) the query is taken to stand at the first key instead of at its own position",
     "query-position-decoding", "use the position of the query")


# ---- k121: TUPE's untied [CLS]: order of the two assignments
def make(bug):
    rng = np.random.default_rng(121)
    pq, pk = (rng.normal(size=(32, 3, 4)).astype(np.float32) for _ in range(2))
    t1, t2 = (rng.normal(size=3).astype(np.float32) for _ in range(2))

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k, a, b = f64(q, k, pq, pk)
        i, j = np.asarray(q_positions), np.asarray(k_positions)
        pp = np.einsum("ihc,jhc->hij", a[i], b[j]) / math.sqrt(8)
        row, col = (i == 0)[None, :, None], (j == 0)[None, None, :]
        if bug:
            pp = np.where(row, t1[:, None, None], pp)
            pp = np.where(col, t2[:, None, None], pp)
        else:
            pp = np.where(col, t2[:, None, None], pp)
            pp = np.where(row, t1[:, None, None], pp)
        return (q @ T(k) / math.sqrt(8) + pp).astype(dt)

    make.enc = TUPE(pq, pk, cls_to_others=t1, others_to_cls=t2)
    return scores


make(False)
case("k121", make, make.enc, "scores",
     "the column of [CLS] is written after its row, so the pair ([CLS], [CLS]) has others_to_cls instead of cls_to_others",
     "cls-corner-overwritten", "write the row of [CLS] last")


# ---- k122: SAM: scaled query in the position terms
def make(bug):
    rng = np.random.default_rng(122)
    h, w, d = 4, 5, 8
    rh, rw = rng.normal(size=(2 * h - 1, d)).astype(np.float32), rng.normal(size=(2 * w - 1, d)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        i, j = np.asarray(q_positions), np.asarray(k_positions)
        qs = q * d ** -0.5
        qr = qs if bug else q
        a = pick(qr @ rh.T.astype(float), (i // w)[:, None] - j // w + h - 1)
        b = pick(qr @ rw.T.astype(float), (i % w)[:, None] - j % w + w - 1)
        return (qs @ T(k) + a + b).astype(dt)

    make.enc = DecomposedRelative(rh, rw, grid=(h, w))
    return scores


make(False)
case("k122", make, make.enc, "scores",
     "the relative terms use the query that is already multiplied by the scale", "rel-pos-scaled-query",
     "use the unscaled query")


def gated(seed):
    rng = np.random.default_rng(seed)
    t = rng.normal(size=(32, 3)).astype(np.float32)
    w, c, s = (rng.normal(size=n).astype(np.float32) for n in ((2, 8), (2,), (3,)))
    return GatedBias(T5Bias(t), w, c, s), t, w, c, s


def t5_rows(r):
    n, me = np.abs(r), 8
    big = me + np.floor(np.log(np.maximum(n, 1) / me) / math.log(16) * 8 + 1e-9).astype(int)
    return 16 * (r > 0) + np.where(n < me, n, np.minimum(big, 15))


# ---- k124: WavLM gate formula
def make(bug):
    enc, t, w, c, s = gated(124)
    make.enc = enc

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        z = sigmoid(q @ w.T.astype(float) + c)
        a, r = z[..., 0], z[..., 1]
        g = a * (r * s[:, None].astype(float) - 1) + (1.0 if bug else 2.0)
        b = np.moveaxis(t[t5_rows(-diff(q_positions, k_positions))].astype(float), -1, 0)
        return (q @ T(k) / math.sqrt(8) + g[..., None] * b).astype(dt)

    return scores


make(False)
case("k124", make, make.enc, "scores",
     "the gate ends in + 1 instead of + 2: 1 + a (s r - 1)", "gate-constant", "use 2 + a (s r - 1)")


# ---- k126: Falcon: ALiBi outside of the scale
def make(bug):
    m = 2.0 ** -np.arange(1, 9)

    def scores(q, k, q_positions, k_positions):
        dt, d = q.dtype, q.shape[-1]
        q, k = f64(q, k)
        i, j = np.asarray(q_positions), np.asarray(k_positions)
        b = -m[:, None, None] * np.abs(i[..., :, None] - j[..., None, :])[..., None, :, :]
        s = q @ T(k)
        return ((s / math.sqrt(d) + b) if bug else (s + b) / math.sqrt(d)).astype(dt)

    return scores


case("k126", make, ALiBi(8, bias_inside_scale=True), "scores",
     "the bias is added after the division by sqrt(d); Falcon-RW divides the sum of product and bias",
     "bias-outside-scale", "add the bias before the scale")


# ---- k127: flash tiles: the last, incomplete tile of keys starts at the wrong distance
def make(bug):
    m = 2.0 ** (-2.0 * np.arange(1, 5))

    def scores(q, k, q_positions, k_positions):
        dt, d = q.dtype, q.shape[-1]
        q, k = f64(q, k)
        i, j = np.asarray(q_positions, float), np.asarray(k_positions, float)
        if i.ndim != 1:
            raise ValueError("one row of positions")
        n, B = k.shape[-2], 16
        out = np.empty((*q.shape[:-1], n))
        for a in range(0, n, B):
            e = min(a + B, n)
            at = j[a:e]
            if bug and e - a < B and a > 0:
                at = j[a - 1:e - 1]
            out[..., a:e] = q @ T(k[..., a:e, :]) / math.sqrt(d) - m[:, None, None] * np.abs(i[:, None] - at)
        return out.astype(dt)

    return scores


case("k127", make, ALiBi(4, causal=False), "scores",
     "in the last, incomplete tile of 16 keys the distances are taken for the key one place before",
     "last-tile-shifted", "start the tail tile at its own first key")


# ================================================================ right ones
# ---- k129: Shaw by one-hot product
def make(bug):
    a = np.random.default_rng(129).normal(size=(13, 8)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        row = np.clip(-diff(q_positions, k_positions), -6, 6) + 6
        hot = (row[..., None] == np.arange(13)).astype(float)
        return (np.einsum("...qc,...kc->...qk", q, k) / math.sqrt(8)
                + np.einsum("...qc,rc,qkr->...qk", q, a.astype(float), hot) / math.sqrt(8)).astype(dt)

    make.enc = Shaw(a, before=6)
    return scores


make(False)
case("k129", make, make.enc, "scores", "right: one-hot offsets in an einsum", "right")


# ---- k130: TransformerXL by rotation of projected queries
def make(bug):
    W, u, v = xl(130, 2, 8, 16)
    om = 10000.0 ** (-np.arange(8) / 8)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q64, k64, W64, u64, v64 = f64(q, k, W, u, v)
        i, j = np.asarray(q_positions, float), np.asarray(k_positions, float)
        if i.ndim != 1:
            raise ValueError("one row of positions")
        z = (q64 + v64[:, None]) @ W64  # ..., Q, D : [sin | cos]
        zs, zc = z[..., :8], z[..., 8:]
        ai, aj = i[:, None] * om, j[:, None] * om
        si, ci, sj, cj = np.sin(ai), np.cos(ai), np.sin(aj), np.cos(aj)
        # sin(i-j) = si cj - ci sj ; cos(i-j) = ci cj + si sj
        A = zs * si + zc * ci
        B = zc * si - zs * ci
        bd = A @ T(cj) + B @ T(sj)
        ac = (q64 + u64[:, None]) @ T(k64)
        return ((ac + bd) / math.sqrt(8)).astype(dt)

    make.enc = TransformerXL(W, u, v, sinusoid=Sinusoidal(16, layout="concat"))
    return scores


make(False)
case("k130", make, make.enc, "scores", "right: factorised by the addition theorem", "right")


# ---- k131: DeBERTa in torch with gathers, as transformers
def make(bug):
    kr, qr = (torch.tensor(t) for t in deberta_tables(131, 2, 8, 8))

    def scores(q, k, q_positions, k_positions):
        i, j = torch.as_tensor(q_positions).long(), torch.as_tensor(k_positions).long()
        if i.ndim != 1:
            raise ValueError("one row of positions")
        s = 1 / math.sqrt(24)
        r = (i[:, None] - j[None] + 8).clamp(0, 15)
        c2p = torch.matmul(q.double(), kr.double().mT)
        c2p = torch.gather(c2p, -1, r.expand(*c2p.shape[:-2], *r.shape))
        p2c = torch.matmul(k.double(), qr.double().mT)
        rt = r.T.contiguous()
        p2c = torch.gather(p2c, -1, rt.expand(*p2c.shape[:-2], *rt.shape)).mT
        return ((torch.matmul(q.double(), k.double().mT) + c2p + p2c) * s).to(q.dtype)

    make.enc = DeBERTa(kr, qr)
    return scores


make(False)
case("k131", make, make.enc, "scores", "right: gathers as in transformers", "right", backend="torch")


# ---- k132: decomposed by einsum over the grid, any tokens
def make(bug):
    rng = np.random.default_rng(132)
    h, w, d = 4, 3, 8
    rh, rw = rng.normal(size=(2 * h - 1, d)).astype(np.float32), rng.normal(size=(2 * w - 1, d)).astype(np.float32)
    H = rh.astype(float)[np.arange(h)[:, None] - np.arange(h) + h - 1]
    Wd = rw.astype(float)[np.arange(w)[:, None] - np.arange(w) + w - 1]

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        i, j = np.asarray(q_positions), np.asarray(k_positions)
        a = np.einsum("...qc,qyc->...qy", q, H[i // w])[..., j // w]
        b = np.einsum("...qc,qxc->...qx", q, Wd[i % w])[..., j % w]
        return (q @ T(k) / math.sqrt(d) + a + b).astype(dt)

    make.enc = DecomposedRelative(rh, rw, grid=(h, w))
    return scores


make(False)
case("k132", make, make.enc, "scores", "right: per-axis einsum and gather of columns", "right")


# ---- k133: CoPE by an explicit loop
def make(bug):
    emb = np.random.default_rng(133).normal(size=(10, 8)).astype(np.float32)

    def scores(q, k, q_positions, k_positions):
        dt = q.dtype
        q, k = f64(q, k)
        s = q @ T(k) / math.sqrt(8)
        vis = diff(q_positions, k_positions) >= 0
        p = np.zeros_like(s)
        run = np.zeros(s.shape[:-1])
        for j in range(s.shape[-1] - 1, -1, -1):
            run = run + np.where(vis[:, j], 1 / (1 + np.exp(-s[..., j])), 0.0)
            p[..., j] = np.minimum(run, 9.0)
        lo = p.astype(int)
        by = q @ emb.T.astype(float)
        by = np.concatenate([by, by[..., -1:]], -1)
        return (s + np.take_along_axis(by, lo, -1) * (1 - (p - lo))
                + np.take_along_axis(by, lo + 1, -1) * (p - lo)).astype(dt)

    make.enc = CoPE(emb)
    return scores


make(False)
case("k133", make, make.enc, "scores", "right: running sum from the last key", "right")


# ---- k134: gated bias in torch float64
def make(bug):
    enc, t, w, c, s = gated(134)
    make.enc = enc
    t, w, c, s = (torch.tensor(x).double() for x in (t, w, c, s))

    def scores(q, k, q_positions, k_positions):
        i, j = torch.as_tensor(q_positions).long(), torch.as_tensor(k_positions).long()
        if i.ndim != 1:
            raise ValueError("one row of positions")
        z = torch.sigmoid(torch.nn.functional.linear(q.double(), w, c))
        u = 1 - z[..., 0]
        g = 1 + u + (1 - u) * s[:, None] * z[..., 1]
        rows = torch.as_tensor(t5_rows((j[None] - i[:, None]).numpy()))
        return (q.double() @ k.double().mT / math.sqrt(8) + g[..., None] * t[rows].movedim(-1, 0)).to(q.dtype)

    return scores


make(False)
case("k134", make, make.enc, "scores", "right: the paper's form of the gate", "right", backend="torch")
