"""Measure the accuracy at large positions: errors, first visible error, and precision class."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, VISIBLE, Truth
from posenc_ref.conformance.harness.accuracy import Accuracy
from posenc_ref.conformance.harness.probes import REPORTED, SCAN, TELLING, error_window
from posenc_ref.conformance.harness.reach import Reach
from posenc_ref.conformance.harness.report import NOTE
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .measure import Tables
from .precision import classify


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
    degrades = first_visible(error, highest, rounding, run.settings.reduced)
    if wrong and not run.failures:
        position, score = wrong[0]
        run.failed("values", f"position {position}", score, "cos or sin is wrong")
    at = TELLING[highest >= TELLING]
    cos, sin = unit_size(tables, at, declared)
    w = declared.frequencies_in(at)
    model = classify(at, cos, sin, w, run.dtype, declared.origin)
    name = model.name if model else ""
    if model and model.code == "range-reduction" and not run.failures:
        than = "float32" if model.slip > ROUNDOFF["float32"] else "float64"
        text = f"{name}: within the tolerance, but less accurate than {than} angles"
        run.add(model.code, text, f"recomputed at {at.size} positions", severity=NOTE)
    if name == "float64 angles" and ROUNDOFF[run.coarse] > ROUNDOFF["float32"]:
        name = "float32 angles or better"  # half-precision results cannot tell them apart
    run.report.accuracy = Accuracy(precision=name, errors=errors, degrades_at=degrades)


def _errors(
    error: Callable[[np.ndarray], np.ndarray], lengths: list[int], reduced: bool
) -> dict[int, float]:
    """Return the largest error at the end of each context; if ``reduced``, from a single call."""
    windows = [error_window(n) for n in lengths]
    if not reduced:
        return {n: float(error(at).max()) for n, at in zip(lengths, windows, strict=True)}
    off = np.split(error(np.concatenate(windows)), np.cumsum([w.size for w in windows])[:-1])
    return {n: float(part.max()) for n, part in zip(lengths, off, strict=True)}


def first_visible(
    error: Callable[[np.ndarray], np.ndarray], highest: int, rounding: float, reduced: bool
) -> int | None:
    """Return the first position with a visible error, not counting the rounding of the result.

    Windows of positions are tried first. If one of them shows an error, every position below SCAN
    is tried. If all of these are right, every position between the first wrong window past SCAN
    and the window before it is tried. If ``reduced``, only every eighth window's end is tried.

    Positions below SCAN are passed in falling order: a function that takes consecutive positions
    only then gets each in a call of its own, as in decoding. If such calls show an error before
    calls of consecutive positions do, every smaller position is tried in that way.
    """
    ends = np.unique(np.round(np.geomspace(min(16, highest + 1), highest + 1, 64)).astype(int))
    first = np.arange(ends[0])
    windows = np.unique(np.concatenate([first, *(np.arange(max(e - 9, 0), e) for e in ends)]))
    if reduced:
        seen = error(ends[::8] - 1) > rounding + VISIBLE
        return int(ends[::8][int(np.argmax(seen))]) - 1 if seen.any() else None
    near, far = windows[windows < SCAN], windows[windows >= SCAN]
    # A function may make its whole table in every call, so a far window is one call, not nine.
    each = np.split(far, np.flatnonzero(np.diff(far) != 1) + 1)
    seen = np.concatenate([error(near[::-1].copy())[::-1], *(error(at) for at in each if at.size)])
    if not (seen > rounding + VISIBLE / 2).any():
        return None
    over = windows[seen > rounding + VISIBLE]
    late = over[over >= SCAN][:1]
    parts = [(0, min(SCAN, highest + 1)), *((int(windows[windows < e][-1]), e + 1) for e in late)]
    found = _first(lambda at: error(at) > rounding + VISIBLE, parts)
    if not over.size or (found is not None and found <= over[0]):
        return found
    alone = _first(
        lambda at: (error(at[::-1].copy()) > rounding + VISIBLE)[::-1],
        [(0, int(over[0]))] if over[0] < SCAN else [],
    )
    return int(over[0]) if alone is None else alone


def _first(wrong: Callable[[np.ndarray], np.ndarray], parts: list[tuple[int, int]]) -> int | None:
    """Return the first position of these ranges that is ``wrong``, or None."""
    for start, end in (block for part in parts for block in _blocks(*part)):
        positions = np.arange(start, end)
        off = wrong(positions)
        if off.any():
            return int(positions[int(np.argmax(off))])
    return None


def _blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive blocks of a range, a short one first: errors mostly start early.

    JAX compiles a function for every size.
    """
    size = 256
    while start < end:
        yield start, min(start + size, end)
        start, size = start + size, 4096
