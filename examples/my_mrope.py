"""M-RoPE position ids with a mistake: text after a video starts inside the video.

posenc check examples/my_mrope.py:ids --surface mrope_position_ids --encoding "MRoPEPositions()"
"""

import numpy as np


def ids(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    """Number tokens as transformers 5.23 does for Qwen2-VL."""
    grids = {1: iter(image_grids), 2: iter(video_grids)}
    rows, size = token_types.shape
    found = np.zeros((3, rows, size + n_steps), np.int64)
    for b in range(rows):
        real = np.flatnonzero(attention_mask[b])
        place, start = 0, 0
        while place < len(real):
            kind = token_types[b, real[place]]
            if kind == 0:
                part, extent = np.zeros((3, 1), np.int64), 1
            else:
                t, h, w = next(grids[kind]) // [1, 2, 2]
                part, extent = np.indices((t, h, w)).reshape(3, -1), max(h, w)
            found[:, b, real[place : place + part.shape[1]]] = start + part
            place, start = place + part.shape[1], start + extent
        largest = found[:, b, real].max()
        found[:, b, size:] = largest + 1 + np.arange(n_steps)
    return found
