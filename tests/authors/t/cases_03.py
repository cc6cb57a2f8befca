import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def rotate_half(x):
    h = x.shape[-1] // 2
    return np.concatenate([-x[..., h:], x[..., :h]], axis=-1)


def three(positions, axes):
    """Positions as (A, S) or (A, B, S)."""
    p = np.asarray(positions, np.float64)
    return np.broadcast_to(p, (axes, *p.shape)) if p.ndim == 1 else p


def per_head(t):
    return t[:, None] if t.ndim == 3 else t


# ---------------------------------------------------------------- M-RoPE: sections of the doubled table
def make(bug):
    section = [16, 24, 24]
    inv = 1e6 ** (-np.arange(0, 128, 2) / 128)

    def apply(x, positions):
        f = three(positions, 3)[..., None] * inv
        emb = np.concatenate([f, f], -1)                      # (3, [B,] S, 128)
        parts = [s * 2 for s in section] if bug else section * 2
        cuts = np.cumsum(parts)[:-1]
        cos, sin = (per_head(np.concatenate([m[i % 3] for i, m in enumerate(np.split(t, cuts, axis=-1))], -1))
                    for t in (np.cos(emb), np.sin(emb)))
        return (x * cos + rotate_half(x) * sin).astype(x.dtype)
    return apply
case("t035", make, P.MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6), "apply",
     "The sections of M-RoPE are doubled one by one ([32, 48, 48]) instead of repeated for the second half of the "
     "table, so both channels of a pair follow different axes.",
     "mrope-section-doubled", "Split the table of width d by mrope_section * 2, the list repeated.")


# ---------------------------------------------------------------- interleaved M-RoPE: the stop of the slice
def make(bug):
    section = (24, 20, 20)
    inv = 5e6 ** (-np.arange(64) / 64)

    def apply(x, positions):
        f = three(positions, 3)[..., None] * inv
        t = f[0].copy()
        for a in (1, 2):
            stop = section[a] if bug else section[a] * 3
            t[..., a:stop:3] = f[a][..., a:stop:3]
        emb = per_head(np.tile(t, 2))
        return (x * np.cos(emb) + rotate_half(x) * np.sin(emb)).astype(x.dtype)
    return apply
case("t036", make, P.MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6), "apply",
     "In interleaved M-RoPE the strided slice ends at section instead of 3 * section, so height and width get a third of their pairs.",
     "mrope-slice-stop", "Use slice(axis, 3 * mrope_section[axis], 3).")


# ---------------------------------------------------------------- video: the axis with the remainder
def make(bug):
    d = 128
    side = 2 * (d // 6)
    dims = [side, side, d - 2 * side] if bug else [d - 2 * side, side, side]   # 44, 42, 42

    def apply(x, positions):
        p = three(positions, 3)
        z = np.concatenate([np.exp(1j * (p[a][..., None] * 10000.0 ** (-np.arange(0, n, 2) / n)))
                            for a, n in enumerate(dims)], -1)
        z = per_head(z)
        c = x.reshape(*x.shape[:-1], -1, 2).astype(np.float64)
        y = (c[..., 0] + 1j * c[..., 1]) * z
        return np.stack([y.real, y.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("t037", make, P.MultiAxisRoPE(128, sections=(22, 21, 21), layout="interleaved", spacing="restart"), "apply",
     "The channels that are left over when the head is divided by three go to the width axis; in Wan they belong to time.",
     "remainder-to-last-axis", "Give time d - 2 * (2 * (d // 6)) channels and height and width 2 * (d // 6).")


# ---------------------------------------------------------------- xPos: zeta
def make(bug):
    d = 64
    k = np.arange(d // 2)
    zeta = ((k if bug else 2 * k) + 0.4 * d) / (1.4 * d)
    w = 10000.0 ** (-2 * k / d)

    def turn(x, p, sign):
        p = np.asarray(p, np.float64)[..., None]
        c, s = (per_head(t * zeta ** (sign * p / 512)) for t in (np.cos(p * w), np.sin(p * w)))
        c, s = np.repeat(c, 2, -1), np.repeat(s, 2, -1)
        swapped = np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape)
        return (x * c + swapped * s).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        return turn(q, q_positions, 1.0), turn(k, k_positions, -1.0)
    return apply_qk
case("t038", make, P.XPos(64, layout="interleaved"), "apply_qk",
     "zeta is computed from the pair number k instead of the channel number 2k, so the decay ranges only up to (0.5 + gamma) / (1 + gamma).",
     "zeta-pair-number", "Use (arange(0, d, 2) + 0.4 d) / (1.4 d).")


# ---------------------------------------------------------------- Mochi: axes of the parameter
MOCHI = np.random.default_rng(14).normal(0, 0.3, (2, 4, 8))       # (A, H, P) in the checkpoint


def make(bug):
    w = MOCHI.reshape(4, 2, 8) if bug else MOCHI.transpose(1, 0, 2)

    def apply(x, positions):
        p = three(positions, 2)
        p = p if p.ndim == 3 else p[:, None]
        a = np.einsum("abs,hak->bhsk", p, w)
        x1, x2 = x[..., ::2], x[..., 1::2]
        return np.stack([x1 * np.cos(a) - x2 * np.sin(a), x1 * np.sin(a) + x2 * np.cos(a)], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("t039", make, P.MixedRoPE(16, MOCHI.transpose(1, 0, 2), layout="interleaved"), "apply",
     "The learned frequencies (axes, heads, pairs) are reshaped to (heads, axes, pairs) instead of transposed, which mixes heads and axes.",
     "reshape-instead-of-transpose", "Transpose the first two axes of pos_frequencies.")


# ---------------------------------------------------------------- latent attention: which slice
def make(bug):
    nope, rope = 128, 64
    w = 10000.0 ** (-np.arange(0, rope, 2) / rope)

    def apply(x, positions):
        a = per_head(np.asarray(positions, np.float64)[..., None] * w)
        if bug:
            pe, rest = x[..., :rope], x[..., rope:]
        else:
            rest, pe = x[..., :nope], x[..., nope:]
        z = (pe[..., ::2] + 1j * pe[..., 1::2]) * np.exp(1j * a)
        pe = np.stack([z.real, z.imag], -1).reshape(pe.shape).astype(x.dtype)
        return np.concatenate([pe, rest] if bug else [rest, pe], axis=-1)
    return apply
case("t040", make, P.RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128), "apply",
     "The head is split as [rope, nope] although the projection writes [nope, rope]: the first 64 channels are rotated, not the last.",
     "rope-slice-first", "Split at qk_nope_head_dim: the rotated part comes last.")


# ---------------------------------------------------------------- q/k norm over all heads
def make(bug):
    w = 1e6 ** (-np.arange(0, 64, 2) / 64)

    def normed(x, weight, positions):
        f = x.astype(np.float64)
        var = (f * f).mean((1, 3) if bug else 3, keepdims=True)
        f = f / np.sqrt(var + 1e-6) * weight
        a = per_head(np.asarray(positions, np.float64)[..., None] * w)
        f1, f2 = np.split(f, 2, axis=-1)
        return np.concatenate([f1 * np.cos(a) - f2 * np.sin(a), f2 * np.cos(a) + f1 * np.sin(a)], -1).astype(x.dtype)
    return normed
case("t041", make, P.RoPE(64, layout="half", base=1e6), "normed_apply",
     "The root mean square is taken over the channels of all heads together (OLMo 2's norm) instead of each head (Qwen 3's).",
     "norm-over-all-heads", "Reduce over the last axis only.")


# ---------------------------------------------------------------- sinusoidal tables
def make(bug):
    dim, padding_idx = 64, 1

    def rows(seq_len):
        half = dim // 2
        emb = np.exp(np.arange(half) * -(math.log(10000) / (half - 1)))
        first = padding_idx + (0 if bug else 1)
        t = np.arange(first, first + seq_len)[:, None] * emb[None, :]
        return np.concatenate([np.sin(t), np.cos(t)], axis=1)
    return rows
case("t042", make, P.Sinusoidal(64, layout="concat", denominator="half-1", offset=2), "rows",
     "Positions start at padding_idx instead of padding_idx + 1, so the first token has the row of padding.",
     "offset-padding-idx", "Start at padding_idx + 1.")


def make(bug):
    cfg = dict(num_channels=32, flip_sin_to_cos=True, downscale_freq_shift=0)

    def table(positions):
        half = cfg["num_channels"] // 2
        e = np.exp(-math.log(10000) * np.arange(half) / (half - cfg["downscale_freq_shift"]))
        a = np.asarray(positions, np.float64)[:, None] * e
        flip = cfg.get("flip_sin_cos", False) if bug else cfg["flip_sin_to_cos"]
        return np.concatenate([np.cos(a), np.sin(a)] if flip else [np.sin(a), np.cos(a)], -1)
    return table
case("t043", make, P.Sinusoidal(32, layout="concat", first="cos"), "table",
     "A misspelt key makes flip_sin_to_cos false: the sines come first.",
     "flip-flag-misread", "Read flip_sin_to_cos; fail on a missing key instead of taking a default.")


def make(bug):
    dim = 32

    def grid(height, width):
        if bug:
            y, x = (g.ravel() for g in np.meshgrid(np.arange(height), np.arange(width)))
        else:
            y, x = (g.ravel() for g in np.meshgrid(np.arange(height), np.arange(width), indexing="ij"))
        om = 1.0 / 10000 ** (np.arange(dim // 4) / (dim / 4))
        half = lambda p: np.concatenate([np.sin(np.outer(p, om)), np.cos(np.outer(p, om))], 1)
        return np.concatenate([half(y), half(x)], axis=1)
    return grid
case("t044", make, P.Sinusoidal2D(32), "grid",
     "meshgrid is called with its default indexing 'xy', so the patches are listed column by column.",
     "meshgrid-default-indexing", "Pass indexing='ij'.")


def make(bug):
    dim = 24

    def add(x):
        n = x.shape[1]
        w = 10000.0 ** (-np.arange(0, dim, 2) / dim)
        pe = np.zeros((n, dim))
        pe[:, 0::2], pe[:, 1::2] = np.sin(np.outer(np.arange(n), w)), np.cos(np.outer(np.arange(n), w))
        return (x * (math.sqrt(dim) if bug else 1.0) + pe).astype(x.dtype)
    return add
case("t045", make, P.Sinusoidal(24), "add",
     "The embeddings are multiplied by sqrt(dim) inside the module, although the caller has scaled them already.",
     "embedding-scaled-again", "Add the table to x as it comes.")


def make(bug):
    def grid(height, width):
        mask = np.ones((height, width))
        y, x = mask.cumsum(0), mask.cumsum(1)
        if bug:
            y, x = y - 1, x - 1
            y, x = y / (y[-1:] + 1e-6) * 2 * math.pi, x / (x[:, -1:] + 1e-6) * 2 * math.pi
        else:
            y, x = y / (y[-1:] + 1e-6) * 2 * math.pi, x / (x[:, -1:] + 1e-6) * 2 * math.pi
        k = np.arange(16)
        t = 10000.0 ** (2 * (k // 2) / 16)
        def enc(p):
            a = p[..., None] / t
            return np.stack([np.sin(a[..., 0::2]), np.cos(a[..., 1::2])], axis=-1).reshape(*p.shape, 16)
        return np.concatenate([enc(y), enc(x)], -1).reshape(height * width, 32)
    return grid
case("t046", make, P.DETRSine(32), "grid",
     "Pixels are counted from 0 and divided by the last count (as linspace does) instead of cumulative sums that start at 1.",
     "detr-count-from-zero", "Use the cumulative sum of the mask as it is.")


def make(bug):
    dims = dict(t=16, h=24, w=24)

    def table(positions):
        p = dict(zip("thw", np.asarray(positions, np.float64)))
        out = []
        for axis in "thw" if bug else "twh":
            n = dims[axis]
            a = np.multiply.outer(p[axis], 10000.0 ** (-np.arange(n // 2) / (n / 2)))
            out += [np.sin(a), np.cos(a)]
        return np.concatenate(out, axis=-1)
    return table
case("t047", make, P.Sinusoidal3D((16, 24, 24), axis_order="twh"), "table",
     "The columns of the height come before those of the width; CogVideoX's code has time, width, height.",
     "axis-order-of-columns", "Concatenate time, width, height.")


def make(bug):
    def rows(seq_len):
        L, d = 12, 16
        pos = np.arange(max(L, seq_len))[:, None]
        a = pos * np.exp(np.arange(0, d, 2) * (-math.log(10000.0) / d))
        pe = np.zeros((len(pos), d))
        pe[:, 0::2], pe[:, 1::2] = np.sin(a), np.cos(a)
        trained = pe[:L]
        pe = (pe - trained.mean()) / (trained.std(ddof=0 if bug else 1) * 10)
        return pe[:seq_len]
    return rows
case("t048", make, P.StandardizedSinusoidal(16, 12), "rows",
     "numpy's std divides by n, torch's by n - 1: the ported table is too large by sqrt(n / (n - 1)).",
     "std-ddof", "Use ddof=1.")


# ---------------------------------------------------------------- right
def make(bug):
    section = (16, 24, 24)
    axis = np.repeat([0, 1, 2], section)
    inv = 1e6 ** (-np.arange(64) / 64)

    def apply(x, positions):
        p = np.moveaxis(three(positions, 3), 0, -1)             # (..., S, 3)
        a = per_head(np.take(p, axis, axis=-1) * inv)
        out = np.empty_like(x)
        out[..., :64] = x[..., :64] * np.cos(a) - x[..., 64:] * np.sin(a)
        out[..., 64:] = x[..., :64] * np.sin(a) + x[..., 64:] * np.cos(a)
        return out
    return apply
case("t084", make, P.MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6), "apply",
     "The position of every pair is gathered by an index array; no table is split.", "right")


def make(bug):
    d, gamma, base = 32, 0.4, 512.0
    k = np.arange(d // 2)
    logz = np.log((2 * k / d + gamma) / (1 + gamma))
    w = 10000.0 ** (-2 * k / d)

    def apply_qk(q, k, q_positions, k_positions):
        out = []
        for x, p, s in ((q, q_positions, 1), (k, k_positions, -1)):
            p = np.asarray(p, np.float64)[..., None]
            z = per_head(np.exp(p * (s * logz / base + 1j * w)))      # decay and turn in one exponential
            y = (x[..., : d // 2] + 1j * x[..., d // 2:]) * z
            out.append(np.concatenate([y.real, y.imag], -1).astype(x.dtype))
        return tuple(out)
    return apply_qk
case("t085", make, P.XPos(32, layout="half"), "apply_qk",
     "Decay and rotation are one complex exponential.", "right")
