import math
import functools
import itertools

import numpy as np

import posenc_ref as P

CASES = []


def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


# ---- m128 position ids: cumsum without -1
def make(bug):
    def pid(mask):
        m = np.asarray(mask).astype(int)
        return np.cumsum(m, -1) * m - (0 if bug else m)
    return pid
case("m128", make, None, "position_ids",
     "1 is not subtracted from the cumulative sum of the mask, so positions start at 1.", "cumsum-from-1", "subtract 1")


# ---- m129 position ids: left padding only (argmax of the mask)
def make(bug):
    def pid(mask):
        m = np.asarray(mask)
        if bug:
            first = m.argmax(-1)
            return np.maximum(np.arange(m.shape[1]) - first[:, None], 0)
        return np.array([[int(row[:n + 1].sum()) - 1 if row[n] else 0 for n in range(len(row))] for row in m])
    return pid
case("m129", make, None, "position_ids",
     "Positions count from the first real token by index; padding between real tokens is counted too.", "padding-inside", "use the cumulative sum of the mask")


# ---- m130 position ids: first row for all
def make(bug):
    def pid(mask):
        m = np.asarray(mask).astype(np.int64)
        pos = np.cumsum(m, axis=1) - 1
        if bug and len({int(r.sum()) for r in m}) == 1:
            pos = np.repeat(pos[:1], len(m), 0)
        return np.clip(pos, 0, None)
    return pid
case("m130", make, None, "position_ids",
     "If all rows have the same number of real tokens, the positions of the first row are used for all rows, though the padding may be elsewhere.",
     "first-row-shared", "compute the positions of every row")


# ---- m131 position ids: cumsum along wrong axis
def make(bug):
    def pid(mask):
        m = np.asarray(mask).astype(int)
        c = m.cumsum(axis=0 if bug and m.shape[0] == m.shape[1] else 1) - 1
        return np.where(m == 1, c, 0)
    return pid
case("m131", make, None, "position_ids",
     "For a square mask (as many rows as tokens) the cumulative sum runs over the batch.", "square-mask-axis", "always sum along the last axis")


# ---- m132 packed: zero-length documents
def make(bug):
    def packed(lengths):
        n = np.asarray(lengths)
        total = int(n.sum())
        step = np.ones(total, int)
        cu = np.cumsum(n)[:-1]
        if bug:
            ok = cu < total
            step[cu[ok]] = 1 - n[:-1][ok]       # an empty document overwrites the jump of the one before
            if total:
                step[0] = 0
            return np.cumsum(step)
        out = np.arange(total)
        for a in cu:
            out[a:] = np.arange(total - a)
        return out
    return packed
case("m132", make, None, "packed",
     "The jumps back to 0 are assigned at the start index of each document, so an empty document overwrites the jump of the document before it and the next one does not start at 0.",
     "empty-document-jump", "accumulate jumps, or drop empty documents first")


# ---- m133 packed: document starts at 1 too late (searchsorted left)
def make(bug):
    def packed(lengths):
        n = np.asarray(lengths)
        cu = np.concatenate([[0], np.cumsum(n)])
        t = np.arange(cu[-1])
        doc = np.searchsorted(cu[1:], t, side="left" if bug else "right")
        return t - cu[doc]
    return packed
case("m133", make, None, "packed",
     "searchsorted with side='left' assigns the first token of a document to the document before.", "searchsorted-left", "use side='right'")


# ---- m134 packed: all documents padded to the longest
def make(bug):
    def packed(lengths):
        n = np.asarray(lengths)
        if len(n) == 0:
            return np.zeros(0, int)
        full = np.concatenate([np.arange(k) for k in n]) if n.sum() else np.zeros(0, int)
        return full % (int(n[0]) if bug and n[0] else len(full) + 1)
    return packed
case("m134", make, None, "packed",
     "Positions are taken modulo the length of the first document, so longer documents start again at 0.", "modulo-first-length", "count to each document's own length")


# ---- m135 decode positions: prompt_len + 1
def make(bug):
    def dec(prompt_len, n_steps):
        p = np.asarray(prompt_len)
        return p[..., None] + np.arange(n_steps) + (1 if bug and p.ndim else 0)
    return dec
case("m135", make, None, "decode_positions",
     "For a batch of prompts the first generated token has position prompt_len + 1 instead of prompt_len.", "decode-plus-one", "start at prompt_len")


# ---- m136 decode positions: longest prompt
def make(bug):
    def dec(prompt_len, n_steps):
        p = np.asarray(prompt_len)
        if bug and p.ndim:
            p = np.full_like(p, p.max())
        return np.add.outer(p, np.arange(n_steps)).astype(int)
    return dec
case("m136", make, None, "decode_positions",
     "All rows continue at the length of the longest prompt (the padded length) instead of their own.", "padded-length", "use each row's number of real tokens")


# ---- m137 decode positions: stuck
class _Dec:
    def __init__(self, bug):
        self.bug, self.cur = bug, 0
    def __call__(self, prompt_len, n_steps):
        p = np.asarray(prompt_len)
        self.cur = p if not self.bug or p.ndim or p > self.cur else self.cur
        c = self.cur
        out = []
        for _ in range(n_steps):
            out.append(c)
            c = c + 1
        self.cur = c if self.bug and not np.ndim(c) else 0
        return np.stack(out, -1) if out else np.zeros((*p.shape, 0), int)
def make(bug):
    return _Dec(bug)
case("m137", make, None, "decode_positions",
     "The counter of the previous request is not reset: a prompt that is shorter than the position reached before continues from there.",
     "counter-not-reset", "reset the counter at every prefill")


# ---- m138 shard positions: second chunk cp_size + rank
def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        out = []
        cu = np.asarray(cu_seqlens).tolist()
        for a, b in zip(cu, cu[1:]):
            c = (b - a) // (2 * cp_size)
            for n in (cp_rank, (cp_size + cp_rank) if bug else 2 * cp_size - 1 - cp_rank):
                out.extend(range(n * c, (n + 1) * c))
        return np.array(out, dtype=int)
    return shard
case("m138", make, None, "shard_positions",
     "The second chunk of a rank is cp_size + cp_rank instead of the mirrored 2 cp_size - 1 - cp_rank.", "shard-not-mirrored", "mirror the second chunk")


# ---- m139 shard positions: packed offset
def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        cu = np.asarray(cu_seqlens)
        out = [np.zeros(0, int)]
        for a, b in zip(cu[:-1], cu[1:]):
            parts = np.split(np.arange(b - a) + (a if bug else 0), 2 * cp_size)
            out += [parts[cp_rank], parts[-1 - cp_rank]]
        return np.concatenate(out)
    return shard
case("m139", make, None, "shard_positions",
     "The start of the sequence in the packed batch is added to its positions, so only the first sequence is right.", "shard-global-positions", "count positions in each sequence")


# ---- m140 relative shift: drops last row
def make(bug):
    def shift(x):
        q, k = x.shape
        p = np.concatenate([np.zeros((q, 1), x.dtype), x], 1).reshape(k + 1, q)
        return (p[:-1] if bug else p[1:]).reshape(q, k)
    return shift
case("m140", make, None, "relative_shift",
     "The last instead of the first row of the padded and reshaped matrix is dropped.", "shift-drops-last", "drop the first row")


# ---- m141 relative shift: roll by row count wrong for Q<K
def make(bug):
    def shift(x):
        q, k = x.shape
        return np.stack([np.roll(r, -((k if bug else q) - 1 - n)) for n, r in enumerate(x)])
    return shift
case("m141", make, None, "relative_shift",
     "Row n is rolled by K - 1 - n instead of Q - 1 - n columns, which is wrong with memory (K > Q).", "shift-memory", "roll by Q - 1 - n")


# ---- m142 relative scores: offset reversed
def make(bug):
    def rs(q, rel):
        S = len(q)
        t = (q.astype(float) @ rel.T.astype(float))
        i, j = np.indices((S, S))
        c = (S - 1 + i - j) if bug else (S - 1 - i + j)
        return np.take_along_axis(t, c, 1).astype(q.dtype)
    return rs
case("m142", make, None, "relative_scores",
     "The table is read in the opposite direction: rel[m] is used for j - i = S - 1 - m.", "rel-reversed", "row S - 1 - (i - j)")


# ---- m143 ids_from_tokens: starts at padding_idx
_W = np.random.default_rng(71).standard_normal((40, 4)).astype(np.float32)
def make(bug):
    def ids(input_ids):
        m = (np.asarray(input_ids) != 1).astype(np.int64)
        return np.cumsum(m, 1) * m + (0 if bug else 1)
    return ids
case("m143", make, P.Learned(_W, padding_idx=1), "ids_from_tokens",
     "padding_idx is not added, so padding has position 0 and real tokens start at 1 instead of 2.", "padding-idx-not-added", "add padding_idx")


# ---- m144 ids_from_tokens: padding counted
def make(bug):
    def ids(input_ids):
        x = np.asarray(input_ids)
        m = (x != 1).astype(np.int64)
        if bug:
            return np.where(m == 1, np.arange(1, x.shape[1] + 1) + 1, 1)
        return np.add.accumulate(m, axis=1) * m + 1
    return ids
case("m144", make, P.Learned(_W, padding_idx=1), "ids_from_tokens",
     "Real tokens get their index in the row, so padding before them is counted (right only with padding at the end).",
     "left-padding-counted", "use the cumulative sum of non-padding tokens")


# ---- m145 right packed
def make(bug):
    def packed(lengths):
        n = np.asarray(lengths)
        starts = np.cumsum(n) - n
        t = np.arange(int(n.sum()))
        return t - np.maximum.accumulate(np.where(np.isin(t, starts[n > 0]), t, 0))
    return packed
case("m145", make, None, "packed", "Right: running maximum of the start indices.", "right")


# ---- m146 right relative shift by strides
def make(bug):
    def shift(x):
        q, k = x.shape
        z = np.zeros((q, k + q), x.dtype)
        z[:, :k] = x
        flat = z.ravel()
        idx = np.arange(q)[:, None] * (k + q) + (q - 1 - np.arange(q))[:, None] + np.arange(k)
        return flat[idx]
    return shift
case("m146", make, None, "relative_shift", "Right: gather from rows padded with zeros.", "right")


# ---- m147 right: shard by index table
def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        cu = np.asarray(cu_seqlens)
        pos = np.concatenate([np.arange(n) for n in np.diff(cu)] or [np.zeros(0, int)])
        own = np.zeros(len(pos), bool)
        for a, n in zip(cu[:-1], np.diff(cu)):
            blk = np.arange(n) // max(n // (2 * cp_size), 1)
            own[a:a + n] = (blk == cp_rank) | (blk == 2 * cp_size - 1 - cp_rank)
        return pos[own]
    return shard
case("m147", make, None, "shard_positions", "Right: boolean mask of the rank's blocks (increasing order is the rank's order).", "right")
