"""The table and sentences that ``posenc sweep`` prints."""

from __future__ import annotations

from collections.abc import Sequence

from posenc_ref.conformance.surveys.expected import explanation
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.tables import WORDS, Cell, TextTable, swept_score

from .sweep import Sweep

#: The verdict of :class:`TextTable` for each verdict of a sweep.
STATES = {"conforms": "conforms", "deviates": "deviates", "gap": "inconclusive"}
NONE = "none"
LEGEND = """\
score: the largest error in units of rounding (docs/judging.md); up to 128 pass in float32 and
float64, 8 in bfloat16 and float16. angles: the precision in which they are computed. findings: the
codes of mistakes, which `posenc explain` explains. none: not measured, or no finding."""
HEAD = ["module", "what it is", "verdict", "score", "angles", "findings"]


def table(found: Sweep) -> TextTable:
    """Return a table with a row for each outcome that was not refused."""
    rows: list[list[Cell]] = []
    for line in found.outcomes:
        if line.verdict != "refused":
            name, encoding, verdict, *rest = cells(line)
            state = (verdict, STATES.get(line.verdict, "skipped"))
            rows.append([name, encoding or NONE, state, *(cell or NONE for cell in rest)])
    return TextTable("Positional encodings of transformers", HEAD, rows, numbers=["score"])


def cells(line: Outcome) -> list[str]:
    """Return the cells of one outcome."""
    return [
        line.name,
        line.encoding or line.measured,
        WORDS[line.verdict],
        swept_score(line),
        line.precision.removesuffix(" angles"),
        " ".join(line.codes),
    ]


def sentences(found: Sweep) -> list[str]:
    """Return sentences about the outcomes that do not conform, with their reasons."""
    out: list[str] = []
    titles = {"deviates": "Deviations", "gap": "Our gaps", "undrivable": "Not drivable"}
    for verdict, title in titles.items():
        chosen = [line for line in found.outcomes if line.verdict == verdict]
        if chosen:
            out += [f"{title}:", *(f"  {_sentence(found, line)}" for line in chosen)]
    if found.stale:
        out.append("Expected deviations that were not found (sweep_expected.json):")
        out += [f"  {entry}" for entry in found.stale]
    return out


def _sentence(found: Sweep, line: Outcome) -> str:
    known = explanation(line, found.known)
    if known is None:
        return f"{line.name}: {line.found}" + ("  [UNEXPLAINED]" if found.is_open(line) else "")
    claim = f" ({known.claim})" if known.claim else ""
    return f"{line.name}: {line.found}. Known{claim}: {known.reason}"


def summary(found: Sweep) -> str:
    """Return the number of outcomes with each verdict in one line."""
    text = f"{counts(found.outcomes)}; "
    text += f"{len(found.unexplained)} unexplained" if found.unexplained else "all explained"
    return f"{text} ({found.seconds:.0f} s, {found.cpu_seconds:.0f} s of processor time)"


def counts(lines: Sequence[Outcome]) -> str:
    """Return the number of outcomes with each verdict, as text."""
    c = Sweep(list(lines)).counts
    modules = len({(line.group, line.module) for line in lines})
    models = len({line.group for line in lines})
    text = (
        f"{len(lines)} cos and sin tables of {modules} modules in {models} models: "
        f"{c['conforms'] + c['deviates']} judged, {c['conforms']} conforming, "
        f"{c['deviates']} deviating, {c['gap']} our gap, {c['undrivable']} not drivable"
    )
    return text + (f", {c['refused']} rope types refused" if c["refused"] else "")


def parts(found: Sweep) -> list[TextTable | str]:
    """Return the table, sentences about outcomes that do not conform, and a summary."""
    return [table(found), LEGEND, "\n".join(sentences(found)), summary(found)]
