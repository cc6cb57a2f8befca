"""Judge tables: rotary cos and sin, sinusoids, and learned tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import Learned, Rotary, Sinusoidal
from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.plural import ranges
from posenc_ref.conformance.harness.probes import (
    GENERIC,
    ONE_HOT,
    REPORTED,
    SELDOM,
    WINDOWS,
    error_window,
)
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import cos_sin_truth, identical, joined
from posenc_ref.conformance.phases import fitted_parameters as fitted
from posenc_ref.conformance.phases.accuracy_by_length import measure_accuracy
from posenc_ref.conformance.phases.declaration import Declaration, declare
from posenc_ref.conformance.phases.diagnose import diagnose_phases
from posenc_ref.conformance.phases.half_precision import held
from posenc_ref.conformance.phases.measure import Tables, unaliased, unwrap
from posenc_ref.conformance.phases.schedule_mistakes import one_factor
from posenc_ref.conformance.rotary.diagnose_state import TableCall, name_grown
from posenc_ref.conformance.rotary.judge_frequencies import stand_still

from . import diagnose as diagnose_table
from . import diagnose_lookup, diagnose_rows, judge_features
from .added_angles import wrong_addition
from .judge_features import read_rows
from .kinds_of_positions import name_kind
from .mistakes import Rows
from .row_order import CALLS, name_order
from .rows_used import SeenRows, name_part, name_rows, name_zeros
from .single_columns import changed_step, dead_columns

_LENGTHS = (5, 1, 64)
#: Numbers of rows that leave a remainder in every block.
_TAILS = (7, 45, 127, 200)
#: The largest share of wrong columns that may have rows of their own.
_FEWER = 0.75
#: Positions of rows that could refute a rule of 0 .. 519: their order is not that of the numbers.
_MIXED = np.array([4097, 515, 2049, 700, 63, 1023, 8, 520, 4095, 3000, 511, 1024, 33, 2048, 129])


def judge_cos_sin(run: Run) -> None:
    """Judge ``fn(positions) -> (cos, sin)``, each (S, d/2) or (S, d)."""
    encoding = run.encoding
    assert isinstance(encoding, Rotary)
    pairs = encoding.frequencies().size
    run.report.required = ("required inputs", "values", "properties", "state")

    def read(result: Any, rows: int) -> np.ndarray:
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise Malformed(f"expected (cos, sin), got {type(result).__name__}")
        cos, sin = (_collapse(run, run.driver.array(t), rows, pairs) for t in result)
        return np.concatenate([cos, sin], axis=1)

    def truth(positions: np.ndarray) -> Truth:
        return joined(cos_sin_truth(encoding, positions), axis=1)

    access = TableAccess(run, read=read)
    first = _required(run, access, truth)
    if first is None:
        return
    _table_values(run, access, truth)
    columns = np.flatnonzero(encoding.frequencies())  # the others are constant
    tables = diagnose_table.tables_of(access, (columns + pairs, columns))
    at = access.within(ONE_HOT)
    cos, sin = tables(at[at < one_factor(encoding)])
    m = encoding.attention_factor()
    size = np.full(cos.shape, m * m)
    norm = Truth(size, 2 * size, 0 * size)
    run.judge("properties", "cos^2 + sin^2 = attention_factor^2", cos**2 + sin**2, norm)
    _state(run, access, first, truth)
    declared = declare(encoding.replace(sign=1) if encoding.sign != 1 else encoding)
    with access.one_call():
        measure_accuracy(run, access, tables, declared)
    if not run.failures and fitted.is_coarse(run):
        fitted.judge_fitted(run, tables, unwrap(tables, run.coarse), declared)
    if not run.failures or run.report.findings or not columns.size:
        return
    still = np.flatnonzero(encoding.frequencies() == 0)
    if still.size:
        sines = diagnose_table.tables_of(access, (still + pairs, still))(np.arange(1, 3))[1]
        if np.abs(sines).max() > run.budget * ROUNDOFF[run.coarse]:
            k = int(still[np.argmax(np.abs(sines).max(axis=0))])
            text = f"pair {k} turns, but its declared frequency is 0"
            where = f"sin at position 1: {sines[0, k - still[0]]:.6g}"
            run.add("proportional", text, where, remedy=stand_still(encoding))
            return
    cos, sin = tables(np.arange(2))
    turns = cos[1, 0] * declared.exact(np.arange(2))[1][1, 0] > 0  # not a quarter turn late
    if np.abs(cos[0]).max() < 0.5 < np.abs(sin[0]).min() and turns:
        run.add("phase-order", "(sin, cos) is returned instead of (cos, sin)", "at position 0")
        _diagnose(run, lambda at: tables(at)[::-1], declared)
        return
    if name_grown(run, _calls_again(run, access, truth)) or name_order(run, access, truth):
        return
    _diagnose(run, tables, declared)


def _collapse(run: Run, table: np.ndarray, rows: int, pairs: int) -> np.ndarray:
    """Return (S, d/2) columns of a table; a table (S, d) must contain each column twice."""
    if table.shape == (rows, pairs):
        return table
    if table.shape != (rows, 2 * pairs):
        raise Malformed(f"expected shape {(rows, pairs)} or {(rows, 2 * pairs)}, got {table.shape}")
    arrangements = {
        "half": (table[:, :pairs], table[:, pairs:]),
        "interleaved": (table[:, ::2], table[:, 1::2]),
    }
    declared = getattr(run.encoding, "layout", "half")
    fits = {
        name
        for name, (one, two) in arrangements.items()
        if np.array_equal(one, two, equal_nan=True)
    }
    run.count("arrangement")
    if fits and declared not in fits:
        run.add(
            "layout",
            f"the two copies of each column are in the layout {fits.pop()}, declared {declared}",
            "columns that are equal at every position",
            by="arrangement",
        )
        return arrangements["interleaved" if declared == "half" else "half"][0]
    opposite = {"half": f"k and k + {pairs}", "interleaved": "2k and 2k + 1"}
    columns = [
        opposite[name]
        for name, (one, two) in arrangements.items()
        if np.array_equal(one, -two, equal_nan=True)
    ]
    if columns and not fits:
        run.add(
            "sign",
            f"the two copies of each column, {columns[0]}, have opposite signs",
            "columns compared at every position",
            remedy="Return each sine twice with the same sign: the minus of -sin belongs to the "
            "rotation (rotate_half), not to the table.",
            by="arrangement",
        )
    elif not fits:
        run.add(
            "mixed-layout",
            "the two copies of a column differ in both layouts, half and interleaved",
            "columns compared at every position",
            by="arrangement",
        )
    return arrangements[declared][0]


def judge_table(run: Run) -> None:
    """Judge ``fn(positions) -> (S, dim)`` against the declared table."""
    encoding = run.encoding
    if not isinstance(encoding, Sinusoidal):
        (_judge_lookup if isinstance(encoding, Learned) else judge_features.judge_table)(run)
        return
    run.report.required = ("required inputs", "values", "properties", "state")
    access = TableAccess(run, read=partial(read_rows, run))
    first = _required(run, access, encoding.truth)
    if first is None:
        return
    _table_values(run, access, encoding.truth)
    diagnose_table.properties(run, access, encoding)
    _state(run, access, first, encoding.truth)
    if not encoding.scale:  # rows of zeros show no phases
        if run.failures and not run.report.findings:
            run.add(
                "amplitude", "rows are not 0, which the declared scale is", run.failures[0].place
            )
        return
    declared = diagnose_table.declare(encoding)
    tables = diagnose_table.tables_of(access, encoding.columns())
    with access.one_call():
        measure_accuracy(run, access, tables, declared)
    if not run.failures and fitted.is_coarse(run) and declared.frequencies.max() < np.pi:
        fitted.judge_fitted(run, tables, unwrap(tables, run.coarse), declared)
    nonfinite = any(f.nonfinite for f in run.failures)
    if nonfinite and not run.report.findings:
        held(run, tables, declared)  # positions in float16 overflow
    if run.failures and not run.report.findings and not nonfinite:
        if diagnose_rows.whole_rows(run, access, encoding):
            return
        calls = _calls_again(run, access, encoding.truth)
        if name_grown(run, calls) or name_zeros(run, _seen(calls)):
            return
        if name_order(run, access, encoding.truth) or name_kind(run, access, encoding):
            return
        if _rows_by_rule(run, calls):
            return
        if diagnose_rows.accumulated(run, access, encoding):
            return
        if _rows_of_columns(run, access, calls):
            return
        if wrong_addition(run, access, encoding):
            return
        columns = diagnose_table.arrangement(run, access, encoding)
        if columns is not None:
            tables = diagnose_table.tables_of(access, columns)
            _diagnose(run, tables, declared)


def _calls_again(run: Run, access: TableAccess, truth: Rows) -> list[JudgedCall]:
    """Make further calls, the last ones of which have far positions; a rule has to predict them."""
    calls = []
    tried = map(access.within, (*map(np.arange, _TAILS), np.arange(520), _MIXED, GENERIC))
    for at in (one for one in tried if one.size):
        rows, case = access.rows(at), f"positions {at.min()}..{at.max()}"
        facts = TableCall(at, tuple(run.driver.needed), truth)
        calls.append(JudgedCall(case, rows, truth(at), facts))
    return calls


def _seen(calls: list[JudgedCall]) -> list[SeenRows]:
    return [SeenRows(one.case, one.actual, np.zeros(1), one.facts.positions) for one in calls]


def _rows_of_columns(run: Run, access: TableAccess, calls: list[JudgedCall]) -> bool:
    """Report the rule of the rows of some columns, if many others are right."""
    seen = _seen(calls[:-1])
    off = [run.scores(one.rows, run.encoding.truth(one.positions)) > run.budget for one in seen]
    columns = np.flatnonzero(np.any([part.any(axis=0) for part in off], axis=0))
    if not 0 < columns.size <= _FEWER * run.encoding.dim:
        return False
    odd = run.encoding.dim % 2 == 1  # its column of zeros may be elsewhere
    if (odd and changed_step(run, access, run.encoding)) or dead_columns(run, access, run.encoding):
        return True
    some = [replace(one, rows=one.rows[:, columns], columns=columns) for one in seen]
    steps = set(np.diff(columns).tolist())
    words = f"columns {ranges(columns.tolist())}"
    if steps == {2} and columns.size == run.encoding.dim // 2:
        words = f"{'odd' if columns[0] else 'even'} columns"
    return name_rows(run, some, f"in {words}, ")


def _rows_by_rule(run: Run, calls: list[JudgedCall]) -> bool:
    """Report a rule with a condition or a quotient; others are measured from the angles."""
    seen = _seen(calls)
    # Rounding may add up, and of large positions the rows are not told apart.
    parts = [(seen, "")] + [(seen[:-n], f"at {seen[-n - 1].case}, ") for n in (1, 2)]
    return any(name_part(run, some, only) for some, only in parts)


def _judge_lookup(run: Run) -> None:
    """Judge a learned table; its rows must be bit-equal."""
    encoding = run.encoding
    rows = encoding.rows - max(encoding.offset, 0)
    run.report.required = ("required inputs", "state")

    def truth(positions: np.ndarray) -> Truth:
        table = np.asarray(encoding.table(positions), dtype=np.float64)
        return identical(run.driver.copied(table))

    access = TableAccess(run, read=partial(read_rows, run))
    first = _required(run, access, truth, min(5, rows))
    if first is None:
        return
    every = np.arange(access.reach(rows - 1) + 1)
    run.judge("values", f"positions 0..{every[-1]}", access.rows(every), truth(every), at=every)
    alone = diagnose_lookup.single_positions(every.size) if access.mode == "any" else []
    for at in (np.array([p]) for p in alone):
        row = access.read(run.driver.call(at), 1)
        run.judge("values", f"position {at[0]} alone", row, truth(at), at=at)
    far = every.size > state.HIGHEST
    _state(run, access, first, truth if far else None, every.size)
    if run.failures:
        diagnose_lookup.lookup_rows(run, access, encoding)
    if access.highest is not None and not run.report.codes:
        run.add(
            "raises",
            f"positions past {access.highest} raise an exception, although the declared table has "
            f"rows up to position {rows - 1}",
            access.refused,
            remedy="Return a row for every position of the declared table.",
        )


def _required(
    run: Run, access: TableAccess, truth: Rows, length: int | None = None
) -> np.ndarray | None:
    """Judge contiguous positions from 0; return the first result, or None if a call fails."""
    first, refused = None, ""
    for n in _LENGTHS if length is None else (length,):
        positions, case = np.arange(n), f"positions 0..{n - 1}"
        try:
            rows = access.read(run.driver.call(positions), n)
        except Refused as error:
            if n > _LENGTHS[0]:
                refused = str(error)  # perhaps a short table: access.reach() finds its end
                break
            run.add("raises", f"a call with {case} raises an exception", str(error))
            return None
        except Malformed as error:
            run.add(error.code, str(error), case)
            return None
        if not np.isfinite(rows).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(rows))[0])
            run.add("nonfinite", f"{rows[at]} at index {at}", case)
            return None
        if not run.floats_only():
            return None
        access.saw(positions)
        run.judge("required inputs", case, rows, truth(positions), at=positions)
        first = rows if first is None else first
    access.learn()
    if refused and access.reach(n - 1) == n - 1:
        run.add("raises", f"a call with {case} raises an exception", refused)
        return None
    return first


def _table_values(run: Run, access: TableAccess, truth: Rows) -> None:
    small = access.within(ONE_HOT[:3])
    run.judge("values", "small positions", access.rows(small), truth(small), at=small)
    highest = access.reach(REPORTED[-1] - 1)
    for n in (130, 257, 2050):  # more rows than one block of a kernel holds
        if n <= highest + 1:
            rows = access.read(run.driver.call(np.arange(n)), n)
            at = np.arange(n)
            run.judge("values", f"positions 0..{n - 1}", rows, truth(at), at=at)
    groups = {"generic positions": GENERIC}
    groups |= {f"end of a context of {n}": error_window(n) for n in REPORTED}
    groups |= {f"window at {start}": np.arange(start, start + 9) for start in WINDOWS}
    groups["the last positions"] = np.arange(max(highest - 8, 0), highest + 1)
    for case, positions in groups.items():
        positions = positions[positions <= highest]
        if positions.size:
            run.judge("values", case, access.rows(positions), truth(positions), at=positions)
    optional = {
        "negative positions": np.array([-1, -7, -64, -3]),
        "fractional positions": np.array([0.5, 1.25, 7.75, 33.5], np.float32),
        "unsorted positions": CALLS[0],
        "repeated, unsorted positions": CALLS[-1],
        "no positions": np.arange(0),
    }
    for case, positions in optional.items():
        try:
            rows = access.read(run.driver.call(positions), positions.size)
        except Refused as error:
            run.limit(f"{case}: refused ({error})")
        except Malformed as error:
            run.add(error.code, str(error), case)
        else:
            expected = truth(positions.astype(np.float64))
            if case in SELDOM:
                run.note(case, rows, expected)
            else:
                run.judge("optional inputs", case, rows, expected, at=positions)


def _state(
    run: Run,
    access: TableAccess,
    first: np.ndarray,
    truth: Rows | None = None,
    rows: float = np.inf,
) -> None:
    """Judge that no call changes the result of another call.

    Calls of equal length are judged against ``truth``, if it is given, at positions below ``rows``.
    """
    at = np.arange(first.shape[0])
    call = run.driver.call
    case, declared = f"positions 0..{at[-1]}", None if truth is None else truth(at).value
    state.replay(run, lambda: access.read(call(at), at.size), first, case, declared)
    state.kept_result(
        run, lambda: call(at), lambda: call(at + 3 if access.mode == "any" else at[:1])
    )
    if truth is not None and access.mode == "any":

        def right(got: np.ndarray, p: np.ndarray) -> bool:
            return bool((run.scores(got, truth(p)) <= run.budget).all())

        def evaluate(p: np.ndarray) -> np.ndarray:
            if p.max() >= rows:
                raise Refused(IndexError(f"the table has {rows} rows"))
            return access.read(call(p), p.size)

        for judge in (state.same_length, state.steps):
            judge(run, evaluate, right)


def _diagnose(run: Run, tables: Tables, declared: Declaration) -> None:
    """Diagnose the phases; if they are right, report e.g. wrong rows at fractional positions."""
    diagnose_phases(run, tables, unaliased(tables, run.coarse), declared)
    if not run.report.findings and {f.check for f in run.failures} == {"optional inputs"}:
        first = run.failures[0]
        run.add("position-range", f"{first.case} return wrong values", first.place)
