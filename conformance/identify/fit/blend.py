"""Fit YaRN, Llama 3 and NTK-by-parts: fast pairs give the base, slow pairs the factor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

import posenc_ref as pr
from posenc_ref import FrequencySchedule
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES
from posenc_ref.conformance.phases.schedule_mistakes import BETAS, LENGTHS, LOW_HIGH

from .measurement import PLAIN, Fit, Measurement, between, chosen, decimals, fitted_base, nice

#: DeepSeek's published pairs of mscale and mscale_all_dim.
MSCALES = ((1.0, 1.0), (0.707, 0.707), (1.0, 0.707), (0.707, 1.0), (0.5, 1.0), (1.0, 0.5))
#: The ends of a ramp may be off by this many pairs, because of rounding.
_ROUNDED = 2.5


@dataclass(frozen=True)
class Ramp:
    """The pairs of a blended schedule whose frequency is neither kept nor divided by the factor.

    The share of a pair is 0 if its frequency is kept, 1 if it is divided by the factor.
    """

    k: np.ndarray  #: the indices of the pairs on the ramp
    share: np.ndarray  #: their shares
    error: np.ndarray
    last_kept: int
    first_divided: int

    def line(self, x: np.ndarray) -> tuple[float, float] | None:
        """Fit shares by a line in ``x`` (a value per pair); return x at shares 0 and 1, or None."""
        if self.k.size < 2:
            return None
        slope, start = np.polyfit(x[self.k], self.share, 1, w=1 / self.error).tolist()
        return (-start / slope, (1 - start) / slope) if slope else None


def blends(m: Measurement) -> Iterator[Fit]:
    """Yield Llama 3, YaRN and NTK-by-parts: fast pairs give the base, slow pairs the factor."""
    if m.w.size < 2 or not (m.w > 0).all():
        return
    for base in _fast_bases(m):
        ratio = m.w / m.predicted(base)
        for fitted, factor in product((False, True), _factors(m, ratio)):
            inverse = 1 / factor
            linear = (1 - ratio) / (1 - inverse)
            geometric = -np.log(ratio) / np.log(factor)
            error = m.error * ratio / (1 - inverse)
            plain = _ramp(linear, error)
            if plain is None:
                continue
            yield from (Fit(base, s) for s in _llama3(m, base, factor, plain, fitted))
            other = _ramp(geometric, m.error / np.log(factor))
            for blend, ramp in (("linear", plain), ("geometric", other)):
                for scaling in _yarns(m, base, factor, ramp, blend, fitted) if ramp else ():
                    yield from _with_factor(m, base, scaling)
        for factor in _factors(m, ratio)[:1]:
            yield from (Fit(base, pr.NTKByParts(factor, length)) for length in LENGTHS)


def _fast_bases(m: Measurement) -> list[float]:
    """Return bases that match the fastest pairs, published ones first."""
    fast = np.arange(1, max(2, m.w.size // 8))

    def agrees(base: float) -> bool:
        return bool(m.agree(m.predicted(base))[fast].all())

    found = [b for b in PUBLISHED_BASES if agrees(b)]
    if not found and m.w.size > 2:
        fitted = fitted_base(m, 1.0, fast)
        every = () if fitted is None else (*chosen(m, fitted, fast), fitted)
        found = [b for b in dict.fromkeys(every) if b > 1 and agrees(b)]
    return found[:4]


def _factors(m: Measurement, ratio: np.ndarray) -> list[float]:
    """Return likely factors, from the slowest pair or from the measured factor on cos and sin."""
    slowest = 1 / float(ratio[-1])
    if slowest <= 1 + float(m.error[-1]):
        return []
    seen = nice(slowest, float(m.error[-1]))
    if seen in PLAIN or abs(ratio[-2] * slowest - 1) <= m.error[-2:].sum():
        return [seen]
    # No pair is slow enough to give the factor: use m, or usual factors.
    size = m.factor.m
    suggested = float(np.exp((size - 1.0) * 10)) if size > 1.0 else 0.0
    near = [f for f in PLAIN if abs(suggested / f - 1) < 10 * (m.factor.error + 1 / 64)]
    more = sorted(f for f in PLAIN if slowest < f)
    return list(dict.fromkeys((*near, *more, seen)))


def _ramp(share: np.ndarray, error: np.ndarray) -> Ramp | None:
    """Return the ramp, or None if shares do not start at 0 and rise with the pair index.

    If no pair has share 1, the ramp includes the last pair.
    """
    kept, divided = np.abs(share) <= error, np.abs(share - 1) <= error
    if (share < -error).any() or (share > 1 + error).any() or not kept[0]:
        return None
    last = int(np.argmin(kept)) - 1 if not kept.all() else share.size - 1
    first = int(np.argmax(divided)) if divided.any() else share.size
    if last >= first or kept[last + 1 :].any() or not divided[first:].all():
        return None
    k = np.arange(last + 1, first)
    return Ramp(k, share[k], error[k], last, first)


def _llama3(
    m: Measurement, base: float, factor: float, ramp: Ramp, fitted: bool
) -> Iterator[FrequencySchedule]:
    """Yield Llama 3 scalings: the share of a pair is linear in its frequency."""
    if not fitted:
        for (low, high), length in product(LOW_HIGH, LENGTHS):
            yield pr.Llama3Scaling(factor, low, high, length)
        return
    turns = m.predicted(base) / (2 * np.pi)
    ends = ramp.line(turns)
    if ends is None:
        if ramp.k.size == 0 and ramp.first_divided < m.w.size:  # no pair is on the ramp
            shortest, longest = 1 / turns[ramp.last_kept], 1 / turns[ramp.first_divided]
            for length in _integers(between(shortest, longest, 8192.0)):
                yield pr.Llama3Scaling(factor, 1.0, 1.0, length)
        return
    high, low = ends
    if not 0 < low <= high:
        return
    for digits in (1, 2, 3, 7):
        for length in (*LENGTHS, *_integers(1 / low)):
            few, many = (float(f"{v * length:.{digits}g}") for v in (low, high))
            if 0 < few <= many:
                yield pr.Llama3Scaling(factor, few, many, length)


def _integers(value: float) -> list[int]:
    if not 1 <= value < 2**40:
        return []
    return list(dict.fromkeys(round(v) for v in (*decimals(value), value)))


def _yarns(
    m: Measurement, base: float, factor: float, ramp: Ramp, blend: str, fitted: bool
) -> Iterator[pr.YaRN]:
    """Yield YaRN scalings: the share of a pair is linear in its index."""
    per_turn = m.rotary_dim / (2 * math.log(base))

    def near(length: int, fast: float, slow: float) -> bool:
        """Return whether both ends of YaRN's ramp are within ``_ROUNDED`` of the measured ends."""
        low, high = (per_turn * math.log(length / (2 * math.pi * b)) for b in (fast, slow))
        begins = abs(max(low, 0.0) - max(ramp.last_kept, 0)) <= _ROUNDED
        ends = high - ramp.first_divided <= _ROUNDED or ramp.first_divided == m.w.size
        return bool(begins and ends and high >= ramp.first_divided - _ROUNDED)

    def made(length: int, fast: float, slow: float, truncate: bool) -> Iterator[pr.YaRN]:
        if length >= 1 and 0 < slow <= fast and near(length, fast, slow):
            yield pr.YaRN(
                factor, length, beta_fast=fast, beta_slow=slow, truncate=truncate, blend=blend
            )

    if not fitted:
        for (fast, slow), length, truncate in product(BETAS, LENGTHS, (True, False)):
            yield from made(length, fast, slow, truncate)
        return
    line = ramp.line(np.arange(m.w.size).astype(float))
    low, high = line or (float(ramp.last_kept), float(ramp.first_divided))
    if not low < high <= m.rotary_dim:
        return

    def turns(k: float) -> float:
        return float(base ** (-2.0 * k / m.rotary_dim) / (2 * np.pi))

    whole = (round(low), round(high))
    for fast, slow in BETAS:  # rounded ends: fit the length, then the turns
        least = max(fast / turns(whole[0]), slow / turns(whole[1] - 1))
        most = min(fast / turns(whole[0] + 1), slow / turns(whole[1]))
        if least < most:
            usual = (n for n in (4096, *(2**k for k in range(6, 32))) if least <= n <= most)
            yield from made(round(between(least, most, next(usual, 4096))), fast, slow, True)
    for length in LENGTHS:
        fast = between(length * turns(whole[0] + 1), length * turns(whole[0]), 32.0)
        slow = between(length * turns(whole[1]), length * turns(whole[1] - 1), 1.0)
        yield from made(length, fast, slow, True)
    for slow in (1.0, 2.0, 4.0, 0.5):
        for length in _integers(slow / turns(high)):
            for fast in decimals(length * turns(low), digits=5):
                yield from made(length, fast, slow, False)
    for length in LENGTHS:
        yield from made(length, length * turns(low), length * turns(high), False)


def _with_factor(m: Measurement, base: float, bare: pr.YaRN) -> Iterator[Fit]:
    """Yield the YaRN scaling ``bare`` with the measured factor, from a rule or as a number."""
    if not m.meets(base, bare):
        return
    if m.has_factor(bare.magnitude(None)):
        yield Fit(base, bare)
        return
    for one, all_dim in MSCALES:
        scaled = bare.replace(mscale=one, mscale_all_dim=all_dim)
        if one != all_dim and m.has_factor(scaled.magnitude(None)):
            yield Fit(base, scaled)
    yield Fit(base, bare.replace(attention_factor=m.factor.short))
