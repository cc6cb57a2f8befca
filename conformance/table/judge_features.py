"""Judge tables over coordinates or several axes, learned factors, and sums of tables.

The tolerance follows from the error coefficients A and B in ``Table.truth``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, tee
from typing import Any

import numpy as np

from posenc_ref import (
    BoxSine,
    DETRSine,
    FourierFeatures,
    Table,
    Time2Vec,
)
from posenc_ref.conformance.calling.grids import MOST_TOKENS
from posenc_ref.conformance.diagnosis.drive import Probe, drive, one_result
from posenc_ref.conformance.diagnosis.match import likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake, mistakes
from posenc_ref.conformance.diagnosis.whole_values import measured_factor
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import GENERIC, ONE_HOT
from posenc_ref.conformance.harness.run import Run

from .column_order import columns_used, report_order
from .formulas import changed_constants, changed_steps
from .half_precision_mistakes import half_positions, half_rows
from .mistakes import Rows, changed_tables, changed_twice, looked_up
from .places_used import name_places
from .reference import longest, rows_of
from .remedies import restored
from .together import name_together

Inputs = Iterator[tuple[str, str, np.ndarray]]
#: The numbers of positions in the first calls.
_SIZES = (5, 1, 64)
#: The numbers of positions in calls that could refute a cause which explains all others.
REFUTING = (3, 17, 41)


def judge_table(run: Run) -> None:
    """Judge ``fn(positions) -> (S, dim)``: positions (S,), or (axes, S), height before width."""
    run.report.required = ("required inputs", "values", "state")
    probes = (
        Probe(check, case, at, required, f"{case}, positions of shape {at.shape}" * required)
        for check, case, at in _inputs(run.encoding, run)
        for required in (check == "required inputs",)
    )
    calls = drive(run, probes, one_result(lambda at: _table(run, at), _declared(run)))
    if calls is None:
        return
    first = calls[0]
    state.replay(run, lambda: _table(run, first.facts), first.actual, first.case, first.truth.value)
    shifted = first.facts[..., ::-1].copy()
    state.kept_result(run, lambda: run.driver.call(first.facts), lambda: run.driver.call(shifted))
    steps = likely(run, calls, changed_steps(run, first.facts))
    constants = changed_constants(run, first.facts)
    factor = measured_factor(_declared(run), "the table", "amplitude")
    known, again = tee(chain(_mistakes(run), steps, constants, [factor]))
    further = partial(_further, run, calls)
    if match(run, calls, known, further=further, whole=True) and run.report.codes:
        return
    if run.encoding.num_axes > 1 and name_places(run, calls):
        return
    if not run.failures or run.report.codes or half_rows(run, calls, _declared(run)):
        return
    order = columns_used(run, calls)
    if order is not None:
        report_order(run, order)
    elif not name_together(run, calls, further):
        match(run, calls, again, parts=False)


def _further(run: Run, calls: Sequence[JudgedCall]) -> Iterator[JudgedCall]:
    """Make calls at other selections of the judged positions, which could refute a cause."""
    at = np.concatenate([one.facts for one in calls if one.actual.size], axis=-1)
    rng = np.random.default_rng(run.settings.seed)
    for n in REFUTING:
        some = at[..., rng.integers(at.shape[-1], size=n)].astype(calls[0].facts.dtype)
        with suppress(Refused, Malformed):
            case = f"{n} of these positions"
            yield JudgedCall(case, _table(run, some), _declared(run)(some), some)


def _declared(run: Run) -> Rows:
    return lambda positions: rows_of(run, run.encoding, positions)


def table_mistakes(
    run: Run,
    positions: Callable[[Table, Any], np.ndarray] = lambda table, at: at,
    *,
    twice: bool = False,
) -> Iterator[Mistake]:
    """Yield mistakes with one field of the declaration changed; ``twice``: the axes as well.

    ``positions(table, facts)`` returns the positions in a call; ``facts`` are the call's arguments.
    """
    for code, message, table in (changed_twice if twice else changed_tables)(run.encoding):
        predict = looked_up(partial(rows_of, run, table), partial(positions, table))
        yield Mistake(code, message, predict, restored(run.encoding, table))


def _mistakes(run: Run) -> Iterator[Mistake]:
    moved = partial(looked_up, _declared(run))
    yield from table_mistakes(run)
    yield from table_mistakes(run, twice=True)
    if run.encoding.num_axes > 1:
        remedy = "Take the positions of axis a from row a of the argument, positions[a]."
        yield from mistakes(
            "axis-order",
            moved,
            ("the axes of positions are in reverse order", lambda p: p[::-1], remedy),
            (
                "all axes have the positions of axis 0",
                lambda p: np.broadcast_to(p[:1], p.shape),
                remedy,
            ),
        )
    remedy = "Use the positions as they are passed: do not {} them."
    yield from mistakes(
        "position-origin",
        moved,
        ("positions are 1 too large", lambda p: p + 1, remedy.format("add 1 to")),
        ("positions are 1 too small", lambda p: p - 1, remedy.format("subtract 1 from")),
        ("positions are 2 too large", lambda p: p + 2, remedy.format("add 2 to")),
    )
    yield from half_positions(run.encoding, _declared(run))


def read_rows(run: Run, result: Any, count: int) -> np.ndarray:
    """Return a result as a table of ``count`` rows; raise Malformed for another shape."""
    table, shape = run.driver.array(result), (count, run.encoding.dim)
    if table.shape != shape:
        raise Malformed(f"expected shape {shape}, got {table.shape}")
    return table


def _table(run: Run, positions: np.ndarray) -> np.ndarray:
    table = read_rows(run, run.driver.call(positions), positions.shape[-1])
    if positions.size:
        run.reached(int(np.max(np.abs(positions))))
    return table


def _inputs(encoding: Table, run: Run) -> Inputs:
    rng = np.random.default_rng(run.settings.seed)
    at: np.ndarray
    axes = encoding.num_axes
    last = run.settings.up_to(longest(encoding) - 1) + 1
    counted = run.driver.view  # the calls are sums with the rows of positions 0 .. S-1
    if isinstance(encoding, FourierFeatures | Time2Vec | DETRSine | BoxSine) and not counted:
        top = 2 * np.pi if isinstance(encoding, DETRSine) else 1.0
        for n in _SIZES:
            at = rng.uniform(0, top, (axes, n))
            yield "required inputs", f"{n} coordinates", _shaped(axes, at)
        corners = np.indices((3,) * axes).reshape(axes, -1) * (top / 2)
        yield "values", "corners and middles", _shaped(axes, corners)
        yield "values", "coordinates down to -1", _shaped(axes, rng.uniform(-1, 1, (axes, 33)))
        yield "values", "whole numbers", _shaped(axes, rng.integers(0, 9, (axes, 7)))
        return
    if axes == 1:
        for at in (np.arange(min(n, last)) for n in _SIZES):
            yield "required inputs", f"positions 0..{at.size - 1}", at
        if counted:
            yield "values", "positions 0..511", np.arange(min(512, last))
        for case, at in {"small positions": ONE_HOT, "generic positions": GENERIC}.items():
            if (at < last).any():
                yield "values", case, at[at < last]
        end = min(last, 2**17)
        yield "values", "the last positions", np.arange(max(end - 9, 0), end)
        return
    side = round(MOST_TOKENS ** (1 / axes))  # some functions make whole grids
    for n in _SIZES:
        at = rng.integers(0, min(last, side), (axes, n))
        at[:, 0] = 0
        yield "required inputs", f"{n} places", at
    for axis in range(axes):
        line = np.zeros((axes, min(last, 17)), np.int64)
        line[axis] = np.arange(min(last, 17))
        yield "values", f"along axis {axis}", line
    yield "values", "far places", rng.integers(0, min(last, 5003), (axes, 33))


def _shaped(axes: int, values: np.ndarray) -> np.ndarray:
    """Return coordinates (S,) or (axes, S) in float32; integers are not converted."""
    values = values if values.dtype.kind == "i" else values.astype(np.float32)
    return values[0] if axes == 1 else values
