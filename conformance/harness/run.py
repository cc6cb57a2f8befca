"""One run of the suite: an implementation is judged against an encoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref import Encoding, ModelEncoding
from posenc_ref.accuracy import ROUNDOFF, Truth, budget

from .driver import Driver
from .ledger import Failure, Ledger, named
from .probes import dense
from .report import NOTE, Report
from .signatures import SIGNATURES, Surface


@dataclass(frozen=True)
class Settings:
    """How to judge: the arguments of ``check`` that are not about calling the function."""

    angles: str | None = None  #: how the implementation may hold its angles (accuracy.ANGLES)
    precision: str | None = None
    max_position: int | None = None
    seed: int = 0
    head_dim: int | None = None
    reduced: bool = False  #: fewer shapes, calls and positions, where calls are expensive

    def allows(self, position: int) -> bool:
        """Return whether a position is to be judged."""
        return self.max_position is None or position <= self.max_position

    def up_to(self, position: int) -> int:
        """Return the position, or ``max_position`` if that is smaller."""
        return position if self.max_position is None else min(position, self.max_position)


@dataclass(frozen=True)
class Run:
    """What every judge works with: the function, the encoding, the settings and the ledger."""

    driver: Driver
    encoding: Any  #: an Encoding, or None where only properties are judged
    settings: Settings
    ledger: Ledger

    @property
    def report(self) -> Report:
        """The report that the ledger writes."""
        return self.ledger.report

    @property
    def surface(self) -> Surface:
        """The record of the surface."""
        return SIGNATURES[self.report.surface]

    @property
    def failures(self) -> list[Failure]:
        """The failed cases so far."""
        return self.ledger.failures

    @property
    def dtype(self) -> str:
        """The dtype whose roundoff judges: the declared one, or a narrower one that came out."""
        out = self.driver.out_dtypes & set(ROUNDOFF)
        return max(out | {self.driver.dtype}, key=lambda name: ROUNDOFF[name])

    @property
    def coarse(self) -> str:
        """The coarser dtype of ``precision`` and the output."""
        return max((self.dtype, self.settings.precision or self.dtype), key=ROUNDOFF.__getitem__)

    @property
    def budget(self) -> float:
        """The largest score that passes."""
        return budget(self.dtype, self.settings.precision)

    def unit(self, truth: Truth) -> np.ndarray:
        """Return the unit of every element."""
        s = self.settings
        unit = truth.unit(self.dtype, angles=s.angles, precision=s.precision)
        return np.broadcast_to(unit, truth.value.shape)

    def random(self, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
        """Return normal random numbers, rounded to the dtype of the function's input."""
        return self.driver.rounded(dense(shape, self.settings.seed + seed))

    def scores(self, actual: np.ndarray, truth: Truth, angles: str | None = None) -> np.ndarray:
        """Return the score of every element."""
        s = self.settings
        chosen = angles or s.angles
        return truth.score(actual, angles=chosen, precision=s.precision, dtype=self.dtype)

    def judge(
        self, check: str, case: str, actual: np.ndarray, truth: Truth, mask: Any = None
    ) -> bool:
        """Judge one case against the oracle; a failure is remembered, not yet explained."""
        if actual.shape != truth.value.shape:
            self.failed(check, case, np.inf, f"shape {actual.shape}, not {truth.value.shape}")
            return False
        score = self.scores(actual, truth)
        if mask is not None:
            score = np.where(mask, score, 0.0)
        self.count(check)
        self.ledger.judged.add(named(check, case))
        if score.size == 0:
            return True
        place = np.unravel_index(int(np.argmax(score)), score.shape)
        worst = float(score[place])
        at = tuple(int(i) for i in place)
        where = f"case {case!r} at index {at}: {actual[at]:.9g}, truth {truth.value[at]:.9g}"
        self.ledger.score(worst, where)
        if self.ledger.sample is None:
            unit = self.unit(truth)
            live = (unit > 0) if mask is None else (unit > 0) & mask
            if live.any() or not unit.any():
                self.ledger.sample = (actual, truth, live)
        if worst > self.budget:
            self.failed(check, case, worst, where, not np.isfinite(actual[at]))
            return False
        return True

    def note(self, case: str, actual: np.ndarray, truth: Truth) -> None:
        """Judge an optional input; a wrong answer to it alone is only a note.

        Negative positions above all: a table wraps them round, as its language indexes.
        """
        self.count("optional inputs")
        score = self.scores(actual, truth)
        if score.size and float(score.max()) > self.budget:
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(score)), score.shape))
            self.ledger.noted[case] = f"index {at}: {actual[at]:.6g}, truth {truth.value[at]:.6g}"

    def count(self, check: str, cases: int = 1) -> None:
        """Count ``cases`` judged cases of ``check``."""
        self.ledger.count(check, cases)

    def reached(self, position: int) -> None:
        """Remember the highest position judged."""
        self.ledger.reached(position)

    def failed(
        self, check: str, case: str, score: float, place: str, nonfinite: bool = False
    ) -> None:
        """Remember a failed case for the diagnosis."""
        self.ledger.failed(check, case, score, place, nonfinite)

    def add(self, code: str, message: str, evidence: str = "", **kwargs: Any) -> None:
        """Report a finding, once per code; see :meth:`Ledger.add`."""
        self.ledger.add(code, message, evidence, **kwargs)

    def limit(self, text: str) -> None:
        """Report an optional input that was refused, and what was done instead."""
        self.ledger.limit(text)

    def control(self) -> None:
        """Judge the function's own output with one element moved, and with a NaN in it.

        A judge that accepts either is vacuous; the verdict is ``error`` then.
        """
        controls = self.report.controls
        if self.ledger.sample is None:
            if not (self.report.codes or self.report.missing or self.failures):  # why not?
                controls["values: a case was compared"] = False
            return
        actual, truth, live = self.ledger.sample
        at = tuple(np.argwhere(live)[-1]) if live.any() else tuple(0 for _ in actual.shape)
        moved, holed = np.array(actual), np.array(actual)
        step = 2 * self.budget * self.unit(truth)[at] if live.any() else 1.0
        moved[at], holed[at] = truth.value[at] + step, np.nan
        for name, spoiled in (("one element moved by two budgets", moved), ("one NaN", holed)):
            controls[f"values: {name}"] = bool(self.scores(spoiled, truth)[at] > self.budget)

    def explain(self, diagnose: Callable[..., object], *args: Any) -> None:
        """Run a diagnosis; if it breaks on what the function returned, the verdict stands."""
        try:
            diagnose(self, *args)
        except (ArithmeticError, IndexError, ValueError) as error:
            self.limit(f"the diagnosis broke off ({type(error).__name__}: {error}); please report")

    def finish(self) -> Report:
        """Complete the report: negative controls, dtypes, written inputs and the accuracy."""
        self.control()
        self._dtypes()
        if self.driver.mutated and not self.driver.inplace:
            self.add(
                "mutates-input",
                f"the input {self.driver.mutated} is written over",
                f"{self.driver.mutated} compared with a copy taken before the call",
            )
        return self.ledger.finish(self.budget)

    def _dtypes(self) -> None:
        declared = self.driver.dtype
        for name in sorted(self.driver.out_dtypes):
            message = f"{declared} goes in, {name} comes out"
            if ROUNDOFF.get(name, 0.0) > ROUNDOFF[declared]:
                self.add("dtype", message, f"result dtype {name}")
            elif 0 < ROUNDOFF.get(name, 0.0) < ROUNDOFF[declared] and self.driver.keeps_dtype:
                self.add("dtype", message, f"result dtype {name}", severity=NOTE)

    def floats_only(self) -> bool:
        """Return whether every result so far was floating; report a finding otherwise."""
        for name in sorted(self.driver.out_dtypes - set(ROUNDOFF)):
            self.add("dtype", f"the result has dtype {name}", "a floating dtype is needed")
            return False
        return True


def describe(encoding: Encoding | ModelEncoding | None) -> str:
    """Return the declared encoding in one line."""
    return "nothing (properties only)" if encoding is None else repr(encoding)
