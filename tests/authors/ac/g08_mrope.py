"""Position ids of text, images and videos (M-RoPE): Qwen2-VL, Qwen2.5-VL, Qwen3-VL."""
import numpy as np


def _grids(g):
    g = np.asarray(g)
    return [] if g.size == 0 else [tuple(int(n) for n in row) for row in g.reshape(-1, 3)]


def _row(types, images, videos, seconds, *, rate=None, split=False, after="max", swap=False,
         rounding=np.trunc, restart_time=False, one_rate=False, columns=False):
    """Positions (3, n) of the real tokens of one row; takes grids from the front of the lists."""
    out = np.zeros((3, len(types)), np.int64)
    at, c = 0, 0
    frames = []
    while at < len(types):
        kind = int(types[at])
        if kind in (0, 3):
            out[:, at] = c
            c, at = c + 1, at + 1
            continue
        if kind == 1:
            (t, h, w), step = images.pop(0), np.float32(1)
        elif split:
            if not frames:
                t, h, w = videos.pop(0)
                frames += [(1, h, w)] * t
            (t, h, w), step = frames.pop(0), np.float32(1)
        else:
            t, h, w = videos.pop(0)
            step = np.float32(1 if rate is None else rate * (seconds[0] if one_rate else seconds.pop(0)))
        h, w = h // 2, w // 2
        n = t * h * w
        idx = np.arange(n)
        tt, yy, xx = idx // (h * w), idx // w % h, idx % w
        if columns:
            yy, xx = idx % h, idx // h % w
        if swap:
            yy, xx = xx, yy
        if restart_time:
            tt = np.zeros_like(tt)
        tt = rounding(tt.astype(np.float32) * step).astype(np.int64)
        out[:, at : at + n] = c + np.stack([tt, yy, xx])
        top = {"max": max(int(tt.max()), h - 1, w - 1), "time": int(tt.max()), "side": max(h, w) - 1,
               "count": n - 1}[after]
        c, at = c + top + 1, at + n
    return out


def _batch(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps, *,
           restart_grids=False, padding=False, decode="max", **settings):
    types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
    images, videos = _grids(image_grids), _grids(video_grids)
    seconds = [1.0] * len(videos) if seconds_per_grid is None else [float(s) for s in seconds_per_grid]
    b, s = types.shape
    out = np.zeros((3, b, s + n_steps), np.int64)
    for r in range(b):
        if restart_grids:
            images, videos = _grids(image_grids), _grids(video_grids)
            seconds = list(map(float, seconds_per_grid)) if seconds_per_grid is not None else seconds
        real = np.ones(s, bool) if padding else mask[r]
        got = _row(types[r][real], images, videos, seconds, **settings)
        out[:, r, :s][:, real] = got
        start = got.max(initial=-1) + 1
        if decode == "length":
            start = int(real.sum())
        elif decode == "last":
            start = int(got[0, -1]) + 1 if got.size else 0
        out[:, r, s:] = start + np.arange(n_steps)
    return out


# ---------------------------------------------------------------- right
def qwen2_vl_deltas(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """arange plus corrections: every image shifts what follows by (max side - tokens)."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
    grids = {1: iter(_grids(image_grids)), 2: iter(_grids(video_grids))}
    out = np.zeros((3, len(types), types.shape[1] + n_steps), np.int64)
    for r, (row, real) in enumerate(zip(types, mask)):
        row = row[real]
        pos = np.tile(np.arange(row.size), (3, 1))
        at, delta = 0, 0
        while at < row.size:
            if row[at] in (0, 3):
                pos[:, at] += delta
                at += 1
                continue
            t, h, w = next(grids[int(row[at])])
            h, w = h // 2, w // 2
            n = t * h * w
            pos[:, at : at + n] = at + delta + np.indices((t, h, w)).reshape(3, -1)
            at, delta = at + n, delta + max(t, h, w) - n
        out[:, r, : types.shape[1]][:, real] = pos
        out[:, r, types.shape[1] :] = row.size + delta + np.arange(n_steps)
    return out


def qwen3_vl_packed(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Every document on its own; videos are cut into frames first."""
    types = np.asarray(token_types)
    images = _grids(image_grids)
    frames = [(1, h, w) for t, h, w in _grids(video_grids) for _ in range(t)]
    parts = [np.zeros((3, 0), np.int64)]
    at = 0
    for n in np.asarray(lengths, np.int64):
        parts.append(_row(types[at : at + n], images, frames, [1.0] * len(frames)))
        at += n
    return np.concatenate(parts, axis=1)


# ---------------------------------------------------------------- wrong


def decode_from_length(tt, ig, vg, sg, mask, n_steps):
    """Generated tokens continue at the number of tokens: rope_deltas are not added."""
    return _batch(tt, ig, vg, sg, mask, n_steps, decode="length")


def padding_counted(tt, ig, vg, sg, mask, n_steps):
    return _batch(tt, ig, vg, sg, mask, n_steps, padding=True)


def long_video_side(tt, ig, vg, sg, mask, n_steps):
    """After a video the text starts at max(height, width), also if it has more frames."""
    return _batch(tt, ig, vg, sg, mask, n_steps, after="side")


def first_video_rate(tt, ig, vg, sg, mask, n_steps):
    """Qwen2.5-VL: the seconds of the first video are used for all."""
    return _batch(tt, ig, vg, sg, mask, n_steps, rate=2.0, one_rate=True)


def times_rounded(tt, ig, vg, sg, mask, n_steps):
    """Qwen2.5-VL: times are rounded to the nearest position, not truncated."""
    return _batch(tt, ig, vg, sg, mask, n_steps, rate=2.0, rounding=np.rint)


def frames_not_split(tt, ig, vg, sg, mask, n_steps):
    """Qwen3-VL: the tokens of frame t keep t as an offset in time."""
    types = np.asarray(tt)
    out = _batch(tt, ig, vg, sg, mask, n_steps, split=True)
    frames = [k for t, _, _ in _grids(vg) for k in range(t)]
    sizes = [h // 2 * (w // 2) for t, h, w in _grids(vg) for _ in range(t)]
    for r in range(types.shape[0]):
        held = np.flatnonzero((types[r] == 2) & (np.asarray(mask)[r] == 1))
        while held.size:
            n, k = sizes.pop(0), frames.pop(0)
            out[0, r, held[:n]] += k
            held = held[n:]
    return out


def _docs(tt, ig, vg, sg, lengths, *, restart=True, grids_restart=False):
    types = np.asarray(tt)
    images, videos = _grids(ig), _grids(vg)
    parts, at, last = [np.zeros((3, 0), np.int64)], 0, 0
    for n in np.asarray(lengths, np.int64):
        if grids_restart:
            images, videos = _grids(ig), _grids(vg)
        got = _row(types[at : at + n], images, videos, [1.0] * len(videos))
        parts.append(got if restart else got + last)
        last = parts[-1].max(initial=last - 1) + 1
        at += n
    return np.concatenate(parts, axis=1)


def packed_height_restart(tt, ig, vg, sg, lengths):
    """Only the time axis starts again at 0; height and width keep the offset."""
    whole = _docs(tt, ig, vg, sg, lengths, restart=False)
    whole[0] = _docs(tt, ig, vg, sg, lengths)[0]
    return whole
