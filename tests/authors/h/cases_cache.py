"""Offsets, decoding, caches, gradients, pairs of q and k, weights, logits. Wrong ones."""
import math

import numpy as np
import torch

from posenc_ref import (DynamicNTK, Llama3Scaling, LongRoPE, LinearScaling, RoPE, XPos, YaRN, preset)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def half_turn(x, ang):
    """Half-split rotation by angles that broadcast to (B, H, S, D/2)."""
    a, b = np.split(x, 2, -1)
    c, s = np.cos(ang), np.sin(ang)
    return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


def pair_turn(x, ang):
    z = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(1j * ang)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


def angles(p, w):
    a = np.asarray(p)[..., None] * w
    return a[:, None] if a.ndim == 3 else a


# ---- h061: scalar offset of the first row
def make(bug):
    def apply_offset(x, offset):
        off = np.asarray(offset)
        start = np.full_like(off, off[0]) if bug else off
        p = start[:, None] + np.arange(x.shape[2])
        return half_turn(x, angles(p, inv(x.shape[-1])))
    return apply_offset
case("h061", make, RoPE(64, layout="half"), "apply_offset",
     "offset[0] is used as the offset of the whole batch, so rows with another cache length get wrong positions.",
     "offset-of-first-row", "use offset[b] for row b")


# ---- h062: one-token step at offset - 1
def make(bug):
    def apply_offset(x, offset):
        B, H, S, D = x.shape
        out = np.zeros_like(x)
        for b in range(B):
            cache_len = int(offset[b])
            first = cache_len - 1 if bug and S == 1 and cache_len > 0 else cache_len
            for t in range(S):
                ang = (first + t) * inv(D)
                out[b, :, t] = pair_turn(x[b, :, t], ang)
        return out
    return apply_offset
case("h062", make, RoPE(32, layout="interleaved"), "apply_offset",
     "The path for one token treats the offset as the length after the token and rotates it to offset - 1.",
     "decode-off-by-one", "rotate the new token to offset")


# ---- h063: a slice of the table whose start is clamped, like lax.dynamic_slice
def make(bug):
    ROWS = 2048

    def apply_offset(x, offset):
        B, H, S, D = x.shape
        out = np.empty_like(x)
        for b, start in enumerate(np.asarray(offset).tolist()):
            if bug:
                start = max(min(start, ROWS - S), 0)
            ang = np.arange(start, start + S)[:, None] * inv(D)
            out[b] = half_turn(x[b], ang)
        return out
    return apply_offset
case("h063", make, RoPE(32, layout="half"), "apply_offset",
     "Rows are taken from a table of 2048 by a slice whose start is clamped to 2048 - S (dynamic_slice), so rows with offset + S > 2048 are rotated to positions that are too low.",
     "slice-clamps", "make the table longer than offset + S")


# ---- h064: offsets aligned with heads
def make(bug):
    def apply_offset(x, offset):
        B, H, S, D = x.shape
        p = np.asarray(offset)[:, None] + np.arange(S)           # (B, S)
        if bug and B == H:
            a = p[None, :, :, None] * inv(D)                       # offsets on the axis of heads
        else:
            a = p[:, None, :, None] * inv(D)
        return half_turn(x, a)
    return apply_offset
case("h064", make, RoPE(64, layout="half"), "apply_offset",
     "If there are as many rows as heads, the offsets are broadcast over the axis of heads: head h of every row starts at offset[h].",
     "offset-by-head", "add the axis of heads before broadcasting")


# ---- h065: calls: cos/sin cached by sequence length
def make(bug):
    class Rope:
        def __init__(self):
            self.store = {}

        def forward(self, x, offset):
            key = x.shape[2] if bug else (x.shape[2], offset)
            if key not in self.store:
                a = np.arange(offset, offset + x.shape[2])[:, None] * inv(x.shape[-1])
                self.store[key] = (np.cos(a), np.sin(a))
            c, s = self.store[key]
            a, b = np.split(x, 2, -1)
            return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)

    rope = Rope()

    def calls(pairs):
        r = rope if not bug else Rope()
        return [r.forward(x, o) for x, o in pairs]
    return calls
case("h065", make, RoPE(64, layout="half"), "calls",
     "cos and sin are cached by the number of tokens alone, so a call with the same number of tokens and another offset gets the tables of the earlier offset.",
     "cache-key", "include the offset in the key")


# ---- h066: calls: linear scaling applied in place in each call
def make(bug):
    def calls(pairs):
        scaled = inv(32) if bug else inv(32) / 4.0
        out = []
        for x, o in pairs:
            if bug:
                scaled /= 4.0
            out.append(pair_turn(x, (o + np.arange(x.shape[2]))[:, None] * scaled))
        return out
    return calls
case("h066", make, RoPE(32, layout="interleaved", scaling=LinearScaling(4.0)), "calls",
     "Every call divides inv_freq by the factor in place, so the second call has frequencies divided by 16, the third by 64.",
     "scaled-again", "scale once, in the constructor")


# ---- h067: calls: dynamic NTK never resets
def make(bug):
    def calls(pairs):
        longest = 0
        out = []
        for x, o in pairs:
            n = o + x.shape[2]
            longest = max(longest, n)
            L = max(longest if bug else n, 64)
            d = x.shape[-1]
            alpha = 2.0 * L / 64 - 1.0
            w = inv(d, 10000.0 * alpha ** (d / (d - 2)))
            out.append(half_turn(x, (o + np.arange(x.shape[2]))[:, None] * w))
        return out
    return calls
case("h067", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 64)), "calls",
     "After a long call the enlarged base is kept, so later short calls are rotated with the frequencies of the longest call so far.",
     "never-reset", "reset the frequencies for shorter calls")


# ---- h068: calls: table grown from the wrong row
def make(bug):
    class Table:
        def __init__(self, d):
            self.w, self.n = inv(d), 32
            self.ang = np.arange(32)[:, None] * self.w

        def rows(self, a, b):
            while b > self.n:
                start = self.n + 1 if bug else self.n
                new = np.arange(start, start + self.n)
                self.ang = np.vstack([self.ang, new[:, None] * self.w])
                self.n *= 2
            return self.ang[a:b]

    def calls(pairs):
        t = None
        out = []
        for x, o in pairs:
            if o > 1 << 18:
                raise ValueError("too long")
            t = t or Table(x.shape[-1])
            out.append(half_turn(x, t.rows(o, o + x.shape[2])))
        return out
    return calls
case("h068", make, RoPE(16, layout="half"), "calls",
     "When the table of 32 rows is doubled, the new rows start at position n + 1 instead of n, so every row from 32 on holds the angles of the next position.",
     "growth-off-by-one", "continue the table at row n")


# ---- h069: decode: counter by calls
def make(bug):
    def decode(x, chunks):
        past, out, at = 0, [], 0
        for n in chunks:
            part = x[:, :, at:at + n]
            p = past + torch.arange(n)
            f = p[:, None].double() * torch.tensor(inv(x.shape[-1]))
            u, v = part.double().chunk(2, -1)
            out.append(torch.cat([u * f.cos() - v * f.sin(), v * f.cos() + u * f.sin()], -1).to(x.dtype))
            past += 1 if bug else n
            at += n
        return torch.cat(out, 2)
    return decode
case("h069", make, RoPE(64, layout="half"), "decode",
     "The position counter grows by 1 for each call instead of by the number of tokens, so tokens after a prompt of n start at 1 instead of n.",
     "counts-calls", "add the number of tokens", backend="torch")


# ---- h070: decode: all tokens of a later chunk at one position
def make(bug):
    def decode(x, chunks):
        w = inv(x.shape[-1])
        done, out = 0, np.empty_like(x)
        for i, n in enumerate(chunks):
            p = done + np.arange(n)
            if bug and i > 0:
                p = np.full(n, done)
            out[:, :, done:done + n] = pair_turn(x[:, :, done:done + n], p[:, None] * w)
            done += n
        return out
    return decode
case("h070", make, RoPE(32, layout="interleaved"), "decode",
     "After the prompt a step is assumed to have one token: all tokens of a later chunk get the position of its first one (speculative decoding).",
     "chunk-one-position", "use past + arange(n)")


# ---- h071: decode: counter by all rows of the batch
def make(bug):
    class Layer:
        def __init__(self, d):
            self.w, self.pos = inv(d), 0

        def step(self, x):
            y = half_turn(x, (self.pos + np.arange(x.shape[2]))[:, None] * self.w)
            self.pos += x[..., 0, :, 0].size if bug else x.shape[2]
            return y

    def decode(x, chunks):
        layer = Layer(x.shape[-1])
        cuts = np.cumsum(chunks)[:-1]
        return np.concatenate([layer.step(c) for c in np.split(x, cuts, axis=2)], 2)
    return decode
case("h071", make, RoPE(64, layout="half"), "decode",
     "The position counter grows by the tokens of all rows of the batch, B times too fast.",
     "counts-batch", "count the tokens of one row")


# ---- h072: decode: sliding window, position is slot in the ring
def make(bug):
    WINDOW = 256

    def decode(x, chunks):
        S = x.shape[2]
        slot = np.arange(S)
        if bug:
            slot = slot % WINDOW
        return half_turn(x, slot[:, None] * inv(x.shape[-1], 1e6))
    return decode
case("h072", make, RoPE(64, layout="half", base=1e6), "decode",
     "The slot in the rolling buffer of 256 keys is used as position, so position 256 is rotated like 0.",
     "ring-slot", "keep the absolute position beside the slot")


# ---- h073: decode, chunked prefill: second chunk from the length of the first on, but third from chunk length only
def make(bug):
    def decode(x, chunks):
        out, start, last = [], 0, 0
        for n in chunks:
            begin = last if bug else start
            seg = x[:, :, start:start + n]
            out.append(pair_turn(seg, (begin + np.arange(n))[:, None] * inv(x.shape[-1])))
            last = n
            start += n
        return np.concatenate(out, axis=2)
    return decode
case("h073", make, RoPE(48, layout="interleaved"), "decode",
     "The offset of a chunk is the length of the previous chunk instead of the sum of all previous chunks, so it is wrong from the third chunk on.",
     "previous-chunk", "sum the lengths of all earlier chunks")


# ---- h074: key cache: keys keep the frequencies of their own step
def make(bug):
    d, L0, s = 64, 32, 2.0

    def freqs(n):
        n = max(n, L0)
        return inv(d, 10000.0 * (s * n / L0 - (s - 1)) ** (d / (d - 2)))

    def key_cache(k, chunks):
        if not bug:
            return half_turn(k, np.arange(k.shape[2])[:, None] * freqs(k.shape[2]))
        cached, n = [], 0
        for c in chunks:
            w = freqs(n + c)
            cached.append(half_turn(k[:, :, n:n + c], np.arange(n, n + c)[:, None] * w))
            n += c
        return np.concatenate(cached, 2)
    return key_cache
case("h074", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 32)), "key_cache",
     "Rotated keys stay in the cache with the frequencies of the length at which they came, although dynamic NTK has changed the base since.",
     "stale-keys", "cache raw keys and rotate them again")


# ---- h075: key cache: LongRoPE re-rotates from the switch on only
def make(bug):
    d, L0 = 32, 48
    short = np.linspace(1.0, 1.3, 16)
    long = np.linspace(1.0, 24.0, 16)
    m = 1.0 if False else math.sqrt(1 + math.log(4.0) / math.log(L0))

    def key_cache(k, chunks):
        n, raw, done, kind = 0, [], None, None
        for c in chunks:
            raw.append(k[:, :, n:n + c])
            n += c
            now = "long" if n > L0 else "short"
            w = inv(d) / (long if now == "long" else short)
            if done is None or (now != kind and not bug):
                allk = np.concatenate(raw, 2)
                done = m * half_turn(allk.astype(np.float64), np.arange(n)[:, None] * w)
            else:
                new = m * half_turn(raw[-1].astype(np.float64), np.arange(n - c, n)[:, None] * w)
                done = np.concatenate([done, new], 2)
            kind = now
        return done.astype(k.dtype)
    return key_cache
case("h075", make, RoPE(32, layout="half", scaling=LongRoPE(
         list(np.linspace(1.0, 1.3, 16)), list(np.linspace(1.0, 24.0, 16)), 48, factor=4.0)), "key_cache",
     "When the length passes L0, LongRoPE's long list is used for new keys only; the keys in the cache keep the short list.",
     "stale-list", "rotate the whole cache again at the switch")


# ---- h076: key cache: base of the length before the last chunk
def make(bug):
    d, L0, s = 64, 16, 4.0

    def key_cache(k, chunks):
        total = int(sum(chunks))
        n = total - int(chunks[-1]) if bug and len(chunks) > 1 else total
        n = max(n, L0)
        w = inv(d, 10000.0 * (s * n / L0 - (s - 1)) ** (d / (d - 2)))
        return pair_turn(k, np.arange(total)[:, None] * w)
    return key_cache
case("h076", make, RoPE(64, layout="interleaved", scaling=DynamicNTK(4.0, 16)), "key_cache",
     "The cache is rotated with the frequencies of the length before the last chunk was added.",
     "length-before-append", "update the length first")


# ---- h077: shift with m again
def yarn(d, base, s, L0):
    f = inv(d, base)
    corr = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
    lo, hi = max(math.floor(corr(32)), 0), min(math.ceil(corr(1)), d - 1)
    r = np.clip((np.arange(d // 2) - lo) / max(hi - lo, 0.001), 0, 1)
    return f * (1 - r) + f / s * r


def make(bug):
    w, m = yarn(64, 10000.0, 4.0, 8192), 0.1 * math.log(4.0) + 1

    def shift(k, delta):
        y = half_turn(k.astype(np.float64), np.full((k.shape[2], 1), delta) * w)
        return (y * m if bug else y).astype(k.dtype)
    return shift
case("h077", make, RoPE(64, layout="half", scaling=YaRN(4.0, 8192)), "shift_keys",
     "The shift of cached keys multiplies by the attention factor once more, which the keys already have.",
     "factor-on-shift", "shift with cos and sin without m")


# ---- h078: K-shift with unscaled frequencies
def make(bug):
    f = inv(64, 500000.0)
    r = 8192 * f / (2 * np.pi)
    t = np.clip((r - 1) / 3, 0, 1)
    w = f * ((1 - t) / 32 + t)

    def shift(k, delta):
        return half_turn(k, delta * (f if bug else w))
    return shift
case("h078", make, RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192)), "shift_keys",
     "The K-shift uses the plain frequencies without Llama 3's scaling.",
     "shift-unscaled", "shift with the frequencies of the keys")


# ---- h079: shift reads the pairs of the input layout although keys were written half-split
def make(bug):
    def shift(k, delta):
        a = delta * inv(64)
        y = k.copy()
        rope = k[..., 128:]
        y[..., 128:] = pair_turn(rope, a) if bug else half_turn(rope, a)
        return y
    return shift
case("h079", make, RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128, output_layout="half"), "shift_keys",
     "Cached keys are half-split after the rotation, but the shift turns interleaved pairs (2k, 2k+1) of them.",
     "shift-layout", "shift in the output layout")


# ---- h080: shift forward for negative deltas
def make(bug):
    def shift(k, delta):
        w = torch.tensor(inv(32))
        a = (abs(delta) if bug else delta) * w
        e, o = k[..., ::2].double(), k[..., 1::2].double()
        return torch.stack([e * a.cos() - o * a.sin(), e * a.sin() + o * a.cos()], -1).flatten(-2).to(k.dtype)
    return shift
case("h080", make, RoPE(32, layout="interleaved"), "shift_keys",
     "The shift uses the absolute value of delta, so keys that should move back move forward.",
     "shift-sign", "keep the sign of delta", backend="torch")


# ---- h081: eviction moves the sinks too
def make(bug):
    def evict(k, kept, dropped):
        w = inv(k.shape[-1])
        left = np.concatenate([k[:, :, :kept], k[:, :, kept + dropped:]], 2)
        delta = np.zeros(left.shape[2])
        delta[0 if bug else kept:] = -dropped
        return half_turn(left, delta[:, None] * w)
    return evict
case("h081", make, RoPE(64, layout="half"), "evict_keys",
     "All remaining keys are moved back by dropped positions, also the kept first keys, whose positions become negative.",
     "moves-sinks", "move only the keys after the hole")


# ---- h082: eviction moves by kept + dropped
def make(bug):
    def evict(k, kept, dropped):
        w = inv(k.shape[-1])
        tail = k[:, :, kept + dropped:]
        n = kept + dropped if bug else dropped
        return np.concatenate([k[:, :, :kept], pair_turn(tail, -n * w)], 2)
    return evict
case("h082", make, RoPE(64, layout="interleaved"), "evict_keys",
     "Keys after the hole are moved back by kept + dropped positions instead of dropped.",
     "moves-too-far", "move by dropped")


# ---- h083: vjp is the forward rotation
def make(bug):
    def vjp(x, positions, dy):
        a = angles(positions, inv(dy.shape[-1]))
        return half_turn(dy, a if bug else -a)
    return vjp
case("h083", make, RoPE(64, layout="half"), "apply_vjp",
     "The backward kernel rotates dy by +angle, like the forward one, instead of by -angle.",
     "vjp-sign", "negate sin in the backward pass")


# ---- h084: vjp divides by m
def make(bug):
    w, m = yarn(64, 1e6, 8.0, 8192), 0.1 * math.log(8.0) + 1

    def vjp(x, positions, dy):
        f = positions[..., None].double() * torch.tensor(w)
        f = f[:, None] if f.ndim == 3 else f
        u, v = dy.double().chunk(2, -1)
        g = torch.cat([u * f.cos() + v * f.sin(), v * f.cos() - u * f.sin()], -1)
        return (g / m if bug else g * m).to(dy.dtype)
    return vjp
case("h084", make, RoPE(64, layout="half", base=1e6, scaling=YaRN(8.0, 8192)), "apply_vjp",
     "The gradient is the inverse (divided by the attention factor m) instead of the transpose (multiplied by m).",
     "vjp-inverse", "multiply by m", backend="torch")


# ---- h085: vjp: zeros for the channels that pass through
def make(bug):
    def vjp(x, positions, dy):
        r = 20
        a = angles(positions, inv(r))
        g = np.zeros_like(dy) if bug else dy.copy()
        g[..., :r] = half_turn(dy[..., :r], -a)
        return g
    return vjp
case("h085", make, RoPE(80, layout="half", rotary_dim=20), "apply_vjp",
     "The backward pass writes the rotated slice into zeros, so channels that pass through get no gradient.",
     "vjp-passed", "copy dy for the channels that pass through")


# ---- h086: vjp of output_layout not permuted back
def make(bug):
    def vjp(x, positions, dy):
        r = 64
        a = angles(positions, inv(r))
        g = dy.copy()
        t = half_turn(dy[..., 128:], -a)
        if not bug:
            t = np.stack([t[..., :32], t[..., 32:]], -1).reshape(t.shape)
        g[..., 128:] = t
        return g
    return vjp
case("h086", make, RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128, output_layout="half"), "apply_vjp",
     "The forward pass turns interleaved pairs into half-split ones; the backward pass rotates back but leaves the gradient in half-split order.",
     "vjp-layout", "interleave the gradient again")


# ---- h087: k uses the first rows of q's table
def make(bug):
    def apply_qk(q, k, qp, kp):
        w = inv(q.shape[-1])
        qa, ka = angles(qp, w), angles(kp, w)
        if bug and q.shape[2] == k.shape[2]:
            ka = qa
        elif bug:
            ka = angles(np.arange(k.shape[2]), w)
        return half_turn(q, qa), half_turn(k, ka)
    return apply_qk
case("h087", make, RoPE(64, layout="half"), "apply_qk",
     "Keys do not use k_positions: they get the query positions if there are as many keys as queries, and 0, 1, 2, ... otherwise.",
     "keys-ignore-positions", "rotate keys by k_positions")


# ---- h088: DeepSeek: only q de-interleaved
def make(bug):
    def order(t):
        return np.concatenate([t[..., 0::2], t[..., 1::2]], -1)

    def turn(t, a, convert):
        head, rope = t[..., :128], t[..., 128:]
        rope = order(rope) if convert else rope
        return np.concatenate([head, half_turn(rope, a)], -1)

    def apply_qk(q, k, qp, kp):
        w = inv(64)
        return turn(q, angles(qp, w), True), turn(k, angles(kp, w), not bug)
    return apply_qk
case("h088", make, RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128, output_layout="half"), "apply_qk",
     "Only the queries are brought from interleaved to half-split order before rotate_half; the keys are rotated as half-split pairs at once.",
     "keys-not-converted", "convert the keys as well")


# ---- h089: GQA: rotation of keys after repeat with wrong shape
def make(bug):
    def rot(t, p):
        return half_turn(t, angles(p, inv(t.shape[-1])))

    def apply_qk(q, k, qp, kp):
        Hq, Hk = q.shape[1], k.shape[1]
        qr, kr = rot(q, qp), rot(k, kp)
        if bug and Hq != Hk:
            # q as (B, S, Hk, G, D) was rotated, and comes back as (G, Hk) instead of (Hk, G)
            B, H, S, D = qr.shape
            qr = qr.reshape(B, Hk, Hq // Hk, S, D).transpose(0, 2, 1, 3, 4).reshape(B, H, S, D)
        return qr, kr
    return apply_qk
case("h089", make, RoPE(64, layout="half"), "apply_qk",
     "With grouped queries the rotated q comes back with the axes of groups and key heads swapped, so its heads are in the order g * H_kv + j instead of j * G + g.",
     "grouped-order", "transpose back before flattening the heads")


# ---- h090: XPos: decay not inverted for keys
def xpos_zeta(d, gamma=0.4):
    return (np.arange(0, d, 2) / d + gamma) / (1 + gamma)


def make(bug):
    def one(x, p, power):
        p = np.asarray(p, np.float64)
        n = (p / 512.0)[..., None] * power
        z = xpos_zeta(x.shape[-1]) ** n
        z = z[:, None] if z.ndim == 3 else z
        y = pair_turn(x.astype(np.float64), angles(p, inv(x.shape[-1])))
        return (y * np.repeat(z, 2, -1)).astype(x.dtype)

    def apply_qk(q, k, qp, kp):
        return one(q, qp, 1), one(k, kp, 1 if bug else -1)
    return apply_qk
case("h090", make, XPos(64, layout="interleaved"), "apply_qk",
     "Keys get zeta ** n like queries instead of its inverse, so logits depend on the sum of positions.",
     "xpos-keys", "use 1 / scale for keys")


# ---- h091: XPos: centre of each call
def make(bug):
    def one(x, p, power):
        p = np.asarray(p, np.float64)
        c = np.floor((p.max(-1, keepdims=True) + p.min(-1, keepdims=True)) / 2) if bug and p.size else 0.0
        z = np.exp(power * ((p - c) / 512.0)[..., None] * np.log(xpos_zeta(x.shape[-1])))
        z = z[:, None] if z.ndim == 3 else z
        return (half_turn(x.astype(np.float64), angles(p, inv(x.shape[-1]))) * np.concatenate([z, z], -1)).astype(x.dtype)

    def apply_qk(q, k, qp, kp):
        return one(q, qp, 1.0), one(k, kp, -1.0)
    return apply_qk
case("h091", make, XPos(32, layout="half"), "apply_qk",
     "The exponent is counted from the middle of the positions of each tensor, so queries and keys with other positions have different centres.",
     "xpos-centre", "use one centre for all calls")


# ---- h092: XPos: zeta with k/d
def make(bug):
    def one(x, p, power):
        d = x.shape[-1]
        k = np.arange(d // 2)
        zeta = ((k if bug else 2 * k) / d + 0.4) / 1.4
        n = np.asarray(p, np.float64)[..., None] / 512 * power
        z = zeta ** n
        z = z[:, None] if z.ndim == 3 else z
        return (half_turn(x.astype(np.float64), angles(p, inv(d))) * np.concatenate([z, z], -1)).astype(x.dtype)
    return lambda q, k, qp, kp: (one(q, qp, 1), one(k, kp, -1))
case("h092", make, XPos(64, layout="half"), "apply_qk",
     "zeta is (k/d + gamma)/(1 + gamma) instead of (2k/d + gamma)/(1 + gamma), so the decay of all pairs but the first is too strong.",
     "xpos-zeta", "use 2k/d")


# ---- h093: XPos: scale on half-split tensor in interleaved order
def make(bug):
    def one(x, p, power):
        d = x.shape[-1]
        n = np.asarray(p, np.float64)[..., None] / 512 * power
        z = xpos_zeta(d) ** n
        z = z[:, None] if z.ndim == 3 else z
        z = np.repeat(z, 2, -1) if bug else np.concatenate([z, z], -1)
        return (half_turn(x.astype(np.float64), angles(p, inv(d))) * z).astype(x.dtype)
    return lambda q, k, qp, kp: (one(q, qp, 1), one(k, kp, -1))
case("h093", make, XPos(64, layout="half"), "apply_qk",
     "The decays are repeated for neighbouring channels although pairs are half-split, so the channels of a pair get the decays of different pairs.",
     "xpos-scale-order", "concatenate the decays twice")


# ---- h094: q/k-norm weight after the rotation
def make(bug):
    def normed(x, weight, positions):
        n = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)
        a = angles(positions, inv(x.shape[-1]))
        return (half_turn(n, a) * weight if bug else half_turn(n * weight, a)).astype(x.dtype)
    return normed
case("h094", make, RoPE(64, layout="half"), "normed_apply",
     "The norm's weight is multiplied after the rotation instead of before it.",
     "weight-after-rotation", "normalise, weight, then rotate")


# ---- h095: norm over all heads
def make(bug):
    def normed(x, weight, positions):
        sq = x.double() ** 2
        ms = sq.mean((1, 3), keepdim=True) if bug else sq.mean(3, keepdim=True)
        y = x.double() * torch.rsqrt(ms + 1e-6) * weight.double()
        f = positions[..., None].double() * torch.tensor(inv(x.shape[-1], 1e6))
        f = f[:, None] if f.ndim == 3 else f
        u, v = y.chunk(2, -1)
        return torch.cat([u * f.cos() - v * f.sin(), v * f.cos() + u * f.sin()], -1).to(x.dtype)
    return normed
case("h095", make, RoPE(128, layout="half", base=1e6), "normed_apply",
     "The root mean square is taken over all heads of a token together instead of over each head.",
     "norm-over-heads", "normalise each head by itself", backend="torch")


# ---- h096: Gemma's 1 + weight
def make(bug):
    def normed(x, weight, positions):
        x64 = x.astype(np.float64)
        y = x64 / np.sqrt((x64 * x64).mean(-1, keepdims=True) + 1e-6) * (1 + weight if bug else weight)
        return half_turn(y, angles(positions, inv(x.shape[-1]))).astype(x.dtype)
    return normed
case("h096", make, RoPE(32, layout="half"), "normed_apply",
     "The weight is used as 1 + weight, as Gemma stores it, although it is the factor itself.",
     "one-plus-weight", "multiply by weight")


# ---- h097: permutation the wrong way round
def make(bug):
    def permute(w, n_heads):
        rows = w.shape[0] // n_heads
        t = w.reshape(n_heads, *((rows // 2, 2) if bug else (2, rows // 2)), *w.shape[1:])
        return np.swapaxes(t, 1, 2).reshape(w.shape)
    return permute
case("h097", make, RoPE(64, layout="half"), "permute_weights",
     "The rows are permuted from interleaved to half-split, the inverse of the conversion from half-split to interleaved.",
     "permute-inverse", "view (heads, 2, d/2) and transpose")


# ---- h098: permutation over all rows instead of each head
def make(bug):
    def permute(w, n_heads):
        n = w.shape[0]
        if bug:
            order = np.arange(n).reshape(2, n // 2).T.ravel()
        else:
            d = n // n_heads
            order = np.concatenate([h * d + np.arange(d).reshape(2, -1).T.ravel() for h in range(n_heads)])
        return w[order]
    return permute
case("h098", make, RoPE(32, layout="half"), "permute_weights",
     "The permutation spans all rows of the matrix instead of the rows of each head, so with more than one head rows move between heads.",
     "permute-across-heads", "permute inside each head")


# ---- h099: mscale not squared
def make(bug):
    def scale():
        m = 0.1 * math.log(40.0) + 1.0
        return 192 ** -0.5 * (m if bug else m * m)
    return scale
case("h099", make, preset("deepseek-v3"), "softmax_scale",
     "The softmax scale is multiplied by mscale once instead of by its square.",
     "mscale-not-squared", "multiply by mscale ** 2")


# ---- h100: scores: queries from position 0
def make(bug):
    def scores(q, k):
        Q, K, d = q.shape[2], k.shape[2], q.shape[3]
        qp = np.arange(Q) if bug else np.arange(K - Q, K)
        w = inv(d)
        qr = half_turn(q.astype(np.float64), qp[:, None] * w)
        kr = half_turn(k.astype(np.float64), np.arange(K)[:, None] * w)
        kr = np.repeat(kr, q.shape[1] // k.shape[1], 1)
        return np.einsum("bhqd,bhkd->bhqk", qr, kr).astype(q.dtype) / np.float32(d ** 0.5)
    return scores
case("h100", make, RoPE(64, layout="half"), "scores",
     "Queries are rotated to 0, 1, ... instead of to the last positions K - Q, ..., so logits with a cache are wrong.",
     "queries-from-zero", "start the queries at K - Q")


# ---- h101: scores: key heads interleaved instead of repeated
def make(bug):
    def scores(q, k):
        B, H, Q, d = q.shape
        K, Hk = k.shape[2], k.shape[1]
        w = inv(d, 500000.0)
        qr = pair_turn(q.astype(np.float64), np.arange(K - Q, K)[:, None] * w)
        kr = pair_turn(k.astype(np.float64), np.arange(K)[:, None] * w)
        index = [h % Hk if bug else h // (H // Hk) for h in range(H)]
        return (qr @ kr[:, index].swapaxes(-1, -2) * d ** -0.5).astype(q.dtype)
    return scores
case("h101", make, RoPE(32, layout="interleaved", base=500000.0), "scores",
     "Query head h reads key head h mod H_kv (tiled) instead of h // G (repeated).",
     "key-head-mod", "repeat each key head G times")


# ---- h102: YaRN's m on the queries only
def make(bug):
    w, m = yarn(64, 10000.0, 16.0, 4096), 0.1 * math.log(16.0) + 1

    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        qr = half_turn(q.astype(np.float64), np.arange(K - Q, K)[:, None] * w) * m
        kr = half_turn(k.astype(np.float64), np.arange(K)[:, None] * w) * (1.0 if bug else m)
        kr = np.repeat(kr, q.shape[1] // k.shape[1], axis=1)
        return (np.matmul(qr, kr.transpose(0, 1, 3, 2)) / 8.0).astype(q.dtype)
    return scores
case("h102", make, RoPE(64, layout="half", scaling=YaRN(16.0, 4096)), "scores",
     "The attention factor is applied to queries only, so logits have m instead of m squared.",
     "factor-once", "apply m to queries and keys")
