"""Measure a constant of a formula in steps, such as a base, a threshold or an epsilon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.run import Run

from .match import fits
from .mistake import JudgedCall, Mistake
from .steps import Change, Steps

#: Returns what a change of the formula predicts, from the facts of a call.
Predicted = Callable[[Change], Callable[[Any], Truth | None]]
#: The factors on the declared constant that are tried first, and the steps between two of them.
_TRIED = np.geomspace(1e-4, 1e4, 41)
_REFINED = 40
#: The most digits of a constant that someone wrote.
_DIGITS = 7
#: The fewest elements of the call on which a constant is measured.
_FEWEST = 12


def measured_constants(plain: Steps, predicted: Predicted) -> Mistake:
    """Return the mistake that one constant of the formula has another value."""

    def fit(run: Run, wrong: Sequence[JudgedCall]) -> list[Mistake]:
        one = min(wrong, key=lambda call: (call.actual.size < _FEWEST, call.actual.size))
        for name, value in constants(plain):

            def of(x: float, name: str = name) -> Callable[[Any], Truth | None]:
                return predicted((name, "is", repr(float(x))))

            x = _measured(one, of, value)
            x = None if x is None else _written(run, one, of, x)
            if x is not None and x != value and _all_fit(run, wrong, of(x)):
                return [
                    Mistake(
                        plain.code_of(name),
                        f"{name} is {x:.7g}, declared {value:.7g}",
                        of(x),
                        f"Use {name} = {value:.7g}.",
                        values={"declared": value, "measured": x},
                    )
                ]
        return []

    return Mistake("", "", lambda facts: None, fit=fit)


def _all_fit(run: Run, wrong: Sequence[JudgedCall], predict: Callable[[Any], Truth | None]) -> bool:
    return all(fits(run, one, predict(one.facts)) for one in wrong)


def constants(plain: Steps) -> Iterator[tuple[str, float]]:
    """Yield the name and the value of every constant of the formula."""
    for name, (_, value) in plain.kinds.items():
        if isinstance(value, int | float | np.number | np.ndarray) and np.ndim(value) == 0:
            number = float(value)
            if np.isfinite(number) and number:
                yield name, number


def _misfit(one: JudgedCall, predicted: Truth | None) -> float:
    if predicted is None or predicted.value.shape != one.actual.shape:
        return np.inf
    mask = np.broadcast_to(True if one.mask is None else one.mask, one.actual.shape)
    away = np.abs(predicted.value - one.actual)[mask]
    return float(away.sum()) if np.isfinite(away).all() else np.inf


def _measured(
    one: JudgedCall, of: Callable[[float], Callable[[Any], Truth | None]], value: float
) -> float | None:
    """Return the constant with the least misfit in a call, or None if none is better."""

    def misfit(factor: float) -> float:
        return _misfit(one, of(value * factor)(one.facts))

    each = [misfit(factor) for factor in _TRIED]
    n = int(np.argmin(each))
    if not np.isfinite(each[n]) or each[n] > misfit(1.0) / 2:
        return None
    low, high = (np.log(_TRIED[max(n - 1, 0)]), np.log(_TRIED[min(n + 1, len(_TRIED) - 1)]))
    golden = (5**0.5 - 1) / 2
    a, b = high - golden * (high - low), low + golden * (high - low)
    at_a, at_b = (misfit(float(np.exp(x))) for x in (a, b))
    for _ in range(_REFINED):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - golden * (high - low)
            at_a = misfit(float(np.exp(a)))
        else:
            low, a, at_a = a, b, at_b
            b = low + golden * (high - low)
            at_b = misfit(float(np.exp(b)))
    return value * float(np.exp((low + high) / 2))


def _written(
    run: Run, one: JudgedCall, of: Callable[[float], Callable[[Any], Truth | None]], x: float
) -> float | None:
    """Return the constant with the fewest digits that predicts the call, or None."""
    for digits in range(1, _DIGITS + 1):
        short = float(f"{x:.{digits - 1}e}")
        if fits(run, one, of(short)(one.facts)):
            return short
    return None
