"""Fit lines to a measured ALiBi bias, and compute the declared bias with changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.diagnosis.combine import Residual
from posenc_ref.conformance.phases.precision import rounded

from .cases import BiasCase, Ruler

#: About how many numbers of a row, over all heads, are compared.
NUMBERS = 8192
#: About how many rows are compared.
ROWS = 9

#: The steps that may be rounded to half precision, in words.
PLACES = {
    "slopes": "slopes are",
    "product of distances": "slope times distance is",
    "product of keys": "slope times key position is",
    "product from the end": "slope times (key - last key) is",
    "distances": "distances are",
    "keys": "key positions are",
    "slopes, distances, product of distances": "slopes, distances and their product are",
    "slopes, keys, product of keys": "slopes, key positions and their product are",
}


def _some(n: int, most: int) -> np.ndarray:
    """Return about ``most`` of the numbers 0 .. n - 1: both ends, then even and odd numbers."""
    part = most // 3
    if n <= most:
        return np.arange(n)
    return np.unique(np.r_[np.arange(part), np.arange(0, n, n // part | 1), np.arange(n - part, n)])


@dataclass(frozen=True)
class Lines:
    """Two lines per head, fitted to the bias of one call, and the kink between them."""

    case: BiasCase
    kink: int | None  #: key - query where the slope changes, or None
    before: np.ndarray | None  #: slope up to the kink, (H,)
    after: np.ndarray | None  #: slope from the kink on, (H,)

    @property
    def near(self) -> np.ndarray | None:
        """Return the slope next to the query: the other one, if far keys all have one bias."""
        flat = self.before is not None and not self.before.any()
        return self.after if flat and self.after is not None else self.before


def fit(case: BiasCase, ruler: Ruler) -> Lines:
    """Return lines fitted to the judged keys of one call by least squares."""
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
    return Lines(case, kink, before, before if kink is None else _line(case, lambda r: r >= at))


def _line(case: BiasCase, side: Any) -> np.ndarray | None:
    """Return the slope (H,) on one side, fitted with a free constant for each row."""
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


def residual_of(encoding: ALiBi, cases: Sequence[BiasCase], ruler: Ruler) -> Residual:
    """Return the function that compares a changed bias with all cases.

    From each value, the value at the query's own key is subtracted.
    """
    most = max(64, NUMBERS // encoding.num_heads)
    samples = [(case, _some(case.q_len, ROWS), _some(case.k_len, most)) for case in cases]
    true = encoding.slopes()

    def residual(change: dict[str, Any]) -> tuple[bool, float]:
        parts = []
        for case, row, keys in samples:
            rows, own = case.rows[row][:, None], case.own[:, row]
            model = _values(true, change, case, keys[None, :], rows)
            model = model - _values(true, change, case, rows, rows)
            actual = case.actual[:, row][..., keys] - own
            score = ruler.score(actual, model, np.abs(model) + np.abs(own))
            judged = case.judged[row][:, keys]
            if "anything after" in change:
                judged = judged & (keys <= rows)
            parts.append(score[:, judged].ravel())
        return ruler.residual(np.concatenate(parts))

    return residual


def _values(
    true: np.ndarray, change: dict[str, Any], case: BiasCase, keys: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Return the changed bias (H, Q, n) of keys (Q or 1, n) for queries (Q, 1)."""
    slope = np.asarray(change.get("slopes", true)) * change.get("sign", 1.0)
    scale = change.get("scale", 1.0)
    slope = slope * (scale.get(case.name, 1.0) if isinstance(scale, dict) else scale)
    after = np.asarray(change.get("after", -slope))[:, None, None]
    name, place = change.get("round", ("", ""))
    places = set(place.split(", "))
    if "slopes" in places:
        slope = rounded(slope, name)
    slope = slope[:, None, None]
    if of_keys := places & {"keys", "product of keys", "product from the end"}:
        at = keys - (case.k_len - 1 if place == "product from the end" else 0.0)
        value = slope * (rounded(at, name) if "keys" in places else at)
        return np.asarray(value if of_keys == {"keys"} else rounded(value, name))
    if "hold" in change:
        r = np.minimum(keys, change["hold"]) - np.minimum(rows, change["hold"])
    elif "wrap" in change:
        return np.asarray(slope * (keys % change["wrap"]))
    else:
        r = keys - rows - change.get("shift", {}).get(case.name, 0)
    r = r.astype(float)
    if "clamp" in change:
        r = np.maximum(r, -change["clamp"])
    if "distances" in places:
        r = rounded(r, name)
    value = np.where(r <= 0, slope * r, after * r)
    return rounded(value, name) if "product of distances" in places else np.asarray(value)
