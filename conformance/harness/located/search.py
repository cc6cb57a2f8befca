"""Search for the rules that hold for every wrong element and for no right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from .atoms import Atom, atoms
from .features import Name, features
from .record import Record

#: The most conditions of a rule.
DEEPEST = 3
#: The cost of each further condition of a rule.
FURTHER = 0.5
#: The most conditions among which pairs are searched, and triples.
_PAIRS, _TRIPLES = 150, 40
#: The most rules returned.
_BEST = 16


@dataclass(frozen=True)
class Rule:
    """Conditions that all hold for the wrong elements; without conditions, everything is wrong."""

    atoms: tuple[Atom, ...] = ()

    @property
    def cost(self) -> float:
        """Return the cost of the conditions."""
        return sum(a.cost for a in self.atoms) + FURTHER * max(len(self.atoms) - 1, 0)

    def predicts(self, record: Record) -> np.ndarray:
        """Return the elements of a record that the rule says to be wrong."""
        found = np.ones(record.wrong.shape, bool)
        known = features(record)
        for atom in self.atoms:
            value = np.asarray(known.get(atom.name, np.nan), np.float64)
            found &= atom.holds(value) & ~np.isnan(value)
        return found


@dataclass(frozen=True)
class Table:
    """The features of all elements of several records, one row each."""

    records: Sequence[Record]

    @cached_property
    def live(self) -> np.ndarray:
        """Return which elements were compared."""
        return np.concatenate(
            [
                np.ones(r.wrong.size, bool) if r.live is None else r.live.ravel()
                for r in self.records
            ]
        )

    @cached_property
    def wrong(self) -> np.ndarray:
        """Return which of the compared elements are wrong."""
        return np.asarray(np.concatenate([r.wrong.ravel() for r in self.records])[self.live])

    @cached_property
    def columns(self) -> dict[Name, np.ndarray]:
        """Return the value of every feature for each compared element; NaN where it has none."""
        each = [features(record) for record in self.records]
        names = list(dict.fromkeys(name for found in each for name in found))
        columns = {}
        for name in names:
            parts = [
                np.broadcast_to(found.get(name, np.array(np.nan)), record.wrong.shape).ravel()
                for found, record in zip(each, self.records, strict=True)
            ]
            columns[name] = np.concatenate(parts).astype(np.float64)[self.live]
        return columns

    def rules(self, wrong: np.ndarray, right: np.ndarray) -> list[Rule]:
        """Return the cheapest rules that hold for all of ``wrong`` and for none of ``right``."""
        if not right.any():
            return [Rule()]
        found: list[tuple[Atom, np.ndarray]] = []
        for name, column in self.columns.items():
            values, others = column[wrong], column[right]
            if np.isnan(values).any():
                continue
            for atom in atoms(name, values, others[~np.isnan(others)]):
                found.append((atom, _packed(atom.holds(others) & ~np.isnan(others))))
        found.sort(key=lambda pair: pair[0].cost)
        best: list[Rule] = []
        for deep, most in zip(range(1, DEEPEST + 1), (len(found), _PAIRS, _TRIPLES), strict=True):
            best += _sets(found[:most] if deep < DEEPEST else _fewest(found, most), deep, best)
        return sorted(best, key=lambda rule: rule.cost)[:_BEST]


def _fewest(found: list[tuple[Atom, np.ndarray]], most: int) -> list[tuple[Atom, np.ndarray]]:
    """Return the conditions that hold for the fewest right elements, for their cost."""
    count = np.array([int(np.bitwise_count(bits).sum()) for _, bits in found])
    order = np.argsort(
        [np.log2(n + 1) + 2 * a.cost for n, (a, _) in zip(count, found, strict=True)]
    )
    return [found[i] for i in order[:most]]


def _sets(found: list[tuple[Atom, np.ndarray]], deep: int, known: list[Rule]) -> list[Rule]:
    """Return the sets of ``deep`` conditions that no right element meets.

    A set that holds one of the ``known`` rules is left out.
    """
    smaller = [{*rule.atoms} for rule in known]
    single = {next(iter(s)) for s in smaller if len(s) == 1}
    found = [(a, bits) for a, bits in found if a not in single]
    best: list[Rule] = []
    if deep == 1:
        return [Rule((a,)) for a, bits in found if not bits.any()]
    for some in combinations(found, deep):
        bits = some[0][1] & some[1][1]
        for _, more in some[2:]:
            bits = bits & more
        if bits.any():
            continue
        chosen = tuple(a for a, _ in some)
        if not any(s <= {*chosen} for s in smaller):
            best.append(Rule(chosen))
    return best


def _packed(values: np.ndarray) -> np.ndarray:
    """Return bools as words of 64 bits."""
    bits = np.packbits(values)
    return np.pad(bits, (0, -bits.size % 8)).view(np.uint64)
