"""Frequencies and tables of cos and sin: schedules, configurations. Wrong ones."""
import math

import numpy as np
import torch

from posenc_ref import (DynamicNTK, GivenFrequencies, Llama3Scaling, LongRoPE, MultiAxisRoPE, NTKByParts, NTKScaling, Proportional, QwenNTK, RIFLEx, RoPE, SuNTK, YaRN, from_config, preset)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))




def plain(d, base):
    return [base ** (-2 * k / d) for k in range(d // 2)]


def correction(turns, d, base, L0):
    return d * math.log(L0 / (turns * 2 * math.pi)) / (2 * math.log(base))


def yarn(d, base, s, L0, fast=32.0, slow=1.0, *, truncate=True, dim=None, top=None, span=correction):
    """YaRN's frequencies; dim and top stand for the sizes that ports confuse."""
    lo, hi = span(fast, dim or d, base, L0), span(slow, dim or d, base, L0)
    if truncate:
        lo, hi = math.floor(lo), math.ceil(hi)
    lo, hi = max(lo, 0), min(hi, (d - 1) if top is None else top)
    if lo == hi:
        hi += 0.001
    out = []
    for k, f in enumerate(plain(d, base)):
        r = min(max((k - lo) / (hi - lo), 0.0), 1.0)
        out.append(f * (1 - r) + f / s * r)
    return np.array(out)


# ---- h031: YaRN, upper end clamped at the number of pairs
def make(bug):
    return lambda: yarn(64, 10000.0, 4.0, 65536, top=31 if bug else None)
case("h031", make, RoPE(64, layout="half", scaling=YaRN(4.0, 65536, attention_factor=1.0)), "frequencies",
     "The upper end of YaRN's ramp is clamped at d/2 - 1 = 31 instead of d - 1, so the ramp is too steep: 33 is cut to 31.",
     "yarn-clamp", "clamp at rotary_dim - 1")


# ---- h032: YaRN, correction range by head_dim
def make(bug):
    return lambda: (yarn(64, 10000.0, 16.0, 4096, dim=128 if bug else 64), 0.1 * math.log(16.0) + 1)
case("h032", make, RoPE(128, layout="half", rotary_dim=64, scaling=YaRN(16.0, 4096)), "frequencies",
     "The correction range of YaRN is computed with head_dim 128 instead of rotary_dim 64, so both ends of the ramp have twice the pair index.",
     "yarn-range-dim", "compute the range with rotary_dim")


# ---- h033: YaRN: extrapolated and interpolated swapped
def make(bug):
    def frequencies():
        w = np.array(plain(128, 1e6))
        lo = math.floor(correction(32, 128, 1e6, 32768))
        hi = math.ceil(correction(1, 128, 1e6, 32768))
        ramp = np.clip((np.arange(64) - lo) / (hi - lo), 0, 1)
        mask = ramp if bug else 1 - ramp  # 1: keep
        return w / 4.0 * (1 - mask) + w * mask, 0.1 * math.log(4.0) + 1
    return frequencies
case("h033", make, RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768)), "frequencies",
     "YaRN's mask is not inverted (1 - ramp), so fast pairs are interpolated and slow pairs are kept.",
     "yarn-inverted", "mask = 1 - ramp")


# ---- h034: gpt-oss, ends of the ramp rounded
def make(bug):
    def tables(positions):
        w = yarn(64, 150000.0, 32.0, 4096, truncate=bug)
        a = np.asarray(positions, np.float64)[:, None] * w
        m = 0.1 * math.log(32.0) + 1
        return m * np.cos(a), m * np.sin(a)
    return tables
case("h034", make, RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)), "cos_sin",
     "The ends of YaRN's ramp are rounded to whole pairs although the model has truncate false.",
     "yarn-truncate", "do not floor and ceil if truncate is false")


# ---- h035: YaRN with the attention factor of LongRoPE
def make(bug):
    def frequencies():
        s, L0 = 8.0, 4096
        m = math.sqrt(1 + math.log(s) / math.log(L0)) if bug else 0.1 * math.log(s) + 1
        return yarn(128, 10000.0, s, L0), m
    return frequencies
case("h035", make, RoPE(128, layout="half", scaling=YaRN(8.0, 4096)), "frequencies",
     "The attention factor is LongRoPE's sqrt(1 + ln s / ln L0) = 1.118 instead of YaRN's 0.1 ln s + 1 = 1.208.",
     "yarn-factor-of-longrope", "0.1 ln(factor) + 1")


# ---- h036: YaRN, trained length replaced by the extended one
def make(bug):
    cfg = dict(rope_theta=1e6, max_position_embeddings=131072,
               rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=32768))

    def frequencies():
        rs = cfg["rope_scaling"]
        L0 = cfg["max_position_embeddings"] if bug else rs["original_max_position_embeddings"]
        return yarn(128, cfg["rope_theta"], rs["factor"], L0), 0.1 * math.log(rs["factor"]) + 1
    return frequencies
case("h036", make, RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768)), "frequencies",
     "YaRN's correction range uses max_position_embeddings (131072) instead of the original length 32768.",
     "yarn-length", "use original_max_position_embeddings")


# ---- h037: YaRN: m on cos only
def make(bug):
    def tables(positions):
        w = torch.tensor(yarn(64, 10000.0, 40.0, 4096))
        m = 0.1 * math.log(40.0) + 1
        f = torch.as_tensor(positions)[:, None].double() * w
        return f.cos() * m, f.sin() if bug else f.sin() * m
    return tables
case("h037", make, RoPE(64, layout="interleaved", scaling=YaRN(40.0, 4096)), "cos_sin",
     "The attention factor multiplies cos but not sin.",
     "factor-on-cos", "multiply both tables", backend="torch")


# ---- h038: DeepSeek's mscale: all_dim part not divided out
def make(bug):
    g = lambda s, u: 1.0 if s <= 1 else 0.1 * u * math.log(s) + 1.0

    def frequencies():
        m = g(40.0, 1.0) if bug else g(40.0, 0.707) / g(40.0, 0.707)
        return yarn(64, 10000.0, 40.0, 4096), m
    return frequencies
case("h038", make, RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128,
                        scaling=YaRN(40.0, 4096, mscale=0.707, mscale_all_dim=0.707)), "frequencies",
     "mscale and mscale_all_dim are ignored: the attention factor is g(1) = 1.369 instead of g(0.707)/g(0.707) = 1.",
     "mscale-ignored", "divide g(mscale) by g(mscale_all_dim)")


# ---- h039: Llama 3: weight of the ramp on the wrong part
def make(bug):
    def frequencies():
        out = []
        low, high, s, L0 = 1.0, 4.0, 8.0, 8192
        for f in plain(128, 500000.0):
            wavelen = 2 * math.pi / f
            if wavelen < L0 / high:
                out.append(f)
            elif wavelen > L0 / low:
                out.append(f / s)
            else:
                t = (L0 / wavelen - low) / (high - low)
                out.append(t * f / s + (1 - t) * f if bug else (1 - t) * f / s + t * f)
        return np.array(out)
    return frequencies
case("h039", make, RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), "frequencies",
     "In the medium band of Llama 3's scaling the smooth factor weights the scaled frequency instead of the plain one.",
     "llama3-smooth", "(1 - smooth) * f / factor + smooth * f")


# ---- h040: Llama 3: medium band is linear in the wavelength
def make(bug):
    def frequencies():
        low, high, s, L0 = 1.0, 4.0, 32.0, 8192
        f = np.array(plain(64, 500000.0))
        wl = 2 * np.pi / f
        if bug:
            t = (L0 / low - wl) / (L0 / low - L0 / high)
        else:
            t = (L0 / wl - low) / (high - low)
        t = t.clip(0, 1)
        return (1 - t) * f / s + t * f
    return frequencies
case("h040", make, RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192)), "frequencies",
     "The ramp of Llama 3's medium band is linear in the wavelength instead of linear in the number of turns.",
     "llama3-wavelength", "interpolate in L0 / wavelength")


# ---- h041: Llama 3: factor of 3.1 for 3.2
def make(bug):
    def apply(x, positions):
        s = 8.0 if bug else 32.0
        f = 500000.0 ** (-np.arange(0, 64, 2) / 64)
        r = 8192 * f / (2 * np.pi)
        w = np.where(r < 1, f / s, np.where(r > 4, f, f * ((r - 1) / 3 + (4 - r) / 3 / s)))
        ang = np.asarray(positions)[..., None] * w
        ang = ang[:, None] if ang.ndim == 3 else ang
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * np.cos(ang) - b * np.sin(ang), b * np.cos(ang) + a * np.sin(ang)], -1).astype(x.dtype)
    return apply
case("h041", make, preset("llama-3.2-1b").only, "apply",
     "The scaling factor is hard-coded to 8 of Llama 3.1, whereas Llama 3.2 1B has 32.",
     "llama3-factor", "read factor from the configuration")


# ---- h042: LongRoPE switches at L0 instead of L0 + 1
rng = np.random.default_rng(11)
SHORT = [1.0 + 0.02 * k for k in range(16)]
LONG = [1.0 + 0.7 * k for k in range(16)]


def make(bug):
    def frequencies(seq_len):
        lam = LONG if (seq_len >= 128 if bug else seq_len > 128) else SHORT
        m = math.sqrt(1 + math.log(8.0) / math.log(128))
        return np.array(plain(32, 10000.0)) / np.array(lam), m
    return frequencies
case("h042", make, RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 128, factor=8.0)), "frequencies",
     "The long list is used from length L0 = 128 on, not from L0 + 1 on.",
     "longrope-boundary", "seq_len > L0")


# ---- h043: LongRoPE: m = 1 in short contexts
def make(bug):
    def tables(positions):
        p = np.asarray(positions, np.float64)
        n = int(p.max()) + 1 if p.size else 1
        long = n > 4096
        lam = np.array(LONG if long else SHORT)
        m = math.sqrt(1 + math.log(32.0) / math.log(4096))
        if bug and not long:
            m = 1.0
        ang = p[:, None] * (np.array(plain(32, 10000.0)) / lam)
        return m * np.cos(ang), m * np.sin(ang)
    return tables
case("h043", make, RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, factor=32.0)), "cos_sin",
     "The attention factor is applied only beyond the trained length; short contexts get 1.",
     "longrope-short-factor", "apply m at every length")


# ---- h044: LongRoPE: lists multiply
def make(bug):
    def apply(x, positions):
        ext = torch.tensor(LONG, dtype=torch.float64)
        f = torch.tensor(plain(32, 10000.0), dtype=torch.float64)
        w = f * ext if bug else 1.0 / (ext * (1 / f))
        t = positions.double()[..., None] * w
        t = t[:, None] if t.ndim == 3 else t
        m = 1.19
        u, v = x.double().chunk(2, -1)
        return (torch.cat([u * t.cos() - v * t.sin(), v * t.cos() + u * t.sin()], -1) * m).to(x.dtype)
    return apply
case("h044", make, RoPE(32, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, attention_factor=1.19, policy="long")), "apply",
     "The frequencies are multiplied by the long list instead of divided by it.",
     "longrope-multiplies", "divide by the list", backend="torch")


# ---- h045: NTK without the exponent
def make(bug):
    def frequencies():
        b = 10000.0 * (4.0 if bug else 4.0 ** (64 / 62))
        return np.array(plain(64, b))
    return frequencies
case("h045", make, RoPE(64, layout="half", scaling=NTKScaling(4.0)), "frequencies",
     "The base is multiplied by the factor itself instead of factor ** (d/(d-2)).",
     "ntk-exponent", "base * factor ** (d/(d-2))")


# ---- h046: dynamic NTK, d of the head in the exponent of partial rotary
def make(bug):
    def frequencies(seq_len):
        s, L, d = 2.0, 128, 32
        e = 80 if bug else d
        n = max(seq_len, L)
        b = 10000.0 * (s * n / L - (s - 1)) ** (e / (e - 2))
        return np.array(plain(d, b))
    return frequencies
case("h046", make, RoPE(80, layout="half", rotary_dim=32, scaling=DynamicNTK(2.0, 128)), "frequencies",
     "The exponent d/(d-2) of dynamic NTK uses head_dim 80 instead of rotary_dim 32.",
     "ntk-partial", "use rotary_dim in the exponent")


# ---- h047: dynamic NTK: parenthesis
def make(bug):
    def frequencies(seq_len):
        s, L, d = 4.0, 256, 64
        n = max(seq_len, L)
        alpha = max(s * (n / L - (s - 1)), 1.0) if bug else s * n / L - (s - 1)
        return np.array(plain(d, 10000.0 * alpha ** (d / (d - 2))))
    return frequencies
case("h047", make, RoPE(64, layout="half", scaling=DynamicNTK(4.0, 256)), "frequencies",
     "A misplaced parenthesis makes alpha = s (L/L0 - (s - 1)), clamped to at least 1, instead of s L/L0 - (s - 1), so scaling starts only at 3.25 times the trained length and is too weak after it.",
     "dynamic-alpha", "alpha = s * L / L0 - (s - 1)")


# ---- h048: dynamic NTK scales short prompts too (no max with trained length)
def make(bug):
    def tables(positions):
        p = np.asarray(positions, np.float64)
        s, L, d = 2.0, 512, 32
        n = int(p.max()) + 1 if p.size else 1
        n = n if bug else max(n, L)
        alpha = max(s * n / L - (s - 1), 0.01)
        ang = p[:, None] * np.array(plain(d, 10000.0 * alpha ** (d / (d - 2))))
        return np.cos(ang), np.sin(ang)
    return tables
case("h048", make, RoPE(32, layout="half", scaling=DynamicNTK(2.0, 512)), "cos_sin",
     "The length is not raised to at least the trained one, so for calls shorter than 512 alpha is below 1 and the base shrinks.",
     "dynamic-short", "take max(length, max_position)")


# ---- h049: NTK by parts: middle band without the NTK part
def make(bug):
    d, base, s, L0 = 128, 10000.0, 4.0, 2048

    def ramp(first, last):
        lo = max(math.floor(correction(first, d, base, L0)), 0)
        hi = min(math.ceil(correction(last, d, base, L0)), d - 1)
        hi = hi + 0.001 if lo == hi else hi
        return np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)

    def frequencies():
        f = np.array(plain(d, base))
        ntk = np.array(plain(d, base * s ** (d / (d - 2))))
        b, g = ramp(1.25, 0.75), ramp(16.0, 2.0)
        w = ntk * (1 - b) + f / s * b
        if bug:
            return w * (1 - g) + f * g
        return f * (1 - g) + w * g
    return frequencies
case("h049", make, RoPE(128, layout="half", scaling=NTKByParts(4.0, 2048)), "frequencies",
     "The outer blend of NTK-by-parts is the wrong way round: fast pairs get the NTK-aware frequency and slow pairs the plain one.",
     "by-parts-swapped", "(1 - c) * plain + c * inner")


# ---- h050: p-RoPE with the exponent of the rotated part
def make(bug):
    def frequencies():
        d, n = 128, 16
        return np.r_[[1e6 ** (-2 * k / (2 * n if bug else d)) for k in range(n)], np.zeros(d // 2 - n)]
    return frequencies
case("h050", make, RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25)), "frequencies",
     "The exponents of proportional RoPE are fractions of the 32 rotated channels instead of the whole head of 128.",
     "proportional-denominator", "divide by the head size")


# ---- h051: RIFLEx: pair index from 0
def make(bug):
    def frequencies():
        w = plain(16, 256.0)
        k = 4
        w[k if bug else k - 1] = 0.9 * 2 * math.pi / 200
        return np.array(w)
    return frequencies
case("h051", make, RoPE(16, layout="interleaved", base=256.0, scaling=RIFLEx(4, 200, periods=0.9)), "frequencies",
     "The paper's pair k = 4, counted from 1, is used as an index from 0, so the fifth pair is slowed instead of the fourth.",
     "riflex-index", "use index k - 1")


# ---- h052: QwenNTK: floor instead of ceil
def make(bug):
    def frequencies(seq_len):
        x = math.log2(seq_len / 256) + 1
        alpha = max(2 ** (math.floor(x) if bug else math.ceil(x)) - 1, 1)
        return np.array(plain(64, 10000.0 * alpha ** (64 / 62)))
    return frequencies
case("h052", make, RoPE(64, layout="half", scaling=QwenNTK(256)), "frequencies",
     "The step of alpha is rounded down instead of up, so alpha stays 1 until twice the trained length.",
     "qwen-floor", "2 ** ceil(log2(L / L0) + 1) - 1")


# ---- h053: SuNTK: index from 0
def make(bug):
    def frequencies():
        d, s = 64, 8.0
        k = np.arange(d // 2)
        e = (2 * (k if bug else k + 1) / d) ** 0.625
        return 10000.0 ** (-2 * k / d) / s ** e
    return frequencies
case("h053", make, RoPE(64, layout="half", scaling=SuNTK(8.0, power=0.625)), "frequencies",
     "The correction of pair k uses k instead of k + 1, so the first pair keeps its frequency and the last is not divided by the factor.",
     "su-index", "use k + 1")


# ---- h054: table built by adding the step in float32
def make(bug):
    def tables(positions):
        p = np.asarray(positions)
        if p.dtype.kind != "i" or p.size == 0:
            a = p.astype(np.float64)[:, None] * np.array(plain(64, 10000.0))
            return np.cos(a), np.sin(a)
        n = int(np.abs(p).max()) + 1
        w = np.array(plain(64, 10000.0))
        if bug:
            n_acc = min(n, 65536)
            acc = np.cumsum(np.tile(w.astype(np.float32), (n_acc, 1)), axis=0, dtype=np.float32) - w.astype(np.float32)
            a = np.where((np.abs(p) < n_acc)[:, None], np.sign(p)[:, None] * acc[np.minimum(np.abs(p), n_acc - 1)], p[:, None] * w)
        else:
            a = p[:, None] * w
        return np.cos(a), np.sin(a)
    return tables
case("h054", make, RoPE(64, layout="half"), "cos_sin",
     "The angles of positions below 65536 are running sums of the frequencies in float32, so each step rounds and the errors grow with the position.",
     "accumulated-angles", "multiply position by frequency")


# ---- h055: positions from 1
def make(bug):
    class Tab:
        def __init__(self):
            self.w = torch.tensor(plain(48, 10000.0), dtype=torch.float64)

        def __call__(self, positions):
            t = positions.double() + (1 if bug else 0)
            f = torch.outer(t, self.w)
            return f.cos().float(), f.sin().float()
    return Tab()
case("h055", make, RoPE(48, layout="half"), "cos_sin",
     "The tables start at position 1: row p has the angles of p + 1.",
     "origin", "start at position 0", backend="torch")


# ---- h056: configuration: partial_rotary_factor ignored when head_dim is given
def make(bug):
    cfg = dict(model_type="glm4", hidden_size=4096, num_attention_heads=32, head_dim=128,
               partial_rotary_factor=0.5, rope_theta=10000.0)

    def apply(x, positions):
        d = cfg.get("head_dim") or cfg["hidden_size"] // cfg["num_attention_heads"]
        r = d if bug else int(d * cfg["partial_rotary_factor"])
        w = 10000.0 ** (-np.arange(0, r, 2) / r)
        ang = np.asarray(positions)[..., None] * w
        ang = ang[:, None] if ang.ndim == 3 else ang
        y = x.copy()
        e, o = x[..., 0:r:2], x[..., 1:r:2]
        y[..., 0:r:2] = e * np.cos(ang) - o * np.sin(ang)
        y[..., 1:r:2] = o * np.cos(ang) + e * np.sin(ang)
        return y
    return apply
case("h056", make, RoPE(128, layout="interleaved", rotary_dim=64), "apply",
     "partial_rotary_factor 0.5 of the configuration is not read, so all 128 channels are rotated instead of the first 64.",
     "config-partial", "rotary_dim = head_dim * partial_rotary_factor")


# ---- h057: configuration: nested rope_parameters not read, default base
def make(bug):
    cfg = dict(model_type="mistral", head_dim=128, rope_parameters=dict(rope_theta=1e6, rope_type="default"))

    def frequencies():
        base = cfg.get("rope_theta", 10000.0) if bug else cfg["rope_parameters"]["rope_theta"]
        return np.array(plain(cfg["head_dim"], base))
    return frequencies
case("h057", make, preset("mistral-7b-v0.3").only, "frequencies",
     "rope_theta is read from the top level of the configuration, where it is missing, so the default base 10000 replaces the 1000000 inside rope_parameters.",
     "config-base", "read rope_parameters.rope_theta")


# ---- h058: configuration: head_dim from hidden size
def make(bug):
    cfg = dict(hidden_size=5120, num_attention_heads=32, head_dim=128)

    def frequencies():
        d = cfg["head_dim"]
        n = cfg["hidden_size"] // cfg["num_attention_heads"] if bug else d
        return np.array([1e6 ** (-2 * k / n) for k in range(d // 2)])
    return frequencies
case("h058", make, RoPE(128, layout="half", base=1e6), "frequencies",
     "The denominator of the exponents is hidden_size / num_attention_heads = 160 although the configuration states head_dim 128.",
     "config-head-dim", "use head_dim of the configuration")


# ---- h059: llama.cpp rope_freqs multiply
FREQ_FACTORS = [1.0] * 10 + [1.0 + 0.45 * j for j in range(22)]


def make(bug):
    def tables(positions):
        w = np.array(plain(64, 500000.0))
        ff = np.array(FREQ_FACTORS)
        w = w * ff if bug else w / ff
        a = np.outer(np.asarray(positions, np.float64), w)
        return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
    return tables
case("h059", make, RoPE(64, layout="half", base=500000.0, scaling=GivenFrequencies(
         [w / f for w, f in zip(plain(64, 500000.0), FREQ_FACTORS)])), "cos_sin",
     "The rope_freqs of the GGUF file multiply the frequencies instead of dividing them.",
     "rope-freqs-multiply", "divide by rope_freqs")


# ---- h060: geometric blend missing: linear used for Grok
def make(bug):
    def frequencies():
        d, base, s, L0 = 128, 208533496.0, 16.0, 8192
        lo = max(math.floor(correction(8.0, d, base, L0)), 0)
        hi = min(math.ceil(correction(1.0, d, base, L0)), d - 1)
        r = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
        f = np.array(plain(d, base))
        return f * (1 - r) + f / s * r if bug else f * s ** -r
    return frequencies
case("h060", make, RoPE(128, layout="half", base=208533496.0,
                        scaling=YaRN(16.0, 8192, beta_fast=8.0, attention_factor=1.0, blend="geometric")), "frequencies",
     "The middle band is blended linearly although the model interpolates in the logarithm of the frequency (yarn_log).",
     "yarn-blend", "f / s ** ramp")
