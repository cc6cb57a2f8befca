"""Judge ``apply_qk``: queries and keys in one call, each with their own positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from posenc_ref import Rotary, XPos
from posenc_ref.conformance.diagnosis.drive import Probe, drive
from posenc_ref.conformance.diagnosis.match import failed, likely, match
from posenc_ref.conformance.diagnosis.mistake import JudgedCall, Mistake
from posenc_ref.conformance.diagnosis.same_logits import BothSides, excuse, excused
from posenc_ref.conformance.diagnosis.together import match_together
from posenc_ref.conformance.harness import state
from posenc_ref.conformance.harness.driver import Malformed
from posenc_ref.conformance.harness.report import ERROR, Finding
from posenc_ref.conformance.harness.run import Run
from posenc_ref.conformance.rotary.as_apply import judge_as_apply

from . import rest
from .cases_qk import cases, one_head
from .crossed_qk import crossed
from .qk_mistakes import counted_queries, qk_mistakes, side_mistakes
from .xpos_formula import xpos_steps
from .xpos_mistakes import xpos_mistakes, xpos_together

#: Codes of findings about tensors that may leave the logits as declared.
MAYBE_HARMLESS = ("output-layout", "position-origin", "amplitude", "attention-factor")


def judge(run: Run) -> None:
    """Judge ``fn(q, k, q_positions, k_positions) -> (q', k')``.

    If no known mistake is found, judge the queries and the keys as ``apply``.
    """
    run.report.required = ("required inputs", "pairs", "state")
    stale: list[str] = []
    ask = partial(_asked, run, stale)
    sides = drive(run, cases(run), ask)
    if sides is None:
        return
    sides += crossed(run, ask)
    logits = [
        BothSides(q.case.removeprefix("queries, "), q.actual, k.actual, q.truth, k.truth)
        for q, k in zip(sides[::2], sides[1::2], strict=True)
    ]
    if run.failures or stale:
        state.kept_table(run, partial(_fits, run))
    if stale:
        text = "the result of a call after others has another shape than on a fresh instance"
        run.add("state", text, stale[0], by=None)
    if "state" not in run.report.codes:
        _diagnose(run, sides, logits)
    for again, one in zip(_called(run, next(cases(run))), sides[:2], strict=True):
        state.same_again(run, again.actual, one.actual, one.case)
    excuse(run, logits, MAYBE_HARMLESS)


def _diagnose(run: Run, sides: list[JudgedCall], logits: list[BothSides]) -> None:
    """Report the mistakes that explain the results."""
    if isinstance(run.encoding, XPos):
        _xpos(run, sides, logits)
        return
    if match(run, sides, counted_queries(), parts=False, whole=True) and run.report.codes:
        return
    both = len({one.facts.keys for one in failed(run, sides)}) > 1
    sided = () if both else likely(run, sides, side_mistakes(run.encoding))
    if not (match(run, sides, chain(qk_mistakes(run.encoding), sided)) and run.report.codes):
        _each_side(run, sides)


def _xpos(run: Run, seen: list[JudgedCall], logits: list[BothSides]) -> None:
    """Diagnose xPos, which maps queries and keys differently.

    If only the centre of the decay differs, the logits agree, and a note is reported.
    """
    if run.failures and not excused(run, logits, "the decay has another centre"):
        encoding = run.encoding

        def known() -> Iterator[Mistake]:
            steps = likely(run, seen, xpos_steps(seen[0].facts))
            return chain(qk_mistakes(encoding), xpos_mistakes(encoding), steps)

        if match(run, seen, known(), whole=True) and run.report.codes:
            return
        if not match_together(run, seen, xpos_together(run, seen, encoding)):
            match(run, seen, known(), parts=False)


def _asked(run: Run, stale: list[str], probe: Probe) -> list[JudgedCall]:
    """Make a call; list those that have the right shape on a fresh instance only as ``stale``."""
    try:
        return _called(run, probe)
    except Malformed:
        if run.driver.factory is None or not run.driver.calls:
            raise
        _called(replace(run, driver=run.driver.fresh()), probe)
        stale.append(probe.words or probe.case)
        return []


def _called(run: Run, probe: Probe) -> list[JudgedCall]:
    driver = run.driver
    sent, at = zip(*(driver.arguments(s.x, s.positions) for s in probe.facts), strict=True)
    result, found = driver.call(*sent, *at), []
    for what, given, side, part in zip(
        ("queries", "keys"), sent, probe.facts, pair(result), strict=True
    ):
        y = driver.array(part)
        if y.shape != given.shape:
            raise Malformed(f"{what}: expected shape {given.shape}, as passed, got {y.shape}")
        y = driver.restored(y, side.x.shape)
        found.append(JudgedCall(f"{what}, {probe.case}", y, side.truth(), side))
    run.reached(probe.facts[0].length - 1)
    return found


def _fits(run: Run, positions: np.ndarray) -> bool:
    """Return whether one head of queries and keys at these positions is rotated right."""
    probe = one_head(run, positions)
    return all(run.fits(one.actual, one.truth) for one in _called(run, probe))


def pair(result: Any) -> tuple[Any, Any]:
    """Return the two results; raise Malformed unless there are two."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise Malformed(f"expected (q, k), got {type(result).__name__}")
    return result[0], result[1]


def _each_side(run: Run, sides: list[JudgedCall]) -> None:
    """Judge the rotated queries as ``apply``, and the rotated keys if the two ever differ.

    Every call passes the same x and the same positions as queries and as keys.
    """
    driver, differ = run.driver, [0]

    def both(x: Any, positions: Any) -> tuple[Any, Any]:
        host = driver.backend.asnumpy(x)
        again = driver.backend.asarray(host, str(driver.dtype), driver.device)
        q, k = pair(driver.fn(x, again, positions, positions))
        one, two = (driver.backend.asnumpy(t) for t in (q, k))
        differ[0] += not np.array_equal(one, two, equal_nan=True)
        return q, k

    recipe = "lambda x, p: fn(x, x, p, p)[{}]"
    judge_as_apply(run, lambda x, p: both(x, p)[0], run.encoding, recipe.format(0))
    queries, run.ledger.found = run.ledger.found, None
    keys = queries
    if differ[0]:
        queried, failures = list(run.report.findings), list(run.failures)
        run.report.findings.clear()
        run.failures.clear()  # or else the keys were blamed for the queries
        judge_as_apply(run, lambda x, p: both(x, p)[1], run.encoding, recipe.format(1))
        keys, run.ledger.found = run.ledger.found, None
        named = keys is None and any(f.severity == ERROR for f in run.report.findings)
        run.report.findings[:] = _joined(queried, run.report.findings)
        run.failures[:0] = failures
        if named:
            return
    if queries is not None or keys is not None:
        ways = dict.fromkeys([(queries, keys), (queries, queries)])
        rest.diagnose(run, sides, _name_left, _best(run, sides, list(ways)))


def _joined(queries: list[Finding], keys: list[Finding]) -> list[Finding]:
    """Return the findings of queries, and those of keys that say something else."""
    found = list(queries)
    for one in keys:
        same = next((f for f in found if f.code == one.code), None)
        if same is None:
            found.append(replace(one, message=f"keys: {one.message}"))
        elif one.severity == ERROR and same.message != one.message:
            message, remedy = f"{same.message}; keys: {one.message}", f"{same.remedy} {one.remedy}"
            found[found.index(same)] = replace(same, message=message, remedy=remedy.strip())
    return found


def _best(
    run: Run, sides: list[JudgedCall], ways: list[tuple[Rotary | None, Rotary | None]]
) -> Callable[[Any], Rotary]:
    """Return the rotations of queries and of keys that most sides have; None: the declared one."""

    def rotations(queries: Rotary | None, keys: Rotary | None) -> Callable[[Any], Rotary]:
        return lambda side: (keys if side.keys else queries) or run.encoding

    of = [rotations(*way) for way in ways]
    return min(of, key=lambda one: len(failed(run, rest.rebased(sides, one))))


def _name_left(run: Run, sides: list[JudgedCall]) -> object:
    """Report the mistake that sides show which are judged against rotations that were found."""
    sided = likely(run, sides, side_mistakes(run.encoding))
    return match(run, sides, chain(qk_mistakes(run.encoding), sided), whole=True)
