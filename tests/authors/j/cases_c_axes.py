"""j074-j096: several position axes, vision, learned frequencies."""
import math

import numpy as np
import torch

from posenc_ref import MixedRoPE, MultiAxisRoPE, RIFLEx

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def plain(base, d):
    return float(base) ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def axes_of(positions, A):
    """Positions as (A, S) or (A, B, 1, S): ready for x (B, H, S, D)."""
    p = np.asarray(positions, np.float64)
    if p.ndim == 1:
        p = np.stack([p] * A)
    return p if p.ndim == 2 else p[:, :, None, :]


def half(x, c, s):
    h = c.shape[-1]
    x1, x2 = x[..., :h].astype(np.float64), x[..., h:2 * h].astype(np.float64)
    y = np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)
    return np.concatenate([y, x[..., 2 * h:]], -1) if 2 * h < x.shape[-1] else y


def adjacent(x, c, s):
    n = 2 * c.shape[-1]
    v = x[..., :n].astype(np.float64).reshape(x.shape[:-1] + (n // 2, 2))
    z = (v[..., 0] + 1j * v[..., 1]) * (c + 1j * s)
    y = np.stack([z.real, z.imag], -1).reshape(x.shape[:-1] + (n,)).astype(x.dtype)
    return np.concatenate([y, x[..., n:]], -1) if n < x.shape[-1] else y


def by_axis(p, axis, w):
    """Angles (..., S, P) from p (A, ..., S), the axis of each pair and its frequency."""
    return np.stack([p[a] * f for a, f in zip(axis, w)], -1)


# ---- j074
def make(bug):
    sec = [16, 24, 24]
    w = plain(1e6, 128)

    def apply(x, positions):
        p = axes_of(positions, 3)
        full = p[..., None] * w
        cos, sin = np.cos(np.concatenate([full, full], -1)), np.sin(np.concatenate([full, full], -1))
        cuts = [2 * n for n in sec] if bug else sec * 2
        edges = np.cumsum([0] + cuts)
        c = np.concatenate([cos[i % 3][..., edges[i]:edges[i + 1]] for i in range(len(cuts))], -1)
        s = np.concatenate([sin[i % 3][..., edges[i]:edges[i + 1]] for i in range(len(cuts))], -1)
        rot = np.concatenate([-x[..., 64:], x[..., :64]], -1)
        return (x * c + rot * s).astype(x.dtype)

    return apply


case("j074", make, MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1e6), "apply",
     "mrope_section * 2 doubles every number (32, 48, 48) instead of repeating the list (16, 24, 24, 16, 24, 24), so "
     "the two channels of a pair follow different axes", "mrope-sections-doubled", "repeat the list for the second half")


# ---- j076
def make(bug):
    sec = (24, 20, 20)
    axis = np.arange(64) % 3
    if not bug:
        for a in (1, 2):
            axis[(np.arange(64) % 3 == a) & (np.arange(64) >= 3 * sec[a])] = 0
    w = plain(5e6, 128)

    def apply(x, positions):
        a = by_axis(axes_of(positions, 3), axis, w)
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j076", make, MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5e6), "apply",
     "the interleaved pattern t h w continues to the last pair; after pair 3 * 20 = 60 the rest (pairs 61 and 62) "
     "belongs to time", "interleaved-no-end", "stop axis a at 3 * sections[a]")


# ---- j080
def make(bug):
    axis = np.repeat([0, 1, 2], [8, 12, 12])
    w = plain(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p] * 3)
        if p.ndim == 3:
            if bug:
                p = np.stack([p[0], np.broadcast_to(p[1, :1], p[1].shape), np.broadcast_to(p[2, :1], p[2].shape)])
            p = p[:, :, None]
        a = by_axis(p, axis, w)
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j080", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="half"), "apply",
     "with positions (3, B, S) height and width are those of row 0 of the batch in every row; only time is per row",
     "hw-of-row-zero", "take all axes of each row")


# ---- j081
def make(bug):
    axis = np.repeat([0, 1, 2], [8, 12, 12])
    w = plain(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, 0 * p, 0 * p]) if bug else np.stack([p, p, p])
        p = p if p.ndim == 2 else p[:, :, None]
        a = by_axis(p, axis, w)
        return adjacent(x, np.cos(a), np.sin(a))

    return apply


case("j081", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved"), "apply",
     "text positions (S,) are put on the time axis only, with height and width 0; text has the same number on all axes",
     "text-only-time", "repeat the position on every axis")


# ---- j082
def make(bug):
    n = 16
    w = np.concatenate([10000.0 ** (-np.arange(n) / n)] * 2)
    axis = np.arange(2 * n) // n

    def apply(x, positions):
        p = axes_of(positions, 2)
        shift = np.array([0.0 if bug else 1.0, 1.0]).reshape(2, *[1] * (p.ndim - 1))
        a = by_axis(p + shift, axis, w)
        return adjacent(x, np.cos(a), np.sin(a))

    return apply


case("j082", make, MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart", offset=1.0), "apply",
     "the offset 1 of patch coordinates is added to the second axis only", "offset-one-axis",
     "add 1 on both axes")


# ---- j084
def make(bug):
    P = 32
    axis = np.repeat([0, 1], 16)
    i = np.tile(np.arange(16), 2)
    order = i + 16 * axis if bug else 2 * i + axis
    w = 10000.0 ** (-order / P)

    def apply(x, positions):
        a = by_axis(axes_of(positions, 2), axis, w)
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j084", make, MultiAxisRoPE(64, sections=(16, 16), layout="half", spacing="strided"), "apply",
     "rows take the first half of the frequencies and columns the second; in Pixtral rows take freqs[::2] and columns "
     "freqs[1::2]", "strided-as-chunks", "use every second frequency for each axis")


# ---- j086
def make(bug):
    sec = (16, 16)
    w = np.concatenate([100.0 ** (-np.arange(n) / n) for n in sec])
    axis = np.repeat([0, 1], sec)

    def apply(x, positions):
        a = by_axis(axes_of(positions, 2), axis, w)
        c, s = np.cos(a), np.sin(a)
        if bug:
            return half(x, c, s)
        y = [half(x[..., 32 * b:32 * b + 32], c[..., 16 * b:16 * b + 16], s[..., 16 * b:16 * b + 16]) for b in (0, 1)]
        return np.concatenate(y, -1)

    return apply


case("j086", make, MultiAxisRoPE(64, sections=(16, 16), layout="blockwise", spacing="restart", base=100.0), "apply",
     "channel k is paired with k + 32 over the whole head; each axis has its own block of 32 channels, in which k is "
     "paired with k + 16", "halves-across-axes", "rotate each block of channels separately")


# ---- j087
WEIGHT = np.random.default_rng(87).normal(size=(4, 2, 8)) * 0.3


def make(bug):
    stored = np.ascontiguousarray(WEIGHT.swapaxes(0, 1))          # the checkpoint has (axes, heads, pairs)
    w = stored.reshape(4, 2, 8) if bug else stored.transpose(1, 0, 2)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p])
        a = np.einsum("a...s,hap->...hsp", p, w)
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j087", make, MixedRoPE(16, WEIGHT, layout="half"), "apply",
     "the parameter (axes, heads, pairs) of the checkpoint is reshaped to (heads, axes, pairs) instead of transposed, so heads get "
     "rows of other heads and axes", "reshape-for-transpose", "transpose(1, 0, 2)")


# ---- j088
W2 = np.random.default_rng(88).normal(size=(2, 16)) * 0.2


def make(bug):
    def apply(x, positions):
        p = axes_of(positions, 2)
        a = np.zeros(p.shape[1:] + (16,))
        for i in range(2):
            if bug:
                a = p[i][..., None] * W2[i]
            else:
                a = a + p[i][..., None] * W2[i]
        return adjacent(x, np.cos(a), np.sin(a))

    return apply


case("j088", make, MixedRoPE(32, W2, layout="interleaved"), "apply",
     "the angle is overwritten in the loop over the axes instead of summed, so only the last axis counts",
     "axes-overwritten", "add the angles of all axes")


# ---- j089
def make(bug):
    sec = (8, 12, 12)
    axis = np.repeat([0, 1, 2], sec)
    w = plain(10000.0, 64)

    def apply(x, positions):
        p = axes_of(positions, 3)
        if bug:
            p = np.concatenate([np.trunc(p[:1]), p[1:]])
        a = by_axis(p, axis, w)
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j089", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="half"), "apply",
     "the time axis is cut to whole numbers (long) while height and width keep fractions, so frames at fractional "
     "times fall together", "time-truncated", "keep fractional times")


# ---- j090
def make(bug):
    base, d = 256.0, 16
    t = base ** (-np.arange(8) / 8.0)
    k = 4 if bug else 3
    period = round(2 * math.pi / t[3])
    assert 300 > period
    t[k] = 2 * math.pi / 300
    s = base ** (-np.arange(12) / 12.0)
    w = np.concatenate([t, s, s])
    axis = np.repeat([0, 1, 2], [8, 12, 12])

    def apply(x, positions):
        a = by_axis(axes_of(positions, 3), axis, w)
        return adjacent(x, np.cos(a), np.sin(a))

    return apply


case("j090", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved", spacing="restart", base=256.0,
                                 scaling=RIFLEx(4, 300), scaled_axes=(0,)), "apply",
     "RIFLEx counts pairs from 1, but the code replaces frequency [4] instead of [3] for pair 4",
     "riflex-index-from-zero", "replace freqs[pair - 1]")


# ---- j091
def make(bug):
    base = 256.0

    def table(n, slow):
        t = base ** (-np.arange(n) / float(n))
        if slow:
            t[1] = 2 * math.pi * 0.9 / 200
        return t

    w = np.concatenate([table(8, True), table(12, bug), table(12, bug)])
    axis = np.repeat([0, 1, 2], [8, 12, 12])

    def apply(x, positions):
        a = by_axis(axes_of(positions, 3), axis, w)
        return adjacent(x, np.cos(a), np.sin(a))

    return apply


case("j091", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="interleaved", spacing="restart", base=256.0,
                                 scaling=RIFLEx(2, 200, periods=0.9), scaled_axes=(0,)), "apply",
     "the slowed frequency of RIFLEx is put on height and width as well as on time", "riflex-all-axes",
     "change the time axis only")


# ---- j092
def make(bug):
    axis = np.repeat([0, 1, 2], [8, 12, 12])
    w = plain(1e6, 64)
    kept = {}

    def apply(x, positions):
        p = np.ascontiguousarray(axes_of(positions, 3))
        key = (p.shape, (p[0] if bug else p).tobytes())
        if key not in kept:
            if len(kept) > 200:
                kept.clear()
            a = by_axis(p, axis, w)
            kept[key] = np.cos(a), np.sin(a)
        return half(x, *kept[key])

    return apply


case("j092", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="half", base=1e6), "apply",
     "the cached tables are keyed by the time positions alone, so a second image with the same times and other rows "
     "or columns gets the tables of the first", "cache-key-time-only", "key by the positions of all axes")


# ---- j093
def make(bug):
    axis = np.repeat([0, 1, 2], [8, 12, 12])
    w = plain(1e6, 64)

    def apply(x, positions):
        p = axes_of(positions, 3)
        if p.shape[-1] and (p[0, ..., 0] == p[1, ..., 0]).all() and (p[0, ..., 0] == p[2, ..., 0]).all():
            text = bug or ((p[0] == p[1]) & (p[1] == p[2])).all()
        else:
            text = False
        if text:
            a = p[0][..., None] * w
        else:
            a = by_axis(p, axis, w)
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j093", make, MultiAxisRoPE(64, sections=(8, 12, 12), layout="half", base=1e6), "apply",
     "the fast path for text is taken if the FIRST token has equal positions on all axes, so text followed by an "
     "image is rotated by time alone", "text-path-by-first-token", "test all tokens")


# ---- j094
def make(bug):
    sec = (6, 9, 9)
    w = plain(10000.0, 48)
    axis = np.repeat([0, 1, 2], sec)

    def apply(x, positions):
        p = axes_of(positions, 3)
        a = by_axis(p, axis, w)
        y = adjacent(x, np.cos(a), np.sin(a))
        if bug:                    # the rest is treated as a fourth section that follows the last axis
            b = p[2][..., None] * 10000.0 ** (-np.arange(24, 32) / 24.0)
            y = np.concatenate([y[..., :48], adjacent(x[..., 48:], np.cos(b), np.sin(b))], -1)
        return y

    return apply


case("j094", make, MultiAxisRoPE(64, sections=(6, 9, 9), layout="interleaved"), "apply",
     "the 16 channels behind the sections (24 pairs of 32) are rotated with the last axis instead of passed through",
     "rest-follows-last-axis", "rotate only 2 * sum(sections) channels")


# ---- j095
def make(bug):
    axis = np.repeat([0, 1, 2, 3], 8)
    w = plain(10000.0, 64)

    def apply(x, positions):
        p = axes_of(positions, 4)
        a = by_axis(p, np.minimum(axis, 2) if bug else axis, w)
        return half(x, np.cos(a), np.sin(a))

    return apply


case("j095", make, MultiAxisRoPE(64, sections=(8, 8, 8, 8), layout="half"), "apply",
     "the code for three axes is used with four: the pairs of the fourth axis follow the third", "fourth-axis-ignored",
     "use the position of each section's own axis")


# ---- j096
def make(bug):
    n = 8
    w = torch.tensor([10000.0 ** (-k / n) for k in range(n)], dtype=torch.float64)

    def apply(x, positions):
        t = torch.from_numpy(np.array(x)).double()
        p = torch.from_numpy(np.ascontiguousarray(axes_of(positions, 2)))
        out = []
        for a in (0, 1):
            f = p[a].unsqueeze(-1) * w
            part = t[..., 16 * a:16 * a + 16].unflatten(-1, (n, 2))
            z = torch.view_as_complex(part.contiguous()) * torch.polar(torch.ones_like(f), f)
            v = torch.view_as_real(z).flatten(-2)
            if bug and a == 1 and t.shape[-2] > 1:
                v = torch.cat([t[..., :1, 16:32], v[..., 1:, :]], -2)   # "CLS is not rotated"
            out.append(v)
        return torch.cat(out, -1).numpy().astype(x.dtype)

    return apply


case("j096", make, MultiAxisRoPE(32, sections=(8, 8), layout="interleaved", spacing="restart"), "apply",
     "the first token is taken for a CLS token and not rotated along the second axis, although there is none (its "
     "position is not 0)", "first-token-as-cls", "give CLS position 0 instead of skipping the first token")
