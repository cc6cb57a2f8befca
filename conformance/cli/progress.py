"""The bar that long commands show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def progress() -> Iterator[Any]:
    """A function to call with what was done last, how much is done, and how much there is.

    It moves a bar on standard error where that is a terminal, else it is None.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda name, done, expected: bar.update(
            task, completed=done, total=expected or None, description=name
        )
