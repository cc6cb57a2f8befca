"""Rows of a learned table by integer index, with the bounds checked here.

Libraries differ past the end (NumPy raises, CuPy wraps round, JAX fills NaN, a CUDA assert kills
the process), so the range is checked first; traced or lazy indices give NaN rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._namespace import (
    FLOATING,
    Array,
    device_of,
    dtype_name,
    from_host,
    is_array,
    is_lazy,
    library,
    namespace,
)


def check_table(name: str, table: Array, shape: str) -> None:
    """``table`` must be a two-axis real floating array with at least one row."""
    if not is_array(table) or dtype_name(table) not in FLOATING:
        raise TypeError(
            f"{name} must be a real floating array of shape {shape}, got {_kind(table)}"
        )
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"{name} must have shape {shape}, not empty, got {tuple(table.shape)}")


def _kind(value: Any) -> str:
    return dtype_name(value) if is_array(value) else type(value).__name__


def check_beside(index: Array, table: Array) -> None:
    """A host index goes with any table; others must share its library and device."""
    if isinstance(index, np.ndarray):
        return
    if library(index) != library(table):
        raise TypeError(
            f"positions are a {library(index)} array but the table is a {library(table)} array: "
            "pass positions as NumPy integers"
        )
    here, there = device_of(index), device_of(table)
    if here is not None and there is not None and here != there:
        raise ValueError(
            f"positions are on device {here} but the table is on device {there}: "
            "move one of them, or pass positions as a NumPy array"
        )


def lookup(name: str, table: Array, index: Array) -> Array:
    """``table[index]`` for an integer index of any shape; ValueError outside the table.

    A host index is sent to the table, after it was checked.
    """
    xp, device, (rows, width) = namespace(table), device_of(table), table.shape
    shape, lazy = tuple(index.shape), is_lazy(index)
    if 0 in shape:  # Dask cannot flatten nothing
        return xp.zeros((*shape, width), dtype=table.dtype, device=device)
    if not lazy:
        here = namespace(index)
        low, high = int(here.min(index)), int(here.max(index))
        if low < 0 or high >= rows:
            raise ValueError(
                f"{name} must lie in 0 .. {rows - 1}, the rows of the table, "
                f"got {low if low < 0 else high}"
            )
    if isinstance(index, np.ndarray):
        index = from_host(index, xp, device)
    flat = xp.reshape(index, (math.prod(shape),))
    if lazy:
        inside = (flat >= 0) & (flat < rows)
        found = xp.take(table, xp.where(inside, flat, 0), axis=0)
        found = xp.where(inside[:, None], found, xp.nan)
    else:
        found = xp.take(table, flat, axis=0)
    return xp.reshape(found, (*shape, width))
