"""XD-RoPE position ids: a loop over tokens, and the mistakes that are its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import MRoPEPositions, XDRoPEPositions
from posenc_ref.conformance.diagnosis.mistake import Mistake

from . import mrope_layouts as still
from .function import several
from .mrope_common import (
    EXTENT,
    GRID,
    MERGE,
    Kind,
    as_rule,
    first_at,
    last_token,
    repeated,
    row_mistakes,
    whole,
)
from .mrope_layouts import IMAGE, Batch, Image, Segment, Text, padded
from .mrope_numbering import Item, decode

#: Return the positions of a token: its number in the row, that of the first token of the grid,
#: its row, its column, and its image, of ``before`` images in the row.
Spot = Callable[[int, int, int, int, Item], Sequence[int]]


def layouts(rule: XDRoPEPositions) -> Iterator[tuple[str, list[list[Segment]], str, bool]]:
    """Yield (name, rows, side of the padding, required) of each call."""
    for name, rows, side, required in still.layouts(MRoPEPositions(videos=False)):
        if name == "two rows of one length":
            rows = [[Text(2), Image(2, 5), Text(2)], [Text(1), Image(4, 2), Text(3)]]
        yield name, rows, side, required


def batch(
    rule: XDRoPEPositions, rows: Sequence[Sequence[Segment]], steps: int = 2, side: str = "left"
) -> Batch:
    """Return rows of segments as one batch; images have a token at the end of each row."""

    def tokens(part: Segment) -> list[int]:
        if isinstance(part, Image):
            return [IMAGE] * (part.h * (part.w + 1) + 2)
        return [0] * part.n if isinstance(part, Text) else []

    size = rule.spatial_merge_size
    grids = [(1, size * p.h, size * p.w) for row in rows for p in row if isinstance(p, Image)]
    types = [[kind for part in row for kind in tokens(part)] for row in rows]
    return padded(types, grids, steps=steps, side=side)


def spot(number: int, first: int, down: int, across: int, item: Item) -> Sequence[int]:
    """Return number, column, row and image."""
    return number, across, down, item.before


def numbered(
    rule: XDRoPEPositions, batch: Batch, *, spot: Spot = spot, after: Any = None,
    decode: Any = decode, lead: int = 1, extra: int = 1, restart: bool = False,
    run_on: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return the positions (A, B, S + n_steps) of a batch, made token by token.

    ``lead`` is the number of tokens of an image before its grid, ``extra`` those that end a row of
    the grid.  ``run_on`` goes on counting images from row to row.
    """
    axes, size = rule.num_axes, rule.spatial_merge_size
    types, mask = np.asarray(batch.token_types), np.asarray(batch.attention_mask) == 1
    ids = np.zeros((axes, *types.shape))
    grids, image = iter(np.asarray(batch.image_grids).tolist()), 0
    for b, row in enumerate(types):
        if restart:
            grids = iter(np.asarray(batch.image_grids).tolist())
        image, made, kinds = image if run_on else 0, [], row[mask[b]].tolist()
        at, number = 0, np.zeros(axes)
        while at < len(kinds):
            if kinds[at] != IMAGE:
                made.append(number)
                at, number = at + 1, number + 1
                continue
            _, h, w = (n // size for n in next(grids))
            item = Item(rule, (1, h, w + 1), 1.0, before=image)
            borders = 2 if kinds[at : at + item.tokens + 1].count(IMAGE) > item.tokens else 0
            run = [number + k for k in range(item.tokens + borders)]
            for k in range(item.tokens):
                down, across = divmod(k, w + extra)
                token = min(k + (lead if borders else 0), len(run) - 1)
                where = spot(int(number[0]) + token, int(number[0]), down, across, item)
                run[token] = np.array([*[where[0]] * (axes - 3), *where[1:]], float)
            made += run
            start, image, at = number, image + 1, at + len(run)
            number = number + len(run)
            if after is not None:
                inside = np.array(run).T
                number = np.ravel(after(start.reshape(-1, 1), item, inside)) * np.ones(axes)
        ids[:, b, mask[b]] = np.array(made).reshape(-1, axes).T
    return np.concatenate([ids, decode(ids, batch) + np.arange(batch.n_steps)], axis=2)


def _mistakes(rule: XDRoPEPositions) -> Iterator[Mistake]:
    make, changed = partial(as_rule, numbered, rule), partial(whole, numbered, rule)
    merge, order = rule.spatial_merge_size, [*range(rule.num_axes - 3)]

    def axes(*last: int) -> Any:
        return changed(lambda y, _: y[[*order, *(len(order) + k for k in last)]])

    def shorter(end: int) -> Any:
        return lambda start, item, ids: start + max(item.size[1], item.size[2] - end)

    counted = "Text has the number of the token on all axes."
    yield from several(*(
        (EXTENT, f"text after an image starts at its start + max(height, {width}), as in M-RoPE: "
         "the tokens of the image are not counted", make(after=shorter(end), decode=then), counted)
        for end, width in ((0, "width + 1"), (1, "width")) for then in (decode, last_token)
    ))  # fmt: skip
    yield from several(
        (EXTENT, "an image takes a single position", make(after=lambda start, item, ids: start + 1),
         counted),
        (GRID, "the token that ends a row of an image is not in the grid: rows have width tokens",
         make(extra=0), "A row of the grid has width + 1 tokens."),
        (GRID, "the grid starts at the first token of an image, which is a border",
         make(lead=0), "The first and last token of an image are numbered like text."),
        (GRID, "tokens of images are numbered one by one, like text",
         make(spot=lambda n, first, h, w, item: [n] * 4)),
        (GRID, "all images of a row have number 0",
         make(spot=lambda n, first, h, w, item: (n, w, h, 0)),
         "Count the images of each row from 0."),
        (GRID, "the last axis has the number of the token, not that of the image",
         make(spot=lambda n, first, h, w, item: (n, w, h, n))),
        (GRID, "the last axis has the start of the image, not its number",
         make(spot=lambda n, first, h, w, item: (n, w, h, first))),
        (GRID, "all tokens of an image have the number of its first one on the first axis",
         make(spot=lambda n, first, h, w, item: (first, w, h, item.before))),
        (GRID, "the first axis starts again at 0 in every image",
         make(spot=lambda n, first, h, w, item: (n - first, w, h, item.before))),
        ("position-origin", "rows and columns start where the image occurs, as in M-RoPE",
         make(spot=lambda n, first, h, w, item: (n, first + w, first + h, item.before)),
         "Count rows and columns of every image from 0."),
        ("position-origin", "rows, columns and images start where the image occurs",
         make(spot=lambda n, first, h, w, item: (n, first + w, first + h, first + item.before)),
         "Count rows and columns of every image from 0."),
        ("position-origin", "images are counted from 1",
         make(spot=lambda n, first, h, w, item: (n, w, h, item.before + 1))),
        ("position-origin", "rows and columns are counted from 1",
         make(spot=lambda n, first, h, w, item: (n, w + 1, h + 1, item.before))),
        ("position-origin", "positions are counted from 1", changed(lambda y, _: y + 1)),
        ("axis-order", "height and width are exchanged", axes(1, 0, 2)),
        ("axis-order", "the last three axes are image, row, column", axes(2, 1, 0)),
        ("axis-order", "the last three axes are image, column, row", axes(2, 0, 1)),
        (MERGE, "rows and columns are counted in patches, before merging",
         make(spot=lambda n, first, h, w, item: (n, merge * w, merge * h, item.before)),
         "Divide height and width by spatial_merge_size first."),
        ("row-offset", "images are numbered from the first one of the batch, not of their row",
         make(run_on=True), "Count the images of each row from 0."),
        ("row-offset", "images are numbered from the first one of the batch, not of their row, and "
         "generated tokens go on at the length of the row, padding included",
         first_at(partial(numbered, run_on=True), rule, lambda at, real, pad: at + pad),
         "Count the images of each row from 0, and the tokens whose attention mask is 1."),
    )  # fmt: skip
    yield from row_mistakes(numbered, rule)
    yield from _decode_mistakes(rule)


def _decode_mistakes(rule: XDRoPEPositions) -> Iterator[Mistake]:
    """Yield what goes wrong with generated tokens, which go on at the number of tokens."""
    first, code = partial(first_at, numbered, rule), "decode-offset"
    yield from several(
        ("padding", "generated tokens go on at the length of the row, padding included",
         first(lambda at, real, pad: at + pad), "Count the tokens whose attention mask is 1."),
        ("padding", "padding is subtracted from the positions of generated tokens",
         first(lambda at, real, pad: at - pad)),
        (code, "the first generated token has the largest position of the prompt",
         first(lambda at, real, pad: at - 1)),
        (code, "the first generated token is one position late",
         first(lambda at, real, pad: at + 1)),
        (code, "generated tokens are counted from 0", first(lambda at, real, pad: 0 * at)),
        (code, "every generated token has the position of the first",
         whole(numbered, rule, repeated)),
        ("row-offset", "every row goes on at the same position, that of the first row",
         first(lambda at, real, pad: at[:, :1] + 0 * at)),
    )  # fmt: skip


XD = Kind(layouts, batch, numbered, _mistakes)
