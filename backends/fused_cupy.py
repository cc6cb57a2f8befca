"""Rotation of CuPy arrays by one launch of a CUDA kernel, ``kernels/rotary.cu``.

The kernel computes the angles of integer positions exactly, from frequencies in 128-bit fractions
of a turn.  Fractional positions, and the positions given to ``prepare``, use a table instead.

A call reads nothing back from the device, so a CUDA graph can capture it.  For a position out of
bounds, the kernel writes NaN and sets a flag, which
:func:`~posenc_ref.backends.cupy_device.out_of_bounds` reads.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from posenc_ref._namespace import Array, dtype_name

from .cupy_angles import CupyTables
from .cupy_device import flag_of, start
from .kernels.output import share_memory
from .kernels.rotary_launch import CallArguments, View, arguments, plan

#: The cache holds the launch plans of this many combinations of shapes and strides.
_plan = functools.lru_cache(maxsize=1024)(plan)
_name = functools.cache(dtype_name)


def rotate(arrays: Sequence[tuple[Array, Array]], tables: CupyTables) -> None:
    """Rotate each x (..., S, dim) into its result; a result is x itself or does not overlap x.

    ``arrays`` holds pairs (x, result) of one dtype and device. Two pairs, for queries and keys,
    take one launch.
    """
    x, y = [a.data.ptr for a, _ in arrays], [a.data.ptr for _, a in arrays]
    first = arrays[0][0]
    name, item = _name(first.dtype), first.itemsize
    views = tuple(
        View(a.shape, _elements(a), _elements(b), (p | q) % 16 == 0)
        for (a, b), p, q in zip(arrays, x, y, strict=True)
    )
    flag = flag_of(first.device.id).data.ptr
    place = (*[0] * (first.ndim - 1 - len(tables.place)), *tables.place)
    positions = 0 if tables.positions is None else tables.positions.data.ptr
    for group in tables.groups:
        call = CallArguments(
            group.angles.data.ptr, positions, 0 if group.axes is None else group.axes.data.ptr,
            flag, tables.first, tables.lowest, tables.highest, tables.offset, tables.cos_factor,
            tables.sin_factor,
        )  # fmt: skip
        for launch in _plan(views, place, tables.axis_stride, name, group.runs, group.gaps,
                            tables.table):  # fmt: skip
            start(launch, arguments(launch, x, y, item, call), first)


def shared(tables: CupyTables, q: Array, k: Array) -> bool:
    """Return whether tables made for ``q`` fit ``k``, so that one launch can rotate both."""
    if (q.ndim, q.shape[-2], q.dtype, q.device) != (k.ndim, k.shape[-2], k.dtype, k.device):
        return False
    lead = zip(tables.place[-2::-1], q.shape[-3::-1], k.shape[-3::-1], strict=False)
    return all(place == 0 or one == other for place, one, other in lead)


def overlap(x: Array, out: Array) -> bool:
    """Return whether ``out`` may share memory with ``x`` but is not the same view of it."""
    if (x.data.ptr, x.strides) == (out.data.ptr, out.strides):
        return False
    return share_memory(x, out)


def checked_out(out: Array, x: Array) -> Array:
    """Return ``out``; raise unless it is on the device of ``x``."""
    if out.device != x.device:
        raise ValueError(f"out must be on x's device {x.device}, got one on {out.device}")
    return out


def _elements(a: Array) -> tuple[int, ...]:
    return tuple([step // a.itemsize for step in a.strides])
