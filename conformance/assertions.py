"""``assert_conforms``: a check as an assertion, for any test runner.

An expected failure is declared with its code and a reason. The assertion then fails as soon as the
function conforms, or fails in another way. It also fails if the run judged too few cases.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from posenc_ref import Encoding

from .check import check
from .harness.expected import (
    ExpectedFailure,
    expectation,
    nothing_left,
    unexpected,
    vacuous,
)
from .harness.report import Report


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
    expected = expectation(expected_failure)
    if isinstance(minimum_executed, bool) or not isinstance(minimum_executed, int):
        raise TypeError(f"minimum_executed must be an integer, got {minimum_executed!r}")
    if minimum_executed < 1:
        raise ValueError(
            f"minimum_executed must be at least 1, got {minimum_executed}: a run without a judged "
            "case says nothing"
        )
    if isinstance(required, str):
        raise TypeError(f"required must be a sequence of names of checks, got {required!r}")
    begin = time.perf_counter()
    report = check(fn, encoding, surface, **settings)
    asked = minimum_executed > 1 or bool(required)
    problems = []
    if asked or not nothing_left(report.executed, report.controls, report.codes, expected):
        problems = vacuous(report.executed, report.controls, minimum_executed, required)
    if expected is not None:
        problems += unexpected(report.passed, report.codes, expected)
    elif not report.passed:
        problems.append(f"{report.subject} does not conform to its declaration")
    text = "\n".join([*problems, "", str(report)])
    report.expected = expected
    tell_pytest(report, time.perf_counter() - begin)
    if problems:
        raise AssertionError(text)
    return report


def tell_pytest(report: Report, seconds: float, part: str = "") -> None:
    """Pass a report to the pytest plugin, if it is loaded, for its summary and its files.

    ``part`` is the id of the check for which the test was parametrized.
    """
    plugin = sys.modules.get("posenc_ref_pytest")
    if plugin is not None:
        plugin.judged(report, seconds, part)
