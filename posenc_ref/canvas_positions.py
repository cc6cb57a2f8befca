"""Positions on a canvas, which an image shares with its slices, as in MiniCPM-V 4.7."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from . import _validate as validate
from .multimodal_positions import IMAGE, VIDEO
from .position_rule import PositionRule, merged_grids, refuse_left, rows_of, take

#: The token types of markers, beside those of text, images and videos.
SLICE, MARKER, NEWLINE = 4, 5, 6
#: The names of the token types 0, 1, ...
TYPES = ("text", "image", "video", "", "start of a slice", "other marker", "newline")
_NAMES = {IMAGE: "image", VIDEO: "video"}


@dataclass
class Picture:
    """An image or frame: a thumbnail and, optionally, the slices that show its parts larger."""

    kind: int  #: IMAGE or VIDEO
    start: int  #: the index of the start marker
    crops: list[tuple[int, int]]  #: the tokens of the thumbnail and of every slice: [first, end)

    @property
    def end(self) -> int:
        """The index after the marker that ends the last crop."""
        return self.crops[-1][1] + 1

    @property
    def columns(self) -> int:
        """The slices in a row: a row ends where more than two markers separate slices."""
        slices = self.crops[1:]
        gaps = [after[0] - before[1] for before, after in pairwise(slices)]
        count = next((k + 1 for k, gap in enumerate(gaps) if gap > 2), len(slices))
        return len(slices) if count and len(slices) % count else count


@dataclass(frozen=True, eq=False, repr=False)
class CanvasPositions(PositionRule):
    """How a model numbers the tokens of text, images and their slices on a canvas.

    Formula
        Text at c has (c, c, c), (c + 1, c + 1, c + 1), ...  An image at c has a canvas of H rows
        and W columns: those of its thumbnail, or of all its slices together, each as large as the
        first one.  All its tokens have c in time; row and column, from c on, are

        - ``round(h (H - 1) / (height - 1))`` and likewise for columns: the token in row h of the
          thumbnail, so that it covers the canvas; halves are rounded to even;
        - (row + h, column + w): a token of the slice whose first token is at (row, column);
        - (-1, -1), but not below position 0: the start marker of the thumbnail;
        - (H, W): its end marker;
        - the first and the last token of a slice: its start and end markers;
        - (last row of the slices before it, W): a newline between rows of slices.

        What follows starts at ``c + max(H, W) + 1``.  If only newlines separate two images, one
        position after them stays free.  A frame of a video is an image.  Decoding continues at one
        more than the largest position.
    Source
        OpenBMB, MiniCPM-V 4.7; transformers 5.23, ``MiniCPMV4_7Model.get_rope_index``, and the
        comments in it.
    Traps
        transformers 5.23 takes newlines after an image as a part of it, with (c, c, c), though the
        comments of the same file describe them as text.  ``round(linspace(...))`` in float32 misses
        55 of the 8400 pairs of H to 140 and height to 60, where a half is not exact.

    Parameters
    ----------
    spatial_merge_size : int
        Patches per token along height and width: 4, or 2 for ``downsample_mode="4x"``.
    """

    spatial_merge_size: int = 4

    def __post_init__(self) -> None:
        size = validate.integer("spatial_merge_size", self.spatial_merge_size, minimum=1)
        self._set(spatial_merge_size=size)

    def positions(
        self,
        token_types: Any,
        *,
        image_grids: Any = (),
        video_grids: Any = (),
        seconds_per_grid: Any = None,
        attention_mask: Any = None,
    ) -> np.ndarray:
        """Return the positions of a batch.

        Parameters
        ----------
        token_types : integers, shape (S,) or (B, S)
            0 text; 1 image; 2 video; 4 the start marker of a slice; 5 the other markers of images
            and slices; 6 newline.  Each run of 1 or 2 is a crop: the thumbnail of an image or
            frame, or a slice, if 4 stands before it.
        image_grids, video_grids : integers, shape (n, 3)
            1, height and width of each crop in patches, in order of occurrence.
        seconds_per_grid
            Not used: frames have no time.
        attention_mask
            As for :meth:`PositionRule.positions`.

        Returns
        -------
        int64 array, shape (3, S) or (3, B, S)

        Raises
        ------
        ValueError
            The tokens do not fit the grids, a grid has no tokens, or a crop has no markers.
        """
        types, mask = rows_of(token_types, attention_mask, TYPES)
        waiting = {
            IMAGE: merged_grids("image_grids", image_grids, self.spatial_merge_size),
            VIDEO: merged_grids("video_grids", video_grids, self.spatial_merge_size),
        }
        made = np.zeros((3, *types.shape), np.int64)
        for b, (row, real) in enumerate(zip(types, mask, strict=True)):
            made[:, b, real] = _numbered(row[real], waiting, b)
        for kind, left in waiting.items():
            refuse_left(left, _NAMES[kind])
        return made if np.ndim(token_types) == 2 else made[:, 0]


def pictures(types: np.ndarray, row: int) -> Iterator[Picture]:
    """Yield the images and frames of a row, given the types of its real tokens."""
    found: list[Picture] = []
    edges = np.flatnonzero(np.diff(types)) + 1
    for first, end in zip([0, *edges], [*edges, types.size], strict=True):
        if first == end or types[first] not in (IMAGE, VIDEO):
            continue
        if first == 0 or end == types.size or {types[first - 1], types[end]} - {SLICE, MARKER}:
            raise ValueError(
                "token_types must have a marker (4 or 5) before and after the tokens of each crop, "
                f"got none in row {row} at token {first}"
            )
        if found and types[first - 1] == SLICE:
            found[-1].crops.append((int(first), int(end)))
        else:
            found.append(Picture(int(types[first]), int(first) - 1, [(int(first), int(end))]))
    yield from found


def _numbered(types: np.ndarray, waiting: dict[int, list[Any]], row: int) -> np.ndarray:
    """Return the positions (3, S) of one row."""
    ids = np.zeros((3, types.size), np.int64)
    start = done = 0
    for picture in pictures(types, row):
        between = types[done : picture.start]
        ids[:, done : picture.start] = start + np.arange(between.size)
        start += between.size
        if done and between.size and (between == NEWLINE).all():
            start += 1
        height, width = _place(ids, picture, start, waiting[picture.kind], row)
        start, done = start + max(height, width) + 1, picture.end
    ids[:, done:] = start + np.arange(types.size - done)
    return ids


def _place(
    ids: np.ndarray, picture: Picture, start: int, waiting: list[Any], row: int
) -> tuple[int, int]:
    """Write the positions of a picture at ``start``; return the size of its canvas."""
    grids = []
    for first, end in picture.crops:
        _, height, width = take(waiting, _NAMES[picture.kind], row)
        if end - first != height * width:
            raise ValueError(
                f"token_types must have {height * width} tokens for the {_NAMES[picture.kind]} of "
                f"merged grid {(height, width)}, got {end - first} in row {row}"
            )
        grids.append((height, width))
    columns = picture.columns
    canvas = one = grids[0]
    if columns:
        one = grids[1]
        canvas = len(grids[1:]) // columns * one[0], columns * one[1]
    ids[:, picture.start : picture.end] = start
    space = ids[1:]
    space[:, picture.start] = max(start - 1, 0)
    for number, ((first, end), grid) in enumerate(zip(picture.crops, grids, strict=True)):
        at = np.indices(grid).reshape(2, -1)
        if number:
            origin = np.array(divmod(number - 1, columns)) * one + start
            space[:, first - 1] = origin
            space[:, end] = origin + grid - 1
            space[:, first:end] = at + origin[:, None]
            if number > 1:  # newlines after the marker that ends the slice before
                bottom = (number - 2) // columns * one[0] + one[0] - 1
                newlines = slice(picture.crops[number - 1][1] + 1, first - 1)
                space[:, newlines] = start + np.array([[bottom], [canvas[1]]])
        else:
            scaled = [_stretched(*sizes) for sizes in zip(canvas, grid, strict=True)]
            space[:, end] = np.array(canvas) + start
            space[:, first:end] = start + np.stack(
                [of[k] for of, k in zip(scaled, at, strict=True)]
            )
    return canvas


def _stretched(size: int, count: int) -> np.ndarray:
    """Return ``count`` numbers from 0 to ``size - 1``, rounded to integers, halves to even."""
    if count == 1:
        return np.zeros(1, np.int64)
    return np.array([round(Fraction(k * (size - 1), count - 1)) for k in range(count)])
