"""Integer positions on a device or in a trace, which the host does not read."""

from __future__ import annotations

import numpy as np

from posenc_ref._namespace import Array
from posenc_ref._positions import Positions, broadcast_axes
from posenc_ref.angles import MAX_POSITION, Turns


def align(
    num_axes: int, positions: Array, x: Array
) -> tuple[Array, bool, tuple[slice | None, ...]]:
    """Check the shape of ``positions`` against ``x`` (..., S, dim).

    Returns
    -------
    array
        The positions, with one axis at least.
    bool
        Whether the positions have A > 1 rows, one for each position axis.
    tuple
        The index that adds axes to one row of positions, so that the row broadcasts with x.
    """
    at = positions.reshape(1) if positions.ndim == 0 else positions
    several = num_axes > 1 and at.ndim > 1
    if several and at.shape[0] != num_axes:
        raise ValueError(
            f"positions must have shape ({num_axes}, S) or ({num_axes}, B, S), one row for each "
            f"axis, or (S,) for the same positions on all axes; got {tuple(at.shape)}"
        )
    return at, several, broadcast_axes(Positions(at[0] if several else at, None, None), x)


def largest_position(turns: Turns) -> int:
    """Return the largest position at which positions and angles (radians) are within 2**40."""
    return int(MAX_POSITION / max(1.0, turns.fastest))


def fixed_point(turns: Turns) -> np.ndarray:
    """Return the frequencies as 128-bit fractions of a turn: uint64 (2, pairs), high words first.

    The product with a position overflows by whole turns only, so no position loses precision.
    """
    parts = []
    for each in zip(turns.t1.tolist(), turns.t2.tolist(), turns.t3.tolist(), strict=True):
        exact = 0
        for part in each:
            over, under = part.as_integer_ratio()
            exact += (over << 128) // under
        parts.append(divmod(exact % 2**128, 2**64))
    return np.ascontiguousarray(np.array(parts, np.uint64).reshape(-1, 2).T)
