import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def arr(seed, *shape, scale=0.5):
    return np.random.default_rng(seed).standard_normal(shape) * scale


D = 16


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


# ---------------------------------------------------------------- CoPE
EMB = arr(31, 6, D)
CP = P.CoPE(EMB)


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        x = q.astype(np.float64)
        logits = x @ k.astype(np.float64).swapaxes(-1, -2) / math.sqrt(D)
        seen = np.arange(K) <= np.arange(K - Q, K)[:, None]
        gates = sigmoid(logits) * seen
        pos = gates[..., ::-1].cumsum(-1)[..., ::-1]
        if bug:
            pos = pos - gates
        pos = np.minimum(pos, len(EMB) - 1.0)
        lo = np.floor(pos).astype(int)
        hi = np.ceil(pos).astype(int)
        li = x @ EMB.T
        w = pos - lo
        return (logits + np.take_along_axis(li, hi, -1) * w + np.take_along_axis(li, lo, -1) * (1 - w)).astype(q.dtype)
    return scores
case("q021", make, CP, "scores", "The sum of gates excludes the gate of the key itself (an exclusive sum), so every position is "
     "too small by that gate.", "exclusive-gate-sum", "include the key's own gate")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        x = q.astype(np.float64)
        out = x @ k.astype(np.float64).swapaxes(-1, -2) * D ** -0.5
        li = x @ EMB.T
        for i in range(Q):
            run = np.zeros(out.shape[:2])
            for j in range(K - Q + i, -1, -1):
                run = run + sigmoid(out[:, :, i, j])
                p = np.minimum(run, len(EMB) - 1)
                f = np.floor(p).astype(int)
                w = p - f
                low = np.take_along_axis(li[:, :, i], f[..., None], -1)[..., 0]
                high = np.take_along_axis(li[:, :, i], np.minimum(f + 1, len(EMB) - 1)[..., None], -1)[..., 0]
                out[:, :, i, j] += (w * low + (1 - w) * high) if bug else ((1 - w) * low + w * high)
        return out.astype(q.dtype)
    return scores
case("q022", make, CP, "scores", "The weights of the interpolation are exchanged: the fraction weighs the lower row and one minus "
     "it the upper row.", "interpolation-weights", "weigh the upper row by the fraction")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        x = np.asarray(q, float)
        raw = np.einsum("bhqd,bhkd->bhqk", x, np.asarray(k, float))
        gates = np.tril(sigmoid(raw if bug else raw / 4.0), K - Q)
        p = np.minimum(np.flip(np.cumsum(np.flip(gates, -1), -1), -1), 5.0)
        hat = np.maximum(0.0, 1.0 - np.abs(p[..., None] - np.arange(6)))         # B H Q K rows
        return (raw / 4.0 + np.einsum("bhqkr,bhqr->bhqk", hat, x @ EMB.T)).astype(q.dtype)
    return scores
case("q023", make, CP, "scores", "The gates are sigmoids of q . k without the factor 1/sqrt(d), which only the content term has.",
     "gate-unscaled", "compute the gates from scaled logits")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        x = q.astype(np.float64)
        s = x @ k.astype(np.float64).swapaxes(-1, -2) / math.sqrt(D)
        g = np.tril(sigmoid(s), K - Q)
        p = g.sum(-1, keepdims=True) - np.cumsum(g, -1) + g
        lo = np.minimum(np.floor(p).astype(int), 5)
        hi = np.minimum(lo + 1, 5)
        w = p - np.floor(p)
        li = x @ EMB.T
        return (s + np.take_along_axis(li, lo, -1) * (1 - w) + np.take_along_axis(li, hi, -1) * w).astype(q.dtype)
    return scores
case("q024", make, CP, "scores", "The sum is never clamped; both rows of the interpolation are, so beyond the table the two are "
     "the same row. Sums to the right by total minus prefix.", "right")


# ---------------------------------------------------------------- forget gates
LG = -np.abs(arr(41, 3, 24)) - 0.02
FG = P.ForgettingBias(LG)
CABLE = P.ForgettingBias(LG * 1.3, scaled=False)


def make(bug):
    cum = np.cumsum(LG, axis=-1)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        at = np.arange(Q) if bug else np.arange(K - Q, K)
        bias = cum[:, at, None] - cum[:, None, :K]
        return (np.einsum("bhqd,bhkd->bhqk", q, k, dtype=float) * q.shape[-1] ** -0.5 + bias).astype(q.dtype)
    return scores
case("q025", make, FG, "scores", "The running sum of the queries is read at 0 .. Q - 1: in decoding, where queries are the last Q "
     "tokens, it belongs to the first tokens.", "query-sum-from-zero", "read it at K - Q .. K - 1")


def make(bug):
    T = 4
    def running(g):
        out = np.empty_like(g)
        carry = np.zeros(g.shape[0])
        for s in range(0, g.shape[1], T):
            tile = np.cumsum(g[:, s : s + T], axis=1)
            out[:, s : s + T] = tile + carry[:, None]
            carry = tile[:, -1] if bug else carry + tile[:, -1]
        return out
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        c = running(LG[:, :K])
        return (q.astype(float) @ k.astype(float).swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + c[:, K - Q :, None] - c[:, None, :]).astype(q.dtype)
    return scores
case("q026", make, FG, "scores", "A prefix sum in tiles of 4: the carry is replaced by the sum of the last tile instead of growing, "
     "so sums are wrong from the third tile on.", "scan-carry-replaced", "carry += sum of the tile")


def make(bug):
    log2e = 1.4426950408889634
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        c = np.cumsum(LG, -1) * log2e                                              # gates as powers of two
        s2 = q.astype(float) @ k.astype(float).swapaxes(-1, -2) * (log2e / math.sqrt(q.shape[-1]))
        bias = c[:, K - Q : K, None] - c[:, None, :K]
        if bug:
            return (s2 / log2e + bias).astype(q.dtype)
        return ((s2 + bias) / log2e).astype(q.dtype)
    return scores
case("q027", make, FG, "scores", "The kernel works in base 2; on return only the product is converted back to natural logarithms, "
     "the gates stay multiplied by log2(e).", "gates-in-base-two", "divide the sum by log2(e)")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        out = np.einsum("bhqd,bhkd->bhqk", q.astype(float), k.astype(float))
        if bug:
            out /= math.sqrt(q.shape[-1])
        g = LG * 1.3
        for a in range(Q):
            decay = np.zeros(g.shape[0])
            for j in range(K - Q + a, -1, -1):
                out[:, :, a, j] += decay
                decay = decay + g[:, j]
        return out.astype(q.dtype)
    return scores
case("q028", make, CABLE, "scores", "CABLE's code does not divide q . k by sqrt(d); this one does.", "product-scaled", "scale 1")


# ---------------------------------------------------------------- PaTH
VEC, BETA = arr(51, 2, 20, 8, scale=1.0), 2 * sigmoid(arr(52, 2, 20, scale=2.0))
PA = P.PaTH(VEC, BETA)
PAF = P.PaTH(VEC, BETA, forget=P.ForgettingBias(-np.abs(arr(53, 2, 20))), gates_scaled=True)
UNIT = VEC / np.linalg.norm(VEC, axis=-1, keepdims=True)


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        out = np.zeros(q.shape[:-1] + (K,))
        cache = np.zeros(k.shape[:2] + (0, 8))
        for t in range(K):                                                       # decoding, keys are kept transformed
            w, b = UNIT[:, t], BETA[:, t - 1 if bug and t else t]
            cache = cache - (cache @ w[None, :, :, None]) * w[:, None] * b[:, None, None]
            cache = np.concatenate([cache, k[:, :, t : t + 1].astype(float)], axis=2)
            if t >= K - Q:
                out[:, :, t - K + Q, : t + 1] = (cache @ q[:, :, t - K + Q, :, None].astype(float))[..., 0]
        return (out / math.sqrt(8)).astype(q.dtype)
    return scores
case("q029", make, PA, "scores", "Each step of the recurrence takes w of the token but beta of the token before.", "beta-shifted",
     "take beta of the same token")


def wy(n):
    """T with H_1 ... H_n = I - W' T W; the block of T of tokens s .. t gives their product."""
    gram = np.triu(UNIT[:, :n] @ UNIT[:, :n].swapaxes(-1, -2), 1)
    return np.linalg.inv(gram + np.eye(n) / BETA[:, :n, None])


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        x, y, w = q.astype(float), k.astype(float), UNIT[:, :K]
        at = np.arange(K - Q, K)
        qw = np.where(np.arange(K) <= at[:, None], x @ w.swapaxes(-1, -2), 0.0)       # t <= i
        kw = y @ w.swapaxes(-1, -2)                                                  # j x s
        kw = np.where(np.arange(K) >= np.arange(K)[:, None] if bug else np.arange(K) > np.arange(K)[:, None], kw, 0.0)
        return ((x @ y.swapaxes(-1, -2) - qw @ (kw @ wy(K)).swapaxes(-1, -2)) / math.sqrt(8)).astype(q.dtype)
    return scores
case("q030", make, PA, "scores", "The mask of the compact (WY) form includes the key's own reflection: s >= j instead of s > j, so "
     "H_j is applied too.", "key-own-matrix", "mask with s > j")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        out = np.zeros(q.shape[:-1] + (K,))
        for h in range(2):
            mats = [np.eye(8) - BETA[h, t] * np.outer(UNIT[h, t], UNIT[h, t]) for t in range(K)]
            for a in range(Q):
                prod = np.eye(8)
                for j in range(K - Q + a, -1, -1):
                    out[:, h, a, j] = np.einsum("bd,de,be->b", k[:, h, j].astype(float), prod, q[:, h, a].astype(float))
                    prod = prod @ mats[j] if bug else mats[j] @ prod
        return (out * 8 ** -0.5).astype(q.dtype)
    return scores
case("q031", make, PA, "scores", "Walking from the query to older tokens, each matrix is multiplied from the right, so the product "
     "is H_i ... H_(j+1) instead of H_(j+1) ... H_i.", "product-order", "multiply older matrices from the left")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        x, y, w = q.astype(float), k.astype(float), UNIT[:, :K]
        eye = np.eye(K)
        qw = (x @ w.swapaxes(-1, -2)) * np.tril(np.ones((Q, K)), K - Q)
        kw = (y @ w.swapaxes(-1, -2)) * np.triu(np.ones((K, K)), 1)
        s = x @ y.swapaxes(-1, -2) - qw @ wy(K).swapaxes(-1, -2) @ kw.swapaxes(-1, -2)
        c = np.cumsum(np.asarray(PAF.forget.log_gates)[:, :K], -1)
        bias = c[:, K - Q :, None] - c[:, None, :]
        scale = 1 / math.sqrt(8)
        return (s * scale + bias if bug else (s + bias) * scale).astype(q.dtype)
    return scores
case("q032", make, PAF, "scores", "The model adds the log gates before the factor 1/sqrt(d) (gates_scaled); this adds them after.",
     "gates-after-scale", "scale product and gates together")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        x, y, w = q.astype(float), k.astype(float), UNIT[:, :K]
        qw = np.tril(np.einsum("bhqd,htd->bhqt", x, w), K - Q)
        kw = np.triu(np.einsum("bhkd,hsd->bhks", y, w), 1)
        mid = wy(K)
        return ((np.einsum("bhqd,bhkd->bhqk", x, y) - np.einsum("bhqt,hst,bhks->bhqk", qw, mid, kw, optimize=True)) * 8 ** -0.5).astype(q.dtype)
    return scores
case("q033", make, PA, "scores", "No product of matrices: one inverse of a triangular matrix for all pairs, of which the masks cut "
     "the block of tokens j + 1 .. i.", "right")


# ---------------------------------------------------------------- dual chunk, Self-Extend, ReRoPE
RP = P.RoPE(16, layout="half")
FREQ = 10000.0 ** (-np.arange(8) / 8.0)
DC = P.DualChunk(RP, chunk_size=12, local_size=4)
DCT = P.DualChunk(RP, chunk_size=10, local_size=3, original_max_position=16)


def rotate(x, p):
    """Rotate the half-split pairs of x (..., 16) by positions p, broadcast to x's leading axes."""
    z = (x[..., :8] + 1j * x[..., 8:]) * np.exp(1j * np.asarray(p, np.float64)[..., None] * FREQ)
    return np.concatenate([z.real, z.imag], -1)


def make(bug):
    C, size = 8, 12
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        i, j = np.arange(K - Q, K), np.arange(K)
        y = rotate(k.astype(float), j % C).swapaxes(-1, -2)
        x = q.astype(float)
        intra = rotate(x, i % C) @ y
        succ = rotate(x, np.minimum(i % C + C, size)) @ y
        inter = rotate(x, np.full(Q, 2 * C - 1 if bug else min(2 * C - 1, size))) @ y
        apart = i[:, None] // C - j // C
        return (np.where(apart < 1, intra, np.where(apart == 1, succ, inter)) / 4).astype(q.dtype)
    return scores
case("q034", make, DC, "scores", "The position of far queries is 2C - 1 without the cap at chunk_size, which is smaller here.",
     "far-query-uncapped", "min(2C - 1, chunk_size)")


def make(bug):
    C, size = 8, 12
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        out = np.zeros(q.shape[:-1] + (K,))
        ks = rotate(k.astype(float), np.arange(K) % C)
        for a in range(Q):
            i = K - Q + a
            chunk = (a if bug else i) // C
            for c in range(-(-K // C)):
                part = ks[:, :, c * C : (c + 1) * C]
                gap = chunk - c
                p = i % C if gap < 1 else min(i % C + C, size) if gap == 1 else min(2 * C - 1, size)
                out[:, :, a, c * C : (c + 1) * C] = np.einsum("bhd,bhkd->bhk", rotate(q[:, :, a].astype(float), p), part)
        return (out * 0.25).astype(q.dtype)
    return scores
case("q035", make, DC, "scores", "The chunk of a query is computed from its row in the call, not from its position: with cached "
     "keys a query counts as of an earlier chunk.", "chunk-of-row", "use the position K - Q + i")


def make(bug):
    C, size, trained = 7, 10, 16
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        t = max(1.0, 0.1 * math.log(K / trained) + 1.0)
        i, j = np.arange(K - Q, K)[:, None], np.arange(K)[None]
        apart = i // C - j // C
        place = np.select([apart < 1, apart == 1], [i % C + 0 * j, np.minimum(i % C + C, size) + 0 * j], min(2 * C - 1, size))
        x, y = q.astype(float), k.astype(float)
        r = (place - j % C)[..., None] * FREQ                                       # Q K 8
        z = (x[..., :8] + 1j * x[..., 8:])[:, :, :, None] * np.conj(y[..., :8] + 1j * y[..., 8:])[:, :, None]
        s = (z * np.exp(1j * r)).real.sum(-1) / 4
        return (s * (t if bug else t * t)).astype(q.dtype)
    return scores
case("q036", make, DCT, "scores", "The factor of long sequences is t instead of t squared: only the softmax scale has it, the keys "
     "do not.", "temperature-once", "multiply by t ** 2")


def make(bug):
    C, size, trained = 7, 10, 16
    state = {}
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        if not bug or "t" not in state:
            state["t"] = max(1.0, 0.1 * math.log(K / trained) + 1.0)
        t2 = state["t"] ** 2
        i, j = np.arange(K - Q, K), np.arange(K)
        y = rotate(k.astype(float), j % C)
        x = np.stack([rotate(q.astype(float), p) for p in (i % C, np.minimum(i % C + C, size), np.full(Q, size))])
        every = np.einsum("nbhqd,bhkd->nbhqk", x, y)
        which = np.clip(i[:, None] // C - j // C, 0, 2)
        return (np.take_along_axis(every, which[None, None, None], 0)[0] * t2 / 4).astype(q.dtype)
    return scores
case("q037", make, DCT, "scores", "The factor of the length is computed in the first call and kept for all later ones.", "temperature-kept",
     "compute it from the length of each call")


SE = P.SelfExtend(RP, group=3, window=8)


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        i, j = np.arange(K - Q, K), np.arange(K)
        x, y = q.astype(float), k.astype(float)
        near = rotate(x, i) @ rotate(y, j).swapaxes(-1, -2)
        far = rotate(x, i // 3 + 8 - 8 // 3) @ rotate(y, j // 3).swapaxes(-1, -2)
        d = i[:, None] - j
        return (np.where(d <= 8 if bug else d < 8, near, far) / 4).astype(q.dtype)
    return scores
case("q038", make, SE, "scores", "The key at distance 8 = window keeps its true distance; it is the first of the grouped ones.",
     "window-edge", "near keys have i - j < window")


LR = P.ReRoPE(RP, window=6, factor=4.0)


def make(bug):
    w, f = 6, 4.0
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        i, j = np.arange(K - Q, K), np.arange(K)
        x, y = q.astype(float), k.astype(float)
        far_q = (i + w * (f - 1)) / f
        far_k = j // int(f) if bug else j / f
        near = np.einsum("bhqd,bhkd->bhqk", rotate(x, i), rotate(y, j))
        far = np.einsum("bhqd,bhkd->bhqk", rotate(x, far_q), rotate(y, far_k))
        return (np.where(i[:, None] - j < w, near, far) * 0.25).astype(q.dtype)
    return scores
case("q039", make, LR, "scores", "Positions of far keys are divided by the factor as integers, so four keys share a position, as in "
     "Self-Extend; Leaky ReRoPE keeps the fractions.", "far-key-floor", "divide as floats")


# ---------------------------------------------------------------- SAM / ViTDet, LeViT, TUPE, WavLM
GH, GW = arr(61, 5, D), arr(62, 9, D)
SAM = P.DecomposedRelative(GH, GW, grid=(3, 5))
SQ = P.DecomposedRelative(arr(63, 7, D), arr(64, 7, D), grid=(4, 4))


def make(bug):
    h, w = 3, 5
    def scores(q, k):
        at = lambda n, m: np.arange(n)[:, None] - np.arange(n) + (m - 1)
        rh = GH[at(h, h)]
        rw = GW[at(w, h if bug else w)]
        B, H = q.shape[:2]
        r = q.astype(float).reshape(B, H, h, w, D)
        s = (q.astype(float) @ k.astype(float).swapaxes(-1, -2) * D ** -0.5).reshape(B, H, h, w, h, w)
        s = s + np.einsum("bnhwc,hkc->bnhwk", r, rh)[..., None] + np.einsum("bnhwc,wkc->bnhwk", r, rw)[..., None, :]
        return s.reshape(B, H, h * w, h * w).astype(q.dtype)
    return scores
case("q040", make, SAM, "scores", "The centre of the width table is computed from the height (h - 1 instead of w - 1); on square "
     "grids this shows nothing.", "width-centre-from-height", "add w - 1 to the column offset")


def make(bug):
    th, tw = np.asarray(SQ.height_table), np.asarray(SQ.width_table)
    idx = np.arange(4)[:, None] - np.arange(4) + 3
    def scores(q, k):
        B, H = q.shape[:2]
        x = q.astype(float).reshape(B * H, 4, 4, D)
        rel_h = np.einsum("bhwc,hkc->bhwk", x, th[idx])
        rel_w = np.einsum("bhwc,wkc->bhwk", x, tw[idx])
        s = (x.reshape(B * H, 16, D) @ k.astype(float).reshape(B * H, 16, D).swapaxes(1, 2) / 4).reshape(B * H, 4, 4, 4, 4)
        s = s + rel_h[..., None, :] + rel_w[..., :, None] if bug else s + rel_h[..., :, None] + rel_w[..., None, :]
        return s.reshape(B, H, 16, 16).astype(q.dtype)
    return scores
case("q041", make, SQ, "scores", "The new axes are exchanged: the height term is spread over the rows of the keys and the width term "
     "over their columns.", "key-axes-exchanged", "rel_h[..., :, None] and rel_w[..., None, :]")


LV = P.LeViTBias(arr(65, 15, 3), window=(3, 5))


def make(bug):
    h, w = 3, 5
    tab = np.asarray(LV.table).T
    y, x = np.divmod(np.arange(h * w), w)
    idx = np.abs(y[:, None] - y) * (h if bug else w) + np.abs(x[:, None] - x)
    def scores(q, k):
        return (np.einsum("bhqd,bhkd->bhqk", q, k, dtype=float) / math.sqrt(q.shape[-1]) + tab[:, idx]).astype(q.dtype)
    return scores
case("q042", make, LV, "scores", "The index of |dy| and |dx| multiplies |dy| by the height; different offsets then share a number.",
     "index-stride-height", "multiply |dy| by the width")


def make(bug):
    tab = np.asarray(LV.table).T
    points = list(itertools.product(range(3), range(5)))
    offsets, idxs = {}, []
    for p1 in points:
        for p2 in points:
            o = (abs(p1[0] - p2[0]), abs(p1[1] - p2[1]))
            offsets.setdefault(o, len(offsets))
            idxs.append(offsets[o])
    ab = tab[:, np.array(idxs).reshape(15, 15)]
    def scores(q, k):
        out = np.matmul(q.astype(float) * q.shape[-1] ** -0.25, (k.astype(float) * k.shape[-1] ** -0.25).swapaxes(-1, -2))
        return (out + ab).astype(q.dtype)
    return scores
case("q043", make, LV, "scores", "Offsets are numbered in order of their first occurrence by a dictionary, which is row-major because "
     "the first token meets all offsets; d ** -0.25 on q and on k.", "right")


TU = P.TUPE(arr(71, 40, 2, D), arr(72, 40, 2, D), cls_to_others=arr(73, 2), others_to_cls=arr(74, 2))


def make(bug):
    pq, pk = np.asarray(TU.position_queries), np.asarray(TU.position_keys)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        v = np.einsum("qhd,khd->hqk", pq[K - Q : K], pk[:K]) / math.sqrt(2 * D)
        row, col = (np.arange(K - Q, K) == 0)[:, None] & np.ones(K, bool), np.ones((Q, 1), bool) & (np.arange(K) == 0)
        steps = [(col, TU.others_to_cls), (row, TU.cls_to_others)]
        for mask, number in steps[::-1] if bug else steps:
            v = np.where(mask, np.asarray(number)[:, None, None], v)
        return (q.astype(float) @ k.astype(float).swapaxes(-1, -2) / math.sqrt(2 * D) + v).astype(q.dtype)
    return scores
case("q044", make, TU, "scores", "The column of [CLS] is filled after its row, so the pair (0, 0) has the number of others-to-cls.",
     "cls-corner", "fill the column first, then the row")


T5 = P.T5Bias(arr(81, 8, 3), num_buckets=8, max_distance=20, scaled=True)
GB = P.GatedBias(T5, arr(82, 2, D), arr(83, 2), 1 + arr(84, 3))


def make(bug):
    w, c, const = np.asarray(GB.weight), np.asarray(GB.linear_bias), np.asarray(GB.scale)
    tab = np.asarray(T5.table)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        r = np.arange(K) - np.arange(K - Q, K)[:, None]
        n = np.abs(r)
        big = sum((n >= t).astype(int) for t in (1, 2, 7))                        # 4 buckets: 0, 1, 2-6, 7-
        big = np.where(r > 0, big + 4, big)
        x = q.astype(float)
        a, b = sigmoid(x @ w[0] + c[0]), sigmoid(x @ w[1] + c[1])
        s = const[:, None]
        gate = a * (b * s) - 1.0 + 2.0 if bug else a * (b * s - 1.0) + 2.0
        return (x @ k.astype(float).swapaxes(-1, -2) / 4 + gate[..., None] * np.moveaxis(tab[big], -1, 0)).astype(q.dtype)
    return scores
case("q045", make, GB, "scores", "A parenthesis of the gate is lost: a * (b s) - 1 + 2 instead of a * (b s - 1) + 2.", "gate-parenthesis",
     "subtract 1 before the product with a")
