"""Show what a foreign process prints, on standard error, so that it cannot pass for a verdict."""

from __future__ import annotations

import sys

from posenc_ref._text import printable

#: The beginning of each line that a foreign process printed.
MARK = "| "


def marked(output: bytes) -> str:
    """Return output as text: each line marked, without control characters."""
    text = output.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return "".join(f"{MARK}{printable(line)}\n" for line in text.rstrip("\n").split("\n"))


def show_output(text: str) -> None:
    """Write marked output to standard error."""
    if sys.stderr is not None:  # descriptor 2 is open
        sys.stderr.write(text)
        sys.stderr.flush()
