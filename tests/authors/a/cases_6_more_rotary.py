"""More rotary: torch and half precision, tensor layouts, rare inputs, rare places, more scalings."""

import math

import numpy as np
import torch

from posenc_ref import LongRoPE, MultiAxisRoPE, Proportional, RoPE, YaRN

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


def turn(x, p, w, layout="half", mc=1.0, ms=1.0):
    t = np.asarray(p, np.float64)[..., None] * w
    t = t[:, None] if t.ndim == 3 and x.ndim == 4 else t
    c, s = mc * np.cos(t), ms * np.sin(t)
    v, n = x.astype(np.float64), x.shape[-1] // 2
    a, b = (v[..., :n], v[..., n:]) if layout == "half" else (v[..., ::2], v[..., 1::2])
    y, z = a * c - b * s, b * c + a * s
    return (
        np.concatenate([y, z], -1) if layout == "half" else np.stack([y, z], -1).reshape(x.shape)
    ).astype(x.dtype)


HALF, INTER = RoPE(64, layout="half"), RoPE(64, layout="interleaved")


# --- torch ------------------------------------------------------------------------------------
def torch_rope(bug, kind, d=64):
    def fn(x, positions):
        p = positions if torch.is_tensor(positions) else torch.as_tensor(np.asarray(positions))
        inv = 1.0 / (10000.0 ** (torch.arange(0, d, 2, dtype=torch.float64) / d))
        if bug and kind == "pos":
            p = p.to(x.dtype)  # model.to(bfloat16) reached the positions
        t = p.to(torch.float64)[..., None] * inv
        t = t[:, None] if t.ndim == 3 and x.ndim == 4 else t
        c, s = t.cos(), t.sin()
        out = x if bug and kind == "inplace" else x.clone()
        a, b = x[..., 0::2].double(), x[..., 1::2].double()
        out[..., 0::2] = (a * c - b * s).to(x.dtype)
        out[..., 1::2] = (b * c + a * s).to(x.dtype)
        return out

    return fn


wrong(
    "a174",
    lambda b: torch_rope(b, "pos"),
    INTER,
    "apply",
    "Positions are cast to x's dtype bfloat16 before the product: positions above 256 are rounded to 8 bits, so neighbouring tokens "
    "share an angle",
    "positions-bf16",
    "compute angles from float32 or integer positions",
    backend="torch",
    dtype="bfloat16",
)
wrong(
    "a175",
    lambda b: torch_rope(b, "inplace"),
    INTER,
    "apply",
    "The result is right, but the input x is overwritten with it although the function is not declared to work in place",
    "input-overwritten",
    "write to a new tensor",
    backend="torch",
)


def hf_torch(x, positions):
    p = torch.as_tensor(positions).to(torch.float32)
    inv = 1.0 / (500000.0 ** (torch.arange(0, 128, 2, dtype=torch.int64).float() / 128))
    t = p[..., None] * inv
    emb = torch.cat([t, t], -1)
    emb = emb[:, None] if emb.ndim == 3 and x.ndim == 4 else emb
    a, b = x.float().chunk(2, -1)
    return (x.float() * emb.cos() + torch.cat([-b, a], -1) * emb.sin()).to(x.dtype)


good(
    "a176",
    hf_torch,
    RoPE(128, layout="half", base=500000.0),
    "apply",
    "torch in float32, rounded once to bfloat16",
    backend="torch",
    dtype="bfloat16",
)


def bf16_tables(x, positions):
    p = torch.as_tensor(positions).to(torch.float32)
    t = p[..., None] * (1.0 / (10000.0 ** (torch.arange(0, 64, 2).float() / 64)))
    emb = torch.cat([t, t], -1)
    emb = emb[:, None] if emb.ndim == 3 and x.ndim == 4 else emb
    c, s = emb.cos().to(x.dtype), emb.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return x * c + torch.cat([-b, a], -1) * s


good(
    "a177",
    bf16_tables,
    HALF,
    "apply",
    "transformers' way: cos and sin rounded to bfloat16 and products in bfloat16, declared by "
    "precision",
    backend="torch",
    dtype="bfloat16",
    precision="bfloat16",
)


# --- tensor layouts ---------------------------------------------------------------------------
def bshd(bug):
    w = freqs(64)

    def fn(x, positions):
        B, S, H, D = x.shape
        p = np.asarray(positions)
        if bug and p.ndim == 1:
            return turn(x, np.resize(p, H), w)  # broadcasts along the last axis but one
        p = np.broadcast_to(p, (B, S))
        return turn(x.swapaxes(1, 2), p, w).swapaxes(1, 2)

    return fn


wrong(
    "a178",
    bshd,
    HALF,
    "apply",
    "In the layout (B, S, H, D) the tables are broadcast along the head axis: head h of every token has the position of token h",
    "axis-heads-for-tokens",
    "insert the head axis into the tables",
    tensor_layout="bshd",
)
good(
    "a179",
    lambda x, p: np.moveaxis(turn(np.moveaxis(x, 0, 1), p, freqs(64)), 1, 0),
    HALF,
    "apply",
    "tokens and heads of a packed (T, H, D) tensor exchanged, rotated and exchanged back",
    tensor_layout="thd",
)


# --- positions of rare kinds ------------------------------------------------------------------
def rare(bug, kind, layout="half", w=None):
    w = freqs(64) if w is None else w

    def fn(x, positions):
        p = np.asarray(positions)
        if bug:
            if kind == "negative":
                p = np.maximum(p, 0)
            elif kind == "fraction":
                p = np.trunc(p)
            elif kind == "row0" and p.ndim == 2:
                p = p[0]
            elif kind == "slice" and p.ndim == 1 and p.size:
                p = p[0] + np.arange(p.size)
            elif kind == "uint16" and p.dtype.kind in "iu":
                p = np.where(p >= 0, p & 0xFFFF, p)
            elif kind == "chunk1024":
                n = np.arange(p.shape[-1])
                p = np.where(n >= 1024, np.take(p, n - 1024 * (n >= 1024), -1), p)
        return turn(x, p, w, layout)

    return fn


wrong(
    "a180",
    lambda b: rare(b, "negative"),
    HALF,
    "apply",
    "Negative positions are clamped to 0; all others are right",
    "negative-clamped",
    "accept negative positions, or refuse them",
)
wrong(
    "a181",
    lambda b: rare(b, "fraction"),
    HALF,
    "apply",
    "Fractional positions are truncated to integers (position 2.5 has the angle of 2)",
    "fraction-truncated",
    "keep positions as floats",
)
wrong(
    "a182",
    lambda b: rare(b, "row0", "interleaved"),
    INTER,
    "apply",
    "Positions (B, S) are read from row 0 for all rows of the batch; shared positions are right",
    "positions-of-row-0",
    "index positions by the batch row",
)
wrong(
    "a183",
    lambda b: rare(b, "slice"),
    HALF,
    "apply",
    "The table is sliced from the first position on, p[0] .. p[0] + S - 1, so positions with gaps, repeats or in another order "
    "are wrong",
    "contiguous-assumed",
    "gather rows by position",
)
wrong(
    "a184",
    lambda b: rare(b, "uint16", w=freqs(64, 1e6)),
    RoPE(64, layout="half", base=1e6),
    "apply",
    "Positions are stored as uint16: from 65536 on they wrap round to position mod 65536",
    "uint16-wrap",
    "store them as int32",
)
wrong(
    "a185",
    lambda b: rare(b, "chunk1024", "interleaved"),
    INTER,
    "apply",
    "In calls of more than 1024 tokens, token 1024 + n is rotated by the position of token n: the position block is not advanced",
    "second-1024-block",
    "advance positions with the block of tokens",
)


# --- rare places ------------------------------------------------------------------------------
def exact_tiles(bug, T=16):
    w = freqs(64)

    def fn(x, positions):
        S = x.shape[-2]
        p = np.asarray(positions)
        y = x.copy()
        full = S - S % T
        last = full - T if bug and S % T == 0 and S > T else full
        for s in range(0, last, T):
            y[..., s : s + T, :] = turn(x[..., s : s + T, :], p[..., s : s + T], w)
        if S % T:
            y[..., full:, :] = turn(x[..., full:, :], p[..., full:], w)
        return y

    return fn


wrong(
    "a186",
    exact_tiles,
    HALF,
    "apply",
    "If the number of tokens is a multiple of 16 and more than 16, the last 16 tokens are not rotated: the loop ends before the last "
    "full tile, which only the remainder code would cover",
    "last-full-tile",
    "loop over all full tiles",
)


def last_pair(bug):
    w = freqs(64).copy()
    if bug:
        w[-1] = 0
    return lambda x, p: turn(x, p, w)


wrong(
    "a187",
    last_pair,
    HALF,
    "apply",
    "The last pair (channels 31 and 63) is not rotated: the loop over pairs ends one early",
    "last-pair-unrotated",
    "loop over all d/2 pairs",
)


def endpoint(bug):
    w = 10000.0 ** -(np.linspace(0, 1, 32) if bug else np.linspace(0, 1, 32, endpoint=False))
    return lambda x, p: turn(x, p, w, "interleaved")


wrong(
    "a188",
    endpoint,
    INTER,
    "apply",
    "The exponents run from 0 to 1 inclusive (linspace with the end point, k/31) instead of k/32: all frequencies but the first are "
    "too low",
    "exponent-endpoint",
    "use 2k/d",
)


def to_tf32(v):
    b = np.asarray(v, np.float32).view(np.uint32)
    return (
        ((b + 0xFFF + ((b >> 13) & 1)) & 0xFFFFE000)
        .astype(np.uint32)
        .view(np.float32)
        .astype(np.float64)
    )


def tf32(bug):
    w = freqs(64, 500000.0)

    def fn(x, positions):
        p = np.asarray(positions, np.float64)
        if not bug:
            return turn(x, p, w)
        t = to_tf32(p)[..., None] * to_tf32(w)
        t = t[:, None] if t.ndim == 3 and x.ndim == 4 else t
        a, b = np.split(x.astype(np.float64), 2, -1)
        return np.concatenate(
            [a * np.cos(t) - b * np.sin(t), b * np.cos(t) + a * np.sin(t)], -1
        ).astype(x.dtype)

    return fn


wrong(
    "a189",
    tf32,
    RoPE(64, layout="half", base=500000.0),
    "apply",
    "The outer product of positions and frequencies is a TF32 matrix product: both factors are rounded to 11 bits, so angles have a "
    "relative error of up to 5e-4 from each",
    "angles-tf32",
    "disable TF32 for this product",
)


def fixed_point(bug):
    w = freqs(64)

    def fn(positions):
        t = np.asarray(positions, np.float64)[:, None] * w
        c, s = np.cos(t), np.sin(t)
        return (np.round(c * 32767) / 32767, np.round(s * 32767) / 32767) if bug else (c, s)

    return fn


wrong(
    "a190",
    fixed_point,
    HALF,
    "cos_sin",
    "cos and sin are stored as 16-bit fixed point numbers (steps of 1/32767): an error of up to 1.5e-5 everywhere",
    "tables-fixed-point",
    "store float32",
)


def no_m(bug):
    e = RoPE(64, layout="half", scaling=YaRN(8.0, 2048))
    w, m = e.frequencies(), 1.0 if bug else 0.1 * math.log(8.0) + 1

    def fn(positions):
        t = np.asarray(positions, np.float64)[:, None] * w
        return m * np.cos(t), m * np.sin(t)

    return fn


wrong(
    "a191",
    no_m,
    RoPE(64, layout="half", scaling=YaRN(8.0, 2048)),
    "cos_sin",
    "YaRN's attention factor 1.208 is missing from cos and sin; the frequencies are right",
    "m-missing",
    "multiply both by m",
)


def mqa(bug):
    w = freqs(64)

    def fn(q, k, qp, kp):
        y = turn(k, kp, w)
        if bug:
            y[:, 1:] = k[:, 1:]  # written for multi-query attention
        return turn(q, qp, w), y

    return fn


wrong(
    "a192",
    mqa,
    HALF,
    "apply_qk",
    "Only key head 0 is rotated; further key heads are returned unchanged. Queries are right",
    "key-head-0-only",
    "rotate all key heads",
)


# --- more scalings ----------------------------------------------------------------------------
def yarn_freqs(d, base, L0, s, truncate):
    def c(r):
        return d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))

    lo, hi = c(32), c(1)
    if truncate:
        lo, hi = math.floor(lo), math.ceil(hi)
    lo, hi = max(lo, 0), min(hi, d - 1)
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = freqs(d, base)
    return f * (1 - g) + f / s * g


def oss(bug):
    w, m = yarn_freqs(64, 150000.0, 4096, 32.0, bug), 0.1 * math.log(32.0) + 1
    return lambda x, p: turn(x, p, w, "half", m, m)


wrong(
    "a193",
    oss,
    RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)),
    "apply",
    "The ends of the ramp are rounded to whole pairs although truncate is False (gpt-oss): the frequencies of the pairs in the ramp "
    "are off",
    "truncate-ignored",
    "do not floor and ceil the correction range",
)


def wrong_length(bug):
    w, m = yarn_freqs(128, 10000.0, 65536 if bug else 4096, 16.0, True), 0.1 * math.log(16.0) + 1
    return lambda: (w, m)


wrong(
    "a194",
    wrong_length,
    RoPE(128, layout="half", scaling=YaRN(16.0, 4096)),
    "frequencies",
    "The correction range uses the extended length 65536 (max_position_embeddings) instead of the trained 4096, so the ramp is "
    "shifted to slower pairs",
    "ramp-extended-length",
    "use original_max_position_embeddings",
)


def deepseek_m(bug):
    w, m = yarn_freqs(64, 10000.0, 4096, 40.0, True), (0.1 * math.log(40.0) + 1 if bug else 1.0)
    return lambda x, p: turn(x, p, w, "interleaved", m, m)


wrong(
    "a195",
    deepseek_m,
    RoPE(64, layout="interleaved", scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)),
    "apply",
    "cos and sin are multiplied by g(1) = 1.369; with mscale = mscale_all_dim the factor is g/g = 1",
    "mscale-all-dim-ignored",
    "divide by g(mscale_all_dim)",
)
S32, L32 = tuple(1 + 0.05 * k for k in range(32)), tuple(2 + 0.9 * k for k in range(32))


def long_m(bug):
    m = math.sqrt(1 + math.log(4) / math.log(512))

    def fn(x, positions):
        big = int(np.max(positions, initial=0)) + 1 > 512
        f = m if big or not bug else 1.0
        return turn(x, positions, freqs(64) / np.array(L32 if big else S32), "half", f, f)

    return fn


wrong(
    "a196",
    long_m,
    RoPE(64, layout="half", scaling=LongRoPE(S32, L32, 512, factor=4.0)),
    "apply",
    "The attention factor 1.106 is applied only beyond 512 tokens; it belongs to short contexts too",
    "m-long-only",
    "multiply by m at every length",
)


def leading(bug):
    d, n = 64, 16
    w = 1e6 ** (-np.arange(n) / (d // 2))

    def fn(x, p):
        if not bug:
            return turn(x, p, np.concatenate([w, np.zeros(d // 2 - n)]))
        return np.concatenate([turn(x[..., : 2 * n], p, w), x[..., 2 * n :]], -1)

    return fn


wrong(
    "a197",
    leading,
    RoPE(64, layout="half", base=1e6, scaling=Proportional(0.5)),
    "apply",
    "Pairs are (k, k + 16) in the leading 32 channels, as in partial rotary, instead of (k, k + 32) across the whole head",
    "proportional-as-partial",
    "pair channels across the head and leave the slow pairs at angle 0",
)


def blockwise(bug):
    sec = (10, 6)
    w = np.concatenate([freqs(20), freqs(12)])
    axis = np.repeat([0, 1], sec)
    first = np.concatenate([np.arange(10), 20 + np.arange(6)])
    i, j = (np.arange(16), np.arange(16) + 16) if bug else (first, first + np.array(sec)[axis])

    def fn(x, p):
        p = np.asarray(p, np.float64)
        p = np.stack([p, p]) if p.ndim == 1 else p
        t = np.moveaxis(p[axis], 0, -1) * w
        t = t[:, None] if t.ndim == 3 and x.ndim == 4 else t
        y = x.astype(np.float64)
        a, b = y[..., i].copy(), y[..., j].copy()
        y[..., i], y[..., j] = a * np.cos(t) - b * np.sin(t), b * np.cos(t) + a * np.sin(t)
        return y.astype(x.dtype)

    return fn


wrong(
    "a198",
    blockwise,
    MultiAxisRoPE(32, sections=(10, 6), layout="blockwise", spacing="restart"),
    "apply",
    "Partners are 16 channels apart across the whole head instead of half-split within the block of each axis",
    "halves-of-head-for-blocks",
    "split the channels by axis first, then in halves",
)


# --- further surfaces -------------------------------------------------------------------------
def cum_trick(bug):
    def fn(lengths):
        n = np.asarray(lengths, np.int64)
        if not bug:
            n = n[n > 0]
        out = np.ones(int(n.sum()), np.int64)
        if not out.size:
            return out
        starts = np.cumsum(n)[:-1]
        inside = starts < out.size
        out[0] = 0
        out[starts[inside]] = 1 - n[:-1][inside]
        return np.cumsum(out)

    return fn


wrong(
    "a199",
    cum_trick,
    None,
    "packed",
    "Empty documents break the counter: the reset of the document before an empty one is overwritten, so the next document does not "
    "start at 0; batches without empty documents are right",
    "empty-documents",
    "drop documents of length 0 first",
)
good(
    "a200",
    lambda mask: np.where(np.asarray(mask) == 0, 1, np.cumsum(np.asarray(mask), 1) - 1),
    None,
    "position_ids",
    "transformers 4: padding tokens get position 1, which no attention sees",
)
good(
    "a201",
    lambda k, delta: (lambda c: np.concatenate([c.real, c.imag], -1).astype(k.dtype))(
        (k[..., :32].astype(np.float64) + 1j * k[..., 32:])
        * np.exp(1j * np.asarray(delta, np.float64)[..., None] * freqs(64))
    ),
    HALF,
    "shift_keys",
    "one complex factor for all keys",
)


def normed(x, weight, positions):
    v = x.astype(np.float64)
    v = v / np.sqrt((v**2).sum(-1, keepdims=True) / 64 + 1e-6) * weight
    return turn(v, positions, freqs(64), "interleaved").astype(x.dtype)


good("a202", normed, INTER, "normed_apply", "float64 throughout, one rounding at the end")


def single_late(bug):
    w = freqs(64)

    def fn(x, chunks):
        out, at = [], 0
        for n in chunks:
            p = np.arange(at, at + n)
            if bug and n == 1 and at >= 32:
                p = (
                    p - 1
                )  # the single-token kernel takes the length before the update of the second page
            out.append(turn(x[..., at : at + n, :], p, w))
            at += n
        return np.concatenate(out, -2)

    return fn


wrong(
    "a203",
    single_late,
    HALF,
    "decode",
    "Chunks of one token at positions from 32 on are rotated one position too early; longer chunks and earlier tokens are right",
    "single-token-past-32",
    "use the length of the cache as the position",
)


# --- state ------------------------------------------------------------------------------------
def reused(bug):
    w, buffers = freqs(64), {}

    def fn(x, positions):
        y = turn(x, positions, w)
        if not bug:
            return y
        out = buffers.setdefault((x.shape, str(x.dtype)), np.empty_like(y))
        out[...] = y
        return out

    return fn


wrong(
    "a204",
    reused,
    HALF,
    "apply",
    "All calls with one shape return the same preallocated buffer, so the result of a call is overwritten by the next call",
    "output-buffer-reused",
    "allocate the result in every call",
)


def cache_by_ends(bug):
    w, kept = freqs(64), {}

    def fn(x, positions):
        p = np.asarray(positions)
        if p.ndim > 1 or not p.size:
            return turn(x, p, w, "interleaved")
        key = (p.size, p[0].item(), p[-1].item()) if bug else p.astype(np.float64).tobytes()
        return turn(x, kept.setdefault(key, p.copy()), w, "interleaved")

    return fn


wrong(
    "a205",
    cache_by_ends,
    INTER,
    "apply",
    "Tables are cached under the number of tokens and the first and last position: positions that differ only between these get "
    "the tables of an earlier call",
    "cache-key-ends",
    "compare all positions, or do not cache",
)


def tuned(bug):
    def make():
        count = [0]
        w = freqs(64)

        def fn(x, positions):
            count[0] += 1
            p = np.asarray(positions, np.float64)
            if bug and count[0] > 2:  # after two warm-up calls the tuner picks another kernel
                return turn(x, p, w.astype(np.float16).astype(np.float64))
            return turn(x, p, w)

        return fn

    return make


CASES.append(
    dict(
        id="a206",
        fn=tuned(True)(),
        encoding=HALF,
        surface="apply",
        settings={"factory": tuned(True)},
        right=False,
        cause="From the third call on, frequencies are rounded to float16 (a kernel chosen after two warm-up calls): angles have "
        "relative errors of up to 2**-11",
        cause_key="third-call-freqs-float16",
        remedy="keep float32 frequencies in every kernel",
        mended=tuned(False)(),
    )
)
good(
    "a207",
    tuned(False)(),
    HALF,
    "apply",
    "counts its calls, without consequence",
    factory=tuned(False),
)


def swapped_operands(bug):
    w = freqs(64, 500000.0)

    def fn(q, k, qp, kp):
        a, b = turn(q, qp, w), turn(k, kp, w)
        return (b, a) if bug and q.shape == k.shape else (a, b)

    return fn


wrong(
    "a208",
    swapped_operands,
    RoPE(64, layout="half", base=500000.0),
    "apply_qk",
    "If q and k have the same shape, the two results are returned in the wrong order: rotated keys come first",
    "results-exchanged",
    "return q first",
)


def delta_tiles(bug, T=8):
    w = freqs(64)

    def fn(k, delta):
        out = []
        for s in range(0, k.shape[-2], T):
            d = np.asarray(delta, np.float64)
            d = d if d.ndim == 0 else d[..., s : s + T]
            part = k[..., s : s + T, :]
            p = np.broadcast_to(d, part.shape[-2:-1]) if d.ndim == 0 else d
            out.append(
                part if bug and s and part.shape[-2] < T else turn(part, p, w, "interleaved")
            )
        return np.concatenate(out, -2) if out else k.copy()

    return fn


wrong(
    "a209",
    delta_tiles,
    INTER,
    "shift_keys",
    "Keys in a last block of fewer than 8 after whole blocks of 8 are not shifted",
    "shift-block-remainder",
    "shift the remaining keys as well",
)


def double_step(bug):
    w = freqs(64)

    def fn(x, chunks):
        out, at, page = [], 0, []
        for n in chunks:
            for t in range(at, at + n):
                page.append(t)
                p = len(page) - 1
                if (
                    bug and p >= 64
                ):  # the second block of the block table holds the logical block 0 again
                    p = p % 64
                out.append(turn(x[..., t : t + 1, :], np.array([p]), w))
            at += n
        return np.concatenate(out, -2) if out else x.copy()

    return fn


wrong(
    "a210",
    double_step,
    HALF,
    "decode",
    "Positions restart at 0 in every block of 64 tokens of the paged cache: position is the slot in the block instead of block * 64 + "
    "slot",
    "slot-for-position",
    "add the block's start",
)
