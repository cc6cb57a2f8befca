import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

rng = np.random.default_rng(41)
TB = rng.standard_normal((32, 6)).astype(np.float32)
TU = rng.standard_normal((33, 4)).astype(np.float32)
def rel(q, k): return np.arange(k)[None, :] - (np.arange(q) + (k - q))[:, None]
def thresholds(nb, md):
    me = nb // 2; s = nb - me
    out = list(range(1, me + 1)); n = me
    for t in range(1, s):
        while n ** s < md ** t * me ** (s - t): n += 1
        out.append(n)
    return np.array(out)
BI = thresholds(16, 128)
def bidir(r):
    r = np.asarray(r)
    return np.searchsorted(BI, np.abs(r.astype(np.int64)), side="right") + 16 * (r > 0)

def make(bug):
    def bucket(r):
        r = np.asarray(r, np.int64); n = np.abs(r)
        v = np.searchsorted(BI, n, side="left" if bug else "right")
        return v + np.where(r > 0, 16, 0)
    return bucket
case("o056", make, P.T5Bias(TB), "bucket", "searchsorted takes the left side: a distance that begins a bucket stays in the one before", "searchsorted-left", "side='right'")

def make(bug):
    lut = bidir(np.arange(-128, 129))
    def bucket(r):
        r = np.asarray(r)
        r = r.astype(np.int16) if bug else r
        return lut[np.clip(r, -128, 128).astype(np.int64) + 128]
    return bucket
case("o057", make, P.T5Bias(TB), "bucket", "relative positions are cast to int16 before the clip, so those beyond 32767 wrap round", "int16-wrap", "clip before narrowing")

def make(bug):
    def bucket(r):
        r = np.asarray(r, np.int64); n = np.abs(r)
        f = np.float32
        with np.errstate(divide="ignore"):
            if bug:
                big = 8 + (np.log(n.astype(f) / f(8)) / f(math.log(16.0)) * f(8)).astype(f)
                big = np.round(np.nan_to_num(big, neginf=0.0)).astype(np.int64)
            else:
                big = 8 + np.floor(np.nan_to_num(np.log(n / 8.0) / math.log(16.0) * 8, neginf=0.0) + 1e-9).astype(np.int64)
        return np.where(n < 8, n, np.minimum(big, 15)) + 16 * (r > 0)
    return bucket
case("o058", make, P.T5Bias(TB), "bucket", "the logarithmic bucket is rounded to the nearest integer instead of down", "round-for-floor", "floor")

def make(bug):
    U = thresholds(33, 200); me = 16
    def bucket(r):
        n = np.maximum(-np.asarray(r, np.int64), 0)
        steps = 16 if bug else 17
        if not bug: return np.searchsorted(U, n, side="right")
        x = np.log(np.maximum(n, 1) / me) / math.log(200 / me) * steps
        return np.where(n < me, n, np.minimum(me + np.floor(x + 1e-9).astype(np.int64), 32))
    return bucket
case("o059", make, P.T5Bias(TU, num_buckets=33, max_distance=200, bidirectional=False), "bucket", "with an odd number of buckets the logarithm is spread over num_buckets//2 of them, not over the rest num_buckets - num_buckets//2", "odd-buckets-half", "num_buckets - max_exact")

def make(bug):
    def bucket(r):
        r = np.asarray(r, np.int64)
        n = -r; ret = (n < 0).astype(np.int64) * 16
        n = np.abs(n)
        small = n <= 8
        with np.errstate(divide="ignore"):
            x = np.log(np.where(n == 0, 1, n) / 8) / np.log(128 / 8) * 8
        big = np.minimum(8 + np.floor(x + 1e-9), 15).astype(np.int64)
        return ret + np.where(small, n, big)
    return bucket
case("o060", make, P.T5Bias(TB), "bucket", "the comparison with max_exact is <= instead of <; at n = max_exact both branches give the same bucket", "right")

def make(bug):
    lut = np.zeros(128, np.uint8); lut[:] = np.searchsorted(BI, np.arange(128), side="right")
    def bucket(r):
        r = np.asarray(r); far = np.minimum(np.abs(r.astype(np.int64)), 127)
        b = lut[far] | ((r > 0).astype(np.uint8) << (3 if bug else 4))
        return b.astype(np.int64)
    return bucket
case("o061", make, P.T5Bias(TB), "bucket", "the direction bit is shifted by 3 (the exact half of a direction) instead of 4, and collides with the bits of the distance", "direction-bit", "shift by log2(num_buckets/2)")

def make(bug):
    def bias(q, k):
        out = np.empty((6, q, k), np.float32); Tq = 16
        for s in range(0, q, Tq):
            e = min(s + Tq, q)
            first = (k - q) + (e - Tq if bug and e - s < Tq and s else s)
            i = first + np.arange(e - s)
            out[:, s:e] = TB[bidir(np.arange(k)[None] - i[:, None])].transpose(2, 0, 1)
        return out
    return bias
case("o062", make, P.T5Bias(TB), "bias", "query tiles of 16: the last partial tile takes the positions of a full tile that ends there", "last-tile-start", "start at s in every tile")

def make(bug):
    kept = {}
    def bias(q, k):
        if k not in kept: kept[k] = TB.T[:, bidir(rel(k, k))]
        b = kept[k]
        return b[:, :q] if bug else b[:, k - q:]
    return bias
case("o063", make, P.T5Bias(TB), "bias", "of the kept square bias the first q_len rows are returned instead of the last, so a decode step has the bias of position 0", "first-rows-of-square", "b[:, k_len - q_len:]")

def make(bug):
    U = thresholds(33, 200)
    def bias(q, k):
        d = np.arange(-(k - 1), q)
        v = TU[np.searchsorted(U, np.maximum(-d, 0), side="right")].T            # (H, q+k-1), offsets -(k-1) .. q-1
        first = k - 1 if bug else q - 1
        at = first - np.arange(q)[:, None] + np.arange(k)[None, :]
        w = v.take(np.minimum(at, v.shape[1] - 1), axis=1)
        return w
    return bias
case("o064", make, P.T5Bias(TU, num_buckets=33, max_distance=200, bidirectional=False), "bias", "the Toeplitz gather starts at the diagonal of the keys (k_len - 1), not at q_len - 1; right only for k_len = q_len", "toeplitz-start", "start at q_len - 1")

def slopes(n, mb=8.0):
    c = 1 << (n.bit_length() - 1)
    s = [2.0 ** (-mb * (h + 1) / c) for h in range(c)]
    return np.array(s + [2.0 ** (-mb * (h + 1) / (2 * c)) for h in range(0, 2 * c, 2)][: n - c])

def bf16(x):
    b = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((b + 0x7FFF + ((b >> 16) & 1)) & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32)

def make(bug):
    m = slopes(8)[:, None, None]
    def bias(q, k):
        j = np.arange(k, dtype=np.float32)
        j = bf16(j) if bug else j
        return (m * j[None, None, :]).astype(np.float32)
    return bias
case("o065", make, P.ALiBi(8), "bias", "key positions are rounded to bfloat16 before the product, so those above 256 merge", "bf16-positions", "float32 positions")

def make(bug):
    m = slopes(12)[:, None, None]
    def bias(q, k):
        out = np.zeros((12, q, k))
        for s in range(0, k, 64):
            e = min(k, s + 64)
            j = np.arange(0 if bug else s, e - s if bug else e)
            out[:, :, s:e] = m * (j - (k - 1))
        return out
    return bias
case("o066", make, P.ALiBi(12), "bias", "key tiles of 64 count their keys from 0: keys of the second tile get the bias of the first", "tile-local-keys", "add the start of the tile")

def make(bug):
    m = slopes(6)
    def bias(q, k):
        r = rel(q, k).astype(float)
        d = -np.abs(r) if not bug else np.minimum(r, 0)
        return m[:, None, None] * d
    return bias
case("o067", make, P.ALiBi(6, causal=False), "bias", "later keys have bias 0: minimum(r, 0) of a causal port serves the encoder", "future-zero", "-abs(r)")

def make(bug):
    m = slopes(5, 4.0); m8 = slopes(5, 8.0)
    if bug: m = np.concatenate([m[:4], m8[4:]])
    def bias(q, k): return np.einsum("h,qk->hqk", m, -np.abs(rel(q, k)))
    return bias
case("o068", make, P.ALiBi(5, max_bias=4.0, causal=False), "bias", "slopes of the heads beyond the power of two use max_bias 8 instead of the declared 4", "extra-heads-default-max-bias", "pass max_bias to both parts")

def make(bug):
    kept = {}
    def bias(q, k):
        m = kept.setdefault("m", slopes(8))
        d = np.abs(rel(q, k)).astype(float)
        d *= -1.0
        b = d[None] * m[:, None, None]
        if bug: m *= 0.5 ** (q == 1)
        return b
    return bias
case("o069", make, P.ALiBi(8, causal=False), "bias", "the kept slopes are halved in place by every call with one query", "slopes-mutated", "leave the kept slopes alone")

# slopes
def make(bug):
    def f(n):
        c = 2 ** math.ceil(math.log2(n)); s = 2.0 ** (-8.0 * np.arange(1, c + 1) / c)
        if c == n: return s
        return np.concatenate([s[::2], s[1::2]] if bug else [s[1::2], s[::2]])[:n]
    return f
case("o070", make, P.ALiBi(12), "slopes", "MPT's trick with the slopes of the next power of two puts the odd ones before the even ones", "mpt-order", "[1::2] then [::2]")

def make(bug):
    def f(n):
        c = 1 << (n.bit_length() - 1); t = np.float16 if bug else np.float64
        r = 2.0 ** (-8.0 / c); x = 2.0 ** (-4.0 / c)
        a = [r ** (i + 1) for i in range(c)]; b = [x * r ** i for i in range(n - c)]
        return np.array(a + b).astype(t).astype(np.float32)
    return f
case("o071", make, P.ALiBi(16), "slopes", "slopes are rounded to float16 on the way", "float16-slopes", "float32 slopes")

def make(bug):
    def f(n):
        c = 2 ** int(math.floor(math.log2(n))); base = 2.0 ** (-(2.0 ** -(math.log2(c) - 3)))
        s = base ** np.arange(1, c + 1)
        if c < n:
            eb = 2.0 ** (-(2.0 ** -(math.log2(2 * c) - 3))); m = min(c, n - c)
            s = np.concatenate([s, eb ** (np.arange(1, 1 + m) if bug else np.arange(1, 1 + 2 * m, 2))])
        return s.astype(np.float32)
    return f
case("o072", make, P.ALiBi(20), "slopes", "BLOOM's extra heads take powers 1, 2, 3, ... instead of 1, 3, 5, ...", "extra-powers-step", "step 2")

def make(bug):
    def f(n):
        c = 1
        while 2 * c <= n: c *= 2
        if bug: return 2.0 ** (-8.0 * (np.arange(n) % c + 1) / c)
        return np.array([2.0 ** -(8.0 * (h + 1) / c) if h < c else 2.0 ** -(4.0 * (2 * (h - c) + 1) / c) for h in range(n)])
    return f
case("o073", make, P.ALiBi(24), "slopes", "heads beyond the power of two repeat the first slopes", "slopes-repeat", "slopes of twice as many heads")

@functools.lru_cache(None)
def rec(n): return tuple(2.0 ** (-8 * i / n) for i in range(1, n + 1)) if n & (n - 1) == 0 else rec(1 << (n.bit_length() - 1)) + rec(1 << n.bit_length())[0::2][: n - (1 << (n.bit_length() - 1))]
def make(bug): return lambda n: np.array(rec(n))
case("o074", make, P.ALiBi(8), "slopes", "a recursive rule with a cache shared by all calls", "right")

# rank_slopes
def make(bug):
    def f(n, tp, r): return slopes(n)[r::tp] if bug else slopes(n).reshape(tp, -1)[r]
    return f
case("o075", make, P.ALiBi(16), "rank_slopes", "heads are dealt round the ranks (r, r + tp, ...) instead of in blocks", "strided-heads", "the r-th block")

def make(bug):
    def f(n, tp, r):
        m = n // tp
        full = slopes(1 << (n - 1).bit_length() if bug else n)
        return full[r * m:(r + 1) * m]
    return f
case("o076", make, P.ALiBi(12), "rank_slopes", "the number of heads is padded to a power of two before the slopes are made", "padded-heads", "slopes of the true number of heads")

def make(bug):
    def f(n, tp, r):
        m = n // tp; c = 1 << (n.bit_length() - 1); out = []
        for i in range(m):
            h = r * m + i
            if h < c: out.append(2.0 ** (-8.0 * (h + 1) / c))
            else: out.append(2.0 ** (-4.0 * (2 * (i if bug and r * m >= c else h - c) + 1) / c))
        return np.array(out)
    return f
case("o077", make, P.ALiBi(40), "rank_slopes", "on ranks that lie wholly beyond the power of two, the extra slopes count from the rank's own first head", "extra-local-index", "h - c")
