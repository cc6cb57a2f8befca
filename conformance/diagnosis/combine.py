"""Which of several measured deviations explain a failure: each must lower the residual."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from posenc_ref.conformance.harness.run import Run

#: What is left when changes are substituted into the declaration: (nothing over the budget, size).
Residual = Callable[[dict[str, Any]], tuple[bool, float]]
#: More independent deviations than this are not looked for at once.
MOST = 3
#: Where the explanation stays incomplete, a cause must take away one part in so many.
LEAST = 2


@dataclass(frozen=True)
class Cause:
    """A measured deviation: what to say, and what it changes in the declared model."""

    code: str
    message: str
    evidence: str
    change: dict[str, Any]
    fitted: int = 1  #: how much of the output was used to make it: constants 1, free numbers 3
    values: dict[str, Any] = field(default_factory=dict)
    equivalent: tuple[str, ...] = ()
    remedy: str = ""  #: where the code's own would not be the right one


@dataclass(frozen=True)
class Explanation:
    """The causes that stand, the one that lowers the residual most first."""

    causes: tuple[Cause, ...]
    complete: bool  #: nothing is left over the budget


def explain(residual: Residual, causes: Sequence[Cause]) -> Explanation:
    """The cheapest set of causes that explains everything, or else the one that leaves least.

    A cause stands only if the residual without it is larger.
    """
    tried: dict[Chosen, tuple[bool, float]] = {}
    best: Chosen | None = None
    for chosen in _sets(causes):
        if best is not None and len(chosen) >= _price(best):
            break  # every set from here on is at least as dear
        tried[chosen] = residual(_changes(chosen))
        if tried[chosen][0] and (best is None or _price(chosen) < _price(best)):
            best = chosen
    complete = best is not None
    if best is None:
        best = min(tried, key=lambda c: (tried[c][1], len(c)))
    found = []
    for number in best.numbers:
        rest = Chosen(tuple(n for n in best.numbers if n != number), best.causes)
        if rest not in tried:
            tried[rest] = residual(_changes(rest))
        lost = tried[rest][1] - tried[best][1]
        if lost > 0 and (complete or LEAST * lost >= tried[rest][1]):
            found.append((lost, causes[number]))
    found.sort(key=lambda pair: -pair[0])
    return Explanation(tuple(cause for _, cause in found), complete)


def report(run: Run, explanation: Explanation) -> None:
    """File the causes as findings."""
    for cause in explanation.causes:
        run.add(
            cause.code,
            cause.message,
            cause.evidence,
            values=cause.values,
            equivalent=cause.equivalent,
            remedy=cause.remedy,
        )


@dataclass(frozen=True)
class Chosen:
    """A set of causes, by number."""

    numbers: tuple[int, ...]
    causes: tuple[Cause, ...] = field(compare=False)

    def __len__(self) -> int:
        return len(self.numbers)


def _price(chosen: Chosen) -> int:
    return sum(chosen.causes[n].fitted for n in chosen.numbers)


def _changes(chosen: Chosen) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for number in chosen.numbers:
        merged |= chosen.causes[number].change
    return merged


def _sets(causes: Sequence[Cause]) -> Iterator[Chosen]:
    """Sets of causes that change different things, small ones first."""
    for size in range(min(MOST, len(causes)) + 1):
        for numbers in combinations(range(len(causes)), size):
            keys = [key for n in numbers for key in causes[n].change]
            if len(keys) == len(set(keys)):
                yield Chosen(numbers, tuple(causes))
