"""The progress of a survey as plain lines, for files, pipes and environments without rich."""

from __future__ import annotations

import sys
import time

from .runner import Progress

#: Seconds between two lines, apart from the first and the last line.
EVERY = 10.0


def lines() -> Progress:
    """Return a function that prints the progress to standard error, at once and then rarely."""
    begin = time.monotonic()
    printed: float | None = None

    def show(name: str, done: int, total: int) -> None:
        nonlocal printed
        now = time.monotonic()
        if printed is None or now - printed >= EVERY or (done == total and name):
            last = f", last: {name}" if name else ""
            text = f"posenc: {done} of {total} parts done after {now - begin:.0f} s{last}"
            print(text, file=sys.stderr, flush=True)
            printed = now

    return show
