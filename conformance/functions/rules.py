"""Find the rule behind wrong integers that a plain function returns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc_ref.conformance.diagnosis.conditions import Variables
from posenc_ref.conformance.diagnosis.match import failed
from posenc_ref.conformance.diagnosis.mistake import JudgedCall
from posenc_ref.conformance.diagnosis.rule import DECLARED, Rule, find_rule
from posenc_ref.conformance.diagnosis.scored import fits
from posenc_ref.conformance.harness.plural import plural
from posenc_ref.conformance.harness.run import Run

from .function import Plain

#: Rules are sought in calls of at most this many numbers, and checked in all.
_MOST = 600
#: The most different numbers from which a rule is drawn.
_DRAWN = 2000
#: A rule that is not proved has at least this many different wrong numbers.
_FEWEST = 2


def name_rule(run: Run, row: Plain, calls: Sequence[JudgedCall]) -> bool:
    """Report the rule that gives the results of all calls; return whether there is one.

    The rule is found from all calls but the last wrong one, which it must then predict.
    """
    if not row.integers:
        return False
    wrong = failed(run, calls)
    small = [one for one in calls if one.actual.size <= _MOST]
    if not any(one is w for one in small for w in wrong):
        small = list(calls)
    held = wrong[-1] if len(wrong) > 2 else None
    rule = _rule(row, [one for one in small if one is not held])
    proved = held is not None and rule is not None and _follows(run, row, held, rule)
    if not proved:
        rule = _rule(row, small)
    if rule is None or not all(_follows(run, row, one, rule) for one in calls):
        return False
    if not proved and len({pair for one in wrong for pair in _pairs(one)}) < _FEWEST:
        return False
    one = wrong[0]
    at = tuple(int(i) for i in np.argwhere(_judged(one) & (one.actual != one.truth.value))[0])
    words = rule.words.replace(DECLARED, "the declared value")
    text = f"the result is {words}"
    if not proved:
        text = f"every call is consistent with: {text}"
    count = plural(len(wrong), "wrong result", "wrong results")
    where = f"{one.case}: {one.actual[at]:.9g} at index {at}, declared {one.truth.value[at]:.9g}"
    remedy = rule.remedy.replace(DECLARED, "the declared value")
    where = f"{where}; the rule predicts {count}"
    run.add(row.otherwise, text, where, remedy=remedy, values={"measured": words})
    return True


def _judged(one: JudgedCall) -> np.ndarray:
    return np.broadcast_to(True if one.mask is None else one.mask, one.actual.shape)


def _pairs(one: JudgedCall) -> set[tuple[float, float]]:
    """Return the different pairs of a wrong number and the declared one."""
    off = _judged(one) & (one.actual != one.truth.value)
    return set(zip(one.actual[off].tolist(), one.truth.value[off].tolist(), strict=True))


def _variables(row: Plain, one: JudgedCall) -> Variables:
    """Return the variables of a call; every axis of the result has its index."""
    shape = one.actual.shape
    found = {DECLARED: np.rint(one.truth.value).astype(np.int64)}
    if row.variables is not None:
        found |= row.variables(one.facts.arguments)
    else:
        names = ("row", "column", "place")
        found |= {
            f"the {name}": index for name, index in zip(names, np.indices(shape), strict=False)
        }
    return {name: np.broadcast_to(v, shape) for name, v in found.items()}


def _rule(row: Plain, calls: Sequence[JudgedCall]) -> Rule | None:
    whole = [one for one in calls if np.array_equal(one.actual, np.rint(one.actual))]
    if len(whole) < len(calls):
        return None
    each = [(_judged(one), one.actual, _variables(row, one)) for one in calls]
    if len({v.keys() == each[0][2].keys() for _, _, v in each}) > 1:
        return None
    used = np.concatenate([a[m] for m, a, _ in each]).astype(np.int64)
    names = each[0][2].keys()
    flat = {n: np.concatenate([v[n][m] for m, _, v in each]).astype(np.int64) for n in names}
    once = np.unique(np.stack([used, *flat.values()]), axis=1)
    once = once[:, :: -(-once.shape[1] // _DRAWN)]
    return find_rule(once[0], dict(zip(flat, once[1:], strict=True)), DECLARED)


def _follows(run: Run, row: Plain, one: JudgedCall, rule: Rule) -> bool:
    predicted = one.facts.truth(rule.of(_variables(row, one)))
    return fits(run, one, predicted)
