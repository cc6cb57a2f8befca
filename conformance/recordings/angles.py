"""Fit the frequency of every pair to its recorded angles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.phases.frequencies import SIGMAS
from posenc_ref.conformance.phases.measure import Phases, wrap

#: The standard error of an angle, in roundoffs; outputs and tables are both rounded.
_ROUNDINGS = 1.0
#: The distance of the compared positions grows by this factor in each step of the fit.
_GROWTH = 4.0


@dataclass(frozen=True)
class Angles:
    """The recorded map of every token and pair, a complex number: size and angle of the rotation.

    ``valid`` is False where the input of the pair is 0, so that the map is not known.
    """

    map: np.ndarray  #: complex, (N, pairs)
    valid: np.ndarray  #: (N, pairs)
    positions: np.ndarray  #: (N, pairs): the position on the axis that the pair follows
    dtype: str

    def of_pairs(self, chosen: np.ndarray) -> Angles:
        """Return the angles of the chosen pairs only."""
        return Angles(
            self.map[:, chosen], self.valid[:, chosen], self.positions[:, chosen], self.dtype
        )


@dataclass(frozen=True)
class Fitted:
    """Fitted frequencies, and what the recorded positions leave open."""

    phases: Phases
    period: np.ndarray  #: frequencies that differ by a multiple of it give the same angles
    origin_known: bool  #: whether there is more than one position


@dataclass
class _Line:
    """The line ``angle = start + w * position`` of one pair."""

    w: float
    sigma: float
    start: float
    period: float
    linear: bool
    misfit: float = 0.0


def fit(angles: Angles, origin: float = 0.0) -> Fitted:
    """Return the frequencies that fit all angles, with their standard errors.

    The smallest distance of two positions gives a frequency up to whole turns. Larger distances
    then refine it: the frequency found so far predicts their whole turns. If every token has the
    same position, the angle is 0 at the position ``-origin``.
    """
    roundoff = ROUNDOFF[angles.dtype]
    columns = zip(angles.map.T, angles.valid.T, angles.positions.T, strict=True)
    lines, several = [], False
    for r, valid, p in columns:
        at, index = np.unique(p[valid], return_inverse=True)
        total = np.zeros(at.size, np.complex128)
        np.add.at(total, index, r[valid])
        several = several or at.size > 1
        lines.append(_line(at, np.angle(total), angles.dtype, origin))
    amplitude = [
        float(np.median(np.abs(r[v]))) if v.any() else 1.0
        for r, v in zip(angles.map.T, angles.valid.T, strict=True)
    ]
    w, sigma, start, period = (
        np.array([getattr(line, name) for line in lines])
        for name in ("w", "sigma", "start", "period")
    )
    sigma = np.maximum(sigma, roundoff * np.minimum(1.0, np.abs(w)) * ROUNDOFF["float32"])
    linear = all(line.linear for line in lines)
    phases = Phases(w, sigma, wrap(start), np.array(amplitude), linear)
    return Fitted(phases, period, several)


def _line(at: np.ndarray, angle: np.ndarray, dtype: str, origin: float) -> _Line:
    """Return the line through the angles at distinct, sorted positions."""
    error = _ROUNDINGS * ROUNDOFF[dtype]
    if at.size == 1:
        at, angle = np.array([-origin, at[0]]), np.array([0.0, angle[0]])
    if at.size < 2 or at[0] == at[-1]:
        return _Line(0.0, np.pi, 0.0, 2 * np.pi, True)  # nothing is known
    at, order = np.sort(at), np.argsort(at)
    angle = angle[order]
    gaps = np.diff(at)
    first = int(np.argmin(gaps))
    gap = float(gaps[first])
    whole = bool((gaps == np.rint(gaps)).all())
    step = float(np.gcd.reduce(gaps.astype(np.int64))) if whole else gap
    period = 2 * np.pi / step
    near = float(wrap(angle[first + 1] - angle[first])) / gap
    tries = [near + 2 * np.pi * n / gap for n in range(round(gap / step))]
    # Float32 angles, which are common, have an error that grows with the position.
    of_angle = min(ROUNDOFF[dtype], ROUNDOFF["float32"]) * float(np.abs(at).max())
    every = [_refined(at, angle, w, gap, error + of_angle * abs(w), dtype) for w in tries]
    best = min(every, key=lambda line: (not line.linear, line.misfit))
    best.w -= period * np.rint(best.w / period)
    best.period = period
    return best


def _refined(
    at: np.ndarray, angle: np.ndarray, w: float, gap: float, error: float, dtype: str
) -> _Line:
    """Refine a frequency with ever larger distances of positions, while their turns are certain."""
    span, reach = float(at[-1] - at[0]), gap
    line = _Line(w, np.sqrt(2) * error / gap, 0.0, 0.0, True)
    while line.linear:
        # The farthest position that lies within ``reach`` of each one.
        last = np.searchsorted(at, at + reach, side="right") - 1
        some = np.flatnonzero(last > np.arange(at.size))
        off, distance = angle[last[some]] - angle[some], at[last[some]] - at[some]
        off = wrap(off - line.w * distance)
        line.linear = _within(line, off, distance, np.abs(at[last[some]]), dtype)
        total = float(np.sum(distance**2))
        line.misfit = float(np.mean(off**2))
        if line.linear:
            line.w += float(np.sum(distance * off)) / total
            line.sigma = 2 * error / np.sqrt(total)
        if reach >= span or SIGMAS * line.sigma * reach * _GROWTH > np.pi / 2:
            break
        reach *= _GROWTH
    line.start = float(np.angle(np.exp(1j * (angle - line.w * at)).mean()))
    if not line.linear or reach < span:
        return line
    off, centred = wrap(angle - line.start - line.w * at), at - at.mean()
    line.linear = _within(line, off, centred, np.abs(at), dtype)
    if line.linear:
        slope = float(np.sum(centred * off) / np.sum(centred**2))
        line.w, line.start = line.w + slope, line.start + float(off.mean()) - slope * at.mean()
        line.sigma = error / float(np.sqrt(np.sum(centred**2)))
    return line


def _within(
    line: _Line, off: np.ndarray, distance: np.ndarray, size: np.ndarray, dtype: str
) -> bool:
    """Return whether angles are on the line, within rounding and the error of its frequency."""
    slack = 2 * BUDGET[dtype] * (ROUNDOFF[dtype] + ROUNDOFF["float32"] * np.abs(line.w) * size)
    return bool((np.abs(off) <= slack + SIGMAS * line.sigma * np.abs(distance)).all())


def cleaned(phases: Phases) -> Phases:
    """Return the phases; frequencies within their error of 0 get the sign of most pairs.

    Rounding may make a slow pair seem to turn backwards.
    """
    w, sigma = phases.frequencies, phases.sigma
    clear = np.abs(w) > SIGMAS * sigma
    most = -1.0 if clear.any() and np.median(np.sign(w[clear])) < 0 else 1.0
    return replace(phases, frequencies=np.where(~clear & (w * most <= 0), most * sigma, w))
