import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def rotate_half(x):
    h = x.shape[-1] // 2
    return np.concatenate([-x[..., h:], x[..., :h]], axis=-1)


# ---------------------------------------------------------------- a cache that never shrinks (dynamic NTK)
class DynamicCache:
    def __init__(self, sticky):
        self.sticky, self.d, self.base, self.L0, self.factor = sticky, 64, 10000.0, 64, 2.0
        self.inv, self.length = self._freq(self.L0), self.L0

    def _freq(self, n):
        b = self.base * (self.factor * n / self.L0 - (self.factor - 1)) ** (self.d / (self.d - 2))
        return 1.0 / b ** (np.arange(0, self.d, 2) / self.d)

    def __call__(self, x, offset):
        n = max(offset + x.shape[2], self.L0)
        if n > self.length or (n != self.length and not self.sticky):
            self.inv, self.length = self._freq(n), n
        emb = np.tile(np.outer(np.arange(offset, offset + x.shape[2]), self.inv), 2)
        return (x * np.cos(emb) + rotate_half(x) * np.sin(emb)).astype(x.dtype)


def make(bug):
    def calls(plan):
        rope = DynamicCache(sticky=bug)
        return [rope(x, int(o)) for x, o in plan]
    return calls
case("t018", make, P.RoPE(64, layout="half", scaling=P.DynamicNTK(2.0, 64)), "calls",
     "After one long call the module keeps the frequencies of that length: they are recomputed only when the "
     "sequence grows, never for a shorter one.",
     "frequencies-never-reset", "Reset to the original frequencies when the sequence is short again.")


# ---------------------------------------------------------------- growing table
def make(bug):
    class Rotary:
        def __init__(self, dim=64, base=10000.0):
            self.inv = base ** (-np.arange(0, dim, 2) / dim)
            self.cos = self.sin = np.zeros((0, dim // 2))

        def grow(self, n):
            have = len(self.cos)
            if n <= have:
                return
            t = np.arange(n - have) if bug else np.arange(have, n)
            a = t[:, None] * self.inv
            self.cos = np.concatenate([self.cos, np.cos(a)])
            self.sin = np.concatenate([self.sin, np.sin(a)])

        def forward(self, x, offset):
            end = offset + x.shape[-2]
            self.grow(end)
            c, s = self.cos[offset:end], self.sin[offset:end]
            a, b = x[..., 0::2], x[..., 1::2]
            return np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape).astype(x.dtype)

    def calls(plan):
        r = Rotary()
        return [r.forward(x, int(o)) for x, o in plan]
    return calls
case("t019", make, P.RoPE(64, layout="interleaved"), "calls",
     "When the table grows, the appended rows are counted from 0 again instead of from the old length.",
     "table-extension-from-zero", "Extend with arange(old, new).")


# ---------------------------------------------------------------- lru cache whose key lacks the offset
def make(bug):
    def calls(plan):
        store = {}

        def tables(offset, n, d):
            key = (n, d) if bug else (offset, n, d)
            if key not in store:
                a = np.arange(offset, offset + n)[:, None] / 10000.0 ** (np.arange(d // 2) * 2 / d)
                store[key] = np.exp(1j * a)
            return store[key]

        out = []
        for x, offset in plan:
            h = x.shape[-1] // 2
            z = (x[..., :h] + 1j * x[..., h:]) * tables(int(offset), x.shape[-2], x.shape[-1])
            out.append(np.concatenate([z.real, z.imag], -1).astype(x.dtype))
        return out
    return calls
case("t020", make, P.RoPE(32, layout="half"), "calls",
     "The cached table is looked up by its length alone: a later call of the same length gets the angles of the first offset.",
     "cache-key-without-offset", "Put the offset into the key of the cache.")


# ---------------------------------------------------------------- rotated keys in the cache (dynamic)
def make(bug):
    d, L0, s = 32, 64, 4.0

    def rot(x, start, n):
        n = max(n, L0)
        base = 10000.0 * (s * n / L0 - (s - 1)) ** (d / (d - 2))
        a = np.arange(start, start + x.shape[2])[:, None] * base ** (-np.arange(0, d, 2) / d)
        x1, x2 = x[..., :d // 2], x[..., d // 2:]
        return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1).astype(x.dtype)

    def key_cache(k, chunks):
        cache, at = [], 0
        for n in chunks:
            part = k[:, :, at:at + n]
            cache.append(rot(part, at, at + n) if bug else part)
            at += n
        whole = np.concatenate(cache, axis=2)
        return whole if bug else rot(whole, 0, at)
    return key_cache
case("t021", make, P.RoPE(32, layout="half", scaling=P.DynamicNTK(4.0, 64)), "key_cache",
     "The cache holds keys rotated with the frequencies of the length at which they came; they are not rotated "
     "again when the length, and with it the base, grows.",
     "rotated-keys-cached", "Cache the raw keys and rotate all of them with the current frequencies.")


# ---------------------------------------------------------------- the offset is read after the update
def make(bug):
    class Layer:
        def __init__(self):
            self.keys = None
            self.inv = 10000.0 ** (-np.arange(0, 64, 2) / 64)

        def past(self):
            return 0 if self.keys is None else self.keys.shape[2]

        def step(self, x):
            start = self.past()
            self.keys = x if self.keys is None else np.concatenate([self.keys, x], axis=2)
            if bug:
                start = self.past() if start else 0
            a = (start + np.arange(x.shape[2]))[:, None] * self.inv
            c, s = np.cos(a), np.sin(a)
            u, v = np.split(x, 2, axis=-1)
            return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)

    def decode(x, chunks):
        layer, out, at = Layer(), [], 0
        for n in chunks:
            out.append(layer.step(x[:, :, at:at + n]))
            at += n
        return np.concatenate(out, axis=2)
    return decode
case("t022", make, P.RoPE(64, layout="half"), "decode",
     "In decoding, the offset is the length of the cache after the new keys were appended, so every step after "
     "the prompt is late by its own number of tokens.",
     "offset-after-update", "Read the length of the cache before the update.")


# ---------------------------------------------------------------- the counter moves by one per call
def make(bug):
    class Decoder:
        def __init__(self):
            self.pos = 0
            self.w = 500000.0 ** (-np.arange(16) / 16)

        def __call__(self, x):
            n = x.shape[2]
            z = np.exp(1j * np.multiply.outer(self.pos + np.arange(n), self.w))
            self.pos += (n if self.pos == 0 else 1) if bug else n
            p = x.reshape(*x.shape[:-1], 16, 2).astype(np.float64)
            y = (p[..., 0] + 1j * p[..., 1]) * z
            return np.stack([y.real, y.imag], -1).reshape(x.shape).astype(x.dtype)

    def decode(x, chunks):
        d = Decoder()
        return np.concatenate([d(p) for p in np.split(x, np.cumsum(chunks)[:-1], axis=2)], axis=2)
    return decode
case("t023", make, P.RoPE(32, layout="interleaved", base=500000.0), "decode",
     "After the prompt the position counter goes up by one per call, although a call may bring several tokens "
     "(speculative decoding, chunked prefill).",
     "counter-one-per-call", "Add the number of tokens of the chunk.")


# ---------------------------------------------------------------- ragged batch
def make(bug):
    def apply_offset(x, offset):
        B, H, S, D = x.shape
        inv = 10000.0 ** (-np.arange(0, D, 2) / D)
        y = np.empty_like(x)
        for b in range(B):
            start = int(offset[0] if bug else offset[b])
            a = np.arange(start, start + S)[:, None] * inv
            x1, x2 = x[b, ..., :D // 2], x[b, ..., D // 2:]
            y[b, ..., :D // 2] = x1 * np.cos(a) - x2 * np.sin(a)
            y[b, ..., D // 2:] = x2 * np.cos(a) + x1 * np.sin(a)
        return y
    return apply_offset
case("t024", make, P.RoPE(64, layout="half"), "apply_offset",
     "The kernel reads the first offset only and uses it for every row of the batch.",
     "first-offset-for-all-rows", "Read offset[b] in the loop over the batch.")


# ---------------------------------------------------------------- tables of q used for k
def make(bug):
    w = 10000.0 ** (-np.arange(0, 64, 2) / 64)

    def table(p):
        a = np.asarray(p, np.float64)[..., None] * w
        a = a[:, None] if a.ndim == 3 else a
        return np.cos(a), np.sin(a)

    def turn(x, c, s):
        a, b = x[..., :32], x[..., 32:]
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        tq = table(q_positions)
        same = np.shape(q_positions) == np.shape(k_positions)
        tk = tq if bug and same else table(k_positions)
        return turn(q, *tq), turn(k, *tk)
    return apply_qk
case("t025", make, P.RoPE(64, layout="half"), "apply_qk",
     "The table of the queries is reused for the keys whenever both have the same number of tokens, even if their positions differ.",
     "query-table-for-keys", "Compare the positions themselves, or build both tables.")


# ---------------------------------------------------------------- in place
def make(bug):
    w = 10000.0 ** (-np.arange(0, 128, 2) / 128)

    def apply(x, positions):
        a = np.asarray(positions, np.float64)[..., None] * w
        if a.ndim == 3:
            a = a[:, None]
        c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
        y = x.copy()
        lo, hi = y[..., :64], y[..., 64:]
        keep = lo if bug else lo.copy()
        lo[...] = lo * c - hi * s
        hi[...] = hi * c + keep * s
        return y
    return apply
case("t026", make, P.RoPE(128, layout="half"), "apply",
     "The rotation works in place: the second half is computed from the first half after it was overwritten.",
     "in-place-aliasing", "Keep a copy of the first half before writing.")


# ---------------------------------------------------------------- tail of a tile
def make(bug):
    TILE = 64
    w = 10000.0 ** (-np.arange(0, 64, 2) / 64)

    def apply(x, positions):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions, np.float64), (B, S)) if np.ndim(positions) == 1 else np.asarray(positions, np.float64)
        y = np.array(x, dtype=x.dtype)
        for start in range(0, S, TILE):
            if bug and S > TILE:
                start = min(start, S - TILE)       # keep every tile full
            end = min(start + TILE, S)
            a = (p[:, start:end, None] * w)[:, None]
            block = y[:, :, start:end]
            even, odd = block[..., ::2].copy(), block[..., 1::2].copy()
            block[..., ::2] = even * np.cos(a) - odd * np.sin(a)
            block[..., 1::2] = odd * np.cos(a) + even * np.sin(a)
        return y
    return apply
case("t027", make, P.RoPE(64, layout="interleaved"), "apply",
     "The last tile is moved back to be full, and since the rotation is in place its overlap with the tile before is rotated twice.",
     "overlapping-tile-twice", "Mask the tail of the last tile instead of moving it.")


# ---------------------------------------------------------------- exported table, index clamped
def make(bug):
    MAX = 4096
    ang = np.arange(MAX)[:, None] * 10000.0 ** (-np.arange(0, 32, 2) / 32)
    COS, SIN = np.cos(ang), np.sin(ang)
    w = 10000.0 ** (-np.arange(0, 32, 2) / 32)

    def apply(x, positions):
        p = np.asarray(positions)
        if bug or (p.max() < MAX and p.min() >= 0 and p.dtype.kind in "iu"):
            i = np.clip(p, 0, MAX - 1).astype(np.int64)
            c, s = COS[i], SIN[i]
        else:
            a = p.astype(np.float64)[..., None] * w
            c, s = np.cos(a), np.sin(a)
        if c.ndim == 3:
            c, s = c[:, None], s[:, None]
        c, s = np.concatenate([c, c], -1), np.concatenate([s, s], -1)
        return (x * c + rotate_half(x) * s).astype(x.dtype)
    return apply
case("t028", make, P.RoPE(32, layout="half"), "apply",
     "The exported graph gathers from a table of 4096 rows and clamps the index, so all later tokens have position 4095.",
     "table-index-clamped", "Compute angles beyond the table, or export a table of the longest length.")


# ---------------------------------------------------------------- only the first position counts
def make(bug):
    w = 10000.0 ** (-np.arange(0, 64, 2) / 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if bug:
            p = p[..., :1] + np.arange(x.shape[2])
        a = p[..., None] * w
        a = a if a.ndim == 2 else a[:, None]
        z = (x[..., :32] + 1j * x[..., 32:]) * np.exp(1j * a)
        return np.concatenate((z.real, z.imag), axis=-1).astype(x.dtype)
    return apply
case("t029", make, P.RoPE(64, layout="half"), "apply",
     "The fused kernel takes the first position and counts on from it; positions with gaps (packed or evicted tokens) are not read.",
     "positions-assumed-contiguous", "Load the position of every token.")


# ---------------------------------------------------------------- half precision buffer
def make(bug):
    class Rotary:
        def __init__(self):
            self.inv_freq = 1.0 / 10000.0 ** (np.arange(0, 64, 2) / 64)

        def half(self):
            if bug:
                self.inv_freq = self.inv_freq.astype(np.float16)
            return self

    r = Rotary().half()

    def cos_sin(positions):
        f = np.einsum("i,j->ij", np.asarray(positions, np.float64), r.inv_freq.astype(np.float64))
        return np.cos(f), np.sin(f)
    return cos_sin
case("t030", make, P.RoPE(64, layout="half"), "cos_sin",
     "The buffer of inverse frequencies is cast to float16 with the rest of the model, which loses 13 bits of every frequency.",
     "frequencies-in-half", "Keep inv_freq in float32 when the model is cast.")


# ---------------------------------------------------------------- backward of a scaled rotation
def make(bug):
    d, s, L0, base = 64, 4.0, 2048, 10000.0
    lo, hi = (d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base)) for r in (32, 1))
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    k = np.arange(d // 2)
    g = np.clip((k - lo) / (hi - lo), 0, 1)
    w = base ** (-2 * k / d) * (1 - g + g / s)
    m = 0.1 * math.log(s) + 1

    def vjp(x, positions, dy):
        a = np.asarray(positions, np.float64)[..., None] * w
        a = a[:, None] if a.ndim == 3 else a
        f = 1 / m if bug else m
        c, sn = f * np.cos(a), f * np.sin(a)
        g1, g2 = dy[..., :d // 2], dy[..., d // 2:]
        return np.concatenate([g1 * c + g2 * sn, g2 * c - g1 * sn], -1).astype(dy.dtype)
    return vjp
case("t031", make, P.RoPE(64, layout="half", scaling=P.YaRN(4.0, 2048)), "apply_vjp",
     "The backward pass applies the inverse of the rotation, which divides by YaRN's attention factor, instead of the transpose, which multiplies by it.",
     "inverse-as-gradient", "Multiply the gradient by m and turn it by the negative angle.")


# ---------------------------------------------------------------- backward with another pairing
def make(bug):
    w = 10000.0 ** (-np.arange(0, 48, 2) / 48)

    def vjp(x, positions, dy):
        a = np.asarray(positions, np.float64)[..., None] * w
        a = a[:, None] if a.ndim == 3 else a
        a = np.repeat(a, 2, -1)
        dsin = dy * np.sin(a)
        back = np.empty_like(dsin)
        if bug:
            h = 24
            back[..., :h], back[..., h:] = dsin[..., h:], -dsin[..., :h]
        else:
            back[..., ::2], back[..., 1::2] = dsin[..., 1::2], -dsin[..., ::2]
        return (dy * np.cos(a) + back).astype(dy.dtype)
    return vjp
case("t032", make, P.RoPE(48, layout="interleaved"), "apply_vjp",
     "The forward pass has interleaved pairs, but the backward pass transposes rotate_half, which pairs channel k with k + d/2.",
     "backward-other-layout", "Use the transpose of the interleaved swap in the backward pass.")


# ---------------------------------------------------------------- shift of rotated keys
def make(bug):
    d, s, L0, base = 64, 8.0, 4096, 10000.0
    lo, hi = (d * math.log(L0 / (r * math.tau)) / (2 * math.log(base)) for r in (32, 1))
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    k = np.arange(d // 2)
    g = np.clip((k - lo) / (hi - lo), 0, 1)
    w = base ** (-2 * k / d) * (1 - g + g / s)
    m = 0.1 * math.log(s) + 1 if bug else 1.0

    def shift(rotated, delta):
        z = rotated[..., ::2].astype(np.float64) + 1j * rotated[..., 1::2]
        z = z * (m * np.exp(1j * float(delta) * w))
        return np.stack([z.real, z.imag], -1).reshape(rotated.shape).astype(rotated.dtype)
    return shift
case("t033", make, P.RoPE(64, layout="interleaved", scaling=P.YaRN(8.0, 4096)), "shift_keys",
     "Moving cached keys applies YaRN's attention factor once more, although the keys already contain it.",
     "factor-applied-again", "Rotate by delta without the factor.")


# ---------------------------------------------------------------- eviction
def make(bug):
    w = 10000.0 ** (-np.arange(0, 64, 2) / 64)

    def evict(keys, kept, dropped):
        sinks, rest = keys[:, :, :kept], keys[:, :, kept + dropped:]
        delta = -(kept + dropped) if bug else -dropped
        c, s = np.cos(delta * w), np.sin(delta * w)
        a, b = np.split(rest, 2, axis=-1)
        moved = np.concatenate([a * c - b * s, b * c + a * s], -1).astype(keys.dtype)
        return np.concatenate([sinks, moved], axis=2)
    return evict
case("t034", make, P.RoPE(64, layout="half"), "evict_keys",
     "The remaining keys are moved back to positions from 0 on, over those of the attention sinks, instead of behind them.",
     "moved-over-the-sinks", "Move the keys back by the number of dropped keys alone.")


# ---------------------------------------------------------------- right
def make(bug):
    LO = 1024
    w = 10000.0 ** (-np.arange(0, 64, 2) / 64)
    fine = np.exp(1j * np.arange(LO)[:, None] * w)

    def apply(x, positions):
        p = np.asarray(positions)
        hi = np.floor(p / LO)
        lo = p - hi * LO
        f = fine[lo.astype(np.int64)] if p.dtype.kind in "iu" else np.exp(1j * lo[..., None] * w)
        z = f * np.exp(1j * (hi * LO)[..., None] * w)
        z = z if z.ndim == 2 else z[:, None]
        y = x.view(np.complex64) if x.dtype == np.float32 and x.flags.c_contiguous else x[..., ::2] + 1j * x[..., 1::2]
        y = y * z
        return np.stack([y.real, y.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("t079", make, P.RoPE(64, layout="interleaved"), "apply",
     "Two-level tables: the rotation of a position is the product of a fine and a coarse one, and x is viewed as complex numbers.", "right")


def make(bug):
    class Cache:
        def __init__(self):
            self.n, self.tab = 0, None

        def need(self, n):
            if n > self.n:
                self.n = 1 << (n - 1).bit_length()
                a = np.outer(np.arange(self.n), 10000.0 ** (-np.arange(16) / 16))
                self.tab = np.stack([np.cos(a), np.sin(a)])
            return self.tab

    def calls(plan):
        cache = Cache()
        out = []
        for x, o in plan:
            o = int(o)
            c, s = cache.need(o + x.shape[2])[:, o:o + x.shape[2]]
            half = x.reshape(*x.shape[:-1], 2, 16)
            swapped = half[..., ::-1, :] * np.array([-1, 1], x.dtype)[:, None]
            out.append((half * c[:, None] + swapped * s[:, None]).reshape(x.shape).astype(x.dtype))
        return out
    return calls
case("t080", make, P.RoPE(32, layout="half"), "calls",
     "The table is rebuilt at the next power of two when a call needs more rows.", "right")


def make(bug):
    d, L0, s = 32, 64, 4.0

    def key_cache(k, chunks):
        buffer = np.zeros((*k.shape[:2], 0, d), k.dtype)
        for a, b in zip(np.cumsum([0, *chunks]), np.cumsum(chunks)):
            buffer = np.append(buffer, k[:, :, a:b], axis=2)
        n = buffer.shape[2]
        alpha = max(1 + s * (n - L0) / L0, 1.0)
        w = 10000.0 ** (-np.arange(0, d, 2) / d) * alpha ** (-np.arange(0, d, 2) / (d - 2))
        z = (buffer[..., :16] + 1j * buffer[..., 16:]) * np.exp(1j * np.outer(np.arange(n), w))
        return np.concatenate([z.real, z.imag], -1).astype(k.dtype)
    return key_cache
case("t081", make, P.RoPE(32, layout="half", scaling=P.DynamicNTK(4.0, 64)), "key_cache",
     "Raw keys are cached; frequencies are divided by a power of alpha instead of using a larger base.", "right")


def make(bug):
    w = 10000.0 ** (-np.arange(0, 32, 2) / 32)

    def vjp(x, positions, dy):
        p = np.asarray(positions, np.float64)
        a = p[..., None] * w
        R = np.zeros((*a.shape[:-1], 32, 32))
        k = np.arange(16)
        R[..., 2 * k, 2 * k] = R[..., 2 * k + 1, 2 * k + 1] = np.cos(a)
        R[..., 2 * k, 2 * k + 1], R[..., 2 * k + 1, 2 * k] = -np.sin(a), np.sin(a)
        sub = "bhsi,sij->bhsj" if p.ndim == 1 else "bhsi,bsij->bhsj"
        return np.einsum(sub, dy, R).astype(dy.dtype)
    return vjp
case("t082", make, P.RoPE(32, layout="interleaved"), "apply_vjp",
     "The whole rotation matrix of every token is built, and the gradient is multiplied from the left: y^T R.", "right")


def make(bug):
    w = 10000.0 ** (-np.arange(0, 64, 2) / 64)

    def evict(keys, kept, dropped):
        n = keys.shape[2]
        index = np.r_[0:kept, kept + dropped:n]
        delta = np.arange(index.size) - index            # 0 for the sinks, -dropped for the rest
        a = delta[:, None] * w
        held = keys[:, :, index]
        x1, x2 = held[..., :32], held[..., 32:]
        return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1).astype(keys.dtype)
    return evict
case("t083", make, P.RoPE(64, layout="half"), "evict_keys",
     "One rotation for all keys, by new place minus old place, which is zero for the sinks.", "right")
