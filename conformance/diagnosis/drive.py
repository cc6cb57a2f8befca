"""Make the calls of a surface, short ones first, and judge their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.crossing import Crossing, Row, cross
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run

from .match import judge_call
from .mistake import JudgedCall


@dataclass(frozen=True)
class Probe:
    """One call to make and judge."""

    check: str
    case: str
    facts: Any  #: the inputs of the call; the reference and mistakes are computed from them
    required: bool = True  #: whether a refusal is an error
    words: str = ""  #: describes the call in the report; empty: the case


def drive(
    run: Run, probes: Iterable[Probe], ask: Callable[[Probe], Sequence[JudgedCall]]
) -> list[JudgedCall] | None:
    """Judge the calls that ``ask`` returns for each probe, and return all of them.

    A refused required call is an error; the function then returns None at once. A refused
    optional call is a limit in the report. A result of another shape is always an error.
    """
    calls: list[JudgedCall] = []
    for probe in probes:
        words = probe.words or probe.case
        try:
            found = ask(probe)
        except Refused as error:
            if probe.required:
                run.add("raises", words, str(error))
                return None
            run.limit(f"{words}: refused ({error})")
            continue
        except Malformed as error:
            run.add(error.code, str(error), words)
            if probe.required:
                return None
            continue
        if not run.floats_only():
            return None
        calls += [judge_call(run, probe.check, one) for one in found]
    return calls


def reached(
    run: Run,
    far: Sequence[int],
    probe: Callable[[int], Probe],
    ask: Callable[[Probe], Sequence[JudgedCall]],
) -> tuple[int, ...]:
    """Return the far levels up to the last one at which the function accepts a call.

    A crossing without the refused ones meets all pairs of the others. ``probe`` returns the call
    of a level that goes farthest.
    """
    accepted, refused = 0, ""
    for n in range(len(far), 0, -1):
        one = probe(far[n - 1])
        try:
            ask(one)
        except (Refused, Malformed) as error:
            refused = f"{one.words or one.case}: refused ({error})"
        else:
            accepted = n
            break
    if refused:
        run.limit(refused)
    return tuple(far[:accepted])


def drive_crossed(
    run: Run,
    crossing: Crossing,
    probe: Callable[[Row], Probe | None],
    ask: Callable[[Probe], Sequence[JudgedCall]],
) -> list[JudgedCall]:
    """Judge the calls of a crossing, and return all of them.

    ``probe`` returns the call of a row, or None if the encoding has no such call.
    """

    def judged(row: Row) -> list[JudgedCall] | None:
        one = probe(row)
        calls = ask(one) if one is not None else ()
        if one is None or not run.floats_only():
            return None
        return [judge_call(run, one.check, call) for call in calls]

    def said(row: Row) -> str:
        one = probe(row)
        return "" if one is None else one.words or one.case

    if run.driver.backend_name == "jax" and not run.settings.reduced:
        crossing = replace(crossing, levels={n: _fewer(v) for n, v in crossing.levels.items()})
        run.limit("JAX compiles every operation for each shape: fewer sizes are crossed")
    return [call for found in cross(run, crossing, judged, said) for call in found]


def _fewer(levels: Sequence[Any]) -> Sequence[Any]:
    """Return the first, the last and, of more than three levels, the middle one; every word."""
    if isinstance(levels[0], str):
        return levels
    middle = levels[len(levels) // 2 : len(levels) // 2 + 1] if len(levels) > 3 else ()
    return (levels[0], *middle, *levels[1:][-1:])


def one_result(
    call: Callable[[Any], np.ndarray],
    truth: Callable[[Any], Truth] = lambda facts: facts.truth(),
) -> Callable[[Probe], Sequence[JudgedCall]]:
    """Return an ``ask`` for :func:`drive` that makes one call for each probe.

    ``call`` and ``truth`` return the actual result and the reference for the facts of a probe.
    """
    return lambda probe: [
        JudgedCall(probe.case, call(probe.facts), truth(probe.facts), probe.facts)
    ]
