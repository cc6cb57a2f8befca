"""Position ids: padding, packing, decoding, shards, M-RoPE. Wrong ones."""
import math

import numpy as np
import torch

from posenc_ref import MRoPEPositions, mrope_rule

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- h123: packed: empty documents
def make(bug):
    def packed(lengths):
        lengths = np.asarray(lengths, np.int64)
        n = int(lengths.sum())
        step = np.ones(n, np.int64)
        if bug:
            starts = np.cumsum(lengths)[:-1]
            prev = lengths[:-1]
        else:
            full = lengths[lengths > 0]
            starts, prev = np.cumsum(full)[:-1], full[:-1]
        if n:
            step[0] = 0
            ok = starts < n
            step[starts[ok]] = 1 - prev[ok]
        return np.cumsum(step)
    return packed
case("h123", make, None, "packed",
     "The reset at the start of a document subtracts the length of the document before it; an empty document overwrites that reset with one of length 0, so the document after it does not start at 0.",
     "empty-document", "drop empty documents first")


# ---- h124: packed: the reset one token late
def make(bug):
    def packed(lengths):
        out, n = [], 0
        for doc in np.asarray(lengths).tolist():
            for i in range(doc):
                out.append(n)
                n += 1
                if not bug and i == doc - 1:
                    n = 0
                if bug and i == 0:
                    n = 1
        return np.array(out, np.int64)
    return packed
case("h124", make, None, "packed",
     "The counter is reset after the first token of a document instead of before it, so the first token of every later document continues the previous one.",
     "late-reset", "reset before the first token")


# ---- h125: packed, remainder of max length
def make(bug):
    def packed(lengths):
        t = torch.as_tensor(np.asarray(lengths, np.int64))
        cu = torch.cat([torch.zeros(1, dtype=torch.int64), t.cumsum(0)])
        n = int(cu[-1])
        idx = torch.arange(n)
        doc = torch.searchsorted(cu[1:], idx, right=not bug)
        return (idx - cu[doc]).numpy()
    return packed
case("h125", make, None, "packed",
     "searchsorted finds the document with side left, so the first token of each later document is counted with the previous one and gets its length as position.",
     "searchsorted-side", "use right=True")


# ---- h126: shards: second chunk in mirrored order
def zigzag(cu, size, rank, mirrored=False, local=False):
    out = []
    for a, b in zip(cu[:-1], cu[1:]):
        n = (b - a) // (2 * size)
        first = np.arange(rank * n, (rank + 1) * n)
        second = np.arange((2 * size - 1 - rank) * n, (2 * size - rank) * n)
        out += [first, second[::-1] if mirrored else second]
    return np.concatenate(out) if out else np.zeros(0, np.int64)


def make(bug):
    return lambda cu, size, rank: zigzag(np.asarray(cu).tolist(), size, rank, mirrored=bug).astype(np.int64)
case("h126", make, None, "shard_positions",
     "The tokens of the second chunk are numbered in descending order.",
     "mirrored-chunk", "number both chunks in ascending order")


# ---- h127: shards: contiguous split
def make(bug):
    def shard(cu, size, rank):
        cu = np.asarray(cu)
        out = []
        for a, b in zip(cu[:-1], cu[1:]):
            L = int(b - a)
            p = np.arange(L)
            if bug:
                out.append(p.reshape(size, -1)[rank])
            else:
                c = p.reshape(2 * size, -1)
                out.append(np.concatenate([c[rank], c[-1 - rank]]))
        return np.concatenate(out)
    return shard
case("h127", make, None, "shard_positions",
     "Each rank gets one contiguous part of every sequence instead of chunks cp_rank and 2 cp_size - 1 - cp_rank.",
     "contiguous-shards", "cut into 2 * cp_size chunks and take two")


# ---- h128: shards: whole batch cut as one sequence
def make(bug):
    def shard(cu, size, rank):
        cu = np.asarray(cu, np.int64)
        lengths = np.diff(cu)
        pos = np.concatenate([np.arange(n) for n in lengths]) if lengths.size else np.zeros(0, np.int64)
        if bug:
            chunk = len(pos) // (2 * size)
            take = [np.arange(c * chunk, (c + 1) * chunk) for c in (rank, 2 * size - 1 - rank)]
        else:
            take = [a + np.arange(c * (n // (2 * size)), (c + 1) * (n // (2 * size)))
                    for a, n in zip(cu[:-1], lengths) for c in (rank, 2 * size - 1 - rank)]
        return pos[np.concatenate(take).astype(np.int64)]
    return shard
case("h128", make, None, "shard_positions",
     "The packed batch is cut into chunks as a whole instead of sequence by sequence, so with several sequences a rank holds other tokens.",
     "chunks-of-batch", "cut every sequence by itself")


# ---- h129: shards: global positions
def make(bug):
    def shard(cu, size, rank):
        cu = np.asarray(cu, np.int64)
        parts = []
        for a, b in zip(cu[:-1], cu[1:]):
            whole = np.arange(a, b) if bug else np.arange(b - a)
            c = np.split(whole, 2 * size)
            parts += [c[rank], c[2 * size - 1 - rank]]
        return np.concatenate(parts)
    return shard
case("h129", make, None, "shard_positions",
     "Positions are the indices in the packed batch: they do not restart at 0 in the second and later sequences.",
     "global-positions", "subtract the start of the sequence")


# ---- h130: position_ids with holes
def make(bug):
    def ids(mask):
        m = np.asarray(mask) != 0
        if bug:
            first = m.argmax(1)
            p = np.arange(m.shape[1]) - first[:, None]
        else:
            p = m.cumsum(1) - 1
        return np.where(m, p, 0)
    return ids
case("h130", make, None, "position_ids",
     "Positions count from the first real token, so padding in the middle of a row is counted.",
     "counts-holes", "use the cumulative sum of the mask")


# ---- h131: position_ids: cumulative sum over the flattened batch
def make(bug):
    def ids(mask):
        m = torch.as_tensor(np.asarray(mask)).long()
        p = (m.flatten().cumsum(0).view_as(m) if bug else m.cumsum(-1)) - 1
        return p.masked_fill(m == 0, 0).numpy()
    return ids
case("h131", make, None, "position_ids",
     "The mask is summed over the flattened batch, so every row continues to count where the row before it ended.",
     "cumsum-flat", "sum along the axis of tokens")


# ---- h132: position_ids from 1 (as fairseq, offset of OPT / RoBERTa)
def make(bug):
    def ids(mask):
        m = np.asarray(mask).astype(np.int64)
        return np.cumsum(m, 1) * m - (0 if bug else m)
    return ids
case("h132", make, None, "position_ids",
     "The cumulative sum is not reduced by 1, so the first real token has position 1.",
     "ids-from-one", "subtract 1")


# ---- h133: decode positions: per-row prompts padded to the longest
def make(bug):
    def decode(prompt_len, n_steps):
        n = np.asarray(prompt_len)
        if n.ndim and bug:
            n = np.full_like(n, n.max())
        return n[..., None] + np.arange(n_steps) if n.ndim else int(n) + np.arange(n_steps)
    return decode
case("h133", make, None, "decode_positions",
     "All rows of a batch continue at the longest prompt's length instead of their own number of real tokens.",
     "longest-prompt", "continue each row at its own length")


# ---- h134: decode positions: first generated token at prompt_len - 1
def make(bug):
    def decode(prompt_len, n_steps):
        n = np.asarray(prompt_len)[..., None]
        steps = np.arange(n_steps)
        return np.maximum(n + steps - 1, 0) if bug else n + steps
    return decode
case("h134", make, None, "decode_positions",
     "The first generated token repeats the position of the last prompt token: all positions are one too low.",
     "decode-minus-one", "start at prompt_len")


# ---- M-RoPE ids
def grid(t, h, w):
    a = np.indices((t, h, w)).reshape(3, -1)
    return a


def number(types, images, videos, *, merge=2, after="max", time_of=None, swap=False):
    """Positions of one row of real tokens; consumes the iterators of grids."""
    out, start, i = [], 0, 0
    while i < len(types):
        kind = types[i]
        if kind in (0, 3):
            out.append(np.full((3, 1), start))
            start += 1
            i += 1
            continue
        t, h, w, extra = next(images if kind == 1 else videos)
        h, w = h // merge, w // merge
        g = grid(t, h, w).astype(np.int64)
        if kind == 2 and time_of is not None:
            g[0] = time_of(g[0], extra)
        if swap:
            g = g[[0, 2, 1]]
        g = g + start
        out.append(g)
        i += g.shape[1]
        start = int(g.max()) + 1 if after == "max" else start + max(h, w)
    p = np.concatenate(out, 1) if out else np.zeros((3, 0), np.int64)
    return p


def batch(types, images, videos, seconds, mask, steps, *, rewind=False, go_on="max", ignore_mask=False, **how):
    types, mask = np.asarray(types), np.asarray(mask).astype(bool)
    B, S = types.shape
    out = np.zeros((3, B, S + steps), np.int64)
    secs = np.asarray(seconds, np.float32).tolist() or [1.0] * len(videos)
    im = [(*map(int, g), None) for g in np.asarray(images).reshape(-1, 3)]
    vi = [(*map(int, g), s) for g, s in zip(np.asarray(videos).reshape(-1, 3), secs)]
    it, vt = iter(im), iter(vi)
    for b in range(B):
        if rewind:
            it, vt = iter(im), iter(vi)
        real = mask[b]
        p = number(types[b][real].tolist(), it, vt, **how)
        out[:, b, :S][:, real] = p
        n = int(p.max()) + 1 if go_on == "max" else int(real.sum())
        out[:, b, S:] = n + np.arange(steps)
    return out


# ---- h135: decoding continues at the number of tokens
def make(bug):
    def ids(types, images, videos, seconds, mask, steps):
        return batch(types, images, videos, seconds, mask, steps, go_on="count" if bug else "max")
    return ids
case("h135", make, MRoPEPositions(), "mrope_position_ids",
     "Generated tokens continue at the number of prompt tokens instead of at the largest position plus one (the rope delta is not added).",
     "delta-missing", "add the rope delta to the cache position")


# ---- h136: text after an image
def make(bug):
    def ids(types, images, videos, seconds, mask, steps):
        return batch(types, images, videos, seconds, mask, steps, after="extent" if bug else "max")
    return ids
case("h136", make, MRoPEPositions(), "mrope_position_ids",
     "The text after a video starts at c + max(height, width) of its grid, whatever the number of frames, instead of at the largest position plus one.",
     "text-after-video", "continue at the maximum over all three axes")


# ---- h137: height and width swapped for non-square grids
def make(bug):
    def ids(types, images, videos, seconds, mask, steps):
        return batch(types, images, videos, seconds, mask, steps, swap=bug)
    return ids
case("h137", make, MRoPEPositions(), "mrope_position_ids",
     "The second row of the result holds the column of an image token and the third its row.",
     "mrope-hw", "order time, height, width")


# ---- h138: seconds truncated
def make(bug):
    def ids(types, images, videos, seconds, mask, steps):
        def time_of(k, s):
            rate = np.float32(2.0 * (int(s) if bug else s))
            return np.trunc(k.astype(np.float32) * rate).astype(np.int64)
        return batch(types, images, videos, seconds, mask, steps, time_of=time_of)
    return ids
case("h138", make, mrope_rule("qwen2_5_vl"), "mrope_position_ids",
     "The seconds per frame of the grid are cut to a whole number before they are multiplied by tokens_per_second.",
     "seconds-truncated", "multiply first, truncate last")


# ---- h139: grids not consumed across the batch
def make(bug):
    def ids(types, images, videos, seconds, mask, steps):
        types, mask = np.asarray(types), np.asarray(mask) != 0
        grids = {1: np.asarray(images).reshape(-1, 3), 2: np.asarray(videos).reshape(-1, 3)}
        seen = {1: 0, 2: 0}
        B, S = types.shape
        out = np.zeros((3, B, S + steps), np.int64)
        for b in range(B):
            if bug:
                seen = {1: 0, 2: 0}
            row, cols, at, i = types[b][mask[b]], np.flatnonzero(mask[b]), 0, 0
            while i < len(row):
                kind = int(row[i])
                if kind == 0:
                    g = np.full((3, 1), at)
                else:
                    run = 1
                    while i + run < len(row) and row[i + run] == kind:
                        run += 1
                    t, h, w = grids[kind][min(seen[kind], len(grids[kind]) - 1)]
                    seen[kind] += 1
                    g = at + grid(int(t), int(h) // 2, int(w) // 2)[:, :run]
                out[:, b, cols[i:i + g.shape[1]]] = g
                i += g.shape[1]
                at = int(g.max()) + 1
            out[:, b, S:] = at + np.arange(steps)
        return out
    return ids
case("h139", make, MRoPEPositions(), "mrope_position_ids",
     "The index into the image and video grids restarts at 0 for every row, so the images of later rows get the grids of the first row's.",
     "grid-index", "carry the index over the rows of the batch")


# ---- h140: packed M-RoPE, offset of the previous document's token count
def make(bug):
    def ids(types, images, videos, seconds, lengths):
        types = np.asarray(types)
        im = iter([(*map(int, g), None) for g in np.asarray(images).reshape(-1, 3)])
        vi = iter([(*map(int, g), None) for g in np.asarray(videos).reshape(-1, 3)])
        parts, a, start = [], 0, 0
        for n in np.asarray(lengths).tolist():
            p = number(types[a:a + n].tolist(), im, vi)
            parts.append(p + (start if bug else 0))
            if p.size:
                start += int(p.max()) + 1
            a += n
        return np.concatenate(parts, 1)
    return ids
case("h140", make, MRoPEPositions(), "mrope_packed",
     "Documents do not start at 0: each continues at the largest position of the previous one plus one.",
     "packed-continues", "start every document at 0")


# ---- h141: packed M-RoPE: text continues after the time axis alone
def make(bug):
    def ids(types, images, videos, seconds, lengths):
        types = np.asarray(types)
        im, vi = iter(np.asarray(images).reshape(-1, 3)), iter(np.asarray(videos).reshape(-1, 3))
        cols, at = [], 0
        ends = set(np.cumsum(np.asarray(lengths)).tolist())
        i = 0
        while i < len(types):
            if i in ends:
                at = 0
            if types[i] == 0:
                cols.append([[at], [at], [at]])
                i, at = i + 1, at + 1
            else:
                t, h, w = map(int, next(im if types[i] == 1 else vi))
                g = grid(t, h // 2, w // 2)
                cols.append(g + at)
                i += g.shape[1]
                at += (t if bug else max(t, h // 2, w // 2))
        return np.concatenate(cols, 1) if cols else np.zeros((3, 0), np.int64)
    return ids
case("h141", make, MRoPEPositions(), "mrope_packed",
     "What follows an image or video starts after its last frame (c + number of frames) instead of after the largest position on any axis.",
     "after-frames", "add the maximum of frames, height and width")
