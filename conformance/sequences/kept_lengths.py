"""Known mistakes of lengths that are kept: when cached keys are rotated anew, and when not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from posenc_ref import Rotary
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.phases.schedule_mistakes import one_schedule

from .chunk_mistakes import with_lengths
from .chunked import Chunked

_ANEW = "Rotate all keys anew whenever the frequencies change."
#: Sizes of pages, at whose ends keys may be rotated anew.
_PAGES = (8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class _Step:
    """A chunk that is added to cached keys, and when they were rotated anew for the last time."""

    before: int  #: the number of keys before the chunk
    after: int
    last: int  #: the number of keys when all of them were rotated anew

    @property
    def size(self) -> int:
        return self.after - self.before


def rotated_anew(encoding: Rotary) -> Iterator[Mistake]:
    """Yield caches whose keys are rotated anew after some chunks only."""
    for when, anew in _occasions(encoding):
        for of_new, own in (("their own length", True), ("the length of that time", False)):
            yield Mistake(
                "stale-cache",
                f"cached keys are rotated again only {when}; keys inserted between have the "
                f"frequencies of {of_new}",
                with_lengths(partial(_lengths, anew, own)),
                _ANEW,
            )


def _occasions(encoding: Rotary) -> Iterator[tuple[str, Callable[[_Step], bool]]]:
    yield "when their number has doubled since the last time", lambda s: s.after >= 2 * s.last
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
    yield "by chunks of one token", lambda s: s.size == 1
    yield "by chunks of several tokens", lambda s: s.size > 1
    yield (
        "when their number passes a power of 2",
        lambda s: (s.after - 1).bit_length() > max(s.before - 1, 0).bit_length(),
    )
    for page in _PAGES:
        yield (
            f"when their number passes a multiple of {page}",
            lambda s, n=page: -(-s.after // n) > -(-s.before // n),
        )
        yield (
            f"when their number reaches a multiple of {page}",
            lambda s, n=page: s.after // n > s.before // n,
        )


def _trained(encoding: Rotary) -> int:
    """Return the length past which the frequencies change, 0 if there is none."""
    n = one_schedule(encoding)
    return int(n) if math.isfinite(n) else 0


def _lengths(anew: Callable[[_Step], bool], own: bool, call: Chunked) -> list[int]:
    """Return the length whose frequencies each chunk of keys has in the end."""
    lengths: list[int] = []
    last = 0
    for start, end in zip(call.starts, call.ends, strict=True):
        if not last or anew(_Step(start, end, last)):
            last, lengths = end, [end] * len(lengths)
        lengths.append(end if own else last)
    return lengths


def refuting(encoding: Rotary, longest: int) -> Iterator[tuple[int, ...]]:
    """Yield lengths of chunks that tell these occasions apart.

    A chunk takes the keys past the trained length from just before it and from exactly there,
    while their number does not double; others begin past it, are longer, or end at a power of 2.
    """
    n = _trained(encoding)
    if not 8 < n <= longest:
        return
    yield (n - 3, 8, n // 2)
    yield (n - 6, 6, 3, 1, n, 1)
    yield (n - 7, 5, 3, n + 5, 2)
    yield (n // 3, n // 3, n, 1, n // 2)
    yield (n - 1, 2, (1 << (n + 1).bit_length()) - n - 1)
    yield (n + 3, 2, 1)
