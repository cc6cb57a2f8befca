"""The commands of ``posenc``; only this module and cli_*.py import typer and rich."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import rich.box
import rich.table
import typer
from rich.console import Console
from rich.markup import escape

from posenc_ref import SPEC_VERSION, __version__
from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.surveys import show
from posenc_ref.conformance.surveys.ndjson import recording
from posenc_ref.conformance.surveys.options import Options
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.transformers.families import FAMILIES
from posenc_ref.conformance.surveys.transformers.record import APPLY, AS_CONFIGURED, FLOAT32, Judged
from posenc_ref.conformance.surveys.transformers.record import SURFACES as SWEPT
from posenc_ref.conformance.surveys.transformers.scaled import ROPE_TYPES
from posenc_ref.conformance.surveys.verify import verify

from .check import check_command
from .explain import explain
from .gallery import gallery_command
from .identify import identify_command
from .loading import UsageError
from .presets import presets_command
from .progress import progress
from .report import report_command
from .vectors import vectors_command

app = typer.Typer(
    name="posenc",
    help="Judge implementations of Transformer positional encodings against their specification.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: Narrower terminals get the plain tables.
_TABLE = 120
COLOURS = {
    "conforms": "green",
    "deviates": "bold red",
    "inconclusive": "yellow",
    "error": "bold red",
    "skipped": "dim",
}


def _fail(message: str) -> typer.Exit:
    typer.echo(f"posenc: {message}", err=True)
    return typer.Exit(2)


def _among(option: str, given: list[str] | None, allowed: tuple[str, ...]) -> None:
    for name in given or ():
        if name not in allowed:
            raise _fail(f"{option} must be one of {', '.join(allowed)}, got {name!r}")


def _styled() -> bool:
    """Whether standard output is a terminal that may show colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _version(value: bool) -> None:
    if value:
        typer.echo(
            f"posenc-ref {__version__} (specification {SPEC_VERSION}), NumPy {np.__version__}, "
            f"Python {platform.python_version()}"
        )
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print versions.")
    ] = False,
) -> None:
    pass


@app.command("verify", epilog="Example: `posenc verify --only 'transformers llama*'`")
def verify_command(
    full: Annotated[
        bool, typer.Option("--full/--quick", help="Every dtype, and the long certificate.")
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(help="Only checks whose name has this in it, such as 'torch' or 'jax*alibi'."),
    ] = None,
    dtype: Annotated[
        list[str] | None, typer.Option(help="Only this dtype; may be given several times.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    ndjson: Annotated[
        Path | None, typer.Option(help="Also write it to this file, for `posenc report`.")
    ] = None,
    processes: Annotated[
        int, typer.Option(min=0, help="How many libraries to judge at a time (0: one by one).")
    ] = 2,
) -> None:
    """Judge every array backend and every known library found on this machine.

    Exits with 1 if one of our own backends deviates, 2 for an error of the harness, else 0:
    deviations of other libraries are what the report is for.
    """
    _among("--dtype", dtype, tuple(ROUNDOFF))
    options = Options(full=full, only=only, dtypes=tuple(dtype or ()))
    asked = {"full": full, "only": only, "dtypes": list(options.dtypes)}
    with recording(ndjson, "verify", options=asked) as record, progress() as bar:

        def note(done: list[Outcome], expected: int) -> None:
            bar(done[-1].name if done else "", len(done), expected)

        found = verify(options, processes=processes, progress=note if bar else None)
        if record is not None and found.outcomes:
            record.verification(found)
    if not found.outcomes:
        raise _fail(
            f"nothing is called {only!r} here"
            if only
            else "nothing was judged: no backend has this dtype"
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    elif not _styled() or Console().width < _TABLE:
        typer.echo(show.plain(found))  # a folded table would break words and lose columns
    else:
        console = Console()
        for table in show.tables(found):
            console.print(_rich(table))
        console.print(show.legend(found), style="dim", markup=False, highlight=False)
        console.print("\n".join(show.sentences(found)), markup=False, highlight=False)
        colour = "bold red" if found.exit_code else "bold green"
        console.print(show.summary(found), style=colour, markup=False, highlight=False)
    raise typer.Exit(found.exit_code)


def _rich(table: show.Table) -> rich.table.Table:
    made = rich.table.Table(
        title=table.title,
        title_justify="left",
        header_style="bold",
        box=rich.box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name in table.head:
        made.add_column(
            name,
            justify="right" if name in table.numbers else "left",
            overflow="fold",
            no_wrap=name in ("implementation", "dtype", "library"),
        )
    for cells, states in zip(table.rows, table.states, strict=True):
        made.add_row(
            *(
                f"[{COLOURS[state]}]{escape(cell)}[/]" if state else escape(cell)
                for cell, state in zip(cells, states, strict=True)
            )
        )
    return made


app.command(
    "check",
    epilog="Example: `posenc check rope.py:apply --encoding "
    '\'{"encoding": "RoPE", "head_dim": 64, "layout": "half"}\'`',
)(check_command)


app.command("identify", epilog="Example: `posenc identify rope.py:apply --head-dim 64`")(
    identify_command
)
app.command("gallery", epilog="Example: `posenc gallery --only llama --only mlx`")(gallery_command)
app.command("report", epilog="Example: `posenc report posenc.ndjson --markdown`")(report_command)
app.command("presets", epilog="Example: `posenc presets llama-3.1-8b`")(presets_command)
app.command("vectors", epilog="Example: `posenc vectors --verify`")(vectors_command)


@app.command("sweep", epilog="Example: `posenc sweep --only llama --only 'qwen*'`")
def sweep_command(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this model, or modules whose name matches; several are fine."),
    ] = None,
    rope_type: Annotated[
        list[str] | None,
        typer.Option(help=f"As configured ('default'), or with: {', '.join(ROPE_TYPES)}."),
    ] = None,
    dtype: Annotated[
        list[str] | None, typer.Option(help="The dtype of x; more than one: others as configured.")
    ] = None,
    surface: Annotated[
        list[str] | None,
        typer.Option(help="The function that rotates (apply), or logits of attention (scores)."),
    ] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(help=f"rotary, or what is no rotation: {', '.join(FAMILIES)}."),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write one line of JSON per table to this file.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write the result as a document to this file.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Continue the file that --json wrote, or begin it.")
    ] = None,
    time_limit: Annotated[
        float, typer.Option(min=1.0, help="Seconds for one module, before it is given up.")
    ] = 300.0,
    processes: Annotated[int, typer.Option(min=1, help="How many modules to judge at a time.")] = 2,
) -> None:
    """Judge every rotary module of the installed `transformers` against its own configuration.

    With `--family`, every table, bias or score that is no rotation, against what its source says.
    Exits with 0 if every module conforms, or does not for a reason that is on record; 1 if
    something else deviates, is beyond us or cannot be driven; 2 for a usage error.
    """
    from posenc_ref.conformance.surveys.transformers import show as sweep_show
    from posenc_ref.conformance.surveys.transformers.document import markdown as document
    from posenc_ref.conformance.surveys.transformers.sweep import sweep
    from posenc_ref.conformance.surveys.transformers_other.document import (
        markdown as other_document,
    )
    from posenc_ref.conformance.surveys.transformers_other.sweep import sweep_other

    families = sorted(set(family or ("rotary",)))
    _among("--family", families, ("rotary", *FAMILIES))
    if families != ["rotary"] and ("rotary" in families or rope_type or dtype or surface):
        raise _fail("--family other than rotary goes with no rope type, dtype, surface, nor rotary")
    if json_file is not None and resume is not None:
        raise _fail("--json begins a file and --resume continues one: give one of them")
    _among("--rope-type", rope_type, (AS_CONFIGURED, *ROPE_TYPES))
    _among("--dtype", dtype, tuple(ROUNDOFF))
    _among("--surface", surface, SWEPT)
    try:
        with progress() as bar:

            def note(lines: list[Judged], done: int, expected: int) -> None:
                bar(lines[-1].name if lines else "", done, expected)

            common: dict[str, Any] = {
                "file": resume or json_file,
                "resume": resume is not None,
                "time_limit": time_limit,
                "processes": processes,
                "progress": note if bar else None,
            }
            if families != ["rotary"]:
                found = sweep_other(families, only or (), **common)
            else:
                found = sweep(
                    only or (),
                    rope_types=rope_type or (AS_CONFIGURED,),
                    dtypes=dtype or (FLOAT32,),
                    surfaces=surface or (APPLY,),
                    **common,
                )
    except (ModuleNotFoundError, ValueError, OSError) as error:
        raise _fail(str(error)) from None
    if not found.lines:
        what = "rotary module" if families == ["rotary"] else "place of these families"
        raise _fail(f"no {what} is called {' or '.join(map(repr, only or ()))}")
    if markdown is not None:
        folder = markdown.parent
        command = " ".join(["posenc sweep", *(f"--family {f}" for f in families)])
        text = (
            document(found, folder)
            if families == ["rotary"]
            else other_document(found, f"{command} --markdown FILE", folder)
        )
        markdown.write_text(text, encoding="utf-8")
    if not _styled() or Console().width < _TABLE:
        typer.echo(sweep_show.plain(found))
    else:
        console = Console()
        console.print(_rich(sweep_show.table(found)))
        console.print("\n".join(sweep_show.sentences(found)), markup=False, highlight=False)
        colour = "bold red" if found.exit_code else "bold green"
        console.print(sweep_show.summary(found), style=colour, markup=False, highlight=False)
    raise typer.Exit(found.exit_code)


@app.command("explain", epilog="Example: `posenc explain angle-precision`")
def explain_command(
    name: Annotated[
        str | None, typer.Argument(help="A finding's code, an encoding, or nothing for a list.")
    ] = None,
) -> None:
    """Say what a code means and what to do about it, or how an encoding is defined."""
    try:
        typer.echo(explain(name))
    except UsageError as error:
        raise _fail(str(error)) from None


@app.command("accuracy", epilog="Example: `posenc accuracy --full`")
def accuracy_command(
    full: Annotated[bool, typer.Option("--full", help="Many more positions: two minutes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """Recompute every encoding with 50 digits, and print how exact the specification is here."""
    from dataclasses import asdict

    from posenc_ref.conformance.exact.certificate import FULL, QUICK, certify, format_table
    from posenc_ref.conformance.registry import entries

    try:
        rows = certify(entries(), FULL if full else QUICK)
    except ImportError as error:
        raise _fail(f'{error}; pip install "posenc-ref[cli]"') from None
    if as_json:
        body = [asdict(row) | {"passed": row.passed} for row in rows]
        typer.echo(json.dumps(body, indent=1))
    else:
        typer.echo(format_table(rows))
    raise typer.Exit(0 if all(row.passed for row in rows) else 1)
