"""Known mistakes of tables in half precision: rounded positions and rounded rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from posenc_ref import BoxSine
from posenc_ref.accuracy import ROUNDOFF, Truth, budget
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.precision import rounded

from .mistakes import Rows, looked_up

_HALF = ("float16", "bfloat16")


def half_positions(encoding: Any, rows: Rows) -> Iterator[Mistake]:
    """Yield mistakes of rounding positions to half precision.

    The coordinates of a :class:`BoxSine` are rounded before scaling, after it, or both.
    """
    for half in _HALF:

        def cut(x: np.ndarray, half: str = half) -> np.ndarray:
            return rounded(np.asarray(x, np.float64), half)

        def scaled(x: np.ndarray, cut: Any = cut) -> np.ndarray:
            product = np.asarray(x, np.float32) * np.float32(encoding.scale)
            return np.asarray(cut(product) / encoding.scale)

        steps: dict[str, tuple[Any, ...]] = {f"positions are rounded to {half}": (cut,)}
        if isinstance(encoding, BoxSine) and encoding.scale != 1.0:
            times = f"multiplied by {encoding.scale:.4g}"
            steps[f"coordinates {times} are rounded to {half}"] = (scaled,)
            text = f"coordinates are rounded to {half}, and again when they are {times}"
            steps[text] = (cut, scaled)
        for message, each in steps.items():
            yield Mistake("position-precision", message, looked_up(rows, *each))


def half_rows(run: Run, seen: Sequence[JudgedCall], rows: Rows) -> bool:
    """Report rows that are rounded to half precision in a result of a finer dtype.

    Every value must be a half-precision number, and within that format's tolerance of the declared
    rows or of the rows at rounded positions. Return whether a finding was reported.
    """
    for half in _HALF:
        if (
            ROUNDOFF[half] <= ROUNDOFF[run.coarse]
            or not all(_holds(one.actual, half) for one in seen)
            or all(_holds(one.truth.value, half) for one in seen)
        ):
            continue
        for mistake in (Mistake("", "", rows), *half_positions(run.encoding, rows)):
            if all(_near(one, mistake.predict(one.facts), half) for one in seen):
                message = f"rows of a {run.dtype} result are rounded to {half}"
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
