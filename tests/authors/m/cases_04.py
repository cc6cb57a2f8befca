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


_T = np.random.default_rng(11).standard_normal((32, 8)).astype(np.float32)
_E = P.T5Bias(_T)
_D = P.T5Bias(_T, bidirectional=False)


def _bucket(r, nb=32, md=128, bi=True, floor=True):
    r = np.asarray(r)
    out = np.zeros(r.shape, np.int64)
    if bi:
        nb //= 2
        out += (r > 0) * nb
        n = np.abs(r)
    else:
        n = np.maximum(-r, 0)
    me = nb // 2
    far = np.log(np.maximum(n, 1) / me) / math.log(md / me) * (nb - me)
    far = me + np.floor(far + 1e-9).astype(np.int64)
    return out + np.where(n < me, n, np.minimum(far, nb - 1))


# ---- m048 n <= max_exact
def make(bug):
    def bucket(relative_position):
        r = np.asarray(relative_position)
        n, half = np.abs(r), 16
        me = 8
        with np.errstate(divide="ignore"):
            large = me + (np.log(np.maximum(n, 1) / me) / np.log(128 / me) * (half - me) + 1e-9).astype(int)
        large = np.minimum(large, half - (2 if bug else 1))
        return np.where(n < me, n, large) + half * (r > 0)
    return bucket
case("m048", make, _E, "bucket",
     "Far distances are clamped to bucket half - 2 instead of half - 1: the last bucket of each direction is never used.",
     "clamp-off-by-one", "clamp to half - 1")


# ---- m049 relative_position >= 0 for future
def make(bug):
    def bucket(relative_position):
        r = np.asarray(relative_position)
        b = _bucket(r)
        if bug:
            b = np.where(r == 0, 16, b)
        return b
    return bucket
case("m049", make, _E, "bucket",
     "Offset 0 is counted as a later key (r >= 0 instead of r > 0), so the own token has bucket num_buckets/2.",
     "zero-as-future", "use r > 0")


# ---- m050 log2-step integer approximation (XLM-R style tables)
def make(bug):
    def bucket(relative_position):
        r = np.asarray(relative_position)
        n = np.abs(r)
        if bug:   # 8, 16, 32, 64: two buckets per doubling with thresholds at 1.5 of the power
            starts = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64, 96]
        else:
            starts = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91]
        return np.searchsorted(starts, n, side="right") + 16 * (r > 0)
    return bucket
case("m050", make, _E, "bucket",
     "The far bucket bounds are spaced linearly within a doubling (24, 48, 96) instead of at powers of sqrt(2) (23, 46, 91).",
     "bounds-midpoints", "put the bounds at 8 * 2**(t/2)")


# ---- m051 bias: max_distance fixed at 128 in the helper
def make(bug):
    t = np.random.default_rng(12).standard_normal((32, 4)).astype(np.float32)
    def bias(q_len, k_len):
        r = np.arange(k_len)[None] - np.arange(k_len - q_len, k_len)[:, None]
        return np.moveaxis(t[_bucket(r, md=128 if bug else 256)], -1, 0)
    return bias, t
_m51 = make
def make(bug):
    return _m51(bug)[0]
case("m051", make, P.T5Bias(_m51(False)[1], max_distance=256), "bias",
     "max_distance is not passed to the bucket function, so its default 128 is used instead of 256.",
     "max-distance-default", "pass relative_attention_max_distance")


# ---- m052 decoder uses bidirectional buckets
def make(bug):
    def bias(q_len, k_len):
        r = np.subtract.outer(np.arange(k_len - q_len, k_len), np.arange(k_len)) * -1
        return _T[_bucket(r, bi=bug)].transpose(2, 0, 1)
    return bias
case("m052", make, _D, "bias",
     "The decoder uses the encoder's bidirectional buckets: distances have 16 buckets instead of 32.",
     "decoder-bidirectional", "set bidirectional=False in decoders")


# ---- m053 sign reversed in decoder: all zero bucket
def make(bug):
    def bias(q_len, k_len):
        i, j = np.arange(k_len - q_len, k_len)[:, None], np.arange(k_len)
        r = i - j if bug else j - i
        return np.ascontiguousarray(_T.T[:, _bucket(r)])
    return bias
case("m053", make, _E, "bias",
     "The relative position is query minus key instead of key minus query, so the buckets of the two directions are exchanged.",
     "memory-minus-context", "use memory_position - context_position")


# ---- m054 decode step: slices last row of the bias from 0-based query
def make(bug):
    def bias(q_len, k_len):
        r = np.arange(k_len)[None] - np.arange(k_len)[:, None]
        full = _T[_bucket(r, bi=False)].transpose(2, 0, 1)
        if q_len == 1 and bug:
            return full[:, -2:-1] if k_len > 1 else full
        return full[:, k_len - q_len:]
    return bias
case("m054", make, _D, "bias",
     "With one query (a decoding step) the row before the last is taken instead of the last, so the bias is that of the token before.",
     "decode-row-off-by-one", "take row k_len - 1")


# ---- m055 table viewed as (heads, buckets)
def make(bug):
    t = np.random.default_rng(13).standard_normal((32, 4)).astype(np.float32)
    def bias(q_len, k_len):
        r = np.arange(k_len)[None] - np.arange(k_len - q_len, k_len)[:, None]
        tab = t.reshape(4, 32) if bug else t.T
        return tab[:, _bucket(r)]
    return bias, t
_m55 = make
def make(bug):
    return _m55(bug)[0]
case("m055", make, P.T5Bias(_m55(False)[1]), "bias",
     "The table (buckets, heads) is reshaped to (heads, buckets) instead of transposed.",
     "table-reshaped", "transpose the table")


# ---- m056 scores scaled
def make(bug):
    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        r = np.arange(K)[None] - np.arange(K - Q, K)[:, None]
        s = np.matmul(q.astype(float), np.swapaxes(k, -1, -2).astype(float))
        if bug:
            s = s * q.shape[-1] ** -0.5
        return (s + _T.T[:, _bucket(r)]).astype(q.dtype)
    return scores
case("m056", make, _E, "scores",
     "q . k is multiplied by 1/sqrt(d), but T5 does not scale its scores.", "t5-scaled", "use scale 1")


# ---- m057 logarithm in bfloat16
def _bf16(v):
    u = np.asarray(v, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
def make(bug):
    def bucket(relative_position):
        n = np.maximum(-np.asarray(relative_position), 0)
        me = 16
        x = np.log(np.maximum(n, 1) / me)
        if bug:
            x = _bf16(_bf16(_bf16(x) / _bf16(math.log(128 / me))) * 16).astype(float)
        else:
            x = x / math.log(128 / me) * 16 + 1e-9
        big = np.minimum(16 + np.floor(x), 31).astype(int)
        return np.where(n < me, n, big)
    return bucket
case("m057", make, _D, "bucket",
     "The logarithm of the bucket formula is computed in bfloat16 (a model cast to bfloat16), so distances next to a bucket bound fall into the bucket beside.",
     "bucket-log-bf16", "compute the logarithm in float32 or compare integers")


# ---- m058 right: searchsorted with exact bounds
def make(bug):
    starts = np.array(list(range(1, 17)) + [n for n in range(17, 128) for t in range(1, 16)
                      if (n - 1) ** 16 < 16 ** 16 * 8 ** t <= n ** 16])
    def bucket(relative_position):
        n = np.maximum(-np.asarray(relative_position), 0)
        return np.searchsorted(starts, n, side="right")
    return bucket
case("m058", make, _D, "bucket", "Right: searchsorted over bounds found by comparing integer powers.", "right")


# ---- m059 right: cached Toeplitz row, grown
def make(bug):
    box = {"n": 0}
    def bias(q_len, k_len):
        if k_len > box["n"]:
            n = 2 * k_len
            box.update(n=n, row=_T[_bucket(np.arange(-n, n))].T)
        c, n = box["row"], box["n"]
        idx = n + np.arange(k_len)[None] - np.arange(k_len - q_len, k_len)[:, None]
        return c[:, idx]
    return bias
case("m059", make, _E, "bias", "Right: gathers from a cached row of offsets that grows with the length.", "right")
