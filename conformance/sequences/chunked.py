"""Sequences that are fed in chunks: where each token is, and what is expected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from types import SimpleNamespace

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import ALONE, Variables
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import Tokens, other_tokens
from posenc_ref.conformance.diagnosis.rule import DECLARED
from posenc_ref.conformance.oracle.apply import joined
from posenc_ref.conformance.oracle.calls import at_length


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
        return self._declared

    @cached_property
    def _declared(self) -> Truth:
        return self._at(np.arange(self.x.shape[2]), self.lengths)

    def at(self, positions: np.ndarray, lengths: Sequence[int] | None = None) -> Truth:
        """Return the result for the judged tokens at ``positions``, which broadcast to (B, H, S).

        ``lengths`` replaces :attr:`lengths`.
        """
        # Most mistakes change no position of most calls.
        if lengths is None and (positions == np.arange(self.x.shape[2])).all():
            return self._declared
        return self._at(positions, lengths or self.lengths)

    def _at(self, positions: np.ndarray, lengths: Sequence[int]) -> Truth:
        p = np.broadcast_to(positions, self.x.shape[:-1])
        own = bool((p == np.arange(self.x.shape[2])).all())
        parts = []
        for a, b, n in zip(self.starts, self.ends, lengths, strict=True):
            kept = slice(max(a, self.tail.start), max(b, self.tail.start))
            part = self._parts.get((kept.start, kept.stop, n)) if own else None
            if part is None:
                part = at_length(self.encoding, self.x[:, :, kept], p[..., kept], max(n, 1))
            if own:
                self._parts[kept.start, kept.stop, n] = part
            parts.append(part)
        return joined(parts)

    @cached_property
    def _parts(self) -> dict[tuple[int, int, int], Truth]:
        """Return known chunks at their own positions, by first token, end and length."""
        return {}

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
        starts = np.array(self.starts)
        last_long = np.maximum.accumulate(np.where(sizes > 1, starts, 0))
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
            "the start of the chunk before": starts[before],
            "the number of tokens since the last chunk of several tokens began": t.position
            - last_long[t.chunk],
            "the length of the first chunk": np.full_like(t.chunk, t.prompt),
            "the length of the sequence": np.full_like(t.chunk, self.ends[-1]),
            "the number of earlier chunks of one token": _earlier(single)[t.chunk],
            "the number of earlier chunks of one token, after the first chunk": _earlier(
                single & (np.arange(single.size) > 0)
            )[t.chunk],
            "the number of earlier chunks of several tokens": _earlier(~single)[t.chunk],
            "the number of earlier single tokens right after a longer chunk": _earlier(
                after_longer
            )[t.chunk],
        }
        of_token = {name: v[self.tail] for name, v in of_token.items()}
        rows, heads = np.expand_dims(row, -1), np.expand_dims(head, -1)
        start, index = t.start[self.tail], t.index[self.tail]
        b, h = self.x.shape[:2]
        others = other_tokens(rows, heads, index, b, h, t.size[self.tail])
        return {
            **of_token,
            "the batch row": rows,
            "the head": heads,
            **{f"{ALONE}of the chunk {text}": start + at for text, at in others.items()},
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
