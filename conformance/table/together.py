"""Two mistakes that are made in a table at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import combinations
from typing import Any

from posenc_ref import Table
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.offset_sizes import Sizes
from posenc_ref.conformance.diagnosis.steps import Change, Steps, plain_steps
from posenc_ref.conformance.diagnosis.together import (
    First,
    Predict,
    Stepped,
    Together,
    both,
    likely_changes,
    match_together,
    two_steps,
)
from posenc_ref.conformance.harness.run import Run

from .column_order import beside_order, order_of
from .formulas import declared_once, formula_of, predicted
from .mistakes import changed_tables, looked_up
from .reference import rows_of
from .remedies import of_step, restored, same
from .wave_formulas import of_axes

#: Returns a prediction of calls from one of rows, given positions or a grid.
Of = Callable[[Predict], Predict]


def _plainly(predict: Predict) -> Predict:
    return predict


def name_together(
    run: Run,
    calls: Sequence[JudgedCall],
    further: Callable[[], Iterator[JudgedCall]] | None = None,
    of: Of = _plainly,
    first: Any = None,
) -> bool:
    """Report two mistakes that explain all calls; return whether there are some.

    ``first`` are the positions, or the grid, of a call: by default, the facts of the first one.
    """
    first = calls[0].facts if first is None else first
    return match_together(run, calls, two_of_table(run, calls, first, of), further)


def two_of_table(run: Run, calls: Sequence[JudgedCall], first: Any, of: Of) -> Iterator[Together]:
    """Yield two changed fields of the declared table, then two changed steps, or one of each."""
    declared: Table = run.encoding
    others = [
        (Mistake(code, message, partial(_rows, run, table), restored(declared, table)), table)
        for code, message, table in changed_tables(declared)
        if type(table) is type(declared)
    ]
    formula, changed = formula_of(declared), [one for one, _ in others]
    if of is _plainly and formula is not None:  # see beside_order
        others = [(one, table) for one, table in others if order_of(run, calls, one) is None]
    for (one, a), (two, b) in combinations(others, 2):
        table = _with_both(declared, a, b)
        if table is not None:
            yield both(one, two, of(partial(_rows, run, table)))
    if formula is None:
        return
    if formula is of_axes:  # who makes two mistakes makes them for every axis
        formula = partial(of_axes, alike=True)

    def plain(sizes: Sizes) -> Steps:
        steps = plain_steps(lambda s: formula(declared, first, s))
        for (name, words, *_), remedy in steps.remedies.items():
            steps.remedies[name, words] = of_step(declared, name) or remedy
        return steps

    codes, truth = plain(Sizes()).codes, declared_once(declared)

    def stepped(*made: Change, sizes: Sizes = Sizes(), table: Any = None) -> Predict:  # noqa: B008
        code = "amplitude" * any(codes.get(change) == "amplitude" for change in made)
        return of(predicted(run, formula, *made, code=code, table=table, truth=truth))

    if of is _plainly:
        rows = likely_changes(plain(Sizes()))
        singles = [Mistake(*row[:2], stepped(row[-1]), row[2]) for row in rows]
        yield from beside_order(run, calls, [*changed, *singles])
    firsts = [First(one, partial(stepped, table=table)) for one, table in others]
    yield from two_steps(run, calls, Stepped(plain, stepped, lambda some: Sizes()), firsts)


def _rows(run: Run, table: Table, at: Any) -> Any:
    def rows(at: Any) -> Any:
        return rows_of(run, table, table.grid_positions(*at) if isinstance(at, tuple) else at)

    return looked_up(rows)(at)


def _changed(declared: Table, other: Table) -> dict[str, Any]:
    """Return the fields in which a table differs from the declared one."""
    names = [f.name for f in fields(declared) if f.init]  # type: ignore[arg-type]
    each = ((n, getattr(declared, n), getattr(other, n)) for n in names)
    return {name: new for name, old, new in each if not same(old, new)}


def _with_both(declared: Table, one: Table, two: Table) -> Table | None:
    """Return the declared table with the changed fields of both; None if they share some."""
    a, b = _changed(declared, one), _changed(declared, two)
    if a.keys() & b.keys():
        return None
    try:
        return declared.replace(**a, **b)
    except (TypeError, ValueError):
        return None
