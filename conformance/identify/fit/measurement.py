"""Measured frequencies, and round numbers near them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

import posenc_ref as pr
from posenc_ref import FrequencySchedule
from posenc_ref.accuracy import BUDGET, ROUNDOFF
from posenc_ref.conformance.phases.formula_mistakes import LLAMA3_SHAPES, YARN_SHAPES, Head
from posenc_ref.conformance.phases.frequencies import SIGMAS
from posenc_ref.conformance.phases.schedule_mistakes import FACTORS

#: Usual factors; 3, 7, 13, 57 are those of dynamic NTK at 2, 3, 4, 8 times the length.
PLAIN = (
    *FACTORS, 1.5, 2.5, 3.0, 5.0, 6.0, 10.0, 12.0, 20.0, 24.0, 48.0, 80.0, 100.0, 1000.0,
    7.0, 13.0, 57.0, 241.0,
)  # fmt: skip
#: The most significant digits of a hand-written constant.
_DIGITS = 7
#: Digits of a float64.
_MOST = 17


@dataclass(frozen=True)
class Fit:
    """A base and a scaling that give the frequencies."""

    base: float
    scaling: FrequencySchedule | None = None
    named: bool = True  #: False if the scaling only lists the frequencies


@dataclass(frozen=True)
class Factor:
    """The measured factor m on cos and sin."""

    m: float = 1.0
    error: float = 0.0  #: the relative tolerance for another m
    sigma: float = 0.0  #: the relative uncertainty of m, for rounding it

    @property
    def short(self) -> float:
        """1 if m equals 1 within ``error``, else m as the shortest decimal within ``sigma``."""
        if abs(self.m - 1.0) <= self.error:
            return 1.0
        return nice(self.m, self.sigma, 4 * ROUNDOFF["float64"])


@dataclass(frozen=True)
class Measurement:
    """Measured frequencies of all pairs, their standard errors, and the factor on cos and sin."""

    w: np.ndarray
    sigma: np.ndarray
    factor: Factor = Factor()
    roundoff: float = ROUNDOFF["float32"]  #: roundoff of the function's own frequencies

    @classmethod
    def of(cls, dtype: str, w: np.ndarray, sigma: np.ndarray, factor: Factor) -> Measurement:
        """Return a measurement made from results of the given dtype."""
        return cls(w, sigma, factor, min(ROUNDOFF["float32"], ROUNDOFF[dtype]))

    @property
    def rotary_dim(self) -> int:
        """The number of rotated channels."""
        return 2 * self.w.size

    @property
    def noise(self) -> np.ndarray:
        """The relative uncertainty of each frequency, infinite for frequency 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.w == 0, np.inf, SIGMAS * self.sigma / np.abs(self.w))

    @property
    def error(self) -> np.ndarray:
        """The relative tolerance of each frequency."""
        return np.asarray(BUDGET["float32"] * self.roundoff + self.noise)

    def agree(self, predicted: np.ndarray) -> np.ndarray:
        """Return the mask of the pairs with the predicted frequency."""
        slack = BUDGET["float32"] * self.roundoff * np.abs(predicted) + SIGMAS * self.sigma
        return np.asarray(np.abs(self.w - predicted) <= slack)

    def meets(self, base: float, scaling: FrequencySchedule | None) -> bool:
        """Return whether a base and a scaling give all measured frequencies."""
        predicted = self.predicted(base, scaling)
        return predicted.size == self.w.size and bool(self.agree(predicted).all())

    def part(self, pairs: np.ndarray | slice, scale: float = 1.0) -> Measurement:
        """Return the measurement of some pairs, with frequencies divided by ``scale``."""
        return replace(self, w=self.w[pairs] / scale, sigma=self.sigma[pairs] / scale)

    def predicted(self, base: float, scaling: FrequencySchedule | None = None) -> np.ndarray:
        """Return the frequencies that a base and a scaling give."""
        return predict(base, scaling, self.rotary_dim)

    def has_factor(self, m: float) -> bool:
        """Return whether m equals the measured attention factor."""
        return abs(self.factor.m - m) <= self.factor.error * max(1.0, m)


def predict(base: float, scaling: FrequencySchedule | None, d: int) -> np.ndarray:
    """Return the frequencies of a base and a scaling, with a fast formula for common scalings."""
    k = np.arange(d // 2)
    plain = np.asarray(base ** (-2.0 * k / d))
    if scaling is None:
        return plain
    if isinstance(scaling, pr.LinearScaling):
        return np.asarray(plain / scaling.factor)
    if isinstance(scaling, pr.NTKScaling) and d > 2:
        return np.asarray(plain / scaling.factor ** (2.0 * k / (d - 2)))
    if isinstance(scaling, pr.YaRN):
        blend = scaling.blend == "geometric"
        return YARN_SHAPES["as declared"](Head(d, d, base), scaling, geometric=blend)
    if isinstance(scaling, pr.Llama3Scaling):
        return LLAMA3_SHAPES["as declared"](Head(d, d, base), scaling)
    try:
        return np.array([float(w) for w in scaling.schedule(base, d, None)])
    except ValueError:  # invalid parameters
        return np.zeros(0)


def fitted_base(m: Measurement, factor: float, k: np.ndarray | None = None) -> float | None:
    """Return the base that fits pairs k best if pair 0 has frequency ``1 / factor``, or None."""
    if m.w.size < 2:
        return None
    k = np.arange(m.w.size) if k is None else k
    weight = 1 / m.error[k] ** 2
    through = float(np.sum(weight * k * np.log(m.w[k] * factor)) / np.sum(weight * k * k))
    base = float(np.exp(-through * m.w.size))
    return base if 1.0 + BUDGET["float32"] * ROUNDOFF["float32"] < base < np.inf else None


def chosen(m: Measurement, fitted: float, k: np.ndarray | None = None) -> tuple[float, ...]:
    """Return bases with few digits, those within the uncertainty first."""
    k = np.arange(m.w.size) if k is None else k
    weight = k / (m.noise[k] + m.roundoff)
    error = 16 * m.roundoff + m.w.size / float(np.sqrt(np.sum(weight**2)))
    return (*decimals(fitted, _MOST, error * fitted), *decimals(fitted))


def decimals(value: float, digits: int = _DIGITS, error: float = np.inf) -> Iterator[float]:
    """Yield ``value`` rounded to 1, 2, ... significant digits, if within ``error``."""
    for n in range(1, digits + 1):
        short = float(f"{value:.{n}g}")
        if abs(short - value) <= error:
            yield short


def nice(value: float, error: float = 0.0, least: float = ROUNDOFF["float32"]) -> float:
    """Return the shortest decimal with a relative error of at most ``max(error, least)``."""
    slack = max(error, least) * abs(value)
    return next(decimals(value, _MOST, slack), value)


def between(low: float, high: float, usual: float) -> float:
    """Return ``usual`` if it is in (low, high], else the shortest decimal in that range."""
    if low < usual <= high:
        return usual
    for n in range(1, _DIGITS + 1):
        step = 10.0 ** (np.floor(np.log10(high)) - n + 1)
        last = float(f"{np.floor(high / step) * step:.{n}g}")
        if low < last <= high:
            return last
    return high


def equal_range(value: int, same: Callable[[int], bool]) -> tuple[int, int]:
    """Return the smallest and the largest integer around ``value`` for which ``same`` holds."""

    def last(direction: int) -> int:
        inside, step = value, max(value // 1024, 1)
        while step >= 1:
            further = inside + direction * step
            if 1 <= further < 2**40 and same(further):
                inside, step = further, step * 2
            else:
                step //= 2
        return inside

    return last(-1), last(1)
