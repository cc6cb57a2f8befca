"""Whether frequencies change with the length of the call, and by which rule."""

from __future__ import annotations

import numpy as np

import posenc_ref as pr
from posenc_ref import RoPE

from .access import Access
from .card import Card
from .fit_schedule import nice
from .frequencies import agree
from .measure import Measured, Tables, unwrap
from .probes import unit_pairs
from .run import Run
from .subject import Malformed, Refused

#: Lengths that are tried, short ones first: one past each usual original length.
LADDER = tuple(2**k + 1 for k in range(9, 18))


def by_length(run: Run, access: Access, measured: Measured, card: Card, sign: int) -> None:
    """Frequencies in calls of growing length; a rule for them, where they change."""
    if access.mode not in ("any", "prefix"):
        card.unknown.append(
            "whether the length matters: only one position, or one window, is accepted per call"
        )
        return
    a = np.array([p.a for p in measured.pairs])

    def tables_at(length: int) -> Tables:
        def tables(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            at = np.append(positions, length - 1)
            y = access.rows(unit_pairs((1, 1, at.size, access.dim), a), at)[0, 0, :-1]
            return y[:, [p.out_a for p in measured.pairs]], y[:, [p.out_b for p in measured.pairs]]

        return tables

    def frequencies(length: int) -> np.ndarray:
        return sign * unwrap(tables_at(length), run.coarse).frequencies

    assert measured.phases is not None
    short, sigma = sign * measured.phases.frequencies, measured.phases.sigma
    seen: dict[int, np.ndarray] = {}
    for length in LADDER:
        if length - 1 > access.reach(length - 1):
            break
        try:
            seen[length] = frequencies(length)
        except (Refused, Malformed):
            break
    changed = [n for n, w in seen.items() if not agree(w, short, 2 * sigma).all()]
    if not seen:
        card.unknown.append("whether the length matters: no longer call is accepted")
        return
    if not changed:
        card.facts["length"] = f"the same frequencies in calls of up to {max(seen)} tokens"
        return
    card.by_length = seen
    last = max((n for n in seen if n < changed[0]), default=32)
    low, high = last, changed[0]
    while high - low > 1:
        middle = (low + high) // 2
        same = agree(frequencies(middle), short, 2 * sigma).all()
        low, high = (middle, high) if same else (low, middle)
    card.facts["length"] = f"other frequencies in calls of more than {low} tokens"
    assert isinstance(card.encoding, RoPE)
    rule = _rule(card.encoding, low, seen, short, sigma)
    if rule is None:
        card.unknown.append("by which rule the frequencies change with the length")
    else:
        card.encoding = rule


def _rule(
    encoding: RoPE, start: int, seen: dict[int, np.ndarray], short: np.ndarray, sigma: np.ndarray
) -> RoPE | None:
    """Dynamic NTK or LongRoPE, whichever gives the frequencies at every length."""
    longer = [n for n in seen if n > start]
    m = encoding.attention_factor()
    d = encoding.rotary_dim
    assert d is not None
    if all(agree(seen[n], seen[longer[0]], 2 * sigma).all() for n in longer):
        plain = encoding.base ** (-np.arange(d // 2) / (d // 2))
        scaling = pr.LongRoPE(
            tuple(map(nice, (plain / short).tolist())),
            tuple(map(nice, (plain / seen[longer[0]]).tolist())),
            start,
            attention_factor=nice(m),
        )
        return encoding.replace(scaling=scaling)
    if d <= 2 or len(longer) < 2 or encoding.scaling is not None:
        return None
    # The multiple of the base, from the slowest pair, is linear in the length.
    multiple = {n: (short[-1] / seen[n][-1]) for n in longer}
    slope, at_zero = np.polyfit(list(multiple), list(multiple.values()), 1)
    for factor in (nice(1 - at_zero, 1 / 64), float(1 - at_zero)):
        if factor < 1 or slope <= 0:
            continue
        for limit in (start, round(factor / slope)):
            dynamic = encoding.replace(scaling=pr.DynamicNTK(factor, max(limit, 1)))
            if all(agree(w, dynamic.frequencies(n), 4 * sigma).all() for n, w in seen.items()):
                return dynamic
    return None
