import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# --- s026: cached keys, k rotated by row number instead of its own positions
def make(bug):
    def apply_rotary_pos_emb(q, k, qp, kp):
        inv = 10000.0 ** (-np.arange(0, 64, 2) / 64)
        if bug:
            kp = np.arange(k.shape[2])
        def turn(x, p):
            f = np.asarray(p, np.float64)[..., None] * inv
            f = np.concatenate([f, f], -1)
            f = f[:, None] if f.ndim == 3 else f
            r = np.concatenate([-x[..., 32:], x[..., :32]], -1)
            return (x * np.cos(f) + r * np.sin(f)).astype(x.dtype)
        return turn(q, qp), turn(k, kp)
    return apply_rotary_pos_emb
case("s026", make, P.RoPE(64, layout="half"), "apply_qk",
     "Keys are rotated to 0 .. K-1 whatever their positions are; only the queries use the position ids.",
     "key-positions-ignored", "Rotate the keys with k_positions.")


# --- s027: GQA kernel loops over the key heads for both
def make(bug):
    def fn(q, k, qp, kp):
        q, k = q.copy(), k.copy()
        D = q.shape[-1]
        w = 10000.0 ** (-2.0 * np.arange(D // 2) / D)
        heads = k.shape[1]
        for x, p, n in ((q, qp, min(heads, q.shape[1]) if bug else q.shape[1]), (k, kp, heads)):
            p = np.broadcast_to(np.asarray(p, np.float64), (x.shape[0], x.shape[2]))
            for h in range(n):
                t = p[..., None] * w
                a, b = x[:, h, :, 0::2].copy(), x[:, h, :, 1::2].copy()
                x[:, h, :, 0::2] = a * np.cos(t) - b * np.sin(t)
                x[:, h, :, 1::2] = b * np.cos(t) + a * np.sin(t)
        return q, k
    return fn
case("s027", make, P.RoPE(32, layout="interleaved"), "apply_qk",
     "The fused kernel runs one program per key head for q too: with grouped queries the query heads beyond the number of key heads stay unrotated.",
     "gqa-head-count", "Loop over the query heads for q.")


# --- s028: xPos, keys scaled like queries
def make(bug):
    def fn(q, k, qp, kp):
        D = q.shape[-1]
        zeta = (np.arange(0, D, 2) / D + 0.4) / 1.4
        inv = 10000.0 ** (-np.arange(0, D, 2) / D)
        def xpos(x, p, downscale):
            p = np.asarray(p, np.float64)
            p = p if p.ndim == 1 else p[:, None]
            scale = zeta ** (p[..., None] / 512.0)
            if downscale and not bug:
                scale = 1 / scale
            sin, cos = np.sin(p[..., None] * inv) * scale, np.cos(p[..., None] * inv) * scale
            y = np.empty_like(x)
            y[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
            y[..., 1::2] = x[..., 1::2] * cos + x[..., ::2] * sin
            return y
        return xpos(q, qp, False), xpos(k, kp, True)
    return fn
case("s028", make, P.XPos(32, layout="interleaved"), "apply_qk",
     "The downscale flag is not passed on: keys are multiplied by the same decay as queries instead of its inverse.",
     "xpos-key-inverse", "Divide keys by the scale.")


# --- s029: xPos, the exponent uses position // scale_base
def make(bug):
    def fn(q, k, qp, kp):
        h = q.shape[-1] // 2
        i = np.arange(h)
        zeta = (2 * i / (2 * h) + 0.4) / (1 + 0.4)
        theta = 1.0 / 10000.0 ** (i / h)
        out = []
        for x, p, sgn in ((q, qp, 1), (k, kp, -1)):
            p = np.asarray(p, np.float64)
            power = p // 256.0 if bug else p / 256.0
            s = np.power(zeta, sgn * power[..., None])
            a = p[..., None] * theta
            z = s * np.exp(1j * a)
            z = z if z.ndim == 2 else z[:, None]
            y = (x[..., :h] + 1j * x[..., h:].astype(np.float64)) * z
            out.append(np.concatenate([y.real, y.imag], -1).astype(x.dtype))
        return tuple(out)
    return fn
case("s029", make, P.XPos(48, layout="half", scale_base=256.0), "apply_qk",
     "The exponent of the decay is computed with an integer division of the position by scale_base, so it stays 0 for the first 256 tokens and then jumps.",
     "xpos-floor", "Use a true division.")


# --- s031: start_index added after the division by the scaling factor
def make(bug):
    factor = 8.0
    def rotary(x, start_index):
        positions = np.arange(x.shape[2], dtype=np.float64)[None, :]
        start = np.asarray(start_index, np.float64)[:, None]
        positions = positions / factor + start if bug else (positions + start) / factor
        inv = 10000.0 ** (-np.arange(0, 64, 2) / 64)
        freq = np.einsum("bi,j->bij", positions, inv)[:, None]
        emb = np.concatenate((freq, freq), axis=-1)
        x1, x2 = np.split(x, 2, axis=-1)
        return (x * np.cos(emb) + np.concatenate((-x2, x1), -1) * np.sin(emb)).astype(x.dtype)
    return rotary
case("s031", make, P.RoPE(64, layout="half", scaling=P.LinearScaling(8.0)), "apply_offset",
     "The scaling factor divides the positions inside the call but not start_index, so cached decoding runs eight times too fast.",
     "start-not-scaled", "Add start_index before dividing by the factor.")


# --- s032: offset counted modulo the sliding window
def make(bug):
    WINDOW = 256
    def fn(x, offset):
        B, H, S, D = x.shape
        y = np.empty_like(x)
        w = np.array([1e6 ** (-2 * i / D) for i in range(D // 2)])
        for b in range(B):
            first = int(offset[b])
            idx = first + np.arange(S)
            if bug:
                idx = idx % WINDOW
            c, s = np.cos(np.outer(idx, w)), np.sin(np.outer(idx, w))
            y[b, ..., 0::2] = x[b, ..., 0::2] * c - x[b, ..., 1::2] * s
            y[b, ..., 1::2] = x[b, ..., 1::2] * c + x[b, ..., 0::2] * s
        return y
    return fn
case("s032", make, P.RoPE(64, layout="interleaved", base=1e6), "apply_offset",
     "The slot in the rotating (ring) cache is used as the position: positions wrap at the window of 256.",
     "ring-slot-position", "Rotate with the absolute position and use the slot for storage only.")


# --- s034: LongRoPE attention factor from the extended length
_short, _long = [1.0 + 0.02 * i for i in range(24)], [1.0 + 0.9 * i for i in range(24)]
def make(bug):
    cfg = dict(max_position_embeddings=131072, original_max_position_embeddings=4096)
    def fn(positions):
        p = np.asarray(positions, np.float64)
        L0 = cfg["original_max_position_embeddings"]
        ext = _long if p.max() + 1 > L0 else _short
        inv = 1.0 / (np.array(ext) * 10000.0 ** (np.arange(0, 48, 2) / 48))
        scale = cfg["max_position_embeddings"] / L0
        m = math.sqrt(1 + math.log(scale) / math.log(cfg["max_position_embeddings"] if bug else L0))
        emb = np.concatenate([p[:, None] * inv] * 2, axis=-1)
        return np.cos(emb) * m, np.sin(emb) * m
    return fn
case("s034", make, P.RoPE(48, layout="half", scaling=P.LongRoPE(_short, _long, 4096, factor=32.0)), "cos_sin",
     "The attention factor of LongRoPE divides by the logarithm of max_position_embeddings instead of the original length.",
     "longrope-log-length", "Use original_max_position_embeddings in the denominator.")


# --- s035: explicit attention_factor 1.0 treated as missing
def make(bug):
    cfg = {"factor": 16.0, "attention_factor": 1.0, "original_max_position_embeddings": 4096}
    def default_mscale():
        return 0.1 * math.log(cfg["factor"]) + 1.0
    given = cfg["attention_factor"]
    if bug:
        m = given if given and given != 1.0 else default_mscale()
    else:
        m = default_mscale() if given is None else given
    def fn(positions):
        d, base = 64, 10000.0
        i = np.arange(d // 2)
        corr = [d * math.log(4096 / (b * 2 * math.pi)) / (2 * math.log(base)) for b in (32.0, 1.0)]
        low, high = max(math.floor(corr[0]), 0), min(math.ceil(corr[1]), d - 1)
        w = np.clip((i - low) / (high - low), 0, 1)
        f = base ** (-i / 32)
        a = np.multiply.outer(np.asarray(positions, np.float64), f * (1 - w) + w * f / 16.0)
        return m * np.cos(a), m * np.sin(a)
    return fn
case("s035", make, P.RoPE(64, layout="interleaved", scaling=P.YaRN(16.0, 4096, attention_factor=1.0)), "cos_sin",
     "An attention_factor of 1.0 in the configuration is treated as not set, and YaRN's default factor is used.",
     "attention-factor-unset", "Test for None only.")


# --- s036: Llama 3 smoothing exchanged
def make(bug):
    def fn():
        factor, lo, hi, old = 8.0, 1.0, 4.0, 8192
        out = []
        for k in range(64):
            f = 500000.0 ** (-2 * k / 128)
            wavelen = 2 * math.pi / f
            if wavelen < old / hi:
                out.append(f)
            elif wavelen > old / lo:
                out.append(f / factor)
            else:
                smooth = (old / wavelen - lo) / (hi - lo)
                if bug:
                    out.append(smooth * f / factor + (1 - smooth) * f)
                else:
                    out.append((1 - smooth) * f / factor + smooth * f)
        return np.array(out)
    return fn
case("s036", make, P.RoPE(128, layout="half", base=500000.0, scaling=P.Llama3Scaling(8.0, 1.0, 4.0, 8192)), "frequencies",
     "In the transition band of the Llama 3 scaling, smooth and 1 - smooth are exchanged.",
     "llama3-smooth-swapped", "Weight the unscaled frequency with smooth.")


# --- s038: dynamic NTK without max()
def make(bug):
    base, d, L0 = 10000.0, 64, 2048
    def fn(seq_len):
        if not bug:
            seq_len = max(seq_len, L0)
        return (base * (seq_len / L0) ** (d / (d - 2))) ** (-np.arange(0, d, 2) / d)
    return fn
case("s038", make, P.RoPE(64, layout="half", scaling=P.DynamicNTK(1.0, 2048)), "frequencies",
     "The base is recomputed for sequences shorter than the trained length too, which shrinks it; short inputs must keep the plain base.",
     "ntk-short-length", "Use max(seq_len, max_position_embeddings).")


# --- s039: YaRN truncate=False ignored
def make(bug):
    cfg = dict(factor=32.0, beta_fast=32.0, beta_slow=1.0, original=4096, truncate=False)
    def fn():
        dim, base = 64, 150000.0
        find = lambda rot: (dim * math.log(cfg["original"] / (rot * 2 * math.pi))) / (2 * math.log(base))
        low, high = find(cfg["beta_fast"]), find(cfg["beta_slow"])
        if bug or cfg["truncate"]:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        ramp = np.clip((np.arange(dim // 2) - low) / (high - low), 0, 1)
        pos_freqs = base ** (np.arange(0, dim, 2) / dim)
        return (1 / (cfg["factor"] * pos_freqs)) * ramp + (1 / pos_freqs) * (1 - ramp), 0.1 * math.log(32.0) + 1
    return fn
case("s039", make, P.RoPE(64, layout="half", base=150000.0, scaling=P.YaRN(32.0, 4096, truncate=False)), "frequencies",
     "The correction range is always rounded to whole pairs; the configuration says truncate: false.",
     "truncate-ignored", "Skip floor and ceil when truncate is false.")


# --- s040: proportional rope computed as partial rotary
def make(bug):
    def fn():
        head, frac, base = 128, 0.25, 1e6
        n = int(frac * head // 2)
        rot = int(frac * head)
        w = base ** (-np.arange(n) * 2.0 / (rot if bug else head))
        return np.concatenate([w, np.zeros(head // 2 - n)])
    return fn
case("s040", make, P.RoPE(128, layout="half", base=1e6, scaling=P.Proportional(0.25)), "frequencies",
     "The exponents are divided by the number of rotating channels, as in partial rotary; proportional RoPE keeps the exponents of the whole head.",
     "proportional-exponent", "Divide by head_dim.")


# --- s041: dynamic NTK base that never shrinks again
def make(bug):
    class DynamicNTKRotary:
        def __init__(self, dim=64, base=10000.0, max_pos=256, factor=4.0):
            self.dim, self.base, self.max_pos, self.factor = dim, base, max_pos, factor
            self.max_seq_len_cached = 0
        def update(self, n):
            if n > self.max_seq_len_cached or not bug:
                n = max(n, self.max_pos)
                a = self.factor * n / self.max_pos - (self.factor - 1)
                b = self.base * a ** (self.dim / (self.dim - 2))
                self.inv_freq = 1 / b ** (np.arange(0, self.dim, 2) / self.dim)
                self.max_seq_len_cached = n
        def forward(self, x, offset):
            S = x.shape[2]
            self.update(offset + S)
            f = np.outer(np.arange(offset, offset + S), self.inv_freq)
            e = np.concatenate([f, f], -1)
            h = self.dim // 2
            return (x * np.cos(e) + np.concatenate([-x[..., h:], x[..., :h]], -1) * np.sin(e)).astype(x.dtype)
    def fn(calls):
        m = DynamicNTKRotary()
        return [m.forward(x, o) for x, o in calls]
    return fn
case("s041", make, P.RoPE(64, layout="half", scaling=P.DynamicNTK(4.0, 256)), "calls",
     "After one long input the enlarged base is kept: the frequencies are updated when the length grows, and never reset for a later short input.",
     "dynamic-not-reset", "Recompute the frequencies for the length of each call.")


# --- s042: table cached by length, offset ignored on a hit
def make(bug):
    def fn(calls):
        cache = {}
        def cis(offset, n, d):
            key = n if bug else (offset, n)
            if key not in cache:
                t = np.arange(offset, offset + n)
                cache[key] = np.exp(1j * np.outer(t, 10000.0 ** (-np.arange(0, d, 2) / d)))
            return cache[key]
        res = []
        for x, offset in calls:
            z = x.reshape(*x.shape[:-1], -1, 2).astype(np.float64)
            z = (z[..., 0] + 1j * z[..., 1]) * cis(int(offset), x.shape[2], x.shape[3])
            res.append(np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype))
        return res
    return fn
case("s042", make, P.RoPE(32, layout="interleaved"), "calls",
     "freqs_cis is cached under the number of tokens alone, so a later call with the same length and another start position gets the table of the first.",
     "cache-key-length", "Put the offset into the key of the cache.")


# --- s043: rope applied after the cache offset was advanced
def make(bug):
    class KVCache:
        offset = 0
        def update(self, n):
            self.offset += n
    def fn(x, chunks):
        cache, parts, at = KVCache(), [], 0
        w = 10000.0 ** (-np.arange(32) / 32)
        for n in chunks:
            piece = x[:, :, at:at + n]
            if bug:
                cache.update(n)
            t = (cache.offset + np.arange(n))[:, None] * w
            if not bug:
                cache.update(n)
            a, b = piece[..., :32], piece[..., 32:]
            parts.append(np.concatenate([a * np.cos(t) - b * np.sin(t), b * np.cos(t) + a * np.sin(t)], -1))
            at += n
        return np.concatenate(parts, axis=2).astype(x.dtype)
    return fn
case("s043", make, P.RoPE(64, layout="half"), "decode",
     "cache.offset is read after the cache has been updated with the new tokens, so every chunk is rotated too far by its own length.",
     "offset-after-update", "Read the offset before updating the cache.")


# --- s045: dynamic NTK: cached keys keep the frequencies of their own chunk
def make(bug):
    d, s, L0 = 64, 2.0, 128
    def rotate(k, first, length):
        alpha = s * max(length, L0) / L0 - (s - 1)
        w = (10000.0 * alpha ** (d / (d - 2))) ** (-np.arange(0, d, 2) / d)
        a = (first + np.arange(k.shape[2]))[:, None] * w
        u, v = np.split(k, 2, axis=-1)
        return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(k.dtype)
    def fn(k, chunks):
        if not bug:
            return rotate(k, 0, k.shape[2])
        done, at = [], 0
        for n in chunks:
            done.append(rotate(k[:, :, at:at + n], at, at + n))
            at += n
        return np.concatenate(done, axis=2)
    return fn
case("s045", make, P.RoPE(64, layout="half", scaling=P.DynamicNTK(2.0, 128)), "key_cache",
     "Keys are cached after rotation: when the dynamic base grows, earlier keys keep the angles of the shorter length.",
     "rotated-key-cache", "Cache raw keys and rotate them with the frequencies of the present length.")


# --- s046: LongRoPE list chosen by the length of the last chunk
_s46, _l46 = [1.0 + 0.05 * i for i in range(16)], [2.0 + 1.5 * i for i in range(16)]
def make(bug):
    def fn(k, chunks):
        seq_len = chunks[-1] if bug else sum(chunks)
        ext = np.array(_l46 if seq_len > 100 else _s46)
        inv = 1.0 / (ext * 10000.0 ** (np.arange(0, 32, 2) / 32))
        t = np.arange(sum(chunks))[:, None] * inv
        m = math.sqrt(1 + math.log(8.0) / math.log(100))
        c, s = np.cos(t) * m, np.sin(t) * m
        x1, x2 = k[..., :16], k[..., 16:]
        return np.concatenate([x1 * c - x2 * s, x1 * s + x2 * c], axis=-1).astype(k.dtype)
    return fn
case("s046", make, P.RoPE(32, layout="half", scaling=P.LongRoPE(_s46, _l46, 100, factor=8.0)), "key_cache",
     "The choice between the short and the long list compares the length of the present input (one token while decoding) with the trained length, not the length of the whole sequence.",
     "longrope-chunk-length", "Compare the total length including the cache.")


# --- s047: k-shift with YaRN's magnitude once more
def make(bug):
    d, s, L0, base = 64, 4.0, 2048, 10000.0
    def k_shift(k, delta):
        lo, hi = (d * math.log(L0 / (b * 2 * math.pi)) / (2 * math.log(base)) for b in (32, 1))
        lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
        mix = 1 - np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
        f = base ** (-np.arange(0, d, 2) / d)
        a = delta * (f / s * (1 - mix) + f * mix)
        mscale = 1.0 + 0.1 * math.log(s) if bug else 1.0
        c, sn = np.cos(a) * mscale, np.sin(a) * mscale
        out = np.empty_like(k)
        out[..., :32] = k[..., :32] * c - k[..., 32:] * sn
        out[..., 32:] = k[..., 32:] * c + k[..., :32] * sn
        return out
    return k_shift
case("s047", make, P.RoPE(64, layout="half", scaling=P.YaRN(4.0, 2048)), "shift_keys",
     "The shift of cached keys goes through the same YaRN kernel as the first rotation, so the attention factor multiplies the keys a second time.",
     "shift-mscale-twice", "Set the factor to 1 when shifting.")


# --- s048: context shift ignores freq_scale
def make(bug):
    def build_k_shift(k, delta, n_rot=32, freq_base=10000.0, freq_scale=0.25):
        y = k.copy()
        scale = 1.0 if bug else freq_scale
        for i in range(n_rot // 2):
            t = delta * scale * freq_base ** (-2.0 * i / n_rot)
            c, s = math.cos(t), math.sin(t)
            y[..., 2 * i] = k[..., 2 * i] * c - k[..., 2 * i + 1] * s
            y[..., 2 * i + 1] = k[..., 2 * i] * s + k[..., 2 * i + 1] * c
        return y
    return build_k_shift
case("s048", make, P.RoPE(48, layout="interleaved", rotary_dim=32, scaling=P.LinearScaling(4.0)), "shift_keys",
     "The K-shift is built with the plain frequencies; the model's linear scaling is not passed on.",
     "shift-unscaled", "Use the same freq_scale as for the first rotation.")


# --- s049: eviction shifts by kept + dropped
def make(bug):
    def fn(k, kept, dropped):
        head, tail = k[:, :, :kept], k[:, :, kept + dropped:]
        back = kept + dropped if bug else dropped
        w = 10000.0 ** (-np.arange(32) / 32)
        z = np.exp(-1j * back * w)
        t = (tail[..., :32] + 1j * tail[..., 32:].astype(np.float64)) * z
        return np.concatenate([head, np.concatenate([t.real, t.imag], -1).astype(k.dtype)], axis=2)
    return fn
case("s049", make, P.RoPE(64, layout="half"), "evict_keys",
     "After the eviction the remaining keys are moved so that they start at 0 and not after the kept tokens: the shift is kept + dropped.",
     "evict-shift-kept", "Move the keys back by dropped positions.")


# --- s050: backward pass inverts the attention factor
def make(bug):
    m = 0.1 * math.log(8.0) + 1
    class RopeFn:
        @staticmethod
        def tables(positions):
            d, base, L0 = 64, 10000.0, 2048
            lo, hi = (d * math.log(L0 / (b * 2 * math.pi)) / (2 * math.log(base)) for b in (32, 1))
            lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
            r = np.clip((np.arange(32) - lo) / (hi - lo), 0, 1)
            f = base ** (-np.arange(32) / 32)
            a = np.asarray(positions, np.float64)[..., None, :, None] * (f * (1 - r) + f * r / 8.0)
            return np.cos(a), np.sin(a)
        @staticmethod
        def backward(x, positions, dy):
            cos, sin = RopeFn.tables(positions)
            k = 1 / m if bug else m
            cos, sin = cos * k, sin * k
            g1, g2 = np.split(dy, 2, axis=-1)
            return np.concatenate([g1 * cos + g2 * sin, g2 * cos - g1 * sin], axis=-1).astype(dy.dtype)
    return RopeFn.backward
case("s050", make, P.RoPE(64, layout="half", scaling=P.YaRN(8.0, 2048)), "apply_vjp",
     "The backward pass applies the inverse of the rotation, dividing the gradient by the attention factor; the transpose multiplies by it.",
     "backward-inverse", "Multiply the gradient by the attention factor.")
