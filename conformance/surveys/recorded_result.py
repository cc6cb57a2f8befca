"""The result that the lines of a report file describe; :mod:`ndjson` writes and reads the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posenc_ref.conformance.harness.expected import expectation
from posenc_ref.conformance.harness.received import made, number, report_of
from posenc_ref.conformance.harness.report import Accuracy, Finding, Report

from .batch import Batch, Checked
from .record import Outcome

if TYPE_CHECKING:
    from .verify import Verification

#: Fields of reports that files of earlier versions lack.
_OLDER = {"error": "", "printed": ""}


def recorded_result(
    header: Mapping[str, Any], of: Mapping[str, Sequence[Any]], footer: Mapping[str, Any]
) -> tuple[Report | Verification | Batch, tuple[Any, int]]:
    """Return the result, and its verdict or counts with its exit code; ``of`` has lines by event.

    A missing or wrong entry raises KeyError, TypeError or ValueError.
    """
    if header["kind"] == "check":
        report = Report(
            header["subject"], header["surface"], header["declared"], header["backend"],
            header["dtype"],
            findings=[_made(Finding, e) for e in of["finding"]],
            accuracy=next((_made(Accuracy, e) for e in of["accuracy"]), None),
            limits=[e["text"] for e in of["limit"]],
            executed={e["name"]: e["executed"] for e in of["check"] if e["executed"]},
            required=tuple(e["name"] for e in of["check"] if e["required"]),
            controls={e["name"]: e["rejected"] for e in of["control"]},
            measured=footer["measured"],
            called=footer.get("called", ""),
            failed={e["name"]: e["codes"] for e in of["check"] if e["codes"]},
            expected=expectation(footer["expected"]),
            error=footer.get("error", ""),
            printed=footer.get("printed", ""),
        )  # fmt: skip
        return report, (report.verdict, report.exit_code)
    found: Verification | Batch
    if header["kind"] == "verify":
        from .verify import Verification

        found = Verification([_made(Outcome, e) for e in of["outcome"]], footer["seconds"])
    else:
        found = Batch([case_of(e) for e in of["case"]], footer["seconds"])
    return found, (found.counts, found.exit_code)


def case_of(event: Mapping[str, Any]) -> Checked:
    """Return the outcome of one function that :meth:`NdjsonWriter.case` wrote."""
    body = event["report"]
    if body is None:
        return Checked.failed(event["name"], event["reason"], event["exit_code"])
    return Checked.of(event["name"], report_of(_OLDER | body), event["seconds"])


def _made(cls: type[Any], event: Mapping[str, Any]) -> Any:
    """Return the instance of ``cls`` that was written as ``event``."""
    if cls is not Outcome:
        return made(cls, event, cls.__name__.lower())
    outcome = Outcome.from_dict(event)
    errors = {p: number(e) for p, e in outcome.errors.items()}
    worst = number(outcome.worst) if outcome.executed else outcome.worst
    return outcome.replace(errors=errors, worst=worst)
