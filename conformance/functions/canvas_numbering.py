"""Position ids on a canvas in a loop over tokens, each step of which may be replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref import CanvasPositions

from .mrope_layouts import IMAGE, VIDEO, Batch
from .mrope_numbering import Item, decode

SLICE, NEWLINE = 4, 6


@dataclass
class Frame:
    """An image or a frame of a video, as the loop reads it token by token."""

    grids: list[tuple[int, int]] = field(default_factory=list)  #: of the thumbnail and slices
    #: What each token is: ("start" | "end" | "slice" | "slice end" | "newline", number of the
    #: slice), or ("token", number of the crop).
    parts: list[tuple[str, int]] = field(default_factory=list)
    columns: int = 0  #: slices before the first newline, or all

    @property
    def tokens(self) -> int:
        """The number of tokens, with markers."""
        return len(self.parts)

    @property
    def rows(self) -> int:
        """The rows of slices."""
        return (len(self.grids) - 1) // self.columns

    @property
    def one(self) -> tuple[int, int]:
        """The size of the first slice."""
        return self.grids[1]

    @property
    def canvas(self) -> tuple[int, int]:
        """Rows and columns of the canvas."""
        if not self.columns:
            return self.grids[0]
        return self.rows * self.one[0], self.columns * self.one[1]

    def stretched(self, rounding: Callable[[np.ndarray], np.ndarray] = np.rint) -> np.ndarray:
        """Return row and column (2, tokens) of the thumbnail's tokens on the canvas."""
        sides = [
            np.arange(n) * (size - 1) / max(n - 1, 1)
            for size, n in zip(self.canvas, self.grids[0], strict=True)
        ]
        down, across = np.meshgrid(*map(rounding, sides), indexing="ij")
        return np.stack([down.ravel(), across.ravel()])


def read(types: list[int], queues: dict[int, Iterator[tuple[int, int]]]) -> list[Frame | int]:
    """Return a row as text (0), newlines (6) and frames."""
    found: list[Frame | int] = []
    at = 0
    while at < len(types):
        inner = types[at + 1 : at + 2]
        if types[at] in (0, NEWLINE) or inner not in ([IMAGE], [VIDEO]):
            found.append(types[at] if types[at] in (0, NEWLINE) else 0)
            at += 1
            continue
        kind, last = inner[0], found[-1] if found else None
        if types[at] == SLICE and (open_frame := _open(found)) is not None:
            while found[-1] == NEWLINE:
                found.pop()
                open_frame.parts.append(("newline", len(open_frame.grids) - 1))
            last, names = open_frame, ("slice", "slice end")
        else:
            found.append(last := Frame())
            names = ("start", "end")
        h, w = next(queues[kind])
        number = len(last.grids)
        last.grids.append((h, w))
        last.parts += [(names[0], number), *[("token", number)] * (h * w), (names[1], number)]
        at += h * w + 2
        if types[at - 1 - h * w : at - 1] != [kind] * (h * w):
            raise ValueError("the tokens do not fit the grids")
    for frame in found:
        if isinstance(frame, Frame) and len(frame.grids) > 1:
            breaks = [number for name, number in frame.parts if name == "newline"]
            count = len(frame.grids) - 1
            frame.columns = breaks[0] if breaks and count % breaks[0] == 0 else count
    return found


def _open(found: list[Frame | int]) -> Frame | None:
    """Return the frame that only newlines follow."""
    for one in reversed(found):
        if isinstance(one, Frame):
            return one
        if one != NEWLINE:
            return None
    return None


def numbered(
    rule: CanvasPositions, batch: Batch, *,
    thumbnail: Callable[[Frame], np.ndarray] = Frame.stretched,
    corner: Callable[[int, Frame], tuple[int, int]] = lambda k, f: (
        k // f.columns * f.one[0], k % f.columns * f.one[1]),
    marker: Callable[[str, tuple[int, int]], tuple[int, int]] = lambda name, at: at,
    extent: Callable[[Frame], int] = lambda frame: max(frame.canvas) + 1,
    newlines: str = "apart", origin: int = 1, times: Any = False, alone: bool = False,
    merge: int | None = None, after: Any = None, decode: Any = decode, restart: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return the positions (3, B, S + n_steps) of a batch.

    ``newlines`` after an image are "apart" (like text, with a free position before the next
    image), "text", or "inside" the image.  ``origin`` multiplies the start of rows and columns.
    ``times`` adds the number of the crop (or "frame") to the time; ``alone`` numbers each slice
    like an image.
    """
    types, mask = np.asarray(batch.token_types), np.asarray(batch.attention_mask) == 1
    ids = np.zeros((3, *types.shape))
    queues = _queues(rule, batch)
    for b, row in enumerate(types):
        if restart:
            queues = _queues(rule, batch)
        start, made, free, inside, seen = 0, [np.zeros((3, 0))], False, -1, 0
        for one in read(row[mask[b]].tolist(), queues):
            if not isinstance(one, Frame):
                if one == NEWLINE and newlines == "inside" and inside >= 0:
                    made.append(np.full((3, 1), inside))
                    continue
                free = one == NEWLINE and newlines == "apart" and (free or inside >= 0)
                inside = inside if one == NEWLINE else -1
                made.append(np.full((3, 1), start))
                start += 1
                continue
            start += free
            for frame in _apart(one) if alone else [one]:
                scale = (merge or rule.spatial_merge_size) / rule.spatial_merge_size
                at = _frame(frame, thumbnail, corner, marker, start) / scale
                time = start + _time(frame, times, seen)
                made.append(np.stack([time + 0 * at[0], *(start * origin + at)]))
                inside, free, seen = start, False, seen + 1
                if after is None:
                    start += int(extent(frame) / scale)
                else:
                    start = int(after(start, Item(rule, (1, *frame.canvas), 1.0), made[-1]))
        ids[:, b, mask[b]] = np.floor(np.concatenate(made, axis=1))
    return np.concatenate([ids, decode(ids, batch) + np.arange(batch.n_steps)], axis=2)


def _frame(frame: Frame, thumbnail: Any, corner: Any, marker: Any, start: int) -> np.ndarray:
    """Return row and column (2, tokens) of all tokens of a frame, from the canvas's start."""
    grid, used = thumbnail(frame), 0
    made: list[tuple[str, Any]] = []
    for name, number in frame.parts:
        if name == "token":
            used = used + 1 if made and made[-1][0] == "token" else 0
        h, w = frame.grids[min(number, len(frame.grids) - 1)]
        y, x = corner(number - 1, frame) if number else (0, 0)
        if name == "token":
            at = grid[:, used] if number == 0 else (y + used // w, x + used % w)
        elif name == "start":
            at = (-1, -1) if start else (0, 0)
        elif name == "end":
            at = frame.canvas
        elif name == "slice":
            at = (y, x)
        elif name == "slice end":
            at = (y + h - 1, x + w - 1)
        else:
            at = ((number - 1) // frame.columns * frame.one[0] + frame.one[0] - 1, frame.canvas[1])
        made.append((name, at if name == "token" else marker(name, at)))
    return np.array([at for _, at in made], float).T


def _time(frame: Frame, times: Any, seen: int) -> Any:
    if times == "frame":
        return seen
    return np.array([number for _, number in frame.parts]) if times else 0


def _apart(frame: Frame) -> Iterator[Frame]:
    """Yield each crop as a frame of its own."""
    for number, grid in enumerate(frame.grids):
        names = [name for name, k in frame.parts if k == number and name != "newline"]
        swapped = {"slice": "start", "slice end": "end"}
        parts = [(swapped.get(name, name), 0) for name in names]
        newline = [("end", 0) for name, k in frame.parts if k == number and name == "newline"]
        yield Frame([grid], parts + newline)


def _queues(rule: CanvasPositions, batch: Batch) -> dict[int, Iterator[tuple[int, int]]]:
    size = rule.spatial_merge_size

    def sizes(grids: Any) -> Iterator[tuple[int, int]]:
        return iter([(h // size, w // size) for _, h, w in np.asarray(grids).tolist()])

    return {IMAGE: sizes(batch.image_grids), VIDEO: sizes(batch.video_grids)}
