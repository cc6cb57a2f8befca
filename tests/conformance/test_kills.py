"""The kill matrix: what each check of the judge sees when it is run alone.

docs/generated/kill-matrix.md has the whole matrix; the tests compare its claims with the corpus,
case by case where that is cheap.  test_corpus.py shows that no check alone rejects a correct case:
a failure in a check is an error, and no correct case has one.
"""

import re
import sys
from pathlib import Path

import pytest

from tests.mutants import CORRECT, WRONG
from tests.mutants.kills import Row, alone, row

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/generated/kill-matrix.md").read_text(encoding="utf-8")
WRONG_BY_NAME = {case.name: case for case in WRONG}
#: check: (asked, kills, sole, examples), as the document has them.
CHECKS = {
    check: (int(asked), int(kills), int(sole), re.findall("`(.+?)`", examples))
    for check, asked, kills, sole, examples in re.findall(
        r"^\| (\S.*?) \| (\d+) \| (\d+) \| (\d+) \| (.*) \|$", TEXT, re.M
    )
}
#: Checks that must each be the only one to see something.
SOLE = ("state", "robustness", "property pair norm")


def test_the_document_lists_this_corpus():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import kill_matrix
    finally:
        sys.path.pop(0)
    some = {"values": frozenset({"values"}), "": frozenset()}
    rows = {case.name: Row(some["values"], some["values"]) for case in WRONG}
    rows |= {case.name: Row(some["values"], some[""]) for case in CORRECT}
    page = kill_matrix.document(rows, "2026-01-01")
    assert f"| values | {len(WRONG)} | {len(WRONG)} | {len(WRONG)} |" in page
    listed = [text.split("## Wrong implementations")[1] for text in (TEXT, page)]
    assert listed[0] == listed[1], "run python tools/kill_matrix.py"
    assert f"\n{len(WRONG)} wrong and {len(CORRECT)} correct implementations" in TEXT


def test_every_check_kills_something():
    assert len(CHECKS) >= 20
    assert [check for check, (_, kills, _, _) in CHECKS.items() if not kills] == []


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_alone_kills_its_example(check):
    case = WRONG_BY_NAME[CHECKS[check][3][0]]
    report = alone(case, check)
    assert report.verdict == "deviates", report


@pytest.mark.parametrize("check", SOLE)
def test_a_check_that_nothing_replaces(check):
    _, _, sole, examples = CHECKS[check]
    assert sole >= 1
    found = row(WRONG_BY_NAME[examples[0]])
    assert found.kills == {check}
    assert len(found.executed) > 1
    for other in sorted(found.executed - {check}):
        assert alone(WRONG_BY_NAME[examples[0]], other).verdict != "deviates", other


@pytest.mark.parametrize("name", ["complex-multiplication", "bf16-arithmetic", "dense-with-mask"])
def test_a_correct_case_is_seen_by_many_checks_and_accused_by_none(name):
    found = row(next(case for case in CORRECT if case.name == name))
    assert len(found.executed) > 4
    assert found.kills == set()
