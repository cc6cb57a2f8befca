"""One run of the suite: cases judged and counted, failures kept for the diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from posenc_ref import Encoding, ModelEncoding
from posenc_ref.accuracy import ROUNDOFF, Truth, budget

from .driver import Subject
from .report import NOTE, Accuracy, Finding, Report

#: These explain others, so they are listed before them.
_FIRST = ("shape", "raises", "dtype", "nonfinite", "mutates-input", "state")


_NOTHING = "no case judged"
#: Findings that are checks of their own: nothing is compared, the finding is what was seen.
DIRECT = ("shape", "raises", "dtype", "nonfinite", "mutates-input", "state")


@dataclass(frozen=True)
class Failure:
    """A case that was judged and failed."""

    check: str
    case: str
    score: float
    place: str
    nonfinite: bool = False  #: NaN or infinity came out


@dataclass
class Run:
    """What every surface's judge works with."""

    subject: Subject
    encoding: Any  # an Encoding, or None where properties only are judged
    report: Report
    angles: str | None = None  #: how the implementation may hold its angles (accuracy.ANGLES)
    precision: str | None = None
    max_position: int | None = None
    seed: int = 0
    factory: Any = None
    head_dim: int | None = None
    dear: bool = False  #: whether calls cost much: channels in one batch, few shapes and positions
    failures: list[Failure] = field(default_factory=list)
    noted: dict[str, str] = field(default_factory=dict)  #: cases whose failure is a note
    only: str | None = None  #: the one check whose failures count, as if it ran alone
    asked: set[str] = field(default_factory=set)  #: the checks that judged anything
    failing: set[str] = field(default_factory=set)  #: those of them that failed, counted or not
    worst: float = 0.0
    where: str = _NOTHING
    highest: int = 0
    _control: tuple[np.ndarray, Truth, np.ndarray] | None = None

    @property
    def dtype(self) -> str:
        """The dtype whose roundoff judges: the declared one, or a narrower one that came out."""
        out = self.subject.out_dtypes & set(ROUNDOFF)
        return max(out | {self.subject.dtype}, key=lambda name: ROUNDOFF[name])

    @property
    def coarse(self) -> str:
        """The dtype of the coarsest rounding there may be: ``precision``, or the output's."""
        return max((self.dtype, self.precision or self.dtype), key=lambda name: ROUNDOFF[name])

    @property
    def budget(self) -> float:
        """The largest score that passes."""
        return budget(self.dtype, self.precision)

    def scores(self, actual: np.ndarray, truth: Truth, angles: str | None = None) -> np.ndarray:
        """The score of every element."""
        chosen = angles or self.angles
        return truth.score(actual, angles=chosen, precision=self.precision, dtype=self.dtype)

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
        self.asked.add(_named(check, case))
        if score.size == 0:
            return True
        place = np.unravel_index(int(np.argmax(score)), score.shape)
        worst = float(score[place])
        at = tuple(int(i) for i in place)
        where = f"case {case!r} at index {at}: {actual[at]:.9g}, truth {truth.value[at]:.9g}"
        if worst > self.worst or self.where == _NOTHING:
            self.worst, self.where = worst, where
        if self._control is None:
            unit = truth.unit(self.dtype, angles=self.angles, precision=self.precision)
            unit = np.broadcast_to(unit, score.shape)
            live = (unit > 0) if mask is None else (unit > 0) & mask
            if live.any() or not unit.any():
                self._control = (actual, truth, live)
        if worst > self.budget:
            self.failed(check, case, worst, where, not np.isfinite(actual[at]))
            return False
        return True

    def _counts(self, check: str, case: str = "") -> bool:
        """Note that a check failed; whether it counts."""
        name = _named(check, case)
        self.failing.add(name)
        return self.only in (None, name)

    def note(self, case: str, actual: np.ndarray, truth: Truth) -> None:
        """Judge an input outside the ordinary; a wrong answer to it alone is worth a note.

        Negative positions above all: a table wraps them round, as its language indexes.
        """
        self.count("optional inputs")
        score = self.scores(actual, truth)
        if score.size and float(score.max()) > self.budget:
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(score)), score.shape))
            self.noted[case] = f"index {at}: {actual[at]:.6g}, truth {truth.value[at]:.6g}"

    def count(self, check: str, cases: int = 1) -> None:
        """Note that ``cases`` cases of ``check`` were judged."""
        self.report.executed[check] = self.report.executed.get(check, 0) + cases
        self.asked.add(check)

    def failed(
        self, check: str, case: str, score: float, place: str, nonfinite: bool = False
    ) -> None:
        """Remember a failed case for the diagnosis."""
        if not self._counts(check, case):
            return
        self.failures.append(Failure(check, case, score, place, nonfinite))

    def add(
        self, code: str, message: str, evidence: str = "", *, by: str | None = "", **kwargs: Any
    ) -> None:
        """Report a finding, once per code.

        ``by`` is the check that saw it, by default the code itself if that is a check; what is
        seen by None only explains failures that were counted before.
        """
        sight = code if by == "" and code in DIRECT and not self.failures else by
        counts = bool(sight and kwargs.get("severity") != NOTE and self._counts(sight))
        if self.only is not None and not (counts or self.failures):
            return
        if code == "raises":
            kwargs.setdefault("remedy", _remedy_for(f"{message} {evidence}"))
        if all(f.code != code for f in self.report.findings):
            self.report.findings.append(Finding(code, message, evidence, **kwargs))

    def limit(self, text: str) -> None:
        """Report an optional input that was refused, and what was done instead."""
        if text not in self.report.limits:
            self.report.limits.append(text)

    def control(self) -> None:
        """Judge the function's own output with one element moved, and with a NaN in it.

        A judge that accepts either is vacuous; the verdict is ``error`` then.
        """
        if self._control is None:
            if not (self.report.codes or self.report.missing or self.failures):  # why not?
                self.report.controls["values: a case was compared"] = False
            return
        actual, truth, live = self._control
        unit = np.broadcast_to(
            truth.unit(self.dtype, angles=self.angles, precision=self.precision), actual.shape
        )
        at = tuple(np.argwhere(live)[-1]) if live.any() else tuple(0 for _ in actual.shape)
        moved, holed = np.array(actual), np.array(actual)
        moved[at] = truth.value[at] + (2 * self.budget * unit[at] if live.any() else 1.0)
        holed[at] = np.nan
        self.report.controls["values: one element moved by two budgets"] = bool(
            self.scores(moved, truth)[at] > self.budget
        )
        self.report.controls["values: one NaN"] = bool(self.scores(holed, truth)[at] > self.budget)

    def explain(self, diagnose: Callable[..., object], *args: Any) -> None:
        """Run a diagnosis; if it breaks on what the function returned, the verdict stands."""
        try:
            diagnose(self, *args)
        except (ArithmeticError, IndexError, ValueError) as error:
            self.limit(f"the diagnosis broke off ({type(error).__name__}: {error}); please report")

    def finish(self) -> Report:
        """Fill in the accuracy and what the subject showed along the way."""
        self.control()
        self._dtypes()
        if self.subject.mutated and not self.subject.inplace:
            self.add(
                "mutates-input",
                f"the input {self.subject.mutated} is written over",
                f"{self.subject.mutated} compared with a copy taken before the call",
            )
        if not self.failures and not self.report.codes:
            for case, where in self.noted.items():
                self.add(
                    "position-range",
                    f"{case} are accepted and answered wrongly: refuse them, or answer them right",
                    where,
                    severity=NOTE,
                )
        order = {code: i for i, code in enumerate(_FIRST)}
        self.report.findings.sort(key=lambda f: order.get(f.code, len(order)))
        if self.failures and not any(f.severity == "error" for f in self.report.findings):
            first = max(self.failures, key=lambda f: (f.nonfinite, f.score))
            code, what = "inaccurate", f"off by up to {first.score:.3g} units"
            if first.nonfinite:
                code, what = "nonfinite", "not finite, or off,"
            self.add(
                code,
                f"{len(self.failures)} cases are {what} (budget {self.budget:g}), and no named "
                "cause explains them",
                f"{first.check}: {first.place}",
            )
        old = self.report.accuracy
        self.report.accuracy = Accuracy(
            worst=self.worst,
            budget=self.budget,
            where=self.where,
            precision=old.precision if old else "",
            errors=old.errors if old else {},
            degrades_at=old.degrades_at if old else None,
            highest=self.highest,
        )
        return self.report

    def _dtypes(self) -> None:
        declared = self.subject.dtype
        for name in sorted(self.subject.out_dtypes):
            if ROUNDOFF.get(name, 0.0) > ROUNDOFF[declared]:
                self.add("dtype", f"{declared} goes in, {name} comes out", f"result dtype {name}")
            elif 0 < ROUNDOFF.get(name, 0.0) < ROUNDOFF[declared] and self.subject.keeps_dtype:
                message = f"{declared} goes in, {name} comes out"
                self.add("dtype", message, f"result dtype {name}", severity="note")

    def floats_only(self) -> bool:
        """Whether every result so far was floating; otherwise a finding says so."""
        for name in sorted(self.subject.out_dtypes - set(ROUNDOFF)):
            self.add("dtype", f"the result has dtype {name}", "a floating dtype is needed")
            return False
        return True


def _named(check: str, case: str) -> str:
    """The name of a check: each property is one of its own."""
    return f"property {case}" if check == "properties" else check


def _remedy_for(error: str) -> str:
    """What to do about an exception: the two stumbles that everybody makes come first."""
    if "numpy.ndarray" in error or "must be Tensor" in error:
        return (
            "If the function is for another array library, say so: backend='torch' "
            "(--backend torch)."
        )
    if "positional argument" in error:
        return (
            "Choose the surface that the function has (--surface frequencies, cos_sin, table, ...; "
            "apply calls fn(x (B, H, S, D), positions (S,))), and bind all other arguments in a "
            "closure."
        )
    if "ProgramDied" in error:
        return (
            'Answer {"refused": "why"} to what it is not for; a sanitizer or a debugger shows '
            "where it dies."
        )
    return "Call the function with the printed shape and positions to see its traceback."


def describe(encoding: Encoding | ModelEncoding | None) -> str:
    """The declared encoding in one line."""
    return "nothing (properties only)" if encoding is None else repr(encoding)
