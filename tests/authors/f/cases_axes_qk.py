"""Rotations of several axes, schedules in apply, and pairs of queries and keys (f025 - f046)."""
import numpy as np

from posenc_ref import (DynamicNTK, Llama3Scaling, LongRoPE, MixedRoPE, MultiAxisRoPE, RoPE, XPos, YaRN)

CASES = []


def case(id, make, encoding, surface, cause, key="", remedy="", right=False, **settings):
    CASES.append(dict(id=id, fn=make if right else make(True), encoding=encoding, surface=surface,
                      settings=settings, right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def inv(d, base=10000.0):
    return np.array([base ** (-2.0 * k / d) for k in range(d // 2)])


def rot(x, a, m=1.0, layout="half"):
    """x (..., S, 2P), a (..., S, P)."""
    w = x.astype(np.float64)
    u, v = (w[..., 0::2], w[..., 1::2]) if layout == "interleaved" else np.split(w, 2, -1)
    c, s = m * np.cos(a), m * np.sin(a)
    y1, y2 = u * c - v * s, v * c + u * s
    y = np.stack([y1, y2], -1).reshape(w.shape) if layout == "interleaved" else np.concatenate([y1, y2], -1)
    return y.astype(x.dtype)


def outer(p, f):
    a = np.asarray(p, np.float64)[..., None] * f
    return a[:, None] if a.ndim == 3 else a


def axes_of(p, n):
    """Positions (A, S), (A, B, S) or (S,) as a list of A arrays."""
    p = np.asarray(p, np.float64)
    return [p] * n if p.ndim == 1 else list(p)


# -- f025: M-RoPE sections counted in channels of the doubled table ----------------------------------
M = MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6)


def make(bug):
    def mrope(x, positions):
        t, h, w = axes_of(positions, 3)
        tables = [np.concatenate([outer(p, inv(128, 1e6))] * 2, -1) for p in (t, h, w)]   # (.., 128)
        edges, parts = np.cumsum([0, 16, 24, 24] * (1 if bug else 1)), []
        cuts = [16, 24, 24, 16, 24, 24]
        at = 0
        for i, n in enumerate(cuts):
            axis = min(i, 2) if bug else i % 3
            parts.append(tables[axis][..., at:at + n])
            at += n
        emb = np.concatenate(parts, -1)
        y = x.astype(np.float64)
        turned = np.concatenate([-y[..., 64:], y[..., :64]], -1)
        return (y * np.cos(emb) + turned * np.sin(emb)).astype(x.dtype)
    return mrope


case("f025", make, M, "apply",
     "In the second half of the doubled cos/sin table every section takes the width positions instead of time, height, "
     "width again: second channels of the temporal and height pairs are combined with the width angle.",
     "sections-second-half", "Take axis i % 3 for the sections 16, 24, 24, 16, 24, 24.")


# -- f026: interleaved M-RoPE, axes without bound ---------------------------------------------------------
def make(bug):
    def qwen3vl(x, positions):
        t, h, w = (outer(p, inv(128, 5e6)) for p in axes_of(positions, 3))
        a = np.broadcast_arrays(t, h, w)[0].copy()
        for axis, n in ((1, 20), (2, 20)):
            stop = None if bug else 3 * n
            a[..., axis:stop:3] = (h, w)[axis - 1][..., axis:stop:3]
        return rot(x, a)
    return qwen3vl


case("f026", make, MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6), "apply",
     "Height and width take every third pair up to the end (pairs 61 and 62 as well) instead of only the first 60; "
     "two temporal pairs follow the height or the width (frequencies near 3e-7: seen from some hundred positions on).", "interleave-bound",
     "Stop the slices at 3 * section.")


# -- f027: axial image, exponents not restarted ---------------------------------------------------------------
def make(bug):
    f = inv(64) if bug else np.tile(inv(32), 2)

    def axial(x, positions):
        y, c = axes_of(positions, 2)
        return rot(x, np.concatenate([outer(y, f[:16]), outer(c, f[16:])], -1), layout="interleaved")
    return axial


case("f027", make, MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart"), "apply",
     "The frequencies of the second axis continue where those of the first end (exponents over all 32 pairs) instead of "
     "starting at 1 again with 16 pairs per axis.", "spacing-global", "Use base ** (-2i/32) for each axis.")


# -- f028: 3-D video, axes permuted for pairs only of the last axis ----------------------------------------------
def make(bug):
    enc = MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved", spacing="restart")

    def video(x, positions):
        t, h, w = axes_of(positions, 3)
        if bug:
            h, w = w, h
        a = np.concatenate([outer(t, inv(16)), outer(h, inv(24)), outer(w, inv(24))], -1)
        return rot(x, a, layout="interleaved")
    video.encoding = enc
    return video


case("f028", make, make(True).encoding, "apply",
     "Height and width are exchanged: pairs 8 to 19 follow the width and pairs 20 to 31 the height.", "axes-exchanged",
     "Take the positions in the order time, height, width.")

# -- f029: RoPE-Mixed, weights of head 0 -------------------------------------------------------------------------
W = np.random.default_rng(29).normal(0, 0.3, (4, 2, 16))


def make(bug):
    def mixed(x, positions):
        y, c = axes_of(positions, 2)
        a = np.stack([np.asarray(y)[..., None] * W[g, 0] + np.asarray(c)[..., None] * W[g, 1]
                      for g in ([0, 1, 0, 1] if bug else range(4))], axis=-3)
        return rot(x, a)
    return mixed


case("f029", make, MixedRoPE(32, W, layout="half"), "apply",
     "Heads 2 and 3 use the learned frequencies of heads 0 and 1 (head index modulo 2).", "head-weights",
     "Index weight with the head itself.")


# -- f030: frequency weights reshaped (P, A) as (A, P) --------------------------------------------------------------
V = np.random.default_rng(30).normal(0, 0.5, (2, 8))


def make(bug):
    w = V.T.reshape(2, 8) if bug else V

    def mixed(x, positions):
        p = np.stack(axes_of(positions, 2), -1)             # (S, 2) or (B, S, 2)
        a = p @ w
        return rot(x, a[:, None] if a.ndim == 3 else a, layout="interleaved")
    return mixed


case("f030", make, MixedRoPE(16, V, layout="interleaved"), "apply",
     "The (pairs, axes) parameter is reshaped to (axes, pairs) instead of transposed, so the weights of both axes are "
     "mixed among the pairs.", "reshape-not-transpose", "Transpose.")


# -- f031: YaRN correction range rounded inwards ----------------------------------------------------------------------
def yarn(d, base, s, length, fast=32.0, slow=1.0, low=np.floor, high=np.ceil):
    k = [d * np.log(length / (2 * np.pi * r)) / (2 * np.log(base)) for r in (fast, slow)]
    a, b = max(low(k[0]), 0), min(high(k[1]), d - 1)
    w = np.clip((np.arange(d // 2) - a) / (b - a if a != b else 1e-3), 0, 1)
    return inv(d, base) * ((1 - w) + w / s)


def make(bug):
    f = yarn(128, 1e6, 4.0, 32768, low=np.rint if bug else np.floor, high=np.rint if bug else np.ceil)
    m = 0.1 * np.log(4.0) + 1

    def apply(x, positions):
        return rot(x, outer(positions, f), m)
    return apply


case("f031", make, RoPE(128, layout="half", base=1e6, scaling=YaRN(4.0, 32768)), "apply",
     "The ends of YaRN's ramp are rounded to the nearest pair instead of outwards (floor of the lower and ceil of the "
     "upper end), so the frequencies of the middle pairs differ.", "ramp-rounding", "Use floor and ceil.")


# -- f032: YaRN, truncate ignored ---------------------------------------------------------------------------------------
def make(bug):
    ident = lambda v: v
    f = yarn(64, 150000.0, 32.0, 4096, low=np.floor if bug else ident, high=np.ceil if bug else ident)

    def gpt_oss(x, positions):
        return rot(x, outer(positions, f), 0.1 * np.log(32.0) + 1)
    return gpt_oss


case("f032", make, RoPE(64, layout="half", base=150000.0, scaling=YaRN(32.0, 4096, truncate=False)), "apply",
     "The ends of the ramp are rounded to whole pairs although truncate is False.", "truncate",
     "Do not round the correction range.")


# -- f033: YaRN, m applied twice --------------------------------------------------------------------------------------------
def make(bug):
    f, m = yarn(128, 10000.0, 16.0, 4096), 0.1 * np.log(16.0) + 1

    def apply(x, positions):
        return rot(x * (m if bug else 1), outer(positions, f), m).astype(x.dtype)
    return apply


case("f033", make, RoPE(128, layout="half", scaling=YaRN(16.0, 4096)), "apply",
     "The attention factor m multiplies x before the rotation and again cos and sin: the result has m squared.",
     "m-squared", "Apply m once, in the tables.")


# -- f034: Llama 3, blend reversed in the middle band ----------------------------------------------------------------------------
def make(bug):
    f = inv(128, 500000.0)
    turns = 8192 * f / (2 * np.pi)
    t = (turns - 1.0) / 3.0
    mid = (t > 0) & (t < 1)
    g = np.where(t >= 1, f, f / 8)
    u = 1 - t if bug else t
    g[mid] = ((1 - u) * f / 8 + u * f)[mid]

    def llama3(x, positions):
        return rot(x, outer(positions, g))
    return llama3


case("f034", make, RoPE(128, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), "apply",
     "In the middle band (1 to 4 turns) the two weights of the blend are exchanged: (1-t) belongs to the plain frequency "
     "and t to the divided one.", "blend-exchanged", "Use (1 - t) f/8 + t f.")

# -- f035: LongRoPE list switched one token late ------------------------------------------------------------------------------------
SHORT = tuple(1.0 + 0.02 * k for k in range(24))
LONG = tuple(1.0 + 1.5 * k for k in range(24))
PHI = RoPE(48, layout="half", scaling=LongRoPE(SHORT, LONG, 4096, factor=32.0))
MPHI = float(np.sqrt(1 + np.log(32) / np.log(4096)))


def make(bug):
    def phi(x, positions):
        top = np.max(positions) + (0 if bug else 1) if np.size(positions) else 0
        f = inv(48) / np.array(LONG if top > 4096 else SHORT)
        return rot(x, outer(positions, f), MPHI)
    return phi


case("f035", make, PHI, "apply",
     "The list is chosen by the largest position, not by the length (largest position + 1): with exactly 4097 tokens "
     "(largest position 4096) the short factors are still used.", "length-off-by-one",
     "Compare max(position) + 1 with original_max_position.")


# -- f036: LongRoPE, factors multiply -----------------------------------------------------------------------------------------------
def make(bug):
    def phi(x, positions):
        length = np.max(positions, initial=0) + 1
        lam = np.array(LONG if length > 4096 else SHORT)
        f = inv(48) * lam if bug and length <= 4096 else inv(48) / lam
        return rot(x, outer(positions, f), MPHI)
    return phi


case("f036", make, PHI, "apply",
     "Up to the trained length the frequencies are multiplied by short_factor instead of divided; beyond it they are "
     "right.", "factor-inverted", "Divide by the factors in both branches.")


# -- f037: dynamic NTK, alpha without its second term ------------------------------------------------------------------------------------
def make(bug):
    def dyn(x, positions):
        n = max(int(np.max(positions, initial=0)) + 1, 2048)
        alpha = 2.0 * n / 2048 - (0.0 if bug and n > 2048 else 1.0)
        return rot(x, outer(positions, inv(64, 10000.0 * alpha ** (64 / 62))))
    return dyn


case("f037", make, RoPE(64, layout="half", scaling=DynamicNTK(2.0, 2048)), "apply",
     "Beyond the trained length alpha is factor * L / L0 without the subtraction of (factor - 1).", "alpha-term",
     "Use factor * L / L0 - (factor - 1).")


# -- f038: apply_qk, keys take the last K query positions ---------------------------------------------------------------------------------
def make(bug):
    def qk(q, k, q_positions, k_positions):
        qp, kp = np.asarray(q_positions), np.asarray(k_positions)
        if bug and q.shape[-2] == k.shape[-2]:
            kp = qp
        return rot(q, outer(qp, inv(64))), rot(k, outer(kp, inv(64)))
    return qk


case("f038", make, RoPE(64, layout="half"), "apply_qk",
     "If there are as many keys as queries, the keys are rotated to the positions of the queries instead of their own.",
     "keys-query-positions", "Rotate k by k_positions always.")


# -- f039: m on q only --------------------------------------------------------------------------------------------------------------------------
def make(bug):
    f, m = yarn(64, 10000.0, 8.0, 4096), 0.1 * np.log(8.0) + 1

    def qk(q, k, qp, kp):
        return rot(q, outer(qp, f), m), rot(k, outer(kp, f), 1.0 if bug else m)
    return qk


case("f039", make, RoPE(64, layout="half", scaling=YaRN(8.0, 4096)), "apply_qk",
     "The attention factor m is applied to queries only; keys are rotated without it, so logits have m, not m squared.",
     "m-keys", "Multiply cos and sin by m for keys too.")


# -- f040: XPos, keys decay like queries -----------------------------------------------------------------------------------------------------------
def xpos(x, p, power, d=64, scale_base=512.0, gamma=0.4):
    zeta = (2 * np.arange(d // 2) / d + gamma) / (1 + gamma)
    n = np.asarray(p, np.float64) / scale_base * power
    size = zeta ** n[..., None]
    a = outer(p, inv(d))
    size = size[:, None] if size.ndim == 3 else size
    w = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * (size * np.exp(1j * a))
    return np.stack([w.real, w.imag], -1).reshape(x.shape).astype(x.dtype)


def make(bug):
    def qk(q, k, qp, kp):
        return xpos(q, qp, 1.0), xpos(k, kp, 1.0 if bug else -1.0)
    return qk


case("f040", make, XPos(64, layout="interleaved"), "apply_qk",
     "Keys are multiplied by zeta ** n like queries instead of zeta ** -n (downscale not inverted), so logits depend on "
     "i + j.", "xpos-power-keys", "Use the reciprocal scale for keys.")


# -- f041: XPos, centre of each call from its own length --------------------------------------------------------------------------------------------------
def make(bug):
    def qk(q, k, qp, kp):
        cq = (np.min(qp) + np.max(qp)) // 2 if bug else 0.0
        ck = (np.min(kp) + np.max(kp)) // 2 if bug else 0.0

        def side(x, p, power, c):
            return xpos(x, np.asarray(p, np.float64), power) * _centre(c, -power)
        return side(q, qp, 1.0, cq).astype(q.dtype), side(k, kp, -1.0, ck).astype(k.dtype)

    def _centre(c, power):
        zeta = (2 * np.arange(32) / 64 + 0.4) / 1.4
        return np.repeat(zeta ** (power * c / 512.0), 2)
    return qk


case("f041", make, XPos(64, layout="interleaved"), "apply_qk",
     "Queries and keys are centred separately, each at the middle of its own positions; where the two middles differ (a "
     "query after cached keys) logits have a factor zeta ** (difference/512).", "xpos-centre",
     "Use one centre for queries and keys.")


# -- f042: XPos gamma ---------------------------------------------------------------------------------------------------------------------------------------
def make(bug):
    def side(x, p, power):
        zeta = np.arange(16) / 16 + 0.4
        zeta = zeta if bug else zeta / 1.4
        size, a = zeta ** (np.asarray(p, np.float64)[..., None] / 256.0 * power), outer(p, inv(32))
        size = size[:, None] if size.ndim == 3 else size
        u, v = np.split(x.astype(np.float64), 2, -1)
        c, s = np.cos(a) * size, np.sin(a) * size
        return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(x.dtype)
    return lambda q, k, qp, kp: (side(q, qp, 1.0), side(k, kp, -1.0))


case("f042", make, XPos(32, layout="half", scale_base=256.0), "apply_qk",
     "zeta_k is 2k/d + gamma without the division by 1 + gamma, so fast growth replaces decay in the upper pairs.",
     "xpos-zeta", "Divide by 1 + gamma.")


# -- f043: grouped keys, only the first key head of each group of 4 is rotated ------------------------------------------------------------------------------------
def make(bug):
    def qk(q, k, qp, kp):
        a, b = outer(qp, inv(64)), outer(kp, inv(64))
        out = rot(k, b)
        if bug:
            out[:, 1:] = np.where(np.arange(1, k.shape[1])[None, :, None, None] >= 2, k[:, 1:], out[:, 1:])
        return rot(q, a), out
    return qk


case("f043", make, RoPE(64, layout="half"), "apply_qk",
     "Only the first two key heads are rotated; key heads 2 and above are returned as they came in.", "kv-heads-skipped",
     "Loop over all key heads.")


# -- f044: multi-axis qk: text positions broadcast from time -----------------------------------------------------------------------------------------------------
def make(bug):
    def qk(q, k, qp, kp):
        def one(x, p, keys):
            t, h, w = axes_of(p, 3)
            if bug and keys:
                h, w = t, t
            f = inv(64)
            return rot(x, np.concatenate([outer(t, f[:8]), outer(h, f[8:20]), outer(w, f[20:])], -1))
        return one(q, qp, False), one(k, kp, True)
    return qk


case("f044", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="half"), "apply_qk",
     "Keys are rotated by the time position in all sections (height and width ignored), queries by all three axes.",
     "keys-time-only", "Use all three rows of k_positions.")


# -- f045 right: XPos with its scale folded into the log-domain ------------------------------------------------------------------------------------------------
def xpos_log(q, k, qp, kp):
    d, z = 64, np.log((2 * np.arange(32) / 64 + 0.4) / 1.4)

    def side(x, p, power):
        p = np.asarray(p, np.float64)[..., None]
        w = np.exp(power * p / 512.0 * z + 1j * p * inv(d))
        w = w[:, None] if w.ndim == 4 - 1 else w
        y = (x[..., :32].astype(np.float64) + 1j * x[..., 32:]) * w
        return np.concatenate([y.real, y.imag], -1).astype(x.dtype)
    return side(q, qp, 1.0), side(k, kp, -1.0)


case("f045", xpos_log, XPos(64, layout="half"), "apply_qk",
     "Right: decay and rotation are one complex exponential exp(n ln zeta + i p theta).", right=True)


# -- f046 right: axial rotation as one einsum over one-hot axes -----------------------------------------------------------------------------------------------
def axial_einsum(x, positions):
    pick = np.zeros((3, 32))
    pick[0, :8], pick[1, 8:20], pick[2, 20:] = 1, 1, 1
    p = np.stack(axes_of(positions, 3))
    a = np.einsum("a...,ap->...p", p, pick * inv(64))
    return rot(x, a[:, None] if a.ndim == 3 else a)


case("f046", axial_einsum, MultiAxisRoPE(64, sections=(8, 12, 12), layout="half"), "apply",
     "Right: one einsum with a 0/1 matrix of axes and pairs makes the angles.", right=True)
