"""The rotation of a judged function, measured, as an encoding."""

from __future__ import annotations

import numpy as np

from posenc_ref.accuracy import FACTOR_SLACK
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.oracle.found import Found
from posenc_ref.conformance.phases.measure import measure

from .side import Side


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
    channels = tuple((p.a, p.b, p.out_a, p.out_b) for p in measured.pairs)
    return Found(side.access.dim, channels, tuple(card.frequencies.tolist()), factor)
