"""The result that the lines of a report file describe; :mod:`ndjson` writes and reads the lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from posenc_ref._text import shown
from posenc_ref.conformance.harness.accuracy import Accuracy
from posenc_ref.conformance.harness.expected import expectation
from posenc_ref.conformance.harness.received import (
    made,
    number,
    report_of,
    require,
    require_within,
)
from posenc_ref.conformance.harness.report import Finding, Report

from .batch import Batch, Checked
from .record import VERIFY_KEYS, Outcome

if TYPE_CHECKING:
    from .verify import Verification

#: The entries of the footer of a check, with their types.
_CHECK_FOOTER = {
    "measured": "str", "called": "str", "error": "str", "printed": "str",
    "crossed": "dict[str, dict[str, str]]",
}  # fmt: skip
#: Those that files of earlier versions lack.
_FOOTER: dict[str, Any] = dict.fromkeys(_CHECK_FOOTER, "") | {"crossed": {}}
#: Fields of reports that files of earlier versions lack.
_OLDER = {"error": "", "printed": "", "crossed": {}}
#: The field of accuracies and outcomes that they lack: no claim about smaller positions.
_OLDER_ACCURACY = {"degrades_first": False}
_OLDER_OUTCOME = {**_OLDER_ACCURACY, "source": ""}


def recorded_result(
    header: Mapping[str, Any], of: Mapping[str, Sequence[Any]], footer: Mapping[str, Any]
) -> tuple[Report | Verification | Batch, tuple[Any, int]]:
    """Return the result, and its verdict or counts with its exit code; ``of`` has lines by event.

    A missing or wrong entry raises TypeError or ValueError.
    """
    require("footer", footer, seconds="float")
    require("header", header, versions="dict[str, str]", platform="str")
    if header["kind"] == "check":
        texts = ("subject", "surface", "declared", "backend", "backend_version", "dtype")
        require("header", header, **dict.fromkeys(texts, "str"))
        require("footer", {**_FOOTER, **footer}, **_CHECK_FOOTER)
        for check in of["check"]:
            require("check", check, name="str", executed="int", required="bool", codes="list[str]")
        for control in of["control"]:
            require("control", control, name="str", rejected="bool")
        for limit in of["limit"]:
            require("limit", limit, text="str")
        report = Report(
            header["subject"], header["surface"], header["declared"], header["backend"],
            header["dtype"],
            findings=[_made(Finding, e) for e in of["finding"]],
            accuracy=next((_made(Accuracy, _OLDER_ACCURACY | e) for e in of["accuracy"]), None),
            limits=[e["text"] for e in of["limit"]],
            executed={e["name"]: e["executed"] for e in of["check"] if e["executed"]},
            required=tuple(e["name"] for e in of["check"] if e["required"]),
            controls={e["name"]: e["rejected"] for e in of["control"]},
            failed={e["name"]: e["codes"] for e in of["check"] if e["codes"]},
            expected=expectation(footer.get("expected")),
            **{name: {**_FOOTER, **footer}[name] for name in _FOOTER},
        )  # fmt: skip
        return report, (report.verdict, report.exit_code)
    found: Verification | Batch
    if header["kind"] == "verify":
        from .verify import Verification

        found = Verification(
            [_made(Outcome, _OLDER_OUTCOME | e) for e in of["outcome"]], footer["seconds"]
        )
    else:
        found = Batch([case_of(e) for e in of["case"]], footer["seconds"])
    return found, (found.counts, found.exit_code)


def case_of(event: Mapping[str, Any]) -> Checked:
    """Return the outcome of one function that :meth:`NdjsonWriter.case` wrote."""
    require("case", event, name="str", reason="str", seconds="float", exit_code="int")
    body = event.get("report")
    if body is None:
        return Checked.failed(event["name"], event["reason"], event["exit_code"])
    if not isinstance(body, Mapping):
        raise ValueError(f"the report of a case must be an object or null, got {shown(body)}")
    body = {**_OLDER, **body}
    if isinstance(body.get("accuracy"), Mapping):
        body["accuracy"] = {**_OLDER_ACCURACY, **body["accuracy"]}
    return Checked.of(event["name"], report_of(body), number(event["seconds"]))


def _made(cls: type[Any], event: Mapping[str, Any]) -> Any:
    """Return the instance of ``cls`` that was written as ``event``."""
    if cls is not Outcome:
        return made(cls, event, cls.__name__.lower())
    kinds = {f.name: str(f.type) for f in fields(Outcome) if f.name in VERIFY_KEYS}
    require("outcome", event, **kinds)
    outcome = Outcome.from_dict(event)
    errors = {p: number(e) for p, e in outcome.errors.items()}
    worst = number(outcome.worst) if outcome.executed else outcome.worst
    if outcome.verdict == "conforms" and worst is not None:
        require_within(worst, outcome.budget)
    return outcome.replace(errors=errors, worst=worst)
