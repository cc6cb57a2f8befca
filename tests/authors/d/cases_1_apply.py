"""Cases d001-d018: one rotary axis, surface apply: tiles, tables, state."""

import numpy as np

from posenc_ref import RoPE

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


# ---------------------------------------------------------------- tiles and lanes


def d001(bug):
    block = 64

    def launch(x, positions):
        c, s = tab(positions, freqs(64), x.dtype)
        n = x.shape[2]
        out = x.copy()
        grid = max(n // block, 1) if bug else -(-n // block)
        for pid in range(grid):
            rows = slice(pid * block, min((pid + 1) * block, n))
            out[:, :, rows] = half(x[:, :, rows], c[..., rows, :], s[..., rows, :])
        return out

    return launch


W(
    "d001",
    d001,
    RoPE(64, layout="half"),
    "apply",
    "tile-remainder",
    "The grid of blocks of 64 tokens is floor(S / 64) (at least 1) instead of the ceiling: for S > 64 "
    "the tokens of the last incomplete block are copied without rotation (seen from S = 65 on).",
    "grid = cdiv(S, BLOCK)",
)


def d002(bug):
    group = 8

    def rotate(x, positions):
        out = np.empty_like(x)
        w = freqs(32, 10000.0)
        for h0 in range(0, x.shape[1], group):
            p = np.asarray(positions) + (1 if bug and h0 else 0)  # pointer advanced by one row
            c, s = tab(p, w, x.dtype)
            out[:, h0 : h0 + group] = inter(x[:, h0 : h0 + group], c, s)
        return out

    return rotate


W(
    "d002",
    d002,
    RoPE(32, layout="interleaved"),
    "apply",
    "head-group",
    "Heads 8 and above (the second group of 8 heads) are rotated with the table row of the next "
    "position, p + 1; heads 0..7 are right.",
    "Reset the table pointer to row p for every group of heads.",
)


def d003(bug):
    def decode_or_prefill(x, positions):
        w = freqs(64)
        positions = np.asarray(positions)
        if x.shape[2] == 1:  # decode kernel: one position in a register
            p = positions.reshape(-1)[:1] if bug else positions
            c, s = tab(p, w, x.dtype)
            return half(x, c, s)
        c, s = tab(positions, w, x.dtype)
        return half(x, c, s)

    return decode_or_prefill


W(
    "d003",
    d003,
    RoPE(64, layout="half"),
    "apply",
    "single-token-batch",
    "For a single token (S = 1) with positions per row (B, 1), all rows of the batch are rotated by "
    "the position of row 0; rows above 0 are wrong, longer calls are right.",
    "Read the position of every batch row in the S = 1 path.",
)


def d004(bug):
    def rotate_flat(x, positions):
        c, s = tab(positions, freqs(48), x.dtype)
        mem = x.ravel(order="K") if bug else np.ascontiguousarray(x).ravel()
        return inter(mem.reshape(x.shape), c, s)

    return rotate_flat


W(
    "d004",
    d004,
    RoPE(48, layout="interleaved"),
    "apply",
    "strides-ignored",
    "The strides of x are ignored: memory is read as if x were contiguous (B, H, S, D), so a "
    "transposed or otherwise non-contiguous input (e.g. a view of (B, S, H, D)) is scrambled.",
    "Call contiguous() or pass the strides to the kernel.",
)


def d005(bug):
    def rot(x, positions):
        w = freqs(64)
        p = np.asarray(positions)
        p = p.astype(x.dtype) if bug else p
        c, s = tab(p, w, np.float32)
        return half(x.astype(np.float32), c, s).astype(x.dtype)

    return rot


W(
    "d005",
    d005,
    RoPE(64, layout="half"),
    "apply",
    "half-positions",
    "Positions are cast to the float16 of x before they are multiplied by the frequencies: positions "
    "above 2048 are rounded (odd ones first), and above 65504 become infinite.",
    "Keep positions in int64/float32 and cast only the result.",
    dtype="float16",
)


def d006(bug):
    import torch

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inv = 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float32) / 64)

        def forward(self, x, positions):
            p = torch.as_tensor(positions).to(torch.float32)
            ang = p[..., None] * self.inv
            if bug:
                ang = ang.to(x.dtype).float()  # autocast left on
            if ang.ndim == 3:
                ang = ang[:, None]
            c, s = ang.cos(), ang.sin()
            a, b = x.float().chunk(2, -1)
            return torch.cat([a * c - b * s, b * c + a * s], -1).to(x.dtype)

    return Rotary()


W(
    "d006",
    d006,
    RoPE(64, layout="half"),
    "apply",
    "bf16-angles",
    "The angles position * inv_freq are rounded to bfloat16 (8 bits) before cos and sin, e.g. because "
    "autocast stayed on: the error is up to 2**-9 of the angle and grows with the position.",
    "Compute angles, cos and sin in float32 and cast the result alone.",
    backend="torch",
    dtype="bfloat16",
)


def tf32(a):
    bits = np.asarray(a, np.float32).view(np.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(np.float32)


def d007(bug):
    def rot(x, positions):
        p = np.asarray(positions, np.float32)
        w = freqs(128, 500000.0).astype(np.float32)
        if bug:
            p, w = tf32(p), tf32(w)
        a = p[..., None] * w
        a = a[:, None] if a.ndim == 3 else a
        return half(x, np.cos(a), np.sin(a))

    return rot


W(
    "d007",
    d007,
    RoPE(128, layout="half", base=500000.0),
    "apply",
    "tf32-angles",
    "The outer product positions x inv_freq runs in TF32: both factors are rounded to 10 mantissa "
    "bits, so the angles have a relative error up to 2**-10.",
    "Disable TF32 for this product or use an elementwise multiplication in float32.",
)


def d008(bug):
    two_pi = 2 * 3.1416 if bug else 2 * np.pi

    def rot(x, positions):
        a = angles(positions, freqs(64))
        a = a - two_pi * np.round(a / two_pi)  # range reduction for the fast sine
        return inter(x, np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype))

    return rot


W(
    "d008",
    d008,
    RoPE(64, layout="interleaved"),
    "apply",
    "pi-digits",
    "The range reduction of the angles subtracts multiples of 2 * 3.1416 instead of 2 pi: every full "
    "turn adds an angle error of 1.5e-5, so fast pairs drift with the position.",
    "Use 2 pi in full precision (or a Cody-Waite reduction).",
)


def d009(bug):
    def rot(x, positions):
        turns = freqs(64) / (2 * np.pi)
        p = np.asarray(positions)
        if bug:
            step = np.round(turns * 65536) / 65536
        else:
            step = turns
        a = 2 * np.pi * np.mod(p[..., None] * step, 1.0)
        a = a[:, None] if a.ndim == 3 else a
        return half(x, np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype))

    return rot


W(
    "d009",
    d009,
    RoPE(64, layout="half"),
    "apply",
    "fixed-point-frequency",
    "The frequencies are stored as fixed-point numbers with 16 fractional bits of a turn (phase "
    "accumulator): slow pairs, 1 to 10 units each, have frequencies wrong by up to 30 %.",
    "Store frequencies as floating point, or with 48 or more fractional bits.",
)


def d010(bug):
    rot_dim, d = 32, 80

    def rot(x, positions):
        n = d if bug else rot_dim
        w = 10000.0 ** (-np.arange(0, rot_dim, 2) / n)
        c, s = tab(positions, w, x.dtype)
        return np.concatenate([half(x[..., :rot_dim], c, s), x[..., rot_dim:]], -1)

    return rot


W(
    "d010",
    d010,
    RoPE(80, layout="half", rotary_dim=32),
    "apply",
    "denominator-head-dim",
    "The exponent of the frequencies is divided by head_dim = 80 instead of rotary_dim = 32, so the "
    "frequencies fall too slowly (the right channels rotate).",
    "base ** (-2k / rotary_dim)",
)


def d011(bug):
    nope, rope = 64, 32

    def mla(x, positions):
        c, s = tab(positions, freqs(rope), x.dtype)
        a, b = x[..., :nope], inter(x[..., nope:], c, s)
        return np.concatenate([b, a] if bug else [a, b], -1)

    return mla


W(
    "d011",
    d011,
    RoPE(96, layout="interleaved", rotary_dim=32, rotary_start=64),
    "apply",
    "slice-order",
    "The rotated slice (channels 64..95) is put before the 64 unrotated channels in the output; the "
    "declared order is unrotated channels first. The rotation itself is right.",
    "concat([nope, rope])",
)


def d012(bug):
    lanes = 8

    def rot(x, positions):
        pairs = 20
        w = freqs(40)
        out = np.empty_like(x)
        body = pairs // lanes * lanes
        for k0 in range(0, body, lanes):
            c, s = tab(positions, w[k0 : k0 + lanes], x.dtype)
            out[..., 2 * k0 : 2 * (k0 + lanes)] = inter(x[..., 2 * k0 : 2 * (k0 + lanes)], c, s)
        tail = w[: pairs - body] if bug else w[body:]
        c, s = tab(positions, tail, x.dtype)
        out[..., 2 * body :] = inter(x[..., 2 * body :], c, s)
        return out

    return rot


W(
    "d012",
    d012,
    RoPE(40, layout="interleaved"),
    "apply",
    "lane-tail",
    "Pairs are processed in vectors of 8 lanes; the scalar tail (pairs 16..19 of 20) starts again at "
    "frequency 0: these pairs turn with the frequencies of pairs 0..3.",
    "Index the frequencies of the tail by the pair, not by the loop counter.",
)

# ---------------------------------------------------------------- tables and state


def d013(bug):
    class Cached:
        def __init__(self):
            self.store = {}

        def __call__(self, x, positions):
            p = np.asarray(positions)
            key = (
                (p.shape, x.dtype.str, int(p.flat[-1]))
                if bug
                else (p.shape, x.dtype.str, p.tobytes())
            )
            if key not in self.store:
                self.store[key] = tab(p, freqs(64), x.dtype)
            return half(x, *self.store[key])

    return Cached()


W(
    "d013",
    d013,
    RoPE(64, layout="half"),
    "apply",
    "cache-key",
    "The cached cos and sin are keyed by the shape and the last position only: a later call with "
    "other positions but the same count and the same last one gets the tables of the earlier call.",
    "Key the cache by all positions, or index a table by them.",
)


def d014(bug):
    class Phi:
        def __init__(self):
            self.rows = 0
            self.c = self.s = None

        def grow(self, need):
            n = 2
            while n < need:
                n *= 2
            self.rows = n - 1 if bug else n
            a = np.outer(np.arange(self.rows), freqs(64))
            self.c, self.s = np.cos(a), np.sin(a)

        def __call__(self, x, positions):
            p = np.asarray(positions)
            if not np.issubdtype(p.dtype, np.integer) or p.min() < 0 or p.max() >= 2**21:
                raise ValueError("positions must be integers from 0 on")
            if p.max() >= self.rows:
                self.grow(int(p.max()) + 1)
            p = np.minimum(p, self.rows - 1)
            c, s = self.c[p].astype(x.dtype), self.s[p].astype(x.dtype)
            if c.ndim == 3:
                c, s = c[:, None], s[:, None]
            return half(x, c, s)

    return Phi()


W(
    "d014",
    d014,
    RoPE(64, layout="half"),
    "apply",
    "table-short",
    "The table has one row less than the power of two it should have and the index is clamped: the "
    "position 2**k - 1 (e.g. the last of 64 tokens) gets the row of 2**k - 2.",
    "arange(n), not arange(n - 1), and no clamp",
)


def d015(bug):
    def rot(x, positions):
        w = freqs(64, 10000.0 if bug and x.shape[2] == 1 else 500000.0)
        c, s = tab(positions, w, x.dtype)
        return half(x, c, s)

    return rot


W(
    "d015",
    d015,
    RoPE(64, layout="half", base=500000.0),
    "apply",
    "decode-base",
    "Calls of a single token (S = 1) take the default base 10000 instead of 500000; longer calls are "
    "right.",
    "Pass the same base to the decode path.",
)


def d016(bug):
    class Graphed:
        """Captures the third call of every shape, as a CUDA graph after two warm-up calls."""

        def __init__(self):
            self.seen, self.static = {}, {}

        def __call__(self, x, positions):
            key = (x.shape, x.dtype.str)
            self.seen[key] = self.seen.get(key, 0) + 1
            p = np.array(positions)
            if bug and self.seen[key] >= 3:
                p = self.static.setdefault((key, p.shape), p)
            return inter(x, *tab(p, freqs(64), x.dtype))

    return Graphed()


W(
    "d016",
    d016,
    RoPE(64, layout="interleaved"),
    "apply",
    "captured-positions",
    "From the third call of a shape on, the positions of that third call are used again (they were "
    "captured in the graph), whatever positions are passed: the fourth call with other positions is "
    "wrong.",
    "Copy the positions into the static buffer before every replay.",
)


def d017(bug):
    def rot(x, positions):
        p = np.asarray(positions)
        p = p.astype(np.int16) if bug and p.dtype.kind == "i" else p
        return half(x, *tab(p, freqs(64), x.dtype))

    return rot


W(
    "d017",
    d017,
    RoPE(64, layout="half"),
    "apply",
    "int16-positions",
    "Positions are stored in int16: from 32768 on they wrap to negative numbers (right below).",
    "Store positions in int32 or int64.",
)


def d018(bug):
    n = 4096
    lut = np.sin(2 * np.pi * np.arange(n) / n)

    def sine(a):
        t = a / (2 * np.pi) * n
        if bug:
            return lut[np.round(t).astype(np.int64) % n]
        return np.sin(a)

    def rot(x, positions):
        a = angles(positions, freqs(64))
        return half(x, sine(a + np.pi / 2).astype(x.dtype), sine(a).astype(x.dtype))

    return rot


W(
    "d018",
    d018,
    RoPE(64, layout="half"),
    "apply",
    "sine-table",
    "cos and sin are looked up in a table of 4096 entries per turn without interpolation: errors up "
    "to 8e-4 at every position, independent of its size.",
    "Interpolate, or call cos and sin.",
)


# More cases than asked for; chosen by their nature, before any run of the judge.
SURPLUS = set("d010 d011 d015".split())
EXTRA = [c for c in CASES if c["id"] in SURPLUS]
CASES = [c for c in CASES if c["id"] not in SURPLUS]
