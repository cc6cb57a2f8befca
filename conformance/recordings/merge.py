"""Merge the reports of all tensors into one report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.accuracy import NOTHING
from posenc_ref.conformance.harness.report import Finding, Report

_NUMBER = re.compile(r"\d+(\.\d+)?(e[+-]?\d+)?")


def merged(name: str, declared: str, reports: Sequence[tuple[str, Report]]) -> Report:
    """Return one report of all tensors; equal findings are listed once, with their tensors.

    A label names the layer and the tensor, such as ``layers.3 q``.
    """
    if len(reports) == 1 and not reports[0][0]:
        return reports[0][1]
    judged = next((r for _, r in reports if not r.missing), reports[0][1])
    first = next((r for _, r in reports if r.codes), judged)
    coarse = max((r.dtype for _, r in reports), key=ROUNDOFF.__getitem__)
    same = {r.encoding for _, r in reports}
    declared = same.pop() if len(same) == 1 else declared
    whole = replace(
        first, subject=name, encoding=declared, dtype=coarse, findings=[], limits=[], executed={},
        controls={},
    )  # fmt: skip
    wrong = [label for label, r in reports if r.codes]
    shown = next(label for label, r in reports if r is first)
    whole.measured = f"{shown}: {first.measured or 'nothing'}"
    if wrong:
        whole.measured += f"; {len(wrong)} of {len(reports)} tensors deviate"
    texts: dict[str, list[str]] = {}
    found: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
    for label, r in reports:
        for text in r.limits:
            texts.setdefault(text, []).append(label)
        for finding in r.findings:
            found.setdefault(alike(finding), []).append((label, finding))
        for check, count in r.executed.items():
            whole.executed[check] = whole.executed.get(check, 0) + count
        whole.controls |= {f"{label}, {c}": ok for c, ok in r.controls.items()}
    everywhere = len(reports)
    whole.limits = list(_limits(texts, everywhere))
    for equal in found.values():
        labels, finding = [label for label, _ in equal], equal[0][1]
        also = f"; also in {listed(labels[1:])}" if labels[1:] else ""
        whole.findings.append(replace(finding, evidence=f"{labels[0]}: {finding.evidence}{also}"))
    whole.required = tuple(dict.fromkeys(n for _, r in reports for n in r.required))
    empty = [label for label, r in reports if r.missing and not r.codes]
    if len(empty) == everywhere:
        whole.executed = {}
    else:
        add_unjudged(whole, empty)
    scored = [(label, r.accuracy) for label, r in reports if r.accuracy is not None]
    scored = [(label, accuracy) for label, accuracy in scored if accuracy.where != NOTHING]
    if scored:
        label, worst = max(scored, key=lambda pair: pair[1].worst)
        highest = max(a.highest for _, a in scored)
        whole.accuracy = replace(worst, where=f"{label}, {worst.where}", highest=highest)
    return whole


def _limits(texts: Mapping[str, Sequence[str]], everywhere: int) -> Iterator[str]:
    """Yield each limit with its tensors; those that differ in numbers only are joined."""
    kinds: dict[str, list[str]] = {}
    for text in texts:
        kinds.setdefault(_NUMBER.sub("N", text), []).append(text)
    for first, *others in kinds.values():
        at = texts[first]
        like = [label for text in others for label in texts[text]]
        more = f"; likewise, with other numbers, {listed(like)}" if like else ""
        yield first if len(at) == everywhere else f"{listed(at)}: {first}{more}"


def add_unjudged(report: Report, labels: Sequence[str]) -> None:
    """Require the values of tensors that could not be judged: the report is then inconclusive."""
    report.required += tuple(f"values of {label}" for label in labels)


def add_stray(report: Report, name: str, text: str) -> None:
    """Add the name of a tensor that lacks its counterpart, and a sentence about it."""
    report.limits.append(text)
    add_unjudged(report, [name])


def alike(finding: Finding) -> tuple[str, str]:
    """Return the code and the message, with numbers of two digits: fitted ones vary by tensor."""
    if finding.code == "inaccurate":
        return finding.code, ""
    return finding.code, _NUMBER.sub(lambda n: f"{float(n[0]):.2g}", finding.message)


def listed(labels: Sequence[str]) -> str:
    """Return the first labels as text."""
    more = f" and {len(labels) - 6} more" if len(labels) > 6 else ""
    return f"{', '.join(labels[:6])}{more}"
