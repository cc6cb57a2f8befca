import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

# ---- scaling rules on frequencies and cos_sin ------------------------------------------------

def plain(base, d):
    return np.array([base ** (-2.0 * k / d) for k in range(d // 2)])

def make(bug):
    def frequencies():
        d, base, L0, s = 128, 10000.0, 4096, 16.0
        def dim_of(turns):
            return d * math.log(L0 / (turns * 2 * math.pi)) / (2 * math.log(base))
        low, high = math.floor(dim_of(32.0)), (int if bug else math.ceil)(dim_of(1.0))
        low, high = max(low, 0), min(high, d - 1)
        w = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
        f = plain(base, d)
        return f / s * w + f * (1 - w), 0.1 * math.log(s) + 1
    return frequencies
case("n032", make, P.RoPE(128, layout="half", scaling=P.YaRN(16.0, 4096)), "frequencies",
     "YaRN: the upper end of the ramp is truncated with int() where it must be rounded up.",
     "yarn-high-int", "math.ceil")

def make(bug):
    def frequencies():
        d, base, L0, s = 64, 10000.0, 131072, 4.0
        find = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
        low = max(math.floor(find(32)), 0)
        high = min(math.ceil(find(1)), d // 2 - 1 if bug else d - 1)
        k = np.arange(d // 2)
        keep = 1 - np.interp(k, [low, high], [0.0, 1.0])
        f = plain(base, d)
        return f / s * (1 - keep) + f * keep
    return frequencies
case("n033", make, P.RoPE(64, layout="interleaved", scaling=P.YaRN(4.0, 131072)), "frequencies",
     "YaRN: the upper end of the ramp is clamped to the last pair, d/2 - 1, not to d - 1.",
     "yarn-clamp-pairs", "clamp at d - 1")

def make(bug):
    inv = plain(10000.0, 64)
    L0, s = 4096, 40.0
    low = max(math.floor(64 * math.log(L0 / (32 * 2 * math.pi)) / (2 * math.log(10000))), 0)
    high = math.ceil(64 * math.log(L0 / (2 * math.pi)) / (2 * math.log(10000)))
    ramp = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    inv = inv * (1 - ramp) + inv / s * ramp
    get = lambda a: 0.1 * a * math.log(s) + 1.0
    m = get(0.707) / get(1.0)
    if not bug:
        m = 1 / m
    def cos_sin(positions):
        a = np.outer(np.asarray(positions, float), inv)
        return np.cos(a) * m, np.sin(a) * m
    return cos_sin
case("n034", make, P.RoPE(64, layout="interleaved", scaling=P.YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=0.707)), "cos_sin",
     "YaRN: the factor on cos and sin is g(mscale_all_dim) / g(mscale), the quotient upside down.",
     "mscale-quotient", "g(mscale) / g(mscale_all_dim)")

def make(bug):
    def frequencies():
        d, base, L0, s = 64, 150000.0, 4096, 32.0
        c = lambda r: d / 2 * math.log(L0 / (r * 2 * math.pi), base)
        low, high = c(32.0), c(1.0)
        k = np.arange(0, d, 2) if bug else np.arange(d // 2)
        t = ((k - low) / (high - low)).clip(0, 1)
        f = plain(base, d)
        return f * (t / s + (1 - t)), 0.1 * math.log(s) + 1
    return frequencies
case("n035", make, P.RoPE(64, layout="half", base=150000.0, scaling=P.YaRN(32.0, 4096, truncate=False)), "frequencies",
     "gpt-oss YaRN: the ramp runs over channel numbers 0, 2, 4, ... where its ends are pair numbers.",
     "ramp-over-channels", "arange(d/2)")

def make(bug):
    def frequencies():
        d, base, L0, s = 128, 10000.0, 8192, 16.0
        c = lambda r: d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))
        low, high = max(math.floor(c(8.0)), 0), min(math.ceil(c(1.0)), d - 1)
        w = np.clip((np.arange(64) - low) / (high - low), 0, 1)
        f = plain(base, d)
        if bug:
            return f * ((1 - w) + w / s), 1.0
        return f * np.exp(-w * np.log(s)), 1.0
    return frequencies
case("n036", make, P.RoPE(128, layout="half", scaling=P.YaRN(16.0, 8192, beta_fast=8.0, blend="geometric", attention_factor=1.0)),
     "frequencies", "The logarithmic blend f / s**w is replaced by the linear one of usual YaRN.",
     "blend-linear", "f / s ** w")

def make(bug):
    def frequencies():
        s, lo, hi, L0 = 8.0, 1.0, 4.0, 8192
        out = []
        for f in plain(500000.0, 128):
            wl = 2 * math.pi / f
            if wl < L0 / hi:
                out.append(f)
            elif wl > L0 / lo:
                out.append(f / s)
            else:
                if bug:
                    t = (L0 / lo - wl) / (L0 / lo - L0 / hi)
                else:
                    t = (L0 / wl - lo) / (hi - lo)
                out.append((1 - t) * f / s + t * f)
        return np.array(out)
    return frequencies
case("n037", make, P.RoPE(128, layout="half", base=500000.0, scaling=P.Llama3Scaling(8.0, 1.0, 4.0, 8192)), "frequencies",
     "Llama 3: between the bounds the weight is linear in the wavelength, not in the number of turns.",
     "llama3-linear-in-wavelength", "(L0 / wavelength - low) / (high - low)")

def make(bug):
    def frequencies():
        f = plain(500000.0, 64)
        r = 8192 * f / (2 * np.pi)
        t = np.minimum((r - 1.0) / 3.0, 1.0)
        if not bug:
            t = np.maximum(t, 0.0)
        return f * ((1 - t) / 32.0 + t)
    return frequencies
case("n038", make, P.RoPE(64, layout="interleaved", base=500000.0, scaling=P.Llama3Scaling(32.0, 1.0, 4.0, 8192)), "frequencies",
     "Llama 3: the weight is clipped above but not below, so the slowest pairs get a negative weight.",
     "llama3-lower-clip", "clip to [0, 1]")

def make(bug):
    def frequencies():
        head, rot, alpha = 96, 48, 8.0
        d = head if bug else rot
        b = 10000.0 * alpha ** (d / (d - 2))
        return 1.0 / b ** (np.arange(0, rot, 2) / rot)
    return frequencies
case("n039", make, P.RoPE(96, layout="half", rotary_dim=48, scaling=P.NTKScaling(8.0)), "frequencies",
     "NTK: the exponent d/(d-2) of the new base is that of the head, not of the rotated channels.",
     "ntk-exponent-head-dim", "rotary_dim / (rotary_dim - 2)")

def make(bug):
    def frequencies(seq_len=None):
        L = 4096 if seq_len is None else max(int(seq_len), 4096)
        ratio = L // 4096 if bug else L / 4096
        b = 10000.0 * (2.0 * ratio - 1.0) ** (128 / 126)
        return 1.0 / b ** (np.arange(0, 128, 2) / 128)
    return frequencies
case("n040", make, P.RoPE(128, layout="half", scaling=P.DynamicNTK(2.0, 4096)), "frequencies",
     "Dynamic NTK: the quotient of the lengths is an integer division.",
     "dynamic-integer-division", "true division")

def make(bug):
    def frequencies(seq_len=None):
        n = 2048 if seq_len is None else int(seq_len)
        q = n // 2048 if bug else (n - 1) // 2048
        alpha = 2 ** (q.bit_length() + 1) - 1
        return plain(10000.0, 128) / float(alpha) ** (np.arange(0, 128, 2) / 126)
    return frequencies
case("n041", make, P.RoPE(128, layout="half", scaling=P.QwenNTK(2048)), "frequencies",
     "Qwen's step of alpha is one too high exactly at 2048, 4096, 8192, ...: bit_length of L // 2048, not of (L - 1) // 2048.",
     "qwen-exact-powers", "round the logarithm up")

def make(bug):
    def frequencies():
        d, s, b = 64, 8.0, 0.625
        a = math.log(s) / (d / 2) if bug else math.log(s) / (d / 2) ** b
        k = np.arange(1, d // 2 + 1)
        return plain(10000.0, d) / np.exp(a * k ** b)
    return frequencies
case("n042", make, P.RoPE(64, layout="half", scaling=P.SuNTK(8.0, power=0.625)), "frequencies",
     "Su's mixed NTK: a = ln(factor) / (d/2), without the power on d/2, so the last pair is not divided by factor.",
     "suntk-a-without-power", "a = ln(factor) / (d/2) ** b")

SF, LF = tuple(1 + 0.02 * k for k in range(24)), tuple(1.0 + 0.7 * k for k in range(24))
def make(bug):
    def frequencies(seq_len=None):
        n = 0 if seq_len is None else seq_len
        ext = LF if (n >= 4096 if bug else n > 4096) else SF
        return 1.0 / (np.array(ext) * 10000.0 ** (np.arange(0, 48, 2) / 48)), math.sqrt(1 + math.log(32) / math.log(4096))
    return frequencies
case("n043", make, P.RoPE(48, layout="half", scaling=P.LongRoPE(SF, LF, 4096, factor=32.0)), "frequencies",
     "LongRoPE: the long list is already used at exactly the trained length of 4096.",
     "longrope-border", "from 4097 on")

def make(bug):
    def cos_sin(positions):
        p = np.asarray(positions, np.float64)
        n = len(p) if bug else int(p.max(initial=0)) + 1
        b = 10000.0
        if n > 512:
            b *= (4.0 * n / 512 - 3.0) ** (32 / 30)
        a = p[:, None] / b ** (np.arange(0, 32, 2) / 32)
        return np.cos(a), np.sin(a)
    return cos_sin
case("n044", make, P.RoPE(32, layout="half", scaling=P.DynamicNTK(4.0, 512)), "cos_sin",
     "Dynamic NTK by the number of positions in the call, not by the largest position plus one.",
     "dynamic-length-is-count", "positions.max() + 1")

def make(bug):
    def frequencies():
        d, fr = 64, 0.3
        n = round(fr * d / 2) if bug else int(fr * d // 2)
        f = plain(1e6, d) / 4.0
        f[n:] = 0.0
        return f
    return frequencies
case("n045", make, P.RoPE(64, layout="half", base=1e6, scaling=P.Proportional(0.3, factor=4.0)), "frequencies",
     "Proportional: the number of turning pairs 9.6 is rounded to 10, not cut to 9.",
     "proportional-rounds", "int(fraction * d // 2)")

def make(bug):
    def frequencies():
        f = plain(256.0, 32)
        k = 4 if bug else 3                     # pair 4, counted from one
        f[k] = 2 * np.pi * 0.9 / 66
        return f
    return frequencies
case("n046", make, P.RoPE(32, layout="interleaved", base=256.0, scaling=P.RIFLEx(4, 66, periods=0.9)), "frequencies",
     "RIFLEx: pair 4 is taken as an index from 0, so the fifth frequency is replaced.",
     "riflex-zero-based", "index pair - 1")

def make(bug):
    def frequencies():
        f = plain(10000.0, 32)
        if bug or 30 > round(2 * math.pi / f[4]):
            f[4] = 2 * math.pi / 30
        return f
    return frequencies
case("n047", make, P.RoPE(32, layout="interleaved", scaling=P.RIFLEx(5, 30)), "frequencies",
     "RIFLEx without its condition: a video of 30 frames, shorter than the period of 63, gets a faster pair.",
     "riflex-always", "only if the length exceeds the period")

def make(bug):
    def frequencies():
        d, base, L0, s = 128, 10000.0, 2048, 8.0
        f = plain(base, d)
        n = plain(base * (s if bug else s ** (d / (d - 2))), d)
        def mask(r0, r1):
            c = [d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base)) for r in (r0, r1)]
            lo, hi = max(math.floor(c[0]), 0), min(math.ceil(c[1]), d - 1)
            return np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
        b, g = mask(1.25, 0.75), mask(16, 2)
        return f * (1 - g) + (n * (1 - b) + f / s * b) * g
    return frequencies
case("n048", make, P.RoPE(128, layout="half", scaling=P.NTKByParts(8.0, 2048)), "frequencies",
     "NTK-by-parts: the NTK part has the base 10000 * 8, without the exponent d/(d-2).",
     "parts-ntk-exponent", "8 ** (d/(d-2))")

GF = tuple(float(v) for v in np.float32(np.exp(np.linspace(0.1, -9, 16)) * (1 + 0.1 * np.sin(np.arange(16)))))
def make(bug):
    f = np.array(GF)
    if bug:
        f = f.astype(np.float16).astype(np.float64)
    def cos_sin(positions):
        z = np.exp(1j * np.outer(np.asarray(positions, float), f)) * 1.1
        return z.real, z.imag
    return cos_sin
case("n049", make, P.RoPE(32, layout="half", scaling=P.GivenFrequencies(GF, attention_factor=1.1)), "cos_sin",
     "The learned frequencies were saved in float16, in which the slow ones keep few bits.",
     "learned-freq-float16", "save them in float32")

def make(bug):
    f = plain(10000.0, 64)
    def cos_sin(positions):
        p = np.asarray(positions)
        p = p // 4 if bug else p / 4
        return np.cos(p[:, None] * f), np.sin(p[:, None] * f)
    return cos_sin
case("n050", make, P.RoPE(64, layout="half", scaling=P.LinearScaling(4.0)), "cos_sin",
     "Position interpolation by floor division: four neighbouring tokens share a position.",
     "floor-division-positions", "true division")

def make(bug):
    f = plain(10000.0, 64)
    m = 0.1 * math.log(4.0) + 1
    def cos_sin(positions):
        a = np.asarray(positions, float)[:, None] * w
        return np.cos(a) * m, np.sin(a) * (1.0 if bug else m)
    c = lambda r: 64 * math.log(4096 / (r * 2 * math.pi)) / (2 * math.log(10000.0))
    lo, hi = math.floor(c(32)), math.ceil(c(1))
    t = np.clip((np.arange(32) - lo) / (hi - lo), 0, 1)
    w = f * (1 - t + t / 4.0)
    return cos_sin
case("n051", make, P.RoPE(64, layout="half", scaling=P.YaRN(4.0, 4096)), "cos_sin",
     "The attention factor is multiplied into cos only.",
     "factor-on-cos-only", "both")

def make(bug):
    w = np.exp(1j * plain(10000.0, 64))
    if bug:
        w = w.astype(np.complex64)
    def power(z, n):
        n = np.asarray(n)
        out = np.ones(n.shape + z.shape, z.dtype)
        sq, e = z.copy(), np.abs(n)[..., None]
        while e.max(initial=0):
            out = np.where(e & 1, out * sq, out)
            sq, e = sq * sq, e >> 1
        return np.where(n[..., None] < 0, out.conj(), out)
    def cos_sin(positions):
        p = np.asarray(positions)
        if p.dtype.kind == "f":
            a = p[..., None] * plain(10000.0, 64)
            return np.cos(a), np.sin(a)
        z = power(w, p.astype(np.int64)) if bug else np.exp(1j * p[..., None] * plain(10000.0, 64))
        return z.real, z.imag
    return cos_sin
case("n052", make, P.RoPE(64, layout="half"), "cos_sin",
     "Unit rotors are raised to the position by repeated squaring in complex64, so the angle of slow pairs has an absolute error of p * 2**-24.",
     "rotor-power-complex64", "compute the angle in float64")

def make(bug):
    f = plain(10000.0, 48)
    def cos_sin(positions):
        p = np.asarray(positions, float)
        order = np.argsort(p, kind="stable")
        a = p[order][:, None] * f                 # sorted, for locality
        back = order if bug else np.argsort(order)
        return np.cos(a)[back], np.sin(a)[back]
    return cos_sin
case("n053", make, P.RoPE(48, layout="interleaved"), "cos_sin",
     "Rows are computed in sorted order and put back with the sorting permutation, not with its inverse.",
     "permutation-not-inverted", "argsort(order)")

def make(bug):
    rows = [0]
    t = {"a": np.zeros((0, 32))}
    f = plain(10000.0, 64)
    def grow(n):
        old = len(t["a"])
        new = max(n, 2 * old, 64)
        p = np.arange(new - old) if bug else np.arange(old, new)
        t["a"] = np.concatenate([t["a"], p[:, None] * f])
    def cos_sin(positions):
        p = np.asarray(positions)
        if p.dtype.kind == "f" or p.min(initial=0) < 0 or p.max(initial=0) > 2 ** 16:
            a = p[:, None] * f
        else:
            if p.max(initial=0) >= len(t["a"]):
                grow(int(p.max()) + 1)
            a = t["a"][p]
        return np.cos(a), np.sin(a)
    return cos_sin
case("n054", make, P.RoPE(64, layout="half"), "cos_sin",
     "When the table grows, the appended rows count from 0 again, so the first call is right and positions past its length are wrong later.",
     "table-growth-restarts", "arange(old, new)")

def make(bug):
    def frequencies():
        k = np.arange(0, 96, 2).astype(np.float16) / np.float16(96) if bug else np.arange(0, 96, 2) / 96
        return (1.0 / 10000.0 ** k.astype(np.float64))
    return frequencies
case("n055", make, P.RoPE(96, layout="half"), "frequencies",
     "The exponents 2k/d are computed in float16 (arange in the model's dtype).",
     "exponent-float16", "arange in float32 or wider")

def make(bug):
    secs = (10, 3, 3)
    def frequencies():
        out = []
        for n in secs:
            out += [10000.0 ** (-i / n) for i in range(n)]
        if bug:                                   # one running index over all sections
            out = out[:10] + [10000.0 ** (-(i % 3 + 1) / 3) for i in range(6)]
        return np.array(out)
    return frequencies
case("n056", make, P.MultiAxisRoPE(32, sections=(10, 3, 3), layout="interleaved", spacing="restart"), "frequencies",
     "The exponents of the second and third axis begin with 1/n, not with 0: their fastest pair is missing.",
     "axis-exponents-from-one", "i / n from i = 0")
