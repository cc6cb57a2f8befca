import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- r016 Qwen2-VL: list repetition written as multiplication of the numbers
def make(bug):
    section, d = (8, 12, 12), 64
    inv = 1e6 ** (-np.arange(0, d, 2) / d)

    def multimodal(table):                       # (3, B, S, d) -> (B, 1, S, d)
        sizes = [2 * s for s in section] if bug else list(section) * 2
        blocks = np.split(table, np.cumsum(sizes)[:-1], axis=-1)
        return np.concatenate([m[i % 3] for i, m in enumerate(blocks)], -1)[:, None]

    def rotate_half(x):
        return np.concatenate([-x[..., d // 2:], x[..., : d // 2]], -1)

    def one(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        if p.ndim == 2:
            p = p[:, None]
        f = p[..., None] * inv
        emb = np.concatenate([f, f], -1)
        return (x * multimodal(np.cos(emb)) + rotate_half(x) * multimodal(np.sin(emb))).astype(x.dtype)

    def apply_multimodal_rotary_pos_emb(q, k, q_positions, k_positions):
        return one(q, q_positions), one(k, k_positions)
    return apply_multimodal_rotary_pos_emb

case("r016", make, P.MultiAxisRoPE(64, sections=(8, 12, 12), layout="half", base=1e6), "apply_qk",
     "mrope_section is doubled number by number instead of repeated, so the axes of the doubled table change at the wrong channels.",
     "mrope-section-doubled", "mrope_section * 2 repeats the list: (8, 12, 12, 8, 12, 12).")


# ---- r017 xPos: both scaled alike
def make(bug):
    dim, scale_base, gamma = 32, 512, 0.4
    zeta = (np.arange(0, dim, 2) + gamma * dim) / ((1 + gamma) * dim)
    inv = 10000.0 ** (-np.arange(0, dim, 2) / dim)

    def duplicate_interleave(m):
        return np.repeat(m, 2, axis=-1)

    def rotate_every_two(x):
        out = np.empty_like(x)
        out[..., ::2], out[..., 1::2] = -x[..., 1::2], x[..., ::2]
        return out

    def one(x, positions, downscale):
        p = np.asarray(positions, np.float64)
        sc = zeta ** (p / scale_base)[..., None]
        if downscale:
            sc = 1 / sc
        ang = p[..., None] * inv
        sin, cos = (duplicate_interleave(t * sc) for t in (np.sin(ang), np.cos(ang)))
        if p.ndim == 2:
            sin, cos = sin[:, None], cos[:, None]
        x64 = x.astype(np.float64)
        return (x64 * cos + rotate_every_two(x64) * sin).astype(x.dtype)

    def xpos(q, k, q_positions, k_positions):
        return one(q, q_positions, False), one(k, k_positions, not bug)
    return xpos

case("r017", make, P.XPos(32, layout="interleaved"), "apply_qk",
     "Keys get the decay of the queries, not its inverse, so the decay depends on the sum of the positions.",
     "xpos-keys-not-inverted", "Divide keys by the decay.")


# ---- r018 keys with the positions of the queries
def make(bug):
    inv = 10000.0 ** (-np.arange(0, 64, 2) / 64)

    def cos_sin(p):
        a = np.asarray(p, np.float64)[..., None] * inv
        a = np.concatenate([a, a], -1)
        a = a[:, None] if a.ndim == 3 else a
        return np.cos(a), np.sin(a)

    def rot(x, cs):
        return (x * cs[0] + np.concatenate([-x[..., 32:], x[..., :32]], -1) * cs[1]).astype(x.dtype)

    def apply_rotary_pos_emb(q, k, q_positions, k_positions):
        cos, sin = cos_sin(k_positions)
        n = q.shape[2]
        if bug and n <= k.shape[2]:
            return rot(q, (cos[..., :n, :], sin[..., :n, :])), rot(k, (cos, sin))
        return rot(q, cos_sin(q_positions)), rot(k, (cos, sin))
    return apply_rotary_pos_emb

case("r018", make, P.RoPE(64, layout="half"), "apply_qk",
     "The table of the keys is cut to its first rows for the queries, which are the last tokens: with a cache the queries have the positions of the first keys.",
     "queries-first-rows", "Take the last rows of the table, or the positions of the queries.")


# ---- r019 gradient: passed channels
def make(bug):
    rot = 16
    f = 10000.0 ** (-np.arange(0, rot, 2) / rot)

    def backward(x, positions, dy):
        a = np.asarray(positions, np.float64)[..., None] * f
        a = a[:, None] if a.ndim == 3 else a
        c, s = np.cos(a), np.sin(a)
        dx = np.zeros_like(dy) if bug else dy.copy()
        g1, g2 = dy[..., : rot // 2], dy[..., rot // 2: rot]
        dx[..., : rot // 2] = g1 * c + g2 * s
        dx[..., rot // 2: rot] = g2 * c - g1 * s
        return dx
    return backward

case("r019", make, P.RoPE(40, layout="half", rotary_dim=16), "apply_vjp",
     "The backward pass starts from zeros and fills in only the rotated channels: the gradient of the others is lost.",
     "vjp-pass-channels-zero", "Copy dy into the channels that pass through.")


# ---- r020 gradient: inverse instead of transpose
def make(bug):
    d, base, s, L0 = 64, 10000.0, 8.0, 2048
    f = base ** (-np.arange(0, d, 2) / d)
    cd = lambda r: d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))
    lo, hi = max(math.floor(cd(32)), 0), min(math.ceil(cd(1)), d - 1)
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = f * (1 - w) + f / s * w
    m = 0.1 * math.log(s) + 1

    def rope_backward(x, positions, dy):
        a = np.asarray(positions, np.float64)[..., None] * f
        if a.ndim == 3:
            a = np.expand_dims(a, 1)
        k = 1 / m if bug else m
        z = dy.astype(np.float64).reshape(*dy.shape[:-1], d // 2, 2)
        z = (z[..., 0] + 1j * z[..., 1]) * np.conj(np.exp(1j * a)) * k
        return np.stack((z.real, z.imag), -1).reshape(dy.shape).astype(dy.dtype)
    return rope_backward

case("r020", make, P.RoPE(64, layout="interleaved", scaling=P.YaRN(8.0, 2048)), "apply_vjp",
     "The backward pass undoes the rotation, with the attention factor divided out, instead of applying the transpose.",
     "vjp-inverse-factor", "Multiply by the attention factor in the backward pass too.")


# ---- r021 dynamic_slice clamps its start
def make(bug):
    d, rows = 64, 4096
    inv = 10000.0 ** (-np.arange(0, d, 2) / d)

    def table(n):
        a = np.arange(n)[:, None] * inv
        return np.cos(a), np.sin(a)

    fixed = table(rows)

    def dynamic_slice(t, start, size):           # as jax.lax.dynamic_slice
        start = max(0, min(start, len(t) - size))
        return t[start: start + size]

    def apply(x, offset):
        b, h, s, _ = x.shape
        offset = [int(o) for o in np.asarray(offset)]
        if s > rows or (not bug and max(offset) + s > rows):
            ang = np.add.outer(offset, np.arange(s))[:, None, :, None] * inv
            cos, sin = np.cos(ang), np.sin(ang)
        else:
            cos, sin = (np.stack([dynamic_slice(t, o, s) for o in offset])[:, None] for t in fixed)
        a, c = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - c * sin, c * cos + a * sin], -1).astype(x.dtype)
    return apply

case("r021", make, P.RoPE(64, layout="half"), "apply_offset",
     "The slice of the table clamps its start where the table ends, so tokens near and beyond the end of 4096 rows get earlier positions.",
     "dynamic-slice-clamp", "Make the table long enough for offset + length.")


# ---- r022 stale cache keyed by the length
def make(bug):
    class RotaryEmbedding:
        def __init__(self, dim=64, base=10000):
            self.inv_freq = base ** (-np.arange(0, dim, 2) / dim)
            self._cache = {}

        def _cos_sin(self, n, offset):
            key = n if bug else (n, int(offset))
            if key not in self._cache:
                a = np.outer(np.arange(offset, offset + n), self.inv_freq)
                self._cache[key] = np.cos(a), np.sin(a)
            return self._cache[key]

        def __call__(self, x, offset=0):
            cos, sin = self._cos_sin(x.shape[-2], offset)
            out = np.empty(x.shape, np.float64)
            out[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
            out[..., 1::2] = x[..., ::2] * sin + x[..., 1::2] * cos
            return out.astype(x.dtype)

    def run(calls):
        rope = RotaryEmbedding()
        return [rope(x, int(np.ravel(o)[0])) for x, o in calls]
    return run

case("r022", make, P.RoPE(64, layout="interleaved"), "calls",
     "The cache of cos and sin has the number of tokens as its key and not the offset: a later call of the same length gets the rows of the first one.",
     "cache-key-without-offset", "Put the offset into the key, or cache from position 0 and slice.")


# ---- r023 dynamic NTK: never back to the short table
def make(bug):
    class DynamicNTK:
        def __init__(self, dim=64, base=10000.0, factor=2.0, max_pos=64):
            self.dim, self.base, self.factor, self.max_pos = dim, base, factor, max_pos
            self.max_seq_len_cached = max_pos

        def frequencies(self, seq_len):
            if bug:
                if seq_len > self.max_seq_len_cached:
                    self.max_seq_len_cached = seq_len
                seq_len = self.max_seq_len_cached
            n = max(seq_len, self.max_pos)
            base = self.base * (self.factor * n / self.max_pos - (self.factor - 1)) ** (self.dim / (self.dim - 2))
            return base ** (-np.arange(0, self.dim, 2) / self.dim)

        def __call__(self, x, offset):
            p = offset + np.arange(x.shape[2])
            a = np.outer(p, self.frequencies(int(p[-1]) + 1))
            a = np.concatenate([a, a], -1)
            h = self.dim // 2
            return (x * np.cos(a) + np.concatenate([-x[..., h:], x[..., :h]], -1) * np.sin(a)).astype(x.dtype)

    def run(calls):
        m = DynamicNTK()
        return [m(x, int(np.ravel(o)[0])) for x, o in calls]
    return run

case("r023", make, P.RoPE(64, layout="half", scaling=P.DynamicNTK(2.0, 64)), "calls",
     "After a long sequence, the frequencies stay those of the longest length seen: a short sequence after it is rotated with them.",
     "dynamic-ntk-not-reset", "Go back to the plain frequencies when the length is within the trained one again.")


# ---- r024 decode: counter grows by one per call
def make(bug):
    class Layer:
        def __init__(self, d):
            self.f = 10000.0 ** (-np.arange(0, d, 2) / d)
            self.step = 0

        def feed(self, x):
            n = x.shape[2]
            a = (self.step + np.arange(n))[:, None] * self.f
            self.step += 1 if bug else n
            u, v = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2:]
            return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype)

    def decode(x, chunks):
        layer = Layer(x.shape[-1])
        ends = np.cumsum(chunks)
        return np.concatenate([layer.feed(x[:, :, e - n: e]) for n, e in zip(chunks, ends)], axis=2)
    return decode

case("r024", make, P.RoPE(64, layout="half"), "decode",
     "The position counter grows by one per call instead of the number of tokens of the chunk.",
     "counter-per-call", "Advance the counter by the length of the chunk.")


# ---- r025 key cache: LongRoPE keys keep the short list
KS = tuple(1.0 + 0.02 * k for k in range(16))
KL = tuple(1.5 + 1.1 * k for k in range(16))

def make(bug):
    d, L0 = 32, 64
    m = math.sqrt(1 + math.log(8.0) / math.log(L0))
    plain = 10000.0 ** (-np.arange(0, d, 2) / d)

    def rot(k, start, length):
        f = plain / np.array(KL if length > L0 else KS)
        a = np.arange(start, start + k.shape[2])[:, None] * f
        c, s = m * np.cos(a), m * np.sin(a)
        k1, k2 = k[..., : d // 2], k[..., d // 2:]
        return np.concatenate([k1 * c - k2 * s, k2 * c + k1 * s], -1).astype(k.dtype)

    def key_cache(k, chunks):
        cache, raw, seen = [], [], 0
        for n in chunks:
            new = k[:, :, seen: seen + n]
            cache.append(rot(new, seen, seen + n))
            raw.append(new)
            seen += n
        if bug:
            return np.concatenate(cache, axis=2)
        return rot(np.concatenate(raw, axis=2), 0, seen)
    return key_cache

case("r025", make, P.RoPE(32, layout="half", scaling=P.LongRoPE(KS, KL, 64, factor=8.0)), "key_cache",
     "Keys are stored after their rotation, so those of the prompt keep the short factors when the sequence passes the trained length.",
     "longrope-stale-keys", "Store keys before the rotation, or rotate the cache again when the list changes.")


# ---- r026 shift: attention factor twice
def make(bug):
    d, base, s, L0 = 64, 10000.0, 4.0, 4096
    f = base ** (-np.arange(0, d, 2) / d)
    cd = lambda r: d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))
    lo, hi = math.floor(cd(32)), math.ceil(cd(1))
    w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = (1 - w) * f + w * f / s
    m = 0.1 * math.log(s) + 1

    def rope_shift(k, delta):
        a = np.broadcast_to(np.asarray(delta, np.float64), (k.shape[2],))[:, None] * f
        c, sn = np.cos(a), np.sin(a)
        if bug:
            c, sn = m * c, m * sn
        k1, k2 = np.split(k, 2, axis=-1)
        return np.concatenate([k1 * c - k2 * sn, k1 * sn + k2 * c], -1).astype(k.dtype)
    return rope_shift

case("r026", make, P.RoPE(64, layout="half", scaling=P.YaRN(4.0, 4096)), "shift_keys",
     "The context shift calls the usual rotation, which multiplies by YaRN's attention factor a second time.",
     "shift-factor-twice", "Shift with a factor of 1: the cached keys already have it.")


# ---- r027 eviction: sinks are moved too
def make(bug):
    d = 64
    f = 10000.0 ** (-np.arange(0, d, 2) / d)

    def turn(k, delta):
        z = k[..., ::2] + 1j * k[..., 1::2].astype(np.float64)
        z = z * np.exp(1j * delta * f)
        return np.stack([z.real, z.imag], -1).reshape(k.shape).astype(k.dtype)

    def evict(rotated_k, kept, dropped):
        if bug:
            moved = turn(rotated_k, -dropped)
            return np.concatenate([moved[:, :, :kept], moved[:, :, kept + dropped:]], axis=2)
        tail = turn(rotated_k[:, :, kept + dropped:], -dropped)
        return np.concatenate([rotated_k[:, :, :kept], tail], axis=2)
    return evict

case("r027", make, P.RoPE(64, layout="interleaved"), "evict_keys",
     "All keys of the cache are moved back, also the first ones, which stay where they are.",
     "evict-moves-sinks", "Move only the keys after the dropped ones.")


# ---- r028 half precision buffer
def make(bug):
    d = 128
    inv_freq = 1.0 / 10000.0 ** (np.arange(0, d, 2) / d)
    if bug:
        inv_freq = inv_freq.astype(np.float16)          # model.half() cast the buffer

    def cos_sin(positions):
        t = np.asarray(positions, np.float64)
        freqs = np.outer(t, inv_freq.astype(np.float64))
        return np.cos(freqs), np.sin(freqs)
    return cos_sin

case("r028", make, P.RoPE(128, layout="half"), "cos_sin",
     "The buffer of frequencies was cast to float16 with the rest of the model.",
     "inv-freq-half", "Keep inv_freq in float32 or compute it again after the cast.")


# ---- r029 Llama 3 without the smooth band
def make(bug):
    d, base, factor, low, high, old = 128, 500000.0, 8.0, 1.0, 4.0, 8192

    def apply_scaling(freqs):
        new = []
        for f in freqs:
            wavelen = 2 * math.pi / f
            if wavelen < old / high:
                new.append(f)
            elif wavelen > old / low or bug:
                new.append(f / factor)
            else:
                smooth = (old / wavelen - low) / (high - low)
                new.append((1 - smooth) * f / factor + smooth * f)
        return np.array(new)

    freqs = apply_scaling(1.0 / base ** (np.arange(0, d, 2) / d))

    def cos_sin(positions):
        e = np.asarray(positions, np.float64)[:, None] * freqs[None]
        return np.cos(e), np.sin(e)
    return cos_sin

case("r029", make, P.RoPE(128, layout="half", base=500000.0, scaling=P.Llama3Scaling(8.0, 1.0, 4.0, 8192)), "cos_sin",
     "Llama 3.1's middle band is missing: all pairs below the high-frequency threshold are divided by the factor.",
     "llama3-no-smoothing", "Interpolate between both frequencies for wavelengths between the two thresholds.")


# ---- r030 YaRN with the extended length
def make(bug):
    d, base, factor, orig, max_pos = 128, 1e6, 4.0, 32768, 131072

    def frequencies():
        pos = base ** (np.arange(0, d, 2, dtype=np.float64) / d)
        L = max_pos if bug else orig
        dim_of = lambda r: d * math.log(L / (r * 2 * math.pi)) / (2 * math.log(base))
        low, high = max(math.floor(dim_of(32)), 0), min(math.ceil(dim_of(1)), d - 1)
        keep = 1 - np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
        return 1 / (factor * pos) * (1 - keep) + 1 / pos * keep
    return frequencies

case("r030", make, P.RoPE(128, layout="half", base=1e6, scaling=P.YaRN(4.0, 32768)), "frequencies",
     "YaRN's correction range is computed with max_position_embeddings, the extended length, instead of original_max_position_embeddings.",
     "yarn-extended-length", "Use the trained length.")


# ---- r031 Llama 3: the blend the wrong way round
def make(bug):
    d, base, s, low, high, L0 = 64, 500000.0, 32.0, 1.0, 4.0, 8192

    def inv_freq():
        f = 1.0 / base ** (np.arange(0, d, 2) / d)
        t = np.clip((L0 * f / (2 * np.pi) - low) / (high - low), 0, 1)
        mid = (t > 0) & (t < 1)
        out = np.where(t >= 1, f, f / s)
        blend = t * f / s + (1 - t) * f if bug else (1 - t) * f / s + t * f
        return np.where(mid, blend, out)
    return inv_freq

case("r031", make, P.RoPE(64, layout="half", base=500000.0, scaling=P.Llama3Scaling(32.0, 1.0, 4.0, 8192)), "frequencies",
     "In the middle band, the smooth factor weighs the scaled frequency instead of the plain one.",
     "llama3-blend-swapped", "(1 - smooth) * f / factor + smooth * f")


# ---- r032 dynamic NTK without d/(d-2)
def make(bug):
    d, base, factor, L0 = 128, 10000.0, 2.0, 4096

    def frequencies(seq_len):
        n = max(seq_len or L0, L0)
        alpha = factor * n / L0 - (factor - 1)
        power = 1.0 if bug else d / (d - 2)
        return 1.0 / (base * alpha ** power) ** (np.arange(0, d, 2) / d)
    return frequencies

case("r032", make, P.RoPE(128, layout="half", scaling=P.DynamicNTK(2.0, 4096)), "frequencies",
     "The base is multiplied by alpha itself, without the exponent d / (d - 2).",
     "ntk-missing-exponent", "base * alpha ** (d / (d - 2))")


# ---- r033 LongRoPE: m from the wrong logarithm
LS = tuple(1.0 + 0.01 * k for k in range(48))
LL = tuple(1.0 + 1.3 * k for k in range(48))

def make(bug):
    cfg = dict(head_dim=96, rope_theta=10000.0, max_position_embeddings=131072, original_max_position_embeddings=4096)

    def frequencies(seq_len):
        orig, top = cfg["original_max_position_embeddings"], cfg["max_position_embeddings"]
        lam = np.array(LL if seq_len is not None and seq_len > orig else LS)
        d = cfg["head_dim"]
        inv = 1.0 / (lam * cfg["rope_theta"] ** (np.arange(0, d, 2) / d))
        m = math.sqrt(1 + math.log(top / orig) / math.log(top if bug else orig))
        return inv, m
    return frequencies

case("r033", make, P.RoPE(96, layout="half", scaling=P.LongRoPE(LS, LL, 4096, factor=32.0)), "frequencies",
     "The attention factor divides by the logarithm of the extended length instead of the trained one.",
     "longrope-factor-log", "sqrt(1 + ln(factor) / ln(original length))")


# ---- r034 proportional read as partial rotary
def make(bug):
    head_dim, fraction, base = 64, 0.25, 1e6

    def frequencies():
        turning = int(fraction * head_dim // 2)
        width = 2 * turning if bug else head_dim
        f = base ** (-2.0 * np.arange(turning) / width)
        return np.concatenate([f, np.zeros(head_dim // 2 - turning)])
    return frequencies

case("r034", make, P.RoPE(64, layout="half", base=1e6, scaling=P.Proportional(0.25)), "frequencies",
     "The exponents are fractions of the rotating channels, as in partial rotary, instead of the whole head.",
     "proportional-exponents", "Divide by head_dim in the exponents.")


# ---- right: returns frequencies and factor
def make(bug):
    d, base, s, L0 = 64, 150000.0, 32.0, 4096

    def frequencies():
        k = np.arange(d // 2)
        logf = -2 * k / d * math.log(base)
        end = [d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base)) for r in (32.0, 1.0)]
        w = np.interp(k, end, [0, 1])                      # truncate=False
        f = np.exp(logf)
        return f - w * (f - f / s), 0.1 * math.log(s) + 1
    return frequencies

case("r080", make, P.RoPE(64, layout="half", base=150000.0, scaling=P.YaRN(32.0, 4096, truncate=False)), "frequencies",
     "The ramp is np.interp between the fractional ends, and the attention factor is returned too.", "right")


# ---- right: doubling cache
def make(bug):
    class Cached:
        def __init__(self, dim, base=10000.0, size=16):
            self.f = base ** (-np.arange(0, dim, 2) / dim)
            self.grow(size)

        def grow(self, n):
            a = np.arange(n)[:, None] * self.f
            self.cos, self.sin, self.size = np.cos(a), np.sin(a), n

        def __call__(self, x, offset):
            end = offset + x.shape[2]
            if end > 65536:                                # too far for a table
                ang = np.arange(offset, end)[:, None] * self.f
                c, s = np.cos(ang), np.sin(ang)
            else:
                while end > self.size:
                    self.grow(2 * self.size)
                c, s = self.cos[offset:end], self.sin[offset:end]
            a, b = np.split(x, 2, -1)
            return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)

    def run(calls):
        rope = Cached(calls[0][0].shape[-1] if calls else 64)
        return [rope(x, int(np.ravel(o)[0])) for x, o in calls]
    return run

case("r081", make, P.RoPE(64, layout="half"), "calls",
     "A table of 16 rows that doubles whenever a call needs more.", "right")


# ---- right: M-RoPE by gathering
def make(bug):
    sections = (4, 6, 6)
    axis = np.repeat(np.arange(3), sections)
    f = 1e4 ** (-np.arange(16) / 16)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.broadcast_to(p, (3, p.size))
        per_pair = np.moveaxis(p[axis], 0, -1) * f          # (..., S, pairs)
        if per_pair.ndim == 3:
            per_pair = per_pair[:, None]
        z = (x[..., :16] + 1j * x[..., 16:].astype(np.float64)) * np.exp(1j * per_pair)
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)
    return apply

case("r082", make, P.MultiAxisRoPE(32, sections=(4, 6, 6), layout="half"), "apply",
     "Each pair gathers its own position with an index of axes; the rotation is complex.", "right")


# ---- right: raw keys, rotated at the end
def make(bug):
    d, base, s, L0 = 64, 10000.0, 4.0, 128

    def key_cache(k, chunks):
        total = int(sum(chunks))
        alpha = 1 + s * (max(total, L0) - L0) / L0
        j = np.arange(d // 2)
        f = base ** (-2 * j / d) / alpha ** (2 * j / (d - 2))
        a = np.arange(total)[:, None] * f
        out = np.empty(k.shape, np.float64)
        out[..., ::2] = k[..., ::2] * np.cos(a) - k[..., 1::2] * np.sin(a)
        out[..., 1::2] = k[..., 1::2] * np.cos(a) + k[..., ::2] * np.sin(a)
        return out.astype(k.dtype)
    return key_cache

case("r083", make, P.RoPE(64, layout="interleaved", scaling=P.DynamicNTK(4.0, 128)), "key_cache",
     "Keys are cached before their rotation and rotated once, with the frequencies of the final length.", "right")


# ---- right: doubled table
def make(bug):
    d = 64
    inv = 1 / 10000.0 ** (np.arange(0, d, 2) / d)

    def cos_sin(positions):
        freqs = np.einsum("i,j->ij", np.asarray(positions, np.float64), inv)
        emb = np.concatenate((freqs, freqs), axis=-1)
        return np.cos(emb), np.sin(emb)
    return cos_sin

case("r084", make, P.RoPE(64, layout="half"), "cos_sin",
     "cos and sin have a column for every channel, as in Hugging Face's code.", "right")


# ---- right: tiles
def make(bug):
    d, tile = 64, 128
    f = 10000.0 ** (-np.arange(0, d, 2) / d)

    def apply_offset(x, offset):
        out = np.empty_like(x)
        for b, start in enumerate(np.asarray(offset)):
            for s0 in range(0, x.shape[2], tile):
                s1 = min(s0 + tile, x.shape[2])
                a = (start + np.arange(s0, s1))[:, None] * f
                c, s = np.cos(a), np.sin(a)
                u, v = x[b, :, s0:s1, : d // 2], x[b, :, s0:s1, d // 2:]
                out[b, :, s0:s1, : d // 2] = u * c - v * s
                out[b, :, s0:s1, d // 2:] = v * c + u * s
        return out
    return apply_offset

case("r085", make, P.RoPE(64, layout="half"), "apply_offset",
     "Tiles of 128 tokens are written into one output, row by row of the batch.", "right")
