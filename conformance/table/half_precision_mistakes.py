"""Known mistakes of tables in half precision: rounded positions and rounded rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from posenc_ref import BoxSine
from posenc_ref.accuracy import ROUNDOFF, Truth, budget
from posenc_ref.axis_sinusoids import AxisSinusoids
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
    if isinstance(encoding, AxisSinusoids):
        for half in _HALF:
            text = f"angles are rounded to {half}"
            remedy = "Keep angles in float32 or float64: round sines and cosines only."
            predict = partial(_half_angles, encoding, half)
            yield Mistake("angle-precision", text, predict, remedy)


def _half_angles(encoding: AxisSinusoids, half: str, positions: Any) -> Truth | None:
    """Return the rows at angles that are rounded, with a step of them for angles near a tie."""
    at = np.asarray(positions, np.float64)
    if at.ndim != 2 or not at.size:
        return None
    values, sizes = [], []
    for axis, part in encoding.parts():
        angle = (at[axis] + part.offset)[:, None] * np.asarray(part.frequencies(), np.float64)
        near = 4 * ROUNDOFF["float32"]
        low, middle, high = (rounded(angle * (1 + e), half) for e in (-near, 0.0, near))
        step = np.maximum(np.abs(low - middle), np.abs(high - middle)) / ROUNDOFF["float32"]
        value, size = np.zeros((2, *angle.shape[:1], part.dim))
        for columns, wave in zip(part.columns(), (np.sin, np.cos), strict=True):
            value[:, columns] = part.scale * wave(middle)[:, : columns.size]
            size[:, columns] = abs(part.scale) * (np.abs(angle) + step)[:, : columns.size]
        values.append(value)
        sizes.append(size)
    value, size = (
        np.concatenate(each, axis=-1)[..., encoding.columns()] for each in (values, sizes)
    )
    return Truth(value, np.abs(value), size)


def half_rows(run: Run, seen: Sequence[JudgedCall], rows: Rows) -> bool:
    """Report rows that are rounded to half precision in a result of a finer dtype.

    Rows are reported if all values are half-precision numbers and equal the declared rows, or the
    rows at rounded positions, within half-precision tolerance. Return whether any were reported.
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
                    f"all {sum(one.actual.size for one in seen)} values are {half} numbers",
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
