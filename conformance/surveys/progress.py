"""The progress of a command as plain lines, for files, pipes and environments without rich."""

from __future__ import annotations

import sys
import time

from posenc_ref._text import one_line

from .runner import Progress

#: Seconds to the first line, and between two lines. A short command prints none.
FIRST, EVERY = 2.0, 10.0


def lines() -> Progress:
    """Return a function that prints the progress of a long command to standard error."""
    begin = time.monotonic()
    due = begin + FIRST

    def show(name: str, done: int, total: int) -> None:
        nonlocal due
        now = time.monotonic()
        last = done == total and due > begin + FIRST
        if now >= due or last:
            at = f", last: {one_line(name)}" if name else ""
            text = f"posenc: {done} of {total} parts done after {now - begin:.0f} s{at}"
            print(text, file=sys.stderr, flush=True)
            due = now + EVERY

    return show
