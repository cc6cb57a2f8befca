"""The rows of a table for a sequence: ``rows``.

It has the error unit of surface ``table``; rows of a learned table must be bit-equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Learned, Sinusoidal
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.match import likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.position_mistakes import other_rows
from posenc_ref.conformance.diagnosis.whole_values import MIXED, whole_values
from posenc_ref.conformance.functions.function import Arguments, Function, Plain, written
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.rotary.as_apply import Inexpressible, host_positions, seen_as, starts
from posenc_ref.conformance.table.reference import longest

#: Numbers of tokens, also such as leave every remainder of small powers of two.
LENGTHS = (5, 1, 2, 16, 64, 7, 45, 127, 200)


def _longest(encoding: Any) -> int:
    last = longest(encoding)
    return last if isinstance(encoding, Learned) else min(last, 2050)


def _sequences(encoding: Any, seed: int, dtype: str) -> Iterator[Arguments]:
    longest = _longest(encoding)
    for n in dict.fromkeys(min(n, longest) for n in LENGTHS):
        yield Arguments("a sequence", (n,))
    yield Arguments("the longest sequence", (longest,), False)
    yield Arguments("no tokens", (0,), False)


def _rows_truth(encoding: Any, arguments: tuple[Any, ...], value: np.ndarray) -> Truth:
    return _sized(encoding.truth(np.arange(arguments[0])), value)


def _sized(truth: Truth, value: np.ndarray) -> Truth:
    """Return ``truth`` with the values ``value`` and rounding errors of at least their size."""
    looked_up = (truth.terms == 0) & (truth.angle == 0) & (truth.amplitude == 0)
    terms = np.where(looked_up, 0.0, np.maximum(truth.terms, np.abs(value)))
    return Truth(value, terms, truth.angle, truth.amplitude)


def _row_mistakes(encoding: Any) -> Iterator[Mistake]:
    low, size = -getattr(encoding, "offset", 0), getattr(encoding, "rows", 0)
    ends = {
        "that row is used": lambda p: np.minimum(p, low + size - 1),
        "the table begins again": lambda p: (p - low) % size + low,
    }
    for code, message, change in other_rows(-low):
        yield written(code, message, _rows_at(encoding, change))
        for words, end in ends.items() if isinstance(encoding, Learned) else ():
            of = lambda p, to=change, end=end: end(to(p))  # noqa: E731
            yield written(code, f"{message}; past the last row, {words}", _rows_at(encoding, of))
    if isinstance(encoding, Learned):
        yield _reversed(encoding, _longest(encoding))
    declared = _rows_at(encoding, np.asarray)
    yield from whole_values(lambda call: declared(*call.arguments), "the table", "layout", MIXED)


def _rows_at(encoding: Any, positions: Function) -> Function:
    """Return the function that gives the rows of the table at ``positions(0 .. n - 1)``."""

    def rows(n: int) -> Truth:
        truth = encoding.truth(positions(np.arange(n)))
        return _sized(truth, np.asarray(truth.value))

    return rows


def _reversed(encoding: Any, size: int) -> Mistake:
    text = f"a table of {size} rows is reversed before it is cut to the sequence"
    remedy = "Cut the table to the sequence first, then reverse it."
    return written("wrong-row", text, _rows_at(encoding, lambda at: size - 1 - at), remedy)


def _row_suggestions(
    encoding: Any, arguments: tuple[Any, ...], actual: np.ndarray
) -> Iterator[Mistake]:
    if isinstance(encoding, Sinusoidal) and len(actual):
        from posenc_ref.conformance.table.diagnose_rows import reversed_length  # as below

        size = reversed_length(encoding, actual[0], len(actual))
        if size is not None:
            yield _reversed(encoding, size)


def _as_table(run: Run, seen: list[JudgedCall]) -> None:
    """Diagnose the rows as surface ``table``, in calls up to the longest judged length."""
    from posenc_ref.conformance.rotary.diagnose_state import TableCall, name_grown
    from posenc_ref.conformance.table.judge import judge_table  # slow; only failures need it
    from posenc_ref.conformance.table.rows_used import SeenRows, name_part, name_zeros

    if not isinstance(run.encoding, Sinusoidal | Learned):
        from posenc_ref.conformance.table.formulas import changed_steps

        steps = (_of_rows(one) for one in changed_steps(run, np.arange(8)))
        match(run, seen, likely(run, seen, steps))
        return
    lengths = [one.facts.arguments[0] for one in seen]
    calls = [
        replace(one, facts=TableCall(np.arange(n), tuple(lengths[: i + 1]), run.encoding.truth))
        for i, (one, n) in enumerate(zip(seen, lengths, strict=True))
    ]
    rows = [SeenRows(c.case, c.actual, np.zeros(1), c.facts.positions) for c in calls]
    if name_part(run, rows) or name_grown(run, calls) or name_zeros(run, rows):
        return
    fn, longest = run.driver.fn, max(lengths)

    def view(positions: Any) -> Any:
        p = host_positions(run, positions)
        if starts(p) != 0 or p.size > longest:
            raise Inexpressible(f"positions must start at 0, with at most {longest} rows")
        return fn(int(p.size))

    limits = list(run.report.limits)  # limits added by the view are dropped
    with seen_as(run, view, run.encoding, "lambda p: fn(len(p))") as viewed:
        judge_table(viewed)
    run.report.limits[:] = limits


def _of_rows(mistake: Mistake) -> Mistake:
    """Return a mistake of a table as one of its first rows."""
    predict = mistake.predict
    return replace(mistake, predict=lambda call: predict(np.arange(call.arguments[0])), fit=None)


ROWS = Plain(
    _sequences,
    _row_mistakes,
    "wrong-row",
    integers=False,
    truth=_rows_truth,
    suggested=_row_suggestions,
    within=lambda arguments, last: (min(arguments[0], last + 1),),
    closer=_as_table,
)
