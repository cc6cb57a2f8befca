"""Recognise a harmless convention: tensors differ from the declared ones, but logits agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.report import ERROR, NOTE
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.calls import logits


@dataclass(frozen=True)
class BothSides:
    """The results for queries and keys of one call, and the references of both."""

    case: str
    q: np.ndarray
    k: np.ndarray
    query: Truth
    key: Truth


#: Codes of findings about tensors that may leave the logits as declared.
OF_ONE_MAP = ("output-layout", "position-origin")
#: The number of calls whose logits must agree before a finding about tensors becomes a note.
FEWEST = 6


def excuse(run: Run, calls: Sequence[BothSides], codes: Sequence[str]) -> None:
    """Replace errors with these ``codes`` by one note, if the logits of every call are right."""
    errors = [f for f in run.report.findings if f.severity == ERROR]
    if not errors or any(f.code not in codes for f in errors):
        return
    if excused(run, calls, errors[0].message, tuple(f.code for f in errors)):
        for finding in errors:
            run.report.findings.remove(finding)


def excused(
    run: Run, calls: Sequence[BothSides], message: str, equivalent: tuple[str, ...] = ()
) -> bool:
    """Return whether the logits of all calls are right; if so, clear failures and add a note."""
    worst, where = 0.0, ""
    for one in calls:
        score = _scores(run, one)
        run.count("logits")
        if score.size and score.max() > worst:
            worst, where = float(score.max()), f"logits, {one.case}"
    if worst > run.budget or len(calls) < FEWEST:
        return False
    run.failures.clear()
    run.ledger.noted.clear()
    run.ledger.worst, run.ledger.where = worst, where
    run.add(
        "harmless-convention",
        f"tensors differ from the declared ones, logits do not: {message}",
        f"q . k of {len(calls)} calls agrees, worst {worst:.3g} units",
        severity=NOTE,
        remedy="Nothing needs mending, unless tensors are compared or cached keys are shared with "
        "other code.",
        equivalent=equivalent,
    )
    return True


def remark(run: Run, calls: Sequence[BothSides]) -> None:
    """Add a note if logits are right when queries and keys both go through this function."""
    if all((_scores(run, one) <= run.budget).all() for one in calls):
        run.count("logits", len(calls))
        run.add(
            "harmless-convention",
            "logits are the declared ones, if queries and keys both go through this function",
            f"q . k of {len(calls)} calls agrees",
            severity=NOTE,
        )


def _scores(run: Run, one: BothSides) -> np.ndarray:
    groups = one.q.shape[1] // one.k.shape[1]

    def spread(values: np.ndarray) -> np.ndarray:
        return np.repeat(np.broadcast_to(values, one.k.shape), groups, axis=1)

    key = Truth(*(spread(t) for t in (one.key.value, one.key.terms, one.key.angle)))
    actual = one.q @ np.swapaxes(spread(one.k), -1, -2)
    return run.scores(actual, logits(one.query, key))
