import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- r046 slopes: the even ones
def make(bug):
    def get_slopes(n):
        def power_of_2(n):
            start = 2 ** (-(2 ** -(math.log2(n) - 3)))
            return [start * start ** i for i in range(n)]
        if math.log2(n).is_integer():
            return power_of_2(n)
        c = 2 ** math.floor(math.log2(n))
        return power_of_2(c) + power_of_2(2 * c)[1 if bug else 0::2][: n - c]
    return lambda num_heads: np.array(get_slopes(num_heads))

case("r046", make, P.ALiBi(12), "slopes",
     "For head counts that are no power of two, the additional slopes are the even ones of the longer list, which the first heads already have.",
     "slopes-even-extras", "Take slopes 1, 3, 5, ...: [0::2].")


# ---- r047 ALiBi with a cache: queries from 0
def make(bug):
    n = 8
    m = 2.0 ** -np.arange(1, n + 1)

    def bias(q_len, k_len):
        context = np.arange(q_len)[:, None]
        if not bug:
            context = context + (k_len - q_len)
        memory = np.arange(k_len)[None, :]
        return -m[:, None, None] * np.abs(memory - context)
    return bias

case("r047", make, P.ALiBi(8), "bias",
     "With a cache the queries are numbered from 0 instead of k_len - q_len.",
     "alibi-query-offset", "Query i is at position k_len - q_len + i.")


# ---- r048 T5 bucket: side
def make(bug):
    num_buckets, max_distance = 32, 128

    def bucket(relative_position):
        r = np.asarray(relative_position)
        nb = num_buckets // 2
        ret = ((r < 0) if bug else (r > 0)).astype(np.int64) * nb
        n = np.abs(r)
        exact = nb // 2
        with np.errstate(divide="ignore"):
            big = exact + np.floor(np.log(np.maximum(n, 1) / exact) / math.log(max_distance / exact) * (nb - exact) + 1e-9).astype(np.int64)
        return ret + np.where(n < exact, n, np.minimum(big, nb - 1))
    return bucket

case("r048", make, P.T5Bias(np.random.default_rng(48).normal(size=(32, 4)), num_buckets=32), "bucket",
     "The upper half of the buckets is given to keys before the query instead of keys after it.",
     "t5-bucket-side", "Add num_buckets / 2 where key - query is positive.")


# ---- r049 T5 decoder: max_distance from the default
T49 = np.random.default_rng(49).normal(size=(16, 6)).astype(np.float32)

def make(bug):
    config = {"relative_attention_num_buckets": 16, "relative_attention_max_distance": 64}

    def bucket(n, num_buckets, max_distance=128):
        exact = num_buckets // 2
        large = exact + (np.log(np.maximum(n, 1) / exact) / math.log(max_distance / exact) * (num_buckets - exact) + 1e-9).astype(int)
        return np.where(n < exact, n, np.minimum(large, num_buckets - 1))

    def compute_bias(q_len, k_len):
        i = np.arange(k_len - q_len, k_len)[:, None]
        n = np.maximum(i - np.arange(k_len), 0)
        args = () if bug else (config["relative_attention_max_distance"],)
        b = bucket(n, config["relative_attention_num_buckets"], *args)
        return T49[b].transpose(2, 0, 1)
    return compute_bias

case("r049", make, P.T5Bias(T49, num_buckets=16, max_distance=64, bidirectional=False), "bias",
     "relative_attention_max_distance is not passed on, so buckets are made for the default 128 instead of 64.",
     "t5-max-distance-default", "Pass the configuration's max_distance.")


# ---- r050 Swin: reshape instead of permute
T50 = np.random.default_rng(50).normal(size=(35, 3)).astype(np.float32)

def make(bug):
    h, w = 3, 4
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
    rel = (coords[:, :, None] - coords[:, None, :]).transpose(1, 2, 0).copy()
    rel[..., 0] += h - 1
    rel[..., 1] += w - 1
    rel[..., 0] *= 2 * w - 1
    index = rel.sum(-1)

    def bias(q_len, k_len):
        b = T50[index.reshape(-1)]
        n = h * w
        if bug:
            full = b.reshape(-1, n, n)
        else:
            full = b.reshape(n, n, -1).transpose(2, 0, 1)
        return full[:, k_len - q_len: k_len, :k_len]
    return bias

case("r050", make, P.SwinBias(T50, window=(3, 4)), "bias",
     "The looked-up rows (N * N, heads) are reshaped to (heads, N, N) instead of permuted, which mixes heads and tokens.",
     "swin-view-not-permute", "view(N, N, -1).permute(2, 0, 1)")


# ---- r051 relative index
def make(bug):
    def relative_position_index(window_size):
        h, w = window_size
        coords = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
        dy, dx = coords[:, :, None] - coords[:, None, :]
        return (dy + h - 1) * ((2 * h - 1) if bug else (2 * w - 1)) + dx + w - 1
    return relative_position_index

case("r051", make, None, "relative_index",
     "Rows are multiplied by 2h - 1 instead of 2w - 1: in windows wider than high, different offsets share an index.",
     "relative-index-stride", "The stride of the rows is 2w - 1.")


# ---- r052 Kerple: parameters exchanged
R52 = ((0.5, 1.2, 0.8, 2.0), (1.5, 0.3, 0.6, 0.1))

def make(bug):
    p = np.array(R52)
    bias_p, bias_a = p if not bug else p[::-1]

    def forward(q_len, k_len):
        i = np.arange(k_len - q_len, k_len)
        diff = np.abs(i[:, None] - np.arange(k_len)).astype(float)
        return -bias_p[:, None, None] * np.log(1 + bias_a[:, None, None] * diff)
    return forward

case("r052", make, P.Kerple(*R52), "bias",
     "The two parameters are read in the wrong order: the factor of the logarithm is taken for that of the distance.",
     "kerple-params-swapped", "r1 multiplies the logarithm, r2 the distance.")


# ---- r053 FIRE: normalised by the length of the sequence
_g = np.random.default_rng(53)
F53 = dict(hidden=_g.normal(size=(8, 1)), hidden_bias=_g.normal(size=8) * 0.3, output=_g.normal(size=(4, 8)),
           output_bias=_g.normal(size=4))

def make(bug):
    c, L, eps = 0.1, 16.0, 1e-6

    def fire(q_len, k_len):
        i = np.arange(k_len - q_len, k_len, dtype=float)[:, None]
        dist = np.maximum(i - np.arange(k_len), 0.0)
        norm = np.full_like(i, k_len - 1.0) if bug else i
        x = np.log(np.abs(c) * dist + 1) / (np.log(np.abs(c * np.maximum(norm, L)) + 1) + eps)
        hid = np.maximum(x[..., None] * F53["hidden"][:, 0] + F53["hidden_bias"], 0)
        return (hid @ F53["output"].T + F53["output_bias"]).transpose(2, 0, 1)
    return fire

case("r053", make, P.FIRE(**F53, length=16.0), "bias",
     "The distance is normalised by the last position of the sequence for all queries, instead of the position of the query.",
     "fire-norm-by-length", "Divide by psi(max(i, L)) with the query's own position i.")


# ---- r054 LogCPB: natural logarithm over log2(8)
_g = np.random.default_rng(54)
L54 = dict(hidden=_g.normal(size=(10, 2)), hidden_bias=_g.normal(size=10), output=_g.normal(size=(3, 10)) * 0.4)

def make(bug):
    h, w = 4, 6
    log = np.log if bug else np.log2
    gy, gx = np.arange(-(h - 1), h) / (h - 1) * 8, np.arange(-(w - 1), w) / (w - 1) * 8
    t = np.stack(np.meshgrid(gy, gx, indexing="ij"), -1)
    t = np.sign(t) * log(np.abs(t) + 1.0) / np.log2(8)
    mlp = np.maximum(t.reshape(-1, 2) @ L54["hidden"].T + L54["hidden_bias"], 0) @ L54["output"].T
    ys, xs = np.divmod(np.arange(h * w), w)
    idx = (ys[:, None] - ys + h - 1) * (2 * w - 1) + xs[:, None] - xs + w - 1

    def bias(q_len, k_len):
        full = 16 / (1 + np.exp(-mlp[idx].transpose(2, 0, 1)))
        return full[:, k_len - q_len: k_len, :k_len]
    return bias

case("r054", make, P.LogCPB(**L54, window=(4, 6)), "bias",
     "Coordinates are the natural logarithm divided by log2(8): they end at ln 9 / 3 instead of log2 9 / 3.",
     "logcpb-natural-log", "Use log2 in the numerator too.")


# ---- r055 tensor parallel
def make(bug):
    def slopes(n):
        c = 1 << (n.bit_length() - 1)
        s = [2.0 ** (-8.0 * (i + 1) / c) for i in range(c)]
        s += [2.0 ** (-4.0 * (2 * i + 1) / c) for i in range(n - c)]
        return np.array(s)

    def rank_slopes(num_heads, tp_size, tp_rank):
        local = num_heads // tp_size
        if bug:
            return slopes(local)
        return slopes(num_heads)[tp_rank * local: (tp_rank + 1) * local]
    return rank_slopes

case("r055", make, P.ALiBi(16), "rank_slopes",
     "Each rank computes the slopes of a model with its own number of heads instead of its share of all slopes.",
     "tp-local-slopes", "Compute the slopes of all heads and take those from tp_rank * local on.")


# ---- r056 BEiT: rows of [CLS]
T56 = np.random.default_rng(56).normal(size=(5 * 7 + 3, 2)).astype(np.float32)

def make(bug):
    h, w = 3, 4
    n = len(T56)
    ys, xs = np.divmod(np.arange(h * w), w)
    index = np.zeros((h * w + 1,) * 2, int)
    index[1:, 1:] = (ys[:, None] - ys + h - 1) * (2 * w - 1) + xs[:, None] - xs + w - 1
    index[0, 0:] = n - 2 if bug else n - 3
    index[0:, 0] = n - 3 if bug else n - 2
    index[0, 0] = n - 1
    table = np.moveaxis(T56[index], -1, 0)
    return lambda q_len, k_len: table[:, k_len - q_len: k_len, :k_len]

case("r056", make, P.BEiTBias(T56, window=(3, 4)), "bias",
     "The rows for [CLS] as query and [CLS] as key are exchanged.",
     "beit-cls-rows-swapped", "Row n - 3 is for the query [CLS], row n - 2 for the key [CLS].")


# ---- right: key-only ALiBi
def make(bug):
    def bias(q_len, k_len):
        m = 2.0 ** (-8.0 * np.arange(1, 5) / 4)
        return m[:, None, None] * np.arange(k_len)[None, None, :]
    return bias

case("r090", make, P.ALiBi(4), "bias",
     "BLOOM's form: the slope times the position of the key, which differs by a constant per query.", "right")


# ---- right: searchsorted
def make(bug):
    nb, me, top = 16, 8, 128
    starts = list(range(1, me + 1))
    for t in range(1, nb - me):
        n = me
        while n ** (nb - me) * me ** t < top ** t * me ** (nb - me):
            n += 1
        starts.append(n)
    starts = np.array(starts)

    def bucket(relative_position):
        r = np.asarray(relative_position)
        b = np.searchsorted(starts, np.abs(r), side="right")
        return b + np.where(r > 0, nb, 0)
    return bucket

case("r091", make, P.T5Bias(np.random.default_rng(91).normal(size=(32, 2)), num_buckets=32), "bucket",
     "Thresholds of the buckets are found in integers, and looked up with searchsorted.", "right")


# ---- right: windows of a padded image of the table
T92 = np.random.default_rng(92).normal(size=(7 * 5, 4)).astype(np.float32)

def make(bug):
    h, w = 4, 3
    img = T92.reshape(2 * h - 1, 2 * w - 1, -1)
    rows = [img[y: y + h, x: x + w][::-1, ::-1].reshape(h * w, -1) for y in range(h) for x in range(w)]
    b = np.ascontiguousarray(np.stack(rows).transpose(2, 0, 1))
    return lambda q_len, k_len: b[:, k_len - q_len: k_len, :k_len]

case("r092", make, P.SwinBias(T92, window=(4, 3)), "bias",
     "Every query's row is a flipped window of the table seen as an image.", "right")
