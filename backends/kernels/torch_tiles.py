"""Rotate tensors tile by tile, so that intermediate results stay in the cache.

Half-precision tiles are widened to float32, rotated, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Tensor = Any

#: Bytes of a widened tile.
_TILE = 256 * 1024


def in_tiles(
    x: Tensor,
    factor: Tensor,
    row: int,
    out: Tensor,
    rotate: Callable[[Tensor, Tensor, Tensor], None],
) -> None:
    """Call ``rotate(wide, factor, result)`` for each tile of ``x`` (..., S, n) and fill ``out``.

    ``row`` is the position axis of ``factor``, counted from the last axis (-1).
    """
    import torch

    scratch: Tensor = None
    for tile, table, goal in tiles(x, factor, row, out):
        if scratch is None or scratch[0].numel() < tile.numel():
            scratch = torch.empty((2, tile.numel()), dtype=factor.dtype, device=x.device)
        wide, result = scratch[:, : tile.numel()].view(2, *tile.shape).unbind(0)
        wide.copy_(tile)
        rotate(wide, table, result)
        goal.copy_(result)


def tiles(
    x: Tensor, factor: Tensor, row: int, out: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield tiles of ``x`` (..., S, n), the rows of ``factor`` for them, and the same of ``out``.

    ``row`` is the position axis of ``factor``, counted from the last axis (-1).  On devices other
    than the CPU all of x is one tile, because a launch costs more than a pass through memory.
    """
    import torch

    room = x.numel()
    if x.device.type == "cpu":  # each thread takes a part of a tile
        room = _TILE * torch.get_num_threads() // (factor.element_size() * x.shape[-1])
    for heads, table, into in _planes(x, factor, row, out):
        count, rows = heads.shape[:2]
        tall = max(1, min(rows, room))
        many = max(1, min(count, room // tall))
        for p in range(0, rows, tall):
            here = table.narrow(row, p, min(tall, rows - p))
            for h in range(0, count, many):
                at = slice(h, h + many), slice(p, p + tall)
                yield heads[at], here, into[at]


def _planes(
    x: Tensor, factor: Tensor, row: int, out: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield parts (heads, S, n) of x and out, and the table with three axes for these heads."""
    lead = 1 if row == -2 else 0  # the first axis of the factor of halves is cos, sin
    extra = factor.ndim - 3
    if extra and all(size == 1 for size in factor.shape[lead : lead + extra]):
        factor, extra = factor.flatten(0, extra) if not lead else factor.flatten(1, extra + 1), 0
    if not extra:
        shape = (-1, *x.shape[-2:])
        try:
            yield x.view(shape), factor, out.view(shape)
            return
        except RuntimeError:  # the strides do not allow one axis of heads
            pass
    for i in range(x.shape[0]):
        part = factor.select(lead, min(i, factor.shape[lead] - 1)) if extra else factor
        yield from _planes(x[i], part, row, out[i])
