"""What the rules of position ids have in common: how they are called, and mistakes of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from posenc_ref import MRoPEPositions
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.together import Together, both, in_pairs

from .function import Function, Returned, several
from .mrope_layouts import IMAGE, TEXT, VIDEO, Batch
from .mrope_numbering import decode

#: Return the positions (A, B, S + n_steps), given a rule, a batch and changed steps.
Numbered = Callable[..., np.ndarray]
GRID, EXTENT, MERGE, TIME = "media-grid", "media-extent", "merge-size", "media-time"


class Kind(NamedTuple):
    """How the rules of a class are judged."""

    #: Yield (name, rows of segments, side of the padding, required) of each call.
    layouts: Callable[[Any], Iterator[tuple[str, list[list[Any]], str, bool]]]
    #: Return rows of segments as one batch, given the rule, the rows, the steps and the side.
    batch: Callable[..., Batch]
    numbered: Numbered
    mistakes: Callable[[Any], Iterator[Mistake]]


@dataclass(frozen=True)
class Numbering:
    """A function that numbers tokens by a rule with changes."""

    number: Numbered
    rule: Any
    steps: Mapping[str, Any] = field(default_factory=dict)  #: the steps that are replaced
    taken: Callable[[Batch], Batch] = lambda given: given  #: the batch that is numbered
    #: Return positions (A, B, S + n) in place of the right ones, given these and the batch.
    then: Callable[[np.ndarray, Batch], np.ndarray] = lambda ids, given: ids

    def __call__(self, *arguments: Any) -> np.ndarray:
        """Return the positions of a batch."""
        given = Batch(*arguments)
        return np.asarray(self.then(self.number(self.rule, self.taken(given), **self.steps), given))

    def beside(self, other: Numbering) -> Numbering | None:
        """Return the function with the changes of both, or None if they replace the same step."""
        if self.steps.keys() & other.steps.keys():
            return None
        return Numbering(
            self.number, self.rule, {**self.steps, **other.steps},
            lambda given: other.taken(self.taken(given)),
            lambda ids, given: other.then(self.then(ids, given), given),
        )  # fmt: skip


def two_of_rule(mistakes: Iterator[Mistake]) -> Iterator[Together]:
    """Yield every two mistakes that can be made in one numbering."""
    known = [
        (one, one.predict.function)
        for one in mistakes
        if isinstance(one.predict, Returned) and isinstance(one.predict.function, Numbering)
    ]
    for (one, first), (other, second) in in_pairs(known):
        made = first.beside(second)
        if made is not None:
            yield both(one, other, Returned(made))


def as_rule(number: Numbered, rule: Any, **changes: Any) -> Function:
    """Return the function that numbers tokens with some steps replaced."""
    return Numbering(number, rule, changes)


def whole(number: Numbered, rule: Any, change: Any) -> Function:
    """Return the function that changes the right positions (A, B, S + n) of a batch."""
    return Numbering(number, rule, then=change)


#: What is right for the sizes of images and videos.
_EVERY = (
    "Go on through image_grids and video_grids from row to row: they list the images and videos of "
    "the whole batch."
)


def _counts_grids(rule: Any) -> bool:
    """Return whether images and videos are grids whose frames are numbered."""
    plain = isinstance(rule, MRoPEPositions) and not rule.split_frames
    return plain and rule.tokens_per_second is None


def _by_counters(rule: Any, within: bool, *arguments: Any) -> np.ndarray:
    """Return positions of rows that begin with the first image and video of the batch.

    A grid fills the tokens after its first one, as far as there are any, or those of its kind
    (``within``).
    """
    given = Batch(*arguments)
    types = np.asarray(given.token_types)
    if types.max() > VIDEO:
        raise ValueError("audio has no grids")
    space, time = rule.spatial_merge_size, rule.temporal_merge_size
    ids = np.zeros((3, len(types), types.shape[1] + given.n_steps))
    for b, row in enumerate(types):
        real, at, start = np.flatnonzero(np.asarray(given.attention_mask)[b]), 0, 0
        grids = {IMAGE: iter(given.image_grids), VIDEO: iter(given.video_grids)}
        while at < real.size:
            kind, part = int(row[real[at]]), np.full((3, 1), start)
            if kind != TEXT:
                t, h, w = (int(n) for n in next(grids[kind]))
                size = (t // (time if kind == VIDEO else 1), h // space, w // space)
                part = start + np.indices(size).reshape(3, -1)
            here = real[at : at + part.shape[1]]
            if within:
                here = here[: np.cumprod(row[here] == kind).sum()]
                part = part[:, : here.size]
            ids[:, b, here] = part[:, : here.size]
            at, start = at + part.shape[1], int(part.max()) + 1
        ids[:, b, types.shape[1] :] = start + np.arange(given.n_steps)
    return ids


def row_mistakes(number: Numbered, rule: Any) -> Iterator[Mistake]:
    """Yield what goes wrong between rows, and with padding."""
    make, changed = partial(as_rule, number, rule), partial(whole, number, rule)

    def first_row(y: np.ndarray, b: Batch) -> np.ndarray:
        return np.repeat(y[:, :1], y.shape[1], axis=1)

    def run_on(y: np.ndarray, b: Batch) -> np.ndarray:
        first = decode(y[..., : -b.n_steps], b)[:1]
        return np.asarray(y + np.cumsum(first, axis=1) - first)

    def unmasked(given: Batch) -> Batch:
        return given._replace(attention_mask=np.ones_like(given.attention_mask))

    def not_scattered(y: np.ndarray, b: Batch) -> np.ndarray:
        mask = np.asarray(b.attention_mask) == 1
        made = np.array(y)
        for row, real in enumerate(mask):
            made[:, row, : len(real)] = 0
            made[:, row, : real.sum()] = y[:, row, : len(real)][:, real]
        return made

    def plain(y: np.ndarray, b: Batch) -> np.ndarray:
        if (np.asarray(b.attention_mask) == 0).any():
            return y
        return np.broadcast_to(np.arange(y.shape[-1]), y.shape)

    yield from several(
        (GRID, "batches without padding are numbered one by one, like text: only those with "
         "padding have grids", changed(plain),
         "Number images and videos whether or not there is an attention mask."),
        ("row-offset", "every row has the positions of the first one", changed(first_row)),
        ("row-offset", "positions go on from one row to the next", changed(run_on)),
        ("row-offset", "every row takes the sizes of images and videos from the first one on",
         make(restart=True), _EVERY),
        *(
            ("row-offset", "every row takes the sizes of images and videos from the first one on: "
             f"its tokens are filled with grids of another size{words}",
             partial(_by_counters, rule, within), _EVERY)
            for words, within in (("", False), (", as far as there are tokens of its kind", True))
            if _counts_grids(rule)
        ),
        ("padding", "rows with padding on the left start at the number of their first real column, "
         "not at 0", changed(_column_first), "Start every row at 0, at its first real token."),
        ("padding", "padding is counted like text", Numbering(number, rule, taken=unmasked),
         "Number the tokens whose attention mask is 1, and write them back to their places."),
        ("padding", "the positions of the real tokens are not written back to their places: they "
         "start at the first column", changed(not_scattered)),
    )  # fmt: skip


def _column_first(y: np.ndarray, b: Batch) -> np.ndarray:
    """Return positions of rows that start at the number of their padding tokens on the left."""
    mask = np.asarray(b.attention_mask)
    start = np.argmax(mask, axis=1)
    moved = np.array(y)
    moved[..., : mask.shape[1]] += (start[:, None] * mask)[None]
    moved[..., mask.shape[1] :] += start[None, :, None]
    return moved


def last_token(ids: np.ndarray, b: Batch) -> np.ndarray:
    """Return one more than the position of the last real token, on each axis."""
    mask = np.asarray(b.attention_mask)
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    return np.take_along_axis(ids, last.reshape(1, -1, 1), axis=2) + 1


def first_at(number: Numbered, rule: Any, change: Any) -> Function:
    """Return the function whose generated tokens start at ``change(first, length, padding)``.

    The three are (1, B, 1): the right start, the number of real tokens, and of padding.
    """

    def start(ids: np.ndarray, b: Batch) -> np.ndarray:
        real = np.sum(b.attention_mask, axis=1).reshape(1, -1, 1)
        made = change(decode(ids, b)[:1], real, b.attention_mask.shape[1] - real)
        return np.broadcast_to(made, (len(ids), ids.shape[1], 1))

    return as_rule(number, rule, decode=start)


def repeated(y: np.ndarray, b: Batch) -> np.ndarray:
    """Return positions in which all generated tokens have that of the first."""
    if not b.n_steps:
        return y
    first = y[..., -b.n_steps :][..., :1]
    return np.concatenate([y[..., : -b.n_steps], np.repeat(first, b.n_steps, axis=2)], axis=2)


def decode_mistakes(number: Numbered, rule: Any) -> Iterator[Mistake]:
    """Yield what goes wrong with the positions of generated text."""
    first = partial(first_at, number, rule)

    code, delta = "decode-offset", "rope_deltas = largest position + 1 - length, for each row."
    yield from several(
        (code, "generated tokens go on at the number of tokens: rope_deltas is left out",
         first(lambda at, real, pad: real), delta),
        (code, "generated tokens go on at the length of the row, padding included",
         first(lambda at, real, pad: real + pad), delta),
        (code, "the first generated token has the largest position of the prompt",
         first(lambda at, real, pad: at - 1), delta),
        (code, "the first generated token is one position late",
         first(lambda at, real, pad: at + 1), delta),
        (code, "every generated token has the position of the first",
         whole(number, rule, repeated)),
        (code, "generated tokens are counted from 0", first(lambda at, real, pad: 0 * at)),
        ("row-offset", "every row goes on where the first row does: rope_deltas is that of row 0",
         first(lambda at, real, pad: real + (at - real)[:, :1]), delta),
        ("row-offset", "every row goes on at the same position, that of the first row",
         first(lambda at, real, pad: at[:, :1] + 0 * at), delta),
        ("row-offset", "every row goes on after the largest position of the batch",
         first(lambda at, real, pad: at.max() + 0 * at), delta),
        ("padding", "rope_deltas counts padding, but the length does not",
         first(lambda at, real, pad: at - pad), delta),
        ("padding", "the length counts padding, but rope_deltas does not",
         first(lambda at, real, pad: at + pad), delta),
    )  # fmt: skip
