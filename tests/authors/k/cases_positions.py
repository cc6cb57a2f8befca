"""Author K: masks, position ids, grids, shards, shifts, indices."""
import math

import numpy as np
import torch

from posenc_ref import ALiBi, AxialLearned, DETRSine, Learned, Sinusoidal, mrope_rule

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- k161: DETR: width normalised by the height
def detr(bug, d=32, base=10000.0, base_w=None, shift=0.0, after=False, by=None, one_based=True, scale=2 * math.pi):
    def grid(height, width):
        y, x = np.mgrid[1:height + 1, 1:width + 1].astype(float)
        hy, wx = height + 1e-6, (height if by == "height" else width) + 1e-6
        if after:
            y, x = (y / hy + shift) * scale, (x / wx + shift) * scale
        else:
            y, x = (y + shift) / hy * scale, (x + shift) / wx * scale
        out = []
        for c, t in ((y, base), (x, base_w or base)):
            a = c.reshape(-1, 1) / t ** (2 * (np.arange(d // 2) // 2) / (d // 2))
            out.append(np.stack([np.sin(a[:, 0::2]), np.cos(a[:, 1::2])], 2).reshape(len(a), -1))
        return np.hstack(out)

    return grid


case("k161", lambda bug: detr(bug, by="height" if bug else None), DETRSine(32), "grid",
     "the x coordinate is divided by the height (y_embed[-1]) instead of the width, so only square images are right",
     "width-normalised-by-height", "divide x by its own last value")

# ---- k162: Deformable DETR: shift after the division
case("k162", lambda bug: detr(bug, shift=-0.5, after=bug), DETRSine(32, shift=-0.5), "grid",
     "the half-pixel shift -0.5 is added after the division by the size instead of before", "shift-after-division",
     "shift the pixel count, then divide")

# ---- k164: RoBERTa ids: padding counted
def make(bug):
    w = np.random.default_rng(164).normal(size=(64, 8)).astype(np.float32)

    def ids(input_ids):
        m = (np.asarray(input_ids) != 1).astype(np.int64)
        if bug:
            return np.where(m == 1, np.arange(1, m.shape[-1] + 1), 0) + 1
        return np.cumsum(m, -1) * m + 1

    make.enc = Learned(w, padding_idx=1)
    return ids


make(False)
case("k164", make, make.enc, "ids_from_tokens",
     "real tokens are numbered by their place in the row, so padding in front of them is counted",
     "padding-counted", "use the cumulative sum of the mask")


# ---- k165: RoBERTa ids: padding tokens continue the count
def make(bug):
    w = np.random.default_rng(165).normal(size=(64, 8)).astype(np.float32)

    def ids(input_ids):
        t = torch.as_tensor(np.asarray(input_ids))
        m = t.ne(1).long()
        c = torch.cumsum(m, -1)
        return ((c if bug else c * m) + 1).numpy()

    make.enc = Learned(w, padding_idx=1)
    return ids


make(False)
case("k165", make, make.enc, "ids_from_tokens",
     "the cumulative sum is not multiplied by the mask, so padding tokens get the position of the token before instead of padding_idx",
     "padding-row", "multiply the cumulative sum by the mask")


# ---- k167: mask: only the leading padding is subtracted
def make(bug):
    def fn(mask):
        m = np.asarray(mask)
        if bug:
            first = np.argmax(m, axis=-1)
            return np.maximum(np.arange(m.shape[-1]) - first[:, None], 0)
        return np.maximum(np.cumsum(m, -1) - 1, 0)

    return fn


case("k167", make, None, "position_ids",
     "only padding in front of the first real token is subtracted; padding between real tokens is counted",
     "padding-inside-counted", "count the real tokens by a cumulative sum")


# ---- k170: packed: boundary token
def make(bug):
    def fn(lengths):
        n = np.asarray(lengths, int)
        cu = np.concatenate([[0], np.cumsum(n)])
        t = np.arange(cu[-1])
        doc = np.searchsorted(cu, t, side="left" if bug else "right") - 1
        doc = np.clip(doc, 0, len(n) - 1) if len(n) else doc
        return t - cu[doc]

    return fn


case("k170", make, None, "packed",
     "searchsorted with side='left' puts the first token of each document into the document before it",
     "document-boundary", "use side='right'")


# ---- k172: decoding: all rows from the longest prompt
def make(bug):
    def fn(prompt_len, n_steps):
        p = np.asarray(prompt_len)
        if p.ndim == 0:
            return int(p) + np.arange(n_steps)
        start = np.full_like(p, p.max()) if bug and p.size else p
        return start[:, None] + np.arange(n_steps)

    return fn


case("k172", make, None, "decode_positions",
     "all rows continue at the padded length, that of the longest prompt, instead of their own",
     "decode-padded-length", "add the step to each row's own length")


# ---- k175: shards: chunks of the whole packed batch
def make(bug):
    def fn(cu, size, rank):
        cu = np.asarray(cu, int)
        n = np.diff(cu)
        pos = np.concatenate([np.arange(x) for x in n] or [np.zeros(0, int)])
        if bug:
            parts = pos.reshape(2 * size, -1)
            return np.concatenate([parts[rank], parts[2 * size - 1 - rank]])
        out = [np.zeros(0, int)]
        for a, x in zip(cu[:-1], n):
            p = pos[a:a + x].reshape(2 * size, -1)
            out += [p[rank], p[2 * size - 1 - rank]]
        return np.concatenate(out)

    return fn


case("k175", make, None, "shard_positions",
     "the whole packed batch is cut into 2 cp_size chunks instead of every sequence", "shard-of-batch",
     "cut each sequence of cu_seqlens")


# ---- k176: relative shift: last row dropped
def make(bug):
    def fn(x):
        q, k = x.shape
        p = np.concatenate([np.zeros((q, 1), x.dtype), x], 1).reshape(k + 1, q)
        return (p[:-1] if bug else p[1:]).reshape(q, k)

    return fn


case("k176", make, None, "relative_shift",
     "after the reshape to (K + 1, Q) the last row is dropped instead of the first", "shift-row-dropped",
     "drop the first row")


# ---- k177: relative shift right only without memory
def make(bug):
    def fn(x):
        q, k = x.shape
        y = np.zeros_like(x)
        for i in range(q):
            n = (q if bug else k) - q + i + 1
            s = q - 1 - i
            n = min(n, k - s)
            y[i, :n] = x[i, s:s + n]
        return y

    return fn


case("k177", make, None, "relative_shift",
     "only the first i + 1 columns of row i are filled, as without memory: with more keys than queries the later visible keys get 0",
     "shift-ignores-memory", "fill K - Q + i + 1 columns")


# ---- k179: relative scores by padding and reshape, off by one column
def make(bug):
    def fn(q, rel):
        s = q.shape[0]
        a = q.astype(float) @ rel.astype(float).T
        a = np.pad(a, ((0, 0), (0, 1)) if bug else ((0, 0), (1, 0)))
        a = a.reshape(2 * s, s)[1:].reshape(s, 2 * s - 1)
        return a[:, :s].astype(q.dtype)

    return fn


case("k179", make, None, "relative_scores",
     "the zero column is appended at the right instead of the left before the reshape, so the scores move to other keys",
     "rel-pad-side", "pad one column on the left")


# ---- k181: index: absolute column offset
def make(bug):
    def fn(window):
        h, w = window
        idx = np.zeros((h * w, h * w), int)
        for a in range(h * w):
            for b in range(h * w):
                dy, dx = a // w - b // w, a % w - b % w
                idx[a, b] = (dy + h - 1) * (2 * w - 1) + (abs(dx) if bug else dx + w - 1)
        return idx

    return fn


case("k181", make, None, "relative_index",
     "the column offset is taken without its sign, so left and right neighbours share an index",
     "index-column-absolute", "add w - 1 to the signed offset")


# ---- k182: tensor parallel: slopes of the rank
def make(bug):
    def fn(heads, size, rank):
        c = 2 ** int(math.floor(math.log2(heads)))
        m = [2 ** (-8 * (i + 1) / c) for i in range(c)]
        m += [2 ** (-4 * (i + 1) / c) for i in range(0, 2 * c, 2)]
        m = np.array(m[:heads])
        n = heads // size
        return m[rank::size] if bug else m[rank * n:(rank + 1) * n]

    return fn


case("k182", make, ALiBi(12), "rank_slopes",
     "each rank takes every tp_size-th slope instead of its block of consecutive heads", "rank-strided",
     "slice the block of the rank")


# ---- k183: rows: memoised, padded with zeros
def make(bug):
    held = {}

    def fn(seq_len):
        n = int(seq_len)
        if bug and held and n not in held:
            near = max(held)
            if near > n:
                return held[near][near - n:]
        a = np.arange(n)[:, None] * 10000.0 ** (-np.arange(0, 32, 2) / 32)
        held[n] = np.stack([np.sin(a), np.cos(a)], -1).reshape(n, 32)
        return held[n]

    return fn


case("k183", make, Sinusoidal(32), "rows",
     "a shorter call after a longer one returns the last rows of the cached table instead of the first",
     "cache-last-rows", "return the first seq_len rows")


def resized(seed, sizes, new, d):
    """axis tables interpolated linearly, half-pixel centres"""
    rng = np.random.default_rng(seed)
    tables = [rng.normal(size=(n, d)) for n in sizes]

    def up(t, n, align=False):
        m = len(t)
        c = np.arange(n) * (m - 1) / (n - 1) if align else np.clip((np.arange(n) + 0.5) * m / n - 0.5, 0, m - 1)
        lo = np.floor(c).astype(int)
        f = (c - lo)[:, None]
        return t[lo] * (1 - f) + t[np.minimum(lo + 1, m - 1)] * f

    true = [up(t, n) for t, n in zip(tables, new)]
    return tables, true, up


# ---- k185: ViViT-like axis tables resized with aligned corners
def make(bug):
    tables, true, up = resized(185, (7, 9), (12, 18), 16)
    make.enc = AxialLearned([t.astype(np.float32) for t in true], combine="sum")
    a, b = (up(t, n, bug) for t, n in zip(tables, (12, 18)))

    def fn(positions):
        y, x = np.asarray(positions)
        return (a[y] + b[x]).astype(np.float32)

    return fn


make(False)
case("k185", make, make.enc, "table",
     "the axis tables are interpolated with align_corners=True where the model uses half-pixel centres",
     "align-corners", "use align_corners=False")


# ================================================================ right ones
# ---- k187
def make(bug):
    def fn(mask):
        m = torch.as_tensor(np.asarray(mask)).long()
        p = m.cumsum(-1) - 1
        p.masked_fill_(m == 0, 1)
        return p.numpy()

    return fn


case("k187", make, None, "position_ids", "right: transformers 4's rule, padding at position 1", "right")


# ---- k188
def make(bug):
    def fn(lengths):
        n = np.asarray(lengths, int)
        t = np.ones(int(n.sum()) + 1, int)
        starts = np.cumsum(n) - n
        np.add.at(t, starts[1:], -n[:-1])
        t[0] = 0 if len(n) == 0 else t[0] - 1
        return np.cumsum(t)[:-1]

    return fn


case("k188", make, None, "packed", "right: cumulative sum of steps with jumps back", "right")


# ---- k189
def make(bug):
    def fn(x):
        q, k = x.shape
        i, j = np.ogrid[:q, :k]
        return np.take_along_axis(x, np.clip(q - 1 - i + j, 0, k - 1), 1)

    return fn


case("k189", make, None, "relative_shift", "right: a gather, with repeated last columns after the query", "right")


# ---- k190
def make(bug):
    def fn(q, rel):
        s = q.shape[0]
        a = np.ascontiguousarray(q.astype(float) @ rel.astype(float).T)
        st = a.strides
        return np.lib.stride_tricks.as_strided(
            a[:, s - 1:], (s, s), (st[0] - st[1], st[1])).astype(q.dtype).copy()

    return fn


case("k190", make, None, "relative_scores", "right: a skewed view of the scores by strides", "right")


# ---- k191
def make(bug):
    def fn(window):
        h, w = window
        y, x = np.divmod(np.arange(h * w), w)
        return (x[:, None] - x + w) * 1000 + (y - y[:, None] + h)

    return fn


case("k191", make, None, "relative_index", "right: another numbering of the offsets, without gaps filled", "right")


# ---- k192
def make(bug):
    def fn(cu, size, rank):
        cu = np.asarray(cu, int)
        n = np.diff(cu)
        t = np.arange(cu[-1])
        doc = np.searchsorted(cu, t, side="right") - 1
        p = t - cu[doc]
        chunk = p * 2 * size // np.maximum(n[doc], 1) if len(n) else p
        return p[(chunk == rank) | (chunk == 2 * size - 1 - rank)]

    return fn


case("k192", make, None, "shard_positions", "right: a mask over the packed tokens", "right")


# ---- k193
def make(bug):
    w = np.random.default_rng(193).normal(size=(64, 8)).astype(np.float32)

    def ids(input_ids):
        a = np.asarray(input_ids)
        real = a != 3
        before = np.tril(np.ones((a.shape[-1],) * 2, int)) @ real.astype(int).T
        return np.where(real, before.T + 3, 3)

    make.enc = Learned(w, padding_idx=3)
    return ids


make(False)
case("k193", make, make.enc, "ids_from_tokens", "right: counts by a triangular product", "right")
