"""Position ids on a canvas: batches of sliced images, and the mistakes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from posenc_ref import CanvasPositions
from posenc_ref.conformance.diagnosis.mistake import Mistake

from .canvas_numbering import Frame, numbered
from .function import several
from .mrope_common import EXTENT, GRID, MERGE, Kind, as_rule, decode_mistakes, row_mistakes, whole
from .mrope_layouts import IMAGE, VIDEO, Batch, Text, padded

SLICE, MARKER, NEWLINE = 4, 5, 6


@dataclass(frozen=True)
class Sliced:
    """An image or frame of h x w tokens, and rows x columns slices of ``size`` tokens."""

    h: int
    w: int
    rows: int = 0
    columns: int = 0
    size: tuple[int, int] = (1, 1)
    kind: int = IMAGE
    #: The size of the last slice, if it is another one.
    last: tuple[int, int] | None = None

    @property
    def grids(self) -> list[tuple[int, int]]:
        """The sizes of the thumbnail and of its slices, in order of occurrence."""
        slices = [self.size] * (self.rows * self.columns)
        if self.last is not None:
            slices[-1] = self.last
        return [(self.h, self.w), *slices]

    @property
    def types(self) -> list[int]:
        """The types of all tokens: markers, thumbnail, slices, newlines between their rows."""
        made = [MARKER, *[self.kind] * (self.h * self.w), MARKER]
        for number, (h, w) in enumerate(self.grids[1:]):
            if number and number % self.columns == 0:
                made.append(NEWLINE)
            made += [SLICE, *[self.kind] * (h * w), MARKER]
        return made


@dataclass(frozen=True)
class Newlines:
    """n newlines."""

    n: int = 1


Segment = Text | Sliced | Newlines


def layouts(
    rule: CanvasPositions,
) -> Iterator[tuple[str, list[list[Segment]], str, bool]]:
    """Yield (name, rows, side of the padding, required) of each call, small ones first."""
    T, S, N = Text, Sliced, Newlines
    yield "text", [[T(6)]], "left", True
    yield "a wide image", [[T(2), S(2, 4), T(3)]], "left", True
    yield "a tall image", [[T(1), S(4, 2), T(2)]], "left", True
    yield "an image at the start", [[S(2, 2), T(2)]], "left", True
    yield "two images", [[T(2), S(2, 3), T(3), S(3, 1), T(2)]], "left", True
    yield "two slices in a row", [[T(2), S(2, 3, 1, 2, (3, 2)), T(3)]], "left", True
    yield "three slices in a column", [[T(2), S(3, 2, 3, 1, (2, 4)), T(3)]], "left", True
    yield "six slices", [[T(3), S(2, 3, 2, 3, (2, 3)), T(2)]], "left", True
    yield (
        "slices of different sizes",
        [[T(2), S(3, 2, 2, 2, (3, 2), last=(2, 3)), T(2)]],
        "left",
        True,
    )
    yield (
        "an image and a sliced one",
        [[T(2), S(2, 2), T(2), S(1, 2, 2, 1, (2, 3)), T(2)]],
        "left",
        True,
    )
    yield "images side by side", [[T(2), S(2, 2), S(1, 3), T(2)]], "left", True
    film: list[Segment] = [S(1, 2, kind=VIDEO), S(2, 2, kind=VIDEO), S(2, 1, 1, 2, (2, 1), VIDEO)]
    yield "frames of a video", [[T(2), *film, T(3)]], "left", True
    yield "an image and a video", [[T(1), S(2, 1), T(2), *film[:2], T(2)]], "left", True
    yield "two rows of one length", [
        [T(2), S(2, 3), T(2)], [T(1), S(3, 2), T(3)],
    ], "left", True  # fmt: skip
    rows: list[list[Segment]] = [
        [T(3), S(3, 2), T(2)], [T(4)], [T(1), S(2, 2, 1, 2, (2, 2)), T(3), S(2, 4), T(2)],
    ]  # fmt: skip
    yield "padding on the left", rows, "left", True
    yield "padding on the right", rows, "right", False
    yield "many rows", _random(4), "left", False
    yield "a newline after an image", [[T(2), S(2, 3), N(), T(2)]], "left", True
    yield "images with newlines between", [
        [T(1), S(2, 2), N(), S(1, 2), N(2), S(2, 1), T(1)],
    ], "left", True  # fmt: skip


def _random(rows: int) -> list[list[Segment]]:
    rng = np.random.default_rng(11)
    found: list[list[Segment]] = []
    for _ in range(rows):
        row: list[Segment] = [Text(int(rng.integers(1, 6)))]
        for _ in range(int(rng.integers(1, 3))):
            h, w, down, across, *size = (int(n) for n in rng.integers(1, (4, 4, 3, 3, 4, 4)))
            kind = int(rng.choice([IMAGE, VIDEO]))
            one = (size[0], size[1])
            sliced = Sliced(h, w, down, across, one, kind) if rng.integers(2) else None
            row += [sliced or Sliced(h, w, kind=kind), Text(int(rng.integers(1, 4)))]
        found.append(row)
    return found


def batch(
    rule: CanvasPositions, rows: Sequence[Sequence[Segment]], steps: int = 2, side: str = "left"
) -> Batch:
    """Return rows of segments as one batch."""
    size = rule.spatial_merge_size
    grids: dict[int, list[tuple[int, int, int]]] = {IMAGE: [], VIDEO: []}
    types: list[list[int]] = []
    for row in rows:
        types.append([])
        for part in row:
            if isinstance(part, Sliced):
                types[-1] += part.types
                grids[part.kind] += [(1, size * h, size * w) for h, w in part.grids]
            else:
                types[-1] += [0 if isinstance(part, Text) else NEWLINE] * part.n
    return padded(types, grids[IMAGE], grids[VIDEO], steps=steps, side=side)


def _mistakes(rule: CanvasPositions) -> Iterator[Mistake]:
    make, changed = partial(as_rule, numbered, rule), partial(whole, numbered, rule)
    merge, other = rule.spatial_merge_size, 2 if rule.spatial_merge_size == 4 else 4

    def unstretched(frame: Frame) -> np.ndarray:
        return np.indices(frame.grids[0]).reshape(2, -1)

    def floored(frame: Frame) -> np.ndarray:
        return frame.stretched(np.floor)

    def as_blocks(frame: Frame) -> np.ndarray:
        """Return each token at the start of its block of the canvas."""
        at = np.indices(frame.grids[0]).reshape(2, -1)
        sizes = np.array(frame.canvas) / np.array(frame.grids[0])
        return np.asarray(np.floor(at * sizes[:, None]))

    def line(frame: Frame) -> np.ndarray:
        return np.tile(np.arange(np.prod(frame.grids[0])), (2, 1))

    remedy = "Start it at c + max(rows, columns) + 1 of the canvas that starts at c."
    place = "Move each slice by the rows and columns of those before it."
    yield from several(
        (EXTENT, "newlines after an image are taken as a part of it: they have the position where "
         "it starts", make(newlines="inside"), "Number newlines after an image like text."),
        (EXTENT, "images that only newlines separate leave no position free between them",
         make(newlines="text"), "Leave one position free after the newlines."),
        (EXTENT, "text after an image starts at c + max(rows, columns): the marker that ends it is "
         "not counted", make(extent=lambda f: max(f.canvas)), remedy),
        (EXTENT, "text after an image starts after its thumbnail: slices are not counted",
         make(extent=lambda f: max(f.grids[0]) + 1), remedy),
        (EXTENT, "text after an image is moved by its rows", make(extent=lambda f: f.canvas[0] + 1),
         remedy),
        (EXTENT, "text after an image is moved by its columns",
         make(extent=lambda f: f.canvas[1] + 1), remedy),
        (EXTENT, "text after an image is moved by its number of tokens",
         make(extent=lambda f: f.tokens), remedy),
        (EXTENT, "an image takes a single position", make(extent=lambda f: 1), remedy),
        (EXTENT, "text after an image starts one position late",
         make(extent=lambda f: max(f.canvas) + 2), remedy),
        (GRID, "the thumbnail is not stretched over the canvas of its slices",
         make(thumbnail=unstretched),
         "Token h of a side has round(h * (size of the canvas - 1) / (tokens - 1))."),
        (GRID, "positions of the thumbnail on the canvas are rounded down",
         make(thumbnail=floored), "Round them to the nearest number, halves to even."),
        (GRID, "the tokens of the thumbnail have the starts of equal parts of the canvas",
         make(thumbnail=as_blocks),
         "Token h of a side has round(h * (size of the canvas - 1) / (tokens - 1))."),
        (GRID, "tokens of the thumbnail are numbered one by one, like text", make(thumbnail=line)),
        (GRID, "all slices start where the canvas starts",
         make(corner=lambda k, f: (0, 0)), place),
        (GRID, "slices are laid out column by column",
         make(corner=lambda k, f: (k % f.rows * f.one[0], k // f.rows * f.one[1])), place),
        (GRID, "all slices are laid out in one row", make(corner=lambda k, f: (0, k * f.one[1])),
         place),
        (GRID, "all slices are laid out in one column", make(corner=lambda k, f: (k * f.one[0], 0)),
         place),
        (GRID, "slices are moved by the thumbnail's size, not by their own",
         make(corner=lambda k, f: (k // f.columns * f.grids[0][0], k % f.columns * f.grids[0][1])),
         place),
        (GRID, "markers have the position where the image starts",
         make(marker=lambda name, at: (0, 0))),
        (GRID, "the start marker of an image has the position where the image starts",
         make(marker=lambda name, at: (0, 0) if name == "start" else at)),
        (GRID, "the end marker of an image has its last row and column",
         make(marker=lambda name, at: (at[0] - 1, at[1] - 1) if name == "end" else at)),
        (GRID, "the end marker of an image has the position where the image starts",
         make(marker=lambda name, at: (0, 0) if name == "end" else at)),
        (GRID, "the end marker of a slice is one row and column after its last token",
         make(marker=lambda name, at: (at[0] + 1, at[1] + 1) if name == "slice end" else at)),
        (GRID, "the start marker of a slice is one row and column before its first token",
         make(marker=lambda name, at: (at[0] - 1, at[1] - 1) if name == "slice" else at)),
        (GRID, "newlines between slices have the position where the image starts",
         make(marker=lambda name, at: (0, 0) if name == "newline" else at)),
        (GRID, "newlines between slices are in the row after, not at the end of the row before",
         make(marker=lambda name, at: (at[0] + 1, at[1]) if name == "newline" else at)),
        (GRID, "each slice is numbered like an image of its own", make(alone=True),
         "All slices of an image share its canvas."),
        ("media-time", "time counts the thumbnail and the slices of an image",
         make(times=True), "All tokens of an image have the position where it starts in time."),
        ("media-time", "frames of a video have one canvas and one time each, like packed images: "
         "time is the number of the frame", make(times="frame"),
         "All tokens of a frame have the position where it starts in time."),
        (MERGE, f"{other} patches along each side are taken as one token, declared {merge}",
         make(merge=other), "downsample_mode '16x' merges 4 x 4 patches, '4x' merges 2 x 2."),
        ("axis-order", "height and width are exchanged", changed(lambda y, _: y[[0, 2, 1]])),
        ("axis-order", "the axes are height, width, time", changed(lambda y, _: y[[1, 2, 0]])),
        ("axis-order", "the axes are width, height, time", changed(lambda y, _: y[::-1])),
        ("position-origin", "rows and columns of images start at 0, only time where they occur",
         make(origin=0), "Add the position where the image starts to rows and columns."),
        ("position-origin", "positions are counted from 1", changed(lambda y, _: y + 1)),
    )  # fmt: skip
    yield from row_mistakes(numbered, rule)
    yield from decode_mistakes(numbered, rule)


CANVAS = Kind(layouts, batch, numbered, _mistakes)
