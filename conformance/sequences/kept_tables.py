"""Known mistakes of tables that an instance keeps between calls: their key, and how they grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.rotary.diagnose_state import (
    FIRST,
    GROWTH,
    NUMBERED,
    Rows,
    bounds,
    grown_rows,
)

#: One call: the sizes (B, H, S), and the position of the first token.
Call = tuple[tuple[int, int, int], int]
#: Returns the position that a table has in each of its rows, for every token of the last call.
Positions = Callable[[Sequence[Call]], np.ndarray]


def kept_tables(predict: Callable[[Positions, bool], Callable[..., object]]) -> Iterator[Mistake]:
    """Yield mistakes of kept tables.

    ``predict(positions, whole)`` returns the prediction of a mistake whose positions follow from
    the calls of one sequence up to the present one, or of the whole run.
    """
    key = "Keep cos and sin under the offset of a call as well as its length, or compute them anew."
    text = "a call gets the angles of the first equally long call of the instance"
    yield Mistake("state", text, predict(_first, True), key)  # type: ignore[arg-type]
    text = "a call gets the angles of the call before, if it is as long"
    for whole in (False, True):
        yield Mistake("state", text, predict(_before, whole), key)  # type: ignore[arg-type]
    text = "a call gets the first angles of the longest call before, if it is no longer"
    for whole in (False, True):
        yield Mistake("state", text, predict(_longest, whole), key)  # type: ignore[arg-type]
    yield from grown_tables(predict)


def grown_tables(predict: Callable[[Positions, bool], Callable[..., object]]) -> Iterator[Mistake]:
    """Yield tables whose added rows are numbered from 0 again; as `kept_tables`."""
    for text, _, rows in grown_rows():
        for whole in (False, True):
            yield Mistake("state", text, predict(partial(_numbered, rows), whole), NUMBERED)  # type: ignore[arg-type]


def moved_tables(predict: Callable[[Positions, bool], Callable[..., object]]) -> Iterator[Mistake]:
    """Yield kept tables whose added rows are one position late or early; as `kept_tables`."""
    remedy = (
        "Number the rows that are added to a table from the rows that it has: arange(old, new)."
    )
    for by, words in ((1, "late"), (-1, "early")):
        for text, growth in GROWTH.items():
            for first in FIRST:
                size = f" that begins with {first} rows" * bool(first)
                said = f"rows that are added to a kept table{size}{text + ',' * bool(text)} are "
                said += f"one position {words}"
                for whole in (False, True):
                    positions = _added(first, growth, by)
                    yield Mistake("state", said, predict(positions, whole), remedy)  # type: ignore[arg-type]


def last_rows(predict: Callable[[Positions, bool], Callable[..., object]]) -> Iterator[Mistake]:
    """Yield calls of one token that get the last row of a kept table; as `kept_tables`."""
    remedy = "Read the row of the offset, table[offset], also in a call of one token."
    for text, growth in GROWTH.items():
        for first in FIRST:
            size = f" that begins with {first} rows" * (first > 1)
            said = f"a call of one token gets the last row of a kept table{size}{text}, not its own"
            for whole in (False, True):
                positions = partial(_last, first, growth)
                yield Mistake("state", said, predict(positions, whole), remedy)  # type: ignore[arg-type]


def _last(first: int, growth: Callable[[int, int], int], calls: Sequence[Call]) -> np.ndarray:
    own = _own(calls[-1])
    if own.size != 1:
        return own
    return bounds([offset + n for (_, _, n), offset in calls], first, growth)[-1:] - 1


def _own(call: Call) -> np.ndarray:
    return np.asarray(call[1] + np.arange(call[0][2]))


def _first(calls: Sequence[Call]) -> np.ndarray:
    return _own(next(call for call in calls if call[0][2] == calls[-1][0][2]))


def _before(calls: Sequence[Call]) -> np.ndarray:
    """Return the positions of the first of equally long calls in succession."""
    at = len(calls) - 1
    while at and calls[at - 1][0][2] == calls[-1][0][2]:
        at -= 1
    return _own(calls[at])


def _longest(calls: Sequence[Call]) -> np.ndarray:
    """Return the positions of the first tokens of the first of the longest calls."""
    (_, _, n), _ = calls[-1]
    return _own(max(calls, key=lambda call: call[0][2]))[:n]


def _added(first: int, growth: Callable[[int, int], int], by: int) -> Positions:
    """Return the rows of a table whose rows past those of its first state are moved by ``by``."""

    def positions(calls: Sequence[Call]) -> np.ndarray:
        kept = first
        for (_, _, n), offset in calls:
            kept = kept or int(bounds([offset + n], 0, growth)[-1])
        own = _own(calls[-1])
        return np.where(own >= kept, own + by, own)

    return positions


def _numbered(rows: Rows, calls: Sequence[Call]) -> np.ndarray:
    """Return the positions of the last call, as the rows of a table that grew for all calls."""
    return rows([offset + n for (_, _, n), offset in calls], _own(calls[-1]))
