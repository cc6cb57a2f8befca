"""Read cosines and sines from the results of a rotation, also where tables have another layout.

A function may repeat its angles as one layout does and rotate the pairs of another one.  Then the
two channels of a pair turn by different angles, each of which the table has twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.probes import unit_pairs
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.phases.measure import Measured, Tables, unaliased

#: Rotates x (1, 1, S, D) at the positions of a call, and returns (S, D).
Rotate = Callable[[np.ndarray], np.ndarray]
_OTHER = {"half": "interleaved", "interleaved": "half"}


@dataclass(frozen=True)
class Reading:
    """The channels whose results are cosines and sines.

    An input of 1 in the first channel of a pair gives the cosine of its first channel and the sine
    of its second one; an input of 1 in the second channel gives the other two.
    """

    measured: Measured
    dim: int
    #: The layout in which the table repeats its angles; empty if a pair has one angle.
    table: str = ""

    def cos_sin(self, rotate: Rotate, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Return cos and sin (tokens, pairs) of a call."""
        if self.table:
            every = self.every_channel(rotate, tokens)
            cos, sin = (_once(part, self.table) for part in every)
            return cos, sin
        pairs = self.measured.pairs
        y = rotate(unit_pairs((1, 1, tokens, self.dim), np.array([p.a for p in pairs])))
        return y[:, [p.out_a for p in pairs]], y[:, [p.out_b for p in pairs]]

    def every_channel(self, rotate: Rotate, tokens: int) -> tuple[np.ndarray, np.ndarray]:
        """Return cos and sin (tokens, 2 pairs) of every channel, in the order of the channels."""
        pairs = self.measured.pairs
        size = (1, 1, tokens, self.dim)
        one = rotate(unit_pairs(size, np.array([p.a for p in pairs])))
        two = rotate(unit_pairs(size, np.array([p.b for p in pairs])))
        a, b = [p.out_a for p in pairs], [p.out_b for p in pairs]
        order = np.argsort([*a, *b])
        cos, sin = np.hstack([one[:, a], two[:, b]]), np.hstack([-two[:, a], one[:, b]])
        return cos[:, order], sin[:, order]

    def tables(self, access: Access) -> Tables:
        """Return a function that measures cos and sin at positions."""

        def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return self.cos_sin(lambda x: access.rows(x, positions)[0, 0], positions.size)

        return tables


def reading(access: Access, measured: Measured, dtype: str) -> Reading:
    """Return how cos and sin are read, by the channels of pairs if these have two angles."""
    plain = Reading(measured, access.dim)
    other = _OTHER.get(measured.layout(), "")
    if measured.phases is None or measured.phases.linear or not other or not measured.in_out():
        return plain

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return plain.every_channel(lambda x: access.rows(x, positions)[0, 0], positions.size)

    phases = unaliased(tables, dtype)
    w = phases.frequencies
    slack = BUDGET[dtype] * (phases.sigma + ROUNDOFF["float32"] * np.abs(w))
    twice = np.abs(w - _repeated(w, other)) <= slack
    return Reading(measured, access.dim, other) if phases.linear and twice.all() else plain


def _once(values: np.ndarray, layout: str) -> np.ndarray:
    """Return one of the two columns of each angle of a table (..., 2 n)."""
    half = values.shape[-1] // 2
    return np.asarray(values[..., :half] if layout == "half" else values[..., ::2])


def _repeated(values: np.ndarray, layout: str) -> np.ndarray:
    """Return the values (2 n,) that a table with the angles of ``values`` has."""
    once = _once(values, layout)
    return np.tile(once, 2) if layout == "half" else np.repeat(once, 2)
