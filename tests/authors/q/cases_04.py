import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def arr(seed, *shape, scale=0.5):
    return np.random.default_rng(seed).standard_normal(shape) * scale


# ---------------------------------------------------------------- position_ids
def make(bug):
    def ids(attention_mask):
        m = np.asarray(attention_mask).astype(np.int64)
        B, S = m.shape
        run = np.cumsum(m.ravel())                                                # one scan over the whole batch
        if bug:
            before = np.arange(B) * S
        else:
            before = np.concatenate([[0], run[S - 1 :: S][:-1]])
        return np.maximum(run.reshape(B, S) - before[:, None] - 1, 0)
    return ids
case("q067", make, None, "position_ids", "One scan over the flattened batch: of row b, b S is subtracted instead of the number of real tokens "
     "in the rows before, so padding in an earlier row shifts later rows.", "scan-over-batch", "subtract the sum up to the row")


def make(bug):
    def ids(attention_mask):
        m = np.asarray(attention_mask).astype(np.int64)
        S = m.shape[1]
        if bug:
            return np.clip(np.arange(S) - np.argmax(m, axis=1)[:, None], 0, None)
        return (np.cumsum(m, 1) - 1) * m
    return ids
case("q068", make, None, "position_ids", "Positions are counted from the first real token by argmax; padding between real tokens is counted too.",
     "counted-from-first-real", "cumsum of the mask")


def make(bug):
    def ids(attention_mask):
        m = np.asarray(attention_mask, dtype=np.int8)
        p = np.cumsum(m, axis=-1, dtype=m.dtype if bug else np.int64) - 1
        p[m == 0] = 0
        return p.astype(np.int64)
    return ids
case("q069", make, None, "position_ids", "The cumulative sum keeps the mask's int8 and wraps round after 127 real tokens.", "sum-int8",
     "sum in int64")


def make(bug):
    def ids(attention_mask):
        m = np.asarray(attention_mask) == 1
        out = np.zeros(m.shape, np.int64)
        n = m.sum(axis=1)
        for b in range(len(m)):
            count = np.arange(n[b])
            out[b, m[b]] = np.minimum(count, max(n[0] - 1, 0)) if bug else count
        return out
    return ids
case("q070", make, None, "position_ids", "The counter 0, 1, ... is made for the length of the first row; longer rows repeat its last position.",
     "length-of-first-row", "make it for each row")


def make(bug):
    class Ids:
        def __init__(self):
            self.held = {}
        def __call__(self, attention_mask):
            m = np.asarray(attention_mask)
            key = m.shape if bug else (m.shape, m.astype(np.uint8).tobytes())
            if key not in self.held:
                self.held[key] = np.where(m == 1, np.cumsum(m, -1, dtype=np.int64) - 1, 0)
            return self.held[key].copy()
    return Ids()
case("q071", make, None, "position_ids", "The result is kept by the shape of the mask, so a second mask of the same shape gets the positions of the "
     "first.", "kept-by-shape", "keep it by the content")


def make(bug):
    def ids(attention_mask):
        m = np.asarray(attention_mask).astype(np.int64)
        return np.cumsum(m, axis=1) - m + 7 * (1 - m)                             # padding gets some number
    return ids
case("q072", make, None, "position_ids", "An exclusive cumulative sum (the number of real tokens before), which is the position of a real token; "
     "padding gets arbitrary numbers.", "right")


def make(bug):
    def ids(attention_mask):
        m = np.asarray(attention_mask) != 0
        order = np.argsort(~m, axis=1, kind="stable")                             # real tokens first, in order
        out = np.empty(m.shape, np.int64)
        np.put_along_axis(out, order, np.broadcast_to(np.arange(m.shape[1]), m.shape), axis=1)
        return out
    return ids
case("q073", make, None, "position_ids", "The rank of each token in a stable sort that puts real tokens first.", "right")


# ---------------------------------------------------------------- ids_from_tokens
RB = P.Learned(np.random.default_rng(1).standard_normal((400, 4)).astype(np.float32), padding_idx=1)
RB3 = P.Learned(np.random.default_rng(2).standard_normal((400, 4)).astype(np.float32), padding_idx=3)
OP = P.Learned(np.random.default_rng(3).standard_normal((400, 4)).astype(np.float32), padding_idx=1, offset=2)


def make(bug):
    def ids(input_ids):
        real = (np.asarray(input_ids) != 1).astype(np.int64)
        count = np.arange(1, real.shape[-1] + 1) if bug else np.cumsum(real, -1)
        return count * real + 1
    return ids
case("q074", make, RB, "ids_from_tokens", "Real tokens are numbered by their place in the row, not by the count of real tokens: with padding on the left "
     "all numbers are too large.", "place-instead-of-count", "cumulative sum of the mask")


def make(bug):
    def ids(input_ids):
        t = np.asarray(input_ids)
        real = (t > 1 if bug else t != 1).astype(np.int64)
        return np.cumsum(real, axis=-1) * real + 1
    return ids
case("q075", make, RB, "ids_from_tokens", "Padding is tested as id > padding_idx; token 0 (<s>) counts as padding.", "smaller-ids-padding",
     "test id != padding_idx")


def make(bug):
    def ids(input_ids):
        real = np.not_equal(input_ids, 3).astype(np.int64)
        n = np.add.accumulate(real, axis=-1)
        return (n + 3) * real if bug else n * real + 3
    return ids
case("q076", make, RB3, "ids_from_tokens", "padding_idx is added before the product with the mask, so padding has row 0 instead of row padding_idx.",
     "padding-row-zero", "add padding_idx after the product")


def make(bug):
    def ids(input_ids):
        real = (np.asarray(input_ids) != 1).astype(int)
        p = np.cumsum(real, axis=-1) * real + 1
        return p if bug else p - 2
    return ids
case("q077", make, OP, "ids_from_tokens", "The table adds its offset 2 to every position in the lookup; fairseq's rows are returned as they are, so "
     "the offset counts twice.", "offset-twice", "subtract the table's offset")


def make(bug):
    pad = 0 if bug else 3
    def ids(input_ids):
        out = []
        for row in np.asarray(input_ids).tolist():
            n, line = 3, []
            for t in row:
                n += t != pad
                line.append(n if t != pad else 3)
            out.append(line)
        return np.array(out, dtype=np.int64).reshape(np.shape(input_ids))
    return ids
case("q078", make, RB3, "ids_from_tokens", "The token of padding is assumed to be 0; the table's padding_idx is 3.", "padding-token-zero",
     "compare with padding_idx")


# ---------------------------------------------------------------- packed
def make(bug):
    def packed(lengths):
        cu = np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))])
        t = np.arange(cu[-1])
        doc = np.searchsorted(cu[1:], t, side="left" if bug else "right")
        return t - cu[doc]
    return packed
case("q079", make, None, "packed", "searchsorted with side='left' over the ends: the first token of every document but the first belongs to the document "
     "before.", "searchsorted-side", "side='right'")


def make(bug):
    def packed(lengths):
        n = np.asarray(lengths, np.int64)
        steps = np.ones(n.sum() + 1, np.int64)
        steps[0] = 0
        starts = np.cumsum(n)[:-1]
        if bug:
            steps[starts] = 1 - n[:-1]
        else:
            np.subtract.at(steps, starts, n[:-1])
        return np.cumsum(steps)[:-1]
    return packed
case("q080", make, None, "packed", "Sum of steps, where the step at each start is set to 1 - length: with empty documents two starts coincide and only the "
     "last is kept (or the step of token 0 is overwritten).", "empty-document-start", "subtract at each start, accumulating")


def make(bug):
    def packed(lengths):
        n = np.asarray(lengths, np.int64)
        before = np.concatenate([[0], n[:-1]])[: len(n)]
        if not bug:
            before = np.cumsum(before)
        return np.arange(n.sum()) - np.repeat(before, n)
    return packed
case("q081", make, None, "packed", "The length of the preceding document alone is subtracted, not the start: wrong from the third document on.",
     "previous-length-subtracted", "subtract the cumulative starts")


def make(bug):
    def packed(lengths):
        n = [int(x) for x in lengths]
        t = np.arange(sum(n))
        if bug:
            return t % max(n, default=1)
        return np.array([p for x in n for p in range(x)], dtype=np.int64)
    return packed
case("q082", make, None, "packed", "The index modulo the longest document, as if documents were padded to it.", "modulo-longest",
     "count each document by its own length")


def make(bug):
    def packed(lengths):
        n = np.asarray(lengths, np.int64)
        t = np.arange(n.sum())
        first = np.zeros_like(t)
        starts = (np.cumsum(n) - n)[n > 0]
        first[starts] = starts
        return t - np.maximum.accumulate(first)
    return packed
case("q083", make, None, "packed", "The start of the document is a running maximum of marks; empty documents leave no mark.", "right")


# ---------------------------------------------------------------- decode_positions
def make(bug):
    def decode(prompt_len, n_steps):
        n = np.asarray(prompt_len, np.int64)
        if bug and n.ndim:
            n = np.full_like(n, n.max(initial=0))
        return n[..., None] + np.arange(n_steps)
    return decode
case("q084", make, None, "decode_positions", "All rows continue at the longest prompt of the batch, the width of the padded batch.", "longest-prompt",
     "each row continues at its own length")


def make(bug):
    def decode(prompt_len, n_steps):
        n = np.asarray(prompt_len, np.int64)
        if n.ndim == 0:
            return np.arange(n, n + n_steps)
        steps = n + np.arange(n_steps)[:, None]                                    # steps x rows
        return steps.reshape(len(n), n_steps) if bug else steps.T
    return decode
case("q085", make, None, "decode_positions", "Positions are made as (steps, rows) and reshaped to (rows, steps) instead of transposed.", "reshape-for-transpose",
     "transpose")


def make(bug):
    class Counter:
        def __init__(self):
            self.at = None
        def __call__(self, prompt_len, n_steps):
            if self.at is None or not bug or np.shape(self.at) != np.shape(prompt_len):
                self.at = np.array(prompt_len, np.int64)
            out = []
            for _ in range(n_steps):
                out.append(self.at.copy())
                self.at = self.at + 1
            return np.stack(out, -1) if out else np.zeros(np.shape(prompt_len) + (0,), np.int64)
    return Counter()
case("q086", make, None, "decode_positions", "The counter of an earlier generation is not reset: a second call with as many rows goes on where the first ended.",
     "counter-not-reset", "start every call at prompt_len")


def make(bug):
    def decode(prompt_len, n_steps):
        n = np.asarray(prompt_len).astype(np.int16 if bug else np.int64)
        p = n[..., None] + np.arange(n_steps, dtype=n.dtype)
        return p.astype(np.int64)
    return decode
case("q087", make, None, "decode_positions", "Positions are computed in int16, so they wrap round above 32767.", "int16", "int64")


# ---------------------------------------------------------------- shard_positions
def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        cu = np.asarray(cu_seqlens, np.int64)
        pos = np.concatenate([np.arange(n) for n in np.diff(cu)] + [np.zeros(0, np.int64)]).astype(np.int64)
        if bug:
            parts = np.split(pos, 2 * cp_size)                                     # chunks of the packed batch
            return np.concatenate([parts[cp_rank], parts[2 * cp_size - 1 - cp_rank]])
        out = [np.zeros(0, np.int64)]
        for a, b in zip(cu[:-1], cu[1:]):
            parts = np.split(pos[a:b], 2 * cp_size)
            out += [parts[cp_rank], parts[2 * cp_size - 1 - cp_rank]]
        return np.concatenate(out)
    return shard
case("q088", make, None, "shard_positions", "The packed batch as a whole is cut into 2 cp_size chunks, not every sequence: the rank holds other tokens.",
     "batch-cut-as-one", "cut each sequence")


def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        out = []
        for n in np.diff(cu_seqlens):
            c = int(n) // (2 * cp_size)
            out.extend(range(cp_rank * c, (cp_rank + 1) * c))
            far = range((2 * cp_size - 1 - cp_rank) * c, (2 * cp_size - cp_rank) * c)
            out.extend(far[::-1] if bug else far)
        return np.array(out, dtype=np.int64)
    return shard
case("q089", make, None, "shard_positions", "The tokens of the mirrored chunk are mirrored too: its positions fall instead of rise.", "mirrored-tokens",
     "only the choice of the chunk is mirrored")


def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        n = np.diff(np.asarray(cu_seqlens))
        other = cp_size + cp_rank if bug else 2 * cp_size - 1 - cp_rank
        return np.concatenate([np.zeros(0, np.int64)] + [
            np.arange(x).reshape(2 * cp_size, -1)[[cp_rank, other]].ravel() for x in n if x])
    return shard
case("q090", make, None, "shard_positions", "The second chunk is number cp_size + rank (round robin) instead of 2 cp_size - 1 - rank.", "round-robin-chunk",
     "chunk 2 cp_size - 1 - rank")


def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        n = np.diff(np.asarray(cu_seqlens)) // (2 * cp_size)
        near = [cp_rank * c + np.arange(c) for c in n]
        far = [(2 * cp_size - 1 - cp_rank) * c + np.arange(c) for c in n]
        order = near + far if bug else [x for pair in zip(near, far) for x in pair]
        return np.concatenate(order).astype(np.int64) if order else np.zeros(0, np.int64)
    return shard
case("q091", make, None, "shard_positions", "The near chunks of all sequences come first and then all far chunks; the rank holds both chunks of a sequence together.",
     "chunks-grouped", "near and far chunk of each sequence in turn")


def make(bug):
    def shard(cu_seqlens, cp_size, cp_rank):
        cu = np.asarray(cu_seqlens)
        t = np.arange(cu[-1])
        seq = np.searchsorted(cu, t, side="right") - 1
        p, n = t - cu[seq], (cu[1:] - cu[:-1])[seq]
        owner = p * (2 * cp_size) // np.maximum(n, 1)                              # chunk of each token
        mine = np.minimum(owner, 2 * cp_size - 1 - owner) == cp_rank
        return p[mine]
    return shard
case("q092", make, None, "shard_positions", "No chunks are cut: every packed token computes its owner min(chunk, 2 cp_size - 1 - chunk), and a mask selects.", "right")


# ---------------------------------------------------------------- relative_shift, relative_scores, relative_index
def make(bug):
    def shift(x):
        Q, K = x.shape
        return np.stack([np.roll(x[i], -((K if bug else Q) - 1 - i)) for i in range(Q)])
    return shift
case("q093", make, None, "relative_shift", "Row i is rolled by K - 1 - i columns instead of Q - 1 - i: right only without cached keys.", "rolled-by-keys",
     "roll by Q - 1 - i")


def make(bug):
    def shift(x):
        Q, K = x.shape
        wide = np.zeros((Q, K + 1), x.dtype)
        if bug:
            wide[:, :K] = x
        else:
            wide[:, 1:] = x
        return wide.reshape(K + 1, Q)[1:].reshape(Q, K)
    return shift
case("q094", make, None, "relative_shift", "The column of zeros of the pad-and-reshape trick stands after the scores instead of before them.", "pad-on-the-right",
     "pad on the left")


def make(bug):
    def shift(x):
        x = np.ascontiguousarray(x)
        Q, K = x.shape
        s = x.itemsize
        return np.lib.stride_tricks.as_strided(x.ravel()[Q - 1 :], (Q, K), (s * (K - 1), s)).copy()
    return shift
case("q095", make, None, "relative_shift", "A strided view: rows begin K - 1 numbers apart, from number Q - 1 on; keys after the query get scores of the next row.", "right")


def make(bug):
    def rel_scores(q, rel):
        S = q.shape[0]
        x = (q.astype(np.float64) @ rel.astype(np.float64).T)                      # S x 2S-1
        x = np.concatenate([np.zeros((S, 1)), x], axis=1).reshape(2 * S, S)[1:].reshape(S, 2 * S - 1)
        return (x[:, S - 1 :] if bug else x[:, :S]).astype(q.dtype)
    return rel_scores
case("q096", make, None, "relative_scores", "After the shift the last S columns are kept instead of the first S.", "last-columns-kept", "keep the first S columns")


def make(bug):
    def rel_scores(q, rel):
        S = len(q)
        out = np.empty((S, S), q.dtype)
        for i, j in itertools.product(range(S), repeat=2):
            d = i - j
            m = S - 1 - (abs(d) if bug else d)
            out[i, j] = np.dot(q[i].astype(np.float64), rel[m].astype(np.float64))
        return out
    return rel_scores
case("q097", make, None, "relative_scores", "The row is chosen by the absolute offset, so keys after the query get the row of the key before it.", "absolute-offset",
     "S - 1 - (i - j)")


def make(bug):
    T = 6
    def rel_scores(q, rel):
        S = q.shape[0]
        out = np.zeros((S, S))
        for n, block in enumerate(np.array_split(np.arange(S), range(T, S, T))):
            start = n * len(block) if bug else n * T
            idx = S - 1 - (start + np.arange(len(block)))[:, None] + np.arange(S)
            out[block] = np.einsum("id,ijd->ij", q[block].astype(float), rel[idx].astype(float))
        return out.astype(q.dtype)
    return rel_scores
case("q098", make, None, "relative_scores", "The first row of a block of 6 queries is block number times the size of this block: wrong in a shorter last block.",
     "last-block-start", "multiply by 6")


def make(bug):
    def index(window):
        h, w = window
        y, x = np.divmod(np.arange(h * w), w)
        stride = 2 * w - 2 if bug else 2 * w - 1
        return (y[:, None] - y) * stride + (x[:, None] - x)
    return index
case("q099", make, None, "relative_index", "The factor of dy is 2w - 2: (dy, w - 1) and (dy + 1, 1 - w) get one number, pairs at opposite edges of neighbouring rows.",
     "stride-one-less", "2w - 1")


def make(bug):
    def index(window):
        h, w = (int(n) for n in window)
        seen = {}
        cells = [complex(a, b) for a in range(h) for b in range(w)]
        return np.array([[seen.setdefault(p - r, len(seen)) for r in cells] for p in cells])
    return index
case("q100", make, None, "relative_index", "Offsets are complex numbers, numbered in order of occurrence by a dictionary.", "right")
