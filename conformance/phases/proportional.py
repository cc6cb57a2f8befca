"""Find angles that are not proportional to the position, by their ratio at several distances."""

from __future__ import annotations

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.probes import GENERIC
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration, unit_size
from .frequencies import SIGMAS, shorter
from .measure import Phases, Tables

#: An angle that is measured is less than a whole turn by some way, and not small.
_LEAST, _MOST = 0.2, 2.0
#: The fewest distances.
_FEWEST = 4
#: The largest error of predicted cos and sin, and the least error of the declared ones.
_NEAR, _FAR = 0.05, 0.25


def squared(run: Run, tables: Tables, declared: Declaration) -> bool:
    """Report angles of ``p + p ** 2 / d``; return whether that gives all angles, up to far ones."""
    at = np.sort(GENERIC[run.ledger.highest >= GENERIC])
    theta = declared.frequencies
    if declared.by_length is not None or (theta <= 0).any() or at.size < _FEWEST:
        return False
    cos, sin = unit_size(tables, at, declared)
    seen = cos + 1j * sin
    right = np.exp(declared.sign * 1j * (at + declared.origin)[:, None] * theta)
    if np.abs(seen - right).max() < _FAR:
        return False
    last = int(at[at * theta.min() <= _MOST].max(initial=0))
    if not last:
        return False
    k = int(np.argmax(np.where(last * theta <= _MOST, theta, 0)))
    turned = declared.sign * float(np.angle(seen[at == last][0, k]))
    used = turned / theta[k] - declared.origin
    for d in shorter(last**2 / (used - last), 7) if used != last else ():
        angle = (at + at**2 / d + declared.origin)[:, None] * theta
        if np.abs(seen - np.exp(declared.sign * 1j * angle)).max() <= _NEAR:
            sign = "+" if d > 0 else "-"
            text = f"the angles are those of p {sign} p ** 2 / {abs(d):.7g}, not of the position p"
            where = f"position {last} has the angles of position {used:.6g}"
            run.add("position-scale", text, where, remedy=_remedy(declared))
            return True
    return False


def _remedy(declared: Declaration) -> str:
    text = "Turn every pair by the position itself times theta_k, with no power or other function "
    return f"{text}of the position. {declared.schedule.formula}".strip()


def not_proportional(run: Run, tables: Tables, phases: Phases, declared: Declaration) -> bool:
    """Report angles whose ratio to the measured frequencies grows or falls with the position.

    A frequency that is measured at small positions is then no frequency. Return whether reported.
    """
    if squared(run, tables, declared):
        return True
    at = np.sort(GENERIC[run.ledger.highest >= GENERIC])
    w = declared.sign * phases.frequencies
    if declared.by_length is not None or (w <= 0).any():
        return False
    cos, sin = unit_size(tables, at, declared)
    angle = np.arctan2(declared.sign * sin, cos)
    ratio, noise, near = [], [], []
    for i, p in enumerate(at):
        due = (p + declared.origin) * w
        (fit,) = np.nonzero((due <= _MOST) & (due >= _LEAST))
        if fit.size:
            k = fit[np.argmax(w[fit])]
            near.append(int(p))
            ratio.append(float(angle[i, k] / due[k]))
            error = run.budget * ROUNDOFF[run.coarse] / due[k]
            noise.append(float(error + SIGMAS * phases.sigma[k] / w[k]))
    off, steps = np.array(ratio) - 1, np.diff(ratio)
    telling = np.abs(steps) > np.array(noise)[1:]
    if len(near) < _FEWEST or telling.sum() < _FEWEST - 1:
        return False
    same = (steps[telling] > 0).all() or (steps[telling] < 0).all()
    begun = np.abs(off[1:3]) > np.array(noise)[1:3]  # a bound or a wrap has no effect so early
    if not same or not begun.any():
        return False
    ends = [f"{ratio[i]:.6g} at position {near[i]}" for i in (0, -1)]
    where = f"angles divided by position and frequency at small positions: {ends[0]}, {ends[1]}"
    text = "the angles are not proportional to the position"
    run.add("position-scale", text, where, remedy=_remedy(declared))
    return True
