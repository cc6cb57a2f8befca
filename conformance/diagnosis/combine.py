"""Find which measured deviations together explain a failure.

A :class:`Cause` is no :class:`~.mistake.Mistake`: it changes a part of the declared model, by a
measured number, and predicts nothing alone.  A set of causes does, and each must be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from posenc_ref.conformance.harness.run import Run

#: For a changed model: whether it is within the tolerance, and the size of the residual.
Residual = Callable[[dict[str, Any]], tuple[bool, float]]
#: The most independent deviations that are looked for at once.
MOST = 3
#: Where the explanation is incomplete, each cause must reduce the residual by this factor.
LEAST = 2


@dataclass(frozen=True)
class Cause:
    """A measured deviation: the finding, and the change of the declared model."""

    code: str
    message: str
    evidence: str
    change: dict[str, Any]
    fitted: int = 1  #: how much of the output it was measured from: constants 1, free numbers 3
    values: dict[str, Any] = field(default_factory=dict)
    equivalent: tuple[str, ...] = ()
    remedy: str = ""  #: where that of the code does not apply


@dataclass(frozen=True)
class Combination:
    """The causes that are needed, the one that lowers the residual most first."""

    causes: tuple[Cause, ...]
    complete: bool  #: nothing is left over the tolerance


def explain(residual: Residual, causes: Sequence[Cause]) -> Combination:
    """Return the cheapest set of causes that explains everything, or the one that leaves least."""
    tried: dict[tuple[int, ...], tuple[bool, float]] = {}

    def left(numbers: tuple[int, ...]) -> tuple[bool, float]:
        if numbers not in tried:
            change: dict[str, Any] = {}
            for n in numbers:
                change |= causes[n].change
            tried[numbers] = residual(change)
        return tried[numbers]

    def price(numbers: tuple[int, ...]) -> int:
        return sum(causes[n].fitted for n in numbers)

    best: tuple[int, ...] | None = None
    for numbers in _sets(causes):
        if best is not None and len(numbers) >= price(best):
            break  # no later set is cheaper
        if left(numbers)[0] and (best is None or price(numbers) < price(best)):
            best = numbers
    complete = best is not None
    if best is None:
        best = min(tried, key=lambda numbers: (tried[numbers][1], len(numbers)))
    found = []
    for number in best:
        rest = left(tuple(n for n in best if n != number))[1]
        lost = rest - tried[best][1]
        if lost > 0 and (complete or LEAST * lost >= rest):
            found.append((lost, causes[number]))
    found.sort(key=lambda pair: -pair[0])
    return Combination(tuple(cause for _, cause in found), complete)


def _sets(causes: Sequence[Cause]) -> Iterator[tuple[int, ...]]:
    """Sets of causes, by number, that change different things; small ones first."""
    for size in range(min(MOST, len(causes)) + 1):
        for numbers in combinations(range(len(causes)), size):
            keys = [key for n in numbers for key in causes[n].change]
            if len(keys) == len(set(keys)):
                yield numbers


def report(run: Run, found: Combination) -> None:
    """Report the causes as findings."""
    for cause in found.causes:
        run.add(
            cause.code,
            cause.message,
            cause.evidence,
            values=cause.values,
            equivalent=cause.equivalent,
            remedy=cause.remedy,
        )
