"""Search for the rules that hold for every wrong element and for no right one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations

import numpy as np

from .atoms import Atom, atoms, distinct
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
#: About how many right elements are drawn; rules that hold for none of them are tried on all.
_DRAWN = 2**13
#: The most right elements that are added for each rule that was wrong, and how often.
_ADDED, _ROUNDS = 64, 12
#: For each record, which of its elements are meant.
Masks = Sequence[np.ndarray]
#: The values of a feature in one record: of every element that is meant, or the same for all.
Values = np.ndarray | float


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
        for atom in self.atoms:
            value = np.asarray(features(record).get(atom.name, np.nan), np.float64)
            found &= atom.holds(value) & ~np.isnan(value)
        return found


@dataclass(frozen=True)
class Table:
    """The elements of several records, and their features."""

    records: Sequence[Record]

    @cached_property
    def wrong(self) -> Masks:
        """Return which of the compared elements are wrong."""
        return [r.wrong if r.live is None else r.wrong & r.live for r in self.records]

    @cached_property
    def right(self) -> Masks:
        """Return which of the compared elements are right."""
        return [~r.wrong if r.live is None else ~r.wrong & r.live for r in self.records]

    @cached_property
    def features(self) -> Sequence[dict[Name, np.ndarray]]:
        """Return the features of each record."""
        return [features(record) for record in self.records]

    def predicts(self, rule: Rule, masks: Masks) -> Iterator[np.ndarray]:
        """Yield those elements of ``masks`` for which the rule holds, for each record."""
        for known, mask in zip(self.features, masks, strict=True):
            held = [(a.holds(v), ~np.isnan(v)) for a in rule.atoms for v in [_value(known, a.name)]]
            yield np.asarray(reduce(np.logical_and, (p for pair in held for p in pair), mask))

    def rules(self, wrong: Masks, right: Masks) -> list[Rule]:
        """Return the cheapest rules that hold for all of ``wrong`` and for none of ``right``.

        The search knows some of the right elements only. A rule that holds for others as well adds
        them to the search, which is repeated.
        """
        if not any(mask.any() for mask in right):
            return [Rule()]
        size = sum(mask.size for mask in right)
        drawn = [_drawn(mask, size) for mask in right]
        columns, every = self._columns(drawn), size <= _DRAWN
        if every:
            seen, others = self._columns([np.flatnonzero(mask) for mask in wrong]), columns
        else:
            seen, others = self._values(wrong), self._values(right)
        found = _conditions(seen, others)
        for _ in range(_ROUNDS):
            held = [(a, a.holds(columns[a.name]) & ~np.isnan(columns[a.name])) for a in found]
            rules = _cheapest([(atom, _packed(bits)) for atom, bits in held])
            if every:
                return rules
            more = [np.flatnonzero(some) for rule in rules for some in self.predicts(rule, right)]
            if not any(at.size for at in more):
                return rules
            for i, at in enumerate(more):
                drawn[i % len(drawn)] = np.union1d(drawn[i % len(drawn)], _spread(at, _ADDED))
            columns = self._columns(drawn)
        return [rule for rule in rules if not any(m.any() for m in self.predicts(rule, right))]

    def conditions(self) -> list[Atom]:
        """Return the conditions that hold for every wrong element, the cheapest first."""
        return _conditions(self._values(self.wrong), self._values(self.right))

    def values(self, name: Name, masks: Masks) -> np.ndarray:
        """Return the values of a feature for the elements of masks; most of them only once."""
        return self._values(masks, [name])[name]

    @cached_property
    def names(self) -> Sequence[Name]:
        """Return the names of the features that some record has."""
        return list(dict.fromkeys(name for known in self.features for name in known))

    def _values(self, masks: Masks, names: Sequence[Name] = ()) -> dict[Name, np.ndarray]:
        """Return the values of every feature for the elements of masks; most of them only once."""
        each: dict[Name, list[Values]] = {name: [] for name in names or self.names}
        for known, mask in zip(self.features, masks, strict=True):
            if not mask.any():
                continue
            reduced: dict[tuple[int, ...], np.ndarray] = {}  # the mask, by the shape of a feature
            for name, values in each.items():
                value = known.get(name)
                if value is None or not value.ndim:
                    values.append(np.nan if value is None else float(value))
                    continue
                if value.shape not in reduced:
                    gone = tuple(d for d, n in enumerate(value.shape) if n == 1)
                    reduced[value.shape] = np.asarray(mask.any(axis=gone, keepdims=True))
                some = value[reduced[value.shape]]
                values.append(some if some.size < _DRAWN else distinct(some))
        return {name: _joined(values) for name, values in each.items()}

    def _columns(self, some: Sequence[np.ndarray]) -> dict[Name, np.ndarray]:
        """Return the values of every feature for some elements of each record, by flat index."""
        columns: dict[Name, list[Values]] = {name: [] for name in self.names}
        sizes = [at.size for at in some if at.size]
        for known, record, at in zip(self.features, self.records, some, strict=True):
            if not at.size:
                continue
            each, first = np.unravel_index(at, record.wrong.shape), np.zeros_like(at)
            for name, column in columns.items():
                value = known.get(name)
                if value is None or value.size == 1:
                    column.append(np.nan if value is None else value.item())
                    continue
                long = [d for d, n in enumerate(value.shape) if n > 1]
                if len(long) == 1:
                    column.append(value.reshape(-1)[each[long[0]]])
                    continue
                place = (i if n > 1 else first for i, n in zip(each, value.shape, strict=True))
                column.append(value[tuple(place)])
        return {name: _joined(column, sizes) for name, column in columns.items()}


def _joined(values: Sequence[Values], sizes: Sequence[int] = ()) -> np.ndarray:
    """Return the values of all records; a number is repeated to its size, by default 1."""
    sizes = sizes or [1] * len(values)
    if all(isinstance(value, float | int) for value in values):
        return np.repeat(np.array(values, np.float64), sizes)
    each = zip(values, sizes, strict=True)
    parts = [v if isinstance(v, np.ndarray) else np.full(n, v, np.float64) for v, n in each]
    return np.concatenate(parts).astype(np.float64)


def _conditions(seen: dict[Name, np.ndarray], others: dict[Name, np.ndarray]) -> list[Atom]:
    """Return the conditions that hold for all values of ``seen``, the cheapest first."""
    found = [
        atom
        for name, values in seen.items()
        if not np.isnan(values).any()
        for atom in atoms(name, values, others[name][~np.isnan(others[name])])
    ]
    return sorted(found, key=lambda atom: atom.cost)


def _value(known: dict[Name, np.ndarray], name: Name) -> np.ndarray:
    """Return the values of a feature, NaN if there is none."""
    return np.asarray(known.get(name, np.nan))


def _drawn(mask: np.ndarray, size: int) -> np.ndarray:
    """Return some of the elements of a mask, more of a larger one, but all of a small one."""
    return _spread(np.flatnonzero(mask), max(_DRAWN * mask.size // size, _ADDED))


def _spread(at: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many of the given indices, at random."""
    return at if at.size <= most else np.random.default_rng(at.size).choice(at, most)


def _cheapest(found: list[tuple[Atom, np.ndarray]]) -> list[Rule]:
    """Return the cheapest rules for which no right element meets all conditions."""
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
    if deep == 1 or len(found) < deep:
        return [Rule((a,)) for a, bits in found if deep == 1 and not bits.any()]
    every = np.stack([bits for _, bits in found])
    best: list[Rule] = []
    for first in combinations(range(len(found)), deep - 1):
        start = first[-1] + 1
        met = (every[start:] & np.bitwise_and.reduce(every[[*first]], axis=0)).any(axis=1)
        for last in np.flatnonzero(~met):
            chosen = tuple(found[i][0] for i in (*first, start + int(last)))
            if not any(s <= {*chosen} for s in smaller):
                best.append(Rule(chosen))
    return best


def _packed(values: np.ndarray) -> np.ndarray:
    """Return bools as words of 64 bits."""
    bits = np.packbits(values)
    return np.pad(bits, (0, -bits.size % 8)).view(np.uint64)
