"""Scores: logits that depend on content and positions."""
import numpy as np

from posenc_ref import (ALiBi, CoPE, DeBERTa, DecomposedRelative, PoPE, ReRoPE, RoPE, SelfExtend, Shaw, Sinusoidal,
                        T5Bias, TransformerXL, TUPE, XLNet)

CASES = []
RNG = np.random.default_rng(202)


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def arr(*shape, s=1.0):
    return (RNG.standard_normal(shape) * s).astype(np.float32)


def off(q, k):  # query minus key, (Q, K)
    n, m = q.shape[-2], k.shape[-2]
    return (m - n + np.arange(n))[:, None] - np.arange(m)


def wide(*xs):
    return [np.asarray(x, np.float64) for x in xs]


def dot(q, k):
    return np.einsum("bhid,bhjd->bhij", *wide(q, k))


H, D = 4, 16

# ---- DeBERTa
_KR, _QR = arr(H, 16, D), arr(H, 16, D)
_DV, _DU = arr(H, 32, D), arr(H, 32, D)


def deberta(q, k, kr, qr, row, row2=None, scale=None):
    q, k, kr, qr = wide(q, k, kr, qr)
    c2p = np.einsum("bhid,hijd->bhij", q, kr[:, row])
    p2c = np.einsum("bhjd,hijd->bhij", k, qr[:, row if row2 is None else row2])
    return (dot(q, k) + c2p + p2c) / (np.sqrt(3 * D) if scale is None else scale)


def make(bug):
    def scores(q, k):
        row = np.clip(off(q, k) + 8, 0, 14 if bug else 15)
        return deberta(q, k, _KR, _QR, row).astype(q.dtype)
    return scores
case("g084", make, DeBERTa(_KR, _QR), "scores", "Relative rows are clipped at 2 span - 2: keys span - 1 or more tokens before the query get the last row but one; the last row is never used.",
     "deberta-clip-short", "clip to 2 span - 1")


def logbucket(x, bug):
    mid, top = 8, 64
    n = np.maximum(np.abs(x), 1)
    t = np.log(n / mid) / np.log((top - 1) / mid) * (mid - 1)
    t = np.where(np.abs(t - np.round(t)) < 1e-9, np.round(t), t)
    far = mid + (np.floor if bug else np.ceil)(t)
    return np.where(np.abs(x) <= mid, x, np.sign(x) * far).astype(int)


def make(bug):
    def scores(q, k):
        row = np.clip(logbucket(off(q, k), bug) + 16, 0, 31)
        return deberta(q, k, _DV, _DU, row).astype(q.dtype)
    return scores
case("g085", make, DeBERTa(_DV, _DU, buckets=16, max_position=64), "scores", "DeBERTa v2 log buckets are floored instead of rounded up (ceil) beyond the linear part.",
     "deberta-bucket-floor", "ceil")


def make(bug):
    def scores(q, k):
        row = np.clip(off(q, k) + 8, 0, 15)
        return deberta(q, k, _KR, _QR, row, scale=np.sqrt((2 if bug else 3) * D)).astype(q.dtype)
    return scores
case("g086", make, DeBERTa(_KR, _QR), "scores", "The logits are divided by sqrt(2d) although three terms are summed (c2p and p2c count as one).", "deberta-scale-two", "sqrt(3d)")

# ---- Transformer-XL
_W, _U, _V = arr(H, D, 32, s=0.3), arr(H, D), arr(H, D)
_SIN = Sinusoidal(32, layout="concat")


def sinus(p):
    a = np.asarray(p, np.float64)[..., None] * 1e4 ** (-np.arange(16) / 16)
    return np.concatenate([np.sin(a), np.cos(a)], -1)


def xl(q, k, r, u, v):
    q, k, w, u, v = wide(q, k, _W, u, v)
    rk = np.einsum("ijc,hdc->hijd", sinus(r), w)
    return (dot(q + u[:, None], k) + np.einsum("bhid,hijd->bhij", q + v[:, None], rk)) / np.sqrt(D)


case("g087", lambda bug: (lambda q, k: xl(q, k, off(q, k), *((_V, _U) if bug else (_U, _V))).astype(q.dtype)),
     TransformerXL(_W, _U, _V, sinusoid=_SIN), "scores", "The biases u and v are exchanged: v is added to the query of the content term and u to that of the position term.",
     "xl-u-v-exchanged", "u with the keys, v with the positions")
case("g088", lambda bug: (lambda q, k: xl(q, k, off(q, k) if bug else np.clip(off(q, k), -12, 12), _U, _V).astype(q.dtype)),
     TransformerXL(_W, _U, _V, sinusoid=_SIN, clamp=12), "scores", "clamp_len = 12 is not applied: offsets beyond 12 keep their own sinusoid.",
     "xl-clamp-missing", "clip the offsets before the sinusoids")
case("g089", lambda bug: (lambda q, k: xl(q, k, off(q, k) + (1 if bug and k.shape[-2] > q.shape[-2] else 0), _U, _V).astype(q.dtype)),
     TransformerXL(_W, _U, _V, sinusoid=_SIN), "scores", "With memory (K > Q) the distances start at K instead of K - 1, so every offset is one too large; without memory it is right.",
     "xl-memory-off-by-one", "distances K - 1 .. 0")

case("g090", lambda bug: (lambda q, k: xl(q, k, -off(q, k) if bug else off(q, k), _U, _V).astype(q.dtype)),
     XLNet(_W, _U, _V, sinusoid=_SIN), "scores", "XLNet with R(j - i) instead of R(i - j): the sines of the relative table change sign.", "xlnet-offset-reversed", "query minus key")

# ---- Shaw
_A = arr(9, D)


def shaw(q, k, row, table=_A):
    return ((dot(q, k) + np.einsum("bhid,ijd->bhij", *wide(q, table[row]))) / np.sqrt(D)).astype(q.dtype)


case("g091", lambda bug: (lambda q, k: shaw(q, k, np.clip(-off(q, k), -4, 3 if bug else 4) + 4)),
     Shaw(_A, before=4), "scores", "Offsets are clipped to -4 .. 3, as if the table had 2K rows: keys 4 or more after the query get the row of offset 3.",
     "shaw-clip-asymmetric", "clip to -4 .. 4")
_A2 = arr(H, 9, D)


def make(bug):
    def scores(q, k):
        row = np.clip(-off(q, k), -4, 4) + 4
        t = np.repeat(_A2[:1], H, 0) if bug else _A2
        return ((dot(q, k) + np.einsum("bhid,hijd->bhij", *wide(q, t[:, row]))) / np.sqrt(D)).astype(q.dtype)
    return scores
case("g092", make, Shaw(_A2, before=4), "scores", "Each head has a table of its own, but all heads use the table of head 0.", "shaw-head0-table", "index the table by head")


def make(bug):
    def scores(q, k):
        row = np.clip(-off(q, k), -4, 4) + 4
        pos = np.einsum("bhid,ijd->bhij", *wide(q, _A[row]))
        return (dot(q, k) / np.sqrt(D) + pos / (1 if bug else np.sqrt(D))).astype(q.dtype)
    return scores
case("g093", make, Shaw(_A, before=4), "scores", "The relative term is not divided by sqrt(d); only q . k is.", "shaw-relative-unscaled", "scale the sum")

# ---- decomposed
_RH, _RW = arr(7, D), arr(9, D)  # 4 x 5
def decomposed(bug, what):
    def scores(q, k):
        h, w = 4, 5
        y, x = np.divmod(np.arange(20), w)
        q2, k2 = wide(q, k)
        qq = q2 / np.sqrt(D) if bug and what == "scale" else q2
        dy, dx = y[:, None] - y, x[:, None] - x
        if bug and what == "width":
            dx = -dx
        rh, rw = _RH.astype(float)[dy + h - 1], _RW.astype(float)[dx + w - 1]
        return (dot(q, k) / np.sqrt(D) + np.einsum("bhid,ijd->bhij", qq, rh) + np.einsum("bhid,ijd->bhij", qq, rw)).astype(q.dtype)
    return scores
_DEC = DecomposedRelative(_RH, _RW, grid=(4, 5))
case("g094", lambda bug: decomposed(bug, "scale"), _DEC, "scores", "The relative terms use the query after the scaling by 1/sqrt(d) instead of the unscaled query.", "decomposed-scaled-query", "use the unscaled query")
case("g095", lambda bug: decomposed(bug, "width"), _DEC, "scores", "The width table is read with x_j - x_i (reversed); the height table is right.", "decomposed-width-reversed", "x_i - x_j + w - 1")

# ---- CoPE
_E = arr(12, D, s=0.5)
def cope(bug, what):
    def scores(q, k):
        logits = dot(q, k) / np.sqrt(D)
        causal = off(q, k) >= 0
        g = 1 / (1 + np.exp(-logits))
        if not (bug and what == "mask"):
            g = g * causal
        if bug and what == "direction":
            p = np.cumsum(g, -1)
        else:
            p = np.flip(np.cumsum(np.flip(g, -1), -1), -1)
        p = np.minimum(p, 11)
        lo = np.floor(p).astype(int)
        hi = np.minimum(lo + 1, 11)
        t = np.einsum("bhid,pd->bhip", *wide(q, _E))
        f = p - lo
        if bug and what == "floor":
            f = 0.0
        return (logits + np.take_along_axis(t, lo, -1) * (1 - f) + np.take_along_axis(t, hi, -1) * f).astype(q.dtype)
    return scores
case("g096", lambda bug: cope(bug, "direction"), CoPE(_E), "scores", "CoPE sums the gates from the first key up to key j instead of from key j up to the query.", "cope-sum-direction", "flip before and after the cumulative sum")
case("g097", lambda bug: cope(bug, "mask"), CoPE(_E), "scores", "The gates of keys after the query are counted: the causal mask is applied after the sigmoid sum, not before.", "cope-gates-unmasked", "mask before the gates")
case("g098", lambda bug: cope(bug, "floor"), CoPE(_E), "scores", "Fractional positions are floored: the row below is used without interpolation.", "cope-no-interpolation", "interpolate between the two rows")

# ---- TUPE
_PQ, _PK = arr(160, H, D), arr(160, H, D)
_C1, _C2 = arr(H), arr(H)
def tupe(bug, what):
    def scores(q, k):
        n, m = q.shape[-2], k.shape[-2]
        qa, ka = m - n + np.arange(n), np.arange(m)
        s = np.sqrt(2 * D)
        v = np.einsum("ihd,jhd->hij", *wide(_PQ[qa], _PK[ka])) / s
        if what == "cls":
            v[:, :, 0] = _C2[:, None]
            if qa[0] == 0:
                v[:, 0, (1 if bug else 0):] = _C1[:, None]
        content = np.sqrt(D) if bug and what == "scale" else s
        return (dot(q, k) / content + v).astype(q.dtype)
    return scores
case("g099", lambda bug: tupe(bug, "scale"), TUPE(_PQ, _PK), "scores", "TUPE scales the content product by 1/sqrt(d) instead of 1/sqrt(2d); the position product is right.", "tupe-content-scale", "1/sqrt(2d) for both")
case("g100", lambda bug: tupe(bug, "cls"), TUPE(_PQ, _PK, cls_to_others=_C1, others_to_cls=_C2), "scores",
     "The corner (0, 0) gets others_to_cls instead of cls_to_others: [CLS] to itself is taken for the column.", "tupe-corner", "write the row of [CLS] after its column, from key 0 on")

# ---- PoPE
def pope(bug, what):
    def scores(q, k):
        w = 1e4 ** (-np.arange(D) * (2 if bug and what == "freq" else 1) / D)
        q, k = wide(q, k)
        sp = lambda t: np.logaddexp(0, t)
        kk = k if bug and what == "soft" else sp(k)
        a = -off(q, k)[..., None] * w
        return np.einsum("bhid,bhjd,ijd->bhij", sp(q), kk, np.cos(a)) / np.sqrt(D)
    return lambda q, k: scores(q, k).astype(q.dtype)
case("g101", lambda bug: pope(bug, "freq"), PoPE(D), "scores", "PoPE's d frequencies are computed with RoPE's exponent -2c/d instead of -c/d.", "pope-exponent", "base ** (-c / d)")
case("g102", lambda bug: pope(bug, "soft"), PoPE(D), "scores", "The softplus is applied to queries only; keys enter raw.", "pope-keys-no-softplus", "softplus of the keys too")

# ---- far keys
_R = RoPE(D, layout="half")
def turn(x, p):
    a = np.asarray(p, np.float64)[:, None] * 1e4 ** (-np.arange(8) / 8)
    u, v = wide(x[..., :8], x[..., 8:])
    return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1)


def make(bug):
    G, W = 4, 12
    def scores(q, k):
        n, m = q.shape[-2], k.shape[-2]
        qa, ka = m - n + np.arange(n), np.arange(m)
        near = dot(turn(q, qa), turn(k, ka))
        far = dot(turn(q, qa // G + (0 if bug else W - W // G)), turn(k, ka // G))
        return (np.where(off(q, k) < W, near, far) / np.sqrt(D)).astype(q.dtype)
    return scores
case("g103", make, SelfExtend(_R, group=4, window=12), "scores", "Self-Extend without the shift window - window // group of the grouped queries: far keys appear 9 positions nearer, and distances jump back at the window.",
     "self-extend-shift-missing", "add window - window // group to grouped query positions")


def make(bug):
    W = 10
    def scores(q, k):
        n, m = q.shape[-2], k.shape[-2]
        d = off(q, k)
        qa, ka = m - n + np.arange(n), np.arange(m)
        near = dot(turn(q, qa), turn(k, ka))
        far = dot(turn(q, np.full(n, W - 1 if bug else W)), k)
        return (np.where(d < W, near, far) / np.sqrt(D)).astype(q.dtype)
    return scores
case("g104", make, ReRoPE(_R, window=10), "scores", "ReRoPE clips far distances to window - 1 instead of window.", "rerope-window-minus-1", "rotate far queries to position window")

# ---- biases inside scores
_S8 = 2.0 ** -np.arange(1, 9)
case("g105", lambda bug: (lambda q, k: ((dot(q, k) - _S8[:, None, None] * np.abs(off(q, k)) * (1 if bug else np.sqrt(q.shape[-1]))) / np.sqrt(q.shape[-1])).astype(q.dtype)),
     ALiBi(8), "scores", "The ALiBi bias is added before the division by sqrt(d), so it is sqrt(d) times too weak.", "alibi-inside-scale", "scale q . k first")
_T = arr(32, 4)
def make(bug):
    enc = T5Bias(_T)
    def scores(q, k):
        b = np.moveaxis(_T[np.asarray(enc.bucket(-off(q, k)))], -1, 0)
        return (dot(q, k) / (np.sqrt(q.shape[-1]) if bug else 1) + b).astype(q.dtype)
    return scores
case("g106", make, T5Bias(_T), "scores", "T5's q . k is divided by sqrt(d); T5 has no scale.", "t5-scaled", "no scale")

# ---- right
def make(bug):
    def scores(q, k):  # by offset, one einsum per distance
        out = dot(q, k)
        d = off(q, k)
        for r in range(-4, 5):
            at = np.clip(-d, -4, 4) == r
            out = out + at * np.einsum("bhid,d->bhi", *wide(q, _A[r + 4]))[..., None]
        return (out / np.sqrt(D)).astype(q.dtype)
    return scores
case("g107", make, Shaw(_A, before=4), "scores", "Unusual: one masked addition for each of the nine clipped offsets.", "right")


def make(bug):
    def scores(q, k):  # real vectors of size 2d
        n, m = q.shape[-2], k.shape[-2]
        w = 1e4 ** (-np.arange(D) / D)
        def polar(x, p):
            r = np.logaddexp(0, np.asarray(x, np.float64))
            a = p[:, None] * w
            return np.concatenate([r * np.cos(a), r * np.sin(a)], -1)
        return (dot(polar(q, m - n + np.arange(n)), polar(k, np.arange(m))) / np.sqrt(D)).astype(q.dtype)
    return scores
case("g108", make, PoPE(D), "scores", "Unusual: PoPE as a product of vectors of 2d channels, scaled by 1/sqrt(d).", "right")


def make(bug):
    def scores(q, k):  # Transformer-XL with the angle-addition form: no table of distances
        n, m = q.shape[-2], k.shape[-2]
        w = 1e4 ** (-np.arange(16) / 16)
        z = np.einsum("bhid,hdc->bhic", q.astype(np.float64) + _V[:, None], _W.astype(np.float64))
        zs, zc = z[..., :16], z[..., 16:]
        qa, ka = (m - n + np.arange(n))[:, None] * w, np.arange(m)[:, None] * w
        # sin(a-b), cos(a-b)
        left = np.concatenate([zs * np.sin(qa) + zc * np.cos(qa), zc * np.sin(qa) - zs * np.cos(qa)], -1)
        right = np.concatenate([np.cos(ka), np.sin(ka)], -1)
        pos = np.einsum("bhic,jc->bhij", left, right)
        return ((dot(q + _U[:, None], k) + pos) / np.sqrt(D)).astype(q.dtype)
    return scores
case("g109", make, TransformerXL(_W, _U, _V, sinusoid=_SIN), "scores", "Unusual: the sinusoids of i - j are split by the angle-addition formula, so no relative table is made.", "right")

# Drawn by chance to keep the corpus at its size: sound cases, not part of CASES.
_SPARE = {"g088", "g089", "g091", "g092", "g094", "g097", "g098", "g102", "g106"}
SPARE = [c for c in CASES if c["id"] in _SPARE]
CASES = [c for c in CASES if c["id"] not in _SPARE]
