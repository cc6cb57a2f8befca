"""M-RoPE position ids of packed documents: each document starts at 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import packed
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.together import Together, both

from .function import Arguments, Function, PlainCall, several, written
from .mrope_common import Kind, as_rule, two_of_rule
from .mrope_layouts import TEXT, Batch


def packed_calls(kind: Kind, rule: Any) -> Iterator[Arguments]:
    """Yield the calls of surface ``mrope_packed``."""
    found = {name: rows for name, rows, _, _ in kind.layouts(rule)}
    texts = [*found["text"], *found["text"]]
    images = [*found["a wide image"], *found["text"], *found["a tall image"]]
    yield _arguments("one document", kind, rule, found["two images"])
    yield _arguments("two documents of text", kind, rule, texts)
    yield _arguments("documents with images", kind, rule, images)
    yield _arguments(
        "documents with images of one size", kind, rule, found["two rows of one length"]
    )
    yield _arguments("documents of different lengths", kind, rule, found["padding on the left"])
    yield _arguments("many documents", kind, rule, found["many rows"])
    first, last = found["a wide image"][0], found["a tall image"][0]
    with suppress(ValueError):  # in some models, text belongs to the grid of an image
        for name, rows in (
            ("an image after an image", [first[:-1], last[1:]]),
            ("text after an image", [first[:-1], *found["text"]]),
            ("an image after text", [first, last[1:]]),
        ):
            yield _arguments(name, kind, rule, rows, False)


def _arguments(
    name: str, kind: Kind, rule: Any, rows: list[list[Any]], required: bool = True
) -> Arguments:
    given = kind.batch(rule, rows, steps=0)
    real = given.attention_mask == 1
    lengths = real.sum(axis=1)
    return Arguments(name, (given.token_types[real], *given[1:4], lengths), required)


def _numbered(kind: Kind, rule: Any, joined: bool = False, **changes: Any) -> Function:
    """Return the function that numbers each document, or all of them ``joined`` as one."""

    def made(*arguments: Any) -> np.ndarray:
        given = _batch(*arguments, joined=joined)
        return np.asarray(kind.numbered(rule, given, **changes)[:, given.attention_mask == 1])

    return made


def _batch(
    types: Any, images: Any, videos: Any, seconds: Any, lengths: Any, *, joined: bool
) -> Batch:
    """Return documents as the rows of a batch, or as one row."""
    sizes = np.array([len(types)]) if joined else np.asarray(lengths)
    real = np.arange(sizes.max()) < sizes[:, None]
    rows = np.zeros(real.shape, np.int64)
    rows[real] = types
    return Batch(rows, images, videos, seconds, real.astype(np.int64), 0)


def _of_documents(known: Mistake, *, joined: bool = False) -> Mistake:
    """Return a mistake of position ids, made in each document, or in all of them as one."""

    def predict(call: PlainCall) -> Truth | None:
        given = _batch(*call.arguments, joined=joined)
        ids = known.predict(replace(call, arguments=tuple(given)))
        return None if ids is None else call.truth(ids.value[:, given.attention_mask == 1])

    return replace(
        known, message=known.message.replace("of its row", "of its document"), predict=predict
    )


def _going_on(known: Mistake) -> Mistake:
    """Return a mistake that is made in each document, which starts where the one before ends."""

    def predict(call: PlainCall) -> Truth | None:
        ids = _of_documents(known).predict(call)
        if ids is None:
            return None
        return call.truth(_continued(ids.value, call.arguments[4]))

    return replace(known, predict=predict)


def _continued(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return positions of documents each of which starts where the one before ends."""
    made, last = ids.copy(), -1
    ends = np.cumsum(lengths)
    for start, end in zip(ends - lengths, ends, strict=True):
        made[:, start:end] += last + 1
        last = made[:, start:end].max(initial=last)
    return made


def _restarts_missing(kind: Kind, rule: Any) -> list[Mistake]:
    """Return the mistakes that documents do not start again at 0: as one sequence, and by itself.

    They differ where a document that ends with an image is before one that begins with one.
    """
    words, remedy = "documents do not start again at 0:", "Start every document at 0."
    right = written("packing", f"{words} each goes on after the largest position of the one before",
                    as_rule(kind.numbered, rule), remedy)  # fmt: skip
    as_one = written("packing", f"{words} they are numbered as one sequence",
                     _numbered(kind, rule, joined=True),
                     "Number each document by itself, then join the results.")  # fmt: skip
    return [as_one, _going_on(right)]


def two_of_packed(kind: Kind, rule: Any) -> Iterator[Together]:
    """Yield two mistakes of documents: two of position ids, or one and a start other than 0."""
    as_one, going_on = _restarts_missing(kind, rule)
    for known in kind.mistakes(rule):
        yield both(as_one, known, _of_documents(known, joined=True).predict)
        yield both(going_on, known, _going_on(known).predict)
    for one, other in two_of_rule(kind.mistakes(rule)):
        yield _of_documents(one), _of_documents(other)


def packed_mistakes(kind: Kind, rule: Any) -> Iterator[Mistake]:
    """Yield what goes wrong with packed documents."""

    def tokens_before(*call: Any) -> np.ndarray:
        lengths = np.asarray(call[4])
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(_numbered(kind, rule, joined=True)(*call) - starts)

    def runs_first(texts: bool, *call: Any) -> np.ndarray:
        ids, types = _numbered(kind, rule)(*call), np.asarray(call[0])
        ends = np.cumsum(call[4])
        for start, middle, end in zip(np.r_[0, ends], ends, ends[1:], strict=False):
            here = start < middle < end and types[middle - 1] == types[middle]
            if here and (types[middle] == TEXT) == texts:
                ids[:, middle:end] += ids[:, start:middle].max() + 1
        return np.asarray(ids)

    def one_axis(*call: Any) -> np.ndarray:
        return np.tile(packed(call[4]), (rule.num_axes, 1))

    def exchanged(*call: Any) -> np.ndarray:
        ids: np.ndarray = _numbered(kind, rule)(*call)
        ids[[1, 2]] = ids[[2, 1]]
        return ids

    def other_axes_go_on(axis: int, *call: Any) -> np.ndarray:
        right: np.ndarray = _numbered(kind, rule)(*call)
        ids = _continued(right, call[4])
        ids[axis] = right[axis]
        return ids

    def goes_on(axis: int, *call: Any) -> np.ndarray:
        ids: np.ndarray = _numbered(kind, rule)(*call)
        ids[axis] = _continued(ids, call[4])[axis]
        return ids

    def texts_go_on(*call: Any) -> np.ndarray:
        ids, lengths = _numbered(kind, rule)(*call), np.asarray(call[4])
        ends = np.cumsum(lengths)
        last = 0  # the first position after the document before
        for start, end in zip(ends - lengths, ends, strict=True):
            if not np.any(call[0][start:end]):
                ids[:, start:end] += last
            last = int(ids[:, start:end].max(initial=last - 1)) + 1
        return np.asarray(ids)

    as_one, going_on = _restarts_missing(kind, rule)
    yield as_one
    yield from several(
        ("packing", "a document of text alone does not start again at 0: it goes on after the "
         "document before it", texts_go_on,
         "Number each document by itself, those of text too, then join the results."),
        *(
            ("packing", f"documents {words} {axis}", partial(made, axis),
             "Start each document at 0 on every axis.")
            for words, made in (("start again at 0 only on axis", other_axes_go_on),
                                ("do not start again at 0 on axis", goes_on))
            for axis in range(rule.num_axes)
        ),
        ("packing", "a document that begins with an image or a video does not start again at 0 "
         "after one that ends with one: runs of one type are found across documents",
         partial(runs_first, False),
         "Separate the documents first, then find the runs of one type in each."),
        ("packing", "a document that begins with text does not start again at 0 after one that "
         "ends with text: runs of text are found across documents", partial(runs_first, True),
         "Separate the documents first, then find the runs of one type in each."),
        ("packing", "the number of tokens before a document is subtracted, not its first position",
         tokens_before, "Number each document by itself, then join the results."),
        ("media-grid", "documents are numbered 0, 1, 2, ... on all axes: images have no grid",
         one_axis, "Number each document by the rule of its images and videos."),
        ("row-offset", "every document takes the sizes of images and videos from the first one on",
         _numbered(kind, rule, restart=True),
         "Go on through image_grids and video_grids from document to document: they list the "
         "images and videos of all of them."),
        ("axis-order", "height and width are exchanged", exchanged),
        ("media-extent", "text after a video starts at its start + max(height, width), not after "
         "its largest position: it repeats positions of the video",
         _numbered(kind, rule, after=lambda start, item, ids: start + max(item.size[1:]))),
    )  # fmt: skip
    yield going_on
    yield from map(_of_documents, kind.mistakes(rule))
