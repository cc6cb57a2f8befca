"""Identify how frequencies change with the length of the call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import posenc_ref as pr
from posenc_ref import MultiAxisRoPE, RoPE
from posenc_ref.accuracy import BUDGET, FACTOR_SLACK, ROUNDOFF
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.reach import Reach
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.phases.frequencies import PUBLISHED_BASES, SIGMAS
from posenc_ref.conformance.phases.measure import Phases, Tables, unwrap
from posenc_ref.conformance.phases.schedule_mistakes import LENGTHS
from posenc_ref.limits import MAGNITUDE

from .card import Card, Unidentified
from .fit.measurement import PLAIN, Factor, Measurement, nice
from .measure import finite_until, reach, refined

_Rope = RoPE | MultiAxisRoPE
NOT_LINEAR = "angles are not linear in the position, or amplitudes change with it"
#: The text for frequencies without a rule, removed if a rule by length is found.
UNSPACED = "no known rule (a base and a scaling) gives the frequencies"
_NO_RULE = "no known rule gives the frequencies of longer calls"
#: Lengths to try, from short to long: one more than each usual original length.
LADDER = tuple(2**k + 1 for k in range(7, 18))
#: Positions compared between calls of different lengths; the shortest call has only these.
_EARLY = np.array([0, 1, 2, 4, 8, 16, 32, 63])
_LONGEST = 2**20
#: The positions over which `unwrap` measures a frequency.
_SPAN = 16
#: The tolerance, in roundings, for two calls with the same frequencies.
_SAME = 4


class NotFinite(Unidentified):
    """Raised if a result contains NaN or infinity."""


class Lengths:
    """Access to the frequencies in calls of a chosen length, which is the last position plus 1."""

    def __init__(self, run: Run, access: Reach, tables: Tables, short: Phases, card: Card) -> None:
        self.run, self._tables, self.short = run, tables, short
        self._access = access
        self.whole = access.mode in ("any", "prefix")  #: one call can have early and late positions
        self.seen: dict[int, bool] = {}  #: frequencies equal the shortest call's, by length
        self.last = 0  #: the last length before the frequencies change
        self.longest = 0  #: the longest accepted call
        self._fresh = False
        card.linear = short.linear
        if not short.linear:
            card.unknown.append(f"{NOT_LINEAR}: longer calls are not measured")
            return
        self._early = access.within(_EARLY) if self.whole else _EARLY
        self._shortest = int(self._early[-1]) + 1
        self._first = self.rows(self._shortest)[1:] if self.whole else ()
        self._climb(access, card)

    @property
    def changed(self) -> list[int]:
        """The lengths with other frequencies than the shortest call."""
        return [n for n, same in self.seen.items() if not same]

    def refined(self, access: Reach) -> Phases:
        """Return the frequencies, measured at positions below the length at which they change."""
        # For coarse dtypes, the length at which frequencies change is uncertain.
        most = self.last // 2 if self.changed else reach(access)
        return refined(self._tables, self.short, most, self.run.coarse)

    def _climb(self, access: Reach, card: Card) -> None:
        for length in LADDER:
            if length - 1 > access.reach(length - 1):
                break
            try:
                self.seen[length] = self.same(length)
            except (Refused, Malformed):
                break
            except NotFinite:
                last = max(self.seen, default=self._shortest) - 1
                card.facts["finite"] = finite_until(self._tables, last, length - 1)
                break
        if not self.seen:
            card.unknown.append(f"calls of {LADDER[0]} tokens fail: longer calls are not measured")
            return
        if self.whole and not self.same(self._shortest):
            first = min(self.changed, default=max(self.seen))
            card.facts["length"] = f"a call of {first} tokens changes later results"
            if self.run.driver.factory is None:
                card.unknown.append(_NO_RULE)
                self.seen = dict.fromkeys(self.seen, False)
                return
            self._fresh = True
            self.seen = {n: self.same(n) for n in self.seen}
        if not self.changed:
            what = "in calls of up to {} tokens" if self.whole else "at positions up to {}"
            card.facts["length"] = f"the same frequencies {what.format(max(self.seen) - 1)}"
            return
        # Some functions keep the frequencies of the longest call in later calls.
        self._fresh = self.run.driver.factory is not None
        low = max((n for n in self.seen if n < self.changed[0]), default=self._shortest)
        high = self.changed[0]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.same(middle) else (low, middle)
        self.last, self.longest = low, access.reach(_LONGEST - 1) + 1

    def _renew(self) -> None:
        if self._fresh:
            self.run.driver.fn = self.run.driver.fresh().fn

    def rows(self, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return positions, cos and sin from a call of the given length."""
        self._renew()
        at = np.append(self._early, length - 1) if self.whole else np.array([length - 1])
        cos, sin = self._tables(at)
        if not (np.isfinite(cos).all() and np.isfinite(sin).all()):
            raise NotFinite(f"a call of {length} tokens returns NaN or infinity")
        return at, cos, sin

    def same(self, length: int) -> bool:
        """Return whether a call of the given length has the frequencies of the shortest call."""
        if not self.whole:
            return self.meets(length, self.short.frequencies, self.short.amplitude)
        angle = np.abs(self.short.frequencies) * self._early[:, None]
        slack = ROUNDOFF[self.run.coarse] + ROUNDOFF["float32"] * angle
        calls = (self.rows(length)[1:], self._first)
        now, first = (np.stack(tables)[:, : self._early.size] for tables in calls)
        return bool((np.abs(now - first) <= _SAME * slack * self.short.amplitude).all())

    def phases(self, length: int) -> Phases:
        """Return the phases measured at or near the given length."""
        self._renew()

        def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            if not self.whole:
                return self._tables(length - 1 + positions)
            cos, sin = self._tables(np.append(positions, length - 1))
            return cos[: positions.size], sin[: positions.size]

        found = unwrap(tables, self.run.coarse)
        if self.whole:
            return refined(tables, found, length - 2, self.run.coarse)
        # Differences of large angles are coarse: angles are counted from position 0 instead.
        sigma = found.sigma + ROUNDOFF["float32"] * np.abs(found.frequencies) * length / _SPAN
        far = replace(found, sigma=sigma, start=self.short.start)
        return refined(self._tables, far, reach(self._access), self.run.coarse, least=length)

    def meets(self, length: int, w: np.ndarray, m: np.ndarray | float) -> bool:
        """Return whether a call of the given length has signed frequencies w and factor m."""
        at, cos, sin = self.rows(length)
        angle = self.short.start + at[:, None] * w
        slack = BUDGET[self.run.coarse] * ROUNDOFF[self.run.coarse]
        slack = slack + BUDGET["float32"] * ROUNDOFF["float32"] * np.abs(at[:, None] * w)
        slack = (slack + SIGMAS * at[:, None] * self.short.sigma) * m
        off = np.maximum(np.abs(cos - m * np.cos(angle)), np.abs(sin - m * np.sin(angle)))
        return bool((off <= slack).all())

    def explain(self, card: Card, short: Measurement, live: np.ndarray) -> None:
        """Fill in the rule for frequencies that change with the length, if one is found.

        ``live`` holds the indices of the pairs whose frequency is not 0.
        """
        if not self.last:
            return
        known = {n: self.phases(n) for n in self.changed}
        # Rules with steps and smooth rules agree at powers of two, so other lengths are included.
        longest = max(self.seen)
        tried = [*self.seen, *(n + n // 2 for n in known if n + n // 2 <= longest)]
        rules = _rules(card.encoding, self, known, short, live)
        found = next((r for r in rules if all(self._follows(r, n, live) for n in tried)), None)
        if found is None and not self.whole:
            card.unknown.append(
                f"past position {self.last - 1}, angles are not position times frequency: either "
                "longer calls have other frequencies, or the function replaces large positions"
            )
            return
        where = "in calls of more than {} tokens" if self.whole else "from position {} on"
        card.facts["length"] = f"the frequencies change {where.format(self.last)}"
        card.by_length = {n: p.frequencies for n, p in known.items()}
        if found is None:
            card.unknown.append(_NO_RULE)
            return
        card.encoding, card.aliases, card.relations = found, (), ()
        card.rule, card.nearest = True, ""
        card.unknown = [text for text in card.unknown if text != UNSPACED]

    def _follows(self, rule: _Rope, n: int, live: np.ndarray) -> bool:
        w = rule.sign * rule.frequencies(n)[live]
        return self.meets(n, w, abs(rule.attention_factor(n)))


def _rules(
    encoding: Any, lengths: Lengths, known: dict[int, Phases], short: Measurement, live: np.ndarray
) -> Iterator[_Rope]:
    """Yield the encoding with dynamic NTK, Qwen's NTK and LongRoPE scaling."""
    start = lengths.last
    if not isinstance(encoding, _Rope) or getattr(encoding, "spacing", "global") != "global":
        return
    if short.rotary_dim > 2 and encoding.scaling is None:
        yield from _dynamic(encoding, start, lengths, list(known))
        for train in dict.fromkeys((*_near(start, 1 / 16), start)):
            yield encoding.replace(scaling=pr.QwenNTK(train))
    if live.size < short.w.size:
        return
    # The longest call is the most exact; the frequencies may change again after the first.
    longest = (lengths.phases(lengths.longest),) if lengths.whole else ()
    for measured in (*longest, known[min(known)]):
        yield from _two_lists(encoding, start, measured, short, ROUNDOFF[lengths.run.coarse])


def _near(value: float, slack: float) -> list[int]:
    return [n for n in (512, 1024, *LENGTHS) if abs(n / value - 1) < slack]


def _dynamic(encoding: _Rope, start: int, lengths: Lengths, longer: list[int]) -> Iterator[_Rope]:
    """Yield dynamic NTK: the factor on the base is linear in the length."""
    k = encoding.frequencies().size - 1
    alpha = {}
    for n in longer:
        at, cos, sin = lengths.rows(n)
        angle = encoding.sign * float(np.arctan2(sin[-1, k], cos[-1, k]))
        if 0 < angle < np.pi:  # the slowest pair, unambiguous up to half a turn
            alpha[n] = float(encoding.frequencies()[k]) * float(at[-1]) / angle
    if len(alpha) < 2:
        return
    slope, at_zero = np.polyfit(list(alpha), list(alpha.values()), 1)
    if not slope > 0:
        return
    factor = max(1 - float(at_zero), 1.0)
    plain = [f for f in (1.0, *PLAIN) if abs(f / factor - 1) < 1 / 16]
    for f in dict.fromkeys((*plain, nice(factor, 1 / 1024), factor)):
        limit = f / float(slope)
        for n in dict.fromkeys((*_near(limit, 1 / 16), start, round(limit))):
            if n >= 1:
                yield encoding.replace(scaling=pr.DynamicNTK(f, n))


def _two_lists(
    encoding: _Rope, start: int, long: Phases, short: Measurement, rounding: float
) -> Iterator[_Rope]:
    """Yield LongRoPE: one list of divisors for short calls, one for long calls."""
    m, m_long = short.factor, float(np.median(long.amplitude))
    same = abs(m_long - m.m) <= 2 * m.error * max(1.0, m_long) + FACTOR_SLACK / 8
    factor = m.short if same else (m.short, Factor(m_long, sigma=rounding).short)
    w = Measurement(encoding.sign * long.frequencies, long.sigma, roundoff=short.roundoff)
    if not (w.w > 0).all() or not (short.w > 0).all() or not 0 < m_long <= MAGNITUDE:
        return
    limit = next(iter(_near(start, 1 / 1024)), start)
    best = min(PUBLISHED_BASES, key=lambda b: _digits(b, short) + _digits(b, w))
    one, other = (tuple(_divisors(best, part)) for part in (short, w))
    for f in (1.0, *PLAIN) if same else ():
        scaling = pr.LongRoPE(one, other, limit, factor=f)
        if short.has_factor(scaling.magnitude(None)):
            yield encoding.replace(base=best, scaling=scaling)
    scaling = pr.LongRoPE(one, other, limit, attention_factor=factor)
    yield encoding.replace(base=best, scaling=scaling)


def _divisors(base: float, m: Measurement) -> list[float]:
    """Return the divisor of every pair, rounded within its uncertainty."""
    pairs = zip(m.predicted(base) / m.w, m.noise + 4 * m.roundoff, strict=True)
    return [nice(float(v), float(e)) for v, e in pairs]


def _digits(base: float, m: Measurement) -> int:
    """Return the total digits of the divisors that ``base`` needs; the right base needs few."""
    return sum(len(f"{v:.8g}") for v in _divisors(base, m))
