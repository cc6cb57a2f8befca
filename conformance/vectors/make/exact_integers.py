"""Permutations of channels, and position ids, computed in plain loops."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np


def _home(layout: str, d: int, pair: int, which: int) -> int:
    """Return the channel that holds the first or second number of a pair in a layout."""
    return 2 * pair + which if layout == "interleaved" else pair + which * (d // 2)


def convert_layout(x: np.ndarray, source: str, target: str, rotary_dim: int) -> np.ndarray:
    """Return x with the numbers of each pair moved from one layout's channels to another's."""
    y = x.copy()
    for pair, which in np.ndindex(rotary_dim // 2, 2):
        old, new = (_home(layout, rotary_dim, pair, which) for layout in (source, target))
        y[..., new] = x[..., old]
    return y


def permute_weights(w: np.ndarray, n_heads: int) -> np.ndarray:
    """Return a projection with the rows of each head moved from half-split to interleaved."""
    d = w.shape[0] // n_heads
    heads = np.moveaxis(w.reshape(n_heads, d, -1), 1, -1)
    return np.moveaxis(convert_layout(heads, "half", "interleaved", d), -1, 1).reshape(w.shape)


def position_ids(attention_mask: np.ndarray) -> np.ndarray:
    """Return position ids: real tokens counted from 0 in every row, and 0 for padding."""
    rows = attention_mask.tolist()
    return np.array([
        [n - 1 if real else 0 for n, real in zip(accumulate(row), row, strict=True)] for row in rows
    ])  # fmt: skip


def packed(lengths: np.ndarray) -> np.ndarray:
    """Return position ids that start at 0 in every document."""
    return np.array([p for n in lengths.tolist() for p in range(n)])


def decode_positions(prompt_len: Any, n_steps: int) -> np.ndarray:
    """Return the positions of the decoding steps after each prompt."""
    each = np.asarray(prompt_len)
    made = [[n + t for t in range(n_steps)] for n in each.ravel().tolist()]
    return np.array(made).reshape(*each.shape, -1)


def shard_positions(cu_seqlens: np.ndarray, cp_size: int, cp_rank: int) -> np.ndarray:
    """Return the positions of rank r: chunks r and 2n - 1 - r of every sequence."""
    made: list[int] = []
    for start, stop in pairwise(cu_seqlens.tolist()):
        chunk = (stop - start) // (2 * cp_size)
        for which in (cp_rank, 2 * cp_size - 1 - cp_rank):
            made += range(which * chunk, (which + 1) * chunk)
    return np.array(made)


def mrope_positions(
    token_types: np.ndarray, image_grids: np.ndarray, video_grids: np.ndarray
) -> np.ndarray:
    """Return M-RoPE positions (3, B, S): frame, row and column of every token.

    A text token has the same position on every axis. An image or video occupies a grid in which
    2 x 2 patches are merged into one token.
    """
    waiting = {1: image_grids.tolist(), 2: video_grids.tolist()}
    made = []
    for row in token_types.tolist():
        ids: list[tuple[int, ...]] = []
        start = 0
        while len(ids) < len(row):
            kind = row[len(ids)]  # text counts as a grid of one patch
            frames, height, width = waiting[kind].pop(0) if kind else (1, 2, 2)
            grid = [
                (start + t, start + h, start + w)
                for t, h, w in np.ndindex(frames, height // 2, width // 2)
            ]
            ids += grid
            start = max(map(max, grid)) + 1
        made.append(ids)
    return np.moveaxis(np.array(made), -1, 0)


def grid_positions(height: int, width: int, merge_size: int) -> np.ndarray:
    """Return patch positions in row-major order within merged blocks, block by block."""
    patches = np.ndindex(height, width)
    return np.array(sorted(patches, key=lambda p: (p[0] // merge_size, p[1] // merge_size))).T


def ids_from_tokens(e: Any, input_ids: np.ndarray) -> np.ndarray:
    """Return ``padding_idx - offset`` for padding; the n-th other token of a row has n more."""
    made = []
    for row in input_ids.tolist():
        real = [int(token != e.padding_idx) for token in row]
        made.append([n * r for n, r in zip(accumulate(real), real, strict=True)])
    first: int = e.padding_idx - e.offset
    return first + np.array(made)
