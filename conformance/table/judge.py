"""Judge tables: rotary cos and sin, sinusoids, and learned tables."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from posenc_ref import Learned, Rotary, Sinusoidal
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, ONE_HOT, REPORTED, WINDOWS, error_window
from posenc_ref.conformance.harness.reach import TableAccess
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.oracle.apply import cos_sin_truth, identical
from posenc_ref.conformance.phases import fitted_parameters as fitted
from posenc_ref.conformance.phases.accuracy_by_length import measure_accuracy
from posenc_ref.conformance.phases.declaration import Declaration, declare
from posenc_ref.conformance.phases.diagnose import diagnose_phases
from posenc_ref.conformance.phases.measure import Tables, unaliased, unwrap

from . import diagnose as diagnose_table
from . import diagnose_rows, judge_features
from .judge_features import read_rows

_LENGTHS = (5, 1, 64)


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
        return np.stack([cos, sin], axis=1)

    def judge_at(check: str, case: str, positions: np.ndarray, rows: np.ndarray) -> None:
        for name, got, truth in zip(
            ("cos", "sin"),
            (rows[:, 0], rows[:, 1]),
            cos_sin_truth(encoding, positions),
            strict=True,
        ):
            _judge(run, check, f"{name}, {case}", got, truth)

    access = TableAccess(run, read=read)
    first = _required(run, access, judge_at)
    if first is None:
        return

    def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = access.rows(positions)
        return rows[:, 0], rows[:, 1]

    _table_values(run, access, judge_at)
    cos, sin = tables(access.within(ONE_HOT))
    m = encoding.attention_factor()
    size = np.full(cos.shape, m * m)
    run.judge("properties", "cos^2 + sin^2 = m^2", cos**2 + sin**2, Truth(size, 2 * size, 0 * size))
    _state(run, access, first, lambda p: _stacked(*cos_sin_truth(encoding, p)))
    declared = declare(encoding.replace(sign=1) if encoding.sign != 1 else encoding)
    measure_accuracy(run, access, tables, declared)
    if not run.failures and fitted.is_coarse(run):
        fitted.judge_fitted(run, tables, unwrap(tables, run.coarse), declared)
    if not run.failures or run.report.findings:
        return
    swapped = np.abs(tables(np.arange(1))[0]).max() < 0.5 < np.abs(tables(np.arange(1))[1]).min()
    if swapped:
        run.add("phase-order", "(sin, cos) comes back instead of (cos, sin)", "at position 0")
        return
    _diagnose(run, tables, declared)


def _stacked(cos: Truth, sin: Truth) -> Truth:
    """Return the references of cos and sin as rows (S, 2, pairs)."""
    shape = cos.value.shape
    parts = [
        np.stack([np.broadcast_to(getattr(t, name), shape) for t in (cos, sin)], axis=1)
        for name in ("value", "terms", "angle", "amplitude")
    ]
    return Truth(*parts)


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
    fits = {name for name, (one, two) in arrangements.items() if np.array_equal(one, two)}
    run.count("arrangement")
    if fits and declared not in fits:
        run.add(
            "layout",
            f"the table repeats its columns for {fits.pop()} pairs, declared {declared}",
            "columns that are equal at every position",
            by="arrangement",
        )
        return arrangements["interleaved" if declared == "half" else "half"][0]
    if not fits:
        run.add(
            "mixed-layout",
            "the two columns of a pair differ in both arrangements",
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

    def judge_at(check: str, case: str, positions: np.ndarray, rows: np.ndarray) -> None:
        _judge(run, check, case, rows, encoding.truth(positions))

    access = TableAccess(run, read=partial(read_rows, run))
    first = _required(run, access, judge_at)
    if first is None:
        return
    _table_values(run, access, judge_at)
    diagnose_table.properties(run, access, encoding)
    _state(run, access, first, lambda p: encoding.truth(p))
    declared = diagnose_table.declare(encoding)
    tables = diagnose_table.tables_of(access, encoding.columns())
    measure_accuracy(run, access, tables, declared)
    if not run.failures and fitted.is_coarse(run) and declared.frequencies.max() < np.pi:
        fitted.judge_fitted(run, tables, unwrap(tables, run.coarse), declared)
    nonfinite = any(f.nonfinite for f in run.failures)
    if run.failures and not run.report.findings and not nonfinite:
        if diagnose_rows.whole_rows(run, access, encoding):
            return
        columns = diagnose_table.arrangement(run, access, encoding)
        if columns is not None:
            tables = diagnose_table.tables_of(access, columns)
            _diagnose(run, tables, declared)


def _judge_lookup(run: Run) -> None:
    """Judge a learned table; its rows must be bit-equal."""
    encoding = run.encoding
    rows = encoding.rows - max(encoding.offset, 0)
    run.report.required = ("required inputs", "state")

    def judge_at(check: str, case: str, positions: np.ndarray, got: np.ndarray) -> None:
        rows = run.driver.rounded(np.asarray(encoding.table(positions), dtype=np.float64))
        _judge(run, check, case, got, identical(rows))

    access = TableAccess(run, read=partial(read_rows, run))
    first = _required(run, access, judge_at, min(5, rows))
    if first is None:
        return
    every = np.arange(rows)
    judge_at("values", f"positions 0..{rows - 1}", every, access.rows(every))
    _state(run, access, first)
    if run.failures:
        diagnose_table.lookup_rows(run, access, encoding)


def _required(
    run: Run, access: TableAccess, judge_at: Any, length: int | None = None
) -> np.ndarray | None:
    """Judge contiguous positions from 0; return the first result, or None if a call fails."""
    first, refused = None, ""
    for n in _LENGTHS if length is None else (length,):
        positions = np.arange(n)
        try:
            rows = access.read(run.driver.call(positions), n)
        except Refused as error:
            if n > _LENGTHS[0]:
                refused = str(error)  # perhaps a short table: access.reach() finds its end
                break
            run.add("raises", f"positions 0..{n - 1} raise", str(error))
            return None
        except Malformed as error:
            run.add("shape", str(error), f"positions 0..{n - 1}")
            return None
        if not np.isfinite(rows).all():
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(rows))[0])
            run.add("nonfinite", f"{rows[at]} at index {at}", f"positions 0..{n - 1}")
            return None
        if not run.floats_only():
            return None
        access.saw(positions)
        judge_at("required inputs", f"positions 0..{n - 1}", positions, rows)
        first = rows if first is None else first
    access.learn()
    if refused and access.reach(n - 1) == n - 1:
        run.add("raises", f"positions 0..{n - 1} raise", refused)
        return None
    return first


def _judge(run: Run, check: str, case: str, got: np.ndarray, truth: Truth) -> None:
    """Judge one case; failures of the check "note" become a note."""
    if check == "note":
        run.note(case, got, truth)
    else:
        run.judge(check, case, got, truth)


def _table_values(run: Run, access: TableAccess, judge_at: Any) -> None:
    small = access.within(ONE_HOT[:3])
    judge_at("values", "small positions", small, access.rows(small))
    highest = access.reach(REPORTED[-1] - 1)
    for n in (130, 257, 2050):  # more rows than one block of a kernel holds
        if n <= highest + 1:
            rows = access.read(run.driver.call(np.arange(n)), n)
            judge_at("values", f"positions 0..{n - 1}", np.arange(n), rows)
    groups = {"generic positions": GENERIC}
    groups |= {f"end of a context of {n}": error_window(n) for n in REPORTED}
    groups |= {f"window at {start}": np.arange(start, start + 9) for start in WINDOWS}
    groups["the last positions"] = np.arange(max(highest - 8, 0), highest + 1)
    for case, positions in groups.items():
        positions = positions[positions <= highest]
        if positions.size:
            judge_at("values", case, positions, access.rows(positions))
    optional = {
        "negative positions": np.array([-1, -7, -64, -3]),
        "fractional positions": np.array([0.5, 1.25, 7.75, 33.5], np.float32),
        "repeated, unsorted positions": np.array([7, 7, 3, 29, 3, 0, 0, 21]),
        "no positions": np.arange(0),
    }
    for case, positions in optional.items():
        try:
            rows = access.read(run.driver.call(positions), positions.size)
        except Refused as error:
            run.limit(f"{case}: refused ({error})")
        except Malformed as error:
            run.add("shape", str(error), case)
        else:
            check = "note" if case == "negative positions" else "optional inputs"
            judge_at(check, case, positions.astype(np.float64), rows)


def _state(run: Run, access: TableAccess, first: np.ndarray, truth_of: Any = None) -> None:
    """Judge a repeated call, calls of equal length at other positions, and a kept result."""
    at = np.arange(first.shape[0])
    call = run.driver.call
    state.replay(run, lambda: access.read(call(at), at.size), first, f"positions 0..{at[-1]}")
    state.kept_result(
        run, lambda: call(at), lambda: call(at + 3 if access.mode == "any" else at[:1])
    )
    if truth_of is None or access.mode != "any":
        return

    def right(rows: np.ndarray, positions: np.ndarray) -> bool:
        return bool((run.scores(rows, truth_of(positions)) <= run.budget).all())

    state.same_length(run, lambda p: access.read(call(p), p.size), right)


def _diagnose(run: Run, tables: Tables, declared: Declaration) -> None:
    """Diagnose frequencies, amplitude and origin, precision, positions, then optional inputs."""
    phases = unaliased(tables, run.coarse)
    diagnose_phases(run, tables, phases, declared)
    if not run.report.findings:
        optional = [f for f in run.failures if f.check == "optional inputs"]
        if optional and len(optional) == len(run.failures):
            run.add(
                "position-range",
                f"{optional[0].case.removeprefix('cos, ').removeprefix('sin, ')} are accepted and "
                "answered wrongly",
                f"{optional[0].case}: {optional[0].place}",
            )
