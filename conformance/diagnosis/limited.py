"""Mistakes that limit right values: clipped to measured bounds, or capped by tanh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import Run

from .mistake import JudgedCall, Mistake, with_value
from .scored import scores

#: Returns the expected result of a call from its facts.
Declared = Callable[[Any], Truth | None]
#: The most digits of a measured bound, and the relative difference of values at one bound.
_DIGITS, _SAME = 7, 1e-5


def limited(declared: Declared, what: str, code: str) -> Mistake:
    """Return the mistake that ``what`` is limited, with bounds measured on the wrong results."""
    return Mistake("", "", lambda facts: None, fit=partial(_fitted, declared, what, code))


def _fitted(
    declared: Declared, what: str, code: str, run: Run, wrong: Sequence[JudgedCall]
) -> list[Mistake]:
    above, below, sizes = [], [], []
    for one in wrong:
        off = scores(run, one, one.truth) > run.budget
        expected = np.broadcast_to(one.truth.value, one.actual.shape)
        above.append(one.actual[off & (one.actual < expected)])
        below.append(one.actual[off & (one.actual > expected)])
        at = np.unravel_index(int(np.argmax(np.abs(expected) * off)), off.shape)
        sizes.append((float(expected[at]), float(one.actual[at])))
    high, low = _bound(np.concatenate(above)), _bound(np.concatenate(below))
    if None not in (low, high) and not (np.isnan(low) and np.isnan(high)):  # type: ignore[arg-type]
        bounds = [("at least", low), ("at most", high)]
        said = " and ".join(f"{word} {v:g}" for word, v in bounds if not np.isnan(v))  # type: ignore[arg-type]

        def clipped(value: np.ndarray) -> np.ndarray:
            value = value if np.isnan(low) else np.maximum(value, low)  # type: ignore[arg-type]
            return value if np.isnan(high) else np.minimum(value, high)  # type: ignore[arg-type]

        text, values = f"{what} is limited to {said}", {"measured": [low, high]}
    else:
        cap = _cap(*max(sizes, key=lambda pair: abs(pair[0])))
        if cap is None:
            return []
        clipped = lambda value: cap * np.tanh(value / cap)  # noqa: E731
        text, values = f"{what} is capped: {cap:g} * tanh(x / {cap:g}) of it", {"measured": [cap]}
    remedy = f"Use {what} as it is, without a limit."
    return [Mistake(code, text, partial(_predicted, declared, clipped), remedy, values=values)]


def _predicted(
    declared: Declared, change: Callable[[np.ndarray], np.ndarray], facts: Any
) -> Truth | None:
    truth = declared(facts)
    return None if truth is None else with_value(truth, change(np.asarray(truth.value)))


def _bound(values: np.ndarray) -> float | None:
    """Return the one value of all, with few digits; NaN if there is none, None if there are more.

    A value that is not a short number is none of a limit that someone wrote.
    """
    if not values.size:
        return float("nan")
    value = float(np.median(values))
    if not np.isfinite(value) or np.abs(values - value).max() > _SAME * max(abs(value), 1e-3):
        return None
    return next(
        (x for n in range(1, _DIGITS + 1) if abs((x := float(f"{value:.{n}g}")) - value)
         <= _SAME * max(abs(value), 1e-3)),
        value,
    )  # fmt: skip


def _cap(expected: float, actual: float) -> float | None:
    """Return c with ``actual = c tanh(expected / c)``, or None if there is none."""
    if not np.isfinite(actual) or not 0 < actual / expected < 1:
        return None
    low, high = abs(actual), 1e6 * abs(expected)
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if middle * np.tanh(abs(expected) / middle) > abs(actual) else (
            middle, high)  # fmt: skip
    return next(
        (x for n in range(1, 4) if abs((x := float(f"{middle:.{n}g}")) - middle) <= 1e-3 * middle),
        None,
    )
