from itertools import accumulate, chain

import numpy as np
import torch


def _grid(t, h, w):
    return np.stack([g.reshape(-1) for g in np.meshgrid(np.arange(t), np.arange(h), np.arange(w), indexing="ij")])


def rope_index(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    types, mask = np.asarray(token_types), np.asarray(attention_mask)
    images, videos = iter(np.asarray(image_grids).tolist()), iter(np.asarray(video_grids).tolist())
    B, S = types.shape
    out = np.zeros((3, B, S + n_steps), np.int64)
    for b in range(B):
        where = np.flatnonzero(mask[b])
        row = types[b, where]
        cols, n, c = [np.zeros((3, 0), np.int64)], 0, 0
        while n < len(row):
            if row[n] in (1, 2):
                t, h, w = next(images if row[n] == 1 else videos)
                g = _grid(t, h // 2, w // 2) + c
                cols.append(g)
                n += g.shape[1]
                c = g.max() + 1
            else:
                cols.append(np.full((3, 1), c))
                c, n = c + 1, n + 1
        out[:, b, where] = np.concatenate(cols, 1)
        out[:, b, S:] = c + np.arange(n_steps)
    return out


def get_rope_index(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    types, mask = np.asarray(token_types), np.asarray(attention_mask)
    B, S = types.shape
    out = np.ones((3, B, S + n_steps), np.int64)
    for b in range(B):
        image_index = video_index = 0
        keep = mask[b] == 1
        row = types[b][keep]
        llm_pos, start = [], 0
        while start < len(row):
            kind = row[start]
            base = llm_pos[-1].max() + 1 if llm_pos else 0
            if kind == 0:
                end = start
                while end < len(row) and row[end] == 0:
                    end += 1
                llm_pos.append(np.tile(np.arange(end - start), (3, 1)) + base)
                start = end
                continue
            if kind == 1:
                t, h, w = (int(v) for v in image_grids[image_index])
                image_index += 1
            else:
                t, h, w = (int(v) for v in video_grids[video_index])
                video_index += 1
            llm_pos.append(_grid(t, h // 2, w // 2) + base)
            start += t * (h // 2) * (w // 2)
        pos = np.concatenate(llm_pos, 1)
        out[:, b, :S][:, keep] = pos
        out[:, b, S:] = pos.max() + 1 + np.arange(n_steps)
    return out


def qwen_positions(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    types, mask = torch.as_tensor(token_types), torch.as_tensor(attention_mask).bool()
    media = {1: [list(map(int, g)) for g in image_grids], 2: [list(map(int, g)) for g in video_grids]}
    B, S = types.shape
    ids = torch.zeros(3, B, S + n_steps, dtype=torch.long)
    for b in range(B):
        row, pos, c, n = types[b, mask[b]].tolist(), [], 0, 0
        while n < len(row):
            if row[n]:
                t, h, w = media[row[n]].pop(0)
                h, w = h // 2, w // 2
                pos += [(c + i, c + j, c + k) for i in range(t) for j in range(h) for k in range(w)]
                n += t * h * w
                c += max(t, h, w)
            else:
                pos.append((c, c, c))
                n, c = n + 1, c + 1
        ids[:, b, :S][:, mask[b]] = torch.tensor(pos).T
        ids[:, b, S:] = mask[b].sum() + torch.arange(n_steps)
    return ids


def video_time_ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    tps = 2
    types, mask = np.asarray(token_types), np.asarray(attention_mask)
    images = [tuple(map(int, g)) for g in image_grids]
    videos = [tuple(map(int, g)) for g in video_grids]
    seconds = list(seconds_per_grid) if seconds_per_grid is not None else [1.0] * len(videos)
    B, S = types.shape
    out = np.zeros((3, B, S + n_steps), np.int64)
    for b in range(B):
        live = np.flatnonzero(mask[b])
        n, c, blocks = 0, 0, []
        while n < live.size:
            kind = types[b, live[n]]
            if kind == 0:
                blocks.append(np.full((3, 1), c))
                c, n = c + 1, n + 1
                continue
            t, h, w = images.pop(0) if kind == 1 else videos.pop(0)
            g = _grid(t, h // 2, w // 2)
            if kind == 2:
                step = int(np.float32(seconds.pop(0)) * tps)
                g[0] = g[0] * step
            blocks.append(g + c)
            c += g.max() + 1
            n += g.shape[1]
        out[:, b, live] = np.concatenate(blocks, 1)
        out[:, b, S:] = c + np.arange(n_steps)
    return out


def mm_position_ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
    grids = {1: [list(map(int, g)) for g in image_grids], 2: [list(map(int, g)) for g in video_grids]}
    B, S = types.shape
    out = np.zeros((3, B, S + n_steps), np.int64)
    for b in range(B):
        row, c, n, cols = types[b][mask[b]], 0, 0, []
        while n < len(row):
            if row[n] == 0:
                cols.append([c] * 3)
                c, n = c + 1, n + 1
                continue
            t, h, w = grids[int(row[n])].pop(0)
            h, w = h // 2, w // 2
            for k in range(t * h * w):
                cols.append([c + k // (h * w), c + k % h, c + k % (h * w) // h])
            n += t * h * w
            c += t * max(h, w)
        out[:, b, :S][:, mask[b]] = np.array(cols).T
        out[:, b, S:] = c + np.arange(n_steps)
    return out


def hunyuan_ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
    grids = iter([tuple(map(int, g)) for g in image_grids])
    B, S = types.shape
    out = np.zeros((4, B, S + n_steps), np.int64)
    for b in range(B):
        row = types[b][mask[b]]
        pos = np.tile(np.arange(len(row)), (4, 1))
        n = image = 0
        while n < len(row):
            if row[n] == 0:
                n += 1
                continue
            _, h, w = next(grids)
            h, w = h // 2, w // 2
            k = np.arange(h * (w + 1))
            pos[1, n : n + k.size] = k // (w + 1)
            pos[2, n : n + k.size] = k % (w + 1)
            pos[3, n : n + k.size] = image
            image += 1
            n += k.size
        out[:, b, :S][:, mask[b]] = pos
        out[:, b, S:] = len(row) + np.arange(n_steps)
    return out


def packed_mrope(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    types = np.asarray(token_types)
    grids = {1: list(image_grids), 2: list(video_grids)}
    starts = set(accumulate(int(v) for v in lengths))
    cols, c, n = [], 0, 0
    while n < types.size:
        if n in starts:
            c = 0
        if types[n] == 0:
            cols.append(np.full((3, 1), c))
            c, n = c + 1, n + 1
            continue
        t, h, w = (int(v) for v in grids[int(types[n])].pop(0))
        g = _grid(t, h // 2, w // 2)
        cols.append(g + c)
        c += max(h // 2, w // 2)
        n += g.shape[1]
    return np.concatenate(cols, 1)


def packed_positions(lengths):
    lengths = np.asarray(lengths, int)
    step = np.ones(lengths.sum(), int)
    step[0] = 0
    starts = np.cumsum(lengths)[:-1]
    step[starts] = 1 - starts
    return np.cumsum(step)


def varlen_positions(lengths):
    cu = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    t = np.arange(cu[-1])
    return t - cu[np.searchsorted(cu, t, side="right") - 1]


def rank_positions(cu_seqlens, cp_size, cp_rank):
    out = []
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        chunk = int(b - a) // (2 * cp_size)
        first = cp_rank * chunk
        last = (2 * cp_size - cp_rank) * chunk
        out.append(np.r_[first : first + chunk, last : last + chunk])
    return np.concatenate(out)


def mask_positions(attention_mask):
    m = np.asarray(attention_mask)
    first = m.argmax(-1)
    return np.clip(np.arange(m.shape[-1])[None] - first[:1, None], 0, None) * np.ones_like(m)


def roberta_ids(input_ids):
    ids = torch.as_tensor(input_ids)
    mask = ids.ne(1).int()
    return (torch.cumsum(mask, dim=1) + 1).long()


def relative_positions_index(attention_mask):
    return np.array([[max(sum(r[: s + 1]) - 1, 0) for s in range(len(r))] for r in np.asarray(attention_mask).tolist()])
