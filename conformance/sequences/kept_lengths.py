"""Known mistakes of kept lengths: when cached keys are rotated anew, and calls choose anew."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.calls import at_length
from posenc_ref.conformance.phases.schedule_mistakes import one_schedule

from .chunk_mistakes import with_lengths
from .chunked import Chunked
from .kept_tables import Call

_ANEW = "Rotate all keys anew whenever the frequencies change."
#: Ends the words of a call that does not use the kept frequencies.
_THEN = " and chooses them anew"
#: Sizes of pages, at whose ends keys may be rotated anew.
_PAGES = (8, 16, 32, 64, 128, 256, 512, 1024)
#: The longest length about which whole sequences are made.
_LONGEST = 4096


@dataclass(frozen=True)
class _Step:
    """A chunk that is added to cached keys, and when they were rotated anew for the last time."""

    before: int  #: the number of keys before the chunk
    after: int
    last: int  #: the number of keys when all of them were rotated anew
    number: int  #: 1 for the first chunk

    @property
    def size(self) -> int:
        return self.after - self.before


def rotated_anew(encoding: Rotary) -> Iterator[Mistake]:
    """Yield caches whose keys are rotated anew after some chunks only."""
    n = _trained(encoding)
    begun = [(f"{when}, which begins as {n}", anew, n) for when, anew in _growths() if n]
    for when, anew, first in [*((*one, 0) for one in _occasions(encoding)), *begun]:
        for of_new, own in (("their own length", True), ("the length of that time", False)):
            yield Mistake(
                "stale-cache",
                f"cached keys are rotated again only {when}; keys inserted between have the "
                f"frequencies of {of_new}",
                with_lengths(partial(_lengths, anew, own, first)),
                _ANEW,
            )


def _growths() -> Iterator[tuple[str, Callable[[_Step], bool]]]:
    """Yield caches that have grown enough since the keys were rotated anew."""
    yield "when their number has doubled since the last time", lambda s: s.after >= 2 * s.last
    for words, by in (("a quarter", 1.25), ("half", 1.5), ("twice as much", 3.0)):
        yield (
            f"when their number has grown by more than {words} since the last time",
            lambda s, by=by: s.after > by * s.last,  # type: ignore[misc]
        )


def _occasions(encoding: Rotary) -> Iterator[tuple[str, Callable[[_Step], bool]]]:
    yield from _growths()
    if n := _trained(encoding):
        yield (
            f"by a chunk that begins at fewer than {n} keys and ends at more (never, if one ends "
            f"at exactly {n})",
            lambda s: s.before < n < s.after,
        )
        yield f"when their number passes {n}", lambda s: s.before <= n < s.after
        yield f"when their number is exactly {n + 1}", lambda s: s.after == n + 1
        yield f"when their number is exactly {n}", lambda s: s.after == n
        yield f"by a chunk that begins at more than {n} keys", lambda s: s.before > n
        yield f"by a chunk that begins at {n} keys or more", lambda s: s.before >= n
        yield f"by a chunk of more than {n} tokens", lambda s: s.size > n
    for nth, every in (("second", 2), ("third", 3), ("fourth", 4)):
        yield f"by every {nth} chunk", lambda s, n=every: s.number % n == 0  # type: ignore[misc]
    yield "by chunks of one token", lambda s: s.size == 1
    yield "by chunks of several tokens", lambda s: s.size > 1
    yield (
        "when their number passes a power of 2",
        lambda s: (s.after - 1).bit_length() > max(s.before - 1, 0).bit_length(),
    )
    for page in _PAGES:
        yield (
            f"when their number passes a multiple of {page}",
            lambda s, n=page: -(-s.after // n) > -(-s.before // n),  # type: ignore[misc]
        )
        yield (
            f"when their number reaches a multiple of {page}",
            lambda s, n=page: s.after // n > s.before // n,  # type: ignore[misc]
        )


def _trained(encoding: Rotary) -> int:
    """Return the length past which the frequencies change, 0 if there is none."""
    n = one_schedule(encoding)
    return int(n) if math.isfinite(n) else 0


def _lengths(anew: Callable[[_Step], bool], own: bool, first: int, call: Chunked) -> list[int]:
    """Return the length whose frequencies each chunk of keys has in the end.

    ``first`` is the length when keys were rotated anew before the first chunk, if it is not 0.
    """
    lengths: list[int] = []
    last = first
    for number, (start, end) in enumerate(zip(call.starts, call.ends, strict=True), 1):
        if not last or anew(_Step(start, end, last, number)):
            last, lengths = end, [end] * len(lengths)
        lengths.append(end if own else last)
    return lengths


def refuting(encoding: Rotary) -> Iterator[tuple[int, ...]]:
    """Yield lengths of chunks that tell these occasions apart.

    A chunk takes the keys past the trained length from just before it and from exactly there,
    while their number does not double; others begin past it, are longer, or end at a power of 2.
    """
    n = _trained(encoding)
    if not 8 < n <= _LONGEST:
        return
    yield (n - 3, 8, n // 2)
    yield (n - 6, 6, 3, 1, n, 1)
    yield (n - 7, 5, 3, n + 5, 2)
    yield (n // 3, n // 3, n, 1, n // 2)
    yield (n // 3, n // 3, n, 1)
    yield (n - 1, 2, (1 << (n + 1).bit_length()) - n - 1)
    yield (n + 3, 2, 1)


@dataclass(frozen=True)
class _Turn:
    """A call of an instance that keeps the frequencies of one length."""

    start: int
    size: int
    kept: int  #: the length whose frequencies are kept
    before: int  #: the length of the call before

    @property
    def end(self) -> int:
        return self.start + self.size


#: Returns whether a call chooses the frequencies anew.
Anew = Callable[[_Turn], bool]


def kept_between(encoding: Rotary) -> Iterator[Mistake]:
    """Yield instances that keep the frequencies of an earlier call in some calls.

    ``predict`` takes the facts of a call that has its own sequence of calls.
    """
    if not encoding.depends_on_length:
        return
    remedy = "Choose the frequencies anew in every call, or rebuild them when a sequence ends."
    resets = tuple(_resets(_trained(encoding)))
    text = "the frequencies of the longest call so far are kept"
    rules: list[tuple[str, Anew]] = [(text, lambda t: t.end > t.kept)]
    rules += [
        (f"{text}, until {words}{_THEN}", lambda t, of=of: t.end > t.kept or of(t))  # type: ignore[misc]
        for words, of in resets
    ]
    text = "the frequencies of the first call are kept"
    rules += [(text, lambda t: False)]
    rules += [(f"{text}, until {words}{_THEN}", of) for words, of in resets]
    for message, anew in rules:
        yield Mistake("state", message, partial(_as_kept, anew), remedy)


def _resets(n: int) -> Iterator[tuple[str, Anew]]:
    """Yield calls that may choose the frequencies anew, in words."""
    if n:
        yield f"a call ends before {n}", lambda t: t.end < n
        yield f"a call ends at {n} or before", lambda t: t.end <= n
        yield f"a call ends past {n}", lambda t: t.end > n
        yield f"a call begins before {n}", lambda t: t.start < n
    yield "a call begins at 0", lambda t: t.start == 0
    yield "a call has several tokens", lambda t: t.size > 1
    yield "a call has one token", lambda t: t.size == 1
    yield "a call is shorter than half of it", lambda t: 2 * t.end < t.kept
    yield (
        "a call does not begin where the one before it ended",
        lambda t: t.start != t.before,
    )


def _as_kept(anew: Anew, call: Any) -> Truth:
    kept = before = 0
    for (_, _, size), start in call.sequence[: call.index + 1]:
        turn = _Turn(start, size, kept, before)
        if not kept or anew(turn):
            kept = turn.end
        before = turn.end
    return at_length(call.encoding, call.x, call.positions, kept)


def calls_in_turn(encoding: Rotary) -> dict[str, tuple[Call, ...]]:
    """Return sequences of calls that tell these apart; the first two are made in every run."""
    n = _trained(encoding)
    if not n or not encoding.depends_on_length:
        return {}
    past, far = ((1, 2, 4), 2 * n - 4), ((1, 2, 3), 3 * n - 3)
    found: dict[str, tuple[Call, ...]] = {
        "longer and shorter": (far, past, ((1, 2, 4), n - 4), past, ((1, 2, 3), n - 4), past)
    }
    if 8 < n <= _LONGEST:
        single: tuple[Call, ...] = tuple(((1, 2, 1), at) for at in (2 * n, n + 3, 5))
        found["single tokens after a longer call"] = (far, *single, ((1, 2, 3), n + 7))
        found["sequences from 0"] = (
            ((1, 1, n + 2), 0), ((1, 2, 1), n + 2), far, ((1, 1, n + 5), 0), ((1, 2, 1), n + 5),
            past, ((1, 2, 3), 2 * n),
        )  # fmt: skip
        # The number of batch rows or heads may decide, too.
        found["several rows and heads"] = (
            far, ((3, 2, 4), n - 4), past, ((2, 3, 1), n + 5), ((1, 2, 3), n - 3),
            ((2, 1, 4), 2 * n - 4), ((1, 3, 1), n + 9), ((3, 1, n + 3), 0), ((1, 1, 2), n // 2),
        )  # fmt: skip
    return found
