"""Measure frequencies at large positions, the attention factor, and the origin."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from posenc_ref import XPos
from posenc_ref.accuracy import BUDGET, FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Reach
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.frequencies import SIGMAS
from posenc_ref.conformance.phases.measure import Phases, Tables, unaliased
from posenc_ref.limits import MAGNITUDE

from .card import Unidentified
from .fit.measurement import Factor, nice

#: Positions to average amplitudes over, for results coarser than float32.
_MANY = np.arange(256)
#: Smaller frequencies, such as those with a divisor of 1e30, turn nothing.
_STILL = 2.0**-80
#: Positions at which the amplitudes of xPos are compared.
_XPOS = np.array([0, 64, 128, 192])
#: The largest position for measuring frequencies, and the largest if calls start at 0.
_LEVER, _PREFIX_LEVER = 2**19, 2**11


def reach(access: Reach) -> int:
    """Return the largest position for measuring frequencies."""
    return access.reach(_PREFIX_LEVER if access.mode == "prefix" else _LEVER)


def refined(tables: Tables, phases: Phases, most: int, dtype: str, least: int = 32) -> Phases:
    """Return ``phases`` with frequencies refined at positions from ``least`` to ``most``.

    ``phases`` is returned unchanged if angles are not linear in the position.  Positions are powers
    of two, so that their products with a frequency are exact.
    """
    if not phases.linear:
        return phases
    w, sigma = np.array(phases.frequencies), np.array(phases.sigma)
    for at in 2 ** np.arange((least - 1).bit_length(), most.bit_length()):
        try:
            cos, sin = tables(np.array([at]))
        except (Refused, Malformed):
            break
        if not (np.isfinite(cos).all() and np.isfinite(sin).all()):
            break
        off = np.arctan2(sin[0], cos[0]) - phases.start - w * at
        off -= 2 * np.pi * np.rint(off / (2 * np.pi))
        slack = BUDGET[dtype] * ROUNDOFF[dtype] + BUDGET["float32"] * sigma * at
        if (np.abs(off) > slack + ROUNDOFF["float32"] * np.abs(w) * at).any():
            break
        w += off / at
        lever = ROUNDOFF[dtype] * np.minimum(1.0, np.abs(w) * at) / at
        sigma = np.minimum(sigma, lever + ROUNDOFF["float64"] * np.abs(w))
    w[np.abs(w) < _STILL] = 0.0
    found = replace(phases, frequencies=w, sigma=sigma)
    coarse = ROUNDOFF[dtype] > ROUNDOFF["float32"]
    return _averaged(tables, found, most, dtype) if coarse else found


def finite_until(tables: Tables, finite: int, other: int) -> str:
    """Return in words where results stop being finite: at ``finite`` they are, at ``other`` not."""
    while other - finite > 1:
        middle = (finite + other) // 2
        try:
            good = all(np.isfinite(part).all() for part in tables(np.array([middle])))
        except (Refused, Malformed):
            break
        finite, other = (middle, other) if good else (finite, middle)
    return f"at position {finite}; at position {other}, results are NaN or infinity"


def _averaged(tables: Tables, phases: Phases, most: int, dtype: str) -> Phases:
    """Return frequencies fitted over many large positions, for results coarser than float32."""
    at = np.unique(np.linspace(most // 2, most, _MANY.size).astype(np.int64))
    try:
        cos, sin = tables(at)
    except (Refused, Malformed):
        return phases
    off = np.arctan2(sin, cos) - phases.start - at[:, None] * phases.frequencies
    off -= 2 * np.pi * np.rint(off / (2 * np.pi))
    if not np.abs(off).max() <= 1:  # the number of whole turns is uncertain, or there is NaN
        return phases
    w = phases.frequencies + np.sum(at[:, None] * off, axis=0) / np.sum(at.astype(float) ** 2)
    sigma = np.minimum(phases.sigma, ROUNDOFF[dtype] / (most / 2 * np.sqrt(at.size)))
    return replace(phases, frequencies=w, sigma=sigma)


@dataclass(frozen=True)
class OneSide:
    """A factor that only cos, or only sin, has."""

    name: str
    factor: Factor

    @property
    def words(self) -> str:
        """The factors of both."""
        size = f"{self.factor.short:.8g}"
        other = {"cos": "1 on sin", "sin": "1 on cos"}
        return f"{size} on {self.name}, {other[self.name]}"


def unequal(tables: Tables, phases: Phases, dtype: str) -> tuple[Tables, Phases, OneSide | None]:
    """Return tables divided by a factor that only cos or only sin has, and this factor, or None.

    Cosines are their factor at position 0, where sines are 0. If it is 1, the sines of small angles
    give theirs: ``sin / sqrt(1 - cos^2)``.
    """
    same = tables, phases, None
    if phases.linear:
        return same
    cos, sin = (part[0] for part in tables(np.array([0])))
    slack, name = BUDGET[dtype] * ROUNDOFF[dtype], "cos"
    factor = float(np.median(cos))
    if not factor > 0 or np.abs(cos - factor).max() > slack * factor:
        return same
    if abs(factor - 1) <= slack:
        cos_1, sin_1 = tables(np.array([1]))
        k = int(np.argmin(np.abs(np.abs(cos_1[0]) - np.sqrt(0.5))))  # the angle nearest to pi/4
        square = 1 - cos_1[0, k] ** 2
        name, factor = "sin", float(np.abs(sin_1[0, k]) / np.sqrt(square)) if square > 0.1 else 1.0

    def even(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cosines, sines = tables(at)
        return (cosines / factor, sines) if name == "cos" else (cosines, sines / factor)

    if not factor > 0 or abs(factor - 1) <= slack:
        return same
    found = unaliased(even, dtype)
    if not found.linear or np.abs(sin).max() > ROUNDOFF[dtype]:
        return same
    return even, found, OneSide(name, Factor(factor, slack, 4 * ROUNDOFF[dtype]))


def uncertainty(phases: Phases, dtype: str) -> np.ndarray:
    """Return the standard errors of the frequencies, at least those of float32 angles."""
    rounding = min(ROUNDOFF["float32"], ROUNDOFF[dtype])
    return np.asarray(np.hypot(phases.sigma, rounding * np.abs(phases.frequencies)))


def amplitude(run: Run, access: Reach, tables: Tables, phases: Phases) -> Factor:
    """Return the measured factor m on cos and sin."""
    rounding, typical = ROUNDOFF[run.coarse], float(np.median(phases.amplitude))
    if rounding <= ROUNDOFF["float32"]:
        return Factor(typical, run.budget * rounding, 4 * rounding)
    try:
        cos, sin = tables(access.within(_MANY))
    except (Refused, Malformed):
        return Factor(typical, 2 * rounding, rounding)
    size = np.hypot(cos, sin)
    sigma = rounding / float(np.sqrt(size.size))
    return Factor(float(size.mean()), FACTOR_SLACK + SIGMAS * sigma, 2 * sigma)


def origin(phases: Phases, dtype: str) -> float:
    """Return the position whose angles the function uses for position 0."""
    w, start = phases.frequencies, phases.start
    error = BUDGET[dtype] * (ROUNDOFF[dtype] + ROUNDOFF["float32"])
    if (np.abs(start) <= error).all() or not phases.linear:
        return 0.0
    if not w.any():
        return 0.0
    # Start with the slowest of the fast pairs, which has the fewest whole turns.
    turning = np.flatnonzero(np.abs(w) > np.abs(w).max() / 64)
    offset = float(start[turning[-1]] / w[turning[-1]])
    for k in turning[::-1]:
        rest = start[k] - offset * w[k]
        offset += float((rest - 2 * np.pi * np.rint(rest / (2 * np.pi))) / w[k])
    # The shortest number that gives all angles.
    for short in dict.fromkeys((nice(offset, 4 * error), nice(offset, error / 8), offset)):
        off = np.angle(np.exp(1j * (start - short * w)))
        if (np.abs(off) <= error * (1 + abs(short))).all():
            return short
    return 0.0


def xpos_rates(tables: Tables, access: Reach, dtype: str) -> tuple[np.ndarray, float] | None:
    """Return the slope of each pair's log amplitude (None if not constant), and xPos's scale_base.

    The scale_base is 0 if the slopes are not those of XPos.
    """
    at = access.within(_XPOS)
    if at.size < _XPOS.size:
        return None
    size = np.hypot(*tables(at))
    if not (size > 0).all():
        return None
    steps = np.diff(np.log(size), axis=0) / np.diff(at)[:, None]
    error = BUDGET[dtype] * ROUNDOFF[dtype] / float(np.diff(at).min())
    if np.ptp(steps, axis=0).max() > error or np.abs(steps).max() <= error:
        return None
    rate, known = steps[0], XPos(2 * size.shape[1], layout="half")
    share = np.arange(size.shape[1]) / size.shape[1]
    expected = np.log((share + known.gamma) / (1 + known.gamma))
    scale = nice(abs(float(expected[0] / rate[0])), error / abs(float(rate[0])))
    near = np.abs(np.abs(expected) / scale - np.abs(rate)).max() <= 2 * error
    return rate, scale if near else 0.0


def like_xpos(tables: Tables, access: Reach, dtype: str) -> list[str]:
    """Return a sentence if amplitudes change by a constant factor per position, as in xPos."""
    found = xpos_rates(tables, access, dtype)
    if found is None:
        return []
    text = "the amplitude of every pair changes by a constant factor per position, as in xPos"
    rate, scale = found
    if scale:
        side = "queries" if rate[0] < 0 else "keys"
        text += f": XPos(..., scale_base={scale:g}, gamma={XPos.gamma:g}) for {side}"
    return [text]


def require_factor(factor: Factor) -> None:
    """Raise Unidentified if no encoding may multiply cos and sin by the factor."""
    if not abs(factor.short) <= MAGNITUDE:
        raise Unidentified(
            f"cos and sin are multiplied by {factor.short:.7g}; the attention_factor of an "
            f"encoding is at most {MAGNITUDE:g}"
        )
