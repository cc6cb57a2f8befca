"""The measurement of each surface: what ``identify`` runs."""

from __future__ import annotations

import numpy as np

from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.probes import SHORT
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import measure
from posenc_ref.conformance.rotary.judge import required_inputs

from . import (
    bias as identify_bias,
)
from . import (
    buckets as identify_bucket,
)
from . import (
    hints as identify_hints,
)
from . import (
    rotary as identify_rotary,
)
from . import (
    scores as identify_scores,
)
from . import (
    sinusoid as identify_sinusoid,
)
from . import (
    slopes as identify_slopes,
)
from . import (
    table as identify_table,
)
from .card import Card

_TABLES = {
    "cos_sin": identify_table.cos_sin,
    "frequencies": identify_table.frequencies,
    "table": identify_sinusoid.identify,
    "slopes": identify_slopes.identify,
    "bias": identify_bias.identify,
    "bucket": identify_bucket.identify,
}


def drive(run: Run, card: Card, surface: str, head_dim: int) -> None:
    """Fill in the card of a function of that surface."""
    if surface == "apply":
        _apply(run, card, head_dim)
    elif surface == "scores":
        identify_scores.identify(run, card, head_dim)
    else:
        _TABLES[surface](run, card)
        if card.encoding is None:
            card.unknown += identify_hints.arguments(run.subject.fn, surface)


def _apply(run: Run, card: Card, dim: int) -> None:
    if not required_inputs(run, dim):
        first = run.report.findings[0]
        card.unknown.append(f"it cannot be driven: {first.message} ({first.evidence})")
        card.unknown += identify_hints.for_apply(run, dim)
        return
    x = run.random((2, 3, SHORT.size, dim), 0)
    before = run.subject.apply(x, SHORT)
    if not np.array_equal(before, run.subject.apply(x, SHORT)):
        card.unknown.append("the same call gives other values at once: it is not a function of x")
        return
    access = Access(run, dim=dim)
    access.learn()
    measured = measure(access, run.coarse)
    if not np.isfinite(measured.matrices).all():
        card.unknown.append("what comes out is not finite")
        return
    identify_rotary.identify(run, access, measured, card)
    if card.encoding is None:
        card.unknown += identify_hints.no_rotation(run, x, before)
    state.replay(run, lambda: run.subject.apply(x, SHORT), before, f"positions 0..{SHORT[-1]}")
