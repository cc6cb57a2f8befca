"""Recognise wrong constants that the tolerance can hide: a short pi, base or frequency table.

The tolerance of 128 units lets every correct float32 function pass, and with it a constant that is
7.6e-6 off. Such a constant has the same error at every position, so that it is off by whole radians
at large ones. It is an error if a rule predicts it, and it exceeds the unit somewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.accuracy import first_error
from posenc_ref.conformance.harness.report import ERROR, NOTE
from posenc_ref.conformance.harness.run import Run

from .declaration import Declaration
from .frequencies import (
    FrequencyMistake,
    Schedule,
    base_mistake,
    few_digits,
    repeated_products,
    scaled,
    shorter,
    written_pi,
)
from .precision import Model
from .rounding_model import FirstVisible, RoundingModel

#: A rule explains an error if it leaves less than this part of it.
_LEFT = 0.25


def judge_constants(
    run: Run, angles: RoundingModel | None, known: Model | None, declared: Declaration,
    first: FirstVisible,
) -> FrequencyMistake | None:  # fmt: skip
    """Report a recognised constant, and from which position on it shows; return a wrong frequency.

    Parameters
    ----------
    run : Run
        The run; nothing is reported if cases failed, which the diagnosis explains.
    angles : RoundingModel, optional
        The angles at all positions.
    known : Model, optional
        The precision class; only a wrong pi is of interest.
    declared : Declaration
        The declared frequencies.
    first : FirstVisible
        The first visible error.
    """
    highest = run.ledger.highest
    if known is not None and known.code == "range-reduction":
        if not run.failures:
            _report(run, known.code, known.name, known.slip, declared, first, highest, known.remedy)
        return None
    found = None if angles is None else recognise(angles, declared.schedule)
    if found is not None and not run.failures:
        off = float(np.abs(found.predicted / declared.frequencies - 1).max())
        remedy = f"{found.remedy} {declared.schedule.formula}".strip()
        _report(run, found.code, found.message, off, declared, first, highest, remedy, found.values)
    return found


def _report(
    run: Run, code: str, message: str, off: float, declared: Declaration, first: FirstVisible,
    highest: int, remedy: str = "", values: dict[str, float] | None = None,
) -> None:  # fmt: skip
    """Add an error if a relative error of the angles exceeds the unit, or else a note."""
    strict = run.settings.angles in ("float64", "exact") or run.coarse == "float64"
    roundoff = ROUNDOFF["float64" if strict else "float32"]
    angle = float(np.abs(declared.frequencies).max()) * highest
    visible = off * angle > ROUNDOFF[run.coarse] + roundoff * angle
    shows = f"angles are off by up to {off * angle:.2g} rad at position {highest}"
    if first.position is not None:
        shows += f"; {first_error(first.position, first.first, run.dtype)}"
    if not visible:
        than = "float64" if off <= ROUNDOFF["float32"] else "float32"
        message += f": within the tolerance, but less accurate than {than} angles"
    severity = ERROR if visible else NOTE
    run.add(
        code, message, shows, by="values", severity=severity, values=values or {}, remedy=remedy
    )


def recognise(angles: RoundingModel, schedule: Schedule) -> FrequencyMistake | None:
    """Return the rule that predicts wrong frequencies, or None if float32 arithmetic explains them.

    An exponent ``ln(w)`` that is rounded to float32 changes w by ``|ln(w)|`` roundings; some more
    are allowed for the power, its inverse and a scaling.
    """
    w, target = angles.measured, angles.frequencies
    noise = target * ROUNDOFF["float32"] * (6 + 2 * np.abs(np.log(target))) + angles.sigma
    off = (w - target) / noise
    if np.abs(off).max() <= 1:
        return None
    for found in _rules(w, target, schedule):
        left = (w - found.predicted) / noise
        if np.abs(left).max() <= 1 and np.linalg.norm(left) <= _LEFT * np.linalg.norm(off):
            return found
    return None


def _rules(w: np.ndarray, target: np.ndarray, schedule: Schedule) -> Iterator[FrequencyMistake]:
    """Yield constants from short to long: tables of few digits, then a base, then a factor."""
    yield from few_digits(target)
    yield from repeated_products(schedule)
    slow = int(np.argmin(target))
    if schedule.target is None and schedule.declared[slow] < 1 / schedule.factor:
        exponent = np.log(target[slow] * schedule.factor) / np.log(schedule.base)
        base = float((w[slow] * schedule.factor) ** (1 / exponent))
        yield from (base_mistake(schedule, short) for short in shorter(base, 10))
    yield from written_pi(target)
    yield from (scaled(target, short) for short in shorter(float(np.median(w / target)), 10))
