"""Known mistakes of sequences that are fed in chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from types import SimpleNamespace

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.match import placed
from posenc_ref.conformance.diagnosis.mistake import Mistake, mistakes
from posenc_ref.conformance.diagnosis.position_mistakes import (
    Tokens,
    at,
    of_any_start,
    only_first_row,
)
from posenc_ref.conformance.diagnosis.rule import DECLARED
from posenc_ref.conformance.oracle.apply import joined
from posenc_ref.conformance.oracle.calls import at_length
from posenc_ref.conformance.rotary.wrong_rotations import other_rotations

from .offset_mistakes import HALVES


@dataclass(frozen=True)
class Chunked:
    """A sequence x (B, H, S, D), and the lengths of the chunks that it is fed in."""

    encoding: Rotary
    x: np.ndarray
    chunks: tuple[int, ...]
    cache: bool = False  #: whether all chunks use the final length, not their own
    judged: int | None = None  #: how many of the last tokens are judged; None: all

    @property
    def tail(self) -> slice:
        """Return the slice of the last ``judged`` tokens."""
        count = self.x.shape[2]
        return slice(max(count - (self.judged or count), 0), None)

    @property
    def ends(self) -> list[int]:
        """Return the length of the sequence after every chunk."""
        return list(accumulate(self.chunks))

    @property
    def starts(self) -> list[int]:
        """Return the first position of every chunk."""
        return [0, *self.ends[:-1]]

    @property
    def lengths(self) -> list[int]:
        """Return, for each chunk, the sequence length that sets its frequencies."""
        return self.ends[-1:] * len(self.chunks) if self.cache else self.ends

    def truth(self) -> Truth:
        """Return the expected result for the tokens whose results are compared."""
        return self.at(np.arange(self.x.shape[2]))

    def at(self, positions: np.ndarray, lengths: Sequence[int] | None = None) -> Truth:
        """Return the result for the judged tokens at ``positions``, which broadcast to (B, H, S).

        ``lengths`` replaces :attr:`lengths`.
        """
        p = np.broadcast_to(positions, self.x.shape[:-1])
        parts = []
        for a, b, n in zip(self.starts, self.ends, lengths or self.lengths, strict=True):
            kept = slice(max(a, self.tail.start), max(b, self.tail.start))
            part = at_length(self.encoding, self.x[:, :, kept], p[..., kept], max(n, 1))
            parts.append(part)
        return joined(parts)

    def partly(self, where: Callable[[int, int], bool], mistake: Mistake) -> Truth | None:
        """Return the result if a mistake of rotations is made in some chunks only.

        ``where(j, n)`` says whether it is made in chunk j of n tokens. The result is None if no
        judged token is in such a chunk.
        """
        positions, start = np.arange(self.x.shape[2]), self.tail.start
        parts, made = [], False
        for j, (a, b, n) in enumerate(zip(self.starts, self.ends, self.lengths, strict=True)):
            kept = slice(max(a, start), max(b, start))
            x, at = self.x[:, :, kept], positions[kept]
            wrong = None
            if at.size and where(j, b - a):
                wrong = mistake.predict(SimpleNamespace(x=x, positions=at))
            made |= wrong is not None
            parts.append(wrong or at_length(self.encoding, x, at, max(n, 1)))
        return joined(parts) if made else None

    def rotated(self) -> np.ndarray:
        """Return the judged tokens before the rotation."""
        return self.x[:, :, self.tail]

    def rotated_to(self, positions: np.ndarray) -> Truth:
        """Return the result for the judged tokens at their positions (B, H, judged tokens)."""
        whole = np.array(np.broadcast_to(np.arange(self.x.shape[2]), self.x.shape[:-1]))
        whole[..., self.tail] = positions
        return self.at(whole)

    def variables(self) -> Variables:
        """Return numbers that may be mistaken for the positions of the judged tokens."""
        t = self.tokens()
        sizes = np.array(self.chunks)
        single = np.asarray(sizes == 1)
        after_longer = single & np.r_[False, ~single[:-1]]
        row, head = np.indices(self.x.shape[:2])
        before = np.maximum(t.chunk - 1, 0)
        of_token = {
            DECLARED: t.position,
            "the index in the chunk": t.index,
            "the number of tokens of the chunk after this one": t.size - 1 - t.index,
            "the number of earlier chunks": t.chunk,
            "the start of the chunk": t.start,
            "the number of tokens of all batch rows in earlier chunks": t.start * len(self.x),
            "the number of tokens of all batch rows and heads in earlier chunks": t.start
            * len(self.x)
            * self.x.shape[1],
            "the length of the chunk": t.size,
            "the length of the chunk before": sizes[before] * t.later,
            "the start of the chunk before": np.array(self.starts)[before],
            "the length of the first chunk": np.full_like(t.chunk, t.prompt),
            "the length of the sequence": np.full_like(t.chunk, self.ends[-1]),
            "the number of earlier chunks of one token": _earlier(single)[t.chunk],
            "the number of earlier chunks of several tokens": _earlier(~single)[t.chunk],
            "the number of earlier single tokens right after a longer chunk": _earlier(
                after_longer
            )[t.chunk],
        }
        rows = {"the batch row": row, "the head": head}
        return {
            **{name: v[self.tail] for name, v in of_token.items()},
            **{name: np.expand_dims(v, -1) for name, v in rows.items()},
        }

    def tokens(self) -> ChunkTokens:
        """Return the chunk of every token, and the token's index in the chunk."""
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


def _earlier(chunks: np.ndarray) -> np.ndarray:
    """Return, for each chunk, how many of the earlier ones are marked in ``chunks``."""
    return np.asarray(np.cumsum(chunks) - chunks, np.int64)


Map = Callable[[ChunkTokens], np.ndarray]

#: What is right for every chunk.
START = (
    "Rotate token i of a chunk to start + i, where start is the number of tokens in all earlier "
    "chunks"
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
        lambda t: _before(t) * t.later + t.index,
        f"{START}: add the length of a chunk to the start, do not replace the start by it.",
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


def _before(t: ChunkTokens) -> np.ndarray:
    """Return, for each token, the length of the chunk before its own."""
    sizes = np.bincount(t.chunk)
    return np.asarray(sizes[np.maximum(t.chunk - 1, 0)])


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


def chunk_mistakes() -> Iterator[Mistake]:
    """Yield the known mistakes of chunks, likely ones first."""
    yield from mistakes("decode-offset", at, *OFFSETS)
    yield from mistakes("state", at, *STATES)
    yield from of_any_start("the start of a chunk", HALVES)
    text = "in chunks of one token, the {} index is added to the position"
    remedy = f"{START}, for all rows and heads alike."
    yield Mistake("position-axis", text.format("head"), _single(1), remedy)
    yield Mistake("row-offset", text.format("row"), _single(0), remedy)
    yield from only_first_row()
    remedy = "Choose the frequencies of a chunk by {}."
    up_to = "the number of tokens up to the end of the chunk, earlier chunks included"
    for code, what, lengths in (
        ("scaling-parameter", "the length of the chunk alone", lambda c: c.chunks),
        ("state", "the length of the first chunk", lambda c: c.chunks[:1] * len(c.chunks)),
        ("state", "the length of the longest chunk", lambda c: [max(c.chunks)] * len(c.chunks)),
        (
            "state",
            "the length of the longest chunk so far",
            lambda c: np.maximum.accumulate(c.chunks).tolist(),
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
        yield Mistake(code, text, with_lengths(lengths), remedy.format(up_to))


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
