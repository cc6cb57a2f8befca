"""Diagnose state: calls that are right on a fresh instance, and tables that grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import failed, likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.scored import scores
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, WINDOWS
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import apply_truth

from .judge_length import lengths_of, positions_of

#: Numbers of rows that a table may begin with.
FIRST = (0, 1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
#: How a table grows that is too short: its new length, from the old one and the one needed. It is
#: enlarged again while it is still too short.
GROWTH: dict[str, Callable[[int, int], int]] = {
    "": lambda old, needed: needed,
    ", which doubles its length": lambda old, needed: max(2 * old, needed),
    ", whose length is a power of 2": lambda old, needed: 1 << (needed - 1).bit_length(),
    ", which is doubled again and again until it suffices": lambda old, needed: max(2 * old, 1),
    ", which grows to the first sufficient double of its length": lambda old, needed: (
        max(old, 1) << (-(-needed // max(old, 1)) - 1).bit_length()
    ),
}
#: Returns the positions that a table has at some rows, given the rows that calls needed so far.
Rows = Callable[[Sequence[int], np.ndarray], np.ndarray]
NUMBERED = (
    "Number the rows that are added to a table from the rows that it has: arange(old, new), or "
    "build the whole table anew."
)


def diagnose(run: Run, access: Access) -> bool:
    """Report a call that is right only on a fresh instance; return whether there is one.

    Without a factory of fresh instances, nothing is reported.
    """
    if run.driver.factory is None or access.mode == "prefix":
        return False
    highest = access.reach(int(GENERIC[-1]))
    calls = [GENERIC[highest >= GENERIC]]
    calls += [np.arange(n, n + 9) for n in WINDOWS if n + 8 <= highest]  # windows of equal length
    if run.encoding.depends_on_length:
        calls += [positions_of(n) for n in lengths_of(run.encoding) if n - 1 <= highest]
    for positions in calls:
        if not positions.size or _right(run, access, positions):
            continue
        fresh = replace(run, driver=run.driver.fresh())
        if _right(fresh, replace(access, run=fresh), positions):
            run.add(
                "state",
                "the same call is right on a fresh instance, and wrong after other calls",
                f"{positions.size} tokens at positions up to {positions.max()}, first on a fresh "
                "instance, then after the others",
                by=None,
            )
            return True
    return False


def _right(run: Run, access: Access, positions: np.ndarray) -> bool:
    x = run.random((1, 2, positions.size, access.dim), 21)
    truth = apply_truth(run.encoding, x, positions, access.lengths(positions))
    try:
        y = access.rows(x, positions)
    except (Refused, Malformed):
        return False
    return run.fits(y, truth)


class _Call(Protocol):
    @property
    def positions(self) -> np.ndarray: ...

    @property
    def needed(self) -> tuple[int, ...]:
        """Return the rows that the calls so far needed, each more than all before."""

    def rotated_to(self, positions: np.ndarray) -> Truth: ...


@dataclass(frozen=True)
class TableCall:
    """A call that returns or adds the rows of a table, with the rows that the calls so far needed.

    ``rotated_to`` returns the result for the rows of other positions.
    """

    positions: np.ndarray
    needed: tuple[int, ...]
    rotated_to: Callable[[np.ndarray], Truth]


def grown_rows(begun: int = 0) -> Iterator[tuple[str, int, Rows]]:
    """Yield what a kept table that grows can have been, if added rows are numbered from 0 again.

    That is, in words, its first or least number of rows, and the position of each row. ``begun``
    is another number of rows that it may begin with.
    """
    for words, growth in GROWTH.items():
        for first in dict.fromkeys((*FIRST, begun)):
            for begins, least in (("begins with", 0), ("has at least", first))[: 1 + bool(first)]:
                size = f" that {begins} {first} rows" * bool(first)
                text = (
                    f"rows that are added to a kept table{size}{words + ',' * bool(words)} are "
                    "numbered from 0 again, not from its length"
                )
                yield text, first, partial(_numbered, 0 if least else first, least, growth)


def grown_from_zero(
    calls: Sequence[_Call], wrong: Sequence[_Call] = (), begun: int = 0
) -> Iterator[Mistake]:
    """Yield tables whose added rows are numbered from 0 again, not from their length.

    Those that take all positions of ``calls`` modulo one number, or less 1, are left out: that
    needs no table. So are those that leave a ``wrong`` call as declared. ``begun`` is the first
    wrong position.
    """
    for text, first, rows in grown_rows(begun):
        if any(np.array_equal(rows(one.needed, one.positions), one.positions) for one in wrong):
            continue
        used = [(rows(one.needed, one.positions), one.positions) for one in calls]
        if first and all(np.array_equal(row, p % first) for row, p in used):
            continue
        if all(np.array_equal(row, np.maximum(p - 1, 0)) for row, p in used):
            continue
        text += ": results depend on earlier calls"
        yield Mistake("state", text, partial(_predicted, rows), NUMBERED)


def name_grown(
    run: Run,
    calls: Sequence[JudgedCall],
    further: Callable[[], Iterable[JudgedCall]] | None = None,
) -> bool:
    """Report a kept table whose added rows are numbered from 0 again; return whether it is one."""
    wrong = failed(run, calls)
    if not wrong:
        return False
    begun = min(_first_wrong(run, one) for one in wrong)
    known = grown_from_zero([c.facts for c in calls], [c.facts for c in wrong], begun)
    return match(run, calls, likely(run, calls, known), parts=False, whole=True, further=further)


def _first_wrong(run: Run, one: JudgedCall) -> int:
    """Return the smallest position of a wrong token."""
    off = (scores(run, one, one.truth) > run.budget).any(axis=-1)
    p = one.facts.positions
    p = p[:, None] if 1 < p.ndim < off.ndim else p  # of all heads
    return int(np.broadcast_to(p, off.shape)[off].min())


def _predicted(rows: Rows, call: _Call) -> Truth:
    used = rows(call.needed, call.positions)
    return call.rotated_to(used if used.ndim == 1 else used[:, None])


def _numbered(
    first: int,
    least: int,
    growth: Callable[[int, int], int],
    needed: Sequence[int],
    rows: np.ndarray,
) -> np.ndarray:
    starts = bounds(needed, first, growth, least)
    return np.asarray(rows - starts[np.searchsorted(starts, rows, side="right") - 1])


def bounds(
    needed: Sequence[int], first: int, growth: Callable[[int, int], int], least: int = 0
) -> np.ndarray:
    """Return the first row of every part of a table that was enlarged for ``needed`` rows.

    It begins with ``first`` rows, and is never enlarged to fewer than ``least``.
    """
    starts = [0, first]
    for rows in needed:
        while rows > starts[-1]:
            starts.append(max(growth(starts[-1], rows), least))
    return np.array(starts)
