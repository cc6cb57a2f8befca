"""Fit the simplest base and scaling that give all measured frequencies.

A candidate must predict every frequency within its uncertainty.  Published constants come before
fitted ones, and one fitted constant before two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

import posenc_ref as pr
from posenc_ref.accuracy import ROUNDOFF, TINY
from posenc_ref.conformance.phases.fitted_parameters import other_exponents
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES, SIGMAS

from .blend import blends
from .measurement import PLAIN, Fit, Measurement, chosen, decimals, fitted_base, nice

#: The most digits of a hand-written fraction.
_DIGITS = 7
#: The most digits of a factor that is taken if the tolerance, not the measurement, leaves it.
_FEW = 4


def fit(m: Measurement) -> Fit:
    """Return the simplest base and scaling, or a list of the frequencies if none matches."""
    for found in (f for part in (_plain, _linear, _still, blends) for f in part(m)):
        if found.base > 1.0 and m.meets(found.base, found.scaling):
            return found
    return Fit(10000.0, given(m), named=False)


def given(m: Measurement) -> pr.GivenFrequencies:
    """Return a scaling that lists the measured frequencies, rounded within their uncertainty."""
    pairs = zip(m.w.tolist(), (m.noise / SIGMAS).tolist(), strict=True)
    w = tuple(nice(v, e, 4 * ROUNDOFF["float64"]) if v else 0.0 for v, e in pairs)
    return pr.GivenFrequencies(w, attention_factor=max(m.factor.short, TINY["float32"]))


def _plain(m: Measurement) -> Iterator[Fit]:
    """Yield published bases, bases with few digits, NTK with usual factors, then any base."""
    if not (m.w > 0).all():
        return
    yield from map(Fit, PUBLISHED_BASES)
    fitted = fitted_base(m, 1.0)
    if fitted is None:
        return
    yield from map(Fit, decimals(fitted, digits=3))
    for known, factor in product(PUBLISHED_BASES, PLAIN if m.rotary_dim > 2 else ()):
        stretched = known * factor ** (m.rotary_dim / (m.rotary_dim - 2))
        if abs(np.log(stretched / fitted)) < 1 / 64:
            yield Fit(known, pr.NTKScaling(factor))
    n = m.w.size
    yield from (Fit(known ** (n / whole)) for known, whole in other_exponents(fitted, n))
    yield from map(Fit, (*chosen(m, fitted), float(round(fitted)), fitted))


def _linear(m: Measurement) -> Iterator[Fit]:
    """Yield position interpolation by the factor that the fastest pair gives."""
    if not (m.w > 0).all():
        return
    first = 1 / float(m.w[0])
    factor = nice(first, float(m.error[0]))
    if factor <= 1.0:
        return
    # A factor of many digits is not rounded to those that the tolerance leaves: far positions show
    # the difference.
    if float(f"{factor:.{_FEW}g}") != factor:
        factor = nice(first, float(m.noise[0]) + 4 * m.roundoff)
    yield from (Fit(base, pr.LinearScaling(factor)) for base in PUBLISHED_BASES)
    yield from _su(m)
    for f in dict.fromkeys((factor, first)):
        fitted = fitted_base(m, f)
        for base in (*chosen(m, fitted), fitted) if fitted else ():
            yield Fit(base, pr.LinearScaling(f))


def _su(m: Measurement) -> Iterator[Fit]:
    """Yield Su's scaling, whose divisor rises from a root of the factor to the factor itself."""
    if m.w.size < 3:
        return
    for base in PUBLISHED_BASES:
        divisor = m.predicted(base) / m.w
        if divisor[0] <= 1 or divisor[-1] <= divisor[0]:
            continue
        slope = np.log(np.log(divisor[0]) / np.log(divisor[-1])) / np.log(2 / m.rotary_dim)
        factor = nice(float(divisor[-1]), float(m.error[-1]))
        for power in decimals(float(slope), digits=4):
            if power > 0 and factor >= 1.0:
                yield Fit(base, pr.SuNTK(factor, power=power))


def _still(m: Measurement) -> Iterator[Fit]:
    """Yield proportional rotation, in which the last pairs have frequency 0."""
    turning = int(np.count_nonzero(m.w))
    if not 0 < turning < m.w.size or not (m.w[:turning] > 0).all():
        return
    factor = max(nice(1 / float(m.w[0]), float(m.error[0])), 1.0)
    scaling = pr.Proportional(_fraction(turning, m.w.size), factor=factor)
    yield from (Fit(base, scaling) for base in PUBLISHED_BASES)
    if turning > 1:
        ratio = float(m.w[turning - 1]) * factor
        fitted = ratio ** (-m.w.size / (turning - 1))
        yield from (Fit(base, scaling) for base in (*decimals(fitted), fitted) if fitted > 1)


def _fraction(turning: int, pairs: int) -> float:
    """Return the fraction with the fewest digits that rotates ``turning`` of ``pairs`` pairs."""
    if round(turning / pairs, 3) == turning / pairs:
        return turning / pairs
    for n in range(1, _DIGITS):
        at = np.ceil(round(turning / pairs * 10**n, 9)) / 10**n
        if int(at * 2 * pairs // 2) == turning:
            return float(at)
    return turning / pairs
