"""The result that the lines of a report file describe; :mod:`ndjson` writes and reads the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from posenc_ref.conformance.harness.accuracy import Accuracy
from posenc_ref.conformance.harness.expected import expectation
from posenc_ref.conformance.harness.report import Finding, Report

from .batch import Batch, Checked
from .record import VERIFY_KEYS, Outcome
from .verify import Verification


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
        )  # fmt: skip
        return report, (report.verdict, report.exit_code)
    found: Verification | Batch
    if header["kind"] == "verify":
        found = Verification([_made(Outcome, e) for e in of["outcome"]], footer["seconds"])
    else:
        found = Batch([case_of(e) for e in of["case"]], footer["seconds"])
    return found, (found.counts, found.exit_code)


def case_of(event: Mapping[str, Any]) -> Checked:
    """Return the outcome of one function that :meth:`NdjsonWriter.case` wrote."""
    body = event["report"]
    if body is None:
        return Checked.failed(event["name"], event["reason"])
    body = {f.name: body[f.name] for f in fields(Report)}
    body["findings"] = [_made(Finding, finding) for finding in body["findings"]]
    body["accuracy"] = None if body["accuracy"] is None else _made(Accuracy, body["accuracy"])
    body["expected"] = expectation(body["expected"])
    report = Report(**body | {"required": tuple(body["required"])})
    return Checked.of(event["name"], report, event["seconds"])


def _made(cls: type[Any], event: Mapping[str, Any]) -> Any:
    """Return the instance of ``cls`` that was written as ``event``."""
    names = VERIFY_KEYS if cls is Outcome else [f.name for f in fields(cls)]
    body = {name: event[name] for name in names}
    if "errors" in body:  # infinity is null in JSON
        body["errors"] = {int(p): _number(e) for p, e in body["errors"].items()}
    if cls is Accuracy or body.get("executed"):  # else there is no worst score
        body["worst"] = _number(body["worst"])
    tuples = ("equivalent", "known", "codes", "messages", "limits")
    return cls(**{k: tuple(v) if k in tuples else v for k, v in body.items()})


def _number(value: float | None) -> float:
    return float("inf") if value is None else value
