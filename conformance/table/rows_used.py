"""Decode which rows of a table a function returned, and find the rule behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.conditions import ALONE, Conditions, Variables
from posenc_ref.conformance.diagnosis.rule import DECLARED, Rule, find_rule
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.harness.run import Run

from .reference import longest, rows_of

#: The most wrong rows that are decoded; equal ones count once.
_MOST = 600
#: The most candidates for a row.
_REACH = 2**13
#: A table with more rows is searched around the declared ones only.
_WHOLE = 2**12
#: Columns that are compared before all of them are.
_COLUMNS = 24
#: What an instance may count.
_BEFORE = (
    "the number of earlier calls",
    "the number of tokens of earlier calls",
    "the number of tokens in all rows of earlier calls",
)
#: What to do about it.
_OWN = "Count the tokens of each call from 0: keep no count of earlier calls."
#: The name of the number of rows that a call does not ask for.
LEFT_OVER = "the number of rows of the table past those of the call"
#: Positions that others may be counted from.
_STARTS = ("the first position", "the smallest position")
#: Sizes of tiles whose last one may be moved back so that it is full.
_TILES = (4, 8, 16, 32, 64, 128)
#: The most positions that a message lists.
_LISTED = 12


@dataclass(frozen=True)
class SeenRows:
    """The rows of one call, (S, dim) or (B, S, dim), and their positions, (S,) or (B, S)."""

    case: str
    rows: np.ndarray
    size: np.ndarray  #: the terms that are added to the rows, such as |x|; broadcasts to them
    positions: np.ndarray
    table: int = 0  #: the number of rows that the table has, 0 if it has no end
    columns: np.ndarray | None = (
        None  #: the columns of the table that the rows have, by default all
    )
    before: tuple[int, ...] | None = None  #: the numbers :data:`_BEFORE` of a call

    def variables(self) -> Variables:
        """Return numbers that may be mistaken for the positions."""
        shape = self.rows.shape[:-1]
        index, n = np.arange(shape[-1]), shape[-1]
        found = {
            DECLARED: np.broadcast_to(self.positions, shape),
            "the index in the call": np.broadcast_to(index, shape),
            "the length of the call": np.full(shape, n),
        }
        of = "row" if len(shape) > 1 else "call"
        for name, start in zip(_STARTS, _starts(found[DECLARED]), strict=True):
            found[f"{name} of the {of}"] = np.broadcast_to(start, shape)
        for what, count in zip(_BEFORE, self.before or (), strict=False):
            found[what] = np.full(shape, count)
        row = np.arange(shape[0])[:, None] if len(shape) > 1 else 0
        others = {"(s - 1) modulo S": index - 1, "(s + 1) modulo S": index + 1}
        others |= {"S - 1 - s": n - 1 - index}
        if len(shape) > 1:
            others |= {"(s - b) modulo S": index - row, "(s + b) modulo S": index + row}
        for text, at in others.items():
            taken = np.broadcast_to(at % max(n, 1), shape)
            found[f"{ALONE}{text}"] = np.take_along_axis(found[DECLARED], taken, axis=-1)
        if len(shape) > 1:
            found["the batch row"] = np.broadcast_to(row, shape)
            found["the number of batch rows"] = np.full(shape, shape[0])
        if self.table:
            found[LEFT_OVER] = np.full(shape, self.table - n)
        for tile in _TILES:
            found[f"the start of the last {tile} tokens"] = np.full(shape, n - tile)
        return found


def name_rows(run: Run, seen: Sequence[SeenRows], only: str = "") -> bool:
    """Report the rule that gives the row of every position; return whether there is one.

    Every wrong row must equal another row of the declared table, and the rule must predict the
    rows of all calls. ``only`` says which rows these are, if others are not known.
    """
    found = rule_of(run, seen)
    if found is not None:
        _report(run, found, only)
    return found is not None


def _report(run: Run, found: tuple[Rule, str, int], only: str) -> None:
    rule, where, wrong = found
    words = rule.words
    text = f"{only}the row used is that of {words}".replace(DECLARED, "the declared position")
    code = "state" if any(what in words for what in _BEFORE) else "wrong-row"
    if words == f"{DECLARED} + {LEFT_OVER}":
        text = f"{only}the last S rows of the table are used, table[-S:] in place of table[:S]"
    offset = getattr(run.encoding, "offset", 0)
    if offset and f"{DECLARED} + {offset:g}" in words:
        text += f" ({offset:g}, the offset of the table, is added twice)"
    elif offset and f"{DECLARED} - {2 * offset:g}" in words:
        text += f" ({offset:g}, the offset of the table, is subtracted, not added)"
    run.add(
        rule.code or code,
        text,
        f"{where}; the rule predicts all {plural(wrong, 'wrong row', 'wrong rows')}",
        remedy=_OWN if code == "state" else remedy_of(rule),
        values={"measured": words},
    )


def name_part(run: Run, seen: Sequence[SeenRows], only: str = "") -> bool:
    """Report a rule as :func:`name_rows` does, if angles at scattered positions would not show it.

    It has a condition or a quotient, or counts from the first or the smallest position.
    """
    found = rule_of(run, seen)
    if found is None or found[0].code:
        return False
    partly = found[0].where or any(part in found[0].text for part in ("//", *_STARTS))
    if partly:
        _report(run, found, only)
    return bool(partly)


def name_zeros(run: Run, seen: Sequence[SeenRows]) -> bool:
    """Report which rows are zeros, if all others are right; return whether there are any.

    Without a short rule, the report lists the positions whose rows are zeros in every call.
    """
    zeros, flat = [], []
    for one in seen:
        truth = _truth(run, one, np.broadcast_to(one.positions, one.rows.shape[:-1]))
        zero = ~one.rows.any(axis=-1) & truth.value.any(axis=-1)
        if (run.scores(one.rows, truth) > run.budget)[~zero].any():
            return False
        zeros.append(zero.ravel())
        flat.append({n: v.ravel() for n, v in one.variables().items()})
    wrong = np.concatenate(zeros)
    if not wrong.any():
        return False
    joined = {n: np.concatenate([v[n] for v in flat]) for n in flat[0]}
    found = Conditions.of(joined, wrong).sparing(~wrong, 2)
    at = np.unique(joined[DECLARED][wrong])
    if found is not None:
        where = found.text.replace(DECLARED, "the declared position")
    elif wrong.all() or np.isin(joined[DECLARED][~wrong], at).any():
        return False
    else:
        where = f"the declared position is one of {_listed(at)}"
    run.add(
        "wrong-row",
        f"rows are zeros, where {where}; the other rows are right",
        run.failures[0].place,
        remedy=f"Compute the rows also where {where}. A row of zeros for padding is not among the "
        "rows of positions.",
    )
    return True


def _starts(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions that :data:`_STARTS` names, of each row."""
    if not positions.size:
        return positions, positions
    return positions[..., :1], positions.min(axis=-1, keepdims=True)


def _listed(positions: np.ndarray) -> str:
    """Return positions in words; of many, the first and the last ones."""
    n = positions.size
    if n <= _LISTED:
        return ranges(positions.tolist())
    first, last = positions[: _LISTED - 1].tolist(), positions[-1]
    return f"{', '.join(map(str, first))}, ..., {last} ({n} of the positions that were judged)"


def remedy_of(rule: Rule) -> str:
    """Return what to change."""
    where = f", also where {rule.where}" if rule.where else ""
    return f"Take the row of {DECLARED}{where}: not that of {rule.text}."


def rule_of(run: Run, seen: Sequence[SeenRows]) -> tuple[Rule, str, int] | None:
    """Return the rule, the first wrong row in words, and the number of wrong rows."""
    used, flat, first, count = [], [], "", 0
    seen = _counted_on(run, seen)
    large = [one for one in seen if _wrong_rows(run, one) > _MOST]
    for one in seen:
        if len(large) < len(seen) and any(one is other for other in large):
            count += _wrong_rows(run, one)  # the rule of the others must predict them
            continue
        found = _decoded(run, one)
        if found is None:
            return None
        wrong = found != np.broadcast_to(one.positions, found.shape)
        if wrong.any() and not first:
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            declared = int(np.broadcast_to(one.positions, found.shape)[at])
            first = f"{one.case}, row {at[-1]}: that of position {found[at]}, declared {declared}"
        count += int(wrong.sum())
        used.append(found.ravel())
        flat.append({n: v.ravel() for n, v in one.variables().items()})
    if not count:
        return None
    names = set.intersection(*({*v} for v in flat))
    joined = {n: np.concatenate([v[n] for v in flat]) for n in flat[0] if n in names}
    numbers = np.concatenate(used)
    once = np.unique(np.stack([numbers, *joined.values()]), axis=1)
    rule = find_rule(once[0], dict(zip(joined, once[1:], strict=True)), DECLARED)
    if rule is None or not all(_follows(run, one, rule) for one in seen):
        return None
    return rule, first, count


def _counted_on(run: Run, seen: Sequence[SeenRows]) -> Sequence[SeenRows]:
    """Return calls with the counts of an instance that may have been called before the first."""
    found = _decoded(run, seen[0]) if seen and seen[0].before is not None else None
    if found is None or not found.size:
        return seen
    more = max(int(found.flat[0] - np.ravel(seen[0].positions)[0]), 0)
    return [replace(one, before=tuple(n + more for n in one.before or ())) for one in seen]


def _within(encoding: Any, positions: np.ndarray) -> np.ndarray:
    """Return which positions the table has."""
    low = -int(getattr(encoding, "offset", 0)) if getattr(encoding, "integers", False) else -_REACH
    return np.asarray((positions >= min(low, 0)) & (positions < longest(encoding)))


def _rows_of(run: Run, one: SeenRows, positions: np.ndarray) -> Truth:
    truth, at = rows_of(run, run.encoding, positions), one.columns
    if at is None:
        return truth
    parts = (truth.value, truth.terms, truth.angle, truth.amplitude)
    return Truth(*(np.broadcast_to(p, truth.value.shape)[..., at] for p in parts))


def _truth(run: Run, one: SeenRows, positions: np.ndarray) -> Truth:
    t = _rows_of(run, one, positions)
    size = np.where(one.size > 0, one.size + np.abs(t.value), 0.0)  # of a sum, which is rounded
    return Truth(t.value, t.terms + size, t.angle, t.amplitude)


def _wrong_rows(run: Run, one: SeenRows) -> int:
    truth = _truth(run, one, np.broadcast_to(one.positions, one.rows.shape[:-1]))
    return int((run.scores(one.rows, truth) > run.budget).any(axis=-1).sum())


def _decoded(run: Run, one: SeenRows) -> np.ndarray | None:
    """Return the position of every row, or None if some row is of no position."""
    declared = np.array(np.broadcast_to(one.positions, one.rows.shape[:-1]))
    truth = _truth(run, one, declared)
    wrong = np.asarray((run.scores(one.rows, truth) > run.budget).any(axis=-1))
    if not wrong.any():
        return declared
    if not np.isfinite(one.rows).all() or wrong.sum() > _MOST:
        return None
    last = longest(run.encoding)
    top = 2 * int(np.abs(declared).max(initial=0)) + 64 + max(one.before or (0,))
    top = last if last <= _WHOLE else min(max(top, 256), _REACH)
    counted = [np.ravel(declared - start) for start in _starts(declared)]
    at = np.r_[:top, -8:0, *counted]  # of two that are equal, the first one counts
    at = at[_within(run.encoding, at)]
    table = _rows_of(run, one, at).value
    some = np.unique(np.linspace(0, table.shape[1] - 1, _COLUMNS).astype(int))
    rows = one.rows[wrong]
    away = np.zeros((rows.shape[0], at.size))
    for column in some:
        away = np.maximum(away, np.abs(rows[:, [column]] - table[None, :, column]))
    used = declared.copy()
    used[wrong] = at[np.argmin(away, axis=1)]
    return used if run.fits(one.rows, _truth(run, one, used)) else None


def _follows(run: Run, one: SeenRows, rule: Rule) -> bool:
    positions = np.broadcast_to(rule.of(one.variables()), one.rows.shape[:-1])
    if not _within(run.encoding, positions).all():
        return False
    return run.fits(one.rows, _truth(run, one, positions))
