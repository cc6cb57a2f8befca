"""Known mistakes of what an instance keeps between calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.mistake import Mistake, mistakes

from .kept_lengths import kept_between
from .kept_tables import Call, Positions, kept_tables
from .offset_mistakes import Offset

#: Numbers of rows at which tables and pages end.
ENDS = (64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class InTurn(Offset):
    """One call of a sequence of calls, with its index in the sequence."""

    index: int
    sequence: tuple[Call, ...]
    earlier_sequences: tuple[Call, ...] = ()  #: the calls of the run before this sequence
    #: All calls of the sequence, this one and later ones included.
    every: list[InTurn] = field(default_factory=list, repr=False, compare=False)
    #: Of every element of the sequence's results, the last one at its place in memory.
    written: list[np.ndarray] = field(default_factory=list, repr=False, compare=False)

    def before(self, *, whole: bool) -> tuple[Call, ...]:
        """Return the calls up to this one, of the sequence or of the ``whole`` run."""
        own = self.sequence[: self.index + 1]
        return self.earlier_sequences + own if whole else own

    @property
    def earlier(self) -> int:
        """Return the number of tokens of all earlier calls."""
        return sum(size[2] for size, _ in self.sequence[: self.index])

    def variables(self) -> Variables:
        """Return numbers that may be mistaken for the positions."""
        index = np.arange(self.x.shape[2])
        none = np.zeros_like(index)
        sizes = [size[2] for size, _ in self.sequence]
        starts = [start for _, start in self.sequence]
        before = max(self.index - 1, 0)
        ends = [a + n for a, n in zip(starts, sizes, strict=True)]
        of_call = {
            "the number of earlier calls": self.index,
            "the number of tokens of earlier calls": self.earlier,
            "the number of tokens of all calls so far": self.earlier + sizes[self.index],
            "the length of the longest call so far": max(sizes[: self.index + 1]),
            "the offset of the first call": starts[0],
            "the offset of the second call": starts[min(1, len(starts) - 1)],
            "the offset of the call before": starts[before],
            "the largest offset so far": max(starts[: self.index + 1]),
            "the length of the first call": sizes[0],
            "the length of the call before": sizes[before],
            "the largest length so far": max(ends[: self.index + 1]),
            "the largest length before the call": max(ends[: self.index], default=0),
        }
        return {**super().variables(), **{name: none + v for name, v in of_call.items()}}


def state_mistakes(encoding: Rotary) -> Iterator[Mistake]:
    """Yield the known mistakes of what is kept between calls, likely ones first."""

    def at_offset(offset: Callable[[InTurn], int]) -> Callable[[InTurn], Truth]:
        return lambda call: call.at(offset(call) + np.arange(call.x.shape[2]))

    yield from overwritten()
    yield from _added_up()
    yield Mistake(
        "state",
        "a call gets the angles of the first equally long call",
        at_offset(lambda c: next(at for size, at in c.sequence if size[2] == c.x.shape[2])),
        "Keep cos and sin under the offset of a call as well as its length, or compute them anew.",
    )
    for warm in (1, 2, 3, 4):
        calls = "the first call" if warm == 1 else f"the first {warm} calls"
        yield Mistake(
            "state",
            f"after {calls}, a call gets the angles of an earlier equally long call, as when a "
            "captured graph is replayed",
            at_offset(partial(_captured, warm=warm)),
            "Pass the offset to a captured graph in memory that every replay reads, or capture no "
            "offset.",
        )
    for bits in (8, 12, 16):

        def same(call: InTurn, bits: int = bits) -> int:
            earlier = (at for size, at in call.sequence if size[2] == call.x.shape[2])
            return next(at for at in earlier if (at - call.offset[0]) % 2**bits == 0)

        yield Mistake(
            "state",
            "a call gets the angles of the first equally long call whose offset has the same low "
            f"{bits} bits",
            at_offset(same),
            "Keep cos and sin under the whole offset of a call and its length.",
        )
    yield from kept_between(encoding)
    yield from mistakes(
        "state",
        at_offset,
        (
            "the tokens of earlier calls are added to the offset",
            lambda c: c.offset[0] + c.earlier,
            "Use the offset that is passed: it counts the earlier tokens of its own sequence.",
        ),
        (
            "the offsets of all calls so far are added up",
            lambda c: sum(start for _, start in c.sequence[: c.index + 1]),
            "Use the offset that is passed alone: write no offset into a kept array of positions.",
        ),
        (
            "a call goes on where the one before it ended",
            lambda c: c.earlier,
            "Use the offset that is passed, not a count of earlier tokens that the instance keeps.",
        ),
        (
            "the offset of the first call is kept",
            lambda c: c.sequence[0][1],
            "Use the offset that is passed with each call, not the one of the first call.",
        ),
    )
    yield from _going_on(begun=False)
    yield from kept_tables(kept)


#: Calls that go on where the one before ended, in words, and which they are: from their offset,
#: their length and the end of the call before. What to do about them.
_GOES_ON: tuple[tuple[str, Callable[[int, int, int], bool], str], ...] = (
    (
        "an offset of 0 is taken for a missing one: the call goes on where the one before it ended",
        lambda offset, size, end: offset == 0,
        "Ask whether the offset is None, not whether it is 0 (an empty offset is not 0).",
    ),
    (
        "positions never go back: a call starts at its offset or where the calls before it ended, "
        "whichever is larger",
        lambda offset, size, end: offset < end,
        "Use the offset that is passed, also if it is smaller than the positions so far.",
    ),
    (
        "positions have no gaps: a call starts at its offset or where the call before it ended, "
        "whichever is smaller",
        lambda offset, size, end: offset > end,
        "Use the offset that is passed, also if it is larger than the positions so far.",
    ),
    *(
        (
            f"a call {words} goes on where the one before it ended, whatever its offset",
            which,
            "Use the offset that is passed in every call, not a count that the instance keeps.",
        )
        for words, which in (
            ("with an offset other than 0", lambda offset, size, end: offset > 0),
            ("of one token", lambda offset, size, end: size == 1),
            ("of several tokens", lambda offset, size, end: size > 1),
            ("of one token with an offset other than 0",
             lambda offset, size, end: size == 1 and offset > 0),
        )
    ),
)  # fmt: skip


def _going_on(*, begun: bool) -> Iterator[Mistake]:
    """Yield instances whose calls go on where the one before ended, if they are of some kind.

    ``begun``: the first call goes on from 0; otherwise it starts at its offset.
    """
    for text, which, remedy in _GOES_ON:
        said = text + ", and the first one at 0" * begun
        yield Mistake("state", said, partial(_at_end, which, begun), remedy)


def _at_end(which: Callable[[int, int, int], bool], begun: bool, call: InTurn) -> Truth:
    start = end = 0
    for i, (size, offset) in enumerate(call.sequence[: call.index + 1]):
        start = end if (begun or i) and which(offset, size[2], end) else offset
        end = start + size[2]
    return call.at(start + np.arange(call.x.shape[2]))


def counters() -> Iterator[Mistake]:
    """Yield mistakes of an instance that counts, and ignores the offset in every call."""
    remedy = "Use the offset that is passed, not a count that the instance keeps."
    for words, start in (
        ("a call starts at the number of tokens of earlier calls", lambda c: c.earlier),
        ("a call starts at the number of earlier calls", lambda c: c.index),
    ):

        def counted(call: InTurn, start: Callable[[InTurn], int] = start) -> Truth:
            return call.at(start(call) + np.arange(call.x.shape[2]))

        yield Mistake("state", f"the offset is not used: {words}", counted, remedy)
    yield from _going_on(begun=True)


def _added_up() -> Iterator[Mistake]:
    """Yield positions whose kept array keeps the offsets of earlier calls, token by token."""
    remedy = "Add the offset to a copy: p = index + offset, not index += offset."
    for rows in (None, *ENDS, *(2**n for n in range(13, 18))):

        def positions(call: InTurn, rows: int | None = rows) -> Truth:
            kept = np.zeros(max(n for (_, _, n), _ in call.sequence), np.int64)
            n, own = call.x.shape[2], int(call.offset[0])
            for (_, _, m), start in call.sequence[: call.index + 1]:
                if rows is None or start + m <= rows:
                    kept[:m] += start
            within = rows is None or own + n <= rows
            return call.at((kept[:n] if within else own) + np.arange(n))

        text = "the offsets of earlier calls stay in a kept array of positions"
        text += ", in calls that end within it" * bool(rows)
        yield Mistake("state", text, positions, remedy)


def overwritten() -> Iterator[Mistake]:
    """Yield results that a later call writes into."""
    remedy = "Return a new array in every call, not a buffer that later calls write into."
    text = "a later call overwrites the results of earlier calls: both share memory"
    yield Mistake("state", text, _as_written, remedy)
    for words, last in (
        ("next call of the same shape overwrites it", lambda n: n),
        ("call after it overwrites it, if it has the same shape", lambda n: 1),
    ):

        def written(call: InTurn, last: Any = last) -> InTurn:
            later = call.every[call.index + 1 :]
            alike = [one for one in later[: last(len(later))] if one.x.shape == call.x.shape]
            return alike[-1] if alike else call

        yield Mistake(
            "state",
            f"an earlier result does not stay as it is: the {words}",
            lambda call, of=written: of(call).truth(),  # type: ignore[misc]
            remedy,
            before=written,
        )


def _as_written(call: InTurn) -> Truth:
    """Return the result of a call as the later calls leave it that share its memory."""
    own = call.truth()
    if not call.written:
        return own
    first = sum(one.x.size for one in call.every[: call.index])
    at = call.written[0][first : first + call.x.size].reshape(call.x.shape)
    every = [one.truth() for one in call.every]

    def there(part: str) -> np.ndarray:
        parts = (np.broadcast_to(getattr(t, part), t.value.shape) for t in every)
        return np.asarray(np.concatenate([one.ravel() for one in parts])[at])

    return Truth(there("value"), there("terms"), there("angle"), own.amplitude)


def kept(positions: Positions, whole: bool) -> Callable[[InTurn], Truth]:
    """Return the result of a call from a table that is kept between calls."""
    return lambda call: call.at(positions(call.before(whole=whole)))


def _captured(call: InTurn, warm: int) -> int:
    """Return the offset of the call whose graph is replayed: of those ``warm``, the last one."""
    graphs: dict[int, int] = {}
    for i, (size, start) in enumerate(call.sequence[: call.index + 1]):
        if i < warm or size[2] not in graphs:
            graphs[size[2]] = start
    return graphs[call.x.shape[2]]
