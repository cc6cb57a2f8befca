"""Functions of relative positions in a grid: window indices, rows by offset and their logits."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from posenc_ref.conformance.harness.foreign import Refused
from posenc_ref.conformance.harness.implementation import Implementation

from .calls import grid_calls
from .foreign import Foreign
from .rows import whole

#: The grid of trial calls, and the size of a head and the seed of tables of logits.
_GRID, _DIM, _SEED = (3, 5), 64, 0
_TABLES = {"rows_height", "rows_width"}


def indices(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of a window, or of two lengths and a table, as the indices of its pairs."""
    count = math.prod(_GRID)
    for words, ask in grid_calls(fn):
        try:
            found = ask(*_GRID)
        except (Refused, ValueError):
            continue
        sides = (count, count + 1)  # the latter with [CLS]
        if len(found) == 1 and whole(found[0]) and found[0].shape in ((n, n) for n in sides):

            def index(window: tuple[int, int], ask: object = ask) -> np.ndarray:
                return ask(*window)[0]  # type: ignore[operator, no-any-return]

            yield Implementation(index, "relative_index", fn.name, how=words)
            return
    if {"query_length", "key_length"} <= fn.roles:
        yield from _rows(fn)


def _rows(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function that returns a row of a table for each query and key."""

    def of_side(n: int) -> np.ndarray:
        rows = np.arange(2 * n - 1.0)[:, None]
        (found,) = fn(rows, relative_position=rows, query_length=n, key_length=n)
        if found.shape != (n, n, 1) or not whole(found):
            raise ValueError(f"expected a row for each pair of {n} tokens, got {found.shape}")
        return found[..., 0].astype(np.int64)

    def index(window: tuple[int, int]) -> np.ndarray:
        h, w = window
        both = (2 * w - 1) * of_side(h)[:, None, :, None] + of_side(w)[None, :, None]
        return np.asarray(both.reshape(h * w, h * w))

    try:
        index(_GRID)
    except (Refused, ValueError):
        return
    how = (
        "a table (2 n - 1, 1) of the numbers of its rows, for n queries and n keys: once for the "
        "height and once for the width of a window"
    )
    limit = "other numbers of queries than of keys are not judged"
    yield Implementation(index, "relative_index", fn.name, how=how, limits=(limit,))


def decomposed(fn: Foreign) -> Iterator[Implementation]:
    """Yield a function of a query and of a table for each axis of a grid as its logits."""
    if not (fn.roles >= _TABLES and "query" in fn.roles):
        return
    h, w = _GRID
    rng = np.random.default_rng(_SEED)
    rows, columns = (rng.standard_normal((2 * n - 1, _DIM)) for n in _GRID)

    def logits(q: np.ndarray, k: np.ndarray) -> np.ndarray:
        if q.shape[2] != h * w or k.shape[2] != h * w:
            raise ValueError(f"q and k must have the {h * w} tokens of the grid")
        flat = q.reshape(-1, h * w, q.shape[-1])
        product = (q @ np.swapaxes(k, -1, -2)).reshape(-1, h * w, h * w) / np.sqrt(q.shape[-1])
        (found,) = fn(
            query=flat, rows_height=rows, rows_width=columns, logits=product,
            query_length=_GRID, key_length=_GRID, grid=_GRID,
        )  # fmt: skip
        found = found.reshape(product.shape)
        added = found if "logits" in fn.roles else product + found
        return added.reshape(*q.shape[:3], h * w)

    try:
        logits(*np.zeros((2, 1, 1, h * w, _DIM)))
    except (Refused, ValueError):
        return
    how = (
        f"q (B * H, S, {_DIM}), the {h} x {w} patches of an image, and tables of random numbers; "
        f"its result {'has' if 'logits' in fn.roles else 'is added to'} q . k / sqrt({_DIM})"
    )
    yield Implementation(logits, "scores", fn.name, head_dim=_DIM, how=how)
