"""Identify a bias: Toeplitz or not, linear or in buckets, its slopes and its direction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.bias.cases import Ruler, ask
from posenc_ref.conformance.harness.run import Run

from .buckets import rules
from .card import Card
from .curves import curves
from .slopes import explain

#: A square call shows both directions; the others show where queries sit, and long distances.
_SQUARES = (64, 16, 5)
_OTHERS = ((3, 11), (1, 300), (300, 300), (4, 2050))
#: The largest square call.
_LARGEST = 1024
#: Values at or below it are a mask.
_MASK = -1e4


@dataclass(frozen=True)
class Call:
    """The bias (H, Q, K) of one call, and where it is a mask."""

    q_len: int
    k_len: int
    values: np.ndarray
    hidden: np.ndarray  #: (Q, K)
    at_end: bool = True  #: whether queries sit at the end of the keys, or at the beginning

    @property
    def first(self) -> int:
        """The position of the first query."""
        return self.k_len - self.q_len if self.at_end else 0

    @property
    def offsets(self) -> np.ndarray:
        """Key minus query, (Q, K)."""
        return np.asarray(np.arange(self.k_len) - np.arange(self.q_len)[:, None] - self.first)

    @property
    def own(self) -> np.ndarray:
        """The values at each query's own key, (H, Q, 1)."""
        i = np.arange(self.q_len)
        return self.values[:, i, i + self.first][..., None]


@dataclass(frozen=True)
class Profile:
    """The bias as a function of key minus query: values and the size of what formed them."""

    value: dict[int, np.ndarray]
    size: dict[int, np.ndarray]

    def side(self, sign: int) -> dict[int, np.ndarray]:
        """Return the values by distance, of earlier keys (-1) or later ones (1)."""
        found = {sign * n: v for n, v in self.value.items() if n * sign > 0}
        return dict(sorted(found.items()))


def identify(run: Run, card: Card) -> None:
    """Fill in the card of ``fn(q_len, k_len) -> (H, Q, K)``."""
    square = next((c for n in _SQUARES if (c := _call(run, card, n, n))), None)
    if square is None:
        card.unknown.append("it cannot be driven: no square call gives a bias")
        return
    again = _call(run, card, square.q_len, square.k_len)
    if again is None or not np.array_equal(again.values, square.values, equal_nan=True):
        card.unknown.append("the same call gives other values at once: it is no function of them")
        return
    if square.hidden.all():
        card.unknown.append("every key is masked or NaN: there is no bias to identify")
        return
    calls = [square, *(c for pair in _OTHERS if (c := _call(run, card, *pair)))]
    run.ledger.highest = max(c.k_len for c in calls) - 1
    if not all(np.isfinite(c.values[:, ~c.hidden]).all() for c in calls):
        card.unknown.append("what comes out is not finite where keys are visible")
        return
    card.facts["heads"] = str(square.values.shape[0])
    _mask(card, square)
    ruler = Ruler.of(run)
    for at_end, constant, words in (
        (True, False, "yes: a function of key minus query alone"),
        (False, False, "yes, but query i sits at key i, not at the end of the keys"),
        (True, True, "up to a constant in every row, which softmax does not see"),
    ):
        profile = _profile([replace(c, at_end=at_end) for c in calls], ruler, constant)
        if profile is not None:
            card.facts["Toeplitz"] = words
            _directions(run, card, profile, ruler)
            return
    card.facts["Toeplitz"] = "no: other values at the same key minus query"
    card.unknown.append(
        "what it depends on beside key minus query: the query's position (FIRE), rows and columns "
        "of a window (Swin and its kin), or what tokens hold; check(fn, encoding, 'bias') says "
        "whether it is the one that you expect"
    )


def _call(run: Run, card: Card, q_len: int, k_len: int) -> Call | None:
    """Return one call as (H, Q, K); None, with a limit, if it is refused or has another shape."""
    answer = ask(run.driver, q_len, k_len)
    if answer.values is None:
        card.limits.append(f"fn({q_len}, {k_len}) is refused ({answer.problem})")
        return None
    values = answer.values
    while values.ndim > 3 and values.shape[0] == 1:
        values = values[0]
    heads = values.shape[0] if values.ndim == 3 else 1
    try:
        values = np.array(np.broadcast_to(values, (heads, q_len, k_len)), dtype=np.float64)
    except ValueError:
        card.limits.append(f"fn({q_len}, {k_len}) has shape {answer.values.shape}, no (H, Q, K)")
        return None
    hidden = (np.isnan(values) | (values <= _MASK)).all(axis=0)
    return Call(q_len, k_len, values, hidden)


def _mask(card: Card, square: Call) -> None:
    later = square.offsets > 0
    if (square.hidden == later).all():
        value = square.values[0][later][0]
        card.facts["mask"] = f"later keys are masked, with {value:g}"
    elif square.hidden.any():
        card.facts["mask"] = f"{square.hidden.mean():.0%} of the keys are masked"


def _profile(calls: list[Call], ruler: Ruler, constant: bool) -> Profile | None:
    """Return the bias as a function of key minus query, if it is one (up to a constant per row)."""
    found = Profile({}, {})
    for c in calls:
        own = c.own if constant else np.zeros(1)
        values, size = c.values - own, np.abs(c.values) + np.abs(own)
        offsets, index = np.unique(c.offsets, return_inverse=True)
        index = index.reshape(c.offsets.shape)
        visible = ~c.hidden
        at, chosen = np.unique(index[visible], return_index=True)
        if not at.size:
            continue
        one, much = (t[:, visible][:, chosen] for t in (values, size))
        for k, n in enumerate(offsets[at].tolist()):
            found.value.setdefault(n, one[:, k])
            found.size.setdefault(n, much[:, k])
        known = np.zeros((len(values), offsets.size))
        known[:, at] = np.stack([found.value[n] for n in offsets[at].tolist()], axis=1)
        expected = known[:, index]
        if ruler.differ(values, expected, size + np.abs(expected))[:, visible].any():
            return None
    return found


def _directions(run: Run, card: Card, profile: Profile, ruler: Ruler) -> None:
    """Identify earlier and later keys: linear in the distance, curved, or in buckets."""
    heads = len(next(iter(profile.value.values())))
    own = profile.value.get(0, np.zeros(heads))
    slopes = _line(profile, own, ruler, -1)
    if slopes is None:
        _curved(run, card, profile, own, ruler)
    elif slopes.any():
        _linear(card, profile, slopes, own, ruler)
    else:
        card.unknown.append(
            "all earlier keys have the same bias: it does not depend on the distance"
        )


def _curved(run: Run, card: Card, profile: Profile, own: np.ndarray, ruler: Ruler) -> None:
    """Identify a bias that is not linear: a known curve, or constant over ranges."""
    earlier, later = profile.side(-1), profile.side(1)
    mirrored = bool(later) and not any(
        ruler.differ(v, earlier[n], profile.size[n] + profile.size[-n]).any()
        for n, v in later.items()
        if n in earlier
    )
    found = curves(earlier, profile.size, own, not mirrored, ruler)
    if found is None:
        _bucketed(run, card, profile, own)
        return
    card.encoding = found
    card.facts["later keys"] = (
        "like earlier ones, by distance" if mirrored else "another bias" if later else "masked"
    )


def _line(profile: Profile, own: np.ndarray, ruler: Ruler, sign: int) -> np.ndarray | None:
    """Return the change per key of distance, if every head is linear in the distance."""
    side = profile.side(sign)
    if len(side) < 2:
        return None
    n = max(side)
    slope = (side[n] - own) / n
    for distance, values in side.items():
        expected = own + slope * distance
        terms = profile.size[sign * distance] + np.abs(expected) + np.abs(own)
        if ruler.differ(values, expected, terms).any():
            return None
    return np.asarray(slope)


def _linear(
    card: Card, profile: Profile, slopes: np.ndarray, own: np.ndarray, ruler: Ruler
) -> None:
    """Identify a bias that is linear in the distance: ALiBi, or similar."""
    falls = slopes < 0
    card.facts["slopes"] = _list(-slopes)
    card.facts["distance"] = (
        "farther keys get less" if falls.all() else "farther keys get more" if not falls.any()
        else f"farther keys get less in {int(falls.sum())} of {falls.size} heads"
    )  # fmt: skip
    if np.abs(own).max() > 0:
        card.facts["own key"] = f"a token's own key gets {_list(own)}"
    mirrored = False
    ahead = _line(profile, own, ruler, 1)
    if not profile.side(1):
        card.facts["later keys"] = "masked"
    elif ahead is None:
        card.facts["later keys"] = "not linear in the distance"
    else:
        mirrored = not ruler.differ(ahead, slopes, 4 * np.abs(slopes)).any()
        continued = not ruler.differ(ahead, -slopes, 4 * np.abs(slopes)).any()
        card.facts["later keys"] = (
            "like earlier ones, by distance" if mirrored
            else "the line goes on: they are rewarded as earlier ones are penalised" if continued
            else "no bias" if not ahead.any() else f"another line: {_list(ahead)} per key"
        )  # fmt: skip
    heads = slopes.size
    near, words = explain(np.abs(slopes), ruler)
    card.facts["recipe"] = words
    if near is not None:
        card.encoding = ALiBi(heads, causal=not mirrored, max_bias=near)
        if mirrored:
            card.relations += ("causal=True is the same for keys up to the query",)
    else:
        card.unknown.append("by which rule the slopes follow one another")


def _bucketed(run: Run, card: Card, profile: Profile, own: np.ndarray) -> None:
    """Identify a bias that is constant over ranges of distances, such as T5's."""
    earlier, later = profile.side(-1), profile.side(1)
    past, size = _levels(earlier, own, 0)
    ahead, _ = _levels(later, own, size)
    if all(np.array_equal(v, own) for v in later.values()):
        ahead = dict.fromkeys(later, 0)
    rule = next(rules(past, ahead, 0), None)
    if rule is None:
        values = list(past.values())
        card.facts["earlier keys"] = f"{values[-1]} changes over {len(values)} distances"
        card.unknown.append(
            "neither linear in the distance, nor a curve of KERPLE or Sandwich, nor in T5's buckets"
        )
        return
    if rule.bidirectional:
        later, ahead = _farther(run, card, later, ahead, past, size)
    kind = np.float64 if run.dtype == "float64" else np.float32
    table = np.zeros((rule.num_buckets, own.size), dtype=kind)
    table[0] = own
    for level, side in ((past, earlier), (ahead, later)):
        for n, bucket in level.items():
            if bucket:
                table[bucket] = side[n]
    card.encoding = rule.encoding(table)
    card.relations += rule.relations()
    if rule.bidirectional:
        card.unknown.append(f"row {rule.num_buckets // 2} of the table: no distance uses it")


def _farther(
    run: Run, card: Card, later: dict[int, np.ndarray], ahead: dict[int, int],
    past: dict[int, int], size: int,
) -> tuple[dict[int, np.ndarray], dict[int, int]]:  # fmt: skip
    """Return later keys up to their last bucket, perhaps from one more square call."""
    last = min(n for n, level in past.items() if level == size - 1)
    if last <= max(later):
        return later, ahead
    wide = _call(run, card, last + 1, last + 1) if last < _LARGEST else None
    if wide is None:
        card.unknown.append(f"rows of the table for later keys farther than {max(later)}")
        return later, ahead
    row = {n: wide.values[:, 0, n] for n in range(1, last + 1)}
    return row, {n: size + past[n] for n in row}


def _levels(side: dict[int, np.ndarray], own: np.ndarray, low: int) -> tuple[dict[int, int], int]:
    """Return the bucket of every distance, and how many there are; each change starts one."""
    level, before, bucket = {}, own, low
    for n, values in side.items():
        if not np.array_equal(values, before) or (low and bucket == low):
            bucket += 1
        level[n] = bucket
        before = values
    return level, bucket - low + 1


def _list(values: np.ndarray) -> str:
    shown = ", ".join(f"{v:.6g}" for v in values[:8])
    return f"{shown}{', ...' if values.size > 8 else ''}"
