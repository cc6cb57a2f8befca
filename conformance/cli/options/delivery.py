"""What ``posenc check`` does with a report: it prints it, writes JUnit XML, and sets the exit code.

``posenc ci`` calls the function below the decorator instead, which returns the report.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from posenc_ref.conformance.harness.expected import ExpectedFailure
from posenc_ref.conformance.harness.report import Report
from posenc_ref.conformance.surveys.batch import Checked
from posenc_ref.conformance.surveys.junit import junit_file

from .loading import UsageError
from .onnx_model import SeveralParts


def printed(judge: Callable[..., Report]) -> Callable[..., None]:
    """Return the command that prints the report of ``judge`` and exits with its exit code."""

    @functools.wraps(judge)
    def command(*, junit: Path | None, as_json: bool, **asked: Any) -> None:
        begin = time.perf_counter()
        with junit_file(junit) as outcomes:
            try:
                report = judge(junit=junit, as_json=as_json, **asked)
            except SeveralParts as parts:
                if junit is not None or asked["ndjson"] is not None or asked["expect"]:
                    raise
                raise typer.Exit(parts.show(as_json)) from None
            seconds = time.perf_counter() - begin
            outcomes.append(Checked.of(report.subject, report, seconds))
        typer.echo(report.to_json(indent=1) if as_json else str(report))
        raise typer.Exit(report.exit_code)

    return command


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
