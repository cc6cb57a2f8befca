"""From measured frequencies to a base and a scaling: the simplest family that gives them all.

Declared or published constants are tried before fitted ones, and every candidate is a complete
prediction: it stands only if it meets every measured frequency within its uncertainty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import posenc_ref as pr
from posenc_ref import FrequencySchedule

from .alternatives import BETAS, FACTORS, LENGTHS, LOW_HIGH
from .alternatives_shapes import LLAMA3_SHAPES, YARN_SHAPES, Head
from .frequencies import PUBLISHED_BASES, agree

#: Bases are rounded to this many significant digits, if that still agrees.
_DIGITS = (1, 2, 3, 4, 6)
#: Scale factors that are tried before a fitted one.
_PLAIN = (*FACTORS, 3.0, 5.0, 6.0, 10.0, 12.0, 20.0, 24.0, 48.0, 80.0, 100.0)


@dataclass(frozen=True)
class Fit:
    """One explanation of the frequencies."""

    base: float
    scaling: FrequencySchedule | None
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """Frequencies of ``n`` pairs of ``rotary_dim`` channels, their errors, and the factor m."""

    w: np.ndarray
    sigma: np.ndarray
    rotary_dim: int
    m: float = 1.0
    m_error: float = 0.0

    def meets(self, base: float, scaling: FrequencySchedule | None) -> bool:
        """Whether a base and a scaling give every frequency."""
        return bool(agree(self.w, self._predicted(base, scaling), self.sigma).all())

    def _predicted(self, base: float, scaling: FrequencySchedule | None) -> np.ndarray:
        """Frequencies in float64: thousands are tried, and 50 digits would tell no more."""
        if scaling is None:
            return self.plain(base)
        if isinstance(scaling, pr.LinearScaling):
            return self.plain(base) / scaling.factor
        shape = YARN_SHAPES if isinstance(scaling, pr.YaRN) else LLAMA3_SHAPES
        d = self.rotary_dim
        return shape["as declared"](Head(d, d, base), scaling)

    def plain(self, base: float) -> np.ndarray:
        """Unscaled frequencies."""
        return np.asarray(base ** (-np.arange(self.w.size) / self.w.size))

    def factor_fits(self, scaling: FrequencySchedule | None) -> bool:
        """Whether the scaling has the measured attention factor."""
        m = 1.0 if scaling is None else scaling.magnitude(None)
        return abs(self.m - m) <= self.m_error + 2 * self.sigma_unit() * m

    def sigma_unit(self) -> float:
        """The relative error of the fastest frequency, as a yardstick."""
        return float(self.sigma[0] / abs(self.w[0])) if self.w[0] else 0.0


def fit(m: Measurement) -> Fit:
    """The simplest explanation; frequencies as they are, if nothing explains them."""
    for found in _candidates(m):
        if m.meets(found.base, found.scaling):
            if found.scaling is None:
                return Fit(found.base, None, _ntk_aliases(m, found.base))
            return found
    frequencies = tuple(float(w) for w in m.w)
    return Fit(10000.0, pr.GivenFrequencies(frequencies, attention_factor=m.m))


def _candidates(m: Measurement) -> Iterator[Fit]:
    if not (m.w > 0).all():
        return
    for base in PUBLISHED_BASES:
        yield Fit(base, None)
    slope = _base_of(m, 1.0)
    if slope is not None:
        for base in _rounded(slope):
            yield Fit(base, None)
    yield from _linear(m)
    yield from _blends(m)


def _base_of(m: Measurement, factor: float) -> float | None:
    """The base of geometric frequencies that start at ``1 / factor``, by least squares."""
    if m.w.size < 2:
        return None
    k = np.arange(m.w.size)
    weight = 1 / (np.finfo(np.float32).eps + m.sigma / m.w) ** 2
    through = float(np.sum(weight * k * np.log(m.w * factor)) / np.sum(weight * k * k))
    return float(np.exp(-through * m.w.size)) if through < 0 else None


def _rounded(value: float) -> Iterator[float]:
    """``value`` to a few significant digits, to an integer, and as it is."""
    for digits in _DIGITS:
        yield float(f"{value:.{digits}g}")
    yield float(round(value))
    yield value


def _ntk_aliases(m: Measurement, base: float) -> tuple[str, ...]:
    """NTK scalings of published bases that are the same base."""
    if m.rotary_dim <= 2:
        return ()
    found = []
    for known in PUBLISHED_BASES:
        for factor in _PLAIN:
            stretched = known * factor ** (m.rotary_dim / (m.rotary_dim - 2))
            if known != base and m.meets(stretched, None):
                found.append(f"base={known:g} with NTKScaling({factor:g})")
    return tuple(found[:3])


def _linear(m: Measurement) -> Iterator[Fit]:
    """Position interpolation: the fastest pair shows the factor."""
    first = 1 / float(m.w[0])
    if first <= 1.0:
        return
    for factor in dict.fromkeys((*(f for f in _PLAIN if abs(first / f - 1) < 1 / 8), first)):
        base = _base_of(m, factor)
        bases = [*PUBLISHED_BASES, *(_rounded(base) if base else ())]
        for b in bases:
            yield Fit(b, pr.LinearScaling(factor), (f"positions multiplied by {1 / factor:g}",))


def _blends(m: Measurement) -> Iterator[Fit]:
    """YaRN and Llama 3: fast pairs show the base, slow ones the factor, those between the rest."""
    for base in _fast_bases(m):
        ratio = m.w / m.plain(base)
        slowest = float(1 / ratio[-1])
        factors = [f for f in _PLAIN if abs(slowest / f - 1) < 1 / 8] or [slowest]
        for factor in factors:
            yield from _llama3(m, base, factor)
            yield from _yarn(m, base, factor)
        # Where no pair is slow enough to show the factor, m may.
        if m.m > 1.0:
            told = float(np.exp((m.m - 1.0) * 10))
            for factor in (f for f in _PLAIN if abs(told / f - 1) < 1 / 8):
                yield from _yarn(m, base, factor)


def _fast_bases(m: Measurement) -> list[float]:
    """Bases that the fastest pairs agree with."""
    fast = slice(1, max(2, m.w.size // 8))
    found = [
        b
        for b in PUBLISHED_BASES
        if agree(m.w[fast], m.plain(b)[fast], m.sigma[fast]).all()
        and not agree(m.w, m.plain(b), m.sigma).all()
    ]
    if not found and m.w.size > 2:
        second = float(m.w[1]) ** -m.w.size
        found = [
            b for b in dict.fromkeys(_rounded(second))
            if b > 1 and agree(m.w[fast], m.plain(b)[fast], m.sigma[fast]).all()
        ]  # fmt: skip
    return found


def _llama3(m: Measurement, base: float, factor: float) -> Iterator[Fit]:
    if factor <= 1.0:
        return
    for low, high in LOW_HIGH:
        for length in LENGTHS:
            yield Fit(
                base,
                pr.Llama3Scaling(factor, low, high, length),
                ("original_max_position, low_freq_factor and high_freq_factor scale together",),
            )


def _yarn(m: Measurement, base: float, factor: float) -> Iterator[Fit]:
    if factor <= 1.0:
        return
    aliases = ("original_max_position, beta_fast and beta_slow scale together",)
    for fast, slow in BETAS:
        for length in LENGTHS:
            for truncate in (True, False):
                try:
                    bare = pr.YaRN(
                        factor, length, beta_fast=fast, beta_slow=slow, truncate=truncate
                    )
                except ValueError:
                    continue
                if m.factor_fits(bare):
                    yield Fit(base, bare, aliases)
                elif m.meets(base, bare):
                    yield Fit(base, bare.replace(attention_factor=nice(m.m, m.m_error)), aliases)


def nice(value: float, error: float = 0.0) -> float:
    """``value`` rounded as far as its error allows."""
    for digits in range(1, 8):
        short = float(f"{value:.{digits}g}")
        if abs(short - value) <= max(error, float(np.finfo(np.float32).eps) * abs(value)):
            return short
    return value
