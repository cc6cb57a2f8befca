"""Tables that an instance keeps and enlarges for the largest position of any call so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake

#: Numbers of rows that a table may begin with.
_FIRST = (0, 1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
#: How a table grows that is too short: its new length, from the old one and the one needed.
_GROWTH: dict[str, Callable[[int, int], int]] = {
    "": lambda old, needed: needed,
    ", which doubles its length": lambda old, needed: max(2 * old, needed),
    ", whose length is a power of 2": lambda old, needed: 1 << (needed - 1).bit_length(),
}
_REMEDY = (
    "Number the rows that are added to a table from the rows that it has: arange(old, new), or "
    "build the whole table anew."
)


class _Call(Protocol):
    positions: np.ndarray
    needed: tuple[int, ...]  #: the rows that the calls so far needed, each more than all before

    def rotated_to(self, positions: np.ndarray) -> Truth: ...


def grown_from_zero() -> Iterator[Mistake]:
    """Yield tables whose added rows are numbered from 0 again, not from their length."""
    for words, growth in _GROWTH.items():
        for first in _FIRST:
            size = f" that begins with {first} rows" * bool(first)
            text = (
                f"rows that are added to a kept table{size}{words} are numbered from 0 again, not "
                "from its length: results depend on earlier calls"
            )
            yield Mistake("state", text, partial(_predicted, first, growth), _REMEDY)


def _predicted(first: int, growth: Callable[[int, int], int], call: _Call) -> Truth:
    p = call.positions if call.positions.ndim == 1 else call.positions[:, None]
    starts = bounds(call.needed, first, growth)
    return call.rotated_to(p - starts[np.searchsorted(starts, p, side="right") - 1])


def bounds(needed: Sequence[int], first: int, growth: Callable[[int, int], int]) -> np.ndarray:
    """Return the first row of every part of a table that was enlarged for ``needed`` rows."""
    starts = [0, first]
    for rows in needed:
        if rows > starts[-1]:
            starts.append(max(growth(starts[-1], rows), rows))
    return np.array(starts)
