"""Judge of ``apply_qk``: queries and keys in one call, each at positions of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from posenc_ref import XPos
from posenc_ref.conformance.diagnosis.match import judge_call, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.same_logits import BothSides, excuse, excused
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.rotary.as_apply import judge_as_apply

from .cases_qk import PairCall, cases
from .qk_mistakes import qk_mistakes
from .xpos_mistakes import xpos_mistakes

#: Tensors that differ in these ways only may still have the declared logits.
MAYBE_HARMLESS = ("output-layout", "position-origin", "amplitude", "attention-factor")


@dataclass(frozen=True)
class Called:
    """One call: the results of both sides."""

    case: PairCall
    query: JudgedCall
    key: JudgedCall

    def logits(self) -> BothSides:
        """For the comparison of logits."""
        q, k = self.query, self.key
        return BothSides(self.case.name, q.actual, k.actual, q.truth, k.truth)


def judge(run: Run) -> None:
    """``fn(q, k, q_positions, k_positions) -> (q', k')``; then each side as ``apply``."""
    run.report.required = ("required inputs", "pairs", "state")
    run.subject.names = ("q", "k", "q_positions", "k_positions")
    called: list[Called] = []
    for case in cases(run):
        try:
            one = _call(run, case)
        except (Refused, Malformed) as error:
            if isinstance(error, Refused) and not case.required:
                run.limit(f"{case.name}: refused ({error})")
                continue
            code = "raises" if isinstance(error, Refused) else "shape"
            run.add(code, f"q of shape {case.query.x.shape}, {case.name}: {error}", str(error))
            return
        if not run.floats_only():
            return
        for side in (one.query, one.key):
            judge_call(run, "required inputs" if case.required else "pairs", side)
        called.append(one)
    seen = [side for one in called for side in (one.query, one.key)]
    logits = [one.logits() for one in called]
    if isinstance(run.encoding, XPos):
        _xpos(run, seen, logits)
    elif not (match(run, seen, qk_mistakes(run.encoding)) and run.report.codes):
        _sides(run)
    _replay(run, called[0])
    excuse(run, logits, MAYBE_HARMLESS)


def _xpos(run: Run, seen: list[JudgedCall], logits: list[BothSides]) -> None:
    """xPos is no ``apply``.  Where the decay is counted from does not show in logits."""
    if run.failures and not excused(run, logits, "the decay is counted from another position"):
        match(run, seen, [*qk_mistakes(run.encoding), *xpos_mistakes(run.encoding)])


def _call(run: Run, case: PairCall) -> Called:
    subject = run.subject
    q, q_at = subject.arguments(case.query.x, case.query.positions)
    k, k_at = subject.arguments(case.key.x, case.key.positions)
    result = subject.call(q, k, q_at, k_at)
    found = []
    for what, given, side, part in zip(
        ("queries", "keys"), (q, k), (case.query, case.key), pair(result), strict=True
    ):
        y = subject.array(part)
        if y.shape != given.shape:
            raise Malformed(f"{what}: expected shape {given.shape}, as went in, got {y.shape}")
        y = subject.restored(y, side.x.shape)
        found.append(JudgedCall(f"{what}, {case.name}", y, side.truth(), side))
    highest = max(int(case.query.positions.max()), int(case.key.positions.max()))
    run.reached(highest)
    return Called(case, *found)


def pair(result: Any) -> tuple[Any, Any]:
    """The two results."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Malformed(f"expected (q, k), got {type(result).__name__}")
    return result[0], result[1]


def _sides(run: Run) -> None:
    """Queries as ``apply``, with the same x as keys; keys as well, where they come out other."""
    subject, differ = run.subject, [0]

    def both(x: Any, positions: Any) -> tuple[Any, Any]:
        host = subject.backend.asnumpy(x)
        again = subject.backend.asarray(host, str(subject.dtype), subject.device)
        q, k = pair(subject.fn(x, again, positions, positions))
        one, two = (subject.backend.asnumpy(t) for t in (q, k))
        differ[0] += not np.array_equal(one, two, equal_nan=True)
        return q, k

    recipe = "lambda x, p: fn(x, x, p, p)[{}]"
    judge_as_apply(run, lambda x, p: both(x, p)[0], run.encoding, recipe.format(0))
    if not differ[0]:
        return
    before = len(run.report.findings)
    judge_as_apply(run, lambda x, p: both(x, p)[1], run.encoding, recipe.format(1))
    found = run.report.findings
    found[before:] = [replace(f, message=f"keys: {f.message}") for f in found[before:]]


def _replay(run: Run, first: Called) -> None:
    """The first call once more, bit for bit."""
    again = _call(run, first.case)
    run.count("state")
    for one, two in ((first.query, again.query), (first.key, again.key)):
        if not np.array_equal(one.actual, two.actual, equal_nan=True):
            worst = float(np.abs(one.actual - two.actual).max())
            run.add(
                "state",
                "the same call gives other values after other calls",
                f"{one.case}, replayed: largest difference {worst:.3g}",
            )
