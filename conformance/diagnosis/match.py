"""Diagnose by substitution: report a mistake only if its prediction matches every call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import PREDICTS, Run, largest

from .mistake import JudgedCall, Mistake


def judge_call(run: Run, check: str, one: JudgedCall) -> JudgedCall:
    """Judge a call against the reference; return the call, for the diagnosis."""
    at = getattr(one.facts, "positions", None)
    at = at if isinstance(at, np.ndarray) else None
    run.judge(check, one.case, one.actual, one.truth, one.mask, at)
    return one


def failed(run: Run, calls: Sequence[JudgedCall]) -> list[JudgedCall]:
    """Return those of the calls that do not match their reference."""
    return [one for one in calls if not fits(run, one, one.truth)]


def fits(run: Run, one: JudgedCall, truth: Truth | None) -> bool:
    """Return whether the result of the call matches ``truth`` within the tolerance."""
    if truth is None or truth.value.shape != one.actual.shape:
        return False
    score = scores(run, one, truth)
    return bool(score.size == 0 or score.max() <= run.budget)


def scores(run: Run, one: JudgedCall, truth: Truth) -> np.ndarray:
    """Return the score of every element of the call, or 0 for masked elements."""
    score = run.scores(one.actual, truth)
    return score if one.mask is None else np.where(one.mask, score, 0.0)


def worst(run: Run, one: JudgedCall) -> tuple[int, ...]:
    """Return the index of the element with the largest score."""
    return largest(scores(run, one, one.truth))


def match(run: Run, calls: Sequence[JudgedCall], mistakes: Iterable[Mistake]) -> bool:
    """Report the mistakes that explain the wrong calls; return whether every call is explained.

    If one mistake explains every wrong call, only that mistake is reported; mistakes without
    fitted numbers are tried first. Otherwise several mistakes are reported. Each explains wrong
    calls that the others do not, and none contradicts a right call.
    """
    wrong = failed(run, calls)
    if not wrong:
        return True
    right = [one for one in calls if all(one is not w for w in wrong)]
    partial: list[tuple[Mistake, list[JudgedCall]]] = []
    fitted = []
    for mistake in mistakes:
        explained = _explained(run, wrong, right, mistake)
        if len(explained) == len(wrong):
            _add(run, mistake, explained)
            return True
        if explained:
            partial.append((mistake, explained))
        if mistake.fit is not None:
            fitted.append(mistake.fit)
    for fit in fitted:
        together = fit(run, wrong)
        if together and len(_explained(run, wrong, right, together[0])) == len(wrong):
            for mistake in together:
                _add(run, mistake, wrong)
            return True
    left = list(wrong)
    while partial and left:
        gain = [sum(any(one is w for w in left) for one in found) for _, found in partial]
        best = int(np.argmax(gain))
        if not gain[best]:
            break
        mistake, found = partial.pop(best)
        _add(run, mistake, [w for w in left if any(one is w for one in found)])
        left = [w for w in left if all(one is not w for one in found)]
    return not left


def _explained(
    run: Run, wrong: list[JudgedCall], right: list[JudgedCall], mistake: Mistake
) -> list[JudgedCall]:
    """Return the wrong calls that the mistake predicts.

    The list is empty if the mistake predicts a wrong result for any other call.
    """
    explained = []
    for one in wrong:
        predicted = mistake.predict(one.facts)
        if fits(run, one, predicted):
            explained.append(one)
        elif predicted is not None and not _as_declared(run, one, predicted):
            return []
    for one in right if explained else ():
        predicted = mistake.predict(one.facts)
        if predicted is not None and not fits(run, one, predicted):
            return []
    return explained


def _as_declared(run: Run, one: JudgedCall, predicted: Truth) -> bool:
    """Return whether the mistake leaves the result of a call unchanged."""
    return fits(run, JudgedCall(one.case, predicted.value, one.truth, None, one.mask), one.truth)


def _add(run: Run, mistake: Mistake, explained: list[JudgedCall]) -> None:
    one = explained[0]
    at = worst(run, one)
    run.add(
        mistake.code,
        mistake.message,
        f"{one.case}, index {at}: {one.actual[at]:.9g}, declared {one.truth.value[at]:.9g}; "
        f"{PREDICTS} {len(explained)} wrong result{'s' * (len(explained) > 1)}, to "
        "rounding",
        remedy=mistake.remedy,
        equivalent=mistake.equivalent,
        values=dict(mistake.values),
        by=None,
    )
