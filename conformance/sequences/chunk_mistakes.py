"""What sequences that are fed chunk by chunk are known to get wrong: positions and caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.oracle.calls import at_length, joined
from posenc_ref.conformance.phases.precision import rounded


@dataclass(frozen=True)
class Chunked:
    """A sequence x (B, H, S, D) and the lengths of the chunks in which it is fed."""

    encoding: Rotary
    x: np.ndarray
    chunks: tuple[int, ...]
    cache: bool = False  #: every key as at the last length, not each chunk as at its own
    judged: int = 2**40  #: so many tokens at the end are judged: a long prompt is judged elsewhere

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
        """What should come out."""
        return self.at(np.arange(self.x.shape[2]))

    def at(self, positions: np.ndarray, lengths: list[int] | None = None) -> Truth:
        """What would come out of the judged tokens with other positions, or other lengths.

        Positions broadcast to (B, H, S); there is a length for each chunk.
        """
        p = np.broadcast_to(positions, self.x.shape[:-1])
        parts = []
        for a, c, n in zip(self.starts, self.chunks, lengths or self.lengths, strict=True):
            kept = slice(max(a, self.tail.start), max(a + c, self.tail.start))
            part = at_length(self.encoding, self.x[:, :, kept], p[..., kept], max(n, 1))
            parts.append(part)
        return joined(parts)

    def tokens(self) -> Tokens:
        """Where every token stands in its chunk."""
        a, c = np.array(self.starts), np.array(self.chunks)
        j = np.repeat(np.arange(c.size), c)
        t = np.arange(c.sum())
        return Tokens(t, a[j], t - a[j], c[j], j, int(c[0]), c.size)


@dataclass(frozen=True)
class Tokens:
    """Every token (S,): its position, the start of its chunk, its index in it, and so on."""

    position: np.ndarray
    start: np.ndarray
    index: np.ndarray
    size: np.ndarray  #: tokens in its chunk
    chunk: np.ndarray  #: the number of its chunk
    prompt: int  #: tokens in the first chunk
    count: int  #: number of chunks


Map = Callable[[Tokens], np.ndarray]

MAPS: tuple[tuple[str, str, Map], ...] = (
    ("decode-offset", "every chunk is rotated as if it started at 0", lambda t: t.index),
    (
        "decode-offset",
        "the length of the cache is advanced before it is used",
        lambda t: t.position + t.size,
    ),
    (
        "decode-offset",
        "the length of the cache is advanced before it is used, except for the first chunk",
        lambda t: t.position + t.size * (t.chunk > 0),
    ),
    (
        "decode-offset",
        "chunks after the first start one position late",
        lambda t: t.position + (t.chunk > 0),
    ),
    (
        "decode-offset",
        "chunks after the first start one position early",
        lambda t: t.position - (t.chunk > 0),
    ),
    (
        "decode-offset",
        "every chunk starts one position later than the one before would have it",
        lambda t: t.position + t.chunk,
    ),
    (
        "decode-offset",
        "every chunk starts one position earlier than the one before would have it",
        lambda t: t.position - t.chunk,
    ),
    (
        "decode-offset",
        "the number of the chunk is its offset",
        lambda t: t.chunk + t.index,
    ),
    (
        "decode-offset",
        "the number of the chunk times its length is its offset",
        lambda t: t.chunk * t.size + t.index,
    ),
    (
        "decode-offset",
        "every chunk after the first starts at the length of the first",
        lambda t: np.where(t.chunk > 0, t.prompt + t.index, t.index),
    ),
    (
        "decode-offset",
        "every chunk after the first starts at the length of the one before",
        lambda t: t.index + np.where(t.chunk > 0, _before(t), 0),
    ),
    (
        "decode-offset",
        "after the first chunk, one token is counted for each chunk",
        lambda t: np.where(t.chunk > 0, t.prompt + t.chunk - 1 + t.index, t.index),
    ),
    ("decode-offset", "all tokens of a chunk get its first position", lambda t: t.start),
    (
        "decode-offset",
        "all tokens of a chunk get its last position",
        lambda t: t.start + t.size - 1,
    ),
    (
        "decode-offset",
        "single tokens are rotated as if they stood at 0",
        lambda t: np.where((t.size == 1) & (t.chunk > 0), 0, t.position),
    ),
    (
        "state",
        "a chunk gets the angles of the first chunk of its length",
        lambda t: _first_of_size(t) + t.index,
    ),
    (
        "state",
        "a chunk gets the angles of the first chunk of its length, the prompt's apart",
        lambda t: np.where(t.chunk > 0, _first_of_size(t, 1), 0) + t.index,
    ),
    ("decode-offset", "the offset is added twice", lambda t: t.position + t.start),
    ("position-origin", "every position is one too large", lambda t: t.position + 1),
    ("position-origin", "every position is one too small", lambda t: t.position - 1),
)


def _before(t: Tokens) -> np.ndarray:
    """The length of the chunk before each token's own."""
    sizes = np.bincount(t.chunk)
    return np.asarray(sizes[np.maximum(t.chunk - 1, 0)])


def _first_of_size(t: Tokens, since: int = 0) -> np.ndarray:
    """The start of the first chunk, from chunk number ``since`` on, as long as each token's own."""
    later = t.chunk >= since
    first = {int(n): int(t.start[later & (t.size == n)][0]) for n in set(t.size[later].tolist())}
    return np.array([first.get(int(n), 0) for n in t.size])


def decode_suspects() -> Iterator[Mistake]:
    """What is known to go wrong between chunks, the likelier first."""
    for code, message, positions in MAPS:
        yield Mistake(code, message, _predicts(positions))
    for dtype in ("bfloat16", "float16"):
        start, whole = _held(dtype)
        text = "position-precision"
        yield Mistake(text, f"the start of a chunk is held in {dtype}", _predicts(start))
        yield Mistake(text, f"positions are held in {dtype}", _predicts(whole))
    yield from _axis_suspects()
    yield from _length_suspects()


def _held(dtype: str) -> tuple[Map, Map]:
    """Maps with the start of a chunk, or the position, rounded."""
    return (
        lambda t: rounded(1.0 * t.start, dtype) + t.index,
        lambda t: rounded(1.0 * t.position, dtype),
    )


def judged_input(call: Chunked) -> np.ndarray:
    """What went in, of the tokens that are judged."""
    return call.x[:, :, call.tail]


def _axis_suspects() -> Iterator[Mistake]:
    def single(call: Chunked, axis: int) -> Truth:
        """Single tokens get the index of their head (1) or row (0) in place of their own, 0."""
        t = call.tokens()
        index = np.arange(call.x.shape[axis]).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
        return call.at(t.start + np.where(t.size == 1, index, t.index))

    yield Mistake(
        "position-axis",
        "for single tokens the head index is added in place of the token's",
        lambda call: single(call, 1),
    )
    yield Mistake(
        "row-offset",
        "for single tokens the row index is added in place of the token's",
        lambda call: single(call, 0),
    )

    def first_row(call: Chunked, others: np.ndarray) -> Truth:
        truth, t = call.truth(), call.tokens()
        later = (t.size == 1)[call.tail, None] & (np.arange(call.x.shape[0]) > 0)[
            :, None, None, None
        ]
        value = np.where(later, others, truth.value)
        return Truth(value, truth.terms, truth.angle, truth.amplitude)

    said = "with one token per row, all rows but the first come out"
    yield Mistake(
        "row-offset", f"{said} unrotated", lambda call: first_row(call, judged_input(call))
    )
    yield Mistake(
        "row-offset", f"{said} zero", lambda call: first_row(call, 0 * judged_input(call))
    )


def _length_suspects() -> Iterator[Mistake]:
    """The length that length-dependent scaling sees."""

    def with_lengths(lengths: Callable[[Chunked], list[int]]) -> Callable[[Chunked], Truth | None]:
        def predict(call: Chunked) -> Truth | None:
            if not call.encoding.depends_on_length:
                return None
            return call.at(np.arange(call.x.shape[2]), lengths(call))

        return predict

    yield Mistake(
        "scaling-parameter",
        "the scaling sees the length of the chunk, not that of the sequence",
        with_lengths(lambda call: list(call.chunks)),
    )
    yield Mistake(
        "state",
        "the frequencies of the first chunk are kept for the whole sequence",
        with_lengths(lambda call: [call.chunks[0]] * len(call.chunks)),
    )
    yield Mistake(
        "state",
        "every chunk is rotated as at the length before it",
        with_lengths(lambda call: [max(a, c) for a, c in _pairs(call)]),
    )
    yield Mistake(
        "scaling-missing",
        "the frequencies are those of the original length, however long the sequence gets",
        with_lengths(lambda call: [1] * len(call.chunks)),
    )
    yield Mistake(
        "scaling-parameter",
        "every chunk is rotated as at the length of the whole sequence",
        with_lengths(lambda call: [sum(call.chunks)] * len(call.chunks)),
    )


def _pairs(call: Chunked) -> list[tuple[int, int]]:
    """Start and, for the first chunk, its own length."""
    return [(a, c if a == 0 else 1) for a, c in zip(call.starts, call.chunks, strict=True)]


def _predicts(positions: Map) -> Callable[[Chunked], Truth]:
    return lambda call: call.at(positions(call.tokens()))
