"""The tables and sentences that `posenc verify` prints."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from posenc_ref.backends import backends
from posenc_ref.conformance.harness.probes import REPORTED

from .own import LABELS, labels
from .record import Outcome
from .tables import WORDS, Cell, TextTable, plain_text, short_score
from .verify import Verification

#: The outcomes of a table by the first cells of the row, then by the column.
_Rows = dict[tuple[str, ...], dict[str, Outcome]]


def own_table(found: Verification) -> TextTable | None:
    """Return the table of our backends: a row per device and dtype, a column per encoding."""
    rows: _Rows = {}
    for o in found.outcomes:
        if o.kind == "backend" and o.label in LABELS:
            place = f"{o.group} {o.version}" + (f" {o.device}" if o.device else "")
            rows.setdefault((place, o.dtype), {})[o.label] = o
    title = "posenc_ref on array libraries: worst score in units of rounding"
    return _pivoted(title, ("library", "dtype"), rows, LABELS)


def vectors_table(found: Verification) -> TextTable | None:
    """Return the table of golden vectors: a row per encoding, a column per library."""
    rows: _Rows = {}
    for o in sorted(found.outcomes, key=_badness):
        if o.kind == "backend" and o.label in labels():
            rows.setdefault((labels()[o.label].name,), {})[o.group] = o
    title = "posenc_ref against formulas in 50 digits: worst score of all examples and dtypes"
    names = [backend.name for backend in backends()]
    return _pivoted(title, ("encoding",), dict(sorted(rows.items())), names)


def _pivoted(
    title: str, head: Sequence[str], rows: _Rows, columns: Sequence[str]
) -> TextTable | None:
    """Return a table of ``rows``, without empty columns; None if there are no rows."""
    used = [name for name in columns if any(name in cells for cells in rows.values())]
    made: list[list[Cell]] = [
        [*key, *(_cell(cells.get(name)) for name in used)] for key, cells in rows.items()
    ]
    return TextTable(title, [*head, *used], made, numbers=used) if rows else None


def _badness(o: Outcome) -> tuple[bool, float]:
    """Return a sort key that puts failed outcomes last, and among equals the largest score."""
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
    head = ["implementation", "dtype", "worst", *lengths, "> 2**-9 at", "angles", "verdict"]
    rows: list[list[Cell]] = []
    for library, own in itertools.groupby(outcomes, key=lambda o: f"{o.group} {o.version}"):
        rows.append([library, *[""] * (len(head) - 1)])
        rows += [
            [
                f"  {o.label}",
                o.dtype,
                "" if o.worst is None else short_score(o.worst),
                *(f"{o.errors[p]:.0e}" if p in o.errors else "" for p in REPORTED),
                "" if o.degrades_at is None else str(o.degrades_at),
                o.precision.replace(" angles", ""),
                (" ".join((WORDS[o.verdict], *o.codes)), o.verdict),
            ]
            for o in own
        ]
    numbers = ("worst", "> 2**-9 at", *lengths)
    return TextTable("Installed libraries", head, rows, numbers)


def legend(found: Verification) -> str:
    """Return an explanation of the tables."""
    text = (
        "Scores are errors in units of rounding (docs/judging.md): up to 128 pass in float32 and "
        "float64,\n8 in bfloat16 and float16."
    )
    if any(o.kind == "library" and o.label for o in found.outcomes):
        text += (
            " 4Ki .. 1Mi: the largest absolute error of cos and sin\nat the end of a context of "
            "that length. > 2**-9 at: the first position with an error above 2**-9.\nErrors of "
            "bfloat16 and float16 results do not include the rounding of the result."
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
                f"Certificate: {o.executed} numbers computed by posenc_ref here agree with "
                f"50-digit formulas; the largest error is {o.worst:.2f} units of rounding."
            )
    return lines


def _sentence(o: Outcome) -> str:
    late = f"; the error is above 2**-9 from position {o.degrades_at} on"
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
    own = f"outcomes of posenc_ref itself: {f'{len(ours)} FAILED' if ours else 'none failed'}"
    if c["error"] and not ours:
        own = "the errors are listed above"
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
