"""Orders in which code numbers the patches of a grid, other than row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

#: Returns the number, row by row, of the patch whose position each token of a grid has.
Order = Callable[[int, int], np.ndarray]
#: The sides of blocks of patches: those that are merged, and windows.
_SIDES = (2, 3, 4, 5, 7, 8)


def grid_orders() -> Iterator[tuple[str, Order]]:
    """Yield orders of the patches in words, likely ones first."""
    yield "are numbered column by column, declared row by row", _by_column
    for side in _SIDES:
        block = f"blocks of {side} x {side}"
        for words, inside in (("row by row", False), ("column by column", True)):
            for more, outside in (("", False), (", the blocks column by column", True)):
                order = partial(_blocks, side, inside, outside)
                yield (
                    f"have positions in the order of {block} ({words} in each block{more}), "
                    "declared row by row",
                    order,
                )
        yield (
            f"are numbered by the place of their patch in the order of {block}, declared row by "
            "row",
            partial(_inverse, partial(_blocks, side, False, False)),
        )
    yield "have positions in rows that run to and fro: every second one backwards", _to_and_fro
    yield "have the rows from the last to the first", partial(_flipped, 0)
    yield "have the columns from the last to the first", partial(_flipped, 1)
    yield "have the patches from the last to the first", partial(_flipped, (0, 1))


def _cells(height: int, width: int) -> np.ndarray:
    return np.arange(height * width).reshape(height, width)


def _by_column(height: int, width: int) -> np.ndarray:
    return _cells(height, width).T.ravel()


def _blocks(side: int, inside: bool, outside: bool, height: int, width: int) -> np.ndarray:
    r, c = np.divmod(np.arange(height * width), width)
    within = (r % side, c % side) if inside else (c % side, r % side)
    between = (r // side, c // side) if outside else (c // side, r // side)
    return np.lexsort((*within, *between))


def _inverse(order: Order, height: int, width: int) -> np.ndarray:
    return np.argsort(order(height, width))


def _to_and_fro(height: int, width: int) -> np.ndarray:
    cells = _cells(height, width)
    cells[1::2] = cells[1::2, ::-1]
    return cells.ravel()


def _flipped(axis: int | tuple[int, ...], height: int, width: int) -> np.ndarray:
    return np.flip(_cells(height, width), axis).ravel()
