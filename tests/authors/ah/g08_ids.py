"""Positions of tokens: padding, packing, decoding, shards, images and videos. And PoPE's scores."""
import numpy as np
import torch


# ---------------------------------------------------------------- position_ids
def ids_minus_padding(attention_mask):
    """Left padding: the index minus the number of padded tokens of the row."""
    mask = np.asarray(attention_mask).astype(np.int64)
    S = mask.shape[1]
    return np.maximum(np.arange(S) - (S - mask.sum(1, keepdims=True)), 0)


def ids_of_first_row(attention_mask):
    """position_ids is made once, from row 0, and expanded."""
    mask = np.asarray(attention_mask).astype(np.int64)
    first = np.cumsum(mask[:1], axis=1) - 1
    return np.where(mask == 1, np.broadcast_to(first, mask.shape), 0)


def ids_in_loops(attention_mask):
    out = []
    for row in np.asarray(attention_mask).tolist():
        n, ids = 0, []
        for m in row:
            ids.append(n if m else 1)   # transformers 4 fills padding with 1
            n += bool(m)
        out.append(ids)
    return np.array(out, dtype=np.int32).reshape(np.shape(attention_mask))


# ---------------------------------------------------------------- packed
def packed_resets(lengths):
    """One everywhere, minus the length of the previous document at each start; then a cumsum."""
    n = np.asarray(lengths, dtype=np.int64)
    total = int(n.sum())
    step = np.ones(total, np.int64)
    if total == 0:
        return step
    step[0] = 0
    starts = np.cumsum(n)[:-1]
    inside = starts < total
    step[starts[inside]] = 1 - n[:-1][inside]
    return np.cumsum(step)


def packed_from_boundaries(lengths):
    """Count down from the last boundary; a boundary is the end token of the document before."""
    out, last = [], 0
    for d, n in enumerate(int(v) for v in lengths):
        start = len(out) - (1 if d else 0)
        out.extend(i - start for i in range(len(out), len(out) + n))
    return np.array(out, dtype=np.int64)


# ---------------------------------------------------------------- decode_positions
def decode_from_padded(prompt_len, n_steps):
    """input_ids.shape[1] + step: the prompts were padded to the longest."""
    lengths = np.asarray(prompt_len)
    steps = np.arange(n_steps)
    if lengths.ndim == 0:
        return int(lengths) + steps
    longest = lengths.max(initial=0)
    return np.broadcast_to(longest + steps, (lengths.size, n_steps))


def decode_repeats_last(prompt_len, n_steps):
    """position_ids[:, -1] of the prompt for the first step, then + 1 in every step."""
    lengths = np.asarray(prompt_len, dtype=np.int64)
    return np.maximum(lengths - 1, 0)[..., None] + np.arange(n_steps)


# ---------------------------------------------------------------- shard_positions
def shard_of_pack(cu_seqlens, cp_size, cp_rank):
    """Two chunks of every sequence, numbered as in the packed batch."""
    cu = [int(v) for v in cu_seqlens]
    out = []
    for a, b in zip(cu[:-1], cu[1:]):
        n = (b - a) // (2 * cp_size)
        for chunk in (cp_rank, 2 * cp_size - 1 - cp_rank):
            out.extend(range(a + chunk * n, a + (chunk + 1) * n))
    return np.array(out, np.int64)


def shard_second_half(cu_seqlens, cp_size, cp_rank):
    """Head and tail chunks: the tail of rank r is chunk cp_size + r."""
    cu = np.asarray(cu_seqlens).astype(np.int64)
    out = [np.zeros(0, np.int64)]
    for length in np.diff(cu):
        grid = np.arange(length).reshape(2 * cp_size, -1) if length else np.zeros((2 * cp_size, 0), np.int64)
        out.append(grid[[cp_rank, cp_size + cp_rank]].ravel())
    return np.concatenate(out)


def shard_mirror(cu_seqlens, cp_size, cp_rank):
    """Number of its sequence by searchsorted, then a mask over all tokens of the pack."""
    cu = np.asarray(cu_seqlens).astype(np.int64)
    token = np.arange(cu[-1])
    seq = np.searchsorted(cu, token, side="right") - 1
    within = token - cu[seq]
    length = (cu[1:] - cu[:-1])[seq] if len(cu) > 1 else within
    chunk = within * (2 * cp_size) // np.maximum(length, 1)
    mine = np.minimum(chunk, 2 * cp_size - 1 - chunk) == cp_rank
    return within[mine]


# ---------------------------------------------------------------- M-RoPE ids
def _grid_ids(t, h, w, times):
    a = np.repeat(np.asarray(times)[:t], h * w)
    b = np.tile(np.repeat(np.arange(h), w), t)
    c = np.tile(np.arange(w), t * h)
    return np.stack([a, b, c])


def _row(types, images, videos, merge, rate=None, after="max"):
    """One row of real tokens; images and videos are iterators."""
    parts, c, i = [np.zeros((3, 0), np.int64)], 0, 0
    types = list(types)
    while i < len(types):
        if types[i] not in (1, 2):
            parts.append(np.full((3, 1), c, np.int64))
            c, i = c + 1, i + 1
            continue
        kind = types[i]
        if kind == 1:
            (t, h, w), sec = next(images), 1.0
        else:
            (t, h, w), sec = next(videos)
        h, w = h // merge, w // merge
        if kind == 2 and rate is not None:
            times = np.trunc(np.arange(t).astype(np.float32) * np.float32(rate * sec)).astype(np.int64)
        else:
            times = np.arange(t)
        ids = c + _grid_ids(t, h, w, times)
        parts.append(ids)
        c = int(ids.max()) + 1 if after == "max" else c + max(h, w)
        i += t * h * w
    return np.concatenate(parts, axis=1)


def _ints(grids):
    return [tuple(int(v) for v in g) for g in (() if grids is None else np.asarray(grids).reshape(-1, 3))]


def qwen2vl_extent(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """get_rope_index of a newer release: current_pos += max(grid_h, grid_w) // merge."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
    im, vi = iter(_ints(image_grids)), ((g, 1.0) for g in _ints(video_grids))
    out = np.zeros((3, len(types), types.shape[1] + n_steps), np.int64)
    for b, (row, real) in enumerate(zip(types, mask)):
        ids = _row(row[real], im, vi, 2, after="extent")
        out[:, b, : len(row)][:, real] = ids
        start = ids.max(initial=-1) + 1
        out[:, b, len(row):] = start + np.arange(n_steps)
    return out


def qwen25_first_delta(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """The ids of each row are right; rope_deltas[0] is used while generating."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
    grids = _ints(video_grids)
    secs = [float(s) for s in np.ravel(np.asarray(seconds_per_grid))] if seconds_per_grid is not None else []
    secs += [1.0] * (len(grids) - len(secs))
    im, vi = iter(_ints(image_grids)), iter(list(zip(grids, secs)))
    out = np.zeros((3, len(types), types.shape[1] + n_steps), np.int64)
    deltas = []
    for b, (row, real) in enumerate(zip(types, mask)):
        ids = _row(row[real], im, vi, 2, rate=2.0)
        out[:, b, : len(row)][:, real] = ids
        deltas.append(int(ids.max(initial=-1)) + 1 - int(real.sum()))
    for b, real in enumerate(mask):
        out[:, b, types.shape[1]:] = int(real.sum()) + deltas[0] + np.arange(n_steps)
    return out


def qwen3_frames(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Qwen3-VL: each frame is an image; text between. Written as one pass with a queue of boxes."""
    types, mask = np.asarray(token_types), np.asarray(attention_mask).astype(bool)
    B, S = types.shape
    boxes = {1: [(h // 2, w // 2) for _, h, w in _ints(image_grids)],
             2: [(h // 2, w // 2) for t, h, w in _ints(video_grids) for _ in range(t)]}
    out = np.zeros((3, B, S + n_steps), np.int64)
    for b in range(B):
        c, left = 0, None              # left: (h, w, number of the token) of the open box
        for s in np.flatnonzero(mask[b]):
            kind = int(types[b, s])
            if kind not in boxes:
                out[:, b, s] = c
                c += 1
                continue
            h, w, n = left or (*boxes[kind].pop(0), 0)
            out[:, b, s] = c, c + n // w, c + n % w
            left = (h, w, n + 1)
            if n + 1 == h * w:
                left, c = None, c + max(h, w)
        out[:, b, S:] = c + np.arange(n_steps)
    return out


def packed_continues(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """Documents are only a matter of the attention mask."""
    im, vi = iter(_ints(image_grids)), ((g, 1.0) for g in _ints(video_grids))
    return _row(np.asarray(token_types).tolist(), im, vi, 2)


def packed_grids_again(token_types, image_grids, video_grids, seconds_per_grid, lengths):
    """get_rope_index for each document, with the grids of the whole pack."""
    types, at, parts = np.asarray(token_types), 0, [np.zeros((3, 0), np.int64)]
    for n in (int(v) for v in lengths):
        doc, c, i, used = types[at:at + n].tolist(), 0, 0, {1: 0, 2: 0}
        ids = np.zeros((3, n), np.int64)
        at += n
        while i < n:
            if doc[i] not in (1, 2):
                ids[:, i] = c
                c, i = c + 1, i + 1
                continue
            kind = doc[i]
            grids = _ints(image_grids if kind == 1 else video_grids)
            t, h, w = grids[min(used[kind], len(grids) - 1)]
            run = next((j for j in range(i, n) if doc[j] != kind), n) - i
            used[kind] += 1
            box = _grid_ids(t, h // 2, w // 2, np.arange(t))
            m = min(box.shape[1], run)
            ids[:, i:i + m] = c + box[:, :m]
            c, i = int(ids[:, i:i + m].max()) + 1, i + m
        parts.append(ids)
    return np.concatenate(parts, axis=1)


# ---------------------------------------------------------------- PoPE
_PHASES = np.round(-2.0 * np.random.default_rng(77).random((3, 16)), 4)


def _softplus(x):
    return np.logaddexp(0.0, x)


def pope_rope_frequencies(q, k):
    """Polar vectors, with the angles that the rotary module already has: d/2 of them, twice."""
    d, Q, K = q.shape[-1], q.shape[-2], k.shape[-2]
    half = 10000.0 ** (-np.arange(0, d, 2) / d)
    f = np.concatenate([half, half])
    qa = (K - Q + np.arange(Q))[:, None] * f
    ka = np.arange(K)[:, None] * f + _PHASES[:, None, :]
    mq, mk = _softplus(q.astype(np.float64)), _softplus(k.astype(np.float64))
    qv = np.concatenate([mq * np.cos(qa), mq * np.sin(qa)], -1)
    kv = np.concatenate([mk * np.cos(ka), mk * np.sin(ka)], -1)
    return (qv @ kv.swapaxes(-1, -2) / np.sqrt(d)).astype(q.dtype)


def pope_torch(q, k):
    """One complex product; the scale belongs to d and not to the 2 d real numbers."""
    d, Q, K = q.shape[-1], q.shape[-2], k.shape[-2]
    f = torch.exp(torch.arange(d, dtype=torch.float64) * (-np.log(10000.0) / d))
    phases = torch.from_numpy(_PHASES)
    zq = torch.polar(torch.nn.functional.softplus(q.double()), -torch.outer(torch.arange(K - Q, K).double(), f).expand(q.shape))
    zk = torch.polar(torch.nn.functional.softplus(k.double()),
                     (torch.outer(torch.arange(K).double(), f) + phases[:, None, :]).expand(k.shape))
    return ((zq @ zk.transpose(-1, -2)).real / d ** 0.5).to(q.dtype)
