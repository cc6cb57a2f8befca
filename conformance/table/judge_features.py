"""The judge of tables over coordinates and several axes, of learned factors, of sums of tables.

A and B are those that the encoding gives (``Table.truth``).  A mistake is named by substituting it
into the declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posenc_ref import (
    AxialLearned,
    BoxSine,
    DETRSine,
    FourierFeatures,
    Hybrid,
    Learned,
    StandardizedSinusoidal,
    Table,
    Time2Vec,
)
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import fits, judge_call, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, ONE_HOT
from posenc_ref.conformance.harness.run import Run

from . import mistakes as suspects_tables
from .half_precision_mistakes import Rows, half_positions, half_rows

Inputs = Iterator[tuple[bool, str, np.ndarray]]
#: Calls of more positions may be refused.
_FIRST = 5


def longest(encoding: Table) -> int:
    """How many positions there are on one axis."""
    if isinstance(encoding, Learned):
        return encoding.rows - max(encoding.offset, 0)
    if isinstance(encoding, StandardizedSinusoidal):
        return encoding.length
    if isinstance(encoding, AxialLearned):
        return encoding.rows if encoding.flat else min(t.shape[0] for t in encoding.tables)
    if isinstance(encoding, Hybrid):
        return min(map(longest, encoding.parts))
    return 2**40


def rows_of(run: Run, encoding: Any, positions: np.ndarray) -> Truth:
    """The truth at ``positions``; looked up rows as the dtype holds them."""
    truth = encoding.truth(positions)
    looked_up = (truth.terms == 0) & (truth.angle == 0)
    if not looked_up.any():
        return truth  # type: ignore[no-any-return]
    value = np.where(looked_up, run.subject.rounded(truth.value), truth.value)
    return Truth(value, truth.terms, truth.angle, truth.amplitude)


def judge_table(run: Run) -> None:
    """``fn(positions) -> (S, dim)``: positions (S,), or (A, S) for A axes, height before width."""
    encoding = run.encoding
    run.report.required = ("required inputs", "values", "state")
    seen: list[JudgedCall] = []
    for required, case, positions in _inputs(encoding, run):
        try:
            actual = _table(run, positions)
        except (Refused, Malformed) as error:
            if not required and isinstance(error, Refused):
                run.limit(f"{case}: refused ({error})")
                continue
            code = "raises" if isinstance(error, Refused) else "shape"
            run.add(code, f"{case}, positions of shape {positions.shape}", str(error))
            return
        if not run.floats_only():
            return
        if positions.size:
            run.reached(int(np.max(np.abs(positions))))
        one = JudgedCall(case, actual, rows_of(run, encoding, positions), positions)
        check = "required inputs" if required else "values"
        seen.append(judge_call(run, check, one))
    first = seen[0]
    state.replay(run, lambda: _table(run, first.facts), first.actual, first.case)
    shifted = first.facts[..., ::-1].copy()
    state.kept_result(run, lambda: run.subject.call(first.facts), lambda: run.subject.call(shifted))
    name(run, seen)


def name(run: Run, seen: list[JudgedCall]) -> None:
    """Say what is wrong with the positions in ``facts``."""
    if match(run, seen, _suspects(run)) and run.report.codes:
        return
    if run.failures and not run.report.codes and not half_rows(run, seen, _declared(run)):
        order = _columns(run, seen)
        if order is not None:
            run.add("layout", "columns come in another order", f"column j is declared {order}")


def _declared(run: Run) -> Rows:
    return lambda positions: rows_of(run, run.encoding, positions)


def _suspects(run: Run) -> Iterator[Mistake]:
    for other in suspects_tables.others(run.encoding):

        def predict(positions: np.ndarray, table: Table = other.table) -> Truth | None:
            try:
                return rows_of(run, table, positions)
            except (TypeError, ValueError):  # other axes, or past the end
                return None

        yield Mistake(other.code, other.message, predict)
    if run.encoding.num_axes > 1:

        def reverse(positions: np.ndarray) -> Truth:
            return rows_of(run, run.encoding, positions[::-1])

        def first(positions: np.ndarray) -> Truth:
            every = np.broadcast_to(positions[:1], positions.shape)
            return rows_of(run, run.encoding, every)

        yield Mistake("axis-order", "the axes of positions are taken in reverse", reverse)
        yield Mistake("axis-order", "all axes have the position of the first", first)
    for by in (1, -1, 2):
        text = f"positions are {abs(by)} too {'large' if by > 0 else 'small'}"

        def moved(positions: np.ndarray, by: int = by) -> Truth | None:
            try:
                return rows_of(run, run.encoding, positions + by)
            except ValueError:
                return None

        yield Mistake("position-origin", text, moved)
    yield from half_positions(run.encoding, _declared(run))


def _columns(run: Run, seen: list[JudgedCall]) -> str | None:
    """The declared column that each column of the result is, if it is a permutation."""
    long = max(seen, key=lambda one: one.actual.shape[0])
    told = long.truth
    parts = [np.broadcast_to(p, told.value.shape) for p in (told.value, told.terms, told.angle)]
    order: list[int] = []
    for j in range(long.actual.shape[1]):
        column = np.broadcast_to(long.actual[:, [j]], told.value.shape)
        score = run.scores(column, Truth(*parts)).max(axis=0)
        score[order] = np.inf  # columns may be alike
        order.append(int(np.argmin(score)))
    for one in seen:
        permuted = [
            np.broadcast_to(p, one.truth.value.shape)[:, order]
            for p in (one.truth.value, one.truth.terms, one.truth.angle)
        ]
        if not fits(run, one, Truth(*permuted)):
            return None
    return str(order[:16])


def _table(run: Run, positions: np.ndarray) -> np.ndarray:
    table = run.subject.array(run.subject.call(positions))
    shape = (positions.shape[-1], run.encoding.dim)
    if table.shape != shape:
        raise Malformed(f"expected shape {shape}, got {table.shape}")
    return table


def _inputs(encoding: Table, run: Run) -> Inputs:
    rng = np.random.default_rng(run.settings.seed)
    axes = encoding.num_axes
    last = run.settings.up_to(longest(encoding) - 1) + 1
    if isinstance(encoding, FourierFeatures | Time2Vec | DETRSine | BoxSine):
        top = 2 * np.pi if isinstance(encoding, DETRSine) else 1.0
        for n in (_FIRST, 1, 64):
            yield True, f"{n} coordinates", _shaped(axes, rng.uniform(0, top, (axes, n)))
        corners = np.indices((3,) * axes).reshape(axes, -1) * (top / 2)
        yield False, "corners and middles", _shaped(axes, corners)
        yield False, "coordinates down to -1", _shaped(axes, rng.uniform(-1, 1, (axes, 33)))
        yield False, "whole numbers", _shaped(axes, rng.integers(0, 9, (axes, 7)))
        return
    if axes == 1:
        ends = (np.arange(min(n, last)) for n in (_FIRST, 1, 64))
        for at in ends:
            yield True, f"positions 0..{at.size - 1}", at
        groups = {"small positions": ONE_HOT, "generic positions": GENERIC}
        for case, at in groups.items():
            if (at < last).any():
                yield False, case, at[at < last]
        yield False, "the last positions", np.arange(max(min(last, 2**17) - 9, 0), min(last, 2**17))
        return
    for n in (_FIRST, 1, 64):
        at = rng.integers(0, min(last, 64), (axes, n))
        at[:, 0] = 0
        yield True, f"{n} places", at
    for axis in range(axes):
        line = np.zeros((axes, min(last, 17)), np.int64)
        line[axis] = np.arange(min(last, 17))
        yield False, f"along axis {axis}", line
    yield False, "far places", rng.integers(0, min(last, 5003), (axes, 33))


def _shaped(axes: int, values: np.ndarray) -> np.ndarray:
    """Float32 coordinates (S,) or (A, S); integers as they are."""
    values = values if values.dtype.kind == "i" else values.astype(np.float32)
    return values[0] if axes == 1 else values
