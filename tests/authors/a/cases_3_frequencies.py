"""Frequencies, cos/sin tables, several axes, position ids, weights, and facts of whole models."""

import math

import numpy as np

from posenc_ref import (
    DynamicNTK,
    Llama3Scaling,
    LongRoPE,
    MixedRoPE,
    ModelEncoding,
    MultiAxisRoPE,
    NTKByParts,
    Proportional,
    QwenNTK,
    RoPE,
    YaRN,
    preset,
)

CASES = []


def wrong(id, make, encoding, surface, cause, key, remedy, **settings):
    CASES.append(
        dict(
            id=id,
            fn=make(True),
            encoding=encoding,
            surface=surface,
            settings=settings,
            right=False,
            cause=cause,
            cause_key=key,
            remedy=remedy,
            mended=make(False),
        )
    )


def good(id, fn, encoding, surface, cause, **settings):
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


def freqs(d, base=10000.0):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


# --- frequencies ------------------------------------------------------------------------------
def correction(r, d, base, L0):
    return d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))


def yarn_clamp(bug):
    d, base, L0, s = 64, 10000.0, 262144, 4.0
    lo = max(math.floor(correction(32, d, base, L0)), 0)
    hi = min(math.ceil(correction(1, d, base, L0)), (d // 2 if bug else d) - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = freqs(d)
    return lambda: (f * (1 - g) + f / s * g, 0.1 * math.log(s) + 1)


wrong(
    "a070",
    yarn_clamp,
    RoPE(64, layout="half", scaling=YaRN(4.0, 262144)),
    "frequencies",
    "The upper end of YaRN's correction range is clamped to d/2 - 1 = 31 (a pair index) instead of d - 1 = 63: it would be 37, "
    "so the ramp is steeper and the slow pairs are interpolated too much",
    "ramp-clamp-half",
    "clamp at d - 1",
)


def yarn_turns(bug):
    d, L0, s = 128, 4096, 16.0
    f = freqs(d)
    lo, hi = math.floor(correction(32, d, 1e4, L0)), math.ceil(correction(1, d, 1e4, L0))
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    if bug:
        g = 1 - np.clip((L0 * f / (2 * np.pi) - 1) / (32 - 1), 0, 1)
    return lambda: ((1 - g) * f + g * f / s, 0.1 * math.log(s) + 1)


wrong(
    "a071",
    yarn_turns,
    RoPE(128, layout="half", scaling=YaRN(16.0, 4096)),
    "frequencies",
    "The ramp is linear in the number of turns, as in the paper's formula, instead of in the index of the pair, as in YaRN's "
    "code: frequencies in the middle differ",
    "ramp-in-turns",
    "interpolate over the pair index between floor and ceil",
)


def no_two_pi(bug):
    f, L0 = freqs(64, 500000.0), 8192
    wavelen = (1 if bug else 2 * math.pi) / f
    smooth = (L0 / wavelen - 1) / (4 - 1)
    w = np.where(
        wavelen > L0 / 1, f / 32, np.where(wavelen < L0 / 4, f, (1 - smooth) * f / 32 + smooth * f)
    )
    return lambda: w


wrong(
    "a072",
    no_two_pi,
    RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(32.0, 1.0, 4.0, 8192)),
    "frequencies",
    "The wavelength is 1/f instead of 2 pi / f, so both thresholds of the Llama 3 scaling lie at 2 pi times lower frequencies "
    "and slower pairs are kept",
    "wavelength-two-pi",
    "wavelen = 2 pi / f",
)


def parts(bug):
    d, L0, s, base = 64, 2048, 8.0, 10000.0
    f, k = freqs(d), np.arange(d // 2)
    n = f / s ** (2 * k / (d - 2))

    def ramp(a, b):
        lo = max(math.floor(correction(a, d, base, L0)), 0)
        hi = min(math.ceil(correction(b, d, base, L0)), d - 1)
        return np.clip((k - lo) / (hi - lo if hi > lo else 0.001), 0, 1)

    b, c = ramp(1.25, 0.75), ramp(16, 2)
    if bug:
        b, c = c, b
    return lambda: (1 - c) * f + c * ((1 - b) * n + b * f / s)


wrong(
    "a073",
    parts,
    RoPE(64, layout="half", scaling=NTKByParts(8.0, 2048)),
    "frequencies",
    "The two ramps are exchanged: the gamma pair (16, 2) blends NTK with linear and the beta pair (1.25, 0.75) blends plain with "
    "the rest",
    "ramps-exchanged",
    "use gamma for the step from plain, beta for the step to linear",
)


def dyn_alpha(bug):
    d, s, L0 = 64, 4.0, 512

    def fn(seq_len):
        n = max(int(seq_len), L0)
        alpha = (s * n / L0) - (s if bug and n > L0 else s - 1)
        return freqs(d, 10000.0 * alpha ** (d / (d - 2)))

    return fn


wrong(
    "a074",
    dyn_alpha,
    RoPE(64, layout="half", scaling=DynamicNTK(4.0, 512)),
    "frequencies",
    "Beyond 512 tokens alpha is factor * L / 512 - factor instead of - (factor - 1): it is 1 too small (and near 0 just beyond)",
    "alpha-minus-factor",
    "subtract factor - 1",
)


def long_lists(bug):
    sh, lg, L0 = tuple(1 + k / 64 for k in range(32)), tuple(1 + k * 1.3 for k in range(32)), 4096
    m = math.sqrt(1 + math.log(32) / math.log(L0))

    def fn(seq_len):
        ext = (sh if seq_len > L0 else lg) if bug else (lg if seq_len > L0 else sh)
        return freqs(64) / np.array(ext), m

    fn.enc = RoPE(64, layout="half", scaling=LongRoPE(sh, lg, L0, factor=32.0))
    return fn


wrong(
    "a075",
    long_lists,
    long_lists(False).enc,
    "frequencies",
    "short_factor and long_factor are exchanged: lengths up to 4096 use the long list and longer ones the short list",
    "lists-exchanged",
    "use long_factor beyond original_max_position",
)


def qwen(bug):
    d, L0 = 128, 2048

    def fn(seq_len):
        e = math.log2(seq_len / L0) + 1
        alpha = max(2 ** (round(e) if bug else math.ceil(e)) - 1, 1)
        return freqs(d, 10000.0 * alpha ** (d / (d - 2)))

    return fn


wrong(
    "a076",
    qwen,
    RoPE(128, layout="half", scaling=QwenNTK(2048)),
    "frequencies",
    "The exponent of Qwen's alpha is rounded to the nearest integer instead of up: lengths just above 2048, 4096, ... still use "
    "the alpha of the step below",
    "round-for-ceil",
    "use ceil(log2(L / train_length) + 1)",
)


def p_rope(bug):
    d, n = 128, 32
    w = np.zeros(d // 2)
    w[:n] = 1e6 ** (-np.arange(n) / (n if bug else d // 2))
    return lambda: w


wrong(
    "a077",
    p_rope,
    RoPE(128, layout="half", base=1e6, scaling=Proportional(0.5)),
    "frequencies",
    "The exponents are fractions of the 64 channels that turn (as in partial rotary) instead of the 128 of the head, so the 32 "
    "turning pairs fall twice as fast",
    "exponent-of-rotated-part",
    "divide by head_dim",
)


def decimal_free():
    w = [1.0]
    r = 10000.0 ** (-2 / 64)
    for k in range(31):
        w.append(10000.0 ** (-(k + 1) / 32) if k % 2 else w[-1] * r)
    return np.array(w)


good(
    "a078",
    decimal_free,
    RoPE(64, layout="half"),
    "frequencies",
    "every second frequency is a running product of the one before",
)
good(
    "a079",
    lambda: (
        1.0 / np.float32(500000.0) ** (np.arange(0, 128, 2, dtype=np.float32) / np.float32(128))
    ),
    RoPE(128, layout="interleaved", base=500000.0),
    "frequencies",
    "computed wholly in float32, as a library's inv_freq buffer",
)


# --- cos and sin ------------------------------------------------------------------------------
def pythagoras(bug):
    def fn(positions):
        t = np.asarray(positions, np.float64)[:, None] * freqs(64)
        c = np.cos(t)
        s = np.sqrt(np.maximum(0, 1 - c * c)) if bug else np.sin(t)
        return c, s

    return fn


wrong(
    "a080",
    pythagoras,
    RoPE(64, layout="half"),
    "cos_sin",
    "sin is sqrt(1 - cos**2), which is never negative: it has the wrong sign for angles between pi and 2 pi",
    "sin-unsigned",
    "compute sin of the angle",
)


def repeat_half(bug):
    def fn(positions):
        t = np.asarray(positions, np.float64)[:, None] * freqs(64, 500000.0)
        t = np.repeat(t, 2, -1) if bug else np.concatenate([t, t], -1)
        return np.cos(t).astype(np.float32), np.sin(t).astype(np.float32)

    return fn


wrong(
    "a081",
    repeat_half,
    RoPE(64, layout="half", base=500000.0),
    "cos_sin",
    "The (S, d) table repeats every angle twice (w0 w0 w1 w1 ...), which fits adjacent pairs; half-split pairs need "
    "(w0 w1 ... w0 w1 ...)",
    "table-for-other-layout",
    "concatenate the angles with themselves",
)


def subsampled(bug):
    w = freqs(32)

    def fn(positions):
        p = np.asarray(positions, np.float64)
        t = p[:, None] * w
        if bug:
            lo = 2 * np.floor(p / 2)
            f = ((p - lo) / 2)[:, None]
            a, b = lo[:, None] * w, (lo + 2)[:, None] * w
            return (1 - f) * np.cos(a) + f * np.cos(b), (1 - f) * np.sin(a) + f * np.sin(b)
        return np.cos(t), np.sin(t)

    return fn


wrong(
    "a082",
    subsampled,
    RoPE(32, layout="half"),
    "cos_sin",
    "The table holds even positions only; odd positions are the mean of the two neighbours, so cos and sin there are "
    "multiplied by cos(theta), 0.54 for the fastest pair",
    "odd-positions-interpolated",
    "store every position",
)


def half_table(bug):
    def fn(positions):
        t = np.asarray(positions, np.float64)[:, None] * freqs(64)
        kind = np.float16 if bug else np.float32
        return np.cos(t).astype(kind).astype(np.float32), np.sin(t).astype(kind).astype(np.float32)

    return fn


wrong(
    "a083",
    half_table,
    RoPE(64, layout="half"),
    "cos_sin",
    "cos and sin are stored in float16 and widened to float32: they have 11 significant bits, an error of up to 2.4e-4",
    "tables-float16",
    "store the tables in float32",
)


def doubling(positions):
    t = np.asarray(positions, np.float64)[:, None] * freqs(64)
    h = np.fmod(t, 2 * np.pi) / 2
    c, s = np.cos(h), np.sin(h)
    return (c - s) * (c + s), 2 * s * c


good(
    "a084",
    doubling,
    RoPE(64, layout="half"),
    "cos_sin",
    "double-angle formulas of half the reduced angle",
)


# --- several axes -----------------------------------------------------------------------------
def by_axis(x, positions, axis, w, layout="half", per_axis=None):
    """Turn pair j of x by p[axis[j]] * w[j]; (S,) positions hold for all axes."""
    p = np.asarray(positions, np.float64)
    A = int(max(axis)) + 1
    if p.ndim == 1:
        p = np.stack([p] * A)
    t = np.stack([p[a] * f for a, f in zip(axis, w)], -1)
    t = t[:, None] if t.ndim == 3 and x.ndim == 4 else t
    n = t.shape[-1]
    v = x.astype(np.float64)
    i, j = (
        (np.arange(n), np.arange(n) + n)
        if layout == "half"
        else (2 * np.arange(n), 2 * np.arange(n) + 1)
    )
    y = v.copy()
    y[..., i], y[..., j] = (
        v[..., i] * np.cos(t) - v[..., j] * np.sin(t),
        v[..., j] * np.cos(t) + v[..., i] * np.sin(t),
    )
    return y.astype(x.dtype)


def mrope_cycle(bug):
    sec = (16, 24, 24)
    axis = np.repeat([0, 1, 2], sec)
    if bug:  # chunks of 16, 24, 24 channels, taken modulo 3 over the doubled list, but cut in d/2
        axis = np.concatenate(
            [np.repeat([0, 1, 2], (8, 12, 12)), np.repeat([0, 1, 2], (8, 12, 12))]
        )
    return lambda x, p: by_axis(x, p, axis, freqs(128, 1e6))


wrong(
    "a085",
    mrope_cycle,
    MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6),
    "apply",
    "The sections are halved and repeated: pairs follow t, h, w, t, h, w in blocks of 8, 12, 12 instead of t, h, w in blocks of "
    "16, 24, 24, so most pairs have another axis; text, where the axes agree, is right",
    "sections-halved-repeated",
    "take sections as numbers of pairs, once",
)


def hw_swap(bug):
    sec = (24, 20, 20)
    axis = np.zeros(64, int)
    for a in (1, 2):
        axis[a : 3 * sec[a] : 3] = 3 - a if bug else a
    return lambda x, p: by_axis(x, p, axis, freqs(128, 5e6))


wrong(
    "a086",
    hw_swap,
    MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6),
    "apply",
    "Height and width are exchanged: pairs 1, 4, 7, ... turn by the column and pairs 2, 5, 8, ... by the row; time is right",
    "height-width-exchanged",
    "interleave axes in the order t, h, w",
)


def second_axis(bug):
    n = 16
    w = np.concatenate([freqs(2 * n), freqs(4 * n)[n:] if bug else freqs(2 * n)])
    return lambda x, p: by_axis(x, p, [0] * n + [1] * n, w, "interleaved")


wrong(
    "a087",
    second_axis,
    MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart"),
    "apply",
    "The frequencies of the columns do not start again at 1: pairs 16 to 31 continue the series of a 64-channel head (0.01 and "
    "slower); the rows are right",
    "second-axis-continues",
    "restart the frequencies for every axis",
)


def only_time(bug):
    axis = np.repeat([0, 1, 2], (8, 12, 12))

    def fn(x, p):
        p = np.asarray(p)
        if bug and p.ndim > 1:
            p = np.stack([p[0]] * 3)
        return by_axis(x, p, axis, freqs(64))

    return fn


wrong(
    "a088",
    only_time,
    MultiAxisRoPE(64, sections=(8, 12, 12), layout="half"),
    "apply",
    "All pairs follow the time axis; rows and columns of an image are ignored, text is right",
    "time-for-all-axes",
    "select height and width for their sections",
)


def one_offset(bug):
    n = 16

    def fn(x, p):
        p = np.asarray(p, np.float64)
        p = np.stack([p, p]) if p.ndim == 1 else p
        off = np.array([1.0, 0.0 if bug else 1.0]).reshape(-1, *[1] * (p.ndim - 1))
        return by_axis(x, p + off, [0] * n + [1] * n, np.tile(freqs(2 * n), 2), "interleaved")

    return fn


wrong(
    "a089",
    one_offset,
    MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart", offset=1.0),
    "apply",
    "The offset 1 is added to the row only; columns start at 0 instead of 1",
    "offset-on-one-axis",
    "add the offset to both axes",
)

RNG = np.random.default_rng(7)
WEIGHT = np.abs(RNG.normal(0.4, 0.3, (2, 12)))


def mixed(bug, kind):
    def fn(x, p):
        p = np.asarray(p, np.float64)
        p = np.stack([p, p]) if p.ndim == 1 else p
        a, b = p[0][..., None] * WEIGHT[0], p[1][..., None] * WEIGHT[1]
        if bug and kind == "axes":
            a, b = p[0][..., None] * WEIGHT[1], p[1][..., None] * WEIGHT[0]
        c, s = np.cos(a + b), np.sin(a + b)
        if bug and kind == "product":
            c = np.cos(a) * np.cos(b)
        t = (c[:, None], s[:, None]) if c.ndim == 3 and x.ndim == 4 else (c, s)
        u, v = x[..., :24:2].astype(np.float64), x[..., 1:24:2].astype(np.float64)
        y = x.astype(np.float64)
        y[..., :24:2], y[..., 1:24:2] = u * t[0] - v * t[1], v * t[0] + u * t[1]
        return y.astype(x.dtype)

    return fn


wrong(
    "a090",
    lambda b: mixed(b, "axes"),
    MixedRoPE(24, WEIGHT, layout="interleaved"),
    "apply",
    "The learned weights of the two axes are exchanged: the first coordinate is multiplied by the second row of weights and "
    "the second by the first",
    "weight-rows-exchanged",
    "multiply p[a] by weight[a]",
)
wrong(
    "a091",
    lambda b: mixed(b, "product"),
    MixedRoPE(24, WEIGHT, layout="interleaved"),
    "apply",
    "cos of the sum of the two angles is taken as cos a cos b (the term - sin a sin b is missing); it is right only where one "
    "coordinate is 0",
    "cos-sum-formula",
    "use cos(a) cos(b) - sin(a) sin(b)",
)


def mixed_two_turns(x, p):
    p = np.asarray(p, np.float64)
    p = np.stack([p, p]) if p.ndim == 1 else p
    z = np.exp(1j * p[0][..., None] * WEIGHT[0]) * np.exp(1j * p[1][..., None] * WEIGHT[1])
    z = z[:, None] if z.ndim == 3 and x.ndim == 4 else z
    c = (x[..., :12].astype(np.float64) + 1j * x[..., 12:]) * z
    return np.concatenate([c.real, c.imag], -1).astype(x.dtype)


good(
    "a092",
    mixed_two_turns,
    MixedRoPE(24, WEIGHT, layout="half"),
    "apply",
    "two complex rotations in turn, one for each axis",
)
good(
    "a093",
    lambda x, p: by_axis(
        x,
        p,
        [j % 2 for j in range(32)],
        np.array([1e4 ** (-j / 32) for j in range(32)]),
        "interleaved",
    ),
    MultiAxisRoPE(
        64, sections=(16, 16), layout="interleaved", arrangement="interleaved", spacing="strided"
    ),
    "apply",
    "Pixtral: row and column alternate from pair to pair over one series of frequencies",
)


# --- position ids -----------------------------------------------------------------------------
def left_only(bug):
    def fn(mask):
        m = np.asarray(mask).astype(np.int64)
        if bug:
            return np.maximum(np.arange(m.shape[1]) - (m.shape[1] - m.sum(1, keepdims=True)), 0)
        return np.maximum(np.cumsum(m, 1) - 1, 0)

    return fn


wrong(
    "a094",
    left_only,
    None,
    "position_ids",
    "The number of padding tokens is subtracted from every position, as if all padding were on the left; rows with padding on "
    "the right (or in the middle) have positions that are too small",
    "padding-assumed-left",
    "count with cumsum(mask) - 1",
)


def packed_bug(bug):
    def fn(lengths):
        out = []
        for i, n in enumerate(np.asarray(lengths).tolist()):
            first = 1 if bug and i else 0  # the separator is taken to be token 0
            out += list(range(first, first + n))
        return np.array(out, np.int64)

    return fn


wrong(
    "a095",
    packed_bug,
    None,
    "packed",
    "Every document after the first starts at position 1 instead of 0",
    "documents-start-at-1",
    "start every document at 0",
)


def rank_chunks(bug):
    def fn(cu, size, rank):
        out = []
        for a, b in zip(cu[:-1], cu[1:]):
            c = (int(b) - int(a)) // (2 * size)
            last = rank + size if bug else 2 * size - 1 - rank
            out += [*range(rank * c, (rank + 1) * c), *range(last * c, (last + 1) * c)]
        return np.array(out, np.int64)

    return fn


wrong(
    "a096",
    rank_chunks,
    None,
    "shard_positions",
    "The second chunk of a rank is cp_rank + cp_size instead of the mirrored chunk 2 cp_size - 1 - cp_rank: positions of the "
    "second halves are those of another rank",
    "second-chunk-not-mirrored",
    "use chunk 2 * cp_size - 1 - cp_rank",
)


def next_pos(bug):
    def fn(prompt_len, n):
        p = np.asarray(prompt_len)
        base = p.max() if bug and p.ndim else p
        return (
            np.asarray(base)[..., None] + np.arange(n)
            if np.ndim(base)
            else np.broadcast_to(base + np.arange(n), (*p.shape, n)).copy()
        )

    return fn


wrong(
    "a097",
    next_pos,
    None,
    "decode_positions",
    "In a batch, generated tokens of every row start at the longest prompt's length instead of at the row's own number of real "
    "tokens; a single prompt is right",
    "longest-prompt",
    "start at prompt_len[b] in row b",
)
good(
    "a098",
    lambda lengths: (lambda n: np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n))(
        np.asarray(lengths, np.int64)
    ),
    None,
    "packed",
    "a global counter minus the start of each document",
)


# --- weights and models -----------------------------------------------------------------------
def permute(bug):
    def fn(w, n_heads):
        d = w.shape[0] // n_heads
        tail = w.shape[1:]
        if bug:
            return w.reshape(n_heads, d // 2, 2, *tail).swapaxes(1, 2).reshape(w.shape)
        return w.reshape(n_heads, 2, d // 2, *tail).swapaxes(1, 2).reshape(w.shape)

    return fn


wrong(
    "a099",
    permute,
    None,
    "permute_weights",
    "The inverse permutation: rows are moved from interleaved to half-split instead of from half-split to interleaved",
    "inverse-permutation",
    "view as (heads, 2, d/2) and swap",
)


def one_head(bug):
    def fn(w, n_heads):
        n = 1 if bug else n_heads
        return np.concatenate(
            [
                np.stack([h[: len(h) // 2], h[len(h) // 2 :]], 1).reshape(h.shape)
                for h in np.split(w, n)
            ]
        )

    return fn


wrong(
    "a100",
    one_head,
    None,
    "permute_weights",
    "All rows are treated as one head: channel pairs come from different heads unless there is one head only",
    "heads-ignored",
    "permute within each head",
)
DS = preset("deepseek-v3")
SM3 = ModelEncoding(
    "smollm3",
    encodings={"rope": RoPE(128, layout="half", base=5e6), "nope": None},
    layer_types=("rope", "rope", "rope", "nope") * 9,
)


def scale_once(bug):
    g = 0.1 * math.log(40.0) + 1
    return lambda: 192**-0.5 * (g if bug else g * g)


wrong(
    "a101",
    scale_once,
    DS,
    "softmax_scale",
    "DeepSeek's factor g = 0.1 ln(40) + 1 is on the softmax scale once instead of squared",
    "mscale-not-squared",
    "multiply 1/sqrt(192) by g squared",
)


def nope(bug):
    return lambda n: [(i % 4 != 0) if bug else ((i + 1) % 4 != 0) for i in range(n)]


wrong(
    "a102",
    nope,
    SM3,
    "layers",
    "Layers 0, 4, 8, ... have no positional encoding instead of layers 3, 7, 11, ...: i % 4 for (i + 1) % 4",
    "nope-layers-off-by-one",
    "test (i + 1) % 4",
)
