"""T5 buckets and biases, DeBERTa, Shaw, gated bias, relative index / shift / scores."""

import math

import numpy as np

from posenc_ref import DeBERTa, GatedBias, Shaw, T5Bias

CASES = []


def case(id, fn, encoding, surface, cause, key, remedy="", mended=None, right=False, settings=None):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings or {},
            right=right,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


rng = np.random.default_rng(5)
TABLE = rng.standard_normal((32, 6))
T5_ENC = T5Bias(TABLE)
T5_DEC = T5Bias(TABLE, bidirectional=False)
WIDE = rng.standard_normal((320, 4))
WAVLM = T5Bias(WIDE, num_buckets=320, max_distance=800)


def starts(nb, max_distance):
    """Smallest distance of buckets 1 .. nb-1, compared in integers."""
    me = nb // 2
    found = list(range(1, me))
    n = me
    for t in range(0, nb - me):
        while n ** (nb - me) * me**t < max_distance**t * me ** (nb - me):
            n += 1
        found.append(n)
    return np.array(found)


def bucket_of(r, nb_all=32, md=128, bi=True, *, bug=None):
    """Buckets by searching the thresholds; ``bug`` switches single lines."""
    r = np.asarray(r).astype(np.int64)
    nb = nb_all // 2 if bi else nb_all
    if bi:
        n = np.abs(r)
        high = (r >= 0) if bug == "at-zero" else (r > 0)
        offset = np.where(high, nb, 0)
    else:
        n = np.abs(r) if bug == "future" else np.maximum(-r, 0)
        offset = 0
    return np.searchsorted(starts(nb, md), n, side="right") + offset


def hf_bucket(variant, nb_all=32, md=128, bi=True):
    """The usual logarithm, in float64 with a nudge against rounding below an integer."""

    def bucket(relative_position):
        r = np.asarray(relative_position).astype(np.int64)
        nb = nb_all // 2 if bi else nb_all
        n = np.abs(r) if bi else np.maximum(-r, 0)
        me = nb // 2
        base = nb if variant == "denominator" else me
        x = np.log(np.maximum(n, 1) / me) / np.log(md / base) * (nb - me)
        if variant == "half":
            f = np.float16
            x = (
                np.log(np.maximum(n, 1).astype(f) / f(me)) / f(math.log(md / me)) * f(nb - me)
            ).astype(np.float64)
        step = (
            np.round(x) if variant == "round" else np.floor(x + (0 if variant == "half" else 1e-9))
        )
        last = nb_all - 1 if variant == "clamp" else nb - 1
        big = np.minimum(me + step, last)
        out = np.where(n < me, n, big).astype(np.int64)
        return out + (nb * (r > 0) if bi else 0)

    return bucket


case(
    "b030",
    hf_bucket("round"),
    T5_ENC,
    "bucket",
    "The logarithmic bucket is rounded to nearest instead of being rounded down, so about the upper half of each "
    "range (from distance 10 on) falls into the next bucket.",
    "round-for-floor",
    "floor",
    hf_bucket("ok"),
)
case(
    "b031",
    hf_bucket("denominator"),
    T5_ENC,
    "bucket",
    "The logarithm is normalised by log(max_distance / num_buckets-per-direction) instead of "
    "log(max_distance / max_exact), so log buckets grow too fast.",
    "log-normaliser",
    "divide by log(max_distance / max_exact)",
    hf_bucket("ok"),
)
case(
    "b032",
    lambda relative_position: bucket_of(relative_position, bi=False, bug="future"),
    T5_DEC,
    "bucket",
    "In the causal form keys after the query get the bucket of their absolute distance instead of bucket 0.",
    "future-clamp-missing",
    "n = max(-r, 0)",
    lambda relative_position: bucket_of(relative_position, bi=False),
)
case(
    "b033",
    lambda relative_position: bucket_of(relative_position, bug="at-zero"),
    T5_ENC,
    "bucket",
    "The half for later keys is chosen with r >= 0 instead of r > 0: only the query's own position goes to bucket 16 "
    "instead of 0.",
    "own-position-side",
    "use > 0",
    lambda relative_position: bucket_of(relative_position),
)
case(
    "b034",
    hf_bucket("clamp"),
    T5_ENC,
    "bucket",
    "Large distances are clamped to num_buckets - 1 = 31 before the direction is added, not to 15, so beyond "
    "distance 128 earlier keys take buckets of later keys and later keys exceed the table.",
    "clamp-all-buckets",
    "clamp to nb - 1 of one direction",
    hf_bucket("ok"),
)
case(
    "b035",
    hf_bucket("half", 320, 800),
    WAVLM,
    "bucket",
    "The logarithm is evaluated in float16, so some distances above 80 fall into a neighbouring one of WavLM's 80 "
    "log buckets.",
    "half-precision-log",
    "evaluate in float32 or in integers",
    hf_bucket("ok", 320, 800),
)
case(
    "b036",
    lambda relative_position: bucket_of(relative_position, 320, 800),
    WAVLM,
    "bucket",
    "Right: buckets by a search in a list of integer thresholds, no logarithm at run time.",
    "right",
    right=True,
)


# ---------------------------------------------------------------- T5 bias
def t5_bias(mode, table=TABLE, bi=True):
    def bias(q_len, k_len):
        q, k = np.arange(k_len - q_len, k_len), np.arange(k_len)
        if mode == "one" and q_len == 1:
            q = np.array([k_len])
        b = bucket_of(k[None] - q[:, None], bi=bi)
        if mode == "reshape":
            return table.reshape(table.shape[1], -1)[:, b]
        return np.moveaxis(table[b], -1, 0)

    return bias


case(
    "b037",
    t5_bias("one", bi=False),
    T5_DEC,
    "bias",
    "In a one-token step the query's position is taken as k_len (the length) instead of k_len - 1, so all distances "
    "are one too large.",
    "single-query-off-by-one",
    "query position k_len - 1",
    t5_bias("ok", bi=False),
)
case(
    "b038",
    t5_bias("reshape"),
    T5_ENC,
    "bias",
    "The embedding (buckets, heads) is reshaped to (heads, buckets) instead of being transposed, so numbers of "
    "buckets and heads are mixed.",
    "reshape-for-transpose",
    "table.T",
    t5_bias("ok"),
)


def t5_strided(q_len, k_len):
    row = TABLE[bucket_of(np.arange(1 - k_len, q_len))].T.copy()  # offsets r = 1-k_len .. q_len-1
    # entry (i, j): r = j - (k_len - q_len + i)
    out = np.lib.stride_tricks.sliding_window_view(row, k_len, axis=-1)[:, ::-1]
    return np.ascontiguousarray(out[:, :q_len])


case(
    "b039",
    t5_strided,
    T5_ENC,
    "bias",
    "Right: one row of offsets for each head, seen through a reversed sliding window (a Toeplitz view).",
    "right",
    right=True,
)

LAYOUTLM = T5Bias(TABLE, scaled=True)


def t5_scores(mode):
    def logits(q, k):
        Q, K, d = q.shape[2], k.shape[2], q.shape[3]
        b = t5_bias("ok")(Q, K).astype(q.dtype)
        dot = q @ k.transpose(0, 1, 3, 2)
        s = q.dtype.type(1 / math.sqrt(d))
        return (dot + b) * s if mode == "inside" else dot * s + b

    return logits


case(
    "b040",
    t5_scores("inside"),
    LAYOUTLM,
    "scores",
    "The bias is divided by sqrt(d) together with q.k (LayoutLMv3's way) although MPNet adds it after the "
    "division.",
    "bias-scale-side",
    "divide q.k alone",
    t5_scores("outside"),
)

# ---------------------------------------------------------------- DeBERTa
KR, QR = rng.standard_normal((2, 3, 64, 16))
V3 = DeBERTa(KR, QR, buckets=32, max_position=128)
K1, Q1 = rng.standard_normal((2, 3, 24, 16))
V1 = DeBERTa(K1, Q1)


def log_bucket(x, mode):
    mid, most = 16, 128
    sign, a = np.sign(x), np.abs(x)
    inner = np.where(a <= mid, mid, a).astype(np.float64)
    top = most if mode == "most" else most - 1
    v = np.log(inner / mid) / np.log(top / mid) * (mid - 1)
    v = np.floor(v + 1e-9) if mode == "floor" else np.ceil(v - 1e-9)
    return np.where(a <= mid, x, sign * (mid + v)).astype(np.int64)


def deberta(mode):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        r = np.arange(K - Q, K)[:, None] - np.arange(K)
        row = np.clip(log_bucket(r, mode) + 32, 0, 63)
        c2p = np.take_along_axis(np.einsum("bhid,hmd->bhim", q, KR), row[None, None], axis=-1)
        p2c = np.take_along_axis(np.einsum("bhjd,hmd->bhjm", k, QR), row.T[None, None], axis=-1)
        n = 2 if mode == "two" else 3
        return (
            (q @ np.swapaxes(k, -1, -2) + c2p + np.swapaxes(p2c, -1, -2)) / math.sqrt(n * 16)
        ).astype(q.dtype)

    return logits


case(
    "b041",
    deberta("floor"),
    V3,
    "scores",
    "The logarithmic bucket is rounded down instead of up (floor for ceil), so offsets beyond 16 mostly use the "
    "row one nearer.",
    "floor-for-ceil",
    "ceil",
    deberta("ok"),
)
case(
    "b042",
    deberta("two"),
    V3,
    "scores",
    "The scale is 1/sqrt(2d) although three terms are summed (c2c, c2p and p2c): it must be 1/sqrt(3d).",
    "scale-term-count",
    "count both relative terms",
    deberta("ok"),
)
case(
    "b043",
    deberta("most"),
    V3,
    "scores",
    "The bucket's logarithm is normalised by max_position / mid instead of (max_position - 1) / mid, so bucket "
    "boundaries for some larger offsets move by one.",
    "log-max-position",
    "use max_position - 1",
    deberta("ok"),
)


def deberta_v1(mode):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        out = np.einsum("bhid,bhjd->bhij", q, k).astype(np.float64)
        for i in range(Q):
            for j in range(K):
                r = (K - Q + i) - j + 12
                r = r % 24 if mode == "wrap" else min(max(r, 0), 23)
                out[:, :, i, j] += np.einsum("bhd,hd->bh", q[:, :, i], K1[:, r])
                out[:, :, i, j] += np.einsum("bhd,hd->bh", k[:, :, j], Q1[:, r])
        return (out / math.sqrt(48)).astype(q.dtype)

    return logits


case(
    "b044",
    deberta_v1("wrap"),
    V1,
    "scores",
    "Offsets beyond the table's span (12) wrap around to the other end (index modulo the number of rows) instead of "
    "being clipped to the first or last row.",
    "wrap-for-clip",
    "clip the row",
    deberta_v1("clip"),
)

# ---------------------------------------------------------------- Shaw
REL = rng.standard_normal((17, 16))
SHAW = Shaw(REL, before=8)
PER_HEAD = rng.standard_normal((4, 9, 16))
MUSIC = Shaw(PER_HEAD, before=8)


def shaw(mode):
    def logits(q, k):
        Q, K, d = q.shape[2], k.shape[2], q.shape[3]
        r = np.arange(K) - np.arange(K - Q, K)[:, None]
        row = np.clip(r, -8, 7 if mode == "short" else 8) + 8
        pos = np.take_along_axis(
            q @ REL.T.astype(q.dtype), np.broadcast_to(row, (*q.shape[:2], Q, K)), axis=-1
        )
        dot, s = q @ np.swapaxes(k, -1, -2), q.dtype.type(d**-0.5)
        return dot * s + pos if mode == "unscaled" else (dot + pos) * s

    return logits


case(
    "b045",
    shaw("short"),
    SHAW,
    "scores",
    "The offset is clipped to -K .. K-1 instead of -K .. K, so keys 8 or more places after the query use the row of "
    "7 and the last row is never read.",
    "clip-one-short",
    "clip to K",
    shaw("ok"),
)
case(
    "b046",
    shaw("unscaled"),
    SHAW,
    "scores",
    "The relative term q.a is added after the division, so it lacks the factor 1/sqrt(d).",
    "relative-term-unscaled",
    "scale the sum",
    shaw("ok"),
)


def music(shared):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        row = np.clip(np.arange(K) - np.arange(K - Q, K)[:, None], -8, 0) + 8
        out = q @ np.swapaxes(k, -1, -2)
        for h in range(4):
            a = PER_HEAD[h // 2 if shared else h][row].astype(q.dtype)
            out[:, h] += np.einsum("bid,ijd->bij", q[:, h], a)
        return out / q.dtype.type(4)

    return logits


case(
    "b047",
    music(True),
    MUSIC,
    "scores",
    "Head h reads the relative table of head h // 2, as if two query heads shared one, so heads 1, 2 and 3 have the "
    "table of another head.",
    "head-grouping",
    "index the table by the query head",
    music(False),
)


def shaw_onehot(q, k):
    Q, K = q.shape[2], k.shape[2]
    row = np.clip(np.arange(K)[None] - np.arange(K - Q, K)[:, None], -8, 8) + 8
    hot = np.eye(17)[row]
    keys = np.einsum("ijm,md->ijd", hot, REL)
    full = k[:, :, None].astype(np.float64) + keys
    return (np.einsum("bhid,bhijd->bhij", q.astype(np.float64), full) / 4).astype(q.dtype)


case(
    "b048",
    shaw_onehot,
    SHAW,
    "scores",
    "Right: the relative vectors are gathered by a one-hot product and added to the keys before the product.",
    "right",
    right=True,
)

# ---------------------------------------------------------------- WavLM
GB_TABLE = rng.standard_normal((32, 4))
GW, GC, GS = (
    rng.standard_normal((2, 16)) / 2,
    rng.standard_normal(2),
    1 + rng.standard_normal(4) / 4,
)
GATED = GatedBias(T5Bias(GB_TABLE), GW, GC, GS)


def wavlm(mode):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        b = np.moveaxis(
            GB_TABLE[bucket_of(np.arange(K)[None] - np.arange(K - Q, K)[:, None])], -1, 0
        )
        z = 1 / (1 + np.exp(-(q.astype(np.float64) @ GW.T + GC)))
        a, r = z[..., 0], z[..., 1]
        if mode == "exchanged":
            a, r = r, a
        s = GS[:, None]
        g = 2 + a * s * (r - 1) if mode == "factored" else 2 + a * (s * r - 1)
        return ((q @ np.swapaxes(k, -1, -2)).astype(np.float64) / 4 + g[..., None] * b).astype(
            q.dtype
        )

    return logits


case(
    "b049",
    wavlm("exchanged"),
    GATED,
    "scores",
    "The two gates are exchanged: row 0 of the weight feeds r and row 1 feeds a.",
    "gates-exchanged",
    "a from row 0, r from row 1",
    wavlm("ok"),
)
case(
    "b050",
    wavlm("factored"),
    GATED,
    "scores",
    "The per-head constant multiplies (r - 1) instead of r alone: g = 2 + a s (r - 1) instead of 2 + a (s r - 1).",
    "gate-factor-scope",
    "multiply r alone",
    wavlm("ok"),
)


# ---------------------------------------------------------------- relative shift / scores / index
def shift_reshape(mode):
    def rel_shift(x):
        Q, K = x.shape
        padded = np.concatenate([np.zeros((Q, 1), x.dtype), x], axis=1).reshape(K + 1, Q)
        return (padded[:-1] if mode == "last" else padded[1:]).reshape(Q, K)

    return rel_shift


case(
    "b051",
    shift_reshape("last"),
    None,
    "relative_shift",
    "After the reshape to (K + 1, Q) the last row is dropped instead of the first, so every row is aligned with the "
    "wrong keys.",
    "drop-last-row",
    "drop the first row",
    shift_reshape("first"),
)


def shift_roll(mode):
    def rel_shift(x):
        Q, K = x.shape
        out = np.zeros_like(x)
        for i in range(Q):
            by = K - 1 - i if mode == "square" else Q - 1 - i
            by = min(by, K)
            out[i, : K - by] = x[i, by:]
        return out

    return rel_shift


case(
    "b052",
    shift_roll("square"),
    None,
    "relative_shift",
    "Row i is moved left by K - 1 - i instead of Q - 1 - i: right for Q = K, wrong if keys of a memory come before "
    "the queries (Q < K).",
    "shift-square-only",
    "move by Q - 1 - i",
    shift_roll("any"),
)


def rel_scores(mode):
    def scores(q, rel):
        S = q.shape[0]
        by = q @ rel.T
        d = np.arange(S)[:, None] - np.arange(S)
        return np.take_along_axis(by, S - 1 - (np.abs(d) if mode == "abs" else d), axis=1)

    return scores


case(
    "b053",
    rel_scores("abs"),
    None,
    "relative_scores",
    "Keys after the query read the row of the opposite offset: |i - j| is used instead of i - j.",
    "sign-lost",
    "index with i - j",
    rel_scores("ok"),
)


def skew(q, rel):
    S = q.shape[0]
    by = q @ rel.T  # column S-1-(i-j)
    flat = np.pad(by, ((0, 0), (0, 1))).ravel()[:-S]  # rows of 2S, the last S dropped
    return flat.reshape(S, 2 * S - 1)[:, S - 1 :].copy()


case(
    "b054",
    skew,
    None,
    "relative_scores",
    "Right: the skew trick (pad one column, flatten, drop S numbers, reshape, slice), also for keys after the query.",
    "right",
    right=True,
)


def index_axes(mode):
    def index(window):
        h, w = window
        grid = np.meshgrid(np.arange(h), np.arange(w), indexing="xy" if mode == "xy" else "ij")
        y, x = (g.ravel() for g in grid)
        dy, dx = y[:, None] - y, x[:, None] - x
        return (dy + h - 1) * (2 * w - 1) + dx + w - 1

    return index


case(
    "b055",
    index_axes("xy"),
    None,
    "relative_index",
    "meshgrid with indexing 'xy' lists the tokens of the window column by column instead of row by row; visible for "
    "windows that are not square.",
    "meshgrid-xy",
    "indexing='ij'",
    index_axes("ij"),
)


def index_small(kind):
    def index(window):
        return index_axes("ij")(window).astype(kind).astype(np.int64)

    return index


case(
    "b056",
    index_small(np.uint8),
    None,
    "relative_index",
    "The index buffer is stored as uint8, so rows from 256 on (windows with more than 256 offsets, e.g. 9 x 9) wrap "
    "round and coincide with others.",
    "index-overflow",
    "store int32 or int64",
    index_small(np.int32),
)


def index_loop(window):
    h, w = window
    seen = {}
    out = np.empty((h * w, h * w), np.int64)
    for a in range(h * w):
        for b in range(h * w):
            out[a, b] = seen.setdefault((a // w - b // w, a % w - b % w), len(seen))
    return out


case(
    "b057",
    index_loop,
    None,
    "relative_index",
    "Right: offsets are numbered in the order in which they first occur, so the numbers are not Swin's, but equal "
    "exactly where offsets are equal.",
    "right",
    right=True,
)


# T5: exactly one head wrong (padding of heads to a multiple of 4)
def t5_heads(fixed):
    def bias(q_len, k_len):
        b = bucket_of(np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None])
        out = np.zeros((6, q_len, k_len))
        n = 6 if fixed else 6 // 4 * 4
        for h in range(n):
            out[h] = TABLE[b, h]
        return out

    return bias


case(
    "b058",
    t5_heads(False),
    T5_ENC,
    "bias",
    "Heads are processed in vectors of 4; the remaining heads (4 and 5 of 6) are not written, their bias stays 0.",
    "head-remainder",
    "process the remaining heads",
    t5_heads(True),
)
