"""The ledger of a run: cases counted, failures remembered, findings and limits reported."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth

from .report import NOTE, Accuracy, Finding, Report

#: Codes that are checks themselves; they come first, because they explain other findings.
DIRECT = ("shape", "raises", "dtype", "nonfinite", "mutates-input", "state")
_NOTHING = "no case judged"


@dataclass(frozen=True)
class Failure:
    """A case that was judged and failed."""

    check: str
    case: str
    score: float
    place: str
    nonfinite: bool = False  #: NaN or infinity came out


@dataclass
class Ledger:
    """Counts cases and writes findings into the report.

    ``only`` makes the failures of one check count alone, for the kill matrix.
    """

    report: Report
    failures: list[Failure] = field(default_factory=list)
    noted: dict[str, str] = field(default_factory=dict)  #: cases whose failure is only a note
    worst: float = 0.0  #: the largest score
    where: str = _NOTHING  #: the place of the largest score
    highest: int = 0  #: the highest position judged
    sample: tuple[np.ndarray, Truth, np.ndarray] | None = None  #: a case for the negative control
    only: str | None = None
    judged: set[str] = field(default_factory=set)  #: the checks that judged anything
    failing: set[str] = field(default_factory=set)  #: the checks that failed, counted or not

    def count(self, check: str, cases: int = 1) -> None:
        """Count ``cases`` judged cases of ``check``."""
        self.report.executed[check] = self.report.executed.get(check, 0) + cases
        self.judged.add(check)

    def score(self, worst: float, where: str) -> None:
        """Remember the largest score and its place."""
        if worst > self.worst or self.where == _NOTHING:
            self.worst, self.where = worst, where

    def reached(self, position: int) -> None:
        """Remember the highest position judged."""
        self.highest = max(self.highest, position)

    def failed(
        self, check: str, case: str, score: float, place: str, nonfinite: bool = False
    ) -> None:
        """Remember a failed case for the diagnosis."""
        if self._counts(named(check, case)):
            self.failures.append(Failure(check, case, score, place, nonfinite))

    def add(
        self, code: str, message: str, evidence: str = "", *, by: str | None = "", **kwargs: Any
    ) -> None:
        """Report a finding, once per code.

        ``by`` is the check that failed, by default the code itself if it is one of ``DIRECT``;
        a finding by None only explains failures that were counted before.
        """
        check = code if by == "" and code in DIRECT and not self.failures else by
        counts = bool(check and kwargs.get("severity") != NOTE and self._counts(check))
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

    def _counts(self, check: str) -> bool:
        """Record that a check failed; return whether its failure counts."""
        self.failing.add(check)
        return self.only in (None, check)

    def finish(self, budget: float) -> Report:
        """Sort the findings, explain what is left, and fill in the accuracy."""
        if not self.failures and not self.report.codes:
            for case, where in self.noted.items():
                self.add(
                    "position-range",
                    f"{case} are accepted and answered wrongly: refuse them, or answer them right",
                    where,
                    severity=NOTE,
                )
        order = {code: i for i, code in enumerate(DIRECT)}
        self.report.findings.sort(key=lambda f: order.get(f.code, len(order)))
        if self.failures and not self.report.codes:
            first = max(self.failures, key=lambda f: (f.nonfinite, f.score))
            code, what = "inaccurate", f"off by up to {first.score:.3g} units"
            if first.nonfinite:
                code, what = "nonfinite", "not finite, or off,"
            self.add(
                code,
                f"{len(self.failures)} cases are {what} (budget {budget:g}), and no named "
                "cause explains them",
                f"{first.check}: {first.place}",
            )
        measured = self.report.accuracy or Accuracy(0.0, 0.0, "")
        self.report.accuracy = replace(
            measured, worst=self.worst, budget=budget, where=self.where, highest=self.highest
        )
        return self.report


def named(check: str, case: str) -> str:
    """Return the name of a check; each property is a check of its own."""
    return f"property {case}" if check == "properties" else check


def _remedy_for(error: str) -> str:
    """Return what to do about an exception; the commonest two causes come first."""
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
