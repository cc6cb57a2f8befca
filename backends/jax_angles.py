"""Exact angles of traced integer positions in JAX, without 64-bit types.

A phase is a fraction of a turn in units of 2^-32, and a frequency has 64 bits after the point.
The product of position and frequency overflows by whole turns only, so the error of the phase is
less than 2^-31 turns at every position.  Each phase is split into a number of quarter turns and a
rest of at most an eighth of a turn.  Sine and cosine are computed for the rest; the quarter turns
then exchange them or change their signs.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref._namespace import INTEGER, Array, dtype_name, library
from posenc_ref._positions import Positions

from .kernels.device_positions import align, fixed_point, largest_position
from .kernels.jax_rotary import JaxTables
from .kernels.pair_runs import PairRun
from .kernels.phasors import factor_and_sign


def takes(x: Array, positions: Array) -> bool:
    """Return whether :func:`tables` accepts these JAX positions.

    It accepts integers, unless jax_enable_x64 is set.
    """
    if library(x) != "jax" or library(positions) != "jax":
        return False
    import jax

    return dtype_name(positions) in INTEGER and not jax.config.jax_enable_x64


def tables(
    encoding: Rotary,
    runs: tuple[PairRun, ...],
    inverse: bool,
    x: Array,
    positions: Array,
    seq_len: int | None,
) -> JaxTables:
    """Return float32 cos and sin at traced ``positions``; NaN at positions out of bounds."""
    import jax.numpy as jnp

    at, several, index = align(encoding.num_axes, positions, x)
    length = encoding._seq_len(seq_len, Positions(at, None, None))
    turns = encoding._turns(length)
    each = jnp.moveaxis(at[encoding.axes()], 0, -1) if several else at[..., None]
    cos, sin = _cos_sin(_phases(each, fixed_point(turns), encoding.offset))
    limit = largest_position(turns)
    if limit < 2**32:
        known = (each <= min(limit, jnp.iinfo(at.dtype).max)) & (
            each >= max(-limit, jnp.iinfo(at.dtype).min)
        )
        cos, sin = (jnp.where(known, t, jnp.nan) for t in (cos, sin))
    m, sign = factor_and_sign(encoding, length, inverse)
    cos, sin = (m * cos)[index or ...], (m * sign * sin)[index or ...]
    return JaxTables(
        runs, tuple([(cos[..., r.pairs], sin[..., r.pairs]) for r in runs]), encoding.head_dim
    )


def _phases(at: Array, fixed: np.ndarray, offset: float) -> Array:
    """Return the phases ``(at + offset) * frequency`` of the positions ``at``, uint32.

    ``fixed`` holds the frequencies as :func:`fixed_point` returns them.
    """
    import jax
    import jax.numpy as jnp

    high = (fixed[0] >> np.uint64(32)).astype(np.uint32)
    low = (fixed[0] & np.uint64(2**32 - 1)).astype(np.uint32)
    if jnp.issubdtype(at.dtype, jnp.signedinteger):
        p = jax.lax.bitcast_convert_type(at.astype(jnp.int32), jnp.uint32)
        below = jnp.where(at < 0, low, np.uint32(0))  # p is at + 2^32
    else:
        p, below = at.astype(jnp.uint32), np.uint32(0)
    shift = [
        int(Fraction(offset) * ((int(h) << 64) + int(n)) / 2**96) % 2**32
        for h, n in zip(*fixed, strict=True)
    ]
    return p * high + _upper_half(p, low) - below + np.array(shift, np.uint32)


def _upper_half(a: Array, b: np.ndarray) -> Array:
    """Return the upper 32 bits of the 64-bit product ``a b``, computed from 16-bit limbs."""
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
