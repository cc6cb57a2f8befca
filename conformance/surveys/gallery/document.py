"""What the gallery prints, and the document that it writes."""

from __future__ import annotations

import datetime

from .entry import Entry
from .judge import RIGHT, Shown
from .run import Gallery, versions

READING = """\
Functions of real libraries, each handed to `identify` with nothing declared but the shape of the
call (positions, a tensor, the size of the last axis). What the card says is compared with what the
library's **source** says, which was read in the source, never on the card
(`conformance/gallery`). **worst** is the largest error against the identified encoding, in units of
rounding; up to 128 pass (see README)."""
HEAD = ("function", "source", "is", "card", "worst")


def markdown(found: Gallery) -> str:
    """The document: a table, what is surprising, and every card."""
    told = ", ".join(f"{name} {number}" for name, number in versions().items())
    counts = found.summary.rpartition(" (")[0]
    parts = [
        "# Identity cards of real functions",
        f"{datetime.date.today().isoformat()}, with {told}. Written by `posenc gallery --markdown "
        f"FILE` in {found.cpu_seconds:.0f} s of processor time.",
        f"**{counts}.**",
        READING,
        "\n".join(f"- **{word}**: {meaning}." for word, meaning in RIGHT.items()),
        "## All functions",
        "\n".join(_rows(found)),
    ]
    remarks = [f"- **{entry.name}** ({entry.source}): {entry.remark}" for entry in found.entries
               if entry.remark]  # fmt: skip
    if remarks:
        parts += ["## Surprising", "\n".join(remarks)]
    if found.absent:
        parts += ["## Not run", "\n".join(f"- {e.name}: {e.library} is not installed"
                                          for e in found.absent)]  # fmt: skip
    parts.append("## The cards")
    for entry in found.entries:
        if entry.name in found.shown:
            card = found.shown[entry.name].card or found.shown[entry.name].wrong
            parts.append(f"### {entry.name}\n\n```text\n{card}\n```")
    return "\n\n".join(parts) + "\n"


def _rows(found: Gallery) -> list[str]:
    made = [list(HEAD), ["---"] * len(HEAD)]
    for entry in found.entries:
        shown = found.shown.get(entry.name)
        made.append([*cells(entry), *_outcome(shown)])
    return [f"| {' | '.join(row)} |" for row in made]


def cells(entry: Entry) -> list[str]:
    """The cells of one row that are known without identifying anything."""
    told = f"`{entry.expected!r}`" if entry.expected is not None else f"none ({entry.unknown})"
    says = f": {entry.says}" if entry.says else ""
    return [entry.name, f"`{entry.library}` {entry.source}", told + says]


def _outcome(shown: Shown | None) -> list[str]:
    if shown is None:
        return ["not run", ""]
    if not shown.right:
        return [f"**WRONG**: {shown.wrong.replace('|', '/')}", ""]
    score = "" if shown.score is None or shown.right == "unknown" else f"{shown.score:.3g}"
    return [", ".join([shown.right, *shown.deviations]), score]


def plain(found: Gallery) -> str:
    """One line for each entry, and the summary."""
    width = max((len(entry.name) for entry in found.entries), default=0)
    lines = []
    for entry in found.entries:
        shown = found.shown.get(entry.name)
        if shown is None:
            told = f"not run: {entry.library} is not installed"
        elif shown.right:
            told = f"{shown.right:<9} {shown.encoding if shown.right != 'unknown' else ''}".rstrip()
        else:
            told = f"WRONG: {shown.wrong}"
        lines.append(f"{entry.name:<{width}}  {told}")
    return "\n".join([*lines, "", found.summary])
