"""The command ``posenc gallery``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from posenc_ref.conformance.harness.whole import write_whole

from .options.output import progress, say, usage_error


def gallery_command(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Identify only functions with this in their name, such as 'llama'."),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the result as a document to this file.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the result as JSON to this file.")
    ] = None,
    processes: Annotated[
        int, typer.Option(min=0, help="The number of processes (0: one by one in this process).")
    ] = 2,
) -> None:
    """Identify functions of real libraries, and compare the results with the libraries' source.

    Exits with 0 if every identified encoding agrees with the source, 1 otherwise, 2 for a usage
    error, 3 if no library is installed. Libraries that are not installed are named and counted.
    """
    from posenc_ref.conformance.surveys.gallery.document import markdown as document
    from posenc_ref.conformance.surveys.gallery.document import plain
    from posenc_ref.conformance.surveys.gallery.run import gallery

    with progress() as bar:
        found = gallery(tuple(only or ()), processes=processes, progress=bar)
    if not found.functions:
        raise usage_error(f"no function has {' or '.join(map(repr, only or ()))} in its name")
    if markdown is not None:
        write_whole(markdown, document(found))
    if json_file is not None:
        write_whole(json_file, json.dumps(found.to_dict(), indent=1) + "\n")
    say(plain(found))
    raise typer.Exit(found.exit_code)
