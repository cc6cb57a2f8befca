"""Frequency schedules, cos/sin tables, factors of whole models, and layers."""

import numpy as np

from posenc_ref import (
    DynamicNTK,
    GivenFrequencies,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    ModelEncoding,
    MultiAxisRoPE,
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


def _case(id, surface, fn, encoding, key, cause, remedy, mended, **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=mended,
        )
    )


def _right(id, surface, fn, encoding, cause, **settings):
    CASES.append(
        dict(
            id=id,
            fn=fn,
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=True,
            cause=cause,
            cause_key="right",
            remedy="",
            mended=None,
        )
    )


def _inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


# -- Llama 3 ------------------------------------------------------------------------------------


def _llama3(swap=False, length=8192.0):
    def apply_scaling():
        out = []
        for f in _inv(128, 500000.0):
            wavelen = 2 * np.pi / f
            if wavelen < length / 4.0:
                out.append(f)
            elif wavelen > length / 1.0:
                out.append(f / 8.0)
            else:
                smooth = (length / wavelen - 1.0) / (4.0 - 1.0)
                smooth = 1 - smooth if swap else smooth
                out.append((1 - smooth) * f / 8.0 + smooth * f)
        return np.array(out)

    return apply_scaling


_L3 = RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192))
_case(
    "c071",
    "frequencies",
    _llama3(swap=True),
    _L3,
    "blend-exchanged",
    "in the middle band the weights of the plain and the divided frequency are exchanged: the fast end of "
    "the band is divided by 8 and the slow end kept",
    "smooth weighs the plain frequency",
    _llama3(),
)
_case(
    "c072",
    "frequencies",
    _llama3(length=131072.0),
    _L3,
    "extended-length-as-trained",
    "the turns are counted within 131072 positions (the new maximum) instead of the trained 8192, so the "
    "band lies 16 times too low",
    "use original_max_position_embeddings",
    _llama3(),
)

# -- YaRN ---------------------------------------------------------------------------------------


def _yarn(d, base, factor, trained, low_of=np.floor, high_of=np.ceil, top=None, invert=False):
    def inv_freq():
        def correction(turns):
            return d * np.log(trained / (turns * 2 * np.pi)) / (2 * np.log(base))

        low = max(low_of(correction(32.0)), 0)
        high = min(high_of(correction(1.0)), d - 1 if top is None else top)
        ramp = np.clip((np.arange(d // 2) - low) / (high - low), 0, 1)
        keep = 1 - ramp
        plain = _inv(d, base)
        if invert:
            return plain / (1 + (factor - 1) * ramp)
        return plain / factor * (1 - keep) + plain * keep

    return inv_freq


_case(
    "c073",
    "frequencies",
    _yarn(128, 1e6, 4.0, 32768, np.round, np.round),
    RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768, attention_factor=1.0)),
    "ramp-ends-rounded",
    "the ends of the ramp are rounded to the nearest pair; the lower is rounded down and the upper up",
    "floor and ceil",
    _yarn(128, 1e6, 4.0, 32768),
)
_case(
    "c074",
    "frequencies",
    _yarn(64, 10000.0, 8.0, 65536, top=31),
    RoPE(64, layout="interleaved", scaling=YaRN(8.0, 65536, attention_factor=1.0)),
    "clamped-at-half",
    "the upper end of the ramp (33) is clamped to d/2 - 1 = 31 instead of d - 1 = 63, so the slow pairs are "
    "divided by too much",
    "clamp at d - 1",
    _yarn(64, 10000.0, 8.0, 65536),
)
_case(
    "c075",
    "frequencies",
    _yarn(128, 10000.0, 16.0, 4096, invert=True),
    RoPE(128, layout="half", scaling=YaRN(16.0, 4096, attention_factor=1.0)),
    "wavelengths-blended",
    "the ramp blends the wavelengths (divisor 1 + 15 w) linearly where the frequencies should be blended, "
    "so pairs inside the ramp are too slow",
    "interpolate f and f / factor",
    _yarn(128, 10000.0, 16.0, 4096),
)


def _yarn_m(flip):
    plain = _yarn(64, 10000.0, 40.0, 4096)

    def yarn_with_mscale():
        g, h = 0.1 * 1.0 * np.log(40.0) + 1, 0.1 * 0.707 * np.log(40.0) + 1
        return plain(), (h / g if flip else g / h)

    return yarn_with_mscale


_case(
    "c076",
    "frequencies",
    _yarn_m(True),
    RoPE(64, layout="interleaved", scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=0.707)),
    "mscale-quotient-inverted",
    "the attention factor is g(mscale_all_dim) / g(mscale), the inverse of g(mscale) / g(mscale_all_dim)",
    "divide by g(mscale_all_dim)",
    _yarn_m(False),
)


def yarn_geometric():
    d, low, high = 64, None, None
    found = [d * np.log(8192 / (t * 2 * np.pi)) / (2 * np.log(1e4)) for t in (8.0, 1.0)]
    low, high = int(np.floor(found[0])), int(np.ceil(found[1]))
    exponents = [
        0.0 if k <= low else 1.0 if k >= high else (k - low) / (high - low) for k in range(32)
    ]
    return _inv(64) * np.exp2(-4.0 * np.array(exponents)), 0.1 * np.log(16.0) + 1.0


_right(
    "c077",
    "frequencies",
    yarn_geometric,
    RoPE(64, layout="half", scaling=YaRN(16.0, 8192, beta_fast=8.0, blend="geometric")),
    "geometric blend as powers of two, exponents in a list, and the factor m as second result",
)

# -- NTK ----------------------------------------------------------------------------------------


def _ntk(exponent, d=96, factor=8.0):
    def ntk_inv_freq():
        return _inv(d, 10000.0 * factor**exponent)

    return ntk_inv_freq


_case(
    "c079",
    "frequencies",
    _ntk(128 / 126, 32, 4.0),
    RoPE(128, layout="half", rotary_dim=32, scaling=NTKScaling(4.0)),
    "ntk-exponent-of-head",
    "the exponent of the factor is d/(d-2) of the whole head (128/126) instead of rotary_dim (32/30); the "
    "frequencies themselves divide by rotary_dim",
    "use rotary_dim in both places",
    _ntk(32 / 30, 32, 4.0),
)


def _dyn(alpha):
    def dynamic(seq_len):
        return _inv(64, 10000.0 * alpha(max(seq_len, 128)) ** (64 / 62))

    return dynamic


_case(
    "c080",
    "frequencies",
    _dyn(lambda n: n / 128),
    RoPE(64, layout="half", scaling=DynamicNTK(4.0, 128)),
    "factor-ignored",
    "alpha is L / max_position (the YaRN paper's dynamic NTK); the factor 4 is ignored: it should be "
    "4 L / max_position - 3",
    "alpha = factor * L / max_position - (factor - 1)",
    _dyn(lambda n: 4 * n / 128 - 3),
)


def _static(length):
    def at_maximum():
        alpha = 3.0 * length / 2048 - 2.0
        return _inv(64, 10000.0 * alpha ** (64 / 62))

    return at_maximum


_case(
    "c081",
    "frequencies",
    _static(2048 * 3 * 3),
    RoPE(64, layout="half", scaling=DynamicNTK(3.0, 2048, policy="static")),
    "factor-applied-twice",
    "the static length is factor squared times max_position: the already extended maximum is multiplied by "
    "the factor once more",
    "L = factor * max_position",
    _static(2048 * 3),
)


def _su(first):
    def ntk_mixed():
        a = np.log(6.0) / 64.0**0.625
        return _inv(128) / np.exp(a * (np.arange(64) + first) ** 0.625)

    return ntk_mixed


_case(
    "c082",
    "frequencies",
    _su(0.0),
    RoPE(128, layout="half", scaling=SuNTK(6.0, power=0.625)),
    "k-for-k-plus-1",
    "the exponent of Su's schedule starts at pair number 0 instead of 1: pair 0 keeps its frequency and the "
    "last pair is not divided by the whole factor",
    "use k + 1",
    _su(1.0),
)


def _parts(exchange):
    def part_ntk():
        d, base, s, length = 128, 10000.0, 8.0, 2048

        def ramp(a, b):
            c = [d * np.log(length / (r * 2 * np.pi)) / (2 * np.log(base)) for r in (a, b)]
            low, high = max(np.floor(c[0]), 0), min(np.ceil(c[1]), d - 1)
            return np.clip((np.arange(d // 2) - low) / ((high - low) or 0.001), 0, 1)

        beta, gamma = ramp(1.25, 0.75), ramp(16.0, 2.0)
        if exchange:
            beta, gamma = gamma, beta
        f = _inv(d, base)
        n = _inv(d, base * s ** (d / (d - 2)))
        mixed = n * (1 - beta) + f / s * beta
        return f * (1 - gamma) + mixed * gamma

    return part_ntk


_case(
    "c083",
    "frequencies",
    _parts(True),
    RoPE(128, layout="half", scaling=NTKByParts(8.0, 2048)),
    "ramps-exchanged",
    "the two ramps are exchanged: the inner blend of NTK and linear runs over gamma (16 to 2 turns) and the "
    "outer one over beta (1.25 to 0.75 turns)",
    "beta inside, gamma outside",
    _parts(False),
)


def qwen_steps(seq_len):
    alpha, reach = 1, 512
    while reach < seq_len:
        reach *= 2
        alpha = 2 * alpha + 1
    return _inv(128, 10000.0 * alpha ** (128 / 126))


_right(
    "c084",
    "frequencies",
    qwen_steps,
    RoPE(128, layout="half", scaling=QwenNTK(512)),
    "Qwen's steps counted by doubling in a loop, no logarithm",
)

# -- LongRoPE, proportional, given, linear ------------------------------------------------------

_SHORT = [1.0 + 0.01 * k for k in range(24)]
_LONGS = [1.0 + 0.08 * k * k for k in range(24)]


def _longrope(lists, denominator):
    def su_rope(seq_len):
        lam = lists[1] if seq_len > 4096 else lists[0]
        return _inv(48) / np.array(lam), float(np.sqrt(1 + np.log(32.0) / np.log(denominator)))

    return su_rope


_LR = RoPE(48, layout="half", scaling=LongRoPE(_SHORT, _LONGS, 4096, factor=32.0))
_case(
    "c085",
    "frequencies",
    _longrope((_LONGS, _SHORT), 4096),
    _LR,
    "lists-exchanged",
    "short and long factors are exchanged: the long list is used up to 4096 tokens and the short one beyond",
    "the long list beyond the original length",
    _longrope((_SHORT, _LONGS), 4096),
)
_case(
    "c086",
    "frequencies",
    _longrope((_SHORT, _LONGS), 131072),
    _LR,
    "m-of-extended-length",
    "the attention factor divides ln(factor) by the logarithm of the extended length 131072 instead of the "
    "original 4096",
    "sqrt(1 + ln(factor) / ln(original_max_position))",
    _longrope((_SHORT, _LONGS), 4096),
)


def _prope(denominator):
    def p_rope():
        inv = np.zeros(64)
        inv[:16] = 1e6 ** (-2.0 * np.arange(16) / denominator)
        return inv

    return p_rope


_case(
    "c087",
    "frequencies",
    _prope(32),
    RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25)),
    "partial-rotary-exponents",
    "the exponents are fractions of the 32 rotated channels, as in partial rotary, instead of the whole head "
    "of 128",
    "divide by head_dim",
    _prope(128),
)

_LEARNT = (_inv(32) * np.linspace(0.8, 1.3, 16)).tolist()


def _given(divide):
    def learned_freqs():
        f = np.asarray(_LEARNT)
        return _inv(32) / (f / _inv(32)) if divide else f

    return learned_freqs


_case(
    "c088",
    "frequencies",
    _given(True),
    RoPE(32, layout="interleaved", scaling=GivenFrequencies(_LEARNT)),
    "given-ratios-divide",
    "the ratio of the learned frequencies to the plain ones divides the plain frequencies (llama.cpp's "
    "rope_freqs) instead of multiplying them",
    "use the learned frequencies as they are",
    _given(False),
)


def linear_loop():
    out, f = [], 1.0 / 2.5
    for _ in range(40):
        out.append(f)
        f /= 10000.0 ** (1 / 40)
    return out


_right(
    "c089",
    "frequencies",
    lambda: np.array(linear_loop()),
    RoPE(80, layout="half", scaling=LinearScaling(2.5)),
    "frequencies by repeated division in float64, starting at 1 / factor",
)


def _per_axis(bases):
    def axis_tables():
        return np.concatenate([b ** (-np.arange(n) / n) for b, n in zip(bases, (8, 12, 12))])

    return axis_tables


_case(
    "c090",
    "frequencies",
    _per_axis((1e4, 1e4, 100.0)),
    MultiAxisRoPE(
        64, sections=(8, 12, 12), layout="half", spacing="restart", base=(1e4, 100.0, 100.0)
    ),
    "time-base-on-height",
    "the base of time (10000) is also used for height; height has 100 like width",
    "base of each axis",
    _per_axis((1e4, 100.0, 100.0)),
)

# -- cos and sin --------------------------------------------------------------------------------


def _sliced(ignore):
    table = np.outer(np.arange(8192), _inv(64))

    def forward(positions):
        p = np.asarray(positions, np.float64)
        a = table[: len(p)] if ignore else p[:, None] * _inv(64)
        emb = np.concatenate([a, a], -1)
        return np.cos(emb).astype(np.float32), np.sin(emb).astype(np.float32)

    return forward


_case(
    "c091",
    "cos_sin",
    _sliced(True),
    RoPE(64, layout="half"),
    "sliced-not-indexed",
    "the cached table is sliced by the number of positions, [:S], whatever their values are",
    "index the table with the positions",
    _sliced(False),
)


def _lut(size):
    def quarter_wave(positions):
        a = np.outer(np.asarray(positions, np.float64), _inv(32))
        if size:
            at = np.rint(a / (2 * np.pi) * size) % size
            a = at * (2 * np.pi / size)
        return np.cos(a), np.sin(a)

    return quarter_wave


_case(
    "c092",
    "cos_sin",
    _lut(1024),
    RoPE(32, layout="interleaved"),
    "sine-lookup-table",
    "cos and sin come from a table of 1024 entries per turn without interpolation: an error of up to 0.003",
    "call cos and sin, or interpolate",
    _lut(0),
)


def _bf16_table(truncate):
    def cached(positions):
        a = np.outer(np.asarray(positions, np.float64), _inv(128))
        c, s = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
        if truncate:
            c, s = ((t.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32) for t in (c, s))
        return c, s

    return cached


_case(
    "c093",
    "cos_sin",
    _bf16_table(True),
    RoPE(128, layout="half"),
    "truncated-to-bfloat16",
    "cos and sin are cut to the upper 16 bits of float32 (bfloat16, rounded towards zero)",
    "keep the tables in float32",
    _bf16_table(False),
)


def _exchanged(swap):
    def rotary_tables(positions):
        a = np.outer(np.asarray(positions, np.float64), _inv(64, 1e5))
        pair = np.cos(a), np.sin(a)
        return pair[::-1] if swap else pair

    return rotary_tables


_LIN = RoPE(64, layout="interleaved", scaling=LinearScaling(4.0))


def _twice(times):
    inv = _inv(64) / 4.0

    def forward(positions):
        p = np.asarray(positions, np.float64) / 4.0 ** (times - 1)
        return np.cos(p[:, None] * inv), np.sin(p[:, None] * inv)

    return forward


_case(
    "c095",
    "cos_sin",
    _twice(2),
    _LIN,
    "scaled-twice",
    "both the frequencies and the positions are divided by the factor 4, so angles are 16 times too small",
    "divide one of them",
    _twice(1),
)


def chebyshev_rows(positions):
    inv, out = _inv(16), []
    for p in np.asarray(positions).tolist():
        z = np.exp(1j * inv) ** 0
        base, n = np.exp(1j * inv), int(abs(p))
        while n:
            z = z * base if n & 1 else z
            base, n = base * base, n >> 1
        z = z if p >= 0 else z.conj()
        out.append(z * np.exp(1j * np.sign(p) * (abs(p) - int(abs(p))) * inv))
    z = np.array(out).reshape(-1, 8)
    return z.real, z.imag


_right(
    "c096",
    "cos_sin",
    chebyshev_rows,
    RoPE(16, layout="half"),
    "integer positions by repeated squaring of unit complex numbers in float64 (error grows with p like "
    "float64 rounding)",
)

# -- whole models -------------------------------------------------------------------------------


def _deepseek(width, power):
    def scale():
        return width**-0.5 * (0.1 * 1.0 * np.log(40.0) + 1.0) ** power

    return scale


_case(
    "c097",
    "softmax_scale",
    _deepseek(128, 2),
    preset("deepseek-v3"),
    "scale-without-rope-part",
    "the scale is 1/sqrt(128), without the 64 rotary channels of a head: q and k have 192 channels",
    "1/sqrt(192)",
    _deepseek(192, 2),
)
_case(
    "c098",
    "softmax_scale",
    _deepseek(192, 1),
    preset("deepseek-r1"),
    "mscale-not-squared",
    "YaRN's factor 0.1 ln(40) + 1 multiplies the scale once; the logits need its square",
    "square it",
    _deepseek(192, 2),
)
_right(
    "c099",
    "softmax_scale",
    lambda: 1 / np.sqrt(4608 // 32),
    preset("gemma-2-27b"),
    "Gemma 2 27B: hidden_size / num_heads = 144, not head_dim = 128",
)

_TYPES = tuple("nope" if i % 4 == 3 else "rope" for i in range(38))
_MODEL = ModelEncoding(
    "every-fourth", encodings={"rope": RoPE(64, layout="half"), "nope": None}, layer_types=_TYPES
)


def _layers(rule):
    def uses_rope(n_layers):
        return [rule(i) for i in range(n_layers)]

    return uses_rope


_case(
    "c101",
    "layers",
    _layers(lambda i: i % 4 == 3),
    _MODEL.replace(name="flags"),
    "flags-inverted",
    "the flags are inverted: no_rope_layers holds 1 where a layer rotates, and is read as 1 = no rotation",
    "do not negate",
    _layers(lambda i: i % 4 != 3),
)
_right(
    "c102",
    "layers",
    lambda n: np.arange(1, n + 1) % 4 > 0,
    _MODEL,
    "returns a NumPy array of booleans",
)
