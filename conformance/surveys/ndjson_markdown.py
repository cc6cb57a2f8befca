"""Recorded reports as Markdown, such as for ``$GITHUB_STEP_SUMMARY``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.report import ERROR, Finding, Report

from . import show
from .ndjson import Recorded
from .record import Outcome, judged
from .tables import markdown_table
from .verify import Verification

_SIGNS = {
    "conforms": "✅", "deviates": "❌", "inconclusive": "⚠️", "error": "💥", "skipped": "⏭️",
}  # fmt: skip
_HEAD = ("", "judged", "surface", "declared", "dtype", "cases", "worst", "verdict")


def markdown(recorded: Sequence[Recorded]) -> str:
    """Return a summary table, findings with remedies, limits of the judgement, and versions."""
    rows, found, skipped = [], [], []
    for one in recorded:
        report = one.result
        if isinstance(report, Report):
            blank = Outcome(case=report.subject, surface=report.surface, dtype=report.dtype)
            rows.append(_row(judged(blank, report).replace(encoding=report.encoding)))
            found += [line for f in report.findings for line in _finding(report.subject, f)]
            limits = [f"the required check {name!r} was not executed" for name in report.missing]
            limits = [*report.limits, *limits]
            skipped += [f"- {_text(report.subject)}: {_text(limit)}" for limit in limits]
        else:
            rows += [_row(o) for o in report.outcomes if o.verdict != "skipped"]
            found += [_outcome_finding(o) for o in report.outcomes if o.codes]
            skipped += [
                f"- {_text(o.name)}: {_text(o.reason)}"
                for o in report.outcomes
                if o.reason and o.verdict != "conforms"
            ]
    cells = [[_text(cell) for cell in row] for row in rows]
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
        report = one.result
        if isinstance(report, Verification):
            lines.append(f"- `posenc verify`: {_text(show.summary(report))}")
            continue
        rejected = sum(report.controls.values())
        lines.append(
            f"- {_text(report.subject)}: **{report.verdict}** (exit code {report.exit_code}), "
            f"{plural(sum(report.executed.values()), 'case', 'cases')} executed, {rejected} of "
            f"{len(report.controls)} perturbed outputs rejected"
        )
    return lines


def _row(o: Outcome) -> list[str]:
    return [
        _SIGNS[o.verdict],
        o.case or " ".join(part for part in (o.group, o.version, o.device, o.label) if part),
        o.surface,
        o.encoding,
        o.dtype,
        str(o.executed),
        "" if o.worst is None else f"{o.worst:.3g}",
        " ".join((o.verdict, *o.codes)),
    ]


def _finding(subject: str, f: Finding) -> list[str]:
    label = f"- {'**error**' if f.severity == ERROR else 'note'} `{f.code}`, {_text(subject)}: "
    lines = [label + _text(f.message)]
    if f.evidence:
        lines.append(f"  - evidence: {_text(f.evidence)}")
    if f.severity == ERROR:
        lines.append(f"  - remedy: {_text(f.remedy)}")
    if f.known:
        lines.append(f"  - models with this convention: {_text(', '.join(f.known))}")
    if f.reproduce:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", f.reproduce)), default=0))
        code = "\n".join(f"    {line}" for line in f.reproduce.splitlines())
        lines.append(f"  - reproduce:\n\n    {fence}python\n{code}\n    {fence}\n")
    return lines


def _outcome_finding(o: Outcome) -> str:
    pairs = zip(o.codes, o.messages, strict=False)
    return f"- **error** {_text(o.name)}: " + "; ".join(f"`{c}`: {_text(m)}" for c, m in pairs)


def _versions(recorded: Sequence[Recorded]) -> list[str]:
    """Return a line for each distinct set of library versions."""
    lines = []
    for one in recorded:
        known = dict(one.header["versions"])
        if one.header.get("backend_version"):
            known[one.header["backend"]] = one.header["backend_version"]
        versions = ", ".join(f"{name} {version}" for name, version in known.items())
        lines.append(f"<sub>{_text(versions)}, {_text(one.header['platform'])}</sub>")
    return list(dict.fromkeys(lines))


def _text(value: str) -> str:
    """Return ``value`` as one line with Markdown escaped."""
    for sign in "\\`*_[]<>|~":
        value = value.replace(sign, "\\" + sign)
    return " ".join(value.split())
