"""The kill matrix is up to date: it says which check of the judge, run alone, rejects which case.

tools/kill_matrix.py writes it; tests/mutants/selection.py chooses by it.
"""

import pytest

from tests.mutants import CORRECT, WRONG
from tests.mutants.kills import alone, row
from tests.mutants.selection import read, select, sole
from tests.night import by_day
from tests.tool import tool

TOOL = tool("kill_matrix")
MATRIX = read()
CASES = {case.name: case for case in [*WRONG, *CORRECT]}
CHECKS = sorted({check for found in MATRIX.values() for check in found.executed})


def example(check):
    """Return the first wrong case that only this check rejects, or else the first it rejects."""
    rows = [(case, MATRIX[case.name]) for case in WRONG if case.name in MATRIX]
    killed = [case for case, found in rows if check in found.kills]
    return next((case for case in killed if MATRIX[case.name].kills == {check}), killed[0])


#: Cases whose row a pull request computes again.
SHOWN = {example(check).name for check in ("state", "robustness", "property pair norm")}
SHOWN |= {"complex-multiplication", "bf16-arithmetic", "dense-with-mask"}


def test_the_files_are_up_to_date():
    assert list(MATRIX) == list(CASES), "run python tools/kill_matrix.py"
    page = TOOL.DOCUMENT.read_text(encoding="utf-8")
    assert page == TOOL.document(MATRIX), "run python tools/kill_matrix.py"


def test_every_wrong_case_is_rejected_and_every_check_rejects_one():
    killers = [MATRIX[case.name].kills for case in WRONG]
    assert all(killers)
    assert sorted(set().union(*killers)) == CHECKS


def test_a_pull_request_judges_few_cases_that_need_every_check_and_have_every_code():
    chosen = select(MATRIX)
    print(f"{len(chosen)} of {len(CASES)} cases by day")
    assert len(chosen) < len(CASES) / 6
    wrong = [case for case in WRONG if case.name in chosen]
    assert {sole(case, MATRIX) for case in wrong} == {sole(case, MATRIX) for case in WRONG}
    assert "values" in {sole(case, MATRIX) for case in wrong}
    assert sorted(set().union(*(MATRIX[case.name].kills for case in wrong))) == CHECKS
    for cases in (WRONG, CORRECT):
        assert {c.surface for c in cases} == {c.surface for c in cases if c.name in chosen}
    assert {c.expected[0] for c in WRONG} == {c.expected[0] for c in wrong}


#: A property is judged on the numbers of other checks, so the first of the list stands for all.
PROPERTIES = [check for check in CHECKS if check.startswith("property ")]


@pytest.mark.parametrize("check", by_day(CHECKS, {*CHECKS} - {*PROPERTIES[1:]}))
def test_a_check_alone_rejects_its_example(check):
    report = alone(example(check), check)
    assert report.verdict == "deviates", report


@pytest.mark.parametrize("name", by_day(CASES, SHOWN))
def test_a_row_is_that_of_the_file(name):
    case = CASES[name]
    found = row(case)
    assert found == MATRIX[name]
    if not case.expected:
        rejected = [c for c in found.kills if alone(case, c).verdict != "conforms"]
        assert rejected == []


@pytest.mark.nightly
@pytest.mark.parametrize("check", ["state", "robustness", "property pair norm"])
def test_no_other_check_alone_rejects_the_example(check):
    case = example(check)
    assert MATRIX[case.name].kills == {check}
    for other in sorted(MATRIX[case.name].executed - {check}):
        assert alone(case, other).verdict != "deviates", other
