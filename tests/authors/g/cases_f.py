"""Rare places: layouts, whole attention, chunks, ranks, convolutions, paged caches."""
import numpy as np

from posenc_ref import (ALiBi, Attention, ConvPositions, CoPE, DualChunk, FIRE, LongRoPE, MultiAxisRoPE, RoPE)

CASES = []
RNG = np.random.default_rng(404)


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def arr(*shape, s=1.0):
    return (RNG.standard_normal(shape) * s).astype(np.float32)


def w_of(d, base=1e4):
    return base ** (-np.arange(0, d, 2) / d)


def half(x, a):
    n = x.shape[-1] // 2
    u, v, c, s = x[..., :n], x[..., n:], np.cos(a), np.sin(a)
    return np.concatenate([u * c - v * s, v * c + u * s], -1)


# ---- g140
def make(bug):
    w = w_of(64)

    def apply(x, positions):  # x (B, S, H, D)
        p = np.asarray(positions, np.float64)
        if p.ndim == 1 and bug and x.shape[1] == x.shape[2] and x.shape[1] > 1:
            a = p[None, None, :, None] * w  # broadcast over the last but one axis
        else:
            p = p if p.ndim == 2 or p.ndim == 3 else p[None]
            a = (p[:, :, None, None] if p.ndim == 2 else p[..., None]) * w
        return half(x, a).astype(x.dtype)
    return apply
case("g140", make, RoPE(64, layout="half"), "apply", "Layout (B, S, H, D): which axis holds the tokens is guessed from the sizes, so if S = H the positions (S,) run along the heads.",
     "axis-guessed-from-size", "do not guess: axis 1 holds the tokens", tensor_layout="bshd")


# ---- g141
def make(bug):
    w = [w_of(n, 1e4) for n in (16, 24, 24)]

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        parts, s = [], 0
        for a, (n, ww) in enumerate(zip((16, 24, 24), w)):
            q = p[a][:, None, :] if p[a].ndim == 2 and x.ndim == 4 else p[a]
            if bug and a == 0:
                q = q - q.min(-1, keepdims=True) if q.size else q
            ang = q[..., None] * ww
            part = x[..., s:s + n]
            u, v, c, si = part[..., 0::2], part[..., 1::2], np.cos(ang), np.sin(ang)
            parts.append(np.stack(np.broadcast_arrays(u * c - v * si, v * c + u * si), -1).reshape(part.shape))
            s += n
        return np.concatenate(parts, -1).astype(x.dtype)
    return apply
case("g141", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved", spacing="restart"), "apply",
     "3-D video RoPE: the smallest frame number of the call is subtracted from the time axis, so a later chunk of frames is rotated as if it were the first.",
     "frames-rebased", "use the frame numbers as given")


# ---- g142
def make(bug):
    CH, LOC, D = 20, 6, 16
    C = CH if bug else CH - LOC
    w = w_of(D)

    def scores(q, k):
        n, m = q.shape[-2], k.shape[-2]
        i, j = m - n + np.arange(n), np.arange(m)
        kk = half(k.astype(np.float64), (j % C)[:, None] * w)
        gap = (i // C)[:, None] - j // C
        out = 0.0
        for g, at in ((0, i % C), (1, np.minimum(i % C + C, CH)), (2, np.full(n, min(2 * C - 1, CH)))):
            l = np.einsum("bhid,bhjd->bhij", half(q.astype(np.float64), at[:, None] * w), kk)
            out = np.where((np.minimum(np.maximum(gap, 0), 2)) == g, l, out)
        return (out / np.sqrt(D)).astype(q.dtype)
    return scores
case("g142", make, DualChunk(RoPE(16, layout="half"), chunk_size=20, local_size=6), "scores",
     "Dual chunk attention cuts chunks of chunk_size = 20 tokens; the local size 6 is not subtracted (14).", "dca-local-size-ignored", "C = chunk_size - local_size")


# ---- attention
def attention(bug, what, scale, base=1e4):
    w = w_of(32, base)

    def fn(q, k, v, qp, kp, *sinks):
        def lift(p):
            p = np.asarray(p, np.float64)
            return (p[:, None] if p.ndim == 2 else p)[..., None]
        g = q.shape[1] // k.shape[1]
        q2, k2 = half(q.astype(np.float64), lift(qp) * w), half(k.astype(np.float64), lift(kp) * w)
        h = np.arange(q.shape[1])
        pick = h % k.shape[1] if bug and what == "kv" else h // g
        l = np.einsum("bhid,bhjd->bhij", q2, k2[:, pick]) / np.sqrt(32)
        n, m = l.shape[-2:]
        seen = np.arange(m) <= (m - n + np.arange(n))[:, None]
        l = np.where(seen, l, -np.inf)
        top = l.max(-1, keepdims=True)
        if sinks:
            s = np.asarray(sinks[0], np.float64)[None, :, None, None]
            if bug and what == "sink":
                s = s / np.sqrt(32)
            top = np.maximum(top, s)
        e = np.exp(l - top)
        z = e.sum(-1, keepdims=True) + (np.exp(s - top) if sinks else 0)
        return np.einsum("bhij,bhjd->bhid", e / z, v[:, pick].astype(np.float64)).astype(q.dtype)
    return fn


case("g143", lambda bug: attention(bug, "kv", 1), RoPE(32, layout="half"), "attention",
     "Grouped heads are tiled instead of repeated: query head h reads key head h % H_kv instead of h // (H / H_kv).", "kv-heads-tiled", "repeat_interleave")
case("g144", lambda bug: attention(bug, "sink", 1), Attention(RoPE(32, layout="half"), sinks=True), "attention",
     "The sink's logit is multiplied by the softmax scale 1/sqrt(d) like q . k; it must enter unscaled.", "sink-scaled", "add the sink after scaling")


# ---- g145
def make(bug):
    def slopes(n):
        c = 2 ** int(np.floor(np.log2(n)))
        s = [2.0 ** (-8.0 * h / c) for h in range(1, c + 1)]
        return np.array(s + [2.0 ** (-8.0 * h / (2 * c)) for h in range(1, 2 * c + 1, 2)][: n - c])

    def rank(n, size, r):
        local = n // size
        if bug:
            return slopes(n)[r::size][:local]
        return slopes(n)[r * local:(r + 1) * local]
    return rank
case("g145", make, ALiBi(16), "rank_slopes", "A rank takes every tp_size-th slope (r, r + size, ...) instead of its own contiguous block of heads.", "rank-strided-heads", "slopes[rank * local : (rank + 1) * local]")

# ---- g146
_CW, _CB = arr(8, 4, 5, s=0.4), arr(8)
def make(bug):
    def conv(x):
        p = np.pad(x.astype(np.float64), ((0, 0), (2, 2), (0, 0)), mode="edge" if bug else "constant")
        y = np.zeros(x.shape) + _CB
        for t in range(5):
            for g in range(2):
                y[..., 4 * g:4 * g + 4] += p[:, t:t + x.shape[1], 4 * g:4 * g + 4] @ _CW[4 * g:4 * g + 4, :, t].astype(float).T
        return (y / (1 + np.exp(-y))).astype(x.dtype)
    return conv
case("g146", make, ConvPositions((_CW,), (_CB,), groups=2, activation="silu"), "convolve", "The ends are padded with copies of the first and the last token instead of zeros.", "conv-edge-padding", "zero padding")

# ---- g147
_h, _b, _o = arr(12, 1), arr(12, s=0.3), arr(4, 12)
def make(bug):
    def bias(q, k):
        out = np.zeros((4, q, k))
        for i in range(q):
            p = k - q + i
            for t in range(0, k, 16):  # tiles of 16 keys
                j = np.arange(t, min(t + 16, k))
                d = np.maximum(p - j, 0)
                if bug and t > 0 and p >= t:
                    d = np.maximum(p - j + 1, 0) * (j <= p)
                x = np.log1p(0.2 * d) / (np.log1p(0.2 * max(p, 24.0)) + 1e-6)
                out[:, i, j] = (np.maximum(x[:, None] * _h[:, 0].astype(float) + _b, 0) @ _o.astype(float).T).T
        return out.astype(np.float32)
    return bias
case("g147", make, FIRE(_h, _b, _o, c=0.2, length=24.0), "bias", "Tiles of 16 keys: from the second tile on every distance is one too large (the start of the tile is taken as t - 1).",
     "fire-tile-start", "distance = position - (tile start + lane)")

# ---- right
def make(bug):
    PAGE, w = 8, w_of(64)

    def decode(x, chunks):
        B, H, S, D = x.shape
        table = np.random.default_rng(0).permutation(-(-S // PAGE))  # logical to physical page
        pool = np.zeros((len(table), PAGE, B, H, D), x.dtype)
        s = 0
        for n in chunks:
            for t in range(s, s + n):
                pool[table[t // PAGE], t % PAGE] = half(x[:, :, t].astype(np.float64), t * w)
            s += n
        rows = pool[table].reshape(-1, B, H, D)[:S]
        return np.moveaxis(rows, 0, 2)
    return decode
case("g148", make, RoPE(64, layout="half"), "decode", "Unusual: keys are written into shuffled pages of 8 slots and gathered by a block table.", "right")


def make(bug):
    w = w_of(64)

    def apply(x, positions):  # (T, H, D)
        p = np.asarray(positions, np.float64)
        z = np.exp(1j * p[:, None] * w)[:, None]
        v = np.ascontiguousarray(x, np.float64).view(np.complex128) * z
        return v.view(np.float64).reshape(x.shape).astype(x.dtype)
    return apply
case("g149", make, RoPE(64, layout="interleaved"), "apply", "Unusual: packed tokens (T, H, D), channels viewed as complex128.", "right", tensor_layout="thd")

_LS, _LL = tuple(1.0 + 0.02 * k for k in range(16)), tuple(1.5 + 0.4 * k for k in range(16))
def make(bug):
    m, w = np.sqrt(1 + np.log(4.0) / np.log(64)), w_of(32)

    def cache(k, chunks):
        raw = []
        s = 0
        for n in chunks:  # raw keys are kept, rotated when read
            raw.append(k[..., s:s + n, :])
            s += n
        lam = np.array(_LL if s > 64 else _LS)
        return (m * half(np.concatenate(raw, -2).astype(np.float64), np.arange(s)[:, None] * (w / lam))).astype(k.dtype)
    return cache
case("g150", make, RoPE(32, layout="half", scaling=LongRoPE(_LS, _LL, 64, factor=4.0)), "key_cache", "Unusual: raw keys are cached and all rotated at each read, with the factors of the present length.", "right")

_E = arr(9, 16, s=0.5)
def make(bug):
    def scores(q, k):
        B, H, n, d = q.shape
        m = k.shape[-2]
        out = np.empty((B, H, n, m))
        for b in range(B):
            for h in range(H):
                for i in range(n):
                    l = k[b, h].astype(np.float64) @ q[b, h, i].astype(np.float64) / np.sqrt(d)
                    g = np.where(np.arange(m) <= m - n + i, 1 / (1 + np.exp(-l)), 0.0)
                    p = np.minimum(g[::-1].cumsum()[::-1], 8)
                    out[b, h, i] = l + np.interp(p, np.arange(9), _E.astype(np.float64) @ q[b, h, i])
        return out.astype(q.dtype)
    return scores
case("g151", make, CoPE(_E), "scores", "Unusual: loops over queries with np.interp for the fractional positions.", "right")

# Drawn by chance to keep the corpus at its size: sound cases, not part of CASES.
_SPARE = {"g141"}
SPARE = [c for c in CASES if c["id"] in _SPARE]
CASES = [c for c in CASES if c["id"] not in _SPARE]
