"""Identify a bias: ALiBi, T5 buckets or another function of key - query."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.bias.cases import BiasCase, Ruler
from posenc_ref.conformance.harness.run import Run

from .bias_calls import LARGEST_SQUARE, SQUARES, call, fixed, largest, only_square
from .buckets import t5_rule
from .card import Card, Unidentified, listed, require_finite, require_same
from .curves import curve
from .fit.measurement import nice
from .images.windows import window
from .slopes import NO_SLOPES, explain

_OTHERS = ((3, 11), (1, 300), (300, 300), (4, 2050))
_MIRRORED = "the bias equals that of earlier keys at the same distance"
_NOT_MIRRORED = "the bias differs from that of earlier keys at the same distance"


@dataclass(frozen=True)
class Profile:
    """The bias as a function of key - query, or of the distance on one side."""

    r: np.ndarray  #: key - query or distance, increasing, (n,)
    values: np.ndarray  #: (H, n)
    size: np.ndarray  #: size of the terms that form the values

    @classmethod
    def of(cls, calls: list[BiasCase], ruler: Ruler) -> Profile | None:
        """Return the bias by key - query, or None if calls disagree."""
        offsets = np.concatenate([c.offsets[c.judged] for c in calls])
        values = np.concatenate([c.moved[:, c.judged] for c in calls], axis=1)
        size = np.concatenate([c.terms[:, c.judged] for c in calls], axis=1)
        r, first, index = np.unique(offsets, return_index=True, return_inverse=True)
        expected = values[:, first][:, index]
        if ruler.differ(values, expected, size + np.abs(expected)).any():
            return None
        return cls(r, values[:, first], size[:, first])

    @property
    def own(self) -> np.ndarray:
        """The values at the query's own key, (H,), or 0 if that key is masked."""
        return np.asarray(self.values[:, self.r == 0].sum(axis=1))

    def side(self, sign: int) -> Profile:
        """Return the values of earlier keys (-1) or later keys (1) by distance."""
        at = np.flatnonzero(sign * self.r > 0)[::sign]
        return Profile(sign * self.r[at], self.values[:, at], self.size[:, at])


def identify(run: Run, card: Card) -> None:
    """Fill in the identity card of ``fn(q_len, k_len) -> (H, Q, K)``."""
    square = next((c for n in SQUARES if (c := call(run, card, n, n))), None)
    one_size = None if square else fixed(run, card)
    square = square or one_size or only_square(run, card)
    again = call(run, card, square.q_len, square.k_len)
    require_same(square.actual, again and again.actual)
    if not square.judged.any():
        raise Unidentified("every key is masked or NaN: there is no bias to identify")
    others = () if one_size else _OTHERS
    calls = [square, *(c for pair in others if (c := call(run, card, *pair)))]
    run.ledger.highest = max(c.k_len for c in calls) - 1
    for c in calls:
        require_finite(c.actual[:, c.judged])
    if len(square.actual) == 1 and np.array_equal(np.abs(square.actual[0]), np.abs(square.offsets)):
        raise Unidentified("the result is the offset of each key itself: positions, and no bias")
    card.facts["heads"] = str(square.actual.shape[0])
    later, hidden = square.offsets > 0, ~square.judged
    if (hidden == later).all():
        card.facts["mask"] = f"later keys are masked, with {square.actual[0][later][0]:g}"
    elif hidden.any():
        card.facts["mask"] = f"{hidden.mean():.0%} of the keys are masked"
    ruler = Ruler.of(run)
    for at_end, constant, words in (
        (True, False, "the bias depends on key minus query alone"),
        (False, False, "the bias depends on key minus query alone, if query i has position i"),
        (True, True, "the bias depends on key minus query, up to a constant for each query"),
    ):
        read = [replace(c, at_end=at_end, up_to_constant=constant) for c in calls]
        profile = Profile.of(read, ruler)
        if profile is not None:
            card.facts["Toeplitz"] = words
            _directions(run, card, profile, ruler)
            return
    card.facts["Toeplitz"] = "the bias differs between elements with the same key minus query"
    most = max((c for c in calls if c.q_len == c.k_len), key=_queries)
    whole = one_size or largest(run, card, most)
    if whole.judged.all():
        card.encoding = found = window(whole.actual, run.dtype, ruler)
        if found is not None:
            h, w = found.window
            card.facts["window"] = f"the bias of the row and column offsets of {h} x {w} patches"
            return
    raise Unidentified(
        "the bias depends on more than key minus query: on the query's position (FIRE), on rows "
        "and columns of a window (Swin), or on the content of tokens; check(fn, encoding, 'bias') "
        "judges it against an expected encoding"
    )


def _queries(case: BiasCase) -> int:
    return case.q_len


def _directions(run: Run, card: Card, profile: Profile, ruler: Ruler) -> None:
    slopes = _line(profile.side(-1), profile.own, ruler)
    if slopes is None:
        _curved(run, card, profile, ruler)
    elif slopes.any():
        _linear(card, profile, slopes, ruler)
    else:
        raise Unidentified("the bias of earlier keys does not depend on the distance")


def _curved(run: Run, card: Card, profile: Profile, ruler: Ruler) -> None:
    """Identify a bias that is not linear in the distance: a known curve, or buckets."""
    one, other, own = profile.side(-1), profile.side(1), profile.own[:, None]
    if not one.r.size:
        raise Unidentified("every key before the query is masked")
    _, i, j = np.intersect1d(one.r, other.r, return_indices=True)
    sizes = one.size[:, i] + other.size[:, j]
    differ = ruler.differ(other.values[:, j], one.values[:, i], sizes).any()
    mirrored = bool(other.r.size) and not differ
    found = curve(one.r, one.values - own, one.size + np.abs(own), not mirrored, ruler)
    if found is None:
        _bucketed(run, card, profile)
        return
    card.encoding = found
    card.facts["later keys"] = (
        _MIRRORED if mirrored else _NOT_MIRRORED if other.r.size else "masked"
    )


def _line(side: Profile, own: np.ndarray, ruler: Ruler) -> np.ndarray | None:
    """Return the slope of each head, or None if a head is not linear in the distance."""
    if side.r.size < 2:
        return None
    slope = (side.values[:, -1] - own) / side.r[-1]
    line = own[:, None] + slope[:, None] * side.r
    terms = side.size + np.abs(line) + np.abs(own)[:, None]
    return None if ruler.differ(side.values, line, terms).any() else np.asarray(slope)


def _linear(card: Card, profile: Profile, slopes: np.ndarray, ruler: Ruler) -> None:
    """Identify a bias that is linear in the distance of earlier keys, such as ALiBi."""
    own, later = profile.own, profile.side(1)
    falls = slopes < 0
    rounding = ROUNDOFF[ruler.precision or ruler.dtype]
    card.facts["slopes"] = listed(np.array([nice(-m, rounding) for m in slopes.tolist()]))
    card.facts["distance"] = (
        "the bias falls with the distance" if falls.all()
        else "the bias grows with the distance" if not falls.any()
        else f"the bias falls with the distance in {int(falls.sum())} of {falls.size} heads"
    )  # fmt: skip
    if np.abs(own).max() > 0:
        card.facts["own key"] = f"the bias at distance 0 is {listed(own)}"
    mirrored = False
    ahead = _line(later, own, ruler)
    if not later.r.size:
        card.facts["later keys"] = "masked"
    elif ahead is None:
        card.facts["later keys"] = "not linear in the distance"
    else:
        mirrored = not ruler.differ(ahead, slopes, 4 * np.abs(slopes)).any()
        continued = not ruler.differ(ahead, -slopes, 4 * np.abs(slopes)).any()
        card.facts["later keys"] = (
            _MIRRORED if mirrored
            else "slope * (key - query), as for earlier keys, so of opposite sign" if continued
            else "no bias" if not ahead.any()
            else f"the slopes of later keys are {listed(ahead)}"
        )  # fmt: skip
    near, words = explain(np.abs(slopes), ruler)
    card.facts["recipe"] = words
    if near is not None:
        card.encoding = ALiBi(slopes.size, causal=not mirrored, max_bias=near)
        if mirrored:
            card.relations += ("causal=True gives the same results if later keys are masked",)
    else:
        card.unknown.append(NO_SLOPES)


def _bucketed(run: Run, card: Card, profile: Profile, far: bool = False) -> None:
    """Identify a bias that is constant over ranges of distances, such as T5's."""
    own, earlier, later = profile.own, profile.side(-1), profile.side(1)
    past = _levels(earlier, own, 0)
    size = int(past[-1]) + 1 if past.size else 1
    ahead = _levels(later, own, size)
    if (later.values == own[:, None]).all():
        ahead = np.zeros_like(ahead)
    found = t5_rule((earlier.r, past), (later.r, ahead))
    if found is None and not far and earlier.r[-1] < LARGEST_SQUARE - 1:
        wide = call(run, card, LARGEST_SQUARE, LARGEST_SQUARE)
        more = wide and Profile.of([wide], Ruler.of(run))
        if more:
            _bucketed(run, card, more, far=True)
            return
    if found is None:
        card.facts["earlier keys"] = f"the bias changes {past[-1]} times in {past.size} distances"
        card.function = (
            f"a bias of key minus query alone, with {past[-1]} values for {past.size} earlier keys"
        )
        raise Unidentified(
            "the bias is neither linear, nor a curve of KERPLE or Sandwich, nor T5's"
        )
    rule, relations = found
    if rule.bidirectional:
        later, ahead = _farther(run, card, later, ahead, earlier, past)
    kind = np.float64 if run.dtype == "float64" else np.float32
    table = np.zeros((rule.num_buckets, own.size), dtype=kind)
    table[past], table[ahead] = earlier.values.T, later.values.T
    table[0] = own
    card.encoding = rule.replace(table=table)
    card.relations += relations
    if rule.bidirectional:
        card.unknown.append(f"no distance uses row {rule.num_buckets // 2} of the table")


def _farther(
    run: Run, card: Card, later: Profile, ahead: np.ndarray, earlier: Profile, past: np.ndarray
) -> tuple[Profile, np.ndarray]:
    """Return the values and buckets of later keys, from a larger call fn(n, n) if needed."""
    last = int(earlier.r[np.argmax(past)])
    if last <= later.r[-1]:
        return later, ahead
    wide = call(run, card, last + 1, last + 1) if last < LARGEST_SQUARE else None
    if wide is None:
        card.unknown.append(f"table rows of later keys past distance {later.r[-1]} are unknown")
        return later, ahead
    near = earlier.r <= last
    row = Profile(earlier.r[near], wide.actual[:, 0, earlier.r[near]], wide.terms[:, 0])
    return row, past[-1] + 1 + past[near]


def _levels(side: Profile, own: np.ndarray, low: int) -> np.ndarray:
    """Return the bucket of every distance: ``low`` at distance 0, plus 1 at each change."""
    before = np.column_stack([own, side.values[:, :-1]])
    new = (side.values != before).any(axis=0)
    new[:1] |= low > 0
    return np.asarray(low + np.cumsum(new))
