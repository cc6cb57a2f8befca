"""Make further calls that tell rules apart which explain the calls so far equally well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .record import Call, Record
from .search import Rule

#: The most further calls.
MOST = 4
#: The most tokens of a further call, over all rows and heads.
_TOKENS = 2**14
#: The most levels of each factor that further calls have.
_LEVELS = 8


@dataclass(frozen=True)
class Wanted:
    """A call to make: ``sizes`` (B, H, S), the first position, and how x lies in memory."""

    sizes: tuple[int, int, int]
    start: int = 0
    own_rows: bool = False  #: whether each row has positions of its own
    memory: str = "contiguous"

    @property
    def positions(self) -> np.ndarray:
        """Return the positions, (S,) or (B, S)."""
        at = self.start + np.arange(self.sizes[2])
        return at + 3 * np.arange(self.sizes[0])[:, None] if self.own_rows else at


#: Makes a call and returns its record, or None if the function refuses it.
Ask = Callable[[Wanted], Record | None]


def refuted(
    records: list[Record],
    rules: list[Rule],
    ask: Ask,
    again: Callable[[Sequence[Record]], list[Rule]],
) -> tuple[list[Record], int]:
    """Make calls on which the best rule and others differ; return all records and their number.

    ``again`` returns the rules that explain some records.
    """
    asked = 0
    tried: set[Wanted] = set()
    while len(rules) > 1 and asked < MOST:
        wanted = _telling(records, rules, tried)
        if wanted is None:
            break
        tried.add(wanted)
        record = ask(wanted)
        asked += 1
        if record is None:
            continue
        records = [*records, record]
        rules = again(records)
    return records, asked


def _telling(records: Sequence[Record], rules: Sequence[Rule], tried: set[Wanted]) -> Wanted | None:
    """Return the call on which the best rule differs from most others, if there is one."""
    best, most = None, 0.0
    axes = next(r.axes for r in records if r.failed)
    last = max((r.call.number for r in records if r.call), default=0)
    for wanted in _pool(records):
        if wanted in tried:
            continue
        call = Call(last + 1, wanted.memory, sizes=wanted.sizes, positions=wanted.positions)
        blank = Record("", axes, np.zeros(wanted.sizes, bool), call=call, positions=call.positions)
        first, *others = (rule.predicts(blank) for rule in rules)
        weight = sum(
            2.0 ** (rules[0].cost - rule.cost)
            for rule, found in zip(rules[1:], others, strict=True)
            if not np.array_equal(first, found)
        )
        if weight > most + 1e-3:
            best, most = wanted, weight
    return best


def _pool(records: Sequence[Record]) -> Iterator[Wanted]:
    """Yield calls that differ in one or two facts from a wrong call, and from a right one."""
    known = [r for r in records if r.call and r.whole and len(r.axes) == 3]
    wrong = sorted((r for r in known if r.failed), key=lambda r: r.wrong.size)
    right = sorted((r for r in known if not r.failed), key=lambda r: r.wrong.size)
    levels: list[list[int]] = [[], [], []]
    for record in wrong + right:
        for level, n in zip(levels, record.wrong.shape, strict=True):
            if n and n not in level and len(level) < _LEVELS:
                level.append(n)
    near = [{m for n in level[:3] for m in (n + 1, n // 2) if m} for level in levels]
    levels = [sorted({*level, *more}) for level, more in zip(levels, near, strict=True)]
    seen = set()
    for record in [*wrong[:1], *wrong[-1:], *right[:1], *right[-1:]]:
        base = _as_wanted(record)
        for wanted in (base, *_varied(base, levels)):
            if wanted not in seen and np.prod(wanted.sizes) <= _TOKENS:
                seen.add(wanted)
                yield wanted


def _as_wanted(record: Record) -> Wanted:
    call = record.call
    assert call is not None
    at = record.positions
    rows = at is not None and at.ndim == 2
    start = 0 if at is None or not at.size else int(np.floor(at.min()))
    b, h, s = record.wrong.shape
    return Wanted((b, h, s), max(start, 0), rows, call.memory)


def _varied(base: Wanted, levels: Sequence[Sequence[int]]) -> Iterator[Wanted]:
    for axis, level in enumerate(levels):
        for n in level:
            sizes = tuple(n if d == axis else m for d, m in enumerate(base.sizes))
            yield replace(base, sizes=sizes)  # type: ignore[arg-type]
    for start in (0, 7, base.start + 1, 4096):
        yield replace(base, start=start)
    for rows in (True, False):
        yield replace(base, own_rows=rows)
    yield replace(base, memory="contiguous")
    for n in levels[2][:4]:
        for other in levels[1][:3]:
            yield replace(base, sizes=(1, other, n))
            yield replace(base, sizes=(2, other, n), start=7)
