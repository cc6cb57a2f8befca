"""Calls of ``position_ids`` and ``ids_from_tokens``, which leave out padding; their mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.mistake import Mistake
from posenc_ref.conformance.harness.crossing import Crossing, Row

from .function import Arguments, several, written


def masks(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    """Yield masks (B, S) with padding in different places."""
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
    alike = np.array([[1, 0, 1, 1, 0], [0, 1, 1, 1, 0], [1, 0, 0, 1, 1]])
    yield Arguments("as much padding in every row", (alike,), False)
    yield Arguments("a row of padding", (np.array([[0, 0, 0], [0, 1, 1]]),), False)


def _over_rows(mask: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.arange(mask.shape[-1]), mask.shape)


def since_masked(mask: np.ndarray) -> np.ndarray:
    """Return for every token the number of tokens between it and the last masked one before."""
    at = _over_rows(mask)
    return np.asarray(at - 1 - np.maximum.accumulate(np.where(mask == 0, at, -1), axis=-1))


#: What is right in every row of a mask.
REAL = (
    "Number the real tokens of each row 0, 1, 2, ...: cumsum(attention_mask, axis=-1) - 1, whether "
    "padding is on the left, on the right or between"
)


def mask_mistakes(encoding: Any) -> Iterator[Mistake]:
    """Yield the known mistakes of positions from a mask, likely ones first."""

    def count(mask: np.ndarray) -> np.ndarray:
        return np.cumsum(mask, axis=-1)

    yield from several(
        ("padding", "padding is counted: positions are 0 .. S-1", _over_rows, f"{REAL}."),
        ("position-origin", "real tokens are counted from 1", count,
         f"{REAL}. The subtraction of 1 is missing."),
        ("padding", "positions are counted over the whole batch",
         lambda mask: (np.cumsum(mask.ravel()) - 1).reshape(mask.shape),
         f"{REAL}. Sum along the tokens (axis=-1), not over the whole mask."),
        ("padding", "the length of the padding is subtracted, on the right as well",
         lambda mask: _over_rows(mask) - (1 - mask).sum(axis=-1, keepdims=True),
         f"{REAL}. Only the padding before a token counts, not that of the whole row."),
        ("padding", "the length of the padding is subtracted, on the right as well, and negative "
         "positions become 0",
         lambda mask: np.maximum(
             _over_rows(mask) - (1 - mask).sum(axis=-1, keepdims=True), 0
         ), f"{REAL}. Only the padding before a token counts, not that of the whole row."),
        ("padding", "only padding on the left is not counted",
         lambda mask: _over_rows(mask) - np.argmax(mask, axis=-1)[:, None], f"{REAL}."),
        ("padding", "the real tokens are taken to come first: as many as are real are numbered, "
         "then the others get the last number",
         lambda mask: np.minimum(_over_rows(mask), mask.sum(axis=-1, keepdims=True) - 1),
         f"{REAL}."),
        ("padding", "the count starts again at 0 after a masked token, as if a new document began",
         since_masked, f"{REAL}. A masked token between real ones does not end the count."),
        *(
            ("padding", "the count runs over the whole batch, and the length of the rows before is "
             f"subtracted, their padding included{words}",
             lambda mask, low=low: np.maximum(
                 (np.cumsum(mask.ravel()) - 1).reshape(mask.shape)
                 - mask.shape[-1] * np.arange(len(mask))[:, None], low),
             f"{REAL}. Subtract the number of real tokens of the rows before, not their length.")
            for words, low in (("", -np.inf), ("; negative positions become 0", 0))
        ),
        ("padding", "the counter is as long as the first row has real tokens: tokens after these "
         "get its last position",
         lambda mask: np.minimum(count(mask), max(int(mask[0].sum()), 1)) - 1,
         f"{REAL}. Rows may have more real tokens than the first."),
        ("padding", "tokens are counted from the end of the row",
         lambda mask: np.cumsum(mask[:, ::-1], axis=-1)[:, ::-1] - 1,
         f"{REAL}. The first real token has position 0."),
    )  # fmt: skip
    yield from _limited()
    yield from _of_one_row()


def _limited() -> Iterator[Mistake]:
    """Yield positions that are limited to the numbers of real tokens of a row."""
    counts = {
        "only padding on the left is not counted": (
            lambda mask: _over_rows(mask) - np.argmax(mask, axis=-1)[:, None]
        ),
        "the length of the padding is subtracted": (
            lambda mask: _over_rows(mask) - (1 - mask).sum(axis=-1, keepdims=True)
        ),
    }
    for (counted, count), low in product(counts.items(), (None, 0)):

        def positions(mask: Any, count: Any = count, low: Any = low) -> Any:
            most = np.maximum(mask.sum(axis=-1, keepdims=True) - 1, 0)
            return np.clip(count(mask), low, most)

        text = f"{counted}, and positions past the number of real tokens of the row become the last"
        text += " one" if low is None else " one, negative ones 0"
        yield written("padding", text, positions, f"{REAL}.")


def _of_one_row() -> Iterator[Mistake]:
    """Yield positions that are taken from one row of the mask, for all rows."""
    rows = {
        "the first row": lambda mask: 0,
        "the row with most real tokens": lambda mask: np.argmax(mask.sum(axis=-1)),
        "the last row": lambda mask: -1,
        "the row with most padding": lambda mask: np.argmin(mask.sum(axis=-1)),
    }
    counts = {
        "real tokens are counted": lambda one: np.cumsum(one) - 1,
        "tokens after the padding on its left are counted": (
            lambda one: np.arange(one.size) - np.argmax(one)
        ),
        "padding is taken to be on its left": lambda one: np.arange(one.size) - (1 - one).sum(),
    }
    ends: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
        ("", lambda one, mask: one),
        ("", lambda one, mask: np.maximum(one, 0)),
        *((f", and whose padding has {n}", lambda one, mask, n=n: np.where(mask == 1, one, n))
          for n in (0, 1)),
    )  # fmt: skip
    for (counted, count), (padded, end) in product(counts.items(), ends):
        for row, at in rows.items():

            def positions(mask: Any, at: Any = at, count: Any = count, end: Any = end) -> Any:
                own = mask[at(mask)]
                return np.broadcast_to(end(count(own), own), mask.shape)

            text = f"every row has the positions of {row}, whose {counted}{padded}"
            yield written("padding", text, positions, f"{REAL}. Do so for every row on its own.")


def _padded(row: Row) -> bool:
    """Return whether a row has tokens enough for its padding."""
    return bool(row.get("tokens", 9) > 3 or row.get("padding", "nowhere") == "nowhere")


def mask_crossing() -> Crossing:
    """Return the factors of a mask: its rows, its tokens, and where padding is."""
    return Crossing({
        "rows": (1, 2, 5, 9),
        "tokens": (1, 4, 5, 9, 33, 130),  # also as many as rows
        "padding": ("nowhere", "on the left", "on the right", "between", "on both sides"),
    }, _padded, optional=("padding",))  # fmt: skip


def mask_row(row: Row) -> tuple[Any, ...]:
    """Return a mask; rows have different padding."""
    b, n, where = row["rows"], row["tokens"], row["padding"]
    index = np.arange(n)
    mask = np.ones((b, n), np.int64)
    for i in range(b if where != "nowhere" else 0):
        left, right = 1 + i % (n // 2), n - 1 - (2 * i) % (n // 2)
        mask[i] = {
            "on the left": index >= left,
            "on the right": index < right,
            "between": (index < left) | (index >= min(left + 1 + i % 2, n - 1)),
            "on both sides": (index >= left) & (index < right),
        }[where]
    return (mask,)


_BETWEEN = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 0]])


def tokens(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    """Yield token ids (B, S) with padding in different places."""
    padding = encoding.padding_idx
    room = max(min(encoding.rows - padding - 1, 40), 1)  # past LEAST_POSITION of floor.py
    rng = np.random.default_rng(seed)

    def ids(real: Any) -> np.ndarray:
        real = np.asarray(real)
        each = rng.integers(0, 50, real.shape)
        each = each + (each >= padding)  # no token equals the padding id
        return np.asarray(np.where(real, each, padding))

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


def token_mistakes(encoding: Any) -> Iterator[Mistake]:
    """Yield the known mistakes of rows that are counted from tokens without padding."""
    padding, offset = encoding.padding_idx, encoding.offset
    rows = (
        f"With real = (ids != {padding}), return cumsum(real, axis=-1) * real + "
        f"{padding - offset}: real tokens get {padding + 1 - offset}, {padding + 2 - offset}, ..., "
        f"padding tokens {padding - offset}."
    )

    def real(ids: np.ndarray) -> np.ndarray:
        return np.asarray(ids != padding, dtype=np.int64)

    own = encoding.ids_from_tokens
    yield written(
        "padding",
        "padding is counted: token i of a sequence, padding included, has row padding_idx + 1 + i",
        lambda ids: np.broadcast_to(np.arange(ids.shape[-1]) + padding + 1 - offset, ids.shape),
        rows,
    )
    for start in (padding + 1, 0):
        yield written(
            "padding",
            f"padding is counted: real token i of a sequence has row {start} + i",
            lambda ids, start=start: np.where(
                real(ids) == 1, np.arange(ids.shape[-1]) + start - offset, padding - offset
            ),
            rows,
        )

    for other in {0, 1, 2, 3} - {padding}:
        for start in {other, padding}:
            yield written(
                "padding",
                f"the padding id is {other}, not {padding}, and the first real token has row "
                f"{start + 1}",
                lambda ids, n=other, start=start: np.cumsum(ids != n, axis=-1) * (ids != n)
                + start - offset,
                rows,
            )  # fmt: skip

    if padding:
        yield written(
            "padding",
            f"tokens below the padding id are taken for padding: ids > {padding} is tested",
            lambda ids: np.cumsum(ids > padding, axis=-1) * (ids > padding) + padding - offset,
            f"{rows} Test ids != {padding}.",
        )

    def first(ids: np.ndarray) -> np.ndarray:
        index = np.broadcast_to(np.arange(ids.shape[-1]), ids.shape)
        count = real(ids).sum(axis=-1, keepdims=True)
        ids_of: np.ndarray = np.where(index < count, index + padding + 1, padding) - offset
        return ids_of

    yield from several(
        ("padding", "the real tokens are taken to come first: the first tokens of a row are "
         "numbered, as many as are real", first, rows),
        ("padding", "positions are 0 .. S-1: they start at row 0, and padding is counted",
         lambda ids: np.broadcast_to(np.arange(ids.shape[-1]) - offset, ids.shape), rows),
        ("padding", "padding gets the position of the last real token",
         lambda ids: np.cumsum(real(ids), axis=-1) + padding - offset, rows),
        ("padding", "real tokens are counted down the rows of the batch (axis 0), not along the "
         "tokens of each row", lambda ids: np.cumsum(real(ids), axis=0) * real(ids)
         + padding - offset, rows),
        ("padding", "real tokens are counted on through all rows of the batch, not in each row",
         lambda ids: np.cumsum(real(ids)).reshape(ids.shape) * real(ids) + padding - offset, rows),
        ("padding", "the count starts again after a padding token between real ones, as if a new "
         "document began", lambda ids: np.where(
             real(ids) == 1, since_masked(real(ids)) + padding + 1, padding) - offset,
         f"{rows} A padding token between real ones does not end the count."),
        ("padding", "padding tokens do not get the padding row",
         lambda ids: np.where(real(ids) == 1, own(ids), 0), rows),
        ("table-offset", "real tokens are counted from padding_idx, not from padding_idx + 1: the "
         "first one gets the padding row", lambda ids: own(ids) - real(ids), rows),
        ("table-offset", "real tokens are counted from padding_idx + 2, not from padding_idx + 1",
         lambda ids: own(ids) + real(ids), rows),
        ("table-offset", "the first token that is not padding gets row 0",
         lambda ids: np.where(real(ids) == 1, np.cumsum(real(ids), axis=-1) - 1, own(ids)), rows),
        ("table-offset",
         "the first token that is not padding gets row 0, and padding has row 0 as well",
         lambda ids: (np.cumsum(real(ids), axis=-1) - 1) * real(ids), rows),
        ("table-offset", "the first token that is not padding gets row 1",
         lambda ids: np.cumsum(real(ids), axis=-1) * real(ids), rows),
    )  # fmt: skip
    if offset:
        yield written(
            "table-offset",
            "the table's offset is not subtracted",
            lambda ids: own(ids) + offset,
            rows,
        )
