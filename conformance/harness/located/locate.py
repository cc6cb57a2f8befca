"""Say where a function is wrong: by one rule, by two, or by what is known without a rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .ask import Ask, refuted
from .atoms import atoms
from .features import features
from .record import Record
from .search import Rule, Table
from .words import EVERYWHERE, said

#: The most elements that are searched; of the largest right results, the last are left out.
_SEARCHED = 2**19
#: The highest cost of two rules together.
_DEAREST = 5.0
#: Rules whose costs differ by no more are as simple as each other.
_NEAR = 0.25
#: The highest cost of a rule for results of which only parts are wrong.
_OF_PARTS = 4.2
#: The largest part of the elements that a rule names and that are right, in all and in one result:
#: a few are within the tolerance although the function is wrong there.
_BY_CHANCE, _IN_ONE = 0.01, 0.05


@dataclass(frozen=True)
class Place:
    """Where a function is wrong."""

    text: str  #: such as "wrong: heads from 8 on, in calls with S = 1"
    rules: tuple[Rule, ...] = ()  #: an element is wrong if one of them holds; empty: no rule found
    asked: int = 0  #: the number of calls that were made to refute other rules
    partial: bool = False  #: whether the rules name elements that are right


def locate(
    records: Sequence[Record],
    ask: Ask | None = None,
    pairs: np.ndarray | None = None,
    *,
    single: bool = False,
) -> Place | None:
    """Return where the wrong elements of the records are, or None if no element is wrong.

    ``ask`` makes a further call; with it, rules that explain the records equally well are told
    apart. ``pairs`` are the channels (2, P) of the pairs. With ``single``, the result is None
    if no single rule says where: two rules, or a rule for parts of rows, are not sought.
    """
    if not any(record.failed for record in records):
        return None
    records, asked = list(records), 0
    parts = {record.part for record in records if record.failed}
    if len(parts) == 1 and any(record.part not in parts for record in records):
        some = [replace(r, part=0) for r in records if r.part in parts]
        place = locate(some, ask, pairs, single=single)
        if place is None:
            return None
        text = f"{place.text} (only result {parts.pop() + 1} of each call is wrong)"
        return replace(place, text=text)
    rules, table = _rules(records)
    if rules and ask is not None:
        records, asked = refuted(records, rules, ask, lambda some: _rules(some)[0])
        if asked:
            rules, table = _rules(records)
    best = [rule for rule in rules if rule.cost <= rules[0].cost + _NEAR]
    if len(best) > 1:  # position 0 decides between rules that are as simple
        rules = sorted(best, key=lambda rule: any(_still(r, [rule]) for r in records))
    channels = _channels(records, pairs)
    if not rules or _arbitrary(rules[0]):
        nearly = _nearly(table, rules)
        if nearly is not None:
            rule, right, named = nearly
            where = said(rule, table, channels)
            of = "" if where == EVERYWHERE else f" of {where}"
            wrong = f"all but {right} of the {named} elements{of}" if right else where
            return Place(f"wrong: {wrong}", (rule,), asked, partial=True)
    if single and not rules:
        return None
    chosen = rules[:1] or _two(table)
    if not chosen:
        return _of_parts(records, asked)
    words = "; and ".join(said(rule, table, channels) for rule in chosen)
    still = any(_still(r, chosen) for r in records)
    words += ", but not at position 0" * (still and not any(map(_moves, records)))
    return Place(f"wrong: {words}", tuple(chosen), asked)


def _still(record: Record, rules: Sequence[Rule]) -> bool:
    """Return whether a rule holds for a right element at position 0, where nothing turns."""
    at = features(record).get(("position", ""))
    if at is None or not (at == 0).any():
        return False
    some = (at == 0) & ~record.wrong
    return bool(some.any() and any((rule.predicts(record) & some).any() for rule in rules))


def _moves(record: Record) -> bool:
    """Return whether an element at position 0 is wrong."""
    at = features(record).get(("position", ""))
    return at is not None and bool(((at == 0) & record.wrong).any())


def _arbitrary(rule: Rule) -> bool:
    """Return whether a rule leaves out single values, such as "all tokens but 1695"."""
    return any(a.op == "not" and a.values[0] not in (0, 1) for a in rule.atoms)


def _nearly(table: Table, rules: Sequence[Rule]) -> tuple[Rule, int, int] | None:
    """Return the simplest rule that names few right elements, their number, and that of all.

    Without ``rules``, the single conditions are tried; else the best rule without its single
    values.
    """
    if rules:
        kept = [a for a in rules[0].atoms if not _arbitrary(Rule((a,)))]
        some = [Rule(tuple(kept))]
    else:
        single = {atom for atom in table.conditions() if not _arbitrary(Rule((atom,)))}
        some = sorted((Rule(), *(Rule((a,)) for a in single)), key=lambda rule: rule.cost)
    wrong = sum(int(mask.sum()) for mask in table.wrong)
    for rule in some:
        right = 0
        for found, mask in zip(table.predicts(rule, table.right), table.right, strict=True):
            count = int(found.sum())
            right += count
            if count > max(1, _IN_ONE * mask.size) or right > _BY_CHANCE * (wrong + right):
                break
        else:
            return rule, right, wrong + right
    return None


def _rules(records: Sequence[Record]) -> tuple[list[Rule], Table]:
    """Return the rules that explain all records, the cheapest first, and the table of them."""
    held, kept = 0, []
    for record in sorted(records, key=lambda r: (not r.failed, r.wrong.size)):
        held += record.wrong.size
        if record.failed or held <= _SEARCHED:
            kept.append(record)
    table = Table(kept)
    return table.rules(table.wrong, table.right), table


def _two(table: Table) -> list[Rule]:
    """Return two rules, of which one or both hold for every wrong element; empty if none do."""
    first = next(i for i, mask in enumerate(table.wrong) if mask.any())
    some = [mask if i == first else np.zeros_like(mask) for i, mask in enumerate(table.wrong)]
    best: list[Rule] = []
    for one in table.rules(some, table.right)[:4]:
        explained = table.predicts(one, table.wrong)
        left = [mask & ~found for mask, found in zip(table.wrong, explained, strict=True)]
        if not any(mask.any() for mask in left):
            continue
        for other in table.rules(left, table.right)[:1]:
            price = one.cost + other.cost
            if price <= _DEAREST and (not best or price < sum(rule.cost for rule in best)):
                best = [one, other]
    return best


def _of_parts(records: Sequence[Record], asked: int) -> Place:
    """Return the place by a rule of rows, heads, tokens or calls of which only parts are wrong."""
    axes = next(r.axes for r in records if r.failed)
    for count in range(len(axes) - 1, -1, -1):
        found = []
        for kept in combinations(range(len(axes)), count):
            parts = [_projected(record, kept) for record in records if record.axes == axes]
            rules, table = _rules(parts)
            found += [(rule, table) for rule in rules[:1] if rule.atoms and rule.cost <= _OF_PARTS]
        if found:
            rule, table = min(found, key=lambda pair: pair[0].cost)
            some = f"some elements of {said(rule, table)}".replace(" of every element", "", 1)
            return Place(f"wrong: {some}", (rule,), asked, partial=True)
    return Place(_unruled(records), (), asked)


def _projected(record: Record, kept: tuple[int, ...]) -> Record:
    """Return the record with sizes of 1 for all axes but those kept: wrong if any element is."""
    gone = tuple(d for d in range(record.wrong.ndim) if d not in kept)
    wrong = np.asarray(record.wrong.any(axis=gone, keepdims=True))
    live = record.live
    if live is not None:
        live = np.asarray(live.any(axis=gone, keepdims=True))
    return replace(record, wrong=wrong, live=live, gone=gone, full=record.shape)


def _channels(records: Sequence[Record], pairs: np.ndarray | None) -> str:
    """Return the wrong channels as words; empty if all are wrong, or no rule gives them."""
    known = [r.channels for r in records if r.channels is not None]
    if not known or len({c.size for c in known}) > 1:
        return ""
    wrong = np.any(known, axis=0)
    for axis, off in (("channel", wrong), ("pair", None)):
        if axis == "pair":
            if pairs is None:
                return ""
            off = wrong[pairs[0]] & wrong[pairs[1]]
            if not (off == (wrong[pairs[0]] | wrong[pairs[1]])).all():
                return ""
        assert off is not None
        some = off if pairs is None or axis == "pair" else off[np.sort(pairs.ravel())]
        if some.all():
            return ""
        names = (("index", axis), ("from end", axis))
        at = np.arange(off.size)
        for name, value in zip(names, (at, off.size - 1 - at), strict=True):
            for atom in sorted(atoms(name, value[off], value[~off]), key=lambda a: a.cost):
                if (atom.holds(value) == off).all():
                    return said(Rule((atom,)))
        low, high = int(at[off].min()), int(at[off].max())
        if off[low : high + 1].all():
            return f"{axis}s {low}..{high}"
    return ""


def _unruled(records: Sequence[Record]) -> str:
    """Return what is known about the wrong elements without a rule."""
    wrong = [r for r in records if r.failed]
    every = sum(bool(r.wrong.all()) for r in wrong)
    first = min(wrong, key=lambda r: r.wrong.size)
    at = tuple(int(i) for i in np.argwhere(first.wrong)[0])
    where = ", ".join(f"{axis} {i}" for axis, i in zip(first.axes, at, strict=True))
    whole = f", {every} of them everywhere" if every else ""
    return (
        f"no simple rule says where: wrong in {len(wrong)} of {len(records)} results{whole}; "
        f"first {where} of {first.case!r}"
    )
