"""Rotation of NumPy arrays at the speed of memory, with no compiled dependency.

Interleaved pairs are viewed as complex numbers and multiplied by ``m (cos + i sin)`` in one pass,
where m is the attention factor.  Halves take three passes over tiles that fit in the cache: one
computes ``x cos``, one ``x sin``, and one adds each half of ``x sin`` to the opposite half of
``x cos``.  Positions are the outer loop and heads the inner loop, so a tile of the table is read
once for all heads.  float16 and bfloat16 are processed in tiles too: a tile is widened to float32,
rotated, and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .pair_runs import PairRun, unrotated

#: Bytes of a tile, and of each of the three tiles for float16 and bfloat16: less than 1 MiB in all.
_TILE, _WIDENED = 512 * 1024, 256 * 1024
#: An array of at most this many bytes is one tile.
_SMALL = 64 * 1024
#: NumPy 2.0, whose reshape has no ``copy``.
_NUMPY_2_0 = np.__version__.startswith("2.0.")


@dataclass(slots=True)
class NumpyTables:
    """cos and sin of every run of pairs, in the dtype that the rotation computes in.

    ``factors[i]`` is one complex table (..., S, pairs) for an interleaved run, and two real tables
    (..., S, 2 pairs) for halves: the cosines twice, and the sines followed by their negatives.
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
        cut = tuple(tuple([t[start:stop] for t in f]) for f in self.factors)
        return NumpyTables(self.runs, self.unrotated, cut, self.dim)


def make_tables(runs: tuple[PairRun, ...], phasors: np.ndarray, dim: int) -> NumpyTables:
    """Return the tables of ``phasors``, complex (..., S, pairs)."""
    factors: list[tuple[np.ndarray, ...]] = []
    for run in runs:
        part = phasors[..., run.pairs]
        if run.interleaved:
            factors.append((np.ascontiguousarray(part),))
        else:
            cos, sin = part.real, part.imag
            factors.append(
                (np.concatenate([cos, cos], axis=-1), np.concatenate([sin, -sin], axis=-1))
            )
    return NumpyTables(runs, unrotated(runs, dim), tuple(factors), dim)


def rotate(x: np.ndarray, tables: NumpyTables, out: np.ndarray) -> None:
    """Rotate ``x`` (..., S, dim) into ``out``; ``out`` is x itself or does not overlap x.

    x and ``out`` must be contiguous along their last axis; their other axes may have any strides.
    """
    for run, factors in zip(tables.runs, tables.factors, strict=True):
        part, into = (x, out) if run.size * 2 == tables.dim else _channels(x, out, run.channels)
        kind = factors[0].dtype
        if run.interleaved and x.itemsize * 2 == kind.itemsize:
            np.multiply(part.view(kind), factors[0], out=into.view(kind))
        elif part.size * kind.itemsize <= _SMALL:
            _tile(part, factors, into, _scratch(part, factors, part.shape))
        else:
            _tiled(part, factors, into)
    if out is not x:
        for kept in tables.unrotated:
            out[..., kept] = x[..., kept]


def _channels(x: np.ndarray, out: np.ndarray, at: slice) -> tuple[np.ndarray, np.ndarray]:
    return x[..., at], out[..., at]


def _scratch(
    x: np.ndarray, factors: tuple[np.ndarray, ...], shape: tuple[int, ...]
) -> tuple[np.ndarray, ...]:
    """Return uninitialised arrays for the intermediate results of one tile.

    The half-split layout needs one for x times the sines.  If x is narrower than the tables, two
    more hold x and the result in the dtype of the tables.
    """
    wide = factors[0].real.dtype
    need = len(factors) == 2
    return tuple([np.empty(shape, wide) for _ in range(need if x.dtype == wide else need + 2)])


def _tiled(x: np.ndarray, factors: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    wide = factors[0].real.dtype
    room = _TILE if x.dtype == wide else _WIDENED
    scratch: tuple[np.ndarray, ...] = ()
    for heads, into, tables in _planes(x, factors, out):
        count, rows, width = heads.shape
        tall = max(1, min(rows, room // (width * wide.itemsize)))
        many = max(1, min(count, room // (width * wide.itemsize * tall)))
        if not scratch:
            scratch = _scratch(x, factors, (many, tall, width))
        for p in range(0, rows, tall):
            here = tuple(t[..., p : p + tall, :] for t in tables)
            for h in range(0, count, many):
                tile, goal = heads[h : h + many, p : p + tall], into[h : h + many, p : p + tall]
                mine = tuple(t[h : h + many] if t.ndim == 3 else t for t in here)
                work = tuple(s[: tile.shape[0], : tile.shape[1]] for s in scratch)
                _tile(tile, mine, goal, work)


def _tile(
    x: np.ndarray, factors: tuple[np.ndarray, ...], out: np.ndarray, work: tuple[np.ndarray, ...]
) -> None:
    """Rotate one tile of x into ``out``; ``work`` is scratch memory in the dtype of the tables.

    If that dtype is wider than out's dtype, the result is rounded once.
    """
    half = x.shape[-1] // 2
    if len(factors) == 1:  # interleaved, in a narrow dtype
        wide, result = work
        np.copyto(wide, x)
        kind = factors[0].dtype
        np.multiply(wide.view(kind), factors[0], out=result.view(kind))
        np.copyto(out, result, casting="unsafe")
        return
    cos, sin = factors
    crossed = work[0]
    if len(work) == 1:
        wide, result = x, out
    else:
        wide, result = work[1], work[2]
        np.copyto(wide, x)
    np.multiply(wide, sin, out=crossed)
    np.multiply(wide, cos, out=result)
    halves = (*x.shape[:-1], 2, half)
    ends = _reshaped(result, halves)
    np.add(ends, _reshaped(crossed, halves)[..., ::-1, :], out=ends)
    if result is not out:
        np.copyto(out, result, casting="unsafe")


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
