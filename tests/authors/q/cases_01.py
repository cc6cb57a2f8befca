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


# ---------------------------------------------------------------- Transformer-XL and its relatives
H, D, W = 3, 16, 24
PROJ, U, V = arr(1, H, D, W, scale=0.3), arr(2, H, D), arr(3, H, D)


def waves(p, width=W, interleaved=False):
    """Rows R(p) in float64."""
    ang = np.asarray(p, np.float64)[..., None] * 10000.0 ** (-np.arange(width // 2) * 2.0 / width)
    if interleaved:
        out = np.empty(ang.shape[:-1] + (width,))
        out[..., 0::2], out[..., 1::2] = np.sin(ang), np.cos(ang)
        return out
    return np.concatenate([np.sin(ang), np.cos(ang)], axis=-1)


XL = P.TransformerXL(PROJ, U, V, sinusoid=P.Sinusoidal(W, layout="concat"))
XLI = P.TransformerXL(PROJ, U, V, sinusoid=P.Sinusoidal(W))
XL_CLAMP = P.TransformerXL(PROJ, U, V, sinusoid=P.Sinusoidal(W, layout="concat"), clamp=5)


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        first = (Q if bug else K) - 1          # distance of the first column
        q64, k64 = q.astype(np.float64), k.astype(np.float64)
        r = waves(np.arange(first, first - (K + Q - 1), -1.0))
        rk = np.einsum("hdw,mw->hmd", PROJ, r)
        ac = np.einsum("bhqd,bhkd->bhqk", q64 + U[:, None], k64)
        bd = np.einsum("bhqd,hmd->bhqm", q64 + V[:, None], rk)
        out = np.empty_like(ac)
        for i in range(Q):                     # row i starts Q-1-i columns further right
            out[..., i, :] = ac[..., i, :] + bd[..., i, Q - 1 - i : Q - 1 - i + K]
        return (out * D ** -0.5).astype(q.dtype)
    return scores
case("q001", make, XL, "scores", "The table of distances starts at Q - 1 instead of K - 1: with more keys than "
     "queries (memory, cache) every distance is too small by K - Q.", "distances-from-queries", "start the distances at K - 1")


def make(bug):
    class RelAttention:
        def __init__(self):
            self.w = PROJ.reshape(H * D, W)
            self.r_w_bias, self.r_r_bias = (V, U) if bug else (U, V)
        def __call__(self, q, k):
            Q, K = q.shape[2], k.shape[2]
            i, j = np.arange(K - Q, K)[:, None], np.arange(K)[None]
            rel = (waves(i - j) @ self.w.T).reshape(Q, K, H, D)
            rw = q.astype(float) + self.r_w_bias[None, :, None]
            rr = q.astype(float) + self.r_r_bias[None, :, None]
            s = rw @ np.swapaxes(k.astype(float), -1, -2) + np.einsum("bhqd,qkhd->bhqk", rr, rel)
            return (s / math.sqrt(D)).astype(q.dtype)
    return RelAttention()
case("q002", make, XL, "scores", "The two biases are exchanged: v (position bias) is added to the query of the "
     "content product and u (content bias) to that of the position product.", "biases-exchanged", "u goes with the keys, v with W R")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        dist = np.subtract.outer(np.arange(K - Q, K), np.arange(K))
        dist = np.minimum(dist, 5) if bug else np.clip(dist, -5, 5)
        rel = np.tensordot(waves(dist), PROJ, axes=([2], [2]))         # Q K H d
        q64 = np.asarray(q, np.float64)
        ac = np.matmul(q64 + U[:, None, :], np.asarray(k, np.float64).swapaxes(-1, -2))
        bd = np.einsum("bhqd,qkhd->bhqk", q64 + V[:, None, :], rel)
        return ((ac + bd) * (1 / np.sqrt(D))).astype(q.dtype)
    return scores
case("q003", make, XL_CLAMP, "scores", "clamp_len is applied with min only: distances above 5 are clipped, negative "
     "ones (keys after the query) below -5 are not.", "clamp-one-side", "clip to -5 .. 5")


def make(bug):
    scale = D ** -0.5
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        at = np.arange(K - Q, K)[:, None] - np.arange(K)
        wr = np.einsum("hdw,qkw->hqkd", PROJ, waves(at))
        vr = np.einsum("hd,hqkd->hqk", V, wr)                          # does not depend on q: made once
        x = np.asarray(q, float)
        s = np.einsum("bhqd,bhkd->bhqk", x + U[:, None], np.asarray(k, float)) + np.einsum("bhqd,hqkd->bhqk", x, wr)
        s = s * scale + vr if bug else (s + vr) * scale
        return s.astype(q.dtype)
    return scores
case("q004", make, XL, "scores", "The term v . W R, taken out of the product because it has no query, is added after "
     "the division by sqrt(d).", "position-position-unscaled", "scale this term like the others")


def make(bug):
    def table(n):                                                        # rows n-1 .. -(n-1), as in Conformer
        pos = np.arange(n, dtype=np.float64)
        plus = waves(pos, interleaved=True)
        minus = plus.copy() if bug else waves(-pos, interleaved=True)
        return np.concatenate([plus[::-1], minus[1:]])
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        p = np.einsum("mw,hdw->hmd", table(K), PROJ)
        bd = np.einsum("bhqd,hmd->bhqm", q.astype(np.float64) + V[:, None], p)
        index = K - 1 - (np.arange(K - Q, K)[:, None] - np.arange(K))
        bd = np.take_along_axis(bd, np.broadcast_to(index, bd.shape[:-1] + (K,)), axis=-1)
        ac = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64) + U[:, None], k.astype(np.float64))
        return ((ac + bd) / D ** 0.5).astype(q.dtype)
    return scores
case("q005", make, XLI, "scores", "The rows of negative distances are copies of those of the positive ones: their sines "
     "lack the minus, so keys after the query get the score of the mirrored key.", "negative-half-mirrored",
     "compute the negative half with sin(-x)")


def make(bug):
    class Table:
        def __init__(self):
            self.n, self.rows = 0, None
        def get(self, n):
            if n > self.n:
                self.n, self.rows = n, waves(np.arange(n - 1, -n, -1.0), interleaved=True)
            if bug:
                return self.rows[: 2 * n - 1]
            return self.rows[self.n - n : self.n + n - 1]
    held = Table()
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        rows = held.get(K)
        x = q.astype(np.float64)
        out = np.einsum("bhqd,bhkd->bhqk", x + U[:, None], k.astype(np.float64))
        by = np.einsum("bhqd,hdw,mw->bhqm", x + V[:, None], PROJ, rows, optimize=True)
        for a in range(Q):
            i = K - Q + a
            out[:, :, a] += by[:, :, a, K - 1 - i : 2 * K - 1 - i]
        return (out * 0.25).astype(q.dtype)
    return scores
case("q006", make, XLI, "scores", "The kept table of 2 n - 1 rows is cut from its first row when a later call is "
     "shorter, not around its centre, so all distances of the shorter call are too large.", "kept-table-cut-from-start",
     "cut the rows around distance 0")


XN = P.XLNet(PROJ, U, V, sinusoid=P.Sinusoidal(W, layout="concat"))


def make(bug):
    wt = PROJ.reshape(H * D, W).T.copy()
    def heads(x):
        if bug:
            return x.reshape(*x.shape[:-1], D, H).swapaxes(-1, -2)
        return x.reshape(*x.shape[:-1], H, D)
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        pos = np.arange(K, -Q, -1.0)                                    # XLNet: from K down to 1 - Q
        r = heads(waves(pos) @ wt)                                       # m H d
        x = q.astype(np.float64)
        ac = np.einsum("bhid,bhjd->bhij", x + U[:, None], k.astype(np.float64))
        bd = np.einsum("bhid,mhd->bhim", x + V[:, None], r)
        b, h, i, m = bd.shape
        bd = bd.reshape(b, h, m, i)[:, :, 1:, :].reshape(b, h, i, m - 1)[..., :K]
        return ((ac + bd) / math.sqrt(D)).astype(q.dtype)
    return scores
case("q007", make, XN, "scores", "The projected distances (H d numbers per row) are reshaped to (d, H) and transposed, "
     "so each head gets channels of all heads.", "projection-head-order", "reshape to (H, d)")


EL = P.ESPnetLegacy(PROJ, U, V, sinusoid=P.Sinusoidal(W), max_len=20)


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        L = max(20, K)
        x = q.astype(np.float64)
        qv = x + V[:, None]
        ac = np.einsum("bhqd,bhkd->bhqk", x + U[:, None], k.astype(np.float64))
        bd = np.zeros_like(ac)
        for a in range(Q):
            i = K - Q + a
            for j in range(K):
                if j == i + 1:
                    continue
                if j <= i:
                    row, who = L - K + i - j, qv[:, :, a]
                else:
                    row = L + 1 + i - j
                    who = qv[:, :, a if bug else a + 1] if a + 1 < Q else V[None] + 0 * qv[:, :, a]
                bd[:, :, a, j] = np.einsum("bhd,hdw,w->bh", who, PROJ, waves(row, interleaved=True))
        return ((ac + bd) / 4.0).astype(q.dtype)
    return scores
case("q008", make, EL, "scores", "Legacy shift without the reshape: keys after the query are given the own query instead "
     "of the next row's, which the reshape takes.", "legacy-next-query", "use the query of the next row for j > i + 1")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        L = 20 if bug else max(20, K)
        x = q.astype(np.float64)
        d = np.arange(K - Q, K)[:, None] - np.arange(K)
        rows = waves(np.where(d >= 0, d + L - K, d + L + 1), interleaved=True)
        nxt = np.concatenate([x[:, :, 1:], np.zeros_like(x[:, :, :1])], axis=2)
        own = np.einsum("bhqd,hdw,qkw->bhqk", x + V[:, None], PROJ, rows, optimize=True)
        foll = np.einsum("bhqd,hdw,qkw->bhqk", nxt + V[:, None], PROJ, rows, optimize=True)
        bd = np.where(d >= 0, own, np.where(d < -1, foll, 0.0))
        ac = (x + U[:, None]) @ k.astype(np.float64).swapaxes(-1, -2)
        return ((ac + bd) * D ** -0.5).astype(q.dtype)
    return scores
case("q009", make, EL, "scores", "The table always counts from max_len = 20; an utterance of more than 20 tokens should "
     "enlarge it, so its distances are too small.", "legacy-length-not-grown", "use max(max_len, K)")


# ---------------------------------------------------------------- Shaw
SH = P.Shaw(arr(11, 9, D), before=4)


def make(bug):
    keys = np.asarray(SH.keys)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        r = np.arange(K)[None, :] - np.arange(K - Q, K)[:, None]
        row = np.clip(r, -4, 3 if bug else 4) + 4
        a = keys[row]
        s = np.einsum("bhqd,bhkd->bhqk", q, k, dtype=np.float64) + np.einsum("bhqd,qkd->bhqk", q.astype(float), a)
        return (s / np.sqrt(q.shape[-1])).astype(q.dtype)
    return scores
case("q010", make, SH, "scores", "Offsets are clipped to -4 .. 3 as if the upper end were exclusive: row 8 of the table is "
     "never used.", "last-row-unused", "clip to -4 .. 4")


SHH = P.Shaw(arr(12, 4, 10, D), before=6)


def make(bug):
    tab = np.asarray(SHH.keys)
    def scores(q, k):
        B, h, Q, d = q.shape
        K = k.shape[2]
        out = np.empty((B, h, Q, K))
        for b in range(B):
            for n in range(h):
                by_row = q[b, n].astype(float) @ (tab[b % 4] if bug else tab[n]).T
                for i in range(Q):
                    row = np.clip(np.arange(K) - (K - Q + i), -6, 3) + 6
                    out[b, n, i] = q[b, n, i].astype(float) @ k[b, n].T.astype(float) + by_row[i, row]
        return (out / d ** 0.5).astype(q.dtype)
    return scores
case("q011", make, SHH, "scores", "The table of a head is taken by the number of the batch row instead of the head.",
     "table-by-batch", "index the tables by the head")


SHQ = P.Shaw(arr(13, 8, D), before=4, counted="query-key")


def make(bug):
    table = np.asarray(SHQ.keys)[::-1].copy() if bug else np.asarray(SHQ.keys)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        r = np.arange(K) - np.arange(K - Q, K)[:, None]
        row = (np.clip(r, -4, 3) if bug else np.clip(-r, -4, 3)) + 4
        by_row = np.einsum("bhqd,rd->bhqr", q.astype(np.float64), table)
        pos = np.take_along_axis(by_row, np.broadcast_to(row, q.shape[:2] + row.shape), -1)
        return ((q.astype(np.float64) @ k.astype(np.float64).swapaxes(2, 3) + pos) * 0.25).astype(q.dtype)
    return scores
case("q012", make, SHQ, "scores", "Query minus key is emulated by reversing the rows of the table; with 8 rows and 4 before "
     "the centre, the reversed table has its centre one row earlier.", "reversed-table-even", "negate the offset instead of the table")


def make(bug):
    table = np.asarray(SH.keys)
    T = 8
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        out = np.zeros(q.shape[:-1] + (K,))
        for t in range(-(-K // T)):
            kt = k[..., t * T : (t + 1) * T, :].astype(np.float64)
            n = kt.shape[-2]
            start = t * n if bug else t * T
            r = start + np.arange(n) - np.arange(K - Q, K)[:, None]
            a = table[np.clip(r, -4, 4) + 4]
            out[..., t * T : t * T + n] = np.einsum("bhqd,bhqkd->bhqk", q.astype(np.float64), kt[:, :, None] + a)
        return (out * D ** -0.5).astype(q.dtype)
    return scores
case("q013", make, SH, "scores", "The first key of a tile of 8 is computed as tile number times the tile's own length, "
     "which is wrong in a shorter last tile.", "last-tile-start", "multiply by the full tile size")


# ---------------------------------------------------------------- DeBERTa
KR, QR = arr(21, H, 32, D), arr(22, H, 32, D)
DB = P.DeBERTa(KR, QR, buckets=16, max_position=64)
DB_C2P = P.DeBERTa(KR, None, buckets=16, max_position=64)
DB1 = P.DeBERTa(KR[:, :12], QR[:, :12])


@functools.lru_cache(None)
def log_bucket(x, mid=8, top=64):
    """b(x), the border decided in integers: n^(mid-1) > mid^(mid-1-t) (top-1)^t."""
    n = abs(x)
    if n <= mid:
        return x
    t = 0
    while t < mid and n ** (mid - 1) > mid ** (mid - 1 - t) * (top - 1) ** t:
        t += 1
    return int(math.copysign(mid + t, x))


def rows_of(d, span, f=lambda x: x):
    b = np.array([[f(int(x)) for x in line] for line in d])
    return np.clip(b + span, 0, 2 * span - 1)


def make(bug):
    n_terms = 3 if bug else 2
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        idx = rows_of(np.arange(K - Q, K)[:, None] - np.arange(K), 16, log_bucket)
        x = q.astype(np.float64)
        c2p = np.take_along_axis(np.einsum("bhqd,hrd->bhqr", x, KR), np.broadcast_to(idx, q.shape[:2] + idx.shape), -1)
        return ((x @ k.astype(np.float64).swapaxes(-1, -2) + c2p) / math.sqrt(n_terms * D)).astype(q.dtype)
    return scores
case("q014", make, DB_C2P, "scores", "The divisor is sqrt(3 d) although the model has only c2p: two terms, sqrt(2 d).",
     "terms-counted", "count the terms that the model has")


def make(bug):
    mid, last = 8, 64 if bug else 63
    def bucket(r):
        n = np.abs(r)
        with np.errstate(divide="ignore"):
            log = np.ceil(np.log(np.maximum(n, 1) / mid) / math.log(last / mid) * (mid - 1) - 1e-12) + mid
        return np.where(n <= mid, r, np.sign(r) * log.astype(int))
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        r = np.arange(K - Q, K)[:, None] - np.arange(K)
        idx = np.clip(bucket(r) + 16, 0, 31)
        x, y = q.astype(np.float64), k.astype(np.float64)
        hh = np.arange(H)[:, None, None]
        c2p = np.einsum("bhqd,hqkd->bhqk", x, KR[hh, idx])
        p2c = np.einsum("bhkd,hqkd->bhqk", y, QR[hh, idx])
        return ((x @ y.swapaxes(-1, -2) + c2p + p2c) / math.sqrt(3 * D)).astype(q.dtype)
    return scores
case("q015", make, DB, "scores", "The logarithmic buckets divide by log(max_position / mid) instead of log((max_position - 1) "
     "/ mid), which moves the borders of some buckets.", "bucket-last", "use max_position - 1")


def make(bug):
    span = 6
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        r = np.arange(K - Q, K)[:, None] - np.arange(K)
        idx = np.clip(r, 1 - span, span - 1) + span if bug else np.clip(r + span, 0, 2 * span - 1)
        x, y = q.astype(np.float64), k.astype(np.float64)
        out = np.einsum("bhqd,bhkd->bhqk", x, y)
        one_hot = (idx[..., None] == np.arange(2 * span)).astype(float)        # Q K rows
        out += np.einsum("bhqd,hrd,qkr->bhqk", x, KR[:, :12], one_hot, optimize=True)
        out += np.einsum("bhkd,hrd,qkr->bhqk", y, QR[:, :12], one_hot, optimize=True)
        return (out * (3 * D) ** -0.5).astype(q.dtype)
    return scores
case("q016", make, DB1, "scores", "Offsets are clipped symmetrically to 1 - span .. span - 1, so offsets of -span and below "
     "use row 1; row 0 is never used.", "row-zero-unused", "clip the row to 0 .. 2 span - 1")


DB2 = P.DeBERTa(KR[:, :12], QR[:, :12] * 1.5, p2c="paper")


def make(bug):
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        i, j = np.arange(K - Q, K), np.arange(K)
        r_ij = np.clip(i[:, None] - j + 6, 0, 11)
        r_ji = np.clip(11 - r_ij, 0, 11) if bug else np.clip(j - i[:, None] + 6, 0, 11)
        x, y = q.astype(np.float64), k.astype(np.float64)
        c2p = np.stack([np.einsum("bhd,hkd->bhk", x[:, :, a], KR[:, :12][:, r_ij[a]]) for a in range(Q)], 2)
        p2c = np.stack([np.einsum("bhkd,hkd->bhk", y, QR[:, r_ji[a]] * 1.5) for a in range(Q)], 2)
        return ((x @ y.swapaxes(-1, -2) + c2p + p2c) / math.sqrt(3 * D)).astype(q.dtype)
    return scores
case("q017", make, DB2, "scores", "The row of the opposite offset is taken as 2 span - 1 - r: the rows are not symmetric "
     "(offset 0 has row span), so every p2c row is one too small.", "opposite-row", "clip(j - i + span, 0, 2 span - 1)")


# right ones
def make(bug):
    kr = np.asarray(DB8.relative_keys)
    qr = np.asarray(DB8.relative_queries)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        r = np.arange(K - Q, K)[:, None] - np.arange(K)
        idx = np.clip(r + 128, 0, 255).astype(np.int8)                    # wraps to -128 .. 127
        x, y = q.astype(np.float64), k.astype(np.float64)
        s = x @ y.swapaxes(-1, -2)
        s += np.einsum("bhqd,hqkd->bhqk", x, kr[:, idx]) + np.einsum("bhkd,hqkd->bhqk", y, qr[:, idx])
        return (s / math.sqrt(3 * 8)).astype(q.dtype)
    return scores
DB8 = P.DeBERTa(arr(23, 2, 256, 8), arr(24, 2, 256, 8))
case("q018", make, DB8, "scores", "Rows are stored as int8 and wrap round to negative numbers; with exactly 256 rows NumPy's "
     "negative index is the same row.", "right")


def make(bug):
    wt = np.swapaxes(PROJ, 1, 2)                                            # H D d
    om = 10000.0 ** (-np.arange(W // 2) * 2.0 / W)
    def scores(q, k):
        # sin(i - j) and cos(i - j) by the addition theorem: two matrix products, no table of offsets
        Q, K = q.shape[-2], k.shape[-2]
        i, j = np.arange(K - Q, K)[:, None] * om, np.arange(K)[:, None] * om
        x = q.astype(np.float64)
        y = np.einsum("bhqd,hdw->bhqw", x + V[:, None], PROJ)
        ys, yc = y[..., : W // 2], y[..., W // 2 :]
        left = np.concatenate([ys * np.sin(i) + yc * np.cos(i), yc * np.sin(i) - ys * np.cos(i)], -1)
        right = np.concatenate([np.cos(j), np.sin(j)], -1)
        ac = (x + U[:, None]) @ k.astype(np.float64).swapaxes(-1, -2)
        return ((ac + left @ right.T) / math.sqrt(D)).astype(q.dtype)
    return scores
case("q019", make, XL, "scores", "Relative sinusoids without any table of offsets: the addition theorem splits R(i - j) into "
     "factors of i and j.", "right")


def make(bug):
    table = np.asarray(SH.keys)
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        x = q.astype(np.float64)
        by_row = x @ table.T
        wide = np.repeat(by_row[..., :1], K, -1), by_row, np.repeat(by_row[..., -1:], K, -1)
        wide = np.concatenate(wide, -1)                                     # column c: offset c - K - 4
        pos = np.stack([wide[..., a, K + 4 - (K - Q + a) : 2 * K + 4 - (K - Q + a)] for a in range(Q)], -2)
        return ((x @ k.astype(np.float64).swapaxes(-1, -2) + pos) / math.sqrt(D)).astype(q.dtype)
    return scores
case("q020", make, SH, "scores", "The clip is replaced by repeating the first and the last column K times and cutting a "
     "window of K columns for each query.", "right")
