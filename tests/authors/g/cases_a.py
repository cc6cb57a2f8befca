"""Rotations: surface apply (RoPE, schedules, several axes, mixed)."""
import numpy as np

from posenc_ref import (DynamicNTK, LinearScaling, LongRoPE, MixedRoPE, MultiAxisRoPE, RoPE, YaRN)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def lift(p, x):  # positions (S,), (B, S) or x.shape[:-1] -> broadcastable to x[..., :1]
    p = np.asarray(p, np.float64)
    if p.ndim == 2 and x.ndim == 4:
        p = p[:, None, :]
    return p[..., None]


def freqs(d, base=10000.0):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def half(x, cos, sin):
    n = x.shape[-1] // 2
    a, b = x[..., :n], x[..., n:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def inter(x, cos, sin):
    out = np.empty(x.shape, np.float64)
    a, b = x[..., 0::2], x[..., 1::2]
    out[..., 0::2], out[..., 1::2] = a * cos - b * sin, b * cos + a * sin
    return out.astype(x.dtype)


# ---- g001
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions)
        if bug and p.dtype.kind in "iu":
            p = p.astype(np.int64).astype(np.int32)
        a = lift(p, x) * freqs(64)
        return half(x, np.cos(a), np.sin(a))
    return apply
case("g001", make, RoPE(64, layout="half"), "apply",
     "Integer positions are cast to int32, so positions from 2**31 on wrap round to negative ones.",
     "int32-positions", "keep int64 positions (or go to float64 at once)")


# ---- g002
def make(bug):
    TILE = 32
    w = freqs(128, 500000.0)

    def apply(x, positions):
        p = np.broadcast_to(lift(positions, x)[..., 0], x.shape[:-1])
        out = np.empty_like(x)
        S = x.shape[-2]
        for t in range(0, S, TILE):
            n = min(TILE, S - t)
            at = p[..., :n] if bug and n < TILE and t else p[..., t:t + n]
            a = at[..., None] * w
            out[..., t:t + n, :] = inter(x[..., t:t + n, :], np.cos(a), np.sin(a))
        return out
    return apply
case("g002", make, RoPE(128, layout="interleaved", base=500000.0), "apply",
     "Tiles of 32 tokens: the last, incomplete tile (S % 32 tokens after a full one) takes the positions of the first tokens of the sequence instead of its own.",
     "tail-tile-positions", "index positions with the tile's start in the tail too")


# ---- g003
def make(bug):
    w = freqs(24)

    def apply(x, positions):
        a = lift(positions, x) * w
        out = x.copy()
        out[..., :24] = half(x[..., :24], np.cos(a), np.sin(a))
        if bug and x.ndim == 4:
            out[..., 24:] = x[:, :1, :, 24:]
        return out
    return apply
case("g003", make, RoPE(64, layout="half", rotary_dim=24), "apply",
     "Partial rotary: the channels that pass through (24 to 63) are copied from head 0 into every head.",
     "pass-through-head0", "copy each head's own pass-through channels")


# ---- g004
def mrope(bug, sections, choose, D=128, base=1e6):
    w = freqs(D, base)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        each = np.stack([np.broadcast_to(lift(p[a], x)[..., 0], x.shape[:-1]) for a in range(3)])
        axis = choose(bug)
        ang = np.moveaxis(each[axis], 0, -1) * w
        return half(x, np.cos(ang), np.sin(ang))
    return apply


def make(bug):
    return mrope(bug, (16, 24, 24), lambda b: np.repeat([0, 2, 1] if b else [0, 1, 2], [16, 24, 24]))
case("g004", make, MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6), "apply",
     "M-RoPE: pairs 16-39 turn by the width position and 40-63 by the height; height and width sections are exchanged (text tokens are right).",
     "mrope-hw-exchanged", "order the sections time, height, width")


# ---- g005
def make(bug):
    def choose(b):
        axis = np.zeros(64, int)
        for a in (1, 2):
            axis[a:(64 if b else 3 * 20):3] = a
        return axis
    return mrope(bug, (24, 20, 20), choose)
case("g005", make, MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=1e6),
     "apply", "Interleaved M-RoPE: the stride-3 assignment of height and width runs on to the last pair, so pairs 61 and 62 follow height and width where they belong to time (sections 24, 20, 20).",
     "mrope-interleave-tail", "stop the strided slices at 3 * sections[a]")


# ---- g006
def make(bug):
    w = freqs(32, 100.0)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p])
        y, xx = (lift(p[a], x) for a in (0, 1))
        second = freqs(64, 100.0)[16:] if bug else w
        y, xx = np.broadcast_arrays(y * w, xx * second)
        a = np.concatenate([y, xx], -1)
        return inter(x, np.cos(a), np.sin(a))
    return apply
case("g006", make, MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart", base=100.0), "apply",
     "2-D axial RoPE: the width half uses frequencies 16 .. 31 of a 64-channel table (it goes on where a global table would be) instead of restarting at frequency 1.",
     "axial-second-axis-spacing", "use the same 16 frequencies base**(-i/16) for both axes")

# ---- g007
_W = np.random.default_rng(7).normal(0, 0.3, (4, 2, 16))


def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p])
        weight = _W[::-1] if bug else _W
        out = np.empty_like(x)
        for h in range(x.shape[1]):
            one = x[:, h]
            a = 0.0
            for ax in range(2):
                q = p[ax][:, h] if p[ax].ndim == 3 else p[ax]
                a = a + q[..., None] * weight[h, ax]
            out[:, h] = half(one, np.cos(a), np.sin(a))
        return out
    return apply
case("g007", make, MixedRoPE(32, _W, layout="half"), "apply",
     "RoPE-Mixed: head h is rotated with the learned frequencies of head H-1-h (the head axis of the weight is reversed).",
     "mixed-heads-reversed", "index the weight with h")


# ---- g008
def make(bug):
    import torch

    def apply(x, positions):
        w = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
        p = positions.to(torch.float64)
        if bug:
            p = positions.to(torch.bfloat16).to(torch.float64)
        if p.ndim == 2:
            p = p[:, None]
        a = p[..., None] * w
        c, s = a.cos(), a.sin()
        x1, x2 = x.double().chunk(2, -1)
        return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1).to(x.dtype)
    return apply
case("g008", make, RoPE(64, layout="half"), "apply",
     "Positions are cast to bfloat16 (x's dtype) before the outer product, so positions above 256 are rounded to 8 bits; the frequencies are exact.",
     "bf16-positions", "keep positions in float32/float64 until the cosine", backend="torch", dtype="bfloat16")


# ---- g009
def make(bug):
    import torch

    def apply(x, positions):
        w = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
        if bug:
            w = w.half().double()
        p = positions.to(torch.float64)
        if p.ndim == 2:
            p = p[:, None]
        z = torch.polar(torch.ones((), dtype=torch.float64), p[..., None] * w)
        v = torch.view_as_complex(x.double().reshape(*x.shape[:-1], 32, 2).contiguous())
        return torch.view_as_real(v * z).flatten(-2).to(x.dtype)
    return apply
case("g009", make, RoPE(64, layout="interleaved"), "apply",
     "inv_freq was converted to float16 with the model (.half()), so each frequency is off by up to 2**-11 relatively; angles drift with the position.",
     "fp16-inv-freq", "keep inv_freq in float32", backend="torch", dtype="float16")


# ---- g010
def make(bug):
    def apply(x, positions):
        a = lift(positions, x) * freqs(32)
        src = np.ravel(x, order="K").reshape(x.shape) if bug else np.ascontiguousarray(x)
        return half(src, np.cos(a), np.sin(a))
    return apply
case("g010", make, RoPE(32, layout="half"), "apply",
     "The memory of x is read as if it were contiguous: transposed (strided) inputs are rotated with their elements in the wrong places; contiguous ones are right.",
     "strides-ignored", "honour the strides, or make the input contiguous")


# ---- g011
def make(bug):
    def apply(x, positions):
        p = lift(positions, x)
        out = np.empty_like(x)
        H = x.shape[1]
        for g in range(0, H, 8):
            at = p + (1 if bug and g else 0)
            at = at[:, g:g + 8] if at.ndim == 4 and at.shape[1] > 1 else at
            a = at * freqs(64)
            out[:, g:g + 8] = inter(x[:, g:g + 8], np.cos(a), np.sin(a))
        return out
    return apply
case("g011", make, RoPE(64, layout="interleaved"), "apply",
     "Kernel with groups of 8 heads: the pointer into the table is not reset after the first group, so heads 8 and up are rotated to position p + 1.",
     "heads-from-8-shifted", "reset the row of the table for every group of heads")


# ---- g012
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 2 and x.ndim == 4 and p.shape[0] > 1 and bug:
            p = np.broadcast_to(p[:1], p.shape)
        a = np.einsum("...sc,k->...sk", lift(p, x), freqs(64, 5e5))
        return half(x, np.cos(a), np.sin(a))
    return apply
case("g012", make, RoPE(64, layout="half", base=5e5), "apply",
     "With positions (B, S), batch rows after the first are rotated to the positions of row 0.",
     "batch-row0-positions", "index the positions by batch row")


# ---- g013
def make(bug):
    tau = 6.2832 if bug else 2 * np.pi

    def apply(x, positions):
        a = lift(positions, x) * freqs(64)
        a = a - tau * np.round(a / tau)
        return inter(x, np.cos(a), np.sin(a))
    return apply
case("g013", make, RoPE(64, layout="interleaved"), "apply",
     "Angles are reduced modulo 6.2832 instead of 2 pi: each whole turn adds an error of 1.5e-5 radians, so fast pairs drift with the position.",
     "short-pi-reduction", "reduce with 2*pi in double precision")


# ---- g014
def make(bug):
    def apply(x, positions):
        turns = lift(positions, x) * freqs(64) / (2 * np.pi)
        if bug:
            turns = np.round((turns % 1.0) * 4096) / 4096
        a = 2 * np.pi * (turns % 1.0)
        return half(x, np.cos(a), np.sin(a))
    return apply
case("g014", make, RoPE(64, layout="half"), "apply",
     "The phase is fixed-point with 12 bits: each angle is rounded to a multiple of 2 pi / 4096 before cos and sin.",
     "fixed-point-phase", "keep the phase in float32 or wider")


# ---- g015
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        last = p.max() if p.size else 0
        if bug and p.size and last >= 1:
            p = np.where(p == last, last - 1, p)
        a = lift(p, x) * freqs(64)
        return half(x, np.cos(a), np.sin(a))
    return apply
case("g015", make, RoPE(64, layout="half"), "apply",
     "The table has rows 0 .. max(positions)-1 and lookups are clamped: the token with the largest position of each call gets the row of the position before.",
     "table-row-short", "make max(positions) + 1 rows")


# ---- g016
def make(bug):
    def apply(x, positions):
        p = lift(positions, x)
        a = (np.floor(p / 4.0) if bug else p / 4.0) * freqs(64)
        return inter(x, np.cos(a), np.sin(a))
    return apply
case("g016", make, RoPE(64, layout="interleaved", scaling=LinearScaling(4.0)), "apply",
     "Position interpolation by integer division: positions are floored to p // 4, so four neighbours share one rotation instead of lying a quarter apart.",
     "linear-floor-division", "divide in floating point")


# ---- g017
_Y = RoPE(64, layout="half", scaling=YaRN(16.0, 4096))
def make(bug):
    w, m = _Y.frequencies(), 0.1 * np.log(16.0) + 1

    def apply(x, positions):
        a = lift(positions, x) * w
        return half(x, m * np.cos(a), np.sin(a) * (1.0 if bug else m))
    return apply
case("g017", make, _Y, "apply", "YaRN's attention factor multiplies cos alone; sin is left without it, so the map is no scaled rotation.",
     "m-on-cos-only", "multiply sin by the attention factor too")

# ---- g018
_S = tuple(1.0 + 0.01 * k for k in range(16))
_L = tuple(2.0 + 0.5 * k for k in range(16))
_LR = RoPE(32, layout="half", scaling=LongRoPE(_S, _L, 64, factor=8.0))
def make(bug):
    m = np.sqrt(1 + np.log(8.0) / np.log(64))

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        n = p.max() + 1 if p.size else 0
        lam = np.array(_L if (n >= 64 if bug else n > 64) else _S)
        a = lift(p, x) * (freqs(32) / lam)
        return half(x, m * np.cos(a), m * np.sin(a))
    return apply
case("g018", make, _LR, "apply", "LongRoPE takes the long factors at a length of exactly L0 = 64 (>= instead of >); all other lengths are right.",
     "longrope-threshold-ge", "switch from L0 + 1 tokens on")


# ---- g019
def make(bug):
    def apply(x, positions):
        a = lift(positions, x) * freqs(16)
        c, s = np.cos(a), np.sin(a)
        part = x[..., 32:]
        a1, a2 = part[..., 0::2], part[..., 1::2]
        if bug:  # re-orders, then treats the halves as already adjacent
            turned = np.concatenate([a1 * c - a2 * s, a2 * c - a1 * s], -1)
        else:
            turned = np.concatenate([a1 * c - a2 * s, a2 * c + a1 * s], -1)
        return np.concatenate([x[..., :32], turned.astype(x.dtype)], -1)
    return apply
case("g019", make, RoPE(48, layout="interleaved", rotary_dim=16, rotary_start=32, output_layout="half"), "apply",
     "In the second output half the sine term is subtracted instead of added (x2 cos - x1 sin): a reflection-like map, not a rotation.",
     "second-half-sign", "x2 cos + x1 sin")

# ---- g020
_D = RoPE(64, layout="half", scaling=DynamicNTK(2.0, 128))
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        n = max((p.max() + 1) if p.size else 0, 128)
        alpha = 2.0 * n / 128 - (2.0 if bug and n > 128 else 1.0)
        base = 10000.0 * alpha ** (64 / 62)
        a = lift(p, x) * freqs(64, base)
        return half(x, np.cos(a), np.sin(a))
    return apply
case("g020", make, _D, "apply", "Dynamic NTK subtracts factor instead of factor - 1 in alpha (alpha = 2L/L0 - 2) for lengths beyond the trained one.",
     "dynamic-ntk-alpha", "alpha = factor * L / L0 - (factor - 1)")


# ---- right ones
def make(bug):
    w = freqs(32)

    def apply(x, positions):
        p = np.broadcast_to(lift(positions, x)[..., 0], x.shape[:-1])
        R = np.zeros((*p.shape, 32, 32))
        k = np.arange(16)
        c, s = np.cos(p[..., None] * w), np.sin(p[..., None] * w)
        R[..., 2 * k, 2 * k], R[..., 2 * k + 1, 2 * k + 1] = c, c
        R[..., 2 * k, 2 * k + 1], R[..., 2 * k + 1, 2 * k] = -s, s
        return np.einsum("...ij,...j->...i", R, x.astype(np.float64)).astype(x.dtype)
    return apply
case("g021", make, RoPE(32, layout="interleaved"), "apply", "Unusual: builds the whole block-diagonal rotation matrix of every token.", "right")


def make(bug):
    w = freqs(64)

    def apply(x, positions):  # tile start and place within the tile are rotated one after the other
        p = lift(positions, x)
        start = np.floor(p / 128) * 128
        z = np.exp(1j * start * w) * np.exp(1j * (p - start) * w)
        v = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * z
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)
    return apply
case("g022", make, RoPE(64, layout="half"), "apply", "Unusual: angle addition, one complex factor for the start of a tile of 128 positions and one for the place within it.", "right")


def make(bug):
    sign = np.where(np.arange(64) < 32, -1.0, 1.0)

    def apply(x, positions):
        a = np.tile(lift(positions, x) * freqs(64, 1e6), 2)
        return (x * np.cos(a) + np.roll(x, 32, -1) * sign * np.sin(a)).astype(x.dtype)
    return apply
case("g023", make, RoPE(64, layout="half", base=1e6), "apply", "Unusual: rotate_half as a roll by d/2 and a vector of signs; full-width tables.", "right")

# Drawn by chance to keep the corpus at its size: sound cases, not part of CASES.
_SPARE = {"g001", "g002", "g010", "g016", "g020"}
SPARE = [c for c in CASES if c["id"] in _SPARE]
CASES = [c for c in CASES if c["id"] not in _SPARE]
