"""Judge the steps of a recording together: what one step leaves open, the others may show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.report import NOTE

from .diagnose import diagnose
from .earlier_keys import Entry
from .judge_part import seen_in
from .measure import Tokens, tokens
from .merge import alike


def judge(entries: Sequence[Entry]) -> None:
    """Join the steps of every tensor: their causes, and the step at position 0."""
    groups: dict[object, list[Entry]] = {}
    for entry in entries:
        of = (entry.key, entry.run.dtype, repr(entry.call.encoding))
        groups.setdefault(of, []).append(entry)
    for steps in groups.values():
        _at_position_0(steps)
        _one_cause(steps)
        _from_a_step_on(steps)


def _at_position_0(steps: Sequence[Entry]) -> None:
    """Count a step that the rotation leaves unchanged, if another step shows the rotation."""
    if not any("values" in one.run.report.executed for one in steps):
        return
    for one in steps:
        if one.call.unmoved and "values" not in one.run.report.executed and not _wrong(one):
            one.run.count("values")


def _one_cause(steps: Sequence[Entry]) -> None:
    """Diagnose wrong steps together, if each alone gave another cause."""
    wrong = [one for one in steps if one.run.failures and _wrong(one)]
    causes = {tuple(alike(f) for f in one.run.report.findings) for one in wrong}
    if len(causes) < 2 or wrong[0].call.encoding.depends_on_length:
        return
    first, calls = wrong[0].run, [one.call for one in wrong]
    report = replace(first.report, findings=[], limits=[], executed={}, controls={}, accuracy=None)
    run = replace(first, ledger=Ledger(report))
    run.failures.extend(failure for one in wrong for failure in one.run.failures)
    every = [tokens(call.part, run.coarse) for call in calls]
    of = Tokens(
        np.concatenate([t.x for t in every]),
        np.concatenate([t.y for t in every]),
        np.concatenate([t.positions for t in every], axis=1),
        run.coarse,
    )
    length = max(call.length for call in calls)
    run.explain(diagnose, calls, seen_in(of, wrong[0].call.encoding, length))
    if not report.codes:
        return
    for one in wrong:
        one.run.report.findings[:] = [f for f in one.run.report.findings if f.severity == NOTE]
        for f in report.findings:
            one.run.add(f.code, f.message, f.evidence, severity=f.severity, remedy=f.remedy)


def _from_a_step_on(steps: Sequence[Entry]) -> None:
    """Say from which position on the positions are wrong, if all steps before it are right."""
    wrong = [one for one in steps if one.run.failures]
    right = [one for one in steps if "values" in one.run.report.executed and one not in wrong]
    codes = {code for one in wrong for code in one.run.report.codes}
    if not right or not wrong or codes - {"position-origin", "decode-offset"}:
        return
    first = min(int(one.call.part.positions.min()) for one in wrong)
    if max(int(one.call.part.positions.max()) for one in right) >= first:
        return
    for one in wrong:
        found = one.run.report.findings
        for wrongly in [f for f in found if f.severity != NOTE]:
            found.remove(wrongly)
            text = f"from position {first} on, and not before: {wrongly.message}"
            one.run.add("decode-offset", text, wrongly.evidence)


def _wrong(one: Entry) -> bool:
    return bool(one.run.report.codes)
