"""Tables as plain text and as Markdown, and the word that they show for each verdict."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from .record import Outcome

#: The word for each verdict in tables.
WORDS = {
    "conforms": "ok", "deviates": "DEVIATES", "inconclusive": "inconclusive", "error": "ERROR",
    "skipped": "skipped", "gap": "our gap", "undrivable": "not drivable", "refused": "refused",
    "expected": "expected", "unexpected": "UNEXPECTED PASS",
}  # fmt: skip


#: A text, or a text and the verdict that determines its colour.
Cell = str | tuple[str, str]


@dataclass
class TextTable:
    """A title, a head and rows of cells; a cell is a text, or a text and its verdict."""

    title: str
    head: Sequence[str]
    rows: list[list[Cell]]
    numbers: Collection[str] = ()  #: the right-aligned columns

    def __str__(self) -> str:
        texts = [[cell if isinstance(cell, str) else cell[0] for cell in row] for row in self.rows]
        every = [self.head, *texts]
        wide = [max(len(row[i]) for row in every) for i in range(len(self.head))]
        lines = [self.title, "-" * len(self.title)]
        for row in every:
            cells = [
                cell.rjust(w) if name in self.numbers else cell.ljust(w)
                for name, cell, w in zip(self.head, row, wide, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[str] = ()
) -> str:
    """Return a Markdown table with the columns ``numbers`` aligned to the right."""
    rule = ["--:" if name in numbers else "---" for name in head]
    escaped = ([re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *escaped))


def plain_text(parts: Iterable[TextTable | str]) -> str:
    """Return tables and paragraphs as plain text."""
    return "\n\n".join(filter(None, map(str, parts)))


def swept_score(line: Outcome) -> str:
    """Return the score of an outcome as text; a deviation without a score has "inf"."""
    if line.worst is None:
        return "inf" if line.verdict == "deviates" else ""
    return f"{line.worst:.2f}" if line.worst < 1e3 else "> 999"


def short_score(value: float) -> str:
    """Return a score in few characters."""
    if not math.isfinite(value):
        return "inf"
    return f"{value:.2f}" if value < 1000 else f"{value:.0e}"
