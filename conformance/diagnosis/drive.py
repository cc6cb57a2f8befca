"""Make the calls of a surface and judge them, from short to long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc_ref.accuracy import Truth
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run

from .match import judge_call
from .mistake import JudgedCall


@dataclass(frozen=True)
class Probe:
    """One call; ``facts`` is what makes its arguments, its truth and the results of mistakes."""

    check: str
    case: str
    facts: Any
    required: bool = True  #: other calls may be refused
    words: str = ""  #: what the report says of a refusal, if not the case


def drive(
    run: Run, probes: Iterable[Probe], ask: Callable[[Probe], Sequence[JudgedCall]]
) -> list[JudgedCall] | None:
    """Judge what ``ask`` returns for every probe; None after a required call that fails.

    A refused call is a limit if it is optional; a result of another shape is always a finding.
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
            run.add("shape", str(error), words)
            if probe.required:
                return None
            continue
        if not run.floats_only():
            return None
        calls += [judge_call(run, probe.check, one) for one in found]
    return calls


def one_result(
    call: Callable[[Any], np.ndarray],
    truth: Callable[[Any], Truth] = lambda facts: facts.truth(),
) -> Callable[[Probe], Sequence[JudgedCall]]:
    """Return the ``ask`` of calls with one result, made from the facts of a probe."""
    return lambda probe: [
        JudgedCall(probe.case, call(probe.facts), truth(probe.facts), probe.facts)
    ]
