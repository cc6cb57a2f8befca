"""M-RoPE position ids of packed documents: each document starts at 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import MRoPEPositions, packed
from posenc_ref.conformance.diagnosis.mistake import Mistake

from .function import Arguments, Function, Plain, several
from .mrope_layouts import Batch, Segment, batch, layouts
from .mrope_numbering import numbered


def _calls(rule: MRoPEPositions, seed: int, dtype: str) -> Iterator[Arguments]:
    found = {name: rows for name, rows, _, _ in layouts(rule)}
    texts: list[list[Segment]] = [*found["text"], *found["text"]]
    images: list[list[Segment]] = [*found["a wide image"], *found["text"], *found["a tall image"]]
    yield _arguments("one document", rule, found["two images"])
    yield _arguments("two documents of text", rule, texts)
    yield _arguments("documents with images", rule, images)
    yield _arguments("documents with images of one size", rule, found["two rows of one length"])
    yield _arguments("documents of different lengths", rule, found["padding on the left"])
    yield _arguments("many documents", rule, found["many rows"])


def _arguments(name: str, rule: MRoPEPositions, rows: list[list[Segment]]) -> Arguments:
    given = batch(rule, rows, steps=0)
    real = given.attention_mask == 1
    lengths = real.sum(axis=1)
    return Arguments(name, (given.token_types[real], *given[1:4], lengths))


def _numbered(rule: MRoPEPositions, whole: bool = False, **changes: Any) -> Function:
    """Return the function that numbers each document, or the ``whole`` sequence as one."""

    def made(types: Any, images: Any, videos: Any, seconds: Any, lengths: Any) -> np.ndarray:
        sizes = np.array([len(types)]) if whole else np.asarray(lengths)
        real = np.arange(sizes.max()) < sizes[:, None]
        rows = np.zeros(real.shape, np.int64)
        rows[real] = types
        given = Batch(rows, images, videos, seconds, real.astype(np.int64), 0)
        return numbered(rule, given, **changes)[:, real]

    return made


def _mistakes(rule: MRoPEPositions) -> Iterator[Mistake]:
    def tokens_before(*call: Any) -> np.ndarray:
        lengths = np.asarray(call[4])
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(_numbered(rule, whole=True)(*call) - starts)

    def one_axis(*call: Any) -> np.ndarray:
        return np.tile(packed(call[4]), (3, 1))

    yield from several(
        ("packing", "documents do not start again at 0: they are numbered as one sequence",
         _numbered(rule, whole=True), "Number each document by itself, then join the results."),
        ("packing", "the number of tokens before a document is subtracted, not its first position",
         tokens_before, "Number each document by itself, then join the results."),
        ("media-grid", "documents are numbered 0, 1, 2, ... on all axes: images have no grid",
         one_axis, "Number each document by the rule of its images and videos."),
        ("row-offset", "every document takes the sizes of images and videos from the first one on",
         _numbered(rule, restart=True)),
        ("axis-order", "height and width are exchanged",
         lambda *call: _numbered(rule)(*call)[[0, 2, 1]]),
        ("media-extent", "text after a video starts at its start + max(height, width), not after "
         "its largest position: it repeats positions of the video",
         _numbered(rule, after=lambda start, item, ids: start + max(item.size[1:]))),
    )  # fmt: skip


MROPE_PACKED_ROWS = {"mrope_packed": Plain(_calls, _mistakes, "packing")}
