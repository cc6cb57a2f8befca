"""Rotations and their caches: apply_qk, apply_offset, calls, decode, key_cache, shift_keys, ..."""
import numpy as np

from posenc_ref import (DynamicNTK, Llama3Scaling, LongRoPE, NTKByParts, NTKScaling, Proportional, QwenNTK, RoPE,
                        XPos, YaRN)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def lift(p, x):
    p = np.asarray(p, np.float64)
    if p.ndim == 2 and x.ndim == 4:
        p = p[:, None, :]
    return p[..., None]


def freqs(d, base=10000.0):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def half(x, a, m=1.0):
    n = a.shape[-1]
    cos, sin = m * np.cos(a), m * np.sin(a)
    u, v = x[..., :n], x[..., n:2 * n]
    return np.concatenate([u * cos - v * sin, v * cos + u * sin, x[..., 2 * n:]], -1).astype(x.dtype)


def inter(x, a, m=1.0):
    cos, sin = m * np.cos(a), m * np.sin(a)
    out = np.empty(x.shape, np.float64)
    u, v = x[..., 0::2], x[..., 1::2]
    out[..., 0::2], out[..., 1::2] = u * cos - v * sin, v * cos + u * sin
    return out.astype(x.dtype)


def run(offset, n):  # int or (B,) -> (n,) or (B, n)
    o = np.asarray(offset, np.int64)
    return np.arange(n) + (o[:, None] if o.ndim else o)


# ---- g024
def make(bug):
    w = freqs(64)

    def qk(q, k, qp, kp):
        at = qp
        if bug and k.shape[-2] != q.shape[-2]:
            at = np.arange(k.shape[-2])
        elif not bug:
            at = kp
        else:
            at = kp
        return half(q, lift(qp, q) * w), half(k, lift(at, k) * w)
    return qk
case("g024", make, RoPE(64, layout="half"), "apply_qk",
     "When there are more keys than queries (cached keys), keys are rotated to 0 .. K-1 instead of k_positions.",
     "keys-arange-when-cached", "use k_positions")

# ---- g025
_X = XPos(64, layout="interleaved")
def make(bug):
    w, z = freqs(64), _X.decays()

    def qk(q, k, qp, kp):
        nq, nk = lift(qp, q) / 512, lift(kp, k) / 512
        return (inter(q, lift(qp, q) * w, z ** nq), inter(k, lift(kp, k) * w, z ** (nk if bug else -nk)))
    return qk
case("g025", make, _X, "apply_qk", "xPos: keys are multiplied by zeta**n like queries instead of zeta**-n, so logits depend on i + j.",
     "xpos-key-decay-not-inverted", "divide keys by the decay")


# ---- g026
def make(bug):
    w, z = freqs(64), _X.decays()

    def qk(q, k, qp, kp):
        f = np.floor if bug else (lambda t: t)
        nq, nk = f(lift(qp, q) / 512), f(lift(kp, k) / 512)
        return inter(q, lift(qp, q) * w, z ** nq), inter(k, lift(kp, k) * w, z ** -nk)
    return qk
case("g026", make, _X, "apply_qk", "xPos: the exponent is p // 512, so the decay stays constant within 512 positions and jumps, instead of p / 512.",
     "xpos-floor-exponent", "true division by scale_base")

# ---- g027
_Y = RoPE(64, layout="half", scaling=YaRN(8.0, 2048))
def make(bug):
    w, m = _Y.frequencies(), 0.1 * np.log(8.0) + 1

    def qk(q, k, qp, kp):
        return half(q, lift(qp, q) * w, m), half(k, lift(kp, k) * w, 1.0 if bug else m)
    return qk
case("g027", make, _Y, "apply_qk", "YaRN's attention factor m is put on queries only; keys miss it, so logits have m instead of m squared.",
     "m-on-q-only", "multiply the keys' cos and sin by m too")


# ---- g028
def make(bug):
    w = freqs(64, 5e5)

    def qk(q, k, qp, kp):
        q2, k2 = half(q, lift(qp, q) * w), half(k, lift(kp, k) * w)
        if bug and k.ndim == 4 and k.shape[1] < q.shape[1] and k.shape[1] > 1:
            k2[:, -1] = k[:, -1]
        return q2, k2
    return qk
case("g028", make, RoPE(64, layout="half", base=5e5), "apply_qk",
     "Grouped heads: with fewer key heads than query heads, the loop stops one key head early and the last key head is left unrotated.",
     "last-kv-head-unrotated", "loop over all key heads")


# ---- g029
def make(bug):
    w = freqs(64)

    def apply(x, offset):
        o = np.asarray(offset)
        if bug:
            o = np.full_like(o, o.max())
        return half(x, lift(run(o, x.shape[-2]), x) * w)
    return apply
case("g029", make, RoPE(64, layout="half"), "apply_offset",
     "All rows of the batch start at the largest offset of the batch instead of each row's own.",
     "max-offset", "add each row's own offset")


# ---- g030
def make(bug):
    w = freqs(128)

    def apply(x, offset):
        o = np.asarray(offset)
        if x.shape[-2] == 1:
            p = np.broadcast_to(o[:1, None], (x.shape[0], 1)) if bug else o[:, None]
        else:
            p = run(o, x.shape[-2])
        return inter(x, lift(p, x) * w)
    return apply
case("g030", make, RoPE(128, layout="interleaved"), "apply_offset",
     "The decoding path (S = 1) reads offset[0] for every row of the batch; longer inputs use each row's offset.",
     "single-token-row0-offset", "use offset[b] for S = 1 as well")


# ---- g031
def make(bug):
    w = freqs(64)

    def calls(items):
        cache, out = {}, []
        for x, offset in items:
            n = x.shape[-2]
            key = n if bug else (n, tuple(np.atleast_1d(offset)))
            if key not in cache:
                cache[key] = run(offset, n)
            out.append(half(x, lift(cache[key], x) * w))
        return out
    return calls
case("g031", make, RoPE(64, layout="half"), "calls",
     "The tables are cached by the number of tokens alone: a later call of the same length and another offset gets the tables of the first.",
     "cache-key-no-offset", "put the offset in the cache key")

# ---- g032
_D = RoPE(64, layout="half", scaling=DynamicNTK(4.0, 64))
def make(bug):
    class Emb:
        def __init__(self):
            self.seen = 64

        def __call__(self, x, offset):
            p = run(offset, x.shape[-2])
            n = max(int(p.max()) + 1, 64)
            self.seen = max(self.seen, n)
            L = self.seen if bug else n
            return half(x, lift(p, x) * freqs(64, 10000.0 * (4.0 * L / 64 - 3.0) ** (64 / 62)))

    def calls(items):
        e = Emb()
        return [e(x, o) for x, o in items]
    return calls
case("g032", make, _D, "calls",
     "Dynamic NTK keeps the base of the longest sequence seen: after a long call, shorter calls are rotated with its frequencies.",
     "dynamic-base-never-reset", "recompute the frequencies from the length of each call")


# ---- g033
def make(bug):
    w = freqs(64)

    def calls(items):
        out = []
        for n, (x, offset) in enumerate(items):
            shift = 1 if bug and n >= 2 else 0
            out.append(inter(x, lift(run(offset, x.shape[-2]) + shift, x) * w))
        return out
    return calls
case("g033", make, RoPE(64, layout="interleaved"), "calls",
     "From the third call of an instance on, every position is one too large (a double-buffered table is advanced once and not put back).",
     "third-call-shift", "do not keep a row pointer between calls")


# ---- g034
def make(bug):
    w = freqs(64)

    def decode(x, chunks):
        at, out, s = 0, [], 0
        for n in chunks:
            out.append(half(x[..., s:s + n, :], (at + np.arange(n))[:, None] * w))
            s += n
            at = n if bug and n > 1 else at + n
        return np.concatenate(out, -2)
    return decode
case("g034", make, RoPE(64, layout="half"), "decode",
     "After a chunk of several tokens the counter is set to the chunk's length instead of being increased by it; right for one prompt and single tokens, wrong after a second long chunk.",
     "counter-set-not-added", "past += n")


# ---- g035
def make(bug):
    PAGE = 16
    w = freqs(64)

    def decode(x, chunks):
        out, s = [], 0
        for n in chunks:
            p = np.arange(s, s + n)
            if bug and s and s % PAGE == 0:
                p = p - s  # slot within the fresh page
            out.append(inter(x[..., s:s + n, :], p[:, None] * w))
            s += n
        return np.concatenate(out, -2)
    return decode
case("g035", make, RoPE(64, layout="interleaved"), "decode",
     "Paged cache: a chunk that starts at a page boundary (a multiple of 16 tokens) is given slot numbers within the page as positions, counting from 0 again.",
     "page-boundary-restart", "position = page index * 16 + slot")


# ---- g036
def make(bug):
    def f(n):
        return freqs(64, 10000.0 * (4.0 * max(n, 64) / 64 - 3.0) ** (64 / 62))

    def cache(k, chunks):
        total = int(sum(chunks))
        if not bug:
            return half(k, np.arange(total)[:, None] * f(total))
        out, s = [], 0
        for n in chunks:
            out.append(half(k[..., s:s + n, :], np.arange(s, s + n)[:, None] * f(s + n)))
            s += n
        return np.concatenate(out, -2)
    return cache
case("g036", make, _D, "key_cache",
     "Dynamic NTK: cached keys keep the frequencies of the length at which they were stored and are not rotated anew when the sequence grows.",
     "stale-cached-keys", "store raw keys and rotate all of them with the current frequencies")

# ---- g037
_LR = RoPE(32, layout="half", scaling=LongRoPE(tuple(1.0 + 0.02 * k for k in range(16)), tuple(1.5 + 0.4 * k for k in range(16)), 64, factor=4.0))
def make(bug):
    t, m = _LR.scaling, np.sqrt(1 + np.log(4.0) / np.log(64))

    def cache(k, chunks):
        total = int(sum(chunks))
        n = max(chunks) if bug else total
        w = freqs(32) / np.array(t.long_factor if n > 64 else t.short_factor)
        return half(k, np.arange(total)[:, None] * w, m)
    return cache
case("g037", make, _LR, "key_cache",
     "LongRoPE chooses between short and long factors by the longest chunk, not by the number of tokens in the cache.",
     "longrope-chunk-length", "compare the total length with L0")


# ---- g038
def make(bug):
    w = freqs(64)

    def shift(k, delta):
        d = abs(delta) if bug else delta
        return half(k, d * w)
    return shift
case("g038", make, RoPE(64, layout="half"), "shift_keys",
     "The shift uses |delta|: keys that should move back (delta < 0) move forward.", "shift-abs-delta", "keep the sign of delta")


# ---- g039
def make(bug):
    w, m = _Y.frequencies(), 0.1 * np.log(8.0) + 1

    def shift(k, delta):
        return half(k, delta * w, m if bug else 1.0)
    return shift
case("g039", make, _Y, "shift_keys",
     "Shifting YaRN keys multiplies by the attention factor again: keys that already hold m get m squared.",
     "shift-m-again", "shift with the pure rotation")


# ---- g040
def make(bug):
    w = freqs(32)

    def vjp(x, positions, dy):
        dx = half(dy, -lift(positions, x) * w)
        if bug:
            dx[..., 32:] = 0
        return dx
    return vjp
case("g040", make, RoPE(64, layout="half", rotary_dim=32), "apply_vjp",
     "The backward pass returns zeros for the channels that pass through (32-63) instead of dy.",
     "vjp-pass-through-zero", "copy dy in the channels outside the rotation")


# ---- g041
def make(bug):
    w, m = _Y.frequencies(), 0.1 * np.log(8.0) + 1

    def vjp(x, positions, dy):
        return half(dy, -lift(positions, x) * w, 1 / m if bug else m)
    return vjp
case("g041", make, _Y, "apply_vjp", "The backward pass divides by the attention factor (the inverse map) where the transpose multiplies by it.",
     "vjp-inverse-not-transpose", "multiply by m in the backward pass")

# ---- g042
_LL = RoPE(128, layout="half", base=5e5, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))
def make(bug):
    def f():
        f0 = freqs(128, 5e5)
        r = 8192 * f0 / (1.0 if bug else 2 * np.pi)
        t = np.clip((r - 1.0) / 3.0, 0, 1)
        return f0 * ((1 - t) / 8.0 + t)
    return f
case("g042", make, _LL, "frequencies", "Llama 3 scaling: the wavelength lacks the factor 2 pi, so the bands of slow and fast pairs move by a factor of 6.28.",
     "llama3-wavelength-2pi", "wavelength = 2 pi / frequency")

# ---- g043
_YF = RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768))
def make(bug):
    def f():
        def c(turns):
            return 128 * np.log(32768 / (2 * np.pi * turns)) / (2 * np.log(1e6))
        low, high = (np.ceil if bug else np.floor)(c(32.0)), np.ceil(c(1.0))
        g = np.clip((np.arange(64) - low) / (high - low), 0, 1)
        f0 = freqs(128, 1e6)
        return f0 * (1 - g) + f0 / 4.0 * g, 0.1 * np.log(4.0) + 1
    return f
case("g043", make, _YF, "frequencies", "YaRN's lower end of the ramp is rounded up (ceil) where it must be rounded down, so the ramp starts one pair late.",
     "yarn-low-ceil", "floor for low, ceil for high")

# ---- g044
def make(bug):
    def f():
        base = 10000.0 * 8.0 ** (64 / (63 if bug else 62))
        return base ** (-np.arange(0, 64, 2) / 64)
    return f
case("g044", make, RoPE(64, layout="half", scaling=NTKScaling(8.0)), "frequencies",
     "NTK-aware base: the exponent is d/(d-1) instead of d/(d-2), so the last pair isn't divided by exactly the factor.",
     "ntk-exponent", "base * factor ** (d / (d - 2))")

# ---- g045
_P = RoPE(64, layout="half", base=1e6, scaling=Proportional(0.25))
def make(bug):
    def tables(positions):
        w = np.zeros(32)
        n = 8
        w[:n] = 1e6 ** (-2.0 * np.arange(n) / (16 if bug else 64))
        a = np.asarray(positions, np.float64)[:, None] * w
        return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
    return tables
case("g045", make, _P, "cos_sin", "p-RoPE: the exponent of the rotating pairs is divided by the rotated size (16) instead of the whole head (64).",
     "proportional-denominator", "divide by head_dim")

# ---- g046
_NP = RoPE(64, layout="interleaved", scaling=NTKByParts(4.0, 2048))
def make(bug):
    def ramp(fast, slow):
        def c(turns):
            return 64 * np.log(2048 / (2 * np.pi * turns)) / (2 * np.log(1e4))
        lo, hi = max(np.floor(c(fast)), 0), min(np.ceil(c(slow)), 63)
        return np.clip((np.arange(32) - lo) / (hi - lo if hi > lo else 0.001), 0, 1)

    def f():
        b, c, f0 = ramp(1.25, 0.75), ramp(16.0, 2.0), freqs(64)
        ntk = freqs(64, 1e4 * 4.0 ** (64 / 62))
        if bug:
            return (1 - b) * f0 + b * ((1 - c) * ntk + c * f0 / 4)
        return (1 - c) * f0 + c * ((1 - b) * ntk + b * f0 / 4)
    return f
case("g046", make, _NP, "frequencies", "NTK-by-parts: the beta ramp and the gamma ramp are exchanged, so middle pairs keep plain frequencies where they need the NTK-aware ones.",
     "by-parts-ramps-exchanged", "blend linear/NTK with beta, then with plain by gamma")

# ---- g047
def make(bug):
    def f(seq_len=None):
        n = seq_len or 256
        up = (np.floor if bug else np.ceil)(np.log2(n / 256) + 1)
        alpha = max(2 ** up - 1, 1)
        return freqs(64, 1e4 * alpha ** (64 / 62))
    return f
case("g047", make, RoPE(64, layout="half", scaling=QwenNTK(256)), "frequencies",
     "Qwen's stepped NTK rounds the doubling count down (floor) instead of up, so lengths between the powers use the alpha of the shorter step.",
     "qwen-ntk-floor", "ceil of log2(L / train_length) + 1")


# ---- g048
def make(bug):
    def permute(w, n_heads):
        d = w.shape[0] // n_heads
        rest = w.shape[1:]
        if bug:
            return w.reshape(n_heads, d // 2, 2, *rest).swapaxes(1, 2).reshape(w.shape)
        return w.reshape(n_heads, 2, d // 2, *rest).swapaxes(1, 2).reshape(w.shape)
    return permute
case("g048", make, None, "permute_weights", "The rows are moved from interleaved to half-split, the inverse of the conversion asked for.",
     "permutation-inverse", "reshape (heads, 2, d/2) and transpose")


# ---- right
def make(bug):
    w = freqs(64)

    def decode(x, chunks):
        B, H, S, D = x.shape
        step, z = np.exp(1j * w), np.ones(32, complex)
        out, s = np.empty_like(x), 0
        for n in chunks:
            for t in range(s, s + n):
                v = (x[:, :, t, :32] + 1j * x[:, :, t, 32:].astype(np.float64)) * z
                out[:, :, t] = np.concatenate([v.real, v.imag], -1)
                z = z * step
                z /= abs(z)
            s += n
        return out
    return decode
case("g049", make, RoPE(64, layout="half"), "decode", "Unusual: keeps the running phase as a complex number and multiplies it by one step per token, in double precision with renormalisation.", "right")


def make(bug):
    w, m = _Y.frequencies(), 0.1 * np.log(8.0) + 1

    def qk(q, k, qp, kp):
        return half(q, lift(qp, q) * w, m), half(k, lift(kp, k) * w, m)
    return qk
case("g050", make, _Y, "apply_qk", "Unusual: m multiplies the tables of both, computed from float64 frequencies.", "right")


def make(bug):
    w = freqs(64)

    def vjp(x, positions, dy):
        # the transpose as a matrix product with the explicit rotation of each token
        a = np.broadcast_to(lift(positions, x) * w, (*x.shape[:-1], 32))
        z = np.conj(np.exp(1j * a)) * (dy[..., 0::2] + 1j * dy[..., 1::2].astype(np.float64))
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
    return vjp
case("g051", make, RoPE(64, layout="interleaved"), "apply_vjp", "Unusual: backward pass as the product with the complex conjugate.", "right")

# Drawn by chance to keep the corpus at its size: sound cases, not part of CASES.
_SPARE = {"g025", "g027", "g029", "g031", "g032", "g036", "g039", "g041", "g043", "g044", "g046"}
SPARE = [c for c in CASES if c["id"] in _SPARE]
CASES = [c for c in CASES if c["id"] not in _SPARE]
