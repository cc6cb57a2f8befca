"""Show what a foreign process prints, on standard error, so that it cannot pass for a verdict."""

from __future__ import annotations

import sys

from posenc_ref._text import printable

#: The beginning of each line that a foreign process printed.
MARK = "| "


def show_output(output: bytes) -> None:
    """Write output to standard error, each line marked, without control characters."""
    if sys.stderr is None:  # descriptor 2 is closed
        return
    text = output.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    for line in text.rstrip("\n").split("\n"):
        sys.stderr.write(f"{MARK}{printable(line)}\n")
    sys.stderr.flush()
