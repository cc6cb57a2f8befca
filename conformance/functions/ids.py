"""The row of ``ids_from_tokens``: the rows of a table that counts real tokens, as RoBERTa does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref.conformance.diagnosis.mistake import Mistake

from .function import Arguments, Plain, several, written

_BETWEEN = np.array([[1, 1, 0, 1, 1], [1, 0, 0, 1, 0]])


def _tokens(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    padding = encoding.padding_idx
    room = max(min(encoding.rows - padding - 1, 24), 1)
    rng = np.random.default_rng(seed)

    def ids(real: Any) -> np.ndarray:
        real = np.asarray(real)
        tokens = rng.integers(0, 50, real.shape)
        tokens = tokens + (tokens >= padding)  # anything but padding
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
        "padding is counted: positions go on from padding_idx + 1 over every token",
        lambda ids: np.broadcast_to(np.arange(ids.shape[-1]) + padding + 1 - offset, ids.shape),
    )
    for start in (padding + 1, 0):
        yield written(
            "padding",
            f"padding is counted: tokens have {start}, {start + 1}, {start + 2}, ..., and only the "
            "padding itself its own row",
            lambda ids, start=start: np.where(
                real(ids) == 1, np.arange(ids.shape[-1]) + start - offset, padding - offset
            ),
        )
    yield from several(
        ("padding", "positions are 0 .. S-1: they start at row 0, and padding is counted",
         lambda ids: np.broadcast_to(np.arange(ids.shape[-1]) - offset, ids.shape),
         f"The first real token has row {padding + 1}, padding row {padding}: "
         f"cumsum(ids != {padding}) * (ids != {padding}) + {padding}."),
        ("padding", "padding goes on with the position of the last real token",
         lambda ids: np.cumsum(real(ids), axis=-1) + padding - offset),
        ("padding", "padding tokens do not get the padding row",
         lambda ids: np.where(real(ids) == 1, own(ids), 0)),
        ("table-offset", "real tokens start at the padding row",
         lambda ids: np.where(real(ids) == 1, own(ids) - 1, own(ids))),
        ("table-offset", "real tokens start at row 0",
         lambda ids: np.where(real(ids) == 1, np.cumsum(real(ids), axis=-1) - 1, own(ids))),
        ("table-offset", "real tokens start at row 0, and padding has row 0 as well",
         lambda ids: (np.cumsum(real(ids), axis=-1) - 1) * real(ids)),
        ("table-offset", "real tokens start at row 1",
         lambda ids: np.cumsum(real(ids), axis=-1) * real(ids)),
    )  # fmt: skip
    if offset:
        yield written(
            "table-offset", "the table's offset is not taken off", lambda ids: own(ids) + offset
        )


ID_ROWS = {
    "ids_from_tokens": Plain(_tokens, _token_mistakes, "padding"),
}
