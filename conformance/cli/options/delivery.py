"""What ``posenc check`` does with a report: it prints it, writes JUnit XML, and sets the exit code.

``posenc ci`` calls the function below the decorator instead, which yields the report.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import typer

from posenc_ref.conformance.harness.expected import ExpectedFailure
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.surveys.batch import Checked
from posenc_ref.conformance.surveys.junit import junit_file
from posenc_ref.conformance.surveys.ndjson_writer import recording

from .apart import NoVerdict, Printed, Started, judged, lost
from .loading import UsageError
from .output import say


def printed(judge: Callable[..., Iterator[Any]]) -> Callable[..., None]:
    """Return the command that prints the report of ``judge`` and exits with its exit code."""

    @functools.wraps(judge)
    def command(**asked: Any) -> None:
        with junit_file(asked["junit"]) as outcomes, ExitStack() as files:
            begin = time.perf_counter()
            # Whatever ends this run, an earlier report is not there any more.
            files.enter_context(recording(asked["ndjson"], "check"))
            known = known_deviation(asked["expect"], asked["reason"])
            started: list[Started] = []
            record = None

            def start(facts: Started) -> None:
                nonlocal record
                started.append(facts)
                named: dict[str, Any] = dict(facts.facts)
                file = recording(asked["ndjson"], "check", facts.encoding, **named)
                record = files.enter_context(file)

            try:
                found = judged(judge, asked, start)
            except NoVerdict as error:
                found = lost(error, str(asked["target"] or asked["command"]), asked)
                found.expected = known
                if started:
                    named = {"subject": "subject", "surface": "surface", "declared": "encoding",
                             "backend": "backend", "dtype": "dtype"}  # fmt: skip
                    for fact, name in named.items():
                        setattr(found, name, started[0].facts[fact])
                else:
                    start(_facts(found))
            if isinstance(found, Printed):
                if asked["junit"] or asked["ndjson"] or known:
                    raise UsageError(found.several)
                say(found.text)
                raise typer.Exit(found.code)
            seconds = time.perf_counter() - begin
            if record is not None:
                record.report(found, seconds)
            outcomes.append(Checked.of(found.subject, found, seconds))
        say(found.to_json(indent=1) if asked["as_json"] else str(found))
        raise typer.Exit(found.exit_code)

    return command


def _facts(report: Report) -> Started:
    facts = {
        "subject": report.subject, "surface": report.surface, "declared": report.encoding,
        "backend": report.backend, "backend_version": "", "dtype": report.dtype,
    }  # fmt: skip
    return Started(facts, None)


def known_deviation(codes: Sequence[str] | None, reason: str | None) -> ExpectedFailure | None:
    """Return the expected failure that ``--expect`` and ``--reason`` declare, or None."""
    if not codes and reason is None:
        return None
    if not codes:
        raise UsageError("--reason needs --expect CODE: it says why this deviation is expected")
    if reason is None:
        raise UsageError(
            "--expect needs --reason TEXT: say why the deviation is expected, such as an issue"
        )
    try:
        return ExpectedFailure(tuple(codes), reason)
    except ValueError as error:
        option = "--reason" if not reason.strip() else "--expect"
        raise UsageError(f"{option}: {error}") from None
