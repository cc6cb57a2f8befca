"""Rotation of Dask arrays, chunk by chunk, each by the fast path of what the chunk is made of.

A chunk is given its own positions and nothing else: whatever axes are cut (batch, heads, sequence),
no task sees more than one chunk.  Only the channels of a head belong together: where they are cut,
they are joined first, chunk by chunk of the other axes.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref._namespace import Array
from posenc_ref._positions import broadcast_axes, cut_like, first_axis


def rotate(encoding: Rotary, back: bool, x: Array, positions: Any, seq_len: int | None) -> Array:
    """``x`` (..., S, dim) turned, lazily, to ``positions`` that are known now."""
    import dask.array as da

    if math.isnan(x.shape[-2]):
        raise ValueError("x must have a known length S: call x.compute_chunk_sizes() before")
    p = encoding._positions(positions)
    one = first_axis(p, encoding.num_axes)
    broadcast_axes(one, x)  # checks the shape
    length = encoding._seq_len(seq_len, p)
    x = x.rechunk({-1: -1})
    axes = tuple(range(x.ndim))
    # Which axes of x the positions have: the first and the one before the last, or the last ones.
    own = (0, x.ndim - 2) if one.ndim == 2 and x.ndim > 3 else axes[x.ndim - 1 - one.ndim : -1]
    if encoding.num_axes > 1:
        own = (x.ndim, *own)
    return da.blockwise(
        _turned, axes, x, axes, cut_like(p, x, encoding.num_axes).values, own,
        encoding=encoding, back=back, length=length,
        concatenate=True, dtype=x.dtype, meta=x._meta,
    )  # fmt: skip


def _turned(x: Array, at: np.ndarray, *, encoding: Rotary, back: bool, length: int | None) -> Any:
    return _fast(encoding, back)(x, at, seq_len=length)


@functools.lru_cache(maxsize=16)
def _fast(encoding: Rotary, back: bool) -> Any:
    """One for all chunks that a worker gets: tables are kept in it."""
    from .fused_rotary import FusedRotary

    return FusedRotary(encoding, "bhsd", back)
