"""Cached keys that are rotated again while their old rotation is not undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.apply import joined
from posenc_ref.conformance.oracle.calls import at_length, one_table

from .chunked import Chunked

_REMEDY = (
    "Keep raw keys in the cache, and rotate all of them by position * frequency with the "
    "frequencies of the whole cache's length; or undo the old rotation (rotate back by the old "
    "angles) before a key is rotated again."
)
#: The lengths whose frequencies a chunk's keys are rotated with, in turn.
Lengths = Callable[[Chunked, int], list[int]]


def _changed(call: Chunked, before: int, after: int) -> bool:
    return not one_table(call.encoding, (max(before, 1), max(after, 1)))


def _with_each(call: Chunked, j: int) -> list[int]:
    return call.ends[j:]


def _with_changes(call: Chunked, j: int) -> list[int]:
    ends = call.ends
    later = range(j + 1, len(ends))
    return [ends[j], *(ends[i] for i in later if _changed(call, ends[i - 1], ends[i]))]


def _with_scaled(call: Chunked, j: int) -> list[int]:
    return [call.ends[j], *(n for n in call.ends[j + 1 :] if _changed(call, 1, n))]


def _with_last(call: Chunked, j: int, changed: bool) -> list[int]:
    own, last = call.ends[j], call.ends[-1]
    again = j < len(call.ends) - 1 and (not changed or _changed(call, own, last))
    return [own, last] if again else [own]


def _before_last(call: Chunked, j: int, changed: bool) -> list[int]:
    old, last = call.starts[-1], call.ends[-1]
    if j == len(call.ends) - 1 or (changed and not _changed(call, old, last)):
        return [last]
    return [old, last]


def _stored(call: Chunked, j: int, since: int) -> list[int]:
    """Return the lengths of keys that are stored rotated only past the original length."""
    own, last = call.ends[j], call.ends[-1]
    again = since <= j < len(call.ends) - 1 and _changed(call, 1, own)
    return [own, last] if again else [last]


def _with_next(call: Chunked, j: int) -> list[int]:
    return call.ends[j : j + 2]


def _only_before(call: Chunked, j: int) -> list[int]:
    return call.ends[-2:] if j == len(call.ends) - 2 else call.ends[-1:]


_CASES: tuple[tuple[str, Lengths], ...] = (
    ("with every later chunk", _with_each),
    ("with every later chunk that changes the frequencies", _with_changes),
    ("with every later chunk that ends past the original length", _with_scaled),
    ("with the last chunk only", partial(_with_last, changed=False)),
    ("with the last chunk, if the frequencies have changed", partial(_with_last, changed=True)),
    (
        "with the last chunk only (before it, they had the frequencies of the length then)",
        partial(_before_last, changed=False),
    ),
    (
        "with the last chunk, if it changes the frequencies (before it, they had those of the "
        "length then)",
        partial(_before_last, changed=True),
    ),
    ("with the chunk after their own only", _with_next),
    (
        "with the last chunk, if they are those of the chunk before it (older ones are right)",
        _only_before,
    ),
    (
        "with the last chunk, if their own chunk ended past the original length (other keys are "
        "cached raw)",
        partial(_stored, since=0),
    ),
    (
        "with the last chunk, if their own chunk ended past the original length and was not the "
        "first (other keys are cached raw)",
        partial(_stored, since=1),
    ),
)


def rotated_again() -> Iterator[Mistake]:
    """Yield keys whose angle is the sum of the old rotation and of the new ones."""
    for when, lengths in _CASES:
        text = (
            f"cached keys are rotated again {when}, and the old rotation is not undone: the angle "
            "of a key is the sum of both"
        )
        yield Mistake("stale-cache", text, partial(_summed, lengths), _REMEDY)


def _summed(lengths: Lengths, call: Chunked) -> Truth | None:
    """Return the keys, each rotated once with the frequencies of each of its chunk's lengths."""
    if call.encoding.num_axes > 1:
        return None
    position, parts = np.arange(call.x.shape[2]), []
    for j, (a, b) in enumerate(zip(call.starts, call.ends, strict=True)):
        kept = slice(max(a, call.tail.start), max(b, call.tail.start))
        at, x = position[kept], call.x[:, :, kept]
        part: Truth | None = None
        for n in lengths(call, j) if at.size else call.ends[j : j + 1]:
            new = at_length(call.encoding, x if part is None else part.value, at, max(n, 1))
            part = new if part is None else _sum(part, new)
        assert part is not None
        parts.append(part)
    return joined(parts)


def _sum(old: Truth, new: Truth) -> Truth:
    """Return the truth after a second rotation; the rounding errors of both add up."""
    return Truth(new.value, old.terms + new.terms, old.angle + new.angle, new.amplitude)
