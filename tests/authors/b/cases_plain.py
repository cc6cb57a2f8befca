"""Plain functions (position ids, packing, decoding, sharding, layers, softmax scale, weights) and frequency schedules."""

import math

import numpy as np

from posenc_ref import (
    DynamicNTK,
    GivenFrequencies,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    ModelEncoding,
    NTKByParts,
    NTKScaling,
    Proportional,
    QwenNTK,
    RoPE,
    SuNTK,
    YaRN,
    preset,
)

CASES = []


def case(id, fn, encoding, surface, cause, key, remedy="", mended=None, right=False, settings=None):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings or {},
            right=right,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


# ---------------------------------------------------------------- positions of tokens
def ids_of_mask(mode):
    def position_ids(attention_mask):
        m = np.asarray(attention_mask).astype(np.int64)
        if mode == "first":
            start = np.argmax(m, axis=-1)[..., None]
            return np.maximum(np.arange(m.shape[-1]) - start, 0)
        if mode == "int8":
            c = np.cumsum(m.astype(np.int8), -1, dtype=np.int8).astype(np.int64)
            return np.where(m == 1, c - 1, 0)
        return np.where(m == 1, np.cumsum(m, -1) - 1, 0)

    return position_ids


case(
    "b140",
    ids_of_mask("first"),
    None,
    "position_ids",
    "Positions count from the first real token and go on through padding between tokens, so tokens after a hole are "
    "too high; right if padding is on one side.",
    "holes-counted",
    "cumulative sum of the mask",
    ids_of_mask("ok"),
)
case(
    "b141",
    ids_of_mask("int8"),
    None,
    "position_ids",
    "The cumulative sum is kept in int8, so it wraps to -128 from the 128th real token of a row on.",
    "int8-overflow",
    "sum in int64",
    ids_of_mask("ok"),
)


def pack(mode):
    def packed(lengths):
        n = np.asarray(lengths, dtype=np.int64)
        if mode == "loop":
            return np.concatenate([np.zeros(0, np.int64), *(np.arange(m) for m in n)])
        total = int(n.sum())
        step = np.ones(total + 1, np.int64)
        step[0] = 0
        ends = np.cumsum(n)[:-1] if n.size else n
        if mode == "assign":
            step[ends] = 1 - n[:-1] if n.size else 0
            step[0] = 0
        else:
            full = np.arange(total)
            return full - np.repeat(np.cumsum(n) - n, n)
        return np.cumsum(step[:total])

    return packed


case(
    "b142",
    pack("assign"),
    None,
    "packed",
    "The jump back at the start of a document is assigned, not accumulated: where an empty document (length 0) follows "
    "another, both jumps fall on one token and the later one (1 - 0) wins, so counting goes on.",
    "empty-document",
    "add the jumps with np.add.at, or subtract the repeated starts",
    pack("ok"),
)
case(
    "b143",
    pack("loop"),
    None,
    "packed",
    "Right: one arange for each document, concatenated; empty documents give nothing.",
    "right",
    right=True,
)


def decode(mode):
    def decode_positions(prompt_len, n_steps):
        p = np.asarray(prompt_len, dtype=np.int64)
        if mode == "longest" and p.ndim:
            p = np.full_like(p, p.max() if p.size else 0)
        return p[..., None] + np.arange(n_steps)

    return decode_positions


case(
    "b144",
    decode("longest"),
    None,
    "decode_positions",
    "In a batch every row goes on from the longest prompt (the padded length) instead of its own length; a single "
    "length is right.",
    "longest-prompt",
    "use each row's own length",
    decode("ok"),
)


def shard(mode):
    def shard_positions(cu_seqlens, cp_size, cp_rank):
        cu = [int(c) for c in cu_seqlens]
        out = []
        for a, b in zip(cu, cu[1:]):
            n = (b - a) // (2 * cp_size)
            second = cp_size + cp_rank if mode == "forward" else 2 * cp_size - 1 - cp_rank
            start = a if mode == "global" else 0
            for c in (cp_rank, second):
                out += range(start + c * n, start + (c + 1) * n)
        return np.array(out, dtype=np.int64)

    return shard_positions


case(
    "b145",
    shard("forward"),
    None,
    "shard_positions",
    "The second chunk of rank r is cp_size + r instead of 2 cp_size - 1 - r (not mirrored).",
    "second-chunk",
    "mirror the second chunk",
    shard("ok"),
)
case(
    "b146",
    shard("global"),
    None,
    "shard_positions",
    "Positions are indices into the packed batch: sequences after the first do not restart at 0.",
    "no-restart",
    "leave out the start of the sequence",
    shard("ok"),
)

# ---------------------------------------------------------------- layers and scale
R128 = RoPE(128, layout="half", base=5e6)
NOPE4 = ModelEncoding(
    "every-fourth",
    encodings={"rope": R128, "nope": None},
    layer_types=tuple("nope" if (n + 1) % 4 == 0 else "rope" for n in range(36)),
)


def layers(fixed):
    def has_rope(n_layers):
        no_rope_layer_interval = 4
        return [(n + (1 if fixed else 0)) % no_rope_layer_interval != 0 for n in range(n_layers)]

    return has_rope


case(
    "b147",
    layers(False),
    NOPE4,
    "layers",
    "The layers without rotation are 0, 4, 8, ... (index counted from 0) instead of 3, 7, 11, ...",
    "layer-index-off-by-one",
    "(n + 1) % 4",
    layers(True),
)
V3 = preset("deepseek-v3")


def v3_scale(power):
    def softmax_scale():
        m = 0.1 * 1.0 * math.log(40.0) + 1.0
        return 192**-0.5 * m**power

    return softmax_scale


case(
    "b148",
    v3_scale(1),
    V3,
    "softmax_scale",
    "YaRN's mscale multiplies 1/sqrt(192) once instead of squared.",
    "mscale-not-squared",
    "mscale * mscale",
    v3_scale(2),
)
GEMMA = ModelEncoding(
    "gemma-like", encodings={"all": RoPE(256, layout="half")}, softmax_scale=168**-0.5
)


def gemma_scale(fixed):
    return lambda: 168**-0.5 if fixed else 256**-0.5


case(
    "b149",
    gemma_scale(False),
    GEMMA,
    "softmax_scale",
    "The scale is 1/sqrt(head_dim) = 1/16 although the model states query_pre_attn_scalar = 168.",
    "own-scale-ignored",
    "use query_pre_attn_scalar",
    gemma_scale(True),
)


# ---------------------------------------------------------------- weights
def permute(mode):
    def permute_weights(w, n_heads):
        rows, *rest = w.shape
        d = rows // n_heads
        if mode == "inverse":
            x = w.reshape(n_heads, d // 2, 2, *rest)
        else:
            x = w.reshape(n_heads, 2, d // 2, *rest)
        return np.swapaxes(x, 1, 2).reshape(w.shape)

    return permute_weights


def permute_index(w, n_heads):
    d = w.shape[0] // n_heads
    order = np.concatenate([h * d + np.arange(d).reshape(2, -1).T.ravel() for h in range(n_heads)])
    return np.take(w, order, axis=0)


def permute_first(w, n_heads):
    d = w.shape[0] // n_heads
    order = np.arange(d).reshape(2, -1).T.ravel()
    out = w.copy()
    out[:d] = w[order]
    return out


case(
    "b150",
    permute("inverse"),
    RoPE(16, layout="half"),
    "permute_weights",
    "The rows are moved in the inverse direction, from interleaved to half-split.",
    "direction",
    "view as (heads, 2, d/2)",
    permute("ok"),
)
case(
    "b151",
    permute_first,
    RoPE(16, layout="half"),
    "permute_weights",
    "Only the rows of head 0 are permuted, those of later heads are copied as they are.",
    "first-head-only",
    "permute every head",
    permute_index,
)
case(
    "b152",
    permute_index,
    RoPE(16, layout="half"),
    "permute_weights",
    "Right: an index list for each head and a take on the rows.",
    "right",
    right=True,
)


# ---------------------------------------------------------------- schedules
def plain(base, d):
    return base ** (-np.arange(0, d, 2) / d)


def corr(turns, d, base, length):
    return d * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))


def yarn(d, base, factor, length, mode="ok", fast=32, slow=1, truncate=True):
    def frequencies():
        lo, hi = corr(fast, d, base, length), corr(slow, d, base, length)
        if mode == "no-2pi":
            lo, hi = (d * math.log(length / t) / (2 * math.log(base)) for t in (fast, slow))
        if truncate or mode == "truncated":
            lo, hi = math.floor(lo), math.ceil(hi)
        lo, hi = max(lo, 0), min(hi, d // 2 - 1 if mode == "pairs" else d - 1)
        w = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
        f = plain(base, d)
        if mode == "geometric":
            theta = f / factor**w
        elif mode == "wavelength":  # blends wavelengths, not frequencies
            theta = 1 / ((1 - w) / f + w * factor / f)
        else:
            theta = f * (1 - w) + f / factor * w
        m = 0.1 * (math.log10 if mode == "log10" else math.log)(factor) + 1
        return theta, m

    return frequencies


GPT_OSS = RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False))
Y64K = RoPE(64, layout="half", scaling=YaRN(4.0, 262144))
Y4K = RoPE(128, layout="half", scaling=YaRN(16.0, 4096))
case(
    "b153",
    yarn(64, 150000.0, 32, 4096, "truncated", truncate=False),
    GPT_OSS,
    "frequencies",
    "The ends of YaRN's ramp are rounded to whole pairs although truncate is false (gpt-oss).",
    "truncate-ignored",
    "leave low and high as they are",
    yarn(64, 150000.0, 32, 4096, truncate=False),
)
case(
    "b154",
    yarn(64, 10000.0, 4, 262144, "pairs"),
    Y64K,
    "frequencies",
    "The upper end of the ramp is clamped to the last pair (d/2 - 1 = 31) instead of d - 1; with a trained length of "
    "262144 the end is at 37.",
    "ramp-clamp-pairs",
    "clamp to d - 1",
    yarn(64, 10000.0, 4, 262144),
)
case(
    "b155",
    yarn(128, 10000.0, 16, 4096, "no-2pi"),
    Y4K,
    "frequencies",
    "The correction range is computed from L0 / r without 2 pi, so the ramp starts and ends about 12 pairs too late.",
    "two-pi-missing",
    "L0 / (2 pi r)",
    yarn(128, 10000.0, 16, 4096),
)
case(
    "b156",
    yarn(128, 10000.0, 16, 4096, "log10"),
    Y4K,
    "frequencies",
    "The attention factor is 0.1 log10(s) + 1 instead of 0.1 ln(s) + 1; the frequencies are right.",
    "attention-factor-log",
    "natural logarithm",
    yarn(128, 10000.0, 16, 4096),
)
case(
    "b157",
    yarn(128, 10000.0, 16, 4096, "wavelength"),
    Y4K,
    "frequencies",
    "The ramp blends the wavelengths linearly instead of the frequencies, so pairs inside the ramp are too slow.",
    "blend-wavelengths",
    "blend frequencies",
    yarn(128, 10000.0, 16, 4096),
)
GROK = RoPE(128, layout="half", scaling=YaRN(16.0, 4096, blend="geometric"))
case(
    "b158",
    yarn(128, 10000.0, 16, 4096, "geometric"),
    GROK,
    "frequencies",
    "Right: the geometric blend f / s^w of Grok's yarn_log.",
    "right",
    right=True,
)


def llama3(mode, factor=32.0, low=1.0, high=4.0, length=8192, base=500000.0, d=64):
    def frequencies():
        if mode == "eight":
            s = 8.0
        else:
            s = factor
        out = []
        for f in plain(base, d):
            wavelen = 2 * math.pi / f
            if wavelen < length / high:
                out.append(f)
            elif wavelen > length / low:
                out.append(f / s)
            else:
                t = (length / wavelen - low) / (high - low)
                if mode == "exchanged":
                    t = 1 - t
                if mode == "wave":
                    t = (wavelen - length / low) / (length / high - length / low)
                out.append((1 - t) * f / s + t * f)
        return np.array(out)

    return frequencies


L32 = RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192))
case(
    "b159",
    llama3("exchanged"),
    L32,
    "frequencies",
    "In the middle band the weights are exchanged: the smooth factor goes to the scaled frequency and its complement "
    "to the plain one; outside the band all is right.",
    "smooth-exchanged",
    "(1 - t) f / s + t f",
    llama3("ok"),
)
case(
    "b160",
    llama3("eight"),
    L32,
    "frequencies",
    "The factor 8 of Llama 3.1 is hard-coded, Llama 3.2 has 32.",
    "factor-hard-coded",
    "use the declared factor",
    llama3("ok"),
)
case(
    "b161",
    llama3("wave"),
    L32,
    "frequencies",
    "The smooth factor of the middle band is linear in the wavelength instead of in its inverse (turns in the trained "
    "length).",
    "ramp-variable",
    "interpolate in L0 / wavelength",
    llama3("ok"),
)

SHORT = tuple(1.0 + 0.02 * n for n in range(32))
LONG = tuple(1.0 + 0.9 * n for n in range(32))
PHI = RoPE(64, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, factor=32.0))


def longrope(mode):
    def frequencies(seq_len):
        long = seq_len >= 4096 if mode == "at" else seq_len > 4096
        if mode == "exchanged":
            long = not long
        lam = np.array(LONG if long else SHORT)
        if mode == "multiplied":
            theta = plain(10000.0, 64) * lam
        else:
            theta = 1.0 / (lam * 10000.0 ** (np.arange(0, 64, 2) / 64))
        m = math.sqrt(1 + math.log(32) / math.log(4096))
        if mode == "short-one" and not long:
            m = 1.0
        return theta, m

    return frequencies


case(
    "b162",
    longrope("at"),
    PHI,
    "frequencies",
    "The long list is used from length L0 = 4096 on (>=) instead of L0 + 1 (>): only exactly 4096 tokens are wrong.",
    "switch-boundary",
    "seq_len > L0",
    longrope("ok"),
)
case(
    "b163",
    longrope("short-one"),
    PHI,
    "frequencies",
    "The attention factor is 1 up to the trained length; it applies at every length.",
    "attention-factor-short",
    "multiply at every length",
    longrope("ok"),
)
case(
    "b164",
    longrope("exchanged"),
    PHI,
    "frequencies",
    "short_factor and long_factor are exchanged.",
    "lists-exchanged",
    "long list beyond L0",
    longrope("ok"),
)

DYN = RoPE(64, layout="half", scaling=DynamicNTK(2.0, 2048))


def dynamic(mode):
    def frequencies(seq_len):
        n = seq_len if mode == "no-max" else max(seq_len, 2048)
        alpha = 2.0 * n / 2048 - 1.0
        if mode == "no-max":
            alpha = max(alpha, 0.25)
        power = 1.0 if mode == "no-exponent" else 64 / 62
        return plain(10000.0 * alpha**power, 64)

    return frequencies


case(
    "b165",
    dynamic("no-max"),
    DYN,
    "frequencies",
    "The length is not raised to the trained length first, so calls shorter than 2048 get an alpha below 1 and faster "
    "frequencies.",
    "short-length-scaled",
    "max(seq_len, max_position)",
    dynamic("ok"),
)
case(
    "b166",
    dynamic("no-exponent"),
    DYN,
    "frequencies",
    "The base is multiplied by alpha itself, the exponent d/(d-2) is missing (beyond 2048 tokens).",
    "ntk-exponent-missing",
    "alpha ** (d / (d - 2))",
    dynamic("ok"),
)
case(
    "b167",
    dynamic("ok"),
    DYN,
    "frequencies",
    "Right: a new base for every length.",
    "right",
    right=True,
)

PART = RoPE(80, layout="half", rotary_dim=32, scaling=NTKScaling(4.0))


def ntk(d):
    return lambda: plain(10000.0 * 4.0 ** (d / (d - 2)), 32)


case(
    "b168",
    ntk(80),
    PART,
    "frequencies",
    "The exponent d/(d-2) of the new base uses the whole head (80) instead of the rotated channels (32).",
    "dim-head-for-rotary",
    "d = rotary_dim",
    ntk(32),
)
QWEN = RoPE(64, layout="half", scaling=QwenNTK(2048))


def qwen(mode):
    def frequencies(seq_len):
        x = math.log2(seq_len / 2048) + 1
        alpha = max(2 ** (math.floor(x) if mode == "floor" else math.ceil(x)) - 1, 1)
        return plain(10000.0 * alpha ** (64 / 62), 64)

    return frequencies


case(
    "b169",
    qwen("floor"),
    QWEN,
    "frequencies",
    "The step is rounded down instead of up, so lengths between 2048 and 4096 keep alpha = 1 instead of 3, and so on; "
    "right at exact powers of two.",
    "floor-for-ceil",
    "ceil",
    qwen("ok"),
)
SU = RoPE(64, layout="half", scaling=SuNTK(8.0))


def su(first):
    return lambda: plain(10000.0, 64) / 8.0 ** ((np.arange(32) + first) / 32)


case(
    "b170",
    su(0),
    SU,
    "frequencies",
    "The divisor's exponent uses k instead of k + 1, so pair 0 is not scaled and the last is not divided by the whole "
    "factor.",
    "pair-index-off-by-one",
    "k + 1",
    su(1),
)
PARTS = RoPE(128, layout="half", scaling=NTKByParts(8.0, 2048))


def by_parts(mode):
    def ramp(a, b):
        lo, hi = math.floor(corr(a, 128, 10000.0, 2048)), math.ceil(corr(b, 128, 10000.0, 2048))
        lo, hi = max(lo, 0), min(hi, 127)
        return np.clip((np.arange(64) - lo) / (hi - lo if hi > lo else 0.001), 0, 1)

    def frequencies():
        f = plain(10000.0, 128)
        n = plain(10000.0 * 8.0 ** (128 / 126), 128)
        b, c = ramp(1.25, 0.75), ramp(16.0, 2.0)
        if mode == "linear-only":
            n = f
        return (1 - c) * f + c * ((1 - b) * n + b * f / 8.0)

    return frequencies


case(
    "b171",
    by_parts("linear-only"),
    PARTS,
    "frequencies",
    "The NTK-aware part is left out: the middle blends the plain with the interpolated frequency.",
    "ntk-part-missing",
    "blend n_k with f_k / factor",
    by_parts("ok"),
)
PROP = RoPE(256, layout="half", base=1e6, scaling=Proportional(0.25))


def proportional(d):
    return lambda: np.concatenate([1e6 ** (-np.arange(0, 64, 2) / d), np.zeros(96)])


case(
    "b172",
    proportional(64),
    PROP,
    "frequencies",
    "The exponents are fractions of the rotated channels (64), as in partial rotary, instead of the whole head (256).",
    "dim-rotary-for-head",
    "2k / head_dim",
    proportional(256),
)
LIN = RoPE(64, layout="half", scaling=LinearScaling(4.0))


def linear(mode):
    def cos_sin(positions):
        p = np.asarray(positions)
        p = np.floor_divide(p, 4) if mode == "floor" else p / 4.0
        a = p[:, None] * plain(10000.0, 64)
        return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)

    return cos_sin


case(
    "b173",
    linear("floor"),
    LIN,
    "cos_sin",
    "Positions are divided by the factor 4 in integers, so four neighbouring positions share a row.",
    "integer-division",
    "true division",
    linear("ok"),
)
LEARNT = RoPE(
    32, layout="interleaved", scaling=GivenFrequencies(tuple(0.9 * 0.7**n for n in range(16)))
)


def freq_factors(mode):
    def frequencies():
        own = np.array([0.9 * 0.7**n for n in range(16)])
        ratio = plain(10000.0, 32) / own  # llama.cpp's rope_freqs
        return plain(10000.0, 32) * ratio if mode == "multiplied" else plain(10000.0, 32) / ratio

    return frequencies


case(
    "b174",
    freq_factors("multiplied"),
    LEARNT,
    "frequencies",
    "The stored rope_freqs multiply the frequencies instead of dividing them.",
    "factors-inverted",
    "divide",
    freq_factors("ok"),
)
