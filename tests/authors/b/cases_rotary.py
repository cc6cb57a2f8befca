"""Rotations of one position axis: apply, apply_qk, apply_offset, calls, decode, key_cache, shift_keys, apply_vjp, cos_sin."""

import math

import numpy as np

from posenc_ref import DynamicNTK, LinearScaling, RoPE, YaRN

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


def inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def angles(positions, w):
    a = np.asarray(positions, np.float64)[..., None] * w
    return a if a.ndim == 2 else a[:, None]  # (S, P) or (B, 1, S, P)


def turn(x, a, layout="half", m=1.0, sign=1):
    c, s = (np.cos(a) * m).astype(x.dtype), (np.sin(a) * m * sign).astype(x.dtype)
    if layout == "half":
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return np.stack([x1 * c - x2 * s, x2 * c + x1 * s], -1).reshape(x.shape)


H64, I64 = RoPE(64, layout="half"), RoPE(64, layout="interleaved")
W64 = inv(64)


# b200: remainder tile
def tiles(fixed):
    def apply(x, positions):
        p = np.asarray(positions)
        out = np.empty_like(x)
        S = x.shape[2]
        for lo in range(0, S, 64):
            n = min(64, S - lo)
            at = p[..., lo : lo + n] if n == 64 or fixed else p[..., :n]
            out[:, :, lo : lo + n] = turn(x[:, :, lo : lo + n], angles(at, W64))
        return out

    return apply


case(
    "b200",
    tiles(False),
    H64,
    "apply",
    "Tokens are processed in tiles of 64; the last, partial tile reads its positions from the start of the list "
    "instead of its own place (calls of more than 64 tokens, not a multiple of 64).",
    "tile-remainder-start",
    "index positions with the tile's start",
    tiles(True),
)


# b201: lanes
def lanes(fixed):
    w = inv(20)

    def apply(x, positions):
        out = x.copy()
        a = angles(positions, w)
        top = 10 if fixed else 8
        c, s = np.cos(a[..., :top]).astype(x.dtype), np.sin(a[..., :top]).astype(x.dtype)
        lo, hi = x[..., :top], x[..., 10 : 10 + top]
        out[..., :top] = lo * c - hi * s
        out[..., 10 : 10 + top] = hi * c + lo * s
        return out

    return apply


case(
    "b201",
    lanes(False),
    RoPE(64, layout="half", rotary_dim=20),
    "apply",
    "Pairs are processed in vectors of 8; the 2 remaining pairs (8 and 9 of 10) are copied unrotated.",
    "lane-remainder",
    "handle the remaining pairs",
    lanes(True),
)


# b202: heads
def heads(mode):
    def apply(x, positions):
        p = np.asarray(positions)
        out = turn(x, angles(p, W64), "interleaved")
        if mode == "eight":
            out[:, 8:] = x[:, 8:]
        if mode == "next":
            for h in range(8, x.shape[1]):  # the flat program number runs over (head block, token)
                q = np.roll(p, -(h // 8), axis=-1)
                out[:, h : h + 1] = turn(x[:, h : h + 1], angles(q, W64), "interleaved")
        return out

    return apply


case(
    "b202",
    heads("eight"),
    I64,
    "apply",
    "A kernel launched for 8 heads: heads 8 and above are not rotated.",
    "heads-from-8",
    "launch for all heads",
    heads("ok"),
)
case(
    "b203",
    heads("next"),
    I64,
    "apply",
    "Head h uses the position of the token h // 8 places further on (cyclically), because the block number is added to "
    "the token number: heads from 8 on are wrong if there is more than one token.",
    "head-block-shifts-token",
    "divide before adding",
    heads("ok"),
)


# b204: batch rows
def rows(mode):
    def apply(x, positions):
        p = np.asarray(positions)
        if p.ndim == 2 and mode == "row0":
            p = p[0]
        if p.ndim == 2 and mode == "even":
            p = p[(np.arange(len(p)) // 2) * 2]
        return turn(x, angles(p, W64))

    return apply


case(
    "b204",
    rows("row0"),
    H64,
    "apply",
    "Positions (B, S): every batch row is rotated with the positions of row 0.",
    "batch-row-0",
    "use each row's positions",
    rows("ok"),
)


# b205: S = 1
def step(fixed):
    def apply(x, positions):
        a = angles(positions, W64)
        if x.shape[2] == 1 and not fixed:
            return turn(x, a, sign=-1)
        return turn(x, a)

    return apply


case(
    "b205",
    step(False),
    H64,
    "apply",
    "The fast path for a single token (S = 1) rotates by the negative angle.",
    "single-token-sign",
    "same sign in both paths",
    step(True),
)


# b206: layout guessed
def guess(fixed):
    def apply(x, positions):
        p = np.asarray(positions)
        a = angles(p, W64)
        if not fixed and p.ndim == 1 and x.shape[1] == p.shape[-1]:  # "must be (B, S, H, D)"
            return turn(x, a[:, None, :])
        return turn(x, a)

    return apply


case(
    "b206",
    guess(False),
    H64,
    "apply",
    "The axis of the tokens is guessed by its size: if the number of heads equals the number of tokens, heads are "
    "rotated by the positions instead of tokens.",
    "axis-guessed",
    "tokens are axis -2",
    guess(True),
)


# b207: memory order
def order(fixed):
    def apply(x, positions):
        flat = x if fixed else x.ravel(order="K").reshape(x.shape)
        z = flat[..., 0::2] + 1j * flat[..., 1::2]
        z = z * np.exp(1j * angles(positions, W64))
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

    return apply


case(
    "b207",
    order(False),
    I64,
    "apply",
    "x is read in the order of its memory as if it were contiguous, so a transposed (non-contiguous) x has its "
    "numbers at other indices; contiguous x is right.",
    "non-contiguous",
    "read with strides",
    order(True),
)


# b208: short ring of rows
def ring(size):
    def apply(x, positions):
        p = np.asarray(positions)
        if size:
            p = np.mod(p, size)
        return turn(x, angles(p, W64))

    return apply


case(
    "b208",
    ring(4096),
    H64,
    "apply",
    "The table is addressed modulo its 4096 rows, so positions from 4096 on repeat.",
    "table-wraps",
    "make the table longer",
    ring(0),
)


# b209: bfloat16 inv_freq buffer
def bf16(x):
    u = np.asarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def tf32(x):
    u = np.asarray(x, np.float32).view(np.uint32)
    return ((u + 0xFFF + ((u >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


def buffer(kind):
    def apply(x, positions):
        p = np.asarray(positions, np.float32)
        w = W64.astype(np.float32)
        if kind == "bf16":
            w = bf16(w)
        if kind == "tf32":
            p, w = tf32(p), tf32(w)
        a = (p[..., None] * w).astype(np.float64)
        return turn(x, a if a.ndim == 2 else a[:, None])

    return apply


case(
    "b209",
    buffer("bf16"),
    H64,
    "apply",
    "The buffer inv_freq is cast to bfloat16 with the model (model.bfloat16()), so all frequencies but 1 are rounded to "
    "8 bits.",
    "inv-freq-bfloat16",
    "keep inv_freq in float32",
    buffer("ok"),
)
case(
    "b210",
    buffer("tf32"),
    H64,
    "apply",
    "The angles are a matrix product in TF32: frequencies and positions are rounded to 11 bits, positions beyond 2048 "
    "to multiples of 2, 4, ...",
    "tf32-product",
    "compute the angles elementwise in float32",
    buffer("ok"),
)


# b211: whole positions only
def truncated(fixed):
    def apply(x, positions):
        p = np.asarray(positions)
        if not fixed:
            p = np.maximum(p.astype(np.int64), 0)
        return turn(x, angles(p, W64), "interleaved")

    return apply


case(
    "b211",
    truncated(False),
    I64,
    "apply",
    "Positions are used as indices of a table: fractions are cut off and negative positions become 0, without an "
    "error; non-negative integers are right.",
    "positions-truncated",
    "refuse them or compute the angle",
    truncated(True),
)


# b212: partial, rotate_half of the whole head
def partial(mode, r=16):
    w = inv(r)

    def apply(x, positions):
        a = angles(positions, w)
        c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
        out = x.copy()
        off = x.shape[-1] // 2 if mode == "whole" else r // 2
        x1, x2 = x[..., : r // 2], x[..., off : off + r // 2]
        out[..., : r // 2] = x1 * c - x2 * s
        out[..., off : off + r // 2] = x2 * c + x1 * s
        return out

    return apply


case(
    "b212",
    partial("whole"),
    RoPE(64, layout="half", rotary_dim=16),
    "apply",
    "Partial rotary: pair k is (k, k + head_dim/2), as if the whole head were rotated, instead of "
    "(k, k + rotary_dim/2).",
    "partial-pairing",
    "cut the slice of rotary_dim first",
    partial("ok"),
)


# b213: MLA slice
def mla(mode):
    w = inv(32)

    def apply(x, positions):
        a = angles(positions, w)
        if mode == "front":
            return np.concatenate([turn(x[..., :32], a, "interleaved"), x[..., 32:]], -1)
        return np.concatenate([x[..., :-32], turn(x[..., -32:], a, "interleaved")], -1)

    return apply


case(
    "b213",
    mla("front"),
    RoPE(96, layout="interleaved", rotary_dim=32, rotary_start=64),
    "apply",
    "The first 32 channels of the head are rotated; the rotated slice of latent attention is the last one "
    "(rotary_start = 64).",
    "slice-place",
    "rotate the trailing slice",
    mla("ok"),
)


# b214: integer division in exponents
def integer_exponent(fixed):
    i = np.arange(0, 64, 2)

    def apply(x, positions):
        w = 10000.0 ** (-(i / 64 if fixed else (i // 4 * 4) / 64))
        return turn(x, angles(positions, w))

    return apply


case(
    "b214",
    integer_exponent(False),
    H64,
    "apply",
    "The exponent is rounded down to a multiple of 4/64, so pairs 2k and 2k+1 share a frequency.",
    "exponent-floored",
    "2k/d without rounding",
    integer_exponent(True),
)


# b215: float64 x with float32 tables
def narrow(fixed):
    kind = np.float64 if fixed else np.float32

    def apply(x, positions):
        a = angles(positions, W64)
        c, s = np.cos(a).astype(kind), np.sin(a).astype(kind)
        x1, x2 = np.split(x, 2, -1)
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case(
    "b215",
    narrow(False),
    H64,
    "apply",
    "For float64 inputs cos and sin are rounded to float32 before the product.",
    "tables-float32",
    "keep the tables in float64",
    narrow(True),
    settings=dict(dtype="float64"),
)


# b216: torch, positions in bfloat16
def torch_rope(cast):
    def apply(x, positions):
        import torch

        p = torch.as_tensor(positions)
        if cast:
            p = p.to(x.dtype)
        w = torch.tensor(W64, dtype=torch.float32)
        a = p.float()[..., None] * w
        if a.ndim == 3:
            a = a[:, None]
        c, s = a.cos(), a.sin()
        x1, x2 = x.float().chunk(2, -1)
        return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1).to(x.dtype)

    return apply


case(
    "b216",
    torch_rope(True),
    H64,
    "apply",
    "Position ids are cast to the model's bfloat16 before they are multiplied by inv_freq, so positions above 256 are "
    "rounded to multiples of 2, 4, ...",
    "positions-bfloat16",
    "keep position ids in int64 or float32",
    torch_rope(False),
    settings=dict(backend="torch", dtype="bfloat16"),
)
case(
    "b217",
    torch_rope(False),
    H64,
    "apply",
    "Right: bfloat16 x, rotated in float32 and rounded once.",
    "right",
    right=True,
    settings=dict(backend="torch", dtype="bfloat16"),
)


# b218: apply_qk
def qk(mode, m=1.0):
    def apply_qk(q, k, q_positions, k_positions):
        kp = k_positions
        if mode == "shared" and np.shape(q_positions) == np.shape(k_positions):
            kp = q_positions
        mq, mk = {"q-only": (m, 1.0), "squared": (m * m, m)}.get(mode, (m, m))
        return turn(q, angles(q_positions, W64), m=mq), turn(k, angles(kp, W64), m=mk)

    return apply_qk


case(
    "b218",
    qk("shared"),
    H64,
    "apply_qk",
    "If q and k have the same number of tokens, k is rotated with the positions of q (k_positions is ignored).",
    "k-positions-ignored",
    "rotate k with k_positions",
    qk("ok"),
)
MY = 0.1 * math.log(8.0) + 1
LINY = RoPE(64, layout="half", scaling=YaRN(8.0, 8192, attention_factor=MY))


def yarn_w():
    return np.asarray(LINY.frequencies())


def qk_yarn(mode):
    w = yarn_w()

    def apply_qk(q, k, q_positions, k_positions):
        mq, mk = {"q-only": (MY, 1.0), "squared": (MY * MY, MY)}.get(mode, (MY, MY))
        return turn(q, angles(q_positions, w), m=mq), turn(k, angles(k_positions, w), m=mk)

    return apply_qk


case(
    "b219",
    qk_yarn("q-only"),
    LINY,
    "apply_qk",
    "YaRN's attention factor multiplies q only, keys have the factor 1, so logits have m instead of m squared.",
    "attention-factor-q-only",
    "multiply cos and sin of both",
    qk_yarn("ok"),
)


# b220: m on cos only
def cos_sin(mode):
    w = yarn_w()

    def tables(positions):
        a = np.asarray(positions, float)[:, None] * w
        c, s = np.cos(a) * MY, np.sin(a) * (1.0 if mode == "cos" else MY)
        return c.astype(np.float32), s.astype(np.float32)

    return tables


case(
    "b220",
    cos_sin("cos"),
    LINY,
    "cos_sin",
    "The attention factor multiplies cos but not sin.",
    "attention-factor-cos-only",
    "multiply both",
    cos_sin("ok"),
)


def half_tables(fixed):
    kind = np.float32 if fixed else np.float16

    def tables(positions):
        p = np.asarray(positions, np.float32).astype(kind).astype(np.float32)
        a = (p[:, None] * W64.astype(np.float32)).astype(np.float64)
        a = np.concatenate([a, a], -1)
        return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)

    return tables


case(
    "b221",
    half_tables(False),
    H64,
    "cos_sin",
    "Positions pass through float16: from 2049 on they are rounded to multiples of 2, 4, ..., and beyond 65504 they "
    "are infinite (NaN in the tables).",
    "positions-float16",
    "keep positions in float32",
    half_tables(True),
)


# b222: offsets
def offsets(fixed):
    def apply_offset(x, offset):
        off = np.atleast_1d(np.asarray(offset))
        if not fixed:
            off = np.full_like(off, off.max())
        p = off[:, None] + np.arange(x.shape[2])
        return turn(x, angles(p, W64))

    return apply_offset


case(
    "b222",
    offsets(False),
    H64,
    "apply_offset",
    "All rows of the batch start at the largest offset instead of each at its own.",
    "offset-of-longest",
    "use offset[b] for row b",
    offsets(True),
)


# b223/224: calls
class Grown:
    """cos/sin rows that grow when needed."""

    def __init__(self, fixed):
        self.fixed, self.rows = fixed, np.zeros((0, 32))

    def need(self, n):
        have = len(self.rows)
        if n > have:
            new = max(n, 2 * have, 16)
            first = have if self.fixed or have == 0 else 0
            more = (first + np.arange(new - have))[:, None] * W64
            self.rows = np.concatenate([self.rows, more])

    def __call__(self, x, offset):
        offset = int(np.max(offset))
        self.need(offset + x.shape[2])
        return turn(x, self.rows[offset : offset + x.shape[2]])


class ByLength:
    """Rows kept for each number of tokens."""

    def __init__(self, fixed):
        self.fixed, self.kept = fixed, {}

    def __call__(self, x, offset):
        offset = int(np.max(offset))
        key = (x.shape[2], offset) if self.fixed else x.shape[2]
        if key not in self.kept:
            self.kept[key] = (offset + np.arange(x.shape[2]))[:, None] * W64
        return turn(x, self.kept[key])


class ThirdCall:
    """From the third call on the compiled graph is replayed with the offset of the second."""

    def __init__(self, fixed):
        self.fixed, self.n, self.frozen = fixed, 0, None

    def __call__(self, x, offset):
        self.n += 1
        offset = int(np.max(offset))
        if self.n == 2:
            self.frozen = offset
        use = self.frozen if self.n > 2 and not self.fixed else offset
        return turn(x, (use + np.arange(x.shape[2]))[:, None] * W64)


def calls_of(cls, fixed):
    def calls(requests):
        one = cls(fixed)
        return [one(x, offset) for x, offset in requests]

    return calls


case(
    "b223",
    calls_of(Grown, False),
    H64,
    "calls",
    "When the cached table grows, the new rows are counted from 0 again instead of from the number of rows already "
    "there; only calls that reach beyond the table of an earlier call are wrong.",
    "cache-growth-start",
    "start at the old number of rows",
    calls_of(Grown, True),
)
case(
    "b224",
    calls_of(ByLength, False),
    H64,
    "calls",
    "The cached angles are keyed by the number of tokens alone: a later call of the same length with another offset "
    "gets the positions of the first.",
    "cache-key",
    "put the offset into the key",
    calls_of(ByLength, True),
)
case(
    "b225",
    calls_of(ThirdCall, False),
    H64,
    "calls",
    "From the third call on a captured graph is replayed, in which the offset of the second call is a constant.",
    "third-call-frozen",
    "pass the offset as an input of the graph",
    calls_of(ThirdCall, True),
)


# b226: decode
def decode_with(mode):
    def decode(x, chunks):
        out, lo, pos = [], 0, 0
        for n in chunks:
            n = int(n)
            p = pos + np.arange(n)
            if mode == "page" and n == 1 and lo and lo % 16 == 0:
                p = p - 16  # first slot of a new page: still the old page number
            out.append(turn(x[:, :, lo : lo + n], angles(p, W64)))
            lo += n
            pos += n
            if mode == "stale" and n == 1 and lo >= 2 and len(out) > 1 and out[-2].shape[2] > 1:
                pos -= 1  # the counter is not advanced by the first single step after a prompt
        return np.concatenate(out, 2)

    return decode


case(
    "b226",
    decode_with("page"),
    H64,
    "decode",
    "In single-token steps the first token of every page of 16 (tokens 16, 32, ...) takes its position from the "
    "previous page, 16 too low.",
    "page-boundary",
    "look up the page after allocating it",
    decode_with("ok"),
)
case(
    "b227",
    decode_with("stale"),
    H64,
    "decode",
    "The position counter is not advanced after the first single-token step that follows a longer chunk, so all later "
    "tokens are one position too low.",
    "counter-not-advanced",
    "advance after every step",
    decode_with("ok"),
)

# b228: key cache
DYN = RoPE(64, layout="half", scaling=DynamicNTK(4.0, 64))


def dyn_w(n):
    alpha = 4.0 * max(n, 64) / 64 - 3.0
    return inv(64, 10000.0 * alpha ** (64 / 62))


def cache(mode):
    def key_cache(k, chunks):
        total, lo, out = int(np.sum(chunks)), 0, []
        for n in chunks:
            n = int(n)
            seen = {"stale": lo + n, "ok": total, "before": total - int(chunks[-1])}[mode]
            out.append(turn(k[:, :, lo : lo + n], angles(np.arange(lo, lo + n), dyn_w(seen))))
            lo += n
        return np.concatenate(out, 2)

    return key_cache


case(
    "b228",
    cache("stale"),
    DYN,
    "key_cache",
    "Keys stay rotated with the frequencies of the length at which they entered the cache; beyond the trained length "
    "(64) all keys must have those of the current length.",
    "stale-keys",
    "cache unrotated keys",
    cache("ok"),
)
case(
    "b229",
    cache("before"),
    DYN,
    "key_cache",
    "The frequencies are those of the length before the last chunk instead of after it.",
    "length-before-chunk",
    "count the new chunk",
    cache("ok"),
)


# b230: shift
def shift(mode):
    w = yarn_w()

    def shift_keys(rotated_k, delta):
        a = angles(np.full(rotated_k.shape[2], float(np.ravel(delta)[0])), w)
        return turn(rotated_k, a, m=MY if mode == "again" else 1.0)

    return shift_keys


case(
    "b230",
    shift("again"),
    LINY,
    "shift_keys",
    "The shift rotates with cos and sin that contain the attention factor, so shifted keys are multiplied by m a second "
    "time.",
    "attention-factor-twice",
    "rotate by delta without the factor",
    shift("ok"),
)


# b231: vjp
def vjp(mode):
    w = yarn_w()

    def apply_vjp(x, positions, dy):
        a = angles(positions, w)
        return turn(dy, a, m=1 / MY if mode == "inverse" else MY, sign=-1)

    return apply_vjp


case(
    "b231",
    vjp("inverse"),
    LINY,
    "apply_vjp",
    "The backward pass applies the inverse (divides by the attention factor) instead of the transpose (multiplies by "
    "it).",
    "inverse-for-transpose",
    "rotate back and multiply by m",
    vjp("ok"),
)


def vjp_grouped(fixed):
    def apply_vjp(x, positions, dy):
        a = angles(positions, W64)
        out = turn(dy, a, "interleaved", sign=-1)
        if not fixed:
            out[..., 1::2] = dy[..., 1::2] * np.cos(a) + dy[..., 0::2] * np.sin(a)
        return out.astype(dy.dtype)

    return apply_vjp


case(
    "b232",
    vjp_grouped(False),
    I64,
    "apply_vjp",
    "The gradient of the odd channels keeps the forward sign of the sine (dy2 cos + dy1 sin instead of "
    "dy2 cos - dy1 sin); even channels are right.",
    "vjp-one-sign",
    "negate the sine in both lines",
    vjp_grouped(True),
)


# right ones
def loops(x, positions):
    out = x.astype(np.float64)
    p = (
        np.broadcast_to(np.asarray(positions), (x.shape[0], x.shape[2]))
        if np.ndim(positions) < 3
        else positions
    )
    for b in range(x.shape[0]):
        for s in range(x.shape[2]):
            z = x[b, :, s, :32].astype(np.float64) + 1j * x[b, :, s, 32:]
            z = z * np.exp(1j * float(p[b, s]) * W64)
            out[b, :, s, :32], out[b, :, s, 32:] = z.real, z.imag
    return out.astype(x.dtype)


case(
    "b233",
    loops,
    H64,
    "apply",
    "Right: loops over rows and tokens, half-split pairs as complex numbers.",
    "right",
    right=True,
)


def matrices(x, positions):
    a = angles(positions, W64)
    c, s = np.cos(a), np.sin(a)
    R = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)  # (..., P, 2, 2)
    y = np.einsum("...pij,...pj->...pi", R, x.reshape(*x.shape[:-1], 32, 2).astype(float))
    return y.reshape(x.shape).astype(x.dtype)


case(
    "b234",
    matrices,
    I64,
    "apply",
    "Right: an explicit 2 x 2 matrix for every pair.",
    "right",
    right=True,
)


def both_permuted(q, k, q_positions, k_positions):
    def one(x, p):
        y = turn(x, angles(p, W64), "interleaved")
        return np.concatenate([y[..., 0::2], y[..., 1::2]], -1)

    return one(q, q_positions), one(k, k_positions)


case(
    "b235",
    both_permuted,
    RoPE(64, layout="interleaved", output_layout="half"),
    "apply_qk",
    "Right: reads interleaved pairs and writes them half-split, as the declaration says (DeepSeek-V3).",
    "right",
    right=True,
)
case(
    "b236",
    calls_of(Grown, True),
    H64,
    "calls",
    "Right: a table that doubles when a call needs more rows.",
    "right",
    right=True,
)
case(
    "b237",
    cache("ok"),
    DYN,
    "key_cache",
    "Right: keys are cached unrotated and rotated at the end.",
    "right",
    right=True,
)
case(
    "b238",
    torch_rope(False),
    H64,
    "apply",
    "Right: torch, float16 x, rotated in float32.",
    "right",
    right=True,
    settings=dict(backend="torch", dtype="float16"),
)
