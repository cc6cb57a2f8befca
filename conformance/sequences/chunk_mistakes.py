"""Known mistakes of sequences that are fed in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import placed
from posenc_ref.conformance.diagnosis.mistake import Mistake, mistakes
from posenc_ref.conformance.diagnosis.position_mistakes import (
    at,
    of_any_start,
    only_first_row,
)
from posenc_ref.conformance.rotary.wrong_rotations import other_rotations

from .chunked import Chunked, ChunkTokens
from .kept_tables import Positions, grown_tables
from .offset_mistakes import HALVES

Map = Callable[[ChunkTokens], np.ndarray]

#: What is right for every chunk.
START = (
    "Rotate token i of a chunk to start + i, where start is the number of tokens in all earlier "
    "chunks"
)
_LENGTH = (
    "Choose the frequencies of a chunk by the number of tokens up to the end of the chunk, earlier "
    "chunks included."
)
_KEY = "Keep cos and sin under the chunk's start as well as its length, or compute them anew."

OFFSETS: tuple[tuple[str, Map, str], ...] = (
    (
        "every chunk is rotated as if it started at 0",
        lambda t: t.index,
        f"{START}; the function leaves the start out.",
    ),
    (
        "the offset of a chunk counts the chunk's own tokens",
        lambda t: t.position + t.size,
        f"{START}: read the length of the cache before the chunk is added to it.",
    ),
    (
        "the offset of a chunk counts the chunk's own tokens, except for the first chunk",
        lambda t: t.position + t.size * t.later,
        f"{START}: read the length of the cache before the chunk is added to it.",
    ),
    (
        "chunks after the first start one position late",
        lambda t: t.position + t.later,
        f"{START}: do not add 1 after the first chunk.",
    ),
    (
        "chunks after the first start one position early",
        lambda t: t.position - t.later,
        f"{START}: do not subtract 1 after the first chunk.",
    ),
    (
        "every chunk adds one position too many to later chunks",
        lambda t: t.position + t.chunk,
        f"{START}: advance by the length of each chunk, without adding 1.",
    ),
    (
        "every chunk adds one position too few to later chunks",
        lambda t: t.position - t.chunk,
        f"{START}: advance by the length of each chunk, without subtracting 1.",
    ),
    (
        "the first chunk adds one too few to the count of earlier tokens, and so does every chunk "
        "that finds a count of 0",
        lambda t: _counted(t)[t.chunk] + t.index,
        f"{START}: advance by the length of each chunk, without subtracting 1.",
    ),
    (
        "the offset of a chunk is the number of earlier chunks",
        lambda t: t.chunk + t.index,
        f"{START}: count tokens, not chunks.",
    ),
    (
        "the offset of a chunk is the number of earlier chunks times the chunk's own length",
        lambda t: t.chunk * t.size + t.index,
        f"{START}: add up the lengths of the earlier chunks, which may differ.",
    ),
    (
        "all later chunks start where the first one ends",
        lambda t: t.prompt * t.later + t.index,
        f"{START}: advance the start by the length of every chunk, not of the first one only.",
    ),
    (
        "the offset of a chunk is the length of the previous chunk alone",
        lambda t: _before(t, 1) + t.index,
        f"{START}: add the length of a chunk to the start, do not replace the start by it.",
    ),
    (
        "the offset of a chunk is the length of the two chunks before alone",
        lambda t: _before(t, 2) + t.index,
        f"{START}: add up the lengths of all earlier chunks.",
    ),
    (
        "the offset of a chunk is the length of the three chunks before alone",
        lambda t: _before(t, 3) + t.index,
        f"{START}: add up the lengths of all earlier chunks.",
    ),
    (
        "after a chunk of several tokens the offset is set to the chunk's length; single tokens "
        "add 1 to it",
        lambda t: _last_long(t) + t.index,
        f"{START}: add the length of every chunk to the start, do not replace the start by it.",
    ),
    (
        "each chunk after the first adds 1 to the offset, not its length",
        lambda t: (t.prompt + t.chunk - 1) * t.later + t.index,
        f"{START}: advance by the length of each chunk, not by 1.",
    ),
    (
        "all tokens of a chunk get its first position",
        lambda t: t.start,
        f"{START}: add the index in the chunk, arange(length).",
    ),
    (
        "all tokens of a chunk get its last position",
        lambda t: t.start + t.size - 1,
        f"{START}: each token has its own index i, not the last one.",
    ),
    (
        "single tokens are rotated as if they stood at 0",
        lambda t: np.where((t.size == 1) & t.later, 0, t.position),
        f"{START}, also in chunks of one token.",
    ),
)
STATES: tuple[tuple[str, Map, str], ...] = (
    (
        "a chunk gets the angles of the first equally long chunk",
        lambda t: _equal(t) + t.index,
        _KEY,
    ),
    (
        "a later chunk gets the angles of the first equally long chunk after the prompt",
        lambda t: _equal(t, 1) * t.later + t.index,
        _KEY,
    ),
    (
        "a chunk gets the angles of the chunk before, if both are equally long",
        lambda t: _run(t) + t.index,
        _KEY,
    ),
    (
        "a chunk after the second gets the angles of the chunk before, if both are equally long",
        lambda t: _run(t, 1) + t.index,
        _KEY,
    ),
)


def _counted(t: ChunkTokens) -> np.ndarray:
    """Return the count that each chunk finds if one that finds 0 adds 1 less than its length."""
    count, found = 0, []
    for size in np.bincount(t.chunk, minlength=t.count).tolist():
        found.append(count)
        count += size if count else max(size - 1, 0)
    return np.array(found)


def _before(t: ChunkTokens, count: int) -> np.ndarray:
    """Return, for each token, the length of the ``count`` chunks before its own."""
    ends = np.cumsum(np.bincount(t.chunk, minlength=t.count))
    starts = np.r_[0, ends[:-1]]
    return np.asarray((starts - starts[np.maximum(np.arange(t.count) - count, 0)])[t.chunk])


def _last_long(t: ChunkTokens) -> np.ndarray:
    """Return, for each token, the tokens since the start of the last chunk of several tokens."""
    starts, at = [], 0
    for n in np.bincount(t.chunk, minlength=t.count).tolist():
        starts.append(at)
        at = n if n > 1 else at + n
    return np.asarray(np.array(starts)[t.chunk])


def _equal(t: ChunkTokens, since: int = 0) -> np.ndarray:
    """Return, for each token, the start of the first chunk that has the length of its chunk.

    The first ``since`` chunks are not searched.
    """
    later = t.chunk >= since
    first = {int(n): int(t.start[later & (t.size == n)][0]) for n in set(t.size[later].tolist())}
    return np.array([first.get(int(n), 0) for n in t.size])


def _run(t: ChunkTokens, since: int = 0) -> np.ndarray:
    """Return, for each token, the start of the first of equally long chunks in succession.

    The first ``since`` chunks begin no such run.
    """
    sizes = np.bincount(t.chunk, minlength=t.count)
    starts = np.cumsum(sizes) - sizes
    first = starts.copy()
    for j in range(since + 1, sizes.size):
        if sizes[j] == sizes[j - 1]:
            first[j] = first[j - 1]
    return np.asarray(first[t.chunk])


def _single(axis: int) -> Callable[[Chunked], Truth]:
    """Return a ``predict`` that adds the row or head index (axis 0, 1) in chunks of one token."""

    def predict(call: Chunked) -> Truth:
        t, index = call.tokens(), np.indices(call.x.shape[:-1])[axis]
        return call.at(t.start + np.where(t.size == 1, index, t.index))

    return predict


def with_lengths(
    lengths: Callable[[Chunked], Sequence[int]],
) -> Callable[[Chunked], Truth | None]:
    """Return a ``predict`` that uses the frequencies of other lengths, one for each chunk."""
    return lambda call: (
        call.at(np.arange(call.x.shape[2]), lengths(call))
        if call.encoding.depends_on_length
        else None
    )


def chunk_mistakes(of_length: str = _LENGTH) -> Iterator[Mistake]:
    """Yield the known mistakes of chunks, likely ones first.

    ``of_length`` is the remedy for frequencies of another length than declared.
    """
    yield from mistakes("decode-offset", at, *OFFSETS)
    yield from mistakes("state", at, *STATES)
    yield from of_any_start("the start of a chunk", HALVES)
    text = "in chunks of one token, the {} index is added to the position"
    remedy = f"{START}, for all rows and heads alike."
    yield Mistake("position-axis", text.format("head"), _single(1), remedy)
    yield Mistake("row-offset", text.format("row"), _single(0), remedy)
    yield from only_first_row()
    for code, what, lengths in (
        ("scaling-parameter", "the length of the chunk alone", lambda c: c.chunks),
        ("state", "the length of the first chunk", lambda c: c.chunks[:1] * len(c.chunks)),
        ("state", "the length of the longest chunk", lambda c: [max(c.chunks)] * len(c.chunks)),
        (
            "state",
            "the length of the longest chunk so far",
            lambda c: np.maximum.accumulate(c.chunks).tolist(),
        ),
        (
            "scaling-parameter",
            "the length of the chunk alone, if it has one token",
            lambda c: [n if n == 1 else end for n, end in zip(c.chunks, c.ends, strict=True)],
        ),
        (
            "scaling-parameter",
            "the length of the chunk alone, if it has several tokens",
            lambda c: [n if n > 1 else end for n, end in zip(c.chunks, c.ends, strict=True)],
        ),
        ("state", "the length before the chunk", lambda c: [c.chunks[0], *c.starts[1:]]),
        ("scaling-missing", "the original length", lambda c: [1] * len(c.chunks)),
        (
            "scaling-parameter",
            "the length of the whole sequence",
            lambda c: c.ends[-1:] * len(c.chunks),
        ),
    ):
        text = f"the frequencies of every chunk are those for {what}"
        yield Mistake(code, text, with_lengths(lengths), of_length)


def grown_in_chunks() -> Iterator[Mistake]:
    """Yield tables that grow with the sequence, and whose new rows have wrong positions."""
    return grown_tables(_from_table)


def _from_table(positions: Positions, whole: bool) -> Callable[[Chunked], Truth]:
    """Return the result of chunks whose positions are those of a kept table's rows."""

    def predict(call: Chunked) -> Truth:
        b, h = call.x.shape[:2]
        calls = [((b, h, n), at) for n, at in zip(call.chunks, call.starts, strict=True)]
        used = [positions(calls[: j + 1]) for j in range(len(calls))]
        return call.at(np.concatenate(used))

    return predict


#: Chunks in which another rotation may be made, given their number and their length.
_PLACES: dict[str, Callable[[int, int], bool]] = {
    "in chunks of one token": lambda j, n: n == 1,
    "in chunks of several tokens": lambda j, n: n > 1,
    "in the first chunk": lambda j, n: j == 0,
    "in chunks after the first": lambda j, n: j > 0,
}


def rotations_in_part(encoding: Rotary) -> Iterator[Mistake]:
    """Yield other rotations at the right positions that are made in some chunks only."""
    if encoding.depends_on_length or encoding.num_axes > 1:
        return
    for mistake in other_rotations(encoding):
        for words, where in _PLACES.items():
            yield replace(
                placed(mistake, f"only {words}"), predict=partial(_partly, where, mistake)
            )


def _partly(where: Callable[[int, int], bool], mistake: Mistake, call: Chunked) -> Truth | None:
    return call.partly(where, mistake)
