"""Positions: packed documents, padding, context-parallel shards, M-RoPE ids."""
import numpy as np
import torch


def packed_next_length(lengths):
    """One cumulative sum over steps of one, with a jump back at every new document."""
    lengths = np.asarray(lengths)
    steps = np.ones(int(lengths.sum()), np.int64)
    starts = np.cumsum(lengths)[:-1]
    steps[0] = 0
    steps[starts] = 1 - lengths[1:]
    return np.cumsum(steps)


def shard_whole_batch(cu_seqlens, cp_size, cp_rank):
    """Load-balanced context parallelism over the packed tokens."""
    cu = torch.as_tensor(cu_seqlens).long()
    ids = torch.cat([torch.arange(int(n)) for n in cu.diff()])
    chunks = ids.chunk(2 * cp_size)
    return torch.cat((chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]))


def shard_restarted(cu_seqlens, cp_size, cp_rank):
    """Local positions of the two chunks of every sequence."""
    out = []
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        n = (int(b) - int(a)) // (2 * cp_size)
        first = np.arange(cp_rank * n, (cp_rank + 1) * n)
        out += [first, first + (2 * cp_size - 1 - cp_rank) * n]
    return np.concatenate(out)


def ids_left_only(attention_mask):
    """Positions for left-padded batches: subtract the padding, never below 0."""
    m = np.asarray(attention_mask)
    pad = m.shape[1] - m.sum(-1, keepdims=True)
    return np.maximum(np.arange(m.shape[1]) - pad, 0)


def _runs(types):
    i = 0
    while i < len(types):
        j = i
        while j < len(types) and types[j] == types[i]:
            j += 1
        yield int(types[i]), i, j
        i = j


def _vision(grid, merge=2):
    t, h, w = int(grid[0]), int(grid[1]) // merge, int(grid[2]) // merge
    return np.stack(np.meshgrid(np.arange(t), np.arange(h), np.arange(w), indexing="ij")).reshape(3, -1)


def _row(types, image_grids, video_grids, after):
    """(3, n) for one row; `after` gives the next free position from the last block."""
    ids, cur, images, videos = [], 0, list(image_grids), list(video_grids)
    for kind, a, b in _runs(types):
        while a < b:
            if kind in (1, 2):
                block = _vision((images if kind == 1 else videos).pop(0)) + cur
            else:
                block = np.arange(cur, cur + b - a) * np.ones((3, 1), np.int64)
            ids.append(block)
            cur = after(block, kind)
            a += block.shape[1]
    return np.concatenate(ids, 1).astype(np.int64)


def _batch(token_types, image_grids, video_grids, attention_mask, n_steps, after, decode):
    types, mask = np.asarray(token_types), np.asarray(attention_mask)
    B, S = types.shape
    out = np.ones((3, B, S + n_steps), np.int64)
    ni = nv = 0
    image_grids = np.asarray(image_grids).reshape(-1, 3)
    video_grids = np.asarray(video_grids).reshape(-1, 3)
    for b in range(B):
        keep = mask[b] == 1
        real = types[b][keep]
        ids = _row(real, image_grids[ni:], video_grids[nv:], after)
        ni += _used(real, 1, image_grids[ni:])
        nv += _used(real, 2, video_grids[nv:])
        out[:, b, :S][:, keep] = ids
        out[:, b, S:] = decode(ids, S) + np.arange(n_steps)
    return out


def _used(types, kind, grids):
    left, n = int((types == kind).sum()), 0
    while left > 0:
        left -= _vision(grids[n]).shape[1]
        n += 1
    return n


def mrope_after_height(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Qwen2-VL: text after an image starts behind its last row."""
    return _batch(token_types, image_grids, video_grids, attention_mask, n_steps,
                  after=lambda block, kind: int(block[:2].max()) + 1,
                  decode=lambda ids, S: int(ids.max()) + 1)


def mrope_decode_length(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Qwen2-VL; generated tokens go on at cache_position."""
    return _batch(token_types, image_grids, video_grids, attention_mask, n_steps,
                  after=lambda block, kind: int(block.max()) + 1,
                  decode=lambda ids, S: ids.shape[1])


def mrope_packed_first_images(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Packed samples: each is numbered by the function for one sample."""
    types, out, a = np.asarray(token_types), [], 0
    ig, vg = np.asarray(image_grids).reshape(-1, 3), np.asarray(video_grids).reshape(-1, 3)
    for n in lengths:
        doc = types[a: a + int(n)]
        out.append(_row(doc, ig, vg, lambda block, kind: int(block.max()) + 1))
        a += int(n)
    return np.concatenate(out, 1)
