"""Integer positions that only a trace of JAX knows, exactly, without 64-bit types.

A phase is a fraction of a turn in units of 2^-32.  The frequency has 64 bits behind the point; in
its product with the position whole turns overflow, which is the reduction, so that no position is
less exact than another: |error| < 2^-31 turns, before the sine and cosine of at most an eighth.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref._namespace import INTEGER, Array, dtype_name, library
from posenc_ref._positions import Positions, broadcast_axes
from posenc_ref.angles import MAX_POSITION

from .cupy_angles import fixed_point
from .fused_jax import Tables
from .pair_runs import Run
from .phasors import factor_and_sign


def takes(x: Array, positions: Array) -> bool:
    """Whether these traced positions are for this; with x64 the specification takes them."""
    if library(x) != "jax" or library(positions) != "jax":
        return False
    import jax

    return dtype_name(positions) in INTEGER and not jax.config.jax_enable_x64


def tables(
    encoding: Rotary,
    runs: tuple[Run, ...],
    back: bool,
    x: Array,
    positions: Array,
    seq_len: int | None,
) -> Tables:
    """cos and sin at ``positions``, in float32; NaN beyond the domain."""
    import jax.numpy as jnp

    at = positions.reshape(1) if positions.ndim == 0 else positions
    several = encoding.num_axes > 1 and at.ndim > 1
    if several and at.shape[0] != encoding.num_axes:
        raise ValueError(
            f"positions must have shape ({encoding.num_axes}, S) or ({encoding.num_axes}, B, S), "
            f"one row for each axis, or (S,) where all axes agree; got {tuple(at.shape)}"
        )
    index = broadcast_axes(Positions(at[0] if several else at, None, None), x)
    length = encoding._seq_len(seq_len, Positions(at, None, None))
    turns = encoding._turns(length)
    each = jnp.moveaxis(at[encoding.axes()], 0, -1) if several else at[..., None]
    cos, sin = _cos_sin(_phases(each, fixed_point(turns), encoding.offset))
    limit = int(MAX_POSITION / max(1.0, turns.fastest))
    if limit < 2**32:
        known = (each <= min(limit, jnp.iinfo(at.dtype).max)) & (
            each >= max(-limit, jnp.iinfo(at.dtype).min)
        )
        cos, sin = (jnp.where(known, t, jnp.nan) for t in (cos, sin))
    m, sign = factor_and_sign(encoding, length, back)
    cos, sin = (m * cos)[index or ...], (m * sign * sin)[index or ...]
    return Tables(
        runs, tuple([(cos[..., r.pairs], sin[..., r.pairs]) for r in runs]), encoding.head_dim
    )


def _phases(at: Array, fixed: np.ndarray, offset: float) -> Array:
    """``(at + offset) * frequency`` mod 1 turn, uint32; ``fixed`` are 128 bits of a turn."""
    import jax
    import jax.numpy as jnp

    high = (fixed[0] >> np.uint64(32)).astype(np.uint32)
    low = (fixed[0] & np.uint64(2**32 - 1)).astype(np.uint32)
    if jnp.issubdtype(at.dtype, jnp.signedinteger):
        p = jax.lax.bitcast_convert_type(at.astype(jnp.int32), jnp.uint32)
        below = jnp.where(at < 0, low, np.uint32(0))  # 2^32 too much stands in p
    else:
        p, below = at.astype(jnp.uint32), np.uint32(0)
    shift = [
        int(Fraction(offset) * ((int(h) << 64) + int(n)) / 2**96) % 2**32
        for h, n in zip(*fixed, strict=True)
    ]
    return p * high + _upper_half(p, low) - below + np.array(shift, np.uint32)


def _upper_half(a: Array, b: np.ndarray) -> Array:
    """The upper 32 bits of a 64-bit product, in 16-bit limbs."""
    half, rest = np.uint32(16), np.uint32(0xFFFF)
    a1, a0, b1, b0 = a >> half, a & rest, b >> half, b & rest
    middle = a1 * b0 + (a0 * b0 >> half)
    return a1 * b1 + (middle >> half) + (a0 * b1 + (middle & rest) >> half)


def _cos_sin(phase: Array) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    quarter = phase + np.uint32(2**29) >> np.uint32(30)  # the nearest quarter turn
    rest = jax.lax.bitcast_convert_type(phase - (quarter << np.uint32(30)), jnp.int32)
    angle = rest.astype(jnp.float32) * np.float32(2 * np.pi / 2**32)
    small_cos, small_sin = jnp.cos(angle), jnp.sin(angle)
    odd = quarter % np.uint32(2) == 1
    sin, cos = jnp.where(odd, small_cos, small_sin), jnp.where(odd, small_sin, small_cos)
    sin = jnp.where(quarter & np.uint32(2) != 0, -sin, sin)
    return jnp.where(quarter + np.uint32(1) & np.uint32(2) != 0, -cos, cos), sin
