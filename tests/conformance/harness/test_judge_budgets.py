"""Every judge draws its line at the budget: 0.7 of it passes, 1.5 does not, in one element alone.

The element is moved where the outputs meet the truth, so that only what a judge does with scores,
masks and failures is tested here; that its truths and units are right is for other tests.
"""

import numpy as np
import pytest

import posenc_ref
from posenc_ref.conformance import check
from posenc_ref.conformance.check import SURFACES
from posenc_ref.conformance.functions.judge import ROWS
from posenc_ref.conformance.harness.run import Run
from tests.conformance.harness.test_nothing_judged import ONE_EACH
from tests.mutants import CORRECT
from tests.night import by_day

#: One that is right tensor by tensor: what logits forgive, their judge forgives too.
CASES = {**ONE_EACH, "apply_qk": next(case for case in CORRECT if case.name == "qk-one-table")}
#: Surfaces of whole numbers, truth values and copies: they are equal, or they are wrong.
EXACT = {"bucket", "permute_weights", "relative_shift", "rows"}
EXACT |= {name for name, row in ROWS.items() if row.integers}


#: Whose calls are many.
DEAR = {"bias", "decode", "key_cache"}


def moved(monkeypatch, surface, budgets):
    """The report on a correct implementation with one judged element moved, and how often."""
    judge, places = Run.judge, []

    def off(self, name, case, actual, truth, mask=None, at=None):
        if not places and actual.shape == truth.value.shape:
            unit = self.unit(truth)
            unit = np.broadcast_to(unit, actual.shape) * (1.0 if mask is None else mask)
            if unit.any() if surface not in EXACT else unit.size:
                place = np.unravel_index(int(np.argmax(unit)), unit.shape)
                places.append(place)
                step = budgets * self.budget * unit[place] if surface not in EXACT else budgets
                actual = np.array(actual, dtype=np.float64)
                actual[place] = truth.value[place] + step
        return judge(self, name, case, actual, truth, mask, at)

    monkeypatch.setattr(Run, "judge", off)
    case = CASES[surface]
    encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
    report = check(case.make(), encoding, surface, factory=case.make, **case.kwargs)
    assert len(places) == 1
    return report


@pytest.mark.parametrize("surface", by_day(SURFACES, [*{*SURFACES} - DEAR]))
def test_one_element_past_the_budget_is_rejected(surface, monkeypatch):
    report = moved(monkeypatch, surface, 1.5 if surface not in EXACT else 1)
    assert report.verdict == "deviates", report
    assert report.codes


@pytest.mark.nightly
@pytest.mark.parametrize("surface", [name for name in SURFACES if name not in EXACT])
def test_one_element_inside_the_budget_is_accepted(surface, monkeypatch):
    report = moved(monkeypatch, surface, 0.7)
    assert report.verdict == "conforms", report
    assert report.accuracy.worst > report.accuracy.budget / 2
