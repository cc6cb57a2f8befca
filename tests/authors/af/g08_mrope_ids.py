"""Positions of text, images and videos: fn(token_types, image_grids, video_grids,
seconds_per_grid, attention_mask, n_steps), and the same for packed documents."""
import itertools

import numpy as np
import torch


def _grids(grids):
    return [tuple(int(v) for v in g) for g in (grids if grids is not None and len(grids) else [])]


def _decode(rows, masks, n_steps):
    """rows (B, 3, S): append the generated tokens."""
    start = np.array([row[:, m].max(initial=-1) + 1 for row, m in zip(rows, masks)])
    steps = np.broadcast_to((start[:, None] + np.arange(n_steps))[:, None], (len(rows), 3, n_steps))
    return np.concatenate([rows, steps], 2).transpose(1, 0, 2)


# ------------------------------------------------------------------- mrope_position_ids
def qwen2_rows_alone(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Every row of the batch is numbered by itself."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
    rows = np.zeros((len(types), 3, types.shape[1]), np.int64)
    for b in range(len(types)):
        queue = {1: iter(_grids(image_grids)), 2: iter(_grids(video_grids))}
        rows[b][:, mask[b]] = _count_row(types[b, mask[b]], queue)
    return _decode(rows, mask, n_steps)


def _count_row(types, queue, merge=2):
    """One token at a time; a grid is taken when its first token comes."""
    out, nxt, i = np.zeros((3, len(types)), np.int64), 0, 0
    while i < len(types):
        kind = int(types[i])
        if kind in (0, 3):
            out[:, i] = nxt
            nxt, i = nxt + 1, i + 1
            continue
        t, h, w = next(queue[kind])
        h, w = h // merge, w // merge
        base, top = nxt, nxt
        for j in range(t * h * w):
            if i >= len(types) or types[i] != kind:
                break
            out[:, i] = base + j // (h * w), base + j // w % h, base + j % w
            top, i = max(top, int(out[:, i].max())), i + 1
        nxt = top + 1
    return out


def qwen25_rounded(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    types, mask = torch.as_tensor(np.asarray(token_types)), torch.as_tensor(np.asarray(attention_mask)) == 1
    images, videos = _grids(image_grids), _grids(video_grids)
    seconds = [float(s) for s in np.ravel(seconds_per_grid)] if seconds_per_grid is not None else []
    seconds = seconds or [1.0] * len(videos)
    at = [0, 0]
    rows = torch.zeros(len(types), 3, types.shape[1], dtype=torch.int64)
    for b in range(len(types)):
        parts, start = [], 0
        row = types[b][mask[b]].tolist()
        i = 0
        while i < len(row):
            if row[i] == 0:
                n = len(list(itertools.takewhile(lambda v: v == 0, row[i:])))
                part = torch.arange(n).expand(3, n) + start
            else:
                if row[i] == 1:
                    t, h, w = images[at[0]]
                    times = torch.arange(t)
                    at[0] += 1
                else:
                    t, h, w = videos[at[1]]
                    times = torch.round(torch.arange(t) * (2.0 * seconds[at[1]])).long()
                    at[1] += 1
                h, w = h // 2, w // 2
                part = torch.stack([times.view(-1, 1, 1).expand(t, h, w).flatten(),
                                    torch.arange(h).view(1, -1, 1).expand(t, h, w).flatten(),
                                    torch.arange(w).view(1, 1, -1).expand(t, h, w).flatten()]) + start
                n = t * h * w
            parts.append(part)
            start, i = int(part.max()) + 1, i + n
        if parts:
            rows[b][:, mask[b]] = torch.cat(parts, 1)
    return _decode(rows.numpy(), mask.numpy(), n_steps)


def glm_delta_of_padded(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Every frame is an image; rope_deltas count the real tokens, steps the padded ones."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
    frames = [(1, h, w) for t, h, w in _grids(video_grids) for _ in range(t)]
    queue = {1: iter(_grids(image_grids)), 2: iter(frames)}
    b_, s = types.shape
    out = np.zeros((3, b_, s + n_steps), np.int64)
    for b in range(b_):
        ids = _count_row(types[b, mask[b]], queue)
        out[:, b, :s][:, mask[b]] = ids
        delta = ids.max(initial=-1) + 1 - ids.shape[1]
        out[:, b, s:] = s + delta + np.arange(n_steps)
    return out


def qwen3_frames_counted(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    types, mask = np.asarray(token_types), np.asarray(attention_mask) == 1
    images = list(reversed(_grids(image_grids)))
    frames = [(k, h, w) for t, h, w in _grids(video_grids) for k in range(t)][::-1]
    rows = []
    for row, real in zip(types, mask):
        ids, start = [], 0
        tokens = row[real].tolist()
        i = 0
        while i < len(tokens):
            if tokens[i] == 0:
                ids.append((start,) * 3)
                start, i = start + 1, i + 1
                continue
            if tokens[i] == 1:
                t, h, w = images.pop()
                times = range(t)
            else:
                k, h, w = frames.pop()
                times = [k]                                    # the number of the frame
            block = [(start + t, start + y, start + x) for t in times for y in range(h // 2) for x in range(w // 2)]
            ids += block
            start, i = max(map(max, block)) + 1, i + len(block)
        full = np.zeros((3, len(row)), np.int64)
        full[:, real] = np.array(ids, np.int64).reshape(-1, 3).T
        last = max(map(max, ids)) if ids else 0
        rows.append(np.concatenate([full, np.tile(last + np.arange(n_steps), (3, 1))], 1))
    return np.stack(rows, 1)


def ernie_one_pass(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Two frames are one; closed formulas with divmod (right)."""
    types = [list(map(int, r)) for r in token_types]
    mask = [list(map(int, r)) for r in attention_mask]
    images = ((t, h // 2, w // 2) for t, h, w in _grids(image_grids))
    videos = ((t // 2, h // 2, w // 2) for t, h, w in _grids(video_grids))
    width = len(types[0])
    out = np.zeros((3, len(types), width + n_steps), np.int64)
    for b, (row, real) in enumerate(zip(types, mask)):
        start, left, j, grid = 0, 0, 0, None
        for s in range(width):
            if not real[s]:
                continue
            if row[s] == 0:
                out[:, b, s] = start
                start += 1
                continue
            if left == 0:
                grid = next(images if row[s] == 1 else videos)
                left, j = grid[0] * grid[1] * grid[2], 0
            frame, rest = divmod(j, grid[1] * grid[2])
            out[:, b, s] = start + frame, start + rest // grid[2], start + rest % grid[2]
            left, j = left - 1, j + 1
            if left == 0:
                start += max(grid)
        out[:, b, width:] = start + np.arange(n_steps)
    return out


# ------------------------------------------------------------------------- mrope_packed
def packed_seconds_restart(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Qwen2.5-VL; documents one after another."""
    images, videos = iter(_grids(image_grids)), iter(_grids(video_grids))
    count = len(_grids(video_grids))
    seconds = [float(s) for s in np.ravel(seconds_per_grid)] if seconds_per_grid is not None else []
    seconds = seconds or [1.0] * count
    types, out, at = np.asarray(token_types), [], 0
    for n in lengths:
        doc = types[at:at + int(n)]
        at += int(n)
        start, i, video = 0, 0, 0
        ids = np.zeros((3, len(doc)), np.int64)
        while i < len(doc):
            if doc[i] == 0:
                ids[:, i] = start
                start, i = start + 1, i + 1
                continue
            if doc[i] == 1:
                t, h, w = next(images)
                times = np.arange(t)
            else:
                t, h, w = next(videos)
                times = (np.arange(t, dtype=np.float32) * np.float32(2.0 * seconds[video])).astype(np.int64)
                video += 1
            h, w = h // 2, w // 2
            block = np.stack(np.broadcast_arrays(times[:, None, None], np.arange(h)[:, None], np.arange(w)))
            block = block.reshape(3, -1) + start
            ids[:, i:i + block.shape[1]] = block
            start, i = block.max() + 1, i + block.shape[1]
        out.append(ids)
    return np.concatenate(out, 1) if out else np.zeros((3, 0), np.int64)


def packed_runs_of_stream(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Runs of one type are found in the whole stream; a run that begins a document starts at 0."""
    types = np.asarray(token_types)
    starts = set(np.cumsum([0] + [int(n) for n in lengths]).tolist())
    queue = {1: iter(_grids(image_grids)), 2: iter(_grids(video_grids))}
    out, nxt, i = np.zeros((3, len(types)), np.int64), 0, 0
    while i < len(types):
        if i in starts:
            nxt = 0
        if types[i] == 0:
            n = 1
            while i + n < len(types) and types[i + n] == 0:
                n += 1
            out[:, i:i + n] = nxt + np.arange(n)
        else:
            t, h, w = next(queue[int(types[i])])
            h, w = h // 2, w // 2
            n = t * h * w
            out[:, i:i + n] = nxt + np.stack(np.unravel_index(np.arange(n), (t, h, w)))
        nxt, i = out[:, i:i + n].max() + 1, i + n
    return out


def packed_frames_recursive(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Qwen3-VL; documents by islice, frames by a generator (right)."""
    stream = iter(np.asarray(token_types).tolist())
    grids = {1: iter([(t, h // 2, w // 2) for t, h, w in _grids(image_grids)]),
             2: iter([(1, h // 2, w // 2) for t, h, w in _grids(video_grids) for _ in range(t)])}

    def number(tokens):
        start = 0
        while tokens:
            if tokens[0] == 0:
                yield (start, start, start)
                start, tokens = start + 1, tokens[1:]
                continue
            t, h, w = next(grids[tokens[0]])
            for place in itertools.product(range(t), range(h), range(w)):
                yield tuple(start + v for v in place)
            start, tokens = start + max(t, h, w), tokens[t * h * w:]

    found = [p for n in lengths for p in number(list(itertools.islice(stream, int(n))))]
    return np.array(found, np.int64).reshape(-1, 3).T
