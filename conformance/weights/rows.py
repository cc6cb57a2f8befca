"""Find out how the rows of one matrix are ordered in another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

#: Columns that are compared to match rows; all columns are compared afterwards.
_COLUMNS = 64
_BLOCK = 512
#: Matching compares every row with every row.
_MOST_ROWS = 32768


class Order(NamedTuple):
    """How rows were moved: by a layout, or in another way."""

    kind: str  #: "same", "permuted" or "reordered"
    source: str = ""  #: the layout before
    target: str = ""  #: the layout after
    dim: int = 0  #: the rows of a head
    rotary_dim: int = 0
    rotary_start: int = 0

    def __str__(self) -> str:
        if self.kind != "permuted":
            return {"same": "same", "reordered": "neither: rows in an order of no layout"}[
                self.kind
            ]
        last = self.rotary_start + self.rotary_dim - 1
        part = "" if self.rotary_dim == self.dim else f", channels {self.rotary_start}..{last}"
        return f"permuted: {self.source} -> {self.target}, heads of {self.dim}{part}"


class Tolerance(NamedTuple):
    """The difference that a rounding explains."""

    relative: float = 0.0  #: times the size of the element
    absolute: float = 0.0  #: for elements below the normal range of the dtype


def match_rows(a: np.ndarray, b: np.ndarray, tolerance: Tolerance) -> np.ndarray | None:
    """Return the permutation with ``b = a[index]`` within the tolerance, or None."""
    rows, width = a.shape
    chosen = np.unique(np.linspace(0, width - 1, min(width, _COLUMNS)).astype(int))
    few, other = a[:, chosen], b[:, chosen]
    if rows <= _MOST_ROWS:
        squares = np.sum(few * few, axis=1)
        nearest = [
            np.argmin(squares - 2 * other[i : i + _BLOCK] @ few.T, axis=1)
            for i in range(0, rows, _BLOCK)
        ]
        index = np.concatenate(nearest)
        if (np.bincount(index, minlength=rows) == 1).all() and agree(a[index], b, tolerance):
            return index
    for order in _usual_orders(rows):  # rows may be equal, as those of a pruned head
        guess = order_index(order, rows)
        likely = guess is not None and agree(few[guess], other, tolerance)
        if likely and agree(a[guess], b, tolerance):
            return guess
    return None


def _usual_orders(rows: int) -> Iterator[Order]:
    """Yield the changes of layout of whole heads, of their first channels, and of their last."""
    for dim in (d for d in range(4, min(rows, 1024) + 1, 2) if rows % d == 0):
        slices = ((dim, 0), (dim // 2, 0), (dim // 4, 0), (dim // 3, dim - dim // 3))
        for count, first in slices:
            if count >= 4 and count % 2 == 0:
                yield Order("permuted", "half", "interleaved", dim, count, first)
                yield Order("permuted", "interleaved", "half", dim, count, first)


def agree(a: np.ndarray, b: np.ndarray, tolerance: Tolerance) -> bool:
    """Return whether all elements of b are within the tolerance of those of a."""
    limit = tolerance.relative * np.abs(a) + tolerance.absolute
    return bool((np.abs(a - b) <= limit).all())


def describe_order(index: np.ndarray, fused: bool = False) -> Order:
    """Return which change of layout a permutation of rows is.

    Formula
        The heads are the smallest equal blocks that are permuted alike, each within itself.  The
        rotated channels are those from the first moved row to the last one, and one row on either
        side: a change of layout keeps the first and the last rotated channel in place.  In a
        ``fused`` projection, the heads of v stay.
    """
    rows = len(index)
    if np.array_equal(index, np.arange(rows)):
        return Order("same")
    for dim in (d for d in range(4, rows + 1) if rows % d == 0):
        blocks = index.reshape(-1, dim) - np.arange(0, rows, dim)[:, None]
        still = (blocks == np.arange(dim)).all(axis=1)
        alike = (blocks == blocks[0]).all(axis=1)
        if blocks.min() < 0 or blocks.max() >= dim or still[0] or not (alike | still).all():
            continue
        if still.any() != fused or (fused and not _are_values(still)):
            continue
        moved = np.flatnonzero(blocks[0] != np.arange(dim))
        first, last = moved[0] - 1, moved[-1] + 1
        count = int(last - first + 1)
        if first < 0 or last >= dim or count % 2:
            break
        inside = blocks[0, first : last + 1] - first
        for source, target, expected in (
            ("half", "interleaved", np.arange(count).reshape(2, -1).T.ravel()),
            ("interleaved", "half", np.arange(count).reshape(-1, 2).T.ravel()),
        ):
            if np.array_equal(inside, expected):
                return Order("permuted", source, target, dim, count, int(first))
        break
    return Order("reordered")


def _are_values(still: np.ndarray) -> bool:
    """Return whether the heads that stay are those of v: the last ones, or the last of each group.

    There are as many key heads as value heads, and a multiple of them are query heads.
    """
    total, n = len(still), int(still.sum())
    if total <= 2 * n or total % n:
        return False
    head, group = np.arange(total), total // n
    return any(np.array_equal(still, v) for v in (head >= total - n, head % group == group - 1))


def order_index(order: Order | None, rows: int) -> np.ndarray | None:
    """Return the index of so many rows that has this order; None if there is no such index."""
    if order is None or order.kind != "permuted" or rows % order.dim:
        return None
    shape = (2, -1) if order.source == "half" else (-1, 2)
    index = np.arange(rows).reshape(-1, order.dim)
    first, last = order.rotary_start, order.rotary_start + order.rotary_dim
    inside = np.arange(first, last).reshape(shape).T.ravel()
    index[:, first:last] = index[:, inside]
    return index.ravel()
