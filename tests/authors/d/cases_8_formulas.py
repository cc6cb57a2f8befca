"""Cases d019-d031, d183, d184: one rotary axis, formulas and number formats."""

import numpy as np

from posenc_ref import LinearScaling, RoPE, YaRN

CASES = []


def W(id, make, encoding, surface, key, cause, remedy, **settings):
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


def R(id, fn, encoding, surface, cause, **settings):
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
    return base ** (-np.arange(0, d, 2) / d)


def angles(positions, w):
    """(S,) -> (S, P); (B, S) -> (B, 1, S, P)."""
    a = np.asarray(positions, np.float64)[..., None] * w
    return a[:, None] if a.ndim == 3 else a


def tab(positions, w, dtype):
    a = angles(positions, w)
    return np.cos(a).astype(dtype), np.sin(a).astype(dtype)


def half(x, c, s):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def inter(x, c, s):
    y = np.empty_like(x)
    a, b = x[..., 0::2], x[..., 1::2]
    y[..., 0::2], y[..., 1::2] = a * c - b * s, b * c + a * s
    return y


# ---------------------------------------------------------------- formulas


def d019(bug):
    def rot(x, positions):
        c, s = tab(positions, freqs(64), x.dtype)
        cc = np.repeat(c, 2, axis=-1) if bug else np.concatenate([c, c], -1)
        ss = np.concatenate([s, s], -1)
        a, b = np.split(x, 2, -1)
        return x * cc + np.concatenate([-b, a], -1) * ss

    return rot


W(
    "d019",
    d019,
    RoPE(64, layout="half"),
    "apply",
    "cos-expansion",
    "The cosines are repeated per channel as for interleaved pairs (f0, f0, f1, f1, ...) while sines "
    "and rotate_half are half-split: channel c multiplies cos of pair c // 2 instead of c mod 32.",
    "Expand cos by concatenation as sin.",
)


def d020(bug):
    def rot(x, positions):
        k = np.arange(32)
        e = (2 * k) // 64 * 1.0 if bug else 2 * k / 64
        if bug:
            e = e + (k > 0)  # ceil of the integer quotient
        return inter(x, *tab(positions, 10000.0**-e, x.dtype))

    return rot


W(
    "d020",
    d020,
    RoPE(64, layout="interleaved"),
    "apply",
    "integer-exponent",
    "The exponent 2k/d is computed in integer division (rounded up): pair 0 has frequency 1, all other "
    "pairs have 1/base.",
    "Divide in floating point.",
)


def d021(bug):
    def rot(x, positions):
        w = freqs(64)
        w = w.astype(np.float32) if bug else w
        a = angles(positions, w.astype(np.float64))
        return half(x, np.cos(a), np.sin(a))

    return rot


W(
    "d021",
    d021,
    RoPE(64, layout="half"),
    "apply",
    "float32-inv-freq",
    "For float64 inputs the inverse frequencies are float32 numbers (relative error 3e-8), though "
    "angles, cos and sin are float64: the angle error is 3e-8 of the angle.",
    "Compute inv_freq in float64.",
    dtype="float64",
)


def d022(bug):
    def rot(x, positions):  # x (B, S, H, D)
        p = np.asarray(positions)
        axis = 2 if bug and x.shape[2] == p.shape[-1] else 1
        a = p[..., None] * freqs(32)
        if a.ndim == 2:
            shape = [1, 1, 1, 16]
            shape[axis] = a.shape[0]
            a = a.reshape(shape)
        else:
            a = a[:, :, None]
        return half(x, np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype))

    return rot


W(
    "d022",
    d022,
    RoPE(32, layout="half"),
    "apply",
    "axis-guess",
    "The sequence axis is guessed by its size, heads first: for x (B, S, H, D) with H = S the head "
    "number is taken for the position; other sizes are right.",
    "Always take axis 1 as the sequence.",
    tensor_layout="bshd",
)


def d023(bug):
    def rot(x, positions):
        p = np.asarray(positions)
        p = np.abs(p) if bug else p
        return inter(x, *tab(p, freqs(64), x.dtype))

    return rot


W(
    "d023",
    d023,
    RoPE(64, layout="interleaved"),
    "apply",
    "negative-positions",
    "Negative positions are replaced by their absolute value, so a token at -p is rotated by +p; "
    "positions from 0 on are right.",
    "Do not take the absolute value of positions.",
)


def d024(bug):
    def rot(x, positions):
        c, s = tab(positions, freqs(64), x.dtype)
        y = x.copy()
        for k in range(32):
            if bug:
                y[..., k] = y[..., k] * c[..., k] - y[..., k + 32] * s[..., k]
                y[..., k + 32] = y[..., k + 32] * c[..., k] + y[..., k] * s[..., k]
            else:
                a, b = y[..., k].copy(), y[..., k + 32].copy()
                y[..., k] = a * c[..., k] - b * s[..., k]
                y[..., k + 32] = b * c[..., k] + a * s[..., k]
        return y

    return rot


W(
    "d024",
    d024,
    RoPE(64, layout="half"),
    "apply",
    "overwritten-operand",
    "The first channel of a pair is overwritten before the second is computed, so the second channel "
    "is x2 cos + y1 sin with the already rotated y1 instead of x1.",
    "Keep x1 in a temporary.",
)


def d025(bug):
    def rot(x, positions):
        p = np.asarray(positions, np.float64) / 4.0
        p = np.floor(p) if bug else p
        return half(x, *tab(p, freqs(64), x.dtype))

    return rot


W(
    "d025",
    d025,
    RoPE(64, layout="half", scaling=LinearScaling(4.0)),
    "apply",
    "integer-interpolation",
    "Position interpolation divides positions by 4 as integers: positions 4n .. 4n+3 are all rotated "
    "by n instead of n + 1/4, 1/2, 3/4.",
    "Divide in floating point.",
)


def d026(bug):
    m = 0.1 * np.log(8.0) + 1.0
    enc = RoPE(64, layout="half", scaling=YaRN(8.0, 2048))

    def rot(x, positions):
        c, s = tab(positions, enc.frequencies(), np.float64)
        c, s = (c * m).astype(x.dtype), ((1.0 if bug else m) * s).astype(x.dtype)
        return half(x, c, s)

    return rot


W(
    "d026",
    d026,
    RoPE(64, layout="half", scaling=YaRN(8.0, 2048)),
    "apply",
    "m-on-cos",
    "YaRN's attention factor m = 1.208 multiplies the cosines but not the sines: right norm at "
    "position 0, and a result that is no scaled rotation elsewhere.",
    "Multiply cos and sin by m.",
)


def d183(bug):
    def rot(x, positions):
        p = np.asarray(positions)
        if p.dtype.kind in "iu":  # Q12 positions
            q = p.astype(np.int64) * 4096
            p = (q.astype(np.int32) if bug else q) / 4096.0
        return inter(x, *tab(p, freqs(32), x.dtype))

    return rot


W(
    "d183",
    d183,
    RoPE(32, layout="interleaved"),
    "apply",
    "int32-overflow",
    "Positions are held in fixed point with 12 fractional bits in int32: from position 524288 = 2**19 "
    "on they wrap to negative numbers; right below.",
    "Use int64, or no fixed point.",
)


def d184(bug):
    def rot(x, positions):
        p = np.asarray(positions)
        p = p.astype(np.float32).astype(np.float64) if bug else p
        a = angles(p, freqs(64))
        return half(x, np.cos(a), np.sin(a))

    return rot


W(
    "d184",
    d184,
    RoPE(64, layout="half"),
    "apply",
    "float32-positions",
    "For float64 inputs positions pass through float32: integers past 2**24 are rounded to multiples "
    "of 2 or more, and fractional positions such as 0.1 are rounded to 24 bits.",
    "Keep positions in int64 or float64.",
    dtype="float64",
)

# ---------------------------------------------------------------- right ones


def d027(x, positions):
    p = np.asarray(positions, np.float64)
    w = freqs(16)
    eye = np.zeros(p.shape + (16, 16))
    k = np.arange(8)
    a = p[..., None] * w
    eye[..., 2 * k, 2 * k] = eye[..., 2 * k + 1, 2 * k + 1] = np.cos(a)
    eye[..., 2 * k + 1, 2 * k] = np.sin(a)
    eye[..., 2 * k, 2 * k + 1] = -np.sin(a)
    spec = "bsij,bhsj->bhsi" if p.ndim == 2 else "sij,bhsj->bhsi"
    return np.einsum(spec, eye, x.astype(np.float64)).astype(x.dtype)


R(
    "d027",
    d027,
    RoPE(16, layout="interleaved"),
    "apply",
    "Builds the block-diagonal rotation matrix of every position and multiplies by einsum.",
)


def d028(x, positions):
    p = np.asarray(positions)
    w = freqs(64)
    if (
        p.ndim == 1
        and p.dtype.kind == "i"
        and p.size
        and np.array_equal(p, p[0] + np.arange(p.size))
    ):
        turn = np.empty((p.size, 32), complex)
        for s0 in range(0, p.size, 128):  # restart the recurrence in every block of 128 tokens
            n = min(128, p.size - s0)
            z = np.tile(np.exp(1j * w), (n, 1))
            z[0] = np.exp(1j * w * p[s0])
            turn[s0 : s0 + n] = np.cumprod(z, axis=0)
    else:
        turn = np.exp(1j * p[..., None] * w)
        turn = turn[:, None] if turn.ndim == 3 else turn
    z = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * turn
    return np.concatenate([z.real, z.imag], -1).astype(x.dtype)


R(
    "d028",
    d028,
    RoPE(64, layout="half"),
    "apply",
    "Gets the turns of consecutive positions by a running complex product in float64, restarted in "
    "every block of 128 tokens; other positions directly.",
)


def _torch_complex():
    import torch

    def rot(x, positions):
        w = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
        a = torch.as_tensor(positions).double()[..., None] * w
        z = torch.polar(torch.ones_like(a), a).to(torch.complex64)
        z = z[:, None] if z.ndim == 3 else z
        v = torch.view_as_complex(x.float().reshape(*x.shape[:-1], 32, 2).contiguous())
        return torch.view_as_real(v * z).flatten(-2).to(x.dtype)

    return rot


R(
    "d029",
    _torch_complex(),
    RoPE(64, layout="interleaved"),
    "apply",
    "Meta's complex form in bfloat16: complex128 angles, complex64 product, one rounding at the end.",
    backend="torch",
    dtype="bfloat16",
)


class TwoLevel:
    """angle = coarse row (p // 256) composed with fine row (p % 256), tables in float64."""

    def __init__(self):
        w = freqs(64)
        self.fine = np.exp(1j * np.outer(np.arange(256), w))
        self.coarse = np.exp(1j * np.outer(np.arange(8192) * 256, w))

    def __call__(self, x, positions):
        p = np.asarray(positions)
        if p.dtype.kind not in "iu" or p.min() < 0 or p.max() >= 8192 * 256:
            raise ValueError("positions must be integers in 0 .. 2**21 - 1")
        z = self.coarse[p // 256] * self.fine[p % 256]
        z = z[:, None] if z.ndim == 3 else z
        c, s = z.real.astype(x.dtype), z.imag.astype(x.dtype)
        return half(x, c, s)


R(
    "d030",
    TwoLevel(),
    RoPE(64, layout="half"),
    "apply",
    "Two small tables (position div 256 and mod 256) composed by a complex product; refuses fractions "
    "and negative positions.",
)


def d031(x, positions):
    """x (B, S, H, D); the angle of pair k as p * exp2(-k * log2(base) / P)."""
    a = np.asarray(positions, np.float64)[..., None] * np.exp2(-np.arange(32) * np.log2(1e6) / 32)
    a = a[..., None, :]
    c, s = np.cos(a), np.sin(a)
    a, b = x[..., :32].astype(float), x[..., 32:].astype(float)
    return np.concatenate([c * a - s * b, s * a + c * b], -1).astype(x.dtype)


R(
    "d031",
    d031,
    RoPE(64, layout="half", base=1e6),
    "apply",
    "Tensor layout (B, S, H, D), frequencies by exp2 and log2, all in float64.",
    tensor_layout="bshd",
)


# More cases than asked for; chosen by their nature, before any run of the judge.
SURPLUS = set("d019 d024".split())
EXTRA = [c for c in CASES if c["id"] in SURPLUS]
CASES = [c for c in CASES if c["id"] not in SURPLUS]
