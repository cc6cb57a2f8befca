"""Measure the accuracy at large positions: errors, first visible error, and precision class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, VISIBLE, Truth
from posenc_ref.conformance.harness.accuracy import Accuracy
from posenc_ref.conformance.harness.probes import REPORTED, TELLING, error_window
from posenc_ref.conformance.harness.reach import Reach
from posenc_ref.conformance.harness.run import Run

from .constants import judge_constants
from .declaration import Declaration
from .first_visible import first_visible
from .measure import Tables
from .rounding_model import Telling


def measure_accuracy(run: Run, reach: Reach, tables: Tables, declared: Declaration) -> None:
    """Report errors at large positions, the first visible error, and the precision class.

    The positions measured here are also judged, because errors may occur only between the other
    probes.
    """
    wrong: list[tuple[int, float]] = []

    def error(positions: np.ndarray) -> np.ndarray:
        off = np.zeros(positions.size)
        for got, true in zip(tables(positions), declared.exact(positions), strict=True):
            off = np.maximum(off, np.abs(got / declared.amplitude - true).max(axis=1, initial=0.0))
            if declared.by_length is None and true.size and not wrong:
                angle = (np.abs(positions) + abs(declared.origin))[:, None] * declared.frequencies
                truth = Truth(true, np.ones_like(true), np.abs(angle))
                score = run.scores(got / declared.amplitude, truth).max(axis=1)
                over = np.flatnonzero(score > run.budget)
                wrong.extend((int(positions[i]), float(score[i])) for i in over[:1])
        return np.where(np.isnan(off), np.inf, off)

    highest = reach.reach(REPORTED[-1] - 1)
    lengths = [n for n in REPORTED if n <= highest + 1] or [highest + 1]
    errors = _errors(error, lengths, run.settings.reduced)
    # Half-precision results already have a visible rounding error.
    rounding = ROUNDOFF[run.dtype] if run.dtype in ("bfloat16", "float16") else 0.0
    telling = Telling(run, tables, declared, TELLING[highest >= TELLING])
    found = first_visible(error, highest, rounding, run.settings.reduced, lambda: telling.angles)
    first, at = found.first, found.position
    if at is not None and error(np.array([at]))[0] <= VISIBLE and max(errors.values()) <= VISIBLE:
        first, at = False, None  # the error depends on the call, not on the position
    if wrong and not run.failures:
        position, score = wrong[0]
        run.failed("values", f"position {position}", score, "cos or sin is wrong")
    model = telling.model
    name = model.name if model else ""
    if judge_constants(run, telling.angles, model, declared, found):
        name = ""  # the angles differ by more than their rounding
    if name == "float64 angles" and ROUNDOFF[run.coarse] > ROUNDOFF["float32"]:
        name = "float32 angles or better"  # half-precision results cannot tell them apart
    run.report.accuracy = Accuracy(
        precision=name, errors=errors, degrades_at=at, degrades_first=first
    )


def _errors(
    error: Callable[[np.ndarray], np.ndarray], lengths: list[int], reduced: bool
) -> dict[int, float]:
    """Return the largest error at the end of each context; if ``reduced``, from a single call."""
    windows = [error_window(n) for n in lengths]
    if not reduced:
        return {n: float(error(at).max()) for n, at in zip(lengths, windows, strict=True)}
    off = np.split(error(np.concatenate(windows)), np.cumsum([w.size for w in windows])[:-1])
    return {n: float(part.max()) for n, part in zip(lengths, off, strict=True)}
