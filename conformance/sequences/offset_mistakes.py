"""Known mistakes of calls that start at an offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis import position_mistakes
from posenc_ref.conformance.diagnosis.mistake import Mistake, mistakes
from posenc_ref.conformance.diagnosis.position_mistakes import Tokens, at, of_any_start
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
        """Return the start, index and number of the tokens of every row."""
        n = self.x.shape[2]
        return Tokens(self.offset[:, None, None], np.arange(n), np.array(n))

    def truth(self) -> Truth:
        """Return the reference."""
        return at_length(self.encoding, self.x, self.positions, self.length)

    def at(self, positions: np.ndarray) -> Truth:
        """Return the result at other positions, which broadcast to (B, H, S)."""
        p = np.broadcast_to(positions, self.x.shape[:-1])
        return at_length(self.encoding, self.x, p, self.length)


def _row(t: Tokens) -> np.ndarray:
    return np.arange(len(t.start))[:, None, None]


def offset_mistakes() -> Iterator[Mistake]:
    """Yield the known mistakes of calls with an offset, likely ones first."""
    yield Mistake(
        "decode-offset", "the offset is not used: every call starts at 0", at(lambda t: t.index)
    )
    yield from mistakes(
        "row-offset",
        at,
        ("every row starts where the first one does", lambda t: t.start[:1] + t.index),
        ("every row starts where the last one does", lambda t: t.start[-1:] + t.index),
        ("every row starts at the largest offset", lambda t: t.start.max() + t.index),
        ("every row starts at the smallest offset", lambda t: t.start.min() + t.index),
        ("row b starts at the offset of row b + 1", lambda t: np.roll(t.start, -1, 0) + t.index),
        ("row b starts at the offset of row b - 1", lambda t: np.roll(t.start, 1, 0) + t.index),
        ("the rows' offsets are taken in the reverse order", lambda t: t.start[::-1] + t.index),
    )
    late, early = (
        f"calls that do not start at 0 start one position {w}" for w in ("late", "early")
    )
    yield from mistakes(
        "decode-offset",
        at,
        ("all tokens of a call get the offset itself", lambda t: t.start),
        (
            "the offset is advanced by the call before it is used",
            lambda t: t.position + t.size,
        ),
        ("the offset counts calls, not tokens", lambda t: t.start * t.size + t.index),
        (late, lambda t: t.position + (t.start > 0)),
        (early, lambda t: t.position - (t.start > 0)),
    )
    yield from of_any_start("the offset", HALVES)

    def head(call: Offset) -> np.ndarray:
        return position_mistakes.heads(call.x)

    yield from mistakes(
        "position-axis",
        lambda positions: lambda call: call.at(positions(call, call.tokens())),
        (
            "the head index is added in place of the token's",
            lambda call, t: t.start + head(call),
        ),
        ("the head index is the position", lambda call, t: head(call)),
        ("the row index is the position", lambda call, t: position_mistakes.batch(call.x)),
        (
            "the token's index is that in the whole batch: rows follow one another",
            lambda call, t: t.position + _row(t) * t.size,
        ),
    )
    yield from position_mistakes.only_first_row()
