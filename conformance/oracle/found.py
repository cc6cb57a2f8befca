"""A measured rotation as an encoding, whatever its channel pairs and its frequencies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from posenc_ref import Rotary

_SHOWN = 3


@dataclass(frozen=True, eq=False, repr=False)
class Found(Rotary, abstract=True):
    """The rotation of measured channel pairs by measured frequencies."""

    head_dim: int
    channels: tuple[tuple[int, int, int, int], ...]  #: two input, two output channels of each pair
    measured: tuple[float, ...]  #: signed, radians per position
    size: float = 1.0  #: the factor on cos and sin
    offset: float = 0.0  #: the position whose angles the first position has

    sign = 1
    scaling = None

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels from which pairs are read."""
        channels = np.array(self.channels)
        return channels[:, 0], channels[:, 1]

    def output_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels to which pairs are written."""
        channels = np.array(self.channels)
        return channels[:, 2], channels[:, 3]

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the measured frequencies, negative where a pair turns the other way."""
        return tuple(map(Decimal, self.measured))

    def attention_factor(self, seq_len: int | None = None) -> float:
        """Return the measured factor on cos and sin."""
        return self.size

    def __repr__(self) -> str:
        pairs = list(zip(*self.pairs(), strict=True))[:_SHOWN]
        some = ", ".join(f"({a}, {b})" for a, b in pairs)
        w = ", ".join(f"{v:.6g}" for v in self.measured[:_SHOWN])
        more = ", ..." if len(self.measured) > _SHOWN else ""
        factor = "" if self.size == 1.0 else f", times {self.size:g}"
        return (
            f"a rotation of {len(self.measured)} channel pairs {some}{more} by {w}{more} rad per "
            f"position{factor}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class FoundMap(Found, abstract=True):
    """A wrong map of measured channel pairs by cos and sin of measured frequencies."""

    #: Returns the entries of the map, row by row, from cos and sin.
    entries: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]] = lambda c, s: (c, -s, s, c)
    row: int = 0  #: the result of a pair that is that of a rotation

    def apply(self, x: Any, positions: Any, *, seq_len: int | None = None) -> Any:
        """Map every pair."""
        cos, sin = self.cos_sin(positions)
        if cos.ndim == 3 and x.ndim > 3:  # positions (B, S) are the same for all heads
            cos, sin = cos[:, None], sin[:, None]
        (a, b), (c, d) = self.pairs(), self.output_pairs()
        m = self.entries(cos, sin)
        y, x1, x2 = np.array(x), x[..., a], x[..., b]
        y[..., c], y[..., d] = m[0] * x1 + m[1] * x2, m[2] * x1 + m[3] * x2
        return y


@dataclass(frozen=True, eq=False, repr=False)
class FoundRounded(Found, abstract=True):
    """The rotation of measured channel pairs by angles that are rounded."""

    #: Returns the angles of positions and frequencies.
    angles: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.multiply.outer

    def _tables(self, positions: Any, seq_len: Any, offset: float, **where: Any) -> Any:
        p, w = np.asarray(positions, np.float64) + offset, np.asarray(self.measured)
        angle = np.sign(w) * self.angles(p.ravel(), np.abs(w)).reshape(*p.shape, w.size)
        return np.cos(angle), np.sin(angle)


@dataclass(frozen=True, eq=False, repr=False)
class FoundAxes(Found, abstract=True):
    """The rotation of measured channel pairs, each by the position on the axis that it follows."""

    axis: tuple[int, ...] = ()  #: of each pair
    count: int = 1  #: the number of axes

    def axes(self) -> np.ndarray:
        """Return the measured axis of every pair."""
        return np.array(self.axis)

    @property
    def num_axes(self) -> int:
        """The number of position axes."""
        return self.count
