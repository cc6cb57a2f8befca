"""The suite proves that it can fail: every wrong implementation is caught and named, no correct
one is accused.

Each case is judged once; the summaries read what the single tests left behind, in whichever
process these ran.
"""

import json
import os

import pytest

import posenc_ref
from posenc_ref.conformance import CODES, check
from tests.mutants import CORRECT, WRONG

#: Codes that no case of the corpus yields, and why they stay.
WITHOUT_A_CASE = {
    "inaccurate": "means that no named cause fits, and the cause of every case here is known "
    "(test_state.py has functions that end in it)",
}
#: How many first findings must be the best one, not only an acceptable one.
RIGHT_FIRST = 0.95


@pytest.fixture(scope="session")
def judged(tmp_path_factory):
    """A function that judges a case, or reads what this session has already found of it."""
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
            found["notes"] = notes
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(found), encoding="utf-8")
            part.replace(path)
        return json.loads(path.read_text(encoding="utf-8"))

    return outcome


def named(cases):
    return [pytest.param(case, id=case.name) for case in cases]


def test_names_tell_cases_apart():
    names = [case.name for case in WRONG + CORRECT]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", named(WRONG))
def test_wrong(case, judged):
    found = judged(case)
    assert found["verdict"] == "deviates", found["text"]
    assert found["codes"][0] in case.expected, found["text"]


@pytest.mark.parametrize("case", named(CORRECT))
def test_correct(case, judged):
    found = judged(case)
    assert found["verdict"] == "conforms", found["text"]


@pytest.mark.parametrize("held_out", [False, True], ids=["two thirds", "held out once"])
def test_recall_and_naming(judged, held_out, record_property):
    cases = [case for case in WRONG if case.held_out == held_out]
    found = {case.name: judged(case) for case in cases}
    caught = [case for case in cases if found[case.name]["verdict"] == "deviates"]
    named = [case for case in caught if found[case.name]["codes"][0] in case.expected]
    first = [case for case in caught if found[case.name]["codes"][0] == case.expected[0]]
    text = (
        f"{len(caught)} of {len(cases)} caught, {len(named)} with an acceptable code first, "
        f"{len(first)} with the right one"
    )
    print(text)
    record_property("corpus", text)
    assert len(cases) >= 50
    assert len(caught) == len(named) == len(cases), text


@pytest.mark.parametrize("held_out", [False, True], ids=["two thirds", "held out once"])
def test_the_right_code_comes_first(judged, held_out):
    cases = [case for case in WRONG if case.held_out == held_out]
    others = {
        case.name: judged(case)["codes"][:1]
        for case in cases
        if judged(case)["codes"][:1] != [case.expected[0]]
    }
    share = 1 - len(others) / len(cases)
    print(f"right code first: {share:.1%} of {len(cases)}")
    assert share >= RIGHT_FIRST, others


def test_no_correct_implementation_is_accused(judged):
    accused = {case.name: judged(case)["codes"] for case in CORRECT if judged(case)["codes"]}
    assert accused == {}
    assert len(CORRECT) >= 50


def test_every_code_has_a_case(judged):
    yielded = {code for case in WRONG for code in judged(case)["codes"]}
    yielded |= {code for case in CORRECT for code in judged(case)["notes"]}
    assert yielded | WITHOUT_A_CASE.keys() == CODES.keys()
    assert not yielded & WITHOUT_A_CASE.keys(), "these have a case now"
