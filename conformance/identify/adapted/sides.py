"""Identify functions whose queries and keys differ, as in xPos."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from posenc_ref import XPos
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import SHORT
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.identify.fit.measurement import Measurement
from posenc_ref.conformance.identify.fit.schedule import fit
from posenc_ref.conformance.identify.measure import xpos_rates
from posenc_ref.conformance.phases.measure import measure

_INVERSE = "multiplied by the inverse of the factor of the queries"
#: Larger positions, where factors that change in steps of hundreds of positions differ.
_FAR = np.array([300, 700, 1021, 5003])


def identify_keys(queries: Run, keys: Run, card: Card) -> None:
    """Compare the keys with the queries; if they differ, replace the encoding by xPos or by None.

    xPos is recognised by amplitudes that change by one factor per position, inversely in keys.
    """
    same, inverse = [], []
    for at in (SHORT, _FAR):
        x = queries.random((2, 3, at.size, queries.settings.head_dim or 0))
        with suppress(Refused, Malformed):
            sides = queries.driver.apply(x, at), keys.driver.apply(x, at)
            same.append(np.array_equal(*sides))
            inverse.append(_inverse(x, *sides, card, queries))
    if same and all(same):
        card.facts["keys"] = "rotated as the queries"
        return
    found = _xpos(queries, card)
    if found is not None:
        card.encoding = found
        card.facts["keys"] = _INVERSE
        card.unknown = [text for text in card.unknown if "amplitude" not in text]
        card.relations, card.rule, card.nearest = (), True, ""
        return
    card.facts["keys"] = _INVERSE if inverse and all(inverse) else "not rotated as the queries"


def _inverse(x: np.ndarray, q: np.ndarray, k: np.ndarray, card: Card, run: Run) -> bool:
    """Return whether every pair of q and k has inverse sizes, and is turned by the same angle."""
    if card.shell is None:
        return False
    first, second = card.shell.pairs()
    turned = [y[..., first] + 1j * y[..., second] for y in (q, k)]
    # q k* / |x|^2 is the product of both factors if the angles are the same.
    size = x[..., first] ** 2 + x[..., second] ** 2
    product = turned[0] * np.conj(turned[1]) / size
    return bool(np.abs(product - 1).max() <= BUDGET[run.coarse] * ROUNDOFF[run.coarse])


def _xpos(queries: Run, card: Card) -> XPos | None:
    """Return xPos with the measured base, scale_base and centre, or None."""
    e = card.shell
    if e is None or e.rotary_dim != e.head_dim:
        return None
    spaced = fit(Measurement(np.abs(card.frequencies), card.uncertainty))
    if not spaced.named or spaced.scaling is not None:
        return None
    access = Access(queries, dim=e.head_dim)
    access.learn()
    tables = measure(access, queries.coarse).tables(access)
    found = xpos_rates(tables, access, queries.coarse)
    if found is None or not found[1]:
        return None
    rates, scale = found
    if rates[0] > 0:
        return None  # the factor of xPos's keys
    size = np.hypot(*tables(np.array([0])))[0]
    centre = float(np.rint(-np.log(size[0]) / rates[0])) if np.log(size[0]) else 0.0
    return XPos(
        e.head_dim, layout=e.layout, base=spaced.base, scale_base=scale, centre=centre or 0.0
    )
