"""The command ``posenc report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posenc_ref.conformance.surveys.ndjson import NdjsonError, read_ndjson
from posenc_ref.conformance.surveys.ndjson_markdown import markdown
from posenc_ref.conformance.surveys.show import plain

from .output import usage_error


def report_command(
    files: Annotated[list[Path], typer.Argument(help="Files that --ndjson wrote.")],
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown: a table, findings, versions.")
    ] = False,
) -> None:
    """Show what `posenc check --ndjson` or `posenc verify --ndjson` recorded.

    Exits with 0 whatever the verdict was, with 3 if no case was executed in one of the files, and
    with 2 for a file that is not complete: one without its footer, because the run broke off, or
    one whose counts, identities or digest disagree.
    """
    try:
        recorded = [read_ndjson(path) for path in files]
    except (NdjsonError, OSError) as error:
        raise usage_error(error) from None
    if as_markdown:
        typer.echo(markdown(recorded), nl=False)
    else:
        for one in recorded:
            typer.echo(str(one.report()) if one.kind == "check" else plain(one.verification()))
    empty = [str(path) for path, one in zip(files, recorded, strict=True) if not one.executed]
    if empty:
        typer.echo(f"posenc: no case was executed in {', '.join(empty)}", err=True)
        raise typer.Exit(3)
