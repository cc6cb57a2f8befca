"""``assert_conforms``: a check as an assertion, for any test runner.

An expected failure is declared with its code and a reason. The assertion then fails as soon as the
function conforms, or fails in another way. It also fails if the run judged too few cases.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc_ref import Encoding

from .check import check
from .harness.codes import CODES
from .harness.report import Report


@dataclass(frozen=True)
class ExpectedFailure:
    """A known deviation: its code, or several codes if it has independent causes, and the reason.

    The reason tells a later reader why: an issue, a version, or a fix not yet released.

    Attributes
    ----------
    code : str | Sequence[str]
        The code of the expected finding, or several codes.
    reason : str
        Why the failure is expected, such as an issue.
    """

    code: str | Sequence[str]
    reason: str

    def __post_init__(self) -> None:
        for code in self.codes:
            if code not in CODES:
                near = difflib.get_close_matches(str(code), CODES, n=3) or sorted(CODES)
                raise ValueError(f"code must be a key of CODES, got {code!r}; {_or(near)}")
        if not self.codes:
            raise ValueError("code must name at least one finding that is expected, got none")
        if not isinstance(self.reason, str):
            raise TypeError(f"reason must be a text, got {self.reason!r}")
        if not self.reason.strip():
            raise ValueError(
                "reason must say why the failure is expected, such as an issue, got ''"
            )

    @property
    def codes(self) -> tuple[str, ...]:
        """Return the expected codes as a tuple."""
        return (self.code,) if isinstance(self.code, str) else tuple(self.code)


def assert_conforms(
    fn: Callable[..., Any],
    encoding: Encoding | None = None,
    surface: str | None = None,
    *,
    expected_failure: ExpectedFailure | Mapping[str, Any] | None = None,
    minimum_executed: int = 1,
    required: Sequence[str] = (),
    **settings: Any,
) -> Report:
    """Judge ``fn``; raise AssertionError with the report unless the verdict is the expected one.

    Parameters
    ----------
    fn, encoding, surface, settings
        As for :func:`posenc_ref.conformance.check`.
    expected_failure : ExpectedFailure or mapping, optional
        ``{"code": ..., "reason": ...}``: exactly these errors are expected.  The assertion fails
        if the function conforms (remove the expectation), or fails with other codes.
    minimum_executed : int
        The number of cases that must have been judged, at least 1.
    required : sequence of str
        Names of checks, as the report lists them under ``executed``, that must have judged
        something, on top of those that the suite itself requires.

    Returns
    -------
    Report
        For further assertions, such as on ``.accuracy.degrades_at``.

    Raises
    ------
    AssertionError
        The function deviates unexpectedly, or conforms although a failure is expected; too few
        cases were judged; or a perturbed output was accepted.
    HarnessError
        A program of :func:`from_command` could not be judged at all.
    """
    __tracebackhide__ = True
    expected = _expectation(expected_failure)
    if isinstance(minimum_executed, bool) or not isinstance(minimum_executed, int):
        raise TypeError(f"minimum_executed must be an integer, got {minimum_executed!r}")
    if minimum_executed < 1:
        raise ValueError(
            f"minimum_executed must be at least 1, got {minimum_executed}: a run without a judged "
            "case says nothing"
        )
    if isinstance(required, str):
        raise TypeError(f"required must be a sequence of names of checks, got {required!r}")
    report = check(fn, encoding, surface, **settings)
    problems = [*_vacuous(report, minimum_executed, required), *_unexpected(report, expected)]
    if problems:
        raise AssertionError("\n".join([*problems, "", str(report)]))
    return report


def _expectation(value: ExpectedFailure | Mapping[str, Any] | None) -> ExpectedFailure | None:
    if value is None or isinstance(value, ExpectedFailure):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(
            'expected_failure must be an ExpectedFailure or {"code": ..., "reason": ...}, '
            f"got {value!r}"
        )
    if set(value) != {"code", "reason"}:
        given = ", ".join(sorted(map(str, value))) or "nothing"
        raise TypeError(f'expected_failure needs "code" and "reason", and no more; got {given}')
    return ExpectedFailure(value["code"], value["reason"])


def _vacuous(report: Report, minimum: int, required: Sequence[str]) -> list[str]:
    """Return the reasons why the run judged too little, or an empty list if it judged enough."""
    found = []
    accepted = [name for name, rejected in report.controls.items() if not rejected]
    if accepted:
        found.append(f"the check is vacuous: a perturbed output was accepted ({_and(accepted)})")
    elif not report.controls:
        found.append("the check is vacuous: no perturbed output was judged")
    count = sum(report.executed.values())
    if count < minimum:
        found.append(
            f"too little was judged: {count} cases, at least {minimum} must be; if the function "
            "refuses all inputs, skip the test"
        )
    missing = [name for name in required if not report.executed.get(name)]
    if missing:
        done = _and([name for name, n in report.executed.items() if n]) or "nothing"
        found.append(f"required and not judged: {_and(missing)}; judged: {done}")
    return found


def _unexpected(report: Report, expected: ExpectedFailure | None) -> list[str]:
    """Return how the verdict differs from the expected one, or an empty list if it does not."""
    if expected is None:
        return [] if report.passed else [f"{report.subject} does not conform to its declaration"]
    because = f"(expected because: {expected.reason})"
    if report.passed:
        return [
            f"unexpected pass: {_and(expected.codes)} is gone {because}; remove expected_failure"
        ]
    other = [code for code in report.codes if code not in expected.codes]
    gone = [code for code in expected.codes if code not in report.codes]
    found = []
    if other:
        found.append(f"fails with {_and(other)}, which is not expected {because}")
    if gone:
        found.append(f"does not fail with {_and(gone)} any more {because}")
    return found


def _and(words: Sequence[str]) -> str:
    return ", ".join(words)


def _or(words: Sequence[str]) -> str:
    return f"did you mean {' or '.join(words)}?" if len(words) <= 3 else f"use one of {_and(words)}"
