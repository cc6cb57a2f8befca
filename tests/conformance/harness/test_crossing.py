"""Every two levels of different factors meet in a call, and only judged pairs are counted."""

from itertools import combinations
from types import SimpleNamespace

import pytest

from posenc_ref.conformance.harness.crossing import Crossing, cross
from posenc_ref.conformance.harness.driver import Malformed, Refused
from posenc_ref.conformance.harness.pace import Pace

LEVELS = {"B": (1, 2, 5), "S": (1, 3, 8, 129), "form": ("shared", "rows"), "x": ("c", "t", "s")}


def small(row):
    return row.get("B", 1) * row.get("S", 1) <= 300


def met(rows):
    """Return the pairs of levels in some rows, computed without the generator."""
    return {frozenset(pair) for row in rows for pair in combinations(row.items(), 2)}


def wanted(allowed):
    """Return the pairs that may meet, by enumeration."""
    return {
        frozenset(((a, x), (b, y)))
        for a, b in combinations(LEVELS, 2)
        for x in LEVELS[a]
        for y in LEVELS[b]
        if allowed({a: x, b: y})
    }


@pytest.mark.parametrize("seed", range(5))
def test_all_allowed_pairs_meet_in_few_calls(seed):
    rows = list(Crossing(LEVELS, small, seed).rows())
    assert met(rows) >= wanted(small)
    assert all(small(row) for row in rows)
    assert len(rows) < 20  # all combinations are 72


def test_the_same_seed_gives_the_same_calls():
    one, two = (list(Crossing(LEVELS, small, 3).rows()) for _ in range(2))
    assert one == two


def test_only_judged_calls_count():
    crossing = Crossing(LEVELS, small)
    rows = list(crossing.rows())
    assert crossing.covered()["B x form"] == "0 of 6"
    for row in rows[1:]:
        crossing.saw(row)
    pairs = len(met(rows[1:]) & wanted(small))
    assert str(crossing) == (
        f"{pairs} of {len(wanted(small))} pairs of values of B, S, form, x, in {len(rows) - 1} "
        "calls"
    )
    assert pairs < len(wanted(small))


def test_a_refused_form_is_not_tried_again():
    crossing, judged, refused = Crossing(LEVELS, small, 0, ("form",)), [], 0
    for row in crossing.rows():
        if row["form"] == "rows":
            refused += 1
            assert crossing.refused(row)
        else:
            crossing.saw(row)
            judged.append(row)
    assert refused == 1
    assert crossing.covered()["B x S"] == "11 of 11"
    assert crossing.covered()["B x form"] == "3 of 6"
    assert not crossing.refused(judged[0])


def test_the_larger_numbers_go_with_a_refused_number():
    crossing = Crossing({"B": (1, 2), "group": (1, 2, 4)}, optional=("group",))
    assert crossing.refused({"B": 1, "group": 4})
    assert {row["group"] for row in crossing.rows()} <= {1}


class FewRun:
    """As much of a run as the loop over crossed calls needs."""

    def __init__(self):
        self.ledger, self.report = self, self
        self.limits, self.found = [], []
        self.crossings = []
        self.driver = SimpleNamespace(pace=Pace())
        self.limit = self.limits.append

    def add(self, *finding):
        self.found.append(finding)


def test_the_loop_keeps_what_was_judged_and_says_what_was_refused():
    def call(row):
        if row["S"] == 8:
            raise Refused("too long")
        if row["S"] == 129:
            raise Malformed("another shape")
        return None if row["B"] == 5 else row

    run, crossing = FewRun(), Crossing(LEVELS, small)
    seen = cross(run, crossing, call, lambda row: f"S = {row['S']}")
    assert {row["S"] for row in seen} == {1, 3}
    assert {row["B"] for row in seen} == {1, 2}
    assert run.crossings == [crossing]
    assert crossing.calls == len(seen)
    assert run.limits == ["S = 8: refused (str: too long)"]
    assert run.found[0][1:] == ("another shape", "S = 129")


def test_two_crossings_of_the_same_factors_are_counted_together():
    few, more = Crossing({"B": (1, 2), "S": (1, 3)}), Crossing({"B": (1, 2, 5), "S": (3, 8)})
    for crossing in (few, more):
        for row in crossing.rows():
            crossing.saw(row)
    one, of = few.joined(more), few.calls + more.calls
    assert str(one) == f"8 of 9 pairs of values of B, S, in {of} calls"  # B = 5 with S = 1


def test_a_refusal_in_two_crossings_is_one_limit():
    run = FewRun()

    def refuse(row):
        raise Refused(f"shapes of {row}")

    for levels in ({"B": (1,), "S": (3,)}, {"B": (2,), "S": (3,)}):
        cross(run, Crossing(levels), refuse, lambda row: "fewer key heads")
    assert len(run.limits) == 1
