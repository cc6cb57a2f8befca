"""Position ids."""
import numpy as np


# 066: surface position_ids
def left_padded_ids(attention_mask):
    m = np.asarray(attention_mask)
    first = m.argmax(axis=-1)  # the first real token
    return np.maximum(np.arange(m.shape[-1])[None] - first[:, None], 0)


# 067: surface packed: the trick with ones and one cumulative sum
def packed_by_ones(lengths):
    lengths = np.asarray(lengths, np.int64)
    total = int(lengths.sum())
    if total == 0:
        return np.zeros(0, np.int64)
    step = np.ones(total + 1, np.int64)
    ends = np.cumsum(lengths)
    step[0] = 0
    step[ends] = 1 - lengths
    return np.cumsum(step[:-1])


# 068: surface shard_positions
def cp_positions(cu_seqlens, cp_size, cp_rank):
    out = []
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        n = (b - a) // (2 * cp_size)
        for c in (cp_rank, 2 * cp_size - 1 - cp_rank):
            out.append(np.arange(a + c * n, a + (c + 1) * n))
    return np.concatenate(out) if out else np.zeros(0, np.int64)


# 070: surface decode_positions
def next_positions(prompt_len, n_steps):
    p = np.asarray(prompt_len)
    steps = np.arange(n_steps)
    if p.ndim == 0:
        return p + steps
    return np.broadcast_to(p.max() + steps, (p.shape[0], n_steps))


# 072 (two): surface position_ids
def ids_from_mask(attention_mask):
    m = np.asarray(attention_mask).astype(np.int64)
    return (np.cumsum(m).reshape(m.shape)) * m


def _walk(types, grids, image_at, video_at, start=0):
    """Positions (3, n) of one row of real tokens; returns them and the counters."""
    cols, c, s = [], start, 0
    while s < len(types):
        kind = types[s]
        if kind == 0 or kind == 3:
            cols.append([[c], [c], [c]])
            c, s = c + 1, s + 1
            continue
        if kind == 1:
            t, h, w = grids[0][image_at]
            image_at += 1
        else:
            t, h, w = grids[1][video_at]
            video_at += 1
        h, w = int(h) // 2, int(w) // 2
        block = np.indices((int(t), h, w)).reshape(3, -1)
        cols.append(block + c)
        c, s = c + max(int(t), h, w), s + block.shape[1]
    pos = np.concatenate([np.asarray(b) for b in cols], 1) if cols else np.zeros((3, 0), int)
    return pos, image_at, video_at


# 069: MRoPEPositions(), surface mrope_position_ids
def rope_index(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    tt, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
    B, S = tt.shape
    out = np.zeros((3, B, S + n_steps), np.int64)
    for b in range(B):
        image_index, video_index = 0, 0
        pos, image_index, video_index = _walk(
            tt[b][mask[b]], (image_grids, video_grids), image_index, video_index
        )
        out[:, b, :S][:, mask[b]] = pos
        out[:, b, S:] = (pos.max() + 1 if pos.size else 0) + np.arange(n_steps)
    return out


# 071 (two): MRoPEPositions(), surface mrope_position_ids
def rope_index_padded(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    tt = np.asarray(token_types)
    B, S = tt.shape
    rows, i, v = [], 0, 0
    for b in range(B):
        pos, i, v = _walk(tt[b], (image_grids, video_grids), i, v)
        decode = np.tile(np.arange(S, S + n_steps), (3, 1))
        rows.append(np.concatenate([pos, decode], 1))
    return np.stack(rows, 1)
