"""The formulas of functions that return positions, in steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.rounding import SIGNIFICANT_BITS, significant
from posenc_ref.conformance.diagnosis.steps import Steps
from posenc_ref.conformance.functions.masks import REAL, since_masked

_ORIGIN = "position-origin"


def _from(s: Steps, count: np.ndarray, first: int, right: str) -> np.ndarray:
    """Return counts 1, 2, ..., numbered from ``first`` on."""
    return np.asarray(s.pick(
        "the first number",
        count + first - 1,
        *((_ORIGIN, f"is {n}, not {first}", count + n - 1)
          for n in (first + 1, first - 1, first + 2)),
        right=right,
    ))  # fmt: skip


def position_ids(s: Steps, encoding: Any, mask: Any) -> np.ndarray:
    """Return the positions of the real tokens of a mask (B, S)."""
    mask = np.asarray(mask)
    index = np.broadcast_to(np.arange(mask.shape[-1]), mask.shape)
    real = mask.sum(axis=-1, keepdims=True)
    every, code, right = np.ones(mask.shape, bool), "padding", f"{REAL}."
    backwards = np.cumsum(mask[:, ::-1], axis=-1)[:, ::-1]
    count, kept, rest = s.pick(
        "the count",
        (np.cumsum(mask, axis=-1), every, 0),
        (code, "includes padding", (index + 1, every, 0)),
        *((code, "takes the real tokens to come first: it numbers as many as are real, and the "
           f"others get {words}", (index + 1, index < real, other))
          for words, other in (("0", 0), ("1", 1), ("-1", -1))),
        (code, "leaves out padding on the left only",
         (index - np.argmax(mask, axis=-1)[:, None] + 1, every, 0)),
        (code, "is the index less all padding of the row, also that on the right",
         (index + 1 - (mask.shape[-1] - real), every, 0)),
        (code, "runs over the whole batch",
         (np.cumsum(mask.ravel()).reshape(mask.shape), every, 0)),
        (code, "runs down the rows of the batch (axis 0)", (np.cumsum(mask, axis=0), every, 0)),
        (code, "runs from the end of the row", (backwards, every, 0)),
        (code, "starts again after a masked token", (since_masked(mask) + 1, every, 0)),
        *((code, f"is that of the {words} row, for all rows",
           (np.broadcast_to(np.cumsum(mask[at]), mask.shape), every, 0))
          for words, at in (("first", 0), ("last", -1))),
        (code, "counts masked tokens, not real ones", (np.cumsum(1 - mask, axis=-1), every, 0)),
        right=right,
    )  # fmt: skip
    number = _from(s, count, 0, right)
    number = s.pick(
        "the number of a token",
        number,
        ("position-range", "becomes 0 where it is negative", np.maximum(number, 0)),
        ("position-range", "becomes 1 where it is less", np.maximum(number, 1)),
        ("position-scale", "is doubled", 2 * number),
        ("position-scale", "is halved and rounded down", number // 2),
        right=right,
    )
    return np.asarray(np.where(kept, number, rest))


def packed(s: Steps, encoding: Any, lengths: Any) -> np.ndarray:
    """Return the positions of packed documents."""
    n = np.asarray(lengths)
    n = s.pick(
        "the documents",
        n,
        ("packing", "come in the order of their lengths, the longest first", np.sort(n)[::-1]),
        ("packing", "come in the order of their lengths, the shortest first", np.sort(n)),
        ("packing", "come in the reverse order", n[::-1]),
        right="Number the documents in the order in which their lengths are passed.",
    )
    document, index = np.repeat(np.arange(n.size), n), np.arange(n.sum())
    starts, code = np.cumsum(n) - n, "packing"
    before = np.r_[0, n[:-1]] if n.size else n
    right = "Start every document at 0: subtract the sum of the lengths of all documents before it."
    start = s.pick(
        "the start of a document",
        starts[document],
        (code, "is left out: documents count on", 0 * index),
        (code, "is the length of the document before", before[document]),
        (code, "is the length of the document", (n * (np.arange(n.size) > 0))[document]),
        (code, "is its number times the length of the longest document",
         (np.arange(n.size) * n.max(initial=0))[document]),
        (code, "is its number times the length of the first document",
         (np.arange(n.size) * n[:1].sum())[document]),
        (code, "is its end", (starts + n)[document]),
        (code, "is one token late, except for the first",
         np.where(document > 0, starts[document] + 1, 0)),
        (code, "is one token early, except for the first",
         np.where(document > 0, starts[document] - 1, 0)),
        right=right,
    )  # fmt: skip
    place = s.pick(
        "the index of a token",
        index - start,
        (code, "counts down in its document", n[document] - 1 - (index - start)),
        (code, "counts down in the batch", index[::-1] - start),
        (code, "is that of the token before, and the first stays 0",
         np.maximum(index - 1, 0) - start),
        right="Count the tokens of a document up from its first one.",
    )  # fmt: skip
    number = _from(s, place + 1, 0, right)
    return np.asarray(s.pick(
        "the position",
        number,
        ("position-range", "becomes 0 where it is negative", np.maximum(number, 0)),
        (code, "has the number of the document added", number + document),
        ("position-scale", "is doubled", 2 * number),
        ("position-scale", "is halved and rounded down", number // 2),
        right=right,
    ))  # fmt: skip


def decode_positions(s: Steps, encoding: Any, prompt: Any, steps: int) -> np.ndarray:
    """Return the positions of generated tokens."""
    n = np.asarray(prompt)
    code, right = "decode-offset", "Give token i that is generated the position prompt_len + i."
    start = s.pick(
        "the prompt length",
        n,
        (code, "is left out", 0 * n),
        ("padding", "is that of the longest prompt", 0 * n + n.max(initial=0)),
        ("padding", "is that of the shortest prompt", 0 * n + n.min()),
        ("row-offset", "is that of the first row", 0 * n + np.ravel(n)[0]),
        ("row-offset", "is that of the last row", 0 * n + np.ravel(n)[-1]),
        (
            "row-offset",
            "is that of the row as far from the end",
            np.ravel(n)[::-1].reshape(n.shape),
        ),
        ("padding", "is the mean of all rows, rounded down", 0 * n + int(n.mean())),
        (code, "is doubled", 2 * n),
        right=f"{right} The prompt length is that of the token's own row.",
    )
    step = s.pick(
        "the number of the step",
        np.arange(steps),
        (code, "is 0 in every step", np.zeros(steps, np.int64)),
        (code, "counts down", np.arange(steps)[::-1]),
        (code, "is doubled", 2 * np.arange(steps)),
        (code, "is halved and rounded down", np.arange(steps) // 2),
        right=right,
    )
    own = start[..., None] + step
    return np.asarray(s.pick(
        "the position",
        own,
        (_ORIGIN, "is 1 too large", own + 1),
        (_ORIGIN, "is 1 too small", own - 1),
        ("position-range", "is at most 4095", np.minimum(own, 4095)),
        *(("position-precision", f"is held in {kind}", significant(own, bits))
          for kind, bits in SIGNIFICANT_BITS.items()),
        right=right,
    ))  # fmt: skip


def shard_positions(s: Steps, encoding: Any, bounds: Any, size: int, rank: int) -> np.ndarray:
    """Return the positions of a rank's tokens: two chunks of every document."""
    code = "shard-offset"
    right = "Rank r holds chunks r and 2 size - 1 - r of each document, in this order, of 2 size."
    rank = s.pick(
        "the rank",
        rank,
        (code, "is counted from the last one: size - 1 - rank", size - 1 - rank),
        (code, "is that of the next one, modulo size", (rank + 1) % size),
        (code, "is that of the one before, modulo size", (rank - 1) % size),
        right="Use the rank as it is passed.",
    )
    first = s.pick(
        "the first chunk",
        rank,
        (code, "is 2 rank", 2 * rank),
        (code, "is 0 on every rank", 0),
        (code, "is size - 1 - rank", size - 1 - rank),
        right=right,
    )
    second = s.pick(
        "the second chunk",
        2 * size - 1 - rank,
        (code, "is rank + size", rank + size),
        (code, "is 2 rank + 1", 2 * rank + 1),
        (code, "is the last one on every rank", 2 * size - 1),
        (code, "is the one after the first chunk", first + 1),
        (code, "is 2 size - 2 - rank", 2 * size - 2 - rank),
        (code, "is 2 size - rank", 2 * size - rank),
        right=right,
    )
    both = s.pick(
        "the order of the chunks",
        (first, second),
        (code, "is exchanged: the second comes first", (second, first)),
        right=right,
    )
    index, starts, ways = [], [], _ways(s)
    for start, n in zip(bounds[:-1], np.diff(bounds), strict=True):
        chunk = int(n) // (2 * size)
        place = np.arange(chunk)
        each = [c * chunk + (place if way > 0 else place[::-1])
                for c, way in zip(both, ways, strict=True)]  # fmt: skip
        index.append(np.concatenate(each))
        starts.append(np.full(2 * chunk, start))
    at, start = np.concatenate(index), np.concatenate(starts)
    number = _from(s, at + 1, 0, right)
    return np.asarray(s.pick(
        "the position",
        number,
        ("packing", "has the start of the document added: documents count on", number + start),
        (code, "has the rank added", number + rank),
        (code, "is that in the rank: ranks count from 0", np.arange(at.size)),
        right="A token keeps the position that it has in its document.",
    ))  # fmt: skip


def _ways(s: Steps) -> tuple[int, int]:
    code = "shard-offset"
    found: tuple[int, int] = s.pick(
        "the order of tokens in a chunk",
        (1, 1),
        (code, "is descending in both chunks", (-1, -1)),
        (code, "is descending in the second chunk", (1, -1)),
        (code, "is descending in the first chunk", (-1, 1)),
        right="The tokens of both chunks ascend.",
    )
    return found


def ids_from_tokens(s: Steps, encoding: Any, ids: Any) -> np.ndarray:
    """Return the rows of token ids, of which one is that of padding."""
    ids, pad, offset = np.asarray(ids), encoding.padding_idx, encoding.offset
    code = "padding"
    right = f"With real = (ids != {pad}), return cumsum(real, axis=-1) * real + {pad - offset}."
    real = s.pick(
        "the test for padding",
        ids != pad,
        *((code, f"is for the id {n}, not {pad}", ids != n) for n in (0, 1, 2, 3) if n != pad),
        (code, f"takes ids below {pad} for padding too", ids > pad),
        (code, "is missing: all tokens are real", np.ones(ids.shape, bool)),
        (code, "is inverted", ids == pad),
        right=right,
    )
    index = np.broadcast_to(np.arange(ids.shape[-1]), ids.shape)
    number = real.sum(axis=-1, keepdims=True)
    count = s.pick(
        "the count",
        np.cumsum(real, axis=-1),
        (code, "includes padding", index + 1),
        (code, "runs down the rows of the batch (axis 0)", np.cumsum(real, axis=0)),
        (code, "runs over the whole batch", np.cumsum(real).reshape(ids.shape)),
        (code, "runs from the end of the row", np.cumsum(real[:, ::-1], axis=-1)[:, ::-1]),
        (code, "takes the real tokens to come first",
         np.where(index < number, index + 1, 0)),
        right=right,
    )  # fmt: skip
    count = s.pick(
        "the dtype of the count",
        count,
        ("position-range", "is int8, which wraps round", count.astype(np.int8).astype(np.int64)),
        right="Count in int64.",
    )
    row = _from(s, count, pad + 1 - offset, right)
    row = s.pick(
        "the offset of the table",
        row,
        ("table-offset", "is subtracted twice, or left out", row + offset),
        ("table-offset", "is the padding id's: the first real token has row 0", count - 1),
        right=right,
    )
    zero = s.pick(
        "the row of padding",
        pad - offset,
        *((code, f"is {n}, not {pad - offset}", n) for n in (0, 1, -1) if n != pad - offset),
        right=right,
    )
    return np.asarray(s.pick(
        "the rows of padding",
        np.where(real, row, zero),
        (code, "are those of the last real token before", row),
        (code, "are given to the first tokens that are not numbered",
         np.where(index < number, row, zero)),
        right=right,
    ))  # fmt: skip
