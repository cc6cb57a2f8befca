"""Calls in which every two factors meet: pairwise covering arrays, and which pairs were judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, Protocol, TypeVar

import numpy as np

from .foreign import Malformed, Refused
from .pace import CROSSED
from .plural import plural

#: What a judge keeps of a judged call.
Seen = TypeVar("Seen")
#: One call: the level of every factor.
Row = dict[str, Any]
#: Two factors with a level each.
Pair = frozenset[tuple[str, Any]]


class Reporting(Protocol):
    """A run, as far as the loop over crossed calls uses it."""

    @property
    def ledger(self) -> Any:
        """Return the ledger, whose ``crossings`` are the crossings of the run."""

    @property
    def driver(self) -> Any:
        """Return the driver, whose pace says how many calls are made."""

    def limit(self, text: str) -> None:
        """Report a limit of the function."""

    def add(self, code: str, message: str, evidence: str = "") -> None:
        """Report a finding."""


@dataclass
class Crossing:
    """The calls that a judge makes so that every two levels of different factors meet in one.

    ``allowed`` returns whether a call is small enough to be made; it must hold for every part of a
    call for which it holds. Pairs of levels that no allowed call has are left out.
    """

    levels: Mapping[str, Sequence[Any]]
    allowed: Callable[[Row], bool] = lambda row: True
    seed: int = 0
    optional: tuple[str, ...] = ()  #: factors of which the function may refuse all but one level
    gone: set[tuple[str, Any]] = field(default_factory=set)  #: refused levels of these factors
    left: dict[Pair, None] = field(default_factory=dict)  #: the pairs that no call has had yet
    judged: set[Pair] = field(default_factory=set)
    calls: int = 0

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs of levels that a call may have, in the order of the levels."""
        for one, other in combinations(self.levels, 2):
            for a in self.levels[one]:
                for b in self.levels[other]:
                    if self.allowed({one: a, other: b}):
                        yield frozenset(((one, a), (other, b)))

    def rows(self) -> Iterator[Row]:
        """Yield calls until every pair has been in one of them.

        Each call starts from the first pair that is left; then each factor gets the level that
        meets the most pairs that are left. The seed decides between equally good levels.
        """
        self.left = {pair: None for pair in self.pairs() if not pair & self.gone}
        rng = np.random.default_rng(self.seed)
        while self.left:
            row: Row = dict(sorted(next(iter(self.left))))
            for factor in self.levels:
                if factor not in row:
                    row[factor] = self._best(row, factor, rng)
            for pair in _within(row):
                self.left.pop(pair, None)
            yield {factor: row[factor] for factor in self.levels}

    def _best(self, row: Row, factor: str, rng: Any) -> Any:
        """Return the allowed level of a factor that meets the most pairs that are left."""
        gains = [
            sum(frozenset(((factor, a), item)) in self.left for item in row.items())
            if (factor, a) not in self.gone and self.allowed({**row, factor: a})
            else -1
            for a in self.levels[factor]
        ]
        best = np.flatnonzero(np.array(gains) == max(gains))
        return self.levels[factor][int(rng.choice(best))]

    def saw(self, row: Row) -> None:
        """Record that a call was judged."""
        self.calls += 1
        self.judged.update(_within(row))

    def refused(self, row: Row) -> bool:
        """Record that a call was refused; return whether levels that may be refused explain it.

        These are the levels of optional factors that no judged call had, apart from the first; of
        a number, all its levels but the first. Later calls do without them.
        """
        known, blamed = {item for pair in self.judged for item in pair}, set()
        for name in self.optional:
            base, *others = self.levels[name]
            if row[name] == base or (name, row[name]) in known:
                continue
            numbers = isinstance(base, int) and not any((name, other) in known for other in others)
            blamed |= {(name, other) for other in (others if numbers else [row[name]])}
        self.gone |= blamed
        if blamed:
            again = dict.fromkeys(_within(row)) | self.left
            self.left = {pair: None for pair in again if not pair & self.gone}
        return bool(blamed)

    def covered(self) -> dict[str, str]:
        """Return, for every two factors, how many pairs of their levels were judged."""
        found = {}
        wanted = list(self.pairs())
        for one, other in combinations(self.levels, 2):
            some = [pair for pair in wanted if {f for f, _ in pair} == {one, other}]
            met = sum(pair in self.judged for pair in some)
            found[f"{one} x {other}"] = f"{met} of {len(some)}"
        return found

    def joined(self, other: Crossing) -> Crossing:
        """Return the crossing with the levels and the calls of another one of the same factors."""
        levels = {f: tuple(dict.fromkeys((*v, *other.levels[f]))) for f, v in self.levels.items()}
        judged, calls = self.judged | other.judged, self.calls + other.calls
        return replace(self, levels=levels, judged=judged, calls=calls)

    def __str__(self) -> str:
        wanted = list(self.pairs())
        met = sum(pair in self.judged for pair in wanted)
        names = ", ".join(self.levels)
        calls = plural(self.calls, "call", "calls")
        return f"{met} of {len(wanted)} pairs of values of {names}, in {calls}"


def cross(
    run: Reporting,
    crossing: Crossing,
    call: Callable[[Row], Seen | None],
    said: Callable[[Row], str],
) -> list[Seen]:
    """Make the calls of a crossing; return the results of those that were judged.

    ``call`` makes and judges one call; it returns None if the encoding has no such call. ``said``
    describes a call in words. Refused calls are one limit of the report; a result of another shape
    is an error.
    """
    run.ledger.crossings.append(crossing)
    refused: dict[str, Refused] = {}
    seen: list[Seen] = []
    rows = list(crossing.rows()) if run.driver.pace.slow else []
    most = run.driver.pace.room(len(rows), CROSSED, share=0.5)
    if most < len(rows):
        run.driver.pace.left["crossed calls"] = most, len(rows)
    for row in rows[:most] or crossing.rows():
        try:
            found = call(row)
        except Refused as error:
            crossing.refused(row)
            refused.setdefault(said(row), error)
            continue
        except Malformed as error:
            run.add(error.code, str(error), said(row))
            continue
        if found is not None:
            crossing.saw(row)
            seen.append(found)
    if refused:
        words, first = next(iter(refused.items()))
        more = f", and {len(refused) - 1} other sizes or forms" if len(refused) > 1 else ""
        known = f"{words}{more}: refused ("
        if not any(limit.startswith(known) for limit in run.ledger.report.limits):
            run.limit(f"{known}{first})")
    return seen


def _within(row: Row) -> Iterator[Pair]:
    """Yield the pairs of levels of a call."""
    return map(frozenset, combinations(row.items(), 2))
