"""j097-j119, j150-j162: apply_qk, gradients, offsets, calls, decode, key caches, tables, weights, norms."""
import math

import numpy as np
import torch

from posenc_ref import (DynamicNTK, LongRoPE, MultiAxisRoPE, RoPE, XPos, YaRN, Llama3Scaling, LinearScaling)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def plain(base, d):
    return float(base) ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def rot_half(x, angle, m=1.0, rot=None):
    rot = x.shape[-1] if rot is None else rot
    h = rot // 2
    c, s = m * np.cos(angle), m * np.sin(angle)
    a, b = x[..., :h].astype(np.float64), x[..., h:rot].astype(np.float64)
    y = np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)
    return np.concatenate([y, x[..., rot:]], -1)


def rot_pairs(x, angle, m=1.0):
    v = x.astype(np.float64).reshape(x.shape[:-1] + (-1, 2))
    c, s = m * np.cos(angle), m * np.sin(angle)
    return np.stack([v[..., 0] * c - v[..., 1] * s, v[..., 1] * c + v[..., 0] * s], -1).reshape(x.shape).astype(x.dtype)


def ang(positions, w):
    p = np.asarray(positions, np.float64)
    a = p[..., None] * w
    return a if p.ndim == 1 else a[:, None]


def yarn(d, base, s, L0):
    at = lambda r: d * math.log(L0 / (2 * math.pi * r)) / math.log(base) / 2
    lo, hi = max(math.floor(at(32)), 0), min(math.ceil(at(1)), d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    return plain(base, d) * (1 - g + g / s), 1 + 0.1 * math.log(s)


# ---- j097
def make(bug):
    w = plain(10000.0, 64)

    def apply_qk(q, k, q_positions, k_positions):
        aq, ak = ang(q_positions, w), ang(k_positions, w)
        if bug and q.shape[2] == k.shape[2]:
            ak = aq
        return rot_half(q, aq), rot_half(k, ak)

    return apply_qk


case("j097", make, RoPE(64, layout="half"), "apply_qk",
     "if q and k have the same number of tokens, k is rotated with the tables of q (as in self-attention), although "
     "its positions are others", "k-with-q-positions", "rotate k by k_positions")


# ---- j098
def make(bug):
    w = plain(10000.0, 64)

    def apply_qk(q, k, q_positions, k_positions):
        kp = np.asarray(k_positions, np.float64)
        if bug and k.shape[2] > q.shape[2]:
            kp = np.broadcast_to(np.arange(k.shape[2], dtype=np.float64), kp.shape)
        return rot_pairs(q, ang(q_positions, w)), rot_pairs(k, ang(kp, w))

    return apply_qk


case("j098", make, RoPE(64, layout="interleaved"), "apply_qk",
     "where there are more keys than queries, the keys are numbered 0 .. K - 1 instead of by k_positions",
     "keys-by-arange", "use k_positions")


# ---- j099
def make(bug):
    w, m = yarn(64, 10000.0, 4.0, 2048)

    def apply_qk(q, k, q_positions, k_positions):
        return rot_half(q, ang(q_positions, w), m), rot_half(k, ang(k_positions, w), 1.0 if bug else m)

    return apply_qk


case("j099", make, RoPE(64, layout="half", scaling=YaRN(4.0, 2048)), "apply_qk",
     "YaRN's factor m multiplies the queries only, so logits are multiplied by m instead of m squared",
     "m-on-queries-only", "scale cos and sin, which q and k share")


def zeta(d, gamma=0.4):
    return (np.arange(0, d, 2) / d + gamma) / (1 + gamma)


# ---- j100
def make(bug):
    w, z = plain(10000.0, 64), zeta(64)

    def side(x, positions, power):
        p = np.asarray(positions, np.float64)
        size = z ** (power * p[..., None] / 512)
        size = size if p.ndim == 1 else size[:, None]
        a = ang(positions, w)
        c, s = size * np.cos(a), size * np.sin(a)
        a1, a2 = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
        return np.stack([a1 * c - a2 * s, a2 * c + a1 * s], -1).reshape(x.shape).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        return side(q, q_positions, 1), side(k, k_positions, 1 if bug else -1)

    return apply_qk


case("j100", make, XPos(64, layout="interleaved"), "apply_qk",
     "queries and keys both get zeta ** n; the keys need zeta ** -n, or the decay depends on the sum of the positions",
     "xpos-keys-not-inverse", "downscale the keys: zeta ** -n")


# ---- j101
def make(bug):
    w, z = plain(10000.0, 32), zeta(32)

    def side(x, positions, power):
        p = np.asarray(positions, np.float64)
        n = np.floor(p / 512) if bug else p / 512
        size = z ** (power * n[..., None])
        size = size if p.ndim == 1 else size[:, None]
        return (rot_half(x.astype(np.float64), ang(positions, w)) * np.concatenate([size, size], -1)).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        return side(q, q_positions, 1), side(k, k_positions, -1)

    return apply_qk


case("j101", make, XPos(32, layout="half"), "apply_qk",
     "the exponent of the decay is p // scale_base, an integer division, so it is constant over 512 positions",
     "xpos-integer-exponent", "divide in floating point")


# ---- j102
def make(bug):
    w = plain(10000.0, 64)
    z = np.arange(0, 64, 2) / 64 + 0.4
    z = np.minimum(z, 1.0) if bug else z / 1.4

    def side(x, positions, power):
        p = np.asarray(positions, np.float64)
        size = z ** (power * p[..., None] / 512)
        size = size if p.ndim == 1 else size[:, None]
        return (rot_half(x.astype(np.float64), ang(positions, w)) * np.concatenate([size, size], -1)).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        return side(q, q_positions, 1), side(k, k_positions, -1)

    return apply_qk


case("j102", make, XPos(64, layout="half"), "apply_qk",
     "zeta is 2k/d + gamma clipped to 1, without the division by 1 + gamma, so every decay is too slow",
     "xpos-zeta-not-normalised", "(2k/d + gamma) / (1 + gamma)")


# ---- j103
def make(bug):
    axis = np.repeat([0, 1, 2], [8, 12, 12])
    w = plain(1e6, 64)

    def angles(positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        a = np.stack([p[i] * f for i, f in zip(axis, w)], -1)
        return a if p.ndim == 2 else a[:, None]

    def apply_qk(q, k, q_positions, k_positions):
        kp = np.asarray(k_positions, np.float64)
        if bug and kp.ndim > 1 and q.shape[2] == 1:
            kp = np.stack([kp[0]] * 3)          # "decoding is text"
        return rot_half(q, angles(q_positions)), rot_half(k, angles(kp))

    return apply_qk


case("j103", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="half", base=1e6), "apply_qk",
     "when one query is decoded, the keys are taken for text and rotated by their time positions on all axes, "
     "although they belong to an image", "decode-keys-as-text", "rotate the keys by their own three positions")


# ---- j105
def make(bug):
    w, m = yarn(64, 10000.0, 8.0, 2048)

    def vjp(x, positions, dy):
        return rot_pairs(dy, -ang(positions, w), 1 / m if bug else m)

    return vjp


case("j105", make, RoPE(64, layout="interleaved", scaling=YaRN(8.0, 2048)), "apply_vjp",
     "the gradient is divided by YaRN's m, as the inverse of the map would be; the transpose multiplies by m",
     "vjp-inverse-factor", "multiply by m in the backward pass")


# ---- j106
def make(bug):
    w = plain(10000.0, 32)

    def vjp(x, positions, dy):
        y = rot_half(dy, -ang(positions, w), rot=32)
        if bug:
            y[..., 32:] = 0
        return y

    return vjp


case("j106", make, RoPE(64, layout="half", rotary_dim=32), "apply_vjp",
     "the gradient of the channels that pass through is left at zero: the backward kernel writes the rotated "
     "channels only, into an empty buffer", "vjp-passed-channels-zero", "copy dy to the other channels")


# ---- j107
def make(bug):
    w = plain(500000.0, 64)
    size = 4096

    def fn(x, offset):
        n = x.shape[2]
        rows = []
        for o in np.asarray(offset).ravel().tolist():
            start = min(o, size - n) if bug and n <= size else o      # dynamic_slice clamps the start
            rows.append((start + np.arange(n, dtype=np.float64))[:, None] * w)
        return rot_half(x, np.stack(rows)[:, None])

    return fn


case("j107", make, RoPE(64, layout="half", base=500000.0), "apply_offset",
     "rows of a table of 4096 are cut out with dynamic_slice, which moves the start back where offset + S exceeds "
     "the table, so late tokens get earlier positions", "dynamic-slice-clamps",
     "make the table long enough, or compute the rows from the positions")


# ---- j108
def make(bug):
    w = plain(10000.0, 64)

    def fn(x, offset):
        o = np.asarray(offset, np.float64)
        if bug:
            o = o - o.min()               # cache_seqlens relative to the shortest row
        a = (o[:, None] + np.arange(x.shape[2]))[..., None] * w
        return rot_pairs(x, a[:, None])

    return fn


case("j108", make, RoPE(64, layout="interleaved"), "apply_offset",
     "the offsets are made relative to the smallest offset of the batch, so the rows start at 0 instead of at their "
     "cache lengths", "offset-minus-minimum", "use the offsets as they are")


# ---- j109
def make(bug):
    base, d, s, N = 10000.0, 64, 2.0, 128

    class Rotary:
        def __init__(self):
            self.cached = N
            self.w = plain(base, d)

        def update(self, n):
            if n > self.cached:
                self.cached = n
                self.w = plain(base * (s * n / N - (s - 1)) ** (d / (d - 2)), d)
            elif n <= N and self.cached > N or (not bug and n != self.cached):
                self.cached = max(n, N)
                self.w = plain(base * (s * self.cached / N - (s - 1)) ** (d / (d - 2)), d)

        def __call__(self, x, offset):
            p = np.asarray(offset, np.float64) + np.arange(x.shape[2])
            self.update(int(p.max()) + 1)
            return rot_half(x, p[:, None] * self.w)

    def calls(steps):
        rotary = Rotary()
        return [rotary(x, int(np.asarray(o).ravel()[0])) for x, o in steps]

    return calls


case("j109", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 128)), "calls",
     "the frequencies are reset only if a call is within the trained length 128; a call that is longer than that but "
     "shorter than the longest before keeps the frequencies of the longest", "dynamic-reset-only-below-trained",
     "recompute whenever the length of the call changes")


# ---- j110
def make(bug):
    w = plain(10000.0, 64)

    class Rotary:
        def __init__(self):
            self.out = {}

        def __call__(self, x, offset):
            y = rot_half(x, (np.asarray(offset, np.float64) + np.arange(x.shape[2]))[:, None] * w)
            if not bug:
                return y
            buf = self.out.setdefault((x.shape, x.dtype.str), np.empty_like(y))
            buf[...] = y
            return buf

    def calls(steps):
        r = Rotary()
        return [r(x, int(np.asarray(o).ravel()[0])) for x, o in steps]

    return calls


case("j110", make, RoPE(64, layout="half"), "calls",
     "the result is a preallocated buffer that the next call of the same shape overwrites, so earlier results change",
     "output-buffer-reused", "return a new array")


# ---- j111
def make(bug):
    w = plain(10000.0, 64)

    class Rotary:
        def __init__(self):
            self.c = np.zeros((0, 32), complex)

        def __call__(self, x, o):
            end = o + x.shape[2]
            if end > 20000:                         # beyond the table: computed directly
                z = np.exp(1j * np.arange(o, end, dtype=np.float64)[:, None] * w)
            else:
                n = len(self.c)
                if end > n:
                    new = np.arange(end - n) if bug else np.arange(n, end)
                    self.c = np.concatenate([self.c, np.exp(1j * new[:, None] * w)])
                z = self.c[o:end]
            v = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * z
            return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    def calls(steps):
        r = Rotary()
        return [r(x, int(np.asarray(o).ravel()[0])) for x, o in steps]

    return calls


case("j111", make, RoPE(64, layout="half"), "calls",
     "when the table has to grow, the new rows are computed for positions from 0 on and appended, so tokens behind "
     "the first table size start again", "grown-rows-from-zero", "compute the new rows from the old length on")


# ---- j112
def make(bug):
    w = plain(10000.0, 64)

    def decode(x, chunks):
        at, seen, parts = 0, 0, []
        for n in chunks:
            part = x[:, :, at:at + n]
            parts.append(rot_half(part, (seen + np.arange(n, dtype=np.float64))[:, None] * w))
            at += n
            seen += 1 if bug and seen else n
        return np.concatenate(parts, 2)

    return decode


case("j112", make, RoPE(64, layout="half"), "decode",
     "after the first chunk the position counter grows by 1 per call, whatever the number of tokens, so it falls behind after a chunk "
     "of several tokens", "counter-plus-one-per-call", "add the number of tokens of the chunk")


# ---- j113
def make(bug):
    w = plain(10000.0, 64)

    def decode(x, chunks):
        at, parts = 0, []
        for i, n in enumerate(chunks):
            p = at + np.arange(n, dtype=np.float64)
            if bug and i and 1 < n < 8:
                p = np.full(n, float(at))
            parts.append(rot_pairs(x[:, :, at:at + n], p[:, None] * w))
            at += n
        return np.concatenate(parts, 2)

    return decode


case("j113", make, RoPE(64, layout="interleaved"), "decode",
     "a short chunk of 2 to 7 tokens after the prompt (speculative decoding) has the same position, the length of "
     "the cache, for all its tokens", "draft-tokens-same-position", "add arange(n)")


# ---- j114
def make(bug):
    w = plain(10000.0, 64)
    window = 32

    def decode(x, chunks):
        at, parts = 0, []
        for n in chunks:
            first = min(at, window - 1) if bug and n == 1 else at
            p = first + np.arange(n, dtype=np.float64)
            parts.append(rot_half(x[:, :, at:at + n], p[:, None] * w))
            at += n
        return np.concatenate(parts, 2)

    return decode


case("j114", make, RoPE(64, layout="half"), "decode",
     "the position of a decoded token is the length of the rolling cache, which stays at its window of 32 (last index 31), instead of "
     "the number of tokens so far", "position-from-window-length", "keep the number of tokens beside the window")


# ---- j115
def make(bug):
    base, d, s, N = 10000.0, 64, 4.0, 16

    def w_of(n):
        return plain(base * (s * max(n, N) / N - (s - 1)) ** (d / (d - 2)), d)

    def cache(k, chunks):
        total = sum(chunks)
        at, out = 0, []
        for n in chunks:
            w = w_of(at + n) if bug else w_of(total)
            out.append(rot_half(k[:, :, at:at + n], (at + np.arange(n, dtype=np.float64))[:, None] * w))
            at += n
        return np.concatenate(out, 2)

    return cache


case("j115", make, RoPE(64, layout="half", scaling=DynamicNTK(4.0, 16)), "key_cache",
     "keys stay in the cache with the frequencies of the length at which they came; dynamic NTK changes the "
     "frequencies as the sequence grows", "keys-of-old-length", "cache raw keys and rotate all of them again")


# ---- j116
def make(bug):
    short, long = np.linspace(1, 1.5, 16), np.linspace(1, 9, 16)
    f = plain(10000.0, 32)
    m = math.sqrt(1 + math.log(4.0) / math.log(16))

    def cache(k, chunks):
        raw, seen, keys = [], 0, None
        for n in chunks:
            raw.append(k[:, :, seen:seen + n])
            before, seen = seen, seen + n
            w = f / (long if (before if bug else seen) > 16 else short)
            keys = rot_half(np.concatenate(raw, 2), np.arange(seen, dtype=np.float64)[:, None] * w, m)
        return keys

    return cache


case("j116", make, RoPE(32, layout="half", scaling=LongRoPE(list(np.linspace(1, 1.5, 16)), list(np.linspace(1, 9, 16)), 16, factor=4.0)),
     "key_cache",
     "the list is chosen by the length before the new chunk is counted, so the step that crosses L0 still uses the "
     "short list for all keys", "length-before-chunk", "count the chunk first")


# ---- j117
def make(bug):
    w, m = yarn(64, 10000.0, 4.0, 2048)

    def shift(k, delta):
        d = np.asarray(delta, np.float64)
        a = (d if d.ndim == 0 else d[..., None]) * w
        return rot_half(k, a, m if bug else 1.0)

    return shift


case("j117", make, RoPE(64, layout="half", scaling=YaRN(4.0, 2048)), "shift_keys",
     "the shift multiplies by YaRN's m again, so every context shift makes the keys larger", "shift-applies-m",
     "rotate the cached keys with m = 1")


# ---- j118
def make(bug):
    w = plain(10000.0, 16)

    def shift(k, delta):
        a = np.float64(delta) * w
        pe = k[..., 32:]
        pe = rot_pairs(pe, a) if bug else rot_half(pe, a)
        return np.concatenate([k[..., :32], pe], -1)

    return shift


case("j118", make, RoPE(48, layout="interleaved", rotary_dim=16, rotary_start=32, output_layout="half"), "shift_keys",
     "cached keys are in the output layout (halves), but the shift rotates interleaved pairs as the first rotation reads them",
     "shift-reads-input-layout", "shift the pairs (k, k + 8) of the output")


# ---- j119
def make(bug):
    w = plain(10000.0, 64)

    def evict(k, kept, dropped):
        by = dropped + (kept if bug else 0)
        rest = rot_half(k[:, :, kept + dropped:], -float(by) * w)
        return np.concatenate([k[:, :, :kept], rest], 2)

    return evict


case("j119", make, RoPE(64, layout="half"), "evict_keys",
     "the keys behind the gap move back by kept + dropped instead of by dropped, onto the positions of the kept keys",
     "evict-shift-includes-kept", "shift by -dropped")


# ---- j150
def make(bug):
    w = plain(500000.0, 64)

    def evict(k, kept, dropped):
        moved = rot_pairs(k, -float(dropped) * w)
        head = moved[:, :, :kept] if bug else k[:, :, :kept]
        return np.concatenate([head, moved[:, :, kept + dropped:]], 2)

    return evict


case("j150", make, RoPE(64, layout="interleaved", base=500000.0), "evict_keys",
     "the shift is applied to the whole cache, the kept sink keys included, which then have negative positions",
     "evict-shifts-sinks", "shift only the keys behind the gap")


# ---- j151
def make(bug):
    w = plain(10000.0, 64)
    size = 8192

    def cos_sin(positions):
        p = np.asarray(positions, np.float64)
        p = np.where(p >= size, np.mod(p, size), p) if bug else p
        a = p[..., None] * w
        return np.cos(a), np.sin(a)

    return cos_sin


case("j151", make, RoPE(64, layout="half"), "cos_sin",
     "positions from 8192 on wrap around to the start of the ring of table rows", "table-ring-wraps",
     "the rotation is not periodic in the position: extend the table")


# ---- j153
def make(bug):
    w = plain(10000.0, 64)

    def cos_sin(positions):
        p = torch.as_tensor(np.array(positions, np.float64))
        step = torch.tensor(w)
        a = p[:, None] * step
        c, s = torch.cos(a), torch.sin(a)
        if bug:                                    # a table of quarter-degree steps
            n = 1440
            i = torch.round(a / (2 * math.pi) * n).long() % n
            grid = torch.arange(n, dtype=torch.float64) * (2 * math.pi / n)
            c, s = torch.cos(grid)[i], torch.sin(grid)[i]
        return c.numpy(), s.numpy()

    return cos_sin


case("j153", make, RoPE(64, layout="half"), "cos_sin",
     "cos and sin are read from a table of 1440 angles without interpolation, an error of up to 0.0022", "angle-lookup-coarse",
     "interpolate, or compute cos and sin")


# ---- j155
def make(bug):
    def permute(w, n_heads):
        rows, hidden = w.shape
        d = rows // n_heads
        if bug:
            if hidden % n_heads == 0 and rows % (hidden // n_heads) == 0 and (hidden // n_heads) % 2 == 0:
                d = hidden // n_heads
        out = np.empty_like(np.asarray(w))
        for h in range(rows // d):
            blk = np.asarray(w)[h * d:(h + 1) * d]
            out[h * d:(h + 1) * d:2] = blk[: d // 2]
            out[h * d + 1:(h + 1) * d:2] = blk[d // 2:]
        return out

    return permute


case("j155", make, None, "permute_weights",
     "the size of a head is hidden / n_heads instead of rows / n_heads, which is wrong where heads * head_dim is not the hidden size",
     "head-size-from-columns", "head_dim = rows / n_heads")


# ---- j156
def make(bug):
    rot = 16

    def permute(w, n_heads):
        w = np.asarray(w)
        d = w.shape[0] // n_heads
        n = d if bug else rot
        perm = np.arange(d)
        perm[:n] = np.arange(n).reshape(2, -1).T.ravel()
        return w.reshape(n_heads, d, *w.shape[1:])[:, perm].reshape(w.shape)

    return permute


case("j156", make, RoPE(64, layout="half", rotary_dim=16), "permute_weights",
     "all 64 rows of a head are permuted although only the first 16 channels are rotary", "permutes-whole-head",
     "permute the rotary rows only")


# ---- j157
def make(bug):
    w = plain(1e6, 64)

    def fn(x, weight, positions):
        v = x.astype(np.float64)
        a = ang(positions, w)
        n = v / np.sqrt((v * v).mean(-1, keepdims=True) + 1e-6)
        if bug:
            return (rot_half(n, a) * weight).astype(x.dtype)
        return rot_half(n * weight, a).astype(x.dtype)

    return fn


case("j157", make, RoPE(64, layout="half", base=1e6), "normed_apply",
     "the weight of the q/k norm is multiplied after the rotation instead of before it", "norm-weight-after-rotation",
     "normalise and weigh first, then rotate")


# ---- j158
def make(bug):
    w = plain(10000.0, 64)

    def fn(x, weight, positions):
        v = x.astype(np.float64)
        n = v / np.sqrt((v * v).mean((1, 3) if bug else -1, keepdims=True) + 1e-6) * weight
        return rot_half(n, ang(positions, w)).astype(x.dtype)

    return fn


case("j158", make, RoPE(64, layout="half"), "normed_apply",
     "the root mean square is taken over all heads and channels of a token instead of over each head",
     "norm-over-all-heads", "normalise the last axis only")


# ---- j159
def make(bug):
    w = plain(10000.0, 64)

    def fn(x, weight, positions):
        v = x.astype(np.float64)
        g = (1.0 + weight) if bug else weight
        n = v / np.sqrt(np.square(v).mean(-1, keepdims=True) + 1e-6)
        return rot_half(n * g, ang(positions, w)).astype(x.dtype)

    return fn


case("j159", make, RoPE(64, layout="half"), "normed_apply",
     "the norm multiplies by 1 + weight, as Gemma's zero-centred weights need, but these weights are plain",
     "norm-one-plus-weight", "multiply by the weight itself")


# ---- j160
def make(bug):
    base, d, s, N = 10000.0, 64, 4.0, 256

    def frequencies(seq_len):
        n = max(seq_len, N)
        alpha = s * n / N - (s - 1)
        if bug:
            alpha = max(1, round(alpha))
        return plain(base * alpha ** (d / (d - 2)), d)

    return frequencies


case("j160", make, RoPE(64, layout="half", scaling=DynamicNTK(4.0, 256)), "frequencies",
     "alpha is rounded to a whole number, to recompute the table less often", "dynamic-alpha-rounded",
     "use alpha as it is")


# ---- j162
def make(bug):
    f = plain(10000.0, 32)
    short, long = np.linspace(1, 1.2, 16), np.linspace(1, 20, 16)

    def frequencies(seq_len):
        if seq_len > 512:
            return f / long, 1.25 if not bug else 1.05
        return f / short, 1.05

    return frequencies


case("j162", make, RoPE(32, layout="half", scaling=LongRoPE(list(np.linspace(1, 1.2, 16)), list(np.linspace(1, 20, 16)), 512,
                                                           attention_factor=(1.05, 1.25))), "frequencies",
     "short_mscale 1.05 is reported for long contexts too; beyond the trained length it should be long_mscale 1.25",
     "longrope-short-mscale", "choose the factor with the list")
