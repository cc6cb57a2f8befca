"""Author K: whole attention, query scales, sinks; position ids of HunYuan-VL."""
import math

import numpy as np
import torch

from posenc_ref import ALiBi, Kerple, Shaw, T5Bias
import posenc_ref

Attention = posenc_ref.Attention
LogNScale, LogTemperature = posenc_ref.LogNScale, posenc_ref.LogTemperature
PowerTemperature, QueryTemperature = posenc_ref.PowerTemperature, posenc_ref.QueryTemperature

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def seen(n, m):
    return np.arange(m) <= np.arange(m - n, m)[:, None]


def soft(l):
    e = np.exp(l - l.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def spread(x, h):
    return np.repeat(np.asarray(x, np.float64), h // x.shape[-3], axis=-3)


def slopes(n):
    c = 1 << (n.bit_length() - 1)
    return np.array(([2 ** (-8 * i / c) for i in range(1, c + 1)] + [2 ** (-4 * i / c) for i in range(1, 2 * c, 2)])[:n])


def rel(qp, kp):
    q, k = np.asarray(qp, float), np.asarray(kp, float)
    d = q[..., :, None] - k[..., None, :]
    return d if d.ndim == 2 else d[:, None]


# ---- k201: keys repeated by tile
def make(bug):
    def fn(q, k, v, qp, kp):
        h, g = q.shape[-3], q.shape[-3] // k.shape[-3]
        kk, vv = (np.concatenate([x] * g, -3) if bug else np.repeat(x, g, -3) for x in (k.astype(float), v.astype(float)))
        l = q.astype(float) @ np.swapaxes(kk, -1, -2) / math.sqrt(q.shape[-1])
        l = l - slopes(h)[:, None, None] * np.abs(rel(qp, kp))
        return (soft(np.where(seen(*l.shape[-2:]), l, -np.inf)) @ vv).astype(q.dtype)

    return fn


case("k201", make, Attention(ALiBi(8)), "attention",
     "key and value heads are repeated as a whole (tile: head h reads h % H_kv) instead of each head in turn (h // group)",
     "kv-heads-tiled", "use repeat_interleave")


# ---- k202: slopes by key head
def make(bug):
    def fn(q, k, v, qp, kp):
        h, hk = q.shape[-3], k.shape[-3]
        m = slopes(h)
        if bug:
            m = np.repeat(slopes(hk), h // hk)
        l = np.einsum("...hqd,...hkd->...hqk", q.astype(float), spread(k, h)) / math.sqrt(q.shape[-1])
        l = l - m[:, None, None] * np.abs(rel(qp, kp))
        return (soft(np.where(seen(*l.shape[-2:]), l, -np.inf)) @ spread(v, h)).astype(q.dtype)

    return fn


case("k202", make, Attention(ALiBi(8)), "attention",
     "the slopes are computed for the number of key heads and shared inside each group, instead of one slope for each query head",
     "slopes-of-kv-heads", "compute slopes for all query heads")


# ---- k203: causal mask aligned at the top left
def make(bug):
    t = np.random.default_rng(203).normal(size=(32, 4)).astype(np.float32)

    def fn(q, k, v, qp, kp):
        h, n, m = q.shape[-3], q.shape[-2], k.shape[-2]
        d = np.maximum(rel(qp, kp), 0).astype(int)
        big = 16 + np.floor(np.log(np.maximum(d, 1) / 16) / math.log(8) * 16 + 1e-9).astype(int)
        b = np.moveaxis(t[np.where(d < 16, d, np.minimum(big, 31))].astype(float), -1, -3)
        b = b[:, 0] if b.ndim == 5 else b
        l = q.astype(float) @ np.swapaxes(spread(k, h), -1, -2) + (b if b.ndim == 3 else b)
        mask = np.tril(np.ones((n, m), bool)) if bug else seen(n, m)
        return (soft(np.where(mask, l, -np.inf)) @ spread(v, h)).astype(q.dtype)

    make.enc = Attention(T5Bias(t, bidirectional=False))
    return fn


make(False)
case("k203", make, make.enc, "attention",
     "the causal mask is aligned at the top left (tril, SDPA's is_causal) instead of the bottom right, so with a cache the queries see too few keys",
     "causal-mask-top-left", "shift the diagonal by K - Q")


# ---- k204: sinks times the softmax scale
def make(bug):
    def fn(q, k, v, qp, kp, sinks):
        h, s = q.shape[-3], 1 / math.sqrt(q.shape[-1])
        l = q.astype(float) @ np.swapaxes(spread(k, h), -1, -2)
        l = np.where(seen(*l.shape[-2:]), l, -np.inf)
        c = np.broadcast_to(np.asarray(sinks, float)[:, None, None], (*l.shape[:-1], 1))
        a = soft(np.concatenate([l, c], -1) * s) if bug else soft(np.concatenate([l * s, c], -1))
        return (a[..., :-1] @ spread(v, h)).astype(q.dtype)

    return fn


case("k204", make, Attention(None, sinks=True), "attention",
     "the sink's logit is multiplied by 1/sqrt(d) together with q.k", "sink-scaled",
     "append the sink after the scaling")


# ---- k205: sink left out of the running maximum's rescale
def make(bug):
    def fn(q, k, v, qp, kp, sinks):
        h = q.shape[-3]
        l = q.astype(float) @ np.swapaxes(spread(k, h), -1, -2) / math.sqrt(q.shape[-1])
        l = np.where(seen(*l.shape[-2:]), l, -np.inf)
        top = l.max(-1, keepdims=True)
        e = np.exp(l - top)
        s = np.asarray(sinks, float)[:, None, None]
        z = e.sum(-1, keepdims=True) + np.exp(s if bug else s - top)
        return ((e / z) @ spread(v, h)).astype(q.dtype)

    return fn


case("k205", make, Attention(None, sinks=True), "attention",
     "exp(sink) is added to the denominator without subtracting the row maximum that the other terms are shifted by",
     "sink-not-shifted", "add exp(sink - max)")


# ---- k206: Llama 4's temperature without the floor
def make(bug):
    def fn(q, k, v, qp, kp):
        h = q.shape[-3]
        p = np.asarray(qp, float) / 16
        f = 1 + 0.3 * np.log1p(p if bug else np.floor(p))
        f = f[..., None] if f.ndim == 1 else f[:, None, :, None]
        l = (q.astype(float) * f) @ np.swapaxes(spread(k, h), -1, -2) / math.sqrt(q.shape[-1])
        return (soft(np.where(seen(*l.shape[-2:]), l, -np.inf)) @ spread(v, h)).astype(q.dtype)

    return fn


case("k206", make, Attention(None, query_scale=QueryTemperature(0.3, 16)), "attention",
     "the temperature grows continuously because the floor of p / original_max_position is missing",
     "temperature-floor", "apply floor before the logarithm")


# ---- k207: log-n scale of the whole length
def make(bug):
    def fn(q, k, v, qp, kp):
        h = q.shape[-3]
        p = np.asarray(qp, float)
        if bug:
            p = np.full_like(p, np.asarray(kp).max())
        f = np.maximum(1.0, np.log(p + 1) / math.log(12))
        f = f[..., None] if f.ndim == 1 else f[:, None, :, None]
        l = (q.astype(float) * f) @ np.swapaxes(spread(k, h), -1, -2) / math.sqrt(q.shape[-1])
        return (soft(np.where(seen(*l.shape[-2:]), l, -np.inf)) @ spread(v, h)).astype(q.dtype)

    return fn


case("k207", make, Attention(None, query_scale=LogNScale(12)), "attention",
     "every query gets the log-n factor of the last position, that of the whole length, instead of its own",
     "logn-of-length", "use each query's own position")


# ---- k208: log temperature clipped at the wrong side
def make(bug):
    def fn(q, k, v, qp, kp):
        h = q.shape[-3]
        n = (np.asarray(qp, float) + 1) / 8
        f = 1 + 0.5 * (np.log1p(n) if bug else np.log(np.maximum(1, n)))
        f = f[..., None] if f.ndim == 1 else f[:, None, :, None]
        l = np.einsum("...qd,...kd->...qk", q * f, spread(k, h)) / math.sqrt(q.shape[-1])
        return (soft(np.where(seen(*l.shape[-2:]), l, -np.inf)) @ spread(v, h)).astype(q.dtype)

    return fn


case("k208", make, Attention(None, query_scale=LogTemperature(0.5, 8)), "attention",
     "the factor is 1 + beta ln(1 + (p+1)/length) (another model's) instead of 1 + beta ln(max(1, (p+1)/length))",
     "temperature-formula", "clamp at 1 instead of adding 1")


# ---- k210: online softmax without rescaling the accumulator
def make(bug):
    def fn(q, k, v, qp, kp):
        h, m = q.shape[-3], k.shape[-2]
        kk, vv = spread(k, h), spread(v, h)
        mask = seen(q.shape[-2], m)
        bias = -slopes(h)[:, None, None] * np.abs(rel(qp, kp))
        bias = np.broadcast_to(bias, (*q.shape[:-1], m))
        top = np.full((*q.shape[:-1], 1), -1e30)
        z, o = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]))
        for a in range(0, m, 8):
            l = q.astype(float) @ np.swapaxes(kk[..., a:a + 8, :], -1, -2) / math.sqrt(q.shape[-1]) + bias[..., a:a + 8]
            l = np.where(mask[:, a:a + 8], l, -np.inf)
            new = np.maximum(top, l.max(-1, keepdims=True))
            r, e = np.exp(top - new), np.exp(l - new)
            z = z * r + e.sum(-1, keepdims=True)
            o = o * (1.0 if bug else r) + e @ vv[..., a:a + 8, :]
            top = new
        return (o / z).astype(q.dtype)

    return fn


case("k210", make, Attention(ALiBi(6)), "attention",
     "in the tiled softmax the accumulated output is not rescaled when a later tile of 8 keys raises the maximum (the denominator is)",
     "accumulator-not-rescaled", "multiply the accumulator by exp(old - new)")


# ---- k211: weights in bfloat16
def make(bug):
    def fn(q, k, v, qp, kp):
        h = q.shape[1]
        kk, vv = (x.repeat_interleave(h // x.shape[1], 1).double() for x in (k, v))
        i, j = torch.as_tensor(qp).double(), torch.as_tensor(kp).double()
        d = (i[..., :, None] - j[..., None, :]).abs()
        d = d if d.ndim == 2 else d[:, None]
        l = q.double() @ kk.mT / math.sqrt(q.shape[-1])
        l = l - torch.log1p(0.5 * d)
        n, m = l.shape[-2:]
        l = l.masked_fill(~torch.ones(n, m, dtype=torch.bool).tril(m - n), -torch.inf)
        a = l.softmax(-1)
        if bug:
            a = a.to(torch.bfloat16).double()
        return (a @ vv).to(q.dtype)

    return fn


case("k211", make, Attention(Kerple((1.0,) * 4, (0.5,) * 4)), "attention",
     "the attention weights are rounded to bfloat16 before they meet the float32 values", "weights-bfloat16",
     "keep the weights in float32", backend="torch")


# ---- k212: an encoder with a causal mask
def make(bug):
    def fn(q, k, v, qp, kp):
        h = q.shape[-3]
        l = q.astype(float) @ np.swapaxes(spread(k, h), -1, -2) / math.sqrt(q.shape[-1])
        l = l - slopes(h)[:, None, None] * np.abs(rel(qp, kp))
        if bug:
            l = np.where(seen(*l.shape[-2:]), l, -np.inf)
        return (soft(l) @ spread(v, h)).astype(q.dtype)

    return fn


case("k212", make, Attention(ALiBi(4, causal=False), causal=False), "attention",
     "a causal mask is applied in a bidirectional encoder", "causal-in-encoder", "do not mask later keys")


def xd(types, grids, mask, n_steps, merge=2, across_rows=False, order="wh"):
    types, mask = np.asarray(types), np.asarray(mask) == 1
    b, s = types.shape
    out = np.zeros((4, b, s + n_steps), np.int64)
    left = [(int(h) // merge, int(w) // merge) for _, h, w in np.asarray(grids).reshape(-1, 3)]
    number = 0
    for r in range(b):
        at = np.flatnonzero(mask[r])
        row = types[r, at]
        out[:, r, at] = np.arange(at.size)
        out[:, r, s:] = at.size + np.arange(n_steps)
        if not across_rows:
            number = 0
        n = 0
        while n < at.size:
            if row[n] != 1:
                n += 1
                continue
            e = n
            while e < at.size and row[e] == 1:
                e += 1
            h, w = left.pop(0)
            first = n + (e - n - h * (w + 1)) // 2
            for t in range(h * (w + 1)):
                y, x = divmod(t, w + 1)
                place = at[first + t]
                out[1:, r, place] = (x, y, number) if order == "wh" else (y, x, number)
            number += 1
            n = e
    return out


hunyuan = posenc_ref.mrope_rule("hunyuan_vl")

# ---- k214: images counted over the batch
case("k214", lambda bug: lambda t, i, v, sec, m, n: xd(t, i, m, n, across_rows=bug), hunyuan, "mrope_position_ids",
     "the number of an image goes on from one row of the batch to the next instead of starting at 0 in every row",
     "image-number-over-batch", "reset the image counter for each row")

# ================================================================ right
# ---- k216: tiles
def make(bug):
    def fn(q, k, v, qp, kp):
        h, m = q.shape[-3], k.shape[-2]
        kk, vv = spread(k, h), spread(v, h)
        mask = seen(q.shape[-2], m)
        bias = np.broadcast_to(-slopes(h)[:, None, None] * np.abs(rel(qp, kp)), (*q.shape[:-1], m))
        top = np.full((*q.shape[:-1], 1), -1e30)
        z, o = np.zeros_like(top), np.zeros((*q.shape[:-1], v.shape[-1]))
        for a in reversed(range(0, m, 5)):
            l = q.astype(float) @ np.swapaxes(kk[..., a:a + 5, :], -1, -2) / math.sqrt(q.shape[-1]) + bias[..., a:a + 5]
            l = np.where(mask[:, a:a + 5], l, -1e30)
            new = np.maximum(top, l.max(-1, keepdims=True))
            e = np.where(mask[:, a:a + 5], np.exp(l - new), 0)
            r = np.exp(top - new)
            z, o, top = z * r + e.sum(-1, keepdims=True), o * r + e @ vv[..., a:a + 5, :], new
        return (o / z).astype(q.dtype)

    return fn


case("k216", make, Attention(ALiBi(6)), "attention", "right: online softmax over tiles from the last", "right")


# ---- k217: grouped by reshape
def make(bug):
    def fn(q, k, v, qp, kp, sinks):
        b, h, n, d = q.shape
        hk, m = k.shape[1], k.shape[2]
        qq = q.astype(float).reshape(b, hk, h // hk, n, d)
        l = np.einsum("bgrqd,bgkd->bgrqk", qq, k.astype(float)) / math.sqrt(d)
        l = np.where(seen(n, m), l, -np.inf)
        s = np.asarray(sinks, float).reshape(hk, h // hk, 1, 1)
        lse = np.log(np.exp(l - l.max(-1, keepdims=True)).sum(-1, keepdims=True)) + l.max(-1, keepdims=True)
        o = np.einsum("bgrqk,bgkd->bgrqd", np.exp(l - lse), v.astype(float))
        return (o / (1 + np.exp(s - lse))).reshape(b, h, n, -1).astype(q.dtype)

    return fn


case("k217", make, Attention(None, sinks=True), "attention",
     "right: the output without sink times sigmoid(lse - sink)", "right")


# ---- k218: temperature on the logits
def make(bug):
    def fn(q, k, v, qp, kp):
        h = q.shape[-3]
        f = np.maximum(0, np.log(np.asarray(qp, float) + 1) / math.log(16) - 1) + 1
        f = f[..., None] if f.ndim == 1 else f[:, None, :, None]
        l = (q.astype(float) @ np.swapaxes(spread(k, h), -1, -2)) * (f / math.sqrt(q.shape[-1]))
        return (soft(np.where(seen(*l.shape[-2:]), l, -np.inf)) @ spread(v, h)).astype(q.dtype)

    return fn


case("k218", make, Attention(None, query_scale=LogNScale(16)), "attention", "right: the factor on the logits", "right")
