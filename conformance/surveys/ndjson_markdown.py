"""Recorded reports as Markdown, such as for ``$GITHUB_STEP_SUMMARY``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from posenc_ref._text import markdown as escaped
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.report import ERROR, Finding, Report

from . import show
from .batch import Batch, Checked
from .ndjson import Recorded
from .record import Outcome
from .tables import markdown_table
from .verify import Verification

EMOJI = {
    "conforms": "✅", "deviates": "❌", "inconclusive": "⚠️", "error": "💥", "skipped": "⏭️",
    "expected": "☑️", "unexpected": "❌",
}  # fmt: skip
_HEAD = ("", "judged", "surface", "declared", "dtype", "cases", "worst", "verdict")


def markdown(recorded: Sequence[Recorded]) -> str:
    """Return a summary table, findings with remedies, limits of the judgement, and versions."""
    rows, found, skipped = [], [], []
    for one in recorded:
        if isinstance(one.result, Verification):
            outcomes = one.result.outcomes
            rows += [_row(o) for o in outcomes if o.verdict != "skipped"]
            found += [_outcome_finding(o) for o in outcomes if o.codes]
            skipped += [
                f"- {escaped(o.name)}: {escaped(o.reason)}"
                for o in outcomes
                if o.reason and o.verdict != "conforms"
            ]
            continue
        for checked in _checked(one.result):
            rows.append(_row(checked))
            report = checked.report
            if report is None:
                skipped.append(f"- {escaped(checked.name)}: {escaped(checked.reason)}")
                continue
            found += [line for f in report.findings for line in _finding(checked.name, f)]
            subject = escaped(checked.name)
            found += [f"- {subject}: {escaped(line)}" for line in _expectation(report)]
            limits = [f"the required check {name!r} was not executed" for name in report.missing]
            limits = [*report.limits, *limits]
            skipped += [f"- {subject}: {escaped(limit)}" for limit in limits]
    cells = [[escaped(cell) for cell in row] for row in rows]
    table = markdown_table(_HEAD, cells, ("cases", "worst"))
    parts = ["## Positional encodings", "\n".join(_counts(recorded)), table]
    for title, texts in (("Findings", found), ("Not judged", skipped)):
        if texts:
            parts.append(f"### {title}\n\n" + "\n".join(texts))
    parts.append("\n".join(_versions(recorded)))
    return "\n\n".join(parts) + "\n"


def _counts(recorded: Sequence[Recorded]) -> list[str]:
    """Return one sentence for each file: the number of executed cases and the verdict."""
    lines = []
    for one in recorded:
        result = one.result
        if isinstance(result, Verification):
            lines.append(f"- `posenc verify`: {escaped(show.summary(result))}")
        elif isinstance(result, Batch):
            lines.append(f"- {escaped(result.summary())}")
        else:
            rejected = sum(result.controls.values())
            lines.append(
                f"- {escaped(result.subject)}: **{result.verdict}** (exit code "
                f"{result.exit_code}), {plural(sum(result.executed.values()), 'case', 'cases')} "
                f"executed, {rejected} of {len(result.controls)} perturbed outputs rejected"
            )
    return lines


def _checked(result: Report | Batch) -> list[Checked]:
    """Return the outcomes of one function or of many."""
    if isinstance(result, Report):
        return [Checked.of(result.subject, result, 0.0)]
    return result.checked


def _expectation(report: Report) -> list[str]:
    """Return the expected deviation, and how the result differs from it."""
    return [f"expected {report.expected}", *report.problems] if report.expected else []


def _row(o: Outcome) -> list[str]:
    return [
        EMOJI[o.verdict],
        o.case or " ".join(part for part in (o.group, o.version, o.device, o.label) if part),
        o.surface,
        o.encoding,
        o.dtype,
        str(o.executed),
        "" if o.worst is None else f"{o.worst:.3g}",
        " ".join((o.verdict, *o.codes)),
    ]


def _finding(subject: str, f: Finding) -> list[str]:
    label = f"- {'**error**' if f.severity == ERROR else 'note'} `{f.code}`, {escaped(subject)}: "
    lines = [label + escaped(f.message)]
    if f.evidence:
        lines.append(f"  - evidence: {escaped(f.evidence)}")
    if f.severity == ERROR:
        lines.append(f"  - remedy: {escaped(f.remedy)}")
    if f.known:
        lines.append(f"  - models with this convention: {escaped(', '.join(f.known))}")
    if f.reproduce:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", f.reproduce)), default=0))
        code = "\n".join(f"    {line}" for line in f.reproduce.splitlines())
        lines.append(f"  - reproduce:\n\n    {fence}python\n{code}\n    {fence}\n")
    return lines


def _outcome_finding(o: Outcome) -> str:
    pairs = zip(o.codes, o.messages, strict=False)
    return f"- **error** {escaped(o.name)}: " + "; ".join(f"`{c}`: {escaped(m)}" for c, m in pairs)


def _versions(recorded: Sequence[Recorded]) -> list[str]:
    """Return a line for each distinct set of library versions."""
    lines = []
    for one in recorded:
        known = dict(one.header["versions"])
        if one.header.get("backend_version"):
            known[one.header["backend"]] = one.header["backend_version"]
        versions = ", ".join(f"{name} {version}" for name, version in known.items())
        lines.append(f"<sub>{escaped(versions)}, {escaped(one.header['platform'])}</sub>")
    return list(dict.fromkeys(lines))
