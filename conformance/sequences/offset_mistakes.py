"""Position maps that calls with an offset are known to get wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.calls import at_length
from posenc_ref.conformance.phases.precision import rounded


@dataclass(frozen=True)
class Offset:
    """A call whose row b starts at ``offset[b]``: what its tokens' positions follow from."""

    encoding: Rotary
    x: np.ndarray  #: (B, H, S, D)
    offset: np.ndarray  #: (B,)

    @property
    def length(self) -> int:
        """The length of the sequence: of its longest row."""
        return int(self.offset.max(initial=0) + self.x.shape[2])

    @property
    def positions(self) -> np.ndarray:
        """The declared positions (B, S)."""
        return np.asarray(self.offset[:, None] + np.arange(self.x.shape[2]))

    def truth(self) -> Truth:
        """What should come out."""
        return at_length(self.encoding, self.x, self.positions, self.length)

    def at(self, positions: np.ndarray) -> Truth:
        """What would come out with other positions, which broadcast to (B, H, S)."""
        p = np.broadcast_to(positions, self.x.shape[:-1])
        return at_length(self.encoding, self.x, p, self.length)


#: Positions (B, H, S), or what broadcasts to it, from offset b (B, 1, 1), head, token and size.
Map = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]

MAPS: tuple[tuple[str, str, Map], ...] = (
    ("decode-offset", "the offset is not used: every call starts at 0", lambda b, h, s, n: s),
    ("row-offset", "every row starts where the first one does", lambda b, h, s, n: b[:1] + s),
    ("row-offset", "every row starts where the last one does", lambda b, h, s, n: b[-1:] + s),
    ("row-offset", "every row starts at the largest offset", lambda b, h, s, n: b.max() + s),
    ("row-offset", "every row starts at the smallest offset", lambda b, h, s, n: b.min() + s),
    (
        "row-offset",
        "row b starts at the offset of row b + 1",
        lambda b, h, s, n: np.roll(b, -1, 0) + s,
    ),
    (
        "row-offset",
        "row b starts at the offset of row b - 1",
        lambda b, h, s, n: np.roll(b, 1, 0) + s,
    ),
    (
        "row-offset",
        "the rows' offsets are taken in the reverse order",
        lambda b, h, s, n: b[::-1] + s,
    ),
    ("decode-offset", "all tokens of a call get the offset itself", lambda b, h, s, n: b + 0 * s),
    ("decode-offset", "the offset is added twice", lambda b, h, s, n: 2 * b + s),
    (
        "decode-offset",
        "the offset is advanced by the call before it is used",
        lambda b, h, s, n: b + n + s,
    ),
    ("decode-offset", "the offset counts calls, not tokens", lambda b, h, s, n: b * n + s),
    (
        "decode-offset",
        "calls that do not start at 0 start one position late",
        lambda b, h, s, n: b + (b > 0) + s,
    ),
    (
        "decode-offset",
        "calls that do not start at 0 start one position early",
        lambda b, h, s, n: b - (b > 0) + s,
    ),
    ("position-origin", "every position is one too large", lambda b, h, s, n: b + s + 1),
    ("position-origin", "every position is one too small", lambda b, h, s, n: b + s - 1),
    (
        "position-axis",
        "the head index is added in place of the token's",
        lambda b, h, s, n: b + h + 0 * s,
    ),
    ("position-axis", "the head index is the position", lambda b, h, s, n: h + 0 * s + 0 * b),
    (
        "position-axis",
        "the row index is the position",
        lambda b, h, s, n: np.arange(b.shape[0])[:, None, None] + 0 * s,
    ),
    (
        "position-axis",
        "the token's index is that in the whole batch: rows follow one another",
        lambda b, h, s, n: b + np.arange(b.shape[0])[:, None, None] * n + s,
    ),
)


def offset_suspects() -> Iterator[Mistake]:
    """What is known to go wrong with offsets, the likelier first."""
    for code, message, positions in MAPS:
        yield Mistake(code, message, _predicts(positions))
    for dtype in ("bfloat16", "float16"):
        offset, whole = _held(dtype)
        text = "position-precision"
        yield Mistake(text, f"the offset is held in {dtype}", _predicts(offset))
        yield Mistake(text, f"positions are held in {dtype}", _predicts(whole))
    said = "with one token per row, all rows but the first come out"
    yield Mistake("row-offset", f"{said} unrotated", lambda call: _first_row(call, call.x))
    yield Mistake("row-offset", f"{said} zero", lambda call: _first_row(call, 0 * call.x))


def _held(dtype: str) -> tuple[Map, Map]:
    """Maps with the offset, or the position, rounded."""
    return (
        lambda b, h, s, n: rounded(1.0 * b, dtype) + s,
        lambda b, h, s, n: rounded(1.0 * (b + s), dtype),
    )


def _first_row(call: Offset, others: np.ndarray) -> Truth | None:
    """Single tokens: the first row as it should be, the others as given."""
    truth = call.truth()
    if call.x.shape[2] != 1:
        return None
    value = np.concatenate([truth.value[:1], others[1:]])
    return Truth(value, truth.terms, truth.angle, truth.amplitude)


def _predicts(positions: Map) -> Callable[[Offset], Truth | None]:
    def predict(call: Offset) -> Truth | None:
        b, h, s = np.ix_(call.offset, np.arange(call.x.shape[1]), np.arange(call.x.shape[2]))
        p = positions(b, h, s, call.x.shape[2])
        return call.at(p) if np.isfinite(p).all() else None  # float16 ends at 65504

    return predict
