"""Author K: state between calls, precision, special paths."""
import math

import numpy as np
import torch
import torch.nn.functional as F

import posenc_ref
from posenc_ref import (
    ALiBi, ConvPositions, CoPE, FIRE, Kerple, LogCPB, LogNScale, Sinusoidal2D, StandardizedSinusoidal, T5Bias,
)

Attention = posenc_ref.Attention
CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def t5_rows(r, both=True):
    nb, n = (16, np.abs(r)) if both else (32, np.maximum(-r, 0))
    me = nb // 2
    big = me + np.floor(np.log(np.maximum(n, 1) / me) / math.log(128 / me) * (nb - me) + 1e-9).astype(int)
    return (nb * (r > 0) if both else 0) + np.where(n < me, n, np.minimum(big, nb - 1))


# ---- k221: queries scaled in place
def make(bug):
    m = 2.0 ** -np.arange(1, 9)

    def fn(q, k):
        s = 1 / math.sqrt(q.shape[-1])
        if bug:
            q *= q.dtype.type(s)
        else:
            q = q * s
        n, l = q.shape[-2], k.shape[-2]
        d = np.arange(l - n, l)[:, None] - np.arange(l)
        return (q @ np.swapaxes(k, -1, -2) - m[:, None, None] * np.abs(d)).astype(k.dtype)

    return fn


case("k221", make, ALiBi(8, causal=False), "scores",
     "the queries are multiplied by the scale in place, so the caller's tensor is changed and a second call with it is scaled twice",
     "mutates-input", "do not write into q")


# ---- k222: grid cached by the number of patches
def make(bug):
    held = {}

    def grid(height, width):
        key = height * width if bug else (height, width)
        if key not in held:
            w = 10000.0 ** (-np.arange(8) / 8)
            y, x = np.divmod(np.arange(height * width), width)
            a, b = y[:, None] * w, x[:, None] * w
            held[key] = np.concatenate([np.sin(a), np.cos(a), np.sin(b), np.cos(b)], 1)
        return held[key].copy()

    return grid


case("k222", make, Sinusoidal2D(32), "grid",
     "the table is cached by the number of patches, so an image of another shape with as many patches gets the table of the first",
     "cache-key-area", "use (height, width) as the key")


# ---- k223: convolution keeps context
def make(bug):
    rng = np.random.default_rng(223)
    w = (rng.normal(size=(8, 2, 5)) / 3).astype(np.float32)
    b = rng.normal(size=8).astype(np.float32) * 0.2
    held = {}

    def fn(x):
        y = torch.as_tensor(np.asarray(x, np.float64)).transpose(1, 2)
        left = torch.zeros(*y.shape[:2], 2, dtype=y.dtype)
        if bug and held.get("left") is not None and held["left"].shape == left.shape:
            left = held["left"]
        if y.shape[-1] >= 2:
            held["left"] = y[..., -2:].clone()
        z = F.conv1d(torch.cat([left, y, torch.zeros_like(left)], -1), torch.as_tensor(w).double(),
                     torch.as_tensor(b).double(), groups=4)
        return F.gelu(z).transpose(1, 2).numpy().astype(x.dtype)

    make.enc = ConvPositions((w,), (b,), groups=4)
    return fn


make(False)
case("k223", make, make.enc, "convolve",
     "the last tokens of the previous call are kept as left context (streaming buffer) and not reset, so the next utterance does not start with zeros",
     "context-not-reset", "clear the buffer at the start of a sequence")


# ---- k224: cached square bias, sliced at the end
def make(bug):
    held = dict(n=0)

    def bias(q_len, k_len):
        if k_len > held["n"]:
            n = held["n"] = max(k_len, 32)
            d = np.abs(np.arange(n)[:, None] - np.arange(n)).astype(float)
            held["b"] = np.stack([-a * np.log1p(c * d) for a, c in ((1.0, 0.5), (2.0, 0.1), (0.3, 4.0))])
        b = held["b"]
        rows = b[:, b.shape[1] - q_len:] if bug else b[:, k_len - q_len:k_len]
        return rows[:, :, :k_len]

    return bias


case("k224", make, Kerple((1.0, 2.0, 0.3), (0.5, 0.1, 4.0)), "bias",
     "the queries are cut from the end of the cached square bias (its last q_len rows), although it may be larger than k_len",
     "cache-slice-from-end", "cut rows k_len - q_len .. k_len")


# ---- k226: FIRE: longest sequence so far
def make(bug):
    rng = np.random.default_rng(226)
    h, hb, o = rng.normal(size=(8, 1)), rng.normal(size=8), rng.normal(size=(3, 8))
    held = dict(top=20.0)

    def bias(q_len, k_len):
        q = np.arange(k_len - q_len, k_len, dtype=float)[:, None]
        d = np.maximum(q - np.arange(k_len), 0)
        top = np.maximum(q, 20.0)
        if bug:
            held["top"] = max(held["top"], k_len - 1.0)
            top = np.maximum(q, held["top"])
        x = np.log1p(0.3 * d) / (np.log1p(0.3 * top) + 1e-6)
        return np.einsum("ijw,hw->hij", np.maximum(x[..., None] * h[:, 0] + hb, 0), o)

    make.enc = FIRE(h, hb, o, c=0.3, length=20.0)
    return bias


make(False)
case("k226", make, make.enc, "bias",
     "the threshold L grows to the longest sequence seen so far and is kept, so all queries of this and later calls are normalised by that length",
     "threshold-kept", "keep L constant and use max(i, L) for each query")


# ---- k227: log-n table of the first length
def make(bug):
    held = {}

    def fn(q, k, v, qp, kp):
        h, p = q.shape[-3], np.asarray(qp)
        top = int(np.asarray(kp).max()) + 1
        if "t" not in held or (not bug and len(held["t"]) < top):
            held["t"] = np.maximum(1, np.log(np.arange(1, top + 1)) / math.log(8))
        f = held["t"][np.minimum(p, len(held["t"]) - 1)]
        f = f[..., None] if f.ndim == 1 else f[:, None, :, None]
        rep = lambda x: np.repeat(x.astype(float), h // x.shape[-3], -3)
        l = (q * f) @ np.swapaxes(rep(k), -1, -2) / math.sqrt(q.shape[-1])
        n, m = l.shape[-2:]
        l = np.where(np.arange(m) <= np.arange(m - n, m)[:, None], l, -np.inf)
        e = np.exp(l - l.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ rep(v)).astype(q.dtype)

    return fn


case("k227", make, Attention(None, query_scale=LogNScale(8)), "attention",
     "the table of log-n factors is made once for the length of the first call; later positions beyond it get its last factor",
     "stale-table-length", "extend the table for longer calls")


# ---- k228: CoPE gates summed in half precision
def make(bug):
    emb = np.random.default_rng(228).normal(size=(24, 16)).astype(np.float32)

    def fn(q, k):
        dt = q.dtype
        q, k = q.astype(float), k.astype(float)
        n, m = q.shape[-2], k.shape[-2]
        s = q @ np.swapaxes(k, -1, -2) / 4
        g = 1 / (1 + np.exp(-s)) * (np.arange(m) <= np.arange(m - n, m)[:, None])
        if bug:
            g = g.astype(np.float16)
        p = np.minimum(np.flip(np.cumsum(np.flip(g, -1), -1, dtype=g.dtype), -1).astype(float), 23)
        lo = np.floor(p).astype(int)
        by = q @ emb.T.astype(float)
        a = np.take_along_axis(by, lo, -1)
        b = np.take_along_axis(by, np.minimum(lo + 1, 23), -1)
        return (s + a + (b - a) * (p - lo)).astype(dt)

    make.enc = CoPE(emb)
    return fn


make(False)
case("k228", make, make.enc, "scores",
     "the gates are cast to float16 and summed in float16, so the contextual positions are rounded",
     "gates-float16", "sum the gates in float32")


# ---- k229: CPB network under autocast
def make(bug):
    rng = np.random.default_rng(229)
    hid, hb, out = (torch.tensor(rng.normal(size=s)).float() for s in ((32, 2), (32,), (4, 32)))

    def bias(q_len, k_len):
        q, k = torch.arange(k_len - q_len, k_len)[:, None], torch.arange(k_len)[None]
        d = torch.stack([q // 6 - k // 6, q % 6 - k % 6], -1).float() * (8 / 5)
        x = torch.sign(d) * torch.log2(d.abs() + 1) / 3
        kind = torch.bfloat16 if bug else torch.float64
        y = F.linear(F.relu(F.linear(x.to(kind), hid.to(kind), hb.to(kind))), out.to(kind))
        return (16 * torch.sigmoid(y.double())).movedim(-1, 0).float()

    make.enc = LogCPB(hid, hb, out, window=(6, 6))
    return bias


make(False)
case("k229", make, make.enc, "bias",
     "the small network of the bias runs in bfloat16 under autocast", "network-bfloat16",
     "run the network in float32", backend="torch")


# ---- k230: heads in blocks of four
def make(bug):
    def bias(q_len, k_len):
        n = 6
        m = np.array([2.0 ** -(2 * h) for h in range(1, 5)] + [2.0 ** -1, 2.0 ** -3])
        if bug:
            m[4:] = m[:2]
        d = np.abs(np.arange(k_len - q_len, k_len)[:, None] - np.arange(k_len))
        out = np.empty((n, q_len, k_len), np.float32)
        for a in range(0, n, 4):
            out[a:a + 4] = -m[a:a + 4, None, None] * d
        return out

    return bias


case("k230", make, ALiBi(6), "bias",
     "the kernel indexes the slopes by the head's number in its block of four, so heads 4 and 5 have the slopes of heads 0 and 1",
     "slopes-by-block", "add the offset of the block to the head")


# ---- k231: decoding path off by one
def make(bug):
    t = np.random.default_rng(231).normal(size=(32, 4)).astype(np.float32)

    def bias(q_len, k_len):
        q = np.arange(k_len - q_len, k_len)
        if bug and q_len == 1:
            q = q + 1
        return np.moveaxis(t[t5_rows(np.arange(k_len) - q[:, None], both=False)], -1, 0)

    make.enc = T5Bias(t, bidirectional=False)
    return bias


make(False)
case("k231", make, make.enc, "bias",
     "with a single query (decoding) the query is put at k_len instead of k_len - 1, so every distance is one too large",
     "decode-off-by-one", "the query is the last of the k_len tokens")


# ---- k232: standardised over the patches without [CLS]
def make(bug):
    w = 10000.0 ** (-np.arange(0, 16, 2) / 16)

    def full(p):
        a = np.asarray(p, float)[..., None] * w
        return np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], 16)

    ref = full(np.arange(12 if bug else 13))

    def fn(positions):
        return ((full(positions) - ref.mean()) / (10 * ref.std(ddof=1))).astype(np.float32)

    return fn


case("k232", make, StandardizedSinusoidal(16, 13), "table",
     "mean and deviation are taken over the 12 patches without the [CLS] row, which counts in the model",
     "length-without-cls", "standardise over all 13 rows")


# ---- k233: right: cached by exact lengths, read-only views
def make(bug):
    from functools import lru_cache
    t = np.random.default_rng(233).normal(size=(32, 3)).astype(np.float32)

    @lru_cache(maxsize=None)
    def strip(n):
        s = np.ascontiguousarray(t[t5_rows(np.arange(1 - n, n))].T)
        s.setflags(write=False)
        return s

    def bias(q_len, k_len):
        s = np.lib.stride_tricks.sliding_window_view(strip(k_len), k_len, axis=1)[:, ::-1]
        return s[:, k_len - q_len:]

    make.enc = T5Bias(t)
    return bias


make(False)
case("k233", make, make.enc, "bias", "right: a sliding window over the strip of offsets, read-only", "right")
