"""Report how the rows of a learned table are wrong: shifted, exchanged, or other values."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

import numpy as np

from posenc_ref import Learned
from posenc_ref.conformance.diagnosis.match import explains, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import plural, ranges
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.precision import rounded

from .column_order import report_order
from .formulas import changed_steps, resized_rows
from .remedies import row_of
from .resized import MISTAKEN, WAYS
from .rows_used import SeenRows, name_rows

#: A resized table is known by at least so many calls, to this part of its largest number.
_FEWEST, _NEAR = 3, 1e-5


def single_positions(rows: int) -> list[int]:
    """Return the positions that are looked up alone, as decoding does."""
    return sorted({0, rows // 3, rows - 1})


def lookup_rows(run: Run, access: TableAccess, encoding: Learned) -> None:
    """Report the rows that the function returns, or what their values are."""
    weight = run.driver.copied(np.asarray(encoding.weight, dtype=np.float64))
    offset = encoding.offset
    every = np.arange(access.reach(encoding.rows - max(offset, 0) - 1) + 1)
    got = access.rows(every)
    used = np.array([int(np.argmin(np.abs(weight - row).max(axis=1))) for row in got])
    other = not np.array_equal(got, weight[used])
    if other and _changed(run, encoding, got, every, changed_steps(run, every)):
        return
    restored = _restored(run, got, weight) if other else None
    if restored is not None:
        got = restored
        used = np.array([int(np.argmin(np.abs(weight - row).max(axis=1))) for row in got])
        if (used == every + offset).all():
            return
    own = (got == weight[offset:][: every.size]).all(axis=1)
    used[own] = (every + offset)[own]  # several rows of a table may be equal
    shift = used - every
    others = _other_calls(access, every) if restored is None else []

    def follow(by: int, least: int = 1) -> bool:
        some = (one for one in others if one.positions.size >= least)
        return all(np.array_equal(one.rows, weight[one.positions + by]) for one in some)

    right = own.all() and access.mode == "any" and follow(offset, 2)
    if right and _alone(run, access, weight, offset):
        return
    evidence = f"position 0 gets row {used[0]}, declared row {offset}"
    if (shift == shift[0]).all() and shift[0] != offset:
        if not follow(int(shift[0])):
            every_call = SeenRows("all positions", got, np.zeros(1), every, every.size)
            if name_rows(run, [every_call, *others]):
                return
        run.add(
            "position-origin",
            f"rows are shifted by {shift[0]}, declared {offset}",
            evidence,
            remedy=row_of(offset),
            values={"declared": offset, "measured": int(shift[0])},
        )
        return
    wrong = np.flatnonzero(used != every + offset)
    if wrong.size and _changed(run, encoding, got, every, resized_rows(encoding)):
        return
    if wrong.size:
        _moved(run, encoding, got, used, wrong, others)
        return
    p = int(np.argmax(np.abs(got - weight[used]).max(axis=1)))
    evidence = f"position {p}: {got[p, :3]} ..., row {used[p]} is {weight[used[p], :3]} ..."
    if np.array_equal(got, weight[used]):
        if name_rows(run, others) or _fitted(run, weight[max(offset, 0) :], others):
            return
        run.add(
            "wrong-row",
            f"a call with every position gets the right rows, other calls get others{run.where()}",
            f"{run.failures[0].case} first",
            remedy=f"{row_of(offset)} The row of a position does not depend on the other "
            "positions of a call, or on their number.",
        )
        return
    for half in ("float16", "bfloat16"):
        if np.array_equal(rounded(weight[used], half), got):
            text = f"the rows of the table are rounded to {half}"
            remedy = f"Keep and return the rows in {run.driver.dtype}, without a cast to {half}."
            run.add("table-precision", text, evidence, remedy=remedy, values={"measured": half})
            return
    run.add("inaccurate", f"the values are not those of the table's rows{run.where()}", evidence)


def _restored(run: Run, got: np.ndarray, weight: np.ndarray) -> np.ndarray | None:
    """Return rows of the table: the result with the other sign, or in the declared columns.

    The sign, or the order of the columns, is reported; which rows these are is another question.
    """

    def rows_of_table(rows: np.ndarray) -> bool:
        return all((weight == row).all(axis=1).any() for row in rows)

    if rows_of_table(-got):
        run.add("amplitude", "every row has the opposite sign", remedy="Return the rows as stored.")
        return -got
    inside = [[bool(np.isin(column, own).all()) for own in weight.T] for column in got.T]
    order = [row.index(True) if sum(row) == 1 else -1 for row in inside]
    back = got[:, np.argsort(order)]
    if sorted(order) != list(range(len(order))) or not rows_of_table(back):
        return None
    report_order(run, order, alone=False)
    return back


def _fitted(run: Run, table: np.ndarray, others: list[SeenRows]) -> bool:
    """Report a table that every call resizes to its own length; return whether it is one."""
    first = [one for one in others if np.array_equal(one.positions, np.arange(one.positions.size))]
    if len(first) < _FEWEST:
        return False
    near = _NEAR * np.abs(table).max()
    for way in (*WAYS, *MISTAKEN):
        if all(
            np.abs(way.matrix(len(table), one.positions.size) @ table - one.rows).max() <= near
            for one in first
        ):
            run.add(
                "wrong-row",
                f"every call resizes the table of {len(table)} rows to its own number of "
                f"positions: {way}",
                f"{plural(len(first), 'call', 'calls')} of fewer positions",
                remedy="Take the first rows of the table: the row of a position does not depend on "
                "the length of a call.",
            )
            return True
    return False


def _alone(run: Run, access: TableAccess, weight: np.ndarray, offset: int) -> bool:
    """Report the rows of calls with a single position, where other calls are right."""
    places = single_positions(len(weight) - max(offset, 0))
    rows = [access.read(run.driver.call(np.array([p])), 1) for p in places]
    used = [int(np.argmin(np.abs(weight - row).max(axis=1))) for row in rows]
    if any(not np.array_equal(row[0], weight[u]) for row, u in zip(rows, used, strict=True)):
        return False
    wrong = [(p, u) for p, u in zip(places, used, strict=True) if u != p + offset]
    if not wrong:
        return False
    shifts = {u - p for p, u in zip(places, used, strict=True)}
    p, row = wrong[-1]
    what = "other rows" if len(shifts) > 1 else f"rows shifted by {row - p}, declared {offset}"
    run.add(
        "decode-offset",
        f"a call with one position gets {what}; calls with more positions are right",
        f"position {p} alone gets row {row}, declared row {p + offset}",
        remedy=f"Look up a single position as the others are: {row_of(offset)}",
        by="values",
    )
    return True


def _changed(
    run: Run, encoding: Learned, got: np.ndarray, every: np.ndarray, known: Iterable[Mistake]
) -> bool:
    """Report the first known mistake that gives all rows; return whether one does."""
    calls = [JudgedCall("all positions", got, encoding.truth(every), every)]
    steps = (m for m in known if m.code != "table-precision" and explains(run, calls, m))
    return match(run, calls, list(islice(steps, 1)), parts=False)


def _moved(
    run: Run,
    encoding: Learned,
    got: np.ndarray,
    used: np.ndarray,
    wrong: np.ndarray,
    others: list[SeenRows],
) -> None:
    """Report positions that get other rows than declared; ``others`` could refute a rule."""
    offset, count = encoding.offset, used.size
    last = count + offset - 1
    p = int(wrong[0])
    evidence = f"position {p} gets row {used[p]}, declared row {p + offset}"
    away = np.unique((used - np.arange(count) - offset) % encoding.rows)
    if away.size == 1:
        by = int(away[0]) - encoding.rows * (2 * int(away[0]) > encoding.rows)
        run.add(
            "position-origin",
            f"rows are taken {by:+d} rows from the declared ones, and wrap round at the end of the "
            f"table's {encoding.rows} rows",
            evidence,
            remedy=row_of(offset),
        )
    elif wrong.size == 1 and p == count - 1 and used[p] == last - 1:
        run.add(
            "position-range",
            f"the last position, {p}, gets row {used[p]}, as the position before it: consistent "
            f"with row numbers that are clamped to at most {used[p]}",
            evidence,
            remedy=f"Do not clamp row numbers to {used[p]}: the last row of the table is {last}.",
        )
    elif not name_rows(
        run, [SeenRows("all positions", got, np.zeros(1), np.arange(count), count), *others]
    ):
        weight = np.asarray(encoding.weight, dtype=np.float64)
        none = np.flatnonzero((got != weight[used]).any(axis=1))
        if none.size:  # the nearest row may well be the declared one
            p, wrong = int(none[0]), np.flatnonzero((got != weight[offset:][:count]).any(axis=1))
            evidence = f"position {p} gets {got[p, :3]} ..., which is no row of the table"
        text = f"{wrong.size} of {count} positions get wrong rows{run.where()}"
        if none.size and not got[wrong].any():
            places = f"position{'s' * (wrong.size > 1)} {ranges(wrong.tolist())}"
            text = f"zeros are returned for {places}; all other rows are right"
        run.add(
            "wrong-row",
            text,
            evidence,
            remedy=f"{row_of(offset)} Here, {evidence}.",
        )


def _other_calls(access: TableAccess, every: np.ndarray) -> list[SeenRows]:
    """Return the rows of calls that do not have every position of the table."""
    n = every.size
    calls = [every[:size] for size in (1, 2, 5, 17, 64, n // 2) if size < n]
    if access.mode == "any":
        calls += [every[::-3], every[n // 3 :: 2], every[n // 2 : n // 2 + 1]]
    seen = []
    for at in map(np.ascontiguousarray, calls):
        with suppress(Refused, Malformed):
            if at.size:
                case = f"positions {at[0]}..{at[-1]}"
                seen.append(SeenRows(case, access.rows(at), np.zeros(1), at, n))
    return seen
