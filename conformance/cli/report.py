"""The command ``posenc report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from posenc_ref._text import one_line
from posenc_ref.conformance.harness.whole import write_whole
from posenc_ref.conformance.plots.page import page
from posenc_ref.conformance.surveys.batch import Batch
from posenc_ref.conformance.surveys.ndjson import NdjsonError, read_ndjson
from posenc_ref.conformance.surveys.ndjson_markdown import markdown
from posenc_ref.conformance.surveys.show import plain
from posenc_ref.conformance.surveys.tables import plain_text
from posenc_ref.conformance.surveys.verify import Verification

from .options.output import say, usage_errors


def report_command(
    files: Annotated[list[Path], typer.Argument(help="Files that --ndjson wrote.")],
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown: a table, findings, versions.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Also write a new .html file that needs no other: with the plots."),
    ] = None,
) -> None:
    """Show what `--ndjson` of `posenc check`, `ci` or `verify` recorded.

    Exits with 0, whatever the verdicts; 3 if one of the files has no executed case; 2 if a file is
    inconsistent: it has no footer (the run was interrupted), an id occurs twice, or the counts,
    verdict or digest in the footer do not match the lines.
    """
    with usage_errors(NdjsonError, OSError):
        recorded = [read_ndjson(path) for path in files]
    if html is not None:
        with usage_errors(ValueError, ImportError, OSError):
            if html.exists():
                raise ValueError(f"--html: {html} exists already; give the name of a new file")
            write_whole(html, page(recorded))
    if as_markdown:
        say(markdown(recorded), nl=False)
    else:
        for one in recorded:
            result = one.result
            if isinstance(result, Batch):
                say(plain_text(result.parts()))
            else:
                say(plain(result) if isinstance(result, Verification) else result)
    found = zip(files, recorded, strict=True)
    empty = [str(path) for path, one in found if not one.footer["executed"]]
    if empty:
        say(f"posenc: no case was executed in {', '.join(map(one_line, empty))}", err=True)
        raise typer.Exit(3)
