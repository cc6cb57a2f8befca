"""Rotate an array by tables made for its library, into a new array or into ``out``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from posenc_ref._namespace import Array

from . import cupy_device, fused_cupy
from .cupy_angles import CupyTables
from .kernels import jax_rotary, numpy_rotary, torch_rotary
from .kernels.jax_rotary import JaxTables
from .kernels.output import checked_like, share_memory
from .kernels.tensor_layouts import heads_first
from .kernels.torch_rotary import TorchTables
from .rotary_tables import Tables


def rotate(
    x: Array,
    view: Array,
    tables: Tables,
    layout: str,
    out: Array | None,
    threads: int | None = None,
) -> Array:
    """Return ``x`` rotated, in its own layout; ``view`` is x with heads first."""
    if isinstance(tables, TorchTables):
        return _rotate_torch(x, view, tables, layout, out)
    if isinstance(tables, CupyTables):
        return rotate_cupy([(x, view, out)], tables, layout)[0]
    if isinstance(tables, JaxTables):
        if out is not None:
            raise TypeError("out cannot be given for jax arrays: they cannot be written")
        return heads_first(jax_rotary.rotate(view, tables), layout, tables.dim, back=x)
    if out is None:
        out = np.empty(x.shape, x.dtype)
    elif checked_like(out, x) is not x and np.may_share_memory(out, x):
        # x and out may overlap in part: rotate into a new array and copy it.
        out[...] = rotate(x, view, tables, layout, None, threads)
        return out
    if out is x:
        into = view
    else:
        into = out if view is x else heads_first(out, layout, tables.dim)
    if x.size:
        # Without the class of a memory-mapped array, whose every slice takes Python code.
        given = np.asarray(view)
        numpy_rotary.rotate(given, tables, given if into is view else np.asarray(into), threads)
    return out


def _rotate_torch(
    x: Array, view: Array, tables: TorchTables, layout: str, out: Array | None
) -> Array:
    if out is None:
        return heads_first(torch_rotary.rotate(view, tables), layout, tables.dim, back=x)
    if checked_like(out, x) is not x and share_memory(out, x):
        return out.copy_(_rotate_torch(x, view, tables, layout, None))
    into = view if out is x else heads_first(out, layout, tables.dim)
    torch_rotary.rotate_into(view, tables, into)
    return out


def rotate_cupy(
    given: Iterable[tuple[Array, Array, Array | None]], tables: CupyTables, layout: str
) -> list[Array]:
    """Rotate several arrays in one launch; ``given`` holds x, x viewed heads first, and ``out``."""
    results, rotated, copied = [], [], []
    for x, view, out in given:
        if out is None:
            goal = cupy_device.empty_like(x)
        else:
            goal = fused_cupy.checked_out(checked_like(out, x), x)
            if fused_cupy.overlap(x, goal):
                cupy_device.not_captured("out must be x, or share no memory with it")
                copied.append((goal, goal := cupy_device.empty_like(x)))
        results.append(goal if out is None else out)
        rotated.append((view, heads_first(goal, layout, tables.dim)))
    fused_cupy.rotate(rotated, tables)
    for into, result in copied:
        into[...] = result
    return results
