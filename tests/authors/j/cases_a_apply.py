"""j001-j040: apply of RoPE with one axis and no schedule."""
import math

import numpy as np
import torch

from posenc_ref import RoPE

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def freqs(base, d):
    return np.asarray([float(base) ** (-2.0 * k / d) for k in range(d // 2)])


def lift(positions):
    p = np.asarray(positions, dtype=np.float64)
    return p if p.ndim == 1 else p[:, None, :]


# ---- j001: a tiled kernel whose last tile is moved back
def make(bug):
    w = freqs(10000.0, 64)
    tile = 16

    def rotate_rows(rows, p):
        a = p[..., None] * w
        c, s = np.cos(a), np.sin(a)
        l, r = rows[..., :32].copy(), rows[..., 32:].copy()
        rows[..., :32] = l * c - r * s
        rows[..., 32:] = r * c + l * s

    def apply(x, positions):
        p = lift(positions)
        out = x.astype(np.float64)
        n = x.shape[2]
        start = 0
        while start < n:
            if start + tile > n and n > tile:
                if bug:
                    begin = n - tile
                    rotate_rows(out[:, :, begin:], p[..., begin:])
                else:
                    rotate_rows(out[:, :, start:], p[..., start:])
            else:
                rotate_rows(out[:, :, start:start + tile], p[..., start:start + tile])
            start += tile
        return out.astype(x.dtype)

    return apply


case("j001", make, RoPE(64, layout="half"), "apply",
     "the last tile of 16 tokens is moved back to stay inside the sequence, and because the kernel works in place "
     "the tokens that it shares with the tile before are rotated twice when S > 16 is no multiple of 16",
     "tail-rotated-twice", "mask the last tile, or read from an unrotated copy")


# ---- j002: in-place with a view
def make(bug):
    w = freqs(10000.0, 96)

    def apply(x, positions):
        a = lift(positions)[..., None] * w
        c, s = np.cos(a), np.sin(a)
        y = x.astype(np.float64)
        h = y.shape[-1] // 2
        lo, hi = y[..., :h], y[..., h:]
        if not bug:
            lo = lo.copy()
        y[..., :h] = lo * c - hi * s
        y[..., h:] = hi * c + lo * s
        return y.astype(x.dtype)

    return apply


case("j002", make, RoPE(96, layout="half"), "apply",
     "the first half is a view that is overwritten before the second half is computed, so the second half uses "
     "the rotated first channel instead of the original one", "aliased-first-half", "copy the first half before writing")


# ---- j003: torch, tile instead of repeat_interleave
def make(bug):
    def apply(x, positions):
        t = torch.from_numpy(np.array(x)).double()
        p = torch.from_numpy(np.array(positions, dtype=np.float64))
        inv = 1.0 / 10000.0 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64)
        f = p[..., None] * inv
        emb = torch.cat([f, f], -1) if bug else torch.repeat_interleave(f, 2, dim=-1)
        if emb.dim() == 3:
            emb = emb[:, None]
        rot = torch.stack([-t[..., 1::2], t[..., ::2]], dim=-1).flatten(-2)
        return (t * emb.cos() + rot * emb.sin()).numpy().astype(x.dtype)

    return apply


case("j003", make, RoPE(64, layout="interleaved"), "apply",
     "the angles of the pairs are concatenated twice (cat) where the interleaved pairs (2k, 2k+1) need each angle "
     "repeated for two neighbouring channels: the two channels of a pair turn by different angles",
     "cat-for-repeat-interleave", "repeat_interleave(freqs, 2, dim=-1)")


# ---- j004: layout of the axes guessed from the shape
def make(bug):
    w = freqs(500000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, dtype=np.float64)
        a = p[..., None] * w
        if p.ndim == 2:
            a = a[:, None]
        elif bug and x.shape[1] == p.shape[0]:
            a = a[None, :, None, :]          # (B, S, H, D) input, as flash-attention has it
        z = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * np.exp(1j * a)
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)

    return apply


case("j004", make, RoPE(64, layout="half", base=500000.0), "apply",
     "the layout of the axes is guessed from the shape: where the number of heads equals the number of tokens, "
     "the positions run along the head axis", "heads-equal-tokens", "do not guess; x is (B, H, S, D)")


# ---- j006: clamped gather at the end of a table that grows by doubling
def make(bug):
    w = freqs(10000.0, 32)

    def rows(p):
        n, top = 256, int(p.max(initial=0))
        while (n < top) if bug else (n <= top):
            n *= 2
        used, where = np.unique(np.clip(p, 0, n - 1), return_inverse=True)      # gather with mode="clip"
        a = used.astype(np.float64)[:, None] * w                                # only the rows that are read
        return np.cos(a)[where.reshape(p.shape)], np.sin(a)[where.reshape(p.shape)]

    def apply(x, positions):
        p = np.asarray(positions)
        if p.dtype.kind == "f" or (p.size and p.min() < 0):
            raise ValueError("positions must be non-negative integers")
        c, s = rows(p)
        if p.ndim == 2:
            c, s = c[:, None], s[:, None]
        x1, x2 = x[..., :16], x[..., 16:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j006", make, RoPE(32, layout="half"), "apply",
     "the number n of table rows is the smallest 256 * 2^i that is at least the largest position, so where the largest "
     "position is exactly n (256, 512, 1024 ...) the gather clamps it: that token gets the rotation of position n - 1",
     "clamped-last-row", "double n while n <= the largest position")


# ---- j007: tables cached by the number of tokens
def make(bug):
    w = freqs(10000.0, 128)
    kept = {}

    def tables(p):
        key = p.shape if bug else (p.shape, p.tobytes())
        if key not in kept:
            if len(kept) > 64:
                kept.clear()
            a = p[..., None] * w
            kept[key] = np.cos(a), np.sin(a)
        return kept[key]

    def apply(x, positions):
        c, s = tables(np.array(lift(positions)))
        x1, x2 = np.split(x.astype(np.float64), 2, -1)
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j007", make, RoPE(128, layout="half"), "apply",
     "cos and sin are cached by the shape of the positions, so a later call with as many tokens at other positions "
     "gets the tables of the first call", "cache-key-shape", "let the key contain the positions")


# ---- j009: positions in float16
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions)
        p = p.astype(np.float16) if bug and p.max(initial=0) < 65504 else p
        a = p.astype(np.float64)[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j009", make, RoPE(64, layout="half"), "apply",
     "positions below 65504 are cast to float16, which rounds integers above 2048 to multiples of 2, 4, 8 ...",
     "positions-float16", "build positions in int64 or float32")


# ---- j011: range reduction with a short pi
def make(bug):
    w = freqs(10000.0, 64)
    two_pi = 2 * (3.140625 if bug else math.pi)

    def apply(x, positions):
        a = lift(positions)[..., None] * w
        a = a - two_pi * np.round(a / two_pi)
        c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j011", make, RoPE(64, layout="half"), "apply",
     "the angle is reduced modulo 2 pi with pi rounded to 3.140625 (the bfloat16 value), so each whole turn that is "
     "taken off adds 0.0019 rad", "short-two-pi", "reduce by 2 pi in full precision")


# ---- j012: polynomial sine with too few terms
def make(bug):
    w = freqs(10000.0, 64)
    terms = 4 if bug else 12

    def sincos(a):
        k = np.round(a / (2 * math.pi))
        r = a - k * 2 * math.pi
        s = np.zeros_like(r)
        c = np.zeros_like(r)
        for n in range(terms):
            s += (-1) ** n * r ** (2 * n + 1) / math.factorial(2 * n + 1)
            c += (-1) ** n * r ** (2 * n) / math.factorial(2 * n)
        return s, c

    def apply(x, positions):
        s, c = sincos(lift(positions)[..., None] * w)
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j012", make, RoPE(64, layout="half"), "apply",
     "sin and cos are Taylor polynomials with 4 terms on [-pi, pi], good near 0 but off by up to 0.2 (cos) near pi",
     "short-polynomial", "use more terms, or reduce to [-pi/4, pi/4]")


# ---- j014: partial rotary, second half taken from the end of the head
def make(bug):
    w = freqs(10000.0, 32)

    def apply(x, positions):
        a = lift(positions)[..., None] * w
        c, s = np.cos(a), np.sin(a)
        half = x.shape[-1] // 2 if bug else 16
        y = x.copy()
        x1, x2 = x[..., :16], x[..., half:half + 16]
        y[..., :16] = x1 * c - x2 * s
        y[..., half:half + 16] = x2 * c + x1 * s
        return y

    return apply


case("j014", make, RoPE(64, layout="half", rotary_dim=32), "apply",
     "with partial rotary the partner of channel k is k + head_dim/2 instead of k + rotary_dim/2: channels 32..47 "
     "rotate and 16..31 do not", "partner-by-head-dim", "pair k with k + rotary_dim/2")


# ---- j015: DeepSeek, leading slice instead of trailing
def make(bug):
    nope, rot = 32, 16
    w = freqs(10000.0, rot)

    def apply(x, positions):
        a = lift(positions)[..., None] * w
        z = np.exp(1j * a)
        if bug:
            pe, keep = x[..., :rot], x[..., rot:]
        else:
            keep, pe = x[..., :nope], x[..., nope:]
        v = np.ascontiguousarray(pe.astype(np.float64)).view(np.complex128) * z
        pe = np.ascontiguousarray(v).view(np.float64).astype(x.dtype)
        return np.concatenate([pe, keep] if bug else [keep, pe], -1)

    return apply


case("j015", make, RoPE(48, layout="interleaved", rotary_dim=16, rotary_start=32), "apply",
     "the leading 16 channels are rotated; the rotary part of this head is the trailing 16, after 32 channels "
     "without positions", "leading-for-trailing", "rotate x[..., 32:]")


# ---- j016: uint16 positions
def make(bug):
    w = freqs(1e6, 64)

    def apply(x, positions):
        p = np.asarray(positions)
        if bug and p.dtype.kind in "iu":
            p = p.astype(np.uint16)
        a = p.astype(np.float64)[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j016", make, RoPE(64, layout="half", base=1e6), "apply",
     "integer positions are stored as uint16, so position 65536 becomes 0 (and negative ones wrap)",
     "positions-uint16", "keep positions in int32 or int64")


# ---- j017: the last heads of an unrolled loop
def make(bug):
    w = freqs(10000.0, 32)

    def apply(x, positions):
        a = lift(positions)[..., None] * w
        c, s = np.broadcast_to(np.cos(a), x.shape[:-1] + (16,)), np.broadcast_to(np.sin(a), x.shape[:-1] + (16,))
        y = np.array(x)
        H = x.shape[1]
        stop = H if not bug or H < 8 else H // 8 * 8
        for h in range(stop):
            l, r = x[:, h, :, :16], x[:, h, :, 16:]
            y[:, h, :, :16] = l * c[:, h] - r * s[:, h]
            y[:, h, :, 16:] = r * c[:, h] + l * s[:, h]
        return y

    return apply


case("j017", make, RoPE(32, layout="half"), "apply",
     "heads are processed in blocks of 8 and, from 8 heads on, the last H % 8 heads are not rotated", "head-remainder",
     "round the number of blocks up and mask")


# ---- j018: wrap of negative positions in the table
def make(bug):
    w = freqs(10000.0, 64)
    size = 4096
    a = np.arange(size, dtype=np.float64)[:, None] * w
    C, S = np.cos(a), np.sin(a)

    def apply(x, positions):
        p = np.asarray(positions)
        if p.dtype.kind == "f":
            raise TypeError("integer positions only")
        if p.size and np.abs(p).max() >= size:
            ang = p.astype(np.float64)[..., None] * w
            c, s = np.cos(ang), np.sin(ang)
        elif bug:
            c, s = C[p], S[p]
        else:
            c, s = C[np.abs(p)], S[np.abs(p)] * np.sign(p)[..., None]
        if p.ndim == 2:
            c, s = c[:, None], s[:, None]
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j018", make, RoPE(64, layout="half"), "apply",
     "the table of 4096 rows is indexed with negative positions, which Python counts from its end: position -1 is "
     "rotated as 4095", "negative-wraps", "refuse negative positions, or negate sin of |p|")


# ---- j019: fractions are cut off
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions)
        p = p.astype(np.int64) if bug else p
        ang = np.einsum("...s,k->...sk", p.astype(np.float64), w)
        ang = ang if p.ndim == 1 else ang[:, None]
        rot = np.stack([np.cos(ang), -np.sin(ang), np.sin(ang), np.cos(ang)], -1).reshape(ang.shape + (2, 2))
        v = x.reshape(x.shape[:-1] + (32, 2)).astype(np.float64)
        return np.matmul(rot, v[..., None])[..., 0].reshape(x.shape).astype(x.dtype)

    return apply


case("j019", make, RoPE(64, layout="interleaved"), "apply",
     "positions are cast to int64, so fractional positions are cut to whole numbers", "fractions-cut",
     "keep positions in floating point")


# ---- j021: consecutive positions assumed
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if bug and p.shape[-1] > 1:
            p = p[..., :1] + np.arange(p.shape[-1])
        a = p[..., None] * w
        a = a if p.ndim == 1 else a[:, None]
        c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j021", make, RoPE(64, layout="half"), "apply",
     "only the first position of a row is used as an offset and the others are counted up from it, so gaps, repeats "
     "and packed positions are ignored", "offset-plus-arange", "gather by the positions themselves")


# ---- j022: np.unique and the wrong inverse
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        flat = p.ravel()
        uniq, inv = np.unique(flat, return_inverse=True)
        a = uniq[:, None] * w
        C, S = np.cos(a), np.sin(a)
        if bug and uniq.size == flat.size:
            inv = np.argsort(flat, kind="stable")
        c, s = C[inv].reshape(p.shape + (32,)), S[inv].reshape(p.shape + (32,))
        if p.ndim == 2:
            c, s = c[:, None], s[:, None]
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j022", make, RoPE(64, layout="half"), "apply",
     "tables are computed for sorted positions and put back with argsort instead of its inverse, which is wrong for "
     "unsorted distinct positions unless the order is its own inverse", "argsort-not-inverse",
     "use the inverse permutation (return_inverse)")


# ---- j023: the first angle table is limited
def make(bug):
    w = freqs(500000.0, 64)
    lo_n, hi_n = 1024, 512 if bug else 4096
    lo = np.exp(1j * np.arange(lo_n)[:, None] * w)
    hi = np.exp(1j * (np.arange(hi_n) * float(lo_n))[:, None] * w)

    def apply(x, positions):
        p = np.asarray(positions)
        if p.dtype.kind == "f" or (p.size and p.min() < 0):
            raise ValueError("non-negative integers only")
        h, l = np.divmod(p, lo_n)
        z = hi[np.minimum(h, hi_n - 1)] * lo[l]
        z = z if p.ndim == 1 else z[:, None]
        v = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * z
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    return apply


case("j023", make, RoPE(64, layout="half", base=500000.0), "apply",
     "the position is split into high * 1024 + low with two tables, and the high table ends at 511: positions from "
     "524288 on keep only their low part", "two-level-table-ends", "enlarge the high table")


# ---- j024: fast path for one token
def make(bug):
    w = freqs(10000.0, 64)
    memory = {}

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.shape[-1] == 1 and p.ndim == 1:
            key = "step"
            if not (bug and key in memory and memory[key][0] <= p[0] < memory[key][0] + 4):
                memory[key] = (float(p[0]), np.exp(1j * p[:, None] * w))
            z = memory[key][1]
        else:
            a = p[..., None] * w
            z = np.exp(1j * (a if p.ndim == 1 else a[:, None]))
        v = (x[..., :32] + 1j * x[..., 32:].astype(np.float64)) * z
        return np.concatenate([v.real, v.imag], -1).astype(x.dtype)

    return apply


case("j024", make, RoPE(64, layout="half"), "apply",
     "a decode step of one token reuses the tables of the step before while the position is less than 4 ahead, so "
     "steps 1 to 3 after a refresh are rotated by an old position", "stale-decode-step",
     "recompute (or gather) the row for every step")


# ---- j025: memory order of a transposed view
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        x = np.asarray(x)
        flat = x.ravel(order="K" if bug else "C")
        v = flat.reshape(x.shape).astype(np.float64)
        a = lift(positions)[..., None] * w
        c, s = np.cos(a), np.sin(a)
        x1, x2 = v[..., :32], v[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j025", make, RoPE(64, layout="half"), "apply",
     "the buffer of x is read in memory order, without its strides, so a transposed or otherwise non-contiguous view "
     "is read with tokens and heads mixed up", "strides-ignored", "make x contiguous, or use its strides")


# ---- j027: linspace exponents
def make(bug):
    e = np.linspace(0.0, 1.0, 24, endpoint=bug)
    inv = 10000.0 ** -e

    def apply(x, positions):
        a = lift(positions)[..., None] * inv
        c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., ::2], x[..., 1::2]
        return np.stack([x1 * c - x2 * s, x1 * s + x2 * c], -1).reshape(x.shape).astype(x.dtype)

    return apply


case("j027", make, RoPE(48, layout="interleaved"), "apply",
     "the exponents are linspace(0, 1, d/2) with the end included, k/(d/2 - 1) instead of k/(d/2), so the last "
     "frequency is 1/base", "exponent-endpoint", "leave the endpoint out")


# ---- j028: warps of 32 lanes
def make(bug):
    w = freqs(10000.0, 128)
    lane = np.arange(64) % 32 if bug else np.arange(64)

    def apply(x, positions):
        a = lift(positions)[..., None] * w[lane]
        c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., :64], x[..., 64:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j028", make, RoPE(128, layout="half"), "apply",
     "the frequency is indexed by the lane (k mod 32), so pairs 32..63 turn with the frequencies of pairs 0..31",
     "lane-frequency", "index by the pair")


# ---- j029: input changed
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        a = lift(positions)[..., None] * w
        c, s = np.cos(a).astype(x.dtype), np.sin(a).astype(x.dtype)
        y = x if bug else x.copy()
        x1, x2 = y[..., :32].copy(), y[..., 32:].copy()
        y[..., :32] = x1 * c - x2 * s
        y[..., 32:] = x2 * c + x1 * s
        return y

    return apply


case("j029", make, RoPE(64, layout="half"), "apply",
     "the rotation is written into the caller's x, so a second use of the unrotated x sees rotated values",
     "overwrites-input", "work on a copy")


# ---- j030: long prompts in blocks
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        p = lift(positions)
        parts = []
        S = x.shape[2]
        for i in range(0, max(S, 1), 512):
            q = p[..., i:i + 512]
            if bug and i:
                q = q - i        # the positions of a block are counted from its start
            a = q[..., None] * w
            c, s = np.cos(a), np.sin(a)
            t = x[:, :, i:i + 512]
            parts.append(np.concatenate([t[..., :32] * c - t[..., 32:] * s, t[..., 32:] * c + t[..., :32] * s], -1))
        return np.concatenate(parts, 2).astype(x.dtype)

    return apply


case("j030", make, RoPE(64, layout="half"), "apply",
     "long prompts are processed in blocks of 512 tokens and the positions of each later block are counted from its "
     "own start", "block-restarts", "do not subtract the start of the block")


# ---- j032: ChatGLM, rotary halved twice
def make(bug):
    def apply(x, positions):
        head = x.shape[-1]
        rot = head // 2
        n = rot // 2 if bug else rot
        theta = 1.0 / 10000.0 ** (np.arange(0, n, 2) / n)
        idx = lift(positions)[..., None] * theta
        cache = np.stack([np.cos(idx), np.sin(idx)], -1)
        part = x[..., :n].reshape(x.shape[:-1] + (n // 2, 2))
        out = np.stack([
            part[..., 0] * cache[..., 0] - part[..., 1] * cache[..., 1],
            part[..., 1] * cache[..., 0] + part[..., 0] * cache[..., 1]], -1)
        return np.concatenate([out.reshape(x.shape[:-1] + (n,)).astype(x.dtype), x[..., n:]], -1)

    return apply


case("j032", make, RoPE(64, layout="interleaved", rotary_dim=32), "apply",
     "rotary_dim is halved a second time (as if the factor 0.5 had not been applied yet): only 16 channels rotate, "
     "with frequencies for 16", "rotary-dim-halved-twice", "rotate 32 channels")


# ---- j033: one row of the batch is left out
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        B, H, S, D = x.shape
        rows = x.transpose(0, 2, 1, 3).reshape(B * S, H, D).astype(np.float64)
        at = np.tile(p, B) if p.ndim == 1 else (np.tile(p[0], B) if p.shape[0] == 1 else
                                                (p.T.ravel() if bug else p.ravel()))
        z = np.exp(1j * at[:, None, None] * w)
        v = (rows[..., :32] + 1j * rows[..., 32:]) * z
        rows = np.concatenate([v.real, v.imag], -1)
        return rows.reshape(B, S, H, D).transpose(0, 2, 1, 3).astype(x.dtype)

    return apply


case("j033", make, RoPE(64, layout="half"), "apply",
     "x is flattened batch-major but positions (B, S) are flattened token-major, so with several rows the positions "
     "go to the wrong tokens", "positions-transposed-flat", "flatten both in the same order")


# ---- j034: float32 output whatever the input
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        a = lift(positions)[..., None] * w
        c, s = np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)
        if not bug:
            c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., :32].astype(c.dtype), x[..., 32:].astype(c.dtype)
        y = np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)
        return y.astype(x.dtype)

    return apply


case("j034", make, RoPE(64, layout="half"), "apply",
     "float64 queries are rotated in float32 and converted back: only 24 bits are right",
     "float64-through-float32", "compute in float64 for float64 input", dtype="float64")


# ---- j035: products in half precision
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        a = lift(positions)[..., None] * w
        if bug:
            a = a.astype(np.float16)
        c, s = np.cos(a.astype(np.float64)), np.sin(a.astype(np.float64))
        x1, x2 = x[..., :32], x[..., 32:]
        return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)

    return apply


case("j035", make, RoPE(64, layout="half"), "apply",
     "the angle position * frequency is rounded to float16 (autocast) before cos and sin: angles above 2048 have whole radians, "
     "above 65504 it is infinite", "angles-float16", "compute angles outside autocast, in float32",
     dtype="float16")


# ---- j037: sorted batch order not undone
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.broadcast_to(p, (x.shape[0], p.size))
        elif p.shape[0] == 1:
            p = np.broadcast_to(p, (x.shape[0], p.shape[1]))
        # rows are sorted by their largest position (length bucketing) and put back afterwards
        order = np.argsort(p.max(axis=1, initial=0), kind="stable")
        a = p[order][:, None, :, None] * w
        t = x if bug else x[order]
        c, s = np.cos(a), np.sin(a)
        y = np.concatenate([t[..., :32] * c - t[..., 32:] * s, t[..., 32:] * c + t[..., :32] * s], -1)
        if not bug:
            back = np.empty_like(y)
            back[order] = y
            y = back
        return y.astype(x.dtype)

    return apply


case("j037", make, RoPE(64, layout="half"), "apply",
     "positions are sorted by the length of the rows but x is not, so rows of a batch whose lengths do not ascend "
     "get each other's positions", "positions-sorted-x-not", "sort x too, or do not sort")


# ---- j040: skips token 0 as if it were padding
def make(bug):
    w = freqs(10000.0, 64)

    def apply(x, positions):
        p = lift(positions)
        a = p[..., None] * w
        c, s = np.cos(a), np.sin(a)
        x1, x2 = x[..., :32], x[..., 32:]
        y = np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1).astype(x.dtype)
        if bug:
            pad = np.broadcast_to((p == 0), x.shape[:-1])
            first = np.zeros_like(pad)
            first[..., :1] = True
            y = np.where((pad & ~first)[..., None], 0, y).astype(x.dtype)
        return y

    return apply


case("j040", make, RoPE(64, layout="half"), "apply",
     "position 0 anywhere but in the first place of the row is taken for padding and the token is zeroed, so the "
     "first token of a later packed document is lost", "zero-position-as-padding",
     "mask padding by the attention mask, not by the position")
