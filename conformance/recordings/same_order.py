"""Accept recorded q and k whose channels have another order than declared, if it is the same one.

Every logit is then the declared one, as for a function in ``rotary/judge_equivalence.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.measure import Measured
from posenc_ref.conformance.rotary.judge_equivalence import ORDER, order_of, replace_findings

from .call import Recorded

_WHY = "because q and k have the same order of channels"


@dataclass(frozen=True)
class Judged:
    """A judged tensor of a layer, and its measured structure."""

    run: Run
    call: Recorded
    measured: Measured | None


def accept(judged: Sequence[Judged], again: Callable[[Run, Recorded], object]) -> None:
    """Replace the errors about the order of channels by notes, unless the check is strict.

    q and k with their channels put back are judged by ``again``; its errors remain.
    """
    if {one.call.part.name for one in judged} != {"q", "k"} or judged[0].run.settings.strict:
        return
    orders = [order for one in judged if (order := _order(one)) is not None]
    if len(orders) < len(judged) or not np.array_equal(orders[0], orders[1]):
        return
    second = [_judged_again(one, orders[0], again) for one in judged]
    if any(ORDER in ledger.report.codes for ledger in second):
        return
    for one, ledger in zip(judged, second, strict=True):
        replace_findings(one.run, ledger, orders[0], _WHY)
        one.run.report.executed = dict(ledger.report.executed)
        for text in ledger.report.limits:
            one.run.limit(text)


def _order(one: Judged) -> np.ndarray | None:
    if one.measured is None or ORDER not in one.run.report.codes:
        return None
    return order_of(one.call.encoding, one.measured)


def _judged_again(
    one: Judged, order: np.ndarray, again: Callable[[Run, Recorded], object]
) -> Ledger:
    """Return the ledger of a tensor with its channels put back."""
    part, first = one.call.part, one.run.report
    report = replace(first, findings=[], limits=[], executed={}, controls={}, accuracy=None)
    run = replace(one.run, ledger=Ledger(report))
    again(run, replace(one.call, part=replace(part, y=part.y[..., order])))
    run.finish()
    return run.ledger
