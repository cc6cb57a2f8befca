"""What a sweep prints, and the document it writes."""

from __future__ import annotations

from .show import Table
from .sweep import Sweep
from .sweep_expected import explanation
from .sweep_record import Judged

WORDS = {
    "conforms": "ok",
    "deviates": "DEVIATES",
    "gap": "our gap",
    "undrivable": "not drivable",
}
#: The colour of each outcome, as one of a verdict.
STATES = {"conforms": "conforms", "deviates": "deviates", "gap": "inconclusive"}
HEAD = ["module", "what it is", "verdict", "score", "angles", "findings"]


def table(found: Sweep) -> Table:
    """One row per judged table."""
    made = Table("Rotary modules of transformers", HEAD, numbers=frozenset({"score"}))
    for line in found.lines:
        state = STATES.get(line.outcome, "skipped")
        made.add([(cell, "") for cell in cells(line)[:-1]] + [(cells(line)[-1], state)])
    return made


def cells(line: Judged) -> list[str]:
    """The row of one judged table."""
    score = "" if line.score is None else f"{line.score:.2f}" if line.score < 1e3 else "> 999"
    if line.outcome == "deviates" and line.score is None:
        score = "inf"
    return [
        line.name,
        line.encoding or line.measured,
        WORDS[line.outcome],
        score,
        line.precision.removesuffix(" angles"),
        " ".join(line.codes),
    ]


def sentences(found: Sweep) -> list[str]:
    """What does not conform, and why, in words."""
    out: list[str] = []
    titles = {"deviates": "Deviations", "gap": "Our gaps", "undrivable": "Not drivable"}
    for outcome, title in titles.items():
        chosen = [line for line in found.lines if line.outcome == outcome]
        if chosen:
            out += [f"{title}:", *(f"  {_sentence(found, line)}" for line in chosen)]
    if found.stale:
        out.append("Expected, and no longer so (sweep_expected.json):")
        out += [
            f"  {entry.pattern}: {entry.outcome} {' '.join(entry.codes)}" for entry in found.stale
        ]
    return out


def _sentence(found: Sweep, line: Judged) -> str:
    known = explanation(line, found.known)
    what = line.reason or "; ".join(
        f"{code}: {message}" for code, message in zip(line.codes, line.messages, strict=False)
    )
    if known is None:
        return f"{line.name}: {what}  [UNEXPLAINED]"
    claim = f" ({known.claim})" if known.claim else ""
    return f"{line.name}: {what}. Known{claim}: {known.reason}"


def summary(found: Sweep) -> str:
    """One line of counts."""
    c = found.counts
    judged = c["conforms"] + c["deviates"]
    footer = found.footer()
    text = (
        f"{len(found.lines)} tables of {footer['modules']} modules in {footer['models']} models: "
        f"{judged} judged, {c['conforms']} conforming, {c['deviates']} deviating, "
        f"{c['gap']} our gap, {c['undrivable']} not drivable; "
    )
    text += f"{len(found.unexplained)} unexplained" if found.unexplained else "all explained"
    return f"{text} ({found.seconds:.0f} s, {found.cpu_seconds:.0f} s of processor time)"


def plain(found: Sweep) -> str:
    """The whole result as plain text."""
    parts = [str(table(found)), "\n".join(sentences(found)), summary(found)]
    return "\n\n".join(part for part in parts if part)


def markdown(found: Sweep) -> str:
    """The result as a document."""
    footer = found.footer()
    versions = ", ".join(f"{name} {value}" for name, value in footer["versions"].items())
    lines = [
        "# Every rotary module of transformers, judged",
        "",
        f"Written by `posenc sweep --markdown FILE` on {footer['date']} with {versions}.",
        "",
        summary(found) + ".",
        "",
        *_rows(HEAD, [cells(line) for line in found.lines]),
    ]
    return "\n".join(lines) + "\n"


def _rows(head: list[str], rows: list[list[str]]) -> list[str]:
    made = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in made]
