"""Known mistakes of tables in half precision: rounded positions and rounded rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc_ref import BoxSine
from posenc_ref.accuracy import ROUNDOFF, Truth, budget
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.precision import rounded

#: Returns the declared rows at given positions.
Rows = Callable[[np.ndarray], Truth]
_HALF = ("float16", "bfloat16")


def half_positions(encoding: Any, rows: Rows) -> Iterator[Mistake]:
    """Yield positions in half precision; for boxes, rounded before or after scaling."""
    for half in _HALF:

        def cut(x: np.ndarray, half: str = half) -> np.ndarray:
            return rounded(np.asarray(x, np.float64), half)

        def scaled(x: np.ndarray, cut: Any = cut) -> np.ndarray:
            product = np.asarray(x, np.float32) * np.float32(encoding.scale)
            return np.asarray(cut(product) / encoding.scale)

        yield _imprecise(f"positions are rounded to {half}", rows, cut)
        if isinstance(encoding, BoxSine) and encoding.scale != 1.0:
            times = f"multiplied by {encoding.scale:.4g}"
            yield _imprecise(f"coordinates {times} are rounded to {half}", rows, scaled)
            text = f"coordinates are rounded to {half}, and again when they are {times}"
            yield _imprecise(text, rows, cut, scaled)


def _imprecise(message: str, rows: Rows, *steps: Callable[[np.ndarray], np.ndarray]) -> Mistake:
    def predict(positions: np.ndarray) -> Truth | None:
        for step in steps:
            positions = step(positions)
        try:
            return rows(positions)
        except (OverflowError, TypeError, ValueError):  # past the end, or between two rows
            return None

    return Mistake("position-precision", message, predict)


def half_rows(run: Run, seen: Sequence[JudgedCall], rows: Rows) -> bool:
    """Report values that are all half-precision numbers although the declared ones are not.

    They must match the declared rows, or the rows of rounded positions, to the rounding of that
    format. Return whether a finding was reported.
    """
    for half in _HALF:
        if ROUNDOFF[half] <= ROUNDOFF[run.coarse]:
            continue
        if not all(_holds(one.actual, half) for one in seen):
            continue
        if all(_holds(one.truth.value, half) for one in seen):
            continue
        for mistake in (Mistake("", "", rows), *half_positions(run.encoding, rows)):
            if all(_near(one, mistake.predict(one.facts), half) for one in seen):
                message = f"rows are rounded to {half} behind a {run.dtype} result"
                run.add(
                    "table-precision",
                    f"{message}; {mistake.message}" if mistake.message else message,
                    f"none of {sum(one.actual.size for one in seen)} values has more bits",
                    values={"declared": run.dtype, "measured": half},
                )
                return True
    return False


def _holds(values: np.ndarray, half: str) -> bool:
    return np.array_equal(rounded(np.asarray(values, np.float64), half), values)


def _near(one: JudgedCall, truth: Truth | None, half: str) -> bool:
    if truth is None:
        return False
    return bool((truth.score(one.actual, dtype=half) <= budget(half)).all())
