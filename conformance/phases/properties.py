"""Judge properties of rotations without the reference.

Each property is a function that returns actual values, and a :class:`Truth` that they must match. A
perturbed input to each must be rejected (the negative control in :func:`judge`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from posenc_ref.accuracy import ROUNDOFF, Truth
from posenc_ref.conformance.harness.probes import dense
from posenc_ref.conformance.harness.reach import Access
from posenc_ref.conformance.harness.run import Run

from .measure import Measured
from .schedule_mistakes import one_schedule

Check = tuple[np.ndarray, Truth]

#: Positions of three tokens, and a shift of all; the smaller ones for models trained on few tokens.
_PROBES = ((np.array([2, 5, 19]), 31), (np.array([1, 2, 5]), 4), (np.array([1, 2, 3]), 2))


def orthogonality(blocks: np.ndarray, amplitude: np.ndarray) -> Check:
    """Return both sides of ``R^T R = m^2 I`` for the 2 x 2 blocks (positions, pairs, 2, 2)."""
    gram = np.swapaxes(blocks, -1, -2) @ blocks
    size = np.abs(np.swapaxes(blocks, -1, -2)) @ np.abs(blocks)
    value = np.broadcast_to(np.eye(2), gram.shape) * (amplitude**2)[:, None, None]
    return gram, Truth(value, 2 * size, np.zeros_like(size))


def with_zeros(blocks: np.ndarray, amplitude: np.ndarray, dtype: str) -> np.ndarray:
    """Return the blocks, with 0 for entries that may stand for the sine of the angle 0.

    As in :class:`Truth`, these are at most ``2**-53`` of the amplitude, if outputs are not float64.
    """
    if dtype == "float64":
        return blocks
    least = ROUNDOFF["float64"] * np.abs(amplitude)[:, None, None]
    return np.where(np.abs(blocks) <= least, 0.0, blocks)


def determinant(blocks: np.ndarray, amplitude: np.ndarray) -> Check:
    """Return both sides of ``det R = + m^2`` for each pair: a rotation, not a reflection."""
    a, b, c, d = (blocks[..., i, j] for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)))
    found = a * d - b * c
    size = np.abs(a * d) + np.abs(b * c)
    return found, Truth(np.broadcast_to(amplitude**2, found.shape), 2 * size, np.zeros_like(found))


def pair_norm(x: np.ndarray, y: np.ndarray, measured: Measured) -> Check:
    """Return the norm of each pair of y, and m times its norm in x; x and y are (..., D)."""
    p = measured.pairs
    before = np.hypot(x[..., [q.a for q in p]], x[..., [q.b for q in p]])
    after = np.hypot(y[..., [q.out_a for q in p]], y[..., [q.out_b for q in p]])
    value = before * measured.amplitude
    return after, Truth(value, 2 * value, np.zeros_like(value))


def relative(
    near: tuple[np.ndarray, np.ndarray], far: tuple[np.ndarray, np.ndarray], angle: np.ndarray
) -> Check:
    """Return both sides of ``q'(m + t) . k'(n + t) = q'(m) . k'(n)``: logits depend on m - n only.

    ``angle`` (D,) is, for each channel, the sum of the angles of q and k in both calls, in radians.
    """
    q1, k1 = near
    q2, k2 = far
    size = np.sum(np.abs(q1 * k1), -1) + np.sum(np.abs(q2 * k2), -1)
    moved = np.linalg.norm(q1 * angle, axis=-1) * np.linalg.norm(k1, axis=-1)
    truth = Truth(np.sum(q1 * k1, -1), 2 * size, moved)
    return np.sum(q2 * k2, -1), truth


def composition(twice: np.ndarray, once: np.ndarray, angle: float, m: np.ndarray) -> Check:
    """Return both sides of ``R(b) R(a) x = m R(a + b) x``.

    ``m`` (D,) is the amplitude of each channel.
    """
    pair = np.linalg.norm(once, axis=-1, keepdims=True) * np.ones_like(once)
    return twice, Truth(m * once, 4 * m * pair, angle * m * pair)


def judge(run: Run, access: Access, measured: Measured) -> None:
    """Judge every property, and check that each rejects a perturbed output."""
    turning = run.encoding is None or bool(run.encoding.frequencies().any())
    if measured.odd or (turning and not measured.pairs):
        run.failed("properties", "channels in pairs", np.inf, measured.describe())
    if turning and not measured.pairs:
        return
    m = measured.amplitude
    if measured.pairs:
        blocks = with_zeros(measured.blocks, m, run.coarse)
        _case(run, "orthogonality", lambda t: orthogonality(blocks * t, m))
        _case(run, "determinant", lambda t: determinant(blocks * t, m))

    dim, fastest = access.dim, float(np.abs(measured.frequencies).max(initial=0.0))
    trained = one_schedule(run.encoding)
    for at, shift in _PROBES:
        if max(2 * at.max(), at.max() + shift) < trained:
            break
    else:
        run.limit(f"sums of positions are not judged: frequencies change at length {trained:g}")
        return
    if access.reach(int(at.max()) + shift) < at.max() + shift:
        return
    # Nearly parallel q and k, so that their logit is large compared with its rounding.
    q = dense((1, 2, 3, dim), run.settings.seed + 11)
    k = q + 0.25 * dense((1, 2, 3, dim), run.settings.seed + 12)
    q, k = run.driver.rounded(q), run.driver.rounded(k)
    q1, k1 = access.rows(q, at), access.rows(k, at - 1)
    q2, k2 = access.rows(q, at + shift), access.rows(k, at - 1 + shift)
    total = np.zeros(dim)
    for pair, w in zip(measured.pairs, np.abs(measured.frequencies), strict=True):
        total[[pair.out_a, pair.out_b]] = 2 * w * float(2 * at.max() + shift)
    _case(run, "relative offset", lambda t: relative((q1, k1), (q2 * t, k2), total))
    if measured.pairs:
        _case(run, "pair norm", lambda t: pair_norm(q, q1 * t, measured))

    offset = 0.0 if run.encoding is None else run.encoding.offset
    elsewhere = run.encoding is None and not _upright(run, measured)
    if not measured.in_out() or offset != round(offset) or elsewhere:
        return
    if not run.driver.pace.grants(2, "calls with sums of positions"):
        return
    channel = np.ones(dim)
    for pair, amplitude in zip(measured.pairs, m, strict=True):
        channel[[pair.a, pair.b]] = amplitude
    # Results are rounded to the declared dtype, so they can be inputs unchanged.
    # With angles (p + offset) theta, R(a) R(a) = m R(2a + offset).
    twice, once = access.rows(q1, at), access.rows(q, 2 * at + round(offset))
    angle = float(4 * at.max()) * fastest
    _case(run, "composition", lambda t: composition(twice * t, once, angle, channel))


def _upright(run: Run, measured: Measured) -> bool:
    """Return whether the first position is 0."""
    phases = measured.phases
    if phases is None:
        return True
    slack = run.budget * ROUNDOFF[run.coarse]
    if (np.abs(phases.start) <= slack).all():
        return True
    fastest = int(np.argmax(np.abs(phases.frequencies)))
    speed = phases.frequencies[fastest]
    if speed == 0:
        return True
    origins = (phases.start[fastest] + 2 * np.pi * np.arange(-64, 65)) / speed
    off = phases.start - origins[:, None] * phases.frequencies
    off = np.abs(off - 2 * np.pi * np.rint(off / (2 * np.pi)))
    return not bool((off <= slack * (1 + np.abs(origins))[:, None]).all(axis=1).any())


def _case(run: Run, name: str, prop: Callable[[Any], Check]) -> None:
    actual, truth = prop(1.0)
    run.judge("properties", name, actual, truth)
    factor = perturbation(run)
    moved, truth = prop(factor)
    control = f"property {name}: output multiplied by {factor:g}"
    run.report.controls[control] = not run.fits(moved, truth)


def perturbation(run: Run) -> float:
    """Return a factor so far from 1 that results multiplied by it must be rejected."""
    return 1.25 if ROUNDOFF[run.coarse] <= ROUNDOFF["float32"] else 3.0
