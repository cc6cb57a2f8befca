"""Output of commands: a progress bar, coloured tables and usage errors."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import rich.box
import rich.table
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from posenc_ref._text import indented, printable
from posenc_ref.conformance.surveys.progress import lines
from posenc_ref.conformance.surveys.tables import TextTable, plain_text
from posenc_ref.limits import LONG_TEXT

#: Narrower terminals get plain tables, because folded tables break words and lose columns.
_WIDTH = 120
COLOURS = {
    "conforms": "green", "deviates": "bold red", "inconclusive": "yellow", "error": "bold red",
    "skipped": "dim", "expected": "green", "unexpected": "bold red",
}  # fmt: skip


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print text that may have foreign parts: line breaks stay, other controls become escapes."""
    typer.echo(printable(str(text)), err=err, nl=nl)


def usage_error(message: object) -> typer.Exit:
    """Print a message, and return the exception that ends with exit code 2."""
    say(f"posenc: {indented(message, LONG_TEXT)}", err=True)
    return typer.Exit(2)


@contextmanager
def usage_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Within this context, an exception of ``kinds`` ends the command with exit code 2."""
    try:
        yield
    except kinds as error:
        raise usage_error(error) from None


def require_among(option: str, given: Iterable[str] | None, allowed: Iterable[str]) -> None:
    """End the command unless every value of an option is allowed."""
    for name in given or ():
        if name not in allowed:
            raise usage_error(f"{option} must be one of {', '.join(allowed)}, got {name!r}")


@contextmanager
def progress() -> Iterator[Any]:
    """Yield a function ``(name, done, total)`` that shows the progress on standard error.

    A terminal gets a progress bar, a file or pipe plain lines.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lines()
        return
    text = TextColumn("{task.description}", markup=False)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), text)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda name, done, expected: bar.update(
            task, completed=done, total=expected or None, description=name
        )


@contextmanager
def waiting(text: str, after: float = 2.0) -> Iterator[None]:
    """Within this context, show a line on standard error after so many seconds, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    status = console.status(escape(text))
    timer = threading.Timer(after, status.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def show(parts: list[TextTable | str], exit_code: int) -> None:
    """Print tables, paragraphs and a final summary, in colour on a wide terminal."""
    styled = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if not styled or Console().width < _WIDTH:
        say(plain_text(parts))
        return
    console = Console()
    for part in parts[:-1]:
        if isinstance(part, str):
            console.print(printable(part), markup=False, highlight=False)
        else:
            console.print(_coloured(part))
    colour = "bold red" if exit_code else "bold green"
    console.print(printable(str(parts[-1])), style=colour, markup=False, highlight=False)


def _coloured(table: TextTable) -> rich.table.Table:
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

    def cell(text: str) -> str:
        return escape(printable(text))

    for row in table.rows:
        pairs = ((one, "") if isinstance(one, str) else one for one in row)
        made.add_row(*(f"[{COLOURS[s]}]{cell(t)}[/]" if s else cell(t) for t, s in pairs))
    return made
