"""Known mistakes of sequences that are fed chunk by chunk."""

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
    """A sequence x (B, H, S, D) and the lengths of the chunks in which it is fed."""

    encoding: Rotary
    x: np.ndarray
    chunks: tuple[int, ...]
    cache: bool = False  #: every key as at the last length, not each chunk as at its own
    judged: int = 2**40  #: the number of tokens at the end that are judged

    @property
    def tail(self) -> slice:
        """The tokens that are judged."""
        return slice(max(self.x.shape[2] - self.judged, 0), None)

    @property
    def starts(self) -> list[int]:
        """The position of the first token of every chunk."""
        return [sum(self.chunks[:j]) for j in range(len(self.chunks))]

    @property
    def lengths(self) -> list[int]:
        """The length of the sequence that each chunk is rotated as at."""
        total = sum(self.chunks)
        ends = [a + c for a, c in zip(self.starts, self.chunks, strict=True)]
        return [total] * len(ends) if self.cache else ends

    def truth(self) -> Truth:
        """The reference."""
        return self.at(np.arange(self.x.shape[2]))

    def at(self, positions: np.ndarray, lengths: list[int] | None = None) -> Truth:
        """The result for the judged tokens at other positions, or other lengths.

        Positions broadcast to (B, H, S); there is a length for each chunk.
        """
        p = np.broadcast_to(positions, self.x.shape[:-1])
        parts = []
        for a, c, n in zip(self.starts, self.chunks, lengths or self.lengths, strict=True):
            kept = slice(max(a, self.tail.start), max(a + c, self.tail.start))
            part = at_length(self.encoding, self.x[:, :, kept], p[..., kept], max(n, 1))
            parts.append(part)
        return joined(parts)

    def tokens(self) -> ChunkTokens:
        """The place of every token in its chunk."""
        a, c = np.array(self.starts), np.array(self.chunks)
        j = np.repeat(np.arange(c.size), c)
        return ChunkTokens(a[j], np.arange(c.sum()) - a[j], c[j], j, int(c[0]), c.size)


@dataclass(frozen=True)
class ChunkTokens(Tokens):
    """The tokens (S,) of a sequence: the start and the size of their chunk, their index in it."""

    chunk: np.ndarray  #: the number of its chunk
    prompt: int  #: tokens in the first chunk
    count: int  #: number of chunks

    @property
    def later(self) -> np.ndarray:
        """Whether the token stands after the first chunk."""
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
        "every chunk starts one position later than the one before would have it",
        lambda t: t.position + t.chunk,
    ),
    (
        "every chunk starts one position earlier than the one before would have it",
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
        "a chunk gets the angles of the first chunk of its length, the prompt's apart",
        lambda t: _first_of_size(t, 1) * t.later + t.index,
    ),
)


def _before(t: ChunkTokens) -> np.ndarray:
    """The length of the chunk before each token's own."""
    sizes = np.bincount(t.chunk)
    return np.asarray(sizes[np.maximum(t.chunk - 1, 0)])


def _first_of_size(t: ChunkTokens, since: int = 0) -> np.ndarray:
    """The start of the first chunk, from chunk number ``since`` on, as long as each token's own."""
    later = t.chunk >= since
    first = {int(n): int(t.start[later & (t.size == n)][0]) for n in set(t.size[later].tolist())}
    return np.array([first.get(int(n), 0) for n in t.size])


def chunk_mistakes() -> Iterator[Mistake]:
    """Yield the known mistakes between chunks, the likelier first."""
    yield from mistakes("decode-offset", at, *OFFSETS)
    yield from mistakes("state", at, *STATES)
    yield from of_any_start("the start of a chunk", HALVES)

    def single(axis: int) -> Callable[[Chunked], Truth]:
        """Single tokens get the index of their head (1) or row (0) in place of their own, 0."""

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
    """The length that length-dependent scaling sees."""

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
