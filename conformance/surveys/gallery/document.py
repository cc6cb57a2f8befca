"""The gallery as text for the terminal and as a Markdown document."""

from __future__ import annotations

from posenc_ref.conformance.adapters.library import LibraryFunction
from posenc_ref.conformance.surveys.document import document
from posenc_ref.conformance.surveys.record import Outcome
from posenc_ref.conformance.surveys.tables import markdown_table

from .judge import RIGHT
from .run import Gallery, installed

READING = """\
`identify` gets a function of a library and the shapes of its arguments, and returns an identity
card: the encoding that it found. The table compares the card with the encoding that a person read
in the **source** of the library (`conformance/adapters`). **worst** is the largest error against
the identified encoding, in units of rounding; up to 128 pass (judging.md)."""
HEAD = ("function", "source", "is", "card", "worst")


def markdown(found: Gallery) -> str:
    """Return the document: a table, surprising properties, and every identity card."""
    parts = [
        f"**{found.summary.rpartition(' (')[0]}.**",
        READING,
        "\n".join(f"- **{word}**: {meaning}." for word, meaning in RIGHT.items()),
        "## All functions",
        markdown_table(
            HEAD, [[*cells(one), *_result(found.outcome(one))] for one in found.functions]
        ),
    ]
    odd = [
        f"- **{one.name}** ({one.source}): {one.remark}" for one in found.functions if one.remark
    ]
    absent = [f"- {one.name}: {one.library} is not installed" for one in found.absent]
    for title, lines in (("Surprising", odd), ("Not run", absent)):
        if lines:
            parts += [f"## {title}", "\n".join(lines)]
    parts.append("## The cards")
    parts += [f"### {o.case}\n\n```text\n{o.card or o.reason}\n```" for o in found.outcomes]
    command, duration = "posenc gallery --markdown FILE", f"{found.cpu_seconds:.0f} s"
    return document("Identity cards of real functions", installed(), command, duration, parts)


def cells(function: LibraryFunction) -> list[str]:
    """Return the cells of a row that do not depend on the identification."""
    expected = function.expected
    what = f"none ({function.unknown})" if expected is None else f"`{expected!r}`"
    says = f": {function.says}" if function.says else ""
    return [function.name, f"`{function.library}` {function.source}", what + says]


def _result(found: Outcome | None) -> list[str]:
    if found is None:
        return ["not run", ""]
    if not found.right:
        return [f"**WRONG**: {found.reason}", ""]
    score = "" if found.worst is None or found.right == "unknown" else f"{found.worst:.3g}"
    return [", ".join([found.right, *found.codes]), score]


def plain(found: Gallery) -> str:
    """Return a line for each function, and the summary."""
    width = max((len(function.name) for function in found.functions), default=0)
    lines = []
    for function in found.functions:
        one = found.outcome(function)
        if one is None:
            text = f"not run: {function.library} is not installed"
        elif one.right:
            text = f"{one.right:<9} {one.encoding if one.right != 'unknown' else ''}".rstrip()
        else:
            text = f"WRONG: {one.reason}"
        lines.append(f"{function.name:<{width}}  {text}")
    return "\n".join([*lines, "", found.summary])
