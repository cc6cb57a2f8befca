"""A report, check by check: the form that test runners and JUnit files need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .ledger import CALLS
from .report import ERROR, Report

#: Not a check of its own: whether perturbed outputs were rejected, so that a pass means something.
CONTROLS = "controls"
#: Not a check of its own: whether exactly the expected deviation was found.
EXPECTED = "expected deviation"
PASSED, FAILED, XFAILED, SKIPPED = "passed", "failed", "expected", "skipped"


@dataclass(frozen=True)
class CheckResult:
    """The result of one check of a report.

    Attributes
    ----------
    name : str
        The check, as :attr:`Report.executed` names it; or ``calls``, ``controls`` or
        ``expected deviation``.
    executed : int
        The number of judged cases.
    outcome : str
        ``passed``, ``failed``, ``expected`` (it fails, as declared) or ``skipped`` (not judged).
    title : str
        The reason in one line; empty if it passed.
    text : str
        The findings that explain the failure, in full.
    """

    name: str
    executed: int
    outcome: str
    title: str = ""
    text: str = ""


def by_check(report: Report, names: Iterable[str] = ()) -> list[CheckResult]:
    """Return the result of every check of a report; at least one fails unless its exit code is 0.

    ``names`` are checks to list even if they are not in the report.
    """
    failed = dict(report.failed)
    attributed = {code for codes in failed.values() for code in codes}
    others = [code for code in report.codes if code not in attributed]
    if others:
        failed[CALLS] = [*failed.get(CALLS, ()), *others]
    own = dict.fromkeys([*names, *report.executed, *report.required, CALLS, *failed])
    results = [_result(report, name, failed.get(name, ())) for name in own]
    results.append(_controls(report))
    if report.expected is not None:
        text = "; ".join(report.problems)
        results.append(CheckResult(EXPECTED, 0, FAILED if text else PASSED, text))
    return results


def _result(report: Report, name: str, codes: Sequence[str]) -> CheckResult:
    executed, expected = report.executed.get(name, 0), report.expected
    if codes:
        found = [f for f in report.findings if f.severity == ERROR and f.code in codes]
        title = "; ".join(f"{f.code}: {f.message}" for f in found)
        outcome = FAILED
        if expected is not None and set(codes) <= set(expected.codes):
            outcome, title = XFAILED, f"{expected.reason} ({title})"
        return CheckResult(name, executed, outcome, title, "\n".join(map(str, found)))
    if executed or (name == CALLS and report.executed):
        return CheckResult(name, executed, PASSED)
    if report.codes:
        title = f"not judged, because of {', '.join(report.codes)}"
    elif name in report.required:
        return CheckResult(name, 0, FAILED, "required, and no case was judged")
    else:
        title = "; ".join(report.limits) or "not judged in this run"
    return CheckResult(name, 0, SKIPPED, title)


def _controls(report: Report) -> CheckResult:
    count = len(report.controls)
    accepted = [name for name, rejected in report.controls.items() if not rejected]
    if accepted:
        title = f"a perturbed output was accepted: {', '.join(accepted)}"
        return CheckResult(CONTROLS, count, FAILED, title)
    if count:
        return CheckResult(CONTROLS, count, PASSED)
    outcome = SKIPPED if report.codes else FAILED
    return CheckResult(CONTROLS, 0, outcome, "no perturbed output was judged")
