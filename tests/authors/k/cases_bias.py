"""Author K: biases added to the logits."""
import math

import numpy as np
import torch

from posenc_ref import (
    ALiBi, BEiTBias, ChainBias, ConViTBias, DynamicBias, DynamicWindowBias, FIRE, ForgettingBias,
    Kerple, LeViTBias, LogCPB, ResidueBias, Sandwich, SwinBias, T5Bias,
)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    if surface == "bias" and not getattr(make, "by_length", False):
        inner = make

        def make(bug):
            kernel = inner(bug)
            return lambda q_len, k_len: kernel(np.arange(k_len - q_len, k_len), np.arange(k_len))

    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def table_of(seed, rows, heads):
    return np.random.default_rng(seed).normal(size=(rows, heads)).astype(np.float32)


def offsets(q, k):
    """key - query (..., Q, K)"""
    return np.asarray(k)[..., None, :] - np.asarray(q)[..., :, None]


def heads_first(x):
    return np.moveaxis(x, -1, -3)


def slope_list(n):
    def two(m):
        s = 2.0 ** (-8.0 / m)
        return [s ** (i + 1) for i in range(m)]

    c = 2 ** int(math.floor(math.log2(n)))
    return two(c) if c == n else two(c) + two(2 * c)[0::2][: n - c]


# ---- k044: ALiBi slopes by one geometric series
def make(bug):
    def slopes(n):
        if bug:
            return np.array([2 ** (-8 * (h + 1) / n) for h in range(n)])
        return np.array(slope_list(n))

    return slopes


case("k044", make, ALiBi(12), "slopes",
     "for a number of heads that is no power of two, one geometric series 2^(-8h/n) is used instead of the authors' two series",
     "slopes-not-power-of-two", "interpolate the slopes of the next power of two")


# ---- k045: the extra slopes start one late
def make(bug):
    def slopes(n):
        c = 1 << (n.bit_length() - 1)
        base = [2 ** (-8 * h / c) for h in range(1, c + 1)]
        more = [2 ** (-4 * h / c) for h in range(1, 2 * c + 1)]
        return np.array((base + (more[1::2] if bug else more[0::2]))[:n])

    return slopes


case("k045", make, ALiBi(20), "slopes",
     "the extra heads take slopes 2, 4, 6, ... of the doubled series instead of 1, 3, 5, ..., which repeats slopes of the first heads",
     "slopes-extra-even", "take every second slope from the first")


# ---- k046: tensor parallel halves
def make(bug):
    def bias(q, k):
        n = 16
        if bug:
            m = np.tile(slope_list(8), 2)
        else:
            m = np.array(slope_list(16))
        return -m[:, None, None] * np.abs(offsets(q, k))[..., None, :, :]

    return bias


case("k046", make, ALiBi(16), "bias",
     "each of two tensor-parallel ranks computes slopes for its own 8 heads instead of its part of the slopes of 16",
     "slopes-of-local-heads", "compute the slopes of all heads, then slice")


# ---- k047: query counts from zero in a cache
def make(bug):
    def bias(q_len, k_len):
        m = np.array(slope_list(8))
        q = np.arange(q_len) if bug else np.arange(k_len - q_len, k_len)
        return -(np.abs(q[:, None] - np.arange(k_len)) * m[:, None, None])

    return bias


make.by_length = True
case("k047", make, ALiBi(8, causal=False), "bias",
     "with a cache the queries count from 0 instead of from k_len - q_len", "query-origin-with-cache",
     "start the queries at k_len - q_len")


# ---- k048: bf16 distances
def make(bug):
    def bias(q, k):
        q, k = torch.as_tensor(q), torch.as_tensor(k)
        m = torch.tensor(slope_list(12), dtype=torch.float64)
        d = (k[..., None, :] - q[..., :, None]).abs()
        d = d.to(torch.bfloat16).double() if bug else d.double()
        return (-(m[:, None, None] * d[..., None, :, :])).float()

    return bias


case("k048", make, ALiBi(12, causal=False), "bias",
     "the distances are cast to bfloat16 before the multiplication, which cannot represent all integers above 256",
     "distance-bfloat16", "multiply in float32", backend="torch")


# ---- k049: future keys get zero in a bidirectional model
def make(bug):
    def bias(q, k):
        r = offsets(q, k)
        d = np.minimum(r, 0) if bug else -np.abs(r)
        return np.array(slope_list(6))[:, None, None] * d[..., None, :, :]

    return bias


case("k049", make, ALiBi(6, causal=False), "bias",
     "keys after the query get bias 0 (the causal form), although this encoder attends to both sides with -m|i-j|",
     "future-zero", "use the absolute distance")


# ---- k050: max_bias forgotten in the extra heads
def make(bug):
    def slopes(n):
        c = 2 ** int(math.log2(n))
        m = [2 ** (-4.0 * h / c) for h in range(1, c + 1)]
        x = 8.0 if bug else 4.0
        m += [2 ** (-x * h / (2 * c)) for h in range(1, 2 * c, 2)]
        return np.array(m[:n])

    return slopes


case("k050", make, ALiBi(14, max_bias=4.0), "slopes",
     "the extra heads beyond the power of two use 8 instead of the configured alibi_bias_max 4",
     "max-bias-extra-heads", "pass alibi_bias_max to both series")


def t5_bucket(r, buckets=32, far=128, both=True, cut=None, half=None, sign=1):
    """an exact-enough bucket by float64 logs with a nudge"""
    r = np.asarray(r).astype(np.int64)
    out = np.zeros_like(r)
    nb = buckets
    if both:
        nb //= 2
        out = out + nb * (sign * r > 0)
        n = np.abs(r)
    else:
        n = np.maximum(-r, 0)
    me = nb // 2
    big = me + np.floor(np.log(np.maximum(n, 1) / me) / math.log(far / me) * (nb - me) + 1e-9).astype(np.int64)
    big = np.minimum(big, nb - 1)
    return out + np.where(n < me, n, big)


# ---- k051: direction of the T5 offset
def make(bug):
    t = table_of(51, 32, 6)

    def bias(q, k):
        return heads_first(t[t5_bucket(offsets(q, k), sign=-1 if bug else 1)])

    make.enc = T5Bias(t)
    return bias


make(False)
case("k051", make, make.enc, "bias",
     "the upper half of the buckets is given to keys before the query instead of after it",
     "bucket-direction", "add nb where key - query > 0")


# ---- k052: WavLM's max_distance forgotten
def make(bug):
    t = table_of(52, 64, 4)

    def bias(q, k):
        return heads_first(t[t5_bucket(offsets(q, k), 64, 128 if bug else 800)])

    make.enc = T5Bias(t, num_buckets=64, max_distance=800)
    return bias


make(False)
case("k052", make, make.enc, "bias",
     "max_distance stays at the default 128 instead of the configured 800",
     "max-distance", "pass max_distance=800")


# ---- k053: causal T5 keeps the halved buckets
def make(bug):
    t = table_of(53, 32, 8)

    def bias(q, k):
        r = offsets(q, k)
        n = np.maximum(-r, 0)
        nb = 32
        me = 8 if bug else nb // 2
        big = me + np.floor(np.log(np.maximum(n, 1) / me) / math.log(128 / me) * (nb - me) + 1e-9).astype(int)
        return heads_first(t[np.where(n < me, n, np.minimum(big, nb - 1))])

    make.enc = T5Bias(t, bidirectional=False)
    return bias


make(False)
case("k053", make, make.enc, "bias",
     "max_exact is 8 (a quarter of the buckets, as in the encoder) in the causal decoder, where it is half of all buckets, 16",
     "max-exact", "use num_buckets // 2 exact buckets in the decoder")


# ---- k054: exact boundary belongs to the wrong side
def make(bug):
    def bucket(r):
        r = np.asarray(r, np.int64)
        n = np.abs(r)
        big = 8 + np.floor(np.log(np.maximum(n, 1) / 8) / math.log(16) * 8 + 1e-9).astype(np.int64)
        big = np.minimum(big, 15)
        if bug:
            big = 8 + np.ceil(np.log(np.maximum(n, 1) / 8) / math.log(16) * 8 - 1e-9).astype(np.int64)
            big = np.minimum(big, 15)
        return 16 * (r > 0) + np.where(n < 8, n, big)

    return bucket


case("k054", make, T5Bias(table_of(54, 32, 2)), "bucket",
     "the logarithmic bucket is rounded up (ceil) instead of down (floor), so far distances are one bucket too high",
     "bucket-ceil", "truncate the logarithm")


# ---- k055: bucket in bfloat16
def make(bug):
    def bucket(r):
        r = torch.as_tensor(r).long()
        n = torch.clamp(-r, min=0)
        kind = torch.bfloat16 if bug else torch.float64
        t = torch.log(n.clamp(min=1).to(kind) / 32) / math.log(512 / 32) * 32
        big = 32 + (t + (0 if bug else 1e-9)).long()
        return torch.where(n < 32, n, big.clamp(max=63))

    return bucket


case("k055", make, T5Bias(table_of(55, 64, 2), num_buckets=64, max_distance=512, bidirectional=False), "bucket",
     "the logarithm of the bucket is computed in bfloat16, so many far distances fall into a neighbouring bucket",
     "bucket-bfloat16", "compute the logarithm in float32", backend="torch")


# ---- k056: last bucket clamp
def make(bug):
    t = table_of(56, 32, 4)

    def bias(q, k):
        r = offsets(q, k)
        n, me = np.abs(r), 8
        big = np.floor(np.log(np.maximum(n, 1) / me) / math.log(128 / me) * 8 + 1e-9).astype(int) + me
        big = np.minimum(big, 31 if bug else 15)
        b = np.where(n < me, n, big) + 16 * (r > 0)
        return heads_first(t[np.minimum(b, 31)])

    make.enc = T5Bias(t)
    return bias


make(False)
case("k056", make, make.enc, "bias",
     "the bucket is clamped to num_buckets - 1 = 31 before the direction is added, not to 15, so far keys before the query read rows of the other direction",
     "bucket-clamp", "clamp to nb - 1 of one direction")


# ---- k057: a strip of biases by offset that grows
def make(bug):
    t = table_of(57, 32, 4)
    held = dict(n=0, strip=None)

    def bias(q_len, k_len):
        if k_len > held["n"]:
            held["n"] = k_len
            held["strip"] = t[t5_bucket(np.arange(1 - k_len, k_len))].T
        centre = (k_len if bug else held["n"]) - 1
        r = np.arange(k_len) - np.arange(k_len - q_len, k_len)[:, None]
        return held["strip"][:, r + centre]

    make.enc = T5Bias(t)
    return bias


make.by_length = True
make(False)
case("k057", make, make.enc, "bias",
     "the cached strip of biases by offset is read around the middle of the present length, though it was built for a longer earlier call, so shorter calls after longer ones are shifted",
     "stale-cache-centre", "use the middle of the cached strip")


# ---- k058: T5 scores scaled
def make(bug):
    t = table_of(58, 32, 4)

    def scores(q, k):
        n, m = q.shape[-2], k.shape[-2]
        b = heads_first(t[t5_bucket(offsets(np.arange(m - n, m), np.arange(m)))])
        s = np.matmul(q, np.swapaxes(k, -1, -2))
        if bug:
            s = s / math.sqrt(q.shape[-1])
        return (s + b).astype(q.dtype)

    make.enc = T5Bias(t)
    return scores


make(False)
case("k058", make, make.enc, "scores",
     "q.k is divided by sqrt(d); T5's weights contain this factor", "scale-extra", "do not scale q.k")


# ---- k059: Swin's factor 2h-1
def make(bug):
    h, w = 4, 7
    t = table_of(59, (2 * h - 1) * (2 * w - 1), 3)

    def bias(q, k):
        q, k = np.asarray(q), np.asarray(k)
        dy = (q // w)[:, None] - (k // w)[None]
        dx = (q % w)[:, None] - (k % w)[None]
        row = (dy + h - 1) * (2 * (h if bug else w) - 1) + dx + w - 1
        return heads_first(t[row])

    make.enc = SwinBias(t, window=(h, w))
    return bias


make(False)
case("k059", make, make.enc, "bias",
     "the row offset is multiplied by 2h - 1 instead of 2w - 1, so different offsets share rows in a window that is not square",
     "swin-factor", "multiply by 2w - 1")


# ---- k060: Swin: index columns first
def make(bug):
    h = w = 6
    t = table_of(60, 121, 4)
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="xy" if bug else "ij")).reshape(2, -1)
    rel = (coords[:, :, None] - coords[:, None, :]).transpose(1, 2, 0) + [h - 1, w - 1]
    index = rel[..., 0] * (2 * w - 1) + rel[..., 1]

    def bias(q, k):
        return np.transpose(t[index[np.asarray(q)][:, np.asarray(k)]], (2, 0, 1))

    make.enc = SwinBias(t, window=(h, w))
    return bias


make(False)
case("k060", make, make.enc, "bias",
     "the coordinates come from meshgrid with indexing 'xy', so rows and columns of the window are exchanged",
     "swin-axes", "use indexing='ij'")


# ---- k061: Swin: view without permute
def make(bug):
    h, w, heads = 3, 4, 4
    t = torch.tensor(table_of(61, 35, heads))
    y, x = torch.arange(12) // w, torch.arange(12) % w
    index = (y[:, None] - y + h - 1) * (2 * w - 1) + x[:, None] - x + w - 1

    def bias(q, k):
        full = t[index.reshape(-1)]
        full = full.view(heads, 12, 12) if bug else full.view(12, 12, heads).permute(2, 0, 1)
        return full[:, torch.as_tensor(q).long()][:, :, torch.as_tensor(k).long()].clone()

    make.enc = SwinBias(t, window=(h, w))
    return bias


make(False)
case("k061", make, make.enc, "bias",
     "the gathered entries (N*N, heads) are viewed as (heads, N, N) instead of being permuted, which mixes heads and tokens",
     "view-for-permute", "view as (N, N, heads), then permute", backend="torch")


# ---- k062: Swin v2: normalised by the window of the fine-tuning
def make(bug):
    rng = np.random.default_rng(62)
    hid, hb, out = rng.normal(size=(16, 2)), rng.normal(size=16), rng.normal(size=(4, 16)) * 0.3
    win, pre = (8, 8), (4, 4)

    def bias(q, k):
        q, k = np.asarray(q), np.asarray(k)
        d = np.stack([(q // 8)[:, None] - k // 8, (q % 8)[:, None] - k % 8], -1).astype(float)
        d /= ((win if bug else pre)[0] - 1)
        c = np.sign(d) * np.log2(1 + 8 * np.abs(d)) / 3
        y = np.maximum(c @ hid.T + hb, 0) @ out.T
        return heads_first(16 / (1 + np.exp(-y)))

    make.enc = LogCPB(hid, hb, out, window=win, pretrained_window=pre)
    return bias


make(False)
case("k062", make, make.enc, "bias",
     "the offsets are divided by the present window minus 1 instead of the pretrained window minus 1",
     "cpb-pretrained-window", "normalise by pretrained_window_size - 1")


# ---- k063: Swin v2: natural logarithm without log2(8)
def make(bug):
    rng = np.random.default_rng(63)
    hid, hb, out = rng.normal(size=(12, 2)), rng.normal(size=12), rng.normal(size=(3, 12)) * 0.4
    h, w = 5, 6

    def bias(q, k):
        q, k = np.asarray(q)[:, None], np.asarray(k)[None]
        cols = []
        for d, n in ((q // w - k // w, h), (q % w - k % w, w)):
            v = 8.0 * d / (n - 1)
            cols.append(np.sign(v) * np.log1p(np.abs(v)) / (1.0 if bug else math.log(8)))
        x = np.stack(cols, -1)
        z = np.maximum(np.einsum("qkc,wc->qkw", x, hid) + hb, 0)
        return 16 / (1 + np.exp(-np.einsum("qkw,hw->hqk", z, out)))

    make.enc = LogCPB(hid, hb, out, window=(h, w))
    return bias


make(False)
case("k063", make, make.enc, "bias",
     "the log-spaced offsets are not divided by log(8)", "cpb-log8", "divide by log2(8)")


# ---- k065: BEiT: rows of [CLS] exchanged
def make(bug):
    h, w = 3, 5
    n = 5 * 9 + 3
    t = table_of(65, n, 4)

    def bias(q, k):
        q, k = np.asarray(q)[:, None], np.asarray(k)[None]
        i, j = q - 1, k - 1
        row = (i // w - j // w + h - 1) * (2 * w - 1) + i % w - j % w + w - 1
        a, b = (n - 2, n - 3) if bug else (n - 3, n - 2)
        row = np.where(q == 0, a, np.where(k == 0, b, row))
        row = np.where((q == 0) & (k == 0), n - 1, row)
        return heads_first(t[row])

    make.enc = BEiTBias(t, window=(h, w))
    return bias


make(False)
case("k065", make, make.enc, "bias",
     "the rows n-3 (cls to token) and n-2 (token to cls) are exchanged",
     "cls-rows-swapped", "query [CLS] takes row n-3, key [CLS] row n-2")


# ---- k067: LeViT: signed offsets by python
def make(bug):
    h, w = 4, 6
    t = table_of(67, 24, 4)

    def bias(q, k):
        q, k = np.asarray(q)[:, None], np.asarray(k)[None]
        dy, dx = abs(q // w - k // w), abs(q % w - k % w)
        row = dx * h + dy if bug else dy * w + dx
        return heads_first(t[row])

    make.enc = LeViTBias(t, window=(h, w))
    return bias


make(False)
case("k067", make, make.enc, "bias",
     "the absolute offsets are numbered column-major (dx * h + dy) instead of row-major (dy * w + dx)",
     "levit-index-order", "use |dy| * w + |dx|")


# ---- k069: dynamic bias, key minus query
def make(bug):
    rng = np.random.default_rng(69)
    w = [rng.normal(size=(8, 1)) * 0.3, rng.normal(size=(8, 8)) * 0.3, rng.normal(size=(4, 8)) * 0.3]
    b = [rng.normal(size=8), rng.normal(size=8), rng.normal(size=4)]

    def bias(q, k):
        x = -offsets(q, k)[..., None].astype(float)
        x = np.sign(x) * np.log(np.abs(x) + 1)
        if bug:
            x = np.abs(x)
        for n in range(3):
            x = x @ w[n].T + b[n]
            if n < 2:
                x = x / (1 + np.exp(-x))
        return heads_first(x)

    make.enc = DynamicBias(tuple(w), tuple(b), log_distance=True)
    return bias


make(False)
case("k069", make, make.enc, "bias",
     "the logarithm of the distance loses the sign of the offset, so both directions get the same bias",
     "log-distance-sign", "multiply by sign(i - j)")


# ---- k070: dynamic bias normalised by the length
def make(bug):
    rng = np.random.default_rng(70)
    w = [rng.normal(size=(6, 1)) * 0.1, rng.normal(size=(3, 6)) * 0.5]
    b = [rng.normal(size=6), rng.normal(size=3)]

    def bias(q, k):
        r = -offsets(q, k).astype(float)
        if bug and r.shape[-1] > 1:
            r = r / (r.shape[-1] - 1)
        x = r[..., None] * w[0][:, 0] + b[0]
        x = x / (1 + np.exp(-x))
        return heads_first(x @ w[1].T + b[1])

    make.enc = DynamicBias(tuple(w), tuple(b))
    return bias


make(False)
case("k070", make, make.enc, "bias",
     "the offsets are divided by the number of keys minus 1, so the bias depends on the length of the call",
     "offset-normalised", "feed the plain offset")


# ---- k071: CrossFormer: LayerNorm after the activation
def make(bug):
    rng = np.random.default_rng(71)
    w = [rng.normal(size=(6, 2)), rng.normal(size=(6, 6)), rng.normal(size=(2, 6))]
    b = [rng.normal(size=6), rng.normal(size=6), rng.normal(size=2)]
    g = [rng.normal(size=6), rng.normal(size=6)]
    s = [rng.normal(size=6), rng.normal(size=6)]
    h, wd = 4, 5

    def norm(x, n):
        c = x - x.mean(-1, keepdims=True)
        return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * g[n] + s[n]

    def bias(q, k):
        q, k = np.asarray(q)[:, None], np.asarray(k)[None]
        x = np.stack([q // wd - k // wd, q % wd - k % wd], -1).astype(float)
        for n in range(3):
            x = x @ w[n].T + b[n]
            if n < 2:
                x = norm(np.maximum(x, 0), n) if bug else np.maximum(norm(x, n), 0)
        return heads_first(x)

    make.enc = DynamicWindowBias(tuple(w), tuple(b), tuple(g), tuple(s), window=(h, wd))
    return bias


make(False)
case("k071", make, make.enc, "bias",
     "LayerNorm and ReLU are in the wrong order: ReLU first, then LayerNorm", "norm-after-activation",
     "normalise before the ReLU")


# ---- k072: CrossFormer: (dx, dy)
def make(bug):
    rng = np.random.default_rng(72)
    w = [rng.normal(size=(5, 2)), rng.normal(size=(3, 5))]
    b = [rng.normal(size=5), rng.normal(size=3)]

    def bias(q, k):
        q, k = np.asarray(q), np.asarray(k)
        y = (q // 6)[:, None] - k // 6
        x = (q % 6)[:, None] - k % 6
        z = np.stack([x, y] if bug else [y, x], -1) @ w[0].T + b[0]
        return heads_first(np.maximum(z, 0) @ w[1].T + b[1])

    make.enc = DynamicWindowBias(tuple(w), tuple(b), window=(6, 6))
    return bias


make(False)
case("k072", make, make.enc, "bias",
     "the network gets (dx, dy) instead of (dy, dx)", "network-input-order", "stack dy before dx")


# ---- k073: KERPLE: r2 outside of the logarithm
def make(bug):
    r1, r2 = np.array([0.5, 1.0, 2.0]), np.array([0.3, 1.5, 0.8])

    def bias(q, k):
        d = np.abs(offsets(q, k))[..., None, :, :]
        a, b = r1[:, None, None], r2[:, None, None]
        return -a * b * np.log1p(d) if bug else -a * np.log1p(b * d)

    return bias


case("k073", make, Kerple((0.5, 1.0, 2.0), (0.3, 1.5, 0.8)), "bias",
     "r2 multiplies the logarithm instead of the distance inside it", "kerple-r2-place",
     "compute r1 * log(1 + r2 d)")


# ---- k075: FIRE: denominator by the key count of the call
def make(bug):
    rng = np.random.default_rng(75)
    h, hb, o, ob = rng.normal(size=(8, 1)), rng.normal(size=8), rng.normal(size=(4, 8)), rng.normal(size=4)

    def bias(q, k):
        q, k = np.asarray(q, float)[..., :, None], np.asarray(k, float)[..., None, :]
        d = np.maximum(q - k, 0)
        top = np.maximum(k if bug else q, 64.0)
        x = np.log1p(0.2 * d) / (np.log1p(0.2 * top) + 1e-6)
        return heads_first(np.maximum(x[..., None] * h[:, 0] + hb, 0) @ o.T + ob)

    make.enc = FIRE(h, hb, o, ob, c=0.2, length=64.0)
    return bias


make(False)
case("k075", make, make.enc, "bias",
     "the denominator uses the key's position instead of the query's", "fire-denominator-key",
     "normalise by psi(max(i, L)) of the query")


# ---- k076: FIRE: threshold as a sum
def make(bug):
    rng = np.random.default_rng(76)
    h, hb, o = rng.normal(size=(8, 1)), rng.normal(size=8), rng.normal(size=(2, 8))

    def bias(q, k):
        q, k = np.asarray(q, float)[..., :, None], np.asarray(k, float)[..., None, :]
        d = np.maximum(q - k, 0)
        top = q + 0 * k if bug else np.maximum(q + 0 * k, 100.0)
        x = np.log1p(0.1 * d) / (np.log1p(0.1 * top) + 1e-6)
        return np.einsum("...w,hw->...h", np.maximum(x[..., None] * h[:, 0] + hb, 0), o).swapaxes(-1, -2).swapaxes(-2, -3)

    make.enc = FIRE(h, hb, o, length=100.0)
    return bias


make(False)
case("k076", make, make.enc, "bias",
     "the threshold L is left out: short contexts are normalised by the query's own position",
     "fire-threshold", "use max(i, L) in the denominator")


# ---- k077: Sandwich starts at k = 0
def make(bug):
    d, n = 64, 8
    w = 10000.0 ** (-2 * (np.arange(d // 2) + (0 if bug else 1)) / d)

    def bias(q, k):
        r = offsets(q, k)
        s = np.cos(r[..., None] * w).sum(-1) - d / 2
        return s[..., None, :, :] / (8 * np.arange(1, n + 1) / n)[:, None, None]

    return bias


case("k077", make, Sandwich(8, 64), "bias",
     "the frequencies start at k = 0 as in the Transformer's sinusoids; the paper's sum starts at k = 1",
     "sandwich-first-frequency", "let k run from 1 to d/2")


# ---- k078: forgetting gates, key's own gate included
def make(bug):
    rng = np.random.default_rng(78)
    g = -np.abs(rng.normal(size=(4, 96))) * 0.2

    c = np.cumsum(g, -1)
    e = np.concatenate([np.zeros((4, 1)), c[:, :-1]], -1)

    def bias(q, k):
        q, k = whole(q), whole(k)
        return c[:, q][:, :, None] - (e if bug else c)[:, k][:, None, :]

    make.enc = ForgettingBias(g)
    return bias


def whole(p):
    p = np.asarray(p)
    if p.dtype.kind not in "iu":
        raise ValueError("integers only")
    return p


make(False)
case("k078", make, make.enc, "bias",
     "the sum of log gates includes the gate of the key itself (exclusive cumulative sum for keys), so b(i, i) is not 0",
     "gate-of-key-included", "subtract the inclusive cumulative sum")


# ---- k079: residues: clip then shift of the ring
def make(bug):
    t = table_of(79, 2 * 8 + 1, 5)

    def bias(q, k):
        d = -offsets(q, k)
        p = 20
        s = np.abs(d) % p
        s = np.where(2 * s > p, p - s if bug else s - p, s)
        d = np.sign(d) * s
        return heads_first(t[np.clip(d, -8, 8) + 8])

    make.enc = ResidueBias(t, period=20)
    return bias


make(False)
case("k079", make, make.enc, "bias",
     "the offset across the junction of the cyclic chain loses its reversed sign: the shorter way round has the sign of the long way",
     "cyclic-sign", "use |d| - period (negative) across the junction")


# ---- k080: residues: column minus row
def make(bug):
    t = table_of(80, 65, 6)

    def bias(q, k):
        d = offsets(q, k) if bug else -offsets(q, k)
        return t.T[:, np.clip(d + 32, 0, 64)] if d.ndim == 2 else heads_first(t[np.clip(d + 32, 0, 64)])

    make.enc = ResidueBias(t)
    return bias


make(False)
case("k080", make, make.enc, "bias",
     "the offset is column minus row (ESMFold's) instead of row minus column", "offset-sign",
     "subtract the column's residue from the row's")


def chains(seed, **more):
    rng = np.random.default_rng(seed)
    res = list(range(10, 16)) + list(range(3, 9)) + list(range(1, 5)) + [7, 7, 7, 8]
    asym = [0] * 6 + [1] * 6 + [2] * 4 + [3] * 4
    ent = [0] * 12 + [1] * 4 + [2] * 4
    sym = [0] * 6 + [1] * 6 + [0] * 4 + [0] * 4
    tok = list(range(20))
    r, s = 4, 2
    w = rng.normal(size=(3, 2 * (2 * r + 2) + 1 + 2 * s + 2)).astype(np.float32)
    return ChainBias(w, residue_index=res, asym_id=asym, entity_id=ent, sym_id=sym, token_index=tok,
                     max_offset=r, max_chain=s, **more), w, *map(np.array, (res, asym, ent, sym, tok))


def chain_bias(w, res, asym, ent, sym, tok, r=4, s=2, token_rule="both", other="entity", add=0):
    def bias(q, k):
        q, k = np.asarray(q)[:, None], np.asarray(k)[None]
        one = asym[q] == asym[k]
        same = res[q] == res[k]
        a = np.where(one, np.clip(res[q] - res[k] + r, 0, 2 * r), 2 * r + 1)
        near = one & same if token_rule == "both" else same
        b = np.where(near, np.clip(tok[q] - tok[k] + r, 0, 2 * r), 2 * r + 1)
        e = (ent[q] == ent[k]).astype(int)
        none = (ent[q] != ent[k]) if other == "entity" else one
        c = np.where(none, 2 * s + 1, np.clip(sym[q] - sym[k] + s, 0, 2 * s))
        n = 2 * r + 2
        total = w[:, a].astype(float) + w[:, n + b] + w[:, 2 * n, None, None] * e + w[:, 2 * n + 1 + c]
        return total.astype(np.float32)

    return bias


# ---- k081: token block without the chain test
def make(bug):
    enc, *parts = chains(81)
    make.enc = enc
    return chain_bias(*parts, token_rule="residue" if bug else "both")


make(False)
case("k081", make, make.enc, "bias",
     "the token offset is used for equal residue numbers of different chains as well, not only inside one residue of one chain",
     "token-block-chain", "require the same chain and the same residue")


# ---- k082: which pairs have no chain offset
def make(bug):
    enc, *parts = chains(82)
    make.enc = enc
    return chain_bias(*parts, other="chain" if bug else "entity")


make(False)
case("k082", make, make.enc, "bias",
     "pairs of the same chain get the bin without chain offset (2s + 1), as Algorithm 3 is printed; the weights need it for different entities",
     "chain-bin-rule", "use the bin for different entities")


# ================================================================ right ones
# ---- k084: ALiBi as m * j
def make(bug):
    def bias(q, k):
        m = 2.0 ** -np.arange(1, 9)
        q, k = np.asarray(q, float), np.asarray(k, float)
        b = m[:, None, None] * k[..., None, None, :]
        return np.broadcast_to(b, (*b.shape[:-2], q.shape[-1], b.shape[-1])).copy()

    return bias


case("k084", make, ALiBi(8), "bias", "right: the causal form m * j, which differs by a constant per query", "right")


# ---- k085: T5 buckets by searchsorted on integer thresholds
def make(bug):
    t = table_of(85, 32, 5)
    starts = [1, 2, 3, 4, 5, 6, 7, 8]
    for s in range(1, 8):
        n = 8
        while n ** 8 * 8 ** s < 128 ** s * 8 ** 8:
            n += 1
        starts.append(n)

    def bias(q, k):
        r = offsets(q, k)
        b = np.searchsorted(starts, np.abs(r), side="right")
        return heads_first(t[b + 16 * (r > 0)])

    make.enc = T5Bias(t)
    return bias


make(False)
case("k085", make, make.enc, "bias", "right: thresholds by integer powers and searchsorted", "right")


# ---- k086: Toeplitz strips of T5 in torch
def make(bug):
    t = torch.tensor(table_of(86, 32, 4))
    lut = torch.tensor(t5_bucket(np.arange(-4096, 4097), both=False))

    def bias(q, k):
        r = torch.as_tensor(k)[..., None, :] - torch.as_tensor(q)[..., :, None]
        return t[lut[r.clamp(-4096, 4096).long() + 4096]].movedim(-1, -3).contiguous()

    make.enc = T5Bias(t, bidirectional=False)
    return bias


make(False)
case("k086", make, make.enc, "bias", "right: a table of buckets by offset", "right", backend="torch")


# ---- k087: Swin by a 2-D table slice
def make(bug):
    h, w = 5, 4
    t = table_of(87, 63, 3)
    grid = t.reshape(9, 7, 3)

    def bias(q, k):
        out = np.empty((3, len(q), len(k)), np.float32)
        for a, i in enumerate(np.asarray(q).tolist()):
            y, x = divmod(i, w)
            part = grid[y:y + h, x:x + w][::-1, ::-1].reshape(h * w, 3)
            out[:, a] = part[np.asarray(k)].T
        return out

    make.enc = SwinBias(t, window=(h, w))
    return bias


make(False)
case("k087", make, make.enc, "bias", "right: each query's bias is a flipped slice of the 2-D table", "right")


# ---- k088: KERPLE by base-2 logarithms
def make(bug):
    def bias(q, k):
        d = np.abs(offsets(q, k)).astype(np.float64)
        r = ((0.4, 2.0), (1.3, 0.1), (0.01, 0.01), (3.0, 5.0))
        return np.stack([-(a * math.log(2)) * np.log2(1 + b * d) for a, b in r], axis=-3).astype(np.float32)

    return bias


case("k088", make, Kerple((0.4, 1.3, 0.01, 3.0), (2.0, 0.1, 0.01, 5.0)), "bias",
     "right: base-2 logarithms times ln 2", "right")


# ---- k089: Sandwich without its constant
def make(bug):
    w = np.exp(-math.log(10000.0) * 2 * np.arange(1, 33) / 64)

    def bias(q, k):
        q, k = np.asarray(q, float)[..., None] * w, np.asarray(k, float)[..., None] * w
        s = np.matmul(np.concatenate([np.sin(q), np.cos(q)], -1),
                      np.swapaxes(np.concatenate([np.sin(k), np.cos(k)], -1), -1, -2))
        return s[..., None, :, :] / (8 * np.arange(1, 7) / 6)[:, None, None]

    return bias


case("k089", make, Sandwich(6, 64), "bias", "right: product of sinusoids, without the constant d/2", "right")


# ---- k090: forgetting bias, reverse sums
def make(bug):
    rng = np.random.default_rng(90)
    g = np.log(rng.uniform(0.5, 1, size=(3, 64)))
    c = np.zeros((64, 3, 64))
    for i in range(64):
        run = np.zeros(3)
        for j in range(i, -1, -1):
            c[i, :, j] = run
            run = run + g[:, j]

    def bias(q, k):
        return np.moveaxis(c, 1, 0)[:, whole(q)][:, :, whole(k)].copy()

    make.enc = ForgettingBias(g)
    return bias


make(False)
case("k090", make, make.enc, "bias", "right: sums from the query backwards, 0 for later keys", "right")


# ---- k091: FIRE in torch with Linear layers
def make(bug):
    rng = np.random.default_rng(91)
    h, hb, o, ob = (torch.tensor(rng.normal(size=s)) for s in ((16, 1), (16,), (3, 16), (3,)))

    def bias(q, k):
        q, k = torch.as_tensor(q).double(), torch.as_tensor(k).double()
        rel = (q[..., :, None] - k[..., None, :]).clamp(min=0)
        norm = torch.log(0.5 * q.clamp(min=32.0) + 1)[..., None] + 1e-6
        x = torch.log(0.5 * rel + 1) / norm
        y = torch.nn.functional.linear(torch.relu(torch.nn.functional.linear(x[..., None], h, hb)), o, ob)
        return y.movedim(-1, -3)

    make.enc = FIRE(h, hb, o, ob, c=0.5, length=32.0)
    return bias


make(False)
case("k091", make, make.enc, "bias", "right: the paper's module in torch", "right", backend="torch")


# ---- k092: residue bias by one-hot
def make(bug):
    t = table_of(92, 2 * 6 + 1, 4)

    def bias(q, k):
        d = -offsets(q, k)
        bins = np.arange(-6, 7)
        a = np.abs(np.clip(d, -6, 6)[..., None] - bins).argmin(-1)
        return heads_first(t[a])

    make.enc = ResidueBias(t)
    return bias


make(False)
case("k092", make, make.enc, "bias", "right: nearest bin (argmin) as in Algorithm 4", "right")


# ---- k093: slopes from log space
def make(bug):
    def slopes(n):
        p = 2 ** math.ceil(math.log2(n))
        m = np.power(2.0, -np.arange(1, p + 1) * (8 / p))
        if p == n:
            return m
        return np.concatenate([m[1::2], m[::2]])[:n]

    return slopes


case("k093", make, ALiBi(24), "slopes", "right: MPT's gen_slopes", "right")


# ---- k094: LogCPB computed once for the table of offsets
def make(bug):
    rng = np.random.default_rng(94)
    hid, hb, out = rng.normal(size=(16, 2)), rng.normal(size=16), rng.normal(size=(4, 16)) * 0.3
    h, w = 4, 6
    dy, dx = np.meshgrid(np.arange(1 - h, h) / (h - 1), np.arange(1 - w, w) / (w - 1), indexing="ij")
    c = 8 * np.stack([dy, dx], -1)
    c = np.sign(c) * np.log2(np.abs(c) + 1) / np.log2(8)
    t = 16 / (1 + np.exp(-(np.maximum(c @ hid.T + hb, 0) @ out.T)))

    def bias(q, k):
        q, k = np.asarray(q)[:, None], np.asarray(k)[None]
        return heads_first(t[q // w - k // w + h - 1, q % w - k % w + w - 1])

    make.enc = LogCPB(hid, hb, out, window=(h, w))
    return bias


make(False)
case("k094", make, make.enc, "bias", "right: a table over all offsets, then a gather", "right")
