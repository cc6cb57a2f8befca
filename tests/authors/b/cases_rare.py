"""Rare mistakes and unusual right code on all surfaces: state, aliasing, dtypes, layouts, approximations."""

import math

import numpy as np

from posenc_ref import (
    ALiBi,
    DeBERTa,
    LogCPB,
    ModelEncoding,
    MultiAxisRoPE,
    RoPE,
    Shaw,
    Sinusoidal,
    Sinusoidal2D,
    T5Bias,
    TransformerXL,
    XPos,
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


rng = np.random.default_rng(21)
W64 = 10000.0 ** (-np.arange(32) / 32)
H64, I64 = RoPE(64, layout="half"), RoPE(64, layout="interleaved")


def angles(p, w=W64):
    a = np.asarray(p, float)[..., None] * w
    return a if a.ndim == 2 else a[:, None]


def pair(x, c, s, layout="half"):
    c, s = np.asarray(c).astype(x.dtype), np.asarray(s).astype(x.dtype)
    if layout == "half":
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return np.stack([x1 * c - x2 * s, x2 * c + x1 * s], -1).reshape(x.shape)


def turn(x, a, layout="half"):
    return pair(x, np.cos(a), np.sin(a), layout)


# ---------------------------------------------------------------- apply
def memo(fixed):
    kept = {}

    def apply(x, positions):
        p = np.asarray(positions)
        key = (p.shape, p.tobytes()) if fixed else p.shape
        if key not in kept:
            kept.clear()
            kept[key] = angles(p)
        return turn(x, kept[key])

    return apply


case(
    "b300",
    memo(False),
    H64,
    "apply",
    "cos and sin are kept as long as the shape of positions does not change, so a second call with other positions of "
    "the same shape is rotated by the first call's.",
    "memo-by-shape",
    "compare the values",
    memo(True),
)


def sequential(fixed):
    def apply(x, positions):
        a = angles(positions)
        c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
        y = x.copy()
        first, second = y[..., :32], y[..., 32:]
        old = first.copy() if fixed else first
        first[...] = first * c - second * s
        second[...] = second * c + (old if fixed else first) * s
        return y

    return apply


case(
    "b301",
    sequential(False),
    H64,
    "apply",
    "The first half is overwritten before the second half is computed, so the second uses the already rotated first "
    "half.",
    "aliasing",
    "keep a copy of the first half",
    sequential(True),
)


def overwrites(fixed):
    def apply(x, positions):
        y = turn(x, angles(positions))
        if fixed:
            return y
        x[...] = y
        return x

    return apply


case(
    "b302",
    overwrites(False),
    H64,
    "apply",
    "The result is right but x is overwritten in place and returned, although the caller's array must stay.",
    "input-overwritten",
    "return a new array",
    overwrites(True),
)


def promoted(fixed):
    def apply(x, positions):
        a = angles(positions)
        x1, x2 = np.split(x.astype(np.float64), 2, -1)
        y = np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1)
        return y.astype(x.dtype) if fixed else y

    return apply


case(
    "b303",
    promoted(False),
    H64,
    "apply",
    "A float32 x is returned as float64: the result is not cast back.",
    "result-dtype",
    "cast to x.dtype",
    promoted(True),
)


def two_tokens(fixed):
    def apply(x, positions):
        y = x.copy()
        S = x.shape[2]
        a = angles(positions)
        for s in range(0, S if fixed else S - S % 2, 2):
            y[:, :, s : s + 2] = turn(x[:, :, s : s + 2], a[..., s : s + 2, :])
        return y

    return apply


case(
    "b304",
    two_tokens(False),
    H64,
    "apply",
    "Tokens are rotated two at a time; with an odd number of tokens the last is copied unrotated (so S = 1 is never "
    "rotated).",
    "odd-token",
    "handle the last token",
    two_tokens(True),
)


def consecutive(fixed):
    def apply(x, positions):
        p = np.asarray(positions, float)
        if not fixed:
            p = p[..., :1] + np.arange(p.shape[-1])
        return turn(x, angles(p), "interleaved")

    return apply


case(
    "b305",
    consecutive(False),
    I64,
    "apply",
    "Only the first position is read and the others are taken to follow one by one, so positions with gaps, repeats or "
    "another order are wrong.",
    "assumes-consecutive",
    "use every position",
    consecutive(True),
)


def flat_bshd(fixed):
    def apply(x, positions):  # x (B, S, H, D)
        B, S, H, D = x.shape
        p = np.asarray(positions, float)
        p = (
            np.broadcast_to(p, (B, S)).ravel()
            if p.ndim == 2
            else (np.tile(p, B) if fixed else np.repeat(p, B))
        )
        return turn(x.reshape(B * S, H, D), p[:, None, None] * W64).reshape(x.shape)

    return apply


case(
    "b306",
    flat_bshd(False),
    H64,
    "apply",
    "Batch and tokens are flattened and the shared positions are repeated element by element (0, 0, 1, 1, ...) instead "
    "of row by row; wrong for more than one batch row.",
    "repeat-for-tile",
    "np.tile",
    flat_bshd(True),
    settings=dict(tensor_layout="bshd"),
)


def parabola(fixed):
    def sine(a):
        if fixed:
            return np.sin(a)
        a = np.mod(a + np.pi, 2 * np.pi) - np.pi
        y = 4 / np.pi * a - 4 / np.pi**2 * a * np.abs(a)
        return 0.225 * (y * np.abs(y) - y) + y

    def apply(x, positions):
        a = angles(positions)
        return pair(x, sine(a + np.pi / 2), sine(a))

    return apply


case(
    "b307",
    parabola(False),
    H64,
    "apply",
    "Sine and cosine are a fast parabola with an error of up to 1e-3, at every position but a few.",
    "sine-approximation",
    "use sin and cos",
    parabola(True),
)


def phase24(bits):
    step = np.round(W64 / (2 * np.pi) * 2.0**bits)

    def apply(x, positions):
        a = (
            np.mod(np.asarray(positions, float)[..., None] * step, 2.0**bits)
            / 2.0**bits
            * 2
            * np.pi
        )
        return turn(x, a if a.ndim == 2 else a[:, None])

    return apply


case(
    "b308",
    phase24(20),
    H64,
    "apply",
    "The phase step of every pair is rounded to 20 bits of a turn, so slow pairs (1e-4 radian per position = 17 units) "
    "are off by up to 3 % in frequency; fast pairs are nearly right.",
    "phase-step-fixed-point",
    "accumulate with more bits",
    phase24(48),
)


def thd(x, positions):  # x (T, H, D)
    p = np.asarray(positions, float).reshape(-1)
    return turn(x, p[:, None, None] * W64)


case(
    "b309",
    thd,
    H64,
    "apply",
    "Right: tokens first, (T, H, D), one position a token.",
    "right",
    right=True,
    settings=dict(tensor_layout="thd"),
)


def range_reduced(x, positions):
    p = np.asarray(positions, np.float64)[..., None]
    turns = p * (W64 / (2 * np.pi))
    a = (turns - np.round(turns)).astype(np.float32) * np.float32(2 * np.pi)
    a = a if a.ndim == 2 else a[:, None]
    return turn(x, a, "interleaved")


case(
    "b310",
    range_reduced,
    I64,
    "apply",
    "Right: angles counted in turns, reduced in float64, cos and sin of the remainder in float32.",
    "right",
    right=True,
)


# ---------------------------------------------------------------- cos_sin
def from_square(mode):
    def cos_sin(positions):
        a = np.asarray(positions, float)[:, None] * W64
        c, s = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
        if mode == "cos":
            c = np.sqrt(np.maximum(0, 1 - s.astype(float) ** 2)).astype(np.float32)
        if mode == "sin":
            s = (np.sign(s) * np.sqrt(np.maximum(np.float32(0), np.float32(1) - c * c))).astype(
                np.float32
            )
        return c, s

    return cos_sin


case(
    "b311",
    from_square("cos"),
    H64,
    "cos_sin",
    "cos is sqrt(1 - sin^2) and so never negative: wrong where the angle is in the second or third quadrant.",
    "cosine-sign-lost",
    "compute cos(angle)",
    from_square("ok"),
)
case(
    "b312",
    from_square("sin"),
    H64,
    "cos_sin",
    "sin is sqrt(1 - cos^2) in float32, which cancels: angles below about 3e-4 (slow pairs, low positions) get 0 and "
    "small ones have few digits.",
    "cancellation",
    "compute sin(angle)",
    from_square("ok"),
)


# ---------------------------------------------------------------- offsets, shifts, decode
def offset16(kind):
    def apply_offset(x, offset):
        off = np.atleast_1d(np.asarray(offset)).astype(kind).astype(np.int64)
        return turn(x, angles(off[:, None] + np.arange(x.shape[2])))

    return apply_offset


case(
    "b313",
    offset16(np.int16),
    H64,
    "apply_offset",
    "Offsets are stored in int16: from 32768 on they become negative.",
    "offset-int16",
    "int64",
    offset16(np.int64),
)


def shift(mode):
    def shift_keys(rotated_k, delta):
        d = float(np.ravel(delta)[0])
        a = np.full((rotated_k.shape[2], 1), abs(d) if mode == "abs" else d) * W64
        return turn(rotated_k, a, "half" if mode == "half" else "interleaved")

    return shift_keys


case(
    "b314",
    shift("abs"),
    I64,
    "shift_keys",
    "Keys are moved by |delta|: a negative delta moves them the wrong way.",
    "sign-lost",
    "keep the sign",
    shift("ok"),
)
case(
    "b315",
    shift("half"),
    I64,
    "shift_keys",
    "The shift turns half-split pairs although the cached keys have interleaved pairs.",
    "layout-of-shift",
    "same layout as the rotation",
    shift("ok"),
)


class Stream:
    def __init__(self, fixed):
        self.fixed, self.seen = fixed, 0

    def step(self, x):
        n = x.shape[2]
        start = self.seen if self.fixed or not self.seen or n == 1 else self.seen - 1
        self.seen += n
        return turn(x, angles(np.arange(start, start + n)), "interleaved")


def stream(fixed):
    def decode(x, chunks):
        one, cuts = Stream(fixed), np.cumsum(np.asarray(chunks, int))[:-1]
        return np.concatenate([one.step(part) for part in np.split(x, cuts, axis=2)], 2)

    return decode


case(
    "b316",
    stream(False),
    I64,
    "decode",
    "A later chunk of more than one token starts at the last position of the previous chunk again (one too low); single "
    "steps are right.",
    "chunk-start-off-by-one",
    "start at the number of tokens seen",
    stream(True),
)
case(
    "b317",
    stream(True),
    I64,
    "decode",
    "Right: a class that counts the tokens it has seen.",
    "right",
    right=True,
)


# ---------------------------------------------------------------- qk, vjp
def grouped(fixed):
    def apply_qk(q, k, q_positions, k_positions):
        kk = turn(k, angles(k_positions))
        if not fixed and k.shape[1] < q.shape[1]:
            kk[:, 1:] = k[:, 1:]
        return turn(q, angles(q_positions)), kk

    return apply_qk


case(
    "b318",
    grouped(False),
    H64,
    "apply_qk",
    "With fewer key heads than query heads only key head 0 is rotated.",
    "grouped-key-heads",
    "rotate all key heads",
    grouped(True),
)
PART = RoPE(64, layout="half", rotary_dim=32)
W32 = 10000.0 ** (-np.arange(16) / 16)


def vjp(fixed):
    def apply_vjp(x, positions, dy):
        out = dy.copy() if fixed else np.zeros_like(dy)
        out[..., :32] = turn(dy[..., :32], -angles(positions, W32))
        return out

    return apply_vjp


case(
    "b319",
    vjp(False),
    PART,
    "apply_vjp",
    "The gradient of the channels that pass through is 0 instead of dy.",
    "pass-through-gradient",
    "copy dy there",
    vjp(True),
)


# ---------------------------------------------------------------- plain functions
def ids(fixed):
    def position_ids(attention_mask):
        m = np.asarray(attention_mask).astype(np.int64)
        c = np.cumsum(m, -1) if fixed else np.cumsum(m).reshape(m.shape)
        return np.where(m == 1, c - 1, 0)

    return position_ids


case(
    "b320",
    ids(False),
    None,
    "position_ids",
    "The cumulative sum has no axis, so it runs over the whole batch: rows after the first go on from the row before.",
    "cumsum-over-batch",
    "axis=-1",
    ids(True),
)


def pack(fixed):
    def packed(lengths):
        out = []
        for b, n in enumerate(np.asarray(lengths, int).tolist()):
            first = 0 if fixed or b == 0 else 1
            out.extend(range(first, first + n))
        return np.array(out, dtype=np.int64)

    return packed


case(
    "b321",
    pack(False),
    None,
    "packed",
    "Documents after the first start at 1 instead of 0.",
    "restart-at-one",
    "start at 0",
    pack(True),
)


def shard(fixed):
    def shard_positions(cu_seqlens, cp_size, cp_rank):
        cu = np.asarray(cu_seqlens)
        parts = [np.zeros(0, np.int64)]
        for n in np.diff(cu):
            chunks = np.split(np.arange(n), 2 * cp_size)
            two = [chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]]
            parts += two if fixed or cp_rank < cp_size - 1 or cp_size == 1 else two[::-1]
        return np.concatenate(parts)

    return shard_positions


case(
    "b322",
    shard(False),
    None,
    "shard_positions",
    "The last rank has its two chunks in the opposite order (the mirrored chunk first).",
    "last-rank-order",
    "chunk cp_rank first on every rank",
    shard(True),
)


def layer_flags(fixed):
    listed = [
        0 if (n + 1) % 4 == 0 else 1 for n in range(24)
    ]  # "no_rope_layers": 1 where the layer DOES rotate

    def layers(n_layers):
        return [bool(v) if fixed else not v for v in listed[:n_layers]]

    return layers


NOPE = ModelEncoding(
    "m",
    encodings={"rope": H64, "nope": None},
    layer_types=tuple("nope" if (n + 1) % 4 == 0 else "rope" for n in range(24)),
)
case(
    "b323",
    layer_flags(False),
    NOPE,
    "layers",
    "no_rope_layers is read by its name (1 = no rotation) although it holds 1 where a layer rotates: all flags are "
    "inverted.",
    "flags-inverted",
    "do not invert",
    layer_flags(True),
)


def fractions(num_heads):
    """Slopes from integer exponents: exact powers, by ldexp and one irrational factor."""
    c = 1 << (num_heads.bit_length() - 1)
    e = [(h, c) for h in range(1, c + 1)] + [(h, 2 * c) for h in range(1, 2 * (num_heads - c), 2)]
    return np.array([math.ldexp(2.0 ** -((8 * h % n) / n), -(8 * h // n)) for h, n in e])


case(
    "b324",
    fractions,
    ALiBi(20),
    "slopes",
    "Right: exponents split into a whole part (ldexp) and a fraction.",
    "right",
    right=True,
)

# ---------------------------------------------------------------- biases and scores
T5_T = rng.standard_normal((32, 2))
T5 = T5Bias(T5_T)


def t5_exact(r):
    n = np.abs(r)
    big = 8 + np.floor(np.log(np.maximum(n, 1) / 8) / np.log(16) * 8 + 1e-9)
    return (np.where(n < 8, n, np.minimum(big, 15)) + 16 * (r > 0)).astype(int)


def kept_bias(fixed):
    kept = {}

    def bias(q_len, k_len):
        size = kept.get("size", 0)
        if k_len > size:
            p = np.arange(k_len)
            kept["size"], kept["full"] = (
                k_len,
                np.moveaxis(T5_T[t5_exact(p[None] - p[:, None])], -1, 0),
            )
        full = kept["full"]
        if fixed:
            return full[:, k_len - q_len : k_len, :k_len].copy()
        n = full.shape[1]
        return full[:, n - q_len :, :k_len].copy()

    return bias


case(
    "b325",
    kept_bias(False),
    T5,
    "bias",
    "The bias of the longest call is kept and its last rows are returned: in a later call with fewer keys the query "
    "rows belong to the end of the longer call.",
    "kept-last-rows",
    "rows k_len - q_len .. k_len",
    kept_bias(True),
)


def alibi_scores(fixed):
    m = 2.0 ** -np.arange(1, 9)

    def logits(q, k):
        Q, K, d = q.shape[2], k.shape[2], q.shape[3]
        b = -m[:, None, None] * np.abs(np.arange(K - Q, K)[:, None] - np.arange(K))
        s = 1 / math.sqrt(d if fixed else d * 8)
        return (q @ np.swapaxes(k, -1, -2) * s + b).astype(q.dtype)

    return logits


case(
    "b326",
    alibi_scores(False),
    ALiBi(8),
    "scores",
    "q.k is divided by sqrt(hidden size) (8 heads) instead of sqrt(head_dim).",
    "scale-hidden-size",
    "1/sqrt(head_dim)",
    alibi_scores(True),
)
REL = rng.standard_normal((81, 16))
SHAW = Shaw(REL, before=40)


def shaw_blocks(fixed):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        out = q @ np.swapaxes(k, -1, -2)
        i = np.arange(K - Q, K)[:, None]
        for lo in range(0, K, 16):
            j = np.arange(lo, min(lo + 16, K))
            jj = j if fixed or lo < 16 else j - 1
            a = REL[np.clip(jj - i, -40, 40) + 40].astype(q.dtype)
            out[..., j] += np.einsum("bhid,ijd->bhij", q, a)
        return out / q.dtype.type(4)

    return logits


case(
    "b327",
    shaw_blocks(False),
    SHAW,
    "scores",
    "In blocks of 16 keys after the first the relative row is one too low (key index lo - 1 + lane), so keys from 16 on "
    "are wrong.",
    "block-start-off-by-one",
    "start the block at lo",
    shaw_blocks(True),
)
PROJ, U, V = (
    rng.standard_normal((2, 16, 16)) / 4,
    rng.standard_normal((2, 16)),
    rng.standard_normal((2, 16)),
)
XL = TransformerXL(PROJ, U, V, sinusoid=Sinusoidal(16, layout="concat"))


def xl_shift(shift_one):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        dist = np.arange(K - 1, -Q, -1)  # K + Q - 1 distances, both signs
        a = dist[:, None] * 10000.0 ** (-np.arange(8) / 8)
        r = np.concatenate([np.sin(a), np.cos(a)], 1)
        if shift_one:
            r[dist < 0] = 0
        by = np.einsum("bhid,hdm,cm->bhic", q + V[:, None], PROJ, r)
        col = (Q - 1) - np.arange(Q)[:, None] + np.arange(K)
        bd = np.take_along_axis(by, np.broadcast_to(col, (*by.shape[:2], Q, K)), -1)
        return (((q + U[:, None]) @ np.swapaxes(k, -1, -2) + bd) / 4).astype(q.dtype)

    return logits


case(
    "b328",
    xl_shift(True),
    XL,
    "scores",
    "The table of R has rows for distances >= 0 only (zeros for later keys), as in a causal model, although all keys are "
    "seen.",
    "future-rows-zero",
    "rows for negative distances",
    xl_shift(False),
)
case(
    "b329",
    xl_shift(False),
    XL,
    "scores",
    "Right: K + Q - 1 distances of both signs and a gather of columns.",
    "right",
    right=True,
)
KR = rng.standard_normal((2, 32, 16))
C2P = DeBERTa(KR, None)


def c2p(n):
    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        row = np.clip(np.arange(K - Q, K)[:, None] - np.arange(K) + 16, 0, 31)
        t = np.take_along_axis(
            np.einsum("bhid,hmd->bhim", q, KR), np.broadcast_to(row, (*q.shape[:2], Q, K)), -1
        )
        return ((q @ np.swapaxes(k, -1, -2) + t) / math.sqrt(n * 16)).astype(q.dtype)

    return logits


case(
    "b330",
    c2p(3),
    C2P,
    "scores",
    "The scale 1/sqrt(3d) of the full model is used although only c2p is present (2 terms).",
    "scale-term-count",
    "count the terms that are there",
    c2p(2),
)
case(
    "b331",
    c2p(2),
    C2P,
    "scores",
    "Right: DeBERTa with the content-to-position term alone.",
    "right",
    right=True,
)

# ---------------------------------------------------------------- tables
S32 = Sinusoidal(32)


def sine_rows(p, w=10000.0 ** (-np.arange(16) / 16)):
    a = np.asarray(p, float)[..., None] * w
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], -1)


def add64(kind):
    def add(x):
        return x + sine_rows(np.arange(x.shape[1])).astype(kind)

    return add


case(
    "b332",
    add64(np.float32),
    S32,
    "add",
    "For float64 embeddings the table is a float32 buffer, so rows have 24 bits.",
    "table-float32",
    "keep the table in float64",
    add64(np.float64),
    settings=dict(dtype="float64"),
)


def unique_rows(fixed):
    def table(positions):
        p = np.asarray(positions)
        if fixed:
            return sine_rows(p).astype(np.float32)
        rows = sine_rows(np.sort(p, axis=-1))
        return rows.astype(np.float32)

    return table


case(
    "b333",
    unique_rows(False),
    S32,
    "table",
    "Positions are sorted before the lookup and the rows are not put back, so positions out of order get other rows.",
    "positions-sorted",
    "undo the sort",
    unique_rows(True),
)
GRID = Sinusoidal2D(32)


def grid2d(fixed):
    w = 10000.0 ** (-np.arange(8) / 8)

    def grid(height, width):
        y, x = np.divmod(np.arange(height * width), width)
        if height == 1 and not fixed:
            y, x = x, y
        a, b = y[:, None] * w, x[:, None] * w
        return np.concatenate([np.sin(a), np.cos(a), np.sin(b), np.cos(b)], 1).astype(np.float32)

    return grid


case(
    "b334",
    grid2d(False),
    GRID,
    "grid",
    "For images of one row the squeezed axis makes the columns count as rows: x and y are exchanged if the height is "
    "1.",
    "single-row-axis",
    "keep both axes",
    grid2d(True),
)

# ---------------------------------------------------------------- axes, xPos, windows
QWEN = MultiAxisRoPE(64, sections=(8, 12, 12), layout="half")


def mrope(fixed):
    axis = np.repeat([0, 1, 2], [8, 12, 12])

    def apply(x, positions):
        p = np.asarray(positions, float)
        if p.ndim == 3 and not fixed:
            p = np.repeat(p[:, :1], p.shape[1], 1)
        a = np.moveaxis(p[axis], 0, -1) * W64
        return turn(x, a if a.ndim == 2 else a[:, None])

    return apply


case(
    "b335",
    mrope(False),
    QWEN,
    "apply",
    "Positions (3, B, S): all batch rows use the positions of row 0.",
    "batch-row-0",
    "use each row",
    mrope(True),
)
XP = XPos(32, layout="interleaved")


def xpos(half):
    zeta = np.repeat((np.arange(16) * (1 if half else 2) / 32 + 0.4) / 1.4, 2)
    w = 10000.0 ** (-np.arange(16) / 16)

    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        i, j = np.arange(K - Q, K)[:, None] * 1.0, np.arange(K)[:, None] * 1.0
        qq = turn(q.astype(float), i * w, "interleaved") * zeta ** ((i - K / 2) / 512)
        kk = turn(k.astype(float), j * w, "interleaved") * zeta ** ((K / 2 - j) / 512)
        return (qq @ np.swapaxes(kk, -1, -2) / math.sqrt(32)).astype(q.dtype)

    return logits


case(
    "b336",
    xpos(True),
    XP,
    "scores",
    "The decay of pair k is (k/d + gamma)/(1 + gamma) instead of (2k/d + gamma)/(1 + gamma).",
    "decay-exponent",
    "2k/d",
    xpos(False),
)
case(
    "b337",
    xpos(False),
    XP,
    "scores",
    "Right: the decay is centred in the middle of the keys for queries and keys.",
    "right",
    right=True,
)
CH, CB, CO = rng.standard_normal((8, 2)), rng.standard_normal(8), rng.standard_normal((2, 8)) / 3
CPB = LogCPB(CH, CB, CO, window=(3, 5))


def cpb_table(mode):
    """Swin v2's way: the network on all offsets, then an index."""
    dy, dx = np.meshgrid(np.arange(-2, 3) / 2 * 8, np.arange(-4, 5) / 4 * 8, indexing="ij")
    c = np.stack([dy, dx], -1)
    c = np.sign(c) * np.log2(1 + np.abs(c)) / 3
    t = np.maximum(c @ CH.T + CB, 0) @ CO.T
    t = (16 / (1 + np.exp(-t))).reshape(-1, 2)
    if mode == "flipped":
        t = t[::-1]

    def bias(q_len, k_len):
        y, x = np.divmod(np.arange(15), 5)
        idx = (y[:, None] - y + 2) * 9 + x[:, None] - x + 4
        return np.moveaxis(t[idx], -1, 0)[:, k_len - q_len : k_len, :k_len].astype(np.float32)

    return bias


case(
    "b338",
    cpb_table("flipped"),
    CPB,
    "bias",
    "The table of all offsets is built from the largest offset down but indexed from "
    "the smallest up, so every pair has the bias of the opposite offset.",
    "table-reversed",
    "offsets in ascending order",
    cpb_table("ok"),
)
case(
    "b339",
    cpb_table("ok"),
    CPB,
    "bias",
    "Right: Swin v2's coordinates table and index, for a window that is not square.",
    "right",
    right=True,
)
