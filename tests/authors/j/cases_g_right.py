"""j142, j143, j187-j199: right implementations on other surfaces."""
import math

import numpy as np

from posenc_ref import DynamicNTK, LongRoPE, MRoPEPositions, RoPE, XPos, YaRN

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def plain(base, d):
    return float(base) ** (-np.arange(0, d, 2, dtype=np.float64) / d)


# ---- j142 (does not conform, but is right: posenc_ref's own apply gets the same verdict)
S16 = [1.0 + 0.03 * k for k in range(16)]
L16 = [1.0 + 0.9 * k for k in range(16)]


def make(bug):
    f = plain(10000.0, 32)
    both = [(f / np.array(S16), 1.1), (f / np.array(L16), 1.3)]

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        w, m = both[bool(p.size) and math.floor(p.max()) + 1 > 64]
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        c, s = m * np.cos(a), m * np.sin(a)
        x1, x2 = x[..., :16].astype(np.float64), x[..., 16:].astype(np.float64)
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j142", make, RoPE(32, layout="half", scaling=LongRoPE(S16, L16, 64, attention_factor=(1.1, 1.3))), "apply",
     "right: LongRoPE whose attention factor is 1.1 up to 64 tokens and 1.3 beyond", "right")


# ---- j143 (may not conform: the true keys overflow float32)
def make(bug):
    w = plain(10000.0, 32)
    logz = np.log((np.arange(0, 32, 2) / 32 + 0.4) / 1.4) / 64

    def side(x, positions, power):
        p = np.asarray(positions, np.float64)[..., None]
        z = np.exp(p * (power * logz + 1j * w))
        z = z if z.ndim == 2 else z[:, None]
        v = (x[..., :16] + 1j * x[..., 16:].astype(np.float64)) * z
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        return side(q, q_positions, 1), side(k, k_positions, -1)

    return apply_qk


case("j143", make, XPos(32, layout="half", scale_base=64.0), "apply_qk",
     "right: xPos as exp((log zeta / 64 + i theta) p); keys far from 0 exceed float32, as the formula says", "right")


# ---- j187
def make(bug):
    w = plain(10000.0, 64)
    logz = np.log((np.arange(0, 64, 2) / 64 + 0.4) / 1.4) / 512

    def side(x, positions, power):
        p = np.asarray(positions, np.float64)[..., None]
        z = np.exp(p * (power * logz + 1j * w))
        z = z if z.ndim == 2 else z[:, None]
        v = x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)
        v = v * z
        return np.stack([v.real, v.imag], -1).reshape(x.shape).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        return side(q, q_positions, 1), side(k, k_positions, -1)

    return apply_qk


case("j187", make, XPos(64, layout="interleaved"), "apply_qk",
     "right: xPos as one complex exponential of decay and rotation", "right")


# ---- j188
def make(bug):
    w = plain(10000.0, 64)

    def apply_offset(x, offset):
        o = np.asarray(offset, np.float64)
        within = np.exp(1j * np.arange(x.shape[2])[:, None] * w)
        start = np.exp(1j * o[:, None] * w)
        v = x[..., :32] + 1j * x[..., 32:].astype(np.float64)
        v *= within
        v *= start[:, None, None]
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    return apply_offset


case("j188", make, RoPE(64, layout="half"), "apply_offset",
     "right: rotated by the place in the row first and then by the offset of the row", "right")


# ---- j189
def make(bug):
    f = plain(10000.0, 64)

    class Rotary:
        def __init__(self):
            self.tables = {}

        def table(self, n):
            n = max(n, 128)
            if n not in self.tables:
                if len(self.tables) > 8:
                    self.tables.pop(next(iter(self.tables)))
                self.tables[n] = f * (2.0 * n / 128 - 1.0) ** (-np.arange(32) / 31.0)
            return self.tables[n]

        def __call__(self, x, o):
            p = np.arange(o, o + x.shape[2], dtype=np.float64)
            a = p[:, None] * self.table(o + x.shape[2])
            c, s = np.cos(a), np.sin(a)
            y = np.empty(x.shape)
            y[..., :32] = x[..., :32] * c
            y[..., :32] -= x[..., 32:] * s
            y[..., 32:] = x[..., 32:] * c
            y[..., 32:] += x[..., :32] * s
            return y.astype(x.dtype)

    def calls(steps):
        rotary = Rotary()
        return [rotary(x, int(np.asarray(o).ravel()[0])) for x, o in steps]

    return calls


case("j189", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 128)), "calls",
     "right: the frequencies of the last few lengths are kept in a small cache with eviction", "right")


# ---- j190
def make(bug):
    w = plain(10000.0, 64)
    step = np.exp(1j * w)

    def decode(x, chunks):
        phase, seen, out = np.ones(32, complex), 0, []
        for n in chunks:
            z = np.empty((n, 32), complex)
            for i in range(n):
                if (seen + i) % 32 == 0:
                    phase = np.exp(1j * (seen + i) * w)
                z[i] = phase
                phase = phase * step
            part = x[:, :, seen:seen + n]
            v = (part[..., ::2] + 1j * part[..., 1::2].astype(np.float64)) * z
            out.append(np.stack([v.real, v.imag], -1).reshape(part.shape).astype(x.dtype))
            seen += n
        return np.concatenate(out, 2)

    return decode


case("j190", make, RoPE(64, layout="interleaved"), "decode",
     "right: a running phase that is multiplied by one step per token and set anew every 32 tokens", "right")


# ---- j191
def make(bug):
    f = plain(10000.0, 64)

    def w_of(n):
        return f * (4.0 * max(n, 16) / 16 - 3.0) ** (-np.arange(32) / 31.0)

    def turn(v, a):
        return v * np.exp(1j * a)

    def cache(k, chunks):
        v = (k[..., :32] + 1j * k[..., 32:].astype(np.float64))
        held, seen, w = None, 0, None
        for n in chunks:
            new = w_of(seen + n)
            if held is not None:                # move the cached keys from the old frequencies to the new ones
                held = turn(held, np.arange(seen)[:, None] * (new - w))
            part = turn(v[:, :, seen:seen + n], np.arange(seen, seen + n)[:, None] * new)
            held = part if held is None else np.concatenate([held, part], 2)
            seen, w = seen + n, new
        return np.concatenate([held.real, held.imag], -1).astype(k.dtype)

    return cache


case("j191", make, RoPE(64, layout="half", scaling=DynamicNTK(4.0, 16)), "key_cache",
     "right: rotated keys in float64 are turned on by p * (new frequency - old frequency) when the length grows", "right")


# ---- j192
def make(bug):
    def permute(w, n_heads):
        w = np.asarray(w)
        d = w.shape[0] // n_heads
        one = np.zeros((d, d), bool)
        one[2 * np.arange(d // 2), np.arange(d // 2)] = True
        one[2 * np.arange(d // 2) + 1, d // 2 + np.arange(d // 2)] = True
        whole = np.kron(np.eye(n_heads, dtype=bool), one)
        return w[np.nonzero(whole)[1]]

    return permute


case("j192", make, None, "permute_weights",
     "right: the permutation is read from a block-diagonal permutation matrix", "right")


# ---- j193
def make(bug):
    w = plain(1e6, 64)

    def fn(x, weight, positions):
        p = np.asarray(positions, np.float64)
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        g = np.asarray(weight, np.float64)
        c, s = np.cos(a), np.sin(a)
        v = x.astype(np.float64)
        r = 1.0 / np.sqrt(np.einsum("...d,...d->...", v, v) / 64 + 1e-6)[..., None]
        lo = v[..., :32] * (g[:32] * c) - v[..., 32:] * (g[32:] * s)
        hi = v[..., 32:] * (g[32:] * c) + v[..., :32] * (g[:32] * s)
        return (np.concatenate([lo, hi], -1) * r).astype(x.dtype)

    return fn


case("j193", make, RoPE(64, layout="half", base=1e6), "normed_apply",
     "right: the weight of the norm is folded into cos and sin, and the root mean square is divided last", "right")


# ---- j194
def make(bug):
    w = plain(10000.0, 64)

    def scores(q, k):
        Q, K = q.shape[2], k.shape[2]
        qc = q[..., :32] + 1j * q[..., 32:].astype(np.float64)
        kc = k[..., :32] + 1j * k[..., 32:].astype(np.float64)
        r = (np.arange(K - Q, K)[:, None] - np.arange(K)[None])[..., None] * w
        return (np.einsum("bhqd,bhkd,qkd->bhqk", qc, kc.conj(), np.exp(1j * r)).real / 8).astype(q.dtype)

    return scores


case("j194", make, RoPE(64, layout="half"), "scores",
     "right: logits by the relative angle of every pair of tokens, nothing is rotated", "right")


# ---- j195
def make(bug):
    def packed(lengths):
        out = []
        for n in np.asarray(lengths, np.int64).tolist():
            out.extend(range(n))
        return np.array(out, dtype=np.int64)

    return packed


case("j195", make, None, "packed", "right: ranges joined in a list", "right")


# ---- j196
def make(bug):
    def shard(cu, size, rank):
        cu = np.asarray(cu, np.int64)
        rows = [np.arange(n).reshape(2 * size, -1)[[rank, -1 - rank]].ravel() for n in np.diff(cu).tolist()]
        return np.concatenate([np.zeros(0, np.int64), *rows])

    return shard


case("j196", make, None, "shard_positions",
     "right: rows r and -1 - r of every sequence as 2 cp_size rows", "right")


# ---- j197
def make(bug):
    def fn(types, images, videos, seconds, mask, steps):
        types, mask = np.asarray(types), np.asarray(mask) == 1
        B, S = types.shape
        img = iter(np.asarray(images, int).reshape(-1, 3).tolist())
        vid = iter(np.asarray(videos, int).reshape(-1, 3).tolist())
        out = np.zeros((3, B, S + steps), np.int64)
        for b in range(B):
            where = np.flatnonzero(mask[b])
            i, start = 0, 0
            while i < where.size:
                kind = types[b, where[i]]
                if kind == 0:
                    out[:, b, where[i]] = start
                    start += 1
                    i += 1
                    continue
                t, h, w = next(img if kind == 1 else vid)
                h, w = h // 2, w // 2
                n = t * h * w
                flat = np.arange(n)
                block = np.stack([flat // (h * w), flat // w % h, flat % w]) + start
                out[:, b, where[i:i + n]] = block
                start = int(block.max()) + 1
                i += n
            delta = start - where.size            # rope_deltas of transformers
            out[:, b, S:] = where.size + delta + np.arange(steps)
        return out

    return fn


case("j197", make, MRoPEPositions(), "mrope_position_ids",
     "right: one token after the other, blocks by integer division, decoding with rope_deltas", "right")


# ---- j198
def make(bug):
    d, base, s, L0 = 64, 10000.0, 8.0, 4096
    at = lambda r: d * math.log(L0 / (2 * math.pi * r)) / math.log(base) / 2
    lo, hi = max(math.floor(at(32)), 0), min(math.ceil(at(1)), d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    w = plain(base, d) * (1 - g + g / s)
    m = 1 + 0.1 * math.log(s)

    def cos_sin(positions):
        a = np.multiply.outer(np.asarray(positions, np.float64), w)
        q = a - 2 * np.pi * np.floor(a / (2 * np.pi))
        half = np.tan(q / 2)
        c, sn = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
        return np.repeat(m * c, 1, -1), m * sn

    return cos_sin


case("j198", make, RoPE(64, layout="half", scaling=YaRN(8.0, 4096)), "cos_sin",
     "right: cos and sin from the tangent of the half angle, in float64", "right")
