"""The tables and sentences that `posenc verify` prints."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from posenc_ref.backends import backends
from posenc_ref.conformance.guide.text import hanging
from posenc_ref.conformance.harness.accuracy import first_error
from posenc_ref.conformance.harness.probes import REPORTED

from .own import LABELS, labels
from .record import Outcome
from .tables import WORDS, Cell, TextTable, plain_text, short_score
from .verify import Verification

EQUAL, ONE_DTYPE, NOT_RUN, NONE = "equal", "once", "not run", "n/a"
SCORE, VISIBLE, AT_MOST = "score", "> 2**-9 at", "<= "
#: The words and headings of the tables, with their meanings.
MEANINGS = {
    SCORE: "the largest error found / unit of rounding (docs/judging.md). Up to 128 pass in "
    "float32 and float64, 8 in bfloat16 and float16.",
    EQUAL: "no error: the same numbers, to the last bit",
    ONE_DTYPE: "judged in one dtype only, in another row of this library",
    NOT_RUN: "not asked of this library, or not selected",
    WORDS["skipped"]: "not judged, for a reason that is listed below",
    NONE: "not measured: the function has no angles, or does not reach this position",
    "4Ki .. 1Mi": "the largest absolute error of cos and sin at the last 10 positions of a context "
    "of that length; for bfloat16 and float16 without the rounding of the result",
    VISIBLE: "the first position with an error of cos or sin above 2**-9 = 0.002, the "
    f"rounding error of bfloat16 just below 1; {AT_MOST}N: the first one is N or smaller; never: "
    "no judged position has one",
    "angles": "the precision in which the function computes its angles, as its errors show",
}
#: The sentences about outcomes of all encodings at once.
WHOLE = {
    "certificate": "Certificate: {executed} numbers computed by posenc_ref here agree with "
    "50-digit formulas; the largest error is {worst:.2f} units of rounding.",
    "vectors": "Golden vectors: posenc_ref computes all {executed} cases here; the largest error "
    "is {worst:.2f} units of rounding. `posenc vectors --verify` also checks the files.",
}
#: The verdicts of what was judged.
_JUDGED = ("conforms", "deviates", "inconclusive", "error")
MOST_NAMES = 8  #: more names than these are counted instead
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
    own = [o for o in found.outcomes if o.kind == "backend" and o.label in labels()]
    if all(o.verdict == "skipped" for o in own):
        return None
    for o in sorted(own, key=_badness):
        rows.setdefault((labels()[o.label].name,), {})[o.group] = o
    title = "posenc_ref against formulas in 50 digits: worst score of all examples and dtypes"
    names = [backend.name for backend in backends()]
    return _pivoted(title, ("encoding",), dict(sorted(rows.items())), names)


def _pivoted(
    title: str, head: Sequence[str], rows: _Rows, columns: Sequence[str]
) -> TextTable | None:
    """Return a table of ``rows``, without empty columns; None if there are no rows."""
    used = [name for name in columns if any(name in cells for cells in rows.values())]
    judged = {(key[0], name) for key, cells in rows.items() for name in cells}
    made: list[list[Cell]] = [
        [
            *key,
            *(_cell(cells.get(name), ONE_DTYPE if (key[0], name) in judged else NOT_RUN)
              for name in used),
        ]
        for key, cells in rows.items()
    ]  # fmt: skip
    return TextTable(title, [*head, *used], made, numbers=used) if rows else None


def _badness(o: Outcome) -> tuple[bool, float]:
    """Return a sort key that puts failed outcomes last, and among equals the largest score."""
    return o.verdict != "conforms", (o.worst or 0.0) / (o.budget or 1.0)


def _cell(o: Outcome | None, without: str) -> tuple[str, str]:
    if o is None:
        return without, ""
    if o.verdict != "conforms":
        return WORDS[o.verdict], o.verdict
    return (EQUAL if not o.worst else f"{o.worst:.2f}"), o.verdict


def library_tables(found: Verification) -> list[TextTable]:
    """Return a table for each other library: a row per function and dtype."""
    outcomes = [o for o in found.outcomes if o.kind == "library" and o.label]
    head = ["function", "dtype", "worst", *map(_length, REPORTED), VISIBLE, "angles", "verdict"]
    numbers = ("worst", VISIBLE, *map(_length, REPORTED))
    tables = []
    for library, own in itertools.groupby(outcomes, key=lambda o: f"{o.group} {o.version}"):
        rows: list[list[Cell]] = [
            [
                o.label,
                o.dtype,
                NONE if o.worst is None else EQUAL if not o.worst else short_score(o.worst),
                *(f"{o.errors[p]:.0e}" if p in o.errors else NONE for p in REPORTED),
                visible(o),
                o.precision.replace(" angles", "") or NONE,
                (" ".join((WORDS[o.verdict], *o.codes)), o.verdict),
            ]
            for o in own
        ]
        tables.append(
            TextTable(f"{library}: worst score in units of rounding", head, rows, numbers)
        )
    return tables


def visible(o: Outcome) -> str:
    """Return the first position with a visible error, or the largest that it can be."""
    if o.degrades_at is None:
        return "never" if o.errors else NONE
    return f"{'' if o.degrades_first else AT_MOST}{o.degrades_at}"


def _length(position: int) -> str:
    return f"{position >> 20}Mi" if position >= 2**20 else f"{position >> 10}Ki"


def legend(tables: Sequence[TextTable]) -> str:
    """Return an explanation of the numbers and words in the tables."""
    rows = itertools.chain.from_iterable(table.rows for table in tables)
    used = {cell if isinstance(cell, str) else cell[0] for row in rows for cell in row}
    used |= {name for table in tables for name in table.head}
    lines = [
        hanging(word, meaning, 12)
        for word, meaning in MEANINGS.items()
        if word == SCORE or word.partition(" ..")[0] in used
    ]
    return "\n".join(["How to read the tables", *lines])


def sentences(found: Verification) -> list[str]:
    """Return sentences about the outcomes that deviate, are errors or were skipped."""
    lines = []
    titles = {
        "deviates": "Deviations", "inconclusive": "Inconclusive", "error": "Errors",
        "undrivable": "Not drivable in this release", "gap": "No encoding of posenc_ref",
    }  # fmt: skip
    for verdict, title in titles.items():
        chosen = [o for o in found.outcomes if o.verdict == verdict]
        if chosen:
            lines += [f"{title}:", *(f"  {_sentence(o)}" for o in chosen)]
    lines += _skipped([o for o in found.outcomes if o.verdict == "skipped"])
    for o in found.outcomes:
        if o.verdict == "conforms" and o.kind in WHOLE:
            lines.append(WHOLE[o.kind].format(executed=o.executed, worst=o.worst))
    return lines


def _skipped(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line for each reason: the number of outcomes, their names and what to install."""
    reasons: dict[str, list[Outcome]] = {}
    commands: dict[str, list[str]] = {}
    for o in outcomes:
        reason, _, command = o.reason.partition("; pip install ")
        reason = reason.partition(" (No module named")[0]
        for place in (o.group, o.device or o.group):
            reason = reason.removeprefix(f"{place} ").removeprefix("is ")
        reasons.setdefault(reason, []).append(o)
        commands.setdefault(reason, []).extend([command] if command else [])
    lines = []
    for reason, own in reasons.items():
        names = list(dict.fromkeys(o.name for o in own))
        if len(names) > MOST_NAMES:
            count = Counter(o.group for o in own)
            names = [f"{n} of {group}" for group, n in count.items()]
        line = f"  {reason} ({len(own)}): {', '.join(names)}"
        if commands[reason]:
            line += f"; pip install {' '.join(dict.fromkeys(commands[reason]))}"
        lines.append(line)
    return ["Skipped, by reason:", *lines] if lines else []


def _sentence(o: Outcome) -> str:
    late = ""
    if o.verdict == "deviates" and o.degrades_at is not None:
        late = f"; {first_error(o.degrades_at, o.degrades_first, o.dtype)}"
    return f"{o.name}: {o.found}{late}"


def summary(found: Verification) -> str:
    """Return the number of outcomes with each verdict in one line."""
    c = found.counts
    text = (
        f"{sum(c[v] for v in _JUDGED)} judged, {c['conforms']} conforming, {c['deviates']} "
        f"deviating, {c['inconclusive']} inconclusive, {c['skipped']} skipped"
    )
    for verdict, words in (
        ("error", "errors"), ("undrivable", "not drivable"), ("gap", "without an encoding")
    ):  # fmt: skip
        if c.get(verdict):
            text += f", {c[verdict]} {words}"
    ours = [o for o in found.outcomes if o.ours and o.verdict in ("deviates", "inconclusive")]
    own = f"outcomes of posenc_ref itself: {f'{len(ours)} FAILED' if ours else 'none failed'}"
    if c["error"] and not ours:
        own = "the errors are listed above"
    elif not any(o.executed for o in found.outcomes):
        own = "NOTHING was executed"
    return f"{text}; {own} ({found.seconds:.0f} s)"


def parts(found: Verification) -> list[TextTable | str]:
    """Return the non-empty tables, their legend, sentences and the summary."""
    every = (own_table(found), vectors_table(found), *library_tables(found))
    tables = [table for table in every if table is not None]
    guide = [legend(tables)] if tables else []
    return [*tables, *guide, "\n".join(sentences(found)), summary(found)]


def plain(found: Verification) -> str:
    """Return the whole result as plain text."""
    return plain_text(parts(found))
