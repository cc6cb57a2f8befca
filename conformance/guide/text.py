"""Text for terminals: docstrings without markup, and wrapped lists."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

WIDTH = 88


def markdown(text: str) -> str:
    """Return the text of a docstring as Markdown: without roles, `code` in single backticks."""
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", text.replace("``", "`"))


def unmarked(text: str) -> str:
    """Return the text of a docstring for a terminal: as Markdown, without emphasis."""
    parts = re.split(r"(`[^`]*`)", markdown(text))
    return "".join(
        part if part.startswith("`") else re.sub(r"(?<!\w)\*(\w[^*]*?)\*(?!\w)", r"\1", part)
        for part in parts
    )


def docstring(doc: str) -> str:
    """Return a docstring without markup, every section indented below its heading."""
    made, inside = [], False
    lines = unmarked(doc).split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and not line.strip("-"):  # the underline of a heading
            inside = True
        elif following and not following.strip("-"):
            made.append(line)
        else:
            made.append(f"    {line}".rstrip() if inside else line)
    return "\n".join(made)


def first_line(cls: type) -> str:
    """Return the first line of the docstring of a class."""
    return unmarked((cls.__doc__ or "").split("\n")[0])


def hanging(title: str, text: str, indent: int = 10) -> str:
    """Return ``title`` with ``text`` next to it, wrapped."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=f"  {title}".ljust(indent + 1) + " ",
        subsequent_indent=" " * (indent + 2),
        break_on_hyphens=False,
    )


def listed(names: Iterable[str], indent: int = 4) -> str:
    """Return names separated by commas, wrapped and indented."""
    margin = " " * indent
    return textwrap.fill(
        ", ".join(names),
        WIDTH,
        initial_indent=margin,
        subsequent_indent=margin,
        break_on_hyphens=False,
    )
