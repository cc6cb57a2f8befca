"""A measured rotation as an encoding, whatever its channel pairs and its frequencies."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import FACTOR_SLACK
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.phases.measure import Measured, measure

from .side import Side

_SHOWN = 3


class Found(Rotary, abstract=True):
    """The rotation of measured channel pairs by measured signed frequencies."""

    sign = 1
    scaling = None

    def __init__(self, head_dim: int, measured: Measured, w: np.ndarray, size: float) -> None:
        self.head_dim, self.measured, self.w, self.size = head_dim, measured, w, size

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels from which pairs are read, exchanged for negative frequencies."""
        return self._ordered([(p.a, p.b) for p in self.measured.pairs])

    def output_pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the channels to which pairs are written, likewise."""
        return self._ordered([(p.out_a, p.out_b) for p in self.measured.pairs])

    def _ordered(self, pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        channels = np.array([p if w >= 0 else p[::-1] for p, w in zip(pairs, self.w, strict=True)])
        return channels[:, 0], channels[:, 1]

    def decimal_frequencies(self, seq_len: int | None = None) -> tuple[Decimal, ...]:
        """Return the absolute values of the measured frequencies."""
        return tuple(Decimal(float(abs(w))) for w in self.w)

    def attention_factor(self, seq_len: int | None = None) -> float:
        """Return the measured factor on cos and sin."""
        return self.size

    def __repr__(self) -> str:
        some = ", ".join(f"({p.a}, {p.b})" for p in self.measured.pairs[:_SHOWN])
        w = ", ".join(f"{v:.6g}" for v in self.w[:_SHOWN])
        more = ", ..." if self.w.size > _SHOWN else ""
        return f"a rotation of {self.w.size} pairs {some}{more} by {w}{more} rad per position"


def found(side: Side, card: Card) -> Found | None:
    """Return the rotation of an ``apply`` function, or None if it is none of one position axis.

    None as well if angles are not linear in the position, or frequencies depend on the length.
    """
    run = side.run
    if side.surface != "apply" or run.driver.axes > 1 or card.by_length or not card.linear:
        return None
    assert isinstance(side.access, Access)
    measured = measure(side.access, run.coarse)
    if measured.phases is None or measured.odd or measured.scaled or card.origin:
        return None
    size = measured.amplitude
    if card.frequencies.size != size.size or np.ptp(size) > FACTOR_SLACK:
        return None
    near = round(float(np.median(size)), 6)
    factor = 1.0 if abs(near - 1) <= FACTOR_SLACK / 8 else near
    return Found(side.access.dim, measured, card.frequencies, factor)
