"""Compare two functions that rotate x, or q and k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.same_logits import FEWEST
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.probes import (
    GENERIC,
    PER_ROW,
    REPORTED,
    SIZES,
    WIDE,
    WINDOWS,
    error_window,
)
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.oracle.apply import apply_truth
from posenc_ref.conformance.oracle.calls import logits

from .comparison import CONTEXTS
from .side import RANDOM, SAMPLED, Side, Two, normwise, search

_ROWS = np.array([[4, 9, 2, 0, 31], [7, 1, 8, 40, 3]])


#: Returns the results of a function for x at positions.
Rotate = Callable[[Side, np.ndarray, np.ndarray], np.ndarray]


def rotate(side: Side, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the function's results at chosen positions (S,)."""
    assert isinstance(side.access, Access)
    return side.access.rows(x, positions)


def _direct(side: Side, x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return the function's results for one call with these positions."""
    return side.run.driver.apply(x, positions)


def open_access(side: Side) -> None:
    """Find out which positions the function accepts."""
    dim = side.run.settings.head_dim
    assert dim is not None
    access = Access(side.run, dim=dim)
    access.learn()
    side.access = access


def judge_rotations(two: Two, like: Rotary | None) -> None:
    """Judge A's results against B's; ``like`` is B's rotation, if it is one: it sets the units."""
    run, dim = two.run, two.run.settings.head_dim or 0

    def truth(x: np.ndarray, at: np.ndarray, y: np.ndarray) -> Truth:
        if like is not None:
            return replace(apply_truth(like, x, at), value=y)
        return Truth(y, normwise(x, -1).terms, np.zeros_like(y))

    def judge(
        case: str, x: np.ndarray, at: np.ndarray, required: bool = False, by: Rotate = _direct
    ) -> None:
        two.judge(lambda side: by(side, x, at), case, lambda y: truth(x, at, y), required)

    for size in (*SIZES, *WIDE):
        case = f"B, H, S = {size}"
        judge(case, run.random((*size, dim), sum(size)), np.arange(size[-1]), size in SIZES)
        if run.report.codes:
            return
    for side in (two.a, two.b):
        open_access(side)
    two.align()
    groups = {"generic positions": GENERIC}
    groups |= {f"window at {start}": np.arange(start, start + 9) for start in WINDOWS}
    groups |= {f"end of a context of {n}": error_window(n) for n in REPORTED}
    for case, wanted in groups.items():
        at = two.within(wanted)
        if at.size:
            x = run.random((1, 2, at.size, dim), 5)
            judge(case, x, at, by=rotate)
            run.reached(int(at.max()))
    judge(PER_ROW, run.random((2, 3, 5, dim), 7), _ROWS)
    axes = run.driver.axes
    if axes > 1:
        grid = np.random.default_rng(run.settings.seed).integers(0, 64, (axes, 2, 9))
        judge("positions (A, B, S)", run.random((2, 3, 9, dim), 8), grid)
    _first(two, dim)


def _first(two: Two, dim: int) -> None:
    """Find the first position at which results differ visibly for inputs between -1 and 1."""
    x = two.run.driver.rounded(
        np.random.default_rng(two.run.settings.seed).uniform(-1, 1, (2, dim))
    )

    def error(positions: np.ndarray) -> np.ndarray:
        given = np.broadcast_to(x[None, :, None], (1, 2, positions.size, dim))
        off = np.abs(rotate(two.a, given, positions) - rotate(two.b, given, positions))
        each = off.max(axis=(0, 1, 3), initial=0.0)
        for axis in range(two.run.driver.axes) if two.run.driver.axes > 1 else ():
            at = np.zeros((two.run.driver.axes, 1, positions.size), np.int64)
            at[axis] = positions
            one, other = (s.run.driver.apply(given, at) for s in (two.a, two.b))
            each = np.maximum(each, np.abs(one - other).max(axis=(0, 1, 3), initial=0.0))
        return np.where(np.isnan(each), np.inf, each)

    search(two, error)


def judge_logits(q: Two, k: Two, like: Rotary | None) -> None:
    """Compare q . k of contexts of growing length, rotated by A with those rotated by B.

    ``q`` and ``k`` are the functions that rotate queries and keys, the same ones for ``apply``.
    """
    run, dim = q.run, q.run.settings.head_dim or 0
    highest, agree, compared = q.reach(SAMPLED[-1] - 1), True, 0
    for n in (n for n in SAMPLED if n <= highest + 1):
        last = error_window(n)
        middle = np.arange(n // 2, min(n // 2 + 4, n - 10))
        keys = np.unique(np.concatenate([np.arange(4), middle, last]))
        x, y = run.random((1, 4, last.size, dim), 30), run.random((1, 4, keys.size, dim), 31)
        try:
            qa, qb = (rotate(side, x, last) for side in (q.a, q.b))
            ka, kb = (rotate(side, y, keys) for side in (k.a, k.b))
        except (Refused, Malformed):
            continue
        truths = [
            replace(apply_truth(like, given, at), value=rows)
            if like is not None
            else Truth(rows, normwise(given, -1).terms, np.zeros_like(rows))
            for given, at, rows in ((x, last, qb), (y, keys, kb))
        ]
        expected = logits(truths[0], truths[1])
        actual = qa @ np.swapaxes(ka, -1, -2)
        compared += 1
        agree = agree and run.fits(actual, q.widened(expected))
        if n in CONTEXTS:
            q.difference.errors[n] = float(np.abs(actual - expected.value).max()) / dim**0.5
    q.difference.inputs = RANDOM
    q.difference.logits = agree if compared >= FEWEST else None
