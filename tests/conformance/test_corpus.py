"""``check`` rejects and names every wrong implementation, and accepts every correct one.

A pull request judges the cases that tests/mutants/selection.py chooses, .ci/nightly all of them.
The tests of a session share one report of each case, in whichever process it was made.
"""

import json
import os

import pytest

import posenc_ref
from posenc_ref.conformance import CODES, check
from tests.mutants import CORRECT, WRONG
from tests.mutants.selection import read, select, selected

#: Codes that no case of the corpus yields, and why they stay.
WITHOUT_A_CASE = {
    "inaccurate": "means that no named cause fits, and the cause of every case here is known "
    "(test_state.py has functions that end in it)",
}
#: The least share of wrong cases whose first code is the best one, not only an acceptable one.
RIGHT_FIRST = 0.95


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    """Return a function that judges a case, or reads the report that this session has of it."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    folder = folder / "corpus"
    folder.mkdir(exist_ok=True)

    def outcome(case):
        path = folder / f"{case.name}.json"
        if not path.exists():
            encoding = None if case.encoding is None else posenc_ref.from_dict(case.encoding)
            report = check(
                case.make(),
                encoding,
                case.surface,
                name=case.name,
                factory=case.make,
                **case.kwargs,
            )
            notes = [f.code for f in report.findings if f.code not in report.codes]
            found = {"verdict": report.verdict, "codes": report.codes, "text": str(report)}
            checks = [*report.executed, *report.required]
            found |= {"notes": notes, "failed": report.failed, "checks": checks}
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(found), encoding="utf-8")
            part.replace(path)
        return json.loads(path.read_text(encoding="utf-8"))

    return outcome


def test_names_are_unique():
    names = [case.name for case in WRONG + CORRECT]
    assert len(names) == len(set(names))


@pytest.mark.day
@pytest.mark.parametrize("case", selected(WRONG))
def test_wrong(case, judged):
    found = judged(case)
    assert found["verdict"] == "deviates", found["text"]
    assert found["codes"][0] in case.expected, found["text"]
    assert {code for codes in found["failed"].values() for code in codes} == {*found["codes"]}
    assert set(found["failed"]) <= {*found["checks"], "calls"}


@pytest.mark.day
@pytest.mark.parametrize("case", selected(CORRECT))
def test_correct(case, judged):
    found = judged(case)
    assert found["verdict"] == "conforms", found["text"]
    assert found["codes"] == []
    assert found["failed"] == {}


@pytest.mark.nightly
@pytest.mark.parametrize("held_out", [False, True], ids=["two thirds", "held out once"])
def test_the_best_code_comes_first(judged, held_out):
    cases = [case for case in WRONG if case.held_out == held_out]
    others = {
        case.name: judged(case)["codes"][:1]
        for case in cases
        if judged(case)["codes"][:1] != [case.expected[0]]
    }
    share = 1 - len(others) / len(cases)
    print(f"best code first: {share:.1%} of {len(cases)}")
    assert share >= RIGHT_FIRST, others


@pytest.mark.nightly
def test_every_code_has_a_case(judged):
    names = select(read())
    cases = [case for case in WRONG + CORRECT if case.name in names]
    yielded = {code for case in cases for key in ("codes", "notes") for code in judged(case)[key]}
    assert yielded == CODES.keys() - WITHOUT_A_CASE.keys()
