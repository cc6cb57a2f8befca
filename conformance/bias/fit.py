"""Lines fitted to an ALiBi bias: its change per key on both sides of a bend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .cases import BiasCase, Ruler


@dataclass(frozen=True)
class Lines:
    """The bias of one call as lines on both sides of a kink."""

    case: BiasCase
    kink: int | None  #: key - query where the slope changes; None where no row bends
    before: np.ndarray | None  #: change per key up to the kink, (H,)
    after: np.ndarray | None  #: change per key from the kink on


def fit(case: BiasCase, ruler: Ruler) -> Lines:
    """Return lines fitted to the judged keys of every row, by least squares."""
    kinks = []
    for i in range(case.q_len):
        keys = np.flatnonzero(case.judged[i])
        if keys.size < 3:
            continue
        row, size = case.actual[:, i][:, keys], case.terms[:, i][:, keys]
        bend = row[:, 2:] - 2 * row[:, 1:-1] + row[:, :-2]
        score = ruler.score(bend, 0.0, size[:, 2:] + 2 * size[:, 1:-1] + size[:, :-2])
        head = int(np.argmax(score.max(axis=1)))
        if score[head].max() > ruler.budget:
            at = int(np.argmax(score[head]))
            kinks.append(int(keys[at + 1] - case.rows[i]))
    kink = int(np.median(kinks)) if kinks else None
    at = case.k_len if kink is None else kink
    before = _line(case, lambda r: r <= at)
    after = before if kink is None else _line(case, lambda r: r >= at)
    return Lines(case, kink, before, after)


def _line(case: BiasCase, side: Any) -> np.ndarray | None:
    """The change per key on one side, a constant per row taken out; (H,)."""
    top: Any = 0.0
    bottom = 0.0
    for i in range(case.q_len):
        keys = np.flatnonzero(case.judged[i] & side(case.offsets[i]))
        if keys.size < 2:
            continue
        x = keys - keys.mean()
        y = case.actual[:, i][:, keys]
        top = top + (x * (y - y.mean(axis=1, keepdims=True))).sum(axis=1)
        bottom += float((x * x).sum())
    return None if bottom == 0 else np.asarray(top / bottom)
