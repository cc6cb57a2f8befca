"""Measure the accuracy at large positions: errors, first visible error, and precision class.

The first position with a visible error is predicted, and confirmed by calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, VISIBLE, Truth
from posenc_ref.conformance.harness.accuracy import Accuracy
from posenc_ref.conformance.harness.probes import REPORTED, SCAN, TELLING, error_window
from posenc_ref.conformance.harness.reach import Reach
from posenc_ref.conformance.harness.run import Run

from .constants import judge_constants
from .declaration import Declaration
from .measure import Tables
from .rounding_model import FINE, FirstVisible, RoundingModel, Telling

#: Of the positions before the predicted one, those just before it are asked, and those with the
#: largest errors, if these exceed a part of a visible one.
_BEFORE, _CLOSE, _NEAR = 3, 9, 0.75
#: The most calls that are made to confirm a prediction.
_MOST = 4
#: Returns the largest error of cos and sin at each position.
Error = Callable[[np.ndarray], np.ndarray]
#: Returns a model of the function's angles, or None.
Fitted = Callable[[], RoundingModel | None]


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
    # Without a name, the angles differ by more than their rounding.
    constant = judge_constants(run, telling.angles, telling.model, declared, found)
    name = "" if constant else telling.precision
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


def first_visible(
    error: Error, highest: int, rounding: float, reduced: bool, fitted: Fitted = lambda: None
) -> FirstVisible:
    """Return the first position with a visible error, not counting the rounding of the result.

    Windows of positions are tried. If one of them shows an error, every position below SCAN is
    tried. If ``reduced``, only every eighth window's end is tried.

    Past these positions, a model of the angles predicts the first one. It is confirmed if the
    function has the predicted error there, and at the positions before it whose predicted errors
    come close to a visible one. Without a model, or if a call contradicts it, every position
    between the first wrong window and the window before it is tried; then the first one may be
    smaller.

    Positions below SCAN are passed in falling order: a function that takes consecutive positions
    only then gets each in a call of its own, as in decoding. If such calls show an error before
    calls of consecutive positions do, every smaller position is tried in that way.

    Parameters
    ----------
    error : callable
        Returns the largest error of cos and sin at each position (n,).
    highest : int
        The largest position.
    rounding : float
        The roundoff of a half-precision result; 0 for others.
    reduced : bool
        Whether calls are expensive.
    fitted : callable
        Returns the model of the angles, or None. It is called last, since its calls may change
        the function's state.
    """
    limit = rounding + VISIBLE
    ends = np.unique(np.round(np.geomspace(min(16, highest + 1), highest + 1, 64)).astype(int))
    first = np.arange(ends[0])
    windows = np.unique(np.concatenate([first, *(np.arange(max(e - 9, 0), e) for e in ends)]))
    if reduced:
        tried = ends[::8] - 1
        over = tried[error(tried) > limit]
        return _predicted(error, highest, limit, over, fitted())
    near, far = windows[windows < SCAN], windows[windows >= SCAN]
    # A function may make its whole table in every call, so a far window is one call, not nine.
    each = np.split(far, np.flatnonzero(np.diff(far) != 1) + 1)
    seen = np.concatenate([error(near[::-1].copy())[::-1], *(error(at) for at in each if at.size)])
    over = windows[seen > limit]
    every = bool((seen > rounding + VISIBLE / 2).any())
    if every:
        found = _first(lambda at: error(at) > limit, 0, min(SCAN, highest + 1))
        if over.size and over[0] < SCAN and (found is None or found > over[0]):
            alone = _first(lambda at: (error(at[::-1].copy()) > limit)[::-1], 0, int(over[0]))
            found = int(over[0]) if alone is None else alone
        if found is not None:
            return FirstVisible(found, True)
    last = _predicted(error, highest, limit, over, fitted())
    if last.position is None:
        return FirstVisible(None, last.first or (every and highest < SCAN))
    if last.first:
        return last
    before = int(windows[windows < last.position][-1])
    between = _first(lambda at: error(at) > limit, before, last.position)
    return last if between is None else FirstVisible(between, False)


def _predicted(
    error: Error, highest: int, limit: float, over: np.ndarray, model: RoundingModel | None
) -> FirstVisible:
    """Return the first position that ``model`` predicts, if the calls agree with it.

    Otherwise return the smallest position that was seen to have a visible error; ``over`` are such
    positions.
    """
    agrees, visible = model is not None, over[:0]
    for asked, at in enumerate(_asked(model, limit, highest) if model is not None else ()):
        assert model is not None
        actual, most = error(at), model.errors(at)
        fits = (actual <= most + FINE) & ((actual >= most - FINE) | bool(model.grain))
        agrees, visible = bool(fits.all()) and asked < _MOST, at[actual > limit]
        if visible.size or not agrees:
            break
    if not over.size and not visible.size:
        return FirstVisible(None, agrees)
    smallest = int(np.r_[visible, over].min())
    return FirstVisible(smallest, agrees and smallest in visible)


def _asked(model: RoundingModel, limit: float, highest: int) -> Iterator[np.ndarray]:
    """Yield positions with a predicted error, from small to large, and first some before them."""
    size = TELLING.size
    close, sizes = np.zeros(0, dtype=int), np.zeros(0)
    begun = False
    # Half-precision results have too many errors that come close.
    for block, expected in model.over(limit - FINE if model.grain else _NEAR * limit, highest):
        likely = block[expected > limit - FINE]
        if not begun:
            before = block < (likely[0] if likely.size else np.inf)
            close, sizes = np.r_[close, block[before]], np.r_[sizes, expected[before]]
            largest = np.argsort(-sizes, kind="stable")[:_CLOSE]
            close, sizes = close[largest], sizes[largest]
        if likely.size and not begun:
            begun = True
            just = np.arange(max(likely[0] - _BEFORE, 0), likely[0])
            first = np.unique(np.r_[close, just])
            yield np.r_[first, likely[: size - first.size]]
            likely = likely[size - first.size :]
        yield from (likely[i : i + size] for i in range(0, likely.size, size))


def _first(wrong: Callable[[np.ndarray], np.ndarray], start: int, end: int) -> int | None:
    """Return the first position of this range that is ``wrong``, or None."""
    for block in _blocks(start, end):
        positions = np.arange(*block)
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
