"""Position ids: padding, packing, decoding, shards, images and videos."""

import numpy as np


# --- right -------------------------------------------------------------------------------


def ids_by_search(attention_mask):
    """Ranks of the real tokens of each row, written through their indices."""
    m = np.asarray(attention_mask)
    out = np.zeros(m.shape, np.int64)
    rows, cols = np.nonzero(m)
    first = np.searchsorted(rows, np.arange(m.shape[0]))
    out[rows, cols] = np.arange(len(rows)) - first[rows]
    return out


def packed_by_differences(lengths):
    """Ones, minus the previous length at each start, summed up; empty documents are skipped."""
    n = np.asarray(lengths, np.int64).reshape(-1)
    n = n[n > 0]
    step = np.ones(int(n.sum()), np.int64)
    if len(n):
        step[0] = 0
        step[np.cumsum(n)[:-1]] = 1 - n[:-1]
    return np.cumsum(step)


def _grids(g):
    return np.asarray(g, np.int64).reshape(-1, 3)


def _walk(types, images, videos, merge=2, number=None):
    """Qwen2-VL's positions of one row without padding; images and videos are iterators."""
    out, start, s = [], 0, 0
    types = list(types)
    while s < len(types):
        e = s
        while e < len(types) and types[e] == types[s]:
            e += 1
        if types[s] == 0:
            out.append(np.tile(np.arange(start, start + e - s), (3, 1)))
            start += e - s
        else:
            done = s
            while done < e:
                t, h, w = next(images if types[s] == 1 else videos)
                h, w = h // merge, w // merge
                part = np.indices((t, h, w)).reshape(3, -1)
                out.append(part + start)
                start = start + (max(t, h, w) if number is None else number(t, h, w))
                done += t * h * w
        s = e
    return np.concatenate(out, 1) if out else np.zeros((3, 0), np.int64)


def qwen2_vl_ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    types, mask = np.asarray(token_types), np.asarray(attention_mask)
    images, videos = iter(_grids(image_grids)), iter(_grids(video_grids))
    b, s = types.shape
    out = np.zeros((3, b, s + n_steps), np.int64)
    for r in range(b):
        real = np.flatnonzero(mask[r])
        p = _walk(types[r, real], images, videos)
        out[:, r, real] = p
        out[:, r, s:] = (p.max() + 1 if p.size else 0) + np.arange(n_steps)
    return out


# --- wrong -------------------------------------------------------------------------------


def ids_for_left_padding(attention_mask):
    """s minus the number of padding tokens of the row: right if all of them are on the left."""
    m = np.asarray(attention_mask).astype(np.int64)
    pad = m.shape[-1] - m.sum(-1, keepdims=True)
    return np.maximum(np.arange(m.shape[-1]) - pad, 0)


def decode_from_longest(prompt_len, n_steps):
    n = np.asarray(prompt_len)
    return np.broadcast_to(n.max() + np.arange(n_steps), (*n.shape, n_steps)).copy()


def shard_second_reversed(cu_seqlens, cp_size, cp_rank):
    """The second chunk is read from its end: a mirror of the tokens, not of the chunks."""
    cu = np.asarray(cu_seqlens)
    parts = [np.zeros(0, np.int64)]
    for n in np.diff(cu):
        c = int(n) // (2 * cp_size)
        p = np.arange(int(n))
        parts += [p[cp_rank * c : (cp_rank + 1) * c], p[::-1][cp_rank * c : (cp_rank + 1) * c]]
    return np.concatenate(parts)


def packed_from_longest(lengths):
    """Positions in the order of a batch sampler, which sorts documents from long to short."""
    n = np.sort(np.asarray(lengths, np.int64).reshape(-1))[::-1]
    return np.concatenate([np.arange(k) for k in n] + [np.zeros(0, np.int64)]).astype(np.int64)


def qwen2_vl_delta_of_padded(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Generated tokens: padded length + (max + 1 - real length), as if delta counted padding."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask)
    images, videos = iter(_grids(image_grids)), iter(_grids(video_grids))
    b, s = types.shape
    out = np.zeros((3, b, s + n_steps), np.int64)
    for r in range(b):
        real = np.flatnonzero(mask[r])
        p = _walk(types[r, real], images, videos)
        out[:, r, real] = p
        delta = (p.max() + 1 if p.size else 0) - len(real)
        out[:, r, s:] = s + delta + np.arange(n_steps)
    return out


def qwen2_vl_first_grids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Every row begins again with the first image and video of the batch."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask)
    b, s = types.shape
    out = np.zeros((3, b, s + n_steps), np.int64)
    for r in range(b):
        real = np.flatnonzero(mask[r])
        row = types[r, real]
        p = _walk_loose(row, _grids(image_grids), _grids(video_grids))
        out[:, r, real] = p
        out[:, r, s:] = (p.max() + 1 if p.size else 0) + np.arange(n_steps)
    return out


def _walk_loose(types, images, videos):
    """_walk over token numbers: a grid may be larger or smaller than what is left of a run."""
    out, start, s = np.zeros((3, len(types)), np.int64), 0, 0
    count = {1: 0, 2: 0}
    while s < len(types):
        kind, e = types[s], s
        while e < len(types) and types[e] == kind:
            e += 1
        if kind == 0:
            out[:, s:e] = np.arange(start, start + e - s)
            start += e - s
        else:
            while s < e:
                grids = images if kind == 1 else videos
                t, h, w = grids[min(count[kind], len(grids) - 1)]
                count[kind] += 1
                part = np.indices((t, h // 2, w // 2)).reshape(3, -1)[:, : e - s] + start
                out[:, s : s + part.shape[1]] = part
                start = part.max() + 1
                s += part.shape[1]
        s = e
    return out


def qwen2_vl_packed_continues(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Two faults: a document goes on where the one before it ended; h and w are exchanged."""
    images, videos = iter(_grids(image_grids)), iter(_grids(video_grids))
    p = _walk(np.asarray(token_types), images, videos)
    return p[[0, 2, 1]]
