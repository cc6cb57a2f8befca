"""Rotation of Dask arrays: each chunk takes the fast path of its library.

Each task gets one chunk and its positions, for any chunks along batch, heads and sequence. If the
channels of a head are in several chunks, these are merged first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from posenc_ref import Rotary
from posenc_ref._namespace import Array
from posenc_ref._positions import broadcast_axes, cut_like, first_axis


def rotate(
    chunk: Callable[..., Any],
    encoding: Rotary,
    inverse: bool,
    x: Array,
    positions: Any,
    seq_len: int | None,
) -> Array:
    """Return ``x`` (..., S, dim) rotated to host ``positions``; ``chunk`` rotates one chunk."""
    import dask.array as da

    if math.isnan(x.shape[-2]):
        raise ValueError("x must have a known length S: call x.compute_chunk_sizes() before")
    p = encoding._positions(positions)
    one = first_axis(p, encoding.num_axes)
    broadcast_axes(one, x)  # checks the shape
    length = encoding._seq_len(seq_len, p)
    x = x.rechunk({-1: -1})
    axes = tuple(range(x.ndim))
    # The axes of x that positions (B, S) or (S,) have: the first and the sequence, or the sequence.
    own = (0, x.ndim - 2) if one.ndim == 2 and x.ndim > 3 else axes[x.ndim - 1 - one.ndim : -1]
    if encoding.num_axes > 1:
        own = (x.ndim, *own)
    return da.blockwise(
        chunk, axes, x, axes, cut_like(p, x, encoding.num_axes).values, own,
        encoding=encoding, inverse=inverse, length=length,
        concatenate=True, dtype=x.dtype, meta=x._meta,
    )  # fmt: skip
