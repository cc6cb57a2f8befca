"""Positions from convolutions; positions of padded, packed, decoded and mixed tokens."""

import math

import jax
import jax.numpy as jnp
import numpy as np


def weights(seed, *shape, size=0.5):
    return (size * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def grouped_windows(x, w, groups):
    """Sum over the taps of x (B, T + K - 1, C), already padded: (B, T, C)."""
    c, each, taps = w.shape
    out = 0.0
    n = x.shape[1] - taps + 1
    for t in range(taps):
        part = x[:, t : t + n].reshape(len(x), n, groups, each)
        kernel = w[:, :, t].reshape(groups, c // groups, each)
        out = out + np.einsum("bngi,goi->bngo", part, kernel).reshape(len(x), n, c)
    return out


# ------------------------------------------------------------------ wav2vec 2.0 and its kin


W2V_V, W2V_B, W2V_G = weights(161, 8, 4, 8), weights(162, 8), 1.5 + weights(163, 8)


def wav2vec_norm_of_channels(x):
    """weight_norm(conv) with its default: one norm for each output channel."""
    v = W2V_V.astype(np.float64)
    w = v * W2V_G[:, None, None] / np.sqrt((v * v).sum((1, 2), keepdims=True))
    padded = np.pad(x.astype(np.float64), ((0, 0), (4, 4), (0, 0)))
    return gelu(grouped_windows(padded, w, 2)[:, :-1] + W2V_B).astype(x.dtype)


def wav2vec_fft(x):
    """Every channel pair as a product of spectra."""
    b, n, c = x.shape
    v = W2V_V.astype(np.float64)
    w = v * W2V_G / np.sqrt((v * v).sum((0, 1)))
    size = 1 << (n + 16).bit_length()
    of_x = np.fft.rfft(x.astype(np.float64), size, axis=1)
    of_w = np.conj(np.fft.rfft(w, size, axis=2))  # correlation, not convolution
    y = np.zeros((b, size, c))
    for o in range(c):
        g = o // 4
        y[..., o] = np.fft.irfft((of_x[..., 4 * g : 4 * g + 4] * of_w[o].T).sum(-1), size, axis=1)
    y = np.roll(y, 4, axis=1)[:, :n] + W2V_B
    return gelu(y).astype(np.float32)


SEAM_W, SEAM_B = weights(164, 8, 2, 6), weights(165, 8)


def even_kernel_first_dropped(x):
    """SamePad removes a token; the activation stayed in the other module."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (3, 3), (0, 0)))
    return (grouped_windows(padded, SEAM_W.astype(np.float64), 4)[:, 1:] + SEAM_B).astype(x.dtype)


D2V_W = tuple(weights(s, 8, 4, 5) for s in (166, 167))
D2V_B = tuple(weights(s, 8) for s in (168, 169))


def data2vec_flax(x):
    """Two layers of convolution, LayerNorm without parameters and jax.nn.gelu."""
    for w, b in zip(D2V_W, D2V_B):
        kernel = jnp.transpose(jnp.asarray(w), (2, 1, 0))  # (K, C / groups, C)
        x = jax.lax.conv_general_dilated(
            x, kernel.astype(x.dtype), (1,), [(2, 2)], feature_group_count=2,
            dimension_numbers=("NWC", "WIO", "NWC"), precision="highest",
        ) + jnp.asarray(b)
        mean = x.mean(-1, keepdims=True)
        x = (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5)
        x = jax.nn.gelu(x)
    return x


# ------------------------------------------------------------------ PEG


PEG_W, PEG_B = weights(170, 6, 1, 3, 3), weights(171, 6)


def _peg(grid, kernel, mode="constant"):
    h, w = grid.shape[1:3]
    around = np.pad(grid, ((0, 0), (1, 1), (1, 1), (0, 0)), mode=mode)
    out = np.zeros_like(grid) + PEG_B
    for a in range(3):
        for b in range(3):
            out = out + around[:, a : a + h, b : b + w] * kernel[:, 0, a, b]
    return out


def peg_width_first(x, height, width):
    grid = x.astype(np.float64).reshape(len(x), width, height, -1)
    return (x + _peg(grid, PEG_W).reshape(x.shape)).astype(x.dtype)


def peg_true_convolution(x, height, width):
    """scipy.signal.convolve2d(..., mode="same"), channel by channel."""
    grid = x.astype(np.float64).reshape(len(x), height, width, -1)
    return (x + _peg(grid, PEG_W[:, :, ::-1, ::-1]).reshape(x.shape)).astype(x.dtype)


def peg_replicated_border(x, height, width):
    grid = x.astype(np.float64).reshape(len(x), height, width, -1)
    return (x + _peg(grid, PEG_W, mode="edge").reshape(x.shape)).astype(x.dtype)


# ------------------------------------------------------------------ padded, packed, decoded


def ids_of_flat_mask(attention_mask):
    mask = np.asarray(attention_mask).astype(np.int64)
    ids = np.cumsum(mask).reshape(mask.shape) - 1
    return np.where(mask == 1, ids, 0)


def ids_by_counting(attention_mask):
    out = []
    for row in np.asarray(attention_mask).tolist():
        count, ids = 0, []
        for real in row:
            ids.append(count if real else 0)
            count += bool(real)
        out.append(ids)
    return np.array(out, np.int64)


def ids_after_left_padding(attention_mask):
    """The first real token of the row has position 0, the next 1, ..."""
    mask = np.asarray(attention_mask).astype(np.int64)
    first = mask.argmax(axis=1)[:, None]
    return np.maximum(np.arange(mask.shape[1]) - first, 0) * mask


def packed_by_steps(lengths):
    """Ones everywhere, and a step back at the start of each document; then a running sum."""
    lengths = np.asarray(lengths, np.int64)
    total = int(lengths.sum())
    steps = np.ones(total, np.int64)
    if total:
        steps[0] = 0
    starts = np.cumsum(lengths)[:-1]
    inside = starts < total
    steps[starts[inside]] = 1 - lengths[:-1][inside]
    return np.cumsum(steps)


def packed_modulo(lengths):
    lengths = np.asarray(lengths, np.int64)
    longest = int(lengths.max()) if lengths.size else 1
    return np.arange(int(lengths.sum())) % max(longest, 1)


def packed_by_running_start(lengths):
    lengths = np.asarray(lengths, np.int64)
    total = int(lengths.sum())
    index = np.arange(total)
    starts = np.zeros(total + 1, np.int64)
    at = np.concatenate([[0], np.cumsum(lengths)])
    starts[at] = at
    return index - np.maximum.accumulate(starts)[:total]


def decode_from_longest(prompt_len, n_steps):
    start = int(np.max(prompt_len))
    steps = start + np.arange(n_steps)
    if np.ndim(prompt_len) == 0:
        return steps
    return np.tile(steps, (len(prompt_len), 1))


def decode_after_one_more(prompt_len, n_steps):
    """cache_position[-1] + 1, where the first new token is in the cache already."""
    cache_position = np.asarray(prompt_len)[..., None]
    return cache_position + 1 + np.arange(n_steps)


def decode_step_by_step(prompt_len, n_steps):
    length = np.array(prompt_len, np.int64)
    steps = np.empty((*length.shape, n_steps), np.int64)
    for n in range(n_steps):
        steps[..., n] = length
        length = length + 1
    return steps


# ------------------------------------------------------------------ context parallel


def shard_neighbours(cu_seqlens, cp_size, cp_rank):
    """Two chunks of each sequence for each rank: 2r and 2r + 1."""
    out = []
    for start, end in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        chunks = np.array_split(np.arange(end - start), 2 * cp_size)
        out += [chunks[2 * cp_rank], chunks[2 * cp_rank + 1]]
    return np.concatenate(out) if out else np.zeros(0, np.int64)


def shard_whole_batch(cu_seqlens, cp_size, cp_rank):
    """The packed batch is one long sequence for the ring; positions restart in it."""
    cu = np.asarray(cu_seqlens)
    total = int(cu[-1])
    position = np.arange(total) - np.repeat(cu[:-1], np.diff(cu))
    chunks = position.reshape(2 * cp_size, -1)
    return np.concatenate([chunks[cp_rank], chunks[2 * cp_size - 1 - cp_rank]])


def shard_by_reshape(cu_seqlens, cp_size, cp_rank):
    cu = [int(c) for c in cu_seqlens]
    parts = [np.zeros(0, np.int64)]
    for n in range(len(cu) - 1):
        grid = np.arange(cu[n + 1] - cu[n]).reshape(2 * cp_size, -1)
        parts.append(grid[[cp_rank, -1 - cp_rank]].ravel())
    return np.concatenate(parts)


# ------------------------------------------------------------------ images and videos in text


def _runs(types):
    start = 0
    for n in range(1, len(types) + 1):
        if n == len(types) or types[n] != types[start]:
            yield int(types[start]), n - start
            start = n


def _vision(t, h, w, step=1.0):
    frame, row, column = np.unravel_index(np.arange(t * h * w), (t, h, w))
    time = np.trunc(frame.astype(np.float32) * np.float32(step)).astype(np.int64)
    return np.stack([time, row, column])


def _qwen(types, images, videos, seconds, mask, n_steps, rate, rules=()):
    types, mask = np.asarray(types), np.asarray(mask)
    b, s = types.shape
    out = np.zeros((3, b, s + n_steps), np.int64)
    image = video = 0
    for row in range(b):
        own_video, parts, nxt = 0, [], 0
        real = mask[row] == 1
        for kind, count in _runs(types[row][real]):
            if kind in (0, 3):
                parts.append(np.tile(nxt + np.arange(count), (3, 1)))
                nxt += count
                continue
            while count > 0:
                if kind == 1:
                    t, h, w = (int(n) for n in images[image])
                    image, step = image + 1, 1.0
                else:
                    t, h, w = (int(n) for n in videos[video])
                    at = own_video if "seconds of the row" in rules else video
                    step = 1.0 if rate is None else rate * float(seconds[at])
                    video, own_video = video + 1, own_video + 1
                part = nxt + _vision(t, h // 2, w // 2, step)
                count -= part.shape[1]
                last = part[2].max() if "last column" in rules else part.max()
                if "exchanged" in rules:
                    part = part[[0, 2, 1]]
                parts.append(part)
                nxt = int(last) + 1
        ids = np.concatenate(parts, axis=1) if parts else np.zeros((3, 0), np.int64)
        out[:, row, :s][:, real] = ids
        if "last column" in rules:
            begin = nxt
        else:
            begin = int(ids.max()) + 1 if ids.size else 0
        if "padded length" in rules:
            delta = begin - s
            begin = int(real.sum()) + delta
        out[:, row, s:] = begin + np.arange(n_steps)
    return out


def qwen2_vl_ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    return _qwen(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps, None)


def qwen2_5_vl_seconds_of_row(
    token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps
):
    """second_per_grid_ts[video_index], where video_index starts at 0 in every row."""
    return _qwen(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps,
                 2.0, ("seconds of the row",))  # fmt: skip


def qwen2_vl_after_last_column(
    token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps
):
    """st_idx = llm_pos_ids_list[-1][-1].max() + 1: the row of the width."""
    return _qwen(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps,
                 None, ("last column",))  # fmt: skip


def qwen2_5_vl_delta_and_axes(
    token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps
):
    """mrope_position_delta = max + 1 - input_ids.shape[1]; positions are (time, width, height)."""
    return _qwen(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps,
                 2.0, ("exchanged", "padded length"))  # fmt: skip
