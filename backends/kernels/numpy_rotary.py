"""Rotation of NumPy arrays at the speed of memory, with no compiled dependency.

Interleaved pairs are viewed as complex numbers and multiplied by ``m (cos + i sin)`` in one pass,
where m is the attention factor.  Halves take three passes over tiles that fit in the cache: one
computes ``x cos``, one ``x sin``, and one adds each half of ``x sin`` to the opposite half of
``x cos``.  Positions are the outer loop and heads the inner loop, so a tile of the table is read
once for all heads.  float16 and bfloat16 are processed in tiles too: a tile is widened to float32,
rotated, and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .caches import second_level
from .numba_loops import imported
from .pair_runs import PairRun, unrotated
from .threads import count, cuts, share

#: An array of fewer numbers is rotated before a compiled loop is read from disk.
_COMPILED = 2**16
#: An array of at most this many bytes is one tile.
_SMALL = 64 * 1024
#: Bytes of scratch memory that all threads together take, if tiles of an eighth of the cache do not
#: take more.
_MOST = 2**19
#: NumPy 2.0, whose reshape has no ``copy``.
_NUMPY_2_0 = np.__version__.startswith("2.0.")


@dataclass(slots=True)
class NumpyTables:
    """cos and sin of every run of pairs, in the dtype that the rotation computes in.

    ``factors[i]`` is one complex table (..., S, pairs) for an interleaved run, and two real tables
    (..., S, 2 pairs) for halves and for a single pair: the cosines twice, and the sines followed by
    their negatives.
    """

    runs: tuple[PairRun, ...]
    unrotated: tuple[slice, ...]  #: the channels outside all runs
    factors: tuple[tuple[np.ndarray, ...], ...]
    dim: int

    @property
    def rows(self) -> int:
        """The number of positions S."""
        return int(self.factors[0][0].shape[-2])

    def window(self, start: int, stop: int) -> NumpyTables:
        """Return a view of rows ``start`` to ``stop``; positions must have one axis (S,)."""
        cut = tuple([tuple([t[start:stop] for t in f]) for f in self.factors])
        return NumpyTables(self.runs, self.unrotated, cut, self.dim)


def make_tables(runs: tuple[PairRun, ...], phasors: np.ndarray, dim: int) -> NumpyTables:
    """Return the tables of ``phasors``, complex (..., S, pairs)."""
    factors: list[tuple[np.ndarray, ...]] = []
    for run in runs:
        part = phasors[..., run.pairs]
        # One pair is both layouts at once. As one complex number it would have bits that depend on
        # the strides, and so on the threads: NumPy's loop then runs over another axis.
        if run.interleaved and run.size > 1:
            factors.append((np.ascontiguousarray(part),))
        else:
            cos, sin = part.real, part.imag
            factors.append(
                (np.concatenate([cos, cos], axis=-1), np.concatenate([sin, -sin], axis=-1))
            )
    return NumpyTables(runs, unrotated(runs, dim), tuple(factors), dim)


def rotate(x: np.ndarray, tables: NumpyTables, out: np.ndarray, threads: int | None = None) -> None:
    """Rotate ``x`` (..., S, dim) into ``out``; ``out`` is x itself or does not overlap x.

    x and ``out`` must be contiguous along their last axis; their other axes may have any strides.
    """
    by, same, parts = library(x, tables), out is x, count(threads, x.nbytes)
    if parts == 1:
        _rotate(x, tables, out, by, same, parts)
        return
    # The first axis that is long enough: each thread writes memory of its own.
    lengths = x.shape[:-1]
    axis = next((a for a, n in enumerate(lengths) if n >= parts), int(np.argmax(lengths)))

    def work(at: slice) -> None:
        index = (slice(None),) * axis + (at,)
        cut = _cut(tables, axis - x.ndim, at)
        _rotate(x[index], cut, out[index], by, same, parts)

    share(work, cuts(lengths[axis], parts))


def library(x: np.ndarray, tables: NumpyTables) -> str:
    """Return the library that rotates ``x``: numba, if one of the runs takes its loop, or numpy."""
    if x.size < _COMPILED or not imported():
        return "numpy"
    return "numpy" if all(_is_product(x, factors) for factors in tables.factors) else "numba"


def _is_product(x: np.ndarray, factors: tuple[np.ndarray, ...]) -> bool:
    """Return whether NumPy rotates a run in one pass: as complex numbers of the dtype of x."""
    return len(factors) == 1 and x.itemsize * 2 == factors[0].itemsize


def _cut(tables: NumpyTables, axis: int, at: slice) -> NumpyTables:
    """Return the tables of a part of x; ``axis`` is negative."""

    def part(table: np.ndarray) -> np.ndarray:
        if -axis > table.ndim or table.shape[axis] == 1:
            return table  # for every index of this axis
        index: list[Any] = [slice(None)] * table.ndim
        index[axis] = at
        found: np.ndarray = table[tuple(index)]
        return found

    factors = tuple(tuple(map(part, f)) for f in tables.factors)
    return NumpyTables(tables.runs, tables.unrotated, factors, tables.dim)


def _rotate(
    x: np.ndarray, tables: NumpyTables, out: np.ndarray, by: str, same: bool, threads: int
) -> None:
    for run, factors in zip(tables.runs, tables.factors, strict=True):
        part, into = (x, out) if run.size * 2 == tables.dim else _channels(x, out, run.channels)
        kind = factors[0].dtype
        if _is_product(x, factors):
            np.multiply(part.view(kind), factors[0], out=into.view(kind))
        elif by == "numba":
            from . import numba_rotary

            numba_rotary.rotate(part, factors, into)
        elif part.size * kind.itemsize <= _SMALL:
            if x.dtype == kind:
                _halves(part, factors[0], factors[1], into)
            else:
                _tile(part, factors, into, _scratch(part, factors, part.shape))
        else:
            _tiled(part, factors, into, threads)
    if not same:
        for kept in tables.unrotated:
            out[..., kept] = x[..., kept]


def _channels(x: np.ndarray, out: np.ndarray, at: slice) -> tuple[np.ndarray, np.ndarray]:
    return x[..., at], out[..., at]


def _scratch(
    x: np.ndarray, factors: Sequence[np.ndarray], shape: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """Return uninitialised arrays for the intermediate results of one tile.

    The half-split layout needs one for x times the sines.  If x is narrower than the tables, the
    last one holds x and then the result, in the dtype of the tables.
    """
    if len(factors) == 2 and x.dtype == factors[0].dtype:
        return (np.empty(shape, x.dtype),)
    wide = factors[0].real.dtype
    halves, narrow = len(factors) == 2, x.dtype != wide
    return tuple([np.empty(shape, wide) for _ in range(halves + narrow)])


def _tiled(x: np.ndarray, factors: tuple[np.ndarray, ...], out: np.ndarray, threads: int) -> None:
    wide = factors[0].real.dtype
    # Tall tiles: a call of NumPy takes as long as dozens of rows, and long runs of memory are read
    # faster.
    cache = second_level()
    size = max(cache // 8, min(cache // 2, _MOST // threads))
    size //= len(_scratch(x, factors, (0,)))
    scratch: tuple[np.ndarray, ...] = ()
    for heads, into, tables in _planes(x, factors, out):
        count, rows, width = heads.shape
        room = max(1, size // (width * wide.itemsize))
        if abs(heads.strides[0]) < abs(heads.strides[1]):  # the heads of a position lie together
            many = min(count, room)
            tall = min(rows, room // many)
        else:
            tall = min(rows, room)
            many = min(count, room // tall)
        if not scratch:
            scratch = _scratch(x, factors, (many, tall, width))
        for b in range(0, rows, 2 * tall):  # all heads use these tables before the next ones
            for h in range(0, count, many):
                for p in range(b, min(b + 2 * tall, rows), tall):
                    at = slice(h, h + many), slice(p, p + tall)
                    mine = [t[at if t.ndim == 3 else at[1]] for t in tables]
                    _tile(heads[at], mine, into[at], scratch)


def _tile(
    x: np.ndarray,
    factors: Sequence[np.ndarray],
    out: np.ndarray,
    scratch: tuple[np.ndarray, ...],
) -> None:
    """Rotate one tile of x into ``out``; ``scratch`` has the dtype of the tables.

    If that dtype is wider than out's dtype, the result is rounded once.
    """
    shape = x.shape
    if scratch[0].shape != shape:  # a tile at the edge
        scratch = tuple([s[tuple(map(slice, shape))] for s in scratch])
    result = out
    if out.dtype != scratch[0].dtype:
        result = scratch[-1]
        np.copyto(result, x)
        x = result
    if len(factors) == 1:  # interleaved
        kind = factors[0].dtype
        np.multiply(x.view(kind), factors[0], result.view(kind))
    else:
        _halves(x, factors[0], factors[1], result, scratch[0])
    if result is not out:
        np.copyto(out, result, casting="unsafe")


def _halves(
    x: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    out: np.ndarray,
    crossed: np.ndarray | None = None,
) -> None:
    """Rotate x into ``out``, both of the dtype of the tables; ``crossed`` is scratch memory."""
    crossed = np.multiply(x, sin, crossed)
    np.multiply(x, cos, out)
    # The last axis is contiguous: to split it takes no copy.
    halves = (*x.shape[:-1], 2, x.shape[-1] // 2)
    ends = out.reshape(halves)
    np.add(ends, crossed.reshape(halves)[..., ::-1, :], ends)


def _reshaped(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a view of ``array``; raise ValueError if its strides allow none of this ``shape``."""
    if not _NUMPY_2_0:
        return array.reshape(shape, copy=False)
    view = array.view()
    try:
        view.shape = shape  # deprecated in NumPy 2.5
    except AttributeError as error:
        raise ValueError(str(error)) from None
    return view


def _planes(
    x: np.ndarray, factors: tuple[np.ndarray, ...], out: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]]:
    """Yield x and out in as few parts (heads, S, width) as possible, each with its tables."""
    if factors[0].ndim == 2:
        try:
            shape = (-1, *x.shape[-2:])
            flat = _reshaped(x, shape), _reshaped(out, shape)
        except ValueError:  # the strides do not allow one axis of heads
            pass
        else:
            yield *flat, factors
            return
    lead = x.shape[:-2]
    tables = factors
    if factors[0].ndim > 2:
        tables = tuple(np.broadcast_to(t, (*lead, *t.shape[-2:])) for t in factors)
    for at in np.ndindex(lead[:-1]):
        yield x[at], out[at], tuple(t[at] if t.ndim > 2 else t for t in tables)
