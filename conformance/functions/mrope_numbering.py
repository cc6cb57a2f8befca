"""M-RoPE position ids in a plain loop, each step of which may be replaced by a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from posenc_ref import MRoPEPositions, PositionRule

from .mrope_layouts import AUDIO, IMAGE, TEXT, VIDEO, Batch


@dataclass(frozen=True)
class Item:
    """An image, a video, or one frame of a video whose frames are separated."""

    rule: PositionRule
    size: tuple[int, int, int]  #: frames, rows and columns of tokens
    step: float  #: positions between frames, before truncation
    seconds: float = 1.0  #: seconds between frames
    frame: int = 0  #: the number of a separated frame
    every: tuple[float, ...] = ()  #: the seconds of all videos
    before: int = 0  #: the number of images and videos before it in the row
    films: int = 0  #: the number of videos before it in the row
    row: int = 0

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return int(np.prod(self.size))


#: Return the positions (A, tokens) of an item that starts at (A, 1).
Place = Callable[[np.ndarray, Item], np.ndarray]
#: Return where the text after an item starts, given its start, itself and its positions.
After = Callable[[np.ndarray, Item, np.ndarray], Any]
#: Return the first generated position (A, B, 1), given the positions of prompts and the batch.
Decode = Callable[[np.ndarray, Batch], np.ndarray]


def place(start: np.ndarray, item: Item) -> np.ndarray:
    """Return the positions of an item: the grid, frame by frame and row by row."""
    grid = np.indices(item.size).reshape(3, -1).astype(float)
    grid[0] = timed(item, grid[0] * item.step)
    return np.asarray(start + grid)


def timed(item: Item, times: np.ndarray) -> np.ndarray:
    """Return times as the rule counts them: truncated, or with their fractions."""
    return times if getattr(item.rule, "fractional", False) else np.trunc(times)


def after(start: np.ndarray, item: Item, ids: np.ndarray) -> Any:
    """Return one more than the largest position."""
    return ids.max() + 1


def decode(ids: np.ndarray, batch: Batch) -> np.ndarray:
    """Return one more than the largest position of each row, on all axes."""
    real = np.where(np.asarray(batch.attention_mask) == 1, ids, -1)
    return np.asarray(real.max(axis=(0, 2), keepdims=True) + np.ones((len(ids), 1, 1)))


def numbered(
    rule: MRoPEPositions, batch: Batch, *, place: Place = place, after: After = after,
    decode: Decode = decode, sound_after_video: bool = False, markers: str | None = None,
    restart: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return the positions (3, B, S + n_steps) of a batch, made token run by token run.

    ``restart`` takes the images and videos of every row from the first one on.
    """
    types, mask = np.asarray(batch.token_types), np.asarray(batch.attention_mask) == 1
    ids = np.zeros((3, *types.shape))
    shared = (markers or rule.markers) == "shared"
    items = _items(rule, batch)
    for b, row in enumerate(types):
        if restart:
            items = _items(rule, batch)
        start, parts, seen, watched = np.zeros((3, 1)), [np.zeros((3, 0))], 0, 0
        runs = [
            np.array(list(run))
            for _, run in groupby(row[mask[b]].tolist(), lambda kind: min(kind, VIDEO))
        ]
        films = [VIDEO in run and AUDIO in run for run in runs]
        for number, run in enumerate(runs):
            if VIDEO not in run and run[0] in (TEXT, AUDIO):
                count = np.arange(run.size)
                if shared and number and films[number - 1]:
                    count = np.maximum(count - 1, 0)
                if shared and films[number + 1 : number + 2] == [True]:
                    count[-1] -= 1
                parts.append(start + count)
                start = start + count[-1] + 1
                continue
            item = next(items[int(run.min())], None)
            if item is None or item.tokens != (run != AUDIO).sum():
                raise ValueError("the tokens do not fit the grids")
            item = replace(item, before=seen, films=watched, row=b)
            seen, watched = seen + 1, watched + (VIDEO in run)
            grid, sounds = place(start, item), int((run == AUDIO).sum())
            part = np.zeros((3, run.size))
            part[:, run != AUDIO] = grid
            begin = grid.max() + 1 if sound_after_video else start
            part[:, run == AUDIO] = begin + np.arange(sounds)
            parts.append(part)
            start = after(start, item, part) * np.ones((3, 1))
        ids[:, b, mask[b]] = np.concatenate(parts, axis=1)
    return np.concatenate([ids, decode(ids, batch) + np.arange(batch.n_steps)], axis=2)


def _items(rule: MRoPEPositions, batch: Batch) -> dict[int, Iterator[Item]]:
    space, time = rule.spatial_merge_size, rule.temporal_merge_size

    def images() -> Iterator[Item]:
        for t, h, w in np.asarray(batch.image_grids).tolist():
            yield Item(rule, (t, h // space, w // space), 1.0)

    def videos() -> Iterator[Item]:
        every = np.asarray(batch.seconds_per_grid).tolist()
        for (t, h, w), seconds in zip(np.asarray(batch.video_grids).tolist(), every, strict=True):
            size = (t // time, h // space, w // space)
            if rule.split_frames:
                yield from (Item(rule, (1, *size[1:]), 1.0, frame=k) for k in range(size[0]))
                continue
            rate = rule.tokens_per_second
            step = 1.0 if rate is None else rate * seconds
            yield Item(rule, size, step, seconds, every=tuple(every))

    return {IMAGE: images(), VIDEO: videos()}
