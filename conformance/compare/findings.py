"""The findings and the conversion of a comparison, from checks of both functions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from posenc_ref import Rotary
from posenc_ref.conformance.diagnosis.reproduce import IN_LAYOUT
from posenc_ref.conformance.diagnosis.reproduce_fn import definition
from posenc_ref.conformance.diagnosis.same_logits import REMEDY
from posenc_ref.conformance.harness.driver import Driver
from posenc_ref.conformance.harness.report import ERROR, NOTE, Finding, Report
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.identify.card import Card
from posenc_ref.conformance.identify.convert.conversion import ARGUMENTS
from posenc_ref.conformance.identify.function import add_conversion
from posenc_ref.conformance.oracle.found import Found
from posenc_ref.conformance.sequences.judge_qk import MAYBE_HARMLESS

from .comparison import LOGITS_AGREE, Comparison, Difference
from .found import found
from .side import Two
from .words import building, differ

#: Findings about tensors that may leave the logits as declared.
_OF_TENSORS = (*MAYBE_HARMLESS, "layout", "not-a-rotation", "inaccurate")


def against_measured(report: Report, encoding: Found, a: Card, declared: Driver) -> None:
    """Edit findings against a measured rotation, whose pairs may be in any order.

    ``declared`` calls B, the function that was measured.
    """
    w, v = np.sort(np.abs(a.frequencies)), np.sort(np.abs(encoding.frequencies()))
    same = w.size == v.size and not differ(w, v, a.uncertainty.max(initial=0.0)).any()
    if "layout" in report.codes and same:
        about = ("frequency-spacing", "sign")
        report.findings = [f for f in report.findings if f.code not in about]
    report.findings = [
        replace(f, reproduce=_called(f.reproduce, encoding.head_dim, declared))
        for f in report.findings
    ]


def _called(code: str, dim: int, declared: Driver) -> str:
    """Return code that reproduces a finding, with calls of B in place of the measured encoding."""
    imports, defined = definition(declared, "declared")
    sizes = {"b": 1, "h": 1, "s": -1, "d": dim}
    taken = tuple(sizes[axis] for axis in IN_LAYOUT[declared.tensor_layout])
    lines = []
    for line in code.splitlines():
        if line.startswith("encoding = "):
            lines += [new for new in imports if new not in lines] + defined
        elif line.startswith("expected = "):
            positions = line.rpartition(", ")[2].removesuffix(")")
            called = f"declared(x.reshape({taken}), {positions})"
            lines.append(f"expected = {called}.reshape((1, 1, -1, {dim}))")
        elif not line.startswith("from posenc_ref import"):
            lines.append(re.sub(r"(expected\[[^]]*\])\)", r"float(\1))", line))
    return "\n".join(lines)


def explain(run: Run, report: Report, judged: tuple[Any, Report], name: str) -> None:
    """Report A's deviations from B's nearest encoding that B lacks, and B's that A lacks."""
    mine, its = ({(f.code, f.message): f for f in r.findings if f.severity == ERROR}
                 for r in (report, judged[1]))  # fmt: skip
    for key, finding in mine.items():
        if key not in its:
            text = f"compared with {judged[0]!r}, the encoding nearest to {name}: {finding.message}"
            _add(run, replace(finding, message=text))
    for key, finding in its.items():
        if key not in mine:
            text = f"{name} deviates from {judged[0]!r}, but A does not: {finding.message}"
            remedy = f"Mend {name}, or give A the same deviation."
            _add(run, Finding(finding.code, text, finding.evidence, remedy=remedy))


def _add(run: Run, finding: Finding) -> None:
    if finding.code not in run.report.codes:
        run.report.findings.append(finding)


def beyond(report: Report, two: Two) -> None:
    """Report differences from B in calls that the check against B's encoding does not make."""
    own = two.run.report.findings
    if not own:
        first = two.run.failures[0]
        text = f"results differ from those of {two.b.name}, although both have the same encoding"
        own = [Finding("inaccurate", text, first.place.replace("truth", "declared"))]
    report.findings += own


def excuse(report: Report, name: str, difference: Difference, strict: bool) -> None:
    """Say that the logits of both functions agree: errors about tensors become notes.

    A strict comparison keeps the errors.
    """
    errors = [f for f in report.findings if f.severity == ERROR]
    if not all(f.code in _OF_TENSORS for f in errors):
        return
    if not strict:
        report.findings = [
            replace(f, severity=NOTE) if f.severity == ERROR else f
            for f in report.findings
            if f.code != "inaccurate"
        ]
        report.accuracy = None  # it is that of the tensors
    if "harmless-convention" not in [f.code for f in report.findings]:
        text = f"tensors differ from those of {name}, logits do not"
        text += ", up to a constant for each query" if difference.constant else ""
        report.findings.append(Finding("harmless-convention", text, severity=NOTE, remedy=REMEDY))


def convert(result: Comparison, two: Two, a: Card, like: Any, exact: bool, surface: str) -> None:
    """Add the steps that convert A, a function of ``surface``, to B, or to what is nearest to B."""
    if like is None:
        result.conversion = [f"cannot be converted: {two.b.name} has no known encoding"]
        return
    if result.agreement == LOGITS_AGREE and not (exact and a.exact):
        return
    if not exact and not a.exact:
        result.conversion = ["change the function as the findings say"]
        return
    if a.surface not in ARGUMENTS:
        result.conversion = building(a.encoding, like)
        return
    if a.encoding is None and isinstance(like, Rotary) and two.a.access is not None:
        a.encoding = found(two.a, a)
    add_conversion(a, like, surface if surface in ARGUMENTS else None)
    if surface not in ARGUMENTS:  # the lines would call the view that was measured
        below = ", as the lines below do"
        a.conversion, a.converted = [step.removesuffix(below) for step in a.conversion], ""
    if a.conversion and a.conversion[0].startswith(
        "fix the deviations first"
    ):  # no encoding describes A
        result.conversion = ["change the function as the findings say"]
        return
    result.conversion, result.converted = a.conversion, a.converted
    same_kind = type(a.encoding) is type(like) and not isinstance(like, Found)
    if not a.converted and same_kind and a.encoding != like:
        steps = building(a.encoding, like)
        said = result.conversion[-1].endswith("with the target's values")
        result.conversion += [s for s in steps if not said and s not in result.conversion[-1]]
    if not exact:
        to = f"{two.b.name}'s nearest encoding, without its deviations"
        if a.encoding == like:
            result.conversion = [f"no permutation leads from A to {two.b.name}: A is {to}"]
        elif a.converted:
            result.conversion.append(f"these steps lead to {to}")
    elif result.agreement == LOGITS_AGREE and not "".join(a.conversion[:1]).startswith("logits"):
        result.conversion.insert(0, "logits agree; only to get equal tensors as well:")
