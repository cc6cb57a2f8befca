"""Show what a foreign process prints, on standard error, so that it cannot pass for a verdict."""

from __future__ import annotations

import re
import sys

#: The beginning of each line that a foreign process printed.
MARK = "| "
#: Characters that control a terminal or the direction of text: they are written as escapes.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def show_output(output: bytes) -> None:
    """Write output to standard error, each line marked, without control characters."""
    text = output.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    for line in text.rstrip("\n").split("\n"):
        safe = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", line)
        sys.stderr.write(f"{MARK}{safe}\n")
    sys.stderr.flush()
