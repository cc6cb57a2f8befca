"""Known mistakes about positions, for several families: maps from right to wrong positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from posenc_ref.accuracy import Truth

from .mistake import Mistake, mistakes, with_value

#: Wrong positions of queries: a message, and a function of (q_len, k_len) that returns them.
QUERIES: tuple[tuple[str, Callable[[int, int], np.ndarray]], ...] = (
    (
        "queries are not aligned with the last keys: query i has the position of key i",
        lambda q_len, k_len: np.arange(q_len),
    ),
    (
        "queries are not aligned with the last keys: every query has the position of the last key",
        lambda q_len, k_len: np.full(q_len, k_len - 1),
    ),
)


def rounded_queries(longest: int) -> Iterator[tuple[str, Callable[[int, int], np.ndarray]]]:
    """Yield wrong positions of queries made from lengths that are rounded to whole tiles.

    No tile is larger than half of the longest call: lengths that all become 0, or one tile, show
    another mistake.
    """
    for n in (n for n in (4, 8, 16, 32, 64, 128, 256, 512, 1024) if 2 * n <= longest):
        for words, of in (
            ("k_len is rounded up", lambda q, k, up: up(k) - q),
            ("q_len is rounded up", lambda q, k, up: k - up(q)),
            ("q_len and k_len are rounded up", lambda q, k, up: up(k) - up(q)),
            ("k_len is rounded down", lambda q, k, up: -up(-k) - q),
        ):

            def place(
                q_len: int, k_len: int, n: int = n, of: Callable[..., int] = of
            ) -> np.ndarray:
                return np.arange(q_len) + of(q_len, k_len, lambda length: -(-length // n) * n)

            text = f"queries are not aligned with the last keys: {words} to a multiple of {n}"
            yield text, place


REVERSED_KEYS = "keys stand in the reverse order"

#: Heads and batch rows of a result (B, H, S, D) that stand in other places: words, the map of the
#: result, and the axis in words.
PLACES: tuple[tuple[str, Callable[[np.ndarray], np.ndarray], str], ...] = tuple(
    (f"{words} {name}{tail}", partial(move, axis), name)
    for axis, name in ((1, "head"), (0, "batch row"))
    for words, tail, move in (
        ("every", " is that of the first", lambda a, x: np.broadcast_to(x.take([0], a), x.shape)),
        ("every", " is that of the last", lambda a, x: np.broadcast_to(x.take([-1], a), x.shape)),
        ("each", " is the one as far from the end", lambda a, x: np.flip(x, a)),
        ("each", " is the one before it, and the first the last", lambda a, x: np.roll(x, 1, a)),
        ("each", " is the next one, and the last the first", lambda a, x: np.roll(x, -1, a)),
    )
)
PLACES += (
    ("rows and heads are flattened as (B, H), and read as (H, B)",
     lambda x: np.swapaxes(x.reshape(x.shape[1], x.shape[0], *x.shape[2:]), 0, 1), "head"),
    ("rows and heads are flattened as (H, B), and read as (B, H)",
     lambda x: np.swapaxes(x, 0, 1).reshape(x.shape), "head"),
)  # fmt: skip
#: The code of a head, or of a batch row, that stands in another place.
PLACE_CODES = {"head": "head-order", "batch row": "row-offset"}
#: The head whose numbers row b and head h get if both are flattened in different orders: in words,
#: and as a function of their indices and numbers.
FLATTENED: tuple[tuple[str, Callable[[np.ndarray, np.ndarray, int, int], np.ndarray]], ...] = (
    ("(b H + h) // B", lambda b, h, n_b, n_h: (b * n_h + h) // n_b),
    ("(h B + b) modulo H", lambda b, h, n_b, n_h: (h * n_b + b) % n_h),
)
#: Sizes of the pages of a cache.
PAGES = (4, 8, 16, 32, 64, 128, 256)
#: What to do about positions that a tile of a kernel, or a short table, makes.
WHOLE_POSITION = (
    "Use the position in the whole sequence: add the start of the tile, and do not cut it."
)


def tiled(
    what: str, longest: int = 2048
) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    """Yield wrong positions that tiles of kernels make, from right ones (n,), which are in order.

    ``what`` are queries or keys, in words. No tile is as long as ``longest``, the longest call.
    """
    for n in (n for n in (4, 8, 16, 32, 64, 128, 256, 512, 1024) if n < longest):
        text = f"the positions of {what} start at 0 again in every tile of {n}"
        yield text, lambda p, n=n: p % n  # type: ignore[misc]
        text = f"all {what} of a tile of {n} have the position of its first"
        yield text, lambda p, n=n: p // n * n  # type: ignore[misc]
        text = f"the positions of {what} start at 0 again in the last, incomplete tile of {n}"
        yield text, partial(_last_tile, n)
        text = (
            f"{what} of the last, incomplete tile of {n} have the positions of a whole tile that "
        )
        yield text + "ends where they end", partial(_ends_with, n)
        text = f"{what} of the last, incomplete tile of {n} have the positions of the tile before"
        yield text, partial(_before_last, n)
        for by, words in ((-1, "one too small"), (1, "one too large")):
            text = (
                f"the positions of {what} in the last, incomplete tile of {n}, after whole ones, "
            )
            yield f"{text}are {words}", partial(_moved_last, n, by)
        text = f"the last, incomplete tile of {n} {what} begins at its number times its own "
        yield text + "length, not times the length of a whole tile", partial(_short_start, n)
        text = f"the last tile of {n} {what} is moved back so that it is full, but has the "
        yield text + "positions from before the move", partial(_moved_back, n)
        text = f"{what} from {n} on have the position {n - 1}"
        yield text, lambda p, n=n: np.minimum(p, n - 1)  # type: ignore[misc]
    for bits in (8, 16):
        text = f"the positions of {what} are signed integers of {bits} bits"
        half = 2 ** (bits - 1)
        yield text, lambda p, half=half: (p + half) % (2 * half) - half  # type: ignore[misc]
    text = f"the positions of {what} are halved and rounded down"
    yield text, lambda p: p // 2


def _last_tile(n: int, p: np.ndarray) -> np.ndarray:
    start = (p[..., -1:] + 1) // n * n
    return np.where(p >= start, p - start, p)


def _ends_with(n: int, p: np.ndarray) -> np.ndarray:
    """Return positions that are too small in a last tile, after others, by the tokens it lacks."""
    size = p.shape[-1]
    start = size // n * n
    return np.where((np.arange(size) >= start) & (start > 0), p - (start + n - size), p)


def _moved_last(n: int, by: int, p: np.ndarray) -> np.ndarray:
    """Return positions that are ``by`` too large in a last, incomplete tile after whole ones."""
    start = p.shape[-1] // n * n
    return np.where((np.arange(p.shape[-1]) >= start) & (start > 0), p + by, p)


def _short_start(n: int, p: np.ndarray) -> np.ndarray:
    """Return positions of a last tile, after whole ones, that begins at number times its length."""
    size = p.shape[-1]
    start = size // n * n
    return np.where(np.arange(size) >= start, p - start // n * (n - size + start), p)


def _before_last(n: int, p: np.ndarray) -> np.ndarray:
    """Return positions that are n too small in a last tile; tiles begin at the first token."""
    start = p.shape[-1] // n * n
    return np.where((np.arange(p.shape[-1]) >= start) & (start > 0), p - n, p)


def _moved_back(n: int, p: np.ndarray) -> np.ndarray:
    """Return positions that are too large in the last n tokens, by the tokens the tile lacks."""
    size = p.shape[-1]
    missing = -size % n * (size > n)
    return np.where(np.arange(size) >= size - n, p + missing, p)


#: A code, a message, and a map from right to wrong positions (S,).
Row = tuple[str, str, Callable[[np.ndarray], np.ndarray]]


def other_rows(offset: int) -> Iterator[Row]:
    """Yield the mistakes that select wrong rows of a table starting at row ``offset``."""
    if offset:
        text = f"the table's offset {offset} is missing: sequences start at row 0"
        yield "table-offset", text, lambda p: p - offset
        yield "table-offset", f"the table's offset {offset} is added twice", lambda p: p + offset
    yield "table-offset", "every row is one too late", lambda p: p + 1
    yield "table-offset", "every row is one too early", lambda p: p - 1
    for more in (2, 3):
        text = f"every row is {more} too late, as if rows were reserved for padding"
        yield "table-offset", text, lambda p, more=more: p + more  # type: ignore[misc]
    yield "wrong-row", "the rows come in the reverse order", lambda p: p[::-1]
    yield "wrong-row", "every token gets the first row", lambda p: 0 * p
    yield "wrong-row", "every token gets the last row", lambda p: 0 * p + p.size - 1
    text = "every token gets the row after the last one, table[S] in place of table[:S]"
    yield "wrong-row", text, lambda p: 0 * p + p.size


def heads(x: np.ndarray) -> np.ndarray:
    """Return the head index of every token of x (B, H, S, D), as its (wrong) position."""
    return np.broadcast_to(np.arange(x.shape[1])[:, None], x.shape[:-1])


def batch(x: np.ndarray) -> np.ndarray:
    """Return the batch index of every token of x (B, H, S, D), as its (wrong) position."""
    return np.broadcast_to(np.arange(x.shape[0])[:, None, None], x.shape[:-1])


#: How tokens get the place of others.
_RESHAPED = "as where x is reshaped, not transposed, to"


def other_tokens(
    row: np.ndarray, head: np.ndarray, index: np.ndarray, rows: int, heads: int, size: Any
) -> dict[str, np.ndarray]:
    """Return the tokens that a wrong reshape may select, from the index on each axis (B, H, S).

    ``size`` is the number of tokens of a row, or that of the chunk of each token.
    """
    b, h, n = rows, heads, size
    of_equal = np.where(n == b, row, np.where(n == h, head, index))
    return {
        "h, the number of the head": np.where(head < n, head, index),
        "b, the number of the row": np.where(row < n, row, index),
        "b if S = B, h if S = H, else s (the axis of tokens is found by its length)": of_equal,
        "h modulo S": (head + 0 * index) % n,
        "(b S + s) // B": (row * n + index) // b,
        "(s B + b) modulo S": (index * b + row) % n,
        f"(h S + s) // H, {_RESHAPED} (B, S, H, D)": (head * n + index) // h,
        "(s H + h) modulo S": (index * h + head) % n,
        f"((b H + h) S + s) // (B H), {_RESHAPED} (S, B, H, D)": ((row * h + head) * n + index)
        // (b * h),
        "S - 1 - s": n - 1 - index,
    }


def tiled_tokens(index: np.ndarray, size: int) -> dict[str, np.ndarray]:
    """Return the tokens that a kernel may take which works in tiles, from the index of tokens."""
    return {
        **{
            f"s + (-S modulo {tile}), at most S - 1, as where the last block of {tile} tokens is "
            f"moved back to be full": np.minimum(
                index + (-size % tile) * ((size > tile) & (index >= size - tile)), size - 1
            )
            for tile in (16, 32, 64, 128)
        },
        **{f"s modulo {tile}": index % tile for tile in (2, 4, 8, 16, 32, 64, 128)},
    }


@dataclass(frozen=True)
class Tokens:
    """The start, index and number of the tokens of a call; the arrays broadcast to (B, H, S)."""

    start: np.ndarray  #: the position of the first token
    index: np.ndarray  #: the index of each token, counted from the first token
    size: np.ndarray  #: the number of tokens

    @property
    def position(self) -> np.ndarray:
        """Return the declared positions."""
        return np.asarray(self.start + self.index)


class StartedCall(Protocol):
    """A call with tokens x (B, H, S, D) at consecutive positions, and its reference."""

    @property
    def x(self) -> np.ndarray:
        """Return the tokens."""

    def tokens(self) -> Tokens:
        """Return the start, index and number of the tokens."""

    def truth(self) -> Truth:
        """Return the reference."""

    def at(self, positions: np.ndarray) -> Truth:
        """Return the result at other positions, which broadcast to (B, H, S)."""


def at(positions: Callable[[Any], np.ndarray]) -> Callable[[StartedCall], Truth | None]:
    """Return a ``predict`` that uses the positions computed from :class:`Tokens`."""

    def predict(call: StartedCall) -> Truth | None:
        p = positions(call.tokens())
        return call.at(p) if np.isfinite(p).all() else None  # float16 overflows

    return predict


def of_any_start(
    start: str, halves: Mapping[str, Callable[[Any], np.ndarray]]
) -> Iterator[Mistake]:
    """Yield mistakes of calls that begin at any position; messages call it ``start``.

    ``halves`` are functions that round to half-precision formats, by the name of the format.
    """
    text = "the offset is added twice"
    remedy = f"Add {start} once: token i has the position {start} + i."
    yield Mistake("decode-offset", text, at(lambda t: t.position + t.start), remedy)
    for by, words in ((1, "large"), (-1, "small")):
        text = f"every position is one too {words}"
        wrong = "add 1 to" if by > 0 else "subtract 1 from"
        remedy = f"Do not {wrong} the positions: token i has the position {start} + i."
        yield Mistake("position-origin", text, at(lambda t, by=by: t.position + by), remedy)  # type: ignore[misc]
    for name, half in halves.items():
        yield from mistakes(
            "position-precision",
            at,
            (
                f"{start} is held in {name}",
                lambda t, half=half: half(1.0 * t.start) + t.index,
                f"Hold {start} in int64 or float32, not in {name}.",
            ),
            (
                f"positions are held in {name}",
                lambda t, half=half: half(1.0 * t.position),
                f"Build positions in int64 or float32, not in {name}.",
            ),
        )

    yield from _in_pages(start)


def _in_pages(start: str) -> Iterator[Mistake]:
    """Yield mistakes of calls that are cut where a page of a cache ends."""
    remedy = f"Number each part from its own first token: {start} + the index of that token."
    for n in PAGES:
        end = f"the end of a page of {n}"

        def again(t: Tokens, n: int = n) -> np.ndarray:
            return np.asarray(t.start + t.position - np.maximum(t.position // n * n, t.start))

        def from_page(t: Tokens, n: int = n) -> np.ndarray:
            within = t.position // n == t.start // n
            return np.where(within, t.start // n * n + t.index, t.position)

        def twice(t: Tokens, n: int = n) -> np.ndarray:
            return np.asarray(t.position + np.maximum(t.position // n * n - t.start, 0))

        yield from mistakes(
            "decode-offset",
            at,
            (f"tokens after {end} are numbered from {start} again", again, remedy),
            (f"tokens before {end} are numbered from its first place", from_page, remedy),
            (f"tokens after {end} have the tokens before it counted twice", twice, remedy),
        )


def only_first_row() -> Iterator[Mistake]:
    """Yield mistakes of kernels for single tokens that rotate the first row only."""

    def predicts(others: float) -> Callable[[StartedCall], Truth]:
        def predict(call: StartedCall) -> Truth:
            truth = call.truth()
            x = call.x[:, :, call.x.shape[2] - truth.value.shape[2] :]
            single = np.broadcast_to(call.tokens().size == 1, call.x.shape[2])[-x.shape[2] :, None]
            later = single & (np.arange(len(x)) > 0)[:, None, None, None]
            return with_value(truth, np.where(later, others * x, truth.value))

        return predict

    yield from mistakes(
        "row-offset",
        predicts,
        (
            "with one token per row, all rows but the first are not rotated",
            1.0,
            "Rotate all batch rows, also in calls with one token per row.",
        ),
        (
            "with one token per row, all rows but the first are zero",
            0.0,
            "Rotate and write all batch rows, also in calls with one token per row.",
        ),
    )
