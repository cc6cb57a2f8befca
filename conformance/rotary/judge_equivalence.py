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
from posenc_ref.conformance.harness.report import Finding
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.phases.measure import Measured

#: The only error that another order of channels explains.
ORDER = "output-layout"


def judge(run: Run, access: Access, measured: Measured, again: Callable[[Run], None]) -> None:
    """Judge the function apart from the order of its channels, unless the check is strict.

    The function with its channels put back goes through ``again``, the whole check. If it passes,
    so does the function; otherwise its errors replace the error about the order. For other errors
    that may leave the logits as declared, a note is added if they do.
    """
    codes = set(run.report.codes)
    if ORDER in codes and not run.settings.strict:
        order = order_of(run.encoding, measured)
        if order is not None:
            second = _judged_again(run, order, again)
            if ORDER not in second.report.codes:
                replace_findings(run, second, order, same_logits.ONE_MAP)
                return
    if codes and codes <= set(same_logits.OF_ONE_MAP):
        calls = _calls(run, access)
        if same_logits.agree(run, calls):
            same_logits.remark(run, calls)


def replace_findings(run: Run, second: Ledger, order: np.ndarray, why: str) -> None:
    """Replace the findings by those of the second check, and a note about the order.

    ``why`` says why, or if, logits do not depend on the order.
    """
    (found,) = (f for f in run.report.findings if f.code == ORDER)
    passed, ledger = second.report.passed, run.ledger
    ledger.failures[:], ledger.noted = second.failures, second.noted
    ledger.worst, ledger.where = second.worst, second.where
    run.report.accuracy = second.report.accuracy
    run.report.findings[:] = [_reordered(f, order) for f in second.report.findings]
    tensors = same_logits.TENSORS if passed else "the order of the channels changes no logit"
    same_logits.accept(
        run,
        f"{tensors}, {why}: {found.message}",
        found.evidence + ("; with the channels put back every case conforms" if passed else ""),
        (ORDER,),
    )


def _reordered(finding: Finding, order: np.ndarray) -> Finding:
    """Return the finding with lines that put the channels back before they are compared."""
    lines = finding.reproduce.splitlines()
    for i, text in enumerate(lines):
        if text.startswith("got = fn("):
            lines[i : i + 1] = [f"order = np.array({order.tolist()})", f"{text}[..., order]"]
            break
    return replace(finding, reproduce="\n".join(lines))


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


def order_of(encoding: Rotary, measured: Measured) -> np.ndarray | None:
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


def _judged_again(run: Run, order: np.ndarray, again: Callable[[Run], None]) -> Ledger:
    """Return the ledger of a strict check of the function with its channels put back."""
    fn, dim = run.driver.fn, order.size

    def put_back(*arguments: Any) -> Any:
        y = fn(*arguments)
        heads = np.arange(y.shape[-1] // dim)  # several in the layout bs(hd)
        return y[..., (heads[:, None] * dim + order).ravel()]

    report = replace(run.report, findings=[], limits=[], executed={}, controls={}, accuracy=None)
    driver = replace(run.driver, fn=put_back, factory=None, mutated=None, out_dtypes=set())
    settings = replace(run.settings, strict=True)  # or a third check might follow
    second = replace(run, driver=driver, settings=settings, ledger=Ledger(report))
    again(second)
    second.finish()
    return second.ledger
