"""Position ids of prompts and of generated images: a plain loop, and the mistakes of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from posenc_ref import ImageGenerationPositions, MRoPEPositions
from posenc_ref.conformance.diagnosis.mistake import Mistake

from . import mrope_layouts as still
from . import mrope_numbering as right
from .function import several
from .mrope import extent_mistakes, grid_mistakes
from .mrope_common import EXTENT, GRID, Kind, as_rule, decode_mistakes, row_mistakes
from .mrope_layouts import IMAGE, Batch, Image, Segment, Text, padded
from .mrope_numbering import Item


@dataclass(frozen=True)
class ToCome:
    """An image of h x w tokens that is generated after the prompt."""

    h: int
    w: int


#: Return the order in which the grids to come are drawn.
Order = Callable[[list[list[int]]], list[list[int]]]


def layouts(
    rule: ImageGenerationPositions,
) -> Iterator[tuple[str, list[list[Segment | ToCome]], str, bool]]:
    """Yield (name, rows, side of the padding, required) of each call."""
    T, I, C = Text, Image, ToCome  # noqa: E741
    yield "text", [[T(6)]], "left", True
    yield "an image from text", [[T(3), C(3, 2), C(2, 1)]], "left", True
    yield "an image from a wide image", [[T(2), I(2, 4), T(3), C(2, 3)]], "left", True
    yield "images from two images", [
        [T(2), I(2, 3), T(3), I(3, 1), T(2), C(1, 3), C(4, 2)],
    ], "left", True  # fmt: skip
    yield "padding on the left, images from text", [
        [T(5), C(2, 3), C(1, 2)], [T(2), C(3, 2), C(2, 2)],
    ], "left", True  # fmt: skip
    yield "padding on the left, images from images", [
        [T(4), I(3, 2), T(2), C(2, 4)], [T(1), I(1, 2), T(1), C(3, 1)],
        [T(2), I(2, 2), T(3), C(1, 1)],
    ], "left", True  # fmt: skip
    for name, rows, side, required in still.layouts(MRoPEPositions(videos=False)):
        if name != "text":
            yield name, [[*row, C(2, 2)] for row in rows], side, required


def batch(
    rule: ImageGenerationPositions, rows: Sequence[Sequence[Any]], steps: int = 2,
    side: str = "left",
) -> Batch:  # fmt: skip
    """Return rows of segments as one batch, with steps for all images to come and one more.

    Without steps there are no images to come.
    """
    parts = [part for row in rows for part in row if not isinstance(part, Text)]
    size = rule.spatial_merge_size
    seen = [part for part in parts if steps or isinstance(part, Image)]
    types = [
        [kind for part in row for kind in ([0] * part.n if isinstance(part, Text) else
         [IMAGE] * (part.h * part.w if isinstance(part, Image) else 0))]
        for row in rows
    ]  # fmt: skip
    tokens = [sum(p.h * p.w for p in row if isinstance(p, ToCome)) for row in rows]
    if steps and max(tokens):
        steps = max(tokens) + 1
    grids = [(1, size * part.h, size * part.w) for part in seen]
    return padded(types, grids, steps=steps, side=side)


def numbered(
    rule: ImageGenerationPositions, batch: Batch, *, place: Any = right.place,
    after: Any = right.after, decode: Any = right.decode, restart: bool = False,
    order: Order = lambda grids: grids[::-1], draw: Any = right.place,
    drawn_after: Any = right.after, end: Any = lambda start, ids: start, begin: Any = None,
    shared: bool = False, drawn: bool = True,
) -> np.ndarray:  # fmt: skip
    """Return the positions (3, B, S + n_steps) of a batch, made row by row.

    ``draw`` and ``drawn_after`` are ``place`` and ``after`` of the images to come, ``order`` their
    order, ``end`` the position of the end marker, ``begin`` that of the first generated token.
    ``shared``: every row draws the images of the first one.  Unless ``drawn`` all tokens are text.
    """
    types, mask = np.asarray(batch.token_types), np.asarray(batch.attention_mask) == 1
    grids = [
        [n // rule.spatial_merge_size for n in g] for g in np.asarray(batch.image_grids)[:, 1:]
    ]
    rows = [[[*run] for _, run in groupby(row[real].tolist())] for row, real in zip(types, mask)]  # noqa: B905
    seen = [sum(run[0] == IMAGE for run in row) for row in rows]
    each = (len(grids) - sum(seen)) // len(rows)
    ids, at, coming = np.zeros((3, *types.shape)), 0, []
    for b, row in enumerate(rows):
        at, start, parts, before = 0 if restart else at, np.zeros((3, 1)), [np.zeros((3, 0))], 0
        for run in row:
            if run[0] != IMAGE:
                parts.append(start + np.arange(len(run)))
                start = start + len(run)
                continue
            item = Item(rule, (1, *grids[at]), 1.0, before=before)
            if item.tokens != len(run):
                raise ValueError("the tokens do not fit the grids")
            parts.append(place(start, item))
            start = after(start, item, parts[-1]) * np.ones((3, 1))
            at, before = at + 1, before + 1
        coming.append(grids[at : at + each])
        at += each
        ids[:, b, mask[b]] = np.concatenate(parts, axis=1)
    first = decode(ids, batch)
    made = first + np.zeros((3, len(rows), 1)) + np.arange(batch.n_steps)
    if begin is not None:
        first = begin(first, batch)
    for b, mine in enumerate(coming if drawn else []):
        start, parts = first[:, b], []
        for h, w in order(coming[0] if shared else mine):
            item = Item(rule, (1, h, w), 1.0)
            parts.append(draw(start, item))
            start = drawn_after(start, item, parts[-1]) * np.ones((3, 1))
        if parts:
            parts.append(end(start, parts[-1]) + np.zeros((3, batch.n_steps)))
            made[:, b] = np.concatenate(parts, axis=1)[:, : batch.n_steps]
    return np.concatenate([ids, made], axis=2)


def _mistakes(rule: ImageGenerationPositions) -> Iterator[Mistake]:
    make = partial(as_rule, numbered, rule)

    def line(start: np.ndarray, item: Item) -> np.ndarray:
        return start + np.tile(np.arange(item.tokens), (3, 1))

    def turned(start: np.ndarray, item: Item) -> np.ndarray:
        return np.asarray(right.place(start, item)[[0, 2, 1]])

    def at_zero(start: np.ndarray, item: Item) -> np.ndarray:
        return np.asarray(right.place(start * 0, item))

    def padded_start(first: np.ndarray, given: Batch) -> np.ndarray:
        gap = (np.asarray(given.attention_mask) == 0).sum(axis=1)
        return np.asarray(first + gap.reshape(1, -1, 1))

    def tokens(first: np.ndarray, given: Batch) -> np.ndarray:
        real = (np.asarray(given.attention_mask) == 1).sum(axis=1)
        return np.asarray(real.reshape(1, -1, 1) + np.zeros((3, 1, 1)))

    code, drawn = "decode-offset", "Give generated tokens the row and column of their image."
    yield from several(
        (code, "generated tokens are numbered one by one, like text, not by the rows and columns "
         "of the images to come", make(drawn=False), drawn),
        (code, "generated tokens are numbered one by one in each image; the next image starts "
         "after its size", make(draw=line, drawn_after=lambda s, item, ids: s + max(item.size)),
         drawn),
        (code, "the first image to come starts at the number of tokens of the prompt",
         make(begin=tokens)),
        ("padding", "images to come are moved by the padding of their row",
         make(begin=padded_start)),
        (code, "the first image to come starts one position late",
         make(begin=lambda first, given: first + 1)),
        (code, "the first image to come starts at the largest position of the prompt",
         make(begin=lambda first, given: first - 1)),
        (GRID, "images to come are numbered in the order of their grids: the last grid comes first",
         make(order=lambda grids: grids)),
        ("axis-order", "height and width of images to come are exchanged", make(draw=turned)),
        ("position-origin", "rows and columns of images to come start at 0, not where they occur",
         make(draw=at_zero, drawn_after=lambda start, item, ids: start + max(item.size))),
        (EXTENT, "the next image to come starts where the one before it starts",
         make(drawn_after=lambda start, item, ids: start)),
        (EXTENT, "what follows an image to come is moved by its number of tokens",
         make(drawn_after=lambda start, item, ids: start + item.tokens)),
        (EXTENT, "what follows an image to come is moved by its height",
         make(drawn_after=lambda start, item, ids: start + item.size[1])),
        (EXTENT, "what follows an image to come is moved by its width",
         make(drawn_after=lambda start, item, ids: start + item.size[2])),
        (EXTENT, "the end marker has the largest position of the last image: the + 1 is missing",
         make(end=lambda start, ids: ids.max())),
        (EXTENT, "the end marker goes on from the last token of the last image",
         make(end=lambda start, ids: ids[:, -1:] + 1)),
        ("row-offset", "every row draws the images of the first one", make(shared=True)),
    )  # fmt: skip
    yield from extent_mistakes(numbered, rule)
    yield from grid_mistakes(numbered, rule)
    yield from row_mistakes(numbered, rule)
    yield from decode_mistakes(numbered, rule)


GENERATION = Kind(layouts, batch, numbered, _mistakes)
