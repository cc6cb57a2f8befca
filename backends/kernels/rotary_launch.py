"""Plan the launches of ``rotary.cu``: the variant, the grid, the arguments.  Needs no GPU."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .pair_runs import PairRun

#: For each dtype, the element type of the kernel, and how many elements 16 bytes hold.
TYPES = {"float64": "double", "float32": "float", "float16": "half16", "bfloat16": "brain16"}
PER_PACK = {"float64": 2, "float32": 4, "float16": 8, "bfloat16": 8}
#: Threads per block, heads that a thread rotates, heads that it loads before it stores any.
_THREADS, _HEADS, _IN_FLIGHT = 128, 16, 4
#: The largest second dimension of a grid.
_GRID_Y = 65535
#: These numbers must equal those in rotary.cu.
_MOST_RUNS = 12
SIZE = 512
_CALL = struct.Struct("<8Q4q2d")
_FIXED = struct.Struct(f"<16q3q4q4i{2 * _MOST_RUNS}i{2 * (_MOST_RUNS + 1)}i")


class View(NamedTuple):
    """Shape, strides (in elements) and alignment of an array x (..., S, dim) and its result."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    out_strides: tuple[int, ...]
    aligned: bool


class Axis(NamedTuple):
    """A leading axis: its size, and the strides of x, the result and positions along it.

    Strides are in elements.
    """

    size: int
    x: int
    y: int
    place: int


_ONE = Axis(1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Part:
    """The offsets, in elements, at which a launch starts in an array and in its result."""

    array: int
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch, without its pointers and without the arguments that depend on the positions."""

    kernel: str
    grid: tuple[int, int]
    block: tuple[int, int]
    parts: tuple[Part, ...]  #: one array, or queries and keys
    place: int  #: the index of its first position
    fixed: bytes


class CallArguments(NamedTuple):
    """The arguments that change between calls: pointers, bounds of positions, factors."""

    angles: int
    positions: int  #: the address of the positions; 0 to compute them from ``first``
    axes: int
    flag: int
    first: int
    lowest: int
    highest: int
    offset: int
    cos_factor: float
    sin_factor: float


def arguments(
    launch: Launch, x: Sequence[int], y: Sequence[int], item: int, call: CallArguments
) -> bytes:
    """Return the bytes of ``RotaryArguments`` for arrays at addresses ``x`` and results at ``y``.

    ``item`` is the size of an element in bytes.
    """
    one, two = launch.parts[0], launch.parts[-1]
    positions, first = call.positions, call.first
    if positions:
        positions += 8 * launch.place
    else:
        first += launch.place
    return (
        _CALL.pack(
            x[one.array] + item * one.x,
            x[two.array] + item * two.x,
            y[one.array] + item * one.y,
            y[two.array] + item * two.y,
            call.angles,
            positions,
            call.axes,
            call.flag,
            first,
            *call[5:],
        )
        + launch.fixed
    )


def plan(
    views: Sequence[View],
    place: tuple[int, ...],
    axis_stride: int,
    dtype: str,
    runs: Sequence[PairRun],
    gaps: Sequence[tuple[int, int]],
    table: bool,
) -> tuple[Launch, ...]:
    """Return the launches that rotate ``views``: one array, or queries and keys.

    ``place`` holds the strides of the positions along all axes of a view except its last axis; a
    stride is 0 if all elements along the axis share a position.  ``axis_stride`` is the stride
    between position axes.  Either all ``runs`` are interleaved or none is.  ``gaps`` are the
    channels to copy from x to its result, as start and stop.
    """
    folded = [_fold(view, place) for view in views]
    if len(views) == 2 and _alike(views, folded):
        members: list[tuple[int, ...]] = [(0, 1)]
    else:
        members = [(i,) for i in range(len(views))]
    made = []
    for together in members:
        chosen = [views[i] for i in together]
        if not all(all(view.shape) for view in chosen):
            continue
        loops, batch, _ = folded[together[0]]
        heads = [folded[i][2] for i in together]
        width = _width(chosen, dtype, runs, gaps)
        rows = chosen[0].shape[-2]
        kinds = (TYPES[dtype], width, _word(runs and runs[0].interleaved), _word(table), _IN_FLIGHT)
        grid, block, per_block = _grid(runs, width, batch.size * rows, [h.size for h in heads])
        fixed = _fixed(chosen, folded, together, place[-1], axis_stride, per_block, runs, gaps)
        for index in itertools.product(*(range(axis.size) for axis in loops)):
            start = [sum(i * axis[k] for i, axis in zip(index, loops, strict=True)) for k in (1, 2)]
            at = sum(i * axis.place for i, axis in zip(index, loops, strict=True))
            parts = tuple(Part(i, *start) for i in together)
            made.append(Launch(f"rotary<{', '.join(map(str, kinds))}>", grid, block, parts, at,
                               fixed))  # fmt: skip
    return tuple(made)


def _word(value: object) -> str:
    return "true" if value else "false"


def _fold(view: View, place: tuple[int, ...]) -> tuple[list[Axis], Axis, Axis]:
    """Return the leading axes of a view: (axes of the loop over launches, batch axis, head axis).

    One launch covers the batch axis and the head axis; each index of the other axes needs its own
    launch.
    """
    *lead, _, _ = view.shape
    axes = [Axis(*each) for each in zip(lead, view.strides, view.out_strides, place, strict=False)]
    heads = axes.pop() if axes and (axes[-1].place == 0 or axes[-1].size == 1) else _ONE
    rest: list[Axis] = []
    for axis in axes:
        if axis.size == 1:
            continue
        if rest and all(outer == axis.size * inner
                        for outer, inner in zip(rest[-1][1:], axis[1:], strict=True)):  # fmt: skip
            rest[-1] = Axis(rest[-1].size * axis.size, *axis[1:])
        else:
            rest.append(axis)
    batch = rest.pop() if rest else _ONE
    return rest, batch, heads


def _alike(views: Sequence[View], folded: Sequence[tuple[list[Axis], Axis, Axis]]) -> bool:
    """Return whether one launch can rotate both views.

    It can if the views have the same number of tokens at the same positions and the same number of
    channels, and if neither view alone needs several launches.
    """
    (q, k), ((q_loops, q_batch, _), (k_loops, k_batch, _)) = views, folded
    same = (q_batch.size, q_batch.place) == (k_batch.size, k_batch.place)
    return same and q.shape[-2:] == k.shape[-2:] and not q_loops and not k_loops


def _width(
    views: Iterable[View], dtype: str, runs: Iterable[PairRun], gaps: Iterable[tuple[int, int]]
) -> int:
    """Return the pairs per thread: as many as 16 bytes hold if all rows are aligned, else 1."""
    width = PER_PACK[dtype]
    cuts = [edge for run in runs for edge in (run.start, run.size)]
    cuts += [edge for gap in gaps for edge in gap]
    fits = all(cut % width == 0 for cut in cuts)
    for view in views:
        for strides in (view.strides, view.out_strides):
            fits = fits and view.aligned and strides[-1] == 1
            steps = zip(view.shape[:-1], strides, strict=False)
            fits = fits and all(n == 1 or step % width == 0 for n, step in steps)
    return width if fits else 1


def _grid(
    runs: Sequence[PairRun], width: int, tokens: int, heads: Sequence[int]
) -> tuple[tuple[int, int], tuple[int, int], int]:
    lanes = max(1, min(_THREADS, sum(run.size for run in runs) // width))
    here = max(1, _THREADS // lanes)
    per_block = max(_HEADS, -(-sum(heads) // _GRID_Y))
    return (-(-tokens // here), -(-sum(heads) // per_block)), (lanes, here), per_block


def _fixed(
    views: Sequence[View],
    folded: Sequence[tuple[list[Axis], Axis, Axis]],
    together: Sequence[int],
    row_place: int,
    axis_stride: int,
    per_block: int,
    runs: Sequence[PairRun],
    gaps: Sequence[tuple[int, int]],
) -> bytes:
    """Return the bytes of ``RotaryArguments`` from its member ``x_strides`` to its end."""
    strides: list[int] = []
    for side in ("x", "y"):
        for slot in range(2):
            if slot >= len(together):
                strides += [0] * 4
                continue
            view, (_, batch, heads) = views[slot], folded[together[slot]]
            last = (view.strides if side == "x" else view.out_strides)[-2:]
            strides += [getattr(batch, side), getattr(heads, side), *last]
    batch = folded[together[0]][1]
    sizes = [folded[i][2].size for i in together] + [0] * (2 - len(together))
    starts = [number for run in runs for number in (run.start, run.size)]
    copied = [number for gap in gaps for number in gap]
    return _FIXED.pack(
        *strides,
        *(batch.place, row_place, axis_stride),
        *(batch.size, views[0].shape[-2], *sizes),
        *(per_block, sum(run.size for run in runs), len(runs), len(gaps)),
        *(starts + [0] * (2 * _MOST_RUNS - len(starts))),
        *(copied + [0] * (2 * (_MOST_RUNS + 1) - len(copied))),
    )
