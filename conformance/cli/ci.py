"""The command ``posenc ci``."""

from __future__ import annotations

import fnmatch
import functools
import inspect
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from posenc_ref._text import one_line
from posenc_ref.conformance.external.process import HarnessError
from posenc_ref.conformance.surveys.batch import Batch, Checked
from posenc_ref.conformance.surveys.junit import junit_file
from posenc_ref.conformance.surveys.ndjson_writer import recording
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.runner import run

from .check import check_command
from .options.apart import InProcess, NoVerdict, Printed, judged
from .options.loading import UsageError
from .options.manifest import Asked, Keys, read_manifest
from .options.output import say, show, usage_errors


@usage_errors(UsageError, ValueError, OSError)
def ci_command(
    manifest: Annotated[
        Path, typer.Argument(help="The TOML file with a [[check]] table for each function.")
    ] = Path("posenc.toml"),
    select: Annotated[
        str | None,
        typer.Option(help="Only functions whose name has this in it, such as 'q_rope' or 'a*b'."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    ndjson: Annotated[
        Path | None, typer.Option(help="Also write the reports to this file, for `posenc report`.")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Also write JUnit XML, with a test for each check.")
    ] = None,
    in_process: InProcess = False,
) -> None:
    """Judge the functions that a manifest lists, and print one report.

    Every [[check]] table has a `target` (or `exec`) and options of `posenc check`, without the
    dashes: `surface`, `preset`, `dtype`, `expect`, `reason` and others. [defaults] holds options of
    all tables. Paths are relative to the manifest. A function that cannot be loaded, or crashes, is
    an error, and the others are judged. Exits with 1 if a function deviates unexpectedly, 2 if one
    cannot be loaded or the manifest is wrong, 3 if one crashed or too little was judged, else 0.
    """
    begin = time.perf_counter()
    facts: dict[str, Any] = {"source": str(manifest), "select": select}
    # Whatever ends this run, reports of an earlier one are not there any more.
    with junit_file(junit) as outcomes, recording(ndjson, "ci", **facts) as record:
        chosen, judge = _planned(manifest, select, in_process)
        say(f"posenc: {one_line(manifest)}, checks to run: {len(chosen)}", err=True)

        def completed(new: list[Outcome]) -> None:
            for one in new:
                if isinstance(one, Checked):
                    outcomes.append(one)
                    say(_line(one, len(outcomes), len(chosen)), err=True)
                    if record is not None:
                        record.case(one)

        run(chosen, judge, _failed, processes=0, keep=completed)
        found = Batch(list(outcomes), time.perf_counter() - begin)
        if record is not None:
            record.batch(found)
    if as_json:
        say(json.dumps(found.to_dict(), indent=1))
    else:
        show(found.parts(), found.exit_code)
    raise typer.Exit(found.exit_code)


def _planned(
    manifest: Path, select: str | None, in_process: bool
) -> tuple[list[Asked], Callable[[Asked], Iterator[Checked]]]:
    """Return the selected checks of a manifest, and the function that judges one."""
    command = _check()
    asked = read_manifest(manifest, Keys.of(command))
    contexts = {one.name: _parsed(command, one) for one in asked}  # every mistake at once
    chosen = [one for one in asked if select is None or _matches(one.name, select)]
    if not chosen:
        names = ", ".join(one.name for one in asked)
        raise UsageError(f"--select {select!r} matches none of {manifest}: {names}")

    folder = manifest.parent.resolve()

    def judge(one: Asked) -> Iterator[Checked]:
        begin = time.perf_counter()
        try:
            arguments = command.invoke(contexts[one.name])
            arguments["in_process"] |= in_process
            report = judged(inspect.unwrap(check_command), arguments, folder=folder)
        except (UsageError, HarnessError, TypeError, ValueError, OSError) as error:
            yield Checked.failed(one.name, str(error))
        except NoVerdict as error:
            yield Checked.failed(one.name, str(error), 3)
        else:
            if isinstance(report, Printed):
                yield Checked.failed(one.name, report.several)
            else:
                yield Checked.of(one.name, report, time.perf_counter() - begin)

    return chosen, judge


def _check() -> Any:
    """Return the click command of ``posenc check`` that returns its arguments."""
    app = typer.Typer(add_completion=False)

    @app.command()
    @functools.wraps(inspect.unwrap(check_command))
    def arguments(**asked: Any) -> dict[str, Any]:
        return asked

    return typer.main.get_command(app)


def _parsed(command: Any, one: Asked) -> Any:
    """Return the parsed arguments of one check."""
    try:
        return command.make_context("check", [*one.arguments])
    except typer.BadParameter as error:
        key = "" if error.param is None else f", key {max(error.param.opts, key=len).strip('-')!r}"
        raise UsageError(f"{one.where}{key}: {error.message}") from None


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name.lower(), f"*{pattern.lower()}*")


def _line(one: Checked, n: int, total: int) -> str:
    found = f": {one.found}" if one.exit_code else ""
    return f"posenc: {n}/{total} {one.name} {one.verdict}, {one.seconds:.2f} s{found}"


def _failed(one: Asked, reason: str) -> Checked:
    return Checked.failed(one.name, reason)
