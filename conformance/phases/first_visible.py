"""Find the first position with a visible error: predict it, and confirm it by calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from posenc_ref.accuracy import VISIBLE
from posenc_ref.conformance.harness.probes import SCAN, TELLING

from .rounding_model import FINE, RoundingModel

#: Positions before the predicted one are asked if their errors exceed this part of a visible one,
#: those with the largest errors, but not more than this.
_NEAR, _CLOSE = 0.95, 12
#: The most positions that are asked to confirm a prediction.
_MOST = 4 * TELLING.size
#: Returns the largest error of cos and sin at each position.
Error = Callable[[np.ndarray], np.ndarray]
#: Returns a model of the function's angles, or None.
Fitted = Callable[[], RoundingModel | None]


@dataclass(frozen=True)
class FirstVisible:
    """A position with a visible error, or None if no asked position has one."""

    position: int | None
    first: bool  #: whether no smaller position has one; for None, whether no position has one


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
        return _predicted(error, highest, limit, over, fitted()) or _seen(over[:1])
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
    predicted = _predicted(error, highest, limit, over, fitted())
    if predicted is not None or not over.size:
        return predicted or FirstVisible(None, every and highest < SCAN)
    before = int(windows[windows < over[0]][-1])
    between = _first(lambda at: error(at) > limit, before, int(over[0]))
    return FirstVisible(int(over[0]) if between is None else between, False)


def _seen(over: np.ndarray) -> FirstVisible:
    """Return the first of these wrong positions, if any; others before it were not tried."""
    return FirstVisible(int(over[0]) if over.size else None, False)


def _predicted(
    error: Error, highest: int, limit: float, over: np.ndarray, model: RoundingModel | None
) -> FirstVisible | None:
    """Return the first position that ``model`` predicts, or None if a call contradicts it.

    ``over`` are positions that were seen to have a visible error.
    """
    if model is None:
        return None
    asked, close, sizes = 0, np.zeros(0, dtype=int), np.zeros(0)
    for block in model.over(_NEAR * limit, highest):
        expected = model.errors(block)
        likely = block[expected > limit - FINE]
        before = block < (likely[0] if likely.size else np.inf)
        close, sizes = np.r_[close, block[before]], np.r_[sizes, expected[before]]
        largest = np.argsort(-sizes, kind="stable")[:_CLOSE]
        close, sizes = close[largest], sizes[largest]
        while likely.size:
            at = np.unique(np.r_[close, likely[: TELLING.size - close.size]])
            likely, close, sizes = likely[TELLING.size - close.size :], close[:0], sizes[:0]
            asked += at.size
            actual, most = error(at), model.errors(at)
            if (actual > most + FINE).any() or (not model.grain and (actual < most - FINE).any()):
                return None
            visible = at[actual > limit]
            if visible.size:
                agrees = not over.size or visible[0] <= over[0]
                return FirstVisible(int(visible[0]), True) if agrees else None
            if asked >= _MOST:
                return None
    return FirstVisible(None, True) if not over.size else None


def _first(wrong: Callable[[np.ndarray], np.ndarray], start: int, end: int) -> int | None:
    """Return the first position of this range that is ``wrong``, or None."""
    for start, end in _blocks(start, end):
        positions = np.arange(start, end)
        off = wrong(positions)
        if off.any():
            return int(positions[int(np.argmax(off))])
    return None


def _blocks(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield consecutive blocks of a range, the first ones short: errors mostly start early."""
    size = 256
    while start < end:
        yield start, min(start + size, end)
        start, size = start + size, min(2 * size, 4096)
