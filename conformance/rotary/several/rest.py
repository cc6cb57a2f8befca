"""Diagnose what the causes found so far leave: they are substituted, and the rest is diagnosed.

A wrong layout, base, sign, factor or origin changes every token alike. With these, the function is
another rotation. If further calls are not those of this rotation, the function makes another
mistake as well, such as wrong positions, which is sought against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from posenc_ref import Rotary
from posenc_ref.accuracy import FACTOR_SLACK
from posenc_ref.conformance.diagnosis.combine import IN_PART
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.scored import failed, scores
from posenc_ref.conformance.harness.ledger import Ledger
from posenc_ref.conformance.harness.located.locate import locate
from posenc_ref.conformance.harness.located.record import Record, recorded
from posenc_ref.conformance.harness.report import ERROR, Finding
from posenc_ref.conformance.harness.run import PREDICTS, Run
from posenc_ref.conformance.oracle.found import Found, FoundMap, FoundRounded
from posenc_ref.conformance.phases.declaration import Declaration
from posenc_ref.conformance.phases.half_precision import TABLE
from posenc_ref.conformance.phases.measure import Measured, Tables
from posenc_ref.conformance.phases.rounding_model import fitted_frequencies
from posenc_ref.conformance.rotary import turned

#: The name of the value that holds the other mistakes of an explanation.
TOGETHER = "together with"
#: Codes of causes that a rotation of other pairs, frequencies, size or origin has.
SUBSTITUTED = frozenset({
    "layout", "output-layout", "rotary-dim", "proportional", "sign", "base",
    "exponent", "denominator", "frequency-spacing", "position-scale", "scaling-missing",
    "scaling-parameter", "scaling-formula", "amplitude", "attention-factor", "position-origin",
    "axis-order", "sections",
})  # fmt: skip
#: More such codes, by the kind of the rotation.
_OF_FOUND: dict[type, frozenset[str]] = {
    FoundMap: frozenset({"not-a-rotation"}),
    FoundRounded: frozenset({"angle-precision", "position-precision"}),
}
#: All codes of causes that a rotation has.
ROTATIONS = SUBSTITUTED.union(*_OF_FOUND.values())
#: Calls that show whether there is another mistake.
SOME = (0, 2, 7, 9, 12, 21)
#: A call of many tokens, and the largest share of values that other roundings make wrong.
_LONG, _EITHER_WAY = 16, 0.02
#: An origin as near as this to an integer is one.
_WHOLE = 1e-4
#: Positions at which frequencies that follow no rule are measured to more digits.
_FARTHER = 2 ** np.arange(5, 13)


def substituted(
    run: Run, measured: Measured, tables: Tables, declared: Declaration, seen: Declaration
) -> Found:
    """Return the rotation that a function is by the causes found; ``seen`` are its numbers."""
    w, origin, size = seen.frequencies, seen.origin, seen.amplitude
    if abs(origin - round(origin)) <= _WHOLE:
        origin = float(round(origin))
    if abs(size - declared.amplitude) <= FACTOR_SLACK * declared.amplitude:
        size = declared.amplitude
    if any(f.code == "frequency-spacing" for f in run.report.findings):
        at = _FARTHER[run.ledger.highest >= _FARTHER]
        cos, sin = tables(at)
        angle = np.arctan2(seen.sign * sin / size, cos / size)
        w = fitted_frequencies(at + origin, angle, w)
    channels = tuple((p.a, p.b, p.out_a, p.out_b) for p in measured.pairs)
    parts = run.encoding.head_dim, channels, tuple((seen.sign * w).tolist()), size, origin
    return Found(*parts) if seen.angles is None else FoundRounded(*parts, seen.angles)


def can_be_sought(run: Run, encoding: Rotary) -> bool:
    """Return whether calls can be made again that show what the causes leave."""
    plain = encoding.num_axes == 1 and not encoding.depends_on_length
    return plain and not run.settings.reduced


def diagnose(run: Run, found: Rotary) -> None:
    """Report the mistake that is left if the function is not ``found`` in all calls.

    If there is none that, with those found so far, predicts all calls, these say that they explain
    a part.
    """
    errors = [f for f in run.report.findings if f.severity == ERROR]
    known = SUBSTITUTED | _OF_FOUND.get(type(found), frozenset())
    if not errors or any(f.code not in known and TABLE not in f.values for f in errors):
        return
    second = against(run, found)
    if tables := next((f.values[TABLE] for f in errors if TABLE in f.values), ""):
        second = replace(second, settings=replace(run.settings, precision=tables))
    some = tuple(turned.CALLS[i] for i in SOME)
    if isinstance(found, FoundRounded):  # the measured positions are small
        some = (*some, turned.CALLS[_LONG], *turned.FAR)
    calls = list(turned.calls_of(second, found, some))
    wrong = failed(second, calls)
    if isinstance(found, FoundRounded):  # a product between two roundings may be rounded either way
        wrong = [one for one in wrong if share_wrong(second, one) > _EITHER_WAY]
    if not wrong:
        run.ledger.found = None if tables else found
        return
    if named(second, found):
        combine(run, errors, second.report.findings)
        return
    run.ledger.found = None if tables else found
    in_part(run, errors, calls)


def share_wrong(run: Run, one: JudgedCall) -> float:
    """Return the share of the values of a call that are wrong."""
    return float((scores(run, one, one.truth) > run.budget).mean())


def in_part(run: Run, errors: list[Finding], calls: Sequence[JudgedCall]) -> None:
    """Say of findings that they explain a part of the results, and which calls they leave wrong.

    The references of the calls are those of the rotation that the findings give.
    """
    wrong = failed(run, calls)
    left = f"; with this, {len(wrong)} of {len(calls)} calls are wrong, {wrong[0].case} first"
    records = [_recorded(run, one) for one in calls]
    place = locate([record for record in records if record is not None])
    if place is not None and place.rules:
        left += f"; {place.text}"
    findings = run.report.findings
    for one in errors:
        text = IN_PART + one.message.removeprefix(IN_PART)
        evidence = one.evidence.split("; with this, ")[0] + left
        findings[findings.index(one)] = replace(one, message=text, evidence=evidence)


def _recorded(run: Run, one: JudgedCall) -> Record | None:
    """Return which elements of a call are wrong."""
    off = np.asarray(scores(run, one, one.truth) > run.budget)
    return recorded(one.case, run.surface.axes, off, one.mask, None, None)


def against(run: Run, found: Rotary) -> Run:
    """Return a run that judges the function against another rotation, with a report of its own."""
    report = replace(run.report, findings=[], limits=[], executed={}, controls={})
    ledger = Ledger(report, highest=run.ledger.highest, evidence=run.ledger.evidence)
    return replace(run, encoding=found, ledger=ledger)


def named(run: Run, found: Rotary) -> bool:
    """Return whether one rule or mistake predicts all calls, and is reported."""
    if not turned.diagnose(run, found):
        return False
    return all(f.values or PREDICTS in f.evidence for f in run.report.findings)


def combine(run: Run, first: list[Finding], second: list[Finding]) -> None:
    """Report mistakes that predict all calls together; each names the others in its values."""
    findings = run.report.findings
    findings[:] = [f for f in findings if f not in first]
    for one in (*first, *second):
        others = [f.message for f in (*first, *second) if f is not one]
        run.ledger.explained.setdefault(one.code, set()).update(f.check for f in run.failures)
        findings.append(replace(one, values={**one.values, TOGETHER: others}))
