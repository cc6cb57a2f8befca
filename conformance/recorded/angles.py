"""Fit the frequency of every pair to its recorded angles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.phases.frequencies import SIGMAS
from posenc_ref.conformance.phases.measure import Phases

#: The standard error of an angle, in roundoffs: both outputs of the pair and both tables round.
_ROUNDINGS = 2.0
#: The radius around the first two positions grows by this factor in each step of the fit.
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
    phases = Phases(w, sigma, _wrap(start), np.array(amplitude), linear)
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
    near = float(_wrap(angle[first + 1] - angle[first])) / gap
    tries = [near + 2 * np.pi * n / gap for n in range(round(gap / step))]
    centre = at[first]
    every = [_refined(at - centre, angle, w, gap, error, dtype) for w in tries]
    best = min(every, key=lambda line: (not line.linear, line.misfit))
    best.w -= period * np.rint(best.w / period)
    best.start -= best.w * centre
    best.period = period
    return best


def _refined(
    x: np.ndarray, angle: np.ndarray, w: float, gap: float, error: float, dtype: str
) -> _Line:
    """Refine a frequency with ever more distant positions, until their turns are uncertain."""
    radius, sigma = gap, np.sqrt(2) * error / gap
    start = float(angle[int(np.argmin(np.abs(x)))])
    line = _Line(w, sigma, start, 0.0, True)
    while True:
        inside = np.abs(x) <= radius
        off = _wrap(angle[inside] - line.start - line.w * x[inside])
        slack = BUDGET[dtype] * (
            ROUNDOFF[dtype] + ROUNDOFF["float32"] * np.abs(line.w) * np.abs(x[inside])
        )
        line.misfit = float(np.mean(off * off))
        if (np.abs(off) > 2 * slack + SIGMAS * line.sigma * np.abs(x[inside])).any():
            line.linear = False
            return line
        if inside.sum() > 1:
            mean = x[inside].mean()
            spread = float(np.sum((x[inside] - mean) ** 2))
            slope = float(np.sum((x[inside] - mean) * (off - off.mean()))) / spread
            line.w += slope
            line.start += float(off.mean()) - slope * mean
            line.sigma = error / np.sqrt(spread)
        if inside.all() or SIGMAS * line.sigma * radius * _GROWTH > np.pi / 2:
            return line
        radius *= _GROWTH


def cleaned(phases: Phases) -> Phases:
    """Return the phases; frequencies within their error of 0 get the sign of most pairs.

    Rounding may make a slow pair seem to turn backwards.
    """
    w, sigma = phases.frequencies, phases.sigma
    clear = np.abs(w) > SIGMAS * sigma
    most = -1.0 if clear.any() and np.median(np.sign(w[clear])) < 0 else 1.0
    return replace(phases, frequencies=np.where(~clear & (w * most <= 0), most * sigma, w))


def _wrap(angle: np.ndarray) -> np.ndarray:
    return np.asarray(angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))
