"""The ledger of a run: it counts cases, records failures, and writes the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from posenc_ref._text import one_line
from posenc_ref.accuracy import Truth

from .accuracy import NOTHING, Accuracy
from .crossing import Crossing
from .located.ask import Ask
from .located.locate import Place
from .located.record import Evidence
from .plural import plural
from .report import NOTE, Finding, Report

#: Codes of failures that need no diagnosis; they come first, as they often cause the others.
DIRECT = ("shape", "raises", "dtype", "nonfinite", "mutates-input", "state")
#: The name, in :attr:`Report.failed`, of what can go wrong in any call: those codes but "state".
CALLS = "calls"


@dataclass(frozen=True)
class Failure:
    """A case that was judged and failed."""

    check: str
    case: str
    score: float
    place: str
    nonfinite: bool = False  #: whether the result is NaN or infinite there


@dataclass
class Ledger:
    """The counts, failures and findings of one run, and the report that they go to.

    If ``only`` names a check, failures of other checks are ignored. Tests use it to find out which
    checks detect a mistake.
    """

    report: Report
    failures: list[Failure] = field(default_factory=list)
    noted: dict[str, str] = field(default_factory=dict)  #: optional cases that failed: only a note
    worst: float = 0.0  #: the largest score
    where: str = NOTHING  #: the place of the largest score
    highest: int = 0  #: the highest position judged
    position: int | None = None  #: the highest accepted position, if higher ones are refused
    tokens: int | None = None  #: the most tokens of a call, if more are refused
    #: One judged case, perturbed as a control.
    sample: tuple[np.ndarray, Truth, np.ndarray] | None = None
    only: str | None = None
    judged: set[str] = field(default_factory=set)  #: the checks that judged at least one case
    failing: set[str] = field(default_factory=set)  #: all checks that failed, ignored ones included
    #: The checks whose failures each finding explains, by the finding's code.
    explained: dict[str, set[str]] = field(default_factory=dict)
    evidence: Evidence = field(
        default_factory=Evidence
    )  #: which elements are wrong, in which calls
    crossings: list[Crossing] = field(default_factory=list)  #: the calls of crossed factors
    place: tuple[int, Place | None] | None = None  #: the place found from so many records
    ask: Ask | None = None  #: makes a further call, to find out where the function is wrong
    relate: Callable[[], object] | None = None  #: the last diagnosis, if no other finds a cause
    found: Any = None  #: the rotation that the causes found give, if other calls may differ from it

    def count(self, check: str, cases: int = 1) -> None:
        """Count ``cases`` judged cases of ``check``."""
        self.report.executed[check] = self.report.executed.get(check, 0) + cases
        self.judged.add(check)

    def score(self, worst: float, where: str) -> None:
        """Record a score and its place if it is the largest so far."""
        if worst > self.worst or self.where == NOTHING:
            self.worst, self.where = worst, where

    def reached(self, position: int) -> None:
        """Record the highest position judged so far."""
        self.highest = max(self.highest, position)

    def failed(
        self, check: str, case: str, score: float, place: str, nonfinite: bool = False
    ) -> None:
        """Record a failed case for the diagnosis."""
        if self._counts(named(check, case)):
            self.failures.append(Failure(check, case, score, place, nonfinite))

    def add(
        self, code: str, message: str, evidence: str = "", *, by: str | None = "", **kwargs: Any
    ) -> None:
        """Report a finding, unless the report already has one with this code.

        ``by`` is the name of the check that failed, or None if the finding explains failures that
        are recorded already. If ``by`` is not given and no failure is recorded yet, a code in
        ``DIRECT``, such as "shape", is also the name of the check; other codes mean None.
        """
        check = code if by == "" and code in DIRECT and not self.failures else by
        counts = bool(check and kwargs.get("severity") != NOTE and self._counts(check))
        own = code if by == "" and code in DIRECT else check
        checks = {own} if own else {failure.check for failure in self.failures}
        self.explained.setdefault(code, set()).update(checks)
        if self.only is not None and not (counts or self.failures):
            return
        if code == "raises":
            kwargs.setdefault("remedy", _remedy_for(f"{message} {evidence}"))
        if all(f.code != code for f in self.report.findings):
            self.report.findings.append(Finding(code, message, evidence, **kwargs))

    def refuse_past(self, *, position: int | None = None, tokens: int | None = None) -> None:
        """Record the highest position, or the longest call, past which calls are refused."""
        self.position = self.position if position is None else position
        self.tokens = self.tokens if tokens is None else tokens

    def limit(self, text: str) -> None:
        """Report that the function refuses an optional input, and how the run continues."""
        text = text.replace("refused (NotTried: ", "not tried (")  # it was never called so
        if text not in self.report.limits:
            self.report.limits.append(one_line(text))

    def _counts(self, check: str) -> bool:
        """Record that a check failed; return whether the failure counts (see ``only``)."""
        self.failing.add(check)
        return self.only in (None, check)

    def finish(
        self,
        budget: float,
        where: Callable[[], str] = lambda: "",
        look: Callable[[], str] = lambda: "",
    ) -> Report:
        """Sort the findings, report failures that no finding explains, and add the accuracy.

        ``where`` returns the place of the wrong elements, as the end of a sentence, and ``look``
        which code to look at.
        """
        if self.noted and not self.failures and not self.report.codes:
            *most, last = self.noted
            cases = f"{', '.join(most)}, and {last}," if most else last
            self.add(
                "position-range",
                f"{cases} are accepted and answered wrongly: refuse them, or answer them right",
                "; ".join(
                    f"{case}: {place}" if most else place for case, place in self.noted.items()
                ),
                severity=NOTE,
            )
        order = {code: i for i, code in enumerate(DIRECT)}
        self.report.findings.sort(key=lambda f: order.get(f.code, len(order)))
        if self.failures and not self.report.codes:
            first = max(self.failures, key=lambda f: (f.nonfinite, np.isfinite(f.score), f.score))
            code, off = "inaccurate", f"off by up to {first.score:.3g} error units"
            if first.nonfinite:
                code, off = "nonfinite", "off, or not finite"
            count = plural(len(self.failures), "case is", "cases are")
            text = f"{count} {off} ({budget:g} error units pass)"
            if not (first.nonfinite or np.isfinite(first.score)):  # a property, without units
                text = f"{count} wrong"
            place = f"{first.check}: {first.place}"
            remedy = look() if code == "inaccurate" else ""
            text = f"{text}, and no named cause explains them{where()}"
            self.add(code, text, place, remedy=remedy)
        self.report.failed = self._failed()
        crossings: dict[tuple[str, ...], Crossing] = {}
        for one in filter(lambda one: one.calls, self.crossings):
            known = crossings.get(tuple(one.levels))
            crossings[tuple(one.levels)] = one if known is None else known.joined(one)
        for crossing in crossings.values():
            self.report.crossed[str(crossing)] = crossing.covered()
        measured = self.report.accuracy or Accuracy()
        self.report.accuracy = replace(
            measured, worst=self.worst, budget=budget, where=self.where, highest=self.highest
        )
        return self.report

    def _failed(self) -> dict[str, list[str]]:
        """Return the failed checks, each with the codes of the errors that explain it."""
        found: dict[str, list[str]] = {}
        for code in self.report.codes:
            for check in sorted(self.explained.get(code) or {CALLS}):
                codes = found.setdefault(self._executed(check), [])
                codes.extend({code}.difference(codes))
        for failure in self.failures:  # no error was reported for this check by itself
            found.setdefault(self._executed(failure.check), self.report.codes)
        return found

    def _executed(self, check: str) -> str:
        """Return the name under which the report counts the cases of a check."""
        executed = self.report.executed
        if check.startswith("property ") and check not in executed:
            inner = check.removeprefix("property ")
            return inner if inner in executed else "properties"
        return CALLS if check in DIRECT and check not in executed else check


def named(check: str, case: str) -> str:
    """Return the name of a check; every property of rotations is a check of its own."""
    return f"property {case}" if check == "properties" else check


def _remedy_for(error: str) -> str:
    """Return the remedy for an exception, by its text."""
    if "numpy.ndarray" in error or "must be Tensor" in error:
        return (
            "If the function is for another array library, say so: backend='torch' "
            "(--backend torch)."
        )
    if "the values (v) are changed" in error:
        return "Return v as it was passed: a rotation of v is never undone."
    if "positional argument" in error:
        return (
            "Choose the surface that the function has (--surface frequencies, cos_sin, table, ...; "
            "apply calls fn(x (B, H, S, D), positions (S,))), and bind all other arguments in a "
            "closure."
        )
    if "ProgramDied" in error:
        return (
            'Let the program answer {"refused": "why"} for inputs that it does not support. A '
            "sanitizer or a debugger shows where the program crashes."
        )
    return "Call the function with the printed shape and positions to see its traceback."
