"""Rotary embedding on the surface apply: kernels, tables, caches, precision, scalings."""

import math

import numpy as np

from posenc_ref import (
    DynamicNTK,
    LinearScaling,
    Llama3Scaling,
    LongRoPE,
    NTKScaling,
    RoPE,
    YaRN,
)

CASES = []


def wrong(id, make, encoding, cause, key, remedy, surface="apply", **settings):
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


def good(id, fn, encoding, cause, surface="apply", **settings):
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


def lift(t, x):
    """(S, P) or (B, S, P) tables to the rank of x."""
    return t[:, None] if t.ndim == 3 and x.ndim == 4 else t


def angles(positions, w):
    return np.asarray(positions, np.float64)[..., None] * w


def half(x, cos, sin):
    n = x.shape[-1] // 2
    a, b = x[..., :n].astype(np.float64), x[..., n:].astype(np.float64)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1).astype(x.dtype)


def inter(x, cos, sin):
    out = np.empty(x.shape, np.float64)
    a, b = x[..., 0::2].astype(np.float64), x[..., 1::2].astype(np.float64)
    out[..., 0::2], out[..., 1::2] = a * cos - b * sin, a * sin + b * cos
    return out.astype(x.dtype)


# --- kernel ports -----------------------------------------------------------------------------
def tile_tail(bug, T=64):
    w = freqs(64, 500000.0)

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        cos, sin = np.broadcast_arrays(np.cos(t), np.sin(t))
        y, S = np.empty_like(x), x.shape[-2]
        for s in range(0, S, T):
            e = min(s + T, S)
            at = (
                s - T if bug and s and e - s < T else s
            )  # cos pointer is advanced for full tiles only
            y[..., s:e, :] = half(
                x[..., s:e, :], cos[..., at : at + e - s, :], sin[..., at : at + e - s, :]
            )
        return y

    return fn


wrong(
    "a001",
    tile_tail,
    RoPE(64, layout="half", base=500000.0),
    "In sequences longer than 64 tokens whose length is no multiple of 64, the tokens of the last, partial tile of 64 "
    "take cos and sin of the tile before: they are rotated by the angle of the token 64 places earlier",
    "tile-tail",
    "advance the pointer of cos and sin for the remainder tile too",
)


def head_groups(bug):
    w = freqs(128)

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        y = x.copy()
        H = x.shape[1] if x.ndim == 4 else 1
        for h in range(0, min(H, 8) if bug else H):
            y[:, h : h + 1] = inter(x[:, h : h + 1], np.cos(t), np.sin(t))
        return y

    return fn


wrong(
    "a002",
    head_groups,
    RoPE(128, layout="interleaved"),
    "Only the first 8 heads are rotated; heads 8 and later are returned unchanged (the grid of the kernel has 8 programs "
    "for heads)",
    "heads-past-8",
    "launch over all heads",
)


def flat_tokens(bug):
    w = freqs(64)

    def fn(x, positions):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions, np.float64), (B, S))
        if bug and np.ndim(positions) == 1:
            p = p + S * np.arange(B)[:, None]  # the flat token index is the position
        t = (p.reshape(-1)[:, None] * w)[:, None]  # thd: (T, 1, P)
        flat = x.transpose(0, 2, 1, 3).reshape(B * S, H, D)
        return half(flat, np.cos(t), np.sin(t)).reshape(B, S, H, D).transpose(0, 2, 1, 3)

    return fn


wrong(
    "a003",
    flat_tokens,
    RoPE(64, layout="half"),
    "With shared positions (S,), batch row b is rotated by positions + b * S: the position counter runs on over the "
    "flattened batch instead of starting again in every row; row 0 is right",
    "rows-run-on",
    "do not add b * S: index positions by the token within the row",
)


def one_token(bug):
    w = freqs(64)

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        if bug and x.shape[-2] == 1:  # decode kernel, written for GPT-J
            return inter(x, np.cos(t), np.sin(t))
        return half(x, np.cos(t), np.sin(t))

    return fn


wrong(
    "a004",
    one_token,
    RoPE(64, layout="half"),
    "Calls with a single token (S = 1) pair adjacent channels (interleaved layout); longer calls pair half-split channels as "
    "declared",
    "layout-one-token",
    "use half-split pairs in the decode path too",
)


def odd_heads(bug):
    w = freqs(32, 1e6)

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        cos, sin, y = np.cos(t), np.sin(t), x.copy()
        H = x.shape[1]
        for h in range(0, H - 1, 2):  # two heads per warp
            y[:, h : h + 2] = inter(x[:, h : h + 2], cos, sin)
        if H % 2 and not bug:
            y[:, H - 1 :] = inter(x[:, H - 1 :], cos, sin)
        return y

    return fn


wrong(
    "a005",
    odd_heads,
    RoPE(32, layout="interleaved", base=1e6),
    "With an odd number of heads, the last head is not rotated, because heads are processed two at a time",
    "odd-last-head",
    "process the remaining head",
)


def lanes(bug, V=16):
    w = freqs(80)

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        y, P = x.copy(), 40
        for k in range(0, P - P % V if bug else P, V):
            v = slice(k, min(k + V, P))
            a, b = (
                x[..., v].astype(np.float64),
                x[..., v.start + P : v.stop + P].astype(np.float64),
            )
            c, s = np.cos(t[..., v]), np.sin(t[..., v])
            y[..., v], y[..., v.start + P : v.stop + P] = a * c - b * s, b * c + a * s
        return y

    return fn


wrong(
    "a006",
    lanes,
    RoPE(80, layout="half"),
    "Pairs 32 to 39 of 40 are not rotated: pairs are processed in vectors of 16 and the remainder of 8 pairs is skipped",
    "lane-remainder",
    "add a scalar loop for the remaining pairs",
)


def strided(bug):
    w = freqs(64)

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        z = x.ravel(order="K" if bug else "C").reshape(x.shape)  # raw memory order
        return half(z, np.cos(t), np.sin(t))

    return fn


wrong(
    "a007",
    strided,
    RoPE(64, layout="half"),
    "Non-contiguous x is read in memory order, as if it were contiguous, so tokens, heads or channels are mixed up; contiguous "
    "x is right",
    "strides-ignored",
    "use the strides of x, or make it contiguous first",
)


# --- tables -----------------------------------------------------------------------------------
class Table:
    def __init__(self, rows, clamp):
        t = np.arange(rows, dtype=np.float64)[:, None] * freqs(64)
        self.cos, self.sin, self.clamp = np.cos(t), np.sin(t), clamp

    def __call__(self, x, positions):
        p = np.asarray(positions)
        if self.clamp:
            p = np.minimum(p, len(self.cos) - 1)
        t = angles(p, freqs(64))
        c, s = np.cos(t), np.sin(t)
        known = (p >= 0) & (p < len(self.cos)) & (p == np.floor(p))
        c[known], s[known] = self.cos[p[known].astype(int)], self.sin[p[known].astype(int)]
        return half(x, lift(c, x), lift(s, x))


wrong(
    "a008",
    lambda bug: Table(4095, bug),
    RoPE(64, layout="half"),
    "Positions from 4095 on are clamped to 4094, the last row of a table that is one row short of 4096: they all have the "
    "same angle",
    "table-clamp",
    "compute angles beyond the table instead of clamping the index",
)


def overflow32(bug):
    w = freqs(64, 500000.0)

    def fn(x, positions):
        p = np.asarray(positions)
        if bug and p.dtype.kind in "iu":  # byte address of the row, 4096 bytes each, in int32
            with np.errstate(over="ignore"):
                p = (p.astype(np.int32) * np.int32(4096)) // np.int32(4096)
        t = lift(angles(p, w), x)
        return inter(x, np.cos(t), np.sin(t))

    return fn


wrong(
    "a009",
    overflow32,
    RoPE(64, layout="interleaved", base=500000.0),
    "From position 524288 on, the row address position * 4096 overflows int32, so the angle is that of position - 1048576",
    "int32-overflow",
    "compute addresses in int64",
)


def power32(bug):
    z = np.exp(1j * freqs(64))

    def fn(x, positions):
        p = np.asarray(positions, np.float64)[..., None]
        if bug:
            r = z.astype(np.complex64) ** p.astype(np.complex64)
        else:
            r = np.exp(1j * p * freqs(64))
        r = lift(r, x)
        return half(x, r.real.astype(np.float64), r.imag.astype(np.float64))

    return fn


wrong(
    "a010",
    power32,
    RoPE(64, layout="half"),
    "The rotation is a power of the complex64 number exp(i theta): the rounding of theta to float32 and of the power grows "
    "with the position, to large errors at thousands of positions",
    "complex64-power",
    "compute the angle p * theta in float64 (or at least as a float32 product) and take cos and sin once",
)


def few_digits(bug):
    ln = 9.21 if bug else math.log(10000.0)
    w = np.exp(-np.arange(0, 64, 2) * (ln / 64))

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        return inter(x, np.cos(t), np.sin(t))

    return fn


wrong(
    "a011",
    few_digits,
    RoPE(64, layout="interleaved"),
    "ln(10000) is written as 9.21, so the base is exp(9.21) = 9996.6 instead of 10000: all frequencies but the first are "
    "slightly too high",
    "ln-few-digits",
    "use log(base) to full precision",
)


def reduce_pi(bug):
    w = freqs(64)
    turn = 2 * (3.1416 if bug else math.pi)

    def fn(x, positions):
        t = np.fmod(angles(positions, w), turn)
        t = lift(t, x)
        return half(x, np.cos(t), np.sin(t))

    return fn


wrong(
    "a012",
    reduce_pi,
    RoPE(64, layout="half"),
    "Angles are reduced modulo 2 * 3.1416 instead of 2 pi, so fast pairs have an angle error of 1.5e-5 per whole turn",
    "pi-few-digits",
    "use pi in full precision for the range reduction",
)


def lut(bug, N=4096):
    grid = np.sin(2 * np.pi * np.arange(N + N // 4) / N)
    w = freqs(64)

    def fn(x, positions):
        u = angles(positions, w) / (2 * np.pi) * N
        i = np.floor(u).astype(np.int64)
        f = u - i
        i %= N
        if bug:
            s, c = grid[i], grid[i + N // 4]
        else:  # angle addition from the grid point
            r = f * 2 * np.pi / N
            s = grid[i] * np.cos(r) + grid[i + N // 4] * np.sin(r)
            c = grid[i + N // 4] * np.cos(r) - grid[i] * np.sin(r)
        return half(x, lift(c, x), lift(s, x))

    return fn


wrong(
    "a013",
    lut,
    RoPE(64, layout="half"),
    "cos and sin are looked up in a table of 4096 angles per turn, rounded down without interpolation: every angle is up to "
    "0.0015 rad too small",
    "angle-quantised",
    "interpolate, or evaluate cos and sin",
)

# --- partial rotary ---------------------------------------------------------------------------


def partial(bug, kind):
    R, D = 32, 96
    m = 0.1 * math.log(8.0) + 1
    w = (
        RoPE(D, layout="half", rotary_dim=R, scaling=YaRN(8.0, 4096)).frequencies()
        if kind == "m"
        else freqs(R)
    )

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        if kind == "m":
            rest = x[..., R:] * np.asarray(m if bug else 1, x.dtype)
            return np.concatenate([half(x[..., :R], m * np.cos(t), m * np.sin(t)), rest], -1)
        y, off = x.copy(), (D // 2 if bug else R // 2)
        a, b = x[..., : R // 2].astype(np.float64), x[..., off : off + R // 2].astype(np.float64)
        y[..., : R // 2] = a * np.cos(t) - b * np.sin(t)
        y[..., off : off + R // 2] = b * np.cos(t) + a * np.sin(t)
        return y

    return fn


wrong(
    "a014",
    lambda bug: partial(bug, "m"),
    RoPE(96, layout="half", rotary_dim=32, scaling=YaRN(8.0, 4096)),
    "The 64 channels that are not rotated are multiplied by YaRN's attention factor 1.208 too; they should pass unchanged",
    "m-on-passthrough",
    "multiply cos and sin by m, not the whole head",
)
wrong(
    "a015",
    lambda bug: partial(bug, "pair"),
    RoPE(96, layout="half", rotary_dim=32),
    "The partner of channel k is k + 48, half of the head, instead of k + 16, half of the 32 rotated channels; channels "
    "16 to 31 are not rotated and 48 to 63 are",
    "partner-half-head",
    "split the rotated slice, not the head",
)


# --- scalings ---------------------------------------------------------------------------------
def yarn(bug, kind):
    w = RoPE(64, layout="half", scaling=YaRN(16.0, 2048)).frequencies()
    m = 0.1 * math.log(16.0) + 1

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        c, s = np.cos(t) * m, np.sin(t) * m
        if bug and kind == "cos":
            s = s / m
        if bug and kind == "twice":
            return half(half(x, c, s), np.float64(m), np.float64(0))
        return half(x, c, s)

    return fn


wrong(
    "a016",
    lambda bug: yarn(bug, "cos"),
    RoPE(64, layout="half", scaling=YaRN(16.0, 2048)),
    "YaRN's attention factor 1.277 multiplies cos alone; sin lacks it, so the map of a pair is no scaled rotation",
    "m-cos-only",
    "multiply sin by the attention factor as well",
)


def low_high(bug):
    d, base, L0, s = 128, 10000.0, 4096, 4.0

    def c(r):
        return d * math.log(L0 / (2 * math.pi * r)) / (2 * math.log(base))

    lo, hi = (math.ceil(c(32)), math.floor(c(1))) if bug else (math.floor(c(32)), math.ceil(c(1)))
    g = np.clip((np.arange(d // 2) - lo) / (hi - lo), 0, 1)
    f = freqs(d)
    w, m = f * (1 - g) + f / s * g, 0.1 * math.log(s) + 1

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        return half(x, m * np.cos(t), m * np.sin(t))

    return fn


wrong(
    "a017",
    low_high,
    RoPE(128, layout="half", scaling=YaRN(4.0, 4096)),
    "The ends of YaRN's ramp are rounded inwards (ceil of the lower end, floor of the upper one) instead of outwards, so the "
    "frequencies of the pairs in the ramp are off",
    "ramp-rounding",
    "floor the lower end and ceil the upper one",
)


def llama3(bug):
    f, L0 = freqs(128, 500000.0), 8192
    t = np.clip((L0 * f / (2 * np.pi) - 1) / (4 - 1), 0, 1)
    mid = (t > 0) & (t < 1)
    smooth = np.where(mid, 1 - t, t) if bug else t
    w = f * ((1 - smooth) / 8 + smooth)

    def fn(x, positions):
        a = lift(angles(positions, w), x)
        return half(x, np.cos(a), np.sin(a))

    return fn


wrong(
    "a018",
    llama3,
    RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)),
    "Between the two thresholds the smooth factor is reversed (1 - t instead of t): medium frequencies near the fast end are "
    "divided by 8 and those near the slow end kept; pairs outside the band are right",
    "smooth-reversed",
    "use (1 - t) / factor + t with t rising with the number of turns",
)


SHORT = tuple(1 + 0.01 * k for k in range(24))
LONG = tuple(1.5 + 0.6 * k for k in range(24))


def longrope(bug):
    f, L0 = freqs(48), 256
    m = math.sqrt(1 + math.log(16) / math.log(L0))

    def fn(x, positions):
        n = int(np.max(positions, initial=0)) + 1
        over = n >= L0 if bug else n > L0
        t = lift(angles(positions, f / np.array(LONG if over else SHORT)), x)
        return half(x, m * np.cos(t), m * np.sin(t))

    return fn


wrong(
    "a019",
    longrope,
    RoPE(48, layout="half", scaling=LongRoPE(SHORT, LONG, 256, factor=16.0)),
    "The long factors are used from a length of exactly 256 = original_max_position on (>=); they should start at 257 (>)",
    "longrope-threshold",
    "switch lists when seq_len > original_max_position",
)


def dynamic(bug):
    d, L0, s = 64, 128, 2.0

    def fn(x, positions):
        n = int(np.max(positions, initial=0)) + (0 if bug else 1)
        alpha = s * max(n, L0) / L0 - (s - 1)
        w = (10000.0 * alpha ** (d / (d - 2))) ** (-np.arange(0, d, 2) / d)
        t = lift(angles(positions, w), x)
        return half(x, np.cos(t), np.sin(t))

    return fn


wrong(
    "a020",
    dynamic,
    RoPE(64, layout="half", scaling=DynamicNTK(2.0, 128)),
    "Dynamic NTK takes the largest position as the length instead of the largest position + 1, so alpha beyond 128 tokens is "
    "that of a sequence one token shorter",
    "dynamic-length-off-by-one",
    "length = max(position) + 1",
)


def ntk_dim(bug):
    D, R, s = 128, 32, 4.0
    e = D / (D - 2) if bug else R / (R - 2)
    w = freqs(R, 10000.0 * s**e)

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        return np.concatenate([inter(x[..., :R], np.cos(t), np.sin(t)), x[..., R:]], -1)

    return fn


wrong(
    "a021",
    ntk_dim,
    RoPE(128, layout="interleaved", rotary_dim=32, scaling=NTKScaling(4.0)),
    "The exponent d/(d-2) of the NTK base uses head_dim 128 instead of rotary_dim 32 (1.0159 instead of 1.0667)",
    "ntk-exponent-head-dim",
    "use rotary_dim in the exponent",
)


def bf16_round(v):
    b = np.asarray(v, np.float32).view(np.uint32)
    return (
        ((b + 0x7FFF + ((b >> 16) & 1)) & 0xFFFF0000)
        .astype(np.uint32)
        .view(np.float32)
        .astype(np.float64)
    )


def inv_bf16(bug):
    w = freqs(64, 1e6)
    w = bf16_round(w) if bug else w

    def fn(x, positions):
        t = lift(angles(positions, w), x)
        return half(x, np.cos(t), np.sin(t))

    return fn


wrong(
    "a022",
    inv_bf16,
    RoPE(64, layout="half", base=1e6),
    "The buffer inv_freq was cast to bfloat16 with the model: every frequency has a relative error of up to 0.4 %",
    "inv-freq-bf16",
    "keep inv_freq in float32",
)


def interp_floor(bug):
    w = freqs(64)

    def fn(x, positions):
        p = np.asarray(positions)
        p = p // 4 if bug else p / 4.0
        t = lift(angles(p, w), x)
        return half(x, np.cos(t), np.sin(t))

    return fn


wrong(
    "a023",
    interp_floor,
    RoPE(64, layout="half", scaling=LinearScaling(4.0)),
    "Positions are divided by 4 with integer division, so four consecutive tokens share one angle",
    "interp-floor-division",
    "use true division, or scale the frequencies",
)


# --- dtype-dependent --------------------------------------------------------------------------
def half_only(bug):
    w = freqs(64)

    def fn(x, positions):
        t = angles(positions, w)
        if bug and x.dtype == np.float16:
            t = (np.asarray(positions).astype(np.float16)[..., None] * w.astype(np.float16)).astype(
                np.float64
            )
        t = lift(t, x)
        return half(x, np.cos(t), np.sin(t))

    return fn


wrong(
    "a024",
    half_only,
    RoPE(64, layout="half"),
    "For float16 input the positions, frequencies and their product are float16: positions above 2048 are rounded, angles "
    "have an error of up to 2**-11 of their size, and positions above 65504 give NaN",
    "angles-float16",
    "compute angles in float32 whatever the dtype of x",
    dtype="float16",
)


def f64_only(bug):
    w = freqs(64)

    def fn(x, positions):
        t = angles(positions, w)
        if bug:
            t = t.astype(np.float32)
        t = lift(t, x)
        return half(x, np.cos(t), np.sin(t)).astype(x.dtype)

    return fn


wrong(
    "a025",
    f64_only,
    RoPE(64, layout="half"),
    "Angles are rounded to float32 although x is float64: at large positions the error is up to 2**-24 of the angle, far above "
    "float64 rounding",
    "angles-float32-in-float64",
    "compute angles in float64 for float64 input",
    dtype="float64",
)


# --- right ------------------------------------------------------------------------------------
def complex_form(x, positions):
    z = x.astype(np.float64).reshape(*x.shape[:-1], -1, 2)
    z = (z[..., 0] + 1j * z[..., 1]) * lift(np.exp(1j * angles(positions, freqs(64))), x)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


good(
    "a026",
    complex_form,
    RoPE(64, layout="interleaved"),
    "complex numbers: view as complex, multiply by exp(i angle), as Meta",
)


def matrix_form(x, positions):
    p = np.asarray(positions, np.float64)
    n = 16
    t = p[..., None] * freqs(2 * n)
    m = np.zeros((*p.shape, 2 * n, 2 * n))
    k = np.arange(n)
    m[..., k, k] = m[..., k + n, k + n] = np.cos(t)
    m[..., k, k + n], m[..., k + n, k] = -np.sin(t), np.sin(t)
    if m.ndim == 4:
        return np.einsum("bsij,bhsj->bhsi", m, x.astype(np.float64)).astype(x.dtype)
    return np.einsum("sij,...sj->...si", m, x.astype(np.float64)).astype(x.dtype)


good(
    "a027",
    matrix_form,
    RoPE(32, layout="half"),
    "a whole (D, D) block matrix for every position, multiplied by einsum",
)


class TwoTables:
    """cos and sin of p = 1024 hi + lo from two small tables, by angle addition."""

    def __init__(self):
        w = freqs(64)
        self.lo = np.exp(1j * np.arange(1024)[:, None] * w)
        self.hi = np.exp(1j * 1024.0 * np.arange(1025)[:, None] * w)

    def __call__(self, x, positions):
        p = np.asarray(positions)
        if p.dtype.kind == "f" or p.size and (p.min() < 0 or p.max() >= 2**20):
            r = np.exp(1j * angles(p, freqs(64)))
        else:
            r = self.hi[p // 1024] * self.lo[p % 1024]
        r = lift(r, x)
        return half(x, r.real, r.imag)


good(
    "a028",
    TwoTables(),
    RoPE(64, layout="half"),
    "two tables of 1024 rows, multiplied: position = 1024 hi + lo, in complex128",
)


def hf_float32(x, positions):
    inv = (1.0 / (500000.0 ** (np.arange(0, 128, 2, dtype=np.float32) / np.float32(128)))).astype(
        np.float32
    )
    t = np.asarray(positions, np.float32)[..., None] * inv
    emb = lift(np.concatenate([t, t], -1), x)
    a, b = np.split(x, 2, -1)
    return (
        x * np.cos(emb).astype(x.dtype) + np.concatenate([-b, a], -1) * np.sin(emb).astype(x.dtype)
    ).astype(x.dtype)


good(
    "a029",
    hf_float32,
    RoPE(128, layout="half", base=500000.0),
    "Hugging Face's formula in float32 throughout: inv_freq, angles, cos, sin and the products",
)


def trailing(x, positions):
    t = lift(angles(positions, freqs(64)), x)
    y = np.array(x)
    y[..., 128:] = inter(np.ascontiguousarray(x[..., 128:]), np.cos(t), np.sin(t))
    return y


good(
    "a030",
    trailing,
    RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128),
    "latent attention: the last 64 of 192 channels are rotated, the others copied",
)
