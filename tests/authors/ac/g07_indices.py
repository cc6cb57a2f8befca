"""Functions without an encoding: window indices, shifts, scores by offset, position ids, shards."""
import itertools

import numpy as np
import torch


# ================================================================ relative_index
def index_column_major(window):
    """Right: dx is the slow part of the number, dy the fast one."""
    h, w = window
    t = np.arange(h * w)
    y, x = t // w, t % w
    dy, dx = y[:, None] - y, x[:, None] - x
    return (dx + w - 1) * (2 * h - 1) + dy + h - 1


def index_factor_height(window):
    h, w = window
    coords = np.stack(np.meshgrid(np.arange(h), np.arange(w), indexing="ij")).reshape(2, -1)
    rel = (coords[:, :, None] - coords[:, None, :]).transpose(1, 2, 0)
    rel[..., 0] += h - 1
    rel[..., 1] += w - 1
    rel[..., 0] *= 2 * h - 1  # should be 2 w - 1
    return rel.sum(-1)


def index_uint8(window):
    h, w = window
    y, x = np.divmod(np.arange(h * w), w)
    rel = (y[:, None] - y + h - 1) * (2 * w - 1) + (x[:, None] - x + w - 1)
    return rel.astype(np.uint8).astype(np.int64)


def index_meshgrid_xy(window):
    """torch.meshgrid became indexing='xy': the tokens are listed column by column."""
    h, w = window
    coords = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="xy")).flatten(1)
    rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
    rel[:, :, 0] += h - 1
    rel[:, :, 1] += w - 1
    rel[:, :, 0] *= 2 * w - 1
    return rel.sum(-1).numpy()


# ================================================================ relative_shift


def shift_flip(x):
    """Right: every row rolled to the left by its own amount."""
    q = x.shape[0]
    return np.stack([np.roll(row, -(q - 1 - i)) for i, row in enumerate(np.asarray(x))])


def shift_ignores_memory(x):
    """Rows are moved by K - 1 - i, right for Q = K only."""
    x = np.asarray(x)
    q, k = x.shape
    col = np.arange(k)[None, :] + (k - 1 - np.arange(q))[:, None]
    return np.take_along_axis(x, col % k, axis=1)


def shift_blocks(x):
    """Blocks of 16 queries, each moved as if it were the last block."""
    x = np.asarray(x)
    q, k = x.shape
    out = np.zeros_like(x)
    for start in range(0, q, 16):
        n = min(16, q - start)
        for i in range(n):
            out[start + i] = np.roll(x[start + i], -(n - 1 - i))
    return out


# ================================================================ relative_scores
def scores_skew(q, rel):
    """Right: the pad-and-reshape of Conformer for 2 S - 1 offsets."""
    q, rel = np.asarray(q), np.asarray(rel)
    s = q.shape[0]
    m = (q.astype(np.float64) @ rel.astype(np.float64).T)
    m = np.concatenate([np.zeros((s, 1)), m], axis=1).reshape(2 * s, s)[1:].reshape(s, 2 * s - 1)
    return m[:, :s].astype(q.dtype)


def scores_causal_skew(q, rel):
    """Music Transformer's skew of the first S offsets: keys after the query get other values."""
    q, rel = np.asarray(q), np.asarray(rel)
    s = q.shape[0]
    m = q @ rel[:s].T
    m = np.pad(m, ((0, 0), (1, 0))).reshape(s + 1, s)[1:]
    return m


# ================================================================ position_ids
def ids_from_loop(attention_mask):
    """Right: a counter for each row; padding has 1, as in transformers 4."""
    mask = np.asarray(attention_mask)
    out = np.ones(mask.shape, np.int64)
    for row, got in zip(mask, out):
        real = np.flatnonzero(row)
        got[real] = np.arange(real.size)
    return out


def ids_first_row(attention_mask):
    m = np.asarray(attention_mask).astype(np.int64)
    return np.broadcast_to(np.maximum(np.cumsum(m[0]) - 1, 0), m.shape).copy()


def ids_minus_padding(attention_mask):
    """Every row is taken to be padded on the left."""
    m = np.asarray(attention_mask).astype(np.int64)
    pad = m.shape[1] - m.sum(1, keepdims=True)
    return np.maximum(np.arange(m.shape[1])[None] - pad, 0)


def ids_int8(attention_mask):
    m = np.asarray(attention_mask).astype(np.int8)
    c = np.cumsum(m, axis=-1, dtype=np.int8) - np.int8(1)
    return np.where(m == 1, c, 0).astype(np.int64)


def ids_after_first_real(attention_mask):
    """arange from the first real token on: right for padding at the ends, not for holes."""
    m = np.asarray(attention_mask).astype(np.int64)
    first = m.argmax(1)[:, None]
    return np.maximum(np.arange(m.shape[1])[None] - first, 0)


# ================================================================ packed
def packed_searchsorted(lengths):
    """Right: the document of each token by bisection; empty documents take no token."""
    ends = np.cumsum(np.asarray(lengths, np.int64))
    total = int(ends[-1]) if len(ends) else 0
    t = np.arange(total)
    doc = np.searchsorted(ends, t, side="right")
    starts = np.concatenate([[0], ends])[:-1]
    return t - starts[doc]


def packed_resets(lengths):
    """A running sum of ones that drops by the length of the document before."""
    lengths = [int(n) for n in lengths]
    steps = np.ones(sum(lengths), np.int64)
    if not len(steps):
        return steps
    steps[0] = 0
    at = 0
    for n in lengths[:-1]:
        at += n
        if at < len(steps):
            steps[at] -= n + 1  # should be steps[at] -= n
    return np.cumsum(steps)


def packed_two_docs(lengths):
    """The start of the second document is subtracted from all later ones."""
    lengths = [int(n) for n in lengths]
    t = np.arange(sum(lengths))
    if lengths:
        t = np.where(t >= lengths[0], t - lengths[0], t)
    return t


# ================================================================ decode_positions


def decode_longest(prompt_len, n_steps):
    n = np.asarray(prompt_len, np.int64)
    rows = int(n.max()) + np.arange(n_steps)
    return rows if n.ndim == 0 else np.tile(rows, (n.size, 1))


def decode_speculative(prompt_len, n_steps):
    """Drafts of 8 tokens: each round is counted from one token too early."""
    n = np.asarray(prompt_len, np.int64)
    steps = np.arange(n_steps)
    return n[..., None] + steps - steps // 8


# ================================================================ shard_positions
def shard_reshape(cu_seqlens, cp_size, cp_rank):
    """Right: every sequence as a matrix of 2 cp chunks, two rows of it."""
    cu = np.asarray(cu_seqlens, np.int64)
    out = [np.zeros(0, np.int64)]
    for n in np.diff(cu):
        chunks = np.arange(n).reshape(2 * cp_size, -1) if n else np.zeros((2 * cp_size, 0), np.int64)
        out.append(chunks[[cp_rank, -1 - cp_rank]].ravel())
    return np.concatenate(out)


def shard_whole_buffer(cu_seqlens, cp_size, cp_rank):
    """The packed buffer is cut into chunks as one sequence."""
    cu = np.asarray(cu_seqlens, np.int64)
    pos = np.concatenate([np.arange(n) for n in np.diff(cu)] or [np.zeros(0, np.int64)])
    chunks = np.split(pos, 2 * cp_size)
    return np.concatenate([chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]])


def shard_global_index(cu_seqlens, cp_size, cp_rank):
    """The indices of the packed tokens, not their positions: right for the first sequence."""
    cu = np.asarray(cu_seqlens, np.int64)
    out = [np.zeros(0, np.int64)]
    for a, b in zip(cu[:-1], cu[1:]):
        c = (b - a) // (2 * cp_size)
        out += [a + cp_rank * c + np.arange(c), a + (2 * cp_size - 1 - cp_rank) * c + np.arange(c)]
    return np.concatenate(out)
