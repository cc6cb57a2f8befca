import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

# ---- shift_keys, evict_keys, normed_apply, permute_weights, scores ---------------------------

def half(x, a, m=1.0):
    n = a.shape[-1]
    c, s = m * np.cos(a), m * np.sin(a)
    u, v = x[..., :n].astype(np.float64), x[..., n:2 * n].astype(np.float64)
    return np.concatenate([(u * c - v * s).astype(x.dtype), (v * c + u * s).astype(x.dtype), x[..., 2 * n:]], -1)

def inter(x, a, m=1.0):
    z = (x[..., ::2].astype(float) + 1j * x[..., 1::2].astype(float)) * (m * np.exp(1j * a))
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

F32 = 10000.0 ** (-np.arange(16) / 16)

def make(bug):
    lo = max(math.floor(32 * math.log(2048 / (64 * math.pi)) / (2 * math.log(10000.0))), 0)
    hi = math.ceil(32 * math.log(2048 / (2 * math.pi)) / (2 * math.log(10000.0)))
    t = np.clip((np.arange(16) - lo) / (hi - lo), 0, 1)
    f = F32 * (1 - t + t / 8.0)
    m = 0.1 * math.log(8.0) + 1 if bug else 1.0
    def shift_keys(rotated_k, delta):
        return half(rotated_k, delta * f, m)
    return shift_keys
case("n095", make, P.RoPE(32, layout="half", scaling=P.YaRN(8.0, 2048)), "shift_keys",
     "The shift uses the scaled cos and sin of the forward pass, so the factor m is multiplied in once more.",
     "shift-applies-factor", "unit rotation for shifts")

def make(bug):
    def shift_keys(rotated_k, delta):
        f = 10000.0 ** (-np.arange(8) / 8)
        a = (delta + (1.0 if bug else 0.0)) * np.concatenate([f, f])
        return inter(rotated_k, a)
    return shift_keys
case("n096", make, P.MultiAxisRoPE(32, sections=(8, 8), layout="interleaved", spacing="restart", offset=1.0), "shift_keys",
     "The encoding's offset of 1 is added to the shift as if it were a position.",
     "shift-adds-offset", "a difference has no offset")

def make(bug):
    def shift_keys(rotated_k, delta):
        pe = rotated_k[..., 32:]
        y = inter(pe, delta * F32) if bug else half(pe, delta * F32)
        return np.concatenate([rotated_k[..., :32], y], -1)
    return shift_keys
case("n097", make, P.RoPE(64, layout="interleaved", rotary_dim=32, rotary_start=32, output_layout="half"), "shift_keys",
     "Rotated keys are half-split (output_layout), but the shift pairs their channels as the input's interleaved ones.",
     "shift-input-layout", "pairs of the output layout")

def make(bug):
    T = np.arange(2048)[:, None] * F32
    def shift_keys(rotated_k, delta):
        d = int(delta)
        a = T[d] if (bug and d < 0) or 0 <= d < 2048 else d * F32
        return half(rotated_k, a)
    return shift_keys
case("n098", make, P.RoPE(32, layout="half"), "shift_keys",
     "A negative shift indexes the table from its end, 2048 rows further on.",
     "shift-negative-row", "negate the sine of the row of -delta")

def make(bug):
    def shift_keys(rotated_k, delta):
        return inter(rotated_k, (1.0 if bug else -1.0) * delta * F32)
    return shift_keys
case("n099", make, P.RoPE(32, layout="interleaved", sign=-1), "shift_keys",
     "The model rotates by the negative angle, its shift by the positive one.",
     "shift-ignores-sign", "the sign of the forward rotation")

def make(bug):
    def evict(rotated_k, kept, dropped):
        rest = rotated_k.shape[-2] - kept - dropped
        tail = rotated_k[..., (-rest if bug else kept + dropped):, :]
        return np.concatenate([rotated_k[..., :kept, :], half(tail, -dropped * F32)], -2)
    return evict
case("n100", make, P.RoPE(32, layout="half"), "evict_keys",
     "The remaining keys are k[-rest:], which is all keys if none remains (rest = 0).",
     "minus-zero-slice", "k[kept + dropped:]")

def make(bug):
    def evict(rotated_k, kept, dropped):
        sinks = (kept or 4) if bug else kept
        sinks = min(sinks, rotated_k.shape[-2] - dropped)
        return np.concatenate([rotated_k[..., :sinks, :], inter(rotated_k[..., sinks + dropped:, :], -dropped * F32)], -2)
    return evict
case("n101", make, P.RoPE(32, layout="interleaved"), "evict_keys",
     "`kept or 4`: no kept keys is taken for the default of four attention sinks.",
     "kept-zero-falsy", "use kept as it is")

def make(bug):
    def evict(rotated_k, kept, dropped):
        y = rotated_k if bug else rotated_k.copy()
        tail = y[..., kept + dropped:, :]
        tail[...] = half(tail, -dropped * F32)
        return np.concatenate([y[..., :kept, :], tail], -2)
    return evict
case("n102", make, P.RoPE(32, layout="half"), "evict_keys",
     "The tail is a view of the caller's cache and is rotated in place.",
     "evict-mutates", "work on a copy")

def make(bug):
    def evict(rotated_k, kept, dropped):
        S = rotated_k.shape[-2]
        out = rotated_k[..., :S - dropped, :].copy()
        if dropped == 0:
            return out
        stop = S - dropped + 1 if bug else S
        for i in range(kept + dropped, stop, dropped):        # blocks as long as the gap never overlap
            j = min(i + dropped, S)
            out[..., i - dropped:j - dropped, :] = inter(rotated_k[..., i:j, :], -dropped * F32)
        return out
    return evict
case("n103", make, P.RoPE(32, layout="interleaved"), "evict_keys",
     "Keys are moved in blocks as long as the gap; the last, shorter block is left out and old keys stay in its place.",
     "last-block-left", "include the shorter block")

def make(bug):
    lo = max(math.floor(32 * math.log(4096 / (64 * math.pi)) / (2 * math.log(10000.0))), 0)
    hi = math.ceil(32 * math.log(4096 / (2 * math.pi)) / (2 * math.log(10000.0)))
    t = np.clip((np.arange(16) - lo) / (hi - lo), 0, 1)
    f = F32 if bug else F32 * (1 - t + t / 4.0)
    def evict(rotated_k, kept, dropped):
        return np.concatenate([rotated_k[..., :kept, :], half(rotated_k[..., kept + dropped:, :], -dropped * f)], -2)
    return evict
case("n104", make, P.RoPE(32, layout="half", scaling=P.YaRN(4.0, 4096)), "evict_keys",
     "The context shift rotates with the unscaled frequencies although the keys were rotated with YaRN's.",
     "shift-unscaled-frequencies", "the frequencies of the keys")

def make(bug):
    def normed(x, weight, positions):
        w = np.asarray(weight, float)
        if bug:
            w = w.reshape(2, -1).T.ravel()                     # weights permuted for the other layout
        y = x.astype(float)
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6) * w
        a = np.asarray(positions, float)[..., None] * F32
        return half(y, a if a.ndim == 2 else a[:, None]).astype(x.dtype)
    return normed
case("n105", make, P.RoPE(32, layout="half"), "normed_apply",
     "The norm's weight was converted to interleaved order although the heads are half-split.",
     "norm-weight-permuted", "leave the weight as it is")

def make(bug):
    def normed(x, weight, positions):
        y = x.astype(float)
        ms = (y * y).mean(-1, keepdims=True)
        y = y / (np.sqrt(ms) + 1e-6 if bug else np.sqrt(ms + 1e-6)) * np.asarray(weight, float)
        a = np.asarray(positions, float)[..., None] * F32
        return inter(y, a if a.ndim == 2 else a[:, None]).astype(x.dtype)
    return normed
case("n106", make, P.RoPE(32, layout="interleaved"), "normed_apply",
     "eps is added to the root instead of to the mean square; visible for small x only.",
     "eps-outside-root", "sqrt(mean + eps)")

def make(bug):
    def normed(x, weight, positions):
        y = x.astype(float)
        part = y[..., :16] if bug else y
        y = y / np.sqrt((part * part).mean(-1, keepdims=True) + 1e-6) * np.asarray(weight, float)
        a = np.asarray(positions, float)[..., None] * 10000.0 ** (-np.arange(8) / 8)
        return half(y, a if a.ndim == 2 else a[:, None]).astype(x.dtype)
    return normed
case("n107", make, P.RoPE(48, layout="half", rotary_dim=16), "normed_apply",
     "The mean square is taken over the rotated channels only.",
     "norm-over-rotated", "the mean over the head")

def make(bug):
    def normed(x, weight, positions):
        y = x.astype(float)
        sq = np.var(y, axis=-1, keepdims=True) if bug else np.mean(y ** 2, axis=-1, keepdims=True)
        y = y / np.sqrt(sq + 1e-6) * np.asarray(weight, float)
        p = np.asarray(positions, float)
        p = np.broadcast_to(p, (2,) + p.shape) if p.ndim == 1 else p
        p = p[:, None] if p.ndim == 2 else p
        a = np.concatenate([p[i][..., None] * 10000.0 ** (-np.arange(8) / 8) for i in (0, 1)], -1)[:, None]
        return inter(y, a).astype(x.dtype)
    return normed
case("n108", make, P.MultiAxisRoPE(32, sections=(8, 8), layout="interleaved", spacing="restart"), "normed_apply",
     "np.var subtracts the mean of the head: the size of a LayerNorm, not of an RMSNorm.",
     "variance-for-mean-square", "mean of the squares")

def make(bug):
    def permute(w, n_heads):
        n = 1 if bug else n_heads
        v = w.reshape(n, 2, w.shape[0] // n // 2, -1)
        return np.ascontiguousarray(v.transpose(0, 2, 1, 3)).reshape(w.shape)
    return permute
case("n109", make, P.RoPE(8, layout="half"), "permute_weights",
     "The rows of all heads are interleaved as one head; right for a single head only.",
     "permutes-across-heads", "reshape by n_heads")

def make(bug):
    def permute(w, n_heads):
        D = w.shape[0] // n_heads
        v = w.reshape(n_heads, D, -1)
        r = D if bug else 16
        head = v[:, :r].reshape(n_heads, 2, r // 2, -1).swapaxes(1, 2).reshape(n_heads, r, -1)
        return np.concatenate([head, v[:, r:]], 1).reshape(w.shape)
    return permute
case("n110", make, P.RoPE(40, layout="half", rotary_dim=16), "permute_weights",
     "All 40 rows of a head are permuted, also those of the 24 channels that do not rotate.",
     "permutes-passthrough", "permute the 16 rotated rows")

def make(bug):
    def scores(q, k):
        Q, K, d = q.shape[-2], k.shape[-2], q.shape[-1]
        i = np.arange(K - Q, K)[:, None]
        j = np.arange(K)
        r = np.abs(i - j) if bug else i - j                    # table of distances
        c, s = np.cos(r[..., None] * F32), np.sin(r[..., None] * F32)
        q, k, dt = q.astype(float), k.astype(float), q.dtype
        q1, q2, k1, k2 = q[..., :16], q[..., 16:], k[..., :16], k[..., 16:]
        same = np.einsum("bhip,bhjp,ijp->bhij", q1, k1, c) + np.einsum("bhip,bhjp,ijp->bhij", q2, k2, c)
        cross = np.einsum("bhip,bhjp,ijp->bhij", q1, k2, s) - np.einsum("bhip,bhjp,ijp->bhij", q2, k1, s)
        return ((same + cross) / math.sqrt(d)).astype(dt)
    return scores
case("n111", make, P.RoPE(32, layout="half"), "scores",
     "Logits from a table of distances |i - j|: right for keys before the query, the sine has the wrong sign for keys after it.",
     "absolute-distance", "i - j")

DEL = -np.abs(np.random.default_rng(51).normal(size=(3, 16)))
def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def scores(q, k):
        sp = lambda t: np.logaddexp(0, t.astype(float))
        Q, K, d = q.shape[-2], k.shape[-2], 16
        a = np.arange(K - Q, K)[:, None] * f
        b = (np.arange(K)[:, None] * f)[None] + DEL[:, None]
        qq = np.concatenate([sp(q) * np.cos(a), sp(q) * np.sin(a)], -1)
        kk = np.concatenate([sp(k) * np.cos(b), sp(k) * np.sin(b)], -1)
        scale = qq.shape[-1] ** -0.5 if bug else d ** -0.5
        return (qq @ kk.swapaxes(-1, -2) * scale).astype(q.dtype)
    return scores
case("n112", make, P.PoPE(16, DEL), "scores",
     "PoPE: the kernel scales by the size 2d of its vectors, not by that of the head.",
     "pope-scale-2d", "1 / sqrt(d)")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    def scores(q, k):
        def sp(t):
            t = t.astype(float)
            return np.where(t > 1, t, np.log1p(np.exp(np.minimum(t, 30)))) if bug else np.logaddexp(0, t)
        Q, K = q.shape[-2], k.shape[-2]
        r = np.arange(K) - np.arange(K - Q, K)[:, None]
        c = np.cos(r[..., None] * f)
        return (np.einsum("bhic,bhjc,ijc->bhij", sp(q), sp(k), c) / 4).astype(q.dtype)
    return scores
case("n113", make, P.PoPE(16), "scores",
     "softplus is replaced by the identity above a threshold of 1, meant to be 20, an error of up to 0.31.",
     "softplus-threshold", "threshold 20 or logaddexp")

def make(bug):
    f = 10000.0 ** (-np.arange(16) / 16)
    zeta = (np.arange(16) / 16 + 0.4) / 1.4
    def scores(q, k):
        Q, K = q.shape[-2], k.shape[-2]
        i, j = np.arange(0 if bug else K - Q, Q if bug else K), np.arange(K)
        # each side is centred on its own middle before the decays are taken
        cq = ck = K / 2
        one = lambda x, p, n: inter(x.astype(float), p[:, None] * f, zeta ** (n[:, None] / 512))
        y = one(q, np.arange(K - Q, K), i - cq)
        z = one(k, j, ck - j)
        return (y @ z.swapaxes(-1, -2) / math.sqrt(32)).astype(q.dtype)
    return scores
case("n114", make, P.XPos(32, layout="interleaved"), "scores",
     "xPos with a cache: the decay of queries counts from 0 while their rotation counts from K - Q.",
     "decay-position-of-queries", "the same positions for decay and rotation")
