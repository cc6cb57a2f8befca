"""Tables, grids, coordinates, position ids, models, plain functions."""
import numpy as np

from posenc_ref import (AxialLearned, BoxSine, FourierFeatures, Learned, ModelEncoding, RoPE, Sinusoidal, Sinusoidal2D,
                        Time2Vec, YaRN)

CASES = []
RNG = np.random.default_rng(303)


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def sines(p, d, n=None, base=1e4, layout="interleaved"):
    k = d // 2
    a = np.asarray(p, np.float64)[..., None] * base ** (-np.arange(k) / (n or k))
    if layout == "concat":
        return np.concatenate([np.sin(a), np.cos(a)], -1)
    return np.stack([np.sin(a), np.cos(a)], -1).reshape(*a.shape[:-1], d)


f32 = np.float32

# ---- tables
case("g110", lambda bug: (lambda p: sines(p, 64, 31 if bug else None).astype(f32)), Sinusoidal(64), "table",
     "The exponents are divided by d/2 - 1 (tensor2tensor) where the paper has d/2; the last pair has frequency 1/base.", "denominator-half-minus-1", "k / (d/2)")


def make(bug):
    def table(p):
        out = sines(p, 64, 31, layout="concat")
        if bug:
            out = np.concatenate([out[..., 32:], out[..., :32]], -1)
        return out.astype(f32)
    return table
case("g111", make, Sinusoidal(64, layout="concat", denominator="half-1"), "table", "Cosines come before sines: [cos, sin] (the diffusion order) instead of [sin, cos].", "cos-first", "concatenate sines first")


def make(bug):
    def table(p):
        t = np.asarray(p, np.float64)
        out = sines(t + 2, 48, 23, layout="concat")
        if bug:
            out = np.where((t == 0)[..., None], 0.0, out)
        return out.astype(f32)
    return table
case("g112", make, Sinusoidal(48, layout="concat", denominator="half-1", offset=2), "table", "fairseq's padding row is zeroed at the wrong place: the row of position 0 (index 2, a real token) is set to zeros.",
     "zeroed-first-row", "zero the row padding_idx, not the first real token's")


def make(bug):
    def table(p):
        k = np.arange(16)
        w = 1e4 ** (-k / 16)
        a = np.asarray(p, np.float64)[..., None] * w
        out = np.empty((*a.shape[:-1], 33))
        out[..., 0::2] = np.sin(np.asarray(p, np.float64)[..., None] * 1e4 ** (-np.arange(17) / (16 if bug else 16.5)))
        out[..., 1::2] = np.cos(np.asarray(p, np.float64)[..., None] * 1e4 ** (-k / (16 if bug else 16.5)))
        return out.astype(f32)
    return table
case("g113", make, Sinusoidal(33, odd="extra-sin"), "table", "Odd dim 33: the exponents are divided by floor(33/2) = 16 instead of 33/2.", "odd-dim-floored", "2k / dim with the odd dim")


def make(bug):
    def add(x):
        pe = sines(np.arange(x.shape[1]), 32)
        out = x.astype(np.float64) + pe
        if bug and x.shape[0] > 1:
            out[1:] = x[1:].astype(np.float64) + np.roll(pe, 1, 0)
        return out.astype(x.dtype)
    return add
case("g114", make, Sinusoidal(32), "add", "From the second row of the batch on, each token gets the table row of the token before (the first one that of the last); row 0 is right.", "add-later-rows-rolled", "broadcast the same rows over the batch")


def make(bug):
    def add(x):
        pe = sines(np.arange(x.shape[1]), 32) * 0.25
        return ((x.astype(np.float64) + pe / 0.25 * 0.25) if not bug else (x * 0.25 + pe).astype(np.float64)).astype(x.dtype)
    return add
case("g115", make, Sinusoidal(32, scale=0.25), "add", "The scale 1/4 multiplies the embeddings as well as the table rows.", "scale-on-embeddings", "scale the table only")

_E = RNG.standard_normal((514, 24)).astype(f32)
case("g116", lambda bug: (lambda p: _E[np.minimum(np.asarray(p) + 2, 512 if bug else 513)]), Learned(_E, offset=2), "table",
     "The last row is never read: indices are clamped to rows - 2, so position 511 gets the row of position 510.", "learned-clamped-row-short", "do not clamp")


def make(bug):
    def ids(input_ids):
        m = (np.asarray(input_ids) != 1).astype(np.int64)
        return np.cumsum(m, 1) * m + 1 - (0 if not bug else m)
    return ids
case("g117", make, Learned(_E, padding_idx=1), "ids_from_tokens", "Real tokens start at padding_idx = 1 instead of padding_idx + 1, so the first token shares the padding row.", "ids-one-low", "cumsum * mask + padding_idx")


def make(bug):
    def rows(n):
        return sines(np.arange(n) + (1 if bug and n > 64 else 0), 40).astype(f32)
    return rows
case("g118", make, Sinusoidal(40), "rows", "When the table is enlarged beyond 64 rows it is rebuilt with arange(1, n + 1): each row is that of the next position.", "enlarged-table-from-1", "rebuild from 0")


# ---- grids
def grid2(bug, what):
    def grid(h, w):
        y, x = np.divmod(np.arange(h * w), w)
        if bug and what == "divide-h":
            y, x = np.divmod(np.arange(h * w), h)
        a, b = sines(y, 32, layout="concat"), sines(x, 32, layout="concat")
        if bug and what == "order":
            a, b = b, a
        return np.concatenate([a, b], -1).astype(f32)
    return grid
case("g119", lambda bug: grid2(bug, "divide-h"), Sinusoidal2D(64), "grid", "Row and column of a patch come from division by the height instead of the width; square grids are right.", "grid-divided-by-height", "divmod by the width")


def make(bug):
    def grid(h, w):
        y, x = np.divmod(np.arange(h * w), w)
        s, t = max(h - 1, 1) if bug else h, max(w - 1, 1) if bug else w
        return np.concatenate([sines(x * 16 / t, 32, layout="concat"), sines(y * 16 / s, 32, layout="concat")], -1).astype(f32)
    return grid
case("g120", make, Sinusoidal2D(64, axis_order="wh", extent=16.0), "grid", "Patch i is at i * extent / (n - 1) (end to end, as linspace) instead of i * extent / n.", "extent-linspace", "i * extent / n")


def make(bug):
    def grid(h, w):
        y, x = np.divmod(np.arange(h * w), w)
        k = 1e4 ** (-np.arange(16) / 16)
        ya, xa = y[:, None] * k, x[:, None] * k
        parts = [np.sin(ya), np.cos(ya), np.sin(xa), np.cos(xa)] if bug else [np.sin(ya), np.sin(xa), np.cos(ya), np.cos(xa)]
        return np.concatenate(parts, -1).astype(f32)
    return grid
case("g121", make, Sinusoidal2D(64, layout="grouped"), "grid", "Sines and cosines of one axis stand together; the declared order has the sines of both axes before the cosines of both.", "grid-columns-by-axis", "concatenate [sin y, sin x, cos y, cos x]")

_A0, _A1 = RNG.standard_normal((6, 10)).astype(f32), RNG.standard_normal((9, 14)).astype(f32)


def make(bug):
    def table(p):
        p = np.asarray(p)
        a, b = (p % 6, p // 6) if bug else (p // 9, p % 9)
        return np.concatenate([_A0[a], _A1[np.minimum(b, 8)]], -1)
    return table
case("g122", make, AxialLearned((_A0, _A1), flat=True), "table", "The flat position is split with the first axis running fastest (p % 6, p // 6) instead of the last (p // 9, p % 9).", "axial-first-axis-fastest", "divmod by the size of the last axis")

# ---- coordinates
_M = RNG.standard_normal((12, 2)) * 2


def make(bug):
    def table(v):
        a = (1 if bug else 2) * np.pi * (np.moveaxis(np.asarray(v, np.float64), 0, -1) @ _M.T)
        return np.concatenate([np.sin(a), np.cos(a)], -1).astype(f32)
    return table
case("g123", make, FourierFeatures(_M, unit="turn"), "table", "The projection is multiplied by pi instead of 2 pi.", "fourier-half-turn", "2 pi")

_TW, _TB = RNG.standard_normal(9) * 0.1, RNG.standard_normal(9)


def make(bug):
    def table(p):
        u = np.asarray(p, np.float64)[..., None] * _TW + _TB
        out = np.sin(u)
        if bug:
            out[..., 0] = np.asarray(p, np.float64) * _TW[0]
        else:
            out[..., 0] = u[..., 0]
        return out.astype(f32)
    return table
case("g124", make, Time2Vec(_TW, _TB), "table", "The linear component lacks its bias b_0; the sines have theirs.", "time2vec-linear-no-bias", "w_0 t + b_0")


def make(bug):
    def table(v):
        v = np.asarray(v, np.float64)
        def s(c):
            return sines(2 * np.pi * c, 16)
        x, y, w, h = v
        return np.concatenate([s(x), s(y), s(w), s(h)] if bug else [s(y), s(x), s(w), s(h)], -1).astype(f32)
    return table
case("g125", make, BoxSine(64), "table", "The columns of x come before those of y; DAB-DETR's order is y, x, w, h.", "box-xy-order", "concatenate y first")


# ---- position ids
def make(bug):
    def ids(mask):
        m = np.asarray(mask).astype(np.int64)
        if bug:
            return np.maximum(np.arange(m.shape[1])[None] - (m.shape[1] - m.sum(1, keepdims=True)), 0)
        return np.maximum(np.cumsum(m, 1) - 1, 0)
    return ids
case("g126", make, None, "position_ids", "The number of padding tokens is subtracted everywhere, which assumes left padding: rows with right padding get positions that are too small.", "left-padding-assumed", "cumsum(mask) - 1")


def make(bug):
    def packed(lengths):
        out, before = [], 0
        for n in lengths:
            n = int(n)
            start = before if bug and n == 1 else 0
            out += range(start, start + n)
            before = n
        return np.array(out, np.int64)
    return packed
case("g127", make, None, "packed", "A document of one token continues the document before it (its boundary is missed) instead of starting at 0.", "packed-single-token-boundary", "start every document at 0")


def make(bug):
    def decode(prompt_len, n):
        p = np.asarray(prompt_len)
        if p.ndim:
            start = np.full_like(p, p.max()) if bug else p
            return start[:, None] + np.arange(n)
        return int(p) + np.arange(n)
    return decode
case("g128", make, None, "decode_positions", "All rows of a batch go on from the longest prompt instead of each from its own length.", "decode-from-longest-prompt", "prompt_len[:, None] + arange")


def make(bug):
    def shard(cu, cp, rank):
        out = []
        for a, b in zip(cu[:-1], cu[1:]):
            n = (int(b) - int(a)) // (2 * cp)
            for c in (rank, (cp + rank) if bug else 2 * cp - 1 - rank):
                out.append(np.arange(c * n, (c + 1) * n))
        return np.concatenate(out) if out else np.zeros(0, np.int64)
    return shard
case("g129", make, None, "shard_positions", "The second chunk of a rank is cp_size + rank instead of 2 cp_size - 1 - rank (not mirrored).", "shard-second-chunk", "mirror the second chunk")

# ---- models and weights
_R = RoPE(64, layout="half")
_MODEL = ModelEncoding("nope-every-4", encodings={"rope": _R, "nope": None}, layer_types=("rope", "rope", "rope", "nope") * 4)
case("g130", lambda bug: (lambda n: [(i % 4 != 0) if bug else ((i + 1) % 4 != 0) for i in range(n)]), _MODEL, "layers",
     "Layers 0, 4, 8, ... have no RoPE instead of 3, 7, 11, ...: the layer index is tested without the + 1.", "nope-layer-off-by-one", "(i + 1) % 4")
_DS = ModelEncoding("mla", encodings={"full": RoPE(64, layout="interleaved", scaling=YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0))},
                    layer_types=("full",) * 4, softmax_scale=float((0.1 * np.log(40.0) + 1) ** 2 / np.sqrt(192)))
case("g131", lambda bug: (lambda: (0.1 * np.log(40.0) + 1) ** (1 if bug else 2) / np.sqrt(192)), _DS, "softmax_scale",
     "The YaRN factor on the softmax scale is applied once instead of squared.", "mscale-not-squared", "mscale * mscale / sqrt(d)")


def half(x, p, d=64):
    p = np.asarray(p, np.float64)
    if p.ndim == 2 and x.ndim == 4:
        p = p[:, None]
    a = p[..., None] * 1e4 ** (-np.arange(d // 2) * 2 / d)
    u, v = x[..., :d // 2], x[..., d // 2:]
    return np.concatenate([u * np.cos(a) - v * np.sin(a), v * np.cos(a) + u * np.sin(a)], -1)


def make(bug):
    def normed(x, weight, positions):
        z = x.astype(np.float64)
        z = z / np.sqrt((z**2).mean(-1, keepdims=True) + 1e-6)
        return (half(z, positions) * weight if bug else half(z * weight, positions)).astype(x.dtype)
    return normed
case("g132", make, _R, "normed_apply", "The norm's weight is multiplied in after the rotation, which mixes channels with different weights.", "weight-after-rotation", "weight first, then rotate")


def make(bug):
    def evict(k, kept, dropped):
        tail = k[..., kept + dropped:, :]
        by = dropped + kept if bug else dropped
        return np.concatenate([k[..., :kept, :], half(tail.astype(np.float64), np.full(tail.shape[-2], -by)).astype(k.dtype)], -2)
    return evict
case("g133", make, _R, "evict_keys", "The keys after the gap move back by kept + dropped instead of dropped, so they overlap the kept ones.", "evict-shift-too-far", "shift by dropped")

# ---- torch, float64
def make(bug):
    import torch

    def table(p):
        w = torch.exp(torch.arange(0, 64, 2, dtype=torch.float64) * (-np.log(1e4) / 64))
        if bug:
            w = torch.exp(torch.arange(0, 64, 2, dtype=torch.float64) * (-9.21 / 64))
        a = p.to(torch.float64)[..., None] * w
        return torch.stack([a.sin(), a.cos()], -1).flatten(-2).to(torch.float32)
    return table
case("g134", make, Sinusoidal(64), "table", "ln(10000) is written with three digits (9.21 for 9.2103), so the base is 9996.6.", "short-log-constant", "math.log(10000.0)", backend="torch")


def make(bug):
    def table(p):
        t = np.asarray(p, np.float64)
        if bug:
            return sines(t, 32).astype(f32).astype(np.float64)
        return sines(t, 32)
    return table
case("g135", make, Sinusoidal(32), "table", "A float64 table is computed correctly but rounded to float32 before it is returned as float64.", "float32-inside-float64", "keep float64", dtype="float64")


# ---- right
def make(bug):
    def table(p):
        p = np.asarray(p, np.float64)
        w = 1e4 ** (-np.arange(64) // 2 * 0 - np.repeat(np.arange(32), 2) / 32)
        phase = np.tile([0.0, np.pi / 2], 32)
        return np.sin(p[..., None] * w + phase).astype(f32)
    return table
case("g136", make, Sinusoidal(64), "table", "Unusual: cosines as sines with a phase of pi/2, all columns in one sin (double precision).", "right")


def make(bug):
    def packed(lengths):
        lengths = np.asarray(lengths, np.int64)
        ends = np.cumsum(lengths)
        return np.arange(int(ends[-1]) if ends.size else 0) - np.repeat(ends - lengths, lengths)
    return packed
case("g137", make, None, "packed", "Unusual: a global arange minus the repeated starts.", "right")


def make(bug):
    def grid(h, w):
        ys, xs = sines(np.arange(h), 32, layout="concat"), sines(np.arange(w), 32, layout="concat")
        out = np.empty((h, w, 64))
        out[..., :32], out[..., 32:] = ys[:, None], xs[None]
        return out.reshape(h * w, 64).astype(f32)
    return grid
case("g138", make, Sinusoidal2D(64), "grid", "Unusual: one table per axis broadcast over the grid.", "right")


def make(bug):
    def permute(w, n_heads):
        d = w.shape[0] // n_heads
        order = np.empty(d, int)
        order[0::2], order[1::2] = np.arange(d // 2), np.arange(d // 2) + d // 2
        return w[(np.arange(n_heads)[:, None] * d + order).ravel()]
    return permute
case("g139", make, None, "permute_weights", "Unusual: an index list instead of a reshape.", "right")

# Drawn by chance to keep the corpus at its size: sound cases, not part of CASES.
_SPARE = {"g113", "g114", "g116", "g119", "g134"}
SPARE = [c for c in CASES if c["id"] in _SPARE]
CASES = [c for c in CASES if c["id"] not in _SPARE]
