"""Rotation of JAX arrays, eagerly or traced, in operations that XLA fuses into one loop.

Tables are made on the host from exact angles and enter a trace as constants, so results do not
depend on ``jax_enable_x64``.  The operations are elementwise along all axes but the last, so
sharded arrays keep their sharding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .pair_runs import PairRun

Array = Any


@dataclass(slots=True)
class JaxTables:
    """cos and sin (..., S, pairs) of every run of pairs, on the host or in a trace."""

    runs: tuple[PairRun, ...]
    factors: tuple[tuple[Array, Array], ...]
    dim: int

    @property
    def rows(self) -> int:
        """The number of positions S."""
        return int(self.factors[0][0].shape[-2])

    def window(self, start: int, stop: int) -> JaxTables:
        """Return the tables of rows ``start`` to ``stop``; positions must have one axis (S,)."""
        cut = tuple((c[start:stop], s[start:stop]) for c, s in self.factors)
        return JaxTables(self.runs, cut, self.dim)

    def traced_window(self, start: Array, count: int) -> JaxTables:
        """Return ``count`` rows from row ``start``, a traced integer; NaN outside the table."""
        import jax.numpy as jnp

        if start.ndim or not jnp.issubdtype(start.dtype, jnp.integer):
            raise TypeError(
                f"start must be an integer without axes, got {start.dtype} of shape {start.shape}"
            )
        at = start + jnp.arange(count)
        at = jnp.where(at < 0, self.rows, at)  # a negative index would count from the end
        cut = tuple(
            (jnp.take(c, at, axis=0, mode="fill"), jnp.take(s, at, axis=0, mode="fill"))
            for c, s in ((jnp.asarray(c), jnp.asarray(s)) for c, s in self.factors)
        )
        return JaxTables(self.runs, cut, self.dim)


def make_tables(runs: tuple[PairRun, ...], phasors: np.ndarray, dim: int) -> JaxTables:
    """Return the cos and sin of ``phasors``, complex numbers (..., S, pairs), as JaxTables."""
    parts = [phasors[..., run.pairs] for run in runs]
    return JaxTables(runs, tuple((t.real.copy(), t.imag.copy()) for t in parts), dim)


def rotate(x: Array, tables: JaxTables) -> Array:
    """Return ``x`` (..., S, dim) rotated; differentiable."""
    import jax.numpy as jnp

    pieces, at = [], 0
    for run, (cos, sin) in zip(tables.runs, tables.factors, strict=True):
        if run.start > at:
            pieces.append(x[..., at : run.start])
        part, at = x[..., run.channels].astype(cos.dtype), run.channels.stop
        axis = -1 if run.interleaved else -2
        split = (run.size, 2) if run.interleaved else (2, run.size)
        pair = part.reshape(*part.shape[:-1], *split)
        x1, x2 = jnp.take(pair, 0, axis=axis), jnp.take(pair, 1, axis=axis)
        y = jnp.stack([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=axis)
        pieces.append(y.reshape(part.shape).astype(x.dtype))
    if at < x.shape[-1]:
        pieces.append(x[..., at:])
    return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces, axis=-1)
