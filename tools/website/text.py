"""Pieces of Markdown."""

import ast
import inspect
import textwrap
from pathlib import Path

from .sections import ROOT


def table(head, rows):
    """Return a table; cells are Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines) + "\n"


def cell(text):
    """Return Markdown that stays in its cell."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def fenced(text, language):
    """Return code as a block."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n\n"


def folded(title, body):
    """Return a part that readers open."""
    return f"<details><summary>{title}</summary>\n\n{body}\n</details>\n\n"


def listed(names, most=6):
    """Return names with commas; of many, the first ones and how many are left."""
    names = list(names)
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def file_of(thing):
    """Return the path of the file of a class, function or module in the repository."""
    return Path(inspect.getsourcefile(thing)).resolve().relative_to(ROOT).as_posix()


def definition(thing):
    """Return the source of a class or function without its decorators."""
    text = textwrap.dedent(inspect.getsource(thing))
    return "\n".join(text.splitlines()[ast.parse(text).body[0].lineno - 1 :])
