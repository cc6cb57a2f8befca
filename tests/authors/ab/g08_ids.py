"""Ids of positions: padding, packing, decoding, shards, layers."""
import numpy as np


# ---------------------------------------------------------------- position_ids
def from_first_real(attention_mask):
    m = np.asarray(attention_mask)
    first = m.argmax(axis=1)
    return np.maximum(np.arange(m.shape[1]) - first[:, None], 0)


def byte_cumsum(attention_mask):
    m = np.asarray(attention_mask).astype(np.int8)
    p = np.cumsum(m, axis=-1, dtype=np.int8)
    return np.where(m == 1, p - 1, 0).astype(np.int64)


def ranks(attention_mask):
    """The rank of a real token among the real tokens of its row."""
    m = np.asarray(attention_mask)
    out = np.zeros(m.shape, np.int64)
    for row, found in zip(out, m):
        real = np.flatnonzero(found)
        row[real] = np.searchsorted(real, real)
    return out


# ---------------------------------------------------------------- packed
def minus_last_length(lengths):
    n = np.asarray(lengths, np.int64)
    before = np.concatenate([[0], n[:-1]]) if n.size else n
    return np.arange(n.sum()) - np.repeat(before, n)


def short_joined(lengths):
    """Documents of one token belong to the one before."""
    out, p = [], 0
    for n in np.asarray(lengths).tolist():
        if n != 1:
            p = 0
        out.extend(range(p, p + n))
        p += n
    return np.array(out, np.int64)


# ---------------------------------------------------------------- decode_positions


def repeats_prompt_end(prompt_len, n_steps):
    """Positions of the cache: the first step still belongs to the prompt."""
    n = np.asarray(prompt_len)[..., None]
    return n + np.maximum(np.arange(n_steps) - 1, 0)


# ---------------------------------------------------------------- shard_positions


def batch_as_one(cu_seqlens, cp_size, cp_rank):
    """The packed tokens are cut as one sequence; then the start of its own is taken off."""
    cu = np.asarray(cu_seqlens, np.int64)
    total = int(cu[-1])
    c = total // (2 * cp_size)
    i = np.concatenate([cp_rank * c + np.arange(c), (2 * cp_size - 1 - cp_rank) * c + np.arange(c)])
    return i - cu[np.searchsorted(cu, i, side="right") - 1]


def chunk_of_first(cu_seqlens, cp_size, cp_rank):
    """Chunks as long as those of the first sequence start the second half."""
    cu = np.asarray(cu_seqlens, np.int64)
    n = np.diff(cu)
    parts = []
    for length in n:
        c = length // (2 * cp_size)
        tail = (2 * cp_size - 1 - cp_rank) * (n[0] // (2 * cp_size))
        parts += [cp_rank * c + np.arange(c), tail + np.arange(c)]
    return np.concatenate(parts) if parts else np.zeros(0, int)


def mirrored(cu_seqlens, cp_size, cp_rank):
    """Rows of a table of chunks."""
    out = [np.zeros(0, np.int64)]
    for n in np.diff(np.asarray(cu_seqlens, np.int64)):
        table = np.arange(n).reshape(2 * cp_size, -1)
        out.append(table[[cp_rank, -1 - cp_rank]].ravel())
    return np.concatenate(out)


# ---------------------------------------------------------------- M-RoPE ids (Qwen2-VL, merge 2)
def _prompt(types, images, videos, after=lambda start, t, h, w: start + max(t, h, w)):
    """Positions of one row, from iterators over the grids."""
    cols, start, i = [], 0, 0
    types = [int(t) for t in types]
    while i < len(types):
        kind = types[i]
        if kind in (0, 3):
            cols.append((start, start, start))
            start += 1
            i += 1
            continue
        t, h, w = (int(v) for v in next(images if kind == 1 else videos))
        h, w = h // 2, w // 2
        for a in range(t):
            for b in range(h):
                for c in range(w):
                    cols.append((start + a, start + b, start + c))
        i += t * h * w
        start = after(start, t, h, w)
    return np.array(cols, np.int64).reshape(-1, 3).T, start


def _batch(token_types, image_grids, video_grids, mask, n_steps, step, **kw):
    types, mask = np.asarray(token_types), np.asarray(mask)
    images = iter(np.asarray(image_grids).reshape(-1, 3).tolist())
    videos = iter(np.asarray(video_grids).reshape(-1, 3).tolist())
    out = np.zeros((3, types.shape[0], types.shape[1] + n_steps), np.int64)
    ends = []
    for b in range(types.shape[0]):
        real = np.flatnonzero(mask[b])
        ids, end = _prompt(types[b, real], images, videos, **kw)
        out[:, b, real] = ids
        ends.append((end, real.size))
    for b in range(types.shape[0]):
        out[:, b, types.shape[1]:] = step(ends, b, types.shape[1]) + np.arange(n_steps)
    return out


def mrope_ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Token by token, with iterators over the grids."""
    return _batch(token_types, image_grids, video_grids, attention_mask, n_steps,
                  lambda ends, b, s: ends[b][0])


def mrope_delta_of_first(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """rope_deltas of row 0, plus the row's own length."""
    return _batch(token_types, image_grids, video_grids, attention_mask, n_steps,
                  lambda ends, b, s: ends[b][1] + ends[0][0] - ends[0][1])


def mrope_after_time(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """After a video, text goes on after its last frame."""
    def after(start, t, h, w):
        return start + (t if t > 1 else max(h, w))
    return _batch(token_types, image_grids, video_grids, attention_mask, n_steps,
                  lambda ends, b, s: ends[b][0], after=after)


def mrope_packed_by_index(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Positions of the whole pack, minus the number of tokens before the document."""
    images = iter(np.asarray(image_grids).reshape(-1, 3).tolist())
    videos = iter(np.asarray(video_grids).reshape(-1, 3).tolist())
    ids, _ = _prompt(np.asarray(token_types), images, videos)
    n = np.asarray(lengths, np.int64)
    return ids - np.repeat(np.cumsum(n) - n, n)


# ---------------------------------------------------------------- whole models
def scale_mscale_once():
    """YaRN factor 40 with mscale_all_dim 1."""
    return (0.1 * np.log(40.0) + 1) / np.sqrt(192)


def rows_across_heads(w, n_heads):
    """The two halves of the whole matrix are interleaved."""
    return w.reshape(2, w.shape[0] // 2, -1).transpose(1, 0, 2).reshape(w.shape)
