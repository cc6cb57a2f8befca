"""Cases from outside are judged as frozen.json says, and docs/causes.md counts their grades."""

import json
import re
from collections import Counter
from pathlib import Path

from tests.authors import cases, graded

ROOT = Path(__file__).resolve().parents[1]
#: Wrong cases that conform, and why.
PASSED = {
    **dict.fromkeys(
        (
            *("a180", "a181", "b211", "d023", "j018", "j019", "j089", "n006", "o001", "o140"),
            *("u/a5-041", "v/s09", "v/s11", "y/a9-047"),
        ),
        "wrong at negative or fractional positions only, which callers seldom send: a note",
    ),
    **dict.fromkeys(("l004", "n009", "n064", "r001"), "changes vectors, but no logit: a note"),
    **dict.fromkeys(("o010", "o167"), "as accurate as float32 angles"),
    "u/a5-042": "positions (S,) of several axes are accepted and answered wrongly: a note",
    "x/a8-031": "wrong from 256 real tokens on, more than the declared table has rows for",
    "m073": "numbers of offsets that are no rows of the table: a note",
    "n106": "another eps in a norm, which is not declared",
    "o041": "wrong at negative positions of a table with an offset, which are not tried",
    "j081": "wrong for positions (S,) only, where (A, B, S) are asked for",
    "b303": "a float32 x is returned as float64: a note",
    "c007": "int32 positions wrap past 2**31: a note",
    "h016": "a float16 x is returned as float32: a note",
    "g001": "int32 positions wrap past 2**31: a note",
    "f185": "int64 positions past 2**24 pass through float32: a note",
}


def frozen():
    return json.loads((ROOT / "tests" / "frozen.json").read_text(encoding="utf-8"))["authors"]


def test_every_case_is_graded():
    assert cases().keys() == graded().keys() == frozen().keys()
    for name, case in cases().items():
        of_right = graded()[name].grade in ("ok", "accused", "inconclusive")
        assert of_right == case["right"], name


def test_wrong_cases_deviate_and_right_ones_conform():
    verdicts = {name: row["verdict"] for name, row in frozen().items()}
    passed = {n for n, case in cases().items() if not case["right"] and verdicts[n] != "deviates"}
    assert passed == PASSED.keys()
    assert {verdicts[n] for n, case in cases().items() if case["right"]} == {"conforms"}


def test_the_page_counts_the_grades():
    page = (ROOT / "docs" / "causes.md").read_text(encoding="utf-8")
    names = "[a-z]+th|first|second|third|twenty-first"
    rows = re.findall(rf"^\| ({names}) \|((?: \d+ \|){{8}})$", page, re.MULTILINE)
    for number, (_, cells) in enumerate(rows, 1):
        c = Counter(grade.grade for grade in graded().values() if grade.set == number)
        wrong = [c[name] for name in ("true", "partly", "vague", "misleading")]
        total = sum(wrong) + c["missed"]
        right = [c["ok"] + c["accused"] + c["inconclusive"], c["accused"]]
        assert [int(cell) for cell in cells.split("|")[:-1]] == [total, sum(wrong), *wrong, *right]
    assert len(rows) == max(grade.set for grade in graded().values())
