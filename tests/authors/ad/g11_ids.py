"""Position ids of text: padding, packing, decoding, shards; facts of models."""
import math

import numpy as np


# -- position_ids --------------------------------------------------------------------------------


def ids_leading_pads(attention_mask):
    """arange minus the number of leading zeros, clamped at 0."""
    m = np.asarray(attention_mask).astype(np.int64)
    lead = (np.cumsum(m, -1) == 0).sum(-1, keepdims=True)
    return np.maximum(np.arange(m.shape[-1]) - lead, 0)


# -- packed --------------------------------------------------------------------------------------


def packed_flags(lengths):
    """Cumulative sum of steps; a document start is written, so an empty document overwrites one."""
    n = [int(v) for v in lengths]
    total = sum(n)
    step = np.ones(total, np.int64)
    if total:
        step[0] = 0
    at = 0
    for prev, cur in zip(n, n[1:]):
        at += prev
        if at < total:
            step[at] = 1 - prev
    return np.cumsum(step)


# -- decode_positions ----------------------------------------------------------------------------

def decode_longest_prompt(prompt_len, n_steps):
    p = np.asarray(prompt_len)
    if p.ndim == 0:
        return int(p) + np.arange(int(n_steps))
    top = int(p.max()) if p.size else 0
    return np.tile(top + np.arange(int(n_steps)), (len(p), 1))


# -- shard_positions -----------------------------------------------------------------------------


def shard_global(cu_seqlens, cp_size, cp_rank):
    cu = np.asarray(cu_seqlens, np.int64)
    out = [np.zeros(0, np.int64)]
    for a, b in zip(cu[:-1], cu[1:]):
        rows = np.arange(a, b).reshape(2 * cp_size, -1)
        out.append(np.concatenate([rows[cp_rank], rows[-1 - cp_rank]]))
    return np.concatenate(out)


# -- models --------------------------------------------------------------------------------------

def deepseek_scale():
    """DeepSeek-V3: 192 channels, mscale squared."""
    mscale = 0.1 * 1.0 * math.log(40) + 1.0
    return (128 + 64) ** -0.5 * mscale * mscale


def deepseek_scale_nope():
    return 128 ** -0.5 * (0.1 * 0.707 * math.log(40) + 1.0) ** 2


def llama4_layers_shifted(n_layers):
    return [i % 4 != 0 for i in range(n_layers)]


