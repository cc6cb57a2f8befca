"""M-RoPE position ids of text, images, videos and audio, with the tokens generated after them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import MRoPEPositions
from posenc_ref.conformance.diagnosis.mistake import Mistake

from . import mrope_numbering as right
from .function import Returned, several, written
from .mrope_common import (
    EXTENT,
    GRID,
    MERGE,
    TIME,
    Kind,
    Numbered,
    Numbering,
    as_rule,
    decode_mistakes,
    last_token,
    row_mistakes,
    whole,
)
from .mrope_layouts import Batch, batch, layouts
from .mrope_numbering import Item, numbered, timed

#: The ``tokens_per_second`` of models, and of the class of Qwen2.5-VL's configuration (4).
RATES = (2.0, 4.0, 13.0, 25.0)


@dataclass(frozen=True)
class _After:
    """An ``after`` at the start plus ``extent(frames, rows, columns, item)``."""

    extent: Callable[..., Any]

    def __call__(self, start: np.ndarray, item: Item, ids: np.ndarray) -> Any:
        """Return where the text after an item starts."""
        return start + self.extent(*item.size, item)


def _changed(change: Any) -> Any:
    """Return a ``place`` that passes the grid (3, tokens) without its start to ``change``."""
    return lambda start, item: start + change(right.place(np.zeros((3, 1)), item), item)


def _at_times(times: Any) -> Any:
    """Return a ``place`` with frame k at ``times(k, item)``."""

    def change(grid: np.ndarray, item: Item) -> np.ndarray:
        frames = np.indices(item.size)[0].ravel().astype(float)
        return np.stack([times(frames, item), *grid[1:]])

    return _changed(change)


def grid_mistakes(numbered: Numbered, rule: Any) -> Iterator[Mistake]:
    """Yield what goes wrong inside images and videos."""
    make, changed = partial(as_rule, numbered, rule), partial(whole, numbered, rule)

    def on_axes(offset: list[int]) -> Any:
        def placed(start: np.ndarray, item: Item) -> np.ndarray:
            return np.asarray(right.place(start * 0, item) + start * np.array(offset).reshape(3, 1))

        return placed

    def line(grid: np.ndarray, item: Item) -> np.ndarray:
        return np.tile(np.arange(item.tokens), (3, 1))

    def columns_first(grid: np.ndarray, item: Item) -> np.ndarray:
        t, h, w = item.size
        return grid.reshape(3, t, h, w).swapaxes(2, 3).reshape(3, -1)

    merge = rule.spatial_merge_size
    unmerged = np.array([[1], [merge], [merge]])
    yield from several(
        (GRID, "tokens of images and videos are numbered one by one, like text",
         make(place=_changed(line)),
         "Give each token the frame, row and column of its place in the merged grid."),
        (GRID, "images and videos after the first one of a row are numbered one by one, like text",
         make(place=_changed(lambda grid, item: line(grid, item) if item.before else grid))),
        (GRID, "columns are counted before rows: tokens are taken to be in column-major order",
         make(place=_changed(columns_first))),
        *(
            (GRID, f"{words}, in grids that are not square", make(place=_changed(
                lambda grid, item, of=of: grid if item.size[1] == item.size[2] else of(grid, item)
            )), "Number the tokens row by row in every grid: token n of a frame has row n // width "
             "and column n % width.")
            for words, of in (
                ("columns are counted before rows: tokens are taken to be in column-major order",
                 columns_first),
                ("height and width are exchanged before the rows and columns are counted",
                 lambda grid, item: right.place(
                     np.zeros((3, 1)), replace(item, size=(item.size[0], *item.size[:0:-1])))),
                ("height and width are exchanged", lambda grid, item: grid[[0, 2, 1]]),
            )
        ),
        (GRID, "rows and columns count tokens, but all frames have the same time",
         make(place=_at_times(lambda k, item: 0 * k))),
        (GRID, "frames of a video are numbered one by one: each starts after the one before",
         make(place=_frame_by_frame)),
        (GRID, "frames between timestamps count on in time: frame k is at its start + k",
         make(place=_changed(lambda grid, item: grid + np.array([[item.frame], [0], [0]])))),
        ("axis-order", "height and width are exchanged", changed(lambda y, _: y[[0, 2, 1]])),
        ("axis-order", "the axes are height, width, time", changed(lambda y, _: y[[1, 2, 0]])),
        ("axis-order", "the axes are width, height, time", changed(lambda y, _: y[::-1])),
        ("position-origin", "positions in images and videos start at 0, not where they occur",
         make(place=on_axes([0, 0, 0]))),
        ("position-origin", "positions in images and videos start at 0, not where they occur; the "
         "text after them is right",
         make(place=on_axes([0, 0, 0]), after=lambda start, item, ids: start + ids.max() + 1)),
        ("position-origin", "rows and columns start at 0, only time starts where the image occurs",
         make(place=on_axes([1, 0, 0]))),
        ("position-origin", "time starts at 0, only rows and columns where the image occurs",
         make(place=on_axes([0, 1, 1]))),
        ("position-origin", "positions are counted from 1", changed(lambda y, _: y + 1)),
        (MERGE, "text after an image or video is moved by the size in patches, before merging",
         make(after=_After(lambda t, h, w, item: merge * max(h, w))),
         "Divide height and width by spatial_merge_size first."),
        (MERGE, "rows and columns are counted in patches, before merging",
         make(place=_changed(lambda grid, item: grid * unmerged)),
         "Divide height and width by spatial_merge_size first."),
    )  # fmt: skip


def _frame_by_frame(start: np.ndarray, item: Item) -> np.ndarray:
    one = replace(item, size=(1, *item.size[1:]))
    parts = []
    for _ in range(item.size[0]):
        parts.append(right.place(start, one))
        start = start * 0 + parts[-1].max() + 1
    return np.concatenate(parts, axis=1)


def _from_zero(start: np.ndarray, item: Item) -> np.ndarray:
    """Return the positions of an item whose start is multiplied with its times."""
    placed = right.place(start, item)
    return np.stack([placed[0] + timed(item, start[0] * item.step) - start[0], *placed[1:]])


def extent_mistakes(numbered: Numbered, rule: Any) -> Iterator[Mistake]:
    """Yield what goes wrong after images and videos, and in what is generated after them."""
    for known in _extents(numbered, rule):
        yield known
        made = known.predict.function if isinstance(known.predict, Returned) else None
        if isinstance(made, Numbering) and isinstance(made.steps.get("after"), _After):
            later = made.beside(Numbering(numbered, rule, {"decode": last_token}))
            text = f"{known.message}, and generated tokens go on after the last token"
            if later is not None:
                yield replace(known, message=text, predict=Returned(later))


def _extents(numbered: Numbered, rule: Any) -> Iterator[Mistake]:
    make = partial(as_rule, numbered, rule)
    area = _After(lambda t, h, w, item: max(h, w))
    remedy = "Start it at one more than the largest position so far, on any axis."
    yield from several(
        (EXTENT, "text after a video starts at its start + max(height, width), not after its "
         "largest position: it repeats positions of the video",
         make(after=area), remedy),
        (EXTENT, "text after an image or video starts at its start + the number of frames",
         make(after=_After(lambda t, h, w, item: t)), remedy),
        (EXTENT, "text after a video of several frames starts at its start + the number of frames",
         make(after=_After(lambda t, h, w, item: t if t > 1 else max(h, w))), remedy),
        (EXTENT, "text after an image or video starts at its start + max(frames, height, width)",
         make(after=_After(lambda t, h, w, item: max(t, h, w))), remedy),
        (MERGE, "text after an image or video starts at its start + max(frames, height, width) in "
         "patches, before merging",
         make(after=_After(lambda t, h, w, item: max(
             t * getattr(rule, "temporal_merge_size", 1), rule.spatial_merge_size * max(h, w)
         ))), "Divide the sizes by the merge sizes first."),
        (EXTENT, "text after an image or video starts at its start + frames * max(height, width)",
         make(after=_After(lambda t, h, w, item: t * max(h, w))), remedy),
        (EXTENT, "text after an image or video is moved by its number of tokens",
         make(after=_After(lambda t, h, w, item: item.tokens)), remedy),
        (EXTENT, "text after an image or video is moved by its height",
         make(after=_After(lambda t, h, w, item: h)), remedy),
        (EXTENT, "text after an image or video is moved by its width",
         make(after=_After(lambda t, h, w, item: w)), remedy),
        (EXTENT, "an image or video takes a single position",
         make(after=_After(lambda t, h, w, item: 1)), remedy),
        (EXTENT, "text after an image or video starts where the image or video starts",
         make(after=_After(lambda t, h, w, item: 0)), remedy),
        (EXTENT, "text after an image or video has its largest position: the + 1 is missing",
         make(after=lambda start, item, ids: ids.max()), remedy),
        (EXTENT, "text after an image or video starts one position late",
         make(after=lambda start, item, ids: ids.max() + 2), remedy),
        (EXTENT, "text after an image or video goes on from the last position of each axis",
         make(after=lambda start, item, ids: ids.max(axis=1, keepdims=True) + 1), remedy),
        (EXTENT, "text after a video with its sound starts after its last token, not after its "
         "largest position",
         make(after=lambda start, item, ids: ids[:, -1].max() + 1), remedy),
    )  # fmt: skip
    for axes, names in ((0,), "time"), ((0, 1), "time or row"), ((0, 2), "time or column"):

        def largest(start: Any, item: Item, ids: Any, axes: tuple[int, ...] = axes) -> Any:
            return ids[list(axes)].max() + 1

        text = f"text after an image or video starts after its last {names}, whatever is larger"
        yield written(EXTENT, text, make(after=largest), remedy)


def _time_mistakes(rule: MRoPEPositions) -> Iterator[Mistake]:
    make, rate = partial(as_rule, numbered, rule), rule.tokens_per_second

    def at(step: Any) -> Any:
        return make(place=_at_times(lambda k, item: timed(item, k * step(item))))

    for other in RATES if not rule.split_frames else ():
        if other != rate:
            declared = "the number of the frame" if rate is None else f"{rate:g} per second"
            text = f"frames have {other:g} positions per second, declared {declared}"
            yield written(TIME, text, at(lambda item, other=other: other * item.seconds))
    if rate is None:
        if (merged := rule.temporal_merge_size) > 1:
            text = f"time counts frames before the merge: grid k is at {merged} * k"
            right = f"Count the grids after {merged} frames are merged into one: 0, 1, 2, ..."
            yield written(TIME, text, at(lambda item: merged), right)
        return
    yield from several(
        (TIME, "seconds between frames are ignored: frames are one second apart",
         at(lambda item: rate),
         "Frame k is at k * tokens_per_second * seconds."),
        (TIME, "tokens_per_second is ignored: frame k is at k * seconds",
         at(lambda item: item.seconds)),
        (TIME, "frames are numbered 0, 1, 2, ... whatever their time", at(lambda item: 1.0)),
        (TIME, "seconds are truncated to whole numbers before they are multiplied",
         at(lambda item: rate * np.trunc(item.seconds)),
         "Truncate the product k * tokens_per_second * seconds, not its factors."),
        (TIME, "the seconds of a frame are truncated to whole numbers before they are multiplied "
         "by tokens_per_second",
         make(place=_at_times(lambda k, item: np.trunc(k * item.seconds) * rate)),
         "Truncate the product k * tokens_per_second * seconds, not its factors."),
        (TIME, "the step between frames is truncated before it is multiplied by the frame",
         at(lambda item: np.trunc(item.step)),
         "Truncate the product k * tokens_per_second * seconds, not its factors."),
        (TIME, "the start of a video is multiplied by the time step, as if its time counted from 0",
         make(place=_from_zero), "Add the start after the multiplication."),
        (TIME, "times are rounded to the nearest number, not truncated",
         make(place=_at_times(lambda k, item: np.rint(k * item.step)))),
        (TIME, "times are truncated, but the model keeps fractions",
         make(place=_at_times(lambda k, item: np.trunc(k * item.step)))),
        (TIME, "the seconds of videos are taken from the end of the list, the grids from its start",
         _seconds_backwards(rule), "Take the seconds of video n from place n of the list."),
        (TIME, "every video has the seconds of the first one",
         at(lambda item: rate * (item.every[0] if item.every else 1))),
        *(
            (TIME, f"the seconds of a video are taken from the place of {words}, not from its own",
             at(lambda item, of=of: rate * (item.every[of(item)] if item.every else 1)),
             "Go on through seconds_per_grid with video_grids, from row to row: video n of the "
             "batch has place n of both.")
            for words, of in (
                ("its number among the videos of its row", lambda item: item.films),
                ("its number among the images and videos of its row", lambda item: item.before),
                ("the number of its row", lambda item: item.row),
                ("the last video", lambda item: -1),
            )
        ),
        (TIME, "the sound of a video is numbered after the video, not at the same times",
         make(sound_after_video=True)),
        (TIME, "the two markers before and after a video with its sound have positions of their own"
         if rule.markers == "shared" else
         "the two markers before and after a video with its sound share a position",
         make(markers="separate" if rule.markers == "shared" else "shared")),
    )  # fmt: skip


def _seconds_backwards(rule: MRoPEPositions) -> Numbering:
    def taken(given: Batch) -> Batch:
        return given._replace(seconds_per_grid=np.asarray(given.seconds_per_grid)[::-1])

    return Numbering(numbered, rule, taken=taken)


def _mistakes(rule: MRoPEPositions) -> Iterator[Mistake]:
    yield from extent_mistakes(numbered, rule)
    yield from grid_mistakes(numbered, rule)
    yield from _time_mistakes(rule)
    yield from row_mistakes(numbered, rule)
    yield from decode_mistakes(numbered, rule)


MROPE = Kind(layouts, batch, numbered, _mistakes)
