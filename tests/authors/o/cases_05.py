import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

rng = np.random.default_rng(51)
def rel(q, k): return np.arange(k)[None, :] - (np.arange(q) + (k - q))[:, None]
R1, R2 = np.array([0.7, 1.3, 0.2, 2.0]), np.array([0.5, 1.7, 0.05, 1.2])

def make(bug):
    def bias(q, k):
        d = np.abs(rel(q, k)).astype(float)
        p = np.exp(R2[:, None, None] * np.log(np.maximum(d, 1.0)))
        if not bug: p = np.where(d == 0, 0.0, p)
        return -R1[:, None, None] * p
    return bias
case("o078", make, P.Kerple(R1, R2, form="power"), "bias", "the power is exp(r2 log(max(d, 1))), which is 1 instead of 0 at the query's own position", "power-at-zero", "0 where d = 0")

def make(bug):
    def bias(q, k):
        hi = 1.0 if bug else 2.0
        a, b = np.maximum(R1, 0.01), np.clip(R2, 0.01, hi)
        d = np.abs(rel(q, k)).astype(float)
        return np.stack([-x * d ** y for x, y in zip(a, b)])
    return bias
case("o079", make, P.Kerple(R1, R2, form="power"), "bias", "r2 is clamped to at most 1, so heads with a power between 1 and 2 become linear", "clamp-power-one", "clamp to 2")

def make(bug):
    def bias(q, k):
        d = np.maximum(-rel(q, k), 0).astype(float)
        r1, r2 = R1.reshape(-1, 1, 1), R2.reshape(-1, 1, 1)
        b = -r1 * (np.log(r2) + np.log(1 / r2 + d)) if not bug else -r1 * (np.log(r2) + np.log(1 + d))
        return b
    return bias
case("o080", make, P.Kerple(R1, R2), "bias", "log(1 + r2 d) is split into log r2 + log(1 + d) instead of log r2 + log(1/r2 + d)", "log-split", "1/r2 inside the logarithm")

def make(bug):
    lut = [None]
    def bias(q, k):
        if lut[0] is None or (lut[0].shape[1] < k and not bug):
            lut[0] = -R1[:, None] * np.log1p(R2[:, None] * np.arange(max(k, 64)))
        t = lut[0]
        return t[:, np.minimum(np.maximum(-rel(q, k), 0), t.shape[1] - 1)]
    return bias
case("o081", make, P.Kerple(R1, R2), "bias", "the kept table of distances never grows: later calls with more keys clip distances to its last entry", "lut-not-grown", "rebuild for longer keys")

def make(bug):
    def bias(q, k):
        d = np.abs(rel(q, k)).astype(float)
        a, b = (R1, R2)
        h = np.arange(4)
        out = np.zeros((4, q, k))
        for i in h:
            out[i] = -a[i] * np.log1p(b[i - 1 if bug and i == 3 else i] * d)
        return out.astype(np.float32)
    return bias
case("o082", make, P.Kerple(R1, R2), "bias", "the last head uses r2 of the head before it", "last-head-r2", "r2[i]")

# FIRE
FH, FB, FO, FOB = rng.standard_normal((16, 1)), rng.standard_normal(16) * 0.3, rng.standard_normal((4, 16)), rng.standard_normal(4)
def mlp(x): return np.moveaxis(np.maximum(x[..., None] * FH[:, 0] + FB, 0) @ FO.T, -1, 0)
F1 = P.FIRE(FH, FB, FO, c=0.3, length=40.0); F2 = P.FIRE(FH, FB, FO, FOB, c=0.3, length=40.0, eps=0.01)

def make(bug):
    def bias(q, k):
        i = np.arange(q)[:, None] + (k - q); j = np.arange(k)[None]
        norm = np.log1p(0.3 * np.maximum((np.arange(q)[:, None] if bug else i), 40.0)) + 1e-6
        return mlp(np.log1p(0.3 * np.maximum(i - j, 0)) / norm)
    return bias
case("o083", make, F1, "bias", "the normaliser counts queries from 0 in each call, though distances use k_len - q_len", "normaliser-local-query", "the absolute query position in both")

def make(bug):
    def bias(q, k):
        i = np.arange(k - q, k)[:, None]; j = np.arange(k)
        top = k if bug else i
        x = np.log1p(0.3 * np.maximum(i - j, 0)) / (np.log1p(0.3 * np.maximum(top, 40.0)) + 1e-6)
        return mlp(x)
    return bias
case("o084", make, F1, "bias", "all queries are normalised by the number of keys, not by their own position", "normalise-by-length", "max(i, length)")

def make(bug):
    def bias(q, k):
        i = np.arange(k - q, k)[:, None]; d = np.maximum(i - np.arange(k), 0)
        norm = np.maximum(np.log1p(0.3 * i), np.log1p(0.3 * 40.0)) + 0.01
        x = np.log1p(0.3 * d) / norm
        y = np.maximum(x[..., None] * FH[:, 0] + FB, 0)
        return np.einsum("qkw,hw->hqk", y, FO) + (FOB[:, None, None] * (d > 0) if bug else FOB[:, None, None])
    return bias
case("o085", make, F2, "bias", "the output bias is masked to d > 0 together with the distances, so b(i, i) lacks it", "output-bias-off-diagonal", "add the output bias everywhere")

def make(bug):
    def bias(q, k):
        i = np.arange(k - q, k, dtype=float)[:, None]; d = np.maximum(i - np.arange(k), 0)
        t = np.maximum(i, 40.0)
        x = np.log(1 + 0.3 * d) / (np.log(1 + 0.3 * t) + 0.01) if not bug else np.log(1 + 0.3 * d) / np.log(1 + 0.3 * t + 0.01)
        h = np.maximum(np.multiply.outer(x, FH[:, 0]) + FB, 0)
        return np.moveaxis(h @ FO.T + FOB, 2, 0)
    return bias
case("o086", make, F2, "bias", "eps is added inside the logarithm of the normaliser", "eps-inside-log", "psi(...) + eps")

def make(bug):
    def bias(q, k):
        i = np.arange(k - q, k)[:, None]; d = np.clip(i - np.arange(k), 0, None)
        x = np.log1p(0.3 * d) / (np.maximum(np.log1p(0.3 * i), math.log1p(12.0)) + 1e-6)
        return mlp(x)
    return bias
case("o087", make, F1, "bias", "the maximum is taken of the logarithms, not inside them: the same, because the logarithm is monotonic", "right")

# Sandwich
def make(bug):
    w = 10000.0 ** (-2.0 * np.arange(1, 33) / 64)
    def bias(q, k):
        d = np.abs(rel(q, k))
        t = np.cos(np.arange(0, max(k, 1))[:, None] * w).sum(1)
        if bug: t = t / 32
        return t[np.minimum(d, k - 1)][None] * (4 / (8.0 * np.arange(1, 5)))[:, None, None]
    return bias
case("o088", make, P.Sandwich(4, 64), "bias", "the mean of the cosines is taken instead of their sum", "mean-for-sum", "sum over k")

def make(bug):
    w = 10000.0 ** (-2.0 * np.arange(1, 17) / 32)
    def bias(q, k):
        i, j = np.arange(k - q, k)[:, None] * w, np.arange(k)[:, None] * w
        E = lambda a: np.concatenate([np.sin(a), np.cos(a)], 1)
        g = E(i) @ E(j).T
        return (g - 16)[None] / (8 * (np.arange(6, 0, -1) if bug else np.arange(1, 7)) / 6)[:, None, None]
    return bias
case("o089", make, P.Sandwich(6, 32), "bias", "the divisors 8h/H run from the last head to the first", "sandwich-head-order", "h = 1 .. H")

def make(bug):
    D = 48
    w = 10000.0 ** (-2.0 * np.arange(1, D // 2 + 1) / D)
    def bias(q, k):
        d = np.abs(rel(q, k)).astype(float)
        s = np.zeros_like(d)
        for f in w: s += np.cos(d * f)
        return np.multiply.outer((1 if bug else 3) / (8.0 * np.arange(1, 4)), s - D / 2)
    return bias
case("o090", make, P.Sandwich(3, 48), "bias", "the divisor is 8h without the number of heads", "divisor-without-heads", "8h / H")

# forget gates
LG = -np.abs(rng.standard_normal((3, 50)))
def make(bug):
    c = np.cumsum(LG, 1)
    if bug: c = c - LG
    def bias(q, k):
        return c[:, k - q:k, None] - c[:, None, :k]
    return bias
case("o091", make, P.ForgettingBias(LG), "bias", "the cumulative sum is exclusive: the gate of the key is included and that of the query left out", "exclusive-cumsum", "inclusive sums")

def make(bug):
    def bias(q, k):
        f = np.exp(LG); out = np.zeros((3, q, k))
        for h in range(3):
            for r in range(q):
                i = k - q + r; acc = 0.0
                for j in range(i, -1, -1):
                    out[h, r, j] = acc
                    acc += math.log(f[h, j]) if not bug else math.log(max(f[h, j], 0.25))
        return out
    return bias
case("o092", make, P.ForgettingBias(LG), "bias", "gates below 0.25 are raised to 0.25 before the logarithm", "gate-floor", "no floor")

def make(bug):
    def bias(q, k):
        t, B = LG[:, :k], 16
        c = np.zeros((3, k)); carry = np.zeros(3)
        for s in range(0, k, B):
            blk = np.cumsum(t[:, s:s + B], 1) + carry[:, None]
            c[:, s:s + B] = blk
            carry = blk[:, -1] if not bug else carry + t[:, s:s + B - 1].sum(1)
        return c[:, k - q:][:, :, None] - c[:, None, :]
    return bias
case("o093", make, P.ForgettingBias(LG), "bias", "the carry of a blocked cumulative sum lacks the last gate of each block of 16", "block-carry", "carry the last sum of the block")

# dynamic
DW = (rng.standard_normal((10, 1)) * .3, rng.standard_normal((10, 10)) * .4, rng.standard_normal((4, 10)))
DB = (rng.standard_normal(10), rng.standard_normal(10), rng.standard_normal(4))
DG = tuple(rng.standard_normal(10) for _ in range(2)); DS = tuple(rng.standard_normal(10) for _ in range(2))
silu = lambda x: x / (1 + np.exp(-x))
def net(x, act=silu, ln=None, ddof=0):
    for n in range(2):
        x = x @ DW[n].T + DB[n]
        if ln:
            x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True, ddof=ddof) + 1e-5) * ln[0][n] + ln[1][n]
        x = act(x)
    return x @ DW[2].T + DB[2]

def make(bug):
    def bias(q, k):
        t = net(np.arange(-(k - 1), k, dtype=float)[:, None])
        return t.T[:, (k - 1) + (rel(q, k) if bug else -rel(q, k))]
    return bias
case("o094", make, P.DynamicBias(DW, DB), "bias", "the table of offsets is gathered with key minus query", "offset-sign", "query minus key")

def make(bug):
    def bias(q, k):
        r = -rel(q, k).astype(float)
        x = np.sign(r) * (np.log2(np.abs(r) + 1) if bug else np.log(np.abs(r) + 1))
        return np.moveaxis(net(x[..., None]), -1, 0)
    return bias
case("o095", make, P.DynamicBias(DW, DB, log_distance=True), "bias", "the logarithm of the distance is to base 2", "log2-distance", "natural logarithm")

def make(bug):
    def bias(q, k):
        o = np.arange(-(k - 1), k, dtype=float)
        t = net(o[:, None], lambda x: np.maximum(x, 0), (DG, DS), 1 if bug else 0)
        return np.moveaxis(t[k - 1 - rel(q, k)], -1, 0)
    return bias
case("o096", make, P.DynamicBias(DW, DB, gains=DG, shifts=DS, activation="relu"), "bias", "the LayerNorm divides the variance by n - 1", "unbiased-variance", "ddof=0")
