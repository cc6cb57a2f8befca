"""Diagnose by substitution: report a mistake only if its prediction matches every call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.codes import CODES
from posenc_ref.conformance.harness.run import PREDICTS, Run, largest

from .combine import IN_PART
from .in_part import in_part
from .mistake import JudgedCall, Mistake
from .relation import report_relation
from .scored import failed, fits, scores

__all__ = ["explains", "failed", "fits", "judge_call", "likely", "match", "report_in_part", "worst"]

#: Whether mistakes predict calls, by the id of both; both have to be kept as long.
Outcomes = dict[tuple[int, int], bool | None]


def judge_call(run: Run, check: str, one: JudgedCall) -> JudgedCall:
    """Judge a call against the reference; return the call, for the diagnosis."""
    at = getattr(one.facts, "positions", None)
    at = at if isinstance(at, np.ndarray) else None
    run.judge(check, one.case, one.actual, one.truth, one.mask, at)
    return one


def worst(run: Run, one: JudgedCall) -> tuple[int, ...]:
    """Return the index of the element with the largest score."""
    return largest(scores(run, one, one.truth))


def match(
    run: Run,
    calls: Sequence[JudgedCall],
    mistakes: Iterable[Mistake],
    *,
    parts: bool = True,
    whole: bool = False,
    further: Callable[[], Iterable[JudgedCall]] | None = None,
    outcomes: Outcomes | None = None,
) -> bool:
    """Report the mistakes that explain the wrong calls; return whether every call is explained.

    If one mistake explains every wrong call, only that mistake is reported; mistakes without
    fitted numbers are tried first. Otherwise several mistakes are reported. Each explains wrong
    calls that the others do not, and none contradicts a right call. If these do not explain every
    call, ``parts`` allows one mistake that is made in some calls or elements only. With ``whole``,
    nothing is reported unless every call is explained.

    ``further`` makes calls of other sizes, which could refute a mistake. It is called once, when a
    mistake explains all calls; a mistake that does not predict these too is not asserted.

    ``outcomes`` keeps what the comparisons gave, for a later match of the same objects.
    """
    wrong = failed(run, calls)
    if not wrong:
        return True
    run.ledger.relate = partial(report_relation, run, calls)
    right = [one for one in calls if all(one is not w for w in wrong)]
    few: list[tuple[Mistake, list[JudgedCall]]] = []
    fitted, tried, asked, refuted = [], [], 0, False
    for mistake in mistakes:
        tried.append(mistake)
        explained = explained_by(run, wrong, right, mistake, outcomes)
        if len(explained) == len(wrong) and further is not None:
            more, further = list(further()), None
            asked = len(more)
            calls, new = [*calls, *more], failed(run, more)
            wrong += new
            right += [one for one in more if all(one is not w for w in new)]
            again = explained_by(run, wrong, right, mistake)
            if len(again) < len(wrong):
                few.append((_in_part(mistake), explained))
                refuted, again = True, []
            explained = again
        if explained and len(explained) == len(wrong):
            add(run, mistake, explained, asked)
            return True
        if explained:
            few.append((mistake, explained))
        if mistake.fit is not None:
            fitted.append(mistake.fit)
    measured: list[Mistake] = []  #: single mistakes with the numbers that the wrong calls show
    for fit in fitted:
        together = fit(run, wrong)
        measured += together if len(together) == 1 else ()
        if together and len(explained_by(run, wrong, right, together[0])) == len(wrong):
            if further is not None:
                more = list(further())
                new = failed(run, more)
                others = [one for one in more if all(one is not w for w in new)]
                # What is measured on each call must be measured on these, too.
                refit = fit(run, [*wrong, *new]) or together
                if len(explained_by(run, [*wrong, *new], others, refit[0])) == len(wrong) + len(
                    new
                ):
                    together, asked = refit, len(more)
                else:
                    together = [_in_part(mistake) for mistake in together]
            for mistake in together:
                add(run, mistake, wrong, asked)
            return True
    chosen, left = _several(wrong, few)
    some = bool(left) or refuted
    if some and parts and further is not None:
        calls = [*calls, *further()]
    if some and parts and report_in_part(run, calls, [*tried, *measured]):
        return True
    for mistake, found in chosen if not (whole and some) else ():
        add(run, _in_part(mistake) if some else mistake, found)
    return not some


def _in_part(mistake: Mistake) -> Mistake:
    """Return a mistake that leaves results unexplained."""
    said = mistake.message.removeprefix(IN_PART)
    return replace(mistake, message=f"{IN_PART}{said}")


def report_in_part(run: Run, calls: Sequence[JudgedCall], mistakes: Iterable[Mistake]) -> bool:
    """Report a mistake that is made in some calls or elements only; return whether there is one."""
    wrong = failed(run, calls)
    right = [one for one in calls if all(one is not w for w in wrong)]
    found = in_part(run, wrong, right, mistakes)
    if found is not None:
        mistake, words = found
        add(run, placed(mistake, words), wrong)
    return found is not None


def placed(mistake: Mistake, words: str) -> Mistake:
    """Return a mistake that is made in some places only; ``words`` name them.

    Distances are no part of the remedy: the results of two formulas may agree up to a distance.
    """
    if not words:
        return mistake
    remedy = mistake.remedy or CODES[mistake.code].remedy
    remedy += f" This is {words}: the rest is right." * ("distance" not in words)
    return replace(mistake, message=f"{mistake.message}, {words}", remedy=remedy)


def _several(
    wrong: list[JudgedCall], few: list[tuple[Mistake, list[JudgedCall]]]
) -> tuple[list[tuple[Mistake, list[JudgedCall]]], list[JudgedCall]]:
    """Return mistakes with the calls that each explains, and the calls that none explains."""
    left, chosen = list(wrong), []
    while few and left:
        gain = [sum(any(one is w for w in left) for one in found) for _, found in few]
        best = int(np.argmax(gain))
        if not gain[best]:
            break
        mistake, found = few.pop(best)
        chosen.append((mistake, [w for w in left if any(one is w for one in found)]))
        left = [w for w in left if all(one is not w for one in found)]
    return chosen, left


def likely(run: Run, calls: Sequence[JudgedCall], mistakes: Iterable[Mistake]) -> Iterator[Mistake]:
    """Yield those of many mistakes that predict the smallest wrong call.

    Only these are tried on the other calls, which may be a thousand times as large.
    """
    wrong = failed(run, calls)
    if wrong:
        least = min(wrong, key=lambda one: one.actual.size)
        yield from (m for m in mistakes if fits(run, least, m.predict(least.facts)))


def explains(run: Run, calls: Sequence[JudgedCall], mistake: Mistake) -> bool:
    """Return whether the mistake predicts the results of all calls, wrong and right."""
    wrong = failed(run, calls)
    right = [one for one in calls if all(one is not w for w in wrong)]
    return bool(wrong) and len(explained_by(run, wrong, right, mistake)) == len(wrong)


def explained_by(
    run: Run,
    wrong: list[JudgedCall],
    right: list[JudgedCall],
    mistake: Mistake,
    outcomes: Outcomes | None = None,
) -> list[JudgedCall]:
    """Return the wrong calls that the mistake predicts.

    The list is empty if the mistake predicts a wrong result for any other call.
    """

    def outcome(one: JudgedCall, of: Callable[[Run, JudgedCall, Mistake], bool | None]) -> Any:
        if outcomes is None:
            return of(run, one, mistake)
        key = id(mistake), id(one)
        if key not in outcomes:
            outcomes[key] = of(run, one, mistake)
        return outcomes[key]

    explained = []
    for one in wrong:
        predicted = outcome(one, _of_wrong)
        if predicted is False:
            return []
        if predicted:
            explained.append(one)
    if explained and any(outcome(one, _of_right) is False for one in right):
        return []
    return explained


def _of_wrong(run: Run, one: JudgedCall, mistake: Mistake) -> bool | None:
    """Return whether the mistake predicts a wrong call; None if it leaves the call unchanged."""
    predicted = mistake.predict(one.facts)
    if predicted is None or predicted is one.truth:
        return None
    if fits(run, one, predicted):
        return True
    return None if _as_declared(run, one, predicted) else False


def _of_right(run: Run, one: JudgedCall, mistake: Mistake) -> bool | None:
    """Return whether the mistake predicts a right call; None if it leaves the call unchanged."""
    predicted = mistake.predict(one.facts)
    if predicted is None or predicted is one.truth:
        return None
    return fits(run, one, predicted)


def _as_declared(run: Run, one: JudgedCall, predicted: Truth) -> bool:
    """Return whether the mistake leaves the result of a call unchanged."""
    return fits(run, JudgedCall(one.case, predicted.value, one.truth, None, one.mask), one.truth)


def add(
    run: Run,
    mistake: Mistake,
    explained: list[JudgedCall],
    asked: int = 0,
    *,
    together: bool = False,
) -> None:
    """Report a mistake; ``together``: only with other findings does it predict the results."""
    one = explained[0]
    at = worst(run, one)
    run.add(
        mistake.code,
        mistake.message,
        f"{one.case}, index {at}: {one.actual[at]:.9g}, declared {one.truth.value[at]:.9g}; "
        f"{'together with the other finding, ' * together}{PREDICTS} {len(explained)} wrong "
        f"result{'s' * (len(explained) > 1)}, to rounding"
        + f"; {asked} further calls agree"
        * (asked > 1),
        remedy=mistake.remedy,
        equivalent=mistake.equivalent,
        values=dict(mistake.values),
        by=None,
    )
