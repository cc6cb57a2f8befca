import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))

# ---- RoPE on apply -------------------------------------------------------------------------

def make(bug):
    TILE = 32
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        inv = 10000.0 ** (-np.arange(32) / 32.0)
        B, H, S, D = x.shape
        p = np.broadcast_to(p if p.ndim == 2 else p[None], (B, S))
        out = np.empty_like(x)
        for lo in range(0, S, TILE):
            start = lo
            if S >= TILE and lo + TILE > S:      # full tiles only: the last one overlaps
                start = S - TILE
            hi = min(start + TILE, S)
            at = p[:, (lo if bug else start):][:, : hi - start]
            if at.shape[1] < hi - start:         # "padded" reads of the last tile
                at = np.concatenate([at, np.repeat(at[:, -1:], hi - start - at.shape[1], 1)], 1)
            a = at[:, None, :, None] * inv
            c, s = np.cos(a), np.sin(a)
            x1, x2 = x[:, :, start:hi, :32].astype(float), x[:, :, start:hi, 32:].astype(float)
            out[:, :, start:hi, :32] = x1 * c - x2 * s
            out[:, :, start:hi, 32:] = x2 * c + x1 * s
        return out
    return apply
case("n001", make, P.RoPE(64, layout="half"), "apply",
     "Tiles of 32 tokens; the last, overlapping tile starts at S-32 for x but its positions are still read from the "
     "unclamped start (and padded with the last), so tokens of the last 32 get wrong positions if S > 32 is no multiple of 32.",
     "last-tile-positions", "read the positions of the clamped start")

def make(bug):
    memo = {}
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        key = (p.shape, p.flat[0], p.flat[-1]) if bug else (p.shape, p.tobytes())
        if key not in memo:
            if len(memo) > 32:
                memo.clear()
            z = np.exp(1j * p[..., None] * 500000.0 ** (-np.arange(0, 48, 2) / 48))
            memo[key] = z if p.ndim == 1 else z[:, None]
        w = x.astype(np.float64)
        z = (w[..., 0::2] + 1j * w[..., 1::2]) * memo[key]
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("n002", make, P.RoPE(48, layout="interleaved", base=500000.0), "apply",
     "The table of phases is kept between calls under shape, first and last position; other positions in between "
     "with the same ends get the table of an earlier call.",
     "cache-key-ends", "key by all positions")

def make(bug):
    def apply(x, positions):
        y = np.array(x, np.float64)
        a = np.asarray(positions, np.float64)[..., None] * (1.0 / 10000.0 ** (np.arange(0, 32, 2) / 32))
        if a.ndim == 3:
            a = a[:, None]
        even, odd = y[..., 0::2], y[..., 1::2]
        if not bug:
            even = even.copy()
        y[..., 0::2] = even * np.cos(a) - odd * np.sin(a)
        y[..., 1::2] = odd * np.cos(a) + even * np.sin(a)
        return y.astype(x.dtype)
    return apply
case("n003", make, P.RoPE(32, layout="interleaved"), "apply",
     "In-place rotation of a copy: the even channels are a view, overwritten before the odd channels are computed from them.",
     "aliased-view", "copy the even channels first")

def make(bug):
    inv = 1.0 / (10000.0 ** (np.arange(0, 64, 2, dtype=np.float64) / 64))
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        B, H, S, D = x.shape
        if bug and S == 1:                  # decode fast path: one token, one angle
            a = p.ravel()[0] * inv
        else:
            a = p[..., None] * inv
            if p.ndim == 2:
                a = a[:, None]
        c, s = np.cos(a), np.sin(a)
        x1, x2 = np.split(x.astype(np.float64), 2, -1)
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)
    return apply
case("n004", make, P.RoPE(64, layout="half"), "apply",
     "Fast path for S = 1 takes the position of the first batch row for all rows.",
     "single-token-fast-path", "keep the positions of every row")

def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        inv = 10000.0 ** -(np.arange(32) / 32)
        a = p[..., None] * inv
        # one position per row (decoding), or one per token
        if bug:
            per_row = p.shape[0] == x.shape[0] and p.ndim == 1 and p.shape[0] > 1
            if per_row:
                a = a[:, None, None, :]
            elif p.ndim == 2:
                a = a[:, None]
        elif p.ndim == 2:
            a = a[:, None]
        c, s = np.cos(a), np.sin(a)
        w = x.astype(np.float64)
        rot = np.concatenate([-w[..., 32:], w[..., :32]], -1)
        return (w * np.concatenate([c, c], -1) + rot * np.concatenate([s, s], -1)).astype(x.dtype)
    return apply
case("n005", make, P.RoPE(64, layout="half"), "apply",
     "Positions (S,) are taken for one position per batch row whenever S equals the batch size (a test of shape[0] only).",
     "shape-guess-batch", "decide by ndim")

def make(bug):
    N = 4096
    t = np.arange(N)[:, None] * 10000.0 ** (-np.arange(16) / 16)
    COS, SIN = np.cos(t), np.sin(t)
    def apply(x, positions):
        nonlocal COS, SIN
        p = np.asarray(positions)
        whole = np.array_equal(p, np.floor(p)) and p.size and np.abs(p).max() < 2 ** 16
        if whole:
            p = p.astype(np.int64)
            top = int(np.abs(p).max()) + 1
            if top > len(COS):
                t = np.arange(top)[:, None] * 10000.0 ** (-np.arange(16) / 16)
                COS, SIN = np.cos(t), np.sin(t)
            if bug:
                c, s = COS[p], SIN[p]
            else:
                c, s = COS[np.abs(p)], SIN[np.abs(p)] * np.sign(p)[..., None]
        else:
            a = np.asarray(positions, float)[..., None] * 10000.0 ** (-np.arange(16) / 16)
            c, s = np.cos(a), np.sin(a)
        if c.ndim == 3:
            c, s = c[:, None], s[:, None]
        u, v = x[..., :16].astype(float), x[..., 16:].astype(float)
        return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)
    return apply
case("n006", make, P.RoPE(32, layout="half"), "apply",
     "The table is indexed with negative positions, which NumPy takes from the end of the table.",
     "negative-index", "use cos(-a) = cos a and sin(-a) = -sin a, or compute the angle")

def make(bug):
    def apply(x, positions):
        p = np.asarray(positions)
        if bug and p.dtype.kind in "iu":
            p = p.astype(np.uint16)           # ids of 16 bits, as in the kernel
        a = p.astype(np.float64)[..., None] * np.exp(-math.log(1e6) * np.arange(0, 128, 2) / 128)
        if p.ndim == 2:
            a = a[:, None]
        z = np.empty(x.shape[:-1] + (64,), complex)
        z.real, z.imag = x[..., :64], x[..., 64:]
        z *= np.cos(a) + 1j * np.sin(a)
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)
    return apply
case("n007", make, P.RoPE(128, layout="half", base=1e6), "apply",
     "Integer positions pass through uint16 ids, so they wrap at 65536 (and negative ones become large).",
     "uint16-wrap", "int64 ids")

def make(bug):
    def apply(x, positions):
        # llama.cpp-like loop: theta is multiplied by a constant from pair to pair
        p = np.asarray(positions, np.float64)
        p = p[:, None, :] if p.ndim == 2 else p
        y = x.astype(np.float64)
        w = y.copy()
        start, d = 128, 64
        scale = 10000.0 ** (-2.0 / (192 if bug else d))
        theta = p.copy()
        for i in range(0, d, 2):
            c, s = np.cos(theta), np.sin(theta)
            a, b = w[..., start + i], w[..., start + i + 1]
            y[..., start + i] = a * c - b * s
            y[..., start + i + 1] = a * s + b * c
            theta = theta * scale
        out = x.copy()
        out[..., start:start + d] = y[..., start:start + d]
        return out
    return apply
case("n008", make, P.RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128), "apply",
     "Latent attention: the ratio from pair to pair has the full head size 192 in the exponent, not the 64 rotated channels.",
     "ratio-head-dim", "base ** (-2 / rotary_dim)")

def make(bug):
    def apply(x, positions):
        nope, pe = x[..., :64], x[..., 64:].astype(np.float64)
        a = np.multiply.outer(np.asarray(positions, np.float64), 10000.0 ** (-np.arange(16) / 16))
        a = a[:, None] if a.ndim == 3 else a
        pe = pe.reshape(*pe.shape[:-1], 16, 2)
        c, s = np.cos(a), np.sin(a)
        pe = np.stack([pe[..., 0] * c - pe[..., 1] * s, pe[..., 1] * c + pe[..., 0] * s], -1)
        pe = pe.reshape(*pe.shape[:-2], 32).astype(x.dtype)
        return np.concatenate([pe, nope] if bug else [nope, pe], -1)
    return apply
case("n009", make, P.RoPE(96, layout="interleaved", rotary_dim=32, rotary_start=64), "apply",
     "The rotated part is concatenated before the part without position, though it was read from the end of the head.",
     "concat-order", "concatenate [nope, pe]")

def make(bug):
    f = np.float32(10000.0) ** (-np.arange(0, 64, 2, dtype=np.float64) / 64)
    def apply(x, positions):
        a = np.asarray(positions, np.float64)[..., None] * f
        if a.ndim == 3:
            a = a[:, None]
        c = np.cos(a)
        if bug:   # one transcendental call: the sine from the cosine, sign from the half turn
            c = c.astype(np.float32)
            s = np.sqrt(np.maximum(np.float32(1) - c * c, 0)) * np.where(np.mod(a, 2 * np.pi) < np.pi, 1, -1)
        else:
            s = np.sin(a)
        lo, hi = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
        return np.concatenate([lo * c - hi * s, lo * s + hi * c], axis=-1).astype(x.dtype)
    return apply
case("n010", make, P.RoPE(64, layout="half"), "apply",
     "sin is computed as sqrt(1 - cos**2) in float32, which cancels for small angles: slow pairs do not turn at short positions.",
     "sin-from-cos", "call sin")

def make(bug):
    N = 256 if bug else 0
    grid = np.sin(np.arange(N + 1) * (2 * np.pi / N)) if bug else None
    def sine(turns):
        if not bug:
            return np.sin(2 * np.pi * turns)
        u = turns % 1.0 * N
        i = np.minimum(u.astype(int), N - 1)
        return grid[i] + (u - i) * (grid[i + 1] - grid[i])
    def apply(x, positions):
        f = 10000.0 ** (-np.arange(0, 64, 2) / 64) / (2 * np.pi)
        t = np.asarray(positions, np.float64)[..., None] * f
        if t.ndim == 3:
            t = t[:, None]
        s, c = sine(t), sine(t + 0.25)
        e, o = x[..., ::2], x[..., 1::2]
        y = np.empty(x.shape, np.float64)
        y[..., ::2], y[..., 1::2] = e * c - o * s, o * c + e * s
        return y.astype(x.dtype)
    return apply
case("n011", make, P.RoPE(64, layout="interleaved"), "apply",
     "sin and cos come from a linearly interpolated table of 256 entries, wrong by up to 7.5e-5.",
     "lut-interpolation", "call sin and cos")

def make(bug):
    LANES = 8
    inv = 10000.0 ** (-np.arange(0, 40, 2) / 40)       # 20 pairs
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = p[:, None, :, None] if p.ndim == 2 else p[:, None]
        out = x.copy()
        n = 20 // LANES * LANES if bug else 20
        for j in range(0, n, LANES):
            k = np.arange(j, min(j + LANES, 20))
            a = p * inv[k]
            u, v = x[..., k].astype(np.float64), x[..., k + 20].astype(np.float64)
            out[..., k] = u * np.cos(a) - v * np.sin(a)
            out[..., k + 20] = v * np.cos(a) + u * np.sin(a)
        return out
    return apply
case("n012", make, P.RoPE(80, layout="half", rotary_dim=40), "apply",
     "Pairs are rotated in vectors of 8 lanes and the loop lacks a remainder: of 20 pairs, the last 4 are not rotated.",
     "lane-remainder", "process the remainder")

def make(bug):
    def apply(x, positions):
        B, H, S, D = x.shape
        p = np.broadcast_to(np.asarray(positions, np.float64), (B, S))
        f = np.power(10000.0, np.arange(32) / -32.0)
        y = np.empty_like(x)
        GROUP = 4
        for h0 in range(0, H, GROUP):
            for b in range(B):
                ang = np.outer(p[b], f)
                if bug and h0:
                    ang = np.outer(p[0], f)      # only the first group reloads the row's angles
                c, s = np.cos(ang), np.sin(ang)
                u = x[b, h0:h0 + GROUP].astype(np.float64)
                y[b, h0:h0 + GROUP, :, :32] = u[..., :32] * c - u[..., 32:] * s
                y[b, h0:h0 + GROUP, :, 32:] = u[..., 32:] * c + u[..., :32] * s
        return y
    return apply
case("n013", make, P.RoPE(64, layout="half"), "apply",
     "Heads are handled in groups of four; from the second group on every batch row uses the positions of row 0 (needs H > 4 and B > 1).",
     "head-group-row0", "load the angles of the row in every group")

def make(bug):
    def apply(x, positions):
        B, H, S, D = x.shape
        x = np.asarray(x)
        if bug:     # strides of a packed array, whatever x really has
            e = x.itemsize
            st = (H * S * D * e, S * D * e, D * e)
            v = np.lib.stride_tricks.as_strided(x, (B, H, S, D // 2, 2), st + (2 * e, e))
        else:
            v = x.reshape(B, H, S, D // 2, 2)
        a = np.asarray(positions, np.float64)[..., None] * 10000.0 ** (-np.arange(D // 2) * 2 / D)
        if a.ndim == 3:
            a = a[:, None]
        m = np.stack([np.stack([np.cos(a), -np.sin(a)], -1), np.stack([np.sin(a), np.cos(a)], -1)], -2)
        return np.einsum("...ij,...j->...i", m, v.astype(np.float64)).reshape(x.shape).astype(x.dtype)
    return apply
case("n014", make, P.RoPE(16, layout="interleaved"), "apply",
     "A strided view is made with the strides of a contiguous array; transposed or sliced inputs are read wrongly.",
     "assumes-contiguous", "reshape, or use the real strides")

def make(bug):
    def bf16(a):
        i = np.asarray(a, np.float32).view(np.uint32)
        return ((i + 0x7FFF + ((i >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    def apply(x, positions):
        inv = 1.0 / 10000.0 ** (np.arange(0, 64, 2) / 64)
        if bug:
            inv = bf16(inv.astype(np.float32)).astype(np.float64)   # model.to(bfloat16) casts the buffer
        a = np.asarray(positions, np.float64)[..., None] * inv
        a = a if a.ndim == 2 else a[:, None]
        u, v = x[..., :32].astype(float), x[..., 32:].astype(float)
        return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1).astype(x.dtype)
    return apply
case("n015", make, P.RoPE(64, layout="half"), "apply",
     "The buffer of inverse frequencies is rounded to bfloat16, as by a cast of the whole model.",
     "bf16-inv-freq", "keep the buffer in float32 or float64")
