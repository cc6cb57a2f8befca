"""Find which measured deviations together explain a failure.

A :class:`Cause` changes a part of the declared model by a measured number. Unlike a
:class:`~.mistake.Mistake`, it may predict the output only together with other causes; a cause that
the explanation does not need is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from posenc_ref.conformance.harness.run import Run

#: Takes changes of the declared model; returns whether the changed model is within the tolerance,
#: and the size of its residual.
Residual = Callable[[dict[str, Any]], tuple[bool, float]]
#: The largest number of independent deviations in one explanation.
MOST = 3
#: In an incomplete explanation, each cause must reduce the residual by at least this factor.
LEAST = 2
#: Begins the message of a cause that does not predict every result.
IN_PART = "consistent with a part of the results: "


@dataclass(frozen=True)
class Cause:
    """A measured deviation: its finding, and the change of the declared model."""

    code: str
    message: str
    evidence: str
    change: dict[str, Any]
    fitted: int = 1  #: the price: 1 for a known constant, 3 for a fitted number
    values: dict[str, Any] = field(default_factory=dict)
    equivalent: tuple[str, ...] = ()
    remedy: str = ""  #: empty: the remedy of the code


def explain(residual: Residual, causes: Sequence[Cause]) -> tuple[list[Cause], bool]:
    """Return the causes with the lowest sum of ``fitted`` that explain the failure, and True.

    If no set of causes explains the failure completely, return the set with the smallest residual,
    and False. The cause that reduces the residual most comes first.
    """
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
            break  # all later sets cost at least as much
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
    return [cause for _, cause in found], complete


def _sets(causes: Sequence[Cause]) -> Iterator[tuple[int, ...]]:
    """Yield sets of causes (as indices) that change different fields, small sets first."""
    for size in range(min(MOST, len(causes)) + 1):
        for numbers in combinations(range(len(causes)), size):
            keys = [key for n in numbers for key in causes[n].change]
            if len(keys) == len(set(keys)):
                yield numbers


def report(run: Run, causes: Sequence[Cause], complete: bool = True) -> None:
    """Report each cause as a finding.

    If the causes together do not predict every result, the messages say so.
    """
    for cause in causes:
        run.add(
            cause.code,
            cause.message if complete else f"{IN_PART}{cause.message}",
            cause.evidence,
            values=cause.values,
            equivalent=cause.equivalent,
            remedy=cause.remedy,
        )
