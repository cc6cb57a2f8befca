"""The ALiBi bias with parts of it replaced by measured deviations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import ALiBi
from posenc_ref.conformance.diagnosis.combine import Residual
from posenc_ref.conformance.phases.precision import rounded

from .cases import BiasCase, Ruler

#: The numbers of one row, over all heads, that are compared: about so many.
NUMBERS = 8192
#: About so many rows are compared.
ROWS = 9

#: A larger score says no more.
WORST = 2.0**64

#: Where half precision can sit, and the words for it.
PLACES = {
    "slopes": "slopes are",
    "product of distances": "slope times distance is",
    "product of keys": "slope times key position is",
    "product from the end": "slope times (key - last key) is",
    "distances": "distances are",
    "keys": "key positions are",
}


@dataclass(frozen=True)
class _Sample:
    """Some rows and keys of a case, enough to tell models apart."""

    case: BiasCase
    rows: np.ndarray
    keys: np.ndarray

    @classmethod
    def of(cls, case: BiasCase) -> _Sample:
        most = max(64, NUMBERS // len(case.actual))
        return cls(case, _some(case.q_len, ROWS), _some(case.k_len, most))


def _some(n: int, most: int) -> np.ndarray:
    """Both ends of ``range(n)``, and some between; the step is odd, so no parity is left out."""
    part = most // 3
    if n <= most:
        return np.arange(n)
    return np.unique(np.r_[np.arange(part), np.arange(0, n, n // part | 1), np.arange(n - part, n)])


def residual_of(encoding: ALiBi, cases: Sequence[BiasCase], ruler: Ruler) -> Residual:
    """Return the residual of the changed declaration; rows count up to a constant each."""
    samples = [_Sample.of(case) for case in cases]
    true = encoding.slopes()

    def residual(change: dict[str, Any]) -> tuple[bool, float]:
        parts = []
        for s in samples:
            rows, own = s.case.rows[s.rows][:, None], s.case.own[:, s.rows]
            model = _values(true, change, s.case, s.keys[None, :], rows)
            model = model - _values(true, change, s.case, rows, rows)
            actual = s.case.actual[:, s.rows][..., s.keys] - own
            score = ruler.score(actual, model, np.abs(model) + np.abs(own))
            judged = s.case.judged[s.rows][:, s.keys]
            if "anything after" in change:
                judged = judged & (s.keys <= rows)
            parts.append(score[:, judged].ravel())
        scores = np.minimum(np.concatenate(parts), WORST)
        return bool((scores <= ruler.budget).all()), float(np.mean(np.log2(1 + scores)))

    return residual


def _values(
    true: np.ndarray, change: dict[str, Any], case: BiasCase, keys: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """The bias of keys (Q or 1, n) in rows (Q, 1), as (H, Q, n)."""
    slope = np.asarray(change.get("slopes", true)) * change.get("sign", 1.0)
    scale = change.get("scale", 1.0)
    slope = slope * (scale.get(case.name, 1.0) if isinstance(scale, dict) else scale)
    after = np.asarray(change.get("after", -slope))[:, None, None]
    name, place = change.get("round", ("", ""))
    if place == "slopes":
        slope = rounded(slope, name)
    slope = slope[:, None, None]
    if place in ("keys", "product of keys", "product from the end"):
        if place == "keys":
            return np.asarray(slope * rounded(keys.astype(float), name))
        start = case.k_len - 1 if place == "product from the end" else 0
        return rounded(slope * (keys - start), name)
    if "hold" in change:
        r = np.minimum(keys, change["hold"]) - np.minimum(rows, change["hold"])
    elif "wrap" in change:
        return np.asarray(slope * (keys % change["wrap"]))
    else:
        r = keys - rows - change.get("shift", {}).get(case.name, 0)
    r = r.astype(float)
    if "clamp" in change:
        r = np.maximum(r, -change["clamp"])
    if place == "distances":
        r = rounded(r, name)
    value = np.where(r <= 0, slope * r, after * r)
    return rounded(value, name) if place == "product of distances" else np.asarray(value)
