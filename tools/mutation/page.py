"""Write docs/generated/mutation-testing.md from the outcomes, and from the reasons of survivors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tools.mutation.draw import Mutant
from tools.mutation.results import Results

#: Why each mutant survives that no test kills: read and written by hand.
REASONS = Path(__file__).with_name("survivors.json")
#: The kinds of reasons, in the words of the page.
KINDS = {
    "equivalent": "no input tells the mutant from the original",
    "words": "only the words of a message, a note or a plot differ",
    "probe": "one probe among several of its kind has another size, position or seed",
    "search": "a heuristic search tries or ranks candidates otherwise, and ends with the same",
    "speed": "the same result, later or with more memory",
    "open": "a test is missing",
}


def reasons() -> dict[tuple[str, str, str], tuple[str, str]]:
    """Return the kind and the reason by module, old line and new line."""
    rows = json.loads(REASONS.read_text(encoding="utf-8"))
    return {(row["module"], row["old"], row["new"]): (row["kind"], row["why"]) for row in rows}


def folder(mutant: Mutant) -> str:
    """Return the folder of a mutant's module."""
    return mutant.module.rpartition("/")[0]


def page(head: str, first: Results, again: Results, second: Results | None) -> str:
    """Return the page: the score of the first run, and of the survivors and a new draw after it."""
    runs = [(first.read(), again.read())] + ([(second.read(), {})] if second else [])
    titles = ["First draw", "Second draw, after the mends"]
    parts = [head]
    for title, (outcomes, later) in zip(titles, runs, strict=False):
        parts.append(f"## {title}\n\n{_tables(outcomes, later)}")
    return "\n\n".join(parts) + "\n"


def _tables(outcomes: dict[Mutant, dict[str, Any]], later: dict[Mutant, dict[str, Any]]) -> str:
    why = reasons()
    killed_later = {
        (m.module, m.operator, m.old, m.new): row["outcome"] == "killed" for m, row in later.items()
    }
    every, at_first, now, seconds = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    kinds: dict[str, list[str]] = {}
    for mutant, row in sorted(outcomes.items(), key=lambda pair: (pair[0].module, pair[0].line)):
        name = folder(mutant)
        every[name] += 1
        seconds[name] += row["seconds"]
        killed = row["outcome"] == "killed"
        at_first[name] += killed
        if not killed and later:  # a survivor that is not there any more is mended, too
            key = (mutant.module, mutant.operator, mutant.old, mutant.new)
            killed = killed_later.get(key, True)
        now[name] += killed
        if not killed:
            kind, text = why.get((mutant.module, mutant.old, mutant.new), ("open", ""))
            words = f"{mutant.module}:{mutant.line}", _code(mutant.old), _code(mutant.new), text
            kinds.setdefault(kind, []).append("| " + " | ".join(words) + " |")
    lines = ["| folder | mutants | killed at first | killed now | survivors | seconds |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in sorted(every):
        left = every[name] - now[name]
        numbers = (every[name], at_first[name], now[name], left, round(seconds[name]))
        lines.append(f"| `{name}/` | " + " | ".join(map(str, numbers)) + " |")
    total, open_ = sum(every.values()), len(kinds.get("open", ()))
    numbers = total, sum(at_first.values()), sum(now.values()), total - sum(now.values())
    numbers = (*numbers, round(sum(seconds.values())))
    lines.append("| **all** | " + " | ".join(f"**{n}**" for n in numbers) + " |")
    lines += [
        "",
        f"{sum(now.values()) / total:.1%} are killed; {1 - open_ / total:.1%} are killed or "
        "explained below.",
    ]
    for kind, text in KINDS.items():
        if kind in kinds:
            lines += ["", f"### {len(kinds[kind])} survivors: {text}", ""]
            lines += ["| line | was | became | why it survives |", "| --- | --- | --- | --- |"]
            lines += kinds[kind]
    return "\n".join(lines)


def _code(text: str) -> str:
    shown = (text if len(text) <= 90 else f"{text[:87]}...").replace("|", "\\|")
    return f"`{shown}`" if "`" not in shown else f"`` {shown} ``"
