"""Channel permutations and position ids by plain counting."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from posenc_ref.conformance.exact.numbers import Real, identical

Inputs = Mapping[str, Any]


def _home(layout: str, d: int, pair: int, which: int) -> int:
    """The channel in which a layout keeps the first or second number of a pair."""
    return 2 * pair + which if layout == "interleaved" else pair + which * (d // 2)


def convert_layout(i: Inputs) -> Real:
    """Each number of each pair carried from its channel in one layout to that in the other."""
    x = i["x"]
    y = x.copy()
    for pair in range(i["rotary_dim"] // 2):
        for which in (0, 1):
            source, target = (
                _home(i[n], i["rotary_dim"], pair, which) for n in ("source", "target")
            )
            y[..., target] = x[..., source]
    return identical(y)


def permute_weights(i: Inputs) -> Real:
    """The same for the rows of a projection, head by head, half-split to interleaved."""
    w, n = i["w"], i["n_heads"]
    d = w.shape[0] // n
    made = w.copy()
    for head in range(n):
        for pair in range(d // 2):
            for which in (0, 1):
                source = head * d + _home("half", d, pair, which)
                made[head * d + _home("interleaved", d, pair, which)] = w[source]
    return identical(made)


def position_ids(i: Inputs) -> np.ndarray:
    """Real tokens numbered from 0 in every row; padding 0."""
    made = []
    for row in i["attention_mask"].tolist():
        count, ids = 0, []
        for real in row:
            ids.append(count if real else 0)
            count += real
        made.append(ids)
    return np.array(made)


def packed(i: Inputs) -> np.ndarray:
    """0, 1, 2, ... for every document."""
    return np.array([p for n in i["lengths"].tolist() for p in range(n)])


def decode_positions(i: Inputs) -> np.ndarray:
    """The position after the last real token of each prompt, and on."""
    each = np.asarray(i["prompt_len"])
    made = [[n + t for t in range(i["n_steps"])] for n in each.ravel().tolist()]
    return np.array(made).reshape(*each.shape, -1)


def shard_positions(i: Inputs) -> np.ndarray:
    """Chunk r and chunk 2n - 1 - r of every sequence, with the positions they have in it."""
    size, rank = i["cp_size"], i["cp_rank"]
    bounds = i["cu_seqlens"].tolist()
    made: list[int] = []
    for start, stop in pairwise(bounds):
        chunk = (stop - start) // (2 * size)
        for which in (rank, 2 * size - 1 - rank):
            made += range(which * chunk, (which + 1) * chunk)
    return np.array(made)


def mrope_positions(i: Inputs) -> np.ndarray:
    """Token by token: text advances all axes, a picture spreads over its merged grid."""
    waiting = {1: i["image_grids"].tolist(), 2: i["video_grids"].tolist()}
    made = []
    for row in i["token_types"].tolist():
        ids: list[tuple[int, int, int]] = []
        start, at = 0, 0
        while at < len(row):
            if row[at] == 0:
                ids.append((start, start, start))
                start, at = start + 1, at + 1
                continue
            frames, height, width = waiting[row[at]].pop(0)
            grid = [
                (start + t, start + h, start + w)
                for t in range(frames)
                for h in range(height // 2)
                for w in range(width // 2)
            ]
            ids += grid
            start, at = max(max(p) for p in grid) + 1, at + len(grid)
        made.append(ids)
    return np.moveaxis(np.array(made), -1, 0)


def grid_positions(i: Inputs) -> np.ndarray:
    """Patches in row-major order, sorted by the block they are in (a stable sort)."""
    m = i["merge_size"]
    patches = [(r, c) for r in range(i["height"]) for c in range(i["width"])]
    return np.array(sorted(patches, key=lambda p: (p[0] // m, p[1] // m))).T
