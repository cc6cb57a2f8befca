"""Write the kill matrix: python tools/kill_matrix.py [CASE ...].

It runs every check alone on every case of the corpus, which takes four minutes of one core, and
writes tests/mutants/kill_matrix.csv and docs/generated/kill-matrix.md. With names of cases, it
computes their rows only and reads the others from the file.
"""

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.mutants import CORRECT, WRONG  # noqa: E402
from tests.mutants.kills import alone, row  # noqa: E402
from tests.mutants.selection import read, select, write  # noqa: E402

DOCUMENT = ROOT / "docs/generated/kill-matrix.md"
CASES = {case.name: case for case in [*WRONG, *CORRECT]}
#: How many names are shown in a line.
SHOWN = 4

HEAD = """# The kill matrix

Made by `python tools/kill_matrix.py`: {checks} checks,
{wrong} wrong and {correct} correct implementations. A pull request judges
{wrong_selected} and {correct_selected} of them, `.ci/nightly` all.
`tests/conformance/test_kills.py` compares this page with the corpus.

Each check runs **alone**: it makes its usual probes, and findings of other checks neither count nor
stop the run. Properties of `apply` are judged without the encoding. *Asked* counts the wrong
implementations that the check judged, *kills* those that it rejects, *sole* those that no other
check rejects. No check rejects a correct implementation.

| check | asked | kills | sole | for example |
|---|---:|---:|---:|---|
"""
CODES = """
## Wrong implementations, by expected code

| code | cases | |
|---|---:|---|
"""
RIGHT = """
## Correct implementations

"""


def matrix(names):
    """Return the rows of these cases, by name."""
    with ProcessPoolExecutor() as pool:
        return dict(zip(names, pool.map(_row, names, chunksize=8), strict=True))


def _row(name):
    return row(CASES[name])


def accused(rows):
    """Return the correct cases that a check rejects when it runs alone."""
    return {
        (case.name, check)
        for case in CORRECT
        for check in rows[case.name].kills
        if alone(case, check).verdict != "conforms"
    }


def document(rows):
    """Return the page."""
    wrong = {c.name: rows[c.name] for c in WRONG}
    asked = Counter(check for r in wrong.values() for check in r.executed)
    kills = Counter(check for r in wrong.values() for check in r.kills)
    sole = {check: [] for check in sorted(asked | kills, key=lambda c: (-kills[c], c))}
    for name, r in wrong.items():
        if len(r.kills) == 1:
            sole[next(iter(r.kills))].append(name)
    selected = select(rows)
    head = HEAD.format(
        checks=len(sole),
        wrong=len(WRONG),
        correct=len(CORRECT),
        wrong_selected=len(selected & wrong.keys()),
        correct_selected=len(selected - wrong.keys()),
    )
    lines = [head]
    for check, names in sole.items():
        shown = names[:SHOWN] or [n for n, r in wrong.items() if check in r.kills][:1]
        more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        text = ", ".join(f"`{name}`" for name in shown) + more
        lines.append(
            f"| {check.replace('|', '/')} | {asked[check]} | {kills[check]} | {len(names)} "
            f"| {text} |\n"
        )
    lines.append(CODES)
    by_code = {}
    for case in WRONG:
        by_code.setdefault(case.expected[0], []).append(case.name)
    for code, names in sorted(by_code.items()):
        lines.append(f"| `{code}` | {len(names)} | {', '.join(sorted(names))} |\n")
    lines += [RIGHT, ", ".join(sorted(c.name for c in CORRECT)), ".\n"]
    return "".join(lines)


def faults(rows):
    """Return the checks that reject nothing, and the cases that are judged wrongly."""
    wrong = {case.name: rows[case.name] for case in WRONG}
    idle = {c for r in rows.values() for c in r.executed}
    idle -= {c for r in wrong.values() for c in r.kills}
    found = [f"the check {check} rejects no case" for check in sorted(idle)]
    found += [f"no check rejects {name}" for name, r in wrong.items() if not r.kills]
    return found + [f"{check} rejects the correct {name}" for name, check in accused(rows)]


def main():
    """Compute the rows, and write the file and the page unless there are faults."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="names; default: all")
    chosen = parser.parse_args().cases
    if unknown := sorted(set(chosen) - CASES.keys()):
        parser.error(f"there are no cases {', '.join(unknown)}")
    rows = (read() if chosen else {}) | matrix(chosen or list(CASES))
    if missing := [name for name in CASES if name not in rows]:
        sys.exit(f"name these cases as well: {', '.join(missing)}")
    rows = {name: rows[name] for name in CASES}
    if found := faults(rows):
        sys.exit("\n".join(found))
    write(rows)
    DOCUMENT.write_text(document(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
