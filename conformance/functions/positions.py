"""Plain functions that make positions: padding, packing, decoding, shards, token ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref.conformance.diagnosis.mistake import Mistake

from . import variables
from .function import Arguments, Plain, several, written

#: The function may refuse longer sequences.
_SHORT = 128


def _masks(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    yield Arguments("no padding", (np.ones((2, 4), np.int64),))
    left = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]])
    yield Arguments("padding on the left", (left,))
    yield Arguments("padding on the right", (left[:, ::-1].copy(),))
    lengths = np.random.default_rng(seed).integers(1, 40, 7)
    yield Arguments("many lengths", ((np.arange(40) >= 40 - lengths[:, None]).astype(np.int64),))
    lengths = np.random.default_rng(seed + 1).integers(1, 700, 11)
    wide = (np.arange(700) >= 700 - lengths[:, None]).astype(np.int64)
    yield Arguments("eleven rows of 700", (wide,), False)
    yield Arguments("padding between", (np.array([[1, 1, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1]]),), False)
    yield Arguments("a row of padding", (np.array([[0, 0, 0], [0, 1, 1]]),), False)


def _over_rows(mask: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.arange(mask.shape[-1]), mask.shape)


def _mask_mistakes(encoding: Any) -> Iterator[Mistake]:
    def count(mask: np.ndarray) -> np.ndarray:
        return np.cumsum(mask, axis=-1)

    yield from several(
        ("padding", "padding is counted: positions are 0 .. S-1", _over_rows),
        ("padding", "every row has the positions of the first one",
         lambda mask: np.broadcast_to(count(mask)[:1] - 1, mask.shape)),
        ("padding", "every row has the positions of the longest one",
         lambda mask: np.broadcast_to(
             (count(mask) - 1)[np.argmax(mask.sum(axis=-1))], mask.shape
         )),
        ("position-origin", "real tokens are counted from 1", count),
        ("padding", "positions are counted over the whole batch",
         lambda mask: (np.cumsum(mask.ravel()) - 1).reshape(mask.shape)),
        ("padding", "the length of the padding is subtracted, on the right as well",
         lambda mask: _over_rows(mask) - (1 - mask).sum(axis=-1, keepdims=True)),
        ("padding", "only padding on the left is not counted",
         lambda mask: _over_rows(mask) - np.argmax(mask, axis=-1)[:, None]),
        ("padding", "tokens are counted from the end of the row",
         lambda mask: np.cumsum(mask[:, ::-1], axis=-1)[:, ::-1] - 1),
    )  # fmt: skip


def _lengths(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    for lengths in ([4], [2, 3], [1, 1, 4], [5, 2, 7, 1], [300, 2, 77], [6, 6, 6]):
        yield Arguments(f"{len(lengths)} documents", (np.array(lengths),))
    yield Arguments("a document of 40000", (np.array([1, 40000, 3, 3, 600, 2, 9]),), False)
    yield Arguments("an empty document", (np.array([2, 0, 3]),), False)
    for lengths in ([0, 3, 2, 4], [0, 0, 5, 1, 2], [3, 0, 0, 2, 4, 1], [2, 0, 3, 0, 0, 1, 6]):
        yield Arguments("empty documents before several others", (np.array(lengths),), False)
    yield Arguments("no documents", (np.zeros(0, np.int64),), False)


def _packed_mistakes(encoding: Any) -> Iterator[Mistake]:
    def whole(n: np.ndarray) -> np.ndarray:
        return np.arange(n.sum())

    yield from several(
        ("packing", "documents do not start again at 0", whole),
        ("position-origin", "documents start at 1", lambda n: pr.packed(n) + 1),
        ("packing", "the number of the document is its position",
         lambda n: np.repeat(np.arange(n.size), n)),
        ("packing", "the length of the document is subtracted, not its start",
         lambda n: whole(n) - np.repeat(np.where(np.arange(n.size) > 0, n, 0), n)),
        ("packing", "the length of the previous document is subtracted, not the start of this one",
         lambda n: whole(n) - np.repeat(np.r_[0, n[:-1]], n)),
        ("packing", "documents restart one token late",
         lambda n: np.r_[0, pr.packed(n)[:-1] + 1] if n.size else n),
        ("packing", "positions restart as if all documents had the length of the longest",
         lambda n: whole(n) % max(int(n.max(initial=1)), 1)),
    )  # fmt: skip


def _prompts(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    for prompt, steps in ((5, 3), (1, 1), (7, 1), (100, 20), (4095, 3), (33000, 300)):
        yield Arguments(f"{steps} steps", (prompt, steps), np.max(prompt) + steps <= _SHORT)
    yield Arguments("no prompt", (0, 4), False)
    yield Arguments("no steps", (6, 0), False)
    yield Arguments("a prompt length for each row", (np.array([3, 9, 1]), 4), False)


def _decode_mistakes(encoding: Any) -> Iterator[Mistake]:
    yield from several(
        ("decode-offset", "generated tokens are counted from 0",
         lambda prompt, n: np.broadcast_to(np.arange(n), pr.decode_positions(prompt, n).shape)),
        ("decode-offset", "the first generated token is one position late",
         lambda prompt, n: pr.decode_positions(prompt, n) + 1),
        ("decode-offset", "the first generated token has the position of the last prompt token",
         lambda prompt, n: pr.decode_positions(prompt, n) - 1),
        ("decode-offset", "every generated token has the position of the first",
         lambda prompt, n: pr.decode_positions(prompt, n) - np.arange(n)),
        ("padding", "every row continues at the length of the longest prompt",
         lambda prompt, n: pr.decode_positions(np.full_like(prompt, np.max(prompt)), n)),
        ("row-offset", "every row continues at the length of the first prompt",
         lambda prompt, n: pr.decode_positions(np.full_like(prompt, np.ravel(prompt)[0]), n)),
    )  # fmt: skip


def _shards(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    many, long = [0, 16, 48, 64, 160, 176], [0, 16, 40016]
    for bounds, size in (
        ([0, 8], 2), ([0, 8, 20], 2), ([0, 12, 36, 48], 3), ([0, 64], 4), (many, 8), (long, 8),
    ):  # fmt: skip
        for rank in range(size):
            needed = bounds is not long
            yield Arguments(f"rank {rank} of {size}", (np.array(bounds), size, rank), needed)
    yield Arguments("one rank", (np.array([0, 6, 8]), 1, 0), False)


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
         "A token keeps the position that it has in the whole sequence."),
        ("shard-offset", "every rank counts its own tokens from 0, over all documents",
         lambda bounds, size, rank: np.arange(bounds[-1] // size)),
        ("shard-offset", "ranks hold contiguous parts, not zig-zag halves",
         per_document(lambda n, size, rank: rank * (n // size) + np.arange(n // size))),
        ("shard-offset", "ranks hold every size-th token",
         per_document(lambda n, size, rank: rank + size * np.arange(n // size))),
        ("shard-offset", "both halves are contiguous: chunks 2 rank and 2 rank + 1",
         halves(lambda size, rank: 2 * rank, lambda size, rank: 2 * rank + 1)),
        ("shard-offset", "the second half is chunk rank + size, not 2 size - 1 - rank",
         halves(lambda size, rank: rank, lambda size, rank: rank + size)),
        ("shard-offset", "the halves are exchanged",
         halves(lambda size, rank: 2 * size - 1 - rank, lambda size, rank: rank)),
        ("shard-offset", "every rank has the positions of rank 0",
         halves(lambda size, rank: 0, lambda size, rank: 2 * size - 1)),
        ("packing", "documents do not start again at 0", lambda *a: pr.shard_indices(*a)),
        ("packing", "the whole packed batch is split among ranks, not each document",
         lambda bounds, size, rank: pr.packed(np.diff(bounds))[
             pr.shard_indices([0, int(bounds[-1])], size, rank)
         ]),
    )  # fmt: skip


_BETWEEN = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 0]])


def _tokens(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    padding = encoding.padding_idx
    room = max(min(encoding.rows - padding - 1, 40), 1)  # past LEAST_POSITION of floor.py
    rng = np.random.default_rng(seed)

    def ids(real: Any) -> np.ndarray:
        real = np.asarray(real)
        tokens = rng.integers(0, 50, real.shape)
        tokens = tokens + (tokens >= padding)  # no token equals the padding id
        return np.asarray(np.where(real, tokens, padding))

    left = np.arange(room) >= np.minimum([[0], [room // 2], [room - 1]], room - 1)
    yield Arguments("no padding", (ids(np.ones((2, min(4, room)))),))
    yield Arguments("padding on the right", (ids(left[:, ::-1]),))
    yield Arguments("padding on the left", (ids(left),))
    yield Arguments("other tokens, same lengths", (ids(left[:, ::-1]),))
    yield Arguments("a row of padding", (ids(np.zeros((2, min(3, room)))),), False)
    long = max(min(encoding.rows - padding - 1, 700), 1)
    lengths = np.random.default_rng(seed + 1).integers(1, long + 1, 11)
    wide = ids(np.arange(long) >= long - lengths[:, None])
    yield Arguments(f"eleven rows of {long}", (wide,), False)
    if room >= _BETWEEN.sum(axis=1).max():
        yield Arguments("padding between", (ids(_BETWEEN),), False)


def _token_mistakes(encoding: Any) -> Iterator[Mistake]:
    padding, offset = encoding.padding_idx, encoding.offset

    def real(ids: np.ndarray) -> np.ndarray:
        return np.asarray(ids != padding, dtype=np.int64)

    own = encoding.ids_from_tokens
    yield written(
        "padding",
        "padding is counted: token i of a sequence, padding included, has row padding_idx + 1 + i",
        lambda ids: np.broadcast_to(np.arange(ids.shape[-1]) + padding + 1 - offset, ids.shape),
    )
    for start in (padding + 1, 0):
        yield written(
            "padding",
            f"padding is counted: real token i of a sequence has row {start} + i",
            lambda ids, start=start: np.where(
                real(ids) == 1, np.arange(ids.shape[-1]) + start - offset, padding - offset
            ),
        )
    yield from several(
        ("padding", "positions are 0 .. S-1: they start at row 0, and padding is counted",
         lambda ids: np.broadcast_to(np.arange(ids.shape[-1]) - offset, ids.shape),
         f"The first real token has row {padding + 1}, padding row {padding}: "
         f"cumsum(ids != {padding}) * (ids != {padding}) + {padding}."),
        ("padding", "padding gets the position of the last real token",
         lambda ids: np.cumsum(real(ids), axis=-1) + padding - offset),
        ("padding", "padding tokens do not get the padding row",
         lambda ids: np.where(real(ids) == 1, own(ids), 0)),
        ("table-offset", "the first token that is not padding gets the padding row",
         lambda ids: np.where(real(ids) == 1, own(ids) - 1, own(ids))),
        ("table-offset", "the first token that is not padding gets row 0",
         lambda ids: np.where(real(ids) == 1, np.cumsum(real(ids), axis=-1) - 1, own(ids))),
        ("table-offset",
         "the first token that is not padding gets row 0, and padding has row 0 as well",
         lambda ids: (np.cumsum(real(ids), axis=-1) - 1) * real(ids)),
        ("table-offset", "the first token that is not padding gets row 1",
         lambda ids: np.cumsum(real(ids), axis=-1) * real(ids)),
    )  # fmt: skip
    if offset:
        yield written(
            "table-offset", "the table's offset is not subtracted", lambda ids: own(ids) + offset
        )


POSITION_ROWS = {
    "position_ids": Plain(
        _masks,
        _mask_mistakes,
        "padding",
        judged=lambda arguments: np.asarray(arguments[0]) == 1,
        variables=variables.of_mask,
    ),
    "packed": Plain(_lengths, _packed_mistakes, "packing", variables=variables.of_lengths),
    "decode_positions": Plain(
        _prompts, _decode_mistakes, "decode-offset", variables=variables.of_prompt
    ),
    "shard_positions": Plain(
        _shards, _shard_mistakes, "shard-offset", variables=variables.of_shard
    ),
    "ids_from_tokens": Plain(_tokens, _token_mistakes, "padding"),
}
