"""Diagnose what causes leave that were found in single calls of a surface.

A wrong layout, base or factor shows in every single call, and gives a rotation. If sequences of
calls, offsets, or queries and keys are not those of this rotation, the function makes another
mistake as well, which is sought against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from posenc_ref import Rotary
from posenc_ref.conformance.diagnosis.combine import IN_PART
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.scored import failed
from posenc_ref.conformance.harness.report import ERROR
from posenc_ref.conformance.harness.run import PREDICTS, Run
from posenc_ref.conformance.rotary.several.rest import against, combine, in_part

#: Reports the mistake that calls show which are judged against the rotation that was found.
Name = Callable[[Run, list[JudgedCall]], object]


def diagnose(
    run: Run,
    calls: Sequence[JudgedCall],
    name: Name,
    found: Callable[[Any], Rotary] | None = None,
) -> None:
    """Report the mistake that is left if calls are not those of the rotation that was found.

    If none is found that, with the causes, predicts all calls, these say that they explain a part.
    ``found`` returns the rotation of each call; by default it is that of the last diagnosis.
    """
    one, run.ledger.found = run.ledger.found, None
    first = [f for f in run.report.findings if f.severity == ERROR]
    if not first or (one is None and found is None):
        return
    second = against(run, one if found is None else run.encoding)
    moved = rebased(calls, found or (lambda facts: one))
    if not failed(second, moved):
        return
    name(second, moved)
    left = second.report.findings
    if left and all(f.values or PREDICTS in f.evidence for f in left):
        whole = [replace(f, message=f.message.removeprefix(IN_PART)) for f in first]
        kept = [f for f in run.report.findings if f not in first]
        run.report.findings[:] = [*kept, *whole]
        combine(run, whole, left)
    else:
        in_part(run, first, moved)


def rebased(calls: Sequence[JudgedCall], found: Callable[[Any], Rotary]) -> list[JudgedCall]:
    """Return the calls with other rotations as their references."""
    every: dict[int, list[Any]] = {}
    moved = []
    for one in calls:
        facts = replace(one.facts, encoding=found(one.facts))
        if together := getattr(one.facts, "every", None):  # calls that see each other
            if id(together) not in every:
                new: list[Any] = []
                new += [replace(f, encoding=found(f), every=new) for f in together]
                every[id(together)] = new
            facts = every[id(together)][one.facts.index]
        moved.append(replace(one, facts=facts, truth=facts.truth()))
    return moved
