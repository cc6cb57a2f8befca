"""Many functions judged one after the other: the record of ``posenc ci`` and of pytest sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from posenc_ref._text import one_line
from posenc_ref.conformance.harness.report import Report
from posenc_ref.limits import LONG_TEXT

from .record import Outcome, Survey, judged
from .tables import WORDS, Cell, TextTable


@dataclass(frozen=True)
class Checked(Outcome):
    """The outcome of checking one function, with its report; there is none after an error.

    The verdict is that of the report, or ``expected`` for exactly the expected deviation, or
    ``unexpected`` if the function conforms although a deviation is expected.
    """

    report: Report | None = None
    code: int = 2  #: the exit code if there is no report

    @classmethod
    def of(cls, name: str, report: Report, seconds: float) -> Self:
        """Return the outcome of a check; without a report if the function could not be judged."""
        if report.error:
            return cls.failed(name, report.error, report.exit_code)
        blank = Outcome(
            case=one_line(name),
            surface=report.surface,
            dtype=report.dtype,
            encoding=report.encoding,
        )
        done = judged(blank, report)
        verdict, reason = report.verdict, "; ".join(report.problems) or done.reason
        if report.expected is not None and report.passed:
            verdict = "unexpected"
        elif report.expected is not None and report.exit_code == 0:
            verdict, reason = "expected", report.expected.reason
        own = {"verdict": verdict, "reason": reason, "seconds": seconds, "report": report}
        return cls(**vars(done) | own)

    @classmethod
    def failed(cls, name: str, reason: str, code: int = 2) -> Self:
        """Return the outcome of a function that could not be judged.

        Its exit code is 2 for wrong settings, and 3 for a function that crashed or took too long.
        """
        reason = one_line(reason, LONG_TEXT)
        return cls(case=one_line(name), verdict="error", reason=reason, code=code)

    @property
    def exit_code(self) -> int:
        """Return the exit code of ``posenc check`` for this function."""
        return self.code if self.report is None else self.report.exit_code

    @property
    def text(self) -> str:
        """Return the whole report, or the reason why there is none."""
        return f"ERROR  {self.name}\n{self.reason}" if self.report is None else str(self.report)

    def to_json(self) -> dict[str, Any]:
        """Return JSON-ready data: the name, the verdict, and the report as ``check`` gives it."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "executed": self.executed,
            "report": None if self.report is None else self.report.to_dict(),
        }


@dataclass
class Batch(Survey):
    """The outcomes of many checks, each a :class:`Checked`."""

    verdicts = ("conforms", "expected", "unexpected", "deviates", "inconclusive", "error")

    @property
    def checked(self) -> list[Checked]:
        """Return the outcomes."""
        return [o for o in self.outcomes if isinstance(o, Checked)]

    @property
    def exit_code(self) -> int:
        """Return 1 if one deviates or passes unexpectedly, else 2 for wrong settings, else 3 or 0.

        3 means that a function crashed, a required check was not judged, or there is no function.
        """
        codes = {one.exit_code for one in self.checked}
        if 1 in codes or 2 in codes:
            return min(codes - {0})
        return 0 if codes == {0} else 3

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready data."""
        return self.head(self.exit_code) | {"cases": [one.to_json() for one in self.checked]}

    def parts(self) -> list[TextTable | str]:
        """Return the reports of failures, a table with a line for each function, and a summary."""
        wrong = [one.text for one in self.checked if one.exit_code]
        return [*wrong, self.table(), self.summary()]

    def table(self) -> TextTable:
        """Return a table with a line for each function."""
        head = ("judged", "surface", "dtype", "cases", "verdict")
        rows: list[list[Cell]] = [
            [
                o.name,
                o.surface,
                o.dtype,
                str(o.executed),
                (" ".join((WORDS[o.verdict], *o.codes)), o.verdict),
            ]
            for o in self.outcomes
        ]
        return TextTable("Positional encodings", head, rows, ("cases",))

    def summary(self) -> str:
        """Return the number of outcomes with each verdict in one line."""
        c = self.counts
        text = (
            f"{len(self.outcomes)} in all: {c['conforms']} conforming, "
            f"{c['expected']} deviating as expected, {c['deviates']} deviating"
        )
        for verdict, words in (
            ("unexpected", "conforming although a deviation is expected"),
            ("inconclusive", "inconclusive"),
            ("error", "in error"),
        ):
            if c[verdict]:
                text += f", {c[verdict]} {words}"
        return text
