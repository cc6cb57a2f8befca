import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

# ---- calls, decode, key_cache ----------------------------------------------------------------

def half(x, a, m=1.0):
    n = a.shape[-1]
    c, s = m * np.cos(a), m * np.sin(a)
    u, v = x[..., :n].astype(np.float64), x[..., n:2 * n].astype(np.float64)
    return np.concatenate([(u * c - v * s).astype(x.dtype), (v * c + u * s).astype(x.dtype), x[..., 2 * n:]], -1)

def inter(x, a, m=1.0):
    z = (x[..., ::2].astype(float) + 1j * x[..., 1::2].astype(float)) * (m * np.exp(1j * a))
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

F32 = 10000.0 ** (-np.arange(16) / 16)

def make(bug):
    class Rope:
        def __init__(self):
            self.longest = 0
        def __call__(self, x, offset):
            n = int(offset) + x.shape[-2]
            self.longest = max(self.longest, n) if bug else n     # buffers only grow
            base = 10000.0
            if self.longest > 1024:
                base *= (2.0 * self.longest / 1024 - 1.0) ** (32 / 30)
            p = np.arange(offset, offset + x.shape[-2], dtype=float)
            return half(x, p[:, None] * base ** (-np.arange(16) / 16))
    def calls(sequence):
        rope = Rope()
        return [rope(x, offset) for x, offset in sequence]
    return calls
case("n077", make, P.RoPE(32, layout="half", scaling=P.DynamicNTK(2.0, 1024)), "calls",
     "Dynamic NTK with a length that only grows: after a long call, short calls keep the enlarged base.",
     "dynamic-never-resets", "the length of the call itself")

def make(bug):
    short, long = np.linspace(1, 1.4, 16), np.linspace(1, 40, 16)
    class Phi:
        def __init__(self):
            self.inv, self.m, self.long = F32 / short, 1.1, False
        def __call__(self, x, offset):
            n = offset + x.shape[-2]
            if (n > 4096) != self.long:
                self.long = n > 4096
                self.inv = F32 / (long if self.long else short)
                if not bug:
                    self.m = 1.3 if self.long else 1.1
            return half(x, (offset + np.arange(x.shape[-2]))[:, None] * self.inv, self.m)
    def calls(sequence):
        phi = Phi()
        return [phi(x, int(o)) for x, o in sequence]
    return calls
case("n078", make, P.RoPE(32, layout="half", scaling=P.LongRoPE(tuple(np.linspace(1, 1.4, 16)), tuple(np.linspace(1, 40, 16)),
     4096, attention_factor=(1.1, 1.3))), "calls",
     "LongRoPE with short_mscale and long_mscale: the frequencies switch with the length, the factor stays that of short contexts.",
     "longrope-factor-stays", "switch both")

def make(bug):
    class Qwen:
        def __init__(self):
            self.room = 0
        def __call__(self, x, offset):
            n = offset + x.shape[-2]
            self.room = 2 * n                                # room for as many again
            L = self.room if bug else n
            alpha = max(2 ** math.ceil(math.log2(L / 1024) + 1) - 1, 1)
            f = F32 / alpha ** (np.arange(0, 32, 2) / 30)
            return half(x, np.arange(offset, n, dtype=float)[:, None] * f)
    def calls(sequence):
        q = Qwen()
        return [q(x, int(o)) for x, o in sequence]
    return calls
case("n079", make, P.RoPE(32, layout="half", scaling=P.QwenNTK(1024)), "calls",
     "alpha follows the length of the allocated table, twice that of the sequence.",
     "alpha-of-allocated-length", "alpha of the sequence's length")

def make(bug):
    class Engine:
        def __init__(self):
            self.out = {}
        def __call__(self, x, offset):
            y = half(x, np.arange(offset, offset + x.shape[-2], dtype=float)[:, None] * F32)
            buf = self.out.setdefault((x.shape, x.dtype.str), np.empty_like(y))
            buf[...] = y
            return buf if bug else buf.copy()
    def calls(sequence):
        e = Engine()
        return [e(x, int(o)) for x, o in sequence]
    return calls
case("n080", make, P.RoPE(32, layout="half"), "calls",
     "Results are views of one output buffer per shape: a later call with an equal shape overwrites the earlier result.",
     "shared-output-buffer", "return a copy")

def make(bug):
    class Rope:
        pos = 0
        def __call__(self, x, offset=None):
            S = x.shape[-2]
            start = (offset or self.pos) if bug else (self.pos if offset is None else offset)
            self.pos = start + S
            return inter(x, np.arange(start, start + S, dtype=float)[:, None] * F32)
    def calls(sequence):
        r = Rope()
        return [r(x, o) for x, o in sequence]
    return calls
case("n081", make, P.RoPE(32, layout="interleaved"), "calls",
     "`offset or self.pos`: an offset of 0 after an earlier call is taken for none and goes on at the last position.",
     "zero-offset-falsy", "test for None")

def make(bug):
    class Rope:
        def __init__(self):
            self.start = self.stop = 0
            self.rows = np.zeros((0, 16))
        def __call__(self, x, o):
            n = o + x.shape[-2]
            if not (self.start <= o and n <= self.stop):
                self.start, self.stop = o, n + 64                 # a window of rows, a bit ahead
                self.rows = np.arange(o, n + 64, dtype=float)[:, None] * F32
            at = o if bug and o < len(self.rows) - x.shape[-2] else o - self.start
            return half(x, self.rows[at:at + x.shape[-2]])
    def calls(sequence):
        r = Rope()
        return [r(x, int(o)) for x, o in sequence]
    return calls
case("n082", make, P.RoPE(32, layout="half"), "calls",
     "The kept rows begin at self.start, but a hit inside the first rows indexes them with the absolute offset.",
     "window-absolute-index", "subtract self.start")

def make(bug):
    class Dec:
        def __init__(self):
            self.n = 0
        def step(self, x):
            S = x.shape[-2]
            y = half(x, np.arange(self.n, self.n + S, dtype=float)[:, None] * F32)
            self.n += S if self.n == 0 or not bug else 1          # prompt, then token by token
            return y
    def decode(x, chunks):
        d, out, at = Dec(), [], 0
        for n in chunks:
            out.append(d.step(x[:, :, at:at + n]))
            at += n
        return np.concatenate(out, 2)
    return decode
case("n083", make, P.RoPE(32, layout="half"), "decode",
     "After the prompt every chunk advances the position by one, also chunks of several tokens (speculative or chunked prefill).",
     "advance-by-one", "advance by the chunk's length")

def make(bug):
    WINDOW = 64
    def decode(x, chunks):
        out, at = [], 0
        for n in chunks:
            p = np.arange(at, at + n)
            if bug and at:
                p = p % WINDOW                                # slots of the ring buffer
            out.append(inter(x[:, :, at:at + n], p[:, None] * F32))
            at += n
        return np.concatenate(out, 2)
    return decode
case("n084", make, P.RoPE(32, layout="interleaved"), "decode",
     "After the first chunk tokens get the number of their slot in a ring buffer of 64 as position.",
     "ring-slot-as-position", "count tokens, not slots")

def make(bug):
    class State:
        def __init__(self, B):
            self.pos = [np.zeros(1)] * B if bug else [np.zeros(1) for _ in range(B)]
    def decode(x, chunks):
        B = x.shape[0]
        st, out, at = State(B), [], 0
        for n in chunks:
            y = []
            for b in range(B):
                p = st.pos[b] + np.arange(n)
                y.append(half(x[b, :, at:at + n], p[:, None] * F32))
                st.pos[b] += n
            out.append(np.stack(y))
            at += n
        return np.concatenate(out, 2)
    return decode
case("n085", make, P.RoPE(32, layout="half"), "decode",
     "[zeros(1)] * B: all rows share one counter that each of them advances, so rows after the first start too late.",
     "shared-counter", "one counter for every row")

def make(bug):
    class Rotor:
        """The phase is carried along; no position is kept."""
        def __init__(self):
            self.turn = np.zeros(16)
        def step(self, x):
            n = x.shape[-2]
            a = self.turn + np.arange(n, dtype=float)[:, None] * F32
            self.turn = a[-1] if bug else self.turn + n * F32
            return inter(x, a)
    def decode(x, chunks):
        r = Rotor()
        cuts = np.cumsum(chunks)[:-1]
        return np.concatenate([r.step(part) for part in np.split(x, cuts, 2)], 2)
    return decode
case("n086", make, P.RoPE(32, layout="interleaved"), "decode",
     "The carried phase is that of the chunk's last token, so the first token of the next chunk repeats its position.",
     "carried-phase-not-advanced", "advance past the last token")

def make(bug):
    def decode(x, chunks):
        z = np.exp(1j * F32)
        if bug:
            z = z.astype(np.complex64)
        out, at = [], 0
        state = np.ones(16, z.dtype)
        for n in chunks:
            for i in range(at, at + n):
                if not bug:
                    state = np.exp(1j * i * F32)
                t = x[:, :, i]
                w = (t[..., :16].astype(float) + 1j * t[..., 16:].astype(float)) * state
                out.append(np.concatenate([w.real, w.imag], -1).astype(x.dtype))
                if bug:
                    state = state * z
                    state = (np.round(state * 4096) / 4096).astype(np.complex64)       # Q12 registers
            at += n
        return np.stack(out, 2)
    return decode
case("n087", make, P.RoPE(32, layout="half"), "decode",
     "The rotor is advanced step by step in 12-bit fixed point; rounding errors add up and its length drifts.",
     "fixed-point-rotor", "cos and sin of the position")

def make(bug):
    class Cache:
        def __init__(self):
            self.k = None
    def decode(x, chunks):
        c, out, at = Cache(), [], 0
        for n in chunks:
            new = x[:, :, at:at + n]
            c.k = new if c.k is None else np.concatenate([c.k, new], 2)
            total = c.k.shape[2]
            start = total - n
            if bug and n == 1 and start:
                start = total                                  # "the current length"
            out.append(half(new, np.arange(start, start + n, dtype=float)[:, None] * 500000.0 ** (-np.arange(8) / 8)))
            at += n
        return np.concatenate(out, 2)
    return decode
case("n088", make, P.RoPE(24, layout="half", base=500000.0, rotary_dim=16), "decode",
     "Single-token steps take the cache's length after appending as position: one too far.",
     "length-after-append", "length before appending")

def make(bug):
    def decode(x, chunks):
        secs = np.repeat(np.arange(3), (4, 6, 6))
        f = 1e6 ** (-np.arange(16) / 16)
        out, at = [], 0
        for i, n in enumerate(chunks):
            p = np.tile(np.arange(at, at + n, dtype=float), (3, 1))
            if bug and i:
                p[1:] = 0.0                                    # "generated text has no grid"
            out.append(half(x[:, :, at:at + n], p[secs].T * f))
            at += n
        return np.concatenate(out, 2)
    return decode
case("n089", make, P.MultiAxisRoPE(32, sections=(4, 6, 6), layout="half", base=1e6), "decode",
     "M-RoPE: chunks after the first advance on the time axis only, height and width are 0; text has equal positions on all axes.",
     "text-axes-zero", "all three axes alike")

SH, LO = np.linspace(1, 1.3, 16), np.linspace(1, 25, 16)
def make(bug):
    def key_cache(k, chunks):
        raw, cached, at, was = None, None, 0, False
        for n in chunks:
            new = k[:, :, at:at + n]
            now = at + n > 16
            f = F32 / (LO if now else SH)
            m = math.sqrt(1 + math.log(4) / math.log(16))
            raw = new if raw is None else np.concatenate([raw, new], 2)
            p = np.arange(at + n, dtype=float)[:, None]
            if cached is None:
                cached = half(new, p * f, m)
            elif now and not was:                              # crossing: rotate all keys again
                old = half(raw[:, :, :at], p[:at] * f, m)
                cached = np.concatenate([old, half(new, p[at:] * (F32 / SH if bug else f), m)], 2)
            else:
                cached = np.concatenate([cached, half(new, p[at:] * f, m)], 2)
            was, at = now, at + n
        return cached
    return key_cache
case("n090", make, P.RoPE(32, layout="half", scaling=P.LongRoPE(tuple(SH), tuple(LO), 16, factor=4.0)), "key_cache",
     "When the cache passes the trained length, old keys are rotated again by the long list, but the chunk that crosses gets the short one.",
     "crossing-chunk-short", "the long list for the new chunk too")

def make(bug):
    def key_cache(k, chunks):
        raw = k[:, :, :0]
        y = raw
        at = 0
        for n in chunks:
            L = max(raw.shape[2] if bug else at + n, 32)
            raw = np.concatenate([raw, k[:, :, at:at + n]], 2)
            base = 10000.0 * (4.0 * L / 32 - 3.0) ** (32 / 30)
            y = inter(raw, np.arange(at + n, dtype=float)[:, None] * base ** (-np.arange(16) / 16))
            at += n
        return y
    return key_cache
case("n091", make, P.RoPE(32, layout="interleaved", scaling=P.DynamicNTK(4.0, 32)), "key_cache",
     "Raw keys are cached and all rotated in every step, but with the length of the cache before the new chunk was appended.",
     "length-before-append", "length after appending")

def make(bug):
    def freq(n):
        steps = (-(-n // 16) - 1).bit_length()
        return F32 / (2.0 ** (steps + 1) - 1) ** (np.arange(0, 32, 2) / 30)
    def key_cache(k, chunks):
        at, f, first, y = 0, None, None, None
        for n in chunks:
            g = freq(at + n)
            new = half(k[:, :, at:at + n].astype(float), np.arange(at, at + n, dtype=float)[:, None] * g)
            if y is None:
                y, first = new, g
            else:
                if (g != f).any():        # turn the cached keys by the difference of the angles
                    y = half(y, np.arange(at, dtype=float)[:, None] * (g - (first if bug else f)))
                y = np.concatenate([y, new], 2)
            f, at = g, at + n
        return y.astype(k.dtype)
    return key_cache
case("n092", make, P.RoPE(32, layout="half", scaling=P.QwenNTK(16)), "key_cache",
     "Cached keys are turned by the difference between the new frequencies and those of the first chunk, not those they have; "
     "wrong from the second change on.",
     "delta-from-first", "difference to the present frequencies")

def make(bug):
    def key_cache(k, chunks):
        at, y, was = 0, None, None
        for n in chunks:
            long = at + n > 12
            f, m = (F32 / LO, 1.25) if long else (F32 / SH, 1.0)
            new = half(k[:, :, at:at + n].astype(float), np.arange(at, at + n, dtype=float)[:, None] * f, m)
            if y is None:
                y = new
            else:
                if long != was:
                    p = np.arange(at, dtype=float)[:, None]
                    y = half(y, p * (F32 / LO - F32 / SH), 1.0 if bug else 1.25)
                y = np.concatenate([y, new], 2)
            was, at = long, at + n
        return y.astype(k.dtype)
    return key_cache
case("n093", make, P.RoPE(32, layout="half", scaling=P.LongRoPE(tuple(SH), tuple(LO), 12, attention_factor=(1.0, 1.25))), "key_cache",
     "Cached keys are turned to the long frequencies but keep the factor 1.0 of short contexts; the new ones have 1.25.",
     "cached-keys-old-factor", "multiply them by the quotient of the factors")

def make(bug):
    def key_cache(k, chunks):
        B, H, S, D = k.shape
        cap = 8
        buf = np.zeros((B, H, cap, D), k.dtype)
        at = 0
        for n in chunks:
            if at + n > cap:
                cap = 2 * (at + n)
                if bug:
                    buf = np.resize(buf, (B, H, cap, D))
                else:
                    wider = np.zeros((B, H, cap, D), k.dtype)
                    wider[:, :, :at] = buf[:, :, :at]
                    buf = wider
            buf[:, :, at:at + n] = inter(k[:, :, at:at + n], np.arange(at, at + n, dtype=float)[:, None] * F32)
            at += n
        return buf[:, :, :at].copy()
    return key_cache
case("n094", make, P.RoPE(32, layout="interleaved"), "key_cache",
     "The buffer is enlarged with np.resize, which refills it from the flat data: keys of all heads but the first are mixed up.",
     "resize-scrambles", "allocate and copy along the token axis")
