"""Make the cos and sin tables of a rotary encoding block by block, in little extra memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref._namespace import Array

from .kernels.numba_loops import Columns
from .kernels.output import checked_shape, empty_floats, foreign_library
from .kernels.phasors import write_axes


def cos_sin(
    encoding: Rotary,
    positions: Any,
    seq_len: int | None,
    dtype: Any,
    out: tuple[np.ndarray, np.ndarray] | None,
    threads: int | None,
) -> tuple[tuple[Array, Array], str]:
    """Return the cos and sin tables, and the name of the path that made them."""
    p = encoding._positions(positions)
    where = foreign_library(positions, out)
    if where or type(encoding)._tables is not Rotary._tables:
        made = encoding.cos_sin(positions, seq_len=seq_len, dtype=dtype)
        why = f"positions are arrays of {where}" if where else "the class has its own cos and sin"
        if out is None:
            return made, f"no fast path: {why}"
        for given, table in zip(_checked(out, made[0].shape, dtype), made, strict=True):
            given[...] = table
        return out, f"no fast path: {why}"
    values = np.asarray(p.values, dtype=np.float64)
    length = encoding._seq_len(seq_len, p)
    turns, axes = encoding._turns(length), encoding.axes()
    shape = (*(values.shape if axes is None else values.shape[1:]), turns.t1.size)
    if out is None:
        cos, sin = (empty_floats(shape, dtype) for _ in range(2))
    else:
        cos, sin = _checked(out, shape, dtype)
    by = write_axes(
        values,
        turns,
        Columns(cos.reshape(-1, shape[-1]), slice(None)),
        Columns(sin.reshape(-1, shape[-1]), slice(None)),
        axes,
        offset=encoding.offset,
        amplitude=float(encoding.attention_factor(length)),
        threads=threads,
    )
    return (cos, sin), f"{by}: angle addition, {cos.dtype}"


def _checked(out: Any, shape: tuple[int, ...], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(out, tuple | list) or len(out) != 2:
        raise TypeError(f"out must be a pair of arrays, cos and sin, got {type(out).__name__}")
    cos, sin = (checked_shape(one, shape, dtype) for one in out)
    if np.may_share_memory(cos, sin) or not (cos.flags.c_contiguous and sin.flags.c_contiguous):
        raise ValueError("out must be two contiguous arrays that share no memory")
    return cos, sin
