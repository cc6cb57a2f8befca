"""Position ids of multimodal prompts, in the manner of get_rope_index."""
import numpy as np


def _rows(token_types, images, videos, mask, merge=2, time=lambda k, i: k, swap=False, follow=None):
    """-> positions (3, B, S) and the next position of each row."""
    types = np.asarray(token_types)
    m = np.ones(types.shape, int) if mask is None else np.asarray(mask).astype(int)
    grids = {1: [tuple(int(v) for v in g) for g in images], 2: [tuple(int(v) for v in g) for g in videos]}
    used = {1: 0, 2: 0}
    pos = np.zeros((3, *types.shape), np.int64)
    nxt = np.zeros(types.shape[0], np.int64)
    for b in range(types.shape[0]):
        live = np.flatnonzero(m[b])
        row = types[b, live]
        i, c, top, cols = 0, 0, -1, []
        while i < len(row):
            kind = int(row[i])
            if kind not in (1, 2):
                cols.append((c, c, c))
                top = max(top, c)
                c += 1
                i += 1
                continue
            which = used[kind]
            t, h, w = grids[kind][which]
            used[kind] += 1
            h, w = h // merge, w // merge
            for k in range(t):
                tt = time(k, which) if kind == 2 else k
                for y in range(h):
                    for z in range(w):
                        cols.append((c + tt, c + z, c + y) if swap else (c + tt, c + y, c + z))
            new = cols[-t * h * w:]
            top = max(top, max(map(max, new)))
            i += t * h * w
            c = top + 1 if follow is None else follow(c, t, h, w, top)
        if len(row):
            pos[:, b, live] = np.array(cols).T
        nxt[b] = top + 1
    return pos, nxt


def _extend(pos, start, n_steps):
    n = int(n_steps)
    tail = np.asarray(start)[:, None] + np.arange(n)
    return np.concatenate([pos, np.broadcast_to(tail, (3, *tail.shape))], 2)


def qwen2_vl(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    pos, nxt = _rows(token_types, image_grids, video_grids, attention_mask)
    return _extend(pos, nxt, n_steps)


def after_unmerged(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Text after an image starts at its start + max(height, width) in patches."""
    pos, nxt = _rows(token_types, image_grids, video_grids, attention_mask,
                     follow=lambda c, t, h, w, top: max(c + 2 * max(h, w), top + 1))
    return _extend(pos, nxt, n_steps)


def deltas_of_batch(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Generated tokens of every row follow the largest position of the batch."""
    pos, nxt = _rows(token_types, image_grids, video_grids, attention_mask)
    return _extend(pos, np.full_like(nxt, nxt.max(initial=0)), n_steps)


def time_rounded(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Qwen2.5-VL: times are rounded to the nearest integer, not truncated."""
    sec = [1.0] * len(video_grids) if seconds_per_grid is None else [float(v) for v in np.ravel(seconds_per_grid)]
    pos, nxt = _rows(token_types, image_grids, video_grids, attention_mask,
                     time=lambda k, i: int(np.rint(np.float32(k) * np.float32(2.0 * sec[i]))))
    return _extend(pos, nxt, n_steps)


def _documents(lengths):
    at = 0
    for n in lengths:
        yield at, at + int(n)
        at += int(n)


def _used(types, images, videos):
    """How many grids the tokens of one document take."""
    n = {1: 0, 2: 0}
    g = {1: images, 2: videos}
    i = 0
    while i < len(types):
        k = int(types[i])
        if k in (1, 2):
            t, h, w = (int(v) for v in g[k][n[k]])
            n[k] += 1
            i += t * (h // 2) * (w // 2)
        else:
            i += 1
    return n


def packed_mrope(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    types, out, a, v = np.asarray(token_types), [np.zeros((3, 0), np.int64)], 0, 0
    for s, e in _documents(lengths):
        n = _used(types[s:e], image_grids[a:], video_grids[v:])
        pos, _ = _rows(types[None, s:e], image_grids[a:], video_grids[v:], None)
        a, v = a + n[1], v + n[2]
        out.append(pos[:, 0])
    return np.concatenate(out, 1)


def packed_running_on(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Boundaries are ignored on height and width: only the time axis starts again."""
    types = np.asarray(token_types)
    pos, _ = _rows(types[None], image_grids, video_grids, None)
    pos = pos[:, 0].copy()
    for s, e in _documents(lengths):
        if e > s:
            pos[0, s:e] -= pos[0, s]
    return pos
