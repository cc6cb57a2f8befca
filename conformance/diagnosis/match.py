"""Naming a mistake by substituting it: the suspicion stands if the residual vanishes.

Every suspicion is a complete prediction.  It must meet what came out of every call that it says
something about: those that failed, and those that did not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import Run


@dataclass(frozen=True)
class Seen:
    """One call that was judged; ``facts`` is what a suspicion needs to predict its result."""

    case: str
    actual: np.ndarray
    truth: Truth
    facts: Any
    mask: np.ndarray | None = None


@dataclass(frozen=True)
class Suspect:
    """A mistake and the result it would give; None where it has nothing to say about a call."""

    code: str
    message: str
    predict: Callable[[Any], Truth | None]
    remedy: str = ""
    equivalent: tuple[str, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)


def judge_seen(run: Run, check: str, one: Seen) -> Seen:
    """Judge a call against the oracle, and keep it for the diagnosis."""
    run.judge(check, one.case, one.actual, one.truth, one.mask)
    return one


def failed(run: Run, seen: Sequence[Seen]) -> list[Seen]:
    """The calls that came out wrong."""
    return [one for one in seen if not fits(run, one, one.truth)]


def fits(run: Run, one: Seen, truth: Truth | None) -> bool:
    """Whether ``truth`` is what came out of the call."""
    if truth is None or truth.value.shape != one.actual.shape:
        return False
    score = run.scores(one.actual, truth)
    if one.mask is not None:
        score = np.where(one.mask, score, 0.0)
    return bool(score.size == 0 or score.max() <= run.budget)


def name(run: Run, seen: Sequence[Seen], suspects: Iterable[Suspect]) -> bool:
    """Add a finding for the suspicions that explain the wrong calls; True if all are explained.

    One that explains all of them is preferred, and among these the first.  Otherwise several may
    be right: each explains calls that no other does, and finds nothing wrong with the rest.
    """
    wrong = failed(run, seen)
    if not wrong:
        return True
    right = [one for one in seen if all(one is not w for w in wrong)]
    partial: list[tuple[Suspect, list[Seen]]] = []
    for suspect in suspects:
        explained = _explained(run, wrong, suspect)
        if not explained or any(_contradicts(run, one, suspect) for one in right):
            continue
        if len(explained) == len(wrong):
            _add(run, suspect, explained)
            return True
        partial.append((suspect, explained))
    left = list(wrong)
    while partial and left:
        gain = [sum(any(one is w for w in left) for one in found) for _, found in partial]
        best = int(np.argmax(gain))
        if not gain[best]:
            break
        suspect, found = partial.pop(best)
        _add(run, suspect, [w for w in left if any(one is w for one in found)])
        left = [w for w in left if all(one is not w for one in found)]
    return not left


def _contradicts(run: Run, one: Seen, suspect: Suspect) -> bool:
    predicted = suspect.predict(one.facts)
    return predicted is not None and not fits(run, one, predicted)


def _explained(run: Run, wrong: list[Seen], suspect: Suspect) -> list[Seen]:
    """The wrong calls that the suspicion predicts; none if it predicts other wrong values."""
    explained = []
    for one in wrong:
        predicted = suspect.predict(one.facts)
        if fits(run, one, predicted):
            explained.append(one)
        elif predicted is not None and not _as_declared(run, one, predicted):
            return []
    return explained


def _as_declared(run: Run, one: Seen, predicted: Truth) -> bool:
    """Whether the suspicion finds nothing wrong with a call."""
    return fits(run, Seen(one.case, predicted.value, one.truth, None, one.mask), one.truth)


def _add(run: Run, suspect: Suspect, explained: list[Seen]) -> None:
    one = explained[0]
    score = run.scores(one.actual, one.truth)
    if one.mask is not None:
        score = np.where(one.mask, score, 0.0)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(score)), score.shape))
    run.add(
        suspect.code,
        suspect.message,
        f"{one.case}, index {at}: {one.actual[at]:.9g}, declared {one.truth.value[at]:.9g}; "
        f"the mistake predicts {len(explained)} wrong result{'s' * (len(explained) > 1)}, to "
        "rounding",
        remedy=suspect.remedy,
        equivalent=suspect.equivalent,
        values=dict(suspect.values),
        by=None,
    )
