"""j041-j075: frequency schedules."""
import math

import numpy as np

from posenc_ref import (DynamicNTK, GivenFrequencies, LinearScaling, Llama3Scaling, LongRoPE, NTKByParts,
                        NTKScaling, Proportional, QwenNTK, RoPE, SuNTK, YaRN)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def plain(base, d):
    return float(base) ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def lift(a, ndim):
    return a if ndim == 1 else a[:, None]


def half(x, c, s, rot=None):
    """Half-split rotation of the first rot channels."""
    rot = x.shape[-1] if rot is None else rot
    h = rot // 2
    x1, x2 = x[..., :h].astype(np.float64), x[..., h:rot].astype(np.float64)
    y = np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)
    return np.concatenate([y, x[..., rot:]], -1) if rot < x.shape[-1] else y


def adjacent(x, c, s):
    v = x.astype(np.float64).reshape(x.shape[:-1] + (-1, 2))
    a, b = v[..., 0], v[..., 1]
    return np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape).astype(x.dtype)


def length(positions):
    p = np.asarray(positions)
    return int(p.max()) + 1 if p.size else 1


def apply_with(theta_of, turn=half, **more):
    """theta_of(length) -> (frequencies, m)."""
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        w, m = theta_of(length(p))
        a = lift(p[..., None] * w, p.ndim)
        return turn(x, m * np.cos(a), m * np.sin(a), **more)
    return apply


def correction_range(fast, slow, d, base, L0):
    def dim(r):
        return d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))
    return dim(fast), dim(slow)


# ---- j041
def make(bug):
    d, base, s, L0 = 128, 10000.0, 16.0, 4096
    lo, hi = correction_range(32, 1, d, base, L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    ramp = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    mask = ramp if bug else 1 - ramp                 # share of the extrapolated frequency
    inter, extra = plain(base, d) / s, plain(base, d)
    w = inter * (1 - mask) + extra * mask
    m = 0.1 * math.log(s) + 1
    return apply_with(lambda n: (w, m))


case("j041", make, RoPE(128, layout="half", scaling=YaRN(16.0, 4096)), "apply",
     "the ramp of YaRN is used for the extrapolated frequencies instead of 1 - ramp: fast pairs are interpolated and "
     "slow pairs kept", "yarn-mask-inverted", "use 1 - ramp as the share of the unscaled frequency")


# ---- j042
def make(bug):
    d, base, s, L0 = 64, 150000.0, 32.0, 4096
    lo, hi = correction_range(32, 1, d, base, L0)
    if bug:
        lo, hi = math.floor(lo), math.ceil(hi)
    lo, hi = max(lo, 0), min(hi, d - 1)
    g = np.clip((np.arange(32) - lo) / (hi - lo), 0, 1)
    w = plain(base, d) * ((1 - g) + g / s)
    m = 0.1 * math.log(s) + 1
    return apply_with(lambda n: (w, m))


case("j042", make, RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)), "apply",
     "the ends of YaRN's ramp are rounded to whole pairs although truncate is False (gpt-oss)",
     "yarn-truncates", "honour truncate=False")


# ---- j043
def make(bug):
    d, base, s, L0 = 128, 1e6, 4.0, 32768
    lo, hi = correction_range(32, 1, d, base, L0 * s if bug else L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    w = plain(base, d) * ((1 - g) + g / s)
    return lambda: w


case("j043", make, RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768)), "frequencies",
     "YaRN's correction range is computed with the extended length factor * L0 (max_position_embeddings) instead of "
     "the trained length L0", "yarn-range-from-new-length", "pass original_max_position_embeddings")


# ---- j044
def make(bug):
    d, base, s, L0 = 64, 10000.0, 8.0, 2048
    lo, hi = correction_range(32, 1, d, base, L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    w = plain(base, d) * ((1 - g) + g / s)
    m = math.sqrt(0.1 * math.log(s) + 1) if bug else 0.1 * math.log(s) + 1
    return apply_with(lambda n: (w, m), adjacent)


case("j044", make, RoPE(64, layout="interleaved", scaling=YaRN(8.0, 2048)), "apply",
     "the factor on cos and sin is sqrt(0.1 ln s + 1): the square root of the paper's sqrt(1/t) = 0.1 ln s + 1 was "
     "taken once more", "yarn-sqrt-again", "m = 0.1 ln(factor) + 1")


# ---- j045
def make(bug):
    d, base, s, L0 = 64, 10000.0, 40.0, 4096
    lo, hi = correction_range(32, 1, d, base, L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    w = plain(base, d) * ((1 - g) + g / s)
    scale = lambda u: 0.1 * u * math.log(s) + 1
    m = scale(1.0) if bug else scale(1.0) / scale(0.707)
    return apply_with(lambda n: (w, m), adjacent)


case("j045", make, RoPE(64, layout="interleaved", scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=0.707)), "apply",
     "m is g(mscale) alone: the division by g(mscale_all_dim) of DeepSeek's YaRN is missing",
     "yarn-no-mscale-all-dim", "m = g(mscale) / g(mscale_all_dim)")


# ---- j046
def make(bug):
    d, base, s, L0 = 128, 10000.0, 8.0, 4096
    lo, hi = correction_range(32, 1, d, base, L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    idx = np.arange(0, d, 2) if bug else np.arange(d // 2)
    g = np.clip((idx - lo) / (hi - lo), 0, 1)
    w = plain(base, d) * ((1 - g) + g / s)
    return lambda: w


case("j046", make, RoPE(128, layout="half", scaling=YaRN(8.0, 4096)), "frequencies",
     "the ramp of YaRN is evaluated at the channel index 2k instead of the pair index k, so it rises twice as early "
     "and twice as fast", "yarn-ramp-by-channel", "evaluate the ramp at k = 0 .. d/2 - 1")


# ---- j047
def make(bug):
    d, base, s, L0 = 64, 10000.0, 4.0, 131072
    lo, hi = correction_range(32, 1, d, base, L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), (d // 2 - 1) if bug else d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    w = plain(base, d) * ((1 - g) + g / s)
    m = 0.1 * math.log(s) + 1
    return apply_with(lambda n: (w, m))


case("j047", make, RoPE(64, layout="half", scaling=YaRN(4.0, 131072)), "apply",
     "the upper end of YaRN's ramp is clamped to d/2 - 1 instead of d - 1, which makes the ramp steeper where the "
     "range ends beyond the last pair", "yarn-clamp-half", "clamp high to d - 1")


# ---- j048
def make(bug):
    rot, base, s, L0 = 32, 10000.0, 4.0, 4096
    lo, hi = correction_range(32, 1, rot, base, L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), rot - 1)
    g = np.clip((np.arange(rot // 2) - lo) / (hi - lo), 0, 1)
    w = plain(base, rot) * ((1 - g) + g / s)
    m = 0.1 * math.log(s) + 1

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        a = lift(p[..., None] * w, p.ndim)
        y = half(x, np.cos(a), np.sin(a), rot) if bug else half(x, m * np.cos(a), m * np.sin(a), rot)
        return (y * np.asarray(m, x.dtype)).astype(x.dtype) if bug else y

    return apply


case("j048", make, RoPE(80, layout="half", rotary_dim=32, scaling=YaRN(4.0, 4096)), "apply",
     "YaRN's m multiplies the whole head after the rotation, so the channels without rotation are scaled too",
     "m-on-passed-channels", "multiply cos and sin by m, not the head")


# ---- j049
def make(bug):
    base, d, s, low, high, L0 = 500000.0, 128, 8.0, 1.0, 4.0, 8192

    def scale(f):
        wl = 2 * math.pi / f
        if wl < L0 / high:
            return f
        if wl > L0 / low:
            return f / s
        t = (L0 / wl - low) / (high - low)
        if bug:
            return 2 * math.pi / ((1 - t) * wl * s + t * wl)
        return (1 - t) * f / s + t * f

    w = np.array([scale(f) for f in plain(base, d)])
    return apply_with(lambda n: (w, 1.0))


case("j049", make, RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), "apply",
     "in the middle band of Llama 3's scaling the wavelengths are blended instead of the frequencies (a harmonic "
     "mean)", "llama3-blends-wavelengths", "blend the frequencies: (1 - t) f / factor + t f")


# ---- j051
def make(bug):
    base, d, s, low, high, L0 = 500000.0, 128, 8.0, 1.0, 4.0, 8192
    f = plain(base, d)
    wl = 2 * np.pi / f
    w = np.where(wl > L0 / low, f / s, f)
    t = (L0 / wl - low) / (high - low)
    mid = (wl >= L0 / high) & (wl <= L0 / low)
    if not bug:
        w = np.where(mid, (1 - t) * f / s + t * f, w)
    return apply_with(lambda n: (w, 1.0))


case("j051", make, RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), "apply",
     "the pairs between low_freq_factor and high_freq_factor turns keep their frequency: the smooth band is missing",
     "llama3-no-band", "interpolate between the two in the middle band")


SHORT = [1.0 + 0.03 * k for k in range(16)]
LONG = [1.0 + 0.9 * k for k in range(16)]


# ---- j052
def make(bug):
    L0, m = 128, math.sqrt(1 + math.log(8.0) / math.log(128))
    f = plain(10000.0, 32)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        n = p.shape[-1] if bug else length(p)
        w = f / np.array(LONG if n > L0 else SHORT)
        a = lift(p[..., None] * w, p.ndim)
        return half(x, m * np.cos(a), m * np.sin(a))

    return apply


case("j052", make, RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 128, factor=8.0)), "apply",
     "the list of LongRoPE is chosen by the number of tokens in the call instead of the largest position + 1, so a "
     "decode step far along the sequence uses the short list", "longrope-by-token-count",
     "choose by max(position) + 1")


# ---- j053
def make(bug):
    L0, m = 128, math.sqrt(1 + math.log(4.0) / math.log(128))
    f = plain(10000.0, 32)

    def theta(n):
        long = n >= L0 if bug else n > L0
        return f / np.array(LONG if long else SHORT), m

    return apply_with(theta, adjacent)


case("j053", make, RoPE(32, layout="interleaved", scaling=LongRoPE(SHORT, LONG, 128, factor=4.0)), "apply",
     "the long list is used from a length of exactly L0 = 128 on; at 128 tokens the short list still holds",
     "longrope-switch-at-L0", "use the long list only for lengths > L0")


# ---- j054
def make(bug):
    L0 = 256
    f = plain(10000.0, 32)
    m = math.sqrt(1 + math.log(16.0) / math.log(256))

    def theta(n):
        if n > L0:
            return f / np.array(LONG), m
        return f / np.array(SHORT), 1.0 if bug else m

    return apply_with(theta)


case("j054", make, RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 256, factor=16.0)), "apply",
     "LongRoPE's attention factor is applied only when the long list is in use; it belongs to short contexts too",
     "longrope-m-only-long", "multiply by m at every length")


# ---- j055
def make(bug):
    L0 = 64
    f = plain(10000.0, 32)
    m = math.sqrt(1 + math.log(4.0) / math.log(64))
    state = {"long": False}

    def theta(n):
        if n > L0:
            state["long"] = True
        use = state["long"] if bug else n > L0
        return f / np.array(LONG if use else SHORT), m

    return apply_with(theta)


case("j055", make, RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 64, factor=4.0)), "apply",
     "once a call was longer than L0 the object keeps the long list, so later short calls use it too",
     "longrope-sticky", "choose the list in each call (reset to the short one)")


# ---- j056
def make(bug):
    f = plain(10000.0, 32)
    m = math.sqrt(1 + math.log(32.0) / math.log(4096 * 32 if bug else 4096))
    w = f / np.array(LONG)
    return apply_with(lambda n: (w, m))


case("j056", make, RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, factor=32.0, policy="long")), "apply",
     "m = sqrt(1 + ln(factor) / ln(L)) takes the extended length L = factor * L0 in the denominator instead of the "
     "trained length L0", "longrope-m-new-length", "divide by ln(original_max_position)")


# ---- j057
def make(bug):
    base, d, s, N = 10000.0, 64, 4.0, 128

    def theta(n):
        n = max(n, N)
        alpha = s * n / N - (s if bug and n > N else s - 1)
        b = base * alpha ** (d / (d - 2))
        return plain(b, d), 1.0

    return apply_with(theta)


case("j057", make, RoPE(64, layout="half", scaling=DynamicNTK(4.0, 128)), "apply",
     "beyond the trained length alpha is factor * L / N - factor instead of factor * L / N - (factor - 1): it starts near 0 and "
     "jumps at L = N", "dynamic-alpha-no-one", "subtract factor - 1")


# ---- j058
def make(bug):
    base, d, s, N = 10000.0, 64, 2.0, 64

    def theta(n):
        n = max(n - 1 if bug else n, N)
        alpha = s * n / N - (s - 1)
        return plain(base * alpha ** (d / (d - 2)), d), 1.0

    return apply_with(theta)


case("j058", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 64)), "apply",
     "the length of dynamic NTK is the largest position instead of the largest position + 1",
     "dynamic-length-off-by-one", "seq_len = max(position_ids) + 1")


# ---- j059
def make(bug):
    base, d, s, N = 10000.0, 64, 2.0, 64
    state = {"n": N}

    def theta(n):
        if bug:
            state["n"] = n = max(state["n"], n)
        n = max(n, N)
        return plain(base * (s * n / N - (s - 1)) ** (d / (d - 2)), d), 1.0

    return apply_with(theta, adjacent)


case("j059", make, RoPE(64, layout="interleaved", scaling=DynamicNTK(2.0, 64)), "apply",
     "the frequencies of dynamic NTK only ever grow with the longest call so far and are not reset for a shorter "
     "sequence", "dynamic-never-resets", "recompute for the length of the call")


# ---- j060
def make(bug):
    base, d, s, N = 10000.0, 64, 2.0, 64

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = p[None]
        rows = []
        whole = length(p)
        for row in p:
            n = max(length(row) if bug else whole, N)
            w = plain(base * (s * n / N - (s - 1)) ** (d / (d - 2)), d)
            rows.append(row[:, None] * w)
        a = np.stack(rows)[:, None]
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j060", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 64)), "apply",
     "each row of the batch has frequencies for its own length; the length of dynamic NTK is that of the longest row "
     "in the call", "dynamic-per-row", "use the largest position of the whole batch")


# ---- j061
def make(bug):
    base, d, s = 10000.0, 64, 8.0
    b = base * (s if bug else s ** (d / (d - 2)))
    w = plain(b, d)
    return lambda: w


case("j061", make, RoPE(64, layout="half", scaling=NTKScaling(8.0)), "frequencies",
     "the base is multiplied by the factor itself, without the exponent d/(d - 2), so the slowest pair is divided by less than the factor",
     "ntk-no-exponent", "base * factor ** (d / (d - 2))")


# ---- j062
def make(bug):
    base, D, rot, s = 10000.0, 96, 32, 4.0
    e = D / (D - 2) if bug else rot / (rot - 2)
    w = plain(base * s ** e, rot)
    return apply_with(lambda n: (w, 1.0), half, rot=rot)


case("j062", make, RoPE(96, layout="half", rotary_dim=32, scaling=NTKScaling(4.0)), "apply",
     "the exponent of NTK scaling is d/(d - 2) with head_dim 96 instead of rotary_dim 32", "ntk-exponent-head-dim",
     "use rotary_dim in d/(d - 2)")


# ---- j063
def make(bug):
    w = plain(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        q = np.floor(p / 4) if bug else p / 4
        a = lift(q[..., None] * w, p.ndim)
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j063", make, RoPE(64, layout="half", scaling=LinearScaling(4.0)), "apply",
     "positions are divided by the factor with integer division, so four neighbouring tokens share one position",
     "linear-integer-division", "divide in floating point")


# ---- j064
def make(bug):
    base, d, N = 10000.0, 64, 128

    def theta(n):
        k = math.log2(max(n, 1) / N) + 1
        k = math.floor(k) + 1 if bug else math.ceil(k)
        alpha = max(2 ** k - 1, 1)
        return plain(base * alpha ** (d / (d - 2)), d), 1.0

    return apply_with(theta)


case("j064", make, RoPE(64, layout="half", scaling=QwenNTK(128)), "apply",
     "the step of Qwen's NTK is floor(.) + 1 instead of ceil(.), so a length of exactly 128, 256, 512 ... already has "
     "the next alpha", "qwen-floor-plus-one", "use ceil")


# ---- j066
def make(bug):
    base, d, s, L0 = 10000.0, 128, 4.0, 2048
    f = plain(base, d)
    n = plain(base * s ** (d / (d - 2)), d)

    def ramp(fast, slow):
        lo, hi = correction_range(fast, slow, d, base, L0)
        lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
        return np.clip((np.arange(d // 2) - lo) / ((hi - lo) or 0.001), 0, 1)

    b, c = ramp(1.25, 0.75), ramp(16, 2)
    if bug:
        b, c = c, b
    w = (1 - c) * f + c * ((1 - b) * n + b * f / s)
    return lambda: w


case("j066", make, RoPE(128, layout="half", scaling=NTKByParts(4.0, 2048)), "frequencies",
     "the ramps of beta (NTK to linear) and gamma (plain to the rest) are swapped in NTK-by-parts",
     "by-parts-ramps-swapped", "gamma blends with the plain frequencies, beta NTK with linear")


# ---- j067
def make(bug):
    d = 64
    if bug:
        w = np.concatenate([1e6 ** (-np.arange(0, 16, 2) / 16), np.zeros(24)])
    else:
        w = np.concatenate([1e6 ** (-np.arange(0, 16, 2) / d), np.zeros(24)])
    return apply_with(lambda n: (w, 1.0))


case("j067", make, RoPE(64, layout="half", base=1e6, scaling=Proportional(0.25)), "apply",
     "the exponents of the 8 turning pairs are fractions of the rotated part (16 channels), as in partial rotary, "
     "instead of the whole head", "proportional-exponent-of-part", "divide 2k by head_dim")


# ---- j068
def make(bug):
    given = [0.9, 0.5, 0.7, 0.02, 0.3, 0.001, 0.11, 0.0004]
    w = np.array(sorted(given, reverse=True) if bug else given)
    return apply_with(lambda n: (w, 1.0))


case("j068", make, RoPE(16, layout="half", scaling=GivenFrequencies([0.9, 0.5, 0.7, 0.02, 0.3, 0.001, 0.11, 0.0004])), "apply",
     "the learned frequencies of the checkpoint are sorted in descending order when they are loaded",
     "learned-frequencies-sorted", "keep the order of the checkpoint")


# ---- j070
def make(bug):
    base, d, s, L0 = 10000.0, 64, 4.0, 1024
    lo, hi = correction_range(32, 1, d, base, L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = plain(base, d)
    w = f * ((1 - g) + g / s)
    m = 0.1 * math.log(s) + 1

    def theta(n):
        if bug and n <= L0:
            return f, 1.0          # "no scaling is needed within the trained length"
        return w, m

    return apply_with(theta)


case("j070", make, RoPE(64, layout="half", scaling=YaRN(4.0, 1024)), "apply",
     "YaRN is switched off for calls within the trained length of 1024, although its frequencies and m hold at every "
     "length", "yarn-only-when-long", "use the scaled frequencies at every length")


# ---- j071
def make(bug):
    base, d, s, L0 = 10000.0, 128, 32.0, 4096
    fast, slow = 32, 1
    lo, hi = correction_range(fast, slow, d, base, L0)
    lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = plain(base, d)
    w = f * ((1 - g) + g / s) if bug else f / s ** g
    m = 0.1 * math.log(s) + 1
    return apply_with(lambda n: (w, m))


case("j071", make, RoPE(128, layout="half", scaling=YaRN(32.0, 4096, blend="geometric")), "apply",
     "the blend of YaRN is linear in the frequencies where this model (yarn_log) has the geometric one, f / factor ** ramp",
     "yarn-linear-blend", "divide by factor ** ramp")


# ---- j072
def make(bug):
    base, d, s, N = 10000.0, 64, 4.0, 512

    def theta(n):
        L = max(n, N) if bug else s * N
        alpha = s * L / N - (s - 1)
        return plain(base * alpha ** (d / (d - 2)), d), 1.0

    return apply_with(theta)


case("j072", make, RoPE(64, layout="half", scaling=DynamicNTK(4.0, 512, policy="static")), "apply",
     "the factor of dynamic NTK follows the length of the call, although the server fixes it at factor * "
     "max_position (static) once", "dynamic-for-static", "compute the table once for L = factor * max_position")


