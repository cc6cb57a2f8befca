"""Several axes: M-RoPE, vision, video; learned frequencies of several axes. Wrong ones."""
import math

import numpy as np
import torch

from posenc_ref import (LinearScaling, MixedRoPE, MultiAxisRoPE, RIFLEx, preset)

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def inv(d, base=10000.0):
    return base ** (-np.arange(0, d, 2) / d)


def axes_of(positions, A):
    """Positions (A, B, S), (A, S) or (S,) -> (A, B or 1, S) float64."""
    p = np.asarray(positions, np.float64)
    if p.ndim == 1:
        p = np.stack([p] * A)
    return p[:, None] if p.ndim == 2 else p


def half_turn(x, ang):
    n = ang.shape[-1]
    a, b, rest = x[..., :n], x[..., n:2 * n], x[..., 2 * n:]
    c, s = np.cos(ang), np.sin(ang)
    return np.concatenate([a * c - b * s, b * c + a * s, rest], -1).astype(x.dtype)


def pair_turn(x, ang):
    z = (x[..., 0::2] + 1j * x[..., 1::2].astype(np.float64)) * np.exp(1j * ang)
    return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)


QWEN2 = MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6)
QWEN3 = MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6)


# ---- h103: Qwen2-VL: height and width swapped
def make(bug):
    def apply(x, positions):
        t, h, w = axes_of(positions, 3)
        if bug:
            h, w = w, h
        f = inv(128, 1e6)
        ang = np.concatenate([t[..., None] * f[:16], h[..., None] * f[16:40], w[..., None] * f[40:]], -1)
        return half_turn(x, ang[:, None])
    return apply
case("h103", make, QWEN2, "apply",
     "The second section reads the width and the third the height: the two spatial axes are swapped.",
     "axes-swapped", "sections in the order time, height, width")


# ---- h104: Qwen2-VL: split of the doubled table by undoubled sections
def make(bug):
    def apply(x, positions):
        p = torch.as_tensor(positions)
        if p.ndim == 1:
            p = p.expand(3, -1)
        if p.ndim == 2:
            p = p[:, None]
        f = p[..., None].double() * torch.tensor(inv(128, 1e6))
        emb = torch.cat([f, f], -1)                       # (3, B, S, 128)
        sections = [16, 24, 24] * 2
        if bug:  # the list is doubled number by number, not repeated
            sections = [32, 48, 48]
        parts = emb.split(sections, -1)
        e = torch.cat([m[i % 3] for i, m in enumerate(parts)], -1)[:, None]
        a, b = x.chunk(2, -1)
        return (x * e.cos() + torch.cat([-b, a], -1) * e.sin()).to(x.dtype)
    return apply
case("h104", make, QWEN2, "apply",
     "The doubled table of 128 columns is split into 32, 48 and 48 instead of 16, 24, 24, 16, 24, 24, so the channels of a pair follow different axes.",
     "sections-doubled", "repeat the list of sections instead of doubling each", backend="torch")


# ---- h105: Qwen3-VL: chunked instead of interleaved
def make(bug):
    axis = np.repeat([0, 1, 2], [24, 20, 20])
    if not bug:
        axis = np.zeros(64, int)
        axis[1:60:3], axis[2:60:3] = 1, 2

    def apply(x, positions):
        p = axes_of(positions, 3)
        ang = np.moveaxis(p[axis], 0, -1) * inv(128, 5e6)
        return half_turn(x, ang[:, None])
    return apply
case("h105", make, QWEN3, "apply",
     "The sections are blocks of pairs (Qwen2-VL) instead of interleaved pairs (Qwen3-VL).",
     "chunked-for-interleaved", "assign pairs a, a + 3, a + 6, ... to axis a")


# ---- h106: Qwen3-VL: every third pair to the end
def make(bug):
    def apply(x, positions):
        p = positions
        p = p.expand(3, -1) if p.ndim == 1 else p
        p = p[:, None] if p.ndim == 2 else p
        f = p[..., None].double() * torch.tensor(inv(128, 5e6))    # (3, B, S, 64)
        merged = f[0].clone()
        for dim, offset in ((1, 1), (2, 2)):
            stop = f.shape[-1] if bug else 20 * 3
            merged[..., offset:stop:3] = f[dim, ..., offset:stop:3]
        merged = merged[:, None]
        u, v = x.double().chunk(2, -1)
        return torch.cat([u * merged.cos() - v * merged.sin(), v * merged.cos() + u * merged.sin()], -1).to(x.dtype)
    return apply
case("h106", make, QWEN3, "apply",
     "The interleaving of height and width does not stop at pair 60, so pairs 61 and 62 follow height and width instead of time.",
     "interleave-stop", "stop at 3 * section", backend="torch")


# ---- h107: text positions on the time axis only
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 3 and bug and np.array_equal(p[0], p[1]) and np.array_equal(p[0], p[2]):
            p = np.stack([p[0], np.zeros_like(p[0]), np.zeros_like(p[0])])   # "text has no grid"
        p = axes_of(p, 3)
        axis = np.repeat([0, 1, 2], [16, 24, 24])
        return half_turn(x, (np.moveaxis(p[axis], 0, -1) * inv(128, 1e6))[:, None])
    return apply
case("h107", make, QWEN2, "apply",
     "A call of text only (equal positions on all axes) is rotated by its time position alone; height and width are set to 0.",
     "text-axes", "give text the same position on all axes")


# ---- h108: (3, B, S) read as (B, 3, S) when B is 3
def make(bug):
    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 3 and bug and p.shape[1] == 3:
            p = p.transpose(1, 0, 2)      # "batch first"
        p = axes_of(p, 3)
        axis = np.repeat([0, 1, 2], [2, 3, 3])
        return half_turn(x, (np.moveaxis(p[axis], 0, -1) * inv(16))[:, None])
    return apply
case("h108", make, MultiAxisRoPE(16, sections=(2, 3, 3), layout="half"), "apply",
     "Positions are taken for (B, 3, S) whenever the second axis has size 3, so with a batch of three rows the axes of rows and of time, height and width are swapped.",
     "batch-of-three", "state the order of the axes instead of guessing it")


# ---- h109: FLUX: exponents over the whole head
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 3)
        parts, start = [], 0
        for a, n in enumerate((16, 56, 56)):
            k = np.arange(0, n, 2)
            w = 10000.0 ** (-(start + k) / 128) if bug else 10000.0 ** (-k / n)
            parts.append(p[a][..., None] * w)
            start += n
        return pair_turn(x, np.concatenate(parts, -1)[:, None])
    return apply
case("h109", make, preset("flux.1").only, "apply",
     "The exponents run on over the whole head instead of starting anew for each axis.",
     "spacing-global", "compute the frequencies of each axis by itself")


# ---- h110: axial vision: denominator of the whole head
def make(bug):
    def apply(x, positions):
        p = positions
        p = p.expand(2, -1) if p.ndim == 1 else p
        p = p[:, None] if p.ndim == 2 else p
        n = 80 if bug else 40
        w = torch.tensor(10000.0 ** (-np.arange(0, 40, 2) / n))
        f = torch.cat([p[0][..., None].double() * w, p[1][..., None].double() * w], -1)[:, None]
        u, v = x.double().chunk(2, -1)
        return torch.cat([u * f.cos() - v * f.sin(), v * f.cos() + u * f.sin()], -1).to(x.dtype)
    return apply
case("h110", make, MultiAxisRoPE(80, sections=(20, 20), layout="half", spacing="restart"), "apply",
     "The frequencies of an axis divide the exponent by the head size 80 instead of the 40 channels of the axis.",
     "axis-denominator", "use head_dim / 2 as dim of each axis", backend="torch")


# ---- h111: Pixtral: the same frequencies for both axes
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 2)
        w = inv(64)
        hw, ww = (w[::2], w[::2]) if bug else (w[::2], w[1::2])
        ang = np.concatenate([p[0][..., None] * hw, p[1][..., None] * ww], -1)
        return half_turn(x, ang[:, None])
    return apply
case("h111", make, MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="strided"), "apply",
     "Width uses the even frequencies like height instead of the odd ones.",
     "strided-same", "freqs[::2] for height, freqs[1::2] for width")


# ---- h112: Llama 4 vision: positions from 0
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 2) + (0.0 if bug else 1.0)
        w = inv(32)
        ang = np.empty(p.shape[1:] + (32,))
        ang[..., 0::2], ang[..., 1::2] = p[0][..., None] * w, p[1][..., None] * w
        return pair_turn(x, ang[:, None])
    return apply
case("h112", make, MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart",
                                 arrangement=(0, 1) * 16, offset=1.0), "apply",
     "Patch positions count from 0; the 1 that the model adds to both axes is missing.",
     "offset-missing", "add 1 to both positions")


# ---- h113: DINOv3: 2 pi on one axis
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 2)
        w = 100.0 ** (-np.arange(16) / 16)
        ang = np.concatenate([2 * np.pi * p[0][..., None] * w, (1 if bug else 2 * np.pi) * p[1][..., None] * w], -1)
        return half_turn(x, ang[:, None])
    return apply
case("h113", make, preset("dinov3-vits16").only, "apply",
     "The factor 2 pi multiplies the first axis only.",
     "position-scale-axis", "multiply both axes by 2 pi")


# ---- h114: Gemma 4 vision: halves of the head
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 2)
        w = 100.0 ** (-np.arange(16) / 16)
        ah, aw = (p[a][..., None] * w for a in (0, 1))
        if bug:
            return half_turn(x, np.concatenate([ah, aw], -1)[:, None])
        return np.concatenate([half_turn(x[..., :32], ah[:, None]), half_turn(x[..., 32:], aw[:, None])], -1)
    return apply
case("h114", make, preset("gemma-4-vision").only, "apply",
     "Pairs are (k, k + 32) of the whole head instead of (k, k + 16) inside the 32 channels of each axis.",
     "blockwise-as-half", "apply rotate_half to the channels of each axis")


# ---- h115: one base for all axes
def make(bug):
    bases = (20671.155660140554, 10000.0, 10000.0)

    def apply(x, positions):
        p = axes_of(positions, 3)
        ang = np.concatenate([p[a][..., None] * (bases[2] if bug else bases[a]) ** (-np.arange(n) / n)
                              for a, n in enumerate((22, 21, 21))], -1)
        return half_turn(x, ang[:, None])
    return apply
case("h115", make, preset("cosmos-1.0").only, "apply",
     "Time uses base 10000 like the other axes instead of its own base 20671.",
     "axis-base", "use the base of each axis")


# ---- h116: RIFLEx on all axes
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 3)
        parts = []
        for a, n in enumerate((8, 28, 28)):
            w = 256.0 ** (-np.arange(n) / n)
            if a == 0 or bug:
                w[3] = 0.9 * 2 * np.pi / 300
            parts.append(p[a][..., None] * w)
        return pair_turn(x, np.concatenate(parts, -1)[:, None])
    return apply
case("h116", make, MultiAxisRoPE(128, sections=(8, 28, 28), layout="interleaved", spacing="restart", base=256.0,
                                 scaling=RIFLEx(4, 300, periods=0.9), scaled_axes=(0,)), "apply",
     "The slowed frequency replaces pair 4 of every axis instead of the time axis alone.",
     "riflex-axes", "change the time axis only")


# ---- h117: interpolation of the width forgotten
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 2) / np.array([2.0, 1.0 if bug else 2.0])[:, None, None]
        ang = np.concatenate([p[a][..., None] * inv(32) for a in (0, 1)], -1)
        return pair_turn(x, ang[:, None])
    return apply
case("h117", make, MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart", scaling=LinearScaling(2.0)),
     "apply", "Positions of the first axis are divided by the interpolation factor 2, those of the second are not.",
     "scaling-one-axis", "divide the positions of both axes")


# ---- h118: MixedRoPE: head 0's frequencies for all heads
W4 = np.random.default_rng(7).normal(size=(4, 2, 8)) * 0.7
W1 = np.random.default_rng(8).normal(size=(2, 12)) * 0.5
W3 = np.random.default_rng(9).normal(size=(3, 3, 8)) * 0.4


def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 2)
        w = np.broadcast_to(W4[:1], W4.shape) if bug else W4
        ang = np.einsum("abs,hap->bhsp", p, w)
        return half_turn(x, ang)
    return apply
case("h118", make, MixedRoPE(16, W4, layout="half"), "apply",
     "The learned frequencies of head 0 are broadcast to all heads.",
     "first-head", "use each head's own frequencies")


# ---- h119: MixedRoPE: parameter (A, H, P) read as (H, A, P)
def make(bug):
    def apply(x, positions):
        p = torch.as_tensor(axes_of(np.asarray(positions), 3))
        w = torch.tensor(W3)
        w = w.transpose(0, 1) if bug else w
        ang = torch.einsum("abs,hap->bhsp", p, w)
        xc = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(xc * torch.exp(1j * ang)).flatten(-2).to(x.dtype)
    return apply
case("h119", make, MixedRoPE(16, W3, layout="interleaved"), "apply",
     "With three heads and three axes the two first axes of the weight are swapped: weight[h, a] is used for head a and axis h.",
     "weight-transposed", "index the weight as (head, axis, pair)", backend="torch")


# ---- h120: MixedRoPE: rotations by axis with the angle of the second axis forgotten in sin
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 2)
        y = x.astype(np.float64)
        for a in (0, 1):
            th = (p[a][..., None] * W1[0 if bug else a])[:, None]
            y = half_turn(y, th)
        return y.astype(x.dtype)
    return apply
case("h120", make, MixedRoPE(24, W1, layout="half"), "apply",
     "Both axes use the learned frequencies of the first one.",
     "axis-weight", "use weight[a] for axis a")


# ---- h121: the third section reads the second axis
def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 3)
        f = inv(128, 1e6)
        source = (0, 1, 1) if bug else (0, 1, 2)
        parts = [p[s][..., None] * f[a:b] for s, a, b in zip(source, (0, 16, 40), (16, 40, 64))]
        return half_turn(x, np.concatenate(parts, -1)[:, None])
    return apply
case("h121", make, QWEN2, "apply",
     "The section of the width reads the height row of the positions (index 1) instead of the width row (index 2).",
     "axis-index", "read row 2 for the third section")


# ---- h122: Ernie: arrangement of time at the end, frequencies in the order of axes
def make(bug):
    enc = preset("ernie-4.5-vl-28b-a3b").only
    axis = np.array(enc.arrangement)

    def apply(x, positions):
        p = axes_of(positions, 3)
        w = inv(128, 500000.0)
        if bug:  # frequencies handed out axis by axis: time, height, width
            order = np.argsort(axis, kind="stable")
            w2 = np.empty(64)
            w2[order] = w
            w = w2
        return pair_turn(x, (np.moveaxis(p[axis], 0, -1) * w)[:, None])
    return apply
case("h122", make, preset("ernie-4.5-vl-28b-a3b").only, "apply",
     "The frequencies are handed out axis by axis, the highest to the time pairs, instead of pair by pair, where time has the lowest.",
     "frequencies-by-axis", "frequency k belongs to pair k whatever its axis")
