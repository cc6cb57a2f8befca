"""Known mistakes of sequences that are fed in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake, mistakes
from posenc_ref.conformance.diagnosis.position_mistakes import (
    Tokens,
    at,
    of_any_start,
    only_first_row,
)
from posenc_ref.conformance.oracle.apply import joined
from posenc_ref.conformance.oracle.calls import at_length

from .offset_mistakes import HALVES


@dataclass(frozen=True)
class Chunked:
    """A sequence x (B, H, S, D), and the lengths of the chunks that it is fed in."""

    encoding: Rotary
    x: np.ndarray
    chunks: tuple[int, ...]
    cache: bool = False  #: whether all chunks use the final length, not their own
    judged: int = 2**40  #: how many of the last tokens are judged

    @property
    def tail(self) -> slice:
        """Return the slice of judged tokens."""
        return slice(max(self.x.shape[2] - self.judged, 0), None)

    @property
    def starts(self) -> list[int]:
        """Return the first position of every chunk."""
        return [sum(self.chunks[:j]) for j in range(len(self.chunks))]

    @property
    def lengths(self) -> list[int]:
        """Return, for each chunk, the sequence length that sets its frequencies."""
        total = sum(self.chunks)
        ends = [a + c for a, c in zip(self.starts, self.chunks, strict=True)]
        return [total] * len(ends) if self.cache else ends

    def truth(self) -> Truth:
        """Return the reference."""
        return self.at(np.arange(self.x.shape[2]))

    def at(self, positions: np.ndarray, lengths: list[int] | None = None) -> Truth:
        """Return the result for the judged tokens at other positions, or other lengths.

        Positions broadcast to (B, H, S); ``lengths`` has one entry per chunk.
        """
        p = np.broadcast_to(positions, self.x.shape[:-1])
        parts = []
        for a, c, n in zip(self.starts, self.chunks, lengths or self.lengths, strict=True):
            kept = slice(max(a, self.tail.start), max(a + c, self.tail.start))
            part = at_length(self.encoding, self.x[:, :, kept], p[..., kept], max(n, 1))
            parts.append(part)
        return joined(parts)

    def tokens(self) -> ChunkTokens:
        """Return the chunk of every token and its index in it."""
        a, c = np.array(self.starts), np.array(self.chunks)
        j = np.repeat(np.arange(c.size), c)
        return ChunkTokens(a[j], np.arange(c.sum()) - a[j], c[j], j, int(c[0]), c.size)


@dataclass(frozen=True)
class ChunkTokens(Tokens):
    """The tokens (S,) of a sequence: start, size and number of their chunk, index in the chunk."""

    chunk: np.ndarray  #: the number of the chunk, from 0
    prompt: int  #: the number of tokens in the first chunk
    count: int  #: the number of chunks

    @property
    def later(self) -> np.ndarray:
        """Return whether each token comes after the first chunk."""
        return np.asarray(self.chunk > 0)


Map = Callable[[ChunkTokens], np.ndarray]

OFFSETS: tuple[tuple[str, Map], ...] = (
    ("every chunk is rotated as if it started at 0", lambda t: t.index),
    ("the length of the cache is advanced before it is used", lambda t: t.position + t.size),
    (
        "the length of the cache is advanced before it is used, except for the first chunk",
        lambda t: t.position + t.size * t.later,
    ),
    ("chunks after the first start one position late", lambda t: t.position + t.later),
    ("chunks after the first start one position early", lambda t: t.position - t.later),
    (
        "each chunk adds one position too many: the error grows with the number of the chunk",
        lambda t: t.position + t.chunk,
    ),
    (
        "each chunk adds one position too few: the error grows with the number of the chunk",
        lambda t: t.position - t.chunk,
    ),
    ("the number of the chunk is its offset", lambda t: t.chunk + t.index),
    (
        "the number of the chunk times its length is its offset",
        lambda t: t.chunk * t.size + t.index,
    ),
    (
        "every chunk after the first starts at the length of the first",
        lambda t: t.prompt * t.later + t.index,
    ),
    (
        "every chunk after the first starts at the length of the one before",
        lambda t: _before(t) * t.later + t.index,
    ),
    (
        "after the first chunk, one token is counted for each chunk",
        lambda t: (t.prompt + t.chunk - 1) * t.later + t.index,
    ),
    ("all tokens of a chunk get its first position", lambda t: t.start),
    ("all tokens of a chunk get its last position", lambda t: t.start + t.size - 1),
    (
        "single tokens are rotated as if they stood at 0",
        lambda t: np.where((t.size == 1) & t.later, 0, t.position),
    ),
)
STATES: tuple[tuple[str, Map], ...] = (
    (
        "a chunk gets the angles of the first chunk of its length",
        lambda t: _first_of_size(t) + t.index,
    ),
    (
        "after the first chunk, every chunk gets the angles of the earliest one of its length",
        lambda t: _first_of_size(t, 1) * t.later + t.index,
    ),
)


def _before(t: ChunkTokens) -> np.ndarray:
    """Return, for each token, the length of the chunk before its own."""
    sizes = np.bincount(t.chunk)
    return np.asarray(sizes[np.maximum(t.chunk - 1, 0)])


def _first_of_size(t: ChunkTokens, since: int = 0) -> np.ndarray:
    """Return, for each token, the start of the first chunk as long as its own chunk.

    Only chunks from number ``since`` on count.
    """
    later = t.chunk >= since
    first = {int(n): int(t.start[later & (t.size == n)][0]) for n in set(t.size[later].tolist())}
    return np.array([first.get(int(n), 0) for n in t.size])


def chunk_mistakes() -> Iterator[Mistake]:
    """Yield the known mistakes of chunks, likely ones first."""
    yield from mistakes("decode-offset", at, *OFFSETS)
    yield from mistakes("state", at, *STATES)
    yield from of_any_start("the start of a chunk", HALVES)

    def single(axis: int) -> Callable[[Chunked], Truth]:
        """Return a prediction: a single token is shifted by its head (1) or row (0) index."""

        def predict(call: Chunked) -> Truth:
            t, index = call.tokens(), np.indices(call.x.shape[:-1])[axis]
            return call.at(t.start + np.where(t.size == 1, index, t.index))

        return predict

    text = "for single tokens the {} index is added in place of the token's"
    yield Mistake("position-axis", text.format("head"), single(1))
    yield Mistake("row-offset", text.format("row"), single(0))
    yield from only_first_row()
    yield from _length_mistakes()


def _length_mistakes() -> Iterator[Mistake]:
    """Yield wrong choices of the length that sets the frequencies."""

    def at(lengths: Callable[[Chunked], list[int]]) -> Callable[[Chunked], Truth | None]:
        def predict(call: Chunked) -> Truth | None:
            if not call.encoding.depends_on_length:
                return None
            return call.at(np.arange(call.x.shape[2]), lengths(call))

        return predict

    yield Mistake(
        "scaling-parameter",
        "the scaling sees the length of the chunk, not that of the sequence",
        at(lambda call: list(call.chunks)),
    )
    yield from mistakes(
        "state",
        at,
        (
            "the frequencies of the first chunk are kept for the whole sequence",
            lambda call: [call.chunks[0]] * len(call.chunks),
        ),
        (
            "every chunk is rotated as at the length before it",
            lambda call: [call.chunks[0], *call.starts[1:]],
        ),
    )
    yield Mistake(
        "scaling-missing",
        "the frequencies are those of the original length, however long the sequence gets",
        at(lambda call: [1] * len(call.chunks)),
    )
    yield Mistake(
        "scaling-parameter",
        "every chunk is rotated as at the length of the whole sequence",
        at(lambda call: [sum(call.chunks)] * len(call.chunks)),
    )
