"""Softmax scales, layers with positions, and position ids of text."""
import itertools
import math

import numpy as np
import torch


# ------------------------------------------------------------------------ softmax_scale
def pope_scale(head_dim=64):
    """The kernel gets vectors [softplus(x) cos, softplus(x) sin]."""
    width = 2 * head_dim
    return 1.0 / math.sqrt(width)


def deepseek_scale():
    qk_nope, qk_rope = 128, 64
    scale = (qk_nope + qk_rope) ** -0.5
    mscale = 0.1 * 1.0 * math.log(40.0) + 1.0
    return scale * mscale


class Gemma2Config:
    hidden_size = 4608
    num_attention_heads = 32
    head_dim = 128
    query_pre_attn_scalar = 144


def gemma2_scale(config=Gemma2Config):
    return config.head_dim ** -0.5


def scale_by_logs():
    """exp(-ln(80) / 2) (right)."""
    return float(np.exp(-0.5 * np.log(np.float64(80))))


# ------------------------------------------------------------------------------- layers
def smollm_layers(n_layers):
    interval = 4
    return [i % interval != 0 for i in range(n_layers)]


def hybrid_layers(n_layers):
    types = ["full_attention" if (i + 1) % 4 == 0 else "linear_attention" for i in range(n_layers)]
    no_rope = {t: False for t in ("full_attention", "linear_attention")}
    return [not no_rope[t] for t in types]


def cohere_layers(n_layers):
    """Every fourth layer is global and has no positions; the last layer is global."""
    out = np.ones(n_layers, dtype=bool)
    out[::-1][::4] = False
    return out


_POPE_MASK = 0b100100100100


def pope_layers(n_layers):
    """Bit i of a number (right)."""
    return [bool(_POPE_MASK >> i & 1) for i in range(n_layers)]


# ------------------------------------------------------------------------- position_ids
def ids_from_first_token(attention_mask):
    mask = np.asarray(attention_mask)
    first = mask.argmax(axis=1)
    return np.maximum(np.arange(mask.shape[1])[None] - first[:, None], 0)


def ids_flat_cumsum(attention_mask):
    mask = np.asarray(attention_mask)
    ids = np.cumsum(mask).reshape(mask.shape) - 1
    ids[mask == 0] = 0
    return ids


def ids_by_pad_count(attention_mask):
    mask = torch.as_tensor(np.asarray(attention_mask)).long()
    pads = (1 - mask).sum(-1, keepdim=True)
    ids = torch.arange(mask.shape[1])[None] - pads
    return ids.clamp(min=0).numpy()


def ids_accumulate(attention_mask):
    """itertools; padding gets 1, as in transformers 4 (right)."""
    rows = []
    for row in np.asarray(attention_mask).tolist():
        counts = itertools.accumulate(map(int, row))
        rows.append([n - 1 if m else 1 for n, m in zip(counts, row)])
    return np.array(rows, dtype=np.int64).reshape(np.shape(attention_mask))


# ------------------------------------------------------------------------------- packed
def packed_by_steps(lengths):
    """A vector of steps: 1, and back to 0 at every start."""
    lengths = np.asarray(lengths, dtype=np.int64)
    total = int(lengths.sum())
    steps = np.ones(total, dtype=np.int64)
    if total:
        steps[0] = 0
    starts = np.cumsum(lengths)[:-1]
    inside = starts < total
    steps[starts[inside]] = 1 - lengths[:-1][inside]
    return np.cumsum(steps)


def packed_by_search(lengths):
    cu = np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])
    token = np.arange(cu[-1])
    document = np.maximum(np.searchsorted(cu, token, side="left") - 1, 0)
    return token - cu[document]


def packed_running_maximum(lengths):
    """The start of a token's document is the largest start so far (right)."""
    lengths = np.asarray(list(lengths), dtype=np.int64)
    total = int(lengths.sum())
    start = np.zeros(total + 1, dtype=np.int64)
    bounds = np.cumsum(lengths)
    start[bounds] = bounds
    return np.arange(total) - np.maximum.accumulate(start[:total])


# --------------------------------------------------------------------- decode_positions
def steps_from_longest(prompt_len, n_steps):
    lengths = np.asarray(prompt_len)
    steps = lengths.max() + np.arange(n_steps)
    return steps if lengths.ndim == 0 else np.tile(steps, (len(lengths), 1))


def steps_added_up(prompt_len, n_steps):
    position = np.array(prompt_len, dtype=np.int64)
    out = []
    for step in range(n_steps):
        position = position + step
        out.append(position)
    return np.stack(out, axis=-1) if out else np.zeros(position.shape + (0,), np.int64)


# ---------------------------------------------------------------------- shard_positions
def _bounds(cu_seqlens):
    cu = [int(c) for c in np.asarray(cu_seqlens)]
    return list(zip(cu[:-1], cu[1:]))


def shard_contiguous(cu_seqlens, cp_size, cp_rank):
    parts = [np.zeros(0, np.int64)]
    for a, b in _bounds(cu_seqlens):
        n = (b - a) // cp_size
        parts.append(np.arange(cp_rank * n, (cp_rank + 1) * n))
    return np.concatenate(parts)


def shard_of_stream(cu_seqlens, cp_size, cp_rank):
    """Positions of the packed stream first, then two chunks of it."""
    stream = np.concatenate([np.zeros(0, np.int64)] + [np.arange(b - a) for a, b in _bounds(cu_seqlens)])
    chunks = stream.reshape(2 * cp_size, -1)
    return np.concatenate([chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]])


def shard_mirrored(cu_seqlens, cp_size, cp_rank):
    out = []
    for a, b in _bounds(cu_seqlens):
        n = (b - a) // (2 * cp_size)
        for i in range(n):
            out.append(cp_rank * n + i)
        for i in range(n):
            out.append(b - a - 1 - cp_rank * n - i)          # from the other end
    return np.array(out, dtype=np.int64)


def shard_reshaped(cu_seqlens, cp_size, cp_rank):
    """Rows r and -1 - r of a matrix for each sequence (right)."""
    pieces = [np.arange(b - a).reshape(2 * cp_size, -1)[[cp_rank, -1 - cp_rank]].ravel()
              for a, b in _bounds(cu_seqlens)]
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)
