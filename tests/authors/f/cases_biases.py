"""Biases, slopes, buckets, windows and relative indices (f121 - f148)."""
import numpy as np

from posenc_ref import (ALiBi, BEiTBias, ConViTBias, DynamicBias, FIRE, ForgettingBias, Kerple, LeViTBias, LogCPB,
                        Sandwich, SwinBias, T5Bias)

CASES = []


def case(id, make, encoding, surface, cause, key="", remedy="", right=False, **settings):
    CASES.append(dict(id=id, fn=make if right else make(True), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def offsets(q_len, k_len):
    """i - j (Q, K)."""
    return (np.arange(q_len) + k_len - q_len)[:, None] - np.arange(k_len)


def rand(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


# -- f121: slopes of the remaining heads --------------------------------------------------------------
def make(bug):
    def slopes(n):
        c = 1 << (n.bit_length() - 1)
        first = [2.0 ** (-8 * (h + 1) / c) for h in range(c)]
        wide = [2.0 ** (-4 * (h + 1) / c) for h in range(2 * c)]
        return np.array(first + (wide[1::2] if bug else wide[0::2])[:n - c])
    return slopes


case("f121", make, ALiBi(12), "slopes",
     "The heads beyond the power of two take slopes 2, 4, 6, ... of the finer series (which repeat the first heads) instead of 1, 3, 5.",
     "slopes-odd", "Take every second slope from the first on.")


# -- f122: slopes start at 1 -----------------------------------------------------------------------------
def make(bug):
    def slopes(n):
        c = 1 << (n.bit_length() - 1)
        f = lambda m, k: 2.0 ** (-8.0 * (k if bug else k + 1) / m)
        return np.array([f(c, k) for k in range(c)] + [f(2 * c, 2 * k) for k in range(n - c)])
    return slopes


case("f122", make, ALiBi(8), "slopes",
     "Head numbers count from 0: the first slope is 1 and each head has the slope of the head before.", "slopes-from-0",
     "Use -8 (h + 1) / n.")


# -- f123: rank slopes from the local number of heads --------------------------------------------------------
def series(n, max_bias=8.0):
    c = 1 << (n.bit_length() - 1)
    r = 2.0 ** (-max_bias / c)
    return np.array([r ** (k + 1) for k in range(c)] + [r ** ((2 * k + 1) / 2) for k in range(n - c)])


def make(bug):
    def rank(num_heads, tp_size, tp_rank):
        local = num_heads // tp_size
        s = series(num_heads)
        return s[tp_rank::tp_size] if bug else s[tp_rank * local:(tp_rank + 1) * local]
    return rank


case("f123", make, ALiBi(16), "rank_slopes",
     "A rank takes every tp_size-th slope (strided) instead of its own contiguous block of heads.", "strided-rank",
     "Slice tp_rank * local to (tp_rank + 1) * local.")


# -- f124: distance measured from row 0 while decoding ----------------------------------------------------------
def make(bug):
    def bias(q_len, k_len):
        i = np.arange(q_len)[:, None] + (0 if bug else k_len - q_len)
        return -series(8)[:, None, None] * np.abs(i - np.arange(k_len))
    return bias


case("f124", make, ALiBi(8), "bias",
     "With cached keys the queries count from 0 instead of k_len - q_len: the last key, not the nearest one, is taken to be far away.",
     "query-offset", "Add k_len - q_len to the query's row.")


# -- f125: symmetric ALiBi without abs ------------------------------------------------------------------------------
def make(bug):
    def bias(q_len, k_len):
        d = offsets(q_len, k_len)
        if not bug:
            d = np.abs(d)
        return (-series(12)[:, None, None] * np.where(d < 0, d / 2 if bug else d, d)).astype(np.float32)
    return bias


case("f125", make, ALiBi(12, causal=False), "bias",
     "In the bidirectional form keys after the query get a positive bias of half the slope instead of -m |i - j|.",
     "future-sign", "Use the absolute distance.")


# -- f126 right: m j -----------------------------------------------------------------------------------------------------
def keys_only(q_len, k_len):
    j = np.arange(k_len, dtype=np.float64)
    return (series(8)[:, None, None] * (j - (k_len - 1))[None, None])


case("f126", keys_only, ALiBi(8), "bias",
     "Right: m (j - last), shape (H, 1, K); differs from -m |i - j| by a constant per query only.", right=True)


# -- f127: key tiles of 64, local index ---------------------------------------------------------------------------------------
def make(bug):
    def bias(q_len, k_len):
        m, out = series(4), np.empty((4, q_len, k_len), np.float32)
        i = np.arange(q_len) + k_len - q_len
        for at in range(0, k_len, 64):
            j = np.arange(at, min(at + 64, k_len))
            if bug and j.size < 64 and at:
                j = j - 64 + j.size                        # the last tile is loaded so that it ends at k_len
            out[:, :, at:at + 64] = -m[:, None, None] * np.abs(i[:, None] - j)
        return out
    return bias


case("f127", make, ALiBi(4), "bias",
     "In the last, incomplete tile of 64 keys (of more than one tile) the key index is too small by the number of missing keys.",
     "last-tile-index", "Use the index of the tile's first key plus the lane.")


# -- f128: bucket: own bucket up to max_exact included -----------------------------------------------------------------------------
def t5_bucket(r, bidirectional=True, nb=32, far=128, edge=0, ceil=False, me=None):
    r = np.asarray(r, np.int64)
    out = np.zeros_like(r)
    if bidirectional:
        nb //= 2
        out, n = (r > 0) * nb, np.abs(r)
    else:
        n = np.maximum(-r, 0)
    me = nb // 2 if me is None else me
    v = np.log(np.maximum(n, 1) / me) / np.log(far / me) * (nb - me)
    big = me + (np.ceil(v - 1e-9) if ceil else np.floor(v + 1e-9)).astype(np.int64)
    return out + np.where(n < me + edge, n, np.minimum(big, nb - 1))


def make(bug):
    return lambda r: t5_bucket(r, ceil=bug)


T = rand(128, 32, 4).astype(np.float32)

case("f128", make, T5Bias(T), "bucket",
     "The logarithmic buckets are rounded up (ceil) instead of down, so distances 9 to 90 (all but the bucket starts) are in the bucket after their own.",
     "bucket-ceil", "Use floor.")


# -- f129: causal buckets: half of them exact from the bidirectional number -------------------------------------------------------------
def make(bug):
    return lambda r: t5_bucket(r, bidirectional=False, me=8 if bug else None)


case("f129", make, T5Bias(T, bidirectional=False), "bucket",
     "In the causal form only 8 distances have a bucket of their own (a quarter of the buckets) instead of 16.", "max-exact",
     "Use num_buckets // 2 in the causal form.")


# -- f130: distances compared in int8 ---------------------------------------------------------------------------------------------------------
def make(bug):
    def bucket(r):
        r = np.asarray(r, np.int64)
        far = np.where(r > 0, np.minimum(r, 127), np.maximum(r, -127)) if bug else r
        return t5_bucket(far, far=256)
    return bucket


case("f130", make, T5Bias(T, max_distance=256), "bucket",
     "Distances are clipped to 127 (int8) before the buckets, so the last buckets of max_distance 256 are never used.",
     "distance-clipped", "Clip at max_distance or not at all.")


# -- f131: bias: table read transposed ----------------------------------------------------------------------------------------------------------
def make(bug):
    t = rand(131, 32, 32).astype(np.float32)

    def bias(q_len, k_len):
        b = t5_bucket(-offsets(q_len, k_len))
        return (t.T if bug else t)[b].transpose(2, 0, 1)
    bias.table = t
    return bias


case("f131", make, T5Bias(make(False).table), "bias",
     "The square embedding (32 buckets, 32 heads) is indexed the wrong way round: rows are taken for heads.", "table-transposed",
     "Index buckets on the first axis.")


# -- f132: KERPLE, r1 and r2 --------------------------------------------------------------------------------------------------------------------------
R1, R2 = (0.5, 1.5, 0.8, 2.0), (1.2, 0.3, 0.9, 0.1)


def make(bug):
    def bias(q_len, k_len):
        d = np.abs(offsets(q_len, k_len)).astype(np.float64)
        a, b = (np.array(r)[:, None, None] for r in (R1, R2))
        return -a * np.log(1 + (b * d) ** (2 if bug else 1))
    return bias


case("f132", make, Kerple(R1, R2), "bias",
     "The distance is squared inside the logarithm: log(1 + (r2 d)^2) instead of log(1 + r2 d).", "kerple-square",
     "Do not square.")


# -- f133: KERPLE power, one exponent ---------------------------------------------------------------------------------------------------------------------
def make(bug):
    def bias(q_len, k_len):
        d = np.abs(offsets(q_len, k_len)).astype(np.float64)
        out = np.empty((4, q_len, k_len))
        for h in range(4):
            out[h] = -R1[h] * d ** (R2[0] if bug else R2[h])
        return out
    return bias


case("f133", make, Kerple(R1, R2, form="power"), "bias",
     "All heads use the exponent of head 0; the factors r1 are right.", "exponent-head-0", "Use r2 of the head.")


# -- f134: Sandwich, k from 0 -------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def bias(q_len, k_len):
        d = offsets(q_len, k_len)[..., None]
        k = np.arange(0, 32) if bug else np.arange(1, 33)
        total = np.cos(d * 10000.0 ** (-2 * k / 64)).sum(-1) - 32
        return total / (8 * np.arange(1, 9) / 8)[:, None, None]
    return bias


case("f134", make, Sandwich(8, 64), "bias", "The sum runs over k = 0 .. dim/2 - 1 instead of 1 .. dim/2.", "sandwich-k",
     "Start at k = 1.")


# -- f135: Sandwich heads ---------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def bias(q_len, k_len):
        d = np.abs(offsets(q_len, k_len))
        line = np.cos(np.arange(d.max() + 1)[:, None] / 10000.0 ** (np.arange(2, 66, 2) / 64)).sum(-1) - 32
        div = [8 * h / 6 if not bug else 8 * h / 8 for h in range(1, 7)]
        return np.stack([line[d] / x for x in div])
    return bias


case("f135", make, Sandwich(6, 64), "bias",
     "The divisor of head h is 8h/8 = h (the number of heads fixed at 8) instead of 8h/6.", "sandwich-divisor", "Use the number of heads.")

# -- f136: FIRE threshold ------------------------------------------------------------------------------------------------------------------------------------------
FH, FB, FO, FC = rand(136, 16, 1), rand(137, 16), rand(138, 4, 16), rand(139, 4)


def fire(q_len, k_len, floor, eps=1e-6, first=0):
    i = (np.arange(q_len) + k_len - q_len + first).astype(np.float64)[:, None]
    d = np.maximum(i - first - np.arange(k_len), 0)
    top = np.maximum(i, 24.0) if floor else np.maximum(i, 1.0)
    x = np.log1p(0.1 * d) / (np.log1p(0.1 * top) + eps)
    y = np.maximum(x[..., None] * FH[:, 0] + FB, 0) @ FO.T + FC
    return y.transpose(2, 0, 1)


def make(bug):
    return lambda q_len, k_len: fire(q_len, k_len, floor=not bug)


F = FIRE(FH, FB, FO, FC, c=0.1, length=24.0)

case("f136", make, F, "bias",
     "The threshold is missing: the distance is normalised by psi(max(i, 1)) at all positions, which differs for queries below 24.",
     "fire-threshold", "Use max(i, length).")


# -- f137: FIRE positions from 1 -------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    return lambda q_len, k_len: fire(q_len, k_len, floor=True, first=1 if bug else 0)


case("f137", make, F, "bias",
     "The normaliser takes the query's position from 1 (i + 1), so beyond the threshold every row is divided by the value of the next.",
     "fire-from-1", "Count positions from 0.")

# -- f138: forget gates ----------------------------------------------------------------------------------------------------------------------------------------------------
LG = -np.log1p(np.exp(-rand(140, 4, 512) - 2))


def make(bug):
    def bias(q_len, k_len):
        c = np.cumsum(LG[:, :k_len], -1)
        if bug:
            c = np.concatenate([np.zeros((4, 1)), c[:, :-1]], -1)
        return c[:, k_len - q_len:k_len, None] - c[:, None, :]
    return bias


case("f138", make, ForgettingBias(LG), "bias",
     "The cumulative sums are exclusive: the bias contains the gates j .. i-1 instead of j+1 .. i (the key's gate, not the query's).",
     "gates-exclusive", "Use inclusive cumulative sums.")


# -- f139: Swin: offsets key minus query ----------------------------------------------------------------------------------------------------------------------------------------
def coords(h, w):
    return np.divmod(np.arange(h * w), w)


def make(bug):
    h, w = 4, 6
    t = rand(141, 7 * 11, 3).astype(np.float32)

    def bias(q_len=24, k_len=24):
        y, x = coords(h, w)
        dy, dx = y[:, None] - y, x[:, None] - x
        if bug:
            dx = -dx
        row = (dy + h - 1) * (2 * w - 1) + dx + w - 1
        return t[row].transpose(2, 0, 1)[:, k_len - q_len:k_len, :k_len]
    bias.table = t
    return bias


case("f139", make, SwinBias(make(False).table, window=(4, 6)), "bias",
     "The column offset is key minus query (mirrored) while the row offset is query minus key.", "dx-mirrored",
     "Use query minus key on both axes.")


# -- f140: BEiT: rows of [CLS] -----------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    h, w = 3, 5
    n = 5 * 9 + 3
    t = rand(142, n, 4).astype(np.float32)

    def bias(q_len=16, k_len=16):
        y, x = coords(h, w)
        row = np.zeros((16, 16), int)
        row[1:, 1:] = (y[:, None] - y + h - 1) * (2 * w - 1) + x[:, None] - x + w - 1
        row[0, :], row[:, 0] = (n - 2, n - 3) if bug else (n - 3, n - 2)
        row[0, 0] = n - 1
        return t[row].transpose(2, 0, 1)[:, k_len - q_len:k_len, :k_len]
    bias.table = t
    return bias


case("f140", make, BEiTBias(make(False).table, window=(3, 5)), "bias",
     "The rows n-3 and n-2 are exchanged: the bias from [CLS] to patches is taken for that from patches to [CLS].", "cls-rows",
     "b(0, j) is row n - 3, b(i, 0) row n - 2.")


# -- f141: LeViT: factor of the row ---------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    h, w = 4, 7
    t = rand(143, h * w, 2)

    def bias(q_len=28, k_len=28):
        seen, index = {}, np.empty((28, 28), int)
        pts = [(a, b) for a in range(h) for b in range(w)]
        for i, p in enumerate(pts):
            for j, q in enumerate(pts):
                o = (abs(p[0] - q[0]), abs(p[1] - q[1]))
                index[i, j] = (o[0] * h + o[1]) % (h * w) if bug else seen.setdefault(o, len(seen))
        return t[index].transpose(2, 0, 1)[:, k_len - q_len:k_len, :k_len]
    bias.table = t
    return bias


case("f141", make, LeViTBias(make(False).table, window=(4, 7)), "bias",
     "The row of the table is |dy| h + |dx| instead of |dy| w + |dx|: in the 4 x 7 window different offsets share a row.",
     "levit-stride", "Multiply |dy| by the width.")


# -- f142: Swin v2 without the pretrained window -----------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    w1, b1, w2 = rand(144, 12, 2), rand(145, 12), rand(146, 3, 12) * 0.5

    def bias(q_len=48, k_len=48):
        y, x = coords(6, 8)
        d = np.stack([(y[:, None] - y) / (5 if bug else 3), (x[:, None] - x) / (7 if bug else 3)], -1) * 8.0
        s = np.sign(d) * np.log2(np.abs(d) + 1) / 3
        f = np.maximum(s @ w1.T + b1, 0) @ w2.T
        return (16 / (1 + np.exp(-f))).transpose(2, 0, 1)[:, k_len - q_len:k_len, :k_len]
    bias.net = (w1, b1, w2)
    return bias


case("f142", make, LogCPB(*make(False).net, window=(6, 8), pretrained_window=(4, 4)), "bias",
     "Offsets are divided by the size of the present window minus 1 (5 and 7) instead of the pretrained one's (3).",
     "pretrained-window", "Divide by pretrained_window - 1.")


# -- f143: ConViT: x and y -------------------------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    w, b, g = rand(147, 4, 3), rand(148, 4), rand(149, 4)

    def bias(q_len=24, k_len=24):
        y, x = coords(4, 6)
        dx, dy = x - x[:, None], y - y[:, None]
        f = np.stack([dy, dx, dx ** 2 + dy ** 2] if bug else [dx, dy, dx ** 2 + dy ** 2], -1)
        return (f @ w.T + b).transpose(2, 0, 1)[:, k_len - q_len:k_len, :k_len]
    bias.parts = (w, b, g)
    return bias


case("f143", make, ConViTBias(*make(False).parts, window=(4, 6)), "bias",
     "The first weight multiplies dy and the second dx (exchanged); the squared distance is right.", "dx-dy", "Use (dx, dy, dx^2+dy^2).")


# -- f144: dynamic bias: log without sign ------------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    ws = (rand(150, 8, 1), rand(151, 8, 8) * 0.4, rand(152, 4, 8))
    bs = (rand(153, 8), rand(154, 8), rand(155, 4))

    def bias(q_len, k_len):
        d = offsets(q_len, k_len).astype(np.float64)
        x = np.log1p(np.abs(d)) * (1 if bug else np.sign(d))
        x = x[..., None]
        for n, (w, b) in enumerate(zip(ws, bs)):
            x = x @ w.T + b
            if n < 2:
                x = x / (1 + np.exp(-x))
        return x.transpose(2, 0, 1)
    bias.parts = ws, bs
    return bias


case("f144", make, DynamicBias(*make(False).parts, log_distance=True), "bias",
     "The network's input is log(1 + |i-j|) without the sign of the offset: keys after the query get the bias of keys before it.",
     "log-sign", "Multiply by sign(i - j).")


# -- f145: relative index of a window that is not square --------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def index(size):
        h, w = size
        y, x = coords(h, w)
        return (y[:, None] - y + h - 1) * (2 * min(h, w) - 1 if bug else 2 * w - 1) + (x[:, None] - x + w - 1)
    return index


case("f145", make, None, "relative_index",
     "The factor of the row offset is 2 min(h, w) - 1: in windows wider than high different offsets share an index.", "index-stride",
     "Use 2w - 1.")


# -- f146: relative shift drops the last row ------------------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def shift(x):
        q, k = x.shape
        padded = np.concatenate([np.zeros((q, 1), x.dtype), x], 1).reshape(k + 1, q)
        return (padded[:-1] if bug else padded[1:]).reshape(q, k)
    return shift


case("f146", make, None, "relative_shift",
     "After the reshape to (K+1, Q) the last row is dropped instead of the first, so every score is shifted by Q places.",
     "shift-drop", "Drop the first row.")


# -- f147: relative scores: last query ----------------------------------------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def rel_scores(q, rel):
        s = q.shape[0]
        full = q @ rel.T                              # (S, 2S-1), column m: offset S-1-m
        out = np.empty((s, s), q.dtype)
        for i in range(s):
            start = s - 1 - i
            out[i] = full[i, start + (1 if bug and 0 < i < s - 1 else 0):][:s]
        return out
    return rel_scores


case("f147", make, None, "relative_scores",
     "For all queries but the first and the last the row of rel is one too far (offset i - j - 1 instead of i - j).", "rel-off-by-one",
     "Start at column S - 1 - i.")


# -- f148 right: T5 by thresholds -----------------------------------------------------------------------------------------------------------------------------------------------------------------------------
def by_search(q_len, k_len):
    starts = np.array([1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91])
    r = -offsets(q_len, k_len)
    b = np.searchsorted(starts, np.abs(r), side="right") + 16 * (r > 0)
    return np.take(T.T, b, axis=1)


case("f148", by_search, T5Bias(T), "bias", "Right: the buckets are found by binary search in a list of their first distances.",
     right=True)
