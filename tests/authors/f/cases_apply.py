"""Plain rotations: surface apply (f001 - f024)."""
import numpy as np

from posenc_ref import LinearScaling, MixedRoPE, MultiAxisRoPE, NTKScaling, Proportional, RoPE
from posenc_ref import Llama3Scaling, YaRN, LongRoPE, DynamicNTK

CASES = []


def case(id, make, encoding, surface, cause, key="", remedy="", right=False, **settings):
    CASES.append(dict(id=id, fn=make if right else make(True), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def theta(d, base=10000.0):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def angles(positions, f):
    a = np.asarray(positions, np.float64)[..., None] * f
    return a[:, None] if a.ndim == 3 else a          # (B, 1, S, P) or (S, P)


def halves(x, a):
    c, s = np.cos(a), np.sin(a)
    u, v = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)


def adjacent(x, a):
    z = np.ascontiguousarray(x, dtype=np.float64).view(np.complex128) * np.exp(1j * a)
    return np.ascontiguousarray(z).view(np.float64).astype(x.dtype)


# -- f001: tiles of 64 tokens, remainder ------------------------------------------------------
def make(bug):
    def tiled(x, positions):
        f, s, t = theta(64), x.shape[-2], 64
        p = np.asarray(positions)
        y = np.empty_like(x)
        full = s // t * t
        for at in range(0, full, t):
            y[..., at:at + t, :] = halves(x[..., at:at + t, :], angles(p[..., at:at + t], f))
        rem = s - full
        if rem:
            tail = p[..., :rem] if bug else p[..., full:]
            y[..., full:, :] = halves(x[..., full:, :], angles(tail, f))
        return y
    return tiled


case("f001", make, RoPE(64, layout="half"), "apply",
     "In calls of more than 64 tokens the remainder after the last full tile of 64 is rotated to the "
     "positions of the first tokens of the call instead of its own.", "tile-remainder",
     "Offset the positions of the tail by the number of tokens in full tiles.")


# -- f002: vector lanes, overlapping last group ------------------------------------------------
def make(bug):
    def lanes(x, positions):
        d, w = 40, 8
        f, a = theta(d), angles(positions, theta(d))
        y = x.astype(np.float64)
        pairs = d // 2
        starts = list(range(0, pairs - w + 1, w))
        if pairs % w:
            starts.append(pairs - w if bug else starts[-1] + w)
        for g in starts:
            k = np.arange(g, min(g + w, pairs))
            c, s = np.cos(a[..., k]), np.sin(a[..., k])
            e, o = y[..., 2 * k].copy(), y[..., 2 * k + 1].copy()
            y[..., 2 * k], y[..., 2 * k + 1] = e * c - o * s, o * c + e * s
        return y.astype(x.dtype)
    return lanes


case("f002", make, RoPE(40, layout="interleaved"), "apply",
     "Pairs are rotated in place in vectors of 8 and the last vector overlaps the one before it, so pairs "
     "12 to 15 of 20 are rotated twice (by twice their angle).", "rotated-twice",
     "Process the last 4 pairs with a masked vector, not with an overlapping in-place one.")


# -- f003: partial rotary, exponent over head_dim ----------------------------------------------
def make(bug):
    inv = 1.0 / 10000.0 ** (np.arange(0, 32, 2) / (80 if bug else 32))

    def phi2(x, positions):
        rot, rest = x[..., :32], x[..., 32:]
        return np.concatenate([halves(rot, angles(positions, inv)), rest], -1)
    return phi2


case("f003", make, RoPE(80, layout="half", rotary_dim=32), "apply",
     "The exponents of the frequencies are 2k/80 (head size) instead of 2k/32 (rotated channels).",
     "exponent-dim", "Divide by rotary_dim.")


# -- f004: the wrong slice of an MLA head -------------------------------------------------------
def make(bug):
    def mla(x, positions):
        y, cut = x.copy(), slice(0, 64) if bug else slice(128, 192)
        y[..., cut] = adjacent(x[..., cut], angles(positions, theta(64)))
        return y
    return mla


case("f004", make, RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128), "apply",
     "The first 64 channels of the head are rotated instead of the last 64 (channels 128 to 191).",
     "rotary-start", "Rotate x[..., 128:].")


# -- f005: per-row positions, only row 0 is read -----------------------------------------------
def make(bug):
    def batched(x, position_ids):
        p = np.asarray(position_ids)
        if p.ndim == 2:
            p = p[:1] if bug else p
        return halves(x, angles(p, theta(64)))
    return batched


case("f005", make, RoPE(64, layout="half"), "apply",
     "With positions (B, S), all rows of the batch are rotated to the positions of row 0.",
     "batch-row-0", "Index the table with the whole (B, S) array of positions.")


# -- f006: second block of heads uses the sine of the previous token ---------------------------
def make(bug):
    def blocks(x, positions):
        f = theta(64)
        a = np.broadcast_to(angles(positions, f), (*x.shape[:-1], 32))
        y = np.empty(x.shape, np.float64)
        for h0 in range(0, x.shape[1], 8):
            hs = slice(h0, h0 + 8)
            c, s = np.cos(a[:, hs]), np.sin(a[:, hs])
            if bug and h0:
                s = np.concatenate([s[..., :1, :], s[..., :-1, :]], -2)
            u, v = x[:, hs, :, :32].astype(np.float64), x[:, hs, :, 32:].astype(np.float64)
            y[:, hs, :, :32], y[:, hs, :, 32:] = u * c - v * s, v * c + u * s
        return y.astype(x.dtype)
    return blocks


case("f006", make, RoPE(64, layout="half"), "apply",
     "For heads 8 and above, the sine is the one of the token before (the cosine is right), from the second "
     "token of the call on.", "heads-8-stale-sin", "Load both tables with the same row index in every head block.")


# -- f007: positions in half precision ---------------------------------------------------------
def make(bug):
    def half(x, positions):
        p = np.asarray(positions)
        if bug:
            p = p.astype(x.dtype)
        return halves(x, angles(p, theta(128)))
    return half


case("f007", make, RoPE(128, layout="half"), "apply",
     "Positions are cast to the dtype of x, float16, before the angle: from 2049 on they are rounded to even "
     "numbers (and beyond 65504 they are infinite).", "position-dtype",
     "Keep positions as integers or float32 until the angle is made.", dtype="float16")


# -- f008: torch, frequencies follow module.to(bfloat16) ---------------------------------------
def make(bug):
    import torch

    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            inv = 1.0 / 500000.0 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64)
            self.register_buffer("inv_freq", inv, persistent=False)

        def forward(self, x, positions):
            inv = self.inv_freq.to(torch.float64)
            a = torch.as_tensor(positions).to(torch.float64)[..., None] * inv
            a = a[:, None] if a.ndim == 3 else a
            u, v = x.double().chunk(2, -1)
            c, s = a.cos(), a.sin()
            return torch.cat([u * c - v * s, v * c + u * s], -1).to(x.dtype)
    m = Rotary()
    if bug:
        m = m.to(torch.bfloat16)
    return lambda x, positions: m(x, positions)


case("f008", make, RoPE(64, layout="half", base=500000.0), "apply",
     "The buffer inv_freq was cast to bfloat16 together with the weights (module.to), so each frequency has a "
     "relative error of up to 0.4 %.", "inv-freq-bf16", "Keep inv_freq in float32 when the module is cast.",
     backend="torch", dtype="bfloat16")


# -- f009 right: everything in float32 ----------------------------------------------------------
def all_float32(x, positions):
    inv = (np.float32(1) / np.float32(10000) ** (np.arange(0, 64, 2, dtype=np.float32) / np.float32(64)))
    a = np.asarray(positions).astype(np.float32)[..., None] * inv.astype(np.float32)
    a = a[:, None] if a.ndim == 3 else a
    emb = np.concatenate([a, a], -1)
    u, v = x[..., :32], x[..., 32:]
    return (x * np.cos(emb) + np.concatenate([-v, u], -1) * np.sin(emb)).astype(x.dtype)


case("f009", all_float32, RoPE(64, layout="half"), "apply",
     "Right: rotate_half with frequencies, angles and tables all in float32.", right=True)


# -- f010: fixed-point phase --------------------------------------------------------------------
def make(bug):
    steps = 4096

    def lut(x, positions):
        turns = np.asarray(positions, np.float64)[..., None] * (theta(64) / (2 * np.pi))
        turns = turns - np.floor(turns)
        if bug:
            turns = np.floor(turns * steps) / steps
        a = 2 * np.pi * turns
        return halves(x, a[:, None] if a.ndim == 3 else a)
    return lut


case("f010", make, RoPE(64, layout="half"), "apply",
     "Sine and cosine come from a table of 4096 entries per turn without interpolation: angles are rounded "
     "down to multiples of 2 pi/4096 (errors up to 0.0015).", "angle-quantised",
     "Interpolate in the table, or compute sin and cos.")


# -- f011: range reduction with a short pi ------------------------------------------------------
def make(bug):
    two_pi = 6.2832 if bug else 2 * np.pi

    def reduced(x, positions):
        a = angles(positions, theta(64))
        return adjacent(x, a - two_pi * np.rint(a / two_pi))
    return reduced


case("f011", make, RoPE(64, layout="interleaved"), "apply",
     "Angles are reduced modulo 6.2832 instead of 2 pi, so every full turn adds an error of 1.5e-5 rad: 0.0023 "
     "rad in pair 0 after 1000 positions; angles below pi are right.", "pi-digits", "Use the double constant 2*pi.")


# -- f012: powers of a complex64 unit -----------------------------------------------------------
def make(bug):
    kind = np.complex64 if bug else np.complex128

    def by_squaring(x, positions):
        p = np.asarray(positions, np.float64)
        if not bug:
            return adjacent(x, angles(p, theta(64)))
        n, frac = np.abs(np.floor(p)).astype(np.int64), p - np.floor(p)
        z = np.exp(1j * theta(64) * 1.0).astype(kind)
        out = np.ones((*p.shape, 32), kind)
        while n.any():
            out = np.where((n & 1)[..., None] == 1, out * z, out).astype(kind)
            z, n = (z * z).astype(kind), n >> 1
        out = np.where((p < 0)[..., None], out.conj(), out) * np.exp(1j * frac[..., None] * theta(64))
        out = out[:, None] if out.ndim == 3 else out
        y = np.ascontiguousarray(x.astype(np.float64)).view(np.complex128) * out
        return np.ascontiguousarray(y).view(np.float64).astype(x.dtype)
    return by_squaring


case("f012", make, RoPE(64, layout="interleaved"), "apply",
     "e^(i p theta) is the p-th power of the complex64 number e^(i theta) by repeated squaring; the rounding of "
     "e^(i theta) is multiplied by p, so slow pairs are wrong by 1e-4 after some thousand positions and by more "
     "later.", "power-float32", "Compute the angle p*theta and its sine and cosine, or use complex128.")


# -- f013: one token ----------------------------------------------------------------------------
def make(bug):
    def fast(x, positions):
        p = np.asarray(positions)
        if x.shape[-2] == 1 and bug:
            p = p - 1                      # "positions" is taken for the length including the token
        return halves(x, angles(p, theta(128, 500000.0)))
    return fast


case("f013", make, RoPE(128, layout="half", base=500000.0), "apply",
     "In calls of a single token (the decoding path) the token is rotated to its position minus 1; longer calls "
     "are right.", "single-token", "Do not subtract 1: the argument is the position, not the length.")


# -- f014: memory order --------------------------------------------------------------------------
def make(bug):
    def flat(x, positions):
        a = np.broadcast_to(angles(positions, theta(64)), (*x.shape[:-1], 32)).reshape(-1, 32)
        rows = x.ravel(order="K" if bug else "C").reshape(-1, 64)
        return halves(rows, a).reshape(x.shape)
    return flat


case("f014", make, RoPE(64, layout="half"), "apply",
     "x is flattened in memory order (ravel 'K'): for inputs that are not C-contiguous (a transposed view) rows "
     "and channels are read in the order of the memory and the result is scrambled.", "non-contiguous",
     "Copy to C order first, or honour the strides.")


# -- f015: direction alternates -------------------------------------------------------------------
def make(bug):
    flip = np.where(np.arange(32) % 2 == 1, -1.0, 1.0) if bug else np.ones(32)

    def alternate(x, positions):
        return halves(x, angles(positions, theta(64) * flip))
    return alternate


case("f015", make, RoPE(64, layout="half"), "apply",
     "Odd pairs (1, 3, 5, ...) are rotated in the opposite direction: sign of the sine, every second pair.",
     "sign-odd-pairs", "Use the same sign of the sine for all pairs.")


# -- f016: table one row short and clamped ---------------------------------------------------------
def make(bug):
    def short(x, positions):
        p = np.asarray(positions)
        if p.size == 0 or p.dtype.kind == "f" or p.min() < 0 or p.max() > 1 << 15:
            return halves(x, angles(p, theta(64)))
        table = angles(np.arange(p.max() + (0 if bug else 1)) if p.max() else np.zeros(1), theta(64))
        a = np.take(table, p, axis=0, mode="clip")
        return halves(x, a[:, None] if a.ndim == 3 else a)
    return short


case("f016", make, RoPE(64, layout="half"), "apply",
     "The table has max(positions) rows, one too few, and the index is clamped: the token with the largest "
     "position of the call gets the angle of the position before it.", "table-short",
     "Make max(positions) + 1 rows.")


# -- f017: integer division of scaled positions -----------------------------------------------------
def make(bug):
    def interpolated(x, positions):
        p = np.asarray(positions, np.float64) / 8
        return halves(x, angles(np.floor(p) if bug else p, theta(64)))
    return interpolated


case("f017", make, RoPE(64, layout="half", scaling=LinearScaling(8.0)), "apply",
     "Interpolated positions p/8 are rounded down to integers (p // 8), so eight neighbouring tokens get the same "
     "angle.", "floor-position", "Divide in floating point, or divide the frequencies.")


# -- f018: second half from the overwritten first half ----------------------------------------------
def make(bug):
    def inplace(x, positions):
        a = angles(positions, theta(64))
        y = x.astype(np.float64)
        u, v = y[..., :32], y[..., 32:]
        old = u if bug else u.copy()
        u[...] = u * np.cos(a) - v * np.sin(a)
        v[...] = v * np.cos(a) + old * np.sin(a)
        return y.astype(x.dtype)
    return inplace


case("f018", make, RoPE(64, layout="half"), "apply",
     "The second channel of each pair is computed from the first channel after its rotation, not before "
     "(overwritten in place).", "aliased-half", "Copy the first half before it is overwritten.")


# -- f019: NTK exponent missing ----------------------------------------------------------------------
def make(bug):
    base = 10000.0 * (4.0 if bug else 4.0 ** (64 / 62))

    def ntk(x, positions):
        return adjacent(x, angles(positions, theta(64, base)))
    return ntk


case("f019", make, RoPE(64, layout="interleaved", scaling=NTKScaling(4.0)), "apply",
     "The base is multiplied by the factor 4 itself, not by 4 ** (d/(d-2)); the slowest pair is not slowed down by "
     "exactly 4.", "ntk-exponent", "Raise the factor to d/(d-2).")


# -- f020: p-RoPE read as partial rotary ----------------------------------------------------------------
def make(bug):
    def prope(x, positions):
        if bug:
            y = x.copy()
            y[..., :32] = halves(x[..., :32], angles(positions, theta(32, 1e6)))
            return y
        f = theta(128, 1e6)
        f[16:] = 0
        return halves(x, angles(positions, f))
    return prope


case("f020", make, RoPE(128, layout="half", base=1e6, scaling=Proportional(0.25)), "apply",
     "p-RoPE with fraction 0.25 is computed as partial rotary: the first 32 channels are a block of 16 pairs with "
     "exponents over 32, instead of the 16 fastest of 64 half-split pairs of the whole head.", "proportional-partial",
     "Keep the frequencies of the whole head and set those of the slow pairs to zero.")


# -- f021 right: matrices --------------------------------------------------------------------------------
def matrices(x, positions):
    a = angles(positions, theta(32))
    r = np.zeros((*a.shape[:-1], 32, 32))
    k = np.arange(16)
    r[..., 2 * k, 2 * k] = r[..., 2 * k + 1, 2 * k + 1] = np.cos(a)
    r[..., 2 * k, 2 * k + 1], r[..., 2 * k + 1, 2 * k] = -np.sin(a), np.sin(a)
    return np.einsum("...ij,...j->...i", r, x.astype(np.float64)).astype(x.dtype)


case("f021", matrices, RoPE(32, layout="interleaved"), "apply",
     "Right: multiplies by the full block-diagonal matrix R(p) of every token.", right=True)


# -- f022 right: two tables and the addition theorem ---------------------------------------------------------
def two_level(x, positions):
    p = np.asarray(positions, np.float64)
    coarse = np.floor(p / 256) * 256
    z = np.exp(1j * coarse[..., None] * theta(64)) * np.exp(1j * (p - coarse)[..., None] * theta(64))
    z = z[:, None] if z.ndim == 3 else z
    w = (x[..., :32].astype(np.float64) + 1j * x[..., 32:]) * z
    return np.concatenate([w.real, w.imag], -1).astype(x.dtype)


case("f022", two_level, RoPE(64, layout="half"), "apply",
     "Right: e^(i angle) is the product of a coarse (multiple of 256) and a fine factor in double precision.",
     right=True)


# -- f023: lost pass-through precision (float64 through float32) -----------------------------------------------
def make(bug):
    def roundtrip(x, positions):
        y = x.astype(np.float32).astype(np.float64) if bug else x
        out = x.copy()
        out[..., :32] = adjacent(y[..., :32], angles(positions, theta(32)))
        return out
    return roundtrip


case("f023", make, RoPE(64, layout="interleaved", rotary_dim=32), "apply",
     "A float64 input is cast to float32 before the rotation (the upcast x.float() narrows doubles), so the rotated "
     "channels have relative errors of 6e-8.", "computed-float32", "Compute in the dtype of x if it is wider.",
     dtype="float64")


# -- f024: stale positions by identity -----------------------------------------------------------------------
def make(bug):
    seen = {}

    def memo(x, positions):
        p = np.asarray(positions)
        key = (p.shape, float(p.flat[0]) if p.size else 0) if bug else p.tobytes() + str((p.dtype, p.shape)).encode()
        if key not in seen:
            seen.clear() if len(seen) > 100 else None
            seen[key] = angles(p, theta(64))
        return halves(x, seen[key])
    return memo


case("f024", make, RoPE(64, layout="half"), "apply",
     "Tables are cached by the shape and the first element of positions: a later call with the same number of tokens "
     "and first position but other positions behind it (gaps, another row order) gets the tables of the earlier "
     "call.", "cache-key", "Use all positions as the key, or no cache.")
