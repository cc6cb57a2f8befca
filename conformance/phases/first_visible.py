"""Find the first position with a visible error: predict it, and confirm it by calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from posenc_ref.accuracy import VISIBLE
from posenc_ref.conformance.harness.probes import SCAN, TELLING

from .rounding_model import FINE, RoundingModel

#: Of the positions before the predicted one, those just before it are asked, and those with the
#: largest errors, if these exceed a part of a visible one.
_BEFORE, _CLOSE, _NEAR = 3, 9, 0.75
#: The most calls that are made to confirm a prediction.
_MOST = 4
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
