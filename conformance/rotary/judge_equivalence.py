"""Accept a function whose results are the declared ones in another order of channels.

If the order is the same in every call, every logit is the declared one, because queries and keys
both go through the function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis import same_logits
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.probes import ONE_HOT
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.report import ERROR
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.measure import Measured

#: The only error that another order of channels explains.
ORDER = "output-layout"


def judge(run: Run, access: Access, measured: Measured, again: Callable[[Run], None]) -> None:
    """Compare logits, if the errors found may leave them as declared.

    An order of channels is accepted if the function with its channels put back passes ``again``,
    the whole check. For other errors a note is added.
    """
    codes = set(run.report.codes)
    if not codes or not codes <= set(same_logits.OF_ONE_MAP):
        return
    calls = _calls(run, access)
    if not same_logits.agree(run, calls):
        return
    order = None if run.settings.strict or codes != {ORDER} else _order(run.encoding, measured)
    ledger = None if order is None else _judged_again(run, order, again)
    if ledger is None:
        same_logits.remark(run, calls)
        return
    found = [f for f in run.report.findings if f.severity == ERROR]
    run.report.findings[:] = [f for f in run.report.findings if f not in found]
    run.failures.clear()
    run.ledger.noted = ledger.noted
    run.report.accuracy = ledger.report.accuracy
    run.ledger.worst, run.ledger.where = ledger.worst, ledger.where
    same_logits.accept(
        run,
        f"{same_logits.TENSORS}, {same_logits.ONE_MAP}: {found[0].message}",
        f"{found[0].evidence}; with the channels put back every case conforms",
        (ORDER,),
    )


def _calls(run: Run, access: Access) -> list[same_logits.BothSides]:
    """Return calls in which both queries and keys go through the function."""
    calls = []
    for n in range(same_logits.FEWEST):
        sides: list[tuple[np.ndarray, Truth]] = []
        for positions in (ONE_HOT + n, ONE_HOT[:3] * n):
            at = positions[positions <= access.reach(int(positions.max()))]
            x = run.random((1, 2, at.size, access.dim), 30 + len(sides))
            sides.append((access.rows(x, at), apply_truth(run.encoding, x, at, access.lengths(at))))
        (q, query), (k, key) = sides
        calls.append(same_logits.BothSides(f"call {n}", q, k, query, key))
    return calls


def _order(encoding: Rotary, measured: Measured) -> np.ndarray | None:
    """Return the measured channel for each declared channel of the result, None if unknown."""
    order = np.arange(encoding.head_dim)
    for c, at in measured.moved.items():
        order[c] = at
    declared = zip(*encoding.pairs(), *encoding.output_pairs(), strict=True)
    wanted = {(int(a), int(b)): (int(c), int(d)) for a, b, c, d in declared}
    for p in measured.pairs:
        if (p.a, p.b) not in wanted:
            return None
        order[list(wanted[p.a, p.b])] = p.out_a, p.out_b
    return order if np.unique(order).size == order.size else None


def _judged_again(run: Run, order: np.ndarray, again: Callable[[Run], None]) -> Ledger | None:
    """Return the ledger of a check of the function with its channels put back, if it passes."""
    fn, dim = run.driver.fn, order.size

    def put_back(*arguments: Any) -> Any:
        y = fn(*arguments)
        heads = np.arange(y.shape[-1] // dim)  # several in the layout bs(hd)
        return y[..., (heads[:, None] * dim + order).ravel()]

    report = replace(run.report, findings=[], limits=[], executed={}, controls={}, accuracy=None)
    driver = replace(run.driver, fn=put_back, factory=None, mutated=None, out_dtypes=set())
    second = replace(run, driver=driver, ledger=Ledger(report))
    again(second)
    return second.ledger if second.finish().passed else None
