"""What a sweep prints."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_ref.conformance.surveys.show import Table

from .expected import explanation
from .record import Judged
from .sweep import Sweep

WORDS = {
    "conforms": "ok",
    "deviates": "DEVIATES",
    "gap": "our gap",
    "undrivable": "not drivable",
    "refused": "refused",
}
#: The colour of each outcome, as one of a verdict.
STATES = {"conforms": "conforms", "deviates": "deviates", "gap": "inconclusive"}
HEAD = ["module", "what it is", "verdict", "score", "angles", "findings"]


def table(found: Sweep) -> Table:
    """One row per judged table; what was refused is counted elsewhere."""
    made = Table("Positional encodings of transformers", HEAD, numbers=frozenset({"score"}))
    for line in found.lines:
        if line.outcome != "refused":
            state = STATES.get(line.outcome, "skipped")
            made.add([(cell, state if i == 2 else "") for i, cell in enumerate(cells(line))])
    return made


def cells(line: Judged) -> list[str]:
    """The row of one judged table."""
    score = "" if line.score is None else f"{line.score:.2f}" if line.score < 1e3 else "> 999"
    return [
        line.name,
        line.encoding or line.measured,
        WORDS[line.outcome],
        "inf" if line.outcome == "deviates" and line.score is None else score,
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
        out += [f"  {entry}" for entry in found.stale]
    return out


def _sentence(found: Sweep, line: Judged) -> str:
    known = explanation(line, found.known)
    if known is None:
        return f"{line.name}: {what(line)}" + ("  [UNEXPLAINED]" if found.is_open(line) else "")
    claim = f" ({known.claim})" if known.claim else ""
    return f"{line.name}: {what(line)}. Known{claim}: {known.reason}"


def what(line: Judged) -> str:
    """What was found about a line, in words."""
    said = (f"{code}: {text}" for code, text in zip(line.codes, line.messages, strict=False))
    return line.reason or "; ".join(said)


def summary(found: Sweep) -> str:
    """One line of counts."""
    text = f"{counts(found.lines)}; "
    text += f"{len(found.unexplained)} unexplained" if found.unexplained else "all explained"
    return f"{text} ({found.seconds:.0f} s, {found.cpu_seconds:.0f} s of processor time)"


def counts(lines: Sequence[Judged]) -> str:
    """How many tables came to what."""
    c = {outcome: sum(line.outcome == outcome for line in lines) for outcome in WORDS}
    judged = c["conforms"] + c["deviates"]
    modules = len({(line.model, line.module) for line in lines})
    models = len({line.model for line in lines})
    text = (
        f"{len(lines)} tables of {modules} modules in {models} models: "
        f"{judged} judged, {c['conforms']} conforming, {c['deviates']} deviating, "
        f"{c['gap']} our gap, {c['undrivable']} not drivable"
    )
    return text + (f", {c['refused']} rope types refused" if c["refused"] else "")


def plain(found: Sweep) -> str:
    """The whole result as plain text."""
    parts = [str(table(found)), "\n".join(sentences(found)), summary(found)]
    return "\n\n".join(part for part in parts if part)
