"""Identify a function of surface ``apply``."""

from __future__ import annotations

import numpy as np

from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.probes import SHORT
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import measure
from posenc_ref.conformance.rotary.judge import required_inputs

from . import hints, rotary
from .card import Card, Unidentified


def identify(run: Run, card: Card) -> None:
    """Fill in the card of ``fn(x, positions)``."""
    dim = run.settings.head_dim or 0
    if not required_inputs(run, dim):
        first = run.report.findings[0]
        card.unknown.append(f"it cannot be driven: {first.message} ({first.evidence})")
        card.unknown += hints.for_apply(run, dim)
        return
    x = run.random((2, 3, SHORT.size, dim))
    before = run.driver.apply(x, SHORT)
    if not np.array_equal(before, run.driver.apply(x, SHORT)):
        raise Unidentified("the same call gives other values at once: it is not a function of x")
    access = Access(run, dim=dim)
    access.learn()
    measured = measure(access, run.coarse)
    if not np.isfinite(measured.matrices).all():
        raise Unidentified("what comes out is not finite")
    card.fill(rotary.identify, run, access, measured)
    if card.encoding is None:
        card.unknown += hints.no_rotation(run, x, before)
    state.replay(run, lambda: run.driver.apply(x, SHORT), before, f"positions 0..{SHORT[-1]}")
