"""The cases that a pull request judges; .ci/nightly judges the whole corpus.

`kill_matrix.csv` beside this file, written by tools/kill_matrix.py, says which checks reject each
case. A pull request judges few cases, chosen one after the other by how many of these they add:

- wrong cases of every code, surface and argument of ``check``, that every check rejects, and that
  this check alone rejects, if it has any,
- correct cases of every surface, schedule and argument, that every check is run on,
- and every case that has no row yet.

Every encoding conforms on every library by day as well (tests/conformance/registry).
"""

import csv
from functools import cache
from pathlib import Path

import pytest

from ._case import CORRECT, WRONG
from .kills import Row

MATRIX = Path(__file__).with_name("kill_matrix.csv")
#: Codes of cases for which no other code is accepted.
CERTAIN = {case.expected[0] for case in WRONG if len(case.expected) == 1}


def read():
    """Return the rows of the matrix, by name of the case."""
    with MATRIX.open(newline="", encoding="utf-8") as file:
        _, *checks = next(lines := csv.reader(file))
        return {
            name: Row(
                frozenset(c for c, cell in zip(checks, cells, strict=True) if cell),
                frozenset(c for c, cell in zip(checks, cells, strict=True) if cell == "1"),
            )
            for name, *cells in lines
        }


def write(rows):
    """Write the matrix: 1 where the check rejects the case, 0 where it does not, "" unasked."""
    checks = sorted({check for row in rows.values() for check in row.executed | row.kills})
    with MATRIX.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["case", *checks])
        for name, row in rows.items():
            cells = ["1" if c in row.kills else "0" if c in row.executed else "" for c in checks]
            out.writerow([name, *cells])


def select(rows):
    """Return the names of the cases that a pull request judges, given the rows of the matrix."""
    cases = [case for case in [*WRONG, *CORRECT] if case.name in rows]
    chosen = {case.name for case in [*WRONG, *CORRECT]} - rows.keys()
    left = {case.name: _features(case, rows) for case in cases}
    missing = set().union(*left.values())
    while missing:
        best = max(left, key=lambda name: len(left[name] & missing))
        chosen.add(best)
        missing -= left[best]
    return chosen


def selected(cases):
    """Return the cases as parameters of a test; those not selected are marked nightly."""
    names = _names()
    return [
        pytest.param(c, id=c.name, marks=() if c.name in names else pytest.mark.nightly)
        for c in cases
    ]


@cache
def _names():
    return select(read())


def sole(case, rows):
    """Return the only check that rejects a wrong case, or None."""
    kills = rows[case.name].kills if case.expected else ()
    return next(iter(kills)) if len(kills) == 1 else None


def _features(case, rows):
    """Return what a pull request needs one wrong, or one correct, case of."""
    row, right = rows[case.name], not case.expected
    found = {("surface", case.surface), *(("argument", name) for name in case.kwargs)}
    if right:
        encoding = case.encoding or {}
        if "attention" in encoding:
            encoding = encoding["encoding"]
        found.add(("schedule", (encoding.get("scaling") or {}).get("scaling")))
    else:
        found.add(("sole", sole(case, rows)))
        code, *others = case.expected
        if not others or code not in CERTAIN:
            found.add(("code", code))
    found |= {("check", check) for check in (row.executed if right else row.kills)}
    return {(right, *feature) for feature in found}
