"""Position ids: padding, packing, decoding, shards, and the three axes of M-RoPE."""
import itertools

import numpy as np


def ids_minus_padding(attention_mask):
    """The padding of a row shifts its tokens to the right."""
    mask = np.asarray(attention_mask).astype(np.int64)
    s = mask.shape[-1]
    pad = s - mask.sum(axis=-1, keepdims=True)
    return np.maximum(np.arange(s) - pad, 0)


def ids_first_row(attention_mask):
    mask = np.asarray(attention_mask).astype(np.int64)
    ids = np.cumsum(mask, axis=-1) - 1
    ids = np.where(mask == 1, ids, 0)
    ids = ids[:1]
    return np.broadcast_to(ids, mask.shape).copy()


def ids_int8(attention_mask):
    """The mask comes as int8 from the tokenizer, and the sum has its type."""
    mask = np.asarray(attention_mask).astype(np.int8)
    ids = np.cumsum(mask, axis=-1, dtype=np.int8) - np.int8(1)
    return np.where(mask == 1, ids, 0).astype(np.int64)


def ids_accumulate(attention_mask):
    """A stable sort puts the real tokens first; their place there is their position."""
    mask = np.asarray(attention_mask).astype(bool)
    order = np.argsort(~mask, axis=-1, kind="stable")
    place = np.empty(mask.shape, dtype=np.int64)
    np.put_along_axis(
        place, order, np.broadcast_to(np.arange(mask.shape[-1]), mask.shape), axis=-1
    )
    return place * mask


def packed_steps(lengths):
    """A sum of steps: 1 for each token, and back to 0 where a document starts."""
    lengths = np.asarray(lengths, dtype=np.int64)
    total = int(lengths.sum())
    if total == 0:
        return np.zeros(0, np.int64)
    steps = np.ones(total, dtype=np.int64)
    steps[0] = 0
    ends = np.cumsum(lengths)
    inner = ends[:-1] < total
    steps[ends[:-1][inner]] = 1 - lengths[:-1][inner]
    return np.cumsum(steps)


def packed_search(lengths):
    ends = np.cumsum(np.asarray(lengths, dtype=np.int64))
    if ends.size == 0 or ends[-1] == 0:
        return np.zeros(0, np.int64)
    starts = np.concatenate([[0], ends[:-1]])
    token = np.arange(ends[-1])
    document = np.searchsorted(ends, token, side="left")
    return token - starts[document]


def packed_chain(lengths):
    return np.fromiter(
        itertools.chain.from_iterable(map(range, np.asarray(lengths, dtype=int).tolist())),
        dtype=np.int64,
    )


def decode_repeats(prompt_len, n_steps):
    """The first generated token is at the last column of the cache."""
    lengths = np.asarray(prompt_len, dtype=np.int64)
    cache_position = lengths[..., None] - 1
    return cache_position + np.arange(n_steps)


def decode_longest(prompt_len, n_steps):
    lengths = np.asarray(prompt_len, dtype=np.int64)
    start = np.full(lengths.shape, lengths.max() if lengths.size else 0)
    return start[..., None] + np.arange(n_steps)


def shard_neighbours(cu_seqlens, cp_size, cp_rank):
    """Two chunks of each sequence for each rank."""
    out = []
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        chunks = np.arange(int(b) - int(a)).reshape(2 * cp_size, -1)
        out.append(chunks[[2 * cp_rank, 2 * cp_rank + 1]].ravel())
    return np.concatenate(out) if out else np.zeros(0, np.int64)


def shard_whole_batch(cu_seqlens, cp_size, cp_rank):
    cu = np.asarray(cu_seqlens, dtype=np.int64)
    position = np.arange(cu[-1]) - np.repeat(cu[:-1], np.diff(cu))
    chunk = int(cu[-1]) // (2 * cp_size)
    head = position[chunk * cp_rank : chunk * (cp_rank + 1)]
    mirror = 2 * cp_size - 1 - cp_rank
    tail = position[chunk * mirror : chunk * (mirror + 1)]
    return np.concatenate([head, tail])


def shard_indices_as_positions(cu_seqlens, cp_size, cp_rank):
    cu = np.asarray(cu_seqlens, dtype=np.int64).tolist()
    out = [np.zeros(0, np.int64)]
    for start, end in zip(cu[:-1], cu[1:]):
        n = (end - start) // (2 * cp_size)
        for c in (cp_rank, 2 * cp_size - 1 - cp_rank):
            out.append(start + c * n + np.arange(n))
    return np.concatenate(out)


# ---- M-RoPE


def _merged(grids, merge=2):
    grids = [] if grids is None else np.asarray(grids, dtype=np.int64).reshape(-1, 3).tolist()
    return [(t, h // merge, w // merge) for t, h, w in grids]


def _block(t, h, w):
    return np.indices((t, h, w)).reshape(3, -1)


def _fill(types, mask, n_steps, number_row, dtype=np.int64):
    """Number the real tokens of every row, and then the tokens that are generated."""
    types, mask = np.asarray(types), np.asarray(mask).astype(bool)
    b, s = types.shape
    out = np.zeros((3, b, s + n_steps), dtype=dtype)
    for n in range(b):
        ids = number_row(types[n][mask[n]].tolist())
        out[:, n, :s][:, mask[n]] = ids
        last = ids.max() if ids.size else -1
        out[:, n, s:] = last + 1 + np.arange(n_steps)
    return out


def mrope_token_count(
    token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps
):
    """Qwen2-VL."""
    images, videos = iter(_merged(image_grids)), iter(_merged(video_grids))

    def number_row(kinds):
        parts, start, at = [np.zeros((3, 0), np.int64)], 0, 0
        while at < len(kinds):
            if kinds[at] == 0:
                parts.append(np.full((3, 1), start))
                start, at = start + 1, at + 1
                continue
            t, h, w = next(images if kinds[at] == 1 else videos)
            parts.append(start + _block(t, h, w))
            at += t * h * w
            start += t * h * w
        return np.concatenate(parts, axis=1)

    return _fill(token_types, attention_mask, n_steps, number_row)


def mrope_whole_seconds(
    token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps
):
    """Qwen2.5-VL, two positions per second."""
    images, videos = _merged(image_grids), _merged(video_grids)
    seconds = [] if seconds_per_grid is None else np.ravel(seconds_per_grid).tolist()
    seconds = seconds or [1.0] * len(videos)

    def number_row(kinds):
        parts, start, at = [np.zeros((3, 0), np.int64)], 0, 0
        while at < len(kinds):
            if kinds[at] == 0:
                part = np.zeros((3, 1), np.int64)
            else:
                if kinds[at] == 1:
                    (t, h, w), per = images.pop(0), 0.5
                else:
                    (t, h, w), per = videos.pop(0), seconds.pop(0)
                part = _block(t, h, w)
                times = np.trunc(part[0].astype(np.float32) * np.float32(per)) * 2
                part[0] = times
            parts.append(start + part)
            start = int(parts[-1].max()) + 1
            at += part.shape[1]
        return np.concatenate(parts, axis=1)

    return _fill(token_types, attention_mask, n_steps, number_row)


def mrope_delta_of_columns(
    token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps
):
    """Qwen2-VL with rope_deltas: a generated token has its number in the row plus the delta."""
    images, videos = _merged(image_grids), _merged(video_grids)
    mask = np.asarray(attention_mask).astype(bool)
    b, s = mask.shape
    out = np.ones((3, b, s + n_steps), dtype=np.int64)
    deltas = []
    for row in range(b):
        kinds = np.asarray(token_types)[row][mask[row]]
        chunks, nxt, i = [np.zeros((3, 0), np.int64)], 0, 0
        while i < kinds.size:
            if kinds[i] == 0:
                run = i
                while run < kinds.size and kinds[run] == 0:
                    run += 1
                chunks.append(np.tile(np.arange(nxt, nxt + run - i), (3, 1)))
                i = run
            else:
                t, h, w = (images if kinds[i] == 1 else videos).pop(0)
                chunks.append(nxt + _block(t, h, w))
                i += t * h * w
            nxt = int(chunks[-1].max()) + 1
        ids = np.concatenate(chunks, axis=1)
        out[:, row, :s][:, mask[row]] = ids
        deltas.append(nxt - s)
    real = mask.sum(axis=1)
    for row in range(b):
        out[:, row, s:] = real[row] + deltas[row] + np.arange(n_steps)
    return out


def xdrope_ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """HunYuan-VL: token, column, row and image; a row of an image ends with one token more."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
    grids = _merged(image_grids)
    b, s = types.shape
    out = np.zeros((4, b, s + n_steps), dtype=np.int64)
    image = 0
    for row in range(b):
        kinds = types[row][mask[row]]
        ids = np.tile(np.arange(kinds.size), (4, 1))
        i = 0
        while i < kinds.size:
            if kinds[i] != 1:
                i += 1
                continue
            end = i
            while end < kinds.size and kinds[end] == 1:
                end += 1
            _, h, w = grids.pop(0)
            border = (end - i - h * (w + 1)) // 2
            y, x = np.indices((h, w + 1)).reshape(2, -1)
            ids[1, i + border : end - border] = y
            ids[2, i + border : end - border] = x
            ids[3, i + border : end - border] = image
            image += 1
            i = end
        out[:, row, :s][:, mask[row]] = ids
        out[:, row, s:] = kinds.size + np.arange(n_steps)
    return out


class FrameQueue:
    """Qwen3-VL: every frame of a video is an image of its own."""

    def __init__(self, images, videos):
        self.waiting = {
            1: _merged(images),
            2: [(1, h, w) for t, h, w in _merged(videos) for _ in range(t)],
        }

    def __call__(self, kinds):
        columns, start, left = [], 0, iter(range(len(kinds)))
        for at in left:
            if kinds[at] == 0:
                columns.append((start, start, start))
                start += 1
                continue
            t, h, w = self.waiting[kinds[at]].pop(0)
            cells = [(start + f, start + y, start + x)
                     for f in range(t) for y in range(h) for x in range(w)]
            columns += cells
            start += max(t, h, w)
            for _ in range(len(cells) - 1):
                next(left)
        return np.array(columns, dtype=np.int64).reshape(-1, 3).T


def mrope_frames(
    token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps
):
    return _fill(token_types, attention_mask, n_steps, FrameQueue(image_grids, video_grids))
