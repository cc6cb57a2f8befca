import numpy as np, math
from posenc_ref import *
from .common import freqs, ang, hd, rot_half, rot_pair
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))
# ================= frequencies and cos_sin
# ---- l021
L0 = 8192
def llama3(d, base, factor, low, high, L, bug=""):
    out = []
    for f in freqs(d, base):
        wl = 2*math.pi/f
        lo, hi = L/low, L/high
        if wl < hi: out.append(f)
        elif wl > lo: out.append(f/factor)
        else:
            t = (L/wl - low)/(high-low)
            if bug == "swap": t = 1-t
            if bug == "wl": t = (lo - wl)/(lo - hi)
            out.append((1-t)*f/factor + t*f)
    return np.array(out)
case("l021", lambda bug: (lambda: llama3(128, 5e5, 8, 1, 4, 8192, "wl" if bug else "")), RoPE(128, layout="half", base=5e5, scaling=Llama3Scaling(8, 1, 4, 8192)), "frequencies",
     "The smooth factor of the middle band is linear in the wavelength instead of in the number of turns (L0 / wavelength).", "llama3-smooth-linear-in-wavelength", "smooth = (L0/wavelength - low)/(high - low)")
# ---- l022
def make(bug):
    def f():
        w = freqs(128, 5e5)
        L = 131072 if bug else 8192
        r = L*w/(2*np.pi); t = np.clip((r-1)/3, 0, 1)
        return w*((1-t)/8 + t)
    return f
case("l022", make, RoPE(128, layout="half", base=5e5, scaling=Llama3Scaling(8, 1, 4, 8192)), "frequencies", "The trained length of the scaling is max_position_embeddings (131072) instead of original_max_position_embeddings (8192).", "llama3-L0-is-max-position", "read original_max_position_embeddings")
# ---- l023
def yarn_ramp(d, base, L, fast, slow, trunc=True, hi_clamp=None, eps=0.001):
    c = lambda r: d*math.log(L/(r*2*math.pi))/(2*math.log(base))
    lo, hi = c(fast), c(slow)
    if trunc: lo, hi = math.floor(lo), math.ceil(hi)
    lo, hi = max(lo, 0), min(hi, d-1)
    if lo == hi: hi += eps
    return np.clip((np.arange(d//2)-lo)/(hi-lo), 0, 1)
def make(bug):
    def f():
        w = freqs(64, 150000.0); g = yarn_ramp(64, 150000.0, 4096, 32, 1, trunc=bug)
        return w*(1-g) + w/32*g
    return f
case("l023", make, RoPE(64, layout="half", base=150000.0, scaling=YaRN(32, 4096, truncate=False)), "frequencies", "The ends of the YaRN ramp are rounded to whole pairs (floor, ceil) although the configuration says truncate = false.", "yarn-truncate-ignored", "use the unrounded ends of the ramp")
# ---- l024
def make(bug):
    def f():
        w = freqs(128); g = yarn_ramp(128, 10000.0, 4096, 32, 1)
        if bug: g = 1-g
        return w*(1-g) + w/4*g, 0.1*math.log(4)+1
    return f
case("l024", make, RoPE(128, layout="half", scaling=YaRN(4, 4096)), "frequencies", "The YaRN mask is inverted: fast pairs are interpolated and slow pairs keep their frequency.", "yarn-ramp-inverted", "use 1 - ramp for the extrapolated part")
# ---- l025
def make(bug):
    def f():
        w = freqs(128); g = yarn_ramp(128, 10000.0, 4096, 32, 1)
        m = 0.1*math.log(16)+1
        if bug: m = math.sqrt(m)
        return w*(1-g) + w/16*g, m
    return f
case("l025", make, RoPE(128, layout="half", scaling=YaRN(16, 4096)), "frequencies", "The attention factor is the square root of 0.1 ln(factor) + 1 (treated as the 1/t of the paper, whose root is taken a second time).", "yarn-mscale-sqrt", "return 0.1 ln(factor) + 1 itself")
# ---- l026
def make(bug):
    def f():
        w = freqs(64); g = yarn_ramp(64, 10000.0, 4096, 32, 1)
        gm = lambda u: 0.1*u*math.log(40)+1
        return w*(1-g) + w/40*g, gm(0.707) if bug else gm(0.707)/gm(1.0)
    return f
case("l026", make, RoPE(64, layout="interleaved", scaling=YaRN(40, 4096, mscale=0.707, mscale_all_dim=1.0)), "frequencies", "The attention factor is g(mscale) alone; the division by g(mscale_all_dim) is missing.", "mscale-all-dim-missing", "divide by g(mscale_all_dim)")
# ---- l027
def make(bug):
    def f():
        d, s = 128, 4.0
        b = 10000.0*s**(d/(d-2)) if not bug else 10000.0*s**((d-2)/d)
        return b ** (-np.arange(0, d, 2)/d)
    return f
case("l027", make, RoPE(128, layout="half", scaling=NTKScaling(4.0)), "frequencies", "The exponent of the NTK base is (d-2)/d instead of d/(d-2).", "ntk-exponent-inverted", "raise the factor to d/(d-2)")
# ---- l028
def make(bug):
    def f(n):
        d, s, T = 64, 2.0, 128
        L = max(n, T)
        alpha = s*L/T - (s-1)
        if bug and n <= T: alpha = s*n/T - (s-1) if n > T//2 else 1.0
        return freqs(d, 10000.0*alpha**(d/(d-2)))
    return f
case("l028", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 128)), "frequencies", "For lengths between half of max_position and max_position, alpha is computed from the length itself without clamping it to max_position, so the base shrinks.", "dynamic-ntk-no-clamp", "clamp the length from below to max_position")
# ---- l029
def make(bug):
    def f(n):
        d, s, T = 64, 4.0, 128
        L = max(n, T)
        alpha = s*L/T if bug and L > T else s*L/T - (s-1)
        return freqs(d, 10000.0*alpha**(d/(d-2)))
    return f
case("l029", make, RoPE(64, layout="half", scaling=DynamicNTK(4.0, 128)), "frequencies", "Beyond max_position alpha is factor * L / max_position; the term - (factor - 1) is missing.", "dynamic-ntk-missing-minus", "subtract factor - 1")
# ---- l030
SH = tuple(1 + .05*i for i in range(32)); LO = tuple(1.5 + .9*i for i in range(32))
def make(bug):
    def f(n):
        use = LO if (n >= 4096 if bug else n > 4096) else SH
        return freqs(64)/np.array(use), math.sqrt(1+math.log(32)/math.log(4096))
    return f
case("l030", make, RoPE(64, layout="half", scaling=LongRoPE(SH, LO, 4096, factor=32.0)), "frequencies", "The long list is already chosen at a length equal to the original length (>= instead of >).", "longrope-switch-ge", "switch for lengths greater than original_max_position")
# ---- l031
def make(bug):
    def f():
        m = math.sqrt(1+math.log(32)/math.log(131072 if bug else 4096))
        return freqs(64)/np.array(LO), m
    return f
case("l031", make, RoPE(64, layout="half", scaling=LongRoPE(SH, LO, 4096, factor=32.0, policy="long")), "frequencies", "The attention factor divides ln(factor) by the logarithm of the extended length (131072) instead of the original one (4096).", "longrope-factor-wrong-length", "use ln(original_max_position)")
# ---- l032
def make(bug):
    def f():
        d = 128; n = int(.25*d//2)
        w = np.zeros(64)
        w[:n] = freqs(2*n, 1e6) if bug else freqs(d, 1e6)[:n]
        return w
    return f
case("l032", make, RoPE(128, layout="half", base=1e6, scaling=Proportional(.25)), "frequencies", "The exponents of the rotating pairs are fractions of the rotated part (32) instead of the whole head (128), as in partial rotary.", "proportional-exponent-partial", "divide by head_dim")
# ---- l033
def make(bug):
    def f():
        w = freqs(64, 1e4)
        if bug: return np.concatenate([np.zeros(24), w[24:]])
        return np.concatenate([w[:8], np.zeros(24)])
    return f
case("l033", make, RoPE(64, layout="half", scaling=Proportional(.25)), "frequencies", "The last quarter of the pairs (the slow ones) rotates and the first three quarters do not: the wrong end is zeroed.", "proportional-wrong-end", "keep the first pairs, zero the rest")
# ---- l034
def make(bug):
    def f(n):
        T = 256
        k = math.ceil(math.log2(max(n, 1)/T)+1) if not bug else math.floor(math.log2(max(n, 1)/T)+1)
        a = max(2**k-1, 1)
        return freqs(64, 10000.0*a**(64/62))
    return f
case("l034", make, RoPE(64, layout="half", scaling=QwenNTK(256)), "frequencies", "The number of doublings is rounded down instead of up, so lengths between two powers have the alpha of the shorter one.", "qwen-ntk-floor", "use ceil(log2(L/train_length) + 1)")
# ---- l035
def make(bug):
    def f():
        k = np.arange(32) + (0 if bug else 1)
        return freqs(64)/8.0**((2*k/64)**.625)
    return f
case("l035", make, RoPE(64, layout="half", scaling=SuNTK(8.0, power=.625)), "frequencies", "The divisor's exponent uses k instead of k + 1, so pair 0 keeps its frequency and the last pair is not divided by the whole factor.", "sun-ntk-k-not-k1", "use (2(k+1)/d)**power")
# ---- l036
def make(bug):
    def f():
        w = freqs(64, 256.0).copy(); 
        w[4 if bug else 3] = 2*np.pi/66
        return w
    return f
case("l036", make, RoPE(64, layout="interleaved", base=256.0, scaling=RIFLEx(4, 66)), "frequencies", "The slowed frequency is written to index 4 although the pair number 4 counts from 1 (index 3).", "riflex-pair-off-by-one", "write to index pair - 1")
# ---- l037
def make(bug):
    def f(p):
        a = np.outer(p, freqs(64)/(4 if not bug else 1))
        if bug: a = np.outer(np.asarray(p)//4, freqs(64))
        return np.cos(a), np.sin(a)
    return f
case("l037", make, RoPE(64, layout="half", scaling=LinearScaling(4.0)), "cos_sin", "Positions are divided by 4 with integer division, so four neighbouring tokens share a position.", "linear-integer-division", "divide as floating point")
# ---- l038
def make(bug):
    def f(p):
        a = ang(p, freqs(64)); 
        e = np.concatenate([a, a], -1)
        if bug: return np.cos(e), np.concatenate([np.sin(a), -np.sin(a)], -1)
        return np.cos(e), np.sin(e)
    return f
case("l038", make, RoPE(64, layout="half"), "cos_sin", "The sine of the second half of the columns has a minus sign, for a rotate_half without one.", "sin-second-half-negated", "do not negate the second half")
# ---- l039
def make(bug):
    def f(p):
        m = 0.1*math.log(8)+1
        g = yarn_ramp(64, 10000.0, 2048, 32, 1); w = freqs(64)*(1-g)+freqs(64)/8*g
        a = ang(p, w)
        return np.cos(a)*m, np.sin(a)*(1 if bug else m)
    return f
case("l039", make, RoPE(64, layout="half", scaling=YaRN(8, 2048)), "cos_sin", "The attention factor multiplies cos only, not sin.", "factor-on-cos-only", "multiply both tables")
# ---- l040
def make(bug):
    N = 2048
    tab = np.outer(np.arange(N), freqs(64))
    c, s = np.cos(tab), np.sin(tab)
    def f(p):
        p = np.asarray(p)
        if bug: 
            i = p.astype(int) % N
            return c[i], s[i]
        a = ang(p, freqs(64)); return np.cos(a), np.sin(a)
    return f
case("l040", make, RoPE(64, layout="half"), "cos_sin", "Positions beyond the table of 2048 rows wrap around (modulo 2048).", "table-wraps-2048", "grow the table")
# ---- l041
def make(bug):
    def f(p):
        p = np.asarray(p, np.float64)
        w = freqs(128)
        c = np.empty((len(p), 64)); s = np.empty((len(p), 64))
        # coarse + fine tables with the addition theorem
        B = 64
        hi = np.floor(p/B); lo = p - hi*B
        ch, sh = np.cos(np.outer(hi*B, w)), np.sin(np.outer(hi*B, w))
        cl, sl = np.cos(np.outer(lo, w)), np.sin(np.outer(lo, w))
        c = ch*cl - sh*sl
        s = sh*cl + ch*sl if not bug else sh*cl - ch*sl
        return c, s
    return f
case("l041", make, RoPE(128, layout="half"), "cos_sin", "The addition theorem that joins the coarse and the fine table has a minus in the sine, so it gives sin(coarse - fine).", "addition-theorem-sin-minus", "sin(a+b) = sin a cos b + cos a sin b")
# ---- l042 right
case("l042", lambda bug: make(False), RoPE(128, layout="half"), "cos_sin", "", "right")
# ---- l043
def make(bug):
    def f(p):
        p = np.asarray(p)
        w = freqs(64)
        if bug:
            a = np.float32(p)[:, None]*w.astype(np.float32)
            step = np.exp(1j*w).astype(np.complex64)
            z = np.ones((len(p), 32), np.complex64)
            n = int(p.max())+1 if p.size and p.min() >= 0 and p.max() < 200000 else 0
            if n and np.issubdtype(p.dtype, np.integer):
                t = np.cumprod(np.concatenate([np.ones((1, 32), np.complex64), np.broadcast_to(step, (n, 32))]), 0)
                return t[p].real, t[p].imag
        a = ang(p, w); return np.cos(a), np.sin(a)
    return f
case("l043", make, RoPE(64, layout="half"), "cos_sin", "The table is built by a recurrence in complex64 (each row is the previous one times the rotation by one position), so rounding errors accumulate with the position.", "recurrence-complex64", "compute each row from its own angle")
# ---- l044 right
def make(bug):
    def f(p):
        p = np.asarray(p, np.float64); w = freqs(64)
        # reduce by turns before cos: exact remainder
        t = np.remainder(p[:, None]*w, 2*np.pi)
        return np.cos(t).astype(np.float32), np.sin(t).astype(np.float32)
    return f
case("l044", make, RoPE(64, layout="half"), "cos_sin", "", "right")
# ---- l045
def make(bug):
    def f(p):
        p = np.asarray(p, np.float64)
        w = np.exp(-np.arange(32)*(math.log(10000.0)/32)) if not bug else np.exp(-np.arange(32)*(math.log10(10000.0)/32))
        a = np.outer(p, w); return np.cos(a), np.sin(a)
    return f
case("l045", make, RoPE(64, layout="half"), "cos_sin", "The frequencies are exp(-k log10(base)/32): the decimal instead of the natural logarithm.", "log10-instead-of-ln", "use the natural logarithm")
# ---- l046
def make(bug):
    def f(p):
        t = np.asarray(p, np.float32 if bug else np.float64)
        w = 1.0/(10000.0 ** (np.arange(0, 64, 2)/64))
        a = np.multiply.outer(t, w.astype(np.float32) if bug else w)
        a = np.concatenate((a, a), -1)
        return np.cos(a).astype(np.float16 if bug else np.float32), np.sin(a).astype(np.float16 if bug else np.float32)
    return f
case("l046", make, RoPE(64, layout="half"), "cos_sin", "The cos and sin tables are stored in float16.", "tables-float16", "keep the tables in float32")
# ---- l047
def make(bug):
    def f(p):
        p = np.asarray(p, np.float64)
        w = freqs(64, 10000.0)
        inv = np.array([w[k] for k in range(32)])
        if bug: p = p + 1
        a = p[:, None]*inv
        return np.repeat(np.cos(a), 2, -1), np.repeat(np.sin(a), 2, -1)
    return f
case("l047", make, RoPE(64, layout="interleaved"), "cos_sin", "Positions count from 1: a one is added to every position.", "positions-from-one", "do not add one")
# ---- l048
def make(bug):
    def f():
        d, L, s = 64, 2048, 8.0
        w = freqs(d)
        c = lambda r: d*math.log(L/(r*2*math.pi))/(2*math.log(10000.0))
        lo, hi = max(math.floor(c(32)), 0), min(math.ceil(c(1)), d-1)
        if bug: g = np.clip((np.arange(d//2)-lo)/(hi-lo+1), 0, 1)
        else: g = np.clip((np.arange(d//2)-lo)/(hi-lo), 0, 1)
        return (1-g)*w + g*w/s, 0.1*math.log(s)+1
    return f
case("l048", make, RoPE(64, layout="half", scaling=YaRN(8.0, 2048)), "frequencies", "The ramp is divided by high - low + 1 instead of high - low, so it reaches one a pair too late.", "yarn-ramp-plus-one", "divide by high - low")
# ---- l049
def make(bug):
    def f():
        d, L, s, b = 64, 4096, 4.0, 1e6
        base = 10000.0 if bug else b
        w = freqs(d, b); g = yarn_ramp(d, base, L, 32, 1)
        return (1-g)*w + g*w/s, 0.1*math.log(s)+1
    return f
case("l049", make, RoPE(64, layout="half", base=1e6, scaling=YaRN(4.0, 4096)), "frequencies", "The correction range of YaRN is computed with the default base 10000 instead of the model's 1e6.", "yarn-range-default-base", "pass the base to the correction range")
# ---- l050 right
def make(bug):
    def f():
        from fractions import Fraction
        d = 128; s = 8
        w = [5e5 ** (-2*k/d) for k in range(d//2)]
        r = [8192*x/(2*math.pi) for x in w]
        return np.array([x if t >= 4 else x/s if t <= 1 else x*(s*(t-1) + (4-t))/(3*s) for x, t in zip(w, r)])
    return f
case("l050", make, RoPE(128, layout="half", base=5e5, scaling=Llama3Scaling(8, 1, 4, 8192)), "frequencies", "", "right")
