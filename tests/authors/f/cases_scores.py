"""Scores (f149 - f174): terms of content and position, far keys, whole models."""
import numpy as np

from posenc_ref import (ALiBi, CoPE, DeBERTa, DecomposedRelative, DualChunk, GatedBias, PoPE, ReRoPE, RoPE, SelfExtend,
                        Shaw, Sinusoidal, T5Bias, TransformerXL, TUPE, XLNet)

CASES = []


def case(id, make, encoding, surface, cause, key="", remedy="", right=False, **settings):
    CASES.append(dict(id=id, fn=make if right else make(True), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def rand(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def wide(*xs):
    return [np.asarray(x, np.float64) for x in xs]


def qk(q, k):
    return q @ k.swapaxes(-1, -2)


def at(q, k):
    """Positions of queries (Q, 1) and keys (1, K)."""
    n, m = q.shape[-2], k.shape[-2]
    return np.arange(m - n, m)[:, None], np.arange(m)[None, :]


# -- f149: DeBERTa: p2c gathered per query -----------------------------------------------------------
KR, QR = rand(1, 4, 32, 16), rand(2, 4, 32, 16)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        row = np.clip(i - j + 16, 0, 31)
        h = np.arange(4)[:, None, None]
        c2p = np.einsum("bhid,hijd->bhij", q, KR[h, row])
        p2c = np.einsum("bhjd,hijd->bhij", k, QR[h, np.clip(row + 1, 0, 31) if bug else row])
        return ((qk(q, k) + c2p + p2c) / np.sqrt(48)).astype(q0.dtype)
    return scores


case("f149", make, DeBERTa(KR, QR), "scores",
     "The position-to-content term takes the row after the right one (i - j + 1); the content-to-position term is right.",
     "p2c-off-by-one", "Use the same rows for both terms.")


# -- f150: DeBERTa scale -------------------------------------------------------------------------------
def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        row = np.clip(i - j + 16, 0, 31)
        c2p = np.take_along_axis(np.einsum("bhid,hrd->bhir", q, KR), np.broadcast_to(row, (*q.shape[:2], *row.shape)), -1)
        return ((qk(q, k) + c2p) / np.sqrt((3 if bug else 2) * 16)).astype(q0.dtype)
    return scores


case("f150", make, DeBERTa(KR, None), "scores",
     "With two terms (no position-to-content term) the scale is 1/sqrt(3d) as for three instead of 1/sqrt(2d).", "terms-counted",
     "Count the terms that are used.")


# -- f151: DeBERTa v2: log buckets with floor -------------------------------------------------------------
def v2(r, mid=8, top=64, rounding=np.ceil):
    a = np.abs(r)
    far = mid + rounding(np.log(np.maximum(a, mid + 1) / mid) / np.log((top - 1) / mid) * (mid - 1))
    return np.where(a <= mid, r, np.sign(r) * far).astype(int)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        row = np.clip(v2(i - j, rounding=np.floor if bug else np.ceil) + 16, 0, 31)
        h = np.arange(4)[:, None, None]
        c2p = (q[..., :, None, :] * KR[h, row]).sum(-1)
        p2c = (k[..., None, :, :] * QR[h, row]).sum(-1)
        return ((qk(q, k) + c2p + p2c) / np.sqrt(48)).astype(q0.dtype)
    return scores


case("f151", make, DeBERTa(KR, QR, buckets=16, max_position=64), "scores",
     "The logarithmic buckets are rounded down instead of up: distances beyond 8 use the bucket before theirs.", "deberta-floor",
     "Use ceil.")

# -- f152: Shaw: one row missing at the far end ---------------------------------------------------------------
SK = rand(3, 17, 16)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        a = SK[np.clip(j - i, -7 if bug else -8, 8) + 8]
        return ((qk(q, k) + np.einsum("bhid,ijd->bhij", q, a)) / 4).astype(q0.dtype)
    return scores


case("f152", make, Shaw(SK, before=8), "scores",
     "Offsets are clipped at -7 instead of -8 (exclusive bound): keys 8 or more before the query share the row of -7, row 0 is never used.",
     "clip-7", "Clip to -8 .. 8.")

# -- f153: Music Transformer: head tables shared ----------------------------------------------------------------
SH = rand(4, 4, 64, 16)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        row = np.clip(j - i, -63, 0) + 63
        out = np.empty((*q.shape[:3], k.shape[2]))
        for h in range(4):
            table = SH[h] if not bug else SH[3 - h]
            out[:, h] = (qk(q[:, h], k[:, h]) + np.einsum("bid,ijd->bij", q[:, h], table[row])) / 4
        return out.astype(q0.dtype)
    return scores


case("f153", make, Shaw(SH, before=63), "scores", "The tables of the heads are read in reverse order: head h uses the table of head H-1-h.",
     "heads-reversed", "Use table h.")


# -- f154: Transformer-XL through the shift; memory -------------------------------------------------------------------
TW, TU, TV = rand(5, 2, 8, 12) * 0.3, rand(6, 2, 8), rand(7, 2, 8)


def sinus(p, d=12):
    a = np.asarray(p, np.float64)[..., None] * 10000.0 ** (-np.arange(d // 2) / (d / 2))
    return np.concatenate([np.sin(a), np.cos(a)], -1)


XL = TransformerXL(TW, TU, TV, sinusoid=Sinusoidal(12, layout="concat"))


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        if bug:
            i = i - (k.shape[2] - q.shape[2])
        r = np.einsum("hdw,ijw->hijd", TW, sinus(i - j))
        ac = qk(q + TU[:, None], k)
        bd = np.einsum("bhid,hijd->bhij", q + TV[:, None], r)
        return ((ac + bd) / np.sqrt(8)).astype(q0.dtype)
    return scores


case("f154", make, XL, "scores",
     "With a memory (more keys than queries) the distances leave out its length: query i counts from 0 instead of K - Q.",
     "memory-length", "Add K - Q to the query's position.")


# -- f155: Transformer-XL: biases -----------------------------------------------------------------------------------------
def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        r = sinus(i - j) @ TW.transpose(0, 2, 1)[:, None]              # (H, Q, K, d)
        v = TU if bug else TV
        return ((qk(q + TU[:, None], k) + np.einsum("bhid,hijd->bhij", q + v[:, None], r)) * 8 ** -0.5).astype(q0.dtype)
    return scores


case("f155", make, XL, "scores", "The position term adds the content bias u to the query instead of the position bias v (u in both terms).",
     "u-for-v", "Use v in the position term.")


# -- f156 right: relative shift for causal keys, formula elsewhere -----------------------------------------------------------
def xl_shifted(q0, k0):
    q, k = wide(q0, k0)
    n, m = q.shape[2], k.shape[2]
    r = np.einsum("hdw,tw->htd", TW, sinus(np.arange(m - 1, -n, -1)))  # distances m-1 .. 1-n
    by = qk(q + TV[:, None], r[None])                                   # (B, H, Q, m + n - 1)
    bd = np.stack([by[:, :, i, n - 1 - i:n - 1 - i + m] for i in range(n)], 2)
    return ((qk(q + TU[:, None], k) + bd) / np.sqrt(8)).astype(q0.dtype)


case("f156", xl_shifted, XL, "scores", "Right: one product with all distances, negative ones included, and a slice for every query.",
     right=True)


# -- f157: clamp ---------------------------------------------------------------------------------------------------------------------
def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        d = np.minimum(i - j, 12) if bug else np.clip(i - j, -12, 12)
        if bug:
            d = np.where(i - j > 12, 11, d)
        r = np.einsum("hdw,ijw->hijd", TW, sinus(d))
        return ((qk(q + TU[:, None], k) + np.einsum("bhid,hijd->bhij", q + TV[:, None], r)) / np.sqrt(8)).astype(q0.dtype)
    return scores


case("f157", make, TransformerXL(TW, TU, TV, sinusoid=Sinusoidal(12, layout="concat"), clamp=12), "scores",
     "Distances above 12 are clamped to 11 (clamp_len - 1), and negative ones beyond -12 are not clamped.", "clamp-len",
     "Clip to -12 .. 12.")


# -- f158: XLNet: distance by keys ----------------------------------------------------------------------------------------------------
def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        r = np.einsum("hdw,ijw->hijd", TW, sinus(j - i if bug else i - j))
        return ((qk(q + TU[:, None], k) + np.einsum("bhid,hijd->bhij", q + TV[:, None], r)) / np.sqrt(8)).astype(q0.dtype)
    return scores


case("f158", make, XLNet(TW, TU, TV, sinusoid=Sinusoidal(12, layout="concat")), "scores",
     "The sinusoids are taken at key minus query, so the sines have the wrong sign.", "distance-sign", "Use i - j.")

# -- f159: CoPE: sum from the first key -------------------------------------------------------------------------------------------------
CE = rand(8, 12, 16)


def cope(q0, k0, mask_first=True, from_left=False, floor=False):
    q, k = wide(q0, k0)
    i, j = at(q, k)
    logits = qk(q, k) / 4
    g = 1 / (1 + np.exp(-logits)) * ((j <= i) if mask_first else 1)
    p = np.cumsum(g, -1) if from_left else np.cumsum(g[..., ::-1], -1)[..., ::-1]
    p = np.minimum(p, 11)
    lo = np.floor(p).astype(int)
    hi, w = np.minimum(lo + 1, 11), p - lo
    e = q @ CE.T
    pick = lambda n: np.take_along_axis(e, n, -1)
    out = pick(lo) if floor else pick(lo) * (1 - w) + pick(hi) * w
    return (logits + out).astype(q0.dtype)


def make(bug):
    return lambda q, k: cope(q, k, from_left=bug)


case("f159", make, CoPE(CE), "scores",
     "The gates are summed from the first key up to key j instead of from key j to the query.", "cope-direction", "Flip before and after cumsum.")


# -- f160: CoPE: gates of later keys ---------------------------------------------------------------------------------------------------------
def make(bug):
    return lambda q, k: cope(q, k, mask_first=not bug)


case("f160", make, CoPE(CE), "scores", "The gates are taken before the causal mask, so keys after the query are counted in the positions.",
     "cope-mask", "Mask the gates.")


# -- f161: TUPE scale of the position term --------------------------------------------------------------------------------------------------------
PQ, PK = rand(9, 200, 4, 16), rand(10, 200, 4, 16)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        pp = np.einsum("ihd,jhd->hij", PQ[i[:, 0]], PK[j[0]])
        return (qk(q, k) / np.sqrt(32) + pp / np.sqrt(16 if bug else 32)).astype(q0.dtype)
    return scores


case("f161", make, TUPE(PQ, PK), "scores", "The position product is divided by sqrt(d); only the content product has 1/sqrt(2d).",
     "tupe-scale", "Divide both by sqrt(2d).")

# -- f162: TUPE [CLS] -----------------------------------------------------------------------------------------------------------------------------------
C1, C2 = rand(11, 4), rand(12, 4)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        v = np.einsum("ihd,jhd->hij", PQ[i[:, 0]], PK[j[0]]) / np.sqrt(32)
        first, last = (i == 0)[None], (j == 0)[None]
        row, col = C1[:, None, None], C2[:, None, None]
        v = np.where(last, col, np.where(first, row, v)) if bug else np.where(first, row, np.where(last, col, v))
        return (qk(q, k) / np.sqrt(32) + v).astype(q0.dtype)
    return scores


case("f162", make, TUPE(PQ, PK, cls_to_others=C1, others_to_cls=C2), "scores",
     "At the pair ([CLS], [CLS]) the column's number (others_to_cls) wins instead of the row's (cls_to_others).", "cls-corner",
     "Write the column first and the row after it.")

# -- f163: PoPE: frequencies of RoPE -----------------------------------------------------------------------------------------------------------------------------
PH = rand(13, 4, 16)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        c = np.arange(16)
        f = 10000.0 ** (-(c // 2 * 2 if bug else c) / 16)
        sp = lambda x: np.logaddexp(0, x)
        a, b = i * f, (j.T * f)[None] + PH[:, None, :]                     # (Q, d), (H, K, d)
        qq = np.concatenate([sp(q) * np.cos(a), sp(q) * np.sin(a)], -1)
        kk = np.concatenate([sp(k) * np.cos(b), sp(k) * np.sin(b)], -1)
        return (qk(qq, kk) / 4).astype(q0.dtype)
    return scores


case("f163", make, PoPE(16, PH), "scores",
     "Channels 2c and 2c+1 share a frequency, base ** (-2c/d), as in RoPE: d/2 frequencies instead of d.", "pope-frequencies",
     "Use base ** (-c/d) for every channel.")


# -- f164: PoPE scale -----------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        r = (j - i)[..., None] * 100.0 ** (-np.arange(8) / 8)
        sp = lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)
        s = np.einsum("bhic,bhjc,ijc->bhij", sp(q), sp(k), np.cos(r))
        return (s / np.sqrt(16 if bug else 8)).astype(q0.dtype)
    return scores


case("f164", make, PoPE(8, base=100.0), "scores", "The scale is 1/sqrt(2d), the size of the concatenated vectors, instead of 1/sqrt(d).",
     "pope-scale", "Pass 1/sqrt(d) to the kernel.")

# -- f165: decomposed: tables exchanged for non-square grids -----------------------------------------------------------------------------------------------------------------
HT, WT = rand(14, 9, 16), rand(15, 13, 16)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        n = q.shape[2]
        y, x = np.divmod(np.arange(k.shape[2]), 7)
        yq, xq = y[-n:], x[-n:]
        rh, rw = HT[yq[:, None] - y + 4], WT[xq[:, None] - x + 6]
        qs = q / 4 if bug else q
        return (qk(q, k) / 4 + np.einsum("bhid,ijd->bhij", q, rh) + np.einsum("bhid,ijd->bhij", qs, rw)).astype(q0.dtype)
    return scores


case("f165", make, DecomposedRelative(HT, WT, grid=(5, 7)), "scores",
     "The width term uses the scaled query (divided by sqrt(d)), the height term the unscaled one.", "scaled-width-term",
     "Use the unscaled query in both position terms.")

# -- f166: T5 scores scaled ----------------------------------------------------------------------------------------------------------------------------------------------------------------
T5 = rand(16, 32, 4)


def bucket(r):
    n = np.abs(r)
    big = 8 + np.floor(np.log(np.maximum(n, 1) / 8) / np.log(16) * 8 + 1e-9).astype(int)
    return (r > 0) * 16 + np.where(n < 8, n, np.minimum(big, 15))


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        b = T5[bucket(j - i)].transpose(2, 0, 1)
        s = q.shape[-1] ** -0.5
        return ((qk(q, k) + b) * s if bug else qk(q, k) * s + b).astype(q0.dtype)
    return scores


case("f166", make, T5Bias(T5, scaled=True), "scores", "The bias is divided by sqrt(d) together with the product (added inside the scale).",
     "bias-inside-scale", "Add the bias after scaling.")


# -- f167: Falcon: bias outside ------------------------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        b = -(2.0 ** -np.arange(1, 9))[:, None, None] * (i - j)
        s = q.shape[-1] ** -0.5
        return ((qk(q, k) + b * (q.shape[-1] ** 0.25 if bug else 1)) * s).astype(q0.dtype)
    return scores


case("f167", make, ALiBi(8, bias_inside_scale=True), "scores",
     "The product is scaled in two halves (d^-1/4 on q and on k) and the bias is multiplied by d^-1/4 only once: it is d^1/4 times too large.",
     "bias-scaled-once", "Multiply the bias by 1/sqrt(d).")

# -- f168: gated bias ---------------------------------------------------------------------------------------------------------------------------------------------------------------------------------
GW, GC, GS = rand(17, 2, 16) * 0.5, rand(18, 2), rand(19, 4)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        a, r = (1 / (1 + np.exp(-(q @ GW[n] + GC[n]))) for n in (0, 1))
        s = GS[:, None]
        g = a * (s * r - 1.0) + 2.0
        if bug:
            g = s * a * r + 1 - a + 0 * g
        b = T5[bucket(j - i)].transpose(2, 0, 1)
        return (qk(q, k) / 4 + g[..., None] * b).astype(q0.dtype)
    return scores


case("f168", make, GatedBias(T5Bias(T5, scaled=True), GW, GC, GS), "scores",
     "The gate lacks 1: it is 1 + a (scale r - 1) instead of 2 + a (scale r - 1).", "gate-constant", "Add the bias itself once more.")


# -- f169: ReRoPE: clipped one early --------------------------------------------------------------------------------------------------------------------------------------------------------------------
def pair_rot(q, k, d):
    """Half-split logits with offsets d (Q, K) = i' - j'."""
    n = q.shape[-1] // 2
    a, b = q[..., :n] + 1j * q[..., n:], k[..., :n] + 1j * k[..., n:]
    z = np.exp(-1j * d[..., None] * 10000.0 ** (-np.arange(n) / n))
    return np.einsum("bhic,bhjc,ijc->bhij", a.conj(), b, z).real / np.sqrt(2 * n)


def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        d = (i - j).astype(float)
        far = 24 + (d - 24) / 8
        return pair_rot(q, k, np.where(d < 24, d, d / 8 if bug else far)).astype(q0.dtype)
    return scores


case("f169", make, ReRoPE(RoPE(16, layout="half"), window=24, factor=8.0), "scores",
     "Beyond the window the distance is d/8 without the shift window - window/8, so it jumps back at the window.", "leaky-shift",
     "Use window + (d - window)/factor.")


# -- f170: Self-Extend ------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        far = i // 4 - j // 4 + 16 - (0 if bug else 4)
        return pair_rot(q, k, np.where(i - j < 16, i - j, far).astype(float)).astype(q0.dtype)
    return scores


case("f170", make, SelfExtend(RoPE(16, layout="half"), group=4, window=16), "scores",
     "Far queries are shifted by window (16) instead of window - window // group (12): far keys are 4 positions too far away.",
     "group-shift", "Shift by window - window // group.")


# -- f171: dual chunk -----------------------------------------------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def scores(q0, k0):
        q, k = wide(q0, k0)
        i, j = at(q, k)
        c = 14
        gap = i // c - j // c
        near = np.minimum(i % c + c, 20)
        ip = np.select([gap <= 0, gap == 1], [i % c, near], near if bug else min(2 * c - 1, 20))
        return pair_rot(q, k, (ip - j % c).astype(float)).astype(q0.dtype)
    return scores


case("f171", make, DualChunk(RoPE(16, layout="half"), chunk_size=20, local_size=6), "scores",
     "Chunks two or more back use the query position of the successive chunk, min(i mod C + C, chunk_size), instead of the constant "
     "min(2C - 1, chunk_size): the first queries of a chunk see far keys too near.", "inter-chunk", "Use the constant position.")


# -- f172 right: DeBERTa by one-hot matrices -----------------------------------------------------------------------------------------------------------------------------------------------------------------------
def deberta_onehot(q0, k0):
    q, k = wide(q0, k0)
    i, j = at(q, k)
    hot = np.eye(32)[np.clip(i - j + 16, 0, 31)]
    c2p = np.einsum("bhir,ijr->bhij", np.einsum("bhid,hrd->bhir", q, KR), hot)
    p2c = np.einsum("bhjr,ijr->bhij", np.einsum("bhjd,hrd->bhjr", k, QR), hot)
    return ((qk(q, k) + c2p + p2c) / np.sqrt(3 * 16)).astype(q0.dtype)


case("f172", deberta_onehot, DeBERTa(KR, QR), "scores", "Right: rows are chosen by products with one-hot matrices.", right=True)


# -- f173 right: CoPE with a loop over queries -----------------------------------------------------------------------------------------------------------------------------------------------------------------------
def cope_loop(q0, k0):
    q, k = wide(q0, k0)
    n, m = q.shape[2], k.shape[2]
    out = qk(q, k) / 4
    e = q @ CE.T
    for i in range(n):
        last = m - n + i
        g = 1 / (1 + np.exp(-out[:, :, i]))
        g[..., last + 1:] = 0
        p = np.minimum(g.sum(-1, keepdims=True) - np.cumsum(g, -1) + g, 11.0)      # from key j to the query
        for t in range(12):
            out[:, :, i] += np.maximum(0, 1 - np.abs(p - t)) * e[:, :, i, t, None]
    return out.astype(q0.dtype)


case("f173", cope_loop, CoPE(CE), "scores", "Right: a loop over queries; the total minus a running sum counts from the key to the query, and hat functions interpolate.",
     right=True)


# -- f174 right: Shaw counted from query, table of both signs ----------------------------------------------------------------------------------------------------------------------------------------------------------------
def shaw_padded(q0, k0):
    q, k = wide(q0, k0)
    n, m = q.shape[2], k.shape[2]
    long = np.concatenate([np.repeat(SK[:1], max(m - 9, 0) + 1, 0), SK, np.repeat(SK[-1:], n + m, 0)])
    first = max(m - 9, 0) + 1 + 8                                         # the row of offset 0
    by = q @ long.T
    out = np.stack([by[:, :, i, first - (m - n + i):first - (m - n + i) + m] for i in range(n)], 2)
    return ((qk(q, k) + out) / np.sqrt(16)).astype(q0.dtype)


case("f174", shaw_padded, Shaw(SK, before=8), "scores",
     "Right: the table is lengthened by its end rows, so that each query's rows are one slice and nothing is clipped.", right=True)
