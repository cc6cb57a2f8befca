"""The tables and sentences that `posenc verify` prints."""

from __future__ import annotations

from posenc_ref.backends import backends
from posenc_ref.conformance.harness.probes import REPORTED

from .own import LABELS, labels
from .record import Outcome
from .tables import WORDS, TextTable, plain_text, short_score
from .verify import Verification


def own_table(found: Verification) -> TextTable | None:
    """Return the table of our backends: a row per device and dtype, a column per encoding."""
    rows: dict[tuple[str, str, str], dict[str, Outcome]] = {}
    for o in found.outcomes:
        if o.kind == "backend" and o.label in LABELS:
            place = f"{o.group} {o.version}" + (f" {o.device}" if o.device else "")
            rows.setdefault((o.group, place, o.dtype), {})[o.label] = o
    if not rows:
        return None
    used = [label for label in LABELS if any(label in cells for cells in rows.values())]
    table = TextTable(
        "posenc_ref on array libraries: worst score in units of rounding",
        ["library", "dtype", *used],
        numbers=frozenset(used),
    )
    order = {b.name: i for i, b in enumerate(backends())}
    for (_, place, dtype), cells in sorted(rows.items(), key=lambda row: order[row[0][0]]):
        table.add([(place, ""), (dtype, ""), *(_cell(cells.get(label)) for label in used)])
    return table


def vectors_table(found: Verification) -> TextTable | None:
    """Return the table of golden vectors: a row per encoding, a column per library."""
    rows: dict[str, dict[str, Outcome]] = {}
    for o in found.outcomes:
        if o.kind == "backend" and o.label in labels():
            cells = rows.setdefault(o.label, {})
            known = cells.get(o.group)
            if known is None or _badness(o) > _badness(known):
                cells[o.group] = o
    used = [b.name for b in backends() if any(b.name in cells for cells in rows.values())]
    if not rows:
        return None
    table = TextTable(
        "posenc_ref against 50 digits: the examples of every encoding, worst score of all dtypes",
        ["encoding", *used],
        numbers=frozenset(used),
    )
    for label, cells in sorted(rows.items()):
        table.add([(labels()[label].name, ""), *(_cell(cells.get(name)) for name in used)])
    return table


def _badness(o: Outcome) -> tuple[bool, float]:
    """Return a sort key that ranks failed outcomes above conforming ones, then larger scores."""
    return o.verdict != "conforms", (o.worst or 0.0) / (o.budget or 1.0)


def _cell(o: Outcome | None) -> tuple[str, str]:
    if o is None:
        return "", ""
    if o.verdict != "conforms":
        return WORDS[o.verdict], o.verdict
    return ("equal" if not o.worst else f"{o.worst:.2f}"), o.verdict


def library_table(found: Verification) -> TextTable | None:
    """Return the table of other libraries: a row per implementation and dtype."""
    outcomes = [o for o in found.outcomes if o.kind == "library" and o.label]
    if not outcomes:
        return None
    lengths = [f"{p >> 20}Mi" if p >= 2**20 else f"{p >> 10}Ki" for p in REPORTED]
    table = TextTable(
        "Other libraries, as they are installed",
        ["implementation", "dtype", "worst", *lengths, "> 2**-9 at", "angles", "verdict"],
        numbers=frozenset(("worst", "> 2**-9 at", *lengths)),
    )
    library = ""
    for o in outcomes:
        if o.group != library:
            library = o.group
            table.add([(f"{library} {o.version}", ""), *[("", "")] * (len(table.head) - 1)])
        table.add(
            [
                (f"  {o.label}", ""),
                (o.dtype, ""),
                ("" if o.worst is None else short_score(o.worst), ""),
                *((f"{o.errors[p]:.0e}" if p in o.errors else "", "") for p in REPORTED),
                ("" if o.degrades_at is None else str(o.degrades_at), ""),
                (o.precision.replace(" angles", ""), ""),
                (" ".join((WORDS[o.verdict], *o.codes)), o.verdict),
            ]
        )
    return table


def legend(found: Verification) -> str:
    """Return an explanation of the tables."""
    text = (
        "Scores are errors in units of rounding (see README): up to 128 pass in float32 and "
        "float64,\n8 in bfloat16 and float16."
    )
    if any(o.kind == "library" and o.label for o in found.outcomes):
        text += (
            " 4Ki .. 1Mi: largest absolute error of cos and sin at the end\nof a context of that "
            "length. > 2**-9 at: the first position with an error that bfloat16 would show\n"
            "(bfloat16 and float16 results: on top of their own rounding)."
        )
    return text


def sentences(found: Verification) -> list[str]:
    """Return sentences about the outcomes that deviate, are errors or were skipped."""
    lines = []
    titles = {"deviates": "Deviations", "inconclusive": "Inconclusive", "error": "Errors",
              "skipped": "Skipped"}  # fmt: skip
    for verdict, title in titles.items():
        chosen = [o for o in found.outcomes if o.verdict == verdict]
        if chosen:
            lines += [f"{title}:", *(f"  {_sentence(o)}" for o in chosen)]
    for o in found.outcomes:
        if o.kind == "certificate" and o.verdict == "conforms":
            lines.append(
                f"Certificate: {o.executed} numbers recomputed with 50 digits, worst {o.worst:.2f} "
                "units: the encodings are exact with this machine's libm."
            )
    return lines


def _sentence(o: Outcome) -> str:
    late = f"; visibly wrong from position {o.degrades_at} on"
    return f"{o.name}: {o.found}{late if o.verdict == 'deviates' and o.degrades_at else ''}"


def summary(found: Verification) -> str:
    """Return the number of outcomes with each verdict in one line."""
    c = found.counts
    text = (
        f"{sum(c.values()) - c['skipped']} judged, {c['conforms']} conforming, {c['deviates']} "
        f"deviating, {c['inconclusive']} inconclusive, {c['skipped']} skipped"
    )
    if c["error"]:
        text += f", {c['error']} errors"
    ours = [o for o in found.outcomes if o.ours and o.verdict in ("deviates", "inconclusive")]
    own = f"{len(ours)} of our own FAIL" if ours else "none of our own deviates"
    if c["error"] and not ours:
        own = "what went wrong is above"
    elif not any(o.executed for o in found.outcomes):
        own = "NOTHING was executed"
    return f"{text}; {own} ({found.seconds:.0f} s)"


def parts(found: Verification) -> list[TextTable | str]:
    """Return the non-empty tables, their legend, sentences and the summary."""
    every = (own_table(found), vectors_table(found), library_table(found))
    tables: list[TextTable | str] = [table for table in every if table is not None]
    if tables:
        tables.append(legend(found))
    return [*tables, "\n".join(sentences(found)), summary(found)]


def plain(found: Verification) -> str:
    """Return the whole result as plain text."""
    return plain_text(parts(found))
