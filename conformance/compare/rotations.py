"""Compare two functions that rotate x, or q and k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import Truth
from posenc_ref.conformance.diagnosis.same_logits import FEWEST, BothSides, dot_products
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

from .comparison import CONTEXTS
from .side import RANDOM, Side, Two, judged, normwise, sampled, search

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
    run, dim, d = q.run, q.run.settings.head_dim or 0, q.difference
    agreed = []
    for n in sampled(q):
        last = error_window(n)
        middle = np.arange(n // 2, min(n // 2 + 4, n - 10))
        keys = np.unique(np.concatenate([np.arange(4), middle, last]))
        try:
            off, agrees = _logits(q, k, like, (last, keys), rotate)
        except (Refused, Malformed):
            continue
        agreed.append(agrees)
        if n in CONTEXTS:
            d.errors[n] = off / dim**0.5
    if d.off and agreed and all(agreed):
        n = sampled(q)[-1]
        agreed.append(_logits(q, k, like, (error_window(n), judged(q, n)), rotate)[1])
    several = run.driver.axes > 1
    d.inputs = f"{RANDOM[:-1]}, with equal positions on all axes)" if several else RANDOM
    if len(agreed) < FEWEST:
        return
    if several:  # above, all axes have the same positions
        random = np.random.default_rng(run.settings.seed + 1)
        grids = random.integers(0, 64, (2, run.driver.axes, 1, 9))
        agreed.append(_logits(q, k, like, (grids[0], grids[1]), _direct)[1])
    d.logits = all(agreed)


def _logits(
    q: Two, k: Two, like: Rotary | None, at: tuple[np.ndarray, np.ndarray], by: Rotate
) -> tuple[float, bool]:
    """Return the largest difference of q . k, and whether all agree within the tolerance."""
    run, dim = q.run, q.run.settings.head_dim or 0
    rows, truths = [], []
    for n, (two, positions) in enumerate(zip((q, k), at, strict=True)):
        x = run.random((1, 4, positions.shape[-1], dim), 30 + n)
        rows.append(by(two.a, x, positions))
        value = by(two.b, x, positions)
        truths.append(
            replace(apply_truth(like, x, positions), value=value)
            if like is not None
            else Truth(value, normwise(x, -1).terms, np.zeros_like(value))
        )
    actual, expected = dot_products(BothSides("", rows[0], rows[1], truths[0], truths[1]))
    return float(np.abs(actual - expected.value).max()), run.fits(actual, q.widened(expected))
