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


def _slopes(n, top=8.0):
    c = 2 ** math.floor(math.log2(n))
    s = [2.0 ** (-top * (i + 1) / c) for i in range(c)]
    if c < n:
        s += [2.0 ** (-top * (i + 1) / (2 * c)) for i in range(0, 2 * (n - c), 2)]
    return s


# ---- m033 slopes: nearest power above
def make(bug):
    def slopes(num_heads):
        n = num_heads
        if bug:
            p = 2 ** math.ceil(math.log2(n))
            s = [2.0 ** (-8.0 * (i + 1) / p) for i in range(p)]
            return np.array((s[1::2] + s[::2])[:n] if p != n else s)[np.argsort(np.argsort(np.arange(n)))] if p == n else np.array(sorted((s[1::2] + s[::2])[:n], reverse=True))
        return np.array(_slopes(n))
    return slopes
case("m033", make, P.ALiBi(12), "slopes",
     "For numbers of heads that are no power of two the slopes are sorted in descending order, so heads have the slopes of other heads.",
     "slopes-sorted", "keep the c slopes of the power of two first, then the odd ones of 2c")


# ---- m034 slopes MPT: interleave missing -> takes the extra from even positions
def make(bug):
    def slopes(num_heads):
        n2 = 2 ** math.ceil(math.log2(num_heads))
        m = np.arange(1, n2 + 1, dtype=np.float64) * (8.0 / n2)
        s = 1.0 / np.exp2(m)
        if n2 != num_heads:
            s = np.concatenate([s[0::2], s[1::2]] if bug else [s[1::2], s[0::2]])[:num_heads]
        return s
    return slopes
case("m034", make, P.ALiBi(12), "slopes",
     "For numbers of heads that are no power of two, the slopes of odd and of even index of the next power of two are concatenated in the wrong order ([0::2] before [1::2]).",
     "slopes-halves-swapped", "concatenate [1::2] and then [0::2]")


# ---- m035 bias: slopes base from int division
def make(bug):
    H = 6
    m = np.array(_slopes(H))
    if bug:
        m[4:] = [2.0 ** (-8.0 * (i + 1) / 4) / 2 for i in range(2)]
    def bias(q_len, k_len):
        i = np.arange(k_len - q_len, k_len)[:, None]
        return -m[:, None, None] * np.abs(i - np.arange(k_len))
    return bias
case("m035", make, P.ALiBi(6), "bias",
     "The slopes of the heads beyond the power of two are half of the first slopes instead of the slopes 1, 3, ... of twice as many heads.",
     "extra-slopes-half", "take slopes 1, 3, 5, ... of 2c heads")


# ---- m036 bias bf16 distances
def _bf16(v):
    u = np.asarray(v, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
def make(bug):
    m = np.array(_slopes(8), np.float32)[:, None, None]
    def bias(q_len, k_len):
        d = np.abs(np.arange(k_len)[None] - np.arange(k_len - q_len, k_len)[:, None]).astype(np.float32)
        if bug:
            d = _bf16(d)
        return -(m * d)
    return bias
case("m036", make, P.ALiBi(8, causal=False), "bias",
     "The distances are held in bfloat16 before they are multiplied by the slopes, so distances above 256 are rounded.",
     "distance-bf16", "multiply integer distances in float32")


# ---- m037 bias: key-only form with offset of padded kv block
def make(bug):
    m = np.array(_slopes(16))
    def bias(q_len, k_len):
        pad = -(-k_len // 64) * 64 if bug else k_len     # keys padded to a tile of 64
        q = np.arange(q_len)[:, None] + pad - q_len
        return -m[:, None, None] * np.abs(q - np.arange(k_len)[None])
    return bias
case("m037", make, P.ALiBi(16, causal=False), "bias",
     "The position of the queries is computed from the number of keys rounded up to the tile of 64, so unless k_len is a multiple of 64 all queries stand too late.",
     "padded-key-length", "use the real number of keys")


# ---- m038 bias q offset omitted (decode)
def make(bug):
    def bias(q_len, k_len):
        q = np.arange(q_len) + (0 if bug else k_len - q_len)
        d = np.subtract.outer(q, np.arange(k_len))
        return np.einsum("h,qk->hqk", -np.array(_slopes(12)), np.abs(d).astype(float))
    return bias
case("m038", make, P.ALiBi(12, causal=False), "bias",
     "The queries are placed at 0 .. q_len - 1 instead of at the end of the keys, which is wrong whenever a cache holds earlier keys.",
     "query-offset-missing", "add k_len - q_len to the query index")


# ---- m039 symmetric ALiBi: future keys 0
def make(bug):
    def bias(q_len, k_len):
        r = np.arange(k_len)[None, :] - np.arange(k_len - q_len, k_len)[:, None]
        r = np.minimum(r, 0) if bug else -np.abs(r)
        return np.array(_slopes(8))[:, None, None] * r
    return bias
case("m039", make, P.ALiBi(8, causal=False), "bias",
     "Keys after the query get no bias (the distance is clipped at 0 from above) although attention is bidirectional.",
     "future-keys-unbiased", "use -|i - j|")


# ---- m040 rank slopes: power of two rule for local heads
def make(bug):
    def rank(num_heads, tp_size, tp_rank):
        n = num_heads // tp_size
        if bug:
            return np.array(_slopes(n))
        return np.array(_slopes(num_heads))[tp_rank * n:(tp_rank + 1) * n]
    return rank
case("m040", make, P.ALiBi(16), "rank_slopes",
     "Every rank computes the slopes of its own number of heads, as if the model had only these heads.",
     "local-head-count", "compute the slopes of all heads, then slice")


# ---- m041 rank slopes: strided heads
def make(bug):
    def rank(num_heads, tp_size, tp_rank):
        s = np.array(_slopes(num_heads))
        return s[tp_rank::tp_size] if bug else np.split(s, tp_size)[tp_rank]
    return rank
case("m041", make, P.ALiBi(32), "rank_slopes",
     "The heads of a rank are taken with a stride (tp_rank, tp_rank + tp_size, ...) instead of as one contiguous block.",
     "strided-heads", "slice a contiguous block of heads")


# ---- m042 stale cached mask: MPT caches by k_len
def make(bug):
    m, store = np.array(_slopes(8))[:, None, None], {}
    def bias(q_len, k_len):
        key = k_len if bug else (q_len, k_len)
        if key not in store:
            store[key] = -m * np.abs(np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None])
        b = store[key]
        if bug and b.shape[1] != q_len:
            b = b[:, :q_len] if b.shape[1] > q_len else -m * np.abs(np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None])
        return b.copy()
    return bias
case("m042", make, P.ALiBi(8, causal=False), "bias",
     "The cached bias of a longer prompt with the same number of keys is cut to its first q_len rows instead of its last, so after it a call with fewer queries gets the rows of the first queries.",
     "cached-first-rows", "take the last q_len rows of the cached bias")


# ---- m043 falcon: bias inside scale
def make(bug):
    m = np.array(_slopes(8))[:, None, None]
    def scores(q, k):
        Q, K, d = q.shape[2], k.shape[2], q.shape[3]
        b = -m * np.abs(np.arange(K) - np.arange(K - Q, K)[:, None])
        qk = np.einsum("bhqd,bhkd->bhqk", q.astype(float), k.astype(float))
        r = qk / math.sqrt(d) + b if bug else (qk + b) / math.sqrt(d)
        return r.astype(q.dtype)
    return scores
case("m043", make, P.ALiBi(8, bias_inside_scale=True), "scores",
     "The bias is added after the scaling of q . k, but this model divides the bias by sqrt(d) too.",
     "bias-outside-scale", "add the bias before the division")


# ---- m044 scores torch: bias in half of the heads only when GQA group: heads order
def make(bug):
    import torch
    def scores(q, k):
        B, H, Q, d = q.shape
        K = k.shape[2]
        m = torch.tensor(_slopes(H), dtype=torch.float64)
        if bug:
            m = m.view(2, H // 2).t().reshape(H)
        pos = torch.arange(K - Q, K)[:, None] - torch.arange(K)[None]
        s = torch.matmul(q.double(), k.double().transpose(-1, -2)) * d ** -0.5
        return (s - m[None, :, None, None] * pos.abs()).to(q.dtype)
    return scores
case("m044", make, P.ALiBi(8), "scores",
     "The slopes are viewed as (groups, heads per group) and transposed, so query heads get the slopes of other heads.",
     "slopes-transposed-groups", "keep the slopes in the order of the query heads", backend="torch")


# ---- m045 max_bias ignored (MPT)
def make(bug):
    def slopes(num_heads):
        return np.array(_slopes(num_heads, 8.0 if bug else 16.0))
    return slopes
case("m045", make, P.ALiBi(16, max_bias=16.0), "slopes",
     "alibi_bias_max = 16 is not passed on, so the slopes are those of 8.", "bias-max-default", "pass alibi_bias_max")


# ---- m046 right: slopes by repeated square roots
def make(bug):
    def slopes(num_heads):
        def rec(n):
            if n & (n - 1) == 0:
                ratio = 2.0 ** (-(2.0 ** -(math.log2(n) - 3)))
                return [ratio ** (i + 1) for i in range(n)]
            c = 1 << (n.bit_length() - 1)
            return rec(c) + rec(2 * c)[0::2][:n - c]
        return np.array(rec(num_heads))
    return slopes
case("m046", make, P.ALiBi(12), "slopes", "Right: the authors' recursion with powers of a ratio.", "right")


# ---- m047 right: key-only bias
def make(bug):
    def bias(q_len, k_len):
        return (np.array(_slopes(12))[:, None, None] * np.arange(1 - k_len, 1))
    return bias
case("m047", make, P.ALiBi(12), "bias", "Right: BLOOM's key-only form m (j - K + 1), which differs by a constant for each query.", "right")
