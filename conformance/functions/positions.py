"""Plain functions that make positions: padding, packing, decoding, shards, token ids."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.harness.crossing import Crossing, Row

from . import variables
from .decode_positions import decode_mistakes, prompts
from .function import Arguments, Plain, several
from .masks import mask_crossing, mask_mistakes, mask_row, masks, token_mistakes, tokens


def _lengths(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    for lengths in ([4], [2, 3], [1, 1, 4], [5, 2, 7, 1], [300, 2, 77], [6, 6, 6]):
        yield Arguments(f"{len(lengths)} documents", (np.array(lengths),))
    yield Arguments("a document of 40000", (np.array([1, 40000, 3, 3, 600, 2, 9]),), False)
    yield Arguments("an empty document", (np.array([2, 0, 3]),), False)
    for lengths in ([0, 3, 2, 4], [0, 0, 5, 1, 2], [3, 0, 0, 2, 4, 1], [2, 0, 3, 0, 0, 1, 6]):
        yield Arguments("empty documents before several others", (np.array(lengths),), False)
    yield Arguments("no documents", (np.zeros(0, np.int64),), False)


def packed_crossing() -> Crossing:
    """Return the factors of packed documents: their number, their lengths, and empty ones."""
    return Crossing({
        "documents": (1, 2, 3, 6),
        "lengths": ("equal", "growing", "of one token", "long"),
        "empty documents": ("none", "first", "last", "between", "two in a row"),
    }, optional=("empty documents",))  # fmt: skip


def packed_row(row: Row) -> tuple[Any, ...]:
    """Return the lengths of documents."""
    count = row["documents"]
    sizes = {
        "equal": [4] * count,
        "growing": [2 + 3 * i for i in range(count)],
        "of one token": [1] * count,
        "long": [70 + 65 * (i % 2) for i in range(count)],
    }[row["lengths"]]
    at = (count + 1) // 2
    where = {"none": [], "first": [0], "last": [count], "between": [at], "two in a row": [at, at]}
    return (np.insert(np.array(sizes, np.int64), where[row["empty documents"]], 0),)


def _packed_mistakes(encoding: Any) -> Iterator[Mistake]:
    def whole(n: np.ndarray) -> np.ndarray:
        return np.arange(n.sum())

    def steps(n: np.ndarray, *, first: bool = False, zero: bool = False, back: Any = None) -> Any:
        # Sums of steps of 1 and of jumps ``back``, assigned at the starts of documents. Of jumps at
        # one token, the last is kept, or the ``first``; ``zero``: position 0 stays 0.
        step, starts = np.ones(int(n.sum()), np.int64), np.cumsum(n) - n
        step[:1] = 0
        order = range(1, n.size) if not first else range(n.size - 1, 0, -1)
        for i in order:
            if starts[i] < step.size:
                step[starts[i]] = 1 - (n[i - 1] if back is None else back[i])
        step[:1] *= not zero
        return np.asarray(np.cumsum(step))

    sums = (
        "Start every document at 0: arange(total) - repeat(starts, lengths), with starts = "
        "cumsum(lengths) - lengths"
    )
    up = "Count up from the first token of every document, not down from the last one"
    empty = f"{sums}. Drop documents of length 0 before steps or jumps are assigned."
    yield from several(
        ("packing", "documents do not start again at 0", whole, f"{sums}."),
        ("position-origin", "documents start at 1", lambda n: pr.packed(n) + 1, f"{sums}."),
        ("packing", "documents after the first start at 1",
         lambda n: pr.packed(n) + (np.repeat(np.arange(n.size), n) > 0), f"{sums}."),
        ("packing", "every document is numbered backwards, from its last token",
         lambda n: np.repeat(n, n) - 1 - pr.packed(n), f"{up}. {sums}."),
        ("packing", "the whole batch is numbered backwards, from its last token",
         lambda n: whole(n)[::-1], f"{up}. {sums}."),
        ("packing", "documents after an empty one start at 1",
         lambda n: pr.packed(n) + (np.repeat(np.cumsum(n == 0), n) > 0), empty),
        ("packing", "the number of the document is its position",
         lambda n: np.repeat(np.arange(n.size), n), f"{sums}."),
        ("packing", "the length of the document is subtracted, not its start",
         lambda n: whole(n) - np.repeat(np.where(np.arange(n.size) > 0, n, 0), n), f"{sums}."),
        ("packing", "the length of the previous document is subtracted, not the start of this one",
         lambda n: whole(n) - np.repeat(np.r_[0, n[:-1]], n), f"{sums}."),
        ("packing", "a document of one token does not start again at 0: it goes on after the "
         "document before it",
         lambda n: whole(n) - np.repeat(
             np.maximum.accumulate(np.where(n == 1, 0, np.cumsum(n) - n)), n), f"{sums}."),
        ("packing", "documents restart one token late",
         lambda n: np.r_[0, pr.packed(n)[:-1] + 1] if n.size else n, f"{sums}."),
        ("packing", "positions restart as if all documents had the length of the longest",
         lambda n: whole(n) % max(int(n.max(initial=1)), 1), f"{sums}."),
        *(("packing", f"positions jump back by the {of} of the document that starts, not by the "
           "length of the one before it", lambda n, b=b: steps(n, back=b(n)), f"{sums}.")
          for of, b in (("length", np.array), ("start", lambda n: np.cumsum(n) - n))),
        ("packing", "an empty document undoes the restart of the document before it: the tokens "
         "after it are counted on", steps, empty),
        ("packing", "an empty document undoes the restart of the document before it, except at the "
         "start of the batch: the tokens after it are counted on",
         lambda n: steps(n, zero=True), empty),
        ("packing", "of documents that start at one token, the restart of the first is kept, not "
         "the one of the last", lambda n: steps(n, first=True), empty),
        ("packing", "an empty document ends the batch: those after it count on",
         _ends, empty),
        ("packing", "an empty document counts as one token",
         lambda n: pr.packed(np.maximum(n, 1))[:int(n.sum())], empty),
    )  # fmt: skip


def _ends(n: np.ndarray) -> np.ndarray:
    """Return positions that do not start again after the first empty document."""
    first = int(np.argmax(n == 0)) if (n == 0).any() else n.size
    kept = n[:first].copy()
    if first < n.size and first:
        kept[-1] += n[first:].sum()
    elif first < n.size:
        kept = np.array([n.sum()])
    return np.asarray(pr.packed(kept))


def _shards(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    many, long = [0, 16, 48, 64, 160, 176], [0, 16, 40016]
    for bounds, size in (
        ([0, 8], 2), ([0, 8, 20], 2), ([0, 12, 36, 48], 3), ([0, 64], 4), (many, 8), (long, 8),
    ):  # fmt: skip
        for rank in range(size):
            needed = bounds is not long
            yield Arguments(f"rank {rank} of {size}", (np.array(bounds), size, rank), needed)
    yield Arguments("one rank", (np.array([0, 6, 8]), 1, 0), False)


#: What is right for every rank.
_SHARDS = (
    "Rank r holds chunks r and 2 size - 1 - r of each document, in this order, of 2 size chunks; a "
    "token keeps the position that it has in its document."
)


def _shard_mistakes(encoding: Any) -> Iterator[Mistake]:
    def per_document(of: Any) -> Any:
        """Return the function that applies ``of(length, size, rank)`` to every document."""
        return lambda bounds, size, rank: np.concatenate(
            [of(int(n), size, rank) for n in np.diff(bounds)]
        )

    def halves(first: Any, second: Any) -> Any:
        """Return the function that assigns each rank two of a document's ``2 * size`` chunks."""

        def of(n: int, size: int, rank: int) -> np.ndarray:
            chunk = n // (2 * size)
            starts = chunk * np.array([[first(size, rank)], [second(size, rank)]])
            return (starts + np.arange(chunk)).ravel()

        return per_document(of)

    yield from several(
        ("shard-offset", "every rank counts its own tokens from 0",
         per_document(lambda n, size, rank: np.arange(n // size)),
         _SHARDS),
        ("shard-offset", "every rank counts its own tokens from 0, over all documents",
         lambda bounds, size, rank: np.arange(bounds[-1] // size), _SHARDS),
        ("shard-offset", "ranks hold contiguous parts, not zig-zag halves",
         per_document(lambda n, size, rank: rank * (n // size) + np.arange(n // size)), _SHARDS),
        ("shard-offset", "ranks hold every size-th token",
         per_document(lambda n, size, rank: rank + size * np.arange(n // size)), _SHARDS),
        ("shard-offset", "both halves are contiguous: chunks 2 rank and 2 rank + 1",
         halves(lambda size, rank: 2 * rank, lambda size, rank: 2 * rank + 1), _SHARDS),
        ("shard-offset", "the second half is chunk rank + size, not 2 size - 1 - rank",
         halves(lambda size, rank: rank, lambda size, rank: rank + size), _SHARDS),
        ("shard-offset", "the halves are exchanged",
         halves(lambda size, rank: 2 * size - 1 - rank, lambda size, rank: rank), _SHARDS),
        ("shard-offset", "the last of several ranks has its halves exchanged",
         _exchanged(lambda size, rank: rank == size - 1 > 0), _SHARDS),
        ("shard-offset", "rank 0 of several has its halves exchanged",
         _exchanged(lambda size, rank: rank == 0 < size - 1), _SHARDS),
        *(
            ("shard-offset", f"the tokens of the {which} of a rank are in descending order",
             _descending(*turned), f"{_SHARDS} The tokens of both ascend.")
            for which, *turned in (("second chunk", False, True), ("first chunk", True, False),
                                   ("two chunks", True, True))
        ),
        ("shard-offset", "every rank has the positions of rank 0",
         halves(lambda size, rank: 0, lambda size, rank: 2 * size - 1), _SHARDS),
        *(
            ("shard-offset", f"{some} start as if all sequences had the length of the {which}",
             partial(_chunks_of, which=of, chunks=chunks),
             f"{_SHARDS} The length is that of the sequence itself.")
            for some, chunks in (("chunks", (0, 1)), ("second chunks", (1,)),
                                 ("first chunks", (0,)))
            for which, of in (("first", lambda n: n[0]), ("last", lambda n: n[-1]),
                              ("longest", np.max), ("shortest", np.min))
        ),
        *(
            ("shard-offset", f"the {which} chunks of all documents come first, then the others",
             _grouped(*order), f"{_SHARDS} Both chunks of a document stand together.")
            for which, *order in (("first", 0, 1), ("second", 1, 0))
        ),
        ("packing", "documents do not start again at 0", lambda *a: pr.shard_indices(*a),
         "Subtract the start of each token's document from its index in the batch."),
        ("packing", "the whole packed batch is split among ranks, not each document",
         lambda bounds, size, rank: pr.packed(np.diff(bounds))[
             pr.shard_indices([0, int(bounds[-1])], size, rank)
         ], _SHARDS),
    )  # fmt: skip


def _chunks_of(bounds: Any, size: int, rank: int, which: Any, chunks: Any) -> np.ndarray:
    """Return the positions of a rank; its first or second ``chunks`` start by another length."""
    lengths = np.diff(bounds) // (2 * size)
    number, other = np.array([[rank], [2 * size - 1 - rank]]), np.isin([[0], [1]], chunks)
    starts = [number * np.where(other, which(lengths), n) for n in lengths]
    each = zip(starts, lengths, strict=True)
    return np.concatenate([(start + np.arange(n)).ravel() for start, n in each])


def _grouped(*order: int) -> Any:
    """Return the positions of a rank, with the chunks of one kind of all documents together."""

    def of(bounds: Any, size: int, rank: int) -> np.ndarray:
        ends = np.cumsum(np.diff(bounds) // size)[:-1]
        parts = np.split(np.asarray(pr.shard_positions(bounds, size, rank)), ends)
        halves = [(part[: part.size // 2], part[part.size // 2 :]) for part in parts]
        return np.concatenate([one[which] for which in order for one in halves])

    return of


def _descending(*turned: bool) -> Any:
    """Return the positions of a rank, in descending order in the first or the second chunk."""

    def of(bounds: Any, size: int, rank: int) -> np.ndarray:
        found = []
        for n in np.diff(bounds):
            chunk = int(n) // (2 * size)
            for start, back in zip((rank, 2 * size - 1 - rank), turned, strict=True):
                one = start * chunk + np.arange(chunk)
                found.append(one[::-1] if back else one)
        return np.concatenate(found)

    return of


def _exchanged(where: Any) -> Any:
    """Return the positions with the two halves of every document exchanged on some ranks."""

    def of(bounds: Any, size: int, rank: int) -> np.ndarray:
        own = pr.shard_positions(bounds, size, rank)
        if not where(size, rank):
            return np.asarray(own)
        ends = np.cumsum(np.diff(bounds) // size)[:-1]
        parts = [np.roll(part, part.size // 2) for part in np.split(np.asarray(own), ends)]
        return np.concatenate(parts)

    return of


POSITION_ROWS = {
    "position_ids": Plain(
        masks,
        mask_mistakes,
        "padding",
        judged=lambda arguments: np.asarray(arguments[0]) == 1,
        variables=variables.of_mask,
        crossing=(mask_crossing, mask_row),
    ),
    "packed": Plain(
        _lengths,
        _packed_mistakes,
        "packing",
        variables=variables.of_lengths,
        crossing=(packed_crossing, packed_row),
    ),
    "decode_positions": Plain(
        prompts, decode_mistakes, "decode-offset", variables=variables.of_prompt
    ),
    "shard_positions": Plain(
        _shards, _shard_mistakes, "shard-offset", variables=variables.of_shard
    ),
    "ids_from_tokens": Plain(tokens, token_mistakes, "padding"),
}
