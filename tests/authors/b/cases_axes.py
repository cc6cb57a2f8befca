"""Several axes and other rotations: M-RoPE, axial, mixed, xPos, normed_apply, scores of rotary models."""

import math

import numpy as np

from posenc_ref import MixedRoPE, ModelEncoding, MultiAxisRoPE, RoPE, XPos
from posenc_ref import LogNScale

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


def fit(a):
    """Angles (..., P): (S, P) stays, (B, S, P) gets an axis for heads."""
    return a if a.ndim == 2 else a[:, None]


def turn(x, a, layout="half"):
    c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
    if layout == "half":
        x1, x2 = np.split(x, 2, axis=-1)
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    return np.stack([x1 * c - x2 * s, x2 * c + x1 * s], -1).reshape(x.shape)


def by_axes(positions, axis, w):
    """Angles of pairs j: positions[axis[j]] * w[j]."""
    p = np.asarray(positions, float)
    return fit(np.moveaxis(p[np.asarray(axis)], 0, -1) * w)


# ---------------------------------------------------------------- M-RoPE
QWEN2 = MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6)
SECTION = [16, 24, 24]


def mrope(mode):
    w = inv(128, 1e6)

    def apply(x, positions):
        p = np.asarray(positions, float)
        a = np.concatenate([p[..., None] * w] * 2, -1)  # (3, ..., S, 128)
        if mode == "doubled":
            cuts = np.cumsum([2 * s for s in SECTION])[:-1]
        else:
            cuts = np.cumsum(SECTION * 2)[:-1]
        a = np.concatenate([m[i % 3] for i, m in enumerate(np.split(a, cuts, -1))], -1)
        a = fit(a)
        c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
        half = np.concatenate([-x[..., 64:], x[..., :64]], -1)
        return x * c + half * s

    return apply


case(
    "b240",
    mrope("doubled"),
    QWEN2,
    "apply",
    "The section sizes are multiplied by 2 elementwise (32, 48, 48) instead of the list being repeated "
    "(16, 24, 24, 16, 24, 24): the two channels of a pair follow different axes.",
    "sections-doubled",
    "repeat the list",
    mrope("ok"),
)
QWEN3VL = MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved")


def interleaved(mode):
    w = inv(128)
    axis = np.arange(64) % 3
    if mode != "tail":
        axis[60:] = 0
    if mode == "hw":
        axis = np.array([0, 2, 1])[axis]

    def apply(x, positions):
        return turn(x, by_axes(positions, axis, w))

    return apply


case(
    "b241",
    interleaved("tail"),
    QWEN3VL,
    "apply",
    "The interleaving T H W T H W ... runs on to the last pair: pairs 61 and 62 follow H and W, although H and W have 20 "
    "pairs each (up to pair 59) and the rest belongs to T.",
    "interleave-tail",
    "stop at 3 * section",
    interleaved("ok"),
)
case(
    "b242",
    interleaved("hw"),
    QWEN3VL,
    "apply",
    "Height and width are exchanged (pairs 1, 4, ... follow the width).",
    "axes-exchanged",
    "axis 1 is the height",
    interleaved("ok"),
)


def text_only(fixed):
    w = inv(128, 1e6)
    axis = np.repeat([0, 1, 2], SECTION)

    def apply(x, positions):
        p = np.asarray(positions, float)
        if not fixed and p.shape[-1] == 1:
            p = np.broadcast_to(p[:1], p.shape)
        return turn(x, by_axes(p, axis, w))

    return apply


case(
    "b243",
    text_only(False),
    QWEN2,
    "apply",
    "In a call of one token the temporal position is used on all three axes (the decoding path assumes text).",
    "single-token-one-axis",
    "use all three positions",
    text_only(True),
)

# ---------------------------------------------------------------- axial
AXIAL = MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="restart")
AXIS2 = np.repeat([0, 1], 16)


def axial(mode):
    w = {"global": np.concatenate([inv(64)[:16]] * 2), "runs-on": inv(64)}.get(
        mode, np.concatenate([inv(32)] * 2)
    )

    def apply(x, positions):
        return turn(x, by_axes(positions, AXIS2, w))

    return apply


case(
    "b244",
    axial("global"),
    AXIAL,
    "apply",
    "Every axis takes the first 16 frequencies of the whole head (exponent 2i/64) instead of its own schedule (2i/32), "
    "so the slowest is 10000^(-15/32).",
    "dim-head-for-axis",
    "divide by the channels of one axis",
    axial("ok"),
)
PIX = MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="strided")


def pixtral(mode):
    f = inv(64)
    w = np.concatenate([f[0::2], f[0::2] if mode == "same" else f[1::2]])

    def apply(x, positions):
        return turn(x, by_axes(positions, AXIS2, w))

    return apply


case(
    "b245",
    pixtral("same"),
    PIX,
    "apply",
    "Both axes take the even frequencies of the schedule; Pixtral's width has the odd ones.",
    "strided-second-axis",
    "freqs[1::2] for the width",
    pixtral("ok"),
)
BLOCK = MultiAxisRoPE(64, sections=(16, 16), layout="blockwise", spacing="restart")


def blockwise(mode):
    w = inv(32)

    def apply(x, positions):
        p = np.asarray(positions, float)
        if mode == "whole":
            return turn(x, by_axes(p, AXIS2, np.concatenate([w, w])))
        a, b = fit(p[0][..., None] * w), fit(p[1][..., None] * w)
        return np.concatenate([turn(x[..., :32], a), turn(x[..., 32:], b)], -1)

    return apply


case(
    "b246",
    blockwise("whole"),
    BLOCK,
    "apply",
    "rotate_half is applied to the whole head, so pairs are (k, k + 32) instead of half-split inside the 32 channels of "
    "each axis.",
    "pairing-across-axes",
    "rotate each block by itself",
    blockwise("ok"),
)
DINO = MultiAxisRoPE(
    64, sections=(16, 16), layout="half", spacing="restart", base=100.0, position_scale=2 * math.pi
)


def dino(pi2):
    w = np.concatenate([inv(32, 100.0)] * 2) * pi2

    def apply(x, positions):
        return turn(x, by_axes(positions, AXIS2, w))

    return apply


case(
    "b247",
    dino(6.28),
    DINO,
    "apply",
    "2 pi is written as 6.28, so all angles are 0.05 % too small.",
    "few-digits-pi",
    "2 * math.pi",
    dino(2 * math.pi),
)
FLUX = MultiAxisRoPE(64, sections=(4, 14, 14), layout="interleaved", spacing="restart")


def flux(mode):
    sizes = (4, 14, 14)
    axis = np.repeat([0, 1, 2], sizes)
    w = np.concatenate([inv(2 * n) for n in sizes])

    def apply(x, positions):
        p = np.asarray(positions, float)
        z = x[..., 0::2] + 1j * x[..., 1::2]
        a = by_axes(p, axis, w)
        if mode == "no-time":
            a = np.where(axis == 0, 0.0, a)
        z = z * np.exp(1j * a)
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

    return apply


case(
    "b248",
    flux("no-time"),
    FLUX,
    "apply",
    "The pairs of axis 0 (time) are never rotated.",
    "axis-unrotated",
    "use the position of axis 0",
    flux("ok"),
)
case(
    "b249",
    flux("ok"),
    FLUX,
    "apply",
    "Right: three axes with separate schedules as one product of complex numbers.",
    "right",
    right=True,
)

# ---------------------------------------------------------------- mixed
MIX_W = np.random.default_rng(9).standard_normal((2, 16)) / 3
MIXED = MixedRoPE(32, MIX_W, layout="interleaved")


def mixed(mode):
    def apply(x, positions):
        p = np.asarray(positions, float)
        if mode == "exchanged":
            p = p[::-1]
        a = p[0][..., None] * MIX_W[0] + p[1][..., None] * MIX_W[1]
        if mode == "shared":
            a = p[0][..., None] * MIX_W[0] + p[1][..., None] * MIX_W[0]
        return turn(x, fit(a), "interleaved")

    return apply


case(
    "b250",
    mixed("exchanged"),
    MIXED,
    "apply",
    "The weights of the two axes are exchanged: t_x * freqs[1] + t_y * freqs[0].",
    "axes-exchanged",
    "row a of the weight belongs to axis a",
    mixed("ok"),
)


# ---------------------------------------------------------------- xPos
XP_H = XPos(32, layout="half")
XP_I = XPos(32, layout="interleaved")
ZETA = (np.arange(0, 32, 2) / 32 + 0.4) / 1.4


def xpos_scores(mode):
    w = inv(32)

    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        i, j = np.arange(K - Q, K, dtype=float)[:, None], np.arange(K, dtype=float)[:, None]
        zeta = np.repeat(ZETA, 2) if mode == "repeat" else np.concatenate([ZETA, ZETA])
        mid = (K - 1) / 2
        ki, kj = (i - mid) / 512, (j - mid) / 512
        if mode == "local":
            ki = (i - i.mean()) / 512
        qq = turn(q.astype(float), i * w) * zeta**ki
        kk = turn(k.astype(float), j * w) * zeta ** (-kj)
        return (qq @ np.swapaxes(kk, -1, -2) / math.sqrt(32)).astype(q.dtype)

    return logits


case(
    "b251",
    xpos_scores("repeat"),
    XP_H,
    "scores",
    "The decay is repeated for neighbouring channels (zeta_0, zeta_0, zeta_1, ...) although the pairs are half-split "
    "(k, k + d/2).",
    "decay-layout",
    "tile the decays",
    xpos_scores("ok"),
)
case(
    "b252",
    xpos_scores("local"),
    XP_H,
    "scores",
    "The centre of the decay is the middle of the call's own positions: queries of a call shorter than the keys have "
    "another centre than the keys.",
    "centre-of-call",
    "one centre for queries and keys",
    xpos_scores("ok"),
)


def xpos_qk(mode):
    w = inv(32)

    def apply_qk(q, k, q_positions, k_positions):
        def one(x, p, power):
            p = np.asarray(p, float)[..., None]
            size = ZETA ** (power * p / 512)
            a = fit(p * w)
            y = turn(x.astype(float), a, "interleaved") * fit(np.repeat(size, 2, -1))
            return y.astype(x.dtype)

        return one(q, q_positions, 1.0), one(k, k_positions, 1.0 if mode == "same" else -1.0)

    return apply_qk


case(
    "b253",
    xpos_qk("same"),
    XP_I,
    "apply_qk",
    "Keys are multiplied by zeta^n like queries instead of zeta^-n, so the logits decay with the sum of the positions.",
    "key-decay-sign",
    "negative exponent for keys",
    xpos_qk("ok"),
)


# ---------------------------------------------------------------- norm and rotation
N64 = RoPE(64, layout="half")


def normed(mode):
    w = inv(64)

    def normed_apply(x, weight, positions):
        y = x.astype(float)
        a = fit(np.asarray(positions, float)[..., None] * w)
        if mode == "after":
            y = turn(y, a)
        axes = (1, 3) if mode == "all-heads" else -1
        y = y / np.sqrt((y * y).mean(axes, keepdims=True) + 1e-6)
        y = y * (1 + weight if mode == "gemma" else weight)
        return (y if mode == "after" else turn(y, a)).astype(x.dtype)

    return normed_apply


case(
    "b254",
    normed("after"),
    N64,
    "normed_apply",
    "The norm comes after the rotation, so the weight multiplies mixed channels.",
    "norm-after-rotation",
    "norm first",
    normed("ok"),
)
case(
    "b255",
    normed("all-heads"),
    N64,
    "normed_apply",
    "The mean square is taken over all heads together instead of each head by itself; right for one head.",
    "norm-over-heads",
    "mean over the last axis",
    normed("ok"),
)
case(
    "b256",
    normed("gemma"),
    N64,
    "normed_apply",
    "1 + weight multiplies the result (Gemma's convention) although the weight is the factor itself.",
    "weight-plus-one",
    "multiply by weight",
    normed("ok"),
)

# ---------------------------------------------------------------- scores of rotations and models
PARTIAL = RoPE(64, layout="half", rotary_dim=16)


def rot_scores(mode):
    w = inv(16)

    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]

        def one(x, p):
            return np.concatenate([turn(x[..., :16], p[:, None] * w), x[..., 16:]], -1)

        d = 16 if mode == "rotary" else 64
        qq, kk = one(q, np.arange(K - Q, K)), one(k, np.arange(K))
        return qq @ np.swapaxes(kk, -1, -2) / q.dtype.type(math.sqrt(d))

    return logits


case(
    "b257",
    rot_scores("rotary"),
    PARTIAL,
    "scores",
    "The logits are divided by sqrt(rotary_dim) = 4 instead of sqrt(head_dim) = 8.",
    "scale-rotary-dim",
    "1/sqrt(head_dim)",
    rot_scores("ok"),
)
LOGN = ModelEncoding(
    "logn", encodings={"all": RoPE(64, layout="half")}, query_scale={"all": LogNScale(32)}
)


def logn(mode):
    w = inv(64)

    def logits(q, k):
        Q, K = q.shape[2], k.shape[2]
        i = np.arange(K - Q, K)
        n = i if mode == "zero" else i + 1
        with np.errstate(divide="ignore"):
            t = np.maximum(1, np.log(n) / math.log(32))
        qq, kk = (
            turn(q.astype(float), i[:, None] * w),
            turn(k.astype(float), np.arange(K)[:, None] * w),
        )
        return ((qq * t[:, None]) @ np.swapaxes(kk, -1, -2) / 8).astype(q.dtype)

    return logits


case(
    "b258",
    logn("zero"),
    LOGN,
    "scores",
    "The log-n factor uses ln(p) instead of ln(p + 1): queries beyond the trained length are scaled as if they had one "
    "key less.",
    "logn-off-by-one",
    "ln(p + 1)",
    logn("ok"),
)


def scores_complex(q, k):
    """Logits as the real part of a Hermitian product, with relative phases only."""
    Q, K = q.shape[2], k.shape[2]
    w = inv(16)
    zq = q[..., :8].astype(float) + 1j * q[..., 8:16]
    zk = k[..., :8].astype(float) + 1j * k[..., 8:16]
    r = np.arange(K - Q, K)[:, None] - np.arange(K)
    out = np.einsum("bhic,bhjc,ijc->bhij", zq, zk.conj(), np.exp(1j * r[..., None] * w)).real
    out += np.einsum("bhic,bhjc->bhij", q[..., 16:].astype(float), k[..., 16:])
    return (out / 8).astype(q.dtype)


case(
    "b259",
    scores_complex,
    PARTIAL,
    "scores",
    "Right: logits as the real part of q conj(k) exp(i (p_q - p_k) theta), without rotating either.",
    "right",
    right=True,
)


def gathered_pairs(x, positions):
    """Channel lists for each axis, blockwise."""
    p = np.asarray(positions, float)
    out = np.empty_like(x)
    for axis in (0, 1):
        for n in range(16):
            one, two = 32 * axis + n, 32 * axis + 16 + n
            a = p[axis] * 10000.0 ** (-n / 16)
            a = a if a.ndim == 1 else a[:, None]
            c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
            out[..., one] = x[..., one] * c - x[..., two] * s
            out[..., two] = x[..., two] * c + x[..., one] * s
    return out


case(
    "b260",
    gathered_pairs,
    BLOCK,
    "apply",
    "Right: a loop over axes and pairs, channel by channel.",
    "right",
    right=True,
)
case(
    "b261",
    mixed("shared"),
    MIXED,
    "apply",
    "Both axes use the weights of axis 0 (row 1 of the learned frequencies is never read).",
    "second-axis-weights",
    "freqs[1] for axis 1",
    mixed("ok"),
)
