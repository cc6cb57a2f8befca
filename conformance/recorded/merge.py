"""Merge the reports of all layers into one report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from posenc_ref.accuracy import ROUNDOFF
from posenc_ref.conformance.harness.report import Accuracy, Finding, Report


def merged(name: str, declared: str, reports: Sequence[tuple[str, Report]]) -> Report:
    """Return one report of all layers; equal findings are listed once, with their layers."""
    if len(reports) == 1 and not reports[0][0]:
        return reports[0][1]
    first = next((r for _, r in reports if r.codes), reports[0][1])
    coarse = max((r.dtype for _, r in reports), key=ROUNDOFF.__getitem__)
    whole = replace(
        first, subject=name, encoding=declared, dtype=coarse, findings=[], limits=[], executed={},
        controls={},
    )  # fmt: skip
    wrong = [label for label, r in reports if r.codes]
    if wrong:
        right = len(reports) - len(wrong)
        whole.measured = f"layer {wrong[0]}: {first.measured}; {len(wrong)} layers deviate"
        whole.measured += f", {right} do not" if right else ""
    texts: dict[str, list[str]] = {}
    found: dict[tuple[str, str], list[tuple[str, Finding]]] = {}
    for label, r in reports:
        for text in r.limits:
            texts.setdefault(text, []).append(label)
        for finding in r.findings:
            found.setdefault((finding.code, finding.message), []).append((label, finding))
        for check, count in r.executed.items():
            whole.executed[check] = whole.executed.get(check, 0) + count
        whole.controls |= {f"layer {label}, {c}": ok for c, ok in r.controls.items()}
    everywhere = len(reports)
    whole.limits = [t if len(at) == everywhere else f"{_listed(at)}: {t}" for t, at in texts.items()]
    for same in found.values():
        labels, finding = [label for label, _ in same], same[0][1]
        place = f"{_listed(labels)}; in {_one(labels[0])}: {finding.evidence}"
        whole.findings.append(replace(finding, evidence=place))
    whole.required = tuple(dict.fromkeys(n for _, r in reports for n in r.required))
    if any(r.missing for _, r in reports) and not wrong:
        empty = [label for label, r in reports if r.missing]
        whole.limits.append(f"{_listed(empty)}: nothing could be judged")
        if len(empty) == everywhere:
            whole.executed = {}
    scored = [(label, r.accuracy) for label, r in reports if r.accuracy is not None]
    if scored:
        label, worst = max(scored, key=lambda pair: pair[1].worst)
        highest = max(a.highest for _, a in scored)
        whole.accuracy = replace(worst, where=f"layer {label}, {worst.where}", highest=highest)
    return whole


def _one(label: str) -> str:
    return f"layer {label.removeprefix('layer.').removeprefix('layers.')}"


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(_one(label).removeprefix("layer ") for label in labels[:8])
    more = f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    return f"layer{'s' * (len(labels) > 1)} {shown}{more}"
