"""Recognise a harmless convention: tensors differ from the declared ones, but logits agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.harness.report import ERROR, NOTE, OF_LOGITS
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


@dataclass(frozen=True)
class RowConstants:
    """The values of one call at each query's own key, (..., H, Q), and their size."""

    case: str
    actual: np.ndarray
    declared: np.ndarray
    size: np.ndarray  #: the largest absolute value of the terms of each row


#: Codes of findings about tensors that may leave the logits as declared.
OF_ONE_MAP = ("output-layout", "position-origin")
#: The number of calls whose logits must agree before a finding about tensors becomes a note.
FEWEST = 6


#: The beginning of the messages about equal logits.
TENSORS = "tensors differ from the declared ones, logits do not"
#: What to do about tensors that differ without an effect on the logits.
REMEDY = "Change nothing, unless other code compares these tensors or reads the same cached keys."
#: The condition under which a function of one argument leaves the logits as declared.
ONE_MAP = "if queries and keys both go through this function"


def excuse(run: Run, calls: Sequence[BothSides], codes: Sequence[str]) -> None:
    """Replace errors with these ``codes`` by one note, if the logits of every call are right.

    A strict check keeps the errors and adds the note.
    """
    errors = [f for f in run.report.findings if f.severity == ERROR]
    if not errors or any(f.code not in codes for f in errors):
        return
    if excused(run, calls, errors[0].message, tuple(f.code for f in errors)):
        for finding in errors if not run.settings.strict else ():
            run.report.findings.remove(finding)


def excused(
    run: Run, calls: Sequence[BothSides], message: str, equivalent: tuple[str, ...] = ()
) -> bool:
    """Return whether the logits of all calls are right; if so, clear failures and add a note.

    A strict check keeps the failures.
    """
    worst, where = 0.0, OF_LOGITS
    for one in calls:
        score = scores(run, one)
        run.count("logits")
        if score.size and score.max() > worst:
            worst, where = float(score.max()), f"{OF_LOGITS}, {one.case}"
    if worst > run.budget or len(calls) < FEWEST:
        return False
    if not run.settings.strict:
        run.failures.clear()
        run.ledger.noted.clear()
        run.ledger.worst, run.ledger.where = worst, where
    words = f"q . k of {len(calls)} calls agrees, worst {worst:.3g} units"
    accept(run, f"{TENSORS}: {message}", words, equivalent)
    return True


def accept(run: Run, message: str, evidence: str, equivalent: tuple[str, ...] = ()) -> None:
    """Say which tensors differ without an effect: a note, or an error of a strict check.

    If a strict check has an error already, which names the difference, a note follows it.
    """
    run.add(
        "harmless-convention",
        message,
        evidence,
        severity=ERROR if run.settings.strict and not run.report.codes else NOTE,
        remedy=REMEDY,
        equivalent=equivalent,
    )


def agree(run: Run, calls: Sequence[BothSides]) -> bool:
    """Return whether the logits of all calls are right."""
    return all((scores(run, one) <= run.budget).all() for one in calls)


def remark(run: Run, calls: Sequence[BothSides]) -> None:
    """Add the note that logits are right if queries and keys both go through this function."""
    run.count("logits", len(calls))
    run.add(
        "harmless-convention",
        f"logits equal the declared ones, {ONE_MAP}",
        f"q . k of {len(calls)} calls agrees",
        severity=NOTE,
    )


def row_constants(run: Run, calls: Iterable[RowConstants]) -> None:
    """Add a note if a constant is added to each row of logits that is not the declared one.

    All other differences must be within the tolerance.
    """
    for one in calls:
        apart = np.abs(one.actual - one.declared)
        beyond = apart > run.budget * ROUNDOFF[run.coarse] * one.size
        if not beyond.any():
            continue
        at = tuple(int(i) for i in np.argwhere(beyond)[-1])
        where = f"{one.case}: head {at[-2]}, query {at[-1]}"
        accept(
            run,
            "the values differ from the declared ones by a constant in each row, which softmax "
            "ignores",
            f"{where}: {one.actual[at]:.6g} at the query's own key, declared "
            f"{one.declared[at] + 0.0:.6g}",  # not -0
        )
        return


def dot_products(one: BothSides) -> tuple[np.ndarray, Truth]:
    """Return q . k of the results, and its reference; one head of keys may serve several queries.

    Both are (B, H, Q, K).
    """
    groups = one.q.shape[1] // one.k.shape[1]

    def spread(values: np.ndarray) -> np.ndarray:
        return np.repeat(np.broadcast_to(values, one.k.shape), groups, axis=1)

    key = Truth(*(spread(t) for t in (one.key.value, one.key.terms, one.key.angle)))
    return one.q @ np.swapaxes(spread(one.k), -1, -2), logits(one.query, key)


def scores(run: Run, one: BothSides) -> np.ndarray:
    """Return the errors of q . k, in units of the tolerance."""
    return run.scores(*dot_products(one))
