"""Known mistakes of calls that start at an offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import ALONE, Variables
from posenc_ref.conformance.diagnosis.mistake import Mistake, each_part, mistakes
from posenc_ref.conformance.diagnosis.position_mistakes import (
    Tokens,
    at,
    batch,
    heads,
    of_any_start,
    only_first_row,
    other_tokens,
)
from posenc_ref.conformance.diagnosis.rule import DECLARED
from posenc_ref.conformance.oracle.calls import at_length
from posenc_ref.conformance.phases.precision import rounded

#: Functions that round positions to a half-precision format, by its name.
HALVES = {name: partial(rounded, dtype=name) for name in ("bfloat16", "float16")}


@dataclass(frozen=True)
class Offset:
    """A call in which row b starts at ``offset[b]``."""

    encoding: Rotary
    x: np.ndarray  #: (B, H, S, D)
    offset: np.ndarray  #: (B,)

    @property
    def length(self) -> int:
        """Return the length of the sequence in the longest row."""
        return int(self.offset.max(initial=0) + self.x.shape[2])

    @property
    def positions(self) -> np.ndarray:
        """Return the declared positions (B, S)."""
        return np.asarray(self.offset[:, None] + np.arange(self.x.shape[2]))

    def tokens(self) -> Tokens:
        """Return the first position of every row, the index of every token, and the row length."""
        n = self.x.shape[2]
        return Tokens(self.offset[:, None, None], np.arange(n), np.array(n))

    def truth(self) -> Truth:
        """Return the expected result."""
        return at_length(self.encoding, self.x, self.positions, self.length)

    def at(self, positions: np.ndarray) -> Truth:
        """Return the result at ``positions``, which broadcast to (B, H, S)."""
        p = np.broadcast_to(positions, self.x.shape[:-1])
        return at_length(self.encoding, self.x, p, self.length)

    def rotated(self) -> np.ndarray:
        """Return the tokens before the rotation."""
        return self.x

    def rotated_to(self, positions: np.ndarray) -> Truth:
        """Return the result at ``positions`` (B, H, S)."""
        return self.at(positions)

    def variables(self) -> Variables:
        """Return numbers that may be mistaken for the positions."""
        row, head = np.indices(self.x.shape[:2])[..., None]
        start, n = self.offset[:, None, None], self.x.shape[2]
        index = np.arange(n)
        none = np.zeros_like(index)
        return {
            DECLARED: start + index,
            "the index in the call": index,
            "the offset": start + none,
            "the length of the call": none + n,
            "the batch row": row,
            "the head": head,
            "the number of the token in the batch": row * n + index,
            "the offset of the first row": none + self.offset[0],
            "the offset of the last row": none + self.offset[-1],
            "the largest offset": none + self.offset.max(),
            "the smallest offset": none + self.offset.min(),
            "the sum of the offsets up to this row": np.cumsum(start, 0) + none,
            "the sum of the offsets of earlier rows": np.cumsum(start, 0) - start + none,
            "the offset of the row before": np.roll(start, 1, 0) + none,
            **{
                f"{ALONE}{text}": start + at
                for text, at in other_tokens(row, head, index, *self.x.shape[:3]).items()
            },
        }


#: The lengths of tables whose slices are clamped.
_TABLES = tuple(2**n for n in range(6, 18))
#: What is right for every call.
ROTATE = "Rotate token i of a call to offset + i"
OWN = "Rotate token i of row b to offset[b] + i: every row has its own offset."
AXES = f"{ROTATE}, for all rows and heads alike: i counts along the axis of tokens, axis 2 of x."


def scaled_parts() -> Iterator[Mistake]:
    """Yield positions of which only the offset, or only the index in the call, has a factor."""
    remedy = f"{ROTATE}: apply the scaling to the sum, offset + i."
    for n in (2, 4, 8, 16, 32, 64):
        yield from mistakes(
            "decode-offset",
            at,
            *(
                (f"{what} by {n}: the factor of the positions is on one of both", place, remedy)
                for what, place in (
                    ("the offset is multiplied", lambda t, n=n: n * t.start + t.index),
                    ("the offset is divided", lambda t, n=n: t.start / n + t.index),
                    ("the index in the call is multiplied", lambda t, n=n: t.start + n * t.index),
                    ("the index in the call is divided", lambda t, n=n: t.start + t.index / n),
                )
            ),
        )


def offset_mistakes() -> Iterator[Mistake]:
    """Yield the known mistakes of calls with an offset, likely ones first."""
    yield Mistake(
        "decode-offset",
        "the offset is not used: every call starts at 0",
        at(lambda t: t.index),
        f"{ROTATE}: the function leaves the offset out.",
    )
    yield from mistakes(
        "row-offset",
        at,
        ("every row starts where the first one does", lambda t: t.start[:1] + t.index, OWN),
        ("every row starts where the last one does", lambda t: t.start[-1:] + t.index, OWN),
        ("every row starts at the largest offset", lambda t: t.start.max() + t.index, OWN),
        ("every row starts at the smallest offset", lambda t: t.start.min() + t.index, OWN),
        (
            "the smallest offset of the call is subtracted from all of them: row b starts at "
            "offset[b] - min(offset)",
            lambda t: t.start - t.start.min() + t.index,
            OWN,
        ),
        (
            "offsets are taken for cumulative lengths: row b starts at offset[b] - offset[b - 1]",
            lambda t: _since(t) + t.index,
            OWN,
        ),
        (
            "offsets are taken for cumulative lengths: row b starts at offset[b] - offset[b - 1] "
            "unless that is negative",
            lambda t: np.where(_since(t) < 0, t.start, _since(t)) + t.index,
            OWN,
        ),
        (
            "row b starts at the offset of row b + 1",
            lambda t: np.roll(t.start, -1, 0) + t.index,
            OWN,
        ),
        (
            "row b starts at the offset of row b - 1",
            lambda t: np.roll(t.start, 1, 0) + t.index,
            OWN,
        ),
        (
            "the rows' offsets are taken in the reverse order",
            lambda t: t.start[::-1] + t.index,
            OWN,
        ),
        ("the rows' offsets are sorted", lambda t: np.sort(t.start, axis=0) + t.index, OWN),
    )
    yield Mistake(
        "row-offset",
        "row b and head h start at offset[(b H + h) modulo B]: where rows and heads are one axis, "
        "the offsets are tiled, not repeated",
        _tiled,
        f"{OWN} Repeat each offset H times (repeat, not tile).",
    )
    yield Mistake(
        "row-offset",
        "in calls with as many rows as heads, head h of every row starts at offset[h]: the offsets "
        "lie along the axis of heads",
        partial(_along, 1),
        f"{OWN} Give the offsets the shape (B, 1, 1) before they are broadcast.",
    )
    yield Mistake(
        "row-offset",
        "in calls with as many rows as tokens, token i of every row has the position offset[i] + "
        "i, as if there were one offset for each token",
        partial(_along, 2),
        f"{OWN} Give the offsets the shape (B, 1, 1) before they are added to the index.",
    )
    yield from mistakes(
        "row-offset",
        lambda of: (
            lambda call: call.at(of(np.ravel(call.tokens().start), call.x.shape[2])[:, None])
        ),
        (
            "positions are made as (tokens, rows) and reshaped, not transposed, to (rows, tokens)",
            lambda start, n: (start + np.arange(n)[:, None]).reshape(start.size, n),
            f"{OWN} Transpose (tokens, rows) to (rows, tokens): a reshape mixes the rows.",
        ),
        (
            "where rows and tokens are one axis, the offsets are tiled, not repeated",
            lambda start, n: np.tile(start, n).reshape(start.size, n) + np.arange(n),
            f"{OWN} Repeat each offset S times (repeat, not tile).",
        ),
        (
            "where rows and tokens are one axis, the index is repeated, not tiled",
            lambda start, n: (
                start[:, None] + np.repeat(np.arange(n), start.size).reshape(start.size, n)
            ),
            f"{OWN} Repeat the whole index, arange(S), for each row (tile, not repeat).",
        ),
    )
    yield from mistakes(
        "position-range",
        at,
        *(
            (
                f"the start of a call is clamped to {rows} - S, as a slice of a table of {rows} "
                "rows is (dynamic_slice)",
                lambda t, rows=rows: np.minimum(t.start, max(rows - int(t.size), 0)) + t.index,
                f"{ROTATE}: make the table longer than offset + S, or raise an error past its end.",
            )
            for rows in _TABLES
        ),
    )
    yield from mistakes(
        "decode-offset",
        at,
        (
            "the offset is used as the position of every token",
            lambda t: t.start,
            f"{ROTATE}: add the index, arange(length).",
        ),
        (
            "the offset of a call counts the call's own tokens",
            lambda t: t.position + t.size,
            f"{ROTATE}: use the offset that is passed, without the length of the call.",
        ),
        (
            "the offset counts calls, not tokens",
            lambda t: t.start * t.size + t.index,
            f"{ROTATE}: the offset counts tokens; do not multiply it by the length of the call.",
        ),
        (
            "calls with an offset start one position late",
            lambda t: t.position + (t.start > 0),
            f"{ROTATE}: do not add 1.",
        ),
        (
            "calls with an offset start one position early",
            lambda t: t.position - (t.start > 0),
            f"{ROTATE}: do not subtract 1.",
        ),
    )
    yield from of_any_start("the offset", HALVES)
    yield from mistakes(
        "position-axis",
        lambda positions: (
            lambda call: call.at(positions(heads(call.x), batch(call.x), call.tokens()))
        ),
        (
            "the head index is added to the offset, in place of the token index",
            lambda head, row, t: t.start + head,
            AXES,
        ),
        ("the head index is used as the position", lambda head, row, t: head, AXES),
        ("the row index is used as the position", lambda head, row, t: row, AXES),
        (
            "tokens are counted through all rows of the batch",
            lambda head, row, t: t.position + row * t.size,
            f"{ROTATE}: count the tokens of each row on their own.",
        ),
    )
    yield from only_first_row()


def _tiled(call: Offset) -> Truth:
    rows, count = call.x.shape[:2]
    folded = np.arange(rows * count).reshape(rows, count) % rows
    start = np.broadcast_to(call.tokens().start.reshape(-1), rows)
    return call.at(start[folded][..., None] + np.arange(call.x.shape[2]))


def _along(axis: int, call: Offset) -> Truth:
    """Return the result of offsets that lie along the heads or the tokens, if these are as many."""
    start = call.tokens().start
    if call.x.shape[0] != call.x.shape[axis] or start.size != call.x.shape[0]:
        return call.truth()
    start = start.reshape((-1, 1) if axis == 1 else (1, -1))
    return call.at(start + np.arange(call.x.shape[2]))


def _since(t: Tokens) -> np.ndarray:
    """Return the offset of each row less that of the row before, the first row's own one."""
    before = np.roll(t.start, 1, 0)
    before[:1] = 0
    return np.asarray(t.start - before)


def row_orders() -> Iterator[Mistake]:
    """Yield results whose rows are right, but come in another order."""

    def reordered(order: Callable[[np.ndarray], np.ndarray]) -> Callable[[Offset], Truth]:
        def predict(call: Offset) -> Truth:
            rows = order(call.offset)
            return each_part(call.truth(), lambda part: np.broadcast_to(part, call.x.shape)[rows])

        return predict

    remedy = "Put row b of the result where row b of x was: after rows are sorted by an "
    remedy += "order, index the result with argsort(order)."
    for by, order in (
        ("offset", lambda offset: np.argsort(offset, kind="stable")),
        ("falling offset", lambda offset: np.argsort(-offset, kind="stable")),
    ):
        for text, of in (
            ("and put back by the same permutation, not by its inverse",
             lambda offset, order=order: order(offset)[order(offset)]),
            ("and not put back", order),
            ("in the result only, by the inverse of the permutation that sorts them",
             lambda offset, order=order: np.argsort(order(offset))),
        ):  # fmt: skip
            text = f"rows are sorted by {by} {text}"
            yield Mistake("row-offset", text, reordered(of), remedy)
    text = "the rows of the result are in the reverse order"
    yield Mistake(
        "row-offset", text, reordered(lambda offset: np.arange(offset.size)[::-1]), remedy
    )
