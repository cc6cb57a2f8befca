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


_rng = np.random.default_rng(51)


def _at(q, k):
    Q, K = q.shape[2], k.shape[2]
    return np.arange(K - Q, K)[:, None], np.arange(K)[None]


def _dot(q, k):
    return np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k.astype(np.float64))


def _pick(x, row):
    """x (B, H, Q, R), row (Q, K) -> (B, H, Q, K)"""
    return np.take_along_axis(x, np.broadcast_to(row, (*x.shape[:2], *row.shape)), axis=-1)


_SH = _rng.standard_normal((9, 16)).astype(np.float32)


# ---- m094 shaw: not scaled position term
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        rel = _pick(q.astype(float) @ _SH.T.astype(float), np.clip(j - i, -4, 4) + 4)
        s = _dot(q, k)
        return ((s / 4 + rel) if bug else (s + rel) / 4).astype(q.dtype)
    return scores
case("m094", make, P.Shaw(_SH, before=4), "scores",
     "The position term is not divided by sqrt(d): only q . k is.", "shaw-position-unscaled", "scale the sum of both terms")


# ---- m095 shaw: query-key
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        row = np.clip((j - i) if bug else (i - j), -4, 4) + 4
        A = _SH[row].astype(float)
        return ((_dot(q, k) + np.einsum("bhqd,qkd->bhqk", q.astype(float), A)) * 0.25).astype(q.dtype)
    return scores
case("m095", make, P.Shaw(_SH, before=4, counted="query-key"), "scores",
     "The row is selected by key minus query, but this table counts query minus key.", "shaw-direction", "subtract the key from the query")


# ---- m096 shaw asymmetric: Wav2Vec2-BERT before/after swapped
_SA = _rng.standard_normal((8, 16)).astype(np.float32)
def make(bug):
    lo, hi = (-2, 5) if bug else (-5, 2)
    def scores(q, k):
        i, j = _at(q, k)
        row = np.clip(j - i, lo, hi) - lo
        return ((_dot(q, k) + _pick(np.matmul(q, _SA.T).astype(float), row)) / 4).astype(q.dtype)
    return scores
case("m096", make, P.Shaw(_SA, before=5), "scores",
     "The left and the right limit of the clip are exchanged: offsets are clipped to -2 .. 5 instead of -5 .. 2.",
     "shaw-left-right", "clip to -left .. right")


# ---- m097 transformer XL
_H, _d, _D = 2, 8, 16
_TW, _TU, _TV = _rng.standard_normal((_H, _d, _D)), _rng.standard_normal((_H, _d)), _rng.standard_normal((_H, _d))
def _sin(p, D=_D, concat=True, den=None):
    a = np.asarray(p, float)[..., None] * 10000.0 ** (-np.arange(D // 2) / (D // 2))
    return np.concatenate([np.sin(a), np.cos(a)], -1) if concat else np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], D)
def _txl(q, k, d, u, v, concat=True, W=None):
    R = np.einsum("hdD,qkD->hqkd", _TW if W is None else W, _sin(d, concat=concat))
    a = np.einsum("bhqd,bhkd->bhqk", q + u[:, None], k.astype(float))
    return (a + np.einsum("bhqd,hqkd->bhqk", q + v[:, None], R)) / math.sqrt(q.shape[-1])
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        return _txl(q.astype(float), k, i - j, *((_TV, _TU) if bug else (_TU, _TV))).astype(q.dtype)
    return scores
case("m097", make, P.TransformerXL(_TW, _TU, _TV, sinusoid=P.Sinusoidal(_D, layout="concat")), "scores",
     "The two biases are exchanged: r_r_bias is added for the content term and r_w_bias for the position term.",
     "txl-biases-swapped", "u goes with the keys, v with the positions")


# ---- m098 txl: negative distance (key minus query)
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        return _txl(q.astype(float), k, (j - i) if bug else (i - j), _TU, _TV, concat=False).astype(q.dtype)
    return scores
case("m098", make, P.TransformerXL(_TW, _TU, _TV, sinusoid=P.Sinusoidal(_D)), "scores",
     "The sinusoids are taken at key minus query instead of query minus key: all sines have the opposite sign.",
     "txl-distance-sign", "use i - j")


# ---- m099 txl conformer: interleave vs concat
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        return _txl(q.astype(float), k, i - j, _TU, _TV, concat=bug).astype(q.dtype)
    return scores
case("m099", make, P.TransformerXL(_TW, _TU, _TV, sinusoid=P.Sinusoidal(_D)), "scores",
     "The sinusoids are [sin | cos] as in Transformer-XL, but this checkpoint (Conformer) has interleaved columns.",
     "txl-sinusoid-layout", "interleave sines and cosines")


# ---- m100 txl clamp
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        r = np.minimum(i - j, 5) if bug else np.clip(i - j, -5, 5)
        return _txl(q.astype(float), k, r, _TU, _TV).astype(q.dtype)
    return scores
case("m100", make, P.TransformerXL(_TW, _TU, _TV, sinusoid=P.Sinusoidal(_D, layout="concat"), clamp=5), "scores",
     "clamp_len limits distances to earlier keys only; the offsets of later keys are not clipped.", "txl-clamp-one-side", "clip to -clamp .. clamp")


# ---- m101 DeBERTa
_DK, _DQ = (_rng.standard_normal((2, 8, 8)) for _ in range(2))
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        row = np.clip(i - j + 4, 0, 7)
        c2p = _pick(np.einsum("bhqd,hrd->bhqr", q.astype(float), _DK), row)
        p2c = _pick(np.einsum("bhkd,hrd->bhkr", k.astype(float), _DQ), row.T).swapaxes(-1, -2)
        return ((_dot(q, k) + c2p + p2c) / math.sqrt(8 * (1 if bug else 3))).astype(q.dtype)
    return scores
case("m101", make, P.DeBERTa(_DK, _DQ), "scores",
     "The logits are divided by sqrt(d) instead of sqrt(3 d).", "deberta-scale-factor", "scale by 1/sqrt(3 d)")


# ---- m102 DeBERTa: p2c uses transposed offset
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        row = np.clip(i - j + 4, 0, 7)
        back = np.clip(j - i + 4, 0, 7) if bug else row
        c2p = _pick(np.einsum("bhqd,hrd->bhqr", q.astype(float), _DK), row)
        p2c = np.einsum("bhkd,hqkd->bhqk", k.astype(float), _DQ[:, back])
        return ((_dot(q, k) + c2p + p2c) / math.sqrt(24)).astype(q.dtype)
    return scores
case("m102", make, P.DeBERTa(_DK, _DQ), "scores",
     "The position-to-content term takes the row of j - i (the paper's form) instead of i - j as the checkpoint's code does.",
     "deberta-p2c-paper", "gather Qr at i - j")


# ---- m103 DeBERTa v2 log bucket: max_position instead of max_position - 1
_D2K, _D2Q = (_rng.standard_normal((2, 32, 8)) for _ in range(2))
def _lb(x, mid=8, mp=64):
    a = np.abs(x)
    big = np.ceil(np.log(np.maximum(a, mid) / mid) / math.log((mp - 1) / mid) * (mid - 1) - 1e-12) + mid
    return (np.sign(x) * np.where(a <= mid, a, big)).astype(int)
def _deb2(bucket):
    def scores(q, k):
        i, j = _at(q, k)
        row = np.clip(bucket(i - j) + 16, 0, 31)
        a = _pick(np.einsum("bhqd,hrd->bhqr", q.astype(float), _D2K), row)
        b = _pick(np.einsum("bhkd,hrd->bhkr", k.astype(float), _D2Q), row.T).swapaxes(-1, -2)
        return ((_dot(q, k) + a + b) / math.sqrt(24)).astype(q.dtype)
    return scores
def make(bug):
    return _deb2(lambda x: _lb(x, mp=65 if bug else 64))
case("m103", make, P.DeBERTa(_D2K, _D2Q, buckets=16, max_position=64), "scores",
     "The log buckets use log(max_position / mid) instead of log((max_position - 1) / mid), so some far distances are one bucket too near.",
     "deberta-max-position", "divide by log((max_position - 1)/mid)")


# ---- m104 DeBERTa v2: floor
def make(bug):
    def bucket(x):
        a = np.abs(x)
        v = np.log(np.maximum(a, 8) / 8) / math.log(63 / 8) * 7
        v = np.floor(v) if bug else np.ceil(v - 1e-12)
        return (np.sign(x) * np.where(a <= 8, a, v + 8)).astype(int)
    return _deb2(bucket)
case("m104", make, P.DeBERTa(_D2K, _D2Q, buckets=16, max_position=64), "scores",
     "The log buckets are rounded down (floor) instead of up (ceil).", "deberta-floor", "use ceil")


# ---- m105 CoPE: sum from first key (forward cumsum)
_CE = _rng.standard_normal((6, 8))
def _cope(q, k, mode="right", clampat=5):
    i, j = _at(q, k)
    s = _dot(q, k) / math.sqrt(8)
    g = 1 / (1 + np.exp(-s)) * (1 if mode == "unmasked" else (j <= i))
    if mode == "forward":
        p = np.cumsum(g, -1)
    else:
        p = np.flip(np.cumsum(np.flip(g, -1), -1), -1)
    p = np.minimum(p, clampat)
    lo = np.floor(p).astype(int)
    hi = np.ceil(p).astype(int)
    e = q.astype(float) @ _CE.T
    w = p - lo
    if mode == "swapped":
        w = 1 - w
    return (s + np.take_along_axis(e, lo, -1) * (1 - w) + np.take_along_axis(e, hi, -1) * w).astype(q.dtype)
def make(bug):
    return lambda q, k: _cope(q, k, "forward" if bug else "right")
case("m105", make, P.CoPE(_CE), "scores",
     "The gates are summed from the first key to the key (forward cumsum) instead of from the key to the query.",
     "cope-forward-sum", "flip before and after the cumulative sum")


# ---- m106 CoPE: unmasked gates
def make(bug):
    return lambda q, k: _cope(q, k, "unmasked" if bug else "right")
case("m106", make, P.CoPE(_CE), "scores",
     "The mask is not applied before the gates, so later keys count in the positions.", "cope-unmasked", "mask the logits before the sigmoid")


# ---- m107 CoPE: interpolation weights swapped
def make(bug):
    return lambda q, k: _cope(q, k, "swapped" if bug else "right")
case("m107", make, P.CoPE(_CE), "scores",
     "The weights of the two interpolated rows are exchanged: the floor row has the weight p - floor(p).", "cope-weights-swapped", "the floor row has 1 - (p - floor(p))")


# ---- m108 decomposed: scaled q for position terms
_HT, _WT = _rng.standard_normal((7, 8)), _rng.standard_normal((11, 8))
def _dec(q, k, rows, qs):
    i, j = _at(q, k)
    dy, dx = i // 6 - j // 6, i % 6 - j % 6
    f = q.astype(float) * qs
    s = _dot(q, k) / math.sqrt(8)
    return (s + _pick(f @ _HT.T, rows(dy, 3)) + _pick(f @ _WT.T, rows(dx, 5))).astype(q.dtype)
def make(bug):
    return lambda q, k: _dec(q, k, lambda d, n: d + n, 8 ** -0.5 if bug else 1)
case("m108", make, P.DecomposedRelative(_HT, _WT, grid=(4, 6)), "scores",
     "The position terms use the scaled query (q / sqrt(d)) instead of the unscaled one.", "decomposed-scaled-q", "use the query before the scale")


# ---- m109 decomposed: direction reversed
def make(bug):
    return lambda q, k: _dec(q, k, lambda d, n: (n - d) if bug else d + n, 1)
case("m109", make, P.DecomposedRelative(_HT, _WT, grid=(4, 6)), "scores",
     "The rows are selected by key minus query instead of query minus key, in both tables.", "decomposed-direction", "use y_i - y_j + h - 1")


# ---- m110 TUPE: sqrt(d)
_PQ, _PK = (_rng.standard_normal((64, 2, 8)) for _ in range(2))
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        pos = np.einsum("qhd,khd->hqk", _PQ[i[:, 0]], _PK[j[0]])
        return (_dot(q, k) / math.sqrt(8 if bug else 16) + pos / 4).astype(q.dtype)
    return scores
case("m110", make, P.TUPE(_PQ, _PK), "scores",
     "q . k is divided by sqrt(d) instead of sqrt(2d); only the position term has sqrt(2d).", "tupe-content-scale", "scale both terms by 1/sqrt(2d)")


# ---- m111 gated bias
_GB = _rng.standard_normal((16, 2)); _GW = _rng.standard_normal((2, 8)); _GC = _rng.standard_normal(2); _GS = _rng.uniform(0.5, 2, 2)
_T5 = P.T5Bias(_GB, num_buckets=16, max_distance=40)
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        b = _GB.T[:, _T5.bucket(j - i)]
        x = q.astype(float)
        sg = 1 / (1 + np.exp(-(x @ _GW.T + _GC)))
        a, r = (sg[..., 1], sg[..., 0]) if bug else (sg[..., 0], sg[..., 1])
        g = a * (r * _GS[:, None] - 1) + 2
        return (_dot(q, k) / math.sqrt(8) + g[..., None] * b).astype(q.dtype)
    return scores
case("m111", make, P.GatedBias(_T5, _GW, _GC, _GS), "scores",
     "The two gates are exchanged: the reset gate is used as update gate.", "gated-swapped", "the first sum of four outputs is gate a")


# ---- m112 right: TXL via rel shift with 2S-1 columns
def make(bug):
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        q64 = q.astype(float)
        R = np.einsum("hdD,rD->hrd", _TW, _sin(np.arange(K - 1, -Q, -1)))     # distance K-1 .. -(Q-1)
        x = np.einsum("bhqd,hrd->bhqr", q64 + _TV[:, None], R)                 # (B,H,Q,K+Q-1)
        y = np.stack([x[:, :, n, Q - 1 - n:Q - 1 - n + K] for n in range(Q)], 2)
        return ((np.matmul(q64 + _TU[:, None], k.astype(float).swapaxes(-1, -2)) + y) * 8 ** -0.5).astype(q.dtype)
    return scores
case("m112", make, P.TransformerXL(_TW, _TU, _TV, sinusoid=P.Sinusoidal(_D, layout="concat")), "scores",
     "Right: scores by distance, sliced for each query.", "right")


# ---- m113 right: Shaw by einsum over one-hot
def make(bug):
    def scores(q, k):
        i, j = _at(q, k)
        one = (np.clip(j - i, -4, 4)[..., None] + 4 == np.arange(9)).astype(float)
        return (np.einsum("bhqd,bhkqd->bhqk", q.astype(float), k[:, :, :, None].astype(float) + np.einsum("qkr,rd->kqd", one, _SH.astype(float))) / 4).astype(q.dtype)
    return scores
case("m113", make, P.Shaw(_SH, before=4), "scores", "Right: keys and relative vectors are added first, one-hot rows.", "right")
